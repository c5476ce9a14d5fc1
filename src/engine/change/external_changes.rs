//! Records a change that a command has made already: it enters the journal like any other, so that undo
//! takes it back.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};

use super::executor::{REMADE_MAX, remake};
use super::plan::{Intent, Move, NewFile, plan};
use super::{Change, LOST_NAMED_MAX};
use crate::engine::history::replay::depth;
use crate::engine::journal::bundle::PendingFile;
use crate::engine::journal::steps::{Folder, Location, Thing};
use crate::engine::journal::{BACKUPS_FOLDER, FolderEntry, FolderMode, HELD_FOLDER, Version, backup};
use crate::engine::store::session;
use crate::engine::store::state::{STAGING_FOLDER, State};
use crate::engine::store::trash::{self, TrashEntry};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::sync::sync_many;
use crate::error::Error;

pub use super::executor::SpecialFile;

/// A file that a command changed.
#[derive(Debug)]
pub struct DoneFile {
    /// Its path.
    pub path: WorkspacePath,
    /// Its state before.
    pub before: Option<Version>,
    /// Its type and identity.
    pub after: Option<Version>,
}

/// A thing without bytes that a command made: an undo moves it to the trash.
#[derive(Debug)]
pub struct Arrived {
    /// Its path.
    pub path: WorkspacePath,
    /// Its type and inode.
    pub thing: Thing,
}

/// Changes that a command made.
#[derive(Debug, Default)]
pub struct CommandChanges {
    /// Files that it changed, made or removed.
    pub files: Vec<DoneFile>,
    /// Folders that it made.
    pub made: Vec<FolderEntry<WorkspacePath>>,
    /// Folders that it removed.
    pub removed: Vec<FolderEntry<WorkspacePath>>,
    /// Folders to which it gave other permission bits.
    pub modes: Vec<FolderMode>,
    /// Sockets and the like that it made.
    pub arrived: Vec<Arrived>,
    /// FIFOs and sockets that it removed.
    pub departed: Vec<SpecialFile>,
    /// Paths that it changed or removed and whose old bytes are lost.
    pub lost: Vec<WorkspacePath>,
}

impl CommandChanges {
    /// Returns true if there is nothing to take back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self.made.is_empty()
            && self.removed.is_empty()
            && self.modes.is_empty()
            && self.arrived.is_empty()
            && self.departed.is_empty()
    }
}

impl Change<'_> {
    /// The number that the change has in its session.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.entry.seq
    }

    /// Sees to it that the number is not given again, though nothing is recorded under it.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn spend_number(&self) -> Result<(), Error> {
        self.state.as_ref().map_or(Ok(()), |state| self.entry.spend_number(state))
    }

    /// Has a version of a file backed up, whose bytes are no file's now.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn back_up(&self, backups: &mut Backups<'_>, bytes: &[u8], version: &Version) -> Result<(), Error> {
        backups.pending.push(backups.folders.prepare(version.sha256, bytes)?);
        Ok(())
    }

    /// Puts what a command has done into the journal; the old bytes of its files are in `backups`.
    ///
    /// # Errors
    /// The system's; the files stay as the command left them.
    pub fn record_done(
        mut self,
        mut done: CommandChanges,
        backups: &Backups<'_>,
        (subject, why): (String, Option<String>),
    ) -> Result<(), Error> {
        let Some(state) = self.state.take() else {
            return Err(Error::internal("a change without a state"));
        };
        backups.sync()?;
        let moves = self.special_moves(&state, &mut done)?;
        self.entry.subject = subject;
        self.entry.why = why;
        self.entry.lost_total = done.lost.len();
        self.entry.lost = done.lost.into_iter().take(LOST_NAMED_MAX).collect();
        self.entry.modes = done.modes;
        let id = self.entry.id.clone();
        let intent = intended(done.files, moves, (done.made, done.removed), &id);
        let steps = plan(intent, |number| Location::in_state(HELD_FOLDER, &format!("{id}-held-{number}")));
        self.entry.set_steps(steps, state.path());
        let pending = self.entry.prepare(&state)?;
        let io = |source: std::io::Error| Error::io("sync", state.shown("journal"), source);
        pending.file.sync_all().map_err(io)?;
        self.entry.publish(&state)?;
        self.note_number(&state);
        self.engine.note_changed(self.entry.audit_files(), Some(&self.entry.id));
        self.engine.audit(&self.entry.tool, None);
        self.entry.close(&state)
    }

    /// The moves of what has no bytes: what came goes to the trash with an undo, and what went is made again
    /// there, so that it can come back. What cannot be made is lost.
    ///
    /// # Errors
    /// Returns the OS error.
    fn special_moves(&self, state: &State, done: &mut CommandChanges) -> Result<Vec<Move>, Error> {
        let mut moves = Vec::new();
        let entry_of =
            |path: &WorkspacePath| TrashEntry::new(path.clone(), &self.entry.session, self.entry.time, false);
        for Arrived { path, thing } in std::mem::take(&mut done.arrived) {
            let from = Location::of(&entry_of(&path).content(Some(state)), state.path());
            moves.push(Move { from, to: Location::File(path), thing, across: None, is_final: false });
        }
        let beyond = done.departed.split_off(done.departed.len().min(REMADE_MAX));
        done.lost.extend(beyond.into_iter().map(|special| special.path));
        let has_remade = !done.departed.is_empty();
        for special in std::mem::take(&mut done.departed) {
            let entry = entry_of(&special.path);
            let to = Location::of(&entry.content(Some(state)), state.path());
            match remake(state, &special, &entry) {
                Ok(thing) => {
                    let from = Location::File(special.path);
                    moves.push(Move { from, to, thing, across: None, is_final: false });
                }
                Err(_) => done.lost.push(special.path),
            }
        }
        if has_remade {
            let trash = state.folder(trash::FOLDER)?;
            rustix::fs::fsync(&*trash)
                .map_err(|errno| Error::io("sync", state.shown(trash::FOLDER), errno))?;
        }
        Ok(moves)
    }

    /// Has the session remember the number of this change. Where it cannot, the journal knows it.
    fn note_number(&mut self, state: &State) {
        let seq = self.entry.seq;
        let noted = session::update(state, self.engine.session(), |session| {
            session.seq = session.seq.max(seq);
        });
        match noted {
            Ok(warning) => self.engine.warn_if(warning),
            Err(error) => {
                self.engine.warn(format!("the session could not record its change: {}", error.message()));
            }
        }
    }
}

