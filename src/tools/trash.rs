//! `trash`: what was deleted and can be restored.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gc::DAY;
use super::{Effect, Stdin, Text, Tool};
use crate::clock::seconds_now;
use crate::engine::Engine;
use crate::engine::policy::Policy;
use crate::engine::store::audit::AuditFile;
use crate::engine::store::state::State;
use crate::engine::store::trash;
use crate::engine::store::trash::TrashEntry;
use crate::engine::workspace::removal::Removed;
use crate::error::{Error, ErrorKind};
use crate::text::counted::counted;
use crate::text::escaped;

/// Entries in an answer, where the request does not say.
const ENTRIES: usize = 100;

/// List what was deleted, or remove it for good
///
/// list shows what restore can bring back, the newest first. purge frees the space of one entry, or
/// of all, and cannot be taken back; it keeps what is younger than `gc.keep_days` in the user's own policy file, unless
/// loosen there lists that.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What to do
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
    #[serde(default)]
    pub dry_run: bool,
}

/// What to do with the trash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// List the entries
    #[default]
    List,
    /// Delete entries for good
    Purge,
}

/// What the trash holds, or no longer holds.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The entries shown or purged
    pub entries: Vec<TrashItem>,
    /// How many there are, or were purged
    pub total: usize,
    /// Files in all of them; of a purge, those that were removed
    pub files: u64,
    /// Bytes in all of them; of a purge, those that were removed
    pub bytes: u64,
    /// Whether there are more than are shown
    pub truncated: bool,
    /// The offset at which to continue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// One entry of the trash.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TrashItem {
    /// Its name; restore takes it
    pub trash_id: String,
    /// Where it was
    pub path: String,
    /// `file` or `dir`
    pub r#type: &'static str,
    /// Files in it
    pub files: u64,
    /// Bytes in all of its files
    pub bytes: u64,
    /// Session that deleted it
    pub session: String,
    /// When, RFC 3339
    pub time: String,
}

/// The tool.
pub struct Trash;

impl Tool for Trash {
    const NAME: &'static str = "trash";
    const EFFECT: Effect = Effect::Reads;
    const STDIN: Stdin = Stdin::Ignored;
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
            let (path, files) = (escaped::name(&entry.path), counted(entry.files, "file"));
            text.entry(&format!("{}\t{}\t{path}\t{files}", entry.trash_id, entry.time));
        }
        let shown = response.entries.len();
        if let Some(next) = response.next_offset {
            let more = text.option("offset", next);
            text.note(format!("{shown} of {}; more: {more}", counted(response.total, "entry")));
        } else if response.truncated {
            text.note(format!("{shown} of {} are listed", counted(response.total, "entry")));
        }
    }
}

/// Shows what the trash holds.
fn list(engine: &Engine, request: &Request) -> Result<Response, Error> {
    let entries = match State::find(&engine.workspace)? {
        Some(state) => trash::list(&state)?,
        None => Vec::new(),
    };
    let limit = match request.limit.unwrap_or(ENTRIES) {
        0 => usize::MAX,
        limit => limit,
    };
    let asked_for = entries.iter().skip(request.offset).take(limit);
    let shown = within(engine, asked_for, request.max_bytes);
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

/// The first entries that fit into an answer, and at least one.
fn within<'e>(
    engine: &Engine,
    entries: impl Iterator<Item = &'e TrashEntry>,
    asked: Option<usize>,
) -> Vec<TrashItem> {
    /// Bytes of an entry beside its path and session.
    const SAID_BYTES: usize = 160;
    let bytes_max = asked.unwrap_or(engine.policy().max_bytes());
    let (mut shown, mut bytes): (Vec<TrashItem>, usize) = (Vec::new(), 0);
    for entry in entries {
        let entry = listed(engine, entry);
        bytes += entry.path.len() + entry.session.len() + SAID_BYTES;
        if bytes_max > 0 && bytes > bytes_max && !shown.is_empty() {
            break;
        }
        shown.push(entry);
    }
    shown
}

/// Removes entries for good.
fn purge(engine: &mut Engine, request: &Request) -> Result<Response, Error> {
    let mut change = engine.begin(Trash::NAME, &[], request.dry_run)?;
    let mut entries = match change.state() {
        Some(state) => trash::list(state)?,
        None => Vec::new(),
    };
    if let Some(id) = &request.trash_id {
        entries.retain(|entry| entry.id == *id);
        if entries.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, format!("{id} is not in the trash"))
                .suggest("List the trash: each entry has its trash_id."));
        }
    }
    let young = keep_young(change.engine().policy(), &mut entries);
    if young > 0 {
        let kept = format!("kept {}: younger than gc.keep_days", counted(young, "entry"));
        if request.trash_id.is_some() {
            return Err(Error::new(ErrorKind::PermissionDenied, kept).suggest(
                "Only the user allows that: loosen = [\"gc.keep_days\"] in the user's policy file.",
            ));
        }
        change.engine().warn(kept);
    }
    let mut removed = Removed {
        files: sum(&entries, |entry| entry.files),
        bytes: sum(&entries, |entry| entry.bytes),
        ..Removed::default()
    };
    if let Some(state) = change.state().filter(|_| !request.dry_run) {
        removed = Removed::default();
        for entry in &entries {
            removed.join(trash::purge(state, &entry.id)?);
        }
        if request.trash_id.is_none() {
            for id in trash::half_purged(state)? {
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
    let shown = within(engine, entries.iter(), request.max_bytes);
    Ok(Response {
        total: entries.len(),
        files: removed.files,
        bytes: removed.bytes,
        truncated: shown.len() < entries.len(),
        next_offset: None,
        entries: shown,
    })
}

/// Takes out the entries that the user's own policy file keeps, and returns their number.
fn keep_young(policy: &Policy, entries: &mut Vec<TrashEntry>) -> usize {
    let Some(days) = policy.days_kept_by_user() else { return 0 };
    let (all, before) = (entries.len(), seconds_now().saturating_sub(days.saturating_mul(DAY)));
    entries.retain(|entry| entry.time < before);
    all - entries.len()
}

/// A sum over entries, whose numbers are only what a file says.
fn sum(entries: &[TrashEntry], of: impl Fn(&TrashEntry) -> u64) -> u64 {
    entries.iter().fold(0, |sum, entry| sum.saturating_add(of(entry)))
}

/// One entry as answers show it.
fn listed(engine: &Engine, entry: &TrashEntry) -> TrashItem {
    TrashItem {
        trash_id: entry.id.clone(),
        path: engine.workspace.shown(&entry.path),
        r#type: if entry.is_folder { "dir" } else { "file" },
        files: entry.files,
        bytes: entry.bytes,
        session: entry.session.clone(),
        time: super::common::time_text(entry.time),
    }
}
