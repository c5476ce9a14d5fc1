//! A whole session in a realistic repository.
//!
//! `LBX_REAL_REPOSITORY` names one to clone; without it, one of 1,200 files is created.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;

use crate::common::Workspace;

/// Number of files in the created repository.
const FILES: usize = 1200;

/// Creates a repository with more than a thousand files and no uncommitted change.
fn real_repository() -> Workspace {
    if let Some(origin) = std::env::var_os("LBX_REAL_REPOSITORY") {
        let ws = Workspace::bare(&[]);
        ws.git(&["clone", "-q", "--no-hardlinks", Path::new(&origin).to_str().unwrap(), "."]);
        return ws;
    }
    let ws = Workspace::bare(&[(".gitignore", "target/\n"), ("README.md", "# A project\n")]);
    for number in 0..FILES {
        let path = format!("src/part_{:02}/group_{}/file_{number}.rs", number % 30, number % 4);
        let lines: String = (0..number % 50 + 3).map(|line| format!("line {line} of {number}\n")).collect();
        ws.write(&path, lines);
    }
    ws.git(&["init", "-q", "-b", "main"]);
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-q", "-m", "first"]);
    ws
}

/// Returns text files of the repository, each with at least three different lines and only LF endings.
fn text_files(ws: &Workspace, count: usize) -> Vec<String> {
    let names = ws.git(&["ls-files", "-z"]);
    let is_plain = |name: &&str| {
        let is_file = fs::symlink_metadata(ws.path(name)).is_ok_and(|stat| stat.is_file());
        is_file
            && fs::read_to_string(ws.path(name)).is_ok_and(|text| {
                let lines: Vec<&str> = text.lines().take(3).collect();
                let distinct: BTreeSet<&str> = lines.iter().copied().collect();
                let is_unique = lines.first().is_some_and(|line| text.matches(line).count() == 1);
                distinct.len() == 3
                    && is_unique
                    && text.ends_with('\n')
                    && !text.contains('\r')
                    && text.len() < 20_000
            })
    };
    let found: Vec<String> = names.split('\0').filter(is_plain).take(count).map(str::to_owned).collect();
    assert_eq!(found.len(), count, "too few text files");
    found
}

#[test]
fn each_change_in_a_large_repository_is_one_snapshot() {
    let ws = real_repository();
    assert!(ws.git(&["ls-files"]).lines().count() > 1000);
    let untouched = |name: &str| fs::read(ws.path(".git").join(name)).unwrap();
    let (head, index, config) = (untouched("HEAD"), untouched("index"), untouched("config"));
    let commit = ws.git(&["rev-parse", "HEAD"]);
    let files = text_files(&ws, 12);
    let first_line =
        |path: &str| String::from_utf8(ws.read_bytes(path)).unwrap().lines().next().unwrap().to_owned();
    let mut changes = 0;
    let mut change = |tool: &str, request: serde_json::Value| {
        let envelope = ws.json(tool, &request).success();
        assert!(envelope["snapshot"].is_string(), "{tool} {request}: {envelope:#}");
        changes += 1;
    };
    ws.lbx(&["ls"]).success();
    ws.lbx(&["glob", "*.rs", "--limit", "10"]).success();
    for path in &files {
        ws.lbx(&["read", path]).success();
    }
    for path in &files[..6] {
        let old = first_line(path);
        change(
            "edit",
            json!({"path": path, "old_string": old, "new_string": format!("{old} // seen"), "why": "A mark."}),
        );
        change("append", json!({"path": path, "content": "// the end\n"}));
    }
    for (number, path) in files[..4].iter().enumerate() {
        change("insert", json!({"path": path, "line": 1, "content": format!("// {number}\n")}));
        change(
            "write",
            json!({"path": format!("notes/{number}/note.md"), "content": format!("# Note {number}\n")}),
        );
    }
    let patch: String = files[6..8]
        .iter()
        .map(|path| format!("*** Update File: {path}\n@@\n-{0}\n+{0} // patched\n", first_line(path)))
        .collect();
    change("patch", json!({"patch": format!("*** Begin Patch\n{patch}*** End Patch\n")}));
    change("move", json!({"from": files[8], "to": "moved/here.txt"}));
    change("delete", json!({"path": files[9]}));
    change("restore", json!({"path": files[9]}));
    change("delete", json!({"path": "notes/3", "recursive": true}));
    change("undo", json!({}));
    change("redo", json!({}));
    change("append", json!({"path": "moved/here.txt", "content": "moved\n"}));
    change("undo", json!({"path": "moved/here.txt"}));
    change("prepend", json!({"path": files[10], "content": "// top\n"}));
    ws.json("edit", &json!({"path": files[11], "old_string": "nowhere in it", "new_string": "x"}))
        .error("no_match");
    ws.lbx(&["grep", "// patched"]).success();
    let data = ws.lbx(&["diff", "--stat"]).success();
    assert!(changes >= 30, "{changes}");

    assert_eq!(ws.snapshots().len(), changes);
    assert_eq!(ws.git(&["rev-parse", &format!("lbx-snapshots~{changes}")]), commit);
    assert_eq!((untouched("HEAD"), untouched("index"), untouched("config")), (head, index, config));
    ws.git(&["fsck", "--strict", "--no-dangling"]);
    assert_eq!(ws.git(&["rev-parse", "lbx-snapshots^{tree}"]), ws.tree_id());
    let mut wanted: BTreeSet<String> = files[..8].iter().cloned().collect();
    wanted.extend([files[8].clone(), files[10].clone(), "moved/here.txt".to_owned()]);
    wanted.extend((0..3).map(|number| format!("notes/{number}/note.md")));
    let status = ws.git(&["status", "--porcelain", "-z", "-uall"]);
    let shown: BTreeSet<String> =
        status.split('\0').filter_map(|line| line.get(3..)).map(str::to_owned).collect();
    assert_eq!(shown, wanted);
    assert!(data["data"]["files"].as_u64().unwrap() >= 12, "{data:#}");
    assert_eq!(ws.lbx(&["audit", "--verify"]).success()["data"]["verified"], true);
}
