//! Parameters of a search, and the search of one file.

use std::fs::File;
use std::io;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;

use grep_matcher::{LineTerminator, Match, Matcher, NoCaptures, NoError};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use rustix::fs::Stat;

use crate::control::Control;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::limits::SEARCH_LINE_BYTES_MAX;
use crate::search::collect::{LineBudget, MatchBatch, MatchCollector, MatchStyle};
use crate::search::page::PageWindow;
use crate::sha256::{Hasher, Sha256};

/// Size up to which files are read at once; equals the searcher's own buffer, so that the same files count as binary.
const WHOLE_BYTES_MAX: usize = 64 * 1024;

/// Settings for searching a file.
#[derive(Debug, Clone)]
pub struct SearchOptions {
    /// The pattern.
    pub matcher: RegexMatcher,
    /// Pattern of lines that do not count, although they match.
    pub excluded: Option<RegexMatcher>,
    /// Line terminator.
    pub line_ending: LineTerminator,
    /// Output style of matches.
    pub style: MatchStyle,
    /// True if a match may span lines.
    pub multiline: bool,
    /// Lines shown before each match.
    pub before: usize,
    /// Lines shown after each match.
    pub after: usize,
    /// Maximum number of matching lines per file.
    pub per_file_max: Option<u64>,
    /// True if the SHA-256 of a file with matches is wanted.
    pub hash: bool,
    /// True to treat files with NUL bytes as text.
    pub binary: bool,
}

impl SearchOptions {
    /// Returns the number of lines to show, if the searcher cannot count them.
    fn counted_by_us(&self) -> Option<LineBudget> {
        let lines = self.per_file_max.filter(|_| self.multiline && self.style.invert)?;
        Some(LineBudget { lines, after: self.after })
    }
}

/// Result of searching one file.
#[derive(Debug, Default)]
pub struct FileSearchResult {
    /// Matches that were not passed on yet.
    pub gathered: MatchBatch,
    /// Number of all matches.
    pub count: u64,
    /// Offset of the first NUL byte, if one was found.
    pub binary_at: Option<u64>,
    /// SHA-256 and stat of the searched file.
    pub seen: Option<(Sha256, Stat)>,
}

/// Matcher of the lines that match one pattern and not another. It states no line terminator, so that the searcher asks
/// it about each line by itself.
#[derive(Clone, Copy)]
struct LineMatcher<'m> {
    /// Pattern that a line has to match.
    matcher: &'m RegexMatcher,
    /// Pattern that it may not match.
    excluded: &'m RegexMatcher,
}

impl Matcher for LineMatcher<'_> {
    type Captures = NoCaptures;
    type Error = NoError;

    fn find_at(&self, line: &[u8], at: usize) -> Result<Option<Match>, NoError> {
        if self.excluded.is_match(line)? { Ok(None) } else { self.matcher.find_at(line, at) }
    }

    fn new_captures(&self) -> Result<NoCaptures, NoError> {
        Ok(NoCaptures::new())
    }
}

/// State of one thread for searching files.
pub struct FileSearcher<'m> {
    /// Settings for searching a file.
    manner: &'m SearchOptions,
    /// Searcher for files that the walk found: a NUL byte ends the search.
    found: Searcher,
    /// Searcher for files that the caller named: NUL bytes are text, so that lines have the numbers of `read`.
    named: Searcher,
    /// Buffer for a small file.
    buffer: Vec<u8>,
}

/// Callbacks of the search of one file.
pub struct SearchListener<'a> {
    /// Returns true if the search has to end.
    pub should_stop: &'a dyn Fn() -> bool,
    /// Returns true once matches are only counted.
    pub only_count: &'a dyn Fn() -> bool,
    /// Receives matches that are too large to keep.
    pub hand_over: &'a mut dyn FnMut(MatchBatch) -> bool,
}

impl<'m> FileSearcher<'m> {
    /// Returns a new searcher.
    pub fn new(manner: &'m SearchOptions) -> Self {
        Self {
            manner,
            found: searcher(manner, BinaryDetection::quit(0)),
            named: searcher(manner, BinaryDetection::none()),
            buffer: vec![0; WHOLE_BYTES_MAX],
        }
    }

