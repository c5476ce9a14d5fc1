//! Recovers the changes of killed calls: each is completed or rolled back, whole. One that fits neither, because
//! others have changed the files since, is set aside. No entry stops a call.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;

use rustix::io::Errno;

use super::executor::{Executor, Seen};
use super::folders::not_closed;
use super::moves::{self, ForSnapshot};
use super::record::{self, StandingChange};
use crate::engine::Engine;
use crate::engine::history::replay::{Direction, Kind};
use crate::engine::journal::progress::{self, Observed, Progress, progress};
use crate::engine::journal::steps::{BESIDE_PREFIX, Location, Step};
use crate::engine::journal::{
    self, FileEntry, HELD_FOLDER, JournalEntry, OPEN_FOLDER, STUCK_FOLDER, Version, backup,
};
use crate::engine::policy::protected::ProtectedLinks;
use crate::engine::sandbox::layer::{self, KeptLayer};
use crate::engine::store::audit::{self, Durable};
use crate::engine::store::session;
use crate::engine::store::state::{STAGING_FOLDER, State, names_in};
use crate::engine::workspace::fs::{self, rename_new};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::{Protection, is_state};
use crate::engine::workspace::{Workspace, removal};
use crate::error::{Error, ErrorKind};
use crate::text::escaped::short_path;

/// Settles every open entry, oldest first, and removes what was written aside for none of them.
/// The caller holds the lock, so nobody is still at work on them.
///
/// # Errors
/// A full disk, an error of the disk or a signal; nothing else.
pub fn recover(engine: &mut Engine, state: &State) -> Result<(), Error> {
    let mut open = journal::open_entries(state)?;
    for entry in &open.entries {
        settle(engine, state, entry)?;
    }
    for entry in &open.unpublished {
        if has_begun(engine, state, entry)? {
            entry.publish(state)?;
            settle(engine, state, entry)?;
        } else {
            open.strays.push(entry.unpublished_name());
        }
    }
    for name in &open.damaged {
        set_aside(engine, state, name, Unfinished::Damaged)?;
    }
    for name in &open.newer {
        engine.warn(format!(
            "{OPEN_FOLDER}/{name} is an unfinished change of a newer lbx and was left as it is: call that one here"
        ));
    }
    for name in &open.layers {
        if let Some(layer) = layer::take_dead(state, name)? {
            engine.warn(killed_layer(&layer));
        }
    }
    if let Some(folder) = state.find_folder(OPEN_FOLDER)? {
        open.strays.iter().for_each(|name| journal::remove(&folder, name));
    }
    let left: Vec<&str> = open.newer.iter().map(|name| id_of(name)).collect();
    sweep(&engine.workspace, state, &left)
}

/// Returns the warning that names the layer of a killed command.
fn killed_layer(KeptLayer { name, record }: &KeptLayer) -> String {
    let command = short_path(record.command.lines().next().unwrap_or_default());
    format!(
        "lbx was killed while `{command}` ran; the changes of the command are kept in {name}: `lbx bash --layer {name}` shows them, `--apply` applies them, `--drop` deletes them"
    )
}

/// The name of the change whose entry has that name.
fn id_of(name: &str) -> &str {
    let name = name.strip_prefix('.').unwrap_or(name);
    name.strip_suffix(".lbx").unwrap_or(name)
}

/// Returns true if a change whose entry did not get its own name has begun anyway: then it had it, and a
/// power failure took it.
fn has_begun(engine: &Engine, state: &State, entry: &JournalEntry) -> Result<bool, Error> {
    let (found, opened) = look_inside(engine, state, entry)?;
    Executor { workspace: &engine.workspace, state }.close_again(&opened);
    Ok(found.forth != Some(0) && found.back != Some(0))
}

