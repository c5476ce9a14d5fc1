//! Searching: walking the tree with git's ignore rules, and looking into files, on ripgrep's
//! libraries.
//!
//! | module | owns |
//! |---|---|
//! | `listing` | one folder, read once and sorted |
//! | `roots` | from the paths of a request to the roots of a walk |
//! | `rules` | what `.gitignore` and its kin hide |
//! | `tracked` | what git tracks, though a rule may name it |
//! | `selection` | what a search wants: hidden files, globs, types, depth |
//! | `walk` | every entry in order, each folder opened from the one before |
//! | `ahead` | folders read by a second thread before the walk comes to them |
//! | `ordered` | work in parallel, results in order |
//! | `pattern`, `globs` | compiled patterns, bounded |
//! | `basic` | patterns in the basic syntax of `grep` |
//! | `left_out` | what a search that found nothing passed by |
//! | `matched`, `lines`, `clip` | what a match looks like in an answer |
//! | `packed` | matches in little memory |
//! | `collect`, `file` | one file searched |
//! | `query` | what is searched for, and what comes of one file |
//! | `content` | all files searched in parallel |
//! | `results` | what comes of them, in order, as far as it is shown |
//! | `page` | limits, offsets and byte budgets |
//! | `sums` | how much folders hold |
//! | `newest` | files by time |
//! | `notes` | what could not be searched |

pub mod ahead;
pub mod basic;
pub mod clip;
pub mod collect;
pub mod content;
pub mod file;
pub mod globs;
pub mod left_out;
pub mod lines;
pub mod listing;
pub mod matched;
pub mod newest;
pub mod notes;
pub mod ordered;
pub mod packed;
pub mod page;
pub mod pattern;
pub mod query;
pub mod results;
pub mod roots;
pub mod rules;
pub mod selection;
pub mod sums;
pub mod tracked;
pub mod walk;
