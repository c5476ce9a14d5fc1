//! Progress of a dead call: the number of steps that it did. Pure.
//!
//! Each step says what is at the paths it touches before and after it. So the expected state of every path is known for
//! any number `k` of done steps. The call did the `k` steps for which the disk agrees; if none fits, someone else has
//! changed the files since.

use std::collections::{BTreeMap, HashMap};

use super::Version;
use super::steps::{Location, Step, Thing};
use crate::sha256::Sha256;

/// Expectation about a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedState {
    /// Nothing.
    Nothing,
    /// Any folder.
    Folder,
    /// Nothing, or a folder that others have put files into.
    NoFile,
    /// A file or symlink with these bytes and this mode.
    File(Version),
    /// A file or symlink with these bytes and this mode, or nothing while the step before it is rolled back.
    Replaced(Version),
    /// A file or folder that is renamed.
    Thing(Thing),
}

/// Kind of thing at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservedKind {
    /// Nothing: the path, or a folder on the way to it, is missing.
    Nothing,
    /// A folder.
    Folder {
        /// Its inode.
        inode: u64,
    },
    /// A file, symlink or other non-folder.
    File {
        /// Its inode.
        inode: u64,
        /// SHA-256 of the bytes, and the mode, of a regular file or symlink whose bytes matter.
        version: Option<(Sha256, u32)>,
    },
    /// A file that is written in place and holds both old and new bytes.
    Torn,
}

/// Strictness of the comparison with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Strictness {
    /// True to complete the change, for which its staged bytes must be there.
    to_go_on: bool,
    /// True to compare inodes: they differ in a copy of a workspace.
    by_inode: bool,
}

/// Numbers of done steps from which a change can be completed or rolled back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of done steps, if the change can be completed from there.
    pub forth: Option<usize>,
    /// Number of done steps, if they can be rolled back.
    pub back: Option<usize>,
    /// True if a step was cut: its file holds both old and new bytes.
    pub is_torn: bool,
}

impl Progress {
    /// Returns true if the disk agrees with no number of done steps: others have changed the files.
    pub const fn is_unknown(self) -> bool {
        self.forth.is_none() && self.back.is_none()
    }

    /// Returns true if a step was taken at least in part.
    pub fn has_begun(self) -> bool {
        // Example: a power failure cut step 0, an append. It is done again (`forth`: 0), or taken back (`back`: 1), as if
        // it had not begun; but its file has neither its old bytes nor its new ones.
        self.is_torn || (self.forth != Some(0) && self.back != Some(0))
    }
}

/// Expectation about a path while `since` to `until` steps are done, both included.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Expectation {
    /// The path.
    at: Location,
    /// Expectation.
    expected: ExpectedState,
    /// First number of done steps.
    since: usize,
    /// Last number of done steps.
    until: usize,
    /// True if it concerns staged bytes, which only completing needs.
    is_staged: bool,
}

/// Returns the paths to examine, each with true if its bytes matter.
pub fn paths(steps: &[Step]) -> BTreeMap<Location, bool> {
    let mut paths = BTreeMap::new();
    for fact in facts(steps) {
        let has_bytes = matches!(fact.expected, ExpectedState::File(_) | ExpectedState::Replaced(_));
        *paths.entry(fact.at).or_default() |= has_bytes;
    }
    paths
}

/// Returns how many steps were done, given the state of their [`paths`].
pub fn progress(steps: &[Step], observed: &BTreeMap<Location, ObservedKind>) -> Progress {
    let facts = facts(steps);
    let agreeing =
        |to_go_on, by_inode| agreeing(steps.len(), &facts, observed, Strictness { to_go_on, by_inode });
    // If it is unclear whether a step was done, it is done again or rolled back anyway.
    let forth = [true, false].into_iter().find_map(|by_inode| agreeing(true, by_inode).first().copied());
    let back = [true, false].into_iter().find_map(|by_inode| agreeing(false, by_inode).last().copied());
    let is_torn = observed.values().any(|observed| *observed == ObservedKind::Torn);
    Progress { forth, back, is_torn }
}

