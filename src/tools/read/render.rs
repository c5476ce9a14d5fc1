//! The response of a read: numbered lines that fit its budget, as JSON and as text.

use rustix::fs::Stat;
use schemars::JsonSchema;
use serde::Serialize;

use super::range::Pass;
use crate::engine::workspace::fs;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::ErrorKind;
use crate::sha256::Sha256;
use crate::text::answer_size::{AnswerRoom, TextSize, prefix_within};
use crate::text::content::Encoding;
use crate::text::counted::counted;
use crate::text::escaped;
use crate::text::lines::LineEnding;
use crate::text::slice::{Clipped, Sliced};
use crate::tools::Text;

/// How lines are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Form {
    /// Each with its number and a tab before it, so that what follows the first tab is the line.
    pub line_numbers: bool,
    /// With blanks and look-alikes made visible.
    pub visible: bool,
}

impl Form {
    /// Returns a line as it is shown.
    #[must_use]
    pub fn of(self, line: &[u8], number: u64) -> String {
        let text =
            if self.visible { escaped::visible(line) } else { String::from_utf8_lossy(line).into_owned() };
        if self.line_numbers { format!("{number}\t{text}") } else { text }
    }
}

/// A part of a text that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its first line, from 1.
    pub first: u64,
    /// Bytes of that line that were left out before.
    pub skipped: usize,
    /// Its lines.
    pub bytes: Vec<u8>,
    /// Lines in it up to their end, clipped ones included.
    pub ended_lines: u64,
    /// Those that are clipped, in order.
    pub clipped: Vec<Clipped>,
    /// Where a cut fell inside its last line: bytes of that line before the cut.
    pub cut_at: Option<usize>,
    /// True if it ends because of a bound.
    pub stopped: bool,
    /// What is shown.
    pub text: String,
}

impl Part {
    /// Returns its last line, one that was cut included; one less than its first where it has none.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.first + self.ended_lines + u64::from(self.cut_at.is_some()) - 1
    }

    /// Returns the lines that are shown whole, as ranges.
    #[must_use]
    pub fn seen(&self) -> Vec<(u64, u64)> {
        let mut from = self.first + u64::from(self.skipped > 0);
        let mut seen = Vec::with_capacity(self.clipped.len() + 1);
        for clipped in &self.clipped {
            seen.push((from, clipped.line - 1));
            from = clipped.line + 1;
        }
        seen.push((from, self.first + self.ended_lines - 1));
        seen
    }

    /// Returns true if all of it is there, from the start of its first line on.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.ended_lines > 0 && self.cut_at.is_none() && self.skipped == 0 && self.clipped.is_empty()
    }

    /// Returns lines to pass over to go on after it.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.first + self.ended_lines - 1
    }

    /// Returns true if it begins where the file does.
    #[must_use]
    pub fn is_start(&self) -> bool {
        self.first == 1 && self.skipped == 0
    }

    /// Makes the text that is shown.
    pub fn show(&mut self, form: Form, text: &Sliced) {
        self.text = if form == Form::default() {
            // Whole text is checked faster than the lossy conversion looks for its first fault.
            let lossy = |_| String::from_utf8_lossy(&self.bytes).into_owned();
            std::str::from_utf8(&self.bytes).map_or_else(lossy, str::to_owned)
        } else {
            lines_of(&self.bytes, text.line_ending)
                .zip(self.first..)
                .map(|(line, number)| form.of(line, number))
                .collect()
        };
    }

    /// Cuts it to the bound, in the form in which its lines are shown; what is then used of the
    /// bound.
    fn fit(&mut self, form: Form, style: LineEnding, used: TextSize, room: AnswerRoom) -> TextSize {
        let (mut used, mut kept, mut kept_lines) = (used, Vec::with_capacity(self.bytes.len()), 0);
        let mut clipped = Vec::new();
        let mut known = std::mem::take(&mut self.clipped).into_iter().peekable();
        let mut ended_lines = self.ended_lines;
        for (line, number) in lines_of(&self.bytes, style).zip(self.first..) {
            let known = known.next_if(|known| known.line == number);
            let shown = form.of(line, number);
            if room.holds(used.with(&shown)) {
                clipped.extend(known);
                used = used.with(&shown);
                kept.extend_from_slice(line);
                kept_lines += 1;
                continue;
            }
            self.stopped = true;
            self.cut_at = None;
            ended_lines = kept_lines;
            // A first line is shown in part, whatever it takes, so that the reader gets on.
            if used == TextSize::default() {
                let length = longest_start(line, number, form, room);
                kept.extend_from_slice(line.get(..length).unwrap_or_default());
                used = used.with(&form.of(&kept, number));
                self.cut_at = Some(self.skipped + length);
            }
            break;
        }
        (self.bytes, self.ended_lines, self.clipped) = (kept, ended_lines, clipped);
        used
    }
}
/// Returns bytes of the longest start of a line, shown as `number`, that is within a bound: whole characters, at
/// least one.
#[must_use]
pub fn longest_start(line: &[u8], number: u64, form: Form, room: AnswerRoom) -> usize {
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
    // Not inside a character, where there is one.
    let end = (within.saturating_sub(3)..=within).rev().find(|at| !is_inside(at));
    end.unwrap_or(within).max(prefix_within(line, 1, 1))
}

