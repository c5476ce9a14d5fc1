//! Moves across mounts, where no rename leads: a verified copy waits beside the new name, and what was
//! copied goes beside the old one, from where it is removed once the change stands.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, Mode, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::Change;
use super::folders::Ways;
use super::plan::{Across, Move};
use super::run::Ground;
use super::special::{self, SpecialFile};
use super::stage::Stage;
use crate::engine::journal::steps::{Location, Thing};
use crate::engine::store::state::State;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs::{self, FILE_BYTES_MAX};
use crate::engine::workspace::identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::sha256::Hasher;

/// Bytes copied at a time.
const PART_BYTES: usize = 256 << 10;

impl Change<'_> {
    /// Copies what moves to another mount, and says with each move where its copy waits.
    ///
    /// # Errors
    /// `not_a_regular_file` where something cannot be copied, `stale_file` where it changes meanwhile, or
    /// the system's.
    pub(in crate::engine) fn copy_across(&mut self, state: &State, ways: &Ways) -> Result<(), Error> {
        let workspace = &self.engine.workspace;
        let stage = Stage::new(workspace, state, &self.entry.id)?;
        let ground = Ground { workspace, state };
        let folder_for = |at: &Location, nearest: Option<&WorkspacePath>| match (at, nearest) {
            (Location::File(_), Some(nearest)) => stage.folder_for(nearest, true),
            _ => Ok(stage.own_folder()),
        };
        let leaving = self.folders.leaving();
        for (number, moved) in self.moves.iter_mut().enumerate() {
            let shown = moved.from.to_string();
            let io = |errno: Errno| Error::io("move", shown.clone(), errno);
            let parents = [&moved.from, &moved.to].map(|at| at.parent().unwrap_or_else(|| at.clone()));
            let [old, new] = &parents;
            let nearest = ways.nearest.get(&new.from_root(state.path()));
            let (source, name) = ground.folder_of(&moved.from).map_err(io)?;
            let (copies, target) = folder_for(&moved.to, nearest)?;
            if fs::mount_of(&source).map_err(io)? == fs::mount_of(&target).map_err(io)? {
                continue;
            }
            let copy = stage.name_in(&copies, &format!("copy-{number}"));
            let new_name = copy.path().name().unwrap_or_default().to_owned();
            let copied = copied((source.as_fd(), name), (target.as_fd(), &new_name));
            let stat = copied.map_err(|fault| {
                remove_tree(target.as_fd(), &new_name);
                fault.into_error(&shown)
            })?;
            let (gone, _) = folder_for(&moved.from, Some(&staying(workspace, old.path(), &leaving)))?;
            let gone = stage.name_in(&gone, &format!("gone-{number}"));
            let thing = Thing { inode: stat.st_ino, is_folder: fs::is_folder(&stat) };
            moved.across = Some(Across { copy, thing, gone });
        }
        Ok(())
    }
}

/// The nearest folder at or above one that does not go, as far as its mount reaches: what waits in a folder that
/// is to go would keep it.
fn staying(
    workspace: &Workspace,
    folder: &WorkspacePath,
    leaving: &BTreeSet<&WorkspacePath>,
) -> WorkspacePath {
    let mount = |folder: &WorkspacePath| fs::mount_of(&workspace.open_folder(folder).ok()?).ok();
    let mut nearest = folder.clone();
    while leaving.contains(&nearest) {
        match nearest.parent() {
            Some(parent) if mount(&parent) == mount(&nearest) => nearest = parent,
            _ => break,
        }
    }
    nearest
}

/// Copies whatever has a name in a folder to a name in another, on any file system; `shown` is what messages
/// call it.
///
/// # Errors
/// As [`Change::copy_across`]; nothing is left at the new name then.
pub fn copy(from: (BorrowedFd<'_>, &OsStr), to: (BorrowedFd<'_>, &OsStr), shown: &str) -> Result<(), Error> {
    copied(from, to).map(drop).map_err(|fault| {
        remove_tree(to.0, to.1);
        fault.into_error(shown)
    })
}

/// Removes what a change has copied, once it stands, or the copies, where it does not.
pub(in crate::engine) fn clear(ground: Ground<'_>, moves: &[Move], stands: bool) {
    for across in moves.iter().filter_map(|moved| moved.across.as_ref()) {
        let at = if stands { &across.gone } else { &across.copy };
        if let Ok((folder, name)) = ground.folder_of(at) {
            remove_tree(folder.as_fd(), name);
        }
    }
}

