//! One edit of a request: its fields, and the checked step.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{Error, ErrorKind, Message, text};
use crate::sha256::DigestStart;
use crate::text::lines::LineSpan;
use crate::text::replace;

/// Checked edit.
#[derive(Debug, Clone)]
pub struct EditStep {
    /// Text to find and its replacement.
    pub what: EditKind,
    /// Lines that the edit is limited to, numbered as before the call.
    pub lines: Option<LineSpan>,
    /// SHA-256 that the bytes of these lines must have.
    pub range_sha256: Option<DigestStart>,
    /// Number of the edit among several.
    pub named: EditNumber,
}

/// Kind of edit.
#[derive(Debug, Clone)]
pub enum EditKind {
    /// Replacement of a text.
    Text(TextToReplace),
    /// Replacement of its lines.
    Lines {
        /// New lines.
        new: String,
    },
    /// Conversion of lines to the form of a sketch.
    Sketch {
        /// Text of the sketch.
        sketch: String,
    },
}

/// Text to replace.
#[derive(Debug, Clone)]
pub struct TextToReplace {
    /// Old text.
    pub old: String,
    /// New text.
    pub new: String,
    /// True if only whole words match.
    pub word: bool,
    /// Selected matches.
    pub count: MatchCount,
    /// True if the text may differ from the file in insignificant ways.
    pub flexible: bool,
}

impl EditStep {
    /// Checks an edit; `flexible` is the default of its match mode.
    ///
    /// # Errors
    /// Returns `invalid_request` if there is nothing to find or to change, or fields contradict each other.
    pub fn new(item: EditItem, number: Option<(usize, usize)>, flexible: bool) -> Result<Self, Error> {
        let named = EditNumber(number);
        let lines = item.lines(named)?;
        let count = item.count(named)?;
        let range_sha256 = item.range_sha256.clone();
        let step = |what| Self { what, lines, range_sha256, named };
        if item.range_sha256.is_some() && lines.is_none() {
            return Err(named.invalid("range_sha256", "range_sha256 needs start_line and end_line"));
        }
        let Some(old) = item.old_string else {
            return match lines {
                Some(_) if item.word || count != MatchCount::One => Err(named.invalid(
                    "old_string",
                    "lines are replaced as they are: word, replace_all, expected_replacements and occurrence need old_string",
                )),
                Some(_) if item.start_line.is_none() || item.end_line.is_none() => Err(named.invalid(
                    "end_line",
                    "to replace lines, give both start_line and end_line",
                )),
                Some(_) => Ok(step(EditKind::Lines { new: item.new_string })),
                None => Err(named.invalid("old_string", "field `old_string` is missing")),
            };
        };
        let flexible = item.r#match.map_or(flexible, |how| how == MatchMode::Flexible);
        named.must_change(&old, &item.new_string)?;
        Ok(step(EditKind::Text(TextToReplace {
            old,
            new: item.new_string,
            word: item.word,
            count,
            flexible,
        })))
    }

    /// Returns a sketch of the whole file, or of some of its lines.
    ///
    /// # Errors
    /// Returns `invalid_request` for impossible lines.
    pub fn of_sketch(item: &EditItem, sketch: String) -> Result<Self, Error> {
        let lines = item.lines(EditNumber(None))?;
        if item.range_sha256.is_some() && lines.is_none() {
            return Err(
                EditNumber(None).invalid("range_sha256", "range_sha256 needs start_line and end_line")
            );
        }
        Ok(Self {
            what: EditKind::Sketch { sketch },
            lines,
            range_sha256: item.range_sha256.clone(),
            named: EditNumber(None),
        })
    }

    /// Returns true if it replaces lines named by number.
    pub const fn is_by_number(&self) -> bool {
        matches!(self.what, EditKind::Lines { .. })
    }

    /// Returns true if its text may differ from the file.
    pub const fn is_flexible(&self) -> bool {
        matches!(&self.what, EditKind::Text(wanted) if wanted.flexible)
    }

    /// Returns the text that it writes, with the lines that a sketch only names.
    pub fn written(&self) -> &str {
        match &self.what {
            EditKind::Sketch { sketch } => sketch,
            EditKind::Text(TextToReplace { new, .. }) | EditKind::Lines { new } => new,
        }
    }

    /// Returns the new text, if it is known without the file.
    pub fn new_text(&self) -> Option<&str> {
        match &self.what {
            EditKind::Text(wanted) => Some(&wanted.new),
            EditKind::Lines { new } => Some(new),
            EditKind::Sketch { .. } => None,
        }
    }
}

/// One of several edits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct EditItem {
    /// Text to find
    #[schemars(extend("x-aliases" = ["old_str", "old_text", "before", "search"]))]
    pub old_string: Option<String>,
    /// The replacement
    #[schemars(extend("x-aliases" = ["new_str", "new_text", "after", "replace", "replacement"]))]
    pub new_string: String,
    /// Replace whole words only
    pub word: bool,
    /// Replace all matches
    #[schemars(extend("x-aliases" = ["allow_multiple"]))]
    pub replace_all: bool,
    /// Replace all matches; fail unless there are exactly COUNT
    #[schemars(range(min = 1))]
    pub expected_replacements: Option<usize>,
    /// Replace only the Nth match, from 1
    #[schemars(range(min = 1))]
    pub occurrence: Option<usize>,
    /// First line of the range to search, from 1, as the file was before the call
    #[schemars(range(min = 1))]
    pub start_line: Option<u64>,
    /// Last line of the range to search
    #[schemars(range(min = 1))]
    pub end_line: Option<u64>,
    /// SHA-256 of the bytes of those lines, 8 digits or more, for lines that were not read; without `old_string` all
    /// are replaced
    pub range_sha256: Option<DigestStart>,
    /// How `old_string` may match
    pub r#match: Option<MatchMode>,
}

