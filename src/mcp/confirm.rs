//! `--confirm`: the person at the client agrees to each change, or nothing is changed.
//!
//! Up to revision 2025-11-25 the server asks by a request of its own, and the call waits. In the stateless
//! revision there are none: the call answers with the question (`input_required`), and the client repeats it
//! with what the person said.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequiredResult, ProtocolVersion, ServerRequest,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::app::consent::Ask;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

/// How long a person may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(600);
/// The name of the one question in an answer that puts it.
const QUESTION: &str = "consent";
/// Why a change is refused at a client without a way to ask.
const CANNOT_ASK: &str = "changes need a person's consent, and this client cannot ask (elicitation)";

/// The person at the client of one call.
pub struct Person {
    /// Asks the person; called on the thread of the call.
    pub ask: Arc<Ask>,
    /// What the client has to ask first, where only an answer can put the question.
    question: Arc<Mutex<Option<InputRequiredResult>>>,
}

impl Person {
    /// The person at the client that makes this call.
    #[must_use]
    pub fn at(context: &RequestContext<RoleServer>, call: &CallToolRequestParams) -> Self {
        let can_ask = context.client_capabilities().is_some_and(|client| client.elicitation.is_some());
        let is_stateless =
            context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let question = Arc::default();
        let ask = match (can_ask, is_stateless) {
            (false, _) => Arc::new(|_: &str| Err(denied(CANNOT_ASK))),
            (true, false) => by_request(context),
            (true, true) => by_answer(call, Arc::clone(&question)),
        };
        Self { ask, question }
    }

    /// The question that the call's answer puts instead of a result, if there is one.
    #[must_use]
    pub fn question(&self) -> Option<InputRequiredResult> {
        self.question.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Asks by a request to the client, and waits for its answer.
fn by_request(context: &RequestContext<RoleServer>) -> Arc<Ask> {
    let (peer, cancelled, runtime) = (context.peer.clone(), context.ct.clone(), Handle::current());
    Arc::new(move |text: &str| {
        let request = ServerRequest::ElicitRequest(form(text));
        let answer = runtime.block_on(async {
            tokio::select! {
                answer = tokio::time::timeout(ANSWER_TIME_MAX, peer.send_request(request)) => answer.ok(),
                () = cancelled.cancelled() => None,
            }
        });
        match answer {
            Some(Ok(ClientResult::ElicitResult(said))) if said.action == ElicitationAction::Accept => Ok(()),
            Some(Ok(ClientResult::ElicitResult(_))) => Err(denied("the person refused this change")),
            Some(Ok(_)) => Err(denied("the client did not answer whether this change is allowed")),
            Some(Err(error)) => Err(denied(&format!("the person could not be asked: {error}"))),
            None => Err(denied("nobody answered whether this change is allowed")),
        }
    })
}

/// Takes the answer from the call, where it is about this very change; else notes the question. The state
/// that the client sends back is the hash of the call and of what was shown: an answer about a change that
/// would come to something else by now is none.
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

/// The question, as a form without fields.
fn form(text: &str) -> ElicitRequest {
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: text.to_owned(),
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    })
}

/// The refusal of a change that nobody agreed to.
fn denied(message: &str) -> Error {
    Error::new(ErrorKind::CommandDenied, format!("{message}; nothing was changed"))
        .suggest("Ask the person what to do instead.")
}
