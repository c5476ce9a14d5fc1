//! Takes steps on the disk, and takes them back.
//!
//! FIFOs and sockets are created again: one that a command removed, in the trash, so that an undo can move it back; and
//! one that moves to another mount, there.
//!
//! Such a file is only a name, a type and a mode; it holds no bytes. Nobody listens on a restored socket, as after a
//! restart of its program.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use rustix::io::Errno;

use super::staging::{NewContent, Original, StagingFolder};
use crate::engine::history::replay::Direction;
use crate::engine::journal::progress::ObservedKind;
use crate::engine::journal::steps::{Folder, Location, Step, Thing, is_waiting};
use crate::engine::journal::{JournalEntry, Version, backup};
use crate::engine::store::id::AccountLock;
use crate::engine::store::lock::unique_name;
use crate::engine::store::state::{STAGING_FOLDER, State, make_folder};
use crate::engine::store::trash::{self, TrashEntry};
use crate::engine::workspace::fs::{self, FolderCache, rename_new};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::sync::{FileSystem, sync_many};
use crate::engine::workspace::{Workspace, digest, metadata};
use crate::error::{Error, ErrorKind};
use crate::limits::CHANGED_FILE_BYTES_MAX;
use crate::platform;
use crate::sha256::Sha256;

/// Remedy for a folder that a command has closed to its own account.
pub const OPEN_FOLDER: &str =
    "If the folder there or above it is your own, let yourself in (chmod u+rwx), then repeat the call.";

/// The two trees in which steps are taken.
#[derive(Clone, Copy)]
pub struct Executor<'e> {
    /// Workspace.
    pub workspace: &'e Workspace,
    /// State of the workspace.
    pub state: &'e State,
}

