//! Changes of one session: all of them, those up to a snapshot, and those that a branch lacks.
//!
//! A session may be squashed again after more changes, after an undo, or after the developer's own commits. The base of
//! the merge is then the part that the branch already has, not the state before the session: otherwise the same lines
//! would conflict with themselves.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gix::ObjectId;
use gix::objs::Kind;
use gix::objs::tree::EntryKind;

use super::compare::PathChange;
use super::history::Snapshot;
use crate::engine::history::session_diff::{self, EndContent, PathChanges, Sides};
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::commit_builder;
use crate::engine::snapshot::store::refs::{self, RefTarget};
use crate::engine::snapshot::store::tree::{self, TreeItem};
use crate::engine::snapshot::store::{ErrorContext as _, SnapshotError};
use crate::text::content::looks_binary;
use crate::text::merge::{self, EqualChanges};

/// Changes of one session, without changes by others in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionChanges {
    /// Commit before the session's first snapshot, in hex; `None` if there was none.
    pub before: Option<String>,
    /// Session's last snapshot, in hex.
    pub last: String,
    /// Every path that it changed: from before its first change to after its last one.
    pub paths: Vec<PathChange>,
}

/// One change of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStep {
    /// Snapshot, without its changed files.
    pub snapshot: Snapshot,
    /// Paths that it changed.
    pub paths: Vec<PathChange>,
}

/// An undo, redo or rewind that found some files as it leaves them, since others had done the same. No snapshot shows
/// that, but the session has changed these files no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnchangedUndo {
    /// Its number in the session.
    pub seq: u64,
    /// Changes that it turns around: the first of a path decides what the path has then.
    pub changes: Vec<u64>,
    /// True if it makes them again.
    pub is_redo: bool,
    /// The files.
    pub paths: Vec<Vec<u8>>,
}

impl UnchangedUndo {
    /// Returns what it does to the files: `last` returns what the session has left at a path, `paths_of` what a change
    /// did.
    pub(super) fn paths(
        &self,
        last: impl Fn(&[u8]) -> Option<Option<TreeItem>>,
        mut paths_of: impl FnMut(u64) -> Result<Vec<PathChange>, SnapshotError>,
    ) -> Result<Vec<PathChange>, SnapshotError> {
        let (mut paths, mut left): (_, BTreeSet<&[u8]>) =
            (Vec::new(), self.paths.iter().map(Vec::as_slice).collect());
        for seq in &self.changes {
            if left.is_empty() {
                break;
            }
            for PathChange { path, before, after, .. } in paths_of(*seq)? {
                if left.remove(path.as_slice())
                    && let Some(now) = last(&path)
                {
                    let then = if self.is_redo { after } else { before };
                    paths.push(PathChange { path, from: None, before: now, after: then });
                }
            }
        }
        Ok(paths)
    }
}

/// Changes of a session after one of them.
pub struct SessionPart<'e> {
    /// Session.
    pub session: String,
    /// Number of that change; 0 for all.
    pub after: u64,
    /// Returns what the session turned back after a change, in order, and the number of its newest change.
    pub turned: Box<dyn Fn(u64) -> (Vec<UnchangedUndo>, u64) + 'e>,
}

/// Last of the changes of a path that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::snapshot) enum LastStep {
    /// The session's last one, with what has become of its lines since.
    Now,
    /// Any.
    Then,
}

