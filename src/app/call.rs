//! One call: from a tool and its request to an answer with what is left beside it.

use serde_json::Value;

use super::options::Options;
use super::remote::{CallResult, Remote};
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::policy::Policy;
use crate::engine::workspace::Workspace;
use crate::error::without_panic;
use crate::error::{Error, ErrorKind};
use crate::request;
use crate::text::checked::peek_str;
use crate::text::counted::counted;
use crate::text::escaped;
use crate::tools::{Answered, Effect, Reply, Text, ToolEntry};

/// A call that is about to be made.
pub struct Call {
    /// The tool.
    tool: &'static ToolEntry,
    /// The engine for it.
    engine: Engine,
    /// The request, where it came as JSON.
    request: Value,
}

impl Call {
    /// Makes the call of a JSON request, in the container that the options name where they name one.
    #[must_use]
    pub fn make(tool: &'static ToolEntry, mut request: Value, options: &Options) -> CallResult {
        let called = options.with_fields_of(&mut request).and_then(|options| {
            Ok(match Remote::of(&options)? {
                Some(remote) => remote.call(tool, &request, &options, &Control::default()),
                None => Self { request, ..Self::new(tool, &options)? }.run(),
            })
        });
        called.unwrap_or_else(CallResult::refused)
    }

    /// Returns a call by the options' session in their workspace.
    ///
    /// # Errors
    /// Where there is no such workspace, session or sandbox.
    pub fn new(tool: &'static ToolEntry, options: &Options) -> Result<Self, Error> {
        let workspace = if tool.needs_policy { options.open_workspace() } else { options.open_any_folder() };
        Self::within(workspace?, tool, options)
    }

    /// Returns a call by the options' session in a workspace that is known already.
    ///
    /// # Errors
    /// Where there is no such session, or the policy is not as it should be.
    pub fn within(workspace: Workspace, tool: &'static ToolEntry, options: &Options) -> Result<Self, Error> {
        let loaded = Policy::load(&workspace, &options.policy);
        let session = options.session_id()?;
        let (policy, fault) = match loaded {
            Ok(policy) => (policy, None),
            Err(error) if tool.needs_policy => return Err(error),
            Err(error) => (Policy::default(), Some(error)),
        };
        let mut engine = Engine::under(policy, workspace, session, Control::default());
        if let Some(fault) = fault {
            engine.set_policy_fault(fault);
        }
        for ignored in engine.policy().ignored_variables().to_vec() {
            engine.warn(ignored);
        }
        engine.require_snapshot |= options.require_snapshot;
        engine.set_for_a_person(options.person);
        engine.harness.clone_from(&options.harness);
        engine.counts_lines_now = options.counts_lines_now;
        if options.is_session_named {
            engine.set_session_named();
        }
        Ok(Self { tool, engine, request: Value::Null })
    }

    /// Returns the same call, listening to `control`.
    #[must_use]
    pub fn controlled_by(mut self, control: Control) -> Self {
        self.engine.control = control;
        self
    }

    /// Makes the call with its JSON request.
    #[must_use]
    pub fn run(mut self) -> CallResult {
        let (tool, request) = (self.tool, std::mem::take(&mut self.request));
        self.run_with(|engine| (tool.run_json)(engine, request))
    }

    /// Makes the call.
    #[must_use]
    pub fn run_with(mut self, run: impl FnOnce(&mut Engine) -> Answered) -> CallResult {
        let answered = without_panic(|| run(&mut self.engine));
        if self.tool.effect != Effect::Reads || self.engine.has_changed() {
            self.engine.audit(self.tool.name, answered.as_ref().err());
        }
        let (outcome, tally) = self.engine.finish(self.tool.name);
        CallResult { answered, outcome, tally }
    }
}

/// Asks the person about a change, which the text describes; an error means no.
pub type Ask = dyn Fn(&str) -> Result<(), Error> + Send + Sync;

/// Bytes of a description that a person is shown.
const SHOWN_BYTES_MAX: usize = 16_000;
/// Bytes of them that are of its end, where it is longer.
const END_BYTES: usize = 6_000;
/// Bytes that the trial of a change may answer, so that its end can be shown.
const TRIAL_BYTES_MAX: usize = 4 << 20;

/// A change that a person may be asked about.
pub struct Proposal<'a> {
    /// Opens the workspace.
    pub open: &'a dyn Fn() -> Result<Workspace, Error>,
    /// The tool.
    pub tool: &'static ToolEntry,
    /// Its request.
    pub request: &'a Value,
    /// The options of the call.
    pub options: &'a Options,
    /// What the call listens to.
    pub control: &'a Control,
}

