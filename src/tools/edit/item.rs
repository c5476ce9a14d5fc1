//! One edit of a request, as it is given.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Deserialize;

use super::named::Named;
use crate::error::Error;
use crate::sha256::DigestStart;
use crate::text::line_range::LineSpan;

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
    /// The lines to which it is narrowed.
    ///
    /// # Errors
    /// `invalid_request` for lines that there cannot be.
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

    /// Which of several places are meant.
    ///
    /// # Errors
    /// `invalid_request` where that is said in two ways.
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
