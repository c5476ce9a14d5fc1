//! One edit of a request, checked.

use super::item::{Count, EditItem, Match};
use super::named::Named;
use crate::error::Error;
use crate::sha256::DigestStart;
use crate::text::line_range::LineSpan;

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
    /// Whether it may differ from the file in what never matters.
    pub flexible: bool,
}

impl EditStep {
    /// Checks an edit; `flexible` is how it matches where it does not say.
    ///
    /// # Errors
    /// `invalid_request` where there is nothing to find or to change, or where fields contradict.
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

    /// A sketch of all the file, or of some of its lines.
    ///
    /// # Errors
    /// `invalid_request` for lines that there cannot be.
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

    /// The new text, where it is all of what will stand there.
    pub fn new_text(&self) -> Option<&str> {
        match &self.what {
            What::Text(wanted) => Some(&wanted.new),
            What::Lines { new } => Some(new),
            What::Sketch { .. } => None,
        }
    }
}
