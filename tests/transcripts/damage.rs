//! Damage after a power failure if nothing was synced: empty objects, refs and records. Changes continue, `doctor`
//! reports the damage, and its remedy works.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{Workspace, state};

/// Makes three changes in a workspace, with or without a repository.
fn changed(ws: Workspace) -> Workspace {
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "one", "--new-string", "two"]).ok();
    ws.lbx(&["edit", "a.txt", "--old-string", "two", "--new-string", "three"]).ok();
    ws.lbx(&["write", "new.txt", "--content", "new\n"]).ok();
    ws
}

/// Empties a file that is read-only.
fn empty(path: &Path) {
    let _ = fs::remove_file(path);
    fs::write(path, "").unwrap();
}

/// Returns the file of an object, by a revision.
fn object(ws: &Workspace, revision: &str) -> PathBuf {
    let id = ws.git(&["rev-parse", revision]).trim().to_owned();
    ws.path(&format!(".git/objects/{}/{}", &id[..2], &id[2..]))
}

/// Returns the finding of `doctor` about the snapshots: its level, message and remedy.
fn snapshots(ws: &Workspace) -> (String, String, String) {
    let data = ws.lbx(&["doctor"]).ok();
    let findings = data["findings"].as_array().unwrap();
    let found = findings.iter().find(|found| found["check"] == "snapshots").unwrap();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("level"), text("message"), text("remedy"))
}

/// Returns the finding of `doctor` about the journal.
fn journal(ws: &Workspace) -> Option<Value> {
    let data = ws.lbx(&["doctor"]).ok();
    data["findings"].as_array().unwrap().iter().find(|found| found["check"] == "journal").cloned()
}

/// Returns the git command that a remedy has in backticks.
fn command(remedy: &str) -> Vec<&str> {
    remedy.split('`').find(|text| text.starts_with("git ")).unwrap().split(' ').skip(1).collect()
}

/// Returns the report of `doctor --fix` about the snapshots: if they are repaired, and how.
fn fixed(ws: &Workspace) -> (bool, String) {
    let data = ws.lbx(&["doctor", "--fix"]).ok();
    let findings = data["findings"].as_array().unwrap();
    let found = findings.iter().find(|found| found["check"] == "snapshots").unwrap();
    (found["fixed"] == true, found["remedy"].as_str().unwrap_or_default().to_owned())
}

/// Returns the bytes that a repair has saved under names with this prefix.
fn kept(ws: &Workspace, name: &str) -> Vec<Vec<u8>> {
    let folder = ws.path(&state("damaged"));
    let entries = fs::read_dir(folder).map(|all| all.map(|entry| entry.unwrap().path()).collect());
    let paths: Vec<PathBuf> = entries.unwrap_or_default();
    let is_one = |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(name);
    paths.iter().filter(is_one).map(|path| fs::read(path).unwrap()).collect()
}

/// Damages a file as a power failure or a person does.
fn harm(path: &Path, how: &str) {
    let size = fs::metadata(path).unwrap().len();
    fs::remove_file(path).unwrap();
    match how {
        "empty" => fs::write(path, "").unwrap(),
        "zeros" => fs::write(path, vec![0; usize::try_from(size).unwrap()]).unwrap(),
        _ => {}
    }
}

/// Returns the errors that git finds in the repository.
fn fsck(ws: &Workspace) -> String {
    ws.git(&["fsck", "--no-dangling", "--no-progress"])
}

/// Kinds of damage to a file.
const HARMS: [&str; 3] = ["empty", "zeros", "gone"];

