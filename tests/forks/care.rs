//! Forks are bounded: `gc` drops unused ones, `doctor` finds what is wrong with them.

use serde_json::{Value, json};

use crate::common::{Workspace, change_state_file, state};
use crate::created::{forked, shell, within};

/// Makes a fork one that was created in 1970.
fn age(ws: &Workspace, name: &str) {
    let record = ws.path(&state(&format!("forks/{name}/fork.lbx")));
    change_state_file(&record, |record| record["created"] = json!(1));
}

/// Returns the findings of `doctor` about forks.
fn findings(ws: &Workspace, arguments: &[&str]) -> Vec<Value> {
    let found = ws.lbx(&[&["doctor"], arguments].concat()).envelope()["data"]["findings"].clone();
    found.as_array().unwrap().iter().filter(|finding| finding["check"] == "forks").cloned().collect()
}

/// Returns the messages and remedies of findings.
fn text(found: &[Value]) -> String {
    found.iter().map(|finding| format!("{} {}\n", finding["message"], finding["remedy"])).collect()
}

/// Returns the names of the forks.
fn names(ws: &Workspace) -> Vec<String> {
    let forks = ws.lbx(&["fork", "list"]).envelope()["data"]["forks"].clone();
    forks.as_array().unwrap().iter().map(|fork| fork["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn gc_drops_old_forks_without_changes_and_names_the_others() {
    let Some(ws) = forked(&["changed", "ignored", "unused", "young"]) else { return };
    ws.lbx(&["fork", "committed", "--at", "../committed"]).ok();
    ws.lbx(&["fork", "copy", "--at", "../copy"]).ok();
    within(&ws, "changed", &["write", "x.txt", "--content", "x"]).ok();
    within(&ws, "ignored", &["bash", "echo x > .env"]).ok();
    let commit =
        ["-c", "user.name=n", "-c", "user.email=n@e.org", "commit", "-q", "--allow-empty", "-m", "own"];
    let mut git = std::process::Command::new("git");
    assert!(git.args(commit).current_dir(ws.outside.join("committed")).status().unwrap().success());
    for name in ["changed", "ignored", "unused", "committed", "copy"] {
        age(&ws, name);
    }
    let old = json!(["changed", "committed", "ignored"]);
    let tried = ws.lbx(&["gc", "--dry-run"]).ok();
    assert_eq!([&tried["dropped_forks"], &tried["old_forks"]], [&json!(["copy", "unused"]), &old]);
    assert_eq!(names(&ws).len(), 6);
    let done = ws.lbx(&["gc"]).ok();
    assert_eq!([&done["dropped_forks"], &done["old_forks"]], [&json!(["copy", "unused"]), &old]);
    assert_eq!(names(&ws), ["changed", "committed", "ignored", "young"]);
    assert!(!ws.outside.join("copy").exists());
    assert_eq!(within(&ws, "changed", &["read", "x.txt"]).ok()["content"], "x");
    let found = findings(&ws, &[]);
    let said = text(&found);
    assert!(said.contains("not dropped, since they hold changes: changed, committed, ignored"), "{said}");
    assert!(said.contains("Bring their changes here with lbx merge"), "{said}");
    assert!(said.contains("4 forks, 1 MiB of changes"), "{said}");
    let said = ws.lbx(&["gc", "--text"]).stderr();
    assert!(said.contains("old forks that hold changes: changed, committed, ignored"), "{said}");
}

#[test]
fn leftovers_of_killed_calls_are_found_and_removed() {
    let Some(ws) = forked(&["one"]) else { return };
    let forks = ws.path(&state("forks"));
    std::fs::create_dir_all(forks.join(".passing-0123456789abcdef/upper")).unwrap();
    std::fs::create_dir(forks.join("half")).unwrap();
    let said = text(&findings(&ws, &[]));
    assert!(said.contains("killed calls left 2 folders of forks: half"), "{said}");
    assert!(said.contains("lbx doctor --fix and lbx gc remove them"), "{said}");
    assert_eq!(ws.lbx(&["gc", "--dry-run"]).ok()["fork_leftovers"], 2);
    let fixed = findings(&ws, &["--fix"]);
    assert_eq!(fixed[0]["fixed"], true, "{fixed:?}");
    assert!(!forks.join("half").exists());
    std::fs::create_dir(forks.join("half")).unwrap();
    assert_eq!(ws.lbx(&["gc"]).ok()["fork_leftovers"], 1);
    // A copy whose call died as it dropped it; the files that it began with are the second folder.
    ws.lbx(&["fork", "copy", "--at", "../copy"]).ok();
    std::fs::rename(forks.join("copy"), forks.join(".passing-0123456789abcdef")).unwrap();
    let said = text(&findings(&ws, &[]));
    assert!(said.contains("killed calls left 2 folders of forks: copy"), "{said}");
    assert_eq!(ws.lbx(&["gc"]).ok()["fork_leftovers"], 2);
    assert!(!ws.outside.join("copy").exists());
    ws.lbx(&["fork", "copy", "--at", "../copy"]).ok();
    ws.lbx(&["fork", "drop", "copy"]).ok();
    assert_eq!(names(&ws), ["one"]);
}

#[test]
fn doctor_finds_forks_whose_folders_are_gone() {
    let Some(ws) = forked(&["one", "two"]) else { return };
    ws.lbx(&["fork", "copy", "--at", "../copy"]).ok();
    within(&ws, "one", &["write", "x.txt", "--content", "x"]).ok();
    std::fs::rename(ws.outside.join("copy"), ws.outside.join("moved")).unwrap();
    let said = text(&findings(&ws, &["--fix"]));
    assert!(said.contains("is gone") && said.contains("Move it back, or forget the fork"), "{said}");
    assert_eq!(names(&ws).len(), 3);
    // The files that it began with are lost, and its own are not.
    let record = std::fs::read(ws.path(&state("forks/one/fork.lbx"))).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    let lower = ws.outside.join("home/.local/state/lbx/forks").join(record["lower"].as_str().unwrap());
    std::fs::remove_dir_all(lower).unwrap();
    let said = text(&findings(&ws, &["--fix"]));
    assert!(said.contains("the fork one cannot be used") && said.contains("Its changes are in"), "{said}");
    assert!(ws.path(&state("forks/one/upper/x.txt")).exists());
    ws.lbx(&["fork", "drop", "one"]).ok();
    // As `git clean -xdf` would.
    std::fs::remove_dir_all(ws.path(&state("forks/two"))).unwrap();
    let said = text(&findings(&ws, &[]));
    assert!(said.contains("the folders of these forks are gone: two of"), "{said}");
    assert!(said.contains("lbx sandbox remove frees a name"), "{said}");
    findings(&ws, &["--fix"]);
    assert_eq!(text(&findings(&ws, &[])).matches("gone: two").count(), 0);
    ws.lbx(&["fork", "two"]).ok();
}

#[test]
fn number_of_forks_is_bounded() {
    let Some(ws) = forked(&["first"]) else { return };
    let made =
        (0..100).map(|number| ws.lbx(&["fork", &format!("f{number}")])).find(|answer| answer.status() != 0);
    let error = made.unwrap().error("too_large");
    assert_eq!(error["message"], "there are 64 forks already");
    let said = text(&findings(&ws, &[]));
    assert!(said.contains("there are 64 forks, and there can be no more"), "{said}");
    assert!(said.contains("Merge or drop some: lbx fork list shows them."), "{said}");
}

#[test]
fn fork_of_a_newer_version_is_named_and_left_alone() {
    let Some(ws) = forked(&["one", "two"]) else { return };
    within(&ws, "one", &["write", "x.txt", "--content", "x\n"]).ok();
    ws.lbx(&["append", "src/b.txt", "--content", "changed\n"]).ok();
    let record = ws.path(&state("forks/one/fork.lbx"));
    let text = std::fs::read_to_string(&record).unwrap();
    let lowers = ws.outside.join("home/.local/state/lbx/forks");
    let kept = std::fs::read_dir(&lowers).unwrap().count();
    std::fs::write(&record, text.replace("\"version\":1", "\"version\":99")).unwrap();
    for call in [&["fork", "diff", "one"][..], &["merge", "one"], &["fork", "drop", "one"]] {
        let error = ws.lbx(call).error("io_error");
        assert_eq!(error["message"], "the fork one was written by a newer lbx", "{call:?}");
        assert!(error["suggested_action"].as_str().unwrap().contains("this one leaves it as it is"));
    }
    // Other calls work, and remove nothing that it may need.
    ws.lbx(&["fork", "drop", "two"]).ok();
    ws.lbx(&["gc"]).envelope();
    assert_eq!(std::fs::read_dir(&lowers).unwrap().count(), kept);
    std::fs::write(&record, text).unwrap();
    assert_eq!(shell(&ws, "one", "cat x.txt src/b.txt"), "x\nb\n");
    ws.lbx(&["fork", "drop", "one"]).ok();
    assert_eq!(std::fs::read_dir(&lowers).unwrap().count(), 0);
}
