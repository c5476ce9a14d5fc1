//! Finds and opens the repository that holds the snapshots of a workspace.
//!
//! A real folder `.git` is the repository. The target of a pointer or link counts only if it points back to this
//! folder: a linked worktree by its `gitdir`, a submodule by its `core.worktree`; or if the user's own policy names it.
//! lbx follows a pointer by its path, as git does, but only reads until it has found the way back. Anyone can make a
//! pointer, but only someone who may write to the repository can make the way back.
//!
//! A workspace without a usable repository gets a private one below the state folder. It is checked on every open:
//! anything in it that could lead elsewhere is removed or refused.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix::bstr::{BString, ByteSlice as _};
use gix::config::Source;

use super::branch::Branch;
use super::commit_builder::CommitMeta;
use super::dir::Dir;
use super::preflight::{self, CONFIG_BYTES_MAX, RULES, parse_config};
use super::repo::{Repo, RepositoryFolders};
use super::settings::RepositorySettings;
use super::{ErrorContext as _, SnapshotError};
use super::{Limits, Store};
use crate::engine::workspace::fs;
use crate::engine::workspace::stat_cache::{self, FileCache, StatCache};

impl Store {
    /// Opens the snapshots of a workspace, whose state folder exists.
    ///
    /// If gix cannot use the repository there, makes a private one in the state folder, with a warning.
    ///
    /// # Errors
    /// Fails if neither can be opened, or if git rejects the name `branch`.
    pub fn open(place: &RepositoryPaths<'_>, branch: &str) -> Result<Self, SnapshotError> {
        open_or_make(place, branch, RepositoryDemand::Writable)
    }

    /// Opens the snapshots for a change that the store of [`Self::open`] could not record: a repository with damage
    /// where every snapshot begins is replaced by the private one.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_whole(place: &RepositoryPaths<'_>, branch: &str) -> Result<Self, SnapshotError> {
        let mut store = open_or_make(place, branch, RepositoryDemand::Whole)?;
        if let Some(warning) = store.warnings.first_mut() {
            warning.push_str("; `lbx doctor` says what to do");
        }
        Ok(store)
    }

    /// Opens the snapshots of a workspace for reading; makes nothing.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn find(place: &RepositoryPaths<'_>, branch: &str) -> Result<Option<Self>, SnapshotError> {
        match open_with(place, branch, RepositoryDemand::Whole, find_private)? {
            // Without a private repository, the readable part of a damaged one has to do.
            None => Self::find_damaged(place, branch),
            found => Ok(found),
        }
    }

    /// Opens the snapshots for reading, however damaged the workspace's repository is.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn find_damaged(place: &RepositoryPaths<'_>, branch: &str) -> Result<Option<Self>, SnapshotError> {
        open_with(place, branch, RepositoryDemand::Readable, find_private)
    }

    /// Returns false if no object can be added, as on a mount that can only be read.
    fn takes_objects(&self) -> bool {
        fs::may_add_to(self.repo.objects_folder()).is_ok()
    }

    /// Returns the folders in which a snapshot may have to create a file, but this account may not.
    pub fn closed_folders(&self) -> Vec<String> {
        let objects = self.repo.objects_folder();
        // Loose objects lie in folders of two digits.
        let is_used = |name: &&OsString| name.len() == 2 || *name == "pack";
        let names = objects.names().unwrap_or_default();
        let folders = names.iter().filter(is_used).filter_map(|name| objects.folder(name).ok()?);
        let closed =
            folders.chain(self.branch.folder(&self.repo)).filter(|folder| fs::may_add_to(folder).is_err());
        closed.map(|folder| folder.path().display().to_string()).collect()
    }

    /// Fails if HEAD, the snapshot branch, or the tree below the next snapshot cannot be read.
    fn check(&self) -> Result<(), SnapshotError> {
        let tree = self.start(CommitMeta::default())?.1.tree;
        self.repo.take_new();
        if tree.is_empty_tree() { Ok(()) } else { self.repo.find_tree(tree).map(|_| ()) }
    }
}

