//! JSON-RPC messages on two streams, one per line.
//!
//! The library's own transport does not answer lines that it cannot parse, and its service ends at a notification
//! before the handshake; this one answers the former and drops the latter.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::batch::{Batches, MESSAGES_MAX, has_batches};
use super::lines::{Line, Lines};
use super::message::{self, Parsed};
use super::queue::Queue;
use super::turn::AccessByTool;

/// Largest message from the client, in bytes: fits 10 MB of text even if most of it is escaped.
const LINE_BYTES_MAX: usize = 64 << 20;
/// Largest number of messages that wait to be written; further senders wait.
const OUTBOX_MESSAGES_MAX: usize = 16;
/// Time that running calls have after the client has closed its end, so that requests piped in all at once are answered
/// too.
const GRACE: Duration = Duration::from_millis(500);
/// Time for which a client that has closed its end may read none of its messages.
const STALL_TIME_MAX: Duration = Duration::from_secs(5);

/// State that a transport shares with the server's main task.
pub struct Connection {
    /// Queue of messages to the client.
    pub outbox: mpsc::Sender<Vec<u8>>,
    /// True after the handshake.
    pub is_open: Arc<AtomicBool>,
    /// Token that is cancelled to stop the calls.
    pub closing: CancellationToken,
}

/// The transport.
pub struct Stdio<R> {
    /// Lines from the client.
    lines: Lines<R>,
    /// Shared state.
    connection: Connection,
    /// Responses to invalid lines, which the service does not know, until they are in the outbox.
    refusals: VecDeque<Vec<u8>>,
    /// Queued calls.
    queue: Queue,
    /// Messages of a batch that need not wait.
    ready: VecDeque<ClientJsonRpcMessage>,
    /// Unanswered batches.
    batches: Batches,
    /// True if the agreed revision has batches.
    has_batches: bool,
    /// True if the client has closed its end.
    is_at_end: bool,
}

impl<R: AsyncRead + Unpin> Stdio<R> {
    /// Creates a transport that reads from `reader`.
    pub fn new(reader: R, connection: Connection, accesses: AccessByTool) -> Self {
        Self {
            lines: Lines::new(reader, LINE_BYTES_MAX),
            connection,
            refusals: VecDeque::new(),
            queue: Queue::new(accesses),
            ready: VecDeque::new(),
            batches: Batches::default(),
            has_batches: false,
            is_at_end: false,
        }
    }

    /// Returns true if the service can take a message now: before the handshake, only requests.
    fn is_wanted(&self, message: &ClientJsonRpcMessage) -> bool {
        self.connection.is_open.load(Ordering::Relaxed) || matches!(message, ClientJsonRpcMessage::Request(_))
    }

    /// Handles the content of a line: returns a message that need not wait, and stores the responses to invalid ones.
    fn take(&mut self, parsed: Parsed, bytes: usize) -> Option<ClientJsonRpcMessage> {
        match parsed {
            Parsed::One(message) => match self.take_message(*message, bytes) {
                Ok(message) => message,
                Err(refusal) => {
                    self.refusals.extend(line_of(&refusal));
                    None
                }
            },
            Parsed::Batch(messages) => {
                let answer = self.take_batch(messages, bytes);
                self.refusals.extend(answer);
                self.ready.pop_front()
            }
        }
    }

    /// Queues a message; returns it if it need not wait.
    ///
    /// # Errors
    /// Returns the response to a rejected message.
    fn take_message(
        &mut self,
        message: ClientJsonRpcMessage,
        bytes: usize,
    ) -> Result<Option<ClientJsonRpcMessage>, Box<ServerJsonRpcMessage>> {
        if !self.is_wanted(&message) {
            return Ok(None);
        }
        if let Some(id) = cancelled(&message) {
            // It may complete its batch.
            self.refusals.extend(self.batches.forget(id));
        }
        self.queue.take(message, bytes).map_err(message::id_in_use)
    }

    /// Queues the messages of a batch; returns the line that answers it if it has no requests.
    fn take_batch(
        &mut self,
        messages: Vec<Result<ClientJsonRpcMessage, Box<ServerJsonRpcMessage>>>,
        bytes: usize,
    ) -> Option<Vec<u8>> {
        let why = match messages.len() {
            _ if !self.has_batches => "this protocol revision has no batches".to_owned(),
            count if count > MESSAGES_MAX => format!("a batch has at most {MESSAGES_MAX} messages"),
            _ => String::new(),
        };
        if !why.is_empty() {
            return line_of(&message::no_batch(&why)).ok();
        }
        let (mut waiting, mut errors) = (HashSet::new(), Vec::new());
        let bytes_each = bytes / messages.len().max(1);
        for message in messages {
            let id = message.as_ref().ok().and_then(request_id).cloned();
            match message.and_then(|message| self.take_message(message, bytes_each)) {
                Ok(message) => {
                    waiting.extend(id);
                    self.ready.extend(message);
                }
                Err(refusal) => errors.extend(line_of(&refusal)),
            }
        }
        // A request that the same batch cancelled is not waited for.
        waiting.retain(|id| self.queue.is_in_use(id));
        self.batches.begin(waiting, errors)
    }

    /// Handles a line; returns the message that is due at once.
    fn take_line(&mut self, line: Line) -> Option<ClientJsonRpcMessage> {
        let (parsed, bytes) = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => return None,
            Line::Whole(line) => (message::parse(&line), line.len()),
            Line::TooLong(id) => (Err(message::too_long(LINE_BYTES_MAX, id)), 0),
            Line::End => {
                self.is_at_end = true;
                return None;
            }
        };
        match parsed {
            Ok(parsed) => self.take(parsed, bytes),
            Err(refusal) => {
                self.refusals.extend(line_of(&refusal));
                None
            }
        }
    }

    /// Lets the running calls end by themselves for a while, then cancels them.
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
        if let JsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(settled) = &response.result
        {
            self.has_batches = has_batches(&settled.protocol_version);
        }
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let line = line_of(&message).map(|line| match answered {
            Some(id) => {
                self.queue.answered(id);
                self.batches.answered(id, line)
            }
            None => Some(line),
        });
        let unsent = self.queue.unsent(line.iter().flatten().map(Vec::len).sum());
        async move {
            if let Some(line) = line? {
                outbox.send(line).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
            }
            drop(unsent);
            Ok(())
        }
    }

    // Cancel safe at each `await`: all messages and responses so far are in `self`.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            while !self.refusals.is_empty() {
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
                if let Some(refusal) = self.refusals.pop_front() {
                    place.send(refusal);
                }
            }
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
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
                    // Nobody reads the waiting messages.
                    if self.queue.has_unsent() && (self.is_at_end || has_hung_up()) {
                        self.queue.clear();
                        self.is_at_end = true;
                    }
                    continue;
                }
            };
            if let Some(message) = self.take_line(line) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns true if the client has closed its end of stdin, even if unread bytes are left.
fn has_hung_up() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::RDHUP)];
    let is_ready = poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    is_ready
        && polled.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR))
}

/// Returns the id of a request.
fn request_id(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

/// Returns the id of the request that a message cancels.
fn cancelled(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Notification(told) => match &told.notification {
            ClientNotification::CancelledNotification(cancelled) => cancelled.params.request_id.as_ref(),
            _ => None,
        },
        _ => None,
    }
}

/// Returns a message as a line.
fn line_of(message: &ServerJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Starts to write messages in the order in which they arrive. Cancels `closing` if the client reads no more.
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

/// Writes messages until all senders are gone.
async fn write(mut writer: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        writer.write_all(&message).await?;
        writer.flush().await?;
    }
    Ok(())
}
