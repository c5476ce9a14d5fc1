//! The snapshot branch: finds it, checks that it is free, and moves it.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{io, thread};

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice as _};
use gix::refs::FullName;
use rustix::io::Errno;

use super::commit_builder;
use super::dir::Dir;
use super::refs::{self, LogLine, RefLock, RefTarget};
use super::repo::{HEADS, Repo};
use super::{ErrorContext as _, SnapshotError};
use crate::engine::workspace::fs::{
    is_folder, is_regular, is_same_file, is_symlink, mode_of, process_id, size_of, user_id,
};
use crate::limits::ANY_REF_BYTES_MAX;
use crate::sha256::Sha256;

/// Default name of the snapshot branch.
pub const BRANCH_DEFAULT: &str = "lbx-snapshots";
/// Number of tries to take a lock that someone holds.
const LOCK_TRIES: u32 = 100;
/// Sleep between two tries.
const LOCK_NAP: Duration = Duration::from_millis(10);
/// Longest content of a lock that is read, in bytes: a SHA-256 id and a line feed.
const LOCK_BYTES_MAX: u64 = 65;
/// Most linked worktrees whose HEAD is read.
const WORKTREES_MAX: usize = 10_000;

/// Branch that gets the snapshots.
#[derive(Debug)]
pub struct Branch {
    /// Full name, `refs/heads/…`.
    name: FullName,
    /// True if its name is not the default.
    is_configured: bool,
}

/// Result of an attempt to move the branch.
#[derive(Debug, PartialEq, Eq)]
pub enum BranchMove {
    /// It moved, durably.
    Yes,
    /// Someone else had moved it in between.
    Overtaken,
}

impl Branch {
    /// Returns the branch `name`, or `name-WORKTREE` for a linked worktree.
    pub fn new(name: &str, worktree: Option<&OsStr>) -> Result<Self, SnapshotError> {
        Ok(Self { name: full_name(name, worktree)?, is_configured: name != BRANCH_DEFAULT })
    }

    /// Returns the full name, which is also the path of the loose reference in the repository.
    pub fn full_name(&self) -> String {
        self.name.as_bstr().to_string()
    }

    /// Returns the short name.
    pub fn short_name(&self) -> String {
        self.name.shorten().to_string()
    }

    /// Returns the commit of the branch; `None` if the branch does not exist yet.
    ///
    /// # Errors
    /// Fails for a symbolic reference: its target is not lbx's to move.
    pub fn tip(&self, repo: &Repo) -> Result<Option<ObjectId>, SnapshotError> {
        match refs::find(repo, self.name.as_ref()) {
            Ok(None) => Ok(None),
            Ok(Some(RefTarget::Id(id))) => Ok(Some(id)),
            Ok(Some(RefTarget::Symbolic(_))) => Err(self.refused("is a symbolic reference to another")),
            Err(error) => match refs::stat(repo, &self.full_name()).context(|| self.unreadable())? {
                Some(stat) if is_symlink(&stat) => Err(self.refused("is a symbolic link")),
                Some(stat) if !is_regular(&stat) && !is_folder(&stat) => {
                    Err(self.refused("is not a regular file"))
                }
                _ => Err(error).context_redacted(|| self.unreadable()),
            },
        }
    }

    /// Returns the bytes of its file, unparsed; `None` if there is no file.
    ///
    /// # Errors
    /// Fails if it is reached through a link, is not a regular file, or is larger than any reference.
    pub fn raw(&self, repo: &Repo) -> Result<Option<Vec<u8>>, SnapshotError> {
        repo.common().read(self.full_name(), ANY_REF_BYTES_MAX).context_redacted(|| self.unreadable())
    }

    /// Returns the message for a branch that cannot be read.
    fn unreadable(&self) -> String {
        format!("the snapshot branch `{}` cannot be read", self.short_name())
    }

    /// Fails if the branch is checked out, here, where HEAD names `head`, or in another worktree.
    pub fn check_free(&self, repo: &Repo, head: Option<&RefTarget>) -> Result<(), SnapshotError> {
        let is_linked = repo.common().path() != repo.head_folder().path();
        let mut is_head = matches!(head, Some(RefTarget::Symbolic(name)) if *name == self.name);
        is_head |= is_linked && self.is_head_of(repo.common());
        if let Ok(Some(worktrees)) = repo.common().folder("worktrees") {
            let names = worktrees.names().context(|| "the linked worktrees cannot be listed".into())?;
            if names.len() > WORKTREES_MAX {
                return Err(SnapshotError::new("there are too many linked worktrees"));
            }
            let linked = |name| worktrees.folder(name).ok().flatten();
            is_head |= names.iter().filter_map(linked).any(|worktree| self.is_head_of(&worktree));
        }
        if is_head { Err(self.refused("is checked out")) } else { Ok(()) }
    }

