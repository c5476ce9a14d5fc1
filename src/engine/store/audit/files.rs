//! The files of the audit log: the one that grows, those that are full, and the head.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::engine::store::state::{State, names_in};
use crate::engine::store::unique::unique_name;
use crate::engine::workspace::fs;
use crate::error::Error;

/// Where the log is, below the state folder.
pub(super) const FOLDER: &str = "audit";
/// The file that grows.
pub(super) const CURRENT: &str = "current.jsonl";
/// The newest record, by count and hash.
pub(super) const HEAD: &str = "head";
/// Version of the head that this code writes.
pub(super) const HEAD_VERSION: u32 = 1;
/// Size of the head: it is always written whole, in place.
const HEAD_BYTES: usize = 160;
/// Size of a file that is read back: a full one, and the longest record.
pub(super) const FILE_BYTES_MAX: u64 = 48 << 20;

/// What the head says of the newest record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// Version of the format.
    pub(super) version: u32,
    /// Records in the log.
    pub(super) records: u64,
    /// Hash of the newest.
    pub(super) hash: String,
}

impl Head {
    /// Reads it; `None` where there is none, or a damaged one: a power failure may take it.
    pub(super) fn read(folder: &OwnedFd) -> Option<Self> {
        Self::of(&fs::read_at(folder.as_fd(), OsStr::new(HEAD), HEAD_BYTES as u64).ok()??)
    }

    /// Reads it from its opened file, as [`Self::read`] does.
    pub(super) fn read_from(file: &File) -> Option<Self> {
        let mut bytes = [0; HEAD_BYTES + 1];
        let count = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut bytes, 0)).ok()?;
        Self::of(bytes.get(..count).filter(|bytes| bytes.len() <= HEAD_BYTES)?)
    }

    /// The head that these bytes are.
    fn of(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes).ok().filter(|head| head.version <= HEAD_VERSION)
    }

    /// Writes it in place of the one before.
    pub(super) fn write(&self, file: &File) -> std::io::Result<()> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.resize(HEAD_BYTES, b' ');
        file.write_all_at(&bytes, 0)
    }
}

/// Opens a file of the log for reading and writing, made where it is missing. What is no regular file
/// gets another name first.
pub(super) fn open(folder: &OwnedFd, name: &str, flags: OFlags) -> std::io::Result<File> {
    Ok(open_with_size(folder, name, flags)?.0)
}

/// The same, with its size.
pub(super) fn open_with_size(folder: &OwnedFd, name: &str, flags: OFlags) -> std::io::Result<(File, u64)> {
    let flags = flags | OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = || rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600));
    match regular(rustix::io::retry_on_intr(open)) {
        Err(Errno::INVAL | Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NODEV) => {
            fs::rename_at(folder, name, folder, unique_name(&format!("{name}.aside")))?;
            Ok(regular(rustix::io::retry_on_intr(open))?)
        }
        opened => Ok(opened?),
    }
}

/// What was opened and its size, where it is a regular file; `EINVAL` for anything else.
fn regular(opened: Result<OwnedFd, Errno>) -> Result<(File, u64), Errno> {
    let file = File::from(opened?);
    let stat = rustix::fs::fstat(&file)?;
    if fs::is_regular(&stat) { Ok((file, fs::size_of(&stat))) } else { Err(Errno::INVAL) }
}

/// The numbers of the files that were set aside, the oldest first.
pub(super) fn older(folder: &OwnedFd) -> Result<Vec<u32>, Error> {
    let names = names_in(folder)?;
    let numbers = names.iter().filter_map(|name| {
        let number: u32 = name.strip_suffix(".jsonl")?.parse().ok()?;
        (name_of(number) == *name).then_some(number)
    });
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The name of a file that was set aside.
pub(super) fn name_of(number: u32) -> String {
    format!("{number:06}.jsonl")
}

/// Sets the full file aside under the next number.
pub(super) fn set_aside(state: &State, folder: &OwnedFd) -> Result<(), Error> {
    let io = |errno| Error::io("write", state.shown(FOLDER), errno);
    let last = older(folder)?.pop().unwrap_or(0);
    let number = last.checked_add(1).ok_or_else(|| io(rustix::io::Errno::OVERFLOW))?;
    fs::rename_at(folder, CURRENT, folder, name_of(number)).map_err(io)
}
