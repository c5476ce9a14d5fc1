//! A planned merge as a change of the workspace.

use std::collections::{BTreeMap, BTreeSet};

use super::trees::{ForkTrees, path_of};
use super::{MergedPath, PathSelection};
use crate::engine::change::{CallerKnowledge, Change, LockedFile};
use crate::engine::history::stacks::History;
use crate::engine::journal::{self, JournalEntry, RevertedChanges};
use crate::engine::sandbox::fork::ForkFolder;
use crate::engine::sandbox::fork_base::{ForkMerge, MergedVersion};
use crate::engine::store::state::State;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::text::patch::FileAction;
use crate::text::tree_merge::{Action, FileType, MergedFile, MergedSource, Path, Side, Version};
use crate::tools::patch::ResultingTree;

/// Plans the actions of a merge in a change; returns them for the response.
///
/// # Errors
/// Fails with `stale_file` if a file changed since the trees were read, and as any change does.
pub fn apply(
    change: &mut Change<'_>,
    trees: &ForkTrees<'_>,
    actions: &[&Action],
) -> Result<Vec<MergedPath>, Error> {
    let mut applying = MergeApplication { change, trees, tree: ResultingTree::default() };
    actions.iter().try_for_each(|action| applying.plan(action))?;
    let vacated = applying.tree.emptied_folders(applying.change.workspace())?;
    change.add_vacated(vacated)?;
    Ok(actions.iter().map(|action| action_for_response(change, trees, action)).collect())
}

/// A merge that becomes a change.
struct MergeApplication<'a, 'c, 'e, 'f> {
    /// The change.
    change: &'c mut Change<'e>,
    /// The trees.
    trees: &'a ForkTrees<'f>,
    /// Files that come and go.
    tree: ResultingTree,
}

impl MergeApplication<'_, '_, '_, '_> {
    /// Plans one action.
    fn plan(&mut self, action: &Action) -> Result<(), Error> {
        if is_done(self.trees, action) {
            return Ok(());
        }
        let ours = action.paths.ours.as_deref().and_then(path_of);
        let Some(file) = &action.result else {
            let Some(path) = ours else { return Ok(()) };
            let current = self.current(&path)?;
            self.tree.gone.insert(path);
            self.change.remove(current.without_proof());
            return Ok(());
        };
        let Some(path) = path_of(&file.path) else { return Ok(()) };
        let mode = match file.version.file_type {
            FileType::Regular => file.version.mode,
            FileType::Symlink => fs::SYMLINK_MODE,
        };
        let bytes = self.bytes(action, file)?;
        match ours {
            Some(ours) if ours != path => {
                let source = self.current(&ours)?;
                let target = self.free(&path)?;
                self.tree.gone.insert(ours);
                if source.is_symlink() || file.version.file_type == FileType::Symlink {
                    self.change.remove(source.without_proof());
                    self.change.put_unread(target.without_proof(), bytes, mode, None);
                } else {
                    let (source, target) = (source.without_proof(), target.without_proof());
                    self.change.rename(source, target, bytes, Some(mode), CallerKnowledge::Nothing)?;
                }
            }
            Some(_) => {
                let current = self.current(&path)?;
                self.change.put_unread(current.without_proof(), bytes, mode, None);
            }
            None => {
                let current = self.free(&path)?;
                self.change.put_unread(current.without_proof(), bytes, mode, None);
            }
        }
        self.tree.files.insert(path);
        Ok(())
    }

    /// Returns a file of the workspace, which must be as it was when the trees were read.
    fn current(&self, path: &WorkspacePath) -> Result<LockedFile, Error> {
        let current = self.change.open_canonical(path)?;
        let known = self.trees.version(Side::Ours, Some(&path.as_bytes().to_vec()));
        let is_same = |known: &Version| {
            let is_symlink = known.file_type == FileType::Symlink;
            current.exists() && current.sha256() == known.sha256 && current.is_symlink() == is_symlink
        };
        if known.is_some_and(is_same) {
            Ok(current)
        } else {
            Err(changed(&self.change.workspace().display(path)))
        }
    }

