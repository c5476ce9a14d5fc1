//! Stores new objects on disk before anything refers to them.
//!
//! The blobs of large files are computed while the change that writes them waits for the disk. For an edit in a file of
//! 18 MB that saves a quarter of the time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use gix::ObjectId;
use gix::hash::Kind as Hash;
use gix::objs::Kind;
use gix::objs::encode::loose_header;
use gix::zlib::Compression;
use rustix::io::Errno;
use zlib_rs::adler32::adler32;

use super::deflate::{Deflater, PackedObject, STREAM_BEGIN};
use super::dir::Dir;
use super::pack;
use super::repo::{NewObjects, Repo};
use super::{ErrorContext as _, SnapshotError};
use crate::buffer::Buffer;
use crate::engine::workspace::fs::process_id;
use crate::engine::workspace::sync::{FileSystem, SYNC_EACH_MAX, in_parallel, sync_all};
use crate::limits::{FOLDER_TRIES_MAX, OBJECT_THREADS_MAX};
use crate::platform;

/// Number of objects from which they become one pack, as in `git fetch` (`transfer.unpackLimit`).
const PACKED_MIN: usize = 100;
/// Number of objects of a pack that are in memory compressed: a few MiB of source files.
const PACKED_AT_ONCE: usize = 256;
/// Most objects that are checked again once the branch names them.
const LOOKED_AT_MAX: usize = 16;
/// Size in bytes from which a blob is compressed at once, rather than kept in memory uncompressed.
pub const LARGE_BYTES: usize = 1024 * 1024;
/// Bytes of a piece: a compressor has a buffer of 64 KiB, and looks some 300 bytes ahead.
const PIECE_BYTES: usize = 60 << 10;
/// Last block, which is empty.
const STREAM_END: [u8; 2] = [0x03, 0x00];

/// A blob, compressed as in its object file.
#[derive(Debug, Clone)]
pub struct PackedBlob {
    /// Its id.
    id: ObjectId,
    /// Compressed bytes, header included.
    bytes: Arc<Vec<u8>>,
}

impl PackedBlob {
    /// Compresses the blob `id`, which has these bytes.
    pub fn blob(id: ObjectId, bytes: &[u8], level: Compression) -> io::Result<Self> {
        Ok(Self { id, bytes: Arc::new(compress_blob(bytes, level)?) })
    }
}

/// Stores every object in the memory of `repo`, and those of `packed`, durably.
pub fn store_all(repo: &Repo, packed: &[PackedBlob]) -> Result<LooseObjects, SnapshotError> {
    let doing = || format!("cannot store objects in `{}`", repo.objects_folder().path().display());
    let mut aside = write_aside(repo, packed)?;
    aside.sync().context(doing)?;
    aside.put().context(doing)?;
    aside.sync_names().context(doing)?;
    Ok(aside)
}

/// Writes every object in the memory of `repo`, and those of `packed`, to temporary files.
///
/// Each object gets a file, or many get one pack, under names that `git gc` removes. They must be synced before they
/// are renamed, so that no power cut leaves an empty object. No folder is reached through a link.
pub fn write_aside(repo: &Repo, packed: &[PackedBlob]) -> Result<LooseObjects, SnapshotError> {
    let doing = || format!("cannot store objects in `{}`", repo.objects_folder().path().display());
    let level = repo.settings().loose_compression();
    written(Arc::clone(repo.objects_folder()), repo.take_new(), packed, level).context(doing)
}

