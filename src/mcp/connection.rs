//! The connection to a client: one JSON-RPC message per line, in and out.
//!
//! One thread reads, one writes, and each running call has one of its own. All of them share one state. A ping, a
//! cancellation or a response overtakes the queued calls. When too many wait, the client waits at its end of the pipe, unless
//! one of them waits for its answer.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::ClientRoots;
use super::message::{
    self, INTERNAL_ERROR, InvalidMessage, LineContent, LineReader, Message, ReadLine, Request, RequestId,
    RpcError,
};
use super::queue::{Batches, CallQueue, MESSAGES_MAX, OrderingRule, QueuedCall};
use crate::cli::output::BlockingWriter;
use crate::control::Control;
use crate::engine::store::calls::Delivery;
use crate::error::without_panic;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::platform::HANGUP;

/// Bytes per read of stdin: the size of a pipe.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes of messages that the client has not read: beyond it, no further call begins, and no message is read.
const UNSENT_BYTES_MAX: usize = 8 << 20;
/// Bytes of such a message in addition to its text.
const UNSENT_MESSAGE_BYTES: usize = 64;
/// Time in which one of the calls must end after the client has closed its end, and then the next one, so that requests
/// piped in all at once are answered too.
const GRACE: Duration = Duration::from_secs(1);
/// Time that all these calls have together.
const GRACE_MAX: Duration = Duration::from_secs(60);
/// Time for which a client that has closed its end may read none of its messages.
const STALL_TIME_MAX: Duration = Duration::from_secs(5);
/// Time in which cancelled calls must end.
const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(5);
/// Time in which the last responses must be written.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(2);
/// Time after which a thread without a call ends.
const IDLE_TIME_MAX: Duration = Duration::from_secs(10);

/// Result of a request.
pub type RequestResult = Result<Value, RpcError>;

/// Handles the messages of a client.
pub trait Service: Send + Sync + 'static {
    /// Returns true if the agreed revision has batches.
    fn has_batches(&self) -> bool;
    /// Answers a request that costs nothing, and begins or keeps up the connection; returns `None` for any other.
    fn answer_at_once(&self, request: &Request) -> Option<RequestResult>;
    /// Returns the ordering rule for a request.
    fn ordering_rule(&self, request: &Request) -> OrderingRule;
    /// Returns the roots of the client for a request that comes now.
    fn roots(&self) -> Arc<ClientRoots>;
    /// Answers a request; adds the work that ends with the response.
    fn answer(
        &self,
        connection: &Arc<Connection>,
        call: QueuedCall,
        deliveries: &Deliveries,
    ) -> RequestResult;
    /// Handles a notification.
    fn notice(&self, method: &str);
}

/// Work that ends with a response.
#[derive(Default)]
pub struct Deliveries(Mutex<Vec<Delivery>>);

impl Deliveries {
    /// Adds the work of some calls.
    pub fn add(&self, calls: Vec<Delivery>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(calls);
    }
}

/// Reason why a request of the server has no result.
pub enum RequestFailure {
    /// The client refused it.
    Refused(RpcError),
    /// The client did not answer in time.
    Timeout,
    /// The call that asked was cancelled.
    Cancelled,
}

/// The state that all threads share.
pub struct Connection {
    /// Messages and calls.
    state: Mutex<ConnectionState>,
    /// Signal that a call may begin.
    begun: Condvar,
    /// Signal that there is a message to write.
    posted: Condvar,
    /// Signal that the client answered a request, or that a call was cancelled.
    replied: Condvar,
    /// Signal that a call has begun or ended, or that a message was written.
    changed: Condvar,
    /// Wakes the main thread, which ends the process.
    waker: UnixStream,
}

