//! `audit` and `stats`: the log of calls, as records and as sums.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::common::{ID_DIGITS, PLACES_LISTED, entry_at, fitting, unlimited_if_0};
use super::targets::{self, Revisions, takes_no_range};
use super::{Effect, Paint, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::policy::Policy;
use crate::engine::policy::settings::Key;
use crate::engine::snapshot::Query;
use crate::engine::store::audit::{self, AuditRecord, ChainBreak, RecordSum, SessionSums};
use crate::engine::store::calls::{self, CallKey, CallSum};
use crate::engine::store::state::State;
use crate::error::{Error, ErrorKind};
use crate::text::escaped;
use crate::text::escaped::plural;

/// Number of paths of a record to show.
const PATHS_NAMED: usize = 3;

/// Show the audit log, newest first, or check that nobody has altered it
///
/// One record for each call that changed something or failed to: time, session, tool, files with their sha256 before
/// and after, snapshot, reason, and the gate's mode if there was no proof.
///
/// verify names the first record that was altered or removed. Shows all sessions, unless one is named.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Only calls that concern this file or folder; or a snapshot, branch or commit: calls up to it
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path"]))]
    pub path: Option<PathBuf>,
    /// Maximum number of records; 0 for all
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<usize>,
    /// Records to skip, the newest first
    #[arg(long, value_name = "COUNT")]
    pub offset: Option<usize>,
    /// Check the chain of all records
    #[arg(long)]
    pub verify: bool,
    /// Maximum bytes of records; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
}

/// Content of the log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Records, newest first
    pub records: Vec<Value>,
    /// Number of records with these filters
    pub total: usize,
    /// True if there are more records
    pub truncated: bool,
    /// Next offset
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// True if the chain is intact; absent unless asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
}

/// `audit` tool.
pub struct Audit;

impl Tool for Audit {
    const NAME: &'static str = "audit";
    const LISTED: &'static str = "path limit verify";
    const EFFECT: Effect = Effect::Reads;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let until = request.path.as_deref().map_or(Ok(None), |path| commit_of(engine, path))?;
        let path = request.path.as_deref().filter(|_| until.is_none());
        let (path, is_any) = (entry_at(engine, path)?, request.path.is_none());
        let is_of_path = |record: &AuditRecord| {
            path.as_ref().is_none_or(|path| {
                record.files.iter().any(|file| {
                    std::path::Path::new(&file.path).starts_with(path.as_path()) || path.is_root()
                })
            })
        };
        let named = engine.named_session().cloned();
        let is_of_session =
            |record: &AuditRecord| named.as_ref().is_none_or(|session| session.as_str() == record.session);
        let state = State::find(&engine.workspace)?;
        if let Some(state) = state.as_ref().filter(|_| is_any && named.is_none() && !request.verify)
            && let Some(response) = newest(engine.policy(), state, &request)?
        {
            return Ok(response);
        }
        let (mut records, broken) = match state {
            Some(state) => audit::read(&state, &mut |record| is_of_path(record) && is_of_session(record))?,
            None => (Vec::new(), None),
        };
        if let Some(broken) = broken.filter(|_| request.verify) {
            return Err(broken_chain_error(&broken));
        }
        if let Some(until) = &until {
            records.truncate(until.count_in(&records));
        }
        if let Some(written) = request.path.as_ref().filter(|_| records.is_empty() && until.is_none()) {
            let store = record::find(engine)?;
            targets::path_must_be_known(engine, store.as_ref(), written)?;
        }
        if let Some(session) = named.as_ref().filter(|_| records.is_empty()) {
            targets::session_must_be_known(engine, session)?;
        }
        Ok(page(engine.policy(), records.iter().rev(), records.len(), &request))
    }

    fn text(response: &Response, text: &mut Text) {
        if response.verified == Some(true) {
            return text.entry("the chain is whole");
        }
        for record in &response.records {
            if text.is_for_a_person() {
                let line = line(record, text);
                text.styled(&line);
                let why = record.get("why").and_then(Value::as_str).unwrap_or_default();
                why.lines().for_each(|line| text.styled(&format!("    {}", escaped::line(line))));
            } else {
                text.entry(&record.to_string());
            }
        }
        if let Some(offset) = response.next_offset {
            let (shown, go_on) = (response.records.len(), text.option("offset", offset));
            text.note(format!("{shown} of {}; continue with {go_on}", plural(response.total, "record")));
        }
    }
}

