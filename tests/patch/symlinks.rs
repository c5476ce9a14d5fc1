//! Patches that create, change, delete and rename symlinks give the same tree as git, and undo and redo work on them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{Workspace, in_parallel};

/// One step in the work tree.
enum Step {
    /// A file with a text.
    File(&'static str, &'static str),
    /// A symlink with its target.
    Link(&'static str, &'static str),
    /// A removed path.
    Gone(&'static str),
}

use Step::{File, Gone, Link};

/// Applies `steps` in `root`.
fn make(root: &Path, steps: &[Step]) {
    for step in steps {
        let (File(path, _) | Link(path, _) | Gone(path)) = step;
        let path = root.join(path);
        if path.symlink_metadata().is_ok_and(|there| there.is_dir()) {
            fs::remove_dir_all(&path).unwrap();
        } else {
            drop(fs::remove_file(&path));
        }
        match step {
            File(_, text) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Link(_, target) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                symlink(target, path).unwrap();
            }
            Gone(_) => {}
        }
    }
}

/// Returns the tree of git's index after everything was added.
fn tree(ws: &Workspace) -> String {
    ws.git(&["add", "-A"]);
    ws.git(&["write-tree"])
}

#[test]
fn git_symlink_patches_apply_undo_and_reverse() {
    let cases: &[(&str, &[Step], &[Step])] = &[
        ("created", &[File("a", "x\n")], &[Link("l", "a")]),
        ("created in a new folder", &[File("a", "x\n")], &[Link("d/e/l", "../../a")]),
        ("dangling", &[File("a", "x\n")], &[Link("l", "no/such")]),
        ("changed", &[File("a", "x\n"), Link("l", "a")], &[Link("l", "b")]),
        ("deleted", &[File("a", "x\n"), Link("l", "a")], &[Gone("l")]),
        ("renamed", &[File("a", "x\n"), Link("l", "a")], &[Gone("l"), Link("m", "a")]),
        (
            "renamed and changed",
            &[Link("l", "some/long/target/a")],
            &[Gone("l"), Link("m", "some/long/target/b")],
        ),
        ("copied", &[File("a", "x\n"), Link("l", "a")], &[Link("m", "a"), Link("l", "b")]),
        ("file to symlink", &[File("a", "x\n"), File("l", "text\n")], &[Link("l", "a")]),
        ("symlink to file", &[File("a", "x\n"), Link("l", "a")], &[File("l", "text\n")]),
        ("symlink to folder", &[File("s/a", "x\n"), Link("d", "s")], &[Gone("d"), File("d/a", "y\n")]),
        (
            "folder to symlink",
            &[File("s/a", "x\n"), File("d/e/f", "y\n"), File("d/g", "")],
            &[Link("d", "s")],
        ),
        ("folder to file", &[File("d/e/f", "y\n"), File("d/g", "z\n")], &[File("d", "now a file\n")]),
        ("file to folder", &[File("d", "y\n")], &[Gone("d"), File("d/e/f", "z\n"), File("d/g", "")]),
        (
            "symlink and its file at once",
            &[File("a", "x\n"), Link("l", "a")],
            &[File("a", "y\n"), Link("l", "./a")],
        ),
        ("symlink to a folder inside", &[File("s/a", "x\n")], &[Link("t", "s"), Link("u", "t/a")]),
        ("symlinks that lead in a ring", &[File("a", "x\n")], &[Link("l", "m"), Link("m", "l")]),
        (
            "swapped",
            &[File("a", "x\n"), Link("l", "a"), File("m", "text\n")],
            &[File("l", "text\n"), Link("m", "a")],
        ),
    ];
    in_parallel(cases, |(name, before, after)| {
        let ws = Workspace::with(&[]);
        make(&ws.root, before);
        let old = tree(&ws);
        ws.git(&["commit", "-qm", "before"]);
        make(&ws.root, after);
        let new = tree(&ws);
        let patch = ws.git(&["diff", "--cached", "--full-index", "-M", "-C", "--binary", "HEAD"]) + "\n";
        ws.git(&["reset", "-q", "--hard", "HEAD"]);
        // Symlinks need not have been read; the files do.
        for step in *before {
            if let File(path, _) = step {
                ws.lbx(&["read", path]).ok();
            }
        }
        let first = ws.tree();
        let preview = ws.unchanged(|| ws.lbx_stdin(&["patch", "--dry-run"], &patch).ok());
        let done = ws.lbx_stdin(&["patch"], &patch).ok();
        assert_eq!(preview["files"][0]["action"], done["files"][0]["action"], "{name}");
        assert_eq!(tree(&ws), new, "{name}: {patch}");
        let second = ws.tree();
        assert_eq!(ws.git(&["rev-parse", "lbx-snapshots^{tree}"]), new, "{name}: the snapshot");
        let again = ws.unchanged(|| ws.lbx_stdin(&["patch"], &patch).ok());
        for file in again["files"].as_array().unwrap() {
            assert_eq!(file["action"], "already_applied", "{name}: {again:#}");
        }
        ws.lbx(&["undo"]).ok();
        assert_eq!(ws.tree(), first, "{name}: undone");
        ws.lbx(&["redo"]).ok();
        assert_eq!(ws.tree(), second, "{name}: redone");
        if !patch.contains("\ncopy from") {
            for (path, (kind, ..)) in ws.tree() {
                if kind == 'f' {
                    ws.lbx(&["read", path.to_str().unwrap()]).ok();
                }
            }
            ws.lbx_stdin(&["patch", "--reverse"], &patch).ok();
            assert_eq!(tree(&ws), old, "{name}: reversed");
        }
    });
}

