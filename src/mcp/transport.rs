//! JSON-RPC messages, a line each, on two streams.
//!
//! The library's own transport leaves lines that it cannot parse unanswered, and its service ends
//! at a notification that comes before the handshake; this one answers the first and drops the
//! second.

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
    /// Answers that the service knows nothing of, until they are in the outbox: to lines that were no message.
    refusals: VecDeque<Vec<u8>>,
    /// Calls that wait for their turn.
    queue: Queue,
    /// Messages of a batch that need not wait.
    ready: VecDeque<ClientJsonRpcMessage>,
    /// Batches that are not answered yet.
    batches: Batches,
    /// Whether the revision that was settled on has batches.
    has_batches: bool,
    /// Whether the client has closed its end.
    is_at_end: bool,
}

impl<R: AsyncRead + Unpin> Stdio<R> {
    /// A transport that reads from `reader`.
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

    /// Whether the service can take a message now: before the handshake only requests.
    fn is_wanted(&self, message: &ClientJsonRpcMessage) -> bool {
        self.connection.is_open.load(Ordering::Relaxed) || matches!(message, ClientJsonRpcMessage::Request(_))
    }

    /// Takes what a line held: gives back a message that need not wait, and keeps the answer to what is none.
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

    /// Takes a message; gives it back where it need not wait.
    ///
    /// # Errors
    /// The answer to one that is not taken.
    fn take_message(
        &mut self,
        message: ClientJsonRpcMessage,
        bytes: usize,
    ) -> Result<Option<ClientJsonRpcMessage>, Box<ServerJsonRpcMessage>> {
        if !self.is_wanted(&message) {
            return Ok(None);
        }
        if let Some(id) = cancelled(&message) {
            // Its batch may have waited for nothing else.
            self.refusals.extend(self.batches.forget(id));
        }
        self.queue.take(message, bytes).map_err(message::id_in_use)
    }

    /// Takes the messages of a batch; gives the line that answers them where nothing is waited for.
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
        // One that the same batch has cancelled is gone.
        waiting.retain(|id| self.queue.is_in_use(id));
        self.batches.begin(waiting, errors)
    }

    /// Takes what was read; answers the message that is due at once.
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

    // May be dropped at each `await`: what is read or refused by then stays in `self`.
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
                    // Nobody is there to read what still waits.
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

/// Whether the client has closed its end of stdin, though there may be more to read from it.
fn has_hung_up() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::RDHUP)];
    let is_ready = poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    is_ready
        && polled.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR))
}

/// The id of a request.
fn request_id(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

/// The id of the request that a message cancels.
fn cancelled(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Notification(told) => match &told.notification {
            ClientNotification::CancelledNotification(cancelled) => cancelled.params.request_id.as_ref(),
            _ => None,
        },
        _ => None,
    }
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
