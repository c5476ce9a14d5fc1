//! Records what a running command has changed so far, before something else is recorded.
//!
//! At its end, a direct command owns what is different from before it. If another change of the same file is recorded
//! first, or another command has begun to change the files, nobody can tell the two apart then. So the part of the
//! command is recorded just before:
//!
//! ```text
//! job     one -> ONE           | (still runs)         | adds a line, ends
//! edit                         | two -> TWO           |
//! history                      | #1 bash, #2 edit     | #3 bash
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::io::Errno;

use super::Change;
use super::external_changes::{Backups, CommandFile, put_in_journal};
use super::plan::Intent;
use super::record::{self, AppliedChange, Content};
use crate::control::seconds_now;
use crate::engine::Engine;
use crate::engine::journal::steps::Location;
use crate::engine::journal::{self, JournalEntry, Version};
use crate::engine::sandbox::running;
use crate::engine::snapshot::{EXTERNAL, FileChange, RecordResult};
use crate::engine::store::lock::unique_name;
use crate::engine::store::session::{self, SessionId};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::engine::workspace::{Workspace, fs};
use crate::error::Error;
use crate::sha256::Sha256;

/// Tool of a command's changes.
const TOOL: &str = "bash";
/// Most files of one change.
const FILES_MAX: usize = 10_000;
/// Bytes from which no file is added to a change: they are in memory.
const BYTES_MAX: usize = 64 << 20;

/// A file that a command has changed.
pub struct ChangedFile {
    /// Path.
    pub path: WorkspacePath,
    /// In the newest snapshot; `None` if it has no file there.
    pub before: Option<Content>,
    /// On disk; `None` if there is no file.
    pub after: Option<Content>,
}

impl Change<'_> {
    /// Returns the number of the change in its session. What a running command has changed so far in its files is
    /// recorded first, and may take a number of the same session.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn change_number(&mut self) -> Result<u64, Error> {
        if let Some(state) = self.state.take() {
            let recorded = self.record_so_far(&state);
            self.state = Some(state);
            recorded?;
        }
        Ok(self.number())
    }

    /// Records what a running command has changed so far in the files of this change.
    pub(super) fn record_so_far(&mut self, state: &State) -> Result<(), Error> {
        if self.dry_run || self.engine.direct.is_empty() {
            return Ok(());
        }
        let files = self.files.iter().map(|file| file.seen.current.place.path());
        let moves = self.moves.iter().flat_map(|moved| [&moved.from, &moved.to]);
        let mut paths: BTreeSet<_> = files.chain(moves.filter_map(Location::in_workspace)).cloned().collect();
        paths.extend(self.unrecorded_in_moved_folders());
        let Some(session) = record_at(self.engine, state, paths)? else { return Ok(()) };
        // It comes after these, also for those who sort by time.
        (self.entry.id, self.entry.time) = (unique_name("change"), seconds_now());
        if session == *self.engine.session() {
            self.entry.seq = journal::next_number(state, &self.entry.session, self.entry.seq)?;
        }
        Ok(())
    }

    /// Returns the files in the folders that this change moves that may differ from the newest snapshot; none if the
    /// workspace cannot be scanned.
    fn unrecorded_in_moved_folders(&mut self) -> Vec<WorkspacePath> {
        let folders = self.moves.iter().filter(|moved| moved.thing.is_folder);
        let folders: Vec<_> = folders.filter_map(|moved| moved.from.in_workspace()).cloned().collect();
        if folders.is_empty() {
            return Vec::new();
        }
        let found = record::unrecorded(self.engine, None).map(|found| found.paths()).unwrap_or_default();
        found.into_iter().filter(|path| folders.iter().any(|folder| path.is_within(folder))).collect()
    }
}

/// Records what a running command has changed so far at some paths, as changes of that command; returns its session, if
/// there is anything to record. If several commands run, nobody knows whose it is, and it counts as the newest one's.
///
/// The caller holds the locks of a change.
///
/// # Errors
/// Returns the OS error.
pub fn record_at(
    engine: &mut Engine,
    state: &State,
    paths: BTreeSet<WorkspacePath>,
) -> Result<Option<SessionId>, Error> {
    // A name holds the time.
    let Some(name) = engine.direct.iter().max().cloned() else { return Ok(None) };
    let Some(command) = running::find_running(state, &name) else { return Ok(None) };
    let Ok(session) = command.session.parse::<SessionId>() else { return Ok(None) };
    let (mut paths, mut recorded) = (paths.into_iter(), None);
    while let Some(files) = changed_files(engine, &mut paths) {
        let known = session::load(state, &session)?.0.last_seq();
        let seq = record::next_number(engine, Some(state), &session, known)?;
        let mut entry = JournalEntry::new(unique_name("change"), session.as_str(), TOOL, seq, seconds_now());
        entry.subject = format!("{} (so far)", command.subject);
        (entry.why, entry.command) = (command.body.clone(), Some(name.clone()));
        record_files(engine, state, &mut entry, &files)?;
        let noted = session::update(state, &session, |session| session.seq = session.seq.max(seq))?;
        engine.warn_if(noted);
        entry.close(state)?;
        recorded = Some(session.clone());
    }
    Ok(recorded)
}

