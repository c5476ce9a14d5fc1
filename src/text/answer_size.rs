//! Size of texts in an answer, including what JSON adds to escape them.
//!
//! An answer is bounded by the bytes of its texts. But shells of harnesses cut their output at 30,000 characters, and
//! JSON may write a byte as six. So the bytes that JSON adds are bounded as well.

/// Divisor of the bound for the bytes that JSON may add before a text counts as longer than requested.
const ESCAPES_PART: usize = 6;
/// Bytes that JSON may add to any text. With these, 24,576 bytes and the rest of the answer stay below the 30,000
/// characters at which shells of harnesses cut.
const ESCAPES_BYTES: usize = 4000;
/// Bound from which on a byte that JSON adds counts twice: so long is only a result of MCP, which holds its text twice,
/// once escaped twice.
const ESCAPED_TWICE_FROM: usize = 1_000_000;
/// Bytes of U+FFFD, which replaces invalid UTF-8.
const REPLACEMENT_BYTES: usize = 3;

/// Size of texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextSize {
    /// Their own bytes.
    bytes: usize,
    /// Bytes that JSON adds to them.
    growth: usize,
}

impl TextSize {
    /// Returns the size of a text, which need not be UTF-8.
    pub fn of(text: &[u8]) -> Self {
        Self { bytes: text.len(), growth: growth_of(text) }
    }

    /// Returns the size of `bytes` bytes, none of which JSON escapes.
    pub const fn plain(bytes: usize) -> Self {
        Self { bytes, growth: 0 }
    }

    /// Returns the size with one more text.
    #[must_use]
    pub fn with(self, text: &str) -> Self {
        self.and(Self::of(text.as_bytes()))
    }

    /// Returns the bytes that they take in an answer.
    pub const fn in_answer(self) -> usize {
        self.bytes.saturating_add(self.growth)
    }

    /// Returns the bytes that exceed the room.
    pub const fn excess_bytes(self, room: AnswerRoom) -> usize {
        self.bytes.saturating_sub(room.bytes)
    }

    /// Returns the size of two texts.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let bytes = self.bytes.saturating_add(other.bytes);
        Self { bytes, growth: self.growth.saturating_add(other.growth) }
    }
}

/// Room for texts: for their own bytes, and for their bytes in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerRoom {
    /// Their own bytes.
    bytes: usize,
    /// Bytes in the answer.
    in_answer: usize,
    /// Weight of a byte that JSON adds.
    weight: usize,
}

impl AnswerRoom {
    /// Returns room for texts of at most `bound` bytes; 0 means no bound.
    pub const fn new(bound: usize) -> Self {
        if bound == 0 {
            return Self { bytes: usize::MAX, in_answer: usize::MAX, weight: 1 };
        }
        let part = bound / ESCAPES_PART;
        let escapes = if part > ESCAPES_BYTES { part } else { ESCAPES_BYTES };
        let weight = if bound < ESCAPED_TWICE_FROM { 1 } else { 2 };
        Self { bytes: bound, in_answer: bound.saturating_add(escapes), weight }
    }

    /// Returns the bytes of a text in the answer.
    const fn cost(self, size: TextSize) -> usize {
        size.bytes.saturating_add(size.growth.saturating_mul(self.weight))
    }

    /// Returns true if texts of that size fit.
    pub const fn holds(self, size: TextSize) -> bool {
        size.bytes <= self.bytes && self.cost(size) <= self.in_answer
    }

    /// Returns the bytes that texts may have; `usize::MAX` means no bound.
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// Returns true if there is a bound.
    pub const fn is_bounded(self) -> bool {
        self.bytes < usize::MAX
    }

    /// Returns a part of the room, for texts of `bytes` bytes.
    #[must_use]
    pub fn part(self, bytes: usize) -> Self {
        if !self.is_bounded() {
            return self;
        }
        let in_answer = bytes as u128 * self.in_answer as u128 / (self.bytes as u128).max(1);
        Self { bytes, in_answer: usize::try_from(in_answer).unwrap_or(usize::MAX), ..self }
    }

    /// Returns the room, limited to texts of `bytes` bytes.
    #[must_use]
    pub fn at_most(self, bytes: usize) -> Self {
        Self { bytes: self.bytes.min(bytes), ..self }
    }

    /// Returns the room, with space for at least one byte: a text that is cut there still says how to continue.
    #[must_use]
    pub fn or_a_byte(self) -> Self {
        Self { bytes: self.bytes.max(1), in_answer: self.in_answer.max(1), ..self }
    }

    /// Returns true if a text of `bytes` bytes fits, to which the answer adds `growth`.
    pub const fn has_room_for_text(self, bytes: usize, growth: usize) -> bool {
        self.holds(TextSize { bytes, growth })
    }

    /// Returns true if nothing fits.
    pub const fn is_empty(self) -> bool {
        self.bytes == 0 || self.in_answer == 0
    }

    /// Returns half of the room.
    #[must_use]
    pub const fn half(self) -> Self {
        Self { bytes: self.bytes / 2, in_answer: self.in_answer / 2, ..self }
    }

    /// Returns the room that is left after texts of that size.
    #[must_use]
    pub const fn room_after(self, size: TextSize) -> Self {
        if !self.is_bounded() {
            return self;
        }
        Self {
            bytes: self.bytes.saturating_sub(size.bytes),
            in_answer: self.in_answer.saturating_sub(self.cost(size)),
            ..self
        }
    }

