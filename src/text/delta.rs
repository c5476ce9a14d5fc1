//! Deltas in git's pack format: made from two contents, and applied.
//!
//! A delta states both sizes and then lists commands: copy a piece of the source, or insert some bytes.
//!
//! # Source
//! gitformat-pack(5), "Deltified representation".

use super::lines::{common_end, common_start};

/// Bytes that are looked up together: shorter pieces are inserted.
const BLOCK_BYTES: usize = 16;
/// Most bytes that one command copies: git writes no more into a pack.
const COPY_BYTES_MAX: usize = 0x10000;
/// Most bytes that one command inserts.
const INSERT_BYTES_MAX: usize = 0x7f;
/// Largest source or target in bytes: a position fits into the four bytes of a command.
const SIDE_BYTES_MAX: usize = u32::MAX as usize;

/// Returns the delta that makes `target` of `source`; `None` if it would have more than `bytes_max` bytes.
///
/// Takes time proportional to the two sizes, and a quarter of the source in memory. Contents that differ in one place
/// need no index.
pub fn encode(source: &[u8], target: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    if source.len().max(target.len()) > SIDE_BYTES_MAX {
        return None;
    }
    let begin = common_start(source, target);
    let end = common_end(source.get(begin..)?, target.get(begin..)?);
    let mut commands = DeltaWriter { bytes: Vec::new(), bytes_max };
    put_size(&mut commands.bytes, source.len());
    put_size(&mut commands.bytes, target.len());
    commands.copy(0, begin)?;
    commands.delta_between(source, target.get(begin..target.len() - end)?)?;
    commands.copy(source.len() - end, end)?;
    Some(commands.bytes)
}

/// Returns the size of the content that `delta` makes.
pub fn size_after(delta: &[u8]) -> Option<usize> {
    let mut rest = delta;
    size(&mut rest)?;
    size(&mut rest)
}

/// Positions of blocks in a source, by a hash of their bytes. Of two blocks with one hash, the later one is found.
struct BlockIndex<'s> {
    /// The source.
    source: &'s [u8],
    /// Position of a block, plus one; 0 for no block.
    table: Vec<u32>,
}

impl<'s> BlockIndex<'s> {
    /// Indexes each block of `source`.
    fn of(source: &'s [u8]) -> Self {
        let count = source.len() / BLOCK_BYTES;
        let mut blocks = Self { source, table: vec![0; (count * 2).next_power_of_two()] };
        for (number, block) in source.chunks_exact(BLOCK_BYTES).enumerate() {
            let slot = blocks.slot(block);
            if let (Some(slot), Ok(place)) = (blocks.table.get_mut(slot), u32::try_from(number + 1)) {
                *slot = place;
            }
        }
        blocks
    }

    /// Returns the slot of the table for these bytes.
    fn slot(&self, block: &[u8]) -> usize {
        let half = |bytes: Option<&[u8; 8]>| bytes.copied().map_or(0, u64::from_le_bytes);
        let (one, other) = (half(block.first_chunk()), half(block.last_chunk()));
        // Odd constants of many bits mix the halves; the upper bits depend on all of them.
        let mixed = (one ^ other.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        usize::try_from(mixed >> 32).unwrap_or_default() & (self.table.len() - 1)
    }

    /// Returns the position of these bytes in the source, if it is known.
    fn find(&self, block: &[u8]) -> Option<usize> {
        let place = usize::try_from(*self.table.get(self.slot(block))?).ok()?;
        let start = place.checked_sub(1)? * BLOCK_BYTES;
        (self.source.get(start..start + BLOCK_BYTES)? == block).then_some(start)
    }
}

/// Commands of a delta under construction.
struct DeltaWriter {
    /// Sizes and commands so far.
    bytes: Vec<u8>,
    /// Most bytes that it may have.
    bytes_max: usize,
}

impl DeltaWriter {
    /// Makes `target` of pieces of `source` and of new bytes.
    fn delta_between(&mut self, source: &[u8], target: &[u8]) -> Option<()> {
        if target.len() < BLOCK_BYTES || source.len() < BLOCK_BYTES {
            return self.insert(target);
        }
        let blocks = BlockIndex::of(source);
        let (mut at, mut written) = (0, 0);
        while let Some(block) = target.get(at..at + BLOCK_BYTES) {
            let Some(start) = blocks.find(block) else {
                at += 1;
                continue;
            };
            let earlier = common_end(target.get(written..at)?, source.get(..start)?);
            let later = common_start(target.get(at..)?, source.get(start..)?);
            self.insert(target.get(written..at - earlier)?)?;
            self.copy(start - earlier, earlier + later)?;
            at += later;
            written = at;
        }
        self.insert(target.get(written..)?)
    }

    /// Adds bytes that the source does not have.
    fn insert(&mut self, bytes: &[u8]) -> Option<()> {
        for piece in bytes.chunks(INSERT_BYTES_MAX) {
            self.bytes.push(u8::try_from(piece.len()).ok()?);
            self.bytes.extend_from_slice(piece);
        }
        self.check()
    }

    /// Adds a piece of the source. Bytes of a number that are zero are left out; the first byte says which follow.
    fn copy(&mut self, start: usize, length: usize) -> Option<()> {
        let end = start + length;
        for place in (start..end).step_by(COPY_BYTES_MAX) {
            // The largest size is written as zero.
            let size = u16::try_from(end - place).unwrap_or(0);
            let place = u32::try_from(place).ok()?;
            let command = self.bytes.len();
            self.bytes.push(0x80);
            for (bit, byte) in place.to_le_bytes().into_iter().chain(size.to_le_bytes()).enumerate() {
                if byte != 0 {
                    *self.bytes.get_mut(command)? |= 1 << bit;
                    self.bytes.push(byte);
                }
            }
        }
        self.check()
    }

