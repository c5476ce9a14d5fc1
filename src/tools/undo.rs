//! `undo`: a session's changes, taken back.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::Trial;
use super::{Effect, Stdin, Text, Tool};
use crate::engine::history::History;
use crate::engine::path::WorkspacePath;
use crate::engine::transaction::journal::{Entry, FileEntry, Version};
use crate::engine::transaction::{Change, Current, Known};
use crate::engine::{Engine, fs};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

/// Take back changes that this session made, the newest first
///
/// Works for every changing tool, over several files and calls. A file that has changed since is
/// left alone (`stale_file`) unless merge is set and the changes do not touch each other. An undo is
/// itself a change, which redo or another undo takes back.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Changes to take back
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub steps: usize,
    /// Only changes of this file or folder
    #[schemars(extend("x-aliases" = ["file_path"]))]
    pub path: Option<PathBuf>,
    /// Where a file has changed since, merge
    #[arg(long)]
    #[serde(default)]
    pub merge: bool,
    /// Whether to do it, and why.
    #[command(flatten)]
    #[serde(flatten)]
    pub trial: Trial,
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
    /// All of them, where they are several
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

/// Which way to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Back.
    Undo,
    /// Forth.
    Redo,
}

impl Direction {
    /// The tool's name.
    const fn name(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }
}

/// The tool.
pub struct Undo;

impl Tool for Undo {
    const NAME: &'static str = "undo";
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Ignored;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        run(engine, &request, Direction::Undo)
    }

    fn text(response: &Response, text: &mut Text) {
        as_text(response, Self::NAME, text);
    }
}

/// One line a change.
pub fn as_text(response: &Response, tool: &str, text: &mut Text) {
    for undone in &response.undone {
        let more = undone.paths.len().saturating_sub(1);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        text.out.extend_from_slice(
            format!("{tool}: {}: {}{more} (change {})\n", undone.tool, undone.path, undone.seq).as_bytes(),
        );
    }
}

/// Takes changes back, or takes that back.
///
/// # Errors
/// `not_found` where there is nothing to take back, `stale_file`.
pub fn run(engine: &mut Engine, request: &Request, direction: Direction) -> Result<Response, Error> {
    if request.steps == 0 {
        return Err(Error::invalid("steps counts from 1").detail("field", "steps"));
    }
    match at_once(engine, request, direction, request.steps)? {
        Taken::Back(response) => Ok(response),
        Taken::Apart(listed) => one_by_one(engine, request, direction, listed),
    }
}

/// What came of taking several changes back as one.
enum Taken {
    /// It was done.
    Back(Response),
    /// One of them moved whole files or folders, so each goes in a change of its own; these are they.
    Apart(Vec<Undone>),
}

/// Takes `steps` changes back as one change, where they are changes of content alone.
fn at_once(
    engine: &mut Engine,
    request: &Request,
    direction: Direction,
    steps: usize,
) -> Result<Taken, Error> {
    let path = match &request.path {
        Some(path) => Some(engine.workspace.resolve_entry(path)?.path().clone()),
        None => None,
    };
    let mut change = engine.begin(direction.name(), request.trial.dry_run)?;
    let (history, entries) = entries(&mut change, steps, direction, path.as_ref())?;
    let originals = entries.iter().flat_map(|entry| history.originals(entry));
    let undone = originals.map(|entry| undone(change.engine(), entry)).collect();
    let has_moves = entries.iter().any(|entry| !entry.moves.is_empty());
    if has_moves && entries.len() > 1 {
        return Ok(Taken::Apart(undone));
    }
    change.set_vacated(entries.iter().flat_map(|entry| entry.folders.iter().rev().cloned()).collect());
    change.set_reverts(entries.iter().map(|entry| entry.seq).collect());
    let paths = if has_moves {
        take_back_moves(&mut change, &entries)?
    } else {
        take_back_files(&mut change, &entries, request.merge)?
    };
    change.commit(super::common::subject(direction.name(), &paths), request.trial.why.clone())?;
    Ok(Taken::Back(Response { undone }))
}

