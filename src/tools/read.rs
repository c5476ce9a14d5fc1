//! `read`: some lines of a file, and the SHA-256 of all of it.

use std::fs::File;
use std::io::{Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use clap::ValueEnum;
use rustix::fs::Stat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::unsupported_encoding;
use super::{Effect, Text, Tool};
use crate::control::Progress;
use crate::engine::policy::Policy;
use crate::engine::policy::settings::Key;
use crate::engine::resolve::Place;
use crate::engine::{Engine, fs};
use crate::envelope::Refusal;
use crate::error::{Error, ErrorKind};
use crate::sha256::{Hasher, Sha256};
use crate::text::content::{self, BINARY_CHECK_BYTES, Content, Encoding};
use crate::text::lines::LineEnding;
use crate::text::slice::{Slice, Slicer, Wanted};

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
    /// Lines to pass over, from 0
    #[arg(long, value_name = "LINES")]
    pub offset: Option<u64>,
    /// Lines to show at most; 0 for all
    #[arg(long, value_name = "LINES")]
    pub limit: Option<u64>,
    /// First line to show, from 1; instead of offset
    #[arg(long, value_name = "LINE")]
    #[schemars(range(min = 1))]
    pub start_line: Option<u64>,
    /// Last line to show; instead of limit
    #[arg(long, value_name = "LINE")]
    #[schemars(range(min = 1))]
    pub end_line: Option<u64>,
    /// Byte of the first line to begin at, from 1, as `next_column` says
    #[arg(long, value_name = "BYTE")]
    #[schemars(range(min = 1))]
    pub column: Option<usize>,
    /// Put the line's number and a tab before each line
    #[arg(long, short = 'n')]
    #[serde(default)]
    pub line_numbers: bool,
    /// Answer `unchanged` and no content where the file still has this sha256
    #[arg(long, value_name = "HEX")]
    pub if_sha256: Option<Sha256>,
    /// How to show a file that is no text; without it such a file is refused
    #[arg(long, value_name = "FORM")]
    pub binary: Option<BinaryForm>,
    /// Bytes of content in the answer; 0 for no bound
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
}

/// A form for files that are no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum BinaryForm {
    /// All of it, encoded as base64, with its MIME type
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
    /// True where the file still has the sha256 asked about; then there is no content
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    /// MIME type of a file that is no text
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<&'static str>,
    /// All bytes of a file that is no text
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

/// What the text of a file is like, and which part of it this is.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TextRead {
    /// Lines in the file
    pub total_lines: u64,
    /// First line shown, from 1
    pub start_line: u64,
    /// Last line shown; one less than `start_line` where there is none
    pub end_line: u64,
    /// Whether lines were left out after these
    pub truncated: bool,
    /// Where to go on
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The column to go on at, where a line was cut
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_column: Option<usize>,
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

/// The tool.
pub struct Read;

impl Tool for Read {
    const NAME: &'static str = "read";
    const ALIASES: &'static [&'static str] = &["read_file", "read_text_file", "view"];
    const EFFECT: Effect = Effect::Reads;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let wanted = request.wanted(engine.policy())?;
        match (&request.path, &request.paths) {
            (Some(path), None) => {
                read(engine, path, &request, wanted).map(|read| Response::One(Box::new(read)))
            }
            (path, Some(paths)) if path.is_some() || !paths.is_empty() => {
                let paths: Vec<&PathBuf> = path.iter().chain(paths).collect();
                Ok(Response::Several { files: read_several(engine, &paths, &request, wanted) })
            }
            _ => Err(Error::invalid("field `path` is missing: name the file to read, or several as `paths`")
                .detail("field", "path")),
        }
    }

    fn text(response: &Response, text: &mut Text) {
        match response {
            Response::One(read) => one_as_text(read, text),
            Response::Several { files } => {
                for file in files {
                    several_as_text(file, text);
                }
            }
        }
    }
}

impl Request {
    /// Whether some lines were asked for, rather than whatever fits.
    fn names_lines(&self) -> bool {
        [self.offset, self.limit, self.start_line, self.end_line].iter().any(Option::is_some)
    }

    /// The lines wanted.
    fn wanted(&self, policy: &Policy) -> Result<Wanted, Error> {
        if self.offset.is_some() && self.start_line.is_some() {
            return Err(Error::invalid("offset and start_line both say where to begin: give one of them"));
        }
        if self.limit.is_some() && self.end_line.is_some() {
            return Err(Error::invalid("limit and end_line both say where to end: give one of them"));
        }
        for (field, value) in [("start_line", self.start_line), ("end_line", self.end_line)] {
            if value == Some(0) {
                return Err(Error::invalid(format!("{field} counts from 1")).detail("field", field));
            }
        }
        if self.column == Some(0) {
            return Err(Error::invalid("column counts from 1").detail("field", "column"));
        }
        let offset = self.offset.or(self.start_line.map(|line| line - 1)).unwrap_or(0);
        let lines_max = match (self.limit, self.end_line) {
            (Some(0), _) => u64::MAX,
            (Some(limit), _) => limit,
            (None, Some(end)) if end <= offset => {
                return Err(Error::invalid(format!(
                    "end_line {end} is before the first line wanted, {}",
                    offset + 1
                )));
            }
            (None, Some(end)) => end - offset,
            (None, None) => match policy.number(Key::ReadLimit) {
                0 => u64::MAX,
                lines => lines,
            },
        };
        let bytes_max = self.max_bytes.unwrap_or(policy.max_bytes());
        Ok(Wanted { offset, lines_max, skip_bytes: self.column.unwrap_or(1) - 1, bytes_max })
    }
}

