//! `--confirm`: no change is made unless the person at the client agrees to it.
//!
//! Up to revision 2025-11-25 the server asks by a request of its own, and the call waits. The stateless revision has no
//! such requests: the response of the call is the question (`input_required`), and the client repeats the call with the
//! person's answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CancelledNotificationParam, ClientCapabilities, ClientResult, ElicitRequest,
    ElicitRequestParams, ElicitationAction, ElicitationSchema, InputRequest, InputRequiredResult,
    ProtocolVersion, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext};
use rmcp::{RoleServer, ServiceError};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::app::call::Ask;
use crate::control::cancelled as cancelled_call;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

/// Time that a person has to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(600);
/// Largest number of open questions. Each takes a thread, which other calls must not lack.
pub const QUESTIONS_MAX: usize = 16;
/// Name of the only question in a response.
const QUESTION: &str = "consent";
/// Error for a change if the client has no way to ask.
const CANNOT_ASK: &str =
    "changes need a person's consent, and this client cannot ask for it (elicitation in form mode)";

/// Open questions of a server.
#[derive(Clone)]
pub struct Questions(Arc<Semaphore>);

impl Default for Questions {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(QUESTIONS_MAX)))
    }
}

impl Questions {
    /// Reserves a place for one more question.
    ///
    /// # Errors
    /// Fails if too many are open.
    fn place(&self) -> Result<SemaphorePermit<'_>, Error> {
        self.0.try_acquire().map_err(|_| {
            let message =
                format!("{QUESTIONS_MAX} other changes wait for a person's answer; nothing was changed");
            Error::new(ErrorKind::LockTimeout, message)
                .suggest("Call again once the person has answered those.")
        })
    }
}

/// The person at the client of one call.
pub struct Person {
    /// Callback that asks the person; runs on the thread of the call.
    pub ask: Arc<Ask>,
    /// Question for the response, if the server cannot ask by a request.
    question: Arc<Mutex<Option<InputRequiredResult>>>,
}

impl Person {
    /// Returns the person at the client that makes this call.
    #[must_use]
    pub fn at(
        context: &RequestContext<RoleServer>,
        call: &CallToolRequestParams,
        questions: &Questions,
    ) -> Self {
        let can_ask = context.client_capabilities().is_some_and(|client| shows_forms(&client));
        let is_stateless =
            context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let question = Arc::default();
        let ask = match (can_ask, is_stateless) {
            (false, _) => Arc::new(|_: &str| Err(denied(CANNOT_ASK))),
            (true, false) => by_request(context, questions.clone()),
            (true, true) => by_answer(call, Arc::clone(&question)),
        };
        Self { ask, question }
    }

    /// Returns the question that replaces the result of the call, if there is one.
    #[must_use]
    pub fn question(&self) -> Option<InputRequiredResult> {
        self.question.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns true if a client shows forms: it says so, or names no mode of elicitation, as clients did when there was
/// only one.
fn shows_forms(client: &ClientCapabilities) -> bool {
    client.elicitation.as_ref().is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// Returns a callback that asks by a request to the client, and waits for the answer.
fn by_request(context: &RequestContext<RoleServer>, questions: Questions) -> Arc<Ask> {
    let (peer, cancelled, runtime) = (context.peer.clone(), context.ct.clone(), Handle::current());
    Arc::new(move |text: &str| {
        let _place = questions.place()?;
        let request = ServerRequest::ElicitRequest(form(text));
        match runtime.block_on(answer_to(&peer, request, &cancelled)) {
            Ok(ClientResult::ElicitResult(said)) if said.action == ElicitationAction::Accept => Ok(()),
            Ok(ClientResult::ElicitResult(_)) => Err(denied("the person refused this change")),
            Ok(_) => Err(denied("the client did not answer whether this change is allowed")),
            Err(ServiceError::Timeout { timeout }) => {
                let seconds = timeout.as_secs();
                Err(denied(&format!("nobody answered within {seconds} s whether this change is allowed")))
            }
            Err(ServiceError::Cancelled { .. }) => Err(cancelled_call()),
            Err(error) => Err(denied(&format!("the person could not be asked: {error}"))),
        }
    })
}

/// Returns the answer to a question. If the call stops waiting, tells the client, so that it removes the question from
/// the screen.
///
/// # Errors
/// Fails if the client cannot be asked, or nobody answers in time.
async fn answer_to(
    peer: &Peer<RoleServer>,
    question: ServerRequest,
    cancelled: &CancellationToken,
) -> Result<ClientResult, ServiceError> {
    let limited = PeerRequestOptions::with_timeout(ANSWER_TIME_MAX);
    let asked = peer.send_cancellable_request(question, limited).await?;
    let (peer, id) = (asked.peer.clone(), asked.id.clone());
    tokio::select! {
        answer = asked.await_response() => answer,
        () = cancelled.cancelled() => {
            let reason = Some("the call was cancelled".to_owned());
            let dropped = CancelledNotificationParam::new(Some(id), reason.clone());
            // If sending fails, the client is gone.
            let _ = peer.notify_cancelled(dropped).await;
            Err(ServiceError::Cancelled { reason })
        }
    }
}

/// Returns a callback that takes the answer from the call if it is about this exact change; else it stores the
/// question. The state that the client sends back is the hash of the call and of the shown text: an answer does not
/// count if the change would have another effect by now.
fn by_answer(call: &CallToolRequestParams, question: Arc<Mutex<Option<InputRequiredResult>>>) -> Arc<Ask> {
    let answer = call.input_responses.as_ref().and_then(|given| given.get(QUESTION)).cloned();
    let (state, call) = (call.request_state.clone(), json!([call.name, call.arguments]).to_string());
    Arc::new(move |text: &str| {
        let asked = Sha256::of(format!("{call}\n{text}").as_bytes()).to_hex();
        if state.as_ref() != Some(&asked) {
            let mut requests = BTreeMap::new();
            requests.insert(QUESTION.to_owned(), InputRequest::Elicitation(form(text)));
            let put = InputRequiredResult::new(Some(requests), Some(asked));
            *question.lock().unwrap_or_else(PoisonError::into_inner) = Some(put);
            return Err(denied("the person has not been asked yet"));
        }
        match answer.as_ref().and_then(|answer| answer.get("action")).and_then(Value::as_str) {
            Some("accept") => Ok(()),
            Some(_) => Err(denied("the person refused this change")),
            None => Err(denied("the client did not answer whether this change is allowed")),
        }
    })
}

/// Returns the question, as a form without fields.
fn form(text: &str) -> ElicitRequest {
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: text.to_owned(),
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    })
}

/// Returns the error for a change that nobody agreed to.
fn denied(message: &str) -> Error {
    Error::new(ErrorKind::CommandDenied, format!("{message}; nothing was changed"))
        .suggest("Ask the person what to do instead.")
}
