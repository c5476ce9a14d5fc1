//! One transcript per family.

use serde_json::json;

use crate::steps::Says::{Error, Just, With};
use crate::steps::{Step, step};

/// Returns every family with its transcript.
pub fn transcripts() -> Vec<(&'static str, Vec<Step>)> {
    vec![
        ("claude", claude()),
        ("anthropic-editor", editor()),
        ("anthropic-memory", memory()),
        ("codex", codex()),
        ("gemini", gemini()),
        ("opencode", opencode()),
        ("q", q()),
        ("mcp-filesystem", filesystem().into_iter().chain(filesystem_folders()).collect()),
    ]
}

fn claude() -> Vec<Step> {
    let edit =
        |old: &str, new: &str| json!({ "file_path": "$ROOT/a.txt", "old_string": old, "new_string": new });
    vec![
        step("Edit", edit("two", "2"), Error("<tool_use_error>File has not been read yet.")),
        step("Read", json!({ "file_path": "$ROOT/a.txt" }), Just("1\tone\n2\ttwo\n3\tthree")),
        step("Read", json!({ "file_path": "a.txt", "offset": 2, "limit": 1 }), Just("2\ttwo")),
        step(
            "Read",
            json!({ "file_path": "empty.txt" }),
            Just("<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>"),
        ),
        step(
            "Read",
            json!({ "file_path": "a.txt", "offset": 9 }),
            With("shorter than the provided offset (9). The file has 3 lines"),
        ),
        step("Read", json!({ "file_path": "none.txt" }), Error("File does not exist.")),
        step("Edit", edit("two", "2"), Just("The file $ROOT/a.txt has been updated successfully.")),
        step("Edit", edit("nowhere", "x"), Error("String to replace not found in file.\nString: nowhere")),
        step("Read", json!({ "file_path": "twice.txt" }), With("3\tsame")),
        step(
            "Edit",
            json!({ "file_path": "twice.txt", "old_string": "same", "new_string": "x" }),
            Error("Found 2 matches of the string to replace, but replace_all is false."),
        ),
        step(
            "Edit",
            json!({ "file_path": "twice.txt", "old_string": "same", "new_string": "x", "replace_all": true }),
            Just("The file twice.txt has been updated. All occurrences were successfully replaced."),
        ),
        step(
            "Edit",
            json!({ "file_path": "made.txt", "old_string": "", "new_string": "made\n" }),
            Just("File created successfully at: made.txt"),
        ),
        step(
            "Edit",
            json!({ "file_path": "a.txt", "old_string": "", "new_string": "lost" }),
            Error("<tool_use_error>"),
        ),
        step(
            "MultiEdit",
            json!({ "file_path": "a.txt", "edits": [
                { "old_string": "one", "new_string": "1" }, { "old_string": "three", "new_string": "3" }
            ] }),
            With("Applied 2 edits to a.txt:\n1. Replaced \"one\" with \"1\""),
        ),
        step(
            "Write",
            json!({ "file_path": "n.txt", "content": "n\n" }),
            Just("File created successfully at: n.txt"),
        ),
        step(
            "Write",
            json!({ "file_path": "n.txt", "content": "m\n" }),
            Just("The file n.txt has been updated successfully."),
        ),
        step(
            "Write",
            json!({ "file_path": "src/main.rs", "content": "" }),
            Error("Read it first before writing to it."),
        ),
        step("Glob", json!({ "pattern": "**/*.rs" }), Just("$ROOT/src/main.rs")),
        step("Glob", json!({ "pattern": "*.none" }), Just("No files found")),
        step("Grep", json!({ "pattern": "main" }), Just("Found 1 file\nsrc/main.rs")),
        step(
            "Grep",
            json!({ "pattern": "two", "path": "src", "output_mode": "content", "-B": 1, "-n": true }),
            Just("src/main.rs-1-fn main() {\nsrc/main.rs:2:    two();"),
        ),
        step(
            "Grep",
            json!({ "pattern": "x", "output_mode": "count" }),
            With("Found 2 total occurrences across 1 file."),
        ),
        step("Grep", json!({ "pattern": "zzz", "output_mode": "content" }), Just("No matches found")),
        step(
            "LS",
            json!({ "path": "$ROOT", "ignore": ["*.txt"] }),
            Just("- $ROOT/\n  - src/\n    - main.rs"),
        ),
        step("LS", json!({ "path": "a.txt" }), Error("a.txt is not a directory")),
        step(
            "Grep",
            json!({
                "pattern": "main.*\n.*two", "path": "src", "output_mode": "content", "multiline": true, "-A": 1, "-n": true
            }),
            Just("src/main.rs:1:fn main() {\nsrc/main.rs:2:    two();\nsrc/main.rs-3-}"),
        ),
        step(
            "Bash",
            json!({ "command": "cat n.txt; echo err >&2", "description": "Show", "timeout": 5000 }),
            Just("m\nerr"),
        ),
        step(
            "NotebookEdit",
            json!({ "notebook_path": "a.txt", "cell_id": "cell-0", "new_source": "x" }),
            Error("File must be a Jupyter notebook (.ipynb file)."),
        ),
        step("BashOutput", json!({ "bash_id": "none" }), Error("No shell found with ID: none")),
        step("KillShell", json!({ "shell_id": "none" }), Error("No shell found with ID: none")),
        step("KillShell", json!({ "shell_id": "" }), Error("No shell found with ID: ")),
        step(
            "MultiEdit",
            json!({ "file_path": "a.txt", "edits": [] }),
            Error("`edits` is empty: give at least one edit"),
        ),
    ]
}

