//! From a change to its commit; here are the input and the result.

pub mod commit;
pub mod disk;
pub mod folder;
pub mod prepare;
pub mod rules;
pub mod secrets;

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::SystemTime;

use crate::engine::snapshot::store::objects::PrecomputedBlob;
use crate::limits::TREE_DEPTH_MAX;
use crate::sha256::Sha256;
use crate::text::escaped::short_path;

/// One change by a tool, which becomes one commit.
#[derive(Debug, Clone)]
pub struct CommitInfo<'a> {
    /// First line of the message, such as `write: src/main.rs`.
    pub subject: String,
    /// Caller's reason for the change; the body of the message.
    pub why: Option<&'a str>,
    /// Session that made it.
    pub session: &'a str,
    /// Tool that made it.
    pub tool: &'a str,
    /// Number in the journal.
    pub seq: u64,
    /// Verdict of the policy, `warn` or `off`, if the caller had not seen the bytes.
    pub gate: Option<&'a str>,
    /// Time of the change.
    pub time: SystemTime,
    /// Every path that it touched, each once, except those in `folders`.
    pub files: Vec<FileChange<'a>>,
    /// Every folder that it moved as a whole.
    pub folders: Vec<FolderChange<'a>>,
    /// Blobs of its large files that are computed already.
    pub blobs: &'a [PrecomputedBlob],
}

/// A folder that a change renamed, deleted or restored, with everything in it.
///
/// None of it is in memory: its files are read one at a time while the change is recorded.
#[derive(Debug, Clone, Copy)]
pub struct FolderChange<'a> {
    /// Folder itself, opened at its present place: in the work tree, in the trash or elsewhere.
    pub folder: BorrowedFd<'a>,
    /// Path from the root before the change; `None` if it was outside the work tree.
    pub before: Option<&'a [u8]>,
    /// Path from the root after the change; `None` if it is outside the work tree.
    pub after: Option<&'a [u8]>,
}

/// One path that a change touched.
#[derive(Debug, Clone)]
pub struct FileChange<'a> {
    /// Path from the root, separated by `/`.
    pub path: &'a [u8],
    /// File before; `None` if it did not exist.
    pub before: Option<FileState<'a>>,
    /// File now; `None` if it does not exist.
    pub after: Option<FileState<'a>>,
}

/// A file as on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState<'a> {
    /// A regular file.
    Regular {
        /// True if its owner may execute it.
        executable: bool,
        /// All its bytes, as on disk.
        bytes: &'a [u8],
    },
    /// A symbolic link.
    Symlink {
        /// Target, as written.
        target: &'a [u8],
    },
    /// A regular file that is too large for a snapshot, and was not read.
    TooLarge {
        /// Its size.
        size_bytes: u64,
    },
}

impl FileState<'_> {
    /// Returns the size of its content.
    pub(in crate::engine::snapshot) const fn size_bytes(&self) -> u64 {
        match self {
            Self::Regular { bytes, .. } => bytes.len() as u64,
            Self::Symlink { target } => target.len() as u64,
            Self::TooLarge { size_bytes } => *size_bytes,
        }
    }

    /// Returns true if it is a symbolic link.
    pub(in crate::engine::snapshot) const fn is_link(&self) -> bool {
        matches!(self, Self::Symlink { .. })
    }
}

/// Result of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordResult {
    /// Commit of the change; `None` if nothing of it entered.
    pub id: Option<String>,
    /// Newest of the commits before it with changes by others, if there are any.
    pub external: Option<String>,
    /// Paths that could not enter, with the reasons.
    pub left_out: Vec<SkippedPath>,
    /// Untracked, ignored files and folders that a scan found; a folder ends in a slash.
    pub ignored: Vec<Vec<u8>>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Digests of bytes that stayed out, for the session state.
    pub withheld: BTreeSet<Sha256>,
    /// True if lbx's own repository has it, though the workspace has one.
    pub is_apart: bool,
}

/// A path that did not enter a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedPath {
    /// Path from the root, lossy if it is not UTF-8.
    pub path: String,
    /// Reason.
    pub reason: SkipReason,
}

impl SkippedPath {
    /// Returns `path` with the reason why it did not enter.
    pub(in crate::engine::snapshot) fn new(path: &[u8], reason: SkipReason) -> Self {
        let path = if path.is_empty() { b"." } else { path };
        Self { path: String::from_utf8_lossy(path).trim_end_matches('/').to_owned(), reason }
    }
}

/// Reason why a path did not enter a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    /// Git ignores it, and it was never committed.
    Ignored,
    /// It was never committed, and its name looks like a secret.
    Secret,
    /// It was never committed, and the policy keeps it out.
    Excluded,
    /// It holds the bytes of a file that stays out.
    Copy,
    /// It is too large for a snapshot.
    TooLarge {
        /// Its size.
        size_bytes: u64,
        /// Size limit.
        bytes_max: u64,
    },
    /// The scan reached its size limit.
    NoRoom,
    /// A program of this name is configured to convert it; lbx runs none.
    Filter(String),
    /// It is in this encoding, which lbx does not convert just as git does.
    Encoding(String),
    /// Git rejects the name, or it lies in lbx's own folder.
    Name,
    /// It lies in a repository within the workspace, at this path.
    NestedRepository(String),
    /// Its rules are unknown: this rule file is not a regular file, or has too many rules.
    Rules(String),
    /// The OS does not allow reading it.
    Unreadable,
    /// It is nested too deep for a snapshot.
    Depth,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ignored => f.write_str("git ignores it"),
            Self::Secret => f.write_str("its name looks like a secret"),
            Self::Excluded => f.write_str("the policy's snapshot.exclude names it"),
            Self::Copy => f.write_str("it has the bytes of a file that stays out"),
            Self::TooLarge { size_bytes, bytes_max } => {
                write!(f, "its {size_bytes} bytes are more than the {bytes_max} that a snapshot takes")
            }
            Self::NoRoom => f.write_str("the scan has reached its limit (snapshot.scan_bytes)"),
            Self::Filter(name) => write!(f, "the filter program `{name}` would have to convert it"),
            Self::Encoding(name) => {
                write!(f, "git would convert it from {name}, and lbx cannot do that just so")
            }
            Self::Name => f.write_str("git or lbx keeps such a name for itself"),
            Self::NestedRepository(path) => {
                write!(f, "it belongs to the repository in `{}`", short_path(path))
            }
            Self::Unreadable => f.write_str("it cannot be read: permission denied"),
            Self::Depth => {
                write!(f, "it is more than {TREE_DEPTH_MAX} folders deep, or its path is too long")
            }
            Self::Rules(path) => {
                write!(
                    f,
                    "`{}` is not a regular file, or has too many rules, or too many `**` in one",
                    short_path(path)
                )
            }
        }
    }
}
