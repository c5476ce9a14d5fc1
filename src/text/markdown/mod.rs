//! Markdown sections: their limits, and replacing them.
//!
//! A section is a header and all that follows up to the next header of the same or a higher level. A CommonMark parser
//! finds the headers ([`outline`]), [`find`] looks them up by name, and [`compose`] inserts new text and checks that
//! every other header is still one.

pub mod compose;
pub mod outline;

use unicode_normalization::UnicodeNormalization as _;

use crate::limits::COMPARED_HEADERS_MAX;
use crate::text::checked::str_or_empty;
use crate::text::lines::common_start;
use crate::text::similarity;
use outline::{Heading, on_one_line, title_of};

/// Separator of the parts of a header path.
const SEPARATOR: char = '>';
/// Characters of a title that are compared to find the nearest.
const COMPARED_CHARACTERS: usize = 120;

/// Name of a header, as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Level, if the name has marks such as `##`.
    pub level: Option<u8>,
    /// Title as given, on one line.
    pub source: String,
    /// Title without markup.
    title: String,
}

impl Name {
    /// Reads a name without marks: all of it is the title.
    fn of_title(text: &str) -> Self {
        Self { level: None, source: on_one_line(text), title: title_of(text) }
    }

    /// Reads a name with marks, if the text is itself a header: `## Title`, or one that is underlined.
    fn of_header(text: &str) -> Option<Self> {
        let line = format!("{}\n", text.trim());
        match outline::outline(line.as_bytes()).as_slice() {
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
        self.has_level(heading) && same(&self.source, &heading.source)
    }

    /// Returns true if a header as shown has this name.
    fn is_shown(&self, heading: &Heading) -> bool {
        self.has_level(heading) && (same(&self.source, &heading.title) || same(&self.title, &heading.title))
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
pub fn same(one: &str, other: &str) -> bool {
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
    let names = Name::of_header(text).into_iter().chain([Name::of_title(text)]);
    for name in names {
        for fits in [Name::is_written, Name::is_shown] {
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
pub fn path_of(text: &str) -> Vec<Name> {
    split(text).into_iter().map(Name::of).collect()
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
fn is_whole_path(names: &[Name], chain: &[&Heading]) -> bool {
    names.len() == chain.len() && is_end_of_path(names, chain)
}

/// Returns true if the names match the end of the chain.
fn is_end_of_path(names: &[Name], chain: &[&Heading]) -> bool {
    names.len() <= chain.len()
        && names.iter().rev().zip(chain.iter().rev()).all(|(name, heading)| name.is(heading))
}

/// Returns true if the last name matches the last header of the chain, and the others match headers above it in order.
fn is_among_path(names: &[Name], chain: &[&Heading]) -> bool {
    let (Some((last, names)), Some((heading, above))) = (names.split_last(), chain.split_last()) else {
        return false;
    };
    let mut above = above.iter();
    last.is(heading) && names.iter().all(|name| above.any(|heading| name.is(heading)))
}

/// Returns all headers, sorted by the similarity of their titles to `text`.
pub fn nearest(headings: &[Heading], text: &str) -> Vec<usize> {
    let last = split(text).pop().unwrap_or(text);
    let wanted = comparable(&Name::of(last).source);
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
pub fn look_alikes(text: &[u8], terminator: u8, header: &str) -> Vec<u64> {
    let wanted = Name::of(header);
    let lines = text.split(|&byte| byte == terminator).zip(1_u64..);
    let is_alike = |line: &[u8]| {
        let line = line.trim_ascii();
        let line = line.strip_prefix(b"> ").or_else(|| line.strip_prefix(b"- ")).unwrap_or(line);
        line.starts_with(b"#")
            && Name::of_header(&String::from_utf8_lossy(line))
                .is_some_and(|name| same(&name.source, &wanted.source) || same(&name.title, &wanted.title))
    };
    lines.filter(|(line, _)| is_alike(line)).map(|(_, number)| number).take(5).collect()
}
