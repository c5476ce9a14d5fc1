//! Collects the matches of one file from ripgrep's searcher.

use std::borrow::Cow;
use std::io;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};

use crate::search::matches::{Match, MatchPacker, PackedMatches};
use crate::text::escaped::plural;
use crate::text::lines::without_ending;

/// Most bytes of matches of one file before they are passed on.
const GATHERED_BYTES_MAX: usize = 128 * 1024;
/// Bytes after a multi-line match that a look-ahead may see.
const LOOK_AHEAD_BYTES: usize = 128;

/// Information wanted about each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchDetail {
    /// Matching lines.
    Lines,
    /// True if there is a match.
    Presence,
    /// Number of matches.
    Number,
}

/// Output style of matches.
#[derive(Debug, Clone)]
pub struct MatchStyle {
    /// Information wanted about each file.
    pub wanted: MatchDetail,
    /// True to show each match by itself instead of each line.
    pub only_matching: bool,
    /// True to show lines that do not match.
    pub invert: bool,
    /// Most bytes of a line that are shown; 0 for no limit.
    pub line_bytes_max: usize,
    /// Most bytes of a multi-line match that are shown; 0 for no limit.
    pub match_bytes_max: usize,
    /// True if a carriage return at the end of a line belongs to it, because the pattern names it.
    pub keeps_cr: bool,
}

/// Matches of one file that were not passed on yet.
#[derive(Debug, Default)]
pub struct MatchBatch {
    /// Matches to show.
    pub matches: PackedMatches,
    /// Number of further matches that were only counted.
    pub counted: u64,
}

/// Number of lines still to show, for searches that the searcher cannot limit: inverted and multi-line, it counts
/// matching lines and not shown ones.
#[derive(Debug, Clone, Copy)]
pub struct LineBudget {
    /// Non-matching lines.
    pub lines: u64,
    /// Lines after the last of them.
    pub after: usize,
}

/// Collects the matches of one file.
pub struct MatchCollector<'a> {
    /// The pattern.
    matcher: &'a RegexMatcher,
    /// Output style of matches.
    style: &'a MatchStyle,
    /// Returns true once matches are only counted.
    only_count: &'a dyn Fn() -> bool,
    /// Receives matches that are too large to keep; `false` ends the search of this file.
    hand_over: &'a mut dyn FnMut(MatchBatch) -> bool,
    /// Matches to show.
    packer: MatchPacker,
    /// Number of further matches that were only counted.
    counted: u64,
    /// Lines still to show; `None` for all.
    left: Option<LineBudget>,
    /// Number of matches so far.
    pub count: u64,
    /// Offset of the NUL byte that ended the search, if one did.
    pub binary_at: Option<u64>,
}

impl<'a> MatchCollector<'a> {
    /// Returns an empty collector, which ends the search after `left` lines.
    pub fn new(
        matcher: &'a RegexMatcher,
        style: &'a MatchStyle,
        left: Option<LineBudget>,
        only_count: &'a dyn Fn() -> bool,
        hand_over: &'a mut dyn FnMut(MatchBatch) -> bool,
    ) -> Self {
        Self {
            matcher,
            style,
            only_count,
            hand_over,
            packer: MatchPacker::default(),
            counted: 0,
            left,
            count: 0,
            binary_at: None,
        }
    }

