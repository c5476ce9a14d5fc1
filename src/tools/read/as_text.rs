//! What was read, as text.

use super::answer::{ClippedLine, FileOrRefusal, FileRead, TextRead};
use crate::text::counted::counted;
use crate::text::escaped;
use crate::tools::Text;

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
