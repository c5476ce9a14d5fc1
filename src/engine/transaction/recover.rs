//! What a call finds that another left when it was killed: completed, or rolled back, whole.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use super::apply::{Parting, apply_entry, set_modes, sync_folders_of};
use super::commit::audit_files;
use super::journal::{self, Description, Entry, FileEntry, MoveEntry, OPEN_FOLDER, Version};
use super::moves::At;
use super::stage::{self, BESIDE_PREFIX, New, Stage};
use super::{FILE_BYTES_MAX, Original, moves, replay};
use crate::engine::audit::Durable;
use crate::engine::fs;
use crate::engine::path::WorkspacePath;
use crate::engine::protect::protected_component;
use crate::engine::session;
use crate::engine::snapshot::AllAhead;
use crate::engine::snapshot_of::{self, Record};
use crate::engine::state::{State, make_folder};
use crate::engine::workspace::Workspace;
use crate::engine::{Engine, audit, backup, trash};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

/// Finishes every open entry, oldest first, and removes what was written aside for none of them.
/// The caller holds the lock, so nobody is still at work on them.
///
/// # Errors
/// The system's.
pub fn recover(engine: &mut Engine, state: &State) -> Result<(), Error> {
    let (entries, strays) = journal::open_entries(state)?;
    for entry in &entries {
        recover_entry(engine, state, entry)?;
    }
    if let Some(folder) = state.find_folder(OPEN_FOLDER)? {
        strays.iter().for_each(|name| journal::remove(&folder, name));
    }
    sweep(engine, state)
}

/// How far a dead call came with one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// Its old bytes stand.
    Before,
    /// Its new bytes stand.
    After,
    /// Both sides are the same.
    Either,
    /// Neither: someone else has changed it since.
    Other,
}

/// Completes one entry, else rolls it back, else puts it aside with a warning.
fn recover_entry(engine: &mut Engine, state: &State, entry: &Entry) -> Result<(), Error> {
    let stands: Vec<Stand> =
        entry.files.iter().map(|file| stand_in(&engine.workspace, entry, file)).collect();
    let may_go_on = may_go_on(state, entry);
    let can_complete =
        entry.files.iter().zip(&stands).all(|(file, stand)| match stand {
            Stand::After | Stand::Either => true,
            Stand::Before => is_staged(&engine.workspace, file),
            Stand::Other => false,
        }) && entry.moves.iter().all(|moved| moves::can_be_done(&engine.workspace, entry, moved))
            && entry.descriptions.iter().all(|description| is_at_hand(&engine.workspace, description));
    if may_go_on && can_complete {
        apply_entry(&engine.workspace, entry)?;
        sync_folders_of(&engine.workspace, entry, None)?;
        return complete(engine, state, entry);
    }
    if may_go_on && !stands.contains(&Stand::Other) {
        return roll_back(&engine.workspace, state, entry);
    }
    entry.put_aside(state)?;
    engine.warn(format!(
        "an earlier call ({}) was killed half-way and its files have changed since: it was neither completed nor undone; see {}/{}.json",
        entry.subject,
        state.path_of(journal::STUCK_FOLDER),
        entry.id
    ));
    Ok(())
}

/// Whether every path of an entry is one that a change may write: an entry might have been forged.
fn may_go_on(state: &State, entry: &Entry) -> bool {
    let is_free = |path: &WorkspacePath| protected_component(path.as_path()).is_none();
    let (trash, held) = (state.path_of(trash::FOLDER), state.path_of(journal::HELD_FOLDER));
    let is_trash = |path: &WorkspacePath| path.is_within(&trash);
    let moved = entry.moves.iter().flat_map(|moved| [&moved.from, &moved.to]);
    let is_held = |path: &WorkspacePath| path.is_within(&held);
    entry.files.iter().all(|file| is_free(&file.path) || is_trash(&file.path))
        && entry.descriptions.iter().all(|description| is_trash(&description.path))
        && entry.moves.iter().filter_map(|moved| moved.via.as_ref()).all(is_held)
        && moved.into_iter().all(|path| is_free(path) || is_trash(path))
}

/// The bytes of a file before and after a change.
type Sides = (Option<Vec<u8>>, Option<Vec<u8>>);

