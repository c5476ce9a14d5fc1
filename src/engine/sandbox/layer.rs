//! The folder of a layer: made in the state for one command, and removed with the call.
//!
//! A call that is killed leaves its layer behind; the next one sweeps it, since nobody holds its lock.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, Gid, Mode, Stat, Timespec, Timestamps, UTIME_NOW, Uid, XattrFlags};
use rustix::io::Errno;

use super::memory;
use super::overlay::Layer;
use crate::engine::store::lock::Lock;
use crate::engine::store::state::{State, make_folder};
use crate::engine::store::trash;
use crate::engine::store::unique::unique_name;
use crate::engine::workspace::file_system::is_on_overlay;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::removal::{self, Removed};
use crate::engine::workspace::survey::{Moment, changed_at};
use crate::engine::workspace::{Workspace, fs};
use crate::error::Error;

/// Where layers are, below the state folder.
const FOLDER: &str = "layers";
/// The part of a layer that takes what a command changes.
const UPPER: &str = "upper";
/// The part that overlayfs uses for itself.
const WORK: &str = "work";
/// The trash entries that a layer has put something into, a line each.
const TAKEN: &str = "taken";
/// Bytes of that list.
const TAKEN_BYTES_MAX: u64 = 16 << 20;
/// How the name of a layer's lock ends.
const LOCK: &str = ".lock";
/// Permissions of a folder that only this account uses.
const OWN_MODE: u32 = 0o700;
/// The attribute by which a file system shows that it can hold a layer.
const PROBE: &str = "user.overlay.lbx";
/// Time to wait for the clock of a file system to go on.
const TICK: Duration = Duration::from_millis(1);
/// How often to wait for it: some clocks tick every 10 ms.
const TICKS_MAX: usize = 50;

/// A name in an opened folder.
pub type NameIn<'f> = (BorrowedFd<'f>, &'f OsStr);

/// A layer's folder; dropped, it is removed.
#[derive(Debug)]
pub struct LayerFolder {
    /// The folder of all layers.
    layers: Arc<OwnedFd>,
    /// Its name there.
    name: String,
    /// The folder itself.
    folder: OwnedFd,
    /// What takes the changes.
    upper: OwnedFd,
    /// The absolute path of the folder that holds it.
    place: PathBuf,
    /// Whether that is in memory, since the file system of the workspace cannot hold a layer.
    in_memory: bool,
    /// What changed in the workspace after this moment was changed by others.
    began: Moment,
    /// Shows that the call lives.
    _lock: Lock,
}

impl LayerFolder {
    /// Makes one, and removes what dead calls left.
    ///
    /// # Errors
    /// `invalid_request` where the file system cannot hold a layer, or the system's.
    pub fn make(workspace: &Workspace, state: &State) -> Result<Self, Error> {
        sweep(state)?;
        let layers = state.folder(FOLDER)?;
        let name = unique_name("layer");
        let shown = state.shown(&format!("{FOLDER}/{name}"));
        let io = |errno: Errno| Error::io("make", shown.clone(), errno);
        let lock = state.try_lock(layers.as_fd(), &lock_name(&name))?;
        let lock = lock.ok_or_else(|| Error::internal("a new lock is held by another call"))?;
        let folder = new_folder(layers.as_fd(), &name).map_err(io)?;
        let in_memory = is_on_overlay(layers.as_fd());
        let (own, place);
        let holder = if in_memory {
            own = made_in_memory(&name)?;
            place = Path::new(memory::PLACE).join(name_in_memory(&name));
            &own
        } else {
            place = workspace.root().join(state.path_of(&format!("{FOLDER}/{name}")).as_path());
            &folder
        };
        let upper = new_folder(holder.as_fd(), UPPER).map_err(io)?;
        new_folder(holder.as_fd(), WORK).map_err(io)?;
        let mut layer = Self { layers, name, folder, upper, place, in_memory, began: (0, 0), _lock: lock };
        layer.must_take_attributes()?;
        layer.look_like(workspace).map_err(io)?;
        layer.began = pass_a_moment(&layer.folder).map_err(io)?;
        Ok(layer)
    }

    /// Where it is, for the sandbox.
    #[must_use]
    pub fn layer(&self) -> Layer {
        let part = |name: &str| self.place.join(name).into_os_string();
        Layer { upper: part(UPPER), work: part(WORK) }
    }

    /// What takes the changes.
    #[must_use]
    pub fn upper(&self) -> &OwnedFd {
        &self.upper
    }

    /// What changed in the workspace after this moment was changed by others.
    #[must_use]
    pub const fn began(&self) -> Moment {
        self.began
    }

    /// The bytes that a layer in memory may hold, where they are used up.
    #[must_use]
    pub fn full_size(&self) -> Option<u64> {
        if self.in_memory { memory::full_size(&self.upper) } else { None }
    }

