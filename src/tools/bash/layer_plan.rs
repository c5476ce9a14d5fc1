//! The plan of a change that applies a layer.
//!
//! Files become files of the change, with their bytes. Large new files, and new folders that are ignored or hold many
//! files, are renamed into place through the trash. Ignored files beyond the limits of `bash.ignored_bytes` are renamed
//! as well, and their old versions are dropped: a build that rewrites its folder must not leave a copy of it in lbx's
//! state.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::Stat;
use rustix::io::Errno;

use super::layer_changes::{CleanMerge, ExcludedPaths, changed_meanwhile};
use super::response::warn_of;
use crate::control::seconds_now;
use crate::engine::change::{Change, LockedFile, moves, without_rename};
use crate::engine::journal::FolderEntry;
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::layer::LayerFolder;
use crate::engine::sandbox::overlay::{self, LayerDifference as Differing};
use crate::engine::store::trash::{self, TrashEntry};
use crate::engine::workspace::metadata::Identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::{HEAD, is_repository};
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind, text};

/// Largest new file that is copied, in bytes; a larger one is moved.
const COPIED_BYTES_MAX: u64 = 4 << 20;
/// Total bytes of copied files; beyond it, new files are moved.
const COPIED_TOTAL_MAX: u64 = 256 << 20;
/// Largest number of files of a new folder that are put one by one, since each is held open; a larger folder moves
/// whole.
const TREE_FILES_MAX: usize = 1000;
/// Number of ignored files of one command that an undo can restore.
const IGNORED_FILES_MAX: usize = 2000;

/// Files that others changed as well, with their merged bytes.
pub type MergedFiles = BTreeMap<WorkspacePath, CleanMerge>;

/// Part of a plan that is not in the change itself.
#[derive(Default)]
pub struct LayerPlan {
    /// Files and folders that get their times from the layer.
    pub times: Vec<(WorkspacePath, Stat)>,
    /// Trash entries of old files that are not kept.
    pub dropped: Vec<String>,
    /// Paths that an undo cannot restore.
    pub lost: BTreeSet<WorkspacePath>,
}

/// A layer that becomes a change.
pub struct LayerApplication<'a, 'c, 'e> {
    /// The change.
    change: &'c mut Change<'e>,
    /// The layer.
    layer: &'a LayerFolder,
    /// New folders.
    made: Vec<FolderEntry<WorkspacePath>>,
    /// Empty folders that are replaced.
    cleared: Vec<WorkspacePath>,
    /// Other empty folders that are removed.
    vacated: Vec<WorkspacePath>,
    /// The rest of the plan.
    rest: LayerPlan,
    /// Files and folders whose new owner or attributes are not applied.
    other_attributes: Vec<WorkspacePath>,
    /// New names of files that have another name.
    parted: Vec<WorkspacePath>,
    /// Bytes that may still be copied.
    bytes_left: u64,
    /// Paths that git ignores.
    ignored: &'a BTreeSet<WorkspacePath>,
    /// Merges with concurrent changes.
    merges: &'a MergedFiles,
    /// Largest ignored file that an undo can restore.
    ignored_file_bytes: u64,
    /// Bytes of ignored files that an undo may still restore.
    ignored_bytes_left: u64,
    /// Number of ignored files that an undo may still restore.
    ignored_files_left: usize,
}

impl<'a, 'c, 'e> LayerApplication<'a, 'c, 'e> {
    /// Starts an empty plan.
    pub fn new(
        change: &'c mut Change<'e>,
        layer: &'a LayerFolder,
        ignored: &'a BTreeSet<WorkspacePath>,
        merges: &'a MergedFiles,
    ) -> Self {
        let number = |key| change.policy().number(key);
        let (ignored_file_bytes, ignored_bytes_left) =
            (number(Key::BashIgnoredFileBytes), number(Key::BashIgnoredBytes));
        Self {
            change,
            layer,
            made: Vec::new(),
            cleared: Vec::new(),
            vacated: Vec::new(),
            rest: LayerPlan::default(),
            other_attributes: Vec::new(),
            parted: Vec::new(),
            bytes_left: COPIED_TOTAL_MAX,
            ignored,
            merges,
            ignored_file_bytes,
            ignored_bytes_left,
            ignored_files_left: IGNORED_FILES_MAX,
        }
    }

    /// Keeps every old version of a file that git ignores: others may have made it since the command ran.
    pub const fn keep_all_ignored(&mut self) {
        (self.ignored_file_bytes, self.ignored_bytes_left) = (u64::MAX, u64::MAX);
        self.ignored_files_left = usize::MAX;
    }