/// Reads several files; together they are bound as one would be.
fn read_several(engine: &mut Engine, paths: &[&PathBuf], request: &Request, mut wanted: Wanted) -> Vec<Item> {
    let is_bounded = wanted.bytes_max > 0;
    let mut items = Vec::with_capacity(paths.len());
    for path in paths {
        items.push(match read(engine, path, request, wanted) {
            Ok(read) => {
                let shown = read.content.as_ref().map_or(0, String::len)
                    + read.base64.as_ref().map_or(0, String::len);
                if is_bounded {
                    // One byte is the least that can be asked for: a file then still says its size.
                    wanted.bytes_max = wanted.bytes_max.saturating_sub(shown).max(1);
                }
                Item::Read(Box::new(read))
            }
            Err(error) => Item::Refused {
                path: path.display().to_string(),
                error: serde_json::to_value(Refusal::from(&error)).unwrap_or_default(),
            },
        });
    }
    items
}

/// Reads one file.
fn read(engine: &mut Engine, path: &Path, request: &Request, wanted: Wanted) -> Result<FileRead, Error> {
    let place = engine.workspace.resolve(path)?;
    let (mut file, stat) = engine.workspace.open_file(&place)?;
    let io = |source: std::io::Error| Error::io("read", place.shown(), source);
    let start = first_bytes(&mut file).map_err(io)?;
    if content::looks_binary(&start) {
        return read_binary(engine, &place, file, &stat, &start, request, wanted.bytes_max);
    }
    let (sha256, size, mut slice) = slice(engine, &mut file, &place, wanted, b'\n')?;
    if slice.line_ending == LineEnding::Cr {
        // No LF anywhere: the lines are those that CR ends, which only now is known.
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        slice = self::slice(engine, &mut file, &place, wanted, b'\r')?.2;
    }
    if request.if_sha256 == Some(sha256) {
        engine.mark_shown(place.path(), sha256, &stat, &[]);
        return Ok(FileRead { unchanged: true, ..FileRead::new(&place, sha256, size, &stat) });
    }
    let mut text = TextRead::new(&slice, wanted, request.end_line.is_some());
    if request.names_lines() && slice.complete_lines > 0 && slice.cut_at.is_none() && wanted.skip_bytes == 0 {
        text.range_sha256 = Some(Sha256::of(&on_disk(slice.bytes.clone(), &text, wanted)));
    }
    let last_shown_whole = wanted.offset + slice.complete_lines;
    engine.mark_shown(place.path(), sha256, &stat, &[(text.start_line, last_shown_whole)]);
    warn_of_text(engine, &place, &slice, &text);
    let raw = slice.bytes;
    let shown =
        if request.line_numbers { numbered(&raw, text.start_line, slice.line_ending) } else { raw.clone() };
    let content = String::from_utf8(shown)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let raw = if request.line_numbers { content.clone().into_bytes() } else { on_disk(raw, &text, wanted) };
    Ok(FileRead {
        content: Some(content),
        text: Some(text),
        raw,
        ..FileRead::new(&place, sha256, size, &stat)
    })
}

/// Lines as they are on disk: in the file's encoding, with its byte-order mark where it begins.
fn on_disk(lines: Vec<u8>, text: &TextRead, wanted: Wanted) -> Vec<u8> {
    let is_start = wanted.offset == 0 && wanted.skip_bytes == 0;
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
            unchanged: false,
            mime: None,
            base64: None,
            sha256,
            size,
            text: None,
            mode: fs::mode_text(fs::mode_of(stat)),
            raw: Vec::new(),
        }
    }
}

impl TextRead {
    /// Which part of a text a slice is.
    fn new(slice: &Slice, wanted: Wanted, ends_where_asked: bool) -> Self {
        let end = wanted.offset + slice.complete_lines;
        let cut_line = u64::from(slice.cut_at.is_some());
        let truncated = slice.stopped || (end < slice.total_lines && !ends_where_asked);
        Self {
            total_lines: slice.total_lines,
            start_line: wanted.offset + 1,
            end_line: end + cut_line,
            truncated,
            next_offset: truncated.then_some(end),
            next_column: slice.cut_at.map(|cut| cut + 1),
            range_sha256: None,
            encoding: slice.encoding,
            line_ending: slice.line_ending,
            bom: slice.bom,
        }
    }
}

