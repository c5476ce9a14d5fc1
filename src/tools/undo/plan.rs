//! Plans the net effect of undoing or redoing several changes, as one change.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

use schemars::JsonSchema;
use serde::Serialize;

use super::files::{FilePlanner, MERGE_FLAG, UndoOptions, version};
use crate::engine::change::gate::quoted;
use crate::engine::change::{Change, executor, moves};
use crate::engine::history::replay::{
    Direction, FileToRemove, NodeKind, Piece, Replay, ReplayConflict, ReplayResult, depth, is_same,
};
use crate::engine::history::stacks::{History, direction_of};
use crate::engine::journal::{self, JournalEntry, Version};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::engine::workspace::{Workspace, digest, fs};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::content::looks_binary;
use crate::text::escaped;
use crate::text::merge::{self, EqualChanges};
use crate::tools::{Paint, Text};

/// Plans the net effect of undoing or redoing several changes; returns the paths concerned.
///
/// # Errors
/// Fails with `stale_file` if they do not fit the current files, or with `not_found` if bytes are lost.
pub fn plan(
    change: &mut Change<'_>,
    history: &History,
    entries: &[JournalEntry],
    direction: Direction,
    manner: &UndoOptions,
) -> Result<Vec<WorkspacePath>, Error> {
    let mut conflicts = ConflictingFiles::default();
    let planned = plan_beside(change, history, entries, direction, manner, &mut conflicts);
    conflicts.into_error().map_or(planned, Err)
}

/// Returns the step after an obstacle is out of the way. If this session moves it, that is its newest change.
fn retry(entries: &[JournalEntry], direction: Direction) -> String {
    match (direction, entries) {
        (Direction::Redo, _) => {
            "but not by this session, whose changes end redo; then repeat the call".to_owned()
        }
        (Direction::Undo, [one]) => format!("then `undo` with `seq` {}", one.seq),
        (Direction::Undo, _) => "then `undo` each of the changes with its `seq`".to_owned(),
    }
}

/// Does the same for a caller that shows all conflicting files: those go into `conflicts`, and if there are any, the
/// plan must not be carried out.
///
/// # Errors
/// Returns errors that concern no single file.
pub fn plan_beside(
    change: &mut Change<'_>,
    history: &History,
    entries: &[JournalEntry],
    direction: Direction,
    manner: &UndoOptions,
    conflicts: &mut ConflictingFiles,
) -> Result<Vec<WorkspacePath>, Error> {
    let mut manner = UndoOptions { retry: retry(entries, direction), ..manner.clone() };
    let (outcome, texts) = replayed(change, history, entries, direction, &manner)?;
    for path in &outcome.interleaved {
        conflicts.add(interleaved_error(change.workspace(), path, manner.keeps_foreign_changes()));
    }
    manner.texts.extend(texts);
    // What goes to the trash goes without the empty folders that nobody needs.
    let goes_along = |folder: &WorkspacePath| {
        let made = outcome.made.iter().map(|made| made.path.clone());
        let mut tops = outcome.pieces.iter().map(|piece| piece.at).chain(made);
        tops.any(|top| is_state(&top) && *folder != top && folder.is_within(&top))
    };
    let is_unneeded = |folder: &&WorkspacePath| !is_state(folder) || goes_along(folder);
    let mut vacant: Vec<WorkspacePath> = outcome.vacant.iter().filter(is_unneeded).cloned().collect();
    vacant.extend(folders_free_of_others(change, &outcome, entries)?);
    innermost_first(&mut vacant);
    let mut outcome = without_empty(change.workspace(), outcome, &mut vacant)?;
    replace_equal_file(change, &mut outcome)?;
    conflicts.sift(change.must_keep_the_trash(&mut outcome))?;
    let (inner, vacant): (Vec<_>, Vec<_>) = vacant.into_iter().partition(is_state);
    let inner: Vec<WorkspacePath> =
        inner.iter().filter_map(|folder| outcome.pieces.source_of(folder)).collect();
    outcome.displaced.extend(inner);
    plan_removals(change, &outcome, &vacant, &manner.retry)?;
    let vacated = folders_to_remove(&outcome, vacant);
    let mut planner = FilePlanner::new(change, history, &manner, &outcome.pieces);
    for gone in &outcome.gone {
        conflicts.sift(planner.remove(gone))?;
    }
    for live in outcome.lives {
        conflicts.sift(planner.put(live))?;
    }
    let FilePlanner { mut paths, unchanged, .. } = planner;
    paths.retain(|path| !is_state(path));
    if !conflicts.is_empty() {
        return Ok(paths);
    }
    let mut pieces = outcome.pieces;
    unchanged.into_iter().for_each(|piece| pieces.insert(&piece.real, &piece.at));
    change.move_all(&pieces)?;
    change.set_folders(outcome.made)?;
    let shown = |piece: Piece| if is_state(&piece.at) { piece.real } else { piece.at };
    paths.extend(pieces.iter().map(shown).filter(|path| !is_state(path)));
    for (path, (before, after)) in outcome.modes {
        let now = pieces.source_of(&path).and_then(|path| mode_of(change.workspace(), &path));
        // Modes that others have set since are kept.
        if let Some(before) = before.or(now).filter(|before| now.is_none_or(|now| now == *before)) {
            // A new folder has the set-group-ID bit from its parent.
            let new = || digest::new_folder_mode() | (before & 0o2000);
            change.set_folder_mode(path, before, after.unwrap_or_else(new));
        }
    }
    if paths.is_empty() {
        let goes = |inner: &WorkspacePath| vacated.contains(inner) || outcome.displaced.contains(inner);
        let mut leaving = vacated.iter().chain(&outcome.displaced);
        let stays = leaving.find(|folder| is_occupied(change.workspace(), folder, &goes));
        if let Some(folder) = stays.map(|folder| change.workspace().display(folder)) {
            change.engine().warn(format!("the folder {folder} stays: it is not empty"));
        }
    }
    change.add_vacated(vacated)?;
    Ok(paths)
}

