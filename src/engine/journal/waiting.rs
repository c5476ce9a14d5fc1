//! Where new bytes wait until their rename, by name: in the state, or beside their target.

use std::os::fd::BorrowedFd;

use super::places;
use super::steps::{BESIDE_PREFIX, Location, Step, is_waiting, staging_folder};
use crate::engine::store::state::{STAGING_FOLDER, State};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;

/// Whether bytes of the change `id` may wait at a location.
#[must_use]
pub fn is_staged_by(at: &Location, id: &str) -> bool {
    let Some(name) = at.path().name().and_then(std::ffi::OsStr::to_str) else {
        return false;
    };
    let own = match at {
        Location::State(_) if at.parent() == Some(staging_folder()) => Some(name),
        Location::State(_) => None,
        Location::File(_) => name.strip_prefix(BESIDE_PREFIX),
    };
    own.is_some_and(|name| name.strip_prefix(id).is_some_and(|rest| rest.starts_with('-')))
}

/// The name of the note for the change `id`.
#[must_use]
pub fn note_name(id: &str) -> String {
    format!("{id}.beside")
}

/// Removes the note of a change that stands, where there is one: nothing waits for it any more.
pub fn forget_beside(state: &State, id: &str, steps: &[Step]) {
    let waits_beside = |at: &Location| matches!(at, Location::File(_)) && is_waiting(at);
    let mut places = steps.iter().flat_map(|step| step.locations().chain(step.staged()));
    if places.any(waits_beside)
        && let Ok(Some(staging)) = state.find_folder(STAGING_FOLDER)
    {
        places::remove(&staging, &note_name(id));
    }
}

/// The folders in which files of the change `id` may wait beside their targets.
#[must_use]
pub fn read_note(staging: BorrowedFd<'_>, id: &str) -> Vec<WorkspacePath> {
    let note = fs::read_at(staging, note_name(id).as_ref(), 1 << 20);
    note.ok().flatten().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}
