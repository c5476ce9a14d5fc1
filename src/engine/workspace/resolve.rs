//! Resolves the text of a path, on opened folders.
//!
//! The kernel opens a path without symlinks in one step (`openat2` with `RESOLVE_BENEATH`). Any other path is walked:
//! each component is opened from the folder before it without following links, and links are read and followed here, so
//! that nothing swapped in meanwhile leads outside. The result is canonical, and files are only opened by that
//! canonical path, through no link.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Stat};
use rustix::io::Errno;

use super::path::WorkspacePath;
use super::protect::{name_error, protected_component};
use super::{Workspace, fs};
use crate::error::{Error, ErrorKind};

/// A resolved path.
#[derive(Debug)]
pub struct ResolvedPath {
    /// Canonical path, with links followed.
    pub(super) path: WorkspacePath,
    /// Path for messages.
    pub(super) shown: String,
    /// Its stat; `None` if there is nothing.
    pub(super) stat: Option<Stat>,
    /// Name in the written path that no tool may write.
    pub(super) protected: Option<OsString>,
    /// The other names by which the path as it was written, followed link by link, led there.
    pub(super) aliases: Vec<WorkspacePath>,
    /// True if it was written as a folder's name: it ended in `/` or `/.`.
    pub(super) names_folder: bool,
    /// The regular file that is there, where it was opened to be looked at.
    pub(super) opened: Option<Arc<File>>,
}

impl ResolvedPath {
    /// A place whose canonical path is known already.
    pub fn at(path: WorkspacePath, shown: String, stat: Option<Stat>) -> Self {
        let (protected, aliases) = (None, Vec::new());
        Self { path, shown, stat, protected, aliases, names_folder: false, opened: None }
    }

    /// Returns the canonical path.
    pub fn path(&self) -> &WorkspacePath {
        &self.path
    }

    /// Returns the path for messages.
    pub fn display(&self) -> &str {
        &self.shown
    }

    /// Returns the other names by which it was reached, each through a link.
    pub fn aliases(&self) -> &[WorkspacePath] {
        &self.aliases
    }

    /// The regular file that is there and its state, where
    /// [`Workspace::resolve_file`](super::Workspace::resolve_file) has opened it.
    pub fn opened(&self) -> Option<(Arc<File>, Stat)> {
        self.opened.clone().zip(self.stat)
    }

    /// Returns the stat of the path; `None` if it does not exist.
    pub fn stat(&self) -> Option<&Stat> {
        self.stat.as_ref()
    }

    /// Fails for a free path that is written as a folder's: no file can get it.
    ///
    /// # Errors
    /// Returns `not_found`.
    pub fn must_take_a_file(&self) -> Result<(), Error> {
        if self.stat.is_some() || !self.names_folder {
            return Ok(());
        }
        let written = format!("{}/", self.shown);
        Err(Error::new(ErrorKind::NotFound, format!("no such directory: {written}"))
            .at(written)
            .suggest("Name a file in it (the folder is created), or leave out the trailing slash."))
    }

    /// Fails for a path with a name in it that no file tool may write.
    ///
    /// # Errors
    /// Returns `protected_path`.
    pub fn must_be_writable(&self) -> Result<(), Error> {
        let name = self.protected.as_deref().or_else(|| protected_component(self.path.as_path()));
        match name {
            None => Ok(()),
            Some(name) => Err(name_error(&self.shown, name)),
        }
    }
}

/// Most symlinks followed in one path before it counts as a loop; the kernel's own limit.
const LINKS_MAX: usize = 40;
/// The longest path in bytes (`PATH_MAX` of Linux, less the NUL). No other program could open a
/// longer one by its name.
pub const PATH_BYTES_MAX: usize = 4095;
/// The longest name in bytes (`NAME_MAX` of Linux).
const NAME_BYTES_MAX: usize = 255;