/// Returns the numbers of done steps that agree with the disk.
fn agreeing(
    steps: usize,
    facts: &[Expectation],
    observed: &BTreeMap<Location, ObservedKind>,
    measure: Strictness,
) -> Vec<usize> {
    // Change in the number of wrong facts at each number of done steps.
    let mut wrong = vec![0_i64; steps + 2];
    let mut add = |at: usize, count: i64| {
        if let Some(known) = wrong.get_mut(at) {
            *known += count;
        }
    };
    for fact in facts.iter().filter(|fact| measure.to_go_on || !fact.is_staged) {
        if !agrees(&fact.expected, observed.get(&fact.at), measure) {
            add(fact.since, 1);
            add(fact.until + 1, -1);
        }
    }
    let mut count = 0;
    let mut found = Vec::new();
    for (done, change) in wrong.into_iter().take(steps + 1).enumerate() {
        count += change;
        if count == 0 {
            found.push(done);
        }
    }
    found
}

/// Returns true if the observed state of a path is the expected one.
fn agrees(expected: &ExpectedState, observed: Option<&ObservedKind>, measure: Strictness) -> bool {
    let Some(observed) = observed else {
        return false;
    };
    let is = |wanted: &Version| {
        matches!(observed, ObservedKind::File { version: Some((sha256, mode)), .. }
            if *sha256 == wanted.sha256 && *mode == wanted.mode)
    };
    match (expected, observed) {
        (ExpectedState::Nothing | ExpectedState::NoFile, ObservedKind::Nothing)
        | (ExpectedState::Folder | ExpectedState::NoFile, ObservedKind::Folder { .. })
        | (ExpectedState::File(_) | ExpectedState::Replaced(_), ObservedKind::Torn) => true,
        (ExpectedState::File(version), _) => is(version),
        (ExpectedState::Replaced(version), _) => {
            is(version) || (!measure.to_go_on && *observed == ObservedKind::Nothing)
        }
        (ExpectedState::Thing(thing), ObservedKind::Folder { inode }) => {
            thing.is_folder && (!measure.by_inode || *inode == thing.inode)
        }
        (ExpectedState::Thing(thing), ObservedKind::File { inode, .. }) => {
            !thing.is_folder && (!measure.by_inode || *inode == thing.inode)
        }
        _ => false,
    }
}

/// Returns the location where steps contradict each other: one needs something that an earlier one has removed, or a
/// folder that is not one by then. Such steps cannot all be taken, and after the first few the disk would fit no
/// number.
///
/// A `Put` that replaces bytes and an `Unlink` need nothing of each other.
pub fn contradiction(steps: &[Step]) -> Option<Location> {
    if steps.iter().all(|step| matches!(step, Step::Put { .. } | Step::Unlink { .. })) {
        return None;
    }
    Timeline::of(steps).contradiction
}

/// Returns true if the known state of a path can be the state that a step needs.
fn can_be(known: &ExpectedState, needed: &ExpectedState) -> bool {
    let is_folder = |expected: &ExpectedState| match expected {
        ExpectedState::Folder => Some(true),
        ExpectedState::Thing(thing) => Some(thing.is_folder),
        ExpectedState::File(_) | ExpectedState::Replaced(_) => Some(false),
        ExpectedState::Nothing | ExpectedState::NoFile => None,
    };
    is_folder(known) == is_folder(needed)
}

/// Returns the expected state of every path, for each number of done steps.
fn facts(steps: &[Step]) -> Vec<Expectation> {
    Timeline::of(steps).end(steps.len())
}

/// State of the paths while the steps are played.
#[derive(Default)]
struct Timeline {
    /// Present expectations, and the number of steps since which they hold.
    now: BTreeMap<Location, (ExpectedState, usize)>,
    /// Earlier expectations.
    past: Vec<Expectation>,
    /// Renamed folders by new name: number of done steps, and old name.
    renamed: HashMap<Location, Vec<(usize, Location)>>,
    /// First path at which a step needs something impossible.
    contradiction: Option<Location>,
}

