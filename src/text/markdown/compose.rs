//! Replacement of a section, with correct blank lines around it.
//!
//! It keeps every byte outside the section. Inside, it keeps the header, the blank lines after it, and those before the
//! next header. If there are none to keep, one blank line is added on either side. Blank lines at both ends of the new
//! text are dropped.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::{Heading, end_of, is_same_title, options, outline, parseable};
use crate::text::checked::{TextFault, must_fit, slice, slice_or_empty};

/// New text of a file, and the range of its new bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComposedSection {
    /// Whole text.
    pub text: Vec<u8>,
    /// Range of the new content of the section.
    pub new: Range<usize>,
    /// Range of the old content in the old text.
    pub old: Range<usize>,
    /// True if the old text already contains all of it.
    pub already_applied: bool,
}

/// Reason why a text cannot be inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionRefusal {
    /// It leaves something open (a code fence, a comment) that would hide these headers.
    Swallows(Vec<usize>),
    /// The text before it leaves something open that would hide the new header.
    Swallowed,
    /// The text cannot be built.
    Fault(TextFault),
}

impl From<TextFault> for SectionRefusal {
    fn from(fault: TextFault) -> Self {
        Self::Fault(fault)
    }
}

/// A Markdown text and its headers.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// The text.
    pub text: &'a [u8],
    /// Its headers.
    pub headings: &'a [Heading],
    /// Line ending for added lines.
    pub ending: &'a [u8],
    /// Byte that ends a line, for line numbers.
    pub terminator: u8,
    /// Size limit of the new text, in bytes.
    pub bytes_max: usize,
}

