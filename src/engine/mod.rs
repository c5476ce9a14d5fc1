//! The engine: everything that knows the workspace, and nothing of who calls it.
//!
//! Its layers, each using only those before it (a test checks that): [`workspace`] (what lies inside,
//! reached from opened folders), [`store`] (what lbx remembers), [`journal`] (the steps of a change, and the
//! old bytes), [`history`] (what changes come to), [`snapshot`] (commits), [`sandbox`] (commands),
//! [`policy`] (what its owner has settled), [`change`] (a change, whole or not at all, and recovery).

pub mod change;
pub mod history;
pub mod journal;
pub mod policy;
pub mod sandbox;
pub mod snapshot;
pub mod store;
pub mod workspace;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use journal::bundle::Bundles;
use policy::Policy;
use rustix::fs::Stat;
use store::audit::{self, AuditFile, Durable};
use store::calls::{CallKey, CallSum, CallTally};
use store::session::{self, Lines, Mark, SessionId, SessionState};
use store::state::State;
use workspace::path::WorkspacePath;
use workspace::{Workspace, fs};

use crate::control::Control;
use crate::error::{Error, ErrorKind};
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
    /// Why the policy in force is the default one, where what its owner wrote cannot be used.
    policy_fault: Option<Error>,
    /// Path of the state folder from the workspace root, once the call has opened it.
    state_path: Option<WorkspacePath>,
    /// Who calls.
    session: SessionId,
    /// State of the session, once the call has read it.
    pub session_state: Arc<SessionState>,
    /// True if the call itself says who, rather than the environment.
    is_session_named: bool,
    /// True if the call only tries.
    dry_run: bool,
    /// True if a person reads the answer.
    is_for_a_person: bool,
    /// Changed files, for the audit log.
    changed: Vec<AuditFile>,
    /// The change's own name, of a call that made one.
    change: Option<String>,
    /// Gate in force, if the caller had not seen the bytes.
    gate: Option<String>,
    /// Why the caller made it.
    why: Option<String>,
    /// The harness that calls, where it named itself.
    pub harness: Option<String>,
    /// True if line numbers count in the present files, not as they were shown.
    pub counts_lines_now: bool,
    /// True if the audit log has the call already.
    is_audited: bool,
    /// True if it has changed anything, in the audit log or not.
    has_made_changes: bool,
    /// When the call began.
    begun: Instant,
    /// Path of the state in which the call is counted, once it has looked at one.
    counted_in: Option<WorkspacePath>,
    /// The state as the call found it when it began to read; what was seen goes into it.
    found: Option<State>,
    /// The old bytes of many files that the call has looked into.
    bundles: Mutex<Bundles>,
    /// Read marks of this call that are not in the state file yet.
    seen: Vec<Mark>,
    /// Warnings for the response.
    warnings: Vec<String>,
    /// The commit that holds what this call changed.
    snapshot: Option<String>,
}

/// Notes of a call next to its response.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CallNotes {
    /// Warnings although the call succeeded.
    pub warnings: Vec<String>,
    /// The commit that holds what the call changed.
    pub snapshot: Option<String>,
    /// True if the call only tried, so that what it answers did not happen.
    pub dry_run: bool,
    /// True if the call has changed anything.
    pub changed: bool,
}

impl Engine {
    /// An engine for one call of `session` in `workspace`, where nothing is settled beforehand.
    #[must_use]
    pub fn new(workspace: Workspace, session: SessionId, control: Control) -> Self {
        Self::under(Policy::default(), workspace, session, control)
    }

