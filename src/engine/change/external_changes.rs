//! Records a change that a command, or a client's own tool, has already made: it enters the journal like any other, so
//! that undo can take it back.

use std::fs::File;

use super::executor::{REMADE_MAX, remake};
use super::kept_for_forks::keep_after;
use super::plan::{Intent, Move, plan};
use super::record::{self, AppliedChange};
use super::shown_lines::shown_after_change;
use super::{Change, LOST_NAMED_MAX};
use crate::engine::Engine;
use crate::engine::history::replay::depth;
use crate::engine::journal::bundle::PendingFile;
use crate::engine::journal::steps::{Folder, Location, Step, Thing};
use crate::engine::journal::{
    BACKUPS_FOLDER, FolderEntry, FolderMode, HELD_FOLDER, JournalEntry, Version, backup,
};
use crate::engine::snapshot::{FileChange, FileState};
use crate::engine::store::session::{self, LineSet, ReadRecord};
use crate::engine::store::state::{STAGING_FOLDER, State};
use crate::engine::store::trash::{self, TrashEntry};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::sync::sync_many;
use crate::error::Error;
use crate::platform;
use crate::text::content::body_of;
use crate::text::lines;

pub use super::executor::SpecialFile;

/// A file that a command changed.
#[derive(Debug)]
pub struct CommandFile {
    /// Path.
    pub path: WorkspacePath,
    /// Version before.
    pub before: Option<Version>,
    /// Version after.
    pub after: Option<Version>,
}

/// A file without bytes that a command created: an undo moves it to the trash.
#[derive(Debug)]
pub struct EmptyFile {
    /// Path.
    pub path: WorkspacePath,
    /// Type and inode.
    pub thing: Thing,
}

/// A version of a file with its bytes.
pub type VersionBytes = (Version, Vec<u8>);

/// A file that a client's own tool changed.
#[derive(Debug)]
pub struct ClientFile {
    /// Path.
    pub path: WorkspacePath,
    /// Version before.
    pub before: Option<VersionBytes>,
    /// Version after.
    pub after: Option<VersionBytes>,
    /// True if the caller wrote all of it.
    pub is_whole: bool,
}

/// Traces of a change apart from the journal.
#[derive(Default)]
pub struct Traces<'a> {
    /// Files for the snapshot; none if a scan has recorded them.
    files: Vec<FileChange<'a>>,
    /// New read records.
    marks: Vec<ReadRecord>,
    /// Paths whose read records are removed.
    forgotten: Vec<WorkspacePath>,
}

/// Changes that a command made.
#[derive(Debug, Default)]
pub struct CommandChanges {
    /// Files that it changed, created or deleted.
    pub files: Vec<CommandFile>,
    /// Folders that it created.
    pub made: Vec<FolderEntry<WorkspacePath>>,
    /// Folders that it removed.
    pub removed: Vec<FolderEntry<WorkspacePath>>,
    /// Folders whose permission bits it changed.
    pub modes: Vec<FolderMode>,
    /// Sockets and the like that it created.
    pub arrived: Vec<EmptyFile>,
    /// FIFOs and sockets that it removed.
    pub deleted: Vec<SpecialFile>,
    /// Paths that it changed or removed, with their old bytes lost.
    pub lost: Vec<WorkspacePath>,
}

impl CommandChanges {
    /// Returns true if there is nothing to take back.
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
    pub const fn number(&self) -> u64 {
        self.entry.seq
    }

