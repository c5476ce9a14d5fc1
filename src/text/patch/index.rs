//! Where lines stand in a file, under each way of comparing them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::lines::Line;
use crate::text::checked::peek;
use crate::text::flexible::on_keyboard;

/// How alike a line of the file and one of the patch must be; the line ending never counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Byte for byte.
    Exact,
    /// But for white space at the end.
    TrailingSpace,
    /// But for white space at both ends.
    Space,
    /// But for that and for typographic quotes, dashes and spaces.
    Typography,
}

impl Tier {
    /// All of them, the strictest first.
    pub const ALL: [Self; 4] = [Self::Exact, Self::TrailingSpace, Self::Space, Self::Typography];

    /// The name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::TrailingSpace => "trailing_space",
            Self::Space => "space",
            Self::Typography => "typography",
        }
    }

    /// What of a line is compared.
    #[must_use]
    pub fn key(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Exact => Cow::Borrowed(text),
            Self::TrailingSpace => Cow::Borrowed(text.trim_ascii_end()),
            Self::Space => Cow::Borrowed(text.trim_ascii()),
            Self::Typography => folded(text),
        }
    }
}

/// `text` with plain quotes, dashes and spaces for typographic ones, and trimmed.
fn folded(text: &[u8]) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        return Cow::Borrowed(text.trim_ascii());
    }
    let mut plain = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let letter = on_keyboard(letter).unwrap_or(letter);
            plain.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        plain.extend_from_slice(chunk.invalid());
    }
    Cow::Owned(plain.trim_ascii().to_vec())
}

/// The lines of a file as numbers, equal ones alike, and where each number stands.
pub struct Index<'f> {
    /// How lines are compared.
    tier: Tier,
    /// The number of each line.
    ids: Vec<u32>,
    /// The number of each text.
    id_by_text: HashMap<Cow<'f, [u8]>, u32>,
    /// For each number, where its places start in `positions`; one more at the end.
    starts: Vec<usize>,
    /// The places of all numbers, each number's in order.
    positions: Vec<u32>,
}

/// What a search found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Places {
    /// Indices of first lines, in order and no more than were asked for.
    pub starts: Vec<usize>,
    /// Whether the search was given up, so that there may be more.
    pub is_cut: bool,
}

impl<'f> Index<'f> {
    /// The index of `lines`.
    pub fn new(lines: &[Line<'f>], tier: Tier) -> Self {
        let mut id_by_text = HashMap::with_capacity(lines.len());
        let mut ids = Vec::with_capacity(lines.len());
        for line in lines {
            let fresh = u32::try_from(id_by_text.len()).unwrap_or(u32::MAX);
            ids.push(*id_by_text.entry(tier.key(line.text)).or_insert(fresh));
        }
        let (starts, positions) = places_by_id(&ids, id_by_text.len());
        Self { tier, ids, id_by_text, starts, positions }
    }

    /// The numbers of `texts`; `None` where one of them is nowhere in the file.
    pub fn needle(&self, texts: &[&[u8]]) -> Option<Vec<u32>> {
        texts.iter().map(|text| self.id_by_text.get(&self.tier.key(text)).copied()).collect()
    }

    /// The places of one text.
    pub fn positions(&self, text: &[u8]) -> &[u32] {
        self.id_by_text.get(&self.tier.key(text)).map_or(&[], |id| self.positions_of(*id))
    }

    /// Whether `needle` stands at the line with index `at`.
    pub fn stands_at(&self, needle: &[u32], at: usize) -> bool {
        at.checked_add(needle.len()).and_then(|end| self.ids.get(at..end)) == Some(needle)
    }

    /// At most `limit` places of `needle` that start in `window`, spending no more than `budget`.
    pub fn places(&self, needle: &[u32], window: &Range<usize>, limit: usize, budget: &mut usize) -> Places {
        let rarest = needle.iter().enumerate().min_by_key(|(_, id)| self.positions_of(**id).len());
        let mut places = Places::default();
        let Some((offset, id)) = rarest else { return places };
        let positions = self.positions_of(*id);
        let first = positions.partition_point(|at| widen(*at) < window.start.saturating_add(offset));
        for at in peek(positions, first..) {
            let Some(start) = widen(*at).checked_sub(offset).filter(|start| *start < window.end) else {
                break;
            };
            if *budget == 0 {
                places.is_cut = true;
                break;
            }
            *budget -= 1;
            if self.stands_at(needle, start) {
                places.starts.push(start);
                if places.starts.len() == limit {
                    break;
                }
            }
        }
        places
    }

    /// The places of a number.
    fn positions_of(&self, id: u32) -> &[u32] {
        let id = widen(id);
        let range = self.starts.get(id).zip(self.starts.get(id + 1));
        range.map_or(&[], |(start, end)| peek(&self.positions, *start..*end))
    }
}

/// An index from the narrow form that saves memory.
fn widen(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// Sorts the places of `count` numbers by number, in one pass over them.
fn places_by_id(ids: &[u32], count: usize) -> (Vec<usize>, Vec<u32>) {
    let mut starts = vec![0_usize; count + 1];
    for id in ids {
        if let Some(next) = starts.get_mut(widen(*id) + 1) {
            *next += 1;
        }
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut free = starts.clone();
    let mut positions = vec![0; ids.len()];
    for (at, id) in (0_u32..).zip(ids) {
        if let Some(slot) = free.get_mut(widen(*id)) {
            if let Some(position) = positions.get_mut(*slot) {
                *position = at;
            }
            *slot += 1;
        }
    }
    (starts, positions)
}

#[cfg(test)]
mod tests {
    use super::super::lines::lines;
    use super::*;

    #[test]
    fn places_are_found_in_order_and_within_the_window() {
        let lines = lines(b"a\nb\na\nb\nc\na\nb\n");
        let index = Index::new(&lines, Tier::Exact);
        let needle = index.needle(&[b"a", b"b"]).unwrap();
        let find = |window: Range<usize>, limit| index.places(&needle, &window, limit, &mut 100).starts;
        assert_eq!(find(0..7, 9), [0, 2, 5]);
        assert_eq!(find(1..5, 9), [2]);
        assert_eq!(find(0..7, 2), [0, 2]);
        assert!(index.places(&needle, &(0..7), 9, &mut 1).is_cut);
        assert!(index.needle(&[b"z"]).is_none());
    }

    #[test]
    fn tiers_forgive_more_and_more() {
        let same = |tier: Tier, one: &str, two: &str| tier.key(one.as_bytes()) == tier.key(two.as_bytes());
        assert!(!same(Tier::Exact, "a ", "a"));
        assert!(same(Tier::TrailingSpace, "a \t", "a"));
        assert!(!same(Tier::TrailingSpace, " a", "a"));
        assert!(same(Tier::Space, "\ta ", "a"));
        assert!(same(Tier::Typography, "\u{201c}a\u{201d}\u{a0}\u{2014} b\u{2019}s", " \"a\" - b's"));
        assert_eq!(&*Tier::Typography.key(b"\xff\xe2\x80\x94"), b"\xff-");
    }
}