impl Workspace {
    /// Resolves `path`, which may be missing.
    ///
    /// # Errors
    /// `invalid_request` for an empty path or one with a NUL, `outside_workspace`,
    /// `not_a_directory` where it goes through a file, or the system's.
    pub fn resolve(&self, path: &Path) -> Result<ResolvedPath, Error> {
        must_be_a_path(path, "path")?;
        let written = path.display().to_string();
        let (canonical, stat, aliases) = self.locate(path).map_err(|errno| self.refusal(&written, errno))?;
        let shown = self.display(self.as_written(path).as_ref().unwrap_or(&canonical));
        let names_folder = names_a_folder(path);
        must_be_as_written(path, stat.as_ref())?;
        let protected = protected_component(path).map(OsStr::to_owned);
        Ok(ResolvedPath { path: canonical, shown, stat, protected, aliases, names_folder, opened: None })
    }

    /// The folder that `path` leads to.
    ///
    /// # Errors
    /// As [`Self::resolve`]; `not_found` or `not_a_directory` where no folder is there.
    pub fn folder(&self, path: &Path) -> Result<WorkspacePath, Error> {
        let place = self.resolve(path)?;
        match place.stat() {
            None => Err(self.not_found(&place)),
            Some(stat) if fs::is_folder(stat) => Ok(place.path().clone()),
            Some(_) => {
                let message = format!("{} is not a directory", place.display());
                Err(Error::new(ErrorKind::NotADirectory, message).at(place.display()))
            }
        }
    }

    /// Returns the workspace with relative paths that count from a folder of it.
    ///
    /// # Errors
    /// As [`Self::folder`].
    pub fn counting_from(self, folder: &Path) -> Result<Self, Error> {
        let base = self.folder(folder)?;
        Ok(Self { base, ..self })
    }

    /// Returns the workspace with an absolute path that means its root, and with which all paths are shown.
    #[must_use]
    pub fn with_root_name(self, root_name: Option<&'static str>) -> Self {
        Self { root_name, ..self }
    }

