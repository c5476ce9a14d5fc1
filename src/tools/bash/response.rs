//! Responses of `bash`, for commands on a layer, direct ones and jobs alike.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::job::record::JobState;
use crate::engine::Engine;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, Message};
use crate::limits::LISTED_FILES_MAX;
use crate::search::page::json_bytes;
use crate::sha256::Sha256;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::escaped;
use crate::tools::Text;

/// Response of `bash`: result of a command, or the backends that can confine one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum Response {
    /// A command ran.
    Ran(Box<CommandResponse>),
    /// A job.
    Job(Box<Job>),
    /// The jobs of a session.
    Jobs(Jobs),
    /// A layer that was kept after its command.
    Layer(Box<Layer>),
    /// The backends that confine commands.
    Backends(Backends),
}

/// Result of a command, and the files that it changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommandResponse {
    /// Its stdout; bytes that are not UTF-8 are replaced
    pub stdout: String,
    /// Its stderr; likewise
    pub stderr: String,
    /// Its exit status; 128 + signal if a signal ended it, 124 if the time limit did
    pub exit_code: i32,
    /// The signal that ended it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// True if it hit the time limit
    pub timed_out: bool,
    /// True if it was stopped on request
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// Time that it ran
    pub duration_ms: u64,
    /// CPU time of all its processes
    pub cpu_ms: u64,
    /// Memory of the largest of its processes
    pub peak_memory_bytes: u64,
    /// True if the output was cut
    pub truncated: bool,
    /// Bytes of the whole output, if it was cut
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// File with the whole output, if it was cut; `read` opens it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_file: Option<String>,
    /// Changes that it made
    #[serde(flatten)]
    pub changes: CommandDiff,
    /// Files that this session has read and that have changed
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<String>,
    /// Hosts and ports that the command asked for and `bash.network` does not list
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_hosts: Vec<String>,
    /// Processes that the command left running; they were killed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_running: Option<u32>,
    /// Backend that confined it
    pub sandbox: &'static str,
}

/// The backends that confine commands.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Backends {
    /// Backends in the order in which they are tried
    pub backends: Vec<BackendRow>,
}

/// A backend that confines commands.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BackendRow {
    /// Its name
    pub name: &'static str,
    /// True if it works here
    pub works: bool,
    /// True if the policy allows it
    pub allowed: bool,
    /// Reason why it does not work
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Protection that it gives
    pub about: &'static str,
    /// Gaps in its protection
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

impl Response {
    /// Writes the output of the command unchanged, or one line per backend.
    pub fn text(&self, text: &mut Text) {
        match self {
            Self::Ran(ran) => ran.text(text),
            Self::Job(job) => job.text(text, &display_output(&job.output, std::io::stdout().is_terminal())),
            Self::Jobs(jobs) => jobs.text(text),
            Self::Layer(layer) => layer.text(text),
            Self::Backends(all) => {
                for backend in &all.backends {
                    let state = match (&backend.reason, backend.allowed) {
                        (Some(reason), _) => reason.as_str(),
                        (None, true) => "works",
                        (None, false) => "works; not allowed by the policy",
                    };
                    text.entry(&format!("{}: {state}", backend.name));
                    backend.gaps.iter().for_each(|gap| text.entry(&format!("  leaves open: {gap}")));
                }
            }
        }
    }
}

impl Layer {
    /// Writes the diff, and the facts about the layer to stderr.
    fn text(&self, text: &mut Text) {
        text.out.extend(display_output(&self.diff, std::io::stdout().is_terminal()));
        text.note(format!("{}: {}", self.layer, escaped::visible_controls(&self.command)));
        let verb = if self.dropped {
            "dropped"
        } else if self.applied {
            "applied"
        } else {
            "would change"
        };
        for changed in self.changed.iter().flatten() {
            text.note(format!("{verb}: {}", changed.path));
        }
        note_conflicts(&self.conflicts, text);
    }
}

impl CommandResponse {
    /// Returns the size of the output that it shows.
    pub(super) fn size_of_output(&self) -> TextSize {
        TextSize::of(self.stdout.as_bytes()).with(&self.stderr)
    }

    /// Writes the output unchanged, and facts for a person to stderr.
    fn text(&self, text: &mut Text) {
        text.out.extend(display_output(&self.stdout, std::io::stdout().is_terminal()));
        text.err.extend(display_output(&self.stderr, std::io::stderr().is_terminal()));
        if self.timed_out {
            text.note(format!("the command ran out of time after {} ms", self.duration_ms));
        } else if let Some(signal) = self.signal {
            text.note(format!("signal {signal} ended the command"));
        } else if self.exit_code != 0 {
            text.note(format!("the command exited with status {}", self.exit_code));
        }
        if let Some(file) = &self.output_file {
            text.note(format!("the whole output is in {file}"));
        }
        let CommandDiff { changed, conflicts, layer, discarded, .. } = &self.changes;
        for changed in changed.iter().flatten() {
            let action = match (changed.action, discarded) {
                (Action::Create, false) => "created",
                (Action::Modify, false) => "changed",
                (Action::Delete, false) => "deleted",
                (Action::Create, true) => "would create",
                (Action::Modify, true) => "would change",
                (Action::Delete, true) => "would delete",
            };
            text.note(format!("{action}: {}", changed.path));
        }
        note_conflicts(conflicts, text);
        if let Some(layer) = layer {
            let option = text.option("layer", layer);
            text.note(format!("the versions of the command are kept: lbx bash {option} shows them"));
        }
        for host in &self.denied_hosts {
            text.note(format!("denied: {host} (bash.network)"));
        }
        if !self.stale.is_empty() {
            text.note(format!("read again before a change: {}", self.stale.join(", ")));
        }
    }

