//! Commands on a layer: changes that are applied when they end, and changes that are saved aside.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::process::Child;

use serde_json::{Value, json};

use crate::common::{Call, Workspace, skipped, state};
use crate::confined::with_cargo;
use crate::support::{first_backend, with};
use crate::transactions::{Step, has_overlays};

/// A folder that both the command and the test write.
struct Meeting {
    /// Setting that lets the command write it.
    setting: String,
    /// Path of the folder.
    folder: std::path::PathBuf,
}

impl Meeting {
    /// Creates it outside the workspace.
    fn new(ws: &Workspace) -> Self {
        let folder = ws.outside.join("meeting");
        std::fs::create_dir(&folder).unwrap();
        Self { setting: format!("bash.writable={}", folder.display()), folder }
    }

    /// Starts a command, and waits until it waits for the test.
    fn start(&self, ws: &Workspace, options: &[&str], command: &str) -> Child {
        self.start_by(|arguments| Some(ws.call(arguments)), options, command).unwrap()
    }

    /// Starts a command by this call, as [`Self::start`] does.
    fn start_by(
        &self,
        call: impl FnOnce(&[&str]) -> Option<Call>,
        options: &[&str],
        command: &str,
    ) -> Option<Child> {
        let place = self.folder.display();
        let command =
            format!("{command}; touch {place}/started; while [ ! -e {place}/go ]; do sleep 0.02; done");
        let call = call(&[&["bash", "--set", &self.setting], options, &[&command]].concat())?.spawn();
        while !self.folder.join("started").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Some(call)
    }

    /// Lets the command end; returns its response.
    fn end(&self, call: Child) -> Value {
        std::fs::write(self.folder.join("go"), "").unwrap();
        serde_json::from_slice(&call.wait_with_output().unwrap().stdout).unwrap()
    }
}

#[test]
fn redo_handles_a_directory_restored_from_the_trash() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("d/y", "y\n"), (".gitignore", "d/\n")]);
    let first = ws.tree();
    with(&ws, "auto", &json!({ "command": "mkdir d/new; echo x > d/new/x" })).success();
    with(&ws, "auto", &json!({ "command": "rm -r d" })).success();
    ws.lbx(&["undo", "--steps", "2"]).success();
    assert_eq!(ws.tree(), first);
    ws.lbx(&["redo", "--steps", "2"]).success();
    assert!(!ws.path("d").exists());
    ws.lbx(&["undo"]).success();
    ws.holds("d/new/x", "x\n");
}

#[test]
fn clean_merge_keeps_both_changes() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "1\n2\n3\n4\n5\n")]);
    let meeting = Meeting::new(&ws);
    let call = meeting.start(&ws, &[], "sed -i s/5/five/ a.txt");
    ws.write("a.txt", "one\n2\n3\n4\n5\n");
    let answer = meeting.end(call);
    assert!(answer["data"]["conflicts"].is_null(), "{answer:#}");
    ws.holds("a.txt", "one\n2\n3\n4\nfive\n");
    ws.lbx(&["undo"]).success();
    ws.holds("a.txt", "one\n2\n3\n4\n5\n");
}

#[test]
fn clean_merge_keeps_the_mode_that_either_has_set() {
    if !has_overlays() {
        return;
    }
    let edit = |ws: &Workspace| ws.write("a.txt", "one\n2\n3\n4\n5\n");
    let chmod = |ws: &Workspace, mode| {
        std::fs::set_permissions(ws.path("a.txt"), PermissionsExt::from_mode(mode)).unwrap();
    };
    let cases: [(Step<'_>, &str, u32); 4] = [
        (("sed -i s/5/five/ a.txt", &|ws| chmod(ws, 0o755)), "1\n2\n3\n4\nfive\n", 0o755),
        (("sed -i s/5/five/ a.txt; chmod 755 a.txt", &edit), "one\n2\n3\n4\nfive\n", 0o755),
        (("chmod 755 a.txt", &edit), "one\n2\n3\n4\n5\n", 0o755),
        // No snapshot knows these bits: it stays as others left it.
        (("sed -i s/5/five/ a.txt", &|ws| chmod(ws, 0o600)), "1\n2\n3\n4\n5\n", 0o600),
    ];
    for ((command, others), text, mode) in cases {
        let ws = Workspace::with(&[("a.txt", "1\n2\n3\n4\n5\n")]);
        chmod(&ws, 0o644);
        let meeting = Meeting::new(&ws);
        let call = meeting.start(&ws, &[], command);
        others(&ws);
        let answer = meeting.end(call);
        assert_eq!(answer["data"].get("conflicts").is_some(), mode == 0o600, "{command}: {answer:#}");
        ws.holds("a.txt", text);
        assert_eq!(
            std::fs::metadata(ws.path("a.txt")).unwrap().mode() & 0o777,
            mode,
            "{command}: {answer:#}"
        );
    }
}

#[test]
fn apply_keeps_what_others_wrote_to_a_large_ignored_file() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[(".gitignore", "*.log\n"), ("a.log", "0123456789\n")]);
    let limit = ["--set", "bash.ignored_file_bytes=4"];
    let meeting = Meeting::new(&ws);
    let call = meeting.start(&ws, &limit, "echo mine > a.log");
    ws.write("a.log", "theirs\n");
    let layer = meeting.end(call)["data"]["layer"].as_str().unwrap().to_owned();
    ws.write("a.log", "theirs, later\n");
    ws.lbx(&["bash", "--layer", &layer]).ok();
    ws.lbx(&[&["bash", "--layer", &layer, "--apply"], &limit[..]].concat()).success();
    ws.holds("a.log", "mine\n");
    ws.lbx(&["undo"]).success();
    ws.holds("a.log", "theirs, later\n");
}

#[test]
fn changes_of_others_merge_into_a_read_only_file() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "1\n2\n3\n4\n5\n")]);
    let chmod = |mode| std::fs::set_permissions(ws.path("a.txt"), PermissionsExt::from_mode(mode)).unwrap();
    chmod(0o444);
    let meeting = Meeting::new(&ws);
    let start = |arguments: &[&str]| ws.call_unprivileged(arguments);
    let Some(call) = meeting.start_by(start, &[], "sed -i s/5/five/ a.txt") else { return };
    chmod(0o644);
    ws.write("a.txt", "one\n2\n3\n4\n5\n");
    chmod(0o444);
    let answer = meeting.end(call);
    assert!(answer["data"].get("conflicts").is_none(), "{answer:#}");
    ws.holds("a.txt", "one\n2\n3\n4\nfive\n");
    assert_eq!(ws.mode("a.txt") & 0o777, 0o444);
}

