//! Percent-encoded texts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// Decodes a part of a URI as text.
pub fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&decoded_bytes(text)).into_owned()
}

/// Decodes a part of a URI.
fn decoded_bytes(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digit =
            |at: usize| char::from(*bytes.get(at)?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let digits = digit(at + 1).zip(digit(at + 2)).filter(|_| byte == b'%');
        let code = digits.map(|(high, low)| high << 4 | low);
        plain.push(code.unwrap_or(byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    plain
}

/// Returns the path of a `file:` URI on this machine.
pub fn file_path(uri: &str) -> Option<PathBuf> {
    // The case of a scheme does not count (RFC 3986, 3.1).
    let (_, rest) = uri.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("file"))?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    path.starts_with('/').then(|| PathBuf::from(OsString::from_vec(decoded_bytes(path))))
}
