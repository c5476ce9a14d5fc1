//! Lines that mark omitted text, such as `// ... existing code ...`.

/// How certain a marker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkerCertainty {
    /// It may be a marker if one is expected: only dots, or words between dots.
    Possible,
    /// It says that something is omitted, as no program or text would.
    Certain,
}

/// Comments with an end; a longer one comes before its own prefix.
const ENCLOSED: [(&str, &str); 14] = [
    ("<!--", "-->"),
    ("<%--", "--%>"),
    ("{{!--", "--}}"),
    ("{{/*", "*/}}"),
    ("{/*", "*/}"),
    ("{#", "#}"),
    ("{-", "-}"),
    ("/*", "*/"),
    ("(*", "*)"),
    ("--[[", "]]"),
    ("#|", "|#"),
    ("<#", "#>"),
    ("@*", "*@"),
    ("\"\"\"", "\"\"\""),
];
/// Starts of a comment up to the end of the line.
const OPENERS: [&str; 15] =
    ["//", "#", "--", ";", "%", "*", "'", "\"", "!", "::", "REM ", "rem ", "dnl ", ".\\\"", "\\ "];
/// Words in a marker at most.
const WORDS_MAX: usize = 12;
/// Words that are not in [`VOCABULARY`], at most, in a marker with dots at one end.
const OWN_WORDS_MAX: usize = 2;
/// Words that say that something is omitted; a marker needs one of them.
const KEYS: [&str; 14] = [
    "existing",
    "unchanged",
    "unmodified",
    "unaltered",
    "omitted",
    "elided",
    "snipped",
    "rest",
    "remaining",
    "remains",
    "remain",
    "same as before",
    "as before",
    "stays the same",
];
/// Words that are common in a marker.
const VOCABULARY: &str = " a above all and are as attributes before below body brevity change changes class \
    code component config configuration content contents data definitions document elided entries etc \
    existing fields file for from function functions handlers here html implementation implementations \
    imports in is it items keep keeps kept lines logic markup method methods module no not of omitted \
    original other page previous properties remain remaining remains rest routes same section sections \
    settings shown snipped stay stays struct test tests text that the their this to types unaltered \
    unchanged unmodified up variables with ";

/// Returns how certain a marker is, if the line contains nothing else.
pub fn marker(line: &[u8]) -> Option<MarkerCertainty> {
    let line = std::str::from_utf8(line).ok()?.trim();
    if !line.contains("..") && !line.contains('…') && !line.contains('⋮') {
        return None;
    }
    let (inside, is_comment) = match uncommented(line) {
        Some(inside) => (inside, true),
        None => (line, false),
    };
    let (inside, is_bracketed) = match unbracketed(inside) {
        Some(inside) => (inside, true),
        None => (inside, false),
    };
    let (rest, leading) = without_dots(inside, str::strip_prefix, |text| text.trim_start());
    let (words, trailing) = without_dots(rest, str::strip_suffix, |text| text.trim_end());
    let words = words.trim().trim_end_matches(['.', ':', ',']);
    match (leading || trailing, words.is_empty()) {
        (false, _) => None,
        (true, true) => Some(MarkerCertainty::Possible),
        (true, false) => marker_certainty(words, leading && trailing, is_comment, is_bracketed),
    }
}

/// Returns how certain a marker with these words is.
fn marker_certainty(
    words: &str,
    has_both_dots: bool,
    is_comment: bool,
    is_bracketed: bool,
) -> Option<MarkerCertainty> {
    let lower = words.to_lowercase();
    let list: Vec<&str> =
        lower.split(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '_' | '-' | '`')).collect();
    let list: Vec<&str> = list.into_iter().filter(|word| !word.is_empty()).collect();
    // A sentence or code has other characters between its words.
    let is_prose = lower.chars().all(|letter| letter.is_alphanumeric() || " _-`'/,&:()".contains(letter));
    if list.is_empty() || list.len() > WORDS_MAX || !is_prose {
        return None;
    }
    let joined = format!(" {} ", list.join(" "));
    let has_key = KEYS.iter().any(|key| joined.contains(&format!(" {key} ")));
    let own = list.iter().filter(|word| !VOCABULARY.contains(&format!(" {word} "))).count();
    let is_framed = has_both_dots || is_bracketed;
    let is_certain = match (is_comment, is_framed) {
        (true, true) => has_key,
        (true, false) => has_key && own <= OWN_WORDS_MAX && names_omission(&list),
        (false, true) => has_key && own == 0,
        (false, false) => false,
    };
    match (is_certain, is_comment && (has_both_dots || has_key)) {
        (true, _) => Some(MarkerCertainty::Certain),
        (false, true) => Some(MarkerCertainty::Possible),
        (false, false) => None,
    }
}

