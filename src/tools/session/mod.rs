//! `session`: shows the files that a session has read and changed, for an agent that no longer remembers.

mod items;

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{reject_if, time_text, unlimited_if_0};
use super::{Effect, Text, Tool};
use crate::engine::Engine;
use crate::engine::journal::ChangeNumbers;
use crate::engine::sandbox::caches;
use crate::engine::store::session;
use crate::engine::store::session::SessionState;
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::text::escaped::plural;
pub use items::net_size;
use items::{Items, PathStatus, ReadState as ItemState};

/// Show what this session has read and changed, or reset it
///
/// status: what was read, changed and refused. brief: the same in words, for a fresh context. compact: everything read
/// counts as unread; call it after your context was compacted. forget: the same for these paths. list: every session.
/// end: start over; undo still reaches back.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Action to take
    #[arg(value_name = "ACTION", value_enum, default_value_t)]
    #[serde(default)]
    pub action: Action,
    /// Files or folders: to forget, or to tell the status of
    #[arg(value_name = "PATH")]
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["path", "file_path"], "type" = ["string", "array"]))]
    pub paths: Vec<PathBuf>,
    /// Entries to skip, as `next_offset` says
    #[arg(long, value_name = "COUNT")]
    pub offset: Option<usize>,
    /// Maximum bytes of the lists; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// Show what would be forgotten without forgetting it
    #[arg(long)]
    pub dry_run: bool,
}

impl Request {
    /// Returns the request for an action on the whole session.
    pub const fn of(action: Action) -> Self {
        Self { action, paths: Vec::new(), offset: None, max_bytes: None, dry_run: false }
    }
}

/// Action on the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Files read and changed, calls refused
    #[default]
    Status,
    /// Every session of the workspace
    List,
    /// Mark these paths as unread
    Forget,
    /// Mark everything as unread
    Compact,
    /// The status in words, for a fresh context
    Brief,
    /// End the session
    End,
}

impl Action {
    /// Returns its name.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Files that the session has read and changed. An entry is `PATH`, with `:LINES` if not all was read, then ` +ADDED
/// -REMOVED` lines since the session began, ` new`, ` deleted` or ` was OLD`. If there are many, those of a folder
/// share an entry: `FOLDER/{ENTRY, ENTRY}`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Response {
    /// The session
    pub session: String,
    /// Changes that it made, with undone ones and undos
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<usize>,
    /// Files unchanged since they were read
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fresh: Vec<String>,
    /// Files that someone else has changed since
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<String>,
    /// Files that were read and are now missing
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// Files read before the context was compacted, and not since
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compacted: Vec<String>,
    /// Other paths that were changed
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Calls that were refused
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedCalls>,
    /// Every session, the last used first
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Vec<ListedSession>>,
    /// Paths now unread, or that would be
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<usize>,
    /// The status in words
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brief: Option<String>,
    /// True if the list was cut
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Offset to continue at
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// Action that was taken.
    #[serde(skip)]
    action: Action,
    /// Entries of a status, for `--text`.
    #[serde(skip)]
    lines: Vec<String>,
}

/// Calls that were refused.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RefusedCalls {
    /// Their number, from the newest part of the audit log
    pub count: usize,
    /// The last of them, newest first
    pub last: Vec<String>,
}

/// One session of the workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListedSession {
    /// Its name
    pub session: String,
    /// Time of its last use, RFC 3339
    pub time: String,
    /// Files that it has read; absent if its state is unreadable
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<usize>,
    /// Changes that it made
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<u64>,
    /// True if it is the caller's
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub current: bool,
}

/// The `session` tool.
pub struct Session;

impl Tool for Session {
    const NAME: &'static str = "session";
    const LISTED: &'static str = "action paths";
    const CORE: bool = true;
    const EFFECT: Effect = Effect::Reads;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        request.check()?;
        let state = State::find(&engine.workspace)?;
        engine.set_dry_run(request.dry_run);
        let session = engine.session().to_string();
        let answer = Response { session, action: request.action, ..Response::default() };
        match request.action {
            Action::Status => status(engine, state.as_ref(), &request, answer),
            Action::Brief => brief(engine, state.as_ref(), &request, answer),
            Action::List => list(engine, state.as_ref(), &request, answer),
            Action::Forget | Action::Compact | Action::End => {
                forget(engine, state.as_ref(), &request, answer)
            }
        }
    }

    fn text(response: &Response, text: &mut Text) {
        match response.action {
            Action::Status => response.status_text(text),
            Action::Brief => {
                text.out.extend_from_slice(response.brief.as_deref().unwrap_or_default().as_bytes());
            }
            Action::List => {
                for listed in response.sessions.iter().flatten() {
                    text.entry(&listed.line());
                }
            }
            Action::Forget | Action::Compact | Action::End => {
                let count = response.forgotten.unwrap_or_default();
                let action = response.action.name();
                text.entry(&format!(
                    "session {}: {action}, {} unread now",
                    response.session,
                    plural(count, "file")
                ));
            }
        }
        if let Some(next) = response.next_offset {
            text.note(format!("more entries: {}", text.option("offset", next)));
        }
    }
}

