//! Untracked files that stay out of snapshots by their names, and bytes that stay out under any name: a renamed or
//! copied secret is still a secret.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::Arc;

use globset::GlobSet;

use super::{FileState, SkipReason};
use crate::engine::snapshot::store::dir::Dir;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::path::first_matching;
use crate::sha256::Sha256;

/// Prefixes of secret file names, in lower case.
const BEGINNINGS: [&[u8]; 1] = [b".env"];
/// Suffixes of secret file names.
const ENDS: [&[u8]; 7] = [b".pem", b".key", b".p12", b".pfx", b".jks", b".keystore", b".kdbx"];
/// Secret file names.
const NAMES: [&[u8]; 9] = [
    b"id_rsa",
    b"id_dsa",
    b"id_ecdsa",
    b"id_ed25519",
    b".netrc",
    b".pgpass",
    b".pypirc",
    b".npmrc",
    b".git-credentials",
];

/// Untracked files that stay out.
#[derive(Debug, Clone, Default)]
pub enum ExcludedFiles {
    /// Only secrets.
    #[default]
    Secrets,
    /// Secrets, and files that match these globs, with everything below them.
    Also(Arc<GlobSet>),
    /// Everything: there are too many globs to compile.
    All,
}

impl ExcludedFiles {
    /// Returns true if an untracked file stays out.
    pub fn names(&self, path: &[u8]) -> bool {
        match self {
            Self::Secrets => false,
            Self::Also(globs) => gix::path::from_byte_slice(path)
                .ok()
                .and_then(WorkspacePath::new)
                .is_none_or(|path| first_matching(globs, &path).is_some()),
            Self::All => true,
        }
    }
}

/// Returns true if the name of a file looks like a secret, in any letter case.
pub fn is_secret(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path).to_ascii_lowercase();
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || ENDS.iter().any(|end| name.ends_with(end))
        || NAMES.contains(&name.as_slice())
}

/// Most secrets in the root that are read.
const SECRETS_MAX: usize = 16;
/// Fewest bytes of a secret: shorter contents are common to many files.
const SECRET_BYTES_MIN: usize = 4;
/// Largest secret that is read, in bytes.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// A file that a session has seen.
#[derive(Debug, Clone)]
pub struct KnownFile {
    /// Path from the root.
    pub path: Vec<u8>,
    /// SHA-256 of its bytes.
    pub sha256: Sha256,
    /// Number of bytes.
    pub size: u64,
}

/// Knowledge of a session about bytes that stay out.
#[derive(Debug, Clone, Default)]
pub struct SecretKnowledge {
    /// Digests of bytes that stayed out of its snapshots.
    pub digests: BTreeSet<Sha256>,
    /// Files that the session has seen.
    pub seen: Vec<KnownFile>,
}

/// Loads what the session knows: needed only if a new file enters.
pub type LoadKnowledge = Arc<dyn Fn() -> SecretKnowledge + Send + Sync>;

/// Bytes that stay out of one change.
pub struct WithheldBytes {
    /// Reads the session's knowledge.
    source: LoadKnowledge,
    /// The knowledge, read on first use.
    known: Option<SecretKnowledge>,
    /// Digests that this change adds.
    pub found: BTreeSet<Sha256>,
}

impl WithheldBytes {
    /// Starts a change of a session.
    pub fn of(source: &LoadKnowledge) -> Self {
        Self { source: Arc::clone(source), known: None, found: BTreeSet::new() }
    }

    /// Adds both sides of a file that stays out.
    pub fn note(&mut self, sides: [Option<FileState<'_>>; 2]) {
        self.found.extend(sides.into_iter().flatten().filter_map(content).map(Sha256::of));
    }

    /// Returns files of that size at other paths: those that the session has seen, and secrets in the root.
    pub fn files_of_size(&mut self, root: &Path, path: &[u8], size: u64) -> Vec<KnownFile> {
        let known = self.known.get_or_insert_with(|| {
            let mut known = (self.source)();
            known.seen.extend(secrets_in(root));
            known
        });
        known.seen.iter().filter(|seen| seen.size == size && seen.path != path).cloned().collect()
    }

    /// Returns true if nothing stays out.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.known.as_ref().is_none_or(|known| known.digests.is_empty())
    }

    /// Returns true if bytes with this digest stay out.
    pub fn holds(&self, digest: &Sha256) -> bool {
        self.found.contains(digest) || self.known.as_ref().is_some_and(|known| known.digests.contains(digest))
    }
}

/// Returns the files in a folder whose names look like secrets.
fn secrets_in(folder: &Path) -> Vec<KnownFile> {
    let Ok(folder) = Dir::open(folder) else { return Vec::new() };
    let names = folder.names().unwrap_or_default().into_iter();
    let secrets = names.filter(|name| is_secret(name.as_bytes())).take(SECRETS_MAX);
    let read = |name: OsString| {
        let bytes = folder.read(&name, SECRET_BYTES_MAX).ok()??;
        Some(KnownFile { path: name.into_vec(), sha256: Sha256::of(&bytes), size: bytes.len() as u64 })
    };
    secrets.filter_map(read).collect()
}

/// Returns true if bytes may be a secret by their number.
pub const fn may_be_secret(bytes: &[u8]) -> bool {
    bytes.len() >= SECRET_BYTES_MIN && bytes.len() as u64 <= SECRET_BYTES_MAX
}

/// Returns the bytes of a regular file, if there are enough of them for a secret.
pub fn content(state: FileState<'_>) -> Option<&[u8]> {
    match state {
        FileState::Regular { bytes, .. } => Some(bytes).filter(|bytes| bytes.len() >= SECRET_BYTES_MIN),
        FileState::Symlink { .. } | FileState::TooLarge { .. } => None,
    }
}

impl SkipReason {
    /// Returns true if the path itself stays out, whatever the file holds.
    pub const fn is_of_path(&self) -> bool {
        matches!(self, Self::Ignored | Self::Secret | Self::Excluded)
    }
}
