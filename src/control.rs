//! Cancellation flag, deadline and progress callback of a long call; and the time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::{Error, ErrorKind};

/// How far a long call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Units done so far: files for a search or a scan, bytes for hashing.
    pub done: u64,
    /// Units in all, where that is known.
    pub total: Option<u64>,
}

/// Takes the progress of a long call, with words about it where there are any; called from any thread.
pub type ProgressFn = dyn Fn(Progress, &str) + Send + Sync;

/// Handed to everything that can take long. Clones share the flag.
#[derive(Clone, Default)]
pub struct Control {
    /// Set by whoever no longer wants the answer.
    cancelled: Arc<AtomicBool>,
    /// When the work must have ended.
    deadline: Option<Instant>,
    /// Who wants to know how far it is.
    progress: Option<Arc<ProgressFn>>,
}

impl Control {
    /// A control that reports to `progress`.
    #[must_use]
    pub fn reporting_to(mut self, progress: Arc<ProgressFn>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Returns the control for a part of the work whose progress is not the call's.
    #[must_use]
    pub fn without_reports(mut self) -> Self {
        self.progress = None;
        self
    }

    /// Returns the control with a deadline `limit` from now, unless its own is earlier.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        let later = Instant::now().checked_add(limit);
        self.deadline = self.deadline.into_iter().chain(later).min();
        self
    }

    /// Asks the work to stop at its next check.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns true if someone asked the work to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Returns true if the work should stop, for either reason.
    #[must_use]
    pub fn should_stop(&self) -> bool {
        self.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Stops the work with an error where it should stop.
    ///
    /// # Errors
    /// `timeout`, in both cases.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_cancelled() {
            return Err(cancelled());
        }
        if self.should_stop() {
            return Err(Error::new(ErrorKind::Timeout, "the call ran out of time"));
        }
        Ok(())
    }

    /// Reports how far the work is.
    pub fn report(&self, progress: Progress) {
        if let Some(callback) = &self.progress {
            callback(progress, "");
        }
    }

    /// Reports how far the work is, with a line of its output.
    pub fn report_line(&self, done: u64, line: &str) {
        if let Some(callback) = &self.progress {
            callback(Progress { done, total: None }, line);
        }
    }

    /// Returns true if anybody wants to know how far the work is.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        self.progress.is_some()
    }
}

/// The refusal of a call that nobody wants any more.
#[must_use]
pub fn cancelled() -> Error {
    Error::new(ErrorKind::Timeout, "the call was cancelled").suggest("Call again if it is still needed.")
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("cancelled", &self.is_cancelled())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Seconds since 1970; 0 where the clock says an earlier time.
#[must_use]
pub fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
