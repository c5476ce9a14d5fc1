//! `edit`: exact text, replaced.

mod apply;
mod rebase;

use std::path::PathBuf;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{self, DiffWanted, PLACES_LISTED, Shown, Trial, subject};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::path::WorkspacePath;
use crate::engine::policy::Gate;
use crate::engine::transaction::{Change, Current, Intent, Known, Seen};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::content::Content;
use crate::text::patch;
use apply::{Edited, Step};

/// Replace text in a file, where it stands exactly once
///
/// The file must have been read in this session and be unchanged since. `old_string` must match
/// exactly, whitespace included; only line endings may differ, and `new_string` takes those of the
/// file. Every byte outside the replaced text stays as it is. Several edits in one call are done
/// in order, all or none. On the command line, `edit PATH` takes blocks of
/// `<<<<<<< SEARCH`, `=======`, `>>>>>>> REPLACE` on stdin.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// File to change
    #[schemars(extend("x-aliases" = ["file_path", "filename", "file", "target_file"]))]
    pub path: Option<PathBuf>,
    /// Several files to change in the same way, all or none
    #[arg(value_name = "PATH")]
    #[schemars(extend("x-aliases" = ["files", "file_paths"]))]
    pub paths: Option<Vec<PathBuf>>,
    /// Text to find, exactly as it stands in the file
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["old_str", "old_text", "before", "search"]))]
    pub old_string: Option<String>,
    /// Text to put in its place; may be empty
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["new_str", "new_text", "after", "replacement"]))]
    pub new_string: Option<String>,
    /// Replace whole words only
    #[arg(long)]
    #[serde(default)]
    pub word: bool,
    /// Replace every place instead of the only one
    #[arg(long)]
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["allow_multiple"]))]
    pub replace_all: bool,
    /// Replace every place, and refuse where there are not just as many
    #[arg(long, value_name = "COUNT")]
    #[schemars(range(min = 1))]
    pub expected_replacements: Option<usize>,
    /// How `old_string` may match
    #[arg(long = "match", value_name = "HOW", value_enum, default_value_t)]
    #[serde(default)]
    pub r#match: Match,
    /// Several edits, done in order, each on the result of the one before; instead of `old_string`
    #[arg(skip)]
    pub edits: Option<Vec<Item>>,
    /// SHA-256 of the file's bytes as last seen; takes the place of a read
    #[arg(long, value_name = "HEX")]
    pub expected_sha256: Option<Sha256>,
    /// Where the file has changed since it was read, but not in the edited lines, edit it all the same
    #[arg(long)]
    #[serde(default)]
    pub rebase: bool,
    /// Whether to do it, and why.
    #[command(flatten)]
    #[serde(flatten)]
    pub trial: Trial,
    /// How much of it to show.
    #[command(flatten)]
    #[serde(flatten)]
    pub shown: Shown,
    /// SEARCH/REPLACE blocks, from stdin
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub blocks: Option<String>,
}

/// One of several edits.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Text to find
    #[schemars(extend("x-aliases" = ["old_str", "old_text", "before", "search"]))]
    pub old_string: String,
    /// Text to put in its place
    #[schemars(extend("x-aliases" = ["new_str", "new_text", "after", "replacement"]))]
    pub new_string: String,
    /// Replace whole words only
    #[serde(default)]
    pub word: bool,
    /// Replace every place
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["allow_multiple"]))]
    pub replace_all: bool,
    /// Replace every place, and refuse where there are not just as many
    #[schemars(range(min = 1))]
    pub expected_replacements: Option<usize>,
}

/// How the text to find may match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// Byte for byte, line endings aside
    #[default]
    Exact,
}

/// How it did match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Matched {
    /// Byte for byte, line endings aside.
    Exact,
    /// The new text stands there already; nothing was touched.
    AlreadyApplied,
}

/// What was changed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum Response {
    /// In one file.
    One(FileEdited),
    /// In several, in the order asked for.
    Several {
        /// One answer a file.
        files: Vec<FileEdited>,
    },
}

/// What was changed in a file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileEdited {
    /// The file
    pub path: String,
    /// SHA-256 of its bytes now
    pub sha256: Sha256,
    /// Places replaced
    pub count: usize,
    /// The first 20 of them, as lines of the file now
    pub replacements: Vec<LineRange>,
    /// How `old_string` matched
    pub r#match: Matched,
    /// True where the file had changed since it was read, elsewhere than here
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rebased: bool,
    /// What changed, as a unified diff
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Some lines of a file, from 1, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineRange {
    /// The first
    pub start_line: u64,
    /// The last
    pub end_line: u64,
}

/// The tool.
pub struct Edit;

