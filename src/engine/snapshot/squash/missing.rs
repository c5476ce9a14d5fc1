//! Which of a session's changes a branch does not have yet.
//!
//! A session may be squashed again after more changes, after an undo, and after commits of the
//! developer's. What the branch has of it already is then the base of the merge, and not what was there
//! before the session: else the same lines would conflict with themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gix::ObjectId;

use crate::engine::history::own::{Own, Sides};
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};
use crate::engine::snapshot::store::tree::TreeItem;
use crate::engine::snapshot::store::{chain, tree};
use crate::engine::snapshot::view::compare::{PathChange, Version};
use crate::engine::snapshot::view::since::{SessionStep, in_order};
use crate::text::content::looks_binary;
use crate::text::merge::{self, Alike};

/// Commits of a branch that are looked at for versions of the session.
const COMMITS_MAX: usize = 500;
/// Merges that may be tried to find what a branch has of one path.
const MERGES_MAX: usize = 500;

/// What a branch does not have yet of a session.
#[derive(Debug, Default)]
pub struct Missing {
    /// Each path: from what the branch has of the session to what the session made.
    pub net: Vec<PathChange>,
    /// Each change of the session with its missing paths, the oldest first.
    pub steps: Vec<SessionStep>,
}

/// What a session made of one path, change by change.
type PathSteps = Vec<Sides<Version>>;

impl Store {
    /// What the branch named `branch`, or HEAD where there is no such branch, does not have yet of the
    /// changes that `session` made after its change `after`.
    ///
    /// # Errors
    /// Where a snapshot or a commit of the branch cannot be read.
    pub fn missing_on(&self, branch: &str, session: &str, after: u64) -> Result<Missing, SnapshotError> {
        let mut steps = self.steps_of(session, after)?;
        let Some(began) = steps.first().map(|first| first.snapshot.seconds) else {
            return Ok(Missing::default());
        };
        let base = self.onto(branch)?.at;
        let trees = base.map_or(Ok(Vec::new()), |tip| self.trees_since(tip, began))?;
        let now = base.map(|tip| chain::tree_of(&self.repo, tip)).transpose()?;
        let mut paths: BTreeMap<Vec<u8>, PathSteps> = BTreeMap::new();
        for change in steps.iter().flat_map(|step| &step.paths) {
            paths.entry(change.path.clone()).or_default().push((change.before, change.after));
        }
        let (mut net, mut had) = (Vec::new(), BTreeMap::new());
        for (path, of_path) in paths {
            let count = self.count_had(&path, &of_path, now, &trees)?;
            let rest = of_path.get(count..).unwrap_or_default();
            if let Some(own) = own_of(rest) {
                net.push(self.change_of(path.clone(), &own)?);
            }
            had.insert(path, count);
        }
        for step in &mut steps {
            step.paths.retain(|change| match had.get_mut(&change.path) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    false
                }
                _ => true,
            });
        }
        Ok(Missing { net: in_order(net), steps })
    }

    /// How many of the session's changes of a path, from the first on, the branch has.
    fn count_had(
        &self,
        path: &[u8],
        steps: &[Sides<Version>],
        now: Option<ObjectId>,
        trees: &[ObjectId],
    ) -> Result<usize, SnapshotError> {
        let at = |tree| Ok::<_, SnapshotError>(tree::look_up(&self.repo, tree, path)?.entry());
        let ours = now.map_or(Ok(None), at)?;
        let made: Vec<Option<TreeItem>> = steps.iter().map(|(_, after)| after.map(Version::item)).collect();
        if made.last() == Some(&ours) {
            return Ok(steps.len());
        }
        let Some(own) = own_of(steps) else { return Ok(0) };
        let first = self.change_of(path.to_vec(), &own)?.before;
        if first.map(Version::item) == ours {
            return Ok(0);
        }
        let mut texts: Vec<ObjectId> = Vec::new();
        for tree in trees {
            let then = at(*tree)?;
            if let Some(index) = made.iter().rposition(|made| *made == then) {
                return Ok(index + 1);
            }
            if first.map(Version::item) == then {
                break;
            }
            texts.extend(then.filter(|then| then.is_file() && !texts.contains(&then.id)).map(|then| then.id));
        }
        first.map_or(Ok(0), |first| self.count_in_texts(path, steps, first, &texts))
    }

    /// The same by the texts that the branch had: a change is in one where making it again changes nothing.
    fn count_in_texts(
        &self,
        path: &[u8],
        steps: &[Sides<Version>],
        first: Version,
        texts: &[ObjectId],
    ) -> Result<usize, SnapshotError> {
        let base = self.content_to_compare(first)?;
        if texts.is_empty() || !first.item().is_file() || looks_binary(&base) {
            return Ok(0);
        }
        let texts = texts.iter().map(|id| self.repo.find_blob(*id));
        let mut texts = texts.collect::<Result<Vec<_>, SnapshotError>>()?;
        texts.retain(|text| !looks_binary(text));
        let mut merges_left = MERGES_MAX;
        for count in (1..=steps.len()).rev() {
            let then = match steps.get(count..).and_then(own_of) {
                Some(rest) => self.change_of(path.to_vec(), &rest)?.before,
                None => steps.last().and_then(|(_, after)| *after),
            };
            let Some(then) = then.filter(|then| then.item().is_file()) else { continue };
            let then = self.content_to_compare(then)?;
            if looks_binary(&then) || then == base {
                continue;
            }
            for text in &texts {
                let Some(left) = merges_left.checked_sub(1) else { return Ok(0) };
                merges_left = left;
                if merge::merge(&base, text, &then, Alike::Once).is_ok_and(|merged| merged == *text) {
                    return Ok(count);
                }
            }
        }
        Ok(0)
    }

    /// The trees of a branch's commits that are not older than `began`, in seconds since 1970, the newest
    /// first: no older one has anything of the session.
    fn trees_since(&self, tip: ObjectId, began: i64) -> Result<Vec<ObjectId>, SnapshotError> {
        let (mut trees, mut seen) = (Vec::new(), BTreeSet::from([tip]));
        let mut waiting = VecDeque::from([tip]);
        while let Some(id) = waiting.pop_front().filter(|_| trees.len() < COMMITS_MAX) {
            let doing = || format!("the commit {id} cannot be read");
            let commit = self.repo.find_commit(id).doing(doing)?;
            if commit.seconds().doing(doing)? < began {
                continue;
            }
            trees.push(commit.tree_id().doing(doing)?);
            waiting.extend(commit.parent_ids().filter(|parent| seen.insert(*parent)));
        }
        Ok(trees)
    }
}

/// Changes of one path as an account of them; `None` where there are none.
fn own_of(steps: &[Sides<Version>]) -> Option<Own<Version>> {
    let ((before, after), later) = steps.split_first()?;
    let mut own = Own::new(*before, *after);
    later.iter().for_each(|(before, after)| own.push(*before, *after));
    Some(own)
}
