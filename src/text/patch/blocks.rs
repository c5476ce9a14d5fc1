//! SEARCH/REPLACE blocks.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use similar::DiffTag;

use super::model::{
    FileOp, FilePatch, Format, Hunk, HunkLine, LineKind, PatchBody, PathPrefix, TextLine, lines,
};
use super::source::{ParseError, PatchLines, marker, other_format, search_marker};
use crate::limits::BLOCK_DIVIDERS_MAX;
use crate::text::checked::slice_or_empty;
use crate::text::line_diff;
use crate::text::lines::at_line_feeds;
use crate::text::replace::LfText;

/// Function that returns the text of the file that a block names, if it exists. The text decides which of several
/// lines divides the block.
pub type ReadText<'t> = &'t dyn Fn(Option<&[u8]>) -> Option<Vec<u8>>;

/// One block: text to find, and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchBlock {
    /// Lines to find, each with its ending; may be empty.
    pub search: Vec<u8>,
    /// Lines of the replacement, each with its ending; may be empty.
    pub replace: Vec<u8>,
    /// Line of the text where the block begins, from 1.
    pub line: usize,
    /// First and last line of the old text in the file as the block states them, from 1.
    pub lines: Option<(u64, u64)>,
}

/// A block in the text, by the indices of its lines.
struct BlockSpan {
    /// Index of `<<<<<<< SEARCH`.
    start: usize,
    /// Index of the last line before the old text: the marker, or the end of a hint.
    head: usize,
    /// Index of `=======`.
    divider: usize,
    /// Index of `>>>>>>> REPLACE`.
    end: usize,
    /// Line of the old text in the file according to the hint `:start_line:`, from 1.
    hint: Option<u64>,
}

/// A block, and the path of its file, if the text names one.
type FileBlockSpan = (BlockSpan, Option<Vec<u8>>);

/// Reads `<<<<<<< SEARCH`, `=======`, `>>>>>>> REPLACE` blocks and ignores all text outside them.
///
/// The markers of one block have the same length, at least seven, so that longer ones can enclose text with such lines.
/// Of several dividers, the one whose old text is in the file counts.
///
/// # Errors
/// Fails if a block does not end or cannot be divided in exactly one way, or if there are no blocks.
pub fn search_replace_blocks(text: &[u8], text_of: ReadText<'_>) -> Result<Vec<SearchBlock>, ParseError> {
    let source = PatchLines::new(text);
    let blocks: Vec<_> = spans(&source, &mut FileTexts::of(text_of))?
        .into_iter()
        .map(|(span, _)| {
            let search = source.between(span.head, span.divider);
            let count = at_line_feeds(&search).count() as u64;
            let lines = span.hint.map(|first| (first, first.saturating_add(count.saturating_sub(1))));
            SearchBlock {
                search,
                replace: source.between(span.divider, span.end),
                line: span.start + 1,
                lines,
            }
        })
        .collect();
    if blocks.is_empty() {
        return Err(ParseError::at(0, "there is no `<<<<<<< SEARCH` block here"));
    }
    Ok(blocks)
}

/// Reads each block as the change of a file: the one named before it, or that of the previous block.
///
/// # Errors
/// Fails as [`search_replace_blocks`] does, or if a hint names another place than that of the old text.
pub(super) fn parse<'a>(
    source: &PatchLines<'a>,
    text_of: ReadText<'_>,
) -> Result<Vec<FilePatch<'a>>, ParseError> {
    let mut files = Vec::new();
    let mut texts = FileTexts::of(text_of);
    for (span, path) in spans(source, &mut texts)? {
        if let Some(line) = span.hint
            && let Some(text) = texts.get(path.as_ref())
        {
            let search = source.between(span.head, span.divider);
            if !text.has_at(&search, line) {
                return Err(ParseError::at(
                    span.start,
                    format!("the old text is not at line {line} of the file"),
                ));
            }
        }
        files.push(file(source, &span, path.as_ref()));
    }
    Ok(files)
}

/// Finds the blocks, each with its path.
fn spans(source: &PatchLines<'_>, texts: &mut FileTexts<'_>) -> Result<Vec<FileBlockSpan>, ParseError> {
    let (mut spans, mut path, mut after) = (Vec::new(), None, 0);
    let mut index = 0;
    while let Some(text) = source.text(index) {
        if let Some(message) = other_format(source, index, Format::SearchReplace) {
            return Err(ParseError::at(index, message));
        }
        if let Some(length) = search_marker(text) {
            path = path_before(source, after, index).or(path);
            let span = span(source, (index, length), &mut || texts.get(path.as_ref()))?;
            (index, after) = (span.end, span.end + 1);
            spans.push((span, path.clone()));
        }
        index += 1;
    }
    Ok(spans)
}