/// Completes one entry, else rolls it back, else puts it aside with a warning.
fn settle(engine: &mut Engine, state: &State, entry: &JournalEntry) -> Result<(), Error> {
    let steps = entry.steps.as_slice();
    let look = |engine: &Engine| look(Executor { workspace: &engine.workspace, state }, steps);
    let (mut found, opened) = look_inside(engine, state, entry)?;
    if let Some(done) = found.forth
        && check(engine, entry, steps.get(done..).unwrap_or_default()).is_ok()
    {
        let executor = Executor { workspace: &engine.workspace, state };
        match go_on(executor, entry, done) {
            Ok(()) => return complete(engine, state, entry),
            Err(error) if ends_the_call(&error) => return Err(error),
            // Others are in the way of the rest.
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
    executor.close_again(&opened);
    // As far as it can be told.
    let _ = executor.close(entry, Direction::Undo);
    set_aside(engine, state, &entry.name(), Unfinished::Earlier(entry))
}

/// How far the steps of an entry were carried out, by files in closed folders too: answers these folders,
/// which are opened up for that, with the permission bits that they had.
///
/// # Errors
/// Returns the OS error.
fn look_inside(
    engine: &Engine,
    state: &State,
    entry: &JournalEntry,
) -> Result<(Progress, Vec<(Location, u32)>), Error> {
    let executor = Executor { workspace: &engine.workspace, state };
    let found = look(executor, &entry.steps)?;
    if found != Progress::default() || check(engine, entry, &entry.steps).is_err() {
        return Ok((found, Vec::new()));
    }
    let opened = executor.open_up(entry, entry.steps.len());
    let found = if opened.is_empty() { found } else { look(executor, &entry.steps)? };
    Ok((found, opened))
}

/// How far the steps of an entry were carried out.
///
/// # Errors
/// Returns the OS error.
fn look(executor: Executor<'_>, steps: &[Step]) -> Result<Progress, Error> {
    let mut observed: BTreeMap<Location, Observed> = BTreeMap::new();
    for (at, has_bytes) in progress::paths(steps) {
        match executor.look(&at, has_bytes) {
            Ok(found) => drop(observed.insert(at, found)),
            Err(error) if ends_the_call(&error) => return Err(error),
            // An entry that cannot be looked at is not one that the change left there.
            Err(_) => {}
        }
    }
    for step in steps {
        if let Some(at) = executor.torn(step) {
            observed.insert(at, Observed::Torn);
        }
    }
    Ok(progress(steps, &observed))
}

/// Returns true if an error is one that the next call would meet as well: a full disk, an error of the disk, a
/// signal.
fn ends_the_call(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    let errno = source.and_then(std::io::Error::raw_os_error).map(Errno::from_raw_os_error);
    error.kind() == ErrorKind::NoSpace
        || matches!(
            errno,
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

/// Refuses what a new request could not ask for, by the policy in force now: an entry might have
/// been forged, and what was free when it was written may be protected by now. Lbx's own trash is the
/// one exception. Of the entry's steps only these are meant.
///
/// # Errors
/// `protected_path`.
fn check(engine: &Engine, entry: &JournalEntry, steps: &[Step]) -> Result<(), Error> {
    let workspace = &engine.workspace;
    let protection = Protection::default();
    let links = ProtectedLinks::find(engine.policy(), workspace);
    let of_steps = steps.iter().flat_map(Step::locations).filter_map(|at| match at {
        Location::File(path) => Some(path),
        Location::State(_) => None,
    });
    for path in of_steps.chain(entry.modes.iter().map(|folder| &folder.path)) {
        let shown = workspace.shown(path);
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

/// Refuses folders that hold by now what never moves.
fn check_contents(executor: Executor<'_>, steps: &[Step]) -> Result<(), Error> {
    for step in steps {
        if let Step::Rename { from, to, thing, .. } = step
            && thing.is_folder
        {
            for at in [from, to] {
                let path = at.from_root(executor.state.path());
                if moves::kind(executor.workspace, &path)? == Some(Kind::Folder) {
                    moves::walk(executor.workspace, &path, &mut |_| Ok(()))?;
                }
            }
        }
    }
    Ok(())
}

/// Carries out the steps of an entry from the one on before which `done` others are done.
fn go_on(executor: Executor<'_>, entry: &JournalEntry, done: usize) -> Result<(), Error> {
    let rest = entry.steps.get(done..).unwrap_or_default();
    check_contents(executor, rest)?;
    executor.carry_out_entry(entry, done, &Seen::default())?;
    executor.sync(&entry.steps, None, None)
}

/// Takes back what was done of a change that failed, as far as it can be told.
///
/// # Errors
/// The system's, or `internal` where others have changed the files meanwhile; the entry stays open,
/// for the next call.
pub fn take_back(executor: Executor<'_>, entry: &JournalEntry) -> Result<(), Error> {
    match look(executor, &entry.steps)?.back {
        Some(done) => roll_back(executor, entry, done),
        None => Err(Error::internal("the files have changed since")),
    }
}

/// Puts the entry of this very call aside where others have changed its files so that it can be neither completed
/// nor taken back; whether it did. Where the next call can still complete it, it stays.
pub fn give_up(engine: &mut Engine, state: &State, entry: &JournalEntry) -> bool {
    let found = look(Executor { workspace: &engine.workspace, state }, &entry.steps);
    let is_hopeless = found.is_ok_and(|found| found == Progress::default());
    if is_hopeless {
        // As far as it can be told.
        let _ = Executor { workspace: &engine.workspace, state }.close(entry, Direction::Undo);
    }
    is_hopeless && set_aside(engine, state, &entry.name(), Unfinished::Hindered(entry)).is_ok()
}

/// Takes back the first `done` steps of an entry, the last one first, and drops it.
pub fn roll_back(executor: Executor<'_>, entry: &JournalEntry, done: usize) -> Result<(), Error> {
    let steps = entry.steps.get(..done).unwrap_or_default();
    check_contents(executor, steps)?;
    let _ = executor.open_up(entry, done);
    if let Some(next) = entry.steps.get(done) {
        executor.repair(next, &entry.id, done)?;
    }
    for (number, step) in steps.iter().enumerate().rev() {
        executor.take_back(step, &entry.id, number)?;
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

/// The bytes of a file before and after a change.
type Sides = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Finishes a completed change: its number in the session, snapshot, history.
fn complete(engine: &mut Engine, state: &State, entry: &JournalEntry) -> Result<(), Error> {
    let numbered = match entry.session.parse() {
        Ok(id) => session::update(state, &id, |session| session.note_change(entry.seq, entry.request)),
        Err(error) => Err(error),
    };
    match numbered {
        Err(error) if ends_the_call(&error) => return Err(error),
        // The journal knows the number.
        Err(error) => engine.warn(format!(
            "session {} could not note an earlier change: {}",
            entry.session,
            error.message()
        )),
        Ok(warning) => engine.warn_if(warning),
    }
    let snapshot = snapshot_late(engine, state, entry);
    audit_late(engine, state, entry, snapshot);
    match (Executor { workspace: &engine.workspace, state }).close(entry, Direction::Redo) {
        Err(error) if ends_the_call(&error) => return Err(error),
        Err(error) => engine.warn(not_closed(&error)),
        Ok(()) => {}
    }
    match entry.close(state) {
        Err(error) if ends_the_call(&error) => Err(error),
        Err(_) => set_aside(engine, state, &entry.name(), Unfinished::Unclosed(entry)),
        Ok(()) => {
            Executor { workspace: &engine.workspace, state }.discard_written(&entry.steps);
            Ok(())
        }
    }
}

/// Commits a completed change to the snapshots.
fn snapshot_late(engine: &mut Engine, state: &State, entry: &JournalEntry) -> Option<String> {
    let found = entry
        .files
        .iter()
        .map(|file| both_sides(&engine.workspace, state, file))
        .collect::<Result<Vec<Sides>, Error>>()
        .and_then(|sides| Ok((sides, ForSnapshot::of(&engine.workspace, state, entry)?)));
    let (sides, moved) = match found {
        Ok(found) => found,
        Err(error) => {
            engine.warn(format!("no snapshot of an earlier change ({}): {}", entry.subject, error.message()));
            return None;
        }
    };
    let files = entry
        .files
        .iter()
        .zip(&sides)
        .filter(|(file, _)| !is_state(&file.path))
        .map(|(file, (before, after))| record::RecordedFile {
            path: &file.path,
            before: side(file.before.as_ref(), before.as_ref()),
            after: side(file.after.as_ref(), after.as_ref()),
        })
        .collect();
    let record = StandingChange { entry, files: moved.files_with(files), folders: moved.folders() };
    record::record_late(engine, &record)
}

/// Puts a dead call's change into the audit log, unless it lived to do so.
fn audit_late(engine: &mut Engine, state: &State, entry: &JournalEntry, snapshot: Option<String>) {
    let now = jiff::Timestamp::now();
    let mut files = entry.audit_files();
    files.truncate(audit::PATHS_MAX);
    let record = audit::AuditRecord {
        time: audit::time_text(now),
        session: entry.session.clone(),
        tool: entry.tool.clone(),
        outcome: "ok".to_owned(),
        files,
        snapshot,
        change: Some(entry.id.clone()),
        gate: entry.gate.clone(),
        why: entry.why.as_deref().map(audit::short_why),
        message: Some("the call was killed half-way; the next call completed the change".to_owned()),
        duration_ms: 0,
    };
    let written = match audit::has_change(state, &entry.id) {
        Ok(true) => Ok(()),
        Ok(false) => audit::append(state, &record, Durable::Yes),
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
        Some(version) => read(workspace, &file.path, version)?,
        None => None,
    };
    Ok((before, after))
}

/// The bytes of a regular file, or the target of a symlink; `None` where it is no longer that.
fn read(workspace: &Workspace, path: &WorkspacePath, version: &Version) -> Result<Option<Vec<u8>>, Error> {
    let shown = workspace.shown(path);
    let io = |source: std::io::Error| Error::io("read", shown.clone(), source);
    if fs::is_symlink_mode(version.mode) {
        let link = fs::open_beneath(workspace.root_fd(), path, fs::LOOK).map_err(|errno| io(errno.into()))?;
        return fs::target_of(&link).map(Some).map_err(|errno| io(errno.into()));
    }
    let (file, stat) = workspace.open_regular(path, &shown)?;
    fs::read_to_end(file, fs::size_of(&stat), fs::FILE_BYTES_MAX).map(Some).map_err(io)
}

/// A change that is neither to be completed nor taken back.
#[derive(Clone, Copy)]
enum Unfinished<'e> {
    /// An earlier call ended before it was done, and others have changed its files since.
    Earlier(&'e JournalEntry),
    /// Others have changed the files of this call while it was at work.
    Hindered(&'e JournalEntry),
    /// The change is done, and its number in the history is taken.
    Unclosed(&'e JournalEntry),
    /// Its entry cannot be read.
    Damaged,
}

impl<'e> Unfinished<'e> {
    /// Its entry, where that can be read.
    const fn entry(self) -> Option<&'e JournalEntry> {
        match self {
            Self::Earlier(entry) | Self::Hindered(entry) | Self::Unclosed(entry) => Some(entry),
            Self::Damaged => None,
        }
    }

    /// Returns the description of the failure.
    fn words(self) -> String {
        match self {
            Self::Earlier(entry) => format!(
                "an earlier call ({}) was killed or failed half-way, and its files have changed since ({}): it was neither completed nor undone",
                entry.subject,
                paths_of(entry)
            ),
            Self::Hindered(entry) => format!(
                "another program changed files while this call was changing them ({}): the change was neither completed nor undone",
                paths_of(entry)
            ),
            Self::Unclosed(entry) => format!(
                "an earlier change ({}) completed ({}) but cannot be undone: its sequence number is already in use",
                entry.subject,
                paths_of(entry)
            ),
            Self::Damaged => "the journal entry of an unfinished change is damaged".to_owned(),
        }
    }
}

/// The first paths of a change.
fn paths_of(entry: &JournalEntry) -> String {
    let files = entry.audit_files();
    let named = files.iter().map(|file| short_path(&file.path).into_owned()).take(PATHS_NAMED);
    let more = (files.len() > PATHS_NAMED).then(|| "…".to_owned());
    named.chain(more).collect::<Vec<_>>().join(", ")
}

/// Puts an entry aside that is neither to be completed nor rolled back, with everything that waits for
/// it, and says so: for a person to look at.
fn set_aside(engine: &mut Engine, state: &State, name: &str, what: Unfinished<'_>) -> Result<(), Error> {
    let entry = what.entry();
    if let Some(entry) = entry {
        // For a person; without them the bytes are in the entry.
        let _ = backup::spread(state, entry.kept.iter());
    }
    let moved = move_aside(&engine.workspace, state, name, entry);
    let place = state.path_of(STUCK_FOLDER);
    let what = what.words();
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

/// Paths that the warning names.
const PATHS_NAMED: usize = 5;

/// Moves an entry, and before it all that waits for it, to where nothing is ever removed.
fn move_aside(
    workspace: &Workspace,
    state: &State,
    name: &str,
    entry: Option<&JournalEntry>,
) -> Result<(), Error> {
    let stuck = state.folder(STUCK_FOLDER)?;
    let io = |errno: Errno| Error::io("put aside", state.shown(STUCK_FOLDER), errno);
    let prefix = format!("{}-", id_of(name));
    for folder in [STAGING_FOLDER, HELD_FOLDER] {
        let Some(folder) = state.find_folder(folder)? else { continue };
        for name in names_in(&folder)?.iter().filter(|name| name.starts_with(&prefix)) {
            rename_new(&folder, name.as_ref(), &stuck, name.as_ref()).map_err(io)?;
        }
    }
    for (folder, name) in beside(workspace, state, id_of(name)) {
        match rename_new(&folder, &name, &stuck, &name) {
            // It waits on another file system, and stays there.
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

/// Removes everything in the staging folder, and what its notes name next to the targets: under
/// the lock, with no entry open save those that are `left`, it all belongs to the dead, save a session's
/// new state.
fn sweep(workspace: &Workspace, state: &State, left: &[&str]) -> Result<(), Error> {
    let Some(staging) = state.find_folder(STAGING_FOLDER)? else {
        return Ok(());
    };
    for name in names_in(&staging)? {
        if left.iter().any(|id| name.starts_with(id)) || session::is_in_use(state, &name) {
            continue;
        }
        if let Some(id) = name.strip_suffix(".beside") {
            for (folder, name) in beside(workspace, state, id) {
                let _ = removal::remove(folder.as_fd(), &name);
            }
        }
        let _ = removal::remove(staging.as_fd(), name.as_ref());
    }
    Ok(())
}

/// Returns the files staged for the change `id` next to its targets: folders, and names there.
fn beside(workspace: &Workspace, state: &State, id: &str) -> Vec<(std::os::fd::OwnedFd, std::ffi::OsString)> {
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
