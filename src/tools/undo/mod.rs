//! `undo`: takes back changes of a session.

mod files;
mod part;
mod plan;
mod response;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ChangeOptions, ListEnd, entry_at, reject_if};
use super::{Effect, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::Change;
use crate::engine::history::replay::Direction;
use crate::engine::history::stacks::History;
use crate::engine::journal::JournalEntry;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
pub use files::{SingleChange, UndoOptions};
use part::ChangesToReplay;
pub use part::no_change;
pub use plan::{ConflictingFile, ConflictingFiles, plan, plan_beside};
pub use response::{
    ForeignChange, UndoneChange, as_text, newest_of_others, response_change, touches, warn_of_damaged,
};
use response::{nothing_to_undo, record_is_damaged};

/// Undo changes of this session, the newest first
///
/// A file that has changed since is not touched (`stale_file`) unless merge is set and the changes touch other lines.
///
/// Works for every changing tool, over several files and calls; several changes are undone together or not at all.
/// Another undo goes further back; redo does the changes again, one by one. With seq, takes back that one change, or
/// one file or hunk of it, and keeps later changes; if both touch the same lines, it fails and shows the conflict. That
/// is a change of its own, which an undo takes back. With turn, takes back all changes that answered one prompt, and
/// keeps later ones likewise.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Number of steps, and options.
    #[command(flatten)]
    #[serde(flatten)]
    pub steps: Steps,
    /// Undo only the change with this number; `log` and `review` show the numbers
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["steps", "turn"])]
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
    pub merge: bool,
    /// All changes of one turn: of the last one, or of the one that holds the change with this number; 0 for the last
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, default_missing_value = "0")]
    #[arg(conflicts_with_all = ["steps", "path"])]
    pub turn: Option<u64>,
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
    pub undone: Vec<UndoneChange>,
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
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let Request { steps, seq, hunk } = &request;
        reject_if(seq.is_some() && steps.turn.is_some(), "turn", "turn and seq exclude each other")?;
        reject_if(seq.is_none() && hunk.is_some(), "hunk", "hunk needs seq: the number of the change")?;
        match *seq {
            Some(seq) => part::run(engine, &request, seq),
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
    reject_if(request.steps == 0, "steps", "steps counts from 1")?;
    if let Some(number) = request.turn {
        return part::run_turn(engine, request, number, direction);
    }
    let path = entry_at(engine, request.path.as_deref())?;
    let mut change = engine.begin(direction.name(), &[], request.options.dry_run)?;
    let turnaround = newest(&mut change, request.steps, direction, path.as_ref())?;
    let is_among = turnaround.records.is_some();
    let single =
        turnaround.changes.first().filter(|_| is_among).map(|change| SingleChange::Change(change.seq));
    let manner = UndoOptions { merge: request.merge, single, ..UndoOptions::default() };
    turnaround.carry_out(change, request, direction, &manner)
}

/// Returns the next changes to undo or redo, in that order.
fn newest(
    change: &mut Change<'_>,
    steps: usize,
    direction: Direction,
    path: Option<&WorkspacePath>,
) -> Result<ChangesToReplay, Error> {
    let session = change.engine().session().as_str().to_owned();
    let (mut history, mut changes, mut records) = (History::default(), Vec::new(), None);
    if let Some(state) = change.state() {
        history = History::load(state, &session)?;
        let wanted = |entry: &JournalEntry| path.is_none_or(|path| touches(entry, path));
        changes = history.next(state, direction, steps, wanted)?;
        if history.is_out_of_order(state, direction, &changes)? {
            records = Some(part::records_among(change, &history, state, &changes)?);
        }
    }
    if changes.is_empty() {
        return Err(nothing_to_undo(change.engine(), direction, path, &history.damaged));
    }
    // What an unreadable record changed, or took back, is unknown: nothing older can be the newest change.
    let oldest = changes.iter().map(|entry| entry.seq).min().unwrap_or_default();
    if let Some(seq) = history.damaged.iter().next_back().filter(|seq| **seq > oldest)
        && direction == Direction::Undo
        && path.is_none()
    {
        return Err(record_is_damaged(*seq));
    }
    Ok(ChangesToReplay { history, changes, records })
}

/// Redo undone changes, oldest first
///
/// A change made after an undo ends redo.
///
/// Steps are changes: after an undo of three, one step does the oldest of them again. With turn, does all undone changes
/// of one turn again, by default of the turn that was undone last.
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
    pub redone: Vec<UndoneChange>,
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
