//! Where the repository of a workspace lies, without trusting what `.git` says.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice as _;

/// Longest `.git` file and the like that is read, in bytes.
const POINTER_BYTES_MAX: u64 = 4096;

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
    pub worktree: Option<String>,
    /// Whether a link or a file led outside `.git`, so that the repository must confirm the way back.
    pub elsewhere: bool,
}

/// Looks at `.git` in `root`, a canonical path.
///
/// # Errors
/// Where the file system fails.
pub fn locate(root: &Path) -> io::Result<GitDir> {
    let dot_git = root.join(".git");
    let kind = match fs::symlink_metadata(&dot_git) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(GitDir::Absent),
        Err(error) => return Err(error),
    };
    if kind.is_dir() {
        return Ok(own_folder(dot_git));
    }
    let Ok(target) = fs::canonicalize(&dot_git) else {
        return Ok(GitDir::Odd("`.git` is a link to nothing".into()));
    };
    if target.is_dir() { folder_elsewhere(root, target) } else { follow_file(root, &target) }
}

/// A real folder `.git`: it must be the whole repository.
fn own_folder(path: PathBuf) -> GitDir {
    if fs::symlink_metadata(path.join("commondir")).is_ok() {
        return GitDir::Odd("`.git` takes its objects from another folder".into());
    }
    GitDir::Here(Located { path, common: None, worktree: None, elsewhere: false })
}

/// Follows a `.git` file.
fn follow_file(root: &Path, file: &Path) -> io::Result<GitDir> {
    let Some(target) = read_pointer(file, b"gitdir:")? else {
        return Ok(GitDir::Odd("`.git` is neither a folder nor a pointer to one".into()));
    };
    let base = file.parent().unwrap_or(root);
    match fs::canonicalize(base.join(&target)) {
        Ok(path) if path.is_dir() => folder_elsewhere(root, path),
        Ok(_) | Err(_) => {
            Ok(GitDir::Odd(format!("`.git` points to `{}`, which is not there", target.display())))
        }
    }
}

/// A git folder outside `root/.git`: it must not be another work tree's.
fn folder_elsewhere(root: &Path, path: PathBuf) -> io::Result<GitDir> {
    if fs::symlink_metadata(path.join("commondir")).is_ok() {
        return linked_worktree(root, path);
    }
    let of_another = path.file_name() == Some(OsStr::new(".git")) && path.parent() != Some(root);
    if of_another {
        return Ok(GitDir::Odd(format!(
            "`.git` points to the repository of another folder, `{}`",
            path.display()
        )));
    }
    Ok(GitDir::Here(Located { path, common: None, worktree: None, elsewhere: true }))
}

/// The git folder of a linked worktree: it must lie in its repository and point back to `root`.
fn linked_worktree(root: &Path, path: PathBuf) -> io::Result<GitDir> {
    let common = read_pointer(&path.join("commondir"), b"")?.map(|common| path.join(common));
    let back = read_pointer(&path.join("gitdir"), b"")?.map(|back| path.join(back));
    let common = common.and_then(|common| fs::canonicalize(common).ok());
    let work_tree = back.and_then(|back| fs::canonicalize(back.parent()?).ok());
    let worktrees = path.parent();
    let within = worktrees.and_then(Path::file_name) == Some(OsStr::new("worktrees"))
        && common.is_some()
        && common.as_deref() == worktrees.and_then(Path::parent);
    if !within || work_tree.as_deref() != Some(root) {
        return Ok(GitDir::Odd(format!(
            "`{}` does not point back to this worktree; `git worktree repair` may help",
            path.display()
        )));
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(GitDir::Here(Located { path, common, worktree: name, elsewhere: false }))
}

/// The path in a one-line file, after `prefix`; `None` where it is not such a file.
fn read_pointer(file: &Path, prefix: &[u8]) -> io::Result<Option<PathBuf>> {
    if !fs::metadata(file).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    fs::File::open(file)?.take(POINTER_BYTES_MAX).read_to_end(&mut bytes)?;
    let line = bytes.strip_prefix(prefix).map(|rest| rest.trim_start_with(|c| c == ' '));
    let line = line.map(|rest| rest.trim_end_with(|c| c == '\n' || c == '\r'));
    Ok(line.filter(|line| !line.is_empty()).and_then(|line| line.to_path().ok()).map(Path::to_owned))
}
