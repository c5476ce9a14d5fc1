//! Reading snapshots back.

use std::fs;
use std::time::{Duration, SystemTime};

use lbx::engine::snapshot::Query;

use crate::place::Place;

#[test]
fn store_log_goes_back_to_the_start_of_the_branch() {
    let place = Place::with(&[("a.txt", "1\n2\n3\n"), ("d/b.txt", "b\n")]);
    place.put("a.txt", "1\ntwo\n3\n4\n");
    place.change(&["d/b.txt"], || fs::remove_file(place.path("d/b.txt")).unwrap());
    place.put("bin", [0, 1, 2]);
    place.commit(&[("c.txt", "c\n")]);
    place.put("c.txt", "cc\n");
    let log = place.open().log(&Query { limit: 10, ..Query::default() }).unwrap();
    assert!(!log.truncated);
    let shown: Vec<_> = log.snapshots.iter().map(|one| (one.tool.as_str(), one.files.len())).collect();
    assert_eq!(shown, [("write", 1), ("external", 1), ("write", 1), ("write", 1), ("write", 1)]);
    let oldest = &log.snapshots[4];
    assert_eq!((oldest.files[0].insertions, oldest.files[0].deletions), (Some(2), Some(1)));
    assert_eq!((oldest.session.as_str(), oldest.seq, oldest.seconds), ("tester", 3, 1_800_000_000));
    assert_eq!((oldest.subject.as_str(), oldest.why.as_deref()), ("write: a.txt", Some("because")));
    assert_eq!(log.snapshots[3].files[0].deletions, Some(1));
    assert_eq!(log.snapshots[2].files[0].insertions, None);
    assert_eq!(log.snapshots[0].id, place.git(&["rev-parse", "lbx-snapshots"]));
    assert_eq!(log.snapshots[1].why, None);
}

#[test]
fn store_log_can_be_filtered_and_limited() {
    let place = Place::with(&[("a.txt", "0\n"), ("d/b.txt", "0\n")]);
    assert_eq!(place.open().log(&Query { limit: 10, ..Query::default() }).unwrap().snapshots, []);
    for number in 1..=3 {
        place.put("a.txt", format!("{number}\n"));
        place.put("d/b.txt", format!("{number}\n"));
    }
    let store = place.open();
    let count = |query: Query<'_>| store.log(&query).unwrap().snapshots.len();
    let all = Query { limit: 10, ..Query::default() };
    assert_eq!(count(all), 6);
    assert_eq!(count(Query { path: Some(b"d"), ..all }), 3);
    assert_eq!(count(Query { path: Some(b"none"), ..all }), 0);
    assert_eq!(count(Query { session: Some("other"), ..all }), 0);
    assert_eq!(
        count(Query { since: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_001)), ..all }),
        0
    );
    assert_eq!(count(Query { offset: 4, ..all }), 2);
    let cut = store.log(&Query { limit: 2, ..all }).unwrap();
    assert!(cut.truncated && cut.snapshots.len() == 2);
}

#[test]
fn store_compares_two_snapshots() {
    let place = Place::with(&[("a.txt", "0\n"), ("d/b.txt", "0\n"), ("same/x", "x\n")]);
    let from = place.put("a.txt", "1\n").id.unwrap();
    place.put("new/n.txt", "n\n");
    let to = place.change(&["d/b.txt", "d"], || {
        fs::remove_dir_all(place.path("d")).unwrap();
        place.write("d", "now a file\n");
    });
    let (store, to) = (place.open(), to.id.unwrap());
    let changes = store.changes(Some(&from), &to, 10).unwrap();
    let paths: Vec<_> = changes.paths.iter().map(|change| String::from_utf8_lossy(&change.path)).collect();
    assert_eq!(paths, ["d", "d/b.txt", "new/n.txt"]);
    assert!(changes.paths[0].before.is_none() && changes.paths[1].after.is_none());
    let version = changes.paths[2].after.unwrap();
    assert_eq!((version.mode(), store.content(version).unwrap()), ("100644", b"n\n".to_vec()));
    assert!(store.changes(None, &to, 2).unwrap().truncated);
    assert_eq!(store.changes(Some(&to), &to, 2).unwrap().paths, []);
}
