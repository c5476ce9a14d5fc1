//! The tools that change files and directories.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::texts::edit_diff;
use super::worded::{PathRequest, must_have_parent, said, worded};
use crate::dialect::foreign::{Foreign, Said, refused};
use crate::dialect::names::Pair;
use crate::dialect::native::Native;
use crate::dialect::render::text;
use crate::error::{Error, ErrorKind};
use crate::tools::{Effect, edit, mkdir, r#move, write};

/// Creates a file, or replaces the content of one that was read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteRequest {
    /// The file to write
    path: String,
    /// All of its new content
    content: String,
}

/// `write_file`.
pub struct WriteFile;

impl Foreign for WriteFile {
    const NAME: &'static str = "write_file";
    const EFFECT: Effect = Effect::Writes;
    // What the field of lbx does, these tools do.
    const FIELDS: &'static [Pair] = &[("max_bytes", "read_text_file"), ("binary", "read_media_file")];
    type Request = WriteRequest;

    fn run(lbx: &mut Native<'_>, WriteRequest { path, content }: WriteRequest) -> Result<Said, Error> {
        must_have_parent(lbx, &path, "open")?;
        let asked = json!({ "path": path, "content": content });
        lbx.call::<write::Write>(asked).map_err(|error| worded(lbx, &path, "open", error))?;
        Ok(said(format!("Successfully wrote to {path}")))
    }
}

/// One edit of several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EditOperation {
    /// Text to search for - must match exactly
    old_text: String,
    /// Text to replace with
    new_text: String,
}

/// Replaces texts in a file that was read, in order, all or none. Returns a diff.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EditRequest {
    /// The file to edit
    path: String,
    /// The edits
    edits: Vec<EditOperation>,
    /// Preview changes using git-style diff format
    #[serde(default)]
    dry_run: bool,
}

/// `edit_file`.
pub struct EditFile;

impl Foreign for EditFile {
    const NAME: &'static str = "edit_file";
    const EFFECT: Effect = Effect::Writes;
    const FIELDS: &'static [Pair] =
        &[("old_string", "oldText"), ("new_string", "newText"), ("dry_run", "dryRun")];
    type Request = EditRequest;

    fn run(lbx: &mut Native<'_>, EditRequest { path, edits, dry_run }: EditRequest) -> Result<Said, Error> {
        let shown = lbx.absolute(&path)?.display().to_string();
        let before = lbx.peek(&path).map_err(|error| worded(lbx, &path, "open", error))?;
        let items: Vec<Value> = edits
            .iter()
            .map(|edit| json!({ "old_string": edit.old_text, "new_string": edit.new_text, "match": "flexible" }))
            .collect();
        let asked = json!({ "path": path, "edits": items, "dry_run": dry_run, "diff": true, "max_bytes": 0 });
        let data = lbx.call::<edit::Edit>(asked).map_err(|error| match error.kind() {
            ErrorKind::NoMatch => {
                let at = error.details().get("edit").and_then(Value::as_u64).unwrap_or(1).saturating_sub(1);
                let edit = usize::try_from(at).ok().and_then(|at| edits.get(at));
                let old = edit.map_or("", |edit| edit.old_text.as_str());
                refused(ErrorKind::NoMatch, &path, format!("Could not find exact match for edit:\n{old}"))
            }
            _ => worded(lbx, &path, "open", error),
        })?;
        Ok(said(edit_diff(&shown, &before, text(&data, "diff"))))
    }
}

/// `create_directory`.
pub struct CreateDirectory;

impl Foreign for CreateDirectory {
    const NAME: &'static str = "create_directory";
    const EFFECT: Effect = Effect::Adds;
    const ABOUT: Option<&'static str> =
        Some("Creates a directory, and those on the way to it. One that exists is left alone.");
    type Request = PathRequest;

    fn run(lbx: &mut Native<'_>, PathRequest { path }: PathRequest) -> Result<Said, Error> {
        lbx.call::<mkdir::Mkdir>(json!({ "path": path })).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                let absolute = lbx.absolute(&path).unwrap_or_default();
                let words = format!("EEXIST: file already exists, mkdir '{}'", absolute.display());
                refused(ErrorKind::AlreadyExists, &path, words)
            }
            _ => worded(lbx, &path, "mkdir", error),
        })?;
        Ok(said(format!("Successfully created directory {path}")))
    }
}

/// Moves or renames a file or directory; never overwrites.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// The file or directory to move
    source: String,
    /// Its new path
    destination: String,
}

/// `move_file`.
pub struct MoveFile;

impl Foreign for MoveFile {
    const NAME: &'static str = "move_file";
    const EFFECT: Effect = Effect::Writes;
    const FIELDS: &'static [Pair] = &[("from", "source"), ("to", "destination")];
    type Request = MoveRequest;

    fn run(lbx: &mut Native<'_>, request: MoveRequest) -> Result<Said, Error> {
        let MoveRequest { source, destination } = request;
        let target = lbx.absolute(&destination)?.display().to_string();
        if lbx.exists(&source).is_ok_and(|exists| exists) && lbx.exists(&target).is_ok_and(|exists| exists) {
            let words = format!("Destination already exists: {target}");
            return Err(refused(ErrorKind::AlreadyExists, &destination, words));
        }
        let missing = |lbx: &Native<'_>| {
            let from = lbx.absolute(&source).unwrap_or_default();
            let words =
                format!("ENOENT: no such file or directory, rename '{}' -> '{target}'", from.display());
            refused(ErrorKind::NotFound, &source, words)
        };
        let into_itself =
            |lbx: &Native<'_>| lbx.absolute(&source).is_ok_and(|from| Path::new(&target).starts_with(from));
        must_have_parent(lbx, &destination, "rename").map_err(|_| missing(lbx))?;
        lbx.call::<r#move::Move>(json!({ "from": source, "to": target })).map_err(|error| {
            match error.kind() {
                ErrorKind::NotFound => missing(lbx),
                ErrorKind::AlreadyExists => {
                    let words = format!("Destination already exists: {target}");
                    refused(ErrorKind::AlreadyExists, &destination, words)
                }
                ErrorKind::OutsideWorkspace => {
                    let is_source = lbx.exists(&source).is_err();
                    worded(lbx, if is_source { &source } else { &destination }, "rename", error)
                }
                _ if into_itself(lbx) => {
                    let from = lbx.absolute(&source).unwrap_or_default();
                    let words =
                        format!("EINVAL: invalid argument, rename '{}' -> '{target}'", from.display());
                    refused(error.kind(), &destination, words)
                }
                _ => error,
            }
        })?;
        Ok(said(format!("Successfully moved {source} to {destination}")))
    }
}
