//! Parts of unified diffs: file names, `@@` lines and hunks.

use super::model::{Ending, Hunk, HunkLine, LineKind, PathPrefix, TextLine};
use super::source::{ParseError, PatchLines, foreign, is_file_header, is_hunk_header, not_a_hunk_line};
use crate::text::checked::slice_or_empty;

/// Number of old and of new lines of a hunk.
type HunkCounts = (usize, usize);

/// Content of a `@@` line.
#[derive(Default)]
struct HunkHeader {
    /// First old line.
    old_start: Option<usize>,
    /// First new line.
    new_start: Option<usize>,
    /// Number of lines.
    counts: Option<HunkCounts>,
}

/// Reads the hunk whose `@@` line has `index`, and returns it with the index after it.
///
/// # Errors
/// Fails at a line inside the hunk that is neither context, added nor removed.
pub fn parse<'a>(source: &PatchLines<'a>, index: usize) -> Result<(Hunk<'a>, usize), ParseError> {
    let header = header(source.text(index).unwrap_or_default());
    let hunk = Hunk {
        patch_line: index + 1,
        old_start: header.old_start,
        new_start: header.new_start,
        is_crlf: source.ends_in_crlf(index),
        ..Hunk::default()
    };
    HunkBodyReader::new(source, index + 1, header.counts, source.ends_in_crlf(index)).read(hunk)
}

/// Reads a hunk that has no `@@` line at all.
///
/// # Errors
/// Fails as [`parse`] does.
pub fn parse_headless<'a>(source: &PatchLines<'a>, index: usize) -> Result<(Hunk<'a>, usize), ParseError> {
    let hunk = Hunk { patch_line: index + 1, ..Hunk::default() };
    HunkBodyReader::new(source, index, None, false).read(hunk)
}

/// Returns the starts that a `@@` line of any format states.
pub fn starts(text: &[u8]) -> Option<(usize, usize)> {
    let header = header(text);
    Some((header.old_start?, header.new_start?))
}

/// Reads `@@ -a,b +c,d @@`; a missing or invalid number is left unstated.
fn header(text: &[u8]) -> HunkHeader {
    let text = text.strip_prefix(b"@@").unwrap_or(text);
    let mut words = text.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let old = words.next().and_then(|word| range(word.strip_prefix(b"-")?));
    let new = words.next().map(|word| word.strip_suffix(b"@@").unwrap_or(word));
    let new = new.and_then(|word| range(word.strip_prefix(b"+")?));
    match (old, new) {
        (Some((old_start, old_count)), Some((new_start, new_count))) => HunkHeader {
            old_start: Some(old_start),
            new_start: Some(new_start),
            counts: Some((old_count, new_count)),
        },
        (Some((old_start, _)), None) => HunkHeader { old_start: Some(old_start), ..HunkHeader::default() },
        (None, _) => HunkHeader::default(),
    }
}

/// Reads `start,count` or `start`, which means one line.
fn range(word: &[u8]) -> Option<(usize, usize)> {
    let mut parts = word.splitn(2, |byte| *byte == b',');
    let start = number(parts.next()?)?;
    Some((start, parts.next().map_or(Some(1), number)?))
}

/// Reads a decimal number, capped if it is too large.
fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: usize, digit: &u8| sum.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}

/// State of reading the body of a hunk.
struct HunkBodyReader<'s, 'a> {
    /// Text of the patch.
    source: &'s PatchLines<'a>,
    /// Index of the next line.
    next: usize,
    /// Counts in the header.
    counts: Option<HunkCounts>,
    /// Counts so far.
    seen: HunkCounts,
    /// True if the patch itself has CRLF line endings.
    crlf: bool,
    /// Empty lines, with their endings, that are context if the hunk continues.
    blanks: Vec<&'a [u8]>,
    /// Last line read, with its ending, without its first letter.
    last: &'a [u8],
    /// Lines read.
    lines: Vec<HunkLine<'a>>,
    /// True if `\ No newline` was read.
    at_end: bool,
}

impl<'s, 'a> HunkBodyReader<'s, 'a> {
    /// Creates a body that begins at the line with index `next`.
    fn new(source: &'s PatchLines<'a>, next: usize, counts: Option<HunkCounts>, crlf: bool) -> Self {
        Self {
            source,
            next,
            counts,
            seen: (0, 0),
            crlf,
            blanks: Vec::new(),
            last: b"",
            lines: Vec::new(),
            at_end: false,
        }
    }

    /// Reads to the end and puts the lines into `hunk`.
    fn read(mut self, mut hunk: Hunk<'a>) -> Result<(Hunk<'a>, usize), ParseError> {
        while let Some(raw) = self.source.raw(self.next) {
            if !self.take(raw)? {
                break;
            }
            self.next += 1;
        }
        self.keep_stated_blanks();
        if self.lines.is_empty() {
            return Err(ParseError { line: hunk.patch_line, message: "this hunk has no lines".into() });
        }
        hunk.counts_match = self.is_satisfied();
        hunk.at_end = self.at_end;
        hunk.lines = self.lines;
        Ok((hunk, self.next))
    }

