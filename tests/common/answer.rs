//! The answer of a call.

use std::process::Output;

use serde_json::Value;

/// Exit status by kind of error, as documented.
pub const EXIT_STATUS: &[(&str, i32)] = &[
    ("invalid_request", 2),
    ("not_found", 3),
    ("already_exists", 4),
    ("not_read", 5),
    ("stale_file", 6),
    ("no_match", 7),
    ("ambiguous_match", 8),
    ("patch_invalid", 9),
    ("patch_conflict", 9),
    ("outside_workspace", 10),
    ("protected_path", 10),
    ("is_a_directory", 11),
    ("not_a_directory", 11),
    ("not_a_regular_file", 11),
    ("binary_file", 11),
    ("unsupported_encoding", 11),
    ("too_large", 11),
    ("permission_denied", 12),
    ("command_denied", 12),
    ("sandbox_not_found", 13),
    ("lock_timeout", 14),
    ("no_space", 15),
    ("io_error", 15),
    ("snapshot_failed", 16),
    ("verification_failed", 18),
    ("timeout", 17),
    ("internal", 70),
];

/// The answer of a call, not yet checked.
#[must_use = "say what is expected of it: ok() or error(kind)"]
pub struct Answer {
    /// Description of the call, for messages.
    call: String,
    /// Output and exit status of the process.
    output: Output,
}

impl Answer {
    /// Creates the answer of a call.
    pub fn new(call: String, output: Output) -> Self {
        Self { call, output }
    }

    /// Returns the data of a request that succeeded without a warning.
    #[track_caller]
    pub fn ok(self) -> Value {
        let mut envelope = self.success();
        assert_eq!(envelope.get("warnings"), None, "{}", self.call);
        envelope["data"].take()
    }

    /// Returns the data of a request that succeeded with a warning that contains `part`.
    #[track_caller]
    pub fn warned(self, part: &str) -> Value {
        let mut envelope = self.success();
        let warnings = envelope["warnings"].as_array().cloned().unwrap_or_default();
        let is_there = warnings.iter().any(|warning| warning.as_str().unwrap().contains(part));
        assert!(is_there, "{}: no warning with {part:?} in {warnings:?}", self.call);
        envelope["data"].take()
    }

    /// Returns the whole answer of a request that succeeded.
    #[track_caller]
    pub fn success(&self) -> Value {
        let envelope = self.envelope();
        assert_eq!(envelope["ok"], true, "{}: {envelope:#}", self.call);
        assert!(envelope["data"].is_object(), "{}: {envelope:#}", self.call);
        assert_eq!(self.status(), 0, "{}", self.call);
        envelope
    }

    /// Returns the error of a request that failed with that kind.
    #[track_caller]
    pub fn error(self, kind: &str) -> Value {
        let mut envelope = self.envelope();
        assert_eq!(envelope["ok"], false, "{}: {envelope:#}", self.call);
        assert_eq!(envelope["error"]["kind"], kind, "{}: {envelope:#}", self.call);
        assert_eq!(self.status(), exit_status(kind), "{}", self.call);
        let error = envelope["error"].take();
        for field in ["message", "suggested_action"] {
            assert!(error[field].as_str().is_some_and(|text| !text.is_empty()), "{}: {error:#}", self.call);
        }
        error
    }

    /// Returns the one JSON object on stdout.
    #[track_caller]
    pub fn envelope(&self) -> Value {
        let text = self.stdout_text();
        assert_eq!(self.stderr(), "", "{}: stderr", self.call);
        assert!(text.ends_with('\n'), "{}: no newline at the end of {text:?}", self.call);
        let envelope: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error} in {text:?}", self.call));
        assert!(envelope.is_object() && envelope["tool"].is_string(), "{}: {text}", self.call);
        envelope
    }

    /// Returns each line of stdout as JSON, as `batch` answers.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        assert_eq!(self.stderr(), "", "{}: stderr", self.call);
        self.stdout_text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the exit status; fails if a signal ended the call.
    #[track_caller]
    pub fn status(&self) -> i32 {
        self.output.status.code().unwrap_or_else(|| panic!("{}: ended by a signal", self.call))
    }

    /// Returns the exit status; `None` if a signal ended the call.
    #[allow(dead_code, reason = "tests of hostile workspaces ask it")]
    pub fn ended(&self) -> Option<i32> {
        self.output.status.code()
    }

    /// Returns the bytes on stdout.
    pub fn stdout(&self) -> &[u8] {
        &self.output.stdout
    }

    /// Returns the text on stdout.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// Returns the text on stderr.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

/// Returns the documented exit status of a kind.
#[track_caller]
pub fn exit_status(kind: &str) -> i32 {
    EXIT_STATUS.iter().find(|(known, _)| *known == kind).unwrap_or_else(|| panic!("no kind {kind}")).1
}
