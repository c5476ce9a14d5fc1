//! Code shared by the front ends: options of a process or call, and one call of a tool, which returns the response with
//! its warnings and snapshot.

pub mod options;
pub mod remote;

use options::Options;
use remote::{CallResult, Remote};
use serde_json::Value;

use crate::control::Control;
use crate::engine::Engine;
use crate::engine::policy::Policy;
use crate::engine::store::calls::Delivery;
use crate::engine::workspace::Workspace;
use crate::error::{Error, ErrorKind, without_panic};
use crate::limits::QUESTION_BYTES_MAX;
use crate::text::checked::str_or_empty;
use crate::text::escaped;
use crate::text::escaped::plural;
use crate::tools::bash::Bash;
use crate::tools::merge::Merge;
use crate::tools::{CallOutcome, Effect, Reply, Text, Tool as _, ToolEntry};

/// Call that is ready to be made.
pub struct Call {
    /// Tool to call.
    tool: &'static ToolEntry,
    /// Engine that runs the tool.
    engine: Engine,
    /// Request, if it came as JSON.
    request: Value,
}

impl Call {
    /// Makes a call from a JSON request, in the container that the options name, if any.
    pub fn make(tool: &'static ToolEntry, mut request: Value, options: &Options) -> CallResult {
        let called = options.with_fields_of(&mut request).and_then(|options| match Remote::of(&options)? {
            Some(remote) => remote.call(tool, &request, &options, &Control::default()),
            None => Ok(Self { request, ..Self::new(tool, &options)? }.run()),
        });
        called.unwrap_or_else(CallResult::refused)
    }

    /// Returns a call in the workspace and session of the options.
    ///
    /// # Errors
    /// Fails if there is no such workspace, session or sandbox.
    pub fn new(tool: &'static ToolEntry, options: &Options) -> Result<Self, Error> {
        let workspace = if tool.needs_policy {
            options.open_workspace()
        } else {
            options.open_any_folder(tool.project_variables)
        };
        Self::in_workspace(workspace?, tool, options)
    }

    /// Returns a call in an open workspace, in the session of the options.
    ///
    /// # Errors
    /// Fails if there is no such session, or the policy is invalid.
    pub fn in_workspace(
        workspace: Workspace,
        tool: &'static ToolEntry,
        options: &Options,
    ) -> Result<Self, Error> {
        let loaded = Policy::load(&workspace, &options.policy);
        let session = options.session_id()?;
        let (policy, fault) = match loaded {
            Ok(policy) => (policy, None),
            Err(error) if tool.needs_policy => return Err(error),
            Err(error) => (Policy::default(), Some(error)),
        };
        let mut engine = Engine::with_policy(policy, workspace, session, Control::default());
        if let Some(fault) = fault {
            engine.set_policy_fault(fault);
        }
        for ignored in engine.policy().ignored_variables().to_vec() {
            engine.warn(ignored);
        }
        engine.require_snapshot |= options.require_snapshot;
        engine.set_reader_is_person(options.person);
        engine.harness.clone_from(&options.harness);
        engine.words.clone_from(&options.words);
        if options.is_session_named {
            engine.set_session_named();
        }
        Ok(Self { tool, engine, request: Value::Null })
    }

    /// Sets the control that can cancel the call.
    #[must_use]
    pub fn with_control(mut self, control: Control) -> Self {
        self.engine.control = control;
        self
    }

    /// Makes the call with its JSON request.
    pub fn run(mut self) -> CallResult {
        let (tool, request) = (self.tool, std::mem::take(&mut self.request));
        self.run_with(|engine| (tool.run_json)(engine, request))
    }

    /// Makes the call.
    pub fn run_with(self, run: impl FnOnce(&mut Engine) -> CallOutcome) -> CallResult {
        let mut called = self.run_unshown(run);
        called.outcome.warnings.extend(called.delivery.as_mut().and_then(Delivery::save));
        called
    }

    /// Makes a call whose response another one may show.
    pub fn run_unshown(mut self, run: impl FnOnce(&mut Engine) -> CallOutcome) -> CallResult {
        let answered = without_panic(|| run(&mut self.engine));
        // A command that was cancelled, or an error after the change.
        let has_changed = self.engine.has_changed();
        let answered = answered.map_err(|error| if has_changed { error.applied() } else { error });
        if self.tool.effect != Effect::Reads || self.engine.has_changed() {
            self.engine.audit(self.tool.name, answered.as_ref().err());
        }
        let (outcome, delivery) = self.engine.finish(self.tool.name);
        CallResult { answered, outcome, delivery: Some(delivery) }
    }
}

