//! Workspace paths that a command may not write: git's folders at any depth, and lbx's own.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rustix::fs::{CWD, FileType, Stat};
use rustix::io::Errno;

use super::folder_watch::FolderWatch;
use crate::control::Control;
use crate::engine::store::state::STATE_FOLDER;
use crate::engine::workspace::listing::{Listing, WorkQueue};
use crate::engine::workspace::path::{LinkFollower, WorkspacePath};
use crate::engine::workspace::protect::{HEAD, is_repository};
use crate::engine::workspace::survey::{Survey, SurveyBuilder, THINGS_MAX, names_of};
use crate::engine::workspace::{Workspace, fs, protect};
use crate::error::{Error, ErrorKind};
use crate::limits::{REPOSITORY_SEARCH_TIME_MAX, REPOSITORY_THREADS_MAX};
use crate::platform::other_cpu;

/// Number of names that one thread reads before others help: below it, starting them costs more than it saves.
const NAMES_ALONE: usize = 2_000;
/// Mode bits with which an owner can list a folder and rename in it.
const OWNER_MAY_ALL: u32 = 0o700;
/// Largest file that names a git folder, in bytes.
const GITFILE_BYTES_MAX: u64 = 8192;

/// Test for paths that the policy protects; `None` if it protects none.
pub type PolicyTest<'a> = Option<&'a (dyn Fn(&Path) -> bool + Sync)>;

/// How much a search looks at.
#[derive(Debug, Clone, Copy)]
pub enum SearchDepth<'a> {
    /// Only names.
    ForRepositories,
    /// Also the metadata of everything, for a survey.
    AtAll,
    /// Also watches all folders from then on.
    AndWatching(&'a FolderWatch),
}

/// Result of a search.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ProtectedPaths {
    /// Protected paths, relative to the root, ordered.
    pub protected: Vec<PathBuf>,
    /// Paths among them that the policy protects.
    pub by_policy: Vec<PathBuf>,
    /// lbx's own folders, likewise: with their content, a command could fake a state that lbx trusts.
    pub states: Vec<PathBuf>,
    /// Unreadable folders of this account: their owner can open them, and their content is unknown.
    pub closed: Vec<PathBuf>,
    /// Sockets and FIFOs: other programs may use their other end.
    pub channels: Vec<PathBuf>,
    /// Folders in which something was found.
    pub holders: Vec<WorkspacePath>,
    /// All marks by which git or lbx could take a folder for its own: each `.git` and `.lbx` of any type, and each
    /// folder that git takes for a repository, also the root.
    pub marks: Vec<WorkspacePath>,
}

/// Finds the protected paths in a workspace: `.git` and `.lbx` at any depth, folders that git would take for a
/// repository, folders that a `.git` file leads to, and paths that the policy protects.
///
/// Surveys all other paths in the same pass if `looking` says so; the survey is missing if there are too many.
///
/// # Errors
/// Fails with `command_denied` if the search cannot be finished, or with `cancelled`.
pub fn find(
    workspace: &Workspace,
    control: &Control,
    by_policy: PolicyTest<'_>,
    looking: SearchDepth<'_>,
) -> Result<(ProtectedPaths, Option<Survey>), Error> {
    let (has_survey, watch) = match looking {
        SearchDepth::ForRepositories => (false, None),
        SearchDepth::AtAll => (true, None),
        SearchDepth::AndWatching(watch) => (true, Some(watch)),
    };
    let search = WorkspaceSearch { has_survey, watch, ..WorkspaceSearch::new(workspace, control, by_policy) };
    let ThreadFindings { paths, survey } = search.run()?;
    let found = paths.in_order();
    if !has_survey || search.is_full() {
        return Ok((found, None));
    }
    let closed = found.protected.iter().chain(&found.states).chain(&found.closed);
    let survey = survey.finish(workspace.root_fd(), closed.map(|path| path.as_os_str().as_bytes()));
    Ok((found, Some(survey)))
}

