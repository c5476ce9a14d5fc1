//! Where a text that was not found nearly stands, and what differs there.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{ChangeTag, TextDiff};

use super::lines::{self, common_start};
use super::visible;

/// Time for the whole search; a large file without any line in common is given up.
const TIME: Duration = Duration::from_millis(200);
/// Lines of the file that are compared character by character.
const CLOSE_LOOKS_MAX: usize = 200;
/// Lines of the text looked for that vote for a place.
const VOTING_LINES_MAX: usize = 2000;
/// Places with as many votes that are compared character by character.
const STARTS_MAX: usize = 50;
/// Lines of such a place that are compared.
const REGION_LINES_MAX: usize = 30;
/// Lines shown of a difference.
const LINES_SHOWN_MAX: usize = 12;
/// Characters shown of a line.
const LINE_CHARACTERS_MAX: usize = 160;
/// What stands in a difference where the file ends without the line ending that was looked for.
const NO_NEWLINE: &str = "\\ No newline at end of file\n";
/// How alike a line must be to be worth showing, 0 to 1.
const RATIO_MIN: f32 = 0.5;

/// The region that is most like a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest {
    /// Its first line, from 1.
    pub start_line: u64,
    /// Its last line.
    pub end_line: u64,
    /// How alike it is, 0 to 1.
    pub ratio: f32,
    /// Where it first differs: a line of the file and a column of it, in bytes from 1.
    pub first_difference: (u64, usize),
    /// What differs: wanted lines after `-`, the file's after `+`, with tabs (`→`), carriage
    /// returns (`␍`) and trailing blanks (`·`) made visible.
    pub difference: String,
}

/// The region of `body` most like `wanted`, if any is worth showing.
#[must_use]
pub fn nearest(body: &[u8], wanted: &[u8]) -> Option<Nearest> {
    let (file, wanted) = (Lines::of(body), Lines::of(wanted));
    let start = best_start(&file.bare, &wanted.bare)?;
    compared(&file, &wanted, start..(start + wanted.bare.len()).min(file.bare.len()))
}

/// The region of `body` from line `first` to line `last`, compared with `wanted`.
#[must_use]
pub fn at_lines(body: &[u8], wanted: &[u8], first: u64, last: u64) -> Option<Nearest> {
    let index = |line: u64| usize::try_from(line).ok();
    compared(&Lines::of(body), &Lines::of(wanted), index(first)?.checked_sub(1)?..index(last)?)
}

/// The lines of a text.
struct Lines<'a> {
    /// Each without its ending: matching is blind to that.
    bare: Vec<&'a [u8]>,
    /// Whether the last one has an ending.
    is_ended: bool,
}

impl<'a> Lines<'a> {
    /// The lines of a text.
    fn of(text: &'a [u8]) -> Self {
        let terminator = lines::terminator(text);
        let bare = text.split_inclusive(|&byte| byte == terminator).map(|line| {
            let body = line.strip_suffix(&[terminator]).unwrap_or(line);
            if terminator == b'\n' && body.len() < line.len() {
                body.strip_suffix(b"\r").unwrap_or(body)
            } else {
                body
            }
        });
        Self { bare: bare.collect(), is_ended: text.last() == Some(&terminator) }
    }
}

/// A region, compared with what was wanted.
fn compared(file: &Lines<'_>, wanted: &Lines<'_>, lines: Range<usize>) -> Option<Nearest> {
    let start = lines.start;
    let region = file.bare.get(lines.clone())?;
    let (wanted_text, region_text) = (visible_lines(&wanted.bare), visible_lines(region));
    let diff = TextDiff::configure().timeout(TIME).diff_lines(&wanted_text, &region_text);
    let mut difference = difference(&diff);
    // The end of the file is a difference that no line shows.
    if wanted.is_ended && !file.is_ended && lines.end == file.bare.len() {
        difference.push_str(NO_NEWLINE);
    }
    Some(Nearest {
        start_line: start as u64 + 1,
        end_line: (start + region.len()) as u64,
        ratio: ratio(&wanted_text, &region_text),
        first_difference: first_difference(&wanted.bare, region, start),
        difference,
    })
}

/// How alike two texts are, character by character, 0 to 1.
fn ratio(one: &str, other: &str) -> f32 {
    TextDiff::configure().timeout(TIME).diff_chars(one, other).ratio()
}

