//! Changed paths as a diff shows them: renamed files found, and a change of type as two.

use std::collections::HashMap;

use super::compare::{PathChange, Version, VersionKind};
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::error::SnapshotError;

/// Most pairs of a file that went and one that came whose contents are compared.
const PAIRS_MAX: usize = 400;
/// Largest file that is compared so, in bytes.
const BYTES_MAX: usize = 256 * 1024;
/// How much of two files must be the same for one to be the other renamed, in hundredths.
const SIMILARITY_MIN: usize = 50;
/// All of it, in hundredths.
const SIMILARITY_ALL: usize = 100;

/// A version and the place of its delta.
type Indexed = (usize, Version);

/// A file on both sides of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// The earlier path and version, where there was one.
    pub before: Option<(Vec<u8>, Version)>,
    /// The later path and version, where there is one.
    pub after: Option<(Vec<u8>, Version)>,
    /// How much of the two is the same, in hundredths, where the file has another path now.
    pub similarity: Option<usize>,
}

impl Delta {
    /// The path that it is known by: the later one, where there is one.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        self.after.as_ref().or(self.before.as_ref()).map_or(&[], |(path, _)| path)
    }
}

impl Store {
    /// The changes as a diff shows them, in the same order.
    ///
    /// # Errors
    /// Where a version cannot be read.
    pub fn deltas(&self, changes: &[PathChange]) -> Result<Vec<Delta>, SnapshotError> {
        let mut deltas: Vec<Delta> = changes.iter().flat_map(delta).collect();
        for (gone, come, similarity) in self.renames(&deltas)? {
            let before = deltas.get_mut(gone).and_then(|delta| delta.before.take());
            if let Some(come) = deltas.get_mut(come) {
                come.before = before;
                come.similarity = Some(similarity);
            }
        }
        deltas.retain(|delta| delta.before.is_some() || delta.after.is_some());
        Ok(deltas)
    }

    /// The files that have another path now: where they went, where they came, how alike they are.
    fn renames(&self, deltas: &[Delta]) -> Result<Vec<(usize, usize, usize)>, SnapshotError> {
        let (mut gone, mut come): (Vec<Indexed>, Vec<Indexed>) = (Vec::new(), Vec::new());
        for (index, delta) in deltas.iter().enumerate() {
            match (&delta.before, &delta.after) {
                (Some((_, version)), None) if is_regular(*version) => gone.push((index, *version)),
                (None, Some((_, version))) if is_regular(*version) => come.push((index, *version)),
                _ => {}
            }
        }
        let mut renames = Vec::new();
        come.retain(|(to, after)| {
            let same = gone.iter().position(|(_, before)| before.id == after.id);
            let Some(same) = same.filter(|_| after.id != gix::ObjectId::empty_blob(after.id.kind())) else {
                return true;
            };
            renames.push((gone.remove(same).0, *to, SIMILARITY_ALL));
            false
        });
        if gone.len() * come.len() > PAIRS_MAX {
            return Ok(renames);
        }
        let read = |files: &[Indexed]| -> Result<Vec<(usize, Vec<u8>)>, SnapshotError> {
            let mut read = Vec::new();
            for (index, version) in files {
                // What is larger is alike to nothing.
                if self.size(*version)? <= BYTES_MAX as u64 {
                    read.push((*index, self.content(*version)?));
                }
            }
            Ok(read)
        };
        if gone.is_empty() || come.is_empty() {
            return Ok(renames);
        }
        let (mut gone, come) = (read(&gone)?, read(&come)?);
        for (to, after) in &come {
            let alike = gone.iter().map(|(_, before)| similarity(before, after)).enumerate();
            let best = alike.filter(|(_, alike)| *alike >= SIMILARITY_MIN).max_by_key(|(_, alike)| *alike);
            if let Some((at, alike)) = best {
                renames.push((gone.remove(at).0, *to, alike.min(SIMILARITY_ALL - 1)));
            }
        }
        Ok(renames)
    }
}

/// One changed path; a change of type is the end of one file and the beginning of another.
fn delta(change: &PathChange) -> Vec<Delta> {
    let side = |version: Option<Version>| version.map(|version| (change.path.clone(), version));
    let (before, after) = (side(change.before), side(change.after));
    match (change.before, change.after) {
        (Some(old), Some(new)) if format_of(old) != format_of(new) => vec![
            Delta { before, after: None, similarity: None },
            Delta { before: None, after, similarity: None },
        ],
        _ => vec![Delta { before, after, similarity: None }],
    }
}

/// Whether a version is a regular file.
fn is_regular(version: Version) -> bool {
    matches!(version.kind, VersionKind::File | VersionKind::Executable)
}

/// The type of a file, whoever may execute it.
fn format_of(version: Version) -> &'static str {
    version.mode().get(..3).unwrap_or_default()
}

/// How much of two files is the same, in hundredths of the larger: whole lines, wherever they are.
fn similarity(before: &[u8], after: &[u8]) -> usize {
    let larger = before.len().max(after.len());
    if larger == 0 || larger > BYTES_MAX || before.len().min(after.len()) * 2 < larger {
        return 0;
    }
    let mut lines: HashMap<&[u8], usize> = HashMap::new();
    for line in before.split_inclusive(|byte| *byte == b'\n') {
        *lines.entry(line).or_default() += 1;
    }
    let mut same = 0;
    for line in after.split_inclusive(|byte| *byte == b'\n') {
        if let Some(left) = lines.get_mut(line).filter(|left| **left > 0) {
            *left -= 1;
            same += line.len();
        }
    }
    same * SIMILARITY_ALL / larger
}
