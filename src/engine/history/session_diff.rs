//! Net effect of one session's changes, without changes by others in between. An undone change has no effect. Pure.
//!
//! `session` uses it on the journal, `diff` on the snapshots ([`PathChanges`] alone, since snapshots name every path
//! that a move changes).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::engine::journal::{JournalEntry, MoveEntry, Version};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::text::content;
use crate::text::own_lines::{ChangedBy, SideLines};

/// An end of several changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangesEnd {
    /// Before the first one.
    Before,
    /// After the last one.
    After,
}

/// Bytes on one side of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// No file.
    Nothing,
    /// A version that a backup has.
    Version(Version),
    /// The bytes at one end of these changes, between which others changed the file.
    Separate(PathChanges<Version>, ChangesEnd),
    /// The bytes of the file at this path, which may be in the trash.
    At(WorkspacePath),
}

/// Net change of one path, from before the session's first change to after its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetChange {
    /// Present path, or the last one of a deleted file.
    pub path: WorkspacePath,
    /// Path before, if it was another.
    pub from: Option<WorkspacePath>,
    /// Its bytes before.
    pub before: Side,
    /// Its bytes after.
    pub after: Side,
}

/// Returns the net effect of changes, which come oldest first; ordered by path.
pub fn net<'a>(entries: impl IntoIterator<Item = &'a JournalEntry>) -> Vec<NetChange> {
    let mut ledger = NetChanges::default();
    entries.into_iter().for_each(|entry| ledger.add_change(entry));
    ledger.into_changes()
}

/// Changes of each path so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "NetChangeList", into = "NetChangeList")]
pub struct NetChanges {
    /// Files with changed bytes, by present path: before and after.
    files: BTreeMap<WorkspacePath, PathChanges<Version>>,
    /// Files that were changed, by their paths then, each with its first change.
    pub(super) touched: BTreeMap<WorkspacePath, u64>,
    /// Moved files and folders: first path, and present path.
    moved: Vec<(WorkspacePath, WorkspacePath)>,
    /// Folders that the session made.
    folders: BTreeSet<WorkspacePath>,
}

/// A ledger as lists: a path that is not text cannot be a key in JSON.
#[derive(Serialize, Deserialize)]
struct NetChangeList {
    /// As in [`Ledger`].
    files: Vec<(WorkspacePath, PathChanges<Version>)>,
    /// As in [`Ledger`].
    touched: Vec<(WorkspacePath, u64)>,
    /// As in [`Ledger`].
    moved: Vec<(WorkspacePath, WorkspacePath)>,
    /// As in [`Ledger`].
    folders: Vec<WorkspacePath>,
}

impl From<NetChangeList> for NetChanges {
    fn from(NetChangeList { files, touched, moved, folders }: NetChangeList) -> Self {
        let (files, touched) = (files.into_iter().collect(), touched.into_iter().collect());
        Self { files, touched, moved, folders: folders.into_iter().collect() }
    }
}

impl From<NetChanges> for NetChangeList {
    fn from(NetChanges { files, touched, moved, folders }: NetChanges) -> Self {
        let (files, touched) = (files.into_iter().collect(), touched.into_iter().collect());
        Self { files, touched, moved, folders: folders.into_iter().collect() }
    }
}

impl NetChanges {
    /// Adds the next change.
    pub(super) fn add_change(&mut self, entry: &JournalEntry) {
        self.folders.extend(entry.folders.iter().cloned());
        renames(&entry.moves).for_each(|(from, to)| self.take_move(from, to));
        for file in entry.files.iter().chain(&entry.found_done) {
            self.touched.entry(file.path.clone()).or_insert(entry.seq);
            let own = self.files.entry(file.path.clone()).or_default();
            own.push(file.before.clone(), file.after.clone());
        }
    }

    /// Adds one move.
    fn take_move(&mut self, from: &WorkspacePath, to: &WorkspacePath) {
        let is_new =
            self.files.get(from).is_some_and(|own| own.first().is_none()) || self.folders.contains(from);
        self.files = std::mem::take(&mut self.files)
            .into_iter()
            .map(|(path, sides)| (renamed_path(&path, from, to).unwrap_or(path), sides))
            .collect();
        self.folders = std::mem::take(&mut self.folders)
            .into_iter()
            .map(|path| renamed_path(&path, from, to).unwrap_or(path))
            .collect();
        let known = self.moved.iter().any(|(_, now)| now == from);
        if !known && !is_new {
            // A part of an earlier move started at a path of its own.
            let origin = self.moved.iter().find_map(|(origin, now)| renamed_path(from, now, origin));
            self.moved.push((origin.unwrap_or_else(|| from.clone()), from.clone()));
        }
        for (_, now) in &mut self.moved {
            if let Some(path) = renamed_path(now, from, to) {
                *now = path;
            }
        }
        self.moved.retain(|(origin, now)| origin != now);
    }

