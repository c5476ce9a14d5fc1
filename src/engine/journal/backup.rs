//! Backups: old versions of files, each named by the SHA-256 of its bytes.
//!
//! A backup is a copy of the hashed bytes, or shares their blocks where the file system can; a hard link would change
//! under a late writer. It does not depend on git, so ignored files are as safe as any. The old bytes of a small file
//! are inline in the journal entry of the change, so that one sync makes both durable; they become a backup when the
//! entry is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Seek as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::bundle::{self, Bundles, PendingFile};
use super::steps::{BACKUPS_FOLDER, DONE_FOLDER, ENTRY_BYTES_MAX, OPEN_FOLDER, STUCK_FOLDER};
use crate::engine::store::lock::unique_name;
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::engine::workspace::{digest, fs};
use crate::error::Error;
use crate::limits::CHANGED_FILE_BYTES_MAX;
use crate::platform;
use crate::sha256::{Sha256, split_seal};

/// Largest backup read back: lbx changes no larger file.
const BACKUP_BYTES_MAX: u64 = CHANGED_FILE_BYTES_MAX;
/// A larger backup is hashed before it is read into memory: a sparse file may claim any size.
const HASHED_FIRST_BYTES: u64 = 16 << 20;
/// Size in bytes from which a backup shares the blocks of the old file, where it can.
const SHARED_BYTES_MIN: usize = 64 << 10;
/// Bytes read at a time.
const PART_BYTES: usize = 64 << 10;

/// Folders for the backups of one change, each opened once.
#[derive(Debug)]
pub struct Folders<'s> {
    /// The state.
    state: &'s State,
    /// Open folders, by name.
    opened: BTreeMap<String, Arc<OwnedFd>>,
}

impl<'s> Folders<'s> {
    /// Opens nothing yet of `state`.
    pub fn new(state: &'s State) -> Self {
        Self { state, opened: BTreeMap::new() }
    }

    /// Writes a backup of `bytes`, unless one exists. Sync the result either way: the writer of an existing one may
    /// have been killed before its sync. Where the file system can, shares the blocks of the open file `of`, which had
    /// that `stat` when the bytes were read.
    ///
    /// # Errors
    /// Returns the OS error; then nothing is left behind.
    pub fn prepare(
        &mut self,
        sha256: Sha256,
        bytes: &[u8],
        of: Option<(&File, &Stat)>,
    ) -> Result<PendingFile, Error> {
        let (folder, name) = place_of(sha256);
        let folder = self.open(folder)?;
        let name = OsString::from(name);
        let io = |source: std::io::Error| Error::io("write a backup in", STATE_FOLDER, source);
        let create = || {
            PendingFile::create(Arc::clone(&folder), name.clone(), 0o600, |file| {
                let is_shared = of.map_or(Ok(false), |of| share(file, of, bytes))?;
                if is_shared { Ok(()) } else { fs::write_all(file, bytes) }
            })
        };
        let created = create();
        if !created.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists) {
            return created.map_err(io);
        }
        match open(folder.as_fd(), &name) {
            Ok(Some((file, stat))) if fs::size_of(&stat) == bytes.len() as u64 && holds(&file, bytes) => {
                return Ok(PendingFile { file, folder, name, is_new: false });
            }
            // Only a file can be replaced by a file.
            Ok(None) => set_aside(folder.as_fd(), &name),
            Ok(Some(_)) => {
                fs::unlink_at(&*folder, &name, AtFlags::empty()).map_err(|errno| io(errno.into()))?;
            }
            Err(_) => {}
        }
        create().map_err(io)
    }

    /// Returns a folder of backups.
    fn open(&mut self, name: String) -> Result<Arc<OwnedFd>, Error> {
        if let Some(opened) = self.opened.get(&name) {
            return Ok(Arc::clone(opened));
        }
        let opened = self.state.folder(&name)?;
        self.opened.insert(name, Arc::clone(&opened));
        Ok(opened)
    }
}

