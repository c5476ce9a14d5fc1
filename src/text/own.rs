//! A change apart from those that others made of the same text in between.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::DiffOp;

use super::{lines, myers};

/// Longest time for one comparison; what is then still open counts as changed.
const TIME_MAX: Duration = Duration::from_millis(500);

/// Some lines of a text, and what another has in their place.
struct Piece {
    /// The lines of the one.
    old: Range<usize>,
    /// Those of the other.
    new: Range<usize>,
}

/// What `theirs` would be without the change that made `mine` of `base`: that change is taken back
/// wherever others left its lines as they were. Where they changed them, theirs counts.
#[must_use]
pub fn carried(base: &[u8], mine: &[u8], theirs: &[u8]) -> Vec<u8> {
    let split = |text| lines::all(text);
    let (base, mine, theirs) = (split(base), split(mine), split(theirs));
    let (taken_back, others) = (pieces(&mine, &base), pieces(&mine, &theirs));
    let mut carried: Vec<&[u8]> = Vec::new();
    let (mut taken_back, mut others) = (taken_back.iter().peekable(), others.iter().peekable());
    let mut at = 0;
    loop {
        // What others changed first ends before what is taken back begins, or reaches into it.
        let own = match (taken_back.peek(), others.peek()) {
            (None, None) => break,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(own), Some(other)) if meet(&own.old, &other.old) => {
                taken_back.next();
                continue;
            }
            (Some(own), Some(other)) => (own.old.start, own.old.end) <= (other.old.start, other.old.end),
        };
        let (next, text) = if own { (taken_back.next(), &base) } else { (others.next(), &theirs) };
        let Some(piece) = next else { break };
        if piece.old.start < at {
            // It reached into another that was kept.
            continue;
        }
        carried.extend(mine.get(at..piece.old.start).into_iter().flatten());
        carried.extend(text.get(piece.new.clone()).into_iter().flatten());
        at = piece.old.end;
    }
    carried.extend(mine.get(at..).into_iter().flatten());
    carried.concat()
}

/// Whether two changes of one text touch the same lines, or insert at the same place.
fn meet(one: &Range<usize>, other: &Range<usize>) -> bool {
    one == other || (one.start < other.end && other.start < one.end)
}

/// Where two texts differ, in order.
fn pieces(old: &[&[u8]], new: &[&[u8]]) -> Vec<Piece> {
    let until = Instant::now() + TIME_MAX;
    myers::of_lines(old, new, Some(until))
        .iter()
        .filter(|op| !matches!(op, DiffOp::Equal { .. }))
        .map(|op| Piece { old: op.old_range(), new: op.new_range() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_changes_stay_and_ones_own_are_taken_back() {
        for (base, mine, theirs, wanted) in [
            ("1\n2\n3\n4\n", "1\nB\n3\n4\n", "1\nB\n3\nD\n", "1\n2\n3\nD\n"),
            ("1\n2\n3\n", "1\nB\n3\n", "1\nB\n3\n", "1\n2\n3\n"),
            // Lines that others changed again are theirs.
            ("1\n2\n3\n", "1\nB\n3\n", "1\nC\n3\n", "1\nC\n3\n"),
            ("1\n2\n3\n", "1\nB\n3\n", "1\n2\n3\n", "1\n2\n3\n"),
            ("1\n3\n", "1\n2\n3\n", "0\n1\n2\n3\n4\n", "0\n1\n3\n4\n"),
            ("1\n2\n3\n", "1\n3\n", "1\n3\n4\n", "1\n2\n3\n4\n"),
            ("", "1\n2\n", "1\n2\n3\n", "3\n"),
            ("1\n2\n", "", "", "1\n2\n"),
        ] {
            let found = carried(base.as_bytes(), mine.as_bytes(), theirs.as_bytes());
            assert_eq!(String::from_utf8(found).unwrap(), wanted, "{base:?} {mine:?} {theirs:?}");
        }
    }
}
