//! A process that is killed while it records.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use lbx::engine::snapshot::{FileChange, FileState};

use crate::place::{Place, record};

/// Records changes until it is killed; started by the test below.
#[test]
#[ignore = "needs the environment that its parent sets"]
fn child() {
    let Some(root) = std::env::var_os("LBX_TEST_ROOT").map(PathBuf::from) else { return };
    let count = std::env::var("LBX_TEST_COUNT").ok().and_then(|count| count.parse().ok());
    for number in 0..count.unwrap_or(100_000_u32) {
        let mut store = crate::place::opened(&root, "lbx-snapshots").unwrap();
        let text = format!("{number} {}\n", std::process::id());
        let after = Some(FileState::Regular { executable: false, bytes: text.as_bytes() });
        let files = vec![FileChange { path: b"d/e/a.txt", before: None, after }];
        record(&mut store, "write: d/e/a.txt", files).unwrap();
    }
}

#[test]
fn repository_stays_valid_after_a_killed_process() {
    let place = Place::with(&[("d/e/a.txt", "a\n"), ("b", "b")]);
    place.git(&["gc", "-q"]); // so that there are packed references
    let before = place.frozen();
    for round in 0..12_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child", "--ignored"])
            .env("LBX_TEST_ROOT", &place.root)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(40 + round * 7 % 31));
        child.kill().unwrap();
        child.wait().unwrap();
        place.fsck();
        let mut left = place.frozen();
        left.retain(|path, _| !path.to_string_lossy().contains("/objects/tmp_"));
        assert_eq!(left, before);
        assert!(place.put("b", format!("{round}\n")).id.is_some());
        assert!(!place.path(".git/refs/heads/lbx-snapshots.lock").exists());
    }
    place.git(&["gc", "-q", "--prune=now"]);
    let litter = walk(&place.path(".git")).into_iter().filter(|path| path.to_string_lossy().contains("tmp_"));
    assert_eq!(litter.count(), 0);
    place.fsck();
}

fn walk(folder: &std::path::Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
