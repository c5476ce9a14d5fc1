//! Takes the matches of one file from ripgrep's searcher.

use std::io;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};

use super::clip::clip;
use super::lines::Match;

/// Bytes of matches that one file may gather before they are handed over.
const GATHERED_BYTES_MAX: usize = 128 * 1024;
/// Bytes behind a match of several lines that a look-ahead may see.
const LOOK_AHEAD_BYTES: usize = 128;

/// What is wanted of each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The matching lines.
    Lines,
    /// Whether there is any.
    Presence,
    /// How many there are.
    Number,
}

/// How matches are shown.
#[derive(Debug, Clone)]
pub struct Style {
    /// What is wanted of each file.
    pub wanted: Wanted,
    /// Each match by itself instead of each line.
    pub only_matching: bool,
    /// Lines that do not match.
    pub invert: bool,
    /// Bytes of a line that are shown at most; 0 for no limit.
    pub line_bytes_max: usize,
}

/// What was gathered of one file since the last handing over.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Matches to be shown.
    pub matches: Vec<Match>,
    /// Further matches that were only counted.
    pub counted: u64,
}

/// Takes the matches of one file.
pub struct Collector<'a> {
    /// The pattern.
    matcher: &'a RegexMatcher,
    /// How matches are shown.
    style: &'a Style,
    /// Whether matches are only counted by now.
    only_count: &'a dyn Fn() -> bool,
    /// Takes what is too large to keep; `false` ends the search of this file.
    hand_over: &'a mut dyn FnMut(Gathered) -> bool,
    /// What was gathered.
    pub gathered: Gathered,
    /// About how much memory that takes.
    weight: usize,
    /// Lines before the next match.
    before: Vec<String>,
    /// Whether one of them was cut.
    before_cut: bool,
    /// Matches so far.
    pub count: u64,
    /// Where a NUL byte ended the search, if one did.
    pub binary_at: Option<u64>,
}

impl<'a> Collector<'a> {
    /// A collector that has taken nothing.
    pub fn new(
        matcher: &'a RegexMatcher,
        style: &'a Style,
        only_count: &'a dyn Fn() -> bool,
        hand_over: &'a mut dyn FnMut(Gathered) -> bool,
    ) -> Self {
        Self {
            matcher,
            style,
            only_count,
            hand_over,
            gathered: Gathered::default(),
            weight: 0,
            before: Vec::new(),
            before_cut: false,
            count: 0,
            binary_at: None,
        }
    }

    /// Counts matches that are not shown.
    fn count_only(&mut self, count: u64) {
        self.count += count;
        self.gathered.counted += count;
    }

