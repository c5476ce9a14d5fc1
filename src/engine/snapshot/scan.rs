//! The full scan: whatever changed in the work tree, as one commit.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::dir::entry::{Kind, Status};
use gix::dir::walk::EmissionMode;
use gix::index::entry::{Mode, Stat};
use gix::status::index_worktree::Options;
use gix::status::plumbing::index_as_worktree::traits::{FastEq, SubmoduleStatus};
use gix::status::plumbing::index_as_worktree::{Change as Differs, EntryStatus};
use gix::status::plumbing::index_as_worktree_with_renames::{Entry, VisitEntry};

use super::chain::{Chain, Stamp};
use super::change::{LeftOut, Reason, Recorded};
use super::disk::Root;
use super::error::{Doing as _, SnapshotError};
use super::prepare::{POLICY, Scanned};
use super::scan_index::ScanIndex;
use super::tree::Edit;
use super::{Moved, Store, compare, prepare, seconds, tree};
use crate::control::Control;

/// Most paths that are compared for the subject of a scan's commit.
const PATHS_MAX: usize = 100_000;
/// How often a scan looks whether it should stop.
const WATCH_NAP: Duration = Duration::from_millis(5);

/// What the commit of a scan says.
#[derive(Debug, Clone)]
pub struct Scan<'a> {
    /// First line of the message, such as `bash: make`; `None` for `external: …`.
    pub subject: Option<String>,
    /// Why, as the body of the message.
    pub why: Option<&'a str>,
    /// Session that scans.
    pub session: &'a str,
    /// Tool that changed the files; `external` where that was none of lbx.
    pub tool: &'a str,
    /// Its number in the journal.
    pub seq: u64,
    /// When.
    pub time: SystemTime,
    /// How much it takes in.
    pub bounds: Bounds,
}

/// How much one scan takes in; more is refused.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Files that differ.
    pub paths_max: usize,
    /// Bytes in them.
    pub bytes_max: u64,
}

impl Bounds {
    /// For a scan that someone asked for, where nothing else is configured.
    pub const FULL: Self = Self { paths_max: 100_000, bytes_max: 512 * 1024 * 1024 };
    /// For one that nobody should wait for.
    pub const QUICK: Self = Self { paths_max: 2_000, bytes_max: 32 * 1024 * 1024 };

    /// The narrower of these and others.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        let paths_max = self.paths_max.min(other.paths_max);
        Self { paths_max, bytes_max: self.bytes_max.min(other.bytes_max) }
    }
}

impl Store {
    /// Commits whatever differs between the work tree and the newest snapshot.
    ///
    /// Ignored files, nested repositories and what is too large stay out. `state` is the folder
    /// for lbx's own files; what the scan saw is kept there for the next one.
    ///
    /// # Errors
    /// Where the work tree is a home folder or the whole disk, where there is too much, where
    /// `control` says to stop, or where there can be no snapshot.
    pub fn scan(
        &mut self,
        state: &Path,
        scan: &Scan<'_>,
        control: &Control,
    ) -> Result<Recorded, SnapshotError> {
        let root = self.repo.workdir().map(Path::to_owned).unwrap_or_default();
        refuse_home(&root)?;
        self.repeatedly(|store| store.attempt_scan(&root, state, scan, control))
    }

