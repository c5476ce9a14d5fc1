//! The files that a layer changes, with the ignored folders that hold them, and the changes that others made to these
//! files while the command ran.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::response::{Action, FileChange};
use crate::engine::Engine;
use crate::engine::change::moves;
use crate::engine::change::record::{self, EarlierFiles};
use crate::engine::sandbox::layer::LayerFolder;
use crate::engine::sandbox::overlay::{self, FileOrigin, LayerDifference as Differing};
use crate::engine::snapshot::{IgnoreQuery, IgnoreResult, RULE_FILES, TreeItem};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::{ChangeTime, changed_at};
use crate::engine::workspace::{Workspace, digest, fs};
use crate::error::{Error, ErrorKind};
use crate::limits::{LAYER_RULES_BYTES_MAX, LISTED_HASH_BYTES_MAX, MERGED_BYTES_MAX};
use crate::sha256::Sha256;
use crate::text::merge::{EqualChanges, merge};

/// The changed paths that git ignores, each with the outermost ignored folder that holds it.
#[derive(Debug, Default)]
pub struct IgnoredPaths(BTreeMap<WorkspacePath, WorkspacePath>);

impl IgnoredPaths {
    /// Classifies the differences of a layer. Where rules cannot be read, anything may be ignored.
    pub fn of(engine: &Engine, layer: &OwnedFd, found: &[Differing], is_dry_run: bool) -> Self {
        Self::with(engine, layer, found, is_dry_run, |_| true)
    }

    /// Classifies the differences of a fork. Where rules cannot be read, nothing counts as ignored: half of a rename would
    /// be merged.
    pub fn classify_surely(engine: &Engine, layer: &OwnedFd, found: &[Differing]) -> Self {
        Self::with(engine, layer, found, false, |ignored| ignored.barred.is_none())
    }

    /// Classifies the differences of a layer by those results that `counts` accepts.
    fn with(
        engine: &Engine,
        layer: &OwnedFd,
        found: &[Differing],
        is_dry_run: bool,
        counts: impl Fn(&IgnoreResult) -> bool,
    ) -> Self {
        let rules: Vec<Option<Vec<u8>>> = found.iter().map(|differing| rules_of(layer, differing)).collect();
        let is_folder = |differing: &Differing| {
            differing.upper.as_ref().or(differing.lower.as_ref()).is_some_and(fs::is_folder)
        };
        let queries = found.iter().zip(&rules).map(|(differing, rules)| IgnoreQuery {
            path: differing.path.as_bytes(),
            is_folder: is_folder(differing),
            is_empty: false,
            rules: rules.as_deref(),
        });
        let queries: Vec<IgnoreQuery<'_>> = queries.collect();
        let ignored = record::ignored(engine, is_dry_run, &queries);
        let of_path = |(differing, ignored): (&Differing, Option<IgnoreResult>)| {
            let bytes = differing.path.as_bytes().get(..ignored.filter(&counts)?.folder_bytes)?;
            Some((differing.path.clone(), WorkspacePath::new(OsStr::from_bytes(bytes).as_ref())?))
        };
        Self(found.iter().zip(ignored).filter_map(of_path).collect())
    }

    /// Returns the ignored paths.
    pub fn paths(&self) -> BTreeSet<WorkspacePath> {
        self.0.keys().cloned().collect()
    }

    /// Returns the ignored folder that holds a path of the layer, or a path below one.
    pub fn folder_of(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        path.and_above().find_map(|above| self.0.get(&above)).cloned()
    }

    /// Returns true if a folder is made or removed inside an ignored folder.
    pub fn has_folder(&self, Differing { path, lower, upper, .. }: &Differing) -> bool {
        let is_folder = |stat: &Option<Stat>| stat.as_ref().is_none_or(fs::is_folder);
        let is_inside = self.0.get(path).is_some_and(|folder| folder != path);
        is_inside && lower.is_some() != upper.is_some() && is_folder(lower) && is_folder(upper)
    }
}

/// Returns the new bytes of a rule file.
fn rules_of(layer: &OwnedFd, differing: &Differing) -> Option<Vec<u8>> {
    let name = differing.path.name()?.as_bytes();
    let stat = differing.upper.as_ref().filter(|stat| RULE_FILES.contains(&name) && fs::is_regular(stat))?;
    let file = overlay::open(layer, &differing.path).ok()?;
    fs::read_to_end(std::fs::File::from(file), fs::size_of(stat), LAYER_RULES_BYTES_MAX).ok()
}

