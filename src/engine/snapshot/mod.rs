//! Snapshots: every change becomes a commit on a branch of its own; nothing else moves.
//!
//! The caller holds lbx's exclusive lock on the workspace while recording. A [`Store`] is cheap to open and reads the
//! repository's settings then, so open one per call.

mod record;
mod scan;
pub mod squash;
mod store;
mod view;

pub use self::scan::{Scan, ScanBounds, UnrecordedChanges};
pub use record::commit::{IgnoreQuery, IgnoreResult, PreparedSnapshot, PublishedSnapshot};
pub use record::disk::DiskFile;
pub use record::secrets::{ExcludedFiles, KnownFile, SecretKnowledge, may_be_secret};
pub use record::{CommitInfo, FileChange, FileState, FolderChange, RecordResult, SkipReason, SkippedPath};
pub use store::SnapshotError;
pub use store::branch::BRANCH_DEFAULT;
pub use store::commit_builder::{BASELINE, EXTERNAL};
pub use store::objects::LARGE_BYTES;
pub use store::objects::{BlobPrefetch, PrecomputedBlob};
pub use store::open::{RepositoryPaths, git_folders};
pub use store::tree::{EarlierFile, RULE_FILES, TreeItem, Trees};
pub use store::{Limits, Store};
pub use view::account::{SessionAccount, StoryLine, StoryOrigin};
pub use view::compare::{Changes, Delta, PathChange};
pub use view::history::{Blame, FileStat, LineOrigin, Log, Query, Snapshot};
pub use view::repair::{Damage, RepairResult};
pub use view::session::{SessionChanges, SessionPart, SessionProgress, SessionStep, UnchangedUndo};
