//! The full scan: commits all changes in the work tree.

pub mod scan_index;
pub mod walk;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice as _};
use rustix::io::Errno;

use super::record::disk::OpenRoot;
use super::record::prepare;
use super::record::prepare::{ChangePreparer, ScanResult, TreeEdits};
use super::record::rules::RepoRules;
use super::record::{RecordResult, SkipReason, SkippedPath};
use super::store::branch::BranchMove;
use super::store::tree::{TreeEdit, TreeItem};
use super::store::{ErrorContext as _, SnapshotError};
use super::store::{Store, pack, tree};
use super::view::compare;
use super::view::compare::PathChange;
use crate::control::Control;
use crate::engine::snapshot::record::disk::RacyClock;
use crate::engine::snapshot::store::commit_builder::{CommitBuilder, CommitMeta, seconds, tree_of};
use crate::engine::snapshot::store::dir::Dir;
use crate::engine::snapshot::store::tree::{RULE_FILES, may_enter};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{self, survey::Survey};
use crate::limits::SUBJECT_PATHS_MAX;
use crate::text::escaped::plural;
use scan_index::ScanIndex;
use walk::UntrackedFiles;

/// Metadata and bounds of a scan.
#[derive(Debug, Clone)]
pub struct Scan<'a> {
    /// First line of the message, such as `bash: make`; `None` for `external: …`.
    pub subject: Option<String>,
    /// Reason, as the body of the message.
    pub why: Option<&'a str>,
    /// Session that scans.
    pub session: &'a str,
    /// Tool that changed the files; `external` for a change from outside lbx.
    pub tool: &'a str,
    /// Number in the journal.
    pub seq: u64,
    /// Time.
    pub time: SystemTime,
    /// Limits of the scan.
    pub bounds: ScanBounds,
    /// Survey of the work tree, if one was just made.
    pub survey: Option<Arc<Survey>>,
    /// Only paths that it records; the next scan finds the others.
    pub only: Option<&'a BTreeSet<Vec<u8>>>,
}

/// Changes in the work tree since the newest snapshot that are not recorded yet.
#[derive(Debug)]
pub struct UnrecordedChanges {
    /// Files that may differ.
    pub paths: Vec<Vec<u8>>,
    /// Paths that a scan would leave out.
    pub left_out: Vec<SkippedPath>,
    /// Ignored paths, as in [`RecordResult::ignored`].
    pub ignored: Vec<Vec<u8>>,
}

impl UnrecordedChanges {
    /// Returns the files that may differ.
    pub fn paths(&self) -> BTreeSet<WorkspacePath> {
        let path_of = |path: &Vec<u8>| WorkspacePath::new(Path::new(OsStr::from_bytes(path)));
        self.paths.iter().filter_map(path_of).collect()
    }
}

/// Limits of one scan; more is refused.
#[derive(Debug, Clone, Copy)]
pub struct ScanBounds {
    /// Number of changed files.
    pub paths_max: usize,
    /// Bytes in them.
    pub bytes_max: u64,
}

impl ScanBounds {
    /// Default limits of a scan that someone asked for.
    pub const FULL: Self = Self { paths_max: 100_000, bytes_max: 512 * 1024 * 1024 };
    /// Limits of a scan that nobody should wait for.
    pub const QUICK: Self = Self { paths_max: 2_000, bytes_max: 32 * 1024 * 1024 };

    /// Returns the smaller of both limits.
    #[must_use]
    pub fn smaller_limits(self, other: Self) -> Self {
        let paths_max = self.paths_max.min(other.paths_max);
        Self { paths_max, bytes_max: self.bytes_max.min(other.bytes_max) }
    }
}

impl Store {
    /// Commits all differences between the work tree and the newest snapshot.
    ///
    /// Leaves out ignored files, nested repositories and files that are too large. Saves the findings in the state
    /// folder for the next scan.
    ///
    /// # Errors
    /// Fails if the work tree is a home folder or the whole disk, if there are too many changes, if `control` stops the
    /// work, or if no snapshot can be made.
    pub fn scan(&mut self, scan: &Scan<'_>, control: &Control) -> Result<RecordResult, SnapshotError> {
        refuse_home(self.repo.root())?;
        self.repeatedly(|store| store.attempt_scan(scan, control))
    }

