//! The block round a line, by indentation.

use super::lines::without_ending;

/// Columns to the next tab stop.
const TAB_COLUMNS: usize = 8;

/// The first and the last line of the block that encloses line `at`, as indices of `lines`.
///
/// The block is the nearest line above that is indented less (a header such as `fn f() {` or `if x:`)
/// with all that is indented more below it, the line that closes it, and the comments and attributes
/// right above it. A line with more indented ones below it is itself such a header. Outside of all
/// blocks it is the paragraph round the line. Blank lines count as part of what they stand in.
#[must_use]
pub fn enclosing(lines: &[&[u8]], at: usize) -> (usize, usize) {
    let Some(at) = nearest_text(lines, at) else {
        return (at, at);
    };
    let Some(own) = lines.get(at).and_then(|line| indent(line)) else {
        return (at, at);
    };
    let header = if is_header(lines, at, own) {
        Some(at)
    } else {
        (0..at).rev().find(|&above| indent_at(lines, above).is_some_and(|indent| indent < own))
    };
    match header {
        Some(header) => block_of(lines, header),
        None => paragraph(lines, at),
    }
}

/// The line itself, or where it is blank the next one with text, else the one before.
fn nearest_text(lines: &[&[u8]], at: usize) -> Option<usize> {
    let has_text = |&line: &usize| indent_at(lines, line).is_some();
    (at..lines.len()).find(has_text).or_else(|| (0..at.min(lines.len())).rev().find(has_text))
}

/// Whether the next line with text is indented more.
fn is_header(lines: &[&[u8]], at: usize, own: usize) -> bool {
    let next = (at + 1..lines.len()).find_map(|below| indent_at(lines, below));
    next.is_some_and(|next| next > own)
}

/// A header with what belongs to it.
fn block_of(lines: &[&[u8]], header: usize) -> (usize, usize) {
    let own = indent_at(lines, header).unwrap_or_default();
    let mut end = header;
    for below in header + 1..lines.len() {
        match indent_at(lines, below) {
            None => {}
            Some(indent) if indent > own => end = below,
            Some(indent) => {
                if indent == own && lines.get(below).is_some_and(|line| closes(line)) {
                    end = below;
                }
                break;
            }
        }
    }
    let above = (0..header).rev().take_while(|&above| {
        indent_at(lines, above) == Some(own) && lines.get(above).is_some_and(|line| belongs_below(line))
    });
    (above.last().unwrap_or(header), end)
}

/// The lines round `at` up to the next blank ones.
fn paragraph(lines: &[&[u8]], at: usize) -> (usize, usize) {
    let start = (0..at).rev().take_while(|&line| indent_at(lines, line).is_some()).last();
    let end = (at..lines.len()).take_while(|&line| indent_at(lines, line).is_some()).last();
    (start.unwrap_or(at), end.unwrap_or(at))
}

/// Whether a line ends the block above it.
fn closes(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    text.starts_with(b"}")
        || text.starts_with(b")")
        || text.starts_with(b"]")
        || text.starts_with(b"</")
        || [&b"end"[..], b"fi", b"done", b"esac"].iter().any(|word| {
            text.strip_prefix(*word)
                .is_some_and(|rest| rest.first().is_none_or(|next| !next.is_ascii_alphanumeric()))
        })
}

/// Whether a line is a comment, an attribute or a decorator of what comes next.
fn belongs_below(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    [&b"//"[..], b"#", b"/*", b"*", b"@", b"--", b";;"].iter().any(|start| text.starts_with(start))
}

/// Columns before the text of line `at`; `None` where it is blank or is not there.
fn indent_at(lines: &[&[u8]], at: usize) -> Option<usize> {
    lines.get(at).and_then(|line| indent(line))
}

/// Columns before the text of a line; `None` where it is blank.
fn indent(line: &[u8]) -> Option<usize> {
    let mut columns = 0;
    for byte in without_ending(line) {
        match byte {
            b' ' => columns += 1,
            b'\t' => columns += TAB_COLUMNS - columns % TAB_COLUMNS,
            _ => return Some(columns),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The block round a line, both from 1.
    fn around(text: &str, line: usize) -> (usize, usize) {
        let lines: Vec<&[u8]> = text.as_bytes().split_inclusive(|&byte| byte == b'\n').collect();
        let (first, last) = enclosing(&lines, line - 1);
        (first + 1, last + 1)
    }

    #[test]
    fn the_block_round_a_line_is_that_of_its_indentation() {
        let rust = "use x;\n\n/// Adds.\n#[inline]\nfn add() {\n    one();\n\n    if two {\n        three();\n    }\n}\n\nfn b() {}\n";
        for (line, wanted) in [
            (1, (1, 1)),
            (5, (3, 11)),
            (6, (3, 11)),
            (7, (8, 10)),
            (8, (8, 10)),
            (9, (8, 10)),
            (13, (13, 13)),
        ] {
            assert_eq!(around(rust, line), wanted, "line {line}");
        }
        let python =
            "class A:\n    @x\n    def f(self):\n        a\n\n        b\n\n    def g(self):\n\tpass\n";
        for (line, wanted) in [(1, (1, 9)), (4, (2, 6)), (6, (2, 6)), (3, (2, 6)), (9, (8, 9))] {
            assert_eq!(around(python, line), wanted, "line {line}");
        }
        assert_eq!(around("a\nb\n\nc\n", 2), (1, 2));
        assert_eq!(around("\n\n", 1), (1, 1));
        assert_eq!(around("if x; then\n  y\nfi\nz\n", 2), (1, 3));
    }
}
