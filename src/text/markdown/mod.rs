//! Markdown sections: their limits, and replacing them.
//!
//! A section is a header and all that follows up to the next header of the same or a higher level. A CommonMark parser
//! finds the headers ([`outline()`]), [`find`] looks them up by name, and [`compose`] inserts new text and checks that
//! every other header is still one.

pub mod compose;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{BrokenLink, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use unicode_normalization::UnicodeNormalization as _;

use crate::limits::COMPARED_HEADERS_MAX;
use crate::text::checked::{slice_or_empty, str_or_empty};
use crate::text::content::UTF8_BOM;
use crate::text::lines::common_start;
use crate::text::similarity;

/// Separator of the parts of a header path.
const SEPARATOR: char = '>';
/// Characters of a title that are compared to find the nearest.
const COMPARED_CHARACTERS: usize = 120;

/// Name of a header, as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderName {
    /// Level, if the name has marks such as `##`.
    pub level: Option<u8>,
    /// Title as given, on one line.
    pub source: String,
    /// Title without markup.
    title: String,
}

impl HeaderName {
    /// Reads a name without marks: all of it is the title.
    fn of_title(text: &str) -> Self {
        Self { level: None, source: collapse_blanks(text), title: title_of(text) }
    }

    /// Reads a name with marks, if the text is itself a header: `## Title`, or one that is underlined.
    fn of_header(text: &str) -> Option<Self> {
        let line = format!("{}\n", text.trim());
        match outline(line.as_bytes()).as_slice() {
            [only] if only.span == (0..line.len()) => {
                Some(Self { level: Some(only.level), source: only.source.clone(), title: only.title.clone() })
            }
            _ => None,
        }
    }

    /// Reads a name: a header if it can be one, else a title.
    pub fn of(text: &str) -> Self {
        Self::of_header(text).unwrap_or_else(|| Self::of_title(text))
    }

    /// Returns true if a header as written has this name.
    fn is_written(&self, heading: &Heading) -> bool {
        self.has_level(heading) && is_same_title(&self.source, &heading.source)
    }

    /// Returns true if a header as shown has this name.
    fn is_shown(&self, heading: &Heading) -> bool {
        self.has_level(heading)
            && (is_same_title(&self.source, &heading.title) || is_same_title(&self.title, &heading.title))
    }

    /// Returns true if a header has this name, as written or as shown.
    fn is(&self, heading: &Heading) -> bool {
        self.is_written(heading) || self.is_shown(heading)
    }

    /// Returns true if a header has the level that the name asks for.
    fn has_level(&self, heading: &Heading) -> bool {
        self.level.is_none_or(|level| level == heading.level)
    }
}

/// Returns true if two titles look the same.
pub fn is_same_title(one: &str, other: &str) -> bool {
    one == other || one.nfc().eq(other.nfc())
}

