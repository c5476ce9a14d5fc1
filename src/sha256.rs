//! SHA-256 of files, as `sha256sum` prints it.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;

/// A SHA-256 digest; 64 lower-case hex digits on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// Returns the digest with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Returns the digest as 64 lower-case hex digits.
    pub fn to_hex(self) -> String {
        self.with_hex(str::to_owned)
    }

    /// Calls `work` with the digest as 64 lower-case hex digits, without allocating.
    fn with_hex<T>(self, work: impl FnOnce(&str) -> T) -> T {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
        let mut hex = [0; 64];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        work(std::str::from_utf8(&hex).unwrap_or_default())
    }
}

/// Returns the end of a state file: the digest of its JSON, on a line of its own.
pub fn seal_of(json: &[u8]) -> String {
    format!("\n{}\n", Sha256::of(json))
}

/// Splits a state file into its JSON, which is one line, and its seal.
pub fn split_seal(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len()))
}

/// First digits of a digest, enough to tell one text of a file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestStart(String);

impl DigestStart {
    /// Fewest digits that are required.
    const DIGITS_MIN: usize = 8;

    /// Returns true if a digest begins with these digits.
    pub fn begins(&self, digest: Sha256) -> bool {
        digest.with_hex(|hex| hex.starts_with(&self.0))
    }
}

impl fmt::Display for DigestStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DigestStart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_hex && (Self::DIGITS_MIN..=64).contains(&digits.len()) {
            return Ok(Self(digits.to_ascii_lowercase()));
        }
        Err(format!("expected {} to 64 hex digits of a SHA-256, as `read` returns it", Self::DIGITS_MIN))
    }
}

impl<'de> Deserialize<'de> for DigestStart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for DigestStart {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DigestStart".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-f]{8,64}$" })
    }
}

/// Hashes bytes that come in pieces.
#[derive(Default, Clone)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all pieces.
    pub fn finish(self) -> Sha256 {
        Sha256(self.0.finalize().into())
    }
}

impl FromStr for Sha256 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected a SHA-256 of 64 hex digits, as `read` returns it".to_owned();
        let text = text.strip_prefix("sha256:").unwrap_or(text);
        let pairs: &[[u8; 2]; 32] = text.as_bytes().as_chunks().0.try_into().map_err(|_| wrong())?;
        if text.len() != 64 {
            return Err(wrong());
        }
        let mut digest = [0; 32];
        for (byte, digits) in digest.iter_mut().zip(pairs) {
            for digit in digits {
                let value = char::from(*digit).to_digit(16).ok_or_else(wrong)?;
                *byte = *byte << 4 | u8::try_from(value).unwrap_or_default();
            }
        }
        Ok(Self(digest))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_hex(|hex| f.write_str(hex))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_hex(|hex| f.write_str(hex))
    }
}

impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_hex(|hex| serializer.serialize_str(hex))
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Sha256 {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sha256".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}
