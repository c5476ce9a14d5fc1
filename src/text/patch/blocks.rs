//! SEARCH/REPLACE blocks.

use similar::DiffTag;

use super::lines::{Line, lines};
use super::model::{Body, FilePatch, Format, Hunk, HunkLine, Kind, Operation, Prefix};
use super::signs::{marker, other_format, search_marker};
use super::source::{ParseError, Source};
use crate::text::line_diff;

/// One block: what to look for and what to put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The lines to find, each with its ending; may be empty.
    pub search: Vec<u8>,
    /// The lines to put in their place, each with its ending; may be empty.
    pub replace: Vec<u8>,
    /// Line of the text where the block begins, from 1.
    pub line: usize,
}

/// A block in the text, by its lines' indices.
struct Span {
    /// Index of `<<<<<<< SEARCH`.
    start: usize,
    /// Index of `=======`.
    divider: usize,
    /// Index of `>>>>>>> REPLACE`.
    end: usize,
}

/// Reads `<<<<<<< SEARCH`, `=======`, `>>>>>>> REPLACE` blocks; what stands outside them is ignored.
///
/// The markers of one block have the same length, at least seven, so that text with such lines
/// can be enclosed in longer ones.
///
/// # Errors
/// A block that does not end, and a text without blocks.
pub fn search_replace_blocks(text: &[u8]) -> Result<Vec<Block>, ParseError> {
    let source = Source::new(text);
    let content = |from: usize, to: usize| {
        (from + 1..to).filter_map(|index| source.raw(index)).collect::<Vec<_>>().concat()
    };
    let blocks: Vec<_> = spans(&source)?
        .iter()
        .map(|span| Block {
            search: content(span.start, span.divider),
            replace: content(span.divider, span.end),
            line: span.start + 1,
        })
        .collect();
    if blocks.is_empty() {
        return Err(ParseError::at(0, "there is no `<<<<<<< SEARCH` block here"));
    }
    Ok(blocks)
}

/// Reads each block as the change of a file: the one named before it, or that of the block before.
///
/// # Errors
/// As [`search_replace_blocks`].
pub(super) fn parse<'a>(source: &Source<'a>) -> Result<Vec<FilePatch<'a>>, ParseError> {
    let mut path: Option<Vec<u8>> = None;
    let mut after = 0;
    let mut files = Vec::new();
    for span in spans(source)? {
        path = path_before(source, after, span.start).or(path);
        after = span.end + 1;
        files.push(file(source, &span, path.as_ref()));
    }
    Ok(files)
}

/// Finds the blocks.
fn spans(source: &Source<'_>) -> Result<Vec<Span>, ParseError> {
    let mut spans = Vec::new();
    let mut index = 0;
    while let Some(text) = source.text(index) {
        if let Some(message) = other_format(source, index, Format::SearchReplace) {
            return Err(ParseError::at(index, message));
        }
        if let Some(length) = search_marker(text) {
            let span = span(source, index, length)?;
            index = span.end;
            spans.push(span);
        }
        index += 1;
    }
    Ok(spans)
}

/// The block that begins at `start` with markers of `length`.
fn span(source: &Source<'_>, start: usize, length: usize) -> Result<Span, ParseError> {
    let find = |from: usize, letter: u8, word: &[u8]| {
        (from..source.len())
            .find(|index| source.text(*index).is_some_and(|text| marker(text, letter, word) == Some(length)))
    };
    let missing = |letter: &str, word: &str| {
        ParseError::at(start, format!("this block has no `{}{word}` line", letter.repeat(length)))
    };
    let divider = find(start + 1, b'=', b"").ok_or_else(|| missing("=", ""))?;
    let end = find(divider + 1, b'>', b"REPLACE").ok_or_else(|| missing(">", " REPLACE"))?;
    let again = find(start + 1, b'<', b"SEARCH").filter(|again| *again < end);
    match again {
        Some(again) => {
            Err(ParseError::at(again, "a block begins inside another; use longer markers for such text"))
        }
        None => Ok(Span { start, divider, end }),
    }
}

/// The path on the last line before `start` that is neither empty nor a fence.
fn path_before(source: &Source<'_>, after: usize, start: usize) -> Option<Vec<u8>> {
    let line = (after..start)
        .rev()
        .filter_map(|index| source.text(index))
        .map(<[u8]>::trim_ascii)
        .find(|text| !text.is_empty() && !text.starts_with(b"```") && !text.starts_with(b"~~~"))?;
    let bare = |byte: &u8| matches!(byte, b'`' | b'*' | b'#' | b':' | b' ');
    let begin = line.iter().position(|byte| !bare(byte))?;
    let end = line.iter().rposition(|byte| !bare(byte))?;
    let path = line.get(begin..=end)?;
    let is_quoted = begin > 0 && line.get(begin - 1) == Some(&b'`');
    (is_quoted || !path.contains(&b' ')).then(|| path.to_vec())
}