    /// Finds possible differences between the work tree and the newest snapshot; records nothing.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub fn unrecorded(&self, scan: &Scan<'_>, control: &Control) -> Result<UnrecordedChanges, SnapshotError> {
        refuse_home(self.repo.root())?;
        let (_, chain) = self.start(self.meta_of(scan))?;
        let index = ScanIndex::load(&self.repo, &self.place, chain.tree, control)?;
        let clock = index.clock(prepare::modes_count(&self.repo));
        let folder = self.root_of(scan)?;
        let work = ScanInput { root: &folder, scan, control, chain: &chain };
        let mut preparer = ChangePreparer::new(self, &chain);
        let ScanCandidates { doubtful, untracked } =
            find_candidates(&work, &mut preparer.rules, &index, clock)?;
        // The index does not know files that came since the last scan.
        let since = compare::trees(&self.repo, index.tree, chain.tree, SUBJECT_PATHS_MAX)?.paths;
        let paths = doubtful.into_iter().map(|(path, _)| path).chain(untracked.files).map(Vec::from);
        let paths = paths.chain(since.into_iter().map(|change| change.path)).collect();
        Ok(UnrecordedChanges { paths, left_out: untracked.left_out, ignored: untracked.ignored })
    }

    /// Returns the metadata shared by all commits of a scan.
    fn meta_of<'a>(&'a self, scan: &Scan<'a>) -> CommitMeta<'a> {
        let harness = self.limits.harness.as_deref();
        CommitMeta { session: scan.session, seq: scan.seq, seconds: seconds(scan.time), gate: None, harness }
    }

    /// Opens the work tree for a scan.
    fn root_of(&self, scan: &Scan<'_>) -> Result<OpenRoot, SnapshotError> {
        let root = self.repo.root();
        let opened = OpenRoot::of(self.repo.work_tree().as_fd(), self.limits.file_bytes_max)
            .context(|| format!("`{}` cannot be read", root.display()))?;
        Ok(opened.surveyed(scan.survey.clone()))
    }

    /// Tries once; `None` if someone else moved the branch meanwhile.
    fn attempt_scan(
        &self,
        scan: &Scan<'_>,
        control: &Control,
    ) -> Result<Option<RecordResult>, SnapshotError> {
        let (tip, mut chain) = self.start_move(self.meta_of(scan))?;
        let moved_head = chain.newest;
        let began = SystemTime::now();
        let mut index = ScanIndex::load(&self.repo, &self.place, chain.tree, control)?;
        let clock = index.clock(prepare::modes_count(&self.repo));
        let folder = self.root_of(scan)?;
        let work = ScanInput { root: &folder, scan, control, chain: &chain };
        let mut preparer = ChangePreparer::new(self, &chain);
        let found = find_candidates(&work, &mut preparer.rules, &index, clock)?;
        let leaving = if moved_head.is_some() || self.has_new_rules(&work, &found, &index)? {
            self.leaving(&work, &mut preparer)?
        } else {
            BTreeMap::new()
        };
        let (is_news, unreadable) = take_in(&work, &mut preparer, &mut index, found, &leaving)?;
        let is_news = is_news || !index.is_settled(clock);
        let seen_tree = tree::apply(&self.repo, index.tree, &preparer.done.change)?;
        let stays = |path: &[u8]| !leaving.contains_key(path);
        let trees = (index.tree, seen_tree);
        let tree = self.keep_unjudged(&work, &mut preparer, trees, &unreadable, stays)?;
        let TreeEdits { packed, mut recorded, .. } = preparer.finish();
        let count = compare::trees(&self.repo, chain.tree, tree, SUBJECT_PATHS_MAX)?.paths;
        let subject = scan.subject.clone().unwrap_or_else(|| match count.as_slice() {
            [one] => format!("external: {}", one.path.to_str_lossy()),
            more => format!("external: {}", plural(more.len(), "file")),
        });
        let id = chain.commit(tree, &subject, scan.why, scan.tool)?;
        recorded.warnings.splice(0..0, self.warnings.iter().cloned());
        pack::wait_for_gc(&self.repo)?;
        if self.publish(tip, chain.newest, seconds(scan.time), &packed)? != BranchMove::Yes {
            return Ok(None);
        }
        // The snapshot is made; without the index the next scan only takes longer.
        if is_news {
            recorded.warnings.extend(index.save(seen_tree, began).err().map(|error| error.to_string()));
        }
        let (id, external) = (id.map(|id| id.to_string()), moved_head.map(|id| id.to_string()));
        Ok(Some(RecordResult { id, external, ..recorded }))
    }

    /// Returns true if a rule file may have changed since the last scan: only then can a file become ignored.
    fn has_new_rules(
        &self,
        work: &ScanInput<'_>,
        found: &ScanCandidates,
        index: &ScanIndex,
    ) -> Result<bool, SnapshotError> {
        let is_rules = |path: &[u8]| {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
            RULE_FILES.contains(&name)
        };
        let since = compare::trees(&self.repo, index.tree, work.chain.tree, SUBJECT_PATHS_MAX)?.paths;
        let doubtful = found.doubtful.iter().map(|(path, _)| path.as_slice());
        let new = found.untracked.files.iter().map(|path| path.as_slice());
        let since = since.iter().map(|change| change.path.as_slice());
        Ok(doubtful.chain(new).chain(since).any(is_rules))
    }

    /// Returns the files on the branch that are ignored or excluded by now.
    fn leaving(
        &self,
        work: &ScanInput<'_>,
        preparer: &mut ChangePreparer<'_, '_>,
    ) -> Result<BTreeMap<Vec<u8>, SkipReason>, SnapshotError> {
        let empty = ObjectId::empty_tree(self.repo.object_hash());
        let head = work.chain.head_then.map_or(Ok(empty), |head| tree_of(&self.repo, head))?;
        let mut added = compare::trees(&self.repo, head, work.chain.tree, SUBJECT_PATHS_MAX)?.paths;
        let is_wanted = |path: &[u8]| work.scan.only.is_none_or(|only| only.contains(path));
        added.retain(|change| change.before.is_none() && is_wanted(&change.path));
        let mut leaving = BTreeMap::new();
        for PathChange { path, .. } in added {
            if let Some(reason) = preparer.skip_reason(&path)? {
                leaving.insert(path, reason);
            }
        }
        Ok(leaving)
    }

    /// Returns the tree `seen`, with the branch's entries for files that exist but that a scan does not judge: files
    /// that are ignored though HEAD has them, that a filter program would have to convert, that are large, or that are
    /// `unreadable`.
    ///
    /// Also keeps paths that the scan is not to record, even deleted ones. `scanned` is the tree of the previous scan:
    /// only paths that differ between it and the branch need a decision.
    fn keep_unjudged(
        &self,
        work: &ScanInput<'_>,
        preparer: &mut ChangePreparer<'_, '_>,
        (scanned, seen): (ObjectId, ObjectId),
        unreadable: &UnreadablePaths,
        may_stay: impl Fn(&[u8]) -> bool,
    ) -> Result<ObjectId, SnapshotError> {
        let since = compare::trees(&self.repo, scanned, work.chain.tree, SUBJECT_PATHS_MAX)?.paths;
        let is_passed = |path: &[u8]| work.scan.only.is_some_and(|only| !only.contains(path));
        let is_there = |change: &&PathChange| {
            change.after.is_some() || unreadable.holds(&change.path) || is_passed(&change.path)
        };
        let there: Vec<_> = since.iter().filter(is_there).filter(|change| may_stay(&change.path)).collect();
        let mut edits = Vec::new();
        for change in there {
            let path = change.path.as_slice();
            let stays = if unreadable.holds(path) || is_passed(&change.path) {
                true
            } else {
                let Some(size_bytes) = size_of(self.repo.work_tree(), path) else { continue };
                let unseen = tree::look_up(&self.repo, seen, path)? == tree::Lookup::Nothing;
                unseen || preparer.is_outside_scan(path, size_bytes)?
            };
            if stays {
                let to = tree::look_up(&self.repo, work.chain.tree, path)?.entry();
                edits.push(TreeEdit { path: Cow::Borrowed(path), to });
            }
        }
        if edits.is_empty() { Ok(seen) } else { tree::apply(&self.repo, seen, &edits) }
    }
}

