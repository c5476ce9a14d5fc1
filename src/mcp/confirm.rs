//! `--confirm`: the person at the client agrees to each change, or nothing is changed.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction, ServerRequest};
use rmcp::service::RequestContext;
use serde_json::json;
use tokio::runtime::Handle;

use crate::app::consent::Ask;
use crate::error::{Error, ErrorKind};

/// How long a person may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(600);

/// What asks the person at this client; called on the thread of a call.
#[must_use]
pub fn ask(context: &RequestContext<RoleServer>) -> Arc<Ask> {
    let can_ask = context.client_capabilities().is_some_and(|client| client.elicitation.is_some());
    let (peer, cancelled, runtime) = (context.peer.clone(), context.ct.clone(), Handle::current());
    Arc::new(move |text: &str| {
        if !can_ask {
            return Err(denied("changes need a person's consent, and this client cannot ask (elicitation)"));
        }
        let request = request(text)?;
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

/// The question.
fn request(text: &str) -> Result<ServerRequest, Error> {
    let params = json!({
        "mode": "form", "message": text, "requestedSchema": { "type": "object", "properties": {} }
    });
    let params: ElicitRequestParams = serde_json::from_value(params)
        .map_err(|error| Error::internal(format!("the question is not valid: {error}")))?;
    Ok(ServerRequest::ElicitRequest(ElicitRequest::new(params)))
}

/// The refusal of a change that nobody agreed to.
fn denied(message: &str) -> Error {
    Error::new(ErrorKind::CommandDenied, format!("{message}; nothing was changed"))
        .suggest("Ask the person what to do instead.")
}
