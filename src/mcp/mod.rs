//! `lbx mcp`: the tools over MCP, on stdin and stdout.
//!
//! No tool is declared here: `declare` turns the list of tools into MCP's form, `server` answers a client's requests,
//! `call` makes one call and `answer` returns its result. `transport` reads and writes the messages, with `lines` and
//! `message`.

mod answer;
mod batch;
mod call;
mod confirm;
mod declare;
mod id;
mod library;
mod lines;
mod logging;
pub mod message;
mod method;
mod queue;
mod root;
mod server;
mod transport;
mod turn;
mod uri;
mod wanted;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::ServiceExt as _;
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

use crate::app::options::{Options, Settings, implied_root};
use crate::dialect;
use crate::engine::store::session::SessionId;
use crate::error::Error;
use root::Root;
use server::{OWN_SESSION, Server, ToolSet};
use transport::{Connection, Stdio};
use wanted::Wanted;

/// Largest number of calls at once; more wait. Two more threads serve stdin and stdout if these are not pipes.
const THREADS_MAX: usize = 16 + 2;
/// Time in which the last responses must be written.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(2);
/// Time to wait for calls that ignore their cancellation.
const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(1);

/// Serves until stdin ends.
///
/// # Errors
/// Fails if the workspace, session, sandbox, dialect or tool does not exist, or returns the OS error.
pub fn run(options: &Options, settings: &Settings) -> Result<(), Error> {
    let waiting = if settings.confirm { confirm::QUESTIONS_MAX } else { 0 };
    serve_on_runtime(server(options, settings)?, THREADS_MAX + waiting)
}

/// Returns a server whose workspace and session are fixed for the life of the process.
fn server(options: &Options, settings: &Settings) -> Result<Server, Error> {
    let is_named = options.workspace.is_some() || options.sandbox.is_some();
    // The client may name a root: if it does not, each call fails with that.
    let own = if is_named { options.open_workspace()?.root().to_owned() } else { implied_root()? };
    let session = if options.session.is_some() { options.session_id()? } else { own_session()? };
    // Only a call names a session to see just its history.
    let session = Some(session.as_str().to_owned());
    // The server's own workspace belongs to its sandbox; only a call names another.
    let options = Options {
        session,
        sandbox: None,
        sandboxes: is_named.then(|| settings.sandboxes.clone()),
        is_session_named: false,
        ..options.clone()
    }
    .for_many_calls();
    let dialect = dialect::chosen(options.dialect.as_deref())?;
    let wanted = settings.tools.as_deref().map(|text| Wanted::parse(text, dialect)).transpose()?;
    let tools = ToolSet { dialect, wanted: wanted.unwrap_or_default() };
    let root = Root::new(own, is_named);
    Ok(Server::new(root, options, settings, tools))
}

/// Returns a session that no other process has.
fn own_session() -> Result<SessionId, Error> {
    let mut random = [0_u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| Error::io("read", "random bytes", errno))?;
    format!("{OWN_SESSION}{:016x}", u64::from_ne_bytes(random)).parse()
}

/// Serves on a new runtime, with at most `threads_max` threads for calls.
fn serve_on_runtime(server: Server, threads_max: usize) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(threads_max)
        .build()
        .map_err(|source| Error::io("start", "the runtime", source))?;
    runtime.block_on(serve(server));
    // A thread that reads a terminal ends only with the process.
    runtime.shutdown_timeout(SHUTDOWN_TIME_MAX);
    Ok(())
}

/// Serves until the client is gone.
async fn serve(server: Server) {
    let (reader, writer) = rmcp::transport::stdio_pipes();
    let closing = CancellationToken::new();
    close_at_signals(&closing);
    let (outbox, writing) = transport::outbox(writer, closing.clone());
    let is_open = Arc::new(AtomicBool::new(false));
    let connection = Connection { outbox, is_open: is_open.clone(), closing: closing.clone() };
    // The end of the service, by a lost client or a failed handshake, has been answered already.
    let transport = Stdio::new(reader, connection, server.accesses());
    if let Ok(service) = server.serve_with_ct(transport, closing).await {
        is_open.store(true, Ordering::Relaxed);
        let _ = service.waiting().await;
    }
    let _ = tokio::time::timeout(FLUSH_TIME_MAX, writing).await;
}

/// Ends the service on SIGTERM and SIGINT as at the end of stdin: calls are cancelled, and their processes are killed.
/// Without this, the signals end the process at once, which leaves nothing behind either.
fn close_at_signals(closing: &CancellationToken) {
    let Ok((sender, mut receiver)) = tokio::net::UnixStream::pair() else { return };
    let Ok(sender) = sender.into_std() else { return };
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        let Ok(sender) = sender.try_clone() else { return };
        let _ = signal_hook::low_level::pipe::register(signal, sender);
    }
    let closing = closing.clone();
    tokio::spawn(async move {
        let mut byte = [0];
        if receiver.read_exact(&mut byte).await.is_ok() {
            closing.cancel();
        }
    });
}