/// Reads the block that begins at `start` with markers of `length`.
fn span(
    source: &PatchLines<'_>,
    (start, length): (usize, usize),
    file: &mut dyn FnMut() -> Option<Rc<FileText>>,
) -> Result<BlockSpan, ParseError> {
    let is = |index: usize, letters: &[u8], word: &[u8]| {
        let text = source.text(index).unwrap_or_default();
        letters.iter().any(|letter| marker(text, *letter, word) == Some(length))
    };
    let find =
        |letters: &[u8], word: &[u8]| (start + 1..source.len()).find(|index| is(*index, letters, word));
    let missing = |letter: &str, word: &str| {
        ParseError::at(start, format!("this block has no `{}{word}` line", letter.repeat(length)))
    };
    let (head, hint) = hint(source, start);
    let first = find(b"=", b"").ok_or_else(|| missing("=", ""))?;
    let end = find(b">+", b"REPLACE").filter(|end| *end > first);
    let end = end.ok_or_else(|| missing(">", " REPLACE"))?;
    if let Some(again) = find(b"<-", b"SEARCH").filter(|again| *again < end) {
        return Err(ParseError::at(again, "a block begins inside another; use longer markers for such text"));
    }
    let inner = conflicts(source, head + 1..end, length);
    let conflict = |index: &usize| inner.get(inner.partition_point(|conflict| conflict.end <= *index));
    let divides =
        |index: &usize| is(*index, b"=", b"") && !conflict(index).is_some_and(|inner| inner.contains(index));
    let dividers: Vec<usize> = (head + 1..end).filter(divides).collect();
    let divider = if let [only] = dividers.as_slice() {
        *only
    } else if dividers.is_empty() {
        return Err(missing("=", ""));
    } else if dividers.len() > BLOCK_DIVIDERS_MAX {
        return Err(divider_error(start, length, dividers.len(), "these are too many to try"));
    } else {
        let file = file().unwrap_or_default();
        let fits = |divider: &&usize| {
            let search = source.between(head, **divider);
            !search.is_empty() && hint.map_or_else(|| file.has(&search), |line| file.has_at(&search, line))
        };
        let mut fitting = dividers.iter().filter(fits);
        let why = match (fitting.next(), fitting.next()) {
            (Some(only), None) => return Ok(BlockSpan { start, head, divider: *only, end, hint }),
            (Some(_), _) => "the file has the old text of several",
            (None, _) => "the file has the old text of none",
        };
        return Err(divider_error(start, length, dividers.len(), why));
    };
    Ok(BlockSpan { start, head, divider, end, hint })
}

/// Returns the merge conflicts among some lines, from `<<<<<<< NAME` to `>>>>>>> NAME`: a divider inside one does not
/// divide a block.
fn conflicts(source: &PatchLines<'_>, lines: Range<usize>, length: usize) -> Vec<Range<usize>> {
    let is = |index: usize, letter: u8| {
        let text = source.text(index).unwrap_or_default();
        text.iter().take_while(|byte| **byte == letter).count() == length
            && text.get(length).is_none_or(|byte| *byte == b' ')
    };
    let (mut found, mut begun) = (Vec::new(), None);
    for index in lines {
        if is(index, b'<') {
            begun = Some(index);
        } else if let Some(start) = begun.filter(|_| is(index, b'>')) {
            found.push(start..index);
            begun = None;
        }
    }
    found
}

/// Returns the error for a block that has several dividers.
fn divider_error(start: usize, length: usize, dividers: usize, why: &str) -> ParseError {
    let (divider, longer) = ("=".repeat(length), "<".repeat(length + 2));
    ParseError::at(
        start,
        format!(
            "this block has {dividers} lines `{divider}`, and {why}: use longer markers, all of one length, such as \
             `{longer} SEARCH`"
        ),
    )
}

/// Returns the index before the old text of a block, and the line of the file that a hint names for it:
/// `:start_line:N`, perhaps `:end_line:N`, and a line of dashes.
fn hint(source: &PatchLines<'_>, start: usize) -> (usize, Option<u64>) {
    let number = |index: usize, name: &[u8]| {
        let rest = source.text(index)?.trim_ascii().strip_prefix(name)?;
        std::str::from_utf8(rest).ok()?.trim().parse::<u64>().ok()
    };
    let Some(line) = number(start + 1, b":start_line:") else { return (start, None) };
    let last = if number(start + 2, b":end_line:").is_some() { start + 2 } else { start + 1 };
    let is_rule = source.text(last + 1).is_some_and(|text| marker(text, b'-', b"").is_some());
    (if is_rule { last + 1 } else { last }, Some(line))
}

/// Texts of the files that blocks name, each read once.
struct FileTexts<'t> {
    /// Function that reads a file.
    text_of: ReadText<'t>,
    /// Files read so far.
    known: HashMap<Option<Vec<u8>>, Option<Rc<FileText>>>,
}

impl<'t> FileTexts<'t> {
    /// Creates the collection without a file.
    fn of(text_of: ReadText<'t>) -> Self {
        Self { text_of, known: HashMap::new() }
    }

    /// Returns the text of a file, if it exists.
    fn get(&mut self, path: Option<&Vec<u8>>) -> Option<Rc<FileText>> {
        let read = || (self.text_of)(path.map(Vec::as_slice)).map(|text| Rc::new(FileText::of(&text)));
        self.known.entry(path.cloned()).or_insert_with(read).clone()
    }
}

