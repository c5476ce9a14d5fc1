//! Repositories of every kind.

use std::fs;
use std::os::unix::fs::symlink;

use lbx::engine::snapshot::{self, BRANCH_DEFAULT, Store};
use lbx::engine::workspace::stat_cache;

use crate::place::{Place, opened};

/// Records two changes and has git check them.
fn works(place: &Place) {
    let before = place.frozen();
    place.put("new.txt", "one\n");
    place.put("new.txt", "two\n");
    assert_eq!(place.frozen(), before);
    let branch = place.open().branch();
    assert_eq!(place.git(&["show", &format!("{branch}:new.txt")]), "two");
    assert!(!place.open().is_private());
    place.fsck();
}

#[test]
fn sha256_repository_is_supported() {
    let place = Place::unborn(&["--object-format=sha256"]);
    place.commit(&[("a/b", "b")]);
    works(&place);
    assert_eq!(place.git(&["rev-parse", "lbx-snapshots"]).len(), 64);
}

#[test]
fn unborn_repository_is_supported() {
    works(&Place::unborn(&[]));
}

#[test]
fn packed_repository_is_supported() {
    let place = Place::with(&[("a/b", "b")]);
    place.put("a/b", "c");
    place.git(&["gc", "-q", "--prune=now"]);
    works(&place);
    assert!(!place.path(".git/packed-refs.lock").exists());
}

#[test]
fn detached_head_is_supported() {
    let place = Place::with(&[("a", "a")]);
    place.git(&["checkout", "-q", "--detach"]);
    works(&place);
}

#[test]
fn shallow_clone_is_supported() {
    let origin = Place::with(&[("a", "a")]);
    origin.commit(&[("a", "b")]);
    let place = Place::bare_folder();
    fs::remove_dir_all(place.path(".lbx")).unwrap();
    place.git(&["clone", "-q", "--depth=1", &format!("file://{}", origin.root.display()), "."]);
    works(&place.at(place.root.clone()));
}

#[test]
fn clone_with_alternates_is_supported() {
    let origin = Place::with(&[("a", "a"), ("d/e", "e")]);
    let place = Place::bare_folder();
    fs::remove_dir_all(place.path(".lbx")).unwrap();
    place.git(&["clone", "-q", "--shared", origin.root.to_str().unwrap(), "."]);
    works(&place.at(place.root.clone()));
}

#[test]
fn blobless_sparse_clone_is_supported() {
    let origin = Place::with(&[("in/a", "a"), ("in/z", "z"), ("out/b", "b"), ("c", "c")]);
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    let place = Place::bare_folder();
    fs::remove_dir_all(place.path(".lbx")).unwrap();
    let url = format!("file://{}", origin.root.display());
    place.git(&["clone", "-q", "--filter=blob:none", "--sparse", &url, "."]);
    place.git(&["sparse-checkout", "set", "in"]);
    let place = place.at(place.root.clone());
    place.put("in/a", "changed\n");
    place.put("out/new", "beside what is not here\n");
    assert_eq!(place.listed(), ["c", "in/a", "in/z", "out/b", "out/new"]);
}

#[test]
fn unfinished_merge_is_supported() {
    let place = Place::with(&[("a", "0\n")]);
    place.git(&["checkout", "-q", "-b", "other"]);
    place.commit(&[("a", "1\n")]);
    place.git(&["checkout", "-q", "main"]);
    place.commit(&[("a", "2\n")]);
    assert!(!place.try_git(&["merge", "other"]).status.success());
    works(&place);
    place.put("a", "resolved\n");
    assert_eq!(place.subjects().len(), 4); // the conflict itself is external
}

#[test]
fn linked_worktree_has_its_own_snapshot_branch() {
    let place = Place::with(&[("a", "a")]);
    place.put("a", "main's\n");
    place.git(&["worktree", "add", "-q", "../side.tree", "-b", "side"]);
    let linked = place.at(place.root.parent().unwrap().join("side.tree"));
    assert_eq!(linked.open().branch(), "lbx-snapshots-side.tree");
    works(&linked);
    assert_eq!(place.shown("a"), "main's");
    place.git(&["config", "worktree.useRelativePaths", "true"]);
    place.try_git(&["worktree", "repair", "--relative-paths"]);
    must_work_again(&linked);
}

fn must_work_again(place: &Place) {
    assert!(place.put("again.txt", "x\n").id.is_some());
    assert!(!place.open().is_private());
}

#[test]
fn worktree_without_a_back_pointer_is_not_followed() {
    let place = Place::with(&[("a", "a")]);
    place.git(&["worktree", "add", "-q", "../side", "-b", "side"]);
    let thief = Place::bare_folder();
    let pointer = fs::read(place.root.parent().unwrap().join("side/.git")).unwrap();
    fs::write(thief.path(".git"), pointer).unwrap();
    let before = place.frozen();
    let recorded = thief.put("x", "x\n");
    assert!(thief.open().is_private());
    assert!(recorded.warnings[0].contains("does not point back"), "{recorded:?}");
    assert_eq!(place.frozen(), before);
}

