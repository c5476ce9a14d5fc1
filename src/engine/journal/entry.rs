//! An entry of the journal: one change, and its file while the change is made.

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::kept::Kept;
use super::numbers::{history_folder, history_name, spend};
use super::places::{self, DONE_FOLDER, ENTRY_BYTES_MAX, HELD_FOLDER, OPEN_FOLDER};
use super::sides::{FileEntry, FolderEntry, MoveEntry, Version};
use super::steps::{Location, Outline, Step};
use super::waiting;
use crate::engine::store::audit::AuditFile;
use crate::engine::store::session::{SEQ_MAX, SessionId};
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::engine::store::trash;
use crate::engine::workspace::fs::{self, rename_new};
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

/// Version of an entry that this code writes.
pub(super) const VERSION: u32 = 2;

/// Other permission bits for a folder that stays; or the same, for one in which its owner may change no names
/// but while the change is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderMode {
    /// The folder, under its name after all moves.
    pub path: WorkspacePath,
    /// Its permission bits before.
    pub before: u32,
    /// Its permission bits after.
    pub after: u32,
}

impl FolderMode {
    /// Whether the bits are others after the change.
    #[must_use]
    pub const fn is_change(&self) -> bool {
        self.before != self.after
    }
}

/// Earlier changes of the session that a change takes back, though others came after them: it stands
/// among the session's changes like any other, and an `undo` takes it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenBack {
    /// The change that is taken back; of a `rewind`, the last that stays.
    pub seq: u64,
    /// Its files, where not all of them are concerned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<WorkspacePath>,
    /// The hunk of its only file, by its number from 1, where nothing else is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunk: Option<usize>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Version of the format.
    version: u32,
    /// Its own name, unique.
    pub id: String,
    /// Whose change it is.
    pub session: String,
    /// The tool that makes it.
    pub tool: String,
    /// Its number in the session, from 1.
    pub seq: u64,
    /// When it began, seconds since 1970.
    pub time: u64,
    /// Its one line in the snapshot log.
    pub subject: String,
    /// The caller's reason.
    #[serde(default)]
    pub why: Option<String>,
    /// What the policy made of the change, `warn` or `off`, where its caller had not seen the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Digest of the request, by which a repeated one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Sha256>,
    /// The changes of the session that an `undo` takes back, the newest first, or that a `redo`
    /// does again, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverts: Vec<u64>,
    /// What it takes back of earlier changes, where others came after them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_back: Option<TakenBack>,
    /// The files in which an `undo` or a `redo` kept what others had changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<WorkspacePath>,
    /// Old bytes of small files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
    /// What it does, in order.
    pub steps: Vec<Step>,
    /// The folders that get other permission bits once all steps are done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<FolderMode>,
    /// Files that a command changed or removed and whose old bytes were not at hand: an undo leaves
    /// them as they are. The first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<WorkspacePath>,
    /// How many there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_total: usize,
    /// The files it changes, as the steps have it.
    #[serde(skip)]
    pub files: Vec<FileEntry>,
    /// What it moves.
    #[serde(skip)]
    pub moves: Vec<MoveEntry>,
    /// The folders it makes, outermost first.
    #[serde(skip)]
    pub folders: Vec<WorkspacePath>,
    /// The folders it removes, innermost first.
    #[serde(skip)]
    pub removed: Vec<FolderEntry<WorkspacePath>>,
}

impl JournalEntry {
    /// An entry for a change that is about to begin.
    #[must_use]
    pub fn new(id: String, session: &str, tool: &str, seq: u64, time: u64) -> Self {
        Self {
            version: VERSION,
            id,
            session: session.to_owned(),
            tool: tool.to_owned(),
            seq,
            time,
            subject: String::new(),
            why: None,
            gate: None,
            request: None,
            reverts: Vec::new(),
            takes_back: None,
            merged: Vec::new(),
            kept: Vec::new(),
            steps: Vec::new(),
            modes: Vec::new(),
            lost: Vec::new(),
            lost_total: 0,
            files: Vec::new(),
            moves: Vec::new(),
            folders: Vec::new(),
            removed: Vec::new(),
        }
    }

    /// Says what it does, in order; what that comes to follows.
    ///
    /// The state is at `state`, from the workspace root.
    pub fn set_steps(&mut self, steps: Vec<Step>, state: &WorkspacePath) {
        let Outline { files, moves, folders, removed } = Outline::of(&steps, state);
        *self = Self { steps, files, moves, folders, removed, ..std::mem::take(self) };
    }

