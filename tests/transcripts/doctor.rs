//! `doctor` names each problem and its remedy.

use std::fs::File;
use std::process::{Command, Stdio};

use fs2::FileExt as _;
use serde_json::{Value, json};

use crate::common::{Call, LBX, PATH_FIXED, Workspace, is_installed, skipped, state};

/// Returns the finding of a check from an answer.
fn finding<'a>(data: &'a Value, check: &str) -> &'a Value {
    let findings = data["findings"].as_array().unwrap();
    findings.iter().find(|found| found["check"] == check).unwrap_or_else(|| panic!("no {check}: {data}"))
}

#[test]
fn healthy_workspace_has_no_problem() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.unchanged(|| assert_eq!(ws.lbx(&["doctor"]).ok()["healthy"], true));
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["read", "a.txt"]).ok();
    let data = ws.lbx(&["doctor"]).ok();
    assert_eq!(data["healthy"], true, "{data}");
    for (check, part) in [
        ("version", env!("CARGO_PKG_VERSION")),
        ("workspace", "it holds .git"),
        ("policy", "config.toml"),
        ("state", ".lbx/"),
        ("session", "1 file read"),
        ("audit", "1 record, the chain is whole"),
        ("snapshots", "lbx-snapshots in the workspace's repository"),
        ("disk", "MiB free"),
    ] {
        let found = finding(&data, check);
        assert!(found["message"].as_str().unwrap().contains(part), "{check}: {found}");
    }
    let text = ws.lbx(&["doctor", "--text"]);
    assert!(
        text.stdout_text().lines().any(|line| line.starts_with("ok ") && line.contains("chain is whole"))
    );
    assert!(text.stderr().contains("0 problems"), "{}", text.stderr());
}

#[test]
fn doctor_names_each_problem_with_a_remedy() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.write(&state("audit/current.jsonl"), "{}\n");
    ws.write(".lbx/config.toml", "[gate]\nmode = \"perhaps\"\n");
    let answer = ws.lbx(&["doctor", "--exit-status"]);
    assert_eq!(answer.status(), 1);
    let data = answer.envelope()["data"].clone();
    assert_eq!(data["healthy"], false);
    for (check, part) in [("audit", "current.jsonl:1"), ("policy", ".lbx/config.toml")] {
        let found = finding(&data, check);
        assert_eq!(found["level"], "problem", "{found}");
        assert!(found["message"].as_str().unwrap().contains(part), "{found}");
        assert!(!found["remedy"].as_str().unwrap().is_empty(), "{found}");
    }
}

#[test]
fn doctor_names_the_holder_of_the_lock() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let lock = File::open(ws.path(".lbx/lock")).unwrap();
    lock.lock_exclusive().unwrap();
    let data = ws.lbx(&["doctor"]).ok();
    let found = finding(&data, "lock");
    assert_eq!(found["level"], "notice");
    let remedy = found["remedy"].as_str().unwrap();
    assert!(remedy.contains("end that process: the lock ends with it"), "{found}");
    assert!(
        found["message"].as_str().unwrap().starts_with("another call is changing the workspace"),
        "{found}"
    );
    // An open change waits for its owner, or for the next call.
    ws.write(&state("journal/open/0000-1-x"), "no entry\n");
    let waiting = ws.lbx(&["doctor"]).ok();
    let remedy = "The next call settles it; lbx doctor --fix does it now.";
    assert_eq!(finding(&waiting, "journal")["remedy"], remedy);
    // If the system has a table of locks, this process is named as the owner.
    if std::fs::read_to_string("/proc/locks").is_ok_and(|table| table.contains(" FLOCK ")) {
        let process = format!("process {}", std::process::id());
        assert!(found["message"].as_str().unwrap().contains(&process), "{found}");
    }
}