/// The first line of the region most like `wanted`.
///
/// Lines that agree vote for where the others should stand. Where few do, or for several places, the
/// characters decide.
fn best_start(file: &[&[u8]], wanted: &[&[u8]]) -> Option<usize> {
    let (votes, mut starts) = by_votes(file, wanted);
    let voters = wanted.iter().filter(|line| may_vote(line)).count();
    if votes * 2 <= voters {
        starts.extend(by_likeness(file, wanted));
    }
    if let [only] = starts.as_slice() {
        return Some(*only);
    }
    let until = Instant::now() + TIME;
    let wanted_text = visible_lines(wanted.get(..wanted.len().min(REGION_LINES_MAX)).unwrap_or_default());
    let alike = |start: usize| {
        let end = (start + wanted.len().min(REGION_LINES_MAX)).min(file.len());
        ratio(&wanted_text, &visible_lines(file.get(start..end).unwrap_or_default()))
    };
    starts
        .into_iter()
        .enumerate()
        .take_while(|(number, _)| *number == 0 || Instant::now() < until)
        .map(|(_, start)| (alike(start), start))
        .max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(&one.1)))
        .map(|(_, start)| start)
}

/// Where a region that begins at line `start`, from 0, first differs from what was wanted.
fn first_difference(wanted: &[&[u8]], region: &[&[u8]], start: usize) -> (u64, usize) {
    let same = wanted.iter().zip(region).take_while(|(one, other)| one == other).count();
    let (index, column) = match (wanted.get(same), region.get(same)) {
        (Some(one), Some(other)) => (same, common_start(one, other) + 1),
        // All of the region is as it was wanted: what is missing would come after it.
        _ => (region.len().saturating_sub(1), region.last().map_or(0, |last| last.len()) + 1),
    };
    ((start + index) as u64 + 1, column)
}

/// Whether a line tells anything of where it stands.
fn may_vote(line: &[u8]) -> bool {
    line.iter().any(u8::is_ascii_alphanumeric) || !line.is_ascii()
}

/// The starts for which the most lines of `wanted` stand where they should, blanks at both ends
/// aside, and how many these are.
fn by_votes(file: &[&[u8]], wanted: &[&[u8]]) -> (usize, Vec<usize>) {
    let mut offsets: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (offset, line) in wanted.iter().enumerate().take(VOTING_LINES_MAX) {
        let line = line.trim_ascii();
        if may_vote(line) {
            offsets.entry(line).or_default().push(offset);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (number, line) in file.iter().enumerate() {
        for offset in offsets.get(line.trim_ascii()).into_iter().flatten() {
            if let Some(start) = number.checked_sub(*offset) {
                *votes.entry(start).or_default() += 1;
            }
        }
    }
    let most = votes.values().copied().max().unwrap_or(0);
    let mut starts: Vec<usize> =
        votes.into_iter().filter(|&(_, count)| count == most).map(|(start, _)| start).collect();
    starts.sort_unstable();
    starts.truncate(STARTS_MAX);
    (most, starts)
}

/// The start at which the longest line of `wanted` has its most similar line.
fn by_likeness(file: &[&[u8]], wanted: &[&[u8]]) -> Option<usize> {
    let (offset, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim_ascii().len())?;
    let longest = text_of(longest.trim_ascii());
    let counts = letter_counts(longest.as_bytes());
    let mut candidates: Vec<(u32, usize)> = file
        .iter()
        .enumerate()
        .map(|(number, line)| (distance(&counts, &letter_counts(line.trim_ascii())), number))
        .collect();
    candidates.sort_unstable();
    let until = Instant::now() + TIME;
    let likeness = |number: usize| {
        let line = text_of(file.get(number).copied().unwrap_or_default().trim_ascii());
        TextDiff::configure().deadline(until).diff_chars(&longest, &line).ratio()
    };
    candidates
        .into_iter()
        .take(CLOSE_LOOKS_MAX)
        .take_while(|_| Instant::now() < until)
        .map(|(_, number)| (likeness(number), number))
        .filter(|(ratio, _)| *ratio >= RATIO_MIN)
        .max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(&one.1)))
        .map(|(_, number)| number.saturating_sub(offset))
}