    /// Returns true if the HEAD in `folder` is on this branch.
    fn is_head_of(&self, folder: &Dir) -> bool {
        let content = folder.read("HEAD", ANY_REF_BYTES_MAX).ok().flatten().unwrap_or_default();
        content.strip_prefix(b"ref:").is_some_and(|rest| rest.trim() == self.name.as_bstr().as_bytes())
    }

    /// Fails if the branch is configured and its newest commit is not a snapshot: then it is someone's own. The branch
    /// of the default name is lbx's, whatever commits are on it.
    pub fn check_ours(&self, repo: &Repo, tip: Option<ObjectId>) -> Result<(), SnapshotError> {
        let Some(tip) = tip.filter(|_| self.is_configured) else {
            return Ok(());
        };
        let commit = repo.find_commit(tip).context(|| format!("the commit {tip} cannot be read"))?;
        let text = commit.message_raw().context(|| format!("the commit {tip} is damaged"))?;
        match commit_builder::parse_trailers(text) {
            Some(_) => Ok(()),
            None => Err(self.refused("holds commits that are not snapshots")),
        }
    }

    /// Fails if the name of a new branch is a folder of others, or lies below one.
    ///
    /// Packed references would allow both, and the repository could then not be cloned any more.
    pub fn check_room(&self, repo: &Repo) -> Result<(), SnapshotError> {
        let doing = || "the references cannot be read".into();
        let below = format!("{}/", self.name.as_bstr());
        let packed = repo.packed_refs()?;
        let is_packed = match &packed {
            Some(packed) => {
                packed.iter_prefixed(below.as_str().into()).context_redacted(doing)?.next().is_some()
            }
            None => false,
        };
        let (files, outcome) = refs::files_below(repo.common(), &self.full_name());
        if files.is_empty() {
            outcome.context(doing)?;
        }
        if is_packed || !files.is_empty() {
            return Err(self.refused("conflicts with branches whose names continue it after a slash"));
        }
        let name = self.name.as_bstr();
        let parents = name.char_indices().filter(|(_, _, c)| *c == '/').map(|(at, _, _)| name.get(..at));
        for parent in parents.flatten().filter(|parent| parent.len() > HEADS.len()) {
            let parent = FullName::try_from(BStr::new(parent))
                .context(|| "the name of a branch is not valid".into())?;
            if refs::find(repo, parent.as_ref())?.is_some() {
                return Err(self.refused(&format!("conflicts with the branch `{}`", parent.shorten())));
            }
        }
        Ok(())
    }

    /// Moves the branch from `from` to `to`, under git's own lock for it.
    ///
    /// The objects must be durable already. Takes only this one lock, never that of `packed-refs`, so a killed call
    /// leaves nothing that could stop the user's git elsewhere.
    pub fn advance(
        &self,
        repo: &Repo,
        from: Option<ObjectId>,
        to: ObjectId,
        log: &LogLine,
    ) -> Result<BranchMove, SnapshotError> {
        self.write_and_put(repo, (from, to), log, || Ok(self.tip(repo)? == from))
    }

    /// Moves the branch to `to` even if its file is damaged or missing: from `from`, if known.
    ///
    /// The objects must be durable already, and the caller holds lbx's lock.
    pub fn replace(
        &self,
        repo: &Repo,
        from: Option<ObjectId>,
        to: ObjectId,
        log: &LogLine,
    ) -> Result<(), SnapshotError> {
        self.write_and_put(repo, (from, to), log, || Ok(true)).map(drop)
    }

    /// Writes a value, durably, and makes it the branch's if `is_expected` agrees then.
    fn write_and_put(
        &self,
        repo: &Repo,
        (from, to): (Option<ObjectId>, ObjectId),
        log: &LogLine,
        is_expected: impl FnOnce() -> Result<bool, SnapshotError>,
    ) -> Result<BranchMove, SnapshotError> {
        // It may be any commit of the developer's, so the content of the lock does not show its owner.
        let value = RefUpdate::write_own(repo, to).context(|| self.cannot_move())?;
        value.file.sync_all().context(|| self.cannot_move())?;
        let folder = self.publish_if(repo, (from, &value), log, is_expected)?;
        let Some(folder) = folder else { return Ok(BranchMove::Overtaken) };
        folder.sync().context(|| format!("cannot sync `{}`", folder.path().display()))?;
        Ok(BranchMove::Yes)
    }

