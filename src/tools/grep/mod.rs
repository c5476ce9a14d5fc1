//! `grep`: finds lines that match a pattern.

mod request;

use schemars::JsonSchema;
use serde::Serialize;

use super::common::{search_control, warn_of_search};
use super::{Effect, Stdin, Text, Tool};
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::workspace::path::ShownPath;
use crate::error::{Error, ErrorKind};
use crate::limits::PLAIN_FILES_MAX;
use crate::search::collect::{MatchDetail, MatchStyle, with_rest};
use crate::search::content::FileToSearch;
use crate::search::dir_sizes::{self, SizeOrder};
use crate::search::entry::WalkEntry;
use crate::search::file::SearchOptions;
use crate::search::file::SearchParameters;
use crate::search::globs::split;
use crate::search::globs::{StartTypes, roots};
use crate::search::matches::Match;
use crate::search::matches::{FileMatchCount, FileMatches, Matches, SearchedFile};
use crate::search::page::PageWindow;
use crate::search::pattern;
use crate::search::pattern::{Pattern, PatternOptions, compile};

use crate::search::results::{EmptySearch, SearchResult, is_small};
use crate::search::walk::Walk;
use crate::text::escaped::plural;
pub use request::{FileOrder, OutputMode, Request};

/// Result of the search.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Response {
    /// Matches, by path, then line
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<Matches>,
    /// Matches grouped by file, if asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<FileMatches>>,
    /// Files with matches
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<ShownPath>>,
    /// Matching lines, or matches, per file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Vec<FileMatchCount>>,
    /// Matches; if `truncated` and without `total`, those found so far
    pub matched: u64,
    /// Number of files with matches
    pub files_matched: u64,
    /// True if there is more
    pub truncated: bool,
    /// `offset` at which to continue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// With `mark`, the sha256 of each file of this page; the lines that `matches` shows whole now count as read
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marked: Vec<SearchedFile>,
    /// True if the text output is empty.
    #[serde(skip)]
    pub is_quiet: bool,
}

/// `grep` tool.
#[derive(Debug)]
pub struct Grep;

impl Tool for Grep {
    const NAME: &'static str = "grep";
    const LISTED: &'static str =
        "pattern path include literal ignore_case word multiline context output_mode limit no_ignore";
    const CORE: bool = true;
    const EFFECT: Effect = Effect::Reads;
    const STDIN: Stdin = Stdin::Request;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, mut request: Request) -> Result<Response, Error> {
        let patterns = request.take_patterns();
        let manner = request.manner(&patterns, engine.policy())?;
        let selection = request.selection(engine)?;
        let roots = roots(&engine.workspace, &request.path, StartTypes::Searchable)?;
        let control = search_control(engine, request.timeout_ms);
        let mut walk = Walk::new(&engine.workspace, roots.clone(), selection.clone(), control.clone());
        let search = SearchParameters {
            workspace: &engine.workspace,
            manner,
            window: request.window(engine.policy()),
            total: request.total,
            group: request.group,
            control: control.clone(),
        };
        let mut outcome = match request.sort {
            Some(FileOrder::Mtime) => {
                let files = dir_sizes::first_in_order(&mut walk, SizeOrder::Newest, |_| ())?;
                search.run(files.into_iter().map(|(path, ())| FileToSearch::At(path)))
            }
            Some(FileOrder::Path) | None => search.run(walk.by_ref().map(FileToSearch::Found)),
        };
        if !outcome.complete {
            return Err(unfinished_error(&control, &outcome));
        }
        let (left_out, mut notes) = (std::mem::take(&mut walk.left_out), std::mem::take(&mut walk.notes));
        notes.append(std::mem::take(&mut outcome.notes));
        if outcome.matched == 0 {
            let workspace = &engine.workspace;
            let empty = EmptySearch { workspace, roots, selection, control, left_out };
            request
                .explain(&patterns, &search.manner, &empty)
                .into_iter()
                .for_each(|note| notes.extend(Some(note)));
        }
        let is_lossy = outcome.has_lossy_path();
        warn_of_search(engine, notes, is_lossy);
        Ok(Response::of(engine, &request, outcome))
    }

    fn text(response: &Response, text: &mut Text) {
        if !response.is_quiet {
            write(response, text);
        }
    }

    fn status(response: &Response) -> u8 {
        u8::from(response.matched == 0)
    }
}

