//! Response of a read: numbered lines that fit its limit, as JSON and as text.

use rustix::fs::Stat;
use schemars::JsonSchema;
use serde::Serialize;

use super::range::ReadPass;
use crate::engine::workspace::fs;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::ErrorKind;
use crate::sha256::Sha256;
use crate::text::answer_size::{AnswerRoom, TextSize, prefix_within};
use crate::text::content::Encoding;
use crate::text::escaped;
use crate::text::escaped::plural;
use crate::text::lines::{LineEnding, LineSpan};
use crate::text::slice::{ClippedStart, Slice, SliceResult};
use crate::tools::Text;
use crate::tools::common::is_zero;

/// Form of shown lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineForm {
    /// True if each line has its number and a tab first; the text after the first tab is the line.
    pub line_numbers: bool,
    /// True if blanks and look-alikes are visible.
    pub visible: bool,
}

impl LineForm {
    /// Returns a line in this form.
    pub fn of(self, line: &[u8], number: u64) -> String {
        let text =
            if self.visible { escaped::visible(line) } else { String::from_utf8_lossy(line).into_owned() };
        if self.line_numbers { format!("{number}\t{text}") } else { text }
    }
}

/// Part of a text that is shown.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ShownPart {
    /// First line, from 1.
    pub first: u64,
    /// Its lines.
    pub lines: Slice,
    /// Text to show.
    pub text: String,
}

impl ShownPart {
    /// Returns its last line, including a cut one; one less than its first if it has none.
    pub fn last(&self) -> u64 {
        self.first + self.lines.ended_lines + u64::from(self.lines.cut_at.is_some()) - 1
    }

    /// Returns the lines that are shown whole, as ranges.
    pub fn whole_lines(&self) -> Vec<(u64, u64)> {
        let mut from = self.first + u64::from(self.lines.skipped > 0);
        let mut seen = Vec::with_capacity(self.lines.clipped.len() + 1);
        for clipped in &self.lines.clipped {
            seen.push((from, clipped.line - 1));
            from = clipped.line + 1;
        }
        seen.push((from, self.first + self.lines.ended_lines - 1));
        seen
    }

    /// Returns true if it is complete from the start of its first line.
    pub fn is_whole(&self) -> bool {
        self.lines.ended_lines > 0
            && self.lines.cut_at.is_none()
            && self.lines.skipped == 0
            && self.lines.clipped.is_empty()
    }

    /// Returns the number of lines to skip to continue after it.
    pub fn next_offset(&self) -> u64 {
        self.first + self.lines.ended_lines - 1
    }

    /// Returns true if it begins at the start of the file.
    pub fn is_start(&self) -> bool {
        self.first == 1 && self.lines.skipped == 0
    }

    /// Builds the text to show.
    pub fn show(&mut self, form: LineForm, text: &SliceResult) {
        self.text = if form == LineForm::default() {
            // A check of the whole text is faster than the search of the lossy conversion for its first error.
            let lossy = |_| String::from_utf8_lossy(&self.lines.bytes).into_owned();
            std::str::from_utf8(&self.lines.bytes).map_or_else(lossy, str::to_owned)
        } else {
            lines_of(&self.lines.bytes, text.line_ending)
                .zip(self.first..)
                .map(|(line, number)| form.of(line, number))
                .collect()
        };
    }

    /// Cuts it to the limit, in the form of its lines; returns the used size.
    fn fit(&mut self, form: LineForm, style: LineEnding, used: TextSize, room: AnswerRoom) -> TextSize {
        let (mut used, mut kept, mut kept_lines) = (used, Vec::with_capacity(self.lines.bytes.len()), 0);
        let mut clipped = Vec::new();
        let mut known = std::mem::take(&mut self.lines.clipped).into_iter().peekable();
        let mut ended_lines = self.lines.ended_lines;
        for (line, number) in lines_of(&self.lines.bytes, style).zip(self.first..) {
            let known = known.next_if(|known| known.line == number);
            let with = used.with(&form.of(line, number));
            // A first line is always shown in part, so that the reader makes progress.
            let length = if room.holds(with) {
                line.len()
            } else if used == TextSize::default() {
                longest_start(line, number, form, room)
            } else {
                0
            };
            kept.extend_from_slice(line.get(..length).unwrap_or_default());
            if length == line.len() {
                clipped.extend(known);
                used = with;
                kept_lines += 1;
                continue;
            }
            self.lines.stopped = true;
            self.lines.cut_at = None;
            ended_lines = kept_lines;
            if length > 0 {
                used = used.with(&form.of(&kept, number));
                self.lines.cut_at = Some(self.lines.skipped + length);
            }
            break;
        }
        (self.lines.bytes, self.lines.ended_lines, self.lines.clipped) = (kept, ended_lines, clipped);
        used
    }
}

