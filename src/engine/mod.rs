//! The engine: everything that knows the workspace, and nothing of who calls it.
//!
//! Its layers, each using only those before it (a test checks that): [`workspace`] (paths inside the root, reached from
//! opened folders), [`store`] (lbx's own state), [`journal`] (the steps of a change, and old bytes), [`history`] (undo
//! and redo), [`snapshot`] (commits), [`sandbox`] (commands), [`policy`] (the owner's rules), [`change`] (a change,
//! whole or not at all, and recovery).

pub mod change;
pub mod history;
pub mod journal;
pub mod policy;
pub(crate) mod sandbox;
pub mod snapshot;
pub mod store;
pub mod workspace;

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use change::LockedState;
use policy::Policy;
use rustix::fs::Stat;
use snapshot::Store;
use store::audit::{self, AuditFile, Durability};
use store::calls::{CallSum, Delivery};
use store::session::{LineSet, ReadRecord, SessionId, SessionState};
use store::state::State;
use workspace::path::WorkspacePath;
use workspace::{Workspace, fs};

use crate::control::Control;
use crate::error::{Error, ErrorKind, Message, Vocabulary};
use crate::limits::AUDIT_PATHS_MAX;
use crate::sha256::Sha256;

/// One call's view of a workspace: synchronous, cancellable, silent.
#[derive(Debug)]
pub struct Engine {
    /// The workspace.
    pub workspace: Workspace,
    /// Cancellation, deadline and progress.
    pub control: Control,
    /// True if a change without a snapshot counts as failed.
    pub require_snapshot: bool,
    /// The policy.
    policy: Policy,
    /// Reason why the default policy is in force, if the owner's cannot be used.
    policy_fault: Option<Error>,
    /// State folder with its path from the workspace root, once the call has opened it.
    state_folder: Option<(WorkspacePath, Arc<OwnedFd>)>,
    /// Calling session.
    session: SessionId,
    /// State of the session, once the call has read it.
    pub session_state: Arc<SessionState>,
    /// True if the call itself names the session, rather than the environment.
    is_session_named: bool,
    /// True for a dry run.
    dry_run: bool,
    /// Diff of a dry run, if the caller wants one.
    preview: Option<String>,
    /// True if a person reads the answer.
    is_for_a_person: bool,
    /// Changed files, for the audit log.
    changed: Vec<AuditFile>,
    /// Id of the change, if the call made one.
    change: Option<String>,
    /// Gate in force, if the caller had not seen the bytes.
    gate: Option<String>,
    /// Caller's reason for the change.
    why: Option<String>,
    /// Harness that calls, if it named itself.
    pub harness: Option<String>,
    /// Names of the caller's model family, if it uses its tools: line numbers then refer to the present files, not to
    /// what was shown.
    pub words: Option<Arc<Vocabulary>>,
    /// True if the audit log has the call already.
    is_audited: bool,
    /// True if it has changed anything, in the audit log or not.
    has_made_changes: bool,
    /// Start of the call.
    begun: Instant,
    /// Path of the state in which the call is counted, once it has opened one.
    counted_in: Option<WorkspacePath>,
    /// State as the call found it when it began to read; read marks go into it.
    found: Option<State>,
    /// Repository that the call has opened while it waited for the lock.
    early_store: RefCell<Option<Box<Store>>>,
    /// Locks that the call has taken for its change before it begins.
    early_locks: Option<LockedState>,
    /// Direct commands that ran when the call took the lock, by the names of their marks.
    direct: Vec<String>,
    /// Read marks for what the response shows.
    seen: Vec<ReadRecord>,
    /// Warnings for the response.
    warnings: Vec<String>,
    /// Commit that holds this call's changes.
    snapshot: Option<String>,
}

/// Notes next to the response of a call.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CallNotes {
    /// Warnings of a call that succeeded.
    pub warnings: Vec<String>,
    /// Commit that holds the call's changes.
    pub snapshot: Option<String>,
    /// True for a dry run: nothing in the response happened.
    pub dry_run: bool,
    /// Diff of a dry run, if it was to be [kept](Engine::keep_preview).
    pub preview: String,
    /// True if the call has changed anything.
    pub changed: bool,
}

impl Engine {
    /// Creates an engine for one call of `session` in `workspace`, with default settings.
    pub fn new(workspace: Workspace, session: SessionId, control: Control) -> Self {
        Self::with_policy(Policy::default(), workspace, session, control)
    }

