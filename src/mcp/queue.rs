//! Requests that are not answered yet: calls, in an order that keeps their effects, and batches.
//!
//! A client may send faster than lbx handles requests. Beyond the limit, lbx reads nothing more, and the client waits at
//! its end of the pipe. While a call waits for an answer of the client, lbx reads on, and refuses calls.
//!
//! A client may send a read of a file and an edit of it, or two edits, without waiting for the first response. The
//! workspace's lock runs changes one by one; this module also keeps them in the order of the requests. Reads, searches
//! and commands wait for earlier changes, whatever their paths: a path shows little of what a call reaches, which may
//! be behind a link or in a folder that moves. A change waits for earlier reads. Nothing waits for a search or a
//! command, which may take long.
//!
//! A batch is several messages in one list, and their responses in another. Servers must accept them in revision
//! 2025-03-26; the revision before leaves them to JSON-RPC, and later ones have none.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::ClientRoots;
use super::message::{Request, RequestId};
use crate::control::Control;
use crate::limits::QUEUED_CALLS_MAX;

/// Tool that can shorten what counts as read.
const SESSION: &str = "session";
/// Total bytes of the running calls' messages. A single call may have more.
const RUNNING_BYTES_MAX: usize = 32 << 20;
/// Total bytes of the queued calls' messages. A single call may have more.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Bytes of a queued call in addition to its message.
const HELD_CALL_BYTES: usize = 1 << 10;
/// Largest number of messages in a batch.
pub const MESSAGES_MAX: usize = 100;
/// Largest list of responses, in bytes: a longer one is sent in several, since clients drop the connection at about 10
/// MB.
const LIST_BYTES_MAX: usize = 4_000_000;

/// Ordering rule: the calls that a call waits for, and that wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderingRule {
    /// Waits for nothing: does not look at the workspace.
    Any,
    /// Reads files that the call names.
    Read,
    /// Changes files.
    Change,
    /// Has any other effect: searches, and commands, which may run for long.
    Search,
}

impl OrderingRule {
    /// Returns the ordering rule of a request; `of_tool` has that of each tool.
    ///
    /// A sandbox may be a folder of this workspace under another name, and a merge needs what its fork has: calls in one
    /// are ordered with all others.
    pub fn of(request: &Request, of_tool: impl Fn(&str) -> Self) -> Self {
        match request.method.as_str() {
            "resources/read" => return Self::Read,
            "prompts/get" => return Self::Search,
            "tools/call" => {}
            _ => return Self::Any,
        }
        let name = request.params.get("name").and_then(Value::as_str).unwrap_or_default();
        let argument = |name: &str| request.params.get("arguments")?.get(name);
        // They change what counts as read.
        let marks = argument("mark").is_some_and(|mark| *mark != false) || name == SESSION;
        match of_tool(name) {
            Self::Search if marks => Self::Read,
            turn => turn,
        }
    }

    /// Returns true if this call must wait for the end of an earlier one.
    pub const fn waits_for(self, earlier: Self) -> bool {
        matches!(
            (self, earlier),
            (Self::Change | Self::Read | Self::Search, Self::Change) | (Self::Change, Self::Read)
        )
    }
}

/// A call.
pub struct QueuedCall {
    /// Its message.
    pub request: Request,
    /// Control that cancels it.
    pub control: Control,
    /// Roots of the client when it came.
    pub roots: Arc<ClientRoots>,
    /// Number that no other call has, unlike its id, which the client may use again after a cancellation.
    pub number: u64,
    /// Bytes of the message.
    bytes: usize,
    /// Its ordering rule.
    turn: OrderingRule,
}

/// A running call.
struct RunningCall {
    /// Id, until the client cancels the call.
    id: Option<RequestId>,
    /// Number of the call.
    number: u64,
    /// Bytes of its message.
    bytes: usize,
    /// Its ordering rule.
    turn: OrderingRule,
    /// Control that cancels it.
    control: Control,
}

/// Calls of a client.
#[derive(Default)]
pub struct CallQueue {
    /// Queued calls.
    held: VecDeque<QueuedCall>,
    /// Running calls.
    running: Vec<RunningCall>,
    /// Largest number of running calls.
    running_max: usize,
    /// Number of the next call.
    number: u64,
}

