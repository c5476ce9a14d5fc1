//! Everything that one session changed.

use std::collections::BTreeMap;

use super::Store;
use super::chain::{BASELINE, EXTERNAL};
use super::compare::{self, PathChange, Version};
use super::error::SnapshotError;

/// Most paths of one snapshot that are looked at.
const PATHS_MAX: usize = 100_000;
/// The number of a session's first change in the journal.
const SEQ_FIRST: u64 = 1;

/// What one session changed, without what others did in between on other paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionChanges {
    /// The commit before the session's first snapshot, in hex; `None` where there was none.
    pub before: Option<String>,
    /// The session's last snapshot, in hex.
    pub last: String,
    /// Every path that it changed: from before its first change there to after its last one.
    pub paths: Vec<PathChange>,
}

impl Store {
    /// Everything that `session` changed; `None` where it has no snapshot.
    ///
    /// Looks no further back than the session's first change.
    ///
    /// # Errors
    /// Where the branch or a commit on it cannot be read.
    pub fn changed_by(&self, session: &str) -> Result<Option<SessionChanges>, SnapshotError> {
        let mut paths: BTreeMap<Vec<u8>, (Option<Version>, Option<Version>)> = BTreeMap::new();
        let mut changes: Option<SessionChanges> = None;
        let mut next = self.branch.tip(&self.repo)?;
        while let Some(id) = next {
            let Some(found) = self.snapshot(id)? else { break };
            next = found.first_parent;
            let snapshot = &found.snapshot;
            if snapshot.session != session || [EXTERNAL, BASELINE].contains(&snapshot.tool.as_str()) {
                continue;
            }
            for change in compare::trees(&self.repo, found.tree_before, found.tree, PATHS_MAX)?.paths {
                paths
                    .entry(change.path)
                    .and_modify(|(before, _)| *before = change.before)
                    .or_insert((change.before, change.after));
            }
            let before = snapshot.parent.clone();
            match &mut changes {
                Some(changes) => changes.before = before,
                None => changes = Some(SessionChanges { before, last: id.to_string(), paths: Vec::new() }),
            }
            if snapshot.seq == SEQ_FIRST {
                break;
            }
        }
        Ok(changes.map(|changes| SessionChanges { paths: in_order(paths), ..changes }))
    }
}

/// The paths that differ in the end, ordered by component.
fn in_order(paths: BTreeMap<Vec<u8>, (Option<Version>, Option<Version>)>) -> Vec<PathChange> {
    let mut paths: Vec<PathChange> = paths
        .into_iter()
        .filter(|(_, (before, after))| before != after)
        .map(|(path, (before, after))| PathChange { path, before, after })
        .collect();
    let is_slash = |byte: &u8| *byte == b'/';
    let by_component = |one: &[u8], other: &[u8]| one.split(is_slash).cmp(other.split(is_slash));
    paths.sort_by(|one, other| by_component(&one.path, &other.path));
    paths
}
