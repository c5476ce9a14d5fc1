//! Request of `patch` and its error messages.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, text};
use crate::sha256::{Hasher, Sha256};
use crate::text::patch::{
    Format, HunkFailure, HunkFate, HunkFault, HunkResult, ParseError, PatchOptions, PatchRefusal,
    PlanOptions, RefusalReason, Strip,
};
use crate::tools::common::{ContentOptions, reject_if};

/// Apply a patch to several files, all or none
///
/// Takes a unified diff, a Codex `*** Begin Patch` envelope, SEARCH/REPLACE blocks, or edits by line: `[PATH]`, then
/// `PUT 3.=5:` or `PUT >9:` with `+` rows, `CUT 3.=5`, or `PUT >9` to paste that. If one hunk fails, nothing is changed,
/// and the error explains each.
///
/// Files that it modifies or deletes must have been read in this session and be unchanged since.
/// Changes that are already applied are left alone.
#[derive(Debug, Default, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// The patch
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[schemars(with = "String", extend("x-aliases" = ["diff", "patch_text", "input", "patch_content"]))]
    pub patch: PatchText,
    /// File to patch, if the patch names none or several
    #[arg(long, value_name = "PATH")]
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file"]))]
    pub path: Option<PathBuf>,
    /// Leading path components to strip; a/ and b/ are stripped automatically
    #[arg(long, short = 'p', value_name = "COUNT")]
    pub strip: Option<StripCount>,
    /// SHA-256 of files as last seen, by path; empty if the file must not exist
    #[arg(
        long,
        value_name = "PATH=HEX",
        help = "SHA-256 of files as last seen, by path; empty if the file must not exist: PATH=HEX, separated by \
                commas, or a JSON object"
    )]
    pub expected_sha256_by_path: Option<ExpectedByPath>,
    /// Context lines at either end of a hunk that may differ
    #[arg(long, value_name = "LINES", default_value_t)]
    #[serde(default)]
    pub fuzz: usize,
    /// Require exact line numbers, counts and whitespace
    #[arg(long)]
    pub strict: bool,
    /// Apply the patch in reverse
    #[arg(long, short = 'R')]
    pub reverse: bool,
    /// Allow new lines that repeat the line just before or after those that they replace
    #[arg(long)]
    pub allow_repeat: bool,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ContentOptions,
}

impl Request {
    /// Returns the digest that identifies a repeated request.
    pub(super) fn digest(&self) -> Sha256 {
        let (path, strip, expected) = (&self.path, &self.strip, &self.expected_sha256_by_path);
        let (encoding, mut hasher) = (self.options.encoding, Hasher::default());
        let what = format!("patch {path:?} {strip:?} {} {expected:?} {encoding:?} ", self.reverse);
        hasher.update(what.as_bytes());
        hasher.update(&self.patch.0);
        hasher.finish()
    }

    /// Returns the options for reading the patch; no resulting file may exceed `bytes_max` bytes.
    ///
    /// # Errors
    /// Returns `invalid_request` for an empty path, or an option that the format does not have.
    pub(super) fn plan_options(&self, format: Format, bytes_max: usize) -> Result<PlanOptions, Error> {
        if format == Format::ByLine {
            let path = "in a patch by lines, each section names its file: leave `path` out";
            let reverse = "a patch by lines has no reverse: `undo` takes a change back";
            reject_if(self.path.is_some(), "path", path)?;
            reject_if(self.reverse, "reverse", reverse)?;
        }
        let target = match &self.path {
            Some(path) if path.as_os_str().is_empty() => {
                return Err(Error::invalid("path is empty").detail("field", "path"));
            }
            path => path.as_ref().map(|path| path.as_os_str().as_bytes().to_vec()),
        };
        let strip = self.strip.map_or(Strip::Auto, |count| count.0);
        let apply = PatchOptions {
            fuzz: self.fuzz,
            strict: self.strict,
            reverse: self.reverse,
            bytes_max: Some(bytes_max),
        };
        Ok(PlanOptions { strip, target, apply, removed: BTreeSet::new() })
    }
}

/// Text of a patch, which may have bytes that are not UTF-8.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PatchText(pub Vec<u8>);

impl From<OsString> for PatchText {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}

impl<'de> Deserialize<'de> for PatchText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into_bytes()))
    }
}

/// Number of leading folders to remove; `auto` derives it from the patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StripCount(Strip);

impl std::str::FromStr for StripCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self(Strip::Auto));
        }
        let count = text.parse().map_err(|_| format!("strip: expected a number or auto, got {text:?}"))?;
        Ok(Self(Strip::Components(count)))
    }
}

impl<'de> Deserialize<'de> for StripCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for StripCount {
    fn schema_name() -> Cow<'static, str> {
        "StripCount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "minimum": 0 })
    }
}

/// Expected SHA-256 of each file, as text; empty if the file must not exist.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ExpectedByPath(pub BTreeMap<String, String>);

impl std::str::FromStr for ExpectedByPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|error| error.to_string());
        }
        let pair = |pair: &str| {
            pair.rsplit_once('=')
                .map(|(path, sha256)| (path.to_owned(), sha256.to_owned()))
                .ok_or_else(|| format!("expected PATH=HEX, got {pair:?}"))
        };
        text.split(',').map(pair).collect::<Result<_, _>>().map(Self)
    }
}

/// Largest number of failures in an error.
const LISTED: usize = 20;

/// Returns the error for a text that is not a patch.
pub fn invalid(error: &ParseError) -> Error {
    Error::new(ErrorKind::PatchInvalid, format!("line {} of the patch: {}", error.line, error.message))
        .detail("line", error.line)
}

