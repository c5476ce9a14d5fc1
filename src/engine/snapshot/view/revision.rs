//! Resolves names to commits, and reads the files of commits.

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::objs::tree::EntryKind;

use super::history::Snapshot;
use crate::engine::snapshot::record::prepare;
use crate::engine::snapshot::record::rules::RepoRules;
use crate::engine::snapshot::store::commit_builder::{self, EXTERNAL};
use crate::engine::snapshot::store::tree::{self, EarlierFile, Trees};
use crate::engine::snapshot::store::{ErrorContext as _, SnapshotError};
use crate::engine::snapshot::store::{Store, refs};
use crate::limits::REVISION_STEPS_MAX;
use crate::text::similarity;

/// Shortest prefix of an id that counts as one.
const PREFIX_DIGITS_MIN: usize = 4;
/// Most snapshots whose ids are compared with an unknown one.
const NEAR_LOOKED_AT: usize = 200;
/// Most similar snapshots that are named.
const NEAR_NAMED: usize = 3;

impl Store {
    /// Returns the commit, in hex, that `name` refers to; `None` if no commit matches, or more than one.
    ///
    /// A name is an id or a unique prefix of one, `HEAD`, a branch or a tag, optionally followed by `~N` or `^` for
    /// earlier commits.
    ///
    /// # Errors
    /// Fails if the repository cannot be read.
    pub fn resolve(&self, name: &str) -> Result<Option<String>, SnapshotError> {
        let Some((base, steps)) = steps_back(name) else {
            return Ok(None);
        };
        let mut found = self.resolve_name(base)?;
        for _ in 0..steps {
            let Some(id) = found else { break };
            found = self.parent_of(id)?;
        }
        Ok(found.map(|id| id.to_string()))
    }

    /// Returns the commit before a commit, in hex; `None` for the first.
    ///
    /// # Errors
    /// Fails if the commit does not exist or cannot be read.
    pub fn parent(&self, commit: &str) -> Result<Option<String>, SnapshotError> {
        let id = refs::commit_id(commit)?;
        Ok(self.parent_of(id)?.map(|id| id.to_string()))
    }

    /// Returns the time of a commit, in seconds since 1970; `None` for a snapshot, which the branch itself puts in
    /// order.
    ///
    /// # Errors
    /// Fails if the commit does not exist or cannot be read.
    pub fn time_of_foreign(&self, commit: &str) -> Result<Option<i64>, SnapshotError> {
        let id = refs::commit_id(commit)?;
        if self.snapshot(id)?.is_some() {
            return Ok(None);
        }
        let seconds = self.repo.find_commit(id)?.seconds();
        seconds.map(Some).context(|| format!("the commit {commit} cannot be read"))
    }

    /// Returns the snapshots that `name` may mean, each with id and subject.
    pub fn near(&self, name: &str) -> Vec<String> {
        let tip = self.branch.tip(&self.repo).ok().flatten();
        let recent = self.snapshots(tip).map_while(Result::ok).take(NEAR_LOOKED_AT);
        let recent: Vec<_> = recent.map(|found| (found.snapshot.id, found.snapshot.subject)).collect();
        let digits = name.len().clamp(PREFIX_DIGITS_MIN, 40);
        let short = |id: &str| id.chars().take(digits.max(10)).collect::<String>();
        let ids: Vec<&str> = recent.iter().filter_map(|(id, _)| id.get(..digits)).collect();
        let alike = similarity::nearest(name, &ids, NEAR_NAMED, 0.7);
        let is_alike = |id: &str| alike.iter().any(|near| id.starts_with(near));
        let none_is = alike.is_empty();
        let chosen = recent.iter().filter(|(id, _)| none_is || is_alike(id)).take(NEAR_NAMED);
        chosen.map(|(id, subject)| format!("{} {subject}", short(id))).collect()
    }