impl Timeline {
    /// Plays all steps.
    fn of(steps: &[Step]) -> Self {
        let mut timeline = Self::default();
        steps.iter().enumerate().for_each(|(done, step)| timeline.play_step(done, step));
        timeline
    }

    /// Plays a step after `done` others.
    fn play_step(&mut self, done: usize, step: &Step) {
        match step {
            Step::MakeFolder(folder) => {
                self.require_state(done, &folder.path, &ExpectedState::Nothing);
                self.set(done, &folder.path, ExpectedState::Folder);
            }
            Step::RemoveFolder(folder) => {
                self.require_state(done, &folder.path, &ExpectedState::Folder);
                self.set(done, &folder.path, ExpectedState::NoFile);
            }
            Step::Rename { from, to, thing, over, .. } => {
                self.require_state(done, from, &ExpectedState::Thing(*thing));
                let before = over.clone().map_or(ExpectedState::Nothing, ExpectedState::Replaced);
                self.require_state(done, to, &before);
                self.rename_expectations(done, from, to);
                self.set(done, from, ExpectedState::Nothing);
                self.set(done, to, ExpectedState::Thing(*thing));
                if thing.is_folder {
                    self.renamed.entry(to.clone()).or_default().push((done, from.clone()));
                }
            }
            Step::Put { at, staged, before, after, .. } => {
                self.require_state(
                    done,
                    at,
                    &before.clone().map_or(ExpectedState::Nothing, ExpectedState::File),
                );
                self.set(done, at, ExpectedState::File(after.clone()));
                self.past.push(Expectation {
                    at: staged.clone(),
                    expected: ExpectedState::File(after.clone()),
                    since: 0,
                    until: done,
                    is_staged: true,
                });
            }
            Step::Unlink { at, before } => {
                self.require_state(done, at, &ExpectedState::File(before.clone()));
                self.set(done, at, ExpectedState::Nothing);
            }
        }
    }

    /// Notes the state that a step needs at a path, if it is not known yet. That state was there, or at the path's
    /// origin, from the start.
    fn require_state(&mut self, done: usize, at: &Location, expected: &ExpectedState) {
        if self.contradiction.is_none() && !self.can_find(at, expected) {
            self.contradiction = Some(at.clone());
        }
        if self.now.contains_key(at) {
            return;
        }
        let (mut here, mut until, mut is_past) = (at.clone(), done, false);
        loop {
            let earlier =
                if *expected == ExpectedState::Nothing { None } else { self.before_rename(&here, until) };
            let since = earlier.as_ref().map_or(0, |(renamed, _)| renamed + 1);
            if is_past {
                self.close(here, expected.clone(), since, until);
            } else {
                self.now.insert(here, (expected.clone(), since));
            }
            let Some((renamed, from)) = earlier else {
                return;
            };
            (here, until, is_past) = (from, renamed, true);
        }
    }

    /// Returns true if a step can find that at a path, given the known state of it and of the folders above it.
    fn can_find(&self, at: &Location, expected: &ExpectedState) -> bool {
        let known = |at: &Location| self.now.get(at).map(|(known, _)| known);
        // A missing folder is one fewer to remove.
        if *expected == ExpectedState::Folder
            && known(at).is_some_and(|known| can_be(known, &ExpectedState::Nothing))
        {
            return true;
        }
        let is_there = known(at).is_none_or(|known| can_be(known, expected));
        let mut folders = std::iter::successors(at.parent(), Location::parent);
        is_there
            && folders.all(|folder| known(&folder).is_none_or(|known| can_be(known, &ExpectedState::Folder)))
    }

    /// Returns the last rename of a folder before `until` steps that moved `at`: number of done steps, and the former
    /// path of `at`.
    fn before_rename(&self, at: &Location, until: usize) -> Option<(usize, Location)> {
        let mut holder = at.parent();
        let mut last: Option<(usize, Location)> = None;
        while let Some(folder) = holder {
            let renames = self.renamed.get(&folder).into_iter().flatten();
            for (done, from) in renames.filter(|(done, _)| *done < until) {
                if last.as_ref().is_none_or(|(known, _)| known < done) {
                    last = Some((*done, at.rebased(&folder, from)));
                }
            }
            holder = folder.parent();
        }
        last
    }