#[test]
fn undo_of_a_replaced_read_only_file_needs_no_trash() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    ["a.txt", "b.txt"].iter().for_each(|file| ws.chmod(file, 0o444));
    let before = ws.tree();
    let command = "sed -i s/one/1/ a.txt; rm -f b.txt";
    let Some(call) = ws.call_unprivileged(&["bash", command]) else { return };
    call.run().success();
    ws.holds("a.txt", "1\n");
    ws.lbx(&["trash", "purge"]).ok();
    ws.call_unprivileged(&["undo"]).unwrap().run().success();
    assert_eq!(ws.tree(), before);
}

#[test]
fn folder_keeps_the_mode_that_others_gave_it() {
    if !has_overlays() {
        return;
    }
    for flags in [&[][..], &["--transaction"]] {
        let ws = Workspace::with(&[("d/a.txt", "a\n")]);
        let meeting = Meeting::new(&ws);
        let call = meeting.start(&ws, flags, "echo n > d/new.txt");
        std::fs::set_permissions(ws.path("d"), PermissionsExt::from_mode(0o700)).unwrap();
        let answer = meeting.end(call);
        assert_eq!(answer["data"]["changed"].as_array().unwrap().len(), 1, "{answer:#}");
        let told = "others changed folders while the command ran, so these keep their modes: d";
        assert_eq!(answer["warnings"], json!([told]), "{answer:#}");
        assert_eq!(std::fs::metadata(ws.path("d")).unwrap().mode() & 0o777, 0o700);
        ws.holds("d/new.txt", "n\n");
    }
}

#[test]
fn conflicts_stay_in_the_layer_and_other_changes_apply() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "1\n"), ("gone.txt", "g\n"), ("b.txt", "b\n")]);
    let meeting = Meeting::new(&ws);
    let call = meeting.start(&ws, &[], "echo mine > a.txt; rm gone.txt; echo B > b.txt; echo n > new.txt");
    ws.write("a.txt", "theirs\n");
    ws.write("gone.txt", "theirs\n");
    let answer = meeting.end(call);
    let conflicts: Vec<&str> = answer["data"]["conflicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|conflict| conflict["path"].as_str().unwrap())
        .collect();
    assert_eq!(conflicts, ["a.txt", "gone.txt"], "{answer:#}");
    ws.holds("a.txt", "theirs\n");
    ws.holds("gone.txt", "theirs\n");
    ws.holds("b.txt", "B\n");
    ws.holds("new.txt", "n\n");
    let layer = answer["data"]["layer"].as_str().unwrap();
    let told = format!(
        "not applied: a.txt, gone.txt. The reasons are in `conflicts`. `layer` {layer} keeps the command's versions: it shows them, with `apply` it applies them, with `drop` it deletes them"
    );
    assert_eq!(answer["warnings"], json!([told]), "{answer:#}");
    for (way, field) in [("--apply", "applied"), ("--drop", "dropped")] {
        let answer = ws.unchanged(|| ws.lbx(&["bash", "--layer", layer, way, "--dry-run"]).success());
        assert_eq!((&answer["data"][field], &answer["dry_run"]), (&json!(true), &json!(true)), "{answer:#}");
    }
    let shown = ws.lbx(&["bash", "--layer", layer]).ok();
    assert!(shown["diff"].as_str().unwrap().contains("-theirs\n+mine\n"), "{shown:#}");
    ws.lbx(&["bash", "--layer", layer, "--apply"]).success();
    ws.holds("a.txt", "mine\n");
    assert!(!ws.path("gone.txt").exists());
    ws.lbx(&["undo"]).success();
    ws.holds("a.txt", "theirs\n");
    ws.lbx(&["bash", "--layer", layer, "--drop"]).error("not_found");
}

#[test]
fn apply_over_bytes_that_the_layer_was_not_shown_with_is_stale() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    let meeting = Meeting::new(&ws);
    let call = meeting.start(&ws, &[], "echo mine > a.txt; echo mine > b.txt");
    ws.write("a.txt", "theirs\n");
    ws.write("b.txt", "theirs\n");
    let layer = meeting.end(call)["data"]["layer"].as_str().unwrap().to_owned();
    let apply = || ws.lbx(&["bash", "--layer", &layer, "--apply"]);
    for is_shown in [false, true] {
        ws.write("b.txt", format!("theirs, later: {is_shown}\n"));
        let error = ws.unchanged(|| apply().error("stale_file"));
        assert_eq!(error["message"], "b.txt has changed since the layer was shown; nothing was applied");
        assert_eq!(error["details"]["layer"], layer, "{error}");
        let action = format!(
            "`bash` with `layer` {layer} shows how it differs now. Then `apply` or `drop` the layer."
        );
        assert_eq!(error["suggested_action"], action);
        // A dry run shows it, but counts for nothing.
        ws.lbx(&["bash", "--layer", &layer, "--apply", "--dry-run"]).success();
        apply().error("stale_file");
        let shown = ws.lbx(&["bash", "--layer", &layer]).ok();
        assert!(shown["diff"].as_str().unwrap().contains("-theirs, later"), "{shown:#}");
    }
    apply().success();
    ws.holds("b.txt", "mine\n");
    ws.lbx(&["undo"]).success();
    ws.holds("b.txt", "theirs, later: true\n");
}

