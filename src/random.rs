//! Reproducible pseudo-random numbers for tests: for those of the library here, and for all others through
//! `tests/common`.

/// A xorshift generator.
pub struct Random(u64);

impl Random {
    /// Starts at `seed`; small seeds differ as much as large ones.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % end.max(1) as u64).unwrap_or_default()
    }

    /// Returns one of several values.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}
