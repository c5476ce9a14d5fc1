//! `undo`: a session's changes, taken back.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::Trial;
use super::{Effect, Stdin, Text, Tool};
use crate::engine::history::History;
use crate::engine::path::WorkspacePath;
use crate::engine::protect::protected_component;
use crate::engine::transaction::journal::{Entry, Version};
use crate::engine::transaction::replay::{
    Direction, Gone, Kind, Live, Misfit, Outcome, Piece, Replay, depth, placed, same, standing,
};
use crate::engine::transaction::{Change, Current, Known, moves};
use crate::engine::workspace::Workspace;
use crate::engine::{Engine, fs};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

/// Take back changes that this session made, the newest first
///
/// Works for every changing tool, over several files and calls; several changes are taken back
/// together or not at all. A file that has changed since is left alone (`stale_file`) unless merge
/// is set and the changes do not touch each other. Another undo goes further back; redo does the
/// changes again, one by one.
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

/// Takes changes back, or does them again: as one change, whole or not at all.
///
/// # Errors
/// `not_found` where there is nothing to take back, `stale_file`.
pub fn run(engine: &mut Engine, request: &Request, direction: Direction) -> Result<Response, Error> {
    if request.steps == 0 {
        return Err(Error::invalid("steps counts from 1").detail("field", "steps"));
    }
    let path = match &request.path {
        Some(path) => Some(engine.workspace.resolve_entry(path)?.path().clone()),
        None => None,
    };
    let mut change = engine.begin(direction.name(), request.trial.dry_run)?;
    let (history, entries) = entries(&mut change, request.steps, direction, path.as_ref())?;
    let listed = entries.iter().map(|entry| listed(change.engine(), entry)).collect();
    change.set_reverts(entries.iter().map(|entry| entry.seq).collect());
    let paths = plan(&mut change, &history, &entries, direction, request.merge)?;
    change.commit(super::common::subject(direction.name(), &paths), request.trial.why.clone())?;
    Ok(Response { undone: listed })
}

/// The changes to take back or do again, in that order.
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
    let entries = history.next(direction, steps, |entry| path.is_none_or(|path| touches(entry, path)));
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
fn listed(engine: &Engine, entry: &Entry) -> Undone {
    let moved = entry.moves.iter().flat_map(|moved| [&moved.from, &moved.to]).filter(|path| is_own(path));
    let files = entry.files.iter().map(|file| &file.path);
    let paths: Vec<String> = files.chain(moved).map(|path| engine.workspace.shown(path)).collect();
    let path = paths.first().cloned().unwrap_or_default();
    Undone {
        seq: entry.seq,
        tool: entry.tool.clone(),
        path,
        paths: if paths.len() > 1 { paths } else { Vec::new() },
    }
}

/// Whether a path is the caller's and not one of lbx's own.
fn is_own(path: &WorkspacePath) -> bool {
    protected_component(path.as_path()).is_none()
}

/// Plans what several changes come to, taken back or done again; answers the paths concerned.
fn plan(
    change: &mut Change<'_>,
    history: &History,
    entries: &[Entry],
    direction: Direction,
    merge: bool,
) -> Result<Vec<WorkspacePath>, Error> {
    let outcome = {
        let stands = |path: &WorkspacePath| moves::kind(change.workspace(), path);
        // What was made for changes that are taken back already goes with the last of them.
        let vacant = match direction {
            Direction::Undo => history.vacant(),
            Direction::Redo => BTreeSet::new(),
        };
        let mut replay = Replay::new(&stands, vacant);
        entries
            .iter()
            .try_for_each(|entry| replay.play(entry, direction))
            .map_err(|misfit| misfit_error(change.workspace(), &misfit))?;
        replay.outcome()
    };
    let mut folders: Vec<WorkspacePath> =
        outcome.vacant.iter().filter(|folder| is_own(folder)).cloned().collect();
    innermost_first(&mut folders);
    let outcome = without_empty(change.workspace(), outcome, &mut folders)?;
    folders.extend(outcome.ousted.iter().cloned());
    innermost_first(&mut folders);
    clear_the_way(change, &outcome, &mut folders)?;
    let mut planner = Planner { change, history, merge, paths: Vec::new(), unchanged: Vec::new() };
    for gone in &outcome.gone {
        planner.remove(gone)?;
    }
    for live in outcome.lives {
        planner.put(live)?;
    }
    let Planner { mut paths, unchanged, .. } = planner;
    paths.retain(is_own);
    let pieces: Vec<Piece> = outcome.pieces.into_iter().chain(unchanged).collect();
    change.move_all(&pieces)?;
    change.set_folders(outcome.made);
    for Piece { real, at } in pieces {
        paths.push(if is_own(&at) { at } else { real });
    }
    change.set_vacated(folders);
    Ok(paths)
}

