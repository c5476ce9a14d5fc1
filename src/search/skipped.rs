//! Hidden and ignored files that may explain an empty search result.
//!
//! They explain it only if one of them would have been in it. A second walk looks only at these files, and at no more
//! than a few thousand of them.

use crate::control::Control;
use crate::engine::workspace::{Workspace, fs};
use crate::limits::{SKIPPED_ENTRIES_MAX, SKIPPED_FILE_BYTES_MAX};
use crate::search::entry::{LeftOut, Root, WalkEntry, Why};
use crate::search::selection::Selection;
use crate::search::walk::Walk;
use crate::text::plural::plural;

/// A search that found nothing.
pub struct Empty<'w> {
    /// Workspace.
    pub workspace: &'w Workspace,
    /// Roots of the search.
    pub roots: Vec<Root>,
    /// Selection of the search.
    pub selection: Selection,
    /// Cancellation and deadline.
    pub control: Control,
    /// Entries that it skipped.
    pub left_out: LeftOut,
}

impl Empty<'_> {
    /// Returns advice on how to include skipped entries, if they may explain the empty result. `count` returns how many
    /// of the given entries would have been in the result.
    pub fn advice(
        &self,
        mut count: impl FnMut(&mut dyn Iterator<Item = WalkEntry>) -> u64,
    ) -> Option<String> {
        let LeftOut { ignored, hidden, .. } = self.left_out;
        let parts = [
            (Why::Ignored, ignored, "file", "hidden by ignore rules (no_ignore shows them)"),
            (Why::Hidden, hidden, "file", "with names that begin with a dot (hidden shows them)"),
        ];
        let told: Vec<String> = parts
            .into_iter()
            .filter(|(_, entries, ..)| *entries > 0)
            .filter_map(|(why, entries, noun, what)| {
                Some(match self.explained_by(why, &mut count) {
                    Explained::By(0) => return None,
                    Explained::By(count) => format!("{} {what}", plural(count, noun)),
                    Explained::Perhaps => format!("{} {what}", plural(entries, "entry")),
                })
            })
            .collect();
        (!told.is_empty()).then(|| format!("nothing found; left out: {}", told.join(", ")))
    }

    /// Repeats the walk.
    pub fn walk(&self) -> Walk<'_> {
        Walk::new(self.workspace, self.roots.clone(), self.selection.clone(), self.control.clone())
    }

    /// Checks how far entries skipped for this reason explain the empty result.
    fn explained_by(
        &self,
        why: Why,
        count: &mut impl FnMut(&mut dyn Iterator<Item = WalkEntry>) -> u64,
    ) -> Explained {
        let skipped = self.left_out.listed.iter().filter(|entry| entry.why == why).rev().cloned().collect();
        let (selection, control) = (self.selection.clone(), self.control.clone());
        let mut walk = Walk::of_skipped(self.workspace, skipped, selection, control, SKIPPED_ENTRIES_MAX);
        let mut is_whole = self.left_out.is_listed_whole();
        let mut looked_at = std::iter::from_fn(|| {
            if self.control.should_stop() {
                is_whole = false;
                return None;
            }
            walk.next()
        });
        let found = count(&mut looked_at);
        if found == 0 && (!is_whole || walk.left_out_left == 0) {
            return Explained::Perhaps;
        }
        Explained::By(found)
    }
}

/// Explanation of an empty result by skipped entries.
enum Explained {
    /// Number of entries that would have been in it.
    By(u64),
    /// There were too many entries to check.
    Perhaps,
}

/// Returns true if a file is small enough for the second search.
pub fn is_small(found: &WalkEntry) -> bool {
    found.stat().is_ok_and(|stat| fs::size_of(&stat) <= SKIPPED_FILE_BYTES_MAX)
}
