//! The folder of a layer: created in the state for one command, and removed with the call.
//!
//! A layer outlives its call in two cases. If the call was killed, the layer's lock is free, so the next call finds it.
//! If the command's version of a file conflicts with another change, the layer keeps that version. `bash` with `layer`
//! shows, applies or drops such a layer.
//!
//! ```text
//! spare_layer/        the last layer, empty, with its lock and its mark: the next one takes it, since to make and
//!                     remove files is slow
//! layers/NAME.lock    held while the call lives
//! layers/NAME/        layer.lbx   the command (LayerRecord)
//!                     taken        trash entries that hold parts of the layer (TakenEntry, a line each)
//!                     upper, work  the folders of overlayfs
//! journal/open/NAME.layer          marks a running command, so that every later call looks
//! ```

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::layer_folders::{
    HAS_COPIES, LOCK, LayerFolders, RECORD, SPARE, SPARE_LOCK, SPARE_MARK, UPPER, WORK, is_unused, lock_name,
    make_folders, name_outside, no_layer_error, not_on_overlay, open_upper, prune, remove, take_spare,
    take_spare_lock,
};
use super::overlay::{self, LayerDifference};
use super::plan::Layer;
use crate::control::seconds_now;
use crate::engine::journal::{self, LAYER_MARK, OPEN_FOLDER};
use crate::engine::store::lock::{Lock, is_unique_with, unique_name};
use crate::engine::store::state::{State, replace_record};
use crate::engine::store::{trash, version_of, written_by_newer};
use crate::engine::workspace::fs::{self, rename_new};
use crate::engine::workspace::metadata::{self, make_alike};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::{ChangeTime, changed_at};
use crate::engine::workspace::sync::is_on_overlay;
use crate::engine::workspace::{Workspace, removal};
use crate::error::{Error, ErrorKind};

/// Folder of the layers, below the state folder.
const FOLDER: &str = "layers";
/// File that lists the trash entries with parts of a layer, one per line.
const TAKEN: &str = "taken";
/// Largest such list, in bytes.
const TAKEN_BYTES_MAX: u64 = 16 << 20;
/// Prefix of a layer's name.
const PREFIX: &str = "layer";
/// Size limit of the file that describes the command of a layer.
const RECORD_BYTES_MAX: u64 = 4 << 20;
/// Version of its format.
const VERSION: u32 = 1;
/// Attribute that tests if a file system can hold a layer.
const PROBE: &str = "user.overlay.lbx";
/// Time between two checks of a file system's clock.
const TICK: Duration = Duration::from_millis(1);
/// Largest number of checks: some clocks tick every 10 ms.
const TICKS_MAX: usize = 50;

/// A name in an opened folder.
pub type NameIn<'f> = (BorrowedFd<'f>, &'f OsStr);

/// Facts about the command of a layer.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// Version of the format.
    pub version: u32,
    /// The command.
    pub command: String,
    /// Session that ran it.
    pub session: String,
    /// The caller's reason.
    pub why: Option<String>,
    /// Start of the command, in seconds since 1970.
    pub started: u64,
    /// Start of the command by the clock of the workspace's file system, or the last time that the caller was shown the
    /// conflicts. Later changes are made by others.
    pub began: ChangeTime,
    /// Permission bits of the workspace's root in the layer at that time.
    pub root_mode: Option<u32>,
    /// Newest snapshot at that time, if known.
    pub tip: Option<String>,
    /// The change that applies the layer.
    pub change: Option<ApplyingChange>,
    /// Paths that were not applied, each with the reason.
    pub conflicts: Vec<LayerConflict>,
}

/// The change that applies a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyingChange {
    /// Session that makes the change.
    pub session: String,
    /// Its number in that session.
    pub seq: u64,
    /// Its journal id.
    pub id: String,
}

/// A path whose version in the layer was not applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerConflict {
    /// The path; all below a folder belongs to the conflict.
    pub path: WorkspacePath,
    /// Reason, in words that follow the path.
    pub reason: String,
}

/// A part of a layer in the trash, from which a change moves it to its place.
#[derive(Debug, Serialize, Deserialize)]
struct TrashedEntry {
    /// The trash entry.
    id: String,
    /// Path in the layer; `None` for an old file that the trash does not keep.
    path: Option<WorkspacePath>,
}

