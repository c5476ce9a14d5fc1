//! The environment of a command, and what the answer reports about it.

use std::fs;
use std::io::Read as _;

use serde_json::{Value, json};

use crate::common::Workspace;
use crate::support::{backends, bash, output, with};

#[test]
fn bash_accepts_flags_json_and_stdin() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("sub/b.txt", "two\n")]);
    let command = "echo out; echo err >&2; exit 3";
    let flags = ws.lbx(&["bash", command]).ok();
    let json = ws.json("bash", &json!({ "command": command })).ok();
    let stdin = ws.lbx_stdin(&["bash"], json!({ "cmd": command }).to_string()).ok();
    let typed = ws.lbx(&["bash", "-c", command]).ok();
    let login = ws.lbx(&["bash", "-lc", command]).ok();
    for answer in [flags, json, stdin, typed, login] {
        assert_eq!((&answer["stdout"], &answer["stderr"]), (&json!("out\n"), &json!("err\n")), "{answer:#}");
        assert_eq!((&answer["exit_code"], &answer["timed_out"]), (&json!(3), &json!(false)));
        assert_eq!((&answer["changed"], &answer["truncated"]), (&json!([]), &json!(false)));
        assert!(answer["duration_ms"].is_u64() && answer["peak_memory_bytes"].as_u64() > Some(100_000));
        assert!(answer["sandbox"].is_string());
    }
    for wrong in
        [json!({}), json!({ "command": "" }), json!({ "command": " \n" }), json!({ "command": "a\u{0}b" })]
    {
        ws.json("bash", &wrong).error("invalid_request");
    }
    let long = "x".repeat(200_000);
    assert!(
        with(&ws, "auto", &json!({ "command": long })).error("invalid_request")["message"]
            .as_str()
            .unwrap()
            .contains("131071")
    );
    ws.json("bash", &json!({ "command": "true", "env": { "A=B": "c" } })).error("invalid_request");
}

#[test]
fn exit_status_flag_returns_the_status_of_the_command() {
    let ws = Workspace::with(&[]);
    for (command, status) in [("exit 7", 7), ("true", 0), ("kill -9 $$", 137), ("sleep 60", 124)] {
        let answer = ws.lbx(&["bash", "--exit-status", "--timeout-ms", "400", command]);
        assert_eq!(answer.status(), status, "{command}");
        let plain = ws.lbx(&["bash", "--timeout-ms", "400", command]);
        assert_eq!(plain.status(), 0, "{command}");
        assert_eq!(plain.ok()["exit_code"], status, "{command}");
    }
    assert_eq!(ws.lbx(&["bash", "--exit-status", "--workdir", "none", "true"]).status(), 125);
    assert_eq!(ws.lbx(&["bash", "--exit-status", "--no-such-flag"]).status(), 125);
    assert_eq!(ws.lbx(&["bash", "--workdir", "none", "true"]).status(), 3);
}

