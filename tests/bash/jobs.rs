//! Jobs: commands that keep running after the call that started them.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Workspace, kill, state};
use crate::ended::{FORKS, mark, marked, wait_until_no_process_is_left};
use crate::server::Server;
use crate::support::{all_backends, first_backend, with};

/// Starts a job and returns its name.
fn start(ws: &Workspace, backend: &str, request: &Value) -> String {
    let mut request = request.clone();
    request["background"] = true.into();
    let answer = with(ws, backend, &request).ok();
    assert_eq!((&answer["state"], &answer["sandbox"]), (&json!("running"), &json!(backend)), "{answer:#}");
    answer["job"].as_str().unwrap().to_owned()
}

/// Returns the state of a job.
fn look(ws: &Workspace, more: &[&str]) -> Value {
    ws.lbx(&[&["bash"], more].concat()).success()["data"].clone()
}

/// Waits for a file that a command creates.
fn wait_for(ws: &Workspace, path: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !ws.path(path).exists() {
        assert!(Instant::now() < deadline, "{path} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn job_output_is_read_from_an_offset_while_it_runs() {
    for backend in all_backends() {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        let command = "echo first; echo two >> a.txt; touch started; while [ ! -e go ]; do sleep 0.02; done; echo last; exit 3";
        let job = start(&ws, backend, &json!({ "command": command }));
        wait_for(&ws, "started");
        // The output passes the job's supervisor.
        let deadline = Instant::now() + Duration::from_secs(30);
        let first = loop {
            let first = look(&ws, &["--job", &job]);
            if first["output"] == "first\n" || Instant::now() > deadline {
                break first;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!((&first["output"], &first["state"]), (&json!("first\n"), &json!("running")), "{first:#}");
        assert!(first["exit_code"].is_null() && first["next_offset"] == 6);
        // In the meantime all tools work.
        ws.lbx(&["read", "a.txt"]).ok();
        ws.lbx(&["write", "new.txt", "--content", "x\n"]).success();
        ws.lbx(&["bash", "cat a.txt"]).ok();
        ws.write("go", "");
        let answer = ws.lbx(&["bash", "--job", &job, "--offset", "6", "--timeout-ms", "20000"]).success();
        let end = &answer["data"];
        assert_eq!(
            (&end["output"], &end["state"], &end["exit_code"]),
            (&json!("last\n"), &json!("ended"), &json!(3)),
            "{backend}: {end:#}"
        );
        let changed: Vec<&str> =
            end["changed"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
        assert!(changed.contains(&"a.txt") && changed.contains(&"started"), "{end:#}");
        assert!(!changed.contains(&"new.txt"), "what another call wrote is not the job's: {end:#}");
        assert!(end["duration_ms"].is_u64() && end["timed_out"] == false);
        assert_eq!(look(&ws, &["--job", &job, "--offset=-5"])["output"], "last\n");
        let file = end["output_file"].as_str().unwrap();
        assert_eq!(ws.read_bytes(file), b"first\nlast\n");
        let log = ws.git(&["log", "--format=%s", "lbx-snapshots"]);
        assert!(log.contains("bash: echo first"), "{log}");
    }
}

#[test]
fn stopped_job_leaves_no_process() {
    for backend in all_backends() {
        let ws = Workspace::with(&[]);
        let mark = mark(&format!("job-{backend}"));
        let request = json!({
            "command": format!("{FORKS}\necho x > started; sleep 1000"),
            "env": { "LBX_MARK": mark },
        });
        let job = start(&ws, backend, &request);
        wait_for(&ws, "started");
        let end = look(&ws, &["--job", &job, "--stop"]);
        assert!(marked(&mark).is_empty(), "{backend}: {:?}", marked(&mark));
        assert_eq!((&end["state"], &end["stopped"]), (&json!("ended"), &json!(true)), "{end:#}");
        assert_eq!(end["changed"][0]["path"], "started", "{end:#}");
        // A second stop is not an error.
        assert_eq!(look(&ws, &["--job", &job, "--stop"])["state"], "ended");
    }
}

#[test]
fn job_output_is_bounded_and_the_timeout_applies() {
    let ws = Workspace::with(&[]);
    let call = ws.lbx(&["bash", "--set", "bash.output_bytes=1048576", "-b", "--timeout-ms", "1500", "yes"]);
    let job = call.ok()["job"].as_str().unwrap().to_owned();
    let answer = ws.lbx(&["bash", "--job", &job, "--timeout-ms", "30000", "--max-bytes", "10"]).success();
    let end = &answer["data"];
    assert_eq!((&end["timed_out"], &end["exit_code"]), (&json!(true), &json!(124)), "{end:#}");
    assert_eq!((&end["output_bytes"], &end["output"]), (&json!(1_048_576), &json!("y\ny\ny\ny\ny\n")));
    assert_eq!((&end["truncated"], &end["next_offset"]), (&json!(true), &json!(10)));
    assert!(answer["warnings"].to_string().contains("bytes of output are left out"), "{answer:#}");
}

#[test]
fn jobs_belong_to_their_session() {
    let ws = Workspace::with(&[]);
    let backend = all_backends()[0];
    let job = start(&ws, backend, &json!({ "command": "echo mine; sleep 1000" }));
    let other = ["bash", "--session", "other"];
    let error = ws.lbx(&[&other[..], &["--job", &job]].concat()).error("not_found");
    assert!(error["message"].as_str().unwrap().contains("it has none"), "{error:#}");
    ws.lbx(&[&other[..], &["--job", &job, "--stop"]].concat()).error("not_found");
    assert_eq!(ws.lbx(&[&other[..], &["--list"]].concat()).ok()["jobs"], json!([]));
    let listed = look(&ws, &["--list"]);
    assert_eq!((&listed["jobs"][0]["job"], &listed["jobs"][0]["state"]), (&json!(job), &json!("running")));
    let text = ws.lbx(&["bash", "--list", "-t"]);
    assert!(String::from_utf8_lossy(text.stdout()).starts_with(&format!("{job}\trunning\t")));
    look(&ws, &["--job", &job, "--stop"]);
    for name in ["j99", "../../x", "j1/..", ""] {
        ws.lbx(&["bash", "--job", name]).error("not_found");
    }
    for wrong in [
        json!({ "job": "j1", "command": "true" }),
        json!({ "stop": true }),
        json!({ "offset": 3, "command": "true" }),
        json!({ "list": true, "job": "j1" }),
        json!({ "background": true }),
        json!({ "job": job, "stop": true, "dry_run": true }),
    ] {
        ws.json("bash", &wrong).error("invalid_request");
    }
    // A client that fills every field.
    ws.json("bash", &json!({ "offset": 0, "command": "true" })).ok();
}

#[test]
fn part_of_a_job_is_recorded_before_another_change_of_the_file() {
    for later in ["true", "sed -i 1izero a.txt"] {
        let ws = Workspace::with(&[("a.txt", "one\ntwo\nthree\n"), ("gone.txt", "old\n")]);
        let command = format!(
            "sed -i s/one/ONE/ a.txt; echo made > made.txt; rm gone.txt; touch begun; while [ ! -e go ]; do sleep 0.02; done; {later}"
        );
        let job = start(&ws, all_backends()[0], &json!({ "command": command }));
        wait_for(&ws, "begun");
        ws.lbx(&["read", "a.txt"]).ok();
        ws.lbx(&["edit", "a.txt", "--old-string", "two", "--new-string", "TWO"]).ok();
        ws.lbx(&["delete", "made.txt"]).ok();
        ws.lbx(&["write", "gone.txt", "--content", "new\n"]).ok();
        ws.lbx(&["read", "a.txt", "--session", "other"]).ok();
        ws.lbx(&["edit", "a.txt", "--old-string", "three", "--new-string", "THREE", "--session", "other"])
            .ok();
        ws.write("go", "");
        let ended = ws.lbx(&["bash", "--job", &job, "--timeout-ms", "20000"]).success()["data"].clone();
        let changed = ended["changed"].as_array().unwrap();
        let changed: Vec<_> =
            changed.iter().map(|it| (it["path"].as_str().unwrap(), it["action"].as_str().unwrap())).collect();
        for wanted in [("a.txt", "modify"), ("made.txt", "create"), ("gone.txt", "delete")] {
            assert!(changed.contains(&wanted), "{changed:?}");
        }
        let log = ws.git(&["log", "--reverse", "--format=%s", "lbx-snapshots", "--not", "HEAD"]);
        let told = |line: &str| {
            let word = line.split(' ').next().unwrap_or_default();
            format!("{word}{}", if line.ends_with(" (so far)") { " so far" } else { "" })
        };
        let log: Vec<String> = log.lines().map(told).collect();
        let so_far = ["bash: so far", "edit:", "bash: so far", "delete:", "bash: so far", "write:", "edit:"];
        assert_eq!(log[..7], so_far, "{log:?}");
        assert!(log[7..].iter().all(|line| line == "bash:"), "{log:?}");
        // The other session's line stays apart.
        let diff = ws.lbx(&["diff", "-t"]);
        let diff = String::from_utf8_lossy(diff.stdout());
        assert!(diff.contains("+ONE") && diff.contains("+TWO") && !diff.contains("+THREE"), "{diff}");
        ws.lbx(&["undo", "--session", "other", "--merge"]).success();
        // All but that one are this session's.
        for _ in 1..log.len() {
            ws.lbx(&["undo", "--merge"]).success();
        }
        ws.holds("a.txt", "one\ntwo\nthree\n");
        ws.holds("gone.txt", "old\n");
        assert!(!ws.path("made.txt").exists());
    }
}

#[test]
fn job_start_errors_are_returned_immediately() {
    let ws = Workspace::with(&[]);
    ws.lbx(&["bash", "-b", "--workdir", "none", "true"]).error("not_found");
    ws.lbx(&["bash", "-b", "--network=true", "true"]).error("command_denied");
    ws.json("bash", &json!({ "command": " ", "background": true })).error("invalid_request");
    assert_eq!(look(&ws, &["--list"])["jobs"], json!([]), "nothing is left of them");
}

#[test]
fn job_with_a_killed_supervisor_is_lost() {
    for backend in all_backends() {
        let ws = Workspace::with(&[]);
        let mark = mark(&format!("lost-{backend}"));
        let command = format!("{FORKS}\ntouch started; sleep 1000");
        let request = json!({ "command": command, "env": { "LBX_MARK": mark } });
        let job = start(&ws, backend, &request);
        wait_for(&ws, "started");
        let root = ws.root.to_str().unwrap().to_owned();
        let supervisors: Vec<u32> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| is_supervisor(*pid, &root))
            .collect();
        assert_eq!(supervisors.len(), 1, "{backend}: {supervisors:?}");
        supervisors.into_iter().for_each(kill);
        wait_until_no_process_is_left(&mark, backend);
        // The kernel removes the supervisor's watch before it frees its lock.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while look(&ws, &["--job", &job])["state"] == "running" && std::time::Instant::now() < until {}
        assert_eq!(look(&ws, &["--job", &job])["state"], "lost", "{backend}");
        assert_eq!(look(&ws, &["--job", &job, "--stop"])["state"], "lost", "{backend}");
    }
}

/// Returns true if a process is the supervisor of a job in that workspace: it holds the lock there.
fn is_supervisor(pid: u32, root: &str) -> bool {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let opened = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut targets = opened.filter_map(|fd| fs::read_link(fd.path()).ok());
    arguments.windows(5).any(|part| part == b"__job")
        && targets.any(|target| target.to_string_lossy().starts_with(root))
}

#[test]
fn mcp_job_outlives_the_server_and_belongs_to_its_session() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let mut server = Server::start(ws.call(&["mcp", "--session", "mine"]));
    let command = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo last; exit 3";
    let started = server.ok("bash", &json!({ "command": command, "background": true }));
    let job = started["job"].as_str().unwrap().to_owned();
    assert_eq!(started["state"], "running", "{started:#}");
    // The connection is free in the meantime.
    assert_eq!(server.ok("read", &json!({ "path": "a.txt" }))["content"], "one\n");
    assert_eq!(server.ok("bash", &json!({ "command": "echo other" }))["stdout"], "other\n");
    let listed = server.ok("bash", &json!({ "list": true }));
    assert_eq!((&listed["jobs"][0]["job"], &listed["jobs"][0]["state"]), (&json!(job), &json!("running")));
    let other = server.call("bash", &json!({ "job": job, "session": "other" }));
    assert_eq!(other["isError"], true, "{other:#}");
    ws.write("go", "");
    let end = server.ok("bash", &json!({ "job": job, "timeout_ms": 20000 }));
    assert_eq!(
        (&end["output"], &end["state"], &end["exit_code"]),
        (&json!("first\nlast\n"), &json!("ended"), &json!(3)),
        "{end:#}"
    );
    // A job outlives the server, and any caller with its session can stop it.
    let mark = mark("mcp-job");
    let request = json!({ "command": format!("{FORKS}\ntouch started; sleep 1000"), "background": true, "env": { "LBX_MARK": mark } });
    let job = server.ok("bash", &request)["job"].as_str().unwrap().to_owned();
    wait_for(&ws, "started");
    server.close();
    assert!(!marked(&mark).is_empty(), "the job runs on");
    let mut server = Server::start(ws.call(&["mcp", "--session", "mine"]));
    let end = server.ok("bash", &json!({ "job": job, "stop": true }));
    assert_eq!((&end["state"], &end["stopped"]), (&json!("ended"), &json!(true)), "{end:#}");
    wait_until_no_process_is_left(&mark, "mcp");
    server.close();
}

#[test]
fn job_of_a_connections_own_session_ends_with_the_connection() {
    let ws = Workspace::with(&[]);
    let mut server = Server::start(ws.call(&["mcp"]));
    let mark = mark("mcp-own");
    let command = format!("{FORKS}\ntouch started; sleep 1000");
    let request = json!({ "command": command, "background": true, "env": { "LBX_MARK": mark } });
    server.ok("bash", &request);
    wait_for(&ws, "started");
    server.close();
    wait_until_no_process_is_left(&mark, "mcp");
    // Its changes are recorded.
    let logged = ws.lbx(&["log"]).ok();
    assert_eq!(logged["snapshots"][0]["tool"], "bash", "{logged:#}");
    // A session that has a name belongs to no connection, whatever the name.
    let start = || Server::start(ws.call(&["mcp", "--session", "mcp-team"]));
    let (mut server, other) = (start(), start());
    let job = server.ok("bash", &json!({ "command": "sleep 1000", "background": true }))["job"].clone();
    server.ok("bash", &json!({ "command": "echo keep >/tmp/kept" }));
    other.close();
    assert_eq!(server.ok("bash", &json!({ "job": job }))["state"], "running");
    assert_eq!(server.ok("bash", &json!({ "command": "cat /tmp/kept" }))["stdout"], "keep\n");
    server.ok("bash", &json!({ "job": job, "stop": true }));
    server.close();
}

#[test]
fn job_output_keeps_characters_whole() {
    let Some(backend) = first_backend() else { return };
    let ws = Workspace::with(&[]);
    for (number, (printed, output, bytes)) in [
        ("abc", "abc", 3),
        (r"a\303\244", "a\u{e4}", 3),
        (r"a\303", "a", 1),
        (r"abc\342\202", "abc", 3),
        (r"ab\377", "ab\u{fffd}", 3),
        (r"\342\202", "\u{fffd}", 2),
    ]
    .into_iter()
    .enumerate()
    {
        let command = format!("printf '{printed}'; touch {number}; sleep 1000");
        let job = start(&ws, backend, &json!({ "command": command }));
        wait_for(&ws, &number.to_string());
        let shown = || look(&ws, &["--job", &job]);
        let deadline = Instant::now() + Duration::from_secs(30);
        while shown()["output_bytes"].as_u64() < Some(bytes) {
            assert!(Instant::now() < deadline, "{printed}: {:#}", shown());
        }
        let shown = shown();
        assert_eq!((&shown["output"], &shown["next_offset"]), (&json!(output), &json!(bytes)), "{printed}");
        look(&ws, &["--job", &job, "--stop"]);
    }
}

/// Copies a finished job, as if it had run again under the numbers.
fn repeat(ws: &Workspace, job: &str, numbers: std::ops::RangeInclusive<usize>) {
    let folder = |name: &str| ws.path(&state(&format!("jobs/{name}")));
    for number in numbers {
        let copy = folder(&format!("j{number}"));
        fs::create_dir(&copy).unwrap();
        for name in ["job.lbx", "end.lbx", "output.txt"] {
            fs::copy(folder(job).join(name), copy.join(name)).unwrap();
        }
    }
}

/// Returns the jobs of the session.
fn listed(ws: &Workspace) -> Vec<Value> {
    look(ws, &["--list"])["jobs"].as_array().unwrap().clone()
}

#[test]
fn unread_job_output_is_kept() {
    let Some(backend) = first_backend() else { return };
    let ws = Workspace::with(&[]);
    let long = format!("touch started; sleep 0.1; echo out; : {}", "x".repeat(500));
    let job = start(&ws, backend, &json!({ "command": long }));
    wait_for(&ws, "started");
    let deadline = Instant::now() + Duration::from_secs(30);
    while listed(&ws)[0]["state"] == "running" {
        assert!(Instant::now() < deadline, "{:#?}", listed(&ws));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(job, "j1");
    repeat(&ws, &job, 2..=25);
    let run = |_: usize| {
        let answer = with(&ws, "auto", &json!({ "command": "true", "background": true })).success();
        let job = answer["data"]["job"].as_str().unwrap().to_owned();
        look(&ws, &["--job", &job, "--timeout-ms", "20000"]);
        answer
    };
    assert!(run(0)["warnings"].is_null());
    for number in 1..=25 {
        assert_eq!(look(&ws, &["--job", &format!("j{number}")])["output"], "out\n");
    }
    // Finished jobs that were read are dropped first.
    run(1);
    let names: Vec<Value> = listed(&ws).into_iter().map(|job| job["job"].clone()).collect();
    assert_eq!(names.len(), 20, "{names:?}");
    assert_eq!((&names[0], &names[19]), (&json!("j8"), &json!("j27")), "{names:?}");
    // Unread jobs have a limit, and the warning names the dropped ones.
    repeat(&ws, "j25", 28..=107);
    let answer = run(2);
    let told = "job j28 was removed with its output, which nobody had read: 80 such jobs are kept";
    assert_eq!(answer["warnings"], json!([told]), "{answer:#}");
    let list = ws.lbx(&["bash", "--list"]).success().to_string().len();
    assert!(list < 30_000, "{list} bytes");
}
