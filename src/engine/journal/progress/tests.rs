//! Random changes of a tree in memory, stopped after each step.

use crate::random::Random;
use std::path::Path;

use crate::engine::change::plan::{Intent, Move, NewFile, plan};
use crate::engine::journal::progress::*;
use crate::engine::journal::{FolderEntry, HELD_FOLDER};
use crate::engine::workspace::path::WorkspacePath;

/// What stands in a tree in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    /// A folder.
    Folder {
        /// What tells it from others.
        inode: u64,
    },
    /// A file.
    File {
        /// What tells it from others.
        inode: u64,
        /// What is in it.
        version: Version,
    },
}

/// A tree in memory.
type Tree = BTreeMap<Location, Node>;

/// A path among the files.
fn file(path: &str) -> Location {
    Location::File(WorkspacePath::new(Path::new(path)).unwrap())
}

/// A version with these bytes.
fn version(text: &str) -> Version {
    Version { sha256: Sha256::of(text.as_bytes()), size: 0, mode: 0o644, identity: None }
}

/// Whether the folder of a path is there.
fn has_parent(tree: &Tree, at: &Location) -> bool {
    at.parent().is_none_or(|parent| {
        let is_top = parent.path().is_root() || matches!(parent, Location::State(_));
        is_top || matches!(tree.get(&parent), Some(Node::Folder { .. }))
    })
}

