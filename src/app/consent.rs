//! A person's consent before a change.

use serde_json::Value;

use super::call::Call;
use super::options::Options;
use crate::control::Control;
use crate::engine::workspace::Workspace;
use crate::error::{Error, ErrorKind};
use crate::request;
use crate::text::checked::peek_str;
use crate::text::counted::counted;
use crate::text::visible;
use crate::tools::{Effect, Reply, Text, ToolEntry};

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
    /// What the change would do, as a person is shown it and as a tool answers it.
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

/// The text of a reply, and the differences that it has beside.
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

/// A request as a person reads it: a command of several lines in several lines.
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
    let seen = |text: &str| text.split_inclusive('\n').map(visible::controls).collect::<String>();
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
