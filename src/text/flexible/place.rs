//! A place that a tier found, and a new text made to fit it line by line.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::PLACES_MAX;

/// Time for telling which lines of an edit are new.
const TIME: Duration = Duration::from_millis(300);

/// Where a text stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its bytes.
    pub range: Range<usize>,
    /// For each line of the text looked for, the file's, with its ending where it is inside;
    /// `None` for a blank line that the file has not.
    pub lines: Vec<Option<Range<usize>>>,
    /// For each line of the text looked for, blank lines that the file alone has after it.
    pub gaps: Vec<Range<usize>>,
}

impl Place {
    /// A place whose lines are those of the text looked for, one for one.
    pub fn of(lines: Vec<Range<usize>>) -> Option<Self> {
        let range = lines.first()?.start..lines.last()?.end;
        let gaps = lines.iter().map(|line| line.end..line.end).collect();
        Some(Self { range, lines: lines.into_iter().map(Some).collect(), gaps })
    }

    /// A place whose lines are not told apart.
    pub fn whole(range: Range<usize>) -> Self {
        Self { gaps: Vec::new(), lines: vec![Some(range.clone())], range }
    }
}

/// Why a new text does not fit a place that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit(pub String);

/// A new line, and what it replaces where that is one line too.
pub struct NewLine<'a> {
    /// Its index in the new text.
    pub index: usize,
    /// Its text, without the ending.
    pub text: &'a [u8],
    /// The line that was looked for, and the file's.
    pub replaces: Option<(&'a [u8], &'a [u8])>,
}

/// The lines of a text without their endings, and whether the last one has one.
pub fn split(text: &[u8]) -> (Vec<&[u8]>, bool) {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    (lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect(), text.ends_with(b"\n"))
}

/// The bytes of `range`.
pub fn at<'a>(text: &'a [u8], range: &Range<usize>) -> &'a [u8] {
    text.get(range.clone()).unwrap_or_default()
}

/// The start of the line in which `offset` lies.
pub fn line_start(text: &[u8], offset: usize) -> usize {
    memchr::memrchr(b'\n', at(text, &(0..offset))).map_or(0, |newline| newline + 1)
}

/// The end of the line in which `offset` lies, before its ending.
pub fn line_end(text: &[u8], offset: usize) -> usize {
    memchr::memchr(b'\n', at(text, &(offset..text.len()))).map_or(text.len(), |length| offset + length)
}

/// The line that begins at `start`, without its ending; `None` at the end of the text.
pub fn line_from(text: &[u8], start: usize) -> Option<Range<usize>> {
    (start < text.len()).then(|| start..line_end(text, start))
}

/// The line before the one that begins at `start`, without its ending.
pub fn line_before(text: &[u8], start: usize) -> Option<Range<usize>> {
    let end = start.checked_sub(1)?;
    Some(line_start(text, end)..end)
}

/// The range of a line with its ending, where it has one.
pub fn with_ending(text: &[u8], line: &Range<usize>) -> Range<usize> {
    line.start..(line.end + usize::from(text.get(line.end) == Some(&b'\n')))
}

/// A line without the blanks at its end.
pub fn trimmed_end(line: &[u8]) -> &[u8] {
    let blanks = line.iter().rev().take_while(|&&byte| is_blank(byte)).count();
    line.get(..line.len() - blanks).unwrap_or_default()
}

/// The blanks at the start of a line.
pub fn indent(line: &[u8]) -> &[u8] {
    let blanks = line.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    line.get(..blanks).unwrap_or_default()
}

/// A line without the blanks at both ends.
pub fn trimmed(line: &[u8]) -> &[u8] {
    trimmed_end(line.get(indent(line).len()..).unwrap_or_default())
}

/// Whether a byte is a blank within a line. A CR alone is none: it may be text.
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The index of the longest line, blanks aside, which then is the quickest to find; `None` where
/// all are blank.
pub fn longest(lines: &[&[u8]]) -> Option<usize> {
    let lengths = lines.iter().map(|line| trimmed(line).len()).enumerate();
    lengths.rev().max_by_key(|&(_, length)| length).filter(|&(_, length)| length > 0).map(|(index, _)| index)
}

/// Every line of `text` that is `wanted`, blanks at both ends aside, without its ending.
pub fn lines_like<'a>(text: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
    let wanted = trimmed(wanted);
    let finder = memchr::memmem::Finder::new(wanted).into_owned();
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            if wanted.is_empty() {
                return None;
            }
            let hit = from + finder.find(text.get(from..)?)?;
            let line = line_start(text, hit)..line_end(text, hit);
            from = line.end.max(hit + 1);
            if trimmed(at(text, &line)) == wanted {
                return Some(line);
            }
        }
    })
}

