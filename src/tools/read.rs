//! `read`: some lines of a file, and the SHA-256 of all of it.

mod around;
mod binary;
mod notebook;
mod shown;
mod wanted;

use std::fs::File;
use std::io::{Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rustix::fs::Stat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::unsupported_encoding;
use super::{Effect, Image, Text, Tool};
use crate::control::Progress;
use crate::engine::policy::Policy;
use crate::engine::resolve::Place;
use crate::engine::{Engine, fs};
use crate::envelope::Refusal;
use crate::error::{Error, ErrorKind};
use crate::sha256::{Hasher, Sha256};
use crate::text::content::{self, BINARY_CHECK_BYTES, Content, Encoding};
use crate::text::lines::LineEnding;
use crate::text::slice::{Clipped, Sliced, Slicer, Wanted};
use notebook::NotebookRead;
use shown::{Form, Part};
use wanted::{Extent, Range, Selection, Span};

/// How often a file that changes meanwhile is read anew.
const PASSES_MAX: usize = 8;
/// Bytes between two reports of how far a read is.
const REPORT_BYTES: u64 = 128 << 20;
/// Bytes read at once.
const PIECE_BYTES: usize = 256 << 10;

/// Read lines of a file, and note that this session has seen them
///
/// Answers the text with the file's own line endings, and the sha256 of all its bytes. A file
/// must be read before edit, write or patch may change it. A long file comes in parts: where
/// `truncated` is true, go on at `next_offset`.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// File to read
    #[schemars(extend("x-aliases" = ["file_path", "filename", "file", "target_file"]))]
    pub path: Option<PathBuf>,
    /// Several files to read in one call
    #[arg(value_name = "PATH")]
    #[schemars(extend("x-aliases" = ["files", "file_paths"]))]
    pub paths: Option<Vec<PathBuf>>,
    /// Lines to pass over, from 0; -20 for the last 20
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    pub offset: Option<i64>,
    /// Lines to show at most; 0 for all
    #[arg(long, value_name = "LINES")]
    pub limit: Option<u64>,
    /// First line to show, from 1, or from the end where negative; instead of offset
    #[arg(long, value_name = "LINE", allow_negative_numbers = true)]
    pub start_line: Option<i64>,
    /// Last line to show, -1 being the file's last; instead of limit
    #[arg(long, value_name = "LINE", allow_negative_numbers = true)]
    pub end_line: Option<i64>,
    /// Several ranges of lines: 10-20, 50-, -20 for the last 20
    #[arg(long, alias = "range", value_name = "LINES", value_delimiter = ',', allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["range", "line_ranges"]))]
    pub ranges: Option<Vec<Range>>,
    /// Show the block round this line, by indentation
    #[arg(long, value_name = "LINE")]
    #[schemars(range(min = 1))]
    pub around_line: Option<u64>,
    /// Byte of the first line, or of the cell, to begin at, from 1, as `next_column` says
    #[arg(long, value_name = "BYTE")]
    #[schemars(range(min = 1))]
    pub column: Option<usize>,
    /// Put the line's number and a tab before each line
    #[arg(long, short = 'n')]
    #[serde(default)]
    pub line_numbers: bool,
    /// Make blanks at line ends, tabs, CR and characters that look like others visible
    #[arg(long)]
    #[serde(default)]
    pub show_whitespace: bool,
    /// Show a notebook's cell, from 1, and its outputs in short; 0 for all cells
    #[arg(long, value_name = "NUMBER")]
    pub cell: Option<usize>,
    /// Answer `unchanged` and no content where the file still has this sha256
    #[arg(long, value_name = "HEX")]
    pub if_sha256: Option<Sha256>,
    /// How to show a file that is no text; without it such a file is refused
    #[arg(long, value_name = "FORM")]
    pub binary: Option<BinaryForm>,
    /// Bytes of content in the answer; 0 for no bound
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// First and last line, as the text editor that models are trained on names them
    #[arg(skip)]
    #[schemars(extend("x-hidden" = true))]
    pub view_range: Option<Vec<i64>>,
}

/// A form for files that are no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum BinaryForm {
    /// All of it, encoded as base64, with its MIME type; MCP clients get an image as such
    Base64,
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
        /// One answer a file.
        files: Vec<Item>,
    },
}