impl Document<'_> {
    /// Returns the part of a section that is replaced: all after the header, or only the text before the first
    /// subsection.
    pub fn body(&self, at: usize, with_subsections: bool) -> Range<usize> {
        let start = self.headings.get(at).map_or(0, |heading| heading.span.end);
        let end = if with_subsections {
            end_of(self.headings, at, self.text.len())
        } else {
            self.headings.get(at + 1).map_or(self.text.len(), |next| next.span.start)
        };
        start..end.max(start)
    }

    /// Returns the line, from 1, that contains a byte of the text.
    pub fn line_of(&self, at: usize) -> u64 {
        memchr::memchr_iter(self.terminator, slice_or_empty(self.text, ..at)).count() as u64 + 1
    }

    /// Replaces the body of a section by `content`.
    ///
    /// # Errors
    /// Fails if a header outside would no longer be one.
    pub fn replace(
        &self,
        at: usize,
        with_subsections: bool,
        content: &[u8],
    ) -> Result<ComposedSection, SectionRefusal> {
        let body = self.body(at, with_subsections);
        let parts = parts(self.text, &body);
        let given = content;
        let content = trimmed(given)?;
        let is_last = body.end == self.text.len();
        let blank = |range: Range<usize>| slice(self.text, range).map(<[u8]>::to_vec);
        let (before, mut after) = if parts.start < parts.end {
            (blank(body.start..parts.start)?, blank(parts.end..body.end)?)
        } else if is_last {
            let first = line_end(self.text, body.start).min(body.end);
            let is_line = matches!(self.text.last(), Some(b'\n' | b'\r'));
            // Blanks without a line end are not a blank line.
            if is_line { (blank(body.start..first)?, blank(first..body.end)?) } else { Default::default() }
        } else {
            (Vec::new(), blank(body.clone())?)
        };
        if content.is_empty() && parts.start == parts.end {
            let text = self.text.to_vec();
            let new = body.start..body.start;
            return Ok(ComposedSection { text, new, old: body, already_applied: true });
        }
        if content.is_empty() {
            if after.is_empty() && !is_last {
                after = before;
            }
            let head = if after.is_empty() { Vec::new() } else { self.line_closed(body.start)? };
            return self.checked(self.put(&body, &head, &[], &after)?, at, &body);
        }
        let before =
            if before.is_empty() && parts.start == parts.end { self.ending.to_vec() } else { before };
        if after.is_empty() && !is_last && parts.start == parts.end {
            after = self.ending.to_vec();
        }
        let head = [self.line_closed(body.start)?, before].concat();
        let closing = self.closing(given, is_last && after.is_empty());
        let new = self.put(&body, &head, content, &[closing.as_slice(), &after].concat())?;
        self.checked(new, at, &body).or_else(|refused| {
            if !after.is_empty() || is_last {
                return Err(refused);
            }
            // A blank line ends most blocks that would continue into the next header.
            let tail = [closing.as_slice(), self.ending].concat();
            self.checked(self.put(&body, &head, content, &tail)?, at, &body)
        })
    }

    /// Adds `content` at the end of a section.
    ///
    /// # Errors
    /// Fails as [`Self::replace`] does.
    pub fn append(
        &self,
        at: usize,
        with_subsections: bool,
        content: &[u8],
    ) -> Result<ComposedSection, SectionRefusal> {
        let body = self.body(at, with_subsections);
        let parts = parts(self.text, &body);
        if parts.start == parts.end {
            return self.replace(at, with_subsections, content);
        }
        let given = content;
        let content = trimmed(given)?;
        let old = slice(self.text, parts.start..parts.end)?;
        if content.is_empty() {
            let new = parts.end..parts.end;
            return Ok(ComposedSection {
                text: self.text.to_vec(),
                old: new.clone(),
                new,
                already_applied: true,
            });
        }
        let place = parts.end..parts.end;
        let is_last = body.end == self.text.len();
        let mut before = self.line_closed(parts.end)?;
        if !continues_block(old, content) {
            before.extend_from_slice(self.ending);
        }
        let rest = slice(self.text, parts.end..)?;
        let term = self.closing(given, is_last && rest.is_empty());
        let new = self.put(&place, &before, content, &term)?;
        self.checked(new, at, &body).or_else(|refused| {
            if is_last || parts.end < body.end {
                return Err(refused);
            }
            let term = [term.as_slice(), self.ending].concat();
            self.checked(self.put(&place, &before, content, &term)?, at, &body)
        })
    }

    /// Adds a section with its own header, at the end of the section `under`, else of the text.
    ///
    /// # Errors
    /// Fails if the header would not be one there, or if another would no longer be one.
    pub fn create(
        &self,
        under: Option<usize>,
        level: u8,
        title: &str,
        content: &[u8],
    ) -> Result<ComposedSection, SectionRefusal> {
        let end = under.map_or(self.text.len(), |at| end_of(self.headings, at, self.text.len()));
        let parts = parts(self.text, &(0..end));
        let trimmed = trimmed(content)?;
        let mut before = Vec::new();
        if parts.start < parts.end {
            before.extend(self.line_closed(parts.end)?);
            before.extend_from_slice(self.ending);
        }
        let header = format!("{} {title}", "#".repeat(usize::from(level)));
        let mut section = header.into_bytes();
        let header_bytes = section.len();
        if !trimmed.is_empty() {
            section.extend_from_slice(&[self.ending, self.ending, trimmed].concat());
        }
        let at = if parts.start < parts.end { parts.end } else { 0 };
        let is_last = end == self.text.len();
        let mut term = self.ending.to_vec();
        if !is_last && at == end {
            term.extend_from_slice(self.ending);
        }
        let new = self.put(&(at..at), &before, &section, &term)?;
        let headings = outline(&new.text);
        let place = headings.iter().position(|heading| heading.span.start == new.new.start);
        let is_header = place.and_then(|at| headings.get(at)).is_some_and(|heading| {
            heading.level == level
                && is_same_title(&heading.source, title)
                && header_bytes <= heading.span.len()
        });
        if !is_header {
            return Err(SectionRefusal::Swallowed);
        }
        let before = self.headings.iter().take_while(|heading| heading.span.start < at).count();
        self.check_headers(&new, &headings, before, &(at..at)).map(|()| new)
    }

    /// Returns the text with `before`, `content` and `after` in place of `old`.
    fn put(
        &self,
        old: &Range<usize>,
        before: &[u8],
        content: &[u8],
        after: &[u8],
    ) -> Result<ComposedSection, SectionRefusal> {
        let head = slice(self.text, ..old.start)?;
        let rest = slice(self.text, old.end..)?;
        let added = before.len() + content.len() + after.len();
        must_fit(head.len().saturating_add(rest.len()).saturating_add(added), self.bytes_max)?;
        let start = head.len() + before.len();
        let text = [head, before, content, after, rest].concat();
        let already_applied = text == self.text;
        Ok(ComposedSection { text, new: start..start + content.len(), old: old.clone(), already_applied })
    }

    /// Returns the ending of the last line of a section. It is empty only for the last line of the file, if it had no
    /// ending before and the given text has none either.
    fn closing(&self, given: &[u8], is_end: bool) -> Vec<u8> {
        let is_open = self.text.last().is_some_and(|last| !matches!(last, b'\n' | b'\r'));
        if is_end && is_open && !given.ends_with(b"\n") && !given.ends_with(b"\r") {
            return Vec::new();
        }
        self.ending.to_vec()
    }

    /// Returns the ending to add to the line before `at`, if it has none.
    fn line_closed(&self, at: usize) -> Result<Vec<u8>, TextFault> {
        let before = slice(self.text, ..at)?;
        let is_open = before.last().is_some_and(|last| !matches!(last, b'\n' | b'\r'));
        Ok(if is_open { self.ending.to_vec() } else { Vec::new() })
    }

    /// Returns the composed text if every header outside the section is still one.
    fn checked(
        &self,
        new: ComposedSection,
        at: usize,
        body: &Range<usize>,
    ) -> Result<ComposedSection, SectionRefusal> {
        let headings = outline(&new.text);
        if !new.already_applied {
            self.check_headers(&new, &headings, at + 1, body)?;
        }
        let already_applied = new.already_applied || self.is_applied(&new, &headings, at)?;
        Ok(ComposedSection { already_applied, ..new })
    }

    /// Returns true if the new content is already there after the header: it has headers that end the section, and the
    /// replaced content is its start.
    fn is_applied(&self, new: &ComposedSection, headings: &[Heading], at: usize) -> Result<bool, TextFault> {
        let is_longer = end_of(headings, at, new.text.len()) < new.new.end;
        let content = slice(&new.text, new.new.clone())?.trim_ascii_start();
        let rest = slice(self.text, new.old.start..)?.trim_ascii_start();
        let ends_line = |rest: &[u8]| rest.is_empty() || rest.starts_with(b"\n") || rest.starts_with(b"\r");
        Ok(is_longer && rest.strip_prefix(content).is_some_and(ends_line))
    }

    /// Checks that the first `before` headers and those after the section are unchanged.
    fn check_headers(
        &self,
        new: &ComposedSection,
        headings: &[Heading],
        before: usize,
        body: &Range<usize>,
    ) -> Result<(), SectionRefusal> {
        let mut lost = Vec::new();
        for (at, heading) in self.headings.iter().enumerate() {
            let start = heading.span.start;
            let start = if at < before {
                start
            } else if start >= body.end {
                (start + new.text.len()).saturating_sub(self.text.len())
            } else {
                continue;
            };
            let found = headings.binary_search_by_key(&start, |heading| heading.span.start).ok();
            let is_same = found
                .and_then(|found| headings.get(found))
                .is_some_and(|found| found.level == heading.level && found.source == heading.source);
            if !is_same {
                lost.push(at);
            }
        }
        if lost.is_empty() { Ok(()) } else { Err(SectionRefusal::Swallows(lost)) }
    }
}