/// Returns the folders that an outcome empties and that other sessions need no longer: their own undo or redo left them
/// because of these files. One that a change in effect has made, other than the moved `entries`, is needed.
///
/// # Errors
/// Returns the OS error.
fn folders_free_of_others(
    change: &Change<'_>,
    outcome: &ReplayResult,
    entries: &[JournalEntry],
) -> Result<Vec<WorkspacePath>, Error> {
    let Some(state) = change.state() else { return Ok(Vec::new()) };
    let mut going = leaving_of(outcome);
    let mut emptied = Vec::new();
    for path in going.clone() {
        let mut folder = path.parent();
        while let Some(above) = folder.filter(|folder| !folder.is_root() && !is_state(folder)) {
            if going.contains(&above)
                || is_occupied(change.workspace(), &above, &|inner| going.contains(inner))
            {
                break;
            }
            folder = above.parent();
            going.insert(above.clone());
            emptied.push(above);
        }
    }
    if emptied.is_empty() {
        return Ok(emptied);
    }
    let own = change.engine_ref().session().as_str();
    let sessions = journal::sessions(state)?;
    let mut unneeded = BTreeSet::new();
    for session in sessions.iter().filter(|session| *session != own) {
        unneeded.extend(History::load(state, session)?.unneeded_folders());
    }
    emptied.retain(|folder| unneeded.contains(folder));
    for session in &sessions {
        if emptied.is_empty() {
            break;
        }
        let is_moved = |entry: &JournalEntry| session == own && entries.iter().any(|it| it.seq == entry.seq);
        let is_maker = |entry: &JournalEntry| {
            entry.folders.iter().any(|folder| emptied.contains(folder)) && !is_moved(entry)
        };
        let makers = History::load(state, session)?.next(state, Direction::Undo, usize::MAX, is_maker)?;
        emptied.retain(|folder| makers.iter().all(|entry| !entry.folders.contains(folder)));
    }
    Ok(emptied)
}

