//! What a session knows of one file.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::shown_lines::Lines;
use crate::clock::seconds_now;
use crate::engine::workspace::path::WorkspacePath;
use crate::sha256::Sha256;

/// What a session knows of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The canonical path, so that two names of one file share a mark.
    pub path: WorkspacePath,
    /// SHA-256 of the bytes seen.
    pub sha256: Sha256,
    /// Their number.
    pub size: u64,
    /// The lines shown.
    #[serde(default)]
    pub lines: Lines,
    /// When they were seen, seconds since 1970.
    pub time: u64,
    /// The id of the blob that they are to git, in hex digits, where it was worked out: that of a
    /// large file need not be worked out again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// What a later version keeps here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Mark {
    /// A mark of now, for bytes of which all lines were seen.
    #[must_use]
    pub fn of_everything(path: WorkspacePath, sha256: Sha256, size: u64, total_lines: u64) -> Self {
        let lines = Lines::up_to(total_lines);
        Self { path, sha256, size, lines, time: seconds_now(), blob: None, other: Map::new() }
    }
}