/// The refusal of changes that do not fit together or on what stands.
fn misfit_error(workspace: &Workspace, misfit: &Misfit) -> Error {
    let (path, what) = match misfit {
        Misfit::Between(path) => (path, "was changed by someone else between these changes"),
        Misfit::Missing(path) => (path, "is no longer there, so it cannot go back"),
        Misfit::Taken(path) => (path, "cannot come back: something stands there"),
    };
    let shown = workspace.shown(path);
    let suggestion = match misfit {
        Misfit::Between(_) => "Take the changes back one step at a time.",
        Misfit::Missing(_) => "Bring it back to where this session left it, and repeat the call.",
        Misfit::Taken(_) => "Move what stands there out of the way, and repeat the call.",
    };
    Error::new(ErrorKind::StaleFile, format!("{shown} {what}")).at(shown).suggest(suggestion)
}

/// The outcome without the folders that would move only to vanish, which then vanish where they are.
fn without_empty(
    workspace: &Workspace,
    mut outcome: Outcome,
    folders: &mut Vec<WorkspacePath>,
) -> Result<Outcome, Error> {
    let pieces = outcome.pieces.clone();
    for piece in pieces.iter().filter(|piece| folders.contains(&piece.at)).cloned().collect::<Vec<_>>() {
        let vanishes = |real: &WorkspacePath| folders.contains(&placed(&pieces, real));
        let held = emptied(workspace, &piece.real, &|real| leaves(&outcome, real), &vanishes)?;
        if let Some(inner) = held {
            outcome.pieces.retain(|other| *other != piece);
            folders.retain(|folder| !folder.is_within(&piece.at));
            outcome.ousted.extend(inner);
        }
    }
    innermost_first(folders);
    Ok(outcome)
}

/// Has the folders cleared away in whose place something else comes to stand.
fn clear_the_way(
    change: &mut Change<'_>,
    outcome: &Outcome,
    folders: &mut Vec<WorkspacePath>,
) -> Result<(), Error> {
    let workspace = change.workspace();
    let lives = outcome.lives.iter().filter(|live| live.real.as_ref() != Some(&live.at)).map(|live| &live.at);
    let mut cleared = Vec::new();
    for at in lives.chain(outcome.pieces.iter().map(|piece| &piece.at)) {
        let others: Vec<Piece> = outcome.pieces.iter().filter(|piece| piece.at != *at).cloned().collect();
        // It may come there with a folder that moves.
        let in_the_way = standing(&others, at).filter(|real| moves::inode(workspace, real).is_some());
        let Some(real) = in_the_way.filter(|real| !leaves(outcome, real)) else {
            continue;
        };
        let vanishes =
            |real: &WorkspacePath| folders.contains(real) || folders.contains(&placed(&others, real));
        match emptied(workspace, &real, &|real| leaves(outcome, real), &vanishes)? {
            Some(inner) if vanishes(&real) => cleared.extend(inner),
            _ => return Err(misfit_error(workspace, &Misfit::Taken(at.clone()))),
        }
    }
    folders.retain(|folder| !cleared.contains(folder));
    // The others may move with what they are in before the end.
    cleared.extend(outcome.ousted.iter().filter(|folder| stands_folder(workspace, folder)).cloned());
    innermost_first(&mut cleared);
    change.set_cleared(cleared);
    Ok(())
}

