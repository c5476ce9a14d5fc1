//! Random commands, plain and as transactions: undo gives the old tree back, and redo the new one.
//!
//! `LBX_RANDOM_COMMANDS=1000` runs so many of each; `LBX_RANDOM_SEED` repeats a run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use crate::common::random::Random;
use crate::common::{Standing, Workspace};
use crate::support::{backends, with};
use crate::transactions::are_possible;

/// Commands of each kind in an ordinary run.
const COMMANDS: usize = 24;
/// Commands in one workspace.
const IN_ONE_WORKSPACE: usize = 12;
/// Names that the commands use.
const NAMES: [&str; 12] =
    ["a.txt", "b.txt", "'c d.txt'", "é", "d1", "d1/x", "d1/d2", "d1/d2/y", "d3", "d3/z.bin", "e", "e/-f"];

/// What stands in a workspace.
type Tree = BTreeMap<PathBuf, Standing>;

impl Random {
    /// One of some.
    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }

    /// A command of one to four parts.
    fn command(&mut self) -> String {
        let parts: Vec<String> = (0..=self.below(4)).map(|_| self.part()).collect();
        parts.join("\n")
    }

    /// A part of a command, which may fail.
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

/// A number that the environment gives.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A workspace to begin with.
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
    // What git ignores is part of a command's change as well.
    ws.write(".gitignore", "z.bin\nin\nd2/\n");
    ws.write("d3/z.bin", random.below(1000).to_string());
    ws
}

/// What differs between two trees.
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

/// Runs random commands, and takes each back and does it again.
fn run(is_transaction: bool) {
    let seed = given("LBX_RANDOM_SEED").unwrap_or(0x1b5);
    let commands = given("LBX_RANDOM_COMMANDS").map_or(COMMANDS, |count| usize::try_from(count).unwrap());
    let mut random = Random::new(seed ^ u64::from(is_transaction));
    let mut done = 0;
    while done < commands {
        let ws = workspace(&mut random);
        let first = ws.tree();
        let mut history = String::new();
        for _ in 0..IN_ONE_WORKSPACE.min(commands - done) {
            done += 1;
            let command = random.command();
            history.extend([format!("--- {done}\n"), command.clone(), "\n".to_owned()]);
            let told = format!("seed {seed}, transaction {is_transaction}\n{history}");
            let before = ws.tree();
            // Whoever writes into a FIFO waits for a reader: the time limit ends that, and undo takes back
            // what was done until then.
            let request = json!({ "command": command, "transaction": is_transaction, "timeout_ms": 1000 });
            let answer = with(&ws, "auto", &request).envelope();
            assert_eq!(answer["ok"], true, "{told}{answer:#}");
            let after = ws.tree();
            let undone = ws.lbx(&["undo"]).envelope();
            if undone["ok"] != true {
                // Nothing that the journal knows has changed, ever.
                assert_eq!(
                    undone["error"]["kind"],
                    "not_found",
                    "{told}{}: {:?}",
                    undone["error"]["message"],
                    difference(&before, &after)
                );
                assert!(before == after, "{told}{:?}", difference(&before, &after));
                continue;
            }
            if before == after {
                // An older change was taken back.
                assert_eq!(ws.lbx(&["redo"]).envelope()["ok"], true, "{told}");
                assert!(ws.tree() == after, "{told}{:?}", difference(&after, &ws.tree()));
                continue;
            }
            let now = ws.tree();
            assert!(now == before, "{told}undo: {:?}", difference(&before, &now));
            let redone = ws.lbx(&["redo"]).envelope();
            assert_eq!(redone["ok"], true, "{told}{redone:#}");
            let now = ws.tree();
            assert!(now == after, "{told}redo: {:?}", difference(&after, &now));
        }
        let last = ws.tree();
        let told = format!("seed {seed}, transaction {is_transaction}\n{history}");
        let undone = ws.lbx(&["undo", "--steps", "1000"]).envelope();
        if undone["ok"] == true {
            let now = ws.tree();
            assert!(now == first, "{told}all: {:?}", difference(&first, &now));
            let redone = ws.lbx(&["redo", "--steps", "1000"]).envelope();
            assert_eq!(redone["ok"], true, "{told}{redone:#}");
            let now = ws.tree();
            assert!(now == last, "{told}all again: {:?}", difference(&last, &now));
        }
    }
}

#[test]
fn whatever_a_command_does_undo_and_redo_give_both_trees() {
    if !backends().is_empty() {
        run(false);
    }
}

#[test]
fn whatever_a_transaction_does_undo_and_redo_give_both_trees() {
    if are_possible() {
        run(true);
    }
}
