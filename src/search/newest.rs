//! Entries by time of change, the newest first.

use super::walk::{Found, Walk};
use crate::engine::path::WorkspacePath;
use crate::error::{Error, ErrorKind};

/// Entries that can be put in the order of their times: about 100 MB of paths.
const ENTRIES_MAX: usize = 1_000_000;

/// Everything that `walk` finds with what is to be kept of it, the newest first, by path where
/// times are equal.
///
/// # Errors
/// `too_large` beyond [`ENTRIES_MAX`].
pub fn first<T>(walk: &mut Walk<'_>, keep: impl Fn(&Found) -> T) -> Result<Vec<(WorkspacePath, T)>, Error> {
    let mut entries = Vec::new();
    for found in walk {
        if entries.len() >= ENTRIES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("more than {ENTRIES_MAX} entries to be sorted by time"),
            )
            .suggest("Narrow the path or the pattern, or sort by path."));
        }
        entries.push((std::cmp::Reverse(changed(&found)), found.path(), keep(&found)));
    }
    entries.sort_unstable_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    Ok(entries.into_iter().map(|(_, path, kept)| (path, kept)).collect())
}

/// When an entry was changed last, in seconds and nanoseconds; 0 where it is gone by now.
fn changed(found: &Found) -> (i64, i64) {
    found.stat().map_or((0, 0), |stat| (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0)))
}
