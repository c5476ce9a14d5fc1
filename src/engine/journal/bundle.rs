//! Bundles: old bytes of many files in one file, so that a change of thousands of files does not make thousands of
//! backups.
//!
//! A bundle is a file next to the backups, named after its change. It has a table of sorted SHA-256 digests with the
//! offset and length of each part, and then the parts. Like a backup it is read as hostile input: a part counts only if
//! its digest is right.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::io::{BufWriter, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::steps::BACKUPS_FOLDER;
use crate::engine::store::state::{STATE_FOLDER, State, names_in};
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::limits::OPEN_BUNDLES_MAX;
use crate::sha256::Sha256;

/// Folder of bundles, below that of the backups.
pub const FOLDER: &str = "bundles";
/// First bytes of a bundle.
const MAGIC: &[u8; 8] = b"lbxold\0\x01";
/// Bytes before the table: magic and number of rows.
const HEAD_BYTES: usize = 16;
/// Bytes of a row: digest, offset and length.
const ROW_BYTES: usize = 48;
/// Bytes of a digest.
const DIGEST_BYTES: usize = 32;
/// Most rows of a bundle: no change has so many files.
const ROWS_MAX: u64 = 1 << 20;
/// Largest part in bytes: larger files have backups of their own.
const PART_BYTES_MAX: u64 = 16 << 20;
/// Largest table that is kept in memory, in bytes: some 80,000 files.
const LOADED_BYTES_MAX: u64 = 4 << 20;
/// Bytes written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Old bytes that become one bundle file.
#[derive(Default)]
pub struct Bundle<'b> {
    /// Old bytes, by their digest.
    parts: BTreeMap<Sha256, &'b [u8]>,
}

impl<'b> Bundle<'b> {
    /// Adds the bytes of a file.
    pub fn add(&mut self, sha256: Sha256, bytes: &'b [u8]) {
        self.parts.insert(sha256, bytes);
    }

    /// Writes the bundle of the change `id`, for the caller to sync; `None` if it is empty.
    ///
    /// # Errors
    /// Returns the OS error; then nothing is left behind.
    pub fn write(&self, state: &State, id: &str) -> Result<Option<PendingFile>, Error> {
        if self.parts.is_empty() {
            return Ok(None);
        }
        let io = |source: io::Error| Error::io("write a backup in", STATE_FOLDER, source);
        let folder = state.folder(&folder())?;
        let file = fs::create_at(folder.as_fd(), OsStr::new(id), 0o600).map_err(|errno| io(errno.into()))?;
        let written = self.write_to(&file);
        let pending = PendingFile { file, folder, name: id.into(), is_new: true };
        match written {
            Ok(()) => Ok(Some(pending)),
            Err(source) => {
                pending.discard();
                Err(io(source))
            }
        }
    }

    /// Writes the table and the parts.
    fn write_to(&self, file: &File) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        writer.write_all(MAGIC)?;
        writer.write_all(&(self.parts.len() as u64).to_be_bytes())?;
        let mut start = (HEAD_BYTES + self.parts.len() * ROW_BYTES) as u64;
        for (sha256, bytes) in &self.parts {
            writer.write_all(sha256.as_bytes())?;
            writer.write_all(&start.to_be_bytes())?;
            writer.write_all(&(bytes.len() as u64).to_be_bytes())?;
            start += bytes.len() as u64;
        }
        self.parts.values().try_for_each(|bytes| writer.write_all(bytes))?;
        writer.flush()
    }
}

/// Bundles that one call reads: each is opened once.
#[derive(Debug, Default)]
pub struct Bundles {
    /// Open bundles, by name.
    opened: BTreeMap<String, Table>,
}