/// Findings after a command.
#[derive(Debug)]
pub struct LaterFindings {
    /// Current marks: see [`ProtectedPaths::marks`].
    pub marks: Vec<WorkspacePath>,
    /// Survey of all paths; `None` if there are too many.
    pub survey: Option<Survey>,
    /// Folders that the command made unreadable and that are readable while this value exists, with their modes.
    opened: Vec<(OwnedFd, u32)>,
}

impl Drop for LaterFindings {
    fn drop(&mut self) {
        for (folder, mode) in self.opened.iter().rev() {
            // If this fails, the owner can still open the folder.
            let _ = fs::set_mode(folder, *mode);
        }
    }
}

/// Findings before a command, and the folders in which something happened since.
#[derive(Debug, Clone)]
pub struct EarlierFindings<'a> {
    /// Survey of all paths.
    pub survey: &'a Survey,
    /// Marks: see [`ProtectedPaths::marks`].
    pub marks: &'a [WorkspacePath],
    /// Folders to read again.
    pub changed: Vec<WorkspacePath>,
}

impl EarlierFindings<'_> {
    /// Returns true if git or lbx still takes a mark for its own.
    fn is_mark(workspace: &Workspace, mark: &WorkspacePath) -> bool {
        if mark.name().is_some_and(|name| protect::is_protected(name.as_bytes())) {
            return fs::stat_beneath(workspace.root_fd(), mark).is_ok();
        }
        let folder = fs::open_beneath(workspace.root_fd(), mark, fs::FOLDER);
        folder.is_ok_and(|folder| is_repository(folder.as_fd()))
    }
}

/// Surveys the workspace after a command that could not change the paths `closed`; finds the current marks, even in
/// folders that the command made unreadable. Reads only the changed folders if it knows the `earlier` findings.
///
/// # Errors
/// Fails as [`find`] does.
pub fn find_again<'c>(
    workspace: &'c Workspace,
    control: &'c Control,
    closed: impl Iterator<Item = &'c OsStr>,
    earlier: Option<EarlierFindings<'c>>,
) -> Result<LaterFindings, Error> {
    let mut names: HashMap<&[u8], Vec<&[u8]>> = HashMap::new();
    for path in closed.map(Path::new) {
        let folder = path.parent().unwrap_or_else(|| Path::new("")).as_os_str().as_bytes();
        names.entry(folder).or_default().push(path.file_name().unwrap_or_default().as_bytes());
    }
    let mut search =
        WorkspaceSearch { closed: Some(names), ..WorkspaceSearch::new(workspace, control, None) };
    if let Some(earlier) = &earlier {
        search.queue = WorkQueue::new(earlier.changed.clone());
        search.earlier = Some(earlier.survey);
    }
    let ThreadFindings { mut paths, survey } = search.run()?;
    let mut survey = (!search.is_full()).then(|| survey.finish(workspace.root_fd(), std::iter::empty()));
    if let Some(earlier) = earlier {
        survey = survey.map(|again| earlier.survey.renewed(again));
        paths
            .marks
            .extend(earlier.marks.iter().filter(|mark| EarlierFindings::is_mark(workspace, mark)).cloned());
    }
    let mut found = LaterFindings { marks: paths.marks, survey, opened: Vec::new() };
    let mut shut = paths.closed;
    while let Some(path) = shut.pop() {
        let Some(path) = WorkspacePath::new(&path) else { continue };
        let Ok(folder) = fs::open_beneath(workspace.root_fd(), &path, fs::HANDLE) else { continue };
        let Ok(stat) = rustix::fs::fstat(&folder) else { continue };
        if fs::set_mode(&folder, fs::mode_of(&stat) | OWNER_MAY_ALL).is_err() {
            continue;
        }
        found.opened.push((folder, fs::mode_of(&stat)));
        let queue = WorkQueue::new(vec![path]);
        let inner = WorkspaceSearch {
            has_survey: false,
            queue,
            closed: Some(HashMap::new()),
            ..WorkspaceSearch::new(workspace, control, None)
        };
        let ThreadFindings { paths, .. } = inner.run()?;
        found.marks.extend(paths.marks);
        shut.extend(paths.closed);
    }
    found.marks.sort();
    found.marks.dedup();
    Ok(found)
}

