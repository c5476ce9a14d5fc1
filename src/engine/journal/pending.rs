//! A backup, or a bundle of them, that is written and not yet durable.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::AtFlags;

use crate::engine::workspace::fs;

/// A backup that is written, and is to be synced before anything relies on it. Until then its hash
/// tells whether it is whole.
#[derive(Debug)]
pub struct Pending {
    /// Its bytes, to be synced.
    pub file: File,
    /// The folder it is in, which others share.
    pub folder: Arc<OwnedFd>,
    /// Its name there.
    name: OsString,
    /// Whether it was not there before.
    is_new: bool,
}

impl Pending {
    /// One that was not there before.
    pub(super) fn new(file: File, folder: Arc<OwnedFd>, name: OsString) -> Self {
        Self { file, folder, name, is_new: true }
    }

    /// One that was there before.
    pub(super) fn found(file: File, folder: Arc<OwnedFd>, name: OsString) -> Self {
        Self { file, folder, name, is_new: false }
    }

    /// Removes one that is not needed after all.
    pub fn discard(&self) {
        if self.is_new {
            // Best effort: its name tells what it is.
            let _ = fs::unlink_at(&*self.folder, &self.name, AtFlags::empty());
        }
    }
}