/// Returns the parts that were found, together within the bound; none after the first that is cut.
#[must_use]
pub fn parts(pass: &Pass, form: Form, room: AnswerRoom) -> Vec<Part> {
    let (mut shown, mut used) = (Vec::new(), TextSize::default());
    // What one pass cut is within the bound, as long as it is shown as it is.
    let is_within = pass.wanted.len() <= 1 && form == Form::default();
    for (slice, wanted) in pass.sliced.parts.iter().zip(&pass.wanted) {
        let mut part = Part {
            first: wanted.offset + 1,
            skipped: wanted.skip_bytes,
            bytes: slice.bytes.clone(),
            ended_lines: slice.ended_lines,
            clipped: slice.clipped.clone(),
            cut_at: slice.cut_at,
            stopped: slice.stopped,
            text: String::new(),
        };
        if !is_within {
            used = part.fit(form, pass.sliced.line_ending, used, room);
        }
        let is_cut = part.stopped;
        shown.push(part);
        if is_cut {
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

/// What was read.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum Response {
    /// Of one file.
    One(Box<FileRead>),
    /// Of several, in the order asked for.
    Several {
        /// One response a file.
        files: Vec<FileOrRefusal>,
        /// How many paths at the end of the list were not read, because the response is full.
        #[serde(skip_serializing_if = "is_zero")]
        not_read: usize,
        /// Kind of the first error.
        #[serde(skip)]
        first_refused: Option<ErrorKind>,
    },
}

/// Returns true if there is none.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One of several files.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum FileOrRefusal {
    /// It was read.
    Read(Box<FileRead>),
    /// It was not.
    Refused {
        /// The path as it was given.
        path: String,
        /// Why.
        error: serde_json::Value,
    },
}

/// What was read of a file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileRead {
    /// The file
    pub path: String,
    /// The lines, with the file's own line endings
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The lines of each range asked for
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<RangeRead>,
    /// False where whitespace is shown by marks, so that the text is not the file's own
    #[serde(skip_serializing_if = "Option::is_none")]
    pub literal: Option<bool>,
    /// What was shown of a notebook
    #[serde(flatten)]
    pub notebook: Option<NotebookRead>,
    /// True where the file still has the sha256 asked about; then there is no content
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
    /// All bytes of a file that is not text; those of an image are in a block of their own over MCP
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// SHA-256 of all bytes on disk
    pub sha256: Sha256,
    /// Bytes on disk
    pub size: u64,
    /// What the text is like; absent for a file that is not text
    #[serde(flatten)]
    pub text: Option<TextRead>,
    /// Permission bits, octal
    pub mode: String,
    /// The lines as they are on disk, for `--text`.
    #[serde(skip)]
    #[schemars(skip)]
    pub raw: Vec<u8>,
}

/// One of several ranges of lines.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RangeRead {
    /// Its first line, from 1
    pub start_line: u64,
    /// Its last line; one less than `start_line` where there is none
    pub end_line: u64,
    /// Its lines
    pub content: String,
    /// SHA-256 of their bytes on disk, which edit takes as `range_sha256`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_sha256: Option<Sha256>,
}