    /// Returns the exit status under `--exit-status`.
    pub fn status(&self) -> u8 {
        u8::try_from(self.exit_code).unwrap_or(u8::MAX)
    }
}

/// Writes the files that were not applied.
fn note_conflicts(conflicts: &[Conflict], text: &mut Text) {
    for conflict in conflicts {
        text.note(format!("not applied: {} {}", conflict.path, conflict.reason));
    }
}

/// Returns the output for a reader: a terminal gets no control characters except those of plain text.
fn display_output(output: &str, is_terminal: bool) -> Vec<u8> {
    if !is_terminal {
        return output.as_bytes().to_vec();
    }
    output.split_inclusive('\n').map(escaped::visible_controls).collect::<String>().into_bytes()
}

/// Adds the result of the command to an error: the command ran, but its response is lost.
pub fn with_output(error: Error, ran: &CommandResponse) -> Error {
    error
        .detail("stdout", ran.stdout.clone())
        .detail("stderr", ran.stderr.clone())
        .detail("exit_code", ran.exit_code)
}

/// A job, and its output from an offset.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names on the wire")]
pub struct Job {
    /// Its name, for the field job
    pub job: String,
    /// Its command, cut if it is long
    pub command: String,
    /// Its state
    pub state: JobState,
    /// Its start
    pub started: String,
    /// Backend that confines it
    pub sandbox: String,
    /// Stdout and stderr in order, from the offset; bytes that are not UTF-8 are replaced
    pub output: String,
    /// Offset at which it begins
    pub offset: u64,
    /// Offset for the next call
    pub next_offset: u64,
    /// Bytes of output so far
    pub output_bytes: u64,
    /// True if there is more output now
    pub truncated: bool,
    /// File with the output; read opens it
    pub output_file: String,
    /// Once it has ended: `exit_code`, signal, `timed_out`, stopped, `duration_ms`, changed and other fields of a
    /// command
    #[serde(flatten)]
    pub result: Map<String, Value>,
}

/// The jobs of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Jobs {
    /// Newest last
    pub jobs: Vec<ListedJob>,
    /// Layers that were kept after their commands, of all sessions
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layer>,
}

/// A job in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListedJob {
    /// Its name
    pub job: String,
    /// Its command, cut if it is long
    pub command: String,
    /// Its state
    pub state: JobState,
    /// Its start
    pub started: String,
    /// Bytes of output so far
    pub output_bytes: u64,
    /// Its exit status, once it has ended
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

impl Job {
    /// Writes the output, and the offset to continue at.
    pub fn text(&self, text: &mut Text, shown: &[u8]) {
        text.out.extend_from_slice(shown);
        let exit = self.result.get("exit_code").map_or_else(String::new, |code| format!(", status {code}"));
        text.note(format!("{}: {}{exit}", self.job, self.state.word()));
        if self.truncated || self.state == JobState::Running {
            let on = text.option("offset", self.next_offset);
            let job = text.option("job", &self.job);
            text.note(format!("continue with {job} {on}"));
        }
    }
}

impl Jobs {
    /// Writes one line per job.
    pub fn text(&self, text: &mut Text) {
        for job in &self.jobs {
            let exit = job.exit_code.map_or_else(String::new, |code| format!(" {code}"));
            let command = escaped::name(&job.command);
            text.entry(&format!("{}\t{}{exit}\t{}\t{command}", job.job, job.state.word(), job.started));
        }
        for layer in &self.layers {
            text.entry(&format!(
                "{}\tkept\t{}\t{}",
                layer.layer,
                layer.session,
                escaped::name(&layer.command)
            ));
        }
    }
}

/// Effect of a command on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The file is new.
    Create,
    /// The file is different.
    Modify,
    /// The file was deleted.
    Delete,
}

impl Action {
    /// Returns the effect between two versions of a file.
    pub const fn effect_between<T>(before: Option<&T>, after: Option<&T>) -> Self {
        match (before, after) {
            (None, _) => Self::Create,
            (Some(_), None) => Self::Delete,
            (Some(_), Some(_)) => Self::Modify,
        }
    }
}

/// A file that changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChangedFile {
    /// Its path
    pub path: String,
    /// Effect on it
    pub action: Action,
    /// SHA-256 of its new bytes, if it is a regular file; at most 2 GiB of a command's files are hashed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// Number of files that changed in an ignored folder
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<usize>,
    /// Number of its files that undo cannot restore
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<usize>,
}

