//! One match as answers show it, read from where it is packed.

use schemars::JsonSchema;
use serde::Serialize;

use super::packed::{Context, PackedMatch, Reader};
use crate::sha256::Sha256;

/// One matching line, or one match of several lines.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Match<'p> {
    /// The file; absent in a group, which names it once
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'p str>,
    /// With `mark`, all bytes of the file; at its first match
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<&'p Sha256>,
    /// Line where the match begins, from 1
    pub line: u64,
    /// Column in bytes where the match begins, from 1
    pub column: u64,
    /// The line without its ending
    pub text: &'p str,
    /// Column where `text` begins; only where the line was too long to be shown whole
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_column: Option<u64>,
    /// Bytes of the whole line; only where it was too long to be shown whole
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_bytes: Option<u64>,
    /// The lines before it, as far as no other match shows them
    #[serde(skip_serializing_if = "Context::is_empty")]
    pub before: Context<'p>,
    /// The lines after it, as far as no other match shows them
    #[serde(skip_serializing_if = "Context::is_empty")]
    pub after: Context<'p>,
    /// How many lines the match itself takes.
    #[serde(skip)]
    #[schemars(skip)]
    pub lines: u64,
    /// Whether all these lines are shown whole.
    #[serde(skip)]
    #[schemars(skip)]
    pub whole: bool,
}

impl<'p> Match<'p> {
    /// A match as it was packed.
    fn of(packed: &PackedMatch<'p>) -> Self {
        let &PackedMatch { ref head, text, before, after } = packed;
        let (text_column, line_bytes) = head.clipped.unzip();
        Self {
            path: None,
            sha256: None,
            line: head.line,
            column: head.column,
            text,
            text_column,
            line_bytes,
            before,
            after,
            lines: head.lines,
            whole: head.whole,
        }
    }

    /// The first and the last line that it shows.
    #[must_use]
    pub fn shown_lines(&self) -> (u64, u64) {
        (self.first_line(), self.line_after().saturating_add(self.after.count()).saturating_sub(1))
    }

    /// The runs of lines that it shows whole.
    pub fn whole_lines(&self) -> impl Iterator<Item = (u64, u64)> + use<'p> {
        let own = self.whole.then(|| (self.line, self.line_after().saturating_sub(1)));
        let whole = |(number, (_, whole)): (u64, (&str, bool))| whole.then_some((number, number));
        let before = (self.first_line()..).zip(self.before.lines()).filter_map(whole);
        let after = (self.line_after()..).zip(self.after.lines()).filter_map(whole);
        before.chain(own).chain(after)
    }

    /// The first line that it shows.
    fn first_line(&self) -> u64 {
        self.line.saturating_sub(self.before.count()).max(1)
    }

    /// The line behind those of the match itself.
    fn line_after(&self) -> u64 {
        self.line.saturating_add(self.lines.max(1))
    }
}

/// The matches in a piece, in order.
#[derive(Debug, Clone)]
pub struct Entries<'p> {
    /// What is not read yet.
    rest: Reader<'p>,
}

impl<'p> Entries<'p> {
    /// The matches in `piece`.
    #[must_use]
    pub fn of(piece: &'p [u8]) -> Self {
        Self { rest: Reader::of(piece) }
    }

    /// Bytes that are not read yet.
    #[must_use]
    pub fn bytes_left(&self) -> usize {
        self.rest.bytes_left()
    }
}

impl<'p> Iterator for Entries<'p> {
    type Item = Match<'p>;

    fn next(&mut self) -> Option<Match<'p>> {
        self.rest.entry().as_ref().map(Match::of)
    }
}
