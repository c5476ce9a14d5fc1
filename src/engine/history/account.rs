//! The account of a history: what one session's changes come to in the end, without what others did
//! in between. A change that was undone shows nothing. Pure.
//!
//! `session` counts by it over the journal, `diff` over the snapshots ([`Own`] alone, since these name
//! every path that a move changes).

use std::collections::{BTreeMap, BTreeSet};

use super::own;
use super::own::Own;
use crate::engine::journal::{FileEntry, JournalEntry, MoveEntry, Version};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;

/// The bytes on one side of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// There was nothing, or is nothing.
    Nothing,
    /// These, which a backup has.
    Version(Version),
    /// Those before these changes, with what others changed in between.
    Apart(Own<Version>),
    /// Those of whatever stands at this path, the trash included.
    At(WorkspacePath),
}

/// What became of one path, from before the session's first change to after its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetChange {
    /// The path now, or that of what is gone.
    pub path: WorkspacePath,
    /// The path before, where it is another.
    pub from: Option<WorkspacePath>,
    /// Its bytes before.
    pub before: Side,
    /// Its bytes after.
    pub after: Side,
}

/// What changes, the oldest first, come to; ordered by path.
pub fn net<'a>(entries: impl IntoIterator<Item = &'a JournalEntry>) -> Vec<NetChange> {
    let mut ledger = Ledger::default();
    for entry in entries {
        ledger.folders.extend(entry.folders.iter().cloned());
        ledger.take_moves(&entry.moves);
        entry.files.iter().for_each(|file| ledger.take_file(file));
    }
    ledger.into_changes()
}

/// What is known of the paths so far.
#[derive(Default)]
struct Ledger {
    /// Files of which bytes were changed, by their path now: before and after.
    files: BTreeMap<WorkspacePath, Own<Version>>,
    /// What was moved whole: where it was at first, and where it is.
    moved: Vec<(WorkspacePath, WorkspacePath)>,
    /// Folders that the session made.
    folders: BTreeSet<WorkspacePath>,
}

impl Ledger {
    /// Takes in what a change did to one file.
    fn take_file(&mut self, file: &FileEntry) {
        let known = self.files.entry(file.path.clone());
        known
            .and_modify(|own| own.push(file.before.clone(), file.after.clone()))
            .or_insert_with(|| Own::new(file.before.clone(), file.after.clone()));
    }

    /// Takes in the moves of one change: what waits for its new name goes out of the way first.
    fn take_moves(&mut self, moves: &[MoveEntry]) {
        for moved in moves {
            self.take_move(&moved.from, moved.via.as_ref().unwrap_or(&moved.to));
        }
        for moved in moves {
            if let Some(via) = &moved.via {
                self.take_move(via, &moved.to);
            }
        }
    }

    /// Takes in one move.
    fn take_move(&mut self, from: &WorkspacePath, to: &WorkspacePath) {
        let is_new =
            self.files.get(from).is_some_and(|own| own.first().is_none()) || self.folders.contains(from);
        self.files = std::mem::take(&mut self.files)
            .into_iter()
            .map(|(path, sides)| (carried(&path, from, to).unwrap_or(path), sides))
            .collect();
        self.folders = std::mem::take(&mut self.folders)
            .into_iter()
            .map(|path| carried(&path, from, to).unwrap_or(path))
            .collect();
        let known = self.moved.iter().any(|(_, now)| now == from);
        if !known && !is_new {
            // A part of what was moved before had its place there at first.
            let origin = self.moved.iter().find_map(|(origin, now)| carried(from, now, origin));
            self.moved.push((origin.unwrap_or_else(|| from.clone()), from.clone()));
        }
        for (_, now) in &mut self.moved {
            if let Some(path) = carried(now, from, to) {
                *now = path;
            }
        }
        self.moved.retain(|(origin, now)| origin != now);
    }

    /// What it all comes to.
    fn into_changes(mut self) -> Vec<NetChange> {
        let mut changes = Vec::new();
        for (origin, now) in std::mem::take(&mut self.moved) {
            let sides = self.files.remove(&now);
            let at = || Side::At(now.clone());
            let (before, after) = match sides {
                Some(own) => (before_of(&own).unwrap_or_else(at), after_of(&own)),
                None => (at(), at()),
            };
            // It went to the trash, or its bytes went otherwise.
            let is_gone = is_state(&now) || after == Side::Nothing;
            changes.extend(match (is_state(&origin), is_gone) {
                (true, true) => None,
                (true, false) => Some(NetChange { path: now, from: None, before: Side::Nothing, after }),
                (false, false) => Some(NetChange { path: now, from: Some(origin), before, after }),
                (false, true) => {
                    // Something new may have come in its place.
                    let after = self.files.remove(&origin).map_or(Side::Nothing, |own| after_of(&own));
                    (before != after).then_some(NetChange { path: origin, from: None, before, after })
                }
            });
        }
        let files = self.files.into_iter().filter(|(path, own)| !own.is_nothing() && !is_state(path));
        changes.extend(files.map(|(path, own)| NetChange {
            path,
            from: None,
            before: before_of(&own).unwrap_or(Side::Nothing),
            after: after_of(&own),
        }));
        changes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        changes
    }
}

impl own::Version for Version {
    fn is_same(&self, other: &Self) -> bool {
        self.sha256 == other.sha256 && self.is_alike(other)
    }

    fn is_alike(&self, other: &Self) -> bool {
        self.mode == other.mode
    }
}