/// Returns the files that a layer changes.
///
/// # Errors
/// Returns the OS error.
pub fn changes(
    workspace: &Workspace,
    layer: &OwnedFd,
    found: &[Differing],
    classified: &IgnoredPaths,
) -> Result<Vec<FileChange>, Error> {
    let mut list = ChangeList {
        workspace,
        layer,
        classified,
        changes: Vec::new(),
        hash_bytes_left: LISTED_HASH_BYTES_MAX,
    };
    let holders: BTreeSet<WorkspacePath> = found.iter().filter_map(|it| it.path.parent()).collect();
    for differing in found {
        list.add(differing, &holders)?;
    }
    Ok(list.changes)
}

/// A list of changed files.
struct ChangeList<'a> {
    /// The workspace.
    workspace: &'a Workspace,
    /// The layer.
    layer: &'a OwnedFd,
    /// The ignored paths.
    classified: &'a IgnoredPaths,
    /// The changes so far.
    changes: Vec<FileChange>,
    /// Bytes that may still be hashed: a sparse file may claim any size.
    hash_bytes_left: u64,
}

impl ChangeList<'_> {
    /// Adds a difference; `holders` are the folders in which something differs.
    fn add(&mut self, differing: &Differing, holders: &BTreeSet<WorkspacePath>) -> Result<(), Error> {
        let Differing { path, lower, upper, .. } = differing;
        let Some(upper) = upper else {
            return self.add_gone(path, true);
        };
        let is_other = lower.as_ref().is_some_and(|lower| fs::is_folder(lower) != fs::is_folder(upper));
        // A new folder is listed by its entries.
        if fs::is_folder(upper) && !is_other && lower.is_none() && holders.contains(path) {
            return Ok(());
        }
        if let Some(lower) = lower
            && self.is_untouched(path, lower, upper)
        {
            return Ok(());
        }
        let action = if lower.is_some() { Action::Modify } else { Action::Create };
        self.push(path, action, Some(upper).filter(|upper| fs::is_regular(upper)));
        if is_other && lower.as_ref().is_some_and(fs::is_folder) {
            self.add_gone(path, false)
        } else {
            Ok(())
        }
    }

    /// Returns true if a file kept its bytes and mode, or a folder or FIFO its mode.
    fn is_untouched(&mut self, path: &WorkspacePath, lower: &Stat, upper: &Stat) -> bool {
        if fs::recorded_mode(lower) != fs::recorded_mode(upper) || fs::type_of(lower) != fs::type_of(upper) {
            return false;
        }
        if fs::is_folder(upper) {
            return true;
        }
        if fs::is_symlink(upper) {
            let target = |root: BorrowedFd<'_>| fs::link_beneath(root, path).ok();
            return target(self.workspace.root_fd()) == target(self.layer.as_fd());
        }
        if !fs::is_regular(upper) {
            return fs::mode_of(lower) == fs::mode_of(upper);
        }
        if lower.st_size != upper.st_size {
            return false;
        }
        let Some(new) = self.sha256(path, upper) else { return false };
        let old = self.workspace.open_regular(path, "").ok().map(|(file, _)| file);
        old.and_then(|file| digest::sha256_of(file).ok()) == Some(new)
    }

    /// Returns the SHA-256 of a file in the layer, unless too much was hashed already.
    fn sha256(&mut self, path: &WorkspacePath, stat: &Stat) -> Option<Sha256> {
        self.hash_bytes_left = self.hash_bytes_left.checked_sub(fs::size_of(stat))?;
        digest::sha256_of(overlay::open(self.layer, path).ok()?.into()).ok()
    }

    /// Adds the files and empty folders at and below a removed path; without the path itself if something else is there
    /// now.
    fn add_gone(&mut self, path: &WorkspacePath, with_path: bool) -> Result<(), Error> {
        let mut gone = BTreeSet::new();
        moves::walk(self.workspace, path, &mut |found| {
            // A folder is visited before its entries.
            found.path.parent().map(|parent| gone.remove(&parent));
            gone.insert(found.path.clone());
            Ok(())
        })?;
        let gone = gone.iter().filter(|gone| with_path || *gone != path);
        gone.for_each(|path| self.push(path, Action::Delete, None));
        Ok(())
    }

    /// Adds one path; `file` is the stat of a regular file.
    fn push(&mut self, path: &WorkspacePath, action: Action, file: Option<&Stat>) {
        let ignored = self.classified.folder_of(path);
        let is_listed = ignored.as_ref().is_none_or(|folder| folder == path);
        let sha256 = file.filter(|_| is_listed).and_then(|file| self.sha256(path, file));
        self.changes.push(FileChange { path: path.clone(), action, sha256, ignored, is_lost: false });
    }
}

/// Paths that are not applied, each with the reason.
pub type ExcludedPaths = BTreeMap<WorkspacePath, String>;