#[test]
fn damaged_snapshot_blocks_no_change_and_has_a_remedy() {
    for revision in ["lbx-snapshots", "lbx-snapshots^{tree}", "lbx-snapshots:new.txt", "lbx-snapshots~1"] {
        let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
        assert_eq!(snapshots(&ws).0, "ok");
        empty(&object(&ws, revision));
        let (level, message, remedy) = snapshots(&ws);
        assert_eq!(level, "problem", "{revision}");
        assert!(message.starts_with("the newest snapshot of lbx-snapshots is damaged: "), "{message}");
        assert!(
            remedy
                .contains("`lbx doctor --fix` repairs what can be proven. By hand, in the workspace: `git "),
            "{remedy}"
        );
        let change = |old: &str, new: &str| {
            let edit = ["edit", "a.txt", "--old-string", old, "--new-string", new];
            assert!(ws.lbx(&edit).success()["snapshot"].is_string(), "{revision}");
            ws.lbx(&["undo"]).success();
            ws.lbx(&["redo"]).success();
            ws.holds("a.txt", format!("{new}\n"));
        };
        change("three", "four");
        ws.git(&command(&remedy));
        assert_eq!(snapshots(&ws).0, "ok", "{revision}");
        change("four", "five");
        assert_eq!(snapshots(&ws).0, "ok", "{revision}");
        assert!(ws.git(&["log", "--format=%s", "lbx-snapshots"]).contains("edit: a.txt"));
        assert_eq!(ws.git(&["show", "lbx-snapshots:a.txt"]), "five");
        ws.git(&["fsck", "--connectivity-only", "lbx-snapshots"]);
    }
}

#[test]
fn doctor_remedy_repairs_an_empty_ref() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    let tip = ws.git(&["rev-parse", "lbx-snapshots"]);
    let reference = ws.path(".git/refs/heads/lbx-snapshots");
    empty(&reference);
    let (level, message, remedy) = snapshots(&ws);
    assert_eq!(level, "problem");
    assert!(message.contains("the snapshot branch `lbx-snapshots` cannot be read"), "{message}");
    let aside = format!("move {} aside, then", reference.canonicalize().unwrap().display());
    assert!(remedy.contains(&aside), "{remedy}");
    let edit = ["edit", "a.txt", "--old-string", "three", "--new-string", "four"];
    ws.lbx(&edit).warned("the snapshot branch `lbx-snapshots` cannot be read");
    fs::rename(&reference, ws.path("aside")).unwrap();
    ws.git(&command(&remedy));
    assert_eq!((snapshots(&ws).0.as_str(), ws.git(&["rev-parse", "lbx-snapshots"])), ("ok", tip));
}

#[test]
fn doctor_remedy_replaces_a_damaged_private_repository() {
    let ws = changed(Workspace::bare(&[("a.txt", "one\n")]));
    let reference = ws.path(&state("repo.git/refs/heads/lbx-snapshots"));
    let id = fs::read_to_string(&reference).unwrap();
    let folder = ws.path(&state("repo.git"));
    empty(&folder.join("objects").join(&id[..2]).join(id[2..].trim()));
    let (level, _, remedy) = snapshots(&ws);
    let moved = format!("move {} aside: the next change begins a new one.", state("repo.git"));
    assert!(level == "problem" && remedy.ends_with(&moved), "{level}: {remedy}");
    ws.lbx(&["edit", "a.txt", "--old-string", "three", "--new-string", "four"]).warned("no snapshot: ");
    fs::rename(&folder, ws.path("aside.git")).unwrap();
    let edit = ["edit", "a.txt", "--old-string", "four", "--new-string", "five"];
    assert!(ws.lbx(&edit).success()["snapshot"].is_string());
    assert_eq!(snapshots(&ws).0, "ok");
    ws.lbx(&["undo", "--steps", "4"]).ok();
    ws.holds("a.txt", "two\n");
}

#[test]
fn log_shows_readable_snapshots_with_a_warning() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    empty(&object(&ws, "lbx-snapshots:new.txt"));
    let listed = ws.lbx(&["log"]).ok()["snapshots"].as_array().unwrap().len();
    assert_eq!(listed, 3);
    ws.lbx(&["write", "b.txt", "--content", "b\n"]).ok();
    empty(&object(&ws, "lbx-snapshots~2"));
    let data = ws.lbx(&["log"]).warned("older snapshots cannot be read (");
    assert_eq!(data["snapshots"].as_array().unwrap().len(), 1);
}

