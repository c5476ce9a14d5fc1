//! Cancellation flag, deadline and progress callback of a long call; and the time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::{Error, ErrorKind};

/// Progress of a long call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Units done so far: files for a search or a scan, bytes for hashing.
    pub done: u64,
    /// Units in all, if known.
    pub total: Option<u64>,
}

/// Receives the progress of a long call, with a text if there is one; called from any thread.
pub type ProgressFn = dyn Fn(Progress, &str) + Send + Sync;

/// Passed to everything that can take long. Clones share the flag.
#[derive(Clone, Default)]
pub struct Control {
    /// Set to cancel the call.
    cancelled: Arc<AtomicBool>,
    /// Deadline of the work.
    deadline: Option<Instant>,
    /// Receiver of progress reports.
    progress: Option<Arc<ProgressFn>>,
}

impl Control {
    /// Returns a control that reports to `progress`.
    #[must_use]
    pub fn reporting_to(mut self, progress: Arc<ProgressFn>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Returns the control for a part of the work that does not report progress.
    #[must_use]
    pub fn without_reports(mut self) -> Self {
        self.progress = None;
        self
    }

    /// Returns the control with a deadline `limit` from now, unless its own is earlier.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        let later = Instant::now().checked_add(limit);
        self.deadline = self.deadline.into_iter().chain(later).min();
        self
    }

    /// Asks the work to stop at its next check.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns true if the call was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Returns true if the work should stop, for either reason.
    pub fn should_stop(&self) -> bool {
        self.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns an error if the work should stop.
    ///
    /// # Errors
    /// Returns `timeout`, in both cases.
    pub fn check(&self) -> Result<(), Error> {
        self.check_cancelled()?;
        if self.should_stop() {
            return Err(Error::new(ErrorKind::Timeout, "the call ran out of time"));
        }
        Ok(())
    }

    /// Returns an error if the call was cancelled; a deadline does not count.
    ///
    /// # Errors
    /// Returns `timeout`.
    pub fn check_cancelled(&self) -> Result<(), Error> {
        if self.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }

    /// Reports the progress.
    pub fn report(&self, progress: Progress) {
        if let Some(callback) = &self.progress {
            callback(progress, "");
        }
    }

    /// Reports the progress, with a line of output.
    pub fn report_line(&self, done: u64, line: &str) {
        if let Some(callback) = &self.progress {
            callback(Progress { done, total: None }, line);
        }
    }

    /// Returns true if someone receives progress reports.
    pub fn is_reported(&self) -> bool {
        self.progress.is_some()
    }
}

/// Returns the error for a cancelled call.
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

/// Returns seconds since 1970; 0 if the clock is earlier.
pub fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
