//! Snapshots: every change as a commit on a branch of its own, and nothing else moves.
//!
//! The caller holds lbx's exclusive lock on the workspace whenever it records. A [`Store`] is
//! cheap to open and reads the repository's settings then, so open one for each call.

mod ready;
mod record;
mod scan;
pub mod squash;
mod store;
mod view;

use std::fmt;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use ready::{Made, Written};
use record::{message, prepare};
use store::branch::{Branch, LogLine, Moved};
use store::chain::{Chain, Stamp};
use store::error::Doing as _;
use store::repo::Repo;
use store::tree::TreeEdit;
use store::{objects, pack, refs, repository, tree};

pub use self::scan::{Bounds, Scan};
pub use ready::{Published, Ready};
pub use record::ahead::{Ahead, AllAhead, Before, LARGE_BYTES, Worker};
pub use record::change::{CommitInfo, FileChange, FileState, FolderChange, LeftOut, Reason, Recorded};
pub use record::rules::RULE_FILES;
pub use scan::disk::AtHand;
pub use store::chain::{BASELINE, EXTERNAL};
pub use store::error::SnapshotError;
pub use store::repository::RepositoryPaths;
pub use view::blame::{Blame, Origin};
pub use view::compare::{Changes, PathChange, Version, VersionKind};
pub use view::delta::Delta;
pub use view::history::{FileStat, Log, Query, Snapshot};
pub use view::session_at::SessionAt;
pub use view::since::{SessionChanges, SessionStep};

/// Largest file that enters a snapshot where nothing else is configured, in bytes.
pub const FILE_BYTES_MAX: u64 = 50 * 1024 * 1024;
/// Name of the snapshot branch where nothing else is configured.
pub const BRANCH_DEFAULT: &str = "lbx-snapshots";
/// Objects that are kept while snapshots are read, in bytes.
const READ_CACHE_BYTES: usize = 2 * 1024 * 1024;
/// How often a snapshot is made anew when someone else moved the branch meanwhile.
const ATTEMPTS_MAX: u32 = 20;
/// How long the next attempt waits, for each one before it.
const ATTEMPT_NAP: Duration = Duration::from_millis(2);

/// The snapshots of one workspace.
pub struct Store {
    /// The repository that holds them. New objects stay in its memory until they are stored whole.
    repo: Repo,
    /// The branch that names them.
    branch: Branch,
    /// Whether the repository is lbx's own.
    private: bool,
    /// Largest file that enters a snapshot, in bytes.
    file_bytes_max: u64,
    /// What opening found that a person should know; said with every snapshot.
    warnings: Vec<String>,
    /// What is known of large blobs already.
    ahead: AllAhead,
    /// The harness that the snapshots are made for, where it named itself.
    harness: Option<String>,
}

impl Store {
    /// Opens the snapshots of a workspace, whose state folder exists.
    ///
    /// Without a repository there that gix can use, a private one is made in the state folder, and a
    /// warning says why.
    ///
    /// # Errors
    /// Where neither can be opened, or `branch` cannot be a branch's name.
    pub fn open(place: &RepositoryPaths<'_>, branch: &str) -> Result<Self, SnapshotError> {
        let mut opened = repository::open(place)?;
        opened.repo.keep_read(READ_CACHE_BYTES);
        Self::of(opened, branch)
    }

