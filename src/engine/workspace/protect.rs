//! Decides which paths no file tool writes: git's state and lbx's own, by name and by the content of folders.
//!
//! [`Protection`] finds the git folders on the way to a path and remembers them for the length of a change. Names are
//! compared in every spelling that a file system takes for the same. A folder is a repository by git's own rule:
//! `setup.c`, `is_git_directory` and `validate_headref`: a valid `HEAD`, and `objects` and `refs` next to it or in
//! the folder that `commondir` names.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};

/// Longest pointer file, such as `.git`, in bytes.
const POINTER_BYTES_MAX: u64 = 4096;
/// Components that are looked up at once: a path of thousands is opened in steps, so that the kernel
/// does not walk all of it for each folder on the way.
const STEP: usize = 32;

/// Which paths of a workspace belong to git or lbx. What it finds out is remembered, so that many
/// paths in one folder cost one look; it serves one change.
#[derive(Debug, Default)]
pub struct Protection {
    /// The git folder that each folder lies in or is, by the folder's bytes.
    known: RefCell<BTreeMap<Vec<u8>, Option<WorkspacePath>>>,
    /// The folders that `.git` at the root leads to.
    used: OnceCell<Vec<WorkspacePath>>,
}

impl Protection {
    /// Fails for a path that belongs to git or lbx: by a name in it, or because it lies in a folder that git uses or
    /// would take for a repository. `shown` is the path for messages.
    ///
    /// # Errors
    /// Returns `protected_path`.
    pub fn check(&self, workspace: &Workspace, path: &WorkspacePath, shown: &str) -> Result<(), Error> {
        if let Some(name) = protected_component(path.as_path()) {
            return Err(name_error(shown, name));
        }
        match self.git_folder_of(workspace, path) {
            None => Ok(()),
            Some(folder) => Err(folder_error(shown, &workspace.display(&folder))),
        }
    }

    /// Returns the git folder that `path` lies in; not `path` itself, unless this work tree uses it.
    pub fn git_folder_of(&self, workspace: &Workspace, path: &WorkspacePath) -> Option<WorkspacePath> {
        let used = self.used.get_or_init(|| used_by_git(workspace));
        if let Some(folder) = used.iter().find(|folder| path.is_within(folder)) {
            return Some(folder.clone());
        }
        self.enclosing(workspace, &path.parent()?)
    }

    /// Returns the git folder that `folder` is or lies in.
    fn enclosing(&self, workspace: &Workspace, folder: &WorkspacePath) -> Option<WorkspacePath> {
        let mut known = self.known.borrow_mut();
        let mut found = None;
        let mut unknown = Vec::new();
        let mut at = Some(folder.clone());
        while let Some(path) = at {
            if let Some(answer) = known.get(path.as_bytes()) {
                found.clone_from(answer);
                break;
            }
            at = path.parent();
            unknown.push(path);
        }
        let mut steps = FolderSteps::new(workspace);
        for path in unknown.into_iter().rev() {
            let Some((from, rest)) = steps.to(&path) else {
                // Nothing is there, so nothing is below it either.
                break;
            };
            if holds_repository(from, &rest) {
                found = Some(path.clone());
            } else if found.is_some() && has_name(from, &rest, DOT_GIT) {
                // The work tree of a repository that was made in its own folder.
                found = None;
            }
            known.insert(path.as_bytes().to_vec(), found.clone());
        }
        found
    }
}

/// Returns the error for a path in a git folder.
pub fn folder_error(shown: &str, folder: &str) -> Error {
    let message = format!("{shown} is protected: git uses {folder} as a repository");
    Error::new(ErrorKind::ProtectedPath, message).at(shown)
}

/// Opens the folders on the way to ever deeper paths, one in [`STEP`].
struct FolderSteps<'w> {
    /// The workspace.
    workspace: &'w Workspace,
    /// The deepest folder that is open, and how many components lead to it.
    from: Option<(OwnedFd, usize)>,
}