#[test]
fn folders_that_others_swapped_are_conflicts() {
    if !has_overlays() {
        return;
    }
    let folders = ["build", "d", "gone", "same", "tree"];
    let swap = |ws: &Workspace| {
        for folder in folders {
            std::fs::rename(ws.path(folder), ws.path(&format!("{folder}.old"))).unwrap();
            std::fs::rename(ws.path(&format!("{folder}.new")), ws.path(folder)).unwrap();
        }
        ws.write("own/theirs.txt", "t\n");
        ws.write("theirs.txt", "t\n");
    };
    let paths = folders.map(|folder| [format!("{folder}/s/f"), format!("{folder}.new/s/f")]);
    let mut files: Vec<(&str, &str)> = vec![(".gitignore", "build*/\n"), ("own/f", "old\n")];
    for [old, new] in &paths {
        let theirs = if new.starts_with("same") { "old\n" } else { "theirs\n" };
        files.extend([(old.as_str(), "old\n"), (new.as_str(), theirs)]);
    }
    let command =
        "for f in build d same; do echo mine >> $f/s/f; done; echo mine > own/f; rm gone/s/f; rm -r tree/s";
    let ws = Workspace::with(&files);
    ws.lbx(&["write", "own/more.txt", "--content", "more\n"]).success();
    let meeting = Meeting::new(&ws);
    let limit = ["--set", "bash.ignored_file_bytes=4"];
    let call = meeting.start(&ws, &limit, command);
    swap(&ws);
    let answer = meeting.end(call);
    let conflicts = answer["data"]["conflicts"].as_array().unwrap();
    let conflicts: Vec<_> = conflicts.iter().map(|conflict| conflict["path"].as_str().unwrap()).collect();
    assert_eq!(conflicts, ["build/s/f", "d/s/f", "gone/s/f", "tree/s"], "{answer:#}");
    for [path, _] in &paths {
        ws.holds(path, if path.starts_with("same") { "old\nmine\n" } else { "theirs\n" });
    }
    ws.holds("own/f", "mine\n");
    // A swap after the layer was shown is one as well.
    let layer = answer["data"]["layer"].as_str().unwrap();
    ws.write("d.old/s/f", "later\n");
    ws.lbx(&["bash", "--layer", layer]).ok();
    std::fs::rename(ws.path("d"), ws.path("d.shown")).unwrap();
    std::fs::rename(ws.path("d.old"), ws.path("d")).unwrap();
    ws.unchanged(|| ws.lbx(&["bash", "--layer", layer, "--apply"]).error("stale_file"));
    ws.lbx(&["bash", "--layer", layer]).ok();
    ws.lbx(&["bash", "--layer", layer, "--apply"]).success();
    ws.holds("d/s/f", "old\nmine\n");

    let ws = Workspace::with(&files);
    let meeting = Meeting::new(&ws);
    let call = meeting.start(&ws, &["--transaction"], command);
    swap(&ws);
    let answer = meeting.end(call);
    assert_eq!(answer["error"]["kind"], "stale_file", "{answer:#}");
    ws.holds("build/s/f", "theirs\n");
}

#[test]
fn apply_of_a_kept_layer_settles_no_mode_again() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("d/a.txt", "a\n"), ("d/b.txt", "b\n")]);
    ws.chmod("d/a.txt", 0o644);
    let meeting = Meeting::new(&ws);
    let call = meeting.start(&ws, &[], "chmod 750 .; echo mine > d/a.txt; echo mine > d/b.txt");
    ws.write("d/a.txt", "theirs\n");
    ws.chmod("d/a.txt", 0o600);
    ws.chmod("d", 0o700);
    let layer = meeting.end(call)["data"]["layer"].as_str().unwrap().to_owned();
    assert_eq!([ws.mode(""), ws.mode("d")], [0o750, 0o700]);
    ws.chmod("", 0o711);
    let shown = ws.lbx(&["bash", "--layer", &layer]).ok();
    assert_eq!(shown["changed"].as_array().unwrap().len(), 1, "{shown:#}");
    assert!(
        shown["diff"].as_str().unwrap().starts_with("old mode 100600\nnew mode 100644\n---"),
        "{shown:#}"
    );
    ws.lbx(&["bash", "--layer", &layer, "--apply"]).success();
    assert_eq!([ws.mode(""), ws.mode("d")], [0o711, 0o700]);
    ws.holds("d/a.txt", "mine\n");
}

#[test]
fn layer_is_shown_only_with_its_whole_diff() {
    if !has_overlays() {
        return;
    }
    let lines = |word: &str| (0..9000).map(|number| format!("{word} {number}\n")).collect::<String>();
    let ws = Workspace::with(&[("a.txt", &lines("old")), ("z.txt", "one\n")]);
    let meeting = Meeting::new(&ws);
    let call = meeting.start(&ws, &[], "sed -i s/old/mine/ a.txt; echo mine > z.txt");
    ws.write("a.txt", lines("theirs"));
    ws.write("z.txt", "theirs\n");
    let layer = meeting.end(call)["data"]["layer"].as_str().unwrap().to_owned();
    ws.write("z.txt", "theirs, later\n");
    let show = |bytes: &str| ws.lbx(&["bash", "--layer", &layer, "--max-bytes", bytes]);
    let apply = || ws.lbx(&["bash", "--layer", &layer, "--apply"]);
    show("20000").warned("A larger `max_bytes` shows more");
    ws.unchanged(|| apply().error("stale_file"));
    let shown = show("2000000").success();
    assert_eq!(shown["warnings"], json!(null));
    apply().success();
    ws.holds("z.txt", "mine\n");
}

#[test]
fn kept_layer_that_cannot_be_written_is_shown() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let meeting = Meeting::new(&ws);
    let start = |arguments: &[&str]| ws.call_unprivileged(arguments);
    let Some(call) = meeting.start_by(start, &[], "echo mine > a.txt") else { return };
    ws.write("a.txt", "theirs\n");
    let answer = meeting.end(call);
    let layer = answer["data"]["layer"].as_str().unwrap_or_else(|| panic!("{answer:#}"));
    let folder = format!("{}/{layer}", state("layers"));
    ws.chmod(&folder, 0o555);
    let answer = ws.call_unprivileged(&["bash", "--layer", layer]).unwrap().run();
    let answer =
        answer.warned("cannot note that the layer was shown, so `apply` refuses files that others changed");
    assert!(answer["diff"].as_str().unwrap().contains("+mine\n"), "{answer:#}");
    ws.chmod(&folder, 0o700);
}

#[test]
fn dropped_layer_has_no_paths_that_were_not_applied() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[]);
    let answer = with(&ws, "auto", &json!({ "command": "git init -q sub" })).success();
    let layer = answer["data"]["layer"].as_str().unwrap();
    let dropped = ws.lbx(&["bash", "--layer", layer, "--drop"]).ok();
    assert_eq!((&dropped["dropped"], &dropped["conflicts"]), (&json!(true), &json!(null)), "{dropped:#}");
    let error = ws.lbx(&["bash", "--drop", "true"]).error("invalid_request");
    assert_eq!(error["message"], "`drop` needs `layer`: the layer that is meant (none is kept)");
}

