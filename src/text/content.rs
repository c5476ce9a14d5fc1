//! Conversion of bytes to text and back, without losing a byte.

use std::borrow::Cow;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::buffer::Buffer;
use crate::text::charset::{Charset, Unencodable};
use crate::text::checked::slice_or_empty;
use crate::text::lines::LineEnding;

/// The UTF-8 byte-order mark (RFC 3629, section 6).
pub const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";
/// The UTF-16 byte-order mark, little endian (RFC 2781, section 3.2).
pub const UTF16LE_BOM: &[u8] = b"\xff\xfe";
/// The UTF-16 byte-order mark, big endian.
pub const UTF16BE_BOM: &[u8] = b"\xfe\xff";
/// The UTF-32 byte-order mark, little endian; it begins like that of UTF-16.
const UTF32LE_BOM: &[u8] = b"\xff\xfe\0\0";
/// Bytes that are searched for a NUL, as in git (`buffer_is_binary`).
pub const BINARY_CHECK_BYTES: usize = 8000;

/// How the bytes of a file encode text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, with or without a byte-order mark.
    Utf8,
    /// UTF-16, little endian, with its byte-order mark.
    Utf16Le,
    /// UTF-16, big endian, with its byte-order mark.
    Utf16Be,
    /// None of these: single bytes, shown lossily and kept exactly.
    Bytes,
    /// Encoding that the caller named.
    Named(Charset),
}

impl Encoding {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16Le => "utf-16le",
            Self::Utf16Be => "utf-16be",
            Self::Bytes => "bytes",
            Self::Named(charset) => charset.name(),
        }
    }

    /// Returns the encoding that the caller named.
    pub const fn charset(self) -> Option<Charset> {
        match self {
            Self::Named(charset) => Some(charset),
            Self::Utf8 | Self::Utf16Le | Self::Utf16Be | Self::Bytes => None,
        }
    }
}

impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for Encoding {
    fn schema_name() -> Cow<'static, str> {
        "Encoding".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Encoding that the first bytes of a file indicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodingGuess {
    /// UTF-8 with a byte-order mark of 3 bytes.
    Utf8Bom,
    /// UTF-16 with a byte-order mark of 2 bytes; `true` for big endian.
    Utf16(bool),
    /// UTF-32, which is not supported.
    Utf32,
    /// No byte-order mark.
    Plain,
}

impl EncodingGuess {
    /// Reads the first bytes; 4 are enough.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(UTF8_BOM) {
            Self::Utf8Bom
        } else if bytes.starts_with(UTF32LE_BOM) {
            Self::Utf32
        } else if bytes.starts_with(UTF16LE_BOM) {
            Self::Utf16(false)
        } else if bytes.starts_with(UTF16BE_BOM) {
            Self::Utf16(true)
        } else {
            Self::Plain
        }
    }

    /// Returns the length of the byte-order mark in bytes.
    pub const fn bom_bytes(self) -> usize {
        match self {
            Self::Utf8Bom => 3,
            Self::Utf16(_) => 2,
            Self::Utf32 | Self::Plain => 0,
        }
    }
}

/// Reason why a file cannot be read as text that could be written back unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsupportedText {
    /// It is UTF-32.
    Utf32,
    /// It begins as UTF-16 does and has an odd number of bytes.
    HalfUnit,
    /// It is UTF-16 with half a pair of surrogates.
    LoneSurrogate,
    /// It is not in the encoding that the caller named, but in this one.
    Other(Encoding, Charset),
    /// A line of it is not in the encoding that the caller named.
    Line(u64, Charset),
}

/// A whole file as text. The body is UTF-8, or the raw bytes if the encoding is unknown; it is borrowed unless it had to
/// be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content<'a> {
    /// Encoding of the file.
    pub encoding: Encoding,
    /// True if the file begins with a byte-order mark, which is not in the body.
    pub bom: bool,
    /// Text without the byte-order mark.
    pub body: Cow<'a, [u8]>,
}

