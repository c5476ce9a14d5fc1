//! Random histories of turns, judged by a model of the tree: an undo or redo of a turn leads to the tree that the changes
//! in effect make, in their order, or it is refused and changes nothing.
//!
//! The model knows each file by its identity, not by its name. No session follows the moves of others, so that folders
//! are moved and deleted only in every second history, which has one session. `LBX_HISTORIES=1000` makes so many histories;
//! `LBX_RANDOM_SEED` chooses the first. A failure prints its seed and its calls.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::common::random::Random;
use crate::common::{LOOSEN, Workspace};

/// Number of histories in a normal run.
const HISTORIES: u64 = 100;
/// Number of calls in a history.
const CALLS: usize = 26;
/// The sessions.
const SESSIONS: [&str; 2] = ["one", "two"];
/// Names that a call may give to a file.
const NAMES: [&str; 5] = ["a", "b", "c", "g", "new/h"];
/// Lines of a file that edits replace; other lines lie between them.
const SLOTS: usize = 3;

/// Place of a file or folder: the folder that holds it, if it is not the root, and its name.
type Place = (Option<usize>, String);

/// A file or folder; a folder has no slots.
#[derive(Clone)]
struct Node {
    place: Place,
    slots: Vec<String>,
}

/// All files and folders, by identity.
type Nodes = BTreeMap<usize, Node>;

/// One change of one file or folder.
enum Act {
    Create(Place),
    Edit { slot: usize, before: String, after: String },
    Move { from: Place, to: Place },
    Delete { from: Place },
}

/// State of a change.
#[derive(Clone, Copy, PartialEq)]
enum Status {
    InEffect,
    Undone,
    Lost,
}

/// A change of a session.
struct Step {
    session: usize,
    seq: u64,
    turn: usize,
    id: usize,
    act: Act,
    status: Status,
}

/// Stacks of a session.
#[derive(Default)]
struct Stacks {
    seq: u64,
    /// Turn that is open, and whether there is one.
    turn: Option<usize>,
    done: Vec<usize>,
    undone: Vec<usize>,
}

/// A history.
struct History {
    ws: Workspace,
    /// Number of sessions.
    count: usize,
    random: Random,
    first: Nodes,
    steps: Vec<Step>,
    sessions: [Stacks; 2],
    turns: usize,
    ids: usize,
    story: Vec<String>,
    /// Undos and redos that led to the tree of the model, and that were refused.
    counts: (usize, usize),
}

/// Returns the path of a place.
fn path_of(nodes: &Nodes, place: &Place) -> String {
    match place.0 {
        Some(folder) => format!("{}/{}", path_of(nodes, &nodes[&folder].place), place.1),
        None => place.1.clone(),
    }
}

/// Returns the text of a file.
fn text_of(id: usize, slots: &[String]) -> String {
    let between =
        |slot| (0..4).fold(String::new(), |text, line| text + &format!("file {id} line {slot}.{line}\n"));
    slots.iter().enumerate().fold(between(SLOTS), |text, (at, slot)| text + slot + "\n" + &between(at))
}

/// Returns the files of the model.
fn files_of(nodes: &Nodes) -> BTreeMap<String, String> {
    let files = nodes.iter().filter(|(_, node)| !node.slots.is_empty());
    files.map(|(id, node)| (path_of(nodes, &node.place), text_of(*id, &node.slots))).collect()
}

/// Returns true if a place holds nothing and its folder exists.
fn is_free(nodes: &Nodes, place: &Place) -> bool {
    let exists = place.0.is_none_or(|folder| nodes.contains_key(&folder));
    exists && nodes.values().all(|node| node.place != *place)
}

/// Returns true if `id` is `folder` or lies in it.
fn is_within(nodes: &Nodes, id: usize, folder: usize) -> bool {
    id == folder
        || nodes.get(&id).and_then(|node| node.place.0).is_some_and(|up| is_within(nodes, up, folder))
}

