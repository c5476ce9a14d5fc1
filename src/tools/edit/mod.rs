//! `edit`: replaces text.

mod apply;
mod error;
mod find;
mod request;
mod step;

use std::cell::Cell;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::common::{self, ListEnd, PLACES_LISTED, Refusals, subject, unsupported_encoding};
use super::{Effect, Stdin, Text, Tool};
use crate::buffer::Buffer;
use crate::engine::Engine;
use crate::engine::change::gate::{Needs, quoted};
use crate::engine::change::{CallerKnowledge, Change, CheckedFile, LockedFile};
use crate::engine::policy::Gate;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind, text};
use crate::sha256::Sha256;
use crate::text::content::Content;
use crate::text::escaped;
use crate::text::lines::LineSpan;
use crate::text::replace::line_ranges;
use crate::text::replaced_lines::ReplacedLines;
use apply::PlacedEdits;
use find::EditResult;
pub use find::MatchKind;
pub use request::{Edits, Request};
pub use step::{EditItem, MatchMode};
use step::{EditKind, EditStep};

/// `edit` tool.
pub struct Edit;

impl Tool for Edit {
    const NAME: &'static str = "edit";
    const LISTED: &'static str = "path old_string new_string replace_all edits edits.old_string edits.new_string edits.replace_all edits.start_line edits.end_line start_line end_line sketch";
    const CORE: bool = true;
    const ALIASES: &'static [&'static str] = &["edit_file", "str_replace", "search_replace", "multi_edit"];
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin =
        Stdin::Bulk { field: "blocks", unless: &["old_string", "new_string", "sketch", "edits"] };
    const DASH: &'static [&'static str] = &["sketch", "edits"];
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let steps = request.steps(engine)?;
        let paths = request.files()?;
        let named: Vec<(&str, &Path)> = paths.iter().map(|path| ("path", path.as_ref())).collect();
        let mut change = engine.begin(Self::NAME, &named, request.options.change.dry_run)?;
        if change.is_repeated(digest(&paths, &steps, &request), request.expected_sha256.is_some())? {
            return repeated(&mut change, &paths, &request);
        }
        let mut edited = Vec::with_capacity(paths.len());
        let mut changed: Vec<WorkspacePath> = Vec::new();
        let mut refusals = Refusals::default();
        let all_found = Cell::new(true);
        for path in paths {
            let (answer, path) = match edit_file(&mut change, path, &steps, &request, &all_found) {
                Ok(planned) => planned,
                Err(error) => {
                    refusals.keep(error)?;
                    continue;
                }
            };
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
        let refused = refusals.refuse();
        refused.map_err(|error| if all_found.get() { with_cheapest_read(error, &steps) } else { error })?;
        change.commit(subject(Self::NAME, &changed), request.options.change.why.clone())?;
        Ok(Response::of(engine, edited, &request))
    }

    fn text(response: &Response, text: &mut Text) {
        let (files, end) = match response {
            Response::One(file) => (std::slice::from_ref(file), common::ListEnd::default()),
            Response::Several { files, end } => (files.as_slice(), *end),
        };
        for file in files {
            file.as_text(Self::NAME, text);
        }
        end.note(files.len(), text);
    }
}

/// Returns the digest that identifies a repeated request.
fn digest(paths: &[&PathBuf], steps: &[EditStep], request: &Request) -> Sha256 {
    let proof = (request.expected_sha256, request.rebase);
    let encoding = request.options.encoding;
    Sha256::of(format!("edit {paths:?} {steps:?} {proof:?} {encoding:?}").as_bytes())
}

/// Returns the response to a repeated request, if nothing has changed since.
fn repeated(change: &mut Change<'_>, paths: &[&PathBuf], request: &Request) -> Result<Response, Error> {
    let mut edited = Vec::with_capacity(paths.len());
    for path in paths {
        let current = change.open_current(path)?;
        edited.push(EditedFile::already_applied(&current));
    }
    Ok(Response::of(change.engine(), edited, request))
}

