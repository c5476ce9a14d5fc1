//! The workspace: one root folder, opened once; every file is reached from it.

pub mod digest;
pub mod fs;
pub mod git_files;
pub mod listing;
pub mod metadata;
pub mod path;
pub mod programs;
pub mod protect;
pub mod removal;
pub mod resolve;
pub mod stat_cache;
pub mod survey;
pub mod sync;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use path::{ShownPath, WorkspacePath};
use protect::{HEAD, is_repository, is_work_tree, protected_component};
use resolve::ResolvedPath;
use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use stat_cache::StatCache;

use crate::error::{Error, ErrorKind};
use crate::text::{escaped, similarity};

/// Default time that one holder may keep a lock.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// Names in a folder that mark it as a workspace root.
const ROOT_MARKS: [&str; 2] = [STATE_MARK, GIT_MARK];
/// Mark that lbx makes.
const STATE_MARK: &str = ".lbx";
/// Mark that also counts in `/`.
const GIT_MARK: &str = ".git";

/// A root folder, and the folder to which relative paths are relative.
#[derive(Debug)]
pub struct Workspace {
    /// Canonical absolute path of the root, for messages and for programs that want a path.
    root: PathBuf,
    /// The root itself; every file is opened from here.
    root_fd: Arc<OwnedFd>,
    /// Folder to which relative paths are relative.
    base: WorkspacePath,
    /// Longest time that one holder may keep a lock before waiters give up.
    lock_wait: Duration,
    /// Cache that lives from one call to the next.
    kept: Arc<StatCache>,
    /// Note on other workspaces in the error for a path outside.
    outside: Option<String>,
    /// Absolute path that means the root, and with which paths are shown.
    root_name: Option<&'static str>,
}

