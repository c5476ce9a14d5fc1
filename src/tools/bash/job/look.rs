//! Shows jobs: their list and the output of one; ends them. Also the responses about jobs.

use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::record::{About, End, JobFolder, JobState};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::search::page::json_bytes;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::escaped;
use crate::tools::Text;
use crate::tools::bash::changed_files::Layer;
use crate::tools::bash::recording;
use crate::tools::bash::request::Request;

/// Time between two checks of a job that is waited for.
const NAP: Duration = Duration::from_millis(20);
/// Time that a stopped job has to end: its processes get TERM, then KILL, and then its changes are recorded.
const STOP_TIME_MAX: Duration = Duration::from_secs(90);
/// Bytes of the longest UTF-8 character.
const CHARACTER_BYTES_MAX: usize = 4;
/// Largest output in one response, in bytes.
const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// Bytes of a job's command in a response about it.
const COMMAND_BYTES_MAX: usize = 1000;
/// Bytes of a job's command in a list.
const LISTED_COMMAND_BYTES_MAX: usize = 400;
/// Bytes of a job's command in the longest list.
const LISTED_COMMAND_BYTES_MIN: usize = 40;
/// Bytes of a listed job without its command, and of the text that surrounds the list.
const LISTED_BYTES: usize = 140;

/// Returns the start of a command, at most `bytes_max` bytes long in a response.
fn beginning(command: &str, bytes_max: usize) -> String {
    let mut size = TextSize::default();
    let is_beyond = |(_, letter): &(usize, char)| {
        size = size.with(letter.encode_utf8(&mut [0; CHARACTER_BYTES_MAX]));
        size.in_answer() > bytes_max
    };
    match command.char_indices().find(is_beyond) {
        Some((end, _)) => format!("{}…", command.get(..end).unwrap_or_default()),
        None => command.to_owned(),
    }
}

/// Returns the jobs of the caller's session.
///
/// # Errors
/// Fails if the state cannot be read.
pub fn list(engine: &Engine) -> Result<Jobs, Error> {
    let own = |folder: JobFolder| {
        let about = folder.about().filter(|about| about.session == engine.session().as_str())?;
        Some((folder, about))
    };
    let jobs: Vec<(JobFolder, About)> = JobFolder::all(engine)?.into_iter().filter_map(own).collect();
    let share = engine.policy().max_bytes() / (jobs.len() + 1);
    let command_bytes =
        share.saturating_sub(LISTED_BYTES).clamp(LISTED_COMMAND_BYTES_MIN, LISTED_COMMAND_BYTES_MAX);
    let listed = |(folder, about): (JobFolder, About)| {
        let About { command, started, .. } = about;
        let (state, end) = folder.standing();
        ListedJob {
            output_bytes: size_of_output(&folder),
            job: folder.name,
            command: beginning(&command, command_bytes),
            state,
            started,
            exit_code: end.and_then(|end| end.data.get("exit_code")?.as_i64()),
        }
    };
    let layers = recording::list_layers(engine)?;
    Ok(Jobs { jobs: jobs.into_iter().map(listed).collect(), layers })
}

/// Shows a job with its output from an offset; ends the job first if the request says so.
///
/// # Errors
/// Fails with `not_found` if the session has no such job, or with `timeout` if the job does not end.
pub fn read_on(engine: &mut Engine, name: &str, request: &Request) -> Result<Job, Error> {
    let (folder, about) = find(engine, name)?;
    if request.stop {
        folder.ask_to_stop()?;
        wait(engine, &folder, STOP_TIME_MAX)?;
        if folder.is_alive() {
            return Err(Error::new(ErrorKind::Timeout, format!("job {name} has not ended yet"))
                .suggest("Look at it again with the same `job`."));
        }
    } else if let Some(ms) = request.timeout_ms {
        wait(engine, &folder, Duration::from_millis(ms))?;
    }
    shown(engine, &folder, about, request.offset.unwrap_or(0), request.max_bytes)
}

/// Returns a job of the caller's session by name.
fn find(engine: &Engine, name: &str) -> Result<(JobFolder, About), Error> {
    let found = JobFolder::find(engine, name)?.and_then(|folder| {
        let about = folder.about().filter(|about| about.session == engine.session().as_str())?;
        Some((folder, about))
    });
    found.ok_or_else(|| {
        let names: Vec<String> =
            list(engine).map(|jobs| jobs.jobs).unwrap_or_default().into_iter().map(|job| job.job).collect();
        let known =
            if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
        Error::new(
            ErrorKind::NotFound,
            format!("job not found in session {}: {name} ({known})", engine.session()),
        )
        .suggest("`list` shows the jobs of this session.")
        .on_command_line("On the command line: `lbx bash --list`.")
        .detail("field", "job")
    })
}

