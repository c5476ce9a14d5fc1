//! History of snapshots, newest first, and the snapshot that each line of a file came from.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::objs::tree::EntryKind;
use similar::{DiffOp, DiffTag};

use super::compare::{self, Changes, PathChange};
use crate::engine::snapshot::store::tree::{self, TreeItem};
use crate::engine::snapshot::store::{ErrorContext as _, SnapshotError};
use crate::engine::snapshot::store::{Store, commit_builder, refs};
use crate::limits::LOG_PATHS_MAX;
use crate::text::content::body_of;
use crate::text::{line_diff, lines};

/// Largest file whose lines are counted, in bytes.
const COUNT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest time that counting lines may take in one listing; later files are not counted.
const LISTING_TIME_MAX: Duration = Duration::from_secs(2);
/// Largest file that is compared line by line, in bytes.
const COMPARE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Longest search for the wanted snapshots; after that the listing is cut.
const WALK_TIME_MAX: Duration = Duration::from_secs(20);
/// Bytes that are searched for NUL, which no text has; as many as in git.
const BINARY_PROBE_BYTES: usize = 8000;

/// Filter for snapshots.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'a> {
    /// Only snapshots that changed this path, or something below it.
    pub path: Option<&'a [u8]>,
    /// Only this commit, in hex, and earlier ones.
    pub from: Option<&'a str>,
    /// Only those of this session.
    pub session: Option<&'a str>,
    /// Only those whose message, without trailers, matches this.
    pub grep: Option<&'a regex::Regex>,
    /// Only those made at or after this time.
    pub since: Option<SystemTime>,
    /// Only those made after this commit, in hex.
    pub after: Option<&'a str>,
    /// Number of snapshots to skip first.
    pub offset: usize,
    /// Most snapshots to return.
    pub limit: usize,
}

/// One snapshot of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Commit, in hex.
    pub id: String,
    /// Commit before it on the branch, in hex.
    pub parent: Option<String>,
    /// First line of the message.
    pub subject: String,
    /// Reason for the change, if one was given.
    pub why: Option<String>,
    /// Session that made the change, or found it.
    pub session: String,
    /// Harness of the session, if known.
    pub harness: Option<String>,
    /// Tool that made it; `external` for a change from outside lbx.
    pub tool: String,
    /// Number in the journal.
    pub seq: u64,
    /// Verdict of the policy, if the caller had not seen the bytes.
    pub gate: Option<String>,
    /// Time, in seconds since 1970.
    pub seconds: i64,
    /// Paths that it changed, with line counts.
    pub files: Vec<FileStat>,
    /// True if the list was cut.
    pub truncated: bool,
}

/// Size of the change of one file in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// Path from the root.
    pub path: Vec<u8>,
    /// Lines added; `None` for a binary file, or one that takes too long to count.
    pub insertions: Option<usize>,
    /// Lines removed; `None` likewise.
    pub deletions: Option<usize>,
}

/// A listing of snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    /// Snapshots, newest first.
    pub snapshots: Vec<Snapshot>,
    /// True if the list was cut.
    pub truncated: bool,
    /// Reason why earlier snapshots cannot be read, if so.
    pub unreadable: Option<String>,
}

impl Store {
    /// Lists snapshots, newest first, back to the start of the branch.
    ///
    /// # Errors
    /// Fails if the branch or a commit on it cannot be read.
    pub fn log(&self, query: &Query<'_>) -> Result<Log, SnapshotError> {
        let mut log = Log::default();
        let mut passed_over = 0;
        let (count_until, walk_until) = (Instant::now() + LISTING_TIME_MAX, Instant::now() + WALK_TIME_MAX);
        let from = match query.from {
            Some(hex) => Some(refs::commit_id(hex)?),
            None => self.branch.tip(&self.repo)?,
        };
        for found in self.snapshots(from) {
            if Instant::now() >= walk_until {
                log.truncated = true;
                break;
            }
            let found = match SnapshotError::found(found)? {
                Ok(found) => found,
                // Show the newer ones that a damaged disk has left.
                Err(message) if !log.snapshots.is_empty() => {
                    log.unreadable = Some(message);
                    break;
                }
                Err(message) => return Err(SnapshotError::new(message)),
            };
            if query.after == Some(&found.snapshot.id) {
                break;
            }
            if !self.matches(query, &found)? {
                continue;
            }
            if passed_over < query.offset {
                passed_over += 1;
                continue;
            }
            if log.snapshots.len() >= query.limit {
                log.truncated = true;
                break;
            }
            log.snapshots.push(self.with_files(found, count_until)?);
        }
        Ok(log)
    }

