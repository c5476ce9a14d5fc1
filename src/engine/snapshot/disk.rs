//! Reading files of the work tree without following a link on the way.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawMode, openat, readlinkat, statat};
use rustix::io::Errno;

use super::change::FileState;

/// A file as it was read.
#[derive(Debug)]
pub enum OnDisk {
    /// A regular file.
    Regular {
        /// Whether its owner may execute it.
        executable: bool,
        /// All its bytes.
        bytes: Vec<u8>,
    },
    /// A symbolic link, with its target.
    Symlink(Vec<u8>),
    /// A regular file of so many bytes, too many to be read.
    TooLarge(u64),
}

impl OnDisk {
    /// The file as a snapshot takes it; `None` for one that is too large.
    pub fn state(&self) -> Option<FileState<'_>> {
        match self {
            Self::Regular { executable, bytes } => {
                Some(FileState::Regular { executable: *executable, bytes })
            }
            Self::Symlink(target) => Some(FileState::Symlink { target }),
            Self::TooLarge(_) => None,
        }
    }
}

/// The workspace, held open.
pub struct Root {
    /// Its folder.
    folder: OwnedFd,
    /// The largest file that is read, in bytes.
    file_bytes_max: u64,
}

impl Root {
    /// Opens the folder at `path`, to read files of at most `file_bytes_max` bytes.
    pub fn open(path: &std::path::Path, file_bytes_max: u64) -> io::Result<Self> {
        let folder = openat(CWD, path, folder_flags(), Mode::empty())?;
        Ok(Self { folder, file_bytes_max })
    }

    /// Reads the file at `path`; `None` where there is none, or a link leads there.
    ///
    /// Every folder on the way is opened by its name in the one before, so that no link
    /// which someone puts there meanwhile leads out of the workspace.
    pub fn read(&self, path: &[u8]) -> io::Result<Option<OnDisk>> {
        match self.read_as_is(path) {
            Ok(found) => Ok(found),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// [`read`](Self::read), with what is missing as an error.
    fn read_as_is(&self, path: &[u8]) -> Result<Option<OnDisk>, Errno> {
        let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let last = names.pop().unwrap_or_default();
        let mut folder = self.folder.try_clone().map_err(|_| Errno::MFILE)?;
        for name in names {
            folder = openat(&folder, name, folder_flags(), Mode::empty())?;
        }
        let stat = statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode as RawMode) {
            FileType::Symlink => {
                Ok(Some(OnDisk::Symlink(readlinkat(&folder, last, Vec::new())?.into_bytes())))
            }
            FileType::RegularFile => read_file(&folder, last, self.file_bytes_max).map(Some),
            _ => Ok(None),
        }
    }
}

/// Reads a regular file, whatever has become of it since it was looked at.
fn read_file(folder: &OwnedFd, name: &[u8], file_bytes_max: u64) -> Result<OnDisk, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty())?);
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode as RawMode) != FileType::RegularFile {
        return Err(Errno::NOENT);
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > file_bytes_max {
        return Ok(OnDisk::TooLarge(size));
    }
    let mut bytes = Vec::new();
    let read = file.take(file_bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(OnDisk::Regular { executable: stat.st_mode & 0o100 != 0, bytes })
}

/// How folders are opened.
fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}