impl Workspace {
    /// Returns the workspace at `explicit`, else at the nearest ancestor of `current` with `.lbx` or `.git`, else at
    /// `current`. Paths are relative to `current` if it lies inside.
    ///
    /// # Errors
    /// `not_found` or `not_a_directory` where `explicit` is not a folder, `protected_path` where the root
    /// would lie in the state of git or lbx; `invalid_request` where nothing names a workspace and `current` is
    /// the disk, a home folder or a folder of the system.
    #[expect(
        clippy::disallowed_methods,
        reason = "the folder of the caller, from which relative paths count"
    )]
    pub fn discover(explicit: Option<&Path>, current: &Path) -> Result<Self, Error> {
        let root = if let Some(path) = explicit {
            current.join(path)
        } else {
            match nearest_root(current) {
                Some(root) => root.to_owned(),
                None => must_be_meant(current).map(|()| current.to_owned())?,
            }
        };
        let mut workspace = Self::open(&root)?;
        if current != workspace.root {
            workspace.base = std::fs::canonicalize(current)
                .ok()
                .and_then(|current| WorkspacePath::new(current.strip_prefix(&workspace.root).ok()?))
                .unwrap_or_default();
        }
        Ok(workspace)
    }

    /// Returns true if a call from `here`, where lbx keeps state, reaches this workspace only by naming it.
    pub fn is_another_than(&self, here: &Self) -> bool {
        fs::stat_at(here.root_fd(), OsStr::new(STATE_MARK)).is_ok() && !self.root.starts_with(&here.root)
    }

    /// The workspace whose root is `root`; relative paths count from the root.
    ///
    /// # Errors
    /// `not_found` or `not_a_directory` where it is not a folder, `protected_path` where it lies in the
    /// state of git or lbx.
    #[expect(
        clippy::disallowed_methods,
        reason = "the root as the caller names it; all else is reached beneath it"
    )]
    pub fn open(root: &Path) -> Result<Self, Error> {
        let shown = root.display().to_string();
        let open_error = |source: std::io::Error| {
            Error::io("open the workspace", shown.clone(), source)
                .suggest("Name an existing folder with --workspace (or LBX_WORKSPACE).")
        };
        let flags = fs::HANDLE.difference(OFlags::NOFOLLOW);
        let (root, root_fd) = if let Some(opened) = fs::open_plain(root, flags) {
            (root.to_owned(), opened.map_err(|errno| open_error(errno.into()))?)
        } else {
            let root = std::fs::canonicalize(root).map_err(open_error)?;
            let opened = rustix::io::retry_on_intr(|| rustix::fs::open(&root, flags, Mode::empty()));
            (root, opened.map_err(|errno| open_error(errno.into()))?)
        };
        must_be_outside_git(&root, root_fd.as_fd())?;
        let (root_fd, kept) = (Arc::new(root_fd), Arc::default());
        let base = WorkspacePath::root();
        Ok(Self { root, root_fd, base, lock_wait: LOCK_WAIT, kept, outside: None, root_name: None })
    }

    /// Returns the workspace with the cache of earlier calls.
    #[must_use]
    pub fn keeping(self, kept: &Arc<StatCache>) -> Self {
        Self { kept: Arc::clone(kept), ..self }
    }

    /// Returns cache that lives from one call to the next.
    pub const fn cache(&self) -> &Arc<StatCache> {
        &self.kept
    }

    /// Returns the canonical absolute path of the root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the opened root, for calls relative to it.
    pub fn root_fd(&self) -> BorrowedFd<'_> {
        self.root_fd.as_fd()
    }

    /// Returns a shared handle to the root, for what outlives a borrow.
    pub const fn root_handle(&self) -> &Arc<OwnedFd> {
        &self.root_fd
    }

    /// Sets a note on other workspaces for the error about a path outside.
    pub fn note_outside(&mut self, note: String) {
        self.outside = Some(note);
    }

    /// Returns the note on other workspaces in the error for a path outside.
    pub fn other_workspaces_note(&self) -> Option<&str> {
        self.outside.as_deref()
    }

    /// Returns the longest time that one holder may keep a lock before waiters give up.
    pub fn lock_wait(&self) -> Duration {
        self.lock_wait
    }

    /// Sets that time.
    pub fn set_lock_wait(&mut self, lock_wait: Duration) {
        self.lock_wait = lock_wait;
    }

    /// Returns the folder to which relative paths are relative.
    pub fn base(&self) -> &WorkspacePath {
        &self.base
    }

    /// Returns `path` for responses: relative to the base, lossy if it is not UTF-8.
    pub fn display(&self, path: &WorkspacePath) -> String {
        self.callers_path(path).to_string_lossy().into_owned()
    }

    /// Returns a path as the caller writes it.
    fn callers_path(&self, path: &WorkspacePath) -> PathBuf {
        match self.root_name {
            Some(name) => Path::new(name).join(path.as_path()).components().collect(),
            None => path.relative_to(&self.base),
        }
    }

    /// Returns `path` for lists, as [`Self::display`], with its bytes.
    pub fn list_path(&self, path: &WorkspacePath) -> ShownPath {
        ShownPath::of(&self.callers_path(path))
    }

    /// Opens a place for reading, if it is a regular file; never blocks.
    ///
    /// # Errors
    /// `not_found` (with near names), `is_a_directory`, `not_a_regular_file`, or the system's.
    pub fn open_file(&self, place: &ResolvedPath) -> Result<(File, Stat), Error> {
        let Some(stat) = place.stat() else {
            return Err(self.not_found(place));
        };
        must_be_regular(stat, place.display())?;
        self.open_regular(place.path(), place.display())
    }

    /// Opens a path below the root for reading, through no symlink, if it is a regular file.
    ///
    /// # Errors
    /// As [`Self::open_file`], without near names.
    pub fn open_regular(&self, path: &WorkspacePath, shown: &str) -> Result<(File, Stat), Error> {
        let fd = fs::open_beneath(self.root_fd(), path, fs::READ).map_err(|errno| {
            let error = Error::io("open", shown, errno);
            let is_own = || fs::stat_beneath(self.root_fd(), path).is_ok_and(|stat| fs::is_own(&stat));
            if errno != Errno::ACCESS || !is_own() {
                return error;
            }
            error.suggest(format!("Let yourself in first (chmod u+rw {shown}), or leave it alone."))
        })?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| Error::io("look at", shown, errno))?;
        must_be_regular(&stat, shown)?;
        Ok((File::from(fd), stat))
    }

    /// Opens a folder below the root for listing or syncing, through no symlink.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn open_folder(&self, path: &WorkspacePath) -> Result<OwnedFd, Error> {
        fs::open_beneath(self.root_fd(), path, fs::FOLDER)
            .map_err(|errno| Error::io("open the folder", self.display(path), errno))
    }

    /// Opens the folder at a canonical path; `None` if it is missing, or behind a file or symlink.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find_folder(&self, path: &WorkspacePath) -> Result<Option<OwnedFd>, Error> {
        match fs::open_beneath(self.root_fd(), path, fs::FOLDER) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(Error::io("open the folder", self.display(path), errno)),
        }
    }
}

