//! Recovers changes of killed calls: completes each or rolls it back as a whole. If others have changed the files so
//! that neither fits, sets the entry aside. No entry blocks later calls.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::executor::{Executor, ReadStats};
use super::folders::not_closed;
use super::moves::{self, SnapshotMoves};
use super::record::{self, AppliedChange};
use super::trash::must_be_as_described;
use crate::engine::Engine;
use crate::engine::history::replay::{Direction, NodeKind};
use crate::engine::history::stacks::moved_to;
use crate::engine::journal::progress::{self, ObservedKind, Progress, progress};
use crate::engine::journal::steps::{BESIDE_PREFIX, Location, Step};
use crate::engine::journal::{
    self, APART, FileEntry, GitLocksMark, HELD_FOLDER, JournalEntry, MissedSnapshot, OPEN_FOLDER,
    STUCK_FOLDER, Version, backup,
};
use crate::engine::policy::protected::ProtectedLinks;
use crate::engine::sandbox::layer::{self, KeptLayer};
use crate::engine::sandbox::running::{self, DirectCommand};
use crate::engine::snapshot::{DiskFile, FileChange, Store};
use crate::engine::store::audit::{self, Durability};
use crate::engine::store::session;
use crate::engine::store::state::{STAGING_FOLDER, State, names_in};
use crate::engine::workspace::fs::{self, rename_new};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::{Protection, is_state};
use crate::engine::workspace::{Workspace, removal};
use crate::error::{Error, ErrorKind, Message, text};
use crate::limits::AUDIT_PATHS_MAX;
use crate::sha256::Sha256;
use crate::text::escaped::short_path;

/// Settles every open entry, oldest first, and removes staged files that belong to none. The caller holds both locks, so
/// nobody is still working on them, except itself on the change `own`.
///
/// # Errors
/// Fails only for a full disk, a disk error or a signal.
pub fn recover(engine: &mut Engine, state: &State, own: Option<&str>) -> Result<(), Error> {
    record::go_back_if_gone(engine, state);
    let mut open = journal::open_entries(state, own)?;
    for entry in &open.entries {
        if is_closed(state, entry) {
            open.strays.push(entry.name());
        } else {
            recover_entry(engine, state, entry)?;
        }
    }
    for entry in &open.unpublished {
        if !is_closed(state, entry) && has_begun(engine, state, entry)? {
            entry.publish(state)?;
            recover_entry(engine, state, entry)?;
        } else {
            open.strays.push(entry.unpublished_name());
        }
    }
    for name in &open.damaged {
        set_aside(engine, state, name, None, "the journal entry of an unfinished change is damaged")?;
    }
    for name in &open.newer {
        engine.warn(format!(
            "{OPEN_FOLDER}/{name} is an unfinished change of a newer lbx and was left as it is: call that one here"
        ));
    }
    record_missed(engine, state, &open.missed);
    for name in &open.layers {
        if let Some(layer) = layer::take_dead(state, name)? {
            engine.warn(killed_layer(&layer));
        }
    }
    engine.direct.clear();
    for name in std::mem::take(&mut open.direct) {
        match running::take_dead(state, &name)? {
            Some(command) => engine.warn(killed_direct(&command)),
            None => engine.direct.push(name),
        }
    }
    if let Some(folder) = state.find_folder(OPEN_FOLDER)? {
        if open.has_git_locks {
            let _mark = GitLocksMark::leave(state)?;
            record::find(engine)?.iter().for_each(|store| drop(store.locks_left_behind(true)));
        }
        open.strays.iter().for_each(|name| journal::remove(&folder, name));
    }
    let left: Vec<&str> = open.newer.iter().map(|name| id_of(name)).chain(own).collect();
    sweep(&engine.workspace, state, &left)
}

