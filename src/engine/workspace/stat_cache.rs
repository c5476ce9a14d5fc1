//! Cache of a process that makes many calls.
//!
//! One rule for all of it: a value holds while every place that it was made from looks as it did then ([`Fingerprint`]):
//! a file by device, inode, size and times, a folder by device, inode, mode and owner, a missing name by being
//! missing. The next call looks again, one `stat` a place, and finds out again what no longer holds. A file that
//! changed in the last moments could change again and look the same: what was made of it is not kept, unless the file
//! is lbx's own, which is only ever replaced or grows.
//!
//! Calls that run at once share it. None waits for another: the lock is held to find a value or to put one in
//! its place, never while a place is looked at or a value is made.
//!
//! [`FileCache`] holds the bytes of small files that an earlier call has read, by their stat.
//!
//! The rule is the same: a file that looks as it did when it was read (device, inode, size and
//! times) has the bytes that it had. A file that changed in the moments before it was read is not kept. The caller
//! looks at the file again each time, and only then asks for its bytes.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, Stat};
use rustix::io::Errno;

use super::fs;
use crate::control::seconds_now;
use crate::limits::{CACHED_BYTES_MAX, CACHED_FILE_BYTES_MAX, CACHED_FILES_MAX, CACHED_VALUES_MAX};
use crate::platform;

/// A file that changed within so many seconds may change again without looking different: the coarsest time
/// that a file system keeps.
const YOUNG_SECONDS: i64 = 2;

/// Values cached for the workspaces that a process works in.
#[derive(Default)]
pub struct StatCache {
    /// True if calls follow in which it may be of use.
    is_lasting: bool,
    /// Values, with the newest at the end.
    values: Mutex<VecDeque<CachedValue>>,
}

/// A value that is kept.
struct CachedValue {
    /// Root of the workspace, and name of the value.
    key: (PathBuf, String),
    /// Files that it was made from.
    looks: Arc<Fingerprint>,
    /// Value.
    value: Arc<dyn Any + Send + Sync>,
    /// Estimated size in bytes.
    bytes: usize,
}

impl fmt::Debug for StatCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatCache").field("is_lasting", &self.is_lasting).finish_non_exhaustive()
    }
}

impl StatCache {
    /// Returns a cache for a process that makes many calls.
    pub fn lasting() -> Arc<Self> {
        Arc::new(Self { is_lasting: true, ..Self::default() })
    }

    /// Returns true if calls follow in which it may be of use; else only what the same call may need again is worth
    /// a look.
    pub const fn is_lasting(&self) -> bool {
        self.is_lasting
    }

    /// The value `name` of the workspace at `root`, where it still holds; `folder` is where its relative
    /// places count from.
    pub fn get<T: Any + Send + Sync>(
        &self,
        (root, name): (&Path, &str),
        folder: BorrowedFd<'_>,
    ) -> Option<Arc<T>> {
        let (looks, value) = {
            let values = self.values();
            let known = values.iter().rev().find(|it| it.key.1 == name && it.key.0 == root)?;
            (Arc::clone(&known.looks), Arc::clone(&known.value))
        };
        if looks.still_hold(folder) {
            return value.downcast().ok();
        }
        self.values().retain(|it| !Arc::ptr_eq(&it.value, &value));
        None
    }

    /// Keeps a value of about so many bytes in place of the one before; the oldest go where there is no room.
    pub fn put<T: Any + Send + Sync>(
        &self,
        (root, name): (&Path, &str),
        value: Arc<T>,
        looks: Fingerprint,
        bytes: usize,
    ) {
        let mut values = self.values();
        values.retain(|it| it.key.1 != name || it.key.0 != root);
        if !looks.are_sure || !self.has_room_for(bytes) {
            return;
        }
        let is_full = |values: &VecDeque<CachedValue>| {
            let held: usize = values.iter().map(|it| it.bytes).sum();
            values.len() >= CACHED_VALUES_MAX || held.saturating_add(bytes) > CACHED_BYTES_MAX
        };
        while self.is_lasting && is_full(&values) {
            values.pop_front();
        }
        let key = (root.to_owned(), name.to_owned());
        values.push_back(CachedValue { key, looks: Arc::new(looks), value, bytes });
    }