fn editor() -> Vec<Step> {
    let tool = "str_replace_based_edit_tool";
    let replace = |path: &str, old: &str| json!({ "command": "str_replace", "path": path, "old_str": old, "new_str": "x" });
    vec![
        step(
            tool,
            json!({ "command": "view", "path": "a.txt" }),
            Just("     1\tone\n     2\ttwo\n     3\tthree"),
        ),
        step(
            tool,
            json!({ "command": "view", "path": "a.txt", "view_range": [2, -1] }),
            Just("     2\ttwo\n     3\tthree"),
        ),
        step(
            tool,
            json!({ "command": "view", "path": "." }),
            With("Here're the files and directories up to 2 levels deep in ."),
        ),
        step(tool, replace("a.txt", "two"), With("The file a.txt has been edited.")),
        step(
            tool,
            replace("a.txt", "nowhere"),
            Error("No replacement was performed, old_str `nowhere` did not appear verbatim in a.txt."),
        ),
        step(tool, json!({ "command": "view", "path": "twice.txt" }), With("same")),
        step(tool, replace("twice.txt", "same"), Error("in lines: 1, 3. Please ensure it is unique")),
        step(
            tool,
            json!({ "command": "create", "path": "c.txt", "file_text": "c\n" }),
            Just("File created successfully at: c.txt"),
        ),
        step(
            tool,
            json!({ "command": "create", "path": "src/main.rs", "file_text": "" }),
            Error("Read it first"),
        ),
        step(
            tool,
            json!({ "command": "insert", "path": "a.txt", "insert_line": 0, "insert_text": "zero" }),
            With("     1\tzero\n     2\tone"),
        ),
        step(
            tool,
            json!({ "command": "view", "path": "none" }),
            Error("The path none does not exist. Please provide a valid path."),
        ),
        step(
            "str_replace_editor",
            json!({ "command": "undo_edit", "path": "a.txt" }),
            Just("Last edit to a.txt undone successfully."),
        ),
        step(tool, json!({ "command": "view", "path": "a.txt" }), With("     1\tone\n     2\tx")),
    ]
}