/// Text of a file, to search in without regard to line endings.
#[derive(Default)]
struct FileText {
    /// Text with line feeds only.
    text: Vec<u8>,
    /// Offsets at which a line begins.
    starts: Vec<usize>,
}

impl FileText {
    /// Flattens the bytes of a file.
    fn of(bytes: &[u8]) -> Self {
        let text = LfText::of(bytes).text.into_owned();
        let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', &text).map(|at| at + 1)).collect();
        Self { text, starts }
    }

    /// Returns true if it contains these lines.
    fn has(&self, lines: &[u8]) -> bool {
        memchr::memmem::find(&self.text, &LfText::of(lines).text).is_some()
    }

    /// Returns true if these lines begin at line `line`, from 1.
    fn has_at(&self, lines: &[u8], line: u64) -> bool {
        let lines = LfText::of(lines).text;
        let before = usize::try_from(line).ok().and_then(|line| line.checked_sub(1));
        let start = before.and_then(|before| self.starts.get(before));
        let rest = start.map_or(&[][..], |start| slice_or_empty(&self.text, *start..));
        rest.starts_with(&lines) || lines.strip_suffix(b"\n").is_some_and(|lines| rest == lines)
    }
}

/// Returns the path on the last line before `start` that is neither empty nor a fence.
fn path_before(source: &PatchLines<'_>, after: usize, start: usize) -> Option<Vec<u8>> {
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

/// Returns one block as the change of a file; an empty old text creates a new file.
fn file<'a>(source: &PatchLines<'a>, span: &BlockSpan, path: Option<&Vec<u8>>) -> FilePatch<'a> {
    let crlf = source.ends_in_crlf(span.start);
    let part = |from: usize, to: usize| -> Vec<TextLine<'a>> {
        (from + 1..to)
            .filter_map(|index| source.raw(index))
            .flat_map(lines)
            .map(|line| if crlf { TextLine { ending: super::model::Ending::Lf, ..line } } else { line })
            .collect()
    };
    let (search, replace) = (part(span.head, span.divider), part(span.divider, span.end));
    let is_new = search.is_empty();
    let hunk = Hunk {
        patch_line: span.start + 1,
        old_start: span.hint.and_then(|line| usize::try_from(line).ok()),
        counts_match: true,
        lines: hunk_lines(&search, &replace),
        ..Hunk::default()
    };
    FilePatch {
        operation: if is_new { FileOp::Create } else { FileOp::Modify },
        old_path: path.filter(|_| !is_new).cloned(),
        new_path: path.cloned(),
        prefix: PathPrefix::Unknown,
        body: PatchBody::Hunks(if hunk.lines.is_empty() { Vec::new() } else { vec![hunk] }),
        ..FilePatch::at(span.start)
    }
}

/// Returns the difference of the two texts, so that lines in both are context and keep the bytes of the file.
fn hunk_lines<'a>(search: &[TextLine<'a>], replace: &[TextLine<'a>]) -> Vec<HunkLine<'a>> {
    let key = |lines: &[TextLine<'a>]| lines.iter().map(|line| line.text).collect::<Vec<_>>();
    let mut all = Vec::new();
    for step in line_diff::diff(&key(search), &key(replace)).ops {
        let (tag, old, new) = step.as_tag_tuple();
        let mut add = |lines: Option<&[TextLine<'a>]>, kind| {
            let lines = lines.unwrap_or_default().iter();
            all.extend(lines.map(|line| HunkLine { kind, text: line.text, ending: line.ending }));
        };
        if tag == DiffTag::Equal {
            add(search.get(old), LineKind::Context);
        } else {
            add(search.get(old), LineKind::Removed);
            add(replace.get(new), LineKind::Added);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_with_many_dividers_is_refused_untried() {
        let block =
            |dividers| format!("<<<<<<< SEARCH\na\n{}b\n>>>>>>> REPLACE\n", "=======\n".repeat(dividers));
        let asked = std::cell::Cell::new(0);
        let read = |_: Option<&[u8]>| {
            asked.set(asked.get() + 1);
            None
        };
        for (dividers, why) in [(2, "the old text of none"), (BLOCK_DIVIDERS_MAX + 1, "too many to try")] {
            let error = search_replace_blocks(block(dividers).as_bytes(), &read).unwrap_err();
            assert!(error.message.contains(why), "{error:?}");
        }
        assert_eq!(asked.get(), 1);
        // The blocks of one file read it once.
        let read = |_: Option<&[u8]>| read(None).or_else(|| Some(b"a\n".to_vec()));
        let blocks = search_replace_blocks(block(2).repeat(9).as_bytes(), &read).unwrap();
        assert_eq!((blocks.len(), asked.get()), (9, 2));
        assert_eq!(parse(&PatchLines::new(block(2).repeat(9).as_bytes()), &read).unwrap().len(), 9);
        assert_eq!(asked.get(), 3);
    }
}