/// Demand on the workspace's repository; where it is not met, the private one takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RepositoryDemand {
    /// It can be read in part.
    Readable,
    /// Objects can be added to it.
    Writable,
    /// It also has no damage where every snapshot begins.
    Whole,
}

/// Opens the workspace's repository if it is usable, else the private one, which it makes if missing.
fn open_or_make(
    place: &RepositoryPaths<'_>,
    branch: &str,
    demand: RepositoryDemand,
) -> Result<Store, SnapshotError> {
    open_with(place, branch, demand, |place| open_private(place).map(Some))?
        .ok_or_else(|| SnapshotError::new("there is no private snapshot repository"))
}

/// Opens the workspace's repository if it is usable, else the one that `private` returns.
fn open_with(
    place: &RepositoryPaths<'_>,
    branch: &str,
    demand: RepositoryDemand,
    private: impl FnOnce(&RepositoryPaths<'_>) -> Result<Option<Dir>, SnapshotError>,
) -> Result<Option<Store>, SnapshotError> {
    let store = |repo, worktree: Option<&OsStr>, private, warning: Option<String>| {
        let branch = Branch::new(branch, worktree)?;
        let warnings = warning.into_iter().collect();
        let limits = Limits::default();
        let place = place.state_place()?;
        Ok::<_, SnapshotError>(Store { repo, branch, private, apart: false, place, limits, warnings })
    };
    let root = place.root;
    // Small files of the repository that earlier calls have read.
    let files: Option<Arc<FileCache>> =
        place.kept.lasting_value((root, "files of the repository"), stat_cache::CACHE_BYTES_MAX);
    let mut work_tree = place.root_folder()?.keeping(files.clone());
    let found = locate(&work_tree, place.git_dirs)
        .context(|| format!("cannot look at `{}`", root.join(".git").display()))?;
    let (refusal, unusable) = match found {
        GitDir::Absent => (None, None),
        GitDir::Odd(why) => (Some(why), None),
        GitDir::Here(located) => match open_located(&work_tree, &located) {
            // It is usable in itself: the caller tries again, or the next call does.
            Err(error) if error.is_passing() => return Err(error),
            Ok((folders, settings)) => {
                let repo = Repo::new(work_tree, folders, settings);
                let store = store(repo, located.worktree.as_deref(), false, None)?;
                let can_write = demand == RepositoryDemand::Readable || store.takes_objects();
                match if demand == RepositoryDemand::Whole && can_write { store.check() } else { Ok(()) } {
                    Err(error) if !error.is_passing() => {
                        work_tree = store.repo.into_work_tree();
                        (Some(error.to_string()), Some(located))
                    }
                    // That is no damage, of which each call warns.
                    Ok(()) if !can_write => {
                        work_tree = store.repo.into_work_tree();
                        (None, Some(located))
                    }
                    checked => return checked.map(|()| Some(store)),
                }
            }
            Err(_) if is_empty(&work_tree) => (None, None),
            Err(error) => (Some(error.to_string()), Some(located)),
        },
    };
    let Some(own) = private(place)?.map(|own| own.keeping(files)) else {
        return Ok(None);
    };
    let apart = refusal.is_some() || unusable.is_some();
    // Its ignore rules and line-ending settings still count.
    let settings = unusable.map(|located| adopt_rules(&own, &located)).transpose()?;
    let settings =
        RepositorySettings::of(PRIVATE_CONFIG.as_bytes(), &own, &own, &settings.unwrap_or_default())?;
    let shown = own.path().strip_prefix(root).unwrap_or(own.path()).display().to_string();
    let warning = refusal
        .map(|why| format!("snapshots go to the private repository `{shown}`, since {}", lower_first(&why)));
    let repo = Repo::new(work_tree, RepositoryFolders::of(own, None)?, settings);
    Ok(Some(Store { apart, ..store(repo, None, true, warning)? }))
}

/// Opens a repository that was found; fails if it is unusable.
fn open_located(
    work_tree: &Dir,
    located: &GitFolder,
) -> Result<(RepositoryFolders, RepositorySettings), SnapshotError> {
    let opened = |path: &Path| {
        let folder = Dir::open(path).context(|| format!("`{}` cannot be opened", path.display()))?;
        Ok(folder.keeping(work_tree.files().cloned()))
    };
    let own = opened(&located.path)?;
    let common = located.common.as_deref().map(opened).transpose()?;
    let settings = RepositorySettings::read(common.as_ref().unwrap_or(&own), &own)?;
    let shared = |folder: Dir| folder.shared(settings.sharing());
    let folders = RepositoryFolders::of(shared(own), common.map(shared))?;
    settings.check_rules(work_tree.path())?;
    Ok((folders, settings))
}

/// Returns `text` on one line, with a lower-case first letter unless that begins a name such as `HEAD`, for use
/// inside a sentence.
fn lower_first(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().take(2).all(char::is_uppercase) {
        return line;
    }
    let mut chars = line.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// Longest pointer file that is read, such as `.git`, in bytes.
const POINTER_BYTES_MAX: u64 = 4096;

/// Paths of a workspace and its snapshots.
#[derive(Debug, Clone, Copy)]
pub struct RepositoryPaths<'a> {
    /// Workspace, a canonical absolute path.
    pub root: &'a Path,
    /// The workspace, if it is open.
    pub root_fd: Option<&'a Arc<OwnedFd>>,
    /// Folder of lbx's own files, below it.
    pub state: &'a Path,
    /// State folder, if it is open.
    pub state_fd: Option<&'a Arc<OwnedFd>>,
    /// Git folders elsewhere that the user trusts as targets of `.git`.
    pub git_dirs: &'a [PathBuf],
    /// Cache that lasts from one call to the next.
    pub kept: &'a StatCache,
}

impl RepositoryPaths<'_> {
    /// Opens the state folder, without following a link.
    ///
    /// # Errors
    /// Returns the OS error; `ENOTDIR` or `ELOOP` if a link or a file is on the way.
    pub fn state_folder(&self) -> Result<Option<Dir>, SnapshotError> {
        self.state_place()?.open()
    }

    /// Returns the workspace, opened.
    fn root_folder(&self) -> Result<Dir, SnapshotError> {
        match self.root_fd {
            Some(fd) => Ok(Dir::of(fd, self.root)),
            None => Dir::open(self.root).context(|| format!("`{}` cannot be read", self.root.display())),
        }
    }

    /// Returns the place of the state folder.
    fn state_place(&self) -> Result<StatePlace, SnapshotError> {
        let (root, state) = (self.root_folder()?, self.state.to_owned());
        Ok(StatePlace { root, state, state_fd: self.state_fd.map(Arc::clone) })
    }
}

