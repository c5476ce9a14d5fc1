//! Text that is safe and clear to show: names that cannot control a terminal, visible blanks and look-alikes, and
//! characters that nobody types; a number with its noun, a command from a list of words, and the text of a URI.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::{Display, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use unicode_normalization::UnicodeNormalization as _;

use crate::text::checked::str_or_empty;
use crate::text::lines::LineEnding;

/// Returns true if a character controls a terminal or the order of the text instead of being shown: controls, line
/// separators, and direction marks.
pub fn is_active(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a name unchanged, or in double quotes with the escapes of git and C if it has an active character.
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

/// Returns a message on one line, with its active characters escaped in place.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_active)
}

/// Returns a text of several lines with its active characters escaped in place, except line feeds and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| is_active(character) && !matches!(character, '\n' | '\t'))
}

/// Returns a text with some of its characters escaped.
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

/// Adds a character; an active one is escaped by its letter, else by the octal numbers of its bytes.
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

/// Sign for a tab.
const TAB: &str = "→";
/// Sign for a blank at the end of a line.
const TRAILING_BLANK: &str = "·";
/// Sign for a carriage return.
const CARRIAGE_RETURN: &str = "␍";

/// Longest path that a warning shows in full, in characters.
const PATH_CHARACTERS_MAX: usize = 120;

/// Characters that are easily mistaken for ASCII and are neither blanks nor controls.
const LOOK_ALIKES: [char; 16] = [
    '\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2015}', '\u{2018}', '\u{2019}',
    '\u{201a}', '\u{201c}', '\u{201d}', '\u{201e}', '\u{2026}', '\u{2032}', '\u{2212}', '\u{00b4}',
];

/// Returns a line and its ending with invisible characters made visible.
///
/// A tab becomes `→`, a blank at the end of the line `·`, a carriage return `␍`. No-break and other odd blanks,
/// invisible and control characters, typographic quotes and dashes become their number, such as `‹U+00A0›`, and bytes
/// that are not UTF-8 theirs, such as `‹0xE9›`. The line feed stays.
pub fn visible(line: &[u8]) -> String {
    marked(line, |character| is_unseen(character) || LOOK_ALIKES.contains(&character))
}

/// Returns a line as [`visible`] does, but with look-alikes unchanged.
pub fn visible_blanks(line: &[u8]) -> String {
    marked(line, is_unseen)
}

/// Returns a line of output that cannot control a terminal: control characters become their number, except tabs and the
/// line ending, and so do characters that change the direction of text.
pub fn visible_controls(line: &str) -> String {
    let body = line.trim_end_matches(['\r', '\n']);
    let ending = str_or_empty(line, body.len()..);
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

/// Returns a path for a warning; a very long one is shortened to its start and end.
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

/// Returns a line with its blanks and odd characters marked.
fn marked(line: &[u8], is_odd: impl Fn(char) -> bool) -> String {
    let body = line.strip_suffix(b"\n").unwrap_or(line);
    // If CR alone ends the lines, still show them as lines.
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

/// Adds one character, made visible.
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

/// Returns true for controls, blanks and invisible format characters.
fn is_unseen(character: char) -> bool {
    let is_format = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}'
    );
    character.is_control() || character.is_whitespace() || is_format
}

/// A character that nobody types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UntypableCharacter {
    /// The character.
    pub character: char,
    /// First line that has it, from 1.
    pub line: usize,
}

/// Returns the characters that nobody types and that only `new` has, each with its first line; at most `count_max`.
pub fn odd_characters(old: &[u8], new: &[u8], count_max: usize) -> Vec<UntypableCharacter> {
    let mut found: Vec<UntypableCharacter> = Vec::new();
    // Nearly every text is plain, which one pass over its bytes shows.
    if !new.iter().any(|byte| *byte >= 0x80 || is_odd(char::from(*byte))) {
        return found;
    }
    let mut line = 1;
    let chunks = new.utf8_chunks();
    for character in chunks.flat_map(|chunk| chunk.valid().chars()) {
        if is_odd(character) && found.iter().all(|known| known.character != character) && !has(old, character)
        {
            found.push(UntypableCharacter { character, line });
        }
        line += usize::from(character == '\n');
        if found.len() == count_max {
            break;
        }
    }
    found
}

/// Returns true if a text contains a character.
fn has(text: &[u8], character: char) -> bool {
    let mut bytes = [0; 4];
    memchr::memmem::find(text, character.encode_utf8(&mut bytes).as_bytes()).is_some()
}

/// Returns true if nobody types a character: controls except tab, line feed, form feed and carriage return, and
/// characters that have no width or change the direction of text.
const fn is_odd(character: char) -> bool {
    matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{61c}')
        || matches!(
            character,
            '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{202a}'..='\u{202e}'
        )
        || matches!(character, '\u{2066}'..='\u{2069}')
}

