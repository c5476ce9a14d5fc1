//! What a command changed that changes the files themselves: two looks at the work tree, one before and
//! one after it, a snapshot between two others, and a change in the journal.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;

use super::Bash;
use super::attributes::{AttributeChanges, named};
use super::difference::Difference;
use super::done::{self, Sides};
use super::left_out::{KeptFiles, LeftOutFiles};
use super::limits;
use super::message::{body, subject};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::sandbox::plan::Reach;
use crate::engine::sandbox::repositories::ProtectedPaths;
use crate::engine::sandbox::running::Running;
use crate::engine::snapshot::{Reason, Recorded};
use crate::engine::store::session;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::Survey;
use crate::error::Error;
use crate::tools::Tool as _;

/// Digits of a commit's id that a warning shows.
const SHORT_ID: usize = 12;
/// New protected paths that a warning names.
const PROTECTED_SHOWN_MAX: usize = 10;

/// The work tree as it was before a command.
pub struct Before {
    /// What is known of it; `None` where it could not be scanned.
    known: Option<ScannedTree>,
    /// What of it a command may not write, where someone has searched.
    protected: Option<ProtectedPaths>,
    /// Shows others that a command is changing the files.
    running: Running,
}

/// A work tree that was scanned.
struct ScannedTree {
    /// Repositories within it.
    nested: BTreeSet<String>,
    /// What else stays out of the snapshots.
    left_out: LeftOutFiles,
    /// The bytes of what stays out.
    kept: KeptFiles,
    /// The newest snapshot.
    tip: Option<String>,
    /// The newest change of each session.
    heads: done::Heads,
    /// What stands there; `None` where that is too much.
    survey: Option<Arc<Survey>>,
}

impl Before {
    /// Records what others had changed, so that what the command changes stands apart.
    ///
    /// # Errors
    /// `lock_timeout`, or `snapshot_failed` where the caller requires a snapshot: nothing has run then.
    pub fn look(engine: &mut Engine) -> Result<Self, Error> {
        let locked = engine.lock()?;
        let running = Running::begin(&locked.state)?;
        if !engine.policy().has_snapshots() && !engine.require_snapshot {
            return Ok(Self { known: None, protected: None, running });
        }
        let (session, warning) = session::load(&locked.state, engine.session())?;
        engine.warn_if(warning);
        // What is told of a command is its output.
        let control = engine.control.clone();
        engine.control = control.clone().without_reports();
        // One look serves the search for repositories, the scan and the comparison afterwards.
        let (protected, survey) = limits::look(engine);
        let survey = survey.map(Arc::new);
        let scanned = record::scan_others(engine, session.seq == 0, survey.clone());
        engine.control = control;
        let heads = done::Heads::of(&locked.state)?;
        drop(locked);
        let known = match scanned {
            Ok(recorded) => {
                let tip = tip(engine)?;
                let left_out = LeftOutFiles::of(&recorded.left_out);
                let kept = left_out.keep(&engine.workspace);
                let nested = nested_in(&recorded);
                Some(ScannedTree { nested, left_out, kept, tip, heads, survey })
            }
            Err(error) if engine.require_snapshot => return Err(error),
            Err(error) => {
                engine.warn(format!(
                    "{}; what this command changed is not recorded, and undo does not take it back",
                    error.message()
                ));
                None
            }
        };
        Ok(Self { known, protected: Some(protected), running })
    }

    /// What a command may not write, where that is known.
    pub fn take_protected(&mut self) -> Option<ProtectedPaths> {
        self.protected.take()
    }

    /// Waits until what the command changes has other times than what was seen; it is about to run.
    pub fn pass_a_moment(&self) {
        if self.known.is_some() {
            self.running.pass_a_moment();
        }
    }

    /// Records what is different now, as the command's.
    ///
    /// # Errors
    /// `snapshot_failed` (applied) where the caller requires a snapshot.
    pub fn compare(
        &self,
        engine: &mut Engine,
        reach: &Reach,
        message: (&str, Option<&str>),
    ) -> Result<Difference, Error> {
        let Some(known) = &self.known else {
            return Ok(Difference::default());
        };
        // The command has run: whoever cancelled it does not want this to be lost.
        let control = std::mem::take(&mut engine.control);
        let compared = known.compare(engine, reach, message);
        engine.control = control;
        match compared {
            // The command has run: its output is worth more than a refusal.
            Err(error) if !error.is_applied() => known.not_recorded(engine, error.message()),
            compared => compared,
        }
    }
}