/// Returns the files after the entries are undone or redone, and the texts that this merged.
///
/// # Errors
/// Fails if the changes do not fit together, or a file cannot be read.
fn replayed(
    change: &Change<'_>,
    history: &History,
    entries: &[JournalEntry],
    direction: Direction,
    manner: &UndoOptions,
) -> Result<(ReplayResult, BTreeMap<Sha256, Vec<u8>>), Error> {
    let texts = RefCell::new(BTreeMap::new());
    let blend = |path: &WorkspacePath, now: &Version, from: &Version, to: &Version| {
        let known = |version: &Version| {
            let made = texts.borrow().get(&version.sha256).cloned();
            made.or_else(|| change.bytes_seen(path, version.sha256))
        };
        let (text, version) = merge_out_change(now, from, to, known)?;
        texts.borrow_mut().insert(version.sha256, text);
        Some(version)
    };
    // An unreadable file does not count as missing: the undo fails.
    let unseen = RefCell::new(None);
    let stands = |path: &WorkspacePath| {
        let looked = moves::kind(change.workspace(), path);
        looked.unwrap_or_else(|error| {
            unseen.borrow_mut().get_or_insert(error);
            None
        })
    };
    // Folders made for undone changes are removed with the last of them.
    let vacant = match direction {
        Direction::Undo => history.vacant.clone(),
        Direction::Redo => BTreeSet::new(),
    };
    let mut replay = Replay::new(&stands, vacant, manner.keeps_foreign_changes().then_some(&blend));
    // To take back an undo or a redo is to undo its own record.
    let way = |entry: &JournalEntry| direction_of(entry).map_or(direction, |_| Direction::Undo);
    let played = entries.iter().try_for_each(|entry| replay.play(entry, way(entry)));
    let outcome = replay.outcome();
    if let Some(error) = unseen.take() {
        // One of the changes may have locked this account out of its own folder.
        let is_closed = error.kind() == ErrorKind::PermissionDenied;
        return Err(if is_closed { error.suggest(executor::OPEN_FOLDER) } else { error });
    }
    played.map_err(|conflict| match conflict {
        ReplayConflict::Missing(content) if is_state(&content) => purged(change, &content, entries),
        conflict => conflict_error(change, &conflict, &manner.retry),
    })?;
    Ok((outcome, texts.into_inner()))
}

/// Returns a text without a change but with others' later changes; `None` if both touch the same lines.
fn merge_out_change(
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
    let text = merge::merge(base, one, other, EqualChanges::Once).ok()?;
    let mode = if from.mode == to.mode { now.mode } else { to.mode };
    let version = Version { sha256: Sha256::of(&text), size: text.len() as u64, mode, identity: None };
    Some((text, version))
}

/// Returns the mode of a folder.
fn mode_of(workspace: &Workspace, folder: &WorkspacePath) -> Option<u32> {
    fs::stat_beneath(workspace.root_fd(), folder).ok().map(|stat| fs::mode_of(&stat))
}

/// Returns the error of a file that others changed between two of the changes.
fn interleaved_error(workspace: &Workspace, path: &WorkspacePath, is_kept: bool) -> Error {
    let shown = workspace.display(path);
    let message = format!("{shown} was changed by someone else between these changes");
    let error = Error::new(ErrorKind::StaleFile, message).at(shown);
    if is_kept {
        return error.suggest(
            "They touch the same lines. `undo` with `merge` takes back the later changes, one at a time.",
        );
    }
    error
        .suggest(
            "Set `merge` to true to keep what others changed there, where it does not touch the same lines.",
        )
        .on_command_line(MERGE_FLAG)
}

/// Lets a file that comes back from the trash replace an equal one that others have made again: nobody loses anything.
fn replace_equal_file(change: &mut Change<'_>, outcome: &mut ReplayResult) -> Result<(), Error> {
    for Piece { real, at } in outcome.pieces.iter().collect::<Vec<_>>() {
        let is_restored = is_state(&real) && !is_state(&at);
        if !is_restored || outcome.pieces.target_of(&at) != at {
            continue;
        }
        let is_file = |path: &WorkspacePath| {
            Ok::<_, Error>(moves::kind(change.workspace(), path)? == Some(NodeKind::Other))
        };
        if !is_file(&at)?
            || !is_file(&real)?
            || outcome.gone.iter().any(|gone| gone.real.as_ref() == Some(&at))
        {
            continue;
        }
        let (Ok(trashed), Ok(there)) = (change.open_canonical(&real), change.open_canonical(&at)) else {
            continue;
        };
        let from = version(&there);
        if is_same(version(&trashed).as_ref(), from.as_ref()) {
            change.note_unchanged_replay(at.clone(), None, from.clone());
            outcome.gone.push(FileToRemove { at: at.clone(), real: Some(at), from });
        }
    }
    Ok(())
}