impl CallQueue {
    /// Creates a queue from which at most `running_max` calls run at once.
    pub fn new(running_max: usize) -> Self {
        Self { running_max, ..Self::default() }
    }

    /// Returns true if a message of `bytes` bytes may be queued.
    pub fn has_room(&self, bytes: usize) -> bool {
        let held: usize = self.held.iter().map(|held| held.bytes + HELD_CALL_BYTES).sum();
        self.held.is_empty() || held + bytes <= HELD_BYTES_MAX
    }

    /// Returns true if no call is queued or running.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && !self.has_running()
    }

    /// Returns true if calls are running.
    pub fn has_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns true if a request with that id is queued or running.
    pub fn is_in_use(&self, id: &RequestId) -> bool {
        let is_running = self.running.iter().any(|call| call.id.as_ref() == Some(id));
        is_running || self.held.iter().any(|call| call.request.id == *id)
    }

    /// Queues a request whose message has `bytes` bytes.
    pub fn queue_request(
        &mut self,
        request: Request,
        bytes: usize,
        turn: OrderingRule,
        roots: Arc<ClientRoots>,
    ) {
        let number = self.number;
        self.number += 1;
        self.held.push_back(QueuedCall { request, control: Control::default(), roots, number, bytes, turn });
    }

    /// Returns the next call if there is room: the first one whose turn it is, of the oldest ones.
    pub fn next(&mut self) -> Option<QueuedCall> {
        let at = (0..self.held.len().min(QUEUED_CALLS_MAX)).find(|at| self.is_its_turn(*at))?;
        let bytes = self.held.get(at)?.bytes;
        let running: usize = self.running.iter().map(|call| call.bytes).sum();
        let fits = self.running.len() < self.running_max && running + bytes <= RUNNING_BYTES_MAX;
        if !fits && self.has_running() {
            return None;
        }
        let call = self.held.remove(at)?;
        let (id, control) = (Some(call.request.id.clone()), call.control.clone());
        self.running.push(RunningCall { id, number: call.number, bytes, turn: call.turn, control });
        Some(call)
    }

    /// Returns true if the call at `at` need not wait for any running or earlier call.
    fn is_its_turn(&self, at: usize) -> bool {
        let Some(call) = self.held.get(at) else { return false };
        let before = self.held.iter().take(at).map(|held| held.turn);
        !self.running.iter().map(|call| call.turn).chain(before).any(|earlier| call.turn.waits_for(earlier))
    }

    /// Returns true if the client has cancelled a running call.
    pub fn is_cancelled(&self, number: u64) -> bool {
        self.running.iter().any(|call| call.number == number && call.id.is_none())
    }

    /// Removes a call that has ended; returns its id if the client waits for the response.
    pub fn end(&mut self, number: u64) -> Option<RequestId> {
        let at = self.running.iter().position(|call| call.number == number)?;
        self.running.swap_remove(at).id
    }

    /// Cancels a call: it gets no response, and its id may be used again.
    pub fn cancel(&mut self, id: &RequestId) {
        self.held.retain(|call| call.request.id != *id);
        for call in self.running.iter_mut().filter(|call| call.id.as_ref() == Some(id)) {
            call.control.cancel();
            call.id = None;
        }
    }

    /// Stops all calls; those that run are still answered.
    pub fn stop(&mut self) {
        self.held.clear();
        self.running.iter().for_each(|call| call.control.cancel());
    }
}

/// The unanswered batches.
#[derive(Debug, Default)]
pub struct Batches(Vec<Batch>);

/// A batch.
#[derive(Debug)]
struct Batch {
    /// Its unanswered requests.
    waiting: HashSet<RequestId>,
    /// Responses so far, each without a line end.
    answers: Vec<Vec<u8>>,
}

impl Batches {
    /// Adds a batch with its requests and the errors of its other messages; returns the line that answers it if it has
    /// no requests.
    pub fn begin(&mut self, waiting: HashSet<RequestId>, errors: Vec<Vec<u8>>) -> Option<Vec<u8>> {
        let answers = errors.into_iter().map(without_ending).collect();
        self.0.push(Batch { waiting, answers });
        self.taken()
    }

