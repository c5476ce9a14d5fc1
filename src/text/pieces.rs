//! A text under many replacements: pieces of the old one between new ones, none of it copied before
//! the end.

use std::ops::Range;

use super::checked::{Fault, item, peek, slice};

/// A part of the text.
#[derive(Debug, Clone, Copy)]
struct Piece<'a> {
    /// Its bytes.
    text: &'a [u8],
    /// Where it begins in the text as it is now.
    start: usize,
    /// Where it began in the old text, or the first byte that it replaces.
    origin: usize,
    /// Whether it is of the old text.
    is_old: bool,
}

impl Piece<'_> {
    /// Where it ends in the text as it is now.
    const fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The text.
#[derive(Debug)]
pub struct Pieces<'a> {
    /// Its parts in order.
    pieces: Vec<Piece<'a>>,
    /// Its length.
    length: usize,
}

impl<'a> Pieces<'a> {
    /// A text in which nothing is replaced.
    #[must_use]
    pub fn of(text: &'a [u8]) -> Self {
        Self { pieces: vec![Piece { text, start: 0, origin: 0, is_old: true }], length: text.len() }
    }

    /// Its length.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Puts `new` in the place of a range of the text as it is now, which is not empty.
    ///
    /// # Errors
    /// Where the range lies outside.
    pub fn replace(&mut self, place: &Range<usize>, new: &'a [u8]) -> Result<(), Fault> {
        let first = self.pieces.partition_point(|piece| piece.end() <= place.start);
        let last = self.pieces.partition_point(|piece| piece.start < place.end);
        let (head, tail) = (*item(&self.pieces, first)?, *item(&self.pieces, last.wrapping_sub(1))?);
        if place.is_empty() || place.end > self.length || last <= first {
            return Err(Fault::OutOfRange);
        }
        let kept_head = Piece { text: slice(head.text, ..place.start - head.start)?, ..head };
        let origin = if head.is_old { head.origin + kept_head.text.len() } else { head.origin };
        let put = Piece { text: new, start: place.start, origin, is_old: false };
        let cut = place.end - tail.start;
        let kept_tail = Piece {
            text: slice(tail.text, cut..)?,
            start: put.end(),
            origin: if tail.is_old { tail.origin + cut } else { tail.origin },
            is_old: tail.is_old,
        };
        let parts = [kept_head, put, kept_tail];
        let is_put = |at: usize, piece: &Piece<'_>| at == 1 || !piece.text.is_empty();
        let parts =
            parts.into_iter().enumerate().filter(|(at, piece)| is_put(*at, piece)).map(|(_, piece)| piece);
        let count = parts.clone().count();
        self.pieces.splice(first..last, parts);
        for piece in self.pieces.iter_mut().skip(first + count) {
            piece.start = piece.start - place.len() + new.len();
        }
        self.length = self.length - place.len() + new.len();
        Ok(())
    }

    /// Where a range of the old text begins now; `None` where some of it was replaced.
    #[must_use]
    pub fn place_of(&self, old: &Range<usize>) -> Option<usize> {
        let at = self.pieces.partition_point(|piece| piece.origin <= old.start);
        let piece = self.pieces.get(at.checked_sub(1)?)?;
        let offset = old.start - piece.origin;
        (piece.is_old && offset + old.len() <= piece.text.len()).then_some(piece.start + offset)
    }

    /// The bytes of a range, or as many of them as there are.
    #[must_use]
    pub fn window(&self, range: &Range<usize>) -> Vec<u8> {
        let first = self.pieces.partition_point(|piece| piece.end() <= range.start);
        let mut window = Vec::with_capacity(range.len());
        for piece in self.pieces.iter().skip(first).take_while(|piece| piece.start < range.end) {
            let from = range.start.saturating_sub(piece.start);
            let to = piece.text.len().min(range.end - piece.start);
            window.extend_from_slice(peek(piece.text, from..to));
        }
        window
    }

    /// All of it.
    #[must_use]
    pub fn whole(&self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.length);
        self.pieces.iter().for_each(|piece| whole.extend_from_slice(piece.text));
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_those_of_a_text() {
        let mut seed = 0x9e37_79b9_u64;
        let mut random = move |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed % below as u64).unwrap()
        };
        for _ in 0..500 {
            let old: Vec<u8> = (0..=random(40)).map(|at| u8::try_from(at).unwrap()).collect();
            let (mut pieces, mut text) = (Pieces::of(&old), old.clone());
            for _ in 0..random(12) {
                if text.is_empty() {
                    break;
                }
                let start = random(text.len());
                let place = start..start + 1 + random(text.len() - start);
                let new: &[u8] = [&b""[..], b"x", b"yyyyyy"][random(3)];
                pieces.replace(&place, new).unwrap();
                text.splice(place, new.iter().copied());
                assert_eq!((pieces.whole(), pieces.len()), (text.clone(), text.len()));
                let start = random(text.len() + 1);
                let range = start..start + random(10);
                assert_eq!(pieces.window(&range), text[start..range.end.min(text.len())]);
            }
            // The bytes of the old text are all different, and the new ones are none of them.
            for start in 0..old.len() {
                let range = start..old.len().min(start + 1 + random(4));
                let found = text.windows(range.len()).position(|part| *part == old[range.clone()]);
                assert_eq!(pieces.place_of(&range), found, "{old:?} {text:?} {range:?}");
            }
        }
        assert_eq!(Pieces::of(b"ab").replace(&(1..3), b""), Err(Fault::OutOfRange));
    }
}
