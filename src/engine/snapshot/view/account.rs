//! Accounts of the branch that are kept: what a session has changed, and which sessions there are.
//!
//! A branch of ten thousand snapshots takes a second to read. An account says what they come to up to one of them, so
//! that only later ones are read. It is a cache: the branch counts. It names the snapshot that it goes up to, whose id
//! depends on all before it, and ends with its own digest. One that does not fit, or that a killed call left behind,
//! is made again from the branch.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use gix::ObjectId;
use serde::{Deserialize, Serialize};

use super::compare::{self, PathChange};
use super::history::{Snapshot, SnapshotTrees};
use super::session::{
    ChangedPaths, LastStep, MovedForeignFile, SessionPart, SessionStep, UnchangedUndo, in_order,
};
use crate::engine::history::session_diff::PathChanges;
use crate::engine::journal::ACCOUNTS_FOLDER;
use crate::engine::snapshot::store::SnapshotError;
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::commit_builder::BASELINE;
use crate::engine::snapshot::store::dir::Dir;
use crate::engine::snapshot::store::tree::TreeItem;
use crate::engine::store::lock::unique_name;
use crate::engine::store::{sealed, unsealed};
use crate::engine::workspace::path::WorkspacePath;
use crate::limits::{SNAPSHOT_ACCOUNT_BYTES_MAX, SNAPSHOT_PATHS_MAX};
use crate::sha256::Sha256;

/// Name of the account of the branch: no session's account has it.
const BRANCH: &str = "branch";
/// End of the name of a session's account.
const OF_SESSION: &str = ".session";
/// Version of an account that this code reads and writes.
const VERSION: u32 = 6;
/// Number of snapshots after which an account is written again.
const SAVED_EVERY: usize = 64;
/// Number of a session's first change in the journal.
const SEQ_FIRST: u64 = 1;
/// Fields of a line of the story.
const STORY_FIELDS: usize = 4;
/// Tools whose changes turn earlier ones around.
const TURNING_TOOLS: [&str; 3] = ["undo", "redo", "rewind"];

/// Snapshot in the story of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoryLine {
    /// Commit.
    pub id: ObjectId,
    /// Number in the session; 0 if it has none.
    pub seq: u64,
    /// Time, in seconds since 1970.
    pub seconds: i64,
    /// Origin.
    pub by: StoryOrigin,
}

/// Origin of a snapshot in the story of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoryOrigin {
    /// The session.
    Session,
    /// An undo, redo or rewind of the session.
    Turning,
    /// No session.
    Developer,
}

