//! Entries by time of change or by size.

use std::cmp::Reverse;

use rustix::fs::Stat;

use super::walk::{Walk, WalkEntry};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};

/// Entries that can be put in order: about 100 MB of paths.
const ENTRIES_MAX: usize = 1_000_000;

/// What comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// What was changed last.
    Newest,
    /// What has most bytes.
    Largest,
}

/// Everything that `walk` finds with what is to be kept of it, in this order, by path where two are
/// equal.
///
/// # Errors
/// `too_large` beyond [`ENTRIES_MAX`].
pub fn first<T>(
    walk: &mut Walk<'_>,
    order: Order,
    keep: impl Fn(&WalkEntry) -> T,
) -> Result<Vec<(WorkspacePath, T)>, Error> {
    let mut entries = Vec::new();
    for found in walk {
        if entries.len() >= ENTRIES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("more than {ENTRIES_MAX} entries to be sorted"),
            )
            .suggest("Narrow the path or the pattern. Sorted by path (`sort`) there may be any number."));
        }
        let rank = found.stat().map_or((0, 0), |stat| order.rank(&stat));
        entries.push((Reverse(rank), found.path(), keep(&found)));
    }
    entries.sort_unstable_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    Ok(entries.into_iter().map(|(_, path, kept)| (path, kept)).collect())
}

impl Order {
    /// What orders entries; the greatest comes first.
    fn rank(self, stat: &Stat) -> (i64, i64) {
        match self {
            Self::Newest => (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            Self::Largest if fs::is_regular(stat) => {
                (i64::try_from(fs::size_of(stat)).unwrap_or(i64::MAX), 0)
            }
            Self::Largest => (0, 0),
        }
    }
}
