//! Why a patch is refused, so that one retry suffices.

use serde_json::{Value, json};

use crate::error::{Error, ErrorKind};
use crate::text::patch::{Failure, Fate, HunkFate, ParseError, Reason, Refusal, RefusalReason};

/// Refusals listed in an answer.
const LISTED: usize = 20;

/// The refusal of a text that is not a patch.
#[must_use]
pub fn invalid(error: &ParseError) -> Error {
    Error::new(ErrorKind::PatchInvalid, format!("line {} of the patch: {}", error.line, error.message))
        .detail("line", error.line)
}

/// Whether a file that has changed since it was read could be the cause.
#[must_use]
pub fn may_be_staleness(refusal: &Refusal) -> bool {
    matches!(&refusal.reason, RefusalReason::Conflict(conflict) if conflict.fault().is_none())
}

/// The refusal of a patch, with everything that is wrong with it.
#[must_use]
pub fn refused(refusals: &[Refusal]) -> Error {
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
        RefusalReason::Conflict(_) => error.suggest(format!(
            "Nothing was changed. Read {path}, correct the hunks that do not apply, and send the whole patch again. details.refused lists them."
        )),
        RefusalReason::NoPath => error.suggest("Name the file in the patch, or with `path`."),
        _ => error,
    }
}

/// The kind and message of one refusal.
fn describe(refusal: &Refusal, path: &str) -> (ErrorKind, String) {
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

/// A path of another system's form, as this one writes it; nothing where it has that form.
fn with_slashes(path: &str) -> String {
    if !path.contains('\\') {
        return String::new();
    }
    let path = path.replace('\\', "/");
    let inner = ["a/", "b/"].iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or(&path);
    format!(": write it with slashes, {inner}")
}

/// One refusal for programs.
fn refusal_json(refusal: &Refusal) -> Value {
    let path = String::from_utf8_lossy(&refusal.path);
    let (kind, message) = describe(refusal, &path);
    match &refusal.reason {
        RefusalReason::Conflict(conflict) => {
            let (hunks, left_out) = conflict.foremost(LISTED);
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

/// The fate of one hunk for programs.
fn hunk_json(hunk: &HunkFate) -> Value {
    let mut fate = json!({ "hunk": hunk.number, "patch_line": hunk.patch_line });
    let Some(object) = fate.as_object_mut() else {
        return fate;
    };
    match &hunk.fate {
        Fate::Applies { line, .. } => {
            object.insert("fate".to_owned(), "applies".into());
            object.insert("line".to_owned(), (*line).into());
        }
        Fate::AlreadyApplied { line } => {
            object.insert("fate".to_owned(), "already_applied".into());
            object.insert("line".to_owned(), (*line).into());
        }
        Fate::Fails(failure) => {
            object.insert("fate".to_owned(), "fails".into());
            add_failure(object, failure);
        }
    }
    fate
}

/// Why a hunk fails, for programs.
fn add_failure(object: &mut serde_json::Map<String, Value>, failure: &Failure) {
    object.insert("reason".to_owned(), failure.reason.to_string().into());
    if let Reason::Ambiguous { lines } = &failure.reason {
        object.insert("lines".to_owned(), lines.clone().into());
    }
    if let Some(near) = &failure.nearest {
        object.insert(
            "nearest".to_owned(),
            json!({
                "line": near.line,
                "equal_lines": near.equal.0,
                "of_lines": near.equal.1,
                "differs_at": near.differs_at,
                "expected": near.wanted,
                "found": near.found,
            }),
        );
    }
}