#[test]
fn removed_folder_lists_its_empty_folders_on_a_layer_too() {
    if !has_overlays() {
        return;
    }
    for direct in [false, true] {
        let ws = Workspace::with(&[("d/a.txt", "a\n")]);
        std::fs::create_dir_all(ws.path("d/e/f")).unwrap();
        std::fs::create_dir_all(ws.path("g")).unwrap();
        let request = json!({ "command": "rm -r d g; echo > g", "direct": direct });
        let answer = with(&ws, "auto", &request).success();
        let changed = json!([
            { "path": "d/a.txt", "action": "delete" },
            { "path": "d/e/f", "action": "delete" },
            { "path": "g", "action": "modify", "sha256": crate::common::sha256(b"\n") },
        ]);
        assert_eq!(answer["data"]["changed"], changed, "{direct} {answer:#}");
    }
}

#[test]
fn new_folders_keep_the_modes_that_close_them() {
    if !has_overlays() {
        return;
    }
    let folders = [
        ("new", 0o555),
        ("target/empty", 0o555),
        ("target/ro", 0o555),
        ("target/s", 0o511),
        ("target/s/t", 0o500),
        ("target/open/ro", 0o555),
    ];
    for user in ["root", "other"] {
        let ws = Workspace::with(&[(".gitignore", "target/\n"), ("target/old", "old\n")]);
        let first = ws.tree();
        let command = "mkdir -m 555 new target/empty; mkdir -p target/ro target/s/t; echo x > target/ro/x; \
            echo y > target/s/t/y; chmod 500 target/s/t; chmod 511 target/s; chmod 555 target/ro; \
            mkdir -p target/open/ro; echo z > target/open/ro/z; chmod 555 target/open/ro";
        let call = |arguments: &[&str]| match user {
            "root" => Some(ws.call(arguments)),
            _ => ws.call_unprivileged(arguments),
        };
        let Some(bash) = call(&["bash", command]) else { return };
        let answer = bash.run().success();
        for (folder, mode) in folders {
            assert_eq!(ws.mode(folder), mode, "{folder} {answer:#}");
        }
        let last = ws.tree();
        call(&["undo"]).unwrap().run().success();
        ws.lbx(&["bash", "rmdir target/empty"]).success();
        assert_eq!(ws.tree(), first, "{user}");
        call(&["redo"]).unwrap().run().success();
        ws.lbx(&["bash", "mkdir -m 555 target/empty"]).success();
        assert_eq!(ws.tree(), last, "{user}");
        // Lets the user who runs this remove it.
        folders.iter().for_each(|(folder, _)| ws.chmod(folder, 0o755));
    }
}

#[test]
fn repository_created_by_a_command_stays_in_the_layer() {
    if !has_overlays() {
        return;
    }
    for command in ["git init -q sub; echo x > sub/f", "git init -q --bare sub/bare; echo x > sub/f"] {
        let ws = Workspace::with(&[("sub/a.txt", "a\n")]);
        let answer = with(&ws, "auto", &json!({ "command": command })).success();
        assert!(!answer["data"]["conflicts"].as_array().unwrap().is_empty(), "{answer:#}");
        assert!(!ws.path("sub/.git").exists() && !ws.path("sub/bare/HEAD").exists(), "{command}");
        ws.holds("sub/f", "x\n");
        let layer = answer["data"]["layer"].as_str().unwrap();
        assert_eq!(ws.lbx(&["bash", "--layer", layer, "--drop"]).ok()["dropped"], true);
        ws.lbx(&["bash", "--layer", layer]).error("not_found");
    }
    // The root without a repository does not become one either.
    let ws = Workspace::bare(&[("a.txt", "a\n")]);
    let command = "mkdir objects refs; echo 'ref: refs/heads/main' > HEAD; echo '[core]' > config";
    let answer = with(&ws, "auto", &json!({ "command": command })).success();
    assert!(!answer["data"]["conflicts"].is_null(), "{answer:#}");
    let parts = ["HEAD", "objects", "refs"].iter().filter(|part| ws.path(part).exists()).count();
    assert!(parts < 3, "{answer:#}");
}

#[test]
fn ignored_files_are_grouped_by_directory_and_undoable() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "a\n"), (".gitignore", "target/\n.env\n")]);
    ws.write(".env", "KEY=1\n");
    ws.write("target/old", "old\n");
    let before = ws.tree();
    let command = "rm .env; for i in 1 2 3; do echo $i > target/$i; done; echo new > target/old";
    let answer = with(&ws, "auto", &json!({ "command": command })).success();
    let changed = json!([
        { "path": ".env", "action": "delete" },
        { "path": "target/", "action": "modify", "files": 4 },
    ]);
    assert_eq!(answer["data"]["changed"], changed, "{answer:#}");
    assert!(answer["snapshot"].is_null() && answer["warnings"].is_null(), "{answer:#}");
    ws.lbx(&["undo"]).success();
    assert_eq!(ws.tree(), before);
    // An empty folder in an ignored one is not a change.
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).success();
    let answer = with(&ws, "auto", &json!({ "command": "mkdir target/tmp" })).success();
    assert_eq!(answer["data"]["changed"], json!([]), "{answer:#}");
    assert!(ws.path("target/tmp").is_dir());
    ws.lbx(&["undo"]).success();
    ws.holds("a.txt", "a\n");
    // With other changes it is.
    let before = ws.tree();
    let command = "rmdir target/tmp; mkdir target/new; echo b > a.txt";
    with(&ws, "auto", &json!({ "command": command })).success();
    ws.lbx(&["undo"]).success();
    assert_eq!(ws.tree(), before);
    ws.lbx(&["redo"]).success();
    assert!(ws.path("target/new").is_dir() && !ws.path("target/tmp").exists());
}

#[test]
fn oversized_ignored_files_are_counted_as_lost() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "a\n"), (".gitignore", "target/\n")]);
    ws.write("target/big", vec![1_u8; 6 << 20]);
    ws.write("target/small", "1\n");
    let command = "head -c 7000000 /dev/zero > target/big; echo 2 > target/small; echo b >> a.txt; touch -d 2001-02-03 target/big";
    let answer = with(&ws, "auto", &json!({ "command": command })).success();
    assert_eq!(
        answer["data"]["changed"][1],
        json!({ "path": "target/", "action": "modify", "files": 2, "lost": 1 })
    );
    assert_eq!(std::fs::metadata(ws.path("target/big")).unwrap().len(), 7_000_000);
    // Nothing of it stays in the state.
    let trash = ws.path(&crate::common::state("trash"));
    let kept = std::fs::read_dir(trash).map_or(0, Iterator::count);
    assert_eq!(kept, 0, "{answer:#}");
    let undone = ws.lbx(&["undo"]).success();
    assert!(undone["warnings"].to_string().contains("no copy exists: target/big"), "{undone:#}");
    ws.holds("target/small", "1\n");
    ws.holds("a.txt", "a\n");
    assert_eq!(std::fs::metadata(ws.path("target/big")).unwrap().len(), 7_000_000);
    ws.lbx(&["redo"]).success();
    ws.holds("target/small", "2\n");
}

