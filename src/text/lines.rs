//! Lines and their endings, lines by number, and the block that encloses a line.

use std::fmt;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::checked::slice_or_empty;

/// Line endings of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LineEnding {
    /// Every line ends in LF.
    Lf,
    /// Every line ends in CR LF.
    Crlf,
    /// Every line ends in CR alone, as on the old Macintosh; such a file has no LF.
    Cr,
    /// More than one of these.
    Mixed,
    /// There is no line ending.
    None,
}

impl LineEnding {
    /// Returns the style of all of `text`.
    pub fn of(text: &[u8]) -> Self {
        let mut endings = LineEndingCounts::default();
        endings.count(text);
        endings.style()
    }

    /// Returns the byte after which a file of this style is cut into lines.
    pub const fn terminator(self) -> u8 {
        match self {
            Self::Cr => b'\r',
            Self::Lf | Self::Crlf | Self::Mixed | Self::None => b'\n',
        }
    }

    /// Returns the bytes of a uniform style; `None` for `mixed` and `none`.
    pub const fn bytes(self) -> Option<&'static [u8]> {
        match self {
            Self::Lf => Some(b"\n"),
            Self::Crlf => Some(b"\r\n"),
            Self::Cr => Some(b"\r"),
            Self::Mixed | Self::None => None,
        }
    }
}

/// Counts of the line endings in a text that arrives in pieces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineEndingCounts {
    /// LF without CR before it.
    pub lf: u64,
    /// CR LF.
    pub crlf: u64,
    /// CR without LF after it.
    pub cr: u64,
    /// True if the last piece ended in CR, which counts in `cr` until an LF follows.
    after_cr: bool,
}

impl LineEndingCounts {
    /// Counts the line endings of the next piece.
    pub fn count(&mut self, piece: &[u8]) {
        if self.after_cr && piece.first() == Some(&b'\n') {
            self.cr -= 1;
            self.crlf += 1;
            self.lf = self.lf.wrapping_sub(1);
        }
        let newlines = memchr::memchr_iter(b'\n', piece).count() as u64;
        let mut pairs = 0;
        for at in memchr::memchr_iter(b'\r', piece) {
            if piece.get(at + 1) == Some(&b'\n') {
                pairs += 1;
            } else {
                self.cr += 1;
            }
        }
        self.crlf += pairs;
        self.lf = self.lf.wrapping_add(newlines - pairs);
        if let Some(&last) = piece.last() {
            self.after_cr = last == b'\r';
        }
    }

    /// Returns the style that the counts indicate.
    pub const fn style(&self) -> LineEnding {
        match (self.lf > 0, self.crlf > 0, self.cr > 0) {
            (false, false, false) => LineEnding::None,
            (true, false, false) => LineEnding::Lf,
            (false, true, false) => LineEnding::Crlf,
            (false, false, true) => LineEnding::Cr,
            _ => LineEnding::Mixed,
        }
    }
}

/// Returns the lines of `text`, each with its ending. A last line without an ending counts; an empty text has no lines.
/// CR alone ends a line only if the text has no LF at all.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    cut_after(text, terminator(text))
}

/// Returns all of [`lines`] in a list, allocated once.
pub fn all(text: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::with_capacity(usize::try_from(count(text)).unwrap_or(0));
    all.extend(lines(text));
    all
}

/// Returns the lines of `text`, cut only after each LF, as in patches.
pub fn at_line_feeds(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    cut_after(text, b'\n')
}

/// Returns the pieces of `text`, each up to and including the next `terminator`.
pub(super) fn cut_after(text: &[u8], terminator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = memchr::memchr(terminator, rest).map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at_checked(end).filter(|_| end > 0)?;
        rest = after;
        Some(line)
    })
}

/// Returns the byte after which `text` is cut into lines: LF, or CR if there is no LF. It usually reads only the first
/// line, whereas [`LineEnding::of`] reads them all.
pub fn terminator(text: &[u8]) -> u8 {
    let is_cr = memchr::memchr(b'\n', text).is_none() && memchr::memchr(b'\r', text).is_some();
    if is_cr { b'\r' } else { b'\n' }
}