/// Messages and calls.
#[derive(Default)]
struct ConnectionState {
    /// Calls that run or wait for their turn.
    queue: CallQueue,
    /// Calls that a thread is about to make.
    ready: VecDeque<QueuedCall>,
    /// Number of threads without a call.
    idle: usize,
    /// Unanswered batches.
    batches: Batches,
    /// Requests of the server, with the answers that nobody has taken yet.
    asked: BTreeMap<i64, Option<RequestResult>>,
    /// Id of the server's next request.
    next_id: i64,
    /// Lines to write.
    outbox: VecDeque<Vec<u8>>,
    /// Number of lines queued so far.
    posted: u64,
    /// Number of those that the client has read.
    sent: u64,
    /// Read marks that count only if the client reads the lines queued so far, with the number of these.
    unread: VecDeque<(u64, Vec<Delivery>)>,
    /// Bytes of lines that the client has not read.
    unsent: usize,
    /// Number of calls that have ended, and of lines that the client has read while too many were unread.
    steps: u64,
    /// True if the client has closed its end of stdout.
    is_broken: bool,
}

impl ConnectionState {
    /// Returns true if the client has read most of its messages.
    const fn is_read(&self) -> bool {
        self.unsent < UNSENT_BYTES_MAX
    }

    /// Returns true if a call waits for the client's answer to a question.
    fn is_asking(&self) -> bool {
        self.asked.values().any(Option::is_none)
    }

    /// Returns true if another message may be read. A client that sends calls faster than they are made has to wait, but
    /// not with the answer that one of them waits for.
    fn may_be_read(&self) -> bool {
        self.is_read() && (self.is_asking() || self.queue.has_room(0))
    }
}

impl Connection {
    /// Creates a connection with at most `calls_max` calls at once.
    fn new(waker: UnixStream, calls_max: usize) -> Self {
        let state = ConnectionState { queue: CallQueue::new(calls_max), ..ConnectionState::default() };
        let (begun, posted, replied, changed) = <(Condvar, Condvar, Condvar, Condvar)>::default();
        Self { state: Mutex::new(state), begun, posted, replied, changed, waker }
    }

    /// Locks the state.
    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a line for the client.
    fn post(&self, state: &mut ConnectionState, line: Vec<u8>) {
        if !state.is_broken {
            state.unsent += line.len() + UNSENT_MESSAGE_BYTES;
            state.posted += 1;
            state.outbox.push_back(line);
            self.posted.notify_one();
        }
    }

    /// Sends the response to a request. Its marks stay if it joins a batch that is not complete.
    fn respond(
        &self,
        state: &mut ConnectionState,
        id: &RequestId,
        answer: &RequestResult,
        shown: Vec<Delivery>,
    ) {
        if let Some(line) = state.batches.answered(id, message::response_line(id, answer)) {
            self.post(state, line);
            state.unread.push_back((state.posted, shown));
        }
    }

    /// Sends a notification, unless the client reads none.
    pub fn notify(&self, method: &str, params: &Value) {
        let mut state = self.state();
        if state.is_read() {
            self.post(&mut state, message::request_line(None, method, Some(params)));
        }
    }

    /// Sends a request to the client; returns its id.
    pub fn request(&self, method: &str, params: Option<&Value>) -> i64 {
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        state.asked.insert(id, None);
        self.post(&mut state, message::request_line(Some(&RequestId::Number(id)), method, params));
        self.changed.notify_all();
        id
    }

    /// Returns true if the client has answered a request.
    pub fn is_answered(&self, id: i64) -> bool {
        self.state().asked.get(&id).is_some_and(Option::is_some)
    }

