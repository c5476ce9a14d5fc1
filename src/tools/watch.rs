//! `watch`: the calls of a workspace, as they land.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Paint, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::snapshot::Store;
use crate::engine::store::audit::{self, AuditRecord, Cursor};
use crate::engine::store::state::State;
use crate::error::Error;
use crate::text::escaped;

/// Paths of a call that are named.
const PATHS_NAMED: usize = 3;
/// Where in a time of RFC 3339 that of the day is.
const TIME_OF_DAY: std::ops::Range<usize> = 11..19;

/// Follow the calls that change something or are refused, as they land
///
/// On the command line it goes on until it is interrupted, with a line for each call: for a person at a
/// terminal, and one JSON object a line for programs. A request as JSON answers at once with the calls
/// since the cursor `after`, and the next cursor. Shows all sessions, unless one is named.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Only calls after this cursor, which an earlier response named; without it, those from now on
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    /// Begin with the oldest call that the log has
    #[arg(long)]
    #[serde(default)]
    pub all: bool,
}

/// The calls that landed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The calls, the oldest first
    pub calls: Vec<Call>,
    /// The cursor for the next request
    pub next: String,
}

/// A call.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Call {
    /// When, as RFC 3339
    pub time: String,
    /// Whose
    pub session: String,
    /// The tool
    pub tool: String,
    /// `ok`, or the kind of the refusal
    pub outcome: String,
    /// The files concerned
    pub paths: Vec<String>,
    /// Lines added
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertions: Option<usize>,
    /// Lines removed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions: Option<usize>,
    /// Why the change was made
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// `warn` or `off`: the policy allowed it although its caller had not read the current bytes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The snapshot that holds the change
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What was wrong, of a refusal
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, in milliseconds
    pub duration_ms: u64,
}

/// The tool.
pub struct Watch;

impl Tool for Watch {
    const NAME: &'static str = "watch";
    const EFFECT: Effect = Effect::Reads;
    const STDIN: Stdin = Stdin::Ignored;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    const FOLLOWS: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let cursor = match &request.after {
            Some(text) => Some(text.parse::<Cursor>().map_err(|()| {
                Error::invalid(format!(
                    "field `after`: expected a cursor that an earlier response named, got {text:?}"
                ))
                .detail("field", "after")
            })?),
            None => request.all.then(Cursor::beginning),
        };
        let Some(state) = State::find(&engine.workspace)? else {
            // Whatever lands first is news.
            return Ok(Response { calls: Vec::new(), next: Cursor::beginning().to_string() });
        };
        let (mut records, next) = audit::since(&state, cursor)?;
        if let Some(session) = engine.named_session() {
            records.retain(|record| record.session == session.as_str());
        }
        let store = if records.is_empty() { None } else { record::find(engine)? };
        let calls = records.into_iter().map(|record| Call::of(record, store.as_ref())).collect();
        Ok(Response { calls, next: next.to_string() })
    }

    fn text(response: &Response, text: &mut Text) {
        for call in &response.calls {
            let line = call.line(text);
            text.styled(&line);
        }
    }
}

impl Call {
    /// Returns a call as the answer has it; its size is that of its snapshot.
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
        let mut paths: Vec<String> =
            self.paths.iter().take(PATHS_NAMED).map(|path| escaped::name(path).into_owned()).collect();
        if self.paths.len() > PATHS_NAMED {
            paths.push(format!("and {} more", self.paths.len() - PATHS_NAMED));
        }
        let paths = paths.join(", ");
        let mut parts = BTreeMap::new();
        if let (Some(came), Some(went)) = (self.insertions, self.deletions) {
            parts.insert(0, text.paint(Paint::Green, &format!("+{came}")));
            parts.insert(1, text.paint(Paint::Red, &format!("-{went}")));
        }
        if self.outcome != "ok" {
            let message = self.message.as_deref().unwrap_or_default();
            parts.insert(2, text.paint(Paint::Red, &escaped::line(&format!("{}: {message}", self.outcome))));
        }
        if let Some(gate) = &self.gate {
            parts.insert(3, text.paint(Paint::Red, &format!("[gate {gate}]")));
        }
        if let Some(why) = self.why.as_deref().and_then(|why| why.lines().next()) {
            parts.insert(4, text.paint(Paint::Dim, &escaped::line(why)));
        }
        let rest: Vec<String> = parts.into_values().collect();
        let (session, tool) = (text.paint(Paint::Cyan, &self.session), text.paint(Paint::Bold, &self.tool));
        format!("{time} {session} {tool} {paths} {}", rest.join(" ")).trim_end().to_owned()
    }
}