    /// Returns how many bytes at the start of a text fit: whole characters, at least one.
    pub fn prefix_of(self, text: &[u8]) -> usize {
        let (mut length, mut cost) = (0, 0);
        let mut is_taken = |bytes: usize, growth: usize| {
            let costs = self.cost(TextSize { bytes, growth });
            let is_within = length + bytes <= self.bytes && cost + costs <= self.in_answer;
            if is_within || length == 0 {
                length += bytes;
                cost += costs;
            }
            is_within
        };
        'chunks: for chunk in text.utf8_chunks() {
            for character in chunk.valid().chars() {
                let mut buffer = [0; 4];
                let bytes = character.encode_utf8(&mut buffer).as_bytes();
                if !is_taken(bytes.len(), escapes_of(bytes)) {
                    break 'chunks;
                }
            }
            let invalid = chunk.invalid().len();
            if invalid > 0 && !is_taken(invalid, REPLACEMENT_BYTES.saturating_sub(invalid)) {
                break;
            }
        }
        length
    }

    /// Returns how many bytes at the start of a text fit; its last character may be cut.
    pub fn start_of(self, text: &[u8]) -> usize {
        self.length_of(text, text.iter())
    }

    /// Returns how many bytes at the end of a text fit; its first character may be cut.
    pub fn end_of(self, text: &[u8]) -> usize {
        self.length_of(text, text.iter().rev())
    }

    /// Returns how many of these bytes of a text fit.
    fn length_of<'a>(self, text: &[u8], bytes: impl Iterator<Item = &'a u8>) -> usize {
        /// Invalid pieces that cutting a text can leave at its ends.
        const PARTS_MAX: usize = 4;
        let invalid = text.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty());
        let is_utf8 = invalid.take(PARTS_MAX + 1).count() <= PARTS_MAX;
        let cost = |byte: u8| match byte {
            0x80.. if !is_utf8 => 1 + (REPLACEMENT_BYTES - 1) * self.weight,
            byte => 1 + usize::from(escape_of(byte)) * self.weight,
        };
        let mut in_answer = 0_usize;
        let has_room = |byte: &&u8| {
            in_answer = in_answer.saturating_add(cost(**byte));
            in_answer <= self.in_answer
        };
        bytes.take(self.bytes).take_while(has_room).count()
    }
}

/// Returns the length of the longest start of a text that has at most `length_max` bytes, and at most `cost_max` in an
/// answer: whole characters, at least one.
pub fn prefix_within(text: &[u8], length_max: usize, cost_max: usize) -> usize {
    AnswerRoom { bytes: length_max, in_answer: cost_max, weight: 1 }.prefix_of(text)
}

/// Returns the bytes that an answer adds to a text: JSON escapes, and replacements for invalid UTF-8.
pub fn growth_of(text: &[u8]) -> usize {
    let escapes = escapes_of(text);
    if std::str::from_utf8(text).is_ok() {
        return escapes;
    }
    let replaced = |invalid: &[u8]| match invalid.len() {
        0 => 0,
        bytes => REPLACEMENT_BYTES.saturating_sub(bytes),
    };
    escapes + text.utf8_chunks().map(|chunk| replaced(chunk.invalid())).sum::<usize>()
}

/// Returns the bytes that JSON adds to a text.
fn escapes_of(text: &[u8]) -> usize {
    text.iter().map(|&byte| usize::from(escape_of(byte))).sum()
}

/// Returns the bytes that JSON adds to a byte of a text.
fn escape_of(byte: u8) -> u8 {
    ESCAPES.get(usize::from(byte)).copied().unwrap_or_default()
}

/// Bytes that JSON adds to each byte: one for `\n` or `\"`, five for `\u0001`.
#[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut byte = 0;
    while byte < escapes.len() {
        escapes[byte] = match byte {
            0x08..=0x0a | 0x0c | 0x0d | 0x22 | 0x5c => 1,
            0..0x20 => 5,
            _ => 0,
        };
        byte += 1;
    }
    escapes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_of_json_escapes_equals_serde_json() {
        for byte in 0..=127_u8 {
            let written = serde_json::to_string(&char::from(byte)).unwrap();
            assert_eq!(usize::from(escape_of(byte)), written.len() - 3, "{byte}");
        }
        assert_eq!(growth_of(&[1; 1000]), 5000);
        assert_eq!(growth_of(b"\xff\""), 3);
        assert_eq!(growth_of("a\n\"é\u{1}".as_bytes()), 7);
        // Each invalid byte is shown as a character of three.
        assert_eq!(growth_of(b"\xe9\xe8 \xff"), 6);
        assert_eq!(growth_of(b"\xe2\x82"), 1);
    }

    #[test]
    fn cut_text_fits_into_the_response_limit() {
        for text in
            ["\u{1}\"x\n".repeat(5000).into_bytes(), b"\xff".repeat(20_000), "é".repeat(20_000).into()]
        {
            for bound in [1, 10, 1000, 24_576, 60_000] {
                let room = AnswerRoom::new(bound);
                let (start, end) = (room.start_of(&text), room.end_of(&text));
                assert!(room.holds(TextSize::of(&text[..start])), "{bound}");
                assert!(room.holds(TextSize::of(&text[text.len() - end..])), "{bound}");
                let half = room.half();
                let first = TextSize::of(&text[..half.start_of(&text)]);
                assert!(half.holds(first) && room.holds(first.and(first)), "{bound}");
                assert!(room.room_after(first).holds(first), "{bound}");
            }
            assert_eq!(AnswerRoom::new(0).start_of(&text), text.len());
        }
        let written =
            serde_json::to_string(&"\u{1}".repeat(AnswerRoom::new(24_576).start_of(&vec![1; 30_000])));
        assert!(written.unwrap().len() < 29_600);
    }
}