    /// The value `name` of the workspace at `root`, which knows by itself what of it still holds and takes at
    /// most so many bytes; empty where there was none. `None` where no calls follow to which it is of use.
    pub fn lasting_value<T: Any + Send + Sync + Default>(
        &self,
        (root, name): (&Path, &str),
        bytes: usize,
    ) -> Option<Arc<T>> {
        if !self.is_lasting {
            return None;
        }
        if let Some(known) = self.get((root, name), CWD) {
            return Some(known);
        }
        let value = Arc::default();
        self.put((root, name), Arc::clone(&value), Fingerprint::default(), bytes);
        Some(value)
    }

    /// Returns true if there is room for a value of so many bytes: what goes with the call may have any size.
    pub const fn has_room_for(&self, bytes: usize) -> bool {
        !self.is_lasting || bytes <= CACHED_BYTES_MAX
    }

    /// Locks the values, even after a panic in another holder.
    fn values(&self) -> MutexGuard<'_, VecDeque<CachedValue>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The places that a value is made from, each looked at before it was read.
#[derive(Debug)]
pub struct Fingerprint {
    /// They, with what stood there.
    places: Vec<PlaceStat>,
    /// Files that changed since then are young.
    old_before: i64,
    /// True if every later change shows.
    are_sure: bool,
}

/// A look at a place.
#[derive(Debug)]
struct PlaceStat {
    /// The name, from the folder that is given, or absolute.
    place: PathBuf,
    /// True if a link there is followed.
    is_followed: bool,
    /// Properties that must be unchanged.
    what: StatScope,
    /// Metadata before.
    stood: Result<Stat, Errno>,
}

/// Properties that must be unchanged.
#[derive(Debug)]
enum StatScope {
    /// Everything, bytes included.
    Content,
    /// Which folder it is.
    Folder,
    /// Which file of lbx's own it is, and how large. It is open, so that no other file gets its inode.
    Own {
        /// The file.
        _file: File,
    },
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self { places: Vec::new(), old_before: young_since(), are_sure: true }
    }
}

/// Files that changed since then are young.
fn young_since() -> i64 {
    i64::try_from(seconds_now()).unwrap_or(0).saturating_sub(YOUNG_SECONDS)
}

/// Returns true if a file that looks like this could change again and look the same.
pub fn is_young(stat: &Stat) -> bool {
    let old_before = young_since();
    stat.st_ctime >= old_before || stat.st_mtime >= old_before
}

impl Fingerprint {
    /// Looks at the file at an absolute path, through links.
    pub fn at_file(&mut self, path: &Path) {
        self.add(CWD, path.to_owned(), true, StatScope::Content);
    }

    /// Looks at the file at an absolute path, which is no link itself.
    pub fn at_plain_file(&mut self, path: &Path) {
        self.add(CWD, path.to_owned(), false, StatScope::Content);
    }

    /// Looks at the folder at an absolute path, which is no link itself; answers whether anything is there.
    pub fn at_folder(&mut self, path: &Path) -> bool {
        self.add(CWD, path.to_owned(), false, StatScope::Folder);
        self.places.last().is_some_and(|look| look.stood.is_ok())
    }

    /// Looks at the folder of that name in `folder`, which is no link itself.
    pub fn in_folder(&mut self, folder: BorrowedFd<'_>, name: &str) {
        self.add(folder, name.into(), false, StatScope::Folder);
    }

