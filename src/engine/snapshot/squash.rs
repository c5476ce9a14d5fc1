//! Squash: turns a session's changes into the developer's commits on a separate branch.
//!
//! Each change is applied to the branch's own tree by a three-way merge, so that earlier uncommitted changes, and
//! changes by others, are not included. HEAD, the index and the work tree are not touched, unless the branch is checked
//! out and the caller allows it: then the index is updated for the committed files, as with `git commit PATH`. The work
//! tree stays.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};
use gix::index::entry::{Flags, Stat};
use gix::index::{File, State, write};
use gix::objs::Kind;
use gix::objs::tree::EntryKind;

use super::record::commit::IgnoreQuery;
use super::scan::scan_index::{mode_of, users_index};
use super::store::Store;
use super::store::branch::{Branch, BranchMove};
use super::store::commit_builder;
use super::store::dir::Dir;
use super::store::objects;
use super::store::pack;
use super::store::refs::{self, LogLine, RefLock, RefTarget};
use super::store::tree::{self, TreeEdit, TreeItem};
use super::store::{ErrorContext as _, SnapshotError};
use super::view::compare::{self, PathChange};
use crate::text::content::looks_binary;
use crate::text::merge::{self, ConflictLabels, EqualChanges};

/// Most bytes of one file's conflicts that are shown.
const CONFLICTS_BYTES: usize = 4_000;
/// Files by which git records an unfinished operation, each with the operation.
const IN_PROGRESS: [(&str, &str); 6] = [
    ("MERGE_HEAD", "a merge"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase or git am"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("sequencer", "a cherry-pick or revert of several commits"),
];
/// Prefix of branch names.
const BRANCHES: &str = "refs/heads/";

/// Reason why a change of a file that a branch does not have cannot be committed there.
const NOT_THERE: &str =
    "the branch does not have it: it was not committed when the session began, or was deleted since";

/// Author of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Name.
    pub name: String,
    /// Email address.
    pub email: String,
}

/// A commit to make.
#[derive(Debug, Clone)]
pub struct SquashCommit {
    /// Whole message.
    pub message: String,
    /// Changes of the commit.
    pub changes: Vec<PathChange>,
}

/// Commits to make.
#[derive(Debug)]
pub struct Squash<'a> {
    /// Short name of the branch; a new one begins at HEAD.
    pub branch: &'a str,
    /// True if the branch is checked out, and the index is to be updated.
    pub checked_out: bool,
    /// Author of the commits.
    pub author: &'a Author,
    /// Committer of the commits.
    pub committer: &'a Author,
    /// Time, in seconds since 1970.
    pub seconds: i64,
    /// Commits, oldest first.
    pub steps: Vec<SquashCommit>,
    /// Message of a merge commit that joins them to the branch; without it they are added one by one.
    pub merge: Option<String>,
    /// True to make nothing.
    pub dry_run: bool,
}

/// Result of a squash.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SquashResult {
    /// Commits, in hex, oldest first; none in a dry run.
    pub commits: Vec<String>,
    /// Commit that the branch was at, or began at, in hex.
    pub base: Option<String>,
    /// True if the branch is new.
    pub is_new: bool,
    /// Number of paths that differ between the branch before and after.
    pub files: usize,
    /// Files that git ignores by now, though it did not when the session changed them; they are left out.
    pub ignored: BTreeSet<Vec<u8>>,
    /// Conflicts with the branch; if there are any, nothing was made.
    pub conflicts: Vec<MergeOverlap>,
    /// Reason why a power failure may lose the commits, if they could not be synced.
    pub may_be_lost: Option<String>,
    /// Reason why the index was not updated, if the commits were made without that.
    pub index_is_old: Option<String>,
}

/// Branch that gets the commits.
pub(in crate::engine::snapshot) struct SquashTarget {
    /// The branch.
    pub(in crate::engine::snapshot) branch: Branch,
    /// Its commit; `None` if the branch does not exist.
    pub(in crate::engine::snapshot) tip: Option<ObjectId>,
    /// That commit, else HEAD.
    pub(in crate::engine::snapshot) at: Option<ObjectId>,
}

