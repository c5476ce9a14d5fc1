//! Turns two surveys of the work tree into a change in the journal.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::response::{Action, CommandDiff, FileChange, warn_of};
use super::saved_untracked::{SavedUntracked, UnscannedFiles};
use crate::engine::change::external_changes::{
    Backups, CommandChanges, CommandFile, EmptyFile, SpecialFile, Traces,
};
use crate::engine::change::{Change, record};
use crate::engine::history::client_calls::ConcurrentChanges;
use crate::engine::history::replay::is_same;
use crate::engine::journal::steps::Thing as Marked;
use crate::engine::journal::{FolderEntry, FolderMode, Version};
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::repository_marks::HeldMark;
use crate::engine::snapshot::{Store, Trees};
use crate::engine::store::state::State;
use crate::engine::workspace::metadata::Identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::{EntryStat, Survey, SurveyDiff};
use crate::engine::workspace::{Workspace, digest, fs};
use crate::error::{Error, text};
use crate::sha256::Sha256;
use crate::tools::common::warn_of_lossy;

/// Index of the snapshot before the command.
const BEFORE: usize = 0;
/// Index of the snapshot after the command.
const AFTER: usize = 1;

/// The work tree at one moment, as a scan found it.
pub struct ScannedTree {
    /// Files that the snapshot leaves out.
    pub untracked: UnscannedFiles,
    /// Newest snapshot.
    pub tip: Option<String>,
}

/// The work tree before and after a command.
pub struct TreePair<'a> {
    /// Surveys before and after.
    pub surveys: [&'a Survey; 2],
    /// Scans before and after.
    pub trees: [&'a ScannedTree; 2],
    /// True if another command ran at the same time.
    pub is_overlapped: bool,
    /// Bytes of files that no snapshot has.
    pub kept: &'a SavedUntracked,
    /// Changes that others made meanwhile.
    pub theirs: &'a ConcurrentChanges,
    /// Repositories that the command made, moved aside since.
    pub held: &'a [HeldMark],
}

/// Records in the journal what a command did; returns the changes.
///
/// # Errors
/// Returns the OS error.
pub fn record(
    mut change: Change<'_>,
    sides: &TreePair<'_>,
    touched: &[SurveyDiff],
    message: (String, Option<String>),
) -> Result<CommandDiff, Error> {
    let state = State::open(change.workspace())?;
    let mut collector = ChangeCollector::new(&change, &state, sides)?;
    for touched in touched {
        if !sides.held.iter().any(|held| touched.path.is_within(&held.path)) {
            collector.add_difference(touched)?;
        }
    }
    for held in sides.held {
        collector
            .add_arrival(&held.path, Marked { inode: held.inode, is_folder: held.is_folder, closed: None });
    }
    let by_others = std::mem::take(&mut collector.by_others);
    let lost = std::mem::take(&mut collector.ignored_lost);
    let (done, backups, mut list) = collector.finish();
    // Files that are listed and cannot be undone are recorded as well: an undo reports them.
    let is_recorded = !done.is_empty() || !list.is_empty();
    list_so_far(&mut list, sides.theirs);
    let overlapped = list.iter().filter(|_| sides.is_overlapped).map(|listed| listed.path.clone());
    let overlapped: Vec<WorkspacePath> = overlapped.collect();
    // Nobody knows who wrote them.
    warn_of(change.engine(), &by_others, |names| {
        text!(
            "recorded as the changes of another command that ran at the same time: {}. Commands with `transaction` are kept apart",
            names
        )
    });
    warn_of(change.engine(), &overlapped, |names| {
        format!(
            "another command ran at the same time, and some of these changes may be its own: {names}. Undo takes them back with this command's"
        )
    });
    warn_of(change.engine(), &lost, |names| {
        format!(
            "git ignores these files, and they are too large or too many to be kept; undo does not take back what the command did to them: {names}"
        )
    });
    warn_of_lossy(change.engine(), list.iter().map(|changed| changed.path.as_bytes()));
    let difference = CommandDiff::of(change.workspace(), list);
    if is_recorded {
        change.record_done(done, &backups, message, Traces::default())?;
    }
    Ok(difference)
}

/// Lists the files of which a part of the command's changes was recorded before.
fn list_so_far(list: &mut Vec<FileChange>, theirs: &ConcurrentChanges) {
    for (path, (before, after)) in &theirs.so_far {
        match list.iter_mut().find(|listed| listed.path == *path) {
            Some(listed) if before.is_none() && listed.action == Action::Modify => {
                listed.action = Action::Create;
            }
            // It made the file and removed it again.
            Some(listed) if before.is_none() && listed.action == Action::Delete => {
                let path = &listed.path.clone();
                list.retain(|listed| listed.path != *path);
            }
            Some(_) => {}
            None => {
                let action = Action::effect_between(before.as_ref(), after.as_ref());
                let (path, sha256) = (path.clone(), None);
                list.push(FileChange { path, action, sha256, ignored: None, is_lost: false });
            }
        }
    }
    list.sort_by(|one, next| one.path.cmp(&next.path));
}

/// A folder that was made or removed.
#[derive(Default)]
struct FolderEvent {
    /// Its permission bits.
    mode: u32,
    /// True if it lies in a folder that git ignores: alone it counts as no change.
    is_ignored: bool,
    /// True if an undo restores anything in it.
    has_recorded: bool,
    /// True if an undo leaves anything in it out.
    has_others: bool,
}

/// Folders that a command removed, or made.
type FolderEvents = BTreeMap<WorkspacePath, FolderEvent>;

/// Collects the changes of a command, as far as they are known.
struct ChangeCollector<'a, 's, 'e> {
    /// Change to record.
    change: &'a Change<'e>,
    /// The snapshots.
    store: Option<Store>,
    /// The files of the newest snapshots before and after.
    tips: [Option<RefCell<Trees>>; 2],
    /// The work tree.
    sides: &'a TreePair<'a>,
    /// Old bytes.
    backups: Backups<'s>,
    /// Changes to record.
    done: CommandChanges,
    /// Folders that only existed before, and after.
    folders: [FolderEvents; 2],
    /// Files for the response.
    list: BTreeMap<WorkspacePath, FileChange>,
    /// Ignored files whose old bytes nobody has.
    ignored_lost: Vec<WorkspacePath>,
    /// Largest ignored file that is recorded, in bytes.
    ignored_file_bytes: u64,
    /// Bytes of new ignored files that may still be recorded.
    ignored_bytes_left: u64,
    /// Files that are not listed, since another command ended first and recorded them.
    by_others: Vec<WorkspacePath>,
}