    /// Writes the branch's new value to a temporary file, for the caller to sync.
    pub fn write_value(&self, repo: &Repo, to: ObjectId) -> Result<RefUpdate, SnapshotError> {
        RefUpdate::write(repo, &self.full_name(), to).context(|| self.cannot_move())
    }

    /// Moves the branch from `from` to a durable value. Returns the folder to sync; `None` if someone else had moved
    /// the branch.
    pub fn move_to(
        &self,
        repo: &Repo,
        from: Option<ObjectId>,
        value: &RefUpdate,
        log: &LogLine,
    ) -> Result<Option<Arc<Dir>>, SnapshotError> {
        self.publish_if(repo, (from, value), log, || Ok(self.tip(repo)? == from))
    }

    /// Makes a durable value the branch's, under git's lock, if `is_expected` agrees then; returns the folder to sync.
    fn publish_if(
        &self,
        repo: &Repo,
        (from, value): (Option<ObjectId>, &RefUpdate),
        log: &LogLine,
        is_expected: impl FnOnce() -> Result<bool, SnapshotError>,
    ) -> Result<Option<Arc<Dir>>, SnapshotError> {
        let path = self.full_name();
        let parent = Path::new(&path).parent().unwrap_or(Path::new(HEADS));
        let doing = || {
            format!(
                "`{}` cannot be opened as a folder of its own",
                repo.common().path().join(parent).display()
            )
        };
        let folder = match repo.heads().filter(|_| parent == Path::new(HEADS)) {
            Some(heads) => Arc::clone(heads),
            None => Arc::new(repo.common().make_folder(parent).context(doing)?),
        };
        let mut lock = self.lock(repo, &folder, value)?;
        if !is_expected()? {
            return Ok(None);
        }
        self.put(repo, &lock)?;
        lock.held = false;
        drop(lock);
        // The line that git would write.
        refs::append_log(repo, repo.common(), &path, (from, value.to), log);
        Ok(Some(folder))
    }

    /// Returns the nearest folder of its file that exists.
    pub fn folder(&self, repo: &Repo) -> Option<Dir> {
        let name = self.full_name();
        Path::new(&name).ancestors().skip(1).find_map(|folder| repo.common().folder(folder).ok()?)
    }

    /// Returns the message for a branch that cannot be moved.
    fn cannot_move(&self) -> String {
        format!("cannot move the snapshot branch `{}`", self.short_name())
    }

    /// Renames the locked value over the reference.
    fn put(&self, repo: &Repo, lock: &BranchLock<'_>) -> Result<(), SnapshotError> {
        let (folder, name) = (lock.folder, self.last_name());
        let doing = || self.cannot_move();
        let is_there = folder.stat(name).is_ok_and(|stat| stat.is_some_and(|stat| is_regular(&stat)));
        // A file that the exchange leaves under the lock's name has no second name that shows its owner.
        if is_there && !lock.is_own && folder.exchange(lock.name.as_ref(), name.as_ref()).is_ok() {
            if folder.rename(&lock.name, repo.objects_folder(), SPARE).is_err() {
                let _ = folder.remove(&lock.name);
            }
            return Ok(());
        }
        match folder.rename(&lock.name, folder, name) {
            // Former branches below this name may have left an empty folder.
            Err(Errno::ISDIR) => {
                folder.remove_folder(name).context(doing)?;
                folder.rename(&lock.name, folder, name).context(doing)
            }
            other => other.context(doing),
        }
    }

