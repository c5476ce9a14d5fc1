//! JSON-RPC messages: a line becomes a message, or the error that answers it.
//!
//! Every invalid line is answered, so that no client waits for its time limit. Only here, where the text still exists, a
//! duplicate key can be found.

use std::fmt;
use std::io::{BufRead, Read as _};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::request;

/// Largest result, in bytes. Clients drop the connection at about 10 MB.
pub const RESULT_BYTES_MAX: usize = 4_000_000 - 4_096;
/// The line is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON is not a message, or not one that fits here.
pub const INVALID_REQUEST: i64 = -32600;
/// The server has no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters do not fit the method.
pub const INVALID_PARAMS: i64 = -32602;
/// The server failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// There is no such resource.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// The request names a protocol revision that the server does not have.
pub const UNSUPPORTED_REVISION: i64 = -32022;

/// Id of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, try_from = "Value")]
pub enum RequestId {
    /// Number.
    Number(i64),
    /// Text.
    Text(String),
}

impl TryFrom<Value> for RequestId {
    type Error = &'static str;

    /// Takes `1.0` for `1`, as JSON does not tell them apart.
    fn try_from(value: Value) -> Result<Self, Self::Error> {
        /// Largest number up to which a float has every integer.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        let whole = |number: &f64| number.fract() == 0.0 && number.abs() <= EXACT_MAX;
        let written = value.as_f64().filter(whole).map(|number| format!("{number:.0}"));
        let number = value.as_i64().or_else(|| written.and_then(|number| number.parse().ok()));
        match (number, value) {
            (Some(number), _) => Ok(Self::Number(number)),
            (None, Value::String(text)) => Ok(Self::Text(text)),
            _ => Err("`id` must be a string or an integer"),
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// A message of the client.
#[derive(Debug)]
pub enum Message {
    /// Request, which is answered.
    Request(Request),
    /// Notification, which is not.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Map<String, Value>,
    },
    /// Response to a request of the server.
    Response {
        /// Id of the request.
        id: Option<RequestId>,
        /// Result or error.
        result: Result<Value, RpcError>,
    },
}

/// A request of the client.
#[derive(Debug)]
pub struct Request {
    /// Id of the response.
    pub id: RequestId,
    /// Name of the method.
    pub method: String,
    /// Parameters except `_meta`.
    pub params: Map<String, Value>,
    /// Content of `_meta`.
    pub meta: Map<String, Value>,
    /// Error in a call's JSON that the parsed value does not show.
    pub flaw: Option<Error>,
}

/// The error of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// Kind of error.
    pub code: i64,
    /// Message for people.
    pub message: String,
    /// Further facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// Returns an error.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Returns the error with further facts.
    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// The response to an invalid message.
#[derive(Debug)]
pub struct InvalidMessage {
    /// Id of the message, if it has one.
    id: Option<RequestId>,
    /// Reason.
    error: RpcError,
}

impl InvalidMessage {
    /// Returns the response to a message that is not a valid request.
    pub fn new(id: Option<RequestId>, message: impl Into<String>) -> Self {
        Self { id, error: RpcError::new(INVALID_REQUEST, message) }
    }

    /// Returns the response to a rejected batch.
    pub fn of_batch(why: &str) -> Self {
        Self::new(None, format!("{why}: send each message by itself"))
    }

    /// Returns the response to a request with the id of an unanswered one: two responses with one id could not be told
    /// apart.
    pub fn of_id_in_use(id: RequestId) -> Self {
        let message = format!("the id {id} belongs to a request that is not answered yet");
        Self::new(Some(id), message)
    }

    /// Returns the response as a line.
    pub fn line(&self) -> Vec<u8> {
        line_of(&ServerMessage { id: self.id.as_ref(), error: Some(&self.error), ..ServerMessage::default() })
    }
}

/// A message of the server.
#[derive(Default, Serialize)]
#[serde(tag = "jsonrpc", rename = "2.0")]
struct ServerMessage<'a> {
    /// Id of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RequestId>,
    /// Method of a request or notification.
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    /// Its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a Value>,
    /// Result of a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Value>,
    /// Error of a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcError>,
}

/// Returns a message as a line.
fn line_of(message: &ServerMessage<'_>) -> Vec<u8> {
    // Text, and maps with text keys, always serialize.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Returns the response to a request as a line.
pub fn response_line(id: &RequestId, answer: &Result<Value, RpcError>) -> Vec<u8> {
    let (result, error) = (answer.as_ref().ok(), answer.as_ref().err());
    line_of(&ServerMessage { id: Some(id), result, error, ..ServerMessage::default() })
}

/// Returns a request as a line, or without an id a notification.
pub fn request_line(id: Option<&RequestId>, method: &str, params: Option<&Value>) -> Vec<u8> {
    line_of(&ServerMessage { id, method: Some(method), params, ..ServerMessage::default() })
}

/// Content of a line.
#[derive(Debug)]
pub enum LineContent {
    /// One message.
    One(Message),
    /// Several messages, each with the response to it if it is invalid.
    Batch(Vec<Result<Message, InvalidMessage>>),
}

/// Parses a line.
///
/// # Errors
/// Returns the response to the line: -32700 if it is not JSON, -32600 if the JSON is not a message.
pub fn parse(line: &[u8]) -> Result<LineContent, InvalidMessage> {
    let line = request::without_bom(line);
    match request::read_json(line) {
        Ok(Value::Array(list)) if !list.is_empty() => {
            Ok(LineContent::Batch(list.into_iter().map(|value| message_of(value, None)).collect()))
        }
        Ok(value) => message_of(value, None).map(LineContent::One),
        Err(error) => match flawed(line, error) {
            Ok((Value::Array(list), flaw)) => {
                let id = |value: Value| RequestId::try_from(value.get("id")?.clone()).ok();
                let refused = |id| Err(InvalidMessage::new(Some(id), flaw.message()));
                let refused: Vec<_> = list.into_iter().filter_map(id).map(refused).collect();
                if refused.is_empty() {
                    return Err(InvalidMessage::new(None, flaw.message()));
                }
                Ok(LineContent::Batch(refused))
            }
            Ok((value, flaw)) => message_of(value, Some(flaw)).map(LineContent::One),
            Err(error) => {
                let error = RpcError::new(PARSE_ERROR, format!("not valid JSON: {error}"));
                Err(InvalidMessage { id: id_in(line), error })
            }
        },
    }
}

/// Remedy for a duplicate field.
const GIVE_ONCE: &str = "Give each field once.";

/// Returns JSON with a duplicate field, or with half of a character, and the error for that.
fn flawed(line: &[u8], error: Error) -> Result<(Value, Error), serde_json::Error> {
    match serde_json::from_slice(line) {
        Ok(value) => Ok((value, error.suggest(GIVE_ONCE))),
        Err(wrong) => {
            let value = std::str::from_utf8(line).ok();
            let value = value.and_then(|text| serde_json::from_str(&request::whole_characters(text)).ok());
            let flaw = Error::invalid("an escaped surrogate such as \\ud83d is half of a character")
                .suggest("Write whole characters, or U+FFFD for a broken one.");
            value.map(|value| (value, flaw)).ok_or(wrong)
        }
    }
}

/// Returns the message in a JSON value; `flaw` is the error in its text.
fn message_of(value: Value, flaw: Option<Error>) -> Result<Message, InvalidMessage> {
    let invalid = |id: &Option<RequestId>, why: &str| {
        InvalidMessage::new(id.clone(), format!("not a JSON-RPC message: {why}"))
    };
    // The client could not read the id of what it rejects: that needs no response.
    let is_rejection = value.get("error").is_some() && value.get("method").is_none();
    let id = value.get("id").filter(|id| !(is_rejection && id.is_null())).cloned();
    let id = id.map(RequestId::try_from).transpose().map_err(|why| invalid(&None, why))?;
    let Value::Object(mut fields) = value else { return Err(invalid(&None, "it must be a JSON object")) };
    if fields.get("jsonrpc").is_none_or(|version| version != "2.0") {
        return Err(invalid(&id, "`jsonrpc` must be \"2.0\""));
    }
    let params = match (fields.remove("params").map_or(Ok(Map::new()), object), &id) {
        (Ok(params), _) => params,
        // A notification gets no response, whatever its content.
        (Err(_), None) if fields.contains_key("method") => Map::new(),
        _ => return Err(invalid(&id, "`params` must be an object")),
    };
    let (result, error) = (fields.remove("result"), fields.remove("error"));
    let message = match (fields.remove("method"), id.clone(), result, error) {
        (Some(Value::String(method)), Some(id), None, None) => request_of(id, method, params, flaw)?,
        (Some(Value::String(method)), None, None, None) => Some(Message::Notification { method, params }),
        (None, Some(id), Some(result), None) => Some(Message::Response { id: Some(id), result: Ok(result) }),
        // A response gets no answer, whatever its error.
        (None, id, _, Some(error)) => {
            let error = serde_json::from_value(error);
            let error =
                error.unwrap_or_else(|_| RpcError::new(INVALID_REQUEST, "an error without code or message"));
            Some(Message::Response { id, result: Err(error) })
        }
        _ => None,
    };
    message.ok_or_else(|| invalid(&id, "unrecognized JSON-RPC message"))
}

/// Returns a request; `None` if its `_meta` is not an object.
///
/// # Errors
/// Fails if its text has a flaw and it is not a call, whose result can show that.
fn request_of(
    id: RequestId,
    method: String,
    mut params: Map<String, Value>,
    mut flaw: Option<Error>,
) -> Result<Option<Message>, InvalidMessage> {
    let is_call = method == "tools/call";
    if let Some(flaw) = flaw.as_ref().filter(|_| !is_call) {
        return Err(InvalidMessage::new(Some(id), flaw.message()));
    }
    // Models sometimes encode the arguments twice.
    if is_call
        && let Some(arguments) = params.get_mut("arguments")
        && let Some(text) = arguments.as_str()
        && let Ok(object @ Value::Object(_)) = serde_json::from_str(text)
    {
        let twice = request::read_json(text.as_bytes()).err();
        flaw = flaw.or_else(|| Some(twice?.suggest(GIVE_ONCE)));
        *arguments = object;
    }
    let meta = params.remove("_meta").map_or(Ok(Map::new()), object);
    Ok(meta.ok().map(|meta| Message::Request(Request { id, method, params, meta, flaw })))
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadLine {
    /// Line without its end.
    Whole(Vec<u8>),
    /// Line that was longer than allowed; only the id of its message is kept.
    TooLong(Option<RequestId>),
    /// End of the stream.
    End,
}

/// Splits a stream into lines of at most `bytes_max` bytes.
pub struct LineReader<R> {
    /// Stream.
    reader: R,
    /// Maximum bytes of a line.
    bytes_max: usize,
}

impl<R: BufRead> LineReader<R> {
    /// Creates a splitter for `reader`.
    pub const fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader, bytes_max }
    }

    /// Returns the next line. A last line without an end counts, and an error ends the stream.
    pub fn read(&mut self) -> ReadLine {
        let (mut line, limit) = (Vec::new(), self.bytes_max as u64 + 1);
        // What was read before an error counts.
        let mut read = |line: &mut Vec<u8>| drop(self.reader.by_ref().take(limit).read_until(b'\n', line));
        read(&mut line);
        if line.len() > self.bytes_max && !line.ends_with(b"\n") {
            // The id may come last, if the message is at most twice as long as allowed.
            read(&mut line);
            if !line.ends_with(b"\n") {
                let _ = self.reader.skip_until(b'\n');
            }
            return ReadLine::TooLong(id_in(&line));
        }
        if line.is_empty() {
            return ReadLine::End;
        }
        line.pop_if(|end| *end == b'\n');
        ReadLine::Whole(line)
    }
}

/// Returns the id of a message that is too long to keep.
fn id_in(message: &[u8]) -> Option<RequestId> {
    /// Longest id, in bytes.
    const ID_BYTES_MAX: usize = 1024;
    /// A message of which only the id counts.
    #[derive(Deserialize)]
    struct MessageId {
        /// The id.
        id: RequestId,
    }
    let message: MessageId = serde_json::from_slice(message).ok()?;
    Some(message.id).filter(|id| matches!(id, RequestId::Number(_)) || id.to_string().len() <= ID_BYTES_MAX)
}

/// Returns an object that may be null; the error is any other value.
fn object(value: Value) -> Result<Map<String, Value>, Value> {
    match value {
        Value::Null => Ok(Map::new()),
        Value::Object(object) => Ok(object),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
    use serde_json::json;

    use super::*;

    /// Returns the messages of a method in all forms that its parameters may have.
    fn messages() -> Vec<Value> {
        let methods = [
            "ping",
            "initialize",
            "server/discover",
            "completion/complete",
            "logging/setLevel",
            "prompts/get",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "resources/directory/read",
            "resources/subscribe",
            "resources/unsubscribe",
            "subscriptions/listen",
            "tools/call",
            "tools/list",
            "tasks/get",
            "tasks/update",
            "tasks/cancel",
            "skills/list",
            "skills/get",
            "notifications/cancelled",
            "notifications/progress",
            "notifications/initialized",
            "notifications/roots/list_changed",
            "unknown",
        ];
        let params = [
            Value::Null,
            json!({}),
            json!([]),
            json!(1),
            json!({ "_meta": null }),
            json!({ "_meta": 1 }),
            json!({ "_meta": { "progressToken": 7, "other": [1] }, "cursor": "x", "unknown": true }),
            json!({ "cursor": 1 }),
            json!({ "name": "n", "arguments": { "a": [1, -2, 0.5, null] }, "_meta": {} }),
            json!({ "name": "n", "arguments": [] }),
            json!({ "uri": "file:///a", "level": "debug", "taskId": "t", "inputResponses": {} }),
            json!({ "level": "loud", "requestId": 1, "reason": "r", "progressToken": "p", "progress": 0.5 }),
            json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "v" } }),
            json!({ "notifications": {}, "requestId": "one" }),
            json!({
                "protocolVersion": "2025-06-18", "capabilities": { "roots": {} }, "_meta": { "a": 1 },
                "clientInfo": { "name": "c", "version": "1" }
            }),
        ];
        let mut messages = Vec::new();
        for method in methods {
            messages.push(json!({ "jsonrpc": "2.0", "id": 1, "method": method }));
            messages.push(json!({ "jsonrpc": "2.0", "method": method }));
            for params in &params {
                messages.push(json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
                messages.push(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
            }
        }
        messages.extend([
            json!({ "jsonrpc": "2.0", "id": 1 }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": 1 }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "result": {} }),
            json!({ "jsonrpc": "2.0", "id": 1, "result": {}, "error": {} }),
            json!({ "jsonrpc": "2.0", "result": {} }),
            json!({ "jsonrpc": "2.0", "id": 1, "result": 5 }),
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "roots": [{ "uri": "file:///a", "name": "a" }] } }),
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "roots": [1] } }),
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "action": "accept", "content": { "a": 1 } } }),
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "action": "shrug" } }),
            json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -1, "message": "m", "data": [1] } }),
            json!({ "jsonrpc": "2.0", "error": { "code": -1, "message": "m" } }),
            json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": "x" } }),
        ]);
        messages
    }

    /// Returns the kind of a message, its id, its method, and the progress token of a request, as MCP's library takes it.
    fn by_library(message: &Value) -> Option<(&'static str, Value, Value, Value)> {
        let theirs = serde_json::from_value::<ClientJsonRpcMessage>(message.clone()).ok()?;
        let kind = match theirs {
            JsonRpcMessage::Request(_) => "request",
            JsonRpcMessage::Notification(_) => "notification",
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => "response",
        };
        let value = serde_json::to_value(&theirs).unwrap();
        let field = |at: &str| value.pointer(at).cloned().unwrap_or_default();
        Some((kind, field("/id"), field("/method"), field("/params/_meta")))
    }

    /// Returns the same as lbx takes it.
    fn by_lbx(message: &Value) -> Option<(&'static str, Value, Value, Value)> {
        Some(match message_of(message.clone(), None).ok()? {
            Message::Request(Request { id, method, meta, .. }) => {
                let meta = if meta.is_empty() { Value::Null } else { meta.into() };
                ("request", json!(id), method.into(), meta)
            }
            Message::Notification { method, params } => {
                let meta = params.get("_meta").filter(|meta| **meta != json!({}));
                ("notification", Value::Null, method.into(), meta.cloned().unwrap_or_default())
            }
            Message::Response { id, .. } => ("response", json!(id), Value::Null, Value::Null),
        })
    }

    #[test]
    fn messages_parse_as_the_mcp_library_parses_them() {
        for mut message in messages() {
            let ours = by_lbx(&message);
            // A notification with odd parameters is taken without them, and gets no response either way.
            let is_notification = message.get("id").is_none() && message["method"].is_string();
            if is_notification && by_library(&message).is_none() {
                message.as_object_mut().unwrap().remove("params");
                assert_eq!(ours.map(|ours| ours.0), by_library(&message).map(|theirs| theirs.0), "{message}");
                continue;
            }
            // A malformed error is a response too: no answer to it could be told from one to the client's own requests.
            if message.get("error").is_some()
                && message.get("method").is_none()
                && by_library(&message).is_none()
            {
                assert!(ours.is_none_or(|ours| ours.0 == "response"), "{message}");
                continue;
            }
            let mut theirs = by_library(&message);
            // An empty `_meta` is as good as none.
            if let Some(theirs) = theirs.as_mut().filter(|theirs| theirs.3 == json!({})) {
                theirs.3 = Value::Null;
            }
            assert_eq!(ours, theirs, "{message}");
        }
    }
}