/// Scans the whole work tree, as [`record::scan`] does; what running commands have changed so far is recorded as theirs
/// before.
///
/// # Errors
/// As [`record::scan`].
pub fn scan(
    engine: &mut Engine,
    state: &State,
    subject: Option<String>,
    why: Option<&str>,
) -> Result<RecordResult, Error> {
    if !engine.direct.is_empty() {
        let found = record::unrecorded(engine, None)?.paths();
        record_at(engine, state, found)?;
    }
    record::scan(engine, subject, why, EXTERNAL)
}

/// Records some files in the journal and in the snapshots.
fn record_files(
    engine: &mut Engine,
    state: &State,
    entry: &mut JournalEntry,
    files: &[ChangedFile],
) -> Result<(), Error> {
    let mut backups = Backups::new(state);
    let mut done = Vec::new();
    for ChangedFile { path, before, after } in files {
        let [old, new] = [before, after].map(|side| side.as_ref().map(version));
        if let Some((version, (_, bytes))) = old.as_ref().zip(before.as_ref()) {
            backups.add(bytes, version)?;
        }
        done.push(CommandFile { path: path.clone(), before: old, after: new });
    }
    put_in_journal(engine, (state, &backups), entry, Intent::default(), done)?;
    let sides = files.iter().map(|file| FileChange {
        path: file.path.as_bytes(),
        before: file.before.as_ref().map(record::state_of),
        after: file.after.as_ref().map(record::state_of),
    });
    let change = AppliedChange { entry, files: sides.collect(), folders: Vec::new(), blobs: &[] };
    // The response names the snapshot of its own change, and says if that fails.
    let shown = engine.snapshot.take();
    let _ = record::record(engine, &change);
    engine.snapshot = shown;
    Ok(())
}

/// Returns the next files that differ from the newest snapshot, as many as one change takes; `None` if no more do.
/// Files that no snapshot takes do not count.
pub fn changed_files(
    engine: &Engine,
    paths: &mut impl Iterator<Item = WorkspacePath>,
) -> Option<Vec<ChangedFile>> {
    loop {
        let (mut found, mut bytes_left) = (BTreeMap::new(), BYTES_MAX);
        while found.len() < FILES_MAX && bytes_left > 0 {
            let Some(path) = paths.next() else { break };
            if is_state(&path) {
                continue;
            }
            let bytes_max = engine.policy().snapshot_file_bytes();
            if let Ok(content) = on_disk(&engine.workspace, &path, bytes_max) {
                bytes_left = bytes_left.saturating_sub(content.as_ref().map_or(0, |content| content.1.len()));
                found.insert(path, content);
            }
        }
        if found.is_empty() {
            return None;
        }
        let mut changed = Vec::new();
        for (path, earlier) in record::changed_by_others(engine, &found) {
            if let Some((path, after)) = found.remove_entry(&path) {
                let now = after.as_ref().map(|(mode, _)| *mode);
                let before = earlier.map(|(item, bytes)| (record::mode_of(&item, now), bytes));
                changed.push(ChangedFile { path, before, after });
            }
        }
        if !changed.is_empty() {
            return Some(changed);
        }
    }
}

/// Returns the file or symlink at a path; `None` if nothing is there.
///
/// # Errors
/// Returns the OS error; `EFBIG` for a larger file, and `EINVAL` for anything else.
fn on_disk(workspace: &Workspace, path: &WorkspacePath, bytes_max: u64) -> io::Result<Option<Content>> {
    let root = workspace.root_fd();
    let stat = match fs::stat_beneath(root, path) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        stat => stat?,
    };
    let bytes = if fs::is_symlink(&stat) {
        fs::link_beneath(root, path)?
    } else if fs::is_regular(&stat) {
        let (file, stat) = workspace.open_regular(path, "").map_err(|_| Errno::INVAL)?;
        fs::read_to_end(file, fs::size_of(&stat), bytes_max)?
    } else {
        return Err(Errno::INVAL.into());
    };
    Ok(Some((fs::recorded_mode(&stat), bytes)))
}

/// Returns the version of a file for the journal.
pub fn version((mode, bytes): &Content) -> Version {
    Version { sha256: Sha256::of(bytes), size: bytes.len() as u64, mode: *mode, identity: None }
}
