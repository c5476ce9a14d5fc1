//! Replacing text exactly, blind to line endings alone.
//!
//! LF in the text looked for meets CR LF in the file and the other way round, and in a file whose
//! lines all end in CR alone it meets that. Everything else must agree byte for byte. The new text
//! takes the endings of the lines it replaces; no other byte changes.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::ops::{Deref, Range};

use super::joined::joined;
use super::lines::{self, LineEnding};
use crate::buffer::Buffer;

/// A text whose line endings are all LF, and the way back to the original.
pub struct Flat<'a> {
    /// The flattened text.
    pub text: Cow<'a, [u8]>,
    /// Where in it an LF stands for CR LF, ascending.
    pairs: Vec<usize>,
}

impl<'a> Flat<'a> {
    /// Flattens a whole file.
    #[must_use]
    pub fn of(body: &'a [u8]) -> Self {
        if memchr::memchr(b'\r', body).is_none() {
            return Self { text: Cow::Borrowed(body), pairs: Vec::new() };
        }
        if lines::terminator(body) == b'\r' {
            let text = body.iter().map(|&byte| if byte == b'\r' { b'\n' } else { byte }).collect();
            return Self { text: Cow::Owned(text), pairs: Vec::new() };
        }
        let mut text = Vec::with_capacity(body.len());
        let mut pairs = Vec::new();
        let mut copied = 0;
        for at in memchr::memchr_iter(b'\r', body) {
            if body.get(at + 1) == Some(&b'\n') {
                text.extend_from_slice(body.get(copied..at).unwrap_or_default());
                pairs.push(text.len());
                copied = at + 1;
            }
        }
        text.extend_from_slice(body.get(copied..).unwrap_or_default());
        Self { text: Cow::Owned(text), pairs }
    }

    /// The original offset of a flattened one; that of the CR where an LF stands for CR LF.
    #[must_use]
    pub fn original(&self, offset: usize) -> usize {
        offset + self.pairs.partition_point(|&pair| pair < offset)
    }

    /// The flattened offset of an original one.
    #[must_use]
    pub fn flattened(&self, offset: usize) -> usize {
        let (mut low, mut high) = (0, self.pairs.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            // Before this pair stand as many others, each with a byte more.
            let is_before = self.pairs.get(middle).is_some_and(|pair| pair + middle < offset);
            (low, high) = if is_before { (middle + 1, high) } else { (low, middle) };
        }
        offset - low
    }
}

/// The text looked for, or to be put there, with its line endings flattened as those of the file
/// `body` are: CR alone is an ending only in a file that has no other.
#[must_use]
pub fn flat_needle<'a>(needle: &'a [u8], body: &[u8]) -> Cow<'a, [u8]> {
    if memchr::memchr(b'\r', needle).is_none() {
        return Cow::Borrowed(needle);
    }
    let flat = Flat::of(needle);
    if lines::terminator(needle) == b'\r' && lines::terminator(body) != b'\r' {
        return Cow::Borrowed(needle);
    }
    Cow::Owned(flat.text.into_owned())
}

/// Whether two texts differ in nothing but their line endings.
#[must_use]
pub fn same_but_for_endings(one: &[u8], other: &[u8]) -> bool {
    Flat::of(one).text == Flat::of(other).text
}

/// Every place in `body` where `needle` stands, as ranges of its bytes. Places may overlap.
///
/// With `word`, only places that are not part of a longer word: letters, digits and `_` of any
/// script, as for `grep -w`.
#[must_use]
pub fn places(body: &[u8], needle: &[u8], word: bool) -> Vec<Range<usize>> {
    places_in(&Flat::of(body), &flat_needle(needle, body), word)
}

/// The same of flattened texts.
#[must_use]
pub fn places_in(flat: &Flat<'_>, needle: &[u8], word: bool) -> Vec<Range<usize>> {
    let finder = memchr::memmem::Finder::new(needle);
    let mut found = Vec::new();
    let mut from = 0;
    while !needle.is_empty()
        && let Some(at) = flat.text.get(from..).and_then(|rest| finder.find(rest))
    {
        let start = from + at;
        let end = start + needle.len();
        if !word || is_word(&flat.text, start..end) {
            found.push(flat.original(start)..flat.original(end));
        }
        from = start + 1;
    }
    found
}

/// The places that can be replaced together: each begins after the one before ends.
#[must_use]
pub fn without_overlaps(places: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut end = 0;
    let apart = places.iter().filter(|place| {
        let is_apart = place.start >= end;
        if is_apart {
            end = place.end;
        }
        is_apart
    });
    apart.cloned().collect()
}

/// Whether `range` of `text` is not part of a longer word.
fn is_word(text: &[u8], range: Range<usize>) -> bool {
    let before = last_character(text.get(..range.start).unwrap_or_default());
    let after = first_character(text.get(range.end..).unwrap_or_default());
    !before.is_some_and(is_word_character) && !after.is_some_and(is_word_character)
}