/// A layer's folder; removed on drop, unless it is kept.
#[derive(Debug)]
pub struct LayerFolder {
    /// State that holds it.
    pub state: State,
    /// The folder of all layers.
    layers: Arc<OwnedFd>,
    /// Its name.
    pub name: String,
    /// Opened folder.
    folder: OwnedFd,
    /// Folder that takes the changes.
    pub upper: OwnedFd,
    /// Folder that holds it instead, since the file system of the workspace cannot hold a layer.
    outside: Option<PathBuf>,
    /// The command.
    pub record: LayerRecord,
    /// Files that were there before the command, as far as this call knows: those in the root, and those that its session
    /// has read.
    pub known: BTreeSet<WorkspacePath>,
    /// True if it outlives the call.
    pub is_kept: bool,
    /// True if the next layer can have its folders.
    is_spare: bool,
    /// Folder with the mark of a running command; `None` for a layer of an earlier call.
    marks: Option<Arc<OwnedFd>>,
    /// Lock that shows that the call lives; `None` once the layer is given up.
    lock: Option<Lock>,
}

impl LayerFolder {
    /// Creates a layer for a command.
    ///
    /// # Errors
    /// Fails with `invalid_request` if the file system cannot hold a layer.
    pub fn make(workspace: &Workspace, state: State, record: LayerRecord) -> Result<Self, Error> {
        let layers = state.folder(FOLDER)?;
        let name = unique_name(PREFIX);
        let shown = state.display(&format!("{FOLDER}/{name}"));
        let io = |errno: Errno| Error::io("make", shown.clone(), errno);
        take_spare_lock(&state, &layers, &name);
        // Another call may take the new file for the lock of a dead layer, and remove it.
        let lock = state.lock(layers.as_fd(), &lock_name(&name), "this command")?;
        let spare = take_spare(&state, &layers, &name);
        let is_new = spare.is_none();
        let made = || make_folders(&layers, &name, &shown);
        let folders = spare.map_or_else(made, Ok)?;
        let record = LayerRecord { version: VERSION, started: seconds_now(), ..record };
        let mut layer = Self::held((state, lock), layers, name, folders, record);
        if is_new {
            layer.must_take_attributes()?;
        }
        // A command sees owner, mode and times of the root there.
        make_alike(&layer.upper, workspace.root_fd()).map_err(io)?;
        layer.record.root_mode = rustix::fs::fstat(&layer.upper).ok().as_ref().map(fs::mode_of);
        let root = fs::open_at(workspace.root_fd(), OsStr::new("."), fs::FOLDER);
        let names = root.and_then(|root| fs::names_in(&root)).unwrap_or_default();
        layer.known.extend(names.iter().map(|name| WorkspacePath::root().join(name)));
        layer.record.began = layer.moment()?;
        layer.write_first_record().or_else(|_| layer.write_record())?;
        let (marks, mark) = (layer.state.folder(OPEN_FOLDER)?, layer.mark());
        if rename_new(&layer.folder, OsStr::new(SPARE_MARK), &marks, OsStr::new(&mark)).is_err() {
            fs::create_at(marks.as_fd(), OsStr::new(&mark), 0o600).map_err(io)?;
        }
        layer.marks = Some(marks);
        Ok(layer)
    }

    /// Opens a layer that an earlier call left.
    ///
    /// # Errors
    /// Fails with `not_found` if the layer does not exist, and with `lock_timeout` if its command still runs.
    pub fn open(state: State, name: &str) -> Result<Self, Error> {
        let missing = || {
            Error::new(ErrorKind::NotFound, format!("layer not found: {name}"))
                .suggest("`bash` with `list` shows the layers that are kept.")
        };
        let layers =
            state.find_folder(FOLDER)?.filter(|_| is_unique_with(PREFIX, name)).ok_or_else(missing)?;
        let folder = fs::open_at(layers.as_fd(), OsStr::new(name), fs::FOLDER).map_err(|_| missing())?;
        let Some(lock) = state.try_lock(layers.as_fd(), &lock_name(name))? else {
            return Err(Error::new(
                ErrorKind::LockTimeout,
                format!("the command of {name} is still running"),
            ));
        };
        let record = read_record(folder.as_fd(), name)?.ok_or_else(missing)?;
        let (upper, outside) = open_upper(layers.as_fd(), folder.as_fd(), name).ok_or_else(missing)?;
        let folders = LayerFolders { folder, upper, outside };
        let mut layer = Self::held((state, lock), layers, name.to_owned(), folders, record);
        layer.is_kept = true;
        layer.return_taken();
        Ok(layer)
    }

