//! Requests that wait for their turn: as many, and as large, as the memory may hold.
//!
//! A client may send faster than requests are carried out, or read slower than they are answered. Beyond
//! the bounds nothing more is read, and the client waits at its end of the pipe. A ping or a cancellation
//! does not wait: it overtakes the requests that do.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions as _, JsonRpcMessage, RequestId,
};
use tokio::sync::Notify;

use super::turn::{AccessByTool, Turn};

/// Calls that the service has at once, running or waiting for a thread.
const RUNNING_MAX: usize = 32;
/// Bytes of their messages. A single call may have more.
const RUNNING_BYTES_MAX: usize = 32 << 20;
/// Calls that are held back behind these.
const HELD_MAX: usize = 64;
/// Bytes of their messages.
const HELD_BYTES_MAX: usize = 8 << 20;
/// Requests that do not wait and are not answered yet: beyond it nothing more is read.
const AT_ONCE_MAX: usize = 256;
/// Bytes of messages that the client has not taken: beyond it no further request begins.
const UNSENT_BYTES_MAX: usize = 8 << 20;
/// Bytes that such a message takes beside its text: a task of its own waits with it.
const UNSENT_MESSAGE_BYTES: usize = 4 << 10;

/// The calls of a client.
pub struct Queue {
    /// Those that wait.
    held: VecDeque<Held>,
    /// What the tools do.
    accesses: AccessByTool,
    /// Those that the service has.
    running: Arc<Running>,
    /// The ids of calls that the service has and has not answered.
    unanswered: HashSet<RequestId>,
    /// Those of requests that did not wait and are not answered yet.
    at_once: HashSet<RequestId>,
}

/// A call that waits.
struct Held {
    /// Its message.
    message: ClientJsonRpcMessage,
    /// Bytes of it.
    bytes: usize,
    /// What it waits for besides room.
    turn: Turn,
}

impl Held {
    /// The id of the request.
    fn id(&self) -> Option<&RequestId> {
        match &self.message {
            JsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        }
    }
}

/// The calls that the service has.
#[derive(Default)]
struct Running {
    /// How many, and the bytes of their messages.
    load: Mutex<Load>,
    /// Told when one has ended, or the client has taken a message.
    ended: Notify,
}

/// Calls and the bytes of their messages.
#[derive(Default)]
struct Load {
    /// The turn of each.
    turns: Vec<Arc<Turn>>,
    /// Bytes.
    bytes: usize,
    /// Bytes of messages to the client that it has not taken.
    unsent: usize,
}

impl Running {
    /// What there is now.
    fn load(&self) -> MutexGuard<'_, Load> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Travels with a message to the client until that takes it.
pub struct Unsent {
    /// The calls beside which it waits.
    running: Arc<Running>,
    /// Its bytes.
    bytes: usize,
}

impl Drop for Unsent {
    fn drop(&mut self) {
        {
            let mut load = self.running.load();
            load.unsent = load.unsent.saturating_sub(self.bytes);
        }
        self.running.ended.notify_one();
    }
}

/// Travels with a call; the call has ended when it is dropped.
struct Ticket {
    /// The calls among which it is.
    running: Arc<Running>,
    /// Bytes of its message.
    bytes: usize,
    /// Its turn.
    turn: Arc<Turn>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        {
            let mut load = self.running.load();
            load.turns.retain(|turn| !Arc::ptr_eq(turn, &self.turn));
            load.bytes = load.bytes.saturating_sub(self.bytes);
        }
        self.running.ended.notify_one();
    }
}

impl Queue {
    /// A queue for tools that do this.
    #[must_use]
    pub fn new(accesses: AccessByTool) -> Self {
        let (unanswered, at_once) = (HashSet::new(), HashSet::new());
        Self { held: VecDeque::new(), accesses, running: Arc::default(), unanswered, at_once }
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether another message may be read.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let bytes: usize = self.held.iter().map(|held| held.bytes).sum();
        self.at_once.len() < AT_ONCE_MAX
            && self.held.len() < HELD_MAX
            && bytes < HELD_BYTES_MAX
            && self.running.load().unsent < UNSENT_BYTES_MAX
    }

