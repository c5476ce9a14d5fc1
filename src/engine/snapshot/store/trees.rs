//! Looking many paths up in one tree: the trees on the way to the last ones are kept.

use std::ops::Range;

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use super::error::{Doing as _, SnapshotError};
use super::repo::Repo;
use super::trail::Trails;
use super::tree::{Lookup, TreeItem};

/// Most entries of trees that are kept on the way to one path.
const ENTRIES_MAX: usize = 200_000;

/// A tree with all below it.
#[derive(Debug)]
pub struct Trees {
    /// Its id.
    root: ObjectId,
    /// What was read on the way to the last paths.
    trails: Trails<Folder>,
}

impl Trees {
    /// The tree `root`, of which nothing is read yet.
    pub fn of(root: ObjectId) -> Self {
        Self { root, trails: Trails::default() }
    }

    /// Looks `path` up. A walk reads each tree about once, however deep it goes.
    ///
    /// # Errors
    /// Where a tree on the way cannot be read.
    pub fn look_up(&mut self, repo: &Repo, path: &[u8]) -> Result<Lookup, SnapshotError> {
        let trail = self.trails.to(path);
        if trail.steps().is_empty() {
            trail.push(0, Folder::of(self.root));
        }
        while let Some((folder_end, folder)) = trail.steps().last_mut() {
            let start = if *folder_end == 0 { 0 } else { *folder_end + 1 };
            let name = path.get(start..).unwrap_or_default();
            let name = name.split(|byte| *byte == b'/').next().unwrap_or_default();
            let end = start + name.len();
            match folder.entry(repo, name)? {
                None => break,
                Some(found) if end >= path.len() => return Ok(Lookup::Entry(found)),
                Some(found) if found.kind != EntryKind::Tree => return Ok(Lookup::Blocked(end, found)),
                Some(found) => trail.push(end, Folder::of(found.id)),
            }
            let_go(trail.steps());
        }
        Ok(Lookup::Nothing)
    }
}

/// Forgets what the outermost folders hold, where all together hold too much; it is read again
/// where it is wanted.
fn let_go(steps: &mut [(usize, Folder)]) {
    let held = |folder: &Folder| folder.listing.as_ref().map_or(0, |listing| listing.entries.len());
    let mut total: usize = steps.iter().map(|(_, folder)| held(folder)).sum();
    for (_, folder) in steps {
        if total <= ENTRIES_MAX {
            return;
        }
        total -= held(folder);
        folder.listing = None;
    }
}

/// A tree on the way.
#[derive(Debug)]
struct Folder {
    /// Its id.
    id: ObjectId,
    /// What is in it, once it was read.
    listing: Option<Listing>,
}

impl Folder {
    /// The tree `id`, which is read when it is wanted.
    fn of(id: ObjectId) -> Self {
        Self { id, listing: None }
    }

    /// The entry `name`.
    fn entry(&mut self, repo: &Repo, name: &[u8]) -> Result<Option<TreeItem>, SnapshotError> {
        if self.listing.is_none() {
            self.listing = Some(Listing::read(repo, self.id)?);
        }
        Ok(self.listing.as_ref().and_then(|listing| listing.entry(name)))
    }
}

/// The entries of a tree, by name: a tree may come in any order.
#[derive(Debug, Default)]
struct Listing {
    /// All names behind each other.
    names: Vec<u8>,
    /// Where in `names` each name is, and the entry.
    entries: Vec<(Range<usize>, TreeItem)>,
}

impl Listing {
    /// Reads the tree `id`.
    fn read(repo: &Repo, id: ObjectId) -> Result<Self, SnapshotError> {
        let mut listing = Self::default();
        if id.is_empty_tree() {
            return Ok(listing);
        }
        let object = repo.find_tree(id)?;
        for entry in object.iter() {
            let entry = entry.doing(|| format!("the tree {id} is damaged"))?;
            let start = listing.names.len();
            listing.names.extend_from_slice(entry.filename);
            let found = TreeItem { kind: entry.mode.kind(), id: entry.oid.to_owned() };
            listing.entries.push((start..listing.names.len(), found));
        }
        let names = &listing.names;
        // Of two with one name the first counts, as when the tree is read from its start.
        listing.entries.sort_by(|(one, _), (other, _)| names.get(one.clone()).cmp(&names.get(other.clone())));
        Ok(listing)
    }

    /// The entry `name`.
    fn entry(&self, name: &[u8]) -> Option<TreeItem> {
        let at = self.entries.partition_point(|(range, _)| self.names.get(range.clone()) < Some(name));
        let (range, found) = self.entries.get(at)?;
        (self.names.get(range.clone()) == Some(name)).then_some(*found)
    }
}