impl<'a> Content<'a> {
    /// Decodes a whole file, which is in the encoding that the caller named, if any.
    ///
    /// # Errors
    /// Fails if the bytes claim an encoding that cannot be restored: UTF-32, or UTF-16 with half a unit or a lone
    /// surrogate; or if they are not in `charset`.
    pub fn of(bytes: &'a [u8], charset: Option<Charset>) -> Result<Self, UnsupportedText> {
        let content = Self::detect(bytes)?;
        let Some(charset) = charset else { return Ok(content) };
        let encoding = Encoding::Named(charset);
        match content.encoding {
            Encoding::Utf8 if charset.is_utf8() => Ok(content),
            Encoding::Utf8 if content.body.is_ascii() && !content.bom => Ok(Self { encoding, ..content }),
            Encoding::Bytes => {
                let body = charset.decode(bytes).map_err(|line| UnsupportedText::Line(line, charset))?;
                Ok(Self { encoding, bom: false, body: Cow::Owned(body.into_bytes()) })
            }
            other => Err(UnsupportedText::Other(other, charset)),
        }
    }

    /// Decodes a whole file by its bytes alone.
    fn detect(bytes: &'a [u8]) -> Result<Self, UnsupportedText> {
        let start = EncodingGuess::of(bytes);
        match start {
            EncodingGuess::Utf32 => Err(UnsupportedText::Utf32),
            EncodingGuess::Utf16(big_endian) => {
                // The mark is there: `Start` found it.
                let (_, units) = bytes.split_at(start.bom_bytes());
                let body = Cow::Owned(utf16_to_utf8(units, big_endian)?);
                let encoding = if big_endian { Encoding::Utf16Be } else { Encoding::Utf16Le };
                Ok(Self { encoding, bom: true, body })
            }
            EncodingGuess::Utf8Bom | EncodingGuess::Plain => {
                let is_utf8 = is_utf8(bytes);
                let bom = start == EncodingGuess::Utf8Bom && is_utf8;
                let body = if bom { bytes.split_at(start.bom_bytes()).1 } else { bytes };
                let encoding = if is_utf8 { Encoding::Utf8 } else { Encoding::Bytes };
                Ok(Self { encoding, bom, body: Cow::Borrowed(body) })
            }
        }
    }

    /// Returns the same text without a borrow.
    pub fn into_owned(self) -> Content<'static> {
        let Self { encoding, bom, body } = self;
        Content { encoding, bom, body: Cow::Owned(body.into_owned()) }
    }

    /// Returns the bytes of the file; they equal the input of [`Self::of`] if the body is unchanged.
    ///
    /// # Errors
    /// Fails for a character that the encoding which the caller named does not have.
    pub fn encode(self) -> Result<Vec<u8>, Unencodable> {
        Ok(match self.encoding {
            Encoding::Utf8 if self.bom => [UTF8_BOM, &self.body].concat(),
            Encoding::Utf8 | Encoding::Bytes => self.body.into_owned(),
            Encoding::Utf16Le => utf8_to_utf16(&self.body, false),
            Encoding::Utf16Be => utf8_to_utf16(&self.body, true),
            Encoding::Named(charset) => charset.encode(&String::from_utf8_lossy(&self.body))?,
        })
    }

    /// Returns the bytes of the file with the text `body`.
    ///
    /// # Errors
    /// Fails as [`Self::encode`] does.
    pub fn encode_body(&self, body: Buffer) -> Result<Buffer, Unencodable> {
        match self.encoding {
            Encoding::Utf8 | Encoding::Bytes if !self.bom => Ok(body),
            encoding => {
                Ok(Content { encoding, bom: self.bom, body: body.into_vec().into() }.encode()?.into())
            }
        }
    }

    /// Returns the size that the file would have with the text `body`, in bytes.
    pub fn bytes_of(&self, body: &[u8]) -> usize {
        encoded_bytes(self.encoding, self.bom, body)
    }

    /// Returns the size that the file would have with `body` added to its text, in bytes.
    pub fn bytes_with(&self, body: &[u8]) -> usize {
        self.bytes_of(&self.body).saturating_add(encoded_bytes(self.encoding, false, body))
    }

    /// Returns the style of the line endings in the body.
    pub fn line_ending(&self) -> LineEnding {
        LineEnding::of(&self.body)
    }

    /// Returns a range of the body as it is on disk.
    pub fn on_disk(&self, range: &Range<usize>) -> Cow<'_, [u8]> {
        on_disk(slice_or_empty(&self.body, range.clone()), (self.encoding, self.bom), range.start == 0)
    }
}

