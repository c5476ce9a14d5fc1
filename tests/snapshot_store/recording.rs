//! One change is one commit, and nothing else moves.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use lbx::engine::snapshot::{FileChange, FileState, SkipReason};
use lbx::limits::SNAPSHOT_FILE_BYTES_MAX;

use crate::place::{Place, record};

#[test]
fn first_change_is_one_commit_on_top_of_head() {
    let place = Place::with(&[("a.txt", "one\n"), ("deep/er/b.txt", "b\n")]);
    let before = place.frozen();
    let recorded = place.put("a.txt", "two\n");
    assert_eq!(place.frozen(), before);
    assert_eq!(recorded.id.as_deref(), Some(place.git(&["rev-parse", "lbx-snapshots"]).as_str()));
    assert_eq!(recorded.external, None);
    assert_eq!(recorded.left_out, []);
    assert_eq!(recorded.warnings, Vec::<String>::new());
    assert_eq!(place.git(&["rev-parse", "lbx-snapshots^"]), place.git(&["rev-parse", "HEAD"]));
    assert_eq!(
        place.git(&["diff", "--stat", "--format=", "lbx-snapshots^", "lbx-snapshots", "--name-only"]),
        "a.txt"
    );
    assert_eq!(place.git(&["status", "--porcelain"]), " M a.txt");
    place.fsck();
}

#[test]
fn commit_message_states_session_tool_and_reason() {
    let place = Place::with(&[("a.txt", "one\n")]);
    place.put("a.txt", "two\n");
    let head = place.git(&["rev-parse", "HEAD"]);
    let message = place.git(&["log", "-1", "--format=%an <%ae> %cn %ct%n%B", "lbx-snapshots"]);
    let wanted = format!(
        "lbx tester <lbx@localhost> lbx 1800000000\nwrite: a.txt\n\nbecause\n\nLbx-Session: tester\nLbx-Tool: write\nLbx-Seq: 3\nLbx-Head: {head}"
    );
    assert_eq!(message, wanted);
    assert_eq!(
        place.git(&["log", "-1", "--format=%(trailers:key=Lbx-Session,valueonly)", "lbx-snapshots"]).trim(),
        "tester"
    );
}

#[test]
fn changes_form_a_linear_history() {
    let place = Place::with(&[("a.txt", "0\n")]);
    for number in 1..=5 {
        place.put("a.txt", format!("{number}\n"));
    }
    assert_eq!(place.git(&["rev-list", "--count", "lbx-snapshots", "^HEAD"]), "5");
    assert_eq!(place.git(&["rev-list", "--count", "--merges", "lbx-snapshots"]), "0");
    assert_eq!(place.git(&["reflog", "show", "--format=%gs", "lbx-snapshots"]).lines().count(), 5);
    place.fsck();
}

#[test]
fn empty_change_makes_no_commit() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let recorded = place.put("a.txt", "one\n");
    assert_eq!((recorded.id, recorded.external), (None, None));
    assert!(!place.try_git(&["rev-parse", "--verify", "lbx-snapshots"]).status.success());
}

#[test]
fn created_moved_and_deleted_files_are_recorded() {
    let place = Place::with(&[("a.txt", "a\n"), ("dir/b.txt", "b\n"), ("dir/c.txt", "c\n")]);
    place.put("new/deep/d.txt", "d\n");
    place.change(&["a.txt", "moved/a.txt"], || {
        fs::create_dir(place.path("moved")).unwrap();
        fs::rename(place.path("a.txt"), place.path("moved/a.txt")).unwrap();
    });
    place.change(&["dir/b.txt", "dir/c.txt"], || fs::remove_dir_all(place.path("dir")).unwrap());
    assert_eq!(place.listed(), ["moved/a.txt", "new/deep/d.txt"]);
    place.fsck();
    place.change(&["moved/a.txt", "new/deep/d.txt"], || {
        fs::remove_dir_all(place.path("moved")).unwrap();
        fs::remove_dir_all(place.path("new")).unwrap();
    });
    assert_eq!(place.listed(), [""; 0]);
    place.fsck();
}

#[test]
fn directory_can_replace_a_file_and_vice_versa() {
    let place = Place::with(&[("d", "file\n"), ("d.txt", "x\n"), ("d-x/y", "y\n")]);
    place.change(&["d", "d/e/f"], || {
        fs::remove_file(place.path("d")).unwrap();
        place.write("d/e/f", "f\n");
    });
    assert_eq!(place.listed(), ["d-x/y", "d.txt", "d/e/f"]);
    place.fsck();
    place.change(&["d/e/f", "d"], || {
        fs::remove_dir_all(place.path("d")).unwrap();
        place.write("d", "file again\n");
    });
    assert_eq!(place.listed(), ["d", "d-x/y", "d.txt"]);
    assert_eq!(place.subjects(), ["write: d/e/f", "write: d"]);
    place.fsck();
}

