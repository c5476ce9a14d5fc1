//! `mcp-filesystem`: the tools of the npm reference server `@modelcontextprotocol/server-filesystem`.
//!
//! `read`, `change` and `list` have the tools, `worded` what all of them say, `texts` the texts that take more
//! than a line.

mod texts;
mod tools;

use super::tool::{Dialect, Failure, foreign};
use crate::error::ErrorKind;
use tools::{CreateDirectory, EditFile, MoveFile, WriteFile};
use tools::{
    DirectoryTree, GetFileInfo, ListAllowedDirectories, ListDirectory, ListDirectoryWithSizes, SearchFiles,
};
use tools::{ReadFile, ReadMediaFile, ReadMultipleFiles, ReadTextFile};

/// The dialect.
pub const FILESYSTEM: Dialect = Dialect {
    name: "mcp-filesystem",
    is_model_family: false,
    tools: &[
        foreign::<ReadFile>(),
        foreign::<ReadTextFile>(),
        foreign::<ReadMediaFile>(),
        foreign::<ReadMultipleFiles>(),
        foreign::<WriteFile>(),
        foreign::<EditFile>(),
        foreign::<CreateDirectory>(),
        foreign::<ListDirectory>(),
        foreign::<ListDirectoryWithSizes>(),
        foreign::<DirectoryTree>(),
        foreign::<MoveFile>(),
        foreign::<SearchFiles>(),
        foreign::<GetFileInfo>(),
        foreign::<ListAllowedDirectories>(),
    ],
    names: &[
        ("read", "read_text_file"),
        ("write", "write_file"),
        ("edit", "edit_file"),
        ("glob", "search_files"),
        ("ls", "list_directory"),
        ("move", "move_file"),
        ("mkdir", "create_directory"),
    ],
    error_text,
    differences: &[
        "write_file refuses to overwrite, and edit_file to edit, a file that this session has not read, or that has changed since.",
        "edit_file refuses an oldText that occurs more than once (the reference server replaces the first), is empty, or equals newText, and an empty list of edits.",
        "Line endings stay as they are (the reference server makes them LF).",
        "Where oldText matches apart from white space alone, newText gets the indentation of the lines that it replaces.",
        "Binary files are read by read_media_file alone.",
        "What lies in .git and .lbx is not listed, searched or written.",
        "The one allowed directory is the workspace; lists are sorted by path.",
        "Parameters that are unknown, missing or of the wrong type are refused in lbx's words; so is an empty path.",
        "A path that begins with ~ or a drive letter is a name like any other.",
        "Globs have no extended patterns such as !(a), and none begins with ! or #; one that cannot be read is an error.",
    ],
};

/// Words an error as the reference server does.
fn error_text(failure: &Failure<'_>) -> String {
    match failure.error.kind() {
        ErrorKind::AmbiguousMatch => format!(
            "oldText appears {} times in {}, at lines {}. Include more surrounding text to make it unique.",
            failure.number("count").unwrap_or(2),
            failure.text("path"),
            failure.lines()
        ),
        _ => failure.words(),
    }
}