    /// Marks the number as given, and returns it: of a command, the snapshot has it before the journal does, and a kill in
    /// between must not give it to another change.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn spend_number(&self) -> Result<u64, Error> {
        self.state.as_ref().map_or(Ok(()), |state| self.entry.spend_number(state))?;
        Ok(self.number())
    }

    /// Notes that the change is a part of what a command did.
    pub fn set_command(&mut self, name: &str) {
        self.entry.command = Some(name.to_owned());
    }

    /// Records files that a client's own tool changed, as one change with its snapshot; the session then knows the new
    /// bytes as if it had made the change here. `made` are the folders that the tool made.
    ///
    /// # Errors
    /// Returns the OS error, or `snapshot_failed` (applied) if the caller requires a snapshot.
    pub fn record_files(
        self,
        files: &[ClientFile],
        made: Vec<FolderEntry<WorkspacePath>>,
        lost: Vec<WorkspacePath>,
        subject: String,
    ) -> Result<(), Error> {
        fn side(version: Option<&VersionBytes>) -> Option<FileState<'_>> {
            version.map(|(version, bytes)| record::file_state(version.mode, bytes))
        }
        let state = State::open(self.workspace())?;
        let mut backups = Backups::new(&state);
        let mut traces = Traces::default();
        let mut done = CommandChanges { made, lost, ..CommandChanges::default() };
        for file in files {
            if let Some((version, bytes)) = &file.before {
                backups.add(bytes, version)?;
            }
            let (before, after) = (file.before.as_ref(), file.after.as_ref());
            let path = file.path.as_bytes();
            traces.files.push(FileChange { path, before: side(before), after: side(after) });
            match self.record_of(file) {
                Some(mark) => traces.marks.push(mark),
                None => traces.forgotten.push(file.path.clone()),
            }
            let version = |side: Option<&VersionBytes>| side.map(|(version, _)| version.clone());
            let (before, after) = (version(before), version(after));
            done.files.push(CommandFile { path: file.path.clone(), before, after });
        }
        self.record_done(done, &backups, (subject, None), traces)
    }

    /// Returns the read record of a file that the caller changed; `None` if it is gone, or the caller had not seen the
    /// bytes that it changed.
    fn record_of(&self, file: &ClientFile) -> Option<ReadRecord> {
        let (version, bytes) = file.after.as_ref()?;
        let body = body_of(bytes);
        let lines = match &file.before {
            Some((before, old)) if !file.is_whole => {
                let known = self.session.mark(&file.path).filter(|mark| mark.sha256 == before.sha256)?;
                shown_after_change(&known.lines, &body_of(old), &body, None)
            }
            _ => LineSet::up_to(lines::count(&body)),
        };
        let record = ReadRecord::of_everything(file.path.clone(), version.sha256, version.size, 0);
        Some(ReadRecord { lines, ..record })
    }

    /// Records changes in the journal, in the snapshot and in the session; `backups` has the old bytes of the files.
    ///
    /// # Errors
    /// Returns the OS error; the files stay as they are.
    pub fn record_done(
        mut self,
        mut done: CommandChanges,
        backups: &Backups<'_>,
        (subject, why): (String, Option<String>),
        Traces { files: sides, marks, forgotten }: Traces<'_>,
    ) -> Result<(), Error> {
        let Some(state) = self.state.take() else {
            return Err(Error::internal("a change without a state"));
        };
        let moves = self.special_moves(&state, &mut done)?;
        self.entry.subject = subject;
        self.entry.why = why;
        self.entry.lost_total = done.lost.len();
        self.entry.lost = done.lost.into_iter().take(LOST_NAMED_MAX).collect();
        self.entry.modes = done.modes;
        let intent = moves_and_folders(moves, (done.made, done.removed));
        put_in_journal(self.engine, (&state, backups), &mut self.entry, intent, done.files)?;
        self.note_in_session(&state, &marks, &forgotten);
        let recorded = if sides.is_empty() {
            Ok(())
        } else {
            let change = AppliedChange { entry: &self.entry, files: sides, folders: Vec::new(), blobs: &[] };
            record::record(self.engine, &change)
        };
        self.engine.note_changed(self.entry.audit_files(), Some(&self.entry.id));
        self.engine.audit(&self.entry.tool, None);
        self.entry.close(&state)?;
        self.entry.unmark_number(&state);
        recorded
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
        for EmptyFile { path, thing } in std::mem::take(&mut done.arrived) {
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
                Some(thing) => {
                    let from = Location::File(special.path);
                    moves.push(Move { from, to, thing, across: None, is_final: false });
                }
                None => done.lost.push(special.path),
            }
        }
        if has_remade {
            let trash = state.folder(trash::FOLDER)?;
            platform::sync(&*trash)
                .map_err(|errno| Error::io("sync", state.display(trash::FOLDER), errno))?;
        }
        Ok(moves)
    }

    /// Saves the number of this change in the session, and its read records. If that fails, the journal still has it.
    fn note_in_session(&mut self, state: &State, marks: &[ReadRecord], forgotten: &[WorkspacePath]) {
        let seq = self.entry.seq;
        let noted = session::update(state, self.engine.session(), |session| {
            session.seq = session.seq.max(seq);
            session.exchange_marks(forgotten, Vec::new());
            marks.iter().for_each(|mark| session.add_mark(mark.clone()));
        });
        match noted {
            Ok(warning) => self.engine.warn_if(warning),
            Err(error) => {
                self.engine.warn(format!("the session could not record its change: {}", error.message()));
            }
        }
    }
}

