//! Turns the fields of a message into the library's type for its method.
//!
//! The library tries one type after the other, and each parser is compiled several times for that. Here the method
//! selects the type, and a call's arguments move into it without a copy.

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ClientResult, CustomNotification, CustomRequest,
    CustomResult, DiscoverRequestParams, ElicitResult, Extensions, GetExtensions as _, JsonObject,
    JsonRpcMessage, Notification, NotificationMetaObject, NotificationNoParam, Request, RequestId,
    RequestMetaObject, RequestNoParam, RequestOptionalParam,
};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Returns the message with these fields; `None` if they are not a message.
#[must_use]
pub fn message_of(mut fields: JsonObject, id: Option<RequestId>) -> Option<ClientJsonRpcMessage> {
    match (fields.remove("method"), id, fields.remove("result"), fields.remove("error")) {
        (Some(Value::String(method)), Some(id), None, None) => {
            Some(JsonRpcMessage::request(request_of(method, Params::of(&mut fields)?), id))
        }
        (Some(Value::String(method)), None, None, None) => {
            Some(JsonRpcMessage::notification(notification_of(method, Params::of(&mut fields)?)))
        }
        (None, Some(id), Some(result), None) => Some(JsonRpcMessage::response(result_of(result), id)),
        (None, id, None, Some(error)) => Some(JsonRpcMessage::error(serde_json::from_value(error).ok()?, id)),
        _ => None,
    }
}

/// The parameters of a message.
struct Params {
    /// Fields except `_meta`.
    fields: Option<JsonObject>,
    /// Content of `_meta`.
    meta: Option<JsonObject>,
}

impl Params {
    /// Takes the parameters of a message; returns `None` if they or their `_meta` are not an object.
    fn of(message: &mut JsonObject) -> Option<Self> {
        let mut fields = object(message.remove("params")).ok()?;
        let meta = object(fields.as_mut().and_then(|fields| fields.remove("_meta"))).ok()?;
        Some(Self { fields, meta })
    }

    /// Parses arguments that are JSON in a string: models sometimes encode them twice.
    fn read_arguments(&mut self) {
        if let Some(arguments) = self.fields.as_mut().and_then(|fields| fields.get_mut("arguments"))
            && let Some(Ok(object @ Value::Object(_))) = arguments.as_str().map(serde_json::from_str)
        {
            *arguments = object;
        }
    }

    /// Returns the fields except `_meta`, as the type of a method.
    fn read<P: DeserializeOwned>(&mut self) -> Option<P> {
        serde_json::from_value(Value::Object(self.fields.take()?)).ok()
    }
}

/// Returns an object that may be missing or null; the error is any other value.
fn object(value: Option<Value>) -> Result<Option<JsonObject>, Value> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(other) => Err(other),
    }
}

/// Returns a request; one with invalid parameters goes to the handler of unknown methods, which names the valid ones.
fn request_of(method: String, mut params: Params) -> ClientRequest {
    let known = known_request(&method, &mut params);
    let mut request = known.unwrap_or_else(|| {
        ClientRequest::CustomRequest(CustomRequest::new(method, params.fields.map(Value::Object)))
    });
    if let Some(meta) = params.meta {
        request.extensions_mut().insert(RequestMetaObject::from(meta));
    }
    request
}

/// Returns a request with a known method and valid parameters.
fn known_request(method: &str, params: &mut Params) -> Option<ClientRequest> {
    Some(match method {
        "ping" => ClientRequest::PingRequest(RequestNoParam::default()),
        "initialize" => ClientRequest::InitializeRequest(with_params(params)?),
        "server/discover" => {
            // Its parameters have no fields except `_meta`.
            params.fields.as_ref()?;
            ClientRequest::DiscoverRequest(Request::new(DiscoverRequestParams {}))
        }
        "completion/complete" => ClientRequest::CompleteRequest(with_params(params)?),
        "logging/setLevel" => ClientRequest::SetLevelRequest(with_params(params)?),
        "prompts/get" => ClientRequest::GetPromptRequest(with_params(params)?),
        "prompts/list" => ClientRequest::ListPromptsRequest(of_page(params)?),
        "resources/list" => ClientRequest::ListResourcesRequest(of_page(params)?),
        "resources/templates/list" => ClientRequest::ListResourceTemplatesRequest(of_page(params)?),
        "resources/read" => ClientRequest::ReadResourceRequest(with_params(params)?),
        "resources/directory/read" => ClientRequest::ReadResourceDirectoryRequest(with_params(params)?),
        "resources/subscribe" => ClientRequest::SubscribeRequest(with_params(params)?),
        "resources/unsubscribe" => ClientRequest::UnsubscribeRequest(with_params(params)?),
        "subscriptions/listen" => ClientRequest::SubscriptionsListenRequest(with_params(params)?),
        "tools/call" => {
            params.read_arguments();
            ClientRequest::CallToolRequest(with_params(params)?)
        }
        "tools/list" => ClientRequest::ListToolsRequest(of_page(params)?),
        "tasks/get" => ClientRequest::GetTaskRequest(with_params(params)?),
        "tasks/update" => ClientRequest::UpdateTaskRequest(with_params(params)?),
        "tasks/cancel" => ClientRequest::CancelTaskRequest(with_params(params)?),
        "skills/list" => ClientRequest::ListSkillsRequest(of_page(params)?),
        "skills/get" => ClientRequest::GetSkillRequest(with_params(params)?),
        _ => return None,
    })
}

