//! Responses to events, in the form of each client.

use serde_json::{Value, json};

use super::client::{Moment, ReplyForm};
use super::event::Event;

/// Answer of a hook to an event.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Silent,
    /// The call must not be made; the reason.
    Deny(String),
    /// A text for the model.
    Context(String),
    /// A line for the user.
    Line(String),
    /// The call is made with this command.
    Command(String),
}

impl ReplyForm {
    /// Returns the response with a verdict; `None` if there is nothing to say.
    pub fn reply(self, event: &Event, verdict: &Verdict) -> Option<Value> {
        match self {
            Self::Nested => nested(event, verdict, false),
            Self::NestedAllowed => nested(event, verdict, true),
            Self::Decision => decision(event, verdict),
            Self::Explicit => Some(explicit(event, verdict)),
            Self::Permission => permission(event, verdict),
            Self::Flat => flat(event, verdict),
            Self::Plain => plain(verdict),
        }
    }
}

/// Returns a response in a field with the event's name. A changed call is allowed only if it must be: else the client
/// asks its user about it as about any other.
fn nested(event: &Event, verdict: &Verdict, allows: bool) -> Option<Value> {
    let mut fields = match verdict {
        Verdict::Silent => return None,
        Verdict::Line(line) => return Some(json!({ "systemMessage": line })),
        Verdict::Deny(reason) => json!({ "permissionDecision": "deny", "permissionDecisionReason": reason }),
        Verdict::Context(text) => json!({ "additionalContext": text }),
        Verdict::Command(command) if allows => {
            json!({ "permissionDecision": "allow", "updatedInput": with_command(event, command) })
        }
        Verdict::Command(command) => json!({ "updatedInput": with_command(event, command) }),
    };
    if let Some(fields) = fields.as_object_mut() {
        fields.insert("hookEventName".to_owned(), event.name.as_str().into());
    }
    Some(json!({ "hookSpecificOutput": fields }))
}

/// Returns a response with a decision, if there is one to make.
fn decision(event: &Event, verdict: &Verdict) -> Option<Value> {
    Some(match verdict {
        Verdict::Silent => return None,
        Verdict::Line(line) => json!({ "systemMessage": line }),
        Verdict::Deny(reason) => json!({ "decision": "deny", "reason": reason }),
        Verdict::Context(text) => json!({ "hookSpecificOutput": { "additionalContext": text } }),
        Verdict::Command(command) => {
            json!({ "hookSpecificOutput": { "tool_input": with_command(event, command) } })
        }
    })
}

/// Returns a response with a decision for every call.
fn explicit(event: &Event, verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Deny(reason) => json!({ "decision": "deny", "reason": reason }),
        Verdict::Command(command) => {
            json!({ "decision": "allow", "overwrite": { event.command_field(): command } })
        }
        _ if event.moment == Some(Moment::Before) => json!({ "decision": "allow" }),
        _ => json!({}),
    }
}

/// Returns a response with a permission. A line for the user has no place: the last event takes a message for the
/// model alone, which would begin another turn.
fn permission(event: &Event, verdict: &Verdict) -> Option<Value> {
    Some(match verdict {
        Verdict::Silent | Verdict::Line(_) => return None,
        Verdict::Deny(reason) => {
            json!({ "permission": "deny", "user_message": reason, "agent_message": reason })
        }
        Verdict::Context(text) if event.moment == Some(Moment::Before) => {
            json!({ "permission": "allow", "agent_message": text })
        }
        Verdict::Context(text) => json!({ "additional_context": text }),
        Verdict::Command(command) => {
            json!({ "permission": "allow", "updated_input": with_command(event, command) })
        }
    })
}

/// Returns a response whose fields have no frame. A line for the user has no place.
fn flat(event: &Event, verdict: &Verdict) -> Option<Value> {
    Some(match verdict {
        Verdict::Silent | Verdict::Line(_) => return None,
        Verdict::Deny(reason) => json!({ "permissionDecision": "deny", "permissionDecisionReason": reason }),
        Verdict::Context(text) => json!({ "additionalContext": text }),
        Verdict::Command(command) => json!({ "modifiedArgs": with_command(event, command) }),
    })
}

/// Returns a response for a plugin that lbx wrote.
fn plain(verdict: &Verdict) -> Option<Value> {
    Some(match verdict {
        Verdict::Silent => return None,
        Verdict::Line(line) => json!({ "line": line }),
        Verdict::Deny(reason) => json!({ "deny": reason }),
        Verdict::Context(text) => json!({ "context": text }),
        Verdict::Command(command) => json!({ "command": command }),
    })
}

/// Returns the arguments of a call with another command.
fn with_command(event: &Event, command: &str) -> Value {
    let mut input = event.input.clone();
    if let Some(fields) = input.as_object_mut() {
        fields.insert(event.command_field().to_owned(), command.into());
    }
    input
}