    /// Plans all differences, ordered by path, except the `excluded` ones.
    ///
    /// # Errors
    /// Fails as any change does.
    pub fn plan(&mut self, found: &[Differing], excluded: &ExcludedPaths) -> Result<(), Error> {
        let mut whole: Option<&WorkspacePath> = None;
        for (number, differing) in found.iter().enumerate() {
            if whole.is_some_and(|folder| differing.path.is_within(folder)) {
                continue;
            }
            let rest = found.get(number..).unwrap_or_default();
            // Its owner cannot rename a folder that is closed to changes, and so not undo that.
            let is_open = differing.upper.as_ref().is_some_and(|stat| !fs::is_closed(fs::mode_of(stat)));
            let goes_whole = differing.is_new_folder()
                && ((is_open && self.ignored.contains(&differing.path))
                    || is_large_tree(&differing.path, rest))
                && !excluded.keys().any(|path| path.is_within(&differing.path))
                && !self.holds_repository(&differing.path, rest);
            if goes_whole {
                whole = Some(&differing.path);
            }
            self.plan_one(differing, whole.is_some_and(|folder| *folder == differing.path))?;
        }
        Ok(())
    }

    /// Returns true if a new folder holds a repository, or is one: planned one by one, its files are checked.
    fn holds_repository(&self, folder: &WorkspacePath, rest: &[Differing]) -> bool {
        let below = rest.iter().map(|it| &it.path).take_while(|path| path.is_within(folder));
        let heads = below.filter(|path| path.name().is_some_and(|name| name.eq_ignore_ascii_case(HEAD)));
        let holders = heads.filter_map(WorkspacePath::parent);
        holders.into_iter().any(|holder| {
            let opened = fs::open_beneath(self.layer.upper.as_fd(), &holder, fs::FOLDER);
            opened.is_ok_and(|opened| is_repository(opened.as_fd()))
        })
    }

    /// Plans one difference; if `is_whole`, it is a folder that moves into place with its content.
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
            None if is_whole => self.plan_move(path, true),
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

    /// Adds the folders to the change, and returns the rest.
    ///
    /// # Errors
    /// Fails as any change does.
    pub fn finish(mut self) -> Result<LayerPlan, Error> {
        warn_of(self.change.engine(), &self.other_attributes, |names| {
            text!(
                "owner and extended attributes of existing files and folders stay as they were: {}. Run the command with `direct` to change them",
                names
            )
        });
        warn_of(self.change.engine(), &self.parted, |names| {
            text!(
                "these hard links are copies now, each with bytes of its own: {}. Run the command with `direct` to link them",
                names
            )
        });
        // Folders are removed innermost first.
        self.cleared.reverse();
        self.vacated.reverse();
        self.change.add_cleared(self.cleared);
        self.change.set_folders(self.made)?;
        self.change.add_vacated(self.vacated)?;
        self.rest.lost.iter().for_each(|path| self.change.note_lost(path));
        Ok(self.rest)
    }

