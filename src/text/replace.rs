//! Exact replacement of text, ignoring only line endings.
//!
//! LF in the old text matches CR LF in the file and vice versa, and CR in a file with only CR endings. Everything else
//! must match byte for byte. The new text takes the endings of the lines that it replaces; no other byte changes.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::ops::{Deref, Range};

use memchr::memmem::Finder;
use similar::DiffOp;

use crate::buffer::Buffer;
use crate::text::checked::{TextFault, must_fit, slice, slice_or_empty};
use crate::text::line_diff;
use crate::text::lines::{self, LineEnding};

/// A text with LF line endings only, and a map to the original.
pub struct LfText<'a> {
    /// Flattened text.
    pub text: Cow<'a, [u8]>,
    /// Offsets in it at which an LF replaces CR LF, ascending.
    pairs: Vec<usize>,
}

impl<'a> LfText<'a> {
    /// Flattens a whole file.
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
        let mut rest = body;
        // Omit each CR before an LF.
        while let Some((head, tail)) =
            memchr::memmem::find(rest, b"\r\n").and_then(|at| rest.split_at_checked(at))
        {
            text.extend_from_slice(head);
            pairs.push(text.len());
            rest = tail.strip_prefix(b"\r").unwrap_or(tail);
        }
        text.extend_from_slice(rest);
        Self { text: Cow::Owned(text), pairs }
    }

    /// Returns the original offset of a flattened one; that of the CR if an LF replaces CR LF.
    pub fn original(&self, offset: usize) -> usize {
        offset + self.pairs.partition_point(|&pair| pair < offset)
    }

    /// Returns the flattened offset of an original one.
    pub fn flattened(&self, offset: usize) -> usize {
        let (mut low, mut high) = (0, self.pairs.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            // Each pair before this one adds one byte.
            let is_before = self.pairs.get(middle).is_some_and(|pair| pair + middle < offset);
            (low, high) = if is_before { (middle + 1, high) } else { (low, middle) };
        }
        offset - low
    }
}

/// Flattens the line endings of an old or a new text as in the file `body`: CR alone is an ending only in a file that
/// has no other.
pub fn flat_needle<'a>(needle: &'a [u8], body: &[u8]) -> Cow<'a, [u8]> {
    if memchr::memchr(b'\r', needle).is_none() {
        return Cow::Borrowed(needle);
    }
    let flat = LfText::of(needle);
    if lines::terminator(needle) == b'\r' && lines::terminator(body) != b'\r' {
        return Cow::Borrowed(needle);
    }
    Cow::Owned(flat.text.into_owned())
}

/// Returns true if two texts differ only in their line endings.
pub fn differ_only_in_endings(one: &[u8], other: &[u8]) -> bool {
    LfText::of(one).text == LfText::of(other).text
}

/// Returns every place of `needle` in `body`, as byte ranges. Places may overlap.
///
/// With `word`, it skips places inside a longer word: letters, digits and `_` of any script, as for `grep -w`.
pub fn places(body: &[u8], needle: &[u8], word: bool) -> Vec<Range<usize>> {
    each_place(&LfText::of(body), &flat_needle(needle, body), word).collect()
}

/// Iterates over the places of `needle` in a flattened text.
pub fn each_place<'t>(
    flat: &'t LfText<'_>,
    needle: &'t [u8],
    word: bool,
) -> impl Iterator<Item = Range<usize>> + 't {
    let found = Occurrences::of(&flat.text, needle).map(|start| start..start + needle.len());
    let wanted = found.filter(move |place| !word || is_word(&flat.text, place.clone()));
    wanted.map(|place| flat.original(place.start)..flat.original(place.end))
}

/// Iterates over the places that can be replaced together: each begins after the end of the last one.
pub fn separate_places(places: impl Iterator<Item = Range<usize>>) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    places.filter(move |place| {
        let is_apart = place.start >= end;
        if is_apart {
            end = place.end;
        }
        is_apart
    })
}

/// Returns true if `range` of `text` is not part of a longer word.
fn is_word(text: &[u8], range: Range<usize>) -> bool {
    let before = last_character(slice_or_empty(text, ..range.start));
    let after = first_character(slice_or_empty(text, range.end..));
    !before.is_some_and(is_word_character) && !after.is_some_and(is_word_character)
}