/// Plans the edits of one file; returns its path if the file changes. Sets `all_found` to false if the file was not
/// read and does not have the text to replace.
fn edit_file(
    change: &mut Change<'_>,
    path: &Path,
    steps: &[EditStep],
    request: &Request,
    all_found: &Cell<bool>,
) -> Result<(EditedFile, Option<WorkspacePath>), Error> {
    let current = change.open_current(path)?;
    common::must_exist(change, &current)?;
    let shown = current.place().display().to_owned();
    let bytes = current.shared_bytes();
    // A file whose text could not be written back unchanged is rejected before a read is required.
    let file = Content::of(&bytes, request.options.encoding)
        .map_err(|unsupported| unsupported_encoding(&shown, unsupported))?;
    for step in steps {
        common::must_be_encodable(file.encoding, step.written().as_bytes(), (&shown, &bytes))
            .map_err(|error| step.named.of_several(error))?;
    }
    if !request.allow_omission {
        must_leave_nothing_out(&file, steps, &shown)?;
    }
    let by_number = steps.iter().any(EditStep::is_by_number) && request.expected_sha256.is_none();
    let placed = if by_number && change.engine_ref().words.is_none() {
        apply::resolve_lines(change, &current, &file, steps)?
    } else {
        PlacedEdits::as_numbered(steps)
    };
    let plan = gate(change, current, &file, &placed, request, all_found)?;
    let PlannedEdit { seen, computed, rebased, base } = plan;
    let ComputedEdit { answer, bytes, left_out, replaced } = computed;
    let Some(bytes) = bytes else {
        return Ok((answer, None));
    };
    let wanted = request.options.diff_wanted(change.engine().policy());
    let diff = wanted.of(&shown, Some(seen.current().bytes()), Some(&bytes));
    let path = seen.current().place().path().clone();
    let known = base.map_or(CallerKnowledge::ChangedLines, CallerKnowledge::ChangedSince);
    let sha256 = change.put(seen, bytes, None, known);
    change.note_replaced(replaced);
    for (shown_as, now) in placed.moved {
        change.engine().warn(format!("{shown_as} of {shown} as shown: {now} now"));
    }
    if rebased {
        change.engine().warn(format!("rebased: other lines of {shown} changed since the read"));
    }
    for (first, last) in left_out {
        let lines = LineRange { start_line: first as u64, end_line: last as u64 };
        let were = if first == last { "it was" } else { "they were" };
        change.engine().warn(format!("the sketch omits {lines} of {shown}; {were} deleted"));
    }
    Ok((EditedFile { sha256, rebased, diff, ..answer }, Some(path)))
}

/// Rejects a new text with a line that only marks omitted text.
fn must_leave_nothing_out(file: &Content<'_>, steps: &[EditStep], shown: &str) -> Result<(), Error> {
    for step in steps {
        if let Some(new) = step.new_text() {
            common::must_leave_nothing_out(new.as_bytes(), &file.body, "new_string", shown)
                .map_err(|error| step.named.of_several(error))?;
        }
    }
    Ok(())
}

/// Edits of one file that passed the gate.
struct PlannedEdit {
    /// File that passed the gate.
    seen: CheckedFile,
    /// Result of the edits.
    computed: ComputedEdit,
    /// True if the file changed since it was read.
    rebased: bool,
    /// Bytes at the time of the read, if available.
    base: Option<Vec<u8>>,
}

/// Result of edits of a text.
struct ComputedEdit {
    /// Response, with the old SHA-256.
    answer: EditedFile,
    /// New bytes of the file; `None` if unchanged.
    bytes: Option<Buffer>,
    /// Lines that a sketch leaves out.
    left_out: Vec<(usize, usize)>,
    /// Lines that the edits replace, if their places tell.
    replaced: Option<Vec<ReplacedLines>>,
}

impl ComputedEdit {
    /// Returns the result for the edited text of a file.
    fn of(file: &Content<'_>, edited: EditResult<'_>, current: &LockedFile) -> Result<Self, Error> {
        let answer = EditedFile::of(current.place().display(), current.sha256(), &edited, None);
        let (left_out, replaced) = (edited.left_out, edited.replaced);
        let bytes =
            (*edited.body != *file.body).then(|| file.encode_body(edited.body.into_owned())).transpose();
        let missing = |missing| common::unencodable(current.place().display(), "the file", missing);
        Ok(Self { answer, bytes: bytes.map_err(missing)?, left_out, replaced })
    }
}

