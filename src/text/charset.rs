//! Encodings of files that are neither UTF-8 nor UTF-16: the caller names one, since their bytes do not.

use std::borrow::Cow;
use std::collections::HashMap;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use crate::text::checked::slice_or_empty;
use crate::text::lines;

/// Largest number of bytes of one character, in any encoding here (GB 18030 and UTF-8).
const CHARACTER_BYTES_MAX: usize = 4;
/// Bytes that are searched for the likely encoding.
const GUESSED_BYTES_MAX: usize = 256 << 10;

/// An encoding of the WHATWG standard that extends ASCII, and in which each character has bytes of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charset(&'static encoding_rs::Encoding);

/// A character that an encoding does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unencodable {
    /// Encoding.
    pub charset: Charset,
    /// First such character of the text.
    pub character: char,
    /// Its line in the text, from 1.
    pub line: u64,
}

impl Charset {
    /// Returns the name in the standard.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns true for UTF-8, which a file needs no name for.
    pub fn is_utf8(self) -> bool {
        self.0 == encoding_rs::UTF_8
    }

    /// Decodes a text so that [`Self::encode`] returns just these bytes again.
    ///
    /// # Errors
    /// Returns the first line, from 1, whose bytes are not of this encoding, or not the only bytes of their characters.
    pub fn decode(self, bytes: &[u8]) -> Result<String, u64> {
        let mut text = String::with_capacity(bytes.len());
        let mut encoder = Encoder::new(self);
        // No character has the byte of a line feed inside.
        for (line, number) in bytes.split_inclusive(|&byte| byte == b'\n').zip(1..) {
            let decoded = self.0.decode_without_bom_handling_and_without_replacement(line).ok_or(number)?;
            if !line.is_ascii() && encoder.encode(&decoded).ok().as_deref() != Some(line) {
                return Err(number);
            }
            text.push_str(&decoded);
        }
        Ok(text)
    }

    /// Encodes a text.
    ///
    /// # Errors
    /// Returns the first character that has no bytes in this encoding.
    pub fn encode(self, text: &str) -> Result<Vec<u8>, Unencodable> {
        Encoder::new(self).encode(text).map_err(|(character, at)| {
            let before = slice_or_empty(text.as_bytes(), ..at);
            let line = memchr::memchr_iter(b'\n', before).count() as u64 + 1;
            Unencodable { charset: self, character, line }
        })
    }
}

/// Encodes texts. Without tables, which would be large, finding a Chinese character takes a microsecond, so each is
/// looked for once.
struct Encoder {
    /// Encoding.
    charset: Charset,
    /// Bytes of the characters so far, and their number.
    known: HashMap<char, ([u8; CHARACTER_BYTES_MAX], usize)>,
}

impl Encoder {
    /// Returns an encoder.
    fn new(charset: Charset) -> Self {
        Self { charset, known: HashMap::new() }
    }

    /// Encodes a text.
    ///
    /// # Errors
    /// Returns the first character that has no bytes, and its offset.
    fn encode(&mut self, text: &str) -> Result<Vec<u8>, (char, usize)> {
        let mut bytes = Vec::with_capacity(text.len());
        for (at, character) in text.char_indices() {
            if character.is_ascii() {
                bytes.push(character as u8);
                continue;
            }
            let known = self.known.get(&character).copied();
            let (encoded, length) = known.or_else(|| self.find(character)).ok_or((character, at))?;
            bytes.extend_from_slice(slice_or_empty(&encoded, ..length));
        }
        Ok(bytes)
    }

    /// Returns the bytes of a character.
    fn find(&mut self, character: char) -> Option<([u8; CHARACTER_BYTES_MAX], usize)> {
        let text = character.encode_utf8(&mut [0; CHARACTER_BYTES_MAX]).to_owned();
        let (encoded, _, is_replaced) = self.charset.0.encode(&text);
        let mut bytes = [0; CHARACTER_BYTES_MAX];
        bytes.get_mut(..encoded.len())?.copy_from_slice(&encoded);
        (!is_replaced).then(|| *self.known.entry(character).or_insert((bytes, encoded.len())))
    }
}

