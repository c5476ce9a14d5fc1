//! Plans the bytes of each file for undo and redo.

use std::collections::BTreeMap;
use std::fmt;

use crate::engine::change::{CallerKnowledge, Change, LockedFile, record};
use crate::engine::history::replay::{FileToRemove, FileToWrite, Piece, Pieces, is_same};
use crate::engine::history::stacks::{History, moved_from};
use crate::engine::journal::{self, Version};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::error::{Error, ErrorKind};
use crate::limits::MOVERS_ASKED_MAX;
use crate::sha256::Sha256;
use crate::text::merge::{self, ConflictLabels, EqualChanges, MergeConflict};
use crate::tools::targets::{MOVED_TO, is_known_path};

/// Bytes of the conflicts that an error shows.
const CONFLICTS_BYTES: usize = 4_000;

/// Hint for a caller on the command line.
pub const MERGE_FLAG: &str = "On the command line: --merge.";
/// Suggestion for a file that others changed since.
const OFFERED: &str = "Read the file and edit it. To keep both changes where they do not touch each other, set `merge` to true.";
/// Suggestion if both changes cannot be kept.
const NOT_MERGED: &str =
    "Read the file and edit it. With `seq`, `undo` takes back another change by its number.";
/// Suggestion if the file is gone, and with it what is to be undone.
const GONE: &str = "What this session wrote there is gone with the file. With `seq`, `undo` takes back another change by its number.";
/// Suggestion in addition, for a file that snapshots have.
const VERSIONS: &str = "`log` with this path lists the versions of the file.";
/// Permission bit that lets the owner of a file read it.
const OWNER_READS: u32 = 0o400;
/// Permission bits that let the owner of a file in.
const OWNER_READS_AND_WRITES: u32 = 0o600;
/// Suggestion if the bytes of a version are lost.
pub const LOST: &str =
    "Undo the other files by `path`. What is lost can only come from a copy outside the workspace.";

/// Options of an undo or redo.
#[derive(Debug, Default, Clone)]
pub struct UndoOptions {
    /// True to keep later changes of others.
    pub merge: bool,
    /// Change or turn that is undone alone, even if later ones followed.
    pub single: Option<SingleChange>,
    /// Texts without a backup, since a part of a change makes them.
    pub texts: BTreeMap<Sha256, Vec<u8>>,
    /// Step after an obstacle is out of the way: the call repeated would take back the move of it.
    pub retry: String,
}

/// A change, or the changes of a turn, that later ones may have followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleChange {
    /// The change of that number.
    Change(u64),
    /// The turn that holds the change of that number.
    Turn(u64),
}

impl fmt::Display for SingleChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(seq) => write!(f, "change {seq}"),
            Self::Turn(seq) => write!(f, "the turn of change {seq}"),
        }
    }
}

impl SingleChange {
    /// Returns the error of a file that later changes concern as well. `why` says what they did to it.
    pub fn overlap(self, session: &str, shown: &str, why: &str) -> Error {
        // Not the changes of others, which are not this session's to undo.
        let first = format!(
            "Undo this session's later changes of {shown} first: `log` with session {session} lists them"
        );
        let other = match self {
            Self::Change(seq) => format!(", or undo another hunk of change {seq}"),
            Self::Turn(_) => String::new(),
        };
        Error::new(ErrorKind::StaleFile, format!("later changes of {shown} overlap with {self}: {why}"))
            .at(shown)
            .suggest(format!("{first}{other}. Or edit the file."))
    }
}

impl UndoOptions {
    /// Returns true if others' changes between those that are undone are kept, where they touch other lines.
    pub const fn keeps_foreign_changes(&self) -> bool {
        self.merge || self.single.is_some()
    }
}

/// Plans the files one by one.
pub struct FilePlanner<'p, 'c> {
    /// Change that is planned.
    change: &'p mut Change<'c>,
    /// History of the session.
    history: &'p History,
    /// Options.
    manner: &'p UndoOptions,
    /// Files to move or write.
    pieces: &'p Pieces,
    /// Paths concerned so far.
    pub paths: Vec<WorkspacePath>,
    /// Files that only get another name.
    pub unchanged: Vec<Piece>,
}

