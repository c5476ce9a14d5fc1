//! Filters the tools: those that clients may see, and those of one server (`--tools`).

use crate::catalog::{self, TOOLS};
use crate::dialect::{Dialect, DialectTool};
use crate::error::Error;
use crate::tools::{Effect, ToolEntry};

/// Returns the tools that clients may see.
pub fn served() -> impl Iterator<Item = &'static ToolEntry> {
    TOOLS.iter().filter(|tool| tool.served)
}

/// Returns a tool by name or alias, if clients see it.
#[must_use]
pub fn find(name: &str) -> Option<&'static ToolEntry> {
    catalog::find(name).filter(|tool| tool.served)
}

/// Filter for the tools of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Every tool.
    #[default]
    All,
    /// The few tools that most work needs; all tools of a model family.
    Core,
    /// Tools that change nothing.
    ReadOnly,
    /// Tools with these names.
    Named(Vec<String>),
}

impl Wanted {
    /// Parses a filter: `all`, `core`, `read-only`, or names separated by commas.
    ///
    /// # Errors
    /// Fails with `invalid_request` if this server cannot have a tool of that name.
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

    /// Returns true if the server has this tool.
    #[must_use]
    pub fn has(&self, tool: &ToolEntry) -> bool {
        match self {
            Self::All => true,
            Self::Core => tool.core,
            Self::ReadOnly => tool.effect == Effect::Reads,
            Self::Named(names) => names.iter().any(|name| name == tool.name),
        }
    }

    /// Returns true if the server has this tool of a model family.
    #[must_use]
    pub fn has_foreign(&self, tool: &DialectTool) -> bool {
        match self {
            Self::All | Self::Core => true,
            Self::ReadOnly => tool.effect == Effect::Reads,
            Self::Named(names) => names.iter().any(|name| name == tool.name),
        }
    }
}
