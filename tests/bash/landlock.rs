//! Rules of Landlock and the system call filter: what a command cannot do, and what still works.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::common::{Workspace, kill};
use crate::confined::{WRITES_OUTSIDE, guarded, outside_guarded, standing};
use crate::support::{bash, has_backend, with};

/// Name of the backend.
const LANDLOCK: &str = "landlock";

/// Returns true if it works here.
fn works() -> bool {
    has_backend(LANDLOCK)
}

/// Checks that a command fails, and that the answer holds no secret.
fn refused(ws: &Workspace, command: &str) {
    let answer = bash(ws, LANDLOCK, command).success();
    assert_ne!(answer["data"]["exit_code"], 0, "{command}: {answer:#}");
    assert!(!answer.to_string().contains("SECRET"), "{command}: {answer:#}");
}

#[test]
fn landlock_denies_writes_outside_and_secrets() {
    if !works() {
        return;
    }
    let (ws, file) = outside_guarded();
    let before = standing(&file);
    let other_ways = [
        "echo x > /tmp/lbx-was-here",
        "echo x > /etc/lbx-was-here",
        "mount -t tmpfs x sub",
        "cat ~/.ssh/id_ed25519",
        "cat ~/.ssh/*",
        "cat ~/.netrc",
        "cat ../home/.netrc",
        "cp ~/.netrc copy && cat copy",
        "ln ~/.netrc hard && cat hard",
        "cat /proc/$PPID/environ",
        "cat /proc/1/environ",
    ];
    for command in WRITES_OUTSIDE.into_iter().chain(other_ways) {
        refused(&ws, command);
    }
    assert_eq!(standing(&file), before);
}

#[test]
fn landlock_denies_network_and_other_processes() {
    if !works() {
        return;
    }
    let ws = guarded();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    refused(&ws, &format!("echo x > /dev/tcp/127.0.0.1/{}", tcp.local_addr().unwrap().port()));
    refused(&ws, &format!("echo x > /dev/udp/127.0.0.1/{}", udp.local_addr().unwrap().port()));
    assert!(tcp.accept().is_err() && udp.recv(&mut [0; 8]).is_err());
    let mut other = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    let pid = other.id();
    for command in
        [format!("cat /proc/{pid}/environ"), format!("cat /proc/{pid}/mem"), "kill -9 $PPID".to_owned()]
    {
        refused(&ws, &command);
    }
    for command in [
        format!("kill -9 {pid}"),
        // At its limit of processor time the kernel ends it.
        format!("prlimit --pid {pid} --cpu=1:1"),
        "ipcmk --shmem 64".to_owned(),
        "ipcmk --semaphore 1".to_owned(),
        "ipcmk --queue".to_owned(),
    ] {
        refused(&ws, &command);
    }
    // A process sets its own limits.
    let own = ["bash", "--set", "bash.backend=landlock", "ulimit -n 64; prlimit --nofile=32 true"];
    assert_eq!(ws.lbx(&own).success()["data"]["exit_code"], 0);
    assert!(other.try_wait().unwrap().is_none());
    kill(pid);
    other.wait().unwrap();
}

#[test]
fn landlock_reports_its_gaps_and_needs_permission_of_the_policy() {
    if !works() {
        return;
    }
    let ws = guarded();
    let answer = bash(&ws, LANDLOCK, "echo x >> .git/config").success();
    assert_eq!(answer["data"]["sandbox"], LANDLOCK);
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("landlock leaves open: "), "{answer:#}");
    assert!(warnings.contains(".git, .lbx and protected paths"), "{answer:#}");
    let all = ws.lbx(&["bash", "--backends"]).ok();
    let found = all["backends"].as_array().unwrap().iter().find(|it| it["name"] == LANDLOCK).unwrap();
    assert_eq!((&found["works"], &found["allowed"]), (&json!(true), &json!(false)));
    assert!(found["gaps"].to_string().contains("chmod"), "{found:#}");
    let allowed = ws.lbx(&["bash", "--backends", "--set", "bash.backend=auto-landlock"]).ok();
    let found = allowed["backends"].as_array().unwrap().iter().find(|it| it["name"] == LANDLOCK).unwrap();
    assert_eq!(found["allowed"], true);
    // It cannot hide a file in a writable folder, and then is not used.
    let setting = "bash.hidden=".to_owned() + ws.path("sub").to_str().unwrap();
    let settings = ["bash", "--set", "bash.backend=landlock", "--set", &setting, "true"];
    ws.lbx(&settings).error("command_denied");
}

#[test]
fn ordinary_commands_work_under_landlock() {
    if !works() {
        return;
    }
    let ws = guarded();
    ws.write("Makefile", "all:\n\tcp a.txt made\n");
    for (command, stdout) in [
        ("git status --short", "?? Makefile\n"),
        ("git log --format=%s", "first\n"),
        ("python3 -c 'import tempfile; tempfile.TemporaryFile().write(b\"x\"); print(6*7)'", "42\n"),
        ("make -s && cat made && rm made", "one\n"),
        ("cp -r sub s2 && mv s2 s3 && mv s3/b.txt c && cat c && chmod 700 s3 && rm -rf s3 c", "two\n"),
        ("ln -s a.txt l && ln a.txt h && cat l h && rm l h", "one\none\n"),
        ("f=$(mktemp) && echo x > $f && cat $f && echo y > /dev/null", "x\n"),
        ("cat; id -u > /dev/null", ""),
    ] {
        let answer = bash(&ws, LANDLOCK, command).success();
        let data = &answer["data"];
        assert_eq!(
            (&data["stdout"], &data["exit_code"]),
            (&json!(stdout), &json!(0)),
            "{command}: {answer:#}"
        );
    }
    // Its folder for temporary files is removed with the session.
    let told = bash(&ws, LANDLOCK, "echo $TMPDIR; touch $TMPDIR/x").success();
    let folder = told["data"]["stdout"].as_str().unwrap().trim().to_owned();
    assert!(folder != "/tmp" && fs::exists(format!("{folder}/x")).unwrap(), "{folder}");
    ws.lbx(&["session", "end"]).success();
    assert!(!fs::exists(&folder).unwrap(), "{folder}");
    let long = format!("# {}\necho done", "x".repeat(120_000));
    assert_eq!(with(&ws, LANDLOCK, &json!({ "command": long })).success()["data"]["stdout"], "done\n");
}
