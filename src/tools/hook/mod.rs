//! `hook`: serves the hooks of a client, so that the client's own tools are gated, recorded and undoable too, by turns.

pub mod client;
mod event;
mod files;
mod worktree;

use std::time::{Duration, Instant};

use client::{CLIENTS, HookClient, Moment, ToolKind};
use event::{Event, Verdict, short};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bash::client_command;
use super::session::{self, Session, net_size};
use super::{Effect, Stdin, Text, Tool};
use crate::control::seconds_now;
use crate::engine::Engine;
use crate::engine::change::gate::quoted;
use crate::engine::history::turns::{Turn, Turns};
use crate::engine::journal;
use crate::engine::policy::settings::Key;
use crate::engine::store::hook_log::{self, HookRecord};
use crate::engine::store::state::State;
use crate::engine::workspace::must_be_meant;
use crate::error::Error;
use crate::limits::COUNTED_FILES_MAX;
use crate::text::diff::Counts;
use crate::text::plural::plural;

/// Serve an event of a client's hooks, given as JSON on stdin
///
/// `lbx init --client CLIENT --guard` sets the hooks up. Before a file tool of the client, the call is denied if the
/// session has not seen the file's present bytes; after it, and after a command, the files that changed are recorded as
/// a change of the session, in the turn of its prompt. With --forks, each worktree that the client wants is a fork.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Client that sends the event
    #[arg(value_name = "CLIENT")]
    pub client: String,
    /// Name of the event, if its JSON does not have it
    #[arg(value_name = "EVENT")]
    pub name: Option<String>,
    /// The event, as the client's JSON
    #[arg(long, value_name = "JSON")]
    #[serde(default)]
    pub event: Option<String>,
}

/// Response of a hook.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Response {
    /// Response in the client's form, or the path of a worktree; absent if there is nothing to say
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<Value>,
}

/// The `hook` tool.
pub struct Hook;

impl Tool for Hook {
    const NAME: &'static str = "hook";
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Bulk { field: "event", unless: &[] };
    const TEXT_BY_DEFAULT: bool = true;
    const SERVED: bool = false;
    const NEEDS_POLICY: bool = false;
    // 2 would forbid the client's call.
    const REFUSED: Option<u8> = Some(1);
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let client = HookClient::find(&request.client).ok_or_else(|| unknown(&request.client))?;
        let begun = Instant::now();
        let event =
            Event::parse(client, request.name.as_deref(), request.event.as_deref().unwrap_or_default());
        let event = match event {
            Ok(event) => event,
            // The client must not wait for what it cannot say.
            Err(error) => {
                engine.warn(error.message().to_owned());
                return Ok(Response::default());
            }
        };
        if let Some(Moment::WorktreeCreate | Moment::WorktreeRemove) = event.moment {
            must_be_meant(engine.workspace.root())?;
            let served = take_session(engine, client, &event).and_then(|()| worktree::serve(engine, &event));
            let outcome = served.as_ref().map_or_else(|error| error.kind().name(), |_| "ok");
            note(engine, client, &event, (outcome, begun));
            return served.map(|path| Response { reply: path.map(Value::String) });
        }
        if must_be_meant(engine.workspace.root()).is_err() {
            return Ok(Response { reply: client.form.reply(&event, &Verdict::Silent) });
        }
        let limit = Duration::from_millis(engine.policy().number(Key::GuardMs));
        engine.control = engine.control.clone().within(limit);
        engine.workspace.set_lock_wait(limit);
        let served = take_session(engine, client, &event).and_then(|()| serve(engine, client, &event));
        let outcome = match &served {
            Ok(Verdict::Deny(_)) => "denied",
            Ok(_) => "ok",
            Err(error) => error.kind().name(),
        };
        note(engine, client, &event, (outcome, begun));
        let verdict = served.unwrap_or_else(|error| failed(engine, &event, &error));
        Ok(Response { reply: client.form.reply(&event, &verdict) })
    }

    fn text(response: &Response, text: &mut Text) {
        match &response.reply {
            // The path of a worktree.
            Some(Value::String(path)) => text.out.extend([path.as_bytes(), b"\n"].concat()),
            Some(reply) => text.line(&reply.to_string()),
            None => {}
        }
    }
}

/// Returns the error for a client without hooks.
fn unknown(name: &str) -> Error {
    let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
    Error::invalid(format!("unknown client {name:?} (there are: {})", names.join(", ")))
        .detail("field", "client")
}

