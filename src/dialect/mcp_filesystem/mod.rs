//! `mcp-filesystem`: the tools of the npm reference server `@modelcontextprotocol/server-filesystem`.
//!
//! The tools are in `tools`, their texts in `texts`.

mod texts;
mod tools;

use super::tool::{Dialect, tool};
use crate::error::ErrorKind;

/// Dialect `mcp-filesystem`.
pub const FILESYSTEM: Dialect = Dialect {
    name: "mcp-filesystem",
    is_model_family: false,
    tools: &[
        tool!("read_file", Reads, tools::read_text, reads_files: true),
        tool!("read_text_file", Reads, tools::read_text, reads_files: true),
        tool!(
            "read_media_file", Reads, tools::read_media_file, reads_files: true,
            about: Some("Reads an image, an audio file or any other binary file, base64-encoded.")
        ),
        tool!("read_multiple_files", Reads, tools::read_multiple_files, reads_files: true),
        tool!(
            "write_file", Writes, tools::write_file,
            fields: &[("max_bytes", "read_text_file"), ("binary", "read_media_file")]
        ),
        tool!(
            "edit_file", Writes, tools::edit_file,
            fields: &[("old_string", "oldText"), ("new_string", "newText"), ("dry_run", "dryRun")]
        ),
        tool!(
            "create_directory", Adds, tools::create_directory,
            about: Some("Creates a directory, and those on the way to it. One that exists is left alone.")
        ),
        tool!(
            "list_directory", Reads, tools::list_directory,
            about: Some("Lists a directory, with [FILE] or [DIR] before each name.")
        ),
        tool!("list_directory_with_sizes", Reads, tools::list_directory_with_sizes),
        tool!("directory_tree", Reads, tools::directory_tree),
        tool!("move_file", Writes, tools::move_file, fields: &[("from", "source"), ("to", "destination")]),
        tool!("search_files", Reads, tools::search_files),
        tool!(
            "get_file_info", Reads, tools::get_file_info,
            about: Some("Tells size, times, type and permissions of a file or directory.")
        ),
        tool!("list_allowed_directories", Reads, tools::list_allowed_directories),
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
    error_texts: &[(
        ErrorKind::AmbiguousMatch,
        "oldText appears {count} times in {path}, at lines {lines}. Include more surrounding text to make it unique.",
    )],
    error_frame: "{}",
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
