//! All files searched: fed by the walk, worked on in parallel, gathered page by page.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::Stat;
use rustix::io::Errno;

use super::collect::{Gathered, Wanted};
use super::file::{FileSearcher, Listener, Manner};
use super::lines::{Count, Match, ShownPath};
use super::notes::Notes;
use super::ordered::{self, Turn, Work};
use super::page::{Offered, Page, Window, json_bytes};
use super::walk::Found;
use crate::control::{Control, Progress};
use crate::engine::fs;
use crate::engine::path::WorkspacePath;
use crate::engine::workspace::Workspace;
use crate::sha256::Sha256;

/// Files handed to a thread at once.
const BATCH_FILES: usize = 32;
/// Files searched between two reports of progress.
const REPORT_FILES: u64 = 4096;

/// A file to be searched.
#[derive(Debug)]
pub enum Target {
    /// One that the walk stands at.
    Found(Found),
    /// One that the walk has left.
    At(WorkspacePath),
}

impl Target {
    /// Opens it for reading, without ever blocking.
    fn open(&self, workspace: &Workspace) -> Result<OwnedFd, Errno> {
        match self {
            Self::Found(found) => found.open(),
            Self::At(path) => fs::open_beneath(workspace.root_fd(), path, fs::READ),
        }
    }

    /// Its path from the root.
    fn path(&self) -> WorkspacePath {
        match self {
            Self::Found(found) => WorkspacePath::new(&found.path()).unwrap_or_default(),
            Self::At(path) => path.clone(),
        }
    }

    /// Whether the caller named it.
    fn is_named(&self) -> bool {
        matches!(self, Self::Found(found) if found.named)
    }
}

/// What is searched for, and how much of it is shown.
#[derive(Debug)]
pub struct Search<'w> {
    /// The workspace searched.
    pub workspace: &'w Workspace,
    /// How files are searched.
    pub manner: Manner,
    /// How much is shown.
    pub window: Window,
    /// Whether matches are counted behind the page too.
    pub total: bool,
    /// Whether an answer names each file once.
    pub group: bool,
    /// When to stop.
    pub control: Control,
}

/// What came of a search.
#[derive(Debug)]
pub struct Outcome {
    /// The matches of this page.
    pub matches: Vec<Match>,
    /// The files with matches of this page.
    pub files: Vec<ShownPath>,
    /// The counts of this page.
    pub counts: Vec<Count>,
    /// Matches found; up to this page's end where it is truncated and no total was wanted.
    pub matched: u64,
    /// Files with matches, likewise.
    pub files_matched: u64,
    /// Where the next page begins, if there is one.
    pub next_offset: Option<u64>,
    /// The files of this page, as they were searched.
    pub seen: Vec<Seen>,
    /// Files searched.
    pub files_searched: u64,
    /// Whether every file was looked at, as far as the page needs it.
    pub complete: bool,
    /// What could not be searched.
    pub notes: Notes,
}

impl Outcome {
    /// Whether a path had to be changed to be shown.
    #[must_use]
    pub fn has_lossy_path(&self) -> bool {
        let shown = self.matches.iter().filter_map(|entry| entry.path.as_ref());
        let counted = self.counts.iter().map(|count| &count.path);
        shown
            .chain(&self.files)
            .chain(counted)
            .any(|path| path.as_str().contains(char::REPLACEMENT_CHARACTER))
    }
}

/// A file of which matches are shown, as it was when they were found.
#[derive(Debug)]
pub struct Seen {
    /// Its path.
    pub path: WorkspacePath,
    /// Its path as answers show it.
    pub shown: ShownPath,
    /// All its bytes.
    pub sha256: Sha256,
    /// What the system says of it.
    pub stat: Stat,
    /// The lines shown whole, from 1.
    pub lines: Vec<(u64, u64)>,
}

/// What came of one file, or of a part of it.
struct Part {
    /// The file.
    path: WorkspacePath,
    /// What was found in it.
    gathered: Gathered,
    /// Whether it is the last part.
    last: bool,
    /// All matches of the file; known with the last part.
    count: u64,
    /// The file as it was searched.
    seen: Option<(Sha256, Stat)>,
}

