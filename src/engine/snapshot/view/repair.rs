//! Repairing the snapshot branch after a power failure. Nothing is lost: what is replaced or moved out of git's
//! folder is kept first.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::objs::Kind;
use gix::objs::tree::EntryKind;

use super::compare::{self, Version, VersionKind};
use super::damage::{Damage, OLDER_MAX};
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::chain;
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};
use crate::engine::snapshot::store::held::HeldFolder;
use crate::engine::snapshot::store::loose::{self, Loose};
use crate::engine::snapshot::store::reflog::{self, LogLine};
use crate::engine::snapshot::store::{objects, refs, tree};

/// Longest search for unreadable objects: a repository may have any number of them.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(20);
/// Largest unreadable object that is moved, in bytes.
const MOVED_BYTES_MAX: u64 = 64 << 20;
/// Paths of one snapshot that are looked at.
const PATHS_MAX: usize = 1000;
/// Lost snapshots that are looked at.
const LOST_MAX: usize = 50;
/// Folders of each that are looked at.
const LOST_TREES_MAX: usize = 10_000;
/// Bytes of content that are read.
const CONTENT_BYTES_MAX: u64 = 64 << 20;
/// How the file of a symbolic reference begins.
const SYMBOLIC: &[u8] = b"ref:";

/// Keeps bytes that are about to be replaced, under a name that begins so.
pub type Keep<'k> = &'k dyn Fn(&str, &[u8]) -> Result<(), SnapshotError>;

/// What a repair did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The commit that the branch is at now, in hex, where it moved.
    pub moved_to: Option<String>,
    /// How many objects were written again from files of the workspace.
    pub rewritten: usize,
    /// How many unreadable objects were moved out of the repository.
    pub moved_out: usize,
    /// What is damaged still.
    pub left: Option<Damage>,
}

impl Store {
    /// Repairs what [`Self::damage`] finds, as far as that can be proven: objects are written again whose bytes
    /// the workspace still has; else the branch goes back to the newest whole snapshot.
    ///
    /// The caller holds lbx's lock.
    ///
    /// # Errors
    /// Where the branch is checked out or a symbolic reference; what the system says, and that of `keep`.
    pub fn repair(&self, named: &[String], keep: Keep<'_>) -> Result<Repaired, SnapshotError> {
        let mut repaired = Repaired::default();
        if self.damage(named)?.is_none() {
            return Ok(repaired);
        }
        // A damaged object that keeps its name would never be written again.
        repaired.moved_out = self.move_unreadable_objects(keep)?;
        repaired.rewritten = self.write_missing_files(named)?;
        let left = self.damage(named)?;
        if let Some(whole) =
            left.as_ref().filter(|left| !left.is_older).and_then(|left| left.last_whole.as_ref())
        {
            let whole_id = id_of(whole)?;
            let lost = self.branch.tip(&self.repo).ok().flatten();
            let lost: Vec<ObjectId> =
                lost.into_iter().chain(reflog::values(&self.repo, &self.branch.loose())).collect();
            self.go_back(whole_id, keep)?;
            repaired.moved_to = Some(whole.clone());
            repaired.moved_out += self.move_incomplete(&lost, whole_id, keep)?;
        }
        self.repo.forget_read();
        reflog::remove_unreadable(&self.repo, &self.branch.loose(), |log| keep("log", log))?;
        repaired.left = if repaired.moved_to.is_some() { self.damage(named)? } else { left };
        Ok(repaired)
    }

    /// Moves objects whose file is empty or damaged out of the repository; answers how many.
    fn move_unreadable_objects(&self, keep: Keep<'_>) -> Result<usize, SnapshotError> {
        let doing = || "the objects cannot be listed".into();
        let (objects, until) = (self.repo.objects_folder(), Instant::now() + SEARCH_TIME_MAX);
        let mut moved = 0;
        for fan_out in objects.names().doing(doing)? {
            let Some(folder) = fan_out_folder(objects, &fan_out) else { continue };
            let before = moved;
            for name in folder.names().doing(doing)? {
                let hex = format!("{}{}", fan_out.to_string_lossy(), name.to_string_lossy());
                let Ok(id) = ObjectId::from_hex(hex.as_bytes()) else { continue };
                if Instant::now() > until {
                    return Ok(moved);
                }
                if is_damaged(objects, id)
                    && let Ok(Some(bytes)) = folder.read_once(&name, MOVED_BYTES_MAX)
                {
                    keep(&format!("object-{hex}"), &bytes)?;
                    folder.remove(&name).doing(|| format!("the object {id} cannot be moved"))?;
                    moved += 1;
                }
            }
            if moved > before {
                folder.sync().doing(doing)?;
            }
        }
        Ok(moved)
    }

