//! Faults at a chosen system call, injected by strace.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{PATH_FIXED, Workspace, state};

/// Path of the binary under test.
pub const LBX: &str = env!("CARGO_BIN_EXE_lbx");
/// Number of concurrent workers.
const WORKERS: usize = 2;

/// Point of a fault: the n-th call of that name in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Name of the system call.
    pub call: String,
    /// Index of the call, from 1.
    pub number: u32,
}

/// Makes a call under strace, with arguments for strace.
pub fn traced(ws: &Workspace, strace: &[OsString], call: &[&str]) -> Output {
    traced_command(ws, strace, call).output().unwrap()
}

/// Returns the command for a call under strace.
pub fn traced_command(ws: &Workspace, strace: &[OsString], call: &[&str]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq"]).args(strace).arg(LBX).args(call);
    command
        .current_dir(&ws.root)
        .env_clear()
        .env("LBX_STATE_ID", crate::common::STATE_ID)
        .stdin(Stdio::null());
    command.env("PATH", PATH_FIXED).env("HOME", ws.outside.join("home")).env("TZ", "UTC");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C.UTF-8");
    command
}

/// Returns the points of a call at which one of the system calls `names` begins.
pub fn points(ws: &Workspace, names: &[&str], call: &[&str]) -> Vec<Point> {
    let log = ws.outside.join("strace.log");
    let output = traced(ws, &["-o".into(), log.clone().into()], call);
    assert!(output.status.code().is_some(), "{call:?}: {}", String::from_utf8_lossy(&output.stdout));
    let counts = counts(&log);
    let _ = fs::remove_file(log);
    let mut points = Vec::new();
    for (name, count) in counts.into_iter().filter(|(name, _)| names.contains(&name.as_str())) {
        points.extend((1..=count).map(|number| Point { call: name.clone(), number }));
    }
    points
}

/// Counts each system call, by the busiest of several threads.
fn counts(log: &PathBuf) -> BTreeMap<String, u32> {
    let mut by_thread: BTreeMap<(String, String), u32> = BTreeMap::new();
    for line in fs::read_to_string(log).unwrap().lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Some((name, _)) = rest.trim_start().split_once('(') else { continue };
        if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            *by_thread.entry((name.to_owned(), thread.to_owned())).or_default() += 1;
        }
    }
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for ((name, _), count) in by_thread {
        let most = counts.entry(name).or_default();
        *most = count.max(*most);
    }
    counts
}

/// Makes a call that is killed as it enters a system call.
pub fn kill_at(ws: &Workspace, point: &Point, call: &[&str]) -> Output {
    traced(ws, &fault_at(point, "signal=SIGKILL"), call)
}

/// Makes a call with one failing system call. Only calls of that name stop for strace, a sixth of all stops. A signal is
/// not delivered at such a stop, so `kill_at` stops at every system call.
pub fn fail_at(ws: &Workspace, point: &Point, errno: &str, call: &[&str]) -> Output {
    traced(ws, &[&["--seccomp-bpf".into()], &fault_at(point, &format!("error={errno}"))[..]].concat(), call)
}

/// Makes a call that stops for a second as it waits for the disk, and runs `meanwhile` then: after the data is written,
/// and before any of it takes effect.
pub fn run_delayed_at_sync(ws: &Workspace, call: &[&str], meanwhile: impl FnOnce()) -> Output {
    let syncs = "trace=fsync,syncfs";
    let delay = "inject=fsync,syncfs:delay_enter=1000000:when=1";
    let arguments = ["-o", "/dev/null", "-e", syncs, "-e", delay].map(OsString::from);
    let open = ws.path(&state("journal/open"));
    let is_prepared = || {
        fs::read_dir(&open)
            .unwrap()
            .any(|it| it.unwrap().file_name().to_string_lossy().starts_with(".change-"))
    };
    thread::scope(|scope| {
        let running = scope.spawn(|| traced(ws, &arguments, call));
        while !is_prepared() && !running.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        meanwhile();
        running.join().unwrap()
    })
}

