//! Where the repository of a workspace lies, without trusting what `.git` says.
//!
//! A real folder `.git` is the repository. What a file or a link leads to serves only where it points
//! back to this folder: a linked worktree by its `gitdir`, a submodule by its `core.worktree`; or where
//! the user's own policy names it. A pointer is followed by its path, as git follows it: until the way
//! back is found nothing is done but looking. Anyone could have made the pointer, but only who may write in the
//! repository can make the way back.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice as _;
use gix::config::Source;

use super::alternates;
use super::held::HeldFolder;
use super::ordinary::CONFIG_BYTES_MAX;
use crate::engine::workspace::kept::Kept;

/// Longest `.git` file and the like that is read, in bytes.
const POINTER_BYTES_MAX: u64 = 4096;

/// Where the snapshots of a workspace are.
#[derive(Debug, Clone, Copy)]
pub struct RepositoryPaths<'a> {
    /// The workspace, a canonical absolute path.
    pub root: &'a Path,
    /// The folder for lbx's own files, below it.
    pub state: &'a Path,
    /// Git folders elsewhere that the user trusts `.git` to lead to.
    pub git_dirs: &'a [PathBuf],
    /// What is kept from one call to the next.
    pub kept: &'a Kept,
}

/// What stands at `.git`.
#[derive(Debug)]
pub enum GitDir {
    /// Nothing.
    Absent,
    /// The git folder of this work tree.
    Here(Located),
    /// Something that is not to be followed, and why.
    Odd(String),
}

/// A git folder that serves the workspace.
#[derive(Debug)]
pub struct Located {
    /// The folder that holds `HEAD`.
    pub path: PathBuf,
    /// The folder of the whole repository, where `path` is a linked worktree's.
    pub common: Option<PathBuf>,
    /// The name of the linked worktree, where it is one.
    pub worktree: Option<OsString>,
}

/// Looks at `.git` in `folder`, the work tree. `allowed` are the git folders elsewhere that the user
/// has named.
///
/// # Errors
/// Where the file system fails.
pub fn locate(folder: &HeldFolder, allowed: &[PathBuf]) -> io::Result<GitDir> {
    let root = folder.path();
    let Some(stat) = folder.stat(".git")? else { return Ok(GitDir::Absent) };
    let path = root.join(".git");
    if crate::engine::workspace::fs::is_folder(&stat) {
        return Ok(own_folder(folder, path));
    }
    // A link or a pointer may lead anywhere: what it leads to is then held to the way back.
    let target = if crate::engine::workspace::fs::is_symlink(&stat) {
        path
    } else {
        let Some(target) = read_pointer(folder, ".git", b"gitdir:") else {
            return Ok(GitDir::Odd("`.git` is neither a folder nor a pointer to one".into()));
        };
        root.join(target)
    };
    match leads_to(&target) {
        Ok((path, true)) => folder_elsewhere(root, path, allowed),
        Ok((file, _)) if crate::engine::workspace::fs::is_symlink(&stat) => {
            linked_pointer(root, &file, allowed)
        }
        Ok(_) | Err(_) => Ok(GitDir::Odd("`.git` points to a folder that is not there".into())),
    }
}

/// Returns the canonical folders outside a work tree that git reads for it: those of a linked worktree's or a
/// submodule's repository, and those that its objects come from.
#[must_use]
pub fn git_folders(root: &Path, allowed: &[PathBuf]) -> Vec<PathBuf> {
    let located = HeldFolder::open(root).ok().and_then(|folder| locate(&folder, allowed).ok());
    let Some(GitDir::Here(located)) = located else { return Vec::new() };
    let repository = located.common.unwrap_or(located.path);
    // Most repositories borrow no objects, and then nothing else is looked at.
    let objects = HeldFolder::open(&repository.join("objects")).ok();
    let objects = objects.filter(|it| it.stat(alternates::LIST).is_ok_and(|list| list.is_some()));
    let borrowed = objects.and_then(|objects| alternates::folders(&objects).ok()).unwrap_or_default();
    let is_store = |path: &Path| path.file_name() == Some(OsStr::new("objects"));
    let borrowed = borrowed.iter().map(|folder| folder.path().to_owned()).filter(|path| is_store(path));
    std::iter::once(repository).chain(borrowed).filter(|folder| !folder.starts_with(root)).collect()
}

/// Whether `.git` in `folder` is an empty folder, such as a command is given where there is no repository:
/// as for git, that is none.
pub fn is_empty(folder: &HeldFolder) -> bool {
    let inner = folder.folder(".git").ok().flatten();
    inner.is_some_and(|inner| inner.names().is_ok_and(|names| names.is_empty()))
}

