//! From a change to its commit on the snapshot branch.

use std::time::{Duration, UNIX_EPOCH};

use super::Engine;
use super::path::WorkspacePath;
use super::snapshot::{BRANCH_DEFAULT, Change, FileChange, FileState, Recorded, SnapshotError, Store};
use super::state::STATE_FOLDER;
use super::transaction::journal::Entry;
use crate::error::Error;

/// Owner's permission to execute, which git keeps.
const OWNER_MAY_EXECUTE: u32 = 0o100;
/// Paths left out that a warning names.
const LEFT_OUT_NAMED: usize = 3;

/// The bits of a mode that stand for a file's type.
const TYPE_BITS: u32 = 0o170_000;
/// The type bits that stand for a symlink, whose bytes are its target.
const SYMLINK: u32 = 0o120_000;

/// A file on both sides of a change: mode and bytes; of a symlink, its type bits and target.
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

/// Commits a change to the snapshot branch, and notes the commit for the answer.
///
/// # Errors
/// `snapshot_failed` (applied) where the caller requires a snapshot; else a failure is a warning.
pub fn record(engine: &mut Engine, record: &Record<'_>) -> Result<(), Error> {
    match open(engine).and_then(|mut store| store.record(&change_of(record))) {
        Ok(recorded) => take(engine, recorded),
        Err(error) => engine.snapshot_failed(&error.to_string()),
    }
}

/// Commits a change that a dead call made, unless that call had come so far itself.
pub fn record_late(engine: &mut Engine, record: &Record<'_>) {
    let entry = record.entry;
    let outcome = open(engine).and_then(|mut store| {
        if store.tip_is(&entry.session, entry.seq)? {
            return Ok(Recorded::default());
        }
        store.record(&change_of(record))
    });
    if let Err(error) = outcome {
        engine.warn(format!("no snapshot of an earlier change ({}): {error}", entry.subject));
    }
}

/// The bytes of `path` for which `is_it` is true, where the snapshots or HEAD have them.
#[must_use]
pub fn find_version(
    engine: &Engine,
    path: &WorkspacePath,
    is_it: impl FnMut(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    open(engine).ok()?.find_version(path.as_bytes(), is_it).ok().flatten()
}

/// Opens the snapshots of the workspace.
fn open(engine: &Engine) -> Result<Store, SnapshotError> {
    let root = engine.workspace.root();
    Store::open(root, &root.join(STATE_FOLDER), BRANCH_DEFAULT)
}

/// What the snapshot takes of a change.
fn change_of<'a>(record: &Record<'a>) -> Change<'a> {
    let entry = record.entry;
    let state = |side: Option<(u32, &'a [u8])>| {
        side.map(|(mode, bytes)| match mode & TYPE_BITS {
            SYMLINK => FileState::Symlink { target: bytes },
            _ => FileState::Regular { executable: mode & OWNER_MAY_EXECUTE != 0, bytes },
        })
    };
    let file = |file: &File<'a>| FileChange {
        path: file.path.as_bytes(),
        before: state(file.before),
        after: state(file.after),
    };
    Change {
        subject: entry.subject.clone(),
        why: entry.why.as_deref(),
        session: &entry.session,
        tool: &entry.tool,
        seq: entry.seq,
        time: UNIX_EPOCH + Duration::from_secs(entry.time),
        files: record.files.iter().map(file).collect(),
    }
}

/// Takes over what a snapshot has to say.
fn take(engine: &mut Engine, recorded: Recorded) -> Result<(), Error> {
    for warning in recorded.warnings {
        engine.warn(warning);
    }
    let left_out = match recorded.left_out.as_slice() {
        [] => None,
        paths => {
            let named: Vec<String> = paths
                .iter()
                .take(LEFT_OUT_NAMED)
                .map(|left| format!("{} ({})", left.path, left.reason))
                .collect();
            let more = paths.len().saturating_sub(LEFT_OUT_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Some(format!("not in the snapshot: {}{more}; the old bytes are in the backup", named.join(", ")))
        }
    };
    match (recorded.id, left_out) {
        (Some(id), left_out) => {
            engine.set_snapshot(id);
            engine.warn_if(left_out);
            Ok(())
        }
        (None, Some(left_out)) if engine.require_snapshot => engine.snapshot_failed(&left_out),
        (None, left_out) => {
            engine.warn_if(left_out);
            Ok(())
        }
    }
}
