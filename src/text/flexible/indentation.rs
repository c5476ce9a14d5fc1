//! The same shift of all lines, or tabs against spaces.
//!
//! One rule must lead from the indentation looked for to the file's, for all lines that are not
//! blank, so that no line moves into another block. A text that begins after the indentation of
//! its first line is found as well; the rule then is that of its other lines.

use super::PLACES_MAX;
use super::Unfit;
use super::indents::Mapping;
use super::place::{NewLine, Place, at, compose, indent, longest, split, trimmed, whole_lines};

/// Where `old` stands, indented otherwise.
pub fn places(text: &[u8], old: &[u8]) -> Vec<Place> {
    let (wanted, has_final_break) = split(old);
    let Some(anchor) = longest(&wanted) else {
        return Vec::new();
    };
    let same = |wanted: &[u8], found: &[u8]| trimmed(wanted) == trimmed(found);
    let candidates = whole_lines(text, &wanted, anchor, has_final_break, same);
    candidates.into_iter().filter_map(|place| fitting(text, place, &wanted)).take(PLACES_MAX).collect()
}

/// The place, where its indentation follows one rule; it begins after the first line's own where
/// the text looked for does.
fn fitting(text: &[u8], mut place: Place, wanted: &[&[u8]]) -> Option<Place> {
    if mapping(text, &place, wanted, 0).is_some() {
        return Some(place);
    }
    let first = wanted.first()?;
    if wanted.len() < 2 || first.is_empty() || !indent(first).is_empty() {
        return None;
    }
    let line = place.lines.first_mut()?.as_mut()?;
    line.start += indent(at(text, line)).len();
    place.range.start = line.start;
    mapping(text, &place, wanted, 1).map(|_| place)
}

/// The rule of the lines from `skipped` on.
fn mapping(text: &[u8], place: &Place, wanted: &[&[u8]], skipped: usize) -> Option<Mapping> {
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
pub fn new_text(text: &[u8], place: &Place, old: &[u8], new: &[u8]) -> Result<Vec<u8>, Unfit> {
    let ((wanted, _), (new_lines, _)) = (split(old), split(new));
    let begins_inside = place.range.start > super::place::line_start(text, place.range.start);
    let mapping = mapping(text, place, &wanted, usize::from(begins_inside))
        .ok_or_else(|| Unfit("its indentation follows no rule".to_owned()))?;
    let texts: Vec<&[u8]> =
        wanted.iter().chain(&new_lines).copied().filter(|line| !trimmed(line).is_empty()).collect();
    let mapping = mapping.widened(&texts);
    let rewrite = |line: &NewLine<'_>| {
        let unfit = || {
            Unfit(format!("the indentation of its line {} has no counterpart in the file", line.index + 1))
        };
        if trimmed(line.text).is_empty() {
            return Ok(line.text.to_vec());
        }
        let own = indent(line.text);
        if begins_inside && line.index == 0 {
            return if own.is_empty() { Ok(line.text.to_vec()) } else { Err(unfit()) };
        }
        let indent = mapping.indent_of(line.text).ok_or_else(unfit)?;
        Ok([indent.as_slice(), line.text.get(own.len()..).unwrap_or_default()].concat())
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
            ("\tfoo();\n", "  foo();\n", "  if x {\n    foo();\n  }\n", "\tif x {\n\t\tfoo();\n\t}\n"),
        ] {
            let found = places(text.as_bytes(), old.as_bytes());
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
        assert_eq!(places(text, b"if a:\n    b()\nc()\n"), []);
        assert_eq!(places(b"  x\n    x\n", b"\tx\n").len(), 2);
        let place = places(b"x\n", b"    x\n").remove(0);
        assert!(new_text(b"x\n", &place, b"    x\n", b"y\n").is_err());
    }
}
