//! Private, writable views of the caches of toolchains.
//!
//! A view is mounted over the user's own cache: the command reads the cache, and its writes go into a folder of the
//! session. Programs in the cache stay read-only. Without a layer, a command that can download gets empty folders at
//! first, and any other command the user's caches, read-only.
//!
//! This module also has the `/tmp` of a session: a folder in the state that all its commands share.
//!
//! ```text
//! tmp/SESSION/        its mtime is the last use; commands that use it hold its lock together
//! tmp/SESSION/files   the `/tmp` of the commands
//! tmp/SESSION/caches/N/NAME  what commands wrote over a cache; a command holds the lock of its N alone
//! tmp/.gone-…         a folder that is being removed
//! ```

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::layer_folders::{OWN_MODE, UPPER, WORK};
use super::outside::{Network, VisibleDisk, is_toolchain};
use crate::control::seconds_now;
use crate::engine::store::lock::unique_name;
use crate::engine::store::session::SessionId;
use crate::engine::store::state::{State, make_folder};
use crate::engine::workspace::path::LinkFollower;
use crate::engine::workspace::{Workspace, fs, removal};
use crate::error::Error;
use crate::limits::CACHE_TRIES_MAX;
use crate::platform;

/// Policy value for no views.
pub const NONE: &str = "none";
/// Folder with programs next to some caches.
pub const PROGRAMS: &str = "bin";
/// Folder that replaces a cache without a layer.
pub const PLAIN: &str = "plain";

/// A cache of a toolchain.
struct Cache {
    /// Its name in the policy.
    name: &'static str,
    /// Environment variable that names its folder.
    variable: Option<&'static str>,
    /// Default folder, below the home folder.
    folder: &'static str,
    /// Folders in it that are caches; empty if all of it is one.
    parts: &'static [&'static str],
    /// True if commands need the folder even if the user has none.
    is_needed: bool,
    /// True if the user's folder holds more than caches, so that no command sees it.
    is_private: bool,
}

/// All known caches; a folder precedes the folders in it.
const CACHES: [Cache; 16] = [
    Cache::of("bun", ".bun", &["install/cache"]),
    Cache { is_private: true, ..Cache::writable_folder("other", ".cache") },
    Cache::of("ccache", ".cache/ccache", &[]),
    Cache::of("composer", ".cache/composer", &[]),
    Cache::of("deno", ".cache/deno", &[]),
    Cache { variable: Some("GOCACHE"), ..Cache::of("go", ".cache/go-build", &[]) },
    Cache::of("pip", ".cache/pip", &[]),
    Cache::of("uv", ".cache/uv", &[]),
    Cache::of("yarn", ".cache/yarn", &[]),
    Cache { variable: Some("CARGO_HOME"), ..Cache::of("cargo", ".cargo", &["git", "registry"]) },
    Cache::of("gradle", ".gradle", &["caches", "daemon", "native", "wrapper"]),
    Cache::of("pnpm", ".local/share/pnpm", &["store"]),
    Cache::of("maven", ".m2", &["repository"]),
    Cache::writable_folder("npm", ".npm"),
    Cache::of("nuget", ".nuget/packages", &[]),
    Cache { variable: Some("GOPATH"), parts: &["pkg"], ..Cache::writable_folder("go", "go") },
];

/// A view of a cache.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CacheView {
    /// Canonical folder of the user.
    pub place: OsString,
    /// True if the user has it, and commands see its content.
    pub exists: bool,
    /// True if it holds programs.
    pub has_programs: bool,
    /// True if it is inside another view. A mount must not follow links that a command left there.
    pub is_inner: bool,
    /// Folders in it that are caches; empty if all of it is one.
    pub parts: Vec<String>,
    /// Session's own folder for it, with [`UPPER`], [`WORK`] and [`PLAIN`].
    pub own: OsString,
}

impl Cache {
    /// Returns a cache that only users of a toolchain have.
    const fn of(name: &'static str, folder: &'static str, parts: &'static [&'static str]) -> Self {
        Self { name, variable: None, folder, parts, is_needed: false, is_private: false }
    }

    /// Returns a folder that commands need to write.
    const fn writable_folder(name: &'static str, folder: &'static str) -> Self {
        Self { is_needed: true, ..Self::of(name, folder, &[]) }
    }

    /// Returns the name of its own folder in a session.
    fn own_name(&self) -> String {
        self.folder.trim_start_matches('.').replace(['/', '.'], "-")
    }
}

impl CacheView {
    /// Returns the folders that replace the cache without a layer, each with its mount point. A mount point in a folder
    /// of the user must exist.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "no other system puts a folder over a cache")
    )]
    pub fn plain(&self, network: &Network) -> Vec<(PathBuf, PathBuf)> {
        let (place, own) = (Path::new(&self.place), Path::new(&self.own).join(PLAIN));
        if self.is_inner || (self.exists && *network == Network::None) {
            return Vec::new();
        }
        if self.parts.is_empty() || !self.exists {
            return vec![(own, place.to_owned())];
        }
        let parts = self.parts.iter().map(|part| (own.join(part), place.join(part)));
        parts.filter(|(_, place)| rustix::fs::stat(place).is_ok()).collect()
    }
}

