//! Text as bytes: encodings, lines, matching, diffs, patches. Pure: no file is opened here.

pub mod answer_size;
pub mod charset;
pub mod checked;
pub mod content;
pub mod delta;
pub mod diff;
pub mod escaped;
pub mod flexible;
pub mod independent;
pub mod jsonc;
pub mod line_diff;
mod line_index;
pub mod lines;
pub mod markdown;
pub mod merge;
pub mod nearest;
pub mod omission;
pub mod own_lines;
pub mod patch;
pub mod renames;
pub mod replace;
pub mod replaced_lines;
pub mod similarity;
pub mod sketch;
pub mod slice;
pub mod tree_merge;
