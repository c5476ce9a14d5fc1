//! The same shift of all lines, or tabs against spaces.
//!
//! One rule must lead from the indentation looked for to the file's, for all lines that are not
//! blank, so that no line moves into another block. The first line may be an exception, where it is
//! given without its indentation, or with the right one while the others are shifted.

use super::Work;
use super::indents::Mapping;
use super::place::{
    MatchedLines, NewLine, PLACES_MAX, Unfit, at, compose, indent, longest, split, trimmed, whole_lines,
};
use crate::text::checked::slice;

/// Where `old` stands, indented otherwise.
pub fn places(text: &[u8], old: &[u8], work: &Work) -> Vec<MatchedLines> {
    let (wanted, has_final_break) = split(old);
    let Some(anchor) = longest(&wanted) else {
        return Vec::new();
    };
    let same = |wanted: &[u8], found: &[u8]| trimmed(wanted) == trimmed(found);
    let candidates = whole_lines(text, &wanted, anchor, has_final_break, work, same);
    candidates.into_iter().filter_map(|place| fitting(text, place, &wanted)).take(PLACES_MAX).collect()
}

/// Which lines follow the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// All.
    AsOthers,
    /// All but the first, which is given without its indentation and begins after it in the file.
    Inside,
    /// All but the first, whose indentation is the file's.
    Right,
}

/// The place, where its indentation follows one rule; it begins after the first line's own where
/// the text looked for does.
fn fitting(text: &[u8], mut place: MatchedLines, wanted: &[&[u8]]) -> Option<MatchedLines> {
    if mapping(text, &place, wanted, 0).is_some() {
        return Some(place);
    }
    let first = wanted.first().filter(|line| wanted.len() > 1 && !trimmed(line).is_empty())?;
    mapping(text, &place, wanted, 1)?;
    let line = place.lines.first_mut()?.as_mut()?;
    let found = indent(at(text, line));
    if indent(first) == found {
        return Some(place);
    }
    indent(first).is_empty().then_some(())?;
    line.start += found.len();
    place.range.start = line.start;
    Some(place)
}

/// How a place that was found follows one rule; there may be two that say the same of its lines.
fn rules(text: &[u8], place: &MatchedLines, wanted: &[&[u8]]) -> Vec<(First, Mapping)> {
    let of_others = |first: First| Some((first, mapping(text, place, wanted, 1)?));
    if place.range.start > super::place::line_start(text, place.range.start) {
        return of_others(First::Inside).into_iter().collect();
    }
    let is_right =
        place.lines.first().and_then(Option::as_ref).zip(wanted.first()).is_some_and(|(line, wanted)| {
            !trimmed(wanted).is_empty() && indent(at(text, line)) == indent(wanted)
        });
    let of_all = mapping(text, place, wanted, 0).map(|mapping| (First::AsOthers, mapping));
    // Where one blank is put before or taken from all lines, nothing is left to doubt.
    let is_shift = of_all.as_ref().is_some_and(|(_, mapping)| mapping.is_shift());
    let right = if is_right && !is_shift { of_others(First::Right) } else { None };
    of_all.into_iter().chain(right).collect()
}

/// The rule of the lines from `skipped` on.
fn mapping(text: &[u8], place: &MatchedLines, wanted: &[&[u8]], skipped: usize) -> Option<Mapping> {
    let found = place.lines.iter().map(|line| line.as_ref().map_or(&b""[..], |line| at(text, line)));
    let pairs: Vec<(&[u8], &[u8])> = wanted
        .iter()
        .copied()
        .zip(found)
        .skip(skipped)
        .filter(|(wanted, _)| !trimmed(wanted).is_empty())
        .collect();
    Mapping::of(&pairs)
}