/// Finds the protected paths in these folders and in the root, not below them.
pub fn find_in(workspace: &Workspace, folders: &[WorkspacePath]) -> ProtectedPaths {
    let control = Control::default();
    let search = WorkspaceSearch { has_survey: false, ..WorkspaceSearch::new(workspace, &control, None) };
    let mut part = ThreadFindings::default();
    let root = WorkspacePath::root();
    for folder in std::iter::once(&root).chain(folders.iter().filter(|folder| !folder.is_root())) {
        // The change of a transaction is checked whole; an unreadable folder holds no part of it.
        let _ = part.read_folder(&search, folder);
    }
    part.paths.in_order()
}

/// A search of the whole workspace by several threads.
struct WorkspaceSearch<'a> {
    /// The workspace.
    workspace: &'a Workspace,
    /// Control that cancels the search.
    control: &'a Control,
    /// Paths that the policy protects.
    by_policy: PolicyTest<'a>,
    /// Names, by folder, that the command could not change; `None` before a command.
    closed: Option<HashMap<&'a [u8], Vec<&'a [u8]>>>,
    /// True if all paths are surveyed.
    has_survey: bool,
    /// Watch over all folders.
    watch: Option<&'a FolderWatch>,
    /// Earlier survey, of which only the folders in the queue are read again.
    earlier: Option<&'a Survey>,
    /// Folders to read.
    queue: WorkQueue<WorkspacePath>,
    /// Number of names read so far.
    names: AtomicUsize,
    /// Time at which the search fails.
    deadline: Instant,
}

/// Findings of one thread.
#[derive(Default)]
struct ThreadFindings {
    /// Protected paths.
    paths: ProtectedPaths,
    /// Survey of all paths.
    survey: SurveyBuilder,
}

impl<'a> WorkspaceSearch<'a> {
    /// Creates a search before a command, with a survey.
    fn new(workspace: &'a Workspace, control: &'a Control, by_policy: PolicyTest<'a>) -> Self {
        Self {
            workspace,
            control,
            by_policy,
            closed: None,
            has_survey: true,
            watch: None,
            earlier: None,
            queue: WorkQueue::new(vec![WorkspacePath::root()]),
            names: AtomicUsize::new(0),
            deadline: Instant::now() + REPOSITORY_SEARCH_TIME_MAX,
        }
    }

    /// Reads every folder: on this thread alone while there are few.
    fn run(&self) -> Result<ThreadFindings, Error> {
        let cores = thread::available_parallelism().map_or(1, usize::from).min(REPOSITORY_THREADS_MAX);
        thread::scope(|scope| {
            let mut helpers = Vec::new();
            let mut part = ThreadFindings::default();
            let mut outcome = Ok(());
            while let Some(folder) = self.queue.next() {
                outcome = outcome.and(self.step(&mut part, &folder));
                if helpers.is_empty() && self.names.load(Ordering::Relaxed) > NAMES_ALONE {
                    let start = |_| other_cpu::spawn_scoped(scope, || self.help()).ok();
                    helpers.extend((1..cores).filter_map(start));
                }
            }
            for helper in helpers {
                let ended =
                    helper.join().map_err(|_| Error::internal("a thread that searched ended early"))?;
                let (other, ended) = ended;
                outcome = outcome.and(ended);
                part.merge_findings(other);
            }
            outcome.map(|()| part)
        })
    }

    /// Reads folders until none are left.
    fn help(&self) -> (ThreadFindings, Result<(), Error>) {
        let (mut part, mut outcome) = (ThreadFindings::default(), Ok(()));
        while let Some(folder) = self.queue.next() {
            outcome = outcome.and(self.step(&mut part, &folder));
        }
        (part, outcome)
    }

    /// Reads one folder; stops all threads if that fails.
    fn step(&self, part: &mut ThreadFindings, folder: &WorkspacePath) -> Result<(), Error> {
        let looked = part.read_folder(self, folder).map_err(|errno| self.unfinished(folder, errno));
        let checked = looked.and_then(|below| self.check_limits(folder).map(|()| below));
        match checked {
            Ok(below) => {
                self.queue.finish_item(below);
                Ok(())
            }
            Err(error) => {
                self.queue.clear_queue();
                self.queue.finish_item(Vec::new());
                Err(error)
            }
        }
    }