/// What follows a completed change: its number in the session, snapshot, history.
fn complete(engine: &mut Engine, state: &State, entry: &Entry) -> Result<(), Error> {
    if let Ok(id) = entry.session.parse() {
        session::update(state, &id, |session| session.seq = session.seq.max(entry.seq))?;
    }
    let sides: Vec<Sides> = entry
        .files
        .iter()
        .map(|file| both_sides(&engine.workspace, state, file))
        .collect::<Result<_, _>>()?;
    let moved = moves::moved_files(&engine.workspace, entry)?;
    let files = entry
        .files
        .iter()
        .zip(&sides)
        .filter(|(file, _)| protected_component(file.path.as_path()).is_none())
        .map(|(file, (before, after))| snapshot_of::File {
            path: &file.path,
            before: side(file.before.as_ref(), before.as_ref()),
            after: side(file.after.as_ref(), after.as_ref()),
        })
        .chain(moved.iter().map(moves::Moved::for_snapshot))
        .collect();
    let snapshot = snapshot_of::record_late(
        engine,
        &Record { entry, files: moves::joined(files), folders: Vec::new(), ahead: AllAhead::default() },
    );
    audit_late(engine, state, entry, snapshot);
    entry.close(state)
}

/// Puts a dead call's change into the audit log, unless it lived to do so.
fn audit_late(engine: &mut Engine, state: &State, entry: &Entry, snapshot: Option<String>) {
    let now = jiff::Timestamp::now();
    let mut files = audit_files(entry);
    files.truncate(audit::PATHS_MAX);
    let record = audit::Record {
        time: now.round(jiff::Unit::Millisecond).unwrap_or(now).to_string(),
        session: entry.session.clone(),
        tool: entry.tool.clone(),
        outcome: "ok".to_owned(),
        files,
        snapshot,
        change: Some(entry.id.clone()),
        gate: entry.gate.clone(),
        message: Some("the call was killed half-way; the next call completed the change".to_owned()),
        duration_ms: 0,
    };
    let written = match audit::has_change(state, &entry.id) {
        Ok(true) => Ok(()),
        Ok(false) => audit::append(state, record, Durable::Yes),
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        engine.warn(format!("the audit log could not be written: {}", error.message()));
    }
}

/// One side of a file as the snapshot takes it.
fn side<'a>(version: Option<&Version>, bytes: Option<&'a Vec<u8>>) -> Option<(u32, &'a [u8])> {
    version.zip(bytes).map(|(version, bytes)| (version.mode, bytes.as_slice()))
}

/// The bytes of both sides of a completed file.
fn both_sides(workspace: &Workspace, state: &State, file: &FileEntry) -> Result<Sides, Error> {
    let before = match &file.before {
        Some(version) => backup::find(state, version.sha256)?,
        None => None,
    };
    let after = match &file.after {
        Some(_) => read(workspace, &file.path)?.map(|(bytes, _)| bytes),
        None => None,
    };
    Ok((before, after))
}

/// Puts the old bytes back wherever the new ones stand, removes what waits aside, and drops the entry.
///
/// Every step of the change is taken back, the last one first.
///
/// # Errors
/// The system's; the entry stays open, for the next call.
pub fn roll_back(workspace: &Workspace, state: &State, entry: &Entry) -> Result<(), Error> {
    let restore_all = |are_new: bool| {
        let files = entry.files.iter().enumerate().filter(|(_, file)| file.before.is_none() == are_new);
        for (number, file) in files {
            if stand_in(workspace, entry, file) == Stand::After {
                restore(workspace, state, entry, number, file)?;
            }
        }
        Ok(())
    };
    // What is new goes first: it may have a folder's name.
    restore_all(true)?;
    // Then the folders come back: files may have to go into them.
    remake(workspace, entry.vacated.iter().rev().filter(|folder| has_come(workspace, entry, folder)))?;
    entry.moves.iter().rev().try_for_each(|moved| moves::displace(workspace, moved))?;
    for description in &entry.descriptions {
        discard(workspace, &description.path);
    }
    for folder in entry.folders.iter().rev() {
        let parent = workspace.open_folder(&folder.parent().unwrap_or_default());
        if let Ok(parent) = parent {
            // A folder that is no longer empty is someone else's now.
            let _ = fs::unlink_at(&parent, folder.name().unwrap_or_default(), rustix::fs::AtFlags::REMOVEDIR);
        }
    }
    let mut parted: Vec<Parting<'_>> = entry.cleared.iter().map(Parting::Cleared).collect();
    parted.extend(entry.moves.iter().map(Parting::Extracted));
    parted.sort_by_cached_key(|step| replay::depth(step.path()));
    for step in parted {
        match step {
            Parting::Cleared(folder) => remake(workspace, std::iter::once(folder))?,
            Parting::Extracted(moved) => moves::put_back(workspace, moved)?,
        }
    }
    // Last, since a folder that was just removed may have had a file's name.
    restore_all(false)?;
    set_modes(workspace, &entry.modes_before)?;
    sync_folders_of(workspace, entry, None)?;
    let descriptions = entry.descriptions.iter().map(|description| &description.staged);
    for staged in entry.files.iter().filter_map(|file| file.staged.as_ref()).chain(descriptions) {
        discard(workspace, staged);
    }
    entry.discard(state)
}

