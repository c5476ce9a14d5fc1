//! Pieces of a file turned into text, as they come.

use std::borrow::Cow;

use crate::text::checked::peek;
use crate::text::content::{Encoding, Start, Unsupported, utf16_to_utf8};

/// Turns pieces into text.
pub enum Decoder {
    /// UTF-8 or raw bytes; whether there was a byte-order mark.
    Plain(Utf8Check, bool),
    /// UTF-16, whether big endian, and the start of a character that is not whole yet.
    Utf16(bool, Vec<u8>),
}

impl Default for Decoder {
    fn default() -> Self {
        Self::Plain(Utf8Check::default(), false)
    }
}

impl Decoder {
    /// That of a text which begins so.
    ///
    /// # Errors
    /// Where it is UTF-32.
    pub fn of(start: Start) -> Result<Self, Unsupported> {
        Ok(match start {
            Start::Utf32 => return Err(Unsupported("is UTF-32")),
            Start::Utf16(big_endian) => Self::Utf16(big_endian, Vec::new()),
            Start::Utf8Bom => Self::Plain(Utf8Check::default(), true),
            Start::Plain => Self::default(),
        })
    }

    /// The text of the next piece, as far as its characters are whole.
    ///
    /// # Errors
    /// Where it does not keep the encoding that it claims.
    pub fn text_of<'p>(&mut self, piece: &'p [u8]) -> Result<Cow<'p, [u8]>, Unsupported> {
        match self {
            Self::Utf16(big_endian, pending) => {
                pending.extend_from_slice(piece);
                let whole = whole_units(pending, *big_endian);
                let text = utf16_to_utf8(peek(pending, ..whole), *big_endian)?;
                pending.drain(..whole);
                Ok(Cow::Owned(text))
            }
            Self::Plain(check, _) => {
                check.push(piece);
                Ok(Cow::Borrowed(piece))
            }
        }
    }

    /// The encoding, and whether there was a byte-order mark.
    ///
    /// # Errors
    /// Where the text ends within a character.
    pub fn finish(self) -> Result<(Encoding, bool), Unsupported> {
        match self {
            Self::Plain(check, bom) => {
                let encoding = if check.is_valid() { Encoding::Utf8 } else { Encoding::Bytes };
                Ok((encoding, bom && encoding == Encoding::Utf8))
            }
            Self::Utf16(big_endian, pending) => {
                utf16_to_utf8(&pending, big_endian)?;
                Ok((if big_endian { Encoding::Utf16Be } else { Encoding::Utf16Le }, true))
            }
        }
    }
}

/// Tells whether a text that comes in pieces is UTF-8.
#[derive(Default)]
pub struct Utf8Check {
    /// The start of a character whose rest is in the next piece.
    pending: Vec<u8>,
    /// Whether something was no UTF-8.
    is_broken: bool,
}

impl Utf8Check {
    /// Takes the next piece.
    pub fn push(&mut self, mut piece: &[u8]) {
        while !self.pending.is_empty() && !self.is_broken {
            let Some((&first, rest)) = piece.split_first() else {
                return;
            };
            self.pending.push(first);
            piece = rest;
            match std::str::from_utf8(&self.pending) {
                Ok(_) => self.pending.clear(),
                Err(error) => self.is_broken = error.error_len().is_some(),
            }
        }
        if self.is_broken {
            return;
        }
        if let Err(error) = std::str::from_utf8(piece) {
            self.is_broken = error.error_len().is_some();
            self.pending = peek(piece, error.valid_up_to()..).to_vec();
        }
    }

    /// Whether all of it was UTF-8.
    fn is_valid(&self) -> bool {
        !self.is_broken && self.pending.is_empty()
    }
}

/// How many bytes at the start are whole characters of UTF-16, so far as can be told.
fn whole_units(bytes: &[u8], big_endian: bool) -> usize {
    let even = bytes.len() & !1;
    let high_byte = if big_endian { even.checked_sub(2) } else { even.checked_sub(1) };
    let ends_in_lead = high_byte.and_then(|at| bytes.get(at)).is_some_and(|high| (0xd8..0xdc).contains(high));
    if ends_in_lead { even - 2 } else { even }
}