    /// Notes the state that a step leaves at a path.
    fn set(&mut self, done: usize, at: &Location, expected: ExpectedState) {
        if let Some((before, since)) = self.now.remove(at) {
            self.close(at.clone(), before, since, done);
        }
        self.now.insert(at.clone(), (expected, done + 1));
    }

    /// Moves all expectations below a folder to its new name.
    fn rename_expectations(&mut self, done: usize, from: &Location, to: &Location) {
        let below = |folder: &Location, now: &BTreeMap<Location, _>| -> Vec<Location> {
            let inner = now.range(folder.clone()..).skip_while(|(at, _)| *at == folder);
            inner.map(|(at, _)| at.clone()).take_while(|at| at.is_within(folder)).collect()
        };
        for at in below(to, &self.now) {
            if let Some((expected, since)) = self.now.remove(&at) {
                self.close(at, expected, since, done);
            }
        }
        for at in below(from, &self.now) {
            if let Some((expected, since)) = self.now.remove(&at) {
                self.now.insert(at.rebased(from, to), (expected.clone(), done + 1));
                self.close(at, expected, since, done);
            }
        }
    }

    /// Notes an expectation that ended when `until` steps were done.
    fn close(&mut self, at: Location, expected: ExpectedState, since: usize, until: usize) {
        if since <= until {
            self.past.push(Expectation { at, expected, since, until, is_staged: false });
        }
    }

    /// Returns all facts, once `steps` are done.
    fn end(mut self, steps: usize) -> Vec<Expectation> {
        for (at, (expected, since)) in std::mem::take(&mut self.now) {
            self.close(at, expected, since, steps);
        }
        self.past
    }
}

#[cfg(test)]
mod tests {
    use crate::random::Random;
    use std::path::Path;

    use super::*;
    use crate::engine::change::plan::{Intent, Move, plan};
    use crate::engine::journal::HELD_FOLDER;
    use crate::engine::journal::steps::Folder;
    use crate::engine::workspace::path::WorkspacePath;

    /// Item of a tree in memory.
    #[derive(Debug, Clone, PartialEq, Eq)]
    enum Node {
        /// A folder.
        Folder {
            /// Its identity.
            inode: u64,
        },
        /// A file.
        File {
            /// Its identity.
            inode: u64,
            /// Its mode and SHA-256.
            version: Version,
        },
    }

    /// A tree in memory.
    type Tree = BTreeMap<Location, Node>;

    /// Returns a folder among the files.
    fn folder(path: &str) -> Folder {
        Folder::new(file(path))
    }

    /// Returns a move.
    fn moved(from: Location, to: Location, thing: Thing) -> Move {
        Move { from, to, thing, across: None, is_final: false }
    }

    /// Returns a file with new bytes.
    fn put(at: Location, staged: Location, before: Option<Version>, after: Version) -> Step {
        Step::Put { at, staged, before, after, in_place: false }
    }

    /// Returns a path among the files.
    fn file(path: &str) -> Location {
        Location::File(WorkspacePath::new(Path::new(path)).unwrap())
    }

    /// Returns true if the parent folder of a path exists.
    fn has_parent(tree: &Tree, at: &Location) -> bool {
        at.parent().is_none_or(|parent| {
            let is_top = parent.path().is_root() || matches!(parent, Location::State(_));
            is_top || matches!(tree.get(&parent), Some(Node::Folder { .. }))
        })
    }