/// Returns the warning that names the layer of a killed command.
fn killed_layer(KeptLayer { name, record, is_lost }: &KeptLayer) -> Message {
    let command = short_path(record.command.lines().next().unwrap_or_default());
    if *is_lost {
        return text!(
            "lbx was killed while `{}` ran; the changes of the command are lost, since they were in memory",
            command
        );
    }
    text!(
        "lbx was killed while `{}` ran; the changes of the command are kept in {}. `bash` with `layer` shows them, with `apply` too it applies them, with `drop` it deletes them",
        command,
        name
    )
}

/// Returns the warning about a killed command that had changed the files themselves.
fn killed_direct(DirectCommand { session, tip, .. }: &DirectCommand) -> Message {
    let killed = text!(
        "lbx was killed while a direct command of session {} ran; undo does not take back what it changed, and the snapshots may count that as the developer's",
        session
    );
    let Some(tip) = tip else { return killed };
    killed.followed_by(text!(
        ". The old bytes are in the snapshot {}, but for files that snapshots leave out. `snapshot` records what is on disk now; then `diff` with `from` shows what has changed since",
        tip
    ))
}

/// Returns the id of the change whose entry has that file name.
fn id_of(name: &str) -> &str {
    let name = name.strip_prefix('.').unwrap_or(name);
    name.strip_suffix(".lbx").unwrap_or(name)
}

/// Returns true if the history has a change: a power failure kept its new name, and brought an old one back.
fn is_closed(state: &State, entry: &JournalEntry) -> bool {
    let done = journal::history_entry(state, &entry.session, entry.seq);
    done.is_ok_and(|done| done.is_some_and(|done| done.id == entry.id))
}

/// Returns true if a change began although its entry does not have its final name: it had it, and a power failure undid
/// the rename.
fn has_begun(engine: &Engine, state: &State, entry: &JournalEntry) -> Result<bool, Error> {
    let (found, opened) = find_progress_in_closed(engine, state, entry)?;
    Executor { workspace: &engine.workspace, state }.restore_modes(&opened);
    Ok(found.has_begun())
}

/// Completes one entry, or rolls it back, or sets it aside with a warning.
fn recover_entry(engine: &mut Engine, state: &State, entry: &JournalEntry) -> Result<(), Error> {
    let steps = entry.steps.as_slice();
    let look = |engine: &Engine| find_progress(Executor { workspace: &engine.workspace, state }, steps);
    let (mut found, opened) = find_progress_in_closed(engine, state, entry)?;
    let give_back = || (Executor { workspace: &engine.workspace, state }).restore_saved_file(entry);
    if let Some(done) = check(engine, entry, steps).ok().and_then(|()| give_back()) {
        found = Progress { forth: None, back: Some(done), ..found };
    }
    if let Some(done) = found.forth
        && check(engine, entry, steps.get(done..).unwrap_or_default()).is_ok()
    {
        let executor = Executor { workspace: &engine.workspace, state };
        match finish_steps(executor, entry, done) {
            Ok(()) => return complete(engine, state, entry),
            Err(error) if ends_the_call(&error) => return Err(error),
            // Files of others prevent the remaining steps.
            Err(_) => found = look(engine)?,
        }
    }
    if let Some(done) = found.back
        && check(engine, entry, steps.get(..done).unwrap_or_default()).is_ok()
    {
        let executor = Executor { workspace: &engine.workspace, state };
        match roll_back(executor, entry, done) {
            Err(error) if ends_the_call(&error) => return Err(error),
            Ok(()) => return Ok(()),
            Err(_) => {}
        }
    }
    let executor = Executor { workspace: &engine.workspace, state };
    executor.restore_modes(&opened);
    // Best effort.
    let _ = executor.close(entry, Direction::Undo);
    let (subject, paths) = (&entry.subject, paths_of(entry));
    let what = format!(
        "an earlier call ({subject}) was killed or failed half-way, and its files have changed since ({paths}): it was neither completed nor undone"
    );
    set_aside(engine, state, &entry.name(), Some(entry), &what)
}