    /// Waits for the response to a request, which stays open until it comes.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn answer_to(&self, id: i64, time_max: Duration, control: &Control) -> Result<Value, RequestFailure> {
        let is_open = |state: &mut ConnectionState| {
            state.asked.get(&id).is_some_and(Option::is_none) && !control.is_cancelled()
        };
        let waited = self.replied.wait_timeout_while(self.state(), time_max, is_open);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        match state.asked.get_mut(&id).and_then(Option::take) {
            Some(answer) => {
                state.asked.remove(&id);
                answer.map_err(RequestFailure::Refused)
            }
            None if control.is_cancelled() => Err(RequestFailure::Cancelled),
            None => Err(RequestFailure::Timeout),
        }
    }

    /// Sends a request to the client, and waits for the response. If the call stops waiting, tells the client, so that
    /// it removes a question from the screen.
    ///
    /// # Errors
    /// Fails if the client refuses, or does not answer in time, or the call is cancelled.
    pub fn ask(
        &self,
        method: &str,
        params: Option<&Value>,
        time_max: Duration,
        control: &Control,
    ) -> Result<Value, RequestFailure> {
        let id = self.request(method, params);
        let answer = self.answer_to(id, time_max, control);
        let reason = match &answer {
            Ok(_) | Err(RequestFailure::Refused(_)) => return answer,
            Err(RequestFailure::Cancelled) => "the call was cancelled",
            Err(RequestFailure::Timeout) => "no answer in time",
        };
        let mut state = self.state();
        state.asked.remove(&id);
        let dropped = json!({ "requestId": id, "reason": reason });
        self.post(&mut state, message::request_line(None, "notifications/cancelled", Some(&dropped)));
        answer
    }

    /// Waits until another message may be read. Returns false if the client is gone and reads no more.
    fn may_be_read(&self) -> bool {
        let mut state = self.state();
        while !state.may_be_read() {
            let waited = self.changed.wait_timeout(state, STALL_TIME_MAX);
            let (next, time) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if time.timed_out() && has_hung_up() {
                return false;
            }
        }
        true
    }

    /// Lets the calls that are left end by themselves, as long as one of them does, or the client reads, every now and
    /// then.
    fn drain(&self) {
        let end = Instant::now() + GRACE_MAX;
        let mut state = self.state();
        while !state.queue.is_empty() && Instant::now() < end {
            let (steps, patience) = (state.steps, if state.is_read() { GRACE } else { STALL_TIME_MAX });
            let waited = self.changed.wait_timeout_while(state, patience, |state| state.steps == steps);
            let (next, time) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if time.timed_out() {
                return;
            }
        }
    }

    /// Waits until something holds, at most for a time.
    fn wait_at_most(&self, time: Duration, holds: impl Fn(&ConnectionState) -> bool) {
        drop(self.changed.wait_timeout_while(self.state(), time, |state| !holds(state)));
    }

    /// Ends the connection, from any thread.
    fn close(&self) {
        // The main thread may be gone already.
        let _ = (&self.waker).write_all(&[0]);
    }

    /// Cancels all calls, and waits for their last responses.
    fn finish(&self) {
        self.state().queue.stop();
        self.replied.notify_all();
        self.wait_at_most(SHUTDOWN_TIME_MAX, |state| !state.queue.has_running());
        self.wait_at_most(FLUSH_TIME_MAX, |state| state.unsent == 0);
        let unread = std::mem::take(&mut self.state().unread);
        unread.into_iter().flat_map(|(_, shown)| shown).for_each(Delivery::revoke);
    }
}

/// Serves a client on stdin and stdout until it is gone, or a signal ends the process: calls are cancelled, and their
/// processes are killed.
///
/// # Errors
/// Returns the OS error.
pub fn serve<S: Service>(service: Arc<S>, calls_max: usize) -> io::Result<()> {
    let (waker, mut woken) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
    }
    let connection = Arc::new(Connection::new(waker, calls_max));
    let serving = Arc::new(ConnectionService { connection, service });
    let (reader, writer) = (Arc::clone(&serving), Arc::clone(&serving));
    let stdin = unbuffered(io::stdin())?;
    std::thread::Builder::new().name("reader".to_owned()).spawn(move || {
        reader.read(LineReader::new(BufReader::with_capacity(BUFFER_BYTES, stdin), MESSAGE_BYTES_MAX));
        reader.connection.close();
    })?;
    let stdout = unbuffered(io::stdout())?;
    std::thread::Builder::new().name("writer".to_owned()).spawn(move || writer.write(stdout))?;
    // Both threads may stay in a call of the system; they end with the process.
    let _ = woken.read(&mut [0]);
    serving.connection.finish();
    Ok(())
}

/// Returns stdin or stdout without a buffer.
fn unbuffered(stream: impl AsFd) -> io::Result<BlockingWriter<File>> {
    Ok(BlockingWriter(stream.as_fd().try_clone_to_owned()?.into()))
}

/// Returns true if the client has closed its end of stdin, even if unread bytes are left.
fn has_hung_up() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, HANGUP)];
    let is_ready = poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    is_ready && polled.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | HANGUP | PollFlags::ERR))
}

/// A connection, and what handles its messages.
struct ConnectionService<S> {
    /// The connection.
    connection: Arc<Connection>,
    /// The handler.
    service: Arc<S>,
}

