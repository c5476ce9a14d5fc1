//! Putting new objects on disk, so that they are there before anything names them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use gix::ObjectId;
use gix::objs::Kind;
use gix::odb::memory::Storage;
use gix::zlib::{Compression, stream::deflate};
use rustix::io::Errno;

use super::error::{Doing as _, SnapshotError};
use super::held::Held;
use super::repo::Repo;
use crate::engine::workspace::fs::write_all;

/// Most threads that write and sync at once; a disk gains little from more.
const THREADS_MAX: usize = 8;
/// Up to so many objects are synced one by one; beyond, the whole file system is.
const SYNC_EACH_MAX: usize = 64;
/// How often an object is tried again when its folder vanishes.
const TRIES_MAX: usize = 10;

/// One new object.
type Object<'a> = (&'a ObjectId, Form<'a>);

/// How an object is at hand.
#[derive(Clone, Copy)]
enum Form<'a> {
    /// As it is.
    Plain(Kind, &'a [u8]),
    /// As its file will have it.
    Packed(&'a [u8]),
}

/// An object in the form that its file will have.
#[derive(Debug, Clone)]
pub struct Packed {
    /// Its id.
    id: ObjectId,
    /// The compressed bytes, header and all.
    bytes: Arc<Vec<u8>>,
}

impl Packed {
    /// The blob of `bytes`, whose id is `id`.
    pub fn blob(id: ObjectId, bytes: &[u8], level: Compression) -> io::Result<Self> {
        Ok(Self { id, bytes: Arc::new(blob_compressed(bytes, level)?) })
    }

    /// The blob `id`, whose file has those bytes.
    pub fn of(id: ObjectId, bytes: Arc<Vec<u8>>) -> Self {
        Self { id, bytes }
    }

    /// Its id.
    pub fn id(&self) -> ObjectId {
        self.id
    }
}

/// Stores every object that waits in the memory of `repo`, and those of `packed`; they are durable then.
pub fn store_all(repo: &Repo, packed: &[Packed]) -> Result<(), SnapshotError> {
    let folder = repo.objects_folder();
    let memory = repo.objects.reset_object_memory().unwrap_or_default();
    store(folder, &memory, packed, repo.loose_compression())
        .doing(|| format!("cannot store objects in `{}`", folder.path().display()))
}

/// Writes every object of `memory` and of `packed` loose below `folder`, and returns when all are durable.
///
/// Each gets a file of its own, written aside under a name that `git gc` clears away, synced
/// and only then renamed, so that no power cut leaves an empty object. The waits for the disk
/// overlap, since the files are spread over threads; many files are synced all at once. No folder is
/// reached through a link.
fn store(folder: &Held, memory: &Storage, packed: &[Packed], level: Compression) -> io::Result<()> {
    let plain = memory.iter().map(|(id, (kind, bytes))| (id, Form::Plain(*kind, bytes.as_slice())));
    let packed = packed.iter().map(|object| (&object.id, Form::Packed(&object.bytes)));
    let objects: Vec<Object<'_>> = plain.chain(packed).collect();
    let writer = Writer {
        folder,
        level,
        sync_each: objects.len() <= SYNC_EACH_MAX || !crate::engine::workspace::fs::syncfs_tells_errors(),
        folders: Mutex::default(),
        made_folder: AtomicBool::new(false),
    };
    if writer.sync_each {
        in_parallel(&objects, |object| writer.write(object).and_then(|written| written.put()))?;
        return writer.sync_folders();
    }
    let written = Mutex::new(Vec::new());
    in_parallel(&objects, |object| {
        let one = writer.write(object)?;
        written.lock().map_err(|_| io::Error::other("a thread that wrote objects ended early"))?.push(one);
        Ok(())
    })?;
    let written = written.into_inner().unwrap_or_default();
    sync_all(folder)?;
    written.iter().try_for_each(Aside::put)?;
    sync_all(folder)
}

/// Syncs the whole file system that `folder` is on.
#[cfg(target_os = "linux")]
fn sync_all(folder: &Held) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

/// Syncs a folder; elsewhere each object is synced by itself.
#[cfg(not(target_os = "linux"))]
fn sync_all(folder: &Held) -> io::Result<()> {
    Ok(folder.sync()?)
}

/// The folders of objects that were opened, by their names.
type Folders = BTreeMap<String, Arc<Held>>;

/// Writes loose objects.
struct Writer<'a> {
    /// The folder `objects`.
    folder: &'a Held,
    /// How hard to compress.
    level: Compression,
    /// Whether each file is synced when it is written.
    sync_each: bool,
    /// The fan-out folders that are open.
    folders: Mutex<Folders>,
    /// Whether one was missing.
    made_folder: AtomicBool,
}

