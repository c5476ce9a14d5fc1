//! What a new text brings that its writer may not have meant: characters that nobody types, and other line
//! endings than its file had.

use super::lines::LineEnding;

/// A character that nobody types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OddCharacter {
    /// The character.
    pub character: char,
    /// Its first line, from 1.
    pub line: usize,
}

/// The characters that nobody types and that `new` has and `old` lacks, each with its first line; at most
/// `count_max`.
#[must_use]
pub fn characters(old: &[u8], new: &[u8], count_max: usize) -> Vec<OddCharacter> {
    let mut found: Vec<OddCharacter> = Vec::new();
    // Nearly every text is plain, and that takes one look at its bytes.
    if !new.iter().any(|byte| *byte >= 0x80 || is_odd(char::from(*byte))) {
        return found;
    }
    let mut line = 1;
    let chunks = new.utf8_chunks();
    for character in chunks.flat_map(|chunk| chunk.valid().chars()) {
        if is_odd(character) && found.iter().all(|known| known.character != character) && !has(old, character)
        {
            found.push(OddCharacter { character, line });
        }
        line += usize::from(character == '\n');
        if found.len() == count_max {
            break;
        }
    }
    found
}

/// Whether a text has a character.
fn has(text: &[u8], character: char) -> bool {
    let mut bytes = [0; 4];
    memchr::memmem::find(text, character.encode_utf8(&mut bytes).as_bytes()).is_some()
}

/// Whether nobody types a character: controls other than tab, line feed, form feed and carriage return, and characters
/// that have no width or change the direction of text.
const fn is_odd(character: char) -> bool {
    matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}')
        || matches!(character, '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What is to be said of the line endings of a new text, after the name of its file.
#[must_use]
pub fn line_endings(old: Option<&[u8]>, new: &[u8]) -> Option<&'static str> {
    let first = new.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_script = |text: &[u8]| text.starts_with(b"#!");
    if is_script(first) && first.ends_with(b"\r\n") && !old.is_some_and(|old| old.starts_with(first)) {
        return Some("begins with a `#!` line that ends in CR, so the system does not find its interpreter");
    }
    let was_lf = LineEnding::of(old?) == LineEnding::Lf;
    (was_lf && LineEnding::of(new) == LineEnding::Crlf).then_some("had LF line endings and now has CRLF")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_named_once_and_only_where_it_is_new() {
        let found = |old: &str, new: &str| {
            let all = characters(old.as_bytes(), new.as_bytes(), 9).into_iter();
            all.map(|odd| (odd.character, odd.line)).collect::<Vec<_>>()
        };
        assert_eq!(found("", "a\tb\r\nä 新 é\u{a0}\u{200d}\n"), []);
        assert_eq!(found("", "a\n\0\u{1b}\n\0"), [('\0', 2), ('\u{1b}', 2)]);
        assert_eq!(found("x\u{200b}", "\u{200b}\u{202e}"), [('\u{202e}', 1)]);
        assert_eq!(characters(b"", b"\0\x01\x02", 2).len(), 2);
    }

    #[test]
    fn other_line_endings_are_told() {
        for (old, new, is_told) in [
            (Some("a\nb\n"), "a\r\nb\r\n", true),
            (Some("a\nb\n"), "a\r\nb\n", false),
            (Some("a\r\n"), "b\r\n", false),
            (None, "b\r\n", false),
            (None, "#!/bin/sh\r\n", true),
            (Some("#!/bin/sh\r\na\r\n"), "#!/bin/sh\r\nb\r\n", false),
            (Some(""), "b\r\n", false),
        ] {
            let told = line_endings(old.map(str::as_bytes), new.as_bytes());
            assert_eq!(told.is_some(), is_told, "{old:?} {new:?}");
        }
    }
}
