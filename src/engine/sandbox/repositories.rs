//! What of a workspace a command may not write: git's folders at any depth, and lbx's own.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, OFlags, Stat};
use rustix::io::Errno;

use crate::control::Control;
use crate::engine::store::state::STATE_FOLDER;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::{Survey, SurveyBuilder, names_of};
use crate::engine::workspace::{fs, protect};

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
pub struct ProtectedPaths {
    /// Paths relative to the root, ordered.
    pub protected: Vec<PathBuf>,
    /// Those of them that the policy protects.
    pub by_policy: Vec<PathBuf>,
    /// lbx's own folders likewise: who knows what they hold could make up a state that lbx trusts.
    pub states: Vec<PathBuf>,
    /// Folders of this account that cannot be looked into: their owner can open them, and what is in them is
    /// not known.
    pub closed: Vec<PathBuf>,
    /// The folders in which something was found.
    pub holders: Vec<WorkspacePath>,
    /// Whether the search ended before it had looked everywhere.
    pub is_partial: bool,
}

/// Finds what is protected in a workspace: `.git` and `.lbx` at any depth, folders that git would
/// take for a repository, those that a file named `.git` leads to, and what the policy protects.
#[must_use]
pub fn find(workspace: &Workspace, control: &Control, by_policy: &dyn Fn(&Path) -> bool) -> ProtectedPaths {
    search(workspace, control, by_policy, None)
}

/// The same in one pass with a survey of everything else, which is missing where there is too much.
#[must_use]
pub fn find_and_survey(
    workspace: &Workspace,
    control: &Control,
    by_policy: &dyn Fn(&Path) -> bool,
) -> (ProtectedPaths, Option<Survey>) {
    let mut survey = SurveyBuilder::begin();
    let found = search(workspace, control, by_policy, Some(&mut survey));
    let closed = found.protected.iter().chain(&found.states).chain(&found.closed);
    let closed = closed.map(|path| path.as_os_str().as_bytes());
    let survey = if found.is_partial { None } else { survey.finish(closed) };
    (found, survey)
}

/// Finds what is protected, and adds what it passes to a survey.
fn search(
    workspace: &Workspace,
    control: &Control,
    by_policy: &dyn Fn(&Path) -> bool,
    mut survey: Option<&mut SurveyBuilder>,
) -> ProtectedPaths {
    let mut found = ProtectedPaths::default();
    let mut folders = vec![PathBuf::new()];
    let deadline = Instant::now() + TIME_MAX;
    let mut looked_at = 0_usize;
    while let Some(folder) = folders.pop() {
        looked_at += 1;
        if looked_at.is_multiple_of(LOOK_INTERVAL) && (Instant::now() >= deadline || control.should_stop()) {
            found.is_partial = true;
            break;
        }
        let survey = survey.as_deref_mut().filter(|survey| !survey.is_full());
        folders.append(&mut found.look_in(workspace, &folder, by_policy, survey));
    }
    found.in_order()
}

/// Finds what is protected in these folders, and in the root, without what lies deeper.
#[must_use]
pub fn find_in(workspace: &Workspace, folders: &[WorkspacePath]) -> ProtectedPaths {
    let mut found = ProtectedPaths::default();
    let root = WorkspacePath::root();
    for folder in std::iter::once(&root).chain(folders.iter().filter(|folder| !folder.is_root())) {
        let folder = if folder.is_root() { PathBuf::new() } else { folder.as_path().to_owned() };
        found.look_in(workspace, &folder, &|_| false, None);
    }
    found.in_order()
}

/// Whether a name in a folder is a folder of this account that may not be looked into.
fn is_shut(folder: &OwnedFd, name: &OsStr, stat: &Stat) -> bool {
    /// What its owner needs for that.
    const TO_LOOK: u32 = 0o500;
    if !fs::is_folder(stat) || fs::mode_of(stat) & TO_LOOK == TO_LOOK {
        return false;
    }
    let can_look = || {
        let opened = fs::open_at(folder.as_fd(), name, fs::FOLDER)?;
        fs::stat_at(opened.as_fd(), OsStr::new("."))
    };
    stat.st_uid == rustix::process::geteuid().as_raw() && can_look().is_err()
}

/// Opens a folder of the workspace, through no link.
fn open(workspace: &Workspace, folder: &Path) -> Result<OwnedFd, Errno> {
    let path = WorkspacePath::new(folder).ok_or(Errno::INVAL)?;
    fs::open_beneath(workspace.root_fd(), &path, fs::FOLDER)
}

