//! A sketch: the new text of a file or of a region of it, with marker lines for what stays.
//!
//! Markers cut the sketch into parts. A part is placed by lines that stand in the file unchanged,
//! each run of them in one place alone and all in order; everything between its first and its last
//! such line becomes the part's text, everything between parts stays. What a part says beyond its
//! first or last unchanged line is new: it is inserted there, or is the whole of the block that
//! begins there. Where two readings would give two texts there is none, but a refusal.

mod index;
mod place;

use std::ops::Range;

use crate::text::checked::{Fault, items, slice};

pub use index::Part;

/// Why a sketch has no one meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be read, whatever the file is.
    Unreadable {
        /// The line of the sketch, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A part stands nowhere.
    NoPlace {
        /// Which.
        part: Which,
        /// Why not.
        why: String,
    },
    /// A part may stand in several places, or mean several things.
    Ambiguous {
        /// Which.
        part: Which,
        /// What is in doubt, and what would settle it.
        why: String,
        /// The lines of the file in question, from 1.
        lines: Vec<usize>,
    },
    /// The text cannot be made.
    Fault(Fault),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Which part of a sketch is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Which {
    /// Its number, from 1.
    pub number: usize,
    /// Its lines in the sketch, from 1.
    pub lines: (usize, usize),
    /// Its first line.
    pub text: String,
}

/// One change that a sketch makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SketchChange {
    /// The bytes of the text that are replaced: whole lines.
    pub range: Range<usize>,
    /// What stands there then.
    pub new: Vec<u8>,
    /// Lines of the text, from 1, that are removed and have nothing in their place.
    pub left_out: Vec<(usize, usize)>,
}

/// The changes that `sketch` makes within a range of lines of `text`; in both LF alone ends a line.
///
/// `within` are bytes of whole lines, the first of which has the number `first_line`.
///
/// # Errors
/// A [`Refusal`] that names the part.
pub fn changes(
    text: &[u8],
    sketch: &[u8],
    within: &Range<usize>,
    first_line: usize,
) -> Result<Vec<SketchChange>, Refusal> {
    let region = slice(text, within.clone())?;
    let file: Vec<&[u8]> = region.split_inclusive(|&byte| byte == b'\n').collect();
    let parts = index::parts(sketch, &file)?;
    let placed = place::placed(&parts, &file).map_err(|refusal| refusal.counted_from(first_line))?;
    let mut changes = Vec::new();
    let (mut line, mut offset) = (0, within.start);
    for (part, span) in parts.iter().zip(&placed) {
        let Some(span) = span else { continue };
        let bytes =
            |lines: Range<usize>| file.get(lines).into_iter().flatten().map(|line| line.len()).sum::<usize>();
        let start = offset + bytes(line..span.start);
        let end = start + bytes(span.clone());
        (line, offset) = (span.end, end);
        let found = items(&file, span.clone())?;
        let change = place::written(part, found)?;
        let old = slice(text, start..end)?;
        if change.new != old {
            let number = |index: usize| span.start + index + first_line;
            let left_out =
                change.left_out.into_iter().map(|(first, last)| (number(first), number(last))).collect();
            changes.push(SketchChange { range: start..end, new: change.new, left_out });
        }
    }
    Ok(changes)
}