/// Writes the objects of `memory` and of `packed` below `folder`.
fn written(
    folder: Arc<Dir>,
    memory: NewObjects,
    packed: &[PackedBlob],
    level: Compression,
) -> io::Result<LooseObjects> {
    let is_many = memory.len() >= PACKED_MIN;
    let (few, many) = if is_many { (NewObjects::new(), memory) } else { (memory, NewObjects::new()) };
    let plain: Vec<_> = few.iter().collect();
    let keeps_files = plain.len() + packed.len() <= SYNC_EACH_MAX || !platform::syncs_file_systems();
    let writer = ObjectWriter { folder: Arc::clone(&folder), level, keeps_files, folders: Mutex::default() };
    let all = Mutex::new(Vec::new());
    let add = |one: TemporaryObject| locked(&all).push(one);
    // Errors are returned below: a failure first removes the files written so far.
    let outcome = in_parallel(&plain, OBJECT_THREADS_MAX, |share| {
        let mut deflater = Deflater::new(level);
        share
            .iter()
            .try_for_each(|(id, (kind, bytes))| writer.write(id, &deflater.loose(*kind, bytes)?).map(add))
    });
    let outcome = outcome.and_then(|()| {
        in_parallel(packed, OBJECT_THREADS_MAX, |share| {
            share.iter().try_for_each(|it| writer.write(&it.id, &it.bytes).map(add))
        })
    });
    let outcome =
        outcome.and_then(|()| if is_many { writer.write_pack(many, &mut locked(&all)) } else { Ok(()) });
    let folders = std::mem::take(&mut *locked(&writer.folders));
    let waiting = std::mem::take(&mut *locked(&all));
    let aside = LooseObjects { objects: folder, keeps_files, folders, waiting, named: Vec::new() };
    outcome.map(|()| aside)
}

/// Objects in temporary files. Removed on drop.
#[derive(Debug)]
pub struct LooseObjects {
    /// The folder `objects`.
    objects: Arc<Dir>,
    /// True if their files stay open, to be synced one by one.
    keeps_files: bool,
    /// Target folders, by name.
    folders: ObjectFolders,
    /// Objects not renamed yet.
    waiting: Vec<TemporaryObject>,
    /// Renamed objects to check again, up to a bound: folder, and name in it.
    named: Vec<(Arc<Dir>, String)>,
}

impl LooseObjects {
    /// Returns their files, so that the disk can start early; none if there are many.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.waiting.iter().filter_map(|one| one.file.as_ref())
    }

    /// Makes their bytes durable.
    pub fn sync(&self) -> io::Result<()> {
        if self.keeps_files { sync_all(&self.files().collect::<Vec<_>>()) } else { self.sync_file_system() }
    }

    /// Renames them to their final names.
    pub fn put(&mut self) -> io::Result<()> {
        let mut tries_left = FOLDER_TRIES_MAX;
        while let Some(one) = self.waiting.last_mut() {
            match one.at.rename(&one.name, &one.folder, &one.to) {
                // `git gc` removes a folder that it finds empty, perhaps again before the rename.
                Err(Errno::NOENT) if tries_left > 0 => {
                    tries_left -= 1;
                    one.folder = Arc::new(made(&self.objects, &one.fan_out)?);
                    self.folders.insert(one.fan_out.clone(), Arc::clone(&one.folder));
                    continue;
                }
                renamed => renamed?,
            }
            let named = self.waiting.pop().filter(|_| self.named.len() < LOOKED_AT_MAX);
            self.named.extend(named.map(|one| (one.folder, one.to)));
        }
        Ok(())
    }

    /// Returns true if one has vanished: `git prune --expire=now` removes unreferenced objects.
    pub fn have_vanished(&self) -> bool {
        self.named.iter().any(|(folder, name)| matches!(folder.stat(name), Ok(None)))
    }

    /// Makes their names durable.
    pub fn sync_names(&self) -> io::Result<()> {
        if !self.keeps_files {
            return self.sync_file_system();
        }
        sync_all(&self.folders.values().chain([&self.objects]).map(Arc::as_ref).collect::<Vec<_>>())
    }

    /// Returns true if they are on `file_system`.
    pub fn is_on(&self, file_system: &FileSystem) -> bool {
        file_system.holds(&*self.objects)
    }

    /// Syncs the whole file system of the objects.
    fn sync_file_system(&self) -> io::Result<()> {
        Ok(platform::sync_file_system(self.objects.as_fd())?)
    }
}

impl Drop for LooseObjects {
    fn drop(&mut self) {
        for one in &self.waiting {
            let _ = one.at.remove(&one.name);
        }
    }
}

