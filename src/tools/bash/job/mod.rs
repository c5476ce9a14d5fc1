//! Jobs: commands that keep running after the call that started them.
//!
//! A call starts lbx again as the job's supervisor ([`supervise`]), a process of its own that no harness waits for. The
//! supervisor makes the same call as for a command in the foreground, with its output in a file of the job's folder
//! ([`record`]), and writes the result there. Later calls find everything in that folder; the supervisor holds a lock
//! while it lives.
//!
//! Such a call lists jobs, shows the output of one, or ends it.

pub(super) mod record;
mod start;

use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::{Duration, Instant};

use record::{JobEnd, JobFacts, JobFolder, JobState, READ, STOP};
pub use start::{RunningJob, run_internal};

use super::recording;
use super::request::Request;
use super::response::{Job, Jobs, ListedJob, Response};
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::store::session::SessionId;
use crate::engine::workspace::Workspace;
use crate::error::{Error, ErrorKind, text};
use crate::limits::JOB_COMMAND_BYTES_MAX;
use crate::search::page::json_bytes;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::slice::whole_characters;
use crate::tools::common::reject_if;

/// Time between two checks of a job that is waited for.
const NAP: Duration = Duration::from_millis(20);
/// Time that a stopped job has to end: its processes get TERM, then KILL, and then its changes are recorded.
const STOP_TIME_MAX: Duration = Duration::from_secs(90);
/// Time that a job has to end when its session is over.
const END_TIME_MAX: Duration = Duration::from_secs(3);
/// Bytes of the longest UTF-8 character.
const CHARACTER_BYTES_MAX: usize = 4;
/// Largest output in one response, in bytes.
const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// Bytes of a job's command in a list.
const LISTED_COMMAND_BYTES_MAX: usize = 400;
/// Bytes of a job's command in the longest list.
const LISTED_COMMAND_BYTES_MIN: usize = 40;
/// Bytes of a listed job without its command, and of the text that surrounds the list.
const LISTED_BYTES: usize = 140;

