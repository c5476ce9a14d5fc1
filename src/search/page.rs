//! One page of a result: where it begins, how much it may hold, where the next one begins.

use serde::Serialize;

use crate::envelope::{self, Layout};

/// How much of a result an answer shows.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Entries passed over at the beginning.
    pub offset: u64,
    /// Entries shown at most; 0 for no limit.
    pub limit: u64,
    /// Bytes of payload shown at most; 0 for no limit.
    pub bytes_max: u64,
}

/// Bytes that one entry may have whatever the bound of the page: nearly all are whole then.
pub const ENTRY_BYTES: u64 = 4096;

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It belongs to an earlier page.
    Passed,
    /// It is on this page.
    Kept,
    /// It belongs to a later page.
    Left,
}

/// How much of a page is taken, wherever its entries are kept.
#[derive(Debug)]
pub struct Budget {
    /// What it may hold.
    window: Window,
    /// Entries that it holds.
    kept: u64,
    /// Bytes of what it holds.
    bytes: u64,
    /// Entries offered so far, those passed over included.
    seen: u64,
    /// True if an entry found no place.
    truncated: bool,
}

impl Budget {
    /// Nothing taken.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self { window, kept: 0, bytes: 0, seen: 0, truncated: false }
    }

    /// Offers the next entry; `bytes_of` counts its payload, where that decides.
    pub fn offer(&mut self, bytes_of: impl FnOnce() -> u64) -> Offered {
        self.seen += 1;
        if self.truncated {
            return Offered::Left;
        }
        if self.seen <= self.window.offset {
            return Offered::Passed;
        }
        if self.window.limit > 0 && self.kept >= self.window.limit {
            self.truncated = true;
            return Offered::Left;
        }
        if self.window.bytes_max > 0 {
            let bytes = self.bytes.saturating_add(bytes_of());
            // One entry always has a place, so that every page goes on.
            if bytes > self.window.bytes_max && self.kept > 0 {
                self.truncated = true;
                return Offered::Left;
            }
            self.bytes = bytes;
        }
        self.kept += 1;
        Offered::Kept
    }

    /// Bytes that the first entry of the page may have, as long as there is none and a bound.
    #[must_use]
    pub fn room_for_first(&self) -> Option<u64> {
        (self.kept == 0 && self.window.bytes_max > 0).then(|| self.window.bytes_max.max(ENTRY_BYTES))
    }

    /// Passes over `count` entries at once, as far as they all belong to earlier or later pages.
    pub fn skip(&mut self, count: u64) {
        self.seen += count;
    }

    /// Returns true if every further entry belongs to a later page.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.truncated
    }

    /// Entries offered so far.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Where the next page begins, if there is one.
    #[must_use]
    pub fn next_offset(&self) -> Option<u64> {
        self.truncated.then(|| self.window.offset + self.kept)
    }
}

/// The entries of one page, taken in order.
#[derive(Debug)]
pub struct Page<T> {
    /// How much of it is taken.
    budget: Budget,
    /// What it holds.
    kept: Vec<T>,
}

impl<T: Serialize> Page<T> {
    /// An empty page.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self { budget: Budget::new(window), kept: Vec::new() }
    }

    /// Takes the next entry, which is made only if it may have a place.
    pub fn offer(&mut self, make: impl Fn() -> T) -> Offered {
        let mut made = None;
        let offered = self.budget.offer(|| json_bytes(made.insert(make())));
        if offered == Offered::Kept {
            self.kept.push(made.unwrap_or_else(make));
        }
        offered
    }

    /// Returns true if every further entry belongs to a later page.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.budget.is_full()
    }

    /// Entries offered so far.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.budget.seen()
    }

    /// Where the next page begins, if there is one.
    #[must_use]
    pub fn next_offset(&self) -> Option<u64> {
        self.budget.next_offset()
    }

    /// The entries.
    #[must_use]
    pub fn into_entries(self) -> Vec<T> {
        self.kept
    }
}

/// Bytes of `value` as JSON, without making the text.
#[must_use]
pub fn json_bytes<T: Serialize>(value: &T) -> u64 {
    let mut counter = Counter(0);
    // Counting cannot fail; a value that has no JSON form has no bytes either.
    let _ = envelope::write_json(value, Layout::Line, &mut counter);
    counter.0
}

/// Counts what is written to it.
struct Counter(u64);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0 += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages of `entries` that follow one another under `limit` and `bytes_max`.
    fn pages(entries: &[&str], limit: u64, bytes_max: u64) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        let mut offset = Some(0);
        while let Some(start) = offset {
            let mut page = Page::new(Window { offset: start, limit, bytes_max });
            for entry in entries {
                page.offer(|| (*entry).to_owned());
            }
            offset = page.next_offset();
            pages.push(page.into_entries());
        }
        pages
    }

    #[test]
    fn pages_joined_are_the_whole() {
        let entries = ["a", "bb", "a very long entry that is larger than any budget", "d", "e", "\"\n"];
        for limit in 0..7 {
            for bytes_max in 0..20 {
                let pages = pages(&entries, limit, bytes_max);
                assert!(pages.iter().all(|page| !page.is_empty()), "{limit} {bytes_max}");
                assert_eq!(pages.concat(), entries, "{limit} {bytes_max}");
            }
        }
    }
}
