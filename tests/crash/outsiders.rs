//! Changes that are killed half-way, with files that another program changes before the next call. No entry blocks that
//! call, nobody's bytes are lost, and a warning says where they are.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::common::skip::{self, can_trace};
use crate::common::{LBX, STATE_ID, Standing, Workspace, state};
use crate::inject::{each, kill_at, points, run_delayed_at_sync, run_with_slow_renames, sample};
use crate::judge::{Sides, Tree, files_below, must_be_tidy};
use crate::killed::CHANGING;
use crate::scenarios::{self, Scenario};

/// Tries in each scenario, unless all are.
const TRIES: usize = 10;
/// Bytes that an outsider writes.
const FOREIGN: &[u8] = b"someone else's\n";

/// Action of an outsider on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    /// Removes the entry at the path.
    Removes,
    /// Creates a file.
    File,
    /// Creates a folder with a file in it.
    Folder,
    /// Creates a repository.
    Repository,
    /// Creates a symlink.
    Link,
}

/// All actions.
const DEEDS: [Deed; 5] = [Deed::Removes, Deed::File, Deed::Folder, Deed::Repository, Deed::Link];

impl Deed {
    /// Does it.
    fn to(self, path: &Path) {
        let stands = fs::symlink_metadata(path);
        if self == Self::Repository && stands.as_ref().is_ok_and(fs::Metadata::is_dir) {
            repository(path);
            return;
        }
        match stands {
            Ok(stat) if stat.is_dir() => fs::remove_dir_all(path).unwrap(),
            Ok(_) => fs::remove_file(path).unwrap(),
            Err(_) => {}
        }
        if self == Self::Removes || !path.parent().unwrap().is_dir() {
            return;
        }
        match self {
            Self::Removes => {}
            Self::File => fs::write(path, FOREIGN).unwrap(),
            Self::Folder => {
                fs::create_dir(path).unwrap();
                fs::write(path.join("theirs"), FOREIGN).unwrap();
            }
            Self::Repository => {
                fs::create_dir(path).unwrap();
                repository(path);
            }
            Self::Link => std::os::unix::fs::symlink("other.txt", path).unwrap(),
        }
    }
}

/// Turns a folder into a repository.
fn repository(path: &Path) {
    let git = path.join(".git");
    fs::create_dir_all(git.join("objects")).unwrap();
    fs::create_dir_all(git.join("refs")).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
}

/// Returns the open journal entries of a workspace.
fn open_entries(ws: &Workspace) -> Vec<PathBuf> {
    let listing = fs::read_dir(ws.path(&state("journal/open")));
    let paths = listing.into_iter().flatten().map(|entry| entry.unwrap().path());
    paths.filter(|path| !path.file_name().unwrap().to_str().unwrap().starts_with('.')).collect()
}

