//! Random calls of three sessions, one of them over MCP, while other programs edit and commit, calls are killed,
//! and calls run at the same time.
//!
//! Three models judge every step:
//!
//! - A copy of the workspace, lbx's state included: a call that is made there first says which tree it leads to. A
//!   killed call leaves the tree before or the tree after; two calls at once leave the tree of one of both orders.
//! - [`predict`]: the tree after a simple call, computed without lbx.
//! - The lines of other programs: no undo, redo or rewind removes one.
//!
//! `LBX_RANDOM_STEPS=5000` makes so many steps; `LBX_RANDOM_SEED` repeats a run, except for the moments at which calls
//! are killed or meet.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail, and its name says what it is about"
)]

mod calls;
mod choices;
#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod common;
#[path = "../crash/judge.rs"]
#[allow(dead_code, reason = "the crash tests use the rest")]
mod judge;
mod judges;
mod model;
mod server;
mod way_back;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use calls::{SERVED, call, call_once, is_ok, is_served, kill_call, kill_once};
use common::random::Random;
use common::{STATE_ID, Workspace};
use judge::{Sides, Tree};
use model::{NewModes, Request, predict};
use server::Server;

/// Number of steps in a normal run.
const STEPS: usize = 40;
/// Largest number of steps in one workspace.
const STEPS_PER_WORKSPACE: usize = 40;
/// Prefix of lines that another program wrote.
const OUTSIDE: &str = "outside-";
/// A name that git ignores. Its bytes stay out of the snapshots under any name (DESIGN S14), so every second run does
/// not use it and compares the last snapshot with the tree.
const IGNORED: &str = "ignored";
/// Names that the calls use.
const NAMES: [&str; 9] = [IGNORED, "a", "b", "d", "d/a", "d/e", "d/e/f", "g", "g/h"];
/// All sessions.
const SESSIONS: [&str; 3] = ["one", "two", SERVED];
/// Returns a number that the environment may set.
fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A possible order in which calls took effect.
struct Outcome {
    /// Tree after the calls.
    tree: Tree,
    /// Success of each call, in the order of the step; `None` for a call without effect, as if it was killed.
    is_ok: Vec<Option<bool>>,
}

/// A random run in one workspace.
struct Run {
    /// Workspace of the run.
    ws: Workspace,
    /// Server of [`SERVED`].
    server: Server,
    /// Source of the choices.
    random: Random,
    /// Permission bits of new files and folders.
    modes: NewModes,
    /// Steps so far, for messages.
    steps: Vec<String>,
    /// Number of edits by other programs.
    edits: usize,
    /// Lines of other programs that a session overwrote or deleted knowingly: a redo may remove them again.
    spent: BTreeSet<String>,
    /// Duration of the last change by command line, and of the last one over MCP.
    paces: [Duration; 2],
    /// Names that the calls use.
    names: &'static [&'static str],
    /// Path that both calls of a step often use.
    focus: Option<String>,
    /// True once another program has changed files between a kill and the next call.
    is_disturbed: bool,
}

impl Run {
    /// Starts a run.
    fn new(seed: usize) -> Self {
        let files = [("a", "a\n"), ("d/a", "da\n"), ("d/e/f", "f\n"), (".gitignore", "ignored\n")];
        let ws = Workspace::with(&files);
        ws.user_policy("");
        let modes =
            NewModes { file: ws.mode(".gitignore"), folder: fs::metadata(&ws.root).unwrap().mode() & 0o7777 };
        Self {
            server: Server::start(&ws, SERVED),
            ws,
            random: Random::new(seed as u64),
            modes,
            steps: vec![format!("LBX_RANDOM_SEED={seed}")],
            edits: 0,
            spent: BTreeSet::new(),
            paces: [Duration::from_millis(40), Duration::from_millis(15)],
            names: NAMES.get(seed % 2..).unwrap(),
            focus: None,
            is_disturbed: false,
        }
    }

