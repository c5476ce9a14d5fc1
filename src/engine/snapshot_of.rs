//! From a change to its commit on the snapshot branch.

use super::Engine;
use super::path::WorkspacePath;
use super::state::State;
use super::transaction::journal::Entry;
use crate::error::Error;

/// A file on both sides of a change: permission bits and bytes.
pub struct File<'a> {
    /// The canonical path.
    pub path: &'a WorkspacePath,
    /// The old side.
    pub before: Option<(u32, &'a [u8])>,
    /// The new side.
    pub after: Option<(u32, &'a [u8])>,
}

/// A change that stands.
pub struct Record<'a> {
    /// What the journal has of it.
    pub entry: &'a Entry,
    /// Its files.
    pub files: Vec<File<'a>>,
}

/// Commits a change to the snapshot branch.
///
/// # Errors
/// `snapshot_failed` (applied) where the caller requires a snapshot; else a failure is a warning.
pub fn record(_engine: &mut Engine, _state: &State, _record: &Record<'_>) -> Result<(), Error> {
    Ok(())
}

/// Commits a change that a dead call made.
pub fn record_late(_engine: &mut Engine, _state: &State, _record: &Record<'_>) {}