    /// Returns a line without its ending, as the pattern sees it.
    fn line_in<'l>(&self, line: &'l [u8]) -> &'l [u8] {
        if self.style.keeps_cr { line.strip_suffix(b"\n").unwrap_or(line) } else { without_ending(line) }
    }

    /// Counts matches that are not shown.
    fn count_only(&mut self, count: u64) {
        self.count += count;
        self.counted += count;
    }

    /// Returns the matches that were not passed on yet.
    pub fn gathered(self) -> MatchBatch {
        MatchBatch { matches: self.packer.finish(), counted: self.counted }
    }

    /// Finds each match in a result of the searcher: start and end there.
    fn each_match(
        &self,
        searcher: &Searcher,
        found: &SinkMatch<'_>,
        mut take: impl FnMut(usize, usize) -> bool,
    ) -> Result<(), io::Error> {
        let range = found.bytes_range_in_buffer();
        let end = if searcher.multi_line_with_matcher(self.matcher) {
            (range.end + LOOK_AHEAD_BYTES).min(found.buffer().len())
        } else {
            range.start + self.line_in(found.bytes()).len()
        };
        let haystack = found.buffer().get(..end).unwrap_or_default();
        self.matcher
            .find_iter_at(haystack, range.start, |each| {
                each.start() < range.end.max(range.start + 1)
                    && take(each.start() - range.start, each.end().min(range.end) - range.start)
            })
            .map_err(io::Error::other)
    }

    /// Returns the number of matches in a result of the searcher. A multi-line search counts matches, as rg does, since
    /// the searcher may join several into one result.
    fn matches_in(&self, searcher: &Searcher, found: &SinkMatch<'_>) -> Result<u64, io::Error> {
        let across =
            self.style.wanted == MatchDetail::Number && searcher.multi_line_with_matcher(self.matcher);
        if self.style.invert || !(self.style.only_matching || across) {
            return Ok(1);
        }
        let mut count = 0;
        self.each_match(searcher, found, |_, _| {
            count += 1;
            true
        })?;
        // The only match may be an empty one at the end of a last line without an ending.
        Ok(count.max(1))
    }

    /// Collects one line, or one multi-line match.
    fn take_line(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> Result<(), io::Error> {
        let mut start = 0;
        if !self.style.invert {
            self.each_match(searcher, found, |first, _| {
                start = first;
                false
            })?;
        }
        let block = without_ending(found.bytes());
        let has_lf = found.absolute_byte_offset() > 0 || found.bytes().ends_with(b"\n");
        let line_start =
            block.get(..start).map_or(0, |before| memchr::memrchr(b'\n', before).map_or(0, |at| at + 1));
        let line = found.line_number().unwrap_or(1) + newlines(block.get(..start).unwrap_or_default());
        let (column, lines) = ((start - line_start) as u64 + 1, newlines(block) + 1);
        let found = Match { line, column, lines, ..Match::default() };
        if lines == 1 {
            let shown = clip(block, start, self.style.line_bytes_max);
            let (text_column, line_bytes) =
                shown.clipped.then_some((shown.column, block.len() as u64)).unzip();
            // In a text without LF, `read` counts lines that end in CR, so no line of it has this number.
            let whole = !shown.clipped && (has_lf || memchr::memchr(b'\r', block).is_none());
            self.push(&Match { text: &shown.text, text_column, line_bytes, whole, ..found });
        } else {
            let (text, whole) = self.block(block, start);
            self.push(&Match { text: &text, whole, ..found });
        }
        Ok(())
    }

    /// Returns the text of a multi-line match, with each line cut by itself, and true if none was cut.
    fn block(&self, block: &[u8], start: usize) -> (String, bool) {
        let mut whole = true;
        let mut offset = 0;
        let most = match self.style.match_bytes_max {
            0 => usize::MAX,
            most => most,
        };
        let mut text = String::with_capacity(block.len().min(most));
        for line in block.split(|&byte| byte == b'\n') {
            if offset > 0 {
                text.push('\n');
            }
            if text.len() + line.len().min(self.style.line_bytes_max.max(1)) > most {
                text.push_str(&more_bytes(block.len() - offset));
                return (text, false);
            }
            let bare = line.strip_suffix(b"\r").unwrap_or(line);
            let within = if offset <= start && start <= offset + line.len() { start - offset } else { 0 };
            if self.style.line_bytes_max > 0 && bare.len() > self.style.line_bytes_max {
                whole = false;
                text.push_str(&self.clipped_context(bare, within).0);
            } else {
                text.push_str(&String::from_utf8_lossy(line));
            }
            offset += line.len() + 1;
        }
        (text, whole)
    }

    /// Returns the part of a line around `start` that is shown, and true if something is cut.
    fn clipped_context<'l>(&self, line: &'l [u8], start: usize) -> (Cow<'l, str>, bool) {
        let shown = clip(line, start, self.style.line_bytes_max);
        if !shown.clipped {
            return (shown.text, false);
        }
        (with_rest(&shown.text, Some(line.len() as u64)).into_owned().into(), true)
    }

    /// Collects each match of a line by itself.
    fn take_matches(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> Result<(), io::Error> {
        let mut places = Vec::new();
        self.each_match(searcher, found, |start, end| {
            places.push((start, end));
            true
        })?;
        let bytes = found.bytes();
        for (start, end) in places {
            let before = bytes.get(..start).unwrap_or_default();
            let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
            let text = self.line_in(bytes.get(start..end).unwrap_or_default());
            let shown = clip(text, 0, self.style.line_bytes_max);
            let line = found.line_number().unwrap_or(1) + newlines(before);
            let (column, lines) = ((start - line_start) as u64 + 1, newlines(text) + 1);
            let clipped = shown.clipped.then_some((column, text.len() as u64));
            let (text_column, line_bytes) = clipped.unzip();
            self.push(&Match {
                line,
                column,
                lines,
                text: &shown.text,
                text_column,
                line_bytes,
                ..Match::default()
            });
        }
        Ok(())
    }

    /// Adds a match.
    fn push(&mut self, found: &Match<'_>) {
        self.count += 1;
        self.packer.push(found);
    }

    /// Passes on all matches but the last, which may still get context.
    fn make_room(&mut self) -> bool {
        if self.packer.len() < GATHERED_BYTES_MAX {
            return true;
        }
        let matches = self.packer.drain_finished();
        // Matches that are only counted come after the last one shown.
        matches.is_empty() || (self.hand_over)(MatchBatch { matches, counted: 0 })
    }
}