/// Returns the warnings of an answer, as one text.
fn warnings(answer: &Value) -> String {
    answer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Checks that the next calls on other paths work, nothing stays open, and the session involved gets a warning.
fn next_calls_must_work(ws: &Workspace) -> Result<(), String> {
    let append = |number: usize| {
        let text = format!("next {number}\n");
        ws.lbx(&["append", "other.txt", "--content", &text, "--session", "next"]).envelope()
    };
    let first = append(1);
    if first["ok"] != true {
        return Err(format!("the next call answers {first}"));
    }
    if !open_entries(ws).is_empty() {
        return Err(format!("still open: {:?}", open_entries(ws)));
    }
    let stuck = ws.path(&state("journal/stuck"));
    let is_stuck = fs::read_dir(&stuck).is_ok_and(|mut listing| listing.next().is_some());
    if is_stuck != warnings(&first).contains("journal/stuck/") {
        return Err(format!("stuck: {is_stuck}, and the answer is {first}"));
    }
    let second = append(2);
    if second["ok"] != true || second.get("warnings").is_some() {
        return Err(format!("the call after it answers {second}"));
    }
    Ok(())
}

/// Returns the bytes of every file of a workspace, including the state, and of the files in journal entries.
fn all_bytes(ws: &Workspace) -> BTreeSet<Vec<u8>> {
    let files: Vec<Vec<u8>> = files_below(&ws.root).iter().filter_map(|path| fs::read(path).ok()).collect();
    let entries = files.iter().filter_map(|bytes| {
        let json = bytes.split(|byte| *byte == b'\n').next()?;
        serde_json::from_slice::<Value>(json).ok()
    });
    let held: Vec<Vec<u8>> = entries
        .flat_map(|entry| entry["kept"].as_array().cloned().unwrap_or_default())
        .filter_map(|kept| STANDARD.decode(kept["base64"].as_str()?).ok())
        .collect();
    files.into_iter().chain(held).collect()
}

/// Kills a change, lets an outsider act, and checks what the next calls leave.
fn check(
    scenario: &Scenario,
    sides: &Sides,
    half_way: &Workspace,
    path: &Path,
    deed: Deed,
) -> Result<(), String> {
    let ws = half_way.copy();
    // Bytes that the outsider itself destroys need not be kept.
    let doomed: BTreeSet<Vec<u8>> = below(&ws.tree(), path);
    deed.to(&ws.root.join(path));
    let theirs = ws.tree();
    next_calls_must_work(&ws)?;
    let kept = all_bytes(&ws);
    for (file, (kind, _, bytes)) in &sides.before {
        if *kind == 'f' && !doomed.contains(bytes) && !kept.contains(bytes) && file != Path::new("other.txt")
        {
            return Err(format!("{}: the bytes of {} are lost", scenario.name, file.display()));
        }
    }
    let has_foreign = theirs.values().any(|(_, _, bytes)| bytes == FOREIGN);
    if has_foreign && !kept.contains(FOREIGN) {
        return Err(format!("{}: {deed:?} at {} is lost", scenario.name, path.display()));
    }
    Ok(())
}

/// Returns the bytes of the files at or below a path.
fn below(tree: &Tree, path: &Path) -> BTreeSet<Vec<u8>> {
    let inner =
        tree.iter().filter(|(at, (kind, ..)): &(&PathBuf, &Standing)| *kind == 'f' && at.starts_with(path));
    inner.map(|(_, (_, _, bytes))| bytes.clone()).collect()
}

#[test]
fn other_programs_cannot_break_recovery_of_a_killed_change() {
    if !can_trace() {
        return;
    }
    let mut judged = Vec::new();
    for scenario in scenarios::all() {
        let sides = Sides::of(&scenario.before, &scenario.arguments());
        let all = points(&scenario.before.copy(), CHANGING, &scenario.arguments());
        let killed = all.into_iter().filter_map(|point| {
            let ws = scenario.before.copy();
            kill_at(&ws, &point, &scenario.arguments());
            (!open_entries(&ws).is_empty()).then_some(ws)
        });
        let half_way: Vec<Workspace> = sample(killed.collect(), 6);
        judged.push((scenario, sides, half_way));
    }
    let mut tries = Vec::new();
    for (scenario, sides, half_way) in &judged {
        let paths: BTreeSet<&PathBuf> = sides
            .before
            .keys()
            .chain(sides.after.keys())
            .filter(|path| sides.before.get(*path) != sides.after.get(*path))
            .collect();
        let all = half_way.iter().flat_map(|ws| paths.iter().map(move |path| (ws, *path)));
        let all: Vec<_> =
            all.flat_map(|(ws, path)| DEEDS.map(|deed| (scenario, sides, ws, path, deed))).collect();
        tries.extend(sample(all, TRIES));
    }
    eprintln!("{} meddlings with {} changes", tries.len(), judged.len());
    let wrong = each(&tries, |(scenario, sides, ws, path, deed)| {
        check(scenario, sides, ws, path, *deed)
            .map_err(|what| format!("{}, {} {deed:?}: {what}", scenario.name, path.display()))
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), tries.len(), wrong.join("\n"));
}

/// Returns a workspace in which a change was killed as late as `is_before` still holds, with its entry open.
fn killed_before(ws: &Workspace, call: &[&str], is_before: impl Fn(&Workspace) -> bool) -> Workspace {
    let mut last = None;
    for point in points(&ws.copy(), CHANGING, call) {
        let copy = ws.copy();
        kill_at(&copy, &point, call);
        if !open_entries(&copy).is_empty() && is_before(&copy) {
            last = Some(copy);
        }
    }
    last.unwrap_or_else(|| panic!("{call:?}: no kill leaves an open entry"))
}

#[test]
fn removed_folder_of_a_killed_write_is_recreated() {
    if !can_trace() {
        return;
    }
    let ws = Workspace::with(&[("other.txt", "other\n")]);
    let call = ["write", "d/n", "--content", "new\n"];
    let ws = killed_before(&ws, &call, |ws| ws.path("d").exists() && !ws.path("d/n").exists());
    fs::remove_dir(ws.path("d")).unwrap();
    ws.lbx(&["append", "other.txt", "--content", "more\n"]).ok();
    // It had not begun, so it is completed.
    ws.holds("d/n", "new\n");
}

/// The trash takes what was deleted, and nothing that others wrote after the call died.
#[test]
fn killed_delete_takes_nothing_that_came_later() {
    if !can_trace() {
        return;
    }
    let cases: [(&str, &[&str], &str, &[u8]); 4] = [
        ("d", &["delete", "d", "--recursive"], "d/theirs", FOREIGN),
        ("d", &["delete", "d", "--recursive"], "d/in", FOREIGN),
        ("f", &["delete", "f"], "f", FOREIGN),
        // Two things, of which one is in the trash already.
        ("d", &["delete", "f", "d", "--recursive"], "d/theirs", FOREIGN),
    ];
    for (deleted, call, path, bytes) in cases {
        let ws = Workspace::with(&[("d/in", "in\n"), ("f", "f\n"), ("other.txt", "other\n")]);
        let ws = killed_before(&ws, call, |ws| ws.path(deleted).exists());
        let mut file = fs::OpenOptions::new().create(true).append(true).open(ws.path(path)).unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
        let before = ws.tree();
        ws.lbx(&["append", "other.txt", "--content", "more\n"]).ok();
        assert_eq!(fs::read(ws.path(path)).unwrap(), before[Path::new(path)].2, "{call:?}");
        ws.holds("f", if path == "f" { "f\nsomeone else's\n" } else { "f\n" });
        must_be_tidy(&ws).unwrap();
        assert_eq!(ws.lbx(&["trash"]).success()["data"]["entries"], serde_json::json!([]), "{call:?}");
    }
}

#[test]
fn repository_at_a_killed_move_target_blocks_no_call() {
    if !can_trace() {
        return;
    }
    let ws = Workspace::with(&[("a/in.txt", "in\n"), ("other.txt", "other\n")]);
    let ws = killed_before(&ws, &["move", "a", "b"], |ws| !ws.path("b").exists());
    fs::create_dir(ws.path("b")).unwrap();
    repository(&ws.path("b"));
    let answer = ws.lbx(&["append", "other.txt", "--content", "more\n"]).envelope();
    assert_eq!(answer["ok"], true, "{answer}");
    assert!(warnings(&answer).contains("move: a -> b"), "{answer}");
    ws.holds("a/in.txt", "in\n");
    ws.lbx(&["append", "other.txt", "--content", "more\n"]).ok();
    ws.lbx(&["undo"]).ok();
}

#[test]
fn read_completes_a_killed_patch() {
    if !can_trace() {
        return;
    }
    let scenario = scenarios::all().into_iter().find(|scenario| scenario.name == "patch");
    let Some(scenario) = scenario else { return };
    let sides = Sides::of(&scenario.before, &scenario.arguments());
    let all = points(&scenario.before.copy(), CHANGING, &scenario.arguments());
    let mut torn = 0;
    for point in all {
        let ws = scenario.before.copy();
        kill_at(&ws, &point, &scenario.arguments());
        if ws.tree() == sides.before || ws.tree() == sides.after {
            continue;
        }
        torn += 1;
        ws.lbx(&["read", "other.txt", "--session", "reader"]).ok();
        assert_eq!(ws.tree(), sides.after, "{point:?}");
    }
    assert!(torn > 1, "no kill leaves the patch half done");
}

#[test]
fn unreadable_open_entry_blocks_no_call() {
    if !can_trace() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "a\n"), ("other.txt", "other\n")]);
    let call = ["prepend", "a.txt", "--content", "b\n"];
    let half_way = killed_before(&ws, &call, |ws| ws.read_bytes("a.txt") == b"a\n");
    let [open] = open_entries(&half_way).try_into().unwrap();
    let text = fs::read_to_string(&open).unwrap();
    let name = open.file_name().unwrap().to_str().unwrap().to_owned();
    let damages = [
        String::new(),
        text[..text.len() / 2].to_owned(),
        "\0".repeat(text.len()),
        text.replace("a.txt", "../a.txt"),
        text.replace("\"session\":\"default\"", "\"session\":\"../../x\""),
        text.replace("staging/", "sessions/"),
    ];
    for damaged in damages {
        let ws = half_way.copy();
        fs::write(ws.path(&state(&format!("journal/open/{name}"))), damaged).unwrap();
        next_calls_must_work(&ws).unwrap();
        assert!(ws.path(&state(&format!("journal/stuck/{name}"))).exists());
        assert!(all_bytes(&ws).contains(&b"b\na\n"[..]), "the new bytes are there");
        ws.holds("a.txt", "a\n");
        // A person has to look at it, and gc leaves it.
        ws.lbx(&["gc", "--keep-days", "0"]).ok();
        assert!(ws.path(&state(&format!("journal/stuck/{name}"))).exists());
    }
    let ws = half_way;
    fs::write(
        ws.path(&state(&format!("journal/open/{name}"))),
        text.replacen("\"version\":3", "\"version\":99", 1),
    )
    .unwrap();
    for _ in 0..2 {
        let answer = ws.lbx(&["append", "other.txt", "--content", "more\n"]).envelope();
        assert_eq!(answer["ok"], true, "{answer}");
        assert!(warnings(&answer).contains(&name), "{answer}");
        assert_eq!(open_entries(&ws).len(), 1, "it is left as it is");
        assert!(all_bytes(&ws).contains(&b"b\na\n"[..]), "and so are its bytes");
    }
    let error = ws.lbx(&["gc", "--keep-days", "0"]).error("io_error");
    assert!(error["message"].as_str().unwrap().contains(&name), "{error}");
}

