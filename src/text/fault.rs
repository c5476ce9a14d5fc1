//! What a fault in the making of a text is to the caller.

use super::checked::Fault;
use crate::error::{Error, ErrorKind};

impl Fault {
    /// The error for the file at `shown`.
    #[must_use]
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

    #[test]
    fn a_fault_has_the_kind_of_the_contract() {
        assert_eq!(Fault::OutOfRange.error("f").kind(), ErrorKind::Internal);
        let too_large = Fault::TooLarge { bytes: 5, bytes_max: 4 };
        assert_eq!(too_large.error("f").kind(), ErrorKind::TooLarge);
    }
}