/// Open folders of objects, by name.
type ObjectFolders = BTreeMap<String, Arc<Dir>>;

/// Writes loose objects.
struct ObjectWriter {
    /// The folder `objects`.
    folder: Arc<Dir>,
    /// Level of compression.
    level: Compression,
    /// True if each file stays open, to be synced.
    keeps_files: bool,
    /// Open fan-out folders.
    folders: Mutex<ObjectFolders>,
}

/// An object in a temporary file.
#[derive(Debug)]
struct TemporaryObject {
    /// Folder of the temporary file.
    at: Arc<Dir>,
    /// Temporary name.
    name: String,
    /// Name of the target folder.
    fan_out: String,
    /// Target folder.
    folder: Arc<Dir>,
    /// Final name.
    to: String,
    /// Its file, if it is synced by itself.
    file: Option<File>,
}

impl ObjectWriter {
    /// Writes a pack of all objects in `memory`, and its index, to temporary files. In `waiting`, the file to rename
    /// first comes last: no index is ever without its pack.
    fn write_pack(&self, memory: NewObjects, waiting: &mut Vec<TemporaryObject>) -> io::Result<()> {
        let Some(hash) = memory.keys().next().map(ObjectId::kind) else { return Ok(()) };
        let (folder, count, number) = (self.fan_out("pack")?, memory.len(), next_number());
        let aside = |kind: &str| format!("{}{kind}{}-{number}", pack::ASIDE, std::process::id());
        let wait = |name, to, file| {
            let (at, folder, fan_out) = (Arc::clone(&folder), Arc::clone(&folder), "pack".to_owned());
            TemporaryObject { at, name, fan_out, folder, to, file: Some(file).filter(|_| self.keeps_files) }
        };
        let mut objects = memory.into_iter();
        // Each part is dropped as soon as it is written.
        let parts = std::iter::from_fn(|| {
            let part: Vec<_> = objects.by_ref().take(PACKED_AT_ONCE).collect();
            if part.is_empty() { None } else { Some(self.entries(&part)) }
        });
        let write = |file: &File| pack::write_pack(file, (hash, count), parts);
        let (pack, (to, index)) = folder.write_new_by(aside("pack"), 0o444, write)?;
        let index_to = pack::index_of(&to).to_string_lossy().into_owned();
        waiting.push(wait(aside("pack"), to, pack));
        let index = folder.write_new(aside("idx"), 0o444, &index)?;
        waiting.insert(waiting.len() - 1, wait(aside("idx"), index_to, index));
        Ok(())
    }

    /// Compresses some objects for a pack, in their order.
    fn entries(&self, objects: &[(ObjectId, (Kind, Vec<u8>))]) -> io::Result<Vec<PackedObject>> {
        let all = Mutex::new(Vec::with_capacity(objects.len()));
        in_parallel(objects, OBJECT_THREADS_MAX, |share| {
            let mut deflater = Deflater::new(self.level);
            let entries = share.iter().map(|(id, (kind, bytes))| deflater.entry(*id, *kind, bytes));
            let entries = entries.collect::<io::Result<Vec<_>>>()?;
            locked(&all).extend(entries);
            Ok(())
        })?;
        let mut entries = std::mem::take(&mut *locked(&all));
        entries.sort_by_key(|entry| entry.id);
        Ok(entries)
    }

    /// Writes one compressed object to a temporary file.
    fn write(&self, id: &ObjectId, bytes: &[u8]) -> io::Result<TemporaryObject> {
        let hex = id.to_hex().to_string();
        let (fan_out, rest) = hex.split_at_checked(2).unwrap_or_default();
        let name = format!("tmp_obj_lbx{}-{}", process_id(), next_number());
        let folder = self.fan_out(fan_out)?;
        // All in one folder, so that the disk has fewer folders to write.
        let at = Arc::clone(&self.folder);
        let file = self.keeps_files.then_some(at.write_new(&name, 0o444, bytes)?);
        Ok(TemporaryObject { at, name, fan_out: fan_out.to_owned(), folder, to: rest.to_owned(), file })
    }

