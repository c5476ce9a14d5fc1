//! An undone or redone change, as responses show it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::history::client_calls::Turns;
use crate::engine::history::replay::Direction;
use crate::engine::history::stacks::History;
use crate::engine::journal::JournalEntry;
use crate::engine::store::state::State;
use crate::engine::store::trash;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::error::{Error, ErrorKind};
use crate::message::text;
use crate::text::escaped;
use crate::tools::Text;
use crate::tools::common::PLACES_LISTED;
use crate::tools::targets::{self, LOG_SHOWS, lost_state};

/// A change that was undone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UndoneChange {
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

impl fmt::Display for UndoneChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = escaped::and_more(self.files.unwrap_or(self.paths.len()).saturating_sub(1));
        let path = escaped::name(&self.path);
        let hunk = self.hunk.map(|hunk| format!(", hunk {hunk}")).unwrap_or_default();
        write!(f, "{}: {path}{more} (change {}{hunk})", self.tool, self.seq)
    }
}

/// Returns a change as responses show it.
pub fn response_change(engine: &Engine, entry: &JournalEntry) -> UndoneChange {
    let (trashed, named): (Vec<&WorkspacePath>, Vec<_>) = entry.paths().partition(|path| is_state(path));
    let mut paths: Vec<String> = named.into_iter().map(|path| engine.workspace.display(path)).collect();
    if paths.is_empty() {
        // A rewind past a deletion, and the deletion before it.
        paths.extend(trashed.iter().filter_map(|path| original(engine, path)));
        paths.dedup();
    }
    if paths.is_empty() {
        paths.extend(folders_of(entry).map(|path| engine.workspace.display(path)));
    }
    if paths.is_empty() {
        // A command that left nothing to restore.
        paths.extend(entry.lost.iter().map(|path| engine.workspace.display(path)));
    }
    let path = paths.first().cloned().unwrap_or_else(|| ".".to_owned());
    let total = paths.len();
    paths.truncate(PLACES_LISTED);
    UndoneChange {
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
    trash::original(&state, path).map(|path| engine.workspace.display(&path))
}

/// Writes one line per change.
pub fn as_text(changes: &[UndoneChange], tool: &str, text: &mut Text) {
    for undone in changes {
        text.change(&format!("{tool}: {undone}"));
    }
}

/// Returns true if a change touches a path or anything below it.
pub fn touches(entry: &JournalEntry, path: &WorkspacePath) -> bool {
    let mut all = entry.paths().chain(folders_of(entry));
    all.any(|touched| touched.is_within(path) || path.is_within(touched))
}

/// Returns the folders that a change makes, removes or changes the mode of.
fn folders_of(entry: &JournalEntry) -> impl Iterator<Item = &WorkspacePath> {
    let removed = entry.removed.iter().map(|folder| &folder.path);
    let modes = entry.modes.iter().filter(|folder| folder.is_change()).map(|folder| &folder.path);
    entry.folders.iter().chain(removed).chain(modes).filter(|path| !is_state(path))
}

/// Returns the error for a session without a change to undo or redo.
pub fn nothing_to_undo(
    engine: &Engine,
    direction: Direction,
    path: Option<&WorkspacePath>,
    damaged: &BTreeSet<u64>,
) -> Error {
    let (session, name) = (engine.session(), direction.name());
    let place = path.map(|path| format!(" in {path}")).unwrap_or_default();
    let what = format!("session {session} has nothing to {name}{place}");
    if let Some(lost) = lost_state(engine).or_else(|| skipped(damaged)) {
        return Error::new(ErrorKind::NotFound, format!("{what}: {lost}")).suggest(
            "`log` shows the snapshots, and `diff` what each changed; git can bring back their files.",
        );
    }
    let error = Error::new(ErrorKind::NotFound, what);
    // `undo 3` means a file of that name.
    match path.and_then(|path| path.to_string().parse::<usize>().ok()) {
        Some(number) => error
            .suggest(format!("Did you mean `steps` {number}?"))
            .on_command_line(format!("On the command line: --steps {number}.")),
        None => error.suggest(LOG_SHOWS),
    }
}

/// Returns the error for a newer change than those to undo, whose record is damaged.
pub fn record_is_damaged(seq: u64) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("change #{seq} cannot be undone: its record in the journal is damaged"),
    )
    .suggest("`log` finds its snapshot; `undo` with the `seq` of an earlier change takes that one back.")
    .detail("seq", seq)
}