/// A sparse file takes no space, and long to read.
#[test]
fn huge_files_of_a_command_are_applied_and_not_hashed() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[]);
    let made = ws
        .lbx(&["bash", "echo small > a; truncate -s 5G b"])
        .warned("not in the snapshot: b (its 5368709120");
    let changed = &made["changed"];
    assert!(changed[0]["sha256"].is_string() && changed[1]["sha256"].is_null(), "{changed}");
    assert_eq!(std::fs::metadata(ws.path("b")).unwrap().len(), 5 << 30);
    ws.lbx(&["undo"]).ok();
    assert!(!ws.path("b").exists());
    ws.lbx(&["redo"]).warned("not in the snapshot: b (its 5368709120");
    assert_eq!(std::fs::metadata(ws.path("b")).unwrap().len(), 5 << 30);
}

#[test]
fn concurrent_layered_sessions_own_exactly_their_files() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let names = ["s1", "s2", "s3", "s4", "s5", "s6"];
    let start = |name: &&'static str| {
        let command =
            format!("mkdir {name}; for i in $(seq 10); do echo {name} > {name}/$i; sleep 0.01; done");
        (*name, ws.call(&["bash", "--session", name, &command]).spawn())
    };
    let calls: Vec<(&str, Child)> = names.iter().map(start).collect();
    for (name, call) in calls {
        let answer: Value = serde_json::from_slice(&call.wait_with_output().unwrap().stdout).unwrap();
        let changed = answer["data"]["changed"].as_array().unwrap();
        assert_eq!(changed.len(), 10, "{name}: {answer:#}");
        assert!(changed.iter().all(|it| it["path"].as_str().unwrap().starts_with(&format!("{name}/"))));
        let files = ws.git(&[
            "diff",
            "--name-only",
            &format!("{0}~", answer["snapshot"].as_str().unwrap()),
            answer["snapshot"].as_str().unwrap(),
        ]);
        assert!(files.lines().all(|path| path.starts_with(&format!("{name}/"))), "{files}");
    }
    ws.lbx(&["undo", "--session", "s3"]).success();
    let left: Vec<bool> = names.iter().map(|name| ws.path(name).exists()).collect();
    assert_eq!(left, [true, true, false, true, true, true]);
}

/// Returns the paths that a response lists as changed.
fn changed(answer: &Value) -> Vec<&str> {
    answer["data"]["changed"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect()
}

/// Checks that the snapshot of a response changes these paths only.
fn snapshot_holds(ws: &Workspace, answer: &Value, paths: &[&str]) {
    let id = answer["snapshot"].as_str().unwrap();
    let files = ws.git(&["diff", "--name-only", &format!("{id}~"), id]);
    assert_eq!(files.lines().collect::<Vec<_>>(), paths, "{answer:#}");
}

#[test]
fn direct_command_during_a_layered_one_is_merged_and_attributed() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "1\n2\n3\n4\n5\n"), ("both.txt", "0\n"), ("gone.txt", "g\n")]);
    let meeting = Meeting::new(&ws);
    let command = "sed -i s/5/five/ a.txt; echo layer > both.txt; echo l > of-layer";
    let call = meeting.start(&ws, &["--session", "layered"], command);
    let direct = "sed -i s/1/one/ a.txt; echo direct > both.txt; rm gone.txt; echo d > of-direct";
    let answer = ws.lbx(&["bash", "--session", "direct", "--direct", direct]).success();
    assert_eq!(changed(&answer), ["a.txt", "both.txt", "gone.txt", "of-direct"], "{answer:#}");
    assert!(answer["warnings"].is_null(), "{answer:#}");
    snapshot_holds(&ws, &answer, &["a.txt", "both.txt", "gone.txt", "of-direct"]);
    let answer = meeting.end(call);
    assert_eq!(changed(&answer), ["a.txt", "of-layer"], "{answer:#}");
    assert_eq!(answer["data"]["conflicts"][0]["path"], "both.txt", "{answer:#}");
    snapshot_holds(&ws, &answer, &["a.txt", "of-layer"]);
    ws.holds("a.txt", "one\n2\n3\n4\nfive\n");
    ws.holds("both.txt", "direct\n");
    let lines = ws.lbx(&["blame", "a.txt"]).success().to_string();
    assert!(lines.contains("layered") && lines.contains("direct"), "{lines}");
    // Each undo takes back its own session's lines.
    ws.lbx(&["undo", "--merge", "--session", "direct"]).success();
    ws.holds("a.txt", "1\n2\n3\n4\nfive\n");
    ws.holds("both.txt", "0\n");
    ws.holds("gone.txt", "g\n");
    ws.holds("of-layer", "l\n");
    assert!(!ws.path("of-direct").exists());
    ws.lbx(&["undo", "--merge", "--session", "layered"]).success();
    ws.holds("a.txt", "1\n2\n3\n4\n5\n");
    assert!(!ws.path("of-layer").exists());
}

#[test]
fn commit_of_a_direct_command_leaves_out_withheld_files_of_others() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "1\n"), (".gitignore", "cache/\n")]);
    ws.lbx(&["bash", "--session", "layered", "mkdir cache; echo secret > cache/y"]).success();
    let meeting = Meeting::new(&ws);
    let call = meeting.start(&ws, &["--session", "direct", "--direct"], "echo 2 > a.txt");
    // The bytes of an ignored file stay out of the snapshots under any name.
    let answer = ws.lbx(&["bash", "--session", "layered", "mv cache/y found"]).success();
    assert_eq!(changed(&answer), ["found", "cache/"], "{answer:#}");
    assert!(answer["snapshot"].is_null(), "{answer:#}");
    let answer = meeting.end(call);
    assert_eq!(changed(&answer), ["a.txt"], "{answer:#}");
    snapshot_holds(&ws, &answer, &["a.txt"]);
}