impl MatchCollector<'_> {
    /// Collects a result of the searcher; `false` ends the search of this file.
    fn collect_result(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        match self.style.wanted {
            MatchDetail::Presence => {
                self.count_only(1);
                return Ok(false);
            }
            MatchDetail::Number => {
                let count = self.matches_in(searcher, found)?;
                self.count_only(count);
                return Ok(true);
            }
            MatchDetail::Lines => {}
        }
        if (self.only_count)() {
            self.packer.forget_open();
            let count = self.matches_in(searcher, found)?;
            self.count_only(count);
            return Ok(true);
        }
        if self.style.only_matching && !self.style.invert {
            self.take_matches(searcher, found)?;
        } else {
            self.take_line(searcher, found)?;
        }
        Ok(self.make_room())
    }

    /// Adds a line after the last one that is shown as a match; `false` ends the search of this file.
    fn trail(&mut self, line: &[u8], left: LineBudget) -> bool {
        let (text, cut) = self.clipped_context(without_ending(line), 0);
        self.packer.after(&text, cut);
        let after = left.after.saturating_sub(1);
        self.left = Some(LineBudget { after, ..left });
        after > 0
    }
}

impl Sink for MatchCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let Some(left) = self.left else { return self.collect_result(searcher, found) };
        if left.lines == 0 {
            return Ok(self.trail(found.bytes(), left));
        }
        let lines = left.lines - 1;
        self.left = Some(LineBudget { lines, ..left });
        Ok(self.collect_result(searcher, found)? && (lines > 0 || left.after > 0))
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if let Some(left) = self.left.filter(|left| left.lines == 0) {
            let goes_on = *context.kind() == SinkContextKind::After;
            return Ok(goes_on && self.trail(context.bytes(), left));
        }
        let (text, cut) = self.clipped_context(without_ending(context.bytes()), 0);
        match context.kind() {
            SinkContextKind::Before => self.packer.before(&text, cut),
            SinkContextKind::After | SinkContextKind::Other => self.packer.after(&text, cut),
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.binary_at = end.binary_byte_offset();
        Ok(())
    }
}