    /// Returns the commit of a name without steps.
    fn resolve_name(&self, name: &str) -> Result<Option<ObjectId>, SnapshotError> {
        if name == "HEAD" {
            return refs::head(&self.repo);
        }
        if name == self.branch() {
            return self.branch.tip(&self.repo);
        }
        if let Some(id) = refs::resolve_short(&self.repo, name)? {
            return Ok(self.is_commit(id).then_some(id));
        }
        let is_hex = name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || name.len() < PREFIX_DIGITS_MIN || name.len() > self.repo.object_hash().len_in_hex() {
            return Ok(None);
        }
        let prefix = gix::hash::Prefix::from_hex(&name.to_ascii_lowercase())
            .context(|| format!("`{name}` is not a commit id"))?;
        let candidates = self.repo.beginning_with(prefix)?;
        let mut commits = candidates.into_iter().filter(|id| self.is_commit(*id));
        match (commits.next(), commits.next()) {
            (Some(only), None) => Ok(Some(only)),
            _ => Ok(None),
        }
    }

    /// Returns true if an object is a commit.
    fn is_commit(&self, id: ObjectId) -> bool {
        self.repo.header(id).is_ok_and(|(kind, _)| kind == gix::objs::Kind::Commit)
    }

    /// Returns the first parent of a commit.
    pub(in crate::engine::snapshot) fn parent_of(
        &self,
        id: ObjectId,
    ) -> Result<Option<ObjectId>, SnapshotError> {
        let commit = self.repo.find_commit(id).context(|| format!("the commit {id} cannot be read"))?;
        Ok(commit.parent_ids().next())
    }
}

/// Returns a name without its `~N` and `^` suffixes, and the number of steps back.
fn steps_back(name: &str) -> Option<(&str, usize)> {
    let end = name.find(['~', '^']).unwrap_or(name.len());
    let (base, mut rest) = name.split_at_checked(end)?;
    let mut steps = 0_usize;
    while let Some(sign) = rest.chars().next() {
        let after = rest.get(1..)?;
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (number, more) = after.split_at_checked(digits)?;
        let number = if number.is_empty() { 1 } else { number.parse::<usize>().ok()? };
        match sign {
            '~' => steps = steps.checked_add(number)?,
            '^' if number == 1 => steps += 1,
            _ => return None,
        }
        rest = more;
    }
    (!base.is_empty() && !base.contains(char::is_control) && steps <= REVISION_STEPS_MAX)
        .then_some((base, steps))
}

/// Most snapshots that are searched for a version of a file.
const COMMITS_LOOKED_AT: usize = 200;
/// Most versions of a file that are read in that search.
const VERSIONS_LOOKED_AT: usize = 30;

/// Returns a text with each lone LF replaced by CRLF.
fn with_crlf(text: &[u8]) -> Vec<u8> {
    let mut converted = Vec::with_capacity(text.len());
    for &byte in text {
        if byte == b'\n' && converted.last() != Some(&b'\r') {
            converted.push(b'\r');
        }
        converted.push(byte);
    }
    converted
}

impl Store {
    /// Returns the newest snapshot, in hex; `None` if there is no snapshot yet.
    ///
    /// # Errors
    /// Fails if the branch cannot be read, or is a symbolic reference.
    pub fn tip(&self) -> Result<Option<String>, SnapshotError> {
        Ok(self.branch.tip(&self.repo)?.map(|id| id.to_string()))
    }

    /// Returns the last recorded state of the work tree as a commit, in hex: the newest snapshot, or HEAD if there is
    /// no snapshot yet. `None` in an empty repository.
    ///
    /// # Errors
    /// As [`Self::tip`]; also fails if HEAD cannot be read.
    pub fn newest(&self) -> Result<Option<String>, SnapshotError> {
        Ok(self.newest_id()?.map(|id| id.to_string()))
    }

    /// Returns [`Self::newest`] as an id.
    fn newest_id(&self) -> Result<Option<ObjectId>, SnapshotError> {
        self.branch.tip(&self.repo)?.map_or_else(|| refs::head(&self.repo), |tip| Ok(Some(tip)))
    }

