//! What `bash` answers about jobs.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::text::escaped;
use crate::tools::Text;
use crate::tools::bash::changed::Layer;

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It runs.
    Running,
    /// It has ended, and what it changed is recorded.
    Ended,
    /// lbx was ended with it: nobody knows its exit status.
    Lost,
}

/// A job, and its output from an offset.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names on the wire")]
pub struct Job {
    /// Its name, for the field job
    pub job: String,
    /// Its command; of a long one the beginning
    pub command: String,
    /// Whether it runs
    pub state: JobState,
    /// When it started
    pub started: String,
    /// What confines it
    pub sandbox: String,
    /// Stdout and stderr as they came, from the offset; bytes that are not UTF-8 are replaced
    pub output: String,
    /// Byte of the output at which that begins
    pub offset: u64,
    /// Offset for the next look
    pub next_offset: u64,
    /// Bytes of output so far
    pub output_bytes: u64,
    /// Whether there is more output now
    pub truncated: bool,
    /// The file with the output; read opens it
    pub output_file: String,
    /// Once it has ended: `exit_code`, signal, `timed_out`, stopped, `duration_ms`, changed and what else a
    /// command's answer has
    #[serde(flatten)]
    pub result: Map<String, Value>,
}

/// The jobs of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Jobs {
    /// The newest last
    pub jobs: Vec<ListedJob>,
    /// Layers that outlived their commands, of all sessions
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layer>,
}

/// A job in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListedJob {
    /// Its name
    pub job: String,
    /// Its command; of a long one the beginning
    pub command: String,
    /// Whether it runs
    pub state: JobState,
    /// When it started
    pub started: String,
    /// Bytes of output so far
    pub output_bytes: u64,
    /// Its exit status, once it has ended
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

impl JobState {
    /// The word for a reader.
    const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Lost => "lost",
        }
    }
}

impl Job {
    /// The output, and where to go on.
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
    /// A line a job.
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