/// Makes one change in the model; `None` if it does not fit.
fn apply(nodes: &mut Nodes, step: &Step) -> Option<()> {
    match &step.act {
        Act::Create(place) => {
            let slots = (0..SLOTS).map(|slot| format!("{} {slot}", step.id)).collect();
            let node = Node { place: place.clone(), slots };
            is_free(nodes, place).then(|| nodes.insert(step.id, node))?;
        }
        Act::Edit { slot, before, after } => {
            let text = &mut nodes.get_mut(&step.id)?.slots[*slot];
            (text == before).then(|| text.clone_from(after))?;
        }
        Act::Move { from, to } => {
            let is_inside = to.0.is_some_and(|folder| is_within(nodes, folder, step.id));
            if nodes.get(&step.id)?.place != *from || is_inside || !is_free(nodes, to) {
                return None;
            }
            nodes.get_mut(&step.id)?.place.clone_from(to);
        }
        Act::Delete { .. } => {
            let within: Vec<usize> =
                nodes.keys().copied().filter(|id| is_within(nodes, *id, step.id)).collect();
            nodes.contains_key(&step.id).then_some(())?;
            within.iter().for_each(|id| drop(nodes.remove(id)));
        }
    }
    Some(())
}

impl History {
    fn new(seed: u64) -> Self {
        let places = [
            (None, "d"),
            (None, "e"),
            (Some(0), "keep"),
            (Some(1), "keep"),
            (None, "a"),
            (None, "b"),
            (Some(0), "f"),
        ];
        let node = |(id, (folder, name)): (usize, &(Option<usize>, &str))| {
            let slots = (0..SLOTS).map(|slot| format!("{id} {slot}")).filter(|_| id > 1).collect();
            (id, Node { place: (*folder, (*name).to_owned()), slots })
        };
        let first: Nodes = places.iter().enumerate().map(node).collect();
        let ws = Workspace::bare(&[]);
        ws.user_policy(&format!("{LOOSEN}gate = \"off\"\ndurable = false\n"));
        files_of(&first).iter().for_each(|(path, text)| ws.write(path, text));
        Self {
            ws,
            count: 1 + usize::from(seed.is_multiple_of(2)),
            random: Random::new(seed),
            ids: places.len(),
            first,
            steps: Vec::new(),
            sessions: Default::default(),
            turns: 0,
            story: vec![format!("LBX_RANDOM_SEED={seed}")],
            counts: (0, 0),
        }
    }

    /// Returns the tree that the changes make, of which the judge picks those in effect; `None` if they do not fit.
    fn nodes(&self, is_in_effect: impl Fn(usize) -> bool) -> Option<Nodes> {
        let mut nodes = self.first.clone();
        let steps = self.steps.iter().enumerate().filter(|(at, _)| is_in_effect(*at));
        steps.map(|(_, step)| apply(&mut nodes, step)).collect::<Option<Vec<()>>>()?;
        Some(nodes)
    }

    fn now(&self) -> Nodes {
        self.nodes(|at| self.steps[at].status == Status::InEffect).unwrap()
    }

    fn files(&self) -> BTreeMap<String, String> {
        let tree = self.ws.tree();
        let names = tree.keys().filter(|path| self.ws.path(path.to_str().unwrap()).is_file());
        let names =
            names.map(|path| path.to_str().unwrap().to_owned()).filter(|path| !path.starts_with(".lbx"));
        names.map(|path| (path.clone(), String::from_utf8(self.ws.read_bytes(&path)).unwrap())).collect()
    }

    fn call(&mut self, session: usize, tool: &str, request: &Value) -> Value {
        let json = request.to_string();
        self.story.push(format!("lbx {tool} --session {} --json '{json}'", SESSIONS[session]));
        let answer = self.ws.call(&[tool, "--session", SESSIONS[session], "--json", &json]);
        answer.env("LBX_OUTPUT", "json").run().envelope()
    }

    /// Begins or ends a turn of a session.
    fn prompt(&mut self, session: usize) {
        let begins = self.sessions[session].turn.is_none() || self.random.below(3) > 0;
        let name = if begins { "UserPromptSubmit" } else { "Stop" };
        self.turns += 1;
        let event =
            json!({ "hook_event_name": name, "session_id": "x", "prompt_id": self.turns.to_string() });
        self.story.push(format!("{name} {}", SESSIONS[session]));
        let hook = ["hook", "claude-code", "--session", SESSIONS[session], "--set", "guard.timeout_ms=60000"];
        assert_eq!(self.ws.lbx_stdin(&hook, event.to_string()).status(), 0);
        self.sessions[session].turn = begins.then_some(self.turns);
    }