impl session_diff::StoredVersion for TreeItem {
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }

    fn is_alike(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Store {
    /// Returns the changes of a session, oldest first, each with its paths.
    ///
    /// # Errors
    /// Fails if the branch or a commit on it cannot be read.
    fn steps_of(&self, part: &SessionPart<'_>) -> Result<Vec<SessionStep>, SnapshotError> {
        let account = self.account_of(part)?;
        let mut steps =
            account.session_snapshots().map(|line| self.step_at(line)).collect::<Result<Vec<_>, _>>()?;
        for turn in (part.turned)(part.after).0 {
            let at = steps.partition_point(|step: &SessionStep| step.snapshot.seq <= turn.seq);
            let (earlier, _) = steps.split_at(at);
            let Some(newest) = earlier.last() else { continue };
            let last = |path: &[u8]| {
                let mut changes = earlier.iter().rev().flat_map(|step| &step.paths);
                changes.find(|change| change.path == path).map(|change| change.after)
            };
            let paths_of = |seq| {
                let step = earlier.iter().find(|step| step.snapshot.seq == seq);
                Ok(step.map(|step| step.paths.clone()).unwrap_or_default())
            };
            let paths = turn.paths(last, paths_of)?;
            let subject = if turn.is_redo { "redo" } else { "undo" }.to_owned();
            let snapshot = Snapshot { seq: turn.seq, subject, ..newest.snapshot.clone() };
            steps.insert(at, SessionStep { snapshot, paths });
        }
        Ok(steps)
    }

    /// Returns the net changes of a session, without changes by others in between; `None` if it has no snapshot.
    ///
    /// # Errors
    /// Fails if the branch, a commit on it or a version cannot be read.
    pub fn changed_by(&self, part: &SessionPart<'_>) -> Result<Option<SessionChanges>, SnapshotError> {
        let account = self.account_of(part)?;
        let Some((before, last)) = account.ends() else { return Ok(None) };
        Ok(Some(SessionChanges { before, last, paths: self.net_of(&account)? }))
    }

    /// Returns the net effect of a session's changes of one path, of which the last is `until`. A text that never existed
    /// on disk is kept only in memory.
    pub(in crate::engine::snapshot) fn change_of(
        &self,
        path: Vec<u8>,
        steps: &[Sides<TreeItem>],
        until: LastStep,
    ) -> Result<PathChange, SnapshotError> {
        let mut own = PathChanges::default();
        steps.iter().for_each(|(before, after)| own.push(*before, *after));
        let read = |version: &TreeItem| {
            if version.is_file() { self.content(*version).map(Some) } else { Ok(None) }
        };
        let item = |content| match content {
            EndContent::Known(version) => Ok(version),
            EndContent::Text(like, text) => {
                let id = self.repo.write(Kind::Blob, &text)?;
                Ok::<_, SnapshotError>(Some(TreeItem { id, ..like }))
            }
        };
        let later = || match (until, self.branch.tip(&self.repo)?) {
            (LastStep::Now, Some(tip)) => {
                let tip = commit_builder::tree_of(&self.repo, tip)?;
                Ok(self.entry_at(tip, &path)?.filter(|item| item.is_file()))
            }
            _ => Ok(None),
        };
        let [before, after] = own.ends(read, later)?;
        Ok(PathChange { path, from: None, before: item(before)?, after: item(after)? })
    }
}

/// Returns the paths that differ in the end, ordered by component.
pub(in crate::engine::snapshot) fn in_order(mut paths: Vec<PathChange>) -> Vec<PathChange> {
    paths.retain(|change| change.before != change.after || change.from.is_some());
    let is_slash = |byte: &u8| *byte == b'/';
    let by_component = |one: &[u8], other: &[u8]| one.split(is_slash).cmp(other.split(is_slash));
    paths.sort_unstable_by(|one, other| by_component(&one.path, &other.path));
    paths
}

/// Progress of a session at a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionProgress {
    /// Session.
    pub session: String,
    /// Number of its newest change there; 0 if it had made none.
    pub seq: u64,
}

impl Store {
    /// Returns the sessions with changes, most recent first.
    ///
    /// # Errors
    /// Fails if the branch or a commit on it cannot be read.
    pub fn sessions(&self) -> Result<Vec<String>, SnapshotError> {
        Ok(self.newest_changes()?.into_iter().map(|(session, _)| session).collect())
    }

    /// Returns the progress of `session`, or of the session that made the snapshot, at `commit` (in hex). `None` if no
    /// session is given and the snapshot has none, or if `commit` is neither a snapshot nor the commit below the first
    /// one.
    ///
    /// # Errors
    /// Fails if the commit does not exist, or if one on the way back cannot be read.
    pub fn session_at(
        &self,
        commit: &str,
        session: Option<&str>,
    ) -> Result<Option<SessionProgress>, SnapshotError> {
        let id = refs::commit_id(commit)?;
        let Some(first) = self.snapshot(id)? else {
            let began = self.began_at(id)?;
            let session = session.filter(|_| began);
            return Ok(session.map(|session| SessionProgress { session: session.to_owned(), seq: 0 }));
        };
        let session = session.map_or_else(|| first.snapshot.session.clone(), str::to_owned);
        if session.is_empty() {
            return Ok(None);
        }
        if self.branch.tip(&self.repo)? == Some(id) {
            let seq = self.newest_change_of(&session)?;
            return Ok(Some(SessionProgress { session, seq }));
        }
        for found in self.snapshots(Some(id)) {
            let snapshot = found?.snapshot;
            if snapshot.session == session && snapshot.seq > 0 {
                return Ok(Some(SessionProgress { session, seq: snapshot.seq }));
            }
        }
        Ok(Some(SessionProgress { session, seq: 0 }))
    }

    /// Returns true if the first snapshot is based on this commit.
    fn began_at(&self, id: ObjectId) -> Result<bool, SnapshotError> {
        let oldest = self.snapshots(self.branch.tip(&self.repo)?).last().transpose()?;
        Ok(oldest.is_some_and(|oldest| oldest.first_parent == Some(id)))
    }
}

/// Most commits of a branch that are searched for versions of the session.
const COMMITS_MAX: usize = 500;
/// Most merges that are tried to find the changes of one path on a branch.
const MERGES_MAX: usize = 500;

