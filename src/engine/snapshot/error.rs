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
    /// Whether that was a signal.
    interrupted: bool,
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
        self.interrupted
    }

    /// A refusal without a cause beneath it.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None, interrupted: false }
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
        self.map_err(|error| {
            let source: Box<dyn Error + Send + Sync> = error.into();
            let interrupted = was_interrupted(source.as_ref());
            SnapshotError { message: what(), source: Some(source), interrupted }
        })
    }
    fn untold(self, what: impl FnOnce() -> String) -> Result<T, SnapshotError> {
        self.map_err(|error| {
            let source: Box<dyn Error + Send + Sync> = error.into();
            SnapshotError { interrupted: was_interrupted(source.as_ref()), ..SnapshotError::new(what()) }
        })
    }
}

/// Whether a signal is at the bottom of an error. Some of gix's errors hold their causes as text
/// alone, so the system's own words count too.
fn was_interrupted(error: &(dyn Error + 'static)) -> bool {
    let signal = std::io::Error::from_raw_os_error(rustix::io::Errno::INTR.raw_os_error()).to_string();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::Interrupted)
            || error.to_string().contains(&signal)
        {
            return true;
        }
        if let Some(before) = error.downcast_ref::<SnapshotError>()
            && before.interrupted
        {
            return true;
        }
        cause = error.source();
    }
    false
}
