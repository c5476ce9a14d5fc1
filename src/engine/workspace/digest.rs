//! Reads and hashes files, and computes one digest of a whole file or folder, by which the trash knows that its content
//! is unchanged.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;
use std::sync::mpsc;
use std::thread;

use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::fs;
use super::path::WorkspacePath;
use crate::buffer::Buffer;
use crate::limits::{DIGESTED_BYTES_MAX, DIGESTED_FILES_MAX};
use crate::platform;
use crate::platform::other_cpu;
use crate::sha256::{Hasher, Sha256};

/// Size from which a file is read by a thread, in bytes.
const LARGE_BYTES: u64 = 1 << 20;
/// Bytes read at a time.
const PART_BYTES: usize = 1 << 20;
/// Bytes read at a time if they are not kept: the buffer must be zeroed for each of thousands of small files.
const PASSING_BYTES: usize = 64 << 10;

/// Returns the SHA-256 of `file`, with only a small part in memory at a time.
///
/// # Errors
/// Returns the OS error.
pub fn sha256_of(mut file: File) -> io::Result<Sha256> {
    let mut hasher = Hasher::default();
    let mut part = vec![0; PASSING_BYTES];
    loop {
        match file.read(&mut part) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(count) => hasher.update(part.get(..count).unwrap_or_default()),
            Err(source) if source.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(source),
        }
    }
}

/// Returns all of `file`, about `expected` bytes and at most `bytes_max`, with its SHA-256.
///
/// # Errors
/// Returns the OS error; `EFBIG` beyond the bound.
pub fn read(file: &File, expected: u64, bytes_max: u64) -> io::Result<(Buffer, Sha256)> {
    if expected < LARGE_BYTES || expected > bytes_max {
        let bytes = fs::read_to_end(file, expected, bytes_max)?;
        let sha256 = Sha256::of(&bytes);
        return Ok((bytes.into(), sha256));
    }
    let (bytes, mut hasher) = read_large(file, usize::try_from(expected).unwrap_or(usize::MAX))?;
    // It may have grown meanwhile.
    let mut more = Vec::new();
    file.take(bytes_max.saturating_add(1) - bytes.len() as u64).read_to_end(&mut more)?;
    if (bytes.len() + more.len()) as u64 > bytes_max {
        return Err(Errno::FBIG.into());
    }
    hasher.update(&more);
    let bytes = if more.is_empty() { bytes } else { [&bytes, more.as_slice()].concat().into() };
    Ok((bytes, hasher.finish()))
}

/// Returns the first `length` bytes of a file, or all if it is shorter, and the hasher of these bytes.
fn read_large(file: &File, length: usize) -> io::Result<(Buffer, Hasher)> {
    let mut bytes = Buffer::zeroed(length);
    let (sender, parts) = mpsc::channel::<&[u8]>();
    let hash = move || {
        let mut hasher = Hasher::default();
        parts.into_iter().for_each(|part| hasher.update(part));
        hasher
    };
    let (read, hasher) = thread::scope(|scope| {
        let hasher = other_cpu::spawn_scoped(scope, hash);
        let mut rest = &mut *bytes;
        let mut read = 0;
        loop {
            let room = rest.len().min(PART_BYTES);
            let part = rest.get_mut(..room).unwrap_or_default();
            let count = rustix::io::retry_on_intr(|| rustix::io::read(file, &mut *part))?;
            let (filled, unfilled) = std::mem::take(&mut rest).split_at_mut(count);
            if filled.is_empty() {
                break;
            }
            read += count;
            rest = unfilled;
            // If the thread is gone, nobody receives it.
            let _ = sender.send(filled);
        }
        drop(sender);
        Ok::<_, io::Error>((read, hasher.ok().and_then(|thread| thread.join().ok())))
    })?;
    bytes.truncate(read);
    let hasher = hasher.unwrap_or_else(|| {
        let mut hasher = Hasher::default();
        hasher.update(&bytes);
        hasher
    });
    Ok((bytes, hasher))
}

/// Digest of a file or folder with all its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Digest {
    /// A file or symlink: its mode, as a journal entry has it, and the SHA-256 of its bytes.
    File {
        /// Mode.
        mode: u32,
        /// SHA-256 of the bytes.
        sha256: Sha256,
    },
    /// Of names, modes and bytes.
    Bytes(Sha256),
    /// Of names, modes, sizes, times and inodes, if reading all bytes would take long.
    Looks(Sha256),
}

