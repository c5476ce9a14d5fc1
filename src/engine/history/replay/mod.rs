//! Net effect of undoing or redoing several changes as one.
//!
//! The changes are played on a picture of the tree: which file or folder would be where, and which files would have
//! other bytes. The difference between the picture and the tree in the end is the one change to make. Nothing here
//! touches the disk.

mod pieces;

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::journal::steps::{Folder, Location, Step};
use crate::engine::journal::{FileEntry, FolderEntry, FolderMode, JournalEntry, MoveEntry, Version};
use crate::engine::workspace::path::WorkspacePath;
pub use pieces::{Piece, Pieces};

/// Which way to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Back.
    Undo,
    /// Forth.
    Redo,
}

impl Direction {
    /// Returns the tool's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }
}

/// Why a change cannot be played: it moves something, and the picture has no place for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayConflict {
    /// The moved thing is missing.
    Missing(WorkspacePath),
    /// Something stands where it is to come back.
    Taken(WorkspacePath),
}

/// Kind of thing at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// Anything else.
    Other,
}

/// Takes a change of a file back, or does it again, where the file holds something else than the change
/// left: what it holds, what the change left, and what was on the change's other side.
pub type Blend<'s> = &'s dyn Fn(&WorkspacePath, &Version, &Version, &Version) -> Option<Version>;

/// The picture.
pub struct Replay<'s> {
    /// Returns the kind of thing at a path in the tree.
    stands: &'s dyn Fn(&WorkspacePath) -> Option<Kind>,
    /// Merge of changes by others between two changes; without it, these are a conflict.
    blend: Option<Blend<'s>>,
    /// Moved things.
    pieces: Pieces,
    /// Files with other bytes, by where they are to stand.
    lives: BTreeMap<WorkspacePath, Live>,
    /// Files that are gone, by where they would stand.
    gone: BTreeMap<WorkspacePath, Vec<Gone>>,
    /// Present paths of the files in the two maps.
    changed: BTreeSet<WorkspacePath>,
    /// Folders that are made.
    made: BTreeMap<WorkspacePath, FolderEntry<WorkspacePath>>,
    /// Folders that nobody needs once they are empty.
    vacant: BTreeSet<WorkspacePath>,
    /// Empty folders whose place something else takes, by present path.
    ousted: BTreeSet<WorkspacePath>,
    /// Folders with other permission bits: those they must have now, where that is known, and those
    /// they are to have.
    modes: BTreeMap<WorkspacePath, (Option<u32>, u32)>,
    /// Files that others changed between two of the changes, where the two cannot be combined.
    interleaved: BTreeSet<WorkspacePath>,
}

impl<'s> Replay<'s> {
    /// Returns the tree as it stands, with folders in it that are to go once they are empty.
    #[must_use]
    pub fn new(stands: &'s dyn Fn(&WorkspacePath) -> Option<Kind>, vacant: BTreeSet<WorkspacePath>) -> Self {
        let (pieces, lives, gone) = (Pieces::default(), BTreeMap::new(), BTreeMap::new());
        let (changed, made, ousted) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
        let (modes, interleaved) = (BTreeMap::new(), BTreeSet::new());
        Self { stands, blend: None, pieces, lives, gone, changed, made, vacant, ousted, modes, interleaved }
    }

    /// Keeps the changes of others in between.
    #[must_use]
    pub fn blending(self, blend: Option<Blend<'s>>) -> Self {
        Self { blend, ..self }
    }