    /// Returns the newest commit of the branch from before a time, in seconds since 1970; else the developer's commit
    /// below the branch.
    ///
    /// # Errors
    /// Fails if the branch or a commit cannot be read.
    pub fn newest_before(&self, seconds: i64) -> Result<Option<String>, SnapshotError> {
        let mut next = self.newest_id()?;
        for found in self.snapshots(next) {
            let found = found?;
            if found.snapshot.seconds < seconds {
                break;
            }
            next = found.first_parent;
        }
        Ok(next.map(|id| id.to_string()))
    }

    /// Returns true if the newest snapshot is of the change `seq` of `session`.
    ///
    /// # Errors
    /// Fails if the branch or its commit cannot be read.
    pub fn tip_is(&self, session: &str, seq: u64) -> Result<bool, SnapshotError> {
        let newest = self.snapshots(self.branch.tip(&self.repo)?).next().transpose()?;
        let is_it = |it: &Snapshot| it.session == session && it.seq == seq && it.tool != EXTERNAL;
        Ok(newest.is_some_and(|newest| is_it(&newest.snapshot)))
    }

    /// Returns the bytes stored for `path` in `commit` (in hex), as git has them: line endings converted, for a link
    /// its target. `None` if it has no file there.
    ///
    /// # Errors
    /// Fails if the commit does not exist or cannot be read.
    pub fn file_at(&self, commit: &str, path: &[u8]) -> Result<Option<Vec<u8>>, SnapshotError> {
        let id = refs::commit_id(commit)?;
        self.stored(commit_builder::tree_of(&self.repo, id)?, path)
    }

    /// Returns the files of `commit` (in hex), for many lookups.
    ///
    /// # Errors
    /// As [`Self::file_at`].
    pub fn files_of(&self, commit: &str) -> Result<Trees, SnapshotError> {
        let id = refs::commit_id(commit)?;
        commit_builder::tree_of(&self.repo, id).map(Trees::of)
    }

    /// Returns true if a commit has a file at `path`.
    ///
    /// # Errors
    /// As [`Self::file_at`].
    pub fn has_at(&self, files: &mut Trees, path: &[u8]) -> Result<bool, SnapshotError> {
        Ok(prepare::blob_id(files.look_up(&self.repo, path)?).is_some())
    }

    /// Returns the bytes of `path` at the time of a commit, if they had `size_bytes`: as stored, as a checkout would
    /// write them, or with CRLF. `None` if it has no file there, or no form has that size.
    ///
    /// # Errors
    /// As [`Self::file_at`].
    pub fn file_of_size(
        &self,
        files: &mut Trees,
        path: &[u8],
        size_bytes: u64,
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        let Some(id) = prepare::blob_id(files.look_up(&self.repo, path)?) else {
            return Ok(None);
        };
        let stored = self.bytes_of(id, path)?;
        if stored.len() as u64 == size_bytes {
            return Ok(Some(stored));
        }
        let mut rules = RepoRules::new(&self.repo, files.root);
        let on_disk = rules.checked_out_form(path, &stored)?;
        // A file with CRLF may be stored with LF, even if a checkout would write LF.
        let forms = [on_disk, with_crlf(&stored)];
        Ok(forms.into_iter().find(|bytes| bytes.len() as u64 == size_bytes))
    }