/// Returns a request that must have parameters.
fn with_params<M: Default, P: DeserializeOwned>(params: &mut Params) -> Option<Request<M, P>> {
    params.read().map(Request::new)
}

/// Returns a request for a page of a list; without a cursor, for the first page. A cursor that is not a string is an
/// error, which rmcp would take for a missing one.
fn of_page<M: Default, P: DeserializeOwned>(params: &mut Params) -> Option<RequestOptionalParam<M, P>> {
    let page = match params.fields {
        Some(_) => Some(params.read()?),
        None => None,
    };
    Some(RequestOptionalParam { method: M::default(), params: page, extensions: Extensions::default() })
}

/// Returns a notification.
fn notification_of(method: String, mut params: Params) -> ClientNotification {
    let known = known_notification(&method, &mut params);
    let mut notification = known.unwrap_or_else(|| {
        ClientNotification::CustomNotification(CustomNotification::new(
            method,
            params.fields.map(Value::Object),
        ))
    });
    if let Some(meta) = params.meta {
        notification.extensions_mut().insert(NotificationMetaObject::from(meta));
    }
    notification
}

/// Returns a notification with a known method and valid parameters.
fn known_notification(method: &str, params: &mut Params) -> Option<ClientNotification> {
    Some(match method {
        "notifications/cancelled" => {
            params.fields.get_or_insert_default();
            ClientNotification::CancelledNotification(Notification::new(params.read()?))
        }
        "notifications/progress" => {
            ClientNotification::ProgressNotification(Notification::new(params.read()?))
        }
        "notifications/initialized" => {
            ClientNotification::InitializedNotification(NotificationNoParam::default())
        }
        "notifications/roots/list_changed" => {
            ClientNotification::RootsListChangedNotification(NotificationNoParam::default())
        }
        _ => return None,
    })
}

/// Returns the result of a request that this server makes: for the client's roots, or for a person's answer.
#[expect(deprecated, reason = "the newest revision has no roots; clients of the others have")]
fn result_of(value: Value) -> ClientResult {
    if let Ok(roots) = rmcp::model::ListRootsResult::deserialize(&value) {
        return ClientResult::ListRootsResult(roots);
    }
    if let Ok(said) = ElicitResult::deserialize(&value) {
        return ClientResult::ElicitResult(said);
    }
    ClientResult::CustomResult(CustomResult(value))
}

#[cfg(test)]
mod tests {
    use std::mem::discriminant;

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

    /// Returns true if both messages are of one kind, and of one method's type.
    fn are_alike(one: &ClientJsonRpcMessage, other: &ClientJsonRpcMessage) -> bool {
        match (one, other) {
            (JsonRpcMessage::Request(one), JsonRpcMessage::Request(other)) => {
                discriminant(&one.request) == discriminant(&other.request)
            }
            (JsonRpcMessage::Notification(one), JsonRpcMessage::Notification(other)) => {
                discriminant(&one.notification) == discriminant(&other.notification)
            }
            (one, other) => discriminant(one) == discriminant(other),
        }
    }

    /// Returns a message without the fields that an unknown method gets: nobody reads them.
    fn as_read(message: &ClientJsonRpcMessage) -> Value {
        let mut value = serde_json::to_value(message).unwrap();
        let is_custom = match message {
            JsonRpcMessage::Request(message) => matches!(message.request, ClientRequest::CustomRequest(_)),
            JsonRpcMessage::Notification(message) => {
                matches!(message.notification, ClientNotification::CustomNotification(_))
            }
            _ => false,
        };
        if is_custom {
            value["params"] = value.pointer("/params/_meta").cloned().unwrap_or_default();
        }
        value
    }

    /// Returns true if a message asks for a page of a list.
    fn is_list(message: &Value) -> bool {
        message["method"].as_str().is_some_and(|method| method.ends_with("/list"))
    }

    #[test]
    fn a_message_is_what_the_library_takes_it_for() {
        for message in messages() {
            let theirs = serde_json::from_value::<ClientJsonRpcMessage>(message.clone()).ok();
            let id = message.get("id").map(|id| serde_json::from_value(id.clone()).unwrap());
            let ours = message_of(message.as_object().unwrap().clone(), id);
            let names_no_page = message["params"]["cursor"].is_number();
            let is_same = match (&ours, &theirs) {
                (Some(JsonRpcMessage::Request(ours)), _) if names_no_page && is_list(&message) => {
                    matches!(ours.request, ClientRequest::CustomRequest(_))
                }
                (Some(ours), Some(theirs)) => are_alike(ours, theirs) && as_read(ours) == as_read(theirs),
                (ours, theirs) => ours.is_none() && theirs.is_none(),
            };
            assert!(is_same, "{message}: {ours:?}, and not {theirs:?}");
        }
    }
}
