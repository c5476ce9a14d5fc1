//! Reads files that are not plain text: images, other binaries and notebooks.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::ops::Range;

use base64::Engine as _;
use rustix::fs::Stat;
use serde_json::Value;

use super::Request;
use super::range::for_each_piece;
use super::render::{FileRead, NotebookCell, NotebookRead};
use crate::engine::Engine;
use crate::engine::workspace::fs;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind, text};
use crate::sha256::{Hasher, Sha256};
use crate::text::answer_size::{AnswerRoom, TextSize, prefix_within};
use crate::text::content::{self, UTF8_BOM};
use crate::text::escaped::plural;
use crate::text::jsonc;
use crate::tools::Image;

/// Bytes of the start of the file in an error.
const MAGIC_BYTES: usize = 16;
/// Largest file in which width and height are searched, in bytes.
const IMAGE_BYTES_MAX: u64 = 1 << 30;

/// Bytes of payload that a response over MCP can always have.
const MESSAGE_BYTES: u64 = 3_400_000;
/// Image types that models can see: clients pass on no others.
const IMAGES_SHOWN: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Takes the image out of a response, if clients can show it. The text of any other binary stays base64.
pub fn take_image(read: &mut FileRead) -> Option<Image> {
    let base64 = read.base64.take()?;
    read.raw.clear();
    if let Some(mime) = read.mime.filter(|mime| IMAGES_SHOWN.contains(mime)) {
        return Some(Image { mime, base64 });
    }
    read.raw.extend_from_slice(base64.as_bytes());
    read.base64 = Some(base64);
    None
}

/// Properties of a file that is not text.
struct BinaryFile {
    /// MIME type of the file.
    mime: &'static str,
    /// Width and height in pixels, if it is an image.
    pixels: Option<(usize, usize)>,
    /// First bytes as hex.
    magic: String,
    /// Size in bytes.
    size: u64,
}

/// Reads a file that is not text.
pub fn read_binary(
    engine: &mut Engine,
    place: &ResolvedPath,
    mut file: File,
    stat: &Stat,
    start: &[u8],
    request: &Request,
    room: AnswerRoom,
) -> Result<FileRead, Error> {
    let shown = place.display();
    let size = fs::size_of(stat);
    let binary = BinaryFile::of(&mut file, start, size).map_err(|source| Error::io("read", shown, source))?;
    if request.binary.is_none() && request.if_sha256.is_none() {
        return Err(binary.refused(shown));
    }
    let encoded_size = size.div_ceil(3).saturating_mul(4);
    let is_too_large = encoded_size > room.bytes() as u64;
    let (mut hasher, mut bytes) = (Hasher::default(), Vec::new());
    for_each_piece(engine, &mut file, place, |piece| {
        hasher.update(piece);
        if !is_too_large {
            bytes.extend_from_slice(piece);
        }
    })?;
    let sha256 = hasher.finish();
    let read = FileRead {
        mime: Some(binary.mime),
        width: binary.pixels.map(|(width, _)| width),
        height: binary.pixels.map(|(_, height)| height),
        ..FileRead::new(place, sha256, size, stat)
    };
    if request.if_sha256 == Some(sha256) {
        engine.mark_shown(place.path(), sha256, stat, &[]);
        return Ok(FileRead { unchanged: true, ..read });
    }
    if request.binary.is_none() {
        return Err(binary.refused(shown));
    }
    if is_too_large {
        return Err(Error::new(
            ErrorKind::TooLarge,
            text!("{} takes {} bytes as base64, and `max_bytes` is {}", shown, encoded_size, room.bytes()),
        )
        .at(shown)
        .detail("size", size)
        .suggest(if encoded_size > MESSAGE_BYTES {
            text!(
                "Set `max_bytes` to {} on the command line; over MCP no response can be that long.",
                encoded_size
            )
        } else {
            text!("Set `max_bytes` to {}, or to 0 for no bound.", encoded_size)
        }));
    }
    engine.mark_shown(place.path(), sha256, stat, &[(1, crate::text::lines::count(&bytes))]);
    let base64 = base64::engine::general_purpose::STANDARD.encode(&bytes);
    Ok(FileRead { base64: Some(base64), raw: bytes, ..read })
}