/// Returns the length of the longest start of a line, shown as `number`, that fits the limit: whole characters, at
/// least one.
pub fn longest_start(line: &[u8], number: u64, form: LineForm, room: AnswerRoom) -> usize {
    let is_within = |length: usize| {
        let start = line.get(..length).unwrap_or_default();
        room.holds(TextSize::of(form.of(start, number).as_bytes()))
    };
    let (mut within, mut beyond) = (0, line.len() + 1);
    while within + 1 < beyond {
        let middle = usize::midpoint(within, beyond);
        if is_within(middle) {
            within = middle;
        } else {
            beyond = middle;
        }
    }
    let is_inside = |at: &usize| line.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    // Do not cut inside a character.
    let end = (within.saturating_sub(3)..=within).rev().find(|at| !is_inside(at));
    end.unwrap_or(within).max(prefix_within(line, 1, 1))
}

/// Returns the parts that were found, within one limit; none after the first that is cut.
pub fn parts(pass: &ReadPass, form: LineForm, room: AnswerRoom) -> Vec<ShownPart> {
    let (mut shown, mut used) = (Vec::new(), TextSize::default());
    // A single pass already cut its lines to the limit, if they are shown unchanged.
    let is_within = pass.sliced.parts.len() <= 1 && form == LineForm::default();
    for slice in &pass.sliced.parts {
        let mut part = ShownPart { first: slice.offset + 1, lines: slice.clone(), text: String::new() };
        if !is_within {
            used = part.fit(form, pass.sliced.line_ending, used, room);
        }
        shown.push(part);
        if shown.last().is_some_and(|part| part.lines.stopped) {
            break;
        }
    }
    shown
}

/// Returns the lines of a part.
pub fn lines_of(bytes: &[u8], style: LineEnding) -> impl Iterator<Item = &[u8]> {
    let terminator = style.terminator();
    bytes.split_inclusive(move |&byte| byte == terminator)
}

/// Result of a read.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum Response {
    /// One file.
    One(Box<FileRead>),
    /// Several files, in the order of the request.
    Several {
        /// One response per file
        files: Vec<FileOrRefusal>,
        /// Number of paths at the end of the list that were not read because the response is full
        #[serde(skip_serializing_if = "is_zero")]
        not_read: usize,
        /// Kind of the first error.
        #[serde(skip)]
        first_refused: Option<ErrorKind>,
    },
}

/// One of several files.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum FileOrRefusal {
    /// File that was read.
    Read(Box<FileRead>),
    /// File that was not read.
    Refused {
        /// Path as given
        path: String,
        /// Error for this file
        error: serde_json::Value,
    },
}

/// Content of one file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileRead {
    /// Path
    pub path: String,
    /// Lines with the file's own line endings
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Lines of each requested range
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<RangeRead>,
    /// False if whitespace is shown by marks, so that the text is not the file's own
    #[serde(skip_serializing_if = "Option::is_none")]
    pub literal: Option<bool>,
    /// Cells of a notebook
    #[serde(flatten)]
    pub notebook: Option<NotebookRead>,
    /// True if the file still has the given sha256; then there is no content
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    /// MIME type of a file that is not text
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<&'static str>,
    /// Width of an image in pixels
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// Height of an image in pixels
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<usize>,
    /// All bytes of a file that is not text; images are separate blocks over MCP
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// SHA-256 of all bytes on disk
    pub sha256: Sha256,
    /// Bytes on disk
    pub size: u64,
    /// Text properties; absent for a file that is not text
    #[serde(flatten)]
    pub text: Option<TextRead>,
    /// Permission bits, octal
    pub mode: String,
    /// Lines as on disk, for `--text`.
    #[serde(skip)]
    pub raw: Vec<u8>,
}