    /// Reads the files for which a request needs proof.
    fn prepare(&mut self, request: &Request) {
        for path in request.reads() {
            let read = Request {
                tool: "read",
                arguments: json!({ "path": path }),
                is_replay: false,
                ..request.clone()
            };
            let _ = call(&self.ws, &mut self.server, &read);
        }
    }

    /// Makes requests in order in a copy; returns the copy and the responses.
    fn rehearse(&self, requests: &[&Request]) -> (Workspace, Vec<Value>) {
        let copy = self.ws.copy();
        let responses = requests.iter().map(|request| call_once(&copy, request)).collect();
        (copy, responses)
    }

    /// Makes one random step.
    fn step(&mut self) {
        if self.random.below(4) == 0 {
            self.meddle();
        }
        let before = self.ws.tree();
        if self.random.below(12) == 0 {
            let answer = self.ws.json("gc", &json!({}));
            assert!(answer.status() == 0, "{}: {}", answer.stdout_text(), self.story());
            self.must_equal(&[("before gc", &before)], &self.ws.tree());
            self.steps.push("gc".to_owned());
        }
        let replay_only = match self.random.below(10) {
            0..=3 => self.plain(&before),
            4..=6 => self.killed(&before),
            7 | 8 => self.at_once(&before),
            _ => self.pipelined(&before),
        };
        self.judge_lines(&before, replay_only);
        self.judge_trash();
    }

    /// Makes a call that ends normally; returns true if it is a replay.
    fn plain(&mut self, before: &Tree) -> bool {
        let request = self.request();
        self.prepare(&request);
        let begun = Instant::now();
        let response = call(&self.ws, &mut self.server, &request);
        let took = begun.elapsed();
        self.note("", &request, &response);
        let said = response["data"].to_string();
        assert!(!said.contains(STATE_ID), "names the state: {}", self.story());
        let now = self.ws.tree();
        if now != *before {
            self.paces[usize::from(is_served(&request))] = took;
        }
        let predicted = if is_ok(&response) {
            predict(before, self.modes, &request, &response)
        } else {
            (response["error"]["applied"] != true).then(|| before.clone())
        };
        if let Some(predicted) = predicted {
            self.must_equal(&[("predicted", &predicted)], &now);
        }
        if is_ok(&response) && now != *before && self.random.below(3) == 0 {
            self.check_reversal(before, &request, &response);
        }
        request.is_replay
    }

    /// Makes a call that is killed; returns true if it is a replay.
    fn killed(&mut self, before: &Tree) -> bool {
        let mut tries = 0;
        let (request, copy, rehearsed) = loop {
            let request = self.request();
            self.prepare(&request);
            let (copy, rehearsed) = self.rehearse(&[&request]);
            tries += 1;
            // A kill is most useful in a call that changes something.
            if copy.tree() != *before || tries == 4 {
                break (request, copy, rehearsed);
            }
        };
        let after = copy.tree();
        let moment = self.moment(&request);
        let response = kill_call(&self.ws, &mut self.server, &request, moment);
        self.note(&format!("killed at {moment:?}: "), &request, &response.clone().unwrap_or_default());
        let sides = Sides { before: before.clone(), after, snapshots: 0, git: Vec::new() };
        let whole = sides.must_be_whole(&self.ws);
        whole.unwrap_or_else(|torn| panic!("{torn}: {}", self.story()));
        if is_served(&request) {
            self.server = Server::start(&self.ws, SERVED);
        }
        if self.random.below(6) == 0 {
            self.meddle();
            self.is_disturbed = true;
            self.recover();
            return request.is_replay;
        }
        let left = self.ws.tree();
        self.recover();
        let now = self.ws.tree();
        let is_done = now == sides.after;
        self.steps.push(format!("  done: {is_done}, recovered: {}", left != now));
        match response {
            Some(response) if is_ok(&response) => self.must_equal(&[("after", &sides.after)], &now),
            Some(response) => {
                assert!(!is_ok(&rehearsed[0]), "{response}, but {}: {}", rehearsed[0], self.story());
                self.must_equal(&[("before", before)], &now);
            }
            None => self.must_equal(&[("before", before), ("after", &sides.after)], &now),
        }
        if is_done && now != *before && self.random.below(2) == 0 {
            // No backup is lost.
            self.check_reversal(before, &request, &rehearsed[0]);
        }
        request.is_replay
    }