/// Where lines stand one after the other, each whole: the line found for the `anchor`, and all
/// round it by `same(wanted, found)`.
pub fn whole_lines(
    text: &[u8],
    wanted: &[&[u8]],
    anchor: usize,
    has_final_break: bool,
    same: impl Fn(&[u8], &[u8]) -> bool,
) -> Vec<Place> {
    let Some(&anchor_line) = wanted.get(anchor) else {
        return Vec::new();
    };
    let place = |line: Range<usize>| {
        let mut lines = vec![line.clone()];
        let mut start = line.start;
        for _ in 0..anchor {
            let before = line_before(text, start)?;
            start = before.start;
            lines.insert(0, before);
        }
        let mut end = line.end;
        for _ in anchor + 1..wanted.len() {
            let after = line_from(text, end + 1)?;
            end = after.end;
            lines.push(after);
        }
        lines.iter().zip(wanted).all(|(line, wanted)| same(wanted, at(text, line))).then_some(())?;
        let is_cut_off = has_final_break && end == text.len();
        let last = lines.len() - 1;
        let with_endings = lines.iter().enumerate().map(|(index, line)| {
            if index < last || has_final_break { with_ending(text, line) } else { line.clone() }
        });
        (!is_cut_off).then(|| Place::of(with_endings.collect()))?
    };
    lines_like(text, anchor_line).filter_map(place).take(PLACES_MAX).collect()
}

/// `new` as it is given, where it stands for what was looked for: lines that the edit keeps keep
/// the file's bytes.
pub fn as_given(text: &[u8], place: &Place, old: &[u8], new: &[u8]) -> Vec<u8> {
    let given = |line: &NewLine<'_>| Ok(line.text.to_vec());
    compose(text, place, old, new, given).unwrap_or_else(|Unfit(_)| new.to_vec())
}

/// `new` made to fit a place: lines that stand in `old` too are the file's, the others what
/// `rewrite` makes of them.
///
/// # Errors
/// As `rewrite`.
pub fn compose(
    text: &[u8],
    place: &Place,
    old: &[u8],
    new: &[u8],
    mut rewrite: impl FnMut(&NewLine<'_>) -> Result<Vec<u8>, Unfit>,
) -> Result<Vec<u8>, Unfit> {
    let ((old_lines, old_breaks), (new_lines, new_breaks)) = (split(old), split(new));
    let mut composed = Composed { text, place, bytes: Vec::with_capacity(new.len()) };
    let breaks_after = |index: usize| index + 1 < new_lines.len() || new_breaks;
    let deadline = Instant::now() + TIME;
    for op in capture_diff_slices_deadline(Algorithm::Myers, &old_lines, &new_lines, Some(deadline)) {
        let is_kept = matches!(op, DiffOp::Equal { .. });
        let paired = op.old_range().len() == op.new_range().len();
        for (nth, index) in op.new_range().enumerate() {
            let old_index = op.old_range().start + nth;
            let Some(&line) = new_lines.get(index) else { continue };
            if is_kept {
                composed.keep(old_index, breaks_after(index));
                continue;
            }
            let replaces = paired
                .then(|| Some((old_lines.get(old_index).copied()?, composed.line(old_index)?)))
                .flatten();
            let rewritten = rewrite(&NewLine { index, text: line, replaces })?;
            composed.push(&rewritten, breaks_after(index));
            if paired && breaks_after(index) {
                composed.gap(old_index);
            }
        }
    }
    let mut bytes = composed.bytes;
    // The file's last line may have no break where the text looked for had one.
    if old_breaks && !at(text, &place.range).ends_with(b"\n") && bytes.ends_with(b"\n") {
        bytes.pop();
    }
    Ok(bytes)
}

/// A text in the making.
struct Composed<'a> {
    /// The file's text.
    text: &'a [u8],
    /// Where it is changed.
    place: &'a Place,
    /// The new text so far.
    bytes: Vec<u8>,
}

impl<'a> Composed<'a> {
    /// The file's line for a line that was looked for, without its ending.
    fn line(&self, old_index: usize) -> Option<&'a [u8]> {
        let range = self.place.lines.get(old_index)?.as_ref()?;
        let line = at(self.text, range);
        Some(line.strip_suffix(b"\n").unwrap_or(line))
    }

    /// Adds the file's own line, and the blank lines that it alone has after it.
    fn keep(&mut self, old_index: usize, breaks: bool) {
        if let Some(line) = self.line(old_index) {
            self.push(line, breaks);
        }
        if breaks {
            self.gap(old_index);
        }
    }

    /// Adds a line.
    fn push(&mut self, line: &[u8], breaks: bool) {
        self.bytes.extend_from_slice(line);
        if breaks {
            self.bytes.push(b'\n');
        }
    }

    /// Adds blank lines that the file alone has after a line.
    fn gap(&mut self, old_index: usize) {
        if let Some(gap) = self.place.gaps.get(old_index) {
            self.bytes.extend_from_slice(at(self.text, gap));
        }
    }
}