    /// Creates an engine under a policy.
    #[must_use]
    pub fn under(policy: Policy, mut workspace: Workspace, session: SessionId, control: Control) -> Self {
        workspace.set_lock_wait(policy.lock_wait());
        Self {
            workspace,
            control,
            require_snapshot: policy.requires_snapshot(),
            policy,
            policy_fault: None,
            state_path: None,
            session,
            session_state: Arc::default(),
            is_session_named: false,
            dry_run: false,
            is_for_a_person: false,
            changed: Vec::new(),
            change: None,
            gate: None,
            why: None,
            harness: None,
            counts_lines_now: false,
            is_audited: false,
            has_made_changes: false,
            begun: Instant::now(),
            counted_in: None,
            found: None,
            bundles: Mutex::default(),
            seen: Vec::new(),
            warnings: Vec::new(),
            snapshot: None,
        }
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Goes on under the default policy, since the one that its owner wrote cannot be used.
    pub fn set_policy_fault(&mut self, fault: Error) {
        self.policy_fault = Some(fault);
    }

    /// Why the policy in force is the default one, where what its owner wrote cannot be used.
    #[must_use]
    pub fn policy_fault(&self) -> Option<&Error> {
        self.policy_fault.as_ref()
    }

    /// Returns the path of the state folder from the workspace root, once the call has opened it to change something.
    #[must_use]
    pub const fn state_path(&self) -> Option<&WorkspacePath> {
        self.state_path.as_ref()
    }

    /// Who calls.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Lets the call be that of another session, where it acts on what that session did.
    pub fn act_for(&mut self, session: SessionId) {
        self.session = session;
    }

    /// Notes whether a person reads the answer, who pays for no byte of it.
    pub fn set_for_a_person(&mut self, is_for_a_person: bool) {
        self.is_for_a_person = is_for_a_person;
    }

    /// Returns true if a person reads the answer.
    #[must_use]
    pub const fn is_for_a_person(&self) -> bool {
        self.is_for_a_person
    }

    /// Bytes of the answer, where the request may bound it; 0 for no bound.
    #[must_use]
    pub fn bytes_max(&self, requested: Option<usize>) -> usize {
        let default = if self.is_for_a_person { 0 } else { self.policy.max_bytes() };
        requested.unwrap_or(default)
    }

    /// Notes that the call itself says who calls.
    pub fn set_session_named(&mut self) {
        self.is_session_named = true;
    }

    /// Who calls, where the call itself says so: a listing of all sessions then shows this one.
    #[must_use]
    pub fn named_session(&self) -> Option<&SessionId> {
        self.is_session_named.then_some(&self.session)
    }

    /// Notes that the call only tries.
    pub fn set_dry_run(&mut self, dry_run: bool) {
        self.dry_run = dry_run;
    }

    /// Returns true if the call only tries.
    #[must_use]
    pub const fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Notes what the call has changed, and the change's own name where it has one.
    pub fn note_changed(&mut self, files: impl IntoIterator<Item = AuditFile>, change: Option<&str>) {
        self.changed.extend(files);
        self.has_made_changes |= !self.changed.is_empty() || change.is_some();
        self.change = change.map(str::to_owned);
    }

    /// Notes what the policy made of a change whose caller had not seen the bytes.
    pub fn note_gate(&mut self, gate: Option<&str>) {
        self.gate = gate.map(str::to_owned);
    }

    /// Notes why the caller made the change.
    pub fn note_why(&mut self, why: Option<&str>) {
        self.why = why.map(audit::short_why);
    }

    /// Returns true if the call has changed anything.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty() || self.change.is_some()
    }

