//! A command as a transaction: what it changed lies in a layer, and becomes one change or nothing.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{AtFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::Bash;
use super::attributes::named;
use super::difference::Difference;
use super::listed::listed;
use super::meanwhile::{changed_meanwhile, must_be_as_it_was, was_removed};
use super::message::{body, subject};
use crate::clock::seconds_now;
use crate::engine::Engine;
use crate::engine::change::{Change, Current, across, moves};
use crate::engine::journal::FolderEntry;
use crate::engine::sandbox::known_repositories;
use crate::engine::sandbox::layer::LayerFolder;
use crate::engine::sandbox::overlay::Layer;
use crate::engine::sandbox::upper::{self, Difference as Differing};
use crate::engine::store::state::State;
use crate::engine::store::trash::TrashEntry;
use crate::engine::workspace::identity::Identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::tools::Tool as _;

/// A larger new file is moved to its place rather than copied.
const COPIED_BYTES_MAX: u64 = 4 << 20;
/// Bytes of files that are copied in all; beyond, new files are moved.
const COPIED_TOTAL_MAX: u64 = 256 << 20;
/// A new folder with more files is moved whole: each file that a change puts is held open.
const TREE_FILES_MAX: usize = 1000;

/// A command whose changes are not made yet.
pub struct Transaction {
    /// What it changes.
    layer: LayerFolder,
    /// The state that holds the layer.
    state: State,
}

impl Transaction {
    /// Makes the layer.
    ///
    /// # Errors
    /// `invalid_request` where there can be none.
    pub fn begin(engine: &Engine) -> Result<Self, Error> {
        let state = State::open(&engine.workspace)?;
        let layer = LayerFolder::make(&engine.workspace, &state)?;
        Ok(Self { layer, state })
    }

    /// Where the layer is, for the sandbox.
    pub fn layer(&self) -> Layer {
        self.layer.layer()
    }

    /// Says that a layer in memory was too small for what the command wrote.
    pub fn tell_full(&self, engine: &mut Engine) {
        if let Some(bytes) = self.layer.full_size() {
            engine.warn(format!(
                "the transaction used up {} MiB of memory in /dev/shm, where its changes are kept since the workspace is on an overlay file system: put the workspace on a volume, or give the container a larger /dev/shm",
                bytes >> 20
            ));
        }
    }

    /// What the command would change.
    ///
    /// # Errors
    /// `protected_path` where [`Self::apply`] would be refused so, or as for reading the layer.
    pub fn try_out(&self, engine: &mut Engine) -> Result<Difference, Error> {
        let found = upper::read(&engine.workspace, self.layer.upper(), &engine.control)?;
        let change = engine.begin(Bash::NAME, &[], true)?;
        let checked = found.iter().try_for_each(|differing| change.nothing_at(&differing.path).map(drop));
        checked.map_err(|error| self.refused(error))?;
        self.look(engine)
    }

    /// What the command changed.
    ///
    /// # Errors
    /// As for reading the layer.
    pub fn look(&self, engine: &Engine) -> Result<Difference, Error> {
        let found = upper::read(&engine.workspace, self.layer.upper(), &engine.control)?;
        let looked = listed(&engine.workspace, self.layer.upper(), &found);
        looked.map_err(|error| self.refused(error))
    }

    /// What an error means: where the command could touch a repository, one is new since the last search.
    fn refused(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::ProtectedPath {
            return error;
        }
        known_repositories::forget(&self.state);
        error.suggest("Nothing that the command did was applied. Run it again without what it does there: git and lbx keep their own state in that place.")
    }

    /// Makes the changes of the command as one change of the session, and answers them.
    ///
    /// # Errors
    /// `stale_file` where others have changed one of the files since the command began, or as for any
    /// change; nothing is applied then.
    pub fn apply(self, engine: &mut Engine, command: &str, why: Option<&str>) -> Result<Difference, Error> {
        let applied = self.apply_layer(engine, command, why);
        if applied.is_err() {
            self.layer.drop_taken(&self.state);
        }
        applied.map_err(|error| self.refused(error))
    }

