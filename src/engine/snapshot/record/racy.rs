//! Whether stat data prove that a file still has the content it had.

use std::time::Duration;

use gix::index::Entry;
use gix::index::entry::{Mode, Stat};
use rustix::fs::{FileType, RawMode};

use crate::engine::workspace::fs::size_of;
use crate::engine::workspace::survey::{Moment, Thing};

/// How far the clock that files are stamped by may lag behind: two of its slowest usual ticks.
const TICK_MAX: Duration = Duration::from_millis(20);
/// The same where it counts in seconds, or in two of them.
const COARSE_TICK_MAX: i64 = 2;
/// Nanoseconds in a second.
const NANOSECONDS: i128 = 1_000_000_000;

/// Judges stat data that were noted by a scan.
///
/// A file that was written within the last tick before the scan may have been written again
/// within it, and no stat data would tell; such data prove nothing. The time of the last change of
/// the inode counts as well as that of the content, since the latter can be put back.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// When the scan began, in nanoseconds since 1970.
    began: i128,
    /// Whether the bit to execute counts.
    modes: bool,
}

impl Clock {
    /// For data of a scan that began at this second and nanosecond.
    pub fn new(seconds: i64, nanoseconds: u32, modes: bool) -> Self {
        Self { began: i128::from(seconds) * NANOSECONDS + i128::from(nanoseconds), modes }
    }

    /// Whether noted data prove nothing, since the file was written too late for that.
    pub fn is_racy(&self, noted: &Stat) -> bool {
        [noted.mtime, noted.ctime].iter().any(|time| {
            if time.nsecs == 0 {
                return i128::from(i64::from(time.secs) + COARSE_TICK_MAX) * NANOSECONDS >= self.began;
            }
            let stamped = i128::from(time.secs) * NANOSECONDS + i128::from(time.nsecs);
            stamped + i128::try_from(TICK_MAX.as_nanos()).unwrap_or_default() >= self.began
        })
    }

    /// Whether a file still is what the index has, by what the file system says of it.
    pub fn is_same(&self, entry: &Entry, on_disk: &FileLook) -> bool {
        let kind = FileType::from_raw_mode(on_disk.mode as RawMode);
        let is_kind = match entry.mode {
            Mode::SYMLINK => kind == FileType::Symlink,
            Mode::FILE | Mode::FILE_EXECUTABLE => {
                let is_executable = on_disk.mode & 0o100 != 0;
                kind == FileType::RegularFile
                    && (!self.modes || is_executable == (entry.mode == Mode::FILE_EXECUTABLE))
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

/// What is known of a file that nobody has opened.
#[derive(Debug, Clone, Copy)]
pub struct FileLook {
    /// Type and permission bits.
    pub mode: u32,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The rest, as an index notes it.
    pub stat: Stat,
}

impl FileLook {
    /// What the file system says now.
    pub fn now(stat: &rustix::fs::Stat) -> Self {
        Self { mode: stat.st_mode, size_bytes: size_of(stat), stat: noted(stat) }
    }

    /// What a survey found. The device is not known, and no index is compared by it.
    pub fn surveyed(thing: &Thing) -> Self {
        let time = |(seconds, nanoseconds): Moment| gix::index::entry::stat::Time {
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
        Self { mode: thing.mode(), size_bytes: thing.size(), stat }
    }
}

/// The lower 32 bits of a number, as git keeps it.
fn low(number: u64) -> u32 {
    u32::try_from(number & 0xffff_ffff).unwrap_or_default()
}

/// Stat data as an index notes them: numbers cut to 32 bits, as git does.
pub fn noted(stat: &rustix::fs::Stat) -> Stat {
    /// The lower 32 bits of a number, whatever its type on this system.
    macro_rules! low {
        ($number:expr) => {
            ($number & 0xffff_ffff).try_into().unwrap_or_default()
        };
    }
    Stat {
        mtime: gix::index::entry::stat::Time { secs: low!(stat.st_mtime), nsecs: low!(stat.st_mtime_nsec) },
        ctime: gix::index::entry::stat::Time { secs: low!(stat.st_ctime), nsecs: low!(stat.st_ctime_nsec) },
        dev: low!(stat.st_dev),
        ino: low!(stat.st_ino),
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: low!(stat.st_size),
    }
}
