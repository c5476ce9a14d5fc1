//! What stands in one opened folder, read once into one piece of memory.

use std::cmp::Ordering;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::{Errno, retry_on_intr};

/// Bytes of directory entries taken from the system at once.
pub const ROOM_BYTES: usize = 32 * 1024;

/// The names in a folder, `.` and `..` aside.
#[derive(Debug, Default)]
pub struct Listing {
    /// All names, one after the other.
    names: Vec<u8>,
    /// Where each name is among them, and what stands there.
    entries: Vec<(Range<usize>, FileType)>,
}

/// One name in a folder.
#[derive(Debug, Clone, Copy)]
pub struct ListedName<'l> {
    /// The name.
    pub name: &'l [u8],
    /// What stands there; unknown where the system does not tell.
    pub kind: FileType,
}

impl ListedName<'_> {
    /// Whether it is a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }
}

impl Listing {
    /// Reads `folder` by way of `room`, of [`ROOM_BYTES`]; `should_stop` is asked between the system's
    /// calls.
    ///
    /// # Errors
    /// What the system says.
    #[cfg(target_os = "linux")]
    pub fn read(
        folder: BorrowedFd<'_>,
        room: &mut [MaybeUninit<u8>],
        should_stop: impl Fn() -> bool,
    ) -> Result<Self, Errno> {
        let mut listing = Self::default();
        let mut entries = rustix::fs::RawDir::new(folder, room);
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) => listing.add(folder, entry.file_name().to_bytes(), entry.file_type()),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            }
            if entries.is_buffer_empty() && should_stop() {
                break;
            }
        }
        Ok(listing)
    }

    /// Reads `folder`.
    ///
    /// # Errors
    /// What the system says.
    #[cfg(not(target_os = "linux"))]
    pub fn read(
        folder: BorrowedFd<'_>,
        _room: &mut [MaybeUninit<u8>],
        _should_stop: impl Fn() -> bool,
    ) -> Result<Self, Errno> {
        let mut listing = Self::default();
        for entry in retry_on_intr(|| rustix::fs::Dir::read_from(folder))? {
            let entry = entry?;
            listing.add(folder, entry.file_name().to_bytes(), entry.file_type());
        }
        Ok(listing)
    }

    /// One of names and types that are known already.
    pub fn of<'n>(entries: impl Iterator<Item = (&'n [u8], FileType)>) -> Self {
        let mut listing = Self::default();
        entries.for_each(|(name, kind)| listing.push(name, kind));
        listing
    }

    /// Takes one name, unless nothing is there any more.
    fn add(&mut self, folder: BorrowedFd<'_>, name: &[u8], kind: FileType) {
        if name == b"." || name == b".." {
            return;
        }
        let kind = match kind {
            FileType::Unknown => match retry_on_intr(|| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => return,
                Err(_) => FileType::Unknown,
            },
            known => known,
        };
        self.push(name, kind);
    }

    /// Adds one entry.
    fn push(&mut self, name: &[u8], kind: FileType) {
        let start = self.names.len();
        self.names.extend_from_slice(name);
        self.entries.push((start..self.names.len(), kind));
    }

    /// Puts the names in an order.
    pub fn sort_by(&mut self, order: impl Fn(ListedName<'_>, ListedName<'_>) -> Ordering) {
        let names = &self.names;
        self.entries.sort_unstable_by(|one, other| order(listed(names, one), listed(names, other)));
    }

    /// Forgets a name; whether it was there.
    pub fn forget(&mut self, name: &[u8]) -> bool {
        let at = self.iter().position(|entry| entry.name == name);
        at.map(|at| self.entries.swap_remove(at)).is_some()
    }

    /// The entry at `index`; `None` behind the last.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<ListedName<'_>> {
        self.entries.get(index).map(|entry| listed(&self.names, entry))
    }

    /// All entries, in their order.
    pub fn iter(&self) -> impl Iterator<Item = ListedName<'_>> {
        self.entries.iter().map(|entry| listed(&self.names, entry))
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// An entry with its name.
fn listed<'l>(names: &'l [u8], (name, kind): &(Range<usize>, FileType)) -> ListedName<'l> {
    ListedName { name: names.get(name.clone()).unwrap_or_default(), kind: *kind }
}