/// Renames an open entry to the name that it had before it was in force, as a power failure may do.
fn unpublish_entry(ws: &Workspace) -> PathBuf {
    let [open] = open_entries(ws).try_into().unwrap();
    let unpublished = open.with_file_name(format!(".{}", open.file_name().unwrap().to_str().unwrap()));
    fs::rename(&open, &unpublished).unwrap();
    unpublished
}

#[test]
fn unpublished_entry_counts_only_if_its_change_began() {
    if !can_trace() {
        return;
    }
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+b\n*** Update File: c.txt\n@@\n-c\n+d\n*** End Patch\n";
    let ws = Workspace::with(&[("a.txt", "a\n"), ("c.txt", "c\n"), ("other.txt", "other\n")]);
    ws.lbx(&["append", "other.txt", "--content", "more\n"]).ok();
    for path in ["a.txt", "c.txt"] {
        ws.lbx(&["read", path]).ok();
    }
    let call = ["patch", "--patch", patch];
    let begun = killed_before(&ws, &call, |ws| ws.read_bytes("c.txt") == b"c\n");
    begun.holds("a.txt", "b\n");
    unpublish_entry(&begun);
    next_calls_must_work(&begun).unwrap();
    begun.holds("c.txt", "d\n");
    begun.lbx(&["undo"]).ok();
    begun.holds("a.txt", "a\n");
    let not_begun = killed_before(&ws, &call, |ws| ws.read_bytes("a.txt") == b"a\n");
    for text in ["whole", "half", "empty", "zeros", "newer"] {
        let ws = not_begun.copy();
        let entry = unpublish_entry(&ws);
        let whole = fs::read_to_string(&entry).unwrap();
        let torn = match text {
            "whole" => whole.clone(),
            "half" => whole[..whole.len() / 2].to_owned(),
            "empty" => String::new(),
            "zeros" => "\0".repeat(whole.len()),
            _ => whole.replacen("\"version\":3", "\"version\":99", 1),
        };
        fs::write(&entry, torn).unwrap();
        let answer = ws.lbx(&["append", "other.txt", "--content", "more\n"]).envelope();
        assert_eq!(answer["ok"], true, "{text}: {answer}");
        assert_eq!(answer.get("warnings").is_some(), text == "newer", "{text}: {answer}");
        ws.holds("a.txt", "a\n");
        assert_eq!(entry.exists(), text == "newer", "{text}");
        let staged = files_below(&ws.path(&state("staging")));
        assert_eq!(staged.is_empty(), text != "newer", "{text}: {staged:?}");
    }
    // Bytes of a killed call do not overwrite what others have made of the file.
    let ws = not_begun;
    unpublish_entry(&ws);
    ws.write("a.txt", "theirs\n");
    next_calls_must_work(&ws).unwrap();
    ws.holds("a.txt", "theirs\n");
}

