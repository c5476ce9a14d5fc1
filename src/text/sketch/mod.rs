//! A sketch: the new text of a file or of a region of it, with marker lines for unchanged parts.
//!
//! Markers cut the sketch into parts. Unchanged lines place a part in the file: each run of them must match in one
//! place only, and all in order. Everything between the first and the last such line becomes the text of the part;
//! everything between parts stays. Lines of a part before its first or after its last unchanged line are new: they are
//! inserted there, or replace the whole block that begins there. A sketch is refused if two readings give different
//! texts.

mod index;
mod place;

use std::ops::Range;

use crate::text::checked::{Fault, slice};

pub use index::Part;

/// Reason why a sketch is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be read, for any file.
    Unreadable {
        /// Line of the sketch, from 1.
        line: usize,
        /// Reason.
        why: String,
    },
    /// A part has no place in the file.
    NoPlace {
        /// Part without a place.
        part: Which,
        /// Reason.
        why: String,
    },
    /// A part has several places or meanings.
    Ambiguous {
        /// Ambiguous part.
        part: Which,
        /// Doubt, and how to resolve it.
        why: String,
        /// Lines of the file in question, from 1.
        lines: Vec<usize>,
    },
    /// The text cannot be built.
    Fault(Fault),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Identification of a part of a sketch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Which {
    /// Number of the part, from 1.
    pub number: usize,
    /// First and last line in the sketch, from 1.
    pub lines: (usize, usize),
    /// First line.
    pub text: String,
}

/// One change that a sketch makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SketchChange {
    /// Bytes of the text that are replaced: whole lines.
    pub range: Range<usize>,
    /// Replacement.
    pub new: Vec<u8>,
    /// Runs of lines, from 1, that are removed without a replacement.
    pub left_out: Vec<(usize, usize)>,
}

/// Returns the changes that `sketch` makes within a range of lines of `text`; both have LF line endings.
///
/// `within` is the byte range of whole lines, the first of which has the number `first_line`.
///
/// # Errors
/// Returns a [`Refusal`] that names the part.
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
        let found = slice(&file, span.clone())?;
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
    /// Returns the refusal with line numbers of the whole file, for a region that begins at `first_line`.
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

    /// Returns the file after a sketch.
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
    fn sketch_parts_replace_text_between_unchanged_lines() {
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
    fn sketch_with_several_parts_changes_several_places() {
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
    fn sketch_equal_to_the_file_changes_nothing() {
        assert_eq!(apply(FILE, FILE).unwrap(), FILE);
        assert_eq!(
            apply(FILE, "import os\n\n# ... existing code ...\n\ndef c():\n    return 9\n").unwrap(),
            FILE
        );
        assert_eq!(apply(FILE, "# ...\n# ... existing ...\ndef b():\n# ...\n\n# ...\n").unwrap(), FILE);
    }

    #[test]
    fn ambiguous_sketch_is_rejected() {
        let refused = |file: &str, sketch: &str, what: &str| {
            let refusal = apply(file, sketch).unwrap_err();
            assert!(format!("{refusal:?}").starts_with(what), "{sketch}\n{refusal:?}");
        };
        let e = "# ... existing code ...";
        refused(FILE, e, "Unreadable");
        refused(FILE, &format!("{e}\nnew = 1\n{e}\n"), "NoPlace");
        refused(FILE, &format!("new = 1\n{e}\n"), "NoPlace");
        // These lines may replace others, or be inserted before them.
        refused(FILE, &format!("{e}\ndef a():\n    x = 5\n    {e}\n"), "Ambiguous");
        refused(FILE, &format!("{e}\n    return 8\n\ndef c():\n{e}"), "Ambiguous");
        // The line occurs twice in the file.
        refused("a\nb\na\nb\n", "# ...\na\nc\n# ...\n", "Ambiguous");
        // The order differs.
        refused(FILE, &format!("def b():\n{e}\ndef a():\n    x = 2\n    y = 2\n{e}"), "NoPlace");
        refused(FILE, &format!("{e}\n    z = 3\n    x = 1\n{e}"), "NoPlace");
        // The unchanged lines belong to two blocks.
        refused(RUST, "// ...\n    one();\n    two();\n// ...\n", "Ambiguous");
        // The marker is a line of the file.
        refused("a\n...\nb\n", "a\n...\nc\nb\n", "Unreadable");
    }

    #[test]
    fn sketch_of_a_region_returns_file_offsets() {
        let start = FILE.find("def b").unwrap();
        let found = changes(FILE.as_bytes(), b"def b():\n    return 0\n", &(start..FILE.len()), 8).unwrap();
        let [change] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(&FILE[change.range.clone()], "def b():\n    z = 3\n    return z\n");
        assert_eq!(change.new, b"def b():\n    return 0\n");
    }

    #[test]
    fn sketch_keeps_the_bytes_of_unchanged_lines() {
        assert_eq!(apply("a  \nb\nc", "a\nB\nc\n").unwrap(), "a  \nB\nc");
        assert_eq!(apply("a\nb\nc", "# ...\nc\nd\n").unwrap(), "a\nb\nc\nd");
    }
}