/// A file whose new version was not applied.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Conflict {
    /// Its path
    pub path: String,
    /// Reason
    pub reason: String,
}

/// A layer that was kept after its command.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names on the wire")]
pub struct Layer {
    /// Its name
    pub layer: String,
    /// The command, cut if it is long
    pub command: String,
    /// Session that ran it
    pub session: String,
    /// True if the layer was deleted
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    /// True if the layer was applied
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    /// Files that it changes, or that were changed; absent in a list, which does not read layers
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<ChangedFile>>,
    /// Number of changed files, if not all are listed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_total: Option<usize>,
    /// Files that were not applied
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Unified diff from the current files to those of the layer
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

/// Number of paths that a warning names.
const NAMED: usize = 5;

/// A file that a command changed.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// Its path.
    pub path: WorkspacePath,
    /// Effect on it.
    pub action: Action,
    /// SHA-256 of its new bytes, if it is a regular file.
    pub sha256: Option<Sha256>,
    /// The outermost ignored folder that holds it; its own path if only the file is ignored.
    pub ignored: Option<WorkspacePath>,
    /// True if an undo cannot restore it.
    pub is_lost: bool,
}

/// The changes of a command, on a layer or direct.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct CommandDiff {
    /// Files that changed; an ignored folder is one entry. Absent if that is not known
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<ChangedFile>>,
    /// Files that were not applied; layer keeps the command's versions
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Layer with the command's versions of the conflicts, for the field layer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// Reason why the command changed the files themselves instead of a layer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<String>,
    /// Number of changed files, if not all are listed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_total: Option<usize>,
    /// True if these changes were discarded: by `dry_run`, or because the command failed under `on_failure: discard`
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub discarded: bool,
}

impl CommandDiff {
    /// Returns an empty list.
    pub fn none() -> Self {
        Self { changed: Some(Vec::new()), ..Self::default() }
    }

    /// Lists changes in the order of their paths; an ignored folder is one entry, after the others.
    pub fn of(workspace: &Workspace, changes: Vec<FileChange>) -> Self {
        // Example: target/ is ignored, a.log too.
        //
        //   src/a.rs          modify            src/a.rs  modify
        //   target/x/1.o      create     =>     a.log     create
        //   target/x/2.o      modify            target/   modify, 2 files
        //   a.log             create
        let (mut list, mut files, mut folders) = (Vec::new(), Vec::new(), BTreeMap::new());
        for FileChange { path, action, sha256, ignored, is_lost } in changes {
            let lost = is_lost.then_some(1);
            let shown = workspace.display(ignored.as_ref().unwrap_or(&path));
            match ignored {
                Some(folder) if folder != path => {
                    let new = || ChangedFile {
                        path: format!("{shown}/"),
                        action,
                        sha256: None,
                        files: None,
                        lost: None,
                    };
                    let sum: &mut ChangedFile = folders.entry(folder).or_insert_with(new);
                    if sum.action != action {
                        sum.action = Action::Modify;
                    }
                    *sum.files.get_or_insert_default() += 1;
                    sum.lost = sum.lost.map_or(lost, |sum| Some(sum + usize::from(is_lost)));
                }
                ignored => {
                    let list = if ignored.is_some() { &mut files } else { &mut list };
                    list.push(ChangedFile { path: shown, action, sha256, files: None, lost });
                }
            }
        }
        list.append(&mut files);
        list.extend(folders.into_values());
        let total = list.len();
        list.truncate(LISTED_FILES_MAX);
        Self { changed: Some(list), changed_total: Some(total), ..Self::default() }
    }

    /// Cuts the list to the entries that fit, at least one.
    pub fn shorten(&mut self, room: AnswerRoom) {
        let mut size = TextSize::default();
        let mut has_room = |changed: &ChangedFile| {
            let is_first = size == TextSize::default();
            size = size.and(TextSize::plain(usize::try_from(json_bytes(changed)).unwrap_or(usize::MAX)));
            is_first || room.holds(size)
        };
        if let Some(list) = &mut self.changed {
            list.truncate(list.iter().take_while(|changed| has_room(changed)).count());
        }
        let listed = self.changed.as_ref().map_or(0, Vec::len);
        self.changed_total = self.changed_total.filter(|total| *total > listed);
    }
}

/// Warns of these paths, of which the first few are named; no warning for an empty list.
pub fn warn_of<M: Into<Message>>(
    engine: &mut Engine,
    paths: &[WorkspacePath],
    warning: impl FnOnce(&str) -> M,
) {
    if !paths.is_empty() {
        let names = paths.iter().map(|path| engine.workspace.display(path));
        let names = escaped::first_of(names, paths.len(), NAMED);
        engine.warn(warning(&names));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_output_contains_no_escapes() {
        let output = "a\tb\u{1b}[31mred\u{7}\r\n\u{9b}2J ä \n";
        assert_eq!(display_output(output, false), output.as_bytes());
        let seen = String::from_utf8(display_output(output, true)).unwrap();
        assert_eq!(seen, "a\tb‹U+001B›[31mred‹U+0007›\r\n‹U+009B›2J ä \n");
    }
}
