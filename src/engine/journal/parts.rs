//! Files of many parts, each found by a key of 32 bytes: old bytes by their SHA-256, changes by their number.
//!
//! ```text
//! magic (8) | number of rows (4) | CRC-32 of the rows (4) | rows, sorted by key | parts
//! row: key (32) | start (8) | form (4) | length (4)
//! ```
//! The form is 0 for a part as it is, 1 for a compressed one, and N + 2 for the compressed delta that makes it of the
//! part of row N. Four bytes before compressed data are its length before compression. Numbers are big-endian. A file
//! is read as hostile input: whoever reads a part checks it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::io::Errno;

use crate::engine::workspace::fs;
use crate::text::delta;
use crate::text::patch::{deflate, inflate};

/// Key of a part.
pub type Key = [u8; 32];

/// First bytes of a file.
const MAGIC: &[u8; 8] = b"lbxold\0\x02";
/// Bytes before the rows.
const HEAD_BYTES: usize = 16;
/// Bytes of a row.
const ROW_BYTES: usize = 48;
/// Most rows of a file: no change has so many files.
pub const ROWS_MAX: usize = 1 << 20;
/// Most rows that are kept in memory: 4 MiB.
pub const LOADED_ROWS_MAX: usize = (4 << 20) / ROW_BYTES;
/// Largest part in bytes, before and after compression.
pub const PART_BYTES_MAX: usize = 16 << 20;
/// Most deltas in a row, as in the packs of git.
pub const DELTAS_MAX: usize = 50;
/// Bytes written at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Form of a part as it is.
const PLAIN: u32 = 0;
/// Form of a compressed part.
const COMPRESSED: u32 = 1;
/// Form of a delta of the first row.
const FIRST_DELTA: u32 = 2;

/// An open file of parts.
#[derive(Debug)]
pub struct Parts {
    /// The file.
    file: File,
    /// Number of rows; the file is long enough for all of them.
    rows: usize,
    /// CRC-32 that the rows had when they were written.
    sum: u32,
    /// Size of the file in bytes.
    size: u64,
    /// All rows, if they are in memory.
    loaded: Option<Vec<u8>>,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Key of the part.
    pub key: Key,
    /// Its offset.
    start: u64,
    /// How it is stored.
    form: u32,
    /// Its length in the file, in bytes.
    pub length: u32,
}

impl Row {
    /// Returns the number of the row whose part this one is a delta of.
    fn base(&self) -> Option<usize> {
        self.form.checked_sub(FIRST_DELTA).and_then(|row| usize::try_from(row).ok())
    }
}

impl Parts {
    /// Opens the file `name`; `None` if it is missing or of another version.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn open(folder: &OwnedFd, name: &str) -> io::Result<Option<Self>> {
        let file = match fs::open_at(folder.as_fd(), OsStr::new(name), fs::READ) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let stat = rustix::fs::fstat(&file)?;
        let size = fs::size_of(&stat);
        if !fs::is_regular(&stat) || size < HEAD_BYTES as u64 {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        file.read_exact_at(&mut head, 0)?;
        let (magic, rest) = head.split_at(MAGIC.len());
        let (rows, sum) = rest.split_at(4);
        let (rows, sum) = (usize::try_from(number(rows)).unwrap_or(usize::MAX), number(sum));
        let is_whole = magic == MAGIC
            && rows <= ROWS_MAX
            && (HEAD_BYTES + rows.saturating_mul(ROW_BYTES)) as u64 <= size;
        Ok(is_whole.then(|| Self { file, rows, sum, size, loaded: None }))
    }