/// Takes a step, as the system would.
fn take(tree: &mut Tree, step: &Step, number: u64) {
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

/// Takes a step back.
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

/// What can be seen of a tree.
fn observed(tree: &Tree, steps: &[Step]) -> BTreeMap<Location, Observed> {
    let look = |at: &Location| match tree.get(at) {
        None => Observed::Nothing,
        Some(Node::Folder { inode }) => Observed::Folder { inode: *inode },
        Some(Node::File { inode, version }) => {
            Observed::File { inode: *inode, version: Some((version.sha256, version.mode)) }
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

/// What a tree holds, inodes aside.
fn contents(tree: &Tree) -> Vec<(Location, Option<Version>)> {
    let content = |node: &Node| match node {
        Node::Folder { .. } => None,
        Node::File { version, .. } => Some(version.clone()),
    };
    let files = tree.iter().filter(|(at, _)| matches!(at, Location::File(_)));
    files.map(|(at, node)| (at.clone(), content(node))).collect()
}

/// A random tree of files in folders.
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
            tree.insert(file(&path), Node::File { inode, version: version(&path) });
            inode += 1;
        }
    }
    tree
}

/// A random change of it: files that go, come and change, and things that get other names, some of them
/// each other's.
fn random_intent(random: &mut Random, tree: &mut Tree) -> Intent {
    let mut intent = Intent::default();
    let all: Vec<Location> = tree.keys().cloned().collect();
    let mut touched: Vec<Location> = Vec::new();
    let is_apart = |at: &Location, touched: &[Location]| {
        !touched.iter().any(|other| other.is_within(at) || at.is_within(other))
    };
    let thing = |node: &Node| match node {
        Node::Folder { inode } => Thing { inode: *inode, is_folder: true },
        Node::File { inode, .. } => Thing { inode: *inode, is_folder: false },
    };
    for number in 0..=random.below(6) {
        let at = all[random.below(all.len())].clone();
        if !is_apart(&at, &touched) {
            continue;
        }
        let node = tree.get(&at).unwrap().clone();
        touched.push(at.clone());
        let staged = Location::in_state("staging", &format!("id-{number}"));
        let new = version(&format!("new {number}"));
        match (random.below(5), &node) {
            (0, Node::File { version, .. }) => intent.removed.push((at, version.clone())),
            (1, Node::File { version: before, .. }) => {
                tree.insert(staged.clone(), Node::File { inode: 300 + number as u64, version: new.clone() });
                intent.files.push(NewFile {
                    at,
                    staged,
                    before: Some(before.clone()),
                    after: new,
                    in_place: false,
                });
            }
            (2, _) => {
                // Two things exchange their names.
                let other = all[random.below(all.len())].clone();
                if is_apart(&other, &touched) {
                    touched.push(other.clone());
                    let second = thing(tree.get(&other).unwrap());
                    intent.moves.push(Move {
                        from: at.clone(),
                        to: other.clone(),
                        thing: thing(&node),
                        across: None,
                        is_final: false,
                    });
                    intent.moves.push(Move {
                        from: other,
                        to: at,
                        thing: second,
                        across: None,
                        is_final: false,
                    });
                }
            }
            (3, _) => {
                let to = file(&format!("new{number}/moved"));
                let parent = FolderEntry { path: file(&format!("new{number}")), mode: None, identity: None };
                intent.made.push(parent);
                intent.moves.push(Move { from: at, to, thing: thing(&node), across: None, is_final: false });
            }
            (_, Node::File { version: before, .. }) => {
                // A file makes way for another, which comes from elsewhere.
                let files = all.iter().filter(|other| matches!(tree.get(other), Some(Node::File { .. })));
                let from = files.filter(|other| is_apart(other, &touched)).nth(random.below(4)).cloned();
                intent.removed.push((at.clone(), before.clone()));
                if let Some(from) = from {
                    touched.push(from.clone());
                    let thing = thing(tree.get(&from).unwrap());
                    intent.moves.push(Move { from, to: at, thing, across: None, is_final: false });
                }
            }
            _ => {
                let inner = FolderEntry { path: file(&format!("made{number}")), mode: None, identity: None };
                let at = file(&format!("made{number}/f"));
                tree.insert(staged.clone(), Node::File { inode: 300 + number as u64, version: new.clone() });
                intent.made.push(inner);
                intent.files.push(NewFile { at, staged, before: None, after: new, in_place: false });
            }
        }
    }
    intent
}

/// The steps of a random change, and the tree before and after each.
fn random_change(seed: u64) -> (Vec<Step>, Vec<Tree>) {
    let mut random = Random::new(seed * 7919 + 1);
    let mut tree = random_tree(&mut random);
    let intent = random_intent(&mut random, &mut tree);
    let steps = plan(intent, |number| Location::in_state(HELD_FOLDER, &format!("id-held-{number}")));
    assert_eq!(contradiction(&steps), None, "{steps:#?}");
    let mut trees = vec![tree.clone()];
    for (number, step) in steps.iter().enumerate() {
        take(&mut tree, step, number as u64);
        trees.push(tree.clone());
    }
    (steps, trees)
}

#[test]
fn from_any_step_a_change_goes_on_or_is_rolled_back() {
    for seed in 1..2000 {
        let (steps, trees) = random_change(seed);
        for (done, stopped) in trees.iter().enumerate() {
            let found = progress(&steps, &observed(stopped, &steps));
            assert_eq!((found.forth, found.back), (Some(done), Some(done)), "seed {seed}: {steps:#?}");
            let mut tree = stopped.clone();
            for (number, step) in steps.iter().enumerate().skip(done) {
                take(&mut tree, step, number as u64);
            }
            assert_eq!(contents(&tree), contents(trees.last().unwrap()), "seed {seed}");
            let mut tree = stopped.clone();
            for (number, step) in steps.iter().enumerate().take(done).rev() {
                take_back(&mut tree, step, number as u64);
                // Stopped again, it is known how far it came, though what waited is gone.
                let seen: BTreeMap<Location, Observed> = observed(&tree, &steps);
                assert_eq!(progress(&steps, &seen).back, Some(number), "seed {seed}: {steps:#?}");
            }
            assert_eq!(contents(&tree), contents(&trees[0]), "seed {seed}");
        }
    }
}

#[test]
fn what_others_have_changed_fits_no_step() {
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
                tree.insert(at.clone(), Node::File { inode: 9999, version: version("someone else's") });
                let found = progress(&steps, &observed(&tree, &steps));
                // A file that is only moved moves with whatever is in it; nothing else is ever lost.
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
fn a_folder_that_was_made_and_removed_by_others_is_made_again() {
    let folder = FolderEntry { path: file("d"), mode: None, identity: None };
    let staged = Location::in_state("staging", "id-0");
    let new = NewFile {
        at: file("d/n"),
        staged: staged.clone(),
        before: None,
        after: version("n"),
        in_place: false,
    };
    let intent = Intent { made: vec![folder], files: vec![new], ..Intent::default() };
    let steps = plan(intent, |_| Location::in_state(HELD_FOLDER, "id"));
    let tree = Tree::from([(staged, Node::File { inode: 1, version: version("n") })]);
    assert_eq!(progress(&steps, &observed(&tree, &steps)).forth, Some(0));
    let mut made = tree.clone();
    made.insert(file("d"), Node::Folder { inode: 2 });
    assert_eq!(progress(&steps, &observed(&made, &steps)).forth, Some(1));
}

#[test]
fn steps_of_which_one_takes_what_a_later_one_needs_are_a_contradiction() {
    let folder = |path: &str| FolderEntry { path: file(path), mode: None, identity: None };
    let put = |path: &str| Step::Put {
        at: file(path),
        staged: Location::in_state("staging", "id-0"),
        before: None,
        after: version("n"),
        in_place: false,
    };
    let moves = |from: &str, to: &str, is_folder| Step::Rename {
        from: file(from),
        to: file(to),
        thing: Thing { inode: 1, is_folder },
        over: None,
        copy_of: None,
        is_final: false,
    };
    for (steps, at) in [
        // What comes to the name of a folder that goes later.
        (vec![put("d"), Step::RemoveFolder(folder("d"))], Some("d")),
        (vec![moves("a", "d", false), Step::RemoveFolder(folder("d"))], Some("d")),
        (vec![Step::RemoveFolder(folder("d")), put("d")], None),
        // A folder may be removed for two reasons.
        (vec![Step::RemoveFolder(folder("d")), Step::RemoveFolder(folder("d")), put("d")], None),
        // What comes to a folder that is not there any more, or is none.
        (vec![Step::RemoveFolder(folder("d")), put("d/f")], Some("d/f")),
        (vec![moves("d", "e", true), put("d/f")], Some("d/f")),
        (vec![moves("d", "e", true), put("e/f")], None),
        (vec![put("d"), put("d/f"), moves("a", "b", false)], Some("d/f")),
        // What is taken twice, or comes where something came.
        (vec![moves("a", "b", false), moves("a", "c", false)], Some("a")),
        (vec![moves("a", "b", false), moves("c", "b", false)], Some("b")),
        (vec![moves("a", "b", false), put("a")], None),
        (vec![Step::MakeFolder(folder("d")), put("d/f"), moves("a", "d/g", false)], None),
        (vec![put("d"), Step::MakeFolder(folder("d"))], Some("d")),
    ] {
        assert_eq!(contradiction(&steps), at.map(file), "{steps:#?}");
    }
}
