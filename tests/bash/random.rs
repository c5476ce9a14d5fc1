//! Random commands in each mode: `changed` lists exactly the changes, undo restores the old tree, and redo the new one.
//!
//! `LBX_RANDOM_COMMANDS=1000` runs that many in each mode; `LBX_RANDOM_SEED` repeats a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::random::Random;
use crate::common::{Standing, Workspace};
use crate::support::{backends, with};
use crate::transactions::has_overlays;

/// Commands of each kind in a normal run.
const COMMANDS: usize = 24;
/// Commands in one workspace.
const IN_ONE_WORKSPACE: usize = 12;
/// Names that the commands use.
const NAMES: [&str; 12] =
    ["a.txt", "b.txt", "'c d.txt'", "é", "d1", "d1/x", "d1/d2", "d1/d2/y", "d3", "d3/z.bin", "e", "e/-f"];

/// Names that git ignores.
const IGNORED: [&str; 3] = ["z.bin", "in", "d2"];

/// Mode of a command: on a layer, as a transaction, or direct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// On a layer.
    Layer,
    /// As a transaction.
    Transaction,
    /// On the files themselves.
    Direct,
}

/// Files, folders and links of a workspace by path.
type Tree = BTreeMap<PathBuf, Standing>;

impl Random {
    /// Returns a random element.
    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }

    /// Returns a command of one to four parts.
    fn command(&mut self) -> String {
        let parts: Vec<String> = (0..=self.below(4)).map(|_| self.part()).collect();
        parts.join("\n")
    }

    /// Returns a part of a command, which may fail.
    fn part(&mut self) -> String {
        let (p, q, number) = (self.one(&NAMES), self.one(&NAMES), self.below(1000));
        let mode = self.one(&["600", "644", "640", "755", "700", "750"]);
        match self.below(26) {
            0 => format!("echo {number} > ./{p}"),
            1 => format!("echo {number} >> ./{p}"),
            2 => format!("mkdir -p ./{p} && echo {number} > ./{p}/n{}", number % 3),
            3 => format!("mv ./{p} ./{q}"),
            4 => format!("mv -T ./{p} ./{q}"),
            5 => format!("cp -r ./{p} ./{q}"),
            6 => format!("rm -rf ./{p}"),
            7 => format!("rm -r ./{p}; mkdir ./{p}; echo {number} > ./{p}/in"),
            8 => format!("ln -sfn {q} ./{p}"),
            9 => format!("ln -f ./{p} ./{q}"),
            10 => format!("chmod {mode} ./{p}"),
            11 => format!("chmod -R u+rwX,go-w ./{p}"),
            12 => format!("sed -i s/{}/x/ ./{p}", number % 10),
            13 => format!("mkdir -p ./{q} && tar cf - ./{p} | tar xf - -C ./{q}"),
            14 => "GIT_INDEX_FILE=/tmp/index git checkout -q HEAD -- .".to_owned(),
            15 => format!("git show HEAD:a.txt > ./{p}"),
            16 => format!("printf '{number}\\r\\n\\000\\377' | dd of=./{p} conv=notrunc status=none"),
            17 => format!("truncate -s {} ./{p}", number % 50),
            18 => format!("touch -d 2001-01-01T00:00:{:02} ./{p}", number % 60),
            19 => format!("find ./{p} -type f -delete"),
            20 => format!("mkdir -m {mode} ./{p}"),
            21 => format!("rmdir ./{p}"),
            22 => format!("mkfifo ./{p}"),
            23 => format!("rm -rf ./{p} && echo {number} > ./{p}"),
            24 => format!("mkdir -p ./{p}/m && mv ./{q} ./{p}/m/"),
            _ => format!(
                "python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' ./{p} 2> /dev/null"
            ),
        }
    }
}

/// Returns a number from the environment.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Creates the initial workspace.
fn workspace(random: &mut Random) -> Workspace {
    let ws = Workspace::with(&[
        ("a.txt", "1\n2\n3\n"),
        ("b.txt", "b\n"),
        ("d1/x", "x\n"),
        ("d1/d2/y", "y 1 2 3\n"),
        ("d3/z.bin", "\0\n"),
    ]);
    ws.write("c d.txt", "not committed\n");
    ws.write("d3/more", "more\n");
    // Ignored files are part of a command's change as well.
    ws.write(".gitignore", "z.bin\nin\nd2/\n");
    ws.write("d3/z.bin", random.below(1000).to_string());
    ws
}

/// Returns the differences between two trees.
fn difference<'t>(
    one: &'t Tree,
    other: &'t Tree,
) -> Vec<(&'t PathBuf, Option<&'t Standing>, Option<&'t Standing>)> {
    let paths = one.keys().chain(other.keys());
    let mut differing: Vec<_> = paths
        .filter(|path| one.get(*path) != other.get(*path))
        .map(|path| (path, one.get(path), other.get(path)))
        .collect();
    differing.sort();
    differing.dedup();
    differing
}