impl Search<'_> {
    /// Searches `files`.
    pub fn run(&self, mut files: impl Iterator<Item = Target> + Send) -> Outcome {
        let running = Running {
            search: self,
            only_count: AtomicBool::new(false),
            files: AtomicU64::new(0),
            notes: Mutex::new(Notes::default()),
        };
        let mut results = Results::new(self);
        ordered::run(
            &running,
            || {
                if self.control.should_stop() {
                    return None;
                }
                let batch: Vec<Target> = files.by_ref().take(BATCH_FILES).collect();
                (!batch.is_empty()).then_some(batch)
            },
            |parts| {
                for part in parts {
                    results.take(part);
                }
                running.only_count.store(results.is_full(), Ordering::Relaxed);
                self.total || !results.is_full()
            },
        );
        let files_searched = running.files.load(Ordering::Relaxed);
        let notes = running.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.finish(files_searched, notes)
    }
}

/// A search under way.
struct Running<'s, 'w> {
    /// What is searched for.
    search: &'s Search<'w>,
    /// Set where the page is full and matches are only counted.
    only_count: AtomicBool,
    /// Files searched so far.
    files: AtomicU64,
    /// What could not be searched.
    notes: Mutex<Notes>,
}

impl<'s> Work for Running<'s, '_> {
    type Batch = Vec<Target>;
    type Done = Vec<Part>;
    type Scratch = FileSearcher<'s>;

    fn scratch(&self) -> FileSearcher<'s> {
        FileSearcher::new(&self.search.manner)
    }

    fn process(
        &self,
        searcher: &mut FileSearcher<'s>,
        batch: Vec<Target>,
        turn: &Turn<'_, Vec<Part>>,
    ) -> Vec<Part> {
        let mut parts = Vec::new();
        for target in batch {
            if turn.is_over() || self.search.control.should_stop() {
                break;
            }
            self.search_one(searcher, &target, turn, &mut parts);
        }
        parts
    }
}

impl Running<'_, '_> {
    /// Searches one file and adds what comes of it to `parts`.
    fn search_one(
        &self,
        searcher: &mut FileSearcher<'_>,
        target: &Target,
        turn: &Turn<'_, Vec<Part>>,
        parts: &mut Vec<Part>,
    ) {
        let done = self.files.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(REPORT_FILES) {
            self.search.control.report(Progress { done, total: None });
        }
        let fd = match target.open(self.search.workspace) {
            Ok(fd) => fd,
            // Gone, or no file any more: as if it had never been there.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NOTDIR) => return,
            Err(errno) => return self.note(target, &errno.to_string()),
        };
        let should_stop = || turn.is_over() || self.search.control.should_stop();
        let only_count = || self.only_count.load(Ordering::Relaxed);
        let mut hand_over = |gathered: Gathered| {
            let mut ready = std::mem::take(parts);
            ready.push(Part { path: target.path(), gathered, last: false, count: 0, seen: None });
            turn.flush(ready)
        };
        let listener =
            Listener { should_stop: &should_stop, only_count: &only_count, hand_over: &mut hand_over };
        match searcher.search(fd, target.is_named(), listener) {
            Ok(Some(result)) => {
                let cut_off = result.binary_at.is_some() && !target.is_named();
                if result.count == 0 || (cut_off && self.search.manner.style.wanted == Wanted::Number) {
                    return;
                }
                if let Some(offset) = result.binary_at {
                    self.note_binary(target, offset);
                }
                let (count, seen) = (result.count, result.seen);
                parts.push(Part { path: target.path(), gathered: result.gathered, last: true, count, seen });
            }
            Ok(None) => {}
            Err(_) if should_stop() => {}
            Err(error) => self.note(target, &error.to_string()),
        }
    }

    /// Remarks that a file could not be searched.
    fn note(&self, target: &Target, reason: &str) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(|| format!("{} was not searched: {reason}", self.search.workspace.shown(&target.path())));
    }

    /// Remarks that a file has a NUL byte.
    fn note_binary(&self, target: &Target, offset: u64) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = || self.search.workspace.shown(&target.path());
        notes.push(|| {
            if target.is_named() {
                format!("{} is binary (NUL at byte {offset}): NULs were taken for line endings", shown())
            } else {
                format!("{} is binary (NUL at byte {offset}): matches behind that are not shown", shown())
            }
        });
    }
}

/// Results taken in order.
struct Results<'s, 'w> {
    /// What was asked for.
    search: &'s Search<'w>,
    /// The matches.
    matches: Page<Match>,
    /// The files or counts.
    files: Page<Count>,
    /// Matches in files up to the end of the page.
    counted: u64,
    /// Files with matches, up to the end of the page unless a total is wanted.
    files_matched: u64,
    /// Whether the file at hand has been counted.
    file_counted: bool,
    /// The file at hand as answers show it, once it is needed.
    shown: Option<ShownPath>,
    /// The lines of it that are shown.
    lines: Vec<(u64, u64)>,
    /// Whether matches of it are shown.
    on_page: bool,
    /// Files that are shown.
    seen: Vec<Seen>,
}