impl<'w> FolderSteps<'w> {
    /// Steps that begin at the root.
    fn new(workspace: &'w Workspace) -> Self {
        Self { workspace, from: None }
    }

    /// An opened folder on the way to `path`, and the rest of the way; `None` where that has no folder.
    fn to(&mut self, path: &WorkspacePath) -> Option<(BorrowedFd<'_>, PathBuf)> {
        let depth = path.components().count();
        let opened = self.from.as_ref().map_or(0, |(_, depth)| *depth);
        if depth >= opened + STEP {
            let root = self.workspace.root_fd();
            let folder = fs::open_beneath(root, path, fs::HANDLE).ok()?;
            self.from = Some((folder, depth));
        }
        let (from, opened) = match &self.from {
            Some((folder, depth)) => (folder.as_fd(), *depth),
            None => (self.workspace.root_fd(), 0),
        };
        Some((from, path.components().skip(opened).collect()))
    }
}

/// Returns true if the folder at `rest` below an opened one is a repository: one call where it has no `HEAD`.
fn holds_repository(from: BorrowedFd<'_>, rest: &Path) -> bool {
    if !has_name(from, rest, HEAD) {
        return false;
    }
    let Some(rest) = WorkspacePath::new(rest) else {
        return true;
    };
    match fs::open_beneath(from, &rest, fs::HANDLE) {
        Ok(folder) => is_repository(folder.as_fd()),
        Err(_) => true,
    }
}

/// Returns true if the folder at `rest` below an opened one has a name.
fn has_name(from: BorrowedFd<'_>, rest: &Path, name: &str) -> bool {
    fs::stat_at(from, rest.join(name).as_os_str()).is_ok()
}

/// Returns the folders below the root to which `.git` there leads, by any means.
fn used_by_git(workspace: &Workspace) -> Vec<WorkspacePath> {
    let Ok(stat) = fs::stat_at(workspace.root_fd(), OsStr::new(DOT_GIT)) else {
        return Vec::new();
    };
    let dot_git = workspace.root().join(DOT_GIT);
    let folder = if fs::is_regular(&stat) {
        let pointer = fs::read_at(workspace.root_fd(), OsStr::new(DOT_GIT), POINTER_BYTES_MAX);
        let target = pointer.ok().flatten().and_then(|bytes| pointed(&bytes, b"gitdir:"));
        match target {
            Some(target) => workspace.root().join(target),
            None => return Vec::new(),
        }
    } else {
        dot_git
    };
    if fs::is_folder(&stat)
        && let Some(common) = WorkspacePath::new(&Path::new(DOT_GIT).join(COMMON))
        && fs::stat_beneath(workspace.root_fd(), &common).err() == Some(Errno::NOENT)
    {
        // A real folder that is the whole repository leads nowhere else.
        return WorkspacePath::new(Path::new(DOT_GIT)).into_iter().collect();
    }
    let folder = led_to(&folder);
    let Some(folder) = folder else {
        return Vec::new();
    };
    let common = common_of(&folder);
    let within = |path: PathBuf| WorkspacePath::new(path.strip_prefix(workspace.root()).ok()?);
    // The root itself cannot be one: no path in it could be written, and opening it was refused.
    common.into_iter().chain([folder]).filter_map(within).filter(|path| !path.is_root()).collect()
}