/// Changes of a session that a branch lacks.
#[derive(Debug, Default)]
pub struct MissingChanges {
    /// Net change of each path, from the part that the branch has to the session's result.
    pub net: Vec<PathChange>,
    /// Each change of the session with its missing paths, oldest first.
    pub steps: Vec<SessionStep>,
}

/// Changes of one path by a session, oldest first.
pub(super) trait PathChangesList: Clone + Default {
    /// Adds the next change.
    fn push(&mut self, before: Option<TreeItem>, after: Option<TreeItem>);

    /// Continues with the changes of a file that moves here.
    fn arrive(&mut self, moved: Self);

    /// Adds that a file which had moved here leaves.
    fn leave(&mut self, before: Option<TreeItem>);

    /// Returns the versions before the first change and after the last.
    fn first_and_last(&self) -> Sides<TreeItem>;
}

impl PathChangesList for PathChanges<TreeItem> {
    fn push(&mut self, before: Option<TreeItem>, after: Option<TreeItem>) {
        self.push(before, after);
    }

    fn arrive(&mut self, moved: Self) {
        *self = moved;
    }

    fn leave(&mut self, _: Option<TreeItem>) {
        *self = Self::default();
        self.push(None, None);
    }

    fn first_and_last(&self) -> Sides<TreeItem> {
        (self.first().copied(), self.last().copied())
    }
}

/// Tree of a commit, and the time at which that was first made, in seconds since 1970.
type DatedTree = (ObjectId, i64);

/// Trees of a branch.
#[derive(Debug, Default)]
struct BranchTrees {
    /// Tree of its newest commit; `None` if there is no commit.
    now: Option<ObjectId>,
    /// Trees of the commits since the session began, newest first.
    since: Vec<DatedTree>,
    /// Trees of the last commits before these.
    older: Vec<ObjectId>,
}

/// A file of a session on a branch.
struct FileOnBranch<'p> {
    /// Its version there; `None` if it is missing.
    entry: Option<TreeItem>,
    /// Its path there.
    at: &'p Vec<u8>,
    /// True if the branch has its deletion since.
    is_past: bool,
}

/// Each change of a path, of which no two are joined.
#[derive(Debug, Clone, Default)]
struct PathSteps {
    /// Changes, oldest first.
    steps: Vec<Sides<TreeItem>>,
    /// Number of those that were made at an earlier path.
    carried: usize,
    /// Changes of another file that was here before this one moved here.
    dropped: Vec<Sides<TreeItem>>,
    /// True if a file of others moved here and left.
    is_passed: bool,
}

impl PathSteps {
    /// Returns how many of the changes here are among the first `count`.
    const fn changes_here(&self, count: usize) -> usize {
        match count.checked_sub(self.carried) {
            Some(here) if here > 0 => here + self.dropped.len(),
            _ => 0,
        }
    }

    /// Returns how many of the changes here before the file came a branch has, on which the version of another file is
    /// here still.
    fn changes_before(&self, another: Option<TreeItem>) -> usize {
        let is_it = |(_, after): &Sides<TreeItem>| another.is_some() && *after == another;
        self.dropped.iter().rposition(is_it).map_or(self.dropped.len(), |at| at + 1)
    }

    /// Returns true if a version is one of this file.
    fn has(&self, entry: TreeItem) -> bool {
        has_side(&self.steps, entry)
    }

    /// Returns true if a version is one of another file that the session had here before.
    fn was_other_file(&self, entry: TreeItem) -> bool {
        has_side(&self.dropped, entry) && !self.has(entry)
    }

    /// Returns the time of the change after the first `count` ones, in seconds since 1970; `None` without one, or if
    /// files moved here or away.
    fn next(&self, steps: &[SessionStep], path: &[u8], count: usize) -> Option<i64> {
        let is_of_path = |step: &&SessionStep| step.paths.iter().any(|change| change.path == path);
        let is_alone = self.carried == 0 && self.dropped.is_empty() && !self.is_passed;
        let next = is_alone.then(|| steps.iter().filter(is_of_path).nth(count)).flatten();
        next.map(|step| step.snapshot.seconds)
    }
}

impl PathChangesList for PathSteps {
    fn push(&mut self, before: Option<TreeItem>, after: Option<TreeItem>) {
        self.steps.push((before, after));
    }

    fn arrive(&mut self, moved: Self) {
        self.dropped.extend(self.steps.drain(..).skip(self.carried));
        // The last of them is the move to this path.
        self.carried = moved.steps.len().saturating_sub(1);
        self.steps = moved.steps;
    }

    fn leave(&mut self, before: Option<TreeItem>) {
        self.steps.drain(..std::mem::take(&mut self.carried));
        if let Some(came) = self.steps.first_mut() {
            came.0 = None;
        }
        self.push(before, None);
        self.is_passed = true;
    }

    fn first_and_last(&self) -> Sides<TreeItem> {
        let (first, last) = (self.steps.first(), self.steps.last());
        (first.and_then(|(before, _)| *before), last.and_then(|(_, after)| *after))
    }
}