impl Response {
    /// Returns the response of a search, and marks the shown lines as read.
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
            MatchDetail::Lines if request.group => response.groups = Some(outcome.matches),
            MatchDetail::Lines => response.matches = Some(Matches(outcome.matches)),
            MatchDetail::Presence => response.files = Some(outcome.files),
            MatchDetail::Number => response.counts = Some(outcome.counts),
        }
        for seen in outcome.seen {
            // Without shown lines, nothing was read.
            if !seen.lines.is_empty() {
                engine.mark_shown(&seen.path, seen.marked.sha256, &seen.stat, &seen.lines);
            }
            response.marked.push(seen.marked);
        }
        response
    }
}

/// Returns the error for a search that did not finish.
fn unfinished_error(control: &Control, outcome: &SearchResult) -> Error {
    let how = if control.is_cancelled() { "was cancelled" } else { "ran out of time" };
    Error::new(
        ErrorKind::Timeout,
        format!(
            "the search {how} after {}, with {} so far",
            plural(outcome.files_searched, "file"),
            plural(outcome.matched, "match")
        ),
    )
    .suggest("Narrow `path`, `include` or `type`, or raise `timeout_ms`.")
    .detail("files_searched", outcome.files_searched)
    .detail("matched", outcome.matched)
}

/// Largest number of letters after the second slash of `/pattern/i`.
const FLAGS_MAX: usize = 4;

impl Request {
    /// Returns possible reasons why nothing was found.
    fn explain(&self, patterns: &[String], manner: &SearchOptions, empty: &EmptySearch<'_>) -> Vec<String> {
        let left_out = empty.advice(|found| {
            let files: Vec<WalkEntry> = found.filter(is_small).collect();
            files_with_matches(manner, empty, files.into_iter())
        });
        // Every line matches an inverted pattern that finds nothing.
        let pattern = match patterns {
            [pattern] if !self.reading.literal && !self.invert => Some(pattern),
            _ => None,
        };
        left_out
            .into_iter()
            .chain(self.selected_nothing(empty))
            .chain(pattern.and_then(|pattern| self.as_expression(pattern, manner, empty)))
            .chain(pattern.and_then(|pattern| self.basic_syntax(pattern, manner, empty)))
            .collect()
    }

