//! Records what a running command has changed so far in the files of another change.
//!
//! At its end, a direct command owns what is different from before it. If another change of the same file is recorded
//! first, nobody can tell the two apart then, so the part of the command is recorded just before that change:
//!
//! ```text
//! job     one -> ONE           | (still runs)         | adds a line, ends
//! edit                         | two -> TWO           |
//! history                      | #1 bash, #2 edit     | #3 bash
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use super::commit::snapshot_files;
use super::external_changes::{Backups, DoneFile, put_in_history};
use super::record::{self, EarlierFiles, StandingChange};
use super::{Change, plan};
use crate::buffer::Buffer;
use crate::control::seconds_now;
use crate::engine::journal::{self, JournalEntry, Version};
use crate::engine::sandbox::running;
use crate::engine::snapshot::FileChange;
use crate::engine::store::lock::unique_name;
use crate::engine::store::session::{self, SessionId};
use crate::engine::store::state::State;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::sha256::Sha256;

/// Tool of a command's changes.
const TOOL: &str = "bash";

/// A file that a command has changed, with its modes and bytes.
struct ChangedFile {
    /// Path.
    path: WorkspacePath,
    /// In the newest snapshot; `None` if it has no file there.
    before: Option<(u32, Vec<u8>)>,
    /// On disk.
    after: Option<(u32, Arc<Buffer>)>,
}

impl Change<'_> {
    /// Returns the number of the change in its session. What a running command has changed so far in its files is
    /// recorded first, and may take a number of the same session.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn settle_number(&mut self) -> Result<u64, Error> {
        if let Some(state) = self.state.take() {
            let recorded = self.record_so_far(&state);
            self.state = Some(state);
            recorded?;
        }
        Ok(self.number())
    }

    /// Records what a running command has changed so far in the files of this change, as a change of that command. If
    /// several run, nobody knows whose it is, and it counts as the newest one's, as at the end of a command.
    pub(super) fn record_so_far(&mut self, state: &State) -> Result<(), Error> {
        let names = std::mem::take(&mut self.engine.direct);
        // A name holds the time.
        let Some(name) = names.into_iter().max() else { return Ok(()) };
        let Some(command) = running::find_running(state, &name) else { return Ok(()) };
        let Ok(session) = command.session.parse::<SessionId>() else { return Ok(()) };
        let is_own = session == *self.engine.session();
        let seq = if is_own {
            self.entry.seq
        } else {
            journal::next_number(state, session.as_str(), session::load(state, &session)?.0.last_seq())?
        };
        let mut entry = JournalEntry::new(unique_name("change"), session.as_str(), TOOL, seq, seconds_now());
        entry.subject = format!("{} (so far)", command.subject);
        (entry.why, entry.command) = (command.body, Some(name));
        let files = self.changed_so_far(&entry)?;
        if files.is_empty() {
            return Ok(());
        }
        let mut backups = Backups::new(state);
        let mut done = Vec::new();
        for ChangedFile { path, before, after } in &files {
            let before = before.as_ref().map(|(mode, bytes)| (version(*mode, bytes), bytes));
            before.iter().try_for_each(|(version, bytes)| backups.add(bytes, version))?;
            let after = after.as_ref().map(|(mode, bytes)| version(*mode, bytes));
            done.push(DoneFile { path: path.clone(), before: before.map(|before| before.0), after });
        }
        put_in_history(self.engine, (state, &backups), &mut entry, plan::Intent::default(), done)?;
        let noted = session::update(state, &session, |session| session.seq = session.seq.max(seq))?;
        self.engine.warn_if(noted);
        let sides = files.iter().map(|file| FileChange {
            path: file.path.as_bytes(),
            before: file.before.as_ref().map(|(mode, bytes)| record::file_state(*mode, bytes)),
            after: file.after.as_ref().map(|(mode, bytes)| record::file_state(*mode, bytes)),
        });
        let change =
            StandingChange { entry: &entry, files: sides.collect(), folders: Vec::new(), blobs: &[] };
        record::record(self.engine, &change)?;
        entry.close(state)?;
        if is_own {
            self.entry.seq += 1;
        }
        Ok(())
    }

    /// Returns the files of this change that differ from the newest snapshot.
    fn changed_so_far(&self, entry: &JournalEntry) -> Result<Vec<ChangedFile>, Error> {
        let moved = self.moved_files();
        let gone = moved.iter().map(|(path, mode, bytes)| FileChange {
            path: path.as_bytes(),
            before: Some(record::file_state(*mode, bytes)),
            after: None,
        });
        let files = snapshot_files(&self.files, &self.state_path).into_iter().chain(gone).collect();
        let change = StandingChange { entry, files, folders: Vec::new(), blobs: &[] };
        let paths: BTreeSet<Vec<u8>> = record::changed_by_others(self.engine, &change).into_iter().collect();
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let current = self.files.iter().map(|file| &file.seen.current);
        let current = current.map(|current| {
            let after = current.mode().map(|mode| (mode, current.shared_bytes()));
            (current.place.path().clone(), after)
        });
        let moved = moved.iter().map(|(path, mode, bytes)| (path.clone(), Some((*mode, Arc::clone(bytes)))));
        let tip = record::newest_or_head(self.engine)?;
        let earlier = EarlierFiles::new(self.engine, tip.as_deref(), 0);
        let with_before = |(path, after): (WorkspacePath, Option<(u32, Arc<Buffer>)>)| {
            let like = after.as_ref().map_or(&[][..], |(_, bytes)| bytes);
            let before = earlier.version(&path, like);
            let before =
                before.map(|(item, bytes)| (record::mode_of(&item, after.as_ref().map(|it| it.0)), bytes));
            ChangedFile { path, before, after }
        };
        let changed = current.chain(moved).filter(|(path, _)| paths.contains(path.as_bytes()));
        Ok(changed.map(with_before).collect())
    }

    /// Returns the single files that this change moves, with their modes and bytes.
    fn moved_files(&self) -> Vec<(WorkspacePath, u32, Arc<Buffer>)> {
        let of = |path: &WorkspacePath| {
            let (file, stat) = self.engine.workspace.open_regular(path, "").ok()?;
            let bytes = fs::read_to_end(file, fs::size_of(&stat), self.file_bytes_max()).ok()?;
            Some((path.clone(), fs::recorded_mode(&stat), Arc::new(bytes.into())))
        };
        self.moves.iter().filter_map(|moved| moved.from.in_workspace()).filter_map(of).collect()
    }
}

/// Returns the version of a file for the journal.
fn version(mode: u32, bytes: &[u8]) -> Version {
    Version { sha256: Sha256::of(bytes), size: bytes.len() as u64, mode, identity: None }
}