    /// Returns the folder of the objects whose ids begin with `name`; makes it if missing.
    fn fan_out(&self, name: &str) -> Result<Arc<Dir>, Errno> {
        let mut folders = locked(&self.folders);
        if let Some(folder) = folders.get(name) {
            return Ok(Arc::clone(folder));
        }
        let folder = self.folder.folder(name)?.map_or_else(|| made(&self.folder, name), Ok)?;
        let folder = Arc::new(folder);
        folders.insert(name.to_owned(), Arc::clone(&folder));
        Ok(folder)
    }
}

/// Makes that folder of objects if missing.
fn made(objects: &Dir, name: &str) -> Result<Dir, Errno> {
    for _ in 0..FOLDER_TRIES_MAX {
        match objects.add_folder(name) {
            Err(Errno::NOENT) => {} // removed again, before it was opened
            folder => return folder,
        }
    }
    Err(Errno::NOENT)
}

/// Returns a number that no other temporary file of this process has.
fn next_number() -> u32 {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    COUNTER.fetch_add(1, Ordering::Relaxed)
}

/// Compresses a blob as in its object file, header included.
pub fn compress_blob(bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    if level == Compression::BEST_SPEED && bytes.len() >= LARGE_BYTES {
        return compress_in_pieces(bytes);
    }
    Deflater::new(level).loose(Kind::Blob, bytes)
}

/// Compresses a large blob in independent pieces, header included.
///
/// A compressor moves its tables after each 32 KiB, which takes as long again as the rest of level 1. One that is reset
/// for each piece never moves them. Lost matches at the borders cost up to 4 %; git compresses again when it packs or
/// sends.
///
/// # Errors
/// Fails if it cannot be compressed.
///
/// # Source
/// RFC 1950 (header and checksum) and RFC 1951 (blocks, each of which ends with a byte here).
fn compress_in_pieces(content: &[u8]) -> io::Result<Vec<u8>> {
    let header = loose_header(Kind::Blob, content.len() as u64);
    let (first, second) = content.split_at(content.len() / 2 / PIECE_BYTES * PIECE_BYTES);
    // Two processors take half the time.
    let (first, second) = thread::scope(|scope| {
        let other =
            thread::Builder::new().spawn_scoped(scope, || Deflater::pieces(second.chunks(PIECE_BYTES)));
        let first = Deflater::pieces(std::iter::once(&*header).chain(first.chunks(PIECE_BYTES)));
        let second = match other {
            Ok(other) => other.join().unwrap_or_else(|_| Err(io::Error::other("a compressor ended early"))),
            Err(_) => Deflater::pieces(second.chunks(PIECE_BYTES)), // no thread to be had
        };
        (first, second)
    });
    let sum = adler32(adler32(1, &header), content);
    Ok([&STREAM_BEGIN[..], &first?, &second?, &STREAM_END, &sum.to_be_bytes()].concat())
}

/// Locks a mutex, even if a thread that held it panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blobs that are computed ahead for one change: the two sides of a few files. The snapshot computes the others.
const BLOBS_MAX: usize = 4;

/// The blob of some bytes.
#[derive(Debug)]
pub struct PrecomputedBlob {
    /// The bytes.
    bytes: Arc<Buffer>,
    /// Id of the blob.
    id: ObjectId,
    /// Compressed at zlib's fastest level, if the blob is to be stored.
    compressed: Option<Arc<Vec<u8>>>,
}

impl PrecomputedBlob {
    /// Returns true if it was computed of this very buffer.
    fn is_of(&self, bytes: &[u8]) -> bool {
        std::ptr::eq(&raw const **self.bytes, bytes)
    }
}

/// Returns the id of the blob of `bytes`, if it was computed.
pub fn id(blobs: &[PrecomputedBlob], hash: Hash, bytes: &[u8]) -> Option<ObjectId> {
    blobs.iter().find(|blob| blob.id.kind() == hash && blob.is_of(bytes)).map(|blob| blob.id)
}

