//! Lines that a read asks for, and the pass over a file that finds them.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use super::Request;
use crate::control::Progress;
use crate::engine::Engine;
use crate::engine::policy::Policy;
use crate::engine::policy::settings::Key;
use crate::engine::workspace::fs;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind};
use crate::limits::{READ_PASSES_MAX, READ_RANGES_MAX};
use crate::sha256::{Hasher, Sha256};
use crate::text::answer_size::AnswerRoom;
use crate::text::charset::Charset;
use crate::text::content::BINARY_CHECK_BYTES;
use crate::text::slice::{SliceBounds, SliceResult, TextSlicer};
use crate::tools::common::{reject_if, unsupported_encoding};

/// Range of lines in a request: from the start, or from the end if negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First line, from 1, or from the end: -1 is the last.
    pub start: i64,
    /// Last line, counted in the same way.
    pub end: Option<i64>,
    /// Largest number of lines.
    pub lines_max: u64,
    /// True if a very long first line is clipped to leave room for the other lines.
    pub clips_first: bool,
}

/// Limits of the shown lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownExtent {
    /// Bytes to skip at the start of the first line.
    pub skip_bytes: usize,
    /// Room for all lines.
    pub room: AnswerRoom,
    /// True if the request has other lines as well.
    pub has_others: bool,
}

impl Span {
    /// Returns true if the total number of lines must be known first.
    pub const fn is_relative(&self) -> bool {
        self.start < 0 || matches!(self.end, Some(..0))
    }

    /// Returns the lines in a file of `total` lines.
    ///
    /// # Errors
    /// Returns `invalid_request` if they end before they begin.
    pub fn resolve(&self, total: u64, extent: ShownExtent) -> Result<SliceBounds, Error> {
        let from_start = |line: i64| match u64::try_from(line) {
            Ok(line) => line,
            Err(_) => (total + 1).saturating_sub(line.unsigned_abs()),
        };
        let offset = from_start(self.start).max(1) - 1;
        // An empty file has no last line, and nothing to show up to it.
        let lines_max = match self.end.filter(|end| total > 0 || *end >= 0).map(from_start) {
            Some(end) if end <= offset => {
                return Err(Error::invalid(format!(
                    "end_line {end} is before the first line wanted, {}",
                    offset + 1
                )));
            }
            Some(end) => end - offset,
            None => self.lines_max,
        };
        let ShownExtent { skip_bytes, room, has_others } = extent;
        let is_last = self.is_relative() && offset + 1 >= total;
        let clips_first = self.clips_first && skip_bytes == 0 && (has_others || (lines_max > 1 && !is_last));
        Ok(SliceBounds { offset, lines_max, skip_bytes, room, clips_first })
    }
}

/// A range of lines in a request: `10-20`, `10-`, `10`, `-20` for the last 20, or an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First line, from 1, or from the end.
    start: i64,
    /// Last line; `None` for all that follow.
    end: Option<i64>,
}

impl std::str::FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("range {text:?}: expected lines such as 10-20, 10-, 10, or -20 for the last 20");
        let (start, rest) = number(text.trim()).ok_or_else(wrong)?;
        let range = if rest.is_empty() {
            Self { start, end: (start > 0).then_some(start) }
        } else {
            let rest = ["..", "-", ":"].iter().find_map(|mark| rest.strip_prefix(mark)).ok_or_else(wrong)?;
            let end = match rest.trim() {
                "" => None,
                rest => Some(number(rest).filter(|(_, rest)| rest.is_empty()).ok_or_else(wrong)?.0),
            };
            Self { start, end }
        };
        if range.start == 0 || range.end == Some(0) { Err(wrong()) } else { Ok(range) }
    }
}

/// Returns the file and the lines in a name such as `a.rs:10-14`, `a.rs:10` or `a.rs:10:5`.
pub fn lines_in_name(name: &str) -> Option<(&str, ReadSelection)> {
    let (before, last) = name.rsplit_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (file, lines) = match before.rsplit_once(':') {
        // The last number is a column.
        Some((file, line)) if is_number(line) && is_number(last) => (file, line),
        _ => (before, last),
    };
    if !lines.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let Range { start, end } = lines.parse().ok()?;
    let span = Span { start, end, lines_max: u64::MAX, clips_first: true };
    Some((file, ReadSelection::Lines(span)))
}

/// Returns a number at the start of a text, and the rest.
fn number(text: &str) -> Option<(i64, &str)> {
    let text = text.strip_prefix(['L', 'l']).unwrap_or(text);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let length = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    let (number, rest) = text.split_at(text.len() - digits.len() + length);
    number.parse().ok().map(|number| (number, rest.trim_start()))
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Range of lines as an object.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Lines {
            /// First line.
            #[serde(alias = "start", alias = "startLine")]
            start_line: i64,
            /// Last line.
            #[serde(alias = "end", alias = "endLine")]
            end_line: Option<i64>,
        }
        let value = serde_json::Value::deserialize(deserializer)?;
        let range = match value {
            serde_json::Value::String(text) => text.parse().map_err(de::Error::custom)?,
            serde_json::Value::Object(_) => {
                let lines: Lines = serde_json::from_value(value).map_err(de::Error::custom)?;
                Self { start: lines.start_line, end: lines.end_line }
            }
            other => other.to_string().parse().map_err(de::Error::custom)?,
        };
        if range.start == 0 || range.end == Some(0) {
            return Err(de::Error::custom("lines count from 1, or from the end where negative"));
        }
        Ok(range)
    }
}

