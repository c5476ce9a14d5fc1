//! `undo`: takes back changes of a session.

mod files;
mod part;
mod plan;
mod response;

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ChangeOptions, ListEnd, subject};
use super::targets::{LOG_SHOWS, lost_state};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::Change;
use crate::engine::history::replay::Direction;
use crate::engine::history::stacks::History;
use crate::engine::journal::JournalEntry;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::message::text;
pub use files::{Interleaved, Manner};
pub use plan::{Conflict, Conflicts, plan, plan_beside};
use response::touches;
pub use response::{Other, Undone, as_text, listed, newest_of_others};

/// Undo changes of this session, the newest first
///
/// A file that has changed since is not touched (`stale_file`) unless merge is set and the changes touch other lines.
///
/// Works for every changing tool, over several files and calls; several changes are undone together or not at all.
/// Another undo goes further back; redo does the changes again, one by one. With seq, takes back that one change, or
/// one file or hunk of it, and keeps later changes; if both touch the same lines, it fails and shows the conflict. That
/// is a change of its own, which an undo takes back.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Number of steps, and options.
    #[command(flatten)]
    #[serde(flatten)]
    pub steps: Steps,
    /// Undo only the change with this number; `log` and `review` show the numbers
    #[arg(long, value_name = "NUMBER", conflicts_with = "steps")]
    #[schemars(range(min = 1))]
    pub seq: Option<u64>,
    /// With seq, undo only this hunk of the change's diff, from 1
    #[arg(long, value_name = "NUMBER", requires = "seq")]
    #[schemars(range(min = 1))]
    pub hunk: Option<usize>,
}

/// Options of undo and redo.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[group(skip)]
pub struct Steps {
    /// Number of changes
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub steps: usize,
    /// Only changes of this file or folder
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path"]))]
    pub path: Option<PathBuf>,
    /// Merge if a file has changed since
    #[arg(long)]
    #[serde(default)]
    pub merge: bool,
    /// Maximum bytes of the list in the response; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// Dry run and reason.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// Returns one step.
const fn one() -> usize {
    1
}

/// Result of an undo.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The changes, newest first
    pub undone: Vec<Undone>,
    /// End of the list.
    #[serde(flatten)]
    pub end: ListEnd,
}

/// The `undo` tool.
pub struct Undo;

impl Tool for Undo {
    const NAME: &'static str = "undo";
    const LISTED: &'static str = "steps path merge";
    const CORE: bool = true;
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Ignored;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        match request.seq {
            Some(seq) => part::run(engine, &request, seq),
            None if request.hunk.is_some() => {
                Err(Error::invalid("hunk needs seq: the number of the change").detail("field", "hunk"))
            }
            None => run(engine, &request.steps, Direction::Undo),
        }
    }

    fn text(response: &Response, text: &mut Text) {
        as_text(&response.undone, Self::NAME, text);
        response.end.note(response.undone.len(), text);
    }
}

/// Undoes or redoes changes: as one change, whole or not at all.
///
/// # Errors
/// Fails with `not_found` if there is nothing to undo or redo, or with `stale_file`.
pub fn run(engine: &mut Engine, request: &Steps, direction: Direction) -> Result<Response, Error> {
    if request.steps == 0 {
        return Err(Error::invalid("steps counts from 1").detail("field", "steps"));
    }
    let path = match &request.path {
        Some(path) => Some(engine.workspace.resolve_entry(path)?.path().clone()),
        None => None,
    };
    let mut change = engine.begin(direction.name(), &[], request.options.dry_run)?;
    let (history, entries) = entries(&mut change, request.steps, direction, path.as_ref())?;
    let mut listed: Vec<Undone> = entries.iter().map(|entry| listed(change.engine(), entry)).collect();
    warn_of_damaged(change.engine(), history.damaged());
    if direction == Direction::Undo {
        warn_of_lost(change.engine(), &entries);
    }
    change.set_reverts(entries.iter().map(|entry| entry.seq).collect());
    let manner = Manner { merge: request.merge, ..Manner::default() };
    let paths = plan(&mut change, &history, &entries, direction, &manner)?;
    change.commit(subject(direction.name(), &paths), request.options.why.clone())?;
    let end = ListEnd::of(engine, request.max_bytes, &mut listed);
    Ok(Response { undone: listed, end })
}