/// Fails for a root in the state of git or lbx, where no file tool writes. `root` is canonical.
fn must_be_outside_git(root: &Path, root_fd: BorrowedFd<'_>) -> Result<(), Error> {
    let error = |why: String| {
        Err(Error::new(
            ErrorKind::ProtectedPath,
            format!("{} cannot be the workspace: {why}", root.display()),
        )
        .at(root.display().to_string())
        .suggest("Name the folder of the files themselves with --workspace (or LBX_WORKSPACE)."))
    };
    if let Some(name) = protected_component(root) {
        return error(format!("it lies in {}, which no file tool writes", name.display()));
    }
    let mut way = String::new();
    for folder in root.ancestors() {
        let above = if folder == root {
            None
        } else {
            way.push_str("../");
            // Few folders have either, and these two looks are then all.
            let is_missing =
                |name| matches!(fs::stat_at(root_fd, format!("{way}{name}").as_ref()), Err(Errno::NOENT));
            if is_missing(HEAD) && is_missing(GIT_MARK) {
                continue;
            }
            match rustix::fs::open(folder, fs::HANDLE, Mode::empty()) {
                Ok(opened) => Some(opened),
                Err(_) => continue,
            }
        };
        let opened = above.as_ref().map_or(root_fd, AsFd::as_fd);
        if is_repository(opened) {
            // A folder that may not be searched counts as one; what is known of it is only that.
            if let Err(errno) = fs::stat_at(opened, OsStr::new(HEAD))
                && errno != Errno::NOENT
            {
                return Err(Error::io("look into", folder.display().to_string(), errno));
            }
            return error(format!("git uses {} as a repository", folder.display()));
        }
        // A work tree begins here, perhaps one that lies next to the files of its own repository.
        if is_work_tree(opened) {
            break;
        }
    }
    Ok(())
}

/// The nearest folder from `current` upwards that is marked as a root. A `.lbx` in `/` marks none: nobody works on
/// the whole disk.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "only whether a mark is there: the root is found before it can be opened"
)]
pub fn nearest_root(current: &Path) -> Option<&Path> {
    let is_root = |folder: &&Path| {
        let marks = if folder.parent().is_some() { &ROOT_MARKS[..] } else { &[GIT_MARK] };
        marks.iter().any(|mark| std::fs::symlink_metadata(folder.join(mark)).is_ok())
    };
    current.ancestors().find(is_root)
}

/// Returns true if a canonical folder is the home folder of this user.
#[expect(clippy::disallowed_methods, reason = "only compares names: where the user's home folder is")]
pub fn is_home(folder: &Path) -> bool {
    std::env::var_os("HOME").is_some_and(|home| std::fs::canonicalize(home).is_ok_and(|home| home == folder))
}

/// Fails for a folder that nobody means as a workspace unless named: the disk, a home folder, or a system folder.
///
/// # Errors
/// Returns `invalid_request`.
pub fn must_be_meant(current: &Path) -> Result<(), Error> {
    /// Folders that hold those of others.
    const SHARED: [&str; 11] =
        ["/home", "/root", "/usr", "/var", "/var/lib", "/opt", "/srv", "/mnt", "/media", "/run", "/Users"];
    /// Folders that are the system's with all below them.
    const SYSTEM: [&str; 13] = [
        "/etc",
        "/bin",
        "/sbin",
        "/lib",
        "/lib64",
        "/boot",
        "/dev",
        "/proc",
        "/sys",
        "/usr/bin",
        "/usr/sbin",
        "/usr/lib",
        "/usr/lib64",
    ];
    if nearest_root(current).is_some() {
        return Ok(());
    }
    let what = if current.parent().is_none() {
        "the whole disk"
    } else if is_home(current) {
        "a home folder"
    } else if SHARED.iter().any(|folder| current == Path::new(folder))
        || SYSTEM.iter().any(|folder| current.starts_with(folder))
    {
        "a folder of the system"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("no workspace is named, and {} is {what}", current.display()))
        .suggest("Name the project's folder: --workspace DIR, or LBX_WORKSPACE."))
}

