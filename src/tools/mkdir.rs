//! `mkdir`: creates an empty folder.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ChangeOptions, subject};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::error::Error;
use crate::text::escaped;

/// Create an empty folder and its missing parents
///
/// Leaves an existing folder alone. The other tools create the folders that they need: use this one for a folder that
/// stays empty for now. Undo removes the new folders while they are empty.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Folder to create
    #[schemars(extend("x-aliases" = ["dir", "directory", "dir_path"]))]
    pub path: PathBuf,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// Result of the call.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Path
    pub path: String,
    /// True if the folder is new
    pub created: bool,
}

/// `mkdir` tool.
pub struct Mkdir;

impl Tool for Mkdir {
    const NAME: &'static str = "mkdir";
    const EFFECT: Effect = Effect::Adds;
    const STDIN: Stdin = Stdin::Request;
    const SERVED: bool = false;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let path: &Path = &request.path;
        let mut change = engine.begin(Self::NAME, &[("path", path)], request.options.dry_run)?;
        let place = change.resolve_folder(path)?;
        let created = change.make_folder(&place)?;
        change.commit(subject(Self::NAME, &[place.path().clone()]), request.options.why)?;
        Ok(Response { path: place.display().to_owned(), created })
    }

    fn text(response: &Response, text: &mut Text) {
        let path = escaped::name(&response.path);
        text.change(&if response.created {
            format!("mkdir: {path}")
        } else {
            format!("mkdir: {path} exists already")
        });
    }
}