/// What the text of a file is like, and which part of it this is.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TextRead {
    /// Lines in the file
    pub total_lines: u64,
    /// First line shown, from 1
    pub start_line: u64,
    /// Last line shown; one less than `start_line` where there is none
    pub end_line: u64,
    /// Whether something was left out that was asked for, or lines after these
    pub truncated: bool,
    /// Where to continue: after these lines; where nothing follows, in the first that was clipped
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The column to continue at, where a line was cut
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_column: Option<usize>,
    /// Lines too long to be shown whole, which were clipped: the rest of one is read with its
    /// number as `start_line` and its `next_column` as `column`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clipped: Vec<ClippedLine>,
    /// SHA-256 of the bytes of these lines on disk, where lines were asked for: edit takes it as
    /// `range_sha256`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_sha256: Option<Sha256>,
    /// utf-8, utf-16le, utf-16be, or bytes, which are shown lossily
    pub encoding: Encoding,
    /// How the lines end
    pub line_ending: LineEnding,
    /// Whether the file begins with a byte-order mark, which is not in the content
    pub bom: bool,
}

/// A line of which only the start is shown.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClippedLine {
    /// Its number, from 1
    pub line: u64,
    /// The column after what is shown of it
    pub next_column: usize,
    /// Bytes in it
    pub bytes: u64,
}

/// One cell of a notebook.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NotebookCell {
    /// Its number, from 1
    pub cell: usize,
    /// Its id, where the notebook gives it one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// code, markdown or raw
    pub r#type: String,
    /// Its source
    pub source: String,
    /// The number of its last execution
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_count: Option<u64>,
    /// What it put out, in short: text from its start, of anything else its type and size
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
}

/// The cells of a notebook that are shown.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NotebookRead {
    /// The cells of a notebook that were asked for
    pub cells: Vec<NotebookCell>,
    /// How many there are in the notebook
    pub total_cells: usize,
    /// The cell to continue at, where not all are here
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cell: Option<usize>,
    /// The byte of that cell's source to continue at, as `column`, where a part of it is here
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_column: Option<usize>,
}

impl From<&Clipped> for ClippedLine {
    fn from(clipped: &Clipped) -> Self {
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
    /// Returns the answer for a file of which nothing is shown yet.
    #[must_use]
    pub fn new(place: &ResolvedPath, sha256: Sha256, size: u64, stat: &Stat) -> Self {
        Self {
            path: place.shown().to_owned(),
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

    /// Returns bytes of the file in the answer.
    #[must_use]
    pub fn payload_size(&self) -> TextSize {
        let cells = if self.notebook.is_some() { self.raw.as_slice() } else { &[] };
        let ranges = self.ranges.iter().map(|range| &range.content);
        let texts = self.content.iter().chain(ranges).chain(&self.base64);
        texts.fold(TextSize::of(cells), |size, text| size.with(text))
    }
}

impl TextRead {
    /// Returns which parts of a text are shown.
    pub fn new(text: &Sliced, parts: &[Part], ends_where_asked: bool) -> Self {
        // A range past the end has no last line.
        let last = parts.iter().rfind(|part| part.last() >= part.first).or(parts.last());
        let (start_line, end_line) = match (parts.first(), last) {
            (Some(first), Some(last)) => (first.first, last.last()),
            _ => (1, 0),
        };
        let stopped = parts.iter().find(|part| part.stopped);
        let goes_on = stopped.is_some() || (end_line < text.total_lines && !ends_where_asked);
        let after = goes_on.then(|| {
            let column = stopped.and_then(|part| part.cut_at).map(|cut| cut + 1);
            (stopped.map_or(end_line, Part::next_offset), column)
        });
        let clipped: Vec<ClippedLine> =
            parts.iter().flat_map(|part| &part.clipped).map(ClippedLine::from).collect();
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

/// The bytes of one file, and where to go on.
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
        text.note(format!("{}: {mime}, {}{pixels}", read.path, counted(read.size, "byte")));
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

/// Which lines were clipped, and where to go on after them.
pub fn notes_of_part(part: &TextRead, named: &str, text: &mut Text) {
    for ClippedLine { line, next_column, bytes } in &part.clipped {
        let shown = next_column - 1;
        let (line_field, column) = (text.option("start_line", line), text.option("column", next_column));
        text.note(format!(
            "{named}line {line} is clipped to {shown} of {}; continue with {line_field} {column}",
            counted(*bytes, "byte")
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
            "{named}lines {} to {} of {}; continue with {offset}{}",
            part.start_line,
            part.end_line,
            part.total_lines,
            column.unwrap_or_default()
        ));
    }
}

/// One of several files under its name.
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