    /// Plays one change.
    ///
    /// # Errors
    /// Fails if it does not fit what those before it left.
    pub fn play(&mut self, entry: &JournalEntry, direction: Direction) -> Result<(), ReplayConflict> {
        if direction == Direction::Undo {
            self.change_modes(entry, direction);
        }
        // Files that go have the names before any move, the others those after all moves.
        let (put, gone): (Vec<&FileEntry>, Vec<&FileEntry>) =
            entry.files.iter().partition(|file| file.after.is_some());
        let (first, last) = match direction {
            Direction::Undo => (put, gone),
            Direction::Redo => (gone, put),
        };
        first.into_iter().for_each(|file| self.change_file(file, direction));
        // As it was made, where that was not as any new folder is.
        let made = |path: &WorkspacePath| {
            let dressed = entry.steps.iter().find_map(|step| match step {
                Step::MakeFolder(Folder { path: Location::File(made), mode, identity }) if made == path => {
                    Some((*mode, identity.clone()))
                }
                _ => None,
            });
            let (mode, identity) = dressed.unwrap_or_default();
            FolderEntry { path: path.clone(), mode, identity }
        };
        let removed = entry.removed.iter().map(|folder| folder.path.clone());
        let (made, vacant): (Vec<_>, Vec<_>) = match direction {
            Direction::Undo => (entry.removed.clone(), entry.folders.clone()),
            Direction::Redo => (entry.folders.iter().map(made).collect(), removed.collect()),
        };
        // What has a folder's place, and is none itself, goes before the folder can be made.
        let is_late = |folder: &FolderEntry<WorkspacePath>| {
            let leaves = |moved: &MoveEntry| {
                let place = match direction {
                    Direction::Undo => &moved.to,
                    Direction::Redo => &moved.from,
                };
                folder.path.is_within(place) && self.is_leaf(place)
            };
            entry.moves.iter().any(leaves)
        };
        let (late, made): (Vec<_>, Vec<_>) = made.into_iter().partition(is_late);
        made.into_iter().for_each(|folder| self.make(folder));
        // What a change makes has the names after all moves, too.
        if direction == Direction::Undo {
            self.vacate(vacant.iter());
        }
        self.move_all(&entry.moves, direction)?;
        late.into_iter().for_each(|folder| self.make(folder));
        last.into_iter().for_each(|file| self.change_file(file, direction));
        if direction == Direction::Redo {
            self.vacate(vacant.iter());
            self.change_modes(entry, direction);
        }
        Ok(())
    }

    /// Makes a folder that a change removed, or makes it again.
    fn make(&mut self, folder: FolderEntry<WorkspacePath>) {
        if self.standing(&folder.path).is_none() {
            self.made.insert(folder.path.clone(), folder);
            return;
        }
        // One that was made again in between stands in its place.
        self.vacant.remove(&folder.path);
        if let Some(real) = self.standing(&folder.path) {
            self.ousted.remove(&real);
        }
        if let Some(mode) = folder.mode {
            self.modes.entry(folder.path).and_modify(|known| known.1 = mode).or_insert((None, mode));
        }
    }

    /// Returns true if something stands at a path that is not a folder.
    fn is_leaf(&self, path: &WorkspacePath) -> bool {
        let kind = self.standing(path).and_then(|real| (self.stands)(&real));
        kind.is_some_and(|kind| kind != Kind::Folder)
    }

