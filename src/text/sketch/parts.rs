//! A sketch, cut into parts at its markers.

use super::{Refusal, Which};
use crate::text::omission;

/// Characters of a line that are compared and shown.
const SHOWN_CHARACTERS: usize = 160;

/// What stands between two markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'a> {
    /// Its lines, without their endings and without the blank ones beside a marker.
    pub lines: Vec<&'a [u8]>,
    /// The number of the first one in the sketch, from 1.
    pub first_line: usize,
    /// Its number among the parts, from 1.
    pub number: usize,
    /// The indentation of the marker before it, if there is one.
    pub before: Option<usize>,
    /// The indentation of the marker after it, if there is one.
    pub after: Option<usize>,
}

impl Part<'_> {
    /// What names the part in a refusal.
    #[must_use]
    pub fn which(&self) -> Which {
        let text = self.lines.first().map(|line| shown(line)).unwrap_or_default();
        Which {
            number: self.number,
            lines: (self.first_line, self.first_line + self.lines.len().max(1) - 1),
            text,
        }
    }
}

/// Blanks at the start of a line; a tab counts as one.
pub fn indent(line: &[u8]) -> usize {
    line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// What a line is compared by: blanks at its end and its ending do not count.
pub fn key(line: &[u8]) -> &[u8] {
    line.trim_ascii_end()
}

/// A line as it is compared and shown.
pub fn shown(line: &[u8]) -> String {
    // No character takes more than 4 bytes.
    let line = line.trim_ascii();
    String::from_utf8_lossy(line.get(..4 * SHOWN_CHARACTERS).unwrap_or(line))
        .chars()
        .take(SHOWN_CHARACTERS)
        .collect()
}

/// The parts of a sketch.
///
/// # Errors
/// Where a marker stands in the file itself, and where there is nothing but markers.
pub fn parts<'a>(sketch: &'a [u8], file: &[&[u8]]) -> Result<Vec<Part<'a>>, Refusal> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    let mut lines: Vec<&[u8]> = Vec::new();
    let mut before = None;
    let mut first_line = 1;
    let mut finish =
        |lines: Vec<&'a [u8]>, first_line: usize, before: Option<usize>, after: Option<usize>| {
            let skipped = lines.iter().take_while(|line| key(line).is_empty()).count();
            let end = lines.iter().rposition(|line| !key(line).is_empty()).map_or(skipped, |last| last + 1);
            let kept = lines.into_iter().take(end).skip(skipped);
            let lines: Vec<&[u8]> = kept.collect();
            if !lines.is_empty() {
                let number = parts.len() + 1;
                parts.push(Part { lines, first_line: first_line + skipped, number, before, after });
            }
        };
    for (line, number) in sketch.split(|&byte| byte == b'\n').zip(1..) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if omission::marker(line).is_none() {
            lines.push(line);
            continue;
        }
        must_not_stand_in(file, line, number)?;
        finish(std::mem::take(&mut lines), first_line, before, Some(indent(line)));
        before = Some(indent(line));
        first_line = number + 1;
    }
    finish(lines, first_line, before, None);
    if parts.is_empty() {
        let why = "it contains only markers and blank lines".to_owned();
        return Err(Refusal::Unreadable { line: 1, why });
    }
    Ok(parts)
}

/// Refuses a marker that is a line of the file as well: it may be meant as that.
fn must_not_stand_in(file: &[&[u8]], marker: &[u8], number: usize) -> Result<(), Refusal> {
    let wanted = marker.trim_ascii();
    match file.iter().position(|line| line.trim_ascii() == wanted) {
        None => Ok(()),
        Some(index) => Err(Refusal::Unreadable {
            line: number,
            why: format!(
                "`{}` would be a marker, but line {} of the file is the same: use another marker, such as \
                 `... existing code ...` with other words, or edit with old_string",
                shown(wanted),
                index + 1
            ),
        }),
    }
}
