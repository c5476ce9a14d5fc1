//! Walks the work tree and compares it with an index: finds files that may differ, and untracked files that git would
//! add.
//!
//! Several threads walk the folders with tracked files, and examine each file by its name in its opened folder. The
//! walk reads no rule and no file; untracked files are sorted out after it, by git's rules.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, thread};

use gix::bstr::{BString, ByteSlice as _};
use gix::index::State;
use gix::index::entry::{Flags, Mode};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::control::{Control, Progress};
use crate::engine::snapshot::record::disk::{FolderListing, OpenRoot, RacyClock, ScannedFolder, in_order};
use crate::engine::snapshot::record::rules::RepoRules;
use crate::engine::snapshot::record::{SkipReason, SkippedPath};
use crate::engine::snapshot::store::tree::{is_too_deep, joined, may_enter, may_hold_policy};
use crate::engine::snapshot::store::{ErrorContext as _, SnapshotError};
use crate::engine::workspace::listing::ListedName;
use crate::engine::workspace::listing::WorkQueue;
use crate::limits::SCAN_THREADS_MAX;

/// Fewest files that are worth a thread, as in git.
const FILES_A_THREAD: usize = 500;

/// Findings of a walk.
#[derive(Debug, Default)]
pub struct WalkFindings {
    /// Positions of index entries whose file is missing, or may differ from the index.
    pub doubtful: Vec<usize>,
    /// Files and links that are not in the index.
    pub files: Vec<BString>,
    /// Folders without entries in the index.
    pub folders: Vec<BString>,
    /// Folders that may not be read.
    pub closed: Vec<BString>,
}

impl WalkFindings {
    /// Adds the findings of another thread.
    fn add(&mut self, mut other: Self) {
        self.doubtful.append(&mut other.doubtful);
        self.files.append(&mut other.files);
        self.folders.append(&mut other.folders);
        self.closed.append(&mut other.closed);
    }

    /// Sorts everything, so that the order does not depend on the threads.
    fn sort(&mut self) {
        self.doubtful.sort_unstable();
        for paths in [&mut self.files, &mut self.folders, &mut self.closed] {
            paths.sort_unstable();
        }
    }
}

/// Walks the work tree `root` and compares it with `index`, whose stat data `clock` judges.
///
/// # Errors
/// Fails if the file system fails. If `control` stops the work, returns the findings so far; the caller must check
/// `control`.
pub fn walk(root: &OpenRoot, index: &State, clock: RacyClock, control: &Control) -> io::Result<WalkFindings> {
    let everything = FolderJob { path: BString::default(), entries: 0..index.entries().len() };
    let jobs = WorkQueue::new(vec![everything]);
    let walker = Walker { root, index, clock, control, folders: AtomicU64::new(0), jobs };
    let cores = thread::available_parallelism().map_or(1, usize::from).min(SCAN_THREADS_MAX);
    let helpers = (index.entries().len() / FILES_A_THREAD).min(cores.saturating_sub(1));
    let mut seen = thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, || walker.work()).ok();
        let threads: Vec<_> = (0..helpers).filter_map(spawn).collect();
        let mut seen = walker.work()?;
        for thread in threads {
            let ended = thread.join().map_err(|_| io::Error::other("a thread that scanned ended early"))?;
            seen.add(ended?);
        }
        io::Result::Ok(seen)
    })?;
    seen.sort();
    Ok(seen)
}

/// A folder to walk.
#[derive(Debug)]
struct FolderJob {
    /// Path from the root, ending in a slash; empty for the root.
    path: BString,
    /// Index entries below it.
    entries: Range<usize>,
}

/// A running walk.
struct Walker<'a> {
    /// The work tree.
    root: &'a OpenRoot,
    /// Index to compare with.
    index: &'a State,
    /// Judges stat data.
    clock: RacyClock,
    /// Cancellation and deadline.
    control: &'a Control,
    /// Number of folders done.
    folders: AtomicU64,
    /// Folders to do.
    jobs: WorkQueue<FolderJob>,
}

/// Index entry directly in a folder.
struct IndexChild<'a> {
    /// Its name.
    name: &'a [u8],
    /// Kind.
    kind: IndexChildKind,
}

/// Kind of a [`Child`].
enum IndexChildKind {
    /// A file or link, with its position in the index.
    File(usize),
    /// A folder, with the entries below it.
    Folder(Range<usize>),
    /// A submodule: a commit of another repository.
    Module,
}

impl IndexChild<'_> {
    /// Returns true if it should be a folder on disk.
    fn is_folder(&self) -> bool {
        !matches!(self.kind, IndexChildKind::File(_))
    }
}

