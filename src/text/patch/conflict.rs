//! Why a patch does not apply to a file, said so that one retry suffices.

use std::fmt;

use super::index::Tier;
use crate::text::checked::{Fault, peek};
use crate::text::escaped;

/// The fate of every hunk of a file, at least one of which has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// One a hunk, in the patch's order.
    pub hunks: Vec<HunkFate>,
}

/// What became of one hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HunkFate {
    /// Number of the hunk within its file, from 1.
    pub number: usize,
    /// Line of the patch text where it begins, from 1.
    pub patch_line: usize,
    /// Its fate.
    pub fate: Fate,
}

/// Whether a hunk would apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It has its place.
    Applies {
        /// The line of the file as it is, from 1.
        line: usize,
        /// How the lines were compared.
        tier: Tier,
    },
    /// Its result stands in the file.
    AlreadyApplied {
        /// The line of the file as it is, from 1.
        line: usize,
    },
    /// It has no place.
    Fails(Failure),
}

/// Why a hunk has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of trouble.
    pub reason: Reason,
    /// The nearest place, where there is one.
    pub nearest: Option<Nearest>,
}

/// What keeps a hunk from applying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Its old lines are nowhere; under `strict`, not at the stated line.
    NotFound {
        /// The stated line, corrected by the hunks before; from 1.
        stated: Option<usize>,
    },
    /// Its old lines stand in several places and the line number does not decide.
    Ambiguous {
        /// The lines where they stand, from 1; the first few. None where the search was given up.
        lines: Vec<usize>,
    },
    /// A `@@` anchor is nowhere.
    AnchorNotFound {
        /// The anchor.
        anchor: Vec<u8>,
    },
    /// It only adds lines and does not say where.
    NoPlace,
    /// It changes lines that another hunk changes.
    Overlaps {
        /// The first such line of the file, from 1.
        line: usize,
    },
    /// Its counts are missing or wrong, which `strict` refuses.
    Counts,
    /// The binary change does not fit.
    Binary(&'static str),
    /// The deletion would leave lines which the patch does not show.
    Remainder {
        /// How many lines would be left.
        lines: usize,
    },
    /// The patch does not hold what undoing it needs.
    Irreversible,
    /// The result would be larger than a file may be.
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The largest size allowed.
        bytes_max: usize,
    },
    /// A computed range lies outside the file: a bug in lbx.
    OutOfRange,
}

/// The place that is most like a hunk's old lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// Its first line, from 1.
    pub line: usize,
    /// How many of the hunk's old lines stand there, of how many.
    pub equal: (usize, usize),
    /// The line of the file where the two first differ, from 1.
    pub differs_at: usize,
    /// The line that the hunk wants there, white space made visible.
    pub wanted: String,
    /// The line that is there; `None` at the end of the file.
    pub found: Option<String>,
}

impl Conflict {
    /// A conflict of a single trouble that is no hunk's.
    #[must_use]
    pub fn whole(patch_line: usize, reason: Reason) -> Self {
        let fate = Fate::Fails(Failure { reason, nearest: None });
        Self { hunks: vec![HunkFate { number: 1, patch_line, fate }] }
    }

    /// The hunks that fail.
    pub fn failures(&self) -> impl Iterator<Item = (&HunkFate, &Failure)> {
        self.hunks.iter().filter_map(|hunk| match &hunk.fate {
            Fate::Fails(failure) => Some((hunk, failure)),
            Fate::Applies { .. } | Fate::AlreadyApplied { .. } => None,
        })
    }
}

impl Conflict {
    /// The hunks to tell of, at most `limit`: those that fail first, then others, in the patch's
    /// order; and how many are left out.
    #[must_use]
    pub fn foremost(&self, limit: usize) -> (Vec<&HunkFate>, usize) {
        let is_failure = |hunk: &&HunkFate| matches!(hunk.fate, Fate::Fails(_));
        let failing = self.hunks.iter().filter(is_failure);
        let others = self.hunks.iter().filter(|hunk| !is_failure(hunk));
        let mut told: Vec<_> = failing.chain(others).take(limit).collect();
        told.sort_by_key(|hunk| hunk.number);
        let left_out = self.hunks.len() - told.len();
        (told, left_out)
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Hunks in a message; all that fail are in its details.
        const TOLD_MAX: usize = 5;
        let (told, left_out) = self.foremost(TOLD_MAX);
        let mut separator = "";
        for hunk in &told {
            write!(f, "{separator}{hunk}")?;
            separator = "; ";
        }
        if left_out == 0 {
            return Ok(());
        }
        let failing = self.failures().count();
        let told = told.iter().filter(|hunk| matches!(hunk.fate, Fate::Fails(_))).count();
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
            Fate::Applies { line, tier: Tier::Exact } => write!(f, "would apply at line {line}"),
            Fate::Applies { line, tier } => write!(f, "would apply at line {line} ({})", tier.name()),
            Fate::AlreadyApplied { line } => write!(f, "is already applied at line {line}"),
            Fate::Fails(failure) => write!(f, "{failure}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(nearest) = &self.nearest else { return write!(f, "{}", self.reason) };
        let (equal, all) = nearest.equal;
        if let (Reason::NotFound { stated: Some(line) }, true) = (&self.reason, equal == all) {
            // Strict, or behind another hunk that comes later in the patch.
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

impl From<Fault> for Reason {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::OutOfRange => Self::OutOfRange,
            Fault::TooLarge { bytes, bytes_max } => Self::TooLarge { bytes, bytes_max },
        }
    }
}

impl Conflict {
    /// Why the result is not made although every hunk has its place: it would be too large, or lbx
    /// itself has erred. The patch says nothing of either.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.failures().find_map(|(_, failure)| match failure.reason {
            Reason::OutOfRange => Some(Fault::OutOfRange),
            Reason::TooLarge { bytes, bytes_max } => Some(Fault::TooLarge { bytes, bytes_max }),
            _ => None,
        })
    }
}

impl fmt::Display for Reason {
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

/// The beginning of a line, as it can be seen.
#[must_use]
pub fn visible(text: &[u8]) -> String {
    const LETTERS_MAX: usize = 200;
    // A letter has at most four bytes.
    let start = peek(text, ..text.len().min(4 * LETTERS_MAX));
    // A carriage return at its end is shown as one that ends a line.
    escaped::visible(start).chars().take(LETTERS_MAX).filter(|letter| *letter != '\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_made_visible() {
        assert_eq!(visible(b"\ta b \r"), "→a b·␍");
        assert_eq!(visible(b"  "), "··");
        assert_eq!(visible(b"\xff"), "‹0xFF›");
        assert_eq!(visible("ä".repeat(1000).as_bytes()), "ä".repeat(200));
    }
}
