//! `grep`: lines that match a pattern.

mod empty;
mod request;
mod text;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Effect, Text, Tool};
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::policy::settings::Key;
use crate::error::{Error, ErrorKind};
use crate::search::collect::MatchDetail;
use crate::search::content::FileToSearch;
use crate::search::left_out::Empty;
use crate::search::lines::{Count, Groups, Marked, Matches};
use crate::search::newest::{self, Order};
use crate::search::query::Search;
use crate::search::results::SearchResult;
use crate::search::roots::{Beginning, roots};
use crate::search::walk::Walk;
use crate::text::counted::counted;
pub use request::{OutputMode, Request, Sort};

/// What was found.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Response {
    /// The matches, by path, then line
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<Matches>,
    /// The same, where each file was to be named once
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
    /// The files with matches
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// How many matching lines, or matches, each file has
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Vec<Count>>,
    /// Matches in all; if `truncated` and without `total`, those found so far
    pub matched: u64,
    /// Files with matches, likewise
    pub files_matched: u64,
    /// Whether there is more
    pub truncated: bool,
    /// The `offset` that shows what comes next
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// With `mark`, the sha256 of each file of this page; its lines that `matches` shows whole now
    /// count as read
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marked: Vec<Marked>,
    /// Whether the text is empty.
    #[serde(skip)]
    #[schemars(skip)]
    pub is_quiet: bool,
}

/// Searches the contents of files.
#[derive(Debug)]
pub struct Grep;

impl Tool for Grep {
    const NAME: &'static str = "grep";
    const LISTED: &'static str =
        "pattern path include literal ignore_case word multiline context output_mode limit no_ignore";
    const CORE: bool = true;
    const EFFECT: Effect = Effect::Reads;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, mut request: Request) -> Result<Response, Error> {
        let patterns = request.take_patterns();
        let manner = request.manner(&patterns, engine.policy())?;
        let selection = request.selection(engine)?;
        let roots = roots(&engine.workspace, &request.path, Beginning::Searchable)?;
        let control = match request.timeout_ms.unwrap_or(engine.policy().number(Key::SearchMs)) {
            0 => engine.control.clone(),
            limit => engine.control.clone().within(Duration::from_millis(limit)),
        };
        let mut walk = Walk::new(&engine.workspace, roots.clone(), selection.clone(), control.clone());
        let search = Search {
            workspace: &engine.workspace,
            manner,
            window: request.window(engine.policy()),
            total: request.total,
            group: request.group,
            control: control.clone(),
        };
        let mut outcome = match request.sort {
            Some(Sort::Mtime) => {
                let files = newest::first(&mut walk, Order::Newest, |_| ())?;
                search.run(files.into_iter().map(|(path, ())| FileToSearch::At(path)))
            }
            Some(Sort::Path) | None => search.run(walk.by_ref().map(FileToSearch::Found)),
        };
        if !outcome.complete {
            return Err(ran_out(&control, &outcome));
        }
        let (left_out, mut notes) = (walk.left_out, std::mem::take(&mut walk.notes));
        notes.append(std::mem::take(&mut outcome.notes));
        if outcome.matched == 0 {
            let workspace = &engine.workspace;
            let empty = Empty { workspace, roots, selection, control, left_out };
            request
                .explain(&patterns, &search.manner, &empty)
                .into_iter()
                .for_each(|note| notes.extend(Some(note)));
        }
        if outcome.has_lossy_path() {
            notes.extend(Some("a path is not valid UTF-8: its other bytes are shown as U+FFFD".to_owned()));
        }
        notes.into_lines().into_iter().for_each(|note| engine.warn(note));
        Ok(Response::of(engine, &request, outcome))
    }

    fn text(response: &Response, text: &mut Text) {
        if !response.is_quiet {
            text::write(response, text);
        }
    }

    fn status(response: &Response) -> u8 {
        u8::from(response.matched == 0)
    }
}

impl Response {
    /// What came of a search, the shown lines marked as read.
    fn of(engine: &mut Engine, request: &Request, outcome: SearchResult) -> Self {
        let mut response = Self {
            matched: outcome.matched,
            files_matched: outcome.files_matched,
            truncated: outcome.next_offset.is_some(),
            next_offset: outcome.next_offset,
            is_quiet: request.quiet,
            ..Self::default()
        };
        match request.wanted() {
            MatchDetail::Lines if request.group => response.groups = Some(Groups(outcome.matches)),
            MatchDetail::Lines => response.matches = Some(Matches(outcome.matches)),
            MatchDetail::Presence => response.files = Some(outcome.files),
            MatchDetail::Number => response.counts = Some(outcome.counts),
        }
        for seen in outcome.seen {
            // Where no line was shown, there is nothing to have read.
            if !seen.lines.is_empty() {
                engine.mark_shown(&seen.path, seen.marked.sha256, &seen.stat, &seen.lines);
            }
            response.marked.push(seen.marked);
        }
        response
    }
}

/// The refusal of a search that did not come to its end.
fn ran_out(control: &Control, outcome: &SearchResult) -> Error {
    let how = if control.is_cancelled() { "was cancelled" } else { "ran out of time" };
    Error::new(
        ErrorKind::Timeout,
        format!(
            "the search {how} after {}, with {} so far",
            counted(outcome.files_searched, "file"),
            counted(outcome.matched, "match")
        ),
    )
    .suggest("Narrow `path`, `include` or `type`, or raise `timeout_ms`.")
    .detail("files_searched", outcome.files_searched)
    .detail("matched", outcome.matched)
}
