//! `patch`: makes several changes to several files, all or none.

mod by_line;
mod files;
mod request;
mod tree;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ChangeOptions, ContentOptions, DiffWanted, ListEnd, Refusals, subject};
use super::{Effect, Stdin, Text, Tool};
use crate::control::{Control, Progress};
use crate::engine::Engine;
use crate::engine::policy::PatchGate;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::sha256::Sha256;
use crate::text::escaped;
use crate::text::patch::{
    FileAction, FileOutcome, Format, Patch as Patched, PlanError, PlanOptions, Strip, WholeFiles, compose,
    parse_within,
};
use files::PatchFiles;
pub use request::{ExpectedByPath, PatchText, Request, StripCount};
pub(super) use tree::ResultingTree;

/// Effect of a patch.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// One entry per file, in patch order
    pub files: Vec<PatchedFile>,
    /// Completeness of the list.
    #[serde(flatten)]
    pub end: ListEnd,
}

/// Effect of a patch on one file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PatchedFile {
    /// Path
    pub path: String,
    /// Type of the change
    pub action: FileAction,
    /// Source of a renamed or copied file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// SHA-256 of the file now; absent if it was deleted
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// Number of hunks
    pub count: usize,
    /// First 20 hunks
    pub hunks: Vec<AppliedHunk>,
    /// Change, as a unified diff
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Place of a hunk.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AppliedHunk {
    /// First line in the file now, from 1
    pub line: usize,
    /// Lines below the stated place
    pub offset: i64,
    /// Number of ignored context lines
    pub fuzz: usize,
    /// Comparison mode, if not byte for byte
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<&'static str>,
    /// True if its result was already there
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub already_applied: bool,
}

/// Proof that the caller knows the lines that a hunk replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// A read of the file, or its sha256.
    Read,
    /// The hunk's own old lines, if they match exactly and in one place.
    Context,
}

/// `patch` tool.
pub struct Patch;

impl Tool for Patch {
    const NAME: &'static str = "patch";
    const LISTED: &'static str = "patch path reverse";
    const CORE: bool = true;
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Bulk { field: "patch", unless: &[] };
    const BULK_ALONE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let max_bytes = request.options.max_bytes;
        let mut response = run(engine, Self::NAME, request, Proof::Read)?;
        response.end = ListEnd::of(engine, max_bytes, &mut response.files);
        Ok(response)
    }

    fn text(response: &Response, text: &mut Text) {
        for file in &response.files {
            text.change(&format!("patch: {file}"));
            file.diff.iter().for_each(|diff| text.diff(diff.as_bytes()));
        }
        response.end.note(response.files.len(), text);
    }
}

impl std::fmt::Display for PatchedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.action {
            FileAction::Create => "created",
            FileAction::Modify => "modified",
            FileAction::Delete => "deleted",
            FileAction::Rename => "renamed",
            FileAction::AlreadyApplied => "already applied",
        };
        let path = escaped::name(&self.path);
        match &self.from {
            Some(from) => write!(f, "{} -> {path} ({what})", escaped::name(from)),
            None => write!(f, "{path} ({what})"),
        }
    }
}

/// Applies a patch, all or nothing; `proof` is the default if the policy has none.
///
/// # Errors
/// Returns `patch_invalid`, `patch_conflict`, `already_exists`, `not_found`, or errors of the gate and the paths.
pub fn run(
    engine: &mut Engine,
    tool: &'static str,
    mut request: Request,
    proof: Proof,
) -> Result<Response, Error> {
    let proof = match engine.policy().patch_gate() {
        Some(PatchGate::Marks) => Proof::Read,
        Some(PatchGate::Context) => Proof::Context,
        None => proof,
    };
    let file_bytes = engine.policy().file_bytes();
    let text_of = |named: Option<&[u8]>| files::text_of(&engine.workspace, request.path.as_deref(), named);
    let texts;
    let parsed = parse_within(&request.patch.0, file_bytes, &text_of);
    let mut patch = parsed.map_err(|error| request::invalid(&error))?;
    let mut options = request.plan_options(patch.format, file_bytes)?;
    if options.strip == Strip::Auto {
        patch.resolve_names(&|path| files::path_exists(&engine.workspace, path));
    }
    let wanted = request.options.diff_wanted(engine.policy());
    let named = names(&patch, &options, &request);
    let named: Vec<(&str, &Path)> =
        named.iter().map(|(field, name)| (*field, Path::new(OsStr::from_bytes(name)))).collect();
    let control = engine.control.clone();
    let change = engine.begin(tool, &named, request.options.change.dry_run)?;
    let whole = WholeFiles::of(&patch, &options);
    let leaving = whole.leaving.clone();
    let mut files =
        PatchFiles::new(change, (whole, request.options.encoding), request.expected_sha256_by_path.as_ref())?;
    files.find_start(named.iter().map(|(_, path)| path.as_os_str().as_bytes()));
    options.removed = files.removed_before(leaving)?;
    let is_repeated = files.is_repeated(request.digest(), request.expected_sha256_by_path.is_some())?;
    if patch.format == Format::ByLine && !is_repeated {
        texts = by_line::texts(&patch, &mut files)?;
        by_line::place(&mut patch, &mut files, &texts, request.allow_repeat)?;
    }
    let format = patch.format;
    let all_applied = is_repeated.then(|| PatchFiles::all_applied(&patch, &options));
    let composed = composed(patch, &options, &mut files, &control);
    let outcomes = match (composed, all_applied) {
        (Ok(outcomes), _) => outcomes,
        (Err(PlanError::Refused { .. }), Some(applied)) => applied?,
        (Err(refused), _) => return Err(files.refuse(refused, proof, wanted)),
    };
    // This session applied the patch before, and nothing has changed since.
    let applied = |outcome| FileOutcome { action: FileAction::AlreadyApplied, ..outcome };
    let outcomes = if is_repeated { outcomes.into_iter().map(applied).collect() } else { outcomes };
    files.check_expected()?;
    files.check_result(&outcomes)?;
    // It may be as large as all files of the patch together.
    drop(std::mem::take(&mut request.patch));
    let (done, changed) = planned(&mut files, outcomes, proof, wanted)?;
    if !changed.is_empty() {
        let vacates = matches!(format, Format::Git | Format::Unified);
        files.commit(subject(tool, &changed), request.options.change.why, vacates)?;
    }
    // The patch was already applied and left no folder empty, so an undo would have nothing to reverse.
    Ok(Response { files: done, end: ListEnd::default() })
}