impl BinaryFile {
    /// Reads the properties of a file, which is at its start and stays there.
    fn of(file: &mut File, start: &[u8], size: u64) -> std::io::Result<Self> {
        let mime = content::mime_of(start);
        let mut pixels = None;
        if mime.starts_with("image/") && size <= IMAGE_BYTES_MAX {
            // An image that cannot be parsed has no size.
            pixels = imagesize::reader_size(BufReader::new(&mut *file)).ok().map(|it| (it.width, it.height));
            file.seek(SeekFrom::Start(0))?;
        }
        let magic = start.iter().take(MAGIC_BYTES).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { mime, pixels, magic, size })
    }

    /// Returns the error for showing it as text.
    fn refused(&self, shown: &str) -> Error {
        let pixels =
            self.pixels.map_or_else(String::new, |(width, height)| format!(", {width}x{height} pixels"));
        let message =
            format!("{shown} is a binary file ({}, {}{pixels})", self.mime, plural(self.size, "byte"));
        let error = Error::new(ErrorKind::BinaryFile, message)
            .at(shown)
            .detail("mime", self.mime)
            .detail("size", self.size)
            .detail("magic", self.magic.as_str());
        match self.pixels {
            Some((width, height)) => error.detail("width", width).detail("height", height),
            None => error,
        }
    }
}

/// Largest notebook that is parsed, in bytes.
const NOTEBOOK_BYTES_MAX: usize = 256 << 20;
/// Largest number of characters of an output to show.
const OUTPUT_CHARACTERS: usize = 400;

/// Reads a notebook: one cell, from 1, or all of them, without some bytes at the start of the first cell's source.
///
/// Of its lines, those of the sources that are shown whole count as read: the response has no other text of the file.
///
/// # Errors
/// Returns `invalid_request` if the file is not a notebook, or the cell does not exist.
pub fn read_notebook(
    engine: &mut Engine,
    place: &ResolvedPath,
    file: &mut File,
    stat: &Stat,
    (cell, skip_bytes, room): (Option<usize>, usize, AnswerRoom),
) -> Result<FileRead, Error> {
    let shown = place.display();
    let mut bytes = Vec::new();
    for_each_piece(engine, file, place, |piece| {
        if bytes.len() <= NOTEBOOK_BYTES_MAX {
            bytes.extend_from_slice(piece);
        }
    })?;
    if bytes.len() > NOTEBOOK_BYTES_MAX {
        let message = format!("{shown} is too large to be read by cell: at most {NOTEBOOK_BYTES_MAX} bytes");
        return Err(Error::new(ErrorKind::TooLarge, message).at(shown).suggest("Read some lines of it."));
    }
    let body = bytes.strip_prefix(UTF8_BOM).unwrap_or(&bytes);
    let notebook: Option<Value> = serde_json::from_slice(body).ok();
    let Some(all) = notebook.as_ref().and_then(cells_of) else {
        return Err(Error::invalid(format!("{shown} is not a notebook: cell is for .ipynb files"))
            .at(shown)
            .detail("field", "cell")
            .suggest("Read it without cell."));
    };
    let total = all.len();
    let (first, last) = match cell {
        Some(cell) if cell > total => {
            return Err(Error::invalid(format!("no cell {cell}: {shown} has {total}"))
                .at(shown)
                .detail("field", "cell")
                .detail("total_cells", total));
        }
        Some(cell) => (cell, cell),
        None => (1, total),
    };
    let cells = shown_cells(&all, (first, last), skip_bytes, room);
    let sha256 = Sha256::of(&bytes);
    let is_whole = |cell: &&NotebookCell| {
        (cell.cell > first || skip_bytes == 0)
            && (cells.next_column.is_none() || cells.next_cell != Some(cell.cell))
    };
    let whole: Vec<usize> = cells.cells.iter().filter(is_whole).map(|cell| cell.cell - 1).collect();
    engine.mark_shown(place.path(), sha256, stat, &source_lines(body, &whole).unwrap_or_default());
    let raw = cells.cells.iter().flat_map(as_text).collect();
    Ok(FileRead { notebook: Some(cells), raw, ..FileRead::new(place, sha256, bytes.len() as u64, stat) })
}

/// Returns the cells of a notebook.
fn cells_of(notebook: &Value) -> Option<Vec<&Value>> {
    if let Some(cells) = notebook.get("cells") {
        return Some(cells.as_array()?.iter().collect());
    }
    // nbformat 3 stores them in worksheets.
    let sheets = notebook.get("worksheets")?.as_array()?;
    Some(sheets.iter().filter_map(|sheet| sheet.get("cells")?.as_array()).flatten().collect())
}

/// Returns the lines of the sources of these cells, by their indices, if they hold nothing else, or these are all cells.
fn source_lines(notebook: &[u8], cells: &[usize]) -> Option<Vec<(u64, u64)>> {
    let text = std::str::from_utf8(notebook).ok()?;
    let all = jsonc::items(text, &["cells"]).ok()??;
    let (mut lines, mut at, mut line) = (Vec::new(), 0, 1);
    for cell in cells.iter().filter_map(|index| all.get(*index)) {
        let Some(source) = jsonc::span(text.get(cell.clone())?, &["source"]).ok()? else { continue };
        let (start, end) = (cell.start + source.start, cell.start + source.end);
        let breaks = |bytes: Range<usize>| Some(text.get(bytes)?.matches('\n').count() as u64);
        line += breaks(at..start)?;
        at = start;
        let is_alone = text.get(..start)?.rsplit('\n').next()?.trim() == "\"source\":"
            && matches!(text.get(end..)?.split('\n').next()?.trim(), "" | ",");
        if is_alone || cells.len() == all.len() {
            lines.push((line, line + breaks(start..end)?));
        }
    }
    Some(lines)
}