    /// Returns the version that a commit has of `path`, and its bytes as they may have been on disk: as a checkout would
    /// write them, or else with the line endings of `like`, if git would store that the same way. `None` if it has no
    /// file there.
    ///
    /// # Errors
    /// As [`Self::file_at`].
    pub fn version_like(
        &self,
        files: &mut Trees,
        path: &[u8],
        like: &[u8],
    ) -> Result<Option<EarlierFile>, SnapshotError> {
        let found = files.look_up(&self.repo, path)?.entry();
        let Some(item) = found.filter(|item| item.is_file() || item.kind == EntryKind::Link) else {
            return Ok(None);
        };
        let stored = self.content(item)?;
        if item.kind == EntryKind::Link {
            return Ok(Some((item, stored)));
        }
        let mut rules = RepoRules::new(&self.repo, files.root);
        let on_disk = rules.checked_out_form(path, &stored)?;
        let has_crlf = |bytes: &[u8]| bytes.find("\r\n").is_some();
        if like.contains(&b'\n') && has_crlf(&on_disk) != has_crlf(like) {
            let other = if has_crlf(like) { with_crlf(&stored) } else { stored.clone() };
            if *rules.stored_form(path, &other, Some(item.id))? == stored {
                return Ok(Some((item, other)));
            }
        }
        Ok(Some((item, on_disk)))
    }

    /// Returns true if HEAD has a file or folder at `path`.
    ///
    /// # Errors
    /// Fails if HEAD cannot be read.
    pub fn has_at_head(&self, path: &[u8]) -> Result<bool, SnapshotError> {
        let Some(head) = refs::head(&self.repo)? else {
            return Ok(false);
        };
        let tree = commit_builder::tree_of(&self.repo, head)?;
        Ok(tree::look_up(&self.repo, tree, path)?.entry().is_some())
    }

    /// Returns the newest snapshot that changed something, in hex.
    ///
    /// # Errors
    /// Fails if the branch or a commit on it cannot be read.
    pub fn newest_change(&self) -> Result<Option<String>, SnapshotError> {
        for found in self.snapshots(self.branch.tip(&self.repo)?) {
            let found = found?;
            if found.tree != found.tree_before {
                return Ok(Some(found.snapshot.id));
            }
        }
        Ok(None)
    }

    /// Returns the version of `path` in the newest snapshots or in HEAD for which `is_it` returns true.
    ///
    /// Tries each version as stored and as a checkout would write it. Finds the bytes that a session saw, by their
    /// digest.
    ///
    /// # Errors
    /// Fails if a version cannot be read.
    pub fn find_version(
        &self,
        path: &[u8],
        mut is_it: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        let tip = self.branch.tip(&self.repo)?;
        let mut newest = [tip, refs::head(&self.repo)?].into_iter().flatten();
        let (mut older, mut looked_at) = (tip, Vec::new());
        for _ in 0..COMMITS_LOOKED_AT {
            let next = if let Some(commit) = newest.next() {
                Some(commit)
            } else {
                older = older.map_or(Ok(None), |id| self.parent_of(id))?;
                older
            };
            let Some(commit) = next else { break };
            let tree = commit_builder::tree_of(&self.repo, commit)?;
            let Some(id) = prepare::blob_id(tree::look_up(&self.repo, tree, path)?) else {
                continue;
            };
            if looked_at.contains(&id) {
                continue;
            }
            if looked_at.len() >= VERSIONS_LOOKED_AT {
                break;
            }
            looked_at.push(id);
            let stored = self.bytes_of(id, path)?;
            if is_it(&stored) {
                return Ok(Some(stored));
            }
            let mut rules = RepoRules::new(&self.repo, tree);
            let on_disk = rules.checked_out_form(path, &stored)?;
            if on_disk != stored && is_it(&on_disk) {
                return Ok(Some(on_disk));
            }
        }
        Ok(None)
    }

    /// Returns the bytes stored for `path` in `tree`.
    pub(in crate::engine::snapshot) fn stored(
        &self,
        tree: ObjectId,
        path: &[u8],
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        let Some(id) = prepare::blob_id(tree::look_up(&self.repo, tree, path)?) else {
            return Ok(None);
        };
        self.bytes_of(id, path).map(Some)
    }

    /// Returns the bytes stored for a version of `path`.
    fn bytes_of(&self, id: ObjectId, path: &[u8]) -> Result<Vec<u8>, SnapshotError> {
        let doing = || format!("`{}` cannot be read from {id}", path.to_str_lossy());
        self.repo.find_blob(id).context(doing)
    }
}