/// Returns a name in the form that a reader sees: composed (Unicode NFC), without invisible characters.
pub fn visible_form(name: &str) -> String {
    let is_seen =
        |character: &char| !is_odd(*character) && !matches!(character, '\u{ad}' | '\u{200c}' | '\u{200d}');
    name.nfc().filter(is_seen).collect()
}

/// Returns a warning about the line endings of a new text, to follow the name of its file.
pub fn odd_line_endings(old: Option<&[u8]>, new: &[u8]) -> Option<&'static str> {
    let first = new.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_script = |text: &[u8]| text.starts_with(b"#!");
    if is_script(first) && first.ends_with(b"\r\n") && !old.is_some_and(|old| old.starts_with(first)) {
        return Some("begins with a `#!` line that ends in CR, so the system does not find its interpreter");
    }
    let was_lf = LineEnding::of(old?) == LineEnding::Lf;
    match LineEnding::of(new) {
        LineEnding::Crlf if was_lf => Some("had LF line endings and now has CRLF"),
        LineEnding::Mixed if was_lf => Some("had LF line endings and now has some CRLF"),
        _ => None,
    }
}

/// Tags that end a tool call in a model's output.
const CALL_ENDS: [&str; 7] =
    ["content", "parameter", "invoke", "function_calls", "function_call", "tool_call", "tool_use"];

/// Returns the line at the end of a new text that closes a tool call, if the old text did not end in it: a model wrote
/// more than it meant to.
pub fn end_of_call<'t>(old: &[u8], new: &'t [u8]) -> Option<&'t str> {
    let last = |text: &'t [u8]| text.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
    let line = std::str::from_utf8(last(new)?.trim_ascii()).ok()?;
    let tag = line.strip_prefix("</")?.strip_suffix('>')?;
    let is_end = CALL_ENDS.contains(&tag.rsplit(':').next().unwrap_or(tag));
    (is_end && !old.trim_ascii_end().ends_with(line.as_bytes())).then_some(line)
}

/// Returns a count with its noun, given in the singular: `1 file`, `2 files`, `0 entries`.
///
/// The last word takes the plural by the regular rules of English.
pub fn plural<N: Copy + Display + PartialEq + From<u8>>(count: N, singular: &str) -> String {
    if count == N::from(1) {
        return format!("{count} {singular}");
    }
    let plural = match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if singular.ends_with("ch") || singular.ends_with("sh") || singular.ends_with(['s', 'x']) => {
            format!("{singular}es")
        }
        _ => format!("{singular}s"),
    };
    format!("{count} {plural}")
}

/// Returns the first names of a list, for a message.
pub fn first_names(names: &[String]) -> String {
    /// Largest number of names.
    const NAMED: usize = 5;
    first_of(names.iter().cloned(), names.len(), NAMED)
}

/// Returns the first names of a list of `total`, at most `named`, for a message.
pub fn first_of(names: impl Iterator<Item = String>, total: usize, named: usize) -> String {
    let names: Vec<String> = names.take(named).collect();
    names.join(", ") + &and_more(total.saturating_sub(names.len()))
}

/// Returns the end of a list that leaves `count` entries out.
pub fn and_more(count: usize) -> String {
    if count > 0 { format!(" and {count} more") } else { String::new() }
}

/// Shells whose `-c` takes a command.
const SHELLS: [&str; 4] = ["bash", "sh", "zsh", "dash"];
/// Bytes besides letters and digits that every shell reads literally.
const PLAIN: &[u8] = b"_-./=:,@%+";