/// Why something could not be copied.
enum Fault {
    /// The system's.
    Io(std::io::Error),
    /// It is a device, or another file system is mounted in it.
    Kind(PathBuf),
    /// Others have changed it meanwhile, or its copy is not what it is.
    Changed(PathBuf),
}

impl<E: Into<std::io::Error>> From<E> for Fault {
    fn from(source: E) -> Self {
        Self::Io(source.into())
    }
}

impl Fault {
    /// The refusal to move `shown`.
    fn into_error(self, shown: &str) -> Error {
        let inner = |path: &Path| {
            // What is refused may be all that was to be moved.
            let path: PathBuf =
                [Path::new(shown), path].iter().filter(|part| !part.as_os_str().is_empty()).collect();
            path.display().to_string()
        };
        match self {
            Self::Io(source) => Error::io("copy", shown, source),
            Self::Kind(path) => Error::new(
                ErrorKind::NotARegularFile,
                format!(
                    "{} cannot be moved to another file system: it is a device or a mount point",
                    inner(&path)
                ),
            )
            .at(shown),
            Self::Changed(path) => Error::new(
                ErrorKind::StaleFile,
                format!("{} was changed by another program during this call", inner(&path)),
            )
            .at(shown),
        }
    }
}

/// Something that waits to be copied.
struct Waiting {
    /// The folder that it is in.
    from: Rc<OwnedFd>,
    /// Its name there.
    name: OsString,
    /// The folder that its copy comes into.
    to: Rc<OwnedFd>,
    /// The name there.
    new: OsString,
    /// Its path below what is copied.
    path: PathBuf,
}

