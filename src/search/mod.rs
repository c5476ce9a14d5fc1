//! Search: walks the tree with git's ignore rules and searches files, using ripgrep's libraries.
//!
//! | module | owns |
//! |---|---|
//! | `entry` | an entry of a walk, the listing of one folder, notes on what could not be read |
//! | `rules` | `.gitignore` and its kin, entries that a search wants, and files that git tracks |
//! | `walk` | every entry in order, each folder opened from the one before |
//! | `globs`, `pattern` | globs, paths and patterns of a request, compiled and bounded |
//! | `matches` | matches packed in little memory, and their form in an answer |
//! | `collect`, `file` | a search, and one file searched |
//! | `content` | files searched in parallel, results in order |
//! | `results` | results in order, as far as they are shown |
//! | `page` | limits, offsets and byte budgets |
//! | `dir_sizes` | sizes of folders, entries by time or size |

pub mod collect;
pub mod content;
pub mod dir_sizes;
pub mod entry;
pub mod file;
pub mod globs;
pub mod matches;
pub mod page;
pub mod pattern;
pub mod results;
pub mod rules;
pub mod walk;