/// Returns the cells from `first` to `last` that fit; cuts the first one if it does not.
fn shown_cells(
    all: &[&Value],
    (first, last): (usize, usize),
    skip_bytes: usize,
    room: AnswerRoom,
) -> NotebookRead {
    let (mut cells, mut used) = (Vec::new(), TextSize::default());
    let mut next =
        NotebookRead { cells: Vec::new(), total_cells: all.len(), next_cell: None, next_column: None };
    for (number, value) in (1..).zip(all).skip(first - 1).take(last + 1 - first) {
        let mut cell = cell_of(number, value);
        let skipped = if number == first { without_start(&mut cell.source, skip_bytes) } else { 0 };
        used = used.with(&String::from_utf8_lossy(&as_text(&cell)));
        if room.holds(used) {
            cells.push(cell);
            continue;
        }
        next.next_cell = Some(number);
        if cells.is_empty() {
            let kept = prefix_within(cell.source.as_bytes(), room.bytes(), room.bytes());
            // If only the outputs do not fit, they are left out, and the response continues with the next cell.
            if kept < cell.source.len() {
                next.next_column = Some(skipped + kept + 1);
            } else {
                next.next_cell = Some(number + 1).filter(|&next| next <= last);
            }
            cell.source.truncate(kept);
            if !cell.outputs.is_empty() {
                cell.outputs = vec![format!("({} left out)", cell.outputs.len())];
            }
            cells.push(cell);
        }
        break;
    }
    NotebookRead { cells, ..next }
}

/// Removes the first bytes of a text, up to a character boundary; returns their number.
fn without_start(text: &mut String, bytes: usize) -> usize {
    let start = (bytes..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    text.replace_range(..start, "");
    start
}

/// Returns one cell.
fn cell_of(number: usize, value: &Value) -> NotebookCell {
    let outputs = value.get("outputs").and_then(Value::as_array).into_iter().flatten();
    NotebookCell {
        cell: number,
        id: value.get("id").and_then(Value::as_str).map(str::to_owned),
        r#type: value.get("cell_type").and_then(Value::as_str).unwrap_or("raw").to_owned(),
        source: joined(value.get("source").or_else(|| value.get("input"))),
        execution_count: value.get("execution_count").and_then(Value::as_u64),
        outputs: outputs.map(output_of).collect(),
    }
}

/// Joins a text that is one string or a list of lines.
fn joined(text: Option<&Value>) -> String {
    match text {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

/// Returns a short form of an output.
fn output_of(output: &Value) -> String {
    let of = |field: &str| output.get(field).and_then(Value::as_str).unwrap_or_default();
    match of("output_type") {
        "stream" => {
            let name = if of("name").is_empty() { "stream" } else { of("name") };
            format!("{name}: {}", cut_text(&joined(output.get("text"))))
        }
        "error" | "pyerr" => format!("error: {}: {}", of("ename"), cut_text(of("evalue"))),
        _ => {
            let data = output.get("data").and_then(Value::as_object);
            let text = data.and_then(|data| data.get("text/plain")).map(|text| cut_text(&joined(Some(text))));
            let others = data.into_iter().flatten().filter(|(mime, _)| *mime != "text/plain");
            let others: Vec<String> = others
                .map(|(mime, value)| {
                    let size = value.as_str().map_or_else(|| joined(Some(value)).len(), str::len);
                    format!("{mime} ({size} characters)")
                })
                .collect();
            text.into_iter().chain(others).collect::<Vec<_>>().join("; ")
        }
    }
}

/// Returns a text, cut if it is long.
fn cut_text(text: &str) -> String {
    match text.char_indices().nth(OUTPUT_CHARACTERS) {
        Some((cut, _)) => {
            format!("{}… ({})", text.get(..cut).unwrap_or_default(), plural(text.len(), "byte"))
        }
        None => text.to_owned(),
    }
}

/// Returns a cell for a person.
fn as_text(cell: &NotebookCell) -> Vec<u8> {
    let count = cell.execution_count.map(|count| format!(" [{count}]")).unwrap_or_default();
    let mut text = format!("==> cell {}: {}{count} <==\n{}", cell.cell, cell.r#type, cell.source);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for output in &cell.outputs {
        text.push_str("--> ");
        text.push_str(output.trim_end());
        text.push('\n');
    }
    text.into_bytes()
}