/// Returns the content without the header of the section, if it begins with that.
pub fn without_own_header<'t>(content: &'t [u8], heading: &Heading) -> Option<&'t [u8]> {
    let headings = outline(content);
    let first = headings.first()?;
    let is_first = content.get(..first.span.start)?.trim_ascii().is_empty();
    let is_own = first.level == heading.level && is_same_title(&first.title, &heading.title);
    (is_first && is_own).then(|| content.get(first.span.end..)).flatten()
}

/// Returns the headers in a content that would end the section.
pub fn headers_that_end(content: &[u8], level: u8, with_subsections: bool) -> Vec<Heading> {
    let mut headings = outline(content);
    headings.retain(|heading| !with_subsections || heading.level <= level);
    headings
}

/// Kind of block at an end of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EdgeBlock {
    /// A list without blank lines between its items; true if it is numbered.
    TightList(bool),
    /// A table.
    Table,
    /// Anything else.
    Other,
}

/// Returns true if a content continues the block before it without a blank line: items of a tight list, rows of a
/// table.
fn continues_block(before: &[u8], content: &[u8]) -> bool {
    let last = blocks(before).pop();
    match last {
        Some(EdgeBlock::TightList(numbered)) => {
            blocks(content).first().is_some_and(|first| *first == EdgeBlock::TightList(numbered))
        }
        Some(EdgeBlock::Table) => {
            let joined = [before.trim_ascii_end(), b"\n", content].concat();
            content.starts_with(b"|") && blocks(&joined).len() == blocks(before).len()
        }
        Some(EdgeBlock::Other) | None => false,
    }
}