impl JsonSchema for Range {
    fn schema_name() -> Cow<'static, str> {
        "Range".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // The schema does not show the fields of an object: a string says the same in fewer words.
        json_schema!({ "type": ["string", "integer", "object"], "additionalProperties": {} })
    }
}

/// Requested part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadSelection {
    /// One range of lines.
    Lines(Span),
    /// Several ranges.
    Ranges(Vec<Span>),
    /// Block around a line, with this maximum number of lines.
    Around(u64, u64),
    /// Cells of a notebook: one, from 1, or all of them; and the bytes to skip in the first cell's source.
    Cells(Option<usize>, usize),
}

impl Request {
    /// Returns the requested part of the file.
    ///
    /// # Errors
    /// Returns `invalid_request` if fields contradict each other.
    pub(super) fn selection(&self, policy: &Policy) -> Result<ReadSelection, Error> {
        self.check_lines()?;
        let lines_max = match self.limit.unwrap_or(policy.number(Key::ReadLimit)) {
            0 => u64::MAX,
            limit => limit,
        };
        if let Some(cell) = self.cell {
            let skip_bytes = self.column.unwrap_or(1) - 1;
            return Ok(ReadSelection::Cells((cell > 0).then_some(cell), skip_bytes));
        }
        if let Some(line) = self.around_line {
            return Ok(ReadSelection::Around(line, lines_max));
        }
        if let Some(ranges) = &self.ranges {
            let span = |range: &Range| Span {
                start: range.start,
                end: range.end,
                lines_max: u64::MAX,
                clips_first: true,
            };
            return Ok(ReadSelection::Ranges(ranges.iter().map(span).collect()));
        }
        let start = match (self.offset, self.start_line) {
            (Some(0), Some(line)) => line,
            (Some(offset), _) if offset < 0 => offset,
            (Some(offset), _) => offset.saturating_add(1),
            (None, start) => start.unwrap_or(1),
        };
        let clips_first = start < 0 || self.end_line.is_some();
        Ok(ReadSelection::Lines(Span { start, end: self.end_line, lines_max, clips_first }))
    }

    /// Moves the first and last line of `view_range` into their own fields.
    ///
    /// # Errors
    /// Returns `invalid_request` if it is not a pair, or those fields are given too.
    pub(super) fn take_view_range(&mut self) -> Result<(), Error> {
        let Some(pair) = self.view_range.take() else {
            return Ok(());
        };
        let wrong = |message: &'static str| Err(Error::invalid(message).detail("field", "view_range"));
        let [first, last] = pair.as_slice() else {
            return wrong("view_range: expected the first and the last line, such as [10, 20]");
        };
        if self.start_line.is_some() || self.end_line.is_some() {
            return wrong("view_range cannot be combined with start_line and end_line: leave them out");
        }
        (self.start_line, self.end_line) = (Some(*first), Some(*last));
        Ok(())
    }

    /// Rejects fields that contradict each other.
    fn check_lines(&self) -> Result<(), Error> {
        // 0 is the default of both fields: the start of the file, and no limit.
        let offset = self.offset.is_some_and(|offset| offset != 0);
        let limit = self.limit.is_some_and(|limit| limit != 0);
        let (start, end) = (self.start_line.is_some(), self.end_line.is_some());
        let (ranges, around) = (self.ranges.is_some(), self.around_line.is_some());
        let lines = offset || start || end;
        let others = lines || self.column.is_some();
        let counts = |range: &Vec<Range>| !(1..=READ_RANGES_MAX).contains(&range.len());
        let faults = [
            (
                offset && start,
                "offset",
                "`offset` and `start_line` both say where to begin: give one of them",
            ),
            (limit && end, "limit", "`limit` and `end_line` both say where to end: give one of them"),
            (
                self.start_line == Some(0),
                "start_line",
                "start_line counts from 1, or from the end where negative",
            ),
            (self.end_line == Some(0), "end_line", "end_line counts from 1, or from the end where negative"),
            (self.column == Some(0), "column", "column counts from 1"),
            (self.around_line == Some(0), "around_line", "around_line counts from 1"),
            (
                ranges && (others || limit),
                "ranges",
                "ranges cannot be combined with offset, limit, start_line, end_line and column: leave them out",
            ),
            (self.ranges.as_ref().is_some_and(counts), "ranges", "ranges: expected 1 to 100 of them"),
            (
                around && (others || ranges),
                "around_line",
                "around_line cannot be combined with the other fields for lines: leave them out",
            ),
            (
                self.cell.is_some() && (lines || ranges || around),
                "cell",
                "cell cannot be combined with the fields for lines: leave them out",
            ),
            (
                self.cell == Some(0) && self.column.is_some(),
                "column",
                "column needs a single cell: name it with cell",
            ),
        ];
        faults.into_iter().try_for_each(|(is_wrong, field, message)| reject_if(is_wrong, field, message))
    }
}