/// A commit up to which records are shown.
struct LastCommit {
    /// Commit, in hex.
    id: String,
    /// Its time, in seconds since 1970.
    seconds: i64,
}

impl LastCommit {
    /// Returns the number of records up to the commit, of all, the oldest first: up to its own record, if it has one.
    fn count_in(&self, records: &[AuditRecord]) -> usize {
        let own = records.iter().rposition(|record| record.snapshot.as_ref() == Some(&self.id));
        let is_older = |record: &AuditRecord| {
            let time: Option<jiff::Timestamp> = record.time.parse().ok();
            time.is_some_and(|time| time.as_second() <= self.seconds)
        };
        let last = own.or_else(|| records.iter().rposition(is_older));
        last.map_or(0, |last| last + 1)
    }
}

/// Returns the commit that `path` names; `None` if it is a path.
///
/// # Errors
/// Returns `invalid_request` for a range of commits.
fn commit_of(engine: &Engine, path: &Path) -> Result<Option<LastCommit>, Error> {
    let is_there = engine.workspace.resolve(path).is_ok_and(|place| place.stat().is_some());
    let Some(store) = record::find(engine)?.filter(|_| !is_there) else { return Ok(None) };
    let id = match path.to_str().map_or(Ok(None), |text| Revisions::of(&store, text))? {
        None => return Ok(None),
        Some(Revisions::Snapshot(id) | Revisions::Since(id)) => id,
        Some(Revisions::Between(from, to)) => return Err(takes_no_range("audit", &from, &to)),
    };
    let newest = Query { from: Some(&id), limit: 1, ..Query::default() };
    let seconds = match store.time_of_foreign(&id)? {
        Some(seconds) => seconds,
        None => store.log(&newest)?.snapshots.first().map_or(i64::MAX, |snapshot| snapshot.seconds),
    };
    Ok(Some(LastCommit { id, seconds }))
}

/// Returns a record in one line, for a person.
fn line(record: &Value, text: &Text) -> String {
    let field =
        |name: &str| escaped::line(record.get(name).and_then(Value::as_str).unwrap_or_default()).into_owned();
    let files = record.get("files").and_then(Value::as_array).into_iter().flatten();
    let files: Vec<&str> = files.filter_map(|file| file.get("path")?.as_str()).collect();
    let paths = files.iter().map(|path| escaped::name(path).into_owned());
    let outcome = match field("outcome") {
        outcome if outcome == "ok" => text.paint(Paint::Green, "ok"),
        outcome => text.paint(Paint::Red, &format!("{outcome}: {}", field("message"))),
    };
    let gate =
        record.get("gate").and_then(Value::as_str).map(|gate| format!("[gate {gate}]")).unwrap_or_default();
    let snapshot: String = field("snapshot").chars().take(ID_DIGITS).collect();
    let parts = [
        field("time"),
        text.paint(Paint::Cyan, &field("session")),
        text.paint(Paint::Bold, &field("tool")),
        escaped::first_of(paths, files.len(), PATHS_NAMED),
        outcome,
        text.paint(Paint::Red, &gate),
        text.paint(Paint::Yellow, &snapshot),
    ];
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

/// Returns the error for a log whose chain is broken.
fn broken_chain_error(broken: &ChainBreak) -> Error {
    let ChainBreak { file, line, message } = broken;
    let message = format!("the audit log is not whole: {file}, line {line}: {message}");
    Error::new(ErrorKind::VerificationFailed, message)
        .detail("broken", json!({ "file": file, "line": line, "message": broken.message }))
}

/// Keeps only the first files of a record that is larger than a response.
fn shorten_files(record: &mut Value) {
    let Some(record) = record.as_object_mut() else { return };
    if let Some(files) = record.get_mut("files").and_then(Value::as_array_mut) {
        let total = files.len();
        files.truncate(PLACES_LISTED);
        record.insert("files_total".to_owned(), total.into());
    }
}

/// Returns the requested part of all records, if the end of the log has it.
fn newest(policy: &Policy, state: &State, request: &Request) -> Result<Option<Response>, Error> {
    let last = request.offset.unwrap_or(0).saturating_add(limit_of(policy, request));
    let found = if last <= PAGE_RECORDS_MAX { audit::newest_page(state, last)? } else { None };
    Ok(found.map(|(records, total)| page(policy, records.iter(), total, request)))
}

/// Returns the number of records that a request asks for.
fn limit_of(policy: &Policy, request: &Request) -> usize {
    unlimited_if_0(request.limit.unwrap_or(policy.size(Key::AuditLimit)))
}

/// Returns the requested part of `total` records, which come newest first.
fn page<'a>(
    policy: &Policy,
    newest: impl Iterator<Item = &'a AuditRecord>,
    total: usize,
    request: &Request,
) -> Response {
    let (offset, bytes_max) = (request.offset.unwrap_or(0), request.max_bytes.unwrap_or(policy.max_bytes()));
    let wanted = newest.skip(offset).take(limit_of(policy, request)).map(audit::as_value);
    let mut shown = fitting(bytes_max, wanted, |value| value.to_string().len());
    for value in shown.iter_mut().filter(|value| bytes_max > 0 && value.to_string().len() > bytes_max) {
        shorten_files(value);
    }
    let next = offset + shown.len();
    let truncated = next < total;
    Response {
        total,
        truncated,
        next_offset: truncated.then_some(next),
        verified: request.verify.then_some(true),
        records: shown,
    }
}