/// What was there before changes; `None` where there was nothing.
fn before_of(own: &Own<Version>) -> Option<Side> {
    if own.is_interrupted() {
        return Some(Side::Apart(own.clone()));
    }
    own.first().cloned().map(Side::Version)
}

/// What is there after changes.
fn after_of(own: &Own<Version>) -> Side {
    own.last().cloned().map_or(Side::Nothing, Side::Version)
}

/// Where `path` is once `from` is at `to`; `None` where it lies elsewhere.
fn carried(path: &WorkspacePath, from: &WorkspacePath, to: &WorkspacePath) -> Option<WorkspacePath> {
    if !path.is_within(from) {
        return None;
    }
    let rest = path.as_path().strip_prefix(from.as_path()).ok()?;
    Some(rest.iter().fold(to.clone(), |path, name| path.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sha256::Sha256;
    use std::path::Path;

    /// A path.
    fn at(path: &str) -> WorkspacePath {
        WorkspacePath::new(Path::new(path)).unwrap()
    }

    /// The version that holds these bytes; none of an empty text.
    fn version(text: &str) -> Option<Version> {
        let version = Version {
            sha256: Sha256::of(text.as_bytes()),
            size: text.len() as u64,
            mode: 0o644,
            identity: None,
        };
        (!text.is_empty()).then_some(version)
    }

    /// A change in short: `path:before:after`, or `from>to`.
    fn entry(text: &str) -> JournalEntry {
        let mut entry = JournalEntry::new("id".to_owned(), "s", "t", 1, 0);
        if let Some((from, to)) = text.split_once('>') {
            entry.moves.push(MoveEntry::new(at(from), at(to)));
        } else {
            let parts: Vec<&str> = text.split(':').collect();
            let (before, after) = (version(parts[1]), version(parts[2]));
            entry.files.push(FileEntry { path: at(parts[0]), before, after });
        }
        entry
    }

    /// What changes come to, in short.
    fn net_of(changes: &[&str]) -> Vec<String> {
        let entries: Vec<JournalEntry> = changes.iter().map(|change| entry(change)).collect();
        let sign = |change: &NetChange| match (&change.before, &change.after, &change.from) {
            (_, _, Some(from)) => format!("R {from} "),
            (Side::Nothing, _, _) => "A ".to_owned(),
            (_, Side::Nothing, _) => "D ".to_owned(),
            _ => "M ".to_owned(),
        };
        net(&entries).iter().map(|change| format!("{}{}", sign(change), change.path)).collect()
    }

    #[test]
    fn what_was_taken_back_shows_nothing() {
        const TRASH: &str = ".lbx/trash/1/content";
        for (changes, wanted) in [
            (vec![], vec![]),
            (vec!["a:1:2"], vec!["M a"]),
            (vec!["a:1:2", "a:2:1"], vec![]),
            (vec!["a:1:2", "a:2:3"], vec!["M a"]),
            (vec!["a::2"], vec!["A a"]),
            (vec!["a::2", "a:2:"], vec![]),
            (vec!["a:1:"], vec!["D a"]),
            (vec!["a:1:", "a::2"], vec!["M a"]),
            (vec!["a>b"], vec!["R a b"]),
            (vec!["a>b", "b>a"], vec![]),
            (vec!["a>b", "b>c"], vec!["R a c"]),
            (vec!["a>b", "b:1:2"], vec!["R a b"]),
            (vec!["a:1:2", "a>b"], vec!["R a b"]),
            (vec!["a::1", "a>b"], vec!["A b"]),
            (vec!["a>.lbx/trash/1/content"], vec!["D a"]),
            (vec!["a>.lbx/trash/1/content", ".lbx/trash/1/content>a"], vec![]),
            (vec!["a::1", "a>.lbx/trash/1/content"], vec![]),
            (vec!["a::1", "a>.lbx/trash/1/content", ".lbx/trash/1/content>b"], vec!["A b"]),
            (vec!["a:1:2", "a>.lbx/trash/1/content"], vec!["D a"]),
            (vec!["a>.lbx/trash/1/content", "a::2"], vec!["M a"]),
            (vec![".lbx/trash/1/content>a"], vec!["A a"]),
            (vec!["d/a:1:2", "d>e"], vec!["R d e", "M e/a"]),
            (vec!["d>e", "e/a>f"], vec!["R d e", "R d/a f"]),
            (vec!["d>e", "e/a>f", "e>d"], vec!["R d/a f"]),
            (vec!["a>b", "a::1"], vec!["A a", "R a b"]),
            (vec!["a>b", "b:1:2", "b:2:", "a::1"], vec![]),
            (vec!["a>b", "b:1:2", "b:2:", "a::3"], vec!["M a"]),
            (vec!["a>b", "b:1:"], vec!["D a"]),
        ] {
            assert_eq!(net_of(&changes), wanted, "{changes:?}");
        }
        assert!(is_state(&at(TRASH)));
        // Two files that change places, and change them back.
        let mut swap = JournalEntry::new("id".to_owned(), "s", "t", 1, 0);
        let via = Some(at(".lbx/waiting"));
        swap.moves =
            vec![MoveEntry { via, ..MoveEntry::new(at("a"), at("b")) }, MoveEntry::new(at("b"), at("a"))];
        let moved = net([&swap]);
        assert_eq!(
            moved.iter().map(|change| change.from.clone().unwrap()).collect::<Vec<_>>(),
            [at("b"), at("a")]
        );
        assert_eq!(net([&swap, &swap]), []);
    }
}