/// One of several ranges of lines.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RangeRead {
    /// First line, from 1
    pub start_line: u64,
    /// Last line; one less than `start_line` if the range is empty
    pub end_line: u64,
    /// Lines
    pub content: String,
    /// SHA-256 of the lines on disk, for `range_sha256` of edit
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_sha256: Option<Sha256>,
}

/// Properties of the text of a file, and the position of this part.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TextRead {
    /// Lines in the file
    pub total_lines: u64,
    /// First line shown, from 1
    pub start_line: u64,
    /// Last line shown; one less than `start_line` if no line is shown
    pub end_line: u64,
    /// True if requested lines are missing, or the file has later lines
    pub truncated: bool,
    /// Next offset: after these lines, else at the first clipped line
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// Column at which to continue, if a line was cut
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_column: Option<usize>,
    /// Lines too long to be shown whole, which were clipped: read the rest of one with its number as `start_line` and
    /// its `next_column` as `column`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clipped: Vec<ClippedLine>,
    /// SHA-256 of these lines on disk, if lines were requested: for `range_sha256` of edit
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_sha256: Option<Sha256>,
    /// utf-8, utf-16le, utf-16be, or bytes, which are shown lossily
    pub encoding: Encoding,
    /// Line ending
    pub line_ending: LineEnding,
    /// True if the file begins with a byte-order mark, which is not in the content
    pub bom: bool,
}

/// Line of which only the start is shown.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClippedLine {
    /// Number, from 1
    pub line: u64,
    /// Column after the shown part
    pub next_column: usize,
    /// Byte length
    pub bytes: u64,
}

/// One cell of a notebook.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NotebookCell {
    /// Number, from 1
    pub cell: usize,
    /// ID of the cell, if any
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// code, markdown or raw
    pub r#type: String,
    /// Source
    pub source: String,
    /// Number of its last execution
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_count: Option<u64>,
    /// Outputs in short form: the start of a text, or else type and size
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
}

/// Cells of a notebook that are shown.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NotebookRead {
    /// Requested cells of a notebook
    pub cells: Vec<NotebookCell>,
    /// Number of cells in the notebook
    pub total_cells: usize,
    /// Cell at which to continue, if not all are here
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cell: Option<usize>,
    /// Byte of that cell's source at which to continue, for `column`, if the cell was cut
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_column: Option<usize>,
}

impl From<&ClippedStart> for ClippedLine {
    fn from(clipped: &ClippedStart) -> Self {
        Self { line: clipped.line, next_column: clipped.kept + 1, bytes: clipped.length }
    }
}

impl Response {
    /// Returns the files that were read.
    pub fn reads_mut(&mut self) -> Vec<&mut FileRead> {
        match self {
            Self::One(read) => vec![read.as_mut()],
            Self::Several { files, .. } => {
                let reads = files.iter_mut().filter_map(|file| match file {
                    FileOrRefusal::Read(read) => Some(read.as_mut()),
                    FileOrRefusal::Refused { .. } => None,
                });
                reads.collect()
            }
        }
    }
}

impl FileRead {
    /// Returns the response for a file of which nothing is shown yet.
    pub fn new(place: &ResolvedPath, sha256: Sha256, size: u64, stat: &Stat) -> Self {
        Self {
            path: place.display().to_owned(),
            content: None,
            ranges: Vec::new(),
            literal: None,
            notebook: None,
            unchanged: false,
            mime: None,
            width: None,
            height: None,
            base64: None,
            sha256,
            size,
            text: None,
            mode: fs::mode_text(fs::mode_of(stat)),
            raw: Vec::new(),
        }
    }

    /// Returns the number of bytes of the file in the response.
    pub fn payload_size(&self) -> TextSize {
        let cells = if self.notebook.is_some() { self.raw.as_slice() } else { &[] };
        let ranges = self.ranges.iter().map(|range| &range.content);
        let texts = self.content.iter().chain(ranges).chain(&self.base64);
        texts.fold(TextSize::of(cells), |size, text| size.with(text))
    }
}

