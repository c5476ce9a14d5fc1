//! Turns a line into a JSON-RPC message, or into the error that answers it.
//!
//! The library drops lines that it cannot parse, and the client then waits for its time limit; this module answers
//! every invalid line. Only here, where the text still exists, a duplicate key can be found.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetExtensions as _, RequestId, ServerJsonRpcMessage};
use serde::Serialize;
use serde_json::Value;

use super::method;
use crate::error::Error;
use crate::request;
use crate::text::content::UTF8_BOM;

/// An error in a call's JSON that the parsed value does not show; attached to the request.
#[derive(Clone)]
pub struct Flaw(pub Arc<Error>);

/// Content of a line.
#[derive(Debug, Serialize)]
pub enum Parsed {
    /// One message.
    One(Box<ClientJsonRpcMessage>),
    /// Several messages, each with the error that answers it if it is invalid.
    Batch(Vec<Result<ClientJsonRpcMessage, Box<ServerJsonRpcMessage>>>),
}

/// Parses a line.
///
/// # Errors
/// Returns the response to the line: -32700 if it is not JSON, -32600 if the JSON is not a message.
pub fn parse(line: &[u8]) -> Result<Parsed, Box<ServerJsonRpcMessage>> {
    // Some clients begin their stream with a byte order mark.
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

/// Returns a message that came alone.
fn one(message: ClientJsonRpcMessage) -> Parsed {
    Parsed::One(Box::new(message))
}

/// Returns the response to a line that was longer than allowed.
#[must_use]
pub fn too_long(bytes_max: usize, id: Option<RequestId>) -> Box<ServerJsonRpcMessage> {
    let message = format!("the message has more than {bytes_max} bytes");
    refusal(ErrorData::invalid_request(message, None), id)
}

/// Returns the response to a rejected batch.
#[must_use]
pub fn no_batch(why: &str) -> Box<ServerJsonRpcMessage> {
    refusal(ErrorData::invalid_request(format!("{why}: send each message by itself"), None), None)
}

/// Returns the response to a request with the id of an unanswered one: two responses with one id could not be told
/// apart.
#[must_use]
pub fn id_in_use(id: RequestId) -> Box<ServerJsonRpcMessage> {
    let message = format!("the id {id} belongs to a request that is not answered yet");
    refusal(ErrorData::invalid_request(message, None), Some(id))
}

/// Returns the message in a JSON value; `flaw` is the error in its text.
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
        // A notification gets no response, whatever its content.
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

/// Returns the id of a message; `None` if it has no id, as a notification.
fn id_of(value: &Value) -> Result<Option<RequestId>, Box<ServerJsonRpcMessage>> {
    let Some(id) = value.get("id") else {
        return Ok(None);
    };
    serde_json::from_value(id.clone()).map(Some).map_err(|_| {
        let message = "not a JSON-RPC message: `id` must be a string or an integer";
        refusal(ErrorData::invalid_request(message, None), None)
    })
}

/// Returns an error as a message.
fn refusal(error: ErrorData, id: Option<RequestId>) -> Box<ServerJsonRpcMessage> {
    Box::new(ServerJsonRpcMessage::error(error, id))
}