/// Returns the headers that a text names, as indices of the outline, in order.
///
/// The text may be a title, a header with its marks, or a path such as `Top > Sub`. An exact match comes before one
/// that ignores markup, and a whole path before a partial one. Several results mean that the name is ambiguous.
pub fn find(headings: &[Heading], text: &str, level: Option<u8>) -> Vec<usize> {
    let has_level = |at: &usize| {
        level.is_none_or(|level| headings.get(*at).is_some_and(|heading| heading.level == level))
    };
    let names = HeaderName::of_header(text).into_iter().chain([HeaderName::of_title(text)]);
    for name in names {
        for fits in [HeaderName::is_written, HeaderName::is_shown] {
            let found: Vec<usize> = headings
                .iter()
                .enumerate()
                .filter_map(|(at, heading)| fits(&name, heading).then_some(at))
                .filter(has_level)
                .collect();
            if !found.is_empty() {
                return found;
            }
        }
    }
    let names = path_of(text);
    if names.len() < 2 {
        return Vec::new();
    }
    for fits in [is_whole_path, is_end_of_path, is_among_path] {
        let found: Vec<usize> =
            (0..headings.len()).filter(|&at| fits(&names, &chain(headings, at))).filter(has_level).collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Returns the names in a path such as `Top > Sub`; a text without a separator is one name.
pub fn path_of(text: &str) -> Vec<HeaderName> {
    split(text).into_iter().map(HeaderName::of).collect()
}

/// Returns the path above the last name of a path, and that name.
pub fn parent_of(text: &str) -> Option<(String, &str)> {
    let parts = split(text);
    let (last, above) = parts.split_last()?;
    (!above.is_empty()).then(|| (above.join(" > "), *last))
}

/// Splits a text at `>` between blanks.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(SEPARATOR) {
        let (before, after) = (str_or_empty(text, ..at), str_or_empty(text, at + 1..));
        if before.ends_with(char::is_whitespace) && after.starts_with(char::is_whitespace) {
            parts.push(str_or_empty(text, start..at).trim());
            start = at + 1;
        }
    }
    parts.push(str_or_empty(text, start..).trim());
    if parts.iter().any(|part| part.is_empty()) { Vec::new() } else { parts }
}

/// Returns a header and its ancestors, outermost first.
fn chain(headings: &[Heading], at: usize) -> Vec<&Heading> {
    let mut chain = Vec::new();
    let mut next = Some(at);
    while let Some(heading) = next.and_then(|at| headings.get(at)) {
        chain.push(heading);
        next = heading.parent;
    }
    chain.reverse();
    chain
}

/// Returns the path of a header, in the form that [`find`] accepts.
pub fn path_to(headings: &[Heading], at: usize) -> String {
    chain(headings, at).iter().map(|heading| heading.source.as_str()).collect::<Vec<_>>().join(" > ")
}

/// Returns true if the names match the whole chain.
fn is_whole_path(names: &[HeaderName], chain: &[&Heading]) -> bool {
    names.len() == chain.len() && is_end_of_path(names, chain)
}

/// Returns true if the names match the end of the chain.
fn is_end_of_path(names: &[HeaderName], chain: &[&Heading]) -> bool {
    names.len() <= chain.len()
        && names.iter().rev().zip(chain.iter().rev()).all(|(name, heading)| name.is(heading))
}

/// Returns true if the last name matches the last header of the chain, and the others match headers above it in order.
fn is_among_path(names: &[HeaderName], chain: &[&Heading]) -> bool {
    let (Some((last, names)), Some((heading, above))) = (names.split_last(), chain.split_last()) else {
        return false;
    };
    let mut above = above.iter();
    last.is(heading) && names.iter().all(|name| above.any(|heading| name.is(heading)))
}

/// Returns all headers, sorted by the similarity of their titles to `text`.
pub fn nearest(headings: &[Heading], text: &str) -> Vec<usize> {
    let last = split(text).pop().unwrap_or(text);
    let wanted = comparable(&HeaderName::of(last).source);
    let titles: Vec<String> = headings.iter().map(|heading| comparable(&heading.title)).collect();
    let mut similarity: Vec<(usize, f32)> = (0..titles.len()).map(|at| (at, 0.0)).collect();
    if titles.len() > COMPARED_HEADERS_MAX {
        // Of very many headers, compare the first ones with the longest common start.
        let begins_alike = |at: usize| {
            let same = |title: &String| common_start(wanted.as_bytes(), title.as_bytes());
            std::cmp::Reverse(titles.get(at).map_or(0, same))
        };
        similarity.sort_by_cached_key(|(at, _)| begins_alike(*at));
    }
    for (at, ratio) in similarity.iter_mut().take(COMPARED_HEADERS_MAX) {
        let title = titles.get(*at).map_or("", String::as_str);
        *ratio = similarity::ratio(&wanted, title);
    }
    similarity.sort_by(|one, other| other.1.total_cmp(&one.1));
    similarity.into_iter().map(|(at, _)| at).collect()
}

