//! What `read` answers.

use rustix::fs::Stat;
use schemars::JsonSchema;
use serde::Serialize;

use super::shown::Part;
use crate::engine::workspace::fs;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::ErrorKind;
use crate::sha256::Sha256;
use crate::text::answer_size::TextSize;
use crate::text::content::Encoding;
use crate::text::lines::LineEnding;
use crate::text::slice::{Clipped, Sliced};

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

/// Whether there is none.
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
    /// The files that were read.
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
    /// The answer for a file of which nothing is shown yet.
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

    /// Bytes of the file in the answer.
    #[must_use]
    pub fn payload_size(&self) -> TextSize {
        let cells = if self.notebook.is_some() { self.raw.as_slice() } else { &[] };
        let ranges = self.ranges.iter().map(|range| &range.content);
        let texts = self.content.iter().chain(ranges).chain(&self.base64);
        texts.fold(TextSize::of(cells), |size, text| size.with(text))
    }
}

impl TextRead {
    /// Which parts of a text are shown.
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