#[test]
fn layered_command_during_a_direct_one_keeps_its_files() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "1\n2\n3\n4\n5\n"), ("b.txt", "b\n"), ("c.txt", "c\n")]);
    let meeting = Meeting::new(&ws);
    let command = "sed -i s/1/one/ a.txt; echo d > of-direct; rm c.txt";
    let call = meeting.start(&ws, &["--session", "direct", "--direct"], command);
    let layered = "sed -i s/5/five/ a.txt; echo B > b.txt; mkdir new; echo l > new/of-layer";
    let answer = ws.lbx(&["bash", "--session", "layered", layered]).success();
    assert_eq!(changed(&answer), ["a.txt", "b.txt", "new/of-layer"], "{answer:#}");
    let answer = meeting.end(call);
    assert_eq!(changed(&answer), ["a.txt", "c.txt", "of-direct"], "{answer:#}");
    ws.holds("a.txt", "one\n2\n3\n4\nfive\n");
    ws.lbx(&["undo", "--session", "layered"]).success();
    ws.holds("a.txt", "one\n2\n3\n4\n5\n");
    ws.holds("b.txt", "b\n");
    ws.holds("of-direct", "d\n");
    assert!(!ws.path("new").exists() && !ws.path("c.txt").exists());
    ws.lbx(&["undo", "--session", "direct"]).success();
    ws.holds("a.txt", "1\n2\n3\n4\n5\n");
    ws.holds("c.txt", "c\n");
    assert!(!ws.path("of-direct").exists());
}

/// A toolchain: files, the build command, a word that only a build prints, and a word that only the first build prints.
type Toolchain = (&'static str, &'static [(&'static str, &'static str)], &'static str, &'static str);

const TOOLCHAINS: [Toolchain; 3] = [
    (
        "cargo",
        &[
            ("Cargo.toml", "[package]\nname = \"demo\"\nedition = \"2021\"\n"),
            ("src/main.rs", "fn main() {}\n"),
            (".gitignore", "target/\nCargo.lock\n"),
        ],
        "cargo build",
        "Compiling",
    ),
    (
        "go",
        &[
            ("go.mod", "module demo\n"),
            ("main.go", "package main\n\nfunc main() {}\n"),
            (".gitignore", "out/\n"),
        ],
        "GOCACHE=/tmp/go go build -v -o out/demo .",
        "demo",
    ),
    (
        "npm",
        &[
            ("package.json", "{ \"dependencies\": { \"dep\": \"file:dep\" } }\n"),
            ("dep/package.json", "{ \"name\": \"dep\", \"version\": \"1.0.0\" }\n"),
            (".gitignore", "node_modules/\n"),
        ],
        "npm install",
        "added 1 package",
    ),
];

#[test]
fn second_build_rebuilds_nothing() {
    if !has_overlays() {
        return;
    }
    for (tool, files, command, word) in TOOLCHAINS {
        let ws = Workspace::with(files);
        let request = json!({ "command": command, "timeout_ms": 120_000 });
        let build = || match with_cargo(&ws, "auto", command).filter(|_| tool == "cargo") {
            Some(call) => call.run().success()["data"].clone(),
            None => with(&ws, "auto", &request).success()["data"].clone(),
        };
        let first = build();
        if first["exit_code"] == 127 {
            skipped(format!("no {tool}"));
            continue;
        }
        let said = |ran: &Value| format!("{}{}", ran["stdout"], ran["stderr"]);
        assert!(first["exit_code"] == 0 && said(&first).contains(word), "{tool}: {first:#}");
        let second = build();
        assert!(second["exit_code"] == 0 && !said(&second).contains(word), "{tool}: {second:#}");
        assert_eq!(second["changed"], json!([]), "{tool}: {second:#}");
    }
}

#[test]
fn second_make_rebuilds_nothing() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[
        ("Makefile", "out/b: out/a\n\tcp out/a out/b\nout/a: in\n\tmkdir -p out\n\tcp in out/a\n"),
        ("in", "x\n"),
        (".gitignore", "out/\n"),
    ]);
    let make = || with(&ws, "auto", &json!({ "command": "make" })).success()["data"].clone();
    let first = make();
    if first["exit_code"] == 127 {
        skipped("no make");
        return;
    }
    assert_eq!(first["exit_code"], 0, "{first:#}");
    let second = make();
    assert!(second["stdout"].as_str().unwrap().contains("up to date"), "{second:#}");
    assert_eq!(second["changed"], json!([]), "{second:#}");
}

/// Python that prints the attributes of the workspace's root, after setting one if `set` is true.
fn attributes(set: bool) -> String {
    let set = if set { "os.setxattr('.', 'user.note', b'x'); " } else { "" };
    format!("python3 -c \"import os; {set}print(os.listxattr('.'))\"; ls -a | grep -v '^[.]'")
}

/// A file in no snapshot: lbx knows the names in the root, and what the session has read.
#[test]
fn ignored_file_that_others_removed_does_not_come_back() {
    if !has_overlays() {
        return;
    }
    for (path, is_read) in [(".env", false), ("log/a.log", true)] {
        for flags in [&[][..], &["--transaction"]] {
            let ws = Workspace::with(&[(".gitignore", ".env\nlog/\n")]);
            ws.write(path, "one\n");
            if is_read {
                ws.lbx(&["read", path]).success();
            }
            let meeting = Meeting::new(&ws);
            let call = meeting.start(&ws, flags, &format!("sed -i s/one/two/ {path}; echo > new.txt"));
            std::fs::rename(ws.path(path), ws.path(&format!("{path}.old"))).unwrap();
            let answer = meeting.end(call);
            assert!(!ws.path(path).exists(), "{answer:#}");
            ws.holds(&format!("{path}.old"), "one\n");
            let (conflict, error) = (&answer["data"]["conflicts"][0]["path"], &answer["error"]["path"]);
            assert!([conflict, error].contains(&&json!(path)), "{answer:#}");
        }
    }
}