    /// Returns a layer whose lock this call holds.
    fn held(
        (state, lock): (State, Lock),
        layers: Arc<OwnedFd>,
        name: String,
        LayerFolders { folder, upper, outside }: LayerFolders,
        record: LayerRecord,
    ) -> Self {
        let (known, is_kept, is_spare, marks) = (BTreeSet::new(), false, false, None);
        let lock = Some(lock);
        Self { state, layers, name, folder, upper, outside, record, known, is_kept, is_spare, marks, lock }
    }

    /// Returns the difference of the root itself, if the command changed its mode or gave it an access list.
    pub fn root_difference(&self, workspace: &Workspace) -> Option<LayerDifference> {
        let mut upper = overlay::enter_root(&self.upper).ok()?;
        let lower = rustix::fs::fstat(workspace.root_fd()).ok()?;
        let is_changed = self.record.root_mode.is_some_and(|mode| mode != fs::mode_of(&upper));
        let given = upper.st_mode;
        // No attributes are read through the root as the workspace holds it.
        let root = fs::open_at(workspace.root_fd(), OsStr::new("."), fs::FOLDER);
        let attributes =
            [root.map(metadata::user_attributes).unwrap_or_default(), metadata::user_attributes(&self.upper)];
        overlay::set_group(&lower, &mut upper, &attributes);
        // The layer's root belongs to this account, whoever owns that of the workspace. And nobody could undo a mode that
        // locks its owner out of the workspace.
        let is_closing = upper.st_mode & 0o500 != 0o500;
        if is_closing || ![lower.st_uid, 0].contains(&fs::user_id()) {
            upper.st_mode = lower.st_mode;
        }
        let has_other_attributes = upper.st_mode != given;
        let path = WorkspacePath::root();
        is_changed.then_some(LayerDifference {
            path,
            lower: Some(lower),
            upper: Some(upper),
            has_other_attributes,
        })
    }

