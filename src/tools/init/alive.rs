//! Starts the server of a client, as `init` or the client's file configures it, and asks for its tools.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};

use super::clients::{CLIENTS, Client};
use super::piece::FilePiece;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs, programs};
use crate::limits::{CLIENT_FILE_BYTES_MAX, SERVER_OUTPUT_BYTES_MAX, SERVER_START_TIME_MAX};

/// Flags of a server that `init` writes.
pub const FLAGS: [&str; 6] = ["--results", "--session", "--dialect", "--tools", "--confirm", "--forks"];

/// A server that was started.
pub struct StartedServer {
    /// Number of tools that it lists.
    pub tools: usize,
    /// Reason not to use an `lbx` of PATH, and the path of this program instead.
    pub other: Option<(String, String)>,
}

/// A server in a client's file.
pub struct ServerEntry {
    /// Name of the client.
    pub client: &'static str,
    /// The file.
    pub file: &'static str,
    /// Program and its arguments.
    words: Vec<String>,
}

/// Returns the servers in the files of all clients in a workspace.
pub fn entries(workspace: &Workspace) -> Vec<ServerEntry> {
    let parts = CLIENTS.iter().flat_map(|client| client.parts.iter().map(move |part| (client, part)));
    let entry = |(client, part): (&'static Client, &'static FilePiece)| {
        let path = WorkspacePath::new(Path::new(part.file))?;
        let (file, stat) = workspace.open_regular(&path, part.file).ok()?;
        let bytes = fs::read_to_end(&file, fs::size_of(&stat), CLIENT_FILE_BYTES_MAX).ok()?;
        let words = part.piece.server_in(&String::from_utf8(bytes).ok()?)?;
        Some(ServerEntry { client: client.name, file: part.file, words })
    };
    parts.filter(|(_, part)| part.piece.is_server()).filter_map(entry).collect()
}

impl ServerEntry {
    /// Returns the command as a line.
    pub fn command(&self) -> String {
        self.words.join(" ")
    }

    /// Starts the server as the client will; returns `None` for any program but `lbx mcp`, and for flags that `init` does
    /// not write: a file in the workspace may start nothing else, in no other workspace or container.
    ///
    /// # Errors
    /// Returns the server's output if it lists no tools.
    pub fn start(&self, folder: &Path) -> Option<Result<StartedServer, String>> {
        let (program, arguments) = self.words.split_first()?;
        let (command, rest) = arguments.split_first()?;
        let mut flags = rest.iter().filter(|word| word.starts_with('-'));
        if command != "mcp" || !flags.all(|flag| FLAGS.contains(&flag.as_str())) {
            return None;
        }
        if program == "lbx" {
            return Some(tools(folder, arguments));
        }
        let own = std::env::current_exe().ok().filter(|own| own == Path::new(program))?;
        Some(started(&own, folder, arguments).map(|tools| StartedServer { tools, other: None }))
    }
}

/// Starts the server with these arguments in a folder, as a client would; starts this program if PATH has no `lbx` that
/// only this account and root can write.
///
/// # Errors
/// Returns the server's output if it lists no tools.
pub fn tools(folder: &Path, arguments: &[String]) -> Result<StartedServer, String> {
    let (program, other) = match programs::find("lbx", &[folder]) {
        Ok(program) => (program, None),
        Err(why) => {
            let own = std::env::current_exe().map_err(|source| source.to_string())?;
            let shown = own.to_str().ok_or("its path is not UTF-8")?.to_owned();
            (own, Some((why, shown)))
        }
    };
    Ok(StartedServer { tools: started(&program, folder, arguments)?, other })
}

/// Starts a program as a server, and counts its tools.
fn started(program: &Path, folder: &Path, arguments: &[String]) -> Result<usize, String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = programs::spawn(&mut command).map_err(|source| source.to_string())?;
    let tools = ask(&mut server);
    let _ = server.kill();
    let mut said = String::new();
    if tools.is_none()
        && let Some(stderr) = server.stderr.take()
    {
        let _ = stderr.take(SERVER_OUTPUT_BYTES_MAX).read_to_string(&mut said);
    }
    let _ = server.wait();
    tools.ok_or(said)
}

/// Greets a server, and counts its tools; returns `None` if it does not answer.
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
    while let Ok(line) = said.recv_timeout(SERVER_START_TIME_MAX) {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        if message.get("id") == Some(&1.into()) {
            return Some(message.get("result")?.get("tools")?.as_array()?.len());
        }
    }
    None
}