    /// Notes that the request of that id is answered.
    pub fn answered(&mut self, id: &RequestId) {
        self.unanswered.remove(id);
        if self.at_once.remove(id) {
            self.running.ended.notify_one();
        }
    }

    /// Notes a message to the client of so many bytes, until what is answered is dropped.
    #[must_use]
    pub fn unsent(&self, bytes: usize) -> Unsent {
        let bytes = bytes + UNSENT_MESSAGE_BYTES;
        self.running.load().unsent += bytes;
        Unsent { running: self.running.clone(), bytes }
    }

    /// Whether the client has yet to take a message.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.running.load().unsent > 0
    }

    /// Forgets what waits: nobody reads the answers.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// Waits until a call has ended, or the client has taken a message.
    pub async fn freed(&self) {
        self.running.ended.notified().await;
    }

    /// Takes a message of so many bytes; gives back what need not wait.
    ///
    /// # Errors
    /// The id of a request, where it is that of another one that is not answered yet.
    pub fn take(
        &mut self,
        message: ClientJsonRpcMessage,
        bytes: usize,
    ) -> Result<Option<ClientJsonRpcMessage>, RequestId> {
        match &message {
            JsonRpcMessage::Request(request) if self.is_in_use(&request.id) => {
                return Err(request.id.clone());
            }
            JsonRpcMessage::Request(request) if !is_answered_at_once(&request.request) => {
                let turn = Turn::of(&message, &self.accesses);
                self.held.push_back(Held { message, bytes, turn });
                return Ok(None);
            }
            JsonRpcMessage::Request(request) => {
                self.at_once.insert(request.id.clone());
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification {
                    self.forget(cancelled.params.request_id.as_ref());
                }
            }
            _ => {}
        }
        Ok(Some(message))
    }

    /// Whether a request of that id waits, or is not answered yet.
    #[must_use]
    pub fn is_in_use(&self, id: &RequestId) -> bool {
        let waits = || self.held.iter().any(|held| held.id() == Some(id));
        self.unanswered.contains(id) || self.at_once.contains(id) || waits()
    }

    /// Forgets a call that was cancelled while it waited: nobody wants its result, and none is sent.
    fn forget(&mut self, cancelled: Option<&RequestId>) {
        if let Some(id) = cancelled {
            self.at_once.remove(id);
            self.unanswered.remove(id);
        }
        self.held.retain(|held| held.id() != cancelled);
    }

    /// The next call, if the service may have it: the first whose turn it is.
    #[must_use]
    pub fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut load = self.running.load();
        let at = (0..self.held.len()).find(|at| self.is_its_turn(*at, &load.turns))?;
        let bytes = self.held.get(at)?.bytes;
        let fits = load.turns.len() < RUNNING_MAX && load.bytes + bytes <= RUNNING_BYTES_MAX;
        if load.unsent >= UNSENT_BYTES_MAX || !fits && !load.turns.is_empty() {
            return None;
        }
        let Held { mut message, turn, .. } = self.held.remove(at)?;
        let turn = Arc::new(turn);
        load.turns.push(Arc::clone(&turn));
        load.bytes += bytes;
        drop(load);
        let ticket = Ticket { running: self.running.clone(), bytes, turn };
        if let JsonRpcMessage::Request(request) = &mut message {
            request.request.extensions_mut().insert(Arc::new(ticket));
            self.unanswered.insert(request.id.clone());
        }
        Some(message)
    }

    /// Whether the call at `at` waits for none of those that run, or came before it.
    fn is_its_turn(&self, at: usize, running: &[Arc<Turn>]) -> bool {
        let Some(call) = self.held.get(at) else { return false };
        let before = self.held.iter().take(at).map(|held| &held.turn);
        !running.iter().map(AsRef::as_ref).chain(before).any(|earlier| call.turn.waits_for(*earlier))
    }
}

/// Whether a request costs nothing to answer, and begins or keeps up the connection.
const fn is_answered_at_once(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::PingRequest(_) | ClientRequest::InitializeRequest(_))
}
