//! Common form of all responses, and the layout of their JSON: on one line, or indented for people.
//!
//! Serde compiles a type again for each kind of writer and of layout. All responses use one kind of both, which decides
//! at run time.

use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::engine::CallNotes;
use crate::error::{Error, ErrorKind};

/// An error in a response.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Refusal<'a> {
    /// Kind of error.
    pub kind: ErrorKind,
    /// Message.
    pub message: &'a str,
    /// Path concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'a str>,
    /// The next step.
    pub suggested_action: &'a str,
    /// Facts for programs.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub details: &'a Map<String, Value>,
    /// Present and true if the change itself was applied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
}

impl<'a> From<&'a Error> for Refusal<'a> {
    fn from(error: &'a Error) -> Self {
        Self {
            kind: error.kind(),
            message: error.message(),
            path: error.path(),
            suggested_action: error.suggested_action(),
            details: error.details(),
            applied: error.is_applied(),
        }
    }
}

/// Returns the error of a refusal as JSON, as another process of lbx reports it.
pub fn refused(told: &Value) -> Error {
    let text = |name: &str| told.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = ErrorKind::ALL.into_iter().find(|kind| kind.name() == text("kind"));
    let mut error = Error::new(kind.unwrap_or(ErrorKind::Internal), text("message"));
    let (action, path) = (text("suggested_action"), text("path"));
    if !action.is_empty() {
        error = error.suggest(action);
    }
    if !path.is_empty() {
        error = error.at(path);
    }
    for (name, value) in told.get("details").and_then(Value::as_object).into_iter().flatten() {
        error = error.detail(name, value.clone());
    }
    if told.get("applied").and_then(Value::as_bool) == Some(true) { error.applied() } else { error }
}

/// A response: either `data` or `error`, plus notes of the call.
#[derive(Debug, Serialize)]
struct Envelope<'a, D> {
    /// True if the request succeeded.
    ok: bool,
    /// Tool that answers.
    tool: &'a str,
    /// Caller's id of the request, in a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    /// Response of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<D>,
    /// Error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal<'a>>,
    /// True for a dry run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    /// Warnings of a call that succeeded.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    /// Commit that holds the changes of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<&'a str>,
}

/// Parts of a response other than its contents.
#[derive(Debug, Clone, Copy)]
pub struct ResponseFrame<'a> {
    /// Tool that answers.
    pub tool: &'a str,
    /// Caller's id of the request, in a batch.
    pub id: Option<&'a Value>,
    /// Warnings and snapshot.
    pub outcome: &'a CallNotes,
    /// True to indent it, for people.
    pub pretty: bool,
}

impl<'a> ResponseFrame<'a> {
    /// Writes the response of a successful request, as one JSON text.
    ///
    /// # Errors
    /// Fails if `data` cannot be JSON, or if `out` cannot be written.
    pub fn success<D: Serialize>(&self, data: &D, out: &mut dyn Write) -> serde_json::Result<()> {
        self.write(&Envelope { ok: true, data: Some(data), ..self.empty() }, out)
    }

    /// Returns the response of a failed request, as one JSON text.
    pub fn failure(&self, error: &Error) -> Vec<u8> {
        let suggested = error.suggested_on_command_line(self.tool);
        let refusal = Refusal { suggested_action: &suggested, ..Refusal::from(error) };
        let envelope = Envelope { error: Some(refusal), ..self.empty::<()>() };
        let mut json = Vec::new();
        // Text and maps with text keys are always JSON.
        let _ = self.write(&envelope, &mut json);
        json
    }

    /// Returns an envelope without contents.
    fn empty<D>(&self) -> Envelope<'a, D> {
        Envelope {
            ok: false,
            tool: self.tool,
            id: self.id,
            data: None,
            error: None,
            dry_run: self.outcome.dry_run,
            warnings: &self.outcome.warnings,
            snapshot: self.outcome.snapshot.as_deref(),
        }
    }

    /// Writes an envelope.
    fn write<D: Serialize>(&self, envelope: &Envelope<'_, D>, out: &mut dyn Write) -> serde_json::Result<()> {
        if self.pretty {
            serde_json::to_writer_pretty(out, envelope)
        } else {
            serde_json::to_writer(out, envelope)
        }
    }
}