    /// Takes a step, as the OS would.
    fn play_step(tree: &mut Tree, step: &Step, number: u64) {
        assert!(step.locations().all(|at| has_parent(tree, at)), "{step:?}");
        let below = |tree: &Tree, at: &Location| tree.keys().any(|other| other != at && other.is_within(at));
        match step {
            Step::MakeFolder(folder) => {
                let made = Node::Folder { inode: 1000 + number };
                assert_eq!(tree.insert(folder.path.clone(), made), None, "{step:?}");
            }
            Step::RemoveFolder(folder) => {
                if !below(tree, &folder.path) {
                    tree.remove(&folder.path);
                }
            }
            Step::Rename { from, to, over, .. } => {
                assert_eq!(tree.remove(to).is_some(), over.is_some(), "{step:?}");
                let moving: Vec<Location> = tree.keys().filter(|at| at.is_within(from)).cloned().collect();
                assert!(!moving.is_empty(), "{step:?}");
                for at in moving {
                    let node = tree.remove(&at).unwrap();
                    tree.insert(at.rebased(from, to), node);
                }
            }
            Step::Put { at, staged, before, .. } => {
                let node = tree.remove(staged).unwrap();
                assert_eq!(tree.insert(at.clone(), node).is_some(), before.is_some(), "{step:?}");
            }
            Step::Unlink { at, .. } => {
                assert!(matches!(tree.remove(at), Some(Node::File { .. })), "{step:?}");
            }
        }
    }

    /// Rolls a step back.
    fn take_back(tree: &mut Tree, step: &Step, number: u64) {
        let restored = |version: &Version| Node::File { inode: 5000 + number, version: version.clone() };
        match step {
            Step::MakeFolder(folder) => drop(tree.remove(&folder.path)),
            Step::RemoveFolder(folder) => {
                tree.entry(folder.path.clone()).or_insert(Node::Folder { inode: 6000 + number });
            }
            Step::Rename { from, to, over, .. } => {
                let moving: Vec<Location> = tree.keys().filter(|at| at.is_within(to)).cloned().collect();
                for at in moving {
                    let node = tree.remove(&at).unwrap();
                    tree.insert(at.rebased(to, from), node);
                }
                if let Some(before) = over {
                    tree.insert(to.clone(), restored(before));
                }
            }
            Step::Put { at, before: None, .. } => drop(tree.remove(at)),
            Step::Put { at, before: Some(before), .. } | Step::Unlink { at, before } => {
                tree.insert(at.clone(), restored(before));
            }
        }
    }

    /// Returns the observable state of a tree.
    fn observed(tree: &Tree, steps: &[Step]) -> BTreeMap<Location, ObservedKind> {
        let look = |at: &Location| match tree.get(at) {
            None => ObservedKind::Nothing,
            Some(Node::Folder { inode }) => ObservedKind::Folder { inode: *inode },
            Some(Node::File { inode, version }) => {
                ObservedKind::File { inode: *inode, version: Some((version.sha256, version.mode)) }
            }
        };
        paths(steps)
            .into_keys()
            .map(|at| {
                let seen = look(&at);
                (at, seen)
            })
            .collect()
    }

    /// Returns the contents of a tree, without inodes.
    fn contents(tree: &Tree) -> Vec<(Location, Option<Version>)> {
        let content = |node: &Node| match node {
            Node::Folder { .. } => None,
            Node::File { version, .. } => Some(version.clone()),
        };
        let files = tree.iter().filter(|(at, _)| matches!(at, Location::File(_)));
        files.map(|(at, node)| (at.clone(), content(node))).collect()
    }

    /// Returns a random tree of files in folders.
    fn random_tree(random: &mut Random) -> Tree {
        let mut tree = Tree::new();
        let mut inode = 1;
        for folder in ["a", "b", "a/c", "a/c/d", "b/e"] {
            tree.insert(file(folder), Node::Folder { inode });
            inode += 1;
        }
        for folder in ["", "a/", "b/", "a/c/", "a/c/d/", "b/e/"] {
            for name in 0..random.below(4) {
                let path = format!("{folder}f{name}");
                tree.insert(file(&path), Node::File { inode, version: Version::of(&path) });
                inode += 1;
            }
        }
        tree
    }