/// Whether a character belongs to a word.
fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The first character of a text, if it is UTF-8 there.
fn first_character(text: &[u8]) -> Option<char> {
    let start = text.get(..text.len().min(4))?;
    start.utf8_chunks().next()?.valid().chars().next()
}

/// The last character of a text, if it is UTF-8 there.
fn last_character(text: &[u8]) -> Option<char> {
    let end = text.get(text.len().saturating_sub(4)..)?;
    let last = end.utf8_chunks().last()?;
    if last.invalid().is_empty() { last.valid().chars().next_back() } else { None }
}

/// The lines, from 1, of the first `listed_max` ranges, which ascend: the first and the last of each.
#[must_use]
pub fn line_ranges(body: &[u8], ranges: &[Range<usize>], listed_max: usize) -> Vec<(u64, u64)> {
    let terminator = lines::terminator(body);
    let count = |from: usize, to: usize| {
        memchr::memchr_iter(terminator, body.get(from..to).unwrap_or_default()).count() as u64
    };
    let (mut at, mut line) = (0, 1);
    let mut listed = Vec::with_capacity(ranges.len().min(listed_max));
    for range in ranges.iter().take(listed_max) {
        line += count(at.min(range.start), range.start);
        at = range.start;
        // A final line ending belongs to the line that it ends.
        let last = range.end.saturating_sub(1).max(range.start);
        listed.push((line, line + count(range.start, last)));
    }
    listed
}

/// What a replacement did.
#[derive(Debug)]
pub struct Replaced {
    /// The new text.
    pub body: Buffer,
    /// Where the replacements stand in it.
    pub ranges: Vec<Range<usize>>,
}

/// `body` with `new` at each of `places`, which ascend and do not overlap.
#[must_use]
pub fn replace(body: &[u8], places: &[Range<usize>], new: &[u8]) -> Replaced {
    replace_each(body, places.iter().map(|place| (place, new)))
}

/// `body` with a text of its own at each place; the places ascend and do not overlap.
#[must_use]
pub fn replace_each<'a>(
    body: &'a [u8],
    changes: impl Iterator<Item = (&'a Range<usize>, &'a [u8])>,
) -> Replaced {
    let style = LazyCell::new(|| LineEnding::of(body));
    let (mut pieces, mut ranges) = (Vec::new(), Vec::new());
    let (mut copied, mut length) = (0, 0);
    for (place, new) in changes {
        let kept = body.get(copied..place.start).unwrap_or_default();
        let new = with_endings_of(new, body, place, &style);
        let start = length + kept.len();
        length = start + new.len();
        pieces.extend([Cow::Borrowed(kept), new]);
        ranges.push(start..length);
        copied = place.end;
    }
    pieces.push(Cow::Borrowed(body.get(copied..).unwrap_or_default()));
    Replaced { body: joined(&pieces), ranges }
}

/// `new` with the line endings of what stands at `place`: its breaks take those of the old text's
/// breaks in turn, the rest that of the line where the place ends, or of the nearest before it.
fn with_endings_of<'a>(
    new: &'a [u8],
    body: &[u8],
    place: &Range<usize>,
    style: &impl Deref<Target = LineEnding>,
) -> Cow<'a, [u8]> {
    if memchr::memchr2(b'\n', b'\r', new).is_none() {
        return Cow::Borrowed(new);
    }
    // Found only now: of a large file that is a pass through all of it.
    let style = **style;
    if style == LineEnding::None || (style == LineEnding::Lf && memchr::memchr(b'\r', new).is_none()) {
        return Cow::Borrowed(new);
    }
    let old = endings_in(body.get(place.clone()).unwrap_or_default(), style);
    let rest = old.last().copied().unwrap_or_else(|| ending_near(body, place.end, style));
    let mut old = old.into_iter();
    let mut converted = Vec::with_capacity(new.len() + new.len() / 16);
    for line in flat_needle(new, body).split_inclusive(|&byte| byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                converted.extend_from_slice(line);
                converted.extend_from_slice(old.next().unwrap_or(rest));
            }
            None => converted.extend_from_slice(line),
        }
    }
    Cow::Owned(converted)
}

/// The line endings in `text`, in order.
fn endings_in(text: &[u8], style: LineEnding) -> Vec<&'static [u8]> {
    if style == LineEnding::Cr {
        return memchr::memchr_iter(b'\r', text).map(|_| &b"\r"[..]).collect();
    }
    memchr::memchr_iter(b'\n', text).map(|at| ending_at(text, at)).collect()
}

/// The ending whose LF is at `at`.
fn ending_at(text: &[u8], at: usize) -> &'static [u8] {
    match at.checked_sub(1).and_then(|before| text.get(before)) {
        Some(b'\r') => b"\r\n",
        _ => b"\n",
    }
}

