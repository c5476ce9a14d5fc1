//! Names and messages as people see them: no name may speak to their terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character does something to a terminal or to the order of what it shows, instead of being
/// shown: controls, line separators, and the marks that turn the direction of text.
#[must_use]
pub fn is_active(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name as it is; or, if it holds an active character, in double quotes with the escapes of git and C.
#[must_use]
pub fn name(name: &str) -> Cow<'_, str> {
    if !name.contains(is_active) {
        return Cow::Borrowed(name);
    }
    let mut quoted = String::from("\"");
    for character in name.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        push(character, &mut quoted);
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

/// A message on one line, with its active characters escaped in place.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_active)
}

/// The same for a text of several lines.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| is_active(character) && !matches!(character, '\n' | '\t'))
}

/// A text with some of its characters escaped.
fn escaped(text: &str, is_odd: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_odd) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_odd(character) { push(character, &mut safe) } else { safe.push(character) }
    }
    Cow::Owned(safe)
}

/// Adds a character, escaped if it is active: by its letter, else by the octal numbers of its bytes.
fn push(character: char, out: &mut String) {
    let letter = match character {
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        _ if is_active(character) => {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                // Writing into a text cannot fail.
                let _ = write!(out, "\\{byte:03o}");
            }
            return;
        }
        _ => return out.push(character),
    };
    out.extend(['\\', letter]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_active_is_escaped_and_nothing_else() {
        for (text, as_name, as_line) in [
            ("src/a b.rs", "src/a b.rs", "src/a b.rs"),
            ("h\u{e9}llo \"x\"\\", "h\u{e9}llo \"x\"\\", "h\u{e9}llo \"x\"\\"),
            ("a\u{1b}[31mb", r#""a\033[31mb""#, r"a\033[31mb"),
            ("a\nb\t\"\\", r#""a\nb\t\"\\""#, r#"a\nb\t"\"#),
            ("a\u{9b}b", r#""a\302\233b""#, r"a\302\233b"),
            ("a\u{202e}b\u{7f}", r#""a\342\200\256b\177""#, r"a\342\200\256b\177"),
        ] {
            assert_eq!(name(text), as_name);
            assert_eq!(line(text), as_line);
        }
        assert_eq!(lines("a\n\tb\r\u{1b}"), "a\n\tb\\r\\033");
    }
}
