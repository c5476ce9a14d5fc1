//! `move`: moves or renames a file or folder.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::ChangeOptions;
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind, text};
use crate::sha256::Sha256;
use crate::text::escaped;

/// Move or rename a file or folder
///
/// Never overwrites. Missing folders are created.
///
/// Files read in this session count as read under the new name. A symlink is moved itself, never its target.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// File or folder to move
    #[schemars(extend("x-aliases" = ["source", "old_path", "path"]))]
    pub from: PathBuf,
    /// The new path; with a slash at its end, an existing folder to move into
    #[schemars(extend("x-aliases" = ["destination", "new_path"]))]
    pub to: PathBuf,
    /// Fail unless the SHA-256 of the file is this one
    #[arg(long, value_name = "HEX")]
    pub expected_sha256: Option<Sha256>,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

impl Request {
    /// Returns the digest that identifies a repeated request.
    fn digest(&self) -> Sha256 {
        let Self { from, to, expected_sha256, options: _ } = self;
        Sha256::of(format!("move {:?} {expected_sha256:?}", (from, to)).as_bytes())
    }
}

/// File or folder that was moved.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Old path
    pub from: String,
    /// New path
    pub to: String,
    /// True if this session made an equal request before and its result still holds
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub already_applied: bool,
}

/// `move` tool.
pub struct Move;

impl Tool for Move {
    const NAME: &'static str = "move";
    const LISTED: &'static str = "from to";
    const ALIASES: &'static [&'static str] = &["move_file", "rename"];
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Request;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let named: [(&str, &Path); 2] = [("from", &request.from), ("to", &request.to)];
        let mut change = engine.begin(Self::NAME, &named, request.options.dry_run)?;
        let is_repeated = change.is_repeated(request.digest(), request.expected_sha256.is_some())?;
        let from = change.resolve_entry_to_move(&request.from)?;
        let mut to = change.resolve_destination(&request.to)?;
        // `move a.txt d/` moves into d, as mv does; without the slash it may be a mistake.
        if request.to.as_os_str().as_bytes().ends_with(b"/")
            && to.stat().is_some_and(fs::is_folder)
            && let Some(name) = from.path().name()
        {
            to = change.resolve_destination(&request.to.join(name))?;
        }
        let (shown_from, shown_to) = (from.display().to_owned(), to.display().to_owned());
        if is_repeated {
            return Ok(Response { from: shown_from, to: shown_to, already_applied: true });
        }
        if from.stat().is_none() {
            return Err(change.engine().workspace.not_found(&from));
        }
        if to.path().is_within(from.path()) && to.path() != from.path() {
            return Err(Error::invalid(format!(
                "{} is inside {}: a folder cannot be moved into itself",
                to.display(),
                from.display()
            ))
            .at(to.display()));
        }
        if to.stat().is_some() {
            return Err(occupied(change.workspace(), &from, &to));
        }
        if !from.stat().is_some_and(fs::is_folder) {
            to.must_take_a_file()?;
        }
        change.must_have_sha256(&from, request.expected_sha256)?;
        change.move_whole(from.path(), to.path(), false)?;
        change.commit(format!("move: {} -> {}", from.path(), to.path()), request.options.why)?;
        Ok(Response { from: shown_from, to: shown_to, already_applied: false })
    }

    fn text(response: &Response, text: &mut Text) {
        let (from, to) = (escaped::name(&response.from), escaped::name(&response.to));
        let already = if response.already_applied { " (already applied)" } else { "" };
        text.change(&format!("move: {from} -> {to}{already}"));
    }
}

/// Returns the error for a destination that exists. For a folder it asks a question, because `mv` moves into it.
fn occupied(workspace: &Workspace, from: &ResolvedPath, to: &ResolvedPath) -> Error {
    let shown = to.display();
    let within = from.path().name().filter(|_| to.stat().is_some_and(fs::is_folder));
    // Ask only if that move would succeed.
    let within = within.map(|name| to.path().join(name)).filter(|within| {
        let there = fs::stat_beneath(workspace.root_fd(), within);
        !within.is_within(from.path()) && matches!(there, Err(Errno::NOENT))
    });
    let advice = within.map_or_else(
        || "Choose another name in `to`.".into(),
        |within| text!("Did you mean {}? `to` is the new path itself.", workspace.display(&within)),
    );
    Error::new(ErrorKind::AlreadyExists, format!("{shown} exists already, and move never overwrites"))
        .at(shown)
        .suggest(advice)
}