impl Bundles {
    /// Returns the bytes with that SHA-256, if an open bundle has them.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find_opened(&self, state: &State, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
        for table in self.opened.values() {
            if let Some(bytes) = table.find(sha256).map_err(|source| unreadable(state, source))? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Returns the bytes with that SHA-256; `None` if no other bundle has them.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find(&mut self, state: &State, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
        let Some(folder) = state.find_folder(&folder())? else {
            return Ok(None);
        };
        for name in names_in(&folder)? {
            if self.opened.contains_key(&name) {
                continue;
            }
            let io = |source| unreadable(state, source);
            let Some(mut table) = Table::open(&folder, &name).map_err(io)? else { continue };
            if self.opened.len() < OPEN_BUNDLES_MAX {
                table.load().map_err(io)?;
            }
            let found = table.find(sha256).map_err(io)?;
            if table.loaded.is_some() {
                self.opened.insert(name, table);
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Returns the error for an unreadable bundle.
fn unreadable(state: &State, source: io::Error) -> Error {
    Error::io("read", state.shown(BACKUPS_FOLDER), source)
}

/// Returns the digests in the bundle `name`, in hex; `None` if it is not a bundle of this version.
///
/// # Errors
/// Returns the OS error.
pub fn digests(folder: &OwnedFd, name: &str) -> io::Result<Option<Vec<String>>> {
    let Some(table) = Table::open(folder, name)? else { return Ok(None) };
    let mut all = Vec::new();
    for row in 0..table.rows {
        all.push(table.row(row)?.sha256.to_hex());
    }
    Ok(Some(all))
}

/// Returns the folder of the bundles.
fn folder() -> String {
    format!("{BACKUPS_FOLDER}/{FOLDER}")
}

/// An open bundle.
#[derive(Debug)]
struct Table {
    /// Its file.
    file: File,
    /// Number of rows; the file is long enough for all of them.
    rows: u64,
    /// Size of the file in bytes.
    size: u64,
    /// All rows, if they are in memory.
    loaded: Option<Vec<u8>>,
}

/// One row.
struct Row {
    /// The digest.
    sha256: Sha256,
    /// Offset of the part.
    start: u64,
    /// Length of the part.
    length: u64,
}

impl Table {
    /// Opens the bundle `name`; `None` if there is no bundle of this version.
    fn open(folder: &OwnedFd, name: &str) -> io::Result<Option<Self>> {
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
        let head: [u8; HEAD_BYTES] = part(&file, 0)?;
        let rows = head.last_chunk().copied().map_or(0, u64::from_be_bytes);
        let rows_max = ROWS_MAX.min((size - HEAD_BYTES as u64) / ROW_BYTES as u64);
        let is_whole = head.starts_with(MAGIC) && rows <= rows_max;
        Ok(is_whole.then_some(Self { file, rows, size, loaded: None }))
    }

    /// Loads all rows into memory, if they fit.
    fn load(&mut self) -> io::Result<()> {
        let length = self.rows * ROW_BYTES as u64;
        if length <= LOADED_BYTES_MAX {
            let mut rows = vec![0; usize::try_from(length).unwrap_or(0)];
            self.file.read_exact_at(&mut rows, HEAD_BYTES as u64)?;
            self.loaded = Some(rows);
        }
        Ok(())
    }

    /// Returns a row of the table.
    fn row(&self, number: u64) -> io::Result<Row> {
        let at = number * ROW_BYTES as u64;
        let in_memory = self.loaded.as_ref().zip(usize::try_from(at).ok());
        let row: [u8; ROW_BYTES] = match in_memory.and_then(|(rows, at)| rows.get(at..)?.first_chunk()) {
            Some(row) => *row,
            None => part(&self.file, HEAD_BYTES as u64 + at)?,
        };
        let (digest, place) = row.split_at(DIGEST_BYTES);
        let number = |bytes: Option<&[u8; 8]>| bytes.copied().map_or(0, u64::from_be_bytes);
        Ok(Row {
            sha256: Sha256::from_bytes(digest.first_chunk().copied().unwrap_or_default()),
            start: number(place.first_chunk()),
            length: number(place.last_chunk()),
        })
    }

    /// Returns the bytes with that SHA-256.
    fn find(&self, sha256: Sha256) -> io::Result<Option<Vec<u8>>> {
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            let row = self.row(middle)?;
            match row.sha256.cmp(&sha256) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return self.bytes_of(&row),
            }
        }
        Ok(None)
    }

    /// Returns the bytes of a row, if they have its digest.
    fn bytes_of(&self, row: &Row) -> io::Result<Option<Vec<u8>>> {
        let is_within = row.length <= PART_BYTES_MAX
            && row.start.checked_add(row.length).is_some_and(|end| end <= self.size);
        let Some(length) = usize::try_from(row.length).ok().filter(|_| is_within) else { return Ok(None) };
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, row.start)?;
        Ok(Some(bytes).filter(|bytes| Sha256::of(bytes) == row.sha256))
    }
}

/// Reads `LENGTH` bytes of a file.
fn part<const LENGTH: usize>(file: &File, start: u64) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// A backup, a bundle or a journal entry that is written and not yet durable. Do not rely on it before it is synced.
#[derive(Debug)]
pub struct PendingFile {
    /// The file, to be synced.
    pub file: File,
    /// Folder of the file, shared with others.
    pub folder: Arc<OwnedFd>,
    /// Its name there.
    pub(super) name: OsString,
    /// True if this call created it.
    pub(super) is_new: bool,
}

impl PendingFile {
    /// Removes the file, if this call created it.
    pub fn discard(&self) {
        if self.is_new {
            // Best effort: gc knows such a file by its name.
            let _ = fs::unlink_at(&*self.folder, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundle_returns_only_bytes_that_match_the_digest() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(File::open(dir.path()).unwrap());
        let texts: Vec<Vec<u8>> =
            (0..100_u32).map(|number| number.to_string().repeat(9).into_bytes()).collect();
        let mut bundle = Bundle::default();
        texts.iter().for_each(|text| bundle.add(Sha256::of(text), text));
        let path = dir.path().join("one");
        bundle.write_to(&File::create(&path).unwrap()).unwrap();
        let found = |text: &[u8]| {
            let table = Table::open(&folder, "one").unwrap();
            let mut table = table?;
            let plain = table.find(Sha256::of(text)).ok().flatten();
            // A table in memory gives the same result.
            table.load().ok()?;
            assert_eq!(table.find(Sha256::of(text)).ok().flatten(), plain);
            plain
        };
        assert!(texts.iter().all(|text| found(text).as_ref() == Some(text)));
        assert_eq!(found(b"other"), None);
        let digests = digests(&folder, "one").unwrap().unwrap();
        assert_eq!(digests.len(), 100);
        assert!(texts.iter().all(|text| digests.contains(&Sha256::of(text).to_hex())));
        // A damaged bundle counts as missing.
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(97) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            std::fs::write(&path, damaged).unwrap();
            assert!(texts.iter().all(|text| found(text).is_none_or(|bytes| bytes == *text)), "{at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(texts.iter().all(|text| found(text).is_none_or(|bytes| bytes == *text)), "{at}");
        }
    }

    #[test]
    fn bundle_that_claims_a_terabyte_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(File::open(dir.path()).unwrap());
        let file = File::create(dir.path().join("one")).unwrap();
        // A sparse file may have any size.
        file.set_len(1 << 40).unwrap();
        let head = |rows: u64| [&MAGIC[..], &rows.to_be_bytes()].concat();
        let row = [&[7; DIGEST_BYTES][..], &64_u64.to_be_bytes(), &(1_u64 << 39).to_be_bytes()].concat();
        file.write_all_at(&[head(1), row].concat(), 0).unwrap();
        let table = Table::open(&folder, "one").unwrap().unwrap();
        assert_eq!(table.find(Sha256::from_bytes([7; DIGEST_BYTES])).unwrap(), None);
        file.write_all_at(&head(1 << 33), 0).unwrap();
        assert_eq!(digests(&folder, "one").unwrap(), None);
    }
}