/// Place of the state folder.
#[derive(Debug)]
pub struct StatePlace {
    /// Workspace.
    root: Dir,
    /// Folder of lbx's own files, below it.
    pub state: PathBuf,
    /// State folder, if it is open.
    state_fd: Option<Arc<OwnedFd>>,
}

impl StatePlace {
    /// Opens the state folder, without following a link.
    ///
    /// # Errors
    /// As [`RepositoryPaths::state_folder`].
    pub fn open(&self) -> Result<Option<Dir>, SnapshotError> {
        if let Some(opened) = &self.state_fd {
            return Ok(Some(Dir::of(opened, &self.state)));
        }
        let doing = || format!("`{}` cannot be opened as a folder of its own", self.state.display());
        self.root.folder(self.state.strip_prefix(self.root.path()).context(doing)?).context(doing)
    }
}

/// Type and content found at `.git`.
#[derive(Debug)]
pub enum GitDir {
    /// Nothing.
    Absent,
    /// Git folder of this work tree.
    Here(GitFolder),
    /// Something that lbx must not follow, with the reason.
    Odd(String),
}

/// Git folder of the workspace.
#[derive(Debug)]
pub struct GitFolder {
    /// Folder that holds `HEAD`.
    pub path: PathBuf,
    /// Folder of the whole repository, if `path` is a linked worktree's.
    pub common: Option<PathBuf>,
    /// Name of the linked worktree, if it is one.
    pub worktree: Option<OsString>,
}

