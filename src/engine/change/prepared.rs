//! Everything that a change writes before it takes effect: staged files, backups, the journal entry and the snapshot;
//! and the wave of syncs that makes it durable.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::{io, thread};

use rustix::fs::Stat;

use super::folders::ParentFolders;
use super::plan::FilePlan;
use super::staging::{NewContent, Original, StagedFile, StagingFolder};
use crate::engine::journal::backup::{self, InlineBackup};
use crate::engine::journal::bundle::{self, PendingFile};
use crate::engine::snapshot::{LARGE_BYTES, PreparedSnapshot};
use crate::engine::store::state::{STAGING_FOLDER, STATE_FOLDER, State};
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs::Mount;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::sync::{self, FileSystem, SYNC_EACH_MAX, sync_many};
use crate::error::Error;
use crate::limits::INLINE_BACKUP_BYTES_MAX;
use crate::platform::other_cpu;
use crate::sha256::Sha256;
use crate::text::escaped::short_path;

/// Files written so far.
#[derive(Default)]
pub(super) struct StagedFiles {
    /// Folder on the file system of most of these files, opened before any of them was written.
    pub file_system: Option<Arc<OwnedFd>>,
    /// Staged new bytes, by index of the file.
    pub staged: BTreeMap<usize, StagedFile>,
    /// Backups of larger files, or of many.
    pub backups: Vec<PendingFile>,
    /// Old bytes of a few small files, for the journal entry.
    pub kept: Vec<InlineBackup>,
    /// Number of bytes in `kept`.
    kept_bytes: usize,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
}

impl StagedFiles {
    /// Keeps old bytes: in the entry if they are few, else as a backup.
    fn keep(
        &mut self,
        backups: &mut backup::Folders<'_>,
        (sha256, bytes): (Sha256, &[u8]),
        of: Option<&Original>,
    ) -> Result<(), Error> {
        if self.kept.iter().any(|kept| kept.sha256 == sha256) {
            return Ok(());
        }
        if bytes.len() <= INLINE_BACKUP_BYTES_MAX
            && self.kept_bytes + bytes.len() <= backup::INLINE_TOTAL_BYTES_MAX
        {
            self.kept_bytes += bytes.len();
            self.kept.push(InlineBackup::new(sha256, bytes));
            return Ok(());
        }
        let of = of.and_then(|of| Some((of.opened.as_deref()?, &of.stat)));
        self.backups.push(backups.prepare(sha256, bytes, of)?);
        Ok(())
    }

    /// Removes all files again.
    pub fn discard(&self) {
        self.staged.values().for_each(|staged| staged.pending.discard());
        self.backups.iter().for_each(PendingFile::discard);
    }
}

/// Files to write.
pub(super) struct FilesToWrite<'c> {
    /// Workspace.
    pub workspace: &'c Workspace,
    /// State of the workspace.
    pub state: &'c State,
    /// Id of the change.
    pub id: &'c str,
    /// Files of the change.
    pub files: &'c [FilePlan],
    /// Other bytes to back up.
    pub kept: &'c [Vec<u8>],
    /// Folders of the files.
    pub ways: &'c ParentFolders,
    /// Mounts of folders in which files are replaced.
    pub mounts: &'c BTreeMap<WorkspacePath, Mount>,
    /// True to stage all of them next to their targets.
    pub is_beside: bool,
}

