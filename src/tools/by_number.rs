//! The refusal of lines that are named by number and are not as they were shown.

use std::fmt::Write as _;

use crate::engine::change::numbered::NotFound;
use crate::engine::change::{Change, Current};
use crate::error::{Error, ErrorKind};
use crate::text::content::looks_binary;
use crate::text::line_range::LineSpan;
use crate::text::lines;

/// Lines that a refusal shows.
const SHOWN_LINES: u64 = 40;
/// Bytes of one of them.
const LINE_BYTES: usize = 400;

/// The refusal, with the present lines, which count as shown then.
pub fn refusal(
    change: &mut Change<'_>,
    current: &Current,
    body: &[u8],
    (span, why): (LineSpan, NotFound),
) -> Error {
    let (name, total) = (current.place().shown(), lines::count(body));
    let (kind, message, near) = match why {
        NotFound::NeverShown(line) if line > total => (
            ErrorKind::StaleFile,
            format!("line {line} of {name} was never shown: it has {total} lines"),
            (total.saturating_sub(2).max(1), total),
        ),
        NotFound::NeverShown(line) => (
            ErrorKind::NotRead,
            format!("line {line} of {name} was never shown in this session"),
            (span.first.max(1), span.last.min(total)),
        ),
        NotFound::Changed(first, last) => {
            (ErrorKind::StaleFile, format!("{span} of {name} changed since it was shown"), (first, last))
        }
    };
    let error = Error::new(kind, message).at(name);
    if total == 0 {
        return error.suggest("The file is empty: add text with `append`.");
    }
    if looks_binary(body) {
        return error.suggest("The file is no text: read it with `binary`, or leave it alone.");
    }
    let near = (near.0, near.1.min(near.0 + SHOWN_LINES - 1));
    if !change.engine_ref().is_dry_run() {
        change.note_shown(current, near);
    }
    error
        .suggest("details.lines has the present lines with their numbers: repeat the call with these.")
        .detail("lines", numbered(body, near))
}

/// Lines with their numbers, as `read` numbers them.
pub fn numbered(body: &[u8], (first, last): (u64, u64)) -> String {
    let mut text = String::new();
    let skipped = usize::try_from(first.saturating_sub(1)).unwrap_or(usize::MAX);
    for (number, line) in (first..=last).zip(lines::lines(body).skip(skipped)) {
        let line = lines::without_ending(line);
        let line = String::from_utf8_lossy(line.get(..LINE_BYTES).unwrap_or(line)).into_owned();
        let _ = writeln!(text, "{number}\t{line}");
    }
    text
}