/// Bytes between two progress reports.
const REPORT_BYTES: u64 = 128 << 20;
/// Largest number of bytes per read.
const PIECE_BYTES: usize = 256 << 10;
/// Smallest number of bytes per read, for small files.
const PIECE_BYTES_MIN: usize = 4 << 10;

/// Returns the first bytes of a file, which stays at its start.
pub fn first_bytes(mut file: &File) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(BINARY_CHECK_BYTES);
    file.take(BINARY_CHECK_BYTES as u64).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(start)
}

/// Result of one pass over a file.
pub struct ReadPass {
    /// SHA-256 of the file.
    pub sha256: Sha256,
    /// Size of the file in bytes.
    pub size: u64,
    /// Requested lines.
    pub sliced: SliceResult,
}

/// Reads a whole file: its SHA-256, and the requested lines of the same bytes.
///
/// One pass is enough unless lines count from the end or end in CR alone: then the first pass counts the lines, and a
/// second one follows. It reads no more bytes than the first, so that another program may append meanwhile.
pub fn slices(
    engine: &Engine,
    file: &mut File,
    place: &ResolvedPath,
    spans: &[Span],
    (extent, charset): (ShownExtent, Option<Charset>),
) -> Result<ReadPass, Error> {
    let is_relative = spans.iter().any(Span::is_relative);
    let (mut terminator, mut known, mut size) = (b'\n', None, u64::MAX);
    for _ in 0..READ_PASSES_MAX {
        let total = known.map_or(0, |(_, total)| total);
        let wanted = if is_relative && known.is_none() {
            Vec::new()
        } else {
            let resolved = spans.iter().map(|span| span.resolve(total, extent));
            resolved.collect::<Result<Vec<_>, _>>()?
        };
        file.seek(SeekFrom::Start(0)).map_err(|source| Error::io("read", place.display(), source))?;
        let pass = read_in_pieces(engine, file.take(size), place, &wanted, (terminator, charset))?;
        size = pass.size;
        let is_cut_right = pass.sliced.line_ending.terminator() == terminator;
        let is_counted = !is_relative || known == Some((pass.sha256, pass.sliced.total_lines));
        if is_cut_right && is_counted {
            return Ok(pass);
        }
        known = is_cut_right.then_some((pass.sha256, pass.sliced.total_lines));
        terminator = pass.sliced.line_ending.terminator();
    }
    Err(Error::new(ErrorKind::IoError, format!("{} was changed while it was being read", place.display()))
        .at(place.display())
        .suggest("Wait until the program that writes it has finished, then read it again."))
}

/// Reads a whole file in pieces: its SHA-256, its size, and the requested lines.
pub fn read_in_pieces(
    engine: &Engine,
    file: impl Read,
    place: &ResolvedPath,
    wanted: &[SliceBounds],
    (terminator, charset): (u8, Option<Charset>),
) -> Result<ReadPass, Error> {
    let (mut slicer, mut hasher, mut size) =
        (TextSlicer::new(wanted, terminator, charset), Hasher::default(), 0);
    let unsupported = |what| unsupported_encoding(place.display(), what);
    let mut refused = None;
    for_each_piece(engine, file, place, |piece| {
        hasher.update(piece);
        size += piece.len() as u64;
        if refused.is_none() {
            refused = slicer.push(piece).err();
        }
    })?;
    if let Some(what) = refused {
        return Err(unsupported(what));
    }
    let sliced = slicer.finish().map_err(unsupported)?;
    Ok(ReadPass { sha256: hasher.finish(), size, sliced })
}

/// Passes a file on piece by piece.
pub fn for_each_piece(
    engine: &Engine,
    mut file: impl Read,
    place: &ResolvedPath,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Error> {
    // A small file is read at once; one that has grown meanwhile, in pieces.
    let expected = place.stat().map_or(u64::MAX, fs::size_of).saturating_add(1);
    let bytes = usize::try_from(expected).unwrap_or(usize::MAX).clamp(PIECE_BYTES_MIN, PIECE_BYTES);
    let mut buffer = vec![0; bytes];
    let (mut done, mut reported) = (0, 0);
    loop {
        engine.control.check()?;
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                take(buffer.get(..length).unwrap_or_default());
                done += length as u64;
                if done - reported >= REPORT_BYTES {
                    reported = done;
                    engine.control.report(Progress { done, total: place.stat().map(fs::size_of) });
                }
            }
            Err(source) if source.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::io("read", place.display(), source)),
        }
    }
}
