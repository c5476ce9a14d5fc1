//! Undo by a developer at a terminal: shows the last change of an agent and asks for consent.

use std::io::{BufRead as _, Read as _, Write as _};
use std::path::PathBuf;

use clap::ArgMatches;

use crate::app::options::Options;
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::history::replay::Direction;
use crate::engine::policy::Policy;
use crate::error::{Error, ErrorKind};
use crate::tools::undo::{Redo, Undo, newest_of_others};
use crate::tools::{Tool as _, ToolEntry};

/// Largest answer of the person, in bytes.
const ANSWER_BYTES_MAX: u64 = 64;

/// Returns the session whose change a person at a terminal wants to undo or redo; `None` for the caller's own.
///
/// # Errors
/// Fails if the person says no.
pub fn session_meant(
    tool: &ToolEntry,
    matches: &ArgMatches,
    options: &Options,
) -> Result<Option<String>, Error> {
    let direction = match tool.name {
        Undo::NAME => Direction::Undo,
        Redo::NAME => Direction::Redo,
        _ => return Ok(None),
    };
    let turn = matches.try_get_one::<u64>("turn").ok().flatten();
    let names_a_change = matches.try_get_one::<u64>("seq").is_ok_and(|seq| seq.is_some())
        || turn.is_some_and(|turn| *turn > 0);
    if !options.person || options.session.is_some() || names_a_change {
        return Ok(None);
    }
    let workspace = options.open_workspace()?;
    let policy = Policy::load(&workspace, &options.policy)?;
    let engine = Engine::under(policy, workspace, options.session_id()?, Control::default());
    let path = matches.try_get_one::<PathBuf>("path").ok().flatten();
    let Some(other) = newest_of_others(&engine, direction, path.map(PathBuf::as_path))? else {
        return Ok(None);
    };
    let (name, session) = (direction.name(), other.session);
    let what =
        if turn.is_some() { other.turn } else { format!("change is of session {session}: {}", other.change) };
    let question = format!("{name}: the last {what}. Go on? [y/N] ");
    if agrees(&question) {
        return Ok(Some(session));
    }
    Err(Error::new(ErrorKind::CommandDenied, "you did not agree; nothing was changed")
        .suggest(format!("To {name} it without a question, name the session: --session {session}.")))
}

/// Asks the person at the terminal.
fn agrees(question: &str) -> bool {
    let mut error = std::io::stderr();
    let asked = error.write_all(question.as_bytes()).and_then(|()| error.flush());
    let mut answer = String::new();
    let read = std::io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut answer);
    asked.is_ok() && read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
