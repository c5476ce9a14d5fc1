//! Turns the result of a call into a tool result of MCP.

use std::io;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::app::options::Results;
use crate::app::remote::CallResult;
use crate::dialect::{Media, MediaKind, ToolOutput};
use crate::engine::CallNotes;
use crate::envelope::Refusal;
use crate::error::{Error, ErrorKind};
use crate::text::escaped;
use crate::tools::{Answered, Reply, Text};

/// Largest result, in bytes. Clients drop the connection at about 10 MB.
pub const RESULT_BYTES_MAX: usize = 4_000_000 - 4_096;

/// Returns the tool result of a call.
#[must_use]
pub fn of(called: CallResult, results: Results) -> CallToolResult {
    let CallResult { answered, outcome, tally } = called;
    let result = of_call(answered, &outcome, results);
    if let Some(tally) = tally {
        tally.close(payload_bytes(&result));
    }
    result
}

/// Returns the bytes of a result that a model sees: text and images, without their structured form.
#[must_use]
pub fn payload_bytes(result: &CallToolResult) -> usize {
    let bytes = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => text.text.len(),
        ContentBlock::Image(image) => image.data.len(),
        _ => 0,
    };
    result.content.iter().map(bytes).sum()
}

/// Returns the tool result of a successful call.
fn of_call(answer: Answered, outcome: &CallNotes, results: Results) -> CallToolResult {
    let result = match answer {
        Ok(reply) => answered(reply, outcome, results),
        Err(error) => Ok(refused(&error, outcome, results)),
    };
    match result {
        Ok(result) => bounded(result, outcome, results),
        Err(error) => refused(&error, outcome, results),
    }
}

/// Returns the result of an error: its text is the error as JSON with the suggested action first, or as plain text. It
/// has no structured content, which would have to fit the output schema of the tool.
#[must_use]
pub fn refused(error: &Error, outcome: &CallNotes, results: Results) -> CallToolResult {
    /// Error with its fields in a good order for a model.
    #[derive(Serialize)]
    struct InOrder<'a> {
        #[serde(flatten)]
        refusal: Refusal<'a>,
        #[serde(flatten)]
        outcome: Value,
    }
    let text = match results {
        Results::Json => {
            let outcome = with_outcome(Value::Object(Map::new()), outcome);
            // Text, and maps with text keys, always serialize.
            serde_json::to_string(&InOrder { refusal: Refusal::from(error), outcome }).unwrap_or_default()
        }
        Results::Text => in_words(error, outcome),
    };
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// Returns an error as plain text: message, suggested action, then the facts.
fn in_words(error: &Error, outcome: &CallNotes) -> String {
    let mut lines = vec![format!("{}: {}", error.kind(), escaped::lines(error.message()))];
    lines.push(escaped::lines(error.suggested_action()).to_string());
    if error.is_applied() {
        lines.push("The change was made.".to_owned());
    }
    for (name, value) in error.details().iter().filter(|(name, _)| *name != "field") {
        lines.push(match value {
            Value::String(text) if text.contains('\n') => format!("{name}:\n{}", text.trim_end()),
            Value::String(text) => format!("{name}: {text}"),
            other => format!("{name}: {other}"),
        });
    }
    lines.extend(outcome.warnings.iter().map(|warning| format!("warning: {}", escaped::line(warning))));
    lines.join("\n")
}

/// Returns the response in its form; each image is in a block of its own, and only there.
fn answered(
    mut reply: Box<dyn Reply>,
    outcome: &CallNotes,
    results: Results,
) -> Result<CallToolResult, Error> {
    let images = reply.take_images();
    let mut result = match results {
        Results::Json => structured(reply.as_ref(), outcome)?,
        Results::Text => text(reply.as_ref(), outcome),
    };
    result.content.extend(images.into_iter().map(|image| ContentBlock::image(image.base64, image.mime)));
    Ok(result)
}

/// Returns the data of the response, with warnings and snapshot among its fields, as structured content and as text.
fn structured(reply: &dyn Reply, outcome: &CallNotes) -> Result<CallToolResult, Error> {
    Ok(CallToolResult::structured(with_outcome(reply.value()?, outcome)))
}

/// Returns the payload as text, and in a second block the notes that the CLI writes to stderr.
fn text(reply: &dyn Reply, outcome: &CallNotes) -> CallToolResult {
    let mut text = Text::of_fields().of_a_dry_run(outcome.dry_run);
    reply.text(&mut text);
    let mut notes = text.notes;
    notes.extend(outcome.warnings.iter().map(|warning| format!("warning: {}", escaped::line(warning))));
    let mut blocks = Vec::new();
    // An image has its own block.
    if !text.out.is_empty() || notes.is_empty() {
        blocks.push(ContentBlock::text(String::from_utf8_lossy(&text.out)));
    }
    if !notes.is_empty() {
        blocks.push(ContentBlock::text(notes.join("\n")));
    }
    CallToolResult::success(blocks)
}