impl Executor<'_> {
    /// Returns a location for messages.
    pub fn display(&self, at: &Location) -> String {
        match at {
            Location::File(path) => self.workspace.display(path),
            Location::State(_) => at.from_root(self.state.path()).to_string(),
        }
    }

    /// Returns the top folder of the tree of a location.
    fn top(&self, at: &Location) -> BorrowedFd<'_> {
        match at {
            Location::File(_) => self.workspace.root_fd(),
            Location::State(_) => self.state.fd(),
        }
    }

    /// Opens whatever is at a location, without following a symlink.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn open(&self, at: &Location, flags: OFlags) -> Result<OwnedFd, Errno> {
        fs::open_beneath(self.top(at), at.path(), flags)
    }

    /// Opens the parent folder of a location, to change names in it; also returns the last component.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn folder_of<'a>(&self, at: &'a Location) -> Result<(Arc<OwnedFd>, &'a OsStr), Errno> {
        let name = at.path().name().ok_or(Errno::INVAL)?;
        if is_waiting(at)
            && matches!(at, Location::State(_))
            && let Ok(Some(staging)) = self.state.find_folder(STAGING_FOLDER)
        {
            // It stays open during the call.
            return Ok((staging, name));
        }
        Ok((Arc::new(self.open(&at.parent().ok_or(Errno::INVAL)?, fs::HANDLE)?), name))
    }

    /// Takes all steps of a change except the first `done`, and sets the metadata of folders; leaves bits that lock out
    /// the owner to [`Self::close`].
    ///
    /// # Errors
    /// Returns the OS error of the first step that fails; `already_exists` if others have taken a name that was free.
    pub fn carry_out(&self, entry: &JournalEntry, done: usize, seen: &ReadStats) -> Result<(), Error> {
        let steps = entry.steps.as_slice();
        let _ = self.make_writable(entry, done);
        let mut folders = LastFolders::default();
        for (number, step) in steps.iter().enumerate().skip(done) {
            seen.done.set(number);
            let is_put = matches!(step, Step::Put { .. });
            if !is_put {
                // It may give a folder another name.
                folders = LastFolders::default();
            }
            let (doing, at, outcome) = match step {
                Step::MakeFolder(folder) => ("make", &folder.path, self.make(&folder.path)),
                Step::RemoveFolder(folder) => ("remove", &folder.path, self.remove(&folder.path)),
                Step::Rename { from, to, over, .. } => {
                    // No message names a place of the trash.
                    let named = if matches!(from, Location::State(_)) { to } else { from };
                    ("move", named, self.rename(from, to, over.is_some()))
                }
                Step::Put { at, staged, in_place: true, .. } => {
                    ("write", at, self.put_into(at, staged, seen.looks.get(at)))
                }
                Step::Put { at, staged, before, after, .. } => {
                    let over = match (before, seen.looks.get(at)) {
                        (None, _) => RenameTarget::Nothing,
                        (Some(_), None) => RenameTarget::Anything,
                        (Some(_), Some(read)) => RenameTarget::Read(read),
                    };
                    ("write", at, self.put(at, (staged, after), over, &mut folders))
                }
                Step::Unlink { at, .. } => {
                    let aside = removal_name(&entry.id, number);
                    ("delete", at, self.unlink(at, seen.looks.get(at).map(|read| (read, &aside))))
                }
            };
            outcome.map_err(|errno| match errno {
                OTHERS_FILE => changed_meanwhile(&self.display(at)),
                Errno::ACCESS if !matches!(step, Step::Put { in_place: true, .. }) => {
                    Error::io(doing, self.display(at), errno).suggest(OPEN_FOLDER)
                }
                errno => Error::io(doing, self.display(at), errno),
            })?;
        }
        self.set_metadata(steps.iter().rev().filter_map(|step| match step {
            Step::MakeFolder(folder) => Some(folder),
            _ => None,
        }))?;
        self.set_modes(entry, Direction::Redo)
    }

    /// Gives staged bytes their name, `over` an existing file; `folders` are those of the file before.
    fn put(
        &self,
        at: &Location,
        (staged, after): (&Location, &Version),
        over: RenameTarget<'_>,
        folders: &mut LastFolders,
    ) -> Result<(), Errno> {
        let is_own = || !self.is_another(staged, &[after]);
        let open = |folder: &Location| self.open(folder, fs::HANDLE);
        let new = at.path().name().ok_or(Errno::INVAL)?;
        let to = folders.target.get(at.parent().ok_or(Errno::INVAL)?, open)?;
        if matches!(staged, Location::State(_)) {
            // Its folder is open.
            let (from, old) = self.folder_of(staged)?;
            return self.replace((from.as_fd(), old), (to, new), (over, &is_own), &mut folders.account);
        }
        let old = staged.path().name().ok_or(Errno::INVAL)?;
        let from = folders.staged.get(staged.parent().ok_or(Errno::INVAL)?, open)?;
        self.replace((from, old), (to, new), (over, &is_own), &mut folders.account)
    }

    /// Renames a staged file to its target. To replace a file, exchanges the two and checks the old one: an editor may
    /// have saved a file of its own there since the read. If so, exchanges them back; `is_own` returns true if the staged
    /// file is that of this change.
    fn replace(
        &self,
        (from, old): (BorrowedFd<'_>, &OsStr),
        (to, new): (BorrowedFd<'_>, &OsStr),
        (over, is_own): (RenameTarget<'_>, &dyn Fn() -> bool),
        account: &mut AccountLock,
    ) -> Result<(), Errno> {
        let RenameTarget::Read(read) = over else {
            return rename_in(from, old, to, new, matches!(over, RenameTarget::Anything));
        };
        let is_read = |stat: Stat| looks(&stat) == looks(read);
        match fs::exchange(from, old, to, new) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                // A rename does not show what it replaces, so two calls must not be between look and rename at once,
                // through whichever root: two roots of one folder have no lock in common but that of the account.
                account.take(self.workspace.lock_wait())?;
                if !is_read(fs::stat_at(to, new)?) {
                    return Err(OTHERS_FILE);
                }
                return rename_in(from, old, to, new, true);
            }
            exchanged => exchanged?,
        }
        if is_read(fs::stat_at(from, old)?) {
            return fs::unlink_at(from, old, AtFlags::empty());
        }
        // Another save may come before the exchange back, which then takes that one out: the newest gets the name.
        let (mut put, mut taken) = (None, fs::stat_at(from, old)?.st_ino);
        for _ in 0..EXCHANGES_MAX {
            fs::exchange(from, old, to, new)?;
            let out = fs::stat_at(from, old)?.st_ino;
            if put.map_or_else(is_own, |put| put == out) {
                break;
            }
            (put, taken) = (Some(taken), out);
        }
        Err(OTHERS_FILE)
    }

    /// Returns true if a location has a file with other bytes than these versions, as far as it can be read.
    fn is_another(&self, at: &Location, versions: &[&Version]) -> bool {
        let found = self.observe(at, true);
        matches!(found, Ok(ObservedKind::File { version: Some((sha256, _)), .. })
            if versions.iter().all(|version| version.sha256 != sha256))
    }

    /// Gives a file that another program saved back its name, if a killed call had taken it out; returns the number of
    /// steps before that one.
    pub fn restore_saved_file(&self, entry: &JournalEntry) -> Option<usize> {
        let steps = entry.steps.iter().enumerate();
        let mut given = steps.filter_map(|(number, step)| match step {
            Step::Put { at, staged, before: Some(before), after, in_place: false } => {
                let is_out = self.is_another(staged, &[before, after])
                    && matches!(self.observe(at, false), Ok(ObservedKind::File { .. }))
                    && !self.is_another(at, &[after]);
                is_out.then(|| self.swap(staged, at).ok().map(|()| number))
            }
            Step::Unlink { at, before } => {
                let aside = removal_name(&entry.id, number);
                let is_out = self.is_another(&aside, &[before]);
                is_out.then(|| self.rename(&aside, at, false).ok().map(|()| number))
            }
            _ => None,
        });
        given.next()?
    }

    /// Exchanges two files.
    fn swap(&self, one: &Location, other: &Location) -> Result<(), Errno> {
        let ((from, old), (to, new)) = (self.folder_of(one)?, self.folder_of(other)?);
        fs::exchange(&*from, old, &*to, new)
    }

    /// Removes staged bytes that are no longer needed.
    pub fn discard(&self, staged: &Location) {
        if let Ok((folder, name)) = self.folder_of(staged) {
            // Best effort: the next change sweeps this folder again.
            let _ = fs::unlink_at(&folder, name, AtFlags::empty());
        }
    }

    /// Takes back one step of the change `id`; `number` is the index of the step.
    ///
    /// # Errors
    /// Returns the OS error; `io_error` if the backup of a file is missing.
    pub fn reverse_step(&self, step: &Step, id: &str, number: usize) -> Result<(), Error> {
        let (doing, at, outcome) = match step {
            // A folder that is no longer empty is someone else's now.
            Step::MakeFolder(folder) => ("remove", &folder.path, self.remove(&folder.path)),
            Step::RemoveFolder(folder) => ("make", &folder.path, self.make(&folder.path)),
            Step::Rename { from, to, .. } => ("move", to, self.rename(to, from, false)),
            // Another program's file of that name stays.
            Step::Put { at, before: None, after, .. } if self.is_another(at, &[after]) => return Ok(()),
            Step::Put { at, before: None, .. } => ("delete", at, self.unlink(at, None)),
            Step::Put { at, before: Some(before), in_place: true, .. } => {
                let bytes = self.backed_up(at, before)?;
                ("restore", at, self.write_into(at, &bytes, None))
            }
            Step::Put { at, before: Some(before), after, .. } => {
                return self.restore(at, before, Some(after), id, number);
            }
            Step::Unlink { at, before } => return self.restore(at, before, None, id, number),
        };
        outcome.map_err(|errno| Error::io(doing, self.display(at), errno))?;
        match step {
            Step::Rename { to, over: Some(before), .. } => self.restore(to, before, None, id, number),
            _ => Ok(()),
        }
    }

    /// Completes a rollback that died: restores the replaced file, once the name is free again.
    ///
    /// # Errors
    /// As [`Self::reverse_step`].
    pub fn repair(&self, step: &Step, id: &str, number: usize) -> Result<(), Error> {
        match step {
            Step::Rename { to, over: Some(before), .. }
                if self.observe(to, false)? == ObservedKind::Nothing =>
            {
                self.restore(to, before, None, id, number)
            }
            _ => Ok(()),
        }
    }

    /// Sets the owner, attributes and mode of folders, innermost first, once everything is in place. Bits that would
    /// lock out the owner come last of all: see [`super::folders`].
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn set_metadata<'s>(&self, folders: impl Iterator<Item = &'s Folder>) -> Result<(), Error> {
        for folder in folders.filter(|folder| folder.is_dressed()) {
            let io = |errno| Error::io("set the mode of", self.display(&folder.path), errno);
            let mode = folder.mode.map(fs::opened_up);
            match self.open(&folder.path, fs::FOLDER) {
                Ok(opened) => metadata::set_metadata(&opened, mode, folder.identity.as_ref()).map_err(io)?,
                // Others have removed it since.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(io(errno)),
            }
        }
        Ok(())
    }

    /// Makes a folder, if it is missing.
    fn make(&self, at: &Location) -> Result<(), Errno> {
        let (folder, name) = self.folder_of(at)?;
        // Folders come back from the trash with their own metadata.
        let is_own = matches!(at, Location::State(_)) && !at.is_trashed();
        let mode = if is_own { 0o700 } else { 0o777 };
        if make_folder(folder.as_fd(), name, mode)? {
            return Ok(());
        }
        if fs::is_folder(&fs::stat_at(folder.as_fd(), name)?) { Ok(()) } else { Err(Errno::EXIST) }
    }

    /// Removes an empty folder; leaves anything else.
    fn remove(&self, at: &Location) -> Result<(), Errno> {
        let (folder, name) = match self.folder_of(at) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            found => found?,
        };
        match fs::unlink_at(&folder, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Removes a file; if it is no longer the one that was read, leaves it and returns [`OTHERS_FILE`]. For that, needs the
    /// stat from the read and a free name.
    fn unlink(&self, at: &Location, read: Option<(&Stat, &Location)>) -> Result<(), Errno> {
        let (folder, name) = self.folder_of(at)?;
        let Some((read, aside)) = read else { return fs::unlink_at(&folder, name, AtFlags::empty()) };
        // A look at the name would not show a file that another program renames to it just before it is removed.
        let (staging, aside) = self.folder_of(aside)?;
        match fs::rename_new(&*folder, name, &*staging, aside) {
            // On another mount, only the look is left.
            Err(Errno::XDEV) if looks(&fs::stat_at(folder.as_fd(), name)?) == looks(read) => {
                return fs::unlink_at(&folder, name, AtFlags::empty());
            }
            Err(Errno::XDEV) => return Err(OTHERS_FILE),
            renamed => renamed?,
        }
        if looks(&fs::stat_at(staging.as_fd(), aside)?) == looks(read) {
            return fs::unlink_at(&staging, aside, AtFlags::empty());
        }
        match fs::rename_new(&*staging, aside, &*folder, name) {
            // Another program has saved a newer one since.
            Err(Errno::EXIST) => Err(OTHERS_FILE),
            renamed => renamed.and(Err(OTHERS_FILE)),
        }
    }

    /// Renames something; fails if the new name is taken, unless `over` is set.
    fn rename(&self, from: &Location, to: &Location, over: bool) -> Result<(), Errno> {
        let ((old_folder, old), (new_folder, new)) = (self.folder_of(from)?, self.folder_of(to)?);
        rename_in(old_folder.as_fd(), old, new_folder.as_fd(), new, over)
    }

    /// Restores a file in place of the version `after`; another program's file stays. Without `after`, the path must be
    /// free.
    fn restore(
        &self,
        at: &Location,
        before: &Version,
        after: Option<&Version>,
        id: &str,
        number: usize,
    ) -> Result<(), Error> {
        let stage = || StagingFolder::new(self.workspace, self.state, id);
        match self.restore_from(&stage()?, at, before, after, number) {
            Err(error) if error.errno() == Some(Errno::XDEV) => {
                self.restore_from(&stage()?.stage_next_to_targets(), at, before, after, number)
            }
            restored => restored,
        }
    }

    /// Restores a file as [`Self::restore`] does, from a staging folder.
    fn restore_from(
        &self,
        stage: &StagingFolder<'_>,
        at: &Location,
        before: &Version,
        after: Option<&Version>,
        number: usize,
    ) -> Result<(), Error> {
        let shown = self.display(at);
        let bytes = self.backed_up(at, before)?;
        let is_gone = after.is_none();
        let original = if is_gone || fs::is_symlink_mode(before.mode) { None } else { self.original(at) };
        let identity = before.identity.as_ref();
        let new = NewContent { shown: &shown, bytes: &bytes, mode: Some(before.mode), identity };
        let nearest = match at.parent() {
            Some(Location::File(folder)) => folder,
            _ => WorkspacePath::root(),
        };
        // A rollback that was cut may have left one.
        let name = unique_name(&format!("back-{number}"));
        let staged = stage.write(&name, &nearest, original.as_ref(), &new, &mut Vec::new())?;
        staged.pending.file.sync_all().map_err(|source| Error::io("sync", shown.clone(), source))?;
        let given = match after.map(|after| self.swap(&staged.at, at).map(|()| after)) {
            Some(Ok(after)) if self.is_another(&staged.at, &[after]) => {
                return self.swap(&staged.at, at).map_err(|errno| Error::io("restore", shown, errno));
            }
            Some(Ok(_)) => Ok(()),
            Some(Err(Errno::INVAL | Errno::NOSYS)) => self.rename(&staged.at, at, true),
            Some(Err(Errno::NOENT)) | None => self.rename(&staged.at, at, false),
            Some(Err(errno)) => Err(errno),
        };
        staged.pending.discard();
        given.map_err(|errno| Error::io("restore", shown, errno))
    }

    /// Returns the earlier bytes of a file.
    fn backed_up(&self, at: &Location, before: &Version) -> Result<Vec<u8>, Error> {
        backup::find(self.state, before.sha256)?.ok_or_else(|| {
            Error::new(ErrorKind::IoError, format!("the backup of {} is missing", self.display(at)))
        })
    }

    /// Returns the regular file at a location, whose identity its replacement takes over.
    fn original(&self, at: &Location) -> Option<Original> {
        let file = std::fs::File::from(self.open(at, fs::READ).ok()?);
        let stat = rustix::fs::fstat(&file).ok().filter(fs::is_regular)?;
        Some(Original { path: at.from_root(self.state.path()), stat, opened: Some(Arc::new(file)) })
    }

    /// Examines a location; `has_bytes` is true if the bytes matter.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn observe(&self, at: &Location, has_bytes: bool) -> Result<ObservedKind, Error> {
        let io = |errno| Error::io("look at", self.display(at), errno);
        let entry = match fs::entry_beneath(self.top(at), at.path()) {
            Ok(entry) => entry,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {
                return Ok(ObservedKind::Nothing);
            }
            Err(errno) => return Err(io(errno)),
        };
        let stat = entry.stat().map_err(io)?;
        if fs::is_folder(&stat) {
            return Ok(ObservedKind::Folder { inode: stat.st_ino });
        }
        let sha256 = if has_bytes { self.sha256_of(at, &entry, &stat)? } else { None };
        let version = sha256.map(|sha256| (sha256, fs::recorded_mode(&stat)));
        Ok(ObservedKind::File { inode: stat.st_ino, version })
    }

    /// Returns the SHA-256 of a regular file, or of a symlink's target; `None` for anything else, and for unreadable
    /// files.
    fn sha256_of(&self, at: &Location, entry: &fs::NamedEntry, stat: &Stat) -> Result<Option<Sha256>, Error> {
        if fs::is_symlink(stat) {
            let target = entry.target().map_err(|errno| Error::io("read", self.display(at), errno))?;
            return Ok(Some(Sha256::of(&target)));
        }
        if !fs::is_regular(stat) || fs::size_of(stat) > CHANGED_FILE_BYTES_MAX {
            return Ok(None);
        }
        match self.open(at, fs::READ) {
            Ok(file) => digest::sha256_of(file.into())
                .map(Some)
                .map_err(|source| Error::io("read", self.display(at), source)),
            Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::LOOP | Errno::NXIO) => Ok(None),
            Err(errno) => Err(Error::io("open", self.display(at), errno)),
        }
    }

    /// Syncs every folder in which some steps changed a name; `opened` are those already open; `file_system` as in
    /// [`sync_many`].
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn sync(
        &self,
        steps: &[Step],
        opened: Option<ChangedFolders>,
        file_system: Option<&OwnedFd>,
    ) -> Result<(), Error> {
        let (folders, unlisted) = match opened {
            Some(ChangedFolders(Some(folders))) => (folders, None),
            _ => self.folders_of(steps)?,
        };
        if let Some(path) = unlisted {
            self.open(&Location::File(WorkspacePath::root()), fs::FOLDER)
                .and_then(|root| platform::sync_file_system(root.as_fd()))
                .map_err(|errno| Error::io("sync", self.display(&path), errno))?;
        }
        sync_many(&folders.iter().collect::<Vec<_>>(), file_system)
            .map_err(|source| Error::io("sync", self.workspace.root().display().to_string(), source))
    }

    /// Returns the folders in which some steps changed a name, if all are on the state's file system; no list if the
    /// steps alone prove that.
    pub fn folders_on(&self, steps: &[Step], file_system: &FileSystem) -> Option<ChangedFolders> {
        // A rename cannot lead from there to another file system.
        if steps.iter().any(|step| matches!(step, Step::Put { in_place: true, .. })) {
            return None;
        }
        let came_from_state = |step: &Step| matches!(step.staged(), Some(Location::State(_)));
        if steps.iter().all(came_from_state) {
            return Some(ChangedFolders(None));
        }
        let (all, None) = self.folders_of(steps).ok()? else { return None };
        all.iter().all(|folder| file_system.holds(folder)).then_some(ChangedFolders(Some(all)))
    }

    /// Opens the folders in which some steps changed a name; also returns the last one that this account may not list,
    /// which only a sync of its file system reaches.
    fn folders_of(&self, steps: &[Step]) -> Result<(Vec<OwnedFd>, Option<Location>), Error> {
        let renames = steps.iter().filter(|step| !matches!(step, Step::Put { in_place: true, .. }));
        let mut paths: Vec<Location> =
            renames.flat_map(Step::locations).filter_map(Location::parent).collect();
        for step in steps {
            if let Step::Rename { to, thing, .. } = step
                && thing.is_folder
            {
                // It may have lost a name before, under its earlier path.
                paths.push(to.clone());
            }
        }
        paths.sort();
        paths.dedup();
        let mut folders = Vec::with_capacity(paths.len());
        for step in steps {
            // Files written in place are synced together with the changed names.
            if let Step::Put { at, in_place: true, .. } = step {
                folders.extend(self.open(at, fs::READ).ok());
            }
        }
        let mut unlisted = None;
        for path in paths {
            match self.open(&path, fs::FOLDER) {
                Ok(folder) => folders.push(folder),
                Err(Errno::ACCESS) => unlisted = Some(path),
                // The change may have emptied and removed it.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(Error::io("open the folder", self.display(&path), errno)),
            }
        }
        Ok((folders, unlisted))
    }
}

