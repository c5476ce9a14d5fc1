//! One page of a result: its start, its limits, and the start of the next one.

use serde::Serialize;

use crate::engine::policy::Policy;
use crate::engine::policy::settings::Key;

/// Part of a result to show.
#[derive(Debug, Clone, Copy)]
pub struct PageWindow {
    /// Entries to skip first.
    pub offset: u64,
    /// Most entries to show; 0 for no limit.
    pub limit: u64,
    /// Most bytes of payload to show; 0 for no limit.
    pub bytes_max: u64,
}

impl PageWindow {
    /// Returns the part of a result that a request shows; `limit` is the setting with the limit of entries.
    pub fn of(
        policy: &Policy,
        offset: Option<u64>,
        (asked, limit): (Option<u64>, Key),
        bytes_max: Option<u64>,
    ) -> Self {
        Self {
            offset: offset.unwrap_or(0),
            limit: asked.unwrap_or(policy.number(limit)),
            bytes_max: bytes_max.unwrap_or(policy.number(Key::MaxBytes)),
        }
    }
}

/// Bytes that one entry may have whatever the limit of the page: nearly all are whole then.
pub const ENTRY_BYTES: u64 = 4096;

/// Outcome of offering an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferResult {
    /// It belongs to an earlier page.
    Passed,
    /// It is on this page.
    Kept,
    /// It belongs to a later page.
    Left,
}

/// Used part of a page, wherever its entries are kept.
#[derive(Debug)]
pub struct PageBudget {
    /// Limits of the page.
    window: PageWindow,
    /// Entries on the page.
    kept: u64,
    /// Bytes on the page.
    bytes: u64,
    /// Entries offered so far, including skipped ones.
    seen: u64,
    /// True if an entry did not fit.
    truncated: bool,
}

impl PageBudget {
    /// Returns an empty budget.
    pub fn new(window: PageWindow) -> Self {
        Self { window, kept: 0, bytes: 0, seen: 0, truncated: false }
    }

    /// Offers the next entry; `bytes_of` counts its payload, if needed.
    pub fn offer(&mut self, bytes_of: impl FnOnce() -> u64) -> OfferResult {
        self.seen += 1;
        if self.truncated {
            return OfferResult::Left;
        }
        if self.seen <= self.window.offset {
            return OfferResult::Passed;
        }
        if self.window.limit > 0 && self.kept >= self.window.limit {
            self.truncated = true;
            return OfferResult::Left;
        }
        if self.window.bytes_max > 0 {
            let bytes = self.bytes.saturating_add(bytes_of());
            // One entry always fits, so that every page makes progress.
            if bytes > self.window.bytes_max && self.kept > 0 {
                self.truncated = true;
                return OfferResult::Left;
            }
            self.bytes = bytes;
        }
        self.kept += 1;
        OfferResult::Kept
    }

    /// Returns the size limit of the first entry in bytes, while the page is empty and has a limit.
    pub fn room_for_first(&self) -> Option<u64> {
        (self.kept == 0 && self.window.bytes_max > 0).then(|| self.window.bytes_max.max(ENTRY_BYTES))
    }

    /// Skips `count` entries at once, if they all belong to earlier or later pages.
    pub fn skip(&mut self, count: u64) {
        self.seen += count;
    }

    /// Returns true if every further entry belongs to a later page.
    pub fn is_full(&self) -> bool {
        self.truncated
    }

    /// Returns the number of entries offered so far.
    pub fn offered(&self) -> u64 {
        self.seen
    }

    /// Returns the offset of the next page, if there is one.
    pub fn next_offset(&self) -> Option<u64> {
        self.truncated.then(|| self.window.offset + self.kept)
    }
}

/// Entries of one page, in order.
#[derive(Debug)]
pub struct Page<T> {
    /// Used part of the page.
    pub budget: PageBudget,
    /// Entries.
    kept: Vec<T>,
}

impl<T: Serialize> Page<T> {
    /// Returns an empty page.
    pub fn new(window: PageWindow) -> Self {
        Self { budget: PageBudget::new(window), kept: Vec::new() }
    }

    /// Offers the next entry, which is made only if it may fit.
    pub fn offer(&mut self, make: impl Fn() -> T) -> OfferResult {
        let mut made = None;
        let offered = self.budget.offer(|| json_bytes(made.insert(make())));
        if offered == OfferResult::Kept {
            self.kept.push(made.unwrap_or_else(make));
        }
        offered
    }

    /// Returns the entries.
    pub fn into_entries(self) -> Vec<T> {
        self.kept
    }
}

/// Returns the size of `value` as JSON, without building the text.
pub fn json_bytes<T: Serialize>(value: &T) -> u64 {
    let mut counter = ByteCounter(0);
    // Counting cannot fail; a value without a JSON form has no bytes either.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Counts the bytes written to it.
struct ByteCounter(u64);

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the successive pages of `entries` under `limit` and `bytes_max`.
    fn pages(entries: &[&str], limit: u64, bytes_max: u64) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        let mut offset = Some(0);
        while let Some(start) = offset {
            let mut page = Page::new(PageWindow { offset: start, limit, bytes_max });
            for entry in entries {
                page.offer(|| (*entry).to_owned());
            }
            offset = page.budget.next_offset();
            pages.push(page.into_entries());
        }
        pages
    }

    #[test]
    fn joined_pages_equal_the_whole_list() {
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
