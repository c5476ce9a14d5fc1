//! `review`: shows the story of a session, for the developer.

mod render;
mod story;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::diff::FileStat;
use super::{Effect, Stdin, Text, Tool, targets};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::store::state::State;
use crate::error::{Error, ErrorKind};
use crate::text::answer_size::AnswerRoom;
pub use story::taken_back;

/// Show what a session did: each change with its diff, what was refused, and what it only read
///
/// In order of time, by turns, with the developer's changes in between, undone changes, and next to each the command that undoes
/// it (for one hunk add --hunk NUMBER). Without --session, the session of the caller, else the last one that changed
/// something. With --html, one page for a browser, which needs no other file.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Write the whole story to this file as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Leave the diffs out
    #[arg(long)]
    pub stat: bool,
    /// Changes to skip
    #[arg(long, value_name = "COUNT", default_value_t)]
    #[serde(default)]
    pub offset: usize,
    /// Maximum bytes of the response; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
}

/// The story of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The session
    pub session: String,
    /// Time of its first change, as RFC 3339
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<String>,
    /// Time of its last change
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Its numbers
    pub totals: Totals,
    /// The changes, oldest first
    pub changes: Vec<ReviewedChange>,
    /// Turns of these changes that a client began, oldest first
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<ReviewedTurn>,
    /// Calls that were refused, oldest first
    pub refused: Vec<Refused>,
    /// Files that it read and never changed
    pub read: Vec<String>,
    /// HTML page that was written
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// True if there are more changes, or a diff was cut
    pub truncated: bool,
    /// Offset to continue at
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// The numbers of a session.
#[derive(Debug, Default, Clone, Serialize, JsonSchema)]
pub struct Totals {
    /// Changes that it made
    pub changes: usize,
    /// How many were undone
    pub undone: usize,
    /// Calls that were refused
    pub refused: usize,
    /// Changes by the developer in between
    pub developer: usize,
    /// Files with a net change
    pub files: usize,
    /// Lines added in the end
    pub insertions: usize,
    /// Lines removed in the end
    pub deletions: usize,
}

/// One change.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ReviewedChange {
    /// `session`, or `developer` for changes made without lbx
    pub by: &'static str,
    /// Its number in the session
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Number of the first change of its turn, if a client began one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The tool
    pub tool: String,
    /// Time, as RFC 3339
    pub time: String,
    /// First line of its snapshot
    pub subject: String,
    /// Reason for the change
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// `warn` or `off`: the policy allowed it although the caller had not read the current bytes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The snapshot; absent if it has none, as for ignored files
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Number of the change that undid it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<u64>,
    /// Numbers of the changes that undid a part of it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undone_in_part_by: Vec<u64>,
    /// The command that undoes it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
    /// The files that it changed
    pub files: Vec<File>,
}

/// A turn of the session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReviewedTurn {
    /// Number of its first change
    pub turn: u64,
    /// Beginning of its prompt, if the policy keeps it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The command that undoes it
    pub undo: String,
}

/// Effect of a change on one file.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct File {
    /// Size of the change.
    #[serde(flatten)]
    pub stat: FileStat,
    /// The command that undoes it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
    /// True if that command can undo one hunk, with `--hunk NUMBER`
    pub by_hunk: bool,
    /// The diff, in git's form
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// A call that was refused.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Refused {
    /// Time, as RFC 3339
    pub time: String,
    /// The tool
    pub tool: String,
    /// Its file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Kind of error
    pub kind: String,
    /// Error message
    pub message: String,
}

/// The `review` tool.
pub struct Review;

impl Tool for Review {
    const NAME: &'static str = "review";
    const EFFECT: Effect = Effect::Reads;
    const STDIN: Stdin = Stdin::Ignored;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let nothing = || {
            let session = engine.session();
            Error::new(ErrorKind::NotFound, format!("session {session} has changed nothing"))
                .suggest("No session has a snapshot here.")
        };
        let Some(store) = record::find(engine)? else { return Err(nothing()) };
        let chosen = targets::current_or_newest_session(engine, &store)?;
        let Some(state) = State::find(&engine.workspace)? else { return Err(nothing()) };
        let story = story::Story::load(engine, &store, &state, &chosen)?;
        if let Some(path) = &request.html {
            let mut response = story.told(0, AnswerRoom::new(0), !request.stat)?;
            let shown = render::write(engine, path, &response)?;
            response.html = Some(shown);
            response.changes.clear();
            response.turns.clear();
            return Ok(response);
        }
        let room = AnswerRoom::new(engine.bytes_max(request.max_bytes));
        story.told(request.offset, room, !request.stat)
    }

    fn text(response: &Response, text: &mut Text) {
        render::tell(response, text);
    }
}
