//! Snapshots: every change as a commit on a branch of its own, and nothing else moves.
//!
//! The caller holds lbx's exclusive lock on the workspace whenever it records. A [`Store`] is
//! cheap to open and reads the repository's settings then, so open one for each call.

mod record;
mod scan;
pub mod squash;
mod store;
mod view;

pub use self::scan::{Bounds, Scan, Unrecorded};
pub use record::change::{CommitInfo, FileChange, FileState, FolderChange, LeftOut, Reason, Recorded};
pub use record::disk::AtHand;
pub use record::ignored::{IgnoreQuery, Ignored};
pub use record::names::RULE_FILES;
pub use record::ready::{Published, Ready};
pub use record::withheld::{Known, SeenFile};
pub use store::ahead::{Ahead, AllAhead, Before, Worker};
pub use store::branch::BRANCH_DEFAULT;
pub use store::chain::{BASELINE, EXTERNAL};
pub use store::error::SnapshotError;
pub use store::excluded::Excluded;
pub use store::gitdir::{RepositoryPaths, git_folders};
pub use store::large::LARGE_BYTES;
pub use store::{FILE_BYTES_MAX, Store};
pub use view::blame::{Blame, Origin};
pub use view::compare::{Changes, PathChange, Version, VersionKind};
pub use view::damage::Damage;
pub use view::delta::Delta;
pub use view::history::{FileStat, Log, Query, Snapshot};
pub use view::read::CommitFiles;
pub use view::repair::Repaired;
pub use view::session_at::SessionAt;
pub use view::since::{SessionChanges, SessionStep};