/// Makes a call whose renames each wait half a second before they begin. The n-th of `doings` runs in the n-th wait of a
/// rename whose line of strace has `part`, with the number of the process.
pub fn run_with_slow_renames(
    ws: &Workspace,
    call: &[&str],
    part: &str,
    doings: &mut [&mut dyn FnMut(&str)],
) -> Output {
    let log = ws.outside.join("strace.log");
    let _ = fs::remove_file(&log);
    let delay = ["-e", "trace=renameat2", "-e", "inject=renameat2:delay_enter=500000"].map(OsString::from);
    let arguments = [&["-o".into(), log.clone().into()], &delay[..]].concat();
    thread::scope(|scope| {
        let running = scope.spawn(|| traced(ws, &arguments, call));
        for (number, doing) in doings.iter_mut().enumerate() {
            let begun = || {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let mut lines = text.lines().filter(|line| line.contains(part) && !line.contains("resumed"));
                lines.nth(number).map(|line| line.split(' ').next().unwrap().to_owned())
            };
            let mut process = begun();
            while process.is_none() && !running.is_finished() {
                thread::sleep(Duration::from_millis(5));
                process = begun();
            }
            doing(&process.unwrap_or_default());
        }
        running.join().unwrap()
    })
}

/// Returns arguments of strace for a fault.
fn fault_at(point: &Point, fault: &str) -> [OsString; 6] {
    let trace = format!("trace={}", point.call);
    let inject = format!("inject={}:{fault}:when={}", point.call, point.number);
    ["-o", "/dev/null", "-e", &trace, "-e", &inject].map(OsString::from)
}

/// Returns how often the system calls of `names` are made in all threads together.
pub fn total(ws: &Workspace, names: &[&str], call: &[&str]) -> usize {
    let log = ws.outside.join("strace.log");
    let trace = format!("trace={}", names.join(","));
    let output = traced(ws, &["-o".into(), log.clone().into(), "-e".into(), trace.into()], call);
    assert!(output.status.success(), "{call:?}: {}", String::from_utf8_lossy(&output.stdout));
    let text = fs::read_to_string(&log).unwrap();
    text.lines().filter(|line| line.contains('(') && !line.contains("resumed")).count()
}

/// Returns the system calls of `names` that a call makes, in order.
pub fn calls(ws: &Workspace, names: &[&str], call: &[&str]) -> Vec<String> {
    let log = ws.outside.join("strace.log");
    let trace = format!("trace={}", names.join(","));
    let output = traced(ws, &["-o".into(), log.clone().into(), "-e".into(), trace.into()], call);
    assert!(output.status.success(), "{call:?}: {}", String::from_utf8_lossy(&output.stdout));
    let text = fs::read_to_string(&log).unwrap();
    let name = |line: &str| Some(line.split_once(' ')?.1.trim_start().split_once('(')?.0.to_owned());
    text.lines().filter_map(name).collect()
}

/// Returns true if the long form of a test is requested.
pub fn is_thorough() -> bool {
    std::env::var_os("LBX_CRASH_ALL").is_some()
}

/// Returns at most `most` of `all`, evenly spread and including the last; all of them if the environment asks for it.
pub fn sample<T>(all: Vec<T>, most: usize) -> Vec<T> {
    if all.len() <= most || is_thorough() {
        return all;
    }
    let (count, last) = (all.len(), all.len() - 1);
    let picked: Vec<usize> = (0..most).map(|number| number * last / (most - 1)).collect();
    let picked = all.into_iter().enumerate().filter(|(at, _)| picked.contains(at));
    let picked: Vec<T> = picked.map(|(_, one)| one).collect();
    assert!(picked.len() <= count);
    picked
}

/// Runs `work` on each item, in a few threads; fails with the problems that it reports.
pub fn each<T: Sync>(items: &[T], work: impl Fn(&T) -> Result<(), String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(item)));
                    if let Err(what) = caught.unwrap_or_else(|_| Err("a check panicked: see above".into())) {
                        eprintln!("{what}");
                        wrong.lock().unwrap().push(what);
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}
