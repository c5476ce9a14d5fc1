//! Changes by others are recorded separately from the agent's.

use std::fs;

use crate::place::Place;

#[test]
fn uncommitted_bytes_of_a_changed_file_are_recorded_first() {
    let place = Place::with(&[("a.txt", "one\n")]);
    place.write("a.txt", "developer\n");
    let recorded = place.put("a.txt", "agent\n");
    assert_eq!(place.subjects(), ["write: a.txt", "external: a.txt"]);
    assert_eq!(recorded.external, Some(place.git(&["rev-parse", "lbx-snapshots^"])));
    assert_eq!(place.git(&["show", "lbx-snapshots^:a.txt"]), "developer");
    let body = place.git(&["log", "-1", "--format=%b", "lbx-snapshots^"]);
    assert!(body.starts_with("Lbx-Tool: external\nLbx-Head: "), "{body}");
    place.fsck();
}

#[test]
fn deletion_by_another_program_is_external() {
    let place = Place::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    fs::remove_file(place.path("a.txt")).unwrap();
    fs::remove_file(place.path("b.txt")).unwrap();
    place.change(&["a.txt", "b.txt"], || {
        place.write("a.txt", "new\n");
        place.write("b.txt", "new\n");
    });
    assert_eq!(place.subjects(), ["write: a.txt", "external: 2 files"]);
    assert_eq!(place.git(&["ls-tree", "lbx-snapshots^"]), "");
}

#[test]
fn file_replaced_by_a_directory_is_external() {
    let place = Place::with(&[("d", "file\n"), ("e/f", "f\n")]);
    fs::remove_file(place.path("d")).unwrap();
    fs::remove_dir_all(place.path("e")).unwrap();
    place.change(&["d/new", "e"], || {
        place.write("d/new", "new\n");
        place.write("e", "file\n");
    });
    assert_eq!(place.subjects(), ["write: d/new", "external: 2 files"]);
    assert_eq!(place.git(&["ls-tree", "lbx-snapshots^"]), "");
    assert_eq!(place.listed(), ["d/new", "e"]);
    place.fsck();
}

#[test]
fn untracked_file_of_the_developer_is_external() {
    let place = Place::with(&[("a.txt", "one\n")]);
    place.write("notes.txt", "mine\n");
    place.put("notes.txt", "mine\nand the agent's\n");
    assert_eq!(place.subjects(), ["write: notes.txt", "external: notes.txt"]);
}

#[test]
fn commit_of_the_developer_becomes_a_parent() {
    let place = Place::with(&[("a.txt", "one\n"), ("b/c.txt", "c\n"), ("b/d.txt", "d\n")]);
    place.put("b/c.txt", "agent\n");
    place.write("a.txt", "developer\n");
    place.git(&["commit", "-q", "-m", "dev", "--", "a.txt"]);
    place.put("b/d.txt", "agent\n");
    let head = place.git(&["rev-parse", "HEAD"]);
    let subjects = place.subjects();
    assert_eq!(
        subjects,
        ["write: b/d.txt", &format!("external: HEAD moved to {}", &head[..10]), "write: b/c.txt"]
    );
    assert_eq!(place.git(&["rev-parse", "lbx-snapshots^^2"]), head);
    assert_eq!(place.git(&["diff", "--name-only", "lbx-snapshots^^", "lbx-snapshots^"]), "a.txt");
    assert_eq!(place.git(&["diff", "--name-only", "lbx-snapshots"]), ""); // the tree is the work tree
    place.put("b/d.txt", "again\n");
    assert_eq!(place.subjects().len(), 4); // taken in once
    place.fsck();
}

#[test]
fn commit_of_recorded_changes_only_adds_a_parent() {
    let place = Place::with(&[("a.txt", "one\n")]);
    place.put("a.txt", "agent\n");
    place.git(&["commit", "-q", "-am", "accepted"]);
    place.put("a.txt", "agent, again\n");
    assert_eq!(place.subjects(), ["write: a.txt", "write: a.txt"]);
    assert_eq!(place.git(&["rev-parse", "lbx-snapshots^2"]), place.git(&["rev-parse", "HEAD"]));
    assert_eq!(place.git(&["diff", "--name-only", "lbx-snapshots^", "lbx-snapshots"]), "a.txt");
    place.fsck();
}

#[test]
fn checkout_of_another_branch_is_recorded() {
    let place = Place::with(&[("a.txt", "one\n"), ("keep/k.txt", "k\n"), ("gone/g.txt", "g\n")]);
    place.git(&["checkout", "-q", "-b", "other"]);
    place.git(&["rm", "-q", "gone/g.txt"]);
    place.commit(&[("a.txt", "other\n"), ("keep/new.txt", "n\n"), ("made/m.txt", "m\n")]);
    place.git(&["checkout", "-q", "main"]);
    place.put("keep/k.txt", "agent\n");
    place.put("untracked/u.txt", "agent\n");
    place.git(&["checkout", "-q", "other"]);
    place.put("keep/k.txt", "agent two\n");
    assert_eq!(place.listed(), ["a.txt", "keep/k.txt", "keep/new.txt", "made/m.txt", "untracked/u.txt"]);
    assert_eq!(place.git(&["diff", "--name-only", "lbx-snapshots"]), "untracked/u.txt"); // not in the index
    place.fsck();
}

#[test]
fn first_commit_of_an_unborn_repository_is_recorded() {
    let place = Place::unborn(&[]);
    place.put("a.txt", "agent\n");
    assert_eq!(place.git(&["rev-list", "--count", "lbx-snapshots"]), "1");
    place.commit(&[("b.txt", "b\n")]);
    place.put("a.txt", "agent two\n");
    assert_eq!(place.listed(), ["a.txt", "b.txt"]);
    place.fsck();
}

#[test]
fn foreign_commit_on_the_snapshot_branch_becomes_an_ancestor() {
    let place = Place::with(&[("a.txt", "one\n")]);
    place.put("a.txt", "agent\n");
    let tree = place.git(&["rev-parse", "lbx-snapshots^{tree}"]);
    let squashed = place.git(&["commit-tree", &tree, "-m", "squashed by hand", "-p", "HEAD"]);
    place.git(&["update-ref", "refs/heads/lbx-snapshots", &squashed]);
    place.put("a.txt", "agent two\n");
    assert!(place.try_git(&["merge-base", "--is-ancestor", &squashed, "lbx-snapshots"]).status.success());
    assert_eq!(place.shown("a.txt"), "agent two");
    place.fsck();
}