/// Returns true for a word character.
fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the first character of a text, if it is UTF-8 there.
fn first_character(text: &[u8]) -> Option<char> {
    let start = text.get(..text.len().min(4))?;
    start.utf8_chunks().next()?.valid().chars().next()
}

/// Returns the last character of a text, if it is UTF-8 there.
fn last_character(text: &[u8]) -> Option<char> {
    let end = text.get(text.len().saturating_sub(4)..)?;
    let last = end.utf8_chunks().last()?;
    if last.invalid().is_empty() { last.valid().chars().next_back() } else { None }
}

/// Returns the first and last lines, from 1, of the first `listed_max` ranges, which ascend.
pub fn line_ranges(body: &[u8], ranges: &[Range<usize>], listed_max: usize) -> Vec<(u64, u64)> {
    let terminator = lines::terminator(body);
    let count = |from: usize, to: usize| {
        memchr::memchr_iter(terminator, slice_or_empty(body, from..to)).count() as u64
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

/// Result of a replacement.
#[derive(Debug)]
pub struct ReplaceResult {
    /// The new text.
    pub body: Buffer,
    /// Ranges of the replacements in the new text, or the first of them.
    pub ranges: Vec<Range<usize>>,
    /// Number of replacements.
    pub count: usize,
}

/// Returns `body` with `new` at each of `places`, which ascend and do not overlap.
///
/// # Errors
/// Fails as [`replace_each`] does.
pub fn replace(
    body: &[u8],
    places: &[Range<usize>],
    new: &[u8],
    bytes_max: usize,
) -> Result<ReplaceResult, TextFault> {
    let changes = || places.iter().map(|place| (place.clone(), new));
    replace_each(body, changes, || LineEnding::None, usize::MAX, bytes_max)
}

/// Returns `body` with a new text at each place; the places ascend and do not overlap. If `body` has no line ending,
/// new lines get the `usual` one. The first `listed_max` ranges are returned.
///
/// It goes through the changes twice, once for the size, and does not store them, so there may be any number.
///
/// # Errors
/// Fails if the text would exceed `bytes_max`, before it is built, or if a place lies outside `body`.
pub fn replace_each<'a, I: Iterator<Item = (Range<usize>, &'a [u8])>>(
    body: &[u8],
    changes: impl Fn() -> I,
    usual: impl Fn() -> LineEnding,
    listed_max: usize,
    bytes_max: usize,
) -> Result<ReplaceResult, TextFault> {
    let style = LazyCell::new(|| match LineEnding::of(body) {
        LineEnding::None => usual(),
        own => own,
    });
    let (mut ranges, mut count, mut length) = (Vec::new(), 0, 0_usize);
    each_piece(body, changes(), &style, |kept, new, unchanged| {
        let start = length.saturating_add(kept.len());
        length = start.saturating_add(new.len());
        count += 1;
        if ranges.len() < listed_max {
            ranges.push(start..length - unchanged);
        }
        must_fit(length, bytes_max)
    })
    .and_then(|rest| {
        length = length.saturating_add(rest.len());
        must_fit(length, bytes_max)
    })?;
    let mut text = Buffer::zeroed(length);
    let mut free: &mut [u8] = &mut text;
    let mut put = |piece: &[u8]| {
        let (part, rest) =
            std::mem::take(&mut free).split_at_mut_checked(piece.len()).ok_or(TextFault::OutOfRange)?;
        part.copy_from_slice(piece);
        free = rest;
        Ok(())
    };
    let rest = each_piece(body, changes(), &style, |kept, new, _| put(kept).and_then(|()| put(new)))?;
    put(rest)?;
    Ok(ReplaceResult { body: text, ranges, count })
}

/// Passes each text between two places, the new text after it, and the number of its last bytes that are not new. Returns
/// the text after the last place.
fn each_piece<'b, 'a>(
    body: &'b [u8],
    changes: impl Iterator<Item = (Range<usize>, &'a [u8])>,
    style: &impl Deref<Target = LineEnding>,
    mut take: impl FnMut(&'b [u8], &[u8], usize) -> Result<(), TextFault>,
) -> Result<&'b [u8], TextFault> {
    let mut copied = 0;
    let mut changes = changes.peekable();
    while let Some((place, new)) = changes.next() {
        let kept = slice(body, copied..place.start)?;
        let next = changes.peek().map_or(body.len(), |(next, _)| next.start);
        if let Some((wider, ended)) = with_final_ending(new, body, &place, next, style)? {
            let ended = with_endings_of(&ended, body, &wider, style)?;
            // The final ending is already there, or replaces the one that is. If it stays, it is not new.
            let there = slice(body, place.end..wider.end)?;
            let stays = ending_of(&ended).is_some_and(|ending| ending == there);
            take(kept, &ended, if stays { there.len() } else { 0 })?;
            copied = wider.end;
        } else {
            take(kept, &with_endings_of(new, body, &place, style)?, 0)?;
            copied = place.end;
        }
    }
    slice(body, copied..)
}

/// A place and its new text.
type PlacedText = (Range<usize>, Vec<u8>);

/// Extends a place that ends before a line ending, and its new text, by that ending: in a file with mixed endings, the
/// new last line may have another one. Returns `None` if that is impossible, or if the next place begins too early, at
/// `next`.
fn with_final_ending(
    new: &[u8],
    body: &[u8],
    place: &Range<usize>,
    next: usize,
    style: &impl Deref<Target = LineEnding>,
) -> Result<Option<PlacedText>, TextFault> {
    let old = slice(body, place.clone())?;
    let has_lines = memchr::memchr(b'\n', old).is_some() || memchr::memchr(b'\n', new).is_some();
    if !has_lines || old.ends_with(b"\n") || new.ends_with(b"\n") || **style != LineEnding::Mixed {
        return Ok(None);
    }
    let rest = slice(body, place.end..)?;
    let Some(ending) = [&b"\r\n"[..], b"\n"].into_iter().find(|ending| rest.starts_with(ending)) else {
        return Ok(None);
    };
    let wider = place.start..place.end + ending.len();
    Ok((wider.end <= next).then(|| (wider, [new, b"\n"].concat())))
}

/// Returns `new` with the line endings of the text at `place`. A line that the old text has too keeps its ending. A
/// line that replaces another takes its ending. Any other takes that of the line before it, or of the nearest.
fn with_endings_of<'a>(
    new: &'a [u8],
    body: &[u8],
    place: &Range<usize>,
    style: &impl Deref<Target = LineEnding>,
) -> Result<Cow<'a, [u8]>, TextFault> {
    if memchr::memchr2(b'\n', b'\r', new).is_none() {
        return Ok(Cow::Borrowed(new));
    }
    // Computed only now: it takes a pass over the whole file.
    let style = **style;
    if style == LineEnding::None || (style == LineEnding::Lf && memchr::memchr(b'\r', new).is_none()) {
        return Ok(Cow::Borrowed(new));
    }
    let new = flat_needle(new, body);
    let lines: Vec<&[u8]> = new.split_inclusive(|&byte| byte == b'\n').collect();
    let endings = match style.bytes() {
        Some(uniform) => vec![uniform; lines.len()],
        None => endings_for(&lines, slice(body, place.clone())?, ending_near(body, place.end)?),
    };
    let mut converted = Vec::with_capacity(new.len() + lines.len());
    for (line, ending) in lines.iter().zip(endings) {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                converted.extend_from_slice(line);
                converted.extend_from_slice(ending);
            }
            None => converted.extend_from_slice(line),
        }
    }
    Ok(Cow::Owned(converted))
}