    /// Creates an engine under a policy.
    pub fn with_policy(
        policy: Policy,
        mut workspace: Workspace,
        session: SessionId,
        control: Control,
    ) -> Self {
        workspace.set_lock_wait(policy.lock_wait());
        Self {
            workspace,
            control,
            require_snapshot: policy.requires_snapshot(),
            policy,
            policy_fault: None,
            state_folder: None,
            session,
            session_state: Arc::default(),
            is_session_named: false,
            dry_run: false,
            preview: None,
            is_for_a_person: false,
            changed: Vec::new(),
            change: None,
            gate: None,
            why: None,
            harness: None,
            words: None,
            is_audited: false,
            has_made_changes: false,
            begun: Instant::now(),
            counted_in: None,
            found: None,
            early_store: RefCell::default(),
            early_locks: None,
            direct: Vec::new(),
            seen: Vec::new(),
            warnings: Vec::new(),
            snapshot: None,
        }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Uses the default policy, since the owner's cannot be used.
    pub fn set_policy_fault(&mut self, fault: Error) {
        self.policy_fault = Some(fault);
    }

    /// Returns the reason why the default policy is in force, if the owner's cannot be used.
    pub fn policy_fault(&self) -> Option<&Error> {
        self.policy_fault.as_ref()
    }

    /// Takes that reason.
    pub const fn take_policy_fault(&mut self) -> Option<Error> {
        self.policy_fault.take()
    }

    /// Returns the state folder with its path from the workspace root, once the call has opened it to change something.
    pub const fn state_folder(&self) -> Option<&(WorkspacePath, Arc<OwnedFd>)> {
        self.state_folder.as_ref()
    }

    /// Returns the calling session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Makes the call count as another session's, whose changes it acts on.
    pub fn count_for_session(&mut self, session: SessionId) {
        self.session = session;
    }

    /// Sets whether a person reads the response, who pays for no byte of it.
    pub fn set_reader_is_person(&mut self, is_for_a_person: bool) {
        self.is_for_a_person = is_for_a_person;
    }

    /// Returns true if a person reads the response.
    pub const fn is_for_a_person(&self) -> bool {
        self.is_for_a_person
    }

    /// Returns the size limit of the response in bytes, which the request may set; 0 for none.
    pub fn bytes_max(&self, requested: Option<usize>) -> usize {
        let default = if self.is_for_a_person { 0 } else { self.policy.max_bytes() };
        requested.unwrap_or(default)
    }

    /// Notes that the call itself names the session.
    pub fn set_session_named(&mut self) {
        self.is_session_named = true;
    }

    /// Returns the session, if the call itself names it: a listing of all sessions then shows it.
    pub fn named_session(&self) -> Option<&SessionId> {
        self.is_session_named.then_some(&self.session)
    }

    /// Sets whether the call is a dry run.
    pub fn set_dry_run(&mut self, dry_run: bool) {
        self.dry_run = dry_run;
    }

    /// Returns true for a dry run.
    pub const fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Notes the files that the call has changed, and the id of the change if it has one.
    pub fn note_changed(&mut self, files: impl IntoIterator<Item = AuditFile>, change: Option<&str>) {
        self.changed.extend(files);
        self.has_made_changes |= !self.changed.is_empty() || change.is_some();
        self.change = change.map(str::to_owned);
    }

    /// Notes the policy's verdict on a change whose caller had not seen the bytes.
    pub fn note_gate(&mut self, gate: Option<&str>) {
        self.gate = gate.map(str::to_owned);
    }

    /// Notes the caller's reason for the change.
    pub fn note_why(&mut self, why: Option<&str>) {
        self.why = why.map(audit::cut_reason);
    }

    /// Returns true if the call has changed anything.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty() || self.change.is_some()
    }

