//! Commits and trees that earlier calls have read or written.
//!
//! What an object says never changes, but it may be gone: one that is kept counts only while its own file stands in
//! the repository as it was written. So nothing here answers whether an object is there.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gix::ObjectId;
use gix::objs::Kind;
use rustix::fs::Stat;

use crate::engine::workspace::fs;

/// Bytes of an object that is kept, at most.
const OBJECT_BYTES_MAX: usize = 32 << 10;
/// Bytes of all of them, at most.
pub const BYTES_MAX: usize = 128 << 10;
/// Objects that are kept, at most.
const OBJECTS_MAX: usize = 128;

/// Objects that were read or written.
#[derive(Default)]
pub struct RecentObjects {
    /// They.
    objects: Mutex<Objects>,
}

/// The objects and their size.
#[derive(Default)]
struct Objects {
    /// They, by id.
    known: BTreeMap<ObjectId, RecentObject>,
    /// Bytes of all.
    bytes: usize,
}

/// An object that was read or written.
struct RecentObject {
    /// What its file looked like.
    file: Stat,
    /// What it is.
    kind: Kind,
    /// Its bytes, without the header.
    data: Box<[u8]>,
}

impl RecentObjects {
    /// The object `id`, whose file looks like this now.
    pub fn known(&self, id: &gix::hash::oid, now: &Stat) -> Option<(Kind, Vec<u8>)> {
        let objects = self.objects();
        let known = objects.known.get(id).filter(|known| is_as_written(&known.file, now))?;
        Some((known.kind, known.data.to_vec()))
    }

    /// Keeps an object whose file looks like this. A blob is read once at most: it is not kept.
    pub fn note(&self, id: &gix::hash::oid, file: &Stat, kind: Kind, data: &[u8]) {
        if kind == Kind::Blob || data.len() > OBJECT_BYTES_MAX {
            return;
        }
        let mut objects = self.objects();
        if objects.known.len() >= OBJECTS_MAX || objects.bytes + data.len() > BYTES_MAX {
            *objects = Objects::default();
        }
        let object = RecentObject { file: *file, kind, data: data.into() };
        let before = objects.known.insert(id.to_owned(), object);
        objects.bytes = objects.bytes + data.len() - before.map_or(0, |before| before.data.len());
    }

    /// The objects, whatever became of others that held them.
    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a file is the one that was written, and nobody has written to it since; it may have got another name.
fn is_as_written(then: &Stat, now: &Stat) -> bool {
    let written = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    fs::is_same_file(then, now) && written(then) == written(now)
}

impl fmt::Debug for RecentObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentObjects").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_counts_while_its_file_stands_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("aside");
        std::fs::write(&path, "packed").unwrap();
        let stat = || rustix::fs::stat(folder.path().join("object")).unwrap();
        let (recent, id) = (RecentObjects::default(), ObjectId::null(gix::hash::Kind::Sha1));
        recent.note(&id, &rustix::fs::stat(&path).unwrap(), Kind::Tree, b"tree");
        std::fs::rename(&path, folder.path().join("object")).unwrap();
        assert_eq!(recent.known(&id, &stat()), Some((Kind::Tree, b"tree".to_vec())));
        let other = ObjectId::empty_tree(gix::hash::Kind::Sha1);
        assert_eq!(recent.known(&other, &stat()), None);
        std::fs::write(&path, "packed").unwrap();
        std::fs::rename(&path, folder.path().join("object")).unwrap();
        assert_eq!(recent.known(&id, &stat()), None, "another file");
        recent.note(&id, &stat(), Kind::Blob, b"blob");
        assert_eq!(recent.known(&id, &stat()), None, "a blob");
    }

    #[test]
    fn no_more_objects_are_kept_than_fit() {
        let recent = RecentObjects::default();
        let file = rustix::fs::stat("/").unwrap();
        for number in 0..200_u8 {
            let id = ObjectId::from_bytes_or_panic(&[number; 20]);
            recent.note(&id, &file, Kind::Tree, &[number; 3000]);
            assert!(recent.objects().bytes <= BYTES_MAX && recent.known(&id, &file).is_some());
        }
    }
}
