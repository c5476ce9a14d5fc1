//! The socket between a call and the first process of its sandbox: messages, and the descriptor of
//! the command's stdin.
//!
//! A message is its length as four bytes and then JSON. Whoever reads the end of the socket knows
//! that the other side is gone.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest message, in bytes: a plan holds an environment and many paths.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Bytes read at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Bytes of the length before each message.
const LENGTH_BYTES: usize = 4;

/// One end.
#[derive(Debug)]
pub struct Link {
    /// The socket.
    socket: UnixStream,
    /// What was read and is not a whole message yet.
    pending: Vec<u8>,
    /// The descriptor that came with a message.
    received: Option<OwnedFd>,
    /// Whether the other side is gone.
    is_closed: bool,
}

impl Link {
    /// This end of a socket.
    #[must_use]
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, pending: Vec::new(), received: None, is_closed: false }
    }

    /// The socket, to wait for.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the other side is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The descriptor that came with a message.
    pub fn take_received(&mut self) -> Option<OwnedFd> {
        self.received.take()
    }

    /// Sends a message, and with it a descriptor.
    ///
    /// # Errors
    /// The system's; the other side may be gone.
    pub fn send<T: Serialize>(&mut self, message: &T, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let json = serde_json::to_vec(message)?;
        let length = u32::try_from(json.len()).map_err(|_| io::Error::other("the message is too long"))?;
        let length = length.to_be_bytes();
        self.socket.set_nonblocking(false)?;
        if let Some(descriptor) = descriptor {
            send_with(&self.socket, &length, descriptor)?;
        } else {
            self.socket.write_all(&length)?;
        }
        self.socket.write_all(&json)
    }

    /// The next message; waits for it. `None` where the other side is gone.
    ///
    /// # Errors
    /// The system's, or an unreadable message.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        self.socket.set_nonblocking(false)?;
        loop {
            if let Some(message) = self.take_message()? {
                return Ok(Some(message));
            }
            if self.is_closed {
                return Ok(None);
            }
            self.read_piece()?;
        }
    }

    /// The next message, if it is there; waits for nothing.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn try_receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        self.socket.set_nonblocking(true)?;
        loop {
            if let Some(message) = self.take_message()? {
                return Ok(Some(message));
            }
            if self.is_closed {
                return Ok(None);
            }
            match self.read_piece() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                other => other?,
            }
        }
    }

    /// Takes a whole message out of what was read.
    fn take_message<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((length, rest)) = self.pending.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(io::Error::other("a message is too long"));
        }
        let Some(json) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(json)?;
        self.pending.drain(..LENGTH_BYTES + length);
        Ok(Some(message))
    }

    /// Reads what is there.
    fn read_piece(&mut self) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let read = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(&mut piece)], &mut ancillary, flags)
        });
        let bytes = match read {
            Ok(read) => read.bytes,
            // The other side went without reading all that it was told.
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

/// Sends bytes with a descriptor.
fn send_with(socket: &UnixStream, bytes: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("the descriptor cannot be sent"));
    }
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    // So few bytes always fit where nothing was sent before.
    (&*socket).write_all(bytes.get(sent..).unwrap_or_default())
}

/// Reads from a descriptor that does not block; `None` where nothing is there now.
///
/// # Errors
/// The system's.
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
