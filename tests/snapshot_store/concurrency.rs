//! Concurrent writers, and the leftovers of dead ones.

use std::fs;
use std::sync::Mutex;
use std::thread;

use lbx::engine::snapshot::{FileChange, FileState};

use crate::place::{Place, record};

fn write_all(place: &Place, writers: usize, each: usize, lock: Option<&Mutex<()>>) {
    thread::scope(|scope| {
        for writer in 0..writers {
            scope.spawn(move || {
                for number in 0..each {
                    let held = lock.map(|lock| lock.lock().unwrap());
                    let (path, text) = (format!("d{writer}/f{number}"), format!("{writer} {number}\n"));
                    let after = Some(FileState::Regular { executable: false, bytes: text.as_bytes() });
                    let files = vec![FileChange { path: path.as_bytes(), before: None, after }];
                    record(&mut place.open(), "write: x", files).unwrap();
                    drop(held);
                }
            });
        }
    });
}

#[test]
fn writers_under_a_lock_make_a_linear_history() {
    let place = Place::with(&[("a", "a")]);
    let before = place.frozen();
    write_all(&place, 16, 5, Some(&Mutex::new(())));
    assert_eq!(place.frozen(), before);
    assert_eq!(place.git(&["rev-list", "--count", "lbx-snapshots", "^HEAD"]), "80");
    assert_eq!(place.git(&["rev-list", "--count", "--merges", "lbx-snapshots"]), "0");
    assert_eq!(place.listed().len(), 81);
    place.fsck();
}

#[test]
fn writers_without_a_lock_lose_no_snapshot() {
    let place = Place::with(&[("a", "a")]);
    write_all(&place, 3, 3, None);
    assert_eq!(place.git(&["rev-list", "--count", "lbx-snapshots", "^HEAD"]), "9");
    assert_eq!(place.listed().len(), 10);
    place.fsck();
}

#[test]
fn snapshots_survive_concurrent_git_repack() {
    let place = Place::with(&[("a", "a")]);
    thread::scope(|scope| {
        let work = scope.spawn(|| write_all(&place, 2, 15, Some(&Mutex::new(()))));
        while !work.is_finished() {
            place.git(&["pack-refs", "--all"]);
            place.git(&["repack", "-q", "-a", "-d"]);
        }
    });
    assert_eq!(place.listed().len(), 31);
    place.fsck();
}

#[test]
fn stale_ref_lock_of_a_dead_lbx_is_removed() {
    let place = Place::with(&[("a", "a")]);
    let dead = place.put("a", "b\n").id.unwrap();
    let lock = place.path(".git/refs/heads/lbx-snapshots.lock");
    fs::write(&lock, format!("{dead}\n")).unwrap();
    assert!(place.put("a", "c\n").id.is_some());
    assert!(!lock.exists());
}

#[test]
fn ref_lock_of_another_program_is_respected() {
    let place = Place::with(&[("a", "a")]);
    place.put("a", "b\n");
    let lock = place.path(".git/refs/heads/lbx-snapshots.lock");
    for content in [String::new(), format!("{}\n", place.git(&["rev-parse", "HEAD"]))] {
        fs::write(&lock, &content).unwrap();
        let before = place.frozen();
        let error = place.try_change(&["a"], || place.write("a", "c\n")).unwrap_err();
        assert!(error.to_string().contains("is locked"), "{error}");
        assert_eq!(fs::read_to_string(&lock).unwrap(), content);
        assert_eq!(place.frozen(), before);
    }
}

#[test]
fn failed_object_write_leaves_the_repository_intact() {
    let place = Place::with(&[("a", "a")]);
    // A file where the folder of the new objects would be.
    let folders = (0..=0xff_u8).map(|first| place.path(&format!(".git/objects/{first:02x}")));
    let blocked: Vec<_> = folders.filter(|folder| !folder.exists()).collect();
    blocked.iter().for_each(|folder| fs::write(folder, "no folder").unwrap());
    let error = place.try_change(&["a"], || place.write("a", "c\n")).unwrap_err();
    assert!(error.to_string().contains("Not a directory"), "{error}");
    blocked.iter().for_each(|folder| fs::remove_file(folder).unwrap());
    assert!(!place.path(".git/refs/heads/lbx-snapshots").exists());
    place.fsck();
}