    /// Takes the lock with a value in it; waits up to a second for another holder.
    fn lock<'f>(
        &self,
        repo: &Repo,
        folder: &'f Dir,
        value: &RefUpdate,
    ) -> Result<BranchLock<'f>, SnapshotError> {
        let name = format!("{}.lock", self.last_name());
        let shown = folder.path().join(&name).display().to_string();
        let doing = || format!("cannot lock the snapshot branch by `{shown}`");
        let held = |name| BranchLock { folder, name, held: true, is_own: value.own.is_some() };
        for _ in 0..LOCK_TRIES {
            match value.place(repo, folder, &name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !refs::break_stale_lock(repo, folder, name.as_ref()) {
                        thread::sleep(LOCK_NAP);
                    }
                }
                other => return other.context(doing).map(|()| held(name)),
            }
        }
        if !is_ours(repo, folder, &name) {
            return Err(self.refused(&format!("is locked by `{shown}`; if no git runs, delete that file")));
        }
        // The caller holds lbx's own lock, so the process that took this one is dead.
        folder.remove(&name).context(doing)?;
        value.place(repo, folder, &name).context(doing)?;
        Ok(held(name))
    }

    /// Returns the last component of its name.
    fn last_name(&self) -> &str {
        let name = self.name.as_bstr().to_str().unwrap_or_default();
        name.rsplit('/').next().unwrap_or_default()
    }

    /// Returns an error about this branch.
    fn refused(&self, why: &str) -> SnapshotError {
        SnapshotError::new(format!("the branch `{}` {why}", self.short_name()))
    }
}

/// A held lock; released on drop.
struct BranchLock<'f> {
    /// The folder of the reference.
    folder: &'f Dir,
    /// The name of the lock.
    name: String,
    /// True if the lock file still exists; false once it became the reference.
    held: bool,
    /// True if the lock has a second name that marks it as lbx's.
    is_own: bool,
}

impl Drop for BranchLock<'_> {
    fn drop(&mut self) {
        if self.held {
            let _ = self.folder.remove(&self.name);
        }
    }
}

/// Returns true if a lock holds the id of a snapshot: no git program ever writes one.
fn is_ours(repo: &Repo, folder: &Dir, name: &str) -> bool {
    let Ok(Some(content)) = folder.read(name, LOCK_BYTES_MAX) else { return false };
    let id = ObjectId::from_hex(content.trim()).ok();
    let commit = id.and_then(|id| repo.find_commit(id).ok());
    commit.is_some_and(|commit| {
        commit.message_raw().is_ok_and(|text| commit_builder::parse_trailers(text).is_some())
    })
}

/// A new value of the branch, written but not yet in place. Its file is removed on drop.
#[derive(Debug)]
pub struct RefUpdate {
    /// The value.
    to: ObjectId,
    /// Folder of objects, which has its file.
    objects: Arc<Dir>,
    /// Name of its file there; empty if `own` has it.
    name: String,
    /// True once the file has left that folder.
    is_placed: Cell<bool>,
    /// Content of the file.
    content: String,
    /// The file, to be synced.
    pub file: File,
    /// Second name that marks the lock as lbx's, if its content may not.
    own: Option<RefLock>,
}

impl RefUpdate {
    /// Writes a value to a temporary file, for the caller to sync; `reference` is its destination.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn write(repo: &Repo, reference: &str, to: ObjectId) -> io::Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        // First under a temporary name, so that the lock never exists without showing its owner. `git gc` removes
        // such files if a call is killed.
        let name = format!("tmp_lbx_ref_{}_{}", process_id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let content = format!("{to}\n");
        let reused_name = format!("{name}_over");
        let (name, file) = if let Some(file) = reuse(repo, reference, &reused_name, content.as_bytes()) {
            (reused_name, file)
        } else {
            let file = repo.objects_folder().write_new(&name, 0o666, content.as_bytes())?;
            (name, file)
        };
        let objects = Arc::clone(repo.objects_folder());
        Ok(Self { to, objects, name, is_placed: Cell::new(false), content, file, own: None })
    }