/// Returns true if changes begin or end with a version.
fn has_side(steps: &[Sides<TreeItem>], entry: TreeItem) -> bool {
    steps.iter().any(|(before, after)| [before, after].contains(&&Some(entry)))
}

/// Changes of each path by a session. A file that the session moves brings along those of its old path, so that lines of
/// others in it do not become the session's.
#[derive(Debug, Clone, Default)]
pub(super) struct ChangedPaths<S> {
    /// Changes of each path.
    pub(super) steps: BTreeMap<Vec<u8>, S>,
    /// Earlier paths of each moved file that others had made, oldest first.
    pub(super) from: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Moved files that are gone: an undo may bring one back.
    pub(super) gone: BTreeMap<Vec<u8>, MovedForeignFile<S>>,
}

/// A file that others had made, that the session moved, and that is gone.
#[derive(Debug, Clone)]
pub(super) struct MovedForeignFile<S> {
    /// Its last version.
    pub(super) last: Option<TreeItem>,
    /// Its earlier paths, oldest first.
    pub(super) from: Vec<Vec<u8>>,
    /// Its changes.
    pub(super) changes: S,
}

impl<S: PathChangesList> ChangedPaths<S> {
    /// Adds a change of the session.
    pub(super) fn add_change(&mut self, step: &[PathChange]) {
        let mut moved = self.moved(step);
        for PathChange { path, before, after, .. } in step {
            let from = self.from.remove(path);
            let own = self.steps.entry(path.clone()).or_default();
            match (moved.remove(path), after) {
                (Some((from, changes)), _) => {
                    own.arrive(changes);
                    self.from.extend((!from.is_empty()).then(|| (path.clone(), from)));
                }
                (None, None) if from.is_some() => {
                    let (last, from, changes) = (*before, from.unwrap_or_default(), own.clone());
                    // A file that is back at its first path is missing there.
                    if from.first() == Some(path) {
                        own.push(*before, None);
                    } else {
                        own.leave(*before);
                    }
                    self.gone.insert(path.clone(), MovedForeignFile { last, from, changes });
                }
                (None, Some(_))
                    if before.is_none() && self.gone.get(path).is_some_and(|it| it.last == *after) =>
                {
                    if let Some(MovedForeignFile { from, mut changes, .. }) = self.gone.remove(path) {
                        changes.push(*after, *after);
                        own.arrive(changes);
                        self.from.insert(path.clone(), from);
                    }
                }
                (None, _) => {
                    own.push(*before, *after);
                    self.from.extend(from.map(|from| (path.clone(), from)));
                }
            }
        }
    }

    /// Returns the new path of each file that a change moved, with its earlier paths if others had made it, and its changes
    /// so far.
    fn moved(&self, step: &[PathChange]) -> BTreeMap<Vec<u8>, (Vec<Vec<u8>>, S)> {
        let mut moved = BTreeMap::new();
        for (old, PathChange { path, after, .. }) in moves(step) {
            let mut changes = self.steps.get(&old.path).cloned().unwrap_or_default();
            changes.push(old.before, *after);
            let mut from = Vec::new();
            if changes.first_and_last().0.is_some() {
                from = self.from.get(&old.path).cloned().unwrap_or_default();
                from.push(old.path.clone());
            }
            // A path where the session deleted another file keeps that change.
            let is_free = self.steps.get(path).is_none_or(|own| own.first_and_last() == (None, None));
            if is_free || from.first() == Some(path) {
                moved.insert(path.clone(), (from, changes));
            }
        }
        moved
    }

    /// Returns the path that a moved file of others had first, if it is another now.
    pub(super) fn first_path(&self, path: &Vec<u8>) -> Option<Vec<u8>> {
        self.from.get(path)?.first().filter(|first| *first != path).cloned()
    }
}

/// Returns the files that a change moved, as the equal bytes at both paths show: the deletion, and the new file. Of several
/// with equal bytes, one that keeps its name, else the first.
fn moves(step: &[PathChange]) -> Vec<(&PathChange, &PathChange)> {
    let mut gone: BTreeMap<ObjectId, Vec<&PathChange>> = BTreeMap::new();
    for change in step.iter().filter(|change| change.after.is_none()) {
        // Any empty file is like any other.
        if let Some(before) = change.before.filter(|it| it.id != ObjectId::empty_blob(it.id.kind())) {
            gone.entry(before.id).or_default().push(change);
        }
    }
    let mut moves = Vec::new();
    for new in step.iter().filter(|change| change.before.is_none()) {
        let Some(equal) = new.after.and_then(|after| gone.get_mut(&after.id)) else { continue };
        let name =
            |change: &PathChange| change.path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let has_name = |old: &&PathChange| old.path.get(name(old)..) == new.path.get(name(new)..);
        let at = equal.iter().position(has_name).unwrap_or(0);
        if at < equal.len() {
            moves.push((equal.remove(at), new));
        }
    }
    moves
}

