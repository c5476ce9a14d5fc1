//! `stats`: sums over the calls.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::{Workspace, state};

/// Returns the calls, errors and paths of a sum.
fn counts(sum: &Value) -> Value {
    json!([sum["calls"], sum["refused"], sum["paths"]])
}

/// Returns the file that has a line for each of the newest calls.
fn newest_calls(ws: &Workspace) -> PathBuf {
    ws.path(&state("calls/current"))
}

#[test]
fn stats_counts_calls_by_tool_and_session() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    let none = ws.lbx(&["stats"]).ok();
    assert_eq!(none["total"]["calls"], 0);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["append", "b.txt", "--content", "bb\n", "--session", "bob"]).ok();
    ws.lbx(&["write", "a.txt", "--content", "x\n", "--session", "bob"]).error("not_read");
    ws.lbx(&["read", "a.txt"]).ok();
    let data = ws.lbx(&["stats"]).ok();
    assert_eq!(counts(&data["total"]), json!([4, 1, 2]));
    assert_eq!(counts(&data["by_tool"]["append"]), json!([2, 0, 2]));
    assert_eq!(counts(&data["by_tool"]["write"]), json!([1, 1, 0]));
    assert_eq!(counts(&data["by_tool"]["read"]), json!([1, 0, 0]));
    assert_eq!(counts(&data["by_session"]["bob"]), json!([2, 1, 1]));
    assert_eq!(data["refusals"], json!({ "not_read": 1 }));
    let bob = ws.lbx(&["stats", "--session", "bob"]).ok();
    assert_eq!(counts(&bob["total"]), json!([2, 1, 1]));
    let text = ws.lbx(&["stats", "--text"]).stdout_text();
    assert!(text.contains("tool write: 1 call, 1 refused"), "{text}");
    // A path that moves to the trash counts once.
    ws.lbx(&["delete", "b.txt"]).ok();
    assert_eq!(counts(&ws.lbx(&["stats"]).ok()["by_tool"]["delete"]), json!([1, 0, 1]));
}

#[test]
fn unknown_session_is_an_error_and_counts_for_nothing() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    for tool in ["audit", "stats", "log"] {
        ws.lbx(&[tool, "--session", "nosuch"]).error("not_found");
    }
    let data = ws.lbx(&["stats"]).ok();
    assert_eq!(data["by_session"].as_object().unwrap().keys().collect::<Vec<_>>(), ["default"]);
}

#[test]
fn sums_by_session_are_bounded() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for session in ["a", "b", "c"] {
        ws.lbx(&["append", "a.txt", "--content", "x\n", "--session", session]).ok();
    }
    // This call counts from now on.
    ws.lbx(&["stats"]).ok();
    let page = |arguments: &[&str]| {
        let data = ws.lbx(&[&["stats"], arguments].concat()).ok();
        let names: Vec<String> = data["by_session"].as_object().unwrap().keys().cloned().collect();
        assert_eq!((&data["sessions"], &data["total"]["paths"]), (&json!(4), &json!(3)));
        (names.join(" "), data["truncated"].as_bool().unwrap(), data["next_offset"].as_u64())
    };
    assert_eq!(page(&["--max-bytes", "1"]), ("a".to_owned(), true, Some(1)));
    assert_eq!(page(&["--max-bytes", "1", "--offset", "3"]), ("default".to_owned(), false, None));
    assert_eq!(page(&["--max-bytes", "0"]), ("a b c default".to_owned(), false, None));
    let text = ws.lbx(&["stats", "--text", "--max-bytes", "1"]).stderr();
    assert!(text.contains("4 sessions in all; more: --offset 1"), "{text}");
}

