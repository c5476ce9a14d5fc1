//! `prepend`: text at the start of a file.

use super::append::{End, Request as AddRequest, add};
use super::write::Response;
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::error::Error;

/// Add text at the start of a file
///
/// The file need not have been read; it is created if it does not exist.
///
/// A byte-order mark stays first. LF in the text becomes the file's own line ending if that is uniform.
#[derive(Debug, clap::Args, serde::Deserialize, schemars::JsonSchema)]
#[group(skip)] // `append` has a group of that name already
#[serde(transparent)]
pub struct Request {
    /// As for `append`.
    #[command(flatten)]
    request: AddRequest,
}

/// The tool.
pub struct Prepend;

impl Tool for Prepend {
    const NAME: &'static str = "prepend";
    const LISTED: &'static str = "path content";
    const EFFECT: Effect = Effect::Adds;
    const STDIN: Stdin = Stdin::Bulk { field: "content", unless: &[] };
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        add(engine, Self::NAME, &request.request, End::First)
    }

    fn text(response: &Response, text: &mut Text) {
        response.as_text(Self::NAME, text);
    }
}