impl Walker<'_> {
    /// Walks folders until none are left.
    fn work(&self) -> io::Result<WalkFindings> {
        let mut seen = WalkFindings::default();
        while let Some(job) = self.jobs.next() {
            let mut found = Vec::new();
            let outcome = self.folder(job, &mut seen, &mut found);
            let done = self.folders.fetch_add(1, Ordering::Relaxed) + 1;
            self.control.report(Progress { done, total: None });
            self.jobs.finish_item(found);
            if outcome.is_err() || self.control.should_stop() {
                self.jobs.clear_queue();
            }
            outcome?;
        }
        Ok(seen)
    }

    /// Walks one folder.
    fn folder(&self, job: FolderJob, seen: &mut WalkFindings, found: &mut Vec<FolderJob>) -> io::Result<()> {
        let (folder, listing) = match self.root.list(&job.path)? {
            FolderListing::Folder { folder, listing, .. } => (folder, listing),
            FolderListing::Missing => {
                self.missing(job.entries, seen);
                return Ok(());
            }
            FolderListing::Closed => {
                seen.closed.push(job.path);
                return Ok(());
            }
        };
        let mut listed = listing.iter().peekable();
        for child in self.children(&job) {
            let is_before = |it: &ListedName<'_>| {
                in_order(it.name, it.is_folder(), child.name, child.is_folder()).is_lt()
            };
            while let Some(stranger) = listed.next_if(is_before) {
                note(&job.path, stranger, seen);
            }
            let is_there =
                listed.next_if(|it| it.is_folder() == child.is_folder() && it.name == child.name).is_some();
            match child.kind {
                IndexChildKind::File(at) if is_there => match self.file(&folder, child.name, at, seen) {
                    // Its names may be read, but its entries may not be examined.
                    Err(Errno::ACCESS | Errno::PERM) => {
                        seen.closed.push(job.path);
                        return Ok(());
                    }
                    outcome => outcome?,
                },
                IndexChildKind::File(at) => self.missing(at..at + 1, seen),
                IndexChildKind::Folder(entries) if is_there => {
                    let path = [&job.path[..], child.name, b"/"].concat().into();
                    found.push(FolderJob { path, entries });
                }
                IndexChildKind::Folder(entries) => self.missing(entries, seen),
                IndexChildKind::Module => {}
            }
        }
        listed.for_each(|stranger| note(&job.path, stranger, seen));
        Ok(())
    }

    /// Examines a file with the index position `at`.
    fn file(
        &self,
        folder: &ScannedFolder,
        name: &[u8],
        at: usize,
        seen: &mut WalkFindings,
    ) -> Result<(), Errno> {
        let Some(entry) = self.index.entries().get(at) else { return Ok(()) };
        let is_same = match folder.stat(name) {
            Ok(stat) => self.clock.is_same(entry, &stat),
            Err(Errno::NOENT) => false,
            Err(error) => return Err(error),
        };
        if !is_same {
            seen.doubtful.push(at);
        }
        Ok(())
    }

    /// Notes entries that are missing on disk, except those that are not checked out.
    fn missing(&self, entries: Range<usize>, seen: &mut WalkFindings) {
        for at in entries {
            let is_awaited = |entry: &gix::index::Entry| {
                entry.mode != Mode::COMMIT && !entry.flags.contains(Flags::SKIP_WORKTREE)
            };
            if self.index.entries().get(at).is_some_and(is_awaited) {
                seen.doubtful.push(at);
            }
        }
    }

    /// Returns the index entries directly in a folder, in the order of [`in_order`].
    fn children(&self, job: &FolderJob) -> Vec<IndexChild<'_>> {
        let entries = self.index.entries();
        let name_at = |at: usize| entries.get(at)?.path(self.index).get(job.path.len()..);
        let mut children = Vec::with_capacity(job.entries.len().min(256));
        let mut at = job.entries.start;
        while let Some(rest) = name_at(at).filter(|_| at < job.entries.end) {
            let slash = rest.find_byte(b'/');
            let name = slash.and_then(|end| rest.get(..end)).unwrap_or(rest);
            let is_module = entries.get(at).is_some_and(|entry| entry.mode == Mode::COMMIT);
            let mut end = at + 1;
            if slash.is_some() {
                let later = entries.get(end..job.entries.end).unwrap_or_default();
                end += later.partition_point(|entry| {
                    entry.path(self.index).get(job.path.len()..).is_some_and(|other| is_below(other, name))
                });
            }
            let kind = match slash {
                Some(_) => IndexChildKind::Folder(at..end),
                None if is_module => IndexChildKind::Module,
                None => IndexChildKind::File(at),
            };
            children.push(IndexChild { name, kind });
            at = end;
        }
        // All except submodules are in this order already.
        children.sort_unstable_by(|one, other| {
            in_order(one.name, one.is_folder(), other.name, other.is_folder())
        });
        children
    }
}

/// Notes something that is not in the index.
fn note(folder: &BString, listed: ListedName<'_>, seen: &mut WalkFindings) {
    let path = || BString::from([&folder[..], listed.name].concat());
    match listed.kind {
        FileType::RegularFile | FileType::Symlink => seen.files.push(path()),
        FileType::Directory => seen.folders.push(path()),
        _ => {}
    }
}