/// Finds possible differences between the index and the work tree.
fn find_candidates(
    work: &ScanInput<'_>,
    rules: &mut RepoRules<'_>,
    index: &ScanIndex,
    clock: RacyClock,
) -> Result<ScanCandidates, SnapshotError> {
    let doing = || "the work tree cannot be scanned".into();
    let seen = walk::walk(work.root, &index.file, clock, work.control);
    work.control.check().context(doing)?;
    let mut seen = seen.context(doing)?;
    let doubtful = seen.doubtful.iter().filter_map(|at| index.found(*at)).collect();
    let untracked = walk::sort_out(work.root, &mut seen, rules, work.control)?;
    check_count(untracked.files.len(), work.scan.bounds)?;
    Ok(ScanCandidates { doubtful, untracked })
}

/// Reads the files that may differ, and updates the index. Returns true if the index has changed, and the paths that
/// may not be read.
fn take_in(
    work: &ScanInput<'_>,
    preparer: &mut ChangePreparer<'_, '_>,
    index: &mut ScanIndex,
    looked: ScanCandidates,
    leaving: &BTreeMap<Vec<u8>, SkipReason>,
) -> Result<(bool, UnreadablePaths), SnapshotError> {
    let new = looked.untracked.files.into_iter().map(|path| (path, None));
    let is_wanted = |path: &BString| {
        work.scan.only.is_none_or(|only| only.contains(path.as_slice()))
            && !leaving.contains_key(path.as_slice())
    };
    let mut files: Vec<(BString, Option<TreeItem>)> =
        looked.doubtful.into_iter().map(|(path, known)| (path, Some(known))).chain(new).collect();
    files.retain(|(path, _)| is_wanted(path));
    files.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let is_news = !files.is_empty();
    let mut unreadable = UnreadablePaths(looked.untracked.closed);
    preparer.done.recorded.left_out = looked.untracked.left_out;
    preparer.done.recorded.ignored = looked.untracked.ignored;
    let mut bytes_left = work.scan.bounds.bytes_max;
    for (path, known) in files.into_iter().filter(|(path, _)| may_enter(path)) {
        work.control.check().context(|| "the work tree cannot be scanned".into())?;
        let on_disk = match work.root.read(&path) {
            Err(Errno::ACCESS | Errno::PERM) => {
                preparer.done.recorded.left_out.push(SkippedPath::new(&path, SkipReason::Unreadable));
                unreadable.0.push(path);
                continue;
            }
            other => other.context(|| format!("`{path}` cannot be read"))?,
        };
        let (stat, file) = (on_disk.as_ref().map(|it| it.stat), on_disk.as_ref().map(|it| &it.file));
        match preparer.scanned(&path, file, known, &mut bytes_left)? {
            ScanResult::Is(found) => {
                index.put(path.as_bstr(), found, stat);
                preparer.done.change.push(TreeEdit { path: Cow::Owned(path.into()), to: found });
                check_count(preparer.done.change.len(), work.scan.bounds)?;
            }
            ScanResult::IsKnown => index.refresh(path.as_bstr(), stat),
            ScanResult::LeftOut(reason) => {
                // A file beyond the limit must be found again by the next scan.
                index.refresh(path.as_bstr(), stat.filter(|_| reason != SkipReason::NoRoom));
                preparer.done.recorded.left_out.push(SkippedPath::new(&path, reason));
            }
        }
    }
    for (path, reason) in leaving {
        index.put(path.as_bstr(), None, None);
        preparer.done.change.push(TreeEdit { path: Cow::Owned(path.clone()), to: None });
        preparer.done.recorded.left_out.push(SkippedPath::new(path, reason.clone()));
    }
    Ok((is_news, unreadable))
}