impl<'a, 's, 'e> ChangeCollector<'a, 's, 'e> {
    /// Starts without changes.
    fn new(change: &'a Change<'e>, state: &'s State, sides: &'a TreePair<'a>) -> Result<Self, Error> {
        let store = record::find(change.engine_ref())?;
        let files_of = |tree: &ScannedTree| match (&store, &tree.tip) {
            (Some(store), Some(tip)) => store.files_of(tip).map(|files| Some(RefCell::new(files))),
            _ => Ok(None),
        };
        let [before, after] = sides.trees.map(files_of);
        Ok(Self {
            change,
            tips: [before?, after?],
            store,
            sides,
            backups: Backups::new(state),
            done: CommandChanges::default(),
            folders: Default::default(),
            list: BTreeMap::new(),
            ignored_lost: Vec::new(),
            ignored_file_bytes: change.policy().number(Key::BashIgnoredFileBytes),
            ignored_bytes_left: change.policy().number(Key::BashIgnoredBytes),
            by_others: Vec::new(),
        })
    }

    /// Adds a difference.
    fn add_difference(&mut self, touched: &SurveyDiff) -> Result<(), Error> {
        let SurveyDiff { path, before, after } = touched;
        if self.sides.theirs.is_theirs(path) {
            return Ok(());
        }
        match (before, after) {
            (Some(before), Some(after)) if is_file(before) && is_file(after) => {
                self.take_file(path, Some(before), Some(after))
            }
            (Some(before), Some(after)) if before.kind().is_dir() && after.kind().is_dir() => {
                let (before, after) = (before.recorded_mode(), after.recorded_mode());
                if before != after && !self.sides.theirs.folders.contains(path) {
                    self.done.modes.push(FolderMode { path: path.clone(), before, after });
                    self.note_listed(path, Action::Modify, None);
                }
                Ok(())
            }
            (None, None) => self.take_file(path, None, None),
            (before, after) => {
                before.as_ref().map_or(Ok(()), |before| self.add_deleted(path, before))?;
                after.as_ref().map_or(Ok(()), |after| self.add_new(path, after))?;
                if before.is_some() && after.is_some() {
                    self.note_replaced(path);
                }
                Ok(())
            }
        }
    }