impl Request {
    /// Fails if a field does not fit the action.
    fn check(&self) -> Result<(), Error> {
        let takes_paths = matches!(self.action, Action::Status | Action::Forget);
        let message = format!("{} takes no paths; forget and status do", self.action.name());
        reject_if(!takes_paths && !self.paths.is_empty(), "paths", message)?;
        let lacks_paths = self.action == Action::Forget && self.paths.is_empty();
        reject_if(lacks_paths, "paths", "forget takes the paths to forget; compact forgets all")
    }

    /// Returns the maximum bytes of the lists.
    fn bytes_max(&self, engine: &Engine) -> usize {
        unlimited_if_0(self.max_bytes.unwrap_or(engine.policy().max_bytes()))
    }
}

impl Response {
    /// Adds items to the lists of their states, in the form that `entries` returns.
    fn list(&mut self, items: &[PathStatus], entries: fn(&[&PathStatus]) -> Vec<String>) {
        for state in ItemState::ALL {
            let list = match state {
                ItemState::Fresh => &mut self.fresh,
                ItemState::Stale => &mut self.stale,
                ItemState::Gone => &mut self.gone,
                ItemState::Compacted => &mut self.compacted,
                ItemState::Unread => &mut self.changed,
            };
            *list = entries(&items.iter().filter(|item| item.state == state).collect::<Vec<_>>());
        }
    }

    /// Notes where the list goes on, if not all `count` entries come before `next`.
    fn ends_at(&mut self, next: usize, count: usize) {
        self.truncated = next < count;
        self.next_offset = self.truncated.then_some(next);
    }

    /// Writes the status, one entry per line.
    fn status_text(&self, text: &mut Text) {
        text.entry(&format!(
            "session {}: {}",
            self.session,
            plural(self.changes.unwrap_or_default(), "change")
        ));
        self.lines.iter().for_each(|line| text.entry(line));
        if let Some(refused) = &self.refused {
            refused.last.iter().for_each(|call| text.entry(&format!("refused {call}")));
            if refused.count > refused.last.len() {
                let calls = plural(refused.count as u64, "call");
                text.note(format!("refused: {calls}; lbx audit lists them"));
            }
        }
    }
}

impl ListedSession {
    /// Returns one line for a person.
    fn line(&self) -> String {
        let counts = match (self.read, self.changes) {
            (Some(read), Some(changes)) => format!("{read} read\t{}", plural(changes, "change")),
            _ => "its state cannot be read".to_owned(),
        };
        let current = if self.current { "\tcurrent" } else { "" };
        format!("{}\t{}\t{counts}{current}", self.session, self.time)
    }
}

/// Returns the caller's session; warns if its state was damaged.
fn load(engine: &mut Engine, state: Option<&State>) -> Result<Arc<SessionState>, Error> {
    let Some(state) = state else {
        return Ok(Arc::default());
    };
    let load = if engine.is_dry_run() { session::load_unchanged } else { session::load };
    let (session, warning) = load(state, engine.session())?;
    engine.warn_if(warning);
    Ok(session)
}

/// Returns the paths of a request, from the root.
fn places(engine: &Engine, request: &Request) -> Result<Vec<WorkspacePath>, Error> {
    let resolve = |path: &PathBuf| Ok(engine.workspace.resolve(path)?.path().clone());
    request.paths.iter().map(resolve).collect()
}

/// Files and calls of a session that one response shows.
struct SessionPage {
    /// All of the session's paths.
    items: Items,
    /// Part of them from the offset on that fits.
    shown: Vec<PathStatus>,
    /// Refused calls.
    refused: Option<RefusedCalls>,
}

/// Returns the part of the session that a request asks for.
fn page(engine: &mut Engine, state: Option<&State>, request: &Request) -> Result<SessionPage, Error> {
    let session = load(engine, state)?;
    let items = Items::of(engine, state, session, &places(engine, request)?)?;
    let shown = items.page(engine, state, request.offset.unwrap_or(0), request.bytes_max(engine))?;
    let refused = items.refused(state)?;
    Ok(SessionPage { items, shown, refused })
}

