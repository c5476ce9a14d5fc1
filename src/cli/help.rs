//! `lbx help`: what there is, a tool's own help, and the page that teaches a model.

use std::ffi::OsString;

use super::words;

/// What a harness puts into a system prompt: who has read it uses every tool rightly.
pub const AGENTS: &str = include_str!("agents.md");

/// What arguments ask for, once `help` is understood.
pub enum Asked {
    /// Something for the parser.
    Call(Vec<OsString>),
    /// A page.
    Page(&'static str),
}

/// `lbx help TOOL` is `lbx TOOL --help`, and `lbx help agents` a page.
#[must_use]
pub fn understood(mut arguments: Vec<OsString>) -> Asked {
    let asks = |index: &usize| arguments.get(*index).is_some_and(|word| word == "help");
    let Some(index) = words::tool_index(&arguments).filter(asks) else {
        return Asked::Call(arguments);
    };
    arguments.remove(index);
    if arguments.get(index).is_some_and(|word| word == "agents") {
        return Asked::Page(AGENTS);
    }
    arguments.push(OsString::from("--help"));
    Asked::Call(arguments)
}