/// Copies whatever has a name in a folder to a name in another, with mode, owner, attributes and times;
/// all of it is read again, and on disk in the end. Answers what the copy is.
fn copied(
    (from, name): (BorrowedFd<'_>, &OsStr),
    (to, new): (BorrowedFd<'_>, &OsStr),
) -> Result<Stat, Fault> {
    let mount = fs::mount_of(from)?;
    let (source, target) = (Rc::new(from.try_clone_to_owned()?), Rc::new(to.try_clone_to_owned()?));
    let mut waiting = vec![Waiting {
        from: source,
        name: name.to_owned(),
        to: target,
        new: new.to_owned(),
        path: PathBuf::new(),
    }];
    let mut seen: BTreeMap<PathBuf, Stat> = BTreeMap::new();
    let mut folders: Vec<(OwnedFd, Rc<OwnedFd>, Stat)> = Vec::new();
    while let Some(Waiting { from, name, to, new, path }) = waiting.pop() {
        let entry = fs::open_at(from.as_fd(), &name, fs::LOOK)?;
        let stat = rustix::fs::fstat(&entry)?;
        seen.insert(path.clone(), stat);
        if fs::is_symlink(&stat) {
            fs::create_link_at(to.as_fd(), &new, &fs::target_of(&entry)?)?;
        } else if fs::is_regular(&stat) {
            copy_file((from.as_fd(), &name), (to.as_fd(), &new), &path)?;
        } else if fs::is_folder(&stat) && fs::mount_of(&entry)? == mount {
            rustix::io::retry_on_intr(|| rustix::fs::mkdirat(&to, &new, Mode::RWXU))?;
            let inner = fs::open_at(to.as_fd(), &new, fs::FOLDER)?;
            let source = Rc::new(fs::open_at(from.as_fd(), &name, fs::FOLDER)?);
            let target = Rc::new(fs::open_at(inner.as_fd(), OsStr::new("."), fs::FOLDER)?);
            for name in fs::names_in(&source)? {
                let path = path.join(&name);
                let (from, to) = (Rc::clone(&source), Rc::clone(&target));
                waiting.push(Waiting { from, new: name.clone(), name, to, path });
            }
            folders.push((inner, source, stat));
        } else if SpecialFile::can_be_made(fs::type_of(&stat)) {
            special::make(to.as_fd(), &new, fs::type_of(&stat), fs::mode_of(&stat))?;
        } else {
            return Err(Fault::Kind(path));
        }
    }
    for (copy, source, stat) in folders.iter().rev() {
        let known = identity::Identity::of(source.as_fd(), stat);
        identity::dress(copy, Some(fs::mode_of(stat)), known.as_ref())?;
        rustix::fs::futimens(copy, &times(stat))?;
        rustix::io::retry_on_intr(|| rustix::fs::fsync(copy))?;
    }
    must_be_unchanged(from, name, &seen)?;
    rustix::io::retry_on_intr(|| rustix::fs::fsync(to)).or_else(ignore_path_only)?;
    Ok(fs::stat_at(to, new)?)
}

/// A folder that was opened only to change names in it cannot be synced; the change syncs it later.
fn ignore_path_only(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::BADF { Ok(()) } else { Err(errno) }
}

/// Copies a file, and reads the copy again.
fn copy_file(
    (from, name): (BorrowedFd<'_>, &OsStr),
    (to, new): (BorrowedFd<'_>, &OsStr),
    path: &Path,
) -> Result<(), Fault> {
    let mut source = File::from(fs::open_at(from, name, fs::READ)?);
    let stat = rustix::fs::fstat(&source)?;
    let mut copy = fs::create_at(to, new, 0o600)?;
    let mut part = vec![0; PART_BYTES];
    let (mut hasher, mut bytes) = (Hasher::default(), 0_u64);
    loop {
        let count = source.read(&mut part)?;
        let Some(read) = part.get(..count).filter(|read| !read.is_empty()) else { break };
        bytes += read.len() as u64;
        if bytes > FILE_BYTES_MAX {
            return Err(Errno::FBIG.into());
        }
        hasher.update(read);
        copy.write_all(read)?;
    }
    identity::give(&copy, Some((&stat, &source)), None, None, &mut Vec::new())?;
    rustix::fs::futimens(&copy, &times(&stat))?;
    copy.sync_all()?;
    let again = crate::engine::workspace::hashed::sha256_of(File::from(fs::open_at(to, new, fs::READ)?))?;
    if again != hasher.finish() || !fs::is_unchanged(&stat, &rustix::fs::fstat(&source)?) {
        return Err(Fault::Changed(path.to_owned()));
    }
    Ok(())
}

/// The times that a copy takes over.
fn times(stat: &Stat) -> Timestamps {
    let time = |seconds, nanos: u64| Timespec { tv_sec: seconds, tv_nsec: i64::try_from(nanos).unwrap_or(0) };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// Refuses what others have changed since it was copied.
fn must_be_unchanged(
    from: BorrowedFd<'_>,
    name: &OsStr,
    seen: &BTreeMap<PathBuf, Stat>,
) -> Result<(), Fault> {
    for (path, then) in seen {
        let full = WorkspacePath::new(&Path::new(name).join(path)).ok_or(Errno::INVAL)?;
        let now = fs::open_beneath(from, &full, fs::LOOK).and_then(rustix::fs::fstat);
        if !now.is_ok_and(|now| fs::is_unchanged(then, &now)) {
            return Err(Fault::Changed(path.clone()));
        }
    }
    Ok(())
}

/// Removes whatever has a name in a folder, with all that is in it, as far as that can be done; where
/// another file system is mounted in it, that stays. Best effort: the next change comes past here again.
pub(in crate::engine) fn remove_tree(folder: BorrowedFd<'_>, name: &OsStr) {
    if fs::unlink_at(folder, name, AtFlags::empty()).is_ok() {
        return;
    }
    let (Ok(mount), Ok(top)) = (fs::mount_of(folder), folder.try_clone_to_owned()) else {
        return;
    };
    let mut waiting: Vec<(Rc<OwnedFd>, OsString)> = vec![(Rc::new(top), name.to_owned())];
    let mut folders: Vec<(Rc<OwnedFd>, OsString)> = Vec::new();
    while let Some((folder, name)) = waiting.pop() {
        if fs::unlink_at(&*folder, &name, AtFlags::empty()).is_ok() {
            continue;
        }
        let Ok(inner) = fs::open_at(folder.as_fd(), &name, fs::FOLDER) else { continue };
        if fs::mount_of(&inner).ok() != Some(mount) {
            continue;
        }
        let inner = Rc::new(inner);
        for name in fs::names_in(&inner).unwrap_or_default() {
            waiting.push((Rc::clone(&inner), name));
        }
        folders.push((folder, name));
    }
    for (folder, name) in folders.into_iter().rev() {
        let _ = fs::unlink_at(&*folder, &name, AtFlags::REMOVEDIR);
    }
}
