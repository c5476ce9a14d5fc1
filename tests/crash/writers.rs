//! Several writers of different files: one is prepared while another is synced, and any of them may be killed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::skip::{self, can_trace};
use crate::common::{Workspace, kill, state};
use crate::inject::{is_thorough, traced_command};
use crate::judge::{must_be_tidy, must_equal_tip};
use crate::power::{Disk, must_be_whole};

/// Longest wait for something that must happen.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Time in which something would happen that must not.
const WAIT_MIN: Duration = Duration::from_millis(500);

#[test]
fn killed_writers_of_different_files_keep_the_journal_in_order() {
    /// Number of writers.
    const WRITERS: u64 = 8;
    let rounds = if is_thorough() { 60 } else { 10 };
    let files: Vec<(String, String)> =
        (0..WRITERS).map(|writer| (format!("f{writer}"), format!("start {writer}\n"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let ws = Workspace::with(&files);
    let said = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (ws, said) = (&ws, &said);
            scope.spawn(move || {
                let (file, session) = (format!("f{writer}"), format!("s{writer}"));
                for round in 0..rounds {
                    let line = format!("line {round}\n");
                    let child =
                        ws.call(&["append", &file, "--content", &line, "--session", &session]).spawn();
                    let id = child.id();
                    if (writer + round) % 2 == 0 {
                        thread::sleep(Duration::from_micros((writer * 7919 + round * 5701) % 90_000));
                        kill(id);
                    }
                    let output = child.wait_with_output().unwrap();
                    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
                    if answer["ok"] == true {
                        said.lock().unwrap().push((writer, line, answer["snapshot"].clone()));
                    }
                }
            });
        }
    });
    let _ = ws.lbx(&["append", "last", "--content", "end\n", "--session", "last"]).success();
    let mut ids = BTreeSet::new();
    for (writer, line, id) in said.into_inner().unwrap() {
        let text = String::from_utf8(ws.read_bytes(&format!("f{writer}"))).unwrap();
        assert!(text.contains(&line), "f{writer}: `{line}` is lost: {text}");
        let id = id.as_str().unwrap_or_else(|| panic!("f{writer}, {line}: no snapshot")).to_owned();
        ws.git(&["merge-base", "--is-ancestor", &id, "lbx-snapshots"]);
        assert!(ids.insert(id), "f{writer}, {line}: its snapshot is another's");
    }
    let mut applied = 1;
    for (file, start) in &files {
        let text = String::from_utf8(ws.read_bytes(file)).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let in_order: Vec<String> = (0..rounds).map(|round| format!("line {round}")).collect();
        assert!(lines.iter().all(|line| in_order.iter().any(|known| known == line)), "{file}: {text}");
        assert!(
            lines.is_sorted_by_key(|line| in_order.iter().position(|known| known == line)),
            "{file}: {text}"
        );
        assert_eq!(
            lines.iter().collect::<BTreeSet<_>>().len(),
            lines.len(),
            "{file} has a line twice: {text}"
        );
        applied += lines.len();
        // The history of its session has each change once, in order.
        let session = file.replace('f', "s");
        if !lines.is_empty() {
            let undone = ws.lbx(&["undo", "--steps", "1000", "--session", &session]).success();
            let undone = undone["data"]["undone"].as_array().unwrap();
            let numbers: Vec<u64> = undone.iter().map(|change| change["seq"].as_u64().unwrap()).collect();
            assert_eq!(numbers.len(), lines.len(), "{session}: {undone:?}");
            assert!(numbers.is_sorted_by(|one, other| one > other), "{session}: {numbers:?}");
            applied += 1;
        }
        ws.holds(file, start);
    }
    assert_eq!(ws.snapshots().len(), applied, "one snapshot a change");
    let audit = ws.lbx(&["audit", "--verify", "--limit", "0"]).ok();
    assert_eq!((&audit["verified"], &audit["total"]), (&Value::from(true), &Value::from(applied)));
    must_equal_tip(&ws).unwrap();
    must_be_tidy(&ws).unwrap();
}

