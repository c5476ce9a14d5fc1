//! Putting new objects on disk, so that they are there before anything names them.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use gix::ObjectId;
use gix::objs::Kind;
use gix::odb::memory::Storage;
use gix::zlib::{Compression, stream::deflate};

/// Most threads that write and sync at once; a disk gains little from more.
const THREADS_MAX: usize = 8;
/// How often an object is tried again when its folder vanishes.
const TRIES_MAX: usize = 10;

/// One new object: its id, kind and bytes.
type Object<'a> = (&'a ObjectId, &'a Kind, &'a [u8]);

/// Writes every object of `memory` loose below `folder`, and returns when all are durable.
///
/// Each gets a file of its own, written aside under the name that `git gc` clears away,
/// synced and renamed; the waits for the disk overlap, since the files are spread over threads.
pub fn store(folder: &Path, memory: &Storage, level: Compression) -> io::Result<()> {
    let objects: Vec<Object<'_>> =
        memory.iter().map(|(id, (kind, bytes))| (id, kind, bytes.as_slice())).collect();
    let made_folder = AtomicBool::new(false);
    in_parallel(&objects, |object| write_object(folder, object, level, &made_folder))?;
    let mut folders: BTreeSet<PathBuf> = objects.iter().map(|(id, _, _)| fan_out(folder, id)).collect();
    if made_folder.load(Ordering::Relaxed) {
        folders.insert(folder.to_owned());
    }
    let folders: Vec<PathBuf> = folders.into_iter().collect();
    in_parallel(&folders, |path| match sync_folder(path) {
        // A git that packs has taken the objects out of it, into a pack that it has synced.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    })
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

/// Writes one loose object and syncs it; `made` becomes true where its folder was missing.
fn write_object(
    folder: &Path,
    (id, kind, bytes): &Object<'_>,
    level: Compression,
    made: &AtomicBool,
) -> io::Result<()> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let fan_out = fan_out(folder, id);
    let name = id.to_hex().to_string();
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let aside = fan_out.join(format!(
        "tmp_obj_lbx{}-{number}-{}",
        std::process::id(),
        name.get(..12).unwrap_or(&name)
    ));
    let _ = fs::remove_file(&aside); // of a dead process that had this id
    let write = || {
        make_fan_out(folder, &fan_out, made)?;
        write_aside(&aside, **kind, bytes, level)?;
        fs::rename(&aside, fan_out.join(name.get(2..).unwrap_or_default()))
    };
    for _ in 0..TRIES_MAX {
        match write() {
            // A git that packs removes folders that it finds empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder.is_dir() => {}
            Ok(()) => return Ok(()),
            Err(error) => {
                let _ = fs::remove_file(&aside);
                return Err(error);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("`{}` vanishes again and again", fan_out.display())))
}

/// Writes the compressed form of an object into a new file and syncs it.
fn write_aside(path: &Path, kind: Kind, bytes: &[u8], level: Compression) -> io::Result<()> {
    let mut packed = deflate::Write::new(Vec::with_capacity(bytes.len() / 2 + 64), level);
    packed.write_all(&gix::objs::encode::loose_header(kind, bytes.len() as u64))?;
    packed.write_all(bytes)?;
    packed.flush()?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)?;
    file.write_all(&packed.into_inner())?;
    file.sync_all()
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
