//! The client of a request: what it says about itself, and what it is asked.
//!
//! With `--confirm`, no change is made unless the person at the client agrees to it. Up to revision 2025-11-25 the server
//! asks by a request of its own, and the call waits. The stateless revision has no such requests: the response of the
//! call is the question (`input_required`), and the client repeats the call with the person's answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::ClientRoots;
use super::connection::{Connection, Deliveries, RequestFailure};
use crate::control::{Control, cancelled};
use crate::engine::workspace::{Workspace, must_be_meant};
use crate::error::{Error, ErrorKind};
use crate::request::quoted;
use crate::sha256::Sha256;
use crate::text::escaped::{self, file_path};

/// First revision without a handshake: each request says what its client can do.
pub const STATELESS: &str = "2026-07-28";
/// Time in which the client must name its roots.
const ROOTS_TIME_MAX: Duration = Duration::from_secs(5);
/// Time that a person has to answer.
const PERSON_TIME_MAX: Duration = Duration::from_secs(600);
/// Largest number of open questions. Each takes a thread, which other calls must not lack.
pub const QUESTIONS_MAX: usize = 16;
/// Name of the only question in a response.
const QUESTION: &str = "consent";
/// Error for a change if the client has no way to ask.
const CANNOT_ASK: &str =
    "changes need a person's consent, and this client cannot ask for it (elicitation in form mode)";

/// Description of a client, by its handshake or by a request.
#[derive(Debug, Clone, Default)]
pub struct ClientInfo {
    /// Name that the client has for itself.
    pub name: Option<String>,
    /// Its capabilities.
    pub capabilities: Map<String, Value>,
    /// Protocol revision.
    pub revision: String,
}

impl ClientInfo {
    /// Returns true if the revision has no handshake, and no requests of the server.
    pub fn is_stateless(&self) -> bool {
        self.revision.as_str() >= STATELESS
    }

    /// Returns a capability of the client.
    fn capability(&self, name: &str) -> Option<&Value> {
        self.capabilities.get(name).filter(|value| !value.is_null())
    }

    /// Returns true if the client shows forms: it says so, or names no mode of elicitation, as clients did when there
    /// was only one.
    fn shows_forms(&self) -> bool {
        let modes = self.capability("elicitation");
        modes.is_some_and(|modes| modes.get("form").is_some() || modes.get("url").is_none())
    }
}

/// The client of one request.
pub struct Client<'a> {
    /// Its description.
    pub caller: ClientInfo,
    /// Connection to it.
    pub connection: &'a Connection,
    /// Control of the request.
    pub control: &'a Control,
    /// Roots of the client when the request came.
    pub roots: &'a ClientRoots,
    /// Work that waits until the client has the response.
    pub deliveries: &'a Deliveries,
}

/// The workspace of a server: the configured one, else the client's first root.
pub struct ServerRoot {
    /// Workspace found where the server was started.
    own: PathBuf,
    /// True if the command line names it, so that the client's roots do not count.
    is_named: bool,
    /// Roots for the calls that are received now.
    current: Mutex<Arc<ClientRoots>>,
    /// Folders in which calls have worked.
    used: Mutex<BTreeSet<PathBuf>>,
}

/// The folder that calls work in.
#[derive(Debug, Clone)]
pub struct ChosenRoot {
    /// Path of the folder.
    pub path: PathBuf,
    /// Reason why it is not the client's root, until a response has shown it.
    pub warning: Option<String>,
    /// True if neither the command line nor the client named it.
    is_implied: bool,
    /// Number of further folders that the client named, which are not served.
    others: usize,
}

impl ChosenRoot {
    /// Returns a root without a warning.
    fn silent(path: PathBuf) -> Self {
        Self { path, warning: None, is_implied: false, others: 0 }
    }

    /// Opens the workspace.
    ///
    /// # Errors
    /// Fails with `invalid_request` if nobody named a folder and this one is the disk or a home folder.
    pub fn open(&self) -> Result<Workspace, Error> {
        if self.is_implied {
            must_be_meant(&self.path)?;
        }
        let mut workspace = Workspace::open(&self.path)?;
        if self.others > 0 {
            let served = self.path.display();
            workspace.note_outside(format!(
                "the client named {} roots, of which {served} is served",
                self.others + 1
            ));
        }
        Ok(workspace)
    }
}