/// Returns the folders to remove in the end if they are empty, by their names at that time: another folder may have
/// taken the old name.
pub fn folders_to_remove(outcome: &ReplayResult, mut vacant: Vec<WorkspacePath>) -> Vec<WorkspacePath> {
    let taken: BTreeSet<&WorkspacePath> = outcome
        .lives
        .iter()
        .map(|live| &live.at)
        .chain(outcome.made.iter().map(|folder| &folder.path))
        .collect();
    vacant.retain(|folder| !taken.contains(folder) && !outcome.pieces.has_target(folder));
    innermost_first(&mut vacant);
    vacant
}

/// Returns the outcome without moves of folders that are removed later; they are removed in their old places.
///
/// # Errors
/// Returns the OS error.
pub fn without_empty(
    workspace: &Workspace,
    mut outcome: ReplayResult,
    folders: &mut Vec<WorkspacePath>,
) -> Result<ReplayResult, Error> {
    let pieces = outcome.pieces.clone();
    let wanted: BTreeSet<WorkspacePath> = folders.iter().cloned().collect();
    for piece in pieces.iter().filter(|piece| wanted.contains(&piece.at)) {
        let leaving = leaving_of(&outcome);
        // A folder in it may be moved there itself, and is removed in its turn.
        let vanishes = |real: &WorkspacePath| {
            outcome.displaced.contains(real) || wanted.contains(&pieces.target_of(real))
        };
        if let Some(inner) = emptied(workspace, &piece.real, &leaving, &vanishes)? {
            outcome.pieces.remove_at(&piece.at);
            folders.retain(|folder| !folder.is_within(&piece.at));
            outcome.displaced.extend(inner);
        }
    }
    innermost_first(folders);
    keep_made_again(&mut outcome);
    Ok(outcome)
}

/// Keeps a folder that gives way to a new one of its name, and gives it the mode of that one: it may hold files of both.
fn keep_made_again(outcome: &mut ReplayResult) {
    let ReplayResult { pieces, made, displaced, modes, .. } = outcome;
    made.retain(|folder| {
        let path = &folder.path;
        let is_kept = folder.identity.is_none()
            && displaced.contains(path)
            && pieces.source_of(path).as_ref() == Some(path);
        if is_kept {
            displaced.retain(|other| other != path);
            modes.insert(path.clone(), (None, folder.mode));
        }
        !is_kept
    });
}

/// Plans the removal of folders that are replaced.
///
/// # Errors
/// Fails with `stale_file` if a folder must stay.
pub fn plan_removals(
    change: &mut Change<'_>,
    outcome: &ReplayResult,
    vacant: &[WorkspacePath],
    retry: &str,
) -> Result<(), Error> {
    let workspace = change.workspace();
    let leaving = leaving_of(outcome);
    let lives = outcome.lives.iter().filter(|live| !live.is_in_place(&outcome.pieces));
    let lives = lives.map(|live| (live.at.clone(), None));
    let pieces = outcome.pieces.iter().map(|piece| (piece.at, Some(piece.real)));
    let mut cleared = Vec::new();
    for (at, moved) in lives.chain(pieces) {
        // A folder that moves may bring another one there.
        let mut others = std::borrow::Cow::Borrowed(&outcome.pieces);
        if others.has_target(&at) {
            others.to_mut().remove_at(&at);
        }
        let Some(real) = others.source_of(&at) else { continue };
        // What is in a folder that gets a name in itself goes along.
        let goes_along = moved.is_some_and(|moved| real.is_within(&moved));
        if goes_along || moves::kind(workspace, &real)?.is_none() || leaving.contains(&real) {
            continue;
        }
        let vanishes = |real: &WorkspacePath| {
            outcome.displaced.contains(real)
                || vacant.contains(real)
                || vacant.contains(&others.target_of(real))
        };
        // No change has an empty folder that git ignores: it gives way, as in a checkout.
        let inner = emptied(workspace, &real, &leaving, &|_| true)?;
        let others: Vec<&WorkspacePath> = inner.iter().flatten().filter(|folder| !vanishes(folder)).collect();
        match &inner {
            Some(inner) if change.are_ignored(&others) => cleared.extend(inner.iter().cloned()),
            _ => return Err(conflict_error(change, &ReplayConflict::Taken(at), retry)),
        }
    }
    // The other folders may move with their content before the end.
    for folder in &outcome.displaced {
        if moves::kind(workspace, folder)? == Some(NodeKind::Folder) {
            cleared.push(folder.clone());
        }
    }
    innermost_first(&mut cleared);
    change.add_cleared(cleared);
    Ok(())
}

