//! The steps of a walk: the folders on the way, and what is decided of each entry.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use crate::engine::workspace::listing::Listing;
use crate::engine::workspace::path::WorkspacePath;
use crate::search::entry::{Kind, WalkEntry, WalkFolder};
use crate::search::rules::Rules;

/// A folder on the way.
pub(super) struct Frame {
    /// The folder, unless it was closed to spare descriptors.
    pub(super) folder: Option<Arc<WalkFolder>>,
    /// Its names.
    pub(super) listing: Listing,
    /// The name that comes next.
    pub(super) next: usize,
    /// The rules that hold in it.
    pub(super) rules: Arc<Rules>,
    /// How long its path is in the walk's buffer.
    pub(super) path_length: usize,
    /// How long the path of the root is that it lies below.
    pub(super) root_length: usize,
    /// Levels below the root: 0 for the root itself.
    pub(super) depth: usize,
    /// True if only the paths that were named are wanted here.
    pub(super) only_named: bool,
    /// True if only what git tracks is wanted here, because a rule hides the folder.
    pub(super) only_tracked: bool,
    /// True if it lies in `.git` or `.lbx`, because the caller named a path there.
    pub(super) in_state: bool,
    /// True if it is, or lies in, what is left out otherwise.
    pub(super) is_left_out: bool,
}

/// What one step of the walk came to.
pub(super) enum Step {
    /// Something was found.
    Found(WalkEntry),
    /// Nothing yet.
    On,
}

/// How far an entry is entered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Enter {
    /// It is only reported as ignored.
    Report,
    /// On the way to a path that was named, and for nothing else.
    OnlyNamed,
    /// For what git tracks there, and for nothing else.
    OnlyTracked,
    /// Wholly.
    All,
}

/// An entry that the walk takes.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is decided by itself")]
pub(super) struct TakenEntry {
    /// What it is.
    pub(super) kind: Kind,
    /// How far it is entered, if it is.
    pub(super) enter: Enter,
    /// True if it is found.
    pub(super) wanted: bool,
    /// True if it is entered.
    pub(super) below: bool,
    /// True if only the paths that were named are wanted below it.
    pub(super) only_named: bool,
    /// True if it lies in `.git` or `.lbx`.
    pub(super) in_state: bool,
    /// True if it is, or lies in, what is left out otherwise.
    pub(super) is_left_out: bool,
    /// True if the caller named it.
    pub(super) named: bool,
}

/// A folder about to be entered.
pub(super) struct Entering {
    /// The folder itself.
    pub(super) fd: OwnedFd,
    /// The rules of the folder above it.
    pub(super) rules: Arc<Rules>,
    /// Levels below the root.
    pub(super) depth: usize,
    /// True if only the paths that were named are wanted in it.
    pub(super) only_named: bool,
    /// True if only what git tracks is wanted in it.
    pub(super) only_tracked: bool,
    /// True if it lies in `.git` or `.lbx`.
    pub(super) in_state: bool,
    /// True if it is, or lies in, what is left out otherwise.
    pub(super) is_left_out: bool,
}

/// How an entry relates to the paths that were named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// Not at all.
    No,
    /// One of them lies below it.
    Above,
    /// It is one of them.
    Itself,
}

/// How `path` relates to the paths that were named.
pub(super) fn naming(named: &[WorkspacePath], path: &Path) -> Naming {
    let below = named.iter().filter(|named| named.as_path().starts_with(path));
    below.fold(Naming::No, |found, named| {
        if named.as_path() == path || found == Naming::Itself { Naming::Itself } else { Naming::Above }
    })
}

/// Returns true if a name is git's state or lbx's own, which no search enters by itself.
pub(super) fn is_state(name: &[u8]) -> bool {
    name.len() == 4 && (name.eq_ignore_ascii_case(b".git") || name.eq_ignore_ascii_case(b".lbx"))
}