    /// Returns `None` if there are too many bytes.
    fn check(&self) -> Option<()> {
        (self.bytes.len() <= self.bytes_max).then_some(())
    }
}

/// Adds a size, seven bits per byte, lowest first.
fn put_size(bytes: &mut Vec<u8>, mut size: usize) {
    loop {
        let low = u8::try_from(size & 0x7f).unwrap_or_default();
        size >>= 7;
        bytes.push(if size > 0 { low | 0x80 } else { low });
        if size == 0 {
            return;
        }
    }
}

/// Returns the content that `delta` makes of `source`; `None` if it is damaged, made for another source, or makes more
/// than `bytes_max` bytes.
pub fn apply(delta: &[u8], source: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let mut rest = delta;
    if size(&mut rest)? != source.len() {
        return None;
    }
    let length = size(&mut rest).filter(|length| *length <= bytes_max)?;
    let mut output = Vec::new();
    while let Some(command) = next_byte(&mut rest) {
        let piece = match command {
            0 => return None,
            1..0x80 => {
                let (literal, after) = rest.split_at_checked(usize::from(command))?;
                rest = after;
                literal
            }
            _ => copied_piece(&mut rest, command, source)?,
        };
        if output.len() + piece.len() > length {
            return None;
        }
        output.extend_from_slice(piece);
    }
    (output.len() == length).then_some(output)
}

/// Returns the piece of `source` that a copy command names.
fn copied_piece<'s>(rest: &mut &[u8], command: u8, source: &'s [u8]) -> Option<&'s [u8]> {
    let start = number(rest, command, 4)?;
    let size = match number(rest, command >> 4 & 7, 3)? {
        0 => 0x10000,
        size => size,
    };
    source.get(start..start.checked_add(size)?)
}

/// Removes one byte from the front and returns it.
fn next_byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(*first)
}

/// Reads a size at the start of a delta: seven bits per byte, lowest first.
fn size(rest: &mut &[u8]) -> Option<usize> {
    let mut size = 0;
    for shift in (0..=56).step_by(7) {
        let byte = next_byte(rest)?;
        size |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(size);
        }
    }
    None
}

/// Reads a number of up to `width` bytes, of which only those set in `present` are stored.
fn number(rest: &mut &[u8], present: u8, width: u32) -> Option<usize> {
    let mut number = 0;
    for index in 0..width {
        if present >> index & 1 == 1 {
            number |= usize::from(next_byte(rest)?) << (8 * index);
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers that look random, from a seed.
    fn random(seed: u64) -> impl FnMut(usize) -> usize {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below.max(1)
        }
    }

    /// Checks that the delta makes `target`, and returns its size.
    fn round_trip(source: &[u8], target: &[u8]) -> usize {
        let delta = encode(source, target, usize::MAX).unwrap();
        assert!(apply(&delta, source, target.len()).as_deref() == Some(target), "{source:?} {target:?}");
        assert_eq!(size_after(&delta), Some(target.len()));
        assert_eq!(encode(source, target, delta.len()), Some(delta.clone()));
        assert_eq!(encode(source, target, delta.len() - 1), None);
        delta.len()
    }

    #[test]
    fn delta_copies_and_inserts_bytes() {
        // From 5 bytes to 6: copy 3 from 1, insert "xyz".
        let delta = [5, 6, 0x91, 1, 3, 3, b'x', b'y', b'z'];
        assert_eq!(apply(&delta, b"abcde", 9).unwrap(), b"bcdxyz");
        assert_eq!(apply(&delta, b"abcd", 9), None, "another source");
        assert_eq!(apply(&[5, 6, 0x91, 4, 3], b"abcde", 9), None, "beyond the source");
        assert_eq!(apply(&[5, 0xff], b"abcde", 9), None, "cut short");
    }

    #[test]
    fn delta_of_random_edits_makes_the_target() {
        for seed in 0..400 {
            let mut random = random(seed);
            let letters = [2, 4, 250][random(3)];
            let length = [0, 1, 15, 16, 17, 300, 70_000][random(7)];
            let source: Vec<u8> = (0..length).map(|_| u8::try_from(random(letters)).unwrap()).collect();
            let mut target = source.clone();
            for _ in 0..random(6) {
                let (start, end) = (random(target.len() + 1), random(target.len() + 1));
                let piece = target[start.min(end)..start.max(end)].to_vec();
                match random(3) {
                    0 => drop(target.drain(start.min(end)..start.max(end))),
                    1 => drop(target.splice(start..start, piece)),
                    _ => drop(target.splice(start..start, (0..random(200)).map(|at| at.to_le_bytes()[0]))),
                }
            }
            round_trip(&source, &target);
            round_trip(&target, &source);
        }
    }

    #[test]
    fn delta_of_a_small_change_is_small() {
        let lines =
            |from: usize| (from..from + 1_000).map(|line| format!("line {line}\n")).collect::<String>();
        let old = lines(0);
        assert!(round_trip(old.as_bytes(), old.as_bytes()) < 12);
        assert!(round_trip(old.as_bytes(), old.replacen("line 500", "changed", 1).as_bytes()) < 32);
        // Two places, and a piece that moved.
        let two = old.replacen("line 20\n", "one\n", 1).replacen("line 900\n", "two\n", 1);
        assert!(round_trip(old.as_bytes(), two.as_bytes()) < 48);
        let (begin, end) = old.split_at(4_000);
        assert!(round_trip(old.as_bytes(), format!("{end}{begin}").as_bytes()) < 48);
        // Nothing in common costs no more than the bytes.
        assert!(round_trip(old.as_bytes(), &[7; 1_000]) < 1_020);
    }
}