#[test]
fn doctor_explains_an_unusable_repository() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    ws.git(&["branch", "-m", "lbx-snapshots", "other"]);
    ws.git(&["symbolic-ref", "refs/heads/lbx-snapshots", "refs/heads/other"]);
    let edit = ["edit", "a.txt", "--old-string", "three", "--new-string", "four"];
    ws.lbx(&edit).warned("is a symbolic reference to another");
    let (_, message, remedy) = snapshots(&ws);
    assert!(message.contains("is a symbolic reference to another"), "{message}");
    assert!(remedy.contains(" aside, then `git update-ref refs/heads/lbx-snapshots "), "{remedy}");
    fs::write(ws.path(".git/HEAD"), "").unwrap();
    fs::remove_file(ws.path(".git/refs/heads/lbx-snapshots")).unwrap();
    fs::remove_file(ws.path(".git/logs/refs/heads/lbx-snapshots")).unwrap();
    let (level, message, remedy) = snapshots(&ws);
    assert!(level == "notice" && message.starts_with("snapshots go to the private repository"), "{message}");
    assert!(remedy.starts_with("Snapshots are still made; repair or allow"), "{remedy}");
}

#[test]
fn undo_stops_at_a_damaged_journal_record_and_names_it() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    assert_eq!(journal(&ws), None);
    let before = ws.git(&["rev-parse", "lbx-snapshots~2"]).trim().to_owned();
    empty(&ws.path(&state("journal/done/default/00000003.lbx")));
    let found = journal(&ws).unwrap();
    assert_eq!(found["level"], "notice");
    let message = "the records of 1 change of session default are damaged: #3";
    assert_eq!(found["message"], message);
    assert!(found["remedy"].as_str().unwrap().starts_with("Undo stops at them. `lbx log`"), "{found}");
    let warning = "skipped #3, whose record in the journal is damaged: `log` finds its snapshot";
    ws.lbx(&["rewind", &before]).warned(warning);
    let error = ws.unchanged(|| ws.lbx(&["undo"]).error("not_found"));
    assert_eq!(error["message"], "change #3 cannot be undone: its record in the journal is damaged");
    let named = ws.unchanged(|| ws.lbx(&["undo", "--seq", "3"]).error("not_found"));
    assert_eq!(named["message"], error["message"]);
    ws.lbx(&["undo", "--seq", "2"]).ok();
    ws.holds("a.txt", "two\n");
    ws.holds("new.txt", "new\n");
    assert_eq!(ws.lbx(&["write", "b.txt", "--content", "b\n"]).status(), 0);
}

#[test]
fn a_change_whose_record_was_edited_is_not_undone() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    let record = ws.path(&state("journal/done/default/00000003.lbx"));
    let text = fs::read_to_string(&record).unwrap();
    assert!(text.contains("new.txt"));
    // As `find . -type f | xargs sed -i s/new.txt/other.txt/` does.
    fs::write(&record, text.replace("new.txt", "other.txt")).unwrap();
    assert_eq!(
        journal(&ws).unwrap()["message"],
        "the records of 1 change of session default are damaged: #3"
    );
    let error = ws.unchanged(|| ws.lbx(&["undo"]).error("not_found"));
    assert_eq!(error["details"]["seq"], 3);
}

#[test]
fn undo_without_a_readable_record_reports_the_damage() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    empty(&ws.path(&state("journal/done/default/00000001.lbx")));
    let error = ws.lbx(&["undo"]).error("not_found");
    let message = "session default has nothing to undo: skipped #1, whose record in the journal is damaged";
    assert_eq!(error["message"], message);
    assert!(error["suggested_action"].as_str().unwrap().contains("shows the snapshots"), "{error}");
}

#[test]
fn empty_state_files_lose_no_bytes() {
    let edit = ["edit", "a.txt", "--old-string", "three", "--new-string", "four"];
    for file in ["sessions/default.lbx", "audit/head", "audit/current.jsonl", "calls/current"] {
        let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
        empty(&ws.path(&state(file)));
        if file.starts_with("sessions") {
            // The read records are lost, and the gate says so.
            ws.lbx(&edit).error("not_read");
            ws.lbx(&["read", "a.txt"]).ok();
        }
        assert!(ws.lbx(&edit).success()["snapshot"].is_string(), "{file}");
        ws.lbx(&["undo"]).ok();
        ws.holds("a.txt", "three\n");
        if file == "audit/current.jsonl" {
            ws.lbx(&["audit", "--verify"]).error("verification_failed");
        }
    }
}

