//! Which folders git would take for a repository, by git's own rule.
//!
//! # Source
//! git, `setup.c`, `is_git_directory` and `validate_headref`: a valid `HEAD`, and `objects` and
//! `refs` beside it or in the folder that `commondir` names.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::engine::workspace::fs;

/// The name by which git finds the repository of a work tree.
pub const DOT_GIT: &str = ".git";
/// The file that git looks at first.
pub const HEAD: &str = "HEAD";
/// The file with which a worktree's folder names the repository.
pub const COMMON: &str = "commondir";
/// Folders of a repository.
pub const OBJECTS: &str = "objects";
/// Folders of a repository.
pub const REFS: &str = "refs";
/// The names that together make a folder a repository.
pub const PARTS: [&str; 4] = [HEAD, COMMON, OBJECTS, REFS];
/// What git reads of `HEAD`, in bytes.
pub const HEAD_BYTES_READ: usize = 255;
/// Hexadecimal digits of a commit id, at least.
const ID_DIGITS: usize = 40;

/// What stands at `HEAD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// Nothing that git reads.
    Absent,
    /// A symlink with this target.
    Link(Vec<u8>),
    /// A file that begins with these bytes.
    File(Vec<u8>),
    /// Something that this process cannot read and another may.
    Unknown,
}

impl Head {
    /// Whether git would go on.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Absent => false,
            Self::Link(target) => target.starts_with(b"refs/"),
            Self::File(bytes) => is_reference(bytes) || is_id(bytes),
            Self::Unknown => true,
        }
    }
}

/// Whether the text of a `HEAD` names a reference.
fn is_reference(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"ref:").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"refs/"))
}

/// Whether the text of a `HEAD` begins with a commit id.
fn is_id(bytes: &[u8]) -> bool {
    bytes.get(..ID_DIGITS).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Whether a folder with that `HEAD` is a repository; `stands` tells which other names it holds.
#[must_use]
pub fn is_repository_with(head: &Head, stands: impl Fn(&str) -> bool) -> bool {
    head.is_valid() && (stands(COMMON) || (stands(OBJECTS) && stands(REFS)))
}

/// Whether git would take an opened folder for a repository. Mostly one call of the system.
///
/// Where that cannot be told, it would.
#[must_use]
pub fn is_repository(folder: BorrowedFd<'_>) -> bool {
    let stands = |name: &str| !matches!(fs::stat_at(folder, OsStr::new(name)), Err(Errno::NOENT));
    stands(HEAD) && is_repository_with(&head_at(folder, OsStr::new(HEAD)), stands)
}

/// Whether an opened folder is a repository, or holds the name by which git finds one.
#[must_use]
pub fn is_work_tree(folder: BorrowedFd<'_>) -> bool {
    fs::stat_at(folder, OsStr::new(DOT_GIT)).is_ok()
}

/// What git would read at `name`, its `HEAD`, in an opened folder.
#[must_use]
pub fn head_at(folder: BorrowedFd<'_>, name: &OsStr) -> Head {
    let stat = match fs::stat_at(folder, name) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Head::Absent,
        Err(_) => return Head::Unknown,
    };
    if fs::is_folder(&stat) {
        return Head::Absent;
    }
    if fs::is_symlink(&stat) {
        return match fs::open_at(folder, name, fs::LOOK).and_then(|link| fs::target_of(&link)) {
            Ok(target) => Head::Link(target),
            Err(_) => Head::Unknown,
        };
    }
    if !fs::is_regular(&stat) {
        // A FIFO may say anything to whoever waits for it.
        return Head::Unknown;
    }
    let mut bytes = Vec::new();
    let opened = fs::open_at(folder, name, fs::READ).map(File::from);
    match opened.map(|file| file.take(HEAD_BYTES_READ as u64).read_to_end(&mut bytes)) {
        Ok(Ok(_)) => Head::File(bytes),
        _ => Head::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_valid_as_git_sees_it() {
        let id = "0123456789abcdefABCDEF0123456789abcdef01";
        for (text, valid) in [
            ("ref: refs/heads/main\n", true),
            ("ref:refs/x", true),
            ("ref: \t refs/", true),
            (id, true),
            (&format!("{id}\n"), true),
            (&format!("{id} and more"), true),
            ("ref: heads/main", false),
            ("", false),
            ("refs/heads/main", false),
            (&id[1..], false),
            ("the head of the river\n", false),
        ] {
            assert_eq!(Head::File(text.as_bytes().to_vec()).is_valid(), valid, "{text:?}");
        }
        assert!(Head::Link(b"refs/heads/main".to_vec()).is_valid());
        assert!(!Head::Link(b"../HEAD".to_vec()).is_valid());
        assert!(!Head::Absent.is_valid());
    }

    #[test]
    fn a_repository_has_objects_and_refs_or_says_where() {
        let head = Head::File(b"ref: refs/heads/main\n".to_vec());
        let with = |names: &[&str]| is_repository_with(&head, |name| names.contains(&name));
        assert!(with(&["objects", "refs"]) && with(&["commondir"]));
        assert!(!with(&["objects"]) && !with(&["refs"]) && !with(&[]));
        assert!(!is_repository_with(&Head::Absent, |_| true));
    }
}
