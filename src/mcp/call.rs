//! Makes one call of a tool, and turns its result into MCP's form; handles its progress.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Map, Number, Value, json};

use super::client::ChosenRoot;
use super::connection::Connection;
use super::message::RESULT_BYTES_MAX;
use crate::app::options::{Options, Results};
use crate::app::remote::{CallResult, Remote};
use crate::app::{AskPerson, Proposal, ask_consent_by_request};
use crate::control::{Control, Progress};
use crate::dialect::client::LbxClient;
use crate::dialect::{Dialect, DialectTool, Media, ToolOutput};
use crate::engine::CallNotes;
use crate::engine::sandbox::fork::ForkFolder;
use crate::engine::store::calls::Delivery;
use crate::engine::store::sandboxes;
use crate::engine::store::state::State;
use crate::engine::workspace::Workspace;
use crate::envelope::Refusal;
use crate::error::{Error, ErrorKind, without_panic};
use crate::limits::RESULT_TEXT_BYTES_MAX;
use crate::request;
use crate::search::page::json_bytes;
use crate::text::escaped;
use crate::tools::fork::Fork;
use crate::tools::read::Read;
use crate::tools::{CallOutcome, Effect, Image, Reply, Text, Tool as _, ToolEntry};

/// Largest payload in bytes, also for requests that want more. A structured result holds its payload twice, once
/// escaped twice; with this limit, every text fits into a message.
const STRUCTURED_BYTES_MAX: u64 = 1_620_000;

/// Time between two notifications of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Tool that is called.
#[derive(Clone, Copy)]
pub enum CallTarget {
    /// Tool of lbx.
    Native(&'static ToolEntry),
    /// Tool of a model family.
    Foreign(&'static Dialect, &'static DialectTool),
}

impl CallTarget {
    /// Returns the name of the tool.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native(tool) => tool.name,
            Self::Foreign(_, tool) => tool.name,
        }
    }

    /// Returns the effect of the tool.
    pub const fn effect(self) -> Effect {
        match self {
            Self::Native(tool) => tool.effect,
            Self::Foreign(_, tool) => tool.effect,
        }
    }

    /// Returns the result for a call that cannot be made, in the words of the tool's family.
    pub fn refused(self, error: &Error, results: Results) -> ToolResult {
        let outcome = CallNotes::default();
        match self {
            Self::Native(_) => ToolResult::refused(error, &outcome, results),
            Self::Foreign(dialect, _) => {
                ToolResult::family_error(dialect.words_of(error, &Value::Null), &outcome)
            }
        }
    }
}

/// A call to be made.
pub struct ToolCall<'a> {
    /// The tool.
    pub target: CallTarget,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Workspace root, from which paths start; each call opens it again, since a folder may be replaced while the
    /// server runs.
    pub root: ChosenRoot,
    /// Session and other options.
    pub options: Options,
    /// Form of the result.
    pub results: Results,
    /// Control, which cancels the call.
    pub control: Control,
    /// Callback that asks a person before each change.
    pub ask: Option<&'a AskPerson<'a>>,
}