    /// Returns the bytes of the examined files.
    pub fn bytes(&self) -> usize {
        let files = self.places.iter().filter(|look| !matches!(look.what, StatScope::Folder));
        let sizes = files.filter_map(|look| look.stood.as_ref().ok().map(fs::size_of));
        usize::try_from(sizes.sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// Looks at the file of that path below `folder`, and at each folder on the way; no link is followed.
    pub fn below(&mut self, folder: BorrowedFd<'_>, path: &str) {
        for (at, _) in path.match_indices('/') {
            self.add(folder, path.get(..at).unwrap_or_default().into(), false, StatScope::Folder);
        }
        self.add(folder, path.into(), false, StatScope::Content);
    }

    /// Rests on a file of lbx's own that was opened in the folder, where it was `stat`.
    pub fn rely_on_lbx_file(&mut self, name: &str, file: File, stat: Stat) {
        let what = StatScope::Own { _file: file };
        self.places.push(PlaceStat { place: name.into(), is_followed: false, what, stood: Ok(stat) });
    }

    /// Looks at a place.
    fn add(&mut self, folder: BorrowedFd<'_>, place: PathBuf, is_followed: bool, what: StatScope) {
        let stood = stat_of_path(folder, place.as_os_str(), is_followed);
        if let (StatScope::Content, Ok(stat)) = (&what, &stood) {
            self.are_sure &= stat.st_ctime < self.old_before && stat.st_mtime < self.old_before;
        }
        self.places.push(PlaceStat { place, is_followed, what, stood });
    }

    /// Returns true if every place looks as it did.
    fn still_hold(&self, folder: BorrowedFd<'_>) -> bool {
        self.places.iter().all(|look| look.still_holds(folder))
    }
}

impl PlaceStat {
    /// Returns true if the place looks as it did.
    fn still_holds(&self, folder: BorrowedFd<'_>) -> bool {
        let folder = if self.place.is_absolute() { CWD } else { folder };
        let now = stat_of_path(folder, self.place.as_os_str(), self.is_followed);
        match (&self.stood, &now) {
            (Ok(then), Ok(now)) => match self.what {
                StatScope::Content | StatScope::Own { .. } => fs::is_unchanged(then, now),
                StatScope::Folder => {
                    fs::is_same_file(then, now) && then.st_mode == now.st_mode && then.st_uid == now.st_uid
                }
            },
            (Err(then), Err(now)) => then == now,
            _ => false,
        }
    }
}

/// Returns the stat of a path.
fn stat_of_path(folder: BorrowedFd<'_>, place: &OsStr, is_followed: bool) -> Result<Stat, Errno> {
    if is_followed {
        return rustix::io::retry_on_intr(|| rustix::fs::statat(folder, place, AtFlags::empty()));
    }
    fs::stat_at(folder.as_fd(), place)
}

/// Most bytes of all kept files.
pub const CACHE_BYTES_MAX: usize = 128 << 10;

/// How a file is reached: what was read in one way is not known in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SymlinkPolicy {
    /// Beneath an opened folder, through no link.
    Beneath,
    /// By its path, through whatever links.
    Followed,
}

/// Small files that were read.
#[derive(Default)]
pub struct FileCache {
    /// Files by device, inode and way.
    files: Mutex<CachedFiles>,
}

/// The files and their size.
#[derive(Default)]
struct CachedFiles {
    /// Stat of each file when it was read, and its bytes.
    known: BTreeMap<(u64, u64, SymlinkPolicy), CachedFile>,
    /// Bytes of all.
    bytes: usize,
}

/// A file that was read.
struct CachedFile {
    /// Its stat before it was read.
    then: Stat,
    /// Its bytes.
    bytes: Arc<[u8]>,
}

impl FileCache {
    /// Returns the cached bytes of a file with this stat.
    pub fn cached_bytes(&self, way: SymlinkPolicy, now: &Stat) -> Option<Vec<u8>> {
        let bytes = {
            let files = self.files();
            let file = files.known.get(&(platform::device(now), now.st_ino, way))?;
            fs::is_unchanged(&file.then, now).then(|| Arc::clone(&file.bytes))?
        };
        Some(bytes.to_vec())
    }

    /// Caches the bytes of a file that had this stat before it was read.
    pub fn note(&self, way: SymlinkPolicy, then: &Stat, bytes: &[u8]) {
        let is_whole = fs::size_of(then) == bytes.len() as u64;
        if bytes.len() > CACHED_FILE_BYTES_MAX || !is_whole || is_young(then) {
            return;
        }
        let mut files = self.files();
        if files.known.len() >= CACHED_FILES_MAX || files.bytes + bytes.len() > CACHE_BYTES_MAX {
            *files = CachedFiles::default();
        }
        let file = CachedFile { then: *then, bytes: bytes.into() };
        let before = files.known.insert((platform::device(then), then.st_ino, way), file);
        files.bytes = files.bytes + bytes.len() - before.map_or(0, |before| before.bytes.len());
    }