/// Returns the compared part of a title, in lowercase.
fn comparable(title: &str) -> String {
    title.chars().take(COMPARED_CHARACTERS).flat_map(char::to_lowercase).collect()
}

/// Returns the lines, from 1, that look like the header but are not one: they are in a code block, a list, a quotation
/// or a comment.
pub fn lines_like_header(text: &[u8], terminator: u8, header: &str) -> Vec<u64> {
    let wanted = HeaderName::of(header);
    let lines = text.split(|&byte| byte == terminator).zip(1_u64..);
    let is_alike = |line: &[u8]| {
        let line = line.trim_ascii();
        let line = line.strip_prefix(b"> ").or_else(|| line.strip_prefix(b"- ")).unwrap_or(line);
        line.starts_with(b"#")
            && HeaderName::of_header(&String::from_utf8_lossy(line)).is_some_and(|name| {
                is_same_title(&name.source, &wanted.source) || is_same_title(&name.title, &wanted.title)
            })
    };
    lines.filter(|(line, _)| is_alike(line)).map(|(_, number)| number).take(5).collect()
}

/// Byte that replaces an invalid UTF-8 byte for the parser; it has no meaning in Markdown.
const NO_TEXT: u8 = 0x1a;

/// A header at the top level of the text, not in a list, quotation or footnote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Level from 1, the highest, to 6.
    pub level: u8,
    /// Title as written, with markup, on one line.
    pub source: String,
    /// Title as shown, without markup.
    pub title: String,
    /// Byte range of its whole lines.
    pub span: Range<usize>,
    /// Parent header, as an index of the outline.
    pub parent: Option<usize>,
}

impl Heading {
    /// Returns the header in the form `## Title`.
    pub fn as_written(&self) -> String {
        let marks = "#".repeat(usize::from(self.level));
        if self.source.is_empty() { marks } else { format!("{marks} {}", self.source) }
    }
}

/// Returns the extensions of GitHub Markdown that affect headers and their titles.
fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_HEADING_ATTRIBUTES
        | Options::ENABLE_GFM
}

/// Parts that a header counts for, since its titles are stored as well.
const HEADER_PARTS: usize = 4;

/// Returns an upper bound of the parts of a text, which determine the size of its tree: lines, headers and marks.
pub fn parts(text: &[u8]) -> usize {
    let is_mark = |byte: &&u8| {
        matches!(**byte, b'*' | b'_' | b'`' | b'[' | b']' | b'<' | b'&' | b'\\' | b'~' | b'|' | b'\r')
    };
    let lines = text.split(|&byte| byte == b'\n');
    let of_line = |line: &[u8]| {
        let is_header =
            line.trim_ascii_start().first().is_some_and(|first| matches!(first, b'#' | b'=' | b'-'));
        1 + line.iter().filter(is_mark).count() + if is_header { HEADER_PARTS } else { 0 }
    };
    lines.map(of_line).sum()
}

/// Returns the headers of a text in order.
///
/// `text` may have any bytes: invalid UTF-8 bytes count as characters. Front matter at the start (between lines of
/// `---` or `+++`) is skipped. It takes one pass, and memory of a few times the text.
pub fn outline(text: &[u8]) -> Vec<Heading> {
    let start = front_matter(text);
    let body = slice_or_empty(text, start..);
    let parsed = parseable(body);
    let mut headings = Vec::new();
    let mut depth = 0_usize;
    let mut open: Option<OpenHeader> = None;
    for (event, range) in Parser::new_ext(&parsed, options()).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                open = Some(OpenHeader { level: number(level), title: String::new(), range });
            }
            Event::End(TagEnd::Heading(_)) if depth == 0 => {
                headings.extend(open.take().map(|open| open.heading(body, start)));
            }
            Event::Start(tag) if ends_container(tag.to_end()) => depth += 1,
            Event::End(tag) if ends_container(tag) => depth = depth.saturating_sub(1),
            other => {
                if let Some(open) = &mut open {
                    open.take(&other);
                }
            }
        }
    }
    add_parents(&mut headings);
    headings
}