#[test]
fn doctor_fix_moves_an_unreadable_journal_entry_aside() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    // An entry that no version of lbx can read.
    ws.write(&state("journal/open/0000-1-x"), "no entry\n");
    let data = ws
        .lbx(&["doctor", "--fix"])
        .warned("journal/stuck/0000-1-x, its new bytes next to it, the old ones in the backups");
    let found = finding(&data, "journal");
    assert!(found["message"].as_str().unwrap().contains("could not be settled"), "{found}");
    let remedy = found["remedy"].as_str().unwrap();
    assert!(remedy.starts_with("Compare the bytes in") && remedy.contains("journal/stuck"), "{found}");
}

#[test]
fn degraded_feature_is_a_notice_with_a_remedy() {
    /// A variable, a setting, and the finding: a check, a part of its message, and a part of its remedy.
    type Case = (
        Option<(&'static str, &'static str)>,
        Option<&'static str>,
        &'static str,
        &'static str,
        &'static str,
    );
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let cases: [Case; 4] = [
        (
            Some(("LBX_GAET", "off")),
            None,
            "policy",
            "LBX_GAET sets nothing",
            "Run lbx config --explain to see",
        ),
        (
            None,
            Some("snapshot.enabled=false"),
            "snapshots",
            "the policy has switched them off: no commit shows a change, and what bash changes cannot be undone",
            "Remove snapshot.enabled = false from the policy",
        ),
        (None, Some("gc.keep_bytes=1"), "size", "for undo and restore", "lbx gc frees what the policy"),
        // No home folder for an id.
        (
            Some(("LBX_STATE_ID", "")),
            None,
            "state",
            "id derived from machine and user",
            "could work the id out",
        ),
    ];
    for (variable, setting, check, part, remedy) in cases {
        let arguments =
            ["doctor"].into_iter().chain(setting.into_iter().flat_map(|setting| ["--set", setting]));
        let mut call = ws.call(&arguments.collect::<Vec<_>>());
        if let Some((name, value)) = variable {
            call = call.env(name, value).env("HOME", "/proc/none");
        }
        let data = call.run().ok();
        let of_check = || data["findings"].as_array().unwrap().iter().filter(|found| found["check"] == check);
        let found =
            of_check().find(|found| found["level"] == "notice").unwrap_or_else(|| panic!("{check}: {data}"));
        assert!(found["message"].as_str().unwrap().contains(part), "{found}");
        assert!(found["remedy"].as_str().unwrap().contains(remedy), "{found}");
        assert_eq!(data["healthy"], true, "{data}");
    }
}

#[test]
fn unwritable_workspace_is_a_problem() {
    // A read-only folder.
    let bare = Workspace::with(&[("a.txt", "one\n")]);
    bare.chmod("", 0o555);
    if let Some(call) = bare.call_unprivileged(&["doctor"]) {
        let data = call.run().ok();
        let found = finding(&data, "workspace");
        assert_eq!((&found["level"], &data["healthy"]), (&json!("problem"), &json!(false)), "{found}");
        assert!(found["message"].as_str().unwrap().contains("cannot be written"), "{found}");
    }
    bare.chmod("", 0o755);
}

#[test]
fn doctor_fix_moves_a_damaged_session_aside() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["read", "a.txt"]).ok();
    std::fs::write(ws.state_file("default.lbx"), "no session").unwrap();
    let found = |arguments: &[&str]| finding(&ws.lbx(arguments).ok(), "session").clone();
    let damaged = found(&["doctor"]);
    assert_eq!(damaged["level"], "notice", "{damaged}");
    assert!(damaged["remedy"].as_str().unwrap().contains("--fix"), "{damaged}");
    let fixed = found(&["doctor", "--fix"]);
    assert_eq!((&fixed["level"], &fixed["fixed"]), (&json!("notice"), &json!(true)), "{fixed}");
    assert_eq!(found(&["doctor"])["level"], "ok");
    ws.lbx(&["write", "a.txt", "--content", "x"]).error("not_read");
}