    /// Lets folders go that nobody needs once they are empty.
    fn vacate<'f>(&mut self, folders: impl Iterator<Item = &'f WorkspacePath>) {
        for folder in folders {
            let was_made = self.made.remove(folder).is_some();
            if self.lives.contains_key(folder) {
                // A file has its place already.
                self.ousted.extend(self.standing(folder));
                self.pieces.remove_at(folder);
            } else if !was_made {
                self.vacant.insert(folder.clone());
            }
        }
    }

    /// Gives what a change moved the names on the other side of it. What waited between its two names
    /// moved at the same time as all else that did.
    fn move_all(&mut self, moves: &[MoveEntry], direction: Direction) -> Result<(), ReplayConflict> {
        let names = |moved: &MoveEntry| match direction {
            Direction::Undo => (moved.to.clone(), moved.from.clone()),
            Direction::Redo => (moved.from.clone(), moved.to.clone()),
        };
        let mut ordered: Vec<&MoveEntry> = moves.iter().collect();
        if direction == Direction::Undo {
            ordered.reverse();
        }
        let (mut held, straight): (Vec<&MoveEntry>, Vec<&MoveEntry>) =
            ordered.into_iter().partition(|moved| moved.via.is_some());
        // What lies in others goes before them, and comes after them.
        held.sort_by_cached_key(|moved| std::cmp::Reverse(depth(&names(moved).0)));
        for moved in &held {
            if let Some(via) = &moved.via {
                self.rename(&names(moved).0, via)?;
            }
        }
        for moved in straight {
            let (old, new) = names(moved);
            self.rename(&old, &new)?;
        }
        held.sort_by_cached_key(|moved| depth(&names(moved).1));
        for moved in held {
            if let Some(via) = &moved.via {
                self.rename(via, &names(moved).1)?;
            }
        }
        Ok(())
    }

    /// Gives a file the bytes that it had on the other side of a change.
    fn change_file(&mut self, file: &FileEntry, direction: Direction) {
        let (from, target) = match direction {
            Direction::Undo => (&file.after, &file.before),
            Direction::Redo => (&file.before, &file.after),
        };
        self.change(&file.path, from.as_ref(), target.as_ref());
    }

    /// Gives folders other permission bits.
    fn change_modes(&mut self, entry: &JournalEntry, direction: Direction) {
        for FolderMode { path, before, after } in &entry.modes {
            let (from, to) = match direction {
                Direction::Undo => (*after, *before),
                Direction::Redo => (*before, *after),
            };
            match (self.made.get_mut(path), self.modes.get_mut(path)) {
                (Some(made), _) => made.mode = Some(to),
                (None, Some(known)) => known.1 = to,
                (None, None) => drop(self.modes.insert(path.clone(), (Some(from), to))),
            }
        }
    }

    /// Gives a file other bytes.
    fn change(&mut self, path: &WorkspacePath, from: Option<&Version>, target: Option<&Version>) {
        let mut blended = None;
        let live = self.lives.remove(path).map(|live| {
            if !same(Some(&live.target), from) {
                blended = self.blended(path, &live.target, from, target);
                if blended.is_none() {
                    self.interleaved.insert(path.clone());
                }
            }
            (live.real, live.from)
        });
        let target = blended.as_ref().or(target);
        let (real, began) = live.unwrap_or_else(|| self.take_gone(path, from));
        self.changed.extend(real.clone());
        match target {
            Some(target) => {
                self.oust(path, None);
                let live = Live { at: path.clone(), real, from: began, target: target.clone() };
                self.lives.insert(path.clone(), live);
            }
            // What was neither there before nor is there after leaves no trace.
            None if real.is_none() && began.is_none() => {}
            None => {
                if let Some(real) = &real {
                    self.pieces.remove_real(real);
                }
                let gone = Gone { at: path.clone(), real, from: began };
                self.gone.entry(path.clone()).or_default().push(gone);
            }
        }
    }

    /// Returns a file's bytes with a change taken back or done again, and with what others did in between kept;
    /// `None` where that is not wanted, or both touch the same lines.
    fn blended(
        &self,
        path: &WorkspacePath,
        now: &Version,
        from: Option<&Version>,
        target: Option<&Version>,
    ) -> Option<Version> {
        self.blend?(path, now, from?, target?)
    }

    /// What stands at a path whose bytes have not changed so far; a file that went from there
    /// is changed in its place.
    fn take_gone(
        &mut self,
        path: &WorkspacePath,
        from: Option<&Version>,
    ) -> (Option<WorkspacePath>, Option<Version>) {
        if from.is_none()
            && let Some(gone) = self.gone.get_mut(path).and_then(Vec::pop)
        {
            return (gone.real, gone.from);
        }
        // A folder in its place is for others to clear away.
        let is_it = |real: &WorkspacePath| from.is_some() || (self.stands)(real) != Some(Kind::Folder);
        (self.standing(path).filter(is_it), from.cloned())
    }

    /// Gives whatever is at `old` the name `new`.
    fn rename(&mut self, old: &WorkspacePath, new: &WorkspacePath) -> Result<(), ReplayConflict> {
        self.oust(new, Some(old));
        if self.lives.contains_key(new) || self.pieces.comes_to(new) {
            return Err(ReplayConflict::Taken(new.clone()));
        }
        let is_made = below(&self.lives, old).next().is_some() || below(&self.made, old).next().is_some();
        if !self.lives.contains_key(old) {
            match self.standing(old) {
                Some(real) if !self.pieces.comes_to(old) => self.pieces.insert(&real, old),
                None if !is_made => return Err(ReplayConflict::Missing(old.clone())),
                _ => {}
            }
        }
        for at in self.pieces.coming_within(old) {
            if let Some(real) = self.pieces.remove_at(&at) {
                self.pieces.insert(&real, &at.rebased(old, new));
            }
        }
        // What went from `old` itself is in its place all the same.
        let gone: Vec<WorkspacePath> = below(&self.gone, old).filter(|at| *at != old).cloned().collect();
        for at in gone {
            let moved = self.gone.remove(&at).unwrap_or_default();
            let at = at.rebased(old, new);
            let moved = moved.into_iter().map(|gone| Gone { at: at.clone(), ..gone });
            self.gone.entry(at.clone()).or_default().extend(moved);
        }
        rebase_keys(&mut self.made, old, new, |folder, at| folder.path.clone_from(at));
        rebase_keys(&mut self.modes, old, new, |_, _| ());
        let vacant: Vec<WorkspacePath> =
            self.vacant.range(old.clone()..).take_while(|path| path.is_within(old)).cloned().collect();
        for path in vacant {
            self.vacant.remove(&path);
            self.vacant.insert(path.rebased(old, new));
        }
        rebase_keys(&mut self.lives, old, new, |live, at| live.at.clone_from(at));
        Ok(())
    }

    /// Lets a folder that nobody needs make way, with those in it, for what is put there or comes
    /// from `old`.
    fn oust(&mut self, path: &WorkspacePath, old: Option<&WorkspacePath>) {
        let within = self.vacant.range(path.clone()..).take_while(|folder| folder.is_within(path));
        let ousted: Vec<WorkspacePath> =
            within.filter(|folder| !old.is_some_and(|old| folder.is_within(old))).cloned().collect();
        let reals: Vec<WorkspacePath> = ousted.iter().filter_map(|folder| self.standing(folder)).collect();
        self.ousted.extend(reals);
        for folder in &ousted {
            self.pieces.remove_at(folder);
            self.vacant.remove(folder);
            // They are not for what comes under its name.
            self.modes.remove(folder);
        }
    }

    /// Returns the present path of the thing at `path` in the picture, except files with changed bytes.
    fn standing(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        let real = self.pieces.standing(path)?;
        ((self.stands)(&real).is_some() && !self.changed.contains(&real)).then_some(real)
    }

    /// Returns the difference to the present tree.
    #[must_use]
    pub fn outcome(self) -> ReplayResult {
        let Self { mut pieces, lives, gone, made, vacant, ousted, modes, interleaved, .. } = self;
        let (unchanged, lives): (Vec<Live>, Vec<Live>) =
            lives.into_values().partition(|live| same(live.from.as_ref(), Some(&live.target)));
        for Live { at, real, .. } in unchanged {
            if let Some(real) = real
                && pieces.standing(&at).as_ref() != Some(&real)
            {
                pieces.remove_real(&real);
                pieces.insert(&real, &at);
            }
        }
        let gone: Vec<Gone> = gone.into_values().flatten().collect();
        let reals = lives.iter().map(|live| &live.real).chain(gone.iter().map(|gone| &gone.real));
        reals.flatten().for_each(|real| pieces.remove_real(real));
        // What comes to its place with the folder that it is in need not move itself. One that stands there already
        // does, where another folder comes under the name of the one that it is in.
        for piece in pieces.iter().collect::<Vec<_>>() {
            pieces.remove_real(&piece.real);
            if pieces.placed(&piece.real) != piece.at
                || pieces.standing(&piece.at).as_ref() != Some(&piece.real)
            {
                pieces.insert(&piece.real, &piece.at);
            }
        }
        let mut made: Vec<FolderEntry<WorkspacePath>> = made.into_values().collect();
        made.sort_by_cached_key(|folder| depth(&folder.path));
        let (vacant, ousted) = (vacant.into_iter().collect(), ousted.into_iter().collect());
        ReplayResult { pieces, lives, gone, made, vacant, ousted, modes, interleaved }
    }
}