#[test]
fn repository_of_another_directory_is_not_followed() {
    let place = Place::with(&[("a", "a")]);
    let git_dir = place.path(".git");
    for by_link in [true, false] {
        let thief = Place::bare_folder();
        if by_link {
            symlink(&git_dir, thief.path(".git")).unwrap();
        } else {
            fs::write(thief.path(".git"), format!("gitdir: {}\n", git_dir.display())).unwrap();
        }
        assert!(thief.put("x", "x\n").id.is_some());
        assert!(thief.open().is_private());
    }
    let thief = Place::unborn(&[]);
    fs::write(thief.path(".git/commondir"), git_dir.to_str().unwrap()).unwrap();
    assert!(thief.put("x", "x\n").warnings[0].contains("another folder"));
    assert!(!place.try_git(&["rev-parse", "--verify", "lbx-snapshots"]).status.success());
}

#[test]
fn separate_git_dir_needs_a_back_pointer_or_a_setting() {
    let separate = Place::bare_folder();
    separate.git(&["init", "-q", "-b", "main", "--separate-git-dir", "../store.git"]);
    separate.configure();
    separate.commit(&[("a", "a")]);
    let linked = Place::with(&[("a", "a")]);
    fs::rename(linked.path(".git"), linked.root.parent().unwrap().join("store.git")).unwrap();
    symlink("../store.git", linked.path(".git")).unwrap();
    for place in [separate, linked] {
        let git_dir = place.root.parent().unwrap().join("store.git");
        let before = place.frozen();
        let recorded = place.put("new.txt", "one\n");
        assert!(place.open().is_private());
        let wanted = format!("snapshot.git_dirs = [\"{}\"]", git_dir.display());
        assert!(recorded.warnings[0].contains(&wanted), "{recorded:?}");
        assert_eq!(place.frozen(), before);
        assert!(!place.try_git(&["rev-parse", "--verify", "lbx-snapshots"]).status.success());
        let state = place.path(".lbx");
        let allowed = snapshot::RepositoryPaths {
            root: &place.root,
            root_fd: None,
            state: &state,
            state_fd: None,
            git_dirs: &[git_dir],
            kept: &stat_cache::StatCache::default(),
        };
        assert!(!Store::open(&allowed, BRANCH_DEFAULT).unwrap().is_private());
        place.git(&["config", "core.worktree", place.root.to_str().unwrap()]);
        works(&place);
    }
}

#[test]
fn submodule_can_be_a_workspace() {
    let (place, module) = (Place::with(&[("a", "a")]), Place::with(&[("m", "m")]));
    let url = module.root.to_str().unwrap();
    place.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", url, "mod"]);
    let inner = place.at(place.path("mod"));
    works(&inner);
}

#[test]
fn directory_without_git_uses_a_private_repository() {
    let place = Place::bare_folder();
    place.write(".gitignore", "*.secret\n");
    let recorded = place.put("a.txt", "one\n");
    assert_eq!(recorded.warnings, Vec::<String>::new());
    place.put("a.txt", "two\n");
    assert_eq!(place.put("b.secret", "s\n").id, None);
    let git = |args: &[&str]| place.git(&[&["--git-dir=.lbx/repo.git"], args].concat());
    assert_eq!(git(&["log", "--format=%s", "lbx-snapshots"]), "write: a.txt\nwrite: a.txt");
    assert_eq!(git(&["show", "lbx-snapshots:a.txt"]), "two");
    assert_eq!(git(&["fsck", "--strict"]), "");
    assert!(!place.path(".lbx/repo.git/hooks").exists());
}

#[test]
fn incomplete_private_repository_is_completed() {
    let place = Place::bare_folder();
    fs::create_dir_all(place.path(".lbx/repo.git/objects")).unwrap();
    fs::write(place.path(".lbx/repo.git/config.new"), "junk").unwrap();
    assert!(place.put("a.txt", "one\n").id.is_some());
}

/// Checks that the private repository is used, and that the user's own is unchanged.
fn must_use_the_private_repository(place: &Place, word: &str) {
    let recorded = place.put("x.txt", "x\n");
    assert!(recorded.id.is_some());
    assert!(recorded.warnings.iter().any(|warning| warning.contains(word)), "{recorded:?}");
    assert!(place.open().is_private());
    assert!(!place.path(".git/refs/heads/lbx-snapshots").exists());
}

