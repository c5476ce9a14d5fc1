//! `trash` and `restore`: deleted files and their restoration.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ChangeOptions, fitting, subject, time_text, unlimited_if_0};
use super::gc::DAY;
use super::{Effect, Stdin, Text, Tool};
use crate::control::seconds_now;
use crate::engine::Engine;
use crate::engine::change::Change;
use crate::engine::change::gate::RECENT;
use crate::engine::change::trash::damaged_entry;
use crate::engine::policy::Policy;
use crate::engine::store::audit::AuditFile;
use crate::engine::store::state::State;
use crate::engine::store::trash::{self, TrashEntry, TrashListing};
use crate::engine::workspace::fs;
use crate::engine::workspace::removal::RemovalResult;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::escaped;
use crate::text::escaped::{first_names, plural};

/// Default number of entries in a response.
const ENTRIES: usize = 100;

/// List deleted files, or remove them for good
///
/// list shows entries that restore can bring back, newest first. purge frees the space of one entry, or of all, and
/// cannot be undone; it keeps entries younger than `gc.keep_days` in the user's own policy file, unless loosen there
/// lists that.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Action
    #[arg(value_name = "ACTION", value_enum, default_value_t)]
    #[serde(default)]
    pub action: Action,
    /// Entry to purge; all by default
    #[arg(long, value_name = "ID")]
    pub trash_id: Option<String>,
    /// Maximum number of entries; 0 for all
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<usize>,
    /// Entries to skip
    #[arg(long, value_name = "COUNT", default_value_t)]
    #[serde(default)]
    pub offset: usize,
    /// Maximum bytes of entries; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// Show what would change without changing anything
    #[arg(long)]
    pub dry_run: bool,
}

/// Action on the trash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// List the entries
    #[default]
    List,
    /// Delete entries for good
    Purge,
}

/// Entries of the trash, or the removed ones.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Entries shown or purged
    pub entries: Vec<TrashItem>,
    /// Total entries, or entries purged
    pub total: usize,
    /// Files in them; of a purge, only removed ones
    pub files: u64,
    /// Bytes in them; of a purge, only removed ones
    pub bytes: u64,
    /// True if there are more entries
    pub truncated: bool,
    /// Offset at which to continue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// One entry of the trash.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TrashItem {
    /// ID for restore
    pub trash_id: String,
    /// Old path
    pub path: String,
    /// `file` or `dir`
    pub r#type: &'static str,
    /// Files in it
    pub files: u64,
    /// Total bytes of its files
    pub bytes: u64,
    /// Session that deleted it
    pub session: String,
    /// Time, RFC 3339
    pub time: String,
}

/// `trash` tool.
pub struct Trash;

impl Tool for Trash {
    const NAME: &'static str = "trash";
    const EFFECT: Effect = Effect::Reads;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        match request.action {
            Action::List => list(engine, &request),
            Action::Purge => purge(engine, &request),
        }
    }

    fn text(response: &Response, text: &mut Text) {
        for entry in &response.entries {
            let (path, files) = (escaped::name(&entry.path), plural(entry.files, "file"));
            text.entry(&format!("{}\t{}\t{path}\t{files}", entry.trash_id, entry.time));
        }
        let shown = response.entries.len();
        if let Some(next) = response.next_offset {
            let more = text.option("offset", next);
            text.note(format!("{shown} of {}; more: {more}", plural(response.total, "entry")));
        } else if response.truncated {
            text.note(format!("{shown} of {} are listed", plural(response.total, "entry")));
        }
    }
}

/// Lists the entries of the trash.
fn list(engine: &mut Engine, request: &Request) -> Result<Response, Error> {
    let state = State::find(&engine.workspace)?;
    let TrashListing { entries, damaged } = trash::list(state.as_ref())?;
    engine.warn_if(skipped(state.as_ref(), &damaged));
    let limit = unlimited_if_0(request.limit.unwrap_or(ENTRIES));
    let asked_for = entries.iter().skip(request.offset).take(limit);
    let shown = entries_that_fit(engine, asked_for, request.max_bytes);
    let next = request.offset.saturating_add(shown.len());
    let truncated = next < entries.len();
    Ok(Response {
        entries: shown,
        total: entries.len(),
        files: sum(&entries, |entry| entry.files),
        bytes: sum(&entries, |entry| entry.bytes),
        truncated,
        next_offset: truncated.then_some(next),
    })
}

/// Returns a warning that names the entries whose descriptions are damaged.
fn skipped(state: Option<&State>, ids: &[String]) -> Option<String> {
    let folder = state.filter(|_| !ids.is_empty())?.display(trash::FOLDER);
    let (count, named) = (plural(ids.len(), "trash entry"), first_names(ids));
    Some(format!("skipped {count} with a damaged description, kept in {folder}: {named}"))
}

