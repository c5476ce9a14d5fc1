//! `delete`: moves files to the trash.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ChangeOptions, ListEnd, reject_if, subject};
use super::{Effect, Stdin, Text, Tool};
use crate::control::seconds_now;
use crate::engine::Engine;
use crate::engine::change::Change;
use crate::engine::change::gate::RECENT;
use crate::engine::journal::JournalEntry;
use crate::engine::store::trash::{self, TrashEntry};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::escaped;
use crate::text::escaped::plural;

/// Delete files and folders, which can be restored
///
/// Moves them to the trash; restore brings them back.
///
/// A symlink is deleted itself, never its target. Several paths are deleted together or not at all.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Files and folders to delete
    #[arg(value_name = "PATH", num_args = 1..)]
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "paths"], "type" = ["string", "array"]))]
    pub path: Vec<PathBuf>,
    /// Delete folders with their contents
    #[arg(long, short = 'r')]
    pub recursive: bool,
    /// Fail unless the SHA-256 of the file is this one
    #[arg(long, value_name = "HEX")]
    pub expected_sha256: Option<Sha256>,
    /// Maximum bytes of the list in the response; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// Files and folders that were deleted.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum Response {
    /// One path.
    One(DeletedEntry),
    /// Several paths, in the order of the request.
    Several {
        /// One response per path
        deleted: Vec<DeletedEntry>,
        /// Completeness of the list.
        #[serde(flatten)]
        end: ListEnd,
    },
}

impl Response {
    /// Returns the response, in the order of the request.
    fn of(engine: &Engine, request: &Request, mut deleted: Vec<DeletedEntry>) -> Self {
        match deleted.pop() {
            Some(only) if deleted.is_empty() => Self::One(only),
            last => {
                deleted.extend(last);
                let end = ListEnd::of(engine, request.max_bytes, &mut deleted);
                Self::Several { deleted, end }
            }
        }
    }
}

/// File or folder that was deleted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedEntry {
    /// Old path
    pub path: String,
    /// Name in the trash, for restore; absent in a dry run
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trash_id: Option<String>,
    /// Files in it
    pub files: u64,
    /// Total bytes of its files
    pub bytes: u64,
    /// True if this session made an equal request before and its result still holds
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub already_applied: bool,
}

impl Request {
    /// Returns the digest that identifies a repeated request.
    fn digest(&self) -> Sha256 {
        let Self { path, recursive, expected_sha256, max_bytes: _, options: _ } = self;
        Sha256::of(format!("delete {path:?} {recursive} {expected_sha256:?}").as_bytes())
    }
}

/// `delete` tool.
pub struct Delete;

impl Tool for Delete {
    const NAME: &'static str = "delete";
    const LISTED: &'static str = "path recursive";
    const ALIASES: &'static [&'static str] = &["delete_file", "remove"];
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Request;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        reject_if(request.path.is_empty(), "path", "field `path` is missing: name what to delete")?;
        if request.path.len() > 1 && request.expected_sha256.is_some() {
            return Err(Error::invalid("expected_sha256 is for a single file: delete the files one by one"));
        }
        let named: Vec<(&str, &Path)> = request.path.iter().map(|path| ("path", path.as_path())).collect();
        let mut change = engine.begin(Self::NAME, &named, request.options.dry_run)?;
        let names_version = request.expected_sha256.is_some();
        if let Some(entry) = change.repeated(request.digest(), RECENT, names_version)? {
            let deleted = repeated(&mut change, &request, &entry)?;
            return Ok(Response::of(change.engine(), &request, deleted));
        }
        let (mut deleted, mut paths) = (Vec::new(), Vec::new());
        for path in &request.path {
            let (answer, place) = plan(&mut change, path, &request)?;
            must_be_apart(&place, &paths)?;
            paths.push(place.path().clone());
            deleted.push(answer);
        }
        change.commit(subject(Self::NAME, &paths), request.options.why.clone())?;
        Ok(Response::of(engine, &request, deleted))
    }

    fn text(response: &Response, text: &mut Text) {
        let (deleted, end) = match response {
            Response::One(only) => (std::slice::from_ref(only), ListEnd::default()),
            Response::Several { deleted, end } => (deleted.as_slice(), *end),
        };
        for one in deleted {
            let (path, files) = (escaped::name(&one.path), plural(one.files, "file"));
            let bytes = plural(one.bytes, "byte");
            let trash = one.trash_id.as_ref().map(|id| format!("; trash {id}")).unwrap_or_default();
            let already = if one.already_applied { "; already applied" } else { "" };
            text.change(&format!("delete: {path} ({files}, {bytes}{trash}{already})"));
        }
        end.note(deleted.len(), text);
    }
}

/// Plans the deletion of one path.
fn plan(
    change: &mut Change<'_>,
    path: &Path,
    request: &Request,
) -> Result<(DeletedEntry, ResolvedPath), Error> {
    let place = change.resolve_entry_to_move(path)?;
    let shown = place.display().to_owned();
    let Some(stat) = place.stat() else {
        return Err(change.engine().workspace.not_found(&place));
    };
    let is_folder = fs::is_folder(stat);
    if is_folder && !request.recursive {
        return Err(Error::new(ErrorKind::IsADirectory, format!("{shown} is a directory"))
            .at(shown)
            .suggest("If you mean the folder with its contents, set `recursive`; otherwise name a file."));
    }
    change.must_have_sha256(&place, request.expected_sha256)?;
    let session = change.engine().session().as_str().to_owned();
    let entry = TrashEntry::new(place.path().clone(), &session, seconds_now(), is_folder);
    let content = entry.content(change.state());
    let sum = change.move_whole(place.path(), &content, false)?;
    let trash_id = (!request.options.dry_run).then(|| entry.id.clone());
    let answer =
        DeletedEntry { path: shown, trash_id, files: sum.files, bytes: sum.bytes, already_applied: false };
    change.describe(entry, sum);
    Ok((answer, place))
}

/// Returns the response to a repeated request, from the entry of the first change, which is still in effect.
fn repeated(
    change: &mut Change<'_>,
    request: &Request,
    entry: &JournalEntry,
) -> Result<Vec<DeletedEntry>, Error> {
    let trash = trash::list(change.state())?.entries;
    let answer = |path: &PathBuf| {
        let place = change.resolve_entry_to_move(path)?;
        let is_it = |known: &&TrashEntry| {
            let content = known.content(change.state());
            entry.moves.iter().any(|moved| moved.from == *place.path() && moved.to == content)
        };
        let known = trash.iter().find(is_it).ok_or_else(|| change.workspace().not_found(&place))?;
        Ok(DeletedEntry {
            path: place.display().to_owned(),
            trash_id: Some(known.id.clone()),
            files: known.files,
            bytes: known.bytes,
            already_applied: true,
        })
    };
    request.path.iter().map(answer).collect()
}

/// Rejects a path that equals another one or lies inside it.
fn must_be_apart(place: &ResolvedPath, others: &[WorkspacePath]) -> Result<(), Error> {
    let overlaps = |other: &&WorkspacePath| place.path().is_within(other) || other.is_within(place.path());
    match others.iter().find(overlaps) {
        None => Ok(()),
        Some(_) => {
            Err(Error::invalid(format!("{} is named twice, or lies in another path named", place.display()))
                .at(place.display())
                .detail("field", "path"))
        }
    }
}
