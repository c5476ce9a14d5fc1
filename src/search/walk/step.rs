//! Steps of a walk: the open folders, and the decision about each entry.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use crate::engine::workspace::listing::Listing;
use crate::engine::workspace::path::WorkspacePath;
use crate::search::entry::{Kind, Start, WalkEntry, WalkFolder};
use crate::search::rules::Rules;

/// Limits of the walk within a folder or at an entry.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is decided by itself")]
pub(super) struct Reach {
    /// True if only named paths are wanted.
    pub(super) only_named: bool,
    /// True if only tracked files are wanted, because a rule hides the folder.
    pub(super) only_tracked: bool,
    /// True if it lies in `.git` or `.lbx`, because the caller named a path there.
    pub(super) in_state: bool,
    /// True if it is, or lies in, a skipped entry.
    pub(super) is_left_out: bool,
}

/// A folder between the root and the present entry.
pub(super) struct Frame {
    /// Descriptor, unless it was closed to save descriptors.
    pub(super) folder: Option<Arc<WalkFolder>>,
    /// Names in it.
    pub(super) listing: Listing,
    /// Index of the next name.
    pub(super) next: usize,
    /// Rules for its entries.
    pub(super) rules: Arc<Rules>,
    /// Length of its path in the walk's buffer.
    pub(super) path_length: usize,
    /// Paths of the caller at and above it.
    pub(super) starts: Arc<[Start]>,
    /// Levels below the outermost of these: 0 for that one itself.
    pub(super) depth: usize,
    /// Limits for its entries.
    pub(super) reach: Reach,
}

impl Frame {
    /// Returns true if `check` is true for any of the paths that the caller named, given the length of that path and
    /// the levels of this folder below it.
    pub(super) fn any_start(&self, mut check: impl FnMut(usize, usize) -> bool) -> bool {
        self.starts.iter().any(|start| check(start.length, self.depth - start.depth))
    }
}

/// Result of one step of the walk.
pub(super) enum Step {
    /// An entry was found.
    Found(WalkEntry),
    /// No entry yet.
    On,
}

/// Extent to which a folder is entered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Enter {
    /// Not entered, only reported as ignored.
    Report,
    /// Only on the way to a named path.
    OnlyNamed,
    /// Only for tracked files.
    OnlyTracked,
    /// Fully.
    All,
}

/// An entry that the walk returns or enters.
#[derive(Clone, Copy)]
pub(super) struct TakenEntry {
    /// Type of the entry.
    pub(super) kind: Kind,
    /// Extent to which it is entered, if at all.
    pub(super) enter: Enter,
    /// True if it is returned.
    pub(super) wanted: bool,
    /// True if it is entered.
    pub(super) below: bool,
    /// Limits of the walk below it.
    pub(super) reach: Reach,
    /// True if the caller named it.
    pub(super) named: bool,
}

/// A folder about to be entered.
pub(super) struct Entering {
    /// Descriptor of the folder.
    pub(super) fd: OwnedFd,
    /// Rules of its parent.
    pub(super) rules: Arc<Rules>,
    /// Levels below the outermost path of the caller.
    pub(super) depth: usize,
    /// Limits for its entries.
    pub(super) reach: Reach,
    /// True if the caller named it.
    pub(super) is_start: bool,
}

/// Relation of an entry to the named paths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// Unrelated.
    No,
    /// Above a named path.
    Above,
    /// A named path.
    Itself,
}

/// Returns the relation of `path` to the named paths.
pub(super) fn naming(named: &[WorkspacePath], path: &Path) -> Naming {
    let below = named.iter().filter(|named| named.as_path().starts_with(path));
    below.fold(Naming::No, |found, named| {
        if named.as_path() == path || found == Naming::Itself { Naming::Itself } else { Naming::Above }
    })
}

/// Returns true if a name is git's state or lbx's own, which no search enters unasked.
pub(super) fn is_state(name: &[u8]) -> bool {
    name.len() == 4 && (name.eq_ignore_ascii_case(b".git") || name.eq_ignore_ascii_case(b".lbx"))
}
