//! A malicious repository runs nothing and leads nowhere.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use crate::place::Place;

/// Creates a repository in which every program that git might run leaves a mark.
fn trapped() -> Place {
    let place = Place::with(&[("a.txt", "one\n"), ("b.bin", "b\n")]);
    let trap = place.home.join("trap.sh");
    fs::write(&trap, format!("#!/bin/sh\ntouch {}/sprung\ncat\n", place.home.display())).unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.to_str().unwrap();
    for key in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "core.fsmonitor",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "merge.evil.driver",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "gpg.program",
        "credential.helper",
        "core.askPass",
        "uploadpack.packObjectsHook",
        "core.gitProxy",
    ] {
        place.git(&["config", key, trap]);
    }
    place.git(&["config", "commit.gpgSign", "true"]);
    place.git(&["config", "core.hooksPath", place.home.to_str().unwrap()]);
    for hook in ["pre-commit", "post-commit", "reference-transaction", "post-index-change", "post-checkout"] {
        fs::create_dir_all(place.path(".git/hooks")).unwrap();
        symlink(trap, place.home.join(hook)).unwrap();
        symlink(trap, place.path(".git/hooks").join(hook)).unwrap();
    }
    fs::write(place.path(".git/info/attributes"), "*.bin filter=evil diff=evil merge=evil\n").unwrap();
    place
}

#[test]
fn snapshots_run_no_configured_program() {
    let place = trapped();
    place.put("a.txt", "two\n");
    place.put("b.bin", "two\n");
    let store = place.open();
    assert_eq!(store.find_version(b"b.bin", |_| false).unwrap(), None);
    drop(store);
    place.write("b.bin", "333\n");
    place.write("c.bin", "new\n");
    place.write("c.txt", "new\n");
    let recorded = crate::scanning::scan(&place).unwrap();
    assert_eq!(recorded.left_out.len(), 2, "{recorded:?}");
    assert!(!place.home.join("sprung").exists());
}

#[test]
fn configured_work_tree_is_ignored() {
    let place = Place::with(&[(".gitignore", "hidden\n"), ("a", "a")]);
    let elsewhere = place.home.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join(".gitignore"), "shown\n").unwrap();
    place.git(&["config", "core.worktree", elsewhere.to_str().unwrap()]);
    assert!(place.put("shown", "x\n").id.is_some());
    assert_eq!(place.put("hidden", "x\n").id, None);
}

#[test]
fn symbolic_snapshot_branch_is_an_error() {
    let place = Place::with(&[("a", "a")]);
    let head = place.git(&["rev-parse", "HEAD"]);
    for target in ["refs/heads/main", "refs/heads/nowhere"] {
        place.git(&["symbolic-ref", "refs/heads/lbx-snapshots", target]);
        let before = place.frozen();
        let error = place.try_change(&["a"], || place.write("a", "c\n")).unwrap_err();
        assert!(error.to_string().contains("symbolic"), "{error}");
        assert_eq!(place.git(&["rev-parse", "HEAD"]), head);
        assert_eq!(place.frozen(), before);
    }
    fs::remove_file(place.path(".git/refs/heads/lbx-snapshots")).unwrap();
    symlink("main", place.path(".git/refs/heads/lbx-snapshots")).unwrap();
    assert!(place.try_change(&["a"], || place.write("a", "d\n")).is_err());
    assert_eq!(place.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn damaged_snapshot_branch_is_an_error() {
    let place = Place::with(&[("a", "a")]);
    fs::write(place.path(".git/refs/heads/lbx-snapshots"), "").unwrap();
    let error = place.try_change(&["a"], || place.write("a", "c\n")).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

#[test]
fn symlinked_private_repository_is_not_followed() {
    let (place, victim) = (Place::bare_folder(), Place::bare_folder());
    victim.git(&["init", "-q", "--bare", "."]);
    symlink(&victim.root, place.path(".lbx/repo.git")).unwrap();
    let opened = crate::place::opened(&place.root, "lbx-snapshots");
    assert!(opened.unwrap_err().to_string().contains("a folder of its own"));
}

/// Runs in a process of its own, started by the test below.
#[test]
#[ignore = "needs the environment that its parent sets"]
fn child() {
    let Some(root) = std::env::var_os("LBX_TEST_ROOT") else { return };
    let root = std::path::PathBuf::from(root);
    let mut store = crate::place::opened(&root, "lbx-snapshots").unwrap();
    let files = ["seen", "globally", "crlf.txt"].map(|path| lbx::engine::snapshot::FileChange {
        path: path.as_bytes(),
        before: None,
        after: Some(lbx::engine::snapshot::FileState::Regular { executable: false, bytes: b"x\r\n" }),
    });
    crate::place::record(&mut store, "write: x", files.to_vec()).unwrap();
}

#[test]
fn git_environment_is_ignored_and_the_user_config_applies() {
    let (place, victim) = (Place::with(&[("a", "a")]), Place::with(&[("v", "v")]));
    fs::write(place.home.join(".gitconfig"), "[core]\nexcludesFile = ~/ignored\nautocrlf = input\n").unwrap();
    fs::write(place.home.join("ignored"), "globally\n").unwrap();
    let before = victim.frozen();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::child", "--ignored"])
        .env("LBX_TEST_ROOT", &place.root)
        .env("HOME", &place.home)
        .env_remove("XDG_CONFIG_HOME")
        .env("GIT_DIR", victim.path(".git"))
        .env("GIT_WORK_TREE", &victim.root)
        .env("GIT_OBJECT_DIRECTORY", victim.path(".git/objects"))
        .env("GIT_INDEX_FILE", victim.path(".git/index"))
        .env("GIT_NAMESPACE", "evil")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.autocrlf")
        .env("GIT_CONFIG_VALUE_0", "false")
        .env("GIT_AUTHOR_NAME", "forged")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(victim.frozen(), before);
    assert_eq!(place.listed(), ["a", "crlf.txt", "seen"]);
    assert_eq!(place.git(&["cat-file", "-s", "lbx-snapshots:crlf.txt"]), "2");
    assert!(place.git(&["log", "-1", "--format=%an", "lbx-snapshots"]).starts_with("lbx"));
}