impl Tool for Edit {
    const NAME: &'static str = "edit";
    const ALIASES: &'static [&'static str] = &["edit_file", "str_replace", "search_replace", "multi_edit"];
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Bulk { field: "blocks", unless: &["old_string", "new_string"] };
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let steps = request.steps()?;
        let paths = request.files()?;
        let mut change = engine.begin(Self::NAME, request.trial.dry_run)?;
        if change.is_repeated(digest(&paths, &steps))? {
            return repeated(&mut change, &paths, request.paths.is_none());
        }
        let mut edited = Vec::with_capacity(paths.len());
        let mut changed: Vec<WorkspacePath> = Vec::new();
        for path in paths {
            let (answer, path) = edit_file(&mut change, path, &steps, &request)?;
            if let Some(path) = path {
                if changed.contains(&path) {
                    return Err(
                        Error::invalid(format!("{} is named twice in paths", answer.path)).at(answer.path)
                    );
                }
                changed.push(path);
            }
            edited.push(answer);
        }
        change.commit(subject(Self::NAME, &changed), request.trial.why)?;
        Ok(Response::of(edited, request.paths.is_none()))
    }

    fn text(response: &Response, text: &mut Text) {
        let files = match response {
            Response::One(file) => std::slice::from_ref(file),
            Response::Several { files } => files,
        };
        for file in files {
            file.as_text(Self::NAME, text);
        }
    }
}

impl Response {
    /// The answer for one file alone, or for a list of them.
    fn of(mut edited: Vec<FileEdited>, is_single: bool) -> Self {
        match edited.pop() {
            Some(only) if is_single && edited.is_empty() => Self::One(only),
            last => {
                edited.extend(last);
                Self::Several { files: edited }
            }
        }
    }
}

/// By what a repeated request is known.
fn digest(paths: &[&PathBuf], steps: &[Step]) -> Sha256 {
    Sha256::of(format!("edit {paths:?} {steps:?}").as_bytes())
}

/// The answer to a request that this session has made before, and after which nothing has changed.
fn repeated(change: &mut Change<'_>, paths: &[&PathBuf], is_single: bool) -> Result<Response, Error> {
    let mut edited = Vec::with_capacity(paths.len());
    for path in paths {
        let current = change.look_at(path)?;
        edited.push(FileEdited {
            path: current.place().shown().to_owned(),
            sha256: current.sha256(),
            count: 0,
            replacements: Vec::new(),
            r#match: Matched::AlreadyApplied,
            rebased: false,
            diff: None,
        });
    }
    Ok(Response::of(edited, is_single))
}

impl Request {
    /// The edits, in order.
    fn steps(&self) -> Result<Vec<Step>, Error> {
        let single = self.old_string.is_some() || self.new_string.is_some();
        if usize::from(single) + usize::from(self.edits.is_some()) + usize::from(self.blocks.is_some()) > 1 {
            return Err(Error::invalid("old_string and edits both say what to change: give one of them"));
        }
        let items = match (&self.edits, &self.blocks) {
            (Some(edits), _) => edits.clone(),
            (None, Some(blocks)) => self.items_of(blocks)?,
            (None, None) => vec![self.single()?],
        };
        if items.is_empty() {
            return Err(
                Error::invalid("field `edits` is empty: name at least one edit").detail("field", "edits")
            );
        }
        let is_list = self.edits.is_some() || items.len() > 1;
        let total = items.len();
        items
            .into_iter()
            .zip(1..)
            .map(|(item, number)| Step::new(item, is_list.then_some((number, total))))
            .collect()
    }

    /// The edit that the request's own fields describe.
    fn single(&self) -> Result<Item, Error> {
        let missing = |field: &str| {
            Error::invalid(format!("field `{field}` is missing (or give several edits as `edits`)"))
                .detail("field", field)
        };
        Ok(Item {
            old_string: self.old_string.clone().ok_or_else(|| missing("old_string"))?,
            new_string: self.new_string.clone().ok_or_else(|| missing("new_string"))?,
            word: self.word,
            replace_all: self.replace_all,
            expected_replacements: self.expected_replacements,
        })
    }

    /// The edits in SEARCH/REPLACE blocks.
    fn items_of(&self, blocks: &str) -> Result<Vec<Item>, Error> {
        let blocks = patch::search_replace_blocks(blocks.as_bytes()).map_err(|error| {
            Error::invalid(format!("stdin, line {}: {}", error.line, error.message)).suggest(
                "Send blocks of <<<<<<< SEARCH, =======, >>>>>>> REPLACE, or give --old-string and --new-string.",
            )
        })?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let items = blocks.into_iter().map(|block| Item {
            old_string: text(block.search),
            new_string: text(block.replace),
            word: self.word,
            replace_all: self.replace_all,
            expected_replacements: self.expected_replacements,
        });
        Ok(items.collect())
    }

    /// The files, in order.
    fn files(&self) -> Result<Vec<&PathBuf>, Error> {
        let files: Vec<&PathBuf> = self.path.iter().chain(self.paths.iter().flatten()).collect();
        if files.is_empty() {
            return Err(
                Error::invalid("field `path` is missing: name the file to change").detail("field", "path")
            );
        }
        if files.len() > 1 && self.expected_sha256.is_some() {
            return Err(Error::invalid(
                "expected_sha256 is that of one file: read the files instead, or edit one",
            ));
        }
        Ok(files)
    }
}

