//! What of a workspace a command may not write: git's folders at any depth, and lbx's own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::control::Control;
use crate::engine::protect;
use crate::engine::state::STATE_FOLDER;

/// Longest time of a search.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Folders between two looks at the clock.
const LOOK_INTERVAL: usize = 256;
/// Most bytes of a file that names a git folder.
const GITFILE_BYTES_MAX: u64 = 8192;
/// What git takes a folder for a repository by.
const REPOSITORY_MARKS: [&str; 3] = ["HEAD", "objects", "refs"];

/// What was found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Found {
    /// Paths relative to the root, ordered.
    pub protected: Vec<PathBuf>,
    /// lbx's own folders likewise: who knows what they hold could make up a state that lbx trusts.
    pub states: Vec<PathBuf>,
    /// Whether the search ended before it had looked everywhere.
    pub is_partial: bool,
}

/// Finds what is protected below a canonical root: `.git` and `.lbx` at any depth, folders that git
/// would take for a repository, those that a file named `.git` leads to, and what the policy protects.
#[must_use]
pub fn find(root: &Path, control: &Control, by_policy: &dyn Fn(&Path) -> bool) -> Found {
    let mut found = Found::default();
    let mut folders = vec![PathBuf::new()];
    let deadline = Instant::now() + TIME_MAX;
    let mut looked_at = 0_usize;
    while let Some(folder) = folders.pop() {
        looked_at += 1;
        if looked_at.is_multiple_of(LOOK_INTERVAL) && (Instant::now() >= deadline || control.should_stop()) {
            found.is_partial = true;
            break;
        }
        // What may not be read may not be entered by the command either.
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        let mut marks = 0;
        let mut below = Vec::new();
        for entry in entries.flatten() {
            let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
            let Ok(kind) = entry.file_type() else { continue };
            marks += usize::from(REPOSITORY_MARKS.iter().any(|mark| name == *mark));
            if name.eq_ignore_ascii_case(STATE_FOLDER) && kind.is_dir() {
                found.states.push(path);
            } else if protect::is_protected(name.as_bytes()) {
                found.add(root, path, kind);
            } else if by_policy(&path) {
                found.protected.push(path);
            } else if kind.is_dir() {
                below.push(path);
            }
        }
        if marks == REPOSITORY_MARKS.len() && !folder.as_os_str().is_empty() {
            found.protected.push(folder);
        } else {
            folders.append(&mut below);
        }
    }
    found.protected.sort();
    found.protected.dedup();
    found.states.sort();
    found
}

impl Found {
    /// Adds a path with a protected name, and where it leads.
    fn add(&mut self, root: &Path, path: PathBuf, kind: fs::FileType) {
        if kind.is_symlink() {
            self.add_target(root, fs::canonicalize(root.join(&path)).ok().as_deref());
            return;
        }
        if kind.is_file() {
            let target = git_folder(&root.join(&path));
            let common = target.as_deref().and_then(common_folder);
            self.add_target(root, target.as_deref());
            self.add_target(root, common.as_deref());
        }
        self.protected.push(path);
    }

    /// Adds a folder, where it is in the workspace: elsewhere everything is read-only.
    fn add_target(&mut self, root: &Path, target: Option<&Path>) {
        let within = target.and_then(|target| target.strip_prefix(root).ok());
        self.protected.extend(within.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned));
    }
}

/// The folder that a file named `.git` leads to.
fn git_folder(file: &Path) -> Option<PathBuf> {
    let text = small_file(file)?;
    let target = text.strip_prefix(b"gitdir:")?.trim_ascii();
    fs::canonicalize(file.parent()?.join(OsStr::from_bytes(target))).ok()
}

/// The folder that a worktree's own git folder shares with others.
fn common_folder(folder: &Path) -> Option<PathBuf> {
    let text = small_file(&folder.join("commondir"))?;
    fs::canonicalize(folder.join(OsStr::from_bytes(text.trim_ascii()))).ok()
}

/// The bytes of a small regular file.
fn small_file(path: &Path) -> Option<Vec<u8>> {
    let found = fs::symlink_metadata(path).ok()?;
    (found.is_file() && found.len() <= GITFILE_BYTES_MAX).then(|| fs::read(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repository_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in [
            ".git",
            ".lbx",
            "a/b/.GIT",
            "a/bare/objects",
            "a/bare/refs",
            "real/worktrees/w",
            "w",
            "plain/x",
            "x/kept/y",
        ] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::write(root.join("a/bare/HEAD"), "").unwrap();
        fs::write(root.join("w/.git"), "gitdir: ../real/worktrees/w\n").unwrap();
        fs::write(root.join("real/worktrees/w/commondir"), "../..\n").unwrap();
        std::os::unix::fs::symlink("../real", root.join("plain/.git")).unwrap();
        let found = find(&root, &Control::default(), &|path| path.ends_with("kept"));
        let wanted = [".git", "a/b/.GIT", "a/bare", "real", "real/worktrees/w", "w/.git", "x/kept"];
        assert_eq!(found.protected, wanted.map(PathBuf::from));
        assert_eq!(found.states, [PathBuf::from(".lbx")]);
        assert!(!found.is_partial);
    }
}