/// Returns true if a file that changed since it was read could be the cause.
pub fn may_be_staleness(refusal: &PatchRefusal) -> bool {
    matches!(&refusal.reason, RefusalReason::Conflict(conflict) if conflict.fault().is_none())
}

/// Returns the error for a patch, with all of its problems.
pub fn refused(refusals: &[PatchRefusal]) -> Error {
    let Some(first) = refusals.first() else {
        return Error::internal("a patch refused for no reason");
    };
    let path = String::from_utf8_lossy(&first.path).into_owned();
    if let RefusalReason::Conflict(conflict) = &first.reason
        && let Some(fault) = conflict.fault()
    {
        return fault.error(&path);
    }
    let (kind, message) = describe(first, &path);
    let listed: Vec<Value> = refusals.iter().take(LISTED).map(refusal_json).collect();
    let more = refusals.len() - 1;
    let message = if more > 0 { format!("{message} (and {more} more)") } else { message };
    let error = Error::new(kind, message).detail("refused", listed);
    let error = if path.is_empty() { error } else { error.at(path.clone()) };
    match &first.reason {
        RefusalReason::Conflict(_) => error.suggest(text!(
            "Nothing was changed. Read {}, correct the hunks that do not apply, and send the whole patch again. `details.refused` lists them.",
            path
        )),
        RefusalReason::NoPath => error.suggest("Name the file in the patch, or with `path`."),
        _ => error,
    }
}

/// Returns the kind and message of one failure.
fn describe(refusal: &PatchRefusal, path: &str) -> (ErrorKind, String) {
    let line = refusal.patch_line;
    match &refusal.reason {
        RefusalReason::AlreadyExists => (
            ErrorKind::AlreadyExists,
            format!("the patch adds {path}, which exists already with other content"),
        ),
        RefusalReason::NotFound => {
            let message = format!("the patch changes {path}, which does not exist");
            (ErrorKind::NotFound, message + &with_slashes(path))
        }
        RefusalReason::Conflict(conflict) => match conflict.fault() {
            Some(fault) => {
                let error = fault.error(path);
                (error.kind(), error.message().to_owned())
            }
            None => (ErrorKind::PatchConflict, format!("the patch does not apply to {path}: {conflict}")),
        },
        RefusalReason::NoPath => {
            (ErrorKind::PatchInvalid, format!("line {line} of the patch: it names no file"))
        }
        RefusalReason::StripTooDeep => (
            ErrorKind::PatchInvalid,
            format!("line {line} of the patch: {path} has fewer folders than strip removes"),
        ),
        RefusalReason::OtherType { is_symlink: true } => (
            ErrorKind::PatchConflict,
            format!(
                "{path} is a symlink, and the patch changes it as a file: change the file that it leads to, by that name"
            ),
        ),
        RefusalReason::OtherType { is_symlink: false } => {
            (ErrorKind::PatchConflict, format!("{path} is a file, and the patch changes it as a symlink"))
        }
        RefusalReason::OtherFile => {
            (ErrorKind::PatchInvalid, "the patch does not touch the file that path names".to_owned())
        }
    }
}

/// Returns advice to write a path with slashes; empty if it has no backslashes.
fn with_slashes(path: &str) -> String {
    if !path.contains('\\') {
        return String::new();
    }
    let path = path.replace('\\', "/");
    let inner = ["a/", "b/"].iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or(&path);
    format!(": write it with slashes, {inner}")
}

/// Returns one failure as JSON.
fn refusal_json(refusal: &PatchRefusal) -> Value {
    let path = String::from_utf8_lossy(&refusal.path);
    let (kind, message) = describe(refusal, &path);
    match &refusal.reason {
        RefusalReason::Conflict(conflict) => {
            let (hunks, left_out) = conflict.hunks_to_report(LISTED);
            let hunks: Vec<Value> = hunks.into_iter().map(hunk_json).collect();
            let mut refused = json!({ "path": path, "kind": kind, "hunks": hunks });
            if let Some(object) = refused.as_object_mut().filter(|_| left_out > 0) {
                object.insert("hunks_left_out".to_owned(), left_out.into());
            }
            refused
        }
        _ => json!({ "path": path, "kind": kind, "message": message, "patch_line": refusal.patch_line }),
    }
}

/// Returns the outcome of one hunk as JSON.
fn hunk_json(hunk: &HunkFate) -> Value {
    let (number, patch_line) = (hunk.number, hunk.patch_line);
    let (fate, line) = match &hunk.fate {
        HunkResult::Applies { line, .. } => ("applies", line),
        HunkResult::AlreadyApplied { line } => ("already_applied", line),
        HunkResult::Fails(failure) => return failure_json(number, patch_line, failure),
    };
    json!({ "hunk": number, "patch_line": patch_line, "fate": fate, "line": line })
}

/// Returns a failed hunk with its reason as JSON.
fn failure_json(number: usize, patch_line: usize, failure: &HunkFailure) -> Value {
    let mut fate = json!({
        "hunk": number, "patch_line": patch_line, "fate": "fails", "reason": failure.reason.to_string()
    });
    let Some(object) = fate.as_object_mut() else { return fate };
    if let HunkFault::Ambiguous { lines } = &failure.reason {
        object.insert("lines".to_owned(), lines.clone().into());
    }
    if let Some(near) = &failure.nearest {
        let nearest = json!({
            "line": near.line, "equal_lines": near.equal.0, "of_lines": near.equal.1,
            "differs_at": near.differs_at, "expected": near.wanted, "found": near.found
        });
        object.insert("nearest".to_owned(), nearest);
    }
    fate
}