/// Most records that are read from the end of the log.
const PAGE_RECORDS_MAX: usize = 10_000;

/// Show the calls, refusals, output size, time and sessions of each tool
///
/// Counts the calls in a workspace that has a state, which begins with the first read or change. Counts all sessions,
/// unless one is named.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct StatsRequest {
    /// Sessions to skip
    #[arg(long, value_name = "COUNT", default_value_t)]
    #[serde(default)]
    pub offset: usize,
    /// Maximum bytes of the sums by session; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
}

/// Sums over the calls.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct StatsResponse {
    /// Sum of all calls
    pub total: Sum,
    /// Sums by tool
    pub by_tool: BTreeMap<String, Sum>,
    /// Sums by session, ordered by name
    pub by_session: BTreeMap<String, Sum>,
    /// Number of sessions
    pub sessions: usize,
    /// Refusals by kind
    pub refusals: BTreeMap<String, u64>,
    /// True if there are more sessions
    pub truncated: bool,
    /// Offset to continue at
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// Sum of several calls.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sum {
    /// Calls
    pub calls: u64,
    /// Calls that were refused a change
    pub refused: u64,
    /// Paths that the other calls changed; a path counts each time
    pub paths: u64,
    /// Bytes that they returned; over MCP without the structured form, which repeats the text
    pub bytes: u64,
    /// Total duration in milliseconds
    pub duration_ms: u64,
    /// Time of the first change or refusal, RFC 3339
    #[serde(skip_serializing_if = "String::is_empty")]
    pub first: String,
    /// Time of the last change or refusal, RFC 3339
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last: String,
}

impl Sum {
    /// Adds calls of the audit log.
    fn add(&mut self, sum: &RecordSum) {
        self.calls = self.calls.saturating_add(sum.calls);
        self.refused = self.refused.saturating_add(sum.refused);
        self.paths = self.paths.saturating_add(sum.paths);
        self.duration_ms = self.duration_ms.saturating_add(sum.duration_ms);
        if self.first.is_empty() || sum.first < self.first {
            self.first.clone_from(&sum.first);
        }
        if sum.last > self.last {
            self.last.clone_from(&sum.last);
        }
    }

    /// Adds calls that may be missing in the audit log.
    const fn add_counted(&mut self, counted: CallSum) {
        self.calls = self.calls.saturating_add(counted.calls);
        self.bytes = self.bytes.saturating_add(counted.bytes);
        self.duration_ms = self.duration_ms.saturating_add(counted.duration_ms);
    }

