//! What comes of the files searched: taken in order, counted, and kept as far as it is shown.

use std::borrow::Cow;

use rustix::fs::Stat;

use super::collect::{MatchDetail, more_bytes};
use super::page::{Budget, Offered, Page, json_bytes};
use crate::engine::workspace::path::WorkspacePath;
use crate::search::entry::Notes;
use crate::search::file::{Search, SearchedPart};
use crate::search::matches::{Context, Count, Entries, FileMatches, Head, Marked, Match, Packer, Piece};
use crate::sha256::Sha256;

/// What came of a search.
#[derive(Debug)]
pub struct SearchResult {
    /// The matches of this page.
    pub matches: Vec<FileMatches>,
    /// The files with matches of this page.
    pub files: Vec<String>,
    /// The counts of this page.
    pub counts: Vec<Count>,
    /// Matches found; up to this page's end where it is truncated and no total was wanted.
    pub matched: u64,
    /// Files with matches, likewise.
    pub files_matched: u64,
    /// Where the next page begins, if there is one.
    pub next_offset: Option<u64>,
    /// The files of this page, as they were searched.
    pub seen: Vec<ShownFile>,
    /// Files searched.
    pub files_searched: u64,
    /// True if every file was looked at, as far as the page needs it.
    pub complete: bool,
    /// What could not be searched.
    pub notes: Notes,
}

impl SearchResult {
    /// Returns true if a path had to be changed to be shown.
    #[must_use]
    pub fn has_lossy_path(&self) -> bool {
        let shown = self.matches.iter().map(|file| &file.path);
        let counted = self.counts.iter().map(|count| &count.path);
        shown.chain(&self.files).chain(counted).any(|path| path.contains(char::REPLACEMENT_CHARACTER))
    }
}

/// A file of which something is shown, as it was when it was searched.
#[derive(Debug)]
pub struct ShownFile {
    /// Its path.
    pub path: WorkspacePath,
    /// Its path and its bytes, as answers show them.
    pub marked: Marked,
    /// What the system says of it.
    pub stat: Stat,
    /// The lines shown whole, from 1.
    pub lines: Vec<(u64, u64)>,
}

/// Results taken in order.
pub struct Results<'s, 'w> {
    /// What was asked for.
    search: &'s Search<'w>,
    /// How much of the page the matches take.
    budget: Budget,
    /// The matches.
    matches: Vec<FileMatches>,
    /// The files or counts.
    files: Page<Count>,
    /// Matches in files up to the end of the page.
    counted: u64,
    /// Files with matches, up to the end of the page unless a total is wanted.
    files_matched: u64,
    /// Files that are shown.
    seen: Vec<ShownFile>,
    /// What is known of the file at hand.
    at_hand: AtHand,
}

/// What is known of a file of which more parts may come.
#[derive(Debug, Default)]
struct AtHand {
    /// True if it has been counted.
    counted: bool,
    /// Its path as answers show it, once it was needed.
    shown: Option<String>,
    /// True if matches of it are on the page.
    on_page: bool,
    /// The lines of it that are shown whole.
    lines: Vec<(u64, u64)>,
}

impl<'s, 'w> Results<'s, 'w> {
    /// No results yet.
    #[must_use]
    pub fn new(search: &'s Search<'w>) -> Self {
        Self {
            search,
            budget: Budget::new(search.window),
            matches: Vec::new(),
            files: Page::new(search.window),
            counted: 0,
            files_matched: 0,
            seen: Vec::new(),
            at_hand: AtHand::default(),
        }
    }