    /// Records a folder that replaced something, or was replaced, though git ignores it and it is empty: undo and redo
    /// clear the path for the other entry.
    fn note_replaced(&mut self, path: &WorkspacePath) {
        // Example: git ignores `d2/`, and only commands 1 and 2 ran.
        //
        //   1  rm d2/y              records: file d2/y is gone
        //   2  rm -r d2; echo > d2  records: folder d2 is gone, file d2 is new
        //
        // Without the folder, undo of 2 and 1 makes d2 for d2/y, and redo leaves it in the way of the file.
        for folder in self.folders.iter_mut().filter_map(|folders| folders.get_mut(path)) {
            folder.has_recorded = true;
        }
    }

    /// Adds something that was deleted.
    fn add_deleted(&mut self, path: &WorkspacePath, before: &EntryStat) -> Result<(), Error> {
        if is_file(before) {
            return self.take_file(path, Some(before), None);
        }
        if before.kind().is_dir() {
            self.take_folder(BEFORE, path, before);
            return Ok(());
        }
        if SpecialFile::can_be_made(before.kind()) {
            let (kind, mode) = (before.kind(), before.recorded_mode());
            self.note(BEFORE, path, |folder| folder.has_recorded = true);
            self.done.deleted.push(SpecialFile { path: path.clone(), kind, mode });
        } else {
            self.done.lost.push(path.clone());
        }
        self.note_listed(path, Action::Delete, None);
        Ok(())
    }

    /// Adds a folder that exists on one side alone.
    fn take_folder(&mut self, side: usize, path: &WorkspacePath, folder: &EntryStat) {
        if !self.sides.theirs.folders.contains(path) {
            let ignored = self.untracked(|untracked| untracked.ignored_folder(path));
            let (mode, is_ignored) = (folder.recorded_mode(), ignored.is_some_and(|it| it.0 != path));
            let seen = FolderEvent { mode, is_ignored, ..FolderEvent::default() };
            self.folders.get_mut(side).map(|folders| folders.insert(path.clone(), seen));
        }
    }

    /// Adds something new.
    fn add_new(&mut self, path: &WorkspacePath, after: &EntryStat) -> Result<(), Error> {
        if after.kind().is_dir() {
            self.take_folder(AFTER, path, after);
            return Ok(());
        }
        if is_file(after) {
            let is_theirs = self.sides.theirs.files.contains_key(path);
            let is_known = is_theirs || self.is_left_out(path) || self.is_in(AFTER, path)?;
            let is_taken = is_known || self.takes_ignored(path, after.size());
            if !is_taken && (!self.is_ignored(path) || self.is_in_large_folder(path)) {
                self.note(AFTER, path, |folder| folder.has_others = true);
                return Ok(());
            }
            // To take back a new file, nobody needs its bytes.
            if is_taken && after.size() <= self.change.file_bytes_max() {
                return self.take_file(path, None, Some(after));
            }
        }
        self.add_arrival(path, Marked { inode: after.inode(), is_folder: false, closed: None });
        Ok(())
    }

    /// Records something that an undo can move away, but a redo cannot create from bytes.
    fn add_arrival(&mut self, path: &WorkspacePath, thing: Marked) {
        self.done.arrived.push(EmptyFile { path: path.clone(), thing });
        let action = if self.list.contains_key(path) { Action::Modify } else { Action::Create };
        self.note_listed(path, action, None);
        self.note(AFTER, path, |folder| folder.has_recorded = true);
    }

    /// Returns what a scan before or after says of a path.
    fn untracked<'t, T>(&'t self, of: impl FnMut(&'t UnscannedFiles) -> Option<T>) -> Option<T> {
        self.sides.trees.iter().map(|tree| &tree.untracked).find_map(of)
    }

