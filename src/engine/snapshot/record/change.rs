//! What a snapshot is asked to record, and what it answers.

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::SystemTime;

use crate::engine::snapshot::store::tree::DEPTH_MAX;
use crate::sha256::Sha256;
use crate::text::escaped::short_path;

/// One change that a tool made, to become one commit.
#[derive(Debug, Clone)]
pub struct CommitInfo<'a> {
    /// First line of the message, such as `write: src/main.rs`.
    pub subject: String,
    /// Why the caller made the change; the body of the message.
    pub why: Option<&'a str>,
    /// Session that made it.
    pub session: &'a str,
    /// Tool that made it.
    pub tool: &'a str,
    /// Its number in the journal.
    pub seq: u64,
    /// Verdict of the policy, `warn` or `off`, if its caller had not seen the bytes.
    pub gate: Option<&'a str>,
    /// When it was made.
    pub time: SystemTime,
    /// Every path that it touched, each once, but for those in `folders`.
    pub files: Vec<FileChange<'a>>,
    /// Every folder that it moved as a whole.
    pub folders: Vec<FolderChange<'a>>,
}

/// A folder that a change gave another name, took away or brought back, with all that is in it.
///
/// Nothing of it is in memory: its files are read one at a time while the change is recorded.
#[derive(Debug, Clone, Copy)]
pub struct FolderChange<'a> {
    /// The folder itself, opened where it stands now: in the work tree, in the trash or elsewhere.
    pub folder: BorrowedFd<'a>,
    /// Its path from the root before the change; `None` where it was not in the work tree.
    pub before: Option<&'a [u8]>,
    /// Its path from the root after the change; `None` where it is not in the work tree any more.
    pub after: Option<&'a [u8]>,
}

/// One path that a change touched.
#[derive(Debug, Clone)]
pub struct FileChange<'a> {
    /// Path from the root, its components separated by `/`.
    pub path: &'a [u8],
    /// File before; `None` if there was none.
    pub before: Option<FileState<'a>>,
    /// File now; `None` if there is none.
    pub after: Option<FileState<'a>>,
}

/// A file as it is on disk.
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
}

/// Result of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The change's commit; `None` where nothing of it entered.
    pub id: Option<String>,
    /// The newest of the commits before it that hold what others changed, where there are any.
    pub external: Option<String>,
    /// Paths that could not enter, with the reasons.
    pub left_out: Vec<LeftOut>,
    /// Untracked files and folders that git ignores and a scan met; a folder ends in a slash.
    pub ignored: Vec<Vec<u8>>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Digests of what stayed out, for the session to keep.
    pub withheld: BTreeSet<Sha256>,
}

/// A path that did not enter a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The path from the root, lossily where it is no UTF-8.
    pub path: String,
    /// Why it did not enter.
    pub reason: Reason,
}

impl LeftOut {
    /// `path`, and why it did not enter.
    pub(in crate::engine::snapshot) fn new(path: &[u8], reason: Reason) -> Self {
        let path = if path.is_empty() { b"." } else { path };
        Self { path: String::from_utf8_lossy(path).trim_end_matches('/').to_owned(), reason }
    }
}

/// Why a path did not enter a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Git ignores it, and it was never committed.
    Ignored,
    /// It was never committed, and has a name that secrets have.
    Secret,
    /// It was never committed, and the policy keeps it out.
    Excluded,
    /// It holds the bytes of a file that stays out.
    Copy,
    /// It has more bytes than a snapshot takes.
    TooLarge {
        /// How many it has.
        size_bytes: u64,
        /// How many it may have.
        bytes_max: u64,
    },
    /// The scan had taken in as many bytes as it may.
    NoRoom,
    /// A program is configured to convert it, under this name; lbx runs none.
    Filter(String),
    /// Git refuses the name, or it lies in lbx's own folder.
    Name,
    /// It lies in a repository within the workspace, at this path.
    NestedRepository(String),
    /// Its ignore rules or attributes are not known: this is not a regular file, or holds too many.
    Rules(String),
    /// The system does not let it be read.
    Unreadable,
    /// It lies in more folders than a snapshot goes down.
    Depth,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ignored => f.write_str("git ignores it"),
            Self::Secret => f.write_str("its name is that of a secret"),
            Self::Excluded => f.write_str("the policy's snapshot.exclude names it"),
            Self::Copy => f.write_str("it has the bytes of a file that stays out"),
            Self::TooLarge { size_bytes, bytes_max } => {
                write!(f, "its {size_bytes} bytes are more than the {bytes_max} that a snapshot takes")
            }
            Self::NoRoom => f.write_str("the scan has reached its limit (snapshot.scan_bytes)"),
            Self::Filter(name) => write!(f, "the filter program `{name}` would have to convert it"),
            Self::Name => f.write_str("git or lbx keeps such a name for itself"),
            Self::NestedRepository(path) => {
                write!(f, "it belongs to the repository in `{}`", short_path(path))
            }
            Self::Unreadable => f.write_str("it cannot be read: permission denied"),
            Self::Depth => write!(f, "it is more than {DEPTH_MAX} folders deep"),
            Self::Rules(path) => {
                write!(f, "`{}` is not a regular file, or has too many rules", short_path(path))
            }
        }
    }
}
