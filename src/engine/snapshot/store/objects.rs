//! Putting new objects on disk, so that they are there before anything names them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use gix::ObjectId;
use gix::objs::Kind;
use gix::objs::encode::loose_header;
use gix::zlib::Compression;
use rustix::io::Errno;

use super::dir::Dir;
use super::error::{Doing as _, SnapshotError};
use super::large::{self, LARGE_BYTES};
use super::pack::{self, Deflater, NewPack};
use super::recent::RecentObjects;
use super::repo::{NewObjects, Repo};
use super::small;
use crate::apart::Apart;
use crate::engine::workspace::file_system::FileSystem;
use crate::engine::workspace::fs::{process_id, write_all};
use crate::engine::workspace::sync::{SYNC_EACH_MAX, sync_all};

/// Most threads that write at once.
const THREADS_MAX: usize = 8;
/// Up to so many objects are written before a thread has begun.
const ONE_THREAD_MAX: usize = 16;
/// From so many objects on they become one pack, as those do that git fetches (`transfer.unpackLimit`).
const PACKED_MIN: usize = 100;
/// So many objects are compressed by one thread, one after the other.
const SHARE: usize = 32;
/// Most objects that are looked at again once the branch names them.
const LOOKED_AT_MAX: usize = 16;
/// How often a folder is made again that vanishes.
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
    let doing = || format!("cannot store objects in `{}`", repo.objects_folder().path().display());
    let mut aside = write_aside(repo, packed)?;
    aside.sync().doing(doing)?;
    aside.put().doing(doing)?;
    aside.sync_names().doing(doing)
}

/// Writes every object that waits in the memory of `repo`, and those of `packed`, beside its place.
///
/// Each gets a file of its own, and many get one pack, under names that `git gc` clears away; they are to
/// be synced and only then renamed, so that no power cut leaves an empty object. No folder is reached through a link.
pub fn write_aside(repo: &Repo, packed: &[Packed]) -> Result<Aside, SnapshotError> {
    let doing = || format!("cannot store objects in `{}`", repo.objects_folder().path().display());
    let memory = repo.take_new();
    let level = repo.settings().loose_compression();
    written(Arc::clone(repo.objects_folder()), &memory, packed, level, repo.recent()).doing(doing)
}

/// Writes the objects of `memory` and of `packed` below `folder`.
fn written(
    folder: Arc<Dir>,
    memory: &NewObjects,
    packed: &[Packed],
    level: Compression,
    recent: Option<&RecentObjects>,
) -> io::Result<Aside> {
    let plain = memory.iter().map(|(id, (kind, bytes))| (id, Form::Plain(*kind, bytes.as_slice())));
    let packed = packed.iter().map(|object| (&object.id, Form::Packed(&object.bytes)));
    let is_many = memory.len() >= PACKED_MIN;
    let objects: Vec<Object<'_>> = plain.filter(|_| !is_many).chain(packed).collect();
    let writer = Writer {
        folder: Arc::clone(&folder),
        deflaters: Mutex::default(),
        level,
        keeps_files: objects.len() <= SYNC_EACH_MAX || !crate::engine::workspace::fs::syncfs_tells_errors(),
        folders: Mutex::default(),
        is_shared: OnceLock::new(),
        recent,
    };
    let all = Mutex::new(Vec::with_capacity(objects.len()));
    let outcome = in_parallel(&objects, |object| {
        let one = writer.write(object)?;
        all.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        Ok(())
    });
    let outcome = outcome.and_then(|()| {
        if is_many {
            writer.write_pack(memory, &mut all.lock().unwrap_or_else(PoisonError::into_inner))
        } else {
            Ok(())
        }
    });
    let keeps_files = writer.keeps_files;
    let folders = std::mem::take(&mut *writer.folders.lock().unwrap_or_else(PoisonError::into_inner));
    let waiting = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    drop(writer);
    let aside = Aside { objects: folder, keeps_files, folders, waiting, named: Vec::new() };
    outcome.map(|()| aside)
}