/// The files that both a command and others changed while the command ran.
pub struct LayerConflicts<'a> {
    /// The workspace.
    workspace: &'a Workspace,
    /// The layer.
    layer: &'a LayerFolder,
    /// Differences of the layer.
    found: &'a [Differing],
    /// True if it renamed or removed a regular file, once that is known.
    has_removed: OnceCell<bool>,
    /// Folders, each with two answers: others changed it, and it or one above it may be another than the command had.
    folders: RefCell<BTreeMap<WorkspacePath, (bool, bool)>>,
    /// Files of the newest snapshot from before the command. It may be older than the files were then.
    earlier: EarlierFiles<'a>,
}

/// A clean merge of two versions of a file.
#[derive(Debug, Clone)]
pub struct CleanMerge {
    /// SHA-256 of the current bytes that were merged.
    pub current: Sha256,
    /// The result.
    pub bytes: Vec<u8>,
    /// Its mode.
    pub mode: u32,
}

impl<'a> LayerConflicts<'a> {
    /// Compares a layer with the workspace as it is now.
    pub fn new(engine: &'a Engine, layer: &'a LayerFolder, found: &'a [Differing]) -> Self {
        let earlier = EarlierFiles::new(engine, layer.record.tip.as_deref(), layer.record.began.0);
        let (has_removed, folders) = (OnceCell::new(), RefCell::new(BTreeMap::new()));
        Self { workspace: &engine.workspace, layer, found, has_removed, folders, earlier }
    }

    /// Returns true if the command renamed or removed a regular file, even if its name has another one now, as after
    /// `sed -i.bak`: that is no copy of it.
    fn has_removed(&self) -> bool {
        let is_removed = |differing: &Differing| {
            let is_copy = || FileOrigin::of(&self.layer.upper, &differing.path).is_some();
            differing.lower.as_ref().is_some_and(fs::is_regular)
                && !(differing.upper.as_ref().is_some_and(fs::is_regular) && is_copy())
        };
        *self.has_removed.get_or_init(|| self.found.iter().any(is_removed))
    }

    /// Returns true if others changed the file or folder of a difference.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn has(&self, differing: &Differing) -> Result<bool, Error> {
        Ok(self.was_removed(differing) || self.was_changed(differing)?)
    }

    /// Returns true if others changed or created the file at the path.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn was_changed(&self, differing: &Differing) -> Result<bool, Error> {
        let Differing { path, lower, upper, .. } = differing;
        let workspace = self.workspace;
        let now = match fs::stat_beneath(workspace.root_fd(), path) {
            Ok(now) => Some(now),
            // The path leads over a file or symlink below the layer.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => None,
            Err(errno) => return Err(Error::io("look at", workspace.display(path), errno)),
        };
        let began = self.layer.record.began;
        let is_as_before = match (lower, &now) {
            (None, None) => true,
            (Some(lower), Some(now)) if fs::is_same_file(lower, now) => {
                if fs::is_folder(now) && upper.as_ref().is_some_and(fs::is_folder) {
                    true
                } else if fs::is_folder(now) {
                    is_tree_old(workspace, path, began)? && !self.may_be_elsewhere(path)
                } else {
                    changed_at(now) <= began
                        && (!self.may_be_elsewhere(path) || self.is_as_in_snapshot(path, now))
                }
            }
            _ => false,
        };
        Ok(!is_as_before)
    }

    /// Returns true if others may have put another folder above a path. A rename changes the times of the folder and of
    /// the one that holds it, but none of the files in it.
    fn may_be_elsewhere(&self, path: &WorkspacePath) -> bool {
        path.parent().is_some_and(|folder| self.changes_of(&folder).1)
    }

    /// Returns true if others changed a folder, and true if it or one above it may be another than the command had.
    fn changes_of(&self, folder: &WorkspacePath) -> (bool, bool) {
        if let Some(known) = self.folders.borrow().get(folder) {
            return *known;
        }
        let now = fs::stat_beneath(self.workspace.root_fd(), folder);
        let has_changed = now.is_ok_and(|now| changed_at(&now) > self.layer.record.began);
        let holder = folder.parent().map(|holder| self.changes_of(&holder));
        let is_other = holder.is_some_and(|(has_new, is_other)| is_other || (has_new && has_changed));
        self.folders.borrow_mut().insert(folder.clone(), (has_changed, is_other));
        (has_changed, is_other)
    }

    /// Returns true if a file has the bytes and the mode of the snapshot.
    fn is_as_in_snapshot(&self, path: &WorkspacePath, now: &Stat) -> bool {
        let is_same = || {
            let (file, stat) = self.workspace.open_regular(path, "").ok()?;
            let current = fs::read_to_end(file, fs::size_of(&stat), MERGED_BYTES_MAX).ok()?;
            let (item, bytes) = self.earlier.version(path, &current)?;
            let mode = fs::recorded_mode(now);
            Some(bytes == current && record::mode_of(&item, Some(mode)) == mode)
        };
        is_same() == Some(true)
    }

    /// Returns true if others removed or renamed what the command changed: a file, a folder, or a folder above it.
    ///
    /// overlayfs notes that a file is a copy, but in a user namespace not of which. If a copy has a name with no file below
    /// it, the command renamed it, and any name that it removed may be that of the original; else others removed the
    /// original. A command renames no folder from below: it copies the files instead.
    fn was_removed(&self, differing: &Differing) -> bool {
        let Differing { path, lower: None, upper: Some(upper), .. } = differing else { return false };
        let has_changed = || {
            let parent = path.and_above().skip(1).find_map(|parent| self.workspace.open_folder(&parent).ok());
            let stat = parent.and_then(|parent| rustix::fs::fstat(&parent).ok());
            stat.is_some_and(|stat| changed_at(&stat) > self.layer.record.began)
                || self.may_be_elsewhere(path)
        };
        let has_lost_its_original = || {
            let may_be_renamed = fs::is_regular(upper) && self.has_removed();
            (fs::is_regular(upper) || fs::is_folder(upper))
                && FileOrigin::of(&self.layer.upper, path).is_some()
                && !may_be_renamed
        };
        // A file that the command saved by a rename is no copy.
        let was_there = || self.layer.known.contains(path) || self.earlier.version(path, &[]).is_some();
        has_changed() && (has_lost_its_original() || was_there())
    }

    /// Merges the command's version of a file with the current one; returns `None` if the merge is not clean, or the
    /// common version is unknown.
    ///
    /// The base is the version of the snapshot. If the file was newer, both sides have the changes made in between, so they
    /// merge.
    pub fn merge(&self, differing: &Differing) -> Option<CleanMerge> {
        let modes = [differing.lower.as_ref()?, differing.upper.as_ref()?].map(fs::recorded_mode);
        let [current, new] = versions(self.workspace, &self.layer.upper, differing, MERGED_BYTES_MAX)?;
        let path = &differing.path;
        let base = || self.earlier.version(path, &current);
        let base = if current == new && modes[0] == modes[1] { None } else { Some(base()?) };
        let mode = base.as_ref().map_or(Some(modes[1]), |(item, _)| merged_mode(modes, item))?;
        let bytes = match base {
            Some((_, base)) if current != new => merged(&base, &new, &current)?,
            _ => new,
        };
        Some(CleanMerge { current: Sha256::of(&current), bytes, mode })
    }
}

