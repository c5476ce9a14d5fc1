//! Checks of the trash: an entry must leave it just as it was deleted, and an undo or redo must put just that back.

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;

use super::Change;
use super::moves::{SizeSum, kind, walk};
use crate::engine::history::replay::{Direction, FileToWrite, ReplayResult};
use crate::engine::journal::steps::{Location, Step};
use crate::engine::journal::{FolderEntry, JournalEntry, Version};
use crate::engine::store::state::State;
use crate::engine::store::trash::{self, TrashDescription, TrashEntry};
use crate::engine::workspace::digest::{Digest, TreeContents, new_folder_mode};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind, text};

impl Change<'_> {
    /// Returns the error for a trash entry whose content has changed.
    fn changed_content_error(&self, entry: &TrashEntry) -> Error {
        let shown = self.engine.workspace.display(&entry.path);
        let message = format!(
            "the trash no longer holds {shown} as it was deleted: another program changed trash {}",
            entry.id
        );
        Error::new(ErrorKind::StaleFile, message)
            .at(&shown)
            .suggest(format!("`log {shown}` lists the snapshots that hold it."))
    }

    /// Returns the file of a trash entry, and its bytes, if these are available elsewhere.
    fn bytes_elsewhere(&self, entry: &TrashEntry) -> Option<(Version, Vec<u8>)> {
        let Some(Digest::File { mode, sha256 }) = entry.digest else { return None };
        let bytes = self.bytes_seen(&entry.path, sha256)?;
        Some((Version { sha256, size: bytes.len() as u64, mode, identity: None }, bytes))
    }

    /// Returns the file of an entry, with its bytes from elsewhere, if the trash no longer holds it unchanged; `None`
    /// if the trash does.
    ///
    /// # Errors
    /// Returns `stale_file` if the deleted bytes are nowhere, or the OS error.
    pub fn restored_from_elsewhere(&self, entry: &TrashEntry) -> Result<Option<(Version, Vec<u8>)>, Error> {
        let Some(known) = entry.digest else { return Ok(None) };
        if contents_of(&self.engine.workspace, &entry.content(self.state()), known)?.is(known) {
            return Ok(None);
        }
        self.bytes_elsewhere(entry).map(Some).ok_or_else(|| self.changed_content_error(entry))
    }

    /// Corrects the descriptions of entries whose content another program changed between the check and the move to the
    /// trash.
    pub(super) fn correct_descriptions(&self, state: &State) {
        for (entry, then) in &self.described {
            let content = entry.content(Some(state));
            let mut now = TreeContents::unread();
            let mut sum = SizeSum::default();
            let seen = walk(&self.engine.workspace, &content, &mut |found| {
                found.add_to(&mut now, &content);
                sum.add(found.stat);
                Ok(())
            });
            if seen.is_err() || now.is_empty() || Some(now.by_looks()) == *then {
                continue;
            }
            let digest =
                entry.digest.and_then(|known| contents_of(&self.engine.workspace, &content, known).ok());
            // Without a digest the content of the entry is taken as it is.
            let digest = digest.map(|contents| contents.digest());
            let mut described = entry.clone();
            (described.files, described.bytes, described.digest) = (sum.files, sum.bytes, digest);
            let _ = trash::describe(state, &described);
        }
    }

    /// Makes folders in the trash, with the metadata of the present ones, for files that move there one by one.
    ///
    /// # Errors
    /// Returns the OS error.
    fn make_trash_folders(&self, state: &State, outcome: &mut ReplayResult) -> Result<(), Error> {
        let workspace = &self.engine.workspace;
        let mut known: BTreeSet<WorkspacePath> = outcome.made.iter().map(|made| made.path.clone()).collect();
        for piece in outcome.pieces.clone().iter() {
            let Some(content) = trash::content_of(state, &piece.at) else { continue };
            let (mut at, mut real) = (piece.at.parent(), piece.real.parent());
            while let (Some(folder), Some(stands)) = (at, real) {
                if !folder.is_within(&content) || !known.insert(folder.clone()) {
                    break;
                }
                let mode = workspace.place_of(&stands)?.stat().map(fs::mode_of);
                if outcome.pieces.source_of(&folder).is_none_or(|real| !stands_at(workspace, &real)) {
                    outcome.made.push(FolderEntry { path: folder.clone(), mode, identity: None });
                }
                (at, real) = (folder.parent(), stands.parent());
            }
        }
        outcome.made.sort_by_cached_key(|folder| folder.path.components().count());
        Ok(())
    }

    /// Fails if an outcome would put anything but the deleted content into a trash entry, or take anything else out of
    /// one. A file that has changed in the trash is taken from elsewhere, if its bytes are available.
    ///
    /// # Errors
    /// Returns `stale_file`, or the OS error.
    pub fn must_keep_the_trash(&self, outcome: &mut ReplayResult) -> Result<(), Error> {
        let Some(state) = self.state() else { return Ok(()) };
        self.make_trash_folders(state, outcome)?;
        let coming = outcome.pieces.iter().map(|piece| piece.at);
        let coming: Vec<WorkspacePath> =
            coming.chain(outcome.lives.iter().map(|live| live.at.clone())).collect();
        let leaving = outcome.pieces.iter().map(|piece| piece.real);
        let reals = outcome.lives.iter().filter_map(|live| live.real.clone());
        let gone = outcome.gone.iter().filter_map(|gone| gone.real.clone());
        let leaving: Vec<WorkspacePath> = leaving.chain(reals).chain(gone).collect();
        let ids = |paths: &[WorkspacePath]| -> BTreeSet<String> {
            paths.iter().filter_map(|path| trash::id_of(state, path)).collect()
        };
        let (left, entered) = (ids(&leaving), ids(&coming));
        for id in left.union(&entered) {
            let entry = match trash::described(state, id)? {
                TrashDescription::Entry(entry) => entry,
                TrashDescription::Damaged => return Err(damaged_entry(state, id)),
                TrashDescription::Newer | TrashDescription::Missing => continue,
            };
            let (Some(known), content) = (entry.digest, entry.content(Some(state))) else { continue };
            // An entry there either leaves or is in the way; folders whose files all left are neither.
            let held = contents_of(&self.engine.workspace, &content, known)?;
            let is_left = left.contains(id);
            if (is_left || held.has_files()) && !held.is(known) {
                let whole = outcome.pieces.iter().find(|piece| piece.real == content);
                let target = self.bytes_elsewhere(&entry);
                let (Some(piece), Some((target, _))) = (whole, target) else {
                    return Err(self.changed_content_error(&entry));
                };
                outcome.pieces.remove_at(&piece.at);
                outcome.lives.push(FileToWrite { at: piece.at, real: None, from: None, target });
                continue;
            }
            self.must_become_as_deleted(&entry, outcome, (is_left, entered.contains(id)))?;
        }
        Ok(())
    }

    /// Fails if an outcome would put something other than the deleted content into a trash entry.
    fn must_become_as_deleted(
        &self,
        entry: &TrashEntry,
        outcome: &ReplayResult,
        (is_left, is_entered): (bool, bool),
    ) -> Result<(), Error> {
        let (Some(known), content) = (entry.digest, entry.content(self.state())) else { return Ok(()) };
        let contents = self.contents_after(&content, known, outcome)?;
        // Folders whose files all left one by one belong to nobody.
        let is_left_empty = is_left && !contents.has_files();
        if contents.is_empty() || is_left_empty || contents.is(known) {
            return Ok(());
        }
        let shown = self.engine.workspace.display(&entry.path);
        let lives = outcome.lives.iter().map(|live| live.at.clone());
        let is_back =
            is_entered && outcome.pieces.iter().map(|piece| piece.at).chain(lives).any(|at| at == content);
        let message = if is_back {
            format!("{shown} has changed since this change brought it back: this would delete later changes")
        } else {
            format!("{shown} was deleted after this change (trash {})", entry.id)
        };
        // A later change of this session may have moved it: then restoring it makes a second one.
        let suggestion = if is_back || entry.session == self.engine.session().as_str() {
            text!(
                "Undo this session's later changes of {} first: `log` lists them. Changes of others stay as they are.",
                shown
            )
        } else {
            text!("Restore it first: `restore` with `trash_id` {}.", entry.id)
        };
        let error = Error::new(ErrorKind::StaleFile, message).suggest(suggestion);
        Err(error.at(shown).detail("trash_id", entry.id.clone()))
    }

    /// Returns the contents at or below a path of the trash after an outcome.
    fn contents_after(
        &self,
        top: &WorkspacePath,
        known: Digest,
        outcome: &ReplayResult,
    ) -> Result<TreeContents, Error> {
        let workspace = &self.engine.workspace;
        let mut contents = empty_for(known);
        let rewritten: BTreeSet<&WorkspacePath> = outcome
            .lives
            .iter()
            .filter_map(|live| live.real.as_ref())
            .chain(outcome.gone.iter().filter_map(|gone| gone.real.as_ref()))
            .chain(&outcome.displaced)
            .collect();
        let sources = outcome.pieces.iter().filter(|piece| piece.at.is_within(top)).map(|piece| piece.real);
        for source in sources.chain([top.clone()]) {
            if kind(workspace, &source)?.is_none() {
                continue;
            }
            walk(workspace, &source, &mut |found| {
                let at = outcome.pieces.target_of(found.path);
                if at.is_within(top) && !rewritten.contains(found.path) {
                    found.add_as(&mut contents, &inner(&at, top));
                }
                Ok(())
            })?;
        }
        for folder in outcome.made.iter().filter(|folder| folder.path.is_within(top)) {
            contents.set_folder(&inner(&folder.path, top), folder.mode);
        }
        for (folder, (_, after)) in outcome.modes.iter().filter(|(folder, _)| folder.is_within(top)) {
            contents.set_folder(&inner(folder, top), Some(after.unwrap_or_else(new_folder_mode)));
        }
        for live in outcome.lives.iter().filter(|live| live.at.is_within(top)) {
            contents.set_file(&inner(&live.at, top), live.target.mode, live.target.sha256);
        }
        let mut vacant: Vec<_> = outcome.vacant.iter().filter(|folder| folder.is_within(top)).collect();
        vacant.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        vacant.into_iter().for_each(|folder| contents.remove_empty(&inner(folder, top)));
        Ok(contents)
    }

    /// Returns a path for messages: for one in the trash, its original path.
    pub fn shown_original(&self, path: &WorkspacePath) -> String {
        self.engine.workspace.display(&self.original(path))
    }

    /// Returns the path at which an entry was before it was deleted; the path itself if it was not deleted.
    pub fn original(&self, path: &WorkspacePath) -> WorkspacePath {
        let state = self.state().filter(|_| is_state(path));
        state.and_then(|state| trash::original(state, path)).unwrap_or_else(|| path.clone())
    }
}