/// Objects that are written and have not their names yet. Dropped, they are removed.
#[derive(Debug)]
pub struct Aside {
    /// The folder `objects`.
    objects: Arc<Dir>,
    /// Whether their files are open, to be synced one by one.
    keeps_files: bool,
    /// The folders they go to, by name.
    folders: Folders,
    /// They themselves.
    waiting: Vec<Waiting>,
    /// Those that have their names, as far as they are looked at again.
    named: Vec<(Arc<Dir>, String)>,
}

impl Aside {
    /// Their files, so that the disk begins with them; none where they are many.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.waiting.iter().filter_map(|one| one.file.as_ref())
    }

    /// Makes their bytes durable.
    pub fn sync(&self) -> io::Result<()> {
        if self.keeps_files { sync_all(&self.files().collect::<Vec<_>>()) } else { self.sync_file_system() }
    }

    /// Gives them their names.
    pub fn put(&mut self) -> io::Result<()> {
        while let Some(one) = self.waiting.last() {
            let mut folder = Arc::clone(&one.folder);
            match one.at.rename(&one.name, &one.folder, &one.to) {
                // A git that packs removes a folder that it finds empty.
                Err(Errno::NOENT) => {
                    let again = Arc::new(made(&self.objects, &one.fan_out, self.objects.is_shared())?);
                    one.at.rename(&one.name, &again, &one.to)?;
                    self.folders.insert(one.fan_out.clone(), Arc::clone(&again));
                    folder = again;
                }
                renamed => renamed?,
            }
            let named = self.waiting.pop().filter(|_| self.named.len() < LOOKED_AT_MAX);
            self.named.extend(named.map(|one| (folder, one.to)));
        }
        Ok(())
    }

    /// Whether one of them is gone again: `git prune --expire=now` takes what no reference leads to.
    pub fn is_lost(&self) -> bool {
        self.named.iter().any(|(folder, name)| matches!(folder.stat(name), Ok(None)))
    }

    /// Makes their names durable.
    pub fn sync_names(&self) -> io::Result<()> {
        if !self.keeps_files {
            return self.sync_file_system();
        }
        sync_all(&self.folders.values().chain([&self.objects]).map(Arc::as_ref).collect::<Vec<_>>())
    }

    /// Whether they are on a file system.
    pub fn is_on(&self, file_system: &FileSystem) -> bool {
        file_system.holds(&*self.objects)
    }

    /// Syncs the whole file system that they are on.
    #[cfg(target_os = "linux")]
    fn sync_file_system(&self) -> io::Result<()> {
        Ok(rustix::io::retry_on_intr(|| rustix::fs::syncfs(&*self.objects))?)
    }

    /// Syncs the folder; elsewhere each object is synced by itself.
    #[cfg(not(target_os = "linux"))]
    fn sync_file_system(&self) -> io::Result<()> {
        Ok(self.objects.sync()?)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        for one in &self.waiting {
            let _ = one.at.remove(&one.name);
        }
    }
}

/// The folders of objects that were opened, by their names.
type Folders = BTreeMap<String, Arc<Dir>>;

/// Writes loose objects.
struct Writer<'a> {
    /// The folder `objects`.
    folder: Arc<Dir>,
    /// What compresses, one for each thread at work: to make one takes longer than to use it.
    deflaters: Mutex<Vec<Deflater>>,
    /// How hard.
    level: Compression,
    /// Whether each file stays open, to be synced.
    keeps_files: bool,
    /// The fan-out folders that are open.
    folders: Mutex<Folders>,
    /// Whether others than the owner may write there, once that is known.
    is_shared: OnceLock<bool>,
    /// Objects that the calls which follow need not read.
    recent: Option<&'a RecentObjects>,
}

/// An object that is written but has not its name yet.
#[derive(Debug)]
struct Waiting {
    /// The folder that it is in.
    at: Arc<Dir>,
    /// Its name there.
    name: String,
    /// The name of the folder that it goes to.
    fan_out: String,
    /// That folder.
    folder: Arc<Dir>,
    /// The name that it gets there.
    to: String,
    /// Its file, where it is to be synced by itself.
    file: Option<File>,
}