    /// Returns the path of a new file, which is free, or is a folder that the merge empties.
    fn free(&self, path: &WorkspacePath) -> Result<LockedFile, Error> {
        let stat = self.change.workspace().place_of(path)?.stat().copied();
        let is_known = self.trees.version(Side::Ours, Some(&path.as_bytes().to_vec())).is_some();
        match stat {
            // A file that the merge moves or removes.
            Some(stat) if !fs::is_folder(&stat) && !is_known => {
                Err(changed(&self.change.workspace().display(path)))
            }
            _ => self.change.free_path(path),
        }
    }

    /// Returns the bytes of a merged file.
    fn bytes(&self, action: &Action, file: &MergedFile) -> Result<Vec<u8>, Error> {
        let (side, path) = match &file.source {
            MergedSource::Merged(bytes) => return Ok(bytes.clone()),
            MergedSource::Side(Side::Theirs) => (Side::Theirs, &action.paths.theirs),
            MergedSource::Side(_) => (Side::Ours, &action.paths.ours),
        };
        let path = path.as_deref().unwrap_or_default();
        let bytes_max = self.change.file_bytes_max();
        let bytes = self.trees.bytes(side, path, bytes_max)?;
        bytes.ok_or_else(|| {
            let shown = path_of(path).map(|path| self.change.workspace().display(&path)).unwrap_or_default();
            Error::new(
                ErrorKind::StaleFile,
                format!("{shown} changed in the fork, or is larger than {bytes_max} bytes"),
            )
            .at(shown)
            .suggest("Merge again once nobody works in the fork, or leave this file out with `paths`.")
        })
    }
}

/// Returns the error for a file that another program changed during the merge.
fn changed(shown: &str) -> Error {
    Error::new(ErrorKind::StaleFile, format!("{shown} changed during the merge; nothing was merged"))
        .at(shown)
        .suggest("Merge again: it then begins with the current files.")
}

/// Returns true if the workspace has the result of an action already.
pub fn is_done(trees: &ForkTrees<'_>, action: &Action) -> bool {
    let ours = action.paths.ours.as_ref();
    match &action.result {
        None => ours.is_none(),
        Some(file) => ours == Some(&file.path) && trees.version(Side::Ours, ours) == Some(&file.version),
    }
}

/// Returns an action for the response.
pub fn action_for_response(change: &Change<'_>, trees: &ForkTrees<'_>, action: &Action) -> MergedPath {
    let workspace = change.workspace();
    let shown = |path: &Path| path_of(path).map(|path| workspace.display(&path)).unwrap_or_default();
    let ours = action.paths.ours.as_ref();
    let path = action.result.as_ref().map(|file| &file.path).or(ours).or(action.paths.base.as_ref());
    let from = ours.filter(|ours| Some(*ours) != path).or_else(|| {
        // The workspace may have the rename already.
        action.paths.base.as_ref().filter(|base| action.result.is_some() && Some(*base) != path)
    });
    let done = match &action.result {
        _ if is_done(trees, action) => FileAction::AlreadyApplied,
        None => FileAction::Delete,
        Some(_) if ours.is_none() => FileAction::Create,
        Some(file) if ours != Some(&file.path) => FileAction::Rename,
        Some(_) => FileAction::Modify,
    };
    MergedPath {
        path: path.map(shown).unwrap_or_default(),
        action: done,
        from: from.map(shown),
        sha256: action.result.as_ref().map(|file| file.version.sha256),
        merged: matches!(action.result, Some(MergedFile { source: MergedSource::Merged(_), .. })),
    }
}

/// Returns the paths of the fork whose versions a merge brings.
pub fn merged_paths<'a>(actions: &'a [&Action]) -> BTreeSet<&'a Path> {
    actions.iter().flat_map(|action| [&action.paths.base, &action.paths.theirs]).flatten().collect()
}

