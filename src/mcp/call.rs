//! Makes one call on a thread of its own; handles its cancellation and progress.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ProgressNotificationParam};
use rmcp::service::RequestContext;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::answer;
use super::root::ChosenRoot;
use crate::app::call::{Ask, Call, Proposal, consent, consent_unseen};
use crate::app::options::{Options, Results};
use crate::app::remote::{CallResult, Remote};
use crate::control::{Control, Progress};
use crate::dialect::client::LbxClient;
use crate::dialect::{Dialect, DialectTool};
use crate::engine::CallNotes;
use crate::engine::store::{calls, sandboxes};
use crate::engine::workspace::Workspace;
use crate::error::Error;
use crate::error::without_panic;
use crate::request;
use crate::tools::read::Read;
use crate::tools::{Tool as _, ToolEntry};

/// Largest payload in bytes, also for requests that want more. A structured result holds its payload twice, once
/// escaped twice; with this limit, source code still fits into a message.
const STRUCTURED_BYTES_MAX: u64 = 1_700_000;
/// Largest payload of a text result, in bytes.
const TEXT_BYTES_MAX: u64 = 3_400_000;

/// Time between two notifications of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Tool that is called.
#[derive(Clone, Copy)]
pub enum Target {
    /// Tool of lbx.
    Native(&'static ToolEntry),
    /// Tool of a model family.
    Foreign(&'static Dialect, &'static DialectTool),
}

/// A call to be made.
pub struct ToolCall {
    /// The tool.
    pub target: Target,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Workspace root, from which paths start; each call opens it again, since a folder may be replaced while the
    /// server runs.
    pub root: ChosenRoot,
    /// Session and other options.
    pub options: Options,
    /// Form of the result.
    pub results: Results,
    /// Callback that asks a person before each change.
    pub ask: Option<Arc<Ask>>,
}

impl ToolCall {
    /// Makes the call. Waits for its end even if it is cancelled: a cancelled call stops at its next check.
    pub async fn run(self, context: &RequestContext<RoleServer>) -> CallToolResult {
        let (control, mut news) = control_for(context);
        let results = self.results;
        let listening = control.clone();
        let mut running = tokio::task::spawn_blocking(move || self.make(listening));
        let mut teller = Teller { context, count: Count::default(), next: Instant::now() };
        loop {
            tokio::select! {
                biased;
                result = &mut running => return result.unwrap_or_else(|lost| {
                    let lost = Error::internal(format!("the call was lost: {lost}"));
                    answer::refused(&lost, &CallNotes::default(), results)
                }),
                () = context.ct.cancelled(), if !control.is_cancelled() => control.cancel(),
                Ok(()) = news.changed() => {
                    let now = news.borrow_and_update().clone();
                    teller.tell(now).await;
                }
            }
        }
    }

    /// Makes the call on this thread.
    fn make(self, control: Control) -> CallToolResult {
        match self.target {
            Target::Native(tool) => {
                let (results, warning) = (self.results, self.root.warning.clone());
                let mut called = self.called(tool, control).unwrap_or_else(CallResult::refused);
                called.outcome.warnings.extend(warning);
                answer::of(called, results)
            }
            Target::Foreign(dialect, tool) => self.foreign(dialect, tool, control),
        }
    }

    /// Returns the result of a model family's tool.
    fn foreign(self, dialect: &Dialect, tool: &DialectTool, control: Control) -> CallToolResult {
        let Self { arguments, root, options, results, ask, .. } = self;
        let request = Value::Object(arguments);
        let mut fields = request.clone();
        let (mut outcome, mut tallies) = (CallNotes::default(), Vec::new());
        let said = options.with_call_fields_of(&mut fields).map(Options::for_a_family).and_then(|options| {
            let open = || workspace_of(&options, &root);
            let mut lbx = LbxClient::new(&open, &options, control).asking(ask.as_deref());
            let said = without_panic(|| dialect.call(tool, &mut lbx, fields));
            (outcome, tallies) = (lbx.outcome, lbx.tallies);
            said
        });
        outcome.warnings.extend(root.warning);
        let result = match said {
            Ok(said) => answer::said(said, &outcome, results),
            Err(error) => {
                let text = dialect.words_of(&error, &request);
                answer::said_error(text, &outcome)
            }
        };
        calls::close_all(tallies, answer::payload_bytes(&result));
        result
    }

