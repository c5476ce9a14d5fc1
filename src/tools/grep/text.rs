//! The answer as `rg --heading -n` prints it.

use super::Response;
use crate::search::lines::FileMatches;
use crate::search::matched::Match;
use crate::text::escaped;
use crate::tools::Text;

/// Writes the payload and the notes.
pub fn write(response: &Response, text: &mut Text) {
    let flat = response.matches.iter().flat_map(|matches| &matches.0);
    let grouped = response.groups.iter().flat_map(|groups| &groups.0);
    for (index, file) in flat.chain(grouped).enumerate() {
        if index > 0 {
            text.out.push(b'\n');
        }
        write_file(file, text);
    }
    for file in response.files.iter().flatten() {
        text.name(file);
        text.out.push(text.separator);
    }
    for count in response.counts.iter().flatten() {
        text.line(&format!("{}:{}", escaped::name(&count.path), count.count));
    }
    if let Some(next) = response.next_offset {
        text.note(format!("more matches follow: {}", text.option("offset", next)));
    }
}

/// Writes the matches of one file under its name.
fn write_file(file: &FileMatches, text: &mut Text) {
    text.name(&file.path);
    text.out.push(b'\n');
    let mut last_line = None;
    for entry in file.entries() {
        let (first, last) = entry.shown_lines();
        let has_context = !entry.before.is_empty() || !entry.after.is_empty();
        if has_context && last_line.is_some_and(|line| first > line + 1) {
            text.out.extend_from_slice(b"--\n");
        }
        write_match(&entry, text);
        last_line = Some(last);
    }
}

/// Writes one match with its context.
fn write_match(entry: &Match<'_>, text: &mut Text) {
    let (first, _) = entry.shown_lines();
    write_lines(text, first, '-', entry.before.lines().map(|(line, _)| line));
    write_lines(text, entry.line, ':', entry.text.split('\n'));
    write_lines(text, entry.line + entry.lines.max(1), '-', entry.after.lines().map(|(line, _)| line));
}

/// Writes lines with their numbers.
fn write_lines<'r>(text: &mut Text, first: u64, mark: char, lines: impl Iterator<Item = &'r str>) {
    for (number, line) in (first..).zip(lines) {
        text.out.extend_from_slice(format!("{number}{mark}{line}\n").as_bytes());
    }
}
