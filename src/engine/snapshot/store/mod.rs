//! The repository that holds the snapshots: opened, read and written as hostile input; and its errors.

pub mod branch;
pub mod commit_builder;
pub mod deflate;
pub mod dir;
pub mod objects;
pub mod open;
pub mod pack;
pub mod preflight;
pub mod refs;
pub mod repo;
pub mod settings;
pub mod tree;
mod versions;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io, thread};

use branch::{Branch, BranchMove};
use commit_builder::{CommitBuilder, CommitMeta};
use gix::ObjectId;
use open::StatePlace;
use refs::LogLine;
use repo::Repo;
use rustix::io::Errno;

use super::record::secrets;
use crate::engine::snapshot::record::secrets::ExcludedFiles;
use crate::limits::SNAPSHOT_FILE_BYTES_MAX;

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
    /// True if the workspace has a repository, and that cannot be used now.
    apart: bool,
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
    pub excluded: ExcludedFiles,
    /// Source of what the session knows about bytes that stay out.
    pub withheld: secrets::LoadKnowledge,
    /// Harness that made the request, if it named itself.
    pub harness: Option<String>,
}

impl Default for Limits {
    fn default() -> Self {
        let withheld = Arc::new(secrets::SecretKnowledge::default);
        Self {
            file_bytes_max: SNAPSHOT_FILE_BYTES_MAX,
            excluded: ExcludedFiles::default(),
            withheld,
            harness: None,
        }
    }
}

impl Store {
    /// Sets the limits of the snapshots that it makes.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
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

    /// Returns true if they do so though the workspace has a repository, which lbx cannot use now.
    pub fn is_apart(&self) -> bool {
        self.apart
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
        packed: &[objects::PackedBlob],
    ) -> Result<BranchMove, SnapshotError> {
        let Some(newest) = newest else {
            return Ok(BranchMove::Yes);
        };
        if tip.is_none() {
            self.branch.check_room(&self.repo)?;
        }
        let log = self.log_line(newest, seconds)?;
        let stored = objects::store_all(&self.repo, packed)?;
        let moved = self.branch.advance(&self.repo, tip, newest, &log)?;
        if moved == BranchMove::Yes && self.takes_back(&stored, (tip, newest), &log)? {
            return Ok(BranchMove::Overtaken);
        }
        self.tidy();
        Ok(moved)
    }

    /// Moves the branch back if a `git prune` that began before it moved has removed new objects; returns true if so.
    pub(in crate::engine::snapshot) fn takes_back(
        &self,
        stored: &objects::LooseObjects,
        (tip, newest): (Option<ObjectId>, ObjectId),
        log: &LogLine,
    ) -> Result<bool, SnapshotError> {
        let Some(tip) = tip.filter(|_| stored.have_vanished()) else { return Ok(false) };
        self.branch.advance(&self.repo, Some(newest), tip, log)?;
        Ok(true)
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
            let _ = self.pack_some(pack::PackAmount::Little);
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
        self.pack_some(if self.private { pack::PackAmount::All } else { pack::PackAmount::Snapshots })
    }

    /// Packs that amount.
    fn pack_some(&self, amount: pack::PackAmount) -> Result<usize, SnapshotError> {
        pack::tidy(&self.repo, self.branch.tip(&self.repo)?, amount)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("branch", &self.branch)
            .field("private", &self.private)
            .finish_non_exhaustive()
    }
}

/// Reason why there is no snapshot, in words for a person.
///
/// The change itself was applied. Unless the caller required a snapshot, this becomes a warning.
///
/// The text is lbx's own, plus at most the OS error of the cause. All errors of gix pass through here, and their texts
/// are dropped: they may quote a file, and the file may be anyone's.
#[derive(Debug)]
pub struct SnapshotError {
    /// Failed operation or finding, with the reason.
    message: String,
    /// True if a signal interrupted the work.
    interrupted: bool,
    /// OS error if the system was short of a resource: that says nothing about the repository.
    short: Option<Errno>,
    /// True if the work was stopped.
    timeout: bool,
    /// Command that fetches what the repository lacks, as a shallow clone does.
    remedy: Option<String>,
}

impl SnapshotError {
    /// Returns true if the work was stopped, by its time limit or by a cancellation.
    pub fn is_timeout(&self) -> bool {
        self.timeout
    }

    /// Returns true if a signal interrupted a system call: a retry can work.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Returns true if the system was at fault and not the repository: a later try can work.
    pub fn is_passing(&self) -> bool {
        self.interrupted || self.short.is_some()
    }

    /// Returns true if the disk is full, or the account's part of it.
    pub fn is_full(&self) -> bool {
        self.short.is_some_and(|errno| DISK_IS_FULL.contains(&errno))
    }

    /// Runs `work` and turns a panic in it into an error. Anyone may have made the repository, and most of the code
    /// that reads it is not lbx's own.
    ///
    /// # Errors
    /// Returns the errors of `work`, and one for a panic.
    pub fn contain<T>(work: impl FnOnce() -> Result<T, Self>) -> Result<T, Self> {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        outcome.unwrap_or_else(|_| Err(Self::new("internal error while the repository was in use")))
    }

    /// Returns the value or the text of an error; if the system was at fault, only the error.
    ///
    /// # Errors
    /// Returns an error that says nothing about the repository.
    pub(in crate::engine::snapshot) fn found<T>(outcome: Result<T, Self>) -> Result<Result<T, String>, Self> {
        match outcome {
            Err(error) if error.is_passing() => Err(error),
            outcome => Ok(outcome.map_err(|error| error.message)),
        }
    }