/// Examines `.git` in `folder`, the work tree. `allowed` lists git folders elsewhere that the user has named.
///
/// # Errors
/// Fails if the file system fails.
pub fn locate(folder: &Dir, allowed: &[PathBuf]) -> io::Result<GitDir> {
    let root = folder.path();
    let Some(stat) = folder.stat(".git")? else { return Ok(GitDir::Absent) };
    let path = root.join(".git");
    let odd = |why: &str| Ok(GitDir::Odd(why.to_owned()));
    if fs::is_folder(&stat) {
        // It must be the whole repository.
        if folder.stat(".git/commondir").is_ok_and(|stat| stat.is_some()) {
            return odd("`.git` takes its objects from another folder");
        }
        return Ok(GitDir::Here(GitFolder { path, common: None, worktree: None }));
    }
    // A link or a pointer may lead anywhere, so its target must point back.
    let file = match leads_to(&path) {
        Ok((path, true)) => return folder_elsewhere(root, path, allowed),
        Ok((file, false)) => file,
        Err(_) => return odd("`.git` points to a folder that is not there"),
    };
    let holder = file.parent().and_then(|holder| Dir::open(holder).ok());
    let pointer = holder.zip(file.file_name()).and_then(|(holder, name)| {
        read_pointer(&holder, name, b"gitdir:").map(|target| holder.path().join(target))
    });
    let Some(target) = pointer else { return odd("`.git` is neither a folder nor a pointer to one") };
    match leads_to(&target) {
        Ok((path, true)) => folder_elsewhere(root, path, allowed),
        Ok(_) | Err(_) => odd("`.git` points to a folder that is not there"),
    }
}

/// Returns the canonical folders outside a work tree that git reads for it: those of a linked worktree's or a
/// submodule's repository, and those with borrowed objects.
pub fn git_folders(root: &Path, allowed: &[PathBuf]) -> Vec<PathBuf> {
    let located = Dir::open(root).ok().and_then(|folder| locate(&folder, allowed).ok());
    let Some(GitDir::Here(located)) = located else { return Vec::new() };
    let repository = located.common.unwrap_or(located.path);
    // Most repositories borrow no objects, and then nothing else is read.
    let objects = Dir::open(&repository.join("objects")).ok();
    let objects = objects.filter(|it| it.stat(preflight::ALTERNATES).is_ok_and(|list| list.is_some()));
    let borrowed = objects.and_then(|objects| preflight::alternates(&objects).ok()).unwrap_or_default();
    let is_store = |path: &Path| path.file_name() == Some(OsStr::new("objects"));
    let borrowed = borrowed.iter().map(|folder| folder.path().to_owned()).filter(|path| is_store(path));
    std::iter::once(repository).chain(borrowed).filter(|folder| !folder.starts_with(root)).collect()
}

/// Returns true if `.git` in `folder` is an empty folder, as commands get where there is no repository: git does not
/// count it as one.
pub fn is_empty(folder: &Dir) -> bool {
    let inner = folder.folder(".git").ok().flatten();
    inner.is_some_and(|inner| inner.names().is_ok_and(|names| names.is_empty()))
}

/// Checks a git folder outside `root/.git`: it must point back to `root`, or the user must have named it.
fn folder_elsewhere(root: &Path, path: PathBuf, allowed: &[PathBuf]) -> io::Result<GitDir> {
    let folder = Dir::open(&path)?;
    if folder.stat("commondir")?.is_some() {
        return Ok(linked_worktree(root, path, &folder));
    }
    let is_allowed = allowed.iter().any(|allowed| leads_to(allowed).is_ok_and(|(it, _)| it == path));
    if is_allowed || work_tree(&folder).as_deref() == Some(root) {
        return Ok(GitDir::Here(GitFolder { path, common: None, worktree: None }));
    }
    let shown = path.display();
    Ok(GitDir::Odd(format!(
        "`.git` leads to `{shown}`, which does not point back to this folder; where it is yours, set snapshot.git_dirs = [\"{shown}\"] in your own policy file"
    )))
}