/// Creates the session's own folder of a name, for a layer if the second argument is true.
type MakeFolder<'a> = &'a mut dyn FnMut(&str, bool) -> Option<PathBuf>;

/// Finds the caches that a command needs: those named in `wanted`, or all that the user has if it is empty. `own` are
/// the command's folders, in which caches stay unchanged; `make` creates their own folders.
pub fn find(
    home: Option<&Path>,
    wanted: &[String],
    (outside, own): (&mut VisibleDisk, &[&Path]),
    (follower, make): (&mut LinkFollower, MakeFolder<'_>),
) -> Vec<CacheView> {
    let Some(home) = home.and_then(|home| follower.follow(home)) else { return Vec::new() };
    let is_wanted = |cache: &&Cache| wanted.is_empty() || wanted.iter().any(|name| name == cache.name);
    let mut views: Vec<CacheView> = Vec::new();
    for cache in CACHES.iter().filter(is_wanted) {
        let named = cache.variable.and_then(std::env::var_os).map(PathBuf::from);
        let named = named.filter(|path| path.is_absolute()).and_then(|path| follower.follow(&path));
        let folder =
            named.filter(|path| is_toolchain(path, Some(&home))).unwrap_or_else(|| home.join(cache.folder));
        let found = follower.follow(&folder);
        let exists = found.is_some() && !cache.is_private;
        let place = found.filter(|_| !cache.is_private).unwrap_or(folder);
        // Nothing can be mounted if the parent is read-only.
        let is_possible = exists || (cache.is_needed && !outside.shows(&place));
        let is_own = own.iter().any(|own| place.starts_with(own));
        let is_new = !views.iter().any(|view| place == Path::new(&view.place));
        if is_possible
            && !is_own
            && is_new
            && let Some(own) = make(&cache.own_name(), exists)
        {
            let has_programs = follower.follow(&place.join(PROGRAMS)).is_some();
            let parts = cache.parts.iter().map(|part| (*part).to_owned()).collect();
            let is_inner = views.iter().any(|view| place.starts_with(&view.place));
            let (place, own) = (place.into_os_string(), own.into_os_string());
            views.push(CacheView { place, exists, has_programs, is_inner, parts, own });
        }
    }
    // A cache may be a symlink to another disk. No view can replace a symlink.
    follower.links.retain(|link, _| !views.iter().any(|view| link == Path::new(&view.place)));
    outside.add_links(std::mem::take(&mut follower.links), own);
    views.sort_by(|one, other| Path::new(&one.place).cmp(Path::new(&other.place)));
    views
}

/// Returns the names of all caches.
pub fn names() -> impl Iterator<Item = &'static str> {
    CACHES.iter().map(|cache| cache.name)
}

/// Folder of all sessions, below the state folder.
const FOLDER: &str = "tmp";
/// Folder that commands see.
const FILES: &str = "files";
/// Folder of the views of caches.
const VIEWS: &str = "caches";
/// Largest number of commands of a session that have views of caches at once.
const SLOTS_MAX: usize = 64;
/// Prefix of a folder that is being removed. No session has such a name.
const GONE: &str = ".gone";
/// Seconds after the last use before the folder is removed: a day.
const KEPT_SECONDS: u64 = 86_400;
/// Mode of `/tmp`.
const SHARED_MODE: u32 = 0o1777;

/// The `/tmp` of a session, in use until drop.
#[derive(Debug)]
pub struct SessionTmp {
    /// Absolute path of the folder that commands see as `/tmp`.
    pub path: PathBuf,
    /// Locked folder, so that no other call removes it.
    _folder: OwnedFd,
    /// Folder for this command's views of caches, with its number.
    slot: Option<(OwnedFd, usize)>,
}