/// Folders in which steps changed a name, if they are open.
pub struct ChangedFolders(Option<Vec<OwnedFd>>);

/// Folders of the last file that was put in place, and the lock that it needed.
#[derive(Default)]
struct LastFolders {
    /// Folder of the staged file.
    staged: FolderCache<Location>,
    /// Folder of the target.
    target: FolderCache<Location>,
    /// Lock for a file system that cannot exchange names.
    account: AccountLock,
}

/// Stats of the files of a change when they were read, and the progress of the change.
#[derive(Default)]
pub struct ReadStats {
    /// Stats of the replaced files; empty in a call that recovers.
    pub looks: HashMap<Location, Stat>,
    /// Number of done steps.
    pub done: Cell<usize>,
}

/// Target of a rename.
#[derive(Clone, Copy)]
enum RenameTarget<'s> {
    /// Nothing: the name must be free.
    Nothing,
    /// Any file.
    Anything,
    /// The file that had this stat when it was read.
    Read(&'s Stat),
}

/// Detail in the error for a file that changed during the call.
const DURING_CALL: &str = "during_call";
/// Errno for a name that has another file than the one that was read.
pub(super) const OTHERS_FILE: Errno = Errno::STALE;

/// Returns the error for a file that another program changed since this call read it.
pub fn changed_meanwhile(shown: &str) -> Error {
    Error::new(ErrorKind::StaleFile, format!("{shown} was changed by another program during this call"))
        .at(shown)
        .detail(DURING_CALL, true)
}