    /// Returns an error without a cause.
    pub(in crate::engine::snapshot) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), interrupted: false, short: None, timeout: false, remedy: None }
    }

    /// Returns the error for an object that a clone was made without, with the command that fetches it.
    pub(in crate::engine::snapshot) fn not_fetched(message: String, remedy: String) -> Self {
        Self { remedy: Some(remedy), ..Self::new(message) }
    }

    /// Returns the command that fetches what the repository lacks, if that is the reason.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    /// Takes the message of lbx's general error type.
    pub fn of(error: &crate::error::Error) -> Self {
        Self { timeout: error.kind() == crate::error::ErrorKind::Timeout, ..Self::new(error.message()) }
    }

    /// Returns an error with `message` and the safe part of `cause`.
    #[expect(clippy::needless_pass_by_value, reason = "so that no caller has code of its own to drop it")]
    fn with_cause(message: String, cause: Box<dyn Error + Send + Sync>) -> Self {
        let cause: &(dyn Error + 'static) = cause.as_ref();
        let mut remedy = None;
        let (said, timeout) = if let Some(before) = cause.downcast_ref::<Self>() {
            remedy.clone_from(&before.remedy);
            (Some(before.message.clone()), before.timeout)
        } else if let Some(own) = cause.downcast_ref::<crate::error::Error>() {
            (Some(own.message().to_owned()), own.kind() == crate::error::ErrorKind::Timeout)
        } else {
            (os_error(cause), false)
        };
        let message = said.map_or(message.clone(), |said| format!("{message}: {said}"));
        Self { message, interrupted: was_interrupted(cause), short: shortage_error(cause), timeout, remedy }
    }

    /// Returns an error with `message` alone, or with the resource that the system was short of.
    #[expect(clippy::needless_pass_by_value, reason = "so that no caller has code of its own to drop it")]
    fn redacted(message: String, cause: Box<dyn Error + Send + Sync>) -> Self {
        let cause: &(dyn Error + 'static) = cause.as_ref();
        let short = shortage_error(cause);
        let message = match &short {
            Some(errno) => format!("the repository cannot be read: {}", io::Error::from(*errno)),
            None => message,
        };
        Self { interrupted: was_interrupted(cause), short, ..Self::new(message) }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for SnapshotError {}

/// Adds the failed operation to an error.
pub(in crate::engine::snapshot) trait ErrorContext<T> {
    /// Returns the value, or the error with `what` before it; keeps only texts of lbx and of the OS.
    fn context(self, what: impl FnOnce() -> String) -> Result<T, SnapshotError>;

    /// Returns the value, or `what` alone, which may describe the file that was read; if the system was short of a
    /// resource, only that.
    fn context_redacted(self, what: impl FnOnce() -> String) -> Result<T, SnapshotError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> ErrorContext<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, SnapshotError> {
        self.map_err(|error| SnapshotError::with_cause(what(), error.into()))
    }

    fn context_redacted(self, what: impl FnOnce() -> String) -> Result<T, SnapshotError> {
        self.map_err(|error| SnapshotError::redacted(what(), error.into()))
    }
}

/// Returns the OS error at the root of an error; never a text that someone else made.
fn os_error(error: &(dyn Error + 'static)) -> Option<String> {
    let of_io = |io: &io::Error| match io.raw_os_error() {
        Some(code) => Some(io::Error::from_raw_os_error(code).to_string()),
        None => match io.kind() {
            io::ErrorKind::Other | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => None,
            kind => Some(kind.to_string()),
        },
    };
    causes(error).find_map(|error| {
        let io = error.downcast_ref::<io::Error>().or_else(|| {
            error.downcast_ref::<gix::Error>().and_then(gix::Error::downcast_any_ref::<io::Error>)
        });
        let errno = || error.downcast_ref::<Errno>().map(|errno| io::Error::from(*errno).to_string());
        io.and_then(of_io).or_else(errno)
    })
}

/// Returns an error and its causes.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// Errors of a full disk.
const DISK_IS_FULL: [Errno; 2] = [Errno::NOSPC, Errno::DQUOT];

/// Returns the OS error if the system was short of open files, memory or disk.
fn shortage_error(error: &(dyn Error + 'static)) -> Option<Errno> {
    if let Some(before) = error.downcast_ref::<SnapshotError>() {
        return before.short;
    }
    let said = os_error(error)?;
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM].into_iter().chain(DISK_IS_FULL);
    short.into_iter().find(|errno| io::Error::from(*errno).to_string() == said)
}

/// Returns true if a signal is the root cause of an error. Some of gix's errors hold their causes only as text, so the
/// text of the OS error counts too.
fn was_interrupted(error: &(dyn Error + 'static)) -> bool {
    let signal = io::Error::from_raw_os_error(Errno::INTR.raw_os_error()).to_string();
    causes(error).any(|error| {
        error.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::Interrupted)
            || error.to_string().contains(&signal)
            || error.downcast_ref::<SnapshotError>().is_some_and(|before| before.interrupted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_context_omits_file_contents() {
        let text = || Err::<(), _>(io::Error::other("line 1: root:SECRET:0:0"));
        let said = text().context(|| "it cannot be read".into()).unwrap_err().to_string();
        assert_eq!(said, "it cannot be read");
        let nested = Err::<(), _>(io::Error::new(io::ErrorKind::InvalidData, "SECRET"));
        let outer = nested.context(|| "inner".into()).context(|| "outer".into()).unwrap_err();
        assert_eq!(outer.to_string(), "outer: inner");
        let system = Err::<(), _>(io::Error::from_raw_os_error(13)).context(|| "it".into()).unwrap_err();
        assert!(system.to_string().starts_with("it: ") && system.to_string().contains("ermission"));
        let config = gix::config::File::try_from("[SECRET\nbroken").map(|_| ());
        assert_eq!(config.context(|| "x".into()).unwrap_err().to_string(), "x");
    }
}
