//! Moves of whole folders: their files are recorded one by one, under the rules of git.

use std::fs;
use std::os::fd::AsFd as _;
use std::time::{Duration, SystemTime};

use lbx::engine::snapshot::{CommitInfo, FolderChange, RecordResult, SkipReason};

use crate::place::Place;

/// Records that the folder now at `now` was renamed.
fn moved(place: &Place, now: &str, before: Option<&str>, after: Option<&str>) -> RecordResult {
    let folder = fs::File::open(place.path(now)).unwrap();
    let folder = FolderChange {
        folder: folder.as_fd(),
        before: before.map(str::as_bytes),
        after: after.map(str::as_bytes),
    };
    let change = CommitInfo {
        subject: "move: folder".to_owned(),
        why: None,
        session: "tester",
        tool: "move",
        seq: 3,
        gate: None,
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        files: Vec::new(),
        folders: vec![folder],
        blobs: &[],
    };
    place.open().record(&change).unwrap()
}

fn shop() -> Place {
    let place = Place::with(&[
        (".gitignore", "*.secret\n/elsewhere/cache\n"),
        ("shop/.gitignore", "local\n"),
        ("shop/a.txt", "a\n"),
        ("shop/deep/er/b.txt", "b\n"),
        ("shop/gone.txt", "gone\n"),
    ]);
    place.write("shop/a.txt", "a, uncommitted\n");
    place.write("shop/local", "SECRET 1\n");
    place.write("shop/deep/x.secret", "SECRET 2\n");
    place.write("shop/new.txt", "new\n");
    place.write("shop/cache/c.txt", "c\n");
    place.write("shop/other/.gitignore", "*\n");
    place.write("shop/other/d.txt", "SECRET 3\n");
    fs::remove_file(place.path("shop/gone.txt")).unwrap();
    place
}

/// Checks that no object holds an ignored file.
fn must_contain_no_ignored_file(place: &Place) {
    let all = place.git(&["cat-file", "--batch-all-objects", "--batch"]);
    assert!(!all.contains("SECRET"));
    place.fsck();
}

#[test]
fn moved_directory_is_one_commit_after_its_uncommitted_files() {
    let place = shop();
    fs::rename(place.path("shop"), place.path("elsewhere")).unwrap();
    let recorded = moved(&place, "elsewhere", Some("shop"), Some("elsewhere"));
    assert_eq!(
        place.listed(),
        [
            ".gitignore",
            "elsewhere/.gitignore",
            "elsewhere/a.txt",
            "elsewhere/deep/er/b.txt",
            "elsewhere/new.txt"
        ]
    );
    assert_eq!(place.shown("elsewhere/a.txt"), "a, uncommitted");
    let external = recorded.external.unwrap();
    assert_eq!(place.git(&["show", &format!("{external}:shop/a.txt")]), "a, uncommitted");
    assert_eq!(place.git(&["show", &format!("{external}:shop/cache/c.txt")]), "c");
    assert!(
        recorded
            .left_out
            .iter()
            .any(|it| it.path == "elsewhere/cache/c.txt" && it.reason == SkipReason::Ignored)
    );
    must_contain_no_ignored_file(&place);
}

#[test]
fn removed_and_restored_directory_is_two_commits() {
    let place = shop();
    let (trash, shop) = (place.path(".lbx/trash"), place.path("shop"));
    fs::rename(&shop, &trash).unwrap();
    assert!(moved(&place, ".lbx/trash", Some("shop"), None).id.is_some());
    assert_eq!(place.listed(), [".gitignore"]);
    assert_eq!(place.git(&["show", "lbx-snapshots^:shop/new.txt"]), "new");
    fs::rename(&trash, &shop).unwrap();
    assert!(moved(&place, "shop", None, Some("shop")).id.is_some());
    assert_eq!(
        place.listed(),
        [
            ".gitignore",
            "shop/.gitignore",
            "shop/a.txt",
            "shop/cache/c.txt",
            "shop/deep/er/b.txt",
            "shop/new.txt"
        ]
    );
    must_contain_no_ignored_file(&place);
}

#[test]
fn moved_directory_skips_fifos_and_nested_repositories() {
    let place = Place::with(&[("shop/a.txt", "a\n")]);
    fs::write(place.home.join("outside"), "SECRET\n").unwrap();
    std::os::unix::fs::symlink(place.home.join("outside"), place.path("shop/link")).unwrap();
    std::os::unix::fs::symlink(&place.home, place.path("shop/folder")).unwrap();
    place.git(&["init", "-q", "shop/inner"]);
    place.write("shop/inner/x.txt", "x\n");
    place.write("shop/odd/y.txt", "SECRET\n");
    assert!(std::process::Command::new("mkfifo").arg(place.path("shop/pipe")).status().unwrap().success());
    let rules = place.path("shop/odd/.gitignore");
    assert!(std::process::Command::new("mkfifo").arg(rules).status().unwrap().success());
    fs::rename(place.path("shop"), place.path("new")).unwrap();
    let recorded = moved(&place, "new", Some("shop"), Some("new"));
    assert_eq!(place.listed(), ["new/a.txt", "new/folder", "new/link"]);
    let reasons: Vec<_> = recorded.left_out.into_iter().map(|it| it.reason).collect();
    assert_eq!(
        reasons,
        [SkipReason::NestedRepository("new/inner".into()), SkipReason::Rules("new/odd/.gitignore".into())]
    );
    must_contain_no_ignored_file(&place);
}

#[test]
fn moved_directory_with_large_files_is_stored_completely() {
    let place = Place::with(&[("a", "a")]);
    for number in 0..24 {
        // No two blocks are alike, so that nothing compresses.
        let bytes: Vec<u8> = (0..512 * 1024_u32)
            .map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(number) >> 13).to_le_bytes()[0])
            .collect();
        place.write(&format!("big/{number}"), bytes);
    }
    fs::rename(place.path("big"), place.path("large")).unwrap();
    assert!(moved(&place, "large", Some("big"), Some("large")).id.is_some());
    assert_eq!(place.listed().len(), 25);
    place.fsck();
}