    /// Tries once; `None` where the branch was moved by someone else meanwhile.
    fn attempt_scan(
        &self,
        root: &Path,
        state: &Path,
        scan: &Scan<'_>,
        control: &Control,
    ) -> Result<Option<Recorded>, SnapshotError> {
        let tip = self.branch.tip(&self.repo)?;
        self.branch.check_free(&self.repo)?;
        self.branch.check_ours(&self.repo, tip)?;
        let stamp = Stamp { session: scan.session, seq: scan.seq, seconds: seconds(scan.time) };
        let mut chain = Chain::begin(&self.repo, tip, stamp)?;
        let moved_head = chain.newest();
        let began = SystemTime::now();
        let mut index = ScanIndex::load(&self.repo, state, chain.tree())?;
        let seen = self.look(&index, scan.bounds, control)?;
        let is_news = !seen.paths.is_empty() || !seen.updates.is_empty() || !index.is_settled();
        let mut taken =
            self.take_in(&Work { root, bounds: scan.bounds, control }, &chain, &mut index, seen)?;
        let edits: Vec<Edit<'_>> = taken.edits.iter().map(|(path, to)| Edit { path, to: *to }).collect();
        let seen_tree = tree::apply(&self.repo, index.tree, &edits)?;
        let tree = self.keep_unjudged(root, &chain, index.tree, seen_tree)?;
        let count = compare::trees(&self.repo, chain.tree(), tree, PATHS_MAX)?.paths;
        let subject = scan.subject.clone().unwrap_or_else(|| match count.as_slice() {
            [one] => format!("external: {}", one.path.to_str_lossy()),
            more => format!("external: {} files", more.len()),
        });
        let id = chain.commit(tree, &subject, scan.why, scan.tool)?;
        taken.warnings.splice(0..0, self.warnings.iter().cloned());
        if self.publish(tip, chain.newest(), stamp.seconds)? != Moved::Yes {
            return Ok(None);
        }
        // The snapshot stands; without the index the next scan only takes longer.
        if is_news {
            taken.warnings.extend(index.save(seen_tree, began).err().map(|error| error.to_string()));
        }
        Ok(Some(Recorded {
            id: id.map(|id| id.to_string()),
            external: moved_head.map(|id| id.to_string()),
            left_out: taken.left_out,
            warnings: taken.warnings,
        }))
    }

    /// Finds what differs between the index and the work tree.
    fn look(&self, index: &ScanIndex, bounds: Bounds, control: &Control) -> Result<Seen, SnapshotError> {
        let doing = || "the work tree cannot be scanned".into();
        let repo = without_programs(&self.repo)?;
        let walk = repo.dirwalk_options().doing(doing)?.emit_untracked(EmissionMode::Matching);
        let options =
            Options { sorting: None, dirwalk_options: Some(walk), rewrites: None, thread_limit: None };
        let mut seen = Seen::default();
        let outcome = watched(control, |stop| {
            repo.index_worktree_status(
                &index.file,
                None::<&BStr>,
                &mut seen,
                FastEq,
                NoSubmodules,
                &mut gix::progress::Discard,
                stop,
                options,
            )
        });
        control.check().doing(doing)?;
        outcome.doing(doing)?;
        if seen.paths.len() > bounds.paths_max {
            return Err(SnapshotError::new(format!(
                "{} files differ, more than the {} that one scan takes in; \
                 a line in `.gitignore` may be missing",
                seen.paths.len(),
                bounds.paths_max
            )));
        }
        seen.paths.retain(|path| path == POLICY || (path != ".lbx" && !path.starts_with(b".lbx/")));
        seen.paths.sort();
        Ok(seen)
    }

    /// Reads what was seen to differ, and brings the index up to date with it.
    fn take_in(
        &self,
        work: &Work<'_>,
        chain: &Chain<'_>,
        index: &mut ScanIndex,
        seen: Seen,
    ) -> Result<Taken, SnapshotError> {
        let Work { root, bounds, control } = *work;
        let folder =
            Root::open(root, self.file_bytes_max).doing(|| format!("`{}` cannot be read", root.display()))?;
        let mut preparer = prepare::scanner(
            &self.repo,
            chain,
            seen.paths.iter().map(|path| path.as_slice()),
            self.file_bytes_max,
        )?;
        let nested = |path: BString| LeftOut {
            reason: Reason::NestedRepository(path.to_string()),
            path: path.to_string(),
        };
        let mut taken = Taken { left_out: seen.nested.into_iter().map(nested).collect(), ..Taken::default() };
        let mut bytes_left = bounds.bytes_max;
        for (at, stat) in seen.updates {
            if let Some(entry) = index.file.entries_mut().get_mut(at) {
                entry.stat = stat;
            }
        }
        for path in seen.paths {
            control.check().doing(|| "the work tree cannot be scanned".into())?;
            let stat = stat_of(root, &path);
            let found = folder.read(&path).doing(|| format!("`{path}` cannot be read"))?;
            match preparer.scanned(&path, found.as_ref(), &mut bytes_left)? {
                Scanned::Is(found) => {
                    index.put(path.as_bstr(), found, stat);
                    taken.edits.push((path, found));
                }
                Scanned::LeftOut(reason) => {
                    // What there was no room for is to be found again by the next scan.
                    if let Some(stat) = stat.filter(|_| reason != Reason::NoRoom) {
                        index.refresh(path.as_bstr(), stat);
                    }
                    taken.left_out.push(LeftOut { path: path.to_string(), reason });
                }
            }
        }
        taken.warnings = preparer.into_warnings();
        Ok(taken)
    }