    /// Returns the line to send for the response to a request: the response if the request came alone, the batch's list
    /// once the batch is complete.
    pub fn answered(&mut self, id: &RequestId, line: Vec<u8>) -> Option<Vec<u8>> {
        let Some(batch) = self.of(id) else { return Some(line) };
        let bytes: usize = batch.answers.iter().map(Vec::len).sum();
        let is_full = bytes + line.len() > LIST_BYTES_MAX && !batch.answers.is_empty();
        let part = is_full.then(|| list_of(&std::mem::take(&mut batch.answers)));
        batch.answers.push(without_ending(line));
        match (part, self.taken()) {
            (Some(part), Some(rest)) => Some([part, rest].concat()),
            (part, rest) => part.or(rest),
        }
    }

    /// Does the same for a cancelled request, which gets no response.
    pub fn forget(&mut self, id: &RequestId) -> Option<Vec<u8>> {
        self.of(id)?;
        self.taken()
    }

    /// Returns the batch of a request, and removes the request from it.
    fn of(&mut self, id: &RequestId) -> Option<&mut Batch> {
        self.0.iter_mut().find_map(|batch| batch.waiting.remove(id).then_some(batch))
    }

    /// Returns the line that answers a complete batch, if there is one with responses.
    fn taken(&mut self) -> Option<Vec<u8>> {
        let at = self.0.iter().position(|batch| batch.waiting.is_empty())?;
        let answers = self.0.swap_remove(at).answers;
        (!answers.is_empty()).then(|| list_of(&answers))
    }
}

/// Returns a line without its end.
fn without_ending(mut line: Vec<u8>) -> Vec<u8> {
    line.truncate(line.trim_ascii_end().len());
    line
}

/// Returns responses as a line with a list.
fn list_of(answers: &[Vec<u8>]) -> Vec<u8> {
    [b"[".as_slice(), &answers.join(&b','), b"]\n"].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::message::{LineContent, Message, parse};

    /// Returns the ordering rule of a call; the tool's name is its effect.
    fn turn(tool: &str, arguments: &Value) -> OrderingRule {
        let of_tool = |name: &str| match name {
            "read" => OrderingRule::Read,
            "bash" | "grep" | "session" => OrderingRule::Search,
            _ => OrderingRule::Change,
        };
        let params = json!({ "name": tool, "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let parsed = parse(call.to_string().as_bytes());
        let Ok(LineContent::One(Message::Request(request))) = parsed else { panic!("{call}") };
        OrderingRule::of(&request, of_tool)
    }

    #[test]
    fn calls_wait_for_earlier_changes_and_changes_for_earlier_reads() {
        let read = turn("read", &json!({ "path": "./src/a.rs", "limit": 5 }));
        let edit = turn("edit", &json!({ "path": "src/a.rs", "old_string": "x", "new_string": "y" }));
        let undo = turn("undo", &json!({ "sandbox": "" }));
        let elsewhere = turn("edit", &json!({ "path": "src/a.rs", "sandbox": "box" }));
        let grep = turn("grep", &json!({ "pattern": "x", "mark": true }));
        let compaction = turn("session", &json!({ "action": "compact" }));
        let bash = turn("bash", &json!({ "command": "cat src/a.rs" }));
        for (later, earlier, waits) in [
            (edit, read, true),
            (read, edit, true),
            (undo, edit, true),
            (undo, read, true),
            (bash, edit, true),
            (read, read, false),
            (read, bash, false),
            (bash, read, false),
            (bash, bash, false),
            (edit, bash, false),
            (elsewhere, edit, true),
            (edit, grep, true),
            (edit, compaction, true),
        ] {
            assert_eq!(later.waits_for(earlier), waits, "{later:?} after {earlier:?}");
        }
    }

    #[test]
    fn oversized_batch_response_is_sent_in_parts() {
        let mut batches = Batches::default();
        let id = RequestId::Number;
        assert_eq!(batches.begin([1, 2, 3].map(id).into(), Vec::new()), None);
        let long = vec![b'1'; LIST_BYTES_MAX / 2];
        assert_eq!(batches.answered(&id(1), long.clone()), None);
        assert_eq!(batches.answered(&id(2), long.clone()), None);
        let sent = batches.answered(&id(3), long).unwrap();
        let lines: Vec<usize> = sent.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).collect();
        assert_eq!(lines, [LIST_BYTES_MAX + 4, LIST_BYTES_MAX / 2 + 3]);
    }
}