/// Most exchanges of one file with those that other programs save at the same time.
const EXCHANGES_MAX: usize = 8;

/// Returns the name that a file has until it is removed by a step of a change.
fn removal_name(id: &str, number: usize) -> Location {
    Location::in_state(STAGING_FOLDER, &format!("{id}-gone-{number}"))
}

/// Returns the facts by which a file is known again.
fn looks(stat: &Stat) -> impl PartialEq {
    (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec)
}

/// Returns true for the error of [`changed_meanwhile`]: a retry may succeed at once.
pub fn is_changed_meanwhile(error: &Error) -> bool {
    error.details().contains_key(DURING_CALL)
}

/// Renames to a name that must be free, unless the new file is to replace another (`over`).
fn rename_in(
    from: BorrowedFd<'_>,
    old: &OsStr,
    to: BorrowedFd<'_>,
    new: &OsStr,
    over: bool,
) -> Result<(), Errno> {
    if over { fs::rename_at(from, old, to, new) } else { rename_new(from, old, to, new) }
}

/// Most files that are created again after one command.
pub(super) const REMADE_MAX: usize = 1000;

/// A FIFO or a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialFile {
    /// Path before.
    pub path: WorkspacePath,
    /// Type.
    pub kind: FileType,
    /// Permission bits.
    pub mode: u32,
}

