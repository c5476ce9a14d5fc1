//! `hook`: serves the hooks of a client, so that the client's own tools are gated, recorded and undoable too.

mod client;
mod event;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::history::turns::Turns;
use crate::error::Error;
use client::{CLIENTS, HookClient, Moment};
use event::{Event, short};

/// Serve an event of a client's hooks, given as JSON on stdin
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
    #[arg(long, hide = true)]
    #[serde(default)]
    pub event: String,
}

/// Response of a hook.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Response {
    /// Response in the client's form; absent if there is nothing to say
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
        let event = Event::parse(client, request.name.as_deref(), &request.event)?;
        take_session(engine, client, &event)?;
        match event.moment {
            Some(Moment::Prompt) => begin_turn(engine, &event)?,
            Some(Moment::Stop) => end_turn(engine)?,
            _ => {}
        }
        Ok(Response::default())
    }

    fn text(response: &Response, text: &mut Text) {
        if let Some(reply) = &response.reply {
            text.line(&reply.to_string());
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

/// Begins a turn.
fn begin_turn(engine: &mut Engine, event: &Event) -> Result<(), Error> {
    let title = event.prompt.as_deref();
    with_turns(engine, |turns, next| {
        let key = event.turn.clone().unwrap_or_else(|| format!("prompt-{next}"));
        turns.begin(&key, title, next);
    })
}

/// Ends the turn.
fn end_turn(engine: &mut Engine) -> Result<(), Error> {
    with_turns(engine, Turns::end)
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
