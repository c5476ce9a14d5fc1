//! Files of a change that names many, read by two threads before it looks at them one by one.
//!
//! Nothing is decided here. A file counts as read ahead where it is a regular one that no symlink leads to;
//! any other, and whatever cannot be read, is left to the look at it, which tells what is wrong in the
//! order of the request.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::Stat;

use super::first_lock::FirstLock;
use super::{Change, Current};
use crate::buffer::Buffer;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::engine::workspace::{Workspace, fs, hashed};
use crate::error::Error;
use crate::sha256::Sha256;

/// Of fewer files each is read when it is looked at.
pub const READ_AHEAD_MIN: usize = 64;
/// Larger files are read when they are looked at.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes read ahead, in all.
const ALL_BYTES_MAX: u64 = 64 << 20;
/// Threads that read.
const THREADS: usize = 2;

/// Files that were read ahead, by their path as the request has it.
#[derive(Default)]
pub struct ReadAhead(HashMap<PathBuf, FileAhead>);

/// A file that was read ahead.
struct FileAhead {
    /// Where it is.
    place: ResolvedPath,
    /// It, open.
    file: Arc<File>,
    /// What it was when it was opened.
    stat: Stat,
    /// All of its bytes.
    bytes: Buffer,
    /// Their SHA-256.
    sha256: Sha256,
}

impl Change<'_> {
    /// Reads those of the files at `paths` that are to be looked at next.
    pub fn read_ahead(&self, paths: &[PathBuf]) -> ReadAhead {
        self.make_room_for(paths.len());
        let bytes_max = FILE_BYTES_MAX.min(self.file_bytes_max());
        let reading = Reading {
            workspace: self.workspace(),
            paths,
            bytes_max,
            // The first is locked before it is read.
            next: AtomicUsize::new(1),
            bytes_left: AtomicU64::new(ALL_BYTES_MAX),
            done: Mutex::default(),
        };
        std::thread::scope(|scope| {
            for _ in 1..THREADS {
                // Without a thread all of it is done here.
                drop(std::thread::Builder::new().spawn_scoped(scope, || reading.work()));
            }
            reading.work();
        });
        ReadAhead(reading.done.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at a file that was read ahead; `None` where it was not.
    ///
    /// # Errors
    /// As [`Self::look_at`].
    pub fn look_at_ahead(&self, ahead: &mut ReadAhead, path: &Path) -> Result<Option<Current>, Error> {
        let Some(ahead) = ahead.0.remove(path) else { return Ok(None) };
        if !self.dry_run && matches!(*self.first_lock.borrow(), FirstLock::Unasked) {
            return Ok(None);
        }
        let FileAhead { place, file, stat, bytes, sha256 } = ahead;
        self.must_be_writable(&place)?;
        self.must_be_allowed(&place)?;
        Ok(Some(Current::new(place, (file, stat), bytes, sha256)))
    }
}

/// The reading of many files.
struct Reading<'r> {
    /// The workspace that they are in.
    workspace: &'r Workspace,
    /// Their paths.
    paths: &'r [PathBuf],
    /// The largest that is read.
    bytes_max: u64,
    /// The number of the next.
    next: AtomicUsize,
    /// How many bytes may still be read.
    bytes_left: AtomicU64,
    /// Those that are read.
    done: Mutex<HashMap<PathBuf, FileAhead>>,
}

impl Reading<'_> {
    /// Reads file after file until all are taken.
    fn work(&self) {
        let mut done = Vec::new();
        while let Some(path) = self.paths.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            done.extend(self.read(path).map(|file| (path.clone(), file)));
        }
        self.done.lock().unwrap_or_else(PoisonError::into_inner).extend(done);
    }

    /// Reads one.
    fn read(&self, path: &Path) -> Option<FileAhead> {
        let place = self.workspace.resolve_file(path).ok()?;
        let (file, stat) = place.opened()?;
        let size = fs::size_of(&stat);
        let take = |left: u64| left.checked_sub(size);
        if size > self.bytes_max {
            return None;
        }
        self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let (bytes, sha256) = hashed::read(&file, size, self.bytes_max).ok()?;
        Some(FileAhead { place, file, stat, bytes, sha256 })
    }
}