/// Returns the first entries that fit into a response, at least one.
fn entries_that_fit<'e>(
    engine: &Engine,
    entries: impl Iterator<Item = &'e TrashEntry>,
    asked: Option<usize>,
) -> Vec<TrashItem> {
    /// Bytes of an entry besides its path and session.
    const SAID_BYTES: usize = 160;
    let bytes = |entry: &TrashItem| entry.path.len() + entry.session.len() + SAID_BYTES;
    fitting(
        asked.unwrap_or(engine.policy().max_bytes()),
        entries.map(|entry| trash_item(engine, entry)),
        bytes,
    )
}

/// Removes entries for good.
fn purge(engine: &mut Engine, request: &Request) -> Result<Response, Error> {
    let mut change = engine.begin(Trash::NAME, &[], request.dry_run)?;
    let mut entries = trash::list(change.state())?.entries;
    if let Some(id) = &request.trash_id {
        entries.retain(|entry| entry.id == *id);
        if entries.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, format!("{id} is not in the trash"))
                .suggest("List the trash: each entry has its trash_id."));
        }
    }
    let young = keep_young(change.engine().policy(), &mut entries);
    if young > 0 {
        let kept = format!("kept {}: younger than gc.keep_days", plural(young, "entry"));
        if request.trash_id.is_some() {
            return Err(Error::new(ErrorKind::PermissionDenied, kept).suggest(
                "Only the user allows that: loosen = [\"gc.keep_days\"] in the user's policy file.",
            ));
        }
        change.engine().warn(kept);
    }
    let mut removed = RemovalResult {
        files: sum(&entries, |entry| entry.files),
        bytes: sum(&entries, |entry| entry.bytes),
        ..RemovalResult::default()
    };
    if let Some(state) = change.state().filter(|_| !request.dry_run) {
        removed = RemovalResult::default();
        for entry in &entries {
            removed.join(trash::purge(state, &entry.id)?);
        }
        if request.trash_id.is_none() {
            for id in trash::partly_purged(state)? {
                removed.join(trash::purge(state, &id)?);
            }
        }
    }
    if removed.is_partial {
        let warning = format!("not everything could be removed: {}", removed.left.join(", "));
        change.engine().warn(warning);
    }
    drop(change);
    if !request.dry_run {
        let gone = |entry: &TrashEntry| AuditFile {
            path: entry.path.to_string(),
            old_sha256: None,
            new_sha256: None,
        };
        engine.note_changed(entries.iter().map(gone), None);
    }
    let shown = entries_that_fit(engine, entries.iter(), request.max_bytes);
    Ok(Response {
        total: entries.len(),
        files: removed.files,
        bytes: removed.bytes,
        truncated: shown.len() < entries.len(),
        next_offset: None,
        entries: shown,
    })
}

/// Removes from the list the entries that the user's own policy file keeps, and returns their number.
fn keep_young(policy: &Policy, entries: &mut Vec<TrashEntry>) -> usize {
    let Some(days) = policy.days_kept_by_user() else { return 0 };
    let (all, before) = (entries.len(), seconds_now().saturating_sub(days.saturating_mul(DAY)));
    entries.retain(|entry| entry.time <= before);
    all - entries.len()
}

/// Returns a sum over entries; saturates, because the numbers come from a file that may be wrong.
fn sum(entries: &[TrashEntry], of: impl Fn(&TrashEntry) -> u64) -> u64 {
    entries.iter().fold(0, |sum, entry| sum.saturating_add(of(entry)))
}

/// Returns one entry for the response.
fn trash_item(engine: &Engine, entry: &TrashEntry) -> TrashItem {
    TrashItem {
        trash_id: entry.id.clone(),
        path: engine.workspace.display(&entry.path),
        r#type: if entry.is_folder { "dir" } else { "file" },
        files: entry.files,
        bytes: entry.bytes,
        session: entry.session.clone(),
        time: time_text(entry.time),
    }
}

/// Restore deleted files
///
/// Takes the `trash_id` that delete returned, or the deleted path, of which the newest comes back. Never overwrites: if
/// the path exists, name another one with `to`.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct RestoreRequest {
    /// Path that was deleted
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path"]))]
    pub path: Option<PathBuf>,
    /// ID in the trash, instead of the path
    #[arg(long, value_name = "ID")]
    #[schemars(extend("x-aliases" = ["id"]))]
    pub trash_id: Option<String>,
    /// Path to restore to, if not the old one
    #[arg(long, value_name = "PATH")]
    #[schemars(extend("x-aliases" = ["destination"]))]
    pub to: Option<PathBuf>,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// Result of `restore`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RestoreResponse {
    /// Path
    pub path: String,
    /// SHA-256 of the file; absent for a folder
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// Former name in the trash
    pub trash_id: String,
    /// Files in it; absent if `already_applied`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// True if this session made an equal request before and its result still holds
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub already_applied: bool,
}

