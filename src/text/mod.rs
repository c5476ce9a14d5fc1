//! Text as bytes: encodings, lines, matching, diffs, patches. Pure: no file is opened here.

pub mod block;
pub mod checked;
pub mod content;
pub mod counted;
pub mod diff;
pub mod escaped;
mod fault;
pub mod flexible;
pub mod git_binary;
pub mod git_diff;
mod joined;
pub mod jsonc;
pub mod line_diff;
pub mod line_range;
pub mod lines;
pub mod markdown;
pub mod merge;
pub mod nearest;
pub mod occurrences;
pub mod omission;
pub mod own;
pub mod patch;
pub mod pieces;
pub mod replace;
pub mod sketch;
pub mod slice;
pub mod visible;