impl<S: Service> ConnectionService<S> {
    /// Reads messages until the client sends no more, and lets the last calls end by themselves for a while.
    fn read(self: &Arc<Self>, mut lines: LineReader<impl BufRead>) {
        let connection = &self.connection;
        while connection.may_be_read() {
            let (parsed, bytes) = match lines.read() {
                ReadLine::Whole(line) if line.trim_ascii().is_empty() => continue,
                ReadLine::Whole(line) => (message::parse(&line), line.len()),
                ReadLine::TooLong(id) => (
                    Err(InvalidMessage::new(
                        id,
                        format!("the message has more than {MESSAGE_BYTES_MAX} bytes"),
                    )),
                    0,
                ),
                ReadLine::End => break,
            };
            let mut state = connection.state();
            let taken = match parsed {
                Ok(LineContent::One(message)) => self.handle_message(&mut state, message, bytes),
                Ok(LineContent::Batch(messages)) => {
                    self.take_batch(&mut state, messages, bytes).map(|()| None)
                }
                Err(refusal) => Err(refusal),
            };
            match taken {
                Ok(Some((id, answer))) => connection.respond(&mut state, &id, &answer, Vec::new()),
                Ok(None) => {}
                Err(refusal) => connection.post(&mut state, refusal.line()),
            }
            self.begin(&mut state);
        }
        connection.drain();
    }

    /// Handles a message: queues a request, or returns its id and answer if it need not wait.
    ///
    /// # Errors
    /// Returns the response to a rejected message.
    fn handle_message(
        &self,
        state: &mut ConnectionState,
        message: Message,
        bytes: usize,
    ) -> Result<Option<(RequestId, RequestResult)>, InvalidMessage> {
        match message {
            Message::Request(request) if state.queue.is_in_use(&request.id) => {
                return Err(InvalidMessage::of_id_in_use(request.id));
            }
            Message::Request(request) => {
                if let Some(answer) = self.service.answer_at_once(&request) {
                    return Ok(Some((request.id, answer)));
                }
                if state.is_asking() && !state.queue.has_room(bytes) {
                    let full =
                        "too many calls wait for earlier ones; this one was not made: send it again later";
                    return Ok(Some((request.id, Err(RpcError::new(INTERNAL_ERROR, full)))));
                }
                let turn = self.service.ordering_rule(&request);
                state.queue.queue_request(request, bytes, turn, self.service.roots());
            }
            Message::Notification { method, mut params } if method == "notifications/cancelled" => {
                let id = params.remove("requestId").map(serde_json::from_value);
                if let Some(Ok(id)) = id {
                    state.queue.cancel(&id);
                    self.connection.replied.notify_all();
                    // It may complete its batch.
                    let line = state.batches.forget(&id);
                    line.into_iter().for_each(|line| self.connection.post(state, line));
                }
            }
            Message::Notification { method, .. } => self.service.notice(&method),
            Message::Response { id: Some(RequestId::Number(id)), result } => {
                if let Some(answer) = state.asked.get_mut(&id) {
                    *answer = Some(result);
                    self.connection.replied.notify_all();
                }
            }
            Message::Response { .. } => {}
        }
        Ok(None)
    }

    /// Handles the messages of a batch.
    ///
    /// # Errors
    /// Returns the response to a batch that is rejected whole.
    fn take_batch(
        &self,
        state: &mut ConnectionState,
        messages: Vec<Result<Message, InvalidMessage>>,
        bytes: usize,
    ) -> Result<(), InvalidMessage> {
        if !self.service.has_batches() {
            return Err(InvalidMessage::of_batch("this protocol revision has no batches"));
        }
        if messages.len() > MESSAGES_MAX {
            return Err(InvalidMessage::of_batch(&format!("a batch has at most {MESSAGES_MAX} messages")));
        }
        let (mut waiting, mut answers, mut errors) = (HashSet::new(), Vec::new(), Vec::new());
        let bytes_each = bytes / messages.len().max(1);
        for message in messages {
            let id = match &message {
                Ok(Message::Request(request)) => Some(request.id.clone()),
                _ => None,
            };
            let taken = match id.clone().filter(|id| waiting.contains(id)) {
                Some(id) => Err(InvalidMessage::of_id_in_use(id)),
                None => message.and_then(|message| self.handle_message(state, message, bytes_each)),
            };
            match taken {
                Ok(answer) => {
                    waiting.extend(id);
                    answers.extend(answer);
                }
                Err(refusal) => errors.push(refusal.line()),
            }
        }
        // A request that the same batch cancelled is not waited for.
        waiting.retain(|id| state.queue.is_in_use(id) || answers.iter().any(|(answered, _)| answered == id));
        let line = state.batches.begin(waiting, errors);
        line.into_iter().for_each(|line| self.connection.post(state, line));
        answers.iter().for_each(|(id, answer)| self.connection.respond(state, id, answer, Vec::new()));
        Ok(())
    }