/// A file that could not be merged into the branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeOverlap {
    /// Path from the root.
    pub path: Vec<u8>,
    /// Reason.
    pub why: String,
    /// Overlapping lines, as `git merge-file --diff3` shows them.
    pub conflicts: Option<String>,
}

impl MergeOverlap {
    /// Returns the reason for a path.
    fn new(path: &[u8], why: &str, conflicts: Option<String>) -> Self {
        Self { path: path.to_owned(), why: why.to_owned(), conflicts }
    }
}

impl Store {
    /// Returns git's unfinished operation, such as a merge or a rebase, which only the user can end.
    ///
    /// # Errors
    /// Fails if git's folder cannot be read.
    pub fn in_progress(&self) -> Result<Option<&'static str>, SnapshotError> {
        for (name, what) in IN_PROGRESS {
            if self.repo.head_folder().stat(name).context(|| "git's folder cannot be read".into())?.is_some()
            {
                return Ok(Some(what));
            }
        }
        Ok(None)
    }

    /// Returns the developer in a role, `author` or `committer`, as git finds them: by `GIT_AUTHOR_NAME` and
    /// `GIT_AUTHOR_EMAIL`, then by git's configuration, then by `EMAIL`; `None` if none of these is set.
    pub fn developer(&self, role: &str) -> Option<Author> {
        let config = self.repo.settings();
        let configured = |key: &str| config.string(key).map(|value| value.to_string());
        let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let of_role = |what: &str| variable(&format!("GIT_{role}_{what}").to_uppercase());
        // Such characters would end the name, or the line.
        let is_clean = |c: &char| !matches!(c, '<' | '>') && !c.is_control();
        let first = |values: [Option<String>; 4]| {
            let clean = |text: String| text.chars().filter(is_clean).collect::<String>().trim().to_owned();
            values.into_iter().flatten().map(clean).find(|text| !text.is_empty())
        };
        let name = [of_role("NAME"), configured(&format!("{role}.name")), configured("user.name"), None];
        let email = [
            of_role("EMAIL"),
            configured(&format!("{role}.email")),
            configured("user.email"),
            variable("EMAIL"),
        ];
        Some(Author { name: first(name)?, email: first(email)? })
    }

    /// Makes the commits, and moves the branch to the last one.
    ///
    /// The caller holds lbx's lock.
    ///
    /// # Errors
    /// Fails if the branch is checked out, is lbx's own, has a name that git rejects, or was moved meanwhile. Returns
    /// the OS error of the disk. The branch has not moved then.
    pub fn squash(&self, squash: &Squash<'_>) -> Result<SquashResult, SnapshotError> {
        let SquashTarget { branch, tip, at: base } = self.target_branch(squash.branch)?;
        if !squash.checked_out {
            branch.check_free(&self.repo, refs::head_target(&self.repo)?.as_ref())?;
        }
        if tip.is_none() {
            branch.check_room(&self.repo)?;
        }
        let empty = ObjectId::empty_tree(self.repo.object_hash());
        let base_tree = base.map_or(Ok(empty), |id| commit_builder::tree_of(&self.repo, id))?;
        let mut squashed = SquashResult {
            base: base.map(|id| id.to_string()),
            is_new: tip.is_none(),
            ..SquashResult::default()
        };
        squashed.ignored = self.ignored_by_now(squash, base_tree)?;
        let placed = self.place_all(squash, base_tree, &mut squashed)?;
        if squash.dry_run || !squashed.conflicts.is_empty() || squashed.files == 0 {
            self.repo.take_new();
            return Ok(squashed);
        }
        pack::wait_for_gc(&self.repo)?;
        let newest = self.commit_all(squash, &placed, base, base_tree, &mut squashed)?;
        let index = squash.checked_out.then(|| self.index_after(base_tree, newest)).transpose()?;
        objects::store_all(&self.repo, &[])?;
        let subject =
            squash.merge.as_deref().or_else(|| squash.steps.last().map(|step| step.message.as_str()));
        let subject = subject.and_then(|message| message.lines().next()).unwrap_or_default().to_owned();
        let line = LogLine { subject, seconds: squash.seconds };
        squashed.may_be_lost = match branch.advance(&self.repo, tip, newest, &line) {
            Ok(BranchMove::Yes) => None,
            Ok(BranchMove::Overtaken) => {
                return Err(SnapshotError::new(format!(
                    "the branch `{}` was moved meanwhile",
                    squash.branch
                )));
            }
            // The sync comes after the move.
            Err(error) if branch.tip(&self.repo)? == Some(newest) => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        if let Some(index) = index {
            refs::append_log(&self.repo, self.repo.head_folder(), "HEAD", (tip, newest), &line);
            squashed.index_is_old = index.put().err().map(|error| error.to_string());
        }
        Ok(squashed)
    }

    /// Returns the checked-out branch; `None` if HEAD is detached.
    ///
    /// # Errors
    /// Fails if HEAD cannot be read.
    pub fn checked_out(&self) -> Result<Option<String>, SnapshotError> {
        let Some(RefTarget::Symbolic(name)) = refs::head_target(&self.repo)? else { return Ok(None) };
        let name = name.as_bstr().to_string();
        Ok(name.strip_prefix(BRANCHES).map(str::to_owned))
    }

    /// Returns the lock of git's index, if it is there.
    pub fn index_lock(&self) -> Option<PathBuf> {
        let folder = self.repo.head_folder();
        folder.stat(LOCK).is_ok_and(|stat| stat.is_some()).then(|| folder.path().join(LOCK))
    }

    /// Returns the branch of that name, with the commit that it is at or would begin at.
    pub(in crate::engine::snapshot) fn target_branch(
        &self,
        name: &str,
    ) -> Result<SquashTarget, SnapshotError> {
        if name == self.branch() || ["HEAD", "@"].contains(&name) || name.starts_with('-') {
            return Err(SnapshotError::new(format!(
                "`{name}` cannot be the target of a squash: name a branch of your own"
            )));
        }
        let branch = Branch::new(name, None)?;
        let tip = branch.tip(&self.repo)?;
        let at = tip.map_or_else(|| refs::head(&self.repo), |tip| Ok(Some(tip)))?;
        Ok(SquashTarget { branch, tip, at })
    }

    /// Returns the files to commit that git ignores by now and that the branch does not have. Deletions do not count.
    fn ignored_by_now(
        &self,
        squash: &Squash<'_>,
        base_tree: ObjectId,
    ) -> Result<BTreeSet<Vec<u8>>, SnapshotError> {
        let changes = squash.steps.iter().flat_map(|step| &step.changes);
        let paths: BTreeSet<&[u8]> =
            changes.filter(|change| change.after.is_some()).map(|change| &*change.path).collect();
        let query = |path| IgnoreQuery { path, is_folder: false, is_empty: false, rules: None };
        let queries: Vec<IgnoreQuery<'_>> = paths.into_iter().map(query).collect();
        let mut ignored = BTreeSet::new();
        for (query, found) in queries.iter().zip(self.ignored(&queries)?) {
            let Some(found) = found else { continue };
            if tree::look_up(&self.repo, base_tree, query.path)?.entry().is_some() {
                continue;
            }
            if let Some(why) = found.barred {
                let path = query.path.to_str_lossy();
                return Err(SnapshotError::new(format!(
                    "nothing tells if git ignores `{path}` by now: {why}"
                )));
            }
            ignored.insert(query.path.to_vec());
        }
        Ok(ignored)
    }

    /// Places the changes of each step on the branch, without the ignored files; returns what each commit changes.
    ///
    /// Steps that a merge joins follow each other. Otherwise they are net changes, all of the same base, however they are
    /// divided: what one of them puts at a path is nothing that another could move away.
    fn place_all(
        &self,
        squash: &Squash<'_>,
        base_tree: ObjectId,
        squashed: &mut SquashResult,
    ) -> Result<Vec<Vec<TargetPath>>, SnapshotError> {
        let (mut placed, mut tree) = (Vec::new(), base_tree);
        let size = if squash.merge.is_some() { 1 } else { squash.steps.len().max(1) };
        for steps in squash.steps.chunks(size) {
            let changes: Vec<&PathChange> = steps.iter().flat_map(|step| &step.changes).collect();
            let (of_steps, with_steps) = self.place_on(tree, &changes, squashed)?;
            placed.extend(divided(steps, of_steps));
            tree = with_steps;
        }
        squashed.files = compare::trees(&self.repo, base_tree, tree, usize::MAX)?.paths.len();
        // Drop the texts that were only compared, and keep those that no snapshot has: the session's alone.
        let is_committed = |id: &ObjectId| {
            let found = |one: &TargetPath| matches!(one.to, PathTarget::Found(found) if found.id == *id);
            placed.iter().flatten().any(found)
        };
        for (id, (kind, bytes)) in self.repo.take_new() {
            if kind == Kind::Blob && is_committed(&id) {
                self.repo.write_named(kind, id, &bytes);
            }
        }
        Ok(placed)
    }

    /// Places changes on a tree, without the ignored files; returns them, and the tree with them.
    fn place_on(
        &self,
        tree: ObjectId,
        changes: &[&PathChange],
        squashed: &mut SquashResult,
    ) -> Result<(Vec<TargetPath>, ObjectId), SnapshotError> {
        let moved: BTreeSet<&Vec<u8>> = changes.iter().filter_map(|change| change.from.as_ref()).collect();
        let is_left_out =
            |change: &&PathChange| change.after.is_some() && squashed.ignored.contains(&change.path);
        let changes = changes.iter().copied().filter(|change| !is_left_out(change));
        let (gone, there): (Vec<_>, Vec<_>) = changes.partition(|change| change.after.is_none());
        // Deletions come first: a new file may be in the place of a folder, or a folder in that of a file.
        let (mut placed, mut cleared) = (Vec::new(), tree);
        for changes in [gone, there] {
            for change in changes {
                let mut change = Cow::Borrowed(change);
                if change.after.is_none() && moved.contains(&change.path) {
                    // Its text goes along, whatever the branch has of it.
                    change.to_mut().before = tree::look_up(&self.repo, tree, &change.path)?.entry();
                }
                match self.place((tree, cleared), &change)? {
                    Ok(None) => {}
                    Ok(Some(one)) => placed.push(one),
                    Err(overlap) => squashed.conflicts.push(overlap),
                }
            }
            cleared = self.written(tree, &placed)?;
        }
        Ok((placed, cleared))
    }

    /// Returns the tree with the changes of a step.
    fn written(&self, tree: ObjectId, placed: &[TargetPath]) -> Result<ObjectId, SnapshotError> {
        let mut edits = Vec::new();
        for one in placed {
            let to = match &one.to {
                PathTarget::Nothing => None,
                PathTarget::Found(found) => Some(*found),
                PathTarget::Text(kind, text) => {
                    let id = self.repo.write(Kind::Blob, text)?;
                    Some(TreeItem { kind: *kind, id })
                }
            };
            edits.push(TreeEdit { path: Cow::Borrowed(one.path.as_slice()), to });
        }
        tree::apply(&self.repo, tree, &edits)
    }

    /// Makes the commits in memory; returns the last one.
    fn commit_all(
        &self,
        squash: &Squash<'_>,
        placed: &[Vec<TargetPath>],
        base: Option<ObjectId>,
        base_tree: ObjectId,
        squashed: &mut SquashResult,
    ) -> Result<ObjectId, SnapshotError> {
        let (mut tree, mut parent) = (base_tree, base);
        for (step, placed) in squash.steps.iter().zip(placed) {
            let written = self.written(tree, placed)?;
            if written == tree {
                continue;
            }
            tree = written;
            let id = self.commit(squash, tree, parent.as_slice(), &step.message)?;
            squashed.commits.push(id.to_string());
            parent = Some(id);
        }
        if let (Some(message), Some(base), Some(last)) = (&squash.merge, base, parent) {
            let id = self.commit(squash, tree, &[base, last], message)?;
            squashed.commits.push(id.to_string());
            parent = Some(id);
        }
        parent.ok_or_else(|| SnapshotError::new("there is nothing to commit"))
    }

    /// Makes one commit.
    fn commit(
        &self,
        squash: &Squash<'_>,
        tree: ObjectId,
        parents: &[ObjectId],
        message: &str,
    ) -> Result<ObjectId, SnapshotError> {
        let signature = |by: &Author| gix::actor::Signature {
            name: by.name.as_str().into(),
            email: by.email.as_str().into(),
            time: gix::date::Time::new(squash.seconds, 0),
        };
        let by = (signature(squash.author), signature(squash.committer));
        commit_builder::write_commit(&self.repo, tree, parents, by, message.into())
    }

    /// Applies a change to its path in a tree; `None` if the tree has it already. `cleared` is the tree without what the
    /// same step deletes.
    fn place(
        &self,
        (tree, cleared): (ObjectId, ObjectId),
        change: &PathChange,
    ) -> Result<Result<Option<TargetPath>, MergeOverlap>, SnapshotError> {
        let path = change.path.clone();
        let refused = |why: &str| Ok(Err(MergeOverlap::new(&path, why, None)));
        let ours = match tree::look_up(&self.repo, cleared, &change.path)? {
            tree::Lookup::Blocked(..) => return refused("a parent of it is a file there"),
            found => found.entry(),
        };
        let (before, after) = (change.before, change.after);
        if let (Some(from), None, Some(_)) = (&change.from, ours, after) {
            let Some(there) = tree::look_up(&self.repo, tree, from)?.entry() else {
                return refused(NOT_THERE);
            };
            let moved = PathChange { path: from.clone(), from: None, ..change.clone() };
            let placed = self.place((tree, tree), &moved)?;
            let kept = PathTarget::Found(there);
            let placed = placed.map(|placed| placed.map_or(kept, |placed| placed.to));
            return Ok(match placed {
                Ok(to) => Ok(Some(TargetPath { path, to })),
                Err(overlap) => Err(MergeOverlap { path, ..overlap }),
            });
        }
        if ours == after {
            return Ok(Ok(None));
        }
        if ours == before {
            let to = after.map_or(PathTarget::Nothing, PathTarget::Found);
            return Ok(Ok(Some(TargetPath { path, to })));
        }
        match (change.before, ours, change.after) {
            (_, Some(ours), _) if ours.kind == EntryKind::Tree => refused("the branch has a folder there"),
            (Some(before), Some(ours), Some(after)) => self.merged(change, before, ours, after),
            (None, Some(_), Some(_)) => refused("the branch has another file of that name"),
            (_, Some(_), None) => refused("the session deleted it, and the branch has another version"),
            (_, None, _) => refused(NOT_THERE),
        }
    }

    /// Merges a change into a file of which the branch has another version.
    fn merged(
        &self,
        change: &PathChange,
        before: TreeItem,
        ours: TreeItem,
        after: TreeItem,
    ) -> Result<Result<Option<TargetPath>, MergeOverlap>, SnapshotError> {
        let path = change.path.clone();
        let refused =
            |why: &str, conflicts: Option<String>| Ok(Err(MergeOverlap::new(&path, why, conflicts)));
        let (old, new) = (before, after);
        if ![old, ours, new].into_iter().all(TreeItem::is_file) {
            return refused("it is a link or a submodule, and the branch has another version", None);
        }
        let kind = if new.kind == old.kind { ours.kind } else { new.kind };
        let ours_bytes = self.repo.find_blob(ours.id)?;
        let (base, new) = (self.content(before)?, self.content(after)?);
        if [&base, &ours_bytes, &new].into_iter().any(|text| looks_binary(text)) {
            return refused("it is not text, and the branch has another version", None);
        }
        match merge::merge(&base, &ours_bytes, &new, EqualChanges::Once) {
            Ok(text) if text == ours_bytes && kind == ours.kind => Ok(Ok(None)),
            Ok(text) => Ok(Ok(Some(TargetPath { path, to: PathTarget::Text(kind, text) }))),
            Err(_) => {
                let labels =
                    ConflictLabels { base: "before the session", one: "the branch", other: "the session" };
                let shown = merge::conflicts(&base, &ours_bytes, &new, labels, CONFLICTS_BYTES);
                refused("both changed the same lines", Some(shown))
            }
        }
    }
}