impl ServerRoot {
    /// Creates a root from the workspace found at the start.
    pub fn new(own: PathBuf, is_named: bool) -> Self {
        Self { used: Mutex::new([own.clone()].into()), own, is_named, current: Mutex::default() }
    }

    /// Returns the roots for a call that is received now.
    pub fn current(&self) -> Arc<ClientRoots> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the root for a request: it asks the client once, and other requests wait meanwhile.
    ///
    /// # Errors
    /// Fails if the call was cancelled: nobody knows then where it should work.
    pub fn of(&self, client: &Client<'_>) -> Result<ChosenRoot, Error> {
        if self.is_named {
            return Ok(ChosenRoot::silent(self.own.clone()));
        }
        let mut roots = client.roots.lock();
        let is_late = roots.question.is_some_and(|id| client.connection.is_answered(id));
        if roots.chosen.is_none() || is_late {
            let implied = ChosenRoot { is_implied: true, ..ChosenRoot::silent(self.own.clone()) };
            let root = match client.first_root(&mut roots.question) {
                Ok(Some((path, others))) => ChosenRoot { others, ..ChosenRoot::silent(path) },
                Ok(None) => implied,
                Err(why) => ChosenRoot { warning: Some(self.warning(&why)), ..implied },
            };
            if roots.question.is_some() {
                client.control.check_cancelled()?;
            }
            self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(root.path.clone());
            roots.chosen = Some(root);
        }
        roots.chosen.clone().ok_or_else(cancelled)
    }

    /// Returns the warning if the client's root cannot be used.
    fn warning(&self, why: &str) -> String {
        format!(
            "{why}: relative paths start at {}, where the server was started; `lbx mcp --workspace DIR` names another folder",
            escaped::line(&self.own.display().to_string())
        )
    }

    /// Returns the folders in which calls have worked.
    pub fn used(&self) -> BTreeSet<PathBuf> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets the client's roots for the calls that come from now on: they have changed.
    pub fn forget(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }
}

impl ClientRoots {
    /// Clears the warning after a response has shown it.
    pub fn clear_warning(&self) {
        if let Some(root) = &mut self.lock().chosen {
            root.warning = None;
        }
    }
}

impl Client<'_> {
    /// Returns the client's first root that is a folder on this machine, and the number of its other roots; `None` if it
    /// names no root. The error is the reason why none of its roots can be used. A question without an answer stays open.
    fn first_root(&self, question: &mut Option<i64>) -> Result<Option<(PathBuf, usize)>, String> {
        if self.caller.capability("roots").is_none() {
            return Ok(None);
        }
        let answer = if self.caller.is_stateless() {
            Err("this revision has no such request".to_owned())
        } else {
            let id = *question.get_or_insert_with(|| self.connection.request("roots/list", None));
            let answer = self.connection.answer_to(id, ROOTS_TIME_MAX, self.control);
            if !matches!(answer, Err(RequestFailure::Timeout | RequestFailure::Cancelled)) {
                *question = None;
            }
            match answer {
                Ok(answer) => Ok(answer),
                Err(RequestFailure::Refused(error)) => Err(error.message),
                Err(RequestFailure::Cancelled) => Err("the call was cancelled".to_owned()),
                Err(RequestFailure::Timeout) => {
                    let seconds = ROOTS_TIME_MAX.as_secs();
                    return Err(format!("the client did not name its roots within {seconds} s"));
                }
            }
        };
        let answer = answer
            .map_err(|why| format!("the client did not name its roots ({})", escaped::line(&quoted(&why))))?;
        let roots = answer.get("roots").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let uris: Vec<&str> = roots.iter().filter_map(|root| root.get("uri")?.as_str()).collect();
        let mut folders = uris.iter().filter_map(|uri| file_path(uri));
        match (folders.find(|folder| is_folder(folder)), uris.first()) {
            (None, Some(uri)) => {
                let root = quoted(uri);
                Err(format!("the client's root {} is not a folder on this machine", escaped::line(&root)))
            }
            (folder, _) => Ok(folder.map(|folder| (folder, uris.len() - 1))),
        }
    }
}

/// Returns true if a path is a folder.
#[expect(clippy::disallowed_methods, reason = "the client names the root as the command line would")]
fn is_folder(path: &Path) -> bool {
    path.is_dir()
}

