//! Files searched in parallel, results in order.
//!
//! The walk feeds batches in order, several threads process them, and the results are passed on in the same order. The
//! calling thread works too, and starts others only once the work is clearly not tiny. No worker gets further ahead
//! than [`AHEAD_MAX`] batches.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::control::Progress;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::limits::SEARCH_THREADS_MAX;
use crate::platform::other_cpu;
use crate::search::collect::{MatchBatch, MatchDetail};
use crate::search::entry::{SearchWarnings, WalkEntry};
use crate::search::file::{FileSearchResult, FileSearcher, PartResult, SearchListener, SearchParameters};
use crate::search::results::{Results, SearchResult};

/// Files in a batch.
const BATCH_FILES: usize = 32;
/// Most bytes of matches in a batch before it waits for its turn to pass them on.
const BATCH_BYTES_MAX: usize = 128 * 1024;
/// Files between two progress reports.
const REPORT_FILES: u64 = 256;

/// A file to search.
#[derive(Debug)]
pub enum FileToSearch {
    /// An entry in the walk's present folder.
    Found(WalkEntry),
    /// A path that the walk has left behind.
    At(WorkspacePath),
}

impl FileToSearch {
    /// Opens it for reading; never blocks.
    fn open(&self, workspace: &Workspace) -> Result<OwnedFd, Errno> {
        match self {
            Self::Found(found) => found.open(),
            Self::At(path) => fs::open_beneath(workspace.root_fd(), path, fs::READ),
        }
    }

    /// Returns its path from the root.
    fn path(&self) -> WorkspacePath {
        match self {
            Self::Found(found) => found.path(),
            Self::At(path) => path.clone(),
        }
    }

    /// Returns true if the caller named it.
    fn is_named(&self) -> bool {
        matches!(self, Self::Found(found) if found.named)
    }
}