/// Returns the compressed blob of `bytes`, if it was computed at that level.
pub fn packed(blobs: &[PrecomputedBlob], level: Compression, bytes: &[u8]) -> Option<PackedBlob> {
    let blob = blobs.iter().find(|blob| blob.compressed.is_some() && blob.is_of(bytes))?;
    let bytes = blob.compressed.clone().filter(|_| level == Compression::BEST_SPEED)?;
    Some(PackedBlob { id: blob.id, bytes })
}

/// Blobs in the making, each in a thread of its own.
#[derive(Debug, Default)]
pub struct BlobPrefetch(Vec<JoinHandle<Option<PrecomputedBlob>>>);

impl BlobPrefetch {
    /// Begins with the blob of a large file; `is_new` if it is to be stored. One that cannot be computed is left to the
    /// snapshot, which reports why.
    pub fn begin(&mut self, bytes: &Arc<Buffer>, is_new: bool) {
        if bytes.len() < LARGE_BYTES || self.0.len() == BLOBS_MAX {
            return;
        }
        let bytes = Arc::clone(bytes);
        let compute = move || {
            let id = gix::objs::compute_hash(Hash::Sha1, Kind::Blob, &bytes).ok()?;
            let compress = || compress_blob(&bytes, Compression::BEST_SPEED).ok().map(Arc::new);
            let compressed = if is_new { Some(compress()?) } else { None };
            Some(PrecomputedBlob { bytes, id, compressed })
        };
        self.0.extend(thread::Builder::new().spawn(compute));
    }

    /// Waits for all of them.
    pub fn finish(self) -> Vec<PrecomputedBlob> {
        self.0.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_is_stored_after_git_removes_its_fan_out_directory() {
        let folder = tempfile::tempdir().unwrap();
        let objects = folder.path().join("objects");
        std::fs::create_dir(&objects).unwrap();
        let bytes = b"bytes\n".to_vec();
        let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, Kind::Blob, &bytes).unwrap();
        let memory = NewObjects::from([(id, (Kind::Blob, bytes))]);
        let held = Arc::new(Dir::open(&objects.canonicalize().unwrap()).unwrap());
        let mut aside = written(held, memory, &[], Compression::DEFAULT).unwrap();
        let hex = id.to_hex().to_string();
        let (fan_out, rest) = hex.split_at(2);
        std::fs::remove_dir(objects.join(fan_out)).unwrap();
        aside.put().unwrap();
        aside.sync_names().unwrap();
        assert!(objects.join(fan_out).join(rest).is_file());
        assert_eq!(std::fs::read_dir(&objects).unwrap().count(), 1, "nothing waits any more");
    }

    #[test]
    fn prefetched_blob_is_found_by_its_own_buffer_only() {
        let bytes = |byte| Arc::new(Buffer::from(vec![byte; LARGE_BYTES]));
        let (old, new, equal) = (bytes(1), bytes(2), bytes(2));
        let mut prefetch = BlobPrefetch::default();
        prefetch.begin(&old, false);
        prefetch.begin(&new, true);
        prefetch.begin(&Arc::new(Buffer::from(b"small".to_vec())), true);
        let blobs = prefetch.finish();
        assert_eq!(blobs.len(), 2);
        let expected = |bytes: &[u8]| gix::objs::compute_hash(Hash::Sha1, Kind::Blob, bytes).ok();
        assert_eq!(id(&blobs, Hash::Sha1, &old), expected(&old));
        assert_eq!(id(&blobs, Hash::Sha1, &new), expected(&new));
        assert_eq!(id(&blobs, Hash::Sha1, &equal), None);
        assert_eq!(id(&blobs, Hash::Sha256, &new), None);
        assert!(packed(&blobs, Compression::BEST_SPEED, &new).is_some());
        assert!(packed(&blobs, Compression::DEFAULT, &new).is_none());
        assert!(packed(&blobs, Compression::BEST_SPEED, &old).is_none());
    }
}