    /// Loads all rows into memory, if they fit; returns false if they are damaged.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn load(&mut self) -> io::Result<bool> {
        if self.rows > LOADED_ROWS_MAX {
            return Ok(true);
        }
        let mut rows = vec![0; self.rows * ROW_BYTES];
        self.file.read_exact_at(&mut rows, HEAD_BYTES as u64)?;
        let is_whole = crc32fast::hash(&rows) == self.sum;
        self.loaded = Some(rows);
        Ok(is_whole)
    }

    /// Returns true if all rows are in memory.
    pub const fn is_loaded(&self) -> bool {
        self.loaded.is_some()
    }

    /// Returns true if it is still the file `name`.
    pub fn is_still(&self, folder: &OwnedFd, name: &str) -> bool {
        fs::is_named(folder, OsStr::new(name), &self.file)
    }

    /// Returns the number of rows.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Returns a row, by its number from 0.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn row(&self, row: usize) -> io::Result<Row> {
        let at = row.saturating_mul(ROW_BYTES);
        let in_memory = self.loaded.as_ref().and_then(|rows| rows.get(at..)?.first_chunk::<ROW_BYTES>());
        let mut bytes = [0; ROW_BYTES];
        match in_memory {
            Some(known) => bytes = *known,
            None => self.file.read_exact_at(&mut bytes, (HEAD_BYTES.saturating_add(at)) as u64)?,
        }
        let (key, rest) = bytes.split_at(size_of::<Key>());
        let (start, rest) = rest.split_at(8);
        let (form, length) = rest.split_at(4);
        Ok(Row {
            key: key.try_into().unwrap_or_default(),
            start: start.try_into().map(u64::from_be_bytes).unwrap_or_default(),
            form: number(form),
            length: number(length),
        })
    }

    /// Returns all rows, in order.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn all_rows(&self) -> io::Result<Vec<Row>> {
        (0..self.rows).map(|row| self.row(row)).collect()
    }

    /// Returns the row with that key.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find(&self, key: &Key) -> io::Result<Option<Row>> {
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            let row = self.row(middle)?;
            match row.key.cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(Some(row)),
            }
        }
        Ok(None)
    }

    /// Returns the part with that key; `None` if it is missing or cannot be decoded.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn get(&self, key: &Key) -> io::Result<Option<Vec<u8>>> {
        let Some(row) = self.find(key)? else { return Ok(None) };
        self.decode(row)
    }

    /// Returns the part of a row; `None` if it cannot be decoded. Has no more than one delta in memory.
    fn decode(&self, mut row: Row) -> io::Result<Option<Vec<u8>>> {
        let mut deltas = Vec::new();
        while let Some(base) = row.base() {
            deltas.push(row);
            if deltas.len() > DELTAS_MAX || base >= self.rows {
                return Ok(None);
            }
            row = self.row(base)?;
        }
        let stored = self.stored(&row)?;
        let mut bytes = if row.form == PLAIN { stored } else { stored.and_then(|stored| inflated(&stored)) };
        while let Some((source, row)) = bytes.as_ref().zip(deltas.pop()) {
            let delta = self.stored(&row)?.and_then(|stored| inflated(&stored));
            bytes = delta.and_then(|delta| delta::apply(&delta, source, PART_BYTES_MAX));
        }
        Ok(bytes)
    }

    /// Returns the bytes of a row as they are in the file; `None` if it does not hold them.
    fn stored(&self, row: &Row) -> io::Result<Option<Vec<u8>>> {
        let length = usize::try_from(row.length).unwrap_or(usize::MAX);
        let end = row.start.checked_add(u64::from(row.length));
        if length > PART_BYTES_MAX || end.is_none_or(|end| end > self.size) {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, row.start)?;
        Ok(Some(bytes))
    }
}

/// Returns the number in four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map(u32::from_be_bytes).unwrap_or_default()
}

/// Returns what was compressed; `None` if it is damaged, or larger than any part.
fn inflated(stored: &[u8]) -> Option<Vec<u8>> {
    let (length, compressed) = stored.split_at_checked(4)?;
    let length = usize::try_from(number(length)).ok().filter(|length| *length <= PART_BYTES_MAX)?;
    inflate(compressed, length).ok()
}

/// Versions of one thing that are added in turn, each as a delta of the one before.
#[derive(Debug)]
pub struct Versions {
    /// The one before.
    last: Option<(Key, Vec<u8>)>,
    /// Number of deltas that may still follow the last whole one.
    left: usize,
    /// Most deltas in a row.
    deltas_max: usize,
}

impl Versions {
    /// Begins with a whole one, and then with each after so many deltas: at most [`DELTAS_MAX`].
    pub const fn new(deltas_max: usize) -> Self {
        Self { last: None, left: 0, deltas_max }
    }
}

/// Writes a file of parts: first the parts, then the rows in the room before them.
pub struct PartsWriter<'f> {
    /// The file, which is empty.
    file: &'f File,
    /// Writer of the parts.
    parts: BufWriter<&'f File>,
    /// Number of rows for which there is room.
    room: usize,
    /// Start, length and form of each part so far; and the key of its base, if it is a delta.
    rows: BTreeMap<Key, (u64, u32, u32, Option<Key>)>,
    /// Offset of the next part.
    start: u64,
}

