//! Which snapshot each line of a file came from.

use std::time::Instant;

use gix::ObjectId;
use similar::DiffOp;

use super::compare;
use super::history::Snapshot;
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::error::SnapshotError;
use crate::engine::snapshot::store::tree;
use crate::text::{line_diff, lines};

/// Most paths of one snapshot among which a file's earlier name is looked for.
const PATHS_MAX: usize = 10_000;

/// Where the lines of a file came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blame {
    /// For each line its place in `origins`; `None` for a line that was there before the first
    /// snapshot, or that no snapshot has yet.
    pub lines: Vec<Option<usize>>,
    /// The snapshots that lines came from.
    pub origins: Vec<Origin>,
    /// Whether any snapshot has the file.
    pub is_known: bool,
    /// Whether there was no time to look at all snapshots.
    pub truncated: bool,
}

/// A snapshot that lines came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The snapshot, without the files that it changed.
    pub snapshot: Snapshot,
    /// The path that the file had there.
    pub path: Vec<u8>,
}

impl Store {
    /// Where each line of `content` came from, the content of `path` as it is now, by going back from
    /// the newest snapshot until `until`. Follows the file through renames. Line endings do not count.
    ///
    /// # Errors
    /// Where the branch, a commit on it or a version of the file cannot be read.
    pub fn blame(&self, path: &[u8], content: &[u8], until: Instant) -> Result<Blame, SnapshotError> {
        let lines = split(content);
        let mut blame = Blame { lines: vec![None; lines.len()], ..Blame::default() };
        let Some(tip) = self.branch.tip(&self.repo)? else { return Ok(blame) };
        let Some(newest) = self.snapshot(tip)? else { return Ok(blame) };
        let Some(stored) = self.text_at(newest.tree, path)? else { return Ok(blame) };
        blame.is_known = true;
        let mut pending = Pending::of(&lines, &split(&stored));
        let (mut path, mut next) = (path.to_vec(), Some(newest));
        while let Some(found) = next.filter(|_| !pending.lines.is_empty()) {
            if Instant::now() >= until {
                blame.truncated = true;
                break;
            }
            let at = |tree| tree::look_up(&self.repo, tree, &path).map(tree::Lookup::entry);
            if at(found.tree)? != at(found.tree_before)? {
                let (now, origin) = (path.clone(), blame.origins.len());
                let before = match self.text_at(found.tree_before, &path)? {
                    Some(before) => Some(before),
                    None => self.text_before_rename(&mut path, found.tree_before, found.tree)?,
                };
                let after = self.text_at(found.tree, &now)?.unwrap_or_default();
                let came = pending.go_back(&split(&before.unwrap_or_default()), &split(&after));
                for line in &came {
                    if let Some(line) = blame.lines.get_mut(*line) {
                        *line = Some(origin);
                    }
                }
                if !came.is_empty() {
                    blame.origins.push(Origin { snapshot: found.snapshot, path: now });
                }
            }
            next = found.first_parent.map_or(Ok(None), |id| self.snapshot(id))?;
        }
        Ok(blame)
    }

    /// The text at `path` in a tree; `None` where there is no file.
    fn text_at(&self, tree: ObjectId, path: &[u8]) -> Result<Option<Vec<u8>>, SnapshotError> {
        self.stored(tree, path)
    }

    /// The text that a file had under another name before a snapshot; `path` is then that name.
    fn text_before_rename(
        &self,
        path: &mut Vec<u8>,
        before: ObjectId,
        after: ObjectId,
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        let changes = compare::trees(&self.repo, before, after, PATHS_MAX)?;
        let renamed = self.deltas(&changes.paths)?.into_iter().find_map(|delta| {
            let is_it = delta.after.as_ref().is_some_and(|(after, _)| after == path);
            delta.before.filter(|_| is_it)
        });
        let Some((old, _)) = renamed else { return Ok(None) };
        let text = self.stored(before, &old)?;
        *path = old;
        Ok(text)
    }
}

/// The lines of a text, without their endings.
fn split(text: &[u8]) -> Vec<&[u8]> {
    lines::lines(text).map(lines::without_ending).collect()
}

/// Lines whose origin is still looked for.
struct Pending {
    /// Each as its place in the file as it is now, and in the version that was reached.
    lines: Vec<(usize, usize)>,
}

impl Pending {
    /// The lines that a file as it is now has in common with its newest version.
    fn of(now: &[&[u8]], newest: &[&[u8]]) -> Self {
        let kept = kept(newest, now);
        Self { lines: kept.into_iter().map(|(old, new)| (new, old)).collect() }
    }

    /// Goes from a version back to the one before; answers the lines that came in between.
    fn go_back(&mut self, before: &[&[u8]], after: &[&[u8]]) -> Vec<usize> {
        let mut earlier = vec![None; after.len()];
        for (old, new) in kept(before, after) {
            if let Some(place) = earlier.get_mut(new) {
                *place = Some(old);
            }
        }
        let mut came = Vec::new();
        self.lines.retain_mut(|(line, place)| {
            let old = earlier.get(*place).copied().flatten();
            match old {
                Some(old) => *place = old,
                None => came.push(*line),
            }
            old.is_some()
        });
        came
    }
}

/// The lines that two texts have in common, each by its place in both.
fn kept(old: &[&[u8]], new: &[&[u8]]) -> Vec<(usize, usize)> {
    let ops = line_diff::diff(old, new).ops;
    let equal = ops.into_iter().filter(|op| matches!(op, DiffOp::Equal { .. }));
    equal.flat_map(|op| op.old_range().zip(op.new_range())).collect()
}