    /// The same, where what was taken to the trash stays there after a failure.
    fn apply_layer(
        &self,
        engine: &mut Engine,
        command: &str,
        why: Option<&str>,
    ) -> Result<Difference, Error> {
        let control = engine.control.clone();
        let mut change = engine.begin(Bash::NAME, &[], false)?;
        let found = upper::read(change.workspace(), self.layer.upper(), &control)?;
        let difference = listed(change.workspace(), self.layer.upper(), &found)?;
        // Before the attributes go that tell of it.
        let removed = found.iter().find(|differing| was_removed(change.workspace(), &self.layer, differing));
        if let Some(differing) = removed {
            return Err(changed_meanwhile(&change.workspace().shown(&differing.path)));
        }
        let mut applying = Applying::new(&mut change, &self.layer);
        applying.plan(&found)?;
        let times = applying.finish()?;
        for differing in &found {
            must_be_as_it_was(change.workspace(), self.layer.began(), differing)?;
        }
        change.commit(subject(command), body(command, why))?;
        times.iter().for_each(|(path, stat)| set_times(&engine.workspace, path, stat));
        Ok(difference)
    }
}

/// A layer that becomes a change.
struct Applying<'a, 'c, 'e> {
    /// The change.
    change: &'c mut Change<'e>,
    /// The layer.
    layer: &'a LayerFolder,
    /// New folders.
    made: Vec<FolderEntry<WorkspacePath>>,
    /// Empty folders whose place something else takes.
    cleared: Vec<WorkspacePath>,
    /// Other empty folders that go.
    vacated: Vec<WorkspacePath>,
    /// Files whose times are to be those in the layer.
    times: Vec<(WorkspacePath, Stat)>,
    /// Files and folders whose new owner or attributes are not taken over.
    other_attributes: Vec<WorkspacePath>,
    /// Bytes that may still be copied.
    bytes_left: u64,
}

impl<'a, 'c, 'e> Applying<'a, 'c, 'e> {
    /// Nothing planned yet.
    fn new(change: &'c mut Change<'e>, layer: &'a LayerFolder) -> Self {
        Self {
            change,
            layer,
            made: Vec::new(),
            cleared: Vec::new(),
            vacated: Vec::new(),
            times: Vec::new(),
            other_attributes: Vec::new(),
            bytes_left: COPIED_TOTAL_MAX,
        }
    }

    /// Plans all that a layer holds, ordered by path.
    fn plan(&mut self, found: &[Differing]) -> Result<(), Error> {
        let mut whole: Option<&WorkspacePath> = None;
        for (number, differing) in found.iter().enumerate() {
            if whole.is_some_and(|folder| differing.path.is_within(folder)) {
                continue;
            }
            let rest = found.get(number..).unwrap_or_default();
            if differing.is_new_folder() && is_large_tree(&differing.path, rest) {
                whole = Some(&differing.path);
            }
            self.plan_one(differing, whole.is_some_and(|folder| *folder == differing.path))?;
        }
        Ok(())
    }

    /// Plans one difference; `is_whole` where it is a folder that moves to its place with all in it.
    fn plan_one(&mut self, differing: &Differing, is_whole: bool) -> Result<(), Error> {
        let Differing { path, lower, upper, has_other_attributes } = differing;
        let Some(upper) = upper else {
            return lower.as_ref().map_or(Ok(()), |lower| self.dispose(path, lower, false));
        };
        let lower = match lower {
            Some(lower) if fs::is_folder(lower) != fs::is_folder(upper) => {
                self.dispose(path, lower, true)?;
                None
            }
            lower => lower.as_ref(),
        };
        if !fs::is_folder(upper) {
            return self.put(path, lower, upper);
        }
        match lower {
            None if is_whole => self.bring(path, true),
            None => self.make(path, upper),
            Some(lower) => {
                if *has_other_attributes {
                    self.other_attributes.push(path.clone());
                }
                self.change.set_folder_mode(path.clone(), fs::mode_of(lower), fs::mode_of(upper));
                Ok(())
            }
        }
    }

    /// Hands over what concerns folders; answers the files whose times are to be set.
    fn finish(mut self) -> Result<Vec<(WorkspacePath, Stat)>, Error> {
        self.warn_of_attributes();
        // Innermost first, as they are removed.
        self.cleared.reverse();
        self.vacated.reverse();
        self.change.add_cleared(self.cleared);
        self.change.set_folders(self.made)?;
        self.change.add_vacated(self.vacated)?;
        Ok(self.times)
    }

