//! The plan of a confined command: its program, its access, its limits.
//!
//! Also the socket between a call and the first process of its sandbox: messages, and the descriptor of the command's
//! stdin.
//!
//! A message is a line of JSON. The end of the socket means that the other side is gone.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::FileType;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::caches::CacheView;
use super::outside::{Network, VisibleDisk};
use crate::platform;

/// Largest number of folders that are mounted in place because of their content.
const PINNED_MAX: usize = 4096;

/// Time between TERM and KILL when a command is ended.
pub const GRACE: Duration = Duration::from_secs(1);

/// Largest number of sockets and FIFOs that are covered.
const CHANNELS_MAX: usize = 4096;

/// All facts that the first process of a sandbox needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SandboxPlan {
    /// Program to run, with its arguments.
    pub program: Vec<OsString>,
    /// Absolute working directory.
    pub workdir: OsString,
    /// Whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Access of the command.
    pub reach: Access,
    /// Limits of the command.
    pub limits: Limits,
}

/// Access of a command.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Access {
    /// Canonical workspace root: writable, except for the `protected` paths.
    pub root: OsString,
    /// True if the root is read-only with all its content.
    pub read_only: bool,
    /// Paths below the root, relative to it, that are read-only.
    pub protected: Vec<OsString>,
    /// Layer that takes the changes below the root; `None` if the command changes the files themselves.
    pub layer: Option<Layer>,
    /// Sockets and FIFOs below the root, relative to it, that other programs may use: the command does not see them. A
    /// layer hides them anyway.
    pub channels: Vec<OsString>,
    /// lbx's own folders below the root, relative to it: the command sees them without their content.
    pub states: Vec<OsString>,
    /// Canonical folders elsewhere that are writable.
    pub writable: Vec<OsString>,
    /// Visible part of the disk outside.
    pub outside: VisibleDisk,
    /// Views of caches; a view precedes the views inside it.
    pub caches: Vec<CacheView>,
    /// Canonical paths that appear empty.
    pub hidden: Vec<HiddenPath>,
    /// Canonical folders below a writable one that are read-only.
    pub settled: Vec<OsString>,
    /// Canonical folders above those, and above protected ones, that cannot be moved; a folder precedes the folders in
    /// it.
    pub pinned: Vec<OsString>,
    /// Network of the command.
    pub network: Network,
    /// Process of a job whose network it shares, if the backend can enter that.
    pub peer: Option<u32>,
    /// Folder that it sees as `/tmp`, shared by the commands of a session; `None` for an empty one.
    pub temporary: Option<OsString>,
}

/// Folders of a layer; both are on one file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Layer {
    /// Absolute folder that takes the changes of the command.
    pub upper: OsString,
    /// Folder that overlayfs uses for itself.
    pub work: OsString,
}

/// A path that appears empty.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HiddenPath {
    /// The path.
    pub path: OsString,
    /// True if it is a folder.
    pub is_folder: bool,
}

/// Limits of a command; 0 means no limit of lbx's own.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory of each process, and of all together where a control group can be made.
    pub memory_bytes: u64,
    /// Processes and threads at once.
    pub processes: u64,
    /// Bytes of each file that it writes.
    pub file_bytes: u64,
}

