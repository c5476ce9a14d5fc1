//! Untracked files that stay out of snapshots by their names, and bytes that stay out under every name: a secret that is
//! renamed or copied is still one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::Arc;

use globset::GlobSet;

use super::change::{FileState, Reason};
use crate::engine::snapshot::store::dir::Dir;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::path::first_matching;
use crate::sha256::Sha256;

/// Beginnings of names that secrets have, in lower case.
const BEGINNINGS: [&[u8]; 1] = [b".env"];
/// Ends of such names.
const ENDS: [&[u8]; 7] = [b".pem", b".key", b".p12", b".pfx", b".jks", b".keystore", b".kdbx"];
/// Such names.
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

/// Untracked files that stay out besides secrets.
#[derive(Debug, Clone, Default)]
pub enum Excluded {
    /// Nothing.
    #[default]
    Secrets,
    /// Files that match these globs, with all below them.
    Also(Arc<GlobSet>),
    /// Everything: there are more globs than can be used together.
    All,
}

impl Excluded {
    /// Returns true if an untracked file stays out.
    #[must_use]
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

/// Returns true if a file has a name that secrets have, in any letter case.
#[must_use]
pub fn is_secret(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path).to_ascii_lowercase();
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || ENDS.iter().any(|end| name.ends_with(end))
        || NAMES.contains(&name.as_slice())
}

/// Secrets in the root that are looked at.
const SECRETS_MAX: usize = 16;
/// Bytes that a secret has at least: fewer are the same in many files.
const SECRET_BYTES_MIN: usize = 4;
/// Bytes of one that is looked at.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// A file that a session has seen.
#[derive(Debug, Clone)]
pub struct SeenFile {
    /// Its path from the root.
    pub path: Vec<u8>,
    /// SHA-256 of its bytes.
    pub sha256: Sha256,
    /// Their number.
    pub size: u64,
}

/// Knowledge of a session about bytes that stay out.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Digests of what stayed out of its snapshots.
    pub digests: BTreeSet<Sha256>,
    /// Files that it has seen.
    pub seen: Vec<SeenFile>,
}

/// Reads what the session knows: wanted only where a new file enters.
pub type Source = Arc<dyn Fn() -> Known + Send + Sync>;

/// The bytes that stay out of one change.
pub struct Withheld {
    /// Reads the session's knowledge.
    source: Source,
    /// The knowledge, read on first use.
    known: Option<Known>,
    /// Digests that this change adds.
    pub found: BTreeSet<Sha256>,
}

impl Withheld {
    /// Starts a change of a session.
    pub fn of(source: &Source) -> Self {
        Self { source: Arc::clone(source), known: None, found: BTreeSet::new() }
    }

    /// Notes both sides of a file that stays out.
    pub fn note(&mut self, sides: [Option<FileState<'_>>; 2]) {
        self.found.extend(sides.into_iter().flatten().filter_map(content).map(Sha256::of));
    }

    /// The files at other paths that have so many bytes: the session has seen them, or they are secrets in the root.
    pub fn others(&mut self, root: &Path, path: &[u8], size: u64) -> Vec<SeenFile> {
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

/// Returns the files in a folder whose names are those of secrets.
fn secrets_in(folder: &Path) -> Vec<SeenFile> {
    let Ok(folder) = Dir::open(folder) else { return Vec::new() };
    let names = folder.names().unwrap_or_default().into_iter();
    let secrets = names.filter(|name| is_secret(name.as_bytes())).take(SECRETS_MAX);
    let read = |name: OsString| {
        let bytes = folder.read_regular(&name, SECRET_BYTES_MAX).ok()??;
        Some(SeenFile { path: name.into_vec(), sha256: Sha256::of(&bytes), size: bytes.len() as u64 })
    };
    secrets.filter_map(read).collect()
}

/// Returns the bytes of a regular file, if they are enough to be a secret.
#[must_use]
pub fn content(state: FileState<'_>) -> Option<&[u8]> {
    match state {
        FileState::Regular { bytes, .. } => Some(bytes).filter(|bytes| bytes.len() >= SECRET_BYTES_MIN),
        FileState::Symlink { .. } => None,
    }
}

impl Reason {
    /// Returns true if the path itself stays out, whatever the file holds.
    #[must_use]
    pub const fn is_of_path(&self) -> bool {
        matches!(self, Self::Ignored | Self::Secret | Self::Excluded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_at_any_depth_and_in_any_case() {
        for path in
            [".env", "a/.env.local", "A/B.PEM", "server.key", "x/id_rsa", ".envrc", "Id_Ed25519", ".netrc"]
        {
            assert!(is_secret(path.as_bytes()), "{path}");
        }
        for path in ["env", "a.env", "id_rsa.pub", "key", "keys/x", ".env/x", "pem.rs", "monkey"] {
            assert!(!is_secret(path.as_bytes()), "{path}");
        }
    }
}