impl FromStr for Charset {
    type Err = String;

    fn from_str(label: &str) -> Result<Self, String> {
        let found = encoding_rs::Encoding::for_label_no_replacement(label.as_bytes());
        let Some(encoding) = found else {
            return Err(format!(
                "unknown encoding {label:?}: expected a label of the WHATWG standard, such as windows-1252, shift_jis or gbk"
            ));
        };
        if encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE {
            return Err("a file in UTF-16 shows that by its byte-order mark: leave encoding out".to_owned());
        }
        if !encoding.is_ascii_compatible() {
            return Err(format!(
                "{} is not supported: it has no bytes of its own for each character",
                encoding.name()
            ));
        }
        Ok(Self(encoding))
    }
}

impl<'de> Deserialize<'de> for Charset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Charset {
    fn schema_name() -> Cow<'static, str> {
        "Charset".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // `request` checks the label where it knows the field: serde forgets the names of flattened fields.
        json_schema!({ "type": "string", "x-encoding": true })
    }
}

/// Encodings of two bytes a character, with the first bytes of their most frequent characters. Of two that fit equally
/// well, the earlier one is likelier: the later one has more characters.
const DOUBLE_BYTE: [(&encoding_rs::Encoding, &[std::ops::RangeInclusive<u8>]); 5] = [
    (encoding_rs::SHIFT_JIS, &[0x81..=0x83, 0x88..=0x97]),
    (encoding_rs::EUC_KR, &[0xa1..=0xa1, 0xb0..=0xc8]),
    (encoding_rs::EUC_JP, &[0xa1..=0xa1, 0xa4..=0xa5, 0xb0..=0xcf]),
    (encoding_rs::GBK, &[0xa1..=0xa3, 0xb0..=0xd7]),
    (encoding_rs::BIG5, &[0xa1..=0xa1, 0xa4..=0xc6]),
];

/// Returns the names of the encodings that the bytes of a text may have, the likeliest first; `None` if it has only
/// ASCII.
///
/// Letters of Western Europe stand alone among ASCII, Cyrillic ones in whole words, and characters of two bytes begin
/// with the bytes of frequent characters.
pub fn likely_encodings(bytes: &[u8]) -> Option<String> {
    /// Part of the characters that must be frequent ones, as a fraction.
    const FREQUENT: (usize, usize) = (3, 4);
    /// Least number of bytes of a Western text for one byte beyond ASCII.
    const WESTERN: usize = 5;
    let bytes = bytes.get(..GUESSED_BYTES_MAX).unwrap_or(bytes);
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(bytes.len(), |at| at + 1);
    let bytes = bytes.get(..whole).unwrap_or(bytes);
    let runs: Vec<&[u8]> = bytes.split(u8::is_ascii).filter(|run| !run.is_empty()).collect();
    if runs.is_empty() {
        return None;
    }
    let mut found: Vec<(usize, &str)> = Vec::new();
    for (encoding, frequent) in DOUBLE_BYTE {
        let is_frequent = |byte: u8| frequent.iter().any(|range| range.contains(&byte));
        let leads = lines::lines(bytes).map(|line| lead_bytes(encoding, line)).collect::<Option<Vec<_>>>();
        let leads: Vec<u8> = leads.into_iter().flatten().flatten().collect();
        let count = leads.iter().filter(|&&lead| is_frequent(lead)).count();
        if count > 0 && count * FREQUENT.1 >= leads.len() * FREQUENT.0 {
            found.push((count * 1000 / leads.len(), encoding.name()));
        }
    }
    found.sort_by_key(|&(part, _)| std::cmp::Reverse(part));
    let mut names: Vec<&str> = found.iter().map(|(_, name)| *name).take(2).collect();
    let alone = runs.iter().filter(|run| run.len() == 1).count();
    let beyond_ascii: usize = runs.iter().map(|run| run.len()).sum();
    let count =
        |range: std::ops::RangeInclusive<u8>| bytes.iter().filter(|byte| range.contains(byte)).count();
    if alone * 2 > runs.len() {
        // The second byte of a character may be ASCII, but then the text has little of it besides.
        let is_western = names.is_empty() || beyond_ascii * WESTERN < bytes.len();
        names.truncate(1);
        names.insert(if is_western { 0 } else { names.len() }, "windows-1252");
    } else if names.is_empty() {
        names.push(if count(0xc0..=0xdf) > count(0xe0..=0xff) { "KOI8-R" } else { "windows-1251" });
        names.push("windows-1252");
    }
    Some(names.join(" or "))
}