/// Returns the canonical path.
#[expect(clippy::disallowed_methods, reason = "git follows the name, and what it leads to is only protected")]
fn led_to(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

/// The folder that `commondir` in a git folder names.
#[expect(clippy::disallowed_methods, reason = "git follows the name, and what it leads to is only protected")]
fn common_of(folder: &Path) -> Option<PathBuf> {
    let opened = rustix::fs::open(folder, fs::HANDLE, rustix::fs::Mode::empty()).ok()?;
    let bytes = fs::read_at(opened.as_fd(), OsStr::new(COMMON), POINTER_BYTES_MAX).ok()??;
    std::fs::canonicalize(folder.join(pointed(&bytes, b"")?)).ok()
}

/// The path in a file of one line, after `prefix`.
fn pointed(bytes: &[u8], prefix: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(prefix)?.split(|&byte| matches!(byte, b'\n' | b'\r')).next()?;
    let path = line.trim_ascii_start();
    (!path.is_empty() && !path.contains(&0)).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// Names that are never written, in lower case, with their short names on NTFS.
const PROTECTED: [&[u8]; 4] = [b".git", b".lbx", b"git~1", b"lbx~1"];

/// End of the name of a repository that a command made and lbx moved aside, `.git.lbx-held`; a number may follow.
pub const HELD: &str = ".lbx-held";

/// Code points that HFS+ ignores in a name (git, `utf8.c`, `next_hfs_char`), as UTF-8.
const IGNORED_BY_HFS: [&[u8]; 17] = [
    b"\xe2\x80\x8c",
    b"\xe2\x80\x8d",
    b"\xe2\x80\x8e",
    b"\xe2\x80\x8f",
    b"\xe2\x80\xaa",
    b"\xe2\x80\xab",
    b"\xe2\x80\xac",
    b"\xe2\x80\xad",
    b"\xe2\x80\xae",
    b"\xe2\x81\xaa",
    b"\xe2\x81\xab",
    b"\xe2\x81\xac",
    b"\xe2\x81\xad",
    b"\xe2\x81\xae",
    b"\xe2\x81\xaf",
    b"\xef\xbb\xbf",
    b"\xe2\x80\x8b",
];

/// Returns the first component of `path` that is `.git` or `.lbx`, in any letter case or a spelling that NTFS and HFS+
/// consider equal: a checkout may move to such a disk.
pub fn protected_component(path: &Path) -> Option<&OsStr> {
    path.iter().find(|name| is_protected(name.as_bytes()))
}

/// Returns true if `path` lies in the state of git or lbx, as the trash does.
pub fn is_state(path: &WorkspacePath) -> bool {
    protected_component(path.as_path()).is_some()
}

/// Returns true for the name of a repository that lbx moved aside.
pub fn is_held(name: &[u8]) -> bool {
    let number_at = name.iter().rposition(|byte| *byte == b'-').unwrap_or(name.len());
    let (stem, number) = name.split_at(number_at);
    let is_numbered = number.get(1..).is_some_and(|digits| digits.iter().all(u8::is_ascii_digit));
    name.ends_with(HELD.as_bytes()) || (is_numbered && stem.ends_with(HELD.as_bytes()))
}

/// Returns true if a single name is protected. NTFS takes a backslash for a separator, so that
/// `.git\config` names a file in `.git` there.
pub fn is_protected(name: &[u8]) -> bool {
    name.split(|&byte| byte == b'\\').any(is_protected_part)
}

/// Returns true if a name without a backslash is protected.
fn is_protected_part(name: &[u8]) -> bool {
    // Most names are settled by their first byte.
    if !matches!(name.first(), Some(b'.' | b'g' | b'G' | b'l' | b'L' | 0xe2 | 0xef)) {
        return false;
    }
    let mut folded = without_ignored(name).to_ascii_lowercase();
    // NTFS: a stream is named after a colon, and trailing blanks and dots are dropped.
    if let Some(colon) = folded.iter().position(|&byte| byte == b':') {
        folded.truncate(colon);
    }
    while matches!(folded.last(), Some(b' ' | b'.')) {
        folded.pop();
    }
    PROTECTED.contains(&folded.as_slice())
}

/// `name` without what HFS+ does not see.
fn without_ignored(name: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(ignored) = IGNORED_BY_HFS.iter().find(|ignored| rest.starts_with(ignored)) {
            rest = rest.get(ignored.len()..).unwrap_or_default();
        } else {
            kept.push(first);
            rest = tail;
        }
    }
    kept
}

/// Returns the error for a path with a protected name.
pub fn name_error(shown: &str, name: &OsStr) -> Error {
    let message = format!("{shown} is protected: {} is never written by a file tool", name.display());
    Error::new(ErrorKind::ProtectedPath, message).at(shown)
}

/// The name by which git finds the repository of a work tree.
pub const DOT_GIT: &str = ".git";
/// The file that git looks at first.
pub const HEAD: &str = "HEAD";
/// The file with which a worktree's folder names the repository.
pub const COMMON: &str = "commondir";
/// Folders of a repository.
pub const OBJECTS: &str = "objects";
/// Folders of a repository.
pub const REFS: &str = "refs";
/// The names that together make a folder a repository.
pub const PARTS: [&str; 4] = [HEAD, COMMON, OBJECTS, REFS];
/// Bytes that git reads of `HEAD`.
pub const HEAD_BYTES_READ: usize = 255;
/// Hexadecimal digits of a commit id, at least.
const ID_DIGITS: usize = 40;

/// Type and contents of `HEAD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadFile {
    /// Nothing that git reads.
    Absent,
    /// A symlink with this target.
    Link(Vec<u8>),
    /// A file that begins with these bytes.
    File(Vec<u8>),
    /// Something that this process cannot read and another may.
    Unknown,
}