/// A power failure may keep a part of the bytes that were written into a file, and bring back the entry's first name.
#[test]
fn unpublished_entry_of_a_cut_write_makes_the_file_whole() {
    if !can_trace() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "a\n"), ("other.txt", "other\n")]);
    ws.lbx(&["append", "other.txt", "--content", "more\n"]).ok();
    let ws = killed_before(&ws, &["append", "a.txt", "--content", "one\ntwo\n"], |_| true);
    for cut in ["a\none\nt", "a\no\0\0\0\0\0"] {
        let ws = ws.copy();
        unpublish_entry(&ws);
        ws.write("a.txt", cut);
        next_calls_must_work(&ws).unwrap();
        ws.holds("a.txt", "a\none\ntwo\n");
        ws.lbx(&["undo"]).ok();
        ws.holds("a.txt", "a\n");
    }
}

/// A power failure may keep both names of an entry: the new one in the history, and an old one among the open entries.
#[test]
fn entry_that_the_history_has_is_not_settled_again() {
    for prefix in ["", "."] {
        let ws = Workspace::with(&[("a.txt", "a\n")]);
        ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
        let done = ws.path(&state("journal/done/default/00000001.lbx"));
        let entry: Value =
            serde_json::from_str(fs::read_to_string(&done).unwrap().lines().next().unwrap()).unwrap();
        let open = format!("journal/open/{prefix}{}.lbx", entry["id"].as_str().unwrap());
        fs::hard_link(&done, ws.path(&state(&open))).unwrap();
        ws.lbx(&["append", "a.txt", "--content", "c\n"]).ok();
        assert_eq!(open_entries(&ws), Vec::<PathBuf>::new());
        ws.lbx(&["undo", "--steps", "2"]).ok();
        ws.holds("a.txt", "a\n");
        must_be_tidy(&ws).unwrap();
    }
}

