//! All files searched: fed by the walk, worked on in parallel, gathered page by page.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use super::collect::{Gathered, MatchDetail};
use super::file::{FileSearcher, Listener};
use super::notes::Notes;
use super::ordered::{self, Turn, Work};
use super::query::{Search, SearchedPart};
use super::results::{Results, SearchResult};
use super::walk::WalkEntry;
use crate::control::Progress;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;

/// Files handed to a thread at once.
const BATCH_FILES: usize = 32;
/// Bytes of matches that a batch may gather before it waits for its turn to hand them over.
const BATCH_BYTES_MAX: usize = 128 * 1024;
/// Files searched between two reports of progress.
const REPORT_FILES: u64 = 256;

/// A file to be searched.
#[derive(Debug)]
pub enum FileToSearch {
    /// One that the walk stands at.
    Found(WalkEntry),
    /// One that the walk has left.
    At(WorkspacePath),
}

impl FileToSearch {
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
            Self::Found(found) => found.path(),
            Self::At(path) => path.clone(),
        }
    }

    /// Whether the caller named it.
    fn is_named(&self) -> bool {
        matches!(self, Self::Found(found) if found.named)
    }
}

impl Search<'_> {
    /// Searches `files`.
    pub fn run(&self, mut files: impl Iterator<Item = FileToSearch> + Send) -> SearchResult {
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
                let batch: Vec<FileToSearch> = files.by_ref().take(BATCH_FILES).collect();
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
    type Batch = Vec<FileToSearch>;
    type Done = Vec<SearchedPart>;
    type Scratch = FileSearcher<'s>;

    fn scratch(&self) -> FileSearcher<'s> {
        FileSearcher::new(&self.search.manner)
    }

    fn process(
        &self,
        searcher: &mut FileSearcher<'s>,
        batch: Vec<FileToSearch>,
        turn: &Turn<'_, Vec<SearchedPart>>,
    ) -> Vec<SearchedPart> {
        let mut parts = Vec::new();
        for target in batch {
            if turn.is_over() || self.search.control.should_stop() {
                break;
            }
            self.search_one(searcher, &target, turn, &mut parts);
            let bytes: usize = parts.iter().map(|part| part.gathered.matches.len()).sum();
            if bytes > BATCH_BYTES_MAX && !turn.flush(std::mem::take(&mut parts)) {
                break;
            }
        }
        parts
    }
}

impl Running<'_, '_> {
    /// Searches one file and adds what comes of it to `parts`.
    fn search_one(
        &self,
        searcher: &mut FileSearcher<'_>,
        target: &FileToSearch,
        turn: &Turn<'_, Vec<SearchedPart>>,
        parts: &mut Vec<SearchedPart>,
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
            ready.push(SearchedPart { path: target.path(), gathered, last: false, count: 0, seen: None });
            turn.flush(ready)
        };
        let listener =
            Listener { should_stop: &should_stop, only_count: &only_count, hand_over: &mut hand_over };
        match searcher.search(fd, target.is_named(), listener) {
            Ok(Some(result)) => {
                let cut_off = result.binary_at.is_some() && !target.is_named();
                if result.count == 0 || (cut_off && self.search.manner.style.wanted == MatchDetail::Number) {
                    return;
                }
                if let Some(offset) = result.binary_at {
                    self.note_binary(target, offset);
                }
                let (count, seen) = (result.count, result.seen);
                parts.push(SearchedPart {
                    path: target.path(),
                    gathered: result.gathered,
                    last: true,
                    count,
                    seen,
                });
            }
            Ok(None) => {}
            Err(_) if should_stop() => {}
            Err(error) => self.note(target, &error.to_string()),
        }
    }

    /// Remarks that a file could not be searched.
    fn note(&self, target: &FileToSearch, reason: &str) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(|| format!("{} was not searched: {reason}", self.search.workspace.shown(&target.path())));
    }

    /// Remarks that a file has a NUL byte.
    fn note_binary(&self, target: &FileToSearch, offset: u64) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = || self.search.workspace.shown(&target.path());
        notes.push(|| {
            if target.is_named() {
                format!("{} is binary (NUL at byte {offset}): NULs were treated as line endings", shown())
            } else {
                format!("{} is binary (NUL at byte {offset}): matches after that are not shown", shown())
            }
        });
    }
}
