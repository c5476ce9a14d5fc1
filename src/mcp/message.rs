//! From a line to a JSON-RPC message, or to the error that answers it.
//!
//! The library drops what it cannot parse, and the client then waits for its time limit; here
//! every line that is no message is answered. A key that comes twice is seen only here, where the
//! text still exists.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetExtensions as _, RequestId, ServerJsonRpcMessage};
use serde::Serialize;
use serde_json::Value;

use super::method;
use crate::error::Error;
use crate::request;
use crate::text::content::UTF8_BOM;

/// What is wrong with a call's JSON that no parsed value shows; travels with the request.
#[derive(Clone)]
pub struct Flaw(pub Arc<Error>);

/// What a line holds.
#[derive(Debug, Serialize)]
pub enum Parsed {
    /// A message.
    One(Box<ClientJsonRpcMessage>),
    /// Several, each with the error that answers it where it is none.
    Batch(Vec<Result<ClientJsonRpcMessage, Box<ServerJsonRpcMessage>>>),
}

/// Parses a line.
///
/// # Errors
/// The answer to the line: -32700 where it is not JSON, -32600 where the JSON is not a message.
pub fn parse(line: &[u8]) -> Result<Parsed, Box<ServerJsonRpcMessage>> {
    // Some clients begin their stream as they begin a file.
    let line = line.strip_prefix(UTF8_BOM).unwrap_or(line);
    match request::read_json(line) {
        Ok(Value::Array(list)) if !list.is_empty() => {
            Ok(Parsed::Batch(list.into_iter().map(|value| message_of(value, None)).collect()))
        }
        Ok(value) => message_of(value, None).map(one),
        Err(error) => match serde_json::from_slice(line) {
            Ok(Value::Array(_)) => {
                Err(refusal(ErrorData::invalid_request(error.message().to_owned(), None), None))
            }
            Ok(value) => message_of(value, Some(error)).map(one),
            Err(error) => {
                Err(refusal(ErrorData::parse_error(format!("not valid JSON: {error}"), None), None))
            }
        },
    }
}

/// A message that comes alone.
fn one(message: ClientJsonRpcMessage) -> Parsed {
    Parsed::One(Box::new(message))
}

/// The answer to a line that was longer than allowed.
#[must_use]
pub fn too_long(bytes_max: usize, id: Option<RequestId>) -> Box<ServerJsonRpcMessage> {
    let message = format!("the message has more than {bytes_max} bytes");
    refusal(ErrorData::invalid_request(message, None), id)
}

/// The answer to a batch that is not taken.
#[must_use]
pub fn no_batch(why: &str) -> Box<ServerJsonRpcMessage> {
    refusal(ErrorData::invalid_request(format!("{why}: send each message by itself"), None), None)
}

/// The answer to a request whose id another one has that is not answered yet: two answers with one id could
/// not be told apart.
#[must_use]
pub fn id_in_use(id: RequestId) -> Box<ServerJsonRpcMessage> {
    let message = format!("the id {id} belongs to a request that is not answered yet");
    refusal(ErrorData::invalid_request(message, None), Some(id))
}

/// The message in a JSON value; `flaw` is what its text did wrong.
fn message_of(
    mut value: Value,
    flaw: Option<Error>,
) -> Result<ClientJsonRpcMessage, Box<ServerJsonRpcMessage>> {
    let id = id_of(&value)?;
    if !value.is_object() {
        let message = "not a JSON-RPC message: it must be a JSON object";
        return Err(refusal(ErrorData::invalid_request(message, None), None));
    }
    let invalid = |message: String| Err(refusal(ErrorData::invalid_request(message, None), id.clone()));
    if value.get("jsonrpc").is_none_or(|version| version != "2.0") {
        return invalid("not a JSON-RPC message: `jsonrpc` must be \"2.0\"".to_owned());
    }
    let is_odd = value.get("params").is_some_and(|params| !params.is_object() && !params.is_null());
    if is_odd && id.is_none() && value.get("method").is_some() {
        // A notification gets no answer, whatever it holds.
        if let Some(message) = value.as_object_mut() {
            message.remove("params");
        }
    } else if is_odd {
        return invalid("not a JSON-RPC message: `params` must be an object".to_owned());
    }
    let message = match value {
        Value::Object(fields) => method::message_of(fields, id.clone()),
        _ => None,
    };
    let Some(mut message) = message else {
        return invalid("not a JSON-RPC message: unrecognized JSON-RPC message".to_owned());
    };
    if let (Some(flaw), ClientJsonRpcMessage::Request(request)) = (flaw, &mut message) {
        if !matches!(request.request, ClientRequest::CallToolRequest(_)) {
            return invalid(flaw.message().to_owned());
        }
        let flaw = flaw.suggest("Give each field once.");
        request.request.extensions_mut().insert(Flaw(Arc::new(flaw)));
    }
    Ok(message)
}

/// The id of a message; `None` where it has none, as in a notification.
fn id_of(value: &Value) -> Result<Option<RequestId>, Box<ServerJsonRpcMessage>> {
    let Some(id) = value.get("id") else {
        return Ok(None);
    };
    serde_json::from_value(id.clone()).map(Some).map_err(|_| {
        let message = "not a JSON-RPC message: `id` must be a string or an integer";
        refusal(ErrorData::invalid_request(message, None), None)
    })
}

/// An error as a message.
fn refusal(error: ErrorData, id: Option<RequestId>) -> Box<ServerJsonRpcMessage> {
    Box::new(ServerJsonRpcMessage::error(error, id))
}
