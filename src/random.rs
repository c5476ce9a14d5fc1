//! Numbers that look random and are the same for the same seed, for tests: those of the library here, and
//! all others by `tests/common`.

/// A generator of such numbers (xorshift).
pub struct Random(u64);

impl Random {
    /// Begins at `seed`; small seeds differ as much as large ones.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % end.max(1) as u64).unwrap_or_default()
    }

    /// One of several.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}