/// Waits until a job has ended, at most `time`.
fn wait(engine: &Engine, folder: &JobFolder, time: Duration) -> Result<(), Error> {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline && folder.is_alive() {
        engine.control.check()?;
        std::thread::sleep(NAP);
    }
    Ok(())
}

/// Returns a job with its output from an offset; a negative offset counts from the end.
pub fn shown(
    engine: &mut Engine,
    folder: &JobFolder,
    about: About,
    offset: i64,
    max_bytes: Option<usize>,
) -> Result<Job, Error> {
    let (state, end) = folder.standing();
    let size = size_of_output(folder);
    let offset = match u64::try_from(offset) {
        Ok(offset) => offset.min(size),
        Err(_) => size.saturating_sub(offset.unsigned_abs()),
    };
    let wanted = max_bytes.unwrap_or_else(|| engine.policy().max_bytes());
    let wanted = if wanted == 0 { OUTPUT_BYTES_MAX } else { wanted.min(OUTPUT_BYTES_MAX) };
    let End { data, warnings, snapshot } = end.unwrap_or_default();
    let command = beginning(&about.command, COMMAND_BYTES_MAX);
    let for_result = json_bytes(&data).saturating_add(json_bytes(&command));
    let for_result = usize::try_from(for_result).unwrap_or(usize::MAX);
    // The result counts against the room of a whole response, not against the size that was asked for.
    let bound = wanted.max(engine.policy().max_bytes());
    let room = AnswerRoom::new(bound).beside(TextSize::plain(for_result.min(bound / 2)));
    let room = room.at_most(wanted);
    let piece = piece(folder, offset, (wanted, room), state == JobState::Running)?;
    let next_offset = offset + piece.len() as u64;
    warnings.into_iter().for_each(|warning| engine.warn(warning));
    if let Some(id) = snapshot {
        engine.set_snapshot(id);
    }
    if state != JobState::Running && next_offset >= size {
        folder.note_read();
    }
    let path = folder.output_path();
    Ok(Job {
        job: folder.name.clone(),
        command,
        state,
        started: about.started,
        sandbox: about.sandbox,
        output: String::from_utf8_lossy(&piece).into_owned(),
        offset,
        next_offset,
        output_bytes: size,
        truncated: next_offset < size,
        output_file: engine.workspace.shown(&path),
        result: data,
    })
}

/// Returns the bytes of output so far.
fn size_of_output(folder: &JobFolder) -> u64 {
    folder.open_output().and_then(|file| Some(file.metadata().ok()?.len())).unwrap_or(0)
}

/// Returns a part of the output from an offset, at most `bytes_max` long: whole lines if more follows, and no cut
/// character that is still being written.
fn piece(
    folder: &JobFolder,
    offset: u64,
    (wanted, room): (usize, AnswerRoom),
    is_running: bool,
) -> Result<Vec<u8>, Error> {
    let Some(file) = folder.open_output() else { return Ok(Vec::new()) };
    let mut bytes = vec![0; wanted + 1];
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::io("read the output of", &folder.name, source)),
        }
    }
    bytes.truncate(read);
    let has_room = room.start_of(&bytes).max(1);
    let has_more = read > has_room;
    bytes.truncate(has_room);
    let line_end = memchr::memrchr(b'\n', &bytes).map(|at| at + 1);
    match line_end {
        Some(end) if has_more => bytes.truncate(end),
        _ if has_more || is_running => bytes.truncate(whole_characters(&bytes)),
        _ => {}
    }
    Ok(bytes)
}

/// Returns the number of bytes before a cut character; all of them if nothing else would be left, or if the cut bytes
/// are not UTF-8.
fn whole_characters(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(CHARACTER_BYTES_MAX);
    let tail = bytes.get(start..).unwrap_or_default();
    for cut in 0..tail.len() {
        let Some(rest) = tail.get(cut..) else { break };
        match std::str::from_utf8(rest) {
            Ok(_) => return bytes.len(),
            Err(error) if error.error_len().is_none() => {
                let end = start + cut + error.valid_up_to();
                return if end == 0 { bytes.len() } else { end };
            }
            Err(_) => {}
        }
    }
    bytes.len()
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

#[cfg(test)]
mod tests {
    use super::whole_characters;

    #[test]
    fn no_character_is_cut() {
        for (bytes, whole) in [
            (&b"abc"[..], 3),
            ("aä".as_bytes(), 3),
            (&"aä".as_bytes()[..2], 1),
            (&"abc€".as_bytes()[..5], 3),
            (b"ab\xff", 3),
            (b"\xe2\x82", 2),
            (b"", 0),
        ] {
            assert_eq!(whole_characters(bytes), whole, "{bytes:?}");
        }
    }
}
