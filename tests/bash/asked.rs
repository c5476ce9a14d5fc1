//! Forms of a command in a request, and the exit status.

use serde_json::json;

use crate::common::Workspace;
use crate::support::{backends, output, with};

#[test]
fn text_output_exits_with_the_status_of_the_command() {
    let ws = Workspace::with(&[]);
    for (command, status) in [("exit 7", 7), ("true", 0), ("kill -9 $$", 137), ("sleep 60", 124)] {
        let words = ["bash", "--timeout-ms", "400", command];
        assert_eq!(ws.call(&words).arguments(&["--text"]).run().status(), status, "{command}");
        assert_eq!(ws.call(&words).env("LBX_OUTPUT", "text").run().status(), status, "{command}");
        assert_eq!(ws.lbx(&words).status(), 0, "{command}");
    }
    assert_eq!(ws.lbx(&["bash", "--text", "--workdir", "none", "true"]).status(), 125);
    assert_eq!(ws.lbx(&["bash", "--text", "--no-such-flag"]).status(), 125);
}

#[test]
fn text_read_of_several_paths_exits_with_the_first_error() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("d/b.txt", "b\n")]);
    let of = |words: &[&str]| ws.call(words).arguments(&["--text"]).run().status();
    let missing = of(&["read", "none"]);
    assert_ne!(missing, 0);
    assert_eq!(of(&["read", "a.txt", "d/b.txt"]), 0);
    assert_eq!(of(&["read", "a.txt", "none", "d"]), missing);
    assert_eq!(of(&["read", "a.txt", "d", "none"]), of(&["read", "d"]));
    assert_eq!(ws.lbx(&["read", "a.txt", "none"]).status(), 0);
}

#[test]
fn network_flag_takes_a_value_only_after_an_equals_sign() {
    let ws = Workspace::with(&[]);
    let setting = "bash.network=allow";
    let answer = ws.lbx(&["bash", "--set", setting, "--network", "echo out"]).ok();
    assert_eq!(answer["stdout"], "out\n");
    ws.lbx(&["bash", "--network=false", "true"]).ok();
    ws.lbx(&["bash", "--network", "true"]).error("command_denied");
}

#[test]
fn bash_accepts_command_lists_and_crlf() {
    let ws = Workspace::with(&[]);
    for (command, stdout) in [
        (json!("echo a\r\necho b\r\n"), "a\nb\n"),
        (json!("echo a\r"), "a\n"),
        (json!("printf 'a\rb'"), "a\rb"),
        (json!("cat <<E\r\nx\r\nE\r\n"), "x\n"),
        (json!(["printf", "%s.", "a b", "$HOME"]), "a b.$HOME."),
        (json!(["bash", "-lc", "echo a && echo b"]), "a\nb\n"),
        (json!("[\"echo\", \"a b\"]"), "a b\n"),
        (json!("[ 1 = 1 ] && echo yes"), "yes\n"),
    ] {
        let answer = ws.json("bash", &json!({ "command": command })).ok();
        assert_eq!(answer["stdout"], stdout, "{command}: {answer:#}");
    }
    ws.json("bash", &json!({ "command": [] })).error("invalid_request");
    ws.json("bash", &json!({ "command": 7 })).error("invalid_request");
}

#[test]
fn oversized_env_field_is_an_invalid_request() {
    let ws = Workspace::with(&[]);
    for backend in backends() {
        let of = |bytes: usize| json!({ "command": "echo ${#BIG}", "env": { "BIG": "x".repeat(bytes) } });
        assert_eq!(with(&ws, backend, &of(131_067)).ok()["stdout"], "131067\n", "{backend}");
        let error = with(&ws, backend, &of(131_068)).error("invalid_request");
        assert_eq!(error["details"]["field"], "env");
        assert!(error["message"].as_str().unwrap().contains("131068 bytes; the limit is 131067"), "{error}");
        let many = |count: usize| -> serde_json::Value {
            let variables = (0..count).map(|number| (format!("V{number}"), json!("x".repeat(110_000))));
            json!({ "command": "true", "env": variables.collect::<serde_json::Map<_, _>>() })
        };
        with(&ws, backend, &many(5)).ok();
        let error = with(&ws, backend, &many(60)).error("invalid_request");
        assert!(error["message"].as_str().unwrap().contains("; the limit of the system is "), "{error}");
    }
}

