//! Reads files and folders of the work tree without following links, and tells from stat data if a file is unchanged.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gix::index::Entry;
use gix::index::entry::{self, Stat};
use rustix::fs::{AtFlags, FileType, readlinkat, statat};
use rustix::io::Errno;

use super::FileState;
use crate::engine::workspace::fs::{self, size_of};
use crate::engine::workspace::git_files;
use crate::engine::workspace::listing::Listing;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::{ChangeTime, EntryStat, Survey, SurveyedFolder, names_of};
use crate::platform;

/// Permission bit that git records.
const OWNER_MAY_EXECUTE: u32 = 0o100;

/// A file that was read.
#[derive(Debug)]
pub enum DiskFile {
    /// A regular file.
    Regular {
        /// True if its owner may execute it.
        executable: bool,
        /// All its bytes.
        bytes: Vec<u8>,
    },
    /// A symbolic link, with its target.
    Symlink(Vec<u8>),
    /// A regular file that is too large to read, with its size in bytes.
    TooLarge(u64),
}

impl DiskFile {
    /// Returns a file with this mode and these bytes; a symlink has its type bits, and its target.
    pub fn of(mode: u32, bytes: Vec<u8>) -> Self {
        if fs::is_symlink_mode(mode) {
            return Self::Symlink(bytes);
        }
        Self::Regular { executable: mode & OWNER_MAY_EXECUTE != 0, bytes }
    }

    /// Returns the file as input of a snapshot.
    pub fn state(&self) -> FileState<'_> {
        match self {
            Self::Regular { executable, bytes } => FileState::Regular { executable: *executable, bytes },
            Self::Symlink(target) => FileState::Symlink { target },
            Self::TooLarge(size_bytes) => FileState::TooLarge { size_bytes: *size_bytes },
        }
    }
}

/// A file, with its stat from before it was read.
#[derive(Debug)]
pub struct FileWithStat {
    /// Stat of the file.
    pub stat: Stat,
    /// The file.
    pub file: DiskFile,
}

/// The workspace, held open.
#[derive(Clone)]
pub struct OpenRoot {
    /// Its folder.
    folder: Arc<OwnedFd>,
    /// Largest file that is read, in bytes.
    file_bytes_max: u64,
    /// Survey of the workspace, if one was just made.
    survey: Option<Arc<Survey>>,
}

impl OpenRoot {
    /// Wraps an open folder, to read files of at most `file_bytes_max` bytes.
    pub fn of(folder: BorrowedFd<'_>, file_bytes_max: u64) -> io::Result<Self> {
        Ok(Self { folder: Arc::new(folder.try_clone_to_owned()?), file_bytes_max, survey: None })
    }

    /// Uses a survey, so that no folder or file is examined again.
    pub fn surveyed(self, survey: Option<Arc<Survey>>) -> Self {
        Self { survey, ..self }
    }

    /// Reads the file at `path`; `None` if it is missing, or behind a link.
    ///
    /// Opens every folder on the way by its name in the one before, so that no link that someone adds meanwhile leads
    /// out of the workspace.
    ///
    /// # Errors
    /// Returns `EACCES` or `EPERM` if the file may not be read, or any other OS error.
    pub fn read(&self, path: &[u8]) -> Result<Option<FileWithStat>, Errno> {
        match self.read_as_is(path) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            other => other,
        }
    }

    /// Does [`read`](Self::read), but returns an error for a missing file.
    fn read_as_is(&self, path: &[u8]) -> Result<Option<FileWithStat>, Errno> {
        let (folder, last) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => path.split_at(slash + 1),
            None => (b"".as_slice(), path),
        };
        let folder = self.opened(folder)?;
        let stat = statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW)?;
        match fs::type_of(&stat) {
            FileType::Symlink => {
                let target = readlinkat(&folder, last, Vec::new())?.into_bytes();
                Ok(Some(FileWithStat { stat: index_stat(&stat), file: DiskFile::Symlink(target) }))
            }
            FileType::RegularFile => self.read_file(&folder, last).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads a regular file, even if it has changed since its stat.
    fn read_file(&self, folder: &OwnedFd, name: &[u8]) -> Result<FileWithStat, Errno> {
        let file = File::from(fs::open_at(folder.as_fd(), OsStr::from_bytes(name), fs::READ)?);
        let stat = rustix::fs::fstat(&file)?;
        if !fs::is_regular(&stat) {
            return Err(Errno::NOENT);
        }
        let looked = |file| FileWithStat { stat: index_stat(&stat), file };
        let size = size_of(&stat);
        if size > self.file_bytes_max {
            return Ok(looked(DiskFile::TooLarge(size)));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).saturating_add(1));
        let read = file.take(self.file_bytes_max + 1).read_to_end(&mut bytes);
        read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(looked(DiskFile::Regular { executable: fs::mode_of(&stat) & OWNER_MAY_EXECUTE != 0, bytes }))
    }

    /// Lists the folder at `path`, which ends in a slash, or is empty for the workspace itself. It comes from the
    /// survey, or is opened.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn list(&self, path: &[u8]) -> io::Result<FolderListing> {
        let folder = if self.found(path).is_some() {
            ScannedFolder::Surveyed(self.clone(), path.to_vec())
        } else {
            match self.opened(path) {
                Ok(folder) => ScannedFolder::Opened(folder),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(FolderListing::Missing),
                Err(Errno::ACCESS | Errno::PERM) => return Ok(FolderListing::Closed),
                Err(error) => return Err(error.into()),
            }
        };
        let (listing, is_repository) = folder.list()?;
        Ok(FolderListing::Folder { folder, listing, is_repository })
    }

    /// Returns the survey's folder at a path.
    fn found(&self, path: &[u8]) -> Option<&SurveyedFolder> {
        self.survey.as_ref()?.folder(path.strip_suffix(b"/").unwrap_or(path))
    }

    /// Opens the folder at `path`.
    fn opened(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let path = WorkspacePath::new(Path::new(OsStr::from_bytes(path))).ok_or(Errno::NOENT)?;
        fs::open_beneath(self.folder.as_fd(), &path, fs::FOLDER)
    }
}