impl StoryOrigin {
    /// Letter of each in an account.
    const LETTERS: [(Self, &'static str); 3] =
        [(Self::Session, "s"), (Self::Turning, "t"), (Self::Developer, "d")];
}

/// Everything that a session has changed after one of its changes.
#[derive(Debug, Clone, Default)]
pub struct SessionAccount {
    /// Commit before its first snapshot, in hex; `None` if there was none.
    before: Option<String>,
    /// Its last snapshot, in hex; `None` if it has none.
    last: Option<String>,
    /// Time of its first snapshot, in seconds since 1970.
    pub(super) began: i64,
    /// Change up to which it has what the session turned back.
    turned: u64,
    /// Changes of each path.
    pub(super) paths: ChangedPaths<PathChanges<TreeItem>>,
    /// Its snapshots and the developer's, oldest first.
    pub story: Vec<StoryLine>,
}

/// First part of a stored account. The lines of the story follow: as JSON, those of 65,000 changes would take most of the
/// time of a `diff`.
#[derive(Serialize, Deserialize)]
struct StoredAccount {
    /// Version of the format.
    version: u32,
    /// Session.
    session: String,
    /// Change after which it begins.
    after: u64,
    /// Snapshot up to which it goes, in hex.
    tip: String,
    /// As in [`SessionAccount`].
    before: Option<String>,
    /// As in [`SessionAccount`].
    last: Option<String>,
    /// As in [`SessionAccount`].
    began: i64,
    /// As in [`SessionAccount`].
    turned: u64,
    /// Changes of each path.
    paths: Vec<(WorkspacePath, PathChanges<TreeItem>)>,
    /// Moved files: path and earlier paths.
    moved: Vec<(WorkspacePath, Vec<WorkspacePath>)>,
    /// Moved files that are gone.
    gone: Vec<StoredGoneFile>,
    /// SHA-256 of the lines of the story.
    story: Sha256,
}

/// Form in which a moved file that is gone is stored.
#[derive(Serialize, Deserialize)]
struct StoredGoneFile {
    /// Its path.
    path: WorkspacePath,
    /// As in [`MovedAway`].
    last: Option<TreeItem>,
    /// As in [`MovedAway`].
    from: Vec<WorkspacePath>,
    /// As in [`MovedAway`].
    changes: PathChanges<TreeItem>,
}

impl SessionAccount {
    /// Returns true if the session has changed nothing.
    pub const fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Returns the session's own snapshots, oldest first.
    pub fn session_snapshots(&self) -> impl Iterator<Item = &StoryLine> {
        self.story.iter().filter(|line| line.by != StoryOrigin::Developer)
    }

    /// Returns the snapshot of a change.
    fn line_of(&self, seq: u64) -> Option<&StoryLine> {
        self.session_snapshots().find(|line| line.seq == seq)
    }

    /// Returns true if the session has changed a path, even if it changed it back.
    pub fn has_touched(&self, path: &[u8]) -> bool {
        self.paths.steps.contains_key(path)
    }

    /// Returns the commits before its first snapshot, and of its last one.
    pub(super) fn ends(&self) -> Option<(Option<String>, String)> {
        Some((self.before.clone(), self.last.clone()?))
    }

    /// Adds the next snapshot; `paths` are those that it changed, if it is one of the session's numbered ones.
    fn add(&mut self, session: &str, snapshot: &Snapshot, paths: &[PathChange]) {
        let is_own = snapshot.session == session;
        if is_own && snapshot.seq > 0 {
            if self.last.is_none() {
                (self.before, self.began) = (snapshot.parent.clone(), snapshot.seconds);
            }
            self.last = Some(snapshot.id.clone());
        }
        self.paths.add_change(paths);
        let by = match &snapshot.session {
            session if session.is_empty() => StoryOrigin::Developer,
            _ if TURNING_TOOLS.contains(&snapshot.tool.as_str()) => StoryOrigin::Turning,
            _ => StoryOrigin::Session,
        };
        if (by == StoryOrigin::Developer || (is_own && snapshot.tool != BASELINE))
            && let Ok(id) = ObjectId::from_hex(snapshot.id.as_bytes())
        {
            self.story.push(StoryLine { id, seq: snapshot.seq, seconds: snapshot.seconds, by });
        }
    }

    /// Formats it; `None` if it has a path that no file of the workspace can have.
    fn to_bytes(&self, session: &str, after: u64, tip: ObjectId) -> Option<Vec<u8>> {
        let path = |path: &[u8]| WorkspacePath::new(Path::new(OsStr::from_bytes(path)));
        let paths = self.paths.steps.iter().map(|(at, own)| Some((path(at)?, own.clone())));
        let all = |paths: &[Vec<u8>]| paths.iter().map(|at| path(at)).collect::<Option<Vec<_>>>();
        let moved = self.paths.from.iter().map(|(at, from)| Some((path(at)?, all(from)?)));
        let gone = self.paths.gone.iter().map(|(at, MovedForeignFile { last, from, changes })| {
            Some(StoredGoneFile { path: path(at)?, last: *last, from: all(from)?, changes: changes.clone() })
        });
        let mut story = Vec::new();
        for line in &self.story {
            let letter = StoryOrigin::LETTERS.iter().find(|(by, _)| *by == line.by)?.1;
            story.extend(format!("{} {} {} {letter}\n", line.id, line.seq, line.seconds).into_bytes());
        }
        let stored = StoredAccount {
            version: VERSION,
            session: session.to_owned(),
            after,
            tip: tip.to_string(),
            before: self.before.clone(),
            last: self.last.clone(),
            began: self.began,
            turned: self.turned,
            paths: paths.collect::<Option<_>>()?,
            moved: moved.collect::<Option<_>>()?,
            gone: gone.collect::<Option<_>>()?,
            story: Sha256::of(&story),
        };
        Some([sealed(&stored).ok()?, story].concat())
    }

    /// Parses it; returns also the snapshot up to which it goes. `None` if it is of another session, or damaged.
    fn of_bytes(bytes: &[u8], session: &str, after: u64) -> Option<(String, Self)> {
        // The first part is a line, and the line of its seal.
        let (first, story) = bytes.split_at(memchr::memchr_iter(b'\n', bytes).nth(1)? + 1);
        let stored: StoredAccount = unsealed(first)?;
        let is_it = stored.version == VERSION && stored.session == session && stored.after == after;
        if !is_it || Sha256::of(story) != stored.story {
            return None;
        }
        let story = std::str::from_utf8(story).ok()?.lines().map(story_line).collect::<Option<_>>()?;
        let bytes = |path: WorkspacePath| path.as_bytes().to_vec();
        let all = |paths: Vec<WorkspacePath>| paths.into_iter().map(bytes).collect();
        let from = stored.moved.into_iter().map(|(path, from)| (bytes(path), all(from))).collect();
        let steps = stored.paths.into_iter().map(|(path, own)| (bytes(path), own)).collect();
        let gone = stored.gone.into_iter().map(|StoredGoneFile { path, last, from, changes }| {
            (bytes(path), MovedForeignFile { last, from: all(from), changes })
        });
        let gone = gone.collect();
        let paths = ChangedPaths { steps, from, gone };
        let StoredAccount { tip, before, last, began, turned, .. } = stored;
        Some((tip, Self { before, last, began, turned, paths, story }))
    }
}

/// Parses a line of the story.
fn story_line(line: &str) -> Option<StoryLine> {
    let fields: Vec<&str> = line.splitn(STORY_FIELDS, ' ').collect();
    let [id, seq, seconds, letter] = fields.as_slice() else { return None };
    let by = StoryOrigin::LETTERS.iter().find(|(_, own)| own == letter)?.0;
    let id = ObjectId::from_hex(id.as_bytes()).ok()?;
    Some(StoryLine { id, seq: seq.parse().ok()?, seconds: seconds.parse().ok()?, by })
}

impl Store {
    /// Returns what a session has changed.
    ///
    /// # Errors
    /// Fails if the branch or a commit on it cannot be read.
    pub fn account_of(&self, part: &SessionPart<'_>) -> Result<SessionAccount, SnapshotError> {
        let (session, after) = (part.session.as_str(), part.after);
        if self.newest_change_of(session)? <= after {
            return Ok(SessionAccount::default());
        }
        let tip = self.branch.tip(&self.repo)?;
        let name = format!("{session}{OF_SESSION}");
        let known =
            self.stored_account(&name).and_then(|bytes| SessionAccount::of_bytes(&bytes, session, after));
        let known_tip = known.as_ref().map(|(tip, _)| tip.clone());
        let (mut newer, mut began, mut is_known, mut count) = (Vec::new(), 0, false, 0);
        for found in self.snapshots(tip) {
            let SnapshotTrees { snapshot, tree, tree_before, .. } = found?;
            if known_tip.as_ref() == Some(&snapshot.id) {
                is_known = true;
                break;
            }
            let is_own = snapshot.session == session && snapshot.seq > 0;
            if is_own && (1..=after).contains(&snapshot.seq) {
                break;
            }
            count += 1;
            let is_first = is_own && snapshot.seq == SEQ_FIRST;
            let paths = if is_own {
                compare::trees(&self.repo, tree_before, tree, SNAPSHOT_PATHS_MAX)?.paths
            } else {
                Vec::new()
            };
            newer.push((snapshot, paths));
            if is_own {
                began = newer.len();
            }
            if is_first {
                break;
            }
        }
        let mut account = known.filter(|_| is_known).map(|(_, account)| account).unwrap_or_default();
        if account.is_empty() {
            // Drop snapshots from before the session's first change.
            newer.truncate(began);
        }
        let (turned, newest) = (part.turned)(account.turned.max(after));
        let mut turned = turned.into_iter().peekable();
        for (snapshot, paths) in newer.into_iter().rev() {
            let is_own = snapshot.session == session && snapshot.seq > 0;
            while let Some(turn) = turned.next_if(|turn| is_own && turn.seq < snapshot.seq) {
                self.add_unchanged_undo(&mut account, &turn)?;
            }
            account.add(session, &snapshot, &paths);
        }
        turned.try_for_each(|turn| self.add_unchanged_undo(&mut account, &turn))?;
        account.turned = newest;
        if count >= SAVED_EVERY
            && let Some(bytes) = tip.and_then(|tip| account.to_bytes(session, after, tip))
        {
            self.save_account(&name, &bytes);
        }
        Ok(account)
    }

    /// Adds what a session turned back without a snapshot.
    fn add_unchanged_undo(
        &self,
        account: &mut SessionAccount,
        turn: &UnchangedUndo,
    ) -> Result<(), SnapshotError> {
        let last = |path: &[u8]| Some(account.paths.steps.get(path)?.last().copied());
        let paths_of =
            |seq| account.line_of(seq).map_or(Ok(Vec::new()), |line| Ok(self.step_at(line)?.paths));
        let paths = turn.paths(last, paths_of)?;
        account.paths.add_change(&paths);
        Ok(())
    }

    /// Returns the bytes of a file after a change of a session, from its snapshot; `None` if that has none.
    ///
    /// # Errors
    /// As [`Self::account_of`].
    pub fn file_after(
        &self,
        account: &SessionAccount,
        seq: u64,
        path: &[u8],
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        account.line_of(seq).map_or(Ok(None), |line| self.file_at(&line.id.to_string(), path))
    }

    /// Returns one change of a story, with its paths.
    ///
    /// # Errors
    /// Fails if the commit or its trees cannot be read, or if it is not a snapshot.
    pub fn step_at(&self, line: &StoryLine) -> Result<SessionStep, SnapshotError> {
        let read = self.snapshot(line.id)?;
        let Some(SnapshotTrees { snapshot, tree, tree_before, .. }) = read else {
            return Err(SnapshotError::new(format!("the commit {} is not a snapshot", line.id)));
        };
        let paths = compare::trees(&self.repo, tree_before, tree, SNAPSHOT_PATHS_MAX)?.paths;
        Ok(SessionStep { snapshot, paths })
    }

    /// Returns the net change of each path of an account, ordered by component.
    ///
    /// # Errors
    /// Fails if a version cannot be read.
    pub fn net_of(&self, account: &SessionAccount) -> Result<Vec<PathChange>, SnapshotError> {
        let change = |(path, own): (&Vec<u8>, &PathChanges<TreeItem>)| {
            let change = self.change_of(path.clone(), own.sides(), LastStep::Now)?;
            Ok(PathChange { from: account.paths.first_path(path), ..change })
        };
        Ok(in_order(account.paths.steps.iter().map(change).collect::<Result<_, SnapshotError>>()?))
    }

    /// Returns the bytes of an account, if there is one.
    fn stored_account(&self, name: &str) -> Option<Vec<u8>> {
        let folder = self.place.open().ok()??.folder(ACCOUNTS_FOLDER).ok()??;
        folder.read(name, SNAPSHOT_ACCOUNT_BYTES_MAX).ok()?
    }

    /// Saves an account. Without it, the next call reads the branch again.
    fn save_account(&self, name: &str, bytes: &[u8]) {
        let save = |state: Dir| {
            let (folder, aside) = (state.make_folder(ACCOUNTS_FOLDER)?, unique_name(".tmp-account"));
            folder.write_new(&aside, 0o600, bytes)?;
            let renamed = folder.rename(&aside, &folder, name);
            if renamed.is_err() {
                let _ = folder.remove(&aside);
            }
            Ok::<_, std::io::Error>(renamed?)
        };
        if bytes.len() as u64 <= SNAPSHOT_ACCOUNT_BYTES_MAX
            && let Ok(Some(state)) = self.place.open()
        {
            // A full disk, or a workspace that only can be read.
            let _ = save(state);
        }
    }
}

/// Sessions with changes on the branch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Sessions {
    /// Version of the format.
    version: u32,
    /// Snapshot up to which it goes, in hex.
    tip: String,
    /// Each session with the number of its newest change, most recent first.
    newest: Vec<(String, u64)>,
}

impl Store {
    /// Returns the sessions with changes, each with the number of its newest one; most recent first.
    ///
    /// # Errors
    /// Fails if the branch or a commit on it cannot be read.
    pub fn newest_changes(&self) -> Result<Vec<(String, u64)>, SnapshotError> {
        let Some(tip) = self.branch.tip(&self.repo)? else { return Ok(Vec::new()) };
        let known = self.stored_account(BRANCH).and_then(|bytes| unsealed::<Sessions>(&bytes));
        let known = known.filter(|known| known.version == VERSION);
        let (mut newest, mut count): (Vec<(String, u64)>, usize) = (Vec::new(), 0);
        let mut add = |session: String, seq: u64| {
            if seq > 0 && newest.iter().all(|(known, _)| *known != session) {
                newest.push((session, seq));
            }
        };
        for found in self.snapshots(Some(tip)) {
            let snapshot = found?.snapshot;
            if let Some(known) = known.as_ref().filter(|known| known.tip == snapshot.id) {
                known.newest.iter().cloned().for_each(|(session, seq)| add(session, seq));
                break;
            }
            count += 1;
            add(snapshot.session, snapshot.seq);
        }
        if count >= SAVED_EVERY {
            let sessions = Sessions { version: VERSION, tip: tip.to_string(), newest: newest.clone() };
            if let Ok(bytes) = sealed(&sessions) {
                self.save_account(BRANCH, &bytes);
            }
        }
        Ok(newest)
    }

    /// Returns the number of the newest change of a session; 0 if it has none.
    ///
    /// # Errors
    /// As [`Self::newest_changes`].
    pub fn newest_change_of(&self, session: &str) -> Result<u64, SnapshotError> {
        let newest = self.newest_changes()?;
        Ok(newest.into_iter().find(|(known, _)| known == session).map_or(0, |(_, seq)| seq))
    }

    /// Writes the accounts again, if enough snapshots have come since.
    pub fn update_accounts(&self, part: &SessionPart<'_>) {
        // A call that needs them says what is wrong.
        let _ = self.newest_changes();
        let _ = self.account_of(part);
    }
}
