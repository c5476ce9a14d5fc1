//! Calls by command line and over MCP, and kills of calls.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Workspace, kill, state};
use crate::model::Request;
use crate::server::Server;

/// Session that has a server.
pub const SERVED: &str = "mcp";
/// Tools that the server does not offer: their calls are made by command line, in the session of the server.
const UNSERVED: [&str; 2] = ["mkdir", "rewind"];

/// Moment at which a call is killed.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Time after the start of the call.
    pub start: Duration,
    /// Time after the entry of its change is in the journal, if that is earlier: the files change right after.
    pub entry: Option<Duration>,
}

impl Moment {
    /// Waits for the moment.
    pub fn wait(self, ws: &Workspace) {
        let Some(delay) = self.entry else {
            std::thread::sleep(self.start);
            return;
        };
        let begun = Instant::now();
        let open = ws.path(&state("journal/open"));
        // A name with a dot is an entry that is still being written.
        let is_entry = |name: &OsStr| !name.as_bytes().starts_with(b".");
        let has_entry = || {
            let mut names =
                fs::read_dir(&open).into_iter().flatten().flatten().map(|entry| entry.file_name());
            names.any(|name| is_entry(&name))
        };
        while begun.elapsed() < self.start {
            if has_entry() {
                let seen = Instant::now();
                // A sleep may take longer than the change of the files.
                while seen.elapsed() < delay {
                    std::hint::spin_loop();
                }
                return;
            }
        }
    }
}

/// Returns true if a response is a success.
pub fn is_ok(response: &Value) -> bool {
    response["ok"] == true
}

/// Returns true if a call is made over MCP.
pub fn is_served(request: &Request) -> bool {
    request.session == SERVED && !UNSERVED.contains(&request.tool)
}

/// Makes a call by command line.
pub fn call_once(ws: &Workspace, request: &Request) -> Value {
    let mut arguments = request.arguments.clone();
    arguments["session"] = request.session.into();
    ws.json(request.tool, &arguments).envelope()
}

/// Makes a call by command line and kills it; returns `None` if it did not respond before that.
pub fn kill_once(ws: &Workspace, request: &Request, moment: Moment) -> Option<Value> {
    let mut arguments = request.arguments.clone();
    arguments["session"] = request.session.into();
    let child = ws.call(&[request.tool, "--json", &arguments.to_string()]).spawn();
    let id = child.id();
    moment.wait(ws);
    kill(id);
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).ok()
}

/// Makes a call, over MCP if its session has a server and the tool is served.
pub fn call(ws: &Workspace, server: &mut Server, request: &Request) -> Value {
    if !is_served(request) {
        return call_once(ws, request);
    }
    let id = server.begin_call(request.tool, &request.arguments);
    server.result(id).unwrap_or_else(|| panic!("the server ended at {} {}", request.tool, request.arguments))
}

/// Makes a call and kills its process, which may be the server; returns `None` if it did not respond before that.
pub fn kill_call(ws: &Workspace, server: &mut Server, request: &Request, moment: Moment) -> Option<Value> {
    if !is_served(request) {
        return kill_once(ws, request, moment);
    }
    let id = server.begin_call(request.tool, &request.arguments);
    moment.wait(ws);
    server.kill();
    server.result(id)
}