/// Makes backups of the bytes in a journal entry that is about to be removed.
///
/// # Errors
/// Returns the OS error.
pub fn back_up_entry_bytes<'k>(
    state: &State,
    kept: impl Iterator<Item = &'k InlineBackup>,
) -> Result<(), Error> {
    let io = |source: std::io::Error| Error::io("write a backup in", STATE_FOLDER, source);
    let mut folders = Folders::new(state);
    for one in kept {
        if let Some(bytes) = one.bytes() {
            let backup = folders.prepare(one.sha256, &bytes, None)?;
            backup.file.sync_all().map_err(io)?;
            platform::sync(&*backup.folder).map_err(|errno| io(errno.into()))?;
        }
    }
    Ok(())
}

/// Returns the bytes with that SHA-256; `None` if no backup, bundle or journal entry has them.
///
/// # Errors
/// Returns the OS error.
pub fn find(state: &State, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
    find_near(state, sha256)?.map_or_else(|| inline_bytes(state, sha256, usize::MAX), |bytes| Ok(Some(bytes)))
}

/// Does the same, but searches only the newest entries for old bytes, and those that the call has read.
///
/// # Errors
/// Returns the OS error.
pub fn find_near(state: &State, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
    state.in_call(|bundles: &mut Bundles| {
        if let Some(bytes) = bundles.find_opened(state, sha256)? {
            return Ok(Some(bytes));
        }
        if let Some(bytes) = find_backup(state, sha256)? {
            return Ok(Some(bytes));
        }
        match bundles.find(state, sha256)? {
            Some(bytes) => Ok(Some(bytes)),
            None => inline_bytes(state, sha256, ENTRIES_NEAR),
        }
    })
}

/// Returns the backup with that SHA-256; `None` if it is missing or damaged.
///
/// # Errors
/// Returns the OS error.
fn find_backup(state: &State, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
    let (folder, name) = place_of(sha256);
    let Some(folder) = state.find_folder(&folder)? else {
        return Ok(None);
    };
    let io = |source: std::io::Error| Error::io("read", state.display(BACKUPS_FOLDER), source);
    let (file, stat) = match open(folder.as_fd(), OsStr::new(&name)) {
        Ok(Some(opened)) => opened,
        Ok(None) | Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(io(errno.into())),
    };
    let size = fs::size_of(&stat);
    if size > BACKUP_BYTES_MAX || (size > HASHED_FIRST_BYTES && hash(&file).map_err(io)? != sha256) {
        return Ok(None);
    }
    match fs::read_to_end(file, size, BACKUP_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes).filter(|bytes| Sha256::of(bytes) == sha256)),
        Err(source) if source.raw_os_error() == Some(Errno::FBIG.raw_os_error()) => Ok(None),
        Err(source) => Err(io(source)),
    }
}

/// Removes the backups with these digests: a bundle has their bytes. Returns the number of bytes that they had.
///
/// # Errors
/// Returns the OS error of a folder.
pub(super) fn remove(state: &State, packed: &BTreeSet<Sha256>) -> Result<u64, Error> {
    let mut removed = 0;
    for (backups, first) in state.entries(BACKUPS_FOLDER)?.into_iter().filter(|(_, it)| it != bundle::FOLDER)
    {
        for (folder, name) in state.entries(&format!("{BACKUPS_FOLDER}/{first}"))? {
            let is_packed = format!("{first}{name}").parse().is_ok_and(|sha256| packed.contains(&sha256));
            let stat = fs::stat_at(folder.as_fd(), name.as_ref());
            if is_packed && fs::unlink_at(&*folder, &name, AtFlags::empty()).is_ok() {
                removed += stat.map_or(0, |stat| fs::size_of(&stat));
            }
        }
        // Most are empty by then.
        let _ = fs::unlink_at(&*backups, &first, AtFlags::REMOVEDIR);
    }
    Ok(removed)
}

/// Makes an empty file share the blocks of another file with these bytes, as btrfs and xfs can, until one of the two is
/// written to. Returns false, and leaves the file empty, if the file system cannot share or if the other file may have
/// changed since that `stat`. Reads the bytes again: no `stat` shows a write through `mmap`, or a second write in one
/// tick of the clock.
fn share(file: &File, (from, stat): (&File, &Stat), bytes: &[u8]) -> std::io::Result<bool> {
    if bytes.len() < SHARED_BYTES_MIN || !platform::share_blocks(file.as_fd(), from.as_fd()) {
        return Ok(false);
    }
    let now = rustix::fs::fstat(from)?;
    if fs::is_unchanged(stat, &now) && holds(from, bytes) {
        return Ok(true);
    }
    file.set_len(0).map(|()| false)
}