/// Fails if a step would move something to the trash that others have changed since its description was written.
///
/// # Errors
/// Returns `stale_file`, or the OS error.
pub fn must_be_as_described(
    (workspace, state): (&Workspace, &State),
    entry: &JournalEntry,
    step: &Step,
    direction: Direction,
) -> Result<(), Error> {
    let Step::Rename { from, to, copy_of: None, .. } = step else { return Ok(()) };
    let [from, to] = [from, to].map(|at| at.from_root(state.path()));
    let (source, target) = if matches!(direction, Direction::Redo) { (from, to) } else { (to, from) };
    let id = trash::content_of(state, &target).filter(|content| *content == target);
    let Some(id) = id.and_then(|content| trash::id_of(state, &content)) else { return Ok(()) };
    // Other steps move parts of it: what it holds in between is in no description.
    let is_inside = |at: &Location| {
        let at = at.from_root(state.path());
        [&source, &target].into_iter().any(|top| at != *top && at.is_within(top))
    };
    if entry.steps.iter().flat_map(Step::locations).any(is_inside) {
        return Ok(());
    }
    let known = description_of((workspace, state), entry, &id)?.and_then(|description| description.digest);
    match known {
        Some(known) if !contents_of(workspace, &source, known)?.is(known) => {
            let shown = workspace.display(&source);
            Err(Error::new(ErrorKind::StaleFile, format!("{shown} has changed since")).at(shown))
        }
        _ => Ok(()),
    }
}