/// Changes of each path in the steps of a session, and the moves among them.
#[derive(Default)]
struct StepMoves<'s> {
    /// Changes of each path, oldest first.
    changes: BTreeMap<&'s Vec<u8>, Vec<&'s PathChange>>,
    /// Deletion and new file of each move: the path, and the index of the change there.
    halves: Vec<[(&'s Vec<u8>, usize); 2]>,
}

impl<'s> StepMoves<'s> {
    /// Finds the moves in these steps.
    fn of(steps: &'s [SessionStep]) -> Self {
        let mut found = Self::default();
        for step in steps {
            for change in &step.paths {
                found.changes.entry(&change.path).or_default().push(change);
            }
            let last = |change: &'s PathChange| {
                (&change.path, found.changes.get(&change.path).map_or(0, |all| all.len() - 1))
            };
            found.halves.extend(moves(&step.paths).into_iter().map(|(old, new)| [last(old), last(new)]));
        }
        found
    }

    /// Changes `had`, the number of changes of each path that a branch has, so that it has both halves of each move, or
    /// none, as far as its files allow that; `now` returns its present version of a path.
    ///
    /// Example: the session moves `a` to `b`, and takes that back. The branch has `a` as after the second change, and as
    /// before the first one; it has no `b`, as before the first one, and as after the second.
    fn complete_moves(&self, had: &mut BTreeMap<Vec<u8>, usize>, now: &BTreeMap<&Vec<u8>, Option<TreeItem>>) {
        let fits = |path: &Vec<u8>, count: usize| {
            let changes = self.changes.get(path).map_or(&[][..], Vec::as_slice);
            let next = changes.get(count).map(|next| next.before);
            next.or_else(|| Some(changes.last()?.after)) == now.get(path).copied()
        };
        for drops in [true, false] {
            let mut is_settled = false;
            while !std::mem::replace(&mut is_settled, true) {
                for halves in &self.halves {
                    let is_had = |&(path, at): &(&Vec<u8>, usize)| had.get(path).is_some_and(|had| at < *had);
                    let [old, new] = halves.map(|half| is_had(&half));
                    let Some(&(path, at)) = halves.iter().find(|half| is_had(half) != drops) else {
                        continue;
                    };
                    let count = self.changes.get(path).map_or(0, Vec::len);
                    let found = if drops {
                        (at + 1..=count).find(|count| fits(path, *count))
                    } else {
                        (0..=at).rev().find(|count| fits(path, *count))
                    };
                    if let Some(count) = found.filter(|_| old != new) {
                        had.insert(path.clone(), count);
                        is_settled = false;
                    }
                }
            }
        }
    }
}

/// Removes the first changes of each path, as many as `had` says, from the steps of a session.
fn drop_had(steps: &mut [SessionStep], mut had: BTreeMap<Vec<u8>, usize>) {
    for step in steps {
        step.paths.retain(|change| match had.get_mut(&change.path) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        });
        step.paths = with_moves(std::mem::take(&mut step.paths));
    }
}

/// Returns the paths of a change in which a moved file has its earlier path.
fn with_moves(step: Vec<PathChange>) -> Vec<PathChange> {
    let earlier = |(old, new): (&PathChange, &PathChange)| (new.path.clone(), (old.path.clone(), old.before));
    let mut moved: BTreeMap<Vec<u8>, (Vec<u8>, Option<TreeItem>)> =
        moves(&step).into_iter().map(earlier).collect();
    let with_move = |change: PathChange| match moved.remove(&change.path) {
        Some((from, before)) => PathChange { from: Some(from), before, ..change },
        None => change,
    };
    step.into_iter().map(with_move).collect()
}

impl Store {
    /// Returns the changes of a session that `branch` lacks, or HEAD if that branch does not exist.
    ///
    /// # Errors
    /// Fails if a snapshot or a commit of the branch cannot be read.
    pub fn missing_on(&self, branch: &str, part: &SessionPart<'_>) -> Result<MissingChanges, SnapshotError> {
        let mut steps = self.steps_of(part)?;
        let Some(first) = steps.first().map(|first| &first.snapshot) else {
            return Ok(MissingChanges::default());
        };
        let began = (self.head_at(refs::commit_id(&first.id)?), first.seconds);
        let branch = self.trees_of(branch, began)?;
        let mut paths = ChangedPaths::<PathSteps>::default();
        steps.iter().for_each(|step| paths.add_change(&step.paths));
        let (mut net, mut had) = (Vec::new(), BTreeMap::new());
        for (path, own) in &paths.steps {
            let there = self.find_on(&branch, path, &paths)?;
            let (change, count) = self.missing_of((path, own), &there, &branch, &steps)?;
            net.extend(change);
            had.insert(path.clone(), count);
        }
        let known: BTreeSet<Vec<u8>> =
            net.iter().filter(|change| change.before.is_some()).map(|change| change.path.clone()).collect();
        for from in net.iter().filter_map(|change| change.from.clone()).collect::<Vec<_>>() {
            let is_left = paths.steps.get(&from).is_some_and(|own| own.first_and_last().1.is_none());
            if is_left && !known.contains(&from) {
                let before = branch.now.map_or(Ok(None), |now| self.entry_at(now, &from))?;
                net.push(PathChange { path: from, from: None, before, after: None });
            }
        }
        let moves = StepMoves::of(&steps);
        let mut now = BTreeMap::new();
        for (path, _) in moves.halves.iter().flatten() {
            now.insert(*path, branch.now.map_or(Ok(None), |now| self.entry_at(now, path))?);
        }
        moves.complete_moves(&mut had, &now);
        drop_had(&mut steps, had);
        Ok(MissingChanges { net: in_order(net), steps })
    }