    /// Reads one line; returns `false` if the hunk ended before it.
    fn take(&mut self, raw: &'a [u8]) -> Result<bool, ParseError> {
        let text = TextLine::of(raw).text;
        if text.is_empty() {
            let goes_on = !self.is_satisfied();
            if goes_on {
                self.blanks.push(raw);
            }
            return Ok(goes_on);
        }
        let (kind, rest) = match raw.split_first() {
            Some((b'\\', _)) => return Ok(self.end_without_newline()),
            Some((b' ', rest)) => (LineKind::Context, rest),
            Some((b'-', rest)) => (LineKind::Removed, rest),
            Some((b'+', rest)) => (LineKind::Added, rest),
            Some(_) | None => return self.end_at(text),
        };
        if self.is_over(text) {
            return Ok(false);
        }
        self.flush_blanks();
        self.push(kind, rest);
        Ok(true)
    }

    /// Returns true if the hunk has as many lines as stated.
    fn is_satisfied(&self) -> bool {
        self.counts == Some(self.seen)
    }

    /// Returns true if a line looks like part of the hunk but is not.
    fn is_over(&self, text: &[u8]) -> bool {
        if self.is_satisfied() && (!self.blanks.is_empty() || text == b"-- ") {
            return true;
        }
        if !is_file_header(self.source, self.next) {
            return false;
        }
        // `--- x` and `+++ y` may also be a removed `-- x` and an added `++ y`.
        match self.counts {
            None => true,
            Some((old, new)) => {
                let hunk_follows = self.source.text(self.next + 2).is_some_and(is_hunk_header);
                let completes = (self.seen.0 + 1, self.seen.1 + 1) == (old, new);
                self.is_satisfied() || (hunk_follows && !completes)
            }
        }
    }

    /// Ends the hunk at a line of another kind, unless that may be a damaged line of the hunk.
    fn end_at(&self, text: &[u8]) -> Result<bool, ParseError> {
        let is_known = is_hunk_header(text)
            || [&b"diff "[..], b"```", b"~~~", b"Index: ", b"Only in ", b"*** End", b"From "]
                .iter()
                .any(|start| text.starts_with(start));
        let is_prose = self.is_satisfied() || (self.counts.is_none() && !self.blanks.is_empty());
        if is_known || is_prose {
            return Ok(false);
        }
        let message = foreign(text).unwrap_or_else(|| not_a_hunk_line(text));
        Err(ParseError::at(self.next, message))
    }

    /// Removes the newline from the last line, for `\ No newline at end of file`.
    fn end_without_newline(&mut self) -> bool {
        let crlf = self.crlf;
        let Some(line) = self.lines.last_mut() else { return false };
        if line.ending == Ending::CrLf && !crlf {
            // The carriage return belongs to the file: the marker removes only the line feed.
            line.text = self.last.strip_suffix(b"\n").unwrap_or(self.last);
        }
        line.ending = Ending::None;
        self.at_end = true;
        true
    }

    /// Turns pending empty lines into context that lost its space.
    fn flush_blanks(&mut self) {
        for raw in std::mem::take(&mut self.blanks) {
            self.push(LineKind::Context, raw);
        }
    }

    /// Keeps only as many empty lines at the end as the header states.
    fn keep_stated_blanks(&mut self) {
        let wanted = match self.counts {
            Some((old, new)) => match (old.checked_sub(self.seen.0), new.checked_sub(self.seen.1)) {
                (Some(old), Some(new)) if old == new => old,
                _ => 0,
            },
            None => 0,
        };
        self.blanks.truncate(wanted);
        self.flush_blanks();
    }

    /// Adds a line, `raw` without its first letter.
    fn push(&mut self, kind: LineKind, raw: &'a [u8]) {
        let text = TextLine::of(raw).text;
        // A patch that is cut in its last line still means a whole line.
        let ending = if raw.len() == text.len() + 2 { Ending::CrLf } else { Ending::Lf };
        self.lines.push(HunkLine { kind, text, ending });
        self.last = raw;
        self.seen.0 += usize::from(kind != LineKind::Added);
        self.seen.1 += usize::from(kind != LineKind::Removed);
    }
}

/// A path in a `---` or `+++` line.
pub struct HeaderPath {
    /// The path; `None` for `/dev/null`.
    pub path: Option<Vec<u8>>,
    /// True if its time is the one that `diff -N` gives to a missing file.
    pub is_missing: bool,
}

/// Reads the name in a `---` or `+++` line, up to a tab.
///
/// Returns `None` if a quote is not closed, an escape is unknown, or the name is empty.
pub fn file_name(text: &[u8]) -> Option<HeaderPath> {
    let (path, rest) = if text.first() == Some(&b'"') {
        unquoted(text)?
    } else {
        let end = text.iter().position(|byte| *byte == b'\t').or_else(|| time(text)).unwrap_or(text.len());
        let (path, rest) = text.split_at_checked(end)?;
        (path.to_vec(), rest)
    };
    let stamp = rest.trim_ascii();
    let is_epoch = stamp.starts_with(b"1970-01-01 00:00:00") || stamp.starts_with(b"1969-12-31 ");
    // Subversion writes this for a missing file.
    let is_missing = is_epoch || stamp == b"(nonexistent)";
    let is_null = path == b"/dev/null";
    (!path.is_empty())
        .then(|| HeaderPath { path: (!is_null).then_some(path), is_missing: is_null || is_missing })
}