/// Finds how many steps of an entry were done, including in closed folders; returns these folders, which are opened up
/// for that, with their former permission bits.
///
/// # Errors
/// Returns the OS error.
fn find_progress_in_closed(
    engine: &Engine,
    state: &State,
    entry: &JournalEntry,
) -> Result<(Progress, Vec<(Location, u32)>), Error> {
    let executor = Executor { workspace: &engine.workspace, state };
    let found = find_progress(executor, &entry.steps)?;
    if !found.is_unknown() || check(engine, entry, &entry.steps).is_err() {
        return Ok((found, Vec::new()));
    }
    let opened = executor.make_writable(entry, entry.steps.len());
    let found = if opened.is_empty() { found } else { find_progress(executor, &entry.steps)? };
    Ok((found, opened))
}

/// Finds how many steps of an entry were done.
///
/// # Errors
/// Returns the OS error.
fn find_progress(executor: Executor<'_>, steps: &[Step]) -> Result<Progress, Error> {
    let mut observed: BTreeMap<Location, ObservedKind> = BTreeMap::new();
    for (at, has_bytes) in progress::paths(steps) {
        match executor.observe(&at, has_bytes) {
            Ok(found) => drop(observed.insert(at, found)),
            Err(error) if ends_the_call(&error) => return Err(error),
            // An entry that cannot be examined is not one that the change left there.
            Err(_) => {}
        }
    }
    for step in steps {
        if let Some(at) = executor.torn_file(step) {
            observed.insert(at, ObservedKind::Torn);
        }
    }
    Ok(progress(steps, &observed))
}

/// Returns true for an error that the next call would hit as well: a full disk, a disk error, a signal.
fn ends_the_call(error: &Error) -> bool {
    error.kind() == ErrorKind::NoSpace
        || matches!(
            error.errno(),
            Some(
                Errno::NOSPC
                    | Errno::DQUOT
                    | Errno::IO
                    | Errno::INTR
                    | Errno::ROFS
                    | Errno::NOMEM
                    | Errno::MFILE
                    | Errno::NFILE
                    | Errno::FBIG
            )
        )
}

/// Fails if the present policy would not let a new request take these steps: an entry may be forged, and a path that
/// was free when it was written may be protected by now. lbx's own trash is the only exception. Checks only `steps`,
/// not the whole entry.
///
/// # Errors
/// Returns `protected_path`.
fn check(engine: &Engine, entry: &JournalEntry, steps: &[Step]) -> Result<(), Error> {
    let workspace = &engine.workspace;
    let protection = Protection::default();
    let links = ProtectedLinks::find(engine.policy(), workspace);
    let of_steps = steps.iter().flat_map(Step::locations).filter_map(|at| match at {
        Location::File(path) => Some(path),
        Location::State(_) => None,
    });
    for path in of_steps.chain(entry.modes.iter().map(|folder| &folder.path)) {
        let shown = workspace.display(path);
        protection.check(workspace, path, &shown)?;
        let by_name = engine.policy().protects(workspace, path);
        if let Some(why) = by_name.or_else(|| links.protects(engine.policy(), workspace, path, None)) {
            return Err(
                Error::new(ErrorKind::ProtectedPath, format!("{shown} is protected: {why}")).at(shown)
            );
        }
    }
    Ok(())
}

/// Fails if, by now, a moved folder contains something that must not move, or the trash would take something else than
/// its description says.
fn check_contents(
    executor: Executor<'_>,
    entry: &JournalEntry,
    steps: &[Step],
    direction: Direction,
) -> Result<(), Error> {
    for step in steps {
        must_be_as_described((executor.workspace, executor.state), entry, step, direction)?;
        if let Step::Rename { from, to, thing, .. } = step
            && thing.is_folder
        {
            for at in [from, to] {
                let path = at.from_root(executor.state.path());
                if moves::kind(executor.workspace, &path)? == Some(NodeKind::Folder) {
                    moves::walk(executor.workspace, &path, &mut |_| Ok(()))?;
                }
            }
        }
    }
    Ok(())
}

