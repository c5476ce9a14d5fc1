//! References, their logs and their locks, read beneath opened folders.
//!
//! Refuses a reference that is a link, a FIFO or too large, and never quotes its content.
//!
//! Locks are taken as git takes them, by a file `….lock` that must not exist yet. A lock of lbx's also has a second
//! name among the objects, and its holder keeps it locked (`flock`). After a kill, the second name shows that the lock
//! is lbx's, and the free `flock` shows that the call is dead, even if another process has its id by now. A file system
//! without hard links has neither: a lock left there looks like git's.
//!
//! A lock that goes with a commit, as that of an index does, has the commit's id in its second name. If HEAD is at that
//! commit, the call was killed between two renames, and the next call that finds the lock makes the second one.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::refs::{FullName, FullNameRef};
use rustix::fs::{FlockOperation, Stat};
use rustix::io::Errno;

use super::dir::Dir;
use super::repo::{HEADS, Repo};
use super::{ErrorContext as _, SnapshotError};
use crate::engine::workspace::fs::{is_folder, is_regular, is_same_file, process_id};
use crate::limits::{ANY_REF_BYTES_MAX, REF_FOLDERS_MAX};

/// Most symbolic references in a row; git stops there too.
const SYMBOLIC_MAX: usize = 5;
/// Most tags in a row that point to each other.
const TAGS_MAX: usize = 16;
/// Prefixes that git tries to complete a reference's name.
const PREFIXES: [&str; 5] = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
/// Prefixes of references that belong to a linked worktree.
const OF_WORKTREE: [&str; 3] = ["refs/bisect/", "refs/worktree/", "refs/rewritten/"];

/// Target of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefTarget {
    /// An object.
    Id(ObjectId),
    /// Another reference.
    Symbolic(FullName),
}

/// Returns the target of the reference `name`; `None` if it does not exist.
///
/// # Errors
/// Fails if it is not a reference, or cannot be read.
pub fn find(repo: &Repo, name: &FullNameRef) -> Result<Option<RefTarget>, SnapshotError> {
    let shown = || format!("the reference `{}`", name.as_bstr());
    let text = name.as_bstr().to_str().context(|| format!("{} cannot be read", shown()))?;
    let (folder, path) = path_in(repo, text);
    match folder.read(path, ANY_REF_BYTES_MAX) {
        Ok(None) => packed(repo, name),
        Ok(Some(bytes)) => target(repo, &bytes)
            .map(Some)
            .ok_or_else(|| SnapshotError::new(format!("{} is not in git's format", shown()))),
        Err(error) => match folder.stat(path) {
            // A folder of that name holds other references.
            Ok(Some(stat)) if is_folder(&stat) => packed(repo, name),
            // A name that is too long for a file can still be a packed one.
            Err(Errno::NOTDIR | Errno::NAMETOOLONG) => packed(repo, name),
            Err(errno) => Err(errno).context(|| format!("{} is reached through a link", shown())),
            Ok(_) => Err(error).context_redacted(|| format!("{} is not a regular file of its size", shown())),
        },
    }
}

/// Returns the stat of the file at the path of a reference.
///
/// # Errors
/// Returns the OS error; `ENOTDIR` or `ELOOP` if a link or a file is on the way.
pub fn stat(repo: &Repo, text: &str) -> Result<Option<Stat>, Errno> {
    let (folder, path) = path_in(repo, text);
    folder.stat(path)
}

/// Returns the target of a packed reference.
fn packed(repo: &Repo, name: &FullNameRef) -> Result<Option<RefTarget>, SnapshotError> {
    let doing = || "`packed-refs` is not in git's format".into();
    let Some(packed) = repo.packed_refs()? else { return Ok(None) };
    let found = packed.try_find(name).context_redacted(doing)?;
    Ok(found.map(|found| RefTarget::Id(found.target())))
}