/// One of several files.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Item {
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
    /// MIME type of a file that is no text
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<&'static str>,
    /// Width of an image in pixels
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// Height of an image in pixels
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<usize>,
    /// All bytes of a file that is no text; those of an image are in a block of their own over MCP
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// SHA-256 of all bytes on disk
    pub sha256: Sha256,
    /// Bytes on disk
    pub size: u64,
    /// What the text is like; absent for a file that is no text
    #[serde(flatten)]
    pub text: Option<TextRead>,
    /// Permission bits, octal
    pub mode: String,
    /// The lines as they are on disk, for `--text`.
    #[serde(skip)]
    #[schemars(skip)]
    raw: Vec<u8>,
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
    /// Where to go on: after these lines; where nothing follows, in the first that was clipped
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The column to go on at, where a line was cut
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

impl From<&Clipped> for ClippedLine {
    fn from(clipped: &Clipped) -> Self {
        Self { line: clipped.line, next_column: clipped.kept + 1, bytes: clipped.length }
    }
}

/// The tool.
pub struct Read;

impl Tool for Read {
    const NAME: &'static str = "read";
    const ALIASES: &'static [&'static str] = &["read_file", "read_text_file", "view"];
    const EFFECT: Effect = Effect::Reads;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, mut request: Request) -> Result<Response, Error> {
        request.take_view_range()?;
        let selection = request.selection(engine.policy())?;
        let bytes_max = request.bytes_max(engine.policy());
        match (&request.path, &request.paths) {
            (Some(path), None) => {
                read(engine, path, &request, &selection, bytes_max).map(|read| Response::One(Box::new(read)))
            }
            (path, Some(paths)) if path.is_some() || !paths.is_empty() => {
                let paths: Vec<&PathBuf> = path.iter().chain(paths).collect();
                Ok(Response::Several { files: read_several(engine, &paths, &request, &selection, bytes_max) })
            }
            _ => Err(Error::invalid("field `path` is missing: name the file to read, or several as `paths`")
                .detail("field", "path")),
        }
    }

    fn text(response: &Response, text: &mut Text) {
        match response {
            Response::One(read) => one_as_text(read, "", text),
            Response::Several { files } => {
                for file in files {
                    several_as_text(file, text);
                }
            }
        }
    }

    fn take_images(response: &mut Response) -> Vec<Image> {
        response.reads_mut().into_iter().filter_map(binary::take_image).collect()
    }
}

impl Response {
    /// The files that were read.
    fn reads_mut(&mut self) -> Vec<&mut FileRead> {
        match self {
            Self::One(read) => vec![read.as_mut()],
            Self::Several { files } => {
                let reads = files.iter_mut().filter_map(|file| match file {
                    Item::Read(read) => Some(read.as_mut()),
                    Item::Refused { .. } => None,
                });
                reads.collect()
            }
        }
    }
}

impl Request {
    /// Whether some lines were asked for, rather than whatever fits.
    fn names_lines(&self) -> bool {
        let names = self.offset.is_some() || self.start_line.is_some();
        names || self.limit.is_some() || self.end_line.is_some() || self.around_line.is_some()
    }

    /// Bytes of content in the answer; 0 for no bound.
    fn bytes_max(&self, policy: &Policy) -> usize {
        self.max_bytes.unwrap_or(policy.max_bytes())
    }

    /// How lines are shown.
    const fn form(&self) -> Form {
        Form { line_numbers: self.line_numbers, visible: self.show_whitespace }
    }
}

/// Bytes that an answer says of each of several files, beside its content and its path.
const SAID_BYTES: usize = 320;

/// Reads several files; together they are bound as one would be, with what is said of each. Those that
/// have no room left at all are not read.
fn read_several(
    engine: &mut Engine,
    paths: &[&PathBuf],
    request: &Request,
    selection: &Selection,
    bytes_max: usize,
) -> Vec<Item> {
    let said = |path: &PathBuf| SAID_BYTES + path.as_os_str().len();
    // One file may say all that it says beside a whole payload; so may the first of several.
    let others: usize = paths.iter().skip(1).map(|path| said(path)).sum();
    let (mut room, mut room_to_say) = (bytes_max.saturating_sub(others), bytes_max);
    let mut items = Vec::with_capacity(paths.len());
    for (number, path) in paths.iter().enumerate() {
        let refused = |error: &Error| Item::Refused {
            path: path.display().to_string(),
            error: serde_json::to_value(Refusal::from(error)).unwrap_or_default(),
        };
        if bytes_max > 0 && number > 0 {
            let Some(left) = room_to_say.checked_sub(said(path)) else {
                items.push(refused(&no_room()));
                continue;
            };
            room_to_say = left;
        }
        // One byte is the least that can be asked for: a file then still says its size.
        let bound = if bytes_max == 0 { 0 } else { room.max(1) };
        items.push(match read(engine, path, request, selection, bound) {
            Ok(read) => {
                room = room.saturating_sub(read.payload_bytes());
                Item::Read(Box::new(read))
            }
            Err(error) => refused(&error),
        });
    }
    items
}

