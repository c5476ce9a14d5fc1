//! Changes of a text that have the same result one by one, each on the result of the one before, and all at once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use aho_corasick::AhoCorasick;

use super::checked::slice_or_empty;
use crate::limits::{SOUGHT_BYTES_MAX, SOUGHT_PER_BYTE_MAX};

/// Takes the changes of a run together if `take` can, else by halves; `take` never fails to take a single one. Runs
/// shorter than `together_min` are taken one by one: to see whether they can be taken together would be slower.
///
/// # Errors
/// Fails as `take` does.
pub fn by_halves<E>(
    run: Range<usize>,
    together_min: usize,
    take: &mut impl FnMut(Range<usize>) -> Result<bool, E>,
) -> Result<(), E> {
    if run.len() < together_min {
        return run.into_iter().try_for_each(|one| take(one..one + 1).map(drop));
    }
    if take(run.clone())? {
        return Ok(());
    }
    let middle = run.start + run.len() / 2;
    by_halves(run.start..middle, together_min, take)?;
    by_halves(middle..run.end, together_min, take)
}

/// Old text of a change.
pub enum OldText<'a> {
    /// These bytes.
    Text(&'a [u8]),
    /// Whole lines at this place.
    Lines(Range<usize>),
}

/// Occurrences of a part of a line.
#[derive(Clone, Copy)]
struct PartOccurrences {
    /// Number in the text; they may overlap.
    count: usize,
    /// Start of the last.
    last: usize,
    /// First change after which it is in the changed lines.
    made_by: usize,
}

/// Returns the place of each change if the changes are independent. The lines of all texts end in LF.
///
/// They are if no two share a line, and if each old text has a part of a line that is once in the text and in no line
/// of an earlier change. Then the old text is at its place alone whatever changes came before.
///
///   text          old      new         line after it
///   a1 = b1       a1       a2          a2 = b1
///   c1 = d1       c1       a1          a1 = d1      in the other order, `a1` would be there twice
pub fn places(text: &[u8], changes: &[(OldText<'_>, Cow<'_, [u8]>)]) -> Option<Vec<Range<usize>>> {
    let mut ids: HashMap<&[u8], usize> = HashMap::new();
    let mut sought: Vec<&[u8]> = Vec::new();
    for (_, part) in changes.iter().flat_map(|(old, _)| parts(old)) {
        ids.entry(part).or_insert_with(|| {
            sought.push(part);
            sought.len() - 1
        });
    }
    if sought.iter().map(|part| part.len()).sum::<usize>() > SOUGHT_BYTES_MAX {
        return None;
    }
    let finder = AhoCorasick::new(&sought).ok()?;
    let mut found = vec![PartOccurrences { count: 0, last: 0, made_by: usize::MAX }; sought.len()];
    for (number, place) in finder.find_overlapping_iter(text).enumerate() {
        if number / SOUGHT_PER_BYTE_MAX > text.len() {
            return None;
        }
        let part = found.get_mut(place.pattern().as_usize())?;
        (part.count, part.last) = (part.count + 1, place.start());
    }
    let place = |(old, _): &(OldText<'_>, Cow<'_, [u8]>)| match old {
        OldText::Lines(place) => Some(place.clone()),
        OldText::Text(sought) => {
            let all = parts(old).filter_map(|(offset, part)| Some((offset, found.get(*ids.get(part)?)?)));
            let (offset, only) = all.into_iter().find(|(_, part)| part.count == 1)?;
            let start = only.last.checked_sub(offset)?;
            let place = start..start + sought.len();
            (text.get(place.clone()) == Some(*sought)).then_some(place)
        }
    };
    let places: Vec<Range<usize>> = changes.iter().map(place).collect::<Option<_>>()?;
    let mut changed = Vec::with_capacity(places.len());
    for (index, (place, (_, new))) in places.iter().zip(changes).enumerate() {
        let (lines, now) = changed_lines(text, place, new);
        changed.push(lines);
        for made in finder.find_overlapping_iter(&now) {
            let part = found.get_mut(made.pattern().as_usize())?;
            part.made_by = part.made_by.min(index);
        }
    }
    changed.sort_unstable_by_key(|lines| lines.start);
    let is_alone = |(index, (old, _)): (usize, &(OldText<'_>, Cow<'_, [u8]>))| {
        let mut all = parts(old).filter_map(|(_, part)| found.get(*ids.get(part)?));
        matches!(old, OldText::Lines(_)) || all.any(|part| part.count == 1 && part.made_by >= index)
    };
    let are_independent =
        changed.is_sorted_by(|one, next| one.end <= next.start) && changes.iter().enumerate().all(is_alone);
    are_independent.then_some(places)
}