impl FilesToWrite<'_> {
    /// Returns true if there are so many files that their old bytes go into a bundle.
    pub fn is_many(&self) -> bool {
        self.files.len() > SYNC_EACH_MAX
    }

    /// Writes all files. Returns those written even after an error.
    pub fn write(&self) -> (StagedFiles, Result<(), Error>) {
        let mut aside = StagedFiles::default();
        let outcome = self.write_to(&mut aside);
        (aside, outcome)
    }

    /// Writes all files; if there are many, a second thread writes half of the new bytes.
    fn write_to(&self, aside: &mut StagedFiles) -> Result<(), Error> {
        aside.file_system = Some(self.state.folder(STAGING_FOLDER)?);
        let mine = if self.is_many() { self.files.len() / 2 } else { self.files.len() };
        let (done, old) = thread::scope(|scope| {
            let others = || self.write_new(mine..self.files.len());
            let thread = self.is_many().then(|| other_cpu::spawn_scoped(scope, others));
            let old = self.write_old(aside);
            let mut done = vec![self.write_new(0..mine)];
            match thread {
                Some(Ok(thread)) => done.push(thread.join().unwrap_or_else(|panic| resume_unwind(panic))),
                // If no thread can start, do the work here.
                Some(Err(_)) => done.push(self.write_new(mine..self.files.len())),
                None => {}
            }
            (done, old)
        });
        let mut outcome = old;
        for (new, its_outcome) in done {
            aside.staged.extend(new.staged);
            aside.warnings.extend(new.warnings);
            outcome = outcome.and(its_outcome);
        }
        outcome
    }

    /// Writes the old bytes.
    fn write_old(&self, aside: &mut StagedFiles) -> Result<(), Error> {
        let mut backups = backup::Folders::new(self.state);
        for bytes in self.kept {
            aside.keep(&mut backups, (Sha256::of(bytes), bytes), None)?;
        }
        let mut bundled: BTreeMap<Sha256, &[u8]> = BTreeMap::new();
        for current in self.files.iter().map(|file| &file.seen.current).filter(|current| current.exists()) {
            if self.is_many() && current.bytes.len() < LARGE_BYTES {
                bundled.insert(current.sha256, &current.bytes);
            } else {
                let old = (current.sha256, &**current.bytes);
                aside.keep(&mut backups, old, current.original.as_ref())?;
            }
        }
        aside.backups.extend(bundle::write(self.state, self.id, &bundled)?);
        Ok(())
    }

    /// Writes the new bytes of some of the files. Returns those written even after an error.
    fn write_new(&self, numbers: Range<usize>) -> (StagedFiles, Result<(), Error>) {
        let mut new = StagedFiles::default();
        let outcome = StagingFolder::new(self.workspace, self.state, self.id).and_then(|stage| {
            let stage =
                if self.is_beside { stage.stage_next_to_targets() } else { stage.knowing(self.mounts) };
            let files = self.files.iter().enumerate().take(numbers.end).skip(numbers.start);
            for (number, file) in files {
                // A file that keeps its inode keeps its metadata.
                let mut lost = Vec::new();
                let warnings = if file.in_place { &mut lost } else { &mut new.warnings };
                if let Some(staged) = self.staged(&stage, number, file, warnings)? {
                    new.staged.insert(number, staged);
                }
                warn_of_links(file, &mut new.warnings);
            }
            Ok(())
        });
        (new, outcome)
    }

    /// Writes the new bytes of a file; `None` if it is deleted.
    fn staged(
        &self,
        stage: &StagingFolder<'_>,
        number: usize,
        file: &FilePlan,
        warnings: &mut Vec<String>,
    ) -> Result<Option<StagedFile>, Error> {
        let Some(after) = &file.after else { return Ok(None) };
        let current = &file.seen.current;
        let parent = current.place.path().parent().unwrap_or_default();
        let nearest = self.ways.nearest.get(&parent).cloned().unwrap_or_default();
        let new = NewContent {
            shown: current.place.display(),
            bytes: &after.bytes,
            mode: after.mode,
            identity: after.identity.as_ref(),
        };
        let original = file.model();
        stage.write(&number.to_string(), &nearest, original, &new, warnings).map(Some)
    }
}

/// Warns that other hard links of a replaced file keep its old bytes.
fn warn_of_links(file: &FilePlan, warnings: &mut Vec<String>) {
    if let Some(original) =
        file.seen.current.original.as_ref().filter(|_| file.has_several_names() && !file.in_place)
    {
        warnings.push(format!(
            "{} has {} hard links: it was replaced, and its other names keep the old bytes",
            short_path(file.seen.current.place.display()),
            original.stat.st_nlink
        ));
    }
}

