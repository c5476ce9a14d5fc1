//! Files by time of change, the newest first.

use super::walk::{Found, Walk};
use crate::engine::path::WorkspacePath;
use crate::error::{Error, ErrorKind};

/// Files that can be put in the order of their times: about 100 MB of paths.
const FILES_MAX: usize = 1_000_000;

/// Everything that `walk` finds, the newest first, by path where times are equal.
///
/// # Errors
/// `too_large` beyond [`FILES_MAX`].
pub fn first(walk: &mut Walk<'_>) -> Result<Vec<WorkspacePath>, Error> {
    let mut files = Vec::new();
    for found in walk {
        if files.len() >= FILES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("more than {FILES_MAX} files to be sorted by time"),
            )
            .suggest("Narrow the path or the pattern, or sort by path."));
        }
        files.push((std::cmp::Reverse(changed(&found)), found.path()));
    }
    files.sort_unstable();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// When an entry was changed last, in seconds and nanoseconds; 0 where it is gone by now.
fn changed(found: &Found) -> (i64, i64) {
    found.stat().map_or((0, 0), |stat| (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0)))
}