/// Returns a part of the text of a file as it is on disk: in the encoding of the file and, if it begins the file, with
/// its byte-order mark, if the file has one.
pub fn on_disk(part: &[u8], (encoding, bom): (Encoding, bool), is_start: bool) -> Cow<'_, [u8]> {
    let mark_bytes = match encoding {
        Encoding::Utf8 if bom && is_start => return Cow::Owned([UTF8_BOM, part].concat()),
        Encoding::Utf8 | Encoding::Bytes => return Cow::Borrowed(part),
        Encoding::Utf16Le => UTF16LE_BOM.len(),
        Encoding::Utf16Be => UTF16BE_BOM.len(),
        Encoding::Named(_) => 0,
    };
    // A part of the body has bytes: they were decoded.
    let mut bytes = Content { encoding, bom, body: part.into() }.encode().unwrap_or_default();
    if !is_start {
        bytes.drain(..mark_bytes);
    }
    Cow::Owned(bytes)
}

/// Returns the size of a text on disk in bytes; it always includes the byte-order mark of UTF-16.
fn encoded_bytes(encoding: Encoding, bom: bool, body: &[u8]) -> usize {
    match encoding {
        Encoding::Utf8 if bom => UTF8_BOM.len().saturating_add(body.len()),
        Encoding::Utf8 | Encoding::Bytes => body.len(),
        Encoding::Named(charset) => {
            charset.encode(&String::from_utf8_lossy(body)).map_or(body.len(), |bytes| bytes.len())
        }
        Encoding::Utf16Le | Encoding::Utf16Be => {
            let units = body.utf8_chunks().map(|chunk| {
                chunk.valid().chars().map(char::len_utf16).sum::<usize>()
                    + usize::from(!chunk.invalid().is_empty())
            });
            units.sum::<usize>().saturating_mul(2).saturating_add(UTF16LE_BOM.len())
        }
    }
}

/// Returns true if `bytes` are UTF-8. Most files are ASCII, which is faster to check.
fn is_utf8(bytes: &[u8]) -> bool {
    bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()
}

/// Returns true if the first bytes of a file look binary: a NUL within the first 8,000, and no byte-order mark of
/// UTF-16.
pub fn looks_binary(start: &[u8]) -> bool {
    if matches!(EncodingGuess::of(start), EncodingGuess::Utf16(_) | EncodingGuess::Utf32) {
        return false;
    }
    let checked = start.get(..BINARY_CHECK_BYTES).unwrap_or(start);
    memchr::memchr(0, checked).is_some() || is_known_binary(checked)
}

/// Returns true if the first bytes are those of a well-known binary format, which may have no NUL.
fn is_known_binary(start: &[u8]) -> bool {
    infer::get(start).is_some_and(|kind| {
        !matches!(kind.matcher_type(), infer::MatcherType::Text | infer::MatcherType::Custom)
            && !kind.mime_type().starts_with("text/")
    })
}

/// Returns the MIME type that the first bytes of a file indicate.
pub fn mime_of(start: &[u8]) -> &'static str {
    infer::get(start).map_or("application/octet-stream", |kind| kind.mime_type())
}

/// Decodes UTF-16 without its byte-order mark.
///
/// # Errors
/// Fails on half a unit at the end, or a lone surrogate.
pub fn utf16_to_utf8(bytes: &[u8], big_endian: bool) -> Result<Vec<u8>, UnsupportedText> {
    let (units, []) = bytes.as_chunks::<2>() else { return Err(UnsupportedText::HalfUnit) };
    let number = if big_endian { u16::from_be_bytes } else { u16::from_le_bytes };
    let text: Result<String, _> = char::decode_utf16(units.iter().copied().map(number)).collect();
    text.map(String::into_bytes).map_err(|_| UnsupportedText::LoneSurrogate)
}

/// Encodes UTF-8 as UTF-16 with its byte-order mark.
fn utf8_to_utf16(text: &[u8], big_endian: bool) -> Vec<u8> {
    // The body of a UTF-16 file is always UTF-8: it was decoded here and edited as text.
    let text = String::from_utf8_lossy(text);
    let encode = |unit: u16| if big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() };
    let mut bytes = Vec::with_capacity(text.len() * 2 + 2);
    bytes.extend(encode(0xfeff));
    bytes.extend(text.encode_utf16().flat_map(encode));
    bytes
}