impl ScannedTree {
    /// Records what is different now, as the command's.
    fn compare(
        &self,
        engine: &mut Engine,
        reach: &Reach,
        (command, why): (&str, Option<&str>),
    ) -> Result<Difference, Error> {
        let closed = reach.protected.iter().chain(&reach.states).map(OsString::as_os_str).collect();
        let later = self
            .survey
            .as_deref()
            .and_then(|before| Some((before, Arc::new(Survey::of(&engine.workspace, &closed)?))));
        if later.as_ref().is_some_and(|(before, after)| before.touched(after).is_empty()) {
            // Most commands only look: a scan would find what the one before has found.
            return Ok(Difference::none());
        }
        let mut change = engine.begin(Bash::NAME, &[], false)?;
        let seq = change.number();
        let (subject, body) = (subject(command), body(command, why));
        let survey = later.as_ref().map(|(_, after)| Arc::clone(after));
        let words = (Some(subject.clone()), body.as_deref());
        let scanned = record::scan_as(change.engine(), words, Bash::NAME, seq, survey);
        let recorded = match scanned {
            Ok(recorded) => recorded,
            Err(error) => {
                return self.not_recorded(change.engine(), error.message());
            }
        };
        let left_out = LeftOutFiles::of(&recorded.left_out);
        self.tell(change.engine(), recorded);
        let tips = (self.tip.clone(), tip(change.engine())?);
        let Some((before, after)) = later else {
            change.engine().warn(
                "there are too many files to look at each: undo does not take back what this command changed",
            );
            // Its snapshot has the number.
            change.spend_number()?;
            return Ok(Difference::default());
        };
        warn_of_protected(change.engine(), before, &after);
        warn_of_unseen(change.engine(), before, &after);
        let touched = before.touched(&after);
        left_out.tell(reach, change.engine(), &touched);
        AttributeChanges::of(change.workspace(), &touched).tell(change.engine());
        let sides = Sides {
            before,
            after: &after,
            tips: &tips,
            left_out: [&self.left_out, &left_out],
            kept: &self.kept,
            heads: &self.heads,
        };
        done::record(change, &sides, (subject, body))
    }

    /// Says that what the command changed could not be recorded, and where the old bytes are.
    fn not_recorded(&self, engine: &mut Engine, message: &str) -> Result<Difference, Error> {
        let message = message.trim_start_matches("no snapshot: ");
        let lost = "what this command changed is not recorded, and undo does not take it back";
        let old = self.tip.as_deref().and_then(|tip| tip.get(..SHORT_ID)).map_or_else(String::new, |tip| {
            format!(
                "; the old bytes are in the snapshot {tip}: once this is mended, `lbx snapshot` records the changes and `lbx diff --from {tip}` shows them"
            )
        });
        engine.snapshot_failed(&format!("{message}; {lost}{old}"))?;
        Ok(Difference::default())
    }

    /// Says what a scan found.
    fn tell(&self, engine: &mut Engine, recorded: Recorded) {
        for path in nested_in(&recorded).difference(&self.nested) {
            engine.warn(format!(
                "the command made a repository in {path}: look at its configuration and hooks before git is run there"
            ));
        }
        recorded.warnings.into_iter().for_each(|warning| engine.warn(warning));
        if let Some(id) = recorded.id {
            engine.set_snapshot(id);
        }
    }
}

/// Says which new paths the policy protects: before the command there was nothing that could be
/// made read-only.
fn warn_of_protected(engine: &mut Engine, before: &Survey, after: &Survey) {
    if !engine.policy().has_protected_paths() {
        return;
    }
    let touched = before.touched(after);
    let new = touched.iter().filter(|touched| touched.before.is_none()).map(|touched| &touched.path);
    let protected = new.filter(|path| engine.policy().protects(&engine.workspace, path).is_some());
    let shown: Vec<String> =
        protected.take(PROTECTED_SHOWN_MAX).map(|path| engine.workspace.shown(path)).collect();
    if !shown.is_empty() {
        engine.warn(format!(
            "the policy protects what is new now: {}. No tool changes or undoes it; tell the user",
            shown.join(", ")
        ));
    }
}

/// Says into which folders nobody may look since the command.
fn warn_of_unseen(engine: &mut Engine, before: &Survey, after: &Survey) {
    let unseen: Vec<WorkspacePath> = after.newly_unseen(before).cloned().collect();
    if let Some(names) = named(&engine.workspace, &unseen) {
        engine.warn(format!(
            "cannot be read since the command: {names}. What it changed there is not recorded, and undo does not take it back"
        ));
    }
}

/// The commit that holds the work tree as it was recorded last.
fn tip(engine: &Engine) -> Result<Option<String>, Error> {
    let store = record::find(engine)?;
    let tip = store.map(|store| store.newest()).transpose();
    Ok(tip.map_err(|error| record::unreadable(&error))?.flatten())
}

/// The repositories within the work tree that a scan met.
fn nested_in(recorded: &Recorded) -> BTreeSet<String> {
    let nested = recorded.left_out.iter().filter_map(|left| match &left.reason {
        Reason::NestedRepository(path) => Some(path.clone()),
        _ => None,
    });
    nested.collect()
}