impl<'p, 'c> FilePlanner<'p, 'c> {
    /// Returns an empty planner.
    pub fn new(
        change: &'p mut Change<'c>,
        history: &'p History,
        manner: &'p UndoOptions,
        pieces: &'p Pieces,
    ) -> Self {
        Self { change, history, manner, pieces, paths: Vec::new(), unchanged: Vec::new() }
    }

    /// Plans the removal of a file, if it exists.
    ///
    /// # Errors
    /// Fails with `stale_file` if it has other bytes than this session left.
    pub fn remove(&mut self, gone: &FileToRemove) -> Result<(), Error> {
        let Some(real) = &gone.real else {
            self.must_not_be_moved(gone)?;
            self.note_done(&gone.at, gone.from.as_ref(), None);
            return Ok(());
        };
        let current = self.open_own_version(real, gone.from.as_ref())?;
        if !is_as_left(version(&current).as_ref(), gone.from.as_ref()) {
            return Err(self.stale(&current, gone.from.as_ref(), false));
        }
        self.paths.push(real.clone());
        self.change.remove(current.without_proof());
        Ok(())
    }

    /// Plans nothing for a new file that someone else removed.
    ///
    /// # Errors
    /// Fails with `stale_file` if another session moved it.
    fn must_not_be_moved(&self, gone: &FileToRemove) -> Result<(), Error> {
        let (Some(from), false) = (&gone.from, is_state(&gone.at)) else { return Ok(()) };
        let shown = self.change.workspace().display(&gone.at);
        if let Some((session, to)) = self.moved_by_others(&gone.at, from)? {
            let to = self.change.workspace().display(&to);
            let message = format!(
                "{shown} has changed since this session changed it: session {session} moved it to {to}"
            );
            let error = Error::new(ErrorKind::StaleFile, message).at(shown).detail(MOVED_TO, to);
            let own = &self.history.session;
            return Err(error.suggest(format!(
                "`undo` takes an older change back by its `seq`: `log` with session {own} shows them."
            )));
        }
        Ok(())
    }

    /// Notes a file that is as it should be already, though the session left it otherwise.
    fn note_done(&mut self, at: &WorkspacePath, from: Option<&Version>, target: Option<&Version>) {
        if !is_same(from, target) && !is_state(at) {
            self.change.note_unchanged_replay(at.clone(), from.cloned(), target.cloned());
        }
    }

    /// Returns the session that moved a file which this session left, and its present path.
    fn moved_by_others(
        &self,
        path: &WorkspacePath,
        left: &Version,
    ) -> Result<Option<(String, WorkspacePath)>, Error> {
        let mut found = Vec::new();
        if let Some(state) = self.change.state() {
            let others = journal::sessions(state)?.into_iter().filter(|it| *it != self.history.session);
            for session in others.take(MOVERS_ASKED_MAX) {
                found.extend(moved_from(state, &session, path)?.map(|moved| (session, moved.to)));
            }
        }
        let is_there = |to: &WorkspacePath| {
            let there = self.change.open_canonical(to);
            there.is_ok_and(|there| is_same(version(&there).as_ref(), Some(left)))
        };
        Ok(found.into_iter().find(|(_, to)| is_there(to)))
    }

