//! Locks on the very files that a change replaces, beside the workspace's: two roots that hold one file
//! (a nested repository, a submodule), and two accounts, never lose an update of it.
//!
//! A tool's first file is locked before it is read, so that calls on one file take turns. Of several the
//! others are read without a lock: all are locked in one order before any is replaced, and a file that
//! has changed since it was read is then refused.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::Change;
use super::first_lock::FirstLock;
use crate::engine::journal::steps::Location;
use crate::engine::store::lock::{Asked, Holder, hold};
use crate::engine::workspace::fs;
use crate::engine::workspace::open_files::OpenFiles;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind};

/// A change of so many files holds its descriptors under any limit.
const FEW_FILES: usize = 64;
/// Tries to lock a file that others replace meanwhile.
const TRIES: usize = 100;

impl Change<'_> {
    /// Locks the file at a place, or the folder where one is to be made, unless the change has looked at
    /// another before; answers the place as it is then.
    ///
    /// # Errors
    /// `lock_timeout`, or the system's.
    pub(in crate::engine) fn lock_first(&self, place: ResolvedPath) -> Result<ResolvedPath, Error> {
        let mut first = self.first_lock.borrow_mut();
        if self.dry_run || !matches!(*first, FirstLock::Unasked) {
            return Ok(place);
        }
        for _ in 0..TRIES {
            let Some((file, stat)) = self.to_be_locked(place.path()) else {
                *first = FirstLock::Free;
                return Ok(place);
            };
            let held = self.hold(Arc::new(file), place.shown())?;
            // It may have been replaced, made or removed while this call waited.
            let now = self.engine.workspace.place_of(place.path())?.stat().copied();
            let nearest = if now.is_some() { now } else { self.to_be_locked(place.path()).map(|(_, it)| it) };
            let is_the_same = nearest.is_some_and(|nearest| fs::is_same_file(&nearest, &stat));
            if is_the_same {
                *first = FirstLock::Held(stat, held);
                return Ok(ResolvedPath::at(place.path().clone(), place.shown().to_owned(), now));
            }
        }
        Err(Error::io("lock", place.shown(), Errno::AGAIN))
    }

    /// The regular file at a path, opened, or the nearest folder where nothing stands; `None` where there
    /// is nothing to be locked.
    fn to_be_locked(&self, path: &WorkspacePath) -> Option<(File, Stat)> {
        let root = self.engine.workspace.root_fd();
        let mut opened: Result<OwnedFd, Errno> = fs::open_beneath(root, path, fs::READ);
        let mut folder = path.parent();
        while let (Err(Errno::NOENT), Some(parent)) = (&opened, folder) {
            opened = fs::open_beneath(root, &parent, fs::FOLDER);
            folder = parent.parent();
        }
        let file = File::from(opened.ok()?);
        let stat = rustix::fs::fstat(&file).ok()?;
        (fs::is_regular(&stat) || fs::is_folder(&stat)).then_some((file, stat))
    }

    /// The refusal of a file on which others hold a lock.
    fn is_locked(&self, shown: &str, stat: Option<&Stat>) -> Error {
        let holders = stat.map(Holder::all_of).unwrap_or_default();
        let seconds = self.engine.workspace.lock_wait().as_secs();
        let refused = |who: &str| {
            Error::new(ErrorKind::LockTimeout, format!("{who} held a lock on {shown} for {seconds} s"))
                .at(shown)
        };
        match holders.iter().find(|holder| !holder.is_lbx()) {
            Some(holder) => refused(&holder.to_string()).suggest(
                "Wait until that program lets go of it, or have the user end it, and repeat the call.",
            ),
            None => refused("another process"),
        }
    }

    /// Takes the lock of an opened file, waiting until it is free; where the file system has no locks
    /// there is none.
    fn hold<F: Borrow<File>>(&self, file: F, shown: &str) -> Result<Option<F>, Error> {
        let stat = rustix::fs::fstat(file.borrow());
        match hold(file, Some(self.engine.workspace.lock_wait())) {
            Ok(Asked::Held(file)) => Ok(Some(file)),
            Ok(Asked::Busy) => Err(self.is_locked(shown, stat.ok().as_ref())),
            Err(_) => Ok(None),
        }
    }

    /// Lets the change hold as many files open as the system allows, where it has so many.
    pub(super) fn make_room_for(&self, files: usize) {
        if files > FEW_FILES {
            self.open_files.borrow_mut().get_or_insert_with(OpenFiles::as_many_as_allowed);
        }
    }

    /// Locks every file that the change replaces, moves or removes, in the order of their inodes, which
    /// is one for all; what is held until then is free meanwhile.
    ///
    /// # Errors
    /// `lock_timeout`; `stale_file` where another file has come in the place of one that moves; or the
    /// system's.
    pub(in crate::engine) fn lock_all(&mut self) -> Result<(), Error> {
        self.make_room_for(self.files.len() + self.moves.len());
        let mut files: BTreeMap<(u64, u64), (WorkspacePath, Stat, Arc<File>)> = BTreeMap::new();
        for original in self.files.iter().filter_map(|file| file.seen.current.original.as_ref()) {
            // A lock on the very file that was read: one that came in its place is found out later.
            let opened = original.opened.clone().map(|file| (original.path.clone(), original.stat, file));
            files.extend(opened.map(|it| ((original.stat.st_dev, original.stat.st_ino), it)));
        }
        for moved in self.moves.iter().filter(|moved| !moved.thing.is_folder) {
            if let Location::File(path) = &moved.from
                && let Some((file, stat)) = self.to_be_locked(path).filter(|(_, stat)| fs::is_regular(stat))
            {
                files.insert((stat.st_dev, stat.st_ino), (path.clone(), stat, Arc::new(file)));
            }
        }
        let first = self.first_lock.get_mut();
        let held = if let FirstLock::Held(stat, Some(_)) = first { Some(*stat) } else { None };
        if files.values().all(|(_, stat, _)| held.as_ref().is_some_and(|held| fs::is_same_file(held, stat))) {
            return Ok(());
        }
        // The file may be read through the descriptor that locks it, which stays open then.
        if let FirstLock::Held(_, Some(file)) = std::mem::replace(first, FirstLock::Free) {
            let _ = fs2::FileExt::unlock(&*file);
        }
        let mut locks = Vec::with_capacity(files.len());
        for (path, _, file) in files.into_values() {
            locks.extend(self.hold(file, &self.engine.workspace.shown(&path))?);
        }
        self.locks = locks;
        for moved in self.moves.iter().filter(|moved| !moved.thing.is_folder) {
            let stands = fs::open_beneath(self.engine.workspace.root_fd(), moved.from.path(), fs::LOOK);
            let inode = stands.and_then(rustix::fs::fstat).map(|stat| stat.st_ino);
            if let Location::File(path) = &moved.from
                && inode != Ok(moved.thing.inode)
            {
                let shown = self.engine.workspace.shown(path);
                let message = format!("{shown} was changed by another program during this call");
                return Err(Error::new(ErrorKind::StaleFile, message).at(shown));
            }
        }
        Ok(())
    }
}