/// Returns the paths at or below a folder that a map has.
fn below<'m, T>(
    map: &'m BTreeMap<WorkspacePath, T>,
    folder: &'m WorkspacePath,
) -> impl Iterator<Item = &'m WorkspacePath> {
    map.range(folder.clone()..).map(|(path, _)| path).take_while(|path| path.is_within(folder))
}

/// Moves what a map has at or below `old` to `new`; `note` tells each value its new path.
fn rebase_keys<T>(
    map: &mut BTreeMap<WorkspacePath, T>,
    old: &WorkspacePath,
    new: &WorkspacePath,
    mut note: impl FnMut(&mut T, &WorkspacePath),
) {
    let paths: Vec<WorkspacePath> = below(map, old).cloned().collect();
    for path in paths {
        if let Some(mut value) = map.remove(&path) {
            let at = path.rebased(old, new);
            note(&mut value, &at);
            map.insert(at, value);
        }
    }
}

/// Components in a path.
#[must_use]
pub fn depth(path: &WorkspacePath) -> usize {
    path.components().count()
}

/// A file that is to hold other bytes, or to be there at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// Target path.
    pub at: WorkspacePath,
    /// Present path; `None` if there is nothing.
    pub real: Option<WorkspacePath>,
    /// Content that it must have now; `None` if nothing may be there.
    pub from: Option<Version>,
    /// Content that it is to have.
    pub target: Version,
}