/// Returns the first bytes of the characters beyond ASCII in a line; `None` if it has bytes that are not of the encoding.
fn lead_bytes(encoding: &'static encoding_rs::Encoding, line: &[u8]) -> Option<Vec<u8>> {
    let text = encoding.decode_without_bom_handling_and_without_replacement(line)?;
    let mut encoder = Encoder::new(Charset(encoding));
    let mut leads = Vec::new();
    for character in text.chars().filter(|character| !character.is_ascii()) {
        let (bytes, _) = encoder.known.get(&character).copied().or_else(|| encoder.find(character))?;
        // The byte of a half-width kana begins no frequent character.
        leads.push(*bytes.first()?);
    }
    Some(leads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_in_every_encoding() {
        for (label, text) in [
            ("latin1", "Größe\r\nça\u{81}\n"),
            ("shift_jis", "ソース表\nカナ"),
            ("gbk", "中文，€\n"),
            ("gb18030", "中文é😀\n"),
            ("euc-kr", "한국어\n"),
            ("big5", "繁體中文\n"),
            ("koi8-r", "Привет\n"),
            ("utf-8", "é😀\n"),
        ] {
            let charset: Charset = label.parse().unwrap();
            let bytes = charset.encode(text).unwrap();
            assert_eq!(charset.decode(&bytes).as_deref(), Ok(text), "{label}");
        }
        let latin: Charset = "latin1".parse().unwrap();
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(latin.encode(&latin.decode(&all).unwrap()).unwrap(), all);
    }

    #[test]
    fn bytes_without_a_way_back_and_missing_characters_are_named() {
        let charset: Charset = "gbk".parse().unwrap();
        // A lead byte at the end of a line, and second bytes of the euro sign.
        assert_eq!(charset.decode(b"a\n\xd6\n"), Err(2));
        assert_eq!(charset.decode(b"\xa2\xe3"), Err(1));
        let latin: Charset = "iso-8859-1".parse().unwrap();
        let missing = Unencodable { charset: latin, character: '中', line: 2 };
        assert_eq!(latin.encode("é\na中\n"), Err(missing));
    }

    #[test]
    fn only_labels_of_encodings_that_extend_ascii_are_accepted() {
        for label in ["utf-16", "utf-16be", "iso-2022-jp", "replacement", "nonsense", ""] {
            assert!(label.parse::<Charset>().is_err(), "{label}");
        }
        assert_eq!("Latin1".parse::<Charset>().unwrap().name(), "windows-1252");
    }

    #[test]
    fn likely_encoding_is_the_one_that_the_text_was_written_in() {
        for (label, text) in [
            ("windows-1252", "Grüße aus Köln, à bientôt\n"),
            ("windows-1251", "Привет, мир. Это обычный текст\n"),
            ("KOI8-R", "Привет, мир. Это обычный текст\n"),
            ("Shift_JIS", "これは日本語のテキストです。\n"),
            ("EUC-JP", "これは日本語のテキストです。\n"),
            ("GBK", "这是中文文本，请看一下。\n"),
            ("EUC-KR", "이것은 한국어 텍스트입니다.\n"),
            ("Big5", "這是繁體中文的文字，請看一下。\n"),
        ] {
            let bytes = label.parse::<Charset>().unwrap().encode(text).unwrap();
            let found = likely_encodings(&bytes).unwrap();
            assert!(found.starts_with(label), "{label}: {found}");
        }
        assert_eq!(likely_encodings(b"ascii\n"), None);
    }
}
