//! The files that a layer changes, with the ignored folders that hold them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::Stat;

use super::changed::Action;
use super::difference::FileChange;
use crate::engine::Engine;
use crate::engine::change::{moves, record};
use crate::engine::sandbox::overlay;
use crate::engine::sandbox::overlay::Difference as Differing;
use crate::engine::snapshot::{IgnoreQuery, Ignored, RULE_FILES};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs, hashed};
use crate::error::Error;
use crate::sha256::Sha256;

/// Largest rule file that is read, in bytes.
const RULES_BYTES_MAX: u64 = 1 << 20;

/// The changed paths that git ignores, each with the outermost ignored folder that holds it.
#[derive(Debug, Default)]
pub struct Classified(BTreeMap<WorkspacePath, WorkspacePath>);

impl Classified {
    /// Classifies the differences of a layer.
    pub fn of(engine: &Engine, layer: &OwnedFd, found: &[Differing], is_dry_run: bool) -> Self {
        let rules: Vec<Option<Vec<u8>>> = found.iter().map(|differing| rules_of(layer, differing)).collect();
        let is_folder = |differing: &Differing| {
            differing.upper.as_ref().or(differing.lower.as_ref()).is_some_and(fs::is_folder)
        };
        let queries = found.iter().zip(&rules).map(|(differing, rules)| IgnoreQuery {
            path: differing.path.as_bytes(),
            is_folder: is_folder(differing),
            rules: rules.as_deref(),
        });
        let queries: Vec<IgnoreQuery<'_>> = queries.collect();
        let ignored = record::ignored(engine, is_dry_run, &queries);
        let of_path = |(differing, ignored): (&Differing, Option<Ignored>)| {
            let bytes = differing.path.as_bytes().get(..ignored?.folder_bytes)?;
            Some((differing.path.clone(), WorkspacePath::new(OsStr::from_bytes(bytes).as_ref())?))
        };
        Self(found.iter().zip(ignored).filter_map(of_path).collect())
    }

    /// Returns the ignored paths.
    pub fn paths(&self) -> BTreeSet<WorkspacePath> {
        self.0.keys().cloned().collect()
    }

    /// Returns the ignored folder that holds a path of the layer, or a path below one.
    fn folder_of(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        let mut above = std::iter::successors(Some(path.clone()), WorkspacePath::parent);
        above.find_map(|above| self.0.get(&above)).cloned()
    }

    /// Returns the folders without a file that come or go inside an ignored folder: no change that anybody wants to
    /// undo. One in a folder that is part of the history belongs to that: an undo of it must find nothing else there.
    pub fn quiet(&self, found: &[Differing]) -> BTreeSet<WorkspacePath> {
        let above = |path: &WorkspacePath| std::iter::successors(path.parent(), WorkspacePath::parent);
        let is_folder = |stat: &Option<Stat>| stat.as_ref().is_some_and(fs::is_folder);
        let is_new = |differing: &Differing| differing.lower.is_none() && is_folder(&differing.upper);
        let with_files: BTreeSet<WorkspacePath> =
            found.iter().filter(|differing| !is_new(differing)).flat_map(|it| above(&it.path)).collect();
        // A folder comes before what it holds.
        let by_path: BTreeMap<&WorkspacePath, &Differing> = found.iter().map(|it| (&it.path, it)).collect();
        let mut quiet = BTreeSet::new();
        for (path, differing) in &by_path {
            let comes = is_new(differing) && !with_files.contains(*path);
            let goes = is_folder(&differing.lower) && differing.upper.is_none();
            let is_inside = self.0.get(*path).is_some_and(|folder| folder != *path);
            let is_old = |folder: &WorkspacePath| {
                by_path.get(folder).is_none_or(|it| is_folder(&it.lower) && is_folder(&it.upper))
            };
            let is_free = || above(path).all(|folder| quiet.contains(&folder) || is_old(&folder));
            if is_inside && (comes || goes) && is_free() {
                quiet.insert((*path).clone());
            }
        }
        quiet
    }
}

/// Returns the new bytes of a rule file.
fn rules_of(layer: &OwnedFd, differing: &Differing) -> Option<Vec<u8>> {
    let name = differing.path.name()?.as_bytes();
    let stat = differing.upper.as_ref().filter(|stat| RULE_FILES.contains(&name) && fs::is_regular(stat))?;
    let file = overlay::open(layer, &differing.path).ok()?;
    fs::read_to_end(std::fs::File::from(file), fs::size_of(stat), RULES_BYTES_MAX).ok()
}

