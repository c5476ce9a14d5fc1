//! Patches: reading them in every format that models and tools write, and applying them.
mod anchor;
mod apply;
mod binary;
mod blocks;
mod codex;
mod conflict;
mod hunk;
mod index;
mod lines;
mod locate;
mod model;
mod name;
mod nearest;
mod parse;
mod place;
mod plan;
mod render;
mod unified;

#[cfg(test)]
mod tests;

pub use apply::{Applied, HunkReport, apply};
pub use binary::{BINARY_BYTES_MAX, Binary, BinaryApplied, BinaryData};
pub use blocks::{Block, search_replace_blocks};
pub use conflict::{Conflict, Failure, Fate, HunkFate, Nearest, Reason, visible};
pub use index::Tier;
pub use lines::{Ending, Line, lines};
pub use model::{Body, FilePatch, Format, Hunk, HunkLine, Kind, Operation, Patch, Prefix, Strip};
pub use parse::{ParseError, parse};
pub use place::Options;
pub use plan::{Action, Before, FileOutcome, PlanError, PlanOptions, Refusal, RefusalReason, compose};
