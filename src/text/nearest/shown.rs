//! Lines and differences as a reader sees them.

use std::ops::Range;

use similar::{DiffOp, group_diff_ops};

use super::LINE_CHARACTERS_MAX;
use crate::text::checked::peek_str;
use crate::text::visible;

/// Lines shown of a difference.
const LINES_SHOWN_MAX: usize = 12;
/// Bytes of a line that are looked at to show so many characters.
const LINE_BYTES_MAX: usize = 8 * LINE_CHARACTERS_MAX;

/// The first characters of a line, for comparing.
pub(super) fn text_of(line: &[u8]) -> String {
    String::from_utf8_lossy(shortened(line)).chars().take(LINE_CHARACTERS_MAX).collect()
}

/// A line, or as much of it as is shown at most.
pub(super) fn shortened(line: &[u8]) -> &[u8] {
    line.get(..LINE_BYTES_MAX).unwrap_or(line)
}

/// Lines as a reader sees them, one after the other.
pub(super) fn visible_lines(lines: &[&[u8]]) -> String {
    lines.iter().map(|line| visible(line) + "\n").collect()
}

/// A line with its tabs, carriage returns, trailing and odd blanks, what is never seen, and bytes that
/// are no text made visible; the CR of CR LF is none of these, since matching is blind to it.
#[must_use]
pub fn visible(line: &[u8]) -> String {
    let body = line.strip_suffix(b"\n").map_or(line, |body| body.strip_suffix(b"\r").unwrap_or(body));
    let mut shown = visible::blanks(shortened(body));
    if shown.ends_with('\n') {
        shown.pop();
    }
    match shown.char_indices().nth(LINE_CHARACTERS_MAX) {
        Some((cut, _)) => format!("{}…", peek_str(&shown, ..cut)),
        None => shown,
    }
}

/// The lines that differ, with one unchanged line round each.
pub(super) fn difference(wanted: &[&[u8]], region: &[&[u8]], ops: Vec<DiffOp>) -> String {
    let groups = group_diff_ops(ops, 1);
    let changes = groups.iter().flatten().flat_map(|op| {
        let of = |lines: &'_ [&[u8]], range: Range<usize>| -> Vec<String> {
            let shown = range.take(LINES_SHOWN_MAX + 1);
            shown.filter_map(|at| lines.get(at)).map(|line| visible(line)).collect()
        };
        let is_kept = matches!(op, DiffOp::Equal { .. });
        let (old, new) = if is_kept {
            (of(wanted, op.old_range()), Vec::new())
        } else {
            (of(wanted, op.old_range()), of(region, op.new_range()))
        };
        let sign = if is_kept { ' ' } else { '-' };
        let old = old.into_iter().map(move |line| (sign, line));
        old.chain(new.into_iter().map(|line| ('+', line))).collect::<Vec<_>>()
    });
    let mut shown = String::new();
    for (number, (sign, line)) in changes.enumerate() {
        if number == LINES_SHOWN_MAX {
            shown.push_str("...\n");
            break;
        }
        shown.push(sign);
        shown.push_str(&line);
        shown.push('\n');
    }
    shown
}
