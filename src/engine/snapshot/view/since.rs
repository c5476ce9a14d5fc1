//! Everything that one session changed, by the account of the history ([`crate::engine::history::account`]).

use std::collections::BTreeMap;

use gix::objs::Kind;

use super::compare;
use super::compare::{PathChange, Version, VersionKind};
use super::history::Snapshot;
use crate::engine::history::own;
use crate::engine::history::own::{Before, Own};
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::chain::BASELINE;
use crate::engine::snapshot::store::error::SnapshotError;

/// Most paths of one snapshot that are looked at.
const PATHS_MAX: usize = 100_000;
/// The number of a session's first change in the journal.
const SEQ_FIRST: u64 = 1;

/// What one session changed, without what others did in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionChanges {
    /// The commit before the session's first snapshot, in hex; `None` where there was none.
    pub before: Option<String>,
    /// The session's last snapshot, in hex.
    pub last: String,
    /// Every path that it changed: from before its first change there to after its last one.
    pub paths: Vec<PathChange>,
}

/// One change of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStep {
    /// Its snapshot, without the files that it changed.
    pub snapshot: Snapshot,
    /// The paths that it changed.
    pub paths: Vec<PathChange>,
}

impl own::Version for Version {
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }

    fn is_alike(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Store {
    /// The changes that `session` made after its change `after` (0 for all), the oldest first, each with
    /// its paths.
    ///
    /// Looks no further back than the session's first change.
    ///
    /// # Errors
    /// Where the branch or a commit on it cannot be read.
    pub fn steps_of(&self, session: &str, after: u64) -> Result<Vec<SessionStep>, SnapshotError> {
        // Only what the journal counts is the session's own: what others did has no number, and
        // `session` and `undo` do not know it either.
        self.steps(session, after, |snapshot| snapshot.session == session && snapshot.seq > 0)
    }

    /// The same with what nobody's session did meanwhile, and what came of commands.
    ///
    /// # Errors
    /// As [`Self::steps_of`].
    pub fn story_of(&self, session: &str, after: u64) -> Result<Vec<SessionStep>, SnapshotError> {
        self.steps(session, after, |snapshot| {
            snapshot.session.is_empty() || (snapshot.session == session && snapshot.tool != BASELINE)
        })
    }

    /// The wanted snapshots since a session's first change after `after`, the oldest first.
    fn steps(
        &self,
        session: &str,
        after: u64,
        is_wanted: impl Fn(&Snapshot) -> bool,
    ) -> Result<Vec<SessionStep>, SnapshotError> {
        let (mut steps, mut began) = (Vec::new(), 0);
        let mut next = self.branch.tip(&self.repo)?;
        while let Some(id) = next {
            let Some(found) = self.snapshot(id)? else { break };
            next = found.first_parent;
            let snapshot = found.snapshot;
            let is_own = snapshot.session == session && snapshot.seq > 0;
            if is_own && (1..=after).contains(&snapshot.seq) {
                break;
            }
            let is_first = is_own && snapshot.seq == SEQ_FIRST;
            if is_wanted(&snapshot) {
                let paths = compare::trees(&self.repo, found.tree_before, found.tree, PATHS_MAX)?.paths;
                steps.push(SessionStep { snapshot, paths });
            }
            if is_own {
                began = steps.len();
            }
            if is_first {
                break;
            }
        }
        // What is older than the session's first change is not of its time.
        steps.truncate(began);
        steps.reverse();
        Ok(steps)
    }

    /// Everything that `session` changed after its change `after` (0 for all), without what others
    /// changed in between; `None` where it has no snapshot.
    ///
    /// # Errors
    /// Where the branch, a commit on it or a version cannot be read.
    pub fn changed_by(&self, session: &str, after: u64) -> Result<Option<SessionChanges>, SnapshotError> {
        let steps = self.steps_of(session, after)?;
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return Ok(None) };
        let (before, last) = (first.snapshot.parent.clone(), last.snapshot.id.clone());
        let mut paths: BTreeMap<Vec<u8>, Own<Version>> = BTreeMap::new();
        for PathChange { path, before, after } in steps.into_iter().flat_map(|step| step.paths) {
            paths
                .entry(path)
                .and_modify(|own| own.push(before, after))
                .or_insert_with(|| Own::new(before, after));
        }
        let paths = paths.into_iter().map(|(path, own)| self.change_of(path, &own));
        Ok(Some(SessionChanges { before, last, paths: in_order(paths.collect::<Result<_, _>>()?) }))
    }

    /// What a session's changes of one path come to. A text that never was is kept in memory alone.
    pub(in crate::engine::snapshot) fn change_of(
        &self,
        path: Vec<u8>,
        own: &Own<Version>,
    ) -> Result<PathChange, SnapshotError> {
        let is_text = |version: &Version| matches!(version.kind, VersionKind::File | VersionKind::Executable);
        let read = |version: &Version| {
            if is_text(version) { self.content(*version).map(Some) } else { Ok(None) }
        };
        let before = match own.before(read)? {
            Before::Known(version) => version,
            Before::Text(like, text) => {
                let id = self.repo.write(Kind::Blob, &text)?;
                Some(Version { id, ..like })
            }
        };
        Ok(PathChange { path, before, after: own.last().copied() })
    }
}

/// The paths that differ in the end, ordered by component.
pub(in crate::engine::snapshot) fn in_order(mut paths: Vec<PathChange>) -> Vec<PathChange> {
    paths.retain(|change| change.before != change.after);
    let is_slash = |byte: &u8| *byte == b'/';
    let by_component = |one: &[u8], other: &[u8]| one.split(is_slash).cmp(other.split(is_slash));
    paths.sort_unstable_by(|one, other| by_component(&one.path, &other.path));
    paths
}