/// A real folder `.git`: it must be the whole repository.
fn own_folder(root: &HeldFolder, path: PathBuf) -> GitDir {
    if root.stat(".git/commondir").is_ok_and(|stat| stat.is_some()) {
        return GitDir::Odd("`.git` takes its objects from another folder".into());
    }
    GitDir::Here(Located { path, common: None, worktree: None })
}

/// Follows a `.git` link that leads to the pointer `file`.
fn linked_pointer(root: &Path, file: &Path, allowed: &[PathBuf]) -> io::Result<GitDir> {
    let (Some(parent), Some(name)) = (file.parent(), file.file_name()) else {
        return Ok(GitDir::Odd("`.git` is a link to nothing".into()));
    };
    let pointer = HeldFolder::open(parent).ok().and_then(|folder| read_pointer(&folder, name, b"gitdir:"));
    match pointer.and_then(|pointer| leads_to(&parent.join(pointer)).ok()) {
        Some((path, true)) => folder_elsewhere(root, path, allowed),
        _ => Ok(GitDir::Odd("`.git` is neither a folder nor a pointer to one".into())),
    }
}

/// A git folder outside `root/.git`: it must point back to `root`, or the user must have named it.
fn folder_elsewhere(root: &Path, path: PathBuf, allowed: &[PathBuf]) -> io::Result<GitDir> {
    let folder = HeldFolder::open(&path)?;
    if folder.stat("commondir")?.is_some() {
        return Ok(linked_worktree(root, path, &folder));
    }
    let is_allowed = allowed.iter().any(|allowed| leads_to(allowed).is_ok_and(|(it, _)| it == path));
    if is_allowed || work_tree(&folder).as_deref() == Some(root) {
        return Ok(GitDir::Here(Located { path, common: None, worktree: None }));
    }
    let shown = path.display();
    Ok(GitDir::Odd(format!(
        "`.git` leads to `{shown}`, which does not point back to this folder; where it is yours, set snapshot.git_dirs = [\"{shown}\"] in your own policy file"
    )))
}

/// The work tree that a git folder's own configuration names.
fn work_tree(folder: &HeldFolder) -> Option<PathBuf> {
    let bytes = folder.read("config", CONFIG_BYTES_MAX).ok()??;
    let metadata = gix::config::file::Metadata::from(Source::Local);
    let config = gix::config::File::from_bytes_no_includes(
        &bytes,
        metadata,
        gix::config::file::init::Options::default(),
    );
    let named = config.ok()?.string("core.worktree")?;
    Some(leads_to(&folder.path().join(named.to_path().ok()?)).ok()?.0)
}

/// The git folder of a linked worktree: it must lie in its repository and point back to `root`.
fn linked_worktree(root: &Path, path: PathBuf, folder: &HeldFolder) -> GitDir {
    let common = read_pointer(folder, "commondir", b"").map(|common| path.join(common));
    let back = read_pointer(folder, "gitdir", b"").map(|back| path.join(back));
    let common = common.and_then(|common| Some(leads_to(&common).ok()?.0));
    let work_tree = back.and_then(|back| Some(leads_to(back.parent()?).ok()?.0));
    let worktrees = path.parent();
    let within = worktrees.and_then(Path::file_name) == Some(OsStr::new("worktrees"))
        && common.is_some()
        && common.as_deref() == worktrees.and_then(Path::parent);
    if !within || work_tree.as_deref() != Some(root) {
        return GitDir::Odd(format!(
            "`{}` does not point back to this worktree; `git worktree repair` may help",
            path.display()
        ));
    }
    let name = path.file_name().map(OsStr::to_owned);
    GitDir::Here(Located { path, common, worktree: name })
}

/// Where a name leads, and whether to a folder.
#[expect(
    clippy::disallowed_methods,
    reason = "git follows the name; what it leads to is then opened and must point back"
)]
fn leads_to(name: &Path) -> io::Result<(PathBuf, bool)> {
    let path = std::fs::canonicalize(name)?;
    let is_folder = path.is_dir();
    Ok((path, is_folder))
}

/// The path in a one-line file, after `prefix`; `None` where it is not such a file.
fn read_pointer(folder: &HeldFolder, name: impl AsRef<Path>, prefix: &[u8]) -> Option<PathBuf> {
    let bytes = folder.read(name, POINTER_BYTES_MAX).ok()??;
    let line = bytes.strip_prefix(prefix)?.trim_start_with(|c| c == ' ');
    let line = line.trim_end_with(|c| c == '\n' || c == '\r');
    if line.is_empty() { None } else { line.to_path().ok().map(Path::to_owned) }
}