    /// Searches an opened file; `None` if it is not a regular file.
    ///
    /// # Errors
    /// Returns the OS error, or an error for a line of more than [`SEARCH_LINE_BYTES_MAX`] bytes.
    pub fn search(
        &mut self,
        fd: OwnedFd,
        named: bool,
        listener: SearchListener<'_>,
    ) -> io::Result<Option<FileSearchResult>> {
        let stat = rustix::fs::fstat(&fd)?;
        if !fs::is_regular(&stat) {
            return Ok(None);
        }
        let mut file = File::from(fd);
        let head = fill(&mut file, &mut self.buffer, fs::size_of(&stat))?;
        let whole = head < WHOLE_BYTES_MAX;
        let bytes = self.buffer.get(..head).unwrap_or_default();
        let SearchListener { should_stop, only_count, hand_over } = listener;
        let SearchOptions { matcher, style, .. } = self.manner;
        let by_line = self.manner.excluded.as_ref().map(|excluded| LineMatcher { matcher, excluded });
        let mut collector =
            MatchCollector::new(matcher, style, self.manner.counted_by_us(), only_count, hand_over);
        let searcher = if named { &mut self.named } else { &mut self.found };
        if whole && !has_bom(bytes) && !has_early_line(bytes) {
            match by_line {
                Some(by_line) => searcher.search_slice(by_line, bytes, &mut collector)?,
                None => searcher.search_slice(matcher, bytes, &mut collector)?,
            }
        } else {
            let all = bytes.chain(StoppableFile { file: &mut file, should_stop });
            match by_line {
                Some(by_line) => searcher.search_reader(by_line, all, &mut collector)?,
                None => searcher.search_reader(matcher, all, &mut collector)?,
            }
        }
        let (count, binary_at) = (collector.count, collector.binary_at);
        let mut result = FileSearchResult { gathered: collector.gathered(), count, binary_at, seen: None };
        if self.manner.hash && count > 0 {
            result.seen = if whole {
                Some((Sha256::of(bytes), stat))
            } else {
                hash(&mut file, should_stop)?
                    .filter(|_| rustix::fs::fstat(&file).is_ok_and(|now| fs::is_unchanged(&stat, &now)))
                    .map(|sha256| (sha256, stat))
            };
        }
        Ok(Some(result))
    }
}

/// Returns the searcher for `manner`.
fn searcher(manner: &SearchOptions, binary: BinaryDetection) -> Searcher {
    let binary = if manner.binary { BinaryDetection::none() } else { binary };
    SearcherBuilder::new()
        .line_terminator(manner.line_ending)
        .invert_match(manner.style.invert)
        .line_number(manner.style.wanted == super::collect::MatchDetail::Lines)
        .multi_line(manner.multiline)
        .before_context(manner.before)
        .after_context(manner.after)
        .heap_limit(Some(SEARCH_LINE_BYTES_MAX))
        .max_matches(manner.per_file_max.filter(|_| manner.counted_by_us().is_none()))
        .binary_detection(binary)
        .build()
}

/// Reads the beginning of a file of about `size` bytes into `buffer`.
fn fill(file: &mut File, buffer: &mut [u8], size: u64) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        let room = buffer.get_mut(filled..).unwrap_or_default();
        if room.is_empty() {
            return Ok(filled);
        }
        match file.read(room) {
            Ok(0) => return Ok(filled),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // By its size this is the whole file: another read would only confirm that.
        if filled as u64 == size {
            return Ok(filled);
        }
    }
}

/// Returns true if the text begins with a byte order mark.
fn has_bom(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xef\xbb\xbf") || bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff")
}

/// Returns true if a line ends within the bytes that are searched for a byte order mark.
///
/// The searcher sees these bytes first, and so reports a line there before a NUL byte right after it.
fn has_early_line(bytes: &[u8]) -> bool {
    /// Length of the longest byte order mark.
    const MARK_BYTES_MAX: usize = 3;
    bytes.iter().take(MARK_BYTES_MAX).any(|&byte| byte == b'\n')
}

/// Returns the SHA-256 of a whole file; `None` if the work has to end.
fn hash(file: &mut File, should_stop: &dyn Fn() -> bool) -> io::Result<Option<Sha256>> {
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; WHOLE_BYTES_MAX];
    loop {
        if should_stop() {
            return Ok(None);
        }
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(Some(hasher.finish()));
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
}

/// A file that is read only until the work has to end.
struct StoppableFile<'a> {
    /// The file.
    file: &'a mut File,
    /// Returns true if the work has to end.
    should_stop: &'a dyn Fn() -> bool,
}

impl Read for StoppableFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.should_stop)() {
            return Err(io::Error::other("the search was ended"));
        }
        self.file.read(buffer)
    }
}

/// Parameters of a search.
#[derive(Debug)]
pub struct SearchParameters<'w> {
    /// Workspace to search.
    pub workspace: &'w Workspace,
    /// Settings for searching a file.
    pub manner: SearchOptions,
    /// Part of the result to show.
    pub window: PageWindow,
    /// True to count matches after the page too.
    pub total: bool,
    /// True if a response names each file once.
    pub group: bool,
    /// Cancellation and deadline.
    pub control: Control,
}

/// Result of one file, or of a part of it.
pub struct PartResult {
    /// The file.
    pub path: WorkspacePath,
    /// Matches found in it; all else is known with the last part.
    pub found: FileSearchResult,
    /// True if it is the last part.
    pub last: bool,
}
