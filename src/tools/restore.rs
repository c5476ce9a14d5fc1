//! `restore`: back from the trash.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ChangeOptions, subject};
use super::{Effect, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::Change;
use crate::engine::change::repeat::RECENT;
use crate::engine::store::trash;
use crate::engine::store::trash::TrashEntry;
use crate::engine::workspace::fs;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::counted::counted;
use crate::text::escaped;

/// Bring back what was deleted
///
/// Takes the `trash_id` that delete returned, or the path that was deleted, of which the newest comes
/// back. Never overwrites: if something is in the way, name another place with `to`.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Path that was deleted
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path"]))]
    pub path: Option<PathBuf>,
    /// Id in the trash, instead of the path
    #[arg(long, value_name = "ID")]
    #[schemars(extend("x-aliases" = ["id"]))]
    pub trash_id: Option<String>,
    /// Where to restore it, if not to its old path
    #[arg(long, value_name = "PATH")]
    #[schemars(extend("x-aliases" = ["destination"]))]
    pub to: Option<PathBuf>,
    /// Whether to do it, and why.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// What was brought back.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Where it is
    pub path: String,
    /// SHA-256 of its bytes; absent for a folder
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// Its name in the trash until now
    pub trash_id: String,
    /// Files in it; absent where `already_applied`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// True where this session made this very request before and its result still stands
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub already_applied: bool,
}

impl Request {
    /// By what a repeated request is known.
    fn digest(&self) -> Sha256 {
        let Self { path, trash_id, to, options: _ } = self;
        Sha256::of(format!("restore {:?}", (path, trash_id, to)).as_bytes())
    }
}

/// The tool.
pub struct Restore;

impl Tool for Restore {
    const NAME: &'static str = "restore";
    const LISTED: &'static str = "trash_id path to";
    const EFFECT: Effect = Effect::Adds;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let fields = [("path", &request.path), ("to", &request.to)];
        let named: Vec<(&str, &Path)> =
            fields.iter().filter_map(|(field, path)| Some((*field, path.as_deref()?))).collect();
        let mut change = engine.begin(Self::NAME, &named, request.options.dry_run)?;
        let repeated = change.repeated(request.digest(), RECENT)?;
        let Some(moved) = repeated.and_then(|entry| entry.moves.into_iter().next()) else {
            return restore(change, request);
        };
        let place = change.workspace().place_of(&moved.to)?;
        Ok(Response {
            path: change.workspace().shown(&moved.to),
            sha256: change.sha256_at(&place)?,
            trash_id: change.state().and_then(|state| trash::id_of(state, &moved.from)).unwrap_or_default(),
            files: None,
            already_applied: true,
        })
    }

    fn text(response: &Response, text: &mut Text) {
        let path = escaped::name(&response.path);
        let what = response.files.map_or("already applied".to_owned(), |files| counted(files, "file"));
        text.change(&format!("restore: {path} ({what})"));
    }
}

/// Brings something back.
fn restore(mut change: Change<'_>, request: Request) -> Result<Response, Error> {
    let entry = find(&mut change, &request)?;
    let place_of_old = change.engine().workspace.root().join(entry.path.as_path());
    let to = request.to.clone().unwrap_or(place_of_old);
    let place = change.look_at_destination(&to)?;
    let shown = change.engine().workspace.shown(place.path());
    if place.stat().is_some() {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("{shown} exists already, and restore never overwrites"),
        )
        .at(shown)
        .suggest("Name another place with `to`."));
    }
    let content = entry.content(change.state());
    let stored = change.engine().workspace.root().join(content.as_path());
    let stored = change.engine().workspace.resolve_entry(&stored)?;
    if !stored.stat().is_some_and(fs::is_folder) {
        place.must_take_a_file()?;
    }
    let sha256 = if let Some((version, bytes)) = change.restored_from_elsewhere(&entry)? {
        let absent = change.nothing_at(place.path())?;
        change.put_version(absent.without_proof(), bytes, &version);
        Some(version.sha256)
    } else {
        change.move_whole(&content, place.path())?;
        change.sha256_at(&stored)?
    };
    change.commit(subject(Restore::NAME, &[place.path().clone()]), request.options.why)?;
    Ok(Response { path: shown, sha256, trash_id: entry.id, files: Some(entry.files), already_applied: false })
}

/// The entry of the trash that is meant.
fn find(change: &mut Change<'_>, request: &Request) -> Result<TrashEntry, Error> {
    let entries = trash::list_of(change.state())?;
    match (&request.trash_id, &request.path) {
        (Some(id), None) => {
            entries.iter().find(|entry| entry.id == *id).cloned().ok_or_else(|| missing(id, &entries, change))
        }
        (None, Some(path)) => {
            let place = change.engine().workspace.resolve_entry(path)?;
            let newest = entries.iter().find(|entry| entry.path == *place.path()).cloned();
            newest.ok_or_else(|| missing(place.shown(), &entries, change))
        }
        _ => Err(Error::invalid("name what to restore: either trash_id or path").detail("field", "trash_id")),
    }
}

/// The refusal of an entry that there is not, with the newest that there are.
fn missing(name: &str, entries: &[TrashEntry], change: &mut Change<'_>) -> Error {
    /// Entries named.
    const NAMED: usize = 3;
    let workspace = &change.engine().workspace;
    let near: Vec<String> = entries
        .iter()
        .take(NAMED)
        .map(|entry| format!("{} ({})", workspace.shown(&entry.path), entry.id))
        .collect();
    let error = Error::new(ErrorKind::NotFound, format!("{name} is not in the trash")).at(name);
    if near.is_empty() {
        return error.suggest("The trash is empty; undo takes back changes, and git has what was committed.");
    }
    error.suggest(format!("The trash holds, the newest first: {}.", near.join(", "))).detail("near", near)
}