    /// Returns the part of an absolute path after the name of the root, if it begins with that.
    fn below_root_name<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(self.root_name?).ok()
    }

    /// Resolves a file that is read next: a regular file that no symlink leads to is opened at once,
    /// and what is opened tells what it is.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn resolve_file(&self, path: &Path) -> Result<ResolvedPath, Error> {
        must_be_a_path(path, "path")?;
        let direct = self.as_written(path).filter(|_| !names_a_folder(path));
        let found = direct.and_then(|direct| self.open_at_once(&direct).map(|found| (direct, found)));
        let Some((direct, (file, stat))) = found else { return self.resolve(path) };
        let shown = self.display(&direct);
        let protected = protected_component(path).map(OsStr::to_owned);
        let opened = Some(Arc::new(file));
        Ok(ResolvedPath { protected, opened, ..ResolvedPath::at(direct, shown, Some(stat)) })
    }

    /// The regular file at a path as it is written; `None` where something else is there or on the way.
    fn open_at_once(&self, path: &WorkspacePath) -> Option<(File, Stat)> {
        // Looked at first: a FIFO or a device is not even opened. Where a link leads elsewhere, the opening
        // finds out.
        fs::stat_at(self.root_fd(), path.as_path().as_os_str()).ok().filter(fs::is_regular)?;
        let file = fs::open_beneath(self.root_fd(), path, fs::READ).ok()?;
        let stat = rustix::fs::fstat(&file).ok().filter(fs::is_regular)?;
        Some((File::from(file), stat))
    }

    /// Returns the error for an errno of the walk.
    fn refusal(&self, written: &str, errno: Errno) -> Error {
        let error = path_error(written, errno);
        match self.other_workspaces_note() {
            Some(note) if error.kind() == ErrorKind::OutsideWorkspace => {
                error.add_to_message(format!(" ({note})"))
            }
            _ => error,
        }
    }

    /// The very place of a canonical path, whatever is on the way to it now.
    ///
    /// # Errors
    /// The system's, save that a file or symlink on the way counts as nothing there.
    pub fn place_of(&self, path: &WorkspacePath) -> Result<ResolvedPath, Error> {
        let shown = self.display(path);
        let stat = match fs::stat_beneath(self.root_fd(), path) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
            Err(errno) => return Err(self.refusal(&shown, errno)),
        };
        Ok(ResolvedPath::at(path.clone(), shown, stat))
    }

    /// Resolves `path` without following its last component: a symlink is itself.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn resolve_entry(&self, path: &Path) -> Result<ResolvedPath, Error> {
        must_be_a_path(path, "path")?;
        let Some(name) = path.file_name() else {
            return self.resolve(path);
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = self.resolve(parent.unwrap_or(Path::new(".")))?;
        let written = path.display().to_string();
        if folder.stat().is_some_and(|stat| !fs::is_folder(stat)) {
            return Err(self.refusal(&written, Errno::NOTDIR));
        }
        let canonical = folder.path().join(name);
        let stat = match folder.stat() {
            None => None,
            Some(_) => match fs::stat_at(self.open_folder(folder.path())?.as_fd(), name) {
                Ok(stat) => Some(stat),
                Err(Errno::NOENT) => None,
                Err(errno) => return Err(self.refusal(&written, errno)),
            },
        };
        // The caller judges the target of a link.
        let names_folder = names_a_folder(path);
        if !stat.as_ref().is_some_and(fs::is_symlink) {
            must_be_as_written(path, stat.as_ref())?;
        }
        let shown = self.display(self.as_written(path).as_ref().unwrap_or(&canonical));
        let protected = protected_component(path).map(OsStr::to_owned);
        let aliases = folder.aliases.iter().map(|alias| alias.join(name)).collect();
        Ok(ResolvedPath { path: canonical, shown, stat, protected, aliases, names_folder, opened: None })
    }

    /// The canonical path, what is there, and the other names by which the way led there.
    fn locate(&self, path: &Path) -> Result<CanonicalPath, Errno> {
        if let Some(direct) = self.as_written(path) {
            match fs::stat_beneath(self.root_fd(), &direct) {
                Ok(stat) if !fs::is_symlink(&stat) => return Ok((direct, Some(stat), Vec::new())),
                Ok(_) | Err(Errno::NOENT | Errno::LOOP | Errno::XDEV) => {}
                Err(errno) => return Err(errno),
            }
        }
        PathWalk::new(self).run(path)
    }

    /// Follows a canonical name to the end: one call if no link is on its way.
    pub fn trail(&self, path: &WorkspacePath) -> LinkChain {
        match fs::stat_beneath(self.root_fd(), path) {
            Ok(stat) if !fs::is_symlink(&stat) => {
                return LinkChain { links: Vec::new(), target: Some((path.clone(), Some(stat))) };
            }
            Err(errno) if errno != Errno::LOOP => return LinkChain::default(),
            _ => {}
        }
        let mut walk = PathWalk::new(self);
        let target = walk.run(&self.root().join(path.as_path())).ok().map(|(path, stat, _)| (path, stat));
        LinkChain { links: walk.followed, target }
    }

    /// `path` from the root, if it can be told from its text alone.
    fn as_written(&self, path: &Path) -> Option<WorkspacePath> {
        if path.is_absolute() {
            let below = self.below_root_name(path).or_else(|| path.strip_prefix(self.root()).ok());
            WorkspacePath::new(below?)
        } else {
            WorkspacePath::new(&PathBuf::from(self.base().as_path()).join(path))
        }
    }
}

/// Refuses texts that name no file, and those that are longer than the system takes: at once, so that
/// no later step has to deal with a path of thousands of folders. `field` of the request holds it.
///
/// # Errors
/// `invalid_request`.
pub fn must_be_a_path(path: &Path, field: &str) -> Result<(), Error> {
    let refused = |message: String| Err(Error::invalid(message).detail("field", field));
    if path.as_os_str().is_empty() {
        return refused(format!("{field} is empty"))
            .map_err(|error| error.suggest("Name a file, or `.` for the current folder."));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return refused(format!("{field} contains a NUL byte, which no file name can"));
    }
    must_be_short(path, field)
}

/// Refuses a path that is longer than the system takes, or has a name that is; `field` of the request
/// holds it.
///
/// # Errors
/// `invalid_request`.
pub fn must_be_short(path: &Path, field: &str) -> Result<(), Error> {
    let length = path.as_os_str().len();
    if length > PATH_BYTES_MAX {
        let message =
            format!("{field} is {length} bytes long; the longest that can be opened has {PATH_BYTES_MAX}");
        return Err(Error::invalid(message).suggest("Choose a shorter path.").detail("field", field));
    }
    match path.iter().map(OsStr::len).find(|&length| length > NAME_BYTES_MAX) {
        None => Ok(()),
        Some(length) => {
            let message = format!(
                "a name in {field} is {length} bytes long; the longest possible has {NAME_BYTES_MAX}"
            );
            Err(Error::invalid(message).suggest("Choose a shorter name.").detail("field", field))
        }
    }
}