    /// Fails if the caller has cancelled, or the search takes too long.
    fn check_limits(&self, folder: &WorkspacePath) -> Result<(), Error> {
        self.control.check()?;
        if Instant::now() < self.deadline { Ok(()) } else { Err(self.unfinished(folder, Errno::TIMEDOUT)) }
    }

    /// Returns the error of a search that cannot be finished.
    fn unfinished(&self, folder: &WorkspacePath, errno: Errno) -> Error {
        let shown = self.workspace.display(folder);
        let why = match errno {
            Errno::TIMEDOUT => format!("took more than {} s", REPOSITORY_SEARCH_TIME_MAX.as_secs()),
            errno => format!("failed in {shown}: {errno}"),
        };
        Error::new(
            ErrorKind::CommandDenied,
            format!("the search for repositories {why}; no command runs without it"),
        )
        .at(shown)
        .suggest("Name a smaller workspace with --workspace, or use the file tools.")
    }

    /// Opens a folder and lists its names; watches it first if all folders are watched.
    fn list(&self, folder: &WorkspacePath) -> Result<(OwnedFd, Listing), Errno> {
        let opened = fs::open_beneath(self.workspace.root_fd(), folder, fs::FOLDER)?;
        if let Some(watch) = self.watch {
            watch.add(opened.as_fd(), folder);
        }
        let entries = names_of(opened.as_fd())?;
        Ok((opened, entries))
    }

    /// Returns true if an earlier survey has seen a folder, which then need not be read.
    fn knows(&self, folder: &WorkspacePath, name: &OsStr, stat: &Stat) -> bool {
        self.earlier.is_some_and(|survey| survey.knows_folder(folder, name, stat))
    }

    /// Returns true if there are too many paths for a survey.
    fn is_full(&self) -> bool {
        self.names.load(Ordering::Relaxed) > THINGS_MAX
    }
}

/// Returns true if a name in a folder is an unreadable folder of this account.
fn is_shut(folder: &OwnedFd, name: &OsStr, stat: &Stat) -> bool {
    /// Bits that its owner needs to read it.
    const TO_LOOK: u32 = 0o500;
    if !fs::is_folder(stat) || fs::mode_of(stat) & TO_LOOK == TO_LOOK {
        return false;
    }
    let can_look = || {
        let opened = fs::open_at(folder.as_fd(), name, fs::FOLDER)?;
        fs::stat_at(opened.as_fd(), OsStr::new("."))
    };
    fs::is_own(stat) && can_look().is_err()
}

/// Returns the path of a name in a folder, in the form that the sandbox expects.
fn path_in(folder: &WorkspacePath, name: &OsStr) -> PathBuf {
    Path::new(OsStr::from_bytes(folder.as_bytes())).join(name)
}

/// Returns true if git takes an opened folder with these names for a repository.
fn is_bare(folder: BorrowedFd<'_>, listing: &Listing) -> bool {
    // Few folders hold a `HEAD`; on some disks its case does not matter.
    listing.iter().any(|entry| entry.name.eq_ignore_ascii_case(HEAD.as_bytes())) && is_repository(folder)
}

impl ThreadFindings {
    /// Adds the findings of another thread.
    fn merge_findings(&mut self, other: Self) {
        self.survey.merge_findings(other.survey);
        let mut theirs = other.paths;
        for (own, theirs) in self.paths.lists().into_iter().zip(theirs.lists()) {
            own.append(theirs);
        }
        self.paths.holders.append(&mut theirs.holders);
        self.paths.marks.append(&mut theirs.marks);
    }

