//! Cost of a snapshot: `cargo test --release --test snapshot_store measure -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use lbx::engine::snapshot::{FileChange, FileState};

use crate::place::{Place, record};

/// Number of files in each folder.
const FILES_A_FOLDER: usize = 50;

#[test]
#[ignore = "takes a while, and only prints"]
fn known_paths() {
    let places = [100, 10_000, 90_000].map(|files| (files, filled(files)));
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let mut plain = [Vec::new(), Vec::new(), Vec::new()];
    for number in 0..60_u32 {
        for (at, (_, place)) in places.iter().enumerate() {
            times[at].push(timed(place, number));
            if number < 5 {
                plain[at].push(clock(|| by_git(place)));
            }
        }
    }
    for (at, (files, _)) in places.iter().enumerate() {
        let (lbx, git) = (median(&mut times[at]), median(&mut plain[at]));
        let ratio = git.as_secs_f64() / lbx.as_secs_f64();
        said(&format!(
            "{files} files: one path {lbx:?}; a temporary index and git add -A {git:?}, {ratio:.0} times that"
        ));
    }
}

/// Returns the median.
fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Makes a commit as a harness without lbx does: a separate index, a tree, a commit, a branch.
fn by_git(place: &Place) {
    let index = place.home.join("index");
    let _ = std::fs::remove_file(&index);
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(args).current_dir(&place.root).env("HOME", &place.home).env("GIT_INDEX_FILE", &index);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["add", "-A"]);
    let tree = git(&["write-tree"]);
    let commit = git(&["commit-tree", "-p", "HEAD", "-m", "a snapshot", &tree]);
    git(&["update-ref", "refs/heads/other", &commit]);
}

/// Creates a packed repository of that many files.
fn filled(files: usize) -> Place {
    let place = Place::unborn(&[]);
    for number in 0..files {
        let folder = number / FILES_A_FOLDER;
        place.write(
            &format!("top{}/mid{folder}/f{number}.txt", folder / 40),
            format!("file {number}\n").repeat(20),
        );
    }
    place.git(&["add", "-A"]);
    place.git(&["commit", "-q", "-m", "all"]);
    place.git(&["gc", "-q"]);
    place
}

fn timed(place: &Place, number: u32) -> Duration {
    let path = "top0/mid1/f60.txt";
    let before = std::fs::read(place.path(path)).unwrap();
    let after = format!("changed {number}\n").repeat(30);
    place.write(path, &after);
    let state = |bytes| Some(FileState::Regular { executable: false, bytes });
    let files =
        vec![FileChange { path: path.as_bytes(), before: state(&before), after: state(after.as_bytes()) }];
    let started = Instant::now();
    let mut store = crate::place::opened(&place.root, "lbx-snapshots").unwrap();
    let recorded = record(&mut store, "write: x", files).unwrap();
    let took = started.elapsed();
    assert!(recorded.id.is_some() && recorded.external.is_none());
    took
}

#[test]
#[ignore = "takes a while, and only prints"]
fn whole_scans() {
    let place = filled(50_000);
    place.git(&["status", "--porcelain"]);
    let (mut scans, mut statuses) = (Vec::new(), Vec::new());
    let first = clock(|| crate::scanning::scan(&place).unwrap());
    for _ in 0..20 {
        scans.push(clock(|| crate::scanning::scan(&place).unwrap()));
        statuses.push(clock(|| place.git(&["status", "--porcelain"])));
    }
    scans.sort();
    statuses.sort();
    for number in 0..800 {
        place.write(&format!("top0/mid{}/f{}.txt", number / 50, number), "changed\n");
    }
    let changed = clock(|| crate::scanning::scan(&place).unwrap());
    said(&format!(
        "scan of 50000 files: first {first:?}, nothing changed {:?} (git status {:?}), 800 changed {changed:?}",
        scans[10], statuses[10]
    ));
}

#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn said(text: &str) {
    println!("{text}");
}

fn clock<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}