/// A file that is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Path that it would have by now.
    pub(super) at: WorkspacePath,
    /// Present path; `None` if there is nothing.
    pub real: Option<WorkspacePath>,
    /// Content that it must have now.
    pub from: Option<Version>,
}

impl Gone {
    /// Returns its present path, or the path that it should have.
    #[must_use]
    pub fn path(&self) -> &WorkspacePath {
        self.real.as_ref().unwrap_or(&self.at)
    }
}

impl Live {
    /// Returns true if the file is where it is to be, whatever moves round it: under one name may be another
    /// folder by then, and under another this one.
    #[must_use]
    pub fn stays(&self, pieces: &Pieces) -> bool {
        self.real.as_ref() == Some(&self.at) && pieces.standing(&self.at).as_ref() == Some(&self.at)
    }
}

/// Difference in the end.
#[derive(Debug, Default)]
pub struct ReplayResult {
    /// Things that get another path.
    pub pieces: Pieces,
    /// Files that get other bytes.
    pub lives: Vec<Live>,
    /// Files that are removed.
    pub gone: Vec<Gone>,
    /// Folders that are to be there, outermost first.
    pub made: Vec<FolderEntry<WorkspacePath>>,
    /// Folders that are to go where they are empty, by where they would stand.
    pub vacant: Vec<WorkspacePath>,
    /// Present paths of folders that go since something else takes their place.
    pub ousted: Vec<WorkspacePath>,
    /// Folders that get other permission bits, by where they are to stand: those they must have now,
    /// where that is known, and those they are to have.
    pub modes: BTreeMap<WorkspacePath, (Option<u32>, u32)>,
    /// Files that did not hold what one change left when the next one began. Where there is one, the
    /// rest is what would come of it if the bytes in between did not matter.
    pub interleaved: BTreeSet<WorkspacePath>,
}

