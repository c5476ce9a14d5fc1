//! Results of the searched files: taken in order, counted, and kept if they are shown.
//!
//! If there are none, hidden and ignored files may explain that, but only if one of them would have been found. A second
//! walk looks only at these files, and at no more than a few thousand of them.

use std::borrow::Cow;

use rustix::fs::Stat;
use serde::Serialize;

use super::collect::{MatchBatch, MatchDetail, more_bytes};
use super::page::{OfferResult, PageBudget, json_bytes};
use crate::control::Control;
use crate::engine::workspace::path::{ShownPath, WorkspacePath};
use crate::engine::workspace::{Workspace, fs};
use crate::limits::{SKIPPED_ENTRIES_MAX, SKIPPED_FILE_BYTES_MAX};
use crate::search::entry::{SearchWarnings, SkipCause, SkippedEntries, WalkEntry, WalkRoot};
use crate::search::file::{PartResult, SearchParameters};
use crate::search::matches::{
    FileMatchCount, FileMatches, Match, MatchPacker, PackedContext, PackedEntries, PackedMatches,
    SearchedFile,
};
use crate::search::rules::EntrySelection;
use crate::search::walk::Walk;
use crate::sha256::Sha256;
use crate::text::escaped::plural;
use crate::text::lines::LineSpan;

/// Result of a search.
#[derive(Debug)]
pub struct SearchResult {
    /// Matches on this page.
    pub matches: Vec<FileMatches>,
    /// Files with matches on this page.
    pub files: Vec<ShownPath>,
    /// Counts on this page.
    pub counts: Vec<FileMatchCount>,
    /// Number of matches; up to the end of this page if the list was cut and no total was wanted.
    pub matched: u64,
    /// Number of files with matches, likewise.
    pub files_matched: u64,
    /// Offset of the next page, if there is one.
    pub next_offset: Option<u64>,
    /// Files on this page, as they were searched.
    pub seen: Vec<ShownFile>,
    /// Number of files searched.
    pub files_searched: u64,
    /// True if every file that the page needs was searched.
    pub complete: bool,
    /// Warnings on files that could not be searched.
    pub notes: SearchWarnings,
}

impl SearchResult {
    /// Returns true if a path had to be changed to be shown.
    pub fn has_lossy_path(&self) -> bool {
        let listed = self.counts.iter().map(|count| &count.path).chain(&self.files);
        self.matches.iter().any(|file| file.path.contains(char::REPLACEMENT_CHARACTER))
            || listed.into_iter().any(ShownPath::is_lossy)
    }
}

/// A file of which something is shown, as it was searched.
#[derive(Debug)]
pub struct ShownFile {
    /// Path.
    pub path: WorkspacePath,
    /// Path and SHA-256, as responses show them.
    pub marked: SearchedFile,
    /// Stat of the file.
    pub stat: Stat,
    /// Lines shown whole, from 1.
    pub lines: Vec<(u64, u64)>,
}

/// Collects results in order.
pub struct Results<'s, 'w> {
    /// Parameters of the search.
    search: &'s SearchParameters<'w>,
    /// Part of the page that matches use.
    budget: PageBudget,
    /// Matches.
    matches: Vec<FileMatches>,
    /// Part of the page that files or counts use.
    files_budget: PageBudget,
    /// Files or counts.
    files: Vec<FileMatchCount>,
    /// Number of matches in files up to the end of the page.
    counted: u64,
    /// Number of files with matches, up to the end of the page unless a total is wanted.
    files_matched: u64,
    /// Files that are shown.
    seen: Vec<ShownFile>,
    /// State of the present file.
    at_hand: PendingFileState,
    /// Warning that the context of the first match was cut.
    cut: Option<String>,
}

/// State of a file that may have more parts.
#[derive(Debug, Default)]
struct PendingFileState {
    /// True if it has been counted.
    counted: bool,
    /// Path as responses show it, once it was needed.
    shown: Option<String>,
    /// True if matches of it are on the page.
    on_page: bool,
    /// Its lines that are shown whole.
    lines: Vec<(u64, u64)>,
}