/// Returns the folder of a reference, and its path from there.
fn path_in<'r, 't>(repo: &'r Repo, text: &'t str) -> (&'r Dir, &'t str) {
    let branch = text.strip_prefix(HEADS).and_then(|rest| rest.strip_prefix('/'));
    if let Some(branch) = branch.filter(|branch| !branch.contains('/'))
        && let Some(heads) = repo.heads()
    {
        return (heads, branch);
    }
    let is_own = !text.starts_with("refs/") || OF_WORKTREE.iter().any(|prefix| text.starts_with(prefix));
    (if is_own { repo.head_folder() } else { repo.common() }, text)
}

/// Parses the content of a reference.
fn target(repo: &Repo, bytes: &[u8]) -> Option<RefTarget> {
    if let Some(name) = bytes.strip_prefix(b"ref:") {
        return FullName::try_from(name.trim().as_bstr()).ok().map(RefTarget::Symbolic);
    }
    let id = bytes.split(u8::is_ascii_whitespace).next()?;
    ObjectId::from_hex(id).ok().filter(|id| id.kind() == repo.object_hash()).map(RefTarget::Id)
}

/// Returns the object of a reference; `None` if the reference does not exist, or has none.
///
/// # Errors
/// Fails if a reference on the way cannot be read.
pub fn resolve(repo: &Repo, name: &FullNameRef) -> Result<Option<ObjectId>, SnapshotError> {
    let mut name = name.to_owned();
    for _ in 0..SYMBOLIC_MAX {
        match find(repo, name.as_ref())? {
            None => return Ok(None),
            Some(RefTarget::Id(id)) => return Ok(Some(id)),
            Some(RefTarget::Symbolic(next)) => name = next,
        }
    }
    Err(SnapshotError::new("symbolic references form a loop"))
}

/// Parses the id of a commit from hex digits.
///
/// # Errors
/// Fails if it is not a full id.
pub fn commit_id(hex: &str) -> Result<ObjectId, SnapshotError> {
    ObjectId::from_hex(hex.as_bytes()).context(|| format!("`{hex}` is not a commit id"))
}

/// Returns the object `id`, or the object that it points to if it is a tag.
///
/// # Errors
/// Fails if an object cannot be read.
pub fn peeled(repo: &Repo, id: ObjectId) -> Result<ObjectId, SnapshotError> {
    let mut id = id;
    for _ in 0..TAGS_MAX {
        let tag = repo.find_object(id)?;
        if tag.kind != gix::objs::Kind::Tag {
            return Ok(id);
        }
        id = gix::objs::TagRefIter::from_bytes(&tag.data, repo.object_hash())
            .target_id()
            .context_redacted(|| format!("the tag {id} is damaged"))?;
    }
    Err(SnapshotError::new("tags form a loop"))
}

/// Returns the object of a short name, as git would find it; `None` if it does not exist.
///
/// # Errors
/// Fails if a candidate cannot be read.
pub fn resolve_short(repo: &Repo, name: &str) -> Result<Option<ObjectId>, SnapshotError> {
    for prefix in PREFIXES {
        let Ok(full) = FullName::try_from(format!("{prefix}{name}")) else { continue };
        // Files next to git's references are not references, whatever their names.
        let is_pseudo = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        if prefix.is_empty() && !name.starts_with("refs/") && !is_pseudo {
            continue;
        }
        if let Some(id) = resolve(repo, full.as_ref())? {
            return peeled(repo, id).map(Some);
        }
    }
    Ok(None)
}

/// Returns the commit at HEAD; `None` while HEAD is unborn.
///
/// # Errors
/// Fails if it cannot be read.
pub fn head(repo: &Repo) -> Result<Option<ObjectId>, SnapshotError> {
    let target = head_target(repo)?;
    head_as_named(repo, target.as_ref())?.map(|id| peeled(repo, id)).transpose()
}

/// Returns the target of HEAD.
///
/// # Errors
/// Fails if it cannot be read.
pub fn head_target(repo: &Repo) -> Result<Option<RefTarget>, SnapshotError> {
    let name = FullName::try_from("HEAD").context_redacted(|| "HEAD cannot be read".into())?;
    find(repo, name.as_ref()).context(|| "HEAD cannot be read".into())
}

