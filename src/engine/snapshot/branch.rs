//! The snapshot branch: finding it, making sure that it is free, moving it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice as _};
use gix::refs::{FullName, TargetRef};

use super::error::{Doing as _, SnapshotError};
use super::{BRANCH_DEFAULT, message, objects};

/// How often a lock that someone holds is tried again.
const LOCK_TRIES: u32 = 100;
/// The nap between two tries.
const LOCK_NAP: Duration = Duration::from_millis(10);
/// Longest content of a lock that is looked at, in bytes: an id of sha256 and a line feed.
const LOCK_BYTES_MAX: u64 = 65;

/// The branch that snapshots are put on.
#[derive(Debug)]
pub struct Branch {
    /// Its full name, `refs/heads/…`.
    name: FullName,
    /// The folder that has `refs`, `objects` and `logs`, shared by all worktrees.
    common_dir: PathBuf,
    /// Whether it has not the name of the default.
    is_configured: bool,
}

/// What came of an attempt to move the branch.
#[derive(Debug, PartialEq, Eq)]
pub enum Moved {
    /// It moved, and that is durable.
    Yes,
    /// Someone else had moved it in between.
    Overtaken,
}

impl Branch {
    /// The branch `name`, for a linked worktree `name-WORKTREE`.
    pub fn new(repo: &gix::Repository, name: &str, worktree: Option<&str>) -> Result<Self, SnapshotError> {
        let suffix = worktree.map(|worktree| format!("-{}", sanitised(worktree))).unwrap_or_default();
        let is_configured = name != BRANCH_DEFAULT;
        let name = FullName::try_from(format!("refs/heads/{name}{suffix}"))
            .or_else(|_| FullName::try_from(format!("refs/heads/{name}{}", suffix.replace('.', "-"))))
            .doing(|| format!("`{name}{suffix}` cannot be the name of a branch"))?;
        Ok(Self { name, common_dir: repo.common_dir().to_owned(), is_configured })
    }

    /// The short name, for messages.
    pub fn short_name(&self) -> String {
        self.name.shorten().to_string()
    }