    /// Reads a folder; returns the folders below it that must be read as well.
    fn read_folder(
        &mut self,
        search: &WorkspaceSearch<'_>,
        folder: &WorkspacePath,
    ) -> Result<Vec<WorkspacePath>, Errno> {
        let (opened, entries) = match search.list(folder) {
            Ok(found) => found,
            // It was removed, or belongs to another account: the command cannot enter it either.
            Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM)) => {
                self.survey.skip_folder(folder.clone(), errno);
                return Ok(Vec::new());
            }
            Err(errno) => return Err(errno),
        };
        search.names.fetch_add(entries.len(), Ordering::Relaxed);
        let mut entered =
            (search.has_survey && !search.is_full()).then(|| self.survey.enter(folder, entries.len()));
        let mut look = |name: &OsStr, listed: FileType, is_closed: bool| match &mut entered {
            Some(entered) => entered.add(opened.as_fd(), name, is_closed).map(Ok),
            None if listed.is_dir() => fs::stat_at(opened.as_fd(), name).ok().map(Ok),
            None => Some(Err(listed)),
        };
        let closed = search.closed.as_ref().and_then(|closed| closed.get(folder.as_bytes()));
        let known = self.paths.protected.len() + self.paths.states.len();
        let mut below = Vec::new();
        for entry in entries.iter() {
            let name = OsStr::from_bytes(entry.name);
            let is_protected = protect::is_protected(entry.name);
            let is_by_policy = search.by_policy.is_some_and(|by_policy| by_policy(&path_in(folder, name)));
            let is_closed =
                is_by_policy || is_protected || closed.is_some_and(|closed| closed.contains(&entry.name));
            let Some(looked) = look(name, entry.kind, is_closed) else { continue };
            let kind = looked.as_ref().map_or_else(|listed| *listed, fs::type_of);
            if is_protected {
                self.paths.marks.push(folder.join(name));
            }
            if name.eq_ignore_ascii_case(STATE_FOLDER) && kind.is_dir() {
                self.paths.states.push(path_in(folder, name));
            } else if is_protected {
                self.paths.add(search.workspace.root(), &opened, path_in(folder, name), kind);
            } else if is_by_policy {
                self.paths.add_by_policy(search.workspace.root(), path_in(folder, name), kind);
            } else if !is_closed && looked.is_ok_and(|stat| is_shut(&opened, name, &stat)) {
                self.paths.closed.push(path_in(folder, name));
                // The survey finds that it is unreadable.
                below.extend(search.closed.is_some().then(|| folder.join(name)));
            } else if kind.is_dir() && !is_closed {
                if !looked.is_ok_and(|stat| search.knows(folder, name, &stat)) {
                    below.push(folder.join(name));
                }
            } else if kind.is_socket() || kind.is_fifo() {
                self.paths.channels.push(path_in(folder, name));
            }
        }
        if is_bare(opened.as_fd(), &entries) {
            self.paths.marks.push(folder.clone());
            // The root itself cannot be read-only. After a command, its content is part of the comparison.
            if !folder.is_root() && search.closed.is_none() {
                self.paths.protected.push(path_in(folder, OsStr::new("")).components().collect());
                below.clear();
            }
        }
        if self.paths.protected.len() + self.paths.states.len() > known {
            self.paths.holders.push(folder.clone());
        }
        Ok(below)
    }
}

impl ProtectedPaths {
    /// Returns the lists of paths for the sandbox.
    const fn lists(&mut self) -> [&mut Vec<PathBuf>; 5] {
        let Self { protected, by_policy, states, closed, channels, .. } = self;
        [protected, by_policy, states, closed, channels]
    }

    /// Sorts all lists, so that the order of the threads does not matter.
    fn in_order(mut self) -> Self {
        self.lists().into_iter().for_each(|list| list.sort());
        self.protected.dedup();
        self.holders.sort();
        self.marks.sort();
        self
    }

    /// Adds a path with a protected name in an opened folder, and all paths that lead to its target.
    fn add(&mut self, root: &Path, folder: &OwnedFd, path: PathBuf, kind: FileType) {
        let place = root.join(&path);
        if kind.is_symlink() {
            self.add_links(root, &place);
            return;
        }
        if let Some(target) = kind.is_file().then(|| git_folder(folder, &place)).flatten() {
            self.add_links(root, &target);
            if let Some(common) = common_folder(&target) {
                self.add_links(root, &common);
            }
        }
        self.protected.push(path);
    }