/// Returns the end of the section of a header: the next header of the same or a higher level, else `end`.
pub fn end_of(headings: &[Heading], at: usize, end: usize) -> usize {
    let level = headings.get(at).map_or(0, |heading| heading.level);
    let next = headings.iter().skip(at + 1).find(|heading| heading.level <= level);
    next.map_or(end, |heading| heading.span.start)
}

/// Returns the shown form of a title: without markup, and on one line.
pub fn title_of(source: &str) -> String {
    let line = format!("# {}\n", collapse_blanks(source));
    outline(line.as_bytes()).pop().map(|heading| heading.title).unwrap_or_default()
}

/// Returns a text with each run of blanks and line ends as one space, and trimmed.
pub fn collapse_blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the length of the front matter at the start of a text, in bytes.
pub fn front_matter(text: &[u8]) -> usize {
    let start = if text.starts_with(UTF8_BOM) { UTF8_BOM.len() } else { 0 };
    let body = slice_or_empty(text, start..);
    let mut lines = crate::text::lines::lines(body);
    let mut length = start;
    let Some(first) = lines.next() else {
        return start;
    };
    length += first.len();
    let fence = first.trim_ascii_end();
    if !matches!(fence, b"---" | b"+++") {
        return start;
    }
    for (number, line) in lines.enumerate() {
        length += line.len();
        let line = line.trim_ascii_end();
        if number == 0 && line.is_empty() {
            // This is a thematic break and a paragraph.
            return start;
        }
        if line == fence || (fence == b"---" && line == b"...") {
            return length;
        }
    }
    start
}

/// Returns a text for the parser, with all bytes at the same offsets.
fn parseable(text: &[u8]) -> Cow<'_, str> {
    let has_bare_cr =
        memchr::memchr_iter(b'\r', text).any(|at| text.get(at + 1).is_none_or(|&next| next != b'\n'));
    let Ok(valid) = std::str::from_utf8(text) else {
        return Cow::Owned(with_line_feeds(without_invalid(text)));
    };
    if has_bare_cr { Cow::Owned(with_line_feeds(valid.to_owned())) } else { Cow::Borrowed(valid) }
}

/// Returns a text with each invalid UTF-8 byte replaced.
fn without_invalid(text: &[u8]) -> String {
    let mut valid = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        valid.push_str(chunk.valid());
        valid.extend(chunk.invalid().iter().map(|_| char::from(NO_TEXT)));
    }
    valid
}

/// Returns a text with an LF for each CR alone, which ends a line in CommonMark too.
fn with_line_feeds(text: String) -> String {
    let mut bytes = text.into_bytes();
    for at in 0..bytes.len() {
        if bytes.get(at) == Some(&b'\r')
            && bytes.get(at + 1) != Some(&b'\n')
            && let Some(byte) = bytes.get_mut(at)
        {
            *byte = b'\n';
        }
    }
    // ASCII replaced ASCII.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Returns true if a tag ends a container: a header inside it is not at the top level.
const fn ends_container(tag: TagEnd) -> bool {
    matches!(tag, TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::FootnoteDefinition)
}

/// Returns a level as a number.
const fn number(level: HeadingLevel) -> u8 {
    level as u8
}

/// A header that has not ended yet.
struct OpenHeader {
    /// Level of the header.
    level: u8,
    /// Title so far.
    title: String,
    /// Byte range.
    range: Range<usize>,
}

impl OpenHeader {
    /// Adds a part of the title.
    fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Text(text) | Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.title.push_str(text);
            }
            Event::SoftBreak | Event::HardBreak => self.title.push(' '),
            _ => {}
        }
    }

    /// Returns the header, for a text that begins at offset `start` of the whole one.
    fn heading(self, text: &[u8], start: usize) -> Heading {
        let span = whole_lines(text, &self.range);
        let source = source_of(slice_or_empty(text, self.range));
        Heading {
            level: self.level,
            source,
            title: display_title(&collapse_blanks(&self.title)),
            span: span.start + start..span.end + start,
            parent: None,
        }
    }
}