/// Match mode of the text to find.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum MatchMode {
    /// Exactly, except line endings
    #[default]
    Exact,
    /// Also if blanks at line ends, indentation, typographic characters, copied line numbers, escapes or blank lines
    /// differ, and the match is unique
    Flexible,
}

/// Selection among several matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchCount {
    /// Only match.
    One,
    /// All matches.
    All,
    /// All matches, which must have this number.
    Exactly(usize),
    /// Match with this number, from 1.
    Nth(usize),
}

impl EditItem {
    /// Returns the lines that the edit is limited to.
    ///
    /// # Errors
    /// Returns `invalid_request` for impossible lines.
    pub fn lines(&self, named: EditNumber) -> Result<Option<LineSpan>, Error> {
        for (field, value) in [("start_line", self.start_line), ("end_line", self.end_line)] {
            if value == Some(0) {
                return Err(named.invalid(field, format!("{field} counts from 1")));
            }
        }
        if self.start_line.is_none() && self.end_line.is_none() {
            return Ok(None);
        }
        if self.range_sha256.is_some() && (self.start_line.is_none() || self.end_line.is_none()) {
            return Err(named.invalid("end_line", "range_sha256 needs both start_line and end_line"));
        }
        let (first, last) = (self.start_line.unwrap_or(1), self.end_line.unwrap_or(u64::MAX));
        if last < first {
            return Err(
                named.invalid("end_line", text!("`end_line` {} is before `start_line` {}", last, first))
            );
        }
        Ok(Some(LineSpan { first, last }))
    }

    /// Returns the selection among several matches.
    ///
    /// # Errors
    /// Returns `invalid_request` if the fields select in two ways.
    pub fn count(&self, named: EditNumber) -> Result<MatchCount, Error> {
        match (self.replace_all, self.expected_replacements, self.occurrence) {
            (_, Some(0), _) => {
                Err(named.invalid("expected_replacements", "expected_replacements counts from 1"))
            }
            (_, _, Some(0)) => Err(named.invalid("occurrence", "occurrence counts from 1")),
            (false, None, Some(number)) => Ok(MatchCount::Nth(number)),
            (_, _, Some(_)) => Err(named.invalid(
                "occurrence",
                "occurrence names one place, replace_all and expected_replacements all of them: give one",
            )),
            (_, Some(expected), None) => Ok(MatchCount::Exactly(expected)),
            (true, None, None) => Ok(MatchCount::All),
            (false, None, None) => Ok(MatchCount::One),
        }
    }
}

/// Number of an edit from 1 and number of all edits, if there are several.
#[derive(Debug, Clone, Copy)]
pub struct EditNumber(pub Option<(usize, usize)>);

impl EditNumber {
    /// Returns an error about the edit itself.
    pub fn invalid(self, field: &str, message: impl Into<Message>) -> Error {
        let field = match self.0 {
            Some((number, _)) => format!("edits[{}].{field}", number - 1),
            None => field.to_owned(),
        };
        Error::invalid(self.prefix().followed_by(message)).detail("field", field)
    }

    /// Returns an error about the content of the file.
    pub fn refusal(self, kind: ErrorKind, message: impl Into<Message>, shown: &str) -> Error {
        self.of_several(Error::new(kind, self.prefix().followed_by(message)).at(shown))
    }

    /// Adds the number of the edit to an error, and the state of the others.
    pub fn of_several(self, error: Error) -> Error {
        match self.0 {
            Some((number, _)) => error.detail("edit", number).detail("applied", 0),
            None => error,
        }
    }

    /// Returns its number among several edits, from 1.
    pub fn number(self) -> Option<usize> {
        self.0.map(|(number, _)| number)
    }

    /// Returns the number among several edits, for a message.
    fn prefix(self) -> Message {
        self.0.map(|(number, total)| format!("edit {number} of {total}: ").into()).unwrap_or_default()
    }

    /// Rejects an edit that changes nothing.
    pub fn must_change(self, old: &str, new: &str) -> Result<(), Error> {
        if old.is_empty() {
            return Err(self
                .invalid("old_string", "`old_string` is empty")
                .suggest("Name the text to replace. `insert` adds text. `write` creates a file."));
        }
        if old == new {
            return Err(self.invalid(
                "new_string",
                "`old_string` and `new_string` are equal: there is nothing to change",
            ));
        }
        if replace::differ_only_in_endings(old.as_bytes(), new.as_bytes()) {
            let message = "`old_string` and `new_string` differ in their line endings alone, which an edit keeps as they are";
            return Err(self.invalid("new_string", message).suggest("Change line endings with `write`."));
        }
        Ok(())
    }
}
