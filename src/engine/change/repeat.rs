//! A request that the session has made before.

use super::Change;
use super::run::Ground;
use crate::engine::journal;
use crate::engine::journal::progress::Observed;
use crate::engine::journal::{FileEntry, JournalEntry};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::sha256::Sha256;

/// Changes of the session that are searched for the same request.
pub const RECENT: u64 = 20;
/// The same for requests that are rare, and that nothing else keeps from being made twice.
pub const LONG_AGO: u64 = 1000;

impl Change<'_> {
    /// Whether the session has made this very request before, as its last change of each file that it
    /// changed, and the result is still in place. The digest is kept with the change, for the next
    /// time.
    ///
    /// # Errors
    /// The system's, where the history cannot be read.
    pub fn is_repeated(&mut self, request: Sha256) -> Result<bool, Error> {
        Ok(self.repeated(request, RECENT)?.is_some())
    }

    /// The change that this very request made before, one of the last `changes`, where nothing has
    /// touched its files since.
    ///
    /// # Errors
    /// As [`Self::is_repeated`].
    pub fn repeated(&mut self, request: Sha256, changes: u64) -> Result<Option<JournalEntry>, Error> {
        let request = self.digest_here(request);
        self.entry.request = Some(request);
        let Some(state) = &self.state else {
            return Ok(None);
        };
        let session = self.engine.session().as_str();
        // One that a newer lbx has written is nobody's repeat.
        let entry_of = |seq| journal::done_entry(state, session, seq).ok().flatten();
        let mut later: Vec<u64> = Vec::new();
        let first = self.entry.seq.saturating_sub(changes).max(1);
        for seq in (first..self.entry.seq).rev() {
            let is_other = self.session.is_of_another_request(seq, request);
            if !is_other && let Some(entry) = entry_of(seq).filter(|entry| entry.request == Some(request)) {
                let later = later.into_iter().filter_map(entry_of);
                let later: Vec<WorkspacePath> =
                    later.flat_map(|entry| paths_of(&entry).cloned().collect::<Vec<_>>()).collect();
                return Ok(Some(entry).filter(|entry| self.is_in_place(state, entry, &later)));
            }
            later.push(seq);
        }
        Ok(None)
    }

    /// Whether the session's last change of `path` removed what was there, or moved it away.
    ///
    /// # Errors
    /// The system's, where the history cannot be read.
    pub fn has_removed(&self, path: &WorkspacePath) -> Result<bool, Error> {
        let Some(state) = &self.state else {
            return Ok(false);
        };
        let session = self.engine.session().as_str();
        for seq in journal::history(state, session)?.into_iter().rev() {
            let Some(entry) = journal::done_entry(state, session, seq)? else {
                continue;
            };
            if let Some(file) = entry.files.iter().find(|file| file.path == *path) {
                return Ok(file.after.is_none());
            }
            if entry.moves.iter().any(|moved| path.is_within(&moved.to)) {
                return Ok(false);
            }
            if entry.moves.iter().any(|moved| path.is_within(&moved.from)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the result of a change is as it left it, with no `later` change of its paths.
    fn is_in_place(&self, state: &State, entry: &JournalEntry, later: &[WorkspacePath]) -> bool {
        let workspace = &self.engine.workspace;
        let is_touched =
            |path: &WorkspacePath| later.iter().any(|other| path.is_within(other) || other.is_within(path));
        let is_there =
            |path: &WorkspacePath| workspace.place_of(path).is_ok_and(|place| place.stat().is_some());
        !paths_of(entry).any(is_touched)
            && entry.files.iter().all(|file| self.has_new_side(state, file))
            && entry.moves.iter().all(|moved| is_there(&moved.to) && !is_there(&moved.from))
    }

    /// Whether a file is what a change made it.
    fn has_new_side(&self, state: &State, file: &FileEntry) -> bool {
        let ground = Ground { workspace: &self.engine.workspace, state };
        let found = ground.look(&self.location(&file.path), file.after.is_some());
        match (found, &file.after) {
            (Ok(Observed::File { version: Some(now), .. }), Some(after)) => now == (after.sha256, after.mode),
            (Ok(Observed::Nothing | Observed::Folder { .. }), None) => true,
            _ => false,
        }
    }

    /// The digest of a request made in this folder: from another one its paths name other files.
    fn digest_here(&self, request: Sha256) -> Sha256 {
        let base = self.engine.workspace.base();
        if base.is_root() {
            return request;
        }
        Sha256::of(&[request.to_string().as_bytes(), b" ", base.as_bytes()].concat())
    }
}

/// The paths that a change touched.
fn paths_of(entry: &JournalEntry) -> impl Iterator<Item = &WorkspacePath> {
    let moved = entry.moves.iter().flat_map(|moved| [&moved.from, &moved.to]);
    entry.files.iter().map(|file| &file.path).chain(moved)
}
