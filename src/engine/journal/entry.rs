//! Journal entries: one change each, with its file, its number in the session's history, and its staged bytes.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::backup::InlineBackup;
use super::bundle::{GIVEN, PackedHistory, PendingFile, newest_packed, number_in};
use super::steps::{
    self, BESIDE_PREFIX, DONE_FOLDER, ENTRY_BYTES_MAX, FileEntry, FolderEntry, HELD_FOLDER, Location,
    MoveEntry, OPEN_FOLDER, Step, Version, is_waiting, staging_folder,
};
use crate::engine::store::audit::AuditFile;
use crate::engine::store::sealed;
use crate::engine::store::session::{SEQ_MAX, SessionId};
use crate::engine::store::state::{STAGING_FOLDER, STATE_FOLDER, State, names_in};
use crate::engine::store::trash;
use crate::engine::workspace::fs::{self, rename_new};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

/// Version of an entry that this code writes.
pub(super) const VERSION: u32 = 3;
/// First version that ends with its digest.
pub(super) const SEALED_SINCE: u32 = 3;

/// Mode change of a folder that stays; also the mode of a folder that its owner may write to only while the change
/// runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderMode {
    /// Path of the folder after all moves.
    pub path: WorkspacePath,
    /// Permission bits before.
    pub before: u32,
    /// Permission bits after.
    pub after: u32,
}

impl FolderMode {
    /// Returns true if the bits differ after the change.
    pub const fn is_change(&self) -> bool {
        self.before != self.after
    }
}

/// Earlier changes of the session that a change takes back, though later ones followed. It counts as a change like
/// any other, and `undo` takes it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertedChanges {
    /// Number of the change that is taken back; of a `rewind`, the last one that stays.
    pub seq: u64,
    /// Its files, if only some of them are taken back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<WorkspacePath>,
    /// Hunk of its only file, counted from 1, if only that is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunk: Option<usize>,
}

impl RevertedChanges {
    /// Returns true if all of the change is taken back.
    pub const fn is_whole(&self) -> bool {
        self.paths.is_empty() && self.hunk.is_none()
    }
}

/// One change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Version of the format.
    version: u32,
    /// Unique id.
    pub id: String,
    /// Session that makes the change.
    pub session: String,
    /// Tool that makes the change.
    pub tool: String,
    /// Number in the session, from 1.
    pub seq: u64,
    /// Start time, in seconds since 1970.
    pub time: u64,
    /// Subject in the snapshot log.
    pub subject: String,
    /// The caller's reason.
    #[serde(default)]
    pub why: Option<String>,
    /// Verdict of the policy, `warn` or `off`, if the caller had not seen the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Name of the command that made the change, if it is a part of what that one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Digest of the request, to recognize a repeated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Sha256>,
    /// Changes of the session that an `undo` takes back, newest first, or that a `redo` does again, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverts: Vec<u64>,
    /// Earlier changes that it takes back, though later ones followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_back: Option<RevertedChanges>,
    /// Files in which an `undo` or `redo` kept changes by others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<WorkspacePath>,
    /// Files that an `undo` or `redo` found as it leaves them, since others had done the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found_done: Vec<FileEntry>,
    /// Old bytes of small files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<InlineBackup>,
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// Folders that get other permission bits once all steps are done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<FolderMode>,
    /// Files that a command changed or removed and whose old bytes nobody saved: an undo leaves them alone. The first
    /// few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<WorkspacePath>,
    /// Number of such files.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_total: usize,
    /// Files that the steps change: deleted ones under their names before all moves, the others under their names after.
    #[serde(skip)]
    pub files: Vec<FileEntry>,
    /// Moves.
    #[serde(skip)]
    pub moves: Vec<MoveEntry>,
    /// Folders that it makes, outermost first.
    #[serde(skip)]
    pub folders: Vec<WorkspacePath>,
    /// Folders that it removes, innermost first.
    #[serde(skip)]
    pub removed: Vec<FolderEntry<WorkspacePath>>,
}

impl JournalEntry {
    /// Returns an entry for a change that is about to begin.
    pub fn new(id: String, session: &str, tool: &str, seq: u64, time: u64) -> Self {
        let (session, tool) = (session.to_owned(), tool.to_owned());
        Self { version: VERSION, id, session, tool, seq, time, ..Self::default() }
    }