/// Divides what is placed among the commits of its steps. A commit that puts a file above or below deleted ones takes their
/// deletions along.
fn divided(steps: &[SquashCommit], mut placed: Vec<TargetPath>) -> Vec<Vec<TargetPath>> {
    if steps.len() == 1 {
        return vec![placed];
    }
    let is_above = |above: &[u8], path: &[u8]| {
        path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    let commits = steps.iter().map(|step| {
        let is_of_step = |one: &mut TargetPath| {
            step.changes.iter().any(|PathChange { path, after, .. }| {
                let gives_way = after.is_some() && matches!(one.to, PathTarget::Nothing);
                *path == one.path || (gives_way && (is_above(path, &one.path) || is_above(&one.path, path)))
            })
        };
        placed.extract_if(.., is_of_step).collect()
    });
    commits.collect()
}

/// A path with its target state.
struct TargetPath {
    /// Path.
    path: Vec<u8>,
    /// Target state.
    to: PathTarget,
}

/// Target state of a path.
enum PathTarget {
    /// No file.
    Nothing,
    /// An entry that the repository has.
    Found(TreeItem),
    /// A file with this text.
    Text(EntryKind, Vec<u8>),
}

// The index after a commit on the checked-out branch. As with `git commit PATH`, entries of committed files are updated,
// and all others stay as they are, staged or not. The new index is written under git's own lock, as git does it.

/// Index, in the git folder of the work tree.
const INDEX: &str = "index";
/// Lock of the index, which replaces it by a rename.
const LOCK: &str = "index.lock";
/// Flags that the user sets with `git update-index`; the last one says that others follow.
const USER_FLAGS: Flags = Flags::ASSUME_VALID.union(Flags::SKIP_WORKTREE).union(Flags::EXTENDED);
/// Most files with staged changes that an error names.
const STAGED_NAMED: usize = 5;

/// A new index in its lock file; dropping it keeps the old one.
struct NewIndex<'r> {
    /// Folder of the index.
    folder: &'r Dir,
    /// Second name of the lock, if the file system has links.
    _own: Option<RefLock>,
    /// True until it is put in place.
    waits: bool,
}

