//! `stats`: what calls add up to, by the audit log and by what the others left behind.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::store::audit::{self, AuditRecord};
use crate::engine::store::calls::{self, CallKey, CallSum};
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::error::Error;
use crate::text::counted::counted;
use crate::text::escaped;

/// Outcome of a call that did what it was asked.
const OK: &str = "ok";

/// Show how often each tool was called or refused, what it returned, how long it took, and by whom
///
/// Counts the calls in a workspace that has a state, which begins with the first read or change.
/// Counts all sessions, unless one is named.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {}

/// Sums over the calls.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// All calls together
    pub total: Sum,
    /// The same numbers by tool
    pub by_tool: BTreeMap<String, Sum>,
    /// The same numbers by session
    pub by_session: BTreeMap<String, Sum>,
    /// Refusals of each kind
    pub refusals: BTreeMap<String, u64>,
}

/// What some calls add up to.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sum {
    /// Calls
    pub calls: u64,
    /// Those of them that were refused a change
    pub refused: u64,
    /// Paths that the other calls changed; a path counts each time
    pub paths: u64,
    /// Bytes that all of them returned; over MCP without the structured form, which repeats the text
    pub bytes: u64,
    /// Milliseconds that all of them took
    pub duration_ms: u64,
    /// Time of the first change or refusal, RFC 3339
    #[serde(skip_serializing_if = "String::is_empty")]
    pub first: String,
    /// Time of the last change or refusal, RFC 3339
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last: String,
}

impl Sum {
    /// Adds one call.
    fn add(&mut self, record: &AuditRecord) {
        self.calls += 1;
        if record.outcome == OK {
            // What goes to the trash and comes from it is one path.
            let paths = record.files.iter().filter(|file| !is_state(&file.path));
            self.paths += u64::try_from(paths.count()).unwrap_or(u64::MAX);
        } else {
            self.refused += 1;
        }
        self.duration_ms = self.duration_ms.saturating_add(record.duration_ms);
        if self.first.is_empty() {
            self.first.clone_from(&record.time);
        }
        self.last.clone_from(&record.time);
    }

    /// Adds calls that the audit log may not have.
    const fn add_counted(&mut self, counted: CallSum) {
        self.calls = self.calls.saturating_add(counted.calls);
        self.bytes = self.bytes.saturating_add(counted.bytes);
        self.duration_ms = self.duration_ms.saturating_add(counted.duration_ms);
    }

    /// The sum in words.
    fn words(&self) -> String {
        let refused = if self.refused > 0 { format!(", {} refused", self.refused) } else { String::new() };
        format!(
            "{}{refused}, {} changed, {} returned, {} ms",
            counted(self.calls, "call"),
            counted(self.paths, "path"),
            counted(self.bytes, "byte"),
            self.duration_ms
        )
    }
}

/// Whether a path is lbx's own.
fn is_state(path: &str) -> bool {
    path.strip_prefix(STATE_FOLDER).is_some_and(|rest| rest.starts_with('/'))
}

/// The tool.
pub struct Stats;

impl Tool for Stats {
    const NAME: &'static str = "stats";
    const EFFECT: Effect = Effect::Reads;
    const STDIN: Stdin = Stdin::Ignored;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, _request: Request) -> Result<Response, Error> {
        let named = engine.named_session().cloned();
        let mut sums = Response {
            total: Sum::default(),
            by_tool: BTreeMap::new(),
            by_session: BTreeMap::new(),
            refusals: BTreeMap::new(),
        };
        let Some(state) = State::find(&engine.workspace)? else { return Ok(sums) };
        // Nothing is kept of the records, however many there are.
        let (_, broken) = audit::read(&state, &mut |record| {
            if named.as_ref().is_none_or(|session| session.as_str() == record.session) {
                sums.add(record);
            }
            false
        })?;
        for (key, sum) in calls::sums(&state) {
            if named.as_ref().is_none_or(|session| session.as_str() == key.session) {
                sums.add_counted(key, sum);
            }
        }
        if let Some(broken) = broken {
            engine.warn(format!(
                "the audit log is not whole: {}, line {}: {}",
                broken.file, broken.line, broken.message
            ));
        }
        Ok(sums)
    }

    fn text(response: &Response, text: &mut Text) {
        text.line(&format!("all: {}", response.total.words()));
        for (title, sums) in [("tool", &response.by_tool), ("session", &response.by_session)] {
            for (name, sum) in sums {
                text.line(&format!("{title} {}: {}", escaped::name(name), sum.words()));
            }
        }
        for (kind, count) in &response.refusals {
            text.line(&format!("refused as {}: {count}", escaped::name(kind)));
        }
    }
}

impl Response {
    /// Adds calls that the audit log may not have.
    fn add_counted(&mut self, key: CallKey, sum: CallSum) {
        self.total.add_counted(sum);
        self.by_tool.entry(key.tool).or_default().add_counted(sum);
        self.by_session.entry(key.session).or_default().add_counted(sum);
    }

    /// Adds one call.
    fn add(&mut self, record: &AuditRecord) {
        self.total.add(record);
        self.by_tool.entry(record.tool.clone()).or_default().add(record);
        self.by_session.entry(record.session.clone()).or_default().add(record);
        if record.outcome != OK {
            *self.refusals.entry(record.outcome.clone()).or_default() += 1;
        }
    }
}
