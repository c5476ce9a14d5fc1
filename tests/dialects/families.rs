//! Each family on the command line.

use lbx::dialect::DIALECTS;
use serde_json::json;

use crate::common::Workspace;
use crate::steps::{FILES, check, request};
use crate::transcripts::transcripts;

#[test]
fn dialect_responses_match_the_recorded_transcripts() {
    for (name, steps) in transcripts() {
        let ws = Workspace::with(FILES);
        for step in steps {
            let request = request(&ws, &step.request).to_string();
            let answer = ws.lbx(&["--dialect", name, step.tool, "--json", &request]);
            let is_error = answer.status() != 0;
            let said = if is_error { answer.stderr() } else { answer.stdout_text() };
            check(&ws, &step, is_error, &said);
        }
    }
}

#[test]
fn tool_name_unique_to_a_dialect_selects_it() {
    let ws = Workspace::with(FILES);
    let read = ws.call(&["--json", r#"{"file_path":"a.txt"}"#]).named("Read").run();
    assert_eq!(read.stdout_text(), "1\tone\n2\ttwo\n3\tthree\n");
    let edit = ws.lbx_stdin(&["Edit"], r#"{"file_path":"a.txt","old_string":"two","new_string":"2"}"#);
    assert_eq!(edit.stdout_text(), "The file a.txt has been updated successfully.\n");
    ws.holds("a.txt", "one\n2\nthree\n");
    // lbx's own name comes first if both have it.
    ws.lbx(&["grep", "three"]).ok();
    ws.lbx(&["--dialect", "nobody", "read", "a.txt"]).error("invalid_request");
    let json = ws.call(&["LS", "--json", r#"{"path":"src"}"#]).env("LBX_OUTPUT", "json").run().ok();
    assert!(json["text"].as_str().unwrap().ends_with("- main.rs"), "{json}");
    let refused = ws.call(&["Read", "--json", r#"{"path":"src"}"#]).env("LBX_OUTPUT", "json").run();
    refused.error("invalid_request");
}

#[test]
fn dialect_edits_are_snapshotted_undoable_and_checked() {
    let ws = Workspace::with(FILES);
    ws.lbx(&["Read", "--json", r#"{"file_path":"a.txt"}"#]).stdout();
    ws.lbx(&["Edit", "--json", r#"{"file_path":"a.txt","old_string":"two","new_string":"2"}"#]).stdout();
    assert_eq!(ws.snapshots(), ["edit: a.txt"]);
    ws.lbx(&["undo"]).ok();
    ws.holds("a.txt", "one\ntwo\nthree\n");
    // Another program changes the file.
    ws.lbx(&["Read", "--json", r#"{"file_path":"a.txt"}"#]).stdout();
    ws.write("a.txt", "one\ntwo\nfour\n");
    let stale = ws.lbx(&["Edit", "--json", r#"{"file_path":"a.txt","old_string":"two","new_string":"2"}"#]);
    assert_eq!(stale.status(), 6);
    assert!(stale.stderr().contains("File has been modified since read"), "{}", stale.stderr());
    ws.holds("a.txt", "one\ntwo\nfour\n");
}

#[test]
fn transcripts_cover_every_tool_of_every_dialect() {
    let all = transcripts();
    assert_eq!(all.len(), DIALECTS.len());
    for dialect in DIALECTS {
        let (_, steps) = all.iter().find(|(name, _)| *name == dialect.name).unwrap();
        for tool in dialect.tools {
            assert!(steps.iter().any(|step| step.tool == tool.name), "{} {}", dialect.name, tool.name);
        }
    }
}

#[test]
fn notebook_edit_changes_only_the_cell_that_was_read() {
    let notebook = "{\n \"cells\": [\n  {\n   \"cell_type\": \"markdown\",\n   \"metadata\": {\"x\":1},\n   \"source\": [\n    \"# T\\n\",\n    \"t\"\n   ]\n  },\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": 1,\n   \"metadata\": {},\n   \"outputs\": [\n    {\"output_type\": \"stream\", \"name\": \"stdout\", \"text\": \"1\"}\n   ],\n   \"source\": [\n    \"print(1)\"\n   ]\n  }\n ],\n \"nbformat\": 4,\n \"nbformat_minor\": 4\n}\n";
    let ws = Workspace::with(&[("n.ipynb", notebook), ("text.ipynb", "no notebook\n")]);
    let ask = |tool: &str, request: serde_json::Value| {
        ws.lbx(&["--dialect", "claude", tool, "--json", &request.to_string()])
    };
    let edit = json!({ "notebook_path": "n.ipynb", "cell_id": "cell-1", "new_source": "x = 2\nprint(x)" });
    let unread = ask("NotebookEdit", edit.clone());
    assert!(unread.stderr().contains("File has not been read yet."), "{}", unread.stderr());
    ws.holds("n.ipynb", notebook);
    let read = ask("Read", json!({ "file_path": "n.ipynb" })).stdout_text();
    assert!(read.starts_with("<cell id=\"cell-0\"><cell_type>markdown</cell_type># T\nt</cell id=\"cell-0\">\n<cell id=\"cell-1\">print(1)</cell id=\"cell-1\">\n"), "{read}");
    let said = ask("NotebookEdit", edit.clone()).stdout_text();
    assert_eq!(said, "Updated cell cell-1 with x = 2\nprint(x)\n");
    let (before, _) = notebook.split_once("   \"execution_count\"").unwrap();
    ws.holds("n.ipynb", format!(
        "{before}   \"execution_count\": null,\n   \"metadata\": {{}},\n   \"outputs\": [],\n   \"source\": [\n    \"x = 2\\n\",\n    \"print(x)\"\n   ]\n  }}\n ],\n \"nbformat\": 4,\n \"nbformat_minor\": 4\n}}\n"
    ));
    let insert = json!({ "notebook_path": "n.ipynb", "edit_mode": "insert", "cell_type": "markdown", "new_source": "first" });
    // A line that repeats its neighbour is no mistake of the caller.
    let twice =
        json!({ "notebook_path": "n.ipynb", "cell_id": "cell-1", "new_source": "x = 2\nx = 2\nprint(x)" });
    ask("NotebookEdit", twice).stdout();
    ask("NotebookEdit", insert).stdout();
    ask("Read", json!({ "file_path": "n.ipynb" })).stdout();
    ask("NotebookEdit", json!({ "notebook_path": "n.ipynb", "edit_mode": "delete", "cell_id": "cell-2" }))
        .stdout();
    let text = std::fs::read_to_string(ws.path("n.ipynb")).unwrap();
    let cells = serde_json::from_str::<serde_json::Value>(&text).unwrap()["cells"].take();
    assert_eq!((cells[0]["source"][0].as_str(), cells.as_array().unwrap().len()), (Some("first"), 2));
    ws.lbx(&["undo", "--steps", "4"]).ok();
    ws.holds("n.ipynb", notebook);
    ask("Read", json!({ "file_path": "n.ipynb" })).stdout();
    // Another program changes the notebook; and a file that is not a notebook is read as text.
    ws.write("n.ipynb", notebook.replace("print(1)", "print(3)"));
    let stale = ask("NotebookEdit", edit);
    assert!(stale.stderr().contains("File has been modified since read"), "{}", stale.stderr());
    assert_eq!(ask("Read", json!({ "file_path": "text.ipynb" })).stdout_text(), "1\tno notebook\n");
}

#[test]
fn diff_of_the_filesystem_server_has_the_text_of_a_utf16_file() {
    let ws = Workspace::with(&[]);
    let utf16 = |text: &str| -> Vec<u8> {
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    std::fs::write(ws.path("u.txt"), utf16("one\ntwo\n")).unwrap();
    let ask = |tool: &str, request: serde_json::Value| {
        ws.lbx(&["--dialect", "mcp-filesystem", tool, "--json", &request.to_string()]).stdout_text()
    };
    ask("read_text_file", json!({ "path": "u.txt" }));
    for is_preview in [true, false] {
        let edits = json!([{ "oldText": "two", "newText": "2" }]);
        let said = ask("edit_file", json!({ "path": "u.txt", "edits": edits, "dryRun": is_preview }));
        assert!(said.contains("@@ -1,2 +1,2 @@\n one\n-two\n+2\n"), "{said}");
    }
    assert_eq!(std::fs::read(ws.path("u.txt")).unwrap(), utf16("one\n2\n"));
}

#[test]
fn claude_bash_returns_the_exit_code_of_a_failed_command() {
    let ws = Workspace::with(FILES);
    let request = json!({ "command": "echo out; echo err >&2; exit 3" }).to_string();
    let answer = ws.lbx(&["--dialect", "claude", "Bash", "--json", &request]);
    assert_eq!((answer.status(), answer.stdout_text().as_str()), (1, "Exit code 3\nout\nerr\n"));
}

#[test]
fn dialect_tool_is_found_by_its_name() {
    let ws = Workspace::with(FILES);
    for (tool, request, said) in [
        ("Read", json!({ "file_path": "a.txt" }), "1\tone"),
        ("search_file_content", json!({ "pattern": "two" }), "Found"),
        ("list_directory", json!({ "dir_path": "." }), "Directory listing for"),
        ("list_allowed_directories", json!({}), "Allowed directories:"),
    ] {
        let answer = ws.lbx(&[tool, "--json", &request.to_string()]);
        assert!(answer.stdout_text().contains(said), "{tool}");
    }
}

#[test]
fn dialect_background_command_can_be_read_and_killed() {
    let ws = Workspace::with(FILES);
    let ask = |dialect: &str, tool: &str, request: serde_json::Value| {
        ws.lbx(&["--dialect", dialect, tool, "--json", &request.to_string()]).stdout_text()
    };
    let command = "echo first; echo second; sleep 60";
    let started = ask("claude", "Bash", json!({ "command": command, "run_in_background": true }));
    let id = started.trim().rsplit(' ').next().unwrap();
    assert_eq!(started, format!("Command running in background with ID: {id}\n"));
    let mut said = String::new();
    while !said.contains("second") {
        said = ask("claude", "BashOutput", json!({ "bash_id": id }));
    }
    assert_eq!(said, "<status>running</status>\n\n<stdout>\nfirst\nsecond\n</stdout>\n");
    let some = ask("claude", "BashOutput", json!({ "bash_id": id, "filter": "^sec" }));
    assert_eq!(some, "<status>running</status>\n\n<stdout>\nsecond\n</stdout>\n");
    let ended = ask("claude", "KillShell", json!({ "shell_id": id }));
    assert_eq!(ended, format!("Successfully killed shell: {id} ({command})\n"));
    assert!(ask("claude", "BashOutput", json!({ "bash_id": id })).starts_with("<status>killed</status>"));
    let quick = ask("claude", "Bash", json!({ "command": "echo done", "run_in_background": true }));
    let quick = quick.trim().rsplit(' ').next().unwrap();
    let mut said = String::new();
    while !said.contains("<status>completed</status>\n\n<exit_code>0</exit_code>\n\n<stdout>\ndone\n") {
        said = ask("claude", "BashOutput", json!({ "bash_id": quick }));
        assert!(!said.contains("failed"), "{said}");
    }
    let said = ask("gemini", "run_shell_command", json!({ "command": "echo out", "is_background": true }));
    assert!(
        said.starts_with("Command moved to background (ID: ") && said.contains("Output: .lbx/"),
        "{said}"
    );
}

/// A tool that reads, and its request for a line of a file.
type Read<'r> = (&'r str, &'r dyn Fn(&str) -> serde_json::Value);

#[test]
fn long_dialect_output_names_the_file_with_the_rest() {
    let ws = Workspace::with(FILES);
    let ask = |dialect: &str, tool: &str, request: &serde_json::Value| {
        ws.lbx(&["--dialect", dialect, tool, "--json", &request.to_string()]).stdout_text()
    };
    let file_in = |said: &str| {
        let (_, rest) =
            said.split_once("[The output has 108894 bytes. Read the rest in ").unwrap_or_else(|| {
                panic!("the file is not named at the end of {:?}", end_of(said));
            });
        rest.split_once(']').unwrap().0.to_owned()
    };
    let (long, line) = ("seq 1 20000", 12_345);
    let fs_read = |path: &str| {
        let lines = json!({ "mode": "Line", "path": path, "start_line": line, "end_line": line });
        json!({ "operations": [lines] })
    };
    let by_line = |path: &str| json!({ "file_path": path, "offset": line, "limit": 1 });
    let words = json!({ "command": ["seq", "1", "20000"] });
    let cases: [(&str, &str, serde_json::Value, Read<'_>); 7] = [
        ("claude", "Bash", json!({ "command": long }), ("Read", &by_line)),
        ("codex", "shell", words, ("read_file", &by_line)),
        ("codex", "shell_command", json!({ "command": long }), ("read_file", &by_line)),
        ("codex", "exec_command", json!({ "cmd": long }), ("read_file", &by_line)),
        (
            "gemini",
            "run_shell_command",
            json!({ "command": long }),
            ("read_file", &|path| json!({ "file_path": path, "start_line": line, "end_line": line })),
        ),
        (
            "opencode",
            "bash",
            json!({ "command": long, "description": "count" }),
            ("read", &|path| json!({ "filePath": path, "offset": line, "limit": 1 })),
        ),
        ("q", "execute_bash", json!({ "command": long }), ("fs_read", &fs_read)),
    ];
    for (dialect, tool, request, (read, wanted)) in cases {
        let said = ask(dialect, tool, &request);
        let shown = said.split("[The output").next().unwrap();
        assert!(!shown.contains("12345"), "{dialect} {tool}: the middle is not left out");
        let read = ask(dialect, read, &wanted(&file_in(&said)));
        assert!(read.contains("12345"), "{dialect} {tool}: {read}");
    }
    // The end of a job's output is shown while all of it is in its file.
    let started = ask("claude", "Bash", &json!({ "command": long, "run_in_background": true }));
    let id = started.trim().rsplit(' ').next().unwrap();
    let mut said = String::new();
    while !said.starts_with("<status>completed") {
        said = ask("claude", "BashOutput", &json!({ "bash_id": id }));
    }
    assert!(ask("claude", "Read", &by_line(&file_in(&said))).contains("12345"), "{}", end_of(&said));
    // Short output is shown whole, and no file is named.
    assert_eq!(ask("claude", "Bash", &json!({ "command": "seq 1 2" })), "1\n2\n");
}

#[test]
fn dialect_schema_lists_only_its_tools() {
    let ws = Workspace::with(FILES);
    for dialect in DIALECTS {
        let schemas = ws.lbx(&["--dialect", dialect.name, "schema"]).ok();
        let names = schemas["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        assert!(names.eq(dialect.tools.iter().map(|tool| tool.name)), "{}: {schemas}", dialect.name);
        let text = schemas.to_string();
        assert!(!text.contains("x-ignored") && !text.contains("x-hidden"), "{text}");
    }
    let one = ws.lbx(&["schema", "Edit"]).ok();
    assert_eq!(one["tools"][0]["name"], "Edit");
    let one = ws.json("schema", &json!({ "dialect": "opencode", "tool": "edit" })).ok();
    assert!(one["tools"][0]["request"]["properties"]["oldString"].is_object(), "{one}");
    ws.lbx(&["--dialect", "claude", "schema", "edit"]).error("invalid_request");
}

#[test]
fn codex_shell_applies_an_apply_patch_script() {
    let ws = Workspace::with(FILES);
    let patch = |name: &str| format!("*** Begin Patch\n*** Add File: {name}\n+hi\n*** End Patch\n");
    let script = |name: &str| format!("apply_patch <<'EOF'\n{}EOF\n", patch(name));
    for (tool, request) in [
        ("shell", json!({ "command": ["apply_patch", patch("one")] })),
        ("shell", json!({ "command": ["bash", "-lc", script("two")] })),
        ("shell_command", json!({ "command": script("three") })),
        ("exec_command", json!({ "cmd": script("four") })),
    ] {
        let answer = ws.lbx(&["--dialect", "codex", tool, "--json", &request.to_string()]);
        let text = answer.stdout_text();
        assert!(text.contains("Success. Updated the following files:"), "{tool}: {text}{}", answer.stderr());
    }
    for name in ["one", "two", "three", "four"] {
        assert_eq!(std::fs::read(ws.path(name)).unwrap(), b"hi\n", "{name}");
    }
    // A text in place of words is a script.
    let request = json!({ "command": "cat one two" }).to_string();
    let answer = ws.lbx(&["--dialect", "codex", "shell", "--json", &request]);
    assert!(answer.stdout_text().contains("hi\nhi\n"), "{}", answer.stdout_text());
}

#[test]
fn codex_shell_patch_is_relative_to_workdir() {
    let ws = Workspace::with(&[("sub/a.txt", "one\n"), ("a.txt", "root\n")]);
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch";
    let script = format!("apply_patch <<'EOF'\n{patch}\nEOF");
    let call = |tool: &str, request: &serde_json::Value| {
        let answer = ws.lbx(&["--dialect", "codex", tool, "--json", &request.to_string()]);
        (answer.status(), format!("{}{}", answer.stdout_text(), answer.stderr()))
    };
    for (tool, request) in [
        ("shell", json!({ "command": ["apply_patch", patch], "workdir": "sub" })),
        ("shell_command", json!({ "command": script, "workdir": ws.path("sub").to_str().unwrap() })),
        ("exec_command", json!({ "cmd": script, "workdir": "sub/" })),
        ("exec_command", json!({ "cmd": format!("cd sub && {script}"), "workdir": "." })),
        ("shell_command", json!({ "command": format!("cd . && {script}"), "workdir": "sub" })),
    ] {
        let (status, said) = call(tool, &request);
        assert_eq!(status, 0, "{tool}: {said}");
        assert_eq!(std::fs::read(ws.path("sub/new.txt")).unwrap(), b"hi\n", "{tool}");
        std::fs::remove_file(ws.path("sub/new.txt")).unwrap();
        let mut elsewhere = request.clone();
        elsewhere["workdir"] = json!("nowhere");
        assert_ne!(call(tool, &elsewhere).0, 0, "{tool}");
    }
    // A script with more than the patch goes to the shell, which has no such program: nothing is dropped silently.
    for more in
        [format!("{script}\necho > more.txt"), script.replace("'EOF'\n", "'EOF' && echo > more.txt\n")]
    {
        let (_, said) = call("shell_command", &json!({ "command": more }));
        assert!(!said.contains("Success") && said.contains("apply_patch"), "{said}");
    }
    assert!(!ws.path("new.txt").exists() && !ws.path("sub/new.txt").exists());
}

#[test]
fn dialects_accept_parameters_without_effect() {
    let ws = Workspace::with(FILES);
    for (dialect, tool, request) in [
        ("claude", "Bash", json!({ "command": "true", "dangerouslyDisableSandbox": true })),
        ("codex", "exec_command", json!({ "cmd": "true", "tty": false, "yield_time_ms": 10_000 })),
        ("codex", "shell", json!({ "command": ["true"], "timeout": 1000, "sandbox_permissions": null })),
        (
            "codex",
            "exec_command",
            json!({ "cmd": "true", "justification": "x", "sandbox_permissions": "use_default" }),
        ),
        ("gemini", "read_many_files", json!({ "include": ["a.txt"], "useDefaultExcludes": true })),
        ("gemini", "read_many_files", json!({ "paths": ["a.txt"] })),
        ("gemini", "read_file", json!({ "absolute_path": "a.txt", "offset": 0, "limit": 1 })),
        ("gemini", "write_file", json!({ "file_path": "n.txt", "content": "x", "modified_by_user": false })),
        ("claude", "Read", json!({ "file_path": "a.txt", "pages": "" })),
    ] {
        let answer = ws.lbx(&["--dialect", dialect, tool, "--json", &request.to_string()]);
        assert_eq!(answer.status(), 0, "{dialect} {tool}: {}", answer.stderr());
    }
}

#[test]
fn dialect_errors_are_as_short_as_native_ones() {
    /// Largest native message, in bytes.
    const BYTES_MAX: usize = 4096 + 16;
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let long = "d/".repeat(50_000) + "x";
    for (family, tool, request) in [
        ("anthropic-memory", "memory", json!({"command": "view", "path": format!("/memories/{long}")})),
        ("anthropic-memory", "memory", json!({"command": "delete", "path": long})),
        ("mcp-filesystem", "read_text_file", json!({ "path": long })),
        ("mcp-filesystem", "write_file", json!({"path": format!("/{long}"), "content": "x"})),
        (
            "mcp-filesystem",
            "edit_file",
            json!({"path": "a.txt", "edits": [{"oldText": long, "newText": "x"}]}),
        ),
        ("claude", "Read", json!({ "file_path": long })),
        ("gemini", "read_file", json!({ "absolute_path": long })),
    ] {
        let answer = ws.lbx(&["--dialect", family, tool, "--json", &request.to_string()]);
        assert_ne!(answer.status(), 0, "{family} {tool}");
        let said = answer.stderr();
        assert!(!said.is_empty() && said.len() <= BYTES_MAX, "{family} {tool}: {} bytes", said.len());
    }
}

/// Creates a workspace whose files are longer than an answer: many lines, a long line, many files.
fn large_workspace() -> Workspace {
    let lines: String = (1..=5000).map(|number| format!("line {number}\n")).collect();
    let long_line = format!("{}{}\n{}", "a\n".repeat(100), "y".repeat(30_000), "z\n".repeat(100));
    let ws = Workspace::with(&[("lines.txt", &lines), ("long.txt", &long_line), ("z.txt", "z\n")]);
    for number in 0..1100 {
        ws.write(&format!("d/f{number:04}"), "hit\n");
    }
    ws
}

#[test]
fn dialects_report_omitted_lines_with_exact_counts() {
    let ws = large_workspace();
    let editor = "str_replace_based_edit_tool";
    let fs_read = |operation: serde_json::Value| json!({ "operations": [operation] });
    let rest = "Use offset and limit to read the rest.";
    let cases = [
        (
            "claude",
            "Read",
            json!({ "file_path": "lines.txt", "limit": 5000 }),
            "Lines 1 to 1786 of 5000 are shown.",
        ),
        ("claude", "Read", json!({ "file_path": "lines.txt", "limit": 5000 }), rest),
        ("claude", "Read", json!({ "file_path": "long.txt" }), "Only the start of line 101 is shown."),
        (
            "claude",
            "Grep",
            json!({ "pattern": "hit", "head_limit": 0 }),
            "\n\n[Showing results with pagination = limit: 8",
        ),
        ("claude", "LS", json!({ "path": "." }), " of 1104 entries. List a directory"),
        (
            "codex",
            "read_file",
            json!({ "file_path": "lines.txt" }),
            "\n[Lines 1 to 1575 of 5000 are shown. Use offset",
        ),
        (
            "codex",
            "read_file",
            json!({ "file_path": "long.txt", "limit": 101 }),
            "[Only the start of line 101 is shown.]",
        ),
        ("codex", "grep_files", json!({ "pattern": "hit" }), "\n[More than 100 files match]"),
        (
            "gemini",
            "read_file",
            json!({ "file_path": "long.txt" }),
            "Showing lines 1-201 of 201 total lines. Only the start of line 101 is",
        ),
        (
            "gemini",
            "read_file",
            json!({ "file_path": "lines.txt", "start_line": 9000 }),
            "The file has 5000 lines: there is nothing from line 9000 on.",
        ),
        ("gemini", "read_many_files", json!({ "include": ["*.txt"] }), "--- z.txt ---\n\nz"),
        (
            "gemini",
            "read_many_files",
            json!({ "include": ["d/*"] }),
            "matching files were not read, from d/f",
        ),
        (
            "gemini",
            "grep_search",
            json!({ "pattern": "hit", "names_only": true }),
            "in path \".\" (results limited):\n",
        ),
        ("gemini", "glob", json!({ "pattern": "d/*" }), "(These are the first "),
        (
            "opencode",
            "read",
            json!({ "filePath": "d", "offset": 1000, "limit": 2 }),
            "f1000\n\n(Showing 2 of 1100 entries. Use offset=1002",
        ),
        (
            "opencode",
            "read",
            json!({ "filePath": "long.txt" }),
            "(Only the start of line 101 is shown.)\n\n(End of file - total 201 lines)",
        ),
        ("opencode", "list", json!({}), "(These are the first 100 of 1104 entries."),
        (
            "q",
            "fs_read",
            fs_read(json!({ "mode": "Line", "path": "long.txt" })),
            "z\n\n[Only the start of line 101 is shown.]",
        ),
        (
            "q",
            "fs_read",
            fs_read(json!({ "mode": "Directory", "path": "d" })),
            " of 1100 entries; list a directory",
        ),
        (
            "q",
            "fs_read",
            fs_read(json!({ "mode": "Search", "path": "d", "pattern": "HIT" })),
            "]\n[These are the first 250 matches;",
        ),
        (
            "anthropic-editor",
            editor,
            json!({ "command": "view", "path": "lines.txt", "view_range": [10, 4000] }),
            "\n[Lines 10 to 1518 of 5000 are shown. Use view_range",
        ),
    ];
    for (dialect, tool, request, says) in cases {
        let said = ws.lbx(&["--dialect", dialect, tool, "--json", &request.to_string()]).stdout_text();
        assert!(said.contains(says), "{dialect} {tool} {request}: no {says:?} in …{}", end_of(&said));
    }
}

/// Returns the end of a text, for a message.
fn end_of(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(400))..]
}

#[test]
fn write_error_about_a_long_line_names_a_working_fix() {
    let long = format!("a\n{}\nz\n", "y".repeat(30_000));
    let ask = |ws: &Workspace, dialect: &str, tool: &str, request: &serde_json::Value| {
        let answer = ws.lbx(&["--dialect", dialect, tool, "--json", &request.to_string()]);
        answer.stdout_text() + &answer.stderr()
    };
    let ws = Workspace::with(&[("long.txt", &long)]);
    let write = json!({ "file_path": "long.txt", "content": "new\n" });
    let read = ask(&ws, "claude", "Read", &json!({ "file_path": "long.txt" }));
    assert!(read.contains("Only the start of line 2 is shown. Set allow_large to see long lines whole."));
    let said = ask(&ws, "claude", "Write", &write);
    let says = "Read line 2 of long.txt, then repeat the call: `allow_large` shows a long line whole.";
    assert!(said.contains(says), "{said}");
    ask(
        &ws,
        "claude",
        "Read",
        &json!({ "file_path": "long.txt", "offset": 2, "limit": 1, "allow_large": true }),
    );
    assert!(ask(&ws, "claude", "Write", &write).contains("updated successfully"));
    ws.holds("long.txt", "new\n");
    ws.write("bin", b"\0\x01");
    let said = ask(&ws, "claude", "Write", &json!({ "file_path": "bin", "content": "new\n" }));
    assert!(
        said.contains("before writing to it. To replace all of it, move it out of the way first."),
        "{said}"
    );
    // Without such a parameter the file is edited or moved.
    let shell =
        |tool: &'static str| (tool, json!({ "command": "mv long.txt old.txt", "description": "move" }));
    let other_path = json!({ "filePath": "long.txt", "content": "new\n" });
    let create = json!({ "command": "create", "path": "long.txt", "file_text": "new\n" });
    let fs_read = json!({ "operations": [{ "mode": "Line", "path": "long.txt" }] });
    let by_path = json!({ "file_path": "long.txt" });
    let cases = [
        ("gemini", ("read_file", by_path), ("write_file", &write), shell("run_shell_command"), "`replace`"),
        (
            "opencode",
            ("read", json!({ "filePath": "long.txt" })),
            ("write", &other_path),
            shell("bash"),
            "`edit`",
        ),
        ("q", ("fs_read", fs_read), ("fs_write", &create), shell("execute_bash"), "`fs_write`"),
    ];
    for (dialect, read, write, shell, edit) in cases {
        let ws = Workspace::with(&[("long.txt", &long)]);
        ask(&ws, dialect, read.0, &read.1);
        let said = ask(&ws, dialect, write.0, write.1);
        let says =
            format!("{edit} changes a part of it. To replace all of it, move it out of the way first.");
        assert!(said.contains(&says) && !said.contains("Read line"), "{dialect}: {said}");
        let moved = ask(&ws, dialect, shell.0, &without_description(shell.1, dialect));
        ask(&ws, dialect, write.0, write.1);
        assert_eq!(std::fs::read(ws.path("long.txt")).unwrap(), b"new\n", "{dialect}: {moved}");
        ws.holds("old.txt", long.as_str());
    }
}

/// Returns a request of a shell, as `q` takes it.
fn without_description(mut request: serde_json::Value, dialect: &str) -> serde_json::Value {
    if dialect == "q" {
        request.as_object_mut().unwrap().remove("description");
    }
    request
}

#[test]
fn read_many_files_shows_small_files_whole() {
    let ws = Workspace::with(&[("mixed/large.txt", &"a line of a large file\n".repeat(5000))]);
    for number in 0..100 {
        ws.write(&format!("tiny/{number:03}"), format!("{}end {number}\n", "tiny\n".repeat(20)));
        ws.write(&format!("small/{number:03}"), format!("{}end {number}\n", "small\n".repeat(100)));
    }
    for number in 0..10 {
        ws.write(&format!("mixed/{number}"), format!("{}end {number}\n", "mixed\n".repeat(100)));
    }
    let ask = |include: &str| {
        let request = json!({ "include": [include] }).to_string();
        ws.lbx(&["--dialect", "gemini", "read_many_files", "--json", &request]).stdout_text()
    };
    let said = ask("tiny/*");
    assert!((0..100).all(|number| said.contains(&format!("end {number}\n"))), "{}", end_of(&said));
    assert!(!said.contains("WARNING"), "{}", end_of(&said));
    // More than fits: some are whole, and the others are named.
    let said = ask("small/*");
    let whole = said.matches("\nend ").count();
    let left = format!("[WARNING: {} matching files were not read, from small/{whole:03} on.", 100 - whole);
    assert!(whole > 25 && said.contains(&left) && !said.contains("was cut"), "{whole}: {}", end_of(&said));
    let said = ask("mixed/*");
    assert!((0..10).all(|number| said.contains(&format!("end {number}\n"))), "{}", end_of(&said));
    assert!(said.contains("This file was cut after line ") && said.len() > 20_000, "{}", end_of(&said));
    for include in ["tiny/*", "small/*", "mixed/*"] {
        assert!(ask(include).len() < 30_000, "{include}");
    }
}

#[test]
fn dialect_errors_name_the_path_that_failed() {
    let ws = Workspace::with(FILES);
    let rename =
        |old: &str, new: &str| json!({ "command": "rename", "old_path": old, "new_path": new }).to_string();
    let create = |path: &str| json!({ "command": "create", "path": path, "file_text": "x" }).to_string();
    let undo = json!({ "command": "undo_edit", "path": "a.txt" }).to_string();
    let gone = json!({ "command": "undo_edit", "path": "none.txt" }).to_string();
    let (memory, editor) = (["anthropic-memory", "memory"], ["anthropic-editor", "str_replace_editor"]);
    for ([dialect, tool], request, says) in [
        (memory, rename("/memories/a.txt", "/memories/../x"), "Path /memories/../x would escape"),
        (memory, rename("/memories/../x", "/memories/b.txt"), "Path /memories/../x would escape"),
        (memory, rename("/memories/a.txt", "/memories/a.txt/b"), "a parent of /memories/a.txt/b is not"),
        (memory, rename("/memories/src", "/memories/src/x"), "/memories/src/x is inside /memories/src:"),
        (memory, rename("/memories/a.txt", "/memories/.git/b"), "/memories/.git/b is protected"),
        (memory, create("/memories/a.txt/b"), "a parent of /memories/a.txt/b is not a directory"),
        (memory, create("/memories/none/"), "The path /memories/none/ does not exist."),
        (editor, undo, "No edit history found for a.txt."),
        (editor, gone, "The path none.txt does not exist."),
    ] {
        let said = ws.lbx(&["--dialect", dialect, tool, "--json", &request]).stderr();
        assert!(said.contains(says), "{request}: {said}");
        assert!(!said.contains(ws.path("").to_str().unwrap()), "{request}: {said}");
    }
}

#[test]
fn lines_past_the_end_are_reported_once() {
    let ws = Workspace::with(FILES);
    let fs_read =
        json!({ "operations": [{ "mode": "Line", "path": "a.txt", "start_line": 9, "end_line": 12 }] });
    let fs_read_on = json!({ "operations": [{ "mode": "Line", "path": "a.txt", "start_line": 9 }] });
    let view = json!({ "command": "view", "path": "a.txt", "view_range": [9, 12] });
    let native = "line 9 is past the end: a.txt has 3 lines";
    let cases = [
        ("claude", "Read", json!({ "file_path": "a.txt", "offset": 9 }), "The file has 3 lines."),
        ("codex", "read_file", json!({ "file_path": "a.txt", "offset": 9 }), "offset exceeds file length"),
        (
            "gemini",
            "read_file",
            json!({ "file_path": "a.txt", "start_line": 9 }),
            "there is nothing from line 9 on",
        ),
        ("opencode", "read", json!({ "filePath": "a.txt", "offset": 9 }), "(End of file - total 3 lines)"),
        ("anthropic-editor", "str_replace_based_edit_tool", view, native),
        ("q", "fs_read", fs_read, native),
        ("q", "fs_read", fs_read_on, native),
    ];
    for (dialect, tool, request, says) in cases {
        let answer = ws.lbx(&["--dialect", dialect, tool, "--json", &request.to_string()]);
        let said = answer.stdout_text() + &answer.stderr();
        assert!(said.contains(says), "{dialect}: {said}");
        assert_eq!(said.contains(native), says == native, "{dialect}: {said}");
    }
    let memory = json!({ "command": "view", "path": "/memories/a.txt", "view_range": [9, 12] }).to_string();
    let said = ws.lbx(&["--dialect", "anthropic-memory", "memory", "--json", &memory]).stderr();
    assert!(said.contains("line 9 is past the end: /memories/a.txt has 3 lines"), "{said}");
}

#[test]
fn append_of_amazon_q_begins_a_new_line() {
    for (before, after) in
        [("a\nb", "a\nb\nc\n"), ("a\r\nb", "a\r\nb\r\nc\r\n"), ("a\n", "a\nc\n"), ("", "c\n")]
    {
        let ws = Workspace::with(&[("q.txt", before)]);
        let append = json!({ "command": "append", "path": "q.txt", "new_str": "c\n" }).to_string();
        let answer = ws.lbx(&["--dialect", "q", "fs_write", "--json", &append]);
        assert_eq!((answer.status(), answer.stderr().as_str()), (0, ""));
        ws.holds("q.txt", after);
    }
}

#[test]
fn image_operation_of_amazon_q_needs_an_image() {
    let ws = Workspace::with(FILES);
    for (operation, says) in [
        (json!({ "mode": "Image", "path": "a.txt" }), "image_paths is required for this command"),
        (json!({ "mode": "Image", "image_paths": [] }), "image_paths is required for this command"),
        (json!({ "mode": "Image", "image_paths": ["a.txt"] }), "a.txt is not an image"),
    ] {
        let request = json!({ "operations": [operation] }).to_string();
        let answer = ws.lbx(&["--dialect", "q", "fs_read", "--json", &request]);
        assert!(answer.status() == 2 && answer.stderr().contains(says), "{request}: {}", answer.stderr());
    }
}

#[test]
fn exclude_pattern_of_gemini_leaves_out_lines() {
    let ws = Workspace::with(&[("g.txt", "foo one\nfoo two\nFOO TWO\nfoo three\n"), ("two.txt", "foo\n")]);
    for (fields, says) in [
        (json!({ "exclude_pattern": "two" }), "Found 3 matches"),
        (json!({ "exclude_pattern": "Two$", "case_sensitive": true }), "Found 4 matches"),
        (
            json!({ "exclude_pattern": "^foo$|t[wh]", "context": 1 }),
            "File: g.txt\nL1: foo one\nL2- foo two\n---",
        ),
        (
            json!({ "exclude_pattern": "one", "total_max_matches": 1 }),
            "(results limited):\n---\nFile: g.txt\nL2:",
        ),
        (json!({ "exclude_pattern": " ", "names_only": true }), "Found 1 file with matches"),
        (json!({ "exclude_pattern": "foo" }), "No matches found"),
        (json!({ "exclude_pattern": "t[" }), "bad pattern t[ at column 2"),
    ] {
        let mut request = fields;
        request["pattern"] = json!("foo");
        let answer = ws.lbx(&["--dialect", "gemini", "grep_search", "--json", &request.to_string()]);
        let said = answer.stdout_text() + &answer.stderr();
        assert!(said.contains(says), "{request}: {said}");
    }
}

#[test]
fn notebook_edit_works_in_every_encoding() {
    let notebook = |source: &str| {
        format!(
            "{{\"cells\": [{{\"cell_type\": \"code\", \"execution_count\": null, \"outputs\": [], \"source\": \"{source}\"}}], \"nbformat\": 4}}\n"
        )
    };
    let utf8 = |text: String| text.into_bytes();
    let utf16 = |text: String| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let encodings: [&dyn Fn(String) -> Vec<u8>; 2] = [&utf8, &utf16];
    for encode in encodings {
        let ws = Workspace::with(&[]);
        let file = |source| encode(format!("\u{feff}{}", notebook(source)));
        std::fs::write(ws.path("n.ipynb"), file("é = 1")).unwrap();
        for (tool, request) in [
            ("Read", json!({ "file_path": "n.ipynb" })),
            (
                "NotebookEdit",
                json!({ "notebook_path": "n.ipynb", "cell_id": "cell-0", "new_source": "é = 2" }),
            ),
        ] {
            ws.lbx(&["--dialect", "claude", tool, "--json", &request.to_string()]).stdout();
        }
        assert_eq!(ws.read_bytes("n.ipynb"), file("é = 2"));
    }
}

#[test]
fn notebook_edit_refuses_a_notebook_that_is_not_utf_8() {
    let ws = Workspace::with(&[]);
    let notebook = b"{\"cells\": [{\"cell_type\": \"code\", \"source\": \"x\xe9\"}], \"nbformat\": 4}\n";
    std::fs::write(ws.path("n.ipynb"), notebook).unwrap();
    let ask = |tool: &str, request: serde_json::Value| {
        ws.lbx(&["--dialect", "claude", tool, "--json", &request.to_string()])
    };
    ask("Read", json!({ "file_path": "n.ipynb" })).stdout();
    let edit = json!({ "notebook_path": "n.ipynb", "cell_id": "cell-0", "new_source": "y" });
    let refused = ask("NotebookEdit", edit);
    assert!(refused.stderr().contains("Notebook is not valid JSON."), "{}", refused.stderr());
    assert_eq!(ws.read_bytes("n.ipynb"), notebook);
}

#[test]
fn numbers_of_lines_and_several_reads_fit_into_a_response() {
    /// Bytes of a payload.
    const PAYLOAD_BYTES: usize = 24_576;
    /// Bytes of the frame and the note about the rest.
    const NOTE_BYTES: usize = 200;
    let lines: String = (1..=5000).map(|number| format!("n{number}.\n")).collect();
    let q =
        json!([{ "mode": "Line", "path": "a.txt" }, { "mode": "Line", "path": "a.txt", "start_line": 4000 }]);
    let all = json!([1, -1]);
    let editor = json!({ "command": "view", "path": "a.txt", "view_range": all });
    let cases = [
        ("claude", "Read", json!({ "file_path": "a.txt", "limit": 5000 })),
        ("codex", "read_file", json!({ "file_path": "a.txt", "limit": 5000 })),
        ("opencode", "read", json!({ "filePath": "a.txt", "limit": 5000 })),
        ("anthropic-editor", "str_replace_based_edit_tool", editor),
        ("anthropic-memory", "memory", json!({ "command": "view", "path": "/memories/a.txt" })),
        ("q", "fs_read", json!({ "operations": q })),
    ];
    for (dialect, tool, request) in cases {
        let ws = Workspace::with(&[("a.txt", &lines)]);
        let said = ws.lbx(&["--dialect", dialect, tool, "--json", &request.to_string()]).stdout_text();
        let size = said.len();
        assert!(size <= PAYLOAD_BYTES + NOTE_BYTES && size > PAYLOAD_BYTES / 2, "{dialect}: {size}");
        // All lines that count as read are there, and no others.
        let read = ws.lbx(&["session"]).ok()["fresh"][0].as_str().unwrap().to_owned();
        let ranges = read.split_once(':').unwrap().1;
        let ranges: Vec<(u32, u32)> = ranges
            .split(',')
            .map(|range| range.split_once('-').unwrap())
            .map(|(first, last)| (first.parse().unwrap(), last.parse().unwrap()))
            .collect();
        for line in 1..=5000 {
            let counts = ranges.iter().any(|&(first, last)| first <= line && line <= last);
            assert_eq!(said.contains(&format!("n{line}.")), counts, "{dialect}: line {line} of {read}");
        }
    }
}

#[test]
fn lines_that_end_in_cr_have_numbers() {
    for (dialect, tool, request, shown) in [
        ("claude", "Read", json!({ "file_path": "a.txt" }), "1\ta\n2\tb\n"),
        ("codex", "read_file", json!({ "file_path": "a.txt" }), "L1: a\nL2: b\n"),
        ("opencode", "read", json!({ "filePath": "a.txt" }), "1: a\n2: b\n"),
        (
            "anthropic-editor",
            "str_replace_editor",
            json!({ "command": "view", "path": "a.txt" }),
            "     2\tb\n",
        ),
        (
            "anthropic-memory",
            "memory",
            json!({ "command": "view", "path": "/memories/a.txt" }),
            "2\tb\n     3\t\n",
        ),
    ] {
        let ws = Workspace::with(&[("a.txt", "a\rb\r")]);
        let said = ws.lbx(&["--dialect", dialect, tool, "--json", &request.to_string()]).stdout_text();
        assert!(said.contains(shown), "{dialect}: {said:?}");
    }
}

#[test]
fn change_that_cannot_be_shown_is_no_error() {
    let editor = "str_replace_based_edit_tool";
    let replace = json!({ "command": "str_replace", "old_str": "two", "new_str": "t\0o" });
    let insert = json!({ "command": "insert", "insert_line": 1, "insert_text": "t\0o" });
    let gemini = json!({ "old_string": "two", "new_string": "t\0o", "instruction": "x" });
    for (dialect, tool, field, request) in [
        ("anthropic-editor", editor, "path", &replace),
        ("anthropic-editor", editor, "path", &insert),
        ("anthropic-memory", "memory", "path", &replace),
        ("gemini", "replace", "file_path", &gemini),
    ] {
        let ws = Workspace::with(&[("a.txt", "one\ntwo\n")]);
        ws.lbx(&["read", "a.txt"]).ok();
        let mut request = request.clone();
        request[field] = if tool == "memory" { "/memories/a.txt" } else { "a.txt" }.into();
        let answer = ws.lbx(&["--dialect", dialect, tool, "--json", &request.to_string()]);
        assert_eq!(answer.status(), 0, "{}", answer.stderr());
        assert!(answer.stdout_text().contains("a.txt is a binary file"), "{}", answer.stdout_text());
        assert!(answer.stderr().contains("U+0000"), "{}", answer.stderr());
        assert!(ws.read_bytes("a.txt").contains(&0));
    }
}

#[test]
fn complete_dialect_responses_have_no_truncation_notice() {
    let ws = large_workspace();
    let editor = "str_replace_based_edit_tool";
    let cases = [
        ("claude", "Read", json!({ "file_path": "lines.txt", "limit": 5 }), "5\tline 5"),
        ("codex", "read_file", json!({ "file_path": "lines.txt", "limit": 5 }), "L5: line 5"),
        (
            "gemini",
            "read_file",
            json!({ "file_path": "lines.txt", "start_line": 5000 }),
            "total lines.\n\n--- FILE CONTENT (truncated) ---\nline 5000",
        ),
        (
            "q",
            "fs_read",
            json!({ "operations": [{ "mode": "Line", "path": "lines.txt", "start_line": -3, "end_line": -2 }] }),
            "line 4998\nline 4999",
        ),
        (
            "anthropic-editor",
            editor,
            json!({ "command": "view", "path": "lines.txt", "view_range": [5, 5] }),
            "     5\tline 5",
        ),
        (
            "anthropic-editor",
            editor,
            json!({ "command": "view", "path": "lines.txt", "view_range": [5000, -1] }),
            "  5000\tline 5000",
        ),
    ];
    for (dialect, tool, request, says) in cases {
        let said = ws.lbx(&["--dialect", dialect, tool, "--json", &request.to_string()]).stdout_text();
        assert!(said.trim_end().ends_with(says), "{dialect} {tool} {request}: {}", end_of(&said));
    }
}

#[test]
fn filesystem_server_writes_sizes_names_and_ends_of_files_in_its_forms() {
    let ws = Workspace::with(&[]);
    let ask = |tool: &str, request: serde_json::Value| {
        ws.lbx(&["--dialect", "mcp-filesystem", tool, "--json", &request.to_string()]).stdout_text()
    };
    for (bytes, size) in [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.00 KB"),
        (1536, "1.50 KB"),
        (1 << 20, "1.00 MB"),
        (5 << 30, "5.00 GB"),
    ] {
        std::fs::File::create(ws.path("n")).unwrap().set_len(bytes).unwrap();
        let said = ask("list_directory_with_sizes", json!({ "path": "." }));
        assert!(said.ends_with(&format!("Combined size: {size}\n")), "{said}");
    }
    std::fs::remove_file(ws.path("n")).unwrap();
    ["b", "A", "a", "_x", "1", "B"].iter().for_each(|name| ws.write(name, ""));
    let said = ask("list_directory_with_sizes", json!({ "path": "." }));
    let names: Vec<&str> = said.lines().take(6).filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(names, ["_x", "1", "a", "A", "b", "B"]);
    for (content, field, count, said) in [
        ("a\nb\nc\n", "head", 2, "a\nb"),
        ("a\nb\nc\n", "tail", 2, "c\n"),
        ("a\r\nb\r\nc", "tail", 2, "b\nc"),
        ("", "tail", 2, ""),
    ] {
        ws.write("f", content);
        let mut request = json!({ "path": "f" });
        request[field] = count.into();
        assert_eq!(
            ask("read_text_file", request).trim_end_matches('\n'),
            said.trim_end_matches('\n'),
            "{content:?}"
        );
    }
}

#[test]
fn diff_of_the_filesystem_server_has_its_format() {
    let ws = Workspace::with(&[]);
    let ask = |tool: &str, request: serde_json::Value| {
        ws.lbx(&["--dialect", "mcp-filesystem", tool, "--json", &request.to_string()]).stdout_text()
    };
    let rule = "=".repeat(67);
    for (before, old, hunk) in [
        ("one\ntwo\nthree\n", "two", "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"),
        (
            "one",
            "one",
            "@@ -1,1 +1,1 @@\n-one\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n",
        ),
    ] {
        ws.write("x", before);
        ask("read_text_file", json!({ "path": "x" }));
        let edits = json!([{ "oldText": old, "newText": "2" }]);
        let said = ask("edit_file", json!({ "path": "x", "edits": edits }));
        let path = ws.path("x").display().to_string();
        let head = format!("Index: {path}\n{rule}\n--- {path}\toriginal\n+++ {path}\tmodified\n");
        assert_eq!(said.trim_end(), format!("```diff\n{head}{hunk}```"));
    }
}

#[test]
fn parameters_that_say_nothing_here_are_accepted() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("d/e/f", "")]);
    ws.lbx(&["read", "a.txt"]).ok();
    let ask = |dialect: &str, tool: &str, request: serde_json::Value| {
        ws.lbx(&["--dialect", dialect, tool, "--json", &request.to_string()]).stdout_text()
    };
    let edit = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two", "instruction": "x",
        "modified_by_user": false, "ai_proposed_content": "", "ai_proposed_string": "" });
    ask("gemini", "replace", edit);
    ws.holds("a.txt", "two\n");
    let said = ask("codex", "exec_command", json!({ "cmd": "sleep 100", "timeout_ms": 10 }));
    assert!(said.contains("\"exit_code\""), "{said}");
    let listed = ask("codex", "list_dir", json!({ "dir_path": ".", "depth": 0, "offset": 0, "limit": 0 }));
    assert_eq!(listed, ask("codex", "list_dir", json!({ "dir_path": "." })));
    assert!(listed.contains("\n  e/\n"), "{listed}");
}

#[test]
fn codex_script_that_only_applies_a_patch_is_a_patch() {
    let patch = "*** Begin Patch\n*** Add File: a\n+b\n*** End Patch";
    let ask = |tool: &str, command: serde_json::Value| {
        let ws = Workspace::with(&[("x", "")]);
        let request = json!({ "command": command }).to_string();
        let said = ws.lbx(&["--dialect", "codex", tool, "--json", &request]).stdout_text();
        let is_made = ws.path("a").exists();
        assert_eq!(is_made, said.contains("Updated the following files:"), "{said}");
        is_made
    };
    for call in ["apply_patch <<'EOF'", "applypatch << EOF", "apply_patch <<\"EOF\" "] {
        assert!(ask("shell_command", format!("{call}\n{patch}\nEOF\n").into()), "{call}");
    }
    for other in [
        format!("echo {patch}"),
        "apply_patch --help".to_owned(),
        format!("applypatches << x\n{patch}\nx"),
        format!("apply_patch <<EOF\n{patch}\nEOF\necho more"),
        format!("apply_patch <<EOF && echo more\n{patch}\nEOF"),
        format!("apply_patch <<EOF\n{patch}\nEOF\nrm x <<EOF\nEOF"),
        format!("apply_patch <<\n{patch}\n"),
        format!("apply_patch <<EOF\n{patch}"),
        format!("cd $HOME && apply_patch <<EOF\n{patch}\nEOF"),
        format!("cd . && true && apply_patch <<EOF\n{patch}\nEOF"),
        format!("cd . ; apply_patch <<EOF\n{patch}\nEOF"),
    ] {
        assert!(!ask("shell_command", other.as_str().into()), "{other}");
    }
    assert!(ask("shell", json!(["applypatch", patch])));
    assert!(!ask("shell", json!(["cat", patch])));
}