/// Puts a change that has been made already into the journal: its `files`, each with its versions, and the rest of the
/// `intent`; `backups` has the old bytes.
///
/// # Errors
/// Returns the OS error.
pub(super) fn put_in_journal(
    engine: &mut Engine,
    (state, backups): (&State, &Backups<'_>),
    entry: &mut JournalEntry,
    mut intent: Intent,
    files: Vec<CommandFile>,
) -> Result<(), Error> {
    backups.sync()?;
    let changed: Vec<_> = files.iter().map(|file| (&file.path, file.before.as_ref())).collect();
    let made: Vec<_> = intent.made.iter().filter_map(|folder| folder.path.in_workspace()).collect();
    keep_after(engine, state, &changed, &made);
    let id = entry.id.clone();
    for (number, CommandFile { path, before, after }) in files.into_iter().enumerate() {
        let at = Location::File(path);
        match (before, after) {
            (before, Some(after)) => {
                let staged = Location::in_state(STAGING_FOLDER, &format!("{id}-{number}"));
                intent.files.push(Step::Put { at, staged, before, after, in_place: false });
            }
            (Some(before), None) => intent.removed.push((at, before)),
            (None, None) => {}
        }
    }
    let steps = plan(intent, |number| Location::in_state(HELD_FOLDER, &format!("{id}-held-{number}")));
    entry.set_steps(steps, state.path());
    let pending = entry.prepare(state)?;
    let io = |source: std::io::Error| Error::io("sync", state.display("journal"), source);
    pending.file.sync_all().map_err(io)?;
    entry.publish(state)
}

/// Returns the target state apart from the files: moves, and the folders that were created and removed, sorted by depth.
fn moves_and_folders(
    moves: Vec<Move>,
    (mut made, mut removed): (Vec<FolderEntry<WorkspacePath>>, Vec<FolderEntry<WorkspacePath>>),
) -> Intent {
    let mut intent = Intent { moves, ..Intent::default() };
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
    pub fn new(state: &'s State) -> Self {
        Self { folders: backup::Folders::new(state), pending: Vec::new() }
    }

    /// Writes a version of a file whose bytes may be in no file later.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn add(&mut self, bytes: &[u8], version: &Version) -> Result<(), Error> {
        self.pending.push(self.folders.prepare(version.sha256, bytes, None)?);
        Ok(())
    }

    /// Makes the backups durable.
    fn sync(&self) -> Result<(), Error> {
        let io = |source: std::io::Error| Error::io("sync", BACKUPS_FOLDER, source);
        let file_system = self.pending.first().map(|backup| &*backup.folder);
        let files: Vec<&File> = self.pending.iter().map(|backup| &backup.file).collect();
        sync_many(&files, file_system).map_err(io)?;
        sync_many(&PendingFile::folders(&self.pending), file_system).map_err(io)
    }
}