#[test]
fn stats_counts_the_returned_bytes_of_every_output_form() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    // The first read creates the state.
    let calls: [(&str, &[&str]); 6] = [
        ("read", &["read", "a.txt"]),
        ("read", &["read", "b.txt", "--text", "--session", "bob"]),
        ("grep", &["grep", "o"]),
        ("ls", &["ls", "--pretty"]),
        ("append", &["append", "a.txt", "--content", "more\n"]),
        ("write", &["write", "b.txt", "--content", "x\n"]),
    ];
    let mut bytes = BTreeMap::new();
    for (tool, arguments) in calls {
        let answer = ws.lbx(arguments);
        *bytes.entry(tool).or_insert(0) += answer.stdout().len() + answer.stderr().len();
    }
    let lines =
        concat!(r#"{"tool":"ls","request":{}}"#, "\n", r#"{"tool":"read","request":{"path":"none"}}"#, "\n");
    let batch = ws.lbx_stdin(&["batch"], lines);
    for (tool, line) in ["ls", "read"].iter().zip(batch.stdout_text().split_inclusive('\n')) {
        *bytes.get_mut(tool).unwrap() += line.len();
    }
    let said = ws.lbx(&["--dialect", "claude", "Read", "--json", r#"{"file_path":"a.txt"}"#]);
    *bytes.get_mut("read").unwrap() += said.stdout().len() + said.stderr().len();
    let data = ws.lbx(&["stats"]).ok();
    for (tool, bytes) in &bytes {
        assert_eq!(data["by_tool"][tool]["bytes"], *bytes, "{tool}: {data}");
    }
    assert_eq!(data["total"]["bytes"], bytes.values().sum::<usize>());
    assert_eq!(counts(&data["by_session"]["bob"]), json!([1, 0, 0]));
    assert!(data["by_session"]["bob"]["bytes"].as_u64().unwrap() >= 4, "{data}");
    let text = ws.lbx(&["stats", "--text"]).stdout_text();
    assert!(text.contains(" returned, "), "{text}");
}

#[test]
fn stats_files_stay_small_and_count_concurrent_calls() {
    const CALLS: usize = 40;
    const PROCESSES: usize = 4;
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    // Some bytes below its size limit, so that the calls of the processes fill the file.
    let before = fs::read(newest_calls(&ws)).unwrap();
    let line = "old\tread\t1\t100\t2\n";
    let old = (128 * 1024 - 1000) / line.len();
    fs::write(newest_calls(&ws), [before, line.repeat(old).into_bytes()].concat()).unwrap();
    let request = "{\"tool\":\"ls\",\"request\":{}}\n".repeat(CALLS);
    let batches: Vec<_> = (0..PROCESSES).map(|_| ws.call(&["batch"]).stdin(&request).spawn()).collect();
    for batch in batches {
        assert!(batch.wait_with_output().unwrap().status.success());
    }
    let data = ws.lbx(&["stats"]).ok();
    assert_eq!(data["by_tool"]["ls"]["calls"], CALLS * PROCESSES);
    assert_eq!(
        (&data["by_session"]["old"]["calls"], &data["by_session"]["old"]["bytes"]),
        (&json!(old), &json!(100 * old))
    );
    assert!(fs::metadata(newest_calls(&ws)).unwrap().len() < 10_000);
    // The next time, the full file is added to the sums and removed.
    let full = ws.path(&state("calls/000001"));
    assert!(full.exists());
    fs::write(newest_calls(&ws), line.repeat(2 * old)).unwrap();
    let request = "{\"tool\":\"glob\",\"request\":{\"pattern\":\"*\"}}\n".repeat(CALLS);
    assert_eq!(ws.lbx_stdin(&["batch"], request).lines().len(), CALLS);
    assert!(!full.exists());
    let data = ws.lbx(&["stats"]).ok();
    assert_eq!(data["by_session"]["old"]["calls"], 3 * old);
    assert_eq!(data["by_tool"]["glob"]["calls"], CALLS);
}

#[test]
fn call_succeeds_when_stats_cannot_be_written() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let file = newest_calls(&ws);
    let breaks: [&dyn Fn(); 4] = [
        &|| fs::create_dir(&file).unwrap(),
        &|| std::os::unix::fs::symlink("/dev/full", &file).unwrap(),
        &|| crate::common::make_fifo(&file),
        &|| fs::write(&file, b"\xff\tno line\n\n1\t2\t3").unwrap(),
    ];
    for (number, damage) in breaks.iter().enumerate() {
        let _ = fs::remove_dir(&file).or_else(|_| fs::remove_file(&file));
        damage();
        ws.lbx(&["read", "a.txt"]).ok();
        ws.lbx(&["append", "a.txt", "--content", "x\n"]).ok();
        assert_eq!(ws.lbx(&["stats"]).ok()["by_tool"]["append"]["calls"], number + 2);
    }
}

#[test]
fn stats_warns_about_a_damaged_audit_log() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["read", "a.txt"]).ok();
    ws.write(&state("audit/current.jsonl"), "{}\n");
    let data = ws.lbx(&["stats"]).warned("the audit log is not whole: ");
    assert_eq!(counts(&data["by_tool"]["read"]), json!([1, 0, 0]));
}

/// Returns what `stats` sums over the audit log.
fn sums(ws: &Workspace) -> Value {
    // The counters of other calls, such as these.
    let _ = fs::remove_dir_all(ws.path(&state("calls")));
    let mut data = ws.lbx(&["stats"]).ok();
    for sums in ["by_tool", "by_session"] {
        let sums = data[sums].as_object_mut().unwrap();
        sums.values_mut().for_each(|sum| *sum = json!([counts(sum), sum["first"], sum["last"]]));
    }
    json!([
        counts(&data["total"]),
        data["total"]["first"],
        data["total"]["last"],
        data["by_tool"],
        data["by_session"],
        data["refusals"]
    ])
}

