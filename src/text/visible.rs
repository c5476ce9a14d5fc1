//! Text whose blanks and look-alikes can be seen.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::text::checked::peek_str;

/// Stands for a tab.
const TAB: &str = "→";
/// Stands for a blank at the end of a line.
const TRAILING_BLANK: &str = "·";
/// Stands for a carriage return.
const CARRIAGE_RETURN: &str = "␍";

/// Characters of a path that a warning names whole.
const PATH_CHARACTERS_MAX: usize = 120;

/// Characters that are easily mistaken for ASCII and are neither blank nor control.
const LOOK_ALIKES: [char; 16] = [
    '\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2015}', '\u{2018}', '\u{2019}',
    '\u{201a}', '\u{201c}', '\u{201d}', '\u{201e}', '\u{2026}', '\u{2032}', '\u{2212}', '\u{00b4}',
];

/// A line, with its ending, as it can be seen.
///
/// A tab is `→`, a blank before the line's end `·`, a carriage return `␍`; no-break and other odd
/// blanks, invisible and control characters, typographic quotes and dashes are their number, such as
/// `‹U+00A0›`, and bytes that are no UTF-8 theirs, such as `‹0xE9›`. The line feed stays.
#[must_use]
pub fn line(line: &[u8]) -> String {
    marked(line, |character| is_unseen(character) || LOOK_ALIKES.contains(&character))
}

/// The same, but characters that are seen and look like others stay as they are.
#[must_use]
pub fn blanks(line: &[u8]) -> String {
    marked(line, is_unseen)
}

/// A line of a program's output in which a terminal finds no orders: control characters, save for
/// tabs and the line's ending, and those that change the direction of text are their number.
#[must_use]
pub fn controls(line: &str) -> String {
    let body = line.trim_end_matches(['\r', '\n']);
    let ending = peek_str(line, body.len()..);
    let mut seen = String::with_capacity(line.len());
    for character in body.chars() {
        let is_direction = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if character != '\t' && (character.is_control() || is_direction) {
            let _ = write!(seen, "‹U+{:04X}›", u32::from(character));
        } else {
            seen.push(character);
        }
    }
    seen.push_str(ending);
    seen
}

/// A path as a warning names it in passing: of a very long one its start and its end.
#[must_use]
pub fn short_path(path: &str) -> Cow<'_, str> {
    let length = path.chars().count();
    if length <= PATH_CHARACTERS_MAX {
        return Cow::Borrowed(path);
    }
    let kept = PATH_CHARACTERS_MAX / 2;
    let start = path.chars().take(kept);
    let end = path.chars().skip(length - kept + 1);
    Cow::Owned(start.chain(std::iter::once('…')).chain(end).collect())
}

/// A line with its blanks, and the characters that are odd, marked.
fn marked(line: &[u8], is_odd: impl Fn(char) -> bool) -> String {
    let body = line.strip_suffix(b"\n").unwrap_or(line);
    // Where CR alone ends the lines, they are still to be seen as lines.
    let feed = if line.ends_with(b"\n") || line.ends_with(b"\r") { "\n" } else { "" };
    let without_cr = body.strip_suffix(b"\r").unwrap_or(body);
    let kept =
        without_cr.len() - without_cr.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let (text, blanks) = body.split_at(kept);
    let mut seen = String::with_capacity(line.len() + 8);
    for chunk in text.utf8_chunks() {
        chunk.valid().chars().for_each(|character| show(character, is_odd(character), &mut seen));
        for byte in chunk.invalid() {
            // Writing into a text cannot fail.
            let _ = write!(seen, "‹0x{byte:02X}›");
        }
    }
    for blank in blanks {
        match blank {
            b' ' => seen.push_str(TRAILING_BLANK),
            b'\t' => seen.push_str(TAB),
            _ => seen.push_str(CARRIAGE_RETURN),
        }
    }
    seen.push_str(feed);
    seen
}

/// Shows one character.
fn show(character: char, is_odd: bool, seen: &mut String) {
    match character {
        '\t' => seen.push_str(TAB),
        '\r' => seen.push_str(CARRIAGE_RETURN),
        ' ' => seen.push(' '),
        odd if is_odd => {
            let _ = write!(seen, "‹U+{:04X}›", u32::from(odd));
        }
        plain => seen.push(plain),
    }
}

/// Whether a character is not seen, or not for the blank that it is.
fn is_unseen(character: char) -> bool {
    let is_format = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}'
    );
    character.is_control() || character.is_whitespace() || is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_very_long_path_the_middle_is_left_out() {
        let whole = "ä/".repeat(60);
        assert_eq!(short_path(&whole), whole);
        let longer = format!("start/{whole}end");
        let short = short_path(&longer);
        assert_eq!(short.chars().count(), 120);
        assert!(short.starts_with("start/ä/") && short.ends_with("/ä/end") && short.contains('…'), "{short}");
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        for (text, seen) in [
            (&b"\ta b \t\r\n"[..], "→a b·→␍\n"),
            (b"a\rb\n", "a␍b\n"),
            (b"a\r", "a␍\n"),
            (b"plain\n", "plain\n"),
            (b"  \n", "··\n"),
            (b"", ""),
            ("a\u{a0}b\u{200b}\u{2019}\u{feff}".as_bytes(), "a‹U+00A0›b‹U+200B›‹U+2019›‹U+FEFF›"),
            ("ä\u{2028}\u{202e}€😀".as_bytes(), "ä‹U+2028›‹U+202E›€😀"),
            (b"caf\xe9\x00\x1b[0m", "caf‹0xE9›‹U+0000›‹U+001B›[0m"),
        ] {
            assert_eq!(line(text), seen, "{text:?}");
        }
    }
}