#[test]
fn doctor_reports_an_open_change_under_a_held_lock() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let lock = File::open(ws.path(".lbx/lock")).unwrap();
    lock.lock_exclusive().unwrap();
    ws.write(&state("journal/open/0000-1-x"), "no entry\n");
    let data = ws.lbx(&["doctor"]).ok();
    let found = finding(&data, "journal");
    assert_eq!(found["level"], "notice");
    assert!(found["message"].as_str().unwrap().contains("is running or was killed"), "{found}");
    assert!(found["remedy"].as_str().unwrap().contains("doctor --fix"), "{found}");
}

/// Returns the findings of `doctor` when a script in a user namespace, where it may mount, calls it; `None` if that is
/// not allowed.
fn findings_within(ws: &Workspace, script: &str) -> Option<Value> {
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_lbx")]);
    ws.surround(&mut command);
    if !is_installed("unshare") {
        return None;
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    if matches!(output.status.code(), Some(1 | 99)) {
        skipped("no mount is allowed here");
        return None;
    }
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["ok"], true, "{answer}");
    Some(answer["data"].clone())
}

#[test]
fn doctor_reports_a_nearly_full_disk() {
    let ws = Workspace::bare(&[]);
    let mounted = |options: &str, script: &str| {
        findings_within(
            &ws,
            &format!(
                "mount -t tmpfs -o {options} tmpfs \"$PWD\" || exit 99\ncd \"$PWD\"\n{script}\n\"$1\" doctor"
            ),
        )
    };
    let Some(data) = mounted("size=512k", ":") else { return };
    let found = finding(&data, "disk");
    assert_eq!((&found["level"], &found["message"]), (&json!("notice"), &json!("0 MiB free")), "{found}");
    assert!(found["remedy"].as_str().unwrap().starts_with("Ask the user for more space"), "{found}");
    assert_eq!(data["healthy"], true, "{data}");
    // Space for bytes, but no inodes.
    let data = mounted("size=400m,nr_inodes=3", ": > a; : > b").unwrap();
    let found = finding(&data, "disk");
    assert_eq!((&found["level"], &data["healthy"]), (&json!("problem"), &json!(false)), "{found}");
    assert!(found["message"].as_str().unwrap().ends_with("MiB free, but no file can be added"), "{found}");
    assert!(found["remedy"].as_str().unwrap().contains("no room for the names of more"), "{found}");
}

#[test]
fn doctor_reports_missing_command_isolation() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let script = "mount -t tmpfs tmpfs /proc/sys/user || exit 99\n\
        echo 0 > /proc/sys/user/max_user_namespaces\nPATH=/none exec \"$1\" doctor";
    let Some(data) = findings_within(&ws, script) else { return };
    let found = finding(&data, "bash");
    assert_eq!(found["level"], "notice", "{found}");
    assert!(
        found["message"].as_str().unwrap().starts_with("neither bubblewrap nor user namespaces"),
        "{found}"
    );
    assert!(found["remedy"].as_str().unwrap().starts_with("Install bubblewrap, or let users"), "{found}");
}

#[test]
fn failed_doctor_check_stops_no_other_check() {
    /// Returns the level and the message of a check.
    fn said(data: &Value, check: &str) -> String {
        let found = finding(data, check);
        format!("{}: {}", found["level"].as_str().unwrap(), found["message"].as_str().unwrap())
    }
    let ws = Workspace::bare(&[("a.txt", "one\n"), (".lbx", "no folder\n")]);
    let data = ws.lbx(&["doctor"]).ok();
    assert!(said(&data, "state").starts_with("problem: .lbx is not a folder"), "{data}");
    let states = data["findings"].as_array().unwrap().iter().filter(|found| found["check"] == "state");
    assert_eq!(states.count(), 1, "one fault is told once: {data}");
    assert!(said(&data, "snapshots").starts_with("problem: no snapshot: "), "{data}");
    assert!(said(&data, "disk").starts_with("ok"), "{data}");
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let data = ws.call(&["doctor"]).env("LBX_STATE_ID", "zz").run().ok();
    assert!(said(&data, "state").starts_with("problem: LBX_STATE_ID: expected 32"), "{data}");
    std::fs::write(ws.state_file("default.lbx"), "{\"version\":99}").unwrap();
    let log = ws.path(&state("audit/current.jsonl"));
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    for arguments in [&["doctor"][..], &["doctor", "--fix"]] {
        let data = ws.lbx(arguments).ok();
        assert!(
            said(&data, "session").starts_with("problem: ") && said(&data, "session").contains("newer lbx"),
            "{data}"
        );
        assert!(said(&data, "audit").contains("current.jsonl:1: cannot be read"), "{data}");
        assert!(
            said(&data, "size").starts_with("ok") && said(&data, "snapshots").starts_with("ok"),
            "{data}"
        );
    }
}