impl NewIndex<'_> {
    /// Puts it in place.
    fn put(mut self) -> Result<(), SnapshotError> {
        self.folder.rename(LOCK, self.folder, INDEX).context(|| "git's index cannot be replaced".into())?;
        self.waits = false;
        Ok(())
    }
}

impl Drop for NewIndex<'_> {
    fn drop(&mut self) {
        if self.waits {
            let _ = self.folder.remove(LOCK);
        }
    }
}

impl Store {
    /// Returns the index for `commit`, which changes `base_tree`.
    ///
    /// # Errors
    /// Fails if another git process holds the lock, the index has conflicts, or a committed file has staged changes.
    fn index_after(&self, base_tree: ObjectId, commit: ObjectId) -> Result<NewIndex<'_>, SnapshotError> {
        let folder = self.repo.head_folder();
        let doing = || {
            format!(
                "git's index is locked by `{}`: another git is running, or was killed",
                folder.path().join(LOCK).display()
            )
        };
        let own = RefLock::new(&self.repo, Some(commit)).context(|| "git's index cannot be locked".into())?;
        let (lock, own) = if own.place(&self.repo, folder, LOCK).context(doing)? {
            (own.file.try_clone().context(doing)?, Some(own))
        } else {
            (folder.create(LOCK, 0o666).context(doing)?, None)
        };
        // From here on, dropping this value removes the lock.
        let new = NewIndex { folder, _own: own, waits: true };
        let mut index = self.index()?;
        let tree = commit_builder::tree_of(&self.repo, commit)?;
        let changes = compare::trees(&self.repo, base_tree, tree, usize::MAX)?;
        follow(&mut index, &changes.paths)?;
        let doing = || "git's index cannot be written".into();
        let mut out = BufWriter::new(&lock);
        index.write_to(&mut out, write::Options::default()).context(doing)?;
        out.flush().context(doing)?;
        lock.sync_all().context(doing)?;
        Ok(new)
    }

    /// Returns the present index; an empty one if it does not exist.
    fn index(&self) -> Result<File, SnapshotError> {
        let folder = self.repo.head_folder();
        if folder.stat(INDEX).context(|| "git's index cannot be read".into())?.is_none() {
            return Ok(File::from_state(State::new(self.repo.object_hash()), INDEX));
        }
        let index = users_index(&self.repo)
            .ok_or_else(|| SnapshotError::new("git's index cannot be read, or is a split one"))?;
        if index.is_sparse() {
            return Err(SnapshotError::new("git's index is a sparse one"));
        }
        if index.entries().iter().any(|entry| entry.stage_raw() != 0) {
            return Err(SnapshotError::new("git's index has conflicts"));
        }
        Ok(index)
    }
}