/// Returns the number of lines that [`lines`] returns.
pub fn count(text: &[u8]) -> u64 {
    let terminator = terminator(text);
    let ended = memchr::memchr_iter(terminator, text).count() as u64;
    ended + u64::from(text.last().is_some_and(|&last| last != terminator))
}

/// Returns a line without its ending.
pub fn without_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the ending of a line, which may be empty.
pub fn ending_of(line: &[u8]) -> &[u8] {
    slice_or_empty(line, without_ending(line).len()..)
}

/// Sizes of the chunks that are compared, from coarse to fine.
const CHUNKS_BYTES: [usize; 3] = [4096, 32, 1];

/// Returns how many bytes two texts have in common at their start.
pub fn common_start(one: &[u8], other: &[u8]) -> usize {
    let mut same = 0;
    for size in CHUNKS_BYTES {
        let chunks = slice_or_empty(one, same..)
            .chunks_exact(size)
            .zip(slice_or_empty(other, same..).chunks_exact(size));
        same += chunks.take_while(|(mine, theirs)| mine == theirs).count() * size;
    }
    same
}

/// Returns how many bytes two texts have in common at their end.
pub fn common_end(one: &[u8], other: &[u8]) -> usize {
    let mut same = 0;
    for size in CHUNKS_BYTES {
        let rest = (slice_or_empty(one, ..one.len() - same), slice_or_empty(other, ..other.len() - same));
        let chunks = rest.0.rchunks_exact(size).zip(rest.1.rchunks_exact(size));
        same += chunks.take_while(|(mine, theirs)| mine == theirs).count() * size;
    }
    same
}

/// Number of lines that two texts have in common, and of all their lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommonLines {
    /// Whole common lines at the start.
    pub head: u64,
    /// Whole common lines at the end, after those.
    pub tail: u64,
    /// All lines of the first text.
    pub one: u64,
    /// All lines of the second text.
    pub other: u64,
}

/// Counts the lines that two texts have in common at their start, and then at their end.
pub fn common_lines(one: &[u8], other: &[u8]) -> CommonLines {
    let ending = terminator(one);
    let same_start = common_start(one, other);
    if same_start == one.len() && same_start == other.len() {
        let all = count(one);
        return CommonLines { head: all, tail: 0, one: all, other: all };
    }
    if terminator(other) != ending {
        return CommonLines { head: 0, tail: 0, one: count(one), other: count(other) };
    }
    let count = |text: &[u8]| {
        let ended = memchr::memchr_iter(ending, text).count() as u64;
        ended + u64::from(text.last().is_some_and(|&last| last != ending))
    };
    let same = slice_or_empty(one, ..same_start);
    let start = memchr::memrchr(ending, same).map_or(0, |at| at + 1);
    let (one, other) = (slice_or_empty(one, start..), slice_or_empty(other, start..));
    let same_bytes = common_end(one, other);
    let begins_line = |text: &[u8]| {
        let before = (text.len() - same_bytes).checked_sub(1);
        before.is_none_or(|before| text.get(before) == Some(&ending))
    };
    let alike = slice_or_empty(one, one.len() - same_bytes..);
    let whole = if begins_line(one) && begins_line(other) {
        alike
    } else {
        let start = memchr::memchr(ending, alike).map_or(alike.len(), |at| at + 1);
        slice_or_empty(alike, start..)
    };
    let (head, tail) = (count(slice_or_empty(same, ..start)), count(whole));
    let between = |text: &[u8]| count(slice_or_empty(text, ..text.len() - whole.len()));
    CommonLines { head, tail, one: head + between(one) + tail, other: head + between(other) + tail }
}