    /// Returns one snapshot with its changes; `None` if the commit is not a snapshot.
    ///
    /// # Errors
    /// Fails if the commit does not exist or cannot be read.
    pub fn one(&self, commit: &str) -> Result<Option<Snapshot>, SnapshotError> {
        let id = refs::commit_id(commit)?;
        let found = self.snapshot(id)?;
        found.map(|found| self.with_files(found, Instant::now() + LISTING_TIME_MAX)).transpose()
    }

    /// Returns the paths that differ between two commits, in hex; without `from`, all paths of `to`.
    ///
    /// # Errors
    /// Fails if a commit does not exist or cannot be read.
    pub fn changes(&self, from: Option<&str>, to: &str, paths_max: usize) -> Result<Changes, SnapshotError> {
        let tree = |hex: &str| {
            let id = refs::commit_id(hex)?;
            commit_builder::tree_of(&self.repo, id)
        };
        let empty = ObjectId::empty_tree(self.repo.object_hash());
        let from = from.map(tree).transpose()?.unwrap_or(empty);
        compare::trees(&self.repo, from, tree(to)?, paths_max)
    }

    /// Returns the stored content of one version of a file.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn content(&self, version: TreeItem) -> Result<Vec<u8>, SnapshotError> {
        if version.kind == EntryKind::Commit {
            return Ok(format!("Subproject commit {}\n", version.id).into_bytes());
        }
        let doing = || format!("the object {} cannot be read", version.id);
        self.repo.find_blob(version.id).context(doing)
    }

    /// Returns the content for a comparison. For a file larger than any readable text, returns a short binary text that
    /// identifies it.
    ///
    /// # Errors
    /// As [`Self::content`].
    pub fn content_to_compare(&self, version: TreeItem) -> Result<Vec<u8>, SnapshotError> {
        if self.size(version)? > COMPARE_BYTES_MAX {
            return Ok(format!("\0{}", version.id).into_bytes());
        }
        self.content(version)
    }

    /// Returns the size of one version of a file, in bytes.
    pub(in crate::engine::snapshot) fn size(&self, version: TreeItem) -> Result<u64, SnapshotError> {
        if version.kind == EntryKind::Commit { Ok(0) } else { Ok(self.repo.header(version.id)?.1) }
    }

    /// Reads the snapshots from a commit back to the start of the branch.
    pub(in crate::engine::snapshot) fn snapshots(
        &self,
        from: Option<ObjectId>,
    ) -> impl Iterator<Item = Result<SnapshotTrees, SnapshotError>> + '_ {
        let mut next = from;
        std::iter::from_fn(move || {
            let read = self.snapshot(next.take()?).transpose()?;
            next = read.as_ref().ok().and_then(|read| read.first_parent);
            Some(read)
        })
    }

    /// Reads a commit; `None` if it is not a snapshot.
    pub(in crate::engine::snapshot) fn snapshot(
        &self,
        id: ObjectId,
    ) -> Result<Option<SnapshotTrees>, SnapshotError> {
        let doing = || format!("the snapshot {id} cannot be read");
        let commit = self.repo.find_commit(id).context(doing)?;
        let text = commit.message_raw().context(doing)?;
        let Some(trailers) = commit_builder::parse_trailers(text) else {
            return Ok(None);
        };
        let author = commit.author_name().context(doing)?.to_str_lossy();
        let harness = commit_builder::harness_of(&author, &trailers.session);
        let first_parent = commit.parent_ids().next();
        let empty = ObjectId::empty_tree(self.repo.object_hash());
        Ok(Some(SnapshotTrees {
            first_parent,
            tree: commit.tree_id().context(doing)?,
            tree_before: first_parent.map_or(Ok(empty), |id| commit_builder::tree_of(&self.repo, id))?,
            snapshot: Snapshot {
                id: id.to_string(),
                parent: first_parent.map(|id| id.to_string()),
                subject: commit_builder::subject_of(text),
                why: commit_builder::why_of(text),
                harness: harness.map(str::to_owned),
                session: trailers.session,
                tool: trailers.tool,
                seq: trailers.seq,
                gate: trailers.gate,
                seconds: commit.seconds().context(doing)?,
                files: Vec::new(),
                truncated: false,
            },
        }))
    }

    /// Returns true if a snapshot matches the query.
    fn matches(&self, query: &Query<'_>, found: &SnapshotTrees) -> Result<bool, SnapshotError> {
        if query.session.is_some_and(|session| session != found.snapshot.session) {
            return Ok(false);
        }
        let says = |pattern: &regex::Regex| {
            let why = found.snapshot.why.as_deref().unwrap_or_default();
            pattern.is_match(&found.snapshot.subject) || pattern.is_match(why)
        };
        if !query.grep.is_none_or(says) {
            return Ok(false);
        }
        let time = UNIX_EPOCH + Duration::from_secs(found.snapshot.seconds.try_into().unwrap_or(0));
        if query.since.is_some_and(|since| time < since) {
            return Ok(false);
        }
        let Some(path) = query.path.filter(|path| !path.is_empty()) else {
            return Ok(true);
        };
        let at = |tree| tree::look_up(&self.repo, tree, path).map(tree::Lookup::entry);
        Ok(at(found.tree)? != at(found.tree_before)?)
    }

    /// Adds the changed files of a snapshot; counts their lines only until `count_until`.
    fn with_files(&self, found: SnapshotTrees, count_until: Instant) -> Result<Snapshot, SnapshotError> {
        let changes = compare::trees(&self.repo, found.tree_before, found.tree, LOG_PATHS_MAX)?;
        let is_renamed = renamed(&changes.paths);
        let files = changes.paths.into_iter().map(|change| {
            if is_renamed(&change) {
                return Ok(FileStat { path: change.path, insertions: Some(0), deletions: Some(0) });
            }
            self.stat(change, count_until)
        });
        let files = files.collect::<Result<_, _>>()?;
        Ok(Snapshot { files, truncated: changes.truncated, ..found.snapshot })
    }

    /// Counts the lines of one changed file until `count_until`; returns no counts for a damaged one.
    fn stat(&self, change: PathChange, count_until: Instant) -> Result<FileStat, SnapshotError> {
        let counted = SnapshotError::found(self.count_lines(&change, count_until))?;
        let (insertions, deletions) = counted.ok().flatten().unzip();
        Ok(FileStat { path: change.path, insertions, deletions })
    }

    /// Counts the lines added and removed in one changed file.
    fn count_lines(
        &self,
        change: &PathChange,
        count_until: Instant,
    ) -> Result<Option<(usize, usize)>, SnapshotError> {
        let size = |version: Option<TreeItem>| version.map_or(Ok(0), |version| self.size(version));
        if Instant::now() >= count_until
            || size(change.before)?.max(size(change.after)?) > COUNT_BYTES_MAX as u64
        {
            return Ok(None);
        }
        let read =
            |version: Option<TreeItem>| version.map_or(Ok(Vec::new()), |version| self.content(version));
        Ok(count(&read(change.before)?, &read(change.after)?))
    }
}

