//! What a session knows of one file.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::numbers::Numbers;
use super::shown_lines::Lines;
use crate::clock::seconds_now;
use crate::engine::workspace::path::WorkspacePath;
use crate::sha256::Sha256;

/// Earlier versions of a file of which the shown lines are known.
const EARLIER_MAX: usize = 3;

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
    /// The numbers under which lines were shown, where they have others now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Numbers>,
    /// Shown lines of other versions, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierVersion>,
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

/// Shown lines of an earlier version of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierVersion {
    /// SHA-256 of its bytes.
    pub sha256: Sha256,
    /// The numbers under which its lines were shown.
    pub numbers: Numbers,
}

impl Mark {
    /// A mark of now, for bytes of which all lines were seen.
    #[must_use]
    pub fn of_everything(path: WorkspacePath, sha256: Sha256, size: u64, total_lines: u64) -> Self {
        let lines = Lines::up_to(total_lines);
        let (numbers, earlier) = (None, Vec::new());
        Self {
            path,
            sha256,
            size,
            lines,
            numbers,
            earlier,
            time: seconds_now(),
            blob: None,
            other: Map::new(),
        }
    }

    /// The numbers under which its lines were shown, and where those lines are.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        self.numbers.clone().unwrap_or_else(|| Numbers::of_ranges(self.lines.ranges()))
    }

    /// The versions of which it knows shown lines, the newest first.
    pub fn versions(&self) -> impl Iterator<Item = Sha256> {
        std::iter::once(self.sha256).chain(self.earlier.iter().map(|version| version.sha256))
    }

    /// Returns true if the lines `first` to `last` were shown under their present numbers.
    #[must_use]
    pub fn shows(&self, first: u64, last: u64) -> bool {
        let is_shown = |numbers: &Numbers| (first..=last).all(|line| numbers.now(line) == Some(line));
        self.lines.contain(first, last) && self.numbers.as_ref().is_none_or(is_shown)
    }

    /// Notes that these lines of the same bytes were shown as well.
    pub(super) fn show(&mut self, lines: &Lines) {
        if let Some(numbers) = &mut self.numbers {
            lines.ranges().iter().for_each(|&(first, last)| numbers.show(first, last));
        }
        lines.ranges().iter().for_each(|&(first, last)| self.lines.add(first, last));
    }

    /// Returns the shown lines of this version and of earlier ones, for the mark of a newer version.
    #[must_use]
    pub fn as_earlier(&self) -> Vec<EarlierVersion> {
        let this = EarlierVersion { sha256: self.sha256, numbers: self.numbers() };
        std::iter::once(this).chain(self.earlier.iter().cloned()).take(EARLIER_MAX).collect()
    }
}
