//! Which untracked files stay out of snapshots by their names: those of secrets, and those that the policy names.

use std::sync::Arc;

use globset::GlobSet;

use crate::engine::workspace::globs::first_matching;
use crate::engine::workspace::path::WorkspacePath;

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

/// What stays out beside the names of secrets.
#[derive(Debug, Clone, Default)]
pub enum Excluded {
    /// Nothing.
    #[default]
    Secrets,
    /// What these globs match, with all below it.
    Also(Arc<GlobSet>),
    /// Everything: there are more globs than can be used together.
    All,
}

impl Excluded {
    /// Whether an untracked file stays out.
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

/// Whether a file has a name that secrets have, in any letter case.
#[must_use]
pub fn is_secret(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path).to_ascii_lowercase();
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || ENDS.iter().any(|end| name.ends_with(end))
        || NAMES.contains(&name.as_slice())
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