    /// Plans the bytes of a file, and perhaps a new name.
    ///
    /// # Errors
    /// Fails with `stale_file` if it has other bytes than this session left and they are not to be merged, or cannot
    /// be; with `not_found` if no backup has the bytes.
    pub fn put(&mut self, live: FileToWrite) -> Result<(), Error> {
        let stays = live.real.is_none() || live.is_in_place(self.pieces);
        let FileToWrite { at, real, from, mut target } = live;
        let current = match &real {
            Some(real) => self.open_own_version(real, from.as_ref())?,
            None => self.change.free_path(&at)?,
        };
        let now = version(&current);
        if let (Some(now), Some(from)) = (&now, &from)
            && from.mode == target.mode
            && fs::is_symlink_mode(now.mode) == fs::is_symlink_mode(target.mode)
        {
            // The changes left the mode as it was; whoever has changed it since keeps it.
            target.mode = now.mode;
        }
        if is_same(now.as_ref(), Some(&target)) {
            self.note_done(&at, from.as_ref(), Some(&target));
            self.unchanged.extend(real.filter(|_| !stays).map(|real| Piece { real, at }));
            return Ok(());
        }
        let is_as_left = is_as_left(now.as_ref(), from.as_ref());
        let bytes = if is_as_left {
            self.bytes_of(&at, &target)?
        } else {
            self.merged(&current, from.as_ref(), &target)?
        };
        if self.manner.single.is_some()
            && stays
            && now.as_ref().is_some_and(|now| now.mode == target.mode)
            && current.bytes() == bytes
        {
            // The effect of the change is gone already.
            return Ok(());
        }
        if !is_as_left {
            self.change.set_merged(at.clone());
        }
        self.paths.push(at.clone());
        if stays {
            self.change.put_version(current.without_proof(), bytes, &target);
        } else {
            let place = self.change.free_path(&at)?.without_proof();
            let known = CallerKnowledge::UnchangedLines;
            self.change.rename(current.without_proof(), place, bytes, Some(target.mode), known)?;
        }
        Ok(())
    }

    /// Returns the file at a path, if it is as this session left it.
    fn open_own_version(
        &mut self,
        path: &WorkspacePath,
        left: Option<&Version>,
    ) -> Result<LockedFile, Error> {
        let current = self.change.open_canonical(path).map_err(|error| match error.kind() {
            ErrorKind::IsADirectory | ErrorKind::NotARegularFile => {
                let shown = self.change.workspace().display(path);
                Error::new(
                    ErrorKind::StaleFile,
                    format!("{}, and this session left a file there", error.message()),
                )
                .at(shown)
                .suggest(format!("Move what is there out of the way, {}.", self.manner.retry))
            }
            _ => error,
        })?;
        // The session itself may have made it read-only.
        if current.mode() != left.map(|left| left.mode) {
            self.change.must_be_allowed(&current)?;
        }
        Ok(current)
    }

    /// Returns the bytes of a version from its backup.
    fn bytes_of(&self, path: &WorkspacePath, version: &Version) -> Result<Vec<u8>, Error> {
        let made = self.manner.texts.get(&version.sha256).cloned();
        made.or_else(|| self.change.bytes_seen(path, version.sha256)).ok_or_else(|| {
            let shown = self.change.workspace().display(path);
            Error::new(
                ErrorKind::NotFound,
                format!(
                    "the bytes of {shown} with sha256 {} are no longer available: no backup and no snapshot has them",
                    version.sha256
                ),
            )
            .at(shown)
            .suggest(LOST)
        })
    }

    /// Returns the file without the change, but with later changes.
    fn merged(
        &mut self,
        current: &LockedFile,
        from: Option<&Version>,
        target: &Version,
    ) -> Result<Vec<u8>, Error> {
        let path = current.place().path();
        // The session itself left these bytes, by a merge or out of order, so the caller need not ask again.
        let is_among = self.manner.single.is_some();
        let left = match self.change.state() {
            Some(state) => self.history.left(state, path, is_among)?,
            None => None,
        };
        let is_own = left.is_some_and(|left| is_same(version(current).as_ref(), Some(&left)));
        let may_merge = (self.manner.merge || is_own) && !is_state(path);
        let (true, Some(from), true) = (may_merge, from, current.exists()) else {
            return Err(self.stale(current, from, !self.manner.merge));
        };
        if current.is_symlink() || fs::is_symlink_mode(target.mode) {
            return Err(self.stale(current, Some(from), false));
        }
        let (base, target) = (self.bytes_of(path, from)?, self.bytes_of(path, target)?);
        let merged =
            merge::merge(&base, current.bytes(), &target, EqualChanges::Once).map_err(|conflict| {
                match conflict {
                    MergeConflict::SameLines => self.overlap(current, from, &base, &target),
                    MergeConflict::TooMuch => conflict.error(current.place().display()),
                }
            })?;
        // A redo needs these bytes, and no version of the file has exactly them any more.
        self.change.keep(base);
        Ok(merged)
    }