/// `new` with the file's indentation.
///
/// # Errors
/// Where a line has one that the rule says nothing of.
pub fn new_text(text: &[u8], place: &MatchedLines, old: &[u8], new: &[u8]) -> Result<Vec<u8>, Unfit> {
    let ((wanted, _), (new_lines, _)) = (split(old), split(new));
    let texts: Vec<&[u8]> =
        wanted.iter().chain(&new_lines).copied().filter(|line| !trimmed(line).is_empty()).collect();
    let rules: Vec<(First, Mapping)> = rules(text, place, &wanted)
        .into_iter()
        .map(|(first, mapping)| (first, mapping.widened(&texts)))
        .collect();
    let first = match rules.as_slice() {
        [] => return Err(Unfit("its indentation follows no rule".to_owned())),
        [(first, _), ..] => *first,
    };
    let first_indent = wanted.first().map_or(&b""[..], |line| indent(line));
    let rewrite = |line: &NewLine<'_>| {
        let unfit = || {
            Unfit(format!("the indentation of its line {} has no counterpart in the file", line.index + 1))
        };
        if trimmed(line.text).is_empty() {
            return Ok(line.text.to_vec());
        }
        let own = indent(line.text);
        if first != First::AsOthers && line.index == 0 {
            return if own == first_indent { Ok(line.text.to_vec()) } else { Err(unfit()) };
        }
        let mut indents = rules.iter().map(|(_, mapping)| mapping.indent_of(line.text));
        let indent = indents.next().flatten().ok_or_else(unfit)?;
        // Two rules that lead to two indentations leave it open which is meant.
        if indents.any(|other| other.is_some_and(|other| other != indent)) {
            return Err(unfit());
        }
        // A line that would end the block in which the first one stands was hardly meant to.
        if first == First::Right && indent.len() < first_indent.len() && own.len() >= first_indent.len() {
            return Err(unfit());
        }
        Ok([indent.as_slice(), slice(line.text, own.len()..)?].concat())
    };
    compose(text, place, old, new, rewrite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_text_is_indented_as_the_file_is() {
        for (text, old, new, after) in [
            (
                "{\n\tif a {\n\t\tb();\n\t}\n}\n",
                "    if a {\n        b();\n    }\n",
                "    if a {\n        c();\n        d();\n    }\n",
                "{\n\tif a {\n\t\tc();\n\t\td();\n\t}\n}\n",
            ),
            (
                "class A:\n    def b(self):\n        return 1\n",
                "def b(self):\n    return 1\n",
                "def b(self):\n    x = 2\n    return x\n",
                "class A:\n    def b(self):\n        x = 2\n        return x\n",
            ),
            (
                "a:\n  b:\n    c: 1\n",
                "    b:\n        c: 1",
                "    b:\n        c: 2\n        d: 3",
                "a:\n  b:\n    c: 2\n    d: 3\n",
            ),
            (
                "\tif a {\n\t\tb();\n\t}\n",
                "if a {\n        b();\n    }",
                "if a {\n        c();\n    }",
                "\tif a {\n\t\tc();\n\t}\n",
            ),
            (
                "    if a:\n        b()\n        c()\n",
                "    if a:\n            b()\n            c()\n",
                "    if a:\n            b()\n            d()\n            if e:\n                f()\n",
                "    if a:\n        b()\n        d()\n        if e:\n            f()\n",
            ),
            (
                "\tif a {\n\t\tb();\n\t}\n",
                "\tif a {\n\tb();\n}\n",
                "\tif x {\n\tb();\n\tc();\n}\n",
                "\tif x {\n\t\tb();\n\t\tc();\n\t}\n",
            ),
            ("\tfoo();\n", "  foo();\n", "  if x {\n    foo();\n  }\n", "\tif x {\n\t\tfoo();\n\t}\n"),
        ] {
            let found = places(text.as_bytes(), old.as_bytes(), &Work::new());
            let [place] = found.as_slice() else { panic!("{text:?} {old:?}: {found:?}") };
            let fitted = new_text(text.as_bytes(), place, old.as_bytes(), new.as_bytes()).unwrap();
            let mut changed = text.as_bytes().to_vec();
            changed.splice(place.range.clone(), fitted);
            assert_eq!(String::from_utf8(changed).unwrap(), after, "{old:?}");
        }
    }

    #[test]
    fn another_nesting_is_another_text() {
        let text = b"if a:\n    b()\n    c()\n";
        assert_eq!(places(text, b"if a:\n    b()\nc()\n", &Work::new()), []);
        assert_eq!(places(b"  x\n    x\n", b"\tx\n", &Work::new()).len(), 2);
        let place = places(b"x\n", b"    x\n", &Work::new()).remove(0);
        assert!(new_text(b"x\n", &place, b"    x\n", b"y\n").is_err());
    }
}
