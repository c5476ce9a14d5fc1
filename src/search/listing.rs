//! What a search wants to know of a folder: its names in order, and which of them are rules.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::fs::FileType;
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::engine::workspace::listing::Listing;

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

    /// Those in a folder.
    #[must_use]
    pub fn of(listing: &Listing) -> Self {
        let mut files = Self::default();
        for entry in listing.iter().filter(|entry| entry.name.first() == Some(&b'.')) {
            match entry.name {
                b".rgignore" => files.rgignore = true,
                b".ignore" => files.ignore = true,
                b".gitignore" => files.gitignore = true,
                b".git" => files.repository = true,
                _ => {}
            }
        }
        files
    }
}

/// Reads a folder by way of `room`; its names come in the order of their bytes.
///
/// # Errors
/// What the system says.
pub fn read(
    folder: BorrowedFd<'_>,
    room: &mut [MaybeUninit<u8>],
    control: &Control,
) -> Result<Listing, Errno> {
    let mut listing = Listing::read(folder, room, || control.should_stop())?;
    listing.sort_by(|one, other| one.name.cmp(other.name));
    Ok(listing)
}
