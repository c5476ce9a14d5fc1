//! The prefixes of a numbered listing, copied with its lines.
//!
//! Known are those of this program's `line_numbers`, of `cat -n`, and of other tools' listings: a
//! number that counts up line by line, after blanks or an `L`, before a tab, `→`, `|`, `│` or `:`.
//! What stands after the prefixes must be whole lines of the file. A text of one line alone says
//! little, so its number must be right too.

use super::Work;
use super::place::{MatchedLines, NewLine, Unfit, compose, longest, split, trimmed_end, whole_lines};

/// What may stand after a number.
const SEPARATORS: [&str; 5] = ["\t", "→", "|", "│", ":"];

/// How the lines of a listing begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    /// What stands after each number.
    separator: &'static str,
    /// Whether a blank after it belongs to it.
    has_blank: bool,
}

/// Where the lines of the listing `old` stand.
pub fn places(text: &[u8], old: &[u8], work: &Work) -> Vec<MatchedLines> {
    let (lines, has_final_break) = split(old);
    forms(&lines).into_iter().flat_map(|form| places_of(form, text, &lines, has_final_break, work)).collect()
}

/// Where the lines stand, read in one form.
fn places_of(
    form: Form,
    text: &[u8],
    lines: &[&[u8]],
    has_final_break: bool,
    work: &Work,
) -> Vec<MatchedLines> {
    let Some(first) = lines.first().and_then(|line| form.read(line)) else {
        return Vec::new();
    };
    let wanted: Vec<&[u8]> = lines.iter().filter_map(|line| Some(form.read(line)?.1)).collect();
    let Some(anchor) = longest(&wanted) else {
        return Vec::new();
    };
    let same = |wanted: &[u8], found: &[u8]| trimmed_end(wanted) == trimmed_end(found);
    let mut places = whole_lines(text, &wanted, anchor, has_final_break, work, same);
    if wanted.len() == 1 {
        let line = |before: &[u8]| memchr::memchr_iter(b'\n', before).count() as u64 + 1;
        places.retain(|place| text.get(..place.range.start).is_some_and(|before| line(before) == first.0));
    }
    places
}

/// `new` without such prefixes.
///
/// # Errors
/// Where some of its new lines have one and some have none.
pub fn new_text(text: &[u8], place: &MatchedLines, old: &[u8], new: &[u8]) -> Result<Vec<u8>, Unfit> {
    let (old_lines, has_final_break) = split(old);
    let used =
        |form: &Form| places_of(*form, text, &old_lines, has_final_break, &Work::new()).contains(place);
    let Some(form) = forms(&old_lines).into_iter().find(used) else {
        return Err(Unfit("its line numbers cannot be told from text".to_owned()));
    };
    let (new_lines, _) = split(new);
    let changed = new_lines.iter().filter(|line| !old_lines.contains(line) && !line.is_empty());
    let prefixed = changed.clone().filter(|line| form.read(line).is_some()).count();
    let strips = prefixed > 0;
    if strips && prefixed < changed.count() {
        return Err(Unfit("some of its new lines begin with a line number and some do not".to_owned()));
    }
    let rewrite = |line: &NewLine<'_>| {
        let bare = form.read(line.text).filter(|_| strips).map_or(line.text, |(_, bare)| bare);
        Ok(bare.to_vec())
    };
    compose(text, place, old, new, rewrite)
}

/// The forms in which all lines can be read, their numbers counting up by one.
fn forms(lines: &[&[u8]]) -> Vec<Form> {
    let all = SEPARATORS
        .into_iter()
        .flat_map(|separator| [false, true].map(|has_blank| Form { separator, has_blank }));
    let fits = |form: &Form| {
        let numbers: Option<Vec<u64>> = lines.iter().map(|line| Some(form.read(line)?.0)).collect();
        numbers.is_some_and(|numbers| {
            !numbers.is_empty()
                && numbers
                    .windows(2)
                    .all(|pair| matches!(pair, [one, next] if one.checked_add(1) == Some(*next)))
        })
    };
    all.filter(fits).collect()
}

impl Form {
    /// The number before a line, and the line.
    fn read(self, line: &[u8]) -> Option<(u64, &[u8])> {
        let line = line.trim_ascii_start();
        let line = line.strip_prefix(b"L").unwrap_or(line);
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(line.get(..digits)?).ok()?.parse().ok()?;
        let rest = line.get(digits..)?;
        // `12 | text` has a blank before the separator too.
        let rest = if self.has_blank { rest.strip_prefix(b" ").unwrap_or(rest) } else { rest };
        let rest = rest.strip_prefix(self.separator.as_bytes())?;
        match (self.has_blank, rest) {
            (false, _) | (true, b"") => Some((number, rest)),
            (true, _) => Some((number, rest.strip_prefix(b" ")?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefixes_of_listings_are_taken_off() {
        let text = b"fn a() {\n    b();\n\n}\n";
        for (old, new, after) in [
            ("     2\t    b();\n     3\t\n", "     2\t    c();\n     3\t\n", "fn a() {\n    c();\n\n}\n"),
            (
                "2:     b();\n3:\n4: }",
                "2:     b();\n3:\n    d();\n4: }",
                "fn a() {\n    b();\n\n    d();\n}\n",
            ),
            ("1|fn a() {\n2|    b();", "1|fn z() {\n2|    b();", "fn z() {\n    b();\n\n}\n"),
            ("  1→fn a() {\n  2→    b();", "fn z() {\n    b();", "fn z() {\n    b();\n\n}\n"),
            ("L2:     b();", "L2:     e();", "fn a() {\n    e();\n\n}\n"),
            (" 2 |     b();\n 3 | ", " 2 |     f();\n 3 | ", "fn a() {\n    f();\n\n}\n"),
        ] {
            let found = places(text, old.as_bytes(), &Work::new());
            let [place] = found.as_slice() else { panic!("{old:?}: {found:?}") };
            let fitted = new_text(text, place, old.as_bytes(), new.as_bytes()).unwrap();
            let mut changed = text.to_vec();
            changed.splice(place.range.clone(), fitted);
            assert_eq!(String::from_utf8(changed).unwrap(), after, "{old:?}");
        }
    }

    #[test]
    fn numbers_that_may_be_text_are_left_alone() {
        // Not counting up; the wrong number for a line alone; only a part of the file's line.
        for old in ["1: a\n3: b", "7: a", "1: a", "1\tb"] {
            assert_eq!(places(b"x\n10: a\n  b\n", old.as_bytes(), &Work::new()), [], "{old:?}");
        }
        let place = places(b"a\nb\n", b"1|a\n2|b\n", &Work::new()).remove(0);
        assert!(new_text(b"a\nb\n", &place, b"1|a\n2|b\n", b"1|x\ny\n").is_err());
    }
}