fn memory() -> Vec<Step> {
    let call = |request: serde_json::Value, says| step("memory", request, says);
    vec![
        call(
            json!({ "command": "create", "path": "/memories/notes.md", "file_text": "one\ntwo\n" }),
            Just("File created successfully at: /memories/notes.md"),
        ),
        call(
            json!({ "command": "create", "path": "/memories/notes.md", "file_text": "one\ntwo\n" }),
            Error("File /memories/notes.md already exists"),
        ),
        call(
            json!({ "command": "view", "path": "/memories/notes.md" }),
            Just(
                "Here's the content of /memories/notes.md with line numbers:\n     1\tone\n     2\ttwo\n     3\t",
            ),
        ),
        call(
            json!({ "command": "str_replace", "path": "/memories/notes.md", "old_str": "two", "new_str": "2" }),
            With(
                "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\tone\n     2\t2",
            ),
        ),
        call(
            json!({ "command": "insert", "path": "/memories/notes.md", "insert_line": 9, "insert_text": "x" }),
            Error("Invalid `insert_line` parameter: 9. It should be within the range [0, 2]."),
        ),
        call(
            json!({ "command": "insert", "path": "/memories/notes.md", "insert_line": 1, "insert_text": "half" }),
            Just("The file /memories/notes.md has been edited."),
        ),
        call(json!({ "command": "view", "path": "/memories/src" }), With("/memories/src/main.rs")),
        call(
            json!({ "command": "rename", "old_path": "/memories/notes.md", "new_path": "/memories/a.txt" }),
            Error("The destination /memories/a.txt already exists"),
        ),
        call(
            json!({ "command": "rename", "old_path": "/memories/notes.md", "new_path": "/memories/m/n.md" }),
            Just("Successfully renamed /memories/notes.md to /memories/m/n.md"),
        ),
        call(json!({ "command": "delete", "path": "/memories/m" }), Just("Successfully deleted /memories/m")),
        call(
            json!({ "command": "delete", "path": "/memories/m" }),
            Error("The path /memories/m does not exist"),
        ),
        call(
            json!({ "command": "delete", "path": "/memories" }),
            Error("Cannot delete the /memories directory itself"),
        ),
        call(
            json!({ "command": "view", "path": "/etc/passwd" }),
            Error("Path must start with /memories, got: /etc/passwd"),
        ),
        call(
            json!({ "command": "view", "path": "/memories/../../outside" }),
            Error("escape /memories directory"),
        ),
        call(
            json!({ "command": "create", "path": "/memories/none.md", "file_text": "" }),
            Just("File created successfully at: /memories/none.md"),
        ),
        call(
            json!({ "command": "view", "path": "/memories/none.md" }),
            Just("Here's the content of /memories/none.md with line numbers:\n     1\t"),
        ),
        call(json!({ "command": "view", "path": "/memories/a.txt" }), With("     4\t")),
        call(
            json!({ "command": "view", "path": "/memories/a.txt", "view_range": [3, 9] }),
            With("     3\tthree\n     4\t"),
        ),
        call(
            json!({ "command": "str_replace", "path": "/memories/a.txt", "old_str": "two", "new_str": "2" }),
            With("     2\t2\n     3\tthree\n     4\t"),
        ),
        call(
            json!({ "command": "str_replace", "path": "/memories/a.txt", "old_str": "two", "new_str": "2" }),
            Error("old_str `two` did not appear verbatim in /memories/a.txt."),
        ),
        call(
            json!({ "command": "str_replace", "path": "/memories/src", "old_str": "two", "new_str": "2" }),
            Error("The path /memories/src is not a file."),
        ),
    ]
}

fn codex() -> Vec<Step> {
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Add File: new.txt\n+new\n*** End Patch\n";
    vec![
        step(
            "apply_patch",
            json!({ "input": patch }),
            Just("Success. Updated the following files:\nM a.txt\nA new.txt"),
        ),
        step("apply_patch", json!({ "input": "nothing" }), Error("")),
        step("read_file", json!({ "file_path": "$ROOT/a.txt", "offset": 2 }), Just("L2: 2\nL3: three")),
        step("read_file", json!({ "file_path": "a.txt", "offset": 9 }), Error("offset exceeds file length")),
        step(
            "read_file",
            json!({ "file_path": "src/main.rs", "mode": "indentation", "indentation": { "anchor_line": 2 } }),
            With("L2:     two();"),
        ),
        step(
            "read_file",
            json!({
                "file_path": "src/main.rs", "mode": "indentation",
                "indentation": { "anchor_line": 2, "max_lines": 1 }
            }),
            With("L2:     two();"),
        ),
        step("list_dir", json!({ "dir_path": "$ROOT/src" }), Just("Absolute path: $ROOT/src\nmain.rs")),
        step("list_dir", json!({ "dir_path": "a.txt" }), Error("a.txt is not a directory")),
        step("grep_files", json!({ "pattern": "main" }), Just("src/main.rs")),
        step("grep_files", json!({ "pattern": "zzz" }), Just("No matches found.")),
        step("view_image", json!({ "path": "a.txt" }), Error("is not an image")),
        step("shell", json!({ "command": ["bash", "-lc", "echo out"] }), With("Exit code: 0\nWall time: ")),
        step("shell", json!({ "command": ["echo", "a  b"] }), With("Output:\na  b")),
        step("shell_command", json!({ "command": "echo out" }), With("Output:\nout")),
        step("exec_command", json!({ "cmd": "echo out" }), With("\"output\":\"out\\n\"")),
    ]
}

