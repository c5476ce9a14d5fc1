//! The lock on the first file that a change looks at.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::Stat;

use crate::engine::workspace::fs;

/// The lock on the first file that a change looks at.
#[derive(Debug, Default)]
pub(in crate::engine) enum FirstLock {
    /// It has looked at none.
    #[default]
    Unasked,
    /// There was nothing to be locked, or it is free again.
    Free,
    /// The file is locked, where its file system has locks.
    Held(Stat, Option<Arc<File>>),
}

impl FirstLock {
    /// The locked file, where it is the one of that `stat`.
    pub(in crate::engine) fn file_of(&self, stat: &Stat) -> Option<&Arc<File>> {
        match self {
            Self::Held(held, Some(file)) if fs::is_same_file(held, stat) => Some(file),
            _ => None,
        }
    }
}