/// Updates the entries of the changed paths to those of the commit.
fn follow(index: &mut File, changes: &[PathChange]) -> Result<(), SnapshotError> {
    let (mut staged, mut follows) = (Vec::new(), BTreeMap::new());
    for change in changes {
        let (before, after) = (change.before, change.after);
        let now = entry_at(index, change.path.as_bstr());
        if now == before && now != after {
            follows.insert(change.path.as_bstr(), after);
        } else if now != after {
            staged.push(change.path.as_bstr());
        }
    }
    staged.extend(
        follows
            .iter()
            .filter(|(path, after)| after.is_some() && is_blocked(index, path, &follows))
            .map(|(path, _)| *path),
    );
    if !staged.is_empty() {
        return Err(has_staged(&staged));
    }
    smudge(index);
    let kept =
        follows.keys().map(|path| index.entry_by_path(path).map_or(Flags::empty(), |entry| entry.flags));
    let flags: Vec<Flags> = kept.map(|flags| flags & USER_FLAGS).collect();
    index.remove_entries(|_, path, _| follows.contains_key(path));
    for ((path, after), flags) in follows.iter().zip(flags) {
        if let Some(found) = after {
            // Without stat data, so that git examines the file itself.
            let (stat, mode) = (Stat::default(), mode_of(found.kind));
            index.dangerously_push_entry(stat, found.id, flags, mode, path);
        }
    }
    index.sort_entries();
    index.remove_tree();
    Ok(())
}

