//! Everything that one session changed, by the account of the history ([`crate::engine::history::account`]).

use std::collections::BTreeMap;

use super::compare;
use super::compare::{PathChange, Version, VersionKind};
use crate::engine::history::own;
use crate::engine::history::own::{Before, Own};
use crate::engine::snapshot::Store;
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};

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

impl own::Version for Version {
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }

    fn is_alike(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Store {
    /// Everything that `session` changed after its change `after` (0 for all), without what others
    /// changed in between; `None` where it has no snapshot.
    ///
    /// Looks no further back than the session's first change.
    ///
    /// # Errors
    /// Where the branch, a commit on it or a version cannot be read.
    pub fn changed_by(&self, session: &str, after: u64) -> Result<Option<SessionChanges>, SnapshotError> {
        let (mut steps, mut changes): (Vec<PathChange>, Option<SessionChanges>) = (Vec::new(), None);
        let mut next = self.branch.tip(&self.repo)?;
        while let Some(id) = next {
            let Some(found) = self.snapshot(id)? else { break };
            next = found.first_parent;
            let snapshot = &found.snapshot;
            // Only what the journal counts is the session's own: what others did has no number, and
            // `session` and `undo` do not know it either.
            if snapshot.session != session || snapshot.seq == 0 {
                continue;
            }
            if (1..=after).contains(&snapshot.seq) {
                break;
            }
            let paths = compare::trees(&self.repo, found.tree_before, found.tree, PATHS_MAX)?.paths;
            steps.extend(paths.into_iter().rev());
            let before = snapshot.parent.clone();
            match &mut changes {
                Some(changes) => changes.before = before,
                None => changes = Some(SessionChanges { before, last: id.to_string(), paths: Vec::new() }),
            }
            if snapshot.seq == SEQ_FIRST {
                break;
            }
        }
        let Some(changes) = changes else { return Ok(None) };
        let mut paths: BTreeMap<Vec<u8>, Own<Version>> = BTreeMap::new();
        for PathChange { path, before, after } in steps.into_iter().rev() {
            paths
                .entry(path)
                .and_modify(|own| own.push(before, after))
                .or_insert_with(|| Own::new(before, after));
        }
        let paths = paths.into_iter().map(|(path, own)| self.change_of(path, &own));
        Ok(Some(SessionChanges { paths: in_order(paths.collect::<Result<_, _>>()?), ..changes }))
    }

    /// What a session's changes of one path come to. A text that never was is kept in memory alone.
    fn change_of(&self, path: Vec<u8>, own: &Own<Version>) -> Result<PathChange, SnapshotError> {
        let is_text = |version: &Version| matches!(version.kind, VersionKind::File | VersionKind::Executable);
        let read = |version: &Version| {
            if is_text(version) { self.content(*version).map(Some) } else { Ok(None) }
        };
        let before = match own.before(read)? {
            Before::Known(version) => version,
            Before::Text(like, text) => {
                let id = self.repo.write_blob(&text).doing(|| "cannot keep a text".into())?.detach();
                Some(Version { id, ..like })
            }
        };
        Ok(PathChange { path, before, after: own.last().copied() })
    }
}

/// The paths that differ in the end, ordered by component.
fn in_order(mut paths: Vec<PathChange>) -> Vec<PathChange> {
    paths.retain(|change| change.before != change.after);
    let is_slash = |byte: &u8| *byte == b'/';
    let by_component = |one: &[u8], other: &[u8]| one.split(is_slash).cmp(other.split(is_slash));
    paths.sort_by(|one, other| by_component(&one.path, &other.path));
    paths
}
