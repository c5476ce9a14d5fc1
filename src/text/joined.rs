//! Pieces of text, joined.

use std::borrow::Cow;
use std::thread;

use crate::apart::Apart;
use crate::buffer::Buffer;

/// Smaller texts are joined before a thread has begun.
const LARGE_BYTES: usize = 4 << 20;

/// The pieces as one text. A large one is filled from its start and from its middle at once: most of
/// the time goes into the pages that the kernel hands out on the first write to each.
#[must_use]
pub fn joined(pieces: &[Cow<'_, [u8]>]) -> Buffer {
    let length = pieces.iter().map(|piece| piece.len()).sum();
    if length < LARGE_BYTES {
        return pieces.concat().into();
    }
    let mut text = Buffer::zeroed(length);
    let (first, second) = text.split_at_mut(length / 2);
    let skipped = first.len();
    let apart = Apart::from_here();
    let has_thread = thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, || {
            apart.go();
            fill(second, pieces, skipped);
        });
        fill(first, pieces, 0);
        thread.is_ok()
    });
    if has_thread { text } else { pieces.concat().into() }
}

/// Fills `text` with what the pieces have after the first `skipped` bytes.
fn fill(mut text: &mut [u8], pieces: &[Cow<'_, [u8]>], mut skipped: usize) {
    for piece in pieces {
        let (_, rest) = piece.split_at(skipped.min(piece.len()));
        skipped = skipped.saturating_sub(piece.len());
        let (rest, _) = rest.split_at(rest.len().min(text.len()));
        let (filled, unfilled) = text.split_at_mut(rest.len());
        filled.copy_from_slice(rest);
        text = unfilled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_text_is_that_of_its_pieces() {
        // Its period is prime, so that no piece can take another's place.
        let bytes: Vec<u8> = (0..251).cycle().take(2 * LARGE_BYTES).collect();
        for cuts in
            [vec![], vec![1], vec![LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 7], vec![LARGE_BYTES; 3]]
        {
            let mut pieces = Vec::new();
            let mut at = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                pieces.push(Cow::Borrowed(&bytes[at..cut]));
                at = cut;
            }
            assert!(*joined(&pieces) == *bytes);
        }
        assert_eq!(*joined(&[]), *b"");
    }
}
