//! A file as it stands under the lock.

use std::sync::Arc;

use super::stage::Original;
use crate::buffer::Buffer;
use crate::engine::workspace::fs;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::sha256::Sha256;

/// A file as it stands under the lock.
pub struct Current {
    /// Where it is.
    pub(in crate::engine) place: ResolvedPath,
    /// Which file it is; `None` where there is none.
    pub(in crate::engine) original: Option<Original>,
    /// Its bytes; none where there is no file.
    pub(in crate::engine) bytes: Arc<Buffer>,
    /// Their SHA-256.
    pub(in crate::engine) sha256: Sha256,
}

impl Current {
    /// Where it is.
    #[must_use]
    pub fn place(&self) -> &ResolvedPath {
        &self.place
    }

    /// Whether there is a file.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.original.is_some()
    }

    /// Its bytes; none where there is no file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, to be held while the file goes on to the gate.
    #[must_use]
    pub fn shared_bytes(&self) -> Arc<Buffer> {
        Arc::clone(&self.bytes)
    }

    /// SHA-256 of its bytes.
    #[must_use]
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// Its permission bits, or the type bits of a symlink; `None` where there is no file.
    #[must_use]
    pub fn mode(&self) -> Option<u32> {
        self.original.as_ref().map(|original| fs::recorded_mode(&original.stat))
    }

    /// Whether it is a symlink that was looked at itself; its bytes are its target then.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.mode().is_some_and(fs::is_symlink_mode)
    }

    /// Lets a tool go on that needs no proof, because it overwrites nothing.
    #[must_use]
    pub fn without_proof(self) -> CheckedFile {
        CheckedFile { current: self, proved: false }
    }
}

/// A file that may be changed: it was checked, or needs no check.
pub struct CheckedFile {
    /// The file.
    pub(in crate::engine) current: Current,
    /// Whether the caller proved to have seen its bytes.
    pub(in crate::engine) proved: bool,
}

impl CheckedFile {
    /// The file.
    #[must_use]
    pub fn current(&self) -> &Current {
        &self.current
    }
}
