//! One edit of a request: its fields, and the checked step that it becomes.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{Error, ErrorKind};
use crate::sha256::DigestStart;
use crate::text::lines::LineSpan;
use crate::text::replace;

/// One edit, checked.
#[derive(Debug, Clone)]
pub struct EditStep {
    /// What it looks for and what comes there.
    pub what: What,
    /// Lines of the file, as it was before the call, to which it is narrowed.
    pub lines: Option<LineSpan>,
    /// SHA-256 that the bytes of these lines must have.
    pub range_sha256: Option<DigestStart>,
    /// Which of several it is.
    pub named: Named,
}

/// What an edit does.
#[derive(Debug, Clone)]
pub enum What {
    /// Replaces a text.
    Text(TextToReplace),
    /// Replaces the lines it is narrowed to.
    Lines {
        /// The new lines.
        new: String,
    },
    /// Brings lines into the form of a sketch.
    Sketch {
        /// The sketch.
        sketch: String,
    },
}

/// A text to be replaced.
#[derive(Debug, Clone)]
pub struct TextToReplace {
    /// The text.
    pub old: String,
    /// What comes in its place.
    pub new: String,
    /// Whole words only.
    pub word: bool,
    /// Which of its places are meant.
    pub count: Count,
    /// True if it may differ from the file in what never matters.
    pub flexible: bool,
}

impl EditStep {
    /// Checks an edit; `flexible` is how it matches where it does not say.
    ///
    /// # Errors
    /// Returns `invalid_request` if there is nothing to find or to change, or where fields contradict.
    pub fn new(item: EditItem, number: Option<(usize, usize)>, flexible: bool) -> Result<Self, Error> {
        let named = Named(number);
        let lines = item.lines(named)?;
        let count = item.count(named)?;
        let range_sha256 = item.range_sha256.clone();
        let step = |what| Self { what, lines, range_sha256, named };
        if item.range_sha256.is_some() && lines.is_none() {
            return Err(named.invalid("range_sha256", "range_sha256 needs start_line and end_line"));
        }
        let Some(old) = item.old_string else {
            return match lines {
                Some(_) if item.word || count != Count::One => Err(named.invalid(
                    "old_string",
                    "lines are replaced as they are: word, replace_all, expected_replacements and occurrence need old_string",
                )),
                Some(_) if item.start_line.is_none() || item.end_line.is_none() => Err(named.invalid(
                    "end_line",
                    "to replace lines, give both start_line and end_line",
                )),
                Some(_) => Ok(step(What::Lines { new: item.new_string })),
                None => Err(named.invalid("old_string", "field `old_string` is missing")),
            };
        };
        let flexible = item.r#match.map_or(flexible, |how| how == Match::Flexible);
        named.must_change(&old, &item.new_string)?;
        Ok(step(What::Text(TextToReplace { old, new: item.new_string, word: item.word, count, flexible })))
    }

    /// Returns a sketch of all the file, or of some of its lines.
    ///
    /// # Errors
    /// Returns `invalid_request` for lines that there cannot be.
    pub fn of_sketch(item: &EditItem, sketch: String) -> Result<Self, Error> {
        let lines = item.lines(Named(None))?;
        if item.range_sha256.is_some() && lines.is_none() {
            return Err(Named(None).invalid("range_sha256", "range_sha256 needs start_line and end_line"));
        }
        Ok(Self {
            what: What::Sketch { sketch },
            lines,
            range_sha256: item.range_sha256.clone(),
            named: Named(None),
        })
    }

    /// Returns true if it replaces lines that are named by their numbers.
    pub const fn is_by_number(&self) -> bool {
        matches!(self.what, What::Lines { .. })
    }

    /// Returns the new text, where it is all of what will stand there.
    pub fn new_text(&self) -> Option<&str> {
        match &self.what {
            What::Text(wanted) => Some(&wanted.new),
            What::Lines { new } => Some(new),
            What::Sketch { .. } => None,
        }
    }
}

/// One of several edits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditItem {
    /// Text to find
    #[schemars(extend("x-aliases" = ["old_str", "old_text", "before", "search"]))]
    pub old_string: Option<String>,
    /// Text to put in its place
    #[schemars(extend("x-aliases" = ["new_str", "new_text", "after", "replace", "replacement"]))]
    pub new_string: String,
    /// Replace whole words only
    #[serde(default)]
    pub word: bool,
    /// Replace every place
    #[serde(default)]
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
    /// SHA-256 of the bytes of those lines, 8 digits or more, for lines that were not read; without `old_string`
    /// they are replaced whole
    pub range_sha256: Option<DigestStart>,
    /// How `old_string` may match
    pub r#match: Option<Match>,
}

/// How the text to find may match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// Byte for byte, line endings aside
    #[default]
    Exact,
    /// Also where blanks at line ends, indentation, typographic characters, copied line numbers,
    /// escapes or blank lines differ, if the match is unique
    Flexible,
}

/// Which of several places are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// The only one.
    One,
    /// All.
    All,
    /// All, and there must be so many.
    Exactly(usize),
    /// The one of this number, from 1.
    Nth(usize),
}

impl EditItem {
    /// Returns the lines to which it is narrowed.
    ///
    /// # Errors
    /// Returns `invalid_request` for lines that there cannot be.
    pub fn lines(&self, named: Named) -> Result<Option<LineSpan>, Error> {
        for (field, value) in [("start_line", self.start_line), ("end_line", self.end_line)] {
            if value == Some(0) {
                return Err(named.invalid(field, &format!("{field} counts from 1")));
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
            return Err(named.invalid("end_line", &format!("end_line {last} is before start_line {first}")));
        }
        Ok(Some(LineSpan { first, last }))
    }

    /// Returns which of several places are meant.
    ///
    /// # Errors
    /// Returns `invalid_request` if that is said in two ways.
    pub fn count(&self, named: Named) -> Result<Count, Error> {
        match (self.replace_all, self.expected_replacements, self.occurrence) {
            (_, Some(0), _) => {
                Err(named.invalid("expected_replacements", "expected_replacements counts from 1"))
            }
            (_, _, Some(0)) => Err(named.invalid("occurrence", "occurrence counts from 1")),
            (false, None, Some(number)) => Ok(Count::Nth(number)),
            (_, _, Some(_)) => Err(named.invalid(
                "occurrence",
                "occurrence names one place, replace_all and expected_replacements all of them: give one",
            )),
            (_, Some(expected), None) => Ok(Count::Exactly(expected)),
            (true, None, None) => Ok(Count::All),
            (false, None, None) => Ok(Count::One),
        }
    }
}

/// An edit by its number from 1 and the number of all, where there are several.
#[derive(Debug, Clone, Copy)]
pub struct Named(pub Option<(usize, usize)>);

impl Named {
    /// Returns a refusal of the edit itself.
    pub fn invalid(self, field: &str, message: &str) -> Error {
        let field = match self.0 {
            Some((number, _)) => format!("edits[{}].{field}", number - 1),
            None => field.to_owned(),
        };
        Error::invalid(format!("{}{message}", self.prefix())).detail("field", field)
    }

    /// Returns a refusal of what was found in the file.
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

    /// Returns its number among several edits, from 1.
    pub fn number(self) -> Option<usize> {
        self.0.map(|(number, _)| number)
    }

    /// Returns which of several edits this is, for a message.
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
