//! Typographic quotes, dashes and spaces against those of a keyboard.

use std::ops::Range;

use super::Work;
use super::place::{MatchedLines, NewLine, PLACES_MAX, Unfit, compose};

/// Where `old` stands but for such characters.
pub fn places(text: &[u8], old: &[u8], work: &Work) -> Vec<MatchedLines> {
    let Some(fragment) = longest_plain(old) else {
        return Vec::new();
    };
    let needle = super::place::at(old, &fragment);
    let place = |hit: usize| {
        let (before, after) = (old.get(..fragment.start)?, old.get(fragment.end..)?);
        let start = matched_before(text, hit, before, work)?;
        let end = matched_after(text, hit + needle.len(), after, work)?;
        let lines = text.get(start..end)?.split_inclusive(|&byte| byte == b'\n');
        let ranges = lines.scan(start, |at, line| {
            let range = *at..*at + line.len();
            *at = range.end;
            Some(range)
        });
        MatchedLines::of(ranges.collect())
    };
    memchr::memmem::find_iter(text, needle).filter_map(place).take(PLACES_MAX).collect()
}

/// `new` with the file's own characters in all that the edit keeps: whole lines, and in a changed
/// line what stands before and after the change.
///
/// # Errors
/// Where the place is none of the text.
pub fn new_text(text: &[u8], place: &MatchedLines, old: &[u8], new: &[u8]) -> Result<Vec<u8>, Unfit> {
    compose(text, place, old, new, |line: &NewLine<'_>| Ok(rewritten(line)))
}

/// A changed line with the file's characters before and after the change.
fn rewritten(line: &NewLine<'_>) -> Vec<u8> {
    let given = || line.text.to_vec();
    let Some((old, found)) = line.replaces else { return given() };
    let (Ok(old), Ok(new)) = (std::str::from_utf8(old), std::str::from_utf8(line.text)) else {
        return given();
    };
    let Ok(found) = std::str::from_utf8(found) else { return given() };
    let (old, new, found): (Vec<char>, Vec<char>, Vec<char>) =
        (old.chars().collect(), new.chars().collect(), found.chars().collect());
    if old.len() != found.len() {
        return given();
    }
    let head = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let rest = (old.len() - head).min(new.len() - head);
    let tail =
        old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
    let kept_head = found.iter().take(head);
    let changed = new.iter().take(new.len() - tail).skip(head);
    let kept_tail = found.iter().skip(found.len() - tail);
    kept_head.chain(changed).chain(kept_tail).collect::<String>().into_bytes()
}

/// What a character is on a keyboard; `None` where it is nothing but itself.
pub(in crate::text) const fn on_keyboard(character: char) -> Option<char> {
    Some(match character {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        _ => return None,
    })
}

/// Whether a character of the text looked for may be another one in the file.
fn may_differ(character: char) -> bool {
    matches!(character, '\'' | '"' | '-' | ' ') || on_keyboard(character).is_some()
}

/// The longest part in which no character may be another one.
fn longest_plain(old: &[u8]) -> Option<Range<usize>> {
    let text = std::str::from_utf8(old).ok()?;
    let parts = text.split(may_differ).filter(|part| !part.is_empty());
    let longest = parts.max_by_key(|part| part.len())?;
    let start = longest.as_ptr().addr() - text.as_ptr().addr();
    Some(start..start + longest.len())
}

/// Whether two characters are the same but for typography.
fn same(one: char, other: char) -> bool {
    one == other || on_keyboard(one).unwrap_or(one) == on_keyboard(other).unwrap_or(other)
}

/// Where `wanted` begins, if it stands right before `end`.
fn matched_before(text: &[u8], end: usize, wanted: &[u8], work: &Work) -> Option<usize> {
    let wanted = std::str::from_utf8(wanted).ok()?;
    let mut start = end;
    for character in wanted.chars().rev() {
        let begin = (1..=4)
            .filter_map(|length| start.checked_sub(length))
            .find(|&begin| text.get(begin).is_some_and(|&byte| byte & 0xc0 != 0x80))?;
        let found = std::str::from_utf8(text.get(begin..start)?).ok()?.chars().next()?;
        work.line(b"")?;
        same(character, found).then_some(())?;
        start = begin;
    }
    Some(start)
}

/// Where `wanted` ends, if it stands right at `start`.
fn matched_after(text: &[u8], start: usize, wanted: &[u8], work: &Work) -> Option<usize> {
    let wanted = std::str::from_utf8(wanted).ok()?;
    let mut end = start;
    for character in wanted.chars() {
        let ahead = text.get(end..text.len().min(end + 4))?;
        let found = ahead.utf8_chunks().next()?.valid().chars().next()?;
        work.line(b"")?;
        same(character, found).then_some(())?;
        end += found.len_utf8();
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_own_characters_stay_where_the_edit_keeps_them() {
        for (text, old, new, after) in [
            (
                "It’s a “test” of\u{a0}it\n",
                "a \"test\" of it",
                "a \"trial\" of it",
                "It’s a “trial” of\u{a0}it\n",
            ),
            ("a — b\nc’d\n", "a - b\nc'd\n", "a - b\nc'e\n", "a — b\nc’e\n"),
            ("x = 'a'\n", "x = ‘a’", "x = ‘b’", "x = 'b'\n"),
        ] {
            let found = places(text.as_bytes(), old.as_bytes(), &Work::new());
            let [place] = found.as_slice() else { panic!("{text:?} {old:?}: {found:?}") };
            let fitted = new_text(text.as_bytes(), place, old.as_bytes(), new.as_bytes()).unwrap();
            let mut changed = text.as_bytes().to_vec();
            changed.splice(place.range.clone(), fitted);
            assert_eq!(String::from_utf8(changed).unwrap(), after);
        }
        assert_eq!(places("“a” „a”\n".as_bytes(), b"\"a\"", &Work::new()).len(), 2);
        assert_eq!(places(b"a\xffb", "a”b".as_bytes(), &Work::new()), []);
    }
}