/// Returns true if two trees are equal, except for empty folders that git ignores and folders that hold only such
/// folders: a change of these alone is not part of the history.
fn is_same(one: &Tree, other: &Tree) -> bool {
    let is_folder = |standing: Option<&Standing>| standing.is_none_or(|standing| standing.0 == 'd');
    let is_ignored = |path: &Path| path.iter().any(|name| IGNORED.iter().any(|ignored| name == *ignored));
    let differing = difference(one, other);
    let ignored: Vec<&PathBuf> =
        differing.iter().map(|(path, ..)| *path).filter(|path| is_ignored(path)).collect();
    differing.iter().all(|(path, old, new)| {
        is_folder(*old) && is_folder(*new) && ignored.iter().any(|ignored| ignored.starts_with(path))
    })
}

/// Checks that the list of changes names each file that differs, itself or by a parent folder, and nothing else.
fn agrees(changed: &Value, before: &Tree, after: &Tree) -> Result<(), String> {
    let entries: Vec<&Path> =
        changed.as_array().unwrap().iter().map(|it| Path::new(it["path"].as_str().unwrap())).collect();
    let differing = difference(before, after);
    let is_folder = |standing: Option<&Standing>| standing.is_none_or(|standing| standing.0 == 'd');
    for (path, old, new) in &differing {
        let is_named = entries.iter().any(|entry| path.starts_with(entry));
        let is_of_folders = is_folder(*old) && is_folder(*new);
        if !is_named && !is_of_folders {
            return Err(format!("{} is missing in {changed:#}", path.display()));
        }
    }
    let is_true = |entry: &&&Path| !differing.iter().any(|(path, ..)| path.starts_with(entry));
    entries.iter().find(is_true).map_or(Ok(()), |entry| Err(format!("{} did not change", entry.display())))
}

/// Runs random commands, and undoes and redoes each.
fn run(mode: Mode) {
    let seed = given("LBX_RANDOM_SEED").unwrap_or(0x1b5);
    let commands = given("LBX_RANDOM_COMMANDS").map_or(COMMANDS, |count| usize::try_from(count).unwrap());
    let mut random = Random::new(seed ^ mode as u64);
    let mut done = 0;
    while done < commands {
        let ws = workspace(&mut random);
        let first = ws.tree();
        let mut history = String::new();
        for _ in 0..IN_ONE_WORKSPACE.min(commands - done) {
            done += 1;
            let command = random.command();
            history.extend([format!("--- {done}\n"), command.clone(), "\n".to_owned()]);
            let told = format!("seed {seed}, {mode:?}\n{history}");
            let before = ws.tree();
            // A writer of a FIFO waits for a reader until the time limit; undo reverts what was done until then.
            let request = json!({
                "command": command,
                "transaction": mode == Mode::Transaction,
                "direct": mode == Mode::Direct,
                "timeout_ms": 1000,
            });
            let answer = with(&ws, "auto", &request).envelope();
            assert_eq!(answer["ok"], true, "{told}{answer:#}");
            let after = ws.tree();
            if let Err(why) = agrees(&answer["data"]["changed"], &before, &after) {
                panic!("{told}{why}\n{answer:#}");
            }
            let undone = ws.lbx(&["undo"]).envelope();
            if undone["ok"] != true {
                // Files that the journal knows have not changed.
                assert_eq!(
                    undone["error"]["kind"],
                    "not_found",
                    "{told}{}: {:?}",
                    undone["error"]["message"],
                    difference(&before, &after)
                );
                assert!(is_same(&before, &after), "{told}{:?}", difference(&before, &after));
                continue;
            }
            if is_same(&before, &after) {
                // An older change was undone.
                assert_eq!(ws.lbx(&["redo"]).envelope()["ok"], true, "{told}");
                assert!(is_same(&ws.tree(), &after), "{told}{:?}", difference(&after, &ws.tree()));
                continue;
            }
            // A layer shows all folders, a look at the files none that git ignores.
            let is_back = |now, then| now == then || mode == Mode::Direct && is_same(now, then);
            let now = ws.tree();
            assert!(is_back(&now, &before), "{told}undo: {:?}", difference(&before, &now));
            let redone = ws.lbx(&["redo"]).envelope();
            assert_eq!(redone["ok"], true, "{told}{redone:#}");
            let now = ws.tree();
            assert!(is_back(&now, &after), "{told}redo: {:?}", difference(&after, &now));
        }
        let last = ws.tree();
        let told = format!("seed {seed}, {mode:?}\n{history}");
        let undone = ws.lbx(&["undo", "--steps", "1000"]).envelope();
        if undone["ok"] == true {
            let now = ws.tree();
            assert!(is_same(&now, &first), "{told}all: {:?}", difference(&first, &now));
            let redone = ws.lbx(&["redo", "--steps", "1000"]).envelope();
            assert_eq!(redone["ok"], true, "{told}{redone:#}");
            let now = ws.tree();
            assert!(is_same(&now, &last), "{told}all again: {:?}", difference(&last, &now));
        }
    }
}