impl<'s, 'w> Results<'s, 'w> {
    /// Returns an empty collection.
    pub fn new(search: &'s SearchParameters<'w>) -> Self {
        Self {
            search,
            budget: PageBudget::new(search.window),
            matches: Vec::new(),
            files_budget: PageBudget::new(search.window),
            files: Vec::new(),
            cut: None,
            counted: 0,
            files_matched: 0,
            seen: Vec::new(),
            at_hand: PendingFileState::default(),
        }
    }

    /// Returns true if the page is full.
    pub fn is_full(&self) -> bool {
        self.budget.is_full() || self.files_budget.is_full()
    }

    /// Adds the next part.
    pub fn add_part(&mut self, part: PartResult) {
        if self.is_full() && !self.search.total {
            return;
        }
        if self.search.manner.style.wanted != MatchDetail::Lines {
            return self.take_file(&part);
        }
        let MatchBatch { matches, counted } = part.found.gathered;
        self.add_matches(&part.path, matches);
        if self.search.total || !self.is_full() {
            self.budget.skip(counted);
            self.count_file();
        }
        if part.last {
            self.end_file(part.path, part.found.seen);
        }
    }

    /// Adds the matches of a file that belong on the page.
    fn add_matches(&mut self, path: &WorkspacePath, piece: PackedMatches) {
        let mut entries = PackedEntries::of(&piece);
        let (mut start, mut kept) = (0, 0..0);
        // By reference: a match is large, and there can be many.
        while let Some(entry) = &entries.next() {
            let end = piece.len() - entries.bytes_left();
            let mut cut = None;
            match self.offer(path, entry, &mut cut) {
                OfferResult::Left if !self.search.total => break,
                OfferResult::Left => {}
                OfferResult::Passed => self.count_file(),
                OfferResult::Kept => {
                    self.count_file();
                    if !std::mem::replace(&mut self.at_hand.on_page, true) {
                        let shown = || self.search.workspace.display(path);
                        let shown = self.at_hand.shown.clone().unwrap_or_else(shown);
                        self.matches.push(FileMatches::new(shown));
                    }
                    let shown =
                        cut.as_deref().and_then(|cut| PackedEntries::of(cut).next()).unwrap_or(*entry);
                    self.show(entry, &shown);
                    if let Some(cut) = cut {
                        self.keep(cut);
                    } else {
                        kept = if kept.is_empty() { start..end } else { kept.start..end };
                    }
                }
            }
            start = end;
        }
        let is_all = kept.len() == piece.len();
        if let Some(part) = piece.get(kept).filter(|part| !part.is_empty()) {
            self.keep(if is_all { piece } else { part.into() });
        }
    }