    /// Writes the call to the audit log: its changes, or its error.
    ///
    /// A call that changed nothing leaves no record. If the log cannot be written, that is a warning.
    pub fn audit(&mut self, tool: &str, refusal: Option<&Error>) {
        let durable = self.durable(self.has_changed());
        let Some(record) = self.record_of(tool, refusal) else {
            return;
        };
        let written = match State::find(&self.workspace) {
            Ok(Some(state)) => {
                self.count_in(&state);
                audit::append(&state, &record, durable)
            }
            // An error alone is no reason to create a state folder.
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        self.warn_of_audit(written);
    }

    /// Writes the record of the call at the end of the audit log; [`Self::end_audit`] makes it count.
    pub fn begin_audit(
        &mut self,
        state: &State,
        tool: &str,
        refusal: Option<&Error>,
    ) -> Option<audit::PendingRecord> {
        let record = self.record_of(tool, refusal)?;
        match audit::begin(state, &record) {
            Ok(pending) => Some(pending),
            Err(error) => {
                self.warn_of_audit(Err(error));
                None
            }
        }
    }

    /// Returns how durable an audit record must be: that of a change is synced before the response, unless the policy
    /// says otherwise.
    fn durable(&self, is_of_change: bool) -> Durability {
        if is_of_change && self.policy().is_durable() { Durability::Yes } else { Durability::No }
    }

    /// Adds a written record to the audit log once it is on disk; returns true if it is.
    pub fn end_audit(&mut self, state: &State, pending: Option<audit::PendingRecord>) -> bool {
        let Some(pending) = pending else { return false };
        let ended = pending.end(state, self.durable(true));
        let is_ended = ended.is_ok();
        self.warn_of_audit(ended);
        is_ended
    }

    /// Warns if the audit log could not be written.
    fn warn_of_audit(&mut self, written: Result<(), Error>) {
        if let Err(error) = written {
            self.warn(format!("the audit log could not be written: {}", error.message()));
        }
    }

    /// Returns the audit record of the call; `None` if there is nothing to record, or it was recorded before.
    fn record_of(&mut self, tool: &str, refusal: Option<&Error>) -> Option<audit::AuditRecord> {
        let is_silent = refusal.is_none() && !self.has_changed();
        if self.dry_run || is_silent || std::mem::replace(&mut self.is_audited, true) {
            return None;
        }
        let mut files = std::mem::take(&mut self.changed);
        if files.is_empty()
            && let Some(path) = refusal.and_then(Error::path)
        {
            files.push(AuditFile { path: path.to_owned(), old_sha256: None, new_sha256: None });
        }
        files.truncate(AUDIT_PATHS_MAX);
        let now = jiff::Timestamp::now();
        Some(audit::AuditRecord {
            time: audit::time_text(now),
            session: self.session.to_string(),
            tool: tool.to_owned(),
            outcome: refusal.map_or("ok", |error| error.kind().name()).to_owned(),
            files,
            snapshot: self.snapshot.clone(),
            change: self.change.clone(),
            gate: self.gate.clone(),
            why: self.why.clone(),
            message: refusal.map(|error| error.message().to_owned()),
            duration_ms: self.milliseconds(),
        })
    }

    /// Counts the call in that state.
    pub fn count_in(&mut self, state: &State) {
        self.counted_in = Some(state.path().clone());
    }

    /// Leaves the call out of the counts.
    pub fn exclude_from_counts(&mut self) {
        self.counted_in = None;
    }

    /// Returns the duration of the call so far.
    fn milliseconds(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds a warning to a call that succeeds.
    pub fn warn(&mut self, warning: impl Into<Message>) {
        let warning = warning.into();
        let known = self.words.as_ref().and_then(|words| warning.sentences_for(words));
        let warning = known.unwrap_or_else(|| warning.into_plain());
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Adds a warning, if there is one.
    pub fn warn_if(&mut self, warning: Option<String>) {
        if let Some(warning) = warning {
            self.warn(warning);
        }
    }

    /// Notes the commit that holds this call's changes.
    pub fn set_snapshot(&mut self, id: String) {
        self.snapshot = Some(id);
    }

    /// Notes that lines of a file were shown, so that the caller may change it.
    pub fn mark_shown(&mut self, path: &WorkspacePath, sha256: Sha256, stat: &Stat, lines: &[(u64, u64)]) {
        let mut shown = LineSet::default();
        lines.iter().for_each(|&(first, last)| shown.add(first, last));
        let mark = ReadRecord::of_everything(path.clone(), sha256, fs::size_of(stat), 0);
        self.seen.push(ReadRecord { lines: shown, ..mark });
    }

    /// Keeps the diff of a dry run for the notes of the call.
    pub fn keep_preview(&mut self) {
        self.preview = Some(String::new());
    }

    /// Ends the call of `tool`; returns its warnings and snapshot, and the work that ends with the response.
    pub fn finish(self, tool: &str) -> (CallNotes, Delivery) {
        // The audit log has all other calls, and their times.
        let sum = if self.is_audited {
            CallSum::default()
        } else {
            CallSum { calls: 1, bytes: 0, duration_ms: self.milliseconds() }
        };
        let Self { workspace, session, found, counted_in, seen, warnings, snapshot, dry_run, .. } = self;
        let (preview, changed) = (self.preview.unwrap_or_default(), self.has_made_changes);
        // A dry run changes nothing at all.
        let sum = (!dry_run).then_some(sum);
        let (tool, saved) = (tool.to_owned(), Vec::new());
        let left = Delivery { workspace, session, tool, found, counted_in, sum, seen, saved };
        (CallNotes { warnings, snapshot, dry_run, preview, changed }, left)
    }

    /// Handles a failed snapshot: an error if the caller required one, else a warning.
    ///
    /// # Errors
    /// Returns `snapshot_failed`, with the change applied, if a snapshot is required.
    pub fn snapshot_failed(&mut self, reason: &str) -> Result<(), Error> {
        if self.require_snapshot {
            return Err(Error::new(
                ErrorKind::SnapshotFailed,
                format!("the change was applied, but no snapshot was made: {reason}"),
            )
            .applied());
        }
        self.warn(format!("no snapshot: {reason}"));
        Ok(())
    }
}