/// Returns true if the first or the last words say that something is omitted, as no sentence would.
fn names_omission(words: &[&str]) -> bool {
    let first = words.iter().find(|word| !matches!(**word, "the" | "all" | "other" | "and" | "keep"));
    let begins = first.is_some_and(|word| matches!(*word, "rest" | "existing" | "remaining"));
    let ends = words.last().is_some_and(|word| {
        matches!(
            *word,
            "unchanged" | "unmodified" | "unaltered" | "omitted" | "elided" | "snipped" | "before" | "same"
        )
    });
    begins || ends
}

/// Returns the text inside a comment that is the whole line.
fn uncommented(line: &str) -> Option<&str> {
    let enclosed =
        ENCLOSED.iter().find_map(|(open, close)| line.strip_prefix(open)?.strip_suffix(close)).map(str::trim);
    let to_the_end = || {
        let opener = OPENERS.iter().find(|opener| line.starts_with(**opener))?;
        // `///`, `##`, `;;` and `//!` are comments too.
        Some(line.strip_prefix(opener)?.trim_start_matches(['/', '#', ';', '%', '!', '-', '*']).trim())
    };
    enclosed.or_else(to_the_end)
}

/// Returns the text inside a pair of brackets.
fn unbracketed(text: &str) -> Option<&str> {
    [('(', ')'), ('[', ']'), ('<', '>'), ('{', '}')]
        .into_iter()
        .find_map(|(open, close)| text.strip_prefix(open)?.strip_suffix(close))
        .map(str::trim)
}

/// Returns a text without the dots at one of its ends, and whether it had any.
fn without_dots<'a>(
    text: &'a str,
    strip: fn(&'a str, &'static str) -> Option<&'a str>,
    trim: fn(&'a str) -> &'a str,
) -> (&'a str, bool) {
    let mut rest = text;
    let mut found = false;
    while let Some(shorter) = strip(rest, "...").or_else(|| strip(rest, "…")).or_else(|| strip(rest, "⋮"))
    {
        rest = shorter;
        found = true;
    }
    while found && let Some(shorter) = strip(rest, ".") {
        rest = shorter;
    }
    (trim(rest), found)
}

/// Returns the text before and after an omitted middle, marked by `...` or `…`; `None` if nothing is omitted there.
pub fn around_ellipsis(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let find = |mark: &[u8]| {
        Some((memchr::memmem::find(text, mark)?, memchr::memmem::rfind(text, mark)? + mark.len()))
    };
    let marks = [find(b"..."), find("…".as_bytes())];
    let start = marks.iter().flatten().map(|mark| mark.0).min()?;
    let end = marks.iter().flatten().map(|mark| mark.1).max()?;
    let (head, tail) = (text.get(..start)?, text.get(end..)?);
    // Comment signs before the dots are not in the file.
    let head_line = head.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let is_comment = head.get(head_line..)?.iter().all(|byte| !byte.is_ascii_alphanumeric());
    let head = if is_comment { head.get(..head_line)? } else { head };
    let tail_line = tail.iter().position(|&byte| byte == b'\n').unwrap_or(tail.len());
    let tail = if is_comment { tail.get(tail_line..)? } else { tail };
    (!head.trim_ascii().is_empty() && !tail.trim_ascii().is_empty()).then_some((head, tail))
}

/// Returns the first line of `new` that marks omitted text and is not in `old`: its number, from 1, and its text.
pub fn first_omission<'a>(new: &'a [u8], old: &[u8]) -> Option<(usize, &'a [u8])> {
    let is_known = |marker: &[u8]| {
        old.split(|&byte| matches!(byte, b'\n' | b'\r')).any(|line| line.trim_ascii() == marker)
    };
    let mut lines = new.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).zip(1..);
    lines
        .find(|(line, _)| marker(line) == Some(MarkerCertainty::Certain) && !is_known(line))
        .map(|(line, number)| (number, line))
}
