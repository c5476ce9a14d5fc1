//! Work in parallel, results in order.
//!
//! Batches are fed one after the other, worked on by several threads, and handed over in the
//! order in which they were fed. The calling thread works too and calls for help only once the
//! work has turned out not to be tiny. No worker gets further ahead than [`AHEAD_MAX`] batches.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::apart::Apart;

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
        turn: &Turn<'_, Self::Done>,
    ) -> Self::Done;
}

/// Does all of `work`: `feed` gives the batches, `commit` takes what comes of them, in order, and
/// says whether to go on.
pub fn run<W: Work>(
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

    /// Whether all work has ended.
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// A batch's place in the order.
pub struct Turn<'l, D> {
    /// Where the results go.
    line: &'l dyn Hand<D>,
    /// Which batch it is.
    number: u64,
}

impl<D> Turn<'_, D> {
    /// Waits for this batch's turn and hands over what is done of it; `false` where nothing more
    /// is wanted.
    #[must_use]
    pub fn flush(&self, part: D) -> bool {
        self.line.hand_part(self.number, part)
    }

    /// Whether nothing more is wanted.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.line.is_over()
    }
}

/// What a [`Turn`] needs of its line, whatever the batches are.
trait Hand<D>: Sync {
    /// See [`Turn::flush`].
    fn hand_part(&self, number: u64, part: D) -> bool;
    /// See [`Turn::is_over`].
    fn is_over(&self) -> bool;
}

impl<B: Send, D: Send> Hand<D> for Line<'_, B, D> {
    fn hand_part(&self, number: u64, part: D) -> bool {
        let mut order = lock(&self.order);
        while order.next != number && !self.is_stopped() {
            order = self.passed.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
        if !self.is_stopped() && !(order.commit)(part) {
            self.stop();
            self.passed.notify_all();
        }
        !self.is_stopped()
    }

    fn is_over(&self) -> bool {
        self.is_stopped()
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

        fn process(&self, (): &mut (), batch: u64, turn: &Turn<'_, Vec<u64>>) -> Vec<u64> {
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
        run(
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
        run(
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
