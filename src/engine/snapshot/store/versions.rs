//! Loose objects that snapshots added, for a pack: each as a delta of the version before it.
//!
//! The branch says which object follows which: a snapshot's tree differs from the one before it in a few entries, and
//! the old and the new object of such an entry have most bytes in common. So nothing has to be guessed from sizes and
//! names, as `git gc` does.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use gix::ObjectId;
use gix::objs::Kind;
use gix::zlib::Compression;

use super::commit_builder;
use super::deflate::{Deflater, PackedObject};
use super::repo::{self, Object, Repo};
use super::tree;
use super::{ErrorContext as _, SnapshotError};
use crate::engine::workspace::fs::{is_regular, size_of};
use crate::limits::{LOOSE_FILE_BYTES_MAX, TREE_DEPTH_MAX};
use crate::text::delta;

/// Longest chain of deltas, as in git.
const CHAIN_MAX: u8 = 50;
/// Largest object that is packed, in bytes: others gain little and take much memory.
const DELTA_OBJECT_BYTES_MAX: u64 = 8 << 20;
/// Most bytes of checked objects that are kept in memory.
const CHECKED_BYTES_MAX: usize = 4 << 20;

/// Bounds of a pack, and of the search for its objects.
#[derive(Debug, Clone, Copy)]
pub struct PackBounds {
    /// Most loose snapshots to look for.
    pub snapshots_max: usize,
    /// Most packed snapshots in a row: earlier ones are packed, too.
    pub packed_max: usize,
    /// Number of objects after which no further snapshot is added.
    pub objects_max: usize,
    /// Compressed bytes likewise.
    pub bytes_max: usize,
    /// Time likewise.
    pub until: Option<Instant>,
}

/// Loose objects that snapshots added, oldest first.
pub struct SnapshotObjects<'r> {
    /// The repository.
    repo: &'r Repo,
    /// Bounds of a pack.
    bounds: PackBounds,
    /// Loose snapshots to pack, newest first.
    snapshots: Vec<ObjectId>,
    /// Compressor.
    deflater: Deflater,
    /// Objects of this pack, each with the length of its chain of deltas.
    chains: HashMap<ObjectId, u8>,
    /// These objects in the form of a pack.
    entries: Vec<PackedObject>,
    /// Number of bytes in them.
    bytes: usize,
    /// Objects whose bytes have their id.
    checked: HashMap<ObjectId, Rc<Object>>,
    /// Number of bytes in them.
    checked_bytes: usize,
}

impl<'r> SnapshotObjects<'r> {
    /// Looks for loose snapshots from `tip` back to the start of the branch.
    pub fn of(repo: &'r Repo, tip: Option<ObjectId>, level: Compression, bounds: PackBounds) -> Self {
        let mut versions = Self {
            repo,
            bounds,
            snapshots: Vec::new(),
            deflater: Deflater::new(level),
            chains: HashMap::new(),
            entries: Vec::new(),
            bytes: 0,
            checked: HashMap::new(),
            checked_bytes: 0,
        };
        let (mut next, mut packed) = (tip, 0);
        while let Some(id) = next
            && versions.snapshots.len() < bounds.snapshots_max
            && packed <= bounds.packed_max
        {
            // Behind a damaged commit nothing is known to be a snapshot.
            let Ok(commit) = repo.find_commit(id) else { break };
            if commit.message_raw().ok().and_then(commit_builder::parse_trailers).is_none() {
                break;
            }
            packed = if versions.is_loose(id) { 0 } else { packed + 1 };
            if packed == 0 {
                versions.snapshots.push(id);
            }
            next = commit.parent_ids().next();
        }
        versions
    }

    /// Returns the entries of the next pack, which needs no object outside it; none at the end.
    ///
    /// # Errors
    /// Fails if an object cannot be compressed.
    pub fn next_pack(&mut self) -> Result<Vec<PackedObject>, SnapshotError> {
        self.chains.clear();
        self.bytes = 0;
        while self.entries.len() < self.bounds.objects_max
            && self.bytes < self.bounds.bytes_max
            && (self.entries.is_empty() || self.bounds.until.is_none_or(|until| Instant::now() < until))
            && let Some(id) = self.snapshots.pop()
        {
            self.add_snapshot(id)?;
        }
        Ok(std::mem::take(&mut self.entries))
    }