    /// Opens the snapshots of a workspace for reading: nothing is made where there are none.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn find(place: &RepositoryPaths<'_>, branch: &str) -> Result<Option<Self>, SnapshotError> {
        let Some(mut opened) = repository::find(place)? else { return Ok(None) };
        // A snapshot is read again as the parent of the next one, and most of their trees are the same.
        opened.repo.keep_read(READ_CACHE_BYTES);
        Self::of(opened, branch).map(Some)
    }

    /// The snapshots in an opened repository.
    fn of(opened: repository::Opened, branch: &str) -> Result<Self, SnapshotError> {
        let branch = Branch::new(branch, opened.worktree.as_deref())?;
        let repo = opened.repo;
        let warnings = opened.warning.into_iter().collect();
        let (private, ahead) = (opened.private, AllAhead::default());
        let file_bytes_max = FILE_BYTES_MAX;
        Ok(Self { repo, branch, private, file_bytes_max, warnings, ahead, harness: None })
    }

    /// The same, taking in files of at most `file_bytes_max` bytes.
    #[must_use]
    pub fn taking_files_of(self, file_bytes_max: u64) -> Self {
        Self { file_bytes_max, ..self }
    }

    /// The same, for a harness that named itself.
    #[must_use]
    pub fn made_for(self, harness: Option<String>) -> Self {
        Self { harness, ..self }
    }

    /// The same, with what is known of large blobs already.
    #[must_use]
    pub fn knowing(self, ahead: AllAhead) -> Self {
        Self { ahead, ..self }
    }

    /// The name of the snapshot branch; a linked worktree has its own.
    #[must_use]
    pub fn branch(&self) -> String {
        self.branch.short_name()
    }

    /// Whether the snapshots lie in lbx's own repository and not in the developer's.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.private
    }

    /// Commits a change, and before it what others changed on the same paths or by moving HEAD.
    ///
    /// The objects are on disk before the branch names them. A change that leaves the tree as
    /// it was makes no commit.
    ///
    /// # Errors
    /// Where there can be no snapshot; nothing of the repository has moved then.
    pub fn record(&mut self, change: &CommitInfo<'_>) -> Result<Recorded, SnapshotError> {
        self.repeatedly(|store| store.attempt(change))
    }

    /// Makes attempts until one is not overtaken by someone else who moves the branch.
    fn repeatedly(
        &mut self,
        attempt: impl Fn(&Self) -> Result<Option<Recorded>, SnapshotError>,
    ) -> Result<Recorded, SnapshotError> {
        for number in 0..ATTEMPTS_MAX {
            thread::sleep(ATTEMPT_NAP * number);
            let result = attempt(self);
            self.repo.take_new();
            if let Some(recorded) = result? {
                return Ok(recorded);
            }
        }
        Err(SnapshotError::new("the branch was moved by someone else again and again"))
    }

    /// Tries once; `None` where the branch was moved by someone else meanwhile.
    fn attempt(&self, change: &CommitInfo<'_>) -> Result<Option<Recorded>, SnapshotError> {
        let made = self.make(change)?;
        let moved = self.publish(made.tip, made.newest, made.seconds, &made.packed)?;
        Ok((moved == Moved::Yes).then_some(made.recorded))
    }

    /// Commits a change that is about to be made, as [`Self::record`] does; its objects and the branch's
    /// new value are written aside, so that they can be synced together with the change itself.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn prepare(self, change: &CommitInfo<'_>) -> Result<Ready, SnapshotError> {
        let made = self.make(change)?;
        let written = made.newest.map(|newest| self.write(newest, &made)).transpose()?;
        Ok(Ready { store: self, tip: made.tip, written, recorded: made.recorded })
    }

    /// Writes the objects of commits aside, and `newest` as the branch's new value.
    fn write(&self, newest: ObjectId, made: &Made) -> Result<Written, SnapshotError> {
        if made.tip.is_none() {
            self.branch.check_room(&self.repo)?;
        }
        let log = self.log_line(newest, made.seconds)?;
        let objects = objects::write_aside(&self.repo, &made.packed)?;
        let value = self.branch.write_value(&self.repo, newest)?;
        Ok(Written { objects, value, log })
    }

    /// Makes the commits of a change, in memory.
    fn make(&self, change: &CommitInfo<'_>) -> Result<Made, SnapshotError> {
        let tip = self.branch.tip(&self.repo)?;
        let head = refs::head_target(&self.repo)?;
        self.branch.check_free(&self.repo, head.as_ref())?;
        self.branch.check_ours(&self.repo, tip)?;
        let stamp = Stamp {
            session: change.session,
            seq: change.seq,
            seconds: seconds(change.time),
            gate: change.gate,
            harness: self.harness.as_deref(),
        };
        let mut chain = Chain::begin(&self.repo, tip, head.as_ref(), stamp)?;
        let prepared = prepare::prepare(
            &self.repo,
            &chain,
            &change.files,
            &change.folders,
            self.file_bytes_max,
            &self.ahead,
        )?;
        self.commit_external(&mut chain, &prepared.external)?;
        let external = chain.newest();
        let tree = tree::apply(&self.repo, chain.tree(), &prepared.change)?;
        let id = chain.commit(tree, &change.subject, change.why, change.tool)?;
        let mut warnings = self.warnings.clone();
        warnings.extend(prepared.warnings);
        let recorded = Recorded {
            id: id.map(|id| id.to_string()),
            external: external.map(|id| id.to_string()),
            left_out: prepared.left_out,
            warnings,
        };
        let (newest, seconds) = (chain.newest(), stamp.seconds);
        Ok(Made { tip, newest, seconds, packed: prepared.packed, recorded })
    }

    /// What the branch's log says of the commit `newest`.
    fn log_line(&self, newest: ObjectId, seconds: i64) -> Result<LogLine, SnapshotError> {
        let commit = self.repo.find_commit(newest).doing(|| "the new commit cannot be read".into())?;
        let summary = commit.message_raw().map(message::subject);
        Ok(LogLine { subject: summary.unwrap_or_default(), seconds })
    }

    /// Commits what others changed on the paths of a change.
    fn commit_external(&self, chain: &mut Chain<'_>, edits: &[TreeEdit<'_>]) -> Result<(), SnapshotError> {
        let subject = match edits {
            [] => return Ok(()),
            [edit] => format!("external: {}", edit.path.to_str_lossy()),
            _ => format!("external: {}", crate::text::counted::counted(edits.len(), "file")),
        };
        let tree = tree::apply(&self.repo, chain.tree(), edits)?;
        chain.commit(tree, &subject, None, EXTERNAL)?;
        Ok(())
    }

    /// Stores the new objects, `packed` ones among them, then moves the branch to `newest`, where there is one.
    fn publish(
        &self,
        tip: Option<ObjectId>,
        newest: Option<ObjectId>,
        seconds: i64,
        packed: &[objects::Packed],
    ) -> Result<Moved, SnapshotError> {
        let Some(newest) = newest else {
            return Ok(Moved::Yes);
        };
        if tip.is_none() {
            self.branch.check_room(&self.repo)?;
        }
        let log = self.log_line(newest, seconds)?;
        objects::store_all(&self.repo, packed)?;
        let moved = self.branch.advance(&self.repo, tip, newest, &log)?;
        self.tidy();
        Ok(moved)
    }

    /// Packs some objects of the private repository, where they are many.
    fn tidy(&self) {
        if self.private {
            // The snapshot stands; what cannot be packed now is packed another time.
            let _ = pack::tidy(&self.repo, pack::Amount::Little);
        }
    }

    /// Packs all objects of the private repository; answers how many were loose. The developer's
    /// own repository is git's to pack.
    ///
    /// The caller holds lbx's lock.
    ///
    /// # Errors
    /// Where the disk fails; no object is lost then.
    pub fn pack(&self) -> Result<usize, SnapshotError> {
        if self.private { pack::tidy(&self.repo, pack::Amount::All) } else { Ok(0) }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("repo", &self.repo)
            .field("branch", &self.branch)
            .field("private", &self.private)
            .finish_non_exhaustive()
    }
}

/// Whole seconds since 1970, as commits count time.
fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(0, |seconds| -seconds),
    }
}