impl Refusal {
    /// The same with line numbers of the whole file, where the region begins at `first_line`.
    fn counted_from(self, first_line: usize) -> Self {
        match self {
            Self::Ambiguous { part, why, lines } => {
                let lines = lines.into_iter().map(|line| line + first_line - 1).collect();
                Self::Ambiguous { part, why, lines }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
import os

def a():
    x = 1
    y = 2
    return x

def b():
    z = 3
    return z

def c():
    return 9
";

    const RUST: &str = "\
fn a() {
    one();
}

fn b() {
    two();
    three();
}

fn c() {
    four();
}
";

    /// The file after a sketch.
    fn apply(file: &str, sketch: &str) -> Result<String, Refusal> {
        let changes = changes(file.as_bytes(), sketch.as_bytes(), &(0..file.len()), 1)?;
        let mut text = file.as_bytes().to_vec();
        for change in changes.into_iter().rev() {
            text.splice(change.range, change.new);
        }
        Ok(String::from_utf8(text).unwrap())
    }

    /// Checks that a sketch replaces `old` by `new` and nothing else.
    #[track_caller]
    fn replaces(file: &str, sketch: &str, old: &str, new: &str) {
        assert_eq!(file.matches(old).count(), 1, "{old:?}");
        let after = apply(file, sketch).unwrap_or_else(|refusal| panic!("{refusal:?}"));
        assert_eq!(after, file.replace(old, new), "{sketch}");
    }

    #[test]
    fn parts_replace_what_is_between_their_unchanged_lines() {
        let e = "# ... existing code ...";
        replaces(FILE, &format!("{e}\ndef a():\n    x = 10\n    y = 2\n{e}\n"), "x = 1\n", "x = 10\n");
        replaces(
            FILE,
            &format!("{e}\n    z = 3\n    z += 1\n    return z\n{e}"),
            "z = 3\n",
            "z = 3\n    z += 1\n",
        );
        replaces(FILE, &format!("{e}\n    x = 1\n    return x\n{e}"), "    y = 2\n", "");
        replaces(
            FILE,
            "import os\nimport sys\n\ndef a():\n# ... rest of file ...",
            "import os\n",
            "import os\nimport sys\n",
        );
        replaces(FILE, "import re\nimport os\n# ...\n", "import os\n", "import re\nimport os\n");
        replaces(FILE, &format!("{e}\ndef c():\n    return 10\n"), "return 9", "return 10");
        replaces(FILE, &format!("{e}\ndef b():\n    return 4\n\n{e}\n"), "z = 3\n    return z", "return 4");
        replaces(RUST, "// ...\nfn b() {\n    five();\n}\n\n// ...\n", "two();\n    three();", "five();");
        replaces(
            RUST,
            "fn b() {\n    zero(1, 2);\n    // ... existing code ...\n}\n",
            "fn b() {\n",
            "fn b() {\n    zero(1, 2);\n",
        );
        replaces(
            RUST,
            "// ...\nfn c() {\n    // ...\n}\n\nfn d() {}\n",
            "four();\n}\n",
            "four();\n}\n\nfn d() {}\n",
        );
        replaces(
            RUST,
            "// ...\n    three();\n    more(\"x\");\n}\n// ...\n",
            "three();\n",
            "three();\n    more(\"x\");\n",
        );
    }

    #[test]
    fn several_parts_change_several_places() {
        let sketch = "import os\nimport sys\n\n# ... existing code ...\n    x = 1\n    y = 20\n    return x\n# ... existing code ...\n    z = 30\n    return z\n\ndef c():\n# ... rest unchanged\n";
        let error = apply(FILE, sketch).unwrap_err();
        assert!(matches!(error, Refusal::Ambiguous { ref part, .. } if part.number == 3), "{error:?}");
        let sketch = sketch.replace("    z = 30", "def b():\n    z = 30");
        let after = FILE
            .replace("os\n", "os\nimport sys\n")
            .replace("y = 2", "y = 20")
            .replace("z = 3\n", "z = 30\n");
        assert_eq!(apply(FILE, &sketch).unwrap(), after);
    }

    #[test]
    fn a_sketch_that_is_the_file_changes_nothing() {
        assert_eq!(apply(FILE, FILE).unwrap(), FILE);
        assert_eq!(
            apply(FILE, "import os\n\n# ... existing code ...\n\ndef c():\n    return 9\n").unwrap(),
            FILE
        );
        assert_eq!(apply(FILE, "# ...\n# ... existing ...\ndef b():\n# ...\n\n# ...\n").unwrap(), FILE);
    }

    #[test]
    fn what_has_no_one_meaning_is_refused() {
        let refused = |file: &str, sketch: &str, what: &str| {
            let refusal = apply(file, sketch).unwrap_err();
            assert!(format!("{refusal:?}").starts_with(what), "{sketch}\n{refusal:?}");
        };
        let e = "# ... existing code ...";
        refused(FILE, e, "Unreadable");
        refused(FILE, &format!("{e}\nnew = 1\n{e}\n"), "NoPlace");
        refused(FILE, &format!("new = 1\n{e}\n"), "NoPlace");
        // Replaced, or inserted before what stays?
        refused(FILE, &format!("{e}\ndef a():\n    x = 5\n    {e}\n"), "Ambiguous");
        refused(FILE, &format!("{e}\n    return 8\n\ndef c():\n{e}"), "Ambiguous");
        // Twice in the file.
        refused("a\nb\na\nb\n", "# ...\na\nc\n# ...\n", "Ambiguous");
        // Another order.
        refused(FILE, &format!("def b():\n{e}\ndef a():\n    x = 2\n    y = 2\n{e}"), "NoPlace");
        refused(FILE, &format!("{e}\n    z = 3\n    x = 1\n{e}"), "NoPlace");
        // Unchanged lines of two blocks.
        refused(RUST, "// ...\n    one();\n    two();\n// ...\n", "Ambiguous");
        // A marker that is a line of the file.
        refused("a\n...\nb\n", "a\n...\nc\nb\n", "Unreadable");
    }

    #[test]
    fn the_lines_of_a_region_are_counted_in_the_file() {
        let start = FILE.find("def b").unwrap();
        let found = changes(FILE.as_bytes(), b"def b():\n    return 0\n", &(start..FILE.len()), 8).unwrap();
        let [change] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(&FILE[change.range.clone()], "def b():\n    z = 3\n    return z\n");
        assert_eq!(change.new, b"def b():\n    return 0\n");
    }

    #[test]
    fn kept_lines_keep_their_bytes() {
        assert_eq!(apply("a  \nb\nc", "a\nB\nc\n").unwrap(), "a  \nB\nc");
        assert_eq!(apply("a\nb\nc", "# ...\nc\nd\n").unwrap(), "a\nb\nc\nd");
    }
}
