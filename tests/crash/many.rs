//! Cost of changes of many or large files: system calls per file, and disk blocks.

use std::fmt::Write as _;

use crate::common::{Workspace, skipped};
use crate::inject;
use crate::power::Disk;

/// System calls that a change makes for its files.
const CALLS: [&str; 14] = [
    "openat",
    "openat2",
    "close",
    "read",
    "write",
    "fstat",
    "newfstatat",
    "statx",
    "faccessat2",
    "flistxattr",
    "fchmod",
    "flock",
    "renameat",
    "renameat2",
];
/// Largest number of calls per additional file in a large patch: stat, open, read, write to the staging area, rename.
const CALLS_A_FILE_MAX: usize = 18;
/// Number of files of the smaller and of the larger patch.
const FILES: [usize; 2] = [100, 400];

/// Counts the calls of a patch of that many files in one folder.
fn calls(files: usize) -> usize {
    let name = |number: usize| format!("d/f{number}.txt");
    let old: Vec<(String, String)> = (0..files).map(|it| (name(it), format!("{it}\nold\n"))).collect();
    let old: Vec<(&str, &str)> = old.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let ws = Workspace::with(&old);
    ws.lbx(&["write", "first.txt", "--content", "a session of its own\n"]).ok();
    let mut patch = String::new();
    for number in 0..files {
        let path = name(number);
        writeln!(patch, "--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n {number}\n-old\n+new").unwrap();
    }
    let points = inject::points(&ws, &CALLS, &["patch", "--patch", &patch, "--set", "gate=off"]);
    ws.holds(&name(files - 1), format!("{}\nnew\n", files - 1));
    points.len()
}

#[test]
fn patch_of_many_files_makes_few_system_calls_per_file() {
    if !crate::common::skip::can_trace() {
        return;
    }
    let [few, many] = FILES.map(calls);
    let more = FILES[1] - FILES[0];
    assert!(many - few <= CALLS_A_FILE_MAX * more, "{few} and {many}: {} a file", (many - few) / more);
}

#[test]
fn backup_of_a_large_file_shares_its_blocks() {
    /// Size of the file, in bytes.
    const BYTES: usize = 48 << 20;
    if cfg!(feature = "portable") {
        return skipped("the portable platform shares no blocks");
    }
    let Some(disk) = Disk::new("xfs", 400) else { return };
    // Compressible lines; the file is too large for a snapshot.
    let text = "0123456789abcde\n".repeat(BYTES / 16);
    let ws = Workspace::with(&[("large.txt", "first\n")]).copy_within(&disk.mounted);
    ws.write("large.txt", &text);
    // The hard link keeps the old file: without it, its blocks move to the backup, or are freed.
    std::fs::hard_link(ws.path("large.txt"), ws.path("linked.txt")).unwrap();
    disk.sync();
    let used = || {
        let found = rustix::fs::statvfs(&disk.mounted).unwrap();
        (found.f_blocks - found.f_bfree) * found.f_frsize
    };
    let before = used();
    let call =
        ["edit", "large.txt", "--old-string", "0123456789abcde\n", "--new-string", "", "--replace-all"];
    ws.lbx(&["read", "large.txt"]).ok();
    ws.lbx(&[&call[..], &["--set", "gate=off"]].concat()).success();
    disk.sync();
    assert!(used() < before + BYTES as u64 / 2, "{before} -> {}", used());
    ws.lbx(&["undo"]).success();
    ws.holds("large.txt", &text);
}
