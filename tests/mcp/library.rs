//! Calls of the same server by the client of the MCP library, over a socket.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::process::{Child, Command};

use lbx::catalog::TOOLS;
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, serve_client_with_lifecycle};
use rmcp::{RoleClient, service::RunningService};
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::client::Workspace;

/// A connected client.
type Client = RunningService<RoleClient, ()>;

/// Starts a server on one end of a socket; returns the other end.
fn start(mut server: Command) -> (Child, UnixStream) {
    let (here, there) = Socket::pair().unwrap();
    let stdout = OwnedFd::from(there.try_clone().unwrap());
    let process = server.stdin(OwnedFd::from(there)).stdout(stdout).spawn().unwrap();
    here.set_nonblocking(true).unwrap();
    (process, UnixStream::from_std(here).unwrap())
}

/// Calls a tool.
async fn call(client: &Client, tool: &'static str, arguments: Value) -> Value {
    let arguments = arguments.as_object().cloned().unwrap();
    let result = client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await;
    serde_json::to_value(result.unwrap()).unwrap()
}

/// Makes a read, a change and a failing call, and closes, in a client's lifecycle.
async fn work(lifecycle: ClientLifecycleMode) {
    let workspace = Workspace::with(&[("greet.txt", "hello\n")]);
    let (mut process, socket) = start(workspace.lbx("", &["mcp"]));
    let client = serve_client_with_lifecycle((), tokio::io::split(socket), lifecycle).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), TOOLS.iter().filter(|tool| tool.served).count());
    let edit = json!({ "path": "greet.txt", "old_string": "hello", "new_string": "hi" });
    assert_eq!(call(&client, "edit", edit.clone()).await["isError"], true);
    let read = call(&client, "read", json!({ "path": "greet.txt" })).await;
    assert_eq!(read["structuredContent"]["content"], "hello\n");
    assert_ne!(call(&client, "edit", edit).await["isError"], true);
    workspace.holds("greet.txt", "hi\n");
    assert!(client.call_tool(CallToolRequestParams::new("no_such_tool")).await.is_err());
    client.cancel().await.unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

/// Runs a future to its end.
fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

#[test]
fn client_with_a_handshake_can_call_tools() {
    run(work(ClientLifecycleMode::Initialize));
}

#[test]
fn client_with_discovery_can_call_tools() {
    run(work(ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }));
}