/// Returns a test for changes that are one side of an exact rename, which adds and removes no lines.
fn renamed(changes: &[PathChange]) -> impl Fn(&PathChange) -> bool + use<> {
    let ids =
        |side: fn(&PathChange) -> Option<ObjectId>| changes.iter().filter_map(side).collect::<HashSet<_>>();
    let gone = ids(|change| change.before.filter(|_| change.after.is_none()).map(|version| version.id));
    let come = ids(|change| change.after.filter(|_| change.before.is_none()).map(|version| version.id));
    move |change| match (change.before, change.after) {
        (Some(before), None) => come.contains(&before.id),
        (None, Some(after)) => gone.contains(&after.id),
        _ => false,
    }
}

/// A snapshot with its trees.
pub(in crate::engine::snapshot) struct SnapshotTrees {
    /// Commit before it.
    pub first_parent: Option<ObjectId>,
    /// Its tree.
    pub tree: ObjectId,
    /// Tree of the commit before it.
    pub tree_before: ObjectId,
    /// Snapshot, without its changed files.
    pub snapshot: Snapshot,
}

/// Returns the number of lines added and removed between two texts; `None` if they cannot be counted.
fn count(before: &[u8], after: &[u8]) -> Option<(usize, usize)> {
    let is_binary = |bytes: &[u8]| bytes.get(..BINARY_PROBE_BYTES).unwrap_or(bytes).contains(&0);
    if before.len().max(after.len()) > COUNT_BYTES_MAX || is_binary(before) || is_binary(after) {
        return None;
    }
    let (before, after): (Vec<&[u8]>, Vec<&[u8]>) =
        (before.lines_with_terminator().collect(), after.lines_with_terminator().collect());
    let ops = line_diff::diff(&before, &after).ops;
    let changed = || ops.iter().filter(|op| op.tag() != DiffTag::Equal);
    Some((changed().map(|op| op.new_range().len()).sum(), changed().map(|op| op.old_range().len()).sum()))
}

/// Most paths of one snapshot that are searched for a file's earlier name.
const RENAME_PATHS_MAX: usize = 10_000;

/// Origins of the lines of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blame {
    /// Index in `origins` for each line; `None` for a line from before the first snapshot, or one that is in no
    /// snapshot yet.
    pub lines: Vec<Option<usize>>,
    /// Snapshots that lines came from.
    pub origins: Vec<LineOrigin>,
    /// True if any snapshot has the file.
    pub is_known: bool,
    /// True if time ran out before all snapshots were read.
    pub truncated: bool,
}

