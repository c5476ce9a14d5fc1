//! Size of an answer: harnesses cut output at 30,000 characters, whatever a command prints and changes.

use serde_json::{Value, json};

use crate::common::{Answer, Workspace, in_parallel};
use crate::support::{first_backend, with};

/// Largest output that a shell shows, in characters.
const SHOWN_MAX: usize = 30_000;
/// Control bytes, which take six bytes each in JSON.
const CONTROLS: &str = r"head -c 60000 /dev/zero | tr '\0' '\001'";
/// Bytes that are not UTF-8, which take three bytes each in the output.
const NO_UTF8: &str = r"head -c 60000 /dev/zero | tr '\0' '\377'";
/// Lines of quotes and backslashes.
const QUOTES: &str = r#"yes '"\"\"\' | head -n 20000"#;
/// One long line without a line ending.
const LONG_LINE: &str = "head -c 300000 /dev/zero | tr '\\0' x";
/// Files with long names that JSON escapes.
const MANY_FILES: &str = r#"mkdir many; name=$(printf '\001"%.0s' $(seq 60)); for i in $(seq 400); do echo $i > "many/$name$i"; done"#;

/// Returns commands for everything that can be printed and changed, on both outputs at once.
fn commands() -> Vec<String> {
    let outputs = [CONTROLS, NO_UTF8, QUOTES, LONG_LINE];
    let mut commands: Vec<String> =
        outputs.iter().map(|print| format!("{{ {print}; }}; {{ {print}; }} >&2")).collect();
    commands.push(MANY_FILES.to_owned());
    commands.push(format!("{CONTROLS}; {{ {QUOTES}; }} >&2; {MANY_FILES}"));
    commands
}

/// Returns the answer, after checking that a shell shows all of it.
#[track_caller]
fn shown_whole(answer: &Answer) -> Value {
    let length = answer.stdout_text().chars().count();
    assert!(length < SHOWN_MAX, "{length} characters: {:.300}", answer.stdout_text());
    answer.envelope()
}

#[test]
fn bash_responses_are_bounded() {
    let Some(backend) = first_backend() else { return };
    in_parallel(&commands(), |command| {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        let whole = json!({ "command": command });
        let data = shown_whole(&with(&ws, backend, &whole))["data"].clone();
        assert_eq!(data["exit_code"], 0, "{data}");
        ws.git(&["clean", "-qfd", "-e", ".lbx"]);
        for failing in [
            json!({ "command": format!("{command}; exit 7") }),
            json!({ "command": format!("{command}; sleep 60"), "timeout_ms": 4000 }),
        ] {
            shown_whole(&with(&ws, backend, &failing));
            ws.git(&["clean", "-qfd", "-e", ".lbx"]);
        }
    });
}

#[test]
fn bash_transaction_responses_are_bounded() {
    let Some(backend) = first_backend() else { return };
    in_parallel(&commands(), |command| {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        for request in [
            json!({ "command": command, "dry_run": true }),
            json!({ "command": format!("{command}; exit 7"), "on_failure": "discard" }),
            // A forbidden change is refused, with the output of the command.
            json!({ "command": format!("{command}; mkdir new; cd new; git init -q ."), "transaction": true }),
            json!({ "command": command, "transaction": true }),
        ] {
            shown_whole(&with(&ws, backend, &request));
        }
        shown_whole(&ws.lbx(&["undo"]));
    });
}

#[test]
fn bash_job_responses_are_bounded() {
    let Some(backend) = first_backend() else { return };
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    for command in commands() {
        let started = with(&ws, backend, &json!({ "command": command, "background": true }));
        let job = shown_whole(&started)["data"]["job"].as_str().unwrap().to_owned();
        for more in
            [&["--timeout-ms", "20000"][..], &["--offset", "0"], &["--offset", "1"], &["--offset=-40000"]]
        {
            shown_whole(&ws.lbx(&[&["bash", "--job", &job], more].concat()));
        }
        shown_whole(&ws.lbx(&["bash", "--job", &job, "--stop"]));
        ws.git(&["clean", "-qfd", "-e", ".lbx"]);
    }
    for number in 0..12 {
        let command = format!("true {number} {}", "\u{1}\"".repeat(20_000));
        let started = with(&ws, backend, &json!({ "command": command, "background": true }));
        let data = shown_whole(&started)["data"].clone();
        assert!(data["command"].as_str().unwrap().starts_with(&format!("true {number} ")), "{data}");
    }
    shown_whole(&ws.lbx(&["bash", "--list"]));
}
