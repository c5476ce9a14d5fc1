//! The error of a failed command names the rule of lbx that caused it.

use serde_json::json;

use crate::common::{Workspace, skipped};
use crate::support::{backends, bash, with};
use crate::transactions::has_overlays;

/// Returns the warnings of an answer as one text.
fn warnings(answer: &serde_json::Value) -> String {
    answer["warnings"].to_string()
}

#[test]
fn git_commit_in_a_command_gets_a_hint_about_squash() {
    for backend in backends() {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        let answer = bash(&ws, backend, "echo two > a.txt; git commit -qam two").success();
        assert_eq!(answer["data"]["exit_code"], 128, "{backend}");
        let hint = "`.git` is read-only for commands: the developer commits the changes with `lbx squash`";
        assert!(warnings(&answer).contains(hint), "{backend}: {answer:#}");
        // The change itself is still made.
        ws.holds("a.txt", "two\n");
    }
}

#[test]
fn network_failure_gets_a_hint_about_bash_network() {
    for backend in backends() {
        let ws = Workspace::with(&[]);
        let answer = bash(
            &ws,
            backend,
            "getent hosts example.org || { echo 'Could not resolve host: example.org' >&2; exit 6; }",
        )
        .success();
        let hint = "commands have no network here: the setting `bash.network` allows it";
        assert!(warnings(&answer).contains(hint), "{backend}: {answer:#}");
        let allowed = json!({ "command": "echo 'Could not resolve host: x' >&2; exit 6", "network": true });
        let setting = [
            "bash",
            "--set",
            "bash.network=allow",
            "--set",
            &format!("bash.backend={backend}"),
            "--json",
            "-",
        ];
        let answer = ws.lbx_stdin(&setting, allowed.to_string()).success();
        assert!(!warnings(&answer).contains("network"), "{backend}: {answer:#}");
    }
}

#[test]
fn write_outside_the_workspace_gets_a_hint_about_bash_writable() {
    for backend in backends() {
        let ws = Workspace::with(&[]);
        let answer = bash(&ws, backend, "touch /usr/new").success();
        let hint = "/usr/new is read-only for commands: the setting `bash.writable` opens a folder";
        assert!(warnings(&answer).contains(hint), "{backend}: {answer:#}");
    }
}

#[test]
fn write_to_a_protected_file_gets_a_hint_about_protect() {
    for backend in backends() {
        let ws = Workspace::with(&[("deploy.yml", "one\n")]);
        let request = json!({ "command": "echo two > deploy.yml", "direct": true });
        let settings = [
            "bash",
            "--set",
            "protect=deploy.yml",
            "--set",
            &format!("bash.backend={backend}"),
            "--json",
            "-",
        ];
        let answer = ws.lbx_stdin(&settings, request.to_string()).success();
        assert!(
            warnings(&answer).contains("deploy.yml is protected by the setting `protect`"),
            "{backend}: {answer:#}"
        );
        ws.holds("deploy.yml", "one\n");
    }
}

#[test]
fn each_denied_change_of_a_protected_path_gets_a_hint() {
    for backend in backends() {
        let files = [("a.txt", "hello\n"), ("b", "b\n"), ("src/x", "x\n"), ("in/deep/y", "y\n")];
        let ws = Workspace::with(&files);
        ws.write(".lbx/config.toml", "protect = ['a.txt', 'src/']\n");
        for (command, hints) in [
            ("rm a.txt", &["a.txt is protected by the setting `protect`"][..]),
            ("mv a.txt b", &["a.txt is protected by the setting `protect`"]),
            ("sed -i s/h/j/ a.txt", &["the setting `protect` lets no command replace or remove a.txt"]),
            ("echo x > src/new", &["src/new is protected by the setting `protect`"]),
            ("rm -rf src", &["src/x is protected by the setting `protect`"]),
            ("cd in/deep; touch ../../src/new", &["../../src/new is protected by the setting `protect`"]),
            ("touch .lbx/q", &[".lbx/q is read-only for commands: lbx keeps its own state there"]),
            (
                "touch .git/q; rm a.txt",
                &["`.git` is read-only for commands", "a.txt is protected by the setting `protect`"],
            ),
        ] {
            for is_direct in [false, true] {
                let request = json!({ "command": command, "direct": is_direct });
                let answer = with(&ws, backend, &request).success();
                let said = answer["warnings"].as_array().unwrap();
                let is_said =
                    |(said, hint): (&serde_json::Value, &&str)| said.as_str().unwrap().starts_with(hint);
                let is_all = said.len() == hints.len() && said.iter().zip(hints).all(is_said);
                assert!(is_all, "{backend} {request}: {answer:#}");
            }
        }
    }
}

#[test]
fn limits_of_files_and_memory_are_named() {
    for backend in backends() {
        let ws = Workspace::with(&[]);
        ws.user_policy("[bash]\nfile_bytes = 1_000_000\nmemory_bytes = 200_000_000\n");
        let file = "a command may write files of at most 1000000 bytes: the setting `bash.file_bytes`";
        let memory = "a command may fill at most 200000000 bytes of memory: the setting `bash.memory_bytes`";
        for (command, hint) in [
            ("head -c 2m /dev/zero > big", file),
            ("exec head -c 2m /dev/zero > big", file),
            ("trap '' XFSZ; head -c 2m /dev/zero > big", file),
            ("echo MemoryError; exit 1", memory),
            ("echo 'fork: Cannot allocate memory' >&2; exit 254", memory),
        ] {
            let answer = bash(&ws, backend, command).success();
            assert!(warnings(&answer).contains(hint), "{backend} {command}: {answer:#}");
        }
        let answer = bash(&ws, backend, "echo MemoryError; echo File too large").success();
        assert!(answer.get("warnings").is_none(), "{answer:#}");
    }
}

