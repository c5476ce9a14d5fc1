//! Net effect of undoing or redoing several changes as one.
//!
//! The changes are played on a model of the tree: the path of each file or folder, and the files with other bytes. In
//! the end the difference between the model and the tree is the one change to make. Nothing here touches the disk.

mod pieces;

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::journal::steps::{Folder, Location, Step};
use crate::engine::journal::{FileEntry, FolderEntry, FolderMode, JournalEntry, MoveEntry, Version};
use crate::engine::workspace::path::WorkspacePath;
pub use pieces::{Piece, Pieces};

/// Direction to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Take changes back.
    Undo,
    /// Do changes again.
    Redo,
}

impl Direction {
    /// Returns the tool's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }

    /// Returns the side of a change that it starts from, and the other one.
    fn sides<T>(self, before: T, after: T) -> (T, T) {
        match self {
            Self::Undo => (after, before),
            Self::Redo => (before, after),
        }
    }
}

/// Reason why a change cannot be played: it moves something that the model has no place for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayConflict {
    /// The moved thing is missing.
    Missing(WorkspacePath),
    /// Something else is at its old path.
    Taken(WorkspacePath),
}

/// Kind of thing at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A folder.
    Folder,
    /// Anything else.
    Other,
}

/// Undoes or redoes a change of a file that others changed since. Arguments: path, present version, version that
/// the change left, and version on the other side of the change.
pub type MergeFile<'s> = &'s dyn Fn(&WorkspacePath, &Version, &Version, &Version) -> Option<Version>;

/// Model of the tree.
pub struct Replay<'s> {
    /// Returns the type at a path in the tree.
    stands: &'s dyn Fn(&WorkspacePath) -> Option<NodeKind>,
    /// Merge of changes by others between two changes; without it they are a conflict.
    merge_with: Option<MergeFile<'s>>,
    /// Moved things.
    pieces: Pieces,
    /// Files with other bytes, by target path.
    lives: BTreeMap<WorkspacePath, FileToWrite>,
    /// Files to remove, by the path that they would have.
    gone: BTreeMap<WorkspacePath, Vec<FileToRemove>>,
    /// Present paths of the files in the two maps.
    changed: BTreeSet<WorkspacePath>,
    /// Folders to make.
    made: BTreeMap<WorkspacePath, FolderEntry<WorkspacePath>>,
    /// Folders that nobody needs once they are empty.
    vacant: BTreeSet<WorkspacePath>,
    /// Empty folders that something else replaces, by present path.
    displaced: BTreeSet<WorkspacePath>,
    /// Folders with other permission bits: bits required now, if known, and target bits, `None` for those of a new
    /// folder.
    modes: BTreeMap<WorkspacePath, (Option<u32>, Option<u32>)>,
    /// Files that others changed between two of the changes, if both cannot be merged.
    interleaved: BTreeSet<WorkspacePath>,
}

impl<'s> Replay<'s> {
    /// Returns a model of the present tree; the folders in `vacant` are removed once they are empty. Merges changes by
    /// others in between, with `merge_with`.
    pub fn new(
        stands: &'s dyn Fn(&WorkspacePath) -> Option<NodeKind>,
        vacant: BTreeSet<WorkspacePath>,
        merge_with: Option<MergeFile<'s>>,
    ) -> Self {
        Self {
            stands,
            vacant,
            merge_with,
            pieces: Pieces::default(),
            lives: BTreeMap::new(),
            gone: BTreeMap::new(),
            changed: BTreeSet::new(),
            made: BTreeMap::new(),
            displaced: BTreeSet::new(),
            modes: BTreeMap::new(),
            interleaved: BTreeSet::new(),
        }
    }

