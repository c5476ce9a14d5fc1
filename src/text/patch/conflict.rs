//! Reasons why a patch does not apply to a file, detailed enough to succeed on the next try.

use std::fmt;

use super::index::LineMatch;
use crate::text::checked::{TextFault, slice_or_empty};
use crate::text::escaped;

/// Fates of all hunks of a file, at least one of which fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HunkConflict {
    /// Fate of each hunk, in the order of the patch.
    pub hunks: Vec<HunkFate>,
}

/// Fate of one hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HunkFate {
    /// Number of the hunk within its file, from 1.
    pub number: usize,
    /// Line of the patch text where it begins, from 1.
    pub patch_line: usize,
    /// Fate of the hunk.
    pub fate: HunkResult,
}

/// Result of placing a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HunkResult {
    /// It has its place.
    Applies {
        /// Line in the current file, from 1.
        line: usize,
        /// Comparison under which the lines matched.
        tier: LineMatch,
    },
    /// Its result is already in the file.
    AlreadyApplied {
        /// Line in the current file, from 1.
        line: usize,
    },
    /// It has no place.
    Fails(HunkFailure),
}

/// Failure of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HunkFailure {
    /// Kind of failure.
    pub reason: HunkFault,
    /// Nearest place, if there is one.
    pub nearest: Option<NearestPlace>,
}

/// Reason why a hunk does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HunkFault {
    /// Its old lines are nowhere, or with `strict` not at the stated line.
    NotFound {
        /// Stated line, corrected by the previous hunks; from 1.
        stated: Option<usize>,
    },
    /// Its old lines match in several places and the line number does not decide.
    Ambiguous {
        /// First few lines where they match, from 1; empty if the search was stopped.
        lines: Vec<usize>,
    },
    /// A `@@` anchor is nowhere.
    AnchorNotFound {
        /// Text of the anchor.
        anchor: Vec<u8>,
    },
    /// It only adds lines and states no place.
    NoPlace,
    /// It changes lines that another hunk changes.
    Overlaps {
        /// First such line of the file, from 1.
        line: usize,
    },
    /// Its counts are missing or wrong, and `strict` is set.
    Counts,
    /// The binary change does not fit.
    Binary(&'static str),
    /// The deletion would leave lines that the patch does not show.
    Remainder {
        /// Number of lines left.
        lines: usize,
    },
    /// The patch lacks data that is needed to undo it.
    Irreversible,
    /// The result would exceed the size limit of a file.
    TooLarge {
        /// Size in bytes.
        bytes: usize,
        /// Size limit in bytes.
        bytes_max: usize,
    },
    /// A computed range lies outside the file: a bug in lbx.
    OutOfRange,
}

/// Place most similar to the old lines of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearestPlace {
    /// First line, from 1.
    pub line: usize,
    /// Number of old lines that match there, and of all old lines.
    pub equal: (usize, usize),
    /// First line of the file that differs, from 1.
    pub differs_at: usize,
    /// Line that the hunk expects there, with visible white space.
    pub wanted: String,
    /// Line that is there; `None` at the end of the file.
    pub found: Option<String>,
}

impl HunkConflict {
    /// Returns a conflict with a single failure of the whole file.
    pub fn of_whole_file(patch_line: usize, reason: HunkFault) -> Self {
        let fate = HunkResult::Fails(HunkFailure { reason, nearest: None });
        Self { hunks: vec![HunkFate { number: 1, patch_line, fate }] }
    }

    /// Returns the hunks that fail.
    pub fn failures(&self) -> impl Iterator<Item = (&HunkFate, &HunkFailure)> {
        self.hunks.iter().filter_map(|hunk| match &hunk.fate {
            HunkResult::Fails(failure) => Some((hunk, failure)),
            HunkResult::Applies { .. } | HunkResult::AlreadyApplied { .. } => None,
        })
    }

    /// Returns the fault if the result is not made although every hunk has its place: it would be too large, or lbx has
    /// a bug. The patch causes neither.
    pub fn fault(&self) -> Option<TextFault> {
        self.failures().find_map(|(_, failure)| match failure.reason {
            HunkFault::OutOfRange => Some(TextFault::OutOfRange),
            HunkFault::TooLarge { bytes, bytes_max } => Some(TextFault::TooLarge { bytes, bytes_max }),
            _ => None,
        })
    }

    /// Returns the hunks to report, at most `limit`, and the number of omitted ones: failing hunks first, then others,
    /// in the order of the patch.
    pub fn hunks_to_report(&self, limit: usize) -> (Vec<&HunkFate>, usize) {
        let is_failure = |hunk: &&HunkFate| matches!(hunk.fate, HunkResult::Fails(_));
        let failing = self.hunks.iter().filter(is_failure);
        let others = self.hunks.iter().filter(|hunk| !is_failure(hunk));
        let mut told: Vec<_> = failing.chain(others).take(limit).collect();
        told.sort_by_key(|hunk| hunk.number);
        let left_out = self.hunks.len() - told.len();
        (told, left_out)
    }
}