    /// Returns the net effect.
    pub(super) fn into_changes(mut self) -> Vec<NetChange> {
        let mut changes = Vec::new();
        for (origin, now) in std::mem::take(&mut self.moved) {
            let sides = self.files.remove(&now);
            let at = || Side::At(now.clone());
            let (before, after) = match sides {
                Some(own) => (side_before(&own).unwrap_or_else(at), side_after(&own)),
                None => (at(), at()),
            };
            // It is in the trash, or its bytes were deleted.
            let is_gone = is_state(&now) || after == Side::Nothing;
            changes.extend(match (is_state(&origin), is_gone) {
                (true, true) => None,
                (true, false) => Some(NetChange { path: now, from: None, before: Side::Nothing, after }),
                (false, false) => Some(NetChange { path: now, from: Some(origin), before, after }),
                (false, true) => {
                    // A new file may have taken its place.
                    let after = self.files.remove(&origin).map_or(Side::Nothing, |own| side_after(&own));
                    (before != after).then_some(NetChange { path: origin, from: None, before, after })
                }
            });
        }
        let files = self.files.into_iter().filter(|(path, own)| !own.is_nothing() && !is_state(path));
        changes.extend(files.map(|(path, own)| NetChange {
            path,
            from: None,
            before: side_before(&own).unwrap_or(Side::Nothing),
            after: side_after(&own),
        }));
        changes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        changes
    }
}

impl StoredVersion for Version {
    fn is_same(&self, other: &Self) -> bool {
        self.sha256 == other.sha256 && self.is_alike(other)
    }

    fn is_alike(&self, other: &Self) -> bool {
        self.mode == other.mode
    }
}

/// Returns the side before changes; `None` if there was nothing.
fn side_before(own: &PathChanges<Version>) -> Option<Side> {
    if own.is_interrupted() {
        return Some(Side::Separate(own.clone(), ChangesEnd::Before));
    }
    own.first().cloned().map(Side::Version)
}

/// Returns the side after changes.
fn side_after(own: &PathChanges<Version>) -> Side {
    match own.last() {
        None => Side::Nothing,
        Some(_) if own.is_interrupted() => Side::Separate(own.clone(), ChangesEnd::After),
        Some(last) => Side::Version(last.clone()),
    }
}

/// Returns the moves of one change as renames, in order: a move with a temporary path leaves its old name first.
pub fn renames(moves: &[MoveEntry]) -> impl Iterator<Item = (&WorkspacePath, &WorkspacePath)> {
    let first = moves.iter().map(|moved| (&moved.from, moved.via.as_ref().unwrap_or(&moved.to)));
    first.chain(moves.iter().filter_map(|moved| Some((moved.via.as_ref()?, &moved.to))))
}

/// Returns the new path of `path` after `from` moves to `to`; `None` if it is not below `from`.
fn renamed_path(path: &WorkspacePath, from: &WorkspacePath, to: &WorkspacePath) -> Option<WorkspacePath> {
    path.is_within(from).then(|| path.rebased(from, to))
}

/// A stored version of a file.
pub trait StoredVersion: Clone {
    /// Returns true if bytes and metadata are equal.
    fn is_same(&self, other: &Self) -> bool;

    /// Returns true if the metadata is equal: the mode, or the type.
    fn is_alike(&self, other: &Self) -> bool;
}

/// The two sides of a change; `None` for no file.
pub type Sides<V> = (Option<V>, Option<V>);

/// Changes that one session made to one path, oldest first. Each continues from the one before it, or from what
/// others made of that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChanges<V>(Vec<Sides<V>>);

impl<V> Default for PathChanges<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Content of a path at one end of a session's changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndContent<V> {
    /// A version that was on disk, or no file.
    Known(Option<V>),
    /// This text, with the metadata of that version.
    Text(V, Vec<u8>),
}

impl<V: StoredVersion> PathChanges<V> {
    /// Adds the next change.
    pub fn push(&mut self, before: Option<V>, after: Option<V>) {
        match self.0.last_mut() {
            Some(last) if is_same(last.1.as_ref(), before.as_ref()) => last.1 = after,
            _ => self.0.push((before, after)),
        }
    }

    /// Returns the version before the first change.
    pub fn first(&self) -> Option<&V> {
        self.0.first()?.0.as_ref()
    }