    /// Plays one change.
    ///
    /// # Errors
    /// Fails if the change does not fit the state that earlier ones left.
    pub fn play(&mut self, entry: &JournalEntry, direction: Direction) -> Result<(), ReplayConflict> {
        if direction == Direction::Undo {
            self.change_modes(entry, direction);
        }
        // Deleted files have their names before all moves, the others those after all moves.
        let (put, gone): (Vec<&FileEntry>, Vec<&FileEntry>) =
            entry.files.iter().partition(|file| file.after.is_some());
        let (first, last) = direction.sides(gone, put);
        first.into_iter().for_each(|file| self.change_file(file, direction));
        // With its original metadata, if that differs from a new folder's.
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
        // A folder that the change removes before its last steps gives way to something else.
        let last_steps = entry.steps.iter().rev().map_while(|step| match step {
            Step::RemoveFolder(Folder { path: Location::File(path), .. }) => Some(path),
            _ => None,
        });
        let last_steps: BTreeSet<&WorkspacePath> = last_steps.collect();
        let is_early = |path: &WorkspacePath| direction == Direction::Undo || !last_steps.contains(path);
        let (early, vacant): (Vec<_>, Vec<_>) = vacant.into_iter().partition(is_early);
        // A file at the folder's path has to be removed before the folder can be made.
        let is_late = |folder: &FolderEntry<WorkspacePath>| {
            let leaves = |moved: &MoveEntry| {
                let (place, _) = direction.sides(&moved.from, &moved.to);
                folder.path.is_within(place) && self.is_leaf(place)
            };
            entry.moves.iter().any(leaves)
        };
        let (late, made): (Vec<_>, Vec<_>) = made.into_iter().partition(is_late);
        made.into_iter().for_each(|folder| self.make(folder, direction));
        self.mark_for_removal(early.iter());
        self.move_all(&entry.moves, direction)?;
        late.into_iter().for_each(|folder| self.make(folder, direction));
        last.into_iter().for_each(|file| self.change_file(file, direction));
        self.mark_for_removal(vacant.iter());
        if direction == Direction::Redo {
            self.change_modes(entry, direction);
        }
        Ok(())
    }

    /// Makes a folder, or makes again one that a change removed.
    fn make(&mut self, folder: FolderEntry<WorkspacePath>, direction: Direction) {
        if self.present_path(&folder.path).is_none() {
            self.made.insert(folder.path.clone(), folder);
            return;
        }
        // A folder that was made again in between takes its place, with the mode of a new one if it has no other.
        let is_new = self.vacant.remove(&folder.path) && direction == Direction::Redo;
        if folder.mode.is_some() || is_new {
            let mode = folder.mode;
            self.modes.entry(folder.path).and_modify(|known| known.1 = mode).or_insert((None, mode));
        }
    }

    /// Returns true if a path holds something other than a folder.
    fn is_leaf(&self, path: &WorkspacePath) -> bool {
        let kind = self.present_path(path).and_then(|real| (self.stands)(&real));
        kind.is_some_and(|kind| kind != NodeKind::Folder)
    }