    /// Makes a random change.
    fn change(&mut self, session: usize) {
        let now = self.now();
        let all: Vec<usize> = now.keys().copied().filter(|id| ![2, 3].contains(id)).collect();
        let files: Vec<usize> = all.iter().copied().filter(|id| *id > 1).collect();
        // To take back a file that another session has moved or deleted, nothing is left to do, and lbx does not ask.
        let theirs = |id: usize| {
            self.steps
                .iter()
                .any(|step| step.id == id && step.session != session && matches!(step.act, Act::Create(_)))
        };
        let may_be_theirs = |id: usize| self.count > 1 && (id < 2 || theirs(id));
        let movable: Vec<usize> = all
            .iter()
            .copied()
            .filter(|id| !now.keys().any(|inner| is_within(&now, *inner, *id) && may_be_theirs(*inner)))
            .collect();
        let folders: Vec<Option<usize>> = [None]
            .into_iter()
            .chain([0, 1].into_iter().filter(|id| now.contains_key(id)).map(Some))
            .collect();
        let to = (*self.random.of(&folders), (*self.random.of(&NAMES)).to_owned());
        let path = path_of(&now, &to);
        let mut kind = self.random.below(9);
        if movable.is_empty() || files.is_empty() {
            kind = 0;
        }
        let (id, act, tool, request) = match kind {
            0 | 1 if is_free(&now, &to) => {
                let id = self.ids;
                let slots: Vec<String> = (0..SLOTS).map(|slot| format!("{id} {slot}")).collect();
                (id, Act::Create(to), "write", json!({ "path": path, "content": text_of(id, &slots) }))
            }
            2 | 3 => {
                let id = *self.random.of(&movable);
                let from = now[&id].place.clone();
                if to.0.is_some_and(|folder| is_within(&now, folder, id)) || !is_free(&now, &to) {
                    return;
                }
                let request = json!({ "from": path_of(&now, &from), "to": path });
                (id, Act::Move { from, to }, "move", request)
            }
            4 => {
                let id = *self.random.of(&movable);
                let request = json!({ "path": path_of(&now, &now[&id].place), "recursive": true });
                (id, Act::Delete { from: now[&id].place.clone() }, "delete", request)
            }
            _ if files.is_empty() => return,
            _ => {
                let (id, slot) = (*self.random.of(&files), self.random.below(SLOTS));
                let (before, after) =
                    (now[&id].slots[slot].clone(), format!("{id} {slot} by change {}", self.steps.len()));
                let path = path_of(&now, &now[&id].place);
                let request = json!({ "path": path, "old_string": format!("{before}\n"), "new_string": format!("{after}\n") });
                (id, Act::Edit { slot, before, after }, "edit", request)
            }
        };
        let answer = self.call(session, tool, &request);
        assert_eq!(answer["ok"], true, "{answer}\n{}", self.story.join("\n"));
        self.ids += 1;
        self.turns += 1;
        let stacks = &mut self.sessions[session];
        stacks.seq += 1;
        let (seq, turn) = (stacks.seq, stacks.turn.unwrap_or(self.turns));
        let undone = std::mem::take(&mut stacks.undone);
        stacks.done.push(self.steps.len());
        undone.into_iter().for_each(|at| self.steps[at].status = Status::Lost);
        self.steps.push(Step { session, seq, turn, id, act, status: Status::InEffect });
    }

    /// Returns a number of steps, or 0 for a turn.
    fn steps_or_turn(&mut self) -> usize {
        if self.random.below(6) == 0 { 1 + self.random.below(3) } else { 0 }
    }