#[test]
fn unwritable_workspace_problem_has_a_remedy() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    let Some(call) = ws.call_unprivileged(&["doctor"]) else { return };
    ws.chmod(".", 0o555);
    let data = call.run().ok();
    ws.chmod(".", 0o755);
    let found = finding(&data, "workspace");
    assert!(found["message"].as_str().unwrap().contains("cannot be written: Permission denied"), "{found}");
    let remedy = found["remedy"].as_str().unwrap();
    assert!(remedy.starts_with("Give this account the right to write there"), "{found}");
}

#[test]
fn missing_bash_path_in_the_policy_is_a_notice() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let settings = ["--set", "bash.writable=~/none", "--set", "bash.readable=/"];
    let data = ws.lbx(&[&["doctor"][..], &settings].concat()).ok();
    let findings = data["findings"].as_array().unwrap();
    let found = findings.iter().rfind(|found| found["check"] == "bash").unwrap();
    assert_eq!(
        found["message"],
        "bash.writable names \"~/none\", bash.readable names \"/\", which commands do not get"
    );
    let remedy =
        "Name a path that exists, from / or ~ on: a folder for bash.writable, and not the whole disk.";
    assert_eq!((&found["level"], &found["remedy"]), (&json!("notice"), &json!(remedy)));
    assert_eq!(data["healthy"], true);
}

/// The findings about clients.
fn clients(data: &Value) -> Vec<(String, String)> {
    let findings = data["findings"].as_array().unwrap().iter().filter(|found| found["check"] == "clients");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    findings.map(|found| (text(&found["level"]), text(&found["message"]))).collect()
}

#[test]
fn doctor_starts_the_server_of_each_configured_client() {
    let ws = Workspace::with(&[]);
    let path = format!("{}:{PATH_FIXED}", ws.with_program().display());
    let doctor = || ws.call(&["doctor"]).env("PATH", &path).run().ok();
    assert_eq!(clients(&doctor()), []);
    let set_up = ["claude-code", "codex", "opencode"];
    for client in set_up {
        ws.lbx(&["init", "--client", client]).ok();
    }
    let data = ws.unchanged(doctor);
    let found = clients(&data);
    assert_eq!(found.len(), set_up.len(), "{data}");
    for ((level, message), client) in found.iter().zip(set_up) {
        assert_eq!(level, "ok", "{message}");
        assert!(message.starts_with(&format!("{client}: `lbx mcp ")), "{message}");
        assert!(message.ends_with(" starts and lists 21 tools"), "{message}");
    }
    // Where PATH has no lbx, the client cannot start what it has.
    let data = ws.call(&["doctor"]).env("PATH", ws.without_program()).run().ok();
    assert!(clients(&data).iter().all(|(level, _)| level == "notice"), "{data}");
}