/// Warns of changes that were skipped since their records cannot be read.
pub fn warn_of_damaged(engine: &mut Engine, damaged: &BTreeSet<u64>) {
    if let Some(skipped) = skipped(damaged) {
        engine.warn(text!("{}: `log` finds its snapshot", skipped));
    }
}

/// Lists changes that were skipped since their records cannot be read; `None` if there are none.
fn skipped(damaged: &BTreeSet<u64>) -> Option<String> {
    let numbers: Vec<String> = damaged.iter().map(|seq| format!("#{seq}")).collect();
    let skipped =
        || format!("skipped {}, whose record in the journal is damaged", escaped::first_names(&numbers));
    (!numbers.is_empty()).then(skipped)
}

/// Warns of changes of which nothing is done again.
pub fn warn_of_nothing(engine: &mut Engine, entries: &[JournalEntry]) {
    for entry in entries {
        let JournalEntry { files, moves, folders, removed, modes, .. } = entry;
        if files.is_empty()
            && moves.is_empty()
            && folders.is_empty()
            && removed.is_empty()
            && modes.is_empty()
        {
            let seq = entry.seq;
            engine.warn(format!(
                "#{seq} makes nothing again: its undo found the files removed by someone else"
            ));
        }
    }
}

/// Warns of files that a command changed and whose old bytes were not saved.
pub fn warn_of_lost(engine: &mut Engine, entries: &[JournalEntry]) {
    /// Number of files that are named.
    const NAMED: usize = 20;
    let total: usize = entries.iter().map(|entry| entry.lost_total).sum();
    if total > 0 {
        let lost = entries.iter().flat_map(|entry| &entry.lost).map(|path| engine.workspace.display(path));
        let lost = escaped::first_of(lost, total, NAMED);
        engine.warn(format!("not restored, because no copy exists: {lost}"));
    }
}

/// A change of another session.
pub struct ForeignChange {
    /// The session.
    pub session: String,
    /// The change.
    pub change: UndoneChange,
    /// Its turn, for a question.
    pub turn: String,
}

/// Returns the next change of the session that was last active, if the caller's session has none to undo or redo.
///
/// # Errors
/// Fails if the snapshots or the journal cannot be read.
pub fn newest_of_others(
    engine: &Engine,
    direction: Direction,
    path: Option<&Path>,
) -> Result<Option<ForeignChange>, Error> {
    let path = path.map(|path| engine.workspace.resolve_entry(path)).transpose()?;
    let wanted = |entry: &JournalEntry| path.as_ref().is_none_or(|resolved| touches(entry, resolved.path()));
    let Some(state) = State::find(&engine.workspace)? else { return Ok(None) };
    let next = |session: &str| -> Result<Option<JournalEntry>, Error> {
        let mut history = History::load(&state, session)?;
        Ok(history.next(&state, direction, 1, wanted)?.into_iter().next())
    };
    if next(engine.session().as_str())?.is_some() {
        return Ok(None);
    }
    let sessions = record::find(engine)?.map(|store| targets::all_sessions(&store)).transpose()?;
    for session in sessions.unwrap_or_default() {
        if let Some(entry) = next(&session)? {
            let turn = Turns::load(&state, &session)?.of(entry.seq);
            let title = turn.title.iter().map(|title| format!(", {title:?}")).collect::<String>();
            let turn = format!("turn is of session {session}, from change {} on{title}", turn.first);
            return Ok(Some(ForeignChange { session, change: response_change(engine, &entry), turn }));
        }
    }
    Ok(None)
}