/// Returns the ending of each new line that replaces an old text with mixed endings; `near` is the ending of the line
/// next to it.
fn endings_for(new: &[&[u8]], old: &[u8], near: &'static [u8]) -> Vec<&'static [u8]> {
    let old: Vec<&[u8]> = old.split_inclusive(|&byte| byte == b'\n').collect();
    let endings: Vec<&'static [u8]> = old.iter().filter_map(|line| ending_of(line)).collect();
    let rest = endings.last().copied().unwrap_or(near);
    let old: Vec<&[u8]> = old.iter().map(|line| bare(line)).collect();
    let new: Vec<&[u8]> = new.iter().map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect();
    let own = |index: usize| endings.get(index).copied();
    let mut chosen = Vec::with_capacity(new.len());
    for op in line_diff::diff(&old, &new).ops {
        let replaced = op.old_range();
        let before = replaced.start.checked_sub(1).and_then(own);
        let last =
            if replaced.is_empty() { before.or_else(|| own(replaced.start)) } else { own(replaced.end - 1) };
        for nth in 0..op.new_range().len() {
            let paired = (nth < replaced.len()).then(|| own(replaced.start + nth)).flatten();
            // A kept line has its own ending, if any.
            let is_kept = matches!(op, DiffOp::Equal { .. });
            let is_last = chosen.len() + 1 == new.len();
            // The last line ends as the old last line did.
            let chosen_one = if is_kept {
                paired
            } else if is_last {
                Some(rest)
            } else {
                paired.or(last)
            };
            chosen.push(chosen_one.unwrap_or(rest));
        }
    }
    chosen
}

/// Returns a line without LF or CR LF.
fn bare(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r\n").or_else(|| line.strip_suffix(b"\n")).unwrap_or(line)
}

/// Returns the ending of a line; `None` if it has none.
fn ending_of(line: &[u8]) -> Option<&'static [u8]> {
    if line.ends_with(b"\r\n") { Some(b"\r\n") } else { line.ends_with(b"\n").then_some(b"\n") }
}

