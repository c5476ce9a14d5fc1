//! Random turns of two agents and of other programs, against a model of the tree.
//!
//! Each text is written once, so a model knows who wrote what a file holds. An undo of a turn must lead to the model's
//! tree, or change nothing and say why.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::common::Workspace;
use crate::common::random::Random;
use crate::player::{Player, write};

/// Number of histories, unless `LBX_HISTORIES` sets it.
const HISTORIES: usize = 12;
/// Files that the histories are about; git ignores the last two.
const PATHS: [&str; 7] = ["a.txt", "b.txt", "d/c.txt", "d/e/f.txt", "g/h.txt", ".env", "d/.env"];

/// Text of each file that exists.
type Files = BTreeMap<String, String>;

/// A turn that has ended.
struct Ended {
    /// Agent that made it.
    agent: usize,
    /// Number of its last change.
    seq: u64,
    /// Files before and after it, of those that it touched: what it made and removed again counts too.
    touched: BTreeMap<String, (Option<String>, Option<String>)>,
    /// True if it is undone.
    is_undone: bool,
}

/// A history so far.
struct History<'w> {
    /// Workspace.
    ws: &'w Workspace,
    /// Random numbers.
    random: Random,
    /// Agents.
    agents: Vec<Player<'w>>,
    /// Files as they should be.
    files: Files,
    /// Turns.
    turns: Vec<Ended>,
    /// Number of texts so far.
    texts: usize,
}

/// Returns the files of a workspace.
fn files_of(ws: &Workspace) -> Files {
    let text = |path: &&str| Some(((*path).to_owned(), fs::read_to_string(ws.path(path)).ok()?));
    PATHS.iter().filter_map(text).collect()
}

