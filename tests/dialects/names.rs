//! Errors and warnings use only the names of tools and fields that the caller has.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use lbx::catalog::TOOLS;
use lbx::dialect::{DIALECTS, Dialect};
use serde_json::{Value, json};

use crate::common::{Workspace, make_fifo};

/// A call: the tool and its request.
type Asked = (&'static str, Value);

/// Requests of a family for each operation; `None` for an operation that it does not have.
struct Family {
    /// Name of the dialect.
    name: &'static str,
    /// Reads a file from a line on.
    read: fn(&str, u64) -> Asked,
    /// Writes a file.
    write: fn(&str, &str) -> Option<Asked>,
    /// Replaces a text.
    edit: fn(&str, &str, &str) -> Option<Asked>,
    /// Lists a folder.
    list: fn(&str) -> Asked,
    /// Searches a folder.
    grep: fn(&str, &str) -> Option<Asked>,
    /// Finds files.
    glob: fn(&str) -> Option<Asked>,
    /// Runs a command.
    bash: fn(&str) -> Option<Asked>,
}

/// All families.
const FAMILIES: &[Family] = &[
    Family {
        name: "claude",
        read: |path, line| ("Read", json!({ "file_path": path, "offset": line })),
        write: |path, text| Some(("Write", json!({ "file_path": path, "content": text }))),
        edit: |path, old, new| {
            Some(("Edit", json!({ "file_path": path, "old_string": old, "new_string": new })))
        },
        list: |path| ("LS", json!({ "path": path })),
        grep: |pattern, path| Some(("Grep", json!({ "pattern": pattern, "path": path, "type": "nosuch" }))),
        glob: |pattern| Some(("Glob", json!({ "pattern": pattern }))),
        bash: |command| Some(("Bash", json!({ "command": command }))),
    },
    Family {
        name: "codex",
        read: |path, line| ("read_file", json!({ "file_path": path, "offset": line })),
        write: |path, text| {
            let patch = format!("*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch\n");
            Some(("apply_patch", json!({ "input": patch })))
        },
        edit: |path, old, new| {
            let patch =
                format!("*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch\n");
            Some(("apply_patch", json!({ "input": patch })))
        },
        list: |path| ("list_dir", json!({ "dir_path": path })),
        grep: |pattern, path| Some(("grep_files", json!({ "pattern": pattern, "path": path }))),
        glob: |_| None,
        bash: |command| Some(("shell_command", json!({ "command": command, "workdir": "nowhere" }))),
    },
    Family {
        name: "gemini",
        read: |path, line| ("read_file", json!({ "file_path": path, "start_line": line })),
        write: |path, text| Some(("write_file", json!({ "file_path": path, "content": text }))),
        edit: |path, old, new| {
            Some(("replace", json!({ "file_path": path, "old_string": old, "new_string": new })))
        },
        list: |path| ("list_directory", json!({ "dir_path": path })),
        grep: |pattern, path| Some(("grep_search", json!({ "pattern": pattern, "dir_path": path }))),
        glob: |pattern| Some(("glob", json!({ "pattern": pattern }))),
        bash: |command| Some(("run_shell_command", json!({ "command": command, "dir_path": "nowhere" }))),
    },
    Family {
        name: "opencode",
        read: |path, line| ("read", json!({ "filePath": path, "offset": line })),
        write: |path, text| Some(("write", json!({ "filePath": path, "content": text }))),
        edit: |path, old, new| {
            Some(("edit", json!({ "filePath": path, "oldString": old, "newString": new })))
        },
        list: |path| ("list", json!({ "path": path })),
        grep: |pattern, path| Some(("grep", json!({ "pattern": pattern, "path": path }))),
        glob: |pattern| Some(("glob", json!({ "pattern": pattern }))),
        bash: |command| Some(("bash", json!({ "command": command, "description": "d", "timeout": 0 }))),
    },
    Family {
        name: "anthropic-editor",
        read: |path, line| (EDITOR, json!({ "command": "view", "path": path, "view_range": [line, -1] })),
        write: |path, text| Some((EDITOR, json!({ "command": "create", "path": path, "file_text": text }))),
        edit: |path, old, new| {
            let request = json!({ "command": "str_replace", "path": path, "old_str": old, "new_str": new });
            Some((EDITOR, request))
        },
        list: |path| (OLDER_EDITOR, json!({ "command": "undo_edit", "path": path })),
        grep: |_, path| {
            let request = json!({ "command": "insert", "path": path, "insert_line": 99, "insert_text": "x" });
            Some((EDITOR, request))
        },
        glob: |_| None,
        bash: |_| None,
    },
    Family {
        name: "anthropic-memory",
        read: |path, line| {
            ("memory", json!({ "command": "view", "path": memory(path), "view_range": [line, -1] }))
        },
        write: |path, text| {
            Some(("memory", json!({ "command": "create", "path": memory(path), "file_text": text })))
        },
        edit: |path, old, new| {
            let request =
                json!({ "command": "str_replace", "path": memory(path), "old_str": old, "new_str": new });
            Some(("memory", request))
        },
        list: |path| ("memory", json!({ "command": "delete", "path": memory(path) })),
        grep: |new, old| {
            let request = json!({ "command": "rename", "old_path": memory(old), "new_path": memory(new) });
            Some(("memory", request))
        },
        glob: |_| None,
        bash: |_| None,
    },
    Family {
        name: "mcp-filesystem",
        read: |path, line| ("read_text_file", json!({ "path": path, "head": line })),
        write: |path, text| Some(("write_file", json!({ "path": path, "content": text }))),
        edit: |path, old, new| {
            let edits = json!([{ "oldText": old, "newText": new }]);
            Some(("edit_file", json!({ "path": path, "edits": edits })))
        },
        list: |path| ("list_directory", json!({ "path": path })),
        grep: |to, from| Some(("move_file", json!({ "source": from, "destination": to }))),
        glob: |pattern| Some(("search_files", json!({ "path": ".", "pattern": pattern }))),
        bash: |_| None,
    },
    Family {
        name: "q",
        read: |path, line| fs_read(&json!({ "mode": "Line", "path": path, "start_line": line })),
        write: |path, text| {
            Some(("fs_write", json!({ "command": "create", "path": path, "file_text": text })))
        },
        edit: |path, old, new| {
            let request = json!({ "command": "str_replace", "path": path, "old_str": old, "new_str": new });
            Some(("fs_write", request))
        },
        list: |path| fs_read(&json!({ "mode": "Directory", "path": path })),
        grep: |pattern, path| Some(fs_read(&json!({ "mode": "Search", "path": path, "pattern": pattern }))),
        glob: |_| None,
        bash: |command| Some(("execute_bash", json!({ "command": command }))),
    },
];

/// Text editor of the family `anthropic-editor`.
const EDITOR: &str = "str_replace_based_edit_tool";
/// Older name of the text editor.
const OLDER_EDITOR: &str = "str_replace_editor";

/// Returns a path in the form that the memory tool takes.
fn memory(path: &str) -> String {
    format!("/memories/{path}")
}

/// Returns a call of `fs_read`.
fn fs_read(operation: &Value) -> Asked {
    ("fs_read", json!({ "operations": [operation] }))
}

/// Pairs of an old and a new text: old texts that match nowhere or too often, and a new text that changes nothing.
const EDITS: &[(&str, &str)] = &[
    ("zwei", "2"),
    ("Two", "2"),
    ("same", "x"),
    ("  two", "2"),
    ("two", "two"),
    ("two\n", "two\r\n"),
    ("", "2"),
    ("two", "// ... existing code ..."),
    ("\u{fffd}", "x"),
    ("a text like which there is nothing in any of these files", "x"),
];
/// Paths where a call finds another type of file than it expects.
const PLACES: &[&str] = &[
    "none.txt",
    "a.tx",
    "src",
    "a.txt/x",
    "/etc/passwd",
    ".git/config",
    ".lbx/x",
    "loop",
    "fifo",
    "bin",
    "utf16.txt",
    "latin.txt",
    "locked.txt",
    "out/x",
    "",
    "src/",
];

/// Creates the files of [`PLACES`] and [`EDITS`].
fn workspace() -> Workspace {
    let ws = Workspace::with(&[
        ("a.txt", "one\ntwo\nthree\n"),
        ("twice.txt", "same\nother\nsame\nsame same\n"),
        ("src/main.rs", "fn main() {}\n"),
    ]);
    ws.write(".lbx/config.toml", "protect = [\"locked.txt\"]\n");
    ws.write("bin", b"\0\x01\x02\0\0");
    ws.write("utf16.txt", b"\xff\xfea\0b\0\x00\xd8");
    ws.write("latin.txt", b"caf\xe9\nsame\nsame\n");
    ws.write("locked.txt", "one\n");
    symlink("loop", ws.path("loop")).unwrap();
    symlink("/usr", ws.path("out")).unwrap();
    make_fifo(&ws.path("fifo"));
    ws
}

/// Returns requests to a family that fail in as many ways as possible.
fn asked(family: &Family) -> Vec<Asked> {
    let mut all = Vec::new();
    for path in PLACES {
        all.push((family.list)(path));
        all.extend((family.write)(path, "x\n"));
        all.push((family.read)(path, 1));
        all.extend((family.write)(path, "x\n"));
        all.extend((family.edit)(path, "two", "2"));
        all.extend((family.grep)("x", path));
    }
    for path in ["a.txt", "twice.txt", "latin.txt"] {
        all.extend((family.write)(path, "x\n"));
        all.extend((family.edit)(path, "two", "2"));
        all.push((family.read)(path, 1));
        all.extend(EDITS.iter().filter_map(|(old, new)| (family.edit)(path, old, new)));
        all.extend((family.write)(path, "one\n// ... rest of the file ...\n"));
        all.push((family.read)(path, 99));
    }
    let patterns = ["(", "(?<=a)b", r"(a)\1", "a\\nb", "", "[", r"\(a\)"];
    all.extend(patterns.iter().filter_map(|pattern| (family.grep)(pattern, ".")));
    all.extend(["../x", "", "[", "{a"].iter().filter_map(|pattern| (family.glob)(pattern)));
    all.extend((family.bash)("true"));
    all
}

/// Returns the names of a dialect: tools, parameters, and the accepted words of the parameters.
fn names_of(dialect: &Dialect) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = dialect.tools.iter().map(|tool| tool.name.to_owned()).collect();
    dialect.tools.iter().for_each(|tool| collect(&tool.schema(), true, &mut names));
    names
}