    /// Offers a match to the page. The first one always fits: if it alone is too large for the page, its shown part
    /// goes to `cut`.
    fn offer(
        &mut self,
        path: &WorkspacePath,
        entry: &Match<'_>,
        cut: &mut Option<PackedMatches>,
    ) -> OfferResult {
        let room = self.budget.room_for_first();
        let Self { search, at_hand, budget, .. } = self;
        budget.offer(|| {
            let shown = at_hand.shown.get_or_insert_with(|| search.workspace.display(path));
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

    /// Records a match that is on the page, and as much of it as is shown.
    fn show(&mut self, entry: &Match<'_>, shown: &Match<'_>) {
        if self.search.manner.hash {
            self.at_hand.lines.extend(shown.whole_lines());
        }
        let [shown, all] =
            [shown, entry].map(Match::shown_lines).map(|(first, last)| LineSpan { first, last });
        if shown != all {
            let (path, line) = (self.at_hand.shown.as_deref().unwrap_or_default(), entry.line);
            self.cut = Some(format!(
                "the context of {path}:{line} was cut to {shown} to fit max_bytes: use read for {all}"
            ));
        }
    }

    /// Keeps matches of the present file, which is on the page.
    fn keep(&mut self, piece: PackedMatches) {
        if let Some(file) = self.matches.last_mut() {
            file.push(piece);
        }
    }

    /// Counts the present file once.
    fn count_file(&mut self) {
        if !self.at_hand.counted {
            self.at_hand.counted = true;
            self.files_matched += 1;
        }
    }

    /// Records the shown part of the present file.
    fn end_file(&mut self, path: WorkspacePath, seen: Option<(Sha256, Stat)>) {
        let at_hand = std::mem::take(&mut self.at_hand);
        let (true, Some((sha256, stat)), Some(file)) = (at_hand.on_page, seen, self.matches.last_mut())
        else {
            return;
        };
        file.sha256 = Some(Box::new(sha256));
        let marked = SearchedFile { path: file.path.clone(), sha256 };
        self.seen.push(ShownFile { path, marked, stat, lines: at_hand.lines });
    }

    /// Adds a file with its count.
    fn take_file(&mut self, part: &PartResult) {
        let listed =
            || FileMatchCount { path: self.search.workspace.list_path(&part.path), count: part.found.count };
        let mark = |count: &FileMatchCount| part.found.seen.map_or(0, |_| mark_bytes(&count.path));
        let mut made = None;
        let offered = self.files_budget.offer(|| {
            let count = made.insert(listed());
            json_bytes(count) + mark(count)
        });
        if offered == OfferResult::Left && !self.search.total {
            return;
        }
        self.files_matched += 1;
        self.counted += part.found.count;
        if offered == OfferResult::Kept {
            let count = made.unwrap_or_else(listed);
            self.seen.extend(part.found.seen.map(|(sha256, stat)| {
                let marked = SearchedFile { path: count.path.to_string(), sha256 };
                ShownFile { path: part.path.clone(), marked, stat, lines: Vec::new() }
            }));
            self.files.push(count);
        }
    }

    /// Returns the result.
    pub fn finish(mut self, files_searched: u64, mut notes: SearchWarnings) -> SearchResult {
        notes.extend(self.cut.take());
        let wanted = self.search.manner.style.wanted;
        let full = self.is_full();
        let next_offset = self.budget.next_offset().or(self.files_budget.next_offset());
        let matched = match (wanted, next_offset) {
            (MatchDetail::Lines, Some(next)) if !self.search.total => next,
            (MatchDetail::Lines, _) => self.budget.offered(),
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
        let files = self.files;
        if wanted == MatchDetail::Presence {
            outcome.files = files.into_iter().map(|file| file.path).collect();
        } else {
            outcome.counts = files;
        }
        outcome
    }
}

/// Returns the part of a match that fits: the beginning of its text, and the lines next to it.
fn cut_to(entry: &Match<'_>, room: u64) -> PackedMatches {
    let bare = Match { before: PackedContext::default(), after: PackedContext::default(), ..*entry };
    let mut text = Cow::Borrowed(bare.text);
    // Each byte is at least one byte of JSON, and at most six.
    let mut length = bare.text.len().min(usize::try_from(room).unwrap_or(usize::MAX));
    while json_bytes(&Match { text: &text, ..bare }) > room && length > 0 {
        let end = (0..=length).rev().find(|&at| bare.text.is_char_boundary(at)).unwrap_or(0);
        let start = bare.text.get(..end).unwrap_or_default();
        text = format!("{start} {}", more_bytes(bare.text.len() - end)).into();
        length = length * 3 / 4;
    }
    let whole = entry.whole && matches!(text, Cow::Borrowed(_));
    let cut = Match { text: &text, whole, ..bare };
    let (before, after) = nearest_lines(entry, room.saturating_sub(json_bytes(&cut)));
    let mut packer = MatchPacker::default();
    before.iter().rev().for_each(|(line, whole)| packer.before(line, !whole));
    packer.push(&cut);
    after.iter().for_each(|(line, whole)| packer.after(line, !whole));
    packer.finish()
}

/// Lines of context, the nearest first, and true for each that is whole.
type Nearest<'p> = Vec<(&'p str, bool)>;

/// Returns the lines before and after a match that fit, one of each in turn, so that there is no gap.
fn nearest_lines<'p>(entry: &Match<'p>, room: u64) -> (Nearest<'p>, Nearest<'p>) {
    /// Bytes of the names of both lists.
    const NAMES: u64 = r#","before":[],"after":[]"#.len() as u64;
    let mut left = room.saturating_sub(NAMES);
    let [mut before, mut after]: [Nearest<'p>; 2] =
        [entry.before, entry.after].map(|context| context.lines().collect());
    before.reverse();
    let (mut above, mut below) = (0, 0);
    let mut take = |line: Option<&(&str, bool)>, taken: &mut usize| {
        let rest = line.and_then(|(text, _)| left.checked_sub(json_bytes(text) + 1));
        left = rest.unwrap_or(left);
        *taken += usize::from(rest.is_some());
        rest.is_some()
    };
    let (mut rises, mut falls) = (true, true);
    while rises || falls {
        falls = falls && take(after.get(below), &mut below);
        rises = rises && take(before.get(above), &mut above);
    }
    before.truncate(above);
    after.truncate(below);
    (before, after)
}

/// Returns the size in bytes of the `mark` of one file in a response.
fn mark_bytes(path: &(impl Serialize + ?Sized)) -> u64 {
    /// Digest at the file's first match, and both field names of its mark.
    const BESIDE: u64 = r#","sha256":"""#.len() as u64 * 2 + r#"{"path":},"#.len() as u64 + 2 * 64;
    BESIDE + json_bytes(&path)
}

/// A search that found nothing.
pub struct EmptySearch<'w> {
    /// Workspace.
    pub workspace: &'w Workspace,
    /// Roots of the search.
    pub roots: Vec<WalkRoot>,
    /// Selection of the search.
    pub selection: EntrySelection,
    /// Cancellation and deadline.
    pub control: Control,
    /// Entries that it skipped.
    pub left_out: SkippedEntries,
}

impl EmptySearch<'_> {
    /// Returns advice on how to include skipped entries, if they may explain the empty result. `count` returns how many
    /// of the given entries would have been in the result.
    pub fn advice(
        &self,
        mut count: impl FnMut(&mut dyn Iterator<Item = WalkEntry>) -> u64,
    ) -> Option<String> {
        let SkippedEntries { ignored, hidden, .. } = self.left_out;
        let parts = [
            (SkipCause::Ignored, ignored, "ignored", "no_ignore"),
            (SkipCause::Hidden, hidden, "hidden", "hidden"),
        ];
        let told: Vec<String> = parts
            .into_iter()
            .filter(|(_, entries, ..)| *entries > 0)
            .filter_map(|(why, entries, kind, option)| {
                let skipped = match self.explained_by(why, &mut count) {
                    SkipExplanation::By(0) => return None,
                    SkipExplanation::By(count) => plural(count, &format!("{kind} file")),
                    SkipExplanation::Perhaps => plural(entries, &format!("{kind} entry")),
                };
                Some(format!("{skipped} ({option} shows them)"))
            })
            .collect();
        (!told.is_empty()).then(|| format!("no matches; skipped {}", told.join(", ")))
    }

    /// Repeats the walk.
    pub fn walk(&self) -> Walk<'_> {
        Walk::new(self.workspace, self.roots.clone(), self.selection.clone(), self.control.clone())
    }

