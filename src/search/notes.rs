//! What could not be searched: a bounded list, and a count of the rest.

/// Notes kept in full; the rest is counted.
const NOTES_MAX: usize = 10;

/// Remarks about single files and folders.
#[derive(Debug, Default)]
pub struct Notes {
    /// The first of them.
    kept: Vec<String>,
    /// How many more there were.
    more: u64,
}

impl Notes {
    /// Takes a remark.
    pub fn push(&mut self, note: impl FnOnce() -> String) {
        if self.kept.len() < NOTES_MAX {
            self.kept.push(note());
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// Takes a remark that must not be lost in the number of others.
    pub fn extend(&mut self, note: Option<String>) {
        self.kept.extend(note);
    }

    /// Takes over the remarks of another.
    pub fn append(&mut self, other: Self) {
        for note in other.kept {
            self.push(|| note);
        }
        self.more = self.more.saturating_add(other.more);
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The remarks, the last one telling how many are not shown.
    #[must_use]
    pub fn into_lines(self) -> Vec<String> {
        let mut lines = self.kept;
        if self.more > 0 {
            lines.push(format!("{} more files or folders could not be searched in full", self.more));
        }
        lines
    }
}