/// Collects the names of fields, and their accepted words if `with_words` is set.
fn collect(schema: &Value, with_words: bool, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            names.extend(
                map.get("properties")
                    .and_then(Value::as_object)
                    .into_iter()
                    .flat_map(|it| it.keys().cloned()),
            );
            let words = map.get("enum").and_then(Value::as_array).filter(|_| with_words);
            names.extend(words.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
            map.values().for_each(|inner| collect(inner, with_words, names));
        }
        Value::Array(list) => list.iter().for_each(|inner| collect(inner, with_words, names)),
        _ => {}
    }
}

/// Returns the names of lbx that are not English words.
fn native_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for tool in TOOLS {
        collect(&(tool.request_schema)(), false, &mut names);
        collect(&(tool.response_schema)(), false, &mut names);
    }
    names.retain(|name| name.contains(|letter: char| letter == '_' || letter.is_ascii_digit()));
    // A pattern may be a glob.
    names.extend(["ls", "grep", "mkdir"].map(str::to_owned));
    names
}

/// Returns the names in a text that are neither in `own` nor in the request.
fn strange(said: &str, request: &Value, own: &BTreeSet<String>, native: &BTreeSet<String>) -> Vec<String> {
    let is_name =
        |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let quoted = said.split('`').skip(1).step_by(2).filter(is_name);
    let words = said.split(|letter: char| letter.is_whitespace() || "(),;:'`\"".contains(letter));
    let words = words.map(|word| word.trim_end_matches(['.', '?'])).filter(|word| native.contains(*word));
    let details = said.split_whitespace().filter(|word| word.trim_start_matches('(').starts_with("details."));
    let given: Vec<&str> = request.as_object().unwrap().values().filter_map(Value::as_str).collect();
    let unknown = quoted.chain(words).filter(|name| !own.contains(*name) && !given.contains(name));
    unknown.chain(details).map(str::to_owned).collect()
}