    /// Makes a reading call of a random session, which finishes or rolls back an open change. Before it, another such
    /// call may be killed.
    fn recover(&mut self) {
        if self.random.below(4) == 0 {
            let next = self.reading();
            let moment = self.moment(&next);
            let _ = kill_call(&self.ws, &mut self.server, &next, moment);
            if is_served(&next) {
                self.server = Server::start(&self.ws, SERVED);
            }
            self.note(&format!("next, killed at {moment:?}: "), &next, &Value::Null);
        }
        let next = self.reading();
        let response = call(&self.ws, &mut self.server, &next);
        self.note("next: ", &next, &Value::Null);
        assert!(is_ok(&response), "the next call answers {response}: {}", self.story());
        // A killed command leaves its layer (DESIGN B4), and a search lists the files that it skipped.
        let is_usual = |warning: &Value| {
            warning.as_str().is_some_and(|text| {
                ["lbx was killed while `", "no matches; skipped"].iter().any(|usual| text.starts_with(usual))
            })
        };
        let warnings = [&response["warnings"], &response["data"]["warnings"]];
        let is_quiet = warnings.into_iter().filter_map(Value::as_array).flatten().all(is_usual);
        assert!(is_quiet || self.is_disturbed, "the next call warns {response}: {}", self.story());
    }

    /// Returns the outcomes of the first call alone, and of both.
    fn outcomes(&self, first: &Request, second: &Request) -> Vec<Outcome> {
        let (copy, responses) = self.rehearse(&[first]);
        let is_first_ok = Some(is_ok(&responses[0]));
        let alone = Outcome { tree: copy.tree(), is_ok: vec![is_first_ok, None] };
        let is_second_ok = Some(is_ok(&call_once(&copy, second)));
        vec![alone, Outcome { tree: copy.tree(), is_ok: vec![is_first_ok, is_second_ok] }]
    }

    /// Makes calls of two sessions at the same time, one of which may be killed; returns true if both are replays.
    fn at_once(&mut self, before: &Tree) -> bool {
        self.focus = Some(self.existing("f"));
        let one = self.request();
        let other = loop {
            let other = self.request();
            if other.session != one.session {
                break other;
            }
        };
        self.focus = None;
        self.prepare(&one);
        self.prepare(&other);
        let mut outcomes = self.outcomes(&one, &other);
        let turned = self.outcomes(&other, &one).into_iter().map(|Outcome { tree, mut is_ok }| {
            is_ok.reverse();
            Outcome { tree, is_ok }
        });
        outcomes.extend(turned);
        let is_killed = self.random.below(3) == 0;

        let (moment, offset) = (self.moment(&one), self.moment(&one).start / 2);
        let is_one_served = is_served(&one);
        let (ws, server) = (&self.ws, &mut self.server);
        let (first, second) = std::thread::scope(|scope| {
            // At most one of the two uses the server; the other one runs on its own thread.
            let (here, there) = if is_served(&other) { (&other, &one) } else { (&one, &other) };
            let is_here_killed = is_killed && std::ptr::eq(here, &raw const one);
            let is_there_killed = is_killed && !is_here_killed;
            let thread = scope.spawn(move || {
                std::thread::sleep(offset);
                if is_there_killed { kill_once(ws, there, moment) } else { Some(call_once(ws, there)) }
            });
            let here_response = if is_here_killed {
                kill_call(ws, server, here, moment)
            } else {
                Some(call(ws, server, here))
            };
            let there_response = thread.join().unwrap();
            if std::ptr::eq(here, &raw const one) {
                (here_response, there_response)
            } else {
                (there_response, here_response)
            }
        });
        let way = if is_killed { format!("killed at {moment:?}, at once: ") } else { "at once: ".to_owned() };
        self.note(&way, &one, &first.clone().unwrap_or_default());
        self.note("  with: ", &other, &second.clone().unwrap_or_default());
        if is_killed {
            if is_one_served {
                self.server = Server::start(&self.ws, SERVED);
            }
            self.recover();
        }
        let found = [first.as_ref().map(is_ok), second.as_ref().map(is_ok)];
        self.must_be_one_of(before, &outcomes, &found, &[&one, &other]);
        self.note_passing(before, &outcomes, &[&one, &other]);
        one.is_replay && other.is_replay
    }