    /// Makes the call and returns its result.
    fn called(self, tool: &'static ToolEntry, control: Control) -> Result<CallResult, Error> {
        let Self { arguments, root, options, results, ask, .. } = self;
        let mut request = Value::Object(arguments);
        let options = options.with_call_fields_of(&mut request)?;
        bound_payload(&mut request, results);
        if tool.name == Read::NAME && results == Results::Text {
            number_lines(&mut request);
        }
        if let Some(remote) = Remote::of(&options)? {
            if let Some(ask) = ask {
                consent_unseen(&*ask, tool, &request)?;
            }
            return Ok(remote.call(tool, &request, &options, &control));
        }
        if let Some(ask) = ask {
            let open = || workspace_of(&options, &root);
            let (request, options, control) = (&request, &options, &control);
            consent(&*ask, &Proposal { open: &open, tool, request, options, control })?;
        }
        let workspace = workspace_of(&options, &root)?;
        let call = Call::within(workspace, tool, &options)?.controlled_by(control);
        Ok(call.run_with(|engine| (tool.run_json)(engine, request)))
    }
}

/// Returns the workspace of a call: that of the sandbox that the call names, else the server's own.
fn workspace_of(options: &Options, root: &ChosenRoot) -> Result<Workspace, Error> {
    let opened = match &options.sandbox {
        Some(name) => Workspace::open(Path::new(&sandboxes::find(name)?.1.root)),
        None => root.open(),
    };
    Ok(opened?.keeping(&options.kept))
}

/// Adds line numbers to a text result, so that edits can name lines: no field says where the text begins.
fn number_lines(request: &mut Value) {
    /// Fields with which a text has no line numbers, or that set them already.
    const OTHERS: [&str; 4] = ["line_numbers", "binary", "cell", "page"];
    let Some(fields) = request.as_object_mut() else { return };
    if !fields.keys().any(|name| OTHERS.contains(&request::snake_case(name).as_str())) {
        fields.insert("line_numbers".to_owned(), true.into());
    }
}

/// Replaces an unlimited size in a request by the largest that a message can hold.
fn bound_payload(request: &mut Value, results: Results) {
    // An image is sent once, in either form.
    let wants_image = request.get("binary").is_some_and(|form| !form.is_null());
    let most = match results {
        Results::Json if !wants_image => STRUCTURED_BYTES_MAX,
        Results::Json | Results::Text => TEXT_BYTES_MAX,
    };
    for (name, value) in request.as_object_mut().into_iter().flatten() {
        let asked = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
        if request::snake_case(name) == "max_bytes" && asked.is_some_and(|asked| asked == 0 || asked > most) {
            *value = most.into();
        }
    }
}

/// Progress of a call, and a line about it.
type News = (Progress, String);

/// Returns the control of a call, and the receiver of its progress if the client wants any.
fn control_for(context: &RequestContext<RoleServer>) -> (Control, watch::Receiver<News>) {
    let (sender, news) = watch::channel((Progress { done: 0, total: None }, String::new()));
    if context.meta.get_progress_token().is_none() {
        return (Control::default(), news);
    }
    let report = move |now: Progress, line: &str| {
        sender.send_replace((now, line.to_owned()));
    };
    (Control::default().reporting_to(Arc::new(report)), news)
}

/// Reports progress to the client.
struct Teller<'a> {
    /// Call.
    context: &'a RequestContext<RoleServer>,
    /// Progress sent so far.
    count: Count,
    /// Time of the next notification at the earliest.
    next: Instant,
}

impl Teller<'_> {
    /// Sends progress if it is new, and not too often.
    async fn tell(&mut self, (progress, line): News) {
        let Some(token) = self.context.meta.get_progress_token() else {
            return;
        };
        let progress = self.count.add(progress);
        if progress.done > self.count.told && Instant::now() >= self.next {
            self.count.told = progress.done;
            self.next = Instant::now() + PROGRESS_INTERVAL;
            // If sending fails, the client is gone, and the transport knows.
            let _ = self.context.peer.notify_progress(notification(token, progress, line)).await;
        }
    }
}

/// Sums the progress of a call over its parts, each of which counts from 0: the numbers that a client gets must grow.
#[derive(Debug, Default)]
struct Count {
    /// Sum of the parts that have ended.
    before: u64,
    /// Progress of the current part.
    now: u64,
    /// Last number sent.
    told: u64,
}

impl Count {
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

/// Returns a progress notification.
#[expect(clippy::cast_precision_loss, reason = "JSON has no other numbers, and no file count is that large")]
fn notification(
    token: rmcp::model::ProgressToken,
    progress: Progress,
    line: String,
) -> ProgressNotificationParam {
    let mut notification = ProgressNotificationParam::new(token, progress.done as f64);
    notification.message = Some(line).filter(|line| !line.is_empty());
    match progress.total {
        Some(total) => notification.with_total(total as f64),
        None => notification,
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, Progress};

    #[test]
    fn numbers_grow_from_part_to_part() {
        let mut count = Count::default();
        let steps = [(1, None), (5, None), (4, None), (2, Some(3)), (3, Some(3)), (1, None)];
        let told = steps.map(|(done, total)| count.add(Progress { done, total }));
        let numbers = told.map(|progress| (progress.done, progress.total));
        assert_eq!(numbers, [(1, None), (5, None), (5, None), (7, Some(8)), (8, Some(8)), (9, None)]);
    }
}