    /// Writes the files of the newest snapshots again whose objects are missing and whose bytes stand in the work
    /// tree; answers how many.
    fn write_missing_files(&self, named: &[String]) -> Result<usize, SnapshotError> {
        let mut written = 0;
        for (path, version) in self.missing_files(named) {
            let Some(bytes) = self.bytes_in_work_tree(&path, version) else { continue };
            if self.repo.write(Kind::Blob, &bytes)? == version.id {
                written += 1;
            }
        }
        objects::store_all(&self.repo, &[])?;
        Ok(written)
    }

    /// The files of the newest snapshots whose objects cannot be read.
    fn missing_files(&self, named: &[String]) -> Vec<(Vec<u8>, Version)> {
        let tip = self.branch.tip(&self.repo).ok().flatten();
        let named = named.iter().filter_map(|hex| ObjectId::from_hex(hex.as_bytes()).ok());
        let logged = reflog::values(&self.repo, &self.branch.loose());
        // Of a commit that cannot be read, the one before it is named by a log alone.
        let mut begins = tip.into_iter().chain(logged).chain(named).take(OLDER_MAX);
        let mut next = begins.find(|id| self.repo.find_commit(*id).is_ok());
        let (mut missing, mut left) = (Vec::new(), CONTENT_BYTES_MAX);
        let empty = ObjectId::empty_tree(self.repo.object_hash());
        for _ in 0..OLDER_MAX {
            let Some(commit) = next.and_then(|id| self.repo.find_commit(id).ok()) else { break };
            next = commit.parent_ids().next();
            let before = next.map_or(Some(empty), |id| chain::tree_of(&self.repo, id).ok());
            let Some((before, after)) = before.zip(commit.tree_id().ok()) else { continue };
            let Ok(changes) = compare::trees(&self.repo, before, after, PATHS_MAX) else { continue };
            for change in changes.paths {
                let versions = [change.before, change.after].into_iter().flatten();
                let unread = versions.filter(|version| self.read_version(*version, &mut left).is_err());
                missing.extend(unread.map(|version| (change.path.clone(), version)));
            }
        }
        missing
    }

    /// The bytes of a version of a file, where that is what the work tree has: as it is, or with LF.
    fn bytes_in_work_tree(&self, path: &[u8], version: Version) -> Option<Vec<u8>> {
        if !matches!(version.kind, VersionKind::File | VersionKind::Executable) {
            return None;
        }
        let path = Path::new(OsStr::from_bytes(path));
        let bytes = self.repo.work_tree().read(path, self.file_bytes_max).ok().flatten()?;
        let with_lf = bytes.replace("\r\n", "\n");
        let is_it = |bytes: &Vec<u8>| {
            gix::objs::compute_hash(self.repo.object_hash(), Kind::Blob, bytes)
                .is_ok_and(|id| id == version.id)
        };
        [bytes, with_lf].into_iter().find(is_it)
    }

    /// Sets the branch to a snapshot before its damaged value; the file of that is kept.
    fn go_back(&self, to: ObjectId, keep: Keep<'_>) -> Result<(), SnapshotError> {
        self.branch.check_free(&self.repo, refs::head_target(&self.repo)?.as_ref())?;
        if let Some(raw) = self.branch.raw(&self.repo)? {
            if raw.starts_with(SYMBOLIC) {
                return Err(SnapshotError::new(format!(
                    "the branch `{}` is a symbolic reference to another",
                    self.branch.short_name()
                )));
            }
            keep("branch", &raw)?;
        }
        let from = self.branch.tip(&self.repo).ok().flatten();
        let now = chain::seconds(SystemTime::now());
        let subject = "lbx doctor: back to the newest whole snapshot".to_owned();
        self.branch.replace(&self.repo, from, to, &LogLine { subject, seconds: now })
    }
}