/// Handles a request about jobs; returns `None` if the request runs a command in the foreground.
///
/// # Errors
/// Fails with `not_found` if this session has no such job, with `invalid_request` if fields contradict each other, and
/// as the start of a command does.
pub fn handle(engine: &mut Engine, request: &Request) -> Result<Option<Response>, Error> {
    let wants = [request.list, request.job.is_some(), request.background, request.backends];
    if wants.iter().filter(|is_wanted| **is_wanted).count() > 1 {
        return Err(Error::invalid("give one of `list`, `job`, `background` and `backends`"));
    }
    let starts = request.command.is_some() && (request.list || request.job.is_some());
    reject_if(starts, "command", "`command` starts a new command: leave it out with `job` and `list`")?;
    if request.job.is_none() && (request.stop || request.offset.is_some_and(|offset| offset != 0)) {
        let field = if request.stop { "stop" } else { "offset" };
        return Err(Error::invalid(format!("`{field}` needs `job`: the job that is meant"))
            .suggest("`list` shows the jobs of this session.")
            .on_command_line("On the command line: `lbx bash --list`.")
            .detail("field", field));
    }
    if request.apply || request.drop {
        let field = if request.apply { "apply" } else { "drop" };
        let layers = recording::list_layers(engine)?.into_iter().map(|layer| layer.layer);
        let layers = layers.collect::<Vec<_>>().join(", ");
        let known = if layers.is_empty() { "none is kept".to_owned() } else { format!("kept: {layers}") };
        return Err(Error::invalid(text!("`{}` needs `layer`: the layer that is meant ({})", field, known))
            .suggest("`list` shows the layers that are kept.")
            .on_command_line("On the command line: `lbx bash --list`.")
            .detail("field", field));
    }
    if (request.background || request.stop) && request.is_transaction() {
        let field = if request.stop { "stop" } else { "background" };
        return Err(Error::invalid(
            "a job cannot be a transaction: its changes could only be applied when it ends",
        )
        .suggest(text!("Leave out `{}`, or `transaction`, `dry_run` and `on_failure`.", field))
        .detail("field", field));
    }
    if request.list {
        return list(engine).map(|jobs| Some(Response::Jobs(jobs)));
    }
    if let Some(job) = &request.job {
        return read_on(engine, job, request).map(|job| Some(Response::Job(Box::new(job))));
    }
    if request.background {
        let (folder, about) = start::start(engine, request)?;
        let job = job_response(engine, &folder, about, 0, request.max_bytes)?;
        return Ok(Some(Response::Job(Box::new(job))));
    }
    Ok(None)
}

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
fn list(engine: &Engine) -> Result<Jobs, Error> {
    let jobs = JobFolder::of_session(&engine.workspace, engine.session())?;
    let share = engine.policy().max_bytes() / (jobs.len() + 1);
    let command_bytes =
        share.saturating_sub(LISTED_BYTES).clamp(LISTED_COMMAND_BYTES_MIN, LISTED_COMMAND_BYTES_MAX);
    let listed = |(folder, about): (JobFolder, JobFacts)| {
        let JobFacts { command, started, .. } = about;
        let (state, end) = folder.state();
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
fn read_on(engine: &mut Engine, name: &str, request: &Request) -> Result<Job, Error> {
    let (folder, about) = find(engine, name)?;
    if request.stop {
        folder.write_signal(STOP)?;
        wait(&engine.control, &folder, STOP_TIME_MAX)?;
        if folder.is_alive() {
            return Err(Error::new(ErrorKind::Timeout, format!("job {name} has not ended yet"))
                .suggest("Look at it again with the same `job`."));
        }
    } else if let Some(ms) = request.timeout_ms {
        wait(&engine.control, &folder, Duration::from_millis(ms))?;
    }
    job_response(engine, &folder, about, request.offset.unwrap_or(0), request.max_bytes)
}

/// Returns a job of the caller's session by name.
fn find(engine: &Engine, name: &str) -> Result<(JobFolder, JobFacts), Error> {
    let found = JobFolder::find(&engine.workspace, name)?
        .and_then(|folder| folder.facts_in_session(engine.session()).map(|about| (folder, about)));
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

/// Ends the jobs of a session that is over.
pub fn end_all(workspace: &Workspace, session: &SessionId) {
    // Best effort: nobody reads an error any more.
    let mut jobs = JobFolder::of_session(workspace, session).unwrap_or_default();
    jobs.retain(|(folder, _)| folder.is_alive() && folder.write_signal(STOP).is_ok());
    jobs.iter().for_each(|(folder, _)| drop(wait(&Control::default(), folder, END_TIME_MAX)));
}

/// Waits until a job has ended, at most `time`.
fn wait(control: &Control, folder: &JobFolder, time: Duration) -> Result<(), Error> {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline && folder.is_alive() {
        control.check()?;
        std::thread::sleep(NAP);
    }
    Ok(())
}

/// Returns a job with its output from an offset; a negative offset counts from the end.
fn job_response(
    engine: &mut Engine,
    folder: &JobFolder,
    about: JobFacts,
    offset: i64,
    max_bytes: Option<usize>,
) -> Result<Job, Error> {
    let (state, end) = folder.state();
    let size = size_of_output(folder);
    let offset = match u64::try_from(offset) {
        Ok(offset) => offset.min(size),
        Err(_) => size.saturating_sub(offset.unsigned_abs()),
    };
    let wanted = max_bytes.unwrap_or_else(|| engine.policy().max_bytes());
    let wanted = if wanted == 0 { OUTPUT_BYTES_MAX } else { wanted.min(OUTPUT_BYTES_MAX) };
    let JobEnd { data, warnings, snapshot } = end.unwrap_or_default();
    let command = beginning(&about.command, JOB_COMMAND_BYTES_MAX);
    let for_result = json_bytes(&data).saturating_add(json_bytes(&command));
    let for_result = usize::try_from(for_result).unwrap_or(usize::MAX);
    // The result counts against the room of a whole response, not against the size that was asked for.
    let bound = wanted.max(engine.policy().max_bytes());
    let room = AnswerRoom::new(bound).room_after(TextSize::plain(for_result.min(bound / 2)));
    let room = room.at_most(wanted);
    let piece = piece(folder, offset, (wanted, room), state == JobState::Running)?;
    let next_offset = offset + piece.len() as u64;
    warnings.into_iter().for_each(|warning| engine.warn(warning));
    if let Some(id) = snapshot {
        engine.set_snapshot(id);
    }
    if state != JobState::Running && next_offset >= size {
        // If this fails, the job is only kept longer.
        let _ = folder.write_signal(READ);
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
        output_file: engine.workspace.display(&path),
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
    let Some(mut file) = folder.open_output() else { return Ok(Vec::new()) };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset))
        .and_then(|_| file.take(wanted as u64 + 1).read_to_end(&mut bytes))
        .map_err(|source| Error::io("read the output of", &folder.name, source))?;
    let has_room = room.start_of(&bytes).max(1);
    let has_more = bytes.len() > has_room;
    bytes.truncate(has_room);
    let line_end = memchr::memrchr(b'\n', &bytes).map(|at| at + 1);
    match line_end {
        Some(end) if has_more => bytes.truncate(end),
        _ if has_more || is_running => {
            let whole = whole_characters(&bytes).len();
            bytes.truncate(if whole > 0 { whole } else { bytes.len() });
        }
        _ => {}
    }
    Ok(bytes)
}
