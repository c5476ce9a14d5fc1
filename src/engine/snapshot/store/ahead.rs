//! What can be worked out of large blobs before the snapshot begins, while the change itself still
//! computes and waits for the disk.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use gix::ObjectId;
use gix::hash::Kind as Hash;
use gix::objs::Kind;
use gix::zlib::Compression;

use super::objects::{Packed, blob_compressed};
use crate::apart::Apart;
use crate::buffer::Buffer;

/// Threads that work at once, where there are as many processors. The change itself, on one of them, waits for the
/// disk while they work.
const THREADS_MAX: usize = 2;

/// What is known ahead, by path from the root.
pub type AllAhead = Arc<BTreeMap<Vec<u8>, Ahead>>;

/// Both sides of one file, each as the blob that it is where git converts nothing in it.
#[derive(Debug)]
pub struct Ahead {
    /// The old side, and its id.
    before: Option<(Arc<Buffer>, Option<ObjectId>)>,
    /// The new side.
    after: Arc<Buffer>,
    /// Its id.
    id: Option<ObjectId>,
    /// It, compressed.
    compressed: Option<Arc<Vec<u8>>>,
}

impl Ahead {
    /// The id of `bytes`, where they are the old side.
    pub(in crate::engine::snapshot) fn before(&self, hash: Hash, bytes: &[u8]) -> Option<ObjectId> {
        let (before, id) = self.before.as_ref()?;
        id.filter(|id| is_it(before, bytes) && id.kind() == hash)
    }

    /// The blob of `bytes`, where they are the new side.
    pub(in crate::engine::snapshot) fn after(&self, hash: Hash, bytes: &[u8]) -> Option<Packed> {
        let id = self.id.filter(|id| is_it(&self.after, bytes) && id.kind() == hash)?;
        Some(Packed::of(id, Arc::clone(self.compressed.as_ref()?)))
    }

    /// Adds what came of a task.
    fn add(&mut self, done: Done) {
        match done {
            Done::IdBefore(id) => self.before.iter_mut().for_each(|(_, known)| *known = Some(id)),
            Done::Id(id) => self.id = Some(id),
            Done::Compressed(bytes) => self.compressed = Some(Arc::new(bytes)),
        }
    }

    /// The id of `bytes` in hex digits, where they are the new side, to be given back with
    /// [`Before::Named`].
    #[must_use]
    pub fn id(&self, bytes: &[u8]) -> Option<String> {
        self.id.filter(|_| is_it(&self.after, bytes)).map(|id| id.to_string())
    }
}

/// Whether these are the very bytes that were worked on, and not others of the same path.
fn is_it(worked_on: &Arc<Buffer>, bytes: &[u8]) -> bool {
    std::ptr::eq(&raw const ***worked_on, bytes)
}

/// The old side of a file.
#[derive(Debug)]
pub enum Before {
    /// There was none.
    Absent,
    /// Its bytes, and the id of the blob that they are, in hex digits.
    Named(Arc<Buffer>, String),
    /// Its bytes.
    Bytes(Arc<Buffer>),
}

/// What there is to do for one side of a file.
#[derive(Clone, Copy)]
enum Task {
    /// Find the id of the old side.
    IdBefore,
    /// Find the id of the new side.
    Id,
    /// Compress the new side.
    Compress,
}

/// What came of a task.
enum Done {
    /// The id of the old side.
    IdBefore(ObjectId),
    /// The id of the new side.
    Id(ObjectId),
    /// The new side, compressed.
    Compressed(Vec<u8>),
}

/// A task, with the number of its file and the bytes of that side.
type Job = (usize, Task, Arc<Buffer>);

/// Works large blobs out in threads of its own.
#[derive(Debug)]
pub struct Worker {
    /// What is to be done.
    jobs: Sender<Job>,
    /// The other end of it, which the threads share.
    queue: Arc<Mutex<Receiver<Job>>>,
    /// What came of it, with the number of the file.
    done: Receiver<(usize, Done)>,
    /// The other end of that, for the next thread.
    sender: Sender<(usize, Done)>,
    /// Threads begun.
    threads: usize,
    /// The files with their paths, as far as they are known.
    files: Vec<(Vec<u8>, Ahead)>,
    /// Whether anyone waits for what is still to be done.
    wanted: Wanted,
}

impl Default for Worker {
    fn default() -> Self {
        let ((jobs, queue), (sender, done)) = (mpsc::channel(), mpsc::channel());
        let (queue, wanted) = (Arc::new(Mutex::new(queue)), Wanted(Arc::new(AtomicBool::new(true))));
        Self { jobs, queue, done, sender, threads: 0, files: Vec::new(), wanted }
    }
}