impl fmt::Display for HunkConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Hunks in a message; its details list all that fail.
        const TOLD_MAX: usize = 5;
        let (told, left_out) = self.hunks_to_report(TOLD_MAX);
        let mut separator = "";
        for hunk in &told {
            write!(f, "{separator}{hunk}")?;
            separator = "; ";
        }
        if left_out == 0 {
            return Ok(());
        }
        let failing = self.failures().count();
        let told = told.iter().filter(|hunk| matches!(hunk.fate, HunkResult::Fails(_))).count();
        match failing - told {
            0 => write!(f, "; the other {left_out} have their place"),
            more => write!(f, "; of the other {left_out} hunks {more} fail too"),
        }
    }
}

impl fmt::Display for HunkFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hunk {} (line {} of the patch) ", self.number, self.patch_line)?;
        match &self.fate {
            HunkResult::Applies { line, tier: LineMatch::Exact } => write!(f, "would apply at line {line}"),
            HunkResult::Applies { line, tier } => write!(f, "would apply at line {line} ({})", tier.name()),
            HunkResult::AlreadyApplied { line } => write!(f, "is already applied at line {line}"),
            HunkResult::Fails(failure) => write!(f, "{failure}"),
        }
    }
}

impl fmt::Display for HunkFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(nearest) = &self.nearest else { return write!(f, "{}", self.reason) };
        let (equal, all) = nearest.equal;
        if let (HunkFault::NotFound { stated: Some(line) }, true) = (&self.reason, equal == all) {
            // This is strict, or the lines come after those of a later hunk.
            return write!(
                f,
                "does not match at line {line}; its lines are at line {}, where it cannot apply",
                nearest.line
            );
        }
        write!(f, "{}", self.reason)?;
        write!(f, "; nearest is line {} ({equal} of {all} lines equal): ", nearest.line)?;
        match &nearest.found {
            Some(found) => {
                write!(f, "line {} should be `{}` and is `{found}`", nearest.differs_at, nearest.wanted)
            }
            None => write!(f, "`{}` is expected, but the file ends there", nearest.wanted),
        }
    }
}

impl From<TextFault> for HunkFault {
    fn from(fault: TextFault) -> Self {
        match fault {
            TextFault::OutOfRange => Self::OutOfRange,
            TextFault::TooLarge { bytes, bytes_max } => Self::TooLarge { bytes, bytes_max },
        }
    }
}

impl fmt::Display for HunkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { stated: Some(line) } => write!(f, "does not match at line {line} or elsewhere"),
            Self::NotFound { stated: None } => write!(f, "matches nowhere"),
            Self::Ambiguous { lines } if lines.is_empty() => {
                write!(f, "matches too many places; add context lines or their numbers")
            }
            Self::Ambiguous { lines } => {
                let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
                write!(f, "matches several places (lines {}): add context lines", lines.join(", "))
            }
            Self::AnchorNotFound { anchor } => {
                write!(f, "has an anchor that does not occur in the file: `{}`", visible(anchor))
            }
            Self::NoPlace => write!(f, "only adds lines and does not say where: add context lines"),
            Self::Overlaps { line } => write!(f, "changes line {line}, which another hunk changes too"),
            Self::Counts => write!(f, "has wrong or no line counts, which strict refuses"),
            Self::Binary(message) => write!(f, "does not apply: {message}"),
            Self::Remainder { lines } => {
                write!(f, "deletes the file, but {lines} lines of it are not in the patch")
            }
            Self::Irreversible => {
                write!(f, "cannot be reversed: the patch does not contain the old content")
            }
            Self::TooLarge { bytes, bytes_max } => {
                write!(f, "would make a file of {bytes} bytes; the limit is {bytes_max} (limits.file_bytes)")
            }
            Self::OutOfRange => write!(f, "has a computed range outside the file: this is a bug in lbx"),
        }
    }
}

/// Returns the start of a line, with invisible characters made visible.
pub fn visible(text: &[u8]) -> String {
    const LETTERS_MAX: usize = 200;
    // A character has at most four bytes.
    let start = slice_or_empty(text, ..text.len().min(4 * LETTERS_MAX));
    // A carriage return at the end is shown as a line ending.
    escaped::visible(start).chars().take(LETTERS_MAX).filter(|letter| *letter != '\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_conflict_makes_whitespace_visible() {
        assert_eq!(visible(b"\ta b \r"), "→a b·␍");
        assert_eq!(visible(b"  "), "··");
        assert_eq!(visible(b"\xff"), "‹0xFF›");
        assert_eq!(visible("ä".repeat(1000).as_bytes()), "ä".repeat(200));
    }
}