#[test]
fn sums_kept_beside_the_audit_log_change_nothing() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    let change = |number: usize| {
        ws.lbx(&[
            "append",
            "a.txt",
            "--content",
            &format!("{number}\n"),
            "--session",
            ["one", "two"][number % 2],
        ])
        .ok();
    };
    (0..70).for_each(change);
    ws.lbx(&["write", "b.txt", "--content", "x\n"]).error("not_read");
    let (kept, log) = (ws.path(&state("audit/sums")), ws.path(&state("audit/current.jsonl")));
    let first = sums(&ws);
    let bytes = fs::read(&kept).unwrap();
    assert_eq!(first[0], json!([71, 1, 70]));
    // From the sums alone, with calls after them, and made again: the same.
    assert_eq!(sums(&ws), first);
    change(70);
    let later = sums(&ws);
    assert_eq!(later[0], json!([72, 1, 71]));
    assert_eq!(fs::read(&kept).unwrap(), bytes, "a few calls are not worth a file");
    let halves = [&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2..]].map(<[u8]>::to_vec);
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 3] ^= 1;
    for harm in [halves[0].clone(), halves[1].clone(), flipped, b"{}\n".to_vec()] {
        fs::write(&kept, harm).unwrap();
        assert_eq!(sums(&ws), later);
    }
    // The log counts: a record that was altered or removed below them shows.
    fs::write(&kept, &bytes).unwrap();
    let whole = fs::read(&log).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    for altered in [text.replacen("a.txt", "c.txt", 1), text.split_once('\n').unwrap().1.to_owned()] {
        fs::write(&log, altered).unwrap();
        ws.lbx(&["stats"]).warned("the audit log is not whole: ");
        assert_eq!(fs::read(&kept).unwrap(), bytes);
    }
    fs::write(&log, &text[..text.len() / 2]).unwrap();
    ws.lbx(&["stats"]).warned("the audit log is not whole: ");
    fs::write(&log, &whole).unwrap();
    // A full file of the log is not read again, unless it was changed.
    fs::rename(&log, ws.path(&state("audit/000001.jsonl"))).unwrap();
    (71..140).for_each(change);
    let with_full = sums(&ws);
    assert_eq!(with_full[0], json!([141, 1, 140]));
    assert_ne!(fs::read(&kept).unwrap(), bytes);
    assert_eq!(sums(&ws), with_full);
    fs::write(ws.path(&state("audit/000001.jsonl")), text.replacen("a.txt", "c.txt", 1)).unwrap();
    ws.lbx(&["stats"]).warned("the audit log is not whole: ");
}

/// Returns every file below `folder` with its bytes.
fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| {
        if path.is_dir() {
            files_below(&path)
        } else {
            BTreeMap::from([(path.clone(), fs::read(path).unwrap())])
        }
    });
    files.collect()
}

#[test]
fn dry_run_changes_no_state_file() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.md", "# One\n\ntext\n")]);
    ws.lbx(&["read", "a.txt", "b.md"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["write", "c.txt", "--content", "c\n"]).ok();
    ws.lbx(&["delete", "c.txt"]).ok();
    let before = (files_below(&ws.path(".lbx")), ws.snapshots());
    let patch = "*** Begin Patch\n*** Add File: d.txt\n+d\n*** End Patch\n";
    let calls: [&[&str]; 13] = [
        &["write", "a.txt", "--content", "x\n"],
        &["edit", "a.txt", "--old-string", "one", "--new-string", "1"],
        &["edit", "a.txt", "--old-string", "none", "--new-string", "1"],
        &["patch", "--patch", patch],
        &["append", "a.txt", "--content", "three\n"],
        &["prepend", "a.txt", "--content", "zero\n"],
        &["insert", "a.txt", "1", "--content", "x\n"],
        &["section", "b.md", "--header", "One", "--content", "new\n"],
        &["mkdir", "new"],
        &["move", "a.txt", "e.txt"],
        &["delete", "a.txt"],
        &["restore", "c.txt"],
        &["undo"],
    ];
    for call in calls {
        let call: Vec<&str> = call.iter().copied().chain(["--dry-run"]).collect();
        ws.unchanged(|| ws.lbx(&call).envelope());
        assert!(before == (files_below(&ws.path(".lbx")), ws.snapshots()), "{call:?}");
    }
}