    /// Begins the calls whose turn it is, unless the client reads no responses.
    fn begin(self: &Arc<Self>, state: &mut ConnectionState) {
        while state.is_read()
            && let Some(call) = state.queue.next()
        {
            let number = call.number;
            state.ready.push_back(call);
            if state.ready.len() <= state.idle {
                self.connection.begun.notify_one();
                continue;
            }
            let worker = Arc::clone(self);
            match std::thread::Builder::new().name("call".to_owned()).spawn(move || worker.work()) {
                Ok(_) => state.idle += 1,
                Err(error) => {
                    state.ready.pop_back();
                    let failed = RpcError::new(INTERNAL_ERROR, format!("cannot start a thread: {error}"));
                    self.end(state, number, &Err(failed), Vec::new());
                }
            }
        }
        self.connection.changed.notify_all();
    }

    /// Ends a call; responds to it if the client waits for that.
    fn end(&self, state: &mut ConnectionState, number: u64, answer: &RequestResult, shown: Vec<Delivery>) {
        state.steps += 1;
        if let Some(id) = state.queue.end(number) {
            self.connection.respond(state, &id, answer, shown);
        }
    }

    /// Makes calls until there are none for a while.
    fn work(self: &Arc<Self>) {
        let mut state = self.connection.state();
        loop {
            let Some(call) = state.ready.pop_front() else {
                let waited = self.connection.begun.wait_timeout(state, IDLE_TIME_MAX);
                let (next, time) = waited.unwrap_or_else(PoisonError::into_inner);
                state = next;
                if time.timed_out() && state.ready.is_empty() {
                    state.idle -= 1;
                    return;
                }
                continue;
            };
            state.idle -= 1;
            drop(state);
            let number = call.number;
            let deliveries = Deliveries::default();
            let answer = without_panic(|| Ok(self.service.answer(&self.connection, call, &deliveries)));
            let answer = answer.unwrap_or_else(|error| Err(RpcError::new(INTERNAL_ERROR, error.message())));
            let mut shown = deliveries.0.into_inner().unwrap_or_else(PoisonError::into_inner);
            shown.retain(Delivery::has_marks);
            state = self.connection.state();
            if !shown.is_empty() && state.queue.is_cancelled(number) {
                // Before later calls begin.
                drop(state);
                shown.drain(..).for_each(Delivery::revoke);
                state = self.connection.state();
            }
            state.idle += 1;
            self.end(&mut state, number, &answer, shown);
            self.begin(&mut state);
        }
    }

    /// Writes messages until the client reads no more, and then ends the connection.
    fn write(self: &Arc<Self>, mut stdout: BlockingWriter<File>) {
        let connection = &self.connection;
        loop {
            let waited = connection.posted.wait_while(connection.state(), |state| state.outbox.is_empty());
            let line = waited.unwrap_or_else(PoisonError::into_inner).outbox.pop_front().unwrap_or_default();
            let written = stdout.write_all(&line);
            let mut state = connection.state();
            // Progress of a call that runs on is no step.
            state.steps += u64::from(!state.is_read());
            state.unsent -= line.len() + UNSENT_MESSAGE_BYTES;
            if written.is_err() {
                state.is_broken = true;
                state.outbox.clear();
                state.unsent = 0;
                return connection.close();
            }
            state.sent += 1;
            while state.unread.front().is_some_and(|(posted, _)| *posted <= state.sent) {
                state.unread.pop_front();
            }
            self.begin(&mut state);
        }
    }
}