/// Returns the numbers in the history of a session.
fn numbers(ws: &Workspace, session: &str) -> Vec<u64> {
    let listing = fs::read_dir(ws.path(&state(&format!("journal/done/{session}")))).unwrap();
    let names = listing.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut numbers: Vec<u64> = names.filter_map(|name| name.strip_suffix(".lbx")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn change_numbers_are_never_reused() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let append = |text: &str| ws.lbx(&["append", "a.txt", "--content", text]).envelope();
    for text in ["1\n", "2\n"] {
        assert_eq!(append(text)["ok"], true);
    }
    assert_eq!(numbers(&ws, "default"), [1, 2]);
    // The session file has its old state, or is lost: the journal knows.
    let file = ws.path(&state("sessions/default.lbx"));
    let old = fs::read(&file).unwrap();
    assert_eq!(append("3\n")["ok"], true);
    fs::write(&file, &old).unwrap();
    assert_eq!(append("4\n")["ok"], true);
    fs::remove_file(&file).unwrap();
    assert_eq!(append("5\n")["ok"], true);
    assert_eq!(numbers(&ws, "default"), [1, 2, 3, 4, 5]);
    for kept in ["4", "3", "2"] {
        ws.lbx(&["undo"]).ok();
        assert!(ws.read_bytes("a.txt").ends_with(format!("{kept}\n").as_bytes()), "undone to {kept}");
    }
    // Neither the end of the session nor gc lets a number be reused.
    ws.lbx(&["session", "end"]).ok();
    ws.lbx(&["gc", "--keep-days", "0"]).ok();
    assert_eq!(numbers(&ws, "default"), [0; 0]);
    fs::remove_file(&file).unwrap();
    assert_eq!(append("6\n")["ok"], true);
    assert_eq!(numbers(&ws, "default"), [9]);
}

#[test]
fn newer_journal_entry_is_neither_skipped_nor_collected() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
    for text in ["1\n", "2\n"] {
        ws.lbx(&["append", "a.txt", "--content", text]).ok();
    }
    let newest = ws.path(&state("journal/done/default/00000002.lbx"));
    let text = fs::read_to_string(&newest).unwrap();
    fs::write(&newest, text.replacen("\"version\":3", "\"version\":99", 1)).unwrap();
    ws.lbx(&["append", "b.txt", "--content", "more\n"]).ok();
    // Later changes do not need it.
    ws.lbx(&["undo"]).ok();
    for call in [&["undo"][..], &["gc", "--keep-days", "0"]] {
        let error = ws.lbx(call).error("io_error");
        assert!(error["message"].as_str().unwrap().contains("00000002.lbx"), "{error}");
    }
    assert!(all_bytes(&ws).contains(&b"a\n1\n"[..]));
}

#[test]
fn appends_through_two_roots_lose_no_update() {
    let ws = Workspace::with(&[("sub/log.txt", "start\n"), ("other.txt", "other\n")]);
    fs::create_dir(ws.path("sub/.lbx")).unwrap();
    let calls: Vec<_> = (0..30)
        .map(|number| {
            let text = format!("line {number}\n");
            let (root, path) = if number % 2 == 0 { (".", "sub/log.txt") } else { ("sub", "log.txt") };
            ws.call(&["append", path, "--content", &text, "--workspace", root]).spawn()
        })
        .collect();
    let mut acknowledged = Vec::new();
    for (number, call) in calls.into_iter().enumerate() {
        let output = call.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        acknowledged.push(format!("line {number}"));
    }
    let log = String::from_utf8(ws.read_bytes("sub/log.txt")).unwrap();
    for line in &acknowledged {
        assert_eq!(log.lines().filter(|other| other == line).count(), 1, "{line}: {log}");
    }
}

#[test]
fn counters_through_two_roots_lose_no_update() {
    let ws = Workspace::with(&[("sub/count.txt", "0\n")]);
    fs::create_dir(ws.path("sub/.lbx")).unwrap();
    let counters = 4;
    let counted_by_each = 6;
    std::thread::scope(|scope| {
        for counter in 0..counters {
            let ws = &ws;
            scope.spawn(move || {
                let (root, path) =
                    if counter % 2 == 0 { (".", "sub/count.txt") } else { ("sub", "count.txt") };
                let session = format!("counter-{counter}");
                let common = ["--workspace", root, "--session", &session];
                let mut counted = 0;
                while counted < counted_by_each {
                    let read = ws.call(&["read", path]).arguments(&common).run().ok();
                    let now = read["content"].as_str().unwrap().trim().to_owned();
                    let next = (now.parse::<u32>().unwrap() + 1).to_string();
                    let write = ["edit", path, "--old-string", &now, "--new-string", &next];
                    let answer = ws.call(&write).arguments(&common).run().envelope();
                    match answer["error"]["kind"].as_str() {
                        None => counted += 1,
                        Some("stale_file" | "not_read" | "no_match") => {}
                        Some(_) => panic!("{answer:#}"),
                    }
                }
            });
        }
    });
    ws.holds("sub/count.txt", format!("{}\n", counters * counted_by_each));
}

