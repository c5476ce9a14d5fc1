//! Garbage collection: removes old files from `.lbx/` that nothing younger needs.
//!
//! A backup is removed with the last history entry that names it, a trash entry by its age. Nothing younger than the
//! bound is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::AtFlags;
use schemars::JsonSchema;
use serde::Serialize;

use super::backup::InlineBackup;
use super::bundle::{self, PACKED, PackedHistory, key_of};
use super::entry::{change_in, history_name};
use super::parts::{Key, Parts, Row};
use super::{backup, repack};
use crate::engine::journal;
use crate::engine::journal::{ACCOUNTS_FOLDER, BACKUPS_FOLDER, DONE_FOLDER, JournalEntry, STUCK_FOLDER};
use crate::engine::store::state::{CLIENT_CALLS_FOLDER, STATE_FOLDER, State, names_in};
use crate::engine::store::trash;
use crate::engine::store::{calls, session};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

/// Files and the bytes in them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tally {
    /// Files
    pub files: u64,
    /// Bytes in them
    pub bytes: u64,
}

impl Tally {
    /// Adds one file.
    fn add(&mut self, bytes: u64) {
        self.join(Self { files: 1, bytes });
    }

    /// Adds several.
    fn join(&mut self, other: Self) {
        self.files = self.files.saturating_add(other.files);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Removed files, by kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemovedFiles {
    /// Old versions of files, to which no change of the history refers
    pub backups: Tally,
    /// Changes that undo could have taken back
    pub history: Tally,
    /// Deleted files that could have been restored
    pub trash: Tally,
    /// Session files that were set aside because they were damaged
    pub damaged_sessions: Tally,
    /// Files that a killed call left
    pub temporary: Tally,
}

impl RemovedFiles {
    /// Returns the total.
    pub fn sum(&self) -> Tally {
        let mut sum = self.backups;
        for tally in [self.history, self.trash, self.damaged_sessions, self.temporary] {
            sum.join(tally);
        }
        sum
    }
}

/// Result of a collection, or of a dry run.
#[derive(Debug, Default)]
pub struct GcResult {
    /// Files that stay.
    pub kept: Tally,
    /// Files that were removed.
    pub removed: RemovedFiles,
    /// Names that could not be removed.
    pub failed: Vec<String>,
}

/// Removes unneeded files that are at least as old as `before`, in seconds since 1970; a dry run only counts them. The
/// caller holds the workspace's lock, except for a dry run.
///
/// # Errors
/// Returns the OS error.
pub fn collect(state: &State, before: u64, dry_run: bool) -> Result<GcResult, Error> {
    let (needed, done) = (ReferencedVersions::default(), GcResult::default());
    let (with_history, leaving) = (BTreeSet::new(), Vec::new());
    let mut collector = Collector { state, before, dry_run, needed, with_history, leaving, done };
    collector.history()?;
    let open = journal::open_entries(state, None)?;
    if let Some(name) = open.newer.first() {
        return Err(Error::new(
            ErrorKind::IoError,
            format!("the unfinished change {name} was written by a newer lbx: collect with that one"),
        ));
    }
    let trash = state.path_of(trash::FOLDER);
    open.entries.iter().for_each(|entry| collector.needed.add(&trash, entry));
    collector.note_stuck_changes()?;
    collector.remove_collected();
    collector.backups()?;
    collector.bundles()?;
    collector.trash()?;
    collector.sessions()?;
    collector.turns()?;
    collector.temporary()?;
    Ok(collector.done)
}

/// Returns the earliest time in `range`, in seconds since 1970, for which removing everything at least as old leaves at
/// most `bytes_max` bytes. Returns the end of the range if even that leaves more, and its start if that already leaves
/// no more.
///
/// # Errors
/// Returns the OS error.
pub fn bound_for(state: &State, range: Range<u64>, bytes_max: u64) -> Result<u64, Error> {
    let fits = |before| Ok::<_, Error>(collect(state, before, true)?.kept.bytes <= bytes_max);
    let (mut too_much, mut enough) = (range.start, range.end.max(range.start));
    if fits(too_much)? {
        return Ok(too_much);
    }
    while too_much + 1 < enough {
        let middle = too_much + (enough - too_much) / 2;
        if fits(middle)? {
            enough = middle;
        } else {
            too_much = middle;
        }
    }
    Ok(enough)
}

/// Versions and trash entries that the remaining changes refer to.
#[derive(Default)]
struct ReferencedVersions {
    /// SHA-256 digests of the bytes before and after.
    versions: BTreeSet<Sha256>,
    /// True if a packed history is damaged: its changes may need any version.
    may_be_any: bool,
    /// Names of trash entries.
    trash: BTreeSet<String>,
}

impl ReferencedVersions {
    /// Returns true if a change may refer to these bytes.
    fn has(&self, sha256: Sha256) -> bool {
        self.may_be_any || self.versions.contains(&sha256)
    }

    /// Adds everything that a change refers to.
    fn add(&mut self, trash: &WorkspacePath, entry: &JournalEntry) {
        let versions = entry.files.iter().flat_map(|file| [&file.before, &file.after]);
        self.versions.extend(versions.flatten().map(|version| version.sha256));

        for path in entry.moves.iter().flat_map(|moved| [&moved.from, &moved.to]) {
            if let Ok(rest) = path.as_path().strip_prefix(trash.as_path())
                && let Some(id) = rest.iter().next()
            {
                self.trash.insert(id.to_string_lossy().into_owned());
            }
        }
    }
}

/// A change in the history, with the changes that it takes back or does again.
struct LinkedChange {
    /// Its number; 0 if the file is not a change.
    seq: u64,
    /// Numbers of the changes that it takes back or does again.
    reverts: Vec<u64>,
    /// True if it stays.
    stays: bool,
}

/// Keeps all changes that are linked to a kept one: a redo needs the change that an undo took back, and only the
/// undos and redos tell which changes are in effect.
fn keep_what_belongs_together(changes: &mut [LinkedChange]) {
    let mut neighbours: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for change in changes.iter() {
        for other in &change.reverts {
            neighbours.entry(change.seq).or_default().push(*other);
            neighbours.entry(*other).or_default().push(change.seq);
        }
    }
    let mut stay: BTreeSet<u64> = BTreeSet::new();
    let mut waiting: Vec<u64> = changes.iter().filter(|one| one.stays).map(|one| one.seq).collect();
    while let Some(seq) = waiting.pop() {
        if stay.insert(seq) {
            waiting.extend(neighbours.get(&seq).into_iter().flatten());
        }
    }
    for change in changes.iter_mut().filter(|change| change.seq != 0) {
        change.stays |= stay.contains(&change.seq);
    }
}

/// History of a session.
struct History {
    /// The session.
    session: String,
    /// Its folder.
    folder: Arc<OwnedFd>,
    /// Its packed changes.
    packed: Option<Arc<PackedHistory>>,
}

impl History {
    /// Returns the names of its changes; packed ones have those of the files that they would have.
    fn names(&self) -> Result<BTreeSet<String>, Error> {
        let mut names: BTreeSet<String> = names_in(&self.folder)?.into_iter().collect();
        names.retain(|name| Path::new(name).extension() == Some(OsStr::new("lbx")));
        let packed = self.packed.iter().flat_map(|packed| &packed.numbers);
        names.extend(packed.map(|seq| history_name(*seq)));
        Ok(names)
    }

    /// Returns a change; `None` if it is damaged.
    fn change(&self, state: &State, name: &str) -> Result<Option<JournalEntry>, Error> {
        journal::read_change(state, &self.session, &self.folder, name)?.entry(name)
    }

    /// Returns the row of a change that has no file of its own.
    fn row(&self, name: &str) -> Option<Row> {
        let seq = change_in(name.as_bytes())
            .filter(|_| fs::stat_at(self.folder.as_fd(), name.as_ref()).is_err())?;
        self.packed.as_ref()?.parts.as_ref()?.find(&key_of(seq)).ok().flatten()
    }
}

/// State of one collection.
struct Collector<'a> {
    /// State folder to collect.
    state: &'a State,
    /// Files from this time on are too young to remove, in seconds since 1970.
    before: u64,
    /// True if files are only counted.
    dry_run: bool,
    /// Versions and trash entries that younger changes need.
    needed: ReferencedVersions,
    /// Sessions of which a change stays.
    with_history: BTreeSet<String>,
    /// Changes to remove once `needed` is complete, by history: their names.
    leaving: Vec<(History, Vec<String>)>,
    /// Result so far.
    done: GcResult,
}

impl Collector<'_> {
    /// Removes a file if it is old enough, and counts it as kept or in the tally that `kind` picks; returns true if it
    /// was removed.
    fn file(
        &mut self,
        folder: &OwnedFd,
        name: &str,
        may_go: bool,
        kind: fn(&mut RemovedFiles) -> &mut Tally,
    ) -> bool {
        let Ok(stat) = fs::stat_at(folder.as_fd(), OsStr::new(name)) else { return false };
        let is_gone = may_go && (self.dry_run || fs::unlink_at(folder, name, AtFlags::empty()).is_ok());
        if may_go && !is_gone {
            self.done.failed.push(name.to_owned());
        }
        let tally = if is_gone { kind(&mut self.done.removed) } else { &mut self.done.kept };
        tally.add(fs::size_of(&stat));
        is_gone
    }