/// Makes folders again that a change removed, outermost first.
fn remake<'e>(workspace: &Workspace, folders: impl Iterator<Item = &'e WorkspacePath>) -> Result<(), Error> {
    for folder in folders {
        if let Ok(parent) = workspace.open_folder(&folder.parent().unwrap_or_default()) {
            make_folder(parent.as_fd(), folder.name().unwrap_or_default(), 0o777)
                .map_err(|errno| Error::io("make", workspace.shown(folder), errno))?;
        }
    }
    Ok(())
}

/// Whether a path is where the change put it: it was there before, or came with a folder that moved.
fn has_come(workspace: &Workspace, entry: &Entry, path: &WorkspacePath) -> bool {
    let bringing = entry.moves.iter().filter(|moved| path.is_within(&moved.to));
    bringing.into_iter().all(|moved| moves::whereabouts(workspace, moved) == At::To)
}

/// Whether something that the change moved has taken a path.
#[must_use]
pub fn is_taken_over(workspace: &Workspace, entry: &Entry, path: &WorkspacePath) -> bool {
    entry
        .moves
        .iter()
        .any(|moved| path.is_within(&moved.to) && moves::whereabouts(workspace, moved) == At::To)
}

/// Puts one file back as it was before.
fn restore(
    workspace: &Workspace,
    state: &State,
    entry: &Entry,
    number: usize,
    file: &FileEntry,
) -> Result<(), Error> {
    let folder_path = file.path.parent().unwrap_or_default();
    let folder = workspace.open_folder(&folder_path)?;
    let name = file.path.name().unwrap_or_default();
    let io = |errno| Error::io("restore", workspace.shown(&file.path), errno);
    let Some(before) = &file.before else {
        return fs::unlink_at(&folder, name, rustix::fs::AtFlags::empty()).map_err(io);
    };
    let bytes = backup::find(state, before.sha256)?.ok_or_else(|| {
        Error::new(ErrorKind::IoError, format!("the backup of {} is gone", workspace.shown(&file.path)))
    })?;
    let stage = Stage::new(workspace, state, &entry.id)?;
    let original = workspace
        .open_regular(&file.path, &workspace.shown(&file.path))
        .ok()
        .filter(|_| !fs::is_symlink_mode(before.mode))
        .map(|(_, stat)| Original { path: file.path.clone(), stat });
    let shown = workspace.shown(&file.path);
    let new =
        New { shown: &shown, bytes: &bytes, mode: Some(before.mode), identity: before.identity.as_ref() };
    // The number sets it apart from the new bytes that may still wait.
    let staged =
        stage.write(entry.files.len() + number, &folder_path, original.as_ref(), &new, &mut Vec::new())?;
    staged.file.sync_all().map_err(|source| Error::io("sync", workspace.shown(&file.path), source))?;
    let from = workspace.open_folder(&staged.path.parent().unwrap_or_default())?;
    fs::rename_at(&from, staged.path.name().unwrap_or_default(), &folder, name).map_err(io)
}

/// Which side of a file stands, in the middle of a change that may move other things under its name.
fn stand_in(workspace: &Workspace, entry: &Entry, file: &FileEntry) -> Stand {
    let is_away = |moved: &MoveEntry| {
        file.path.is_within(&moved.from) && moves::whereabouts(workspace, moved) == At::From
    };
    if file.after.is_none() && is_taken_over(workspace, entry, &file.path) {
        return Stand::After;
    }
    // Another file of the change may have its name by now, whose folder is another too.
    let has_its_name = |other: &&FileEntry| other.path == file.path && other.after.is_some();
    if file.after.is_none()
        && let Some(other) = entry.files.iter().find(has_its_name)
        && has_new_side(workspace, other)
    {
        return Stand::After;
    }
    let goes = entry.cleared.contains(&file.path) || entry.vacated.contains(&file.path);
    let is_in_use = (goes && is_folder(workspace, &file.path)) || entry.moves.iter().any(is_away);
    if file.before.is_none() && is_in_use && is_staged(workspace, file) {
        return Stand::Before;
    }
    stand_of(workspace, file)
}

/// Which side of a file stands.
fn stand_of(workspace: &Workspace, file: &FileEntry) -> Stand {
    let now = match read(workspace, &file.path) {
        Ok(now) => now,
        // A folder has its name, or a symlink that of a folder it was in: the file is gone, as it was
        // to be.
        Err(_) if file.after.is_none() && is_gone(workspace, &file.path) => None,
        Err(_) => return Stand::Other,
    };
    let now = now.map(|(bytes, mode)| (Sha256::of(&bytes), mode));
    let is = |version: &Option<Version>| match (version, &now) {
        (None, None) => true,
        (Some(version), Some((sha256, mode))) => version.sha256 == *sha256 && version.mode == *mode,
        _ => false,
    };
    match (is(&file.before), is(&file.after)) {
        (true, true) => Stand::Either,
        (true, false) => Stand::Before,
        (false, true) => Stand::After,
        (false, false) => Stand::Other,
    }
}

