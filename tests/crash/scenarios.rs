//! A change of each kind, and the workspace in which it is made.

use crate::common::Workspace;

/// One kind of change.
pub struct Scenario {
    /// Name, for messages.
    pub name: &'static str,
    /// Workspace with everything read and deleted that the change needs.
    pub before: Workspace,
    /// Arguments of the change.
    pub call: Vec<String>,
    /// Arguments of the call that undoes it.
    pub back: &'static [&'static str],
}

impl Scenario {
    /// Returns the arguments of the change.
    pub fn arguments(&self) -> Vec<&str> {
        self.call.iter().map(String::as_str).collect()
    }
}

/// Files of every workspace.
const FILES: &[(&str, &str)] = &[
    ("a.txt", "one\ntwo\nthree\n"),
    ("b.txt", "b\n"),
    ("d/c.txt", "c\n"),
    ("d/e/f.txt", "f\n"),
    ("other.txt", "other\n"),
];

/// A patch of several files: one changed, one created in a new folder, one deleted.
const PATCH: &str = "\
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
--- /dev/null
+++ b/new/folder/g.txt
@@ -0,0 +1 @@
+g
--- a/d/c.txt
+++ /dev/null
@@ -1 +0,0 @@
-c
--- a/b.txt
+++ b/b.txt
@@ -1 +1,2 @@
 b
+bb
";

/// Creates a workspace in which all files are read and one change is made, so that the state exists.
fn workspace() -> Workspace {
    ready(Workspace::with(FILES))
}

/// Reads all files of a workspace and makes one change.
fn ready(ws: Workspace) -> Workspace {
    ws.chmod("a.txt", 0o640);
    ws.link("b.txt", "d/link");
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-q", "-m", "second"]);
    for path in ["a.txt", "b.txt", "d/c.txt"] {
        ws.lbx(&["read", path]).ok();
    }
    ws.lbx(&["append", "other.txt", "--content", "first\n", "--session", "other"]).ok();
    ws
}

/// Creates a scenario from a workspace and a call.
fn scenario(name: &'static str, before: Workspace, call: &[&str], back: &'static [&'static str]) -> Scenario {
    Scenario { name, before, call: call.iter().map(|word| (*word).to_owned()).collect(), back }
}

/// Creates a workspace whose policy writes `a.txt` in place.
fn in_place() -> Workspace {
    ready(Workspace::with(&[FILES, &[(".lbx/config.toml", "write.in_place = [\"a.txt\"]\n")]].concat()))
}

/// Creates the same workspace with a change that an undo truncates.
fn in_place_edited() -> Workspace {
    let ws = in_place();
    ws.lbx(&["append", "a.txt", "--content", "four\n"]).ok();
    ws
}

/// Creates a workspace with swapped and changed folders, a file in place of a folder, and a folder in place of a file.
fn mixed() -> Workspace {
    let ws = workspace();
    for call in [
        &["move", "d", "t"][..],
        &["write", "d", "--content", "no folder\n"],
        &["move", "t/e", "e"],
        &["append", "e/f.txt", "--content", "ff\n"],
        &["move", "a.txt", "old.txt"],
        &["write", "a.txt", "--content", "another\n"],
        &["delete", "b.txt"],
        &["write", "b.txt/deep/h.txt", "--content", "h\n"],
    ] {
        ws.lbx(call).ok();
    }
    ws
}

/// Returns a change with enough files for one backup file, one pack of objects, and a second thread.
pub fn many_files_scenario() -> Scenario {
    let names: Vec<String> = (0..70).map(|number| format!("m{}/f{number}", number % 40)).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    let ws = Workspace::with(&[FILES, &files].concat());
    ws.lbx(&["append", "other.txt", "--content", "first\n", "--session", "other"]).ok();
    ws.lbx(&["read", "--json", &serde_json::json!({"paths": names}).to_string()]).ok();
    let edit = serde_json::json!({"paths": names, "old_string": "/f", "new_string": "/new f"});
    scenario("edit many files", ws, &["edit", "--json", &edit.to_string()], &["undo"])
}

/// Returns all scenarios, or those whose names contain the words of `LBX_CRASH_ONLY`.
pub fn all() -> Vec<Scenario> {
    let deleted = workspace();
    deleted.lbx(&["delete", "d", "--recursive"]).ok();
    let file_deleted = workspace();
    file_deleted.lbx(&["delete", "b.txt"]).ok();
    let patched = workspace();
    patched.lbx(&["patch", "--patch", PATCH]).ok();
    let moved = workspace();
    moved.lbx(&["move", "d", "x/y"]).ok();
    let untouched = Workspace::with(FILES);
    let undo = &["undo"];
    let all = vec![
        scenario("first write", untouched, &["write", "n/new.txt", "--content", "new\n"], undo),
        scenario("write a new file", workspace(), &["write", "n/m/new.txt", "--content", "new\n"], undo),
        scenario("write over a file", workspace(), &["write", "a.txt", "--content", "new\n"], undo),
        scenario("edit", workspace(), &["edit", "a.txt", "--old-string", "two", "--new-string", "2"], undo),
        scenario(
            "edit in place",
            in_place(),
            &["edit", "a.txt", "--old-string", "two", "--new-string", "2222"],
            undo,
        ),
        scenario("undo in place", in_place_edited(), &["undo"], &["redo"]),
        scenario("append", workspace(), &["append", "a.txt", "--content", "four\n"], undo),
        scenario("patch", workspace(), &["patch", "--patch", PATCH], undo),
        scenario("delete a file", workspace(), &["delete", "b.txt"], undo),
        scenario("delete a folder", workspace(), &["delete", "d", "--recursive"], undo),
        scenario("restore a folder", deleted, &["restore", "--path", "d"], undo),
        scenario("move a folder", workspace(), &["move", "d", "x/y"], undo),
        scenario("undo a patch", patched, &["undo"], &["redo"]),
        scenario("undo a deletion", file_deleted, &["undo"], &["redo"]),
        scenario("undo a move", moved, &["undo"], &["redo"]),
        scenario("undo a mix", mixed(), &["undo", "--steps", "8"], &["redo", "--steps", "8"]),
    ];
    let only = std::env::var("LBX_CRASH_ONLY").unwrap_or_default();
    all.into_iter().filter(|scenario| scenario.name.contains(&only)).collect()
}
