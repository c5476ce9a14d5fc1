//! How much a file of ignore rules or attributes may hold, wherever one is read: every path is
//! compared with every rule, and each rule takes a hundred times its bytes.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;

use super::fs;

/// Largest file of rules that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Most lines of one.
pub const LINES_MAX: usize = 10_000;
/// Most bytes in all the files that count for one path.
pub const PATH_BYTES_MAX: u64 = 1024 * 1024;

/// The rule file `name` in a folder; `None` where it is missing, no regular file, or holds more than
/// it may.
#[must_use]
pub fn read(folder: impl AsFd, name: &[u8]) -> Option<Vec<u8>> {
    let bytes = fs::read_at(folder.as_fd(), OsStr::from_bytes(name), FILE_BYTES_MAX).ok().flatten()?;
    is_few(&bytes).then_some(bytes)
}

/// Whether the rule file `name`, a regular one of `size` bytes, holds no more than it may.
#[must_use]
pub fn fits(folder: impl AsFd, name: &[u8], size: u64) -> bool {
    // There cannot be more lines than bytes.
    let is_short = usize::try_from(size).is_ok_and(|size| size <= LINES_MAX);
    is_short || (size <= FILE_BYTES_MAX && read(folder, name).is_some())
}

/// Whether rules are no more than may be.
#[must_use]
pub fn is_few(rules: &[u8]) -> bool {
    rules.len() as u64 <= FILE_BYTES_MAX && memchr::memchr_iter(b'\n', rules).count() < LINES_MAX
}
