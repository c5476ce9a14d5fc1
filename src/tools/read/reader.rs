//! Reads one file or several.

use std::borrow::Cow;
use std::io::{Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use super::range::{ReadPass, ReadSelection, ShownExtent, Span, first_bytes, slices};
use super::render::{
    self, FileOrRefusal, FileRead, LineForm, RangeRead, Response, ShownPart, TextRead, lines_of,
    longest_start,
};
use super::{Request, formats};
use crate::engine::Engine;
use crate::engine::workspace::fs;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::envelope::Refusal;
use crate::error::{Error, text};
use crate::limits::READ_PATHS_MAX;
use crate::search::page::json_bytes;
use crate::sha256::Sha256;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::content::{self, Encoding};
use crate::text::escaped::plural;
use crate::text::lines::ending_of;
use crate::text::slice::{ClippedStart, Slice, SliceResult, clipped_bytes, is_very_long};
use crate::text::{escaped, lines};
use crate::tools::targets;

/// Reads one file.
pub fn read(
    engine: &mut Engine,
    path: &Path,
    request: &Request,
    selection: &ReadSelection,
    room: AnswerRoom,
) -> Result<FileRead, Error> {
    let (place, lines) = request.place_of(engine, path)?;
    let selection = lines.as_ref().unwrap_or(selection);
    let (mut file, stat) = engine.workspace.open_file(&place)?;
    let start = first_bytes(&file).map_err(|source| Error::io("read", place.display(), source))?;
    if content::looks_binary(&start) {
        return formats::read_binary(engine, &place, file, &stat, &start, request, room);
    }
    let spans = match selection {
        ReadSelection::Cells(cell, skip_bytes) if request.if_sha256.is_none() => {
            return formats::read_notebook(engine, &place, &mut file, &stat, (*cell, *skip_bytes, room));
        }
        ReadSelection::Cells(..) => Vec::new(),
        ReadSelection::Lines(span) => vec![*span],
        ReadSelection::Ranges(spans) => spans.clone(),
        ReadSelection::Around(line, _) => window(*line).to_vec(),
    };
    let room = within_ranges(room, spans.len());
    let is_around = matches!(selection, ReadSelection::Around(..));
    let window = if is_around { AnswerRoom::new(WINDOW_BYTES) } else { room };
    let skip_bytes = request.column.unwrap_or(1) - 1;
    let extent = ShownExtent { skip_bytes, room: window, has_others: spans.len() > 1 };
    let pass = slices(engine, &mut file, &place, &spans, (extent, request.encoding))?;
    if request.if_sha256 == Some(pass.sha256) {
        engine.mark_shown(place.path(), pass.sha256, &stat, &[]);
        let unchanged = FileRead::new(&place, pass.sha256, pass.size, &stat);
        return Ok(FileRead { unchanged: true, ..unchanged });
    }
    if let ReadSelection::Cells(cell, skip_bytes) = selection {
        file.seek(SeekFrom::Start(0)).map_err(|source| Error::io("read", place.display(), source))?;
        return formats::read_notebook(engine, &place, &mut file, &stat, (*cell, *skip_bytes, room));
    }
    let parts = match selection {
        ReadSelection::Around(line, lines_max) => {
            let bounds = BlockBounds { lines_max: *lines_max, room, form: request.form() };
            vec![part(&pass, *line, bounds)]
        }
        _ => render::parts(&pass, request.form(), room),
    };
    Ok(answer(engine, &place, &stat, request, selection, &pass, parts))
}

/// Returns the room for the content of `count` ranges: with many ranges, their other fields count too.
fn within_ranges(room: AnswerRoom, count: usize) -> AnswerRoom {
    /// Bytes of a range in a response besides its content.
    const SAID_BYTES: usize = 140;
    /// Number of ranges for which these bytes do not count.
    const FEW: usize = 5;
    room.room_after(TextSize::plain(SAID_BYTES * count.saturating_sub(FEW))).or_a_byte()
}

/// Returns the response with the shown parts.
fn answer(
    engine: &mut Engine,
    place: &ResolvedPath,
    stat: &Stat,
    request: &Request,
    selection: &ReadSelection,
    pass: &ReadPass,
    mut parts: Vec<ShownPart>,
) -> FileRead {
    let seen: Vec<(u64, u64)> = parts.iter().flat_map(ShownPart::whole_lines).collect();
    engine.mark_shown(place.path(), pass.sha256, stat, &seen);
    let ends_where_asked = match selection {
        ReadSelection::Lines(span) => span.end.is_some(),
        _ => true,
    };
    let mut text = TextRead::new(&pass.sliced, &parts, ends_where_asked);
    if let ([part], true) = (&parts[..], request.names_lines()) {
        text.range_sha256 = range_sha256(part, &pass.sliced);
    }
    warn_of_text(engine, place, &pass.sliced, &parts, request.column);
    let form = request.form();
    // With a named encoding, the caller wants to read the text.
    let is_plain = form == LineForm::default() && pass.sliced.encoding.charset().is_none();
    let mut raw = Vec::new();
    for part in &mut parts {
        part.show(form, &pass.sliced);
        if matches!(selection, ReadSelection::Ranges(_)) {
            let header =
                format!("==> {}:{}-{} <==\n", escaped::name(place.display()), part.first, part.last());
            raw.extend_from_slice(header.as_bytes());
        }
        if is_plain {
            let form = (pass.sliced.encoding, pass.sliced.bom);
            raw.extend_from_slice(&content::on_disk(&part.lines.bytes, form, part.is_start()));
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
    if matches!(selection, ReadSelection::Ranges(_)) {
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

/// Returns the SHA-256 of lines on disk, if whole lines are shown.
fn range_sha256(part: &ShownPart, text: &SliceResult) -> Option<Sha256> {
    part.is_whole()
        .then(|| Sha256::of(&content::on_disk(&part.lines.bytes, (text.encoding, text.bom), part.is_start())))
}

/// Returns the warning that a file has fewer lines than the request.
pub fn past_end(line: u64, shown: &str, total_lines: u64) -> String {
    format!("line {line} is past the end: {shown} has {}", plural(total_lines, "line"))
}

/// Warns about invisible properties of the text.
fn warn_of_text(
    engine: &mut Engine,
    place: &ResolvedPath,
    text: &SliceResult,
    parts: &[ShownPart],
    column: Option<usize>,
) {
    let shown = place.display();
    if text.encoding == Encoding::Bytes {
        engine.warn(text!(
            "{} is not UTF-8: invalid bytes are shown as \u{fffd} and are kept as they are. Set `encoding` to see its text.",
            shown
        ));
    }
    let is_past_end = |part: &&ShownPart| part.first > text.total_lines && part.first > 1;
    if let (Some(column), Some(part)) = (column, parts.iter().find(|part| part.lines.skipped_all)) {
        engine.warn(format!("column {column} is past the end of line {}", part.first - 1));
    } else if let Some(part) = parts.iter().find(is_past_end) {
        engine.warn(past_end(part.first, shown, text.total_lines));
    }
    if place.path().as_path().to_str().is_none() {
        engine.warn(format!("the name of {shown} is not UTF-8 and is shown lossily"));
    }
}

/// Number of lines to search on each side of the line.
const WINDOW_LINES: u64 = 1000;
/// Number of bytes to search on each side.
pub const WINDOW_BYTES: usize = 512 << 10;

/// Returns the lines to search: those before the line, and those from it on.
pub fn window(line: u64) -> [Span; 2] {
    let number = |line: u64| i64::try_from(line).unwrap_or(i64::MAX);
    let start = line.saturating_sub(WINDOW_LINES).max(1);
    [
        Span { start: number(start), end: None, lines_max: line.saturating_sub(start), clips_first: true },
        Span { start: number(line), end: None, lines_max: WINDOW_LINES, clips_first: false },
    ]
}

/// Limits of a block.
#[derive(Debug, Clone, Copy)]
pub struct BlockBounds {
    /// Largest number of lines.
    pub lines_max: u64,
    /// Room for the shown lines.
    pub room: AnswerRoom,
    /// Form of the lines.
    pub form: LineForm,
}

/// Returns the block around `line`, as much of it as the limits allow. The line itself has priority; the others are
/// clipped if they are very long.
pub fn part(pass: &ReadPass, line: u64, bounds: BlockBounds) -> ShownPart {
    let (lines, at) = searched_lines(pass, line, bounds.room);
    let Some(own) = lines.get(at) else {
        return line_alone(line, &[], false, bounds);
    };
    let is_cut = pass.sliced.parts.last().is_some_and(|from| from.cut_at.is_some() && from.ended_lines == 0);
    if is_cut || !bounds.room.holds(TextSize::of(bounds.form.of(&own.bytes, line).as_bytes())) {
        return line_alone(line, &own.bytes, is_cut, bounds);
    }
    let texts: Vec<&[u8]> = lines.iter().map(|line| line.bytes.as_ref()).collect();
    let (first, last) = lines::enclosing_block(&texts, at);
    let first_number = line.saturating_sub(at as u64);
    let (from, to) = grow_block(&lines, (first.min(at), last.max(at)), at, first_number, bounds);
    // A block that reaches the end of the searched lines continues after them.
    let is_beyond = last + 1 == lines.len() && first_number + (last as u64) < pass.sliced.total_lines;
    let kept = lines.get(from..=to).unwrap_or_default();
    ShownPart {
        first: first_number + from as u64,
        lines: Slice {
            bytes: kept.iter().flat_map(|line| line.bytes.iter().copied()).collect(),
            ended_lines: kept.len() as u64,
            clipped: kept.iter().filter_map(|line| line.clipped).collect(),
            stopped: to < last || is_beyond,
            ..Slice::default()
        },
        ..ShownPart::default()
    }
}

/// Line of the block.
struct NumberedLine<'a> {
    /// Shown bytes, with the line ending.
    bytes: Cow<'a, [u8]>,
    /// Position of the clip, if any.
    clipped: Option<ClippedStart>,
}

/// Returns the searched lines in their shown form, and the index of the requested one.
fn searched_lines(pass: &ReadPass, line: u64, room: AnswerRoom) -> (Vec<NumberedLine<'_>>, usize) {
    let style = pass.sliced.line_ending;
    let (before, from) = match pass.sliced.parts.as_slice() {
        // If the lines before could not all be searched, the block begins with the line.
        [before, from] => (Some(before).filter(|before| !before.stopped), Some(from)),
        _ => (None, None),
    };
    let of = |slice: Option<&'_ Slice>| slice.map_or(0, |slice| lines_of(&slice.bytes, style).count());
    let at = of(before);
    let first_number = line.saturating_sub(at as u64);
    let slices = before.into_iter().chain(from);
    let known: Vec<ClippedStart> = slices.clone().flat_map(|slice| slice.clipped.iter().copied()).collect();
    let texts = slices.flat_map(|slice| lines_of(&slice.bytes, style));
    let lines = texts.zip(first_number..).map(|(bytes, number)| {
        let known = known.iter().find(|clipped| clipped.line == number).copied();
        if number == line {
            NumberedLine { bytes: bytes.into(), clipped: known }
        } else {
            NumberedLine::of(bytes, number, known, room)
        }
    });
    (lines.collect(), at)
}

impl<'a> NumberedLine<'a> {
    /// Returns a line, clipped if it is very long; `known` is an earlier clip.
    fn of(bytes: &'a [u8], number: u64, known: Option<ClippedStart>, room: AnswerRoom) -> Self {
        let is_clipped = room.is_bounded() && (known.is_some() || is_very_long(bytes, room));
        if !is_clipped {
            return Self { bytes: bytes.into(), clipped: known };
        }
        let ending = ending_of(bytes);
        let body = bytes.get(..bytes.len() - ending.len()).unwrap_or_default();
        let kept = clipped_bytes(body, room);
        let length = known.map_or(body.len() as u64, |known| known.length);
        let bytes = [body.get(..kept).unwrap_or_default(), ending].concat();
        Self { bytes: bytes.into(), clipped: Some(ClippedStart { line: number, kept, length }) }
    }
}

/// Returns only the line, as much of it as fits; `is_cut` is true if it is longer than `bytes`.
fn line_alone(line: u64, bytes: &[u8], is_cut: bool, bounds: BlockBounds) -> ShownPart {
    let length = longest_start(bytes, line, bounds.form, bounds.room);
    let cut_at = (is_cut || length < bytes.len()).then_some(length);
    let bytes = bytes.get(..length).unwrap_or_default().to_vec();
    let ended_lines = u64::from(cut_at.is_none() && !bytes.is_empty());
    let lines = Slice { bytes, ended_lines, cut_at, stopped: cut_at.is_some(), ..Slice::default() };
    ShownPart { first: line, lines, ..ShownPart::default() }
}

/// Returns the lines around `at` in a block that the limits allow: one below, one above, in turn.
fn grow_block(
    lines: &[NumberedLine<'_>],
    (first, last): (usize, usize),
    at: usize,
    first_number: u64,
    bounds: BlockBounds,
) -> (usize, usize) {
    let (mut from, mut to) = (at, at);
    let with = |used: TextSize, line: usize| {
        let bytes = lines.get(line).map_or(&[][..], |line| &line.bytes);
        used.with(&bounds.form.of(bytes, first_number + line as u64))
    };
    let mut used = with(TextSize::default(), at);
    let mut take = |line: usize, count: usize| {
        let more = with(used, line);
        let is_taken = (count as u64) < bounds.lines_max && bounds.room.holds(more);
        if is_taken {
            used = more;
        }
        is_taken
    };
    let (mut can_fall, mut can_rise) = (true, true);
    while can_fall || can_rise {
        can_fall = can_fall && to < last && take(to + 1, to + 1 - from);
        to += usize::from(can_fall);
        can_rise = can_rise && from > first && take(from - 1, to + 1 - from);
        from -= usize::from(can_rise);
    }
    (from, to)
}

/// Bytes of each of several files in a response, besides its content and its path.
const SAID_BYTES: usize = 320;
/// Bytes by which errors, which are longer than files, may exceed the limit.
const OVERDRAFT_BYTES: usize = 1024;

/// Reads several files. They share the limit of one response, which includes their other fields: small files are shown
/// whole, and the large ones share the rest. The last files of a long list for which there is no room are not read.
///
/// # Errors
/// Returns the error of the first path if no file could be read; `invalid_request` for too many paths.
pub fn read_several(
    engine: &mut Engine,
    paths: &[&PathBuf],
    request: &Request,
    selection: &ReadSelection,
    room: AnswerRoom,
) -> Result<Response, Error> {
    if paths.len() > READ_PATHS_MAX {
        return Err(Error::invalid(format!(
            "{}; the limit is {READ_PATHS_MAX}",
            plural(paths.len(), "path")
        ))
        .detail("field", "paths"));
    }
    let mut room = ResponseRoom::new(engine, paths, room);
    let (mut files, mut first_error) = (Vec::new(), None);
    for (number, path) in paths.iter().enumerate().take(room.sizes.len()) {
        engine.control.check()?;
        if room.overdrawn > OVERDRAFT_BYTES {
            break;
        }
        match read(engine, path, request, selection, room.share_of(number)) {
            Ok(read) => {
                room.subtract(read.payload_size());
                files.push(FileOrRefusal::Read(Box::new(read)));
            }
            Err(error) => {
                let error = targets::or_moved(engine, error);
                let item = refused(path, &error);
                let bytes = usize::try_from(json_bytes(&item)).unwrap_or(usize::MAX);
                room.subtract(TextSize::plain(bytes.saturating_sub(response_overhead(path))));
                files.push(item);
                first_error.get_or_insert(error);
            }
        }
    }
    let not_read = paths.len() - files.len();
    match first_error {
        Some(error) if files.iter().all(|file| matches!(file, FileOrRefusal::Refused { .. })) => {
            Err(none_read(error, files, not_read))
        }
        first_error => {
            let first_refused = first_error.map(|error| error.kind());
            Ok(Response::Several { files, not_read, first_refused })
        }
    }
}

/// Returns the bytes of a file in a response besides its content.
pub fn response_overhead(path: &Path) -> usize {
    SAID_BYTES + path.as_os_str().len()
}

/// Returns the entry for a file that could not be read.
fn refused(path: &Path, error: &Error) -> FileOrRefusal {
    let error = serde_json::to_value(Refusal::from(error)).unwrap_or_default();
    FileOrRefusal::Refused { path: path.display().to_string(), error }
}

/// Returns the error for a request of which no file could be read.
fn none_read(first: Error, files: Vec<FileOrRefusal>, not_read: usize) -> Error {
    if files.len() + not_read == 1 {
        return first;
    }
    let message = format!(
        "none of {} could be read; the first: {}",
        plural(files.len() + not_read, "file"),
        first.message()
    );
    let error = Error::new(first.kind(), message).suggest(first.suggested_action().to_owned());
    let error = error.detail("files", serde_json::to_value(files).unwrap_or_default());
    let error = match first.details().get(targets::MOVED_TO) {
        Some(to) => error.detail(targets::MOVED_TO, to.clone()),
        None => error,
    };
    match first.path() {
        Some(path) => error.at(path),
        None => error,
    }
}

/// Remaining room of a response.
struct ResponseRoom {
    /// Room left for content.
    left: AnswerRoom,
    /// Bytes used beyond the limit.
    overdrawn: usize,
    /// Bytes of each file that fits in the response.
    sizes: Vec<usize>,
}

impl ResponseRoom {
    /// Returns the whole room, without the other fields of each file.
    fn new(engine: &Engine, paths: &[&PathBuf], room: AnswerRoom) -> Self {
        let (mut left, mut sizes) = (room, Vec::new());
        for (number, path) in paths.iter().enumerate() {
            // A single file may have its other fields besides a full payload; so may the first of several.
            let said = TextSize::plain(if number == 0 { 0 } else { response_overhead(path) });
            if !left.holds(said) {
                break;
            }
            left = left.room_after(said);
            let place = engine.workspace.resolve(path).ok();
            let size = place.and_then(|place| place.stat().map(fs::size_of)).unwrap_or(0);
            sizes.push(usize::try_from(size).unwrap_or(usize::MAX));
        }
        Self { left, overdrawn: 0, sizes }
    }

    /// Returns the room for the content of one file.
    fn share_of(&self, number: usize) -> AnswerRoom {
        let mut sizes = self.sizes.get(number..).unwrap_or_default().to_vec();
        sizes.sort_unstable();
        let (mut room, mut left) = (self.left.bytes(), sizes.len());
        for size in sizes {
            if size > room / left {
                break;
            }
            room -= size;
            left -= 1;
        }
        // Room that small files leave is for files that take more in a response than on disk.
        self.left.part(room / left.max(1)).or_a_byte()
    }

    /// Subtracts the size of a file that was read.
    fn subtract(&mut self, size: TextSize) {
        if !self.left.holds(size) {
            self.overdrawn += size.excess_bytes(self.left);
        }
        self.left = self.left.room_after(size);
    }
}
