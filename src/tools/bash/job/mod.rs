//! Jobs: commands that keep running after the call that started them.
//!
//! A call starts lbx again as the job's supervisor ([`supervise`]), a process of its own that no harness waits for. The
//! supervisor makes the same call as for a command in the foreground, with its output in a file of the job's folder
//! ([`record`]), and writes the result there. Later calls find everything in that folder; the supervisor holds a lock
//! while it lives.

pub mod look;
pub(super) mod record;
mod start;

use super::answer::Response;
use super::request::Request;
use crate::engine::Engine;
use crate::error::Error;

pub use start::{RunningJob, run_internal};

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
    if request.command.is_some() && (request.list || request.job.is_some()) {
        return Err(Error::invalid("`command` starts a new command: leave it out with `job` and `list`")
            .detail("field", "command"));
    }
    if request.job.is_none() && (request.stop || request.offset.is_some()) {
        let field = if request.stop { "stop" } else { "offset" };
        return Err(Error::invalid(format!("`{field}` needs `job`: the job that is meant"))
            .suggest("`list` shows the jobs of this session.")
            .on_command_line("On the command line: `lbx bash --list`.")
            .detail("field", field));
    }
    if request.background && request.is_transaction() {
        return Err(Error::invalid(
            "a job cannot be a transaction: its changes could only be applied when it ends",
        )
        .suggest("Leave out `background`, or `transaction`, `dry_run` and `on_failure`.")
        .detail("field", "background"));
    }
    if request.list {
        return look::list(engine).map(|jobs| Some(Response::Jobs(jobs)));
    }
    if let Some(job) = &request.job {
        return look::read_on(engine, job, request).map(|job| Some(Response::Job(Box::new(job))));
    }
    if request.background {
        return start::start(engine, request).map(|job| Some(Response::Job(Box::new(job))));
    }
    Ok(None)
}