impl TextRead {
    /// Returns the description of the shown parts of a text.
    pub fn new(text: &SliceResult, parts: &[ShownPart], ends_where_asked: bool) -> Self {
        // A range past the end has no last line.
        let last = parts.iter().rfind(|part| part.last() >= part.first).or(parts.last());
        let (start_line, end_line) = match (parts.first(), last) {
            (Some(first), Some(last)) => (first.first, last.last()),
            _ => (1, 0),
        };
        let stopped = parts.iter().find(|part| part.lines.stopped);
        let goes_on = stopped.is_some() || (end_line < text.total_lines && !ends_where_asked);
        let after = goes_on.then(|| {
            let column = stopped.and_then(|part| part.lines.cut_at).map(|cut| cut + 1);
            (stopped.map_or(end_line, ShownPart::next_offset), column)
        });
        let clipped: Vec<ClippedLine> =
            parts.iter().flat_map(|part| &part.lines.clipped).map(ClippedLine::from).collect();
        let inside = clipped.first().map(|clipped| (clipped.line - 1, Some(clipped.next_column)));
        let next = after.or(inside);
        Self {
            total_lines: text.total_lines,
            start_line,
            end_line,
            truncated: next.is_some(),
            next_offset: next.map(|next| next.0),
            next_column: next.and_then(|next| next.1),
            clipped,
            range_sha256: None,
            encoding: text.encoding,
            line_ending: text.line_ending,
            bom: text.bom,
        }
    }
}

/// Adds the bytes of one file, and a note on how to continue.
pub fn one_as_text(read: &FileRead, named: &str, text: &mut Text) {
    text.out.extend_from_slice(&read.raw);
    if read.unchanged {
        text.note(format!("{}: unchanged", read.path));
    } else if let Some(mime) = read.mime
        && read.raw.is_empty()
    {
        let pixels = match (read.width, read.height) {
            (Some(width), Some(height)) => format!(", {width}x{height} pixels"),
            _ => String::new(),
        };
        text.note(format!("{}: {mime}, {}{pixels}", read.path, plural(read.size, "byte")));
    }
    if let Some(cells) = &read.notebook
        && let Some(next) = cells.next_cell
    {
        let (shown, column) = match cells.next_column {
            Some(column) => (format!("a part of cell {next}"), format!(" {}", text.option("column", column))),
            None => (format!("cells up to {}", next - 1), String::new()),
        };
        let total = cells.total_cells;
        let cell = text.option("cell", next);
        text.note(format!("{named}{shown} of {total}; continue with {cell}{column}"));
    }
    if let Some(part) = &read.text {
        notes_of_part(part, named, text);
    }
}

/// Adds notes on clipped lines, and on how to continue after them.
pub fn notes_of_part(part: &TextRead, named: &str, text: &mut Text) {
    for ClippedLine { line, next_column, bytes } in &part.clipped {
        let shown = next_column - 1;
        let (line_field, column) = (text.option("start_line", line), text.option("column", next_column));
        text.note(format!(
            "{named}line {line} is clipped to {shown} of {}; continue with {line_field} {column}",
            plural(*bytes, "byte")
        ));
    }
    let is_told = |offset: u64| {
        let first = part.clipped.first();
        first.is_some_and(|first| first.line == offset + 1 && part.next_column == Some(first.next_column))
    };
    if let Some(offset) = part.next_offset.filter(|&offset| !is_told(offset)) {
        let offset = text.option("offset", offset);
        let column = part.next_column.map(|column| format!(" {}", text.option("column", column)));
        text.note(format!(
            "{named}{} of {}; continue with {offset}{}",
            LineSpan { first: part.start_line, last: part.end_line },
            part.total_lines,
            column.unwrap_or_default()
        ));
    }
}

/// Adds one of several files under its name.
pub fn several_as_text(item: &FileOrRefusal, text: &mut Text) {
    match item {
        FileOrRefusal::Read(read) => {
            let path = escaped::name(&read.path);
            text.line(&format!("==> {path} <=="));
            one_as_text(read, &format!("{path}: "), text);
            if read.raw.last().is_some_and(|last| *last != b'\n') {
                text.out.push(b'\n');
            }
        }
        FileOrRefusal::Refused { path, error } => {
            let of = |field: &str| {
                error.get(field).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
            };
            text.note(format!("{}: {} ({path})", of("kind"), of("message")));
        }
    }
}