#[test]
fn undo_and_redo_of_random_commands_restore_both_trees() {
    if has_overlays() {
        run(Mode::Layer);
    }
}

#[test]
fn undo_and_redo_of_random_direct_commands_restore_both_trees() {
    if !backends().is_empty() {
        run(Mode::Direct);
    }
}

#[test]
fn undo_and_redo_of_random_transactions_restore_both_trees() {
    if has_overlays() {
        run(Mode::Transaction);
    }
}

/// Folders of concurrent sessions; each has the name of its session.
const SESSIONS: [&str; 6] = ["s1", "s2", "s3", "s4", "s5", "s6"];

/// Runs random commands of one session in its folder; each answer and commit covers that folder only.
fn work(ws: &Workspace, session: &str, commands: usize, mut random: Random) {
    let own = format!("{session}/");
    let mut history = String::new();
    for _ in 0..commands {
        let command = random.command();
        let mode = [Mode::Layer, Mode::Transaction, Mode::Direct][random.below(3)];
        history.extend([format!("--- {mode:?}\n"), command.clone(), "\n".to_owned()]);
        let request = json!({
            "command": command,
            "workdir": session,
            "session": session,
            "transaction": mode == Mode::Transaction,
            "direct": mode == Mode::Direct,
            "timeout_ms": 2000,
        });
        let answer = with(ws, "auto", &request).envelope();
        assert_eq!(answer["ok"], true, "{session}\n{history}{answer:#}");
        let changed = answer["data"]["changed"].as_array().unwrap();
        let is_own = |it: &Value| it["path"].as_str().unwrap().starts_with(&own);
        assert!(changed.iter().all(is_own), "{session}\n{history}{answer:#}");
        if let Some(commit) = answer["snapshot"].as_str() {
            let files = ws.git(&["diff", "-z", "--name-only", &format!("{commit}~"), commit]);
            let others: Vec<&str> =
                files.split('\0').filter(|path| !path.is_empty() && !path.starts_with(&own)).collect();
            let log = || ws.git(&["log", "-8", "--stat=120", "--format=%h %s", commit]);
            assert!(others.is_empty(), "{session}\n{history}{commit}: {others:?}\n{}\n{answer:#}", log());
        }
    }
}

/// Checks that the diff of a session names only files in its folder, and that no other session has lines there.
fn owns_its_diff_and_lines(ws: &Workspace, session: &str) {
    let own = format!("{session}/");
    let diff = ws.lbx(&["diff", "--stat", "--session", session]).success();
    let files = diff["data"]["stat"].as_array().unwrap();
    assert!(files.iter().all(|it| it["path"].as_str().unwrap().starts_with(&own)), "{session}: {diff:#}");
    for file in files.iter().filter(|it| it["action"] != "delete") {
        let blame = ws.lbx(&["blame", file["path"].as_str().unwrap()]).envelope();
        let ranges = blame["data"]["ranges"].as_array().into_iter().flatten();
        let mut others = ranges.filter(|it| it["by"] == "session" && it["session"] != session);
        assert!(others.next().is_none(), "{session}: {blame:#}");
    }
}

#[test]
fn sessions_with_random_commands_own_exactly_their_files() {
    if !has_overlays() {
        return;
    }
    let seed = given("LBX_RANDOM_SEED").unwrap_or(0x1b5);
    let commands = given("LBX_RANDOM_COMMANDS").map_or(COMMANDS, |count| usize::try_from(count).unwrap());
    let ws = Workspace::with(&[("a.txt", "1\n")]);
    for session in SESSIONS {
        for (path, text) in [("a.txt", "1\n2\n"), ("d1/x", "x\n"), ("d1/d2/y", "y\n"), ("d3/z.bin", "\0\n")] {
            ws.write(&format!("{session}/{path}"), text);
        }
    }
    ws.write(".gitignore", "z.bin\nin\nd2/\n");
    ws.git(&["add", "."]);
    ws.git(&["commit", "-qm", "second"]);
    std::thread::scope(|scope| {
        for (number, session) in SESSIONS.into_iter().enumerate() {
            let random = Random::new(seed ^ (number as u64 + 1) << 32);
            let ws = &ws;
            scope.spawn(move || work(ws, session, commands / SESSIONS.len(), random));
        }
    });
    for session in SESSIONS {
        owns_its_diff_and_lines(&ws, session);
    }
    // Undo reverts the changes of its session, and of no other.
    for session in SESSIONS {
        let before = ws.tree();
        let undone = ws.lbx(&["undo", "--session", session]).envelope();
        let others = |tree: Tree| -> Tree {
            tree.into_iter().filter(|(path, _)| !path.starts_with(session)).collect()
        };
        assert!(is_same(&others(ws.tree()), &others(before)), "{session}: {undone:#}");
    }
}
