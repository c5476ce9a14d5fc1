//! The tools: one file each.

pub mod glob;
pub mod grep;
pub mod ls;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::Engine;
use crate::error::Error;

/// What a tool does to the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It only looks.
    Reads,
}

/// Whether a request may come on stdin, and as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Never.
    Ignored,
    /// As JSON.
    Request,
}

/// A tool: its request, its answer, and what turns the one into the other.
pub trait Tool {
    /// The name on the wire and on the command line.
    const NAME: &'static str;
    /// What it does to the workspace.
    const EFFECT: Effect;
    /// What it takes from stdin.
    const STDIN: Stdin = Stdin::Request;
    /// The request: flags, JSON and schema derive from it.
    type Request: Args + DeserializeOwned + JsonSchema;
    /// The answer.
    type Response: Serialize + JsonSchema + 'static;

    /// Carries out a request.
    ///
    /// # Errors
    /// The refusals that the tool documents.
    fn run(engine: &mut Engine, request: Self::Request) -> Result<Self::Response, Error>;

    /// The payload alone, for `--text`.
    fn text(response: &Self::Response, text: &mut Text);

    /// The exit status under `--exit-status`.
    fn status(_response: &Self::Response) -> u8 {
        0
    }
}

/// An answer as text: the payload for stdout, notes for stderr.
#[derive(Debug, Default)]
pub struct Text {
    /// The payload.
    pub out: Vec<u8>,
    /// Lines for the reader, such as where to go on.
    pub notes: Vec<String>,
    /// What ends an entry of a list: LF, or NUL under `--null`.
    pub separator: u8,
}

impl Text {
    /// Adds a note.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}
