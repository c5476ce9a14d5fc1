//! The snapshots so far, newest first.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use similar::DiffTag;

use super::compare;
use super::compare::{Changes, PathChange, Version, VersionKind};
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};
use crate::engine::snapshot::store::message;
use crate::engine::snapshot::store::{chain, tree};
use crate::text::myers;

/// Most paths of one snapshot that a listing looks at.
const PATHS_MAX: usize = 10_000;
/// Largest file whose lines are counted, in bytes.
const COUNT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest time that counting the lines of one file may take.
const COUNT_TIME_MAX: Duration = Duration::from_millis(200);
/// Longest time that counting lines may take in one listing; what follows is not counted.
const LISTING_TIME_MAX: Duration = Duration::from_secs(2);
/// Largest file that is compared line by line, in bytes.
const COMPARE_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Longest time that looking for the wanted snapshots may take; the rest is said to be there.
const WALK_TIME_MAX: Duration = Duration::from_secs(20);
/// A byte that no text has; so many bytes are searched for it, as git does.
const BINARY_PROBE_BYTES: usize = 8000;

/// Which snapshots are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'a> {
    /// Only those that changed this path, or something below it.
    pub path: Option<&'a [u8]>,
    /// Only this commit, in hex, and those before it.
    pub from: Option<&'a str>,
    /// Only those of this session.
    pub session: Option<&'a str>,
    /// Only those whose message, save its trailers, this finds something in.
    pub grep: Option<&'a regex::Regex>,
    /// Only those made at or after this time.
    pub since: Option<SystemTime>,
    /// Only those made after this commit, in hex.
    pub after: Option<&'a str>,
    /// So many are passed over first.
    pub offset: usize,
    /// At most so many.
    pub limit: usize,
}

/// One snapshot, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The commit, in hex.
    pub id: String,
    /// The commit before it on the branch, in hex.
    pub parent: Option<String>,
    /// First line of the message.
    pub subject: String,
    /// Why the change was made, where that was said.
    pub why: Option<String>,
    /// Session that made the change, or found it.
    pub session: String,
    /// The harness that the session belongs to, where it is known.
    pub harness: Option<String>,
    /// Tool that made it; `external` where nothing of lbx did.
    pub tool: String,
    /// Its number in the journal.
    pub seq: u64,
    /// What the policy made of it, where its caller had not seen the bytes.
    pub gate: Option<String>,
    /// When, in seconds since 1970.
    pub seconds: i64,
    /// The paths that it changed, with their lines.
    pub files: Vec<FileStat>,
    /// Whether there are more of them.
    pub truncated: bool,
}

/// How much a snapshot changed one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// The path from the root.
    pub path: Vec<u8>,
    /// Lines added; `None` for what is no text, or takes too long to count.
    pub insertions: Option<usize>,
    /// Lines removed; likewise.
    pub deletions: Option<usize>,
}

/// A listing of snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    /// The snapshots, newest first.
    pub snapshots: Vec<Snapshot>,
    /// Whether there are more.
    pub truncated: bool,
    /// Why the snapshots before these cannot be read, where that is so.
    pub unreadable: Option<String>,
}