/// Returns the ending whose LF is at `at`.
fn ending_at(text: &[u8], at: usize) -> &'static [u8] {
    match at.checked_sub(1).and_then(|before| text.get(before)) {
        Some(b'\r') => b"\r\n",
        _ => b"\n",
    }
}

/// Returns the ending of the line at `offset`, else of the nearest line before it.
fn ending_near(body: &[u8], offset: usize) -> Result<&'static [u8], TextFault> {
    let after = memchr::memchr(b'\n', slice(body, offset..)?).map(|at| offset + at);
    let before = memchr::memrchr(b'\n', slice(body, ..offset)?);
    Ok(after.or(before).map_or(b"\n", |at| ending_at(body, at)))
}

/// Iterator over the offsets of a needle in a text, ascending; occurrences may overlap.
///
/// A search that restarts after each occurrence takes the length of the needle for each. If two occurrences overlap,
/// the needle repeats itself, and the search continues from what the end of the needle has in common with its start
/// (Knuth, Morris and Pratt).
pub struct Occurrences<'a> {
    /// The text.
    text: &'a [u8],
    /// Text to find.
    needle: &'a [u8],
    /// Finder for the needle.
    finder: Finder<'a>,
    /// Offset at which the search continues.
    from: usize,
    /// Offset of the last occurrence.
    last: Option<usize>,
    /// Length of the longest border of each prefix of the needle: a shorter prefix that also ends it. Computed only if
    /// occurrences overlap.
    borders: Vec<u32>,
    /// Bytes of the needle that match before `from`, while occurrences may overlap.
    matched: usize,
}

impl<'a> Occurrences<'a> {
    /// Returns the occurrences of `needle`; an empty needle has none.
    pub fn of(text: &'a [u8], needle: &'a [u8]) -> Self {
        let finder = Finder::new(needle);
        Self { text, needle, finder, from: 0, last: None, borders: Vec::new(), matched: 0 }
    }

    /// Returns the next occurrence that may overlap the last; `None` at the end of the repetition.
    fn overlapping(&mut self) -> Option<usize> {
        while self.matched > 0 {
            let byte = self.text.get(self.from)?;
            while self.matched > 0 && self.needle.get(self.matched) != Some(byte) {
                self.matched = border(&self.borders, self.matched);
            }
            if self.needle.get(self.matched) == Some(byte) {
                self.matched += 1;
            }
            self.from += 1;
            if self.matched == self.needle.len() {
                self.matched = border(&self.borders, self.matched);
                return Some(self.from - self.needle.len());
            }
        }
        None
    }
}

impl Iterator for Occurrences<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.needle.is_empty() {
            return None;
        }
        if self.matched > 0
            && let Some(start) = self.overlapping()
        {
            self.last = Some(start);
            return Some(start);
        }
        let start = self.from + self.finder.find(self.text.get(self.from..)?)?;
        if self.last.is_some_and(|last| start - last < self.needle.len()) {
            self.borders = borders(self.needle);
            self.matched = border(&self.borders, self.needle.len());
            self.from = start + self.needle.len();
        } else {
            self.from = start + 1;
        }
        self.last = Some(start);
        Some(start)
    }
}

/// Returns the border of the first `length` bytes of the needle.
fn border(borders: &[u32], length: usize) -> usize {
    length.checked_sub(1).and_then(|at| borders.get(at)).map_or(0, |&border| border as usize)
}

