//! Sockets and FIFOs in the workspace, by which a command could reach programs of the host.

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;

/// Returns the FIFOs among these paths below the root, and the sockets that some program has. A socket that is left
/// over is no danger, and the program that takes its place must be able to remove it.
#[must_use]
pub fn in_use(root: BorrowedFd<'_>, found: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_used = |path: &PathBuf| {
        let opened = WorkspacePath::new(path).map(|path| fs::open_beneath(root, &path, fs::LOOK));
        let Some(Ok(opened)) = opened else { return false };
        !rustix::fs::fstat(&opened).is_ok_and(|stat| fs::type_of(&stat).is_socket()) || has_program(&opened)
    };
    found.into_iter().filter(is_used).collect()
}

/// Returns true if some program has an opened socket. A connection for datagrams tells, and no program notices it.
fn has_program(opened: &OwnedFd) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    match socket.and_then(|socket| connect(&socket, &address?)) {
        Err(Errno::CONNREFUSED | Errno::NOENT) => false,
        Ok(()) | Err(_) => true,
    }
}