/// Returns the number of places in the queue for the workspace's lock.
fn queued(ws: &Workspace) -> usize {
    let Ok(queue) = fs::metadata(ws.path(&state("queue"))) else { return 0 };
    let file = format!(":{}", queue.ino());
    let table = fs::read_to_string("/proc/locks").unwrap();
    let is_place = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(1) == Some(&"OFDLCK") && fields[3] == "WRITE" && fields[5].ends_with(&file)
    };
    table.lines().filter(is_place).count()
}

#[test]
fn calls_that_wait_get_the_lock_in_order_whatever_becomes_of_one() {
    if cfg!(any(not(target_os = "linux"), feature = "portable")) {
        return skip::skipped("the portable platform has no queue");
    }
    let files: Vec<(String, String)> =
        (0..8).map(|number| (format!("f{number}"), format!("start {number}\n"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    for signal in [Signal::KILL, Signal::STOP] {
        let ws = Workspace::with(&files);
        ws.lbx(&["append", "f0", "--content", "x\n"]).ok();
        let held = File::open(ws.path(".lbx/lock")).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let mut waiting: Vec<Child> = Vec::new();
        for (number, (file, _)) in files.iter().enumerate() {
            let session = format!("s{number}");
            waiting.push(ws.call(&["append", file, "--content", "x\n", "--session", &session]).spawn());
            wait_until("it waits", || queued(&ws) == number + 1);
        }
        let unlucky = waiting.remove(3);
        let send = |signal| {
            kill_process(Pid::from_raw(unlucky.id().cast_signed()).unwrap(), signal).unwrap();
        };
        send(signal);
        flock(&held, FlockOperation::Unlock).unwrap();
        for call in waiting {
            let output = call.wait_with_output().unwrap();
            assert!(output.status.success(), "{signal:?}: {}", String::from_utf8_lossy(&output.stdout));
        }
        if signal == Signal::KILL {
            let mut order = ws.snapshots();
            order.retain(|subject| subject.starts_with("append"));
            let expected = ["f7", "f6", "f5", "f4", "f2", "f1", "f0", "f0"];
            assert_eq!(order, expected.map(|file| format!("append: {file}")));
        } else {
            // A new call is not held up by the one that is stopped, which goes on later.
            let begun = Instant::now();
            ws.lbx(&["append", "f0", "--content", "y\n"]).ok();
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
            ws.holds("f3", "start 3\n");
            send(Signal::CONT);
        }
        let output = unlucky.wait_with_output().unwrap();
        assert_eq!(output.status.success(), signal == Signal::STOP);
        assert_eq!(queued(&ws), 0);
        must_equal_tip(&ws).unwrap();
        must_be_tidy(&ws).unwrap();
    }
}

/// A call that is stopped while it waits for the disk, after its last step.
struct Stopped {
    /// Tracer of the call; the call goes no further while this is stopped.
    tracer: Child,
}

impl Stopped {
    /// Begins a call that changes `file`, and stops it when its file is changed and the workspace is free again.
    fn begin(ws: &Workspace, call: &[&str], file: &str) -> Self {
        let delay = "inject=fsync,syncfs:delay_enter=500000";
        let arguments = ["-o", "/dev/null", "-e", "trace=fsync,syncfs", "-e", delay].map(OsString::from);
        let before = ws.read_bytes(file);
        let mut command = traced_command(ws, &arguments, call);
        let tracer = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stopped = Self { tracer };
        let lock = File::open(ws.path(".lbx/lock")).unwrap();
        wait_until("the steps are taken", || {
            ws.read_bytes(file) != before && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        });
        stopped.signal(Signal::STOP);
        stopped
    }

    /// Sends a signal to the tracer.
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.tracer.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Kills the call.
    fn kill(self) {
        let children = format!("/proc/{0}/task/{0}/children", self.tracer.id());
        let children = fs::read_to_string(children).unwrap();
        children.split_whitespace().for_each(|id| kill(id.parse().unwrap()));
        self.go_on();
    }

    /// Lets it go on to its end.
    fn go_on(self) {
        self.signal(Signal::CONT);
        let _ = self.tracer.wait_with_output().unwrap();
    }
}

/// Returns the names of open entries that begin so.
fn entries(ws: &Workspace, prefix: &str) -> Vec<String> {
    let names = fs::read_dir(ws.path(&state("journal/open"))).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// Waits for something that must happen.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < WAIT_MAX, "not in time: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns a workspace in a folder in which two sessions have changed something.
fn with_two_sessions(parent: &Path) -> Workspace {
    let files = [("a.txt", "a\n"), ("b.txt", "b\n"), ("c.txt", "c\n"), ("d/e.txt", "e\n")];
    let ws = Workspace::within(parent, &files);
    for session in ["one", "two"] {
        ws.lbx(&["append", "c.txt", "--content", "more\n", "--session", session]).ok();
        ws.lbx(&["read", "b.txt", "--session", session]).ok();
    }
    ws
}

/// Change that is stopped in these tests.
const FIRST: [&str; 6] = ["append", "a.txt", "--content", "first\n", "--session", "one"];
/// Change of another file by another session.
const SECOND: [&str; 8] =
    ["edit", "b.txt", "--old-string", "b", "--new-string", "second", "--session", "two"];

#[test]
fn change_is_prepared_while_another_is_synced_and_follows_it() {
    if !can_trace() {
        return;
    }
    for is_killed in [false, true] {
        let ws = with_two_sessions(&std::env::temp_dir());
        let first = Stopped::begin(&ws, &FIRST, "a.txt");
        // A reading call takes it for a call that is running, though the workspace is free.
        ws.lbx(&["read", "d/e.txt", "--session", "three"]).ok();
        assert_eq!(entries(&ws, "change-").len(), 1);
        thread::scope(|scope| {
            let running = scope.spawn(|| ws.lbx(&SECOND).success());
            wait_until("the second change is prepared", || !entries(&ws, ".change-").is_empty());
            thread::sleep(WAIT_MIN);
            assert!(!running.is_finished(), "it follows a change that is not on disk");
            ws.holds("b.txt", "b\n");
            assert_eq!(entries(&ws, "change-").len(), 1);
            if is_killed {
                first.kill();
            } else {
                first.go_on();
            }
            let answer = running.join().unwrap();
            assert_eq!(answer.get("warnings"), None);
        });
        ws.holds("a.txt", "a\nfirst\n");
        ws.holds("b.txt", "second\n");
        assert_eq!(ws.snapshots()[..2], ["edit: b.txt", "append: a.txt"]);
        let audit = ws.lbx(&["audit", "--verify", "--limit", "0"]).ok();
        assert_eq!((&audit["verified"], &audit["total"]), (&Value::from(true), &Value::from(4)));
        must_equal_tip(&ws).unwrap();
        must_be_tidy(&ws).unwrap();
        for (session, file, text) in [("one", "a.txt", "a\n"), ("two", "b.txt", "b\n")] {
            let _ = ws.lbx(&["undo", "--session", session]).success();
            ws.holds(file, text);
        }
    }
}

#[test]
fn call_that_brings_accounts_up_to_date_keeps_no_other_from_the_workspace() {
    if !can_trace() {
        return;
    }
    let ws = with_two_sessions(&std::env::temp_dir());
    let of = |session: &'static str, mut words: Vec<&'static str>| {
        words.extend(["--session", session]);
        words
    };
    let append = of("two", vec!["append", "a.txt", "--content", "first\n"]);
    // With the one of the workspace's making, the next is the 74th of its session: each has its turn.
    for _ in 1..73 {
        ws.lbx(&append).ok();
    }
    let delay = "inject=mkdirat:delay_enter=20000000";
    let arguments =
        ["-o", "/dev/null", "-P", "accounts", "-e", "trace=mkdirat", "-e", delay].map(OsString::from);
    let before = ws.read_bytes("a.txt");
    let mut command = traced_command(&ws, &arguments, &append);
    let tracer = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = Stopped { tracer };
    wait_until("the first change is closed", || {
        ws.read_bytes("a.txt") != before && entries(&ws, "change-").is_empty()
    });
    ws.lbx(&of("one", vec!["edit", "b.txt", "--old-string", "b", "--new-string", "second"])).ok();
    ws.lbx(&of("one", vec!["delete", "d/e.txt"])).ok();
    assert!(first.tracer.try_wait().unwrap().is_none(), "it was not held up");
    first.kill();
    // The next view makes the account that the killed call did not.
    assert_eq!(ws.lbx(&["session", "--session", "two"]).ok()["changes"], 74);
    must_equal_tip(&ws).unwrap();
    must_be_tidy(&ws).unwrap();
}

#[test]
fn change_that_may_depend_on_another_waits_until_that_is_closed() {
    if !can_trace() {
        return;
    }
    let seconds: [&[&str]; 6] = [
        &["append", "a.txt", "--content", "second\n", "--session", "two"],
        &["append", "b.txt", "--content", "second\n", "--session", "one"],
        &["append", "b.txt", "--content", "second\n", "--session", "new"],
        &["undo", "--session", "two"],
        &["delete", "b.txt", "--session", "two"],
        &["move", "d", "f", "--session", "two"],
    ];
    for second in seconds {
        let ws = with_two_sessions(&std::env::temp_dir());
        let before = ws.tree();
        let first = Stopped::begin(&ws, &FIRST, "a.txt");
        thread::scope(|scope| {
            let running = scope.spawn(|| ws.lbx(second).success());
            thread::sleep(2 * WAIT_MIN);
            assert!(!running.is_finished() && entries(&ws, ".change-").is_empty(), "{second:?} did not wait");
            assert_eq!(ws.tree().len(), before.len());
            first.kill();
            assert_eq!(running.join().unwrap().get("warnings"), None, "{second:?}");
        });
        let text = String::from_utf8(ws.read_bytes("a.txt")).unwrap();
        assert!(text.starts_with("a\nfirst\n"), "{second:?}: {text}");
        must_equal_tip(&ws).unwrap();
        must_be_tidy(&ws).unwrap();
    }
}

#[test]
fn power_failure_while_one_change_is_synced_and_another_prepared_keeps_both_whole() {
    let Some(disk) = Disk::new("ext4", 64).filter(|_| can_trace()) else { return };
    for mode in ["2", "1"] {
        let ws = with_two_sessions(&disk.mounted);
        disk.sync();
        let first = Stopped::begin(&ws, &FIRST, "a.txt");
        let second = ws.call(&SECOND).spawn();
        wait_until("the second change is prepared", || !entries(&ws, ".change-").is_empty());
        thread::sleep(WAIT_MIN);
        // It holds the workspace, and must not see the other's end.
        kill(second.id());
        let answer = second.wait_with_output().unwrap();
        assert!(answer.stdout.is_empty(), "it was acknowledged before its first step");
        first.kill();
        disk.lose_power(mode);
        ws.holds("b.txt", "b\n");
        let _ = ws.lbx(&["read", "c.txt", "--session", "next"]).envelope();
        let next = ws.lbx(&["append", "c.txt", "--content", "next\n", "--session", "next"]).success();
        assert_eq!(next.get("warnings"), None, "mode {mode}");
        ws.holds("b.txt", "b\n");
        let text = String::from_utf8(ws.read_bytes("a.txt")).unwrap();
        assert!(["a\n", "a\nfirst\n"].contains(&&*text), "mode {mode}: {text}");
        must_be_whole(&ws, mode);
        must_equal_tip(&ws).unwrap();
        must_be_tidy(&ws).unwrap();
        let audit = ws.lbx(&["audit", "--verify", "--limit", "0"]).ok();
        let applied = 3 + usize::from(text != "a\n");
        assert_eq!((&audit["verified"], &audit["total"]), (&Value::from(true), &Value::from(applied)));
        fs::remove_dir_all(&ws.outside).unwrap();
    }
}
