//! Why edits do not apply to a text.

use std::ops::Range;

use super::edited::{Body, PLACES_MAX};
use super::find::Missed;
use super::named::Named;
use super::step::{EditStep, TextToReplace};
use super::words::{self, Shas, Text};
use crate::error::{Error, ErrorKind};
use crate::text::checked::Fault;
use crate::text::counted::counted;
use crate::text::line_range::LineSpan;
use crate::text::lines;
use crate::text::sketch::Refusal;

/// Why the edits of a request do not apply to a text.
#[derive(Debug)]
pub struct Miss<'a> {
    /// The edit that misses.
    pub(super) named: Named,
    /// The lines to which it is narrowed.
    lines: Option<LineSpan>,
    /// The text, as the edits before have made it.
    body: Body<'a>,
    /// What is wrong.
    why: Why<'a>,
}

/// What is wrong with an edit of a text.
#[derive(Debug)]
pub enum Why<'a> {
    /// Its old text does not name what to replace, within these bytes.
    Text(&'a TextToReplace, Missed, Range<usize>),
    /// Its sketch has no one meaning.
    Sketch(Refusal),
    /// The line that this field names is not in the text.
    PastEnd(&'static str, u64),
    /// Its lines, the second ones, are in part those of another edit.
    Overlap(LineSpan, LineSpan),
    /// Its lines, which are these bytes, are not those that were read.
    OtherLines(Range<usize>, Shas),
    /// An edit before it has changed its lines.
    Touched,
    /// It replaces so many places, more than can be kept.
    TooManyPlaces(usize),
    /// Only so many edits of all were done in time.
    OutOfTime(usize, usize),
    /// The new text cannot be made.
    Fault(Fault),
}

impl From<Fault> for Why<'_> {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Fault> for Box<Miss<'_>> {
    fn from(fault: Fault) -> Self {
        let body = Body::Borrowed(b"");
        Self::new(Miss { named: Named(None), lines: None, body, why: Why::Fault(fault) })
    }
}

impl<'a> Miss<'a> {
    /// That of an edit.
    pub fn of(step: &EditStep, body: Body<'a>, why: Why<'a>) -> Box<Self> {
        Box::new(Self { named: step.named, lines: step.lines, body, why })
    }

    /// The text that was looked for and is not in the file.
    pub fn missing_text(&self) -> Option<&[u8]> {
        match &self.why {
            Why::Text(_, Missed::TooMany(..), _) => None,
            Why::Text(_, Missed::Nowhere(outside), _) if self.lines.is_some() && !outside.is_empty() => None,
            Why::Text(wanted, ..) => Some(wanted.old.as_bytes()),
            _ => None,
        }
    }

    /// The refusal, of the file at the path that is shown.
    pub fn error(&self, shown: &str) -> Error {
        let (named, body) = (self.named, &*self.body);
        let between = |lines: LineSpan| format!("lines {} to {}", lines.first, lines.last);
        match &self.why {
            Why::Text(wanted, missed, scope) => {
                let text = Text { body, named, wanted, lines: self.lines, shown };
                text.error(missed, scope)
            }
            Why::Sketch(refusal) => words::sketch(refusal, shown),
            Why::PastEnd(field, line) => {
                let total = lines::count(body);
                let has = counted(total, "line");
                let message = format!("line {line} is past the end: {shown} has {has}");
                named.invalid(field, &message).at(shown).detail("total_lines", total)
            }
            Why::Overlap(one, other) => {
                let (one, other) = (between(*one), between(*other));
                let message = format!("{one} and {other} overlap: make one edit of the two");
                named.of_several(named.invalid("start_line", &message))
            }
            Why::OtherLines(scope, shas) => {
                let there = body.get(scope.clone()).unwrap_or_default();
                let lines = self.lines.map_or_else(String::new, between);
                let error = words::other_lines(named, &lines, there, shas, shown);
                match self.lines {
                    Some(LineSpan { first, last }) => {
                        error.detail("start_line", first).detail("end_line", last)
                    }
                    None => error,
                }
            }
            Why::Touched => named.of_several(named.invalid(
                "start_line",
                "an edit before it in the list has changed its lines: make one edit of the two",
            )),
            Why::TooManyPlaces(count) => {
                let message = format!(
                    "old_string appears {count} times in {shown}; among several edits at most {PLACES_MAX} can be replaced"
                );
                named
                    .refusal(ErrorKind::TooLarge, &message, shown)
                    .suggest("Make this edit in a call of its own.")
            }
            Why::OutOfTime(done, all) => {
                let message = format!(
                    "the edits of {shown} ran out of time after {done} of {all}; nothing was changed"
                );
                named.of_several(Error::new(ErrorKind::Timeout, message).at(shown)).suggest(
                    "Give fewer edits in one call, with old strings exactly as they are in the file.",
                )
            }
            Why::Fault(fault) => fault.error(shown),
        }
    }
}