    /// Writes a value whose lock shows that it is lbx's, whatever the value is.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn write_own(repo: &Repo, to: ObjectId) -> io::Result<Self> {
        let own = RefLock::new(repo, None)?;
        let content = format!("{to}\n");
        (&own.file).write_all(content.as_bytes())?;
        let file = own.file.try_clone()?;
        let objects = Arc::clone(repo.objects_folder());
        let (name, is_placed) = (String::new(), Cell::new(true));
        Ok(Self { to, objects, name, is_placed, content, file, own: Some(own) })
    }

    /// Returns the value.
    pub fn to(&self) -> ObjectId {
        self.to
    }

    /// Renames it to `name` in `to` unless that exists.
    pub fn place(&self, repo: &Repo, to: &Dir, name: &str) -> io::Result<()> {
        if let Some(own) = &self.own {
            return if own.place(repo, to, name)? {
                Ok(())
            } else {
                write_new(to, name, &self.content)?.sync_all()
            };
        }
        match self.objects.rename_new(&self.name, to, name) {
            Ok(()) => {
                self.is_placed.set(true);
                Ok(())
            }
            // Not every file system has this rename, and `objects` may be on another one.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::XDEV) => {
                write_new(to, name, &self.content)?.sync_all()
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for RefUpdate {
    fn drop(&mut self) {
        if !self.is_placed.get() {
            let _ = self.objects.remove(&self.name);
        }
    }
}

/// Name of the file of an earlier value, in the folder of objects. The next value is written over it: to free a file takes
/// as long as the rest of the move, a tenth of a small change. `git gc` may remove it at any time.
const SPARE: &str = "tmp_lbx_ref_spare";
/// Permission bits of such a file, at most.
const ONLY_OWNER_WRITES: u32 = 0o644;

/// Takes the file of an earlier value for a new one; `None` if no file is safe to reuse.
fn reuse(repo: &Repo, reference: &str, name: &str, content: &[u8]) -> Option<File> {
    let folder = repo.objects_folder();
    // Under a name of its own first: another process may look for it as well.
    folder.rename(SPARE, folder, name).ok()?;
    let written = || -> io::Result<Option<File>> {
        let file = folder.open_over(name)?;
        let stat = rustix::fs::fstat(&file)?;
        let current = refs::stat(repo, reference)?;
        // A clone may bring such a file: with a second name it is somebody's, and others may write to it. A power
        // failure may leave the branch itself under this name.
        let is_ours = stat.st_uid == user_id() && mode_of(&stat) & !ONLY_OWNER_WRITES == 0;
        let is_safe = is_regular(&stat)
            && is_ours
            && stat.st_nlink == 1
            && size_of(&stat) == content.len() as u64
            && current.is_none_or(|current| !is_same_file(&current, &stat));
        if is_safe {
            folder.share(&file)?;
            file.write_all_at(content, 0)?;
        }
        Ok(is_safe.then_some(file))
    };
    let file = written().ok().flatten();
    if file.is_none() {
        let _ = folder.remove(name);
    }
    file
}

/// Writes a file that must not exist yet.
fn write_new(folder: &Dir, name: &str, content: &str) -> io::Result<File> {
    let mut file = folder.create(name, 0o666)?;
    file.write_all(content.as_bytes())?;
    Ok(file)
}

/// Longest worktree name that a branch name holds in full, in bytes.
const WORKTREE_BYTES_MAX: usize = 150;
/// Characters kept of a longer name.
const WORKTREE_CHARS_KEPT: usize = 40;

/// Returns the full name of the branch `name`, unchanged if it is full already; `name-WORKTREE` for a linked worktree.
/// # Errors
/// Fails if git rejects the branch name.
pub fn full_name(name: &str, worktree: Option<&OsStr>) -> Result<FullName, SnapshotError> {
    let named = |dots| {
        let suffix = worktree.map(|worktree| format!("-{}", worktree_name(worktree, dots)));
        format!("{name}{}", suffix.unwrap_or_default())
    };
    let full = |name: String| if name.starts_with("refs/") { name } else { format!("refs/heads/{name}") };
    FullName::try_from(full(named(DotRule::Allowed)))
        .or_else(|_| FullName::try_from(full(named(DotRule::Escaped))))
        .context(|| format!("`{}` cannot be the name of a branch", named(DotRule::Allowed)))
}

/// Treatment of the dots in a worktree's name: git allows them only in some places of a branch name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DotRule {
    /// Dots stay.
    Allowed,
    /// Dots are written as `%2E`.
    Escaped,
}

/// Returns a worktree's name as part of a branch name. Writes invalid characters, and `%`, as `%XX`, so that no two
/// worktrees share a branch. Cuts a very long name and appends its SHA-256.
fn worktree_name(name: &OsStr, dots: DotRule) -> String {
    let is_plain = |c: char| {
        c.is_alphanumeric() && c != char::REPLACEMENT_CHARACTER
            || matches!(c, '-' | '_')
            || (c == '.' && dots == DotRule::Allowed)
    };
    let mut written = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_plain(c) {
                written.push(c);
            } else {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escape(byte, &mut written));
            }
        }
        chunk.invalid().iter().for_each(|byte| escape(*byte, &mut written));
    }
    if written.len() <= WORKTREE_BYTES_MAX {
        return written;
    }
    let kept: String = written.chars().take(WORKTREE_CHARS_KEPT).collect();
    // No other name has `%%`.
    format!("{}%%{}", kept.trim_end_matches('.'), Sha256::of(name.as_bytes()))
}

/// Writes a byte as `%XX`.
fn escape(byte: u8, written: &mut String) {
    let _ = write!(written, "%{byte:02X}");
}