#[test]
fn commands_get_only_allowed_and_given_variables() {
    let ws = Workspace::with(&[]);
    ws.user_policy("[bash]\nenv = ['MINE']\nnetwork = 'allow'\n");
    let command = "echo $LC_ALL,$PAGER,$LANG,$MINE,$OURS,$AWS_SECRET_ACCESS_KEY,$GOPROXY";
    let call = ws.call(&["bash", "--env", "LANG=de", command]).env("PAGER", "less");
    let call = call.env("MINE", "m").env("OURS", "o").env("AWS_SECRET_ACCESS_KEY", "x");
    let call = call.env("GOPROXY", "direct,https://user:token@proxy.example/x");
    assert_eq!(call.run().ok()["stdout"], "C.UTF-8,less,de,m,,,\n");
}

#[test]
fn package_managers_are_offline_without_network_unless_overridden() {
    let ws = Workspace::with(&[]);
    let command = "echo $npm_config_offline,$GOPROXY,$PIP_NO_INDEX";
    for (network, seen) in [("deny", "true,file:///mirror,0\n"), ("allow", ",file:///mirror,0\n")] {
        let setting = format!("bash.network={network}");
        let call = ws.call(&["bash", "--set", &setting, "--env", "PIP_NO_INDEX=0", command]);
        assert_eq!(call.env("GOPROXY", "file:///mirror").run().ok()["stdout"], seen, "{network}");
    }
}

#[test]
fn makeflags_pass_no_job_server_and_no_variable() {
    let ws = Workspace::with(&[]);
    for (value, kept) in [
        ("ks", "ks"),
        ("k -j4 --jobserver-auth=3,4", "k -j4"),
        (" -j8 --jobserver-auth=fifo:/tmp/x --no-print-directory", " -j8 --no-print-directory"),
        (" -j --jobserver-fds=3,4", ""),
        ("s -- PASSWORD=a\\ -b X=y", "s"),
        ("PASSWORD=a\\ -b", ""),
        ("", ""),
    ] {
        let call = ws.call(&["bash", "printf %s \"$MAKEFLAGS\""]).env("MAKEFLAGS", value);
        assert_eq!(call.run().ok()["stdout"], kept, "{value}");
    }
}

#[test]
fn tiny_timeout_ms_is_a_warning() {
    let ws = Workspace::with(&[]);
    let answer = ws.json("bash", &json!({ "command": "sleep 9", "timeout_ms": 30 })).success();
    assert_eq!(answer["data"]["timed_out"], true);
    assert!(
        answer["warnings"].to_string().contains("`timeout_ms` is 30: the unit is milliseconds"),
        "{answer}"
    );
    ws.json("bash", &json!({ "command": "true", "timeout_ms": 10_000 })).ok();
}

#[test]
fn commands_run_without_prompts_unless_overridden() {
    let ws = Workspace::with(&[]);
    let command = "echo $CI,$DEBIAN_FRONTEND,$GIT_EDITOR,$GIT_PAGER,$PIP_NO_INPUT,$MAKEFLAGS";
    for backend in backends() {
        let found = output(&ws, backend, command)["stdout"].clone();
        assert_eq!(found, "true,noninteractive,:,cat,1,\n", "{backend}");
    }
    let call =
        ws.call(&["bash", command]).env("CI", "no").env("MAKEFLAGS", "k --jobserver-auth=3,4 -- P=secret");
    assert_eq!(call.run().ok()["stdout"], "no,noninteractive,:,cat,1,k\n");
    let given = json!({ "command": command, "env": { "CI": "", "GIT_EDITOR": "vi" } });
    assert_eq!(ws.json("bash", &given).ok()["stdout"], ",noninteractive,vi,cat,1,\n");
}