impl ToolCall<'_> {
    /// Makes the call; returns the work that ends with the result. A cancelled call stops at its next check.
    pub fn run(self) -> (ToolResult, Vec<Delivery>) {
        match self.target {
            CallTarget::Native(tool) => {
                let (results, warning) = (self.results, self.root.warning.clone());
                let made = without_panic(|| self.called(tool));
                let CallResult { answered, mut outcome, delivery } = made.unwrap_or_else(CallResult::refused);
                outcome.warnings.extend(warning);
                let has_reply = answered.is_ok();
                let result = ToolResult::of(answered, &outcome, results);
                delivery.iter().for_each(|call| call.count(result.payload_bytes()));
                // A reply that is too large for a message is not shown.
                let (shown, cut): (Vec<_>, Vec<_>) =
                    delivery.into_iter().partition(|_| result.is_error != has_reply);
                cut.into_iter().for_each(Delivery::revoke);
                (result, shown)
            }
            CallTarget::Foreign(dialect, tool) => self.foreign(dialect, tool),
        }
    }

    /// Returns the result of a model family's tool.
    fn foreign(self, dialect: &'static Dialect, tool: &'static DialectTool) -> (ToolResult, Vec<Delivery>) {
        let Self { arguments, root, options, results, control, ask, .. } = self;
        let request = Value::Object(arguments);
        let mut fields = request.clone();
        let options = with_forks(options, &root, &fields);
        let options = match options.with_call_fields_of(&mut fields) {
            Ok(options) => options.for_family(dialect.vocabulary(tool)),
            Err(error) => {
                let text = dialect.words_of(&error, &request);
                return (ToolResult::family_error(text, &CallNotes::default()), Vec::new());
            }
        };
        let open = || workspace_of(&options, &root);
        let mut lbx = LbxClient::new(&open, &options, control).with_confirmation(ask);
        let said = without_panic(|| dialect.call(tool, &mut lbx, fields));
        lbx.outcome.warnings.extend(root.warning.clone());
        let mut result = match said {
            Ok(said) => ToolResult::family_result(said, &lbx.outcome, results),
            Err(error) => ToolResult::family_error(dialect.words_of(&error, &request), &lbx.outcome),
        };
        if !result.is_error {
            result
                .content
                .extend(lbx.count_as_read().map(|warning| text_block(format!("warning: {warning}"))));
        }
        let mut bytes = result.payload_bytes();
        lbx.deliveries.iter().for_each(|call| call.count(std::mem::take(&mut bytes)));
        (result, lbx.deliveries)
    }

    /// Makes the call and returns its result.
    fn called(self, tool: &'static ToolEntry) -> Result<CallResult, Error> {
        let Self { arguments, root, options, results, control, ask, .. } = self;
        let mut request = Value::Object(arguments);
        let options = with_forks(options, &root, &request).with_call_fields_of(&mut request)?;
        let mut request = (tool.with_field_names)(request);
        if tool.name == Fork::NAME {
            must_be_a_layer(&request)?;
        }
        bound_payload(&mut request, results);
        if tool.name == Read::NAME && results == Results::Text {
            number_lines(&mut request);
        }
        if let Some(remote) = Remote::of(&options)? {
            if let Some(ask) = ask {
                ask_consent_by_request(ask, tool, &request, &options)?;
            }
            return remote.call(tool, &request, &options, &control);
        }
        let open = || workspace_of(&options, &root);
        let change = Proposal { open: &open, tool, request: &request, options: &options, control: &control };
        let call = change.ask_consent(ask)?;
        Ok(call.run_with(|engine| (tool.run_json)(engine, request)))
    }
}

/// Returns options with which a call may name a fork of the served workspace, if it does and the server has forks.
fn with_forks(mut options: Options, root: &ChosenRoot, request: &Value) -> Options {
    let fields = request.as_object().into_iter().flatten();
    let named =
        fields.filter(|(name, _)| request::snake_case(name) == "sandbox").find_map(|it| it.1.as_str());
    if let (Some(served), Some(named), true) = (&mut options.sandboxes, named, options.serves_forks)
        && is_fork(root, named)
    {
        served.push(named.to_owned());
    }
    options
}

/// Returns true if the served workspace has a fork of that name.
fn is_fork(root: &ChosenRoot, name: &str) -> bool {
    let found = || {
        let workspace = root.open().ok()?;
        let state = State::find(&workspace).ok()??;
        ForkFolder::open(&workspace, &state, &sandboxes::slug(name).ok()?).ok()
    };
    found().is_some()
}

/// Rejects a fork as a copy: a server writes nothing outside its workspace.
fn must_be_a_layer(request: &Value) -> Result<(), Error> {
    if request.get("at").is_some_and(|at| !at.is_null()) {
        return Err(Error::invalid("this server makes no copies of the workspace: they are outside it")
            .suggest("Leave `at` out. The user may make one: `lbx fork NAME --at DIR`.")
            .detail("field", "at"));
    }
    Ok(())
}