/// Returns the files read and changed, and the calls refused.
fn status(
    engine: &mut Engine,
    state: Option<&State>,
    request: &Request,
    mut answer: Response,
) -> Result<Response, Error> {
    let SessionPage { items, shown: page, refused } = page(engine, state, request)?;
    answer.changes = Some(items.changes());
    answer.ends_at(request.offset.unwrap_or(0) + page.len(), items.len());
    if items.len() == 0 && !request.paths.is_empty() {
        engine.warn("nothing of that was read or changed in this session");
    }
    if page.iter().any(|item| !item.is_utf8) {
        engine.warn("a name is not UTF-8 and is shown lossily");
    }
    answer.refused = refused;
    answer.list(&page, |items| items.iter().map(ToString::to_string).collect());
    for state in ItemState::ALL {
        let lines = page.iter().filter(|item| item.state == state);
        answer.lines.extend(lines.map(|item| format!("{} {item}", state.name())));
    }
    let is_long = serde_json::to_string(&answer).is_ok_and(|json| json.len() > FLAT_BYTES_MAX);
    if is_long {
        answer.list(&page, items::entries);
    }
    Ok(answer)
}

/// Largest status in which each path is named whole, in bytes. With the text that surrounds it, it has less than a
/// kilobyte; a longer status names each folder once.
const FLAT_BYTES_MAX: usize = 950;

/// Returns the status in words.
fn brief(
    engine: &mut Engine,
    state: Option<&State>,
    request: &Request,
    mut answer: Response,
) -> Result<Response, Error> {
    let SessionPage { items, shown, refused } = page(engine, state, request)?;
    let (offset, bytes_max) = (request.offset.unwrap_or(0), request.bytes_max(engine));
    let (text, count) = items::text_that_fits(engine, &items, &shown, refused.as_ref(), offset, bytes_max);
    answer.ends_at(offset + count, items.len());
    answer.brief = Some(text);
    Ok(answer)
}

/// Returns every session of the workspace.
fn list(
    engine: &Engine,
    state: Option<&State>,
    request: &Request,
    mut answer: Response,
) -> Result<Response, Error> {
    let known = state.map(session::list).transpose()?.unwrap_or_default();
    let (offset, bytes_max) = (request.offset.unwrap_or(0), request.bytes_max(engine));
    let (mut sessions, mut bytes, mut next) = (Vec::new(), 0, offset);
    for known in known.iter().skip(offset) {
        engine.control.check()?;
        next += 1;
        let found = state.and_then(|state| session::load_for_display(state, &known.id));
        if found.as_ref().is_some_and(SessionState::has_ended) {
            continue;
        }
        let changes =
            |session: &SessionState| session.seq.saturating_sub(session.after().map_or(0, |ended| ended.seq));
        let listed = ListedSession {
            session: known.id.to_string(),
            time: time_text(known.time),
            read: found.as_ref().map(SessionState::marks_total),
            changes: found.as_ref().map(changes),
            current: known.id == *engine.session(),
        };
        bytes += listed.line().len() + LISTED_BYTES;
        if bytes > bytes_max && !sessions.is_empty() {
            next -= 1;
            break;
        }
        sessions.push(listed);
    }
    answer.ends_at(next, known.len());
    answer.sessions = Some(sessions);
    Ok(answer)
}

/// Bytes of the field names in an entry of the list.
const LISTED_BYTES: usize = 40;

/// Marks paths, or all, as unread, or ends the session.
fn forget(
    engine: &mut Engine,
    state: Option<&State>,
    request: &Request,
    mut answer: Response,
) -> Result<Response, Error> {
    let mut session = load(engine, state)?;
    let paths = places(engine, request)?;
    let last = match state {
        Some(state) => ChangeNumbers::of(state, engine.session().as_str())?.newest()?,
        None => None,
    };
    let change = |session: &mut SessionState| match request.action {
        Action::Forget => paths.iter().map(|path| session.forget_below(path).len()).sum(),
        Action::End => {
            let read = session.marks_total();
            let ended = session.after().map_or(0, |ended| ended.seq);
            session.end(last.unwrap_or_default().max(session.seq).max(ended));
            read
        }
        _ => {
            let read = session.marks_total();
            session.compact();
            read
        }
    };
    let mut forgotten: usize = change(Arc::make_mut(&mut session));
    if let Some(state) = state.filter(|_| !request.dry_run) {
        let warning = session::update(state, engine.session(), |session| forgotten = change(session))?;
        engine.warn_if(warning);
        if request.action == Action::End {
            caches::remove_tmp(state, engine.session());
        }
    }
    if forgotten == 0 && request.action == Action::Forget {
        engine.warn("nothing of that was read in this session");
    }
    answer.forgotten = Some(forgotten);
    Ok(answer)
}
