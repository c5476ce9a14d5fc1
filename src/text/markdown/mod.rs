//! Markdown sections: where one begins and ends, and a text with another in its place.
//!
//! A section is a header and all that comes after it up to the next header of its own level or
//! above. Headers are found by a CommonMark parser ([`outline`]) and by the names people give them
//! ([`find`]); [`compose`] puts new text in place and looks whether every other header still stands.

pub mod compose;
pub mod find;
pub mod outline;