/// Returns the outermost blocks of a text.
fn blocks(text: &[u8]) -> Vec<EdgeBlock> {
    let parsed = parseable(text);
    let mut found: Vec<EdgeBlock> = Vec::new();
    let mut depth = 0_usize;
    for event in Parser::new_ext(&parsed, options()) {
        match event {
            Event::Start(tag) if ends_block(tag.to_end()) => {
                if depth == 0 {
                    found.push(match tag {
                        Tag::List(first) => EdgeBlock::TightList(first.is_some()),
                        Tag::Table(_) => EdgeBlock::Table,
                        _ => EdgeBlock::Other,
                    });
                } else if depth == 2
                    && matches!(tag, Tag::Paragraph)
                    && let Some(list @ EdgeBlock::TightList(_)) = found.last_mut()
                {
                    // The items of a loose list contain paragraphs.
                    *list = EdgeBlock::Other;
                }
                depth += 1;
            }
            Event::End(tag) if ends_block(tag) => depth = depth.saturating_sub(1),
            Event::Rule if depth == 0 => found.push(EdgeBlock::Other),
            _ => {}
        }
    }
    found
}

/// Returns true if a tag ends a block that can be on its own.
const fn ends_block(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Paragraph
            | TagEnd::Heading(_)
            | TagEnd::BlockQuote(_)
            | TagEnd::CodeBlock
            | TagEnd::HtmlBlock
            | TagEnd::List(_)
            | TagEnd::Item
            | TagEnd::FootnoteDefinition
            | TagEnd::Table
    )
}

/// Returns a text without blank lines at its ends, and without its final line ending.
///
/// # Errors
/// Fails if its parts lie outside it.
fn trimmed(text: &[u8]) -> Result<&[u8], TextFault> {
    let body = slice(text, parts(text, &(0..text.len())))?;
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    Ok(body.strip_suffix(b"\r").unwrap_or(body))
}

/// Returns the content of a part of a text, without the blank lines at its ends; empty, at the end of the part, if it has
/// only those.
fn parts(text: &[u8], range: &Range<usize>) -> Range<usize> {
    let (mut first, mut last) = (None, range.end);
    let mut at = range.start;
    while at < range.end {
        let end = line_end(text, at).min(range.end);
        if !slice_or_empty(text, at..end).trim_ascii().is_empty() {
            first = first.or(Some(at));
            last = end;
        }
        at = end;
    }
    first.unwrap_or(range.end)..last
}