impl SearchParameters<'_> {
    /// Searches `files`.
    pub fn run(&self, mut files: impl Iterator<Item = FileToSearch> + Send) -> SearchResult {
        let running = RunningSearch {
            search: self,
            only_count: AtomicBool::new(false),
            files: AtomicU64::new(0),
            notes: Mutex::new(SearchWarnings::default()),
        };
        let mut results = Results::new(self);
        run_in_order(
            || {
                if self.control.should_stop() {
                    return None;
                }
                let batch: Vec<FileToSearch> = files.by_ref().take(BATCH_FILES).collect();
                (!batch.is_empty()).then_some(batch)
            },
            || FileSearcher::new(&self.manner),
            |searcher, batch, turn| running.search_batch(searcher, batch, turn),
            |parts| {
                for part in parts {
                    results.add_part(part);
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

/// A running search.
struct RunningSearch<'s, 'w> {
    /// Parameters of the search.
    search: &'s SearchParameters<'w>,
    /// Set when the page is full and matches are only counted.
    only_count: AtomicBool,
    /// Files searched so far.
    files: AtomicU64,
    /// Warnings on files that could not be searched.
    notes: Mutex<SearchWarnings>,
}

impl RunningSearch<'_, '_> {
    /// Searches the files of a batch, and passes on early the matches that are too large to keep.
    fn search_batch(
        &self,
        searcher: &mut FileSearcher<'_>,
        batch: Vec<FileToSearch>,
        turn: &BatchPosition<'_, '_, Vec<FileToSearch>, Vec<PartResult>>,
    ) -> Vec<PartResult> {
        let mut parts = Vec::new();
        for target in batch {
            if turn.is_over() || self.search.control.should_stop() {
                break;
            }
            self.search_one(searcher, &target, turn, &mut parts);
            let bytes: usize = parts.iter().map(|part| part.found.gathered.matches.len()).sum();
            if bytes > BATCH_BYTES_MAX && !turn.flush(std::mem::take(&mut parts)) {
                break;
            }
        }
        parts
    }

    /// Searches one file and adds its results to `parts`.
    fn search_one(
        &self,
        searcher: &mut FileSearcher<'_>,
        target: &FileToSearch,
        turn: &BatchPosition<'_, '_, Vec<FileToSearch>, Vec<PartResult>>,
        parts: &mut Vec<PartResult>,
    ) {
        let done = self.files.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(REPORT_FILES) {
            self.search.control.report(Progress { done, total: None });
        }
        let fd = match target.open(self.search.workspace) {
            Ok(fd) => fd,
            // Deleted, or not a file any more: as if it had never been there.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NOTDIR) => return,
            Err(errno) => return self.note(target, &errno.to_string()),
        };
        let should_stop = || turn.is_over() || self.search.control.should_stop();
        let only_count = || self.only_count.load(Ordering::Relaxed);
        let mut hand_over = |gathered: MatchBatch| {
            let mut ready = std::mem::take(parts);
            let found = FileSearchResult { gathered, ..FileSearchResult::default() };
            ready.push(PartResult { path: target.path(), found, last: false });
            turn.flush(ready)
        };
        let listener =
            SearchListener { should_stop: &should_stop, only_count: &only_count, hand_over: &mut hand_over };
        match searcher.search(fd, target.is_named(), listener) {
            Ok(Some(result)) => {
                let cut_off = result.binary_at.is_some();
                if result.count == 0 || (cut_off && self.search.manner.style.wanted == MatchDetail::Number) {
                    return;
                }
                if let Some(offset) = result.binary_at {
                    self.note_binary(target, offset);
                }
                parts.push(PartResult { path: target.path(), found: result, last: true });
            }
            Ok(None) => {}
            Err(_) if should_stop() => {}
            Err(error) => self.note(target, &error.to_string()),
        }
    }

    /// Adds a note that a file could not be searched.
    fn note(&self, target: &FileToSearch, reason: &str) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes
            .push(|| format!("{} was not searched: {reason}", self.search.workspace.display(&target.path())));
    }

    /// Adds a note that a file has a NUL byte.
    fn note_binary(&self, target: &FileToSearch, offset: u64) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = || self.search.workspace.display(&target.path());
        notes.push(|| {
            format!("{} is binary (NUL at byte {offset}): matches after that are not shown", shown())
        });
    }
}

/// Most finished batches that wait for an earlier one.
const AHEAD_MAX: usize = 64;
/// Batches that the calling thread does before it starts others.
const ALONE_BATCHES: u64 = 1;

/// Does work in batches: `feed` returns them, `process` does one with the state that `scratch` made for its thread, and
/// `commit` receives the results in order and returns true to go on.
pub fn run_in_order<B: Send, D: Send, S>(
    feed: impl FnMut() -> Option<B> + Send,
    scratch: impl Fn() -> S + Sync,
    process: impl Fn(&mut S, B, &BatchPosition<'_, '_, B, D>) -> D + Sync,
    commit: impl FnMut(D) -> bool + Send,
) {
    let line = ResultQueue::new(Box::new(feed), Box::new(commit));
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(SEARCH_THREADS_MAX);
    let mut own = scratch();
    let mut alone = 0;
    while alone < ALONE_BATCHES || threads == 1 {
        alone += 1;
        if !line.do_next(&mut own, &process) {
            return;
        }
    }
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // If no thread can start, the others do the work.
            let _ = other_cpu::spawn_scoped(scope, || {
                let mut own = scratch();
                while line.do_next(&mut own, &process) {}
            });
        }
        while line.do_next(&mut own, &process) {}
    });
}

/// Queue of batches that puts the results back in order.
struct ResultQueue<'a, B, D> {
    /// Source of batches, with the number of the next one.
    feed: Mutex<(u64, NextBatch<'a, B>)>,
    /// Results in order.
    order: Mutex<OrderedResults<'a, D>>,
    /// Signalled when it is another batch's turn.
    passed: Condvar,
    /// Set when no more results are wanted.
    stopped: AtomicBool,
}

/// Returns the next batch.
type NextBatch<'a, B> = Box<dyn FnMut() -> Option<B> + Send + 'a>;

/// Results that are put in order.
struct OrderedResults<'a, D> {
    /// Number of the batch whose turn it is.
    next: u64,
    /// Results that came before their turn.
    waiting: BTreeMap<u64, D>,
    /// Receives the results.
    commit: Box<dyn FnMut(D) -> bool + Send + 'a>,
}