/// Takes the steps of an entry after the first `done`.
fn finish_steps(executor: Executor<'_>, entry: &JournalEntry, done: usize) -> Result<(), Error> {
    let rest = entry.steps.get(done..).unwrap_or_default();
    check_contents(executor, entry, rest, Direction::Redo)?;
    executor.carry_out(entry, done, &ReadStats::default())?;
    executor.sync(&entry.steps, None, None)
}

/// Takes back the done steps of a failed change, as far as they are known.
///
/// # Errors
/// Returns the OS error, or `internal` if others have changed the files meanwhile; the entry stays open, for the next
/// call.
pub fn roll_back_steps(executor: Executor<'_>, entry: &JournalEntry) -> Result<(), Error> {
    match find_progress(executor, &entry.steps)?.back {
        Some(done) => roll_back(executor, entry, done),
        None => Err(Error::internal("the files have changed since")),
    }
}

/// Sets the entry of this very call aside if others have changed its files so that it can be neither completed nor
/// taken back; returns true if it did. If the next call can still complete it, it stays.
pub fn set_own_entry_aside(engine: &mut Engine, state: &State, entry: &JournalEntry) -> bool {
    let found = find_progress(Executor { workspace: &engine.workspace, state }, &entry.steps);
    let is_hopeless = found.is_ok_and(Progress::is_unknown);
    if is_hopeless {
        // Best effort.
        let _ = Executor { workspace: &engine.workspace, state }.close(entry, Direction::Undo);
    }
    let paths = paths_of(entry);
    let what = format!(
        "another program changed files while this call was changing them ({paths}): the change was neither completed nor undone"
    );
    is_hopeless && set_aside(engine, state, &entry.name(), Some(entry), &what).is_ok()
}

/// Takes back the first `done` steps of an entry, last first, and removes the entry.
pub fn roll_back(executor: Executor<'_>, entry: &JournalEntry, done: usize) -> Result<(), Error> {
    let steps = entry.steps.get(..done).unwrap_or_default();
    check_contents(executor, entry, steps, Direction::Undo)?;
    let _ = executor.make_writable(entry, done);
    if let Some(next) = entry.steps.get(done) {
        executor.repair(next, &entry.id, done)?;
    }
    for (number, step) in steps.iter().enumerate().rev() {
        executor.reverse_step(step, &entry.id, number)?;
    }
    // They were removed innermost first.
    executor.set_metadata(steps.iter().filter_map(|step| match step {
        Step::RemoveFolder(folder) => Some(folder),
        _ => None,
    }))?;
    executor.set_modes(entry, Direction::Undo)?;
    executor.sync(&entry.steps, None, None)?;
    executor.close(entry, Direction::Undo)?;
    entry.discard(executor.state)?;
    for staged in entry.steps.iter().filter_map(Step::staged) {
        executor.discard(staged);
    }
    Ok(())
}

/// A file before and after a change.
type FileSides = (Option<DiskFile>, Option<DiskFile>);