/// Fails for anything but a regular file.
fn must_be_regular(stat: &Stat, shown: &str) -> Result<(), Error> {
    if fs::is_regular(stat) {
        return Ok(());
    }
    Err(if fs::is_folder(stat) {
        Error::new(ErrorKind::IsADirectory, format!("{shown} is a directory"))
    } else {
        Error::new(
            ErrorKind::NotARegularFile,
            format!("{shown} is a {}, not a regular file", type_name(stat)),
        )
    }
    .at(shown))
}

/// Returns the name of a type that is neither file nor folder.
fn type_name(stat: &Stat) -> &'static str {
    use rustix::fs::FileType;
    match fs::type_of(stat) {
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Symlink => "symlink",
        _ => "special file",
    }
}

/// Most similar names in an error.
const NEAR_MAX: usize = 3;
/// Most names of a folder that are compared.
const NAMES_COMPARED_MAX: usize = 20_000;
/// Most files searched for the same name where git tracks none: about 4 ms on a warm disk.
const FILES_LOOKED_AT_MAX: usize = 2_000;
/// Most files searched for the same name besides those that git tracks.
const UNTRACKED_LOOKED_AT_MAX: usize = 250;
/// Smallest similarity of two names, 0 to 1.
const LIKENESS_MIN: f32 = 0.6;
/// Smallest similarity of their stems.
const STEM_LIKENESS_MIN: f32 = 0.5;

/// A name as a reader can tell it from another that looks the same: with the numbers of what is not ASCII.
fn with_code_points(name: &str) -> String {
    if name.is_ascii() {
        return name.to_owned();
    }
    let escape = |character: char| match character {
        character if character.is_ascii() => character.to_string(),
        character => character.encode_utf16(&mut [0; 2]).iter().fold(String::new(), |mut text, unit| {
            // Writing into a text cannot fail.
            let _ = write!(text, "\\u{unit:04x}");
            text
        }),
    };
    format!("{name} (in JSON \"{}\")", name.chars().map(escape).collect::<String>())
}

impl Workspace {
    /// Returns `not_found` for a place where nothing is, with up to three near paths.
    pub fn not_found(&self, place: &ResolvedPath) -> Error {
        let mut near = self.near(place.path());
        // The name that was given may be a link to a missing file of a like name.
        near.retain(|path| path != place.display());
        let entry = self.resolve_entry(Path::new(place.display()));
        let target = entry
            .ok()
            .and_then(|entry| entry.stat().is_some_and(fs::is_symlink).then(|| self.display(place.path())));
        let error =
            Error::new(ErrorKind::NotFound, format!("no such file: {}", place.display())).at(place.display());
        let error = match &target {
            Some(target) => error.add_to_message(format!(", which is a symlink to {target}")),
            None => error,
        };
        match (near.as_slice(), target) {
            ([], None) => error,
            ([], Some(target)) => {
                error.suggest(format!("Create the missing file {target}, or give the path of another one."))
            }
            // A question and no order: a guess may be a file that nobody meant.
            (near_ones, _) => {
                let told: Vec<String> = near_ones.iter().map(|near| with_code_points(near)).collect();
                error.suggest(format!("Did you mean {}?", told.join(", "))).detail("near", near)
            }
        }
    }