/// The refusal of a file of which the answer has no room to say anything.
fn no_room() -> Error {
    Error::new(ErrorKind::TooLarge, "not read: the answer is full")
        .suggest("Read it in another call, or set max_bytes.")
}

/// Reads one file.
fn read(
    engine: &mut Engine,
    path: &Path,
    request: &Request,
    selection: &Selection,
    bytes_max: usize,
) -> Result<FileRead, Error> {
    let place = engine.workspace.resolve(path)?;
    let (mut file, stat) = engine.workspace.open_file(&place)?;
    let start = first_bytes(&mut file).map_err(|source| Error::io("read", place.shown(), source))?;
    if content::looks_binary(&start) {
        return binary::read(engine, &place, file, &stat, &start, request, bytes_max);
    }
    let spans = match selection {
        Selection::Cells(cell, skip_bytes) if request.if_sha256.is_none() => {
            let wanted = notebook::Wanted { cell: *cell, skip_bytes: *skip_bytes, bytes_max };
            return notebook::read(engine, &place, &mut file, &stat, wanted);
        }
        Selection::Cells(..) => Vec::new(),
        Selection::Lines(span) => vec![*span],
        Selection::Ranges(spans) => spans.clone(),
        Selection::Around(line, _) => around::window(*line).to_vec(),
    };
    let bytes_max = within_ranges(bytes_max, spans.len());
    let is_around = matches!(selection, Selection::Around(..));
    let window_bytes = if is_around { around::WINDOW_BYTES } else { bytes_max };
    let skip_bytes = request.column.unwrap_or(1) - 1;
    let extent = Extent { skip_bytes, bytes_max: window_bytes, has_others: spans.len() > 1 };
    let pass = slices(engine, &mut file, &place, &spans, extent)?;
    if request.if_sha256 == Some(pass.sha256) {
        engine.mark_shown(place.path(), pass.sha256, &stat, &[]);
        let unchanged = FileRead::new(&place, pass.sha256, pass.size, &stat);
        return Ok(FileRead { unchanged: true, ..unchanged });
    }
    if let Selection::Cells(cell, skip_bytes) = selection {
        file.seek(SeekFrom::Start(0)).map_err(|source| Error::io("read", place.shown(), source))?;
        let wanted = notebook::Wanted { cell: *cell, skip_bytes: *skip_bytes, bytes_max };
        return notebook::read(engine, &place, &mut file, &stat, wanted);
    }
    let parts = match selection {
        Selection::Around(line, lines_max) => {
            let bounds = around::Bounds { lines_max: *lines_max, bytes_max, form: request.form() };
            vec![around::part(&pass, *line, bounds)]
        }
        _ => shown::parts(&pass, request.form(), bytes_max),
    };
    Ok(answer(engine, &place, &stat, request, selection, &pass, parts))
}

/// The bound on the content of `count` ranges: what is said of each counts where they are many.
fn within_ranges(bytes_max: usize, count: usize) -> usize {
    /// Bytes that an answer says of a range beside its content.
    const SAID_BYTES: usize = 140;
    /// Ranges of which this does not count.
    const FEW: usize = 5;
    match bytes_max {
        0 => 0,
        bytes_max => bytes_max.saturating_sub(SAID_BYTES * count.saturating_sub(FEW)).max(1),
    }
}