/// Returns the work tree that a git folder's own configuration names.
fn work_tree(folder: &Dir) -> Option<PathBuf> {
    let bytes = folder.read("config", CONFIG_BYTES_MAX).ok()??;
    let named =
        parse_config(&bytes, Source::Local, folder.path().join("config")).ok()?.string("core.worktree")?;
    Some(leads_to(&folder.path().join(named.to_path().ok()?)).ok()?.0)
}

/// Checks the git folder of a linked worktree: it must lie in its repository and point back to `root`.
fn linked_worktree(root: &Path, path: PathBuf, folder: &Dir) -> GitDir {
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
    GitDir::Here(GitFolder { path, common, worktree: name })
}

/// Returns the target of a name, and true if it is a folder.
#[expect(
    clippy::disallowed_methods,
    reason = "git follows the name; what it leads to is then opened and must point back"
)]
fn leads_to(name: &Path) -> io::Result<(PathBuf, bool)> {
    let path = std::fs::canonicalize(name)?;
    let is_folder = path.is_dir();
    Ok((path, is_folder))
}

/// Returns the path in a one-line file, after `prefix`; `None` if the file has another form.
fn read_pointer(folder: &Dir, name: impl AsRef<Path>, prefix: &[u8]) -> Option<PathBuf> {
    let bytes = folder.read(name, POINTER_BYTES_MAX).ok()??;
    let line = bytes.strip_prefix(prefix)?.trim_start_with(|c| c == ' ');
    let line = line.trim_end_with(|c| c == '\n' || c == '\r');
    if line.is_empty() { None } else { line.to_path().ok().map(Path::to_owned) }
}

/// Settings of an unusable repository that still count.
const SETTINGS: [&str; 5] =
    ["core.excludesFile", "core.attributesFile", "core.autocrlf", "core.eol", "core.fileMode"];
/// Name of the private repository in the state folder.
const PRIVATE_FOLDER: &str = "repo.git";
/// Folders of the private repository.
const PRIVATE_FOLDERS: [&str; 6] =
    ["objects", "objects/pack", "objects/info", "refs", "refs/heads", "refs/tags"];
/// Configuration of the private repository: bare, so that nobody takes the state folder for a work tree.
const PRIVATE_CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
/// HEAD of the private repository.
const PRIVATE_HEAD: &str = "ref: refs/heads/main\n";
/// Files that lead elsewhere, which lbx never writes there.
const LEADING_ELSEWHERE: [&str; 6] = [
    "commondir",
    "config.worktree",
    "gitdir",
    "shallow",
    "objects/info/alternates",
    "objects/info/http-alternates",
];

/// Returns the private repository; makes it if missing.
///
/// `HEAD` is written last, since it makes a folder a repository: the next call completes what a killed call leaves.
/// Runs no hook and uses no template.
///
/// # Errors
/// Fails if the file system fails, or if a folder is replaced by a link.
fn open_private(place: &RepositoryPaths<'_>) -> Result<Dir, SnapshotError> {
    let doing = || {
        "cannot make the private snapshot repository: `repo.git` cannot be opened as a folder of its own"
            .into()
    };
    let state =
        place.state_folder()?.ok_or_else(|| SnapshotError::new("there is no folder for lbx's own files"))?;
    let folder = state.make_folder(PRIVATE_FOLDER).context(doing)?;
    if let Err(found) = check_private(&folder) {
        remove_leading_elsewhere(&folder);
        check_private(&folder).map_err(|_| found)?;
    }
    if is_as_written(&folder) {
        return Ok(folder);
    }
    for name in PRIVATE_FOLDERS {
        folder
            .make_folder(name)
            .context(|| format!("cannot make `{}`", folder.path().join(name).display()))?;
    }
    write_private(&folder, "config", PRIVATE_CONFIG.as_bytes())?;
    write_private(&folder, "HEAD", PRIVATE_HEAD.as_bytes())?;
    folder.sync().context(doing)?;
    Ok(folder)
}