/// Returns a patch that creates a symlink.
fn makes(path: &str, target: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 120000\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"
    )
}

#[test]
fn symlink_out_of_the_workspace_is_rejected() {
    let ws = Workspace::with(&[("a.txt", "x\n"), ("sub/b.txt", "y\n")]);
    ws.write("../secret", "secret\n");
    ws.link("sub", "down");
    ws.unchanged(|| {
        for patch in [
            makes("l", "/etc/passwd"),
            makes("l", ".."),
            makes("l", "../secret"),
            makes("sub/l", "../../secret"),
            makes("l", "sub/../../secret"),
            makes("l", "none/../../secret"),
            makes("l", "down/../../secret"),
            // Inside by its text only: the first symlink leads up.
            makes("p/q/up", "../..") + &makes("z", "p/q/up/../secret"),
            makes("z", "p/q/up/../secret") + &makes("p/q/up", "../.."),
            // Changed so that it leads out.
            "diff --git a/down b/down\nindex 1..2 120000\n--- a/down\n+++ b/down\n@@ -1 +1 @@\n-sub\n\\ No newline at end of file\n+../x\n\\ No newline at end of file\n".to_owned(),
            // Moved so that it leads out.
            makes("d/e/l", "../../a.txt") + "diff --git a/down b/x/down\nsimilarity index 100%\nrename from down\nrename to x/down\n" + &makes("m", "../secret"),
        ] {
            let error = ws.lbx_stdin(&["patch"], &patch).error("outside_workspace");
            assert!(error["message"].as_str().unwrap().contains("symlink"), "{patch}: {error:#}");
        }
        ws.lbx_stdin(&["patch"], makes(".git/hooks/x", "a")).error("protected_path");
        ws.lbx_stdin(&["patch"], makes("l", "a.txt") + &makes("l/x", "a.txt")).error("not_a_directory");
        // Through a symlink that the same patch creates.
        let through = makes("s", "sub") + "diff --git a/s/n b/s/n\nnew file mode 100644\n--- /dev/null\n+++ b/s/n\n@@ -0,0 +1 @@\n+x\n";
        ws.lbx_stdin(&["patch"], through).error("not_a_directory");
        ws.lbx_stdin(&["patch"], makes("l", "")).error("patch_invalid");
        let submodule = "diff --git a/s b/s\nnew file mode 160000\nindex 0000000..1111111\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit 1111111111111111111111111111111111111111\n";
        let error = ws.lbx_stdin(&["patch"], submodule).error("patch_invalid");
        assert!(error["message"].as_str().unwrap().contains("submodule"), "{error:#}");
    });
}

#[test]
fn patch_does_not_confuse_symlinks_and_files() {
    let ws = Workspace::with(&[("a.txt", "x\n")]);
    ws.link("a.txt", "l");
    ws.lbx(&["read", "a.txt"]).ok();
    let delete = "--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
    let retarget =
        "diff --git a/a.txt b/a.txt\nindex 1..2 120000\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-x\n+y\n";
    let typed = "diff --git a/l b/l\nold mode 120000\nnew mode 100644\n";
    ws.unchanged(|| {
        ws.lbx_stdin(&["patch"], delete).error("patch_conflict");
        ws.lbx_stdin(&["patch"], retarget).error("patch_conflict");
        ws.lbx_stdin(&["patch"], typed).error("patch_invalid");
    });
    // A change of the text follows the symlink, which stays.
    ws.lbx_stdin(&["patch"], "--- a/l\n+++ b/l\n@@ -1 +1 @@\n-x\n+y\n").ok();
    ws.holds("a.txt", "y\n");
    assert_eq!(fs::read_link(ws.path("l")).unwrap(), Path::new("a.txt"));
    // An envelope that deletes it deletes only the symlink.
    ws.lbx_stdin(&["patch"], "*** Begin Patch\n*** Delete File: l\n*** End Patch\n").ok();
    assert!(ws.path("l").symlink_metadata().is_err());
    ws.holds("a.txt", "y\n");
}

#[test]
fn git_patch_removes_emptied_directories_and_undo_restores_them() {
    let ws = Workspace::with(&[("d/e/f.txt", "x\n"), ("d/other.txt", "y\n"), ("g/h/i.txt", "z\n")]);
    fs::create_dir(ws.path("g/empty")).unwrap();
    for path in ["d/e/f.txt", "g/h/i.txt"] {
        ws.lbx(&["read", path]).ok();
    }
    let first = ws.tree();
    let delete = |path: &str, text: &str| {
        format!(
            "diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{text}\n"
        )
    };
    ws.lbx_stdin(&["patch"], delete("d/e/f.txt", "x") + &delete("g/h/i.txt", "z")).ok();
    assert!(!ws.path("d/e").exists() && !ws.path("g/h").exists());
    // A folder with another file in it stays, and so does an empty one that the patch does not mention.
    assert!(ws.path("d/other.txt").exists() && ws.path("g/empty").exists());
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.tree(), first);
}
