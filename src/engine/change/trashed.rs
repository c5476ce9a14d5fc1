//! The trash holds known versions: what leaves it must be what was deleted, and what an undo or a redo
//! takes there must be that again.

use std::collections::BTreeSet;

use super::Change;
use super::moves::{kind, walk};
use crate::engine::history::replay::{Live, ReplayResult};
use crate::engine::journal::Version;
use crate::engine::store::trash::{self, TrashEntry};
use crate::engine::workspace::contents::{Contents, Digest};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::error::{Error, ErrorKind};

impl Change<'_> {
    /// Refuses an entry of the trash that no longer holds what was deleted.
    ///
    /// # Errors
    /// `stale_file`; the system's.
    pub fn must_be_as_deleted(&self, entry: &TrashEntry) -> Result<(), Error> {
        let content = entry.content(self.state());
        match entry.digest {
            Some(known) if !self.contents_of(&content, known)?.is(known) => Err(self.spoiled(entry)),
            _ => Ok(()),
        }
    }

    /// The refusal of an entry of the trash that no longer holds what was deleted.
    fn spoiled(&self, entry: &TrashEntry) -> Error {
        let shown = self.engine.workspace.shown(&entry.path);
        let message = format!(
            "the trash no longer holds {shown} as it was deleted: another program changed trash {}",
            entry.id
        );
        Error::new(ErrorKind::StaleFile, message)
            .at(&shown)
            .suggest(format!("`log {shown}` lists the snapshots that hold it."))
    }

    /// A file of the trash that is not what was deleted, where its bytes are at hand elsewhere.
    ///
    /// # Errors
    /// The system's.
    pub fn kept_elsewhere(&self, entry: &TrashEntry) -> Result<Option<(Version, Vec<u8>)>, Error> {
        let Some(known @ Digest::File { mode, sha256 }) = entry.digest else { return Ok(None) };
        let content = entry.content(self.state());
        if kind(&self.engine.workspace, &content)?.is_none() || self.contents_of(&content, known)?.is(known) {
            return Ok(None);
        }
        let version = |bytes: &Vec<u8>| Version { sha256, size: bytes.len() as u64, mode, identity: None };
        Ok(self.bytes_seen(&entry.path, sha256).map(|bytes| (version(&bytes), bytes)))
    }

    /// Has files that the trash no longer holds as they were deleted come from elsewhere.
    ///
    /// # Errors
    /// The system's.
    pub fn replace_spoiled(&self, outcome: &mut ReplayResult) -> Result<(), Error> {
        let Some(state) = self.state() else { return Ok(()) };
        for piece in outcome.pieces.clone().iter() {
            let Some(id) = trash::id_of(state, &piece.real) else { continue };
            let entry = trash::described(state, &id)?;
            let Some(entry) = entry.filter(|entry| entry.content(Some(state)) == piece.real) else {
                continue;
            };
            if let Some((target, _)) = self.kept_elsewhere(&entry)? {
                outcome.pieces.remove_at(&piece.at);
                outcome.lives.push(Live { at: piece.at, real: None, from: None, target });
            }
        }
        Ok(())
    }

    /// Everything at or below a path, read as far as `known` wants it.
    ///
    /// # Errors
    /// The system's.
    fn contents_of(&self, top: &WorkspacePath, known: Digest) -> Result<Contents, Error> {
        let mut contents = empty_for(known);
        if kind(&self.engine.workspace, top)?.is_some() {
            walk(&self.engine.workspace, top, &mut |found| {
                found.add_to(&mut contents, top);
                Ok(())
            })?;
        }
        Ok(contents)
    }

    /// Refuses an outcome by which an entry of the trash would hold anything but what was deleted, or by which
    /// anything else comes out of one.
    ///
    /// # Errors
    /// `stale_file`; the system's.
    pub fn must_keep_the_trash(&self, outcome: &ReplayResult) -> Result<(), Error> {
        let Some(state) = self.state() else { return Ok(()) };
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
            let Some(entry) = trash::described(state, id)?.filter(|entry| entry.digest.is_some()) else {
                continue;
            };
            // What is there is either to leave, or in the way.
            let is_there = kind(&self.engine.workspace, &entry.content(Some(state)))?.is_some();
            if left.contains(id) || is_there {
                self.must_be_as_deleted(&entry)?;
            }
            self.must_become_as_deleted(&entry, outcome, entered.contains(id))?;
        }
        Ok(())
    }

    /// Refuses an outcome by which an entry of the trash would hold something, but not what was deleted.
    fn must_become_as_deleted(
        &self,
        entry: &TrashEntry,
        outcome: &ReplayResult,
        is_entered: bool,
    ) -> Result<(), Error> {
        let (Some(known), content) = (entry.digest, entry.content(self.state())) else { return Ok(()) };
        let contents = self.contents_after(&content, known, outcome)?;
        if contents.is_empty() || contents.is(known) {
            return Ok(());
        }
        let shown = self.engine.workspace.shown(&entry.path);
        let lives = outcome.lives.iter().map(|live| live.at.clone());
        let is_back =
            is_entered && outcome.pieces.iter().map(|piece| piece.at).chain(lives).any(|at| at == content);
        let (message, suggestion) = if is_back {
            let what = if entry.is_folder { "others' changes in it" } else { "others' changes" };
            (
                format!("{shown} has changed since this session changed it: this would delete {what}"),
                "Read what is there; `delete` deletes it.".to_owned(),
            )
        } else {
            (
                format!("{shown} was deleted after this change (trash {})", entry.id),
                format!("Restore it first: `restore` with `trash_id` {}.", entry.id),
            )
        };
        let error = Error::new(ErrorKind::StaleFile, message).suggest(suggestion);
        Err(error.at(shown).detail("trash_id", entry.id.clone()))
    }

    /// What stands at or below a path of the trash after an outcome.
    fn contents_after(
        &self,
        top: &WorkspacePath,
        known: Digest,
        outcome: &ReplayResult,
    ) -> Result<Contents, Error> {
        let workspace = &self.engine.workspace;
        let mut contents = empty_for(known);
        let rewritten: BTreeSet<&WorkspacePath> = outcome
            .lives
            .iter()
            .filter_map(|live| live.real.as_ref())
            .chain(outcome.gone.iter().filter_map(|gone| gone.real.as_ref()))
            .collect();
        let sources = outcome.pieces.iter().filter(|piece| piece.at.is_within(top)).map(|piece| piece.real);
        for source in sources.chain([top.clone()]) {
            if kind(workspace, &source)?.is_none() {
                continue;
            }
            walk(workspace, &source, &mut |found| {
                let at = outcome.pieces.placed(found.path);
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
            contents.set_folder(&inner(folder, top), Some(*after));
        }
        for live in outcome.lives.iter().filter(|live| live.at.is_within(top)) {
            contents.set_file(&inner(&live.at, top), live.target.mode, live.target.sha256);
        }
        let going = outcome.vacant.iter().chain(&outcome.ousted);
        let mut vacant: Vec<&WorkspacePath> = going.filter(|folder| folder.is_within(top)).collect();
        vacant.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        vacant.into_iter().for_each(|folder| contents.remove_empty(&inner(folder, top)));
        Ok(contents)
    }

    /// A path as people know it: of something in the trash, where it was.
    #[must_use]
    pub fn shown_original(&self, path: &WorkspacePath) -> String {
        self.engine.workspace.shown(&self.original(path))
    }

    /// Where what stands at a path was before it was deleted; the path itself where it was not.
    #[must_use]
    pub fn original(&self, path: &WorkspacePath) -> WorkspacePath {
        let state = self.state().filter(|_| is_state(path));
        state.and_then(|state| trash::original(state, path)).unwrap_or_else(|| path.clone())
    }
}

/// Nothing, to be filled so far as a digest wants it.
fn empty_for(known: Digest) -> Contents {
    match known {
        Digest::File { .. } | Digest::Bytes(_) => Contents::exact(),
        Digest::Looks(_) => Contents::default(),
    }
}

/// A path as seen from `top`, which holds it.
fn inner(path: &WorkspacePath, top: &WorkspacePath) -> WorkspacePath {
    path.rebased(top, &WorkspacePath::root())
}
