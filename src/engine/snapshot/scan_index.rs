//! What the last full scan saw: an index of lbx's own, never the user's.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::{Flags, Mode, Stat};
use gix::index::{File, State, decode, write};
use gix::objs::tree::EntryKind;

use super::compare;
use super::error::{Doing as _, SnapshotError};
use super::racy::Clock;
use super::tree::Found;

/// Folder of the index, in the state folder.
const FOLDER: &str = "scan";
/// Where more paths than these have changed on the branch since the last scan, its index is old.
const OLD_PATHS_MAX: usize = 500;

/// The index of the last scan.
///
/// It has exactly the entries of one tree, which its file is named after, with what the file
/// system said of each file when its content was that.
pub struct ScanIndex {
    /// The index.
    pub file: File,
    /// The tree whose entries it has.
    pub tree: ObjectId,
    /// The folder that it lies in.
    folder: PathBuf,
    /// Paths whose entries go at the next [`save`](Self::save).
    removed: BTreeSet<BString>,
    /// Entries that come then.
    added: Vec<(BString, Found, Stat)>,
    /// Whether it was read from its file.
    is_stored: bool,
}

impl ScanIndex {
    /// The index of the last scan, else one of `tree` that knows what the user's own index knows.
    pub fn load(repo: &gix::Repository, state: &Path, tree: ObjectId) -> Result<Self, SnapshotError> {
        let folder = state.join(FOLDER);
        fs::create_dir_all(&folder).doing(|| format!("cannot make `{}`", folder.display()))?;
        // A sparse checkout may have other folders by now, so what is known is asked for anew.
        let sparse = repo.config_snapshot().boolean("core.sparseCheckout").unwrap_or(false);
        let last = if sparse { None } else { last(repo, &folder) };
        let is_old = |then: ObjectId| {
            compare::trees(repo, then, tree, OLD_PATHS_MAX).is_ok_and(|changes| changes.truncated)
        };
        let users = match &last {
            // After a checkout git's own index knows the files better.
            Some((_, then)) if !is_old(*then) => None,
            _ => repo.open_index().ok(),
        };
        if let (Some((file, tree)), None) = (last, &users) {
            return Ok(Self::of(file, tree, folder, true));
        }
        if let Some(file) = users.as_ref().and_then(|users| as_it_is(users, tree)) {
            return Ok(Self::of(file, tree, folder, false));
        }
        let mut file =
            repo.index_from_tree(&tree).doing(|| "the files of the last snapshot cannot be listed".into())?;
        if let Some(users) = &users {
            take_over(&mut file, users);
        }
        Ok(Self::of(file, tree, folder, false))
    }

    /// An index that nothing has been noted in yet.
    fn of(file: File, tree: ObjectId, folder: PathBuf, is_stored: bool) -> Self {
        Self { file, tree, folder, removed: BTreeSet::new(), added: Vec::new(), is_stored }
    }

    /// Judges the stat data in it; `modes` says whether the bit to execute counts.
    pub fn clock(&self, modes: bool) -> Clock {
        let scanned = self.file.timestamp();
        Clock::new(scanned.unix_seconds(), scanned.nanoseconds(), modes)
    }

    /// Whether its file serves the next scan as well as a new one would, where nothing has changed.
    ///
    /// Files whose stat data prove nothing are read again by each scan until a later one is stored.
    pub fn is_settled(&self, clock: Clock) -> bool {
        self.is_stored && !self.file.entries().iter().any(|entry| clock.is_racy(&entry.stat))
    }

    /// What it has at a place.
    pub fn found(&self, at: usize) -> Option<(BString, Found)> {
        let entry = self.file.entries().get(at)?;
        let kind = entry.mode.to_tree_entry_mode()?.kind();
        Some((entry.path(&self.file).to_owned(), Found { kind, id: entry.id }))
    }

    /// Notes that `path` is `found` now, and that the file system says `stat` of it.
    pub fn put(&mut self, path: &BStr, found: Option<Found>, stat: Option<Stat>) {
        let at = self.file.entry_index_by_path(path);
        let (Some(found), Some(stat)) = (found, stat) else {
            self.removed.insert(path.to_owned());
            return;
        };
        let mode = mode_of(found.kind);
        match at.ok().and_then(|at| self.file.entries_mut().get_mut(at)) {
            Some(entry) => {
                (entry.id, entry.mode, entry.stat) = (found.id, mode, stat);
                entry.flags.remove(Flags::SKIP_WORKTREE);
            }
            None => self.added.push((path.to_owned(), found, stat)),
        }
    }

    /// Notes what the file system says of `path`, whose entry stays as it is.
    pub fn refresh(&mut self, path: &BStr, stat: Option<Stat>) {
        let at = self.file.entry_index_by_path(path);
        let entry = at.ok().and_then(|at| self.file.entries_mut().get_mut(at));
        if let (Some(entry), Some(stat)) = (entry, stat) {
            entry.stat = stat;
            entry.flags.remove(Flags::SKIP_WORKTREE);
        }
    }

