//! Check of the hooks that guard a client's own tools: the client must know the events, and send them.

use std::path::{Path, PathBuf};

use super::Finding;
use crate::engine::Engine;
use crate::engine::store::calls::{self, HookRecord};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{fs, programs};
use crate::limits::{HOOKS_FILE_BYTES_MAX, PACKAGE_FOLDERS_MAX};
use crate::text::escaped;
use crate::tools::common::time_text;
use crate::tools::hook::client::HookClient;
use crate::tools::init;

/// Number of events that are shown.
const EVENTS: usize = 10;

/// Returns the findings about each client that is guarded, and the newest events.
pub fn check(engine: &Engine) -> Vec<Finding> {
    let state = State::find(&engine.workspace).ok().flatten();
    let events = state.map(|state| calls::newest(&state, usize::MAX)).unwrap_or_default();
    let is_guarded = |file: &&(&'static str, &'static str)| {
        let text = WorkspacePath::new(Path::new(file.1)).and_then(|path| {
            let (opened, stat) = engine.workspace.open_regular(&path, file.1).ok()?;
            fs::read_to_end(&opened, fs::size_of(&stat), HOOKS_FILE_BYTES_MAX).ok()
        });
        text.is_some_and(|text| init::is_guarded(&String::from_utf8_lossy(&text)))
    };
    let files = init::guard_files();
    let guarded: Vec<_> = files.iter().filter(is_guarded).collect();
    let mut found: Vec<Finding> =
        guarded.iter().flat_map(|(client, file)| of_client(engine, client, file, &events)).collect();
    if !events.is_empty() {
        let shown: Vec<String> = events.iter().take(EVENTS).map(event_text).collect();
        found.push(Finding::ok("hooks", format!("newest events: {}", shown.join("; "))));
    }
    found
}

/// Returns the findings about one client.
fn of_client(engine: &Engine, name: &str, file: &str, events: &[HookRecord]) -> Vec<Finding> {
    let mut found = Vec::new();
    let seen = events.iter().find(|event| event.client == name);
    found.push(match seen {
        Some(event) => {
            let when = time_text(event.time);
            Finding::ok("hooks", format!("{name}: {file} has the hooks, and sent an event at {when}"))
        }
        None => Finding::notice(
            "hooks",
            format!("{name}: {file} has the hooks, but no event came yet"),
            "Start the client here, and trust the folder and its hooks (Codex: /hooks); then make it read a file.",
        ),
    });
    let Some(client) = HookClient::find(name) else { return found };
    if let Some((version, since)) = version(engine, client.program).zip(client.since)
        && numbers(&version) < numbers(since)
    {
        let version = escaped::line(&version).into_owned();
        found.push(Finding::problem(
            "hooks",
            format!("{name} is version {version}, which does not send all events"),
            format!("Update it to {since} or later."),
        ));
    }
    found
}

/// Returns an event as text.
fn event_text(event: &HookRecord) -> String {
    let HookRecord { time, client, event, tool, outcome, duration_ms } = event;
    let tool = if tool.is_empty() { String::new() } else { format!(" {tool}") };
    let text = format!("{} {client} {event}{tool} {outcome} ({duration_ms} ms)", time_text(*time));
    escaped::line(&text).into_owned()
}

/// Returns the version of a program on `PATH`, by its package or the folder that it lies in; it is not started.
#[expect(clippy::disallowed_methods, reason = "a program outside the workspace")]
fn version(engine: &Engine, program: &str) -> Option<String> {
    let found = programs::find(program, &[engine.workspace.root()]).ok()?;
    let real: PathBuf = std::fs::canonicalize(found).ok()?;
    let in_path = || real.iter().filter_map(|name| name.to_str()).find(|name| numbers(name).is_some());
    let package = |folder: &Path| {
        let file = std::fs::File::open(folder.join("package.json")).ok()?;
        let bytes = fs::read_to_end(&file, 0, HOOKS_FILE_BYTES_MAX).ok()?;
        let package: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        package.get("version")?.as_str().map(str::to_owned)
    };
    let mut folders = real.ancestors().skip(1).take(PACKAGE_FOLDERS_MAX);
    folders.find_map(package).or_else(|| in_path().map(str::to_owned))
}

/// Returns the three numbers of a version.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let mut parts = version.split(['.', '-', '+']);
    let mut next = || parts.next()?.parse().ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_their_numbers() {
        assert!(numbers("2.1.96") < numbers("2.1.196"));
        assert!(numbers("2.1.196") == numbers("2.1.196-beta.1"));
        assert_eq!(numbers("bin"), None);
        assert_eq!(numbers("1.2"), None);
    }
}
