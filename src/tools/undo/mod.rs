//! `undo`: a session's changes, taken back.

mod conflicts;
mod files;
mod folders;
mod part;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ChangeOptions, ListEnd, PLACES_LISTED};
use super::sessions::others_advice;
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::{Change, moves};
use crate::engine::history::replay::{Direction, Replay, ReplayConflict, ReplayResult};
use crate::engine::history::stacks::History;
use crate::engine::journal::{JournalEntry, Version};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::content::looks_binary;
use crate::text::escaped;
use crate::text::merge::{self, Alike};
pub use conflicts::{Conflict, Conflicts};
pub use files::{Interleaved, Manner};
use files::{MERGE_FLAG, Planner};
use folders::{clear_the_way, innermost_first, vacated, without_empty};

/// Undo changes of this session, the newest first
///
/// A file that has changed since is left alone (`stale_file`) unless merge is set and the changes do
/// not touch each other.
///
/// Works for every changing tool, over several files and calls; several changes are taken back
/// together or not at all. Another undo goes further back; redo does the changes again, one by one.
/// With seq, takes back that one change, or one file or hunk of it, and keeps what came later; where
/// both touch the same lines, it is refused and shows the conflict. That is a change of its own, which
/// an undo takes back.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// How far, and whether to do it.
    #[command(flatten)]
    #[serde(flatten)]
    pub steps: Steps,
    /// Undo only the change with this number; `log` and `review` show the numbers
    #[arg(long, value_name = "NUMBER", conflicts_with = "steps")]
    #[schemars(range(min = 1))]
    pub seq: Option<u64>,
    /// With seq, undo only this hunk of the change's diff, from 1
    #[arg(long, value_name = "NUMBER", requires = "seq")]
    #[schemars(range(min = 1))]
    pub hunk: Option<usize>,
}

/// What undo and redo take.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[group(skip)]
pub struct Steps {
    /// Number of changes
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub steps: usize,
    /// Only changes of this file or folder
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path"]))]
    pub path: Option<PathBuf>,
    /// Merge if a file has changed since
    #[arg(long)]
    #[serde(default)]
    pub merge: bool,
    /// Maximum bytes of the list in the response; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// Whether to do it, and why.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ChangeOptions,
}

/// One step.
const fn one() -> usize {
    1
}

/// What was taken back.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The changes, the newest first
    pub undone: Vec<Undone>,
    /// Whether that is all.
    #[serde(flatten)]
    pub end: ListEnd,
}

/// A change that was taken back.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Undone {
    /// Its number in the session
    pub seq: u64,
    /// The tool that made it
    pub tool: String,
    /// The file that it changed; of several, the first
    pub path: String,
    /// The first 20 of them, if there are several
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Number of files, if there are several
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<usize>,
    /// The one hunk of it that was undone
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hunk: Option<usize>,
}

/// The tool.
pub struct Undo;

impl Tool for Undo {
    const NAME: &'static str = "undo";
    const LISTED: &'static str = "steps path merge";
    const CORE: bool = true;
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Ignored;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        match request.seq {
            Some(seq) => part::run(engine, &request, seq),
            None if request.hunk.is_some() => {
                Err(Error::invalid("hunk needs seq: the number of the change").detail("field", "hunk"))
            }
            None => run(engine, &request.steps, Direction::Undo),
        }
    }

    fn text(response: &Response, text: &mut Text) {
        as_text(&response.undone, Self::NAME, text);
        response.end.note(response.undone.len(), text);
    }
}

/// One line a change.
pub fn as_text(changes: &[Undone], tool: &str, text: &mut Text) {
    for undone in changes {
        let more = undone.files.unwrap_or(undone.paths.len()).saturating_sub(1);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let path = escaped::name(&undone.path);
        let hunk = undone.hunk.map(|hunk| format!(", hunk {hunk}")).unwrap_or_default();
        text.change(&format!("{tool}: {}: {path}{more} (change {}{hunk})", undone.tool, undone.seq));
    }
}