    /// Plans the removal of the entry at a path; `is_replaced` if another entry takes its place.
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
        match self.open_if_editable(path, lower)? {
            Some(current) => self.change.remove(current.without_proof()),
            None => self.throw_away(path, false)?,
        }
        Ok(())
    }

    /// Returns the file at a path if its bytes can be saved as for an edit; `None` if the entry must move to the trash
    /// whole.
    fn open_if_editable(&self, path: &WorkspacePath, lower: &Stat) -> Result<Option<LockedFile>, Error> {
        use ErrorKind::{NotARegularFile, PermissionDenied, TooLarge};
        if !fs::is_regular(lower) && !fs::is_symlink(lower) {
            return Ok(None);
        }
        match self.change.open_canonical(path) {
            Err(error) if matches!(error.kind(), PermissionDenied | TooLarge | NotARegularFile) => Ok(None),
            looked => looked.map(Some),
        }
    }

    /// Plans a move to the trash.
    fn throw_away(&mut self, path: &WorkspacePath, is_folder: bool) -> Result<(), Error> {
        if self.ignored.contains(path) && !self.has_room_for(path)? {
            return self.drop_old(path, is_folder);
        }
        let entry = self.trash_entry(path, is_folder);
        let content = entry.content(Some(&self.layer.state));
        self.move_described(path, &content, entry)
    }

    /// Plans a rename from or to the trash, with the totals in its entry.
    fn move_described(
        &mut self,
        from: &WorkspacePath,
        to: &WorkspacePath,
        entry: TrashEntry,
    ) -> Result<(), Error> {
        let sum = self.change.move_whole(from, to, false)?;
        self.change.describe(entry, sum);
        Ok(())
    }

    /// Plans the removal of an ignored file or folder whose bytes are not kept.
    fn drop_old(&mut self, path: &WorkspacePath, is_folder: bool) -> Result<(), Error> {
        let entry = self.trash_entry(path, is_folder);
        let state = &self.layer.state;
        self.layer.note_taken(&entry.id, None)?;
        state.folder(&format!("{}/{}", trash::FOLDER, entry.id))?;
        let content = entry.content(Some(state));
        self.change.move_whole(path, &content, true)?;
        self.rest.dropped.push(entry.id);
        self.rest.lost.insert(path.clone());
        Ok(())
    }

    /// Returns true if an undo may restore all of an ignored file or folder, and counts it then.
    fn has_room_for(&mut self, path: &WorkspacePath) -> Result<bool, Error> {
        let (mut files, mut bytes, mut largest) = (0_usize, 0_u64, 0_u64);
        moves::walk(self.change.workspace(), path, &mut |found| {
            files += 1;
            let size = if fs::is_regular(found.stat) { fs::size_of(found.stat) } else { 0 };
            (bytes, largest) = (bytes.saturating_add(size), largest.max(size));
            Ok(())
        })?;
        Ok(largest <= self.ignored_file_bytes && self.reserve_backup(bytes))
    }

    /// Takes bytes from what an undo may still restore of ignored files; returns false if there is too little room.
    fn reserve_backup(&mut self, bytes: u64) -> bool {
        let Some(left) = self.ignored_bytes_left.checked_sub(bytes) else { return false };
        let Some(files_left) = self.ignored_files_left.checked_sub(1) else { return false };
        (self.ignored_bytes_left, self.ignored_files_left) = (left, files_left);
        true
    }

    /// Plans the new version of an ignored file without a backup of the old one: two renames.
    fn replace_ignored(&mut self, path: &WorkspacePath, lower: &Stat) -> Result<(), Error> {
        self.drop_old(path, fs::is_folder(lower))?;
        let (content, entry) = self.move_to_trash(path, false)?;
        self.change.move_whole(&content, path, true)?;
        self.rest.dropped.push(entry.id);
        Ok(())
    }

    /// Moves an entry from the layer to the trash; the change moves it on to its place.
    fn move_to_trash(
        &mut self,
        path: &WorkspacePath,
        is_folder: bool,
    ) -> Result<(WorkspacePath, TrashEntry), Error> {
        let entry = self.trash_entry(path, is_folder);
        let content = entry.content(Some(&self.layer.state));
        let shown = self.change.workspace().display(path);
        self.layer.take_to_trash((path, &entry.id), |from, to| without_rename::copy(from, to, &shown))?;
        for (inner, mode) in strip_all(self.change.workspace(), &content)? {
            self.change.set_folder_mode(inner.rebased(&content, path), fs::opened_up(mode), mode);
        }
        Ok((content, entry))
    }

    /// Plans the move of an entry from the layer to its place, through the trash: an undo moves it back there.
    fn plan_move(&mut self, path: &WorkspacePath, is_folder: bool) -> Result<(), Error> {
        let (content, entry) = self.move_to_trash(path, is_folder)?;
        self.move_described(&content, path, entry)
    }

    /// Returns a new trash entry of this change.
    fn trash_entry(&mut self, path: &WorkspacePath, is_folder: bool) -> TrashEntry {
        let session = self.change.engine().session().as_str().to_owned();
        TrashEntry::new(path.clone(), &session, seconds_now(), is_folder)
    }

    /// Plans a new folder.
    fn make(&mut self, path: &WorkspacePath, upper: &Stat) -> Result<(), Error> {
        let opened = fs::open_beneath(self.layer.upper.as_fd(), path, fs::FOLDER);
        let opened = opened.map_err(|errno| unreadable(path, errno))?;
        overlay::strip(&opened);
        let identity = Identity::of(&opened, upper);
        self.made.push(FolderEntry { path: path.clone(), mode: Some(fs::mode_of(upper)), identity });
        Ok(())
    }

    /// Plans the new version of a file.
    fn put(&mut self, path: &WorkspacePath, lower: Option<&Stat>, upper: &Stat) -> Result<(), Error> {
        let size = fs::size_of(upper);
        let is_plain = fs::is_regular(upper) || fs::is_symlink(upper);
        // A FIFO that was touched or created again is unchanged.
        if !is_plain && lower.is_some_and(|lower| lower.st_mode == upper.st_mode) {
            return Ok(());
        }
        if let Some(old) = lower.filter(|_| self.ignored.contains(path)) {
            let bytes = size.max(fs::size_of(old));
            if !fs::is_regular(old) || bytes > self.ignored_file_bytes || !self.reserve_backup(bytes) {
                return self.replace_ignored(path, old);
            }
        }
        let is_large = size > self.change.file_bytes_max()
            || (lower.is_none() && (size > COPIED_BYTES_MAX || size > self.bytes_left));
        let file = LayerFile::read(&self.layer.upper, path, upper, is_plain && !is_large)?;
        let current = lower.map(|lower| self.open_if_editable(path, lower)).transpose()?.flatten();
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
        let Some(mut bytes) = file.bytes else { return self.plan_move(path, false) };
        if fs::is_regular(upper) && upper.st_nlink > 1 && !self.ignored.contains(path) {
            self.parted.push(path.clone());
        }
        let mut mode = fs::recorded_mode(upper);
        if let Some(merge) = self.merges.get(path) {
            // Of a file that may not be read, no bytes are seen that the merge could be compared with.
            if seen.as_ref().is_none_or(|current| current.sha256() != merge.current) {
                return Err(changed_meanwhile(&self.change.workspace().display(path)));
            }
            bytes.clone_from(&merge.bytes);
            mode = merge.mode;
        }
        self.bytes_left = self.bytes_left.saturating_sub(size);
        if !self.merges.contains_key(path) {
            self.rest.times.push((path.clone(), *upper));
        }
        let is_same =
            |current: &LockedFile| current.mode() == Some(mode) && current.bytes() == bytes.as_slice();
        let (seen, identity) = match seen {
            Some(current) if is_same(&current) => return Ok(()),
            Some(current) => (current, None),
            None => (self.change.free_path(path)?, file.identity),
        };
        self.change.put_unread(seen.without_proof(), bytes, mode, identity);
        Ok(())
    }

    /// Returns owner and attributes of the file at a path, if a new file would get others.
    fn identity_of(&self, path: &WorkspacePath, lower: Option<&Stat>) -> Option<Identity> {
        let lower = lower.filter(|stat| fs::is_regular(stat))?;
        let file = self.change.workspace().open_regular(path, "").ok()?.0;
        Identity::of(&file, lower)
    }
}

