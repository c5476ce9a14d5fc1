//! Changes without a rename: bytes written into an existing file, and moves to another mount.
//!
//! Otherwise new bytes replace the old file by a rename, which is atomic. A file that others hold open, watch or have
//! mounted keeps its inode instead: its bytes are written into it. Old and new bytes are on disk before, so a call that
//! dies meanwhile is completed or taken back: it left a mix of the two, byte by byte.
//!
//! For a move to another mount, a verified copy is made next to the new name, and the original moves to a temporary
//! name next to the old one, which is removed once the change is done.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use super::Change;
use super::executor::{self, Executor, OTHERS_FILE, SpecialFile};
use super::folders::ParentFolders;
use super::plan::{CrossMountMove, FilePlan, Move};
use super::staging::{Original, StagingFolder};
use crate::engine::journal::backup;
use crate::engine::journal::steps::{Location, Step, Thing};
use crate::engine::store::state::State;
use crate::engine::workspace::fs::{self, Mount};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, metadata, removal};
use crate::error::{Error, ErrorKind};
use crate::limits::CHANGED_FILE_BYTES_MAX;
use crate::platform;
use crate::sha256::Hasher;

/// Execute bits.
const EXECUTE: u32 = 0o111;
/// Tools that undo or redo changes.
const REPLAYS: [&str; 3] = ["undo", "redo", "rewind"];

/// Mounts of folders, each with true if this account may not change names in it.
type Folders = BTreeMap<WorkspacePath, (Option<Mount>, bool)>;

impl Change<'_> {
    /// Decides for each file whether to write into the existing file. Keeps the mounts of the folders that this needs.
    pub(super) fn choose_ways(&mut self) {
        let mut folders = BTreeMap::new();
        let ways: Vec<bool> =
            self.files.iter().map(|file| self.overwrites_in_place(file, &mut folders)).collect();
        for (file, in_place) in self.files.iter_mut().zip(ways) {
            file.in_place = in_place;
        }
        self.mounts = folders.into_iter().filter_map(|(path, (mount, _))| Some((path, mount?))).collect();
    }

    /// Returns true if the bytes are written into the existing file.
    fn overwrites_in_place(&self, file: &FilePlan, folders: &mut Folders) -> bool {
        let current = &file.seen.current;
        let (Some(after), Some(original), None) = (&file.after, &current.original, &file.origin) else {
            return false;
        };
        let mode = fs::mode_of(&original.stat);
        if !fs::is_regular(&original.stat) || after.mode.is_some_and(|asked| asked != mode) {
            return false;
        }
        let (old, new): (&[u8], &[u8]) = (&current.bytes, &after.bytes);
        // A shell reads a script while it runs it.
        if old == new || mode & EXECUTE != 0 || old.starts_with(b"#!") || has_capabilities(original) {
            return false;
        }
        let extends = !old.is_empty() && new.starts_with(old);
        let is_moved_end = extends || (!new.is_empty() && old.starts_with(new));
        let tool = self.entry.tool.as_str();
        // Other hard links of a file keep its old bytes, unless the policy says otherwise.
        let is_alone = original.stat.st_nlink == 1;
        let stays = (is_alone && tool == "append" && extends)
            || (is_alone && REPLAYS.contains(&tool) && is_moved_end)
            || self.engine.policy().writes_in_place(current.place.path());
        let may_write = || fs::may_write(self.engine.workspace.root_fd(), current.place.path()).is_ok();
        (stays && may_write()) || self.cannot_be_replaced(file, folders)
    }

    /// Returns true if nothing can take the name of a file: it is a mount point, or this account may not change names
    /// in its folder.
    fn cannot_be_replaced(&self, file: &FilePlan, folders: &mut Folders) -> bool {
        let path = file.seen.current.place.path();
        let opened = file.seen.current.original.as_ref().and_then(|original| original.opened.as_deref());
        let mount = opened.and_then(|opened| fs::mount_of(opened).ok());
        let parent = path.parent().unwrap_or_default();
        let (of_folder, is_closed) =
            *folders.entry(parent).or_insert_with_key(|parent| self.mount_and_access(parent));
        mount.zip(of_folder).is_some_and(|(file, folder)| file != folder)
            || (is_closed && fs::may_write(self.engine.workspace.root_fd(), path).is_ok())
    }

    /// Returns the mount of a folder, and true if this account may not change names in it.
    fn mount_and_access(&self, folder: &WorkspacePath) -> (Option<Mount>, bool) {
        let Ok(opened) = fs::open_beneath(self.engine.workspace.root_fd(), folder, fs::HANDLE) else {
            return (None, false);
        };
        (fs::mount_of(&opened).ok(), fs::may_add_to(&opened) == Err(Errno::ACCESS))
    }
}