/// Returns the border of each prefix of the needle.
fn borders(needle: &[u8]) -> Vec<u32> {
    let mut borders: Vec<u32> = Vec::with_capacity(needle.len());
    let mut matched = 0;
    for (at, byte) in needle.iter().enumerate() {
        if at > 0 {
            while matched > 0 && needle.get(matched) != Some(byte) {
                matched = border(&borders, matched);
            }
            if needle.get(matched) == Some(byte) {
                matched += 1;
            }
        }
        // A needle of 4 GiB is larger than any request.
        borders.push(u32::try_from(matched).unwrap_or(0));
    }
    borders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn replacement_beyond_the_size_limit_is_rejected() {
        let body = vec![b'x'; 1 << 20];
        let flat = LfText::of(&body);
        let new = vec![b'y'; 100_000];
        let each = || each_place(&flat, b"x", false).map(|place| (place, new.as_slice()));
        let found = replace_each(&body, each, || LineEnding::None, 20, 1 << 30);
        assert!(matches!(found, Err(TextFault::TooLarge { bytes_max, .. }) if bytes_max == 1 << 30));
        let places: Vec<_> = each_place(&flat, b"x", false).collect();
        assert!(matches!(replace(&body, &places, &new, 1 << 30), Err(TextFault::TooLarge { .. })));
        assert!(matches!(replace(&body, &[0..4, 2..5], b"", 1 << 30), Err(TextFault::OutOfRange)));
        assert!(matches!(replace(b"abc", std::slice::from_ref(&(2..4)), b"", 9), Err(TextFault::OutOfRange)));
    }

    #[test]
    fn flattened_and_original_offsets_correspond() {
        let flat = LfText::of(b"a\r\nb\r\n\r\nc\n");
        assert_eq!(flat.text.as_ref(), b"a\nb\n\nc\n");
        for (flattened, original) in [(0, 0), (1, 1), (2, 3), (3, 4), (4, 6), (5, 8), (6, 9), (7, 10)] {
            assert_eq!(flat.original(flattened), original);
            assert_eq!(flat.flattened(original), flattened);
        }
    }

    #[test]
    fn replacement_never_changes_other_bytes() {
        let mut numbers = Random::new(1);
        let mut random = |below| numbers.below(below);
        let alphabet: [&[u8]; 8] = [b"a", b"b", b"\n", b"\r\n", b"\r", b"\xff", b"\0", "é".as_bytes()];
        for _ in 0..5000 {
            let body: Vec<u8> =
                (0..random(30)).flat_map(|_| alphabet[random(alphabet.len())].to_vec()).collect();
            let needle: Vec<u8> =
                (0..=random(3)).flat_map(|_| alphabet[random(alphabet.len())].to_vec()).collect();
            let places: Vec<_> = separate_places(places(&body, &needle, false).into_iter()).collect();
            let replaced = replace(&body, &places, b"X\nY", usize::MAX).unwrap();
            let each = || places.iter().map(|place| (place.clone(), &b"X\nY"[..]));
            let all = replace_each(&body, each, || LineEnding::None, 3, usize::MAX).unwrap();
            assert_eq!((*all.body).to_vec(), replaced.body.to_vec());
            assert_eq!((all.count, all.ranges.len()), (places.len(), places.len().min(3)));
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
                assert!(differ_only_in_endings(&body[place.clone()], &needle) || body.contains(&b'\r'));
                kept.extend_from_slice(&body[at..place.start]);
                at = place.end;
            }
            kept.extend_from_slice(&body[at..]);
            assert_eq!(rest, kept, "{body:?} {needle:?}");
        }
    }

    #[test]
    fn occurrences_equal_a_naive_search() {
        let mut numbers = Random::new(1);
        let mut random = |below| numbers.below(below);
        for _ in 0..20_000 {
            let kinds = 1 + random(3);
            let text: Vec<u8> = (0..random(40)).map(|_| b"abc"[random(kinds)]).collect();
            let needle: Vec<u8> = (0..=random(6)).map(|_| b"abc"[random(kinds)]).collect();
            let found: Vec<usize> = Occurrences::of(&text, &needle).collect();
            let wanted: Vec<usize> = (0..text.len()).filter(|&at| text[at..].starts_with(&needle)).collect();
            assert_eq!(found, wanted, "{text:?} {needle:?}");
        }
        assert_eq!(Occurrences::of(b"abc", b"").count(), 0);
    }

    #[test]
    fn long_periodic_needle_is_found_everywhere() {
        let text = vec![b'x'; 1_000_000];
        assert_eq!(Occurrences::of(&text, &text[..100_000]).count(), 900_001);
    }
}