/// Makes the call that of the session of the client's process, or of its conversation if no session is named; a
/// subagent has a session of its own.
fn take_session(engine: &mut Engine, client: &HookClient, event: &Event) -> Result<(), Error> {
    let mut session = match engine.named_session() {
        Some(session) => session.to_string(),
        None => format!("{}-{}", client.name, short(event.conversation())),
    };
    if let Some(agent) = &event.agent {
        session = format!("{session}.{}", short(agent));
    }
    engine.act_for(session.parse()?);
    Ok(())
}

/// Does what an event asks for.
fn serve(engine: &mut Engine, client: &HookClient, event: &Event) -> Result<Verdict, Error> {
    let Some(moment) = event.moment else { return Ok(Verdict::Silent) };
    match (moment, event.kind) {
        (Moment::Prompt, _) => {
            settle(engine)?;
            begin_turn(engine, event)?;
        }
        (Moment::Before, ToolKind::Edit | ToolKind::Patch | ToolKind::Write) => {
            join_turn(engine, event)?;
            return files::before(engine, client, event);
        }
        (Moment::Before, ToolKind::Command) => {
            join_turn(engine, event)?;
            return before_command(engine, client, event);
        }
        (Moment::After, ToolKind::Read) => files::shown(engine, event),
        (Moment::After | Moment::Failed, ToolKind::Edit | ToolKind::Patch | ToolKind::Write) => {
            files::after(engine, event)?;
        }
        (Moment::After | Moment::Failed, ToolKind::Command) => {
            return client_command::end(engine, false, event.is_background()).map(of_unknown_writers);
        }
        (Moment::Stop | Moment::AgentStop, _) => {
            let unknown = settle(engine)?;
            let lines = [end_turn(engine)?, unknown];
            let line: Vec<String> = lines.into_iter().flatten().collect();
            return Ok(if line.is_empty() { Verdict::Silent } else { Verdict::Line(line.join("; ")) });
        }
        (Moment::Fresh, _) => return fresh(engine),
        // Worktrees are served before any of this.
        (
            Moment::Before | Moment::After | Moment::Failed | Moment::WorktreeCreate | Moment::WorktreeRemove,
            _,
        ) => {}
    }
    Ok(Verdict::Silent)
}

/// Records what is not recorded yet of the session's calls; returns a sentence about changes of unknown writers.
fn settle(engine: &mut Engine) -> Result<Option<String>, Error> {
    files::settle(engine)?;
    Ok(match of_unknown_writers(client_command::end(engine, true, false)?) {
        Verdict::Context(text) => Some(text),
        _ => None,
    })
}

/// Says that some files were changed while commands of several sessions ran.
fn of_unknown_writers(files: usize) -> Verdict {
    if files == 0 {
        return Verdict::Silent;
    }
    Verdict::Context(format!(
        "{} changed while another session's command ran too: nobody knows whose they are, and undo leaves them alone",
        plural(files, "file")
    ))
}

/// Looks at the workspace before a command, or makes it a command of lbx.
fn before_command(engine: &mut Engine, client: &HookClient, event: &Event) -> Result<Verdict, Error> {
    let Some(command) = event.command() else { return Ok(Verdict::Silent) };
    let word = engine.policy().word(Key::GuardBash).to_owned();
    if word == "wrap" && client.takes_changed_calls && !event.is_background() {
        let program = std::env::current_exe().ok();
        let program = program.as_ref().and_then(|program| program.to_str()).unwrap_or("lbx");
        let limit = event.timeout_ms().map_or_else(String::new, |ms| format!(" --timeout-ms {ms}"));
        return Ok(Verdict::Command(format!(
            "{} bash --text --session {}{limit} -- {}",
            quoted(program),
            engine.session(),
            quoted(command)
        )));
    }
    if word != "off" {
        client_command::begin(engine, command, event.is_background())?;
    }
    Ok(Verdict::Silent)
}

/// Marks everything as unread, and says what the session did.
fn fresh(engine: &mut Engine) -> Result<Verdict, Error> {
    Session::run(engine, session::Request::of(session::Action::Compact))?;
    let brief = Session::run(engine, session::Request::of(session::Action::Brief))?.brief;
    Ok(brief.filter(|text| !text.is_empty()).map_or(Verdict::Silent, Verdict::Context))
}