/// Returns true if a path is a folder with content that stays.
pub fn is_occupied(
    workspace: &Workspace,
    path: &WorkspacePath,
    goes: &dyn Fn(&WorkspacePath) -> bool,
) -> bool {
    let names = workspace.open_folder(path).map(|opened| fs::names_in(&opened));
    let stays = |name: &std::ffi::OsString| !goes(&path.join(name));
    names.is_ok_and(|names| names.is_ok_and(|names| names.iter().any(stays)))
}

/// Sorts folders so that each precedes the folder that holds it.
pub fn innermost_first(folders: &mut Vec<WorkspacePath>) {
    folders.sort_by_cached_key(|folder| std::cmp::Reverse((depth(folder), folder.clone())));
    folders.dedup();
}

/// Returns the paths that an outcome removes or moves.
fn leaving_of(outcome: &ReplayResult) -> BTreeSet<WorkspacePath> {
    let gone = outcome.gone.iter().filter_map(|gone| gone.real.clone());
    let elsewhere = outcome.lives.iter().filter(|live| !live.is_in_place(&outcome.pieces));
    let elsewhere = elsewhere.filter_map(|live| live.real.clone());
    let moved = outcome.pieces.iter().map(|Piece { real, .. }| real);
    gone.chain(elsewhere).chain(moved).collect()
}

/// Returns the folder and those in it, if all other content leaves and all of them may be removed; else `None`.
fn emptied(
    workspace: &Workspace,
    folder: &WorkspacePath,
    leaving: &BTreeSet<WorkspacePath>,
    may_vanish: &dyn Fn(&WorkspacePath) -> bool,
) -> Result<Option<Vec<WorkspacePath>>, Error> {
    let Ok(opened) = workspace.open_folder(folder) else {
        return Ok(None);
    };
    let mut all = vec![folder.clone()];
    let mut waiting: Vec<(OwnedFd, WorkspacePath)> = vec![(opened, folder.clone())];
    while let Some((opened, folder)) = waiting.pop() {
        let io = |errno| Error::io("list", workspace.display(&folder), errno);
        for name in fs::names_in(&opened).map_err(io)? {
            let path = folder.join(&name);
            if leaving.contains(&path) {
                continue;
            }
            let inner = may_vanish(&path).then(|| fs::open_at(opened.as_fd(), &name, fs::FOLDER));
            let Some(Ok(inner)) = inner else {
                return Ok(None);
            };
            all.push(path.clone());
            waiting.push((inner, path));
        }
    }
    Ok(Some(all))
}

/// A conflicting file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConflictingFile {
    /// The file
    pub path: String,
    /// Its error
    pub message: String,
    /// Suggested action
    pub suggested_action: String,
    /// Lines that both sides changed, with markers
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<String>,
}

/// Conflicting files, each once.
#[derive(Debug, Default)]
pub struct ConflictingFiles {
    /// Error of each file.
    errors: Vec<Error>,
    /// Files.
    paths: BTreeSet<String>,
}