    /// Each match in what the searcher found: where it begins and ends there.
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
            range.start + without_ending(found.bytes()).len()
        };
        let haystack = found.buffer().get(..end).unwrap_or_default();
        self.matcher
            .find_iter_at(haystack, range.start, |each| {
                each.start() < range.end.max(range.start + 1)
                    && take(each.start() - range.start, each.end().min(range.end) - range.start)
            })
            .map_err(io::Error::other)
    }

    /// The number of matches in what the searcher found.
    fn matches_in(&self, searcher: &Searcher, found: &SinkMatch<'_>) -> Result<u64, io::Error> {
        if !self.style.only_matching || self.style.invert {
            return Ok(1);
        }
        let mut count = 0;
        self.each_match(searcher, found, |_, _| {
            count += 1;
            true
        })?;
        Ok(count)
    }

    /// Takes one line, or one match of several.
    fn take_line(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> Result<(), io::Error> {
        let mut start = 0;
        if !self.style.invert {
            self.each_match(searcher, found, |first, _| {
                start = first;
                false
            })?;
        }
        let block = without_ending(found.bytes());
        let line_start =
            block.get(..start).map_or(0, |before| memchr::memrchr(b'\n', before).map_or(0, |at| at + 1));
        let first_line = found.line_number().unwrap_or(1);
        let before = std::mem::take(&mut self.before);
        let cut = std::mem::take(&mut self.before_cut);
        let mut entry = if memchr::memchr(b'\n', block).is_some() {
            self.block(block, start)
        } else {
            self.single(block, start)
        };
        entry.line = first_line + newlines(block.get(..start).unwrap_or_default());
        entry.column = (start - line_start) as u64 + 1;
        // What stands before the match inside its own lines still belongs to its first line.
        entry.line = entry.line.max(first_line);
        entry.before = before;
        entry.whole = entry.whole && !cut;
        self.push(entry);
        Ok(())
    }

    /// A match within one line.
    fn single(&self, line: &[u8], start: usize) -> Match {
        let shown = clip(line, start, self.style.line_bytes_max);
        Match {
            path: None,
            line: 0,
            column: 0,
            text_column: shown.clipped.then_some(shown.column),
            line_bytes: shown.clipped.then_some(line.len() as u64),
            text: shown.text,
            before: Vec::new(),
            after: Vec::new(),
            lines: 1,
            whole: !shown.clipped,
        }
    }

    /// A match of several lines, each cut by itself.
    fn block(&self, block: &[u8], start: usize) -> Match {
        let mut whole = true;
        let mut offset = 0;
        let mut lines = Vec::new();
        for line in block.split(|&byte| byte == b'\n') {
            let bare = line.strip_suffix(b"\r").unwrap_or(line);
            let within = if offset <= start && start <= offset + line.len() { start - offset } else { 0 };
            if self.style.line_bytes_max > 0 && bare.len() > self.style.line_bytes_max {
                whole = false;
                let shown = clip(bare, within, self.style.line_bytes_max);
                lines.push(format!("{}{}", shown.text, missing(bare.len() - self.style.line_bytes_max)));
            } else {
                lines.push(String::from_utf8_lossy(line).into_owned());
            }
            offset += line.len() + 1;
        }
        Match {
            path: None,
            line: 0,
            column: 0,
            text_column: None,
            line_bytes: None,
            lines: lines.len() as u64,
            text: lines.join("\n"),
            before: Vec::new(),
            after: Vec::new(),
            whole,
        }
    }

    /// Takes each match of a line by itself.
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
            let text = bytes.get(start..end).unwrap_or_default();
            let mut entry = self.single(without_ending(text), 0);
            entry.text_column = entry.text_column.map(|_| (start - line_start) as u64 + 1);
            entry.line = found.line_number().unwrap_or(1) + newlines(before);
            entry.column = (start - line_start) as u64 + 1;
            entry.lines = newlines(without_ending(text)) + 1;
            entry.whole = false;
            self.push(entry);
        }
        Ok(())
    }

    /// Gathers a match.
    fn push(&mut self, entry: Match) {
        self.count += 1;
        self.weight += entry.weight();
        self.gathered.matches.push(entry);
    }

    /// Hands over all but the last match, to which context may still be added.
    fn make_room(&mut self) -> bool {
        if self.weight < GATHERED_BYTES_MAX {
            return true;
        }
        let last = self.gathered.matches.pop();
        self.weight = last.as_ref().map_or(0, Match::weight);
        let mut full = std::mem::take(&mut self.gathered);
        if full.matches.is_empty() {
            full.counted = 0;
        }
        self.gathered.matches.extend(last);
        (self.hand_over)(full)
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        match self.style.wanted {
            Wanted::Presence => {
                self.count_only(1);
                return Ok(false);
            }
            Wanted::Number => {
                let count = self.matches_in(searcher, found)?;
                self.count_only(count);
                return Ok(true);
            }
            Wanted::Lines => {}
        }
        if (self.only_count)() {
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

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let line = without_ending(context.bytes());
        let shown = clip(line, 0, self.style.line_bytes_max);
        let text = if shown.clipped {
            shown.text + &missing(line.len() - self.style.line_bytes_max)
        } else {
            shown.text
        };
        if *context.kind() == SinkContextKind::Before {
            self.before.push(text);
            self.before_cut |= shown.clipped;
        } else if let Some(last) = self.gathered.matches.last_mut() {
            self.weight += text.len();
            last.after.push(text);
            last.whole &= !shown.clipped;
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.binary_at = end.binary_byte_offset();
        Ok(())
    }
}

/// Says how much of a line is not shown.
fn missing(bytes: usize) -> String {
    format!(" [… {bytes} more bytes]")
}

/// How many lines end in `bytes`.
fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// A line without its ending.
fn without_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