/// Checks the file at the gate, and returns the result of the edits.
fn gate(
    change: &mut Change<'_>,
    current: LockedFile,
    file: &Content<'_>,
    PlacedEdits { steps, are_all_found, .. }: &PlacedEdits,
    request: &Request,
    all_found: &Cell<bool>,
) -> Result<PlannedEdit, Error> {
    let shown = current.place().display().to_owned();
    let seen_sha256 =
        request.expected_sha256.or_else(|| change.mark(current.place().path()).map(|mark| mark.sha256));
    let is_stale = seen_sha256.is_some_and(|seen| seen != current.sha256());
    let must_not_repeat = || {
        if request.allow_repeat { Ok(()) } else { apply::must_not_repeat(file, steps, &shown) }
    };
    if is_stale && *are_all_found {
        must_not_repeat()?;
        // The edits by line number were already moved to the current lines.
        let base = seen_sha256.and_then(|seen| change.bytes_shown(current.place().path(), seen));
        let edited = apply::apply(file, steps, change.policy().file_bytes());
        let edited = edited.map_err(|miss| error::explained(change, &current, &miss))?;
        let computed = ComputedEdit::of(file, edited, &current)?;
        return Ok(PlannedEdit { seen: current.without_proof(), computed, rebased: true, base });
    }
    // If the policy allows the edit, no rebase is needed; a given sha256 always counts.
    let must_match = request.expected_sha256.is_some() || change.gate() == Gate::Strict;
    if is_stale && (must_match || request.rebase) {
        let base = seen_sha256.and_then(|seen| change.bytes_shown(current.place().path(), seen));
        let rebased = apply::rebase(change, &current, file, steps, base.as_deref(), request.expected_sha256);
        match rebased {
            Ok(edited) if request.rebase => {
                let computed = ComputedEdit::of(file, edited, &current)?;
                return Ok(PlannedEdit { seen: current.without_proof(), computed, rebased: true, base });
            }
            Ok(_) => {
                let error = current_stale(change, &current, request).detail("rebase", true);
                return Err(error.suggest(text!(
                    "The change since then does not touch the edited lines: re-read {}, then repeat the call. With `rebase` set to true it need not be read again.",
                    shown
                )));
            }
            Err(why) if must_match => {
                let error = current_stale(change, &current, request);
                return Err(error.detail("rebase", false).detail("rebase_refused", why));
            }
            // The policy allows the edit without a rebase.
            Err(_) => {}
        }
    }
    let needed = || {
        let lines = apply::lines_needed(&file.body, steps);
        all_found.set(all_found.get() && lines.is_some());
        lines
    };
    let seen = change.prove(current, request.expected_sha256, Needs::AnySuchAs(&needed))?;
    must_not_repeat()?;
    let edited = match apply::apply(file, steps, change.policy().file_bytes()) {
        Ok(edited) => edited,
        Err(miss) => {
            let missed = miss.named.number().unwrap_or(usize::MAX);
            let others = apply::also_missing(&file.body, steps, missed);
            return Err(with_other_failures(error::explained(change, seen.current(), &miss), &others));
        }
    };
    // Where numbers are followed, they are the proof.
    let by_number = if change.engine_ref().words.is_some() { steps.as_slice() } else { &[] };
    let unnamed = unnamed_lines(by_number, &edited.removed);
    let seen = change.prove_more(seen, request.expected_sha256, Needs::Lines(&unnamed))?;
    let computed = ComputedEdit::of(file, edited, seen.current())?;
    Ok(PlannedEdit { seen, computed, rebased: false, base: None })
}

/// Returns the lines that edits replace without naming their bytes: those that a sketch removes, and those that only their
/// numbers name.
fn unnamed_lines(steps: &[EditStep], removed: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let by_number = steps.iter().filter(|step| step.is_by_number() && step.range_sha256.is_none());
    let by_number = by_number.filter_map(|step| step.lines).map(|lines| (lines.first, lines.last));
    by_number.chain(removed.iter().copied()).collect()
}

/// Suggests the cheapest read of several files: a search for the text to replace, which marks only its lines.
fn with_cheapest_read(error: Error, steps: &[EditStep]) -> Error {
    let unread = error.details().get("unread").and_then(Value::as_array);
    let [EditStep { what: EditKind::Text(wanted), .. }] = steps else { return error };
    let Some(unread) = unread.filter(|_| !wanted.flexible && !wanted.old.contains('\n')) else {
        return error;
    };
    let files: Vec<_> = unread.iter().filter_map(Value::as_str).map(quoted).collect();
    let command = format!("lbx grep -F --mark -- {} {}", escaped::shell_word(&wanted.old), files.join(" "));
    error.suggest_running(
        "Search these files for that text with `mark`, which reads its lines alone",
        command,
        ", then repeat the call.",
    )
}

