//! The examples of `tests/examples`, each used as its reader would use it.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::common::{Workspace, is_installed};
use super::examples::run;

/// Creates a project with the examples in it.
fn project() -> Workspace {
    let ws = Workspace::with(&[
        ("version.txt", "1.2.0\n"),
        ("README.md", "# Demo 1.2.0\n\nGet demo-1.2.0.tar.gz.\n"),
        ("src/count.rs", "fn count() {}\nfn count_all() { count() }\n"),
        ("src/main.rs", "fn main() { count(); }\n"),
    ]);
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples");
    for name in ["Makefile", "rename.sh", "compact-hook.sh", "claude-settings.json", "mcp.json"] {
        ws.write(&format!("tests/examples/{name}"), std::fs::read(examples.join(name)).unwrap());
    }
    ws
}

/// Returns the output of a command; fails if the command fails.
#[track_caller]
fn said(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns an example that is JSON.
fn json(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn example_makefile_bumps_the_version_and_undoes_it() {
    let ws = project();
    if !is_installed("make") {
        return;
    }
    let make = |rule: &str| run(&ws, &format!("make -s -f tests/examples/Makefile {rule}"), &[]);
    said(&make("version NEW=1.3.0"));
    ws.holds("version.txt", "1.3.0\n");
    ws.holds("README.md", "# Demo 1.3.0\n\nGet demo-1.3.0.tar.gz.\n");
    said(&make("undo"));
    ws.holds("version.txt", "1.2.0\n");
    ws.holds("README.md", "# Demo 1.2.0\n\nGet demo-1.2.0.tar.gz.\n");
    said(&make("todo"));
    ws.write("src/main.rs", "fn main() {} // FIXME\n");
    assert!(!make("todo").status.success());
    std::fs::remove_dir_all(ws.path("src")).unwrap();
    assert!(!make("todo").status.success());
}

#[test]
fn example_script_renames_in_all_files_as_one_change() {
    let ws = project();
    let text = said(&run(&ws, "sh tests/examples/rename.sh count sum src", &[]));
    assert!(text.contains("src/main.rs (+1 -1)"), "{text}");
    ws.holds("src/count.rs", "fn sum() {}\nfn count_all() { sum() }\n");
    ws.holds("src/main.rs", "fn main() { sum(); }\n");
    let edits = ws.snapshots().iter().filter(|subject| subject.starts_with("edit: ")).count();
    assert_eq!(edits, 1, "{:?}", ws.snapshots());
    // More files than a list of grep or a response of read has by default.
    (0..300).for_each(|number| ws.write(&format!("many/{number}.c"), format!("int count = {number};\n")));
    said(&run(&ws, "sh tests/examples/rename.sh count sum many", &[]));
    ws.holds("many/0.c", "int sum = 0;\n");
    ws.holds("many/99.c", "int sum = 99;\n");
    let none = run(&ws, "sh tests/examples/rename.sh nowhere sum", &[]);
    assert_eq!(none.status.code(), Some(7));
}

#[test]
fn example_hook_compacts_the_session_and_prints_a_brief() {
    let ws = project();
    said(&run(&ws, "lbx read version.txt --session 5f0e-1", &[]));
    let settings = json("claude-settings.json");
    let hook = &settings["hooks"]["SessionStart"][0];
    assert_eq!(hook["matcher"], "compact");
    let command = hook["hooks"][0]["command"].as_str().unwrap();
    let brief = said(&run(&ws, &format!("echo '{{\"session_id\": \"5f0e-1\"}}' | {command}"), &[]));
    assert!(brief.starts_with("Resuming lbx session 5f0e-1"), "{brief}");
    assert!(brief.contains("version.txt"), "{brief}");
    // Files that the old context had read do not count as read in the new one.
    ws.lbx(&["write", "version.txt", "--content", "2\n", "--session", "5f0e-1"]).error("not_read");
}

#[test]
fn example_mcp_configuration_starts_a_server() {
    let ws = project();
    let server = &json("mcp.json")["mcpServers"]["lbx"];
    let words: Vec<&str> = server["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let command = format!("{} {}", server["command"].as_str().unwrap(), words.join(" "));
    let requests = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":{"path":"version.txt"}}}"#,
    ];
    let session = server["env"]["LBX_SESSION"].as_str().unwrap();
    let script = format!("printf '%s\\n' {} | {command}", requests.map(|it| format!("'{it}'")).join(" "));
    let answers = said(&run(&ws, &script, &[("LBX_SESSION", session)]));
    let answer: Value = serde_json::from_str(answers.lines().last().unwrap()).unwrap();
    assert_eq!(answer["result"]["structuredContent"]["content"], "1.2.0\n");
    let status = said(&run(&ws, &format!("lbx session status --session {session}"), &[]));
    assert!(status.contains("version.txt"), "{status}");
}