#[test]
fn doctor_reports_a_failing_server_and_starts_only_lbx() {
    let ws = Workspace::with(&[]);
    let server = |command: &str, arguments: &[&str]| {
        let entry = json!({ "mcpServers": { "lbx": { "command": command, "args": arguments } } });
        ws.write(".mcp.json", entry.to_string());
        ws.lbx(&["doctor"]).ok()
    };
    let data = server("lbx", &["mcp", "--tools", "nope"]);
    assert_eq!(data["healthy"], false);
    let found = finding(&data, "clients");
    assert!(found["message"].as_str().unwrap().contains("does not start: "), "{found}");
    assert!(found["remedy"].as_str().unwrap().contains("lbx init --client claude-code"), "{found}");
    assert_eq!(clients(&server(LBX, &["mcp"]))[0].0, "ok");
    let taken = ws.path("taken").display().to_string();
    for (command, arguments) in [
        ("touch", &[&*taken][..]),
        ("lbx", &["bash", "touch taken"]),
        ("lbx", &[]),
        ("lbx", &["mcp", "--sandbox", "box"]),
        ("lbx", &["mcp", "--workspace=/"]),
        ("lbx", &["mcp", "--set", "bash.backend=none"]),
    ] {
        let data = server(command, arguments);
        let (level, message) = clients(&data).remove(0);
        assert_eq!(level, "notice");
        assert!(message.ends_with(" was not tried: init does not write such a server"), "{message}");
        assert!(!ws.path("taken").exists());
    }
    ws.write(".mcp.json", "{ \"mcpServers\": [");
    assert_eq!(clients(&ws.lbx(&["doctor"]).ok()), []);
}

#[test]
fn state_and_repository_that_are_closed_to_the_account_are_problems() {
    if !rustix::process::geteuid().is_root() || !is_installed("setpriv") {
        return skipped("only root makes files of other accounts");
    }
    let ids = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let chown = |ws: &Workspace, owner: &str, paths: &[&str]| {
        let mut command = Command::new("chown");
        assert!(command.arg("-R").arg(owner).args(paths).current_dir(&ws.root).status().unwrap().success());
    };
    // A path that a call of another account made, its owner and its mode, and what the change and doctor say.
    let cases = [
        (
            ".lbx",
            "0",
            0o755,
            "cannot write in .lbx: Permission denied; it belongs to root",
            "sudo chown 65534 .lbx .lbx/lock",
        ),
        (".lbx", "12345", 0o755, "; it belongs to the account 12345", "That account can let its group in"),
        (
            ".lbx",
            "65534",
            0o500,
            "cannot write in .lbx: Permission denied",
            "Let yourself in, in the workspace: chmod",
        ),
        (
            ".lbx/lock",
            "0",
            0o600,
            ".lbx/lock: Permission denied; it belongs to root",
            "Give it to this account, in the workspace",
        ),
        (
            ".git/refs/heads",
            "0",
            0o755,
            "this account may not write in ",
            "gives it back after a call with sudo",
        ),
        (
            ".git/objects/ab",
            "0",
            0o755,
            "this account may not write in ",
            "gives it back after a call with sudo",
        ),
    ];
    for (path, owner, mode, message, remedy) in cases {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        chown(&ws, "65534:65534", &[ws.outside.to_str().unwrap()]);
        let call = |words: &[&str]| {
            let call = Call::under("setpriv", &ids, &ws.root, &ws.outside.join("home"));
            call.env("LBX_STATE_ID", "e".repeat(32)).arguments(words).run()
        };
        if path == ".lbx" {
            std::fs::create_dir(ws.path(".lbx")).unwrap();
        } else {
            call(&["append", "a.txt", "--content", "two\n"]).ok();
        }
        std::fs::create_dir_all(ws.path(".git/objects/ab")).unwrap();
        chown(&ws, "65534:65534", &[".git/objects/ab"]);
        chown(&ws, owner, &[path]);
        ws.chmod(path, mode);
        let data = call(&["doctor"]).ok();
        assert_eq!(data["healthy"], false, "{path}: {data}");
        let findings = data["findings"].as_array().unwrap();
        let problem = findings.iter().find(|found| found["level"] == "problem").unwrap();
        assert!(problem["message"].as_str().unwrap().contains(message), "{path}: {problem}");
        assert!(problem["remedy"].as_str().unwrap().contains(remedy), "{path}: {problem}");
        if path.starts_with(".lbx") {
            let error = call(&["append", "a.txt", "--content", "three\n"]).error("permission_denied");
            assert!(error["suggested_action"].as_str().unwrap().contains(remedy), "{path}: {error}");
        }
    }
}