/// Returns the whole lines that a range of bytes touches.
fn whole_lines(text: &[u8], range: &Range<usize>) -> Range<usize> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let before = slice_or_empty(text, ..range.start);
    let start = before.iter().rposition(is_end).map_or(0, |at| at + 1);
    let mut end = range.end;
    // The range of the parser ends before or after the line ending.
    if !text.get(..end).and_then(<[u8]>::last).is_some_and(is_end) {
        let rest = slice_or_empty(text, end..);
        end += rest.iter().position(is_end).map_or(rest.len(), |at| at + 1);
    }
    if text.get(..end).is_some_and(|head| head.ends_with(b"\r")) && text.get(end) == Some(&b'\n') {
        end += 1;
    }
    start..end
}

/// Returns the title of a header as written.
fn source_of(lines: &[u8]) -> String {
    let text = String::from_utf8_lossy(lines);
    let text = text.trim();
    if text.starts_with('#') {
        let title = text.trim_start_matches('#').trim();
        let open = title.trim_end_matches('#');
        // Closing marks follow a blank, or are alone.
        let is_closed = open.len() < title.len() && (open.is_empty() || open.ends_with([' ', '\t']));
        return collapse_blanks(if is_closed { open } else { title });
    }
    let lines: Vec<&str> = text.lines().flat_map(|line| line.split('\r')).collect();
    let title = lines.split_last().map(|(_, title)| title.join(" ")).unwrap_or_default();
    collapse_blanks(&title)
}

/// Returns a title with invalid bytes shown as everywhere else.
fn display_title(title: &str) -> String {
    title.replace(char::from(NO_TEXT), "\u{fffd}")
}

/// Sets the parent of each header.
fn add_parents(headings: &mut [Heading]) {
    let mut above: Vec<(u8, usize)> = Vec::new();
    for (at, heading) in headings.iter_mut().enumerate() {
        above.retain(|&(level, _)| level < heading.level);
        heading.parent = above.last().map(|&(_, at)| at);
        above.push((heading.level, at));
    }
}

/// Returns the labels of link references that only the replaced text defined and that are still used.
pub fn lost_references(old: &[u8], new: &[u8]) -> Vec<String> {
    if memchr::memmem::find(old, b"]:").is_none() {
        return Vec::new();
    }
    let (old, new) = (parseable(old), parseable(new));
    let before = Parser::new_ext(&old, options());
    let after = Parser::new_ext(&new, options());
    let definitions = after.reference_definitions();
    let gone: Vec<String> = before
        .reference_definitions()
        .iter()
        .filter(|(label, _)| definitions.get(label).is_none())
        .map(|(label, _)| label.to_lowercase())
        .collect();
    if gone.is_empty() {
        return Vec::new();
    }
    let mut used = BTreeSet::new();
    let note = |link: BrokenLink<'_>| {
        let label = link.reference.to_lowercase();
        if gone.contains(&label) {
            used.insert(label);
        }
        None
    };
    Parser::new_with_broken_link_callback(&new, options(), Some(note)).for_each(drop);
    used.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_does_not_shift_headings() {
        let text = b"\xef\xbb\xbf# caf\xe9\r\n\xff\xfe\r\n\r\nFoo\r\n---\r\nx";
        let headings = outline(text);
        let spans: Vec<&[u8]> = headings.iter().map(|it| text.get(it.span.clone()).unwrap()).collect();
        assert_eq!(spans, [&b"# caf\xe9\r\n"[..], b"Foo\r\n---\r\n"]);
        assert_eq!(headings.first().unwrap().title, "caf\u{fffd}");
        assert_eq!(headings.last().unwrap().parent, Some(0));
    }
}