/// Returns the target state: files with their versions, moves, and the folders that were made and removed, by
/// depth. The bytes of its files wait under the name of the change, `id`.
fn intended(
    files: Vec<DoneFile>,
    moves: Vec<Move>,
    (mut made, mut removed): (Vec<FolderEntry<WorkspacePath>>, Vec<FolderEntry<WorkspacePath>>),
    id: &str,
) -> Intent {
    let mut intent = Intent { moves, ..Intent::default() };
    for (number, DoneFile { path, before, after }) in files.into_iter().enumerate() {
        let at = Location::File(path);
        match (before, after) {
            (before, Some(after)) => {
                let staged = Location::in_state(STAGING_FOLDER, &format!("{id}-{number}"));
                intent.files.push(NewFile { at, staged, before, after, in_place: false });
            }
            (Some(before), None) => intent.removed.push((at, before)),
            (None, None) => {}
        }
    }
    let located = |folder: FolderEntry<WorkspacePath>| Folder {
        path: Location::File(folder.path),
        mode: folder.mode,
        identity: folder.identity,
    };
    made.sort_by_cached_key(|folder| depth(&folder.path));
    removed.sort_by_cached_key(|folder| std::cmp::Reverse(depth(&folder.path)));
    intent.made = made.into_iter().map(located).collect();
    intent.cleared = removed.into_iter().map(located).collect();
    intent
}

/// Old bytes that are written and not synced yet.
pub struct Backups<'s> {
    /// The folders they belong in.
    folders: backup::Folders<'s>,
    /// Files written so far.
    pending: Vec<PendingFile>,
}

impl<'s> Backups<'s> {
    /// None so far.
    #[must_use]
    pub fn new(state: &'s State) -> Self {
        Self { folders: backup::Folders::new(state), pending: Vec::new() }
    }

    /// Makes them durable.
    fn sync(&self) -> Result<(), Error> {
        let io = |source: std::io::Error| Error::io("sync", BACKUPS_FOLDER, source);
        let file_system = self.pending.first().map(|backup| &*backup.folder);
        let files: Vec<&File> = self.pending.iter().map(|backup| &backup.file).collect();
        sync_many(&files, file_system).map_err(io)?;
        let mut folders: Vec<&OwnedFd> = self.pending.iter().map(|backup| &*backup.folder).collect();
        folders.sort_unstable_by_key(|folder| folder.as_raw_fd());
        folders.dedup_by_key(|folder| folder.as_raw_fd());
        sync_many(&folders, file_system).map_err(io)
    }
}