/// Adds the event to the log that `doctor` shows.
fn note(engine: &mut Engine, client: &HookClient, event: &Event, (outcome, begun): (&str, Instant)) {
    let record = HookRecord {
        time: seconds_now(),
        client: client.name.to_owned(),
        event: event.name.clone(),
        tool: if event.kind == ToolKind::Other { String::new() } else { event.tool.clone() },
        outcome: outcome.to_owned(),
        duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    if let Ok(Some(state)) = State::find(&engine.workspace) {
        // The log is only for a person who looks for the reason of a fault.
        let _ = hook_log::add(&state, &record);
    }
}

/// Returns the answer of a hook that failed: the policy decides whether the client's call is made. Only the first
/// failure of a session is reported.
fn failed(engine: &mut Engine, event: &Event, error: &Error) -> Verdict {
    let what = format!("lbx could not check or record this: {}", error.message());
    if engine.policy().word(Key::GuardOnFailure) == "closed" && event.moment == Some(Moment::Before) {
        return Verdict::Deny(format!(
            "{what} (guard.on_failure = \"closed\"). {}",
            error.suggested_action()
        ));
    }
    let is_first = match State::find(&engine.workspace) {
        Ok(Some(state)) => hook_log::is_first_failure(&state, engine.session().as_str()),
        _ => true,
    };
    if is_first { Verdict::Line(format!("{what}; this is said once")) } else { Verdict::Silent }
}

/// Most changes of a turn that are read for the line about it.
const CHANGES_MAX: u64 = 1000;

/// Begins a turn at a prompt.
fn begin_turn(engine: &mut Engine, event: &Event) -> Result<(), Error> {
    let title = event.prompt.as_deref().filter(|_| engine.policy().keeps_titles());
    with_turns(engine, |turns, next| {
        let key = event.turn.clone().unwrap_or_else(|| format!("prompt-{next}"));
        turns.begin(&key, title, next);
    })
}

/// Begins the turn of an event, if no prompt did: a subagent gets no prompt, and some clients do not report it.
fn join_turn(engine: &mut Engine, event: &Event) -> Result<(), Error> {
    let is_its = |turn: &Turn| event.turn.as_ref().is_none_or(|key| turn.key == *key);
    let has_begun = match State::find(&engine.workspace)? {
        Some(state) => Turns::load(&state, engine.session().as_str())?.open().is_some_and(is_its),
        None => false,
    };
    if has_begun {
        return Ok(());
    }
    with_turns(engine, |turns, next| {
        let key = event.turn.clone().unwrap_or_else(|| format!("turn-{next}"));
        turns.begin(&key, None, next);
    })
}

/// Ends the turn; returns a line about it, if it has changed anything.
fn end_turn(engine: &mut Engine) -> Result<Option<String>, Error> {
    let mut ended = None;
    with_turns(engine, |turns, next| {
        ended = turns.open().cloned().map(|turn| Turn { last: Some(next - 1), ..turn });
        turns.end(next);
    })?;
    let Some(turn) = ended.filter(|turn| turn.last >= Some(turn.first)) else { return Ok(None) };
    let Some(state) = State::find(&engine.workspace)? else { return Ok(None) };
    let session = engine.session().to_string();
    let last = turn.last.unwrap_or(turn.first);
    let mut entries = Vec::new();
    for seq in turn.first.max(last.saturating_sub(CHANGES_MAX))..=last {
        entries.extend(journal::done_entry(&state, &session, seq)?);
    }
    let (files, lines) = net_size(engine, &state, &entries, COUNTED_FILES_MAX)?;
    let (size, Counts { added, removed }) = (plural(files, "file"), lines);
    let line = format!("{size}, +{added} -{removed}; undo: lbx undo --turn {last} --session {session}");
    Ok((files > 0).then_some(line))
}

/// Changes the turns of the session; the second argument of `work` is the number of its next change.
fn with_turns(engine: &mut Engine, work: impl FnOnce(&mut Turns, u64)) -> Result<(), Error> {
    let session = engine.session().to_string();
    let change = engine.begin(Hook::NAME, &[], false)?;
    let Some(state) = change.state() else { return Ok(()) };
    let found = Turns::load(state, &session)?;
    let mut turns = found.clone();
    work(&mut turns, change.number());
    if turns == found { Ok(()) } else { turns.save(state, &session) }
}