#[test]
fn text_output_of_bash_is_the_raw_output() {
    let ws = Workspace::with(&[]);
    let answer = ws.lbx(&["bash", "--text", "printf 'a\\033[31mb\\n'; echo err >&2; touch new; exit 2"]);
    assert_eq!(answer.stdout(), b"a\x1b[31mb\n");
    let stderr = answer.stderr();
    assert!(stderr.starts_with("err\n"), "{stderr}");
    for part in ["exited with status 2", "created: new"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

#[test]
fn command_gets_its_workdir_stdin_and_env() {
    for backend in backends() {
        let ws = Workspace::with(&[("sub/b.txt", "two\n")]);
        let in_folder = with(&ws, backend, &json!({ "command": "pwd; cat b.txt", "workdir": "sub" })).ok();
        let shown = format!("{}\ntwo\n", ws.path("sub").display());
        assert_eq!(in_folder["stdout"], shown, "{backend}");
        let from =
            ws.call(&["bash", "--set", &format!("bash.backend={backend}"), "pwd"]).in_folder(&ws.path("sub"));
        assert_eq!(from.run().ok()["stdout"], format!("{}\n", ws.path("sub").display()));
        with(&ws, backend, &json!({ "command": "true", "workdir": "sub/b.txt" })).error("not_a_directory");
        with(&ws, backend, &json!({ "command": "true", "workdir": "/etc" })).error("outside_workspace");

        let text = "line\n".repeat(100_000);
        let fed = with(&ws, backend, &json!({ "command": "wc -c", "stdin": text })).ok();
        assert_eq!(fed["stdout"], "500000\n", "{backend}");
        let partly =
            with(&ws, backend, &json!({ "command": "head -1; exec <&-; sleep 0.1", "stdin": text })).ok();
        assert_eq!(partly["stdout"], "line\n", "{backend}");
        assert_eq!(output(&ws, backend, "cat")["stdout"], "", "{backend}: without stdin there is none");

        let request = json!({ "command": "echo $A,$TERM,${TMPDIR},$HOME", "env": { "A": "b,c=d" } });
        let home = ws.outside.join("home");
        assert_eq!(
            with(&ws, backend, &request).ok()["stdout"],
            format!("b,c=d,dumb,/tmp,{}\n", home.display())
        );
        let flags = ["bash", "--set", &format!("bash.backend={backend}"), "--env", "A=1,B=2", "echo $A$B"];
        assert_eq!(ws.lbx(&flags).ok()["stdout"], "12\n");
    }
}

#[test]
fn long_output_is_cut_and_saved_to_a_file() {
    for backend in backends() {
        let ws = Workspace::with(&[]);
        let answer = output(&ws, backend, "seq 100000; echo last >&2");
        let stdout = answer["stdout"].as_str().unwrap();
        assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("\n99999\n100000\n"), "{backend}");
        assert!(stdout.contains("bytes left out") && stdout.len() < 25_000, "{}", stdout.len());
        assert_eq!((&answer["stderr"], &answer["truncated"]), (&json!("last\n"), &json!(true)));
        assert_eq!(answer["output_bytes"], 588_895 + 5);
        let file = answer["output_file"].as_str().unwrap();
        // Two streams have no common order: stderr may come a little earlier.
        let whole = String::from_utf8(ws.read_bytes(file)).unwrap().replacen("last\n", "", 1);
        let lines: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
        assert!(whole == lines, "{backend}: {} bytes", whole.len());
        assert_eq!(ws.lbx(&["read", file, "--limit", "2"]).ok()["content"], "1\n2\n", "{backend}");
        let little = with(&ws, backend, &json!({ "command": "seq 100000", "max_bytes": 100 })).ok();
        assert!(little["stdout"].as_str().unwrap().len() < 150);
        let all = with(&ws, backend, &json!({ "command": "seq 100000", "max_bytes": 0 })).ok();
        assert_eq!(all["stdout"].as_str().unwrap().len(), 588_895);
        assert!(all["output_file"].is_null());
    }
}

#[test]
fn cut_output_keeps_whole_lines_of_its_ends() {
    let ws = Workspace::with(&[]);
    let limited = |command: &str, bytes: &str| {
        ws.lbx(&["bash", "--set", "bash.output_bytes=1048576", "--max-bytes", bytes, command]).success()
    };
    let lines = limited("seq -f %02g 0 19", "20");
    assert_eq!(lines["data"]["stdout"], "00\n01\n02\n[... 45 bytes left out ...]\n18\n19\n");
    let line = limited("head -c 2M /dev/zero | tr '\\0' x", "10");
    assert_eq!(line["data"]["stdout"], "xxxxx\n[... 2097142 bytes left out ...]\nxxxxx");
    let file = line["data"]["output_file"].as_str().unwrap();
    let told = format!("the output file {file} holds the first 1048576 of 2097152 bytes of output");
    assert_eq!(line["warnings"], json!([told]), "{line:#}");
    assert_eq!(ws.read_bytes(file).len(), 1 << 20);
    // Each stream gets half of the room, and what the other leaves.
    let much = "yes 0123456 | head -n 100";
    let one = limited(&format!("{much}; echo error >&2"), "64")["data"].clone();
    let stdout = one["stdout"].as_str().unwrap();
    assert!(one["stderr"] == "error\n" && stdout.len() < 100 && stdout.ends_with("0123456\n"), "{one:#}");
    let both = limited(&format!("{much}; ({much}) >&2"), "64")["data"].clone();
    for stream in ["stdout", "stderr"] {
        assert!(both[stream].as_str().unwrap().contains("left out"), "{both:#}");
    }
}

#[test]
fn only_the_newest_output_files_are_kept() {
    let ws = Workspace::with(&[]);
    let mut file = Value::Null;
    for _ in 0..22 {
        file =
            with(&ws, "auto", &json!({ "command": "seq 100", "max_bytes": 50 })).ok()["output_file"].take();
    }
    let folder = ws.path(file.as_str().unwrap()).parent().unwrap().to_owned();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 20);
}

#[test]
fn non_utf8_output_is_shown_with_a_warning() {
    let ws = Workspace::with(&[]);
    let answer = bash(&ws, "auto", "printf 'caf\\351 \\000'").warned("not UTF-8");
    assert_eq!(answer["stdout"], "caf\u{fffd} \u{0}");
}

#[test]
fn flooding_and_silent_commands_respect_memory_and_timeout() {
    let ws = Workspace::with(&[]);
    for (command, timeout_ms, exit_code, timed_out) in [
        ("yes", 1000, 124, true),
        ("head -c 1G /dev/zero", 50_000, 0, false),
        ("exec >&- 2>&-; sleep 0.3", 20_000, 0, false),
        ("exec 1>&- 2>&- 0<&-; sleep 60", 700, 124, true),
        ("while read -r line; do :; done < <(sleep 60)", 700, 124, true),
    ] {
        let request = json!({ "command": command, "timeout_ms": timeout_ms });
        let answer = ws.call(&["bash", "--set", "bash.output_bytes=1048576", "--json", &request.to_string()]);
        let measured = measured(answer.spawn());
        let answer = &measured.0["data"];
        assert_eq!(
            (&answer["exit_code"], &answer["timed_out"]),
            (&json!(exit_code), &json!(timed_out)),
            "{command}"
        );
        assert!(measured.1 < 64 << 10, "{command}: lbx itself took {} kB", measured.1);
    }
}

/// Returns the answer of a call, and the peak memory of its own process in kB.
fn measured(mut child: std::process::Child) -> (Value, u64) {
    let mut stdout = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut answer = Vec::new();
        stdout.read_to_end(&mut answer).unwrap();
        answer
    });
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let now = fs::read_to_string(&status).unwrap_or_default();
        let line = now.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let size = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = size.unwrap_or(0).max(peak);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    (serde_json::from_slice(&reader.join().unwrap()).unwrap(), peak)
}
