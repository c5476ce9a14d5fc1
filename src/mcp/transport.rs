//! JSON-RPC messages, a line each, on two streams.
//!
//! The library's own transport leaves lines that it cannot parse unanswered, and its service ends
//! at a notification that comes before the handshake; this one answers the first and drops the
//! second.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::lines::{Line, Lines};
use super::message;
use super::queue::Queue;
use super::turn::Deeds;

/// Bytes of one message from the client: 10 MB of text fit into it where most of it is escaped.
const LINE_BYTES_MAX: usize = 64 << 20;
/// Messages that wait to be written; whoever has another one waits.
const OUTBOX_MESSAGES_MAX: usize = 16;
/// How long running calls may go on after the client has closed its end, so that requests piped in
/// all at once are answered too.
const GRACE: Duration = Duration::from_millis(500);
/// How long a client that has closed its end may take none of the messages for it.
const STALL_TIME_MAX: Duration = Duration::from_secs(5);

/// What a transport shares with the server's main task.
pub struct Connection {
    /// Where messages for the client go.
    pub outbox: mpsc::Sender<Vec<u8>>,
    /// Set when the handshake is over.
    pub is_open: Arc<AtomicBool>,
    /// Cancelled when calls should stop.
    pub closing: CancellationToken,
}

/// The transport.
pub struct Stdio<R> {
    /// Lines from the client.
    lines: Lines<R>,
    /// The rest of the server.
    connection: Connection,
    /// The answer to a line that was no message, until it is in the outbox.
    refusal: Option<Vec<u8>>,
    /// Calls that wait for their turn.
    queue: Queue,
    /// Whether the client has closed its end.
    is_at_end: bool,
}

impl<R: AsyncRead + Unpin> Stdio<R> {
    /// A transport that reads from `reader`.
    pub fn new(reader: R, connection: Connection, deeds: Deeds) -> Self {
        Self {
            lines: Lines::new(reader, LINE_BYTES_MAX),
            connection,
            refusal: None,
            queue: Queue::new(deeds),
            is_at_end: false,
        }
    }

    /// Whether the service can take a message now: before the handshake only requests.
    fn is_wanted(&self, message: &ClientJsonRpcMessage) -> bool {
        self.connection.is_open.load(Ordering::Relaxed) || matches!(message, ClientJsonRpcMessage::Request(_))
    }

    /// Lets the running calls end by themselves, then asks them to.
    fn close_soon(&self) {
        let closing = self.connection.closing.clone();
        tokio::spawn(async move {
            tokio::time::sleep(GRACE).await;
            closing.cancel();
        });
    }
}

impl<R: AsyncRead + Unpin + Send> Transport<RoleServer> for Stdio<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outbox = self.connection.outbox.clone();
        let line = line_of(&message);
        match &message {
            JsonRpcMessage::Response(response) => self.queue.answered(&response.id),
            JsonRpcMessage::Error(error) => {
                error.id.iter().for_each(|id| self.queue.answered(id));
            }
            _ => {}
        }
        let unsent = self.queue.unsent(line.as_ref().map_or(0, Vec::len));
        async move {
            let sent = outbox.send(line?).await.map_err(|_| io::ErrorKind::BrokenPipe.into());
            drop(unsent);
            sent
        }
    }

    // May be dropped at each `await`: what is read or refused by then stays in `self`.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.refusal.is_some() {
                let place = tokio::select! {
                    place = self.connection.outbox.reserve() => place.ok()?,
                    () = tokio::time::sleep(STALL_TIME_MAX) => {
                        if has_hung_up() {
                            self.close_soon();
                            return None;
                        }
                        continue;
                    }
                };
                if let Some(refusal) = self.refusal.take() {
                    place.send(refusal);
                }
            }
            if let Some(call) = self.queue.next() {
                return Some(call);
            }
            if self.is_at_end && self.queue.is_empty() {
                self.close_soon();
                return None;
            }
            let has_room = self.queue.has_room();
            let waits = !has_room || !self.queue.is_empty();
            let line = tokio::select! {
                () = self.queue.freed(), if waits => continue,
                line = self.lines.next(), if !self.is_at_end && has_room => line,
                () = tokio::time::sleep(STALL_TIME_MAX), if waits => {
                    // Nobody is there to read what still waits.
                    if self.queue.has_unsent() && (self.is_at_end || has_hung_up()) {
                        self.queue.clear();
                        self.is_at_end = true;
                    }
                    continue;
                }
            };
            let (parsed, bytes) = match line {
                Line::Whole(line) if line.trim_ascii().is_empty() => continue,
                Line::Whole(line) => (message::parse(&line), line.len()),
                Line::TooLong(id) => (Err(message::too_long(LINE_BYTES_MAX, id)), 0),
                Line::End => {
                    self.is_at_end = true;
                    continue;
                }
            };
            match parsed {
                Ok(message) if self.is_wanted(&message) => match self.queue.take(message, bytes) {
                    Ok(Some(message)) => return Some(message),
                    Ok(None) => {}
                    Err(id) => self.refusal = line_of(&message::id_in_use(id)).ok(),
                },
                Ok(_) => {}
                Err(refusal) => self.refusal = line_of(&refusal).ok(),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the client has closed its end of stdin, though there may be more to read from it.
fn has_hung_up() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::RDHUP)];
    let is_ready = poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    is_ready
        && polled.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR))
}

/// A message as a line.
fn line_of(message: &ServerJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Starts to write messages in the order in which they come. Where the client takes no more,
/// `closing` is cancelled.
pub fn outbox(
    writer: impl AsyncWrite + Unpin + Send + 'static,
    closing: CancellationToken,
) -> (mpsc::Sender<Vec<u8>>, JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel(OUTBOX_MESSAGES_MAX);
    let writing = tokio::spawn(async move {
        if write(writer, receiver).await.is_err() {
            closing.cancel();
        }
    });
    (sender, writing)
}

/// Writes messages until nobody can send another.
async fn write(mut writer: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        writer.write_all(&message).await?;
        writer.flush().await?;
    }
    Ok(())
}