/// Everything at or below a path, by relative path.
#[derive(Debug)]
pub struct TreeContents {
    /// Entries by path.
    things: BTreeMap<Vec<u8>, DigestEntry>,
    /// Number of bytes in the files that were read.
    bytes: u64,
    /// Most bytes that are read.
    bytes_max: u64,
    /// Number of entries from which no bytes are read.
    entries_max: usize,
}

/// One entry.
#[derive(Debug)]
struct DigestEntry {
    /// Mode; for a folder or special file, with the type bits.
    mode: u32,
    /// SHA-256 of its bytes; `None` if they were not read.
    sha256: Option<Sha256>,
    /// Size, inode and times: a rename changes none of them below its top.
    looks: [i64; 6],
}

impl Default for TreeContents {
    fn default() -> Self {
        Self {
            things: BTreeMap::new(),
            bytes: 0,
            bytes_max: DIGESTED_BYTES_MAX,
            entries_max: DIGESTED_FILES_MAX,
        }
    }
}

impl TreeContents {
    /// Returns empty contents that read all bytes, however many there are.
    pub fn exact() -> Self {
        Self { bytes_max: u64::MAX, entries_max: usize::MAX, ..Self::default() }
    }

    /// Returns empty contents that read no bytes, for [`Self::by_looks`].
    pub fn unread() -> Self {
        Self { bytes_max: 0, entries_max: 0, ..Self::default() }
    }