/// The answer with the parts that are shown.
fn answer(
    engine: &mut Engine,
    place: &Place,
    stat: &Stat,
    request: &Request,
    selection: &Selection,
    pass: &Pass,
    mut parts: Vec<Part>,
) -> FileRead {
    let seen: Vec<(u64, u64)> = parts.iter().flat_map(Part::seen).collect();
    engine.mark_shown(place.path(), pass.sha256, stat, &seen);
    let ends_where_asked = match selection {
        Selection::Lines(span) => span.end.is_some(),
        _ => true,
    };
    let mut text = TextRead::new(&pass.sliced, &parts, ends_where_asked);
    if let ([part], true) = (&parts[..], request.names_lines()) {
        text.range_sha256 = range_sha256(part, &pass.sliced);
    }
    warn_of_text(engine, place, &pass.sliced, &parts);
    let form = request.form();
    let is_plain = form == Form::default();
    let mut raw = Vec::new();
    for part in &mut parts {
        part.show(form, &pass.sliced);
        if matches!(selection, Selection::Ranges(_)) {
            let header = format!("==> {}:{}-{} <==\n", place.shown(), part.first, part.last());
            raw.extend_from_slice(header.as_bytes());
        }
        if is_plain {
            raw.extend(on_disk(part.bytes.clone(), &pass.sliced, part.is_start()));
        } else {
            raw.extend_from_slice(part.text.as_bytes());
        }
    }
    let read = FileRead {
        literal: form.visible.then_some(false),
        text: Some(text),
        raw,
        ..FileRead::new(place, pass.sha256, pass.size, stat)
    };
    if matches!(selection, Selection::Ranges(_)) {
        let ranges = parts.into_iter().map(|part| RangeRead {
            start_line: part.first,
            end_line: part.last(),
            range_sha256: range_sha256(&part, &pass.sliced),
            content: part.text,
        });
        FileRead { ranges: ranges.collect(), ..read }
    } else {
        FileRead { content: Some(parts.into_iter().map(|part| part.text).collect()), ..read }
    }
}

/// SHA-256 of lines as they are on disk, where whole lines are shown.
fn range_sha256(part: &Part, text: &Sliced) -> Option<Sha256> {
    part.is_whole().then(|| Sha256::of(&on_disk(part.bytes.clone(), text, part.is_start())))
}

/// Lines as they are on disk: in the file's encoding, with its byte-order mark where it begins.
fn on_disk(lines: Vec<u8>, text: &Sliced, is_start: bool) -> Vec<u8> {
    let mark_bytes = match text.encoding {
        Encoding::Bytes => return lines,
        Encoding::Utf8 if !text.bom => return lines,
        Encoding::Utf8 => content::UTF8_BOM.len(),
        Encoding::Utf16Le => content::UTF16LE_BOM.len(),
        Encoding::Utf16Be => content::UTF16BE_BOM.len(),
    };
    let mut bytes = Content { encoding: text.encoding, bom: text.bom, body: lines }.encode();
    if !is_start {
        bytes.drain(..mark_bytes);
    }
    bytes
}