    /// Adds a path that the policy protects; a link with its target.
    fn add_by_policy(&mut self, root: &Path, path: PathBuf, kind: FileType) {
        if kind.is_symlink() {
            self.add_links(root, &root.join(&path));
        }
        self.by_policy.push(path.clone());
        self.protected.push(path);
    }

    /// Adds every link in a path, and the target file or folder, if they are in the workspace: elsewhere all paths are
    /// read-only.
    fn add_links(&mut self, root: &Path, path: &Path) {
        let mut follower = LinkFollower::default();
        let target = follower.follow(path);
        let on_way = follower.links.into_keys().chain(target);
        let within = on_way.filter_map(|path| Some(path.strip_prefix(root).ok()?.to_owned()));
        self.protected.extend(within.filter(|path| !path.as_os_str().is_empty()));
    }
}

/// Returns the folder that a `.git` file in an opened folder leads to.
fn git_folder(folder: &OwnedFd, file: &Path) -> Option<PathBuf> {
    let text = small_file(folder, file.file_name()?)?;
    let target = text.strip_prefix(b"gitdir:")?.trim_ascii();
    Some(file.parent()?.join(OsStr::from_bytes(target)))
}

/// Returns the folder that a worktree's git folder shares with others.
fn common_folder(folder: &Path) -> Option<PathBuf> {
    let opened = fs::open_at(CWD, folder.as_os_str(), fs::HANDLE).ok()?;
    let text = small_file(&opened, OsStr::new("commondir"))?;
    Some(folder.join(OsStr::from_bytes(text.trim_ascii())))
}

/// Returns the bytes of a small regular file in an opened folder: does not wait for a FIFO that replaced it, and
/// follows no link.
fn small_file(folder: &OwnedFd, name: &OsStr) -> Option<Vec<u8>> {
    fs::read_at(folder.as_fd(), name, GITFILE_BYTES_MAX).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn search_finds_nested_bare_and_linked_repositories() {
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
        fs::write(root.join("a/bare/HEAD"), "ref: refs/heads/main").unwrap();
        fs::write(root.join("real/worktrees/w/HEAD"), "ref: refs/heads/w").unwrap();
        fs::write(root.join("w/.git"), "gitdir: ../real/worktrees/w\n").unwrap();
        fs::write(root.join("real/worktrees/w/commondir"), "../..\n").unwrap();
        std::os::unix::fs::symlink("../real", root.join("plain/.git")).unwrap();
        std::os::unix::fs::symlink("../plain", root.join("x/in")).unwrap();
        std::os::unix::fs::symlink("in/.git", root.join("x/link-kept")).unwrap();
        let workspace = Workspace::open(&root).unwrap();
        let by_policy = |path: &Path| path.ends_with("kept") || path.ends_with("link-kept");
        let (found, _) =
            find(&workspace, &Control::default(), Some(&by_policy), SearchDepth::ForRepositories).unwrap();
        let wanted = [
            ".git",
            "a/b/.GIT",
            "a/bare",
            "plain/.git",
            "real",
            "real/worktrees/w",
            "w/.git",
            "x/in",
            "x/kept",
            "x/link-kept",
        ];
        assert_eq!(found.protected, wanted.map(PathBuf::from));
        assert_eq!(found.states, [PathBuf::from(".lbx")]);
        let marks: Vec<String> = found.marks.iter().map(ToString::to_string).collect();
        assert_eq!(marks, [".git", ".lbx", "a/b/.GIT", "a/bare", "plain/.git", "real/worktrees/w", "w/.git"]);
        // A second search of these folders finds the same, except removed paths.
        let (found, _) = find(&workspace, &Control::default(), None, SearchDepth::ForRepositories).unwrap();
        assert_eq!(find_in(&workspace, &found.holders), found);
        fs::remove_dir_all(root.join("a/bare/refs")).unwrap();
        fs::create_dir_all(root.join("new/.git")).unwrap();
        let again = find_in(&workspace, &found.holders);
        assert_eq!(
            again.protected,
            [".git", "a/b/.GIT", "plain/.git", "real", "real/worktrees/w", "w/.git"].map(PathBuf::from)
        );
    }
}
