//! Files searched in parallel, results in order.
//!
//! Batches are fed by the walk one after the other, worked on by several threads, and handed over in the
//! order in which they were fed. The calling thread works too and calls for help only once the
//! work has turned out not to be tiny. No worker gets further ahead than [`AHEAD_MAX`] batches.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::apart::Apart;
use crate::control::Progress;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::search::collect::{Gathered, MatchDetail};
use crate::search::entry::{Notes, WalkEntry};
use crate::search::file::{FileSearcher, Listener, Search, SearchedPart};
use crate::search::results::{Results, SearchResult};

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

    /// Returns true if the caller named it.
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
        run_in_order(
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
        turn: &Turn<'_, '_, Vec<FileToSearch>, Vec<SearchedPart>>,
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
        turn: &Turn<'_, '_, Vec<FileToSearch>, Vec<SearchedPart>>,
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

/// Finished batches that may wait for an earlier one.
const AHEAD_MAX: usize = 64;
/// Threads at most: more do not pay, since one feeds them all.
const THREADS_MAX: usize = 12;
/// Batches that the calling thread does before it calls for help.
const ALONE_BATCHES: u64 = 1;

/// The parts of a piece of work.
pub trait Work: Sync {
    /// What is worked on at once.
    type Batch: Send;
    /// What comes of it.
    type Done: Send;
    /// What a thread keeps from batch to batch.
    type Scratch;

    /// What a thread needs before its first batch.
    fn scratch(&self) -> Self::Scratch;

    /// Works on a batch; `turn` hands over early what is too large to keep.
    fn process(
        &self,
        scratch: &mut Self::Scratch,
        batch: Self::Batch,
        turn: &Turn<'_, '_, Self::Batch, Self::Done>,
    ) -> Self::Done;
}

/// Does all of `work`: `feed` gives the batches, `commit` takes what comes of them, in order, and
/// says whether to go on.
pub fn run_in_order<W: Work>(
    work: &W,
    feed: impl FnMut() -> Option<W::Batch> + Send,
    commit: impl FnMut(W::Done) -> bool + Send,
) {
    let line = Line::new(Box::new(feed), Box::new(commit));
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let mut scratch = work.scratch();
    let mut alone = 0;
    while alone < ALONE_BATCHES || threads == 1 {
        alone += 1;
        if !line.do_next(work, &mut scratch) {
            return;
        }
    }
    let apart = Apart::from_here();
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                apart.go();
                let mut scratch = work.scratch();
                while line.do_next(work, &mut scratch) {}
            });
        }
        while line.do_next(work, &mut scratch) {}
    });
}

/// Where batches are fed and their results put back in order.
struct Line<'a, B, D> {
    /// Gives the batches, with the number of the next one.
    feed: Mutex<(u64, Feed<'a, B>)>,
    /// Takes the results.
    order: Mutex<Order<'a, D>>,
    /// Signalled whenever a turn passes on.
    passed: Condvar,
    /// Set where nothing more is wanted.
    stopped: AtomicBool,
}

/// Gives the next batch.
type Feed<'a, B> = Box<dyn FnMut() -> Option<B> + Send + 'a>;

/// Results on their way.
struct Order<'a, D> {
    /// Whose turn it is.
    next: u64,
    /// Results that came before their turn.
    waiting: BTreeMap<u64, D>,
    /// Takes them.
    commit: Box<dyn FnMut(D) -> bool + Send + 'a>,
}

impl<'a, B: Send, D: Send> Line<'a, B, D> {
    /// A line that nothing has passed yet.
    fn new(feed: Feed<'a, B>, commit: Box<dyn FnMut(D) -> bool + Send + 'a>) -> Self {
        Self {
            feed: Mutex::new((0, feed)),
            order: Mutex::new(Order { next: 0, waiting: BTreeMap::new(), commit }),
            passed: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Takes one batch from feeding to its result; `false` where there is nothing more to do.
    fn do_next<W: Work<Batch = B, Done = D>>(&self, work: &W, scratch: &mut W::Scratch) -> bool {
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
        let done = work.process(scratch, batch, &Turn { line: self, number });
        self.hand_over(number, done);
        !self.is_stopped()
    }

    /// Takes a result; those whose turn it is go on, and a worker too far ahead waits.
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

    /// Ends all work.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns true if all work has ended.
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// A batch's place in the order.
pub struct Turn<'l, 'a, B, D> {
    /// Where the results go.
    line: &'l Line<'a, B, D>,
    /// Which batch it is.
    number: u64,
}

impl<B: Send, D: Send> Turn<'_, '_, B, D> {
    /// Waits for this batch's turn and hands over what is done of it; `false` where nothing more
    /// is wanted.
    #[must_use]
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

    /// Returns true if nothing more is wanted.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.line.is_stopped()
    }
}

/// Ends all work where a worker panics, so that none waits for its turn for ever.
struct StopOnUnwind<'l, 'a, B: Send, D: Send>(&'l Line<'a, B, D>);

impl<B: Send, D: Send> Drop for StopOnUnwind<'_, '_, B, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
            self.0.passed.notify_all();
        }
    }
}

/// Locks, whatever happened to another holder: the data is put right at each step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubles numbers, the more slowly the earlier they come, and hands over in two parts.
    struct Doubling;

    impl Work for Doubling {
        type Batch = u64;
        type Done = Vec<u64>;
        type Scratch = ();

        fn scratch(&self) {}

        fn process(&self, (): &mut (), batch: u64, turn: &Turn<'_, '_, u64, Vec<u64>>) -> Vec<u64> {
            std::thread::sleep(std::time::Duration::from_micros(300 - batch % 300));
            if batch.is_multiple_of(7) {
                let _ = turn.flush(vec![batch * 2]);
                return Vec::new();
            }
            vec![batch * 2]
        }
    }

    #[test]
    fn results_come_in_the_order_of_the_batches() {
        let mut numbers = 0..1000;
        let mut results = Vec::new();
        run_in_order(
            &Doubling,
            || numbers.next(),
            |done| {
                results.extend(done);
                true
            },
        );
        assert_eq!(results, (0..1000).map(|number| number * 2).collect::<Vec<_>>());
    }

    #[test]
    fn work_ends_early_where_nothing_more_is_wanted() {
        let mut results = Vec::new();
        let mut fed = 0;
        run_in_order(
            &Doubling,
            || {
                fed += 1;
                Some(fed - 1)
            },
            |done| {
                results.extend(done);
                results.len() < 100
            },
        );
        assert!(results.len() >= 100 && results.len() < 103, "{}", results.len());
        assert!(fed < 300, "{fed}");
    }
}