/// Returns the workspace of a call: that of the sandbox that the call names, else the server's own.
fn workspace_of(options: &Options, root: &ChosenRoot) -> Result<Workspace, Error> {
    let opened = match &options.sandbox {
        Some(name) => {
            let (name, sandbox) = sandboxes::find(name)?;
            sandbox.must_be_a_folder(&name)?;
            Workspace::open(Path::new(&sandbox.root))
        }
        None => root.open(),
    };
    Ok(opened?.keeping(&options.kept))
}

/// Adds line numbers to a text result, so that edits can name lines: no field says where the text begins.
fn number_lines(request: &mut Value) {
    /// Fields with which a text has no line numbers, or that set them already.
    const OTHERS: [&str; 3] = ["line_numbers", "binary", "cell"];
    let Some(fields) = request.as_object_mut() else { return };
    let says = |name: &&str| fields.get(*name).is_some_and(|value| !value.is_null() && value != "");
    if !OTHERS.iter().any(says) {
        fields.insert("line_numbers".to_owned(), true.into());
    }
}

/// Replaces an unlimited size in a request by the largest that a message can hold.
fn bound_payload(request: &mut Value, results: Results) {
    // An image is sent once, in either form.
    let wants_image = request.get("binary").is_some_and(|form| !form.is_null() && form != "");
    let most = match results {
        Results::Json if !wants_image => STRUCTURED_BYTES_MAX,
        Results::Json | Results::Text => RESULT_TEXT_BYTES_MAX,
    };
    let Some(value) = request.get_mut("max_bytes") else { return };
    let number = value.as_str().and_then(|text| text.trim().parse::<Number>().ok());
    let asked = number.map_or_else(|| value.as_f64(), |number| number.as_f64());
    if asked == Some(0.0) || asked > Value::from(most).as_f64() {
        *value = most.into();
    }
}

/// Reports the progress of a call to the client.
struct ProgressReporter {
    /// Progress sent so far.
    count: ProgressSum,
    /// Time of the next notification at the earliest.
    next: Instant,
}

impl ProgressReporter {
    /// Returns the parameters of a notification if the progress is new, and not too soon after the last one.
    fn progress_params(&mut self, token: &Value, progress: Progress, line: &str) -> Option<Value> {
        let now = Instant::now();
        let progress = self.count.add(progress);
        if progress.done <= self.count.told || now < self.next {
            return None;
        }
        self.count.told = progress.done;
        self.next = now + PROGRESS_INTERVAL;
        let mut params = Map::from_iter([
            ("progressToken".to_owned(), token.clone()),
            ("progress".to_owned(), number(progress.done).into()),
        ]);
        params.extend(progress.total.map(|total| ("total".to_owned(), number(total).into())));
        params.extend((!line.is_empty()).then(|| ("message".to_owned(), line.into())));
        Some(params.into())
    }
}

/// Returns a control for a call of a client that wants its progress.
pub fn reporting(control: Control, connection: &Arc<Connection>, token: Value) -> Control {
    let reporter = Mutex::new(ProgressReporter { count: ProgressSum::default(), next: Instant::now() });
    let connection = Arc::clone(connection);
    control.reporting_to(Arc::new(move |progress, line| {
        let mut reporter = reporter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(params) = reporter.progress_params(&token, progress, line) {
            connection.notify("notifications/progress", &params);
        }
    }))
}

/// Sums the progress of a call over its parts, each of which counts from 0: the numbers that a client gets must grow.
#[derive(Debug, Default)]
struct ProgressSum {
    /// Sum of the parts that have ended.
    before: u64,
    /// Progress of the current part.
    now: u64,
    /// Last number sent.
    told: u64,
}

impl ProgressSum {
    /// Returns the total progress when a part is at `progress`.
    fn add(&mut self, progress: Progress) -> Progress {
        if progress.done <= self.now / 2 {
            self.before += std::mem::take(&mut self.now);
        }
        // Reports of several threads may arrive out of order.
        self.now = self.now.max(progress.done);
        let total = progress.total.map(|total| self.before + total);
        Progress { done: self.before + self.now, total }
    }
}

