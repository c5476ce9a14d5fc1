//! `review`: shows the story of a session, for the developer.

mod forks;
mod story;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::ID_DIGITS;
use super::diff::FileStat;
use super::{Effect, Paint, Text, Tool, targets};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::store::state::State;
use crate::error::{Error, ErrorKind};
use crate::text::answer_size::AnswerRoom;
use crate::text::escaped;
use crate::text::escaped::plural;
use forks::{harmless, hash, markup};
pub use story::undone_by;

/// Show what a session did: each change with its diff, what was refused, and what it only read
///
/// In order of time, by turns, with the developer's changes in between, undone changes, and next to each the command that undoes
/// it (for one hunk add --hunk NUMBER). Without --session, the session of the caller, else the last one that changed
/// something. With --html, one page for a browser, which needs no other file. With --forks, it compares what several forks
/// of this workspace changed, and shows the diffs of the files that more than one changed next to each other.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Write the whole story to this file as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Compare the forks of this workspace instead
    #[arg(long)]
    pub forks: bool,
    /// Forks to compare; all without it
    #[arg(value_name = "FORK", value_delimiter = ',', requires = "forks")]
    #[serde(default)]
    pub names: Vec<String>,
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

/// The story of a session, or a comparison of forks.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum ReviewContent {
    /// A story.
    Story(Box<Response>),
    /// A comparison.
    Forks(forks::ForkReview),
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
    /// Calls that were refused, oldest first; the newest ones if not all fit
    pub refused: Vec<RefusedCall>,
    /// Files that it read and never changed
    pub read: Vec<String>,
    /// HTML page that was written
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// True if there are more changes, or some files, diffs or other entries do not fit
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
    pub files: Vec<ReviewedFile>,
    /// Number of files, if not all fit
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_total: Option<usize>,
}

impl ReviewedChange {
    /// Drops the commands that undo it.
    fn drop_undo(&mut self) {
        self.undo = None;
        for file in &mut self.files {
            (file.undo, file.by_hunk) = (None, false);
        }
    }
}

/// A turn of the session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReviewedTurn {
    /// Number of its first change
    pub turn: u64,
    /// Beginning of its prompt, if the policy keeps it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The command that undoes it, unless all its changes are undone
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
}

/// Effect of a change on one file.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ReviewedFile {
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
pub struct RefusedCall {
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
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = ReviewContent;

    fn run(engine: &mut Engine, request: Request) -> Result<ReviewContent, Error> {
        if request.forks || !request.names.is_empty() {
            return compared(engine, &request).map(ReviewContent::Forks);
        }
        session_story(engine, &request).map(|story| ReviewContent::Story(Box::new(story)))
    }

    fn text(response: &ReviewContent, text: &mut Text) {
        match response {
            ReviewContent::Story(story) => add_story(story, text),
            ReviewContent::Forks(review) => forks::add_comparison(review, text),
        }
    }
}

/// Compares forks.
fn compared(engine: &mut Engine, request: &Request) -> Result<forks::ForkReview, Error> {
    let Some(path) = &request.html else {
        let room = AnswerRoom::new(engine.bytes_max(request.max_bytes));
        return forks::review(engine, &request.names, (request.stat, room));
    };
    let mut review = forks::review(engine, &request.names, (request.stat, AnswerRoom::new(0)))?;
    review.html = Some(forks::write(engine, path, &forks::page(&review, &workspace_name(engine)))?);
    // The page has them.
    review.shared.clear();
    Ok(review)
}

/// Returns the story of a session.
fn session_story(engine: &mut Engine, request: &Request) -> Result<Response, Error> {
    let Some(state) = State::find(&engine.workspace)? else {
        let message = format!("session {} has changed nothing", engine.session());
        return Err(Error::new(ErrorKind::NotFound, message).suggest("No session has a snapshot here."));
    };
    let store = record::find(engine)?;
    let chosen = targets::current_or_newest_session(engine, store.as_ref(), &state)?;
    let story = story::Story::load(engine, store.as_ref(), &state, &chosen)?;
    if let Some(path) = &request.html {
        let mut response = story.story_from(0, AnswerRoom::new(0), !request.stat)?;
        let shown = forks::write(engine, path, &page(&response, &workspace_name(engine))?)?;
        response.html = Some(shown);
        response.changes.clear();
        response.turns.clear();
        return Ok(response);
    }
    let room = AnswerRoom::new(engine.bytes_max(request.max_bytes));
    story.story_from(request.offset, room, !request.stat)
}

/// Number of read-only files that are named.
const READ_NAMED: usize = 20;

/// Adds the story to `text`.
pub fn add_story(response: &Response, text: &mut Text) {
    if let Some(path) = &response.html {
        text.name(path);
        text.out.push(text.separator);
    }
    if !response.changes.is_empty() || response.html.is_none() {
        head(response, text);
        let mut turn = None;
        for change in &response.changes {
            if change.seq.is_some() && change.turn != turn {
                turn = change.turn;
                let turn = response.turns.iter().find(|known| Some(known.turn) == turn);
                turn.iter().for_each(|turn| add_turn_heading(turn, text));
            }
            add_change(change, &response.session, text);
        }
        tail(response, text);
    }
    if let Some(next) = response.next_offset {
        text.note(format!("more changes: {}", text.option("offset", next)));
    }
}

