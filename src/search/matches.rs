//! Matches, packed as they are found, and unpacked for the response.
//!
//! A result can have a million matches; as separate values they would take several times the memory of their texts. A
//! piece is a sequence of items: lines before a match, the match, lines after it. Each item is a tag, its numbers in
//! groups of seven bits, and its text in UTF-8.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use crate::engine::workspace::path::ShownPath;
use crate::sha256::Sha256;

/// Bits of a tag that hold the kind of item.
const KIND: u8 = 0b11;
/// A line before the next match.
const BEFORE: u8 = 0;
/// A match.
const MATCH: u8 = 1;
/// A line after the previous match.
const AFTER: u8 = 2;
/// Bit that is set if an item does not have all of its lines.
const CUT: u8 = 0b100;
/// Bit that is set if a match has the column of its cut text.
const CLIPPED: u8 = 0b1000;

/// Packed entries of one file.
pub type PackedMatches = Box<[u8]>;

/// Packs the matches of one file.
#[derive(Debug, Default)]
pub struct MatchPacker {
    /// Items so far.
    bytes: Vec<u8>,
    /// Offset of the last entry.
    last: usize,
    /// True if the last entry has its match.
    closed: bool,
}

impl MatchPacker {
    /// Returns the number of packed bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if nothing is packed.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds a line before the next match.
    pub fn before(&mut self, text: &str, cut: bool) {
        self.begin();
        self.line(BEFORE, text, cut);
    }

    /// Adds a match, without its path, digest and context.
    pub fn push(&mut self, found: &Match<'_>) {
        self.begin();
        self.closed = true;
        let clipped = found.text_column.zip(found.line_bytes);
        let tag = MATCH | if clipped.is_some() { CLIPPED } else { 0 };
        self.bytes.push(tag | if found.whole { 0 } else { CUT });
        self.number(found.line);
        self.number(found.column);
        self.number(found.lines);
        if let Some((column, bytes)) = clipped {
            self.number(column);
            self.number(bytes);
        }
        self.text(found.text);
    }

    /// Adds a line after the last match; drops it if the match was already taken out.
    pub fn after(&mut self, text: &str, cut: bool) {
        if self.closed {
            self.line(AFTER, text, cut);
        }
    }

    /// Drops lines before a match that is not shown.
    pub fn forget_open(&mut self) {
        if !self.closed {
            self.bytes.truncate(self.last);
        }
    }

    /// Removes and returns all entries but the last, which may still get lines.
    pub fn drain_finished(&mut self) -> PackedMatches {
        let rest = self.bytes.split_off(self.last);
        self.last = 0;
        std::mem::replace(&mut self.bytes, rest).into_boxed_slice()
    }

    /// Returns all entries.
    pub fn finish(mut self) -> PackedMatches {
        self.forget_open();
        self.bytes.into_boxed_slice()
    }

    /// Begins an entry, unless one has no match yet.
    fn begin(&mut self) {
        if self.closed {
            self.closed = false;
            self.last = self.bytes.len();
        }
    }

    /// Adds a line of context.
    fn line(&mut self, kind: u8, text: &str, cut: bool) {
        self.bytes.push(kind | if cut { CUT } else { 0 });
        self.text(text);
    }

    /// Adds a text with its length.
    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Adds a number, seven bits per byte, lowest first.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            let [low, ..] = number.to_le_bytes();
            self.bytes.push(low | 0x80);
            number >>= 7;
        }
        let [low, ..] = number.to_le_bytes();
        self.bytes.push(low);
    }
}

/// Packed lines of context.
#[derive(Debug, Clone, Copy, Default)]
pub struct PackedContext<'p> {
    /// Items.
    items: &'p [u8],
    /// Number of items.
    count: u64,
}

impl<'p> PackedContext<'p> {
    /// Returns the number of lines.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns each line, and true if it is shown whole.
    pub fn lines(&self) -> impl Iterator<Item = (&'p str, bool)> + use<'p> {
        let mut rest = PackedEntries(self.items);
        std::iter::from_fn(move || {
            let tag = rest.byte()?;
            Some((rest.text()?, tag & CUT == 0))
        })
    }
}

impl Serialize for PackedContext<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.lines().map(|(line, _)| line))
    }
}

