//! Backups that share blocks with the old file, and programs that keep writing to it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::skip::can_trace;
use crate::common::{Workspace, sha256};
use crate::inject::traced;
use crate::power::Disk;

/// Writes into a mapped file as soon as a line arrives: no timestamp shows a page that is already dirty.
const WRITER: &str = "import mmap, sys
file = open(sys.argv[1], 'r+b')
mapped = mmap.mmap(file.fileno(), 0)
mapped[100000] = ord('a')
print('mapped', flush=True)
sys.stdin.readline()
mapped[100000] = ord('X')";
/// Longest wait for the backup.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Returns true if a backup was begun; a small file's backup is in the journal.
fn has_backup(ws: &Workspace) -> bool {
    let below = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let states = below(&ws.path(".lbx"));
    let folders = states.iter().flat_map(|state| below(&state.join("backups")));
    folders.into_iter().any(|folder| !below(&folder).is_empty())
}

#[test]
fn concurrent_write_through_a_mapping_spoils_no_backup() {
    let Some(disk) = Disk::new("xfs", 320).filter(|_| can_trace()) else { return };
    let old = "a".repeat(200_000);
    let ws = Workspace::within(&disk.mounted, &[("kept/a.txt", "a\n"), (".gitignore", "big\n")]);
    ws.lbx(&["append", "kept/a.txt", "--content", "b\n"]).ok();
    ws.write("big", &old);
    let mut writer = Command::new("python3");
    writer.args(["-c", WRITER]).arg(ws.path("big")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(writer.stdout.take().unwrap()), &mut line)
        .unwrap();
    let change = ["write", "big", "--content", "new\n", "--expected-sha256", &sha256(old.as_bytes())];
    // Between the read of the file and the clone.
    let late: [OsString; 3] = ["-o".into(), "/dev/null".into(), "--inject=ioctl:delay_enter=2000000".into()];
    let output = std::thread::scope(|scope| {
        let call = scope.spawn(|| traced(&ws, &late, &change));
        let begun = Instant::now();
        while !has_backup(&ws) && !call.is_finished() && begun.elapsed() < WAIT_MAX {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(writer.stdin.take());
        writer.wait().unwrap();
        call.join().unwrap()
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    ws.holds("big", "new\n");
    assert_eq!(ws.lbx(&["undo"]).envelope()["ok"], true);
    ws.holds("big", &old);
}