    /// Returns the version after the last change.
    pub fn last(&self) -> Option<&V> {
        self.0.last()?.1.as_ref()
    }

    /// Returns the changes, oldest first.
    pub fn sides(&self) -> &[Sides<V>] {
        &self.0
    }

    /// Returns true if others changed the path in between.
    pub const fn is_interrupted(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns true if the changes cancel out, as far as that is known without the bytes.
    pub fn is_nothing(&self) -> bool {
        !self.is_interrupted() && is_same(self.first(), self.last())
    }

    /// Returns the content of the path before and after these changes, so that the changes of others in between are on
    /// both sides, or on none if the session created the file. `read` returns the bytes of a version, if they are saved.
    ///
    /// For example, others add `x` to the line `a` of a new file, and the session then adds `b`: its changes lead from
    /// nothing to `a` and `b`.
    ///
    /// `later` returns the version that others have made since, in case that lines of the session are back in it, which
    /// they had removed.
    ///
    /// # Errors
    /// Returns the errors of `read` and `later`.
    pub fn ends<E>(
        &self,
        mut read: impl FnMut(&V) -> Result<Option<Vec<u8>>, E>,
        later: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<[EndContent<V>; 2], E> {
        let changes = self.continued();
        let (Some((first, _)), Some((theirs, after))) = (changes.first(), changes.last()) else {
            return Ok([EndContent::Known(None), EndContent::Known(None)]);
        };
        let is_new = first.is_none();
        let known =
            [EndContent::Known(if is_new { None } else { theirs.clone() }), EndContent::Known(after.clone())];
        if changes.len() == 1 || (is_new && after.is_none()) {
            return Ok(known);
        }
        let (Some(mut own), Some(like)) = (own_lines(changes, &mut read)?, with_metadata_of(changes)) else {
            return Ok(known);
        };
        let [before, mut after] = known;
        if own.has_taken()
            && let Some(now) = later()?
            && let Some(text) = read(&now)?.filter(|text| !content::looks_binary(text))
        {
            let mut with_it = own.clone();
            if with_it.puts_back(&text) {
                (own, after) = (with_it, EndContent::Known(Some(now)));
            }
        }
        Ok(if is_new {
            [before, EndContent::Text(like.clone(), own.added())]
        } else {
            [EndContent::Text(like.clone(), own.before()), after]
        })
    }

    /// Returns the changes since the path last had no file between two of them: these continue from nothing before.
    fn continued(&self) -> &[Sides<V>] {
        let is_gap = |(one, next): (&Sides<V>, &Sides<V>)| one.1.is_none() || next.0.is_none();
        let gap =
            self.0.iter().zip(self.0.iter().skip(1)).enumerate().filter(|(_, pair)| is_gap(*pair)).last();
        self.0.get(gap.map_or(0, |(index, _)| index + 1)..).unwrap_or_default()
    }
}

/// Returns the lines of a file after its changes; `None` if some of its bytes are lost, or not a text.
fn own_lines<V, E>(
    changes: &[Sides<V>],
    read: &mut impl FnMut(&V) -> Result<Option<Vec<u8>>, E>,
) -> Result<Option<SideLines>, E> {
    let mut own: Option<SideLines> = None;
    for (theirs, after) in changes {
        for (version, by) in [(theirs, ChangedBy::Others), (after, ChangedBy::Side)] {
            let text = version.as_ref().map(&mut *read).transpose()?;
            if text.as_ref().is_some_and(|text| text.as_ref().is_none_or(|text| content::looks_binary(text)))
            {
                return Ok(None);
            }
            match (&mut own, text.flatten()) {
                (None, text) => own = Some(SideLines::of(text.as_deref())),
                (Some(own), Some(text)) => own.change(by, &text),
                (Some(_), None) => {}
            }
        }
    }
    Ok(own)
}

/// Returns a version with the metadata that a file has without these changes; of a new file, with what they gave it.
fn with_metadata_of<V: StoredVersion>(changes: &[Sides<V>]) -> Option<&V> {
    let (first, made) = changes.first()?;
    let mut like = first.as_ref().or(made.as_ref());
    for (one, next) in changes.iter().zip(changes.iter().skip(1)) {
        let (from, to) = if first.is_none() { (&next.0, &next.1) } else { (&one.1, &next.0) };
        if let (Some(from), Some(to)) = (from, to)
            && !from.is_alike(to)
        {
            like = Some(to);
        }
    }
    like
}

/// Returns true if two sides are the same.
fn is_same<V: StoredVersion>(one: Option<&V>, other: Option<&V>) -> bool {
    one.is_none() && other.is_none() || one.zip(other).is_some_and(|(one, other)| one.is_same(other))
}