/// Returns the fork's versions of merged paths, which later merges begin with. A version that has changed since is left
/// out: then both sides have what was merged.
pub fn versions_for_base<'a>(
    trees: &'a ForkTrees<'_>,
    paths: BTreeSet<&'a Path>,
    bytes_max: u64,
) -> impl Iterator<Item = (WorkspacePath, MergedVersion)> + 'a {
    paths.into_iter().filter_map(move |path| {
        let version = match trees.version(Side::Theirs, Some(path)) {
            None => None,
            Some(version) => {
                let mode =
                    if version.file_type == FileType::Symlink { fs::SYMLINK_MODE } else { version.mode };
                Some((mode, trees.bytes(Side::Theirs, path, bytes_max).ok()??))
            }
        };
        Some((path_of(path)?, version))
    })
}

/// Sets the base of a fork to the versions of the newest merges in effect: what was taken back is merged again.
///
/// # Errors
/// Returns the OS error.
pub fn set_base(state: &State, fork: &ForkFolder) -> Result<(), Error> {
    let mut versions = BTreeMap::new();
    for merge in fork.merges() {
        let undone = undone_paths(state, &merge)?;
        for path in &merge.paths {
            if undone.contains(path) {
                versions.entry(path.clone()).or_insert(None);
            } else {
                versions.insert(path.clone(), Some(merge.version_name(path)));
            }
        }
    }
    fork.set_base(&versions)
}

/// Returns the merges of a fork, without those that died before they changed anything. No other change may be open.
///
/// # Errors
/// Returns the OS error.
pub fn closed_merges(state: &State, fork: &ForkFolder) -> Result<Vec<ForkMerge>, Error> {
    let mut closed = Vec::new();
    for merge in fork.merges() {
        if !merge.is_open || has_entry(state, &merge)? {
            closed.push(ForkMerge { is_open: false, ..merge });
        }
    }
    Ok(closed)
}

/// Returns true if the change of a merge is in the journal.
fn has_entry(state: &State, merge: &ForkMerge) -> Result<bool, Error> {
    Ok(journal::history_entry(state, &merge.session, merge.seq)?.is_some_and(|entry| entry.id == merge.id))
}

/// Returns the paths of a merge that were taken back, all or in part. If in doubt, all: both sides have them then.
fn undone_paths(state: &State, merge: &ForkMerge) -> Result<BTreeSet<WorkspacePath>, Error> {
    if !has_entry(state, merge)? {
        // Its entry may be too old for the journal.
        return Ok(if merge.is_open { merge.paths.clone() } else { BTreeSet::new() });
    }
    let standing = History::load(state, &merge.session)?.changes_since(state, merge.seq)?;
    let Some((_, later)) = standing else { return Ok(merge.paths.clone()) };
    let mut effective: Vec<(&JournalEntry, &RevertedChanges)> = Vec::new();
    for entry in later.iter().rev() {
        let is_undone =
            |(by, taken): &(&JournalEntry, &RevertedChanges)| taken.is_whole() && by.takes_back(entry.seq);
        if !effective.iter().any(is_undone) {
            effective.extend(entry.takes_back.as_ref().map(|taken| (entry, taken)));
        }
    }
    let of_it = effective.iter().filter(|(by, _)| by.takes_back(merge.seq));
    let mut undone = BTreeSet::new();
    for (by, taken) in of_it {
        let is_known = !taken.paths.is_empty() && taken.paths.iter().all(|path| merge.paths.contains(path));
        undone.extend(if is_known {
            by.paths().chain(&taken.paths).collect()
        } else {
            Vec::from_iter(&merge.paths)
        });
    }
    Ok(undone.into_iter().cloned().collect())
}

impl PathSelection {
    /// Returns true if a file of a merge is selected by one of its paths.
    pub fn has<'p>(&self, mut paths: impl Iterator<Item = &'p Path>) -> bool {
        self.0.is_empty()
            || paths.any(|path| {
                let path = path_of(path);
                path.is_some_and(|path| self.0.iter().any(|chosen| path.is_within(chosen)))
            })
    }
}
