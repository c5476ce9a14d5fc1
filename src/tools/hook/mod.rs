//! `hook`: serves the hooks of a client, so that the client's own tools are gated, recorded and undoable too, by turns.
//!
//! A worktree of a client is a fork, as a copy with a path of its own. Its folder is next to that of the workspace, as
//! `app.fix-login` next to `app`: on its file system, so that the files share their blocks, and at its depth, so that
//! `../library` in a build file leads to where it did. lbx's folder of the user need not have the first and cannot have
//! the second, and the commands of `bash` do not see it.

pub mod client;
mod event;
mod files;

use std::path::{Path, PathBuf};
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
use crate::engine::change::gate::quoted;
use crate::engine::history::client_calls::{ClosingEvent, Turn, Turns};
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::fork::{ForkFolder, Forks, parent_of};
use crate::engine::store::calls::{self, HookRecord};
use crate::engine::store::sandboxes;
use crate::engine::store::session::SessionId;
use crate::engine::store::state::State;
use crate::engine::workspace::{Workspace, fs, must_be_meant};
use crate::engine::{Engine, journal};
use crate::error::{Error, ErrorKind};
use crate::limits::{COUNTED_FILES_MAX, FORKS_MAX};
use crate::text::diff::LineCounts;
use crate::text::escaped::plural;
use crate::tools::fork;
use crate::tools::fork_changes::ForkChanges;

/// Serve an event of a client's hooks, given as JSON on stdin
///
/// `lbx init --client CLIENT --guard` sets the hooks up. Before a file tool of the client, the call is denied if the
/// session has not seen the file's present bytes; after it, and after a command, the files that changed are recorded as
/// a change of the session, in the turn of its prompt. With --forks, each worktree that the client wants is a fork.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Client that sends the event
    #[arg(value_name = "CLIENT")]
    pub client: String,
    /// Name of the event, if its JSON does not have it
    #[arg(value_name = "EVENT")]
    pub name: Option<String>,
    /// The event, as the client's JSON
    #[arg(long, value_name = "JSON")]
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
    const PROJECT_VARIABLES: &'static [&'static str] =
        &["CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "QWEN_PROJECT_DIR", "CURSOR_PROJECT_DIR"];
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
                let before = client.events.iter().find(|(_, moment)| *moment == Moment::Before);
                let event = before.and_then(|(name, _)| Event::parse(client, Some(name), "{}").ok());
                let closed = closed_by(engine);
                let denied = event.filter(|_| closed.is_some());
                let reply = denied.and_then(|event| {
                    let verdict = failed(engine, &event, &error, closed);
                    client.form.reply(&event, &verdict)
                });
                return Ok(Response { reply });
            }
        };
        if let Some(Moment::WorktreeCreate | Moment::WorktreeRemove) = event.moment {
            must_be_meant(engine.workspace.root())?;
            let served = take_session(engine, client, &event)
                .and_then(|()| engine.take_policy_fault().map_or(Ok(()), Err))
                .and_then(|()| serve_worktree(engine, &event));
            let outcome = served.as_ref().map_or_else(|error| error.kind().name(), |_| "ok");
            note(engine, client, &event, (outcome, begun));
            return served.map(|path| Response { reply: path.map(Value::String) });
        }
        if must_be_meant(engine.workspace.root()).is_err() {
            return Ok(Response { reply: client.form.reply(&event, &Verdict::Silent) });
        }
        let limit = Duration::from_millis(engine.policy().number(Key::GuardMs));
        engine.control = engine.control.clone().with_time_limit(limit);
        engine.workspace.set_lock_wait(limit);
        let closed = closed_by(engine);
        // Whatever policy is meant, what happened is recorded.
        let changes =
            event.moment == Some(Moment::Before) && !matches!(event.kind, ToolKind::Read | ToolKind::Other);
        let fault = engine.take_policy_fault().filter(|_| changes);
        let served = take_session(engine, client, &event)
            .and_then(|()| fault.map_or(Ok(()), Err))
            .and_then(|()| serve(engine, client, &event));
        let outcome = match &served {
            Ok(Verdict::Deny(_)) => "denied",
            Ok(_) => "ok",
            Err(error) => error.kind().name(),
        };
        note(engine, client, &event, (outcome, begun));
        let verdict = served.unwrap_or_else(|error| failed(engine, &event, &error, closed));
        Ok(Response { reply: client.form.reply(&event, &verdict) })
    }

    fn text(response: &Response, text: &mut Text) {
        match &response.reply {
            // The path of a worktree.
            Some(Value::String(path)) => text.out.extend([path.as_bytes(), b"\n"].concat()),
            // A program reads it: escapes for a terminal would break the JSON.
            Some(reply) => text.out.extend(format!("{reply}\n").into_bytes()),
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
        let whole = format!("{session}.{}", short(agent));
        // The longest names have no room for a subagent.
        let is_short = whole.parse::<SessionId>().is_ok();
        session = if is_short { whole } else { format!("{}-{}", client.name, short(&whole)) };
    }
    engine.count_for_session(session.parse()?);
    Ok(())
}