    /// Locks the files, even after a panic in another holder.
    fn files(&self) -> MutexGuard<'_, CachedFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FileCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// A folder with an old file in it, and how to open the folder.
    fn folder_with(name: &str) -> (tempfile::TempDir, File) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), "a").unwrap();
        let opened = File::open(folder.path()).unwrap();
        (folder, opened)
    }

    #[test]
    fn cached_value_is_dropped_when_a_file_changes() {
        let (folder, opened) = folder_with("f");
        let (root, kept) = (folder.path(), StatCache::lasting());
        let keep = |name: &str| {
            let mut looks = Fingerprint { old_before: i64::MAX, ..Fingerprint::default() };
            looks.below(opened.as_fd(), name);
            kept.put((root, "it"), Arc::new(7_u32), looks, 4);
        };
        let get = || kept.get::<u32>((root, "it"), opened.as_fd());
        keep("f");
        assert_eq!(get().as_deref(), Some(&7));
        assert!(kept.get::<u32>((Path::new("/elsewhere"), "it"), opened.as_fd()).is_none());
        std::fs::write(root.join("f"), "bb").unwrap();
        assert!(get().is_none());
        keep("f");
        std::fs::rename(root.join("f"), root.join("g")).unwrap();
        assert!(get().is_none());
        keep("missing/f");
        assert!(get().is_some());
        std::fs::create_dir(root.join("missing")).unwrap();
        assert!(get().is_none());
    }

    #[test]
    fn value_of_a_recently_changed_file_is_not_cached() {
        let (folder, opened) = folder_with("f");
        let kept = StatCache::lasting();
        let mut looks = Fingerprint::default();
        looks.below(opened.as_fd(), "f");
        kept.put((folder.path(), "it"), Arc::new(7_u32), looks, 4);
        assert!(kept.get::<u32>((folder.path(), "it"), opened.as_fd()).is_none());
    }

    #[test]
    fn value_cache_evicts_the_oldest_values() {
        let kept = StatCache::lasting();
        let (folder, opened) = folder_with("f");
        for number in 0..200 {
            kept.put(
                (folder.path(), &format!("{number}")),
                Arc::new(number),
                Fingerprint::default(),
                CACHED_BYTES_MAX / 8,
            );
        }
        let held =
            |number: i32| kept.get::<i32>((folder.path(), &format!("{number}")), opened.as_fd()).is_some();
        assert_eq!(
            (0..200).filter(|number| held(*number)).collect::<Vec<_>>(),
            (192..200).collect::<Vec<_>>()
        );
        assert!(
            !kept.has_room_for(CACHED_BYTES_MAX + 1)
                && StatCache::default().has_room_for(CACHED_BYTES_MAX + 1)
        );
    }

    /// Returns the stat of a file, as if it had not changed for a long time.
    fn old_stat(path: &std::path::Path) -> Stat {
        let mut stat = rustix::fs::stat(path).unwrap();
        assert_eq!(stat.st_ino, path.metadata().unwrap().ino());
        (stat.st_mtime, stat.st_ctime) = (1000, 1000);
        stat
    }

    #[test]
    fn cached_file_is_dropped_when_its_stat_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "one").unwrap();
        let (kept, then) = (FileCache::default(), old_stat(&path));
        kept.note(SymlinkPolicy::Beneath, &then, b"one");
        assert_eq!(kept.cached_bytes(SymlinkPolicy::Beneath, &then).as_deref(), Some(&b"one"[..]));
        assert_eq!(kept.cached_bytes(SymlinkPolicy::Followed, &then), None);
        let changes: [fn(&mut Stat); 4] =
            [|it| it.st_size += 1, |it| it.st_mtime += 1, |it| it.st_ctime_nsec ^= 1, |it| it.st_ino += 1];
        for change in changes {
            let mut now = then;
            change(&mut now);
            assert_eq!(kept.cached_bytes(SymlinkPolicy::Beneath, &now), None);
        }
    }

    #[test]
    fn recent_large_and_partly_read_files_are_not_cached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "one").unwrap();
        let (kept, young) = (FileCache::default(), rustix::fs::stat(&path).unwrap());
        kept.note(SymlinkPolicy::Beneath, &young, b"one");
        assert_eq!(kept.cached_bytes(SymlinkPolicy::Beneath, &young), None);
        let then = old_stat(&path);
        kept.note(SymlinkPolicy::Beneath, &then, b"on");
        assert_eq!(kept.cached_bytes(SymlinkPolicy::Beneath, &then), None);
        let large = vec![0; CACHED_FILE_BYTES_MAX + 1];
        std::fs::write(&path, &large).unwrap();
        kept.note(SymlinkPolicy::Beneath, &old_stat(&path), &large);
        assert_eq!(kept.cached_bytes(SymlinkPolicy::Beneath, &old_stat(&path)), None);
    }

    #[test]
    fn file_cache_stays_within_its_size_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let bytes = vec![0; CACHED_FILE_BYTES_MAX];
        std::fs::write(&path, &bytes).unwrap();
        let (kept, mut then) = (FileCache::default(), old_stat(&path));
        for _ in 0..20 {
            then.st_ino += 1;
            kept.note(SymlinkPolicy::Beneath, &then, &bytes);
            assert!(kept.files().bytes <= CACHE_BYTES_MAX);
            assert!(kept.cached_bytes(SymlinkPolicy::Beneath, &then).is_some());
        }
    }
}
