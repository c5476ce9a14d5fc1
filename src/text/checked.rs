//! The one door to the bytes of a range on the way from a file's old bytes to its new ones.
//!
//! A wrong offset must not become missing bytes: a range that lies outside its text is a fault of lbx
//! itself, and then nothing is written.

use std::ops::RangeBounds;
use std::slice::SliceIndex;

/// Why a new text is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A range lies outside its text.
    OutOfRange,
    /// The text would be larger than it may be.
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest size allowed.
        bytes_max: usize,
    },
}

/// The bytes of `range`.
///
/// # Errors
/// [`Fault::OutOfRange`] where the text does not have them all.
pub fn slice<R>(text: &[u8], range: R) -> Result<&[u8], Fault>
where
    R: RangeBounds<usize> + SliceIndex<[u8], Output = [u8]>,
{
    text.get(range).ok_or(Fault::OutOfRange)
}

/// One of several items.
///
/// # Errors
/// [`Fault::OutOfRange`] where there are fewer.
pub fn item<T>(items: &[T], index: usize) -> Result<&T, Fault> {
    items.get(index).ok_or(Fault::OutOfRange)
}

/// Some of several items.
///
/// # Errors
/// [`Fault::OutOfRange`] where there are fewer.
pub fn items<T>(items: &[T], range: std::ops::Range<usize>) -> Result<&[T], Fault> {
    items.get(range).ok_or(Fault::OutOfRange)
}

/// Checks the size of a text before it is made.
///
/// # Errors
/// [`Fault::TooLarge`].
pub const fn must_fit(bytes: usize, bytes_max: usize) -> Result<(), Fault> {
    if bytes > bytes_max { Err(Fault::TooLarge { bytes, bytes_max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_range_is_a_fault() {
        assert_eq!(slice(b"abc", 1..3), Ok(&b"bc"[..]));
        assert_eq!(slice(b"abc", 3..), Ok(&b""[..]));
        assert_eq!(slice(b"abc", 2..4), Err(Fault::OutOfRange));
        assert_eq!(slice(b"abc", 4..), Err(Fault::OutOfRange));
        assert!(must_fit(4, 4).is_ok());
        assert_eq!(must_fit(5, 4), Err(Fault::TooLarge { bytes: 5, bytes_max: 4 }));
    }
}