#[test]
fn dialect_errors_name_only_tools_and_fields_of_the_dialect() {
    assert_eq!(FAMILIES.len(), DIALECTS.len());
    let native = native_names();
    let mut faults = Vec::new();
    for family in FAMILIES {
        let own = names_of(lbx::dialect::find(family.name).unwrap());
        let ws = workspace();
        let mut refused = 0;
        let mut call = |(tool, request): Asked| {
            let answer = ws.lbx(&["--dialect", family.name, tool, "--json", &request.to_string()]);
            refused += usize::from(answer.status() != 0);
            // A warning is also on stderr.
            let said = answer.stderr();
            let strange = strange(&said, &request, &own, &native);
            if !strange.is_empty() {
                faults.push(format!("{} {tool} {request}\n    {strange:?} in: {said}", family.name));
            }
        };
        asked(family).into_iter().for_each(&mut call);
        // Another program changes a line next to the edited ones, and then the edited ones.
        for change in ["one\ntwo\n3\n", "one\n2\nthree\n"] {
            ws.write("a.txt", "one\ntwo\nthree\n");
            call((family.read)("a.txt", 1));
            ws.write("a.txt", change);
            (family.edit)("a.txt", "two", "zwei").into_iter().for_each(&mut call);
            (family.write)("a.txt", "all\n").into_iter().for_each(&mut call);
        }
        assert!(refused > 50, "{}: only {refused} calls went wrong", family.name);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