/// Returns true if a file has capabilities, which the kernel removes on a write.
fn has_capabilities(original: &Original) -> bool {
    let opened = original.opened.as_deref();
    opened.is_some_and(|file| rustix::fs::fgetxattr_query(file, "security.capability").is_ok())
}

impl Executor<'_> {
    /// Writes staged bytes into the file at a location, which had the stat `read` when the call read it. The staged
    /// file stays until the change is closed: until the target is on disk, it is needed to complete the write.
    pub(super) fn put_into(
        &self,
        at: &Location,
        staged: &Location,
        read: Option<&Stat>,
    ) -> Result<(), Errno> {
        self.write_into(at, &self.bytes_at(staged, CHANGED_FILE_BYTES_MAX)?.0, read)
    }

    /// Removes the staged bytes of a closed change that were written into their files.
    pub(super) fn discard_written(&self, steps: &[Step]) {
        for step in steps {
            if let Step::Put { staged, in_place: true, .. } = step {
                self.discard(staged);
            }
        }
    }

    /// Makes `bytes` the content of the file at a location, which keeps its inode. Text that is only added is appended
    /// at the present end; bytes that are only removed from the end are truncated.
    ///
    /// # Errors
    /// Returns [`OTHERS_FILE`] if the file no longer looks like `read`, unless text is only added; or the OS error.
    //
    // Example: a log held "a", this call appends "b", and another program appended "x" after it was read.
    //
    //   bytes    read    there now    written
    //   "ab"     "a"     "ax"         "b" at the end: "axb"
    //   "A"      "a"     "ax"         nothing: it would take the "x"
    pub(super) fn write_into(&self, at: &Location, bytes: &[u8], read: Option<&Stat>) -> Result<(), Errno> {
        let io = |source: std::io::Error| Errno::from_io_error(&source).unwrap_or(Errno::IO);
        let (current, stat) = self.bytes_at(at, bytes.len() as u64)?;
        let read = read.unwrap_or(&stat);
        let old_len = usize::try_from(fs::size_of(read)).unwrap_or(usize::MAX);
        let shared = current.iter().zip(bytes).take_while(|(old, new)| old == new).count();
        let is_added = shared >= old_len;
        let way = if is_added { OFlags::APPEND } else { OFlags::empty() };
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | way;
        let mut file = std::fs::File::from(self.open(at, flags)?);
        if is_added {
            return file.write_all(bytes.get(old_len..).unwrap_or_default()).map_err(io);
        }
        file.seek(SeekFrom::Start(shared as u64)).map_err(io)?;
        // Right before the first byte changes. No call truncates a file only if it has not grown: a line that another program
        // appends between this look and the truncation goes with it.
        if !fs::is_unchanged(read, &rustix::fs::fstat(&file)?) {
            return Err(OTHERS_FILE);
        }
        file.write_all(bytes.get(shared..).unwrap_or_default()).map_err(io)?;
        if (bytes.len() as u64) < fs::size_of(&stat) {
            file.set_len(bytes.len() as u64).map_err(io)?;
        }
        Ok(())
    }

    /// Returns the file of a step if it holds some of its old bytes and some of its new ones: the call died while
    /// writing it in place.
    pub(super) fn torn_file(&self, step: &Step) -> Option<Location> {
        let Step::Put { at, staged, before: Some(before), after, in_place: true } = step else { return None };
        let most = before.size.max(after.size);
        let (now, stat) = self.bytes_at(at, most).ok()?;
        if fs::size_of(&stat) > most {
            return None;
        }
        let new = self.bytes_at(staged, most).ok()?.0;
        let old = backup::find(self.state, before.sha256).ok()??;
        (now != old && now != new && is_mix(&now, &old, &new)).then(|| at.clone())
    }

    /// Returns the first bytes of a regular file, at most so many, and its stat from when they were read.
    fn bytes_at(&self, at: &Location, most: u64) -> Result<(Vec<u8>, Stat), Errno> {
        let file = std::fs::File::from(self.open(at, fs::READ)?);
        let stat = rustix::fs::fstat(&file)?;
        if !fs::is_regular(&stat) {
            return Err(Errno::INVAL);
        }
        let size = usize::try_from(fs::size_of(&stat).min(most)).unwrap_or_default();
        let mut bytes = Vec::with_capacity(size);
        let read = file.take(most).read_to_end(&mut bytes);
        read.map_err(|source| Errno::from_io_error(&source).unwrap_or(Errno::IO))?;
        Ok((bytes, stat))
    }
}

