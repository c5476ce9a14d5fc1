//! How many files may be open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit raised to what the system allows, until this is dropped: a change of thousands of files
/// holds several descriptors for each. Programs that are run later get the limit that was set.
#[derive(Debug)]
pub struct OpenFiles {
    /// The limits before, where they were changed.
    before: Option<Rlimit>,
}

impl OpenFiles {
    /// Raises the limit. Where that fails it stays, and a change too large fails whole.
    #[must_use]
    pub fn as_many_as_allowed() -> Self {
        let before = getrlimit(Resource::Nofile);
        if before.current == before.maximum {
            return Self { before: None };
        }
        let raised = Rlimit { current: before.maximum, ..before };
        Self { before: setrlimit(Resource::Nofile, raised).is_ok().then_some(before) }
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            // What is open stays open; a limit that cannot be lowered again does no harm.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}