/// Joins words into one text that a shell splits into the same words.
pub fn join(words: &[impl AsRef<str>]) -> String {
    words.iter().map(|word| shell_word(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// Returns a word as a shell reads it. What a terminal would not show as it is gets the escapes of `$'…'`.
pub fn shell_word(word: &str) -> String {
    let is_escaped = |character: char| is_odd(character) || character == '\n' || character == '\r';
    if word.contains(is_escaped) {
        let escape = |character: char| match character {
            '\n' => "\\n".to_owned(),
            '\\' | '\'' => format!("\\{character}"),
            character if is_escaped(character) => format!("\\u{:04x}", u32::from(character)),
            character => character.to_string(),
        };
        return format!("$'{}'", word.chars().map(escape).collect::<String>());
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || PLAIN.contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the command that a list of words means: the text itself if the words call a shell with it.
pub fn command_of(words: &[impl AsRef<str>]) -> String {
    match words {
        [shell, flag, command] if is_shell(shell.as_ref()) && is_command_flag(flag.as_ref()) => {
            command.as_ref().to_owned()
        }
        _ => join(words),
    }
}

/// Returns true for the name or path of a shell.
fn is_shell(word: &str) -> bool {
    word.rsplit('/').next().is_some_and(|name| SHELLS.contains(&name))
}

/// Returns true for `-c`, also with `-l` or `-i`.
fn is_command_flag(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|letters| {
        letters.contains('c') && letters.bytes().all(|letter| b"cli".contains(&letter))
    })
}

/// Decodes a part of a URI as text.
pub fn percent_decoded(text: &str) -> String {
    String::from_utf8_lossy(&percent_decoded_bytes(text)).into_owned()
}

/// Decodes a part of a URI.
fn percent_decoded_bytes(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digit =
            |at: usize| char::from(*bytes.get(at)?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let digits = digit(at + 1).zip(digit(at + 2)).filter(|_| byte == b'%');
        let code = digits.map(|(high, low)| high << 4 | low);
        plain.push(code.unwrap_or(byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    plain
}

/// Returns the path of a `file:` URI on this machine.
pub fn file_path(uri: &str) -> Option<PathBuf> {
    // The case of a scheme does not count (RFC 3986, 3.1).
    let (_, rest) = uri.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("file"))?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    path.starts_with('/').then(|| PathBuf::from(OsString::from_vec(percent_decoded_bytes(path))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_and_bidi_characters_are_escaped() {
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

    #[test]
    fn very_long_path_is_shortened_in_the_middle() {
        let whole = "ä/".repeat(60);
        assert_eq!(short_path(&whole), whole);
        let longer = format!("start/{whole}end");
        let short = short_path(&longer);
        assert_eq!(short.chars().count(), 120);
        assert!(short.starts_with("start/ä/") && short.ends_with("/ä/end") && short.contains('…'), "{short}");
    }

    #[test]
    fn invisible_characters_are_made_visible() {
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
            assert_eq!(visible(text), seen, "{text:?}");
        }
    }

    #[test]
    fn new_odd_characters_are_reported_once() {
        let found = |old: &str, new: &str| {
            let all = odd_characters(old.as_bytes(), new.as_bytes(), 9).into_iter();
            all.map(|odd| (odd.character, odd.line)).collect::<Vec<_>>()
        };
        assert_eq!(found("", "a\tb\r\nä 新 é\u{a0}\u{200d}\n"), []);
        assert_eq!(found("", "a\n\0\u{1b}\n\0"), [('\0', 2), ('\u{1b}', 2)]);
        assert_eq!(found("x\u{200b}", "\u{200b}\u{202e}"), [('\u{202e}', 1)]);
        assert_eq!(odd_characters(b"", b"\0\x01\x02", 2).len(), 2);
    }

    #[test]
    fn changed_line_endings_are_reported() {
        for (old, new, is_told) in [
            (Some("a\nb\n"), "a\r\nb\r\n", true),
            (Some("a\nb\n"), "a\r\nb\n", true),
            (Some("a\nb\r\n"), "a\r\nb\nc\r\n", false),
            (Some("a\r\n"), "b\r\n", false),
            (None, "b\r\n", false),
            (None, "#!/bin/sh\r\n", true),
            (Some("#!/bin/sh\r\na\r\n"), "#!/bin/sh\r\nb\r\n", false),
            (Some(""), "b\r\n", false),
        ] {
            let told = odd_line_endings(old.map(str::as_bytes), new.as_bytes());
            assert_eq!(told.is_some(), is_told, "{old:?} {new:?}");
        }
    }

    #[test]
    fn end_of_a_tool_call_is_reported_once() {
        for (old, new, line) in [
            ("", "x\n</content>\n</x:invoke>\n", Some("</x:invoke>")),
            ("x\n", "x\n  </content>", Some("</content>")),
            ("x</content>\n", "y</content>\n", None),
            ("", "x</content>\n", None),
            ("", "</content>\nx\n", None),
            ("", "", None),
        ] {
            assert_eq!(end_of_call(old.as_bytes(), new.as_bytes()), line, "{new:?}");
        }
    }

    #[test]
    fn count_of_one_is_singular_and_others_are_plural() {
        assert_eq!(plural(1_u64, "file"), "1 file");
        assert_eq!(plural(0_usize, "file"), "0 files");
        assert_eq!(plural(2_u64, "entry"), "2 entries");
        assert_eq!(plural(3_u64, "match"), "3 matches");
        assert_eq!(plural(1_u64, "more byte"), "1 more byte");
        assert_eq!(plural(4_u64, "way"), "4 ways");
    }

    #[test]
    fn argument_list_becomes_one_quoted_command() {
        for (words, command) in [
            (
                &["git", "log", "--format=%h", "a b", "it's", ""][..],
                r"git log --format=%h 'a b' 'it'\''s' ''",
            ),
            (&["cargo", "test"], "cargo test"),
            (&["bash", "-lc", "a && b"], "a && b"),
            (&["/bin/sh", "-c", "a | b"], "a | b"),
            (&["bash", "-x", "a b"], "bash -x 'a b'"),
            (&["bash", "-c", "echo $0", "x"], "bash -c 'echo $0' x"),
            (&["echo", "$HOME", "*"], "echo '$HOME' '*'"),
            (&["cat", "a\n'b\\\u{202e}"], r"cat $'a\n\'b\\\u202e'"),
        ] {
            assert_eq!(command_of(words), command);
        }
    }
}