/// Returns true if every byte equals that of one side at its offset, or is a zero from a power failure, and the length
/// lies between the two.
fn is_mix(now: &[u8], old: &[u8], new: &[u8]) -> bool {
    let lengths = old.len().min(new.len())..=old.len().max(new.len());
    let is_known = |(place, byte): (usize, &u8)| {
        *byte == 0 || old.get(place) == Some(byte) || new.get(place) == Some(byte)
    };
    lengths.contains(&now.len()) && now.iter().enumerate().all(is_known)
}

impl Change<'_> {
    /// Copies everything that moves to another mount, or everything that moves if a mount has refused a rename. Notes the
    /// copy's location in each move.
    ///
    /// # Errors
    /// Returns `not_a_regular_file` if something cannot be copied, `stale_file` if it changes meanwhile, or the OS
    /// error.
    pub(in crate::engine) fn copy_across(
        &mut self,
        state: &State,
        ways: &ParentFolders,
    ) -> Result<(), Error> {
        let workspace = &self.engine.workspace;
        let stage = StagingFolder::new(workspace, state, &self.entry.id)?;
        let stage = if self.stays_in_folders { stage.stage_next_to_targets() } else { stage };
        let executor = Executor { workspace, state };
        let folder_for = |at: &Location, nearest: Option<&WorkspacePath>| match (at, nearest) {
            (Location::File(_), Some(nearest)) => stage.folder_for(nearest, true),
            _ => Ok(stage.state_staging_folder()),
        };
        let leaving = self.folders.leaving();
        for (number, moved) in self.moves.iter_mut().enumerate() {
            let shown = moved.from.to_string();
            let io = |errno: Errno| Error::io("move", shown.clone(), errno);
            let parents = [&moved.from, &moved.to].map(|at| at.parent().unwrap_or_else(|| at.clone()));
            let [old, new] = &parents;
            let nearest = ways.nearest.get(&new.from_root(state.path()));
            let (source, name) = executor.folder_of(&moved.from).map_err(io)?;
            let (copies, target) = folder_for(&moved.to, nearest)?;
            let is_near = fs::mount_of(&source).map_err(io)? == fs::mount_of(&target).map_err(io)?;
            if is_near && !self.stays_in_folders {
                continue;
            }
            let copy = stage.name_in(&copies, &format!("copy-{number}"));
            let new_name = copy.path().name().unwrap_or_default().to_owned();
            let copied = copied((source.as_fd(), name), (target.as_fd(), &new_name));
            let stat = copied.map_err(|fault| {
                let _ = removal::remove(target.as_fd(), &new_name);
                fault.into_error(&shown)
            })?;
            let (gone, _) = folder_for(&moved.from, Some(&staging_parent(workspace, old.path(), &leaving)))?;
            let gone = stage.name_in(&gone, &format!("gone-{number}"));
            moved.across = Some(CrossMountMove { copy, thing: Thing::of(&stat), gone });
        }
        Ok(())
    }
}

