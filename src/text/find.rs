//! All occurrences of one text in another, in linear time for any input.

use memchr::memmem::Finder;

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