/// A file in the layer.
struct LayerFile {
    /// Its bytes, or the target of a symlink; `None` if it must be moved.
    bytes: Option<Vec<u8>>,
    /// Its owner and attributes, if a new file would get others.
    identity: Option<Identity>,
}

impl LayerFile {
    /// Reads the file; its bytes only if they are wanted.
    fn read(layer: &OwnedFd, path: &WorkspacePath, stat: &Stat, has_bytes: bool) -> Result<Self, Error> {
        let io = |errno: Errno| unreadable(path, errno);
        if !fs::is_regular(stat) {
            let link = || fs::link_beneath(layer.as_fd(), path);
            let bytes = has_bytes.then(link).transpose().map_err(io)?;
            return Ok(Self { bytes, identity: None });
        }
        let file = overlay::open(layer, path).map_err(io)?;
        overlay::strip(&file);
        let identity = Identity::of(&file, stat);
        let read = || fs::read_to_end(std::fs::File::from(file), fs::size_of(stat), u64::MAX);
        let bytes = has_bytes.then(read).transpose();
        let bytes = bytes
            .map_err(|source| Error::io("read the layer of the command at", path.to_string(), source))?;
        Ok(Self { bytes, identity })
    }
}

/// Returns the error of a failed read of the layer.
fn unreadable(path: &WorkspacePath, errno: Errno) -> Error {
    Error::io("read the layer of the command at", path.to_string(), errno)
}

/// Returns true if a new folder has so many files that it moves whole; `rest` begins with the folder.
fn is_large_tree(folder: &WorkspacePath, rest: &[Differing]) -> bool {
    rest.iter().take_while(|inner| inner.path.is_within(folder)).nth(TREE_FILES_MAX).is_some()
}

/// Removes the attributes that overlayfs set at and below a path. Returns the folders that lbx had to open up, with the
/// permission bits that the command gave them.
fn strip_all(workspace: &Workspace, top: &WorkspacePath) -> Result<Vec<(WorkspacePath, u32)>, Error> {
    let mut closed = Vec::new();
    moves::walk(workspace, top, &mut |found| {
        if (fs::is_folder(found.stat) || fs::is_regular(found.stat))
            && let Ok(opened) = overlay::open(workspace.root_fd(), found.path)
        {
            closed.extend(overlay::closed_mode(&opened).map(|mode| (found.path.clone(), mode)));
            overlay::strip(&opened);
        }
        Ok(())
    })?;
    Ok(closed)
}