/// Returns `text` with every LF, CR LF and (if there is no LF at all) CR replaced by `ending`.
pub fn with_ending(text: &[u8], ending: &[u8]) -> Vec<u8> {
    let mut converted = Vec::with_capacity(text.len() + text.len() / 16);
    for line in lines(text) {
        let body = without_ending(line);
        converted.extend_from_slice(body);
        if body.len() < line.len() {
            converted.extend_from_slice(ending);
        }
    }
    converted
}

/// A range of lines, from 1, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineSpan {
    /// First line.
    pub first: u64,
    /// Last line.
    pub last: u64,
}

impl fmt::Display for LineSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "line {}", self.first)
        } else {
            write!(f, "lines {} to {}", self.first, self.last)
        }
    }
}

/// Returns the start of each line, and the length of the text.
pub fn starts(text: &[u8]) -> Vec<usize> {
    let ends = lines(text).scan(0, |end, line| {
        *end += line.len();
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// Returns the byte range of some lines of the text with these starts, with their endings; lines after the end of the
/// text add nothing.
///
/// Returns `None` if the first line does not exist. An empty text has no lines.
pub fn bytes_of(starts: &[usize], span: LineSpan) -> Option<Range<usize>> {
    let at = |line: u64| usize::try_from(line).ok().and_then(|line| starts.get(line));
    let (start, end) = (*at(span.first.saturating_sub(1))?, *starts.last()?);
    (start < end && span.first <= span.last).then(|| start..at(span.last).copied().unwrap_or(end))
}

/// Returns a text for whole lines, with the final ending of the lines `old`. An empty text stays empty, which removes
/// the lines.
pub fn ending_like<'a>(new: &'a [u8], old: &[u8], style: LineEnding) -> std::borrow::Cow<'a, [u8]> {
    let (old_ends, new_ends) = (ends(old, style), ends(new, style) || new.ends_with(b"\n"));
    match (new.is_empty(), old_ends, new_ends) {
        (false, true, false) => {
            let ending = ending_of(old);
            [new, if ending.is_empty() { b"\n" } else { ending }].concat().into()
        }
        (false, false, true) => without_ending(new).into(),
        _ => new.into(),
    }
}

/// Returns true if a text ends in a line ending of that style.
fn ends(text: &[u8], style: LineEnding) -> bool {
    text.last() == Some(&style.terminator())
}

/// Columns from one tab stop to the next.
const TAB_COLUMNS: usize = 8;

/// Returns the first and the last line of the block that encloses line `at`, as indices of `lines`.
///
/// The block is the nearest line above that is indented less (a header such as `fn f() {` or `if x:`) with all that is
/// indented more below it, the line that closes it, and the comments and attributes right above it. A line with more
/// indented ones below it is itself such a header. Outside of all blocks, it is the paragraph that contains the line. A
/// blank line is part of the block that contains it.
pub fn enclosing_block(lines: &[&[u8]], at: usize) -> (usize, usize) {
    let Some(at) = nearest_text(lines, at) else {
        return (at, at);
    };
    let Some(own) = lines.get(at).and_then(|line| columns(line)) else {
        return (at, at);
    };
    let header = if is_header(lines, at, own) {
        Some(at)
    } else {
        (0..at).rev().find(|&above| indent_at(lines, above).is_some_and(|indent| indent < own))
    };
    match header {
        Some(header) => block_of(lines, header),
        None => paragraph(lines, at),
    }
}

/// Returns the line itself, or if it is blank the next one with text, else the one before.
fn nearest_text(lines: &[&[u8]], at: usize) -> Option<usize> {
    let has_text = |&line: &usize| indent_at(lines, line).is_some();
    (at..lines.len()).find(has_text).or_else(|| (0..at.min(lines.len())).rev().find(has_text))
}

/// Returns true if the next line with text is indented more.
fn is_header(lines: &[&[u8]], at: usize, own: usize) -> bool {
    let next = (at + 1..lines.len()).find_map(|below| indent_at(lines, below));
    next.is_some_and(|next| next > own)
}

/// Returns the block of a header.
fn block_of(lines: &[&[u8]], header: usize) -> (usize, usize) {
    let own = indent_at(lines, header).unwrap_or_default();
    let mut end = header;
    for below in header + 1..lines.len() {
        match indent_at(lines, below) {
            None => {}
            Some(indent) if indent > own => end = below,
            Some(indent) => {
                if indent == own && lines.get(below).is_some_and(|line| closes(line)) {
                    end = below;
                }
                break;
            }
        }
    }
    let above = (0..header).rev().take_while(|&above| {
        indent_at(lines, above) == Some(own) && lines.get(above).is_some_and(|line| is_item_prefix(line))
    });
    (above.last().unwrap_or(header), end)
}

/// Returns the lines around `at` up to the next blank ones.
fn paragraph(lines: &[&[u8]], at: usize) -> (usize, usize) {
    let start = (0..at).rev().take_while(|&line| indent_at(lines, line).is_some()).last();
    let end = (at..lines.len()).take_while(|&line| indent_at(lines, line).is_some()).last();
    (start.unwrap_or(at), end.unwrap_or(at))
}

/// Returns true if a line ends the block above it.
fn closes(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    text.starts_with(b"}")
        || text.starts_with(b")")
        || text.starts_with(b"]")
        || text.starts_with(b"</")
        || [&b"end"[..], b"fi", b"done", b"esac"].iter().any(|word| {
            text.strip_prefix(*word)
                .is_some_and(|rest| rest.first().is_none_or(|next| !next.is_ascii_alphanumeric()))
        })
}

/// Returns true if a line is a comment, an attribute or a decorator of the next item.
fn is_item_prefix(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    [&b"//"[..], b"#", b"/*", b"*", b"@", b"--", b";;"].iter().any(|start| text.starts_with(start))
}

/// Returns the columns before the text of line `at`; `None` if it is blank or missing.
fn indent_at(lines: &[&[u8]], at: usize) -> Option<usize> {
    lines.get(at).and_then(|line| columns(line))
}

/// Returns the columns before the text of a line; `None` if it is blank.
fn columns(line: &[u8]) -> Option<usize> {
    let mut columns = 0;
    for byte in without_ending(line) {
        match byte {
            b' ' => columns += 1,
            b'\t' => columns += TAB_COLUMNS - columns % TAB_COLUMNS,
            _ => return Some(columns),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ending_style_is_detected_across_chunks() {
        for (text, style, count_of_lines) in [
            (&b""[..], LineEnding::None, 0),
            (b"a", LineEnding::None, 1),
            (b"a\n", LineEnding::Lf, 1),
            (b"a\nb", LineEnding::Lf, 2),
            (b"\n\n", LineEnding::Lf, 2),
            (b"a\r\nb\r\n", LineEnding::Crlf, 2),
            (b"a\rb\rc", LineEnding::Cr, 3),
            (b"a\r\nb\n", LineEnding::Mixed, 2),
            (b"a\rb\n", LineEnding::Mixed, 1),
            (b"\r\r\n", LineEnding::Mixed, 1),
        ] {
            assert_eq!(LineEnding::of(text), style, "{text:?}");
            assert_eq!(count(text), count_of_lines, "{text:?}");
            assert_eq!(terminator(text), style.terminator(), "{text:?}");
            assert_eq!(lines(text).count() as u64, count_of_lines);
            for size in 1..4 {
                let mut endings = LineEndingCounts::default();
                text.chunks(size).for_each(|piece| endings.count(piece));
                assert_eq!(endings.style(), style, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn common_lines_are_counted_from_both_ends() {
        let long = "x".repeat(3 * 4096);
        for (one, other, common) in [
            ("a\nb\n", "a\nb\n", (2, 0)),
            ("a\nb\nc\n", "a\nB\nc\n", (1, 1)),
            ("a\nb", "a\nb\n", (1, 0)),
            ("ab\nc\n", "b\nc\n", (0, 1)),
            ("c\n", "b\nc\n", (0, 1)),
            ("x\nx\n", "x\n", (1, 0)),
            ("", "a\n", (0, 0)),
            ("a\nb\n", "a\rb\r", (0, 0)),
            (&format!("{long}\n1\n{long}"), &format!("{long}\n2\n{long}"), (1, 1)),
            (&format!("{long}1"), &format!("{long}2"), (0, 0)),
        ] {
            let found = common_lines(one.as_bytes(), other.as_bytes());
            assert_eq!((found.head, found.tail), common, "{one:?} {other:?}");
            assert_eq!(
                (found.one, found.other),
                (count(one.as_bytes()), count(other.as_bytes())),
                "{one:?} {other:?}"
            );
        }
    }

    #[test]
    fn line_endings_are_converted() {
        assert_eq!(with_ending(b"a\nb\r\n\nc", b"\r\n"), b"a\r\nb\r\n\r\nc");
        assert_eq!(with_ending(b"a\rb", b"\n"), b"a\nb");
        assert_eq!(ending_of(b"a\r\n"), b"\r\n");
        assert_eq!(ending_of(b"a"), b"");
    }

    #[test]
    fn lines_are_found_by_their_numbers() {
        for (text, first, last, found) in [
            ("a\nb\nc", 1, 1, Some("a\n")),
            ("a\nb\nc", 2, 3, Some("b\nc")),
            ("a\nb\nc", 3, 9, Some("c")),
            ("a\nb\nc", 4, 4, None),
            ("a\n", 2, 2, None),
            ("", 1, 1, None),
            ("a\r\nb\r\n", 2, 2, Some("b\r\n")),
            ("a\rb\rc", 2, 2, Some("b\r")),
            ("a\rb\nc", 1, 1, Some("a\rb\n")),
            ("a\nb", 2, 1, None),
        ] {
            let range = bytes_of(&starts(text.as_bytes()), LineSpan { first, last });
            assert_eq!(range.map(|range| &text[range]), found, "{text:?} {first}-{last}");
        }
    }

    #[test]
    fn replaced_last_line_keeps_its_ending() {
        for (new, old, wanted) in [
            ("x", "a\n", "x\n"),
            ("x\n", "a", "x"),
            ("x\n", "a\n", "x\n"),
            ("", "a\n", ""),
            ("x", "a\r\n", "x\r\n"),
        ] {
            let style = LineEnding::of(old.as_bytes());
            assert_eq!(ending_like(new.as_bytes(), old.as_bytes(), style).as_ref(), wanted.as_bytes());
        }
    }

    /// Returns the block around a line, both from 1.
    fn around(text: &str, line: usize) -> (usize, usize) {
        let lines: Vec<&[u8]> = text.as_bytes().split_inclusive(|&byte| byte == b'\n').collect();
        let (first, last) = enclosing_block(&lines, line - 1);
        (first + 1, last + 1)
    }

    #[test]
    fn enclosing_block_is_found_by_indentation() {
        let rust = "use x;\n\n/// Adds.\n#[inline]\nfn add() {\n    one();\n\n    if two {\n        three();\n    }\n}\n\nfn b() {}\n";
        for (line, wanted) in [
            (1, (1, 1)),
            (5, (3, 11)),
            (6, (3, 11)),
            (7, (8, 10)),
            (8, (8, 10)),
            (9, (8, 10)),
            (13, (13, 13)),
        ] {
            assert_eq!(around(rust, line), wanted, "line {line}");
        }
        let python =
            "class A:\n    @x\n    def f(self):\n        a\n\n        b\n\n    def g(self):\n\tpass\n";
        for (line, wanted) in [(1, (1, 9)), (4, (2, 6)), (6, (2, 6)), (3, (2, 6)), (9, (8, 9))] {
            assert_eq!(around(python, line), wanted, "line {line}");
        }
        assert_eq!(around("a\nb\n\nc\n", 2), (1, 2));
        assert_eq!(around("\n\n", 1), (1, 1));
        assert_eq!(around("if x; then\n  y\nfi\nz\n", 2), (1, 3));
    }
}