/// Returns the nearest folder on the same mount, at or above the given one, that is not removed: a staged file would
/// keep a folder from being removed.
fn staging_parent(
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

/// Copies a name in one folder to a name in another, on any file system; `shown` is its path for messages.
///
/// # Errors
/// As [`Change::copy_across`]; nothing is left at the new name then.
pub fn copy(from: (BorrowedFd<'_>, &OsStr), to: (BorrowedFd<'_>, &OsStr), shown: &str) -> Result<(), Error> {
    copied(from, to).map(drop).map_err(|fault| {
        let _ = removal::remove(to.0, to.1);
        fault.into_error(shown)
    })
}

/// Removes the originals once a change is applied, or the copies if it failed.
pub(in crate::engine) fn clear(executor: Executor<'_>, moves: &[Move], stands: bool) {
    for across in moves.iter().filter_map(|moved| moved.across.as_ref()) {
        let at = if stands { &across.gone } else { &across.copy };
        if let Ok((folder, name)) = executor.folder_of(at) {
            // Best effort: the next change removes leftovers.
            let _ = removal::remove(folder.as_fd(), name);
        }
    }
}

/// Reason why something could not be copied.
enum CopyFault {
    /// OS error.
    Io(std::io::Error),
    /// A device, or a folder with another mount in it.
    Kind(PathBuf),
    /// Changed meanwhile, or the copy differs.
    Changed(PathBuf),
}

impl<E: Into<std::io::Error>> From<E> for CopyFault {
    fn from(source: E) -> Self {
        Self::Io(source.into())
    }
}

impl CopyFault {
    /// Returns the error for a failed move of `shown`.
    fn into_error(self, shown: &str) -> Error {
        let inner = |path: &Path| {
            // The refused entry may be the whole of the move.
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

/// An entry to copy.
struct EntryToCopy {
    /// Source folder.
    from: Rc<OwnedFd>,
    /// Name in the source folder.
    name: OsString,
    /// Target folder.
    to: Rc<OwnedFd>,
    /// Name in the target folder.
    new: OsString,
    /// Path below the top of the copy.
    path: PathBuf,
}

/// Copies a name in one folder to a name in another, with mode, owner, attributes and times; reads all of the copy
/// again and syncs it. Returns the identity of the copy.
fn copied(
    (from, name): (BorrowedFd<'_>, &OsStr),
    (to, new): (BorrowedFd<'_>, &OsStr),
) -> Result<Stat, CopyFault> {
    let mount = fs::mount_of(from)?;
    let (source, target) = (Rc::new(from.try_clone_to_owned()?), Rc::new(to.try_clone_to_owned()?));
    let mut waiting = vec![EntryToCopy {
        from: source,
        name: name.to_owned(),
        to: target,
        new: new.to_owned(),
        path: PathBuf::new(),
    }];
    let mut seen: BTreeMap<PathBuf, Stat> = BTreeMap::new();
    let mut folders: Vec<(OwnedFd, Rc<OwnedFd>, Stat)> = Vec::new();
    while let Some(EntryToCopy { from, name, to, new, path }) = waiting.pop() {
        let entry = fs::NamedEntry::at(from.as_fd(), &name)?;
        let stat = entry.stat()?;
        seen.insert(path.clone(), stat);
        if fs::is_symlink(&stat) {
            fs::create_link_at(to.as_fd(), &new, &entry.target()?)?;
        } else if fs::is_regular(&stat) {
            copy_file((from.as_fd(), &name), (to.as_fd(), &new), &path)?;
        } else if fs::is_folder(&stat) && fs::mount_of(entry.into_folder()?)? == mount {
            rustix::io::retry_on_intr(|| rustix::fs::mkdirat(&to, &new, Mode::RWXU))?;
            let inner = fs::open_at(to.as_fd(), &new, fs::FOLDER)?;
            let source = Rc::new(fs::open_at(from.as_fd(), &name, fs::FOLDER)?);
            let target = Rc::new(fs::open_at(inner.as_fd(), OsStr::new("."), fs::FOLDER)?);
            for name in fs::names_in(&source)? {
                let path = path.join(&name);
                let (from, to) = (Rc::clone(&source), Rc::clone(&target));
                waiting.push(EntryToCopy { from, new: name.clone(), name, to, path });
            }
            folders.push((inner, source, stat));
        } else if SpecialFile::can_be_made(fs::type_of(&stat)) {
            executor::make(to.as_fd(), &new, fs::type_of(&stat), fs::mode_of(&stat))?;
        } else {
            return Err(CopyFault::Kind(path));
        }
    }
    for (copy, source, stat) in folders.iter().rev() {
        let known = metadata::Identity::of(source.as_fd(), stat);
        metadata::set_metadata(copy, Some(fs::mode_of(stat)), known.as_ref())?;
        rustix::fs::futimens(copy, &metadata::times_of(stat))?;
        platform::sync(copy)?;
    }
    must_be_unchanged(from, name, &seen)?;
    platform::sync(to).or_else(ignore_path_only)?;
    Ok(fs::stat_at(to, new)?)
}

/// Ignores the error for a folder that was opened only to change names and cannot be synced; the change syncs it later.
fn ignore_path_only(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::BADF { Ok(()) } else { Err(errno) }
}

/// Copies a file, and reads the copy again.
fn copy_file(
    (from, name): (BorrowedFd<'_>, &OsStr),
    (to, new): (BorrowedFd<'_>, &OsStr),
    path: &Path,
) -> Result<(), CopyFault> {
    let source = File::from(fs::open_at(from, name, fs::READ)?);
    let stat = rustix::fs::fstat(&source)?;
    let copy = fs::create_at(to, new, 0o600)?;
    let (mut hasher, mut bytes) = (Hasher::default(), 0_u64);
    fs::copy_file(&source, &copy, |read| {
        bytes += read.len() as u64;
        hasher.update(read);
        if bytes > CHANGED_FILE_BYTES_MAX { Err(Errno::FBIG.into()) } else { Ok(()) }
    })?;
    metadata::apply_original(&copy, Some((&stat, &source)), None, None, &mut Vec::new())?;
    rustix::fs::futimens(&copy, &metadata::times_of(&stat))?;
    copy.sync_all()?;
    let again = crate::engine::workspace::digest::sha256_of(File::from(fs::open_at(to, new, fs::READ)?))?;
    if again != hasher.finish() || !fs::is_unchanged(&stat, &rustix::fs::fstat(&source)?) {
        return Err(CopyFault::Changed(path.to_owned()));
    }
    Ok(())
}

/// Fails if others have changed the source since it was copied.
fn must_be_unchanged(
    from: BorrowedFd<'_>,
    name: &OsStr,
    seen: &BTreeMap<PathBuf, Stat>,
) -> Result<(), CopyFault> {
    for (path, then) in seen {
        let full = WorkspacePath::new(&Path::new(name).join(path)).ok_or(Errno::INVAL)?;
        let now = fs::stat_beneath(from, &full);
        if !now.is_ok_and(|now| fs::is_unchanged(then, &now)) {
            return Err(CopyFault::Changed(path.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_mix;

    #[test]
    fn half_written_file_mixes_old_and_new_bytes() {
        for (now, old, new, is_it) in [
            ("new.old", "old.old", "new.new", true),
            ("old.new", "old.old", "new.new", true),
            ("ab", "a", "abc", true),
            ("abX", "a", "abc", false),
            ("abcd", "a", "abc", false),
            ("a", "abc", "ab", false),
            ("a\0c", "abc", "xyz", true),
        ] {
            assert_eq!(is_mix(now.as_bytes(), old.as_bytes(), new.as_bytes()), is_it, "{now}");
        }
    }
}