#[test]
fn doctor_fix_resets_to_the_newest_intact_snapshot() {
    for revision in ["lbx-snapshots", "lbx-snapshots^{tree}"] {
        for how in HARMS {
            let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
            let (tip, before) =
                (ws.git(&["rev-parse", "lbx-snapshots"]), ws.git(&["rev-parse", "lbx-snapshots~1"]));
            harm(&object(&ws, revision), how);
            if how == "gone" {
                // As after `git prune`: any call mends that.
                ws.lbx(&["doctor", "--fix"]).warned(&format!("lbx-snapshots went back to {}", before.trim()));
                assert_eq!((fsck(&ws).as_str(), snapshots(&ws).0.as_str()), ("", "ok"), "{revision}");
                assert_eq!(ws.git(&["show", "lbx-snapshots:new.txt"]), "new", "{revision}");
                continue;
            }
            let (is_fixed, said) = fixed(&ws);
            assert!(is_fixed && said.contains(&format!("branch is at {}", before.trim())), "{said}");
            assert!(said.contains(&format!("is kept in {}", state("damaged"))), "{said}");
            assert_eq!(ws.git(&["rev-parse", "lbx-snapshots"]), before, "{revision} {how}");
            assert_eq!(kept(&ws, "branch"), [format!("{tip}\n").as_bytes()], "{revision} {how}");
            let of_commit = kept(&ws, "object").iter().any(|bytes| bytes.starts_with(b"x"));
            assert_eq!(of_commit, revision.ends_with('}'), "{revision} {how}");
            assert_eq!((fsck(&ws).as_str(), snapshots(&ws).0.as_str()), ("", "ok"), "{revision} {how}");
            // The content of the lost snapshot is recorded again.
            ws.lbx(&["snapshot"]).ok();
            assert_eq!(ws.git(&["show", "lbx-snapshots:new.txt"]), "new");
            ws.lbx(&["edit", "a.txt", "--old-string", "three", "--new-string", "four"]).ok();
            assert_eq!(fsck(&ws), "", "{revision} {how}");
        }
    }
}

#[test]
fn doctor_fix_rewrites_a_damaged_blob_from_the_work_tree() {
    for how in HARMS {
        let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
        let tip = ws.git(&["rev-parse", "lbx-snapshots"]);
        harm(&object(&ws, "lbx-snapshots:new.txt"), how);
        // Damage remains when newer snapshots are on top of it.
        if how == "zeros" {
            ws.lbx(&["append", "a.txt", "--content", "more\n"]).success();
            assert_eq!(snapshots(&ws).0, "problem");
        }
        let (is_fixed, said) = fixed(&ws);
        assert!(is_fixed && said.contains("1 object written again from your files"), "{said}");
        assert_eq!(ws.git(&["show", "lbx-snapshots:new.txt"]), "new");
        assert_eq!(ws.git(&["rev-parse", "lbx-snapshots"]) == tip, how != "zeros");
        assert_eq!((fsck(&ws).as_str(), snapshots(&ws).0.as_str()), ("", "ok"), "{how}");
    }
}

#[test]
fn doctor_fix_resets_a_damaged_or_missing_branch() {
    for how in HARMS {
        for has_log in [true, false] {
            let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
            let tip = ws.git(&["rev-parse", "lbx-snapshots"]);
            harm(&ws.path(".git/refs/heads/lbx-snapshots"), how);
            if !has_log {
                if how == "gone" {
                    continue; // as git removes a branch
                }
                // The audit log names the snapshots too.
                harm(&ws.path(".git/logs/refs/heads/lbx-snapshots"), how);
            }
            assert_eq!(snapshots(&ws).0, "problem", "{how}");
            let (is_fixed, said) = fixed(&ws);
            assert!(is_fixed && said.contains(&format!("branch is at {}", tip.trim())), "{said}");
            assert_eq!(ws.git(&["rev-parse", "lbx-snapshots"]), tip, "{how} {has_log}");
            assert_eq!((fsck(&ws).as_str(), snapshots(&ws).0.as_str()), ("", "ok"), "{how} {has_log}");
        }
    }
}

