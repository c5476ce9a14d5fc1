//! Why a snapshot could not be made or read.

use std::error::Error;
use std::fmt;

/// Why there is no snapshot, in words for a person.
///
/// The change that it was for stands all the same; unless the caller required a snapshot,
/// this becomes a warning.
#[derive(Debug)]
pub struct SnapshotError {
    /// What was tried, or what was found.
    message: String,
    /// What went wrong beneath, where something did.
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl SnapshotError {
    /// Whether the work was stopped, by its time limit or by whoever asked for it.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        let cause = self.source.as_ref().and_then(|source| source.downcast_ref::<crate::error::Error>());
        cause.is_some_and(|error| error.kind() == crate::error::ErrorKind::Timeout)
    }

    /// Whether a signal cut a call of the system short: it can be tried again.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        let mut cause = self.source();
        while let Some(error) = cause {
            if error
                .downcast_ref::<std::io::Error>()
                .is_some_and(|io| io.kind() == std::io::ErrorKind::Interrupted)
            {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// A refusal without a cause beneath it.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl Error for SnapshotError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|error| error as &(dyn Error + 'static))
    }
}

/// Says what was being done when a call failed.
pub(super) trait Doing<T> {
    /// The value, or the failure with `what` before it.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, SnapshotError>;

    /// The value, or `what` alone: what lies beneath may quote a file that is not the workspace's.
    fn untold(self, what: impl FnOnce() -> String) -> Result<T, SnapshotError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, SnapshotError> {
        self.map_err(|error| SnapshotError { message: what(), source: Some(error.into()) })
    }
    fn untold(self, what: impl FnOnce() -> String) -> Result<T, SnapshotError> {
        self.map_err(|_| SnapshotError::new(what()))
    }
}