/// Returns the bytes of a regular file below a layer and in it, each at most `bytes_max` long; no bytes where it does not
/// exist.
pub fn versions(
    workspace: &Workspace,
    layer: &OwnedFd,
    Differing { path, lower, upper, .. }: &Differing,
    bytes_max: u64,
) -> Option<[Vec<u8>; 2]> {
    let read = |stat: &Option<Stat>, open: &dyn Fn() -> Option<std::fs::File>| match stat {
        None => Some(Vec::new()),
        Some(stat) if !fs::is_regular(stat) || fs::size_of(stat) > bytes_max => None,
        Some(stat) => fs::read_to_end(open()?, fs::size_of(stat), bytes_max).ok(),
    };
    let old = read(lower, &|| Some(workspace.open_regular(path, "").ok()?.0))?;
    Some([old, read(upper, &|| Some(overlay::open(layer, path).ok()?.into()))?])
}

/// Returns the mode that others have set, or that of the command if only it has set one; `None` if both have, or a
/// snapshot does not tell.
fn merged_mode([current, new]: [u32; 2], base: &TreeItem) -> Option<u32> {
    let is_set = |mode: u32| record::mode_of(base, Some(mode)) != mode;
    match (is_set(current), is_set(new)) {
        _ if current == new => Some(new),
        (true, false) => Some(current),
        (false, true) => Some(new),
        _ => None,
    }
}

/// Returns the clean merge of two texts.
fn merged(base: &[u8], new: &[u8], current: &[u8]) -> Option<Vec<u8>> {
    let is_text = |bytes: &&[u8]| !bytes.contains(&0);
    if ![base, new, current].iter().all(is_text) {
        return None;
    }
    merge(base, new, current, EqualChanges::Once).ok()
}

/// Returns true if nothing in a folder changed since a moment.
fn is_tree_old(workspace: &Workspace, folder: &WorkspacePath, began: ChangeTime) -> Result<bool, Error> {
    let mut is_old = true;
    moves::walk(workspace, folder, &mut |found| {
        is_old &= changed_at(found.stat) <= began;
        Ok(())
    })?;
    Ok(is_old)
}

/// Returns the error of a transaction if others changed its files.
pub fn changed_meanwhile(shown: &str) -> Error {
    let message =
        format!("{shown} was changed by others while the command ran; nothing that it did was applied");
    Error::new(ErrorKind::StaleFile, message)
        .at(shown)
        .suggest("Run the command again: it then begins with the current files.")
}