impl<'f> PartsWriter<'f> {
    /// Begins an empty file, with room for so many parts.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn new(mut file: &'f File, room: usize) -> io::Result<Self> {
        let start = (HEAD_BYTES + room * ROW_BYTES) as u64;
        file.seek(SeekFrom::Start(start))?;
        let parts = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self { file, parts, room, rows: BTreeMap::new(), start })
    }

    /// Adds a part as it is.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn plain(&mut self, key: Key, bytes: &[u8]) -> io::Result<()> {
        self.put(key, bytes, PLAIN, None)
    }

    /// Adds the next of several versions, compressed.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn version(&mut self, key: Key, bytes: Vec<u8>, versions: &mut Versions) -> io::Result<()> {
        let base = versions.last.as_ref().filter(|_| versions.left > 0);
        let delta = base.and_then(|(key, source)| {
            let delta = delta::encode(source, &bytes, bytes.len() / 2)?;
            // Nobody has another copy later.
            let is_right = delta::apply(&delta, source, bytes.len()).as_ref() == Some(&bytes);
            is_right.then_some((*key, delta))
        });
        match &delta {
            Some((base, delta)) => self.put(key, &deflated(delta), FIRST_DELTA, Some(*base))?,
            None => self.put(key, &deflated(&bytes), COMPRESSED, None)?,
        }
        versions.left = if delta.is_some() { versions.left - 1 } else { versions.deltas_max };
        versions.last = Some((key, bytes));
        Ok(())
    }

    /// Copies the parts of another file that `keeps` wants and that this one does not have, as they are stored there.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn copy(&mut self, from: &Parts, keeps: impl Fn(&Key) -> bool) -> io::Result<()> {
        let known: BTreeSet<Key> = self.rows.keys().copied().collect();
        let keeps = |key: &Key| keeps(key) && !known.contains(key);
        for number in 0..from.rows {
            let row = from.row(number)?;
            if !keeps(&row.key) {
                continue;
            }
            let base = row.base().filter(|base| *base < from.rows);
            let base = base.map(|base| from.row(base)).transpose()?.map(|base| base.key);
            if base.is_none_or(|base| keeps(&base)) {
                if let Some(stored) = from.stored(&row)? {
                    self.put(row.key, &stored, row.form, base)?;
                }
            } else if let Some(bytes) = from.decode(row)? {
                self.version(row.key, bytes, &mut Versions::new(0))?;
            }
        }
        Ok(())
    }

    /// Adds a part, the first of its key.
    fn put(&mut self, key: Key, stored: &[u8], form: u32, base: Option<Key>) -> io::Result<()> {
        let length = u32::try_from(stored.len()).map_err(io::Error::other)?;
        if self.rows.contains_key(&key) || self.rows.len() >= self.room {
            return Err(io::Error::other("a part is there twice, or there is no room for it"));
        }
        self.parts.write_all(stored)?;
        self.rows.insert(key, (self.start, length, form, base));
        self.start += u64::from(length);
        Ok(())
    }

    /// Writes the rows; the caller syncs the file.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn finish(mut self) -> io::Result<()> {
        self.parts.flush()?;
        let numbers: BTreeMap<&Key, u32> = self.rows.keys().zip(FIRST_DELTA..).collect();
        let mut rows = Vec::with_capacity(self.rows.len() * ROW_BYTES);
        for (key, (start, length, form, base)) in &self.rows {
            let form = base.as_ref().map_or(Some(form), |base| numbers.get(base));
            let form = form.ok_or_else(|| io::Error::other("a delta without its base"))?;
            rows.extend_from_slice(key);
            rows.extend_from_slice(&start.to_be_bytes());
            rows.extend_from_slice(&form.to_be_bytes());
            rows.extend_from_slice(&length.to_be_bytes());
        }
        let mut head = MAGIC.to_vec();
        let count = u32::try_from(self.rows.len()).map_err(io::Error::other)?;
        head.extend_from_slice(&count.to_be_bytes());
        head.extend_from_slice(&crc32fast::hash(&rows).to_be_bytes());
        self.file.write_all_at(&[head, rows].concat(), 0)
    }
}