    /// Records which change applies the layer: once that change is in the history, the layer is done.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn note_change(&mut self, change: ApplyingChange) -> Result<(), Error> {
        self.record.change = Some(change);
        self.write_record()
    }

    /// Keeps only the conflicting paths, for a later call.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn keep_conflicts(&mut self, conflicts: Vec<LayerConflict>) -> Result<(), Error> {
        self.record.began = self.moment()?;
        self.record.change = None;
        self.record.conflicts = conflicts;
        self.write_record()?;
        let _ = fs::unlink_at(&self.folder, TAKEN, AtFlags::empty());
        let kept: Vec<&WorkspacePath> = self.record.conflicts.iter().map(|conflict| &conflict.path).collect();
        prune(&self.upper, &WorkspacePath::root(), &kept);
        self.is_kept = true;
        Ok(())
    }

    /// Returns a moment before all later changes of the workspace.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn moment(&self) -> Result<ChangeTime, Error> {
        let passed = wait_for_clock_tick(&self.folder);
        passed.map(|(moment, _)| moment).map_err(|errno| Error::io("touch", self.name.clone(), errno))
    }

    /// Records that the caller was shown the conflicts as they were at a moment.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn note_shown(&mut self, moment: ChangeTime) -> Result<(), Error> {
        self.record.began = moment;
        self.write_record()
    }

    /// Writes the facts about its command over those of the last one. A kill halfway loses nothing: the layer is still
    /// empty.
    fn write_first_record(&self) -> std::io::Result<()> {
        let bytes = serde_json::to_vec(&self.record)?;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(fs::open_at(self.folder.as_fd(), OsStr::new(RECORD), flags)?);
        file.write_all_at(&bytes, 0)?;
        file.set_len(bytes.len() as u64)
    }

    /// Writes the facts about its command.
    fn write_record(&self) -> Result<(), Error> {
        replace_record(self.folder.as_fd(), RECORD, &self.record).map(drop)
    }

    /// Returns the name of its mark among the open journal entries.
    fn mark(&self) -> String {
        format!("{}{LAYER_MARK}", self.name)
    }

    /// Returns the layer's folders, for the sandbox.
    pub fn layer(&self, workspace: &Workspace) -> Layer {
        let place = if let Some(outside) = &self.outside {
            outside.join(name_outside(&self.name))
        } else {
            let folder = self.state.path_of(&format!("{FOLDER}/{}", self.name));
            workspace.root().join(folder.as_path())
        };
        let part = |name: &str| place.join(name).into_os_string();
        Layer { upper: part(UPPER), work: part(WORK) }
    }

    /// Returns true if the layer is in memory.
    fn is_in_memory(&self) -> bool {
        self.outside.as_ref().is_some_and(|outside| outside.as_path() == Path::new(overlay::MEMORY))
    }

    /// Returns the size of a layer in memory if it is full.
    pub fn full_size(&self) -> Option<u64> {
        if self.is_in_memory() { overlay::full_size(&self.upper) } else { None }
    }

    /// Moves the entry at `path` in the layer to the trash entry `id`, from which a change can move it to its place;
    /// `copy` copies it there if the layer is on another file system. The list of taken entries is written first, so
    /// that a kill leaves nothing in the trash.
    ///
    /// # Errors
    /// Returns the OS error, or an error of `copy`.
    pub fn take_to_trash(
        &self,
        (path, id): (&WorkspacePath, &str),
        copy: impl FnOnce(NameIn<'_>, NameIn<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let io = |errno: Errno| Error::io("move", path.to_string(), errno);
        self.note_taken(id, Some(path))?;
        let entry = self.state.folder(&format!("{}/{id}", trash::FOLDER))?;
        let parent = path.parent().unwrap_or_default();
        let parent = fs::open_beneath(self.upper.as_fd(), &parent, fs::FOLDER).map_err(io)?;
        let name = path.name().unwrap_or_default();
        match fs::rename_at(&parent, name, &entry, trash::CONTENT) {
            Err(Errno::XDEV) => copy((parent.as_fd(), name), (entry.as_fd(), OsStr::new(trash::CONTENT))),
            renamed => renamed.map_err(io),
        }
    }

    /// Moves back the parts in the trash that did not reach their places, since the change failed; removes old files
    /// that the trash does not keep.
    pub fn return_taken(&self) {
        return_taken(&self.state, self.folder.as_fd(), Some(self.upper.as_fd()));
    }

    /// Records a trash entry that a change fills; `path` names the part of the layer that it holds.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn note_taken(&self, id: &str, path: Option<&WorkspacePath>) -> Result<(), Error> {
        let taken = TrashedEntry { id: id.to_owned(), path: path.cloned() };
        let mut line = serde_json::to_vec(&taken).map_err(|error| Error::internal(error.to_string()))?;
        line.push(b'\n');
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, TAKEN, flags, Mode::from_raw_mode(0o600));
        let appended = file.map_err(Into::into).and_then(|file| fs::write_all(&file.into(), &line));
        appended.map_err(|source| Error::io("write", self.state.display(FOLDER), source))
    }

    /// Fails if the file system lacks the attributes that a layer needs.
    fn must_take_attributes(&self) -> Result<(), Error> {
        let set = rustix::fs::fsetxattr(&self.upper, PROBE, b"y", XattrFlags::empty());
        set.and_then(|()| rustix::fs::fremovexattr(&self.upper, PROBE)).map_err(|errno| {
            let reason = format!("takes no extended attributes ({errno})");
            if self.is_in_memory() {
                return not_on_overlay(&format!("{} {reason}, as before Linux 6.6", overlay::MEMORY));
            }
            no_layer_error(&format!("the file system of the workspace {reason}"))
        })
    }

    /// Empties the layer, unless it outlives the call. On drop its folders become the spare layer: no process may use
    /// them then.
    pub fn release(&mut self) {
        if self.is_kept || self.outside.is_some() {
            return;
        }
        let Ok(work) = fs::open_at(self.folder.as_fd(), OsStr::new(WORK), fs::FOLDER) else { return };
        for folder in [&self.upper, &work] {
            for name in fs::names_in(folder).unwrap_or_default() {
                removal::remove(folder.as_fd(), &name);
            }
        }
        let _ = fs::unlink_at(&self.folder, TAKEN, AtFlags::empty());
        for attribute in [HAS_COPIES, overlay::MODE] {
            let _ = rustix::fs::fremovexattr(&self.upper, attribute);
        }
        self.is_spare = is_unused(&self.upper) && is_unused(&work);
    }

    /// Becomes the spare layer, unless another one already is. Its lock is free then: the next layer takes it at once.
    fn become_spare(&mut self) -> Result<(), Errno> {
        self.lock = None;
        let (lock, mark) = (lock_name(&self.name), self.mark());
        rename_new(&self.layers, OsStr::new(&lock), &self.folder, OsStr::new(SPARE_LOCK))?;
        if let Some(marks) = &self.marks {
            rename_new(marks, OsStr::new(&mark), &self.folder, OsStr::new(SPARE_MARK))?;
        }
        rename_new(&self.layers, OsStr::new(&self.name), self.state.fd(), OsStr::new(SPARE))
    }
}