/// Result of listing a folder.
pub enum FolderListing {
    /// There is no folder, or it lies behind a link.
    Missing,
    /// It may not be read.
    Closed,
    /// The folder.
    Folder {
        /// To look into it.
        folder: ScannedFolder,
        /// Its entries, except git's own folder.
        listing: Listing,
        /// True if git's own folder is in it.
        is_repository: bool,
    },
}

/// A folder of the workspace.
pub enum ScannedFolder {
    /// Held open.
    Opened(OwnedFd),
    /// From a survey of the workspace, with its path.
    Surveyed(OpenRoot, Vec<u8>),
}

impl ScannedFolder {
    /// Returns its entries except git's own folder, in the order of [`in_order`]; and true if git's folder exists.
    ///
    /// # Errors
    /// Returns the OS error.
    fn list(&self) -> io::Result<(Listing, bool)> {
        let mut listing = match self {
            Self::Opened(folder) => names_of(folder.as_fd())?,
            Self::Surveyed(root, path) => {
                Listing::of(root.found(path).into_iter().flat_map(SurveyedFolder::entries))
            }
        };
        let is_repository = listing.forget(b".git");
        listing.sort_by(|one, other| in_order(one.name, one.is_folder(), other.name, other.is_folder()));
        Ok((listing, is_repository))
    }

    /// Returns the stat of `name` in it; does not follow links.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn stat(&self, name: &[u8]) -> Result<FileLook, Errno> {
        match self {
            Self::Opened(folder) => {
                statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| FileLook::now(&stat))
            }
            Self::Surveyed(root, path) => {
                let thing = root.found(path).and_then(|folder| folder.at(name)).ok_or(Errno::NOENT)?;
                Ok(FileLook::surveyed(thing))
            }
        }
    }

    /// Returns the bytes of the rule file `name` in it; `None` if it is unreadable, not a regular file, or too large.
    pub fn rules(&self, name: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Opened(folder) => git_files::read(folder, name).ok()?,
            Self::Surveyed(root, path) => git_files::read(root.opened(path).ok()?, name).ok()?,
        }
    }
}

/// Compares two names as git's index does: a folder counts as if its name ended in a slash.
pub fn in_order(one: &[u8], one_is_folder: bool, other: &[u8], other_is_folder: bool) -> Ordering {
    let common = one.len().min(other.len());
    let next = |name: &[u8], is_folder: bool| name.get(common).copied().or(is_folder.then_some(b'/'));
    one.get(..common)
        .cmp(&other.get(..common))
        .then_with(|| next(one, one_is_folder).cmp(&next(other, other_is_folder)))
}

/// Largest lag of the clock of file timestamps: two of its slowest usual ticks.
const TICK_MAX: Duration = Duration::from_millis(20);
/// Largest lag on file systems with a resolution of one or two seconds, in seconds.
const COARSE_TICK_MAX: i64 = 2;
/// Nanoseconds in a second.
const NANOSECONDS: i128 = 1_000_000_000;

