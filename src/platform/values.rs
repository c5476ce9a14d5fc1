//! Values whose number or type differs between systems.

use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags, RawMode, Stat};
use rustix::net::{RecvFlags, SendFlags};

/// Flags for examining whatever has a name, without opening it.
#[cfg(target_os = "linux")]
pub const EXAMINE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags for a folder in which names will be looked up or changed, but which will not be listed.
#[cfg(target_os = "linux")]
pub const HANDLE: OFlags = EXAMINE.union(OFlags::DIRECTORY);
/// Flags for a folder in which names will be looked up or changed, but which will not be listed: `O_SEARCH`
/// (`sys/fcntl.h`), which needs no permission to read.
#[cfg(target_os = "macos")]
pub const HANDLE: OFlags =
    OFlags::from_bits_retain(0x4010_0000).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags for a folder in which names will be looked up or changed, but which will not be listed.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub const HANDLE: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Event of a descriptor whose other side is closed; on Linux even if unread bytes are left.
#[cfg(target_os = "linux")]
pub const HANGUP: PollFlags = PollFlags::RDHUP;
/// Event of a descriptor whose other side is closed.
#[cfg(not(target_os = "linux"))]
pub const HANGUP: PollFlags = PollFlags::HUP;

/// How messages are sent on a socket: an error instead of a signal if nobody reads.
#[cfg(target_os = "linux")]
pub const SEND: SendFlags = SendFlags::NOSIGNAL;
/// How messages are sent on a socket; Rust's runtime ignores the signal of a socket that nobody reads.
#[cfg(not(target_os = "linux"))]
pub const SEND: SendFlags = SendFlags::empty();

/// How messages are received: no program inherits the descriptors in them.
#[cfg(target_os = "linux")]
pub const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;
/// How messages are received; descriptors in them are closed to programs when one starts.
#[cfg(not(target_os = "linux"))]
pub const RECEIVE: RecvFlags = RecvFlags::empty();

/// Folder that holds the open files of this process, by number.
const OPEN_FILES: &str = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };

/// Returns a path that opens an open file again, for libraries that take only paths.
pub fn path_of(file: BorrowedFd<'_>) -> PathBuf {
    Path::new(OPEN_FILES).join(file.as_raw_fd().to_string())
}

/// Bit of a folder that gives its group to what is made in it; on other systems each folder does.
pub const INHERITED_GROUP: u32 = if cfg!(target_os = "linux") { 0o2000 } else { 0 };

/// Returns permission bits in the form of the system's calls.
#[expect(clippy::allow_attributes, reason = "the type of a mode differs")]
#[allow(clippy::unnecessary_cast, clippy::cast_possible_truncation, reason = "16 bits on some systems")]
pub const fn mode(bits: u32) -> Mode {
    Mode::from_bits_truncate(bits as RawMode)
}

/// Returns type and permission bits of a file.
#[expect(clippy::allow_attributes, reason = "the type of a mode differs")]
#[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "16 bits on some systems")]
pub const fn mode_bits(stat: &Stat) -> u32 {
    stat.st_mode as u32
}

/// Returns the type that mode bits name.
#[expect(clippy::allow_attributes, reason = "the type of a mode differs")]
#[allow(clippy::unnecessary_cast, clippy::cast_possible_truncation, reason = "16 bits on some systems")]
pub const fn type_of_bits(bits: u32) -> FileType {
    FileType::from_raw_mode(bits as RawMode)
}

/// Returns the number of the device that holds a file.
#[expect(clippy::allow_attributes, reason = "the type of a device differs")]
#[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "a signed number on some systems")]
pub const fn device(stat: &Stat) -> u64 {
    stat.st_dev as u64
}