/// All files written for a change that is not in effect yet.
#[derive(Default)]
pub(super) struct PreparedChange {
    /// Staged bytes and backups.
    pub(super) staged_files: StagedFiles,
    /// Descriptions of new trash entries.
    pub(super) descriptions: Vec<StagedFile>,
    /// The journal entry.
    pub(super) entry: Option<PendingFile>,
    /// Snapshot of the change, if it need not wait until the change is applied.
    pub(super) snapshot: Option<PreparedSnapshot>,
    /// Stats of the entries that this snapshot moves, from when they were read, by path.
    pub(super) about_to_move: Vec<(WorkspacePath, Stat)>,
    /// File system of the state, if its kind is known.
    pub(super) file_system: Option<FileSystem>,
}

impl PreparedChange {
    /// Removes all files again.
    pub(super) fn discard(&self) {
        self.staged_files.discard();
        self.descriptions.iter().for_each(|staged| staged.pending.discard());
        if let Some(entry) = &self.entry {
            entry.discard();
        }
    }

    /// Makes all files durable; for a small change, by one sync of the file system if possible.
    ///
    /// No change fails because of its snapshot: one that cannot be synced is dropped here. It is tried again once the
    /// change is applied, and a failure is reported then.
    ///
    /// # Errors
    /// Returns the OS error.
    pub(super) fn sync(&mut self, state: &State, is_small: bool) -> Result<(), Error> {
        let staging = match &self.staged_files.file_system {
            Some(staging) => Arc::clone(staging),
            None => state.folder(STAGING_FOLDER)?,
        };
        let grown = state.take_grown_folders();
        self.file_system = FileSystem::of(&staging);
        let files = self.files();
        let is_small = is_small && files.len() <= SYNC_EACH_MAX;
        if is_small && self.sync_at_once(&files) {
            return Ok(());
        }
        if is_small {
            sync::begin(files.iter().copied().chain(self.snapshot.iter().flat_map(PreparedSnapshot::files)));
        }
        let synced = self.sync_each(&files, &staging, &grown);
        synced.map_err(|source| Error::io("sync", STATE_FOLDER, source))?;
        if self.snapshot.as_ref().is_some_and(|snapshot| snapshot.sync().is_err()) {
            self.snapshot = None;
        }
        Ok(())
    }

    /// Returns the files to sync, without those of the snapshot; the journal entry is last.
    fn files(&self) -> Vec<&File> {
        let staged =
            self.staged_files.staged.values().chain(&self.descriptions).map(|staged| &staged.pending.file);
        let backups = self.staged_files.backups.iter().map(|backup| &backup.file);
        staged.chain(backups).chain(self.entry.iter().map(|entry| &entry.file)).collect()
    }

    /// Makes everything durable by one sync of the file system; `false` if that is not suitable.
    fn sync_at_once(&self, files: &[&File]) -> bool {
        let (Some(file_system), Some(last)) = (&self.file_system, files.last()) else {
            return false;
        };
        file_system.is_quiet()
            && files.iter().all(|file| file_system.holds(file))
            && self.snapshot.iter().all(|snapshot| snapshot.is_on(file_system))
            && file_system.sync_all(last)
    }

    /// Makes the files durable one by one; also their folders, if the file system does not keep the order of writes.
    fn sync_each(&self, files: &[&File], staging: &OwnedFd, grown: &[Arc<OwnedFd>]) -> io::Result<()> {
        let mut wave: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        if !self.file_system.as_ref().is_some_and(FileSystem::keeps_order) {
            // The backups share at most 256 folders.
            let folders = PendingFile::folders(&self.staged_files.backups);
            let entry = self.entry.iter().map(|entry| &*entry.folder);
            let others = entry.chain([staging]).chain(grown.iter().map(|folder| &**folder));
            wave.extend(folders.into_iter().chain(others).map(AsFd::as_fd));
        }
        sync_many(&wave.iter().collect::<Vec<_>>(), self.staged_files.file_system.as_deref())
    }
}