#[test]
fn mode_of_the_root_is_listed_and_undone() {
    if !has_overlays() {
        return;
    }
    for user in ["root", "other"] {
        for flags in [&[][..], &["--transaction"], &["--direct"]] {
            let ws = Workspace::with(&[("a.txt", "a\n")]);
            let before = (ws.mode(""), ws.tree());
            let call = |arguments: &[&str]| match user {
                "root" => Some(ws.call(arguments)),
                _ => ws.call_unprivileged(arguments),
            };
            for (command, mode, count) in
                [("chmod 700 .", 0o700, 1), ("echo > new.txt; chmod 500 .", 0o500, 2)]
            {
                let Some(bash) = call(&[&["bash", command], flags].concat()) else { return };
                let answer = bash.run().success();
                let listed = answer["data"]["changed"].as_array().unwrap();
                assert_eq!((listed.len(), &listed[0]["path"]), (count, &json!(".")), "{answer:#}");
                assert_eq!((ws.mode(""), &answer["warnings"]), (mode, &json!(null)), "{answer:#}");
                call(&["undo"]).unwrap().run().success();
                assert_eq!((ws.mode(""), ws.tree()), before, "{user} {flags:?}");
            }
            // The next command begins with the mode of the workspace.
            assert_eq!(call(&["bash", "true"]).unwrap().run().success()["data"]["changed"], json!([]));
        }
    }
}

#[test]
fn root_keeps_the_mode_that_others_gave_it() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let meeting = Meeting::new(&ws);
    let call = meeting.start(&ws, &[], "echo b > b.txt");
    ws.chmod("", 0o711);
    let answer = meeting.end(call);
    assert_eq!((ws.mode(""), &answer["warnings"]), (0o711, &json!(null)), "{answer:#}");
}

#[test]
fn read_only_files_keep_no_attribute_of_the_layer() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[
        (".gitignore", "big/\nbag/\n"),
        ("a.txt", "a\n"),
        ("ro", "r\n"),
        ("big/ro", "r\n"),
    ]);
    ws.chmod("ro", 0o444);
    ws.chmod("big/ro", 0o400);
    let Some(bash) = ws.call_unprivileged(&["bash", "chmod 444 a.txt; mv ro moved; mv big bag"]) else {
        return;
    };
    let answer = bash.run().success();
    assert_eq!(answer["warnings"], json!(null), "{answer:#}");
    for (path, mode) in [("a.txt", 0o444), ("moved", 0o444), ("bag/ro", 0o400)] {
        let length = rustix::fs::listxattr(ws.path(path), &mut [0; 256][..]);
        assert_eq!((ws.mode(path), length), (mode, Ok(0)), "{path}");
    }
}

#[test]
fn folders_have_the_times_that_a_command_gave_them() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[
        (".gitignore", "out/\n"),
        ("d/a.txt", "a\n"),
        ("out/old/x", "x\n"),
        ("e/a.txt", "a\n"),
    ]);
    let time = |path: &str| std::fs::metadata(ws.path(path)).unwrap().mtime();
    let meeting = Meeting::new(&ws);
    let set = "touch -d @1000000000 d new new/inner out/old out/made e; rm new/gone";
    let make = "mkdir -p new/inner out/made; echo b > new/gone; echo b > new/b.txt; echo b > d/b.txt; echo > e/b.txt";
    let call = meeting.start(&ws, &[], &format!("{make}; {set}; touch -d @1000000000 new"));
    ws.write("e/theirs.txt", "t\n");
    let answer = meeting.end(call);
    for path in ["d", "new", "new/inner", "out/old", "out/made"] {
        assert_eq!(time(path), 1_000_000_000, "{path}: {answer:#}");
    }
    // Others have changed it since.
    assert!(time("e") > 1_000_000_000, "{answer:#}");
    // As in a rule of make: a folder that is only touched is no change.
    let answer = ws.lbx(&["bash", "touch -d @1100000000 d"]).ok();
    assert_eq!((time("d"), &answer["changed"]), (1_100_000_000, &json!([])), "{answer:#}");
}

#[test]
fn hard_links_of_a_command_are_copies_and_a_warning() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "a\n"), (".gitignore", "out/\n"), ("out/x", "x\n")]);
    let answer = ws.lbx(&["bash", "ln a.txt b.txt; ln out/x out/y"]).success();
    let told = "these hard links are copies now, each with bytes of its own: a.txt, b.txt. Run the command with `direct` to link them";
    assert_eq!(answer["warnings"], json!([told]), "{answer:#}");
    ws.holds("b.txt", "a\n");
}

/// The bits of a group in a mode are the mask of a file's access list.
#[test]
fn mask_of_an_access_list_is_no_mode() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "a\n"), ("d/b.txt", "b\n")]);
    ws.chmod("", 0o755);
    let paths = ["a.txt", "d", ""];
    let modes = paths.map(|path| ws.mode(path));
    let list = "struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *it) for it in [(1, 7, none), (2, 7, os.getuid()), (4, 5, none), (16, 7, none), (32, 5, none)])";
    let set = format!(
        "import os, struct; none = 2**32 - 1; [os.setxattr(path, 'system.posix_acl_access', {list}) for path in ('a.txt', 'd', '.')]"
    );
    let set = format!("python3 -c \"{set}\"");
    let answer = ws.lbx(&["bash", &format!("{set} || echo none; chmod 644 a.txt")]).success();
    if answer["data"]["stdout"] != "" {
        return skipped("the file system has no access lists");
    }
    assert_eq!(
        (&answer["data"]["changed"], paths.map(|path| ws.mode(path))),
        (&json!([]), modes),
        "{answer:#}"
    );
    assert!(
        answer["warnings"][0].as_str().unwrap().contains("stay as they were: ., a.txt, d."),
        "{answer:#}"
    );
    // Modes that the command gives as well are applied, with the rights that the list has for the group.
    let chmod = "chmod 770 a.txt; chmod 751 d; chmod 770 .";
    let answer = ws.lbx(&["bash", &format!("{set}; {chmod}")]).success();
    assert_eq!(paths.map(|path| ws.mode(path)), [0o750, 0o751, 0o750], "{answer:#}");
    // A list that was there keeps its mask, unless the command only sets that.
    ws.lbx(&["bash", "--direct", &format!("{set}; chmod 755 a.txt d .")]).success();
    let wider = set.replace("(4, 5, none)", "(4, 7, none)");
    ws.lbx(&["bash", &wider]).success();
    assert_eq!(paths.map(|path| ws.mode(path)), [0o755; 3]);
    ws.lbx(&["bash", "chmod 775 a.txt d ."]).success();
    assert_eq!(paths.map(|path| ws.mode(path)), [0o775; 3]);
}