    /// The commit that the branch is at; `None` where it is not there yet.
    ///
    /// # Errors
    /// A symbolic reference is refused: what it points to is not lbx's to move.
    pub fn tip(&self, repo: &gix::Repository) -> Result<Option<ObjectId>, SnapshotError> {
        if fs::symlink_metadata(self.loose()).is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(self.refused("is a symbolic link"));
        }
        let found = repo
            .try_find_reference(self.name.as_ref())
            .doing(|| format!("the snapshot branch `{}` cannot be read", self.short_name()))?;
        match found.as_ref().map(|reference| (reference.name(), reference.target())) {
            None => Ok(None),
            Some((name, _)) if name != self.name.as_ref() => Ok(None),
            Some((_, TargetRef::Object(id))) => Ok(Some(id.to_owned())),
            Some((_, TargetRef::Symbolic(target))) => {
                Err(self.refused(&format!("is a symbolic reference to `{}`", target.as_bstr())))
            }
        }
    }

    /// Refuses a branch that is checked out, here or in another worktree.
    pub fn check_free(&self, repo: &gix::Repository) -> Result<(), SnapshotError> {
        let linked = fs::read_dir(self.common_dir.join("worktrees")).into_iter().flatten().flatten();
        let heads =
            linked.map(|entry| entry.path()).chain([self.common_dir.clone(), repo.git_dir().to_owned()]);
        for folder in heads {
            if self.is_head_of(&folder) {
                return Err(self.refused("is checked out"));
            }
        }
        Ok(())
    }

    /// Whether the HEAD in `folder` is on this branch.
    fn is_head_of(&self, folder: &Path) -> bool {
        let path = folder.join("HEAD");
        if !fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            return false;
        }
        let content = fs::read(path).unwrap_or_default();
        content.strip_prefix(b"ref:").is_some_and(|rest| rest.trim() == self.name.as_bstr().as_bytes())
    }

    /// Refuses a configured branch whose newest commit is no snapshot: it is someone's own. The
    /// branch of the default name is lbx's, whatever was put on top of it.
    pub fn check_ours(&self, repo: &gix::Repository, tip: Option<ObjectId>) -> Result<(), SnapshotError> {
        let Some(tip) = tip.filter(|_| self.is_configured) else {
            return Ok(());
        };
        let commit = repo.find_commit(tip).doing(|| format!("the commit {tip} cannot be read"))?;
        let text = commit.message_raw().doing(|| format!("the commit {tip} is damaged"))?;
        match message::trailers(text) {
            Some(_) => Ok(()),
            None => Err(self.refused("holds commits that are no snapshots")),
        }
    }

    /// Refuses a new branch whose name is a folder of others, or lies below one.
    ///
    /// Packed references would allow both, and the repository could then not be cloned any more.
    pub fn check_room(&self, repo: &gix::Repository) -> Result<(), SnapshotError> {
        let below = format!("{}/", self.name.as_bstr());
        let platform = repo.references().doing(|| "the references cannot be read".into())?;
        let mut others =
            platform.prefixed(below.as_str()).doing(|| "the references cannot be read".into())?;
        if others.next().is_some() {
            return Err(self.refused("would lie in the way of the branches below it"));
        }
        let name = self.name.as_bstr();
        let parents = name.char_indices().filter(|(_, _, c)| *c == '/').map(|(at, _, _)| name.get(..at));
        for parent in parents.flatten().filter(|parent| parent.len() > "refs/heads".len()) {
            let parent = FullName::try_from(BStr::new(parent)).doing(|| "a branch name is odd".into())?;
            let found =
                repo.try_find_reference(parent.as_ref()).doing(|| "the references cannot be read".into())?;
            if found.is_some_and(|reference| reference.name() == parent.as_ref()) {
                return Err(self.refused(&format!("would lie below the branch `{}`", parent.shorten())));
            }
        }
        Ok(())
    }

    /// Moves the branch from `from` to `to`, under git's own lock for it.
    ///
    /// The objects must be durable already. Only this one lock is taken, never that of
    /// `packed-refs`, so that nothing a killed call leaves can stop the user's git elsewhere.
    pub fn advance(
        &self,
        repo: &gix::Repository,
        from: Option<ObjectId>,
        to: ObjectId,
        log: &LogLine,
    ) -> Result<Moved, SnapshotError> {
        let folder = self.loose().parent().map_or_else(|| self.common_dir.clone(), Path::to_owned);
        fs::create_dir_all(&folder).doing(|| format!("cannot make `{}`", folder.display()))?;
        let mut lock = self.lock(repo, to)?;
        if self.tip(repo)? != from {
            return Ok(Moved::Overtaken);
        }
        self.put(&lock)?;
        lock.held = false;
        objects::sync_folder(&folder).doing(|| format!("cannot sync `{}`", folder.display()))?;
        self.append_log(repo, from, to, log);
        Ok(Moved::Yes)
    }

    /// Puts the locked value in place of the reference.
    fn put(&self, lock: &Lock) -> Result<(), SnapshotError> {
        let loose = self.loose();
        let doing = || format!("cannot move the snapshot branch `{}`", self.short_name());
        match fs::rename(&lock.path, &loose) {
            // An empty folder may stay where branches below this name were.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                fs::remove_dir(&loose).doing(doing)?;
                fs::rename(&lock.path, &loose).doing(doing)
            }
            other => other.doing(doing),
        }
    }

    /// Takes the lock with `to` in it; waits a second for another holder.
    fn lock(&self, repo: &gix::Repository, to: ObjectId) -> Result<Lock, SnapshotError> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let path = self.with_suffix(".lock");
        // Written aside first, so that the lock never exists without saying whose it is. What a
        // killed call leaves under such a name, `git gc` clears away.
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("objects/tmp_lbx_ref_{}_{number}", std::process::id());
        let aside = Aside { path: self.common_dir.join(name), content: format!("{to}\n") };
        let taken = self.take(repo, &aside, &path);
        let _ = fs::remove_file(&aside.path);
        taken.map(|()| Lock { path, held: true })
    }

    /// Makes `aside` the lock at `path`.
    fn take(&self, repo: &gix::Repository, aside: &Aside, path: &Path) -> Result<(), SnapshotError> {
        let doing = || format!("cannot lock the snapshot branch by `{}`", path.display());
        let _ = fs::remove_file(&aside.path); // of a dead process that had this id
        write_new(&aside.path, &aside.content).doing(doing)?;
        for _ in 0..LOCK_TRIES {
            match aside.place(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => thread::sleep(LOCK_NAP),
                other => return other.doing(doing),
            }
        }
        if !is_ours(repo, path) {
            return Err(
                self.refused(&format!("is locked by `{}`; if no git runs, delete that file", path.display()))
            );
        }
        // The caller holds lbx's own lock, so the one that took this is dead.
        fs::remove_file(path).doing(doing)?;
        aside.place(path).doing(doing)
    }

    /// Writes the line that git would write to the branch's log; a convenience, so failure is silent.
    fn append_log(&self, repo: &gix::Repository, from: Option<ObjectId>, to: ObjectId, log: &LogLine) {
        let path =
            self.common_dir.join("logs").join(gix::path::from_bstr(self.name.as_bstr()).unwrap_or_default());
        let config = repo.config_snapshot();
        let bare = config.boolean("core.bare").unwrap_or(false);
        let wanted = config.boolean("core.logAllRefUpdates").unwrap_or(!bare);
        let is_file = fs::symlink_metadata(&path).map(|metadata| metadata.is_file());
        if is_file.unwrap_or(wanted) {
            let from = from.unwrap_or_else(|| ObjectId::null(to.kind()));
            let line =
                format!("{from} {to} lbx <lbx@localhost> {} +0000\tcommit: {}\n", log.seconds, log.subject);
            let _ = path.parent().map(fs::create_dir_all);
            let file = OpenOptions::new().append(true).create(true).open(path);
            let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
        }
    }

    /// The file of the loose reference.
    fn loose(&self) -> PathBuf {
        self.with_suffix("")
    }

    /// The file of the loose reference, with something after its name.
    fn with_suffix(&self, suffix: &str) -> PathBuf {
        self.common_dir.join(format!("{}{suffix}", self.name.as_bstr()))
    }

    /// A refusal that concerns this branch.
    fn refused(&self, why: &str) -> SnapshotError {
        SnapshotError::new(format!("the branch `{}` {why}", self.short_name()))
    }
}