impl Writer<'_> {
    /// Writes a pack of all objects in `memory` aside, and its index. What is to be renamed first comes
    /// last in `waiting`: no index is ever without its pack.
    fn write_pack(&self, memory: &NewObjects, waiting: &mut Vec<Waiting>) -> io::Result<()> {
        let Some(hash) = memory.keys().next().map(ObjectId::kind) else { return Ok(()) };
        let pack = NewPack::of(self.entries(memory)?, hash)?;
        let folder = self.fan_out("pack")?;
        let number = next_number();
        let index_to = pack::index_of(&pack.name).to_string_lossy().into_owned();
        for (kind, to, bytes) in [("idx", index_to, &pack.index), ("pack", pack.name, &pack.bytes)] {
            let name = format!("{}{kind}{}-{number}", pack::ASIDE, std::process::id());
            let file = self.keeps_files.then_some(write_file(&folder, &name, bytes)?);
            let (at, folder) = (Arc::clone(&folder), Arc::clone(&folder));
            waiting.push(Waiting { at, name, fan_out: "pack".to_owned(), folder, to, file });
        }
        Ok(())
    }

    /// The objects in `memory` as a pack holds them.
    fn entries(&self, memory: &NewObjects) -> io::Result<Vec<pack::PackedObject>> {
        let objects: Vec<_> = memory.iter().collect();
        let shares: Vec<_> = objects.chunks(SHARE).collect();
        let all = Mutex::new(Vec::with_capacity(objects.len()));
        in_parallel(&shares, |share| {
            let mut deflater = Deflater::new(self.level);
            let entries = share.iter().map(|(id, (kind, bytes))| deflater.entry(**id, *kind, bytes));
            let entries = entries.collect::<io::Result<Vec<_>>>()?;
            all.lock().unwrap_or_else(PoisonError::into_inner).extend(entries);
            Ok(())
        })?;
        Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes one object aside.
    fn write(&self, (id, form): &Object<'_>) -> io::Result<Waiting> {
        let number = next_number();
        let hex = id.to_hex().to_string();
        let (fan_out, rest) = hex.split_at_checked(2).unwrap_or_default();
        let name = format!("tmp_obj_lbx{}-{number}", process_id());
        let packed = match form {
            Form::Plain(kind, bytes) => Cow::Owned(self.compressed(*kind, bytes)?),
            Form::Packed(bytes) => Cow::Borrowed(*bytes),
        };
        let folder = self.fan_out(fan_out)?;
        // All wait in one folder, so that the disk has fewer of them to write.
        let at = Arc::clone(&self.folder);
        let file = write_file(&at, &name, &packed)?;
        self.remember(id, form, &file);
        let file = self.keeps_files.then_some(file);
        Ok(Waiting { at, name, fan_out: fan_out.to_owned(), folder, to: rest.to_owned(), file })
    }

    /// Keeps an object for the calls that follow.
    fn remember(&self, id: &ObjectId, form: &Form<'_>, file: &File) {
        if let (Some(recent), Form::Plain(kind, bytes)) = (self.recent, form)
            && *kind != Kind::Blob
            && let Ok(stat) = rustix::fs::fstat(file)
        {
            recent.note(id, &stat, *kind, bytes);
        }
    }

    /// The form of an object in a file of its own.
    fn compressed(&self, kind: Kind, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if let Some(file) = small::file(&loose_header(kind, bytes.len() as u64), bytes) {
            return Ok(file);
        }
        let free = self.deflaters.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let free = free.or_else(|| idle_deflater(self.level));
        let mut deflater = free.unwrap_or_else(|| Deflater::new(self.level));
        let packed = deflater.loose(kind, bytes)?;
        self.deflaters.lock().unwrap_or_else(PoisonError::into_inner).push(deflater);
        Ok(packed)
    }

    /// The opened folder of the objects whose ids begin with `name`, made where it is missing.
    fn fan_out(&self, name: &str) -> Result<Arc<Dir>, Errno> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = folders.get(name) {
            return Ok(Arc::clone(folder));
        }
        let folder = if let Some(folder) = self.folder.folder(name)? {
            folder
        } else {
            made(&self.folder, name, *self.is_shared.get_or_init(|| self.folder.is_shared()))?
        };
        let folder = Arc::new(folder);
        folders.insert(name.to_owned(), Arc::clone(&folder));
        Ok(folder)
    }
}