    /// Marks folders to be removed once they are empty.
    fn mark_for_removal<'f>(&mut self, folders: impl Iterator<Item = &'f WorkspacePath>) {
        for folder in folders {
            let was_made = self.made.remove(folder).is_some();
            if self.lives.contains_key(folder) {
                // A file has its place already.
                self.displaced.extend(self.present_path(folder));
                self.pieces.remove_at(folder);
            } else if !was_made {
                self.vacant.insert(folder.clone());
            }
        }
    }

    /// Moves everything that a change moved to its name on the other side. A move with a temporary path happens at the
    /// same time as all others.
    fn move_all(&mut self, moves: &[MoveEntry], direction: Direction) -> Result<(), ReplayConflict> {
        let names = |moved: &MoveEntry| direction.sides(moved.from.clone(), moved.to.clone());
        let mut ordered: Vec<&MoveEntry> = moves.iter().collect();
        if direction == Direction::Undo {
            ordered.reverse();
        }
        let (mut held, straight): (Vec<&MoveEntry>, Vec<&MoveEntry>) =
            ordered.into_iter().partition(|moved| moved.via.is_some());
        // Inner paths leave before the folders that contain them, and arrive after them.
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

    /// Sets a file to its bytes on the other side of a change.
    fn change_file(&mut self, file: &FileEntry, direction: Direction) {
        let (from, target) = direction.sides(&file.before, &file.after);
        self.change(&file.path, from.as_ref(), target.as_ref());
    }

    /// Sets folders to their permission bits on the other side of a change.
    fn change_modes(&mut self, entry: &JournalEntry, direction: Direction) {
        for FolderMode { path, before, after } in &entry.modes {
            let (from, to) = direction.sides(*before, *after);
            match (self.made.get_mut(path), self.modes.get_mut(path)) {
                (Some(made), _) => made.mode = Some(to),
                (None, Some(known)) => known.1 = Some(to),
                (None, None) => drop(self.modes.insert(path.clone(), (Some(from), Some(to)))),
            }
        }
    }

    /// Sets a file to other bytes.
    fn change(&mut self, path: &WorkspacePath, from: Option<&Version>, target: Option<&Version>) {
        let mut blended = None;
        let live = self.lives.remove(path).map(|live| {
            if !is_same(Some(&live.target), from) {
                // None if merging is off, or if both touch the same lines.
                blended = self.merge_with.and_then(|merge| merge(path, &live.target, from?, target?));
                if blended.is_none() {
                    self.interleaved.insert(path.clone());
                }
            }
            (live.real, live.from)
        });
        let target = blended.as_ref().or(target);
        let (real, began) = live.unwrap_or_else(|| self.take_deleted(path, from));
        self.changed.extend(real.clone());
        match target {
            Some(target) => {
                self.displace(path, None);
                let live = FileToWrite { at: path.clone(), real, from: began, target: target.clone() };
                self.lives.insert(path.clone(), live);
            }
            // A file that is there neither before nor after leaves no trace.
            None if real.is_none() && began.is_none() => {}
            None => {
                if let Some(real) = &real {
                    self.pieces.remove_real(real);
                }
                let gone = FileToRemove { at: path.clone(), real, from: began };
                self.gone.entry(path.clone()).or_default().push(gone);
            }
        }
    }

    /// Takes the deleted file at a path, or else the present file whose bytes have not changed so far. A deleted file
    /// is changed in place.
    fn take_deleted(
        &mut self,
        path: &WorkspacePath,
        from: Option<&Version>,
    ) -> (Option<WorkspacePath>, Option<Version>) {
        if from.is_none()
            && let Some(gone) = self.gone.get_mut(path).and_then(Vec::pop)
        {
            return (gone.real, gone.from);
        }
        // A folder in its place is left for others to remove.
        let is_it = |real: &WorkspacePath| from.is_some() || (self.stands)(real) != Some(NodeKind::Folder);
        (self.present_path(path).filter(is_it), from.cloned())
    }

    /// Renames whatever is at `old` to `new`.
    fn rename(&mut self, old: &WorkspacePath, new: &WorkspacePath) -> Result<(), ReplayConflict> {
        self.displace(new, Some(old));
        if self.lives.contains_key(new) || self.pieces.has_target(new) {
            return Err(ReplayConflict::Taken(new.clone()));
        }
        let is_made = below(&self.lives, old).next().is_some() || below(&self.made, old).next().is_some();
        if !self.lives.contains_key(old) {
            match self.present_path(old) {
                Some(real) if !self.pieces.has_target(old) => self.pieces.insert(&real, old),
                None if !is_made => return Err(ReplayConflict::Missing(old.clone())),
                _ => {}
            }
        }
        for at in self.pieces.targets_within(old) {
            if let Some(real) = self.pieces.remove_at(&at) {
                self.pieces.insert(&real, &at.rebased(old, new));
            }
        }
        // A file deleted at `old` itself stays in place.
        let gone: Vec<WorkspacePath> = below(&self.gone, old).filter(|at| *at != old).cloned().collect();
        for at in gone {
            let moved = self.gone.remove(&at).unwrap_or_default();
            let at = at.rebased(old, new);
            let moved = moved.into_iter().map(|gone| FileToRemove { at: at.clone(), ..gone });
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

    /// Removes an unneeded folder, and those in it, so that something else can take its path, such as a move from
    /// `old`.
    fn displace(&mut self, path: &WorkspacePath, old: Option<&WorkspacePath>) {
        let stays = |folder: &&WorkspacePath| old.is_some_and(|old| folder.is_within(old));
        // A folder that one change removed, and no change had made: it was empty, and git ignores it, or others made it.
        let made = below(&self.made, path).filter(|folder| !stays(folder));
        let made: Vec<WorkspacePath> = made.cloned().collect();
        made.iter().for_each(|folder| drop(self.made.remove(folder)));
        let within = self.vacant.range(path.clone()..).take_while(|folder| folder.is_within(path));
        let displaced: Vec<WorkspacePath> = within.filter(|folder| !stays(folder)).cloned().collect();
        let reals: Vec<WorkspacePath> =
            displaced.iter().filter_map(|folder| self.present_path(folder)).collect();
        self.displaced.extend(reals);
        for folder in &displaced {
            self.pieces.remove_at(folder);
            self.vacant.remove(folder);
            // Modes do not apply to whatever takes its name.
            self.modes.remove(folder);
        }
    }

    /// Returns the present path of whatever is at `path` in the model, except files with changed bytes, and folders that
    /// gave way.
    fn present_path(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        let real = self.pieces.source_of(path)?;
        let is_left = !self.changed.contains(&real) && !self.displaced.contains(&real);
        ((self.stands)(&real).is_some() && is_left).then_some(real)
    }

    /// Returns the difference to the present tree.
    pub fn outcome(self) -> ReplayResult {
        let Self { mut pieces, lives, gone, made, vacant, displaced, modes, interleaved, .. } = self;
        let (unchanged, lives): (Vec<FileToWrite>, Vec<FileToWrite>) =
            lives.into_values().partition(|live| is_same(live.from.as_ref(), Some(&live.target)));
        for FileToWrite { at, real, .. } in unchanged {
            if let Some(real) = real
                && pieces.source_of(&at).as_ref() != Some(&real)
            {
                pieces.remove_real(&real);
                pieces.insert(&real, &at);
            }
        }
        let gone: Vec<FileToRemove> = gone.into_values().flatten().collect();
        let reals = lives.iter().map(|live| &live.real).chain(gone.iter().map(|gone| &gone.real));
        reals.flatten().for_each(|real| pieces.remove_real(real));
        // A piece that moves with its folder need not move itself. One that is at its target already must move if
        // another folder takes the name of its parent.
        for piece in pieces.iter().collect::<Vec<_>>() {
            pieces.remove_real(&piece.real);
            if pieces.target_of(&piece.real) != piece.at
                || pieces.source_of(&piece.at).as_ref() != Some(&piece.real)
            {
                pieces.insert(&piece.real, &piece.at);
            }
        }
        let mut made: Vec<FolderEntry<WorkspacePath>> = made.into_values().collect();
        made.sort_by_cached_key(|folder| depth(&folder.path));
        let (vacant, displaced) = (vacant.into_iter().collect(), displaced.into_iter().collect());
        ReplayResult { pieces, lives, gone, made, vacant, displaced, modes, interleaved }
    }
}

/// Returns the paths at or below a folder that a map has.
fn below<'m, T>(
    map: &'m BTreeMap<WorkspacePath, T>,
    folder: &'m WorkspacePath,
) -> impl Iterator<Item = &'m WorkspacePath> {
    map.range(folder.clone()..).map(|(path, _)| path).take_while(|path| path.is_within(folder))
}