/// How often each byte, folded to 64 classes, occurs in the first characters of a line.
fn letter_counts(line: &[u8]) -> [u8; 64] {
    let mut counts = [0_u8; 64];
    for byte in line.iter().take(LINE_CHARACTERS_MAX) {
        if let Some(count) = counts.get_mut(usize::from(byte & 63)) {
            *count = count.saturating_add(1);
        }
    }
    counts
}

/// How many letters two lines do not share.
fn distance(one: &[u8; 64], other: &[u8; 64]) -> u32 {
    one.iter().zip(other).map(|(mine, theirs)| u32::from(mine.abs_diff(*theirs))).sum()
}

/// The first characters of a line, for comparing.
fn text_of(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().take(LINE_CHARACTERS_MAX).collect()
}

/// Lines as a reader sees them, one after the other.
fn visible_lines(lines: &[&[u8]]) -> String {
    lines.iter().map(|line| visible(line) + "\n").collect()
}

/// A line with its tabs, carriage returns, trailing and odd blanks, what is never seen, and bytes that
/// are no text made visible; the CR of CR LF is none of these, since matching is blind to it.
#[must_use]
pub fn visible(line: &[u8]) -> String {
    let body = line.strip_suffix(b"\n").map_or(line, |body| body.strip_suffix(b"\r").unwrap_or(body));
    let mut shown = visible::blanks(body);
    if shown.ends_with('\n') {
        shown.pop();
    }
    match shown.char_indices().nth(LINE_CHARACTERS_MAX) {
        Some((cut, _)) => format!("{}…", shown.get(..cut).unwrap_or_default()),
        None => shown,
    }
}

/// The lines that differ, with one unchanged line round each.
fn difference(diff: &TextDiff<'_, '_, str>) -> String {
    let mut unified = diff.unified_diff();
    unified.context_radius(1);
    let mut shown = String::new();
    let changes = unified.iter_hunks().flat_map(|hunk| {
        hunk.iter_changes().map(|change| (change.tag(), change.value().to_owned())).collect::<Vec<_>>()
    });
    for (number, (tag, line)) in changes.enumerate() {
        if number == LINES_SHOWN_MAX {
            shown.push_str("...\n");
            break;
        }
        let sign = match tag {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        shown.push(sign);
        shown.push_str(&line);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_region_is_found_and_its_difference_shown() {
        let body = b"fn a() {\n\tlet x = 1;\n}\n\nfn b() {\n\tlet y = 2;\n\treturn y;\n}\n";
        let near = nearest(body, b"fn b() {\n    let y = 2;\n    return y;\n}").unwrap();
        assert_eq!((near.start_line, near.end_line), (5, 8));
        assert!(near.difference.contains("-    let y = 2;\n"), "{}", near.difference);
        assert!(near.difference.contains("+→let y = 2;\n"), "{}", near.difference);
    }

    #[test]
    fn a_line_alone_is_found_by_its_likeness() {
        let body = b"alpha\nlet total = compute_sum(a, b);\nomega\n";
        let near = nearest(body, b"let total = computeSum(a, b);").unwrap();
        assert_eq!((near.start_line, near.end_line), (2, 2));
        assert!(near.ratio > 0.8);
        assert_eq!(nearest(b"x\ny\n", b"nothing at all like that"), None);
        assert_eq!(nearest(b"", b"a"), None);
    }

    #[test]
    fn line_endings_alone_are_no_difference() {
        let near = nearest(b"one\rtwo\rthree\r", b"one\ntwx\nthree\n").unwrap();
        assert_eq!((near.difference.as_str(), near.first_difference), (" one\n-twx\n+two\n three\n", (2, 3)));
        // But the lack of one is.
        let near = nearest(b"one\ntwo", b"two\n").unwrap();
        assert_eq!(
            (near.difference.as_str(), near.first_difference),
            ("\\ No newline at end of file\n", (2, 4))
        );
    }

    #[test]
    fn whitespace_is_made_visible() {
        assert_eq!(visible(b"a\tb  \n"), "a→b··");
        assert_eq!(visible(b"a\r\n"), "a");
        assert_eq!(visible(b"a\r"), "a␍");
        assert_eq!(visible("caf\u{e9}\u{a0}‘x’\u{feff}".as_bytes()), "café‹U+00A0›‘x’‹U+FEFF›");
        assert_eq!(visible(b"caf\xe9\n"), "caf‹0xE9›");
    }
}