    /// Whether everything in it has the form that lbx writes: it might have been forged.
    pub(super) fn is_well_formed(&self, name: &str) -> bool {
        let is_below = |path: &WorkspacePath, folder: &str| {
            path.as_path().starts_with(folder) && path.as_path() != std::path::Path::new(folder)
        };
        let is_place = |at: &Location| match at {
            Location::File(path) => !path.is_root(),
            Location::State(path) => is_below(path, trash::FOLDER) || is_below(path, HELD_FOLDER),
        };
        let waits = |at: &Location| waiting::is_staged_by(at, &self.id);
        let is_id = |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        is_id(&self.id)
            && self.name() == name
            && self.session.parse::<SessionId>().is_ok()
            && (1..SEQ_MAX).contains(&self.seq)
            && self.steps.iter().flat_map(Step::locations).all(|at| is_place(at) || waits(at))
            && self.steps.iter().filter_map(Step::staged).all(waits)
    }

    /// The name of its file.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.lbx", self.id)
    }

    /// Writes it under a temporary name; the file is the caller's to sync.
    ///
    /// # Errors
    /// What the system says.
    pub fn prepare(&self, state: &State) -> Result<PendingEntry, Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        let temporary = self.unpublished_name();
        let bytes = serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))?;
        if bytes.len() as u64 > ENTRY_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the change is too large: its journal entry would take {} bytes", bytes.len()),
            )
            .suggest("Make it in several changes."));
        }
        let io = |source: std::io::Error| Error::io("write", state.shown(OPEN_FOLDER), source);
        let mut file =
            fs::create_at(folder.as_fd(), OsStr::new(&temporary), 0o600).map_err(|errno| io(errno.into()))?;
        if let Err(source) = file.write_all(&bytes) {
            places::remove(&folder, &temporary);
            return Err(io(source));
        }
        Ok(PendingEntry { file, folder, temporary })
    }

    /// Puts it into the session's history, in nobody's place.
    ///
    /// # Errors
    /// What the system says; `already_exists` where its number was given before.
    pub fn close(&self, state: &State) -> Result<(), Error> {
        let (open, done) = (state.folder(OPEN_FOLDER)?, state.folder(&history_folder(&self.session))?);
        rename_new(&open, self.name().as_ref(), &done, history_name(self.seq).as_ref())
            .map_err(|errno| Error::io("write", state.shown(DONE_FOLDER), errno))
    }

    /// Sees to it that its number is not given again, though it does not come into the history.
    ///
    /// # Errors
    /// What the system says.
    pub fn spend_number(&self, state: &State) -> Result<(), Error> {
        let done = state.folder(&history_folder(&self.session))?;
        spend(&done, self.seq).map_err(|errno| Error::io("write", state.shown(DONE_FOLDER), errno))
    }

    /// Gives it its own name: from here on the change is completed or rolled back, whatever happens.
    ///
    /// # Errors
    /// What the system says.
    pub fn publish(&self, state: &State) -> Result<(), Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        fs::rename_at(&folder, self.unpublished_name(), &folder, self.name())
            .map_err(|errno| Error::io("write the journal in", STATE_FOLDER, errno))
    }

    /// The name of its file before it is in force.
    #[must_use]
    pub fn unpublished_name(&self) -> String {
        format!(".{}", self.name())
    }

    /// Drops it: the change was rolled back.
    ///
    /// # Errors
    /// What the system says.
    pub fn discard(&self, state: &State) -> Result<(), Error> {
        let folder = state.folder(OPEN_FOLDER)?;
        match fs::unlink_at(&folder, self.name(), rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::io("remove", state.shown(OPEN_FOLDER), errno)),
        }
    }

    /// What the audit log has of a change.
    #[must_use]
    pub fn audit_files(&self) -> Vec<AuditFile> {
        let sha256 = |version: &Option<Version>| version.as_ref().map(|version| version.sha256);
        let files = self.files.iter().map(|file| AuditFile {
            path: file.path.to_string(),
            old_sha256: sha256(&file.before),
            new_sha256: sha256(&file.after),
        });
        let moved = self.moves.iter().flat_map(|moved| [&moved.from, &moved.to]);
        let moved =
            moved.map(|path| AuditFile { path: path.to_string(), old_sha256: None, new_sha256: None });
        files.chain(moved).collect()
    }
}

/// Whether a number is 0.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Default for JournalEntry {
    fn default() -> Self {
        Self::new(String::new(), "", "", 0, 0)
    }
}

/// An entry that is written but not yet in force.
#[derive(Debug)]
pub struct PendingEntry {
    /// Its bytes, to be synced.
    pub file: std::fs::File,
    /// The folder it is in.
    pub folder: Arc<OwnedFd>,
    /// Its name so far.
    temporary: String,
}

impl PendingEntry {
    /// Removes one that is not needed after all.
    pub fn discard(&self) {
        places::remove(&self.folder, &self.temporary);
    }
}