    /// Adds the entry at the relative path `path`, which is `name` in `folder`.
    pub fn add(&mut self, path: &WorkspacePath, stat: &Stat, (folder, name): (BorrowedFd<'_>, &OsStr)) {
        let (sec, nsec) = if path.is_root() { (0, 0) } else { (stat.st_ctime, stat.st_ctime_nsec) };
        let size = if fs::is_folder(stat) { 0 } else { stat.st_size };
        let times = if fs::is_folder(stat) {
            [0; 4]
        } else {
            [stat.st_mtime, nanos(stat.st_mtime_nsec), sec, nanos(nsec)]
        };
        let [mtime, mtime_nsec, ctime, ctime_nsec] = times;
        let inode = stat.st_ino.cast_signed();
        let looks = [size, inode, mtime, mtime_nsec, ctime, ctime_nsec];
        let mode = if fs::is_regular(stat) || fs::is_symlink(stat) {
            fs::recorded_mode(stat)
        } else {
            platform::mode_bits(stat)
        };
        let sha256 = self.read(stat, folder, name);
        self.things.insert(key(path), DigestEntry { mode, sha256, looks });
    }

    /// Returns the SHA-256 of a file, unless it is too large or unreadable.
    fn read(&mut self, stat: &Stat, folder: BorrowedFd<'_>, name: &OsStr) -> Option<Sha256> {
        if fs::is_symlink(stat) {
            return Some(Sha256::of(&fs::read_link_at(folder, name).ok()?));
        }
        if !fs::is_regular(stat) {
            return Some(Sha256::of(b""));
        }
        self.bytes = self.bytes.saturating_add(fs::size_of(stat));
        if self.bytes > self.bytes_max || self.things.len() >= self.entries_max {
            return None;
        }
        let opened = fs::open_at(folder, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK).ok()?;
        sha256_of(File::from(opened)).ok()
    }

    /// Adds a file with these bytes and this mode.
    pub fn set_file(&mut self, path: &WorkspacePath, mode: u32, sha256: Sha256) {
        self.things.insert(key(path), DigestEntry { mode, sha256: Some(sha256), looks: [0; 6] });
    }

    /// Sets a folder, with its mode if known.
    pub fn set_folder(&mut self, path: &WorkspacePath, mode: Option<u32>) {
        const FOLDER: u32 = fs::FOLDER_MODE;
        let known = self.things.get(&key(path)).map(|thing| thing.mode);
        let new = || FOLDER | new_folder_mode();
        let mode = mode.map(|mode| FOLDER | (mode & 0o7777)).or(known).unwrap_or_else(new);
        self.things.insert(key(path), DigestEntry { mode, sha256: Some(Sha256::of(b"")), looks: [0; 6] });
    }

    /// Removes what is at a path if it is an empty folder: a file may have its name by now.
    pub fn remove_empty(&mut self, path: &WorkspacePath) {
        let key = key(path);
        let mut inner = key.clone();
        inner.push(b'/');
        let is_in_it = |known: &Vec<u8>| key.is_empty() || known.starts_with(&inner);
        let is_folder = self.things.get(&key).is_some_and(|thing| fs::is_folder_mode(thing.mode));
        if is_folder && !self.things.keys().any(|known| *known != key && is_in_it(known)) {
            self.things.remove(&key);
        }
    }

    /// Returns true if there is anything but folders.
    pub fn has_files(&self) -> bool {
        self.things.values().any(|thing| !fs::is_folder_mode(thing.mode))
    }

    /// Returns true if there is nothing.
    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// Returns the digest: of bytes if all were read.
    pub fn digest(&self) -> Digest {
        if let Some((mode, sha256)) = self.file() {
            return Digest::File { mode, sha256 };
        }
        self.by_bytes().map_or_else(|| Digest::Looks(self.by_looks()), Digest::Bytes)
    }

    /// Returns true if `known` is the digest of these contents.
    pub fn is(&self, known: Digest) -> bool {
        match known {
            Digest::File { mode, sha256 } => self.file() == Some((mode, sha256)),
            Digest::Bytes(sha256) => self.by_bytes() == Some(sha256),
            Digest::Looks(sha256) => self.by_looks() == sha256,
        }
    }

    /// Returns mode and SHA-256 of a single file or symlink whose bytes were read.
    fn file(&self) -> Option<(u32, Sha256)> {
        let (path, thing) = self.things.first_key_value()?;
        let is_file = path.is_empty() && (thing.mode <= 0o7777 || fs::is_symlink_mode(thing.mode));
        is_file.then_some((thing.mode, thing.sha256?))
    }

    /// Returns the digest of names, modes and bytes; `None` if some were not read.
    fn by_bytes(&self) -> Option<Sha256> {
        let mut hasher = Hasher::default();
        for (path, thing) in &self.things {
            head(&mut hasher, path, thing);
            hasher.update(thing.sha256?.as_bytes());
        }
        Some(hasher.finish())
    }

    /// Returns the digest of names, modes and stat data: equal for the same files after a rename.
    pub fn by_looks(&self) -> Sha256 {
        let mut hasher = Hasher::default();
        for (path, thing) in &self.things {
            head(&mut hasher, path, thing);
            thing.looks.iter().for_each(|look| hasher.update(&look.to_le_bytes()));
        }
        hasher.finish()
    }
}

/// Returns the permission bits of a new folder: all without the umask.
pub fn new_folder_mode() -> u32 {
    let status = fs::read_or_empty(rustix::fs::CWD, "/proc/self/status".as_ref(), 64 << 10);
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    0o777 & !line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

/// Adds the parts of an entry that both digests cover.
fn head(hasher: &mut Hasher, path: &[u8], thing: &DigestEntry) {
    hasher.update(&(path.len() as u64).to_le_bytes());
    hasher.update(path);
    hasher.update(&thing.mode.to_le_bytes());
}

/// Returns a path as bytes, so that there is a single order.
fn key(path: &WorkspacePath) -> Vec<u8> {
    path.as_bytes().to_vec()
}

/// Converts nanoseconds from the OS's type.
fn nanos(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_with_an_unexpected_length_is_read_whole() {
        for length in [0, 1, 1_000_000, 1 << 20, (5 << 20) + 1] {
            let content: Vec<u8> = (0..251).cycle().take(length).collect();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            std::fs::write(&path, &content).unwrap();
            for expected in [0, LARGE_BYTES, length as u64, length as u64 + 1, 9 << 20] {
                let (bytes, sha256) = read(&File::open(&path).unwrap(), expected, 10 << 20).unwrap();
                assert!(*bytes == *content, "{length} bytes, {expected} expected");
                assert_eq!(sha256, Sha256::of(&content));
            }
        }
    }

    #[test]
    fn file_that_grew_beyond_the_limit_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 3 << 20]).unwrap();
        for (expected, bytes_max) in [(2 << 20, (3 << 20) - 1), (3 << 20, 2 << 20), (0, 1)] {
            let refused = read(&File::open(&path).unwrap(), expected, bytes_max).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(Errno::FBIG.raw_os_error()));
        }
        assert!(read(&File::open(&path).unwrap(), 2 << 20, 3 << 20).is_ok());
    }
}
