//! Starts the server that `init` configures, as the client will, and asks for its tools.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::engine::workspace::{children, programs};

/// How long the server may take.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of what it says where it fails.
const SAID_BYTES_MAX: u64 = 4096;

/// A server that was started.
pub struct Started {
    /// How many tools it lists.
    pub tools: usize,
    /// Reason not to use an `lbx` of PATH, and the path of this program instead.
    pub other: Option<(String, String)>,
}

/// Starts the server with these arguments in a folder, as a client would; where PATH has none that only this account
/// and root can write, this program.
///
/// # Errors
/// Returns the server's own words if it lists no tools.
pub fn tools(folder: &Path, arguments: &[String]) -> Result<Started, String> {
    let started = |program: &Path| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        children::spawn(&mut command)
    };
    let (server, other) = match programs::find("lbx", &[folder]) {
        Ok(program) => (started(&program), None),
        Err(why) => {
            let own = std::env::current_exe().map_err(|source| source.to_string())?;
            let shown = own.to_str().ok_or("its path is not UTF-8")?.to_owned();
            (started(&own), Some((why, shown)))
        }
    };
    let mut server = server.map_err(|source| source.to_string())?;
    let tools = ask(&mut server);
    let _ = server.kill();
    let mut said = String::new();
    if tools.is_none()
        && let Some(stderr) = server.stderr.take()
    {
        let _ = stderr.take(SAID_BYTES_MAX).read_to_string(&mut said);
    }
    let _ = server.wait();
    tools.map(|tools| Started { tools, other }).ok_or(said)
}

/// Greets a server and counts its tools; `None` where it does not answer.
fn ask(server: &mut std::process::Child) -> Option<usize> {
    let (mut stdin, stdout) = (server.stdin.take()?, server.stdout.take()?);
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "lbx init", "version": "1" }
    });
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
    ];
    let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
    stdin.write_all(text.as_bytes()).ok()?;
    let (sender, said) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    while let Ok(line) = said.recv_timeout(TIME_MAX) {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        if message.get("id") == Some(&1.into()) {
            return Some(message.get("result")?.get("tools")?.as_array()?.len());
        }
    }
    None
}