impl Drop for LayerFolder {
    fn drop(&mut self) {
        // Best effort: a later call removes the rest.
        if self.is_spare && self.become_spare().is_ok() {
            return;
        }
        if !self.is_kept {
            remove(self.layers.as_fd(), &self.name);
        }
        if let Some(marks) = &self.marks {
            let _ = fs::unlink_at(marks, self.mark(), AtFlags::empty());
        }
    }
}

/// Returns the record of a layer's folder, if it has one.
///
/// # Errors
/// Fails for a layer of a newer lbx.
fn read_record(folder: BorrowedFd<'_>, name: &str) -> Result<Option<LayerRecord>, Error> {
    let bytes = fs::read_or_empty(folder, OsStr::new(RECORD), RECORD_BYTES_MAX);
    if version_of(&bytes) > VERSION {
        return Err(written_by_newer(&format!("the layer {name}")));
    }
    Ok(serde_json::from_slice(&bytes).ok())
}

/// Removes a mark, and returns the dead layer that it names; `None` if its command runs or the layer is done.
///
/// # Errors
/// Returns the OS error.
pub fn take_dead(state: &State, name: &str) -> Result<Option<KeptLayer>, Error> {
    let layers = state.folder(FOLDER)?;
    if is_unique_with(PREFIX, name) && state.try_lock(layers.as_fd(), &lock_name(name))?.is_none() {
        return Ok(None);
    }
    if let Some(marks) = state.find_folder(OPEN_FOLDER)? {
        let _ = fs::unlink_at(&marks, format!("{name}{LAYER_MARK}"), AtFlags::empty());
    }
    if is_unique_with(PREFIX, name) { Ok(kept_layer(state, layers.as_fd(), name)) } else { Ok(None) }
}

/// Waits until the clock of the file system of `folder` moves on; changes the times of `folder`. Returns a moment, and
/// true if the clock moved: then older changes are no later than the moment, and newer changes are later. Some file
/// systems count whole seconds.
///
/// # Errors
/// Returns the OS error.
pub fn wait_for_clock_tick(folder: &OwnedFd) -> Result<(ChangeTime, bool), Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let touch = || -> Result<ChangeTime, Errno> {
        rustix::fs::futimens(folder, &Timestamps { last_access: now, last_modification: now })?;
        Ok(changed_at(&rustix::fs::fstat(folder)?))
    };
    let began = touch()?;
    for _ in 0..TICKS_MAX {
        if touch()? > began {
            return Ok((began, true));
        }
        std::thread::sleep(TICK);
    }
    Ok((began, false))
}

/// A layer that outlived its call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLayer {
    /// Its name.
    pub name: String,
    /// The facts about its command.
    pub record: LayerRecord,
    /// True if its changes are gone: they were in memory.
    pub is_lost: bool,
}

