//! Patches: reading them in every format that models and tools write, and applying them.
//!
//! [`parse`] takes a unified diff (plain or git's), a Codex envelope or SEARCH/REPLACE blocks, told
//! apart by themselves, and gives one model, [`Patch`], that borrows from the text. [`apply`] makes
//! the new text of one file from the old, and [`compose`] the outcome of a whole patch, path by
//! path. Nothing here reads or writes a file; everything is bytes, since files and patches may hold
//! any.
//!
//! # Where a hunk goes
//!
//! Lines are compared without their endings. A hunk goes where its old lines stand byte for byte at
//! the stated line, corrected by how far the hunk before was off; else where they stand alone in
//! the file, after the hunk before if that is enough to be alone. Only then, and never under
//! [`PatchOptions::strict`], come the weaker comparisons of [`Tier`], and at last [`PatchOptions::fuzz`]; each
//! again only where the place is the only one or the stated one. Two equal places are a
//! [`Conflict`] that names both.
//!
//! All hunks are sought in the file as it was, so that an earlier one never moves a later one.
//! A hunk whose new side stands where it should, while its old side does not, is applied already.
//!
//! # What comes out
//!
//! Every byte outside the changed lines stays, and context keeps the file's bytes. Added lines end
//! as the patch says where its old lines end as the file's do; else as the lines that they replace,
//! as their neighbours, as the file. The final newline stays as it is unless
//! `\ No newline at end of file` says otherwise.
//!
//! # The parts, in the order of the work
//!
//! `parse` tells formats apart, by the lines that `signs` knows; `unified` with `hunk`, `name` and `binary`, `codex` and `blocks`
//! read one each into `model`, and `settle` chooses among two names. `index` knows where lines stand, `locate` finds a run of them,
//! `anchor` narrows that for Codex, `place` decides about one hunk, `apply` about all of a file,
//! `render` writes, `conflict` and `nearest` explain. `compose` puts the files together, as
//! `plan` words it: `steps` settles what each change is of, `tree` makes it.

mod anchor;
mod apply;
pub(super) mod binary;
mod blocks;
mod codex;
mod compose;
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
mod settle;
mod signs;
mod source;
mod steps;
mod tree;
mod unified;

#[cfg(test)]
mod tests;

pub use apply::{Applied, HunkReport, apply};
pub use binary::{BINARY_BYTES_MAX, Binary, BinaryApplied, BinaryData};
pub use blocks::{Block, TextOf, search_replace_blocks};
pub use compose::{Whole, compose};
pub use conflict::{Conflict, Failure, Fate, HunkFate, Nearest, Reason, visible};
pub use index::Tier;
pub use lines::{Ending, Line, lines};
pub use model::{
    Body, FilePatch, Format, Hunk, HunkLine, Kind, Operation, Patch, Paths, Prefix, Strip, is_symlink,
};
pub use parse::{parse, parse_within};
pub use place::PatchOptions;
pub use plan::{Action, Before, FileOutcome, Look, PlanError, PlanOptions, Reader, Refusal, RefusalReason};
pub use source::ParseError;