/// Returns the files that a layer changes; `lost` cannot be restored by an undo.
///
/// # Errors
/// Returns the OS error.
pub fn changes(
    workspace: &Workspace,
    layer: &OwnedFd,
    found: &[Differing],
    classified: &Classified,
    lost: &BTreeSet<WorkspacePath>,
) -> Result<Vec<FileChange>, Error> {
    let mut list = Listing { workspace, layer, classified, lost, changes: Vec::new() };
    let holders: BTreeSet<WorkspacePath> = found.iter().filter_map(|it| it.path.parent()).collect();
    for differing in found {
        list.add(differing, &holders)?;
    }
    Ok(list.changes)
}

/// A list of changed files.
struct Listing<'a> {
    /// The workspace.
    workspace: &'a Workspace,
    /// The layer.
    layer: &'a OwnedFd,
    /// The ignored paths.
    classified: &'a Classified,
    /// Paths that an undo cannot restore.
    lost: &'a BTreeSet<WorkspacePath>,
    /// The changes so far.
    changes: Vec<FileChange>,
}

impl Listing<'_> {
    /// Adds a difference; `holders` are the folders in which something differs.
    fn add(&mut self, differing: &Differing, holders: &BTreeSet<WorkspacePath>) -> Result<(), Error> {
        let Differing { path, lower, upper, .. } = differing;
        let Some(upper) = upper else {
            return self.add_gone(path);
        };
        let is_other = lower.as_ref().is_some_and(|lower| fs::is_folder(lower) != fs::is_folder(upper));
        // A new folder is told by what is in it.
        if fs::is_folder(upper) && !is_other && lower.is_none() && holders.contains(path) {
            return Ok(());
        }
        if let Some(lower) = lower
            && self.is_untouched(path, lower, upper)
        {
            return Ok(());
        }
        let action = if lower.is_some() { Action::Modify } else { Action::Create };
        self.push(path, action, fs::is_regular(upper));
        if is_other && lower.as_ref().is_some_and(fs::is_folder) { self.add_below(path) } else { Ok(()) }
    }

    /// Whether a file has its bytes and its mode still, and a folder or a FIFO its mode.
    fn is_untouched(&self, path: &WorkspacePath, lower: &Stat, upper: &Stat) -> bool {
        if fs::recorded_mode(lower) != fs::recorded_mode(upper) || fs::type_of(lower) != fs::type_of(upper) {
            return false;
        }
        if fs::is_folder(upper) {
            return true;
        }
        if fs::is_symlink(upper) {
            let target =
                |root: BorrowedFd<'_>| fs::target_of(&fs::open_beneath(root, path, fs::LOOK).ok()?).ok();
            return target(self.workspace.root_fd()) == target(self.layer.as_fd());
        }
        if !fs::is_regular(upper) {
            return fs::mode_of(lower) == fs::mode_of(upper);
        }
        let old = || {
            let file = self.workspace.open_regular(path, "").ok()?.0;
            hashed::sha256_of(file).ok()
        };
        lower.st_size == upper.st_size && self.sha256(path).is_some_and(|new| old() == Some(new))
    }

    /// SHA-256 of a file in the layer.
    fn sha256(&self, path: &WorkspacePath) -> Option<Sha256> {
        hashed::sha256_of(overlay::open(self.layer, path).ok()?.into()).ok()
    }

    /// Adds what goes from a path: of a folder, the files in it.
    fn add_gone(&mut self, path: &WorkspacePath) -> Result<(), Error> {
        let before = self.changes.len();
        self.add_below(path)?;
        if self.changes.len() == before {
            self.push(path, Action::Delete, false);
        }
        Ok(())
    }

    /// Adds the files of a folder that goes.
    fn add_below(&mut self, path: &WorkspacePath) -> Result<(), Error> {
        let mut gone = Vec::new();
        moves::walk(self.workspace, path, &mut |found| {
            if !fs::is_folder(found.stat) {
                gone.push(found.path.clone());
            }
            Ok(())
        })?;
        gone.sort();
        gone.iter().for_each(|path| self.push(path, Action::Delete, false));
        Ok(())
    }

    /// Adds one path.
    fn push(&mut self, path: &WorkspacePath, action: Action, has_bytes: bool) {
        let ignored = self.classified.folder_of(path);
        let is_listed = ignored.as_ref().is_none_or(|folder| folder == path);
        self.changes.push(FileChange {
            path: path.clone(),
            action,
            sha256: if has_bytes && is_listed { self.sha256(path) } else { None },
            ignored,
            is_lost: self.lost.iter().any(|lost| path.is_within(lost)),
        });
    }
}