    /// Checks how far entries skipped for this reason explain the empty result.
    fn explained_by(
        &self,
        why: SkipCause,
        count: &mut impl FnMut(&mut dyn Iterator<Item = WalkEntry>) -> u64,
    ) -> SkipExplanation {
        let skipped = self.left_out.listed.iter().filter(|entry| entry.why == why).rev().cloned().collect();
        let (selection, control) = (self.selection.clone(), self.control.clone());
        let mut walk = Walk::of_skipped(self.workspace, skipped, selection, control, SKIPPED_ENTRIES_MAX);
        let mut is_whole = self.left_out.is_listed_whole();
        let mut looked_at = std::iter::from_fn(|| {
            if self.control.should_stop() {
                is_whole = false;
                return None;
            }
            walk.next()
        });
        let found = count(&mut looked_at);
        if found == 0 && (!is_whole || walk.left_out_left == 0) {
            return SkipExplanation::Perhaps;
        }
        SkipExplanation::By(found)
    }
}

/// Explanation of an empty result by skipped entries.
enum SkipExplanation {
    /// Number of entries that would have been in it.
    By(u64),
    /// There were too many entries to check.
    Perhaps,
}

/// Returns true if a file is small enough for the second search.
pub fn is_small(found: &WalkEntry) -> bool {
    found.stat().is_ok_and(|stat| fs::size_of(&stat) <= SKIPPED_FILE_BYTES_MAX)
}
