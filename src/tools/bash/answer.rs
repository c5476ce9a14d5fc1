//! Responses of `bash`.

use std::io::IsTerminal as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::changed_files::{Action, CommandDiff, Conflict, Layer};
use super::job::look::{Job, Jobs};
use crate::error::Error;
use crate::text::answer_size::TextSize;
use crate::text::escaped;
use crate::tools::Text;

/// Response of `bash`: result of a command, or the backends that can confine one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum Response {
    /// A command ran.
    Ran(Box<Ran>),
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
pub struct Ran {
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
    pub backends: Vec<BackendShown>,
}

/// A backend that confines commands.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BackendShown {
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
    /// Gaps that other backends close
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    pub gaps: &'static [&'static str],
}

impl Response {
    /// Writes the output of the command unchanged, or one line per backend.
    pub fn text(&self, text: &mut Text) {
        match self {
            Self::Ran(ran) => ran.text(text),
            Self::Job(job) => job.text(text, &shown(&job.output, std::io::stdout().is_terminal())),
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
        text.out.extend(shown(&self.diff, std::io::stdout().is_terminal()));
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

impl Ran {
    /// Returns the size of the output that it shows.
    pub(super) fn size_of_output(&self) -> TextSize {
        TextSize::of(self.stdout.as_bytes()).with(&self.stderr)
    }

    /// Writes the output unchanged, and facts for a person to stderr.
    fn text(&self, text: &mut Text) {
        text.out.extend(shown(&self.stdout, std::io::stdout().is_terminal()));
        text.err.extend(shown(&self.stderr, std::io::stderr().is_terminal()));
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
fn shown(output: &str, is_terminal: bool) -> Vec<u8> {
    if !is_terminal {
        return output.as_bytes().to_vec();
    }
    output.split_inclusive('\n').map(escaped::visible_controls).collect::<String>().into_bytes()
}

/// Adds the result of the command to an error: the command ran, but its response is lost.
pub fn with_output(error: Error, ran: &Ran) -> Error {
    error
        .detail("stdout", ran.stdout.clone())
        .detail("stderr", ran.stderr.clone())
        .detail("exit_code", ran.exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_escape_reaches_a_terminal() {
        let output = "a\tb\u{1b}[31mred\u{7}\r\n\u{9b}2J ä \n";
        assert_eq!(shown(output, false), output.as_bytes());
        let seen = String::from_utf8(shown(output, true)).unwrap();
        assert_eq!(seen, "a\tb‹U+001B›[31mred‹U+0007›\r\n‹U+009B›2J ä \n");
    }
}