/// Function that asks the person about a change, which the text describes; an error means no.
pub type AskPerson<'a> = dyn Fn(&str) -> Result<(), Error> + Send + Sync + 'a;

/// Bytes of the end to show of a longer description.
const END_BYTES: usize = 6_000;
/// Field of a request that only shows its effect.
const DRY_RUN: &str = "dry_run";
/// Largest response of a trial run, in bytes, so that its end can be shown.
const TRIAL_BYTES_MAX: usize = 4 << 20;

/// Change that a person may be asked about.
pub struct Proposal<'a> {
    /// Function that opens the workspace.
    pub open: &'a dyn Fn() -> Result<Workspace, Error>,
    /// Tool of the change.
    pub tool: &'static ToolEntry,
    /// Request of the tool, whose fields have the names of its type.
    pub request: &'a Value,
    /// Options of the call.
    pub options: &'a Options,
    /// Control that can cancel the call.
    pub control: &'a Control,
}

impl Proposal<'_> {
    /// Returns the call, ready to be made. Before, shows a person its effect and asks for consent, unless nobody is to be
    /// asked or it changes nothing.
    ///
    /// Holds no lock while the person thinks. Computes the effect again afterwards, under the lock that the change then
    /// has: consent to one result does not cover another.
    ///
    /// # Errors
    /// Returns the error of the person or of the change itself; `stale_file` if the result is different by now.
    pub fn ask_consent(&self, ask: Option<&AskPerson<'_>>) -> Result<Call, Error> {
        let Self { tool, request, options, .. } = *self;
        let Some(ask) = ask.filter(|_| !(tool.is_lookup)(request.clone())) else { return self.call() };
        let Some(trial) = self.trial() else {
            ask_consent_by_request(ask, tool, request, options)?;
            return self.call();
        };
        if trial == *request {
            return self.call();
        }
        let seen = self.preview(trial.clone())?;
        ask(&described(tool, &seen.0, request, options))?;
        let mut call = self.call()?;
        // They take locks of their own before that of the workspace.
        if ![Bash::NAME, Merge::NAME].contains(&tool.name) {
            call.engine.lock_early()?;
        }
        if self.preview(trial)? != seen {
            return Err(Error::new(
                ErrorKind::StaleFile,
                "other changes came in before the person agreed, and this one would now do something else; \
                 nothing was changed",
            )
            .suggest("Call again: the person is then asked about what it does now."));
        }
        Ok(call)
    }

    /// Returns the call without a question.
    fn call(&self) -> Result<Call, Error> {
        Ok(Call::in_workspace((self.open)()?, self.tool, self.options)?.with_control(self.control.clone()))
    }

    /// Returns the request that shows the effect and has none: the request itself if it has none, `None` if no request
    /// shows it.
    ///
    /// A command runs even if its changes are dropped afterwards; its kept layer can be shown.
    fn trial(&self) -> Option<Value> {
        let mut trial = self.request.clone();
        let schema = (self.tool.request_schema)();
        let has = |field: &str| schema.get("properties").and_then(|fields| fields.get(field)).is_some();
        let fields = trial.as_object_mut()?;
        if has("command") {
            fields.retain(|name, _| !["apply", "drop"].contains(&name.as_str()));
        } else if has(DRY_RUN) {
            if fields.insert(DRY_RUN.to_owned(), true.into()) == Some(true.into()) {
                return Some(trial);
            }
        } else {
            return None;
        }
        // The caller must not limit what the person sees.
        for (name, value) in [("diff", Value::from(true)), ("max_bytes", TRIAL_BYTES_MAX.into())] {
            if has(name) {
                fields.insert(name.to_owned(), value);
            }
        }
        Some(trial).filter(|trial| !has("command") || (self.tool.is_lookup)(trial.clone()))
    }

    /// Returns the effect of the change, as the text for the person and as the response of the tool.
    ///
    /// # Errors
    /// Fails if the change fails.
    fn preview(&self, trial: Value) -> Result<(String, Value), Error> {
        let run_json = self.tool.run_json;
        let call = Call::in_workspace((self.open)()?, self.tool, self.options)?
            .with_control(self.control.clone().without_reports());
        let is_lookup = trial.get(DRY_RUN).is_none();
        let CallResult { answered, outcome, .. } = call.run_unshown(|engine| {
            engine.keep_preview();
            run_json(engine, trial)
        });
        let reply = answered?;
        let shown = text_with_diffs(reply.as_ref(), is_lookup, &outcome.preview)?;
        // A lookup does not say what is to be done with what it shows.
        let shown = if is_lookup { format!("{}\n{shown}", unescaped(self.request)) } else { shown };
        Ok((shown, reply.value()?))
    }
}

