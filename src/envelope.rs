//! The one shape of every answer, and how its JSON is laid out: on one line, or over lines for people.
//!
//! Serde compiles a type anew for each kind of writer and of layout. All answers are written with one kind of
//! both, which decides at run time.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use crate::engine::CallNotes;
use crate::error::{Error, ErrorKind};

/// A refusal as answers show it.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Refusal<'a> {
    /// Which row of the table of errors.
    pub kind: ErrorKind,
    /// What was wrong.
    pub message: &'a str,
    /// The path concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'a str>,
    /// The next step.
    pub suggested_action: &'a str,
    /// The same facts for programs.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub details: &'a Map<String, Value>,
    /// Present and true where the change itself stands.
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

/// An answer: either `data` or `error`, with what the call left beside it.
#[derive(Debug, Serialize)]
struct Envelope<'a, D> {
    /// Whether the request was carried out.
    ok: bool,
    /// The tool that answers.
    tool: &'a str,
    /// The caller's own name for the request, in a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    /// The tool's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<D>,
    /// The refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal<'a>>,
    /// True where nothing was changed because that was asked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    /// What the caller should know though the call succeeded.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    /// The commit that holds what the call changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<&'a str>,
}

/// What stands round an answer.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The tool that answers.
    pub tool: &'a str,
    /// The caller's own name for the request, in a batch.
    pub id: Option<&'a Value>,
    /// Warnings and snapshot.
    pub outcome: &'a CallNotes,
    /// Whether to spread it over lines, for people.
    pub pretty: bool,
}

impl<'a> Frame<'a> {
    /// Writes the answer of a request that was carried out, as one JSON text.
    ///
    /// # Errors
    /// Where `data` cannot be JSON, or `out` takes no more.
    pub fn success<D: Serialize>(&self, data: &D, out: &mut dyn Write) -> serde_json::Result<()> {
        self.write(&Envelope { ok: true, data: Some(data), ..self.empty() }, out)
    }

    /// The answer of a refused request, as one JSON text.
    #[must_use]
    pub fn failure(&self, error: &Error) -> Vec<u8> {
        let suggested = error.suggested_on_command_line(self.tool);
        let refusal = Refusal { suggested_action: &suggested, ..Refusal::from(error) };
        let envelope = Envelope { error: Some(refusal), ..self.empty::<()>() };
        let mut json = Vec::new();
        // Text and maps with text keys are always JSON.
        let _ = self.write(&envelope, &mut json);
        json
    }

    /// An envelope without contents.
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
        write_json(envelope, Layout::pretty(self.pretty), out)
    }
}

/// How a JSON text is laid out.
pub enum Layout {
    /// On one line.
    Line,
    /// Over lines, with indents.
    Lines(PrettyFormatter<'static>),
}

impl Layout {
    /// Over lines where that is wanted, else on one.
    #[must_use]
    pub fn pretty(is_wanted: bool) -> Self {
        if is_wanted { Self::Lines(PrettyFormatter::new()) } else { Self::Line }
    }
}

/// Formatter methods that leave the choice to the layout.
macro_rules! by_layout {
    ($($method:ident($($argument:ident: $type:ty)?);)*) => {
        $(fn $method<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $type)?) -> io::Result<()> {
            match self {
                Self::Line => CompactFormatter.$method(writer $(, $argument)?),
                Self::Lines(pretty) => pretty.$method(writer $(, $argument)?),
            }
        })*
    };
}

impl Formatter for Layout {
    by_layout! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }
}

/// Writes a value as JSON.
///
/// # Errors
/// Where the value cannot be JSON, or `out` takes no more.
pub fn write_json<T: Serialize + ?Sized>(
    value: &T,
    layout: Layout,
    out: &mut dyn Write,
) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, layout))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_layouts_are_those_of_serde_json() {
        let value = json!({ "a": [1, { "b": [] }, {}, "x\n\u{1}\""], "c": { "d": null, "e": 0.5 }, "f": -1 });
        let written = |layout| {
            let mut text = Vec::new();
            write_json(&value, layout, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(written(Layout::pretty(false)), serde_json::to_string(&value).unwrap());
        assert_eq!(written(Layout::pretty(true)), serde_json::to_string_pretty(&value).unwrap());
    }
}
