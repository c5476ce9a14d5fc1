//! Text as bytes: encodings, lines, matching, diffs, patches. Pure: no file is opened here.

pub mod content;
pub mod diff;
pub mod git_binary;
pub mod git_diff;
pub mod lines;
pub mod markdown;
pub mod nearest;
pub mod patch;
pub mod replace;
pub mod slice;