/// Returns the layers that outlived their calls, oldest first.
///
/// Removes empty layers, and layers whose change is in the history.
///
/// # Errors
/// Returns the OS error.
pub fn kept_layers(state: &State) -> Result<Vec<KeptLayer>, Error> {
    let Some(layers) = state.find_folder(FOLDER)? else { return Ok(Vec::new()) };
    let names = fs::names_in(&layers).map_err(|errno| Error::io("list", state.display(FOLDER), errno))?;
    let mut names: Vec<&str> = names
        .iter()
        .filter_map(|name| name.to_str())
        .map(|name| name.strip_suffix(LOCK).unwrap_or(name))
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut kept = Vec::new();
    for name in names.into_iter().filter(|name| is_unique_with(PREFIX, name)) {
        let Some(_dead) = state.try_lock(layers.as_fd(), &lock_name(name))? else { continue };
        kept.extend(kept_layer(state, layers.as_fd(), name).filter(|layer| !layer.is_lost));
    }
    Ok(kept)
}

/// Returns a layer that no call holds; removes it if it is done, or its changes are lost.
fn kept_layer(state: &State, layers: BorrowedFd<'_>, name: &str) -> Option<KeptLayer> {
    let folder = fs::open_at(layers, OsStr::new(name), fs::FOLDER).ok();
    let record = folder.as_ref().and_then(|folder| read_record(folder.as_fd(), name).ok()?);
    let is_applied = |record: &LayerRecord| {
        record.change.as_ref().is_some_and(|change| {
            let entry = journal::history_entry(state, &change.session, change.seq).ok().flatten();
            entry.is_some_and(|entry| entry.id == change.id)
        })
    };
    let opened = folder.as_ref().and_then(|folder| open_upper(layers, folder.as_fd(), name));
    let upper = opened.map(|(upper, _)| upper);
    // A record that cannot be read may be of a newer version.
    let has_record =
        || folder.as_ref().is_some_and(|folder| fs::stat_at(folder.as_fd(), RECORD.as_ref()).is_ok());
    let is_done = record.as_ref().map_or_else(|| !has_record(), is_applied);
    if let Some(folder) = &folder {
        return_taken(state, folder.as_fd(), upper.as_ref().filter(|_| !is_done).map(OwnedFd::as_fd));
    }
    // Only memory loses it; elsewhere a call was killed that removed it.
    let is_lost = upper.is_none() && is_on_overlay(layers);
    let holds_nothing =
        || upper.as_ref().and_then(|upper| fs::names_in(upper).ok()).is_none_or(|it| it.is_empty());
    let is_over = is_done || (holds_nothing() && !is_lost);
    if is_over || is_lost {
        remove(layers, name);
    }
    record.filter(|_| !is_over).map(|record| KeptLayer { name: name.to_owned(), record, is_lost })
}

/// Moves parts of a layer back from the trash, unless a change already describes them; removes them if the layer is
/// gone.
fn return_taken(state: &State, folder: BorrowedFd<'_>, upper: Option<BorrowedFd<'_>>) {
    let list = fs::read_or_empty(folder, OsStr::new(TAKEN), TAKEN_BYTES_MAX);
    if list.is_empty() {
        return;
    }
    let is_described = |id: &str| {
        let entry = state.find_folder(&format!("{}/{id}", trash::FOLDER)).ok().flatten();
        entry.is_some_and(|entry| fs::stat_at(entry.as_fd(), OsStr::new(trash::DESCRIPTION)).is_ok())
    };
    let taken = list.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    for TrashedEntry { id, path } in taken.filter(|taken: &TrashedEntry| !is_described(&taken.id)) {
        if let Some((path, upper)) = path.zip(upper) {
            move_back(state, &id, &path, upper);
        }
        let _ = trash::purge(state, &id);
    }
    let _ = fs::unlink_at(folder, TAKEN, AtFlags::empty());
}

/// Moves a trash entry back into a layer. If it is a copy from another file system, the original is still there.
fn move_back(state: &State, id: &str, path: &WorkspacePath, upper: BorrowedFd<'_>) {
    let Ok(Some(entry)) = state.find_folder(&format!("{}/{id}", trash::FOLDER)) else { return };
    let Ok(parent) = fs::open_beneath(upper, &path.parent().unwrap_or_default(), fs::FOLDER) else { return };
    // If this fails, the layer lacks the part, which is purged from the trash.
    let _ = rename_new(&entry, OsStr::new(trash::CONTENT), &parent, path.name().unwrap_or_default());
}