/// Returns the parts of an old text that lie in one line each, with their offsets.
fn parts<'a>(old: &OldText<'a>) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
    let text: &[u8] = match old {
        OldText::Text(text) => text,
        OldText::Lines(_) => b"",
    };
    let mut end = 0;
    text.split(|&byte| byte == b'\n')
        .map(move |part| {
            let start = end;
            end += part.len() + 1;
            (start, part)
        })
        .filter(|(_, part)| !part.is_empty())
}

/// Returns the lines of `text` that `new` at `place` changes, and the lines that they become.
fn changed_lines(text: &[u8], place: &Range<usize>, new: &[u8]) -> (Range<usize>, Vec<u8>) {
    let before = slice_or_empty(text, ..place.start);
    let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    let mut now = [slice_or_empty(before, start..), new].concat();
    let begins_line = |text: &[u8]| text.last().is_none_or(|&last| last == b'\n');
    let after = slice_or_empty(text, place.end..);
    // Lines that are replaced by lines leave the next one alone.
    let same = if begins_line(&now) && begins_line(slice_or_empty(text, ..place.end)) {
        0
    } else {
        memchr::memchr(b'\n', after).map_or(after.len(), |at| at + 1)
    };
    now.extend_from_slice(slice_or_empty(after, ..same));
    (start..place.end + same, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::text::replace;

    #[test]
    fn independent_changes_have_the_same_places_one_by_one() {
        let mut numbers = Random::new(7);
        let mut random = |below| numbers.below(below);
        let mut counts = [0, 0];
        for _ in 0..40_000 {
            let letters = [2, 9][random(2)];
            let mut word = |below| -> Vec<u8> {
                let length = random(below);
                (0..length).map(|_| b"\nabcdefghi"[random(1 + letters)]).collect()
            };
            let text = [word(30), word(30), word(30)].concat();
            let news: Vec<Vec<u8>> = (0..3).map(|_| word(4)).collect();
            let mut changes = Vec::new();
            for new in &news {
                let (start, length) = (random(text.len().max(1)), 1 + random(5));
                let end = (start + length).min(text.len());
                let is_lines = (start == 0 || text[start - 1] == b'\n') && text[start..end].ends_with(b"\n");
                changes.push(match random(3) {
                    0 if is_lines => (OldText::Lines(start..end), Cow::Owned([new, &b"\n"[..]].concat())),
                    _ => (OldText::Text(&text[start..end]), Cow::Borrowed(new.as_slice())),
                });
            }
            let found = places(&text, &changes);
            counts[usize::from(found.is_some())] += 1;
            let Some(places) = found else { continue };
            let (mut now, mut done) = (text.clone(), Vec::new());
            for ((old, new), place) in changes.iter().zip(&places) {
                let moved_by = |(end, by): &(usize, isize)| if *end <= place.start { *by } else { 0 };
                let start = place.start.strict_add_signed(done.iter().map(moved_by).sum());
                let range = start..start + place.len();
                assert_eq!(now[range.clone()], text[place.clone()]);
                if let OldText::Text(old) = old {
                    let found = replace::places(&now, old, false);
                    assert_eq!(found, std::slice::from_ref(&range), "{text:?} {old:?}");
                }
                now.splice(range, new.iter().copied());
                done.push((place.end, new.len().cast_signed() - place.len().cast_signed()));
            }
        }
        assert!(counts.iter().all(|count| *count > 500), "{counts:?}");
    }

    #[test]
    fn change_is_not_independent_of_one_that_makes_its_old_text() {
        let change = |old: &'static str, new: &'static str| {
            (OldText::Text(old.as_bytes()), Cow::Borrowed(new.as_bytes()))
        };
        let text = b"a1 = b1\nc1 = d1\nx\n";
        let of = |changes: &[_]| places(text, changes);
        assert_eq!(of(&[change("a1", "a2"), change("c1", "a1")]), Some(vec![0..2, 8..10]));
        assert_eq!(of(&[change("c1", "a1"), change("a1", "a2")]), None);
        assert_eq!(of(&[change("a1", "a1 + a1"), change("c1", "c2")]), Some(vec![0..2, 8..10]));
        assert_eq!(of(&[change("a1", "a2"), change("b1", "b2")]), None);
        assert_eq!(of(&[change("b1\n", "b2\n"), change("c1 = d1\nx\n", "")]), Some(vec![5..8, 8..18]));
        assert_eq!(of(&[change("b1\n", "b2"), change("c1", "c2")]), None);
        assert_eq!(of(&[change(" = ", ": ")]), None);
        assert_eq!(of(&[change("z", "y")]), None);
    }
}