impl Store {
    /// Lists snapshots, newest first, back to where the branch began.
    ///
    /// # Errors
    /// Where the branch or a commit on it cannot be read.
    pub fn log(&self, query: &Query<'_>) -> Result<Log, SnapshotError> {
        let mut log = Log::default();
        let mut passed_over = 0;
        let (count_until, walk_until) = (Instant::now() + LISTING_TIME_MAX, Instant::now() + WALK_TIME_MAX);
        let mut next = match query.from {
            Some(hex) => {
                Some(ObjectId::from_hex(hex.as_bytes()).doing(|| format!("`{hex}` is not a commit id"))?)
            }
            None => self.branch.tip(&self.repo)?,
        };
        let after = query.after.map(|hex| ObjectId::from_hex(hex.as_bytes()));
        let after = after.transpose().doing(|| "the oldest snapshot is named by no commit id".into())?;
        while let Some(id) = next {
            if after == Some(id) {
                break;
            }
            if Instant::now() >= walk_until {
                log.truncated = true;
                break;
            }
            let found = match self.snapshot(id) {
                // What a damaged disk has left of the newer ones is shown all the same.
                Err(error) if !log.snapshots.is_empty() && !error.is_passing() => {
                    log.unreadable = Some(error.to_string());
                    break;
                }
                found => found?,
            };
            let Some(found) = found else { break };
            next = found.first_parent;
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

    /// One snapshot with what it changed; `None` where the commit is none.
    ///
    /// # Errors
    /// Where there is no such commit, or it cannot be read.
    pub fn one(&self, commit: &str) -> Result<Option<Snapshot>, SnapshotError> {
        let id = ObjectId::from_hex(commit.as_bytes()).doing(|| format!("`{commit}` is not a commit id"))?;
        let found = self.snapshot(id)?;
        found.map(|found| self.with_files(found, Instant::now() + LISTING_TIME_MAX)).transpose()
    }

    /// The paths that differ between two commits, in hex; without `from`, all that `to` has.
    ///
    /// # Errors
    /// Where there is no such commit, or it cannot be read.
    pub fn changes(&self, from: Option<&str>, to: &str, paths_max: usize) -> Result<Changes, SnapshotError> {
        let tree = |hex: &str| {
            let id = ObjectId::from_hex(hex.as_bytes()).doing(|| format!("`{hex}` is not a commit id"))?;
            chain::tree_of(&self.repo, id)
        };
        let empty = ObjectId::empty_tree(self.repo.object_hash());
        let from = from.map(tree).transpose()?.unwrap_or(empty);
        compare::trees(&self.repo, from, tree(to)?, paths_max)
    }

    /// The content of one version of a file, as it is stored.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn content(&self, version: Version) -> Result<Vec<u8>, SnapshotError> {
        if version.kind == VersionKind::Submodule {
            return Ok(format!("Subproject commit {}\n", version.id).into_bytes());
        }
        let doing = || format!("the object {} cannot be read", version.id);
        self.repo.find_blob(version.id).doing(doing)
    }

    /// The same, to be compared: of what has more bytes than a text that anyone reads, something
    /// binary that tells it from others.
    ///
    /// # Errors
    /// As [`Self::content`].
    pub fn content_to_compare(&self, version: Version) -> Result<Vec<u8>, SnapshotError> {
        if self.size(version)? > COMPARE_BYTES_MAX {
            return Ok(format!("\0{}", version.id).into_bytes());
        }
        self.content(version)
    }

    /// How many bytes one version of a file has.
    pub(in crate::engine::snapshot) fn size(&self, version: Version) -> Result<u64, SnapshotError> {
        if version.kind == VersionKind::Submodule { Ok(0) } else { Ok(self.repo.header(version.id)?.1) }
    }

    /// Reads a commit; `None` where it is no snapshot.
    pub(in crate::engine::snapshot) fn snapshot(&self, id: ObjectId) -> Result<Option<Read>, SnapshotError> {
        let doing = || format!("the snapshot {id} cannot be read");
        let commit = self.repo.find_commit(id).doing(doing)?;
        let text = commit.message_raw().doing(doing)?;
        let Some(trailers) = message::trailers(text) else {
            return Ok(None);
        };
        let author = commit.author_name().doing(doing)?.to_str_lossy();
        let harness = chain::harness_of(&author, &trailers.session);
        let first_parent = commit.parent_ids().next();
        let empty = ObjectId::empty_tree(self.repo.object_hash());
        Ok(Some(Read {
            first_parent,
            tree: commit.tree_id().doing(doing)?,
            tree_before: first_parent.map_or(Ok(empty), |id| chain::tree_of(&self.repo, id))?,
            snapshot: Snapshot {
                id: id.to_string(),
                parent: first_parent.map(|id| id.to_string()),
                subject: message::subject(text),
                why: message::why(text),
                harness: harness.map(str::to_owned),
                session: trailers.session,
                tool: trailers.tool,
                seq: trailers.seq,
                gate: trailers.gate,
                seconds: commit.seconds().doing(doing)?,
                files: Vec::new(),
                truncated: false,
            },
        }))
    }

    /// Whether a snapshot is one that is wanted.
    fn matches(&self, query: &Query<'_>, found: &Read) -> Result<bool, SnapshotError> {
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

    /// Adds what a snapshot changed; its lines are counted only until `count_until`.
    fn with_files(&self, found: Read, count_until: Instant) -> Result<Snapshot, SnapshotError> {
        let changes = compare::trees(&self.repo, found.tree_before, found.tree, PATHS_MAX)?;
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

    /// Counts the lines of one changed file; those of one that is damaged are not counted.
    fn stat(&self, change: PathChange, count_until: Instant) -> Result<FileStat, SnapshotError> {
        match self.stat_of(&change, count_until) {
            Err(error) if !error.is_passing() => {
                Ok(FileStat { path: change.path, insertions: None, deletions: None })
            }
            stat => stat,
        }
    }

    /// Counts the lines of one changed file.
    fn stat_of(&self, change: &PathChange, count_until: Instant) -> Result<FileStat, SnapshotError> {
        let path = || change.path.clone();
        if Instant::now() >= count_until {
            return Ok(FileStat { path: path(), insertions: None, deletions: None });
        }
        let size = |version: Option<Version>| version.map_or(Ok(0), |version| self.size(version));
        if size(change.before)?.max(size(change.after)?) > COUNT_BYTES_MAX as u64 {
            return Ok(FileStat { path: path(), insertions: None, deletions: None });
        }
        let read = |version: Option<Version>| version.map_or(Ok(Vec::new()), |version| self.content(version));
        let counted = count(&read(change.before)?, &read(change.after)?);
        let (insertions, deletions) = counted.map_or((None, None), |(came, went)| (Some(came), Some(went)));
        Ok(FileStat { path: path(), insertions, deletions })
    }
}

/// Whether a change is a side of a rename that keeps the content: no line comes or goes.
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

/// A snapshot with what it takes to look into it.
pub(in crate::engine::snapshot) struct Read {
    /// The commit before it.
    pub first_parent: Option<ObjectId>,
    /// Its tree.
    pub tree: ObjectId,
    /// The tree of the commit before it.
    pub tree_before: ObjectId,
    /// What is said of it.
    pub snapshot: Snapshot,
}

/// The lines that came in and went out between two texts; `None` for what cannot be counted.
fn count(before: &[u8], after: &[u8]) -> Option<(usize, usize)> {
    let is_binary = |bytes: &[u8]| bytes.get(..BINARY_PROBE_BYTES).unwrap_or(bytes).contains(&0);
    if before.len().max(after.len()) > COUNT_BYTES_MAX || is_binary(before) || is_binary(after) {
        return None;
    }
    let (before, after): (Vec<&[u8]>, Vec<&[u8]>) =
        (before.lines_with_terminator().collect(), after.lines_with_terminator().collect());
    let ops = myers::of_lines(&before, &after, Some(Instant::now() + COUNT_TIME_MAX));
    let changed = || ops.iter().filter(|op| op.tag() != DiffTag::Equal);
    Some((changed().map(|op| op.new_range().len()).sum(), changed().map(|op| op.old_range().len()).sum()))
}