/// Does what an event asks for.
fn serve(engine: &mut Engine, client: &HookClient, event: &Event) -> Result<Verdict, Error> {
    let Some(moment) = event.moment else { return Ok(Verdict::Silent) };
    match (moment, event.kind) {
        (Moment::Prompt, _) => {
            record_pending(engine, ClosingEvent::Prompt)?;
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
        (Moment::After, ToolKind::Read) => files::mark_shown(engine, client, event),
        (Moment::After | Moment::Failed, ToolKind::Edit | ToolKind::Patch | ToolKind::Write) => {
            files::after(engine, event)?;
        }
        (Moment::After | Moment::Failed, ToolKind::Command) => {
            return client_command::end(engine, None, event.is_background()).map(unknown_writers_text);
        }
        (Moment::Stop | Moment::AgentStop, _) => {
            let unknown = record_pending(engine, ClosingEvent::Stop)?;
            let lines = [end_turn(engine)?, unknown];
            let line: Vec<String> = lines.into_iter().flatten().collect();
            return Ok(if line.is_empty() { Verdict::Silent } else { Verdict::Line(line.join("; ")) });
        }
        (Moment::Compaction, _) => compact(engine)?,
        (Moment::Fresh, _) => return begin_context(engine, event),
        // Worktrees are served before any of this.
        (
            Moment::Before | Moment::After | Moment::Failed | Moment::WorktreeCreate | Moment::WorktreeRemove,
            _,
        ) => {}
    }
    Ok(Verdict::Silent)
}

/// Records what is not recorded yet of the session's calls; returns a sentence about changes of unknown writers.
fn record_pending(engine: &mut Engine, closing: ClosingEvent) -> Result<Option<String>, Error> {
    files::record_unreported(engine, closing)?;
    Ok(match unknown_writers_text(client_command::end(engine, Some(closing), false)?) {
        Verdict::Context(text) => Some(text),
        _ => None,
    })
}

/// Says that some files were changed while commands of several sessions ran.
fn unknown_writers_text(files: usize) -> Verdict {
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
        // An edit that is not recorded yet would be a part of what was there before the command.
        files::record_unreported(engine, ClosingEvent::Command)?;
        client_command::begin(engine, command, event.is_background())?;
    }
    Ok(Verdict::Silent)
}

/// Marks everything as unread.
fn compact(engine: &mut Engine) -> Result<(), Error> {
    Session::run(engine, session::Request::of(session::Action::Compact)).map(drop)
}

/// Marks everything as unread, unless a resumed context has it, and says what the session did.
fn begin_context(engine: &mut Engine, event: &Event) -> Result<Verdict, Error> {
    let source = event.source();
    if matches!(source, Some("startup" | "new" | "resume")) {
        record_pending(engine, ClosingEvent::Restart)?;
    }
    if source != Some("resume") {
        compact(engine)?;
    }
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
        let _ = calls::add(&state, &record);
    }
}

/// Returns the reason why a call that lbx cannot check is denied; `None` if the client makes it.
fn closed_by(engine: &Engine) -> Option<&'static str> {
    // Any file may be protected, and the guard may be closed.
    let is_unknown = engine.policy_fault().is_some();
    let is_closed = engine.policy().word(Key::GuardOnFailure) == "closed";
    is_unknown
        .then_some("the policy cannot be read")
        .or_else(|| is_closed.then_some("guard.on_failure = \"closed\""))
}