/// Returns how many wait for the lock of the file with this inode; `None` if the system has no table of locks.
fn count_lock_waiters(inode: u64) -> Option<usize> {
    let table = fs::read_to_string("/proc/locks").ok().filter(|table| table.contains(" FLOCK "))?;
    let names = |line: &&str| line.contains("-> ") && line.contains(&format!(":{inode} "));
    Some(table.lines().filter(names).count())
}

#[test]
fn removed_or_renamed_state_fails_no_waiting_call() {
    for is_removed in [true, false] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
        let lock = fs::File::open(ws.path(".lbx/lock")).unwrap();
        fs2::FileExt::lock_exclusive(&lock).unwrap();
        let calls =
            ["three\n", "four\n"].map(|text| ws.call(&["append", "a.txt", "--content", text]).spawn());
        let inode = lock.metadata().unwrap().ino();
        let asked = std::time::Instant::now();
        // One waits for the lock, the other for its place in the queue.
        let waiting = || {
            let queue = fs::metadata(ws.path(&state("queue"))).map_or(0, |queue| queue.ino());
            Some(count_lock_waiters(inode)? + count_lock_waiters(queue)?)
        };
        while waiting().is_some_and(|count| count < 2) && asked.elapsed().as_secs() < 9 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        if is_removed {
            // A call that waits may open its queue meanwhile.
            while fs::remove_dir_all(ws.path(".lbx")).is_err() {
                assert!(asked.elapsed().as_secs() < 30, "the state cannot be removed");
            }
        } else {
            fs::rename(ws.path(".lbx"), ws.path("old")).unwrap();
        }
        drop(lock);
        for call in calls {
            let output = call.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        let text = String::from_utf8(ws.read_bytes("a.txt")).unwrap();
        let mut added: Vec<&str> = text.lines().skip(2).collect();
        added.sort_unstable();
        assert_eq!(added, ["four", "three"]);
        // Both are in the current state, numbered on from the snapshot of the first change, and can be undone there.
        assert_eq!(numbers(&ws, "default"), [2, 3]);
        ws.lbx(&["undo", "--steps", "2"]).ok();
        ws.holds("a.txt", "one\ntwo\n");
    }
}

