//! An undone or redone change, as responses show it.

use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::history::replay::Direction;
use crate::engine::history::stacks::History;
use crate::engine::journal::JournalEntry;
use crate::engine::store::state::State;
use crate::engine::store::trash;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::error::Error;
use crate::text::escaped;
use crate::tools::common::PLACES_LISTED;
use crate::tools::{Text, targets};

/// A change that was undone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Undone {
    /// Its number in the session
    pub seq: u64,
    /// The tool that made it
    pub tool: String,
    /// Its file; of several, the first; `.` if none is left
    pub path: String,
    /// Its first 20 files, if there are several
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Number of files, if there are several
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<usize>,
    /// Its one hunk that was undone
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hunk: Option<usize>,
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = self.files.unwrap_or(self.paths.len()).saturating_sub(1);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let path = escaped::name(&self.path);
        let hunk = self.hunk.map(|hunk| format!(", hunk {hunk}")).unwrap_or_default();
        write!(f, "{}: {path}{more} (change {}{hunk})", self.tool, self.seq)
    }
}

/// Returns a change as responses show it.
pub fn listed(engine: &Engine, entry: &JournalEntry) -> Undone {
    let moved = entry.moves.iter().flat_map(|moved| [&moved.from, &moved.to]);
    let named = entry.files.iter().map(|file| &file.path).chain(moved);
    let (trashed, named): (Vec<&WorkspacePath>, Vec<_>) = named.partition(|path| is_state(path));
    let mut paths: Vec<String> = named.into_iter().map(|path| engine.workspace.shown(path)).collect();
    if paths.is_empty() {
        // A rewind past a deletion, and the deletion before it.
        paths.extend(trashed.iter().filter_map(|path| original(engine, path)));
        paths.dedup();
    }
    if paths.is_empty() {
        paths.extend(folders_of(entry).map(|path| engine.workspace.shown(path)));
    }
    if paths.is_empty() {
        // A command that left nothing to restore.
        paths.extend(entry.lost.iter().map(|path| engine.workspace.shown(path)));
    }
    let path = paths.first().cloned().unwrap_or_else(|| ".".to_owned());
    let total = paths.len();
    paths.truncate(PLACES_LISTED);
    Undone {
        seq: entry.seq,
        tool: entry.tool.clone(),
        path,
        files: (total > paths.len()).then_some(total),
        paths: if total > 1 { paths } else { Vec::new() },
        hunk: None,
    }
}

/// Returns the original path of a file in the trash, for a reader.
fn original(engine: &Engine, path: &WorkspacePath) -> Option<String> {
    let state = State::find(&engine.workspace).ok()??;
    trash::original(&state, path).map(|path| engine.workspace.shown(&path))
}

/// Writes one line per change.
pub fn as_text(changes: &[Undone], tool: &str, text: &mut Text) {
    for undone in changes {
        text.change(&format!("{tool}: {undone}"));
    }
}

/// Returns true if a change touches a path or anything below it.
pub fn touches(entry: &JournalEntry, path: &WorkspacePath) -> bool {
    let files = entry.files.iter().map(|file| &file.path);
    let moved = entry.moves.iter().flat_map(|moved| [&moved.from, &moved.to]);
    files
        .chain(moved)
        .chain(folders_of(entry))
        .any(|touched| touched.is_within(path) || path.is_within(touched))
}

/// Returns the folders that a change makes, removes or changes the mode of.
fn folders_of(entry: &JournalEntry) -> impl Iterator<Item = &WorkspacePath> {
    let removed = entry.removed.iter().map(|folder| &folder.path);
    let modes = entry.modes.iter().filter(|folder| folder.is_change()).map(|folder| &folder.path);
    entry.folders.iter().chain(removed).chain(modes).filter(|path| !is_state(path))
}

/// A change of another session.
pub struct Other {
    /// The session.
    pub session: String,
    /// The change.
    pub change: Undone,
}

/// Returns the next change of the session that was last active, if the caller's session has none to undo or redo.
///
/// # Errors
/// Fails if the snapshots or the journal cannot be read.
pub fn newest_of_others(
    engine: &Engine,
    direction: Direction,
    path: Option<&Path>,
) -> Result<Option<Other>, Error> {
    let path = path.map(|path| engine.workspace.resolve_entry(path)).transpose()?;
    let wanted = |entry: &JournalEntry| path.as_ref().is_none_or(|resolved| touches(entry, resolved.path()));
    let Some(state) = State::find(&engine.workspace)? else { return Ok(None) };
    let next = |session: &str| -> Result<Option<JournalEntry>, Error> {
        let mut history = History::load(&state, session)?;
        Ok(history.next(&state, direction, 1, wanted)?.pop())
    };
    if next(engine.session().as_str())?.is_some() {
        return Ok(None);
    }
    let sessions = record::find(engine)?.map(|store| targets::all_sessions(&store)).transpose()?;
    for session in sessions.unwrap_or_default() {
        if let Some(entry) = next(&session)? {
            return Ok(Some(Other { session, change: listed(engine, &entry) }));
        }
    }
    Ok(None)
}