/// Asks before a change is made, with what it would do. A call that changes nothing is not asked about.
///
/// No lock is held while the person thinks. What the change would do is looked at again afterwards: consent
/// to one result is none to another.
///
/// # Errors
/// What the person or the change itself refuses; `stale_file` where the result would be another by now.
pub fn consent(ask: &Ask, change: &Proposal<'_>) -> Result<(), Error> {
    let Proposal { tool, request, .. } = *change;
    if tool.effect == Effect::Reads {
        return Ok(());
    }
    let schema = (tool.request_schema)();
    let has = |field: &str| schema.get("properties").and_then(|fields| fields.get(field)).is_some();
    let mut trial = request.clone();
    // A command is run even where its changes are dropped afterwards: the person sees it as it is.
    if !has("dry_run") || has("command") {
        return consent_unseen(ask, tool, request);
    }
    if let Some(fields) = trial.as_object_mut() {
        let is_trial = |name: &str| request::snake_case(name) == "dry_run";
        if fields.iter().any(|(name, value)| is_trial(name) && *value == true) {
            return Ok(());
        }
        fields.retain(|name, _| !is_trial(name));
        fields.insert("dry_run".to_owned(), true.into());
        // What a person sees is not for the caller to bound.
        for (name, value) in [("diff", Value::from(true)), ("max_bytes", TRIAL_BYTES_MAX.into())] {
            if has(name) {
                fields.retain(|given, _| request::snake_case(given) != name);
                fields.insert(name.to_owned(), value);
            }
        }
    }
    let (shown, result) = change.tried(trial.clone())?;
    ask(&described(tool, &shown, request))?;
    if change.tried(trial)? != (shown, result) {
        return Err(Error::new(
            ErrorKind::StaleFile,
            "other changes came in before the person agreed, and this one would now do something else; \
             nothing was changed",
        )
        .suggest("Call again: the person is then asked about what it does now."));
    }
    Ok(())
}

impl Proposal<'_> {
    /// Returns what the change would do, as a person is shown it and as a tool answers it.
    ///
    /// # Errors
    /// What the change refuses.
    fn tried(&self, trial: Value) -> Result<(String, Value), Error> {
        let run_json = self.tool.run_json;
        let call = Call::within((self.open)()?, self.tool, self.options)?
            .controlled_by(self.control.clone().without_reports());
        let reply = call.run_with(|engine| run_json(engine, trial)).answered?;
        Ok((shown(reply.as_ref())?, reply.value()?))
    }
}

/// Returns the text of a reply, and the differences that it has beside.
fn shown(reply: &dyn Reply) -> Result<String, Error> {
    let mut text = Text::of_fields();
    reply.text(&mut text);
    let mut shown = String::from_utf8_lossy(&text.out).into_owned();
    let data = reply.value()?;
    for part in
        std::iter::once(&data).chain(data.get("files").and_then(Value::as_array).into_iter().flatten())
    {
        let diff = part.get("diff").and_then(Value::as_str).unwrap_or_default();
        if !shown.contains(diff) {
            shown.push_str(diff);
        }
    }
    Ok(shown)
}

/// The same where the change cannot be tried from here: the person sees the request.
///
/// # Errors
/// What the person refuses.
pub fn consent_unseen(ask: &Ask, tool: &'static ToolEntry, request: &Value) -> Result<(), Error> {
    match tool.effect {
        Effect::Reads => Ok(()),
        Effect::Adds | Effect::Writes => ask(&described(tool, &unescaped(request), request)),
    }
}

/// Returns a request as a person reads it: a command of several lines in several lines.
fn unescaped(request: &Value) -> String {
    let fields = request.as_object().into_iter().flatten();
    let line = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) if text.contains('\n') => format!("{name}:\n{text}\n"),
        Some(text) => format!("{name}: {text}\n"),
        None => format!("{name}: {value}\n"),
    };
    fields.filter(|(name, _)| *name != WHY).map(line).collect()
}

/// The field with the caller's reason.
const WHY: &str = "why";

/// Question for the person. Nothing in it gives orders to a terminal or changes the direction of text; of a long
/// one the start and the end are shown, with its size.
fn described(tool: &ToolEntry, change: &str, request: &Value) -> String {
    let seen = |text: &str| text.split_inclusive('\n').map(escaped::visible_controls).collect::<String>();
    let change = seen(change);
    let why = request.get(WHY).and_then(Value::as_str).map(|why| format!("Why: {}\n\n", seen(why)));
    let shown = if change.len() <= SHOWN_BYTES_MAX {
        change
    } else {
        let (start, end) = (SHOWN_BYTES_MAX - END_BYTES, change.len() - END_BYTES);
        let start = (0..=start).rev().find(|at| change.is_char_boundary(*at)).unwrap_or(0);
        let end = (end..=change.len()).find(|at| change.is_char_boundary(*at)).unwrap_or(change.len());
        let left_out = counted(end - start, "byte");
        let whole = counted(change.len(), "byte");
        format!(
            "{}\n… {left_out} of {whole} are not shown …\n{}",
            peek_str(&change, ..start),
            peek_str(&change, end..)
        )
    };
    format!("Allow this {}?\n\n{}{shown}", tool.name, why.unwrap_or_default())
}