/// Returns the text of a reply with its diffs, or else with `preview`, and if `has_notes`, with its notes first.
fn text_with_diffs(reply: &dyn Reply, has_notes: bool, preview: &str) -> Result<String, Error> {
    let mut text = Text::of_fields();
    reply.text(&mut text);
    let notes = text.notes.iter().filter(|_| has_notes).map(|note| format!("{note}\n"));
    let mut shown = notes.chain([String::from_utf8_lossy(&text.out).into_owned()]).collect::<String>();
    let data = reply.value()?;
    let parts =
        std::iter::once(&data).chain(data.get("files").and_then(Value::as_array).into_iter().flatten());
    let mut diffs = parts.filter_map(|part| part.get("diff").and_then(Value::as_str)).peekable();
    if diffs.peek().is_none() {
        shown.push_str(preview);
    }
    for diff in diffs {
        if !shown.contains(diff) {
            shown.push_str(diff);
        }
    }
    Ok(shown)
}

/// Asks for consent to a change that cannot be tried from here: the person sees the request.
///
/// # Errors
/// Fails if the person refuses.
pub fn ask_consent_by_request(
    ask: &AskPerson<'_>,
    tool: &'static ToolEntry,
    request: &Value,
    options: &Options,
) -> Result<(), Error> {
    if (tool.is_lookup)(request.clone()) {
        return Ok(());
    }
    ask(&described(tool, &unescaped(request), request, options))
}

/// Returns a request in readable form: a command of several lines stays on several lines, indented, so that none of them
/// looks like another field.
fn unescaped(request: &Value) -> String {
    let fields = request.as_object().into_iter().flatten();
    let line = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) if text.contains('\n') => {
            format!("{name}:\n{}", text.lines().map(|line| format!("    {line}\n")).collect::<String>())
        }
        Some(text) => format!("{name}: {text}\n"),
        None => format!("{name}: {value}\n"),
    };
    fields.filter(|(name, value)| *name != WHY && !value.is_null()).map(line).collect()
}

/// Name of the field with the caller's reason.
const WHY: &str = "why";
/// Longest reason that is shown, in characters.
const WHY_CHARACTERS_MAX: usize = 400;

/// Returns the question for the person. Removes terminal controls and changes of text direction; shows only the start,
/// the end and the size of a long text. The caller's reason comes last, on one line, so that it cannot pass for the change.
fn described(tool: &ToolEntry, change: &str, request: &Value, options: &Options) -> String {
    let seen = |text: &str| text.split_inclusive('\n').map(escaped::visible_controls).collect::<String>();
    let change = seen(change);
    let why = request.get(WHY).and_then(Value::as_str).map(|why| {
        let start: String = why.chars().take(WHY_CHARACTERS_MAX).collect();
        let more = if start.len() < why.len() { "…" } else { "" };
        format!("\n\nWhy, as the caller says: {}{more}", escaped::visible_controls(&escaped::line(&start)))
    });
    let place = options.sandbox.as_ref().map(|name| format!(" in the sandbox {}", escaped::name(name)));
    let session = options.session.as_ref().filter(|_| options.is_session_named);
    let session = session.map(|name| format!(" as session {}", escaped::name(name)));
    let shown = if change.len() <= QUESTION_BYTES_MAX {
        change
    } else {
        let (start, end) = (QUESTION_BYTES_MAX - END_BYTES, change.len() - END_BYTES);
        let start = (0..=start).rev().find(|at| change.is_char_boundary(*at)).unwrap_or(0);
        let end = (end..=change.len()).find(|at| change.is_char_boundary(*at)).unwrap_or(change.len());
        let left_out = plural(end - start, "byte");
        let whole = plural(change.len(), "byte");
        format!(
            "{}\n… {left_out} of {whole} are not shown …\n{}",
            str_or_empty(&change, ..start),
            str_or_empty(&change, end..)
        )
    };
    let [place, session, why] = [place, session, why].map(Option::unwrap_or_default);
    format!("Allow this {}{place}{session}?\n\n{}{why}", tool.name, shown.trim_end())
}
