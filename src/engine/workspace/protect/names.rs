//! The names under which git's state and lbx's own lie, in every spelling that a file system takes for one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};

/// Names that are never written, in lower case, with their short names on NTFS.
const PROTECTED: [&[u8]; 4] = [b".git", b".lbx", b"git~1", b"lbx~1"];

/// End of the name of a repository that a command made and lbx moved aside, `.git.lbx-held`; a number may follow.
pub const HELD: &str = ".lbx-held";

/// Code points that HFS+ ignores in a name (git, `utf8.c`, `next_hfs_char`), as UTF-8.
const IGNORED_BY_HFS: [&[u8]; 17] = [
    b"\xe2\x80\x8c",
    b"\xe2\x80\x8d",
    b"\xe2\x80\x8e",
    b"\xe2\x80\x8f",
    b"\xe2\x80\xaa",
    b"\xe2\x80\xab",
    b"\xe2\x80\xac",
    b"\xe2\x80\xad",
    b"\xe2\x80\xae",
    b"\xe2\x81\xaa",
    b"\xe2\x81\xab",
    b"\xe2\x81\xac",
    b"\xe2\x81\xad",
    b"\xe2\x81\xae",
    b"\xe2\x81\xaf",
    b"\xef\xbb\xbf",
    b"\xe2\x80\x8b",
];

/// The first component of `path` that is `.git` or `.lbx`, in any letter case and under any of
/// the names that NTFS and HFS+ take for the same: a checkout may move to such a disk.
#[must_use]
pub fn protected_component(path: &Path) -> Option<&OsStr> {
    path.iter().find(|name| is_protected(name.as_bytes()))
}

/// Whether `path` lies in the state of git or lbx, as the trash does.
#[must_use]
pub fn is_state(path: &WorkspacePath) -> bool {
    protected_component(path.as_path()).is_some()
}

/// Returns true for the name of a repository that lbx moved aside.
#[must_use]
pub fn is_held(name: &[u8]) -> bool {
    let number_at = name.iter().rposition(|byte| *byte == b'-').unwrap_or(name.len());
    let (stem, number) = name.split_at(number_at);
    let is_numbered = number.get(1..).is_some_and(|digits| digits.iter().all(u8::is_ascii_digit));
    name.ends_with(HELD.as_bytes()) || (is_numbered && stem.ends_with(HELD.as_bytes()))
}

/// Whether a single name is protected. NTFS takes a backslash for a separator, so that
/// `.git\config` names a file in `.git` there.
#[must_use]
pub fn is_protected(name: &[u8]) -> bool {
    name.split(|&byte| byte == b'\\').any(is_protected_part)
}

/// Whether a name without a backslash is protected.
fn is_protected_part(name: &[u8]) -> bool {
    // Most names are settled by their first byte.
    if !matches!(name.first(), Some(b'.' | b'g' | b'G' | b'l' | b'L' | 0xe2 | 0xef)) {
        return false;
    }
    let mut folded = without_ignored(name).to_ascii_lowercase();
    // NTFS: a stream is named after a colon, and trailing blanks and dots are dropped.
    if let Some(colon) = folded.iter().position(|&byte| byte == b':') {
        folded.truncate(colon);
    }
    while matches!(folded.last(), Some(b' ' | b'.')) {
        folded.pop();
    }
    PROTECTED.contains(&folded.as_slice())
}

/// `name` without what HFS+ does not see.
fn without_ignored(name: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(ignored) = IGNORED_BY_HFS.iter().find(|ignored| rest.starts_with(ignored)) {
            rest = rest.get(ignored.len()..).unwrap_or_default();
        } else {
            kept.push(first);
            rest = tail;
        }
    }
    kept
}

/// The refusal of a path with a protected name in it.
#[must_use]
pub fn name_error(shown: &str, name: &OsStr) -> Error {
    let message = format!("{shown} is protected: {} is never written by a file tool", name.display());
    Error::new(ErrorKind::ProtectedPath, message).at(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_git_is_protected() {
        for name in [
            ".git",
            ".GIT",
            ".Git",
            "git~1",
            "GIT~1",
            ".git.",
            ".git ",
            ".git . .",
            ".git::$INDEX_ALLOCATION",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".lbx",
            ".LBX",
            "lbx~1",
            r".git\config",
            r"a\.GIT\hooks",
            r"sub\.lbx",
            r"\.git",
        ] {
            assert!(is_protected(name.as_bytes()), "{name:?}");
            assert!(protected_component(&Path::new("a").join(name).join("config")).is_some(), "{name:?}");
        }
        for name in [
            ".gitignore",
            "git",
            ".github",
            "a.git",
            ".lbxrc",
            ".",
            "git~2x",
            "",
            "lbx",
            ".gitmodules",
            r"a\b",
        ] {
            assert!(!is_protected(name.as_bytes()), "{name:?}");
        }
    }
}