impl JsonSchema for PackedContext<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Context".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<String>::json_schema(generator)
    }
}

/// Reads the matches that [`MatchPacker`] wrote, in order.
#[derive(Debug, Clone)]
pub struct PackedEntries<'p>(&'p [u8]);

impl<'p> PackedEntries<'p> {
    /// Reads a piece from its beginning.
    pub fn of(piece: &'p [u8]) -> Self {
        Self(piece)
    }

    /// Returns the number of unread bytes.
    pub fn bytes_left(&self) -> usize {
        self.0.len()
    }

    /// Returns the next byte.
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// Returns the next number.
    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0_u32);
        loop {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
            shift += 7;
        }
    }

    /// Returns the bytes of the next text.
    fn bytes(&mut self) -> Option<&'p [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Returns the next text.
    fn text(&mut self) -> Option<&'p str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// Returns the following items of `kind`.
    fn context(&mut self, kind: u8) -> PackedContext<'p> {
        let all = self.0;
        let mut count = 0;
        while self.0.first().is_some_and(|tag| tag & KIND == kind) {
            self.byte();
            if self.bytes().is_none() {
                break;
            }
            count += 1;
        }
        let items = all.get(..all.len() - self.0.len()).unwrap_or_default();
        PackedContext { items, count }
    }
}

/// One matching line, or one match of several lines.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
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
    #[serde(skip_serializing_if = "PackedContext::is_empty")]
    pub before: PackedContext<'p>,
    /// The lines after it, as far as no other match shows them
    #[serde(skip_serializing_if = "PackedContext::is_empty")]
    pub after: PackedContext<'p>,
    /// How many lines the match itself takes.
    #[serde(skip)]
    pub lines: u64,
    /// True if all these lines are shown whole.
    #[serde(skip)]
    pub whole: bool,
}

impl<'p> Match<'p> {
    /// Returns the first and the last line that it shows.
    pub fn shown_lines(&self) -> (u64, u64) {
        (self.first_line(), self.line_after().saturating_add(self.after.count()).saturating_sub(1))
    }

    /// Returns the runs of lines that it shows whole.
    pub fn whole_lines(&self) -> impl Iterator<Item = (u64, u64)> + use<'p> {
        let own = self.whole.then(|| (self.line, self.line_after().saturating_sub(1)));
        let whole = |(number, (_, whole)): (u64, (&str, bool))| whole.then_some((number, number));
        let before = (self.first_line()..).zip(self.before.lines()).filter_map(whole);
        let after = (self.line_after()..).zip(self.after.lines()).filter_map(whole);
        before.chain(own).chain(after)
    }

    /// Returns the first line that it shows.
    fn first_line(&self) -> u64 {
        self.line.saturating_sub(self.before.count()).max(1)
    }

    /// Returns the line after the match itself.
    fn line_after(&self) -> u64 {
        self.line.saturating_add(self.lines.max(1))
    }
}

impl<'p> Iterator for PackedEntries<'p> {
    type Item = Match<'p>;

    fn next(&mut self) -> Option<Match<'p>> {
        let before = self.context(BEFORE);
        let tag = self.byte()?;
        let (line, column, lines) = (self.number()?, self.number()?, self.number()?);
        let clipped = if tag & CLIPPED == 0 { None } else { Some((self.number()?, self.number()?)) };
        let (text_column, line_bytes) = clipped.unzip();
        let text = self.text()?;
        let after = self.context(AFTER);
        let (path, sha256, whole) = (None, None, tag & CUT == 0);
        Some(Match { path, sha256, line, column, text, text_column, line_bytes, before, after, lines, whole })
    }
}

/// The matches of one file, named once.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Group")]
pub struct FileMatches {
    /// The file
    pub path: String,
    /// With `mark`, all bytes of the file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Box<Sha256>>,
    /// Its matches
    #[serde(rename = "matches", serialize_with = "write_entries")]
    #[schemars(with = "Vec<Match<'_>>")]
    pieces: Vec<PackedMatches>,
}

/// Writes the matches of a file.
fn write_entries<S: Serializer>(pieces: &[PackedMatches], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(pieces.iter().flat_map(|piece| PackedEntries::of(piece)))
}