impl ConflictingFiles {
    /// Returns true if there are no conflicts.
    pub const fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Adds the error of a file, unless it has one already.
    pub fn add(&mut self, error: Error) {
        if error.path().is_none_or(|path| self.paths.insert(path.to_owned())) {
            self.errors.push(error);
        }
    }

    /// Keeps the error of one file, so that the other files are checked too.
    ///
    /// # Errors
    /// Returns any other error.
    pub fn sift<T: Default>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        match result {
            Err(error) if is_of_one_file(&error) => {
                self.add(error);
                Ok(T::default())
            }
            other => other,
        }
    }

    /// Returns one error for all; `None` if there are no conflicts.
    pub fn into_error(self) -> Option<Error> {
        let others = |first: &str| self.paths.iter().filter(|path| *path != first).cloned().collect();
        let first = self.errors.into_iter().next()?;
        let others: Vec<String> = others(first.path().unwrap_or_default());
        if others.is_empty() {
            return Some(first);
        }
        let addition = format!(" (also conflicting: {})", escaped::first_names(&others));
        Some(first.add_to_message(addition).detail("paths", self.paths.into_iter().collect::<Vec<_>>()))
    }

    /// Returns all conflicts, for a response.
    pub fn into_list(self) -> Vec<ConflictingFile> {
        self.errors.into_iter().map(|error| ConflictingFile::of(&error)).collect()
    }
}

impl ConflictingFile {
    /// Returns the conflict that an error describes.
    fn of(error: &Error) -> Self {
        Self {
            path: error.path().unwrap_or_default().to_owned(),
            message: error.message().to_owned(),
            suggested_action: error.suggested_action().to_owned(),
            conflicts: error.details().get("conflicts").and_then(|text| text.as_str()).map(str::to_owned),
        }
    }

    /// Writes the conflict as lines for a reader.
    pub fn as_text(&self, text: &mut Text) {
        let word = text.paint(Paint::Red, "conflict:");
        text.styled(&format!("{word} {}", escaped::line(&self.message)));
        for line in self.conflicts.iter().flat_map(|lines| lines.lines()) {
            text.line(&format!("  {line}"));
        }
    }
}

/// Returns true if an error is about one conflicting file.
fn is_of_one_file(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::StaleFile | ErrorKind::NotFound) && error.path().is_some()
}

/// Returns the error of a deletion whose `content` has left the trash.
fn purged(change: &Change<'_>, content: &WorkspacePath, entries: &[JournalEntry]) -> Error {
    let moved = entries.iter().flat_map(|entry| &entry.moves).find(|moved| moved.to == *content);
    let shown =
        moved.map_or_else(|| change.shown_original(content), |moved| change.workspace().display(&moved.from));
    let policy = change.engine_ref().policy();
    // No snapshot has ignored files.
    let is_ignored = moved.is_some_and(|moved| change.are_ignored(&[&moved.from]));
    let of_git = if is_ignored || !policy.has_snapshots() {
        String::new()
    } else {
        let (branch, named) = (policy.branch(), quoted(&shown));
        format!("If nobody did, git may have its bytes: `git log -p {branch} -- {named}`. ")
    };
    let message = format!("{shown} is no longer in the trash: it was restored or purged since");
    Error::new(ErrorKind::StaleFile, message).at(shown).suggest(format!(
        "`log` shows who restored it. {of_git}`undo` takes an older change back by its `seq`."
    ))
}

/// Returns the error of changes that move a missing file, or move one to an existing path.
pub fn conflict_error(change: &Change<'_>, conflict: &ReplayConflict, retry: &str) -> Error {
    let (path, what, suggestion) = match conflict {
        ReplayConflict::Missing(path) => (
            path,
            "no longer exists, so it cannot be moved back",
            format!("Bring it back to where this session left it, {retry}."),
        ),
        ReplayConflict::Taken(path) => (
            path,
            "cannot come back: something is in its place",
            format!("Move what is there out of the way, {retry}."),
        ),
    };
    let shown = change.shown_original(path);
    Error::new(ErrorKind::StaleFile, format!("{shown} {what}")).at(shown).suggest(suggestion)
}