impl Worker {
    /// Begins with a file, which should be a large one: `path` from the root, and both its sides. What
    /// of it cannot be worked out is left to the snapshot.
    pub fn begin(&mut self, path: &[u8], before: Before, after: &Arc<Buffer>) {
        let number = self.files.len();
        // What takes longest begins first.
        let mut tasks = vec![(Task::Compress, Arc::clone(after)), (Task::Id, Arc::clone(after))];
        let before = match before {
            Before::Absent => None,
            Before::Named(bytes, id) => Some((bytes, ObjectId::from_hex(id.as_bytes()).ok())),
            Before::Bytes(bytes) => {
                tasks.push((Task::IdBefore, Arc::clone(&bytes)));
                Some((bytes, None))
            }
        };
        let ahead = Ahead { before, after: Arc::clone(after), id: None, compressed: None };
        self.files.push((path.to_vec(), ahead));
        for (task, bytes) in tasks {
            if self.jobs.send((number, task, bytes)).is_ok() {
                self.add_thread();
            }
        }
    }

    /// Begins a thread, if there may be one more.
    fn add_thread(&mut self) {
        if self.threads == threads_max() {
            return;
        }
        let (queue, sender) = (Arc::clone(&self.queue), self.sender.clone());
        let wanted = Arc::clone(&self.wanted.0);
        let next = move || queue.lock().ok().and_then(|queue| queue.recv().ok());
        let apart = Apart::from_here();
        let work = move || {
            apart.go();
            while let Some((number, task, bytes)) = next() {
                let done = if wanted.load(Ordering::Relaxed) { carry_out(task, &bytes) } else { return };
                // What fails is left to the snapshot, which tells why.
                if done.is_some_and(|done| sender.send((number, done)).is_err()) {
                    return;
                }
            }
        };
        self.threads += usize::from(thread::Builder::new().spawn(work).is_ok());
    }

    /// Waits for all, and answers what is known now.
    #[must_use]
    pub fn finish(self) -> AllAhead {
        let Self { jobs, done, sender, mut files, wanted: _wanted, .. } = self;
        // The threads end when there is nothing more to do, and with the last of them what they tell.
        drop((jobs, sender));
        for (number, done) in done {
            if let Some((_, ahead)) = files.get_mut(number) {
                ahead.add(done);
            }
        }
        Arc::new(files.into_iter().collect())
    }
}

/// How many threads may work here.
fn threads_max() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    let processors = *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from));
    processors.clamp(1, THREADS_MAX)
}

/// Ends the threads after what they are at, once it is dropped.
#[derive(Debug)]
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Does one task; `None` where it fails.
fn carry_out(task: Task, bytes: &[u8]) -> Option<Done> {
    let id = || gix::objs::compute_hash(Hash::Sha1, Kind::Blob, bytes).ok();
    match task {
        Task::IdBefore => id().map(Done::IdBefore),
        Task::Id => id().map(Done::Id),
        Task::Compress => blob_compressed(bytes, Compression::BEST_SPEED).ok().map(Done::Compressed),
    }
}

#[cfg(test)]
mod tests {
    use super::super::large::LARGE_BYTES;
    use super::*;

    #[test]
    fn what_is_known_is_known_of_those_bytes_alone() {
        let bytes = |byte| Arc::new(Buffer::from(vec![byte; LARGE_BYTES]));
        let id = |bytes: &[u8]| gix::objs::compute_hash(Hash::Sha1, Kind::Blob, bytes).unwrap();
        let (old, new, newer) = (bytes(1), bytes(2), bytes(3));
        let mut worker = Worker::default();
        worker.begin(b"a", Before::Bytes(Arc::clone(&old)), &new);
        worker.begin(b"a", Before::Named(Arc::clone(&new), id(&new).to_string()), &newer);
        worker.begin(b"b", Before::Absent, &new);
        worker.begin(b"c", Before::Bytes(Arc::clone(&old)), &newer);
        let all = worker.finish();
        let (a, b, c) = (&all[&b"a"[..]], &all[&b"b"[..]], &all[&b"c"[..]]);
        assert_eq!(a.after(Hash::Sha1, &newer).unwrap().id(), id(&newer));
        assert!(a.after(Hash::Sha1, &new).is_none() && a.id(&new).is_none());
        assert_eq!(a.before(Hash::Sha1, &new), Some(id(&new)));
        assert_eq!(a.before(Hash::Sha1, &old), None);
        assert_eq!((b.before(Hash::Sha1, &old), b.id(&new)), (None, Some(id(&new).to_string())));
        assert_eq!(c.before(Hash::Sha1, &old), Some(id(&old)));
        assert!(c.after(Hash::Sha256, &newer).is_none(), "of another kind of repository");
    }

    #[test]
    fn a_worker_that_nobody_waits_for_ends() {
        let mut worker = Worker::default();
        worker.begin(b"a", Before::Absent, &Arc::new(Buffer::from(vec![7; LARGE_BYTES])));
        let queue = Arc::downgrade(&worker.queue);
        drop(worker);
        while queue.upgrade().is_some() {
            thread::yield_now();
        }
        assert!(Worker::default().finish().is_empty());
    }
}