impl HeadFile {
    /// Returns true if git would accept it.
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Absent => false,
            Self::Link(target) => target.starts_with(b"refs/"),
            Self::File(bytes) => is_reference(bytes) || is_id(bytes),
            Self::Unknown => true,
        }
    }
}

/// Returns true if the text of a `HEAD` names a reference.
fn is_reference(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"ref:").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"refs/"))
}

/// Returns true if the text of a `HEAD` begins with a commit id.
fn is_id(bytes: &[u8]) -> bool {
    bytes.get(..ID_DIGITS).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Returns true if a folder with that `HEAD` is a repository; the callback returns true for other names in it.
pub fn is_repository_with(head: &HeadFile, stands: impl Fn(&str) -> bool) -> bool {
    head.is_valid() && (stands(COMMON) || (stands(OBJECTS) && stands(REFS)))
}

/// Returns true if git would take an opened folder for a repository, or if that is unknown. Usually one system call.
pub fn is_repository(folder: BorrowedFd<'_>) -> bool {
    let stands = |name: &str| !matches!(fs::stat_at(folder, OsStr::new(name)), Err(Errno::NOENT));
    stands(HEAD) && is_repository_with(&head_at(folder, OsStr::new(HEAD)), stands)
}

/// Returns true if an opened folder is a repository, or holds the name by which git finds one.
pub fn is_work_tree(folder: BorrowedFd<'_>) -> bool {
    fs::stat_at(folder, OsStr::new(DOT_GIT)).is_ok()
}

/// Reads `name`, its `HEAD`, in an opened folder as git does.
pub fn head_at(folder: BorrowedFd<'_>, name: &OsStr) -> HeadFile {
    let stat = match fs::stat_at(folder, name) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return HeadFile::Absent,
        Err(_) => return HeadFile::Unknown,
    };
    if fs::is_folder(&stat) {
        return HeadFile::Absent;
    }
    if fs::is_symlink(&stat) {
        return match fs::read_link_at(folder, name) {
            Ok(target) => HeadFile::Link(target),
            Err(_) => HeadFile::Unknown,
        };
    }
    if !fs::is_regular(&stat) {
        // A FIFO may give other bytes to a reader that waits.
        return HeadFile::Unknown;
    }
    let mut bytes = Vec::new();
    let opened = fs::open_at(folder, name, fs::READ).map(File::from);
    match opened.map(|file| file.take(HEAD_BYTES_READ as u64).read_to_end(&mut bytes)) {
        Ok(Ok(_)) => HeadFile::File(bytes),
        _ => HeadFile::Unknown,
    }
}