    /// Returns the net change of a path that a branch lacks, if there is one, and how many of the session's changes there,
    /// from the first on, the branch has; `there` is the file on the branch.
    fn missing_of(
        &self,
        (path, own): (&Vec<u8>, &PathSteps),
        there: &FileOnBranch<'_>,
        branch: &BranchTrees,
        steps: &[SessionStep],
    ) -> Result<(Option<PathChange>, usize), SnapshotError> {
        let apart = self.results_of(path, &own.steps)?;
        let made = apart.clone().unwrap_or_else(|| own.steps.iter().map(|(_, after)| *after).collect());
        let ours = there.entry;
        let next = |count| own.next(steps, path, count);
        let count = self.count_had(there.at, (&own.steps, &made), ours, (&branch.since, &next))?;
        let rest = own.steps.get(count..).unwrap_or_default();
        let is_elsewhere = there.at != path || there.is_past;
        // Example: the session moves `a` away, and `b` to `a`. After the developer's commit, it takes both moves back.
        let now = branch.now.map_or(Ok(None), |now| self.entry_at(now, path))?;
        let another = now.filter(|now| is_elsewhere && own.was_other_file(*now));
        let had = match count {
            // The branch has what was here before the file came, and not yet the file.
            _ if is_elsewhere && ours.is_some() => own.changes_before(another),
            // A file on its way to another path needs all steps, or none.
            _ if ours.is_none() && (is_elsewhere || own.is_passed) => 0,
            count => own.changes_here(count),
        };
        if rest.is_empty() && !is_elsewhere {
            return Ok((None, had));
        }
        // The results hold lines of others, unless they were made without these.
        let has_last = count > 0 && made.get(count - 1) == Some(&ours);
        let last = own.first_and_last().1;
        let change = match (apart.as_ref().and_then(|apart| apart.last()), rest) {
            (Some(after), _) if has_last => {
                PathChange { path: path.clone(), from: None, before: ours, after: *after }
            }
            (_, []) => PathChange { path: path.clone(), from: None, before: last, after: last },
            (_, rest) => self.change_of(path.clone(), rest, LastStep::Now)?,
        };
        let change = if change.before == ours && (there.is_past || another.is_some()) {
            PathChange { before: another, ..change }
        } else {
            PathChange { from: (there.at != path).then(|| there.at.clone()), ..change }
        };
        Ok((Some(change), had))
    }

