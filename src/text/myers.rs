//! What two sequences have in common, as Myers' algorithm finds it.
//!
//! The library compares any type by copies of its code made for that type, more than a hundred
//! functions each. All comparisons of lbx go through the one copy for numbers that is made here.
//!
//! Source of the algorithm: E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", 1986.

use std::collections::HashMap;
use std::time::Instant;

use similar::DiffOp;
use similar::algorithms::{Capture, Compact, Replace, myers};

/// The number of a line that the old text does not have.
pub const ABSENT: u32 = u32::MAX;

/// The differences between two lists of numbers, in order and without gaps. What is not compared at
/// `until` counts as replaced.
#[must_use]
pub fn of_numbers(old: &[u32], new: &[u32], until: Option<Instant>) -> Vec<DiffOp> {
    let mut found = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff_deadline(&mut found, old, 0..old.len(), new, 0..new.len(), until);
    found.into_inner().into_inner().into_ops()
}

/// The differences between two lists of lines, as [`of_numbers`] has them.
#[must_use]
pub fn of_lines(old: &[&[u8]], new: &[&[u8]], until: Option<Instant>) -> Vec<DiffOp> {
    let (old, new) = numbered(old, new);
    of_numbers(&old, &new, until)
}

/// The lines as numbers, equal ones with the same.
#[must_use]
pub fn numbered(old: &[&[u8]], new: &[&[u8]]) -> (Vec<u32>, Vec<u32>) {
    let mut numbers: HashMap<&[u8], u32> = HashMap::with_capacity(old.len());
    let old_ids = old
        .iter()
        .map(|line| {
            let next = u32::try_from(numbers.len()).unwrap_or(ABSENT);
            *numbers.entry(line).or_insert(next)
        })
        .collect();
    let new_ids = new.iter().map(|line| numbers.get(line).copied().unwrap_or(ABSENT)).collect();
    (old_ids, new_ids)
}