/// Returns the description of the trash entry `id`, in place or still staged.
///
/// # Errors
/// Returns the OS error.
fn description_of(
    (workspace, state): (&Workspace, &State),
    entry: &JournalEntry,
    id: &str,
) -> Result<Option<TrashEntry>, Error> {
    if let Some(found) = trash::described(state, id)?.entry() {
        return Ok(Some(found));
    }
    let place = state.path_of(trash::FOLDER).join(id.as_ref()).join(trash::DESCRIPTION.as_ref());
    let is_it = |step: &&Step| step.locations().any(|at| at.from_root(state.path()) == place);
    let staged = entry.steps.iter().find(is_it).and_then(Step::staged);
    let Some(staged) = staged.map(|at| at.from_root(state.path())) else { return Ok(None) };
    let folder = workspace.open_folder(&staged.parent().unwrap_or_default())?;
    let name = staged.name().unwrap_or_default();
    let bytes = fs::read_at(folder.as_fd(), name, trash::DESCRIPTION_BYTES_MAX).ok().flatten();
    Ok(bytes.and_then(|bytes| trash::described_by(&bytes, id).entry()))
}

/// Returns the error for a trash entry whose description is damaged: nothing tells if its content is unchanged.
pub fn damaged_entry(state: &State, id: &str) -> Error {
    let folder = state.display(&format!("{}/{id}", trash::FOLDER));
    Error::new(ErrorKind::StaleFile, format!("the description of trash {id} is damaged"))
        .suggest(format!("Its bytes are in {folder}/{}: copy what you need from there.", trash::CONTENT))
        .detail("trash_id", id)
}

/// Returns true if there is anything at a path.
fn stands_at(workspace: &Workspace, path: &WorkspacePath) -> bool {
    kind(workspace, path).is_ok_and(|kind| kind.is_some())
}

/// Returns everything at or below a path; reads as much as `known` needs.
///
/// # Errors
/// Returns the OS error.
pub fn contents_of(workspace: &Workspace, top: &WorkspacePath, known: Digest) -> Result<TreeContents, Error> {
    let mut contents = empty_for(known);
    if kind(workspace, top)?.is_some() {
        walk(workspace, top, &mut |found| {
            found.add_to(&mut contents, top);
            Ok(())
        })?;
    }
    Ok(contents)
}

/// Returns empty contents, which read as much as a digest needs.
fn empty_for(known: Digest) -> TreeContents {
    match known {
        Digest::File { .. } | Digest::Bytes(_) => TreeContents::exact(),
        Digest::Looks(_) => TreeContents::default(),
    }
}

/// Returns a path relative to `top`, which contains it.
fn inner(path: &WorkspacePath, top: &WorkspacePath) -> WorkspacePath {
    path.rebased(top, &WorkspacePath::root())
}