/// Opens a backup; `None` if the name belongs to anything but a regular file.
fn open(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Option<(File, Stat)>, Errno> {
    let opened = match fs::open_at(folder, name, fs::READ) {
        Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Ok(None),
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&opened)?;
    Ok(fs::is_regular(&stat).then(|| (File::from(opened), stat)))
}

/// Renames whatever has the name of a backup.
fn set_aside(folder: BorrowedFd<'_>, name: &OsStr) {
    let aside = format!(".{}", unique_name("aside"));
    // If this fails, so does the rename of the backup, and that is reported.
    let _ = fs::rename_at(folder, name, folder, aside);
}

/// Returns true if a file holds exactly these bytes; false if it cannot be read.
fn holds(file: &File, bytes: &[u8]) -> bool {
    let mut part = vec![0; PART_BYTES];
    let is_there = |(at, wanted): (u64, &[u8])| {
        let found = part.get_mut(..wanted.len());
        found.is_some_and(|found| file.read_exact_at(found, at).is_ok() && *found == *wanted)
    };
    (0..).step_by(PART_BYTES).zip(bytes.chunks(PART_BYTES)).all(is_there)
        && file.read_at(&mut [0], bytes.len() as u64).is_ok_and(|more| more == 0)
}

/// Returns the SHA-256 of a file without loading all of it.
fn hash(mut file: &File) -> std::io::Result<Sha256> {
    let sha256 = digest::sha256_of(file.try_clone()?)?;
    file.rewind().map(|()| sha256)
}

/// Returns the folder and name of a backup: its first two digits, and the rest.
fn place_of(sha256: Sha256) -> (String, String) {
    let hex = sha256.to_hex();
    let (first, rest) = hex.split_at(2);
    (format!("{BACKUPS_FOLDER}/{first}"), rest.to_owned())
}

/// Most old bytes in an entry.
pub const INLINE_TOTAL_BYTES_MAX: usize = 64 << 10;

/// Old bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineBackup {
    /// Their SHA-256.
    pub sha256: Sha256,
    /// The bytes in base64.
    base64: String,
}

impl InlineBackup {
    /// Encodes bytes whose SHA-256 is `sha256`.
    pub fn new(sha256: Sha256, bytes: &[u8]) -> Self {
        Self { sha256, base64: STANDARD.encode(bytes) }
    }

    /// Returns the bytes, if they have that SHA-256.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.base64).ok().filter(|bytes| Sha256::of(bytes) == self.sha256)
    }
}

/// Most entries that are searched for old bytes before other sources.
const ENTRIES_NEAR: usize = 200;

/// Returns the bytes with that SHA-256 from a journal entry; `None` if none of the `most` newest holds them.
fn inline_bytes(state: &State, sha256: Sha256, most: usize) -> Result<Option<Vec<u8>>, Error> {
    // This very call may have added an entry since the others were read.
    for place in entries_in(state, OPEN_FOLDER)? {
        if let Some(bytes) = bytes_in(state, &place, sha256)? {
            return Ok(Some(bytes));
        }
    }
    while let Some(place) = state.in_call(|holders: &mut BackupIndex| holders.of(state, sha256, most))? {
        if let Some(bytes) = bytes_in(state, &place, sha256)? {
            return Ok(Some(bytes));
        }
        // Its bytes are damaged: another entry may hold them too.
        state.in_call(|holders: &mut BackupIndex| holders.known.remove(&sha256));
    }
    Ok(None)
}

/// Folder and name of an entry.
#[derive(Debug, Clone)]
struct BackupPlace {
    /// The folder.
    folder: String,
    /// Its name there.
    name: String,
}

/// Index of the entries that hold old bytes, as far as a call has read them: newest first, each once.
#[derive(Debug, Default)]
struct BackupIndex {
    /// Entries found so far, by the SHA-256 of the bytes they hold.
    known: BTreeMap<Sha256, BackupPlace>,
    /// Entries not read yet, the newest last; `None` before the first search.
    waiting: Option<Vec<BackupPlace>>,
    /// Number of entries that were read for a search.
    searched: usize,
}

