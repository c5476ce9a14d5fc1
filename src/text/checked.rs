//! The only two ways to get the bytes of a range.
//!
//! Bytes that are written come from [`slice()`] and [`item`]: a wrong offset must not drop bytes, so a range
//! outside its text is a bug of lbx, and then nothing is written. Bytes that are only compared, counted or shown may
//! come from [`slice_or_empty`] and [`str_or_empty`], which return nothing for such a range. No other code below
//! `text/` slices a text and ignores a failure: a test here reads the sources.

use std::slice::SliceIndex;

use crate::error::{Error, ErrorKind};

/// Reason why a new text was not built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFault {
    /// A range lies outside its text.
    OutOfRange,
    /// The text would exceed its size limit.
    TooLarge {
        /// Size of the text.
        bytes: usize,
        /// Size limit.
        bytes_max: usize,
    },
}

/// Returns the bytes or items of `range`.
///
/// # Errors
/// Fails with [`TextFault::OutOfRange`] if the range lies outside the text.
pub fn slice<T, R>(items: &[T], range: R) -> Result<&[T], TextFault>
where
    R: SliceIndex<[T], Output = [T]>,
{
    items.get(range).ok_or(TextFault::OutOfRange)
}

/// Returns an item.
///
/// # Errors
/// Fails with [`TextFault::OutOfRange`] if there are fewer items.
pub fn item<T>(items: &[T], index: usize) -> Result<&T, TextFault> {
    items.get(index).ok_or(TextFault::OutOfRange)
}

/// Returns a range of items to compare, count or show, never to write. It is empty if the range lies outside.
pub fn slice_or_empty<T, R>(items: &[T], range: R) -> &[T]
where
    R: SliceIndex<[T], Output = [T]>,
{
    items.get(range).unwrap_or_default()
}

/// Returns a range of a string to compare, count or show, never to write.
pub fn str_or_empty<R>(text: &str, range: R) -> &str
where
    R: SliceIndex<str, Output = str>,
{
    text.get(range).unwrap_or_default()
}

/// Checks the size of a text before it is built.
///
/// # Errors
/// Fails with [`TextFault::TooLarge`].
pub const fn must_fit(bytes: usize, bytes_max: usize) -> Result<(), TextFault> {
    if bytes > bytes_max { Err(TextFault::TooLarge { bytes, bytes_max }) } else { Ok(()) }
}

impl TextFault {
    /// Returns the error for the file at `shown`.
    pub fn error(self, shown: &str) -> Error {
        match self {
            Self::OutOfRange => Error::internal(format!(
                "a computed range lies outside the text of {shown}; nothing was written"
            )),
            Self::TooLarge { bytes, bytes_max } => Error::new(
                ErrorKind::TooLarge,
                format!(
                    "{shown} would have at least {bytes} bytes; the limit is {bytes_max} (limits.file_bytes)"
                ),
            )
            .detail("size", bytes)
            .detail("limit", bytes_max)
            .suggest("Make the change smaller, or split the file."),
        }
        .at(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every source file below a folder except this one, without tests.
    fn sources(folder: &std::path::Path) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let shown = path.display().to_string();
            if path.is_dir() {
                found.extend(sources(&path));
            } else if !shown.ends_with("/checked.rs") && !shown.contains("tests") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
                found.push((shown, code.split_whitespace().collect::<Vec<_>>().join(" ")));
            }
        }
        found
    }

    #[test]
    fn sources_of_text_never_hide_an_invalid_range() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/text");
        for (file, code) in sources(&folder) {
            // `.get(a..b)` whose failure turns into an empty text.
            for (at, _) in code.match_indices(".get(") {
                let rest = &code[at + ".get(".len()..];
                let mut depth = 1;
                let end = rest.char_indices().find(|(_, character)| {
                    depth += i32::from(*character == '(') - i32::from(*character == ')');
                    depth == 0
                });
                let (range, after) = rest.split_at(end.map_or(rest.len(), |(end, _)| end));
                let after = after[1..].trim_start_matches([' ', ')']);
                let goes_on =
                    after.starts_with(".unwrap_or_default()") || after.starts_with(".unwrap_or(&[])");
                assert!(!goes_on || !range.contains(".."), "{file}: .get({range}) goes on with nothing");
            }
        }
    }

    #[test]
    fn slice_rejects_an_out_of_range_index() {
        assert_eq!(slice(b"abc", 1..3), Ok(&b"bc"[..]));
        assert_eq!(slice(b"abc", 3..), Ok(&b""[..]));
        assert_eq!(slice(b"abc", 2..4), Err(TextFault::OutOfRange));
        assert_eq!(slice(b"abc", 4..), Err(TextFault::OutOfRange));
        assert_eq!((slice_or_empty(b"abc", 1..), slice_or_empty(b"abc", 2..4)), (&b"bc"[..], &b""[..]));
        assert_eq!((str_or_empty("aé", ..1), str_or_empty("aé", ..2)), ("a", ""));
        assert!(must_fit(4, 4).is_ok());
        assert_eq!(must_fit(5, 4), Err(TextFault::TooLarge { bytes: 5, bytes_max: 4 }));
    }

    #[test]
    fn faults_map_to_error_kinds() {
        assert_eq!(TextFault::OutOfRange.error("f").kind(), ErrorKind::Internal);
        let too_large = TextFault::TooLarge { bytes: 5, bytes_max: 4 };
        assert_eq!(too_large.error("f").kind(), ErrorKind::TooLarge);
    }
}