    /// Returns true if git ignores a path.
    fn is_ignored(&self, path: &WorkspacePath) -> bool {
        self.untracked(|untracked| untracked.ignores(path).then_some(())).is_some()
    }

    /// Returns true if an ignored folder with too many files holds a path.
    fn is_in_large_folder(&self, path: &WorkspacePath) -> bool {
        self.untracked(|untracked| untracked.ignored_folder(path).filter(|folder| folder.1)).is_some()
    }

    /// Returns true if a new file of that size is recorded though git ignores it.
    fn takes_ignored(&mut self, path: &WorkspacePath, size: u64) -> bool {
        if self.is_in_large_folder(path)
            || !self.is_ignored(path)
            || size > self.ignored_file_bytes.min(self.ignored_bytes_left)
        {
            return false;
        }
        self.ignored_bytes_left -= size;
        true
    }

    /// Adds a path to the response.
    fn note_listed(&mut self, path: &WorkspacePath, action: Action, sha256: Option<Sha256>) {
        self.list.insert(path.clone(), self.response_entry(path, action, sha256));
    }

    /// Returns the entry of a path in the response.
    fn response_entry(&self, path: &WorkspacePath, action: Action, sha256: Option<Sha256>) -> FileChange {
        let folder = || self.untracked(|untracked| untracked.ignored_folder(path)).map_or(path, |it| it.0);
        let ignored = self.is_ignored(path).then(|| folder().clone());
        FileChange { path: path.clone(), action, sha256, ignored, is_lost: false }
    }

    /// Adds a file with its versions before and after.
    fn take_file(
        &mut self,
        path: &WorkspacePath,
        before: Option<&EntryStat>,
        after: Option<&EntryStat>,
    ) -> Result<(), Error> {
        let new = match after {
            Some(after) if after.size() > self.change.file_bytes_max() => return self.lose_if_known(path),
            Some(after) => match version_at(self.change.workspace(), path, after) {
                Some(version) => Some(version),
                // It changed again, or cannot be read.
                None => return self.lose_if_known(path),
            },
            None => None,
        };
        let old = match before {
            None => None,
            Some(before) => match self.old_version(path, before, after.zip(new.as_ref()))? {
                Some(old) => Some(old),
                None if self.sides.theirs.files.contains_key(path) => None,
                None => return self.lose_if_known(path),
            },
        };
        let (old_version, old_bytes) =
            old.map_or((None, None), |(version, bytes)| (Some(version), Some(bytes)));
        let (from, to, bytes) = match self.sides.theirs.files.get(path) {
            None => (old_version, new, old_bytes),
            // Its own change came before, and is recorded.
            Some((_, last))
                if self.sides.theirs.so_far.contains_key(path) && is_same(last.as_ref(), new.as_ref()) =>
            {
                return Ok(());
            }
            // The last write is theirs: an undo of its own could only fail.
            Some((first, last)) if is_same(last.as_ref(), new.as_ref()) => {
                if !is_same(old_version.as_ref(), first.as_ref()) {
                    let action = Action::effect_between(old_version.as_ref(), first.as_ref());
                    self.note_listed(path, action, None);
                    self.done.lost.push(path.clone());
                    return Ok(());
                }
                (old_version, first.clone(), old_bytes)
            }
            Some((_, last)) => {
                let bytes = last.as_ref().and_then(|last| self.change.bytes_seen(path, last.sha256));
                if last.is_some() && bytes.is_none() {
                    return self.lose_if_known(path);
                }
                (last.clone(), new, bytes)
            }
        };
        if is_same(from.as_ref(), to.as_ref()) {
            if self.sides.theirs.by_commands.contains(path) {
                self.by_others.push(path.clone());
            }
            return Ok(());
        }
        if let (Some(from), Some(bytes)) = (&from, bytes) {
            self.backups.add(&bytes, from)?;
        }
        let action = Action::effect_between(from.as_ref(), to.as_ref());
        let sha256 = to.as_ref().filter(|to| !fs::is_symlink_mode(to.mode)).map(|to| to.sha256);
        self.note_listed(path, action, sha256);
        self.note(usize::from(to.is_some()), path, |folder| folder.has_recorded = true);
        self.done.files.push(CommandFile { path: path.clone(), before: from, after: to });
        Ok(())
    }