/// Decodes a text that arrives in pieces.
pub enum Decoder {
    /// UTF-8 or raw bytes; true if there was a byte-order mark.
    Plain(Utf8Check, bool),
    /// UTF-16; true for big endian, and the start of an incomplete character.
    Utf16(bool, Vec<u8>),
    /// Encoding that the caller named, bytes that are not decoded yet, and the number of line feeds before them.
    Named(Charset, Vec<u8>, u64),
}

impl Default for Decoder {
    fn default() -> Self {
        Self::Plain(Utf8Check::default(), false)
    }
}

impl Decoder {
    /// Returns the decoder for a text that begins with `start`, and is in the encoding that the caller named, if any.
    ///
    /// # Errors
    /// Fails for UTF-32.
    pub fn of(start: EncodingGuess, charset: Option<Charset>) -> Result<Self, UnsupportedText> {
        if let (EncodingGuess::Plain, Some(charset)) = (start, charset) {
            return Ok(Self::Named(charset, Vec::new(), 0));
        }
        Ok(match start {
            EncodingGuess::Utf32 => return Err(UnsupportedText::Utf32),
            EncodingGuess::Utf16(big_endian) => Self::Utf16(big_endian, Vec::new()),
            EncodingGuess::Utf8Bom => Self::Plain(Utf8Check::default(), true),
            EncodingGuess::Plain => Self::default(),
        })
    }

    /// Returns the text of the next piece, up to its last whole character.
    ///
    /// # Errors
    /// Fails if the piece breaks the encoding that the text claims.
    pub fn text_of<'p>(&mut self, piece: &'p [u8]) -> Result<Cow<'p, [u8]>, UnsupportedText> {
        match self {
            Self::Utf16(big_endian, pending) => {
                pending.extend_from_slice(piece);
                let whole = whole_units(pending, *big_endian);
                let text = utf16_to_utf8(slice_or_empty(pending, ..whole), *big_endian)?;
                pending.drain(..whole);
                Ok(Cow::Owned(text))
            }
            Self::Plain(check, _) => {
                check.push(piece);
                Ok(Cow::Borrowed(piece))
            }
            Self::Named(charset, pending, line_feeds) => {
                pending.extend_from_slice(piece);
                // Below the digits no byte is the second one of a character, in any encoding.
                let whole = pending.iter().rposition(|&byte| byte < b'0').map_or(0, |at| at + 1);
                let text = named_text(*charset, slice_or_empty(pending, ..whole), *line_feeds)?;
                *line_feeds += memchr::memchr_iter(b'\n', &text).count() as u64;
                pending.drain(..whole);
                Ok(Cow::Owned(text))
            }
        }
    }

    /// Returns the text that no earlier piece could complete.
    ///
    /// # Errors
    /// Fails as [`Self::text_of`] does.
    pub fn finish_text(&mut self) -> Result<Vec<u8>, UnsupportedText> {
        let Self::Named(charset, pending, line_feeds) = self else { return Ok(Vec::new()) };
        named_text(*charset, &std::mem::take(pending), *line_feeds)
    }

    /// Returns the encoding, and whether there was a byte-order mark.
    ///
    /// # Errors
    /// Fails if the text ends within a character.
    pub fn finish(self) -> Result<(Encoding, bool), UnsupportedText> {
        match self {
            Self::Plain(check, bom) => {
                let encoding = if check.is_valid() { Encoding::Utf8 } else { Encoding::Bytes };
                Ok((encoding, bom && encoding == Encoding::Utf8))
            }
            Self::Utf16(big_endian, pending) => {
                utf16_to_utf8(&pending, big_endian)?;
                Ok((if big_endian { Encoding::Utf16Be } else { Encoding::Utf16Le }, true))
            }
            Self::Named(charset, ..) if charset.is_utf8() => Ok((Encoding::Utf8, false)),
            Self::Named(charset, ..) => Ok((Encoding::Named(charset), false)),
        }
    }
}

