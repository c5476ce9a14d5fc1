//! What `edit` answers.

use schemars::JsonSchema;
use serde::Serialize;

use super::edited::{Edited, Matched};
use super::request::Request;
use crate::engine::Engine;
use crate::engine::change::Current;
use crate::sha256::Sha256;
use crate::text::escaped;
use crate::text::replace::line_ranges;
use crate::tools::Text;
use crate::tools::common::{ListEnd, PLACES_LISTED};

/// What was changed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum Response {
    /// In one file.
    One(FileEdited),
    /// In several, in the order asked for.
    Several {
        /// One response a file.
        files: Vec<FileEdited>,
        /// Whether that is all.
        #[serde(flatten)]
        end: ListEnd,
    },
}

/// What was changed in a file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileEdited {
    /// The file
    pub path: String,
    /// SHA-256 of its bytes now
    pub sha256: Sha256,
    /// Places replaced
    pub count: usize,
    /// The first 20 of them, as lines of the file now
    pub replacements: Vec<LineRange>,
    /// How `old_string` matched
    pub r#match: Matched,
    /// True where the file had changed since it was read, elsewhere than here
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rebased: bool,
    /// What changed, as a unified diff
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Some lines of a file, from 1, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineRange {
    /// The first
    pub start_line: u64,
    /// The last
    pub end_line: u64,
}

impl Response {
    /// The answer for one file alone, or for a list of them.
    #[must_use]
    pub fn of(engine: &Engine, mut edited: Vec<FileEdited>, request: &Request) -> Self {
        match edited.pop() {
            Some(only) if request.paths.is_none() && edited.is_empty() => Self::One(only),
            last => {
                edited.extend(last);
                let end = ListEnd::of(engine, request.options.max_bytes, &mut edited);
                Self::Several { files: edited, end }
            }
        }
    }
}

impl FileEdited {
    /// The answer to a request that was made before and whose result is in place.
    #[must_use]
    pub fn already_applied(current: &Current) -> Self {
        Self {
            path: current.place().shown().to_owned(),
            sha256: current.sha256(),
            count: 0,
            replacements: Vec::new(),
            r#match: Matched::AlreadyApplied,
            rebased: false,
            diff: None,
        }
    }

    /// The answer for one file.
    pub fn of(shown: &str, sha256: Sha256, edited: &Edited<'_>, diff: Option<String>) -> Self {
        let listed = line_ranges(&edited.body, &edited.ranges, PLACES_LISTED);
        Self {
            path: shown.to_owned(),
            sha256,
            count: edited.count,
            replacements: listed.into_iter().map(LineRange::from).collect(),
            r#match: edited.matched,
            rebased: false,
            diff,
        }
    }

    /// One line for a person.
    pub fn as_text(&self, tool: &str, text: &mut Text) {
        let what = match self.r#match {
            Matched::AlreadyApplied => "already applied".to_owned(),
            matched => {
                let places: Vec<String> = self.replacements.iter().map(LineRange::to_string).collect();
                let more = if self.count > places.len() { ", …" } else { "" };
                format!("{} replaced at {}{more}{}", self.count, places.join(", "), matched.remark())
            }
        };
        text.change(&format!("{tool}: {} ({what})", escaped::name(&self.path)));
        if let Some(diff) = &self.diff {
            text.out.extend_from_slice(diff.as_bytes());
        }
    }
}

impl From<(u64, u64)> for LineRange {
    fn from((start_line, end_line): (u64, u64)) -> Self {
        Self { start_line, end_line }
    }
}

impl std::fmt::Display for LineRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.start_line == self.end_line {
            write!(f, "line {}", self.start_line)
        } else {
            write!(f, "lines {}-{}", self.start_line, self.end_line)
        }
    }
}