/// Plans the edits of one file; answers the path where something changes.
fn edit_file(
    change: &mut Change<'_>,
    path: &std::path::Path,
    steps: &[Step],
    request: &Request,
) -> Result<(FileEdited, Option<WorkspacePath>), Error> {
    let current = change.look_at(path)?;
    common::must_exist(change, &current)?;
    let content = common::decode(&current)?;
    let (seen, edited, rebased) = gate(change, current, &content, steps, request)?;
    let shown = seen.current().place().shown().to_owned();
    if edited.body == content.body {
        let answer = FileEdited::of(&shown, seen.current().sha256(), &edited, None);
        return Ok((answer, None));
    }
    let bytes = Content { body: edited.body.clone(), ..content }.encode();
    let wanted = DiffWanted::by(&request.trial, &request.shown).within(change.engine().policy());
    let diff = wanted.of(&shown, Some(seen.current().bytes()), Some(&bytes));
    let path = seen.current().place().path().clone();
    let sha256 = change.put(seen, bytes, None, Known::ChangedLines);
    if rebased {
        change.engine().warn(format!("{shown} had changed since it was read, but not where it was edited"));
    }
    Ok((FileEdited { rebased, ..FileEdited::of(&shown, sha256, &edited, diff) }, Some(path)))
}

/// The gate, and what the edits make of the file; whether they were rebased.
fn gate(
    change: &mut Change<'_>,
    current: Current,
    content: &Content,
    steps: &[Step],
    request: &Request,
) -> Result<(Seen, Edited, bool), Error> {
    let shown = current.place().shown().to_owned();
    let seen_sha256 =
        request.expected_sha256.or_else(|| change.mark(current.place().path()).map(|mark| mark.sha256));
    let is_stale = seen_sha256.is_some_and(|seen| seen != current.sha256());
    // What the policy lets through needs no rebase; a sha256 that was given always counts.
    let must_match = request.expected_sha256.is_some() || change.gate() == Gate::Strict;
    if is_stale && (must_match || request.rebase) {
        let rebased = rebase::rebase(change, &current, content, steps, seen_sha256);
        if request.rebase {
            let edited =
                rebased.map_err(|error| rebase::refused(current_stale(change, &current, request), &error))?;
            return Ok((current.without_proof(), edited, true));
        }
        let error = current_stale(change, &current, request).detail("rebase", rebased.is_ok());
        return Err(if rebased.is_ok() {
            error.suggest(format!(
                "The change since then does not touch the edited lines: repeat the call with rebase set to true, or re-read {shown} first."
            ))
        } else {
            error
        });
    }
    let seen = change.prove(current, request.expected_sha256, Intent::Edit, |_| {
        apply::lines_needed(&content.body, steps)
    })?;
    let edited = apply::apply(&content.body, steps, &shown)?;
    Ok((seen, edited, false))
}

/// The refusal of a stale file.
fn current_stale(change: &Change<'_>, current: &Current, request: &Request) -> Error {
    let mark = change.mark(current.place().path()).map(|mark| mark.sha256);
    match request.expected_sha256.or(mark) {
        Some(seen) => change.stale(current, seen),
        None => Error::new(ErrorKind::StaleFile, format!("{} has changed", current.place().shown())),
    }
}

impl FileEdited {
    /// The answer for one file.
    fn of(shown: &str, sha256: Sha256, edited: &Edited, diff: Option<String>) -> Self {
        Self {
            path: shown.to_owned(),
            sha256,
            count: edited.ranges.len(),
            replacements: apply::line_ranges(&edited.body, &edited.ranges, PLACES_LISTED),
            r#match: if edited.already_applied { Matched::AlreadyApplied } else { Matched::Exact },
            rebased: false,
            diff,
        }
    }

    /// One line for a person.
    pub fn as_text(&self, tool: &str, text: &mut Text) {
        let what = match self.r#match {
            Matched::AlreadyApplied => "already applied".to_owned(),
            Matched::Exact => {
                let places: Vec<String> = self.replacements.iter().map(LineRange::to_string).collect();
                let more = if self.count > places.len() { ", …" } else { "" };
                format!("{} replaced at {}{more}", self.count, places.join(", "))
            }
        };
        text.out.extend_from_slice(format!("{tool}: {} ({what})\n", self.path).as_bytes());
        if let Some(diff) = &self.diff {
            text.out.extend_from_slice(diff.as_bytes());
        }
    }
}

impl std::fmt::Display for LineRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.start_line == self.end_line {
            write!(f, "line {}", self.start_line)
        } else {
            write!(f, "lines {}-{}", self.start_line, self.end_line)
        }
    }
}