impl<'s, 'w> Results<'s, 'w> {
    /// No results yet.
    fn new(search: &'s Search<'w>) -> Self {
        Self {
            search,
            matches: Page::new(search.window),
            files: Page::new(search.window),
            counted: 0,
            files_matched: 0,
            file_counted: false,
            shown: None,
            lines: Vec::new(),
            on_page: false,
            seen: Vec::new(),
        }
    }

    /// Whether the page is full.
    fn is_full(&self) -> bool {
        self.matches.is_full() || self.files.is_full()
    }

    /// Takes the next part.
    fn take(&mut self, part: Part) {
        if self.is_full() && !self.search.total {
            return;
        }
        let last = part.last;
        if self.search.manner.style.wanted == Wanted::Lines {
            self.take_matches(part.path, part.gathered, part.seen, last);
        } else {
            self.take_file(&part);
        }
        if last {
            self.shown = None;
            self.file_counted = false;
        }
    }

    /// Takes matches of one file.
    fn take_matches(
        &mut self,
        path: WorkspacePath,
        gathered: Gathered,
        seen: Option<(Sha256, Stat)>,
        last: bool,
    ) {
        for entry in gathered.matches {
            let lines = (entry.shown_lines(), entry.whole);
            let (shown, workspace, group) = (&mut self.shown, self.search.workspace, self.search.group);
            let first = !self.on_page;
            let bounded = self.search.window.bytes_max > 0;
            let make = || {
                let shown = shown.get_or_insert_with(|| workspace.shown(&path).into());
                Match { path: Some(shown.clone()), ..entry }
            };
            let bytes_of = |entry: &Match| {
                let path = entry.path.as_ref().filter(|_| group && !first).map_or(0, json_bytes);
                if bounded { json_bytes(entry) - path } else { 0 }
            };
            match self.matches.offer(make, bytes_of) {
                Offered::Left if !self.search.total => return self.end_file(path, seen, last),
                Offered::Left => {}
                Offered::Passed => self.count_file(),
                Offered::Kept => {
                    self.count_file();
                    self.on_page = true;
                    if lines.1 {
                        self.lines.push(lines.0);
                    }
                }
            }
        }
        if self.search.total || !self.is_full() {
            self.matches.skip(gathered.counted);
            self.count_file();
        }
        self.end_file(path, seen, last);
    }

    /// Counts the file at hand once.
    fn count_file(&mut self) {
        if !self.file_counted {
            self.file_counted = true;
            self.files_matched += 1;
        }
    }

    /// Remembers what was shown of the file at hand.
    fn end_file(&mut self, path: WorkspacePath, seen: Option<(Sha256, Stat)>, last: bool) {
        if !last {
            return;
        }
        let lines = std::mem::take(&mut self.lines);
        let on_page = std::mem::take(&mut self.on_page);
        if let (true, Some((sha256, stat)), Some(shown)) = (on_page, seen, self.shown.clone()) {
            self.seen.push(Seen { path, shown, sha256, stat, lines });
        }
    }

    /// Takes a file with its count.
    fn take_file(&mut self, part: &Part) {
        let workspace = self.search.workspace;
        let make = || Count { path: workspace.shown(&part.path).into(), count: part.count };
        let offered = self.files.offer(make, json_bytes);
        if offered == Offered::Left && !self.search.total {
            return;
        }
        self.files_matched += 1;
        self.counted += part.count;
        if let (Offered::Kept, Some((sha256, stat))) = (offered, part.seen) {
            let shown = workspace.shown(&part.path).into();
            self.seen.push(Seen { path: part.path.clone(), shown, sha256, stat, lines: Vec::new() });
        }
    }

    /// The outcome.
    fn finish(self, files_searched: u64, notes: Notes) -> Outcome {
        let wanted = self.search.manner.style.wanted;
        let full = self.is_full();
        let next_offset = self.matches.next_offset().or(self.files.next_offset());
        let matched = match wanted {
            Wanted::Lines => self.matches.seen(),
            Wanted::Number => self.counted,
            Wanted::Presence => self.files_matched,
        };
        let matched = match next_offset {
            Some(next) if !self.search.total && wanted == Wanted::Lines => next,
            _ => matched,
        };
        let mut outcome = Outcome {
            matches: self.matches.into_entries(),
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
        if wanted == Wanted::Presence {
            outcome.files = files.into_iter().map(|file| file.path).collect();
        } else {
            outcome.counts = files;
        }
        outcome
    }
}