/// Adds the numbers.
fn head(response: &Response, text: &mut Text) {
    let totals = &response.totals;
    let times = match (&response.began, &response.ended) {
        (Some(began), Some(ended)) => format!(", {began} to {ended}"),
        _ => String::new(),
    };
    let session = format!("session {}", response.session);
    let session = text.paint(Paint::Bold, &session);
    let (changes, files) = (plural(totals.changes, "change"), plural(totals.files, "file"));
    let (came, went) = (totals.insertions, totals.deletions);
    text.styled(&format!("{session}: {changes}, {files} (+{came} -{went}){times}"));
    let mut beside = Vec::new();
    for (count, what) in [
        (totals.undone, "undone"),
        (totals.refused, "refused"),
        (totals.developer, "by the developer in between"),
    ] {
        if count > 0 {
            beside.push(format!("{count} {what}"));
        }
    }
    if !beside.is_empty() {
        text.line(&beside.join(", "));
    }
}

/// Adds the heading of a turn.
fn add_turn_heading(turn: &ReviewedTurn, text: &mut Text) {
    let title = turn.title.iter().map(|title| format!(": {}", escaped::line(title))).collect::<String>();
    let heading = text.paint(Paint::Bold, &format!("turn {}{title}", turn.turn));
    text.out.push(b'\n');
    text.styled(&heading);
    add_undo_command(turn.undo.as_deref(), text);
}

/// Adds the command that undoes a change or a turn, if there is one.
fn add_undo_command(undo: Option<&str>, text: &mut Text) {
    if let Some(undo) = undo {
        let undo = text.paint(Paint::Dim, &format!("    {}", escaped::line(undo)));
        text.styled(&undo);
    }
}

/// Adds one change.
fn add_change(change: &ReviewedChange, session: &str, text: &mut Text) {
    let id: String = change.snapshot.iter().flat_map(|id| id.chars()).take(ID_DIGITS).collect();
    let number = change.seq.map_or_else(|| "-".to_owned(), |seq| format!("#{seq}"));
    let who = if change.by == "session" { session } else { change.by };
    let id = text.paint(Paint::Yellow, &format!("{id:ID_DIGITS$}"));
    let subject = text.paint(Paint::Bold, &escaped::line(&change.subject));
    let gate = change.gate.as_ref().map(|gate| format!(" [gate {gate}]")).unwrap_or_default();
    let undone = match (change.undone_by, change.undone_in_part_by.as_slice()) {
        (Some(by), _) => format!(" [undone by #{by}]"),
        (None, []) => String::new(),
        (None, parts) => {
            let parts: Vec<String> = parts.iter().map(|seq| format!("#{seq}")).collect();
            format!(" [undone in part by {}]", parts.join(", "))
        }
    };
    let marks = text.paint(Paint::Red, &format!("{gate}{undone}"));
    text.out.push(b'\n');
    text.styled(&format!("{number} {id} {} {who} {subject}{marks}", change.time));
    if let Some(why) = &change.why {
        why.lines().for_each(|line| text.line(&format!("    {line}")));
    }
    add_undo_command(change.undo.as_deref(), text);
    change.files.iter().for_each(|file| add_file(file, text));
    if let Some(total) = change.files_total {
        text.line(&format!("  and {} more", total.saturating_sub(change.files.len())));
    }
}

/// Adds one file of a change.
fn add_file(file: &ReviewedFile, text: &mut Text) {
    if let Some(diff) = &file.diff {
        text.diff(diff.as_bytes());
        return;
    }
    text.line(&format!("  {}", file.stat.line()));
}

/// Adds the refused calls, and the files that were only read.
fn tail(response: &Response, text: &mut Text) {
    if !response.refused.is_empty() {
        text.out.push(b'\n');
        let heading = text.paint(Paint::Bold, "refused");
        text.styled(&heading);
        for refused in &response.refused {
            let path = refused.path.as_deref().unwrap_or_default();
            let (tool, kind) = (&refused.tool, &refused.kind);
            let name = escaped::name(path);
            text.line(&format!("  {} {tool} {name} {kind}: {}", refused.time, refused.message));
        }
    }
    if !response.read.is_empty() {
        text.out.push(b'\n');
        let heading = text.paint(Paint::Bold, "read, not changed");
        text.styled(&heading);
        for path in response.read.iter().take(READ_NAMED) {
            text.line(&format!("  {}", escaped::name(path)));
        }
        let more = response.read.len().saturating_sub(READ_NAMED);
        if more > 0 {
            text.line(&format!("  and {more} more"));
        }
    }
}

/// Page without its parts.
const PAGE: &str = include_str!("page.html");
/// Style sheet of the page.
const STYLE: &str = include_str!("page.css");
/// Script of the page.
const SCRIPT: &str = include_str!("page.js");

/// Returns the name of the workspace, for the title of a page.
fn workspace_name(engine: &Engine) -> String {
    let name = engine.workspace.root().file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_default()
}

/// Returns the page of a story in the workspace `name`.
fn page(response: &Response, name: &str) -> Result<String, Error> {
    let story = serde_json::json!({ "workspace": name, "story": response });
    let story = serde_json::to_string(&story)
        .map_err(|error| Error::internal(format!("the story is not valid JSON: {error}")))?;
    let title = format!("Review of session {} in {name}", response.session);
    let parts = [
        ("TITLE", markup(&title)),
        ("STYLE-HASH", hash(STYLE)),
        ("SCRIPT-HASH", hash(SCRIPT)),
        ("STYLE", STYLE.to_owned()),
        ("STORY", harmless(&story)),
        ("SCRIPT", SCRIPT.to_owned()),
    ];
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + story.len());
    let mut rest = PAGE;
    // In one pass, so that inserted text is never taken for a part.
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let (part, after) = after.split_once("}}").unwrap_or((after, ""));
        let text = parts.iter().find(|(name, _)| *name == part).map(|(_, text)| text.as_str());
        page.push_str(text.unwrap_or_default());
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}