/// Returns true if a file that stays conflicts with a new one at `path`: above it, or below.
fn is_blocked(index: &State, path: &BStr, follows: &BTreeMap<&BStr, Option<TreeItem>>) -> bool {
    let stays = |path: &BStr| !matches!(follows.get(path), Some(None));
    let folders = path.find_iter("/").filter_map(|at| path.get(..at)).map(ByteSlice::as_bstr);
    let is_below = folders.into_iter().any(|folder| index.entry_by_path(folder).is_some() && stays(folder));
    let inside = [path.as_bytes(), b"/"].concat();
    let inside = index.prefixed_entries(inside.as_bstr()).unwrap_or_default();
    is_below || inside.iter().any(|entry| stays(entry.path(index)))
}

/// Returns the entry at a path; one added with `--intent-to-add` counts as none.
fn entry_at(index: &State, path: &BStr) -> Option<TreeItem> {
    let entry = index.entry_by_path(path)?;
    let kind = entry.mode.to_tree_entry_mode()?.kind();
    (!entry.flags.contains(Flags::INTENT_TO_ADD)).then_some(TreeItem { kind, id: entry.id })
}

/// Clears the stat data of files modified as late as the old index: in a newer index they would seem to prove that
/// nothing has changed since.
fn smudge(index: &mut File) {
    let written = index.timestamp().unix_seconds();
    for entry in index.entries_mut() {
        if i64::from(entry.stat.mtime.secs.max(entry.stat.ctime.secs)) >= written {
            entry.stat = Stat::default();
        }
    }
}

/// Returns the error for files whose staged changes would be lost.
fn has_staged(paths: &[&BStr]) -> SnapshotError {
    let named: Vec<String> =
        paths.iter().take(STAGED_NAMED).map(|path| path.to_str_lossy().into_owned()).collect();
    let more = paths.len().saturating_sub(STAGED_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    SnapshotError::new(format!("git's index has staged changes in {}{more}", named.join(", ")))
}