/// Returns true if a path ends in `/` or `/.`, so that it names the folder that a link leads to.
pub fn names_a_folder(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}

/// Fails for a path that is written as a folder's but is something else, as the OS does.
fn must_be_as_written(path: &Path, stat: Option<&Stat>) -> Result<(), Error> {
    if !names_a_folder(path) || stat.is_none_or(fs::is_folder) {
        return Ok(());
    }
    let written = path.display().to_string();
    Err(Error::new(ErrorKind::NotADirectory, format!("{written} is not a directory")).at(written))
}

/// Returns the error for an errno of the walk.
fn path_error(written: &str, errno: Errno) -> Error {
    match errno {
        Errno::XDEV => {
            Error::new(ErrorKind::OutsideWorkspace, format!("{written} resolves outside the workspace"))
                .at(written)
        }
        Errno::NOTDIR => {
            Error::new(ErrorKind::NotADirectory, format!("a parent of {written} is not a directory"))
                .at(written)
        }
        Errno::LOOP => Error::io("resolve", written, errno).suggest(
            "Name a path without that symlink: it leads back to itself or through too many others. \
             `ls` shows where symlinks lead.",
        ),
        _ => Error::io("resolve", written, errno),
    }
}

/// Links on the way of a name, and the end of the way.
#[derive(Debug, Default)]
pub struct LinkChain {
    /// Canonical paths of the links, in the order of the way.
    pub links: Vec<WorkspacePath>,
    /// Canonical path at the end with the file there; `None` outside the workspace.
    pub target: Option<(WorkspacePath, Option<Stat>)>,
}

/// A canonical path, what is there, and other names of it.
type CanonicalPath = (WorkspacePath, Option<Stat>, Vec<WorkspacePath>);

/// Follows a path component by component; `EXDEV` where it leaves the root.
struct PathWalk<'w> {
    /// Workspace to walk.
    workspace: &'w Workspace,
    /// The path walked so far, links followed.
    walked: WorkspacePath,
    /// How many components at the end of it do not exist.
    missing: usize,
    /// The current folder of the walk; `None` for the root.
    folder: Option<OwnedFd>,
    /// Components still to follow.
    rest: VecDeque<OsString>,
    /// Symlinks followed so far.
    links: usize,
    /// Names of the path before each link was followed.
    aliases: Vec<WorkspacePath>,
    /// Canonical paths of the links that were followed.
    followed: Vec<WorkspacePath>,
}

impl<'w> PathWalk<'w> {
    /// Begins a walk at the root.
    fn new(workspace: &'w Workspace) -> Self {
        let (walked, rest) = (WorkspacePath::root(), VecDeque::new());
        let (aliases, followed) = (Vec::new(), Vec::new());
        Self { workspace, walked, missing: 0, folder: None, rest, links: 0, aliases, followed }
    }

    /// Follows `path` to its end.
    fn run(&mut self, path: &Path) -> Result<CanonicalPath, Errno> {
        if let Some(below) = self.workspace.below_root_name(path) {
            self.rest = names(below).collect();
        } else if path.is_absolute() {
            self.rest = self.enter(path)?;
        } else {
            self.rest = names(self.workspace.base().as_path()).chain(names(path)).collect();
        }
        while let Some(name) = self.rest.pop_front() {
            if name == ".." {
                self.go_up()?;
            } else if self.missing > 0 {
                self.step_into_nothing(&name);
            } else if let Some(file) = self.step_into(&name)? {
                return Ok((self.walked.join(&name), Some(file), std::mem::take(&mut self.aliases)));
            }
        }
        let stat = if self.missing > 0 { None } else { Some(rustix::fs::fstat(self.current_folder())?) };
        Ok((self.walked.clone(), stat, std::mem::take(&mut self.aliases)))
    }

