//! `watch`: follows the calls of a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Paint, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::snapshot::Store;
use crate::engine::store::audit::{self, AuditRecord, LogCursor};
use crate::engine::store::state::State;
use crate::error::Error;
use crate::text::escaped;

/// Largest number of paths shown per call.
const PATHS_NAMED: usize = 3;
/// Range of the time of day in an RFC 3339 time.
const TIME_OF_DAY: std::ops::Range<usize> = 11..19;

/// Follow the calls that change something or are refused, as they happen
///
/// On the command line it runs until interrupted, with a line for each call: for a person at a terminal, and one JSON
/// object per line for programs. A request as JSON returns at once with the calls since the cursor `after`, and the
/// next cursor. Shows all sessions, unless one is named.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Only calls after this cursor from an earlier response; without it, only new calls
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    /// Begin with the oldest call that the log has
    #[arg(long)]
    pub all: bool,
}

/// New calls.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Calls, oldest first
    pub calls: Vec<WatchedCall>,
    /// Cursor for the next request
    pub next: String,
}

/// One call.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WatchedCall {
    /// Time, as RFC 3339
    pub time: String,
    /// Session
    pub session: String,
    /// Tool
    pub tool: String,
    /// `ok`, or the kind of error
    pub outcome: String,
    /// Paths of the call
    pub paths: Vec<String>,
    /// Lines added
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertions: Option<usize>,
    /// Lines removed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions: Option<usize>,
    /// Reason for the change
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// `warn` or `off`: the policy allowed it although its caller had not read the current bytes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Snapshot of the change
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Error message
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Duration in milliseconds
    pub duration_ms: u64,
}

/// `watch` tool.
pub struct Watch;

impl Tool for Watch {
    const NAME: &'static str = "watch";
    const EFFECT: Effect = Effect::Reads;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    const FOLLOWS: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let cursor = match &request.after {
            Some(text) => Some(text.parse::<LogCursor>().map_err(|()| {
                Error::invalid(format!(
                    "field `after`: expected a cursor that an earlier response named, got {text:?}"
                ))
                .detail("field", "after")
            })?),
            None => request.all.then(LogCursor::beginning),
        };
        let Some(state) = State::find(&engine.workspace)? else {
            // There is no log yet, so every later call is new.
            return Ok(Response { calls: Vec::new(), next: LogCursor::beginning().to_string() });
        };
        let (mut records, next) = audit::since(&state, cursor)?;
        if let Some(session) = engine.named_session() {
            records.retain(|record| record.session == session.as_str());
        }
        let store = if records.is_empty() { None } else { record::find(engine)? };
        let calls = records.into_iter().map(|record| WatchedCall::of(record, store.as_ref())).collect();
        Ok(Response { calls, next: next.to_string() })
    }

    fn text(response: &Response, text: &mut Text) {
        for call in &response.calls {
            let line = call.line(text);
            text.styled(&line);
        }
    }
}

impl WatchedCall {
    /// Converts a record to a call of the response; the line counts come from its snapshot.
    fn of(record: AuditRecord, store: Option<&Store>) -> Self {
        let snapshot =
            record.snapshot.as_deref().zip(store).and_then(|(id, store)| store.one(id).ok().flatten());
        let lines = |of: fn(&crate::engine::snapshot::FileStat) -> Option<usize>| {
            snapshot.as_ref().map(|snapshot| snapshot.files.iter().filter_map(of).sum())
        };
        Self {
            time: record.time,
            session: record.session,
            tool: record.tool,
            outcome: record.outcome,
            paths: record.files.into_iter().map(|file| file.path).collect(),
            insertions: lines(|file| file.insertions),
            deletions: lines(|file| file.deletions),
            why: snapshot.as_ref().and_then(|snapshot| snapshot.why.clone()),
            gate: record.gate,
            snapshot: record.snapshot,
            message: record.message,
            duration_ms: record.duration_ms,
        }
    }

    /// Returns the call in one line, for a person.
    fn line(&self, text: &Text) -> String {
        let time = self.time.get(TIME_OF_DAY).unwrap_or(&self.time);
        let paths = self.paths.iter().map(|path| escaped::name(path).into_owned());
        let paths = escaped::first_of(paths, self.paths.len(), PATHS_NAMED);
        let mut parts = Vec::new();
        if let (Some(came), Some(went)) = (self.insertions, self.deletions) {
            parts.push(text.paint(Paint::Green, &format!("+{came}")));
            parts.push(text.paint(Paint::Red, &format!("-{went}")));
        }
        if self.outcome != "ok" {
            let message = self.message.as_deref().unwrap_or_default();
            parts.push(text.paint(Paint::Red, &escaped::line(&format!("{}: {message}", self.outcome))));
        }
        if let Some(gate) = &self.gate {
            parts.push(text.paint(Paint::Red, &format!("[gate {gate}]")));
        }
        if let Some(why) = self.why.as_deref().and_then(|why| why.lines().next()) {
            parts.push(text.paint(Paint::Dim, &escaped::line(why)));
        }
        let (session, tool) = (text.paint(Paint::Cyan, &self.session), text.paint(Paint::Bold, &self.tool));
        format!("{time} {session} {tool} {paths} {}", parts.join(" ")).trim_end().to_owned()
    }
}
