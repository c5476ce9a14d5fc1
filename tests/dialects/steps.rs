//! Steps of a transcript: a call of a family's tool, and the expected output.

use serde_json::Value;

use crate::common::Workspace;

/// One call in a transcript, and the expected output.
pub struct Step {
    /// Name of the tool.
    pub tool: &'static str,
    /// Request; `$ROOT` is replaced by the workspace root.
    pub request: Value,
    /// Expected output.
    pub says: Says,
}

/// Expected output of a call.
pub enum Says {
    /// Exactly this text.
    Just(&'static str),
    /// A text that contains this.
    With(&'static str),
    /// An error that contains this.
    Error(&'static str),
}

/// Creates a step.
pub fn step(tool: &'static str, request: Value, says: Says) -> Step {
    Step { tool, request, says }
}

/// Files at the start of every transcript.
pub const FILES: &[(&str, &str)] = &[
    ("a.txt", "one\ntwo\nthree\n"),
    ("twice.txt", "same\nother\nsame\n"),
    ("empty.txt", ""),
    ("src/main.rs", "fn main() {\n    two();\n}\n"),
];

/// Returns a text of a transcript for this workspace.
pub fn placed(ws: &Workspace, text: &str) -> String {
    text.replace("$ROOT", &ws.root.display().to_string())
}

/// Returns a request of a transcript for this workspace.
pub fn request(ws: &Workspace, request: &Value) -> Value {
    serde_json::from_str(&placed(ws, &request.to_string())).unwrap()
}

/// Checks the output.
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