/// Finishes a completed change: number in the session, snapshot, history.
fn complete(engine: &mut Engine, state: &State, entry: &JournalEntry) -> Result<(), Error> {
    let numbered = match entry.session.parse() {
        Ok(id) => session::update(state, &id, |session| session.note_change(entry.seq, entry.request)),
        Err(error) => Err(error),
    };
    match numbered {
        Err(error) if ends_the_call(&error) => return Err(error),
        // The journal has the number.
        Err(error) => engine.warn(format!(
            "session {} could not note an earlier change: {}",
            entry.session,
            error.message()
        )),
        Ok(warning) => engine.warn_if(warning),
    }
    let tries = SnapshotAttempts::of(state, entry);
    let snapshot = if tries.are_spent {
        engine.warn(format!(
            "no snapshot of an earlier change ({}): the calls that made it were killed, as by a memory limit",
            entry.subject
        ));
        None
    } else {
        snapshot_late(engine, state, entry, &[]).unwrap_or_else(|error| {
            record::note_missed(engine, state, entry);
            engine.warn(format!("no snapshot of an earlier change ({}): {}", entry.subject, error.message()));
            None
        })
    };
    drop(tries);
    audit_late(engine, state, entry, snapshot);
    match (Executor { workspace: &engine.workspace, state }).close(entry, Direction::Redo) {
        Err(error) if ends_the_call(&error) => return Err(error),
        Err(error) => engine.warn(not_closed(&error)),
        Ok(()) => {}
    }
    match entry.close(state) {
        Err(error) if ends_the_call(&error) => Err(error),
        Err(_) => {
            let (subject, paths) = (&entry.subject, paths_of(entry));
            let what = format!(
                "an earlier change ({subject}) completed ({paths}) but cannot be undone: its sequence number is already in use"
            );
            set_aside(engine, state, &entry.name(), Some(entry), &what)
        }
        Ok(()) => {
            Executor { workspace: &engine.workspace, state }.discard_written(&entry.steps);
            Ok(())
        }
    }
}

/// Commits changes whose snapshots failed, up to the first that fails again. On top of a later snapshot, which has their
/// bytes as the developer's, they would take it back.
fn record_missed(engine: &Engine, state: &State, missed: &[MissedSnapshot]) {
    let Some(first) = missed.first() else { return };
    let Ok(store) = record::find(engine) else { return };
    let is_private = store.as_ref().is_some_and(Store::is_private);
    if is_private && missed.iter().any(|missed| missed.tip == APART) {
        return;
    }
    let is_newest = first.tip == APART || record::newest(engine).as_ref() == Some(&first.tip);
    let entry =
        |missed: &MissedSnapshot| journal::history_entry(state, &missed.session, missed.seq).ok().flatten();
    let entries: Vec<Option<JournalEntry>> =
        missed.iter().map(|missed| entry(missed).filter(|_| is_newest)).collect();
    for (number, (missed, entry)) in missed.iter().zip(&entries).enumerate() {
        let later: Vec<&JournalEntry> = entries.iter().skip(number + 1).flatten().collect();
        if let Some(entry) = entry {
            let tries = SnapshotAttempts::of(state, entry);
            if !tries.are_spent && snapshot_late(engine, state, entry, &later).is_err() {
                return;
            }
        }
        if let Ok(Some(folder)) = state.find_folder(OPEN_FOLDER) {
            journal::remove(&folder, &missed.name());
        }
    }
}

/// Calls that try to make the snapshot of a change of an earlier call. One that is killed, as by a limit of memory, leaves
/// its mark; after a few, the snapshot is given up, so that the change does not kill every later call.
struct SnapshotAttempts<'s> {
    /// State of the workspace.
    state: &'s State,
    /// Start of the names of the marks, one for each call.
    name: String,
    /// True if no more calls should try.
    are_spent: bool,
}

impl<'s> SnapshotAttempts<'s> {
    /// Folder of the marks.
    const FOLDER: &'static str = "journal/tries";
    /// Most calls.
    const MAX: u32 = 3;

    /// Leaves the mark of this call.
    fn of(state: &'s State, entry: &JournalEntry) -> Self {
        // Anybody may have written the entry.
        let name = Sha256::of(entry.id.as_bytes()).to_hex();
        let is_taken = |folder: &OwnedFd, try_number: u32| {
            let made = fs::create_at(folder.as_fd(), format!("{name}.{try_number}").as_ref(), 0o600);
            matches!(made, Err(Errno::EXIST))
        };
        // Where no mark can be left, none counts.
        let are_spent =
            state.folder(Self::FOLDER).is_ok_and(|folder| (1..=Self::MAX).all(|it| is_taken(&folder, it)));
        Self { state, name, are_spent }
    }
}

