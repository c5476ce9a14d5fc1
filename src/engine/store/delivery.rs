//! Work of a call that waits until its response is out: only then its size is known, and what it shows counts as read.

use super::calls::{self, CallKey, CallSum};
use super::session::{self, ReadRecord, SessionId};
use super::state::State;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;

/// A call whose response is not out yet.
#[derive(Debug)]
pub struct Delivery {
    /// Workspace of the call.
    pub(in crate::engine) workspace: Workspace,
    /// Session.
    pub(in crate::engine) session: SessionId,
    /// Tool.
    pub(in crate::engine) tool: String,
    /// State as the call found it, if it did.
    pub(in crate::engine) found: Option<State>,
    /// Path of the state in which the call is counted, if there is one.
    pub(in crate::engine) counted_in: Option<WorkspacePath>,
    /// Part of the counters that is known before the response is out; `None` for a call that is not counted.
    pub(in crate::engine) sum: Option<CallSum>,
    /// Read marks for what the response shows.
    pub seen: Vec<ReadRecord>,
    /// State that lacks those marks, and gets them.
    pub(in crate::engine) ready: Option<State>,
}

impl Delivery {
    /// Prepares everything that [`Self::save`] needs; returns a warning for the response if the session's state is
    /// damaged, or the marks cannot be saved. A workspace that cannot be written can still be read.
    pub fn prepare(&mut self) -> Option<String> {
        self.open_state().unwrap_or_else(|error| Some(unsaved(&error)))
    }

    /// Opens the state for the marks that it does not have, if there are any, and keeps copies of the shown files.
    fn open_state(&mut self) -> Result<Option<String>, Error> {
        if self.seen.is_empty() {
            return Ok(None);
        }
        let found = self.found.take();
        let is_found = found.is_some();
        let state = found.map_or_else(|| State::open(&self.workspace), Ok)?;
        self.counted_in = Some(state.path().clone());
        let (session, warning) = session::load(&state, &self.session)?;
        let is_known = |mark: &ReadRecord| {
            session.mark(&mark.path).is_some_and(|known| {
                known.sha256 == mark.sha256
                    && mark.lines.ranges().iter().all(|&(first, last)| known.shows(first, last))
            })
        };
        self.seen.retain(|mark| !is_known(mark));
        if self.seen.is_empty() {
            return Ok(warning);
        }
        if is_found {
            state.keep_from_git()?;
        }
        let mut later = None;
        if session.is_damaged() {
            // The response says so, so its file is set aside before.
            later = session::update(&state, &self.session, |session| {
                self.seen.iter().for_each(|mark| drop(session.mark(&mark.path)));
            })?;
        }
        for mark in &self.seen {
            // Without a copy the caller has to read again once another program has changed the file.
            let _ = session::keep_shown(&state, self.workspace.root_fd(), mark);
        }
        self.ready = Some(state);
        Ok(warning.or(later))
    }

    /// Returns true if there are marks to save.
    pub const fn has_marks(&self) -> bool {
        self.ready.is_some()
    }

    /// Counts the call with the size of its response.
    pub fn count(&self, bytes: usize) {
        if let (Some(state), Some(sum)) = (&self.counted_in, self.sum) {
            let key = CallKey { session: self.session.to_string(), tool: self.tool.clone() };
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            calls::count(&self.workspace, state, &key, CallSum { bytes, ..sum });
        }
    }

    /// Saves the marks that were [prepared](Self::prepare): the caller has the whole response. Returns a warning, if there
    /// is one; without the marks, the next change of these files is refused.
    pub fn save(self) -> Option<String> {
        let Self { session: id, seen, ready, .. } = self;
        let state = ready?;
        let saved = session::update(&state, &id, |session| {
            for mark in seen {
                let known = session.mark(&mark.path).filter(|known| known.sha256 != mark.sha256);
                let kept = known.as_ref().map(ReadRecord::as_earlier).unwrap_or_default();
                let left = known.iter().flat_map(ReadRecord::versions);
                let is_kept = |left: &_| kept.iter().any(|version| version.sha256 == *left);
                session::forget_shown(&state, left.filter(|left| !is_kept(left)));
                session.add_mark(mark);
            }
        });
        saved.unwrap_or_else(|error| Some(unsaved(&error)))
    }
}

/// Returns the warning for marks that cannot be saved.
fn unsaved(error: &Error) -> String {
    format!("cannot record the read for this session: {}", error.message())
}
