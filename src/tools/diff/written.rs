//! The diff of one file, as git writes it.

use crate::engine::snapshot::{Delta, SnapshotError, Store, Version};
use crate::text::git_diff::{Amount, FileDiff, Side};

/// Adds the diff of one file.
///
/// # Errors
/// Where a version cannot be read.
pub fn write(store: &Store, delta: &Delta, binary: bool, out: &mut Vec<u8>) -> Result<Amount, SnapshotError> {
    let read = |side: &Option<(Vec<u8>, Version)>| {
        let read = |(path, version): &(Vec<u8>, Version)| {
            // A binary diff has all bytes in it, another one only the lines of what people read.
            let bytes = if binary { store.content(*version)? } else { store.content_to_compare(*version)? };
            Ok((path.clone(), version.mode(), version.id(), bytes))
        };
        side.as_ref().map(read).transpose()
    };
    let (old, new) = (read(&delta.before)?, read(&delta.after)?);
    let diff = FileDiff {
        old: old.as_ref().map(|(path, mode, id, bytes)| Side { path, mode, id, bytes }),
        new: new.as_ref().map(|(path, mode, id, bytes)| Side { path, mode, id, bytes }),
        similarity: delta.similarity,
        binary,
    };
    Ok(diff.write(out))
}