/// Returns a number in the form of the protocol.
#[expect(clippy::cast_precision_loss, reason = "JSON has no other numbers, and no file count is that large")]
const fn number(count: u64) -> f64 {
    count as f64
}

/// A tool result of MCP.
#[derive(Debug)]
pub struct ToolResult {
    /// Blocks of text, images and files.
    content: Vec<Value>,
    /// Result as data.
    structured: Option<Value>,
    /// True if the call failed.
    pub is_error: bool,
}

impl ToolResult {
    /// Returns a result without data.
    const fn new(content: Vec<Value>, is_error: bool) -> Self {
        Self { content, structured: None, is_error }
    }

    /// Returns the result of a call.
    fn of(answered: CallOutcome, outcome: &CallNotes, results: Results) -> Self {
        let result = answered.and_then(|mut reply| {
            // Each image is in a block of its own, and only there.
            let images = reply.take_images();
            let mut result = match results {
                Results::Json => Self::structured(reply.as_ref(), outcome)?,
                Results::Text => Self::text(reply.as_ref(), outcome),
            };
            result.content.extend(images.iter().map(image_block));
            match result.excess() {
                None => Ok(result),
                Some(bytes) => Err(too_large(bytes, outcome)),
            }
        });
        result.unwrap_or_else(|error| Self::refused(&error, outcome, results))
    }

    /// Returns the data of the response, with warnings and snapshot among its fields, as structured content and as text.
    fn structured(reply: &dyn Reply, outcome: &CallNotes) -> Result<Self, Error> {
        let data = with_outcome(reply.value()?, outcome);
        let content = vec![text_block(data.to_string())];
        Ok(Self { structured: Some(data), ..Self::new(content, false) })
    }

    /// Returns the payload as text, and in a second block the notes that the CLI writes to stderr.
    fn text(reply: &dyn Reply, outcome: &CallNotes) -> Self {
        let mut text = Text::of_fields().as_dry_run(outcome.dry_run);
        reply.text(&mut text);
        let mut notes = text.notes;
        notes.extend(outcome.warnings.iter().map(|warning| format!("warning: {}", escaped::line(warning))));
        let mut blocks = Vec::new();
        // An image has its own block.
        if !text.out.is_empty() || (notes.is_empty() && text.err.is_empty()) {
            blocks.push(text_block(String::from_utf8_lossy(&text.out)));
        }
        if !text.err.is_empty() {
            blocks.push(text_block(format!("stderr:\n{}", String::from_utf8_lossy(&text.err))));
        }
        if !notes.is_empty() {
            blocks.push(text_block(notes.join("\n")));
        }
        Self::new(blocks, false)
    }