impl FileRead {
    /// The answer for a file of which nothing is shown yet.
    fn new(place: &Place, sha256: Sha256, size: u64, stat: &Stat) -> Self {
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
    fn payload_bytes(&self) -> usize {
        let text = self.content.as_ref().map_or(0, String::len);
        let ranges: usize = self.ranges.iter().map(|range| range.content.len()).sum();
        let cells = if self.notebook.is_some() { self.raw.len() } else { 0 };
        text + ranges + cells + self.base64.as_ref().map_or(0, String::len)
    }
}

impl TextRead {
    /// Which parts of a text are shown.
    fn new(text: &Sliced, parts: &[Part], ends_where_asked: bool) -> Self {
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

/// Says what a reader would not see in the text.
fn warn_of_text(engine: &mut Engine, place: &Place, text: &Sliced, parts: &[Part]) {
    let shown = place.shown();
    if text.encoding == Encoding::Bytes {
        engine.warn(format!(
            "{shown} is not UTF-8: bytes that are no text are shown as \u{fffd} and are kept as they are"
        ));
    }
    if let Some(part) = parts.iter().find(|part| part.first > text.total_lines && part.first > 1) {
        engine.warn(format!("line {} is past the end: {shown} has {} lines", part.first, text.total_lines));
    }
    for (part, slice) in parts.iter().zip(&text.parts) {
        if slice.skipped_all && part.first <= text.total_lines {
            engine.warn(format!("column {} is past the end of line {}", part.skipped + 1, part.first));
        }
    }
    if place.path().as_path().to_str().is_none() {
        engine.warn(format!("the name of {shown} is not UTF-8 and is shown lossily"));
    }
}

/// The first bytes of a file, which stays at its start.
fn first_bytes(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(BINARY_CHECK_BYTES);
    file.by_ref().take(BINARY_CHECK_BYTES as u64).read_to_end(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(start)
}

/// What one pass over a file found.
struct Pass {
    /// SHA-256 of its bytes.
    sha256: Sha256,
    /// Their number.
    size: u64,
    /// The lines wanted.
    sliced: Sliced,
    /// Which these are.
    wanted: Vec<Wanted>,
}

/// Reads a whole file: its SHA-256, and the lines wanted, both of the same bytes.
///
/// One pass is enough unless lines count from the end or end in CR alone: then the first one says
/// how many there are, and another one is made.
fn slices(
    engine: &Engine,
    file: &mut File,
    place: &Place,
    spans: &[Span],
    extent: Extent,
) -> Result<Pass, Error> {
    let is_relative = spans.iter().any(Span::is_relative);
    let (mut terminator, mut known) = (b'\n', None);
    for _ in 0..PASSES_MAX {
        let total = known.map_or(0, |(_, total)| total);
        let wanted = if is_relative && known.is_none() {
            Vec::new()
        } else {
            let resolved = spans.iter().map(|span| span.resolve(total, extent));
            resolved.collect::<Result<Vec<_>, _>>()?
        };
        file.seek(SeekFrom::Start(0)).map_err(|source| Error::io("read", place.shown(), source))?;
        let pass = one_pass(engine, file, place, wanted, terminator)?;
        let is_cut_right = pass.sliced.line_ending.terminator() == terminator;
        let is_counted = !is_relative || known == Some((pass.sha256, pass.sliced.total_lines));
        if is_cut_right && is_counted {
            return Ok(pass);
        }
        known = is_cut_right.then_some((pass.sha256, pass.sliced.total_lines));
        terminator = pass.sliced.line_ending.terminator();
    }
    Err(Error::new(ErrorKind::IoError, format!("{} changes while it is read", place.shown()))
        .at(place.shown())
        .suggest("Read it again once whatever writes it has ended."))
}

/// Reads a whole file in pieces: its SHA-256, its size, and the lines wanted.
fn one_pass(
    engine: &Engine,
    file: &mut File,
    place: &Place,
    wanted: Vec<Wanted>,
    terminator: u8,
) -> Result<Pass, Error> {
    let (mut slicer, mut hasher, mut size) = (Slicer::new(&wanted, terminator), Hasher::default(), 0);
    let unsupported = |what| unsupported_encoding(place.shown(), &what);
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
    Ok(Pass { sha256: hasher.finish(), size, sliced, wanted })
}

/// Hands a file on piece by piece.
fn for_each_piece(
    engine: &Engine,
    file: &mut File,
    place: &Place,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Error> {
    let mut buffer = vec![0; PIECE_BYTES];
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
            Err(source) => return Err(Error::io("read", place.shown(), source)),
        }
    }
}

/// The bytes of one file, and where to go on.
fn one_as_text(read: &FileRead, named: &str, text: &mut Text) {
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
        text.note(format!("{}: {mime}, {} bytes{pixels}", read.path, read.size));
    }
    if let Some(cells) = &read.notebook
        && let Some(next) = cells.next_cell
    {
        let (shown, column) = match cells.next_column {
            Some(column) => (format!("a part of cell {next}"), format!(" --column {column}")),
            None => (format!("cells up to {}", next - 1), String::new()),
        };
        let total = cells.total_cells;
        text.note(format!("{named}{shown} of {total}; go on with --cell {next}{column}"));
    }
    if let Some(part) = &read.text {
        notes_of_part(part, named, text);
    }
}

/// Which lines were clipped, and where to go on after them.
fn notes_of_part(part: &TextRead, named: &str, text: &mut Text) {
    for ClippedLine { line, next_column, bytes } in &part.clipped {
        let shown = next_column - 1;
        text.note(format!(
            "{named}line {line} is clipped to {shown} of {bytes} bytes; go on with --start-line {line} --column {next_column}"
        ));
    }
    let is_told = |offset: u64| {
        let first = part.clipped.first();
        first.is_some_and(|first| first.line == offset + 1 && part.next_column == Some(first.next_column))
    };
    if let Some(offset) = part.next_offset.filter(|&offset| !is_told(offset)) {
        let column = part.next_column.map(|column| format!(" --column {column}")).unwrap_or_default();
        text.note(format!(
            "{named}lines {} to {} of {}; go on with --offset {offset}{column}",
            part.start_line, part.end_line, part.total_lines
        ));
    }
}

/// One of several files under its name.
fn several_as_text(item: &Item, text: &mut Text) {
    match item {
        Item::Read(read) => {
            text.out.extend_from_slice(format!("==> {} <==\n", read.path).as_bytes());
            one_as_text(read, &format!("{}: ", read.path), text);
            if read.raw.last().is_some_and(|last| *last != b'\n') {
                text.out.push(b'\n');
            }
        }
        Item::Refused { path, error } => {
            let of = |field: &str| {
                error.get(field).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
            };
            text.note(format!("{}: {} ({path})", of("kind"), of("message")));
        }
    }
}
