//! Index of the last full scan: lbx's own, never the user's.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::SystemTime;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::{Flags, Mode, Stat};
use gix::index::{File, State, decode, write};
use gix::objs::tree::{EntryKind, EntryMode};

use crate::control::Control;
use crate::engine::snapshot::record::disk::RacyClock;
use crate::engine::snapshot::store::dir::Dir;
use crate::engine::snapshot::store::open::StatePlace;
use crate::engine::snapshot::store::repo::Repo;
use crate::engine::snapshot::store::tree;
use crate::engine::snapshot::store::tree::TreeItem;
use crate::engine::snapshot::store::{ErrorContext as _, SnapshotError};
use crate::engine::snapshot::view::compare;
use crate::limits::{INDEX_ENTRIES_MAX, INDEX_NAMES_MAX};
use crate::platform;

/// Folder of the index, in the state folder.
const FOLDER: &str = "scan";
/// Name of an unfinished index.
const ASIDE: &str = "new";
/// Number of paths changed on the branch since the last scan above which its index is too old.
const OLD_PATHS_MAX: usize = 500;
/// Largest index that is read, lbx's own or the user's, in bytes: some two million files.
const INDEX_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Index of the last scan.
///
/// Has exactly the entries of one tree, which gives the file its name, with the stat of each file from when it had that
/// content.
pub struct ScanIndex {
    /// The index.
    pub file: File,
    /// Tree whose entries it has.
    pub tree: ObjectId,
    /// Folder of the file.
    folder: Dir,
    /// Paths to remove at the next [`save`](Self::save).
    removed: BTreeSet<BString>,
    /// Entries to add then.
    added: Vec<(BString, TreeItem, Stat)>,
    /// True if it was read from its file.
    is_stored: bool,
}

impl ScanIndex {
    /// Returns the index of the last scan, else one of `tree` with the stat data of the user's own index.
    pub fn load(
        repo: &Repo,
        place: &StatePlace,
        tree: ObjectId,
        control: &Control,
    ) -> Result<Self, SnapshotError> {
        let folder = folder(place)?;
        // A sparse checkout may have other folders by now, so read the user's index again.
        let sparse = repo.settings().boolean("core.sparseCheckout").unwrap_or(false);
        let last = if sparse { None } else { last(repo, &folder) };
        let is_old = |then: ObjectId| {
            compare::trees(repo, then, tree, OLD_PATHS_MAX).is_ok_and(|changes| changes.truncated)
        };
        let users = match &last {
            // After a checkout git's own index has newer stat data.
            Some((_, then)) if !is_old(*then) => None,
            _ => users_index(repo),
        };
        if let (Some((file, tree)), None) = (last, &users) {
            return Ok(Self::of(file, tree, folder, true));
        }
        if let Some(file) = users.as_ref().and_then(|users| users_index_of(users, tree)) {
            return Ok(Self::of(file, tree, folder, false));
        }
        let mut file = of_tree(repo, tree, control)?;
        if let Some(users) = &users {
            copy_stats(&mut file, users);
        }
        Ok(Self::of(file, tree, folder, false))
    }

    /// Returns an unchanged index.
    fn of(file: File, tree: ObjectId, folder: Dir, is_stored: bool) -> Self {
        Self { file, tree, folder, removed: BTreeSet::new(), added: Vec::new(), is_stored }
    }

    /// Returns the clock for its stat data; `modes` is true if the executable bit counts.
    pub fn clock(&self, modes: bool) -> RacyClock {
        let scanned = self.file.timestamp();
        RacyClock::new(scanned.unix_seconds(), scanned.nanoseconds(), modes)
    }

    /// Returns true if its file is as good for the next scan as a new one, if nothing has changed.
    ///
    /// Every scan reads files again whose stat data prove nothing, until a later index is stored.
    pub fn is_settled(&self, clock: RacyClock) -> bool {
        self.is_stored && !self.file.entries().iter().any(|entry| clock.is_racy(&entry.stat))
    }

    /// Returns the entry at a position.
    pub fn found(&self, at: usize) -> Option<(BString, TreeItem)> {
        let entry = self.file.entries().get(at)?;
        let kind = entry.mode.to_tree_entry_mode()?.kind();
        Some((entry.path(&self.file).to_owned(), TreeItem { kind, id: entry.id }))
    }