/// Takes changes back, or does them again: as one change, whole or not at all.
///
/// # Errors
/// `not_found` where there is nothing to take back, `stale_file`.
pub fn run(engine: &mut Engine, request: &Steps, direction: Direction) -> Result<Response, Error> {
    if request.steps == 0 {
        return Err(Error::invalid("steps counts from 1").detail("field", "steps"));
    }
    let path = match &request.path {
        Some(path) => Some(engine.workspace.resolve_entry(path)?.path().clone()),
        None => None,
    };
    let mut change = engine.begin(direction.name(), &[], request.options.dry_run)?;
    let (history, entries) = entries(&mut change, request.steps, direction, path.as_ref())?;
    let mut listed: Vec<Undone> = entries.iter().map(|entry| listed(change.engine(), entry)).collect();
    warn_of_damaged(change.engine(), history.damaged());
    if direction == Direction::Undo {
        warn_of_lost(change.engine(), &entries);
    }
    change.set_reverts(entries.iter().map(|entry| entry.seq).collect());
    let manner = Manner { merge: request.merge, ..Manner::default() };
    let paths = plan(&mut change, &history, &entries, direction, &manner)?;
    change.commit(super::common::subject(direction.name(), &paths), request.options.why.clone())?;
    let end = ListEnd::of(engine, request.max_bytes, &mut listed);
    Ok(Response { undone: listed, end })
}

/// The changes to take back or do again, in that order.
fn entries(
    change: &mut Change<'_>,
    steps: usize,
    direction: Direction,
    path: Option<&WorkspacePath>,
) -> Result<(History, Vec<JournalEntry>), Error> {
    let session = change.engine().session().as_str().to_owned();
    let (history, entries) = match change.state() {
        Some(state) => {
            let mut history = History::load(state, &session)?;
            let wanted = |entry: &JournalEntry| path.is_none_or(|path| touches(entry, path));
            let entries = history.next(state, direction, steps, wanted)?;
            (history, entries)
        }
        None => (History::default(), Vec::new()),
    };
    if entries.is_empty() {
        let what = match path {
            Some(path) => format!("session {session} has nothing to {} in {path}", direction.name()),
            None => format!("session {session} has nothing to {}", direction.name()),
        };
        let error = Error::new(ErrorKind::NotFound, what);
        // `undo 3` names a file of that name.
        if let Some(number) = path.and_then(|path| path.to_string().parse::<usize>().ok()) {
            return Err(error
                .suggest(format!("Did you mean `steps` {number}?"))
                .on_command_line(format!("On the command line: --steps {number}.")));
        }
        return Err(error.suggest(others_advice(change.engine())));
    }
    Ok((history, entries))
}

/// Whether a change touches a path or anything below it.
fn touches(entry: &JournalEntry, path: &WorkspacePath) -> bool {
    let files = entry.files.iter().map(|file| &file.path);
    let moved = entry.moves.iter().flat_map(|moved| [&moved.from, &moved.to]);
    files
        .chain(moved)
        .chain(folders_of(entry))
        .any(|touched| touched.is_within(path) || path.is_within(touched))
}

/// The folders that a change makes, removes or gives other permission bits.
fn folders_of(entry: &JournalEntry) -> impl Iterator<Item = &WorkspacePath> {
    let removed = entry.removed.iter().map(|folder| &folder.path);
    let modes = entry.modes.iter().map(|folder| &folder.path);
    entry.folders.iter().chain(removed).chain(modes).filter(|path| !is_state(path))
}

/// Says which changes were skipped since their records cannot be read.
pub fn warn_of_damaged(engine: &mut Engine, damaged: &BTreeSet<u64>) {
    if !damaged.is_empty() {
        let numbers: Vec<String> = damaged.iter().map(|seq| format!("#{seq}")).collect();
        engine.warn(format!(
            "skipped {}, whose record in the journal is damaged: `lbx log` finds its snapshot",
            numbers.join(", ")
        ));
    }
}

/// Says which files a command changed whose old bytes were not at hand.
fn warn_of_lost(engine: &mut Engine, entries: &[JournalEntry]) {
    /// Files named.
    const NAMED: usize = 20;
    let total: usize = entries.iter().map(|entry| entry.lost_total).sum();
    if total > 0 {
        let lost = entries.iter().flat_map(|entry| &entry.lost).take(NAMED);
        let names: Vec<String> = lost.map(|path| engine.workspace.shown(path)).collect();
        let more = total.saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        engine.warn(format!("not restored, because no copy exists: {}{more}", names.join(", ")));
    }
}