impl RestoreRequest {
    /// Returns the digest that identifies a repeated request.
    fn digest(&self) -> Sha256 {
        let Self { path, trash_id, to, options: _ } = self;
        Sha256::of(format!("restore {:?}", (path, trash_id, to)).as_bytes())
    }
}

/// `restore` tool.
pub struct Restore;

impl Tool for Restore {
    const NAME: &'static str = "restore";
    const LISTED: &'static str = "trash_id path to";
    const EFFECT: Effect = Effect::Adds;
    const STDIN: Stdin = Stdin::Request;
    const FOR_PEOPLE: bool = true;
    type Request = RestoreRequest;
    type Response = RestoreResponse;

    fn run(engine: &mut Engine, request: RestoreRequest) -> Result<RestoreResponse, Error> {
        let fields = [("path", &request.path), ("to", &request.to)];
        let named: Vec<(&str, &Path)> =
            fields.iter().filter_map(|(field, path)| Some((*field, path.as_deref()?))).collect();
        let mut change = engine.begin(Self::NAME, &named, request.options.dry_run)?;
        let repeated = change.repeated(request.digest(), RECENT, false)?;
        let Some(moved) = repeated.and_then(|entry| entry.moves.into_iter().next()) else {
            return restore(change, request);
        };
        let place = change.workspace().place_of(&moved.to)?;
        Ok(RestoreResponse {
            path: change.workspace().display(&moved.to),
            sha256: change.sha256_at(&place)?,
            trash_id: change.state().and_then(|state| trash::id_of(state, &moved.from)).unwrap_or_default(),
            files: None,
            already_applied: true,
        })
    }

    fn text(response: &RestoreResponse, text: &mut Text) {
        let path = escaped::name(&response.path);
        let what = response.files.map_or("already applied".to_owned(), |files| plural(files, "file"));
        text.change(&format!("restore: {path} ({what})"));
    }
}

/// Restores an entry.
fn restore(mut change: Change<'_>, request: RestoreRequest) -> Result<RestoreResponse, Error> {
    let entry = find(&mut change, &request)?;
    let place_of_old = change.engine().workspace.root().join(entry.path.as_path());
    let to = request.to.clone().unwrap_or(place_of_old);
    let place = change.resolve_destination(&to)?;
    let shown = change.engine().workspace.display(place.path());
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
        let absent = change.free_path(place.path())?;
        change.put_version(absent.without_proof(), bytes, &version);
        Some(version.sha256)
    } else {
        change.move_whole(&content, place.path(), false)?;
        change.sha256_at(&stored)?
    };
    change.commit(subject(Restore::NAME, &[place.path().clone()]), request.options.why)?;
    Ok(RestoreResponse {
        path: shown,
        sha256,
        trash_id: entry.id,
        files: Some(entry.files),
        already_applied: false,
    })
}

/// Returns the entry of the trash that the request means.
fn find(change: &mut Change<'_>, request: &RestoreRequest) -> Result<TrashEntry, Error> {
    let TrashListing { entries, damaged } = trash::list(change.state())?;
    if let (Some(id), Some(state)) = (&request.trash_id, change.state())
        && damaged.contains(id)
    {
        return Err(damaged_entry(state, id));
    }
    let warning = skipped(change.state(), &damaged);
    change.engine().warn_if(warning);
    match (&request.trash_id, &request.path) {
        (Some(id), None) => {
            entries.iter().find(|entry| entry.id == *id).cloned().ok_or_else(|| missing(id, &entries, change))
        }
        (None, Some(path)) => {
            let place = change.engine().workspace.resolve_entry(path)?;
            let newest = entries.iter().find(|entry| entry.path == *place.path()).cloned();
            newest.ok_or_else(|| missing(place.display(), &entries, change))
        }
        _ => Err(Error::invalid("name what to restore: either trash_id or path").detail("field", "trash_id")),
    }
}

/// Returns the error for a missing entry, with the newest existing ones.
fn missing(name: &str, entries: &[TrashEntry], change: &mut Change<'_>) -> Error {
    /// Number of entries to name.
    const NAMED: usize = 3;
    let workspace = &change.engine().workspace;
    let near: Vec<String> = entries
        .iter()
        .take(NAMED)
        .map(|entry| format!("{} ({})", workspace.display(&entry.path), entry.id))
        .collect();
    let error = Error::new(ErrorKind::NotFound, format!("{name} is not in the trash")).at(name);
    if near.is_empty() {
        return error.suggest("The trash is empty; undo takes back changes, and git has what was committed.");
    }
    error.suggest(format!("The trash holds, the newest first: {}.", near.join(", "))).detail("near", near)
}