    /// Sends two calls to the server at the same time, which take effect in the order sent; the server may be killed.
    /// Returns true if both are replays.
    fn pipelined(&mut self, before: &Tree) -> bool {
        let requests: Vec<Request> = std::iter::repeat_with(|| Request { session: SERVED, ..self.request() })
            .filter(is_served)
            // No call waits for a command (ARCHITECTURE A12), which may take long.
            .skip_while(|request| request.tool == "bash")
            .take(2)
            .collect();
        for request in &requests {
            self.prepare(request);
        }
        let mut outcomes = self.outcomes(&requests[0], &requests[1]);
        let is_killed = self.random.below(3) == 0;
        if is_killed {
            outcomes.push(Outcome { tree: before.clone(), is_ok: vec![None, None] });
            // Independent calls run in parallel: the second one may end before the first.
            let (copy, second) = self.rehearse(&[&requests[1]]);
            outcomes.push(Outcome { tree: copy.tree(), is_ok: vec![None, Some(is_ok(&second[0]))] });
        }

        let moment = self.moment(&requests[1]);
        let ids: Vec<u64> =
            requests.iter().map(|request| self.server.begin_call(request.tool, &request.arguments)).collect();
        if is_killed {
            moment.wait(&self.ws);
            self.server.kill();
        }
        let responses: Vec<Option<Value>> = ids.into_iter().map(|id| self.server.result(id)).collect();
        let way =
            if is_killed { format!("killed at {moment:?}, in one go: ") } else { "in one go: ".to_owned() };
        for (request, response) in requests.iter().zip(&responses) {
            self.note(&way, request, &response.clone().unwrap_or_default());
        }
        if is_killed {
            self.server = Server::start(&self.ws, SERVED);
            self.recover();
        }
        let found: Vec<Option<bool>> =
            responses.iter().map(|response| response.as_ref().map(is_ok)).collect();
        assert!(is_killed || found.iter().all(Option::is_some), "the server ended: {}", self.story());
        let requests: Vec<&Request> = requests.iter().collect();
        self.must_be_one_of(before, &outcomes, &found, &requests);
        self.note_passing(before, &outcomes, &requests);
        requests.iter().all(|request| request.is_replay)
    }

    /// Adds a call to the story.
    fn note(&mut self, way: &str, request: &Request, response: &Value) {
        let Request { session, tool, arguments, .. } = request;
        self.steps.push(format!("{way}{session}: {tool} {arguments}: {response}"));
    }

    /// Returns the steps so far, one per line.
    fn story(&self) -> String {
        self.steps.join("\n")
    }
}

#[test]
fn concurrent_sessions_are_atomic_ordered_and_lose_nothing() {
    let (steps, seed) = (number("LBX_RANDOM_STEPS", STEPS), number("LBX_RANDOM_SEED", 1));
    // Even and odd seeds choose other names; each kind has at least one workspace.
    let steps_each = steps.div_ceil(2).clamp(1, STEPS_PER_WORKSPACE);
    for round in 0..steps.div_ceil(steps_each) {
        let mut run = Run::new(seed + round);
        for _ in 0..steps_each {
            run.step();
        }
        run.judge_end();
        // Visible with --nocapture.
        eprintln!("{}", run.story());
    }
}