    /// Adds what a snapshot has and the one before it has not.
    fn add_snapshot(&mut self, id: ObjectId) -> Result<(), SnapshotError> {
        // A damaged object stays where it is, for a repair.
        let Ok(commit) = self.repo.find_commit(id) else { return Ok(()) };
        let parent = commit.parent_ids().next();
        let before = parent.and_then(|id| commit_builder::tree_of(self.repo, id).ok());
        if let Ok(tree) = commit.tree_id() {
            self.add_tree(tree, before, 0)?;
        }
        // Last, so that a loose snapshot tells that some of its objects may be loose.
        self.add(id, parent)
    }

    /// Adds a tree, and what it has and the tree `before` has not.
    fn add_tree(
        &mut self,
        id: ObjectId,
        before: Option<ObjectId>,
        depth: usize,
    ) -> Result<(), SnapshotError> {
        if before == Some(id) || depth > TREE_DEPTH_MAX || !self.is_wanted(id) {
            return Ok(());
        }
        // A damaged tree would never count as packed, and could be visited again by each tree that names it.
        if self.checked(id).is_none_or(|tree| tree.kind != Kind::Tree) {
            return Ok(());
        }
        let old = before.filter(|before| self.repo.find_tree(*before).is_ok());
        let old = old.unwrap_or_else(|| ObjectId::empty_tree(id.kind()));
        for (_, old, new) in tree::differing(self.repo, old, id).unwrap_or_default() {
            let Some(new) = new.filter(|new| !new.mode.is_commit()) else { continue };
            let is_tree = new.mode.is_tree();
            let old = old.filter(|old| !old.mode.is_commit() && old.mode.is_tree() == is_tree);
            let before = old.map(|old| old.oid);
            if is_tree { self.add_tree(new.oid, before, depth + 1)? } else { self.add(new.oid, before)? }
        }
        self.add(id, before)
    }

    /// Adds an object, as a delta of `before` if that is in the pack and similar.
    fn add(&mut self, id: ObjectId, before: Option<ObjectId>) -> Result<(), SnapshotError> {
        let Some(object) = self.is_wanted(id).then(|| self.checked(id)).flatten() else { return Ok(()) };
        let chain = before.and_then(|before| self.chains.get(&before)).filter(|chain| **chain < CHAIN_MAX);
        let base = chain.map(|chain| chain + 1).zip(before.and_then(|before| self.checked(before)));
        let delta = base.filter(|(_, base)| base.kind == object.kind).and_then(|(chain, base)| {
            Some((chain, base.id, delta::encode(&base.data, &object.data, object.data.len() / 2)?))
        });
        let entry = match &delta {
            Some((_, base, delta)) => self.deflater.delta(id, *base, delta),
            None => self.deflater.entry(id, object.kind, &object.data),
        };
        let entry = entry.context(|| format!("cannot pack {id}"))?;
        self.bytes += entry.bytes.len();
        self.entries.push(entry);
        self.chains.insert(id, delta.map_or(0, |(chain, ..)| chain));
        Ok(())
    }

    /// Returns true if an object is to be packed and is not in the pack yet.
    fn is_wanted(&self, id: ObjectId) -> bool {
        !self.chains.contains_key(&id) && self.is_loose(id)
    }

    /// Returns true if an object has a file of its own and is not too large.
    fn is_loose(&self, id: ObjectId) -> bool {
        let stat = self.repo.objects_folder().stat(repo::loose_name(&id)).ok().flatten();
        stat.filter(is_regular).is_some_and(|stat| {
            size_of(&stat) <= LOOSE_FILE_BYTES_MAX
                || self.repo.header(id).is_ok_and(|(_, size)| size <= DELTA_OBJECT_BYTES_MAX)
        })
    }

    /// Returns an object whose bytes have its id.
    fn checked(&mut self, id: ObjectId) -> Option<Rc<Object>> {
        if let Some(object) = self.checked.get(&id) {
            return Some(Rc::clone(object));
        }
        let object = self.repo.find_object(id).ok().filter(Object::is_whole)?;
        if self.checked_bytes > CHECKED_BYTES_MAX {
            self.checked.clear();
            self.checked_bytes = 0;
        }
        self.checked_bytes += object.data.len();
        let object = Rc::new(object);
        self.checked.insert(id, Rc::clone(&object));
        Some(object)
    }
}
