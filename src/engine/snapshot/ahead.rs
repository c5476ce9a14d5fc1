//! What can be worked out of large blobs before the snapshot begins, while the change itself still
//! waits for the disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use gix::ObjectId;
use gix::hash::Kind as Hash;
use gix::objs::Kind;
use gix::zlib::Compression;

use super::objects::Packed;

/// Blobs of so many bytes are worth it; smaller ones are done before a thread has begun.
pub const LARGE_BYTES: usize = 1024 * 1024;

/// What is known ahead, by path from the root.
pub type AllAhead = Arc<BTreeMap<Vec<u8>, Ahead>>;

/// Both sides of one file, each as the blob that it is where git converts nothing in it.
#[derive(Debug)]
pub struct Ahead {
    /// The id of the old side.
    before: Option<ObjectId>,
    /// The new side.
    after: Packed,
}

impl Ahead {
    /// Works it out; `None` where it is not worth it, or fails, and so is left to the snapshot.
    #[must_use]
    pub fn of(before: Option<&[u8]>, after: &[u8]) -> Option<Self> {
        if after.len() < LARGE_BYTES {
            return None;
        }
        let id = |bytes| gix::objs::compute_hash(Hash::Sha1, Kind::Blob, bytes).ok();
        let after = Packed::blob(id(after)?, after, Compression::BEST_SPEED).ok()?;
        Some(Self { before: before.and_then(id), after })
    }

    /// The id of the old side.
    pub(super) fn before(&self, hash: Hash) -> Option<ObjectId> {
        self.before.filter(|id| id.kind() == hash)
    }

    /// The new side.
    pub(super) fn after(&self, hash: Hash) -> Option<&Packed> {
        Some(&self.after).filter(|packed| packed.id().kind() == hash)
    }
}