/// Takes changes back one after the other. Where one cannot be, those before it stay taken back, and
/// the error says so.
fn one_by_one(
    engine: &mut Engine,
    request: &Request,
    direction: Direction,
    listed: Vec<Undone>,
) -> Result<Response, Error> {
    if request.trial.dry_run {
        // Only the first can be tried on the files as they are.
        at_once(engine, request, direction, 1)?;
        return Ok(Response { undone: listed });
    }
    let mut done: Vec<Undone> = Vec::new();
    for _ in 0..request.steps {
        match at_once(engine, request, direction, 1) {
            Ok(Taken::Back(response)) => done.extend(response.undone),
            Ok(Taken::Apart(_)) => return Err(Error::internal("one change is more than one")),
            Err(error) if error.kind() == ErrorKind::NotFound && !done.is_empty() => break,
            Err(error) if done.is_empty() => return Err(error),
            Err(error) => {
                let before: Vec<u64> = done.iter().map(|undone| undone.seq).collect();
                return Err(error.applied().detail("undone", before));
            }
        }
    }
    Ok(Response { undone: done })
}

/// The changes to take back, the newest first.
fn entries(
    change: &mut Change<'_>,
    steps: usize,
    direction: Direction,
    path: Option<&WorkspacePath>,
) -> Result<(History, Vec<Entry>), Error> {
    let session = change.engine().session().as_str().to_owned();
    let history = match change.state() {
        Some(state) => History::load(state, &session)?,
        None => History::default(),
    };
    let is_wanted = |entry: &Entry| path.is_none_or(|path| touches(entry, path));
    let entries = match direction {
        Direction::Undo => history.to_undo(steps, is_wanted),
        Direction::Redo => history.to_redo(steps, is_wanted),
    };
    if entries.is_empty() {
        let what = match path {
            Some(path) => format!("session {session} has nothing to {} in {path}", direction.name()),
            None => format!("session {session} has nothing to {}", direction.name()),
        };
        return Err(Error::new(ErrorKind::NotFound, what)
            .suggest("`lbx log` shows the changes of all sessions; name another session with --session."));
    }
    Ok((history, entries))
}

/// Whether a change touches a path or anything below it.
fn touches(entry: &Entry, path: &WorkspacePath) -> bool {
    let files = entry.files.iter().map(|file| &file.path);
    let moved = entry.moves.iter().flat_map(|moved| [&moved.from, &moved.to]);
    files.chain(moved).any(|touched| touched.is_within(path) || path.is_within(touched))
}

/// A change as answers show it.
fn undone(engine: &Engine, entry: &Entry) -> Undone {
    let is_own =
        |path: &&WorkspacePath| crate::engine::protect::protected_component(path.as_path()).is_none();
    let moved = entry.moves.iter().flat_map(|moved| [&moved.from, &moved.to]).filter(is_own);
    let paths: Vec<String> = entry
        .files
        .iter()
        .map(|file| &file.path)
        .chain(moved)
        .map(|path| engine.workspace.shown(path))
        .collect();
    let path = paths.first().cloned().unwrap_or_default();
    Undone {
        seq: entry.seq,
        tool: entry.tool.clone(),
        path,
        paths: if paths.len() > 1 { paths } else { Vec::new() },
    }
}

