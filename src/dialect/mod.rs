//! Dialects: the tools that model families were trained on, implemented with the tools of lbx.
//!
//! A dialect is a list of foreign tools. Each has the name, the parameters and the result texts of its family, and
//! turns a request into native calls ([`client`]). All dialects share one engine, one gate and one history: a dialect
//! implements no file operation itself.

#![expect(clippy::needless_pass_by_value, reason = "each tool gets a request of its own")]

mod amazon_q;
mod anthropic_editor;
mod anthropic_memory;
mod claude;
pub mod client;
mod codex;
mod gemini;
mod mcp_filesystem;
mod notebook;
mod opencode;
mod shell;
mod tool;

use crate::error::Error;
use crate::request;
pub use tool::{Dialect, DialectTool, Media, ToolOutput};

/// All dialects except lbx's own.
pub const DIALECTS: &[Dialect] = &[
    claude::CLAUDE,
    anthropic_editor::EDITOR,
    anthropic_memory::MEMORY,
    codex::CODEX,
    gemini::GEMINI,
    opencode::OPENCODE,
    mcp_filesystem::FILESYSTEM,
    amazon_q::Q,
];

/// Returns the dialect that the options name; `None` for lbx's own tools.
///
/// # Errors
/// Returns `invalid_request` if there is no such dialect.
pub fn chosen(name: Option<&str>) -> Result<Option<&'static Dialect>, Error> {
    let Some(name) = name.filter(|name| *name != "lbx") else { return Ok(None) };
    find(name).map(Some).ok_or_else(|| {
        let names: Vec<&str> = DIALECTS.iter().map(|dialect| dialect.name).collect();
        let name = request::quoted(name);
        Error::invalid(format!("unknown dialect {name:?} (there are: lbx, {})", names.join(", ")))
            .suggest("Name one of these with --dialect (or LBX_DIALECT), or none.")
            .detail("field", "dialect")
    })
}

/// Returns the dialect of this name.
pub fn find(name: &str) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| dialect.name == name)
}

/// Returns the only dialect with a tool of this name, and the tool: among the model families first, then among all.
pub fn owner_of(tool: &str) -> Option<(&'static Dialect, &'static DialectTool)> {
    let only = |is_wanted: fn(&Dialect) -> bool| {
        let dialects = DIALECTS.iter().filter(|dialect| is_wanted(dialect));
        let mut owners = dialects.filter_map(|dialect| Some((dialect, dialect.tool(tool)?)));
        owners.next().map(|first| (first, owners.next().is_none()))
    };
    let owner = only(|dialect| dialect.is_model_family).or_else(|| only(|_| true));
    owner.filter(|(_, is_only)| *is_only).map(|(owner, _)| owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn suggested_actions_name_only_tools_and_fields_of_the_dialect() {
        for dialect in DIALECTS {
            for tool in dialect.tools {
                let words = dialect.vocabulary(tool);
                for kind in ErrorKind::ALL {
                    let said = Error::new(kind, "x").for_family(&words).suggested_action().to_owned();
                    let native = ["`ls`", "`edit`", "`binary`", "`log`", "`require_snapshot`"];
                    let own =
                        |name: &&str| dialect.tools.iter().any(|tool| format!("`{}`", tool.name) == **name);
                    let left = native.iter().find(|name| said.contains(**name) && !own(name));
                    assert_eq!(left, None, "{} {} {kind}: {said}", dialect.name, tool.name);
                    let left = ["sha256", "replace_all"].into_iter().find(|name| said.contains(name));
                    let has = |name: &str| tool.schema().to_string().contains(&format!("\"{name}\":"));
                    assert!(left.is_none_or(has), "{} {} {kind}: {said}", dialect.name, tool.name);
                }
            }
        }
    }
}