/// Returns the shown part of a line of `line_bytes` bytes, with the placeholder for the rest; `None` means that it is whole.
pub fn with_rest(text: &str, line_bytes: Option<u64>) -> Cow<'_, str> {
    let Some(line_bytes) = line_bytes else { return text.into() };
    // A replacement character is one byte of a line that is not UTF-8.
    let bytes_of =
        |character: char| if character == char::REPLACEMENT_CHARACTER { 1 } else { character.len_utf8() };
    let shown: usize = text.chars().map(bytes_of).sum();
    let line_bytes = usize::try_from(line_bytes).unwrap_or(usize::MAX);
    format!("{text} {}", more_bytes(line_bytes.saturating_sub(shown))).into()
}

/// Returns the placeholder for bytes that are not shown.
pub fn more_bytes(count: usize) -> String {
    format!("[… {}]", plural(count as u64, "more byte"))
}

/// Returns the number of line feeds in `bytes`.
fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Share of a cut line that shows text before the match: a quarter.
const BEFORE_SHARE: usize = 4;

/// A line, or the part of it that is shown.
#[derive(Debug, PartialEq, Eq)]
pub struct ClippedMatch<'l> {
    /// Shown text.
    pub text: Cow<'l, str>,
    /// 1-based column of the text in the line.
    pub column: u64,
    /// True if something is cut.
    pub clipped: bool,
}

/// Cuts `line` to at most `bytes_max` bytes around `match_start`, between characters; 0 cuts nothing.
pub fn clip(line: &[u8], match_start: usize, bytes_max: usize) -> ClippedMatch<'_> {
    if bytes_max == 0 || line.len() <= bytes_max {
        return ClippedMatch { text: String::from_utf8_lossy(line), column: 1, clipped: false };
    }
    let latest = line.len() - bytes_max;
    let start = match_start.saturating_sub(bytes_max / BEFORE_SHARE).min(latest);
    let start = character_start(line, start);
    let end = character_start(line, (start + bytes_max).min(line.len()));
    // A single character may be longer than the limit.
    let end = if end > start { end } else { (start + bytes_max).min(line.len()) };
    let text = String::from_utf8_lossy(line.get(start..end).unwrap_or_default());
    ClippedMatch { text, column: start as u64 + 1, clipped: true }
}

/// Returns the start of the character that contains `index`; `index` itself if it is not UTF-8.
fn character_start(line: &[u8], index: usize) -> usize {
    /// Most bytes of a character after its first.
    const TRAIL_MAX: usize = 3;
    let is_trail = |index: usize| line.get(index).is_some_and(|byte| byte & 0xc0 == 0x80);
    (0..=TRAIL_MAX).map(|back| index.saturating_sub(back)).find(|&start| !is_trail(start)).unwrap_or(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_cut_to_show_the_match() {
        let line = [b"x".repeat(1000), b"needle".to_vec(), b"y".repeat(1000)].concat();
        let cut = clip(&line, 1000, 100);
        assert_eq!(cut.text.len(), 100);
        assert!(cut.clipped && cut.text.contains("needle"));
        assert_eq!(cut.column, 976);
        assert_eq!(clip(&line, 0, 100).column, 1);
        assert_eq!(clip(&line, 2005, 100).column, 1907);
        assert!(!clip(b"short", 0, 100).clipped);
        assert_eq!(clip(&line, 0, 0).text.len(), 2006);
    }

    #[test]
    fn cut_line_keeps_characters_whole() {
        let line = "é".repeat(100);
        for start in 0..100 {
            assert!(!clip(line.as_bytes(), start, 31).text.contains('\u{fffd}'), "{start}");
        }
        assert_eq!(clip(&[0xff; 10], 5, 4).text.chars().count(), 4);
    }
}
