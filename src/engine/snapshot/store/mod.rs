//! The repository that holds the snapshots: opened, read and written as hostile input.

pub mod blob_prefetch;
pub mod branch;
pub mod commit_builder;
pub mod deflate;
pub mod dir;
pub mod error;
pub mod objects;
pub mod open;
pub mod pack;
pub mod preflight;
pub mod refs;
pub mod repo;
pub mod settings;
pub mod tree;
mod versions;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gix::ObjectId;

use super::record::secrets;
use crate::engine::snapshot::record::secrets::Excluded;
use crate::limits::SNAPSHOT_FILE_BYTES_MAX;
use branch::{Branch, Moved};
use commit_builder::{CommitBuilder, CommitMeta};
use error::{Context as _, SnapshotError};
use open::StatePlace;
use refs::LogLine;
use repo::Repo;

/// Most attempts at a snapshot while someone else moves the branch.
const ATTEMPTS_MAX: u32 = 20;
/// Sleep before an attempt, for each attempt so far.
const ATTEMPT_NAP: Duration = Duration::from_millis(2);

/// Snapshots of one workspace.
pub struct Store {
    /// Repository that holds them. New objects stay in memory until they are stored together.
    pub(in crate::engine::snapshot) repo: Repo,
    /// Branch that points to them.
    pub(in crate::engine::snapshot) branch: Branch,
    /// True if the repository is lbx's own.
    private: bool,
    /// Workspace, and lbx's own folder in it.
    pub(in crate::engine::snapshot) place: StatePlace,
    /// Limits of a snapshot.
    pub(in crate::engine::snapshot) limits: Limits,
    /// Warnings from opening, repeated with every snapshot.
    pub(in crate::engine::snapshot) warnings: Vec<String>,
}

/// Limits of a snapshot, and the harness that asks for it.
pub struct Limits {
    /// Largest file that enters, in bytes.
    pub file_bytes_max: u64,
    /// Untracked files that stay out because of their names.
    pub excluded: Excluded,
    /// Source of what the session knows about bytes that stay out.
    pub withheld: secrets::Source,
    /// Harness that made the request, if it named itself.
    pub harness: Option<String>,
}

impl Default for Limits {
    fn default() -> Self {
        let withheld = Arc::new(secrets::Known::default);
        Self {
            file_bytes_max: SNAPSHOT_FILE_BYTES_MAX,
            excluded: Excluded::default(),
            withheld,
            harness: None,
        }
    }
}

impl Store {
    /// Sets the limits of the snapshots that it makes.
    #[must_use]
    pub fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the name of the snapshot branch; a linked worktree has its own.
    pub fn branch(&self) -> String {
        self.branch.short_name()
    }

    /// Returns the full name of the branch, for git commands.
    pub fn reference(&self) -> String {
        self.branch.full_name()
    }

    /// Returns true if the developer's commits have to be signed.
    pub fn wants_signatures(&self) -> bool {
        self.repo.settings().boolean("commit.gpgsign") == Some(true)
    }

    /// Returns true if the snapshots lie in lbx's own repository and not in the developer's.
    pub fn is_private(&self) -> bool {
        self.private
    }

    /// Returns the folder of the repository.
    pub fn folder(&self) -> PathBuf {
        self.repo.common().path().to_owned()
    }

    /// Returns the reason why the snapshots are not in the workspace's repository, if it has one.
    pub fn warning(&self) -> Option<&str> {
        self.warnings.first().map(String::as_str)
    }

    /// Starts commits on top of the branch; also returns the branch's commit.
    pub(in crate::engine::snapshot) fn start<'a>(
        &'a self,
        meta: CommitMeta<'a>,
    ) -> Result<(Option<ObjectId>, CommitBuilder<'a>), SnapshotError> {
        let tip = self.branch.tip(&self.repo)?;
        let head = refs::head_target(&self.repo)?;
        Ok((tip, CommitBuilder::begin(&self.repo, tip, head.as_ref(), meta)?))
    }

    /// Starts commits for the branch; fails if it is checked out or someone else's.
    pub(in crate::engine::snapshot) fn start_move<'a>(
        &'a self,
        meta: CommitMeta<'a>,
    ) -> Result<(Option<ObjectId>, CommitBuilder<'a>), SnapshotError> {
        let tip = self.branch.tip(&self.repo)?;
        let head = refs::head_target(&self.repo)?;
        self.branch.check_free(&self.repo, head.as_ref())?;
        self.branch.check_ours(&self.repo, tip)?;
        Ok((tip, CommitBuilder::begin(&self.repo, tip, head.as_ref(), meta)?))
    }

    /// Repeats an attempt until no one else moves the branch meanwhile.
    pub(in crate::engine::snapshot) fn repeatedly<T>(
        &mut self,
        attempt: impl Fn(&Self) -> Result<Option<T>, SnapshotError>,
    ) -> Result<T, SnapshotError> {
        for number in 0..ATTEMPTS_MAX {
            thread::sleep(ATTEMPT_NAP * number);
            let result = attempt(self);
            self.repo.take_new();
            if let Some(done) = result? {
                return Ok(done);
            }
        }
        Err(SnapshotError::new("another program kept moving the branch"))
    }

    /// Returns the line of the branch's log for the commit `newest`.
    pub(in crate::engine::snapshot) fn log_line(
        &self,
        newest: ObjectId,
        seconds: i64,
    ) -> Result<LogLine, SnapshotError> {
        let commit = self.repo.find_commit(newest).context(|| "the new commit cannot be read".into())?;
        let summary = commit.message_raw().map(commit_builder::subject_of);
        Ok(LogLine { subject: summary.unwrap_or_default(), seconds })
    }

    /// Stores the new objects, including `packed`, then moves the branch to `newest`, if there is one.
    pub(in crate::engine::snapshot) fn publish(
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

    /// Returns the locks in git's folder that a killed call of lbx left, as messages name them. With `settle`, removes
    /// them, or puts them in place if their commit was made.
    pub fn locks_left_behind(&self, settle: bool) -> Vec<String> {
        refs::stale_locks(&self.repo, settle)
    }

    /// Packs some objects of the private repository, if it has many.
    pub(in crate::engine::snapshot) fn tidy(&self) {
        if self.private && pack::has_many_loose(&self.repo) {
            // The snapshot is made; a later call can pack.
            let _ = self.pack_some(pack::Amount::Little);
        }
    }

    /// Packs all objects of the private repository, or those that snapshots added to the developer's, whose other
    /// objects are left to git; returns the number of loose ones.
    ///
    /// The caller holds lbx's lock.
    ///
    /// # Errors
    /// Fails if the disk fails; no object is lost then.
    pub fn pack(&self) -> Result<usize, SnapshotError> {
        self.pack_some(if self.private { pack::Amount::All } else { pack::Amount::Snapshots })
    }

    /// Packs that amount.
    fn pack_some(&self, amount: pack::Amount) -> Result<usize, SnapshotError> {
        pack::tidy(&self.repo, self.branch.tip(&self.repo)?, amount)
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
