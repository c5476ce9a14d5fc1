//! `rewind`: takes a session back to one of its snapshots, or to before a turn.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ChangeOptions, ListEnd, subject};
use super::targets::{commit_named, no_snapshot};
use super::undo::{self, ConflictingFile, ConflictingFiles, UndoOptions, UndoneChange};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::Change;
use crate::engine::change::record;
use crate::engine::history::client_calls::Turns;
use crate::engine::history::replay::Direction;
use crate::engine::history::stacks::History;
use crate::engine::journal::ChangeNumbers;
use crate::engine::journal::{self, JournalEntry, RevertedChanges};
use crate::engine::snapshot::SessionProgress;
use crate::engine::store::session::SessionId;
use crate::engine::store::state::State;
use crate::error::{Error, ErrorKind};
use crate::text::escaped::plural;

/// Take a session back to one of its snapshots, or to before a turn: undo every change that it made since
///
/// Without yes, only shows which changes it would undo, and which files conflict. Acts on the session that made the
/// snapshot, unless another one is named. All of it is one change, which `undo` reverses. Returns `stale_file` if
/// others have changed one of its files, unless merge is set and their changes do not touch the same lines.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Snapshot to go back to: an id, a unique beginning of it, or a name with ~N
    #[arg(value_name = "SNAPSHOT")]
    #[schemars(extend("x-aliases" = ["snapshot", "commit", "to"]))]
    pub id: Option<String>,
    /// Instead: back to before the turn that holds the change with this number, in the session that is named, else the
    /// caller's
    #[arg(long, value_name = "NUMBER", conflicts_with = "id")]
    #[schemars(range(min = 1))]
    pub turn: Option<u64>,
    /// Undo the changes instead of only listing them
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Keep what others have changed in the same files since
    #[arg(long)]
    pub merge: bool,
    /// Maximum bytes of the list in the response; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// Changes that were undone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Snapshot to which the session went back, if one was named
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Number of the first change of the turn before which it went back, if a turn was named
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// Session
    pub session: String,
    /// Changes, newest first
    pub undone: Vec<UndoneChange>,
    /// Completeness of the list.
    #[serde(flatten)]
    pub end: ListEnd,
    /// Without yes: files that prevent it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<ConflictingFile>,
}

/// `rewind` tool.
pub struct Rewind;

impl Tool for Rewind {
    const NAME: &'static str = "rewind";
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Request;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let (_, before) = named_snapshot(engine, &request)?;
        if let Ok(session) = before.session.parse::<SessionId>() {
            engine.count_for_session(session);
        }
        let is_preview = !request.yes;
        let mut change = engine.begin(Self::NAME, &[], is_preview || request.options.dry_run)?;
        // Until now others could add snapshots: `lbx-snapshots~3` is another one then, perhaps of another session.
        let (id, at) = named_snapshot(change.engine_ref(), &request)?;
        if at.session != before.session {
            drop(change);
            return Self::run(engine, request);
        }
        let turn = request.turn.map(|_| at.seq + 1);
        let (history, entries) = later(&mut change, &at)?;
        let mut undone = entries.iter().map(|entry| undo::response_change(change.engine(), entry)).collect();
        let end = ListEnd::of(change.engine(), request.max_bytes, &mut undone);
        change.set_takes_back(RevertedChanges { seq: at.seq, paths: Vec::new(), hunk: None });
        let manner = UndoOptions { merge: request.merge, ..UndoOptions::default() };
        let (way, mut conflicts) = (Direction::Undo, ConflictingFiles::default());
        let changed = if is_preview {
            let planned = undo::plan_beside(&mut change, &history, &entries, way, &manner, &mut conflicts);
            conflicts.sift(planned)?
        } else {
            undo::plan(&mut change, &history, &entries, way, &manner)?
        };
        if conflicts.is_empty() {
            change.commit(subject(Self::NAME, &changed), request.options.why)?;
        }
        Ok(Response { id, turn, session: at.session, undone, end, conflicts: conflicts.into_list() })
    }

    fn text(response: &Response, text: &mut Text) {
        undo::as_text(&response.undone, "undo", text);
        response.conflicts.iter().for_each(|conflict| conflict.as_text(text));
        if let Some(first) = response.conflicts.first() {
            let count = plural(response.conflicts.len(), "file");
            text.note(format!("nothing was changed: {count} would conflict. {}", first.suggested_action));
        } else if text.is_of_a_dry_run() {
            let (count, yes) =
                (plural(response.end.total.unwrap_or(response.undone.len()), "change"), text.switch("yes"));
            text.note(format!(
                "nothing was changed: to take back {count} of session {}, repeat the call with {yes}",
                response.session
            ));
        }
    }
}