    /// Stores the index as that of `tree`, as of the time `began`, before the scan.
    ///
    /// A cache, so it is not synced: a damaged one is made anew.
    pub fn save(mut self, tree: ObjectId, began: SystemTime) -> Result<(), SnapshotError> {
        let path = self.folder.join(tree.to_hex().to_string());
        let doing = || format!("cannot write `{}`", path.display());
        let removed = std::mem::take(&mut self.removed);
        if !removed.is_empty() {
            self.file.remove_entries(|_, path, _| removed.contains(path));
        }
        for (path, found, stat) in std::mem::take(&mut self.added) {
            let mode = mode_of(found.kind);
            self.file.dangerously_push_entry(stat, found.id, Flags::empty(), mode, path.as_bstr());
        }
        self.file.sort_entries();
        self.file.remove_tree();
        self.file.set_path(&path);
        // The caller holds lbx's own lock, so whoever left this one is dead.
        let _ = fs::remove_file(path.with_extension("lock"));
        let options = write::Options { skip_hash: true, ..write::Options::default() };
        self.file.write(options).doing(doing)?;
        let written = fs::OpenOptions::new().write(true).open(&path).doing(doing)?;
        written.set_modified(began).doing(doing)?;
        for other in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if other.path() != path {
                let _ = fs::remove_file(other.path());
            }
        }
        Ok(())
    }
}

/// The stored index, where there is one that can be read and whose tree is still there.
fn last(repo: &gix::Repository, folder: &Path) -> Option<(File, ObjectId)> {
    let entry = fs::read_dir(folder).ok()?.flatten().find(|entry| hex_of(&entry.path()).is_some())?;
    let tree = hex_of(&entry.path())?;
    let _there = repo.find_tree(tree).ok()?;
    let file = File::at(entry.path(), repo.object_hash(), true, decode::Options::default()).ok()?;
    Some((file, tree))
}

/// The tree that an index file is named after.
fn hex_of(path: &Path) -> Option<ObjectId> {
    ObjectId::from_hex(path.file_name()?.to_str()?.as_bytes()).ok()
}

/// The user's own index as that of `tree`, where it says that it has just what `tree` has.
///
/// Nothing has to be read from the object store then, whatever the size of the repository.
fn as_it_is(users: &File, tree: ObjectId) -> Option<File> {
    let whole = users.tree().filter(|cached| cached.id == tree)?;
    let has_all = usize::try_from(whole.num_entries?).ok()? == users.entries().len();
    let is_plain = |entry: &gix::index::Entry| {
        entry.stage_raw() == 0 && entry.mode != Mode::DIR && !entry.flags.contains(Flags::INTENT_TO_ADD)
    };
    if !has_all || !users.entries().iter().all(is_plain) {
        return None;
    }
    let mut file = users.clone();
    let trusted_until = file.timestamp().unix_seconds();
    for entry in file.entries_mut() {
        entry.flags &= skipped();
        if !is_older(&entry.stat, trusted_until) {
            entry.stat = Stat::default();
        }
    }
    Some(file)
}

/// Takes over from the user's index what it knows of files whose content is the same.
///
/// What was touched as late as that index itself is not believed, since a later change may
/// look the same. Entries that are not checked out stay so.
fn take_over(file: &mut File, users: &State) {
    let sparse: Vec<BString> = users
        .entries()
        .iter()
        .filter(|entry| entry.mode == Mode::DIR)
        .map(|entry| entry.path(users).to_owned())
        .collect();
    let trusted_until = users.timestamp().unix_seconds();
    for (entry, path) in file.entries_mut_with_paths() {
        match users.entry_by_path(path) {
            Some(known) if known.flags.contains(Flags::SKIP_WORKTREE) => entry.flags.insert(skipped()),
            Some(known) => {
                let same = known.id == entry.id && known.mode == entry.mode;
                if same && is_older(&known.stat, trusted_until) {
                    entry.stat = known.stat;
                }
            }
            None if sparse.iter().any(|folder| path.starts_with(folder.as_bytes())) => {
                entry.flags.insert(skipped());
            }
            None => {}
        }
    }
}

/// Whether a file was last touched before the second `until`.
fn is_older(stat: &Stat, until: i64) -> bool {
    i64::from(stat.mtime.secs.max(stat.ctime.secs)) < until
}

/// Marks an entry that is not checked out.
fn skipped() -> Flags {
    Flags::SKIP_WORKTREE | Flags::EXTENDED
}

/// The mode of an index entry.
fn mode_of(kind: EntryKind) -> Mode {
    match kind {
        EntryKind::Tree => Mode::DIR,
        EntryKind::Blob => Mode::FILE,
        EntryKind::BlobExecutable => Mode::FILE_EXECUTABLE,
        EntryKind::Link => Mode::SYMLINK,
        EntryKind::Commit => Mode::COMMIT,
    }
}
