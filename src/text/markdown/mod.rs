//! Markdown sections: their limits, and replacing them.
//!
//! A section is a header and all that follows up to the next header of the same or a higher level. A CommonMark parser
//! finds the headers ([`outline`]), [`find`] looks them up by name, and [`compose`] inserts new text and checks that
//! every other header is still one.

pub mod compose;
pub mod find;
pub mod outline;