/// Whether a folder stands at a path.
fn stands_folder(workspace: &Workspace, path: &WorkspacePath) -> bool {
    moves::kind(workspace, path) == Some(Kind::Folder)
}

/// Sorts folders so that each comes before the one that holds it.
fn innermost_first(folders: &mut Vec<WorkspacePath>) {
    folders.sort_by_cached_key(|folder| std::cmp::Reverse((depth(folder), folder.clone())));
    folders.dedup();
}

/// Whether what stands at a path goes, or goes elsewhere.
fn leaves(outcome: &Outcome, real: &WorkspacePath) -> bool {
    let gone = outcome.gone.iter().any(|gone| gone.real.as_ref() == Some(real));
    let put_elsewhere = |live: &Live| live.real.as_ref() == Some(real) && live.at != *real;
    gone || outcome.lives.iter().any(put_elsewhere) || outcome.pieces.iter().any(|piece| piece.real == *real)
}

/// The folder and those in it, where all else in them leaves and all of them may vanish; `None` for
/// anything else.
fn emptied(
    workspace: &Workspace,
    folder: &WorkspacePath,
    leaves: &dyn Fn(&WorkspacePath) -> bool,
    may_vanish: &dyn Fn(&WorkspacePath) -> bool,
) -> Result<Option<Vec<WorkspacePath>>, Error> {
    let mut all = vec![folder.clone()];
    let mut waiting = all.clone();
    while let Some(folder) = waiting.pop() {
        let Ok(opened) = workspace.open_folder(&folder) else {
            return Ok(None);
        };
        let io = |errno| Error::io("list", workspace.shown(&folder), errno);
        for name in fs::names_in(&opened).map_err(io)? {
            let path = folder.join(&name);
            if leaves(&path) {
                continue;
            }
            if !may_vanish(&path) || workspace.open_folder(&path).is_err() {
                return Ok(None);
            }
            all.push(path.clone());
            waiting.push(path);
        }
    }
    Ok(Some(all))
}

/// Plans file by file.
struct Planner<'p, 'c> {
    /// The change that it will be.
    change: &'p mut Change<'c>,
    /// What the session has done.
    history: &'p History,
    /// Whether to keep what others have changed since.
    merge: bool,
    /// The paths concerned so far.
    paths: Vec<WorkspacePath>,
    /// Files whose bytes are right already, and only their name is not.
    unchanged: Vec<Piece>,
}

impl Planner<'_, '_> {
    /// Plans the end of a file, unless there is none.
    fn remove(&mut self, gone: &Gone) -> Result<(), Error> {
        let Some(real) = &gone.real else {
            return Ok(());
        };
        let current = self.look_at(real)?;
        if !same(version(&current).as_ref(), gone.from.as_ref()) {
            return Err(Self::stale(&current, gone.from.as_ref()));
        }
        self.paths.push(real.clone());
        self.change.remove(current.without_proof());
        Ok(())
    }

    /// Plans a file's bytes, and perhaps another name for it.
    fn put(&mut self, live: Live) -> Result<(), Error> {
        let Live { at, real, from, target } = live;
        let current = match &real {
            Some(real) => self.look_at(real)?,
            None => self.change.nothing_at(&at)?,
        };
        let now = version(&current);
        let stays = real.as_ref().is_none_or(|real| *real == at);
        if same(now.as_ref(), Some(&target)) {
            self.unchanged.extend(real.filter(|_| !stays).map(|real| Piece { real, at }));
            return Ok(());
        }
        let bytes = if same(now.as_ref(), from.as_ref()) {
            self.bytes_of(&at, &target)?
        } else {
            self.merged(&current, from.as_ref(), &target)?
        };
        if !same(now.as_ref(), from.as_ref()) {
            self.change.set_merged(at.clone());
        }
        self.paths.push(at.clone());
        if stays {
            self.change.put(current.without_proof(), bytes, Some(target.mode), Known::ChangedLines);
        } else {
            let place = self.change.nothing_at(&at)?.without_proof();
            self.change.rename(current.without_proof(), place, bytes, Some(target.mode))?;
        }
        Ok(())
    }

