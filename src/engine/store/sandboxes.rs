//! Named sandboxes: names for workspaces, kept in the user's own state folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::AtFlags;
use serde::{Deserialize, Serialize};

use super::id;
use super::lock::{self, Lock, LockWait, is_unique};
use crate::engine::workspace::fs;
use crate::error::{Error, ErrorKind};
use crate::limits::SANDBOXES_BYTES_MAX;
use crate::platform::process::program_path;
use crate::text::escaped::short_path;
use crate::text::similarity;

/// Lock held while writing.
const LOCK: &str = "sandboxes.lock";
/// Version of the format.
const VERSION: u32 = 1;
/// Longest time that one holder may keep the lock.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// Most characters of a name.
const NAME_CHARACTERS_MAX: usize = 64;
/// Most names that an error suggests.
const NEAR_MAX: usize = 3;
/// Smallest similarity of a suggested name, 0 to 1.
const LIKENESS_MIN: f32 = 0.5;

/// Workspace of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedWorkspace {
    /// Root of the workspace: here, or in the container.
    pub root: String,
    /// Access to the container; absent for a folder of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
}

impl NamedWorkspace {
    /// Returns true for a fork that is gone, as with its workspace: its name is free.
    pub fn is_of_lost_fork(&self) -> bool {
        let fork = self.container.as_ref().and_then(|container| container.fork.as_ref());
        fork.is_some_and(|fork| fs::stat_at(rustix::fs::CWD, OsStr::new(&fork.upper)).is_err())
    }

    /// Fails for a container or fork, whose root leads elsewhere from here.
    ///
    /// # Errors
    /// Returns `invalid_request`.
    pub fn must_be_a_folder(&self, name: &str) -> Result<(), Error> {
        let Some(container) = &self.container else { return Ok(()) };
        let kind = if container.fork.is_some() { "fork" } else { "container" };
        Err(Error::invalid(format!("the sandbox {name} is a {kind}: this call cannot be made in it"))
            .suggest("Call lbx's own tools, `lbx batch` or `lbx mcp` with --sandbox."))
    }

    /// Returns the sandbox of a fork.
    pub fn of_fork(fork: ForkPlace) -> Self {
        let root = fork.root.clone();
        let container = Container {
            engine: None,
            exec: Vec::new(),
            fork: Some(fork),
            binary: program_path().to_owned(),
            stamp: String::new(),
        };
        Self { root, container: Some(container) }
    }
}

/// Folder of forks, below the state folder of a workspace and below lbx's folder of the user.
pub const FORKS: &str = "forks";
/// Digits of the mark of a workspace.
pub const MARK_DIGITS: usize = 16;

/// Returns true for the label of a fork: the mark of its workspace, and a unique name.
pub fn is_label(label: &str) -> bool {
    let is_mark = |mark: &str| mark.len() == MARK_DIGITS && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
    label.split_once('-').is_some_and(|(mark, name)| is_mark(mark) && is_unique(name))
}

/// First argument with which lbx enters a fork. Users do not call it.
pub const ENTER_FORK: &str = "__fork";

/// The folders of a fork, as absolute paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPlace {
    /// Root of the workspace, over which the fork is mounted.
    pub root: String,
    /// Folder with its changes.
    pub upper: String,
    /// Folder that overlayfs uses for itself.
    pub work: String,
    /// Folder with the versions that it began with.
    pub lower: String,
    /// Name of its mount, by which its processes are found.
    pub label: String,
    /// True if a program of the user runs in it, which must not change git's history.
    #[serde(default)]
    pub is_for_program: bool,
}

impl ForkPlace {
    /// Returns the fork for a program of its user.
    #[must_use]
    pub fn for_program(self) -> Self {
        Self { is_for_program: true, ..self }
    }

    /// Returns the words that run a program in the fork; the program follows.
    pub fn words(&self) -> [String; 3] {
        let place = serde_json::to_string(self).unwrap_or_default();
        [program_path().to_owned(), ENTER_FORK.to_owned(), place]
    }
}