/// Compares files with the stat data of an earlier scan.
///
/// A file written within the last tick before the scan may have been written again within that tick without a trace;
/// such data prove nothing. The inode's change time counts as well as the modification time, which can be set back.
#[derive(Debug, Clone, Copy)]
pub struct RacyClock {
    /// Start of the scan, in nanoseconds since 1970.
    began: i128,
    /// True if the executable bit counts.
    modes: bool,
}

impl RacyClock {
    /// Returns a clock for a scan that began at this second and nanosecond.
    pub fn new(seconds: i64, nanoseconds: u32, modes: bool) -> Self {
        Self { began: i128::from(seconds) * NANOSECONDS + i128::from(nanoseconds), modes }
    }

    /// Returns true if stat data prove nothing, since the file was written too late.
    pub fn is_racy(&self, noted: &Stat) -> bool {
        [noted.mtime, noted.ctime].iter().any(|time| {
            if time.nsecs == 0 {
                return i128::from(i64::from(time.secs) + COARSE_TICK_MAX) * NANOSECONDS >= self.began;
            }
            let stamped = i128::from(time.secs) * NANOSECONDS + i128::from(time.nsecs);
            stamped + i128::try_from(TICK_MAX.as_nanos()).unwrap_or_default() >= self.began
        })
    }

    /// Returns true if a file is unchanged from its index entry, judging by its stat.
    pub fn is_same(&self, entry: &Entry, on_disk: &FileLook) -> bool {
        let kind = platform::type_of_bits(on_disk.mode);
        let is_kind = match entry.mode {
            entry::Mode::SYMLINK => kind == FileType::Symlink,
            entry::Mode::FILE | entry::Mode::FILE_EXECUTABLE => {
                let is_executable = on_disk.mode & OWNER_MAY_EXECUTE != 0;
                kind == FileType::RegularFile
                    && (!self.modes || is_executable == (entry.mode == entry::Mode::FILE_EXECUTABLE))
            }
            _ => return true, // no file, and none of ours to look at
        };
        let now = on_disk.stat;
        let is_as_noted = entry.stat.size == now.size
            && entry.stat.mtime == now.mtime
            && entry.stat.ctime == now.ctime
            && entry.stat.ino == now.ino
            && (entry.stat.uid, entry.stat.gid) == (now.uid, now.gid);
        is_kind && is_as_noted && !self.is_racy(&entry.stat)
    }
}

/// Stat of a file that was not opened.
#[derive(Debug, Clone, Copy)]
pub struct FileLook {
    /// Type and permission bits.
    pub mode: u32,
    /// Other fields, as an index stores them.
    pub stat: Stat,
}

impl FileLook {
    /// Takes the stat from the file system.
    pub fn now(stat: &rustix::fs::Stat) -> Self {
        Self { mode: platform::mode_bits(stat), stat: index_stat(stat) }
    }

    /// Takes the stat from a survey. The device is unknown, and no index is compared by it.
    pub fn surveyed(thing: &EntryStat) -> Self {
        let time = |(seconds, nanoseconds): ChangeTime| gix::index::entry::stat::Time {
            secs: low(seconds.cast_unsigned()),
            nsecs: low(nanoseconds.cast_unsigned()),
        };
        let (uid, gid) = thing.owner();
        let stat = Stat {
            mtime: time(thing.modified()),
            ctime: time(thing.changed()),
            dev: 0,
            ino: low(thing.inode()),
            uid,
            gid,
            size: low(thing.size()),
        };
        Self { mode: thing.mode(), stat }
    }
}

/// Returns the lower 32 bits of a number, as git stores it.
fn low(number: u64) -> u32 {
    u32::try_from(number & 0xffff_ffff).unwrap_or_default()
}

/// Returns stat data as an index stores them: cut to 32 bits, as in git.
pub fn index_stat(stat: &rustix::fs::Stat) -> Stat {
    /// Returns the lower 32 bits of a number of any type.
    macro_rules! low {
        ($number:expr) => {
            ($number & 0xffff_ffff).try_into().unwrap_or_default()
        };
    }
    Stat {
        mtime: gix::index::entry::stat::Time { secs: low!(stat.st_mtime), nsecs: low!(stat.st_mtime_nsec) },
        ctime: gix::index::entry::stat::Time { secs: low!(stat.st_ctime), nsecs: low!(stat.st_ctime_nsec) },
        dev: low!(platform::device(stat)),
        ino: low!(stat.st_ino),
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: low!(stat.st_size),
    }
}