/// The snapshot of a file that moves is written before the move, from the bytes read then.
#[test]
fn delete_records_a_change_that_precedes_it_narrowly() {
    if !can_trace() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
    ws.lbx(&["append", "a.txt", "--content", "first\n"]).ok();
    let output = run_delayed_at_sync(&ws, &["delete", "b.txt"], || ws.write("b.txt", "theirs\n"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(!ws.path("b.txt").exists());
    assert_eq!(ws.git(&["show", "lbx-snapshots~1:b.txt"]), "theirs");
    assert!(!ws.git(&["ls-tree", "--name-only", "lbx-snapshots"]).contains("b.txt"));
    ws.lbx(&["undo"]).ok();
    ws.holds("b.txt", "theirs\n");
}

/// A folder moves whole, with whatever came into it since it was looked at: the trash says what it took.
#[test]
fn delete_describes_a_file_that_came_narrowly() {
    if !can_trace() {
        return;
    }
    let ws = Workspace::with(&[("a.txt", "a\n"), ("d/in", "in\n")]);
    ws.lbx(&["append", "a.txt", "--content", "first\n"]).ok();
    let output =
        run_delayed_at_sync(&ws, &["delete", "d", "--recursive"], || ws.write("d/theirs", "theirs\n"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(!ws.path("d").exists());
    let entry = ws.lbx(&["trash"]).success()["data"]["entries"][0].take();
    assert_eq!((&entry["files"], &entry["bytes"]), (&2.into(), &10.into()), "{entry}");
    ws.lbx(&["undo"]).ok();
    ws.holds("d/theirs", "theirs\n");
    ws.holds("d/in", "in\n");
}

/// A program that logs may add lines between the last check of the file and the write of this call.
#[test]
fn append_keeps_lines_added_just_before_it() {
    if !can_trace() {
        return;
    }
    let ws = Workspace::with(&[("log.txt", "one\n")]);
    ws.lbx(&["append", "log.txt", "--content", "two\n"]).ok();
    let publish: Vec<OsString> =
        ["-e", "trace=renameat,renameat2", "-e", "inject=renameat,renameat2:delay_enter=400000:when=1"]
            .map(OsString::from)
            .into();
    let output = std::thread::scope(|scope| {
        let call = scope
            .spawn(|| crate::inject::traced(&ws, &publish, &["append", "log.txt", "--content", "ours\n"]));
        std::thread::sleep(std::time::Duration::from_millis(200));
        let mut log = fs::OpenOptions::new().append(true).open(ws.path("log.txt")).unwrap();
        std::io::Write::write_all(&mut log, b"theirs\n").unwrap();
        call.join().unwrap()
    });
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    ws.holds("log.txt", "one\ntwo\ntheirs\nours\n");
    ws.lbx(&["read", "log.txt"]).ok();
    ws.lbx(&["append", "log.txt", "--content", "last\n"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.holds("log.txt", "one\ntwo\ntheirs\nours\n");
    must_be_tidy(&ws).unwrap();
}

/// And between the last check and the truncation that takes an append back.
#[test]
fn undo_of_an_append_keeps_lines_added_just_before_it() {
    if !can_trace() {
        return;
    }
    let ws = Workspace::with(&[("log.txt", "one\n")]);
    ws.lbx(&["append", "log.txt", "--content", "two\n"]).ok();
    let options =
        ["-o", "/dev/null", "-P", "log.txt", "-e", "trace=lseek", "-e", "inject=lseek:delay_enter=400000"];
    let options: Vec<OsString> = options.map(OsString::from).into();
    let output = std::thread::scope(|scope| {
        let call = scope.spawn(|| crate::inject::traced(&ws, &options, &["undo"]));
        std::thread::sleep(std::time::Duration::from_millis(200));
        let mut log = fs::OpenOptions::new().append(true).open(ws.path("log.txt")).unwrap();
        std::io::Write::write_all(&mut log, b"theirs\n").unwrap();
        call.join().unwrap()
    });
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("\"stale_file\""), "{said}");
    ws.holds("log.txt", "one\ntwo\ntheirs\n");
    must_be_tidy(&ws).unwrap();
}

/// Recovery of a killed append reads no more of a file than the change can have left.
#[test]
fn killed_append_to_a_file_that_grew_huge_is_settled_in_little_memory() {
    if !can_trace() {
        return;
    }
    let ws = Workspace::with(&[("log.txt", "one\n")]);
    let append = ["append", "log.txt", "--content", "two\n"];
    for point in points(&ws.copy(), &["write"], &append) {
        let ws = ws.copy();
        kill_at(&ws, &point, &append);
        let log = fs::OpenOptions::new().write(true).open(ws.path("log.txt")).unwrap();
        log.set_len(6 << 30).unwrap();
        let limited = format!("ulimit -v 1500000; exec {LBX} ls");
        let mut call = std::process::Command::new("sh");
        call.args(["-c", &limited]).current_dir(&ws.root).env("LBX_STATE_ID", STATE_ID);
        let output = call.env("HOME", ws.outside.join("home")).output().unwrap();
        assert!(output.status.success(), "{point:?}: {}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(fs::metadata(ws.path("log.txt")).unwrap().len(), 6 << 30, "{point:?}");
    }
}

/// An editor writes a new file and renames it over the old one, possibly between the last check of the file and the
/// rename of this call.
#[test]
fn write_keeps_a_save_just_before_its_rename() {
    if !can_trace() {
        return;
    }
    if cfg!(feature = "portable") {
        return skip::skipped("the portable platform cannot exchange files");
    }
    for path in ["a.txt", "d/b.txt"] {
        let ws = Workspace::with(&[("a.txt", "a\n"), ("d/b.txt", "b\n")]);
        ws.lbx(&["append", "a.txt", "--content", "first\n"]).ok();
        ws.lbx(&["read", path]).ok();
        let save = || {
            ws.write("saved", "theirs\n");
            fs::rename(ws.path("saved"), ws.path(path)).unwrap();
        };
        let exchange: Vec<OsString> =
            ["-e", "trace=renameat2", "-e", "inject=renameat2:delay_enter=400000:when=1"]
                .map(OsString::from)
                .into();
        let output = std::thread::scope(|scope| {
            let call = scope
                .spawn(|| crate::inject::traced(&ws, &exchange, &["write", path, "--content", "ours\n"]));
            std::thread::sleep(std::time::Duration::from_millis(200));
            save();
            call.join().unwrap()
        });
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // On a slow machine, the editor came before the last check.
        assert!(said.contains("stale_file"), "{said}");
        ws.holds(path, "theirs\n");
        ws.lbx(&["write", "other.txt", "--content", "other\n", "--session", "next"]).ok();
        must_be_tidy(&ws).unwrap();
    }
}

/// Another program may save a file again and again while a call exchanges it, the call may die then, and a save may come
/// to a file that the rollback gives its old bytes back.
#[test]
fn newest_save_during_an_exchange_stays() {
    if !can_trace() {
        return;
    }
    if cfg!(feature = "portable") {
        return skip::skipped("the portable platform cannot exchange files");
    }
    let edit = ["edit", "b.txt", "--old-string", "b", "--new-string", "ours"];
    let both = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+ours\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-b\n+ours\n";
    let gone = "--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n";
    for case in ["once", "twice", "killed", "rolled back", "deleted", "killed as it deletes"] {
        let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n"), ("c.txt", "c\n")]);
        ws.lbx(&["append", "c.txt", "--content", "first\n"]).ok();
        for path in ["a.txt", "b.txt"] {
            ws.lbx(&["read", path]).ok();
        }
        let save = |path: &str, text: &str| {
            ws.write("saved", text);
            fs::rename(ws.path("saved"), ws.path(path)).unwrap();
        };
        let mut first = |_: &str| save("b.txt", "saved\n");
        let mut second = |process: &str| match case {
            "twice" => save("b.txt", "saved again\n"),
            "killed" | "killed as it deletes" => {
                drop(std::process::Command::new("kill").args(["-9", process]).status());
            }
            _ => {}
        };
        let mut in_both = |_: &str| {
            save("a.txt", "saved\n");
            save("b.txt", "saved\n");
        };
        let output = match case {
            "rolled back" => {
                run_with_slow_renames(&ws, &["patch", "--patch", both], "\"b.txt\"", &mut [&mut in_both])
            }
            "deleted" | "killed as it deletes" => {
                let patch = ["patch", "--patch", gone];
                run_with_slow_renames(&ws, &patch, "\"b.txt\"", &mut [&mut first, &mut second])
            }
            _ => run_with_slow_renames(&ws, &edit, "\"b.txt\"", &mut [&mut first, &mut second]),
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said.contains("stale_file"), !case.starts_with("killed"), "{case}: {said}");
        ws.lbx(&["write", "other.txt", "--content", "other\n", "--session", "next"]).ok();
        ws.holds("b.txt", if case == "twice" { "saved again\n" } else { "saved\n" });
        ws.holds("a.txt", if case == "rolled back" { "saved\n" } else { "a\n" });
        must_be_tidy(&ws).unwrap();
    }
}

/// A rollback that a disk error, a full disk or a kill cuts short is completed by the next call.
#[test]
fn rollback_that_was_cut_is_completed() {
    if !can_trace() {
        return;
    }
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+ours\n--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n--- /dev/null\n+++ b/d/c.txt\n@@ -0,0 +1 @@\n+c\n";
    for errno in ["EIO", "ENOSPC"] {
        for from in 1..=8 {
            let ws = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
            ws.lbx(&["append", "other.txt", "--content", "first\n"]).success();
            for path in ["a.txt", "b.txt"] {
                ws.lbx(&["read", path]).ok();
            }
            let before = ws.tree();
            let fault = format!("inject=renameat2:error={errno}:when={from}+");
            let strace = ["-o", "/dev/null", "-e", "trace=renameat2", "-e", &fault].map(OsString::from);
            let output = crate::inject::traced(&ws, &strace, &["patch", "--patch", patch]);
            let is_made = output.status.success();
            ws.lbx(&["ls"]).success();
            let is_old = ws.tree() == before;
            let holds_all = ws.path("d/c.txt").exists() && !ws.path("b.txt").exists();
            assert!(
                is_made || is_old || holds_all,
                "{errno} {from}: {}",
                String::from_utf8_lossy(&output.stdout)
            );
            assert!(!ws.path(&state("journal/stuck")).exists(), "{errno} {from}");
            must_be_tidy(&ws).unwrap();
        }
    }
}

/// A call that looks for the locks of dead commands may find the one that a command has just made and not yet taken.
#[test]
fn command_keeps_its_lock_although_another_call_takes_it_for_dead() {
    if !can_trace() {
        return;
    }
    let late: Vec<OsString> =
        ["-e", "trace=flock", "-e", "inject=flock:delay_enter=300000"].map(OsString::from).into();
    for (way, folder) in [("--transaction", "layers"), ("--direct", "running")] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
        let folder = ws.path(&state(folder));
        let (output, found) = std::thread::scope(|scope| {
            let call =
                scope.spawn(|| crate::inject::traced(&ws, &late, &["bash", way, "echo ours >> a.txt"]));
            let mut found = None;
            while found.is_none() && !call.is_finished() {
                let names = fs::read_dir(&folder).into_iter().flatten().flatten();
                found = names.map(|it| it.path()).find(|path| path.is_file());
            }
            let taken =
                found.as_ref().map(|path| fs::File::open(path).map(|file| file.try_lock().map(|()| file)));
            std::thread::sleep(std::time::Duration::from_millis(400));
            found.as_ref().map(fs::remove_file);
            drop(taken);
            (call.join().unwrap(), found)
        });
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && found.is_some(), "{way}: {said}");
        ws.holds("a.txt", "one\ntwo\nours\n");
        must_be_tidy(&ws).unwrap();
    }
}
