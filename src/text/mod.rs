//! Text as bytes, without I/O: what the tools know about lines, patches and matching.

pub mod patch;
