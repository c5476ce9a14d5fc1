//! The files that are in the way of taking changes back.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::change::Change;
use crate::engine::history::replay::ReplayConflict;
use crate::engine::workspace::protect::is_state;
use crate::error::{Error, ErrorKind};
use crate::text::escaped;
use crate::tools::{Paint, Text};

/// Files that an error names in its message beside the first.
const NAMED: usize = 5;

/// A file that is in the way.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Conflict {
    /// The file
    pub path: String,
    /// What is wrong with it
    pub message: String,
    /// What to do about it
    pub suggested_action: String,
    /// The lines that both sides changed, with markers around them
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<String>,
}

/// What was found to be in the way, each file once.
#[derive(Debug, Default)]
pub struct Conflicts {
    /// The refusal of each.
    errors: Vec<Error>,
    /// The files among them.
    paths: BTreeSet<String>,
}

impl Conflicts {
    /// Whether nothing is in the way.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Adds the refusal of a file, unless there is one already.
    pub fn add(&mut self, error: Error) {
        if error.path().is_none_or(|path| self.paths.insert(path.to_owned())) {
            self.errors.push(error);
        }
    }

    /// Keeps the refusal of one file, and leaves the others to be looked at.
    ///
    /// # Errors
    /// Any other error.
    pub fn sift<T: Default>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        match result {
            Err(error) if is_of_one_file(&error) => {
                self.add(error);
                Ok(T::default())
            }
            other => other,
        }
    }

    /// The refusal of all of them; `None` where there are none.
    #[must_use]
    pub fn into_error(self) -> Option<Error> {
        let others = |first: &str| self.paths.iter().filter(|path| *path != first).cloned().collect();
        let first = self.errors.into_iter().next()?;
        let others: Vec<String> = others(first.path().unwrap_or_default());
        if others.is_empty() {
            return Some(first);
        }
        let more = others.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named: Vec<&str> = others.iter().take(NAMED).map(String::as_str).collect();
        let addition = format!(" (also conflicting: {}{more})", named.join(", "));
        Some(first.add_to_message(&addition).detail("paths", self.paths.into_iter().collect::<Vec<_>>()))
    }

    /// All of them, for an answer.
    #[must_use]
    pub fn into_list(self) -> Vec<Conflict> {
        self.errors.into_iter().map(|error| Conflict::of(&error)).collect()
    }
}

impl Conflict {
    /// What an error says of its file.
    fn of(error: &Error) -> Self {
        Self {
            path: error.path().unwrap_or_default().to_owned(),
            message: error.message().to_owned(),
            suggested_action: error.suggested_action().to_owned(),
            conflicts: error.details().get("conflicts").and_then(|text| text.as_str()).map(str::to_owned),
        }
    }

    /// The conflict as lines for a reader.
    pub fn as_text(&self, text: &mut Text) {
        let word = text.paint(Paint::Red, "conflict:");
        text.styled(&format!("{word} {}", escaped::line(&self.message)));
        for line in self.conflicts.iter().flat_map(|lines| lines.lines()) {
            text.line(&format!("  {line}"));
        }
    }
}

/// Whether an error says that one file is in the way.
fn is_of_one_file(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::StaleFile | ErrorKind::NotFound) && error.path().is_some()
}

/// The refusal of changes that move what is not there, or to where something is.
pub fn conflict_error(change: &Change<'_>, conflict: &ReplayConflict) -> Error {
    let (path, what, suggestion) = match conflict {
        ReplayConflict::Missing(path) if is_state(path) => (
            path,
            "is no longer in the trash: it was restored or purged since",
            "`trash` lists what is there; `log` shows who restored it.",
        ),
        ReplayConflict::Missing(path) => (
            path,
            "no longer exists, so it cannot be moved back",
            "Bring it back to where this session left it, and repeat the call.",
        ),
        ReplayConflict::Taken(path) => (
            path,
            "cannot come back: something is in its place",
            "Move what is there out of the way, and repeat the call.",
        ),
    };
    let shown = change.shown_original(path);
    Error::new(ErrorKind::StaleFile, format!("{shown} {what}")).at(shown).suggest(suggestion)
}