/// The first call makes a repository in the root, which changes its time.
#[test]
fn root_gets_its_mode_from_the_first_command() {
    if !has_overlays() {
        return;
    }
    for options in [&[][..], &["--transaction"]] {
        let ws = Workspace::with(&[("b.txt", "b\n")]);
        let answer = ws.lbx(&[&["bash", "chmod 700 .; echo a > a.txt"], options].concat()).success();
        assert_eq!((ws.mode(""), &answer["warnings"]), (0o700, &json!(null)), "{answer:#}");
    }
}

#[test]
fn next_command_gets_the_empty_folders_of_a_layer_and_nothing_in_them() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let run = |command: &str| with(&ws, "namespaces", &json!({ "command": command })).ok();
    let spare = ws.path(&state("spare_layer"));
    let inode = || std::fs::metadata(spare.join("upper")).map(|folder| folder.ino()).ok();
    run("true");
    let Some(first) = inode() else {
        return skipped("the layers are in memory");
    };
    // A command that changes files leaves the folders as well.
    run("echo two > a.txt; mkdir -p d/e; touch d/e/f");
    assert_eq!(inode(), Some(first));
    assert_eq!(std::fs::read_dir(spare.join("work")).unwrap().count(), 0);
    // Attributes and modes that a command gives the root end with it.
    let told = run(&attributes(true));
    assert!(told["stdout"].as_str().unwrap().contains("user.note"), "{told:#}");
    assert_eq!(inode(), None);
    let told = run(&attributes(false));
    assert_eq!((&told["stdout"], &told["changed"]), (&json!("[]\na.txt\nd\n"), &json!([])), "{told:#}");
    // Files that others put there are no changes of a command.
    for place in ["upper/planted", "work/planted", "planted"] {
        std::fs::write(spare.join(place), "planted\n").unwrap();
        let told = run(&attributes(false));
        assert_eq!((&told["stdout"], &told["changed"]), (&json!("[]\na.txt\nd\n"), &json!([])), "{told:#}");
        assert!(!ws.path("planted").exists() && !spare.join(place).exists());
    }
    // Commands at the same time have layers of their own.
    let meeting = Meeting::new(&ws);
    let other = meeting.start(&ws, &[], "echo 1 > one.txt");
    assert_eq!(inode(), None);
    assert_eq!(run("ls; echo 2 > two.txt")["stdout"], "a.txt\nd\n");
    meeting.end(other);
    ws.holds("one.txt", "1\n");
    ws.holds("two.txt", "2\n");
    assert!(inode().is_some());
    assert_eq!(std::fs::read_dir(ws.path(&state("layers"))).unwrap().count(), 0);
}

#[test]
fn kept_layer_and_that_of_a_killed_call_can_be_removed_by_their_owner() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["bash", "git init -q n; echo x > n/.git/x"]).warned("keeps the command's versions");
    assert_eq!(ws.closed(), "");
    let meeting = Meeting::new(&ws);
    let mut call = meeting.start(&ws, &[], "echo two > a.txt");
    call.kill().unwrap();
    call.wait().unwrap();
    assert_eq!(ws.closed(), "");
    ws.lbx(&["read", "a.txt"]).warned("are kept in ");
    assert_eq!(ws.closed(), "");
}

#[test]
fn reason_of_a_conflict_is_whole() {
    if first_backend().is_none() {
        return;
    }
    let ws = Workspace::with(&[("c/a.txt", "one\n")]);
    ws.chmod("c", 0);
    let Some(call) = ws.call_unprivileged(&["bash", "chmod 755 c; echo two > c/a.txt"]) else { return };
    let conflicts = call.run().success()["data"]["conflicts"].clone();
    let reason = conflicts[0]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("cannot "), "{conflicts:#}");
    ws.chmod("c", 0o755);
}

#[test]
fn layer_of_a_newer_version_is_left_alone() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let data = ws
        .lbx(&["bash", "git init -q n; echo precious > n/.git/precious"])
        .warned("keeps the command's versions");
    let layer = ws.path(&state(&format!("layers/{}", data["layer"].as_str().unwrap())));
    let record = layer.join("layer.lbx");
    let text = std::fs::read_to_string(&record).unwrap();
    for changed in [text.replace("\"version\":1", "\"version\":99"), "damaged".to_owned()] {
        std::fs::write(&record, changed).unwrap();
        ws.lbx(&["bash", "--list"]).ok();
        ws.lbx(&["bash", "true"]).ok();
        assert!(layer.join("upper/n/.git/precious").exists());
    }
    std::fs::write(&record, text.replace("\"version\":1", "\"version\":99")).unwrap();
    let name = data["layer"].as_str().unwrap();
    for way in ["--apply", "--drop"] {
        let error = ws.lbx(&["bash", "--layer", name, way]).error("io_error");
        assert_eq!(error["message"], format!("the layer {name} was written by a newer lbx"));
    }
    assert!(layer.join("upper/n/.git/precious").exists());
}

#[test]
fn bare_repository_in_an_ignored_folder_is_a_conflict() {
    if !has_overlays() {
        return;
    }
    let ws = Workspace::with(&[(".gitignore", "ign/\n"), ("ign/x", "x\n")]);
    let command = "git init -q --bare ign/r; git init -q --bare ign/deep/r; echo other > other.txt";
    let answer = ws.lbx(&["bash", command]).success();
    let conflicts = answer["data"]["conflicts"].as_array().unwrap();
    let paths: Vec<&str> = conflicts.iter().map(|conflict| conflict["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["ign/deep/r", "ign/r"], "{answer:#}");
    ws.holds("other.txt", "other\n");
    assert!(!ws.path("ign/r").exists());
    let error = ws.lbx(&["bash", "--transaction", command]).error("protected_path");
    assert!(!error.to_string().contains("trash"), "{error}");
}

#[test]
fn symlink_in_place_of_the_sessions_tmp_leads_no_command_outside() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["bash", "true"]).success();
    let files = ws.path(&state("tmp/default/files"));
    std::fs::remove_dir_all(&files).unwrap();
    std::fs::write(ws.outside.join("kept"), "theirs\n").unwrap();
    std::os::unix::fs::symlink(&ws.outside, &files).unwrap();
    ws.lbx(&["bash", "rm -f /tmp/kept; echo two > /tmp/new"]).success();
    assert!(ws.outside.join("kept").exists() && !ws.outside.join("new").exists());
}