/// Returns the object that HEAD names, given its `target`; `None` while HEAD is unborn.
///
/// # Errors
/// As [`head`].
pub fn head_as_named(repo: &Repo, target: Option<&RefTarget>) -> Result<Option<ObjectId>, SnapshotError> {
    match target {
        None => Ok(None),
        Some(RefTarget::Id(id)) => Ok(Some(*id)),
        Some(RefTarget::Symbolic(name)) => {
            resolve(repo, name.as_ref()).context(|| "the branch that HEAD is on cannot be read".into())
        }
    }
}

/// Longest log that is read, in bytes.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// Line about a move in a branch's log.
#[derive(Debug)]
pub struct LogLine {
    /// Subject of the commit, one line.
    pub subject: String,
    /// Time, in seconds since 1970.
    pub seconds: i64,
}

/// Writes a line to the log of a reference. A convenience, so errors are ignored.
pub fn append_log(
    repo: &Repo,
    holder: &Dir,
    reference: &str,
    (from, to): (Option<ObjectId>, ObjectId),
    log: &LogLine,
) {
    let last = reference.rsplit('/').next().unwrap_or_default();
    let path = format!("logs/{reference}");
    let config = repo.settings();
    let bare = config.boolean("core.bare").unwrap_or(false);
    let wanted = config.boolean("core.logAllRefUpdates").unwrap_or(!bare);
    let parent = Path::new(&path).parent().unwrap_or(Path::new("logs"));
    let log_file = match holder.append(&path) {
        Err(Errno::NOENT) if wanted => {
            holder.make_folder(parent).and_then(|folder| folder.create(last, 0o666))
        }
        // An existing log is continued, whatever the settings say.
        found => found,
    };
    if let Ok(mut file) = log_file {
        let from = from.unwrap_or_else(|| ObjectId::null(to.kind()));
        let line =
            format!("{from} {to} lbx <lbx@localhost> {} +0000\tcommit: {}\n", log.seconds, log.subject);
        let _ = file.write_all(line.as_bytes());
    }
}

/// Returns the values in a reference's log, newest first.
pub fn log_values(repo: &Repo, reference: &str) -> Vec<ObjectId> {
    let log = read_log(repo, reference).ok().flatten().unwrap_or_default();
    // `OLD NEW WHO TIME\tSUBJECT`; the first OLD is zero.
    log.lines().rev().filter_map(|line| ids_in(line).nth(1)?).filter(|id| !id.is_null()).collect()
}

/// Removes the lines of a log that name unreadable objects: git takes them for damage. Calls `keep` with the whole log
/// first; does nothing if all objects can be read.
///
/// # Errors
/// Returns the OS error, or the error of `keep`.
pub fn remove_unreadable_lines(
    repo: &Repo,
    reference: &str,
    keep: impl FnOnce(&[u8]) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    let doing = || format!("the log of `{reference}` cannot be written");
    let Some(log) = read_log(repo, reference).context(doing)? else { return Ok(()) };
    let is_readable =
        |id: Option<ObjectId>| id.is_some_and(|id| id.is_null() || repo.find_object(id).is_ok());
    let left: Vec<&[u8]> =
        log.lines_with_terminator().filter(|line| ids_in(line).take(2).all(is_readable)).collect();
    let left = left.concat();
    if left.len() == log.len() {
        return Ok(());
    }
    keep(&log)?;
    let path = format!("logs/{reference}");
    let parent = Path::new(&path).parent().unwrap_or(Path::new("logs"));
    let Some(folder) = repo.common().folder(parent).context(doing)? else { return Ok(()) };
    let aside = format!("tmp_lbx_log_{}", process_id());
    let objects = repo.objects_folder();
    let write = || -> io::Result<()> {
        objects.write_new(&aside, 0o666, &left)?.sync_all()?;
        objects.rename(&aside, &folder, reference.rsplit('/').next().unwrap_or_default())?;
        Ok(folder.sync()?)
    };
    let written = write();
    if written.is_err() {
        let _ = objects.remove(&aside);
    }
    written.context(doing)
}

