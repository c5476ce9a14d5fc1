//! What a person at a terminal is shown: colours and a pager.
//!
//! Only tools that people use answer so (`Tool::FOR_PEOPLE`), and only where a person reads: agents that
//! have a terminal of their own name their session in the environment, and get JSON there as everywhere.

use std::io::{IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use crate::app::options::Options;
use crate::engine::workspace::children;
use crate::tools::Reader;

/// Options of `less` where the user has none: leave at once what fits on the screen, let colours
/// through, do not clear the screen.
const LESS: &str = "FRX";

/// Whether a person reads what is printed.
#[must_use]
pub fn has_person(options: &Options) -> bool {
    let wants_json = options.json.is_some() || options.json_output || options.pretty;
    may_have_person(options)
        && !wants_json
        && std::io::stdout().is_terminal()
        && std::io::stdin().is_terminal()
}

/// Whether a person may be at the terminal: agents name their session in the environment.
#[must_use]
pub fn may_have_person(options: &Options) -> bool {
    let is_session_of_environment = options.session.is_some() && !options.is_session_named;
    let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
    !is_session_of_environment && !is_dumb
}

/// The reader of what is printed.
#[must_use]
pub fn reader(options: &Options) -> Reader {
    if has_person(options) {
        Reader::Person { color: variable("NO_COLOR").is_none() }
    } else {
        Reader::Program
    }
}

/// Shows a text in the user's pager; false where there is none, and nothing was shown.
#[must_use]
pub fn page(text: &[u8]) -> bool {
    let pager = variable("LBX_PAGER").or_else(|| variable("PAGER")).unwrap_or_else(|| "less".to_owned());
    if pager == "cat" {
        return false;
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("command -v {} >/dev/null || exit 127; exec {pager}", program(&pager))]);
    if variable("LESS").is_none() {
        command.env("LESS", LESS);
    }
    let Ok(mut child) = children::spawn(command.stdin(Stdio::piped())) else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // Whoever leaves the pager early has seen enough.
        let _ = stdin.write_all(text);
    }
    let status = child.wait();
    status.is_ok_and(|status| status.code() != Some(127))
}

/// The first word of a pager's command.
fn program(pager: &str) -> &str {
    pager.split_whitespace().find(|word| !word.contains('=')).unwrap_or(pager)
}

/// A variable of the environment that is set to something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
