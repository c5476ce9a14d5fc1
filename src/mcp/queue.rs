//! Queues requests, as many and as large as memory allows.
//!
//! A client may send faster than lbx handles requests, or read slower than lbx responds. Beyond the limits, lbx reads
//! nothing more, and the client waits at its end of the pipe. A ping or a cancellation does not wait: it overtakes the
//! queued requests.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions as _, JsonRpcMessage, RequestId,
};
use tokio::sync::Notify;

use super::turn::{AccessByTool, Turn};

/// Largest number of calls in the service, running or waiting for a thread.
const RUNNING_MAX: usize = 32;
/// Total bytes of their messages. A single call may have more.
const RUNNING_BYTES_MAX: usize = 32 << 20;
/// Largest number of calls queued behind these.
const HELD_MAX: usize = 64;
/// Total bytes of their messages.
const HELD_BYTES_MAX: usize = 8 << 20;
/// Largest number of unanswered requests that bypass the queue: beyond it, lbx reads nothing more.
const AT_ONCE_MAX: usize = 256;
/// Bytes of messages that the client has not read: beyond it, no further request begins.
const UNSENT_BYTES_MAX: usize = 8 << 20;
/// Bytes of such a message in addition to its text: it has its own task, which waits with it.
const UNSENT_MESSAGE_BYTES: usize = 4 << 10;

/// Calls of a client.
pub struct Queue {
    /// Queued calls.
    held: VecDeque<Held>,
    /// Effects of the tools.
    accesses: AccessByTool,
    /// Calls in the service.
    running: Arc<Running>,
    /// Ids of unanswered calls in the service.
    unanswered: HashSet<RequestId>,
    /// Ids of unanswered requests that bypassed the queue.
    at_once: HashSet<RequestId>,
}

/// A queued call.
struct Held {
    /// Its message.
    message: ClientJsonRpcMessage,
    /// Bytes of the message.
    bytes: usize,
    /// Its ordering rule.
    turn: Turn,
}

impl Held {
    /// Returns the id of the request.
    fn id(&self) -> Option<&RequestId> {
        match &self.message {
            JsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        }
    }
}

/// The calls in the service.
#[derive(Default)]
struct Running {
    /// Their number, and the bytes of their messages.
    load: Mutex<Load>,
    /// Signal that a call has ended, or that the client has read a message.
    ended: Notify,
}

/// Calls, and the bytes of messages.
#[derive(Default)]
struct Load {
    /// Ordering rule of each call.
    turns: Vec<Arc<Turn>>,
    /// Bytes of the calls' messages.
    bytes: usize,
    /// Bytes of messages that the client has not read.
    unsent: usize,
}

impl Running {
    /// Locks and returns the current load.
    fn load(&self) -> MutexGuard<'_, Load> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a message until the client has read it.
pub struct Unsent {
    /// Load in which it counts.
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

/// Counts a call until drop, when the call has ended.
struct Ticket {
    /// Load in which it counts.
    running: Arc<Running>,
    /// Bytes of the call's message.
    bytes: usize,
    /// Ordering rule of the call.
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
    /// Creates a queue for tools with these effects.
    #[must_use]
    pub fn new(accesses: AccessByTool) -> Self {
        let (unanswered, at_once) = (HashSet::new(), HashSet::new());
        Self { held: VecDeque::new(), accesses, running: Arc::default(), unanswered, at_once }
    }

    /// Returns true if no call is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns true if another message may be read.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let bytes: usize = self.held.iter().map(|held| held.bytes).sum();
        self.at_once.len() < AT_ONCE_MAX
            && self.held.len() < HELD_MAX
            && bytes < HELD_BYTES_MAX
            && self.running.load().unsent < UNSENT_BYTES_MAX
    }

    /// Marks a request as answered.
    pub fn answered(&mut self, id: &RequestId) {
        self.unanswered.remove(id);
        if self.at_once.remove(id) {
            self.running.ended.notify_one();
        }
    }

    /// Counts a message of `bytes` bytes to the client until the returned value is dropped.
    #[must_use]
    pub fn unsent(&self, bytes: usize) -> Unsent {
        let bytes = bytes + UNSENT_MESSAGE_BYTES;
        self.running.load().unsent += bytes;
        Unsent { running: self.running.clone(), bytes }
    }

    /// Returns true if the client has messages to read.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.running.load().unsent > 0
    }

    /// Drops the queued calls: nobody reads their responses.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// Waits until a call has ended, or the client has read a message.
    pub async fn freed(&self) {
        self.running.ended.notified().await;
    }

    /// Queues a message of `bytes` bytes; returns it if it need not wait.
    ///
    /// # Errors
    /// Returns the id of a request if an unanswered request has the same one.
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

    /// Returns true if a request with that id is queued or unanswered.
    #[must_use]
    pub fn is_in_use(&self, id: &RequestId) -> bool {
        let waits = || self.held.iter().any(|held| held.id() == Some(id));
        self.unanswered.contains(id) || self.at_once.contains(id) || waits()
    }

    /// Drops a call that was cancelled in the queue: it gets no response.
    fn forget(&mut self, cancelled: Option<&RequestId>) {
        if let Some(id) = cancelled {
            self.at_once.remove(id);
            self.unanswered.remove(id);
        }
        self.held.retain(|held| held.id() != cancelled);
    }

    /// Returns the next call if the service has room: the first one whose turn it is.
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

    /// Returns true if the call at `at` need not wait for any running or earlier call.
    fn is_its_turn(&self, at: usize, running: &[Arc<Turn>]) -> bool {
        let Some(call) = self.held.get(at) else { return false };
        let before = self.held.iter().take(at).map(|held| &held.turn);
        !running.iter().map(AsRef::as_ref).chain(before).any(|earlier| call.turn.waits_for(*earlier))
    }
}

/// Returns true if a request is answered without cost, and begins or keeps up the connection.
const fn is_answered_at_once(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::PingRequest(_) | ClientRequest::InitializeRequest(_))
}