/// The folder of objects of that name, made where it is missing; as open to others as `objects` is where that
/// `is_shared`.
fn made(objects: &Dir, name: &str, is_shared: bool) -> Result<Dir, Errno> {
    for _ in 0..TRIES_MAX {
        match objects.add_folder(name) {
            Err(Errno::NOENT) => {} // gone again, before it was opened
            Ok(folder) if is_shared => return folder.share_like(objects).map(|()| folder),
            folder => return folder,
        }
    }
    Err(Errno::NOENT)
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let last = self.deflaters.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(last) = last {
            *IDLE.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.level, last));
        }
    }
}

/// What compressed last in this process, and how hard: a later call need not set up its own.
static IDLE: Mutex<Option<(Compression, Deflater)>> = Mutex::new(None);

/// The one that is idle, where it compresses as hard as `level` says.
fn idle_deflater(level: Compression) -> Option<Deflater> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    idle.take_if(|(its_level, _)| *its_level == level).map(|(_, deflater)| deflater)
}

/// A number that no other unfinished file of this process has.
fn next_number() -> u32 {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    COUNTER.fetch_add(1, Ordering::Relaxed)
}

/// Writes a new file.
fn write_file(folder: &Dir, name: &str, bytes: &[u8]) -> io::Result<File> {
    let file = match folder.create(name, 0o444) {
        Err(Errno::EXIST) => {
            // Of a dead process that had this id.
            folder.remove(name)?;
            folder.create(name, 0o444)?
        }
        created => created?,
    };
    match write_all(&file, bytes) {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = folder.remove(name);
            Err(error)
        }
    }
}

/// The compressed form of a blob, as its file has it.
pub fn blob_compressed(bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    compressed(Kind::Blob, bytes, level)
}

/// The compressed form of an object.
fn compressed(kind: Kind, bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    if level == Compression::BEST_SPEED && bytes.len() >= LARGE_BYTES {
        return large::file(kind, bytes);
    }
    Deflater::new(level).loose(kind, bytes)
}

/// Runs `work` on every item, many of them spread over a few threads; the first failure is the answer.
fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> io::Result<()> + Sync) -> io::Result<()> {
    let run = |part: &[T]| part.iter().try_for_each(&work);
    if items.len() <= ONE_THREAD_MAX {
        return run(items);
    }
    let share = items.len().div_ceil(THREADS_MAX).max(1);
    let apart = Apart::from_here();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut parts = items.chunks(share);
        let mine = parts.next().unwrap_or_default();
        for part in parts {
            let work = move || {
                apart.go();
                run(part)
            };
            match thread::Builder::new().spawn_scoped(scope, work) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_gets_its_name_though_git_has_removed_the_folder_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let objects = folder.path().join("objects");
        std::fs::create_dir(&objects).unwrap();
        let bytes = b"bytes\n".to_vec();
        let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, Kind::Blob, &bytes).unwrap();
        let memory = NewObjects::from([(id, (Kind::Blob, bytes))]);
        let held = Arc::new(Dir::open(&objects.canonicalize().unwrap()).unwrap());
        let mut aside = written(held, &memory, &[], Compression::DEFAULT, None).unwrap();
        let hex = id.to_hex().to_string();
        let (fan_out, rest) = hex.split_at(2);
        std::fs::remove_dir(objects.join(fan_out)).unwrap();
        aside.put().unwrap();
        aside.sync_names().unwrap();
        assert!(objects.join(fan_out).join(rest).is_file());
        assert_eq!(std::fs::read_dir(&objects).unwrap().count(), 1, "nothing waits any more");
    }
}
