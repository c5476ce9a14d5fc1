//! Responses to events, in the form of each client.

use serde_json::{Map, Value, json};

use super::Verdict;
use super::client::Moment;
use super::event::Event;

/// Form of a client's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyForm {
    /// `hookSpecificOutput` with the event's name, as Claude Code expects it.
    Nested,
    /// `decision` with a reason, as Gemini CLI expects it.
    Decision,
    /// `permission` with a message for the user and one for the model, as Cursor expects it.
    Permission,
    /// `permissionDecision` with a reason, as Copilot CLI expects it.
    Flat,
    /// `decision` for every call, as Antigravity expects it: to it, no answer means no.
    Explicit,
    /// A field for each verdict, for a plugin that lbx wrote.
    Plain,
}

impl ReplyForm {
    /// Returns the response with a verdict; `None` if there is nothing to say.
    pub fn reply(self, event: &Event, verdict: &Verdict) -> Option<Value> {
        Some(match (self, verdict) {
            (Self::Explicit, Verdict::Deny(reason)) => json!({ "decision": "deny", "reason": reason }),
            (Self::Explicit, Verdict::Command(command)) => {
                let command_field = event.command_field();
                json!({ "decision": "allow", "overwrite": { command_field: command } })
            }
            (Self::Explicit, _) if event.moment == Some(Moment::Before) => json!({ "decision": "allow" }),
            (Self::Explicit, _) => json!({}),
            (_, Verdict::Silent) => return None,
            (Self::Nested, Verdict::Deny(reason)) => {
                nested(event, json!({ "permissionDecision": "deny", "permissionDecisionReason": reason }))
            }
            (Self::Nested, Verdict::Context(text)) => nested(event, json!({ "additionalContext": text })),
            (Self::Nested, Verdict::Command(command)) => nested(
                event,
                json!({ "permissionDecision": "allow", "updatedInput": with_command(event, command) }),
            ),
            (Self::Decision, Verdict::Deny(reason)) => json!({ "decision": "deny", "reason": reason }),
            (Self::Decision, Verdict::Context(text)) => {
                json!({ "hookSpecificOutput": { "additionalContext": text } })
            }
            (Self::Decision, Verdict::Command(command)) => {
                json!({ "hookSpecificOutput": { "tool_input": with_command(event, command) } })
            }
            (Self::Nested | Self::Decision, Verdict::Line(line)) => json!({ "systemMessage": line }),
            (Self::Permission, Verdict::Deny(reason)) => {
                json!({ "permission": "deny", "user_message": reason, "agent_message": reason })
            }
            (Self::Permission, Verdict::Context(text)) => {
                json!({ "permission": "allow", "agent_message": text })
            }
            (Self::Permission, Verdict::Command(command)) => {
                json!({ "permission": "allow", "updated_input": with_command(event, command) })
            }
            // Its last event takes a message for the model only, which would begin another turn.
            (Self::Permission, Verdict::Line(_)) => return None,
            (Self::Flat, Verdict::Deny(reason)) => {
                json!({ "permissionDecision": "deny", "permissionDecisionReason": reason })
            }
            (Self::Flat, Verdict::Context(text)) => json!({ "additionalContext": text }),
            (Self::Flat, Verdict::Command(command)) => json!({ "modifiedArgs": with_command(event, command) }),
            (Self::Flat, Verdict::Line(_)) => return None,
            (Self::Plain, Verdict::Deny(reason)) => json!({ "deny": reason }),
            (Self::Plain, Verdict::Context(text)) => json!({ "context": text }),
            (Self::Plain, Verdict::Command(command)) => json!({ "command": command }),
            (Self::Plain, Verdict::Line(line)) => json!({ "line": line }),
        })
    }
}

/// Returns a response in the field for an event.
fn nested(event: &Event, output: Value) -> Value {
    let mut fields = Map::new();
    fields.insert("hookEventName".to_owned(), event.name.as_str().into());
    if let Value::Object(output) = output {
        fields.extend(output);
    }
    json!({ "hookSpecificOutput": fields })
}

/// Returns the arguments of a call with another command.
fn with_command(event: &Event, command: &str) -> Value {
    let mut input = event.input.clone();
    if let Some(fields) = input.as_object_mut() {
        fields.insert(event.command_field().to_owned(), command.into());
    }
    input
}