/// Whether no file stands at a path: a folder does, or something is in the way to it.
fn is_gone(workspace: &Workspace, path: &WorkspacePath) -> bool {
    workspace.place_of(path).is_ok_and(|place| place.stat().is_none_or(fs::is_folder))
}

/// Whether a folder stands at a path.
fn is_folder(workspace: &Workspace, path: &WorkspacePath) -> bool {
    workspace.place_of(path).is_ok_and(|place| place.stat().is_some_and(fs::is_folder))
}

/// Whether the new side of a file stands.
#[must_use]
pub fn has_new_side(workspace: &Workspace, file: &FileEntry) -> bool {
    matches!(stand_of(workspace, file), Stand::After | Stand::Either)
}

/// The bytes and mode of a regular file, or of a symlink itself; `None` where nothing stands.
fn read(workspace: &Workspace, path: &WorkspacePath) -> Result<Option<(Vec<u8>, u32)>, Error> {
    let shown = workspace.shown(path);
    if let Ok(link) = fs::open_beneath(workspace.root_fd(), path, fs::LOOK)
        && rustix::fs::fstat(&link).is_ok_and(|stat| fs::is_symlink(&stat))
    {
        let target = fs::target_of(&link).map_err(|errno| Error::io("read", shown, errno))?;
        return Ok(Some((target, fs::SYMLINK_MODE)));
    }
    let (file, stat) = match workspace.open_regular(path, &shown) {
        Ok(opened) => opened,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let bytes = fs::read_to_end(file, fs::size_of(&stat), FILE_BYTES_MAX)
        .map_err(|source| Error::io("read", shown, source))?;
    Ok(Some((bytes, fs::mode_of(&stat))))
}

/// Whether the new bytes of a file wait, whole.
fn is_staged(workspace: &Workspace, file: &FileEntry) -> bool {
    match (&file.after, &file.staged) {
        (None, _) => true,
        (Some(after), Some(staged)) => read(workspace, staged)
            .is_ok_and(|found| found.is_some_and(|(bytes, _)| Sha256::of(&bytes) == after.sha256)),
        (Some(_), None) => false,
    }
}

/// Whether a description waits or is in its place: one that a call has rolled back is neither, though
/// the call may not have come to its end.
fn is_at_hand(workspace: &Workspace, description: &Description) -> bool {
    let stands = |path: &WorkspacePath| {
        let folder = workspace.open_folder(&path.parent().unwrap_or_default());
        folder.is_ok_and(|folder| fs::stat_at(folder.as_fd(), path.name().unwrap_or_default()).is_ok())
    };
    stands(&description.staged) || stands(&description.path)
}

/// Removes bytes that wait for nothing any more.
fn discard(workspace: &Workspace, staged: &WorkspacePath) {
    if let Ok(folder) = workspace.open_folder(&staged.parent().unwrap_or_default()) {
        // Best effort: the sweep of the next change comes past here again.
        let _ = fs::unlink_at(&folder, staged.name().unwrap_or_default(), rustix::fs::AtFlags::empty());
    }
}

/// Removes everything in the staging folder, and what its notes name beside the targets: under
/// the lock, with no entry open, it all belongs to the dead, save a session's new state.
fn sweep(engine: &Engine, state: &State) -> Result<(), Error> {
    let Some(staging) = state.find_folder(stage::FOLDER)? else {
        return Ok(());
    };
    for name in journal::names_in(&staging)? {
        if let Some(id) = name.strip_suffix(".beside") {
            for folder in stage::read_note(staging.as_fd(), id) {
                sweep_beside(&engine.workspace, &folder, id);
            }
        }
        if !session::is_in_use(state, &name) {
            journal::remove(&staging, &name);
        }
    }
    Ok(())
}

/// Removes what the change `id` left in a folder of the workspace.
fn sweep_beside(workspace: &Workspace, folder: &WorkspacePath, id: &str) {
    let Ok(folder) = workspace.open_folder(folder) else {
        return;
    };
    let prefix = format!("{BESIDE_PREFIX}{id}-");
    for name in journal::names_in(&folder).unwrap_or_default() {
        if name.starts_with(&prefix) {
            // Best effort, as above.
            let _ = fs::unlink_at(&folder, OsStr::new(&name), rustix::fs::AtFlags::empty());
        }
    }
}
