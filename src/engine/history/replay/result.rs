//! What differs between the picture and the tree in the end.

use std::collections::{BTreeMap, BTreeSet};

use super::pieces::Pieces;
use crate::engine::journal::{FolderEntry, Version};
use crate::engine::workspace::path::WorkspacePath;

/// A file that is to hold other bytes, or to be there at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// Where it is to stand.
    pub at: WorkspacePath,
    /// Where it stands; `None` where there is nothing.
    pub real: Option<WorkspacePath>,
    /// What it must hold now; `None` where there must be nothing.
    pub from: Option<Version>,
    /// What it is to hold.
    pub target: Version,
}

/// A file that is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Where it would stand by now.
    pub(super) at: WorkspacePath,
    /// Where it stands; `None` where there is nothing.
    pub real: Option<WorkspacePath>,
    /// What it must hold now.
    pub from: Option<Version>,
}

impl Gone {
    /// Where it stands, or should.
    #[must_use]
    pub fn path(&self) -> &WorkspacePath {
        self.real.as_ref().unwrap_or(&self.at)
    }
}

impl Live {
    /// Whether the file is where it is to be, whatever moves round it: under one name may be another
    /// folder by then, and under another this one.
    #[must_use]
    pub fn stays(&self, pieces: &Pieces) -> bool {
        self.real.as_ref() == Some(&self.at) && pieces.standing(&self.at).as_ref() == Some(&self.at)
    }
}

/// What differs in the end.
#[derive(Debug, Default)]
pub struct ReplayResult {
    /// What gets another name.
    pub pieces: Pieces,
    /// What gets other bytes.
    pub lives: Vec<Live>,
    /// What goes.
    pub gone: Vec<Gone>,
    /// Folders that are to be there, outermost first.
    pub made: Vec<FolderEntry<WorkspacePath>>,
    /// Folders that are to go where they are empty, by where they would stand.
    pub vacant: Vec<WorkspacePath>,
    /// The same, by where they stand, since something else takes their place.
    pub ousted: Vec<WorkspacePath>,
    /// Folders that get other permission bits, by where they are to stand: those they must have now,
    /// where that is known, and those they are to have.
    pub modes: BTreeMap<WorkspacePath, (Option<u32>, u32)>,
    /// Files that did not hold what one change left when the next one began. Where there is one, the
    /// rest is what would come of it if the bytes in between did not matter.
    pub interleaved: BTreeSet<WorkspacePath>,
}

/// Whether two versions have the same bytes and mode.
#[must_use]
pub fn same(one: Option<&Version>, other: Option<&Version>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.sha256 == other.sha256 && one.mode == other.mode,
        _ => false,
    }
}