/// Plans the old side of every file of several changes, as one change.
fn take_back_files(
    change: &mut Change<'_>,
    entries: &[Entry],
    merge: bool,
) -> Result<Vec<WorkspacePath>, Error> {
    let mut planned: BTreeMap<WorkspacePath, Net> = BTreeMap::new();
    for file in entries.iter().flat_map(|entry| &entry.files) {
        match planned.get_mut(&file.path) {
            // An older change of the same file: what it began with is what stands in the end.
            Some(net) if same(net.target.as_ref(), file.after.as_ref()) => {
                net.target.clone_from(&file.before);
            }
            Some(_) => return Err(stale_between(change, file)),
            None => {
                let net = Net { from: file.after.clone(), target: file.before.clone() };
                planned.insert(file.path.clone(), net);
            }
        }
    }
    let mut paths = Vec::new();
    for (path, net) in planned {
        if plan_file(change, &path, &net, merge)? {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// What several changes together do to a file.
struct Net {
    /// What must stand there.
    from: Option<Version>,
    /// What shall stand there.
    target: Option<Version>,
}

/// Whether two versions have the same bytes and mode.
fn same(one: Option<&Version>, other: Option<&Version>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.sha256 == other.sha256 && one.mode == other.mode,
        _ => false,
    }
}

/// The refusal where someone else changed a file between two of the changes.
fn stale_between(change: &mut Change<'_>, file: &FileEntry) -> Error {
    let shown = change.engine().workspace.shown(&file.path);
    Error::new(ErrorKind::StaleFile, format!("{shown} was changed by someone else between these changes"))
        .at(shown)
        .suggest("Take the changes back one step at a time.")
}

/// Plans one file; whether anything is to be done.
fn plan_file(change: &mut Change<'_>, path: &WorkspacePath, net: &Net, merge: bool) -> Result<bool, Error> {
    let current = change.look_at_canonical(path)?;
    let now = current.mode().map(|mode| Version {
        sha256: current.sha256(),
        size: current.bytes().len() as u64,
        mode,
    });
    if same(now.as_ref(), net.target.as_ref()) {
        return Ok(false);
    }
    let is_as_left = same(now.as_ref(), net.from.as_ref());
    let target = match &net.target {
        None => None,
        Some(version) => Some((bytes_of(change, path, version)?, version.mode)),
    };
    match target {
        _ if !is_as_left && !merge => return Err(stale(change, &current, path, net)),
        None if is_as_left => change.remove(current.without_proof()),
        None => return Err(stale(change, &current, path, net)),
        Some((bytes, mode)) if is_as_left => {
            change.put(current.without_proof(), bytes, Some(mode), Known::ChangedLines);
        }
        Some((_, mode)) if current.is_symlink() || fs::is_symlink_mode(mode) => {
            return Err(stale(change, &current, path, net));
        }
        Some((bytes, mode)) => {
            let merged = merged(change, &current, path, net, &bytes)?;
            change.put(current.without_proof(), merged, Some(mode), Known::ChangedLines);
        }
    }
    Ok(true)
}

/// The bytes of a version, which a backup has.
fn bytes_of(change: &mut Change<'_>, path: &WorkspacePath, version: &Version) -> Result<Vec<u8>, Error> {
    change.bytes_seen(path, version.sha256).ok_or_else(|| {
        let shown = change.engine().workspace.shown(path);
        Error::new(
            ErrorKind::NotFound,
            format!(
                "the bytes of {shown} with sha256 {} are no longer kept: gc removed their backup",
                version.sha256
            ),
        )
        .at(shown)
    })
}

/// The refusal of a file that has changed since.
fn stale(change: &mut Change<'_>, current: &Current, path: &WorkspacePath, net: &Net) -> Error {
    let shown = change.engine().workspace.shown(path);
    let hex = |sha256: Option<Sha256>| sha256.map(Sha256::to_hex);
    let same_bytes =
        net.from.as_ref().map(|version| version.sha256) == current.exists().then(|| current.sha256());
    let what = match (&net.from, current.mode()) {
        (Some(from), Some(mode)) if same_bytes => {
            format!("its mode is {} and was {}", fs::mode_text(mode), fs::mode_text(from.mode))
        }
        _ => "its bytes are others".to_owned(),
    };
    Error::new(ErrorKind::StaleFile, format!("{shown} has changed since this session changed it: {what}"))
        .at(shown)
        .suggest("Set merge to true to keep both where they do not touch each other, or read the file and edit it.")
        .detail("expected_sha256", hex(net.from.as_ref().map(|version| version.sha256)))
        .detail("actual_sha256", hex(current.exists().then(|| current.sha256())))
}

/// The file with the change taken back and what came since kept.
fn merged(
    change: &mut Change<'_>,
    current: &Current,
    path: &WorkspacePath,
    net: &Net,
    target: &[u8],
) -> Result<Vec<u8>, Error> {
    let base = match &net.from {
        Some(version) if current.exists() => bytes_of(change, path, version)?,
        _ => return Err(stale(change, current, path, net)),
    };
    diffy::merge_bytes(&base, current.bytes(), target)
        .map_err(|_| stale(change, current, path, net).detail("merge", "the changes touch the same lines"))
}

/// Plans the way back of everything that one change moved.
fn take_back_moves(change: &mut Change<'_>, entries: &[Entry]) -> Result<Vec<WorkspacePath>, Error> {
    let mut paths = Vec::new();
    for moved in entries.iter().flat_map(|entry| entry.moves.iter().rev()) {
        let back = moved.reversed();
        let shown = change.engine().workspace.shown(&back.to);
        if !change.can_move(&back) {
            return Err(Error::new(
                ErrorKind::StaleFile,
                format!("{shown} cannot come back: something stands there, or what was moved is gone"),
            )
            .at(shown));
        }
        change.move_whole(&back.from, &back.to)?;
        let is_trash = crate::engine::protect::protected_component(back.to.as_path()).is_some();
        paths.push(if is_trash { back.from } else { back.to });
    }
    Ok(paths)
}