/// Returns the private repository, if it exists.
///
/// # Errors
/// Fails if a folder is replaced by a link.
fn find_private(place: &RepositoryPaths<'_>) -> Result<Option<Dir>, SnapshotError> {
    let Some(state) = place.state_folder()? else { return Ok(None) };
    let doing = || "the private snapshot repository cannot be opened as a folder of its own".into();
    let found = state.folder(PRIVATE_FOLDER).context(doing)?.filter(is_as_written);
    found.as_ref().map_or(Ok(()), check_private)?;
    Ok(found)
}

/// Removes the files that lead elsewhere. A folder of such a name stays.
fn remove_leading_elsewhere(folder: &Dir) {
    for path in LEADING_ELSEWHERE.map(Path::new) {
        let parent = folder.folder(path.parent().unwrap_or(path)).ok().flatten();
        let _ = parent.map(|parent| parent.remove(path.file_name().unwrap_or_default()));
    }
}

/// Returns true if the files of the private repository have the content that lbx wrote.
fn is_as_written(folder: &Dir) -> bool {
    [("HEAD", PRIVATE_HEAD), ("config", PRIVATE_CONFIG)].iter().all(|(name, wanted)| {
        let read = folder.read(name, wanted.len() as u64);
        read.is_ok_and(|read| read.is_some_and(|read| read == wanted.as_bytes()))
    })
}

/// Fails if something in the private repository leads elsewhere, or is not a file or folder.
///
/// # Errors
/// Names the offending entry.
fn check_private(folder: &Dir) -> Result<(), SnapshotError> {
    for name in LEADING_ELSEWHERE {
        let shown = || format!("`{}` should not be there", folder.path().join(name).display());
        if folder.stat(name).context(shown)?.is_some() {
            return Err(SnapshotError::new(shown()));
        }
    }
    Ok(())
}

/// Copies the rules of an unusable repository to the private one: the files in its `info`. Returns the settings that
/// name other rule files, as overrides.
///
/// # Errors
/// Fails if the rules exist but cannot be read: ignored files may be secrets, which must not enter the private
/// repository either.
pub fn adopt_rules(own: &Dir, unusable: &GitFolder) -> Result<Vec<BString>, SnapshotError> {
    let path = unusable.common.as_ref().unwrap_or(&unusable.path);
    let folder = Dir::open(path).context(|| format!("`{}` cannot be read", path.display()))?;
    for name in RULES {
        let rules = preflight::rules(&folder, name)?.unwrap_or_default();
        if preflight::rules(own, name).ok().flatten().unwrap_or_default() != rules {
            write_private(own, name, &rules)?;
        }
    }
    let Ok(Some(bytes)) = folder.read("config", CONFIG_BYTES_MAX) else { return Ok(Vec::new()) };
    let Ok(parsed) = parse_config(&bytes, Source::Local, path.join("config")) else { return Ok(Vec::new()) };
    let mut settings = Vec::new();
    for name in SETTINGS {
        let Some(value) = parsed.string(name) else { continue };
        let named = preflight::resolved(&path.join("config"), &value.to_path_lossy());
        if name.ends_with("File") {
            preflight::check_rules_at(&named, name)?;
        }
        settings.push(BString::from(format!("{name}={value}")));
    }
    Ok(settings)
}

/// Writes a file of the private repository whole or not at all; replaces whatever has its name.
fn write_private(own: &Dir, name: &str, bytes: &[u8]) -> Result<(), SnapshotError> {
    let doing = || format!("cannot write `{}`", own.path().join(name).display());
    let path = Path::new(name);
    let (parent, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
    let folder = own.make_folder(parent).context(doing)?;
    let aside = path.with_extension("new").file_name().unwrap_or_default().to_owned();
    let file = folder.write_new(&aside, 0o666, bytes).context(doing)?;
    file.sync_all().context(doing)?;
    folder.rename(&aside, &folder, name).context(doing)
}