impl SpecialFile {
    /// Returns true if a file of this type can be created again: anyone can create a FIFO or a socket, nobody in a
    /// sandbox a device.
    pub fn can_be_made(kind: FileType) -> bool {
        matches!(kind, FileType::Fifo | FileType::Socket)
    }
}

/// Creates an equal file as the content of the trash entry `entry`, with a description, from which `gc` knows its age;
/// the caller syncs the trash folder. Returns `None` if that fails: a later gc removes leftovers from the trash.
pub(super) fn remake(state: &State, special: &SpecialFile, entry: &TrashEntry) -> Option<Thing> {
    let mut described = entry.clone();
    described.files = 1;
    trash::describe(state, &described).ok()?.sync_all().ok()?;
    let folder = state.folder(&format!("{}/{}", trash::FOLDER, entry.id)).ok()?;
    make(folder.as_fd(), OsStr::new(trash::CONTENT), special.kind, special.mode).ok()?;
    let made = fs::stat_at(folder.as_fd(), OsStr::new(trash::CONTENT)).ok()?;
    platform::sync(&*folder).ok()?;
    Some(Thing::of(&made))
}

/// Creates a file with this type and these permission bits.
///
/// # Errors
/// Returns the OS error.
pub(super) fn make(folder: BorrowedFd<'_>, name: &OsStr, kind: FileType, mode: u32) -> Result<(), Errno> {
    let mode = platform::mode(mode);
    platform::make_special(folder, name, kind, mode)?;
    // The copy's mode must not depend on the umask.
    rustix::fs::chmodat(folder, name, mode, AtFlags::empty())
}