/// Notes that an entry holds old bytes: they are then found without a search.
pub(super) fn note_holder(state: &State, (folder, name): (String, String), kept: &[InlineBackup]) {
    if kept.is_empty() {
        return;
    }
    let place = BackupPlace { folder, name };
    state.in_call(|holders: &mut BackupIndex| {
        for kept in kept {
            holders.known.entry(kept.sha256).or_insert_with(|| place.clone());
        }
    });
}

impl BackupIndex {
    /// Returns an entry that holds the bytes with that SHA-256, the newest of those that are not known yet; reads no more
    /// than `most` entries in all searches.
    fn of(&mut self, state: &State, sha256: Sha256, most: usize) -> Result<Option<BackupPlace>, Error> {
        if let Some(known) = self.known.get(&sha256) {
            return Ok(Some(known.clone()));
        }
        let waiting = match &mut self.waiting {
            Some(waiting) => waiting,
            None => self.waiting.insert(entries(state)?),
        };
        while !self.known.contains_key(&sha256) && self.searched < most {
            self.searched += 1;
            let Some(place) = waiting.pop() else { return Ok(None) };
            for kept in backups_in(state, &place)?.into_iter().filter(|kept| kept.bytes().is_some()) {
                self.known.entry(kept.sha256).or_insert_with(|| place.clone());
            }
        }
        Ok(self.known.get(&sha256).cloned())
    }
}

/// Returns the finished and stuck entries. The newest of each session are last, since a number says only how old a
/// change is within its session.
fn entries(state: &State) -> Result<Vec<BackupPlace>, Error> {
    let mut folders = vec![entries_in(state, STUCK_FOLDER)?];
    for (_, session) in state.entries(DONE_FOLDER)? {
        folders.push(entries_in(state, &format!("{DONE_FOLDER}/{session}"))?);
    }
    let mut all: Vec<(usize, BackupPlace)> = Vec::new();
    for mut places in folders {
        places.sort_by(|one, other| other.name.cmp(&one.name));
        all.extend(places.into_iter().enumerate());
    }
    all.sort_by_key(|(age, _)| std::cmp::Reverse(*age));
    Ok(all.into_iter().map(|(_, place)| place).collect())
}

/// Returns the entries in a folder of the journal.
fn entries_in(state: &State, folder: &str) -> Result<Vec<BackupPlace>, Error> {
    let entries = state.entries(folder)?.into_iter();
    Ok(entries.map(|(_, name)| BackupPlace { folder: folder.to_owned(), name }).collect())
}

/// Returns the bytes with that SHA-256 in the entry at a place.
fn bytes_in(state: &State, place: &BackupPlace, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
    let found = backups_in(state, place)?;
    Ok(found.iter().filter(|kept| kept.sha256 == sha256).find_map(InlineBackup::bytes))
}

/// Returns the inline backups of the entry at a place.
fn backups_in(state: &State, place: &BackupPlace) -> Result<Vec<InlineBackup>, Error> {
    /// The only field that is read here.
    #[derive(Deserialize)]
    struct BackupEntry {
        /// Inline backups of the entry.
        #[serde(default)]
        kept: Vec<InlineBackup>,
    }
    let Some(folder) = state.find_folder(&place.folder)? else { return Ok(Vec::new()) };
    // An unreadable entry holds nothing.
    let bytes = fs::read_at(folder.as_fd(), place.name.as_ref(), ENTRY_BYTES_MAX).ok().flatten();
    let bytes = bytes.filter(|bytes| memchr::memmem::find(bytes, b"\"kept\"").is_some());
    let holder = bytes.and_then(|bytes| serde_json::from_slice::<BackupEntry>(split_seal(&bytes).0).ok());
    Ok(holder.map_or_else(Vec::new, |holder| holder.kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_backup_with_a_wrong_hash_is_ignored() {
        let bytes = b"old\n\xff\0";
        assert_eq!(InlineBackup::new(Sha256::of(bytes), bytes).bytes().unwrap(), bytes);
        assert_eq!(InlineBackup::new(Sha256::of(b"other"), bytes).bytes(), None);
        let damaged = InlineBackup { base64: "?".to_owned(), ..InlineBackup::new(Sha256::of(bytes), bytes) };
        assert_eq!(damaged.bytes(), None);
    }
}
