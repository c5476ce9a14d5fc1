//! Which tools clients may see, and which of them a server has (`--tools`).

use crate::catalog::{self, TOOLS};
use crate::dialect::{Dialect, DialectTool};
use crate::error::Error;
use crate::tools::{Effect, ToolEntry};

/// The tools that clients may see.
pub fn served() -> impl Iterator<Item = &'static ToolEntry> {
    TOOLS.iter().filter(|tool| tool.served)
}

/// The tool of that name or alias, where clients see it.
#[must_use]
pub fn find(name: &str) -> Option<&'static ToolEntry> {
    catalog::find(name).filter(|tool| tool.served)
}

/// Which tools a server has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Every tool.
    #[default]
    All,
    /// The few that most work needs; of a model family all.
    Core,
    /// Those that change nothing.
    ReadOnly,
    /// Those named.
    Named(Vec<String>),
}

impl Wanted {
    /// The tools of that description: `all`, `core`, `read-only`, or names with commas between.
    ///
    /// # Errors
    /// `invalid_request` where a name is none that this server could have.
    pub fn parse(text: &str, dialect: Option<&Dialect>) -> Result<Self, Error> {
        match text {
            "all" => return Ok(Self::All),
            "core" => return Ok(Self::Core),
            "read-only" => return Ok(Self::ReadOnly),
            _ => {}
        }
        let known: Vec<&str> = match dialect {
            Some(dialect) => dialect.tools.iter().map(|tool| tool.name).collect(),
            None => served().map(|tool| tool.name).collect(),
        };
        let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
            return Err(Error::invalid(format!("--tools: unknown tool {unknown:?}"))
                .suggest(format!("Use all, core, read-only, or names of these: {}.", known.join(", ")))
                .detail("field", "tools"));
        }
        if names.is_empty() {
            return Err(Error::invalid("--tools names no tool").detail("field", "tools"));
        }
        Ok(Self::Named(names.into_iter().map(str::to_owned).collect()))
    }

    /// Whether the server has this tool.
    #[must_use]
    pub fn has(&self, tool: &ToolEntry) -> bool {
        match self {
            Self::All => true,
            Self::Core => tool.core,
            Self::ReadOnly => tool.effect == Effect::Reads,
            Self::Named(names) => names.iter().any(|name| name == tool.name),
        }
    }

    /// Whether the server has this tool of a model family.
    #[must_use]
    pub fn has_foreign(&self, tool: &DialectTool) -> bool {
        match self {
            Self::All | Self::Core => true,
            Self::ReadOnly => tool.effect == Effect::Reads,
            Self::Named(names) => names.iter().any(|name| name == tool.name),
        }
    }
}