    /// Returns true if that time is old enough.
    fn is_old(&self, seconds: u64) -> bool {
        seconds <= self.before
    }

    /// Returns true if a file or folder was last changed long enough ago.
    fn is_old_file(&self, folder: &OwnedFd, name: &str) -> bool {
        let stat = fs::stat_at(folder.as_fd(), OsStr::new(name));
        stat.is_ok_and(|stat| u64::try_from(stat.st_mtime).is_ok_and(|seconds| self.is_old(seconds)))
    }

    /// Collects the history: removes old changes that no younger one needs, and notes what the others need.
    fn history(&mut self) -> Result<(), Error> {
        for (_, session) in self.state.entries(DONE_FOLDER)? {
            if let Some(folder) = self.state.find_folder(&format!("{DONE_FOLDER}/{session}"))? {
                let packed = PackedHistory::of(self.state, &session, &folder)?;
                self.needed.may_be_any |= packed.as_ref().is_some_and(|packed| packed.parts.is_none());
                self.history_of(History { session, folder, packed })?;
            }
        }
        Ok(())
    }

    /// Collects the history of one session.
    fn history_of(&mut self, history: History) -> Result<(), Error> {
        let trash = self.state.path_of(trash::FOLDER);
        let names = history.names()?;
        let mut changes = Vec::new();
        for name in &names {
            if let Some(entry) = history.change(self.state, name)? {
                let is_young = !self.is_old(entry.time);
                if is_young {
                    self.needed.add(&trash, &entry);
                }
                changes.push(LinkedChange { seq: entry.seq, reverts: entry.reverts, stays: is_young });
            } else {
                // A damaged part may be the base of others, so nobody knows what they need.
                self.needed.may_be_any |= history.row(name).is_some();
                let is_old = self.is_old_file(&history.folder, name);
                changes.push(LinkedChange { seq: 0, reverts: Vec::new(), stays: !is_old });
            }
        }
        let young: Vec<bool> = changes.iter().map(|change| change.stays).collect();
        let is_leaving = |last| !changes.iter().any(|change| change.stays && change.seq == last);
        match if self.dry_run { Ok(()) } else { journal::keep_numbers(&history.folder, is_leaving) } {
            // On a full disk, the newest change itself keeps its number; what is removed makes room.
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                changes.iter_mut().max_by_key(|change| change.seq).into_iter().for_each(|it| it.stays = true);
            }
            marked => marked?,
        }
        keep_what_belongs_together(&mut changes);
        let mut leaving = Vec::new();
        for ((name, change), is_young) in names.into_iter().zip(&changes).zip(young) {
            if !change.stays {
                leaving.push(name);
                continue;
            }
            self.with_history.insert(history.session.clone());
            self.count(&history, &name, false);
            if !is_young && let Some(entry) = history.change(self.state, &name)? {
                self.needed.add(&trash, &entry);
            }
        }
        self.leaving.push((history, leaving));
        Ok(())
    }

    /// Counts a change as kept or removed, and removes its file, if it has one; returns true if it is gone.
    fn count(&mut self, history: &History, name: &str, may_go: bool) -> bool {
        let Some(row) = history.row(name) else {
            return self.file(&history.folder, name, may_go, |removed| &mut removed.history);
        };
        let tally = if may_go { &mut self.done.removed.history } else { &mut self.done.kept };
        tally.add(row.length.into());
        may_go
    }

    /// Removes the collected changes. Bytes in them that a kept change needs become backups first.
    fn remove_collected(&mut self) {
        let leaving = std::mem::take(&mut self.leaving);
        if !self.dry_run && leaving.iter().any(|(_, names)| !names.is_empty()) {
            self.forget_accounts();
        }
        for (history, names) in leaving {
            // A full disk may have no room for what stays of a packed file. Other files go nevertheless.
            let keys = names.iter().filter_map(|name| change_in(name.as_bytes())).map(key_of).collect();
            let packed = history.packed.as_ref().and_then(|packed| packed.parts.as_ref());
            let is_unpacked = packed.is_none_or(|packed| self.unpack(&history.folder, packed, &keys).is_ok());
            for name in names {
                let may_go = self.dry_run || (is_unpacked && self.save_needed(&history, &name).is_ok());
                if !may_go {
                    self.done.failed.push(name.clone());
                }
                if !self.count(&history, &name, may_go)
                    && let Ok(Some(entry)) = history.change(self.state, &name)
                {
                    self.needed.add(&self.state.path_of(trash::FOLDER), &entry);
                }
            }
        }
    }

    /// Removes parts from the packed file of a folder, or all of it.
    fn unpack(&self, folder: &OwnedFd, packed: &Parts, gone: &BTreeSet<Key>) -> Result<(), Error> {
        let found = gone.iter().filter(|key| packed.find(key).is_ok_and(|row| row.is_some())).count();
        if self.dry_run || found == 0 {
            return Ok(());
        }
        let io = |source| Error::io("pack the history in", STATE_FOLDER, source);
        if found == packed.rows() {
            return fs::unlink_at(folder, PACKED, AtFlags::empty()).map_err(|errno| io(errno.into()));
        }
        let keep = |key: &Key| !gone.contains(key);
        repack::replace(folder, packed.rows(), |writer| writer.copy(packed, keep).map_err(io)).map(|_| ())
    }

    /// Removes the accounts of the histories: they would count what is removed.
    fn forget_accounts(&mut self) {
        for (folder, name) in self.state.entries(ACCOUNTS_FOLDER).unwrap_or_default() {
            if let Err(errno) = fs::unlink_at(&*folder, &name, rustix::fs::AtFlags::empty()) {
                self.done.failed.push(format!("{name}: {errno}"));
            }
        }
    }

    /// Makes backups of the bytes in an entry that others need.
    fn save_needed(&self, history: &History, name: &str) -> Result<(), Error> {
        let Some(entry) = history.change(self.state, name)? else { return Ok(()) };
        let is_needed = |kept: &&InlineBackup| self.needed.has(kept.sha256);
        backup::back_up_entry_bytes(self.state, entry.kept.iter().filter(is_needed))
    }

    /// Notes what stuck changes need: a person has to look at them.
    fn note_stuck_changes(&mut self) -> Result<(), Error> {
        for (folder, name) in self.state.entries(STUCK_FOLDER)? {
            if let Some(entry) = journal::read(self.state, &folder, &name)?.entry(&name)? {
                self.needed.add(&self.state.path_of(trash::FOLDER), &entry);
            }
            self.file(&folder, &name, false, |removed| &mut removed.history);
        }
        Ok(())
    }

    /// Collects old versions, and files that a killed call left among them.
    fn backups(&mut self) -> Result<(), Error> {
        let folders = self.state.entries(BACKUPS_FOLDER)?.into_iter().map(|(_, first)| first);
        for first in folders.filter(|first| first != bundle::FOLDER) {
            for (folder, name) in self.state.entries(&format!("{BACKUPS_FOLDER}/{first}"))? {
                let is_old = self.is_old_file(&folder, &name);
                if name.starts_with('.') {
                    self.file(&folder, &name, is_old, |removed| &mut removed.temporary);
                } else {
                    let sha256 = format!("{first}{name}").parse::<Sha256>();
                    let is_needed = sha256.is_ok_and(|sha256| self.needed.has(sha256));
                    self.file(&folder, &name, is_old && !is_needed, |removed| &mut removed.backups);
                }
            }
        }
        Ok(())
    }

    /// Collects bundles, each as a whole, and the parts of the packed one.
    fn bundles(&mut self) -> Result<(), Error> {
        for (folder, name) in self.state.entries(&bundle::folder())? {
            let io = |source| Error::io("read", self.state.display(BACKUPS_FOLDER), source);
            let is_old = self.is_old_file(&folder, &name);
            let Some(bundle) = Parts::open(&folder, &name).map_err(io)? else {
                // A bundle of a newer version may hold needed bytes.
                let is_half = name.starts_with('.');
                self.file(&folder, &name, is_old && is_half, |removed| &mut removed.temporary);
                continue;
            };
            let rows = bundle.all_rows().map_err(io)?.into_iter();
            let (rows, gone): (Vec<Row>, Vec<Row>) =
                rows.partition(|row| self.needed.has(Sha256::from_bytes(row.key)));
            if name == PACKED {
                rows.iter().for_each(|row| self.done.kept.add(row.length.into()));
                let is_unpacked =
                    self.unpack(&folder, &bundle, &gone.iter().map(|row| row.key).collect()).is_ok();
                if !is_unpacked {
                    self.done.failed.push(name);
                }
                let tally = if is_unpacked { &mut self.done.removed.backups } else { &mut self.done.kept };
                gone.iter().for_each(|row| tally.add(row.length.into()));
            } else {
                self.file(&folder, &name, is_old && rows.is_empty(), |removed| &mut removed.backups);
            }
        }
        Ok(())
    }

    /// Collects trash entries, and their folders if the content is gone.
    fn trash(&mut self) -> Result<(), Error> {
        let entries = trash::list(Some(self.state))?.entries;
        for (folder, id) in self.state.entries(trash::FOLDER)? {
            let entry = entries.iter().find(|entry| entry.id == id);
            let is_old = match entry {
                Some(entry) => self.is_old(entry.time) && self.is_old_file(&folder, &id),
                None => self.is_old_file(&folder, &id),
            };
            let has_content = trash::has_content(self.state, &id)?;
            let tally =
                entry.map_or_else(Tally::default, |entry| Tally { files: entry.files, bytes: entry.bytes });
            if !is_old || self.needed.trash.contains(&id) || (entry.is_none() && has_content) {
                self.done.kept.join(tally);
            } else if self.dry_run {
                self.done.removed.trash.join(tally);
            } else {
                let removed = trash::purge(self.state, &id)?;
                let gone = if removed.is_partial {
                    Tally { files: removed.files, bytes: removed.bytes }
                } else {
                    tally
                };
                self.done.removed.trash.join(gone);
                self.done.failed.extend(removed.left);
            }
        }
        Ok(())
    }

    /// Collects damaged session files that were set aside, and no others.
    fn sessions(&mut self) -> Result<(), Error> {
        for (folder, name) in self.state.entries(session::FOLDER)? {
            // The file or the lock of a session may have such a name, and goes on.
            let time = name.rsplit_once(".lbx.damaged-").map(|(_, time)| time);
            let is_damaged = time.is_some_and(|time| time.bytes().all(|byte| byte.is_ascii_digit()));
            let is_temporary = name.starts_with('.');
            let is_old = self.is_old_file(&folder, &name);
            let kind: fn(&mut RemovedFiles) -> &mut Tally = if is_temporary {
                |removed| &mut removed.temporary
            } else {
                |removed| &mut removed.damaged_sessions
            };
            self.file(&folder, &name, is_old && (is_damaged || is_temporary), kind);
        }
        Ok(())
    }

    /// Collects the turns of sessions without a history.
    fn turns(&mut self) -> Result<(), Error> {
        for (folder, name) in self.state.entries(session::TURNS_FOLDER)? {
            let is_old = self.is_old_file(&folder, &name) && !self.with_history.contains(&name);
            self.file(&folder, &name, is_old, |removed| &mut removed.history);
        }
        Ok(())
    }

    /// Collects files that a killed call left in the state folder, copies of shown files, and calls of clients that
    /// never ended.
    fn temporary(&mut self) -> Result<(), Error> {
        let top = rustix::fs::openat(self.state.fd(), ".", fs::FOLDER, rustix::fs::Mode::empty())
            .map_err(|errno| Error::io("open", crate::engine::store::state::STATE_FOLDER, errno))?;
        for name in
            names_in(&top)?.into_iter().filter(|name| name.starts_with(".tmp-") || calls::is_failure(name))
        {
            let is_old = self.is_old_file(&top, &name);
            self.file(&top, &name, is_old, |removed| &mut removed.temporary);
        }
        for folder in [session::SHOWN_FOLDER, CLIENT_CALLS_FOLDER] {
            for (folder, name) in self.state.entries(folder)? {
                let is_old = self.is_old_file(&folder, &name);
                self.file(&folder, &name, is_old, |removed| &mut removed.temporary);
            }
        }
        Ok(())
    }
}