    /// Takes one component: a link is read and put before the rest, a folder entered; anything
    /// else ends the path, and the answer is what it is.
    fn step_into(&mut self, name: &OsStr) -> Result<Option<Stat>, Errno> {
        let entry = match fs::NamedEntry::at(self.current_folder(), name) {
            Ok(entry) => entry,
            Err(Errno::NOENT) => {
                self.step_into_nothing(name);
                return Ok(None);
            }
            Err(errno) => return Err(errno),
        };
        let stat = entry.stat()?;
        if fs::is_symlink(&stat) {
            self.note_alias(name);
            self.followed.push(self.walked.join(name));
            self.follow(entry.target()?)?;
            return Ok(None);
        }
        if fs::is_folder(&stat) {
            self.walked = self.walked.join(name);
            self.folder = Some(entry.into_folder()?);
            return Ok(None);
        }
        if self.rest.is_empty() { Ok(Some(stat)) } else { Err(Errno::NOTDIR) }
    }

    /// Takes a component that does not exist.
    fn step_into_nothing(&mut self, name: &OsStr) {
        self.walked = self.walked.join(name);
        self.missing += 1;
    }

    /// Keeps the name that the path has while the link `name` is not followed yet.
    fn note_alias(&mut self, name: &OsStr) {
        if !self.rest.iter().any(|name| name == "..") {
            let link = self.walked.join(name);
            self.aliases.push(self.rest.iter().fold(link, |path, name| path.join(name)));
        }
    }

    /// Prepends a link's target to the rest.
    fn follow(&mut self, target: Vec<u8>) -> Result<(), Errno> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP);
        }
        let target = PathBuf::from(OsString::from_vec(target));
        let before = if target.is_absolute() {
            self.walked = WorkspacePath::root();
            self.folder = None;
            self.enter(&target)?
        } else {
            names(&target).collect()
        };
        for name in before.into_iter().rev() {
            self.rest.push_front(name);
        }
        Ok(())
    }

    /// Goes one folder up; from the root, outside and perhaps back in.
    fn go_up(&mut self) -> Result<(), Errno> {
        let Some(parent) = self.walked.parent() else {
            let mut outside = self.workspace.root().parent().ok_or(Errno::XDEV)?.to_owned();
            outside.extend(self.rest.drain(..));
            self.rest = self.enter(&outside)?;
            return Ok(());
        };
        self.walked = parent;
        if self.missing > 0 {
            self.missing -= 1;
        } else {
            self.folder = Some(fs::open_beneath(self.workspace.root_fd(), &self.walked, fs::HANDLE)?);
        }
        Ok(())
    }

    /// The components of an absolute path from the root on; `EXDEV` where it does not lead there.
    ///
    /// The text decides only where in the root the walk goes on, never what is opened.
    fn enter(&self, path: &Path) -> Result<VecDeque<OsString>, Errno> {
        let root = self.workspace.root();
        if let Ok(rest) = path.strip_prefix(root) {
            return Ok(names(rest).collect());
        }
        // The root may have another name, through a link outside it.
        let mut real = PathBuf::from("/");
        let mut components = path.components();
        while let Some(component) = components.next() {
            match component {
                Component::Normal(name) => real.push(name),
                Component::ParentDir => drop(real.pop()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => continue,
            }
            // The path before it is canonical, so only a link has to be followed.
            let stat = rustix::fs::statat(CWD, &real, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| Errno::XDEV)?;
            if fs::is_symlink(&stat) {
                real = led_to(&real).map_err(|_| Errno::XDEV)?;
            }
            if let Ok(inside) = real.strip_prefix(root) {
                return Ok(names(inside).chain(names(components.as_path())).collect());
            }
        }
        Err(Errno::XDEV)
    }

    /// Returns the current folder of the walk.
    fn current_folder(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().map_or(self.workspace.root_fd(), AsFd::as_fd)
    }
}

/// Returns the target of a link outside the root.
#[expect(clippy::disallowed_methods, reason = "outside the root; what is opened is found from the root on")]
fn led_to(link: &Path) -> std::io::Result<PathBuf> {
    std::fs::canonicalize(link)
}

/// The components of `path` that matter: names and `..`.
fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}