    /// Returns the old version of a file, and its bytes if they are known; `now` is the current version.
    fn old_version(
        &self,
        path: &WorkspacePath,
        before: &EntryStat,
        now: Option<(&EntryStat, &Version)>,
    ) -> Result<Option<(Version, Vec<u8>)>, Error> {
        if before.size() > self.change.file_bytes_max() {
            return Ok(None);
        }
        // A program can reset size and write time, so old bytes count first.
        let bytes = match (self.bytes_before(path, before.size())?, now) {
            (None, Some((after, _))) if before.looks_like(after) => self.bytes_now(path, after),
            (bytes, _) => bytes,
        };
        Ok(bytes.map(|bytes| (version_of(&bytes, before), bytes)))
    }

    /// Returns the bytes from the snapshot before the command, or from those saved with it.
    fn bytes_before(&self, path: &WorkspacePath, size: u64) -> Result<Option<Vec<u8>>, Error> {
        if let Some(bytes) = self.sides.kept.bytes_of(path, size) {
            return Ok(Some(bytes.to_vec()));
        }
        let [Some(files), _] = &self.tips else { return Ok(None) };
        let Some(store) = &self.store else { return Ok(None) };
        Ok(store.file_of_size(&mut files.borrow_mut(), path.as_bytes(), size)?)
    }

    /// Returns the current bytes at a path.
    fn bytes_now(&self, path: &WorkspacePath, after: &EntryStat) -> Option<Vec<u8>> {
        if after.kind().is_symlink() {
            return fs::link_beneath(self.change.workspace().root_fd(), path).ok();
        }
        let (file, stat) = self.change.workspace().open_regular(path, "").ok()?;
        fs::read_to_end(file, fs::size_of(&stat), self.change.file_bytes_max()).ok()
    }

    /// Returns true if the snapshots leave a file out that git does not ignore.
    fn is_left_out(&self, path: &WorkspacePath) -> bool {
        self.untracked(|untracked| untracked.skip_reason(path)).is_some()
    }

    /// Returns true if the newest snapshot [`BEFORE`] or [`AFTER`] the command has a file.
    fn is_in(&self, side: usize, path: &WorkspacePath) -> Result<bool, Error> {
        let (Some(store), Some(Some(files))) = (&self.store, self.tips.get(side)) else { return Ok(false) };
        Ok(store.has_at(&mut files.borrow_mut(), path.as_bytes())?)
    }

    /// Records a file without old bytes, which the response lists unless git ignores it.
    fn lose_if_known(&mut self, path: &WorkspacePath) -> Result<(), Error> {
        if self.is_left_out(path) || self.is_in(BEFORE, path)? || self.is_in(AFTER, path)? {
            let action =
                if self.sides.surveys[AFTER].at(path).is_some() { Action::Modify } else { Action::Delete };
            self.note_listed(path, action, None);
        } else if self.is_ignored(path) {
            self.ignored_lost.push(path.clone());
        }
        self.note(BEFORE, path, |folder| folder.has_others = true);
        self.done.lost.push(path.clone());
        Ok(())
    }

