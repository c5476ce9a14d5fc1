//! Escapes that belong to JSON and were sent twice: `\n`, `\t`, `\"`.
//!
//! Either the whole text is such a JSON text, on one line and without a bare quote, or only its
//! quotes are escaped; else each escape stands for what the file has in its place (`letters`). The new
//! text is read in the same way, and only where that is beyond doubt.

use std::borrow::Cow;

use super::Work;
use super::letters;
use super::place::{MatchedLines, PLACES_MAX, Unfit};

/// How a text is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// All of it, as the inside of a JSON text.
    Whole,
    /// Its quotes alone.
    Quotes,
}

/// Where `old` stands once it is read without escapes.
pub fn places(text: &[u8], old: &[u8], work: &Work) -> Vec<MatchedLines> {
    let Some((_, plain)) = unescaped(text, old) else {
        return letters::places(text, old, work);
    };
    memchr::memmem::find_iter(text, &plain)
        .map(|start| MatchedLines::whole(start..start + plain.len()))
        .take(PLACES_MAX)
        .collect()
}

/// `new` without escapes, read as `old` was.
///
/// # Errors
/// Where its escapes may be meant as they stand.
pub fn new_text(text: &[u8], place: &MatchedLines, old: &[u8], new: &[u8]) -> Result<Vec<u8>, Unfit> {
    match unescaped(text, old) {
        Some((Way::Whole, plain)) => whole_new(&plain, new),
        Some((Way::Quotes, _)) => Ok(without_quote_escapes(new).into_owned()),
        None => letters::new_text(text, place, old, new),
    }
}

/// `old` without escapes, in the first way in which it stands in the text.
fn unescaped(text: &[u8], old: &[u8]) -> Option<(Way, Vec<u8>)> {
    let has_any = [&b"\\n"[..], b"\\t", b"\\\"", b"\\r\\n"].iter().any(|kind| contains(old, kind));
    let whole = || json_text(old).filter(|_| has_any).map(|plain| (Way::Whole, plain));
    let quotes = || match without_quote_escapes(old) {
        Cow::Owned(plain) => Some((Way::Quotes, plain)),
        Cow::Borrowed(_) => None,
    };
    let stands = |plain: &(Way, Vec<u8>)| !plain.1.is_empty() && contains(text, &plain.1);
    whole().filter(stands).or_else(|| quotes().filter(stands))
}

/// Whether a part stands in a text.
fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

/// A text that is the inside of a JSON text; CR LF in it counts as LF.
fn json_text(escaped: &[u8]) -> Option<Vec<u8>> {
    let quoted = [b"\"", escaped, b"\""].concat();
    let text: String = serde_json::from_slice(&quoted).ok()?;
    Some(text.replace("\r\n", "\n").into_bytes())
}

/// The new text where the old one was all escaped.
fn whole_new(old_plain: &[u8], new: &[u8]) -> Result<Vec<u8>, Unfit> {
    let doubt = |what: &str| Unfit(format!("its escapes may be meant as they stand: {what}"));
    if !new.contains(&b'\\') {
        return Ok(new.to_vec());
    }
    let plain = json_text(new).ok_or_else(|| {
        doubt("it has line breaks or quotes of its own beside them, which old_string has not")
    })?;
    // A line break inside a text of the program's own looks just so.
    if plain.contains(&b'\n') && !old_plain.contains(&b'\n') {
        return Err(doubt("old_string has no escaped line break"));
    }
    let has_tab_inside = |text: &[u8]| {
        text.split(|&byte| byte == b'\n').any(|line| super::place::trimmed(line).contains(&b'\t'))
    };
    if has_tab_inside(&plain) && !has_tab_inside(old_plain) {
        return Err(doubt("old_string has no escaped tab inside a line"));
    }
    Ok(plain)
}

/// A text with bare quotes for `\"` and `\'`.
fn without_quote_escapes(text: &[u8]) -> Cow<'_, [u8]> {
    if !contains(text, b"\\\"") && !contains(text, b"\\'") {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().peekable();
    while let Some(&byte) = bytes.next() {
        if byte != b'\\' || !matches!(bytes.peek(), Some(b'"' | b'\'')) {
            plain.push(byte);
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text after an edit.
    fn edit(text: &str, old: &str, new: &str) -> Result<String, Unfit> {
        let found = places(text.as_bytes(), old.as_bytes(), &Work::new());
        let [place] = found.as_slice() else { panic!("{text:?} {old:?}: {found:?}") };
        let fitted = new_text(text.as_bytes(), place, old.as_bytes(), new.as_bytes())?;
        let mut changed = text.as_bytes().to_vec();
        changed.splice(place.range.clone(), fitted);
        Ok(String::from_utf8(changed).unwrap())
    }

    #[test]
    fn escapes_sent_twice_are_read_once_more() {
        for (text, old, new, after) in [
            (
                "if a {\n\tb(\"c\");\n}\n",
                r#"if a {\n\tb(\"c\");\n}"#,
                r#"if a {\n\tb(\"d\");\n\te();\n}"#,
                "if a {\n\tb(\"d\");\n\te();\n}\n",
            ),
            (
                "print(\"a\\n\")\nx\n",
                r#"print(\"a\\n\")\nx"#,
                r#"print(\"b\\n\")\nx"#,
                "print(\"b\\n\")\nx\n",
            ),
            ("say(\"a\")\nx\n", "say(\\\"a\\\")\nx", "say(\\\"b\\\")\ny", "say(\"b\")\ny\n"),
            ("a\nb\n", r"a\nb", "c", "c\n"),
            // Bare quotes, and a line break of the program's own in them.
            (
                "if a {\n\tb(\"c\\n\");\n}\n",
                "if a {\\n\\tb(\"c\\n\");\\n}",
                "if a {\\n\\tb(\"d\\n\");\\n\\te(\"x\\ty\");\\n}",
                "if a {\n\tb(\"d\\n\");\n\te(\"x\\ty\");\n}\n",
            ),
            (
                "\ta(\"x\");\n\tb();\n",
                "\\ta(\"x\");\n\\tb();\n",
                "\\ta(\"y\");\n\\tb();\n",
                "\ta(\"y\");\n\tb();\n",
            ),
            (
                "x = r\"\\d+\"\ny = 1\n",
                "x = r\"\\d+\"\\ny = 1",
                "x = r\"\\d*\"\\ny = 2",
                "x = r\"\\d*\"\ny = 2\n",
            ),
        ] {
            assert_eq!(edit(text, old, new).unwrap(), after, "{old:?}");
        }
    }

    #[test]
    fn escapes_that_may_be_meant_are_a_doubt() {
        assert!(edit("f(\"a\")\n", r#"f(\"a\")"#, r#"f(\"a\n\")"#).is_err());
        assert!(edit("a\nb\n", r"a\nb", "a\n\\nb").is_err());
        // A text over several lines, whose escapes no lexer of one line can tell apart.
        assert!(
            edit("a = \"\"\"x\ny\"\"\"\n", "a = \"\"\"x\\ny\"\"\"", "a = \"\"\"x\\nz\\ny\"\"\"").is_err()
        );
        // An apostrophe leaves it open what the escape after it is.
        assert!(edit("f(\"a\")\ng()\n", "f(\"a\")\\ng()", "f(\"a\", ' b\\n c')\\ng()").is_err());
        assert_eq!(places(b"a\\nb\n", b"a\\nc", &Work::new()), []);
        assert_eq!(places(b"say \"hi\"", b"no \\\"hi\\\"", &Work::new()), []);
    }
}