/// A snapshot that lines came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineOrigin {
    /// Snapshot, without its changed files.
    pub snapshot: Snapshot,
    /// Path of the file there.
    pub path: Vec<u8>,
}

impl Store {
    /// Finds the origin of each line of `content`, the present content of `path`, by going back from the newest
    /// snapshot until `until`. Follows renames. Ignores line endings.
    ///
    /// # Errors
    /// Fails if the branch, a commit on it or a version of the file cannot be read.
    pub fn blame(&self, path: &[u8], content: &[u8], until: Instant) -> Result<Blame, SnapshotError> {
        let lines = split(content);
        let mut blame = Blame { lines: vec![None; lines.len()], ..Blame::default() };
        let tip = self.branch.tip(&self.repo)?;
        let Some(newest) = self.snapshots(tip).next().transpose()? else { return Ok(blame) };
        let Some(stored) = self.stored(newest.tree, path)? else { return Ok(blame) };
        blame.is_known = true;
        let mut pending = UnknownLines::of(&lines, &split(&body_of(&stored)));
        let mut path = path.to_vec();
        for found in self.snapshots(tip) {
            if pending.lines.is_empty() {
                break;
            }
            let found = found?;
            if Instant::now() >= until {
                blame.truncated = true;
                break;
            }
            let at = |tree| tree::look_up(&self.repo, tree, &path).map(tree::Lookup::entry);
            if at(found.tree)? != at(found.tree_before)? {
                let (now, origin) = (path.clone(), blame.origins.len());
                let before = match self.stored(found.tree_before, &path)? {
                    Some(before) => Some(before),
                    None => self.text_before_rename(&mut path, found.tree_before, found.tree)?,
                };
                let after = self.stored(found.tree, &now)?.unwrap_or_default();
                let before = before.unwrap_or_default();
                let came = pending.step_back(&split(&body_of(&before)), &split(&body_of(&after)));
                for line in &came {
                    if let Some(line) = blame.lines.get_mut(*line) {
                        *line = Some(origin);
                    }
                }
                if !came.is_empty() {
                    blame.origins.push(LineOrigin { snapshot: found.snapshot, path: now });
                }
            }
        }
        Ok(blame)
    }

    /// Returns the text that a file had under an earlier name, before a snapshot; sets `path` to that name.
    fn text_before_rename(
        &self,
        path: &mut Vec<u8>,
        before: ObjectId,
        after: ObjectId,
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        let changes = compare::trees(&self.repo, before, after, RENAME_PATHS_MAX)?;
        let renamed = self.deltas(&changes.paths)?.into_iter().find_map(|delta| {
            let is_it = delta.after.as_ref().is_some_and(|(after, _)| after == path);
            delta.before.filter(|_| is_it)
        });
        let Some((old, _)) = renamed else { return Ok(None) };
        let text = self.stored(before, &old)?;
        *path = old;
        Ok(text)
    }
}

/// Returns the lines of a text, without their endings.
fn split(text: &[u8]) -> Vec<&[u8]> {
    lines::lines(text).map(lines::without_ending).collect()
}

/// Lines with an unknown origin.
struct UnknownLines {
    /// Position of each line in the present file, and in the version reached.
    lines: Vec<(usize, usize)>,
}

impl UnknownLines {
    /// Returns the lines that the present file shares with its newest version.
    fn of(now: &[&[u8]], newest: &[&[u8]]) -> Self {
        let kept = common_lines(newest, now);
        Self { lines: kept.into_iter().map(|(old, new)| (new, old)).collect() }
    }

    /// Goes back from a version to the one before; returns the lines that were added in between.
    fn step_back(&mut self, before: &[&[u8]], after: &[&[u8]]) -> Vec<usize> {
        let mut earlier = vec![None; after.len()];
        for (old, new) in common_lines(before, after) {
            if let Some(place) = earlier.get_mut(new) {
                *place = Some(old);
            }
        }
        let mut came = Vec::new();
        self.lines.retain_mut(|(line, place)| {
            let old = earlier.get(*place).copied().flatten();
            match old {
                Some(old) => *place = old,
                None => came.push(*line),
            }
            old.is_some()
        });
        came
    }
}

/// Returns the common lines of two texts, each with its position in both.
fn common_lines(old: &[&[u8]], new: &[&[u8]]) -> Vec<(usize, usize)> {
    let ops = line_diff::diff(old, new).ops;
    let equal = ops.into_iter().filter(|op| matches!(op, DiffOp::Equal { .. }));
    equal.flat_map(|op| op.old_range().zip(op.new_range())).collect()
}