    /// Sets the entry of `path` to `found`, with its `stat`.
    pub fn put(&mut self, path: &BStr, found: Option<TreeItem>, stat: Option<Stat>) {
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

    /// Sets the stat of `path`, whose entry does not change.
    pub fn refresh(&mut self, path: &BStr, stat: Option<Stat>) {
        let at = self.file.entry_index_by_path(path);
        let entry = at.ok().and_then(|at| self.file.entries_mut().get_mut(at));
        if let (Some(entry), Some(stat)) = (entry, stat) {
            entry.stat = stat;
            entry.flags.remove(Flags::SKIP_WORKTREE);
        }
    }

    /// Stores it as the index of `tree`, as of the time `began`, before the scan.
    ///
    /// Does not sync, since it is a cache: a damaged one is rebuilt.
    pub fn save(mut self, tree: ObjectId, began: SystemTime) -> Result<(), SnapshotError> {
        let doing = || format!("cannot write `{}`", self.folder.path().display());
        let name = tree.to_hex().to_string();
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
        // The caller holds lbx's own lock, so the process that left this one is dead.
        let _ = self.folder.remove(ASIDE);
        let written = self.folder.create(ASIDE, 0o600).context(doing)?;
        let options = write::Options { skip_hash: true, ..write::Options::default() };
        let mut out = BufWriter::new(&written);
        self.file.write_to(&mut out, options).context(doing)?;
        out.flush().context(doing)?;
        drop(out);
        written.set_modified(began).context(doing)?;
        self.folder.rename(ASIDE, &self.folder, &name).context(doing)?;
        // Remove only files that lbx itself may have written, and never a folder.
        for other in self.folder.names().unwrap_or_default().iter().take(INDEX_NAMES_MAX) {
            let is_old = other.to_str().is_some_and(|other| other != name && hex_of(other).is_some());
            if is_old {
                let _ = self.folder.remove(other);
            }
        }
        Ok(())
    }
}

/// Returns the folder of the index; makes it if missing.
fn folder(place: &StatePlace) -> Result<Dir, SnapshotError> {
    let doing =
        || format!("`{}` cannot be opened as a folder of its own", place.state.join(FOLDER).display());
    let state = place.open()?.ok_or_else(|| SnapshotError::new(doing()))?;
    state.make_folder(FOLDER).context(doing)
}

/// Returns an index of all entries of a tree.
///
/// Has limits of its own, since a tree may name one folder a thousand times, on each of ten levels: gix's function
/// would fill the memory.
fn of_tree(repo: &Repo, root: ObjectId, control: &Control) -> Result<File, SnapshotError> {
    let mut state = State::new(repo.object_hash());
    let mut waiting = vec![(BString::default(), root)];
    while let Some((folder, id)) = waiting.pop() {
        control.check().context(|| "the last snapshot cannot be listed".into())?;
        for (name, entry) in tree::by_name(repo, id)? {
            if !tree::is_safe_name(&name) {
                return Err(SnapshotError::new("the last snapshot or HEAD has a name that git refuses"));
            }
            let mut path = folder.clone();
            path.extend_from_slice(&name);
            if entry.mode.is_tree() {
                path.push(b'/');
                waiting.push((path, entry.oid));
            } else {
                let mode = mode_of(entry.mode.kind());
                state.dangerously_push_entry(
                    Stat::default(),
                    entry.oid,
                    Flags::empty(),
                    mode,
                    path.as_bstr(),
                );
            }
            if state.entries().len() + waiting.len() > INDEX_ENTRIES_MAX {
                return Err(SnapshotError::new("the last snapshot has too many files to be scanned"));
            }
        }
    }
    state.sort_entries();
    Ok(File::from_state(state, Path::new("").to_owned()))
}

/// Returns the stored index, if it is readable and its tree still exists.
fn last(repo: &Repo, folder: &Dir) -> Option<(File, ObjectId)> {
    let names = folder.names().ok()?;
    let (name, tree) =
        names.iter().take(INDEX_NAMES_MAX).find_map(|name| Some((name, hex_of(name.to_str()?)?)))?;
    let _there = repo.find_tree(tree).ok()?;
    Some((stored(folder, name, repo.object_hash())?, tree))
}

/// Returns the user's own index, if it is readable.
pub fn users_index(repo: &Repo) -> Option<File> {
    stored(repo.head_folder(), "index", repo.object_hash())
}

/// Returns true if the index shows that a sparse checkout leaves out a path, or a folder above it.
pub fn is_sparse(index: &State, path: &BStr) -> bool {
    let is_skipped = |entry: &gix::index::Entry| entry.flags.contains(Flags::SKIP_WORKTREE);
    index.entry_by_path(path).is_some_and(is_skipped)
        || index.is_sparse()
            && path.find_iter(b"/").any(|slash| {
                let folder = path.get(..=slash).unwrap_or_default().as_bstr();
                index.entry_by_path(folder).is_some_and(|entry| entry.mode == Mode::DIR)
            })
}

/// Returns the index in the regular file `name`, if it is readable and every path in it is valid.
///
/// gix opens an index by its path; the one given here leads to the very file that was checked.
fn stored(folder: &Dir, name: impl AsRef<Path>, hash: gix::hash::Kind) -> Option<File> {
    let (opened, _) = folder.open_regular(name, INDEX_BYTES_MAX).ok()??;
    let path = platform::path_of(opened.as_fd());
    let options = decode::Options {
        alloc_limit_bytes: usize::try_from(INDEX_BYTES_MAX).ok(),
        ..decode::Options::default()
    };
    let file = File::at(path, hash, true, options).ok()?;
    let is_path = |path: &BStr| path.split(|byte| *byte == b'/').all(tree::is_safe_name);
    let is_plain = |entry: &gix::index::Entry| {
        let path = entry.path(&file);
        is_path(if entry.mode == Mode::DIR {
            path.strip_suffix(b"/").unwrap_or(path).as_bstr()
        } else {
            path
        })
    };
    file.entries().iter().all(is_plain).then_some(file)
}

/// Returns the tree id in the name of an index file.
fn hex_of(name: &str) -> Option<ObjectId> {
    ObjectId::from_hex(name.as_bytes()).ok()
}

/// Returns the user's own index for `tree`, if it claims to have exactly the entries of `tree`.
///
/// Then nothing has to be read from the object store, whatever the size of the repository.
fn users_index_of(users: &File, tree: ObjectId) -> Option<File> {
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

/// Copies from the user's index the stat data of files with the same content.
///
/// Skips files modified as late as that index itself, since a later change may look the same. Entries that are not
/// checked out stay so.
fn copy_stats(file: &mut File, users: &State) {
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

/// Returns true if a file was last modified before the second `until`.
fn is_older(stat: &Stat, until: i64) -> bool {
    i64::from(stat.mtime.secs.max(stat.ctime.secs)) < until
}

/// Returns the flags of an entry that is not checked out.
fn skipped() -> Flags {
    Flags::SKIP_WORKTREE | Flags::EXTENDED
}

/// Returns the mode of an index entry.
pub fn mode_of(kind: EntryKind) -> Mode {
    Mode::from(EntryMode::from(kind))
}
