//! How far a dead call came: the number of its steps that are done. Pure.
//!
//! Each step says what stands at the paths it touches before and after it, so that for any number
//! `k` of done steps it is known what stands where. The call came as far as the `k` that agrees with
//! the disk; where none does, someone else has changed the files since.

use std::collections::{BTreeMap, HashMap};

use super::Version;
use super::steps::{Location, Step, Thing};
use crate::sha256::Sha256;

/// What is to stand at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    Nothing,
    /// A folder, whichever.
    Folder,
    /// Nothing, or a folder that others have put something into.
    NoFile,
    /// A file or symlink with these bytes and this mode.
    File(Version),
    /// The same; nothing where the step before it is being taken back.
    Replaced(Version),
    /// A thing that is renamed.
    Thing(Thing),
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// Nothing: it, or a folder on the way to it, is not there.
    Nothing,
    /// A folder.
    Folder {
        /// Its inode.
        inode: u64,
    },
    /// A file, symlink or other thing.
    File {
        /// Its inode.
        inode: u64,
        /// SHA-256 of its bytes and its mode, of a regular file or symlink whose bytes matter.
        version: Option<(Sha256, u32)>,
    },
    /// A file that is written in place and holds some of its old bytes and some of its new ones.
    Torn,
}

/// How exactly the disk must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Measure {
    /// Whether the change is to be completed, for which its staged bytes must be there.
    to_go_on: bool,
    /// Whether inodes count: they do not in a copy of a workspace.
    by_inode: bool,
}

/// From where a change can go on, and from where it can be rolled back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// So many steps are done, and what the others need is there.
    pub forth: Option<usize>,
    /// So many steps are done, as far as they can be taken back.
    pub back: Option<usize>,
}

/// What stands at a path while `since` to `until` steps are done, both included.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fact {
    /// The path.
    at: Location,
    /// What stands there.
    expected: Expected,
    /// The first number of done steps.
    since: usize,
    /// The last.
    until: usize,
    /// Whether it is about bytes that wait, which only going on needs.
    is_staged: bool,
}

/// The paths that have to be looked at, and whether their bytes matter.
#[must_use]
pub fn paths(steps: &[Step]) -> BTreeMap<Location, bool> {
    let mut paths = BTreeMap::new();
    for fact in facts(steps) {
        let has_bytes = matches!(fact.expected, Expected::File(_) | Expected::Replaced(_));
        *paths.entry(fact.at).or_default() |= has_bytes;
    }
    paths
}

/// How far the steps were carried out, by what stands at their [`paths`].
#[must_use]
pub fn progress(steps: &[Step], observed: &BTreeMap<Location, Observed>) -> Progress {
    let facts = facts(steps);
    let agreeing =
        |to_go_on, by_inode| agreeing(steps.len(), &facts, observed, Measure { to_go_on, by_inode });
    // Steps that may be done or not are done again, or taken back in any case.
    let forth = [true, false].into_iter().find_map(|by_inode| agreeing(true, by_inode).first().copied());
    let back = [true, false].into_iter().find_map(|by_inode| agreeing(false, by_inode).last().copied());
    Progress { forth, back }
}