/// Moves everything that a map has at or below `old` to `new`; `note` tells each value its new path.
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

/// Returns the number of components in a path.
pub fn depth(path: &WorkspacePath) -> usize {
    path.components().count()
}

/// A file to create, or to give other bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileToWrite {
    /// Target path.
    pub at: WorkspacePath,
    /// Present path; `None` if there is no file.
    pub real: Option<WorkspacePath>,
    /// Required present content; `None` if no file may be there.
    pub from: Option<Version>,
    /// Target content.
    pub target: Version,
}

/// A file to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileToRemove {
    /// Path that it would have by now.
    pub at: WorkspacePath,
    /// Present path; `None` if there is no file.
    pub real: Option<WorkspacePath>,
    /// Required present content.
    pub from: Option<Version>,
}

impl FileToWrite {
    /// Returns true if the file is at its target already, even though folders above it may be renamed.
    pub fn is_in_place(&self, pieces: &Pieces) -> bool {
        self.real.as_ref() == Some(&self.at) && pieces.source_of(&self.at).as_ref() == Some(&self.at)
    }
}

/// Difference between the model and the tree.
#[derive(Debug, Default)]
pub struct ReplayResult {
    /// Files and folders that get another path.
    pub pieces: Pieces,
    /// Files that get other bytes.
    pub lives: Vec<FileToWrite>,
    /// Files that are removed.
    pub gone: Vec<FileToRemove>,
    /// Folders to make, outermost first.
    pub made: Vec<FolderEntry<WorkspacePath>>,
    /// Folders to remove if they are empty, by the path that they would have.
    pub vacant: Vec<WorkspacePath>,
    /// Present paths of folders to remove because something else takes their place.
    pub displaced: Vec<WorkspacePath>,
    /// Folders that get other permission bits, by target path: bits required now, if known, and target bits, `None` for
    /// those of a new folder.
    pub modes: BTreeMap<WorkspacePath, (Option<u32>, Option<u32>)>,
    /// Files that did not hold what one change left when the next one began. If there are any, the rest of the result
    /// ignores the bytes in between.
    pub interleaved: BTreeSet<WorkspacePath>,
}

/// Returns true if two versions have the same bytes and mode.
pub fn is_same(one: Option<&Version>, other: Option<&Version>) -> bool {
    let parts = |version: &Version| (version.sha256, version.mode);
    one.map(parts) == other.map(parts)
}