impl SessionTmp {
    /// Opens the `/tmp` of a session, and removes those that were not used for a day.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn open(workspace: &Workspace, state: &State, session: &SessionId) -> Result<Self, Error> {
        let shown = state.display(&format!("{FOLDER}/{}", session.as_str()));
        let io = |errno: Errno| Error::io("make", shown.clone(), errno);
        let all = state.folder(FOLDER)?;
        remove_unused(&all, session);
        let folder = in_use(&all, OsStr::new(session.as_str())).map_err(io)?;
        let (files, is_new) = own_folder(folder.as_fd(), OsStr::new(FILES)).map_err(io)?;
        if is_new {
            match rustix::fs::fchmod(&files, platform::mode(SHARED_MODE)) {
                // A file system without modes.
                Err(Errno::PERM) => {}
                changed => changed.map_err(io)?,
            }
        }
        let path = state.path_of(&format!("{FOLDER}/{}/{FILES}", session.as_str()));
        let slot = free_slot(&folder);
        Ok(Self { path: workspace.root().join(path.as_path()), _folder: folder, slot })
    }

    /// Creates the folder for the view of a cache, with the folders of a layer if it has one; returns its absolute
    /// path.
    pub fn cache(&self, name: &str, is_layered: bool) -> Option<PathBuf> {
        let (slot, number) = self.slot.as_ref()?;
        let (own, is_new) = own_folder(slot.as_fd(), OsStr::new(name)).ok()?;
        if is_layered {
            if !is_new {
                // overlayfs rejects a work folder that the mount of a killed call left in disorder.
                let _ = removal::remove(own.as_fd(), OsStr::new(WORK));
            }
            make_folder(own.as_fd(), OsStr::new(UPPER), OWN_MODE).ok()?;
            make_folder(own.as_fd(), OsStr::new(WORK), OWN_MODE).ok()?;
        }
        Some(self.path.parent()?.join(VIEWS).join(number.to_string()).join(name))
    }
}

/// Removes the `/tmp` of a session, unless a command uses it.
pub fn remove_tmp(state: &State, session: &SessionId) {
    if let Ok(Some(all)) = state.find_folder(FOLDER) {
        remove_if_free(&all, OsStr::new(session.as_str()), &|_| true);
    }
}

/// Opens a folder that a command may write to, made if missing; returns also true if it is new. A symlink in its place
/// would lead the command outside: it is removed.
fn own_folder(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(OwnedFd, bool), Errno> {
    let mut is_new = make_folder(parent, name, OWN_MODE)?;
    let opened = match fs::open_at(parent, name, fs::FOLDER) {
        Err(Errno::LOOP | Errno::NOTDIR) => {
            fs::unlink_at(parent, name, AtFlags::empty())?;
            is_new = make_folder(parent, name, OWN_MODE)?;
            fs::open_at(parent, name, fs::FOLDER)
        }
        opened => opened,
    };
    Ok((opened?, is_new))
}

/// Opens the first folder for views of caches that no other command uses: two must not write over one cache at once.
fn free_slot(folder: &OwnedFd) -> Option<(OwnedFd, usize)> {
    let (all, _) = own_folder(folder.as_fd(), OsStr::new(VIEWS)).ok()?;
    (0..SLOTS_MAX).find_map(|number| {
        let (slot, _) = own_folder(all.as_fd(), OsStr::new(&number.to_string())).ok()?;
        rustix::fs::flock(&slot, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some((slot, number))
    })
}

/// Opens the folder of a session with a shared lock, and updates the time of its last use.
fn in_use(all: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    for _ in 0..CACHE_TRIES_MAX {
        make_folder(all.as_fd(), name, OWN_MODE)?;
        let folder = match fs::open_at(all.as_fd(), name, fs::FOLDER) {
            Err(Errno::NOENT) => continue,
            opened => opened?,
        };
        rustix::io::retry_on_intr(|| rustix::fs::flock(&folder, FlockOperation::LockShared))?;
        // Another call may have moved it away before the lock.
        if fs::is_named(all, name, &folder) {
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            rustix::fs::futimens(&folder, &Timestamps { last_access: now, last_modification: now })?;
            return Ok(folder);
        }
    }
    Err(Errno::AGAIN)
}

/// Removes the folders of other sessions that were not used for a day, and leftovers of an earlier removal.
fn remove_unused(all: &OwnedFd, own: &SessionId) {
    let now = seconds_now();
    for name in fs::names_in(all).unwrap_or_default() {
        if name.to_string_lossy().starts_with(GONE) {
            let _ = removal::remove(all.as_fd(), &name);
        } else if name != own.as_str() {
            remove_if_free(all, &name, &|used| now.saturating_sub(used) > KEPT_SECONDS);
        }
    }
}

/// Removes a folder that no command uses, if the time of its last use is old enough.
fn remove_if_free(all: &OwnedFd, name: &OsStr, is_over: &dyn Fn(u64) -> bool) {
    let used = |stat: &rustix::fs::Stat| u64::try_from(stat.st_mtime).unwrap_or_default();
    if !fs::stat_at(all.as_fd(), name).is_ok_and(|stat| is_over(used(&stat))) {
        return;
    }
    let Ok(folder) = fs::open_at(all.as_fd(), name, fs::FOLDER) else { return };
    let locked = rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive);
    // It may have been used before the lock.
    let is_over = || rustix::fs::fstat(&folder).is_ok_and(|stat| is_over(used(&stat)));
    if locked.is_ok() && fs::is_named(all, name, &folder) && is_over() {
        let gone = unique_name(GONE);
        if fs::rename_at(all, name, all, &gone).is_ok() {
            drop(folder);
            let _ = removal::remove(all.as_fd(), OsStr::new(&gone));
        }
    }
}