/// Returns true if `path` lies in the folder `name`.
fn is_below(path: &[u8], name: &[u8]) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Untracked files.
#[derive(Debug, Default)]
pub struct UntrackedFiles {
    /// Files that may enter, in order.
    pub files: Vec<BString>,
    /// Paths that stay out.
    pub left_out: Vec<SkippedPath>,
    /// Files and folders that are ignored; a folder ends in a slash.
    pub ignored: Vec<Vec<u8>>,
    /// Folders that may not be read, each ending in a slash except the root: their contents are unknown.
    pub closed: Vec<BString>,
}

/// Sorts out the untracked files of a walk. Does not enter folders that are ignored as a whole.
///
/// # Errors
/// Fails if a folder or the rules cannot be read, or if `control` stops the work.
pub fn sort_out(
    root: &OpenRoot,
    seen: &mut WalkFindings,
    rules: &mut RepoRules<'_>,
    control: &Control,
) -> Result<UntrackedFiles, SnapshotError> {
    let (files, mut folders) = (std::mem::take(&mut seen.files), std::mem::take(&mut seen.folders));
    let mut sorter =
        UntrackedSorter { root, rules, noted: BTreeSet::new(), found: UntrackedFiles::default() };
    for file in files {
        control.check().context(|| "the work tree cannot be scanned".into())?;
        sorter.file(file)?;
    }
    folders.reverse();
    while let Some(folder) = folders.pop() {
        control.check().context(|| "the work tree cannot be scanned".into())?;
        sorter.folder(&folder, &mut folders)?;
    }
    for folder in &seen.closed {
        sorter.leave_out(folder.strip_suffix(b"/").unwrap_or(folder), SkipReason::Unreadable);
    }
    let mut found = sorter.found;
    found.files.sort_unstable();
    Ok(found)
}

/// Sorts out untracked files.
struct UntrackedSorter<'a, 'repo> {
    /// The work tree.
    root: &'a OpenRoot,
    /// Git's rules for paths.
    rules: &'a mut RepoRules<'repo>,
    /// Noted folders.
    noted: BTreeSet<BString>,
    /// Result so far.
    found: UntrackedFiles,
}

impl UntrackedSorter<'_, '_> {
    /// Returns true if the rules of a folder on the way to `path` are unknown; notes that folder.
    fn is_unruled(&mut self, path: &[u8]) -> Result<bool, SnapshotError> {
        match self.rules.obstacle(path)? {
            None | Some((_, SkipReason::NestedRepository(_))) => return Ok(false),
            Some((folder, reason)) => self.leave_out(folder, reason),
        }
        Ok(true)
    }

    /// Notes a folder that stays out as a whole, once.
    fn leave_out(&mut self, folder: &[u8], reason: SkipReason) {
        if !self.noted.insert(folder.into()) {
            return;
        }
        if reason == SkipReason::Unreadable {
            self.found.closed.push(joined(folder, b""));
        }
        self.found.left_out.push(SkippedPath::new(folder, reason));
    }

    /// Adds a file, unless it is ignored.
    fn file(&mut self, path: BString) -> Result<(), SnapshotError> {
        if is_too_deep(&path) {
            self.found.left_out.push(SkippedPath::new(&path, SkipReason::Depth));
        } else if may_enter(&path) && !self.is_unruled(&path)? {
            if self.rules.ignores(&path)? {
                self.found.ignored.push(path.into());
            } else {
                self.found.files.push(path);
            }
        }
        Ok(())
    }

    /// Searches a folder, unless it is ignored; adds its subfolders to `more`.
    fn folder(&mut self, path: &BString, more: &mut Vec<BString>) -> Result<(), SnapshotError> {
        let is_of_note = may_enter(path) || may_hold_policy(path);
        let below = |name: &[u8]| BString::from([&path[..], b"/", name].concat());
        if is_of_note && is_too_deep(path) {
            self.found.left_out.push(SkippedPath::new(path, SkipReason::Depth));
            return Ok(());
        }
        if !is_of_note || self.is_unruled(path)? {
            return Ok(());
        }
        if self.rules.ignores_folder(path)? {
            self.found.ignored.push(below(b"").into());
            return Ok(());
        }
        let listed = self.root.list(&below(b"")).context(|| format!("`{path}` cannot be read"))?;
        let listing = match listed {
            FolderListing::Missing => return Ok(()),
            FolderListing::Closed => {
                self.leave_out(path, SkipReason::Unreadable);
                return Ok(());
            }
            FolderListing::Folder { is_repository: true, .. } => {
                self.found
                    .left_out
                    .push(SkippedPath::new(path, SkipReason::NestedRepository(path.to_string())));
                return Ok(());
            }
            FolderListing::Folder { listing, .. } => listing,
        };
        let first = more.len();
        for entry in listing.iter() {
            let path = below(entry.name);
            match entry.kind {
                FileType::RegularFile | FileType::Symlink => self.file(path)?,
                FileType::Directory => more.push(path),
                _ => {}
            }
        }
        more.get_mut(first..).unwrap_or_default().reverse(); // the first is taken first
        Ok(())
    }
}