/// Returns the outcome of the patch for the files; reports progress for each file.
fn composed(
    patch: Patched<'_>,
    options: &PlanOptions,
    files: &mut PatchFiles<'_>,
    control: &Control,
) -> Result<Vec<FileOutcome>, PlanError<Error>> {
    let (mut done, total) = (0, u64::try_from(patch.files.len()).ok());
    compose(patch, options, &mut |path: &[u8], look, form| {
        done += 1;
        control.report(Progress { done, total });
        files.before(path, look, form)
    })
}

/// Plans the change of each file; returns the effect on each, and the paths that change.
fn planned(
    files: &mut PatchFiles<'_>,
    outcomes: Vec<FileOutcome>,
    proof: Proof,
    wanted: DiffWanted,
) -> Result<(Vec<PatchedFile>, Vec<WorkspacePath>), Error> {
    let mut done = Vec::with_capacity(outcomes.len());
    let mut changed = Vec::new();
    let mut refusals = Refusals::default();
    for mut outcome in outcomes {
        let file = match files.plan(&mut outcome, proof, wanted) {
            Ok(file) => file,
            Err(error) => {
                refusals.keep(error)?;
                continue;
            }
        };
        if outcome.action != FileAction::AlreadyApplied {
            changed.push(files.canonical(&outcome.path)?);
        }
        done.push(file);
    }
    refusals.refuse()?;
    Ok((done, changed))
}

/// Returns every path in a request and its patch.
fn names(patch: &Patched<'_>, options: &PlanOptions, request: &Request) -> Vec<(&'static str, Vec<u8>)> {
    let in_patch = patch.files.iter().filter_map(|file| file.paths(options.strip));
    let in_patch = in_patch.flat_map(|paths| [paths.old, paths.new]).flatten();
    let expected = request.expected_sha256_by_path.iter().flat_map(|expected| expected.0.keys());
    let expected = expected.map(|path| ("expected_sha256_by_path", path.as_bytes().to_vec()));
    // A change without a name is rejected later, with the line of the patch.
    let in_patch = in_patch.filter(|path| !path.is_empty()).map(|path| ("patch", path));
    let target = options.target.clone().map(|path| ("path", path));
    in_patch.chain(target).chain(expected).collect()
}

/// Apply a patch as Codex models do
///
/// Works as patch, but a hunk's own old lines, found exactly and in one place, prove that the caller knows them, and
/// the output is Codex's text. `LBX_OUTPUT=json` asks for JSON.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct ApplyPatchRequest {
    /// The patch; may come from stdin
    #[arg(value_name = "PATCH")]
    #[schemars(with = "Option<String>", extend("x-aliases" = ["patch", "patch_text", "diff"]))]
    pub input: Option<PatchText>,
    /// The patch, from stdin
    #[arg(long, hide = true, allow_hyphen_values = true)]
    #[serde(skip)]
    pub patch: Option<PatchText>,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// `apply_patch` tool.
pub struct ApplyPatch;

impl Tool for ApplyPatch {
    const NAME: &'static str = "apply_patch";
    const ALIASES: &'static [&'static str] = &["applypatch"];
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Bulk { field: "patch", unless: &["input"] };
    const BULK_ALONE: bool = true;
    const SERVED: bool = false;
    const TEXT_BY_DEFAULT: bool = true;
    type Request = ApplyPatchRequest;
    type Response = Response;

    fn run(engine: &mut Engine, request: ApplyPatchRequest) -> Result<Response, Error> {
        let Some(patch) = request.input.or(request.patch) else {
            return Err(Error::invalid(
                "field `input` is missing: give the patch as the argument or on stdin",
            )
            .detail("field", "input"));
        };
        let options = ContentOptions { change: request.options, ..ContentOptions::default() };
        let request = Request { patch, options, ..Request::default() };
        run(engine, Self::NAME, request, Proof::Context)
    }

    fn text(response: &Response, text: &mut Text) {
        let is_dry_run = text.is_of_a_dry_run();
        text.entry(if is_dry_run {
            "would update the following files:"
        } else {
            "Success. Updated the following files:"
        });
        for file in &response.files {
            match file.action {
                FileAction::Create => text.entry(&format!("A {}", escaped::name(&file.path))),
                FileAction::Delete => text.entry(&format!("D {}", escaped::name(&file.path))),
                FileAction::Modify | FileAction::Rename | FileAction::AlreadyApplied => {
                    text.entry(&format!("M {}", escaped::name(&file.path)));
                }
            }
        }
    }
}