/// Says what a reader would not see in the text.
fn warn_of_text(engine: &mut Engine, place: &Place, slice: &Slice, text: &TextRead) {
    let shown = place.shown();
    if slice.encoding == Encoding::Bytes {
        engine.warn(format!(
            "{shown} is not UTF-8: bytes that are no text are shown as \u{fffd} and are kept as they are"
        ));
    }
    if text.start_line > slice.total_lines && text.start_line > 1 {
        engine.warn(format!(
            "line {} is past the end: {shown} has {} lines",
            text.start_line, slice.total_lines
        ));
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

/// Reads a whole file in pieces: its SHA-256, its size, and the lines wanted.
fn slice(
    engine: &Engine,
    file: &mut File,
    place: &Place,
    wanted: Wanted,
    terminator: u8,
) -> Result<(Sha256, u64, Slice), Error> {
    let (mut slicer, mut hasher, mut size) = (Slicer::new(wanted, terminator), Hasher::default(), 0);
    let unsupported = |what| unsupported_encoding(place.shown(), &what);
    let mut refused = None;
    for_each_piece(engine, file, place, |piece| {
        hasher.update(piece);
        size += piece.len() as u64;
        if refused.is_none() {
            refused = slicer.push(piece).err();
        }
    })?;
    match refused {
        Some(what) => Err(unsupported(what)),
        None => Ok((hasher.finish(), size, slicer.finish().map_err(unsupported)?)),
    }
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

/// Reads a file that is no text.
fn read_binary(
    engine: &mut Engine,
    place: &Place,
    mut file: File,
    stat: &Stat,
    start: &[u8],
    request: &Request,
    bytes_max: usize,
) -> Result<FileRead, Error> {
    let shown = place.shown();
    let mime = content::mime_of(start);
    let size = fs::size_of(stat);
    if request.binary.is_none() && request.if_sha256.is_none() {
        return Err(Error::new(
            ErrorKind::BinaryFile,
            format!("{shown} is a binary file ({mime}, {size} bytes)"),
        )
        .at(shown)
        .detail("mime", mime)
        .detail("size", size));
    }
    let encoded_size = size.div_ceil(3).saturating_mul(4);
    let is_too_large = bytes_max > 0 && encoded_size > bytes_max as u64;
    let (mut hasher, mut bytes) = (Hasher::default(), Vec::new());
    for_each_piece(engine, &mut file, place, |piece| {
        hasher.update(piece);
        if !is_too_large {
            bytes.extend_from_slice(piece);
        }
    })?;
    let sha256 = hasher.finish();
    let read = FileRead { mime: Some(mime), ..FileRead::new(place, sha256, size, stat) };
    if request.if_sha256 == Some(sha256) {
        engine.mark_shown(place.path(), sha256, stat, &[]);
        return Ok(FileRead { unchanged: true, ..read });
    }
    if request.binary.is_none() {
        return Err(Error::new(
            ErrorKind::BinaryFile,
            format!("{shown} is a binary file ({mime}, {size} bytes)"),
        )
        .at(shown)
        .detail("mime", mime)
        .detail("size", size));
    }
    if is_too_large {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("{shown} takes {encoded_size} bytes as base64, and max_bytes is {bytes_max}"),
        )
        .at(shown)
        .detail("size", size)
        .suggest(format!("Set max_bytes to {encoded_size}, or to 0 for no bound.")));
    }
    engine.mark_shown(place.path(), sha256, stat, &[(1, crate::text::lines::count(&bytes))]);
    let base64 = base64::engine::general_purpose::STANDARD.encode(&bytes);
    Ok(FileRead { base64: Some(base64), raw: bytes, ..read })
}

/// Lines with their numbers before them.
fn numbered(text: &[u8], first: u64, style: LineEnding) -> Vec<u8> {
    let terminator = style.terminator();
    let mut numbered = Vec::with_capacity(text.len() + text.len() / 8);
    for (line, number) in text.split_inclusive(|&byte| byte == terminator).zip(first..) {
        numbered.extend_from_slice(format!("{number}\t").as_bytes());
        numbered.extend_from_slice(line);
    }
    numbered
}

/// The bytes of one file, and where to go on.
fn one_as_text(read: &FileRead, text: &mut Text) {
    text.out.extend_from_slice(&read.raw);
    if read.unchanged {
        text.note(format!("{}: unchanged", read.path));
    }
    if let Some(part) = &read.text
        && let Some(offset) = part.next_offset
    {
        let column = part.next_column.map(|column| format!(" --column {column}")).unwrap_or_default();
        text.note(format!(
            "lines {} to {} of {}; go on with --offset {offset}{column}",
            part.start_line, part.end_line, part.total_lines
        ));
    }
}

/// One of several files under its name.
fn several_as_text(item: &Item, text: &mut Text) {
    match item {
        Item::Read(read) => {
            text.out.extend_from_slice(format!("==> {} <==\n", read.path).as_bytes());
            one_as_text(read, text);
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
