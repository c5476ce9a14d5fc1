//! `audit`: every change and refusal, in order.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::common::PLACES_LISTED;
use super::revisions;
use super::sessions;
use super::{Effect, Paint, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::policy::Policy;
use crate::engine::policy::settings::Key;
use crate::engine::store::audit;
use crate::engine::store::audit::{AuditRecord, Broken};
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::error::{Error, ErrorKind};
use crate::text::counted::counted;
use crate::text::escaped;

/// Paths of a record that a person sees.
const PATHS_NAMED: usize = 3;
/// Digits of an id that a person sees.
const ID_DIGITS: usize = 10;

/// Show the audit log, newest first, or check that nobody has altered it
///
/// One record for each call that changed something or was refused to: time, session, tool, files with
/// their sha256 before and after, snapshot, reason, and the gate's mode where there was no proof.
///
/// verify names the first record that was altered or removed. Shows all sessions, unless one is named.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Only calls that concern this file or folder
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
    #[serde(default)]
    pub verify: bool,
    /// Maximum bytes of records; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
}

/// What the log holds.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The records, the newest first
    pub records: Vec<Value>,
    /// How many records there are, with these filters
    pub total: usize,
    /// Whether there are more than are shown
    pub truncated: bool,
    /// Where to continue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// True where the chain is whole; absent unless asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
}

/// The tool.
pub struct Audit;

impl Tool for Audit {
    const NAME: &'static str = "audit";
    const LISTED: &'static str = "path limit verify";
    const EFFECT: Effect = Effect::Reads;
    const STDIN: Stdin = Stdin::Ignored;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let path = match &request.path {
            Some(path) => Some(engine.workspace.resolve_entry(path)?.path().clone()),
            None => None,
        };
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
        let (records, broken) = match State::find(&engine.workspace)? {
            Some(state) => audit::read(&state, &mut |record| is_of_path(record) && is_of_session(record))?,
            None => (Vec::new(), None),
        };
        if let Some(broken) = broken.filter(|_| request.verify) {
            return Err(not_whole(&broken));
        }
        if let Some(written) = request.path.as_ref().filter(|_| records.is_empty()) {
            let store = record::find(engine)?;
            revisions::must_be_there(engine, store.as_ref(), written)?;
        }
        if let Some(session) = named.as_ref().filter(|_| records.is_empty()) {
            sessions::must_be_known(engine, session)?;
        }
        Ok(page(engine.policy(), &records, &request))
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
            text.note(format!("{shown} of {}; continue with {go_on}", counted(response.total, "record")));
        }
    }
}

/// A record in one line, for a person.
fn line(record: &Value, text: &Text) -> String {
    let field =
        |name: &str| escaped::line(record.get(name).and_then(Value::as_str).unwrap_or_default()).into_owned();
    let files = record.get("files").and_then(Value::as_array).into_iter().flatten();
    let files = files.filter_map(|file| file.get("path")?.as_str());
    // Where the trash keeps something is no news to a person.
    let is_own = |path: &str| std::path::Path::new(path).starts_with(STATE_FOLDER);
    let files: Vec<&str> = files.filter(|path| !is_own(path)).collect();
    let mut paths: Vec<String> =
        files.iter().take(PATHS_NAMED).map(|path| escaped::name(path).into_owned()).collect();
    if files.len() > PATHS_NAMED {
        paths.push(format!("and {} more", files.len() - PATHS_NAMED));
    }
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
        paths.join(", "),
        outcome,
        text.paint(Paint::Red, &gate),
        text.paint(Paint::Yellow, &snapshot),
    ];
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

/// The refusal of a log whose chain is broken.
fn not_whole(broken: &Broken) -> Error {
    let Broken { file, line, message } = broken;
    let message = format!("the audit log is not whole: {file}, line {line}: {message}");
    Error::new(ErrorKind::VerificationFailed, message)
        .detail("broken", json!({ "file": file, "line": line, "message": broken.message }))
}

/// Leaves the first of the files of a record that alone is longer than an answer.
fn shorten_files(record: &mut Value) {
    let Some(record) = record.as_object_mut() else { return };
    if let Some(files) = record.get_mut("files").and_then(Value::as_array_mut) {
        let total = files.len();
        files.truncate(PLACES_LISTED);
        record.insert("files_total".to_owned(), total.into());
    }
}

/// The part of the records that was asked for.
fn page(policy: &Policy, records: &[AuditRecord], request: &Request) -> Response {
    let (offset, bytes_max) = (request.offset.unwrap_or(0), request.max_bytes.unwrap_or(policy.max_bytes()));
    let limit = match request.limit.unwrap_or(policy.size(Key::AuditLimit)) {
        0 => usize::MAX,
        limit => limit,
    };
    let (mut shown, mut bytes) = (Vec::new(), 0);
    for record in records.iter().rev().skip(offset).take(limit) {
        let mut value = audit::as_value(record);
        let size = value.to_string().len();
        bytes += size;
        if bytes_max > 0 && bytes > bytes_max && !shown.is_empty() {
            break;
        }
        if bytes_max > 0 && size > bytes_max {
            shorten_files(&mut value);
        }
        shown.push(value);
    }
    let next = offset + shown.len();
    let truncated = next < records.len();
    Response {
        total: records.len(),
        truncated,
        next_offset: truncated.then_some(next),
        verified: request.verify.then_some(true),
        records: shown,
    }
}
