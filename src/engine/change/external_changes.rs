//! Records a change that a command has already made: it enters the journal like any other, so that undo can take it
//! back.

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
    /// Path.
    pub path: WorkspacePath,
    /// Version before.
    pub before: Option<Version>,
    /// Version after.
    pub after: Option<Version>,
}

/// A file without bytes that a command created: an undo moves it to the trash.
#[derive(Debug)]
pub struct Created {
    /// Path.
    pub path: WorkspacePath,
    /// Type and inode.
    pub thing: Thing,
}

/// Changes that a command made.
#[derive(Debug, Default)]
pub struct CommandChanges {
    /// Files that it changed, created or deleted.
    pub files: Vec<DoneFile>,
    /// Folders that it created.
    pub made: Vec<FolderEntry<WorkspacePath>>,
    /// Folders that it removed.
    pub removed: Vec<FolderEntry<WorkspacePath>>,
    /// Folders whose permission bits it changed.
    pub modes: Vec<FolderMode>,
    /// Sockets and the like that it created.
    pub arrived: Vec<Created>,
    /// FIFOs and sockets that it removed.
    pub deleted: Vec<SpecialFile>,
    /// Paths that it changed or removed, with their old bytes lost.
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
            && self.deleted.is_empty()
    }
}

impl Change<'_> {
    /// Returns the number of the change in its session.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.entry.seq
    }

    /// Marks the number as given, though nothing is recorded under it.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn spend_number(&self) -> Result<(), Error> {
        self.state.as_ref().map_or(Ok(()), |state| self.entry.spend_number(state))
    }

    /// Backs up a version of a file whose bytes are in no file now.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn back_up(&self, backups: &mut Backups<'_>, bytes: &[u8], version: &Version) -> Result<(), Error> {
        backups.pending.push(backups.folders.prepare(version.sha256, bytes)?);
        Ok(())
    }

    /// Records a command's changes in the journal; `backups` has the old bytes of its files.
    ///
    /// # Errors
    /// Returns the OS error; the files stay as the command left them.
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

    /// Returns the moves of files without bytes: an undo moves created ones to the trash, and removed ones are created
    /// again there, so that an undo can move them back. Those that cannot be created are lost.
    ///
    /// # Errors
    /// Returns the OS error.
    fn special_moves(&self, state: &State, done: &mut CommandChanges) -> Result<Vec<Move>, Error> {
        let mut moves = Vec::new();
        let entry_of =
            |path: &WorkspacePath| TrashEntry::new(path.clone(), &self.entry.session, self.entry.time, false);
        for Created { path, thing } in std::mem::take(&mut done.arrived) {
            let from = Location::of(&entry_of(&path).content(Some(state)), state.path());
            moves.push(Move { from, to: Location::File(path), thing, across: None, is_final: false });
        }
        let beyond = done.deleted.split_off(done.deleted.len().min(REMADE_MAX));
        done.lost.extend(beyond.into_iter().map(|special| special.path));
        let has_remade = !done.deleted.is_empty();
        for special in std::mem::take(&mut done.deleted) {
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

    /// Saves the number of this change in the session. If that fails, the journal still has it.
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

/// Returns the target state: files with their versions, moves, and the folders that were created and removed, sorted by
/// depth. The staged bytes belong to the change `id`.
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

/// Old bytes that are written but not synced yet.
pub struct Backups<'s> {
    /// Folders of the backups.
    folders: backup::Folders<'s>,
    /// Files written so far.
    pending: Vec<PendingFile>,
}

impl<'s> Backups<'s> {
    /// Returns an empty set.
    #[must_use]
    pub fn new(state: &'s State) -> Self {
        Self { folders: backup::Folders::new(state), pending: Vec::new() }
    }

    /// Makes the backups durable.
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