    /// Returns the path of the only file whose name looks like that of a missing one: the names differ by Unicode form or
    /// invisible characters.
    pub fn similar_path(&self, place: &ResolvedPath) -> Option<PathBuf> {
        let name = place.path().name().filter(|_| place.stat().is_none())?.to_str()?;
        let folder = place.path().parent()?;
        let (form, mut alike) = (escaped::visible_form(name), self.siblings(&folder));
        alike.retain(|sibling| escaped::visible_form(sibling) == form);
        let [only] = alike.as_slice() else { return None };
        Some(self.root().join(folder.join(OsStr::new(only)).as_path()))
    }

    /// Returns up to three paths similar to `missing`: in its own folder, else of the same name elsewhere.
    fn near(&self, missing: &WorkspacePath) -> Vec<String> {
        let Some(name) = missing.name().and_then(|name| name.to_str()) else {
            return Vec::new();
        };
        let mut near = Vec::new();
        if let Some(folder) = missing.parent() {
            let siblings = self.siblings(&folder);
            let names: Vec<&str> = siblings.iter().map(String::as_str).collect();
            near = similar_names(name, &names)
                .into_iter()
                .map(|sibling| self.display(&folder.join(std::ffi::OsStr::new(&sibling))))
                .collect();
        }
        let is_there = |path: &WorkspacePath| fs::stat_beneath(self.root_fd(), path).is_ok();
        for path in self.of_the_same_name(missing).filter(is_there).take(NEAR_MAX) {
            let path = self.display(&path);
            if near.len() < NEAR_MAX && !near.contains(&path) {
                near.push(path);
            }
        }
        near
    }

    /// Returns the names in a folder.
    fn siblings(&self, folder: &WorkspacePath) -> Vec<String> {
        let Ok(opened) = self.open_folder(folder) else {
            return Vec::new();
        };
        let Ok(entries) = rustix::fs::Dir::new(opened) else {
            return Vec::new();
        };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name != "." && name != ".." && name != ".git" && name != ".lbx")
            .take(NAMES_COMPARED_MAX)
            .collect()
    }

    /// Returns files with the name of `like`, with ASCII case ignored, those that share the most components with it
    /// first: tracked ones, and others among the first that a walk finds. Some may not be there any more.
    pub fn of_the_same_name(&self, like: &WorkspacePath) -> impl Iterator<Item = WorkspacePath> {
        let name = like.name().unwrap_or_default();
        let tracked = git_files::files_named(self.root(), name);
        let looked_at = if tracked.is_some() { UNTRACKED_LOOKED_AT_MAX } else { FILES_LOOKED_AT_MAX };
        let walked = ignore::WalkBuilder::new(self.root())
            .build()
            .take(looked_at)
            .flatten()
            .filter(|entry| entry.file_name().eq_ignore_ascii_case(name))
            .filter_map(|entry| WorkspacePath::new(entry.path().strip_prefix(self.root()).ok()?));
        let found: BTreeSet<(Reverse<usize>, WorkspacePath)> = walked
            .chain(tracked.unwrap_or_default())
            .map(|path| (Reverse(shared_ending(path.as_path(), like.as_path())), path))
            .collect();
        found.into_iter().map(|(_, path)| path)
    }
}

/// Returns how many components two paths share at their ends.
fn shared_ending(one: &Path, other: &Path) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(mine, theirs)| mine == theirs).count()
}

/// Returns true if two names are alike without their extension: that of a short name would make all files of a kind
/// alike.
fn has_similar_stem(name: &str, candidate: &str) -> bool {
    let stem = |name| Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or(name);
    similarity::ratio(stem(name), stem(candidate)) >= STEM_LIKENESS_MIN
}

/// Returns names similar to `name`: those that differ only in case first, then by similarity.
fn similar_names(name: &str, candidates: &[&str]) -> Vec<String> {
    let mut near: Vec<String> = candidates
        .iter()
        .filter(|candidate| candidate.eq_ignore_ascii_case(name))
        .map(|candidate| (*candidate).to_owned())
        .collect();
    for candidate in similarity::nearest(name, candidates, NEAR_MAX, LIKENESS_MIN) {
        if near.len() < NEAR_MAX
            && has_similar_stem(name, candidate)
            && !near.iter().any(|known| known == candidate)
        {
            near.push(candidate.to_owned());
        }
    }
    near
}