    /// Returns true if the page is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.budget.is_full() || self.files.is_full()
    }

    /// Takes the next part.
    pub fn take(&mut self, part: SearchedPart) {
        if self.is_full() && !self.search.total {
            return;
        }
        if self.search.manner.style.wanted != MatchDetail::Lines {
            return self.take_file(&part);
        }
        let counted = part.gathered.counted;
        self.take_matches(&part.path, part.gathered.matches);
        if self.search.total || !self.is_full() {
            self.budget.skip(counted);
            self.count_file();
        }
        if part.last {
            self.end_file(part.path, part.seen);
        }
    }

    /// Takes those of a file's matches that are on the page.
    fn take_matches(&mut self, path: &WorkspacePath, piece: Piece) {
        let mut is_new = !self.at_hand.on_page;
        let mut kept = None;
        let mut entries = Entries::of(&piece);
        let mut start = 0;
        while let Some(entry) = entries.next() {
            let end = piece.len() - entries.bytes_left();
            let mut cut = None;
            match self.offer(path, &entry, &mut cut) {
                Offered::Left if !self.search.total => break,
                Offered::Left => {}
                Offered::Passed => self.count_file(),
                Offered::Kept => {
                    self.count_file();
                    self.at_hand.on_page = true;
                    if let Some(cut) = cut {
                        self.keep(path, is_new, cut);
                        is_new = false;
                        start = end;
                        continue;
                    }
                    kept = Some((kept.map_or(start, |(first, _)| first), end));
                    if self.search.manner.hash {
                        self.at_hand.lines.extend(entry.whole_lines());
                    }
                }
            }
            start = end;
        }
        if let Some((start, end)) = kept {
            self.keep(path, is_new, part_of(piece, start, end));
        }
    }

    /// Offers a match a place on the page. The first one always has a place: where it alone is too
    /// large for the page, what of it is shown goes to `cut`.
    fn offer(&mut self, path: &WorkspacePath, entry: &Match<'_>, cut: &mut Option<Piece>) -> Offered {
        let room = self.budget.room_for_first();
        let Self { search, at_hand, budget, .. } = self;
        budget.offer(|| {
            let shown = at_hand.shown.get_or_insert_with(|| search.workspace.shown(path));
            let first = !at_hand.on_page;
            let named = Match { path: (first || !search.group).then_some(shown), ..*entry };
            let mark = if first && search.manner.hash { mark_bytes(shown) } else { 0 };
            let bytes = json_bytes(&named) + mark;
            match room {
                Some(room) if bytes > room => {
                    *cut = Some(cut_to(&named, room.saturating_sub(mark)));
                    room
                }
                _ => bytes,
            }
        })
    }

    /// Keeps matches of the file at hand, which may have some on the page already.
    fn keep(&mut self, path: &WorkspacePath, is_new: bool, piece: Piece) {
        if is_new {
            let shown = self.at_hand.shown.get_or_insert_with(|| self.search.workspace.shown(path));
            self.matches.push(FileMatches::new(shown.clone()));
        }
        if let Some(file) = self.matches.last_mut() {
            file.push(piece);
        }
    }

    /// Counts the file at hand once.
    fn count_file(&mut self) {
        if !self.at_hand.counted {
            self.at_hand.counted = true;
            self.files_matched += 1;
        }
    }

    /// Remembers what was shown of the file at hand.
    fn end_file(&mut self, path: WorkspacePath, seen: Option<(Sha256, Stat)>) {
        let at_hand = std::mem::take(&mut self.at_hand);
        let (true, Some((sha256, stat)), Some(shown)) = (at_hand.on_page, seen, at_hand.shown) else {
            return;
        };
        if let Some(file) = self.matches.last_mut() {
            file.sha256 = Some(Box::new(sha256));
        }
        self.seen.push(ShownFile {
            path,
            marked: Marked { path: shown, sha256 },
            stat,
            lines: at_hand.lines,
        });
    }

    /// Takes a file with its count.
    fn take_file(&mut self, part: &SearchedPart) {
        let shown = || self.search.workspace.shown(&part.path);
        let offered = self.files.offer(|| Count { path: shown(), count: part.count });
        if offered == Offered::Left && !self.search.total {
            return;
        }
        self.files_matched += 1;
        self.counted += part.count;
        if let (Offered::Kept, Some((sha256, stat))) = (offered, part.seen) {
            let marked = Marked { path: shown(), sha256 };
            self.seen.push(ShownFile { path: part.path.clone(), marked, stat, lines: Vec::new() });
        }
    }

    /// The outcome.
    #[must_use]
    pub fn finish(self, files_searched: u64, notes: Notes) -> SearchResult {
        let wanted = self.search.manner.style.wanted;
        let full = self.is_full();
        let next_offset = self.budget.next_offset().or(self.files.next_offset());
        let matched = match (wanted, next_offset) {
            (MatchDetail::Lines, Some(next)) if !self.search.total => next,
            (MatchDetail::Lines, _) => self.budget.seen(),
            (MatchDetail::Number, _) => self.counted,
            (MatchDetail::Presence, _) => self.files_matched,
        };
        let mut outcome = SearchResult {
            matches: self.matches,
            files: Vec::new(),
            counts: Vec::new(),
            matched,
            files_matched: self.files_matched,
            next_offset,
            seen: self.seen,
            files_searched,
            complete: full && !self.search.total || !self.search.control.should_stop(),
            notes,
        };
        let files = self.files.into_entries();
        if wanted == MatchDetail::Presence {
            outcome.files = files.into_iter().map(|file| file.path).collect();
        } else {
            outcome.counts = files;
        }
        outcome
    }
}

/// The bytes of `piece` from `start` to `end`, without a copy where that is all of it.
fn part_of(piece: Piece, start: usize, end: usize) -> Piece {
    if (start, end) == (0, piece.len()) {
        return piece;
    }
    piece.get(start..end).unwrap_or_default().into()
}

/// As much of a match as has room: without its context, and of its text the beginning.
fn cut_to(entry: &Match<'_>, room: u64) -> Piece {
    let bare = Match { before: Context::default(), after: Context::default(), ..*entry };
    let mut text = Cow::Borrowed(bare.text);
    // Each byte is at least one byte of JSON, and at most six.
    let mut length = bare.text.len().min(usize::try_from(room).unwrap_or(usize::MAX));
    while json_bytes(&Match { text: &text, ..bare }) > room && length > 0 {
        let end = (0..=length).rev().find(|&at| bare.text.is_char_boundary(at)).unwrap_or(0);
        let start = bare.text.get(..end).unwrap_or_default();
        text = format!("{start} {}", more_bytes(bare.text.len() - end)).into();
        length = length * 3 / 4;
    }
    let mut packer = Packer::default();
    let whole = entry.whole && matches!(text, Cow::Borrowed(_));
    let head = Head {
        line: entry.line,
        column: entry.column,
        lines: entry.lines,
        clipped: entry.text_column.zip(entry.line_bytes),
        whole,
    };
    packer.push(&head, &text);
    packer.finish()
}

/// Bytes of an answer that go to the mark of one file.
fn mark_bytes(path: &str) -> u64 {
    /// A file's bytes at its first match, and both field names of its mark.
    const BESIDE: u64 = r#","sha256":"""#.len() as u64 * 2 + r#"{"path":},"#.len() as u64 + 2 * 64;
    BESIDE + json_bytes(&path)
}