impl ProtectedPaths {
    /// Looks at what is in a folder; answers the folders that are to be looked at as well.
    fn look_in(
        &mut self,
        workspace: &Workspace,
        folder: &Path,
        by_policy: &dyn Fn(&Path) -> bool,
        survey: Option<&mut SurveyBuilder>,
    ) -> Vec<PathBuf> {
        let survey = survey.zip(WorkspacePath::new(folder));
        let opened = open(workspace, folder);
        let listed = opened.and_then(|opened| names_of(opened.as_fd()).map(|entries| (opened, entries)));
        let (opened, entries) = match listed {
            Ok(found) => found,
            Err(errno) => {
                // Another account's: the command may not enter it either.
                survey.into_iter().for_each(|(survey, path)| survey.pass_over(path, errno));
                return Vec::new();
            }
        };
        let mut survey = survey.map(|(survey, path)| survey.enter(&path));
        let mut look = |name: &OsStr, listed: FileType, is_closed: bool| match &mut survey {
            Some(survey) => survey.add(opened.as_fd(), name, is_closed).map(Ok),
            None if listed.is_dir() => fs::stat_at(opened.as_fd(), name).ok().map(Ok),
            None => Some(Err(listed)),
        };
        let mut marks = 0;
        let mut below = Vec::new();
        let known = self.protected.len() + self.states.len();
        for entry in entries.iter() {
            let name = OsStr::from_bytes(entry.name);
            let path = folder.join(name);
            let (is_protected, is_by_policy) = (protect::is_protected(entry.name), by_policy(&path));
            // A link with the name of a repository is none: what it leads to is protected.
            let is_closed = is_by_policy || (is_protected && !entry.kind.is_symlink());
            let Some(looked) = look(name, entry.kind, is_closed) else { continue };
            let kind = looked.as_ref().map_or_else(|listed| *listed, fs::type_of);
            marks += usize::from(REPOSITORY_MARKS.iter().any(|mark| name == *mark));
            if name.eq_ignore_ascii_case(STATE_FOLDER) && kind.is_dir() {
                self.states.push(path);
            } else if is_protected {
                self.add(workspace.root(), &opened, path, kind);
            } else if is_by_policy {
                self.by_policy.push(path.clone());
                self.protected.push(path);
            } else if looked.is_ok_and(|stat| is_shut(&opened, name, &stat)) {
                self.closed.push(path);
            } else if kind.is_dir() {
                below.push(path);
            }
        }
        let is_repository = marks == REPOSITORY_MARKS.len() && !folder.as_os_str().is_empty();
        if is_repository {
            self.protected.push(folder.to_owned());
            below.clear();
        }
        if self.protected.len() + self.states.len() > known {
            self.holders.extend(WorkspacePath::new(folder));
        }
        below
    }

    /// The same, ordered.
    fn in_order(mut self) -> Self {
        self.protected.sort();
        self.protected.dedup();
        self.states.sort();
        self.closed.sort();
        self.holders.sort();
        self
    }

    /// Adds a path with a protected name in an opened folder, and where it leads.
    fn add(&mut self, root: &Path, folder: &OwnedFd, path: PathBuf, kind: FileType) {
        let place = root.join(&path);
        if kind.is_symlink() {
            self.add_target(root, led_to(&place).as_deref());
            return;
        }
        if kind.is_file() {
            let target = git_folder(folder, &place);
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

/// The folder that a file named `.git` in an opened folder leads to.
fn git_folder(folder: &OwnedFd, file: &Path) -> Option<PathBuf> {
    let text = small_file(folder, file.file_name()?)?;
    let target = text.strip_prefix(b"gitdir:")?.trim_ascii();
    led_to(&file.parent()?.join(OsStr::from_bytes(target)))
}

/// The folder that a worktree's own git folder shares with others.
fn common_folder(folder: &Path) -> Option<PathBuf> {
    let opened = fs::open_at(CWD, folder.as_os_str(), fs::LOOK | OFlags::DIRECTORY).ok()?;
    let text = small_file(&opened, OsStr::new("commondir"))?;
    led_to(&folder.join(OsStr::from_bytes(text.trim_ascii())))
}

/// Where a name leads.
#[expect(clippy::disallowed_methods, reason = "git follows the name, and what it leads to is only protected")]
fn led_to(name: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(name).ok()
}

/// The bytes of a small regular file in an opened folder: what became a FIFO or a link is neither
/// waited for nor followed.
fn small_file(folder: &OwnedFd, name: &OsStr) -> Option<Vec<u8>> {
    fs::read_at(folder.as_fd(), name, GITFILE_BYTES_MAX).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        let workspace = Workspace::open(&root).unwrap();
        let found = find(&workspace, &Control::default(), &|path| path.ends_with("kept"));
        let wanted = [".git", "a/b/.GIT", "a/bare", "real", "real/worktrees/w", "w/.git", "x/kept"];
        assert_eq!(found.protected, wanted.map(PathBuf::from));
        assert_eq!(found.states, [PathBuf::from(".lbx")]);
        assert!(!found.is_partial);
        // Whoever looks at the same folders again finds the same, as far as it still stands.
        let found = find(&workspace, &Control::default(), &|_| false);
        assert_eq!(find_in(&workspace, &found.holders), found);
        fs::remove_dir_all(root.join("a/bare/refs")).unwrap();
        fs::create_dir_all(root.join("new/.git")).unwrap();
        let again = find_in(&workspace, &found.holders);
        assert_eq!(
            again.protected,
            [".git", "a/b/.GIT", "real", "real/worktrees/w", "w/.git"].map(PathBuf::from)
        );
    }
}