impl History<'_> {
    /// Returns a text that no file ever held.
    fn text(&mut self, who: &str) -> String {
        self.texts += 1;
        format!("text {} of {who}\n", self.texts)
    }

    /// Lets another program change a file.
    fn outsider(&mut self) {
        let path = *self.random.of(&PATHS);
        if self.random.below(3) == 0 {
            let _ = fs::remove_file(self.ws.path(path));
        } else {
            let text = self.text("an outsider");
            write(&self.ws.path(path), &text);
        }
        self.files = files_of(self.ws);
    }

    /// Plays a turn of an agent.
    fn turn(&mut self, agent: usize) {
        let before = self.files.clone();
        self.texts += 1;
        let name = format!("{agent} {}", self.texts);
        self.agents[agent].prompt(&name);
        let mut touched = BTreeSet::new();
        for _ in 0..=self.random.below(4) {
            let path = *self.random.of(&PATHS);
            touched.insert(path);
            let text = self.text(&format!("agent {agent}"));
            let exists = self.ws.path(path).is_file();
            match self.random.below(5) {
                0 if exists => self.agents[agent].bash(&format!("rm '{path}'")),
                1 if exists => {
                    let to = *self.random.of(&PATHS);
                    if to != path && !self.ws.path(to).exists() {
                        touched.insert(to);
                        self.agents[agent]
                            .bash(&format!("mkdir -p \"$(dirname '{to}')\" && mv '{path}' '{to}'"));
                    }
                }
                2 => self.agents[agent]
                    .bash(&format!("mkdir -p \"$(dirname '{path}')\" && printf '{text}' > '{path}'")),
                _ => {
                    if exists {
                        self.agents[agent].read(path);
                    }
                    self.agents[agent].write(path, &text).unwrap();
                }
            }
        }
        let line = self.agents[agent].stop();
        self.files = files_of(self.ws);
        let sides =
            |path: &&str| ((*path).to_owned(), (before.get(*path).cloned(), self.files.get(*path).cloned()));
        let touched: BTreeMap<_, _> = touched.iter().map(sides).collect();
        let has_changed = touched.values().any(|(old, new)| old != new);
        assert_eq!(line.is_some(), has_changed, "{line:?}: {touched:?}");
        if let Some(line) = line {
            let seq = line.split_once("--turn ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
            self.turns.push(Ended { agent, seq, touched, is_undone: false });
        }
    }

    /// Undoes a turn: to the model's tree, or not at all.
    fn undo(&mut self) {
        let standing: Vec<usize> = (0..self.turns.len()).filter(|at| !self.turns[*at].is_undone).collect();
        if standing.is_empty() {
            return;
        }
        let at = *self.random.of(&standing);
        let (agent, seq) = (self.turns[at].agent, self.turns[at].seq.to_string());
        let session = self.agents[agent].session.clone();
        let fits =
            self.turns[at].touched.iter().all(|(path, (_, after))| self.files.get(path) == after.as_ref());
        let answer = self.ws.lbx(&["undo", "--turn", &seq, "--session", &session]);
        if fits {
            // A file that was a secret stays out of the snapshot, with a warning.
            answer.success();
            for (path, (before, _)) in &self.turns[at].touched {
                match before {
                    Some(text) => self.files.insert(path.clone(), text.clone()),
                    None => self.files.remove(path),
                };
            }
            self.turns[at].is_undone = true;
        } else if answer.envelope()["ok"] == true {
            // A merge of what overlaps nowhere: it may take back only what the turn wrote.
            for (path, text) in files_of(self.ws) {
                let own = self.turns[at].touched.get(&path);
                let is_allowed = self.files.get(&path) == Some(&text)
                    || own.is_some_and(|(before, _)| before.as_ref() == Some(&text));
                assert!(is_allowed, "{path} holds {text:?}");
            }
            self.files = files_of(self.ws);
            self.turns[at].is_undone = true;
        } else {
            let kind = answer.envelope()["error"]["kind"].clone();
            assert!(kind == "stale_file" || kind == "not_found", "{}", answer.envelope());
        }
    }

    /// Checks the tree, and that no commit names a session for a text of someone else.
    fn check(&self) {
        assert_eq!(files_of(self.ws), self.files);
        if self.ws.snapshots().is_empty() {
            return; // only ignored files were changed
        }
        let log = self.ws.git(&["log", "--format=@%B", "-p", "--no-renames", "lbx-snapshots"]);
        let (mut owner, mut is_move) = (String::new(), false);
        for line in log.lines() {
            if let Some(subject) = line.strip_prefix('@').filter(|rest| !rest.starts_with('@')) {
                // A move takes a text along, whoever wrote it.
                is_move = subject.contains("mv '");
            }
            if let Some(session) = line.strip_prefix("Lbx-Session: ") {
                session.trim_start_matches("agent-").clone_into(&mut owner);
            }
            if let Some(tool) = line.strip_prefix("Lbx-Tool: ")
                && (is_move || ["undo", "redo", "external", "baseline"].contains(&tool))
            {
                owner.clear();
            }
            if let Some((_, writer)) = line.strip_prefix("+text ").and_then(|rest| rest.split_once(" of ")) {
                let is_own = writer == format!("agent {owner}");
                assert!(owner.is_empty() || is_own || writer.starts_with("agent"), "{owner}: {line}\n{log}");
                assert!(owner.is_empty() || writer != "an outsider", "{owner}: {line}\n{log}");
            }
        }
    }
}

/// Plays one history.
fn play(seed: u64) {
    let ws = Workspace::with(&[
        ("a.txt", "first\n"),
        ("d/c.txt", "first\n"),
        (".gitignore", ".env\n"),
        (".env", "S=1\n"),
    ]);
    let agents = (0..2).map(|number| Player::new(&ws, &format!("agent-{number}"))).collect();
    let files = files_of(&ws);
    let mut history =
        History { ws: &ws, random: Random::new(seed), agents, files, turns: Vec::new(), texts: 0 };
    for _ in 0..10 {
        match history.random.below(6) {
            0 => history.outsider(),
            1 | 2 => history.undo(),
            _ => {
                let agent = history.random.below(2);
                history.turn(agent);
            }
        }
    }
    while history.random.below(5) > 0 {
        history.undo();
    }
    history.check();
}

#[test]
fn undo_of_turns_in_any_order_gives_the_model_tree_or_refuses() {
    let count = std::env::var("LBX_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(HISTORIES);
    let seed: u64 = std::env::var("LBX_RANDOM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    for number in 0..count {
        let seed = seed.wrapping_mul(1_000_003) + number as u64;
        if let Err(panic) = std::panic::catch_unwind(|| play(seed)) {
            eprintln!("history {number} (seed {seed})");
            std::panic::resume_unwind(panic);
        }
    }
}