#[test]
fn doctor_fix_repairs_a_private_repository() {
    let ws = changed(Workspace::bare(&[("a.txt", "one\n")]));
    let reference = ws.path(&state("repo.git/refs/heads/lbx-snapshots"));
    let id = fs::read_to_string(&reference).unwrap();
    let folder = ws.path(&state("repo.git"));
    harm(&folder.join("objects").join(&id[..2]).join(id[2..].trim()), "zeros");
    assert!(fixed(&ws).0);
    assert_eq!(snapshots(&ws).0, "ok");
    let edit = ["edit", "a.txt", "--old-string", "three", "--new-string", "four"];
    assert!(ws.lbx(&edit).success()["snapshot"].is_string());
}

#[test]
fn doctor_fix_changes_nothing_without_an_intact_snapshot() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    let tip = ws.git(&["rev-parse", "lbx-snapshots"]);
    for id in ws.git(&["rev-list", "--first-parent", "-3", "lbx-snapshots"]).lines() {
        harm(&ws.path(&format!(".git/objects/{}/{}", &id[..2], &id[2..])), "gone");
    }
    let (is_fixed, said) = fixed(&ws);
    assert!(!is_fixed && said.contains("No whole snapshot is known"), "{said}");
    assert_eq!(fs::read_to_string(ws.path(".git/refs/heads/lbx-snapshots")).unwrap().trim(), tip);
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).warned("`lbx doctor` says what to do");
}

#[test]
fn change_warns_about_a_vanished_snapshot_branch() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    let tip = ws.git(&["rev-parse", "lbx-snapshots"]);
    fs::remove_file(ws.path(".git/refs/heads/lbx-snapshots")).unwrap();
    let told = format!("its reflog shows it at {}", tip.trim());
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).warned(&told);
    // A branch that git removed is not damaged.
    ws.git(&["branch", "-D", "lbx-snapshots"]);
    assert_eq!(snapshots(&ws).0, "ok");
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
}

#[test]
fn doctor_names_damage_that_git_must_repair() {
    let ws = changed(Workspace::with(&[("a.txt", "one\n")]));
    ws.git(&["branch", "other"]);
    let repository = || {
        let data = ws.lbx(&["doctor"]).ok();
        let found = data["findings"].as_array().unwrap().iter().find(|found| found["check"] == "repository");
        found.map(|found| {
            let remedy = found["remedy"].as_str().unwrap();
            assert!(remedy.contains("repair it with git: `git fsck` names what is damaged"), "{found}");
            found["message"].as_str().unwrap().to_owned()
        })
    };
    assert_eq!(repository(), None);
    harm(&ws.path(".git/refs/heads/other"), "zeros");
    assert_eq!(repository().unwrap(), "the reference `refs/heads/other` is not in git's format");
    harm(&ws.path(".git/refs/heads/other"), "gone");
    assert_eq!(repository().unwrap(), "the reference `refs/heads/other` is missing, though its log is there");
    ws.git(&["branch", "other"]);
    fs::write(ws.path(".git/packed-refs"), vec![0; 100]).unwrap();
    assert_eq!(repository().unwrap(), "`packed-refs` is not in git's format");
    fs::remove_file(ws.path(".git/packed-refs")).unwrap();
    harm(&ws.path(".git/index"), "zeros");
    assert_eq!(repository().unwrap(), "the index cannot be read");
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).success();
}

#[test]
fn git_clean_leaves_the_lbx_state_alone() {
    let ws = Workspace::with(&[("a.txt", "a\n"), (".gitignore", "build/\n")]);
    ws.write("build/out", "out\n");
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
    assert_eq!(ws.git(&["status", "--short"]), " M a.txt");
    let said = ws.git(&["clean", "-xdf"]);
    assert!(said.contains("Skipping repository") && !ws.path("build").exists(), "{said}");
    ws.lbx(&["undo"]).ok();
    ws.holds("a.txt", "a\n");
    // git no longer sees any of it.
    assert_eq!(ws.git(&["status", "--short"]), "");
    ws.git(&["add", "-A"]);
    ws.git(&["fsck", "--no-dangling"]);
    // None of its files has a name that formatters and linters treat as source code.
    let mut folders = vec![ws.path(".lbx")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
            let extension = entry.path().extension().map(|it| it.to_str().unwrap().to_owned());
            let theirs = ["json", "yaml", "yml", "md", "js", "ts", "css", "html", "toml", "sh", "py"];
            assert!(!extension.is_some_and(|it| theirs.contains(&it.as_str())), "{}", entry.path().display());
        }
    }
}