    /// Returns the sum as text.
    fn words(&self) -> String {
        let refused = if self.refused > 0 { format!(", {} refused", self.refused) } else { String::new() };
        format!(
            "{}{refused}, {} changed, {} returned, {} ms",
            plural(self.calls, "call"),
            plural(self.paths, "path"),
            plural(self.bytes, "byte"),
            self.duration_ms
        )
    }
}

/// `stats` tool.
pub struct Stats;

impl Tool for Stats {
    const NAME: &'static str = "stats";
    const EFFECT: Effect = Effect::Reads;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = StatsRequest;
    type Response = StatsResponse;

    fn run(engine: &mut Engine, request: StatsRequest) -> Result<StatsResponse, Error> {
        let named = engine.named_session().cloned();
        let mut sums = StatsResponse::default();
        let of_session = |session: &str| named.as_ref().is_none_or(|named| named.as_str() == session);
        let Some(state) = State::find(&engine.workspace)? else { return Ok(sums) };
        let (sessions, broken) = audit::sums(&state)?;
        for (session, known) in sessions.into_iter().filter(|(session, _)| of_session(session)) {
            sums.add(&session, known);
        }
        for (key, sum) in calls::sums(&state).into_iter().filter(|(key, _)| of_session(&key.session)) {
            sums.add_counted(key, sum);
        }
        engine.warn_if(broken.map(|broken| {
            let (file, line, message) = (broken.file, broken.line, broken.message);
            format!("the audit log is not whole: {file}, line {line}: {message}")
        }));
        if let Some(session) = named.as_ref().filter(|_| sums.total.calls == 0) {
            targets::session_must_be_known(engine, session)?;
        }
        sums.cut_to(request.offset, request.max_bytes.unwrap_or(engine.policy().max_bytes()));
        Ok(sums)
    }

    fn text(response: &StatsResponse, text: &mut Text) {
        text.line(&format!("all: {}", response.total.words()));
        for (title, sums) in [("tool", &response.by_tool), ("session", &response.by_session)] {
            for (name, sum) in sums {
                text.line(&format!("{title} {}: {}", escaped::name(name), sum.words()));
            }
        }
        for (kind, count) in &response.refusals {
            text.line(&format!("refused as {}: {count}", escaped::name(kind)));
        }
        if let Some(next) = response.next_offset {
            let sessions = plural(response.sessions, "session");
            text.note(format!("{sessions} in all; more: {}", text.option("offset", next)));
        }
    }
}

impl StatsResponse {
    /// Adds calls that may be missing in the audit log.
    fn add_counted(&mut self, key: CallKey, sum: CallSum) {
        self.total.add_counted(sum);
        self.by_tool.entry(key.tool).or_default().add_counted(sum);
        self.by_session.entry(key.session).or_default().add_counted(sum);
    }

    /// Keeps the sessions from `offset` on that fit into `bytes_max`, at least one.
    fn cut_to(&mut self, offset: usize, bytes_max: usize) {
        let all = std::mem::take(&mut self.by_session);
        self.sessions = all.len();
        let json = |sum: &Sum| serde_json::to_string(sum).map_or(0, |json| json.len());
        let size = |(name, sum): &(String, Sum)| name.len() + json(sum);
        self.by_session = fitting(bytes_max, all.into_iter().skip(offset), size).into_iter().collect();
        let next = offset.saturating_add(self.by_session.len());
        self.truncated = next < self.sessions;
        self.next_offset = self.truncated.then_some(next);
    }

    /// Adds the calls of a session.
    fn add(&mut self, session: &str, sums: SessionSums) {
        for (tool, sum) in sums.by_tool {
            self.total.add(&sum);
            self.by_session.entry(session.to_owned()).or_default().add(&sum);
            self.by_tool.entry(tool).or_default().add(&sum);
        }
        for (kind, count) in sums.refusals {
            let known = self.refusals.entry(kind).or_default();
            *known = known.saturating_add(count);
        }
    }
}
