//! One file, read: what of it is shown, and what a reader would not see.

use std::io::{Seek as _, SeekFrom};
use std::path::Path;

use rustix::fs::Stat;

use super::answer::{FileRead, RangeRead, TextRead};
use super::pass::{Pass, first_bytes, slices};
use super::shown::{Form, Part};
use super::wanted::{Extent, Selection};
use super::{Request, around, binary, notebook, shown};
use crate::engine::Engine;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::Error;
use crate::sha256::Sha256;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::content::{self, Content, Encoding};
use crate::text::counted::counted;
use crate::text::escaped;
use crate::text::slice::Sliced;

/// Reads one file.
pub fn read(
    engine: &mut Engine,
    path: &Path,
    request: &Request,
    selection: &Selection,
    room: AnswerRoom,
) -> Result<FileRead, Error> {
    let (place, lines) = request.place_of(engine, path)?;
    let selection = lines.as_ref().unwrap_or(selection);
    let (mut file, stat) = engine.workspace.open_file(&place)?;
    let start = first_bytes(&file).map_err(|source| Error::io("read", place.shown(), source))?;
    if content::looks_binary(&start) {
        return binary::read(engine, &place, file, &stat, &start, request, room);
    }
    let spans = match selection {
        Selection::Cells(cell, skip_bytes) if request.if_sha256.is_none() => {
            let wanted = notebook::CellRange { cell: *cell, skip_bytes: *skip_bytes, room };
            return notebook::read(engine, &place, &mut file, &stat, wanted);
        }
        Selection::Cells(..) => Vec::new(),
        Selection::Lines(span) => vec![*span],
        Selection::Ranges(spans) => spans.clone(),
        Selection::Around(line, _) => around::window(*line).to_vec(),
    };
    let room = within_ranges(room, spans.len());
    let is_around = matches!(selection, Selection::Around(..));
    let window = if is_around { AnswerRoom::new(around::WINDOW_BYTES) } else { room };
    let skip_bytes = request.column.unwrap_or(1) - 1;
    let extent = Extent { skip_bytes, room: window, has_others: spans.len() > 1 };
    let pass = slices(engine, &mut file, &place, &spans, extent)?;
    if request.if_sha256 == Some(pass.sha256) {
        engine.mark_shown(place.path(), pass.sha256, &stat, &[]);
        let unchanged = FileRead::new(&place, pass.sha256, pass.size, &stat);
        return Ok(FileRead { unchanged: true, ..unchanged });
    }
    if let Selection::Cells(cell, skip_bytes) = selection {
        file.seek(SeekFrom::Start(0)).map_err(|source| Error::io("read", place.shown(), source))?;
        let wanted = notebook::CellRange { cell: *cell, skip_bytes: *skip_bytes, room };
        return notebook::read(engine, &place, &mut file, &stat, wanted);
    }
    let parts = match selection {
        Selection::Around(line, lines_max) => {
            let bounds = around::Bounds { lines_max: *lines_max, room, form: request.form() };
            vec![around::part(&pass, *line, bounds)]
        }
        _ => shown::parts(&pass, request.form(), room),
    };
    Ok(answer(engine, &place, &stat, request, selection, &pass, parts))
}

/// Room for the content of `count` ranges: what is said of each counts where they are many.
fn within_ranges(room: AnswerRoom, count: usize) -> AnswerRoom {
    /// Bytes that an answer says of a range beside its content.
    const SAID_BYTES: usize = 140;
    /// Ranges of which this does not count.
    const FEW: usize = 5;
    room.beside(TextSize::plain(SAID_BYTES * count.saturating_sub(FEW))).or_a_byte()
}

/// The answer with the parts that are shown.
fn answer(
    engine: &mut Engine,
    place: &ResolvedPath,
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
            let header = format!("==> {}:{}-{} <==\n", escaped::name(place.shown()), part.first, part.last());
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

/// The warning that a file has fewer lines than were asked for.
#[must_use]
pub fn past_end(line: u64, shown: &str, total_lines: u64) -> String {
    format!("line {line} is past the end: {shown} has {}", counted(total_lines, "line"))
}

/// Says what a reader would not see in the text.
fn warn_of_text(engine: &mut Engine, place: &ResolvedPath, text: &Sliced, parts: &[Part]) {
    let shown = place.shown();
    if text.encoding == Encoding::Bytes {
        engine.warn(format!(
            "{shown} is not UTF-8: invalid bytes are shown as \u{fffd} and are kept as they are"
        ));
    }
    if let Some(part) = parts.iter().find(|part| part.first > text.total_lines && part.first > 1) {
        engine.warn(past_end(part.first, shown, text.total_lines));
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