impl Drop for SnapshotAttempts<'_> {
    fn drop(&mut self) {
        if let Ok(Some(folder)) = self.state.find_folder(Self::FOLDER) {
            (1..=Self::MAX).for_each(|it| journal::remove(&folder, &format!("{}.{it}", self.name)));
        }
    }
}

/// Commits a completed change to the snapshots, without files of which a side is lost; returns the commit. The changes
/// `later` may have moved the files.
fn snapshot_late(
    engine: &Engine,
    state: &State,
    entry: &JournalEntry,
    later: &[&JournalEntry],
) -> Result<Option<String>, Error> {
    let sides: Vec<Option<FileSides>> =
        entry.files.iter().map(|file| both_sides(engine, state, file, later)).collect();
    let moved = SnapshotMoves::of(engine, state, entry)?;
    let known = entry.files.iter().zip(&sides).filter(|(file, _)| !is_state(&file.path));
    let files = known.filter_map(|(file, sides)| {
        let (before, after) = sides.as_ref()?;
        Some(FileChange {
            path: file.path.as_bytes(),
            before: before.as_ref().map(DiskFile::state),
            after: after.as_ref().map(DiskFile::state),
        })
    });
    let files = moved.files_with(files.collect());
    let record = AppliedChange { entry, files, folders: moved.folders(), blobs: &[] };
    record::record_late(engine, &record)
}

/// Adds a dead call's change to the audit log, unless it did so itself.
fn audit_late(engine: &mut Engine, state: &State, entry: &JournalEntry, snapshot: Option<String>) {
    let now = jiff::Timestamp::now();
    let mut files = entry.audit_files();
    files.truncate(AUDIT_PATHS_MAX);
    let record = audit::AuditRecord {
        time: audit::time_text(now),
        session: entry.session.clone(),
        tool: entry.tool.clone(),
        outcome: "ok".to_owned(),
        files,
        snapshot,
        change: Some(entry.id.clone()),
        gate: entry.gate.clone(),
        why: entry.why.as_deref().map(audit::cut_reason),
        message: Some("the call was killed half-way; the next call completed the change".to_owned()),
        duration_ms: 0,
    };
    let written = match audit::has_change(state, &entry.id) {
        Ok(true) => Ok(()),
        Ok(false) => audit::append(state, &record, Durability::Yes),
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        engine.warn(format!("the audit log could not be written: {}", error.message()));
    }
}

/// Returns both sides of a completed file; `None` if the bytes of a side are lost.
fn both_sides(
    engine: &Engine,
    state: &State,
    file: &FileEntry,
    later: &[&JournalEntry],
) -> Option<FileSides> {
    let side = |version: &Option<Version>, path| match version {
        Some(version) if version.size > engine.policy().snapshot_file_bytes() => {
            Some(Some(DiskFile::TooLarge(version.size)))
        }
        Some(version) => {
            engine.version_at(state, path, version).map(|bytes| Some(DiskFile::of(version.mode, bytes)))
        }
        None => Some(None),
    };
    let now = |path: WorkspacePath, entry: &&JournalEntry| moved_to(&path, &entry.moves).unwrap_or(path);
    let now = later.iter().fold(file.path.clone(), now);
    Some((side(&file.before, &file.path)?, side(&file.after, &now)?))
}

/// Returns the first paths of a change as text.
fn paths_of(entry: &JournalEntry) -> String {
    let files = entry.audit_files();
    let named = files.iter().map(|file| short_path(&file.path).into_owned()).take(PATHS_NAMED);
    let more = (files.len() > PATHS_NAMED).then(|| "…".to_owned());
    named.chain(more).collect::<Vec<_>>().join(", ")
}