    /// Returns all changes, and the list for the response.
    fn finish(mut self) -> (CommandChanges, Backups<'s>, Vec<FileChange>) {
        // Nobody wants to undo a change of empty folders alone inside an ignored folder.
        let is_quiet = self.done.is_empty() && self.list.is_empty();
        let is_quiet =
            is_quiet && self.folders.iter().all(|folders| folders_to_record(folders, true).is_empty());
        let [removed, made] =
            [&self.folders[BEFORE], &self.folders[AFTER]].map(|folders| folders_to_record(folders, is_quiet));
        let [before, after] = self.sides.surveys;
        for (folders, survey, action) in [(&made, after, Action::Create), (&removed, before, Action::Delete)]
        {
            for folder in folders.keys().filter(|folder| survey.is_empty(folder)) {
                let new = self.response_entry(folder, action, None);
                // A file that replaced the folder, or that it replaced, has an entry.
                let listed = self.list.entry(folder.clone());
                listed.and_modify(|listed| listed.action = Action::Modify).or_insert(new);
            }
        }
        let entries = |folders: BTreeMap<WorkspacePath, u32>, survey: &Survey| {
            let entry = |(path, mode): (WorkspacePath, u32)| {
                let identity = survey.at(&path).and_then(|folder| Identity::of_owner(folder.owner()));
                FolderEntry { path, mode: Some(mode), identity }
            };
            folders.into_iter().map(entry).collect()
        };
        self.done.made = entries(made, after);
        self.done.removed = entries(removed, before);
        self.note_closed();
        let mut list: Vec<FileChange> = std::mem::take(&mut self.list).into_values().collect();
        let lost: BTreeSet<&WorkspacePath> = self.done.lost.iter().collect();
        list.iter_mut().for_each(|change| change.is_lost = lost.contains(&change.path));
        (self.done, self.backups, list)
    }

    /// Records the folders in which names were changed though their mode forbids it to the owner, before the command
    /// and after: an undo makes them writable as the command did.
    fn note_closed(&mut self) {
        let files = self.done.files.iter().map(|file| &file.path);
        let folders = self.done.made.iter().chain(&self.done.removed).map(|folder| &folder.path);
        let parents: BTreeSet<WorkspacePath> =
            files.chain(folders).filter_map(WorkspacePath::parent).collect();
        for path in parents {
            if let [Some(before), Some(after)] = self.sides.surveys.map(|survey| survey.at(&path))
                && before.mode() == after.mode()
                && before.kind().is_dir()
                && fs::is_closed(before.recorded_mode())
            {
                let (before, after) = (before.recorded_mode(), after.recorded_mode());
                self.done.modes.push(FolderMode { path, before, after });
            }
        }
    }

    /// Updates the record of every folder of one side that holds a path.
    fn note(&mut self, side: usize, path: &WorkspacePath, change: impl Fn(&mut FolderEvent)) {
        let Some(folders) = self.folders.get_mut(side) else { return };
        for holder in path.and_above().skip(1) {
            if let Some(seen) = folders.get_mut(&holder) {
                change(seen);
            }
        }
    }
}

/// Returns the current version of a file that a survey found; `None` if it cannot be read.
pub fn version_at(workspace: &Workspace, path: &WorkspacePath, thing: &EntryStat) -> Option<Version> {
    if thing.kind().is_symlink() {
        return Some(version_of(&fs::link_beneath(workspace.root_fd(), path).ok()?, thing));
    }
    let (file, _) = workspace.open_regular(path, "").ok()?;
    let (sha256, mode) = (digest::sha256_of(file).ok()?, thing.recorded_mode());
    Some(Version { sha256, size: thing.size(), mode, identity: Identity::of_owner(thing.owner()) })
}

/// Returns the version of a file with these bytes.
pub fn version_of(bytes: &[u8], thing: &EntryStat) -> Version {
    let (mode, identity) = (thing.recorded_mode(), Identity::of_owner(thing.owner()));
    Version { sha256: Sha256::of(bytes), size: bytes.len() as u64, mode, identity }
}

/// Returns true if a thing has bytes.
pub fn is_file(thing: &EntryStat) -> bool {
    thing.kind().is_file() || thing.kind().is_symlink()
}

/// Returns the folders to record: leaves out those in which only files that are not recorded appeared or disappeared, and
/// all folders in them; if `is_quiet`, also those that git ignores.
fn folders_to_record(folders: &FolderEvents, is_quiet: bool) -> BTreeMap<WorkspacePath, u32> {
    let mut kept: BTreeMap<WorkspacePath, u32> = BTreeMap::new();
    for (path, seen) in folders {
        let parent = path.parent().unwrap_or_default();
        let is_apart = !folders.contains_key(&parent) || kept.contains_key(&parent);
        let counts = !(seen.is_ignored && is_quiet) || kept.contains_key(&parent);
        if is_apart && (seen.has_recorded || (counts && !seen.has_others)) {
            kept.insert(path.clone(), seen.mode);
        }
    }
    kept
}
