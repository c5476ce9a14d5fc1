//! How many files may be open at once.

use std::sync::{Mutex, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Changes at work that need a raised limit, and the limits before the first of them.
static RAISED: Mutex<(usize, Option<Rlimit>)> = Mutex::new((0, None));

/// The limit raised to what the system allows, until the last of these is dropped: a change of thousands
/// of files holds several descriptors for each, and a server makes several changes at once. Programs
/// that are run later get the limit that was set.
#[derive(Debug)]
pub struct OpenFiles(());

impl OpenFiles {
    /// Raises the limit. Where that fails it stays, and a change too large fails whole.
    #[must_use]
    pub fn as_many_as_allowed() -> Self {
        let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        if raised.0 == 0 {
            let before = getrlimit(Resource::Nofile);
            let limits = Rlimit { current: before.maximum, ..before };
            let is_lower = before.current != before.maximum;
            raised.1 = (is_lower && setrlimit(Resource::Nofile, limits).is_ok()).then_some(before);
        }
        raised.0 += 1;
        Self(())
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        raised.0 = raised.0.saturating_sub(1);
        if raised.0 == 0
            && let Some(before) = raised.1.take()
        {
            // What is open stays open; a limit that cannot be lowered again does no harm.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_falls_with_the_last_that_needs_it() {
        let before = getrlimit(Resource::Nofile);
        let (one, other) = (OpenFiles::as_many_as_allowed(), OpenFiles::as_many_as_allowed());
        drop(one);
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
        drop(other);
        assert_eq!(getrlimit(Resource::Nofile), before);
    }
}