impl FileMatches {
    /// Returns a file without matches.
    pub fn new(path: String) -> Self {
        Self { path, sha256: None, pieces: Vec::new() }
    }

    /// Adds matches.
    pub fn push(&mut self, piece: PackedMatches) {
        // Nearly every file has a single piece.
        self.pieces.reserve_exact(1);
        self.pieces.push(piece);
    }

    /// Returns its matches, without the path.
    pub fn entries(&self) -> impl Iterator<Item = Match<'_>> {
        self.pieces.iter().flat_map(|piece| PackedEntries::of(piece))
    }

    /// Writes its matches, each with the path; none is moved, since there can be many.
    fn write_named<S: SerializeSeq>(&self, list: &mut S) -> Result<(), S::Error> {
        let mut sha256 = self.sha256.as_deref();
        for piece in &self.pieces {
            let mut entries = PackedEntries::of(piece);
            while let Some(entry) = &mut entries.next() {
                entry.path = Some(&self.path);
                entry.sha256 = sha256.take();
                list.serialize_element(entry)?;
            }
        }
        Ok(())
    }
}

/// Matches in a flat list, by file and line.
#[derive(Debug, Default)]
pub struct Matches(pub Vec<FileMatches>);

impl Serialize for Matches {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        self.0.iter().try_for_each(|file| file.write_named(&mut list))?;
        list.end()
    }
}

impl JsonSchema for Matches {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Matches".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<Match<'_>>::json_schema(generator)
    }
}

/// How many matches one file has.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileMatchCount {
    /// The file
    pub path: ShownPath,
    /// Its matching lines, or its matches with `only_matching`
    pub count: u64,
}

/// A file of an answer, with the bytes that were searched.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchedFile {
    /// The file
    pub path: String,
    /// All its bytes
    pub sha256: Sha256,
}

#[cfg(test)]
mod tests {
    use super::PackedEntries;
    use super::*;

    /// Returns a match at `line`.
    fn found(line: u64, text: &str) -> Match<'_> {
        Match { line, column: 3, lines: 1, text, whole: true, ..Match::default() }
    }

    /// Returns the entries in `piece` as JSON.
    fn json(piece: &[u8]) -> Vec<serde_json::Value> {
        PackedEntries::of(piece).map(|entry| serde_json::to_value(entry).unwrap()).collect()
    }

    #[test]
    fn packed_matches_round_trip() {
        let mut packer = MatchPacker::default();
        packer.before("a", false);
        packer.before("b", true);
        packer.push(&found(300, "é"));
        packer.after("c", false);
        packer.push(&Match { text_column: Some(90), line_bytes: Some(u64::MAX), ..found(301, "") });
        let piece = packer.finish();
        assert_eq!(
            json(&piece),
            [
                serde_json::json!({"line": 300, "column": 3, "text": "é", "before": ["a", "b"], "after": ["c"]}),
                serde_json::json!({"line": 301, "column": 3, "text": "", "text_column": 90, "line_bytes": u64::MAX}),
            ]
        );
        let lines: Vec<_> = PackedEntries::of(&piece).flat_map(|entry| entry.whole_lines()).collect();
        assert_eq!(lines, [(298, 298), (300, 300), (301, 301), (301, 301)]);
    }

    #[test]
    fn last_match_accepts_lines_after_it() {
        let mut packer = MatchPacker::default();
        packer.after("nobody's", false);
        packer.push(&found(1, "one"));
        packer.before("two", false);
        packer.push(&found(3, "three"));
        assert_eq!(json(&packer.drain_finished()).len(), 1);
        packer.after("four", false);
        packer.before("nobody's", false);
        let rest = json(&packer.finish());
        assert_eq!(rest.len(), 1);
        assert_eq!((&rest[0]["before"][0], &rest[0]["after"][0]), (&"two".into(), &"four".into()));
    }

    #[test]
    fn truncated_packed_matches_never_panic() {
        let mut packer = MatchPacker::default();
        packer.before("some text", false);
        packer.push(&found(u64::MAX, "match"));
        let piece = packer.finish();
        for end in 0..piece.len() {
            assert_eq!(PackedEntries::of(&piece[..end]).count(), 0);
        }
        for byte in 0..=255 {
            let _ = PackedEntries::of(&[byte; 40]).count();
        }
    }
}