/// Access to a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Engine's program and the container, if an engine runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<(String, String)>,
    /// Words of a command that runs another one inside; empty if an engine runs it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exec: Vec<String>,
    /// Fork that is mounted for each call, on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkPlace>,
    /// Path of lbx's binary inside.
    pub binary: String,
    /// Stamp that identifies the version of that binary.
    pub stamp: String,
}

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct SandboxFile {
    /// Version of the format.
    version: u32,
    /// Sandboxes by name.
    sandboxes: BTreeMap<String, NamedWorkspace>,
}

/// Returns the canonical form of a name: lower case, with hyphens for everything except letters and digits.
///
/// # Errors
/// Returns `invalid_request` if the result is empty or too long.
pub fn slug(name: &str) -> Result<String, Error> {
    let mut slug = String::new();
    for character in name.chars().flat_map(char::to_lowercase) {
        if character.is_alphanumeric() {
            slug.push(character);
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() || slug.chars().count() > NAME_CHARACTERS_MAX {
        return Err(Error::invalid(format!(
            "sandbox name {:?}: expected 1 to {NAME_CHARACTERS_MAX} letters, digits and hyphens",
            short_path(name)
        ))
        .detail("field", "sandbox"));
    }
    Ok(slug.to_owned())
}

/// Returns the sandbox of a name, with the canonical form of the name.
///
/// # Errors
/// Returns `sandbox_not_found` with similar names, or the OS error.
pub fn find(name: &str) -> Result<(String, NamedWorkspace), Error> {
    let slug = slug(name)?;
    let mut all = list()?;
    match all.remove(&slug) {
        Some(sandbox) => Ok((slug, sandbox)),
        None => Err(not_found(&slug, &all)),
    }
}

/// Returns all sandboxes by name.
///
/// # Errors
/// Returns `io_error` if the file is damaged or newer, or the OS error.
pub fn list() -> Result<BTreeMap<String, NamedWorkspace>, Error> {
    match folder(false)? {
        Some((folder, path)) => read(&folder, &path),
        None => Ok(BTreeMap::new()),
    }
}

/// Adds a sandbox under a new name.
///
/// # Errors
/// Returns `already_exists` if the name has another sandbox, `lock_timeout`, or the OS error.
pub fn create(slug: &str, sandbox: &NamedWorkspace) -> Result<(), Error> {
    change(|all| match all.get(slug) {
        Some(known) if known != sandbox => Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("sandbox {slug} exists already, with root {}", known.root),
        )
        .suggest(match &known.container {
            Some(container) if container.fork.is_some() => "Choose another name: this one is a fork's.",
            _ => "Choose another name, or remove the old one first: `lbx sandbox remove` deletes no file.",
        })),
        Some(_) => Ok(false),
        None => {
            all.insert(slug.to_owned(), sandbox.clone());
            Ok(true)
        }
    })
}

/// Replaces the sandbox of a known name.
///
/// # Errors
/// As [`find`] and [`create`].
pub fn replace(slug: &str, sandbox: &NamedWorkspace) -> Result<(), Error> {
    change(|all| match all.get_mut(slug) {
        Some(known) => Ok(std::mem::replace(known, sandbox.clone()) != *sandbox),
        None => Err(not_found(slug, all)),
    })
}

/// Removes a name; its workspace stays.
///
/// # Errors
/// As [`find`]; also `lock_timeout`.
pub fn remove(slug: &str) -> Result<NamedWorkspace, Error> {
    let mut removed = None;
    change(|all| match all.remove(slug) {
        Some(known) => {
            removed = Some(known);
            Ok(true)
        }
        None => Err(not_found(slug, all)),
    })?;
    removed.ok_or_else(|| Error::internal("the sandbox was lost"))
}

/// Returns the error for an unknown name.
fn not_found(slug: &str, all: &BTreeMap<String, NamedWorkspace>) -> Error {
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    let near = similarity::nearest(slug, &names, NEAR_MAX, LIKENESS_MIN);
    let error = Error::new(ErrorKind::SandboxNotFound, format!("sandbox not found: {slug}"));
    if near.is_empty() {
        return error;
    }
    error.suggest(format!("Did you mean {}?", near.join(" or "))).detail("near", near)
}