    /// The file at a path.
    fn look_at(&mut self, path: &WorkspacePath) -> Result<Current, Error> {
        self.change.look_beneath(path).map_err(|error| match error.kind() {
            ErrorKind::IsADirectory | ErrorKind::NotARegularFile => {
                let shown = self.change.workspace().shown(path);
                Error::new(
                    ErrorKind::StaleFile,
                    format!("{}, and this session left a file there", error.message()),
                )
                .at(shown)
                .suggest("Move what stands there out of the way, and repeat the call.")
            }
            _ => error,
        })
    }

    /// The bytes of a version, which a backup has.
    fn bytes_of(&self, path: &WorkspacePath, version: &Version) -> Result<Vec<u8>, Error> {
        self.change.bytes_seen(path, version.sha256).ok_or_else(|| {
            let shown = self.change.workspace().shown(path);
            Error::new(
                ErrorKind::NotFound,
                format!(
                    "the bytes of {shown} with sha256 {} are no longer at hand: no backup and no snapshot has them",
                    version.sha256
                ),
            )
            .at(shown)
        })
    }

    /// The file with the change taken back and what came since kept.
    fn merged(
        &mut self,
        current: &Current,
        from: Option<&Version>,
        target: &Version,
    ) -> Result<Vec<u8>, Error> {
        let path = current.place().path();
        // What the session itself merged there is no one else's, so nobody need ask for it again.
        let is_own =
            self.history.merged(path).is_some_and(|left| same(version(current).as_ref(), Some(left)));
        let (true, Some(from), true) = (self.merge || is_own, from, current.exists()) else {
            return Err(Self::stale(current, from));
        };
        if current.is_symlink() || fs::is_symlink_mode(target.mode) {
            return Err(Self::stale(current, Some(from)));
        }
        let (base, target) = (self.bytes_of(path, from)?, self.bytes_of(path, target)?);
        let merged = diffy::merge_bytes(&base, current.bytes(), &target).map_err(|_| {
            Self::stale(current, Some(from)).detail("merge", "the changes touch the same lines")
        })?;
        // The way back needs them, and no version of the file is just these bytes any more.
        self.change.keep(base);
        Ok(merged)
    }

    /// The refusal of a file that has changed since.
    fn stale(current: &Current, from: Option<&Version>) -> Error {
        let shown = current.place().shown();
        let hex = |sha256: Option<Sha256>| sha256.map(Sha256::to_hex);
        let same_bytes = from.map(|version| version.sha256) == current.exists().then(|| current.sha256());
        let what = match (from, current.mode()) {
            (Some(from), Some(mode)) if same_bytes => {
                format!("its mode is {} and was {}", fs::mode_text(mode), fs::mode_text(from.mode))
            }
            (None, Some(_)) => "there was none, and now there is".to_owned(),
            (Some(_), None) => "it is gone".to_owned(),
            _ => "its bytes are others".to_owned(),
        };
        Error::new(ErrorKind::StaleFile, format!("{shown} has changed since this session changed it: {what}"))
            .at(shown)
            .suggest("Set merge to true to keep both where they do not touch each other, or read the file and edit it.")
            .detail("expected_sha256", hex(from.map(|version| version.sha256)))
            .detail("actual_sha256", hex(current.exists().then(|| current.sha256())))
    }
}

/// What a file holds; `None` where there is none.
fn version(current: &Current) -> Option<Version> {
    let size = current.bytes().len() as u64;
    current.mode().map(|mode| Version { sha256: current.sha256(), size, mode })
}