/// Returns true if two versions have the same bytes and mode.
#[must_use]
pub fn same(one: Option<&Version>, other: Option<&Version>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.sha256 == other.sha256 && one.mode == other.mode,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::sha256::Sha256;

    /// Returns a path.
    fn path(text: &str) -> WorkspacePath {
        WorkspacePath::new(Path::new(text)).unwrap()
    }

    /// Returns a version; none for an empty text.
    fn version(text: &str) -> Option<Version> {
        let version = Version {
            sha256: Sha256::of(text.as_bytes()),
            size: text.len() as u64,
            mode: 0o644,
            identity: None,
        };
        (!text.is_empty()).then_some(version)
    }

    /// Returns a change of bytes.
    fn file(name: &str, before: &str, after: &str) -> JournalEntry {
        let mut entry = JournalEntry::new("id".to_owned(), "s", "write", 1, 0);
        let (before, after) = (version(before), version(after));
        entry.files.push(FileEntry { path: path(name), before, after });
        entry
    }

    /// Returns a change of a name.
    fn moved(from: &str, to: &str) -> JournalEntry {
        let mut entry = JournalEntry::new("id".to_owned(), "s", "move", 1, 0);
        entry.moves.push(MoveEntry::new(path(from), path(to)));
        entry
    }

    /// What changes come to, as text: `real>at` for what moves, `real>at=` for what is rewritten too,
    /// `-real` for what goes.
    fn comes_to(standing: &[&str], entries: &[JournalEntry], direction: Direction) -> Vec<String> {
        let stands = |wanted: &WorkspacePath| {
            let kind = |known: &WorkspacePath| if known == wanted { Kind::Other } else { Kind::Folder };
            standing
                .iter()
                .map(|known| path(known))
                .find(|known| known.is_within(wanted))
                .map(|known| kind(&known))
        };
        let mut replay = Replay::new(&stands, BTreeSet::new());
        for entry in entries {
            replay.play(entry, direction).unwrap();
        }
        let outcome = replay.outcome();
        let name = |real: &Option<WorkspacePath>| real.as_ref().map_or_else(String::new, ToString::to_string);
        let mut all: Vec<String> =
            outcome.pieces.iter().map(|piece| format!("{}>{}", piece.real, piece.at)).collect();
        all.extend(outcome.lives.iter().map(|live| format!("{}>{}=", name(&live.real), live.at)));
        all.extend(outcome.gone.iter().map(|gone| format!("-{}", name(&gone.real))));
        all.extend(outcome.made.iter().map(|folder| format!("{}/", folder.path)));
        all.sort();
        all
    }

    #[test]
    fn many_changes_come_to_one() {
        /// A name, what stands, the changes, the newest first, as they are taken back, and what they
        /// come to.
        type Case = (&'static str, &'static [&'static str], Vec<JournalEntry>, &'static [&'static str]);
        let cases: &[Case] = &[
            ("edits of one file", &["a"], vec![file("a", "2", "3"), file("a", "1", "2")], &["a>a="]),
            ("a new file, edited", &["a"], vec![file("a", "1", "2"), file("a", "", "1")], &["-a"]),
            ("moved, then edited", &["b"], vec![file("b", "1", "2"), moved("a", "b")], &["b>a="]),
            ("edited, then moved", &["b"], vec![moved("a", "b"), file("a", "1", "2")], &["b>a="]),
            ("made, then moved", &["b"], vec![moved("a", "b"), file("a", "", "1")], &["-b"]),
            ("there and back", &["a"], vec![moved("b", "a"), moved("a", "b")], &[]),
            ("a way round", &["c"], vec![moved("b", "c"), moved("a", "b")], &["c>a"]),
            (
                "edited in a folder before and after it moved",
                &["e/x", "e/y"],
                vec![file("e/x", "1", "2"), moved("d", "e"), file("d/y", "1", "2")],
                &["e/x>d/x=", "e/y>d/y=", "e>d"],
            ),
            (
                "out of a folder, which then moved",
                &["e/y", "z"],
                vec![moved("d", "e"), moved("d/x", "z")],
                &["e>d", "z>d/x"],
            ),
            (
                "two names exchanged",
                &["a", "b"],
                vec![moved("t", "b"), moved("b", "a"), moved("a", "t")],
                &["a>b", "b>a"],
            ),
            (
                "another file in the old place",
                &["a", "b"],
                vec![file("a", "", "2"), moved("a", "b")],
                &["-a", "b>a"],
            ),
            (
                "another in the old place, both edited",
                &["a", "b"],
                vec![file("b", "1", "2"), file("a", "", "2"), moved("a", "b")],
                &["-a", "b>a="],
            ),
            (
                "a file became a folder",
                &["d/x"],
                vec![file("d/x", "", "2"), file("d", "1", "")],
                &["-d/x", ">d="],
            ),
            ("deleted and made anew", &["a"], vec![file("a", "", "2"), file("a", "1", "")], &["a>a="]),
        ];
        for (name, standing, entries, wanted) in cases {
            assert_eq!(comes_to(standing, entries, Direction::Undo), *wanted, "{name}");
        }
        let mut first = file("d/x", "", "1");
        first.folders.push(path("d"));
        let forth = [first, moved("d", "e"), file("e/x", "1", "2")];
        assert_eq!(comes_to(&[], &forth, Direction::Redo), [">e/x=", "e/"]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let play = |standing: &[&str], entries: &[JournalEntry]| {
            let stands = |wanted: &WorkspacePath| {
                standing.iter().find(|known| path(known) == *wanted).map(|_| Kind::Other)
            };
            let mut replay = Replay::new(&stands, BTreeSet::new());
            let played = entries.iter().try_for_each(|entry| replay.play(entry, Direction::Undo));
            played.map(|()| replay.outcome().interleaved.into_iter().collect::<Vec<_>>())
        };
        // Every such file, not the first alone.
        let between = play(
            &["a", "b"],
            &[file("a", "2", "3"), file("b", "2", "3"), file("a", "1", "other"), file("b", "1", "other")],
        );
        assert_eq!(between, Ok(vec![path("a"), path("b")]));
        assert_eq!(play(&[], &[moved("a", "b")]), Err(ReplayConflict::Missing(path("b"))));
        assert_eq!(
            play(&["b"], &[file("a", "1", ""), moved("a", "b")]),
            Err(ReplayConflict::Taken(path("a")))
        );
    }
}
