//! Names the tests that cannot run here.

use std::fmt::Display;
use std::io::Write as _;
use std::process::Command;

/// Reports that the test of this thread cannot run, or not whole. `.ci/run` counts these lines.
//
// The test harness captures the output of passed tests, but only of the print macros.
pub fn skipped(reason: impl Display) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("test"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Returns true if strace works here; else reports that the test is skipped.
#[allow(dead_code, reason = "not every test traces calls")]
pub fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).output();
    let works = traced.is_ok_and(|output| output.status.success());
    if !works {
        skipped("strace is missing, or may not trace here");
    }
    works
}

/// Returns true for root; else reports that the test is skipped.
#[allow(dead_code, reason = "not every test needs root")]
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped("only root can do this");
    }
    is_root
}

/// Returns true if a program is installed; else reports that the test is skipped.
#[allow(dead_code, reason = "not every test needs a program")]
pub fn is_installed(program: &str) -> bool {
    let is_installed = Command::new(program).arg("--version").output().is_ok();
    if !is_installed {
        skipped(format!("{program} is missing"));
    }
    is_installed
}
