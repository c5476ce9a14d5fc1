//! Entries of a walk, the listing of one folder, and notes on what could not be read.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::engine::workspace::fs;
use crate::engine::workspace::listing::Listing;
use crate::engine::workspace::path::WorkspacePath;

/// An opened folder of the walk.
#[derive(Debug)]
pub struct WalkFolder {
    /// Its path from the workspace root.
    pub path: WorkspacePath,
    /// The folder itself.
    pub(super) fd: OwnedFd,
}

/// An entry that was found.
#[derive(Debug)]
pub struct WalkEntry {
    /// The folder that holds it.
    pub(super) folder: Arc<WalkFolder>,
    /// Its name there.
    pub(super) name: OsString,
    /// What it is.
    pub kind: Kind,
    /// True if the caller named this very path.
    pub named: bool,
}

impl AsFd for WalkFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl WalkEntry {
    /// Its path from the workspace root.
    #[must_use]
    pub fn path(&self) -> WorkspacePath {
        self.folder.path.join(&self.name)
    }

    /// The folder that holds it.
    #[must_use]
    pub fn folder(&self) -> &Arc<WalkFolder> {
        &self.folder
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Opens it for reading, through no symlink and without ever blocking.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        fs::open_at(self.folder.fd.as_fd(), &self.name, fs::READ)
    }

    /// What stands there now.
    ///
    /// # Errors
    /// What the system says.
    pub fn stat(&self) -> Result<Stat, Errno> {
        fs::stat_at(self.folder.fd.as_fd(), &self.name)
    }

    /// Where a symlink leads, as it is written.
    #[must_use]
    pub fn target(&self) -> Option<OsString> {
        let target = rustix::fs::readlinkat(&self.folder.fd, &self.name, Vec::new()).ok()?;
        Some(OsStr::from_bytes(target.as_bytes()).to_owned())
    }
}

/// What the walk left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeftOut {
    /// Entries that the ignore rules hide; what lies below an ignored folder is not counted.
    pub ignored: u64,
    /// Entries whose name begins with a dot, counted likewise.
    pub hidden: u64,
}

/// A path to walk, and what stands there.
#[derive(Debug, Clone)]
pub struct Root {
    /// Its path.
    pub path: WorkspacePath,
    /// True if it is a folder.
    pub is_folder: bool,
}

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

    /// Returns true if there is any.
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
pub fn read_listing(
    folder: BorrowedFd<'_>,
    room: &mut [MaybeUninit<u8>],
    control: &Control,
) -> Result<Listing, Errno> {
    let mut listing = Listing::read(folder, room, || control.should_stop())?;
    listing.sort_by(|one, other| one.name.cmp(other.name));
    Ok(listing)
}

/// Notes kept in full; the rest is counted.
const NOTES_MAX: usize = 10;

/// Remarks about single files and folders.
#[derive(Debug, Default)]
pub struct Notes {
    /// The first of them.
    kept: Vec<String>,
    /// How many more there were.
    more: u64,
}

impl Notes {
    /// Takes a remark.
    pub fn push(&mut self, note: impl FnOnce() -> String) {
        if self.kept.len() < NOTES_MAX {
            self.kept.push(note());
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// Takes a remark that must not be lost in the number of others.
    pub fn extend(&mut self, note: Option<String>) {
        self.kept.extend(note);
    }

    /// Takes over the remarks of another.
    pub fn append(&mut self, other: Self) {
        for note in other.kept {
            self.push(|| note);
        }
        self.more = self.more.saturating_add(other.more);
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The remarks, the last one telling how many are not shown.
    #[must_use]
    pub fn into_lines(self) -> Vec<String> {
        let mut lines = self.kept;
        if self.more > 0 {
            lines.push(format!("{} more files or folders could not be searched in full", self.more));
        }
        lines
    }
}