    /// Returns a random change of it: files that are deleted, created and changed, and renames, some of which swap
    /// names.
    fn random_intent(random: &mut Random, tree: &mut Tree) -> Intent {
        let mut intent = Intent::default();
        let all: Vec<Location> = tree.keys().cloned().collect();
        let mut touched: Vec<Location> = Vec::new();
        let is_apart = |at: &Location, touched: &[Location]| {
            !touched.iter().any(|other| other.is_within(at) || at.is_within(other))
        };
        let thing = |node: &Node| match node {
            Node::Folder { inode } => Thing { inode: *inode, is_folder: true, closed: None },
            Node::File { inode, .. } => Thing { inode: *inode, is_folder: false, closed: None },
        };
        for number in 0..=random.below(6) {
            let at = all[random.below(all.len())].clone();
            if !is_apart(&at, &touched) {
                continue;
            }
            let node = tree.get(&at).unwrap().clone();
            touched.push(at.clone());
            let staged = Location::in_state("staging", &format!("id-{number}"));
            let new = Version::of(&format!("new {number}"));
            let written = Node::File { inode: 300 + number as u64, version: new.clone() };
            match (random.below(5), &node) {
                (0, Node::File { version, .. }) => intent.removed.push((at, version.clone())),
                (1, Node::File { version: before, .. }) => {
                    tree.insert(staged.clone(), written);
                    intent.files.push(put(at, staged, Some(before.clone()), new));
                }
                (2, _) => {
                    // Swap two names.
                    let other = all[random.below(all.len())].clone();
                    if is_apart(&other, &touched) {
                        touched.push(other.clone());
                        let second = thing(tree.get(&other).unwrap());
                        intent.moves.push(moved(at.clone(), other.clone(), thing(&node)));
                        intent.moves.push(moved(other, at, second));
                    }
                }
                (3, _) => {
                    let to = file(&format!("new{number}/moved"));
                    intent.made.push(folder(&format!("new{number}")));
                    intent.moves.push(moved(at, to, thing(&node)));
                }
                (_, Node::File { version: before, .. }) => {
                    // Replace a file by another one.
                    let files = all.iter().filter(|other| matches!(tree.get(other), Some(Node::File { .. })));
                    let from = files.filter(|other| is_apart(other, &touched)).nth(random.below(4)).cloned();
                    intent.removed.push((at.clone(), before.clone()));
                    if let Some(from) = from {
                        touched.push(from.clone());
                        let thing = thing(tree.get(&from).unwrap());
                        intent.moves.push(moved(from, at, thing));
                    }
                }
                _ => {
                    let at = file(&format!("made{number}/f"));
                    tree.insert(staged.clone(), written);
                    intent.made.push(folder(&format!("made{number}")));
                    intent.files.push(put(at, staged, None, new));
                }
            }
        }
        intent
    }

    /// Returns the steps of a random change, and the tree before and after each.
    fn random_change(seed: u64) -> (Vec<Step>, Vec<Tree>) {
        let mut random = Random::new(seed * 7919 + 1);
        let mut tree = random_tree(&mut random);
        let intent = random_intent(&mut random, &mut tree);
        let steps = plan(intent, |number| Location::in_state(HELD_FOLDER, &format!("id-held-{number}")));
        assert_eq!(contradiction(&steps), None, "{steps:#?}");
        let mut trees = vec![tree.clone()];
        for (number, step) in steps.iter().enumerate() {
            play_step(&mut tree, step, number as u64);
            trees.push(tree.clone());
        }
        (steps, trees)
    }

    #[test]
    fn interrupted_change_is_completed_or_rolled_back_at_any_step() {
        for seed in 1..2000 {
            let (steps, trees) = random_change(seed);
            for (done, stopped) in trees.iter().enumerate() {
                let found = progress(&steps, &observed(stopped, &steps));
                assert_eq!((found.forth, found.back), (Some(done), Some(done)), "seed {seed}: {steps:#?}");
                let mut tree = stopped.clone();
                for (number, step) in steps.iter().enumerate().skip(done) {
                    play_step(&mut tree, step, number as u64);
                }
                assert_eq!(contents(&tree), contents(trees.last().unwrap()), "seed {seed}");
                let mut tree = stopped.clone();
                for (number, step) in steps.iter().enumerate().take(done).rev() {
                    take_back(&mut tree, step, number as u64);
                    // Progress is known again after a second stop, though the staged bytes are gone.
                    let seen: BTreeMap<Location, ObservedKind> = observed(&tree, &steps);
                    assert_eq!(progress(&steps, &seen).back, Some(number), "seed {seed}: {steps:#?}");
                }
                assert_eq!(contents(&tree), contents(&trees[0]), "seed {seed}");
            }
        }
    }