    /// `seen`, with what the branch has of the files that are there but that a scan does not judge.
    ///
    /// Such are files that are ignored though they were committed once, those that a filter
    /// program would have to convert, and large ones. `scanned` is the tree of the scan before:
    /// elsewhere than where the branch differs from it there is nothing to decide.
    fn keep_unjudged(
        &self,
        root: &Path,
        chain: &Chain<'_>,
        scanned: ObjectId,
        seen: ObjectId,
    ) -> Result<ObjectId, SnapshotError> {
        let since = compare::trees(&self.repo, scanned, chain.tree(), PATHS_MAX)?.paths;
        let there: Vec<_> = since.iter().filter(|change| change.after.is_some()).collect();
        let mut preparer = prepare::scanner(
            &self.repo,
            chain,
            there.iter().map(|change| change.path.as_slice()),
            self.file_bytes_max,
        )?;
        let mut edits = Vec::new();
        for change in there {
            let path = change.path.as_slice();
            let Some(size_bytes) = size_of(root, path) else { continue };
            let unseen = tree::look_up(&self.repo, seen, path)? == tree::Lookup::Nothing;
            if unseen || preparer.leaves_out(path, size_bytes)? {
                edits.push(Edit { path, to: tree::look_up(&self.repo, chain.tree(), path)?.entry() });
            }
        }
        if edits.is_empty() { Ok(seen) } else { tree::apply(&self.repo, seen, &edits) }
    }
}

/// What a scan works on.
struct Work<'a> {
    /// The work tree.
    root: &'a Path,
    /// How much may be taken in.
    bounds: Bounds,
    /// When to stop.
    control: &'a Control,
}

/// What came of reading the files that differ.
#[derive(Default)]
struct Taken {
    /// The paths with what is there now.
    edits: Vec<(BString, Option<tree::Found>)>,
    /// What stays out.
    left_out: Vec<LeftOut>,
    /// What a person should know.
    warnings: Vec<String>,
}

/// Collects what a scan finds.
#[derive(Default)]
struct Seen {
    /// Entries whose content is the same, with what the file system says of them now.
    updates: Vec<(usize, Stat)>,
    /// Paths that differ, in either direction.
    paths: Vec<BString>,
    /// Repositories within the work tree.
    nested: Vec<BString>,
}

impl<'index> VisitEntry<'index> for Seen {
    type ContentChange = ();
    type SubmoduleStatus = ();

    fn visit_entry(&mut self, found: Entry<'index, (), ()>) {
        match found {
            Entry::Modification { entry, entry_index, rela_path, status, .. } => match status {
                EntryStatus::NeedsUpdate(stat) => self.updates.push((entry_index, stat)),
                EntryStatus::Change(
                    Differs::Removed | Differs::Type { .. } | Differs::Modification { .. },
                ) if entry.mode != Mode::COMMIT => {
                    self.paths.push(rela_path.to_owned());
                }
                EntryStatus::Change(_) | EntryStatus::Conflict { .. } | EntryStatus::IntentToAdd => {}
            },
            Entry::DirectoryContents { entry, .. } if entry.status == Status::Untracked => {
                match entry.disk_kind {
                    Some(Kind::File | Kind::Symlink) => self.paths.push(entry.rela_path),
                    Some(Kind::Repository) => self.nested.push(entry.rela_path),
                    Some(Kind::Untrackable | Kind::Directory) | None => {}
                }
            }
            Entry::DirectoryContents { .. } | Entry::Rewrite { .. } => {}
        }
    }
}