    /// Returns a note if the globs select no files, so that the pattern is not the reason.
    fn selected_nothing(&self, empty: &EmptySearch<'_>) -> Option<String> {
        let globs: Vec<&str> =
            self.include.iter().map(String::as_str).filter(|glob| !glob.starts_with('!')).collect();
        let fields = [("include", &self.include), ("exclude", &self.exclude), ("type", &self.r#type)];
        let given = fields.into_iter().filter(|(_, values)| !values.is_empty());
        let given: Vec<String> =
            given.map(|(field, values)| format!("{field} {}", values.join(", "))).collect();
        if given.is_empty() || empty.walk().next().is_some() {
            return None;
        }
        if globs.is_empty() {
            return Some(format!("{} selects no file here", given.join(" with ")));
        }
        let several = globs.iter().any(|glob| split(glob).len() > 1);
        let hint = if several { ": give each glob by itself, as one of a list" } else { "" };
        Some(format!("include {} selects no file here{hint}", globs.join(", ")))
    }

    /// Returns a note if the files contain the pattern as plain text.
    fn as_expression(
        &self,
        pattern: &str,
        manner: &SearchOptions,
        empty: &EmptySearch<'_>,
    ) -> Option<String> {
        if let Some((inner, flags)) = pattern.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'))
            && !inner.is_empty()
            && flags.bytes().all(|flag| flag.is_ascii_lowercase())
            && flags.len() <= FLAGS_MAX
        {
            return Some(format!(
                "the slashes of `{pattern}` are part of the regular expression: did you mean `{inner}`?"
            ));
        }
        let reading = PatternOptions { literal: true, ..self.reading.clone() };
        let Pattern { matcher, .. } = compile(&[pattern.to_owned()], &reading).ok()?;
        let is_special = pattern.contains(|character: char| "\\^$.|?*+()[]{}".contains(character));
        let manner = SearchOptions { matcher, per_file_max: Some(1), ..manner.clone() };
        let is_there =
            is_special && files_with_matches(&manner, empty, empty.walk().take(PLAIN_FILES_MAX)) > 0;
        is_there.then(|| {
            format!("`{pattern}` was read as a regular expression; as plain text it does occur: set literal to true")
        })
    }

    /// Returns the pattern in the syntax of lbx if it was written in the basic syntax of `grep`, and this explains the
    /// miss.
    fn basic_syntax(&self, pattern: &str, manner: &SearchOptions, empty: &EmptySearch<'_>) -> Option<String> {
        if !pattern::is_likely_basic(pattern) {
            return None;
        }
        let extended = pattern::as_extended(pattern)?;
        let Pattern { matcher, .. } = compile(std::slice::from_ref(&extended), &self.reading).ok()?;
        let would_match = || {
            let manner = SearchOptions { matcher, per_file_max: Some(1), ..manner.clone() };
            files_with_matches(&manner, empty, empty.walk()) > 0
        };
        // A literal `|` is rare in search patterns.
        (pattern::has_basic_alternative(pattern) || would_match()).then(|| {
            format!(
                "a backslash before |, +, ?, {{ or ( makes it plain text here: did you mean `{extended}`?"
            )
        })
    }
}

/// Returns the number of `files` with a match.
fn files_with_matches(
    manner: &SearchOptions,
    empty: &EmptySearch<'_>,
    files: impl Iterator<Item = WalkEntry> + Send,
) -> u64 {
    let style = MatchStyle { wanted: MatchDetail::Presence, ..manner.style.clone() };
    let search = SearchParameters {
        workspace: empty.workspace,
        manner: SearchOptions { style, before: 0, after: 0, hash: false, ..manner.clone() },
        window: PageWindow { offset: 0, limit: 0, bytes_max: 0 },
        total: false,
        group: false,
        control: empty.control.clone(),
    };
    search.run(files.map(FileToSearch::Found)).files_matched
}

/// Writes the payload and the notes.
fn write(response: &Response, text: &mut Text) {
    let flat = response.matches.iter().flat_map(|matches| &matches.0);
    let grouped = response.groups.iter().flatten();
    for (index, file) in flat.chain(grouped).enumerate() {
        if index > 0 {
            text.out.push(b'\n');
        }
        write_file(file, text);
    }
    for file in response.files.iter().flatten() {
        text.path(file);
        text.out.push(text.separator);
    }
    for count in response.counts.iter().flatten() {
        text.name(&count.path);
        text.out.push(if text.separator == 0 { 0 } else { b':' });
        text.out.extend_from_slice(format!("{}\n", count.count).as_bytes());
    }
    if let Some(next) = response.next_offset {
        text.note(format!("more matches follow: {}", text.option("offset", next)));
    }
}

/// Writes the matches of one file under its name.
fn write_file(file: &FileMatches, text: &mut Text) {
    text.name(&file.path);
    text.out.push(b'\n');
    let mut before: Option<(u64, bool)> = None;
    for entry in file.entries() {
        let (first, last) = entry.shown_lines();
        // Lines around a match are only there if they were asked for.
        let is_apart = |(line, has_after): (u64, bool)| {
            first > line + 1 && (has_after || !entry.before.is_empty() || !entry.after.is_empty())
        };
        if before.is_some_and(is_apart) {
            text.out.extend_from_slice(b"--\n");
        }
        write_match(&entry, text);
        before = Some((last, !entry.after.is_empty()));
    }
}

/// Writes one match with its context.
fn write_match(entry: &Match<'_>, text: &mut Text) {
    let (first, _) = entry.shown_lines();
    write_lines(text, first, '-', entry.before.lines().map(|(line, _)| line));
    write_lines(text, entry.line, ':', with_rest(entry.text, entry.line_bytes).split('\n'));
    write_lines(text, entry.line + entry.lines.max(1), '-', entry.after.lines().map(|(line, _)| line));
}

/// Writes lines with their numbers.
fn write_lines<'r>(text: &mut Text, first: u64, mark: char, lines: impl Iterator<Item = &'r str>) {
    for (number, line) in (first..).zip(lines) {
        text.out.extend_from_slice(format!("{number}{mark}{line}\n").as_bytes());
    }
}