/// The person at the client of one call.
pub struct Person<'a> {
    /// The client.
    client: &'a Client<'a>,
    /// Number of open questions to a person.
    questions: &'a AtomicUsize,
    /// Name and arguments of the call.
    call: String,
    /// State that the client sends back with an answer.
    state: Option<String>,
    /// The answer.
    answer: Option<Value>,
    /// Question for the response, if the server cannot ask by a request.
    question: Mutex<Option<Value>>,
}

impl<'a> Person<'a> {
    /// Returns the person at the client that makes a call with these parameters.
    pub fn at(client: &'a Client<'a>, params: &Map<String, Value>, questions: &'a AtomicUsize) -> Self {
        let answer = params.get("inputResponses").and_then(|given| given.get(QUESTION)).cloned();
        let state = params.get("requestState").and_then(Value::as_str).map(str::to_owned);
        let call = json!([params.get("name"), params.get("arguments")]).to_string();
        Self { client, questions, call, state, answer, question: Mutex::default() }
    }

    /// Returns the question that replaces the result of the call, if there is one.
    pub fn question(self) -> Option<Value> {
        self.question.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks whether a change is allowed.
    ///
    /// # Errors
    /// Fails if the person does not agree, or cannot be asked.
    pub fn ask(&self, text: &str) -> Result<(), Error> {
        match (self.client.caller.shows_forms(), self.client.caller.is_stateless()) {
            (false, _) => Err(denied(CANNOT_ASK)),
            (true, false) => self.ask_by_request(text),
            (true, true) => self.ask_by_answer(text),
        }
    }

    /// Asks by a request to the client, and waits for the answer.
    fn ask_by_request(&self, text: &str) -> Result<(), Error> {
        let add = |open: usize| (open < QUESTIONS_MAX).then_some(open + 1);
        if self.questions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_err() {
            let message =
                format!("{QUESTIONS_MAX} other changes wait for a person's answer; nothing was changed");
            return Err(Error::new(ErrorKind::LockTimeout, message)
                .suggest("Call again once the person has answered those."));
        }
        let Client { connection, control, .. } = self.client;
        let answer = connection.ask("elicitation/create", Some(&form(text)), PERSON_TIME_MAX, control);
        self.questions.fetch_sub(1, Ordering::Relaxed);
        match answer {
            Ok(answer) => check_consent(Some(&answer)),
            Err(RequestFailure::Timeout) => {
                let seconds = PERSON_TIME_MAX.as_secs();
                Err(denied(&format!("nobody answered within {seconds} s whether this change is allowed")))
            }
            Err(RequestFailure::Cancelled) => Err(cancelled()),
            Err(RequestFailure::Refused(error)) => {
                Err(denied(&format!("the person could not be asked: {}", error.message)))
            }
        }
    }

    /// Takes the answer from the call if it is about this exact change; else it stores the question. The state that the
    /// client sends back is the hash of the call and of the shown text: an answer does not count if the change would
    /// have another effect by now.
    fn ask_by_answer(&self, text: &str) -> Result<(), Error> {
        let asked = Sha256::of(format!("{}\n{text}", self.call).as_bytes()).to_hex();
        if self.state.as_ref() == Some(&asked) {
            return check_consent(self.answer.as_ref());
        }
        let request = json!({ "method": "elicitation/create", "params": form(text) });
        *self.question.lock().unwrap_or_else(PoisonError::into_inner) = Some(json!({
            "resultType": "input_required", "inputRequests": { QUESTION: request }, "requestState": asked
        }));
        Err(denied("the person has not been asked yet"))
    }
}

/// Returns an error unless the answer to a question is a consent.
fn check_consent(answer: Option<&Value>) -> Result<(), Error> {
    match answer.and_then(|answer| answer.get("action")).and_then(Value::as_str) {
        Some("accept") => Ok(()),
        Some("decline" | "cancel") => Err(denied("the person refused this change")),
        _ => Err(denied("the client did not answer whether this change is allowed")),
    }
}

/// Returns the question, as a form without fields.
fn form(text: &str) -> Value {
    let schema = json!({ "type": "object", "properties": {} });
    json!({ "mode": "form", "message": text, "requestedSchema": schema })
}

/// Returns the error for a change that nobody agreed to.
fn denied(message: &str) -> Error {
    Error::new(ErrorKind::CommandDenied, format!("{message}; nothing was changed"))
        .suggest("Ask the person what to do instead.")
}
