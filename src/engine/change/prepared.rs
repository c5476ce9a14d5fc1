//! Everything that is written aside for a change, and the wave of syncs that makes it durable.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::Stat;

use super::aside::Aside;
use super::stage::Staged;
use crate::engine::journal::bundle::PendingFile;
use crate::engine::snapshot::PreparedSnapshot;
use crate::engine::store::state::{STAGING_FOLDER, STATE_FOLDER, State};
use crate::engine::workspace::file_system::FileSystem;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::sync::{self, SYNC_EACH_MAX, sync_many};
use crate::error::Error;

/// Everything written aside for a change, not yet in force.
#[derive(Default)]
pub(super) struct Prepared {
    /// New bytes and old ones.
    pub(super) aside: Aside,
    /// Descriptions of what goes to the trash.
    pub(super) descriptions: Vec<Staged>,
    /// The journal entry.
    pub(super) entry: Option<PendingFile>,
    /// The change's snapshot, where that need not wait until the change stands.
    pub(super) snapshot: Option<PreparedSnapshot>,
    /// What moves by that snapshot, as it was read, by path.
    pub(super) about_to_move: Vec<(WorkspacePath, Stat)>,
    /// The file system that the state is on, where its kind is known.
    pub(super) file_system: Option<FileSystem>,
}

impl Prepared {
    /// Removes everything again.
    pub(super) fn discard(&self) {
        self.aside.discard();
        self.descriptions.iter().for_each(Staged::discard);
        if let Some(entry) = &self.entry {
            entry.discard();
        }
    }

    /// Makes it durable; where it is small, by one sync of the file system if that can be.
    ///
    /// No change fails for its snapshot: one that cannot be synced is given up here. It is tried again once
    /// the change stands, and told then.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn sync(&mut self, state: &State, is_small: bool) -> Result<(), Error> {
        let staging = match &self.aside.file_system {
            Some(staging) => Arc::clone(staging),
            None => state.folder(STAGING_FOLDER)?,
        };
        let grown = state.take_grown();
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

    /// The files that are to be synced, those of the snapshot aside; the journal entry's is the last.
    fn files(&self) -> Vec<&File> {
        let staged = self.aside.staged.values().chain(&self.descriptions).map(|staged| &staged.file);
        let backups = self.aside.backups.iter().map(|backup| &backup.file);
        staged.chain(backups).chain(self.entry.iter().map(|entry| &entry.file)).collect()
    }

    /// Makes all of it durable by one sync of the file system; `false` where that is not the thing to do.
    fn sync_at_once(&self, files: &[&File]) -> bool {
        let (Some(file_system), Some(last)) = (&self.file_system, files.last()) else {
            return false;
        };
        file_system.is_quiet()
            && files.iter().all(|file| file_system.holds(file))
            && self.snapshot.iter().all(|snapshot| snapshot.is_on(file_system))
            && file_system.sync_all(last)
    }

    /// Makes the files durable one by one, and where their order is not kept the folders that they are in.
    fn sync_each(&self, files: &[&File], staging: &OwnedFd, grown: &[Arc<OwnedFd>]) -> io::Result<()> {
        let mut wave: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        if !self.file_system.as_ref().is_some_and(FileSystem::keeps_order) {
            // The backups share the folders, of which there are 256 at most.
            let mut folders: Vec<&OwnedFd> =
                self.aside.backups.iter().map(|backup| &*backup.folder).collect();
            folders.sort_unstable_by_key(|folder| folder.as_raw_fd());
            folders.dedup_by_key(|folder| folder.as_raw_fd());
            let entry = self.entry.iter().map(|entry| &*entry.folder);
            let others = entry.chain([staging]).chain(grown.iter().map(|folder| &**folder));
            wave.extend(folders.into_iter().chain(others).map(AsFd::as_fd));
        }
        sync_many(&wave.iter().collect::<Vec<_>>(), self.aside.file_system.as_deref())
    }
}