fn gemini() -> Vec<Step> {
    vec![
        step("read_file", json!({ "file_path": "a.txt" }), Just("one\ntwo\nthree")),
        step(
            "read_file",
            json!({ "file_path": "a.txt", "start_line": 2, "end_line": 2 }),
            With("Status: Showing lines 2-2 of 3 total lines."),
        ),
        step(
            "read_many_files",
            json!({ "include": ["*.txt"], "exclude": ["twice.txt"] }),
            With("--- a.txt ---\n\none\ntwo\nthree\n\n\n--- empty.txt ---"),
        ),
        step(
            "replace",
            json!({ "file_path": "a.txt", "instruction": "count", "old_string": "two", "new_string": "2" }),
            With("Successfully modified file: a.txt (1 replacement)."),
        ),
        step(
            "replace",
            json!({ "file_path": "a.txt", "instruction": "", "old_string": "zzz", "new_string": "2" }),
            Error("Failed to edit, 0 occurrences found for old_string in a.txt."),
        ),
        step("read_file", json!({ "file_path": "twice.txt" }), With("same")),
        step(
            "replace",
            json!({ "file_path": "twice.txt", "old_string": "same", "new_string": "x" }),
            Error("Expected 1 occurrence but found 2"),
        ),
        step(
            "replace",
            json!({ "file_path": "new.txt", "old_string": "", "new_string": "x\n" }),
            Just("Created new file: new.txt with provided content."),
        ),
        step(
            "write_file",
            json!({ "file_path": "w.txt", "content": "w\n" }),
            Just("Successfully created and wrote to new file: w.txt."),
        ),
        step(
            "write_file",
            json!({ "file_path": "w.txt", "content": "v\n" }),
            Just("Successfully overwrote file: w.txt."),
        ),
        step(
            "grep_search",
            json!({ "pattern": "MAIN" }),
            Just(
                "Found 1 match for pattern \"MAIN\" in path \".\":\n---\nFile: src/main.rs\nL1: fn main() {\n---",
            ),
        ),
        step(
            "search_file_content",
            json!({ "pattern": "zzz" }),
            Just("No matches found for pattern \"zzz\" in path \".\"."),
        ),
        step(
            "glob",
            json!({ "pattern": "**/*.rs" }),
            With(
                "Found 1 file(s) matching \"**/*.rs\" within ., sorted by modification time (newest first):\n$ROOT/src/main.rs",
            ),
        ),
        step(
            "list_directory",
            json!({ "dir_path": "src" }),
            Just("Directory listing for src:\nmain.rs (25 bytes)"),
        ),
        step("list_directory", json!({ "dir_path": "a.txt" }), Error("a.txt is not a directory")),
        step(
            "run_shell_command",
            json!({ "command": "echo out; exit 2" }),
            Just("Output: out\n\nExit Code: 2"),
        ),
    ]
}

