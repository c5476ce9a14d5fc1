//! Locks that are taken as git takes them, by a file `….lock` that must not exist yet, and that are known as
//! lbx's own by whoever finds them.
//!
//! Such a file has a second name among the objects, and its holder keeps it locked (`flock`). Where a call was
//! killed, the second name says that the lock is lbx's, and the lock that nobody holds any more says that the call
//! is dead, whatever process has its number by now. A file system without hard links has neither: what a killed
//! call leaves there looks like a lock of git's.
//!
//! A lock that holds what goes with a commit, as an index does, names that commit in its second name: where HEAD is
//! at it, the call was killed between two renames, and whoever finds the lock makes the second of them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use gix::ObjectId;
use rustix::fs::{FlockOperation, Stat};
use rustix::io::Errno;

use super::held::HeldFolder;
use super::refs;
use super::repo::Repo;
use crate::engine::workspace::fs::{is_folder, is_regular, is_same_file, process_id};

/// How the second names begin; `git gc` clears such files away once they are old.
const PREFIX: &str = "tmp_lbx_lock_";
/// How the names of locks end.
const SUFFIX: &str = ".lock";
/// Most folders of branches that are looked into.
const FOLDERS_MAX: usize = 1000;

/// A file that is to be a lock, under its second name. Dropped, that name is removed.
#[derive(Debug)]
pub struct OwnLock {
    /// The folder of objects.
    objects: Arc<HeldFolder>,
    /// The name there.
    name: String,
    /// The file, which is locked.
    pub file: File,
}

impl OwnLock {
    /// Makes the file.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(repo: &Repo) -> io::Result<Self> {
        Self::named(repo, "")
    }

    /// The same of a file that takes the place of what it locks once HEAD is at `commit`, which it is not yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn with_commit(repo: &Repo, commit: ObjectId) -> io::Result<Self> {
        Self::named(repo, &format!("_{commit}"))
    }

    /// The same under a second name that ends so.
    fn named(repo: &Repo, end: &str) -> io::Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let objects = Arc::clone(repo.objects_folder());
        let name = format!("{PREFIX}{}_{}{end}", process_id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        // Of a dead process that had this id.
        let _ = objects.remove(&name);
        let file = objects.create(&name, 0o666)?;
        let lock = Self { objects, name, file };
        match rustix::fs::flock(&lock.file, FlockOperation::NonBlockingLockExclusive) {
            // Without such locks the file is an ordinary one: nobody takes it for a dead call's.
            Ok(()) | Err(Errno::NOSYS | Errno::NOTSUP | Errno::INVAL | Errno::NOLCK) => Ok(lock),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes the lock `name` in `folder`; one that a killed call left is settled first. Whether it could be tried:
    /// not every file system has hard links, and `folder` may lie on another one.
    ///
    /// # Errors
    /// `EEXIST` where someone else has it; what the system says.
    pub fn place(&self, repo: &Repo, folder: &HeldFolder, name: &str) -> Result<bool, Errno> {
        let mut placed = self.objects.link(&self.name, folder, name);
        if placed == Err(Errno::EXIST) && settle_left_behind(repo, folder, OsStr::new(name)) {
            placed = self.objects.link(&self.name, folder, name);
        }
        match placed {
            Ok(()) => Ok(true),
            Err(Errno::XDEV | Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::MLINK) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for OwnLock {
    fn drop(&mut self) {
        let _ = self.objects.remove(&self.name);
    }
}

/// Removes the lock `name` where a call of lbx's left it that is dead by now, or puts it in place where its commit
/// was made; whether it did.
pub fn settle_left_behind(repo: &Repo, folder: &HeldFolder, name: &OsStr) -> bool {
    let objects = repo.objects_folder();
    let Some(second) = second_name(objects, folder, name) else { return false };
    let Ok(file) = folder.open_over(name) else { return false };
    let is_dead = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    // While this call holds it nobody else removes it: it is looked at once more.
    let is_it = || {
        let stands = folder.stat(name).ok().flatten().zip(rustix::fs::fstat(&file).ok());
        stands.is_some_and(|(stands, opened)| is_same_file(&stands, &opened))
    };
    let settle = || match place_of(repo, name, &second) {
        Some(place) => folder.rename(name, folder, place).is_ok(),
        None => folder.remove(name).is_ok(),
    };
    let is_settled = is_dead && is_it() && settle();
    if is_settled {
        let _ = objects.remove(second);
    }
    is_settled
}

/// What the lock of a dead call is to replace, where HEAD is at the commit that its second name tells. Nobody has
/// replaced it since then: the lock was there.
fn place_of<'a>(repo: &Repo, name: &'a OsStr, second: &OsStr) -> Option<&'a str> {
    let place = name.to_str()?.strip_suffix(SUFFIX)?;
    let commit = ObjectId::from_hex(second.to_str()?.rsplit_once('_')?.1.as_bytes()).ok()?;
    (refs::head(repo).ok()? == Some(commit)).then_some(place)
}

/// The locks that calls of lbx's left which are dead by now, as messages name them; with `settle` they are
/// removed, or put in place.
pub fn left_behind(repo: &Repo, settle: bool) -> Vec<String> {
    let objects = repo.objects_folder();
    if second_names(objects).is_empty() {
        return Vec::new();
    }
    let common = ["refs/heads", "refs/lbx"].map(|folder| repo.common().folder(folder));
    let mut waiting: Vec<HeldFolder> = std::iter::once(repo.own().folder("."))
        .chain(common)
        .filter_map(|folder| folder.ok().flatten())
        .collect();
    let (mut found, mut folders) = (Vec::new(), 0);
    while let Some(folder) = waiting.pop() {
        folders += 1;
        let is_of_branches = folder.path() != repo.own().path();
        for name in folder.names().unwrap_or_default() {
            let is_lock = name.to_string_lossy().ends_with(SUFFIX);
            if is_lock && is_left_behind(objects, &folder, &name) {
                let shown = folder.path().join(&name).display().to_string();
                if !settle || settle_left_behind(repo, &folder, &name) {
                    found.push(shown);
                }
            } else if is_of_branches
                && folders < FOLDERS_MAX
                && folder.stat(&name).is_ok_and(|stat| stat.is_some_and(|stat| is_folder(&stat)))
            {
                waiting.extend(folder.folder(&name).ok().flatten());
            }
        }
    }
    found
}

/// Whether a lock is lbx's own, and its holder dead.
fn is_left_behind(objects: &HeldFolder, folder: &HeldFolder, name: &OsStr) -> bool {
    second_name(objects, folder, name).is_some()
        && folder
            .open_over(name)
            .is_ok_and(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// The second name of a lock, where it is lbx's own.
fn second_name(objects: &HeldFolder, folder: &HeldFolder, name: &OsStr) -> Option<OsString> {
    let lock: Stat = folder.stat(name).ok().flatten().filter(|stat| is_regular(stat) && stat.st_nlink > 1)?;
    let is_it = |name: &OsString| {
        objects.stat(name).is_ok_and(|stat| stat.is_some_and(|stat| is_same_file(&stat, &lock)))
    };
    second_names(objects).into_iter().find(is_it)
}

/// All second names there are.
fn second_names(objects: &HeldFolder) -> Vec<OsString> {
    let names = objects.names().unwrap_or_default();
    names.into_iter().filter(|name| name.to_string_lossy().starts_with(PREFIX)).collect()
}