/// Changes the file under its lock; `edit` returns true if there is something to write.
fn change(
    edit: impl FnOnce(&mut BTreeMap<String, NamedWorkspace>) -> Result<bool, Error>,
) -> Result<(), Error> {
    let no_place = || {
        Error::new(ErrorKind::IoError, "there is no place to keep the names of sandboxes")
            .suggest("Set XDG_STATE_HOME to a folder that this account can write.")
    };
    let (folder, path) = folder(true)?.ok_or_else(no_place)?;
    let _lock = lock(&folder, &path)?;
    let mut all = read(&folder, &path)?;
    if !edit(&mut all)? {
        return Ok(());
    }
    let bytes = serde_json::to_vec_pretty(&SandboxFile { version: VERSION, sandboxes: all })
        .map_err(|error| Error::internal(error.to_string()))?;
    let aside = format!("{}.new", id::SANDBOXES);
    let _ = fs::unlink_at(&folder, &aside, AtFlags::empty());
    let written = fs::create_at(folder.as_fd(), OsStr::new(&aside), 0o600)
        .map_err(std::io::Error::from)
        .and_then(|file| fs::write_all(&file, &bytes).and_then(|()| file.sync_all()))
        .and_then(|()| Ok(fs::rename_at(folder.as_fd(), &aside, folder.as_fd(), id::SANDBOXES)?));
    written.map_err(|source| Error::io("write", display(&path), source))
}

/// Takes the lock.
fn lock(folder: &OwnedFd, path: &std::path::Path) -> Result<Lock, Error> {
    match lock::take(folder.as_fd(), LOCK, 0o600, Some(LockWait::without_queue(LOCK_WAIT))) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(Error::new(
            ErrorKind::LockTimeout,
            format!("another lbx call held the lock of the sandboxes for {} s", LOCK_WAIT.as_secs()),
        )),
        Err(source) => Err(Error::io("lock", display(path), source)),
    }
}

/// Returns lbx's folder in the user's state folder; makes it if `make` is set, else returns `None` if missing.
fn folder(make: bool) -> Result<Option<(OwnedFd, PathBuf)>, Error> {
    let Some(path) = id::user_folder() else { return Ok(None) };
    let io = |source: std::io::Error| Error::io("open", path.display().to_string(), source);
    if make {
        id::make_folders(&path).map_err(io)?;
    }
    match id::open_path(&path) {
        Ok(folder) => Ok(Some((folder, path))),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(io(errno.into())),
    }
}

/// Reads the sandboxes in the file.
fn read(folder: &OwnedFd, path: &std::path::Path) -> Result<BTreeMap<String, NamedWorkspace>, Error> {
    let bytes = fs::read_at(folder.as_fd(), OsStr::new(id::SANDBOXES), SANDBOXES_BYTES_MAX)
        .map_err(|source| Error::io("read", display(path), source))?;
    let Some(bytes) = bytes else { return Ok(BTreeMap::new()) };
    let damaged = |what: String| {
        Error::new(ErrorKind::IoError, format!("{} {what}", display(path)))
            .at(display(path))
            .suggest("Move the file away, and create the sandboxes again.")
    };
    let all: SandboxFile = serde_json::from_slice(&bytes)
        .map_err(|error| damaged(format!("does not hold a list of sandboxes: {error}")))?;
    if all.version != VERSION {
        return Err(damaged(format!("is of version {}, not {VERSION}", all.version)));
    }
    Ok(all.sandboxes)
}

/// Returns the path of the file for messages.
fn display(folder: &std::path::Path) -> String {
    folder.join(id::SANDBOXES).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn sandbox_name_has_one_slug() {
        for (name, form) in [
            ("My App!", "my-app"),
            ("my-app", "my-app"),
            ("  a//b__c  ", "a-b-c"),
            ("../..", ""),
            ("ÄPFEL 2", "äpfel-2"),
            ("---", ""),
            ("", ""),
        ] {
            assert_eq!(slug(name).unwrap_or_default(), form, "{name:?}");
        }
        assert!(slug(&"x".repeat(65)).is_err());
    }
}
