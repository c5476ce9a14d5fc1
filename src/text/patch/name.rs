//! Path names as diffs write them.

use super::model::Prefix;
use crate::text::checked::peek;

/// A path in a `---` or `+++` line.
pub struct Name {
    /// The path; `None` for `/dev/null`.
    pub path: Option<Vec<u8>>,
    /// Whether the time beside it is the one that `diff -N` gives to a missing file.
    pub is_missing: bool,
}

/// Reads the name in a `---` or `+++` line, without what follows a tab.
///
/// `None` where a quote is not closed or an escape unknown, or the name is empty.
pub fn file_name(text: &[u8]) -> Option<Name> {
    let (path, rest) = if text.first() == Some(&b'"') {
        unquoted(text)?
    } else {
        let end = text.iter().position(|byte| *byte == b'\t').or_else(|| time(text)).unwrap_or(text.len());
        let (path, rest) = text.split_at_checked(end)?;
        (path.to_vec(), rest)
    };
    let stamp = rest.trim_ascii();
    let is_epoch = stamp.starts_with(b"1970-01-01 00:00:00") || stamp.starts_with(b"1969-12-31 ");
    // Subversion's word for what is not there.
    let is_missing = is_epoch || stamp == b"(nonexistent)";
    let is_null = path == b"/dev/null";
    (!path.is_empty()).then(|| Name { path: (!is_null).then_some(path), is_missing: is_null || is_missing })
}

/// Where a date begins that only a blank parts from the name; git puts a tab after names with blanks.
fn time(text: &[u8]) -> Option<usize> {
    let is_time = |rest: &[u8]| {
        let is_of_time = |byte: &u8| byte.is_ascii_digit() || b"-:.+ ".contains(byte);
        let date = peek(rest, ..10);
        let has_form = date.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        date.len() == 10 && has_form && rest.iter().all(is_of_time)
    };
    let blanks = text.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
    blanks.filter(|at| *at > 0).find(|at| text.get(at + 1..).is_some_and(is_time))
}

/// A whole path that may be quoted, as in git's extended headers.
pub fn whole_name(text: &[u8]) -> Option<Vec<u8>> {
    let path = if text.first() == Some(&b'"') { unquoted(text)?.0 } else { text.to_vec() };
    (!path.is_empty()).then_some(path)
}

/// The two names of a `diff --git` line, where they can be told apart: quoted, or the same file twice.
pub fn git_names(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if text.first() == Some(&b'"') {
        let (old, rest) = unquoted(text)?;
        return Some((old, whole_name(rest.strip_prefix(b" ")?)?));
    }
    if text.ends_with(b"\"") {
        let start = text.windows(2).position(|pair| pair == b" \"")?;
        return Some((text.get(..start)?.to_vec(), whole_name(text.get(start + 1..)?)?));
    }
    let same = |at: &usize| {
        let (old, new) = (text.get(..*at)?, text.get(at + 1..)?);
        (old == new || (after_slash(old).is_some() && after_slash(old) == after_slash(new)))
            .then(|| (old.to_vec(), new.to_vec()))
    };
    // Names of equal length are by far the most common, so the middle is tried first.
    let middle = text.len() / 2;
    let spaces = || (0..text.len()).filter(|at| text.get(*at) == Some(&b' '));
    spaces().filter(|at| *at == middle).chain(spaces()).find_map(|at| same(&at))
}

/// Whether the names of one file carry a prefix.
pub fn prefix_of(old: Option<&[u8]>, new: Option<&[u8]>) -> Prefix {
    let first = |path: &[u8]| (path.get(1) == Some(&b'/')).then(|| path.first().copied()).flatten();
    let is_present = match (old, new) {
        (Some(old), Some(new)) => match (first(old), first(new)) {
            (Some(b'a'), Some(b'b')) | (Some(b'b'), Some(b'a')) => true,
            (Some(b'c' | b'i' | b'o' | b'w'), Some(b'c' | b'i' | b'w' | b'o')) => {
                old != new && after_slash(old) == after_slash(new)
            }
            _ => {
                let (within_old, within_new) = (after_slash(old), after_slash(new));
                let is_one_file = within_old.is_some_and(|rest| !rest.is_empty()) && within_old == within_new;
                return if old != new && is_one_file { Prefix::Folders } else { Prefix::Absent };
            }
        },
        (Some(old), None) => first(old) == Some(b'a'),
        (None, Some(new)) => first(new) == Some(b'b'),
        (None, None) => false,
    };
    if is_present { Prefix::Present } else { Prefix::Absent }
}

/// What follows the first slash.
fn after_slash(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().position(|byte| *byte == b'/')?;
    path.get(slash + 1..)
}

/// Reads a name in double quotes with C escapes, and what follows it.
fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (first, after) = rest.split_first()?;
        rest = after;
        match first {
            b'"' => return Some((name, rest)),
            b'\\' => name.push(escape(&mut rest)?),
            byte => name.push(*byte),
        }
    }
}

/// The byte that an escape stands for.
fn escape(rest: &mut &[u8]) -> Option<u8> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(match first {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'"' | b'\\' => *first,
        b'0'..=b'3' => {
            let (digits, after) = rest.split_at_checked(2)?;
            *rest = after;
            digits.iter().try_fold(first - b'0', |sum, digit| {
                matches!(digit, b'0'..=b'7').then(|| sum * 8 + (digit - b'0'))
            })?
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_escapes_are_undone() {
        let name = file_name(b"\"a/\\303\\244 \\\"x\\\"\\t\"\t2020").unwrap();
        assert_eq!(name.path.unwrap(), b"a/\xc3\xa4 \"x\"\t");
        assert!(file_name(b"\"a/x").is_none());
        assert!(file_name(b"\"a/\\9\"").is_none());
        assert!(file_name(b"\"a/\\777\"").is_none());
        assert_eq!(file_name(b"a b\tsomething").unwrap().path.unwrap(), b"a b");
        assert!(file_name(b"/dev/null").unwrap().path.is_none());
    }

    #[test]
    fn the_names_of_a_git_line_are_told_apart() {
        let names = |text: &str| {
            git_names(text.as_bytes())
                .map(|(old, new)| (String::from_utf8(old).unwrap(), String::from_utf8(new).unwrap()))
        };
        let pair = |old: &str, new: &str| Some((old.to_owned(), new.to_owned()));
        assert_eq!(names("a/x y b/x y"), pair("a/x y", "b/x y"));
        assert_eq!(names("x y x y"), pair("x y", "x y"));
        assert_eq!(names("old/x new/x"), pair("old/x", "new/x"));
        assert_eq!(names("a/x \"b/\\tx\""), pair("a/x", "b/\tx"));
        assert_eq!(names("a/x b/y"), None);
    }
}
