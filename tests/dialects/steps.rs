//! The steps of a transcript: a call of a family's tool, and what it must say.

use serde_json::Value;

use crate::common::Workspace;

/// One call in a transcript, and what it must say.
pub struct Step {
    /// The tool.
    pub tool: &'static str,
    /// Its request; `$ROOT` stands for the workspace root.
    pub request: Value,
    /// What it says.
    pub says: Says,
}

/// What a call says.
pub enum Says {
    /// Just this.
    Just(&'static str),
    /// This among other things.
    With(&'static str),
    /// An error with this in it.
    Error(&'static str),
}

/// A step.
pub fn step(tool: &'static str, request: Value, says: Says) -> Step {
    Step { tool, request, says }
}

/// The files that every transcript begins with.
pub const FILES: &[(&str, &str)] = &[
    ("a.txt", "one\ntwo\nthree\n"),
    ("twice.txt", "same\nother\nsame\n"),
    ("empty.txt", ""),
    ("src/main.rs", "fn main() {\n    two();\n}\n"),
];

/// A text of a transcript in this workspace.
pub fn placed(ws: &Workspace, text: &str) -> String {
    text.replace("$ROOT", &ws.root.display().to_string())
}

/// A request of a transcript in this workspace.
pub fn request(ws: &Workspace, request: &Value) -> Value {
    serde_json::from_str(&placed(ws, &request.to_string())).unwrap()
}

/// Checks what was said.
#[track_caller]
pub fn check(ws: &Workspace, step: &Step, is_error: bool, said: &str) {
    let shown = format!("{} {}\nsaid: {said:?}", step.tool, step.request);
    match step.says {
        Says::Just(text) => {
            assert!(!is_error, "{shown}");
            assert_eq!(said.trim_end_matches('\n'), placed(ws, text), "{shown}");
        }
        Says::With(text) => {
            assert!(!is_error, "{shown}");
            assert!(said.contains(&placed(ws, text)), "{shown}\nwithout: {text:?}");
        }
        Says::Error(text) => {
            assert!(is_error, "{shown}");
            assert!(said.contains(&placed(ws, text)), "{shown}\nwithout: {text:?}");
        }
    }
}