fn opencode() -> Vec<Step> {
    vec![
        step(
            "read",
            json!({ "filePath": "a.txt", "offset": 2 }),
            Just(
                "<path>a.txt</path>\n<type>file</type>\n<content>\n2: two\n3: three\n\n(End of file - total 3 lines)\n</content>",
            ),
        ),
        step(
            "read",
            json!({ "filePath": "src" }),
            Just("<path>src</path>\n<type>directory</type>\n<entries>\nmain.rs\n</entries>"),
        ),
        step(
            "edit",
            json!({ "filePath": "a.txt", "oldString": "two", "newString": "2" }),
            Just("Edit applied successfully."),
        ),
        step(
            "edit",
            json!({ "filePath": "a.txt", "oldString": "zzz", "newString": "2" }),
            Error("Could not find oldString in the file. It must match exactly."),
        ),
        step(
            "edit",
            json!({ "filePath": "twice.txt", "oldString": "same", "newString": "2" }),
            Error("You must read file twice.txt"),
        ),
        step("write", json!({ "filePath": "w.txt", "content": "w\n" }), Just("Wrote file successfully.")),
        step(
            "apply_patch",
            json!({ "patchText": "*** Begin Patch\n*** Add File: p.txt\n+p\n*** End Patch\n" }),
            Just("Success. Updated the following files:\nA p.txt"),
        ),
        step(
            "grep",
            json!({ "pattern": "main" }),
            Just("Found 1 match\nsrc/main.rs:\n  Line 1: fn main() {"),
        ),
        step("glob", json!({ "pattern": "*.rs" }), Just("$ROOT/src/main.rs")),
        step("list", json!({ "path": "src" }), Just("$ROOT/src/\n  main.rs")),
        step("list", json!({ "path": "a.txt" }), Error("a.txt is not a directory")),
        step("bash", json!({ "command": "echo out", "description": "d" }), Just("out")),
    ]
}

fn q() -> Vec<Step> {
    let read = |operation: serde_json::Value| json!({ "operations": [operation] });
    vec![
        step(
            "fs_read",
            read(json!({ "mode": "Line", "path": "a.txt", "start_line": -2 })),
            Just("two\nthree"),
        ),
        step("fs_read", read(json!({ "mode": "Directory", "path": "src" })), With("src/main.rs")),
        step(
            "fs_read",
            read(json!({ "mode": "Search", "path": "src", "pattern": "TWO", "context_lines": 0 })),
            Just("[{\"context\":\"    two();\",\"line_number\":2}]"),
        ),
        step(
            "fs_write",
            json!({ "command": "str_replace", "path": "a.txt", "old_str": "two", "new_str": "2", "summary": "count" }),
            With("a.txt"),
        ),
        step(
            "fs_write",
            json!({ "command": "str_replace", "path": "a.txt", "old_str": "zzz", "new_str": "2" }),
            Error("no occurrences of \"zzz\" were found"),
        ),
        step("fs_write", json!({ "command": "append", "path": "a.txt", "new_str": "four\n" }), With("a.txt")),
        step(
            "fs_write",
            json!({ "command": "insert", "path": "a.txt", "insert_line": 0, "new_str": "zero" }),
            With("a.txt"),
        ),
        step("fs_write", json!({ "command": "create", "path": "c.txt", "file_text": "c\n" }), With("c.txt")),
        step("fs_read", read(json!({ "mode": "Line", "path": "a.txt" })), Just("zero\none\n2\nthree\nfour")),
        step("execute_bash", json!({ "command": "echo out" }), With("\"stdout\":\"out\\n\"")),
    ]
}

fn filesystem() -> Vec<Step> {
    let edit = |old: &str, new: &str, dry: bool| json!({ "path": "$ROOT/a.txt", "edits": [{ "oldText": old, "newText": new }], "dryRun": dry });
    vec![
        step("list_allowed_directories", json!({}), Just("Allowed directories:\n$ROOT")),
        step("edit_file", edit("two", "2", true), Error("Read")),
        step("read_text_file", json!({ "path": "$ROOT/a.txt", "head": 2 }), Just("one\ntwo")),
        step("read_text_file", json!({ "path": "$ROOT/a.txt", "tail": 2 }), Just("three")),
        step("read_file", json!({ "path": "a.txt" }), Just("one\ntwo\nthree")),
        step(
            "read_text_file",
            json!({ "path": "a.txt", "head": 1, "tail": 1 }),
            Error("Cannot specify both head and tail"),
        ),
        step(
            "read_text_file",
            json!({ "path": "none" }),
            Error("ENOENT: no such file or directory, open '$ROOT/none'"),
        ),
        step(
            "read_text_file",
            json!({ "path": "/etc/passwd" }),
            Error("Access denied - path outside allowed directories: /etc/passwd not in $ROOT"),
        ),
        step(
            "read_multiple_files",
            json!({ "paths": ["empty.txt", "none", "a.txt"] }),
            With("\n---\nnone: Error - ENOENT: no such file"),
        ),
        step(
            "edit_file",
            edit("two", "2", true),
            With(
                "--- $ROOT/a.txt\toriginal\n+++ $ROOT/a.txt\tmodified\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n```",
            ),
        ),
        step("edit_file", edit("two", "2", false), With("```diff\nIndex: $ROOT/a.txt\n")),
        step("edit_file", edit("zwei", "2", false), Error("Could not find exact match for edit:\nzwei")),
        step("write_file", json!({ "path": "twice.txt", "content": "lost\n" }), Error("Read")),
        step(
            "write_file",
            json!({ "path": "new.txt", "content": "new\n" }),
            Just("Successfully wrote to new.txt"),
        ),
        step(
            "write_file",
            json!({ "path": "no/new.txt", "content": "" }),
            Error("ENOENT: no such file or directory, open"),
        ),
    ]
}

