//! Which of several edits a refusal is about.

use crate::error::{Error, ErrorKind};
use crate::text::replace;

/// An edit by its number from 1 and the number of all, where there are several.
#[derive(Debug, Clone, Copy)]
pub struct Named(pub Option<(usize, usize)>);

impl Named {
    /// A refusal of the edit itself.
    pub fn invalid(self, field: &str, message: &str) -> Error {
        let field = match self.0 {
            Some((number, _)) => format!("edits[{}].{field}", number - 1),
            None => field.to_owned(),
        };
        Error::invalid(format!("{}{message}", self.prefix())).detail("field", field)
    }

    /// A refusal of what was found in the file.
    pub fn refusal(self, kind: ErrorKind, message: &str, shown: &str) -> Error {
        self.of_several(Error::new(kind, format!("{}{message}", self.prefix())).at(shown))
    }

    /// Adds to a refusal which of several edits it is, and what became of the others.
    pub fn of_several(self, error: Error) -> Error {
        match self.0 {
            Some((number, _)) => error.detail("edit", number).detail("applied", 0),
            None => error,
        }
    }

    /// Its number among several edits, from 1.
    pub fn number(self) -> Option<usize> {
        self.0.map(|(number, _)| number)
    }

    /// Which of several edits this is, for a message.
    fn prefix(self) -> String {
        self.0.map(|(number, total)| format!("edit {number} of {total}: ")).unwrap_or_default()
    }

    /// Refuses an edit that changes nothing.
    pub fn must_change(self, old: &str, new: &str) -> Result<(), Error> {
        if old.is_empty() {
            return Err(self
                .invalid("old_string", "old_string is empty")
                .suggest("Name the text to replace. `insert` adds text. `write` creates a file."));
        }
        if old == new {
            return Err(
                self.invalid("new_string", "old_string and new_string are equal: there is nothing to change")
            );
        }
        if replace::same_but_for_endings(old.as_bytes(), new.as_bytes()) {
            let message = "old_string and new_string differ in their line endings alone, which an edit keeps as they are";
            return Err(self.invalid("new_string", message).suggest("Change line endings with `write`."));
        }
        Ok(())
    }
}