impl SandboxPlan {
    /// Returns its program with arguments and environment.
    ///
    /// # Errors
    /// Fails if it names no program.
    pub fn command(&self) -> Result<Command, String> {
        let (program, arguments) = self.program.split_first().ok_or("there is no program to run")?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

impl Access {
    /// Returns all writable folders; a folder precedes the folders in it.
    pub fn writable_folders(&self) -> impl Iterator<Item = PathBuf> {
        self.visible_folders().filter(|folder| !self.is_read_only(folder))
    }

    /// Returns true if one of the command's own folders is read-only.
    pub fn is_read_only(&self, folder: &Path) -> bool {
        self.read_only && folder.as_os_str() == self.root
    }

    /// Returns the root and all other writable folders: they stay visible even if a folder above them is emptied. A
    /// folder precedes the folders in it.
    pub fn visible_folders(&self) -> impl Iterator<Item = PathBuf> {
        let is_apart = |folder: &&OsString| {
            // A layer covers the folders below the root.
            self.layer.is_none() || !Path::new(folder).starts_with(&self.root)
        };
        let others = self.writable.iter().filter(is_apart);
        let all: BTreeSet<PathBuf> = std::iter::once(&self.root).chain(others).map(PathBuf::from).collect();
        all.into_iter()
    }

    /// Returns the folders below the root, relative to it and outermost first, that a command could rename to replace a
    /// protected repository. A layer needs no such list: its result is checked.
    ///
    /// # Errors
    /// Fails if there are too many.
    pub fn folders_above_protected(&self) -> Result<BTreeSet<&Path>, String> {
        if self.read_only || self.layer.is_some() {
            return Ok(BTreeSet::new());
        }
        let closed: HashSet<&Path> = self.protected.iter().chain(&self.states).map(Path::new).collect();
        let is_free = |path: &&Path| {
            !path.as_os_str().is_empty()
                && !path.ancestors().any(|above| closed.contains(above))
                && !self.pinned.contains(&Path::new(&self.root).join(path).into_os_string())
        };
        let above = closed.iter().flat_map(|path| path.ancestors().skip(1));
        let above: BTreeSet<&Path> = above.filter(is_free).collect();
        if above.len() > PINNED_MAX {
            return Err(format!("more than {PINNED_MAX} folders hold repositories or protected files"));
        }
        Ok(above)
    }

    /// Returns the absolute paths of sockets and FIFOs of other programs that the command could reach.
    ///
    /// # Errors
    /// Fails if there are too many.
    pub fn channels(&self) -> Result<Vec<OsString>, String> {
        if self.layer.is_some() {
            return Ok(Vec::new());
        }
        if self.channels.len() > CHANNELS_MAX {
            return Err(format!("the workspace holds more than {CHANNELS_MAX} sockets and FIFOs"));
        }
        Ok(self.below_root(&self.channels).map(PathBuf::into_os_string).collect())
    }

    /// Returns the absolute forms of paths that are relative to the root.
    pub fn below_root<'p, P: AsRef<Path> + 'p>(
        &self,
        paths: impl IntoIterator<Item = P, IntoIter: 'p>,
    ) -> impl Iterator<Item = PathBuf> {
        paths.into_iter().map(|path| Path::new(&self.root).join(path))
    }

    /// Returns true if a channel is gone, or something else has its name, since the plan was made: no backend can hide
    /// it.
    pub fn is_outdated(&self) -> bool {
        let is_other = |path: &OsString| {
            let found = rustix::fs::lstat(Path::new(path)).map(|stat| FileType::from_raw_mode(stat.st_mode));
            !matches!(found, Ok(FileType::Fifo | FileType::Socket))
        };
        self.channels().is_ok_and(|channels| channels.iter().any(is_other))
    }

    /// Returns true if the command sees a canonical path.
    pub fn shows(&self, path: &Path) -> bool {
        self.outside.shows(path) || self.visible_folders().any(|folder| path.starts_with(folder))
    }

    /// Returns true if a path is one of the command's own folders, or is above one.
    pub fn is_above_own(&self, path: &Path) -> bool {
        self.visible_folders().any(|folder| folder.starts_with(path))
    }
}

/// Message from the first process of a sandbox to the call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Report {
    /// The process has its own namespaces and waits for its user ids.
    Unshared,
    /// The process has entered the namespaces of a peer, with its user ids.
    Joined,
    /// The process is the first of its PID namespace. The message carries a `/proc` of that, unless the kernel forbids
    /// another one.
    Ready,
    /// The message carries a socket, at which the command finds the proxy.
    Proxy,
    /// The command runs.
    Started,
    /// The sandbox cannot be made; the reason.
    Failed(String),
    /// The command and all its descendants have ended.
    Ended(CommandEnd),
}

/// Message from the call to the first process of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Order {
    /// The user ids are set.
    Mapped,
    /// Run this plan. The message carries the command's stdin, if it has one.
    Run(Box<SandboxPlan>),
    /// The file system of the command is mounted.
    Mounted,
    /// End everything.
    End,
    /// Kill everything at once.
    Kill,
}

/// Result of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandEnd {
    /// Its exit status; `None` if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Processes that it left running; they were killed.
    pub left_running: u32,
    /// True if it was killed because it had more processes than allowed.
    pub had_too_many: bool,
    /// Milliseconds of CPU time of all its processes.
    pub cpu_ms: u64,
    /// Memory of the largest process, in bytes.
    pub peak_memory_bytes: u64,
}