    /// Sets the steps, in order, and derives the net effect from them.
    ///
    /// `state` is the path of the state folder from the workspace root.
    pub fn set_steps(&mut self, steps: Vec<Step>, state: &WorkspacePath) {
        let of = std::mem::take(self);
        *self = Self { files: Vec::new(), moves: Vec::new(), folders: Vec::new(), removed: Vec::new(), ..of };
        let mut held: BTreeMap<&Location, usize> = BTreeMap::new();
        for step in &steps {
            match step {
                Step::MakeFolder(folder) => {
                    self.folders.extend(of_workspace(folder).map(|folder| folder.path));
                }
                Step::RemoveFolder(folder) => self.removed.extend(of_workspace(folder)),
                // The history does not list it, so no later call tries to take it back.
                Step::Rename { is_final: true, .. } => {}
                Step::Rename { from, to, over, copy_of, .. } => {
                    self.files.extend(over.clone().map(|before| FileEntry {
                        path: to.from_root(state),
                        before: Some(before),
                        after: None,
                    }));
                    if is_waiting(to) {
                        continue;
                    }
                    let from = copy_of.as_ref().unwrap_or(from);
                    if let Some(moved) = held.get(from).and_then(|at| self.moves.get_mut(*at)) {
                        moved.to = to.from_root(state);
                        continue;
                    }
                    let via = to.is_held().then(|| to.from_root(state));
                    if to.is_held() {
                        held.insert(to, self.moves.len());
                    }
                    self.moves.push(MoveEntry { from: from.from_root(state), to: to.from_root(state), via });
                }
                Step::Put { at, .. } if at.is_description() => {}
                Step::Put { at, before, after, .. } => self.files.push(FileEntry {
                    path: at.from_root(state),
                    before: before.clone(),
                    after: Some(after.clone()),
                }),
                Step::Unlink { at, before } => self.files.push(FileEntry {
                    path: at.from_root(state),
                    before: Some(before.clone()),
                    after: None,
                }),
            }
        }
        self.steps = steps;
    }

    /// Returns true if every part has the form that lbx writes: the file may be forged.
    pub(super) fn is_well_formed(&self, name: &str) -> bool {
        let is_below = |path: &WorkspacePath, folder: &str| {
            path.as_path().starts_with(folder) && path.as_path() != std::path::Path::new(folder)
        };
        let is_place = |at: &Location| match at {
            Location::File(path) => !path.is_root(),
            Location::State(path) => is_below(path, trash::FOLDER) || is_below(path, HELD_FOLDER),
        };
        let waits = |at: &Location| is_staged_by(at, &self.id);
        let is_id = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        is_id(&self.id)
            && self.name() == name
            && self.session.parse::<SessionId>().is_ok()
            && (1..SEQ_MAX).contains(&self.seq)
            && self.steps.iter().flat_map(Step::locations).all(|at| is_place(at) || waits(at))
            && self.steps.iter().filter_map(Step::staged).all(waits)
            && self.found_done.iter().all(|file| !file.path.is_root())
    }

    /// Returns the name of its file.
    pub fn name(&self) -> String {
        format!("{}.lbx", self.id)
    }