    /// Returns the result of an error: its text is the error as JSON with the suggested action first, or as plain text. It
    /// has no structured content, which would have to fit the output schema of the tool.
    fn refused(error: &Error, outcome: &CallNotes, results: Results) -> Self {
        /// Error with its fields in a good order for a model.
        #[derive(Serialize)]
        struct OrderedError<'a> {
            #[serde(flatten)]
            refusal: Refusal<'a>,
            #[serde(flatten)]
            outcome: Value,
        }
        let text = match results {
            Results::Json => {
                let outcome = with_outcome(Value::Object(Map::new()), outcome);
                // Text, and maps with text keys, always serialize.
                serde_json::to_string(&OrderedError { refusal: Refusal::from(error), outcome })
                    .unwrap_or_default()
            }
            Results::Text => in_words(error, outcome),
        };
        Self::new(vec![text_block(text)], true)
    }

    /// Returns the result of a model family's tool: its text, its images, and the warnings of the call.
    fn family_result(said: ToolOutput, outcome: &CallNotes, results: Results) -> Self {
        let mut blocks = Vec::new();
        if !said.text.is_empty() || said.images.is_empty() && said.media.is_empty() {
            blocks.push(text_block(said.text));
        }
        blocks.extend(said.media.iter().map(Media::as_block));
        blocks.extend(said.images.iter().map(image_block));
        blocks.extend(warnings(outcome));
        let structured = said.structured.filter(|_| results == Results::Json);
        let result = Self { structured, ..Self::new(blocks, said.is_error) };
        match result.excess() {
            None => result,
            // The model family knows neither the form nor the fields of lbx's own errors.
            Some(bytes) => {
                let error = too_large(bytes, outcome);
                let advice = if error.is_applied() {
                    "The change was made."
                } else {
                    ErrorKind::TooLarge.suggested_action()
                };
                Self::family_error(format!("{}. {advice}", error.message()), outcome)
            }
        }
    }

    /// Returns the error result of a model family's tool.
    fn family_error(text: String, outcome: &CallNotes) -> Self {
        Self::new(std::iter::once(text_block(text)).chain(warnings(outcome)).collect(), true)
    }

    /// Returns the bytes that a model sees: text and images, without their structured form.
    fn payload_bytes(&self) -> usize {
        let bytes = |block: &Value| match block.get("type").and_then(Value::as_str) {
            Some("text") => block.get("text").and_then(Value::as_str).map_or(0, str::len),
            Some("image") => block.get("data").and_then(Value::as_str).map_or(0, str::len),
            _ => 0,
        };
        self.content.iter().map(bytes).sum()
    }

    /// Returns the bytes of a result that is too large for clients; `None` for any other.
    fn excess(&self) -> Option<u64> {
        let parts = || self.content.iter().chain(&self.structured);
        // Most results fit even if every character in them is escaped, and need not be counted.
        if parts().map(bytes_at_most).sum::<usize>() <= RESULT_BYTES_MAX {
            return None;
        }
        let bytes: u64 = parts().map(json_bytes).sum();
        (bytes > RESULT_BYTES_MAX as u64).then_some(bytes)
    }

    /// Returns the result in MCP's form.
    pub fn into_value(self) -> Value {
        let content = Value::Array(self.content);
        let mut fields =
            Map::from_iter([("content".to_owned(), content), ("isError".to_owned(), self.is_error.into())]);
        fields.extend(self.structured.map(|data| ("structuredContent".to_owned(), data)));
        Value::Object(fields)
    }
}

/// Returns a block of text.
fn text_block(text: impl Into<String>) -> Value {
    let mut fields = Map::from_iter([("type".to_owned(), "text".into())]);
    fields.insert("text".to_owned(), Value::String(text.into()));
    Value::Object(fields)
}

/// Returns a block with an image.
fn image_block(image: &Image) -> Value {
    json!({ "type": "image", "data": image.base64, "mimeType": image.mime })
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

/// Returns the warnings of a call as a content block.
fn warnings(outcome: &CallNotes) -> Option<Value> {
    let lines: Vec<String> = outcome.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
    (!lines.is_empty()).then(|| text_block(lines.join("\n")))
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
fn too_large(bytes: u64, outcome: &CallNotes) -> Error {
    let error = Error::new(
        ErrorKind::TooLarge,
        format!("the answer takes {bytes} bytes, and a message may have {RESULT_BYTES_MAX}"),
    )
    .suggest("Ask for less at once: a smaller max_bytes or limit, fewer paths, or a narrower path.")
    .detail("size", bytes)
    .detail("size_max", RESULT_BYTES_MAX);
    if outcome.changed { error.applied() } else { error }
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

#[cfg(test)]
mod tests {
    use super::{Progress, ProgressSum};

    #[test]
    fn progress_numbers_never_decrease() {
        let mut count = ProgressSum::default();
        let steps = [(1, None), (5, None), (4, None), (2, Some(3)), (3, Some(3)), (1, None)];
        let told = steps.map(|(done, total)| count.add(Progress { done, total }));
        let numbers = told.map(|progress| (progress.done, progress.total));
        assert_eq!(numbers, [(1, None), (5, None), (5, None), (7, Some(8)), (8, Some(8)), (9, None)]);
    }
}