/// The numbers of done steps that agree with the disk.
fn agreeing(
    steps: usize,
    facts: &[Fact],
    observed: &BTreeMap<Location, Observed>,
    measure: Measure,
) -> Vec<usize> {
    // How many facts more than before are wrong once so many steps are done.
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

/// Whether that stands at a path which is to stand there.
fn agrees(expected: &Expected, observed: Option<&Observed>, measure: Measure) -> bool {
    let Some(observed) = observed else {
        return false;
    };
    let is = |wanted: &Version| {
        matches!(observed, Observed::File { version: Some((sha256, mode)), .. }
            if *sha256 == wanted.sha256 && *mode == wanted.mode)
    };
    match (expected, observed) {
        (Expected::Nothing | Expected::NoFile, Observed::Nothing)
        | (Expected::Folder | Expected::NoFile, Observed::Folder { .. })
        | (Expected::File(_) | Expected::Replaced(_), Observed::Torn) => true,
        (Expected::File(version), _) => is(version),
        (Expected::Replaced(version), _) => {
            is(version) || (!measure.to_go_on && *observed == Observed::Nothing)
        }
        (Expected::Thing(thing), Observed::Folder { inode }) => {
            thing.is_folder && (!measure.by_inode || *inode == thing.inode)
        }
        (Expected::Thing(thing), Observed::File { inode, .. }) => {
            !thing.is_folder && (!measure.by_inode || *inode == thing.inode)
        }
        _ => false,
    }
}

/// Where steps contradict each other: one needs at a path what an earlier one has taken from there, or a folder
/// that is none by then. Such steps cannot all be taken, and what came of the first of them would fit no number.
///
/// Bytes that are put in the place of others, and files that go, need nothing of each other.
#[must_use]
pub fn contradiction(steps: &[Step]) -> Option<Location> {
    if steps.iter().all(|step| matches!(step, Step::Put { .. } | Step::Unlink { .. })) {
        return None;
    }
    let mut ledger = Ledger::default();
    for (done, step) in steps.iter().enumerate() {
        ledger.take(done, step);
    }
    ledger.contradiction
}

/// Whether what is known to stand at a path can be what a step needs there.
fn can_be(known: &Expected, needed: &Expected) -> bool {
    let is_folder = |expected: &Expected| match expected {
        Expected::Folder => Some(true),
        Expected::Thing(thing) => Some(thing.is_folder),
        Expected::File(_) | Expected::Replaced(_) => Some(false),
        Expected::Nothing | Expected::NoFile => None,
    };
    is_folder(known) == is_folder(needed)
}

/// Everything that is known of what stands where, while so many steps are done.
fn facts(steps: &[Step]) -> Vec<Fact> {
    let mut ledger = Ledger::default();
    for (done, step) in steps.iter().enumerate() {
        ledger.take(done, step);
    }
    ledger.end(steps.len())
}

/// The facts so far.
#[derive(Default)]
struct Ledger {
    /// What is known at this moment, and since when.
    now: BTreeMap<Location, (Expected, usize)>,
    /// What was known before.
    past: Vec<Fact>,
    /// The folders that were renamed, by their new names: when, and from where.
    renamed: HashMap<Location, Vec<(usize, Location)>>,
    /// The first path at which a step needs what cannot stand there.
    contradiction: Option<Location>,
}

impl Ledger {
    /// Takes in a step, before which `done` others are done.
    fn take(&mut self, done: usize, step: &Step) {
        match step {
            Step::MakeFolder(folder) => {
                self.need(done, &folder.path, &Expected::Nothing);
                self.set(done, &folder.path, Expected::Folder);
            }
            Step::RemoveFolder(folder) => {
                self.need(done, &folder.path, &Expected::Folder);
                self.set(done, &folder.path, Expected::NoFile);
            }
            Step::Rename { from, to, thing, over, .. } => {
                self.need(done, from, &Expected::Thing(*thing));
                let before = over.clone().map_or(Expected::Nothing, Expected::Replaced);
                self.need(done, to, &before);
                self.carry(done, from, to);
                self.set(done, from, Expected::Nothing);
                self.set(done, to, Expected::Thing(*thing));
                if thing.is_folder {
                    self.renamed.entry(to.clone()).or_default().push((done, from.clone()));
                }
            }
            Step::Put { at, staged, before, after, .. } => {
                self.need(done, at, &before.clone().map_or(Expected::Nothing, Expected::File));
                self.set(done, at, Expected::File(after.clone()));
                self.past.push(Fact {
                    at: staged.clone(),
                    expected: Expected::File(after.clone()),
                    since: 0,
                    until: done,
                    is_staged: true,
                });
            }
            Step::Unlink { at, before } => {
                self.need(done, at, &Expected::File(before.clone()));
                self.set(done, at, Expected::Nothing);
            }
        }
    }

    /// Notes what a step finds at a path, where that is news; it stood there, or where that came
    /// from, from the beginning.
    fn need(&mut self, done: usize, at: &Location, expected: &Expected) {
        if self.contradiction.is_none() && !self.can_find(at, expected) {
            self.contradiction = Some(at.clone());
        }
        if self.now.contains_key(at) {
            return;
        }
        let (mut here, mut until, mut is_past) = (at.clone(), done, false);
        loop {
            let earlier =
                if *expected == Expected::Nothing { None } else { self.before_rename(&here, until) };
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

    /// Whether a step can find that at a path, by what is known of it and of the folders on the way.
    fn can_find(&self, at: &Location, expected: &Expected) -> bool {
        let known = |at: &Location| self.now.get(at).map(|(known, _)| known);
        // A folder that is gone is one fewer to remove.
        if *expected == Expected::Folder && known(at).is_some_and(|known| can_be(known, &Expected::Nothing)) {
            return true;
        }
        let is_there = known(at).is_none_or(|known| can_be(known, expected));
        let mut folders = std::iter::successors(at.parent(), Location::parent);
        is_there && folders.all(|folder| known(&folder).is_none_or(|known| can_be(known, &Expected::Folder)))
    }

    /// The last rename of a folder before `until` steps that brought `at` along: when it was, and
    /// where `at` was before.
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

    /// Notes what a step leaves at a path.
    fn set(&mut self, done: usize, at: &Location, expected: Expected) {
        if let Some((before, since)) = self.now.remove(at) {
            self.close(at.clone(), before, since, done);
        }
        self.now.insert(at.clone(), (expected, done + 1));
    }

    /// Lets what is known below a folder go along with it.
    fn carry(&mut self, done: usize, from: &Location, to: &Location) {
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

    /// Notes what was known up to the moment at which `until` steps were done.
    fn close(&mut self, at: Location, expected: Expected, since: usize, until: usize) {
        if since <= until {
            self.past.push(Fact { at, expected, since, until, is_staged: false });
        }
    }

    /// All facts, once `steps` are done.
    fn end(mut self, steps: usize) -> Vec<Fact> {
        for (at, (expected, since)) in std::mem::take(&mut self.now) {
            self.close(at, expected, since, steps);
        }
        self.past
    }
}

#[cfg(test)]
mod tests;
