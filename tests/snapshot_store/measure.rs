//! What a snapshot costs: `cargo test --release --test snapshot_store measure -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use lbx::engine::snapshot::{FileChange, FileState, Store};

use crate::place::{Place, record};

/// Folders of each size, with this many files in each.
const FILES_A_FOLDER: usize = 50;

#[test]
#[ignore = "takes a while, and only prints"]
fn known_paths() {
    let places = [100, 50_000].map(|files| (files, filled(files)));
    let mut times = [Vec::new(), Vec::new()];
    for number in 0..60_u32 {
        for ((_, place), times) in places.iter().zip(&mut times) {
            times.push(timed(place, number));
        }
    }
    for ((files, _), mut times) in places.into_iter().zip(times) {
        times.sort();
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        report(files, median, worst);
    }
}

#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn report(files: usize, median: Duration, worst: Duration) {
    println!("{files} files: median {median:?}, worst {worst:?}");
}

/// A repository of so many files, packed.
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
    let mut store = Store::open(&place.root, &place.path(".lbx"), "lbx-snapshots").unwrap();
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
        "first {first:?}, nothing changed {:?} (git status {:?}), 800 changed {changed:?}",
        scans[10], statuses[10]
    ));
}

#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn said(text: &str) {
    println!("scan of 50000 files: {text}");
}

fn clock<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}
