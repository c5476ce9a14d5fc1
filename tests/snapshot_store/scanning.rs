//! The full scan finds changes that no tool reported.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use lbx::control::Control;
use lbx::engine::snapshot::{RecordResult, Scan, ScanBounds, SkipReason, SnapshotError};

use crate::place::Place;

pub fn scan(place: &Place) -> Result<RecordResult, SnapshotError> {
    scan_as(place, Some("bash: make"), &Control::default())
}

fn scan_as(place: &Place, subject: Option<&str>, control: &Control) -> Result<RecordResult, SnapshotError> {
    let scan = Scan {
        subject: subject.map(str::to_owned),
        why: None,
        session: "tester",
        tool: "bash",
        seq: 4,
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        bounds: ScanBounds::FULL,
        survey: None,
        only: None,
    };
    place.scan(&scan, control)
}

/// Returns the tree that git itself would make of the work tree.
pub fn wanted_tree(place: &Place) -> String {
    let _ = fs::remove_file(place.home.join("index"));
    let index = place.home.join("index");
    let git = |args: &[&str]| {
        let output = std::process::Command::new("git")
            .args(args)
            .current_dir(&place.root)
            .env("HOME", &place.home)
            .env("GIT_INDEX_FILE", &index)
            .env("GIT_OBJECT_DIRECTORY", place.path(".git/objects"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["read-tree", "HEAD"]);
    git(&["add", "-A"]);
    git(&["write-tree"])
}

pub fn tip_tree(place: &Place) -> String {
    place.git(&["rev-parse", "lbx-snapshots^{tree}"])
}

fn busy() -> Place {
    Place::with(&[
        (".gitignore", "*.o\n/out/\n"),
        ("a.txt", "a\n"),
        ("d/b.txt", "b\n"),
        ("d/c.txt", "c\n"),
        ("run.sh", "x\n"),
        ("file", "f\n"),
        ("folder/x", "x\n"),
    ])
}

/// Changes the work tree in every possible way.
fn stir(place: &Place) {
    place.write("a.txt", "changed\n");
    place.write("new/deep/n.txt", "n\n");
    place.write("made.o", "object\n");
    place.write("out/x", "x\n");
    fs::remove_file(place.path("d/b.txt")).unwrap();
    fs::set_permissions(place.path("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("nowhere", place.path("link")).unwrap();
    fs::remove_file(place.path("file")).unwrap();
    place.write("file/now/folder", "y\n");
    fs::remove_dir_all(place.path("folder")).unwrap();
    place.write("folder", "now a file\n");
}

#[test]
fn scan_records_all_changes_in_one_commit() {
    let place = busy();
    let before = place.frozen();
    stir(&place);
    let recorded = scan(&place).unwrap();
    assert_eq!(place.frozen(), before);
    assert_eq!(place.subjects(), ["bash: make"]);
    assert_eq!((recorded.id, recorded.left_out), (Some(place.git(&["rev-parse", "lbx-snapshots"])), vec![]));
    assert_eq!(tip_tree(&place), wanted_tree(&place));
    place.fsck();
    assert_eq!(scan(&place).unwrap().id, None);
    place.write("a.txt", "again\n");
    assert!(scan(&place).unwrap().id.is_some());
    assert_eq!(tip_tree(&place), wanted_tree(&place));
    assert_eq!(scan(&place).unwrap().id, None);
}

#[test]
fn scan_of_a_clean_work_tree_makes_no_commit() {
    let place = busy();
    assert_eq!(scan(&place).unwrap(), RecordResult::default());
    assert!(!place.try_git(&["rev-parse", "--verify", "lbx-snapshots"]).status.success());
}

#[test]
fn scan_finds_an_edit_with_the_same_size_and_mtime() {
    let place = busy();
    scan(&place).unwrap();
    for round in 0..3_u8 {
        let path = place.path("d/c.txt");
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, [b'0' + round, b'\n']).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert!(scan(&place).unwrap().id.is_some(), "{round}");
        assert_eq!(place.shown("d/c.txt"), round.to_string());
    }
}

#[test]
fn tools_and_scans_can_alternate() {
    let place = busy();
    scan(&place).unwrap();
    place.put("a.txt", "tool\n");
    place.put("tool/new.txt", "tool\n");
    assert_eq!(scan(&place).unwrap().id, None); // known already
    place.put("tool/gone.txt", "tool\n");
    fs::remove_file(place.path("tool/gone.txt")).unwrap();
    place.write("made.txt", "make\n");
    scan(&place).unwrap();
    assert_eq!(tip_tree(&place), wanted_tree(&place));
    place.put("made.txt", "tool\n");
    assert_eq!(place.subjects()[0], "write: made.txt");
    assert_ne!(place.subjects()[1], "external: made.txt");
    assert_eq!(scan(&place).unwrap().id, None);
}

#[test]
fn scan_keeps_a_tracked_ignored_file() {
    let place = busy();
    place.write("kept.o", "kept\n");
    place.git(&["add", "-f", "kept.o"]);
    place.git(&["commit", "-q", "-m", "kept"]);
    place.put("kept.o", "changed\n");
    place.write("a.txt", "changed\n");
    scan(&place).unwrap();
    assert_eq!(place.shown("kept.o"), "changed");
    assert_eq!(tip_tree(&place), wanted_tree(&place));
}

#[test]
fn changes_by_others_are_recorded_as_external() {
    let place = busy();
    place.write("a.txt", "mine\n");
    scan_as(&place, None, &Control::default()).unwrap();
    place.write("a.txt", "mine too\n");
    place.write("d/c.txt", "mine\n");
    scan_as(&place, None, &Control::default()).unwrap();
    assert_eq!(place.subjects(), ["external: 2 files", "external: a.txt"]);
}

#[test]
fn scan_records_a_moved_head_first() {
    let place = busy();
    scan(&place).unwrap();
    place.put("a.txt", "tool\n");
    place.commit(&[("d/c.txt", "developer\n")]);
    place.write("made.txt", "make\n");
    let recorded = scan(&place).unwrap();
    assert!(recorded.external.is_some());
    assert_eq!(place.git(&["diff", "--name-only", "lbx-snapshots^", "lbx-snapshots"]), "made.txt");
    assert_eq!(tip_tree(&place), wanted_tree(&place));
}

#[test]
fn scan_after_a_soft_reset_keeps_the_work_tree() {
    let place = busy();
    place.commit(&[("a.txt", "two\n")]);
    place.put("d/c.txt", "tool\n");
    place.git(&["reset", "-q", "--soft", "HEAD~1"]);
    scan(&place).unwrap();
    assert_eq!(place.shown("a.txt"), "two");
    assert_eq!(tip_tree(&place), wanted_tree(&place));
}

#[test]
fn scan_reports_nested_repositories() {
    let place = busy();
    place.git(&["init", "-q", "inner"]);
    place.write("inner/x", "x\n");
    let recorded = scan(&place).unwrap();
    assert_eq!(recorded.left_out[0].reason, SkipReason::NestedRepository("inner".into()));
    assert_eq!(recorded.id, None);
}

#[test]
fn sparse_checkout_is_not_a_deletion() {
    for cone in ["--sparse-index", "--no-sparse-index"] {
        let place = busy();
        scan(&place).unwrap();
        place.git(&["sparse-checkout", "set", "--cone", cone, "d"]);
        assert!(!place.path("folder").exists());
        place.write("d/c.txt", "changed\n");
        scan(&place).unwrap();
        assert_eq!(place.git(&["diff", "--name-only", "HEAD", "lbx-snapshots"]), "d/c.txt");
    }
}

#[test]
fn scan_works_with_a_private_repository() {
    let place = Place::bare_folder();
    place.write("a.txt", "a\n");
    place.write(".gitignore", "*.o\n");
    place.write("b.o", "b\n");
    scan(&place).unwrap();
    let git = |args: &[&str]| place.git(&[&["--git-dir=.lbx/repo.git"], args].concat());
    assert_eq!(git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]), ".gitignore\na.txt");
    assert_eq!(scan(&place).unwrap().id, None);
}

#[test]
fn damaged_scan_index_is_rebuilt() {
    let place = busy();
    scan(&place).unwrap();
    for entry in fs::read_dir(place.path(".lbx/scan")).unwrap() {
        fs::write(entry.unwrap().path(), "junk").unwrap();
    }
    stir(&place);
    scan(&place).unwrap();
    assert_eq!(tip_tree(&place), wanted_tree(&place));
}

#[test]
fn cancelled_scan_stops() {
    let place = busy();
    stir(&place);
    let control = Control::default();
    control.cancel();
    let error = scan_as(&place, None, &control).unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
    assert!(!place.try_git(&["rev-parse", "--verify", "lbx-snapshots"]).status.success());
}

#[test]
fn scan_converts_line_endings_in_an_unborn_repository() {
    let place = Place::unborn(&[]);
    place.write(".gitattributes", "*.t eol=crlf\n");
    place.write("a.t", "a\r\nb\r\n");
    scan(&place).unwrap();
    assert_eq!(place.git(&["cat-file", "-s", "lbx-snapshots:a.t"]), "4");
    assert_eq!(scan(&place).unwrap().id, None);
}

#[test]
fn scan_stores_many_new_files() {
    let place = busy();
    for number in 0..300 {
        place.write(&format!("many/{}/f{number}", number % 7), format!("{number}\n"));
    }
    scan(&place).unwrap();
    assert_eq!(tip_tree(&place), wanted_tree(&place));
    place.fsck();
}

#[test]
fn scan_keeps_filtered_files_as_in_head() {
    let place =
        Place::with(&[(".gitattributes", "*.bin filter=lfs\n"), ("a.bin", "pointer 1\n"), ("b", "b\n")]);
    place.git(&["config", "filter.lfs.process", "false"]);
    fs::write(place.path("a.bin"), "content\n").unwrap();
    sleep(Duration::from_millis(50)); // so that its time proves something
    assert_eq!(scan(&place).unwrap().left_out[0].reason, SkipReason::Filter("lfs".into()));
    assert_eq!(scan(&place).unwrap(), RecordResult::default()); // said once
    let id = {
        fs::write(place.home.join("pointer"), "pointer 2\n").unwrap();
        place.git(&["hash-object", "-w", "--no-filters", place.home.join("pointer").to_str().unwrap()])
    };
    place.git(&["update-index", "--cacheinfo", &format!("100644,{id},a.bin")]);
    let tree = place.git(&["write-tree"]); // `git commit` might run the filter
    let commit = place.git(&["commit-tree", &tree, "-p", "HEAD", "-m", "pointer"]);
    place.git(&["update-ref", "HEAD", &commit]);
    place.put("b", "tool\n");
    for text in ["one\n", "two\n"] {
        place.write("b", text);
        scan(&place).unwrap();
        assert_eq!((place.shown("a.bin"), place.shown("b")), ("pointer 2".into(), text.trim().into()));
    }
    fs::remove_file(place.path("a.bin")).unwrap();
    scan(&place).unwrap();
    assert_eq!(place.listed(), [".gitattributes", "b"]);
}
