//! The changes of a fork are merged into the workspace, as one change.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::created::{forked, shell, within};

/// Returns the files of a merge, each as action, old and new path.
fn listed(data: &Value) -> Vec<String> {
    let file = |file: &Value| {
        let words = [&file["action"], &file["from"], &file["path"]].map(|it| it.as_str().unwrap_or_default());
        words.join(" ").replace("  ", " ") + if file["merged"] == true { " merged" } else { "" }
    };
    data["files"].as_array().unwrap().iter().map(file).collect()
}

/// Returns kinds and paths of the conflicts of an error.
fn conflicts(error: &Value) -> Vec<String> {
    let one = |conflict: &Value| {
        format!("{} {}", conflict["kind"].as_str().unwrap(), conflict["path"].as_str().unwrap())
    };
    error["details"]["conflicts"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn merge_takes_what_a_fork_did_to_read_only_files() {
    let Some(ws) = forked(&[]) else { return };
    let files = ["src/a.txt", "src/b.txt", "docs/c.md", "docs/mode"];
    for file in files {
        ws.write(file, format!("of {file}\n"));
        ws.chmod(file, 0o444);
    }
    ws.lbx(&["fork", "two"]).ok();
    let before = ws.tree();
    let script = "sed -i s/of/in/ src/a.txt; rm -f src/b.txt; mv docs/c.md docs/d.md; chmod u+w docs/mode";
    within(&ws, "two", &["bash", script]).ok();
    let Some(call) = ws.call_unprivileged(&["merge", "two"]) else { return };
    let data = call.run().ok();
    let wanted = ["rename docs/c.md docs/d.md", "modify docs/mode", "modify src/a.txt", "delete src/b.txt"];
    assert_eq!(listed(&data), wanted, "{data}");
    ws.holds("src/a.txt", "in src/a.txt\n");
    assert_eq!(ws.mode("src/a.txt") & 0o777, 0o444);
    ws.call_unprivileged(&["undo"]).unwrap().run().ok();
    assert_eq!(ws.tree(), before);
}

#[test]
fn merge_is_one_change_that_undo_takes_back() {
    let Some(ws) = forked(&["one"]) else { return };
    let lines: String = (1..=20).map(|line| format!("{line}\n")).collect();
    ws.write("src/b.txt", &lines);
    ws.lbx(&["fork", "two"]).ok();
    let script = "sed -i s/^2$/two/ src/b.txt; mv docs/c.md docs/d.md; mkdir -p new/deep; echo n > new/deep/n; \
                  chmod +x src/a.txt; ln -s b.txt src/link; echo more > target/more; echo T=2 > .env; rm -r target/out";
    within(&ws, "two", &["bash", script]).ok();
    ws.lbx(&["bash", "sed -i s/^18$/eighteen/ src/b.txt; echo '# more' >> docs/c.md"]).ok();
    let before = ws.tree();
    let dry = ws.lbx(&["merge", "two", "--dry-run"]).ok();
    assert_eq!(ws.tree(), before);
    let merged = ws.lbx(&["merge", "two", "--why", "done"]).success();
    let data = &merged["data"];
    assert_eq!(dry["files"], data["files"]);
    let wanted = [
        "rename docs/c.md docs/d.md",
        "create new/deep/n",
        "modify src/a.txt",
        "modify src/b.txt merged",
        "create src/link",
    ];
    assert_eq!(listed(data), wanted, "{data}");
    assert_eq!(data["ignored"], json!({ "files": 3, "folders": [".env", "target"] }));
    ws.holds(
        "src/b.txt",
        lines.replace("2\n", "two\n").replace("1two\n", "12\n").replace("18\n", "eighteen\n"),
    );
    ws.holds("docs/d.md", "# c\n# more\n");
    ws.holds("new/deep/n", "n\n");
    ws.holds(".env", "TOKEN=1\n");
    assert_eq!(ws.mode("src/a.txt") & 0o111, 0o111);
    assert_eq!(std::fs::read_link(ws.path("src/link")).unwrap().to_str(), Some("b.txt"));
    assert!(!ws.path("docs/c.md").exists() && merged["snapshot"].is_string());
    assert_eq!(ws.snapshots()[0], "merge two: 5 files");
    assert_eq!(ws.lbx(&["merge", "two"]).ok()["files"], json!([]));
    ws.lbx(&["undo"]).ok();
    assert_eq!(ws.tree(), before);
    // What was undone is not merged any more, so it can be merged again.
    assert_eq!(listed(&ws.lbx(&["merge", "two"]).ok()), wanted);
    assert_eq!(ws.lbx(&["merge", "one"]).ok()["files"], json!([]));
}

#[test]
fn merge_of_a_folder_made_again_has_none_of_its_old_files() {
    let Some(ws) = forked(&[]) else { return };
    ws.write("dist/js/old.js", "old\n");
    ws.lbx(&["fork", "one"]).ok();
    within(&ws, "one", &["bash", "--direct", "rm -r dist; mkdir -p dist/js; echo new > dist/js/new.js"]).ok();
    let merged = ws.lbx(&["merge", "one"]).ok();
    assert_eq!(listed(&merged), ["create dist/js/new.js", "delete dist/js/old.js"], "{merged}");
    assert!(!ws.path("dist/js/old.js").exists());
}

#[test]
fn later_merge_brings_what_came_since() {
    let Some(ws) = forked(&["one"]) else { return };
    within(&ws, "one", &["write", "src/n.txt", "--content", "1\n2\n3\n4\n5\n"]).ok();
    within(&ws, "one", &["bash", "sed -i s/one/1/ src/a.txt; rm docs/c.md"]).ok();
    ws.lbx(&["merge", "one"]).ok();
    assert!(!ws.path("docs").exists(), "a folder without files stays");
    // Both go on.
    ws.lbx(&["bash", "sed -i s/5/five/ src/n.txt; sed -i s/uncommitted/theirs/ src/a.txt"]).ok();
    within(&ws, "one", &["bash", "sed -i s/1/one/ src/n.txt; sed -i s/two/2/ src/a.txt; mv src/b.txt b.txt"])
        .ok();
    assert_eq!(shell(&ws, "one", "cat src/n.txt"), "one\n2\n3\n4\n5\n");
    let merged = ws.lbx(&["merge", "one"]).ok();
    assert_eq!(
        listed(&merged),
        ["modify src/a.txt merged", "rename src/b.txt b.txt", "modify src/n.txt merged"]
    );
    ws.holds("src/n.txt", "one\n2\n3\n4\nfive\n");
    ws.holds("src/a.txt", "1\n2\nthree\ntheirs\n");
    // A file that the fork created, merged and removed.
    within(&ws, "one", &["bash", "rm src/n.txt"]).ok();
    let error = ws.lbx(&["merge", "one"]).error("stale_file");
    assert_eq!(conflicts(&error), ["changed_and_deleted src/n.txt"]);
    ws.lbx(&["bash", "git show HEAD:src/b.txt > b.txt; printf 'one\\n2\\n3\\n4\\n5\\n' > src/n.txt"]).ok();
    assert_eq!(listed(&ws.lbx(&["merge", "one"]).ok()), ["delete src/n.txt"]);
}

#[test]
fn merge_that_was_taken_back_in_any_way_is_merged_again() {
    let (a, b): (&[&str], &[&str]) =
        (&["undo", "--seq", "2", "--path", "src/a.txt"], &["undo", "--seq", "2", "--path", "src/b.txt"]);
    let ways: [&[&[&str]]; 6] = [
        &[&["undo"]],
        &[&["undo", "--seq", "2"]],
        &[a, b],
        &[&["undo", "--seq", "2", "--hunk", "1", "--path", "src/a.txt"], b],
        &[&["undo", "--seq", "2"], &["undo"], &["undo"], &["merge", "--check"], &["redo"], &["undo"]],
        &[&["rewind", "SNAPSHOT", "--yes"]],
    ];
    for way in ways {
        let Some(ws) = forked(&["one"]) else { return };
        within(&ws, "one", &["bash", "sed -i s/one/1/ src/a.txt"]).ok();
        let first = ws.lbx(&["merge", "one"]).success();
        let before = ws.tree();
        within(&ws, "one", &["bash", "sed -i s/1/I/ src/a.txt; echo c >> src/b.txt"]).ok();
        ws.lbx(&["merge", "one"]).ok();
        let after = ws.tree();
        for call in way {
            let snapshot = first["snapshot"].as_str().unwrap();
            let call: Vec<_> =
                call.iter().map(|word| if *word == "SNAPSHOT" { snapshot } else { word }).collect();
            ws.lbx(&call).ok();
        }
        assert_eq!(ws.tree(), before, "{way:?}");
        let merged = ws.lbx(&["merge", "one"]).ok();
        assert_eq!(listed(&merged), ["modify src/a.txt", "modify src/b.txt"], "{way:?}");
        assert_eq!(ws.tree(), after, "{way:?}");
    }
}

#[test]
fn redone_merge_counts_as_before() {
    let Some(ws) = forked(&["one"]) else { return };
    within(&ws, "one", &["bash", "sed -i s/one/1/ src/a.txt; echo c >> src/b.txt"]).ok();
    ws.lbx(&["merge", "one"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["merge", "--check"]).ok();
    ws.lbx(&["redo"]).ok();
    within(&ws, "one", &["bash", "sed -i s/1/I/ src/a.txt; echo b > src/b.txt"]).ok();
    assert_eq!(listed(&ws.lbx(&["merge", "one"]).ok()), ["modify src/a.txt", "modify src/b.txt"]);
    ws.holds("src/b.txt", "b\n");
}

#[test]
fn conflict_names_both_sides_and_changes_nothing() {
    let Some(ws) = forked(&["one"]) else { return };
    within(
        &ws,
        "one",
        &[
            "bash",
            "sed -i s/two/2/ src/a.txt; mv src/b.txt src/c.txt; echo fork > m; echo fork > n; echo x > ok",
        ],
    )
    .ok();
    ws.lbx(&["--session", "s1", "bash", "sed -i s/two/zwei/ src/a.txt"]).ok();
    ws.lbx(&["--session", "s2", "move", "src/b.txt", "b.txt"]).ok();
    ws.lbx(&["--session", "s2", "write", "m", "--content", "workspace\n"]).ok();
    ws.write("n", "workspace\n"); // another program
    let error = ws.unchanged(|| ws.lbx(&["merge", "one"]).error("stale_file"));
    assert_eq!(
        conflicts(&error),
        ["both_renamed b.txt", "both_added m", "both_added n", "both_changed src/a.txt"]
    );
    let sides = |at: usize| error["details"]["conflicts"][at].clone();
    let [renamed, added, changed] = [0, 2, 3].map(sides);
    assert_eq!(
        (&renamed["ours"]["path"], &renamed["theirs"]["path"]),
        (&json!("b.txt"), &json!("src/c.txt"))
    );
    assert_eq!((&renamed["ours"]["session"], &renamed["theirs"]["session"]), (&json!("s2"), &json!("one")));
    assert_eq!((&changed["ours"]["session"], &changed["ours"]["seq"]), (&json!("s1"), &json!(1)));
    assert_eq!(
        (&changed["ours"]["lines"], &changed["theirs"]["lines"]),
        (&json!([[2, 2]]), &json!([[2, 2]]))
    );
    assert_eq!(changed["ours"]["sha256"], crate::common::sha256(&ws.read_bytes("src/a.txt")));
    assert_eq!((&added["ours"]["external"], &added["ours"]["session"]), (&json!(true), &Value::Null));
    let action = error["suggested_action"].as_str().unwrap();
    assert!(action.contains("set these files to what the workspace has"), "{action}");
    // The rest merges; then the fork is made to fit.
    let merged = ws.lbx(&["merge", "one", "--paths", "ok"]).ok();
    assert_eq!((listed(&merged), &merged["left"]), (vec!["create ok".to_owned()], &json!(4)));
    within(&ws, "one", &["bash", "sed -i s/2/zwei/ src/a.txt; mv src/c.txt b.txt; echo workspace | tee m n"])
        .ok();
    let merged = ws.lbx(&["merge", "one"]).ok();
    let wanted = [
        "already_applied m",
        "already_applied n",
        "already_applied src/a.txt",
        "already_applied src/b.txt b.txt",
    ];
    assert_eq!(listed(&merged), wanted, "{merged}");
    ws.lbx(&["merge", "one", "--paths", "docs"]).error("not_found");
    // Then its change of them is made again.
    within(&ws, "one", &["bash", "echo fork >> m"]).ok();
    assert_eq!(listed(&ws.lbx(&["merge", "one"]).ok()), ["modify m"]);
    ws.holds("m", "workspace\nfork\n");
}

#[test]
fn check_shows_overlaps_of_all_forks() {
    let Some(ws) = forked(&["one", "two", "three"]) else { return };
    assert_eq!(ws.lbx(&["merge", "--check"]).ok()["overlaps"], json!([]));
    within(&ws, "one", &["bash", "sed -i s/two/2/ src/a.txt; echo 1 > same; echo 1 > other"]).ok();
    within(&ws, "two", &["bash", "sed -i s/uncommitted/new/ src/a.txt; echo 1 > same; rm docs/c.md"]).ok();
    within(
        &ws,
        "three",
        &["bash", "sed -i s/two/zwei/ src/a.txt; echo more >> docs/c.md; echo 2 > target/out"],
    )
    .ok();
    let checked = ws.unchanged(|| ws.lbx(&["merge", "--check"]).ok());
    let forks = checked["forks"].as_array().unwrap();
    assert_eq!(forks.len(), 3);
    assert!(forks.iter().all(|fork| fork["mergeable"] == true), "{checked}");
    assert_eq!(forks[1]["ignored"], json!({ "files": 1, "folders": ["target"] }), "{checked}");
    let side = |name: &str, line: u64| json!({ "name": name, "lines": [[line, line]] });
    let gone = |name: &str| json!({ "name": name, "lines": [] });
    assert_eq!(
        checked["overlaps"],
        json!([
            { "path": "docs/c.md", "forks": [side("three", 2), gone("two")], "conflict": true },
            { "path": "same", "forks": [side("one", 1), side("two", 1)], "conflict": false },
            { "path": "src/a.txt", "forks": [side("one", 2), side("three", 2), side("two", 4)], "conflict": true },
        ])
    );
    ws.lbx(&["merge", "two"]).ok();
    let checked = ws.lbx(&["merge", "three", "--check"]).ok();
    assert_eq!(checked["forks"][0]["mergeable"], false, "{checked}");
    assert_eq!(checked["forks"][0]["conflicts"][0]["kind"], "changed_and_deleted");
    let text = ws.lbx(&["--text", "merge", "--check"]).stdout_text();
    assert!(text.contains("three: does not merge, 2 files\n"), "{text}");
    assert!(text.contains("overlap: src/a.txt: one 2-2; three 2-2 (conflict)\n"), "{text}");
}

#[test]
fn ignored_and_protected_files_are_not_merged() {
    let Some(ws) = forked(&["one"]) else { return };
    within(&ws, "one", &["bash", "echo T=2 > .env; echo n > target/n; echo x > src/x.log; echo k > kept"])
        .ok();
    let merged = ws.lbx(&["merge", "one", "--paths", ".env", "kept"]).warned("not in the snapshot: .env");
    assert_eq!(listed(&merged), ["modify .env", "create kept"], "{merged}");
    ws.holds(".env", "T=2\n");
    assert_eq!(merged["ignored"], json!({ "files": 1, "folders": ["target"] }));
    let error = ws.lbx(&["--set", "protect=src/*.log", "merge", "one"]).error("protected_path");
    assert_eq!(error["path"], "src/x.log");
    let checked = ws.lbx(&["--set", "protect=src/*.log", "merge", "--check"]).ok();
    assert_eq!(checked["forks"][0]["mergeable"], false);
    assert!(checked["forks"][0]["reason"].as_str().unwrap().contains("src/x.log is protected"), "{checked}");
    assert_eq!(listed(&ws.lbx(&["merge", "one"]).ok()), ["create src/x.log"]);
    // Changed again, an ignored file is left out again.
    within(&ws, "one", &["bash", "echo T=3 > .env"]).ok();
    assert_eq!(ws.lbx(&["merge", "one"]).ok()["files"], json!([]));
    ws.holds(".env", "T=2\n");
    ws.lbx(&["merge"]).error("invalid_request");
    ws.lbx(&["merge", "none"]).error("sandbox_not_found");
}

#[test]
fn file_of_another_program_has_an_unknown_base() {
    let Some(ws) = forked(&[]) else { return };
    // No snapshot has these bytes: the fork makes none.
    ws.write("notes.txt", "one\ntwo\nthree\n");
    ws.lbx(&["fork", "one", "--set", "snapshot.enabled=false"]).ok();
    within(&ws, "one", &["bash", "sed -i s/two/2/ notes.txt"]).ok();
    ws.write("notes.txt", "ONE\ntwo\nthree\n"); // another program
    let error = ws.lbx(&["merge", "one"]).error("stale_file");
    assert_eq!(conflicts(&error), ["base_unknown notes.txt"]);
    assert_eq!(error["details"]["conflicts"][0]["ours"]["external"], true);
    ws.write("notes.txt", "one\n2\nthree\n");
    assert_eq!(listed(&ws.lbx(&["merge", "one"]).ok()), ["already_applied notes.txt"]);
    // From then on the version that was merged is the base.
    within(&ws, "one", &["bash", "echo 4 >> notes.txt"]).ok();
    assert_eq!(listed(&ws.lbx(&["merge", "one"]).ok()), ["modify notes.txt"]);
    // If a snapshot from before the fork has the file, that is the base.
    let lines: String = (1..=9).map(|line| format!("{line}\n")).collect();
    ws.write("notes.txt", &lines);
    ws.lbx(&["snapshot"]).ok();
    ws.lbx(&["fork", "two"]).ok();
    within(&ws, "two", &["bash", "sed -i s/2/two/ notes.txt"]).ok();
    ws.write("notes.txt", lines.replace('8', "eight")); // another program
    assert_eq!(listed(&ws.lbx(&["merge", "two"]).ok()), ["modify notes.txt merged"]);
    ws.holds("notes.txt", lines.replace('2', "two").replace('8', "eight"));
}

#[test]
fn file_and_folder_take_each_other_s_place() {
    let Some(ws) = forked(&["one"]) else { return };
    within(
        &ws,
        "one",
        &["bash", "rm -r docs src/b.txt; echo file > docs; mkdir src/b.txt; echo in > src/b.txt/in"],
    )
    .ok();
    let merged = ws.lbx(&["merge", "one"]).ok();
    let wanted = ["create docs", "delete docs/c.md", "delete src/b.txt", "create src/b.txt/in"];
    assert_eq!(listed(&merged), wanted, "{merged}");
    ws.holds("docs", "file\n");
    ws.holds("src/b.txt/in", "in\n");
    assert_eq!(ws.lbx(&["merge", "one"]).ok()["files"], json!([]));
    within(
        &ws,
        "one",
        &["bash", "rm docs; mkdir docs; echo c > docs/new; rm -r src/b.txt; echo b > src/b.txt"],
    )
    .ok();
    ws.lbx(&["merge", "one"]).ok();
    ws.holds("docs/new", "c\n");
    ws.holds("src/b.txt", "b\n");
    assert_eq!(ws.lbx(&["merge", "one"]).ok()["files"], json!([]));
    ws.lbx(&["undo", "--steps", "2"]).ok();
    ws.holds("docs/c.md", "# c\n");
    ws.holds("src/b.txt", "b\n");
    assert_eq!(ws.path("src/b.txt").metadata().unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn rename_in_a_fork_is_followed_however_much_the_file_changed() {
    let Some(ws) = forked(&[]) else { return };
    let lines: String = (1..=10).map(|line| format!("{line}\n")).collect();
    ws.write("src/b.txt", &lines);
    ws.lbx(&["fork", "one"]).ok();
    // A program renames the file and writes seven of its ten lines again, in place.
    let new: String = (1..=7).map(|line| format!("new {line}\n")).collect();
    shell(&ws, "one", &format!("mv src/b.txt c.txt; printf '{new}8\n9\n10\n' > c.txt"));
    ws.lbx(&["bash", "sed -i s/^10$/ten/ src/b.txt"]).ok();
    assert_eq!(listed(&ws.lbx(&["merge", "one"]).ok()), ["rename src/b.txt c.txt merged"]);
    ws.holds("c.txt", format!("{new}8\n9\nten\n"));
}

#[test]
fn merge_of_one_file_is_undone_by_its_number() {
    let Some(ws) = forked(&["one"]) else { return };
    within(&ws, "one", &["write", "n.txt", "--content", "n\n"]).ok();
    ws.lbx(&["merge", "one"]).ok();
    ws.lbx(&["write", "other.txt", "--content", "o\n"]).ok();
    ws.lbx(&["undo", "--seq", "1"]).ok();
    assert!(!ws.path("n.txt").exists());
    assert_eq!(listed(&ws.lbx(&["merge", "one"]).ok()), ["create n.txt"]);
}

#[test]
fn text_of_a_merge_is_a_line_a_file() {
    let Some(ws) = forked(&["one"]) else { return };
    within(&ws, "one", &["bash", "mv src/b.txt b.txt; echo 2 > target/out"]).ok();
    let answer = ws.lbx(&["--text", "merge", "one", "--dry-run"]);
    assert_eq!(answer.stdout_text(), "would rename: src/b.txt -> b.txt\n");
    let answer = ws.lbx(&["--text", "merge", "one"]);
    assert_eq!(answer.stdout_text(), "rename: src/b.txt -> b.txt\n");
}

#[test]
fn merge_says_what_it_left_out_and_why() {
    let ws = crate::common::Workspace::with(&[("a.txt", "a\n")]);
    let error = ws.lbx(&["merge", "one"]).error("sandbox_not_found");
    assert!(error["suggested_action"].as_str().unwrap().contains("makes one"), "{error}");
    let Some(ws) = forked(&["one"]) else { return };
    within(&ws, "one", &["bash", "mkfifo pipe; echo x > n.txt; head -c 2000 /dev/zero > large"]).ok();
    let advice = |error: &Value| error["suggested_action"].as_str().unwrap().to_owned();
    let error = ws.lbx(&["--set", "limits.file_bytes=1000", "merge", "one"]).error("stale_file");
    assert_eq!(error["path"], "large");
    assert!(advice(&error).contains("Merge again once nobody works in the fork"), "{error}");
    ws.lbx(&["merge", "one"]).warned("not merged, since they are no files: pipe");
    let error = ws.lbx(&["merge", "one", "--paths", "docs"]).error("not_found");
    assert!(advice(&error).contains("shows the files that the fork changed"), "{error}");
    let error = ws.lbx(&["merge"]).error("invalid_request");
    assert!(advice(&error).contains("`check` needs no name"), "{error}");
}

#[test]
fn copy_merges_as_a_layer_does() {
    let Some(ws) = forked(&["one"]) else { return };
    let at = ws.outside.join("copy");
    ws.lbx(&["fork", "copied", "--at", at.to_str().unwrap()]).ok();
    std::fs::write(at.join("src/a.txt"), "one\n2\nthree\nuncommitted\n").unwrap();
    std::fs::rename(at.join("docs/c.md"), at.join("docs/d.md")).unwrap();
    std::fs::write(at.join("target/more"), "more\n").unwrap();
    ws.lbx(&["bash", "sed -i s/uncommitted/committed/ src/a.txt"]).ok();
    let merged = ws.lbx(&["merge", "copied"]).ok();
    assert_eq!(listed(&merged), ["rename docs/c.md docs/d.md", "modify src/a.txt merged"], "{merged}");
    ws.holds("src/a.txt", "one\n2\nthree\ncommitted\n");
    assert_eq!(ws.lbx(&["merge", "copied"]).ok()["files"], json!([]));
    std::fs::write(at.join("src/b.txt"), "B\n").unwrap();
    assert_eq!(listed(&ws.lbx(&["merge", "copied"]).ok()), ["modify src/b.txt"]);
}

#[test]
fn merge_of_a_copy_keeps_what_the_developer_did() {
    let Some(ws) = forked(&[]) else { return };
    // Also where the workspace is not scanned: then the newest snapshot tells.
    for (name, is_scanned) in [("small", true), ("large", false)] {
        ws.chmod("src/a.txt", 0o644);
        ws.chmod("src/b.txt", 0o755);
        ws.lbx(&["snapshot"]).ok();
        let at = ws.outside.join(name);
        let more = if is_scanned { &[][..] } else { &["--set", "snapshot.enabled=false"] };
        ws.lbx(&[&["fork", name, "--at", at.to_str().unwrap()][..], more].concat()).ok();
        ws.chmod("src/a.txt", 0o755);
        ws.chmod("src/b.txt", 0o644);
        if is_scanned {
            ws.write("src/added.txt", "new\n");
        }
        std::fs::write(at.join(format!("{name}.txt")), "by the fork\n").unwrap();
        let merged = ws.lbx(&["merge", name]).ok();
        assert_eq!(listed(&merged), [format!("create {name}.txt")], "{name}: {merged}");
        assert_eq!((ws.mode("src/a.txt"), ws.mode("src/b.txt")), (0o755, 0o644), "{name}");
        ws.holds("src/added.txt", "new\n");
    }
}

#[test]
fn merge_tells_lines_apart_whatever_their_endings() {
    let Some(ws) = forked(&[]) else { return };
    ws.write(".gitattributes", "* text=auto\n");
    ws.write("dos.txt", "1\r\n2\r\n3\r\n4\r\n5\r\n");
    ws.lbx(&["fork", "one"]).ok();
    ws.write("dos.txt", "dev\r\n2\r\n3\r\n4\r\n5\r\n");
    within(&ws, "one", &["bash", "sed -i 's/5/five/' dos.txt"]).ok();
    assert_eq!(listed(&ws.lbx(&["merge", "one"]).ok()), ["modify dos.txt merged"]);
    ws.holds("dos.txt", "dev\r\n2\r\n3\r\n4\r\nfive\r\n");
}

#[test]
fn change_of_a_file_that_the_developer_deleted_goes_to_no_other_file() {
    let Some(ws) = forked(&[]) else { return };
    ws.write("old/LICENSE", "license\ntext\n");
    ws.write("copying", "license\ntext\n");
    ws.git(&["add", "-A"]);
    ws.lbx(&["fork", "one"]).ok();
    std::fs::rename(ws.path("old"), ws.path("new")).unwrap();
    std::fs::remove_file(ws.path("copying")).unwrap();
    within(&ws, "one", &["bash", "cat old/LICENSE; echo fork > copying"]).ok();
    let error = ws.unchanged(|| ws.lbx(&["merge", "one"]).error("stale_file"));
    assert_eq!(conflicts(&error), ["changed_and_deleted copying"]);
    ws.holds("new/LICENSE", "license\ntext\n");
}

#[test]
fn merge_is_whole_where_rules_cannot_be_read() {
    let Some(ws) = forked(&[]) else { return };
    std::fs::remove_file(ws.path(".gitignore")).unwrap();
    assert!(Command::new("mkfifo").arg(ws.path(".gitignore")).status().unwrap().success());
    ws.lbx(&["fork", "one"]).success();
    within(&ws, "one", &["bash", "mv src/b.txt src/c.txt; mkdir n; echo 1 > n/x"]).success();
    let merged = ws.lbx(&["merge", "one"]).success();
    assert_eq!(merged["data"]["ignored"], Value::Null, "{merged}");
    ws.holds("src/c.txt", "b\n");
    ws.holds("n/x", "1\n");
    assert!(!ws.path("src/b.txt").exists());
    // What is inside an ignored folder is ignored, whatever its rules are.
    let Some(ws) = forked(&[]) else { return };
    assert!(Command::new("mkfifo").arg(ws.path("target/.gitignore")).status().unwrap().success());
    ws.lbx(&["fork", "one"]).success();
    within(&ws, "one", &["bash", "echo 1 > target/more; echo 1 > x"]).success();
    let merged = ws.lbx(&["merge", "one"]).success();
    assert_eq!(listed(&merged["data"]), ["create x"], "{merged}");
    assert!(!ws.path("target/more").exists());
}

#[test]
fn merge_follows_a_file_that_the_developer_renamed() {
    let Some(ws) = forked(&[]) else { return };
    std::thread::sleep(std::time::Duration::from_millis(1100));
    ws.lbx(&["fork", "one"]).ok();
    std::fs::rename(ws.path("src/a.txt"), ws.path("src/renamed.txt")).unwrap();
    within(&ws, "one", &["ls", "src"]).ok();
    within(&ws, "one", &["bash", "test ! -e src/renamed.txt && echo more >> src/a.txt"]).ok();
    ws.lbx(&["merge", "one"]).ok();
    ws.holds("src/renamed.txt", "one\ntwo\nthree\nuncommitted\nmore\n");
    assert!(!ws.path("src/a.txt").exists());
}

#[test]
fn merge_beside_a_job_comes_after_what_the_job_did() {
    let Some(ws) = forked(&["one"]) else { return };
    let lines: String = (1..=20).map(|line| format!("{line}\n")).collect();
    ws.write("src/b.txt", &lines);
    ws.lbx(&["fork", "two"]).ok();
    within(&ws, "two", &["bash", "sed -i s/^2$/two/ src/b.txt"]).ok();
    ws.lbx(&["bash", "--background", "sed -i s/^18$/eighteen/ src/b.txt; touch begun; sleep 1000"]).success();
    while !ws.path("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let before = ws.snapshots();
    ws.lbx(&["merge", "two", "--dry-run"]).success();
    assert_eq!(ws.snapshots(), before);
    ws.lbx(&["merge", "two"]).success();
    let [merge, part, ..] = &ws.snapshots()[..] else { panic!("{:?}", ws.snapshots()) };
    assert!(merge == "merge two: 1 file" && part.ends_with(" (so far)"), "{merge}, {part}");
    // The fork knows its merge by its number.
    assert_eq!(ws.lbx(&["merge", "two"]).ok()["files"], json!([]));
    ws.lbx(&["undo"]).success();
    ws.holds("src/b.txt", lines.replace("18\n", "eighteen\n"));
    ws.lbx(&["merge", "two", "--dry-run"]).success();
    ws.lbx(&["bash", "--job", "j1", "--stop"]).success();
}
