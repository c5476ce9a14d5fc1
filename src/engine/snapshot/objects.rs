//! Putting new objects on disk, so that they are there before anything names them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use gix::ObjectId;
use gix::objs::Kind;
use gix::odb::memory::Storage;
use gix::zlib::{Compression, stream::deflate};

use super::error::{Doing as _, SnapshotError};
use crate::engine::fs::write_all;

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
pub fn store_all(repo: &gix::Repository, packed: &[Packed]) -> Result<(), SnapshotError> {
    let folder = repo.common_dir().join("objects");
    let memory = repo.objects.reset_object_memory().unwrap_or_default();
    store(&folder, &memory, packed, repo.loose_compression())
        .doing(|| format!("cannot store objects in `{}`", folder.display()))
}

/// Writes every object of `memory` and of `packed` loose below `folder`, and returns when all are durable.
///
/// Each gets a file of its own, written aside under a name that `git gc` clears away, synced
/// and only then renamed, so that no power cut leaves an empty object. The waits for the disk
/// overlap, since the files are spread over threads; many files are synced all at once.
fn store(folder: &Path, memory: &Storage, packed: &[Packed], level: Compression) -> io::Result<()> {
    let plain = memory.iter().map(|(id, (kind, bytes))| (id, Form::Plain(*kind, bytes.as_slice())));
    let packed = packed.iter().map(|object| (&object.id, Form::Packed(&object.bytes)));
    let objects: Vec<Object<'_>> = plain.chain(packed).collect();
    let writer = Writer {
        folder,
        level,
        sync_each: objects.len() <= SYNC_EACH_MAX || cfg!(not(target_os = "linux")),
        made_folder: AtomicBool::new(false),
    };
    if writer.sync_each {
        in_parallel(&objects, |object| writer.write(object).and_then(|written| written.put()))?;
        return writer.sync_folders(&objects);
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

/// Syncs the whole file system that `path` is on.
#[cfg(target_os = "linux")]
fn sync_all(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(path)?)?)
}

/// Syncs a folder; elsewhere each object is synced by itself.
#[cfg(not(target_os = "linux"))]
fn sync_all(path: &Path) -> io::Result<()> {
    sync_folder(path)
}

/// Syncs a folder, so that the names in it are durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes a fan-out folder that is missing, and says so in `made`.
fn make_fan_out(folder: &Path, path: &Path, made: &AtomicBool) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => {
            made.store(true, Ordering::Relaxed);
            share_like(folder, path)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives a new folder the permissions of the one it lies in, as a shared repository needs.
fn share_like(parent: &Path, child: &Path) -> io::Result<()> {
    let wanted = fs::metadata(parent)?.permissions();
    if fs::metadata(child)?.permissions().mode() != wanted.mode() {
        fs::set_permissions(child, wanted)?;
    }
    Ok(())
}

/// The folder that holds the object `id`.
fn fan_out(folder: &Path, id: &ObjectId) -> PathBuf {
    folder.join(id.to_hex_with_len(2).to_string())
}

/// Writes loose objects.
struct Writer<'a> {
    /// The folder `objects`.
    folder: &'a Path,
    /// How hard to compress.
    level: Compression,
    /// Whether each file is synced when it is written.
    sync_each: bool,
    /// Whether a fan-out folder was missing.
    made_folder: AtomicBool,
}

/// An object that is written but has not its name yet.
struct Aside {
    /// Where it is.
    path: PathBuf,
    /// Where it shall be.
    to: PathBuf,
}

impl Aside {
    /// Gives the object its name.
    fn put(&self) -> io::Result<()> {
        let renamed = fs::rename(&self.path, &self.to);
        if renamed.is_err() {
            let _ = fs::remove_file(&self.path);
        }
        renamed
    }
}

impl Writer<'_> {
    /// Writes one object aside.
    fn write(&self, (id, form): &Object<'_>) -> io::Result<Aside> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let (fan_out, name) = (fan_out(self.folder, id), id.to_hex().to_string());
        let path = fan_out.join(format!("tmp_obj_lbx{}-{number}", std::process::id()));
        let _ = fs::remove_file(&path); // of a dead process that had this id
        let packed = match form {
            Form::Plain(kind, bytes) => Cow::Owned(compressed(*kind, bytes, self.level)?),
            Form::Packed(bytes) => Cow::Borrowed(*bytes),
        };
        self.again_without_folder(&fan_out, || self.write_file(&path, &packed))?;
        Ok(Aside { path, to: fan_out.join(name.get(2..).unwrap_or_default()) })
    }

    /// Writes a new file, and syncs it where each is.
    fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)?;
        let written = write_all(&file, bytes);
        let synced = written.and_then(|()| if self.sync_each { file.sync_all() } else { Ok(()) });
        if synced.is_err() {
            let _ = fs::remove_file(path);
        }
        synced
    }

    /// Does `work` in a fan-out folder, which a git that packs removes when it finds it empty.
    fn again_without_folder(&self, fan_out: &Path, work: impl Fn() -> io::Result<()>) -> io::Result<()> {
        for _ in 0..TRIES_MAX {
            match work() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match make_fan_out(self.folder, fan_out, &self.made_folder) {
                        // Gone again, before its permissions were looked at.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        made => made?,
                    }
                }
                other => return other,
            }
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("`{}` vanishes again and again", fan_out.display()),
        ))
    }

    /// Syncs every folder that has new names.
    fn sync_folders(&self, objects: &[Object<'_>]) -> io::Result<()> {
        let mut folders: BTreeSet<PathBuf> = objects.iter().map(|(id, _)| fan_out(self.folder, id)).collect();
        if self.made_folder.load(Ordering::Relaxed) {
            folders.insert(self.folder.to_owned());
        }
        let folders: Vec<PathBuf> = folders.into_iter().collect();
        in_parallel(&folders, |path| match sync_folder(path) {
            // A git that packs has taken the objects out of it, into a pack that it has synced.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        })
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