    /// Takes what stands at `path` in the layer to the trash entry `id`, from where a change can bring
    /// it to its place; `copy` copies it there from a layer that is on another file system. It is noted
    /// first, so that a kill leaves nothing in the trash.
    ///
    /// # Errors
    /// The system's, or those of `copy`.
    pub fn take_to_trash(
        &self,
        state: &State,
        (path, id): (&WorkspacePath, &str),
        copy: impl FnOnce(NameIn<'_>, NameIn<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let io = |errno: Errno| Error::io("move", path.to_string(), errno);
        self.note_taken(id).map_err(|source| Error::io("write", state.shown(FOLDER), source))?;
        let entry = state.folder(&format!("{}/{id}", trash::FOLDER))?;
        let parent = path.parent().unwrap_or_default();
        let parent = fs::open_beneath(self.upper.as_fd(), &parent, fs::FOLDER).map_err(io)?;
        let name = path.name().unwrap_or_default();
        match fs::rename_at(&parent, name, &entry, trash::CONTENT) {
            Err(Errno::XDEV) => copy((parent.as_fd(), name), (entry.as_fd(), OsStr::new(trash::CONTENT))),
            renamed => renamed.map_err(io),
        }
    }

    /// Removes what was taken to the trash and was not brought from there, since the change failed.
    pub fn drop_taken(&self, state: &State) {
        drop_taken(state, self.folder.as_fd());
    }

    /// Notes a trash entry.
    fn note_taken(&self, id: &str) -> std::io::Result<()> {
        let flags = rustix::fs::OFlags::WRONLY
            | rustix::fs::OFlags::CREATE
            | rustix::fs::OFlags::APPEND
            | rustix::fs::OFlags::NOFOLLOW
            | rustix::fs::OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, TAKEN, flags, Mode::from_raw_mode(0o600))?;
        fs::write_all(&file.into(), format!("{id}\n").as_bytes())
    }

    /// Refuses a file system without the attributes that a layer needs.
    fn must_take_attributes(&self) -> Result<(), Error> {
        let set = rustix::fs::fsetxattr(&self.upper, PROBE, b"y", XattrFlags::empty());
        set.and_then(|()| rustix::fs::fremovexattr(&self.upper, PROBE)).map_err(|errno| {
            let reason = format!("takes no extended attributes ({errno})");
            if self.in_memory {
                return not_on_overlay(&format!("{} {reason}, as before Linux 6.6", memory::PLACE));
            }
            not_possible(&format!("the file system of the workspace {reason}"))
        })
    }

    /// Gives the layer's top folder owner and mode of the root: a command sees them there.
    fn look_like(&self, workspace: &Workspace) -> Result<(), Errno> {
        let (root, own) = (rustix::fs::fstat(workspace.root_fd())?, rustix::fs::fstat(&self.upper)?);
        if (root.st_uid, root.st_gid) != (own.st_uid, own.st_gid) {
            let (user, group) = (Uid::from_raw(root.st_uid), Gid::from_raw(root.st_gid));
            // Where it is another's, only the kernel's view of who owns the top folder differs.
            let _ = rustix::fs::fchown(&self.upper, Some(user), Some(group));
        }
        rustix::fs::fchmod(&self.upper, Mode::from_raw_mode(fs::mode_of(&root)))
    }
}

impl Drop for LayerFolder {
    fn drop(&mut self) {
        // Best effort: the next transaction sweeps what is left.
        remove(self.layers.as_fd(), &self.name);
    }
}

/// The refusal of a transaction, with its reason.
#[must_use]
pub fn not_possible(reason: &str) -> Error {
    Error::invalid(format!("a transaction is not possible here: {reason}"))
        .suggest("Run the command without transaction, on_failure and dry_run: its changes are recorded, and undo takes them back except for files that git ignores.")
}

/// The refusal where the workspace is on an overlay file system, and there is no memory for a layer either.
fn not_on_overlay(reason: &str) -> Error {
    not_possible(&format!("the workspace is on an overlay file system, which cannot hold a layer, and {reason}"))
        .suggest("Put the workspace on a volume of the container (docker run -v DIR:DIR), or run the command without transaction, on_failure and dry_run: undo takes its changes back except for files that git ignores.")
}

/// Waits until the clock of the file system of `folder`, whose times change, has gone on: what changed
/// before that is no later than the moment that it answers, and what changes after it is.
///
/// # Errors
/// The system's.
pub fn pass_a_moment(folder: &OwnedFd) -> Result<Moment, Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let touch = || -> Result<Moment, Errno> {
        rustix::fs::futimens(folder, &Timestamps { last_access: now, last_modification: now })?;
        Ok(changed_at(&rustix::fs::fstat(folder)?))
    };
    let began = touch()?;
    for _ in 0..TICKS_MAX {
        if touch()? > began {
            break;
        }
        std::thread::sleep(TICK);
    }
    Ok(began)
}

