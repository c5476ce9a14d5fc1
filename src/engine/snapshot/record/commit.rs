//! A change as commits on the branch.

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use super::change::{CommitInfo, FileChange, LeftOut, Recorded};
use super::folder;
use super::prepare::{Prepared, Preparer};
use super::ready::{Made, Ready, Written};
use crate::engine::snapshot::store::branch::Moved;
use crate::engine::snapshot::store::chain::{Chain, EXTERNAL, Stamp, seconds};
use crate::engine::snapshot::store::error::SnapshotError;
use crate::engine::snapshot::store::excluded::is_secret;
use crate::engine::snapshot::store::tree::TreeEdit;
use crate::engine::snapshot::store::{Store, objects, pruning, reflog, refs, tree};
use crate::text::counted::counted;

impl Store {
    /// Commits a change, and before it what others changed on the same paths or by moving HEAD.
    ///
    /// The objects are on disk before the branch names them. A change that leaves the tree as
    /// it was makes no commit.
    ///
    /// # Errors
    /// Where there can be no snapshot; nothing of the repository has moved then.
    pub fn record(&mut self, change: &CommitInfo<'_>) -> Result<Recorded, SnapshotError> {
        self.repeatedly(|store| store.attempt(change))
    }

    /// Tries once; `None` where the branch was moved by someone else meanwhile.
    fn attempt(&self, change: &CommitInfo<'_>) -> Result<Option<Recorded>, SnapshotError> {
        let made = self.make(change)?;
        let moved = self.publish(made.tip, made.newest, made.seconds, &made.packed)?;
        Ok((moved == Moved::Yes).then_some(made.recorded))
    }

    /// Commits a change that is about to be made, as [`Self::record`] does; its objects and the branch's
    /// new value are written aside, so that they can be synced together with the change itself.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn prepare(self, change: &CommitInfo<'_>) -> Result<Ready, SnapshotError> {
        let made = self.make(change)?;
        let written = made.newest.map(|newest| self.write(newest, &made)).transpose()?;
        Ok(Ready { store: self, tip: made.tip, written, recorded: made.recorded })
    }

    /// Writes the objects of commits aside, and `newest` as the branch's new value.
    fn write(&self, newest: ObjectId, made: &Made) -> Result<Written, SnapshotError> {
        if made.tip.is_none() {
            self.branch.check_room(&self.repo)?;
        }
        let log = self.log_line(newest, made.seconds)?;
        let objects = objects::write_aside(&self.repo, &made.packed)?;
        let value = self.branch.write_value(&self.repo, newest)?;
        Ok(Written { objects, value, log })
    }

    /// Makes the commits of a change, in memory.
    fn make(&self, change: &CommitInfo<'_>) -> Result<Made, SnapshotError> {
        pruning::wait_for_its_end(&self.repo);
        let tip = self.branch.tip(&self.repo)?;
        let head = refs::head_target(&self.repo)?;
        self.branch.check_free(&self.repo, head.as_ref())?;
        self.branch.check_ours(&self.repo, tip)?;
        let stamp = Stamp {
            session: change.session,
            seq: change.seq,
            seconds: seconds(change.time),
            gate: change.gate,
            harness: self.harness.as_deref(),
        };
        let mut chain = Chain::begin(&self.repo, tip, head.as_ref(), stamp)?;
        let prepared = prepared(self, &chain, change)?;
        self.commit_external(&mut chain, &prepared.external)?;
        let external = chain.newest();
        let tree = tree::apply(&self.repo, chain.tree(), &prepared.change)?;
        let id = chain.commit(tree, &change.subject, change.why, change.tool)?;
        let mut warnings = self.warnings.clone();
        warnings.extend(self.lost_branch(tip));
        warnings.extend(prepared.warnings);
        let recorded = Recorded {
            ignored: Vec::new(),
            id: id.map(|id| id.to_string()),
            external: external.map(|id| id.to_string()),
            left_out: prepared.left_out,
            warnings,
            withheld: prepared.withheld,
        };
        let (newest, seconds) = (chain.newest(), stamp.seconds);
        Ok(Made { tip, newest, seconds, packed: prepared.packed, recorded })
    }

    /// What is said where the branch is missing, and git's log of it is there: whoever deletes a branch with git
    /// deletes that too.
    fn lost_branch(&self, tip: Option<ObjectId>) -> Option<String> {
        let was_at =
            tip.is_none().then(|| reflog::values(&self.repo, &self.branch.loose()))?.into_iter().next()?;
        let name = self.branch.short_name();
        Some(format!(
            "the snapshot branch `{name}` was missing and begins anew; its log says that it was at {was_at}: `git branch NAME {was_at}` keeps the earlier snapshots"
        ))
    }

    /// Commits what others changed on the paths of a change.
    fn commit_external(&self, chain: &mut Chain<'_>, edits: &[TreeEdit<'_>]) -> Result<(), SnapshotError> {
        let subject = match edits {
            [] => return Ok(()),
            [edit] => format!("external: {}", edit.path.to_str_lossy()),
            _ => format!("external: {}", counted(edits.len(), "file")),
        };
        let tree = tree::apply(&self.repo, chain.tree(), edits)?;
        chain.commit(tree, &subject, None, EXTERNAL)?;
        Ok(())
    }
}

/// Turns a change into edits on top of `chain`. Blobs go into the repository's object memory, the
/// large ones into what this answers.
fn prepared<'a>(
    store: &Store,
    chain: &Chain<'_>,
    change: &CommitInfo<'a>,
) -> Result<Prepared<'a>, SnapshotError> {
    let paths = change.files.iter().map(|file| file.path);
    let names = change.folders.iter().flat_map(|folder| [folder.before, folder.after]).flatten();
    let preparer = Preparer::new(&store.repo, chain, paths.clone().chain(names), store.takes())?;
    let mut preparer = preparer.of_change(paths.collect(), &store.ahead);
    for folder in &change.folders {
        folder::take_in(&mut preparer, folder)?;
    }
    // What stays out comes first: a copy of it that the change makes is known then.
    let mut files: Vec<&FileChange<'_>> = change.files.iter().collect();
    files.sort_by_key(|file| (file.before.is_none(), !is_secret(file.path)));
    for file in files {
        preparer.flush()?; // before the next one: what a small change has goes out at its end, all at once
        if let Some(reason) = preparer.file(file)? {
            let path = file.path.to_str_lossy().into_owned();
            preparer.done.left_out.push(LeftOut { path, reason });
        }
    }
    Ok(Prepared { withheld: preparer.withheld.found, ..preparer.done })
}