/// Returns the start of a date that only a blank separates from the name; git puts a tab after names with blanks.
fn time(text: &[u8]) -> Option<usize> {
    let is_of_time = |byte: &u8| byte.is_ascii_digit() || b"-:.+ ".contains(byte);
    let is_date = |rest: &[u8]| {
        let date = slice_or_empty(rest, ..10);
        let has_form = date.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        date.len() == 10 && has_form
    };
    // Only a date and a time follow the name.
    let name_end = text.iter().rposition(|byte| !is_of_time(byte)).map_or(1, |last| last + 1);
    let is_start = |at: &usize| text.get(*at) == Some(&b' ') && text.get(at + 1..).is_some_and(is_date);
    (name_end..text.len()).find(is_start)
}

/// Reads a whole path that may be quoted, as in extended headers of git.
pub fn whole_name(text: &[u8]) -> Option<Vec<u8>> {
    let path = if text.first() == Some(&b'"') { unquoted(text)?.0 } else { text.to_vec() };
    (!path.is_empty()).then_some(path)
}

/// Returns the two names of a `diff --git` line, if it can be divided: they are quoted, or name the same file.
pub fn git_names(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if text.first() == Some(&b'"') {
        let (old, rest) = unquoted(text)?;
        return Some((old, whole_name(rest.strip_prefix(b" ")?)?));
    }
    if text.ends_with(b"\"") {
        let start = text.windows(2).position(|pair| pair == b" \"")?;
        return Some((text.get(..start)?.to_vec(), whole_name(text.get(start + 1..)?)?));
    }
    let same = |at: &usize| {
        let (old, new) = (text.get(..*at)?, text.get(at + 1..)?);
        (old == new || (after_slash(old).is_some() && after_slash(old) == after_slash(new)))
            .then(|| (old.to_vec(), new.to_vec()))
    };
    // The parts after the first slash have the same length at one place at most: the further right the names are
    // divided, the longer is the one and the shorter the other.
    let slashes: Vec<usize> = memchr::memchr_iter(b'/', text).collect();
    let has_equal_parts = |at: &usize| {
        let next = slashes.get(slashes.partition_point(|slash| slash < at));
        slashes.first().zip(next).is_some_and(|(first, next)| first + text.len() == at + next)
    };
    // Names of equal length are by far the most common, so try the middle first.
    let is_space = |at: &usize| text.get(*at) == Some(&b' ');
    let middle = std::iter::once(text.len() / 2);
    middle.chain((0..text.len()).filter(has_equal_parts)).filter(is_space).find_map(|at| same(&at))
}

/// Returns the prefix that the names of one file have.
pub fn prefix_of(old: Option<&[u8]>, new: Option<&[u8]>) -> PathPrefix {
    let first = |path: &[u8]| (path.get(1) == Some(&b'/')).then(|| path.first().copied()).flatten();
    let is_present = match (old, new) {
        (Some(old), Some(new)) => match (first(old), first(new)) {
            (Some(b'a'), Some(b'b')) | (Some(b'b'), Some(b'a')) => true,
            (Some(b'c' | b'i' | b'o' | b'w'), Some(b'c' | b'i' | b'w' | b'o')) => {
                old != new && after_slash(old) == after_slash(new)
            }
            _ => {
                let (within_old, within_new) = (after_slash(old), after_slash(new));
                let is_one_file = within_old.is_some_and(|rest| !rest.is_empty()) && within_old == within_new;
                return if old != new && is_one_file { PathPrefix::Folders } else { PathPrefix::Absent };
            }
        },
        (Some(old), None) => first(old) == Some(b'a'),
        (None, Some(new)) => first(new) == Some(b'b'),
        (None, None) => false,
    };
    if is_present { PathPrefix::Present } else { PathPrefix::Absent }
}

/// Returns the text after the first slash.
fn after_slash(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().position(|byte| *byte == b'/')?;
    path.get(slash + 1..)
}

/// Reads a name in double quotes with C escapes, and returns it with the rest of the text.
fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (first, after) = rest.split_first()?;
        rest = after;
        match first {
            b'"' => return Some((name, rest)),
            b'\\' => name.push(escape(&mut rest)?),
            byte => name.push(*byte),
        }
    }
}

/// Reads an escape and returns its byte.
fn escape(rest: &mut &[u8]) -> Option<u8> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(match first {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'"' | b'\\' => *first,
        b'0'..=b'3' => {
            let (digits, after) = rest.split_at_checked(2)?;
            *rest = after;
            digits.iter().try_fold(first - b'0', |sum, digit| {
                matches!(digit, b'0'..=b'7').then(|| sum * 8 + (digit - b'0'))
            })?
        }
        _ => return None,
    })
}