    /// Finds the file of the session at `path` on a branch: there, or at the last of its earlier paths that the branch
    /// has.
    ///
    /// For example, the session moves `f` to `g`, and the developer runs `git commit --all`: the branch has neither, but
    /// it has the deletion, and lacks `g` as it was at `f`.
    fn find_on<'p>(
        &self,
        branch: &BranchTrees,
        path: &'p Vec<u8>,
        paths: &'p ChangedPaths<PathSteps>,
    ) -> Result<FileOnBranch<'p>, SnapshotError> {
        let earlier = paths.from.get(path).map_or(&[][..], Vec::as_slice);
        let has_left = earlier.contains(path);
        let mut earlier = earlier.iter().filter(|earlier| *earlier != path);
        let all = std::iter::once(path).chain(earlier.clone().rev());
        // The session may have put another file at an earlier path since.
        let is_own = |entry| paths.steps.get(path).is_some_and(|own| own.has(entry));
        let is_known = |own: &PathSteps, entry| own.has(entry) || own.was_other_file(entry);
        let is_another = |at: &Vec<u8>, entry: &TreeItem| {
            paths.steps.get(at).is_some_and(|there| is_known(there, *entry)) && !is_own(*entry)
        };
        let missing = FileOnBranch { entry: None, at: earlier.next().unwrap_or(path), is_past: false };
        let past = branch.since.iter().map(|(tree, _)| tree).chain(&branch.older);
        let past = past.filter(|_| missing.at != path);
        for (tree, is_past) in branch.now.iter().map(|now| (now, false)).chain(past.map(|tree| (tree, true)))
        {
            for at in all.clone() {
                let entry = self.entry_at(*tree, at)?;
                if let Some(entry) = entry.filter(|entry| !is_another(at, entry)) {
                    // Only the developer deletes it at a path that the session has not left.
                    let is_deleted = is_past && at == path && !has_left;
                    let there = FileOnBranch { entry: Some(entry), at, is_past };
                    return Ok(if is_deleted { missing } else { there });
                }
            }
        }
        Ok(missing)
    }

    /// Returns the net changes of a session that `branch` lacks, as [`Self::missing_on`] does, without each single change.
    ///
    /// # Errors
    /// As [`Self::missing_on`].
    pub fn net_missing_on(
        &self,
        branch: &str,
        part: &SessionPart<'_>,
    ) -> Result<Vec<PathChange>, SnapshotError> {
        let account = self.account_of(part)?;
        let base = self.target_branch(branch)?.at;
        let now = base.map(|tip| commit_builder::tree_of(&self.repo, tip)).transpose()?;
        let mut net = Vec::new();
        for (path, own) in &account.paths.steps {
            let ours = now.map_or(Ok(None), |now| self.entry_at(now, path))?;
            if own.last().copied() == ours {
                continue;
            }
            let change = self.change_of(path.clone(), own.sides(), LastStep::Now)?;
            if change.before != ours {
                // The branch may have a part of it: the single changes tell.
                return Ok(self.missing_on(branch, part)?.net);
            }
            net.push(change);
        }
        Ok(in_order(net))
    }

    /// Returns the entry that a tree has at a path; `None` also for a folder, which is no version of a file.
    fn entry_at(&self, tree: ObjectId, path: &[u8]) -> Result<Option<TreeItem>, SnapshotError> {
        let entry = tree::look_up(&self.repo, tree, path)?.entry();
        Ok(entry.filter(|entry| entry.kind != EntryKind::Tree))
    }

    /// Returns how many of the session's changes of a path, from the first on, the branch has; `made` is the version
    /// after each, `ours` that of the branch, and `next` the time of the change after so many.
    fn count_had(
        &self,
        path: &[u8],
        (steps, made): (&[Sides<TreeItem>], &[Option<TreeItem>]),
        ours: Option<TreeItem>,
        (trees, next): (&[DatedTree], &impl Fn(usize) -> Option<i64>),
    ) -> Result<usize, SnapshotError> {
        if made.last() == Some(&ours) {
            return Ok(steps.len());
        }
        let first = self.change_of(path.to_vec(), steps, LastStep::Then)?.before;
        if first == ours {
            return Ok(0);
        }
        // A version that others made of the session's has what the session changed until then.
        let count = |then: Option<TreeItem>| {
            let made = made.iter().rposition(|made| *made == then).map(|index| index + 1);
            made.max(steps.iter().rposition(|(before, _)| *before == then).filter(|index| *index > 0))
        };
        // Example: this session deletes a file and undoes that, and another one deletes it. The branch lacks it since a
        // commit after that undo, so it does not have this session's deletion. Times have whole seconds: within one, the
        // newest snapshot decides, which has the file only if nobody else deleted it.
        let tip =
            self.branch.tip(&self.repo)?.map(|tip| commit_builder::tree_of(&self.repo, tip)).transpose()?;
        let is_back = tip.map_or(Ok(None), |tip| self.entry_at(tip, path))?.is_some();
        let had_gone = |since: i64| {
            let is_before = |next: i64| since < next || (since == next && is_back);
            count(None).filter(|count| next(*count).is_none_or(is_before))
        };
        let (mut gone_since, mut texts): (Option<i64>, Vec<ObjectId>) = (None, Vec::new());
        for (tree, seconds) in trees {
            let then = self.entry_at(*tree, path)?;
            if then.is_none() && first.is_some() {
                gone_since = Some(*seconds);
                continue;
            }
            if let Some(count) = gone_since.take().and_then(had_gone).or_else(|| count(then)) {
                // Commits of single changes, without those of others between them, may have brought more.
                let more = first.map_or(Ok(0), |first| self.count_in_texts(path, steps, first, &texts))?;
                return Ok(count.max(more));
            }
            if first == then {
                break;
            }
            texts.extend(then.filter(|then| then.is_file() && !texts.contains(&then.id)).map(|then| then.id));
        }
        if let Some(count) = gone_since.and_then(had_gone) {
            return Ok(count);
        }
        first.map_or(Ok(0), |first| self.count_in_texts(path, steps, first, &texts))
    }

    /// Returns the version after each change of a file that the session created, without the lines of others; `None` if
    /// it did not create it, or nobody else changed it.
    fn results_of(
        &self,
        path: &[u8],
        steps: &[Sides<TreeItem>],
    ) -> Result<Option<Vec<Option<TreeItem>>>, SnapshotError> {
        let is_new = steps.first().is_some_and(|(before, _)| before.is_none());
        let is_alone = steps.is_sorted_by(|one, next| one.1 == next.0);
        if !is_new || is_alone {
            return Ok(None);
        }
        let net = |count| {
            let until = if count == steps.len() { LastStep::Now } else { LastStep::Then };
            Ok(self.change_of(path.to_vec(), steps.get(..count).unwrap_or_default(), until)?.after)
        };
        (1..=steps.len()).map(net).collect::<Result<_, _>>().map(Some)
    }

    /// Counts by the branch's texts: a text contains a change if applying it again changes nothing.
    fn count_in_texts(
        &self,
        path: &[u8],
        steps: &[Sides<TreeItem>],
        first: TreeItem,
        texts: &[ObjectId],
    ) -> Result<usize, SnapshotError> {
        let base = self.content_to_compare(first)?;
        if texts.is_empty() || !first.is_file() || looks_binary(&base) {
            return Ok(0);
        }
        let texts = texts.iter().map(|id| self.repo.find_blob(*id));
        let mut texts = texts.collect::<Result<Vec<_>, SnapshotError>>()?;
        texts.retain(|text| !looks_binary(text));
        let mut merges_left = MERGES_MAX;
        for count in (1..=steps.len()).rev() {
            let then = match steps.get(count..) {
                Some(rest @ [_, ..]) => self.change_of(path.to_vec(), rest, LastStep::Then)?.before,
                _ => self.change_of(path.to_vec(), steps, LastStep::Then)?.after,
            };
            let Some(then) = then.filter(|then| then.is_file()) else { continue };
            let then = self.content_to_compare(then)?;
            if looks_binary(&then) || then == base {
                continue;
            }
            for text in &texts {
                let Some(left) = merges_left.checked_sub(1) else { return Ok(0) };
                merges_left = left;
                if merge::merge(&base, text, &then, EqualChanges::Once).is_ok_and(|merged| merged == *text) {
                    return Ok(count);
                }
            }
        }
        Ok(0)
    }

    /// Returns the trees of a branch, or of HEAD if it does not exist. The commit `head` at which the session began, and
    /// those before it, cannot contain its changes. Without that commit, the older ones are those before `seconds`,
    /// since 1970.
    fn trees_of(
        &self,
        branch: &str,
        (head, seconds): (Option<ObjectId>, i64),
    ) -> Result<BranchTrees, SnapshotError> {
        let onto = self.target_branch(branch)?;
        let tip = onto.at;
        let now = tip.map(|tip| commit_builder::tree_of(&self.repo, tip)).transpose()?;
        let mut trees = BranchTrees { now, ..BranchTrees::default() };
        let (mut seen, mut waiting) = (BTreeSet::from_iter(tip), VecDeque::from_iter(tip));
        let before = OnceCell::new();
        while let Some(id) = waiting.pop_front().filter(|_| trees.since.len() < COMMITS_MAX) {
            // A shallow clone lacks the parents of its oldest commits.
            if Some(id) != tip && !self.repo.holds(id)? {
                continue;
            }
            let doing = || format!("the commit {id} cannot be read");
            let commit = self.repo.find_commit(id).context(doing)?;
            let tree = commit.tree_id().context(doing)?;
            let is_dated_before = commit.seconds().context(doing)? < seconds;
            let is_before = |head| before.get_or_init(|| self.ancestors_of(head)).contains(&id);
            if Some(id) == head || (is_dated_before && head.is_none_or(is_before)) {
                trees.older.push(tree);
                continue;
            }
            trees.since.push((tree, commit.authored_seconds().context(doing)?));
            waiting.extend(commit.parent_ids().filter(|parent| seen.insert(*parent)));
        }
        // The developer may have amended it.
        if let Some(head) = head.filter(|head| !seen.contains(head)) {
            let log = match (onto.tip, refs::head_target(&self.repo)?) {
                (Some(_), _) => onto.branch.full_name(),
                (None, Some(RefTarget::Symbolic(name))) => name.as_bstr().to_string(),
                (None, _) => "HEAD".to_owned(),
            };
            if refs::log_values(&self.repo, &log).contains(&head) {
                trees.older.extend(commit_builder::tree_of(&self.repo, head).ok());
            }
        }
        Ok(trees)
    }

    /// Returns a commit and some of those before it, as far as they can be read.
    fn ancestors_of(&self, id: ObjectId) -> BTreeSet<ObjectId> {
        let (mut seen, mut waiting) = (BTreeSet::from([id]), VecDeque::from([id]));
        while let Some(id) = waiting.pop_front().filter(|_| seen.len() < COMMITS_MAX) {
            if let Ok(commit) = self.repo.find_commit(id) {
                waiting.extend(commit.parent_ids().filter(|parent| seen.insert(*parent)));
            }
        }
        seen
    }
}