/// Adds the numbers of the other edits whose text was not found to an error.
fn with_other_failures(error: Error, others: &[usize]) -> Error {
    if others.is_empty() {
        return error;
    }
    let numbers: Vec<String> = others.iter().map(usize::to_string).collect();
    let edits = if others.len() == 1 { "edit" } else { "edits" };
    error
        .add_to_message(text!(" `old_string` of {} {} was not found either.", edits, numbers.join(", ")))
        .detail("also_missing", others.to_vec())
}

/// Returns the error for a stale file.
fn current_stale(change: &Change<'_>, current: &LockedFile, request: &Request) -> Error {
    let mark = change.mark(current.place().path()).map(|mark| mark.sha256);
    match request.expected_sha256.or(mark) {
        Some(seen) => change.stale(current, seen),
        None => Error::new(ErrorKind::StaleFile, format!("{} has changed", current.place().display())),
    }
}

/// Result of the call.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum Response {
    /// One file.
    One(EditedFile),
    /// Several files, in the order of the request.
    Several {
        /// One response per file
        files: Vec<EditedFile>,
        /// Completeness of the list.
        #[serde(flatten)]
        end: ListEnd,
    },
}

/// Changes of a file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EditedFile {
    /// Path
    pub path: String,
    /// SHA-256 of the file now
    pub sha256: Sha256,
    /// Places replaced
    pub count: usize,
    /// First 20 of them, as lines of the file now
    pub replacements: Vec<LineRange>,
    /// Match of `old_string`
    pub r#match: MatchKind,
    /// True if other lines of the file changed since the read
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rebased: bool,
    /// Change, as a unified diff
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Range of lines, from 1, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineRange {
    /// First line
    pub start_line: u64,
    /// Last line
    pub end_line: u64,
}

impl Response {
    /// Returns the response for one file, or for a list of them.
    pub fn of(engine: &Engine, mut edited: Vec<EditedFile>, request: &Request) -> Self {
        match edited.pop() {
            Some(only) if request.paths.is_none() && edited.is_empty() => Self::One(only),
            last => {
                edited.extend(last);
                let end = ListEnd::of(engine, request.options.max_bytes, &mut edited);
                Self::Several { files: edited, end }
            }
        }
    }
}

impl EditedFile {
    /// Returns the response to a repeated request whose result is in place.
    pub fn already_applied(current: &LockedFile) -> Self {
        Self {
            path: current.place().display().to_owned(),
            sha256: current.sha256(),
            count: 0,
            replacements: Vec::new(),
            r#match: MatchKind::AlreadyApplied,
            rebased: false,
            diff: None,
        }
    }

    /// Returns the response for one file.
    pub fn of(shown: &str, sha256: Sha256, edited: &EditResult<'_>, diff: Option<String>) -> Self {
        let listed = line_ranges(&edited.body, &edited.ranges, PLACES_LISTED);
        Self {
            path: shown.to_owned(),
            sha256,
            count: edited.count,
            replacements: listed.into_iter().map(LineRange::from).collect(),
            r#match: edited.matched,
            rebased: false,
            diff,
        }
    }

    /// Adds one line for a person.
    pub fn as_text(&self, tool: &str, text: &mut Text) {
        let what = match self.r#match {
            MatchKind::AlreadyApplied => "already applied".to_owned(),
            matched => {
                let places: Vec<String> = self.replacements.iter().map(LineRange::to_string).collect();
                let more = if self.count > places.len() { ", …" } else { "" };
                format!("{} replaced at {}{more}{}", self.count, places.join(", "), matched.remark())
            }
        };
        text.change(&format!("{tool}: {} ({what})", escaped::name(&self.path)));
        self.diff.iter().for_each(|diff| text.diff(diff.as_bytes()));
    }
}

impl From<(u64, u64)> for LineRange {
    fn from((start_line, end_line): (u64, u64)) -> Self {
        Self { start_line, end_line }
    }
}

impl std::fmt::Display for LineRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        LineSpan { first: self.start_line, last: self.end_line }.fmt(f)
    }
}
