//! The files that a change held open, let go.

use std::fs::File;
use std::sync::Arc;

use super::planned::Planned;
use crate::engine::workspace::sync::SYNC_EACH_MAX;

/// Threads that close many files.
const THREADS_MAX: usize = 4;

/// Closes what a change that stands has read and locked, many files from several threads.
///
/// A file that another has replaced goes with its last descriptor: the file system frees its blocks then,
/// and may wait for the disk to discard them, for one file after the other.
pub(super) fn release(mut files: Vec<Planned>, locks: Vec<Arc<File>>) {
    // They are the same descriptors.
    drop(locks);
    if files.len() <= SYNC_EACH_MAX {
        return;
    }
    let part = files.len().div_ceil(THREADS_MAX);
    std::thread::scope(|scope| {
        while files.len() > part {
            let others = files.split_off(files.len() - part);
            // Without a thread they are closed here.
            drop(std::thread::Builder::new().spawn_scoped(scope, || drop(others)));
        }
        drop(files);
    });
}