    /// Writes it under a temporary name; the caller syncs the file.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn prepare(&self, state: &State) -> Result<PendingFile, Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        let bytes = sealed(self)?;
        if bytes.len() as u64 > ENTRY_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the change is too large: its journal entry would take {} bytes", bytes.len()),
            )
            .suggest("Make it in several changes."));
        }
        PendingFile::create(folder, self.unpublished_name().into(), 0o600, |file| fs::write_all(file, &bytes))
            .map_err(|source| Error::io("write", state.display(OPEN_FOLDER), source))
    }

    /// Adds it to the session's history, unless its number is taken.
    ///
    /// # Errors
    /// Returns the OS error; `already_exists` if its number was given before.
    pub fn close(&self, state: &State) -> Result<(), Error> {
        let (open, done) = (state.folder(OPEN_FOLDER)?, state.folder(&history_folder(&self.session))?);
        rename_new(&open, self.name().as_ref(), &done, history_name(self.seq).as_ref())
            .map_err(|errno| Error::io("write", state.display(DONE_FOLDER), errno))
    }

    /// Marks its number as given, though the change is not in the history.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn spend_number(&self, state: &State) -> Result<(), Error> {
        let done = state.folder(&history_folder(&self.session))?;
        spend(&done, self.seq).map_err(|errno| Error::io("write", state.display(DONE_FOLDER), errno))
    }

    /// Removes the mark of its number: the history has the change now.
    pub fn unmark_number(&self, state: &State) {
        if let Ok(done) = state.folder(&history_folder(&self.session)) {
            steps::remove(&done, &given_name(self.seq));
        }
    }

    /// Renames it to its final name: from then on the change is completed or rolled back, even after a kill.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn publish(&self, state: &State) -> Result<(), Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        fs::rename_at(&folder, self.unpublished_name(), &folder, self.name())
            .map_err(|errno| Error::io("write the journal in", STATE_FOLDER, errno))
    }

    /// Returns the name of its file before [`Self::publish`].
    pub fn unpublished_name(&self) -> String {
        format!(".{}", self.name())
    }

    /// Removes it: the change was rolled back.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn discard(&self, state: &State) -> Result<(), Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        match fs::unlink_at(&folder, self.name(), rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::io("remove", state.display(OPEN_FOLDER), errno)),
        }
    }

    /// Returns true if both are parts of what one command did.
    pub fn is_of_command_of(&self, other: &Self) -> bool {
        self.command.is_some() && self.command == other.command
    }

    /// Returns the paths of its files, and those before and after its moves.
    pub fn paths(&self) -> impl Iterator<Item = &WorkspacePath> {
        let moved = self.moves.iter().flat_map(|moved| [&moved.from, &moved.to]);
        self.files.iter().map(|file| &file.path).chain(moved)
    }

    /// Returns true if it takes back an earlier change, or a part of it, by its number.
    pub fn takes_back(&self, seq: u64) -> bool {
        let is_it =
            |taken: &RevertedChanges| if self.tool == "rewind" { taken.seq < seq } else { taken.seq == seq };
        self.takes_back.as_ref().is_some_and(is_it)
    }

    /// Returns its files for the audit log.
    pub fn audit_files(&self) -> Vec<AuditFile> {
        let sha256 = |version: &Option<Version>| version.as_ref().map(|version| version.sha256);
        let files = self.files.iter().map(|file| AuditFile {
            path: file.path.to_string(),
            old_sha256: sha256(&file.before),
            new_sha256: sha256(&file.after),
        });
        let moved = self.moves.iter().flat_map(|moved| [&moved.from, &moved.to]);
        // The trash is no place of the workspace.
        let moved = moved.filter(|path| !is_state(path));
        let moved =
            moved.map(|path| AuditFile { path: path.to_string(), old_sha256: None, new_sha256: None });
        files.chain(moved).collect()
    }
}

/// Returns a workspace folder in the form of the history.
fn of_workspace(folder: &FolderEntry<Location>) -> Option<FolderEntry<WorkspacePath>> {
    let Location::File(path) = &folder.path else {
        return None;
    };
    Some(FolderEntry { path: path.clone(), mode: folder.mode, identity: folder.identity.clone() })
}

/// Returns true if a number is 0.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Fewest digits of a number in the name of an entry.
const NUMBER_DIGITS: usize = 8;

/// Returns the folder of a session's history.
pub(super) fn history_folder(session: &str) -> String {
    format!("{DONE_FOLDER}/{session}")
}

/// Returns the name of the change `seq` in a session's history; names sort as numbers do.
pub(super) fn history_name(seq: u64) -> String {
    format!("{seq:0NUMBER_DIGITS$}.lbx")
}

/// Returns the name of the mark of a number that was given.
fn given_name(seq: u64) -> String {
    format!("{seq:0NUMBER_DIGITS$}{GIVEN}")
}

/// Returns the number in a name made by [`history_name`]; `None` for any other name.
pub(super) fn change_in(name: &[u8]) -> Option<u64> {
    let digits = name.strip_suffix(b".lbx")?;
    // Runs for every name in a history: formatting each number to compare it would be slower.
    let is_padded =
        digits.len() == NUMBER_DIGITS || (digits.len() > NUMBER_DIGITS && !digits.starts_with(b"0"));
    if !is_padded || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|seq| *seq < SEQ_MAX)
}

