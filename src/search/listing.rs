//! One folder, read once and sorted.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::workspace::fs;

/// Bytes of directory entries taken from the system at once.
pub const BUFFER_BYTES: usize = 32 * 1024;

/// What stands at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symlink, whatever it leads to.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

impl Kind {
    /// The kind that the system's type stands for.
    #[must_use]
    pub fn of(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Dir,
            FileType::Symlink => Self::Symlink,
            _ => Self::Other,
        }
    }
}

/// One name of a folder.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Where the name begins in the names.
    start: usize,
    /// How long it is.
    length: usize,
    /// What stands there.
    kind: Kind,
}

/// Files that decide what a folder hides, as far as it has them.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each name")]
pub struct RuleFiles {
    /// `.rgignore`
    pub rgignore: bool,
    /// `.ignore`
    pub ignore: bool,
    /// `.gitignore`
    pub gitignore: bool,
    /// `.git`: a repository begins here.
    pub repository: bool,
}

impl RuleFiles {
    /// Where it is not known which of them exist.
    pub const UNKNOWN: Self = Self { rgignore: true, ignore: true, gitignore: true, repository: true };

    /// Whether there is any.
    #[must_use]
    pub fn any(self) -> bool {
        self.rgignore || self.ignore || self.gitignore || self.repository
    }

    /// Takes note of `name`.
    fn note(&mut self, name: &[u8]) {
        match name {
            b".rgignore" => self.rgignore = true,
            b".ignore" => self.ignore = true,
            b".gitignore" => self.gitignore = true,
            b".git" => self.repository = true,
            _ => {}
        }
    }
}

/// The names of one folder in the order of their bytes, in one piece of memory.
#[derive(Debug, Default)]
pub struct Listing {
    /// All names, one after the other.
    names: Vec<u8>,
    /// One for each name.
    slots: Vec<Slot>,
    /// Which of the names decide what is hidden.
    pub rule_files: RuleFiles,
}

impl Listing {
    /// Reads the opened `folder` by way of `buffer`, of [`BUFFER_BYTES`]; `should_stop` is asked between the system's calls.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(
        folder: BorrowedFd<'_>,
        buffer: &mut [MaybeUninit<u8>],
        should_stop: impl Fn() -> bool,
    ) -> Result<Self, Errno> {
        let mut entries = RawDir::new(folder, buffer);
        let mut listing = Self::default();
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            listing.push(folder, entry.file_name().to_bytes(), entry.file_type());
            if entries.is_buffer_empty() && should_stop() {
                break;
            }
        }
        listing.sort();
        Ok(listing)
    }

    /// Takes one name; `.` and `..` are none.
    fn push(&mut self, folder: BorrowedFd<'_>, name: &[u8], file_type: FileType) {
        if name == b"." || name == b".." {
            return;
        }
        if name.first() == Some(&b'.') {
            self.rule_files.note(name);
        }
        let kind = if file_type == FileType::Unknown {
            fs::stat_at(folder, OsStr::from_bytes(name))
                .map_or(Kind::Other, |stat| Kind::of(fs::type_of(&stat)))
        } else {
            Kind::of(file_type)
        };
        self.slots.push(Slot { start: self.names.len(), length: name.len(), kind });
        self.names.extend_from_slice(name);
    }

    /// Puts the names in order.
    fn sort(&mut self) {
        let names = &self.names;
        self.slots.sort_unstable_by(|one, other| name_of(names, *one).cmp(name_of(names, *other)));
    }

    /// The name at `index` and what stands there; `None` behind the last.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<(&[u8], Kind)> {
        let slot = self.slots.get(index)?;
        Some((name_of(&self.names, *slot), slot.kind))
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// The bytes of one name.
fn name_of(names: &[u8], slot: Slot) -> &[u8] {
    names.get(slot.start..slot.start + slot.length).unwrap_or_default()
}