impl<'a, B: Send, D: Send> ResultQueue<'a, B, D> {
    /// Returns an empty queue.
    fn new(feed: NextBatch<'a, B>, commit: Box<dyn FnMut(D) -> bool + Send + 'a>) -> Self {
        Self {
            feed: Mutex::new((0, feed)),
            order: Mutex::new(OrderedResults { next: 0, waiting: BTreeMap::new(), commit }),
            passed: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Processes one batch from start to end; `false` if there is nothing left to do.
    fn do_next<S>(
        &self,
        scratch: &mut S,
        process: &impl Fn(&mut S, B, &BatchPosition<'_, '_, B, D>) -> D,
    ) -> bool {
        if self.is_stopped() {
            return false;
        }
        let (number, batch) = {
            let mut feed = lock(&self.feed);
            let Some(batch) = feed.1() else {
                return false;
            };
            feed.0 += 1;
            (feed.0 - 1, batch)
        };
        let _guard = StopOnUnwind(self);
        let done = process(scratch, batch, &BatchPosition { line: self, number });
        self.hand_over(number, done);
        !self.is_stopped()
    }

    /// Passes on a result, and others whose turn it is then; a worker that is too far ahead waits.
    fn hand_over(&self, number: u64, done: D) {
        let mut order = lock(&self.order);
        order.waiting.insert(number, done);
        let mut passed = false;
        while !self.is_stopped() {
            let turn = order.next;
            let Some(done) = order.waiting.remove(&turn) else { break };
            order.next += 1;
            passed = true;
            if !(order.commit)(done) {
                self.stop();
            }
        }
        if passed {
            self.passed.notify_all();
        }
        while order.waiting.len() > AHEAD_MAX && !self.is_stopped() {
            order = self.passed.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops all work.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns true if all work has stopped.
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Position of a batch in the order.
pub struct BatchPosition<'l, 'a, B, D> {
    /// Queue for the results.
    line: &'l ResultQueue<'a, B, D>,
    /// Number of the batch.
    number: u64,
}

impl<B: Send, D: Send> BatchPosition<'_, '_, B, D> {
    /// Waits for this batch's turn and passes on a part of its result; `false` if no more is wanted.
    pub fn flush(&self, part: D) -> bool {
        let line = self.line;
        let mut order = lock(&line.order);
        while order.next != self.number && !line.is_stopped() {
            order = line.passed.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
        if !line.is_stopped() && !(order.commit)(part) {
            line.stop();
            line.passed.notify_all();
        }
        !line.is_stopped()
    }

    /// Returns true if no more results are wanted.
    pub fn is_over(&self) -> bool {
        self.line.is_stopped()
    }
}

/// Stops all work if a worker panics, so that no other waits for its turn for ever.
struct StopOnUnwind<'l, 'a, B: Send, D: Send>(&'l ResultQueue<'a, B, D>);

impl<B: Send, D: Send> Drop for StopOnUnwind<'_, '_, B, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
            self.0.passed.notify_all();
        }
    }
}

/// Locks a mutex, even after a panic in another holder: the data is valid at each step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubles a number, an earlier one more slowly, and passes on some results early.
    fn doubled((): &mut (), number: u64, turn: &BatchPosition<'_, '_, u64, Vec<u64>>) -> Vec<u64> {
        std::thread::sleep(std::time::Duration::from_micros(300 - number % 300));
        if number.is_multiple_of(7) {
            let _ = turn.flush(vec![number * 2]);
            return Vec::new();
        }
        vec![number * 2]
    }

    #[test]
    fn parallel_results_are_in_input_order() {
        let mut numbers = 0..1000;
        let mut results = Vec::new();
        run_in_order(
            || numbers.next(),
            || {},
            doubled,
            |done| {
                results.extend(done);
                true
            },
        );
        assert_eq!(results, (0..1000).map(|number| number * 2).collect::<Vec<_>>());
    }

    #[test]
    fn parallel_work_stops_when_the_receiver_has_enough() {
        let mut results = Vec::new();
        let mut fed = 0;
        run_in_order(
            || {
                fed += 1;
                Some(fed - 1)
            },
            || {},
            doubled,
            |done| {
                results.extend(done);
                results.len() < 100
            },
        );
        assert!(results.len() >= 100 && results.len() < 103, "{}", results.len());
        assert!(fed < 300, "{fed}");
    }
}