/// What the branch's log says about a move.
#[derive(Debug)]
pub struct LogLine {
    /// Subject of the commit, one line.
    pub subject: String,
    /// When, in seconds since 1970.
    pub seconds: i64,
}

/// A held lock; dropping it lets go of it.
struct Lock {
    /// The lock file.
    path: PathBuf,
    /// Whether it is still there, and not the reference already.
    held: bool,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.held {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether a lock holds the id of a snapshot: no git program ever writes one.
fn is_ours(repo: &gix::Repository, lock: &Path) -> bool {
    let small = |metadata: fs::Metadata| metadata.is_file() && metadata.len() <= LOCK_BYTES_MAX;
    if !fs::symlink_metadata(lock).is_ok_and(small) {
        return false;
    }
    let content = fs::read(lock).unwrap_or_default();
    let id = ObjectId::from_hex(content.trim()).ok();
    let commit = id.and_then(|id| repo.find_commit(id).ok());
    commit.is_some_and(|commit| commit.message_raw().is_ok_and(|text| message::trailers(text).is_some()))
}

/// A lock that is written but not yet in place.
struct Aside {
    /// Where it is.
    path: PathBuf,
    /// What is in it.
    content: String,
}

impl Aside {
    /// Renames it to `to` unless that exists.
    fn place(&self, to: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, &self.path, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            // Not every file system knows such a rename, and `objects` may lie on another one.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::XDEV) => write_new(to, &self.content),
            Err(error) => Err(error.into()),
        }
    }
}

/// Writes a file that must not exist yet, and syncs it.
fn write_new(path: &Path, content: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

/// A worktree's name as part of a branch name.
fn sanitised(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().map(|c| if plain(c) { c } else { '-' }).collect()
}
