//! URIs of resources.

use std::path::PathBuf;

/// Prefix of a path in the workspace.
pub const FILE: &str = "lbx://file/";
/// Prefix of a snapshot and a path in it.
pub const SNAPSHOT: &str = "lbx://snapshot/";

/// Decodes a part of a URI.
#[must_use]
pub fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|_| byte == b'%');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        plain.push(code.unwrap_or(byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Returns the path of a `file:` URI on this machine.
#[must_use]
pub fn file_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    path.starts_with('/').then(|| PathBuf::from(decoded(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_decoded() {
        assert_eq!(decoded("a%20b%2Fc"), "a b/c");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(file_path("file:///a%20b"), Some(PathBuf::from("/a b")));
        assert_eq!(file_path("file://host/a"), None);
        assert_eq!(file_path("http://a"), None);
    }
}
