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
use crate::limits::LISTED_ENTRIES_MAX;

/// An opened folder of the walk.
#[derive(Debug)]
pub struct WalkFolder {
    /// Path from the workspace root.
    pub path: WorkspacePath,
    /// Descriptor of the folder.
    pub(super) fd: OwnedFd,
}

/// An entry that was found.
#[derive(Debug)]
pub struct WalkEntry {
    /// Folder that contains it.
    pub folder: Arc<WalkFolder>,
    /// Name there.
    pub(super) name: OsString,
    /// Type of the entry.
    pub kind: EntryType,
    /// True if the caller named this path.
    pub named: bool,
}

impl AsFd for WalkFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl WalkEntry {
    /// Returns its path from the workspace root.
    pub fn path(&self) -> WorkspacePath {
        self.folder.path.join(&self.name)
    }

    /// Opens it for reading, without following a symlink; never blocks.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        fs::open_at(self.folder.fd.as_fd(), &self.name, fs::READ)
    }

    /// Returns its present stat.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn stat(&self) -> Result<Stat, Errno> {
        fs::stat_at(self.folder.fd.as_fd(), &self.name)
    }

    /// Returns the target of a symlink, as written.
    pub fn target(&self) -> Option<OsString> {
        let target = rustix::fs::readlinkat(&self.folder.fd, &self.name, Vec::new()).ok()?;
        Some(OsStr::from_bytes(target.as_bytes()).to_owned())
    }
}

/// Reason why an entry is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipCause {
    /// An ignore rule hides it.
    Ignored,
    /// Its name begins with a dot.
    Hidden,
}

/// A path of the caller, at which depth and globs begin.
#[derive(Debug, Clone, Copy)]
pub struct SearchStart {
    /// Its length, with a slash at the end.
    pub length: usize,
    /// Its levels below the outermost path of the caller above it.
    pub depth: usize,
}

/// An entry that the walk skipped.
#[derive(Debug, Clone)]
pub struct SkippedEntry {
    /// Reason.
    pub why: SkipCause,
    /// Path from the workspace root.
    pub path: Vec<u8>,
    /// Type.
    pub kind: EntryType,
    /// Paths of the caller above it.
    pub starts: Arc<[SearchStart]>,
    /// Levels of its folder below the outermost of these.
    pub depth: usize,
    /// True if its folder lies in `.git` or `.lbx`, because the caller named a path there.
    pub in_state: bool,
}

/// Entries that the walk skipped.
#[derive(Debug, Default)]
pub struct SkippedEntries {
    /// Number of ignored entries; nothing below an ignored folder is counted.
    pub ignored: u64,
    /// Number of entries whose name begins with a dot, counted likewise.
    pub hidden: u64,
    /// First of these entries.
    pub listed: Vec<SkippedEntry>,
}

impl SkippedEntries {
    /// Adds an entry.
    pub fn add(&mut self, why: SkipCause, entry: impl FnOnce() -> SkippedEntry) {
        match why {
            SkipCause::Ignored => self.ignored += 1,
            SkipCause::Hidden => self.hidden += 1,
        }
        if self.listed.len() < LISTED_ENTRIES_MAX {
            self.listed.push(entry());
        }
    }

    /// Returns true if all entries are listed.
    pub fn is_listed_whole(&self) -> bool {
        self.ignored + self.hidden == self.listed.len() as u64
    }
}

/// A path to walk, with its type.
#[derive(Debug, Clone)]
pub struct WalkRoot {
    /// Path.
    pub path: WorkspacePath,
    /// True if it is a folder.
    pub is_folder: bool,
}

/// Type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum EntryType {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symlink, whatever its target.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

impl EntryType {
    /// Converts the OS's file type.
    pub fn of(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Dir,
            FileType::Symlink => Self::Symlink,
            _ => Self::Other,
        }
    }
}

/// Rule files that exist in a folder.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each name")]
pub struct RuleFiles {
    /// `.rgignore`
    pub rgignore: bool,
    /// `.ignore`
    pub ignore: bool,
    /// `.gitignore`
    pub gitignore: bool,
    /// `.git`: the folder is a repository.
    pub repository: bool,
}

impl RuleFiles {
    /// All rule files, for a folder whose listing is unknown.
    pub const UNKNOWN: Self = Self { rgignore: true, ignore: true, gitignore: true, repository: true };

    /// Returns true if there is any rule file.
    pub fn any(self) -> bool {
        self.rgignore || self.ignore || self.gitignore || self.repository
    }

    /// Returns the rule files in a listing.
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

/// Reads a folder, using `room` as a buffer; the names are sorted by their bytes.
///
/// # Errors
/// Returns the OS error.
pub fn read_listing(
    folder: BorrowedFd<'_>,
    room: &mut [MaybeUninit<u8>],
    control: &Control,
) -> Result<Listing, Errno> {
    let mut listing = Listing::read(folder, room, || control.should_stop())?;
    listing.sort_by(|one, other| one.name.cmp(other.name));
    Ok(listing)
}

/// Most notes kept in full; the rest is counted.
const NOTES_MAX: usize = 10;

/// Warnings on single files and folders.
#[derive(Debug, Default)]
pub struct SearchWarnings {
    /// First notes.
    kept: Vec<String>,
    /// Number of further notes.
    more: u64,
}

impl SearchWarnings {
    /// Adds a note.
    pub fn push(&mut self, note: impl FnOnce() -> String) {
        if self.kept.len() < NOTES_MAX {
            self.kept.push(note());
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// Adds a note that must not be dropped, however many there are.
    pub fn extend(&mut self, note: Option<String>) {
        self.kept.extend(note);
    }

    /// Adds the notes of another list.
    pub fn append(&mut self, other: Self) {
        for note in other.kept {
            self.push(|| note);
        }
        self.more = self.more.saturating_add(other.more);
    }

    /// Returns the notes; a last one gives the number of those not shown.
    pub fn into_lines(self) -> Vec<String> {
        let mut lines = self.kept;
        if self.more > 0 {
            lines.push(format!("{} more files or folders could not be searched in full", self.more));
        }
        lines
    }
}