/// Returns steps for folders, lists and the remaining errors.
fn filesystem_folders() -> Vec<Step> {
    vec![
        step("create_directory", json!({ "path": "d/e" }), Just("Successfully created directory d/e")),
        step("create_directory", json!({ "path": "d/e" }), Just("Successfully created directory d/e")),
        step(
            "create_directory",
            json!({ "path": "a.txt" }),
            Error("EEXIST: file already exists, mkdir '$ROOT/a.txt'"),
        ),
        step(
            "move_file",
            json!({ "source": "new.txt", "destination": "d/e/n.txt" }),
            Just("Successfully moved new.txt to d/e/n.txt"),
        ),
        step(
            "move_file",
            json!({ "source": "a.txt", "destination": "twice.txt" }),
            Error("Destination already exists: $ROOT/twice.txt"),
        ),
        step(
            "move_file",
            json!({ "source": "none", "destination": "x" }),
            Error("ENOENT: no such file or directory, rename '$ROOT/none' -> '$ROOT/x'"),
        ),
        step("list_directory", json!({ "path": "d" }), Just("[DIR] e")),
        step(
            "list_directory_with_sizes",
            json!({ "path": "d/e" }),
            With(
                "[FILE] n.txt                                 4 B\n\nTotal: 1 files, 0 directories\nCombined size: 4 B",
            ),
        ),
        step(
            "directory_tree",
            json!({ "path": "d" }),
            With("\"name\": \"e\",\n    \"type\": \"directory\",\n    \"children\": ["),
        ),
        step("search_files", json!({ "path": "$ROOT", "pattern": "**/*.rs" }), Just("$ROOT/src/main.rs")),
        step(
            "search_files",
            json!({ "path": "$ROOT", "pattern": "**/*.rs", "excludePatterns": ["src"] }),
            Just("No matches found"),
        ),
        step(
            "get_file_info",
            json!({ "path": "d/e/n.txt" }),
            With("isDirectory: false\nisFile: true\npermissions: 6"),
        ),
        step("read_media_file", json!({ "path": "none" }), Error("ENOENT")),
        step("read_media_file", json!({ "path": "a.txt" }), With("")),
        step("read_text_file", json!({ "path": "twice.txt" }), Just("same\nother\nsame")),
        step(
            "edit_file",
            json!({ "path": "twice.txt", "edits": [{ "oldText": "same", "newText": "x" }] }),
            Error("oldText appears 2 times in twice.txt, at lines 1, 3. Include more surrounding text"),
        ),
        step(
            "read_text_file",
            json!({ "path": "../x/../y" }),
            Error("Access denied - path outside allowed directories: /"),
        ),
        step(
            "move_file",
            json!({ "source": "d", "destination": "d/e/d" }),
            Error("EINVAL: invalid argument, rename '$ROOT/d' -> '$ROOT/d/e/d'"),
        ),
        step(
            "list_directory",
            json!({ "path": "a.txt/x" }),
            Error("ENOTDIR: not a directory, realpath '$ROOT/a.txt/x'"),
        ),
    ]
}