/// Marks a number as given.
pub(super) fn spend(done: &OwnedFd, seq: u64) -> Result<(), Errno> {
    match fs::create_at(done.as_fd(), given_name(seq).as_ref(), 0o600) {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Makes sure that no number in a history folder is given again, even if its newest entry is removed: `leaving` returns
/// true if that may happen.
///
/// # Errors
/// Returns the OS error.
pub fn keep_numbers(done: &OwnedFd, leaving: impl Fn(u64) -> bool) -> Result<(), Error> {
    let last = names_in(done)?.iter().filter_map(|name| number_in(name)).max();
    let Some(last) = last.filter(|last| leaving(*last)) else {
        return Ok(());
    };
    spend(done, last).map_err(|errno| Error::io("write the history in", STATE_FOLDER, errno))
}

/// Returns the next free change number of a session; `last` is the newest one that the session itself knows.
///
/// # Errors
/// Returns the OS error.
pub fn next_number(state: &State, session: &str, last: u64) -> Result<u64, Error> {
    let mut newest = last;
    if let Some(folder) = state.find_folder(&history_folder(session))? {
        // The session file may be lost, or could not be written.
        let packed = newest_packed(state, &folder)?;
        if last == 0 || is_given(&folder, last + 1) || packed > last {
            let given = names_in(&folder)?.iter().filter_map(|name| number_in(name)).max();
            newest = last.max(packed).max(given.unwrap_or(0));
        }
    }
    // A forged file may name a number that no session reaches by itself.
    Some(newest + 1).filter(|next| *next < SEQ_MAX).ok_or_else(|| {
        let message = format!("a file in {STATE_FOLDER} gives session {session} the change number {newest}");
        Error::new(ErrorKind::IoError, message)
            .suggest("Use another session, and tell the user: no lbx wrote that file.")
    })
}

/// Returns true if a number was given, whether its change is in the history or not.
pub(super) fn is_given(folder: &OwnedFd, seq: u64) -> bool {
    let names = [history_name(seq), given_name(seq)];
    names.iter().any(|name| fs::stat_at(folder.as_fd(), name.as_ref()).is_ok())
}

/// Returns the sessions that have a history.
///
/// # Errors
/// Returns the OS error.
pub fn sessions(state: &State) -> Result<Vec<String>, Error> {
    state.find_folder(DONE_FOLDER)?.map_or_else(|| Ok(Vec::new()), |folder| names_in(&folder))
}

/// Returns the numbers of all changes in a session's history, ascending; [`Numbers`](super::ChangeNumbers) has the
/// newest ones sooner.
///
/// # Errors
/// Returns the OS error.
pub fn history(state: &State, session: &str) -> Result<Vec<u64>, Error> {
    let Some(folder) = state.find_folder(&history_folder(session))? else { return Ok(Vec::new()) };
    numbers_in(&folder, PackedHistory::of(state, session, &folder)?.as_deref())
}

/// Returns the numbers of the changes in the folder of a history, and of its packed ones, ascending.
pub(super) fn numbers_in(folder: &OwnedFd, packed: Option<&PackedHistory>) -> Result<Vec<u64>, Error> {
    let names = fs::names_in(folder).map_err(|errno| Error::io("list a folder in", STATE_FOLDER, errno))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| change_in(name.as_bytes())).collect();
    numbers.extend(packed.iter().flat_map(|packed| &packed.numbers));
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Returns true if a location may hold staged bytes of the change `id`.
pub fn is_staged_by(at: &Location, id: &str) -> bool {
    let Some(name) = at.path().name().and_then(std::ffi::OsStr::to_str) else {
        return false;
    };
    let own = match at {
        Location::State(_) if at.parent() == Some(staging_folder()) => Some(name),
        Location::State(_) => None,
        Location::File(_) => name.strip_prefix(BESIDE_PREFIX),
    };
    own.is_some_and(|name| name.strip_prefix(id).is_some_and(|rest| rest.starts_with('-')))
}

/// Returns the name of the note for the change `id`.
pub fn note_name(id: &str) -> String {
    format!("{id}.beside")
}

/// Removes the note of a change that was applied, if there is one: no staged bytes are left.
pub fn forget_beside(state: &State, id: &str, steps: &[Step]) {
    let waits_beside = |at: &Location| matches!(at, Location::File(_)) && is_waiting(at);
    let mut places = steps.iter().flat_map(|step| step.locations().chain(step.staged()));
    if places.any(waits_beside)
        && let Ok(Some(staging)) = state.find_folder(STAGING_FOLDER)
    {
        steps::remove(&staging, &note_name(id));
    }
}

/// Returns the folders that may hold staged files of the change `id` next to their targets.
pub fn read_note(staging: BorrowedFd<'_>, id: &str) -> Vec<WorkspacePath> {
    let note = fs::read_at(staging, note_name(id).as_ref(), 1 << 20);
    note.ok().flatten().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_file_name_has_one_spelling_for_each_change() {
        for number in [0, 1, 12_345_678, 99_999_999, 100_000_000, SEQ_MAX - 1] {
            assert_eq!(change_in(history_name(number).as_bytes()), Some(number));
        }
        let above = history_name(SEQ_MAX);
        let others = ["1.lbx", "+0000001.lbx", "000000001.lbx", "0000000x.lbx", "00000001", ".lbx"];
        for other in others.into_iter().chain(["00000001.given", "99999999999999999999999.lbx", &above]) {
            assert_eq!(change_in(other.as_bytes()), None, "{other}");
        }
    }
}
