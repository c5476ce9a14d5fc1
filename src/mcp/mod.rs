//! `lbx mcp`: the tools over MCP, on stdin and stdout.
//!
//! `connection` reads and writes the messages of `message`, and makes the calls in the order of `queue`. `server` handles
//! a client's requests: `tools` turns the list of tools into MCP's form, `call` makes one call and returns its result.

mod call;
mod client;
mod connection;
mod library;
pub mod message;
mod queue;
mod server;
mod tools;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::app::options::{Options, Settings, implied_root};
use crate::dialect;
use crate::engine::store::session::SessionId;
use crate::error::Error;
use crate::platform;
use client::{ChosenRoot, QUESTIONS_MAX, ServerRoot};
use server::Server;
use tools::ToolSet;

/// Largest number of calls at once; more wait.
const CALLS_MAX: usize = 16;

/// Roots of the client for the calls that were received between two notices that they changed: such a call works where
/// those before it do, whenever it begins.
#[derive(Default)]
struct ClientRoots(Mutex<RootsRequest>);

/// State of the question for the roots.
#[derive(Default)]
struct RootsRequest {
    /// Id of the question, until its answer is used: one that comes too late for a call serves the next one.
    question: Option<i64>,
    /// Root that the calls work in, once it is known.
    chosen: Option<ChosenRoot>,
}

impl ClientRoots {
    /// Locks the state. A call holds it while it asks, and the others wait.
    fn lock(&self) -> MutexGuard<'_, RootsRequest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves until stdin ends.
///
/// # Errors
/// Fails if the workspace, session, sandbox, dialect or tool does not exist, or returns the OS error.
pub fn run(options: &Options, settings: &Settings) -> Result<(), Error> {
    let server = Arc::new(server(options, settings)?);
    let waiting = if settings.confirm { QUESTIONS_MAX } else { 0 };
    let served = connection::serve(Arc::clone(&server), CALLS_MAX + waiting);
    server.end_session();
    served.map_err(|source| Error::io("start", "the server", source))
}

/// Returns a server whose workspace and session are fixed for the life of the process.
fn server(options: &Options, settings: &Settings) -> Result<Server, Error> {
    let is_named = options.workspace.is_some() || options.sandbox.is_some();
    // The client may name a root: if it does not, each call fails with that.
    let own = if is_named { options.open_workspace()?.root().to_owned() } else { implied_root()? };
    let own_session = if options.session.is_some() { None } else { Some(new_session()?) };
    let session = own_session.clone().map_or_else(|| options.session_id(), Ok)?;
    // Only a call names a session to see just its history.
    let session = Some(session.as_str().to_owned());
    // The server's own workspace belongs to its sandbox; only a call names another.
    let options = Options {
        session,
        sandbox: None,
        sandboxes: is_named.then(|| settings.sandboxes.clone()),
        serves_forks: settings.forks,
        is_session_named: false,
        ..options.clone()
    }
    .for_many_calls();
    let dialect = dialect::chosen(options.dialect.as_deref())?;
    let tools = ToolSet::new(dialect, settings.tools.as_deref(), settings.forks)?;
    let root = ServerRoot::new(own, is_named);
    Ok(Server::new(root, (options, own_session), settings.clone(), tools))
}

/// Returns a session that no other process has.
fn new_session() -> Result<SessionId, Error> {
    let mut random = [0_u8; 8];
    platform::fill_random(&mut random).map_err(|source| Error::io("read", "random bytes", source))?;
    format!("mcp-{:016x}", u64::from_ne_bytes(random)).parse()
}