    /// Says which files and folders keep their owner and attributes, though the command gave them others.
    fn warn_of_attributes(&mut self) {
        let engine = self.change.engine();
        if let Some(names) = named(&engine.workspace, &self.other_attributes) {
            engine.warn(format!(
                "owner and extended attributes of existing files and folders stay as they were in a transaction: {names}. Run the command without `transaction` to change them"
            ));
        }
    }

    /// Plans the end of what stands at a path; `is_replaced` where something else takes its place.
    fn dispose(&mut self, path: &WorkspacePath, lower: &Stat, is_replaced: bool) -> Result<(), Error> {
        if fs::is_folder(lower) {
            let folder = self.change.workspace().open_folder(path)?;
            let is_empty = fs::names_in(&folder).is_ok_and(|names| names.is_empty());
            match (is_empty, is_replaced) {
                (true, true) => self.cleared.push(path.clone()),
                (true, false) => self.vacated.push(path.clone()),
                (false, _) => self.throw_away(path, true)?,
            }
            return Ok(());
        }
        match self.look_at(path, lower)? {
            Some(current) => self.change.remove(current.without_proof()),
            None => self.throw_away(path, false)?,
        }
        Ok(())
    }

    /// What stands at a path, where it is a file whose bytes can be kept as those of an edit; `None` for
    /// what has to go to the trash as a whole.
    fn look_at(&self, path: &WorkspacePath, lower: &Stat) -> Result<Option<Current>, Error> {
        if !fs::is_regular(lower) && !fs::is_symlink(lower) {
            return Ok(None);
        }
        match self.change.look_beneath(path) {
            Ok(current) => Ok(Some(current)),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::TooLarge | ErrorKind::NotARegularFile
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Plans the way of something to the trash.
    fn throw_away(&mut self, path: &WorkspacePath, is_folder: bool) -> Result<(), Error> {
        let mut entry = self.trash_entry(path, is_folder);
        let sum = self.change.move_whole(path, &entry.content(self.change.state()))?;
        (entry.files, entry.bytes) = (sum.files, sum.bytes);
        self.change.describe(entry);
        Ok(())
    }

    /// Plans the way of something from the layer to its place, by way of the trash: there an undo puts
    /// it back.
    fn bring(&mut self, path: &WorkspacePath, is_folder: bool) -> Result<(), Error> {
        let mut entry = self.trash_entry(path, is_folder);
        let state = self.change.state().ok_or_else(|| Error::internal("a change without a state"))?;
        let content = entry.content(Some(state));
        let shown = self.change.workspace().shown(path);
        self.layer.take_to_trash(state, (path, &entry.id), |from, to| across::copy(from, to, &shown))?;
        strip_all(self.change.workspace(), &content)?;
        let sum = self.change.move_whole(&content, path)?;
        (entry.files, entry.bytes) = (sum.files, sum.bytes);
        self.change.describe(entry);
        Ok(())
    }

    /// A trash entry of this change.
    fn trash_entry(&mut self, path: &WorkspacePath, is_folder: bool) -> TrashEntry {
        let session = self.change.engine().session().as_str().to_owned();
        TrashEntry::new(path.clone(), &session, seconds_now(), is_folder)
    }

    /// Plans a new folder.
    fn make(&mut self, path: &WorkspacePath, upper: &Stat) -> Result<(), Error> {
        let opened = fs::open_beneath(self.layer.upper().as_fd(), path, fs::FOLDER);
        let opened = opened.map_err(|errno| unreadable(path, errno))?;
        upper::strip(&opened);
        let identity = Identity::of(&opened, upper);
        self.made.push(FolderEntry { path: path.clone(), mode: Some(fs::mode_of(upper)), identity });
        Ok(())
    }

    /// Plans what the command made of a file.
    fn put(&mut self, path: &WorkspacePath, lower: Option<&Stat>, upper: &Stat) -> Result<(), Error> {
        let size = fs::size_of(upper);
        let is_plain = fs::is_regular(upper) || fs::is_symlink(upper);
        let is_large = size > self.change.file_bytes_max()
            || (lower.is_none() && (size > COPIED_BYTES_MAX || size > self.bytes_left));
        let file = Made::read(self.layer.upper(), path, upper, is_plain && !is_large)?;
        let current = lower.map(|lower| self.look_at(path, lower)).transpose()?.flatten();
        if current.is_some() && file.bytes.is_some() && file.identity != self.identity_of(path, lower) {
            self.other_attributes.push(path.clone());
        }
        let seen = match current {
            Some(current) if file.bytes.is_some() => Some(current),
            _ => {
                if let Some(lower) = lower {
                    self.dispose(path, lower, true)?;
                }
                None
            }
        };
        let Some(bytes) = file.bytes else { return self.bring(path, false) };
        self.bytes_left = self.bytes_left.saturating_sub(size);
        self.times.push((path.clone(), *upper));
        let mode = fs::recorded_mode(upper);
        let is_same = |current: &Current| current.mode() == Some(mode) && current.bytes() == bytes.as_slice();
        let (seen, identity) = match seen {
            Some(current) if is_same(&current) => return Ok(()),
            Some(current) => (current, None),
            None => (self.change.nothing_at(path)?, file.identity),
        };
        self.change.put_unseen(seen.without_proof(), bytes, mode, identity);
        Ok(())
    }

    /// Owner and attributes of what stands at a path, where a new file would have others.
    fn identity_of(&self, path: &WorkspacePath, lower: Option<&Stat>) -> Option<Identity> {
        let lower = lower.filter(|stat| fs::is_regular(stat))?;
        let file = self.change.workspace().open_regular(path, "").ok()?.0;
        Identity::of(&file, lower)
    }
}

/// A file in the layer.
struct Made {
    /// Its bytes, or the target of a symlink; `None` where it has to be moved.
    bytes: Option<Vec<u8>>,
    /// Its owner and attributes, where a new file would have others.
    identity: Option<Identity>,
}

impl Made {
    /// Reads it, its bytes only where they are wanted.
    fn read(layer: &OwnedFd, path: &WorkspacePath, stat: &Stat, has_bytes: bool) -> Result<Self, Error> {
        let io = |errno: Errno| unreadable(path, errno);
        if !fs::is_regular(stat) {
            let link = || {
                let opened = fs::open_beneath(layer.as_fd(), path, fs::LOOK)?;
                fs::target_of(&opened)
            };
            let bytes = has_bytes.then(link).transpose().map_err(io)?;
            return Ok(Self { bytes, identity: None });
        }
        let file = upper::open(layer, path).map_err(io)?;
        upper::strip(&file);
        let identity = Identity::of(&file, stat);
        let read = || fs::read_to_end(std::fs::File::from(file), fs::size_of(stat), u64::MAX);
        let bytes = has_bytes.then(read).transpose();
        let bytes = bytes
            .map_err(|source| Error::io("read the layer of the command at", path.to_string(), source))?;
        Ok(Self { bytes, identity })
    }
}

/// The failure to read the layer.
fn unreadable(path: &WorkspacePath, errno: Errno) -> Error {
    Error::io("read the layer of the command at", path.to_string(), errno)
}

/// Whether a new folder holds so many files that it moves whole; `rest` begins with it.
fn is_large_tree(folder: &WorkspacePath, rest: &[Differing]) -> bool {
    rest.iter().take_while(|inner| inner.path.is_within(folder)).nth(TREE_FILES_MAX).is_some()
}

/// Removes what overlayfs noted at and below a path.
fn strip_all(workspace: &Workspace, top: &WorkspacePath) -> Result<(), Error> {
    moves::walk(workspace, top, &mut |found| {
        let flags = if fs::is_folder(found.stat) { fs::FOLDER } else { fs::READ };
        if (fs::is_folder(found.stat) || fs::is_regular(found.stat))
            && let Ok(opened) = fs::open_beneath(workspace.root_fd(), found.path, flags)
        {
            upper::strip(&opened);
        }
        Ok(())
    })
}

/// Gives a file the times that the command left it with.
fn set_times(workspace: &Workspace, path: &WorkspacePath, stat: &Stat) {
    let nanoseconds = |time| i64::try_from(time).unwrap_or_default();
    let times = Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: nanoseconds(stat.st_atime_nsec) },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: nanoseconds(stat.st_mtime_nsec) },
    };
    if let Ok(folder) = workspace.open_folder(&path.parent().unwrap_or_default()) {
        // A time is no part of what an undo brings back; where it cannot be set, the file has a new one.
        let name = path.name().unwrap_or_default();
        let _ = rustix::fs::utimensat(&folder, name, &times, AtFlags::SYMLINK_NOFOLLOW);
    }
}
