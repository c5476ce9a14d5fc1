//! What several changes come to, taken back or done again, planned as one change.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::conflicts::{Conflicts, conflict_error};
use super::files::{Interleaved, MERGE_FLAG, Manner, Planner};
use super::folders::{self, clear_the_way, innermost_first, vacated, without_empty};
use crate::engine::change::{Change, moves};
use crate::engine::history::replay::{Direction, Piece, Replay, ReplayResult};
use crate::engine::history::stacks::History;
use crate::engine::journal::{JournalEntry, Version};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::content::looks_binary;
use crate::text::merge::{self, Alike};

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
    let mut outcome = without_empty(change.workspace(), outcome, &mut vacant)?;
    conflicts.sift(change.must_keep_the_trash(&mut outcome))?;
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
    let shown = |piece: Piece| if is_state(&piece.at) { piece.real } else { piece.at };
    paths.extend(pieces.iter().map(shown).filter(|path| !is_state(path)));
    for (path, (before, after)) in outcome.modes {
        let now = pieces.standing(&path).and_then(|path| mode_of(change.workspace(), &path));
        // Those that others have set since stay.
        if let Some(before) = before.or(now).filter(|before| now.is_none_or(|now| now == *before)) {
            change.set_folder_mode(path, before, after);
        }
    }
    if paths.is_empty() {
        let stays = vacated.iter().find(|folder| folders::is_occupied(change.workspace(), folder, &vacated));
        if let Some(folder) = stays.map(|folder| change.workspace().shown(folder)) {
            change.engine().warn(format!("the folder {folder} stays: it is not empty"));
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
    played.map_err(|conflict| conflict_error(change, &conflict))?;
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

/// The refusal of a file that others changed between two of the changes.
fn interleaved_error(workspace: &Workspace, path: &WorkspacePath, between: Interleaved) -> Error {
    let shown = workspace.shown(path);
    let message = format!("{shown} was changed by someone else between these changes");
    let error = Error::new(ErrorKind::StaleFile, message).at(shown);
    match between {
        Interleaved::Refused => error.suggest("Take the changes back one step at a time."),
        Interleaved::Offered => error
            .suggest(
                "Set `merge` to true to keep what others changed there, where it does not touch the same lines.",
            )
            .on_command_line(MERGE_FLAG),
        Interleaved::Kept => error.suggest(
            "They touch the same lines. `undo` with `merge` takes back the later changes, one at a time.",
        ),
    }
}