/// Input of a scan.
struct ScanInput<'a> {
    /// The work tree.
    root: &'a OpenRoot,
    /// Metadata and bounds.
    scan: &'a Scan<'a>,
    /// Cancellation and deadline.
    control: &'a Control,
    /// Commits that the scan continues.
    chain: &'a CommitBuilder<'a>,
}

/// Files that may differ.
struct ScanCandidates {
    /// Files in the index, with their entries.
    doubtful: Vec<(BString, TreeItem)>,
    /// Files that are not in the index.
    untracked: UntrackedFiles,
}

/// Files and folders that may not be read; a folder ends in a slash, and the root is empty.
struct UnreadablePaths(Vec<BString>);

impl UnreadablePaths {
    /// Returns true if a file is one of them or inside one.
    fn holds(&self, path: &[u8]) -> bool {
        self.0.iter().any(|closed| {
            let is_folder = closed.is_empty() || closed.ends_with(b"/");
            if is_folder { path.starts_with(closed) } else { path == closed.as_slice() }
        })
    }
}

/// Fails if there are more files than one scan records.
fn check_count(count: usize, bounds: ScanBounds) -> Result<(), SnapshotError> {
    if count <= bounds.paths_max {
        return Ok(());
    }
    Err(SnapshotError::new(format!(
        "{count} files differ, more than the {} that one scan takes in; a line in `.gitignore` may be missing",
        bounds.paths_max
    )))
}

/// Returns the size of the file at a path, without following links; `None` if it is missing.
fn size_of(root: &Dir, path: &[u8]) -> Option<u64> {
    let found = root.stat(gix::path::from_byte_slice(path).ok()?);
    found.ok().flatten().map(|stat| crate::engine::workspace::fs::size_of(&stat))
}

/// Fails for the whole disk or a home folder: nobody means to scan that.
fn refuse_home(root: &Path) -> Result<(), SnapshotError> {
    if root.parent().is_none() || workspace::is_home(root) {
        return Err(SnapshotError::new(format!(
            "`{}` is a home folder or the whole disk, which is not scanned",
            root.display()
        )));
    }
    Ok(())
}