/// Returns the end of the line that contains `at`: after LF, CR LF or CR, as in CommonMark.
fn line_end(text: &[u8], at: usize) -> usize {
    let rest = slice_or_empty(text, at..);
    let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
        return text.len();
    };
    let is_pair = rest.get(end) == Some(&b'\r') && rest.get(end + 1) == Some(&b'\n');
    at + end + if is_pair { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::text::lines::LineEnding;

    impl Random {
        /// Returns some of the parts, one after the other.
        fn parts(&mut self, parts: &[&[u8]], most: usize) -> Vec<u8> {
            (0..self.below(most)).flat_map(|_| parts[self.below(parts.len())].to_vec()).collect()
        }
    }

    const PARTS: &[&[u8]] = &[
        b"# A\n",
        b"## B\r\n",
        b"### \xff C ###\n",
        b"# A",
        b"\n",
        b"\r\n",
        b"\r",
        b"text\n",
        b"t\n===\n",
        b"u\r\n---\r\n",
        b"```\n",
        b"~~~",
        b"<!--\n",
        b"-->\n",
        b"- item\n",
        b"  more\n",
        b"> # Q\n",
        b"> q\n",
        b"[a]: /u\n",
        b"[a]\n",
        b"| a |\n|---|\n",
        b"---\n",
        b"\xfe\xed",
        b"\xe2\x80\xa8",
        b"    code\n",
        b"\t",
        b"<div>\n",
        b"[^1]: n\n",
        b"#",
        b"\0",
        b"1. one\n",
        b"\\\n",
        b"+++\n",
        b"\xef\xbb\xbf",
    ];

    /// Returns a document of any size.
    fn document<'a>(text: &'a [u8], headings: &'a [Heading]) -> Document<'a> {
        let style = LineEnding::of(text);
        let (ending, terminator) = (style.bytes().unwrap_or(b"\n"), style.terminator());
        Document { text, headings, ending, terminator, bytes_max: usize::MAX }
    }

    #[test]
    fn section_edit_never_changes_bytes_outside_the_section() {
        let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
        let (mut landed, mut refused) = (0, 0);
        for round in 0..8_000 {
            let (text, content) = (random.parts(PARTS, 14), random.parts(PARTS, 6));
            let headings = outline(&text);
            let document = document(&text, &headings);
            if headings.is_empty() {
                continue;
            }
            let at = random.below(headings.len());
            let (all, append) = (random.below(2) == 0, random.below(3) == 0);
            let make = |document: &Document<'_>, at: usize| {
                if append { document.append(at, all, &content) } else { document.replace(at, all, &content) }
            };
            let body = document.body(at, all);
            let Ok(composed) = make(&document, at) else {
                refused += 1;
                continue;
            };
            landed += 1;
            let of = format!(
                "round {round}: {:?} in {:?} of {:?}",
                content.escape_ascii().to_string(),
                body,
                text.escape_ascii().to_string()
            );
            let new = &composed.text;
            assert!(new.starts_with(&text[..body.start]), "{of}: before");
            assert!(new.ends_with(&text[body.end..]), "{of}: after");
            assert!(new.len() >= body.start + text.len() - body.end, "{of}: overlap");
            assert_eq!(&new[..headings[at].span.start], &text[..headings[at].span.start], "{of}");
            let after = outline(new);
            assert_eq!(after[at].span.start, headings[at].span.start, "{of}: the header");
            let outside = headings.iter().filter(|heading| heading.span.start >= body.end).count();
            let kept = headings.iter().rev().zip(after.iter().rev()).take(outside);
            kept.for_each(|(one, other)| assert_eq!(one.source, other.source, "{of}"));
        }
        assert!(landed > 2_000 && refused > 50, "{landed} landed, {refused} refused");
    }

    #[test]
    fn repeated_section_replacement_is_already_applied() {
        let mut random = Random::new(0xd1b5_4a32_d192_ed03);
        for round in 0..8_000 {
            let (text, content) = (random.parts(PARTS, 12), random.parts(&PARTS[4..10], 5));
            let headings = outline(&text);
            let document = document(&text, &headings);
            if headings.is_empty() {
                continue;
            }
            let at = random.below(headings.len());
            // As in the tool: convert line endings first, then drop the header of the section.
            let content = crate::text::lines::with_ending(&content, document.ending);
            let Ok(once) = document.replace(at, true, &content) else {
                continue;
            };
            let after = outline(&once.text);
            let twice =
                Document { text: &once.text, headings: &after, ..document }.replace(at, true, &content);
            let of = format!(
                "round {round}: {:?} into {:?}: {:?}",
                content.escape_ascii().to_string(),
                text.escape_ascii().to_string(),
                once.text.escape_ascii().to_string()
            );
            assert!(
                twice.as_ref().is_ok_and(|twice| twice.already_applied),
                "{of}: {:?}",
                twice.map(|it| it.text.escape_ascii().to_string())
            );
        }
    }
}
