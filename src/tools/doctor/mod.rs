//! `doctor`: checks that lbx works in this workspace, and suggests repairs.

mod checks;
mod forks;
mod hooks;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Text, Tool};
use crate::engine::Engine;
use crate::error::Error;
use crate::text::escaped::plural;

/// Check the workspace, its state, the snapshots and the machine, and suggest repairs
///
/// Each finding is ok, a notice or a problem, with a suggestion. Also starts the server of each client that init has
/// set up here, as the client would, and asks for its tools. With fix, makes the repairs that can lose nothing: it
/// finishes changes that a killed call left half done, sets a damaged session file aside, sets a damaged snapshot
/// branch to its newest whole commit, and removes half-made forks.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Make the repairs that can lose nothing
    #[arg(long)]
    pub fix: bool,
}

/// Results of the checks.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// True if there is no problem
    pub healthy: bool,
    /// Findings, in the order of the checks
    pub findings: Vec<Finding>,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// No problem
    Ok,
    /// Works, but not as well as it could
    Notice,
    /// Does not work
    Problem,
}

/// Result of one check.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// Name of the check
    pub check: &'static str,
    /// Severity
    pub level: Level,
    /// Description
    pub message: String,
    /// Remedy
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// True if this call has repaired it
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
}

impl Finding {
    /// Returns a finding of this level.
    fn new(check: &'static str, level: Level, message: impl Into<String>) -> Self {
        Self { check, level, message: message.into(), remedy: None, fixed: false }
    }

    /// Returns a finding without a problem.
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, message)
    }

    /// Returns a finding about something that works, but not as well as it could.
    fn notice(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::new(check, Level::Notice, message) }
    }

    /// Returns a finding about something that does not work.
    fn problem(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::new(check, Level::Problem, message) }
    }

    /// Converts an error to a problem.
    fn of(check: &'static str, error: &Error) -> Self {
        Self::problem(check, error.message(), error.suggested_action())
    }

    /// Returns the finding as lines for a person.
    fn words(&self) -> String {
        let level = match self.level {
            _ if self.fixed => "fixed",
            Level::Ok => "ok",
            Level::Notice => "notice",
            Level::Problem => "PROBLEM",
        };
        let remedy = self.remedy.iter().map(|remedy| format!("\n{:21}-> {remedy}", "")).collect::<String>();
        format!("{level:8} {:11} {}{remedy}", self.check, self.message)
    }
}

/// `doctor` tool.
pub struct Doctor;

impl Tool for Doctor {
    const NAME: &'static str = "doctor";
    const EFFECT: Effect = Effect::Reads;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    const NEEDS_POLICY: bool = false;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let findings = checks::all(engine, request.fix);
        let healthy = findings.iter().all(|finding| finding.level != Level::Problem || finding.fixed);
        Ok(Response { healthy, findings })
    }

    fn text(response: &Response, text: &mut Text) {
        for finding in &response.findings {
            for line in finding.words().lines() {
                text.line(line);
            }
        }
        let count =
            |level| response.findings.iter().filter(|found| found.level == level && !found.fixed).count();
        let (problems, notices) = (count(Level::Problem), count(Level::Notice));
        text.note(format!("{}, {}", plural(problems, "problem"), plural(notices, "notice")));
    }

    fn status(response: &Response) -> u8 {
        u8::from(!response.healthy)
    }
}
