//! The bytes of small files that an earlier call has read, by what each file looks like.
//!
//! The rule is that of [`super::kept`]: a file that looks as it did when it was read (device, inode, size and
//! times) has the bytes that it had. A file that changed in the moments before it was read is not kept. The caller
//! looks at the file anew each time, and only then asks for its bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::Stat;

use super::fs;
use super::kept::is_young;

/// Bytes of a file that is kept, at most.
const FILE_BYTES_MAX: usize = 32 << 10;
/// Bytes of all of them, at most.
pub const BYTES_MAX: usize = 128 << 10;
/// Files that are kept, at most.
const FILES_MAX: usize = 256;

/// How a file is reached: what was read in one way is not known in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Beneath an opened folder, through no link.
    Beneath,
    /// By its path, through whatever links.
    Followed,
}

/// Small files that were read.
#[derive(Default)]
pub struct KeptFiles {
    /// They, by device, inode and way.
    files: Mutex<Files>,
}

/// The files and their size.
#[derive(Default)]
struct Files {
    /// What each looked like when it was read, and its bytes.
    known: BTreeMap<(u64, u64, Way), KeptFile>,
    /// Bytes of all.
    bytes: usize,
}

/// A file that was read.
struct KeptFile {
    /// What it looked like before.
    then: Stat,
    /// Its bytes.
    bytes: Arc<[u8]>,
}

impl KeptFiles {
    /// The bytes of the file that looks like this now, if it looked so when it was read.
    #[must_use]
    pub fn known(&self, way: Way, now: &Stat) -> Option<Vec<u8>> {
        let bytes = {
            let files = self.files();
            let file = files.known.get(&(now.st_dev, now.st_ino, way))?;
            fs::is_unchanged(&file.then, now).then(|| Arc::clone(&file.bytes))?
        };
        Some(bytes.to_vec())
    }

    /// Keeps the bytes of a file that looked like this before they were read.
    pub fn note(&self, way: Way, then: &Stat, bytes: &[u8]) {
        let is_whole = fs::size_of(then) == bytes.len() as u64;
        if bytes.len() > FILE_BYTES_MAX || !is_whole || is_young(then) {
            return;
        }
        let mut files = self.files();
        if files.known.len() >= FILES_MAX || files.bytes + bytes.len() > BYTES_MAX {
            *files = Files::default();
        }
        let file = KeptFile { then: *then, bytes: bytes.into() };
        let before = files.known.insert((then.st_dev, then.st_ino, way), file);
        files.bytes = files.bytes + bytes.len() - before.map_or(0, |before| before.bytes.len());
    }

    /// The files, whatever became of others that held them.
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for KeptFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptFiles").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// What a file looks like, as if it had not changed for a long time.
    fn old_stat(path: &std::path::Path) -> Stat {
        let mut stat = rustix::fs::stat(path).unwrap();
        assert_eq!(stat.st_ino, path.metadata().unwrap().ino());
        (stat.st_mtime, stat.st_ctime) = (1000, 1000);
        stat
    }

    #[test]
    fn a_file_has_its_bytes_while_it_looks_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "one").unwrap();
        let (kept, then) = (KeptFiles::default(), old_stat(&path));
        kept.note(Way::Beneath, &then, b"one");
        assert_eq!(kept.known(Way::Beneath, &then).as_deref(), Some(&b"one"[..]));
        assert_eq!(kept.known(Way::Followed, &then), None);
        let changes: [fn(&mut Stat); 4] =
            [|it| it.st_size += 1, |it| it.st_mtime += 1, |it| it.st_ctime_nsec ^= 1, |it| it.st_ino += 1];
        for change in changes {
            let mut now = then;
            change(&mut now);
            assert_eq!(kept.known(Way::Beneath, &now), None);
        }
    }

    #[test]
    fn a_young_a_large_and_a_half_read_file_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "one").unwrap();
        let (kept, young) = (KeptFiles::default(), rustix::fs::stat(&path).unwrap());
        kept.note(Way::Beneath, &young, b"one");
        assert_eq!(kept.known(Way::Beneath, &young), None);
        let then = old_stat(&path);
        kept.note(Way::Beneath, &then, b"on");
        assert_eq!(kept.known(Way::Beneath, &then), None);
        let large = vec![0; FILE_BYTES_MAX + 1];
        std::fs::write(&path, &large).unwrap();
        kept.note(Way::Beneath, &old_stat(&path), &large);
        assert_eq!(kept.known(Way::Beneath, &old_stat(&path)), None);
    }

    #[test]
    fn no_more_is_kept_than_fits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let bytes = vec![0; FILE_BYTES_MAX];
        std::fs::write(&path, &bytes).unwrap();
        let (kept, mut then) = (KeptFiles::default(), old_stat(&path));
        for _ in 0..20 {
            then.st_ino += 1;
            kept.note(Way::Beneath, &then, &bytes);
            assert!(kept.files().bytes <= BYTES_MAX);
            assert!(kept.known(Way::Beneath, &then).is_some());
        }
    }
}
