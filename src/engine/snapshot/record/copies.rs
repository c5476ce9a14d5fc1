//! Copies of files that stay out, which stay out too.

use gix::objs::Kind;

use super::change::FileState;
use super::prepare::Preparer;
use super::withheld::content;
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};
use crate::engine::snapshot::store::tree::Lookup;
use crate::sha256::Sha256;

impl Preparer<'_, '_> {
    /// Returns true if a new file has the bytes of a file that stays out. `found` is what the newest snapshot has at
    /// its path. Bytes that the repository has already are no secret.
    pub(super) fn is_withheld(
        &mut self,
        path: &[u8],
        [before, after]: [Option<FileState<'_>>; 2],
        found: Lookup,
    ) -> Result<bool, SnapshotError> {
        if found.entry().is_some() || self.is_in_head(path, found)? {
            return Ok(false);
        }
        let mut is_withheld = false;
        for bytes in [before, after].into_iter().flatten().filter_map(content) {
            is_withheld |= self.has_withheld(path, bytes)?;
        }
        if is_withheld {
            self.withheld.note([before, after]);
        }
        Ok(is_withheld)
    }

    /// Returns true if these bytes, found at `path`, stay out under every name.
    fn has_withheld(&mut self, path: &[u8], bytes: &[u8]) -> Result<bool, SnapshotError> {
        let others = self.withheld.others(self.repo.root(), path, bytes.len() as u64);
        if others.is_empty() && self.withheld.is_empty() {
            return Ok(false);
        }
        let digest = Sha256::of(bytes);
        let mut is_withheld = self.withheld.holds(&digest);
        for other in others.iter().filter(|other| other.sha256 == digest) {
            let found = self.look_up(&other.path)?;
            is_withheld |= self.stays_out(&other.path, found)?.is_some();
        }
        let id = || gix::objs::compute_hash(self.repo.object_hash(), Kind::Blob, bytes);
        Ok(is_withheld && !self.repo.holds(id().doing(|| "cannot hash a file".into())?)?)
    }
}