/// An object that is written but has not its name yet.
struct Aside {
    /// The folder that it is in.
    folder: Arc<Held>,
    /// Its name now.
    name: String,
    /// The name that it gets.
    to: String,
}

impl Aside {
    /// Gives the object its name.
    fn put(&self) -> io::Result<()> {
        let renamed = self.folder.rename(&self.name, &self.folder, &self.to);
        if renamed.is_err() {
            let _ = self.folder.remove(&self.name);
        }
        Ok(renamed?)
    }
}

impl Writer<'_> {
    /// Writes one object aside.
    fn write(&self, (id, form): &Object<'_>) -> io::Result<Aside> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let hex = id.to_hex().to_string();
        let (fan_out, rest) = hex.split_at_checked(2).unwrap_or_default();
        let name = format!("tmp_obj_lbx{}-{number}", std::process::id());
        let packed = match form {
            Form::Plain(kind, bytes) => Cow::Owned(compressed(*kind, bytes, self.level)?),
            Form::Packed(bytes) => Cow::Borrowed(*bytes),
        };
        for _ in 0..TRIES_MAX {
            let folder = match self.fan_out(fan_out) {
                Err(Errno::NOENT) => continue, // gone again, before it was opened
                folder => folder?,
            };
            match self.write_file(&folder, &name, &packed) {
                // A git that packs removes a folder that it finds empty.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.forget(fan_out),
                Err(error) => return Err(error),
                Ok(()) => return Ok(Aside { folder, name, to: rest.to_owned() }),
            }
        }
        Err(Errno::NOENT.into())
    }

    /// The opened folder of the objects whose ids begin with `name`, made where it is missing.
    fn fan_out(&self, name: &str) -> Result<Arc<Held>, Errno> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = folders.get(name) {
            return Ok(Arc::clone(folder));
        }
        let folder = if let Some(folder) = self.folder.folder(name)? {
            folder
        } else {
            let made = self.folder.make_folder(name)?;
            self.made_folder.store(true, Ordering::Relaxed);
            made.share_like(self.folder)?;
            made
        };
        let folder = Arc::new(folder);
        folders.insert(name.to_owned(), Arc::clone(&folder));
        Ok(folder)
    }

    /// Forgets a folder that has vanished.
    fn forget(&self, name: &str) {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Writes a new file, and syncs it where each is.
    fn write_file(&self, folder: &Held, name: &str, bytes: &[u8]) -> io::Result<()> {
        let _ = folder.remove(name); // of a dead process that had this id
        let file = folder.create(name, 0o444)?;
        let written = write_all(&file, bytes);
        let synced = written.and_then(|()| if self.sync_each { file.sync_all() } else { Ok(()) });
        if synced.is_err() {
            let _ = folder.remove(name);
        }
        synced
    }

    /// Syncs every folder that has new names.
    fn sync_folders(&self) -> io::Result<()> {
        let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let folders: Vec<Arc<Held>> = folders.values().map(Arc::clone).collect();
        in_parallel(&folders, |folder| Ok(folder.sync()?))?;
        if self.made_folder.load(Ordering::Relaxed) {
            self.folder.sync()?;
        }
        Ok(())
    }
}

/// The compressed form of a blob, as its file has it.
pub fn blob_compressed(bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    compressed(Kind::Blob, bytes, level)
}

/// The compressed form of an object.
fn compressed(kind: Kind, bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut packed = deflate::Write::new(Vec::with_capacity(bytes.len() / 2 + 64), level);
    packed.write_all(&gix::objs::encode::loose_header(kind, bytes.len() as u64))?;
    packed.write_all(bytes)?;
    packed.flush()?;
    Ok(packed.into_inner())
}

/// Runs `work` on every item, spread over a few threads; the first failure is the answer.
fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> io::Result<()> + Sync) -> io::Result<()> {
    let share = items.len().div_ceil(THREADS_MAX).max(1);
    let run = |part: &[T]| part.iter().try_for_each(&work);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut parts = items.chunks(share);
        let mine = parts.next().unwrap_or_default();
        for part in parts {
            match thread::Builder::new().spawn_scoped(scope, move || run(part)) {
                Ok(handle) => threads.push(handle),
                Err(_) => run(part)?, // no thread to be had: this one does it
            }
        }
        run(mine)?;
        let ended = |thread: thread::ScopedJoinHandle<'_, io::Result<()>>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread that wrote objects ended early")))
        };
        threads.into_iter().try_for_each(ended)
    })
}