/// Returns the snapshot that the request names, if it names one, and the state to which the session goes back.
fn named_snapshot(engine: &Engine, request: &Request) -> Result<(Option<String>, SessionProgress), Error> {
    match (&request.id, request.turn) {
        (Some(id), None) => target(engine, id).map(|(id, at)| (Some(id), at)),
        (None, Some(number)) => Ok((None, before_turn(engine, number)?)),
        _ => Err(Error::invalid("name either a snapshot in `id`, or a turn in `turn`").detail("field", "id")),
    }
}

/// Returns the snapshot in the request, and the state of the session at it.
fn target(engine: &Engine, name: &str) -> Result<(String, SessionProgress), Error> {
    let Some(store) = record::find(engine)? else {
        return Err(no_snapshot(name, "id", &[]));
    };
    let id = commit_named(&store, name, "id")?;
    let named = engine.named_session().map(SessionId::as_str);
    match store.session_at(&id, named)? {
        Some(at) => Ok((id, at)),
        None => Err(Error::invalid(match named {
            Some(_) => format!("the commit {name} is not a snapshot"),
            None => format!("the commit {name} belongs to no session: name the session to rewind"),
        })
        .suggest(match named {
            Some(_) => "`log` shows the snapshots.",
            None => "Name it in session; `log` shows the sessions.",
        })
        .detail("field", if named.is_some() { "id" } else { "session" })),
    }
}

/// Returns the state of the caller's session before the turn that holds a change.
fn before_turn(engine: &Engine, number: u64) -> Result<SessionProgress, Error> {
    let session = engine.session().to_string();
    let state = State::find(&engine.workspace)?;
    let numbers = state.as_ref().map(|state| ChangeNumbers::of(state, &session)).transpose()?;
    let newest = numbers.unwrap_or_default().newest()?;
    match state.filter(|_| newest.is_some_and(|newest| newest >= number)) {
        Some(state) => {
            let turn = Turns::load(&state, &session)?.of(number);
            Ok(SessionProgress { session, seq: turn.first.saturating_sub(1) })
        }
        None => Err(undo::no_change(engine, "turn", number, newest)),
    }
}

/// Returns the later changes of a session, newest first; undos and redos are changes as well.
fn later(change: &mut Change<'_>, at: &SessionProgress) -> Result<(History, Vec<JournalEntry>), Error> {
    let nothing = || {
        Error::new(ErrorKind::NotFound, format!("session {} has changed nothing since then", at.session))
            .suggest("`log` shows the changes of all sessions.")
    };
    let Some(state) = change.state() else {
        return Err(nothing());
    };
    let history = History::load(state, &at.session)?;
    let (mut entries, mut damaged) = (Vec::new(), BTreeSet::new());
    for seq in history.numbers.since(at.seq + 1)?.into_iter().rev() {
        match journal::history_entry(state, &at.session, seq)? {
            Some(entry) => entries.push(entry),
            None => drop(damaged.insert(seq)),
        }
    }
    undo::warn_of_damaged(change.engine(), &damaged);
    if entries.is_empty() { Err(nothing()) } else { Ok((history, entries)) }
}