/// Returns the answer of a hook that failed: the client's call is denied if `closed` says why. Only the first failure of
/// a session is reported.
fn failed(engine: &mut Engine, event: &Event, error: &Error, closed: Option<&str>) -> Verdict {
    let what = format!("lbx could not check or record this: {}", error.message());
    if let Some(why) = closed.filter(|_| event.moment == Some(Moment::Before)) {
        return Verdict::Deny(format!("{what} ({why}). {}", error.suggested_action()));
    }
    let is_first = match State::find(&engine.workspace) {
        Ok(Some(state)) => calls::is_first_failure(&state, engine.session().as_str()),
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
        entries.extend(journal::history_entry(&state, &session, seq)?);
    }
    let (files, lines) = net_size(engine, &state, &entries, COUNTED_FILES_MAX)?;
    let (size, LineCounts { added, removed }) = (plural(files, "file"), lines);
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

/// Serves an event about a worktree; returns the path of a new one.
///
/// # Errors
/// Fails if no fork can be made, or one is kept since it holds work.
fn serve_worktree(engine: &mut Engine, event: &Event) -> Result<Option<String>, Error> {
    if event.moment == Some(Moment::WorktreeCreate) {
        return create(engine, event).map(Some);
    }
    remove(engine, event)?;
    Ok(None)
}

/// Creates a fork, and returns its path. A name that is in use gets a number: `fix`, `fix-2`, `fix-3`.
fn create(engine: &mut Engine, event: &Event) -> Result<String, Error> {
    let wanted = sandboxes::slug(event.worktree_name().as_deref().unwrap_or("worktree"))?;
    let root = engine.workspace.root().to_owned();
    let no_place = || Error::invalid(format!("there is no folder next to {} for a fork", root.display()));
    let (parent, base) = root.parent().zip(root.file_name()).ok_or_else(no_place)?;
    let mut refused = None;
    for number in 1..=FORKS_MAX {
        let name = if number == 1 { wanted.clone() } else { format!("{wanted}-{number}") };
        let mut folder = base.to_owned();
        folder.push(format!(".{name}"));
        let at = parent.join(folder);
        if fs::stat_at(rustix::fs::CWD, at.as_os_str()).is_ok() {
            continue;
        }
        let text = at.to_str().ok_or_else(|| Error::invalid("the path of a fork must be UTF-8"))?;
        let why = format!("worktree {wanted} of the session {}", engine.session());
        let copy = fork::Request { at: Some(text.to_owned()), why: Some(why), ..Default::default() };
        match fork::create(engine, &copy, name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => refused = Some(error),
            made => return made.map(|_| text.to_owned()),
        }
    }
    Err(refused.unwrap_or_else(no_place))
}

/// Drops the fork in a folder, unless it holds work that is nowhere else.
fn remove(engine: &mut Engine, event: &Event) -> Result<(), Error> {
    let missing = || Error::invalid("the event names no worktree").detail("field", "event");
    let path = event.worktree_path().ok_or_else(missing)?;
    let unknown = || {
        let message = format!("{} is no fork of this workspace", path.display());
        Error::new(ErrorKind::SandboxNotFound, message).suggest("`lbx fork list` shows the forks.")
    };
    let real = real_path(&path);
    // The client may run its hook in the worktree itself.
    if let Some(root) = parent_of(&real).filter(|root| root != engine.workspace.root()) {
        engine.workspace = Workspace::open(&root)?;
    }
    let state = State::find(&engine.workspace)?.ok_or_else(unknown)?;
    let forks = Forks::lock(&engine.workspace, &state)?.ignoring_callers();
    let is_there = |fork: &ForkFolder| fork.record.at.as_ref().is_some_and(|at| Path::new(at) == real);
    let all = ForkFolder::list(&engine.workspace, &state)?;
    let fork = all.iter().find(|fork| is_there(fork)).ok_or_else(unknown)?;
    let name = &fork.record.name;
    let mut work = Vec::new();
    if fs::stat_at(rustix::fs::CWD, real.as_os_str()).is_ok() {
        let changes = ForkChanges::read(engine, (&state, &forks), fork)?;
        if !changes.is_empty() {
            work.push(format!("changes of {} that no merge brought", plural(changes.deltas.len(), "file")));
        }
        let commits = fork.commits(&engine.workspace, &engine.policy().branch_reference());
        if !commits.is_empty() {
            work.push(format!("commits of its own at {}", commits.join(", ")));
        }
        let inner = fork.inner_forks();
        if !inner.is_empty() {
            work.push(format!("forks of its own: {}", inner.join(", ")));
        }
    }
    if work.is_empty() {
        forks.drop(name)?;
        engine.note_changed([], Some(&fork.record.lower));
        return Ok(());
    }
    Err(Error::invalid(format!("the fork {name} was kept in {}: it has {}", real.display(), work.join(", and ")))
        .suggest(format!(
            "`lbx merge {name}` brings its changes into the workspace; `lbx fork drop {name}` deletes it with them."
        )))
}

/// Returns a path without symlinks; as it is, if nothing is there.
#[expect(clippy::disallowed_methods, reason = "only compares names: a folder that the client names")]
fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