/// The ending of the line at `offset`, else of the nearest line before it.
fn ending_near(body: &[u8], offset: usize, style: LineEnding) -> &'static [u8] {
    if let Some(uniform) = style.bytes() {
        return uniform;
    }
    let after = memchr::memchr(b'\n', body.get(offset..).unwrap_or_default()).map(|at| offset + at);
    let before = || memchr::memrchr(b'\n', body.get(..offset).unwrap_or_default());
    after.or_else(before).map_or(b"\n", |at| ending_at(body, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces the only place.
    fn edit(body: &str, old: &str, new: &str) -> String {
        let places = places(body.as_bytes(), old.as_bytes(), false);
        assert_eq!(places.len(), 1, "{body:?} {old:?}");
        String::from_utf8(replace(body.as_bytes(), &places, new.as_bytes()).body.into_vec()).unwrap()
    }

    #[test]
    fn the_new_text_takes_the_endings_of_the_lines_it_replaces() {
        for (body, old, new, after) in [
            ("a\nb\nc\n", "b", "B", "a\nB\nc\n"),
            ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
            ("a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"),
            ("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"),
            ("a\rb\rc", "a\nb", "x\ny\nz", "x\ry\rz\rc"),
            ("a\r\nb\nc\n", "a\nb\n", "1\n2\n3\n", "1\r\n2\n3\nc\n"),
            ("a\r\nb\nc\n", "b", "b\nB", "a\r\nb\nB\nc\n"),
            ("a\nb\r\nc", "b", "b\nB", "a\nb\r\nB\r\nc"),
            ("a\r\nc", "c", "c\nd", "a\r\nc\r\nd"),
            ("x", "x", "a\nb", "a\nb"),
            ("x", "x", "a\r\nb", "a\r\nb"),
            ("a\r\nb", "\nb", "", "a"),
            ("a\rb\nc\n", "b", "B", "a\rB\nc\n"),
            ("a\rb\nc\n", "a\rb", "A\rB", "A\rB\nc\n"),
            ("a\nb\n", "b", "b\rB", "a\nb\rB\n"),
            ("a\r\nb\r\n", "b", "b\rB\nc", "a\r\nb\rB\r\nc\r\n"),
            ("tail\n", "tail\n", "", ""),
        ] {
            assert_eq!(edit(body, old, new), after, "{body:?} {old:?} -> {new:?}");
        }
    }

    #[test]
    fn offsets_are_those_of_the_same_character() {
        let flat = Flat::of(b"a\r\nb\r\n\r\nc\n");
        assert_eq!(flat.text.as_ref(), b"a\nb\n\nc\n");
        for (flattened, original) in [(0, 0), (1, 1), (2, 3), (3, 4), (4, 6), (5, 8), (6, 9), (7, 10)] {
            assert_eq!(flat.original(flattened), original);
            assert_eq!(flat.flattened(original), flattened);
        }
    }

    #[test]
    fn places_are_found_as_they_are() {
        let starts = |body: &[u8], needle: &[u8], word| -> Vec<usize> {
            places(body, needle, word).into_iter().map(|place| place.start).collect()
        };
        assert_eq!(starts(b"aaa", b"aa", false), [0, 1]);
        assert_eq!(without_overlaps(&places(b"aaa", b"aa", false)), vec![0..2]);
        assert_eq!(starts(b"x\r\nx\r\n", b"x\n", false), [0, 3]);
        assert_eq!(starts(b"foo foobar _foo foo", b"foo", true), [0, 16]);
        assert_eq!(starts("éfoo foo".as_bytes(), b"foo", true), [6]);
        assert_eq!(starts(b"\xfffoo", b"foo", true), [1]);
        assert_eq!(starts(b"a\rb\n", b"a\nb", false), Vec::<usize>::new());
        assert_eq!(starts(b"a", b"", false), Vec::<usize>::new());
    }

    #[test]
    fn bytes_outside_the_places_never_change() {
        let mut seed = 0x9e37_79b9_u64;
        let mut random = move |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed % below as u64).unwrap()
        };
        let alphabet: [&[u8]; 8] = [b"a", b"b", b"\n", b"\r\n", b"\r", b"\xff", b"\0", "é".as_bytes()];
        for _ in 0..5000 {
            let body: Vec<u8> =
                (0..random(30)).flat_map(|_| alphabet[random(alphabet.len())].to_vec()).collect();
            let needle: Vec<u8> =
                (0..=random(3)).flat_map(|_| alphabet[random(alphabet.len())].to_vec()).collect();
            let places = without_overlaps(&places(&body, &needle, false));
            let replaced = replace(&body, &places, b"X\nY");
            let mut rest = Vec::new();
            let mut at = 0;
            for range in &replaced.ranges {
                rest.extend_from_slice(&replaced.body[at..range.start]);
                at = range.end;
            }
            rest.extend_from_slice(&replaced.body[at..]);
            let mut kept = Vec::new();
            let mut at = 0;
            for place in &places {
                assert!(same_but_for_endings(&body[place.clone()], &needle) || body.contains(&b'\r'));
                kept.extend_from_slice(&body[at..place.start]);
                at = place.end;
            }
            kept.extend_from_slice(&body[at..]);
            assert_eq!(rest, kept, "{body:?} {needle:?}");
        }
    }
}