/// Returns the answer to a command that says something, and fails.
fn failed(ws: &Workspace, said: &str) -> serde_json::Value {
    let request =
        json!({ "command": "printf '%s\n' \"$SAID\" >&2; false", "workdir": "in", "env": { "SAID": said } });
    ws.json("bash", &request).success()
}

/// Returns a workspace with protected files.
fn with_protected() -> Workspace {
    let files = ["a.txt", "in/src/deep/x", "run/b.txt"].map(|path| (path, "x\n"));
    let ws = Workspace::with(&files);
    ws.write(".lbx/config.toml", "protect = ['a.txt', 'in/src', 'run/b.txt']\n");
    ws
}

#[test]
fn hint_is_found_in_the_output_of_any_program() {
    let ws = with_protected();
    for (said, hint) in [
        ("error: could not lock config file .git/config: Read-only file system", "lbx squash"),
        ("/bin/bash: line 1: ../../other: Read-only file system", "../../other is read-only for commands"),
        (
            "OSError: [Errno 30] Read-only file system: 'src/deep/x'",
            "src/deep/x is protected by the setting `protect`",
        ),
        ("touch: cannot touch '../.lbx/q': Read-only file system", "lbx keeps its own state there"),
        (
            "sed: cannot rename ../sedAb1: Device or resource busy",
            "the setting `protect` lets no command replace or remove a.txt",
        ),
        ("rm: cannot remove '.git': Device or resource busy", "lbx squash"),
        (
            "cat: /var/log: No such file or directory",
            "commands do not see /var/log: the setting `bash.readable`",
        ),
    ] {
        let answer = failed(&ws, said);
        let warned = answer["warnings"].as_array().unwrap();
        assert!(warned.len() == 1 && warned[0].as_str().unwrap().contains(hint), "{said}: {answer:#}");
    }
}

#[test]
fn other_failures_and_success_have_no_hint() {
    let ws = with_protected();
    for said in [
        "test result: FAILED. 1 failed",
        "cat: nothing: No such file or directory",
        "cat: /no/such/place: No such file or directory",
        &format!("cat: {}/x: No such file or directory", ws.root.display()),
        "/bin/bash: line 1: out: Read-only file system",
        "bash: src-new: Read-only file system",
        &format!("touch: cannot touch '{}/out/a.txt': Read-only file system", ws.root.display()),
        "mount: ./x: Device or resource busy",
        "dial tcp 127.0.0.1:5432: connect: connection refused",
        "cat: /etc/shadow: Permission denied",
    ] {
        let answer = failed(&ws, said);
        assert!(answer.get("warnings").is_none(), "{said}: {answer:#}");
    }
    for command in ["echo 'Read-only file system: .git'", "ls nothing", "cat /no/such/file", "false"] {
        let answer = ws.lbx(&["bash", command]).success();
        assert!(answer.get("warnings").is_none(), "{command}: {answer:#}");
    }
}

#[test]
fn rename_that_a_layer_cannot_make_gets_a_hint() {
    if !has_overlays() {
        return;
    }
    let rename = |direct: bool| {
        let ws = Workspace::with(&[("d/a.txt", "one\n")]);
        let command = "python3 -c 'import os; os.rename(\"d\", \"e\")'";
        let answer = with(&ws, "auto", &json!({ "command": command, "direct": direct })).success();
        (answer["data"]["exit_code"].clone(), warnings(&answer))
    };
    let (exit_code, warned) = rename(false);
    let hint = "on a layer no program can rename a folder that existed before the command: `mv` copies it, and `direct` runs the command on the files themselves";
    assert!(exit_code == 1 && warned.contains(hint), "{warned}");
    assert_eq!(rename(true).0, 0);
    // A hard link from another mount fails without a layer too.
    let ws = Workspace::with(&[]);
    let answer = ws.lbx(&["bash", "touch /tmp/x; ln /tmp/x here"]).success();
    assert!(answer["data"]["exit_code"] == 1 && answer.get("warnings").is_none(), "{answer:#}");
}

#[test]
fn job_output_gets_hints() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    // A job that ends at once already has the hint in the first response.
    let job = ws.lbx(&["bash", "--background", "git commit --allow-empty -m x"]).success();
    let name = job["data"]["job"].as_str().unwrap().to_owned();
    let ended = with(&ws, "auto", &json!({ "job": name, "timeout_ms": 10_000 })).success();
    assert!(warnings(&ended).contains("the developer commits the changes with `lbx squash`"), "{ended:#}");
}

#[test]
fn npm_works_offline_and_install_fails_fast() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    if ws.lbx(&["bash", "command -v npm"]).success()["data"]["exit_code"] != 0 {
        return skipped("no npm");
    }
    let made = ws.lbx(&["bash", "npm init -y"]).success();
    assert_eq!(made["data"]["exit_code"], 0, "{made:#}");
    assert!(ws.path("package.json").exists());
    let answer = ws.lbx(&["bash", "npm install left-pad"]).success();
    assert_ne!(answer["data"]["exit_code"], 0);
    assert!(answer["data"]["stderr"].as_str().unwrap().contains("ENOTCACHED"), "{answer:#}");
    assert!(warnings(&answer).contains("commands have no network here"), "{answer:#}");
}