/// Removes the layers of dead calls.
///
/// # Errors
/// The system's.
pub fn sweep(state: &State) -> Result<(), Error> {
    let Some(layers) = state.find_folder(FOLDER)? else { return Ok(()) };
    let names = fs::names_in(&layers).map_err(|errno| Error::io("list", state.shown(FOLDER), errno))?;
    for name in names.iter().filter_map(|name| name.to_str()) {
        let name = name.strip_suffix(LOCK).unwrap_or(name);
        let Some(_dead) = state.try_lock(layers.as_fd(), &lock_name(name))? else { continue };
        if let Ok(folder) = fs::open_at(layers.as_fd(), OsStr::new(name), fs::FOLDER) {
            drop_taken(state, folder.as_fd());
        }
        remove(layers.as_fd(), name);
    }
    Ok(())
}

/// Removes what a layer took to the trash, as far as no change described it there.
fn drop_taken(state: &State, folder: BorrowedFd<'_>) {
    let list = fs::read_at(folder, OsStr::new(TAKEN), TAKEN_BYTES_MAX).ok().flatten().unwrap_or_default();
    let known = trash::list(state).unwrap_or_default();
    for id in String::from_utf8_lossy(&list).lines().filter(|id| !known.iter().any(|entry| entry.id == *id)) {
        let _ = trash::purge(state, id);
    }
}

/// The name of a layer's lock.
fn lock_name(name: &str) -> String {
    format!("{name}{LOCK}")
}

/// Makes and opens a folder that nobody else has.
fn new_folder(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    if !make_folder(parent, OsStr::new(name), OWN_MODE)? {
        return Err(Errno::EXIST);
    }
    fs::open_at(parent, OsStr::new(name), fs::FOLDER)
}

/// Removes a layer and its lock.
fn remove(layers: BorrowedFd<'_>, name: &str) {
    if is_on_overlay(layers)
        && let Ok(memory) = memory::open()
        && fs::stat_at(memory.as_fd(), OsStr::new(&name_in_memory(name))).is_ok_and(|stat| is_mine(&stat))
    {
        remove_all(memory.as_fd(), OsStr::new(&name_in_memory(name)));
    }
    if !remove_all(layers, OsStr::new(name)).is_partial {
        let _ = fs::unlink_at(layers, lock_name(name), AtFlags::empty());
    }
}

/// Removes a folder with all that it holds, whatever its permissions are.
fn remove_all(parent: BorrowedFd<'_>, name: &OsStr) -> Removed {
    let removed = removal::remove(parent, name);
    if !removed.is_partial {
        return removed;
    }
    // A command may have closed its folders, and overlayfs closes one of its own.
    open_up(parent, name);
    removal::remove(parent, name)
}

/// Makes the folder that holds a layer in memory.
fn made_in_memory(name: &str) -> Result<OwnedFd, Error> {
    let memory = memory::open().map_err(|reason| not_on_overlay(&reason))?;
    new_folder(memory.as_fd(), &name_in_memory(name))
        .map_err(|errno| not_on_overlay(&format!("no folder can be made in {} ({errno})", memory::PLACE)))
}

/// The name of the folder in memory that holds a layer.
fn name_in_memory(name: &str) -> String {
    format!("lbx-{name}")
}

/// Whether something belongs to this account.
fn is_mine(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Makes a folder and all in it writable for this account.
fn open_up(parent: BorrowedFd<'_>, name: &OsStr) {
    let Some(top) = enter(parent, name) else { return };
    let mut waiting = vec![top];
    while let Some(folder) = waiting.pop() {
        let names: Vec<OsString> = fs::names_in(&folder).unwrap_or_default();
        let is_folder =
            |name: &OsString| fs::stat_at(folder.as_fd(), name).is_ok_and(|stat| fs::is_folder(&stat));
        let inner: Vec<OwnedFd> = names
            .iter()
            .filter(|name| is_folder(name))
            .filter_map(|name| enter(folder.as_fd(), name))
            .collect();
        waiting.extend(inner);
    }
}

/// Opens a folder of a layer, whatever its permissions are; they change where they forbid it.
#[must_use]
pub fn enter(parent: BorrowedFd<'_>, name: &OsStr) -> Option<OwnedFd> {
    let stat = fs::stat_at(parent, name).ok().filter(fs::is_folder)?;
    if fs::is_closed(fs::mode_of(&stat)) {
        // Nothing follows a link here: it was a folder a moment ago, in a place that is lbx's own.
        let mode = Mode::from_raw_mode(fs::opened_up(fs::mode_of(&stat)));
        let _ = rustix::fs::chmodat(parent, name, mode, AtFlags::empty());
    }
    fs::open_at(parent, name, fs::FOLDER).ok()
}