/// Sets aside an entry that can be neither completed nor rolled back, with all its staged files, and warns: a person
/// has to look at it. `what` happened; `entry` is `None` if it is unreadable.
fn set_aside(
    engine: &mut Engine,
    state: &State,
    name: &str,
    entry: Option<&JournalEntry>,
    what: &str,
) -> Result<(), Error> {
    if let Some(entry) = entry {
        // For a person; otherwise the bytes are only in the entry.
        let _ = backup::back_up_entry_bytes(state, entry.kept.iter());
    }
    let moved = move_aside(&engine.workspace, state, name, entry);
    let place = state.path_of(STUCK_FOLDER);
    match moved {
        Ok(()) => {
            engine.warn(format!(
                "{what}; its entry is {place}/{name}, its new bytes next to it, the old ones in the backups"
            ));
            Ok(())
        }
        Err(error) if ends_the_call(&error) => Err(error),
        Err(error) => {
            engine.warn(format!("{what}, and it could not be put aside: {}", error.message()));
            Ok(())
        }
    }
}

/// Most paths that the warning names.
const PATHS_NAMED: usize = 5;

/// Moves the staged files of an entry, and then the entry, to a folder from which nothing is ever removed.
fn move_aside(
    workspace: &Workspace,
    state: &State,
    name: &str,
    entry: Option<&JournalEntry>,
) -> Result<(), Error> {
    let stuck = state.folder(STUCK_FOLDER)?;
    let io = |errno: Errno| Error::io("put aside", state.display(STUCK_FOLDER), errno);
    let prefix = format!("{}-", id_of(name));
    for folder in [STAGING_FOLDER, HELD_FOLDER] {
        for (folder, name) in state.entries(folder)?.iter().filter(|(_, name)| name.starts_with(&prefix)) {
            rename_new(folder, name.as_ref(), &stuck, name.as_ref()).map_err(io)?;
        }
    }
    for (folder, name) in staged_next_to_targets(workspace, state, id_of(name)) {
        match rename_new(&folder, &name, &stuck, &name) {
            // It is on another file system, and stays there.
            Ok(()) | Err(Errno::XDEV) => {}
            Err(errno) => return Err(io(errno)),
        }
    }
    if let Some(staging) = state.find_folder(STAGING_FOLDER)? {
        journal::remove(&staging, &journal::note_name(id_of(name)));
    }
    if let Some(entry) = entry {
        entry.spend_number(state)?;
    }
    let open = state.folder(OPEN_FOLDER)?;
    rename_new(&open, name.as_ref(), &stuck, name.as_ref()).map_err(io)
}

/// Removes everything in the staging folder, and files next to the targets that its notes name. Under the lock, with no
/// open entry except those in `left`, all of it belongs to dead calls, except a session's new state.
fn sweep(workspace: &Workspace, state: &State, left: &[&str]) -> Result<(), Error> {
    for (staging, name) in state.entries(STAGING_FOLDER)? {
        if left.iter().any(|id| name.starts_with(id)) || session::is_in_use(state, &name) {
            continue;
        }
        if let Some(id) = name.strip_suffix(".beside") {
            for (folder, name) in staged_next_to_targets(workspace, state, id) {
                let _ = removal::remove(folder.as_fd(), &name);
            }
        }
        let _ = removal::remove(staging.as_fd(), name.as_ref());
    }
    Ok(())
}

/// Returns the files staged for the change `id` next to its targets: folders, and names there.
fn staged_next_to_targets(
    workspace: &Workspace,
    state: &State,
    id: &str,
) -> Vec<(std::os::fd::OwnedFd, std::ffi::OsString)> {
    let prefix = format!("{BESIDE_PREFIX}{id}-");
    let mut found = Vec::new();
    let Ok(Some(staging)) = state.find_folder(STAGING_FOLDER) else {
        return found;
    };
    for folder in journal::read_note(staging.as_fd(), id) {
        let Ok(opened) = workspace.open_folder(&folder) else { continue };
        for name in names_in(&opened).unwrap_or_default() {
            if name.starts_with(&prefix)
                && let Ok(opened) = opened.try_clone()
            {
                found.push((opened, OsStr::new(&name).to_owned()));
            }
        }
    }
    found
}