/// Decodes a part of a text, after some line feeds.
fn named_text(charset: Charset, bytes: &[u8], line_feeds: u64) -> Result<Vec<u8>, UnsupportedText> {
    let text = charset.decode(bytes).map_err(|line| UnsupportedText::Line(line_feeds + line, charset))?;
    Ok(text.into_bytes())
}

/// Checks whether a text that arrives in pieces is UTF-8.
#[derive(Default)]
pub struct Utf8Check {
    /// Start of a character that continues in the next piece.
    pending: Vec<u8>,
    /// True if some bytes were not UTF-8.
    is_broken: bool,
}

impl Utf8Check {
    /// Checks the next piece.
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
            self.pending = slice_or_empty(piece, error.valid_up_to()..).to_vec();
        }
    }

    /// Returns true if all of it was UTF-8.
    fn is_valid(&self) -> bool {
        !self.is_broken && self.pending.is_empty()
    }
}

/// Returns how many bytes at the start are whole UTF-16 characters, as far as is known.
fn whole_units(bytes: &[u8], big_endian: bool) -> usize {
    let even = bytes.len() & !1;
    let high_byte = if big_endian { even.checked_sub(2) } else { even.checked_sub(1) };
    let ends_in_lead = high_byte.and_then(|at| bytes.get(at)).is_some_and(|high| (0xd8..0xdc).contains(high));
    if ends_in_lead { even - 2 } else { even }
}

/// Returns the text of a file without its byte order mark; all its bytes if it is not text.
pub fn body_of(bytes: &[u8]) -> Cow<'_, [u8]> {
    match EncodingGuess::of(bytes) {
        EncodingGuess::Utf16(_) => Content::of(bytes, None).map_or(Cow::Borrowed(bytes), |view| view.body),
        // The lines are the same even if the rest is not UTF-8.
        start => Cow::Borrowed(slice_or_empty(bytes, start.bom_bytes()..)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_encodings_round_trip() {
        let utf16 = |text: &str, big| utf8_to_utf16(text.as_bytes(), big);
        for (bytes, encoding, bom) in [
            (b"".to_vec(), Encoding::Utf8, false),
            ("a\u{fffd}ä\n".as_bytes().to_vec(), Encoding::Utf8, false),
            (b"\xef\xbb\xbfa\r\n".to_vec(), Encoding::Utf8, true),
            (b"\xef\xbb\xbf\xff".to_vec(), Encoding::Bytes, false),
            (b"caf\xe9\n".to_vec(), Encoding::Bytes, false),
            (utf16("a\r\n\u{1f600}", false), Encoding::Utf16Le, true),
            (utf16("a\n", true), Encoding::Utf16Be, true),
            (b"\xff\xfe".to_vec(), Encoding::Utf16Le, true),
        ] {
            let content = Content::of(&bytes, None).unwrap();
            assert_eq!((content.encoding, content.bom), (encoding, bom), "{bytes:?}");
            assert_eq!(content.on_disk(&(0..content.body.len())), bytes);
            let (head, tail) =
                (content.on_disk(&(0..1.min(content.body.len()))), content.on_disk(&(1..content.body.len())));
            assert!(content.body.is_empty() || [head, tail].concat() == bytes || encoding == Encoding::Utf8);
            assert_eq!(content.bytes_of(&content.body), bytes.len());
            assert_eq!(content.encode().unwrap(), bytes);
        }
    }

    #[test]
    fn text_that_cannot_round_trip_is_rejected() {
        for bytes in [&b"\xff\xfe\0\0a\0\0\0"[..], b"\xff\xfea", b"\xfe\xff\xd8\x00\x00a"] {
            assert!(Content::of(bytes, None).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn binary_files_are_distinguished_from_text() {
        for bytes in [&b"a\0b"[..], b"\x89PNG\r\n\x1a\n", b"%PDF-1.4\n"] {
            assert!(looks_binary(bytes), "{bytes:?}");
        }
        for bytes in
            [&b""[..], b"#!/bin/sh\n", b"<html>", b"<?xml version=\"1.0\"?>", b"\xff\xfea\0", b"caf\xe9"]
        {
            assert!(!looks_binary(bytes), "{bytes:?}");
        }
    }
}