#[test]
fn executable_bits_and_symlinks_are_recorded() {
    let place = Place::with(&[("run.sh", "#!/bin/sh\n")]);
    place.change(&["run.sh"], || {
        fs::set_permissions(place.path("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    });
    place.change(&["link"], || symlink("../else/where", place.path("link")).unwrap());
    let listed = place.git(&["ls-tree", "lbx-snapshots"]);
    assert!(listed.contains("100755 blob") && listed.contains("120000 blob"), "{listed}");
    assert_eq!(place.shown("link"), "../else/where");
    place.fsck();
}

#[test]
fn file_names_are_recorded_as_bytes() {
    let place = Place::with(&[("a", "a")]);
    let names: [&[u8]; 6] =
        [b"\xff\xfe.txt", "日本/語.txt".as_bytes(), b"tab\there", b"new\nline", b"aux.c", b"back\\slash"];
    for name in names {
        let recorded = place
            .try_change_bytes(&[name], || {
                use std::os::unix::ffi::OsStrExt as _;
                place_write(&place, std::ffi::OsStr::from_bytes(name));
            })
            .unwrap();
        assert!(recorded.id.is_some(), "{name:?}: {recorded:?}");
    }
    assert_eq!(place.git(&["status", "--porcelain"]).lines().count(), 6);
    let differs = place.git(&["-c", "core.quotePath=true", "ls-tree", "-r", "--name-only", "lbx-snapshots"]);
    assert!(differs.contains(r#""\377\376.txt""#) && differs.contains(r#""new\nline""#), "{differs}");
    place.fsck();
}

fn place_write(place: &Place, name: &std::ffi::OsStr) {
    let path = place.root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "x").unwrap();
}

#[test]
fn names_that_git_rejects_are_skipped() {
    let place = Place::with(&[("a", "a")]);
    let text = Some(FileState::Regular { executable: false, bytes: b"x" });
    let link = Some(FileState::Symlink { target: b"x" });
    let names: [&[u8]; 12] = [
        b".git/config",
        b"sub/.GIT/hooks/x",
        b"git~1",
        b".git.",
        b".g\xe2\x80\x8cit/x",
        b"../x",
        b"a//b",
        b"/x",
        b"",
        b".lbx/state.json",
        b"x\\.git\\config",
        b"nul\0",
    ];
    for path in names {
        let files = vec![FileChange { path, before: None, after: text }];
        let recorded = record(&mut place.open(), "write: x", files).unwrap();
        assert_eq!(recorded.id, None, "{path:?}");
        assert_eq!(recorded.left_out[0].reason, SkipReason::Name, "{path:?}");
    }
    let files = vec![FileChange { path: b".gitmodules", before: None, after: link }];
    assert_eq!(record(&mut place.open(), "x", files).unwrap().left_out[0].reason, SkipReason::Name);
    place.fsck();
}

#[test]
fn oversized_file_is_skipped_and_reported() {
    let place = Place::with(&[("big", "small\n"), ("other", "x\n")]);
    let size = SNAPSHOT_FILE_BYTES_MAX + 1;
    let recorded = place.change(&["big", "other"], || {
        fs::File::create(place.path("big")).unwrap().set_len(size).unwrap();
        place.write("other", "y\n");
    });
    assert_eq!(
        recorded.left_out[0].reason,
        SkipReason::TooLarge { size_bytes: size, bytes_max: SNAPSHOT_FILE_BYTES_MAX }
    );
    assert_eq!((place.shown("big"), place.shown("other")), ("small".into(), "y".into()));
}

#[test]
fn stored_files_can_be_read_back() {
    let place = Place::with(&[("a.txt", "one\n")]);
    place.write(".gitattributes", "*.crlf eol=crlf\n");
    let recorded = place.put("a.txt", "two\n");
    place.put("w.crlf", "x\r\ny\r\n");
    let store = place.open();
    let id = recorded.id.unwrap();
    assert_eq!(store.tip().unwrap(), Some(place.git(&["rev-parse", "lbx-snapshots"])));
    assert_eq!(store.file_at(&id, b"a.txt").unwrap().as_deref(), Some(&b"two\n"[..]));
    assert_eq!(store.file_at(&id, b"none/there").unwrap(), None);
    assert!(store.file_at("no id", b"a.txt").is_err());
    let find = |path: &[u8], wanted: &[u8]| store.find_version(path, |bytes| bytes == wanted).unwrap();
    assert_eq!(find(b"a.txt", b"one\n").as_deref(), Some(&b"one\n"[..])); // HEAD's
    assert_eq!(find(b"a.txt", b"two\n").as_deref(), Some(&b"two\n"[..])); // the tip's
    assert_eq!(find(b"a.txt", b"three\n"), None);
    assert_eq!(find(b"w.crlf", b"x\r\ny\r\n").as_deref(), Some(&b"x\r\ny\r\n"[..])); // as checked out
}

#[test]
fn open_store_survives_git_gc_and_pack_refs() {
    let place = Place::with(&[("a.txt", "0\n")]);
    let mut store = place.open();
    for number in 0..6_u8 {
        let before = [b'0' + number, b'\n'];
        let after = [b'1' + number, b'\n'];
        let state = |bytes| Some(FileState::Regular { executable: false, bytes });
        let files = vec![FileChange { path: b"a.txt", before: state(&before), after: state(&after) }];
        let recorded = record(&mut store, "write: a.txt", files).unwrap();
        assert!(recorded.id.is_some() && recorded.external.is_none(), "{number} {recorded:?}");
        if number == 2 {
            place.git(&["gc", "-q", "--prune=now"]);
        }
        if number == 4 {
            place.git(&["pack-refs", "--all"]);
        }
    }
    place.fsck();
}