/// Runs `work` with a flag that becomes true when `control` says to stop.
fn watched<T>(control: &Control, work: impl FnOnce(&AtomicBool) -> T) -> T {
    let (stop, done) = (AtomicBool::new(control.should_stop()), AtomicBool::new(false));
    thread::scope(|scope| {
        let watch = || {
            while !done.load(Ordering::Relaxed) {
                thread::park_timeout(WATCH_NAP);
                stop.fetch_or(control.should_stop(), Ordering::Relaxed);
            }
        };
        let watcher = thread::Builder::new().spawn_scoped(scope, watch).ok();
        let _end = End { done: &done, watcher: watcher.as_ref().map(thread::ScopedJoinHandle::thread) };
        work(&stop)
    })
}

/// Ends the watcher of a scan when dropped.
struct End<'a> {
    /// Tells the watcher that the work is done.
    done: &'a AtomicBool,
    /// The watcher, where there was a thread to be had.
    watcher: Option<&'a thread::Thread>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.watcher.inspect(|watcher| watcher.unpark());
    }
}

/// Takes every submodule as unchanged: its files are its own repository's.
#[derive(Clone)]
struct NoSubmodules;

impl SubmoduleStatus for NoSubmodules {
    type Output = ();

    fn status(&mut self, _: &gix::index::Entry, _: &BStr) -> gix::Result<Option<()>> {
        Ok(None)
    }
}

/// The same repository without any program in its settings, and with stat data that is fully compared.
fn without_programs(repo: &gix::Repository) -> Result<gix::Repository, SnapshotError> {
    let mut repo = repo.clone();
    let doing = || "the settings of the repository cannot be changed in memory".into();
    let mut config = repo.config_snapshot_mut();
    let runs = |name: &BStr| {
        ["filter", "diff", "merge"].iter().any(|section| name.eq_ignore_ascii_case(section.as_bytes()))
    };
    let ids: Vec<_> = config
        .sections_and_ids()
        .filter(|(section, _)| runs(BStr::new(section.header().name())))
        .map(|(_, id)| id)
        .collect();
    for id in ids {
        config.remove_section_by_id(id);
    }
    config
        .append_config(
            ["gitoxide.core.useNsec=true", "core.trustctime=true", "core.checkStat=default"],
            gix::config::Source::Api,
        )
        .doing(doing)?;
    config.commit().doing(doing)?;
    Ok(repo)
}

/// What the file system says of a path, as an index keeps it.
fn stat_of(root: &Path, path: &[u8]) -> Option<Stat> {
    let path: PathBuf = root.join(gix::path::from_byte_slice(path).ok()?);
    let metadata = gix::index::fs::Metadata::from_path_no_follow(&path).ok()?;
    Stat::from_fs(&metadata).ok()
}

/// The size of what is at a path, links not followed; `None` where nothing is.
fn size_of(root: &Path, path: &[u8]) -> Option<u64> {
    let path = root.join(gix::path::from_byte_slice(path).ok()?);
    std::fs::symlink_metadata(path).ok().map(|metadata| metadata.len())
}

/// Refuses to scan the whole disk or a home folder: nobody means that.
fn refuse_home(root: &Path) -> Result<(), SnapshotError> {
    let home = std::env::var_os("HOME").and_then(|home| std::fs::canonicalize(home).ok());
    if root.parent().is_none() || home.as_deref() == Some(root) {
        return Err(SnapshotError::new(format!(
            "`{}` is a home folder or the whole disk, which is not scanned",
            root.display()
        )));
    }
    Ok(())
}