/// A change as answers show it.
pub fn listed(engine: &Engine, entry: &JournalEntry) -> Undone {
    let moved = entry.moves.iter().flat_map(|moved| [&moved.from, &moved.to]).filter(|path| !is_state(path));
    let files = entry.files.iter().map(|file| &file.path);
    let mut paths: Vec<String> = files.chain(moved).map(|path| engine.workspace.shown(path)).collect();
    if paths.is_empty() {
        paths.extend(folders_of(entry).map(|path| engine.workspace.shown(path)));
    }
    if paths.is_empty() {
        // A command that left nothing to bring back.
        paths.extend(entry.lost.iter().map(|path| engine.workspace.shown(path)));
    }
    let path = paths.first().cloned().unwrap_or_default();
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

/// Plans what several changes come to, taken back or done again; answers the paths concerned.
///
/// # Errors
/// `stale_file` where they do not fit on what is there, `not_found` where bytes are no longer at hand.
pub fn plan(
    change: &mut Change<'_>,
    history: &History,
    entries: &[JournalEntry],
    direction: Direction,
    manner: &Manner,
) -> Result<Vec<WorkspacePath>, Error> {
    let mut conflicts = Conflicts::default();
    let planned = plan_beside(change, history, entries, direction, manner, &mut conflicts);
    conflicts.into_error().map_or(planned, Err)
}

/// The same, for a caller that shows every file in the way: those go into `conflicts`, and where there
/// is one, what is planned is not to be carried out.
///
/// # Errors
/// What concerns no single file.
pub fn plan_beside(
    change: &mut Change<'_>,
    history: &History,
    entries: &[JournalEntry],
    direction: Direction,
    manner: &Manner,
    conflicts: &mut Conflicts,
) -> Result<Vec<WorkspacePath>, Error> {
    let (outcome, texts) = replayed(change, history, entries, direction, manner.between)?;
    for path in &outcome.interleaved {
        conflicts.add(interleaved_error(change.workspace(), path, manner.between));
    }
    let mut manner = manner.clone();
    manner.texts.extend(texts);
    let mut vacant: Vec<WorkspacePath> =
        outcome.vacant.iter().filter(|folder| !is_state(folder)).cloned().collect();
    innermost_first(&mut vacant);
    let outcome = without_empty(change.workspace(), outcome, &mut vacant)?;
    clear_the_way(change, &outcome, &vacant)?;
    let vacated = vacated(&outcome, vacant);
    let mut planner = Planner::new(change, history, &manner, &outcome.pieces);
    for gone in &outcome.gone {
        conflicts.sift(planner.remove(gone))?;
    }
    for live in outcome.lives {
        conflicts.sift(planner.put(live))?;
    }
    let (mut paths, unchanged) = planner.into_parts();
    paths.retain(|path| !is_state(path));
    if !conflicts.is_empty() {
        return Ok(paths);
    }
    let mut pieces = outcome.pieces;
    unchanged.into_iter().for_each(|piece| pieces.insert(&piece.real, &piece.at));
    change.move_all(&pieces)?;
    change.set_folders(outcome.made)?;
    paths.extend(pieces.iter().map(|piece| if is_state(&piece.at) { piece.real } else { piece.at }));
    for (path, (before, after)) in outcome.modes {
        let stands = || mode_of(change.workspace(), &pieces.standing(&path)?);
        if let Some(before) = before.or_else(stands) {
            change.set_folder_mode(path, before, after);
        }
    }
    change.add_vacated(vacated)?;
    Ok(paths)
}

/// What the files come to by taking the entries back or doing them again, and the texts that this merged.
///
/// # Errors
/// Changes that do not fit together, or a file that cannot be looked at.
fn replayed(
    change: &Change<'_>,
    history: &History,
    entries: &[JournalEntry],
    direction: Direction,
    between: Interleaved,
) -> Result<(ReplayResult, BTreeMap<Sha256, Vec<u8>>), Error> {
    let texts = RefCell::new(BTreeMap::new());
    let blend = |path: &WorkspacePath, now: &Version, from: &Version, to: &Version| {
        let known = |version: &Version| {
            let made = texts.borrow().get(&version.sha256).cloned();
            made.or_else(|| change.bytes_seen(path, version.sha256))
        };
        let (text, version) = blended(now, from, to, known)?;
        texts.borrow_mut().insert(version.sha256, text);
        Some(version)
    };
    // What cannot be looked at is not taken for gone: the undo fails.
    let unseen = RefCell::new(None);
    let stands = |path: &WorkspacePath| {
        let looked = moves::kind(change.workspace(), path);
        looked.unwrap_or_else(|error| {
            unseen.borrow_mut().get_or_insert(error);
            None
        })
    };
    // What was made for changes that are taken back already goes with the last of them.
    let vacant = match direction {
        Direction::Undo => history.vacant(),
        Direction::Redo => BTreeSet::new(),
    };
    let mut replay = Replay::new(&stands, vacant).blending((between == Interleaved::Kept).then_some(&blend));
    let played = entries.iter().try_for_each(|entry| replay.play(entry, direction));
    let outcome = replay.outcome();
    if let Some(error) = unseen.take() {
        return Err(error);
    }
    played.map_err(|conflict| conflict_error(change.workspace(), &conflict))?;
    Ok((outcome, texts.into_inner()))
}

/// A change taken back in a text that has others' changes since; `None` where both touch the same lines.
fn blended(
    now: &Version,
    from: &Version,
    to: &Version,
    bytes: impl Fn(&Version) -> Option<Vec<u8>>,
) -> Option<(Vec<u8>, Version)> {
    if [now, from, to].into_iter().any(|version| fs::is_symlink_mode(version.mode)) {
        return None;
    }
    let texts = [bytes(from)?, bytes(now)?, bytes(to)?];
    if texts.iter().any(|text| looks_binary(text)) {
        return None;
    }
    let [base, one, other] = &texts;
    let text = merge::merge(base, one, other, Alike::Once).ok()?;
    let mode = if from.mode == to.mode { now.mode } else { to.mode };
    let version = Version { sha256: Sha256::of(&text), size: text.len() as u64, mode, identity: None };
    Some((text, version))
}

/// The permission bits of a folder.
fn mode_of(workspace: &Workspace, folder: &WorkspacePath) -> Option<u32> {
    let opened = fs::open_beneath(workspace.root_fd(), folder, fs::LOOK).ok()?;
    rustix::fs::fstat(&opened).ok().map(|stat| fs::mode_of(&stat))
}

/// The refusal of changes that move what is not there, or to where something is.
fn conflict_error(workspace: &Workspace, conflict: &ReplayConflict) -> Error {
    let (path, what, suggestion) = match conflict {
        ReplayConflict::Missing(path) => (
            path,
            "is no longer there, so it cannot go back",
            "Bring it back to where this session left it, and repeat the call.",
        ),
        ReplayConflict::Taken(path) => (
            path,
            "cannot come back: something is in its place",
            "Move what is there out of the way, and repeat the call.",
        ),
    };
    let shown = workspace.shown(path);
    Error::new(ErrorKind::StaleFile, format!("{shown} {what}")).at(shown).suggest(suggestion)
}

/// The refusal of a file that others changed between two of the changes.
fn interleaved_error(workspace: &Workspace, path: &WorkspacePath, between: Interleaved) -> Error {
    let shown = workspace.shown(path);
    let message = format!("{shown} was changed by someone else between these changes");
    let error = Error::new(ErrorKind::StaleFile, message).at(shown);
    match between {
        Interleaved::Refused => error.suggest("Take the changes back one step at a time."),
        Interleaved::Offered => error
            .suggest(
                "Set merge to true to keep what others changed there, where it does not touch the same lines.",
            )
            .on_command_line(MERGE_FLAG),
        Interleaved::Kept => error.suggest(
            "They touch the same lines. `undo` with merge takes back the later changes, one at a time.",
        ),
    }
}
