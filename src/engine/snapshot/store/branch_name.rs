//! The name of the snapshot branch: each linked worktree has its own.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use gix::refs::FullName;

use super::error::{Doing as _, SnapshotError};
use crate::sha256::Sha256;

/// Longest name of a worktree that is part of a branch's name whole, in bytes.
const WORKTREE_BYTES_MAX: usize = 150;
/// So many characters of a longer one are.
const WORKTREE_CHARS_KEPT: usize = 40;

/// The full name of the branch `name`, or of the reference where it is full already, for a linked worktree of `name-WORKTREE`.
///
/// # Errors
/// Where git allows no branch of that name.
pub fn full_name(name: &str, worktree: Option<&OsStr>) -> Result<FullName, SnapshotError> {
    let named = |dots| {
        let suffix = worktree.map(|worktree| format!("-{}", worktree_name(worktree, dots)));
        format!("{name}{}", suffix.unwrap_or_default())
    };
    let full = |name: String| if name.starts_with("refs/") { name } else { format!("refs/heads/{name}") };
    FullName::try_from(full(named(Dots::Kept)))
        .or_else(|_| FullName::try_from(full(named(Dots::Escaped))))
        .doing(|| format!("`{}` cannot be the name of a branch", named(Dots::Kept)))
}

/// Whether the dots of a worktree's name stay in that of its branch: git allows them in some places only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dots {
    /// They stay.
    Kept,
    /// They are written as `%2E`.
    Escaped,
}

/// A worktree's name as part of a branch name: what a branch cannot have is written as `%XX`, and so is `%`, so
/// that no two worktrees share a branch. A very long name is cut, and ends in its SHA-256.
fn worktree_name(name: &OsStr, dots: Dots) -> String {
    let is_plain = |c: char| {
        c.is_alphanumeric() && c != char::REPLACEMENT_CHARACTER
            || matches!(c, '-' | '_')
            || (c == '.' && dots == Dots::Kept)
    };
    let mut written = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_plain(c) {
                written.push(c);
            } else {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escape(byte, &mut written));
            }
        }
        chunk.invalid().iter().for_each(|byte| escape(*byte, &mut written));
    }
    if written.len() <= WORKTREE_BYTES_MAX {
        return written;
    }
    let kept: String = written.chars().take(WORKTREE_CHARS_KEPT).collect();
    // No other name has `%%`.
    format!("{}%%{}", kept.trim_end_matches('.'), Sha256::of(name.as_bytes()))
}

/// Writes a byte as `%XX`.
fn escape(byte: u8, written: &mut String) {
    let _ = write!(written, "%{byte:02X}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_worktrees_share_a_branch() {
        let long = "x".repeat(255);
        let other_long = format!("{}y", "x".repeat(254));
        let names: [&[u8]; 18] = [
            b"x y",
            b"x-y",
            b"x%20y",
            b"x%2520y",
            b"x~y",
            b"x^y",
            b"x:y",
            b"x..y",
            b"x.y",
            b"x%2E%2Ey",
            b".x",
            b"x.lock",
            b"x%2Elock",
            b"x@{y",
            "\u{e9}".as_bytes(),
            b"\xe9",
            long.as_bytes(),
            other_long.as_bytes(),
        ];
        let branch = |name: &[u8]| {
            let full = full_name("lbx-snapshots", Some(OsStr::from_bytes(name))).unwrap();
            full.shorten().to_string()
        };
        let branches: BTreeSet<String> = names.iter().map(|name| branch(name)).collect();
        assert_eq!(branches.len(), names.len(), "{branches:?}");
        assert_eq!(branch(b"x-y"), "lbx-snapshots-x-y");
        assert_eq!(branch(b"x y"), "lbx-snapshots-x%20y");
        assert!(branches.iter().all(|branch| branch.len() < 180), "{branches:?}");
    }
}