    /// Returns the error of a file in which undone and later changes touch the same lines.
    fn overlap(&self, current: &LockedFile, from: &Version, base: &[u8], target: &[u8]) -> Error {
        let (left, back) = match self.manner.single {
            Some(single) => (format!("after {single}"), format!("without {single}")),
            None => ("as this session left it".to_owned(), "taken back".to_owned()),
        };
        let labels = ConflictLabels { base: &left, one: "now", other: &back };
        let shown = merge::conflicts(base, current.bytes(), target, labels, CONFLICTS_BYTES);
        self.stale(current, Some(from), false)
            .detail("merge", "the changes touch the same lines")
            .detail("conflicts", shown)
    }

    /// Returns the error of a file that has changed since; `can_merge` if both changes might be kept.
    fn stale(&self, current: &LockedFile, from: Option<&Version>, can_merge: bool) -> Error {
        let shown = &self.change.shown_original(current.place().path());
        let hex = |sha256: Option<Sha256>| sha256.map(Sha256::to_hex);
        let same_bytes = from.map(|version| version.sha256) == current.exists().then(|| current.sha256());
        let mut is_gone = false;
        let what = match (from, current.mode()) {
            (Some(from), Some(mode)) if same_bytes => {
                format!("its mode is {} and was {}", fs::mode_text(mode), fs::mode_text(from.mode))
            }
            (None, Some(_)) => "it did not exist, and now it does".to_owned(),
            (Some(from), None) => {
                if let Ok(Some((session, to))) = self.moved_by_others(current.place().path(), from) {
                    format!("session {session} moved it to {}", self.change.workspace().display(&to))
                } else {
                    // The session takes back its own removal first, as any later change.
                    is_gone = !self.has_removed(current);
                    "it is gone".to_owned()
                }
            }
            _ => "its content is different".to_owned(),
        };
        let may_merge = can_merge && from.is_some() && current.exists();
        let error = if let Some(single) = self.manner.single {
            single.overlap(&self.history.session, shown, &what)
        } else {
            let message = format!("{shown} has changed since this session changed it: {what}");
            let suggestion = if may_merge { OFFERED } else { NOT_MERGED };
            Error::new(ErrorKind::StaleFile, message).at(shown).suggest(suggestion)
        };
        let error = if is_gone { error.suggest(self.advice_without(current)) } else { error };
        let error = error
            .detail("expected_sha256", hex(from.map(|version| version.sha256)))
            .detail("actual_sha256", hex(current.exists().then(|| current.sha256())));
        if may_merge && self.manner.single.is_none() { error.on_command_line(MERGE_FLAG) } else { error }
    }

    /// Returns true if a later change of the session itself removed a file.
    fn has_removed(&self, current: &LockedFile) -> bool {
        let state = self.change.state().filter(|_| self.manner.single.is_some());
        state.is_some_and(|state| self.history.has_removed(state, current.place().path()).unwrap_or(false))
    }

    /// Returns the suggestion for a file that is gone.
    fn advice_without(&self, current: &LockedFile) -> String {
        let store = record::find(self.change.engine_ref()).ok().flatten();
        let has_versions = store.is_some() && is_known_path(store.as_ref(), current.place()).unwrap_or(false);
        if has_versions { format!("{GONE} {VERSIONS}") } else { GONE.to_owned() }
    }
}

/// Returns true if a file is as a change left it. If that shut its owner out, they may have let themselves in
/// since, as lbx advises.
fn is_as_left(now: Option<&Version>, left: Option<&Version>) -> bool {
    let is_let_in = |(now, left): (&Version, &Version)| {
        let was_closed = left.mode & OWNER_READS == 0;
        was_closed && now.sha256 == left.sha256 && now.mode == left.mode | OWNER_READS_AND_WRITES
    };
    is_same(now, left) || now.zip(left).is_some_and(is_let_in)
}

/// Returns the version of a file; `None` if it does not exist.
pub fn version(current: &LockedFile) -> Option<Version> {
    let size = current.bytes().len() as u64;
    current.mode().map(|mode| Version { sha256: current.sha256(), size, mode, identity: None })
}