/// Returns the changes to undo or redo, in that order.
fn entries(
    change: &mut Change<'_>,
    steps: usize,
    direction: Direction,
    path: Option<&WorkspacePath>,
) -> Result<(History, Vec<JournalEntry>), Error> {
    let session = change.engine().session().as_str().to_owned();
    let (history, entries) = match change.state() {
        Some(state) => {
            let mut history = History::load(state, &session)?;
            let wanted = |entry: &JournalEntry| path.is_none_or(|path| touches(entry, path));
            let entries = history.next(state, direction, steps, wanted)?;
            (history, entries)
        }
        None => (History::default(), Vec::new()),
    };
    if entries.is_empty() {
        let what = match path {
            Some(path) => format!("session {session} has nothing to {} in {path}", direction.name()),
            None => format!("session {session} has nothing to {}", direction.name()),
        };
        if let Some(lost) = lost_state(change.engine()).or_else(|| skipped(history.damaged())) {
            return Err(Error::new(ErrorKind::NotFound, format!("{what}: {lost}")).suggest(
                "`log` shows the snapshots, and `diff` what each changed; git can bring back their files.",
            ));
        }
        let error = Error::new(ErrorKind::NotFound, what);
        // `undo 3` means a file of that name.
        if let Some(number) = path.and_then(|path| path.to_string().parse::<usize>().ok()) {
            return Err(error
                .suggest(format!("Did you mean `steps` {number}?"))
                .on_command_line(format!("On the command line: --steps {number}.")));
        }
        return Err(error.suggest(LOG_SHOWS));
    }
    Ok((history, entries))
}

/// Warns of changes that were skipped since their records cannot be read.
pub fn warn_of_damaged(engine: &mut Engine, damaged: &BTreeSet<u64>) {
    if let Some(skipped) = skipped(damaged) {
        engine.warn(text!("{}: `log` finds its snapshot", skipped));
    }
}

/// Lists changes that were skipped since their records cannot be read; `None` if there are none.
fn skipped(damaged: &BTreeSet<u64>) -> Option<String> {
    let numbers: Vec<String> = damaged.iter().map(|seq| format!("#{seq}")).collect();
    let skipped = || format!("skipped {}, whose record in the journal is damaged", numbers.join(", "));
    (!numbers.is_empty()).then(skipped)
}

/// Warns of files that a command changed and whose old bytes were not saved.
fn warn_of_lost(engine: &mut Engine, entries: &[JournalEntry]) {
    /// Number of files that are named.
    const NAMED: usize = 20;
    let total: usize = entries.iter().map(|entry| entry.lost_total).sum();
    if total > 0 {
        let lost = entries.iter().flat_map(|entry| &entry.lost).take(NAMED);
        let names: Vec<String> = lost.map(|path| engine.workspace.shown(path)).collect();
        let more = total.saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        engine.warn(format!("not restored, because no copy exists: {}{more}", names.join(", ")));
    }
}

/// Redo undone changes, oldest first
///
/// A change made after an undo ends redo.
///
/// Steps are changes: after an undo of three, one step does the oldest of them again.
#[derive(Debug, clap::Args, serde::Deserialize, schemars::JsonSchema)]
#[group(skip)]
#[serde(transparent)]
pub struct RedoRequest {
    /// Options, as for `undo`.
    #[command(flatten)]
    request: Steps,
}

/// Result of a redo.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RedoResponse {
    /// The changes, in the order of redo
    pub redone: Vec<Undone>,
    /// End of the list.
    #[serde(flatten)]
    pub end: ListEnd,
}

/// The `redo` tool.
pub struct Redo;

impl Tool for Redo {
    const NAME: &'static str = "redo";
    const LISTED: &'static str = "steps path merge";
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Ignored;
    const FOR_PEOPLE: bool = true;
    type Request = RedoRequest;
    type Response = RedoResponse;

    fn run(engine: &mut Engine, request: RedoRequest) -> Result<RedoResponse, Error> {
        let Response { undone: redone, end } = run(engine, &request.request, Direction::Redo)?;
        Ok(RedoResponse { redone, end })
    }

    fn text(response: &RedoResponse, text: &mut Text) {
        as_text(&response.redone, Self::NAME, text);
        response.end.note(response.redone.len(), text);
    }
}