    #[test]
    fn file_replaced_by_another_program_fits_no_step() {
        let mut found_nowhere = 0;
        for seed in 1..500 {
            let (steps, trees) = random_change(seed);
            for (done, stopped) in trees.iter().enumerate() {
                for at in paths(&steps).into_keys().filter(|at| matches!(at, Location::File(_))) {
                    if !has_parent(stopped, &at) {
                        continue;
                    }
                    let mut tree = stopped.clone();
                    tree.retain(|other, _| *other == at || !other.is_within(&at));
                    tree.insert(
                        at.clone(),
                        Node::File { inode: 9999, version: Version::of("someone else's") },
                    );
                    let found = progress(&steps, &observed(&tree, &steps));
                    // A file that is only moved keeps its bytes, whatever they are; nothing else is ever lost.
                    let is_moved = |step: &Step| {
                        matches!(step, Step::Rename { from, to, thing, .. }
                    if !thing.is_folder && (*from == at || *to == at))
                    };
                    if !steps.iter().any(is_moved) {
                        assert_eq!(found, Progress::default(), "seed {seed} after {done}, {at}: {steps:#?}");
                        found_nowhere += 1;
                    }
                }
            }
        }
        assert!(found_nowhere > 1000, "{found_nowhere}");
    }

    #[test]
    fn directory_removed_by_another_program_is_recreated() {
        let staged = Location::in_state("staging", "id-0");
        let new = put(file("d/n"), staged.clone(), None, Version::of("n"));
        let intent = Intent { made: vec![folder("d")], files: vec![new], ..Intent::default() };
        let steps = plan(intent, |_| Location::in_state(HELD_FOLDER, "id"));
        let tree = Tree::from([(staged, Node::File { inode: 1, version: Version::of("n") })]);
        assert_eq!(progress(&steps, &observed(&tree, &steps)).forth, Some(0));
        let mut made = tree.clone();
        made.insert(file("d"), Node::Folder { inode: 2 });
        assert_eq!(progress(&steps, &observed(&made, &steps)).forth, Some(1));
    }

    #[test]
    fn steps_that_block_a_later_step_are_a_contradiction() {
        let put = |path: &str| put(file(path), Location::in_state("staging", "id-0"), None, Version::of("n"));
        let moves = |from: &str, to: &str, is_folder| Step::Rename {
            from: file(from),
            to: file(to),
            thing: Thing { inode: 1, is_folder, closed: None },
            over: None,
            copy_of: None,
            is_final: false,
        };
        for (steps, at) in [
            // A put under the name of a folder that is removed later.
            (vec![put("d"), Step::RemoveFolder(folder("d"))], Some("d")),
            (vec![moves("a", "d", false), Step::RemoveFolder(folder("d"))], Some("d")),
            (vec![Step::RemoveFolder(folder("d")), put("d")], None),
            // A folder may be removed for two reasons.
            (vec![Step::RemoveFolder(folder("d")), Step::RemoveFolder(folder("d")), put("d")], None),
            // A put into a folder that is removed, or is a file.
            (vec![Step::RemoveFolder(folder("d")), put("d/f")], Some("d/f")),
            (vec![moves("d", "e", true), put("d/f")], Some("d/f")),
            (vec![moves("d", "e", true), put("e/f")], None),
            (vec![put("d"), put("d/f"), moves("a", "b", false)], Some("d/f")),
            // A source taken twice, or a target used twice.
            (vec![moves("a", "b", false), moves("a", "c", false)], Some("a")),
            (vec![moves("a", "b", false), moves("c", "b", false)], Some("b")),
            (vec![moves("a", "b", false), put("a")], None),
            (vec![Step::MakeFolder(folder("d")), put("d/f"), moves("a", "d/g", false)], None),
            (vec![put("d"), Step::MakeFolder(folder("d"))], Some("d")),
        ] {
            assert_eq!(contradiction(&steps), at.map(file), "{steps:#?}");
        }
    }
}