/// Largest message, in bytes: a plan holds an environment and many paths.
const ORDER_BYTES_MAX: usize = 16 << 20;
/// Bytes per read: most messages are small, and a process pays for each page that it touches first.
const PIECE_BYTES: usize = 4096;

/// One end of the socket.
#[derive(Debug)]
pub struct ReportChannel {
    /// The socket.
    socket: UnixStream,
    /// Bytes of an incomplete message.
    pending: Vec<u8>,
    /// Descriptor that came with a message.
    pub received: Option<OwnedFd>,
    /// True if the other side is gone.
    pub is_closed: bool,
}

impl ReportChannel {
    /// Wraps one end of a socket.
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, pending: Vec::new(), received: None, is_closed: false }
    }

    /// Returns the socket, to poll it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a message, with a descriptor if there is one.
    ///
    /// # Errors
    /// Returns the OS error; the other side may be gone.
    pub fn send<T: Serialize>(&mut self, message: &T, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.send_line(&serde_json::to_vec(message)?, descriptor)
    }

    /// Sends the JSON of a message, with a descriptor if there is one.
    ///
    /// # Errors
    /// Fails as [`Self::send`] does.
    pub fn send_line(&mut self, json: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let json = [json, b"\n"].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let rights = SendAncillaryMessage::ScmRights(descriptor.as_slice());
        if descriptor.is_some() && !ancillary.push(rights) {
            return Err(io::Error::other("the descriptor cannot be sent"));
        }
        self.socket.set_nonblocking(false)?;
        let flags = platform::SEND;
        let sent = rustix::net::sendmsg(&self.socket, &[IoSlice::new(&json)], &mut ancillary, flags)?;
        self.socket.write_all(json.get(sent..).unwrap_or_default())
    }

    /// Waits for the next message and returns it; `None` if the other side is gone, or the socket's time limit has
    /// passed.
    ///
    /// # Errors
    /// Returns the OS error, or fails if the message is unreadable.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        self.socket.set_nonblocking(false)?;
        self.next()
    }

    /// Waits for the next message and returns its JSON, to pass it on.
    ///
    /// # Errors
    /// Returns the OS error.
    #[cfg(target_os = "linux")]
    pub fn receive_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.socket.set_nonblocking(false)?;
        self.next_line()
    }

    /// Returns the next message if it has arrived, without waiting.
    ///
    /// # Errors
    /// Fails as [`Self::receive`] does.
    pub fn try_receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        self.socket.set_nonblocking(true)?;
        self.next()
    }

    /// Reads until a message is complete, a read would block, or the other side is gone.
    fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let line = self.next_line()?;
        Ok(line.map(|line| serde_json::from_slice(&line)).transpose()?)
    }

    /// Reads like [`Self::next`]; returns the JSON.
    fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            let end = self.pending.iter().skip(searched).position(|byte| *byte == b'\n');
            if let Some(end) = end.map(|end| searched + end) {
                let mut line: Vec<u8> = self.pending.drain(..=end).collect();
                line.pop();
                return Ok(Some(line));
            }
            if self.pending.len() > ORDER_BYTES_MAX {
                return Err(io::Error::other("a message is too long"));
            }
            if self.is_closed {
                return Ok(None);
            }
            searched = self.pending.len();
            match self.read_piece() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                read => read?,
            }
        }
    }

    /// Reads the bytes that have arrived.
    fn read_piece(&mut self) -> io::Result<()> {
        let mut piece = [0; PIECE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = platform::RECEIVE;
        let read = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(&mut piece)], &mut ancillary, flags)
        });
        let bytes = match read {
            Ok(read) => read.bytes,
            // The other side has ended without reading all messages.
            Err(rustix::io::Errno::CONNRESET) => 0,
            Err(errno) => return Err(errno.into()),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.received = descriptors.last();
            }
        }
        self.is_closed = bytes == 0;
        self.pending.extend_from_slice(piece.get(..bytes).unwrap_or_default());
        Ok(())
    }
}

/// Reads from a descriptor that does not block; returns `None` if no bytes have arrived.
///
/// # Errors
/// Returns the OS error.
pub fn read_now(mut from: impl Read, piece: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match from.read(piece) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