    /// Undoes or redoes a turn, or some changes if `steps` is not 0.
    fn turn_around(&mut self, session: usize, tool: &str, steps: usize) {
        let (from, to) = match tool {
            "undo" => (Status::InEffect, Status::Undone),
            _ => (Status::Undone, Status::InEffect),
        };
        let own: Vec<usize> = (0..self.steps.len()).filter(|at| self.steps[*at].session == session).collect();
        let stacks = &self.sessions[session];
        let top = if tool == "undo" { stacks.done.last() } else { stacks.undone.last() };
        let named = (!own.is_empty() && self.random.below(3) > 0).then(|| *self.random.of(&own));
        let turn = named.or(top.copied()).map(|at| self.steps[at].turn);
        let stack =
            if tool == "undo" { &self.sessions[session].done } else { &self.sessions[session].undone };
        let newest = stack.iter().rev().copied();
        let of_turn =
            newest.clone().filter(|at| Some(self.steps[*at].turn) == turn && self.steps[*at].status == from);
        let chosen: Vec<usize> = if steps > 0 { newest.take(steps).collect() } else { of_turn.collect() };
        let before = self.files();
        let number = named.map_or(0, |at| self.steps[at].seq);
        let request =
            if steps > 0 { json!({ "steps": steps, "merge": true }) } else { json!({ "turn": number }) };
        let answer = self.call(session, tool, &request);
        let story = self.story.join("\n");
        if chosen.is_empty() {
            assert_eq!(answer["error"]["kind"], "not_found", "{answer}\n{story}");
            return;
        }
        let will_be = |at: usize| {
            let status = if chosen.contains(&at) { to } else { self.steps[at].status };
            status == Status::InEffect
        };
        let wanted = self.nodes(will_be);
        if answer["ok"] != true {
            assert_eq!(answer["error"]["kind"], "stale_file", "{answer}\n{story}");
            assert_eq!(self.files(), before, "{answer}\n{story}");
            assert!(
                steps > 0 || wanted.is_none() || !self.is_independent(&chosen),
                "needless: {answer}\n{story}"
            );
            self.counts.1 += 1;
            return;
        }
        let wanted = wanted.unwrap_or_else(|| panic!("this had to be refused: {answer}\n{story}"));
        assert_eq!(self.files(), files_of(&wanted), "{answer}\n{story}");
        self.counts.0 += 1;
        chosen.iter().for_each(|at| self.steps[*at].status = to);
        let stacks = &mut self.sessions[session];
        stacks.seq += 1;
        stacks.done.retain(|at| !chosen.contains(at));
        stacks.undone.retain(|at| !chosen.contains(at));
        if tool == "undo" { stacks.undone.extend(chosen) } else { stacks.done.extend(chosen) }
    }

    /// Returns true if no other change in effect concerns the same things, so that no refusal is justified.
    fn is_independent(&self, chosen: &[usize]) -> bool {
        let now = self.now();
        let ids: BTreeSet<usize> = chosen.iter().map(|at| self.steps[*at].id).collect();
        let is_there = |id: &usize| now.contains_key(id);
        // It, or the folder to which it would come back, was deleted since.
        let is_gone = |at: &usize| {
            let Step { id, act, status, .. } = &self.steps[*at];
            match act {
                Act::Edit { .. } => !is_there(id),
                Act::Create(_) => *status == Status::InEffect && !is_there(id),
                Act::Move { from, .. } => !is_there(id) || !from.0.iter().all(is_there),
                Act::Delete { from } => !from.0.iter().all(is_there),
            }
        };
        if chosen.iter().any(is_gone) {
            return false;
        }
        let others = self.steps.iter().enumerate().filter(|(at, _)| !chosen.contains(at));
        others.into_iter().all(|(_, other)| {
            let is_own = other.session == self.steps[chosen[0]].session;
            let is_near =
                ids.iter().any(|id| is_within(&now, *id, other.id) || is_within(&now, other.id, *id));
            // Nobody follows the moves of other sessions, not even when they are taken back.
            let is_followed = is_own || matches!(other.act, Act::Edit { .. });
            if !is_followed {
                return false;
            }
            let of_this = |at: &&usize| self.steps[**at].id == other.id;
            other.status != Status::InEffect
                || !is_near
                || chosen.iter().filter(of_this).all(|at| match (&self.steps[*at].act, &other.act) {
                    (Act::Edit { slot, .. }, Act::Edit { slot: theirs, .. }) => slot != theirs,
                    (Act::Edit { .. }, Act::Move { .. }) | (Act::Move { .. }, Act::Edit { .. }) => true,
                    _ => false,
                })
        })
    }
}

#[test]
fn undo_of_turns_in_any_order_gives_the_tree_of_the_other_turns_or_is_refused() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (first, count) =
        (number("LBX_RANDOM_SEED").unwrap_or(1), number("LBX_HISTORIES").unwrap_or(HISTORIES));
    let (mut right, mut refused) = (0, 0);
    for seed in first..first + count {
        let mut history = History::new(seed);
        for _ in 0..CALLS {
            let session = history.random.below(history.count);
            match history.random.below(10) {
                0 | 1 => history.prompt(session),
                2..=5 => history.change(session),
                6..=7 => {
                    let steps = history.steps_or_turn();
                    history.turn_around(session, "undo", steps);
                }
                _ => {
                    let steps = history.steps_or_turn();
                    history.turn_around(session, "redo", steps);
                }
            }
        }
        right += history.counts.0;
        refused += history.counts.1;
    }
    println!("{count} histories: {right} undos and redos gave the model's tree, {refused} were refused");
    assert!(right > refused, "{right} {refused}");
}
