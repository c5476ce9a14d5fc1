//! `redo`: what undo took back, done again.

use schemars::JsonSchema;
use serde::Serialize;

use super::common::ListEnd;
use super::undo::{self, Undone};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::history::replay::Direction;
use crate::error::Error;

/// Redo what was undone, the oldest change first
///
/// A change made after an undo ends what could be redone.
///
/// Steps are changes: after an undo of three, one step does the oldest of them again.
#[derive(Debug, clap::Args, serde::Deserialize, schemars::JsonSchema)]
#[group(skip)]
#[serde(transparent)]
pub struct Request {
    /// As for `undo`.
    #[command(flatten)]
    request: undo::Steps,
}

/// What was done again.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The changes, in the order in which they were done again
    pub redone: Vec<Undone>,
    /// Whether that is all.
    #[serde(flatten)]
    pub end: ListEnd,
}

/// The tool.
pub struct Redo;

impl Tool for Redo {
    const NAME: &'static str = "redo";
    const LISTED: &'static str = "steps path merge";
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Ignored;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let undo::Response { undone: redone, end } = undo::run(engine, &request.request, Direction::Redo)?;
        Ok(Response { redone, end })
    }

    fn text(response: &Response, text: &mut Text) {
        undo::as_text(&response.redone, Self::NAME, text);
        response.end.note(response.redone.len(), text);
    }
}