/// Compresses bytes, after their length.
fn deflated(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &deflate(bytes)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes contents as `write` says, and returns their file and its folder.
    fn written(room: usize, write: impl FnOnce(&mut PartsWriter<'_>)) -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(File::open(dir.path()).unwrap());
        let file = File::create(dir.path().join("one")).unwrap();
        let mut writer = PartsWriter::new(&file, room).unwrap();
        write(&mut writer);
        writer.finish().unwrap();
        (dir, folder)
    }

    /// Returns versions of a text: each changes one line of the one before.
    fn texts() -> Vec<Vec<u8>> {
        let mut lines: Vec<String> = (0..200_u32).map(|line| format!("line {line}\n")).collect();
        let edit = |number: usize| {
            lines[number * 7 % 200] = format!("edit {number}\n");
            lines.concat().into_bytes()
        };
        (0..120).map(edit).collect()
    }

    /// Returns the key of a content.
    fn key(text: &[u8]) -> Key {
        *crate::sha256::Sha256::of(text).as_bytes()
    }

    #[test]
    fn part_is_what_was_added_also_of_a_damaged_file_or_not_there() {
        let texts = texts();
        let (dir, folder) = written(texts.len() + 9, |writer| {
            let mut versions = Versions::new(DELTAS_MAX);
            for (number, text) in texts.iter().enumerate() {
                match number % 10 {
                    0 => writer.plain(key(text), text).unwrap(),
                    _ => writer.version(key(text), text.clone(), &mut versions).unwrap(),
                }
            }
        });
        let open = || Parts::open(&folder, "one").unwrap();
        let path = dir.path().join("one");
        let whole = std::fs::read(&path).unwrap();
        assert!(whole.len() < texts.concat().len() / 6, "{}", whole.len());
        let parts = open().unwrap();
        assert!(texts.iter().all(|text| parts.get(&key(text)).unwrap().as_ref() == Some(text)));
        assert_eq!(parts.get(&[7; 32]).unwrap(), None);
        let is_right = |parts: &Parts, text: &Vec<u8>| {
            let found = parts.get(&key(text)).ok().flatten();
            found.is_none_or(|found| found == *text || key(&found) != key(text))
        };
        for at in (0..whole.len()).step_by(97) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            for bytes in [&damaged[..], &whole[..at]] {
                std::fs::write(&path, bytes).unwrap();
                let Some(mut parts) = open() else { continue };
                assert!(texts.iter().all(|text| is_right(&parts, text)), "{at}");
                let is_in_rows = (HEAD_BYTES..HEAD_BYTES + texts.len() * ROW_BYTES).contains(&at);
                assert!(!is_in_rows || !parts.load().is_ok_and(|is_whole| is_whole), "{at}");
            }
        }
    }

    #[test]
    fn copy_keeps_parts_whose_bases_go_or_are_others() {
        let texts = texts();
        let (_dir, folder) = written(texts.len(), |writer| {
            let mut versions = Versions::new(DELTAS_MAX);
            texts.iter().for_each(|text| writer.version(key(text), text.clone(), &mut versions).unwrap());
        });
        let parts = Parts::open(&folder, "one").unwrap().unwrap();
        for step in [1, 2, 7] {
            let kept: Vec<Key> = texts.iter().step_by(step).map(|text| key(text)).collect();
            let (_copy, folder) = written(texts.len(), |writer| {
                writer.plain(key(&texts[1]), b"other").unwrap();
                writer.copy(&parts, |key| kept.contains(key)).unwrap();
            });
            let copy = Parts::open(&folder, "one").unwrap().unwrap();
            assert_eq!(copy.get(&key(&texts[1])).unwrap().unwrap(), b"other");
            assert!((kept.len()..=kept.len() + 1).contains(&copy.rows()));
            let kept = texts.iter().step_by(step).filter(|text| **text != texts[1]);
            assert!(kept.into_iter().all(|text| copy.get(&key(text)).unwrap().as_ref() == Some(text)));
        }
    }

    #[test]
    fn file_that_claims_a_terabyte_or_deltas_in_a_circle_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(File::open(dir.path()).unwrap());
        let file = File::create(dir.path().join("one")).unwrap();
        // A sparse file may have any size.
        file.set_len(1 << 40).unwrap();
        let head = |rows: u32| [&MAGIC[..], &rows.to_be_bytes(), &[0; 4]].concat();
        for (form, length) in [(PLAIN, u32::MAX), (COMPRESSED, 9), (FIRST_DELTA, 4), (u32::MAX, 4)] {
            let row =
                [&[7; 32][..], &64_u64.to_be_bytes(), &form.to_be_bytes(), &length.to_be_bytes()].concat();
            file.write_all_at(&[head(1), row].concat(), 0).unwrap();
            let parts = Parts::open(&folder, "one").unwrap().unwrap();
            assert_eq!(parts.get(&[7; 32]).unwrap(), None, "{form}");
        }
        file.write_all_at(&head(1 << 30), 0).unwrap();
        assert!(Parts::open(&folder, "one").unwrap().is_none());
    }
}