/// One block as the change of a file; nothing to search for makes a new one.
fn file<'a>(source: &Source<'a>, span: &Span, path: Option<&Vec<u8>>) -> FilePatch<'a> {
    let crlf = source.ends_in_crlf(span.start);
    let part = |from: usize, to: usize| -> Vec<Line<'a>> {
        (from + 1..to)
            .filter_map(|index| source.raw(index))
            .flat_map(lines)
            .map(|line| if crlf { Line { ending: super::lines::Ending::Lf, ..line } } else { line })
            .collect()
    };
    let (search, replace) = (part(span.start, span.divider), part(span.divider, span.end));
    let is_new = search.is_empty();
    let hunk = Hunk {
        patch_line: span.start + 1,
        counts_match: true,
        lines: hunk_lines(&search, &replace),
        ..Hunk::default()
    };
    FilePatch {
        operation: if is_new { Operation::Create } else { Operation::Modify },
        old_path: path.filter(|_| !is_new).cloned(),
        new_path: path.cloned(),
        prefix: Prefix::Unknown,
        body: Body::Hunks(if hunk.lines.is_empty() { Vec::new() } else { vec![hunk] }),
        ..FilePatch::at(span.start)
    }
}

/// The difference of the two texts, so that lines in both are context and keep the file's bytes.
fn hunk_lines<'a>(search: &[Line<'a>], replace: &[Line<'a>]) -> Vec<HunkLine<'a>> {
    let key = |lines: &[Line<'a>]| lines.iter().map(|line| line.text).collect::<Vec<_>>();
    let mut all = Vec::new();
    for step in line_diff::diff(&key(search), &key(replace)).ops {
        let (tag, old, new) = step.as_tag_tuple();
        let mut add = |lines: Option<&[Line<'a>]>, kind| {
            let lines = lines.unwrap_or_default().iter();
            all.extend(lines.map(|line| HunkLine { kind, text: line.text, ending: line.ending }));
        };
        if tag == DiffTag::Equal {
            add(search.get(old), Kind::Context);
        } else {
            add(search.get(old), Kind::Removed);
            add(replace.get(new), Kind::Added);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_among_prose() {
        let blocks = search_replace_blocks(
            b"Here:\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\nand\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n",
        )
        .unwrap();
        assert_eq!(blocks.len(), 2);
        assert_eq!(
            (&blocks[0].search[..], &blocks[0].replace[..], blocks[0].line),
            (&b"a\n"[..], &b"b\n"[..], 2)
        );
        assert_eq!((&blocks[1].search[..], &blocks[1].replace[..]), (&b""[..], &b""[..]));
    }

    #[test]
    fn longer_markers_enclose_shorter_ones() {
        let text =
            b"<<<<<<<<< SEARCH\n=======\n<<<<<<< SEARCH\n=========\n>>>>>>> REPLACE\n>>>>>>>>> REPLACE\n";
        let blocks = search_replace_blocks(text).unwrap();
        assert_eq!(blocks[0].search, b"=======\n<<<<<<< SEARCH\n");
        assert_eq!(blocks[0].replace, b">>>>>>> REPLACE\n");
    }

    #[test]
    fn a_block_must_end() {
        assert_eq!(search_replace_blocks(b"\n<<<<<<< SEARCH\na\n=======\nb\n").unwrap_err().line, 2);
        assert!(search_replace_blocks(b"<<<<<<< SEARCH\na\n").is_err());
        assert!(search_replace_blocks(b"nothing\n").is_err());
        let nested = b"<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n=======\nb\n>>>>>>> REPLACE\n";
        assert_eq!(search_replace_blocks(nested).unwrap_err().line, 3);
    }

    #[test]
    fn the_path_is_the_line_before() {
        let path = |before: &str| {
            let text = format!("{before}<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n");
            parse(&Source::new(text.as_bytes())).unwrap()[0].new_path.clone()
        };
        assert_eq!(path("src/a.rs\n").unwrap(), b"src/a.rs");
        assert_eq!(path("**`my file.txt`:**\n```rust\n").unwrap(), b"my file.txt");
        assert_eq!(path("Change this please:\n"), None);
        assert_eq!(path(""), None);
    }
}