    /// Puts the call into the audit log: what it changed, or why it was refused.
    ///
    /// A call that changed nothing leaves no record; that the log cannot be written is a warning.
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
            // A refusal alone is no reason to begin keeping a state.
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        self.warn_of_audit(written);
    }

    /// Writes the record of the call at the end of the audit log; it is in force once it is ended with
    /// [`Self::end_audit`].
    pub fn begin_audit(
        &mut self,
        state: &State,
        tool: &str,
        refusal: Option<&Error>,
    ) -> Option<audit::Pending> {
        let record = self.record_of(tool, refusal)?;
        match audit::begin(state, &record) {
            Ok(pending) => Some(pending),
            Err(error) => {
                self.warn_of_audit(Err(error));
                None
            }
        }
    }

    /// Returns true if a record for the audit log is on the disk before the answer: that of a change is, unless the
    /// policy says otherwise.
    fn durable(&self, is_of_change: bool) -> Durable {
        if is_of_change && self.policy().is_durable() { Durable::Yes } else { Durable::No }
    }

    /// Puts a record into the audit log that was written there, once it is on disk; answers whether it is.
    pub fn end_audit(&mut self, state: &State, pending: Option<audit::Pending>) -> bool {
        let Some(pending) = pending else { return false };
        let ended = pending.end(state, self.durable(true));
        let is_ended = ended.is_ok();
        self.warn_of_audit(ended);
        is_ended
    }

    /// Warns where the audit log could not be written.
    fn warn_of_audit(&mut self, written: Result<(), Error>) {
        if let Err(error) = written {
            self.warn(format!("the audit log could not be written: {}", error.message()));
        }
    }

    /// The call as the audit log has it; `None` where there is nothing to be said, or it was said before.
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
        files.truncate(audit::PATHS_MAX);
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

    /// How long the call has taken so far.
    fn milliseconds(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds something that the caller should know though the call succeeds.
    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Adds a warning where there is one.
    pub fn warn_if(&mut self, warning: Option<String>) {
        if let Some(warning) = warning {
            self.warn(warning);
        }
    }

    /// Notes the commit that holds what this call changed.
    pub fn set_snapshot(&mut self, id: String) {
        self.snapshot = Some(id);
    }

    /// Notes that lines of a file were shown, so that it may be changed.
    pub fn mark_shown(&mut self, path: &WorkspacePath, sha256: Sha256, stat: &Stat, lines: &[(u64, u64)]) {
        let mut shown = Lines::default();
        lines.iter().for_each(|&(first, last)| shown.add(first, last));
        let mark = Mark::of_everything(path.clone(), sha256, fs::size_of(stat), 0);
        self.seen.push(Mark { lines: shown, ..mark });
    }

    /// Ends the call of `tool`: puts what was seen into the state file, and gives up warnings and snapshot, and
    /// what counts the call once its answer is out, where there is a state.
    ///
    /// A workspace that cannot be written is still read; the marks are then lost, and a warning
    /// says so.
    #[must_use]
    pub fn finish(mut self, tool: &str) -> (CallNotes, Option<CallTally>) {
        match self.save_marks() {
            Ok(warning) => self.warn_if(warning),
            Err(error) => {
                self.warn(format!("what was read could not be noted for this session: {}", error.message()));
            }
        }
        let key = CallKey { session: self.session.to_string(), tool: tool.to_owned() };
        // The audit log has the others, and their time.
        let sum = if self.is_audited {
            CallSum::default()
        } else {
            CallSum { calls: 1, bytes: 0, duration_ms: self.milliseconds() }
        };
        // A dry run changes nothing at all.
        let counted_in = self.counted_in.filter(|_| !self.dry_run);
        let tally = counted_in.map(|state| CallTally::new(self.workspace, state, key, sum));
        let Self { warnings, snapshot, dry_run, has_made_changes: changed, .. } = self;
        (CallNotes { warnings, snapshot, dry_run, changed }, tally)
    }

    /// Puts what was seen into the state file, where it is news.
    fn save_marks(&mut self) -> Result<Option<String>, Error> {
        if self.seen.is_empty() {
            return Ok(None);
        }
        let found = self.found.take();
        let is_found = found.is_some();
        let state = found.map_or_else(|| State::open(&self.workspace), Ok)?;
        self.count_in(&state);
        let (session, warning) = session::load(&state, &self.session)?;
        let is_known = |mark: &Mark| {
            session.mark(&mark.path).is_some_and(|known| {
                known.sha256 == mark.sha256
                    && mark.lines.ranges().iter().all(|&(first, last)| known.shows(first, last))
            })
        };
        if self.seen.iter().all(is_known) {
            return Ok(warning);
        }
        if is_found {
            state.keep_from_git()?;
        }
        let seen = std::mem::take(&mut self.seen);
        for mark in seen.iter().filter(|mark| !is_known(mark)) {
            // Without a copy the caller reads again once another program has changed the file.
            let _ = session::keep_shown(&state, self.workspace.root_fd(), mark);
            let known = session.mark(&mark.path).filter(|known| known.sha256 != mark.sha256);
            let kept = known.map(Mark::as_earlier).unwrap_or_default();
            let left = known.into_iter().flat_map(Mark::versions);
            session::forget_shown(
                &state,
                left.filter(|left| !kept.iter().any(|version| version.sha256 == *left)),
            );
        }
        let later = session::update(&state, &self.session, |session| {
            seen.into_iter().for_each(|mark| session.add_mark(mark));
        })?;
        Ok(warning.or(later))
    }

    /// Refuses to go on with a snapshot that the caller required and that failed.
    ///
    /// # Errors
    /// `snapshot_failed`, applied, where one is required; else it is a warning.
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