#[test]
fn unsupported_repositories_fall_back_to_the_private_one() {
    let place = Place::unborn(&["--ref-format=reftable"]);
    place.commit(&[("a", "a")]);
    must_use_the_private_repository(&place, "reftable");
    assert_eq!(place.git(&["fsck", "--strict"]), "");

    let place = Place::with(&[("a", "a")]);
    place.git(&["config", "core.repositoryFormatVersion", "1"]);
    place.git(&["config", "extensions.tomorrow", "true"]);
    must_use_the_private_repository(&place, "tomorrow");

    let place = Place::with(&[("a", "a")]);
    fs::write(place.path(".git/config"), "[core\nbroken").unwrap();
    must_use_the_private_repository(&place, "private");

    let place = Place::with(&[("a", "a")]);
    place.git(&["config", "core.repositoryFormatVersion", "7"]);
    must_use_the_private_repository(&place, "7");

    // As for git, an empty folder is not a repository, and there is no message about it.
    let place = Place::bare_folder();
    fs::create_dir(place.path(".git")).unwrap();
    let recorded = place.put("x.txt", "x\n");
    assert!(recorded.id.is_some() && recorded.warnings.is_empty(), "{recorded:?}");
    assert!(place.open().is_private());

    let place = Place::bare_folder();
    fs::create_dir_all(place.path(".git/refs")).unwrap();
    must_use_the_private_repository(&place, "private");

    let place = Place::bare_folder();
    fs::write(place.path(".git"), "gitdir: /nowhere/at/all\n").unwrap();
    must_use_the_private_repository(&place, "not there");
}

#[test]
fn treeless_clone_falls_back_to_the_private_repository() {
    let origin = Place::with(&[("in/a", "a")]);
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    let place = Place::bare_folder();
    fs::remove_dir_all(place.path(".lbx")).unwrap();
    place.git(&["clone", "-q", "--filter=tree:0", &format!("file://{}", origin.root.display()), "."]);
    must_use_the_private_repository(&place.at(place.root.clone()), "partial clone");
}

#[test]
fn checked_out_snapshot_branch_is_not_moved() {
    let place = Place::with(&[("a", "a")]);
    place.put("a", "b\n");
    place.git(&["worktree", "add", "-q", "../other", "lbx-snapshots"]);
    let error = place.try_change(&["a"], || place.write("a", "c\n")).unwrap_err();
    assert!(error.to_string().contains("is checked out"), "{error}");
    place.git(&["worktree", "remove", "../other"]);
    place.git(&["checkout", "-q", "-f", "lbx-snapshots"]);
    let before = place.git(&["rev-parse", "lbx-snapshots"]);
    assert!(place.try_change(&["a"], || place.write("a", "d\n")).is_err());
    assert_eq!(place.git(&["rev-parse", "lbx-snapshots"]), before);
}

#[test]
fn unborn_checked_out_snapshot_branch_is_an_error() {
    let place = Place::unborn(&[]);
    place.git(&["symbolic-ref", "HEAD", "refs/heads/lbx-snapshots"]);
    assert!(place.try_change(&["a"], || place.write("a", "c\n")).is_err());
}

#[test]
fn conflicting_branch_names_are_rejected() {
    for packed in [false, true] {
        let place = Place::with(&[("a", "a")]);
        place.git(&["branch", "lbx-snapshots/x"]);
        if packed {
            place.git(&["pack-refs", "--all"]);
            let _ = fs::remove_dir_all(place.path(".git/logs/refs/heads/lbx-snapshots"));
        }
        let before = place.frozen();
        let error = place.try_change(&["a"], || place.write("a", "c\n")).unwrap_err();
        assert!(error.to_string().contains("lbx-snapshots"), "{error}");
        assert_eq!(place.frozen(), before);
        place.git(&["clone", "-q", ".", "../clone"]);
        let mut below = opened(&place.root, "main/snapshots").unwrap();
        assert!(crate::place::record(&mut below, "x", change()).is_err());
        place.git(&["branch", "-D", "lbx-snapshots/x"]);
        assert!(place.put("a", "d\n").id.is_some()); // an empty folder may be left of it
        place.fsck();
    }
}

fn change() -> Vec<lbx::engine::snapshot::FileChange<'static>> {
    use lbx::engine::snapshot::{FileChange, FileState};
    let after = Some(FileState::Regular { executable: false, bytes: b"x" });
    vec![FileChange { path: b"x", before: None, after }]
}

#[test]
fn invalid_branch_names_are_rejected() {
    let place = Place::with(&[("a", "a")]);
    for name in ["", "a..b", "x.lock", "-", "a b", "../../x", "/x"] {
        let opened = opened(&place.root, name);
        let refused = opened.is_err() || name == "-";
        assert!(refused, "{name}");
    }
    assert!(opened(&place.root, BRANCH_DEFAULT).is_ok());
}