/// Returns the result of a model family's tool: its text, its images, and the warnings of the call.
#[must_use]
pub fn said(said: ToolOutput, outcome: &CallNotes, results: Results) -> CallToolResult {
    let mut blocks = Vec::new();
    if !said.text.is_empty() || said.images.is_empty() && said.media.is_empty() {
        blocks.push(ContentBlock::text(said.text));
    }
    blocks.extend(said.media.into_iter().map(block_of));
    blocks.extend(said.images.into_iter().map(|image| ContentBlock::image(image.base64, image.mime)));
    blocks.extend(warnings(outcome));
    let mut result =
        if said.is_error { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) };
    result.structured_content = said.structured.filter(|_| results == Results::Json);
    match excess(&result) {
        None => result,
        // The model family knows neither the form nor the fields of lbx's own errors.
        Some(bytes) => {
            let error = too_large(bytes, outcome);
            let advice = if error.is_applied() {
                "The change was made."
            } else {
                ErrorKind::TooLarge.suggested_action()
            };
            said_error(format!("{}. {advice}", error.message()), outcome)
        }
    }
}

/// Returns a file as a content block.
fn block_of(media: Media) -> ContentBlock {
    let kind = media.kind();
    let Media { mime, base64, uri } = media;
    match kind {
        MediaKind::Image => ContentBlock::image(base64, mime),
        MediaKind::Audio => ContentBlock::audio(base64, mime),
        MediaKind::Resource => {
            ContentBlock::resource(ResourceContents::blob(base64, uri).with_mime_type(mime))
        }
    }
}

/// Returns the error result of a model family's tool.
#[must_use]
pub fn said_error(text: String, outcome: &CallNotes) -> CallToolResult {
    CallToolResult::error(std::iter::once(ContentBlock::text(text)).chain(warnings(outcome)).collect())
}

/// Returns the warnings of a call as a content block.
fn warnings(outcome: &CallNotes) -> Option<ContentBlock> {
    let lines: Vec<String> = outcome.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
    (!lines.is_empty()).then(|| ContentBlock::text(lines.join("\n")))
}

/// Returns an object with warnings and snapshot among its fields.
fn with_outcome(mut value: Value, outcome: &CallNotes) -> Value {
    if let Some(object) = value.as_object_mut() {
        if outcome.dry_run {
            object.insert("dry_run".to_owned(), true.into());
        }
        if !outcome.warnings.is_empty() {
            object.insert("warnings".to_owned(), outcome.warnings.clone().into());
        }
        if let Some(snapshot) = &outcome.snapshot {
            object.insert("snapshot".to_owned(), snapshot.clone().into());
        }
    }
    value
}

/// Returns the error for a response that is too large for clients.
fn too_large(bytes: usize, outcome: &CallNotes) -> Error {
    let error = Error::new(
        ErrorKind::TooLarge,
        format!("the answer takes {bytes} bytes, and a message may have {RESULT_BYTES_MAX}"),
    )
    .suggest("Ask for less at once: a smaller max_bytes or limit, fewer paths, or a narrower path.")
    .detail("size", bytes)
    .detail("size_max", RESULT_BYTES_MAX);
    if outcome.changed { error.applied() } else { error }
}

/// Returns the result, or an error if it is too large for clients.
fn bounded(result: CallToolResult, outcome: &CallNotes, results: Results) -> CallToolResult {
    match excess(&result) {
        None => result,
        Some(bytes) => refused(&too_large(bytes, outcome), outcome, results),
    }
}

/// Returns the bytes of a result that is too large for clients; `None` for any other.
fn excess(result: &CallToolResult) -> Option<usize> {
    if is_surely_short(result) {
        return None;
    }
    Some(bytes_of(result)).filter(|bytes| *bytes > RESULT_BYTES_MAX)
}

/// Returns true if a result fits even if every character in it is escaped: most need not be counted.
fn is_surely_short(result: &CallToolResult) -> bool {
    /// Bytes of a block without its text.
    const BLOCK_BYTES: usize = 64;
    let blocks = result.content.iter().map(|block| match block {
        ContentBlock::Text(text) => Some(ESCAPED_BYTES_MAX * text.text.len() + BLOCK_BYTES),
        _ => None,
    });
    let content: Option<usize> = blocks.sum();
    let structured = result.structured_content.as_ref().map_or(0, bytes_at_most);
    content.is_some_and(|content| content + structured <= RESULT_BYTES_MAX)
}

/// Largest number of bytes in JSON for one byte of text.
const ESCAPED_BYTES_MAX: usize = 6;

/// Returns an upper bound on the bytes of a value as JSON.
fn bytes_at_most(value: &Value) -> usize {
    /// Bytes of a number.
    const NUMBER_BYTES: usize = 32;
    /// Bytes of quotes, brackets, colon and comma.
    const AROUND_BYTES: usize = 4;
    let text = |text: &str| ESCAPED_BYTES_MAX * text.len() + AROUND_BYTES;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => NUMBER_BYTES,
        Value::String(string) => text(string),
        Value::Array(list) => list.iter().map(bytes_at_most).sum::<usize>() + AROUND_BYTES,
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| text(name) + bytes_at_most(value)).sum::<usize>() + AROUND_BYTES
        }
    }
}

/// Returns the bytes of a result as JSON.
fn bytes_of(result: &CallToolResult) -> usize {
    let mut counter = Counter(0);
    // Counting cannot fail, and a value that does not serialize fails again when it is sent.
    let _ = serde_json::to_writer(&mut counter, result);
    counter.0
}

/// Counts the bytes that are written to it.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