/// Returns the bytes of a log.
fn read_log(repo: &Repo, reference: &str) -> io::Result<Option<Vec<u8>>> {
    repo.common().read(format!("logs/{reference}"), LOG_BYTES_MAX)
}

/// Returns the two values in a line of a log; `None` for an invalid id.
fn ids_in(line: &[u8]) -> impl Iterator<Item = Option<ObjectId>> + '_ {
    line.split(|byte| *byte == b' ').map(|hex| ObjectId::from_hex(hex).ok())
}

/// Prefix of the second names; `git gc` removes such files once they are old.
const LOCK_PREFIX: &str = "tmp_lbx_lock_";
/// Suffix of locks.
const LOCK_SUFFIX: &str = ".lock";

/// A file that can become a lock, under its second name. That name is removed on drop.
#[derive(Debug)]
pub struct RefLock {
    /// Folder of objects.
    objects: Arc<Dir>,
    /// Name there.
    name: String,
    /// File, locked with `flock`.
    pub file: File,
}

impl RefLock {
    /// Makes the file. If `commit` is given, the lock replaces its target once HEAD is at that commit, which it is not
    /// yet.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn new(repo: &Repo, commit: Option<ObjectId>) -> io::Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let end = commit.map(|commit| format!("_{commit}")).unwrap_or_default();
        let objects = Arc::clone(repo.objects_folder());
        let name = format!("{LOCK_PREFIX}{}_{}{end}", process_id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        // Left by a dead process that had this id.
        let _ = objects.remove(&name);
        let file = objects.create(&name, 0o666)?;
        let lock = Self { objects, name, file };
        match rustix::fs::flock(&lock.file, FlockOperation::NonBlockingLockExclusive) {
            // Without such locks the file is an ordinary one: nobody takes it for a dead call's.
            Ok(()) | Err(Errno::NOSYS | Errno::NOTSUP | Errno::INVAL | Errno::NOLCK) => Ok(lock),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes the lock `name` in `folder`, after settling one that a killed call left. Returns false if it cannot be
    /// tried: not every file system has hard links, and `folder` may be on another one.
    ///
    /// # Errors
    /// Returns `EEXIST` if someone else has the lock, or the OS error.
    pub fn place(&self, repo: &Repo, folder: &Dir, name: &str) -> Result<bool, Errno> {
        let mut placed = self.objects.link(&self.name, folder, name);
        if placed == Err(Errno::EXIST) && break_stale_lock(repo, folder, OsStr::new(name)) {
            placed = self.objects.link(&self.name, folder, name);
        }
        match placed {
            Ok(()) => Ok(true),
            Err(Errno::XDEV | Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::MLINK) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for RefLock {
    fn drop(&mut self) {
        let _ = self.objects.remove(&self.name);
    }
}

/// Removes the lock `name` if a dead call of lbx's left it, or puts it in place if its commit was made; returns true if
/// it did either.
pub fn break_stale_lock(repo: &Repo, folder: &Dir, name: &OsStr) -> bool {
    let objects = repo.objects_folder();
    let Some((second, file)) = dead_lock(objects, folder, name) else { return false };
    // While this call holds the `flock`, nobody else removes it: check once more.
    let is_it = || {
        let stands = folder.stat(name).ok().flatten().zip(rustix::fs::fstat(&file).ok());
        stands.is_some_and(|(stands, opened)| is_same_file(&stands, &opened))
    };
    let settle = || match place_of(repo, name, &second) {
        Some(place) => folder.rename(name, folder, place).is_ok(),
        None => folder.remove(name).is_ok(),
    };
    let is_settled = is_it() && settle();
    if is_settled {
        let _ = objects.remove(second);
    }
    is_settled
}

/// Returns the file that a dead call's lock replaces, if HEAD is at the commit in its second name. Nobody has replaced
/// the file since then: the lock was there.
fn place_of<'a>(repo: &Repo, name: &'a OsStr, second: &OsStr) -> Option<&'a str> {
    let place = name.to_str()?.strip_suffix(LOCK_SUFFIX)?;
    let commit = ObjectId::from_hex(second.to_str()?.rsplit_once('_')?.1.as_bytes()).ok()?;
    (head(repo).ok()? == Some(commit)).then_some(place)
}

/// Returns the locks that dead calls of lbx's left, as messages name them; with `settle`, removes them or puts them in
/// place.
pub fn stale_locks(repo: &Repo, settle: bool) -> Vec<String> {
    let objects = repo.objects_folder();
    if second_names(objects).is_empty() {
        return Vec::new();
    }
    let is_lock = |name: &OsStr| name.to_string_lossy().ends_with(LOCK_SUFFIX);
    let own = repo.head_folder().names().unwrap_or_default().into_iter().filter(|name| is_lock(name));
    let own = own.filter_map(|name| Some((Arc::new(repo.head_folder().folder(".").ok()??), name)));
    let common = [HEADS, "refs/lbx"].into_iter().flat_map(|top| files_below(repo.common(), top).0);
    let common = common.filter(|file| is_lock(&file.name)).map(|file| (file.folder, file.name));
    let dead = own.chain(common).filter(|(folder, name)| dead_lock(objects, folder, name).is_some());
    let settled = dead.filter(|(folder, name)| !settle || break_stale_lock(repo, folder, name));
    settled.map(|(folder, name)| folder.path().join(name).display().to_string()).collect()
}

/// A file below a folder.
pub struct FileBelow {
    /// Folder that has it.
    pub folder: Arc<Dir>,
    /// Its name there.
    pub name: OsString,
    /// Its path below the outermost folder, lossy.
    pub path: String,
}

/// Returns the files below the folder `top` of `holder`, and the first OS error. Opens no more than a bound of folders;
/// one beyond it counts as a file.
pub fn files_below(holder: &Dir, top: &str) -> (Vec<FileBelow>, Result<(), Errno>) {
    let (mut files, mut outcome, mut opened) = (Vec::new(), Ok(()), 0);
    let mut waiting = Vec::new();
    match holder.folder(top) {
        Ok(folder) => waiting.extend(folder.map(|folder| (Arc::new(folder), String::new()))),
        Err(Errno::NOTDIR) => {}
        Err(errno) => outcome = Err(errno),
    }
    while let Some((folder, at)) = waiting.pop() {
        opened += 1;
        let mut look = || -> Result<(), Errno> {
            for name in folder.names()? {
                let path = format!("{at}/{}", name.to_string_lossy());
                match folder.stat(&name)? {
                    Some(stat) if is_folder(&stat) && opened < REF_FOLDERS_MAX => {
                        waiting.extend(folder.folder(&name)?.map(|inner| (Arc::new(inner), path)));
                    }
                    Some(_) => files.push(FileBelow { folder: Arc::clone(&folder), name, path }),
                    None => {}
                }
            }
            Ok(())
        };
        outcome = outcome.and(look());
    }
    (files, outcome)
}

/// Returns the second name and the file of a lock if it is lbx's own and its holder is dead. While the file is open,
/// nobody else removes the lock.
fn dead_lock(objects: &Dir, folder: &Dir, name: &OsStr) -> Option<(OsString, File)> {
    let second = second_name(objects, folder, name)?;
    let file = folder.open_over(name).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some((second, file))
}

/// Returns the second name of a lock, if it is lbx's own.
fn second_name(objects: &Dir, folder: &Dir, name: &OsStr) -> Option<OsString> {
    let lock: Stat = folder.stat(name).ok().flatten().filter(|stat| is_regular(stat) && stat.st_nlink > 1)?;
    let is_it = |name: &OsString| {
        objects.stat(name).is_ok_and(|stat| stat.is_some_and(|stat| is_same_file(&stat, &lock)))
    };
    second_names(objects).into_iter().find(is_it)
}

/// Returns all second names.
fn second_names(objects: &Dir) -> Vec<OsString> {
    let names = objects.names().unwrap_or_default();
    names.into_iter().filter(|name| name.to_string_lossy().starts_with(LOCK_PREFIX)).collect()
}