impl Store {
    /// Moves the commits that the branch has lost, and their trees, out of the repository where something that
    /// they name is missing: git takes that for damage though no reference leads there. Those are the ones newer
    /// than `whole`.
    fn move_incomplete(
        &self,
        lost: &[ObjectId],
        whole: ObjectId,
        keep: Keep<'_>,
    ) -> Result<usize, SnapshotError> {
        let mut incomplete = BTreeSet::new();
        let known = chain::tree_of(&self.repo, whole)?;
        for &id in lost.iter().take(LOST_MAX) {
            if id == whole {
                break;
            }
            let Ok(commit) = self.repo.find_commit(id) else { continue };
            let tree = commit.tree_id().ok();
            let misses_parent =
                commit.parent_ids().any(|id| incomplete.contains(&id) || self.repo.find_commit(id).is_err());
            let mut left = LOST_TREES_MAX;
            let misses_file =
                tree.is_none_or(|tree| self.is_incomplete(tree, Some(known), &mut incomplete, &mut left));
            if misses_parent || misses_file {
                incomplete.insert(id);
            }
        }
        let mut moved = 0;
        for id in incomplete {
            let hex = id.to_string();
            let Some((fan_out, name)) = hex.split_at_checked(2) else { continue };
            let Some(folder) = fan_out_folder(self.repo.objects_folder(), OsStr::new(fan_out)) else {
                continue;
            };
            if let Ok(Some(bytes)) = folder.read_once(name, MOVED_BYTES_MAX) {
                keep(&format!("object-{hex}"), &bytes)?;
                folder.remove(name).doing(|| format!("the object {id} cannot be moved"))?;
                moved += 1;
            }
        }
        Ok(moved)
    }

    /// Whether something below a tree is missing, other than what is in the tree `known`; notes the trees that
    /// this holds for.
    fn is_incomplete(
        &self,
        tree: ObjectId,
        known: Option<ObjectId>,
        incomplete: &mut BTreeSet<ObjectId>,
        left: &mut usize,
    ) -> bool {
        if Some(tree) == known || tree.is_empty_tree() || *left == 0 {
            return false;
        }
        *left -= 1;
        let Ok(entries) = tree::by_name(&self.repo, tree) else { return true };
        let known = known.and_then(|known| tree::by_name(&self.repo, known).ok()).unwrap_or_default();
        let mut is_incomplete = false;
        for (name, entry) in entries {
            let before = known.get(&name);
            is_incomplete |= match entry.mode.kind() {
                EntryKind::Commit => false,
                EntryKind::Tree => {
                    let before = before.map(|entry| entry.oid);
                    self.is_incomplete(entry.oid, before, incomplete, left)
                }
                _ => {
                    before.is_none_or(|before| before.oid != entry.oid)
                        && self.repo.header(entry.oid).is_err()
                }
            };
        }
        if is_incomplete {
            incomplete.insert(tree);
        }
        is_incomplete
    }
}

/// The id that a text is in hex.
fn id_of(hex: &str) -> Result<ObjectId, SnapshotError> {
    ObjectId::from_hex(hex.as_bytes()).doing(|| format!("`{hex}` is not a commit id"))
}

/// The folder of the objects whose ids begin so; `None` for anything else.
fn fan_out_folder(objects: &HeldFolder, name: &OsStr) -> Option<HeldFolder> {
    let is_fan_out = name.len() == 2 && name.as_bytes().iter().all(u8::is_ascii_hexdigit);
    if is_fan_out { objects.folder(name).ok().flatten() } else { None }
}

/// Whether the file of an object was read and is not that object.
fn is_damaged(objects: &HeldFolder, id: ObjectId) -> bool {
    match loose::read(objects, &id, None) {
        Ok(Loose::Here(kind, data)) => {
            gix::objs::compute_hash(id.kind(), kind, &data).is_ok_and(|found| found != id)
        }
        Ok(Loose::Elsewhere) => false,
        Err(error) => error.kind() == io::ErrorKind::InvalidData,
    }
}
