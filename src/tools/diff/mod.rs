//! `diff`: shows differences between snapshots.

mod compare;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::common::reject_if;
use super::targets::{self, ChosenSession, is_in_any, no_snapshot, path_must_be_known};
use super::{Effect, Paint, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::snapshot::Store;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::Error;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::escaped::plural;
pub use compare::{Action, DiffWindow, FileStat, Response, with_bytes, write};
use compare::{SessionDiff, compared};

/// Show what changed between two snapshots, in one of them, or in this session
///
/// Without arguments: everything that this session changed. Name a snapshot by its ID or a unique prefix, HEAD or a
/// branch; ~N after it means the Nth before.
///
/// Changes by others in between are not shown. If no session is named and this one changed nothing, the newest snapshot
/// is shown. The diff has git's format, for `git apply` and `patch`. Instead of a path: a snapshot shows its changes,
/// another commit the changes since, A..B or A B the differences between two.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Only this file, or files below this folder
    #[arg(value_name = "PATH")]
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file"]))]
    pub path: Option<PathBuf>,
    /// Further files and folders
    #[arg(value_name = "PATH")]
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["files", "file_paths"]))]
    pub paths: Vec<PathBuf>,
    /// Earlier snapshot; without it, the one before `to`
    #[arg(long, value_name = "SNAPSHOT")]
    #[schemars(extend("x-aliases" = ["base", "old"]))]
    pub from: Option<String>,
    /// Later snapshot; without it, the newest
    #[arg(long, value_name = "SNAPSHOT")]
    #[schemars(extend("x-aliases" = ["target", "new"]))]
    pub to: Option<String>,
    /// One snapshot against the one before it: one call
    #[arg(long, value_name = "SNAPSHOT", conflicts_with_all = ["from", "to"])]
    #[schemars(extend("x-aliases" = ["snapshot", "id", "commit"]))]
    pub of: Option<String>,
    /// Include the content of binary files, for git apply; otherwise only note that they differ
    #[arg(long)]
    pub binary: bool,
    /// Show only line counts for each file
    #[arg(long)]
    pub stat: bool,
    /// Changes of each session in turn; the default at a terminal without other options
    #[arg(long, conflicts_with_all = ["from", "to", "of"])]
    pub by_session: bool,
    /// Lines of the diff to skip, or files with `stat`
    #[arg(long, value_name = "COUNT", default_value_t)]
    #[serde(default)]
    pub offset: usize,
    /// Maximum bytes of diff; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
}

/// `diff` tool.
pub struct Diff;

impl Tool for Diff {
    const NAME: &'static str = "diff";
    const LISTED: &'static str = "from to of path stat";
    const EFFECT: Effect = Effect::Reads;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let both = request.of.is_some() && (request.from.is_some() || request.to.is_some());
        reject_if(both, "of", "field `of` cannot be combined with `from` and `to`: leave them out")?;
        let Some(store) = record::find(engine)? else {
            let named = request.of.as_ref().or(request.from.as_ref()).or(request.to.as_ref());
            if let Some(name) = named {
                return Err(no_snapshot(name, "from", &[]));
            }
            for path in request.path.iter().chain(&request.paths) {
                path_must_be_known(engine, None, path)?;
            }
            return Ok(Response::default());
        };
        let (request, places) = compare::resolve_revisions(engine, &store, request)?;
        let caller = targets::session_named(engine, engine.session())?;
        let is_named = engine.named_session().is_some();
        if is_by_session(engine, &request, &store, &caller)? {
            let response = by_session(engine, &store, &request, &places)?;
            warn_of_cut_lines(engine, &response);
            return Ok(response);
        }
        let (mut response, mut changes) = compared(
            &store,
            &request,
            &record::changes_after(engine, &caller.session, caller.after),
            is_named,
        )?;
        changes.retain(|change| is_in_any(&change.path, &places));
        let deltas = store.deltas(&changes)?;
        let room = AnswerRoom::new(engine.bytes_max(request.max_bytes));
        response.fill(&store, &deltas, &request, DiffWindow::new(request.offset, room))?;
        if response.diff.as_ref().is_some_and(|diff| diff.as_bytes() != response.bytes) {
            engine
                .warn("the diff is not all UTF-8 and is shown lossily here; the text form has its own bytes");
        }
        warn_of_cut_lines(engine, &response);
        Ok(response)
    }

    fn text(response: &Response, text: &mut Text) {
        for session in response.sessions.iter().flatten() {
            let heading = text.paint(Paint::Yellow, &format!("session {}", session.session));
            text.styled(&heading);
            text.diff(&session.bytes);
            session.stat.iter().flatten().for_each(|file| text.entry(&file.line()));
        }
        text.diff(&response.bytes);
        for file in response.stat.iter().flatten() {
            text.entry(&file.line());
        }
        if let Some(next) = response.next_offset {
            text.note(format!("the diff goes on: {}", text.option("offset", next)));
        }
    }

    fn status(response: &Response) -> u8 {
        u8::from(response.files > 0)
    }
}

/// Warns that some lines were cut.
fn warn_of_cut_lines(engine: &mut Engine, response: &Response) {
    if response.cut_lines > 0 {
        engine.warn(format!(
            "{} cut at max_bytes: git apply rejects this diff",
            plural(response.cut_lines, "line")
        ));
    }
}

/// Returns true if the changes of each session are shown: on request, or for a person without a session who gives no
/// other option.
fn is_by_session(
    engine: &Engine,
    request: &Request,
    store: &Store,
    caller: &ChosenSession,
) -> Result<bool, Error> {
    let names_any = request.of.is_some() || request.from.is_some() || request.to.is_some();
    let message = "by_session cannot be combined with from, to and of: leave them out";
    reject_if(request.by_session && names_any, "by_session", message)?;
    if request.by_session || names_any || engine.named_session().is_some() || !engine.is_for_a_person() {
        return Ok(request.by_session);
    }
    Ok(store.newest_change_of(&caller.session)? <= caller.after)
}

/// Returns the changes of each session, latest first.
fn by_session(
    engine: &Engine,
    store: &Store,
    request: &Request,
    places: &[ResolvedPath],
) -> Result<Response, Error> {
    let mut whole = Response { sessions: Some(Vec::new()), ..Response::default() };
    let mut room = AnswerRoom::new(engine.bytes_max(request.max_bytes));
    for name in targets::all_sessions(store)? {
        engine.control.check()?;
        let Ok(id) = name.parse() else { continue };
        let chosen = targets::session_named(engine, &id)?;
        let changed = store.changed_by(&record::changes_after(engine, &name, chosen.after))?;
        let Some(mut changed) = changed else { continue };
        changed.paths.retain(|change| is_in_any(&change.path, places));
        if changed.paths.is_empty() {
            continue;
        }
        if room.is_empty() {
            whole.truncated = true;
            break;
        }
        let deltas = store.deltas(&changed.paths)?;
        let mut response = Response::default();
        response.fill(store, &deltas, request, DiffWindow::new(0, room))?;
        whole.files += response.files;
        whole.truncated |= response.truncated;
        whole.cut_lines += response.cut_lines;
        let said = response
            .stat
            .iter()
            .flatten()
            .map(FileStat::size)
            .fold(TextSize::of(name.as_bytes()), TextSize::and);
        room = room.room_after(said.and(TextSize::of(&response.bytes)));
        let Response { files, stat, diff, bytes, .. } = response;
        let session = SessionDiff { session: name, files, stat, diff, bytes };
        whole.sessions.get_or_insert_default().push(session);
    }
    Ok(whole)
}
