//! Plans the steps to the target state of a change. Pure.
//!
//! Deletions come first, so that other things can take the names; then folders are made and entries renamed, outermost
//! first; then files are written; in the end, empty folders are removed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::open::CheckedFile;
use super::staging::Original;
use crate::buffer::Buffer;
use crate::engine::journal::Version;
use crate::engine::journal::steps::{Folder, Location, Step, Thing};
use crate::engine::workspace::fs::{is_symlink_mode, recorded_mode};
use crate::engine::workspace::metadata::Identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::sha256::Sha256;
use crate::text::replaced_lines::ReplacedLines;

/// Mode of a new file, as far as a snapshot records it.
const NEW_FILE_MODE: u32 = 0o644;

/// Bytes that the caller knows once the change is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerKnowledge {
    /// All bytes, which the caller supplied.
    Everything,
    /// Changed lines, and lines of the old version that it was shown.
    ChangedLines,
    /// Changed lines, and lines that it was shown of these older bytes, which others have changed since.
    ChangedSince(Vec<u8>),
    /// Lines that it was shown of these bytes before, or of the old version: the rest comes from the history.
    UnchangedLines,
    /// No bytes: a command made them.
    Nothing,
}

/// A file with its target state.
pub(super) struct FilePlan {
    /// Present file.
    pub(super) seen: CheckedFile,
    /// Target state; `None` to delete it.
    pub(super) after: Option<TargetState>,
    /// File that it was before it got this name.
    pub(super) origin: Option<RenameSource>,
    /// True to write into the existing file, which keeps its inode.
    pub(super) in_place: bool,
    /// Lines that it replaces, if its tool knows them.
    pub(super) replaced: Option<Vec<ReplacedLines>>,
}

impl FilePlan {
    /// Returns the file whose identity the new one gets.
    pub(super) fn model(&self) -> Option<&Original> {
        let origin = self.origin.as_ref().map(|origin| &origin.original);
        origin.or(self.seen.current.original.as_ref())
    }

    /// Returns the mode that the file gets with `after`, as far as a snapshot records it.
    pub(super) fn mode_of(&self, after: &TargetState) -> u32 {
        let model =
            || self.model().map(|model| recorded_mode(&model.stat)).filter(|mode| !is_symlink_mode(*mode));
        after.mode.or_else(model).unwrap_or(NEW_FILE_MODE)
    }

    /// Returns true if it has several hard links: the others keep the old bytes.
    pub(super) fn has_several_names(&self) -> bool {
        self.after.is_some() && self.seen.current.original.as_ref().is_some_and(|it| it.stat.st_nlink > 1)
    }
}

/// File whose identity and read mark a renamed one takes over.
pub(super) struct RenameSource {
    /// Path before.
    pub(super) path: WorkspacePath,
    /// Identity of the file.
    pub(super) original: Original,
    /// Bytes.
    pub(super) bytes: Arc<Buffer>,
    /// SHA-256 of the bytes.
    pub(super) sha256: Sha256,
}

/// Target state of a file.
pub(super) struct TargetState {
    /// Bytes.
    pub(super) bytes: Arc<Buffer>,
    /// SHA-256 of the bytes.
    pub(super) sha256: Sha256,
    /// Permission bits, if they change; or the type bits of a symlink.
    pub(super) mode: Option<u32>,
    /// Part of it that the caller knows.
    pub(super) known: CallerKnowledge,
    /// Owner and attributes, if it is restored and no file has them any more.
    pub(super) identity: Option<Identity>,
}

/// Target state of a change.
#[derive(Debug, Default)]
pub struct Intent {
    /// Files to delete, under their names before all moves.
    pub removed: Vec<(Location, Version)>,
    /// Things to rename, all at once.
    pub moves: Vec<Move>,
    /// Folders to make, under their names after all moves.
    pub made: Vec<Folder>,
    /// Files to create or change, under their names after all moves: each a [`Step::Put`].
    pub files: Vec<Step>,
    /// Folders to remove before something else takes their names.
    pub cleared: Vec<Folder>,
    /// Folders to remove in the end, under their names after all moves.
    pub vacated: Vec<Folder>,
}

/// Rename of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Name before.
    pub from: Location,
    /// Name after.
    pub to: Location,
    /// Type and identity.
    pub thing: Thing,
    /// Copy, if it moves to another mount.
    pub across: Option<CrossMountMove>,
    /// True if an undo leaves it.
    pub is_final: bool,
}

/// A move to another mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossMountMove {
    /// Location of the copy until it is renamed.
    pub copy: Location,
    /// Inode and type of the copy.
    pub thing: Thing,
    /// Location of the original until it is removed.
    pub gone: Location,
}

/// Returns the steps to reach `intent`. If one move is in the way of another, all moves go through temporary names,
/// move `n` through `held(n)`.
pub fn plan(intent: Intent, held: impl Fn(usize) -> Location) -> Vec<Step> {
    let are_held = is_crowded(&intent);
    let Intent { removed, moves, made, files, cleared, vacated } = intent;
    let leaving = RenamedNames::of(&moves);
    let files_in_the_way: HashMap<&Location, &Version> =
        removed.iter().map(|(at, version)| (at, version)).collect();
    let over = |moved: &Move| {
        let version = files_in_the_way.get(&moved.to)?;
        // In a folder that moves away or is removed, the file of that name is another one.
        let is_another = leaving.holds(moved.to.parent().as_ref())
            || cleared.iter().any(|folder| moved.to.is_within(&folder.path));
        (!moved.thing.is_folder && !is_another).then(|| (*version).clone())
    };
    let replaced: BTreeSet<Location> =
        moves.iter().filter(|moved| over(moved).is_some()).map(|moved| moved.to.clone()).collect();
    let mut steps: Vec<Step> = Vec::new();
    let gone = removed.iter().filter(|(at, _)| !replaced.contains(at));
    steps.extend(gone.map(|(at, before)| Step::Unlink { at: at.clone(), before: before.clone() }));

    let mut parting: Vec<Step> = cleared.iter().cloned().map(Step::RemoveFolder).collect();
    let mut coming: Vec<Step> = made.into_iter().map(Step::MakeFolder).collect();
    let (own, files): (Vec<Step>, Vec<Step>) =
        files.into_iter().partition(|file| matches!(file.locations().next(), Some(Location::State(_))));
    coming.extend(own);
    let mut leaving_mounts: Vec<Step> = Vec::new();
    for (number, moved) in moves.iter().enumerate() {
        let Move { from, to, thing, across, is_final } = moved.clone();
        let over = over(moved);
        let rename = |from, to, thing, over| Step::Rename { from, to, thing, over, copy_of: None, is_final };
        match across {
            Some(CrossMountMove { copy, thing: copied, gone }) => {
                let copy_of = Some(from.clone());
                coming.push(Step::Rename { from: copy, to, thing: copied, over, copy_of, is_final });
                let goes = rename(from, gone, thing, None);
                if are_held { parting.push(goes) } else { leaving_mounts.push(goes) }
            }
            None if are_held => {
                let held = held(number);
                parting.push(rename(from, held.clone(), thing, None));
                coming.push(rename(held, to, thing, over));
            }
            None => coming.push(rename(from, to, thing, over)),
        }
    }
    // Inner entries leave before the outer ones, and arrive after them.
    parting.sort_by_cached_key(|step| Reverse(depth(step.locations().next())));
    coming.sort_by_cached_key(|step| depth(step.locations().last()));
    steps.extend(parting);
    steps.extend(coming);
    steps.extend(leaving_mounts);
    steps.extend(files);
    steps.extend(vacated.into_iter().map(Step::RemoveFolder));
    steps
}

/// Returns the number of components in a path.
fn depth(at: Option<&Location>) -> usize {
    at.map_or(0, |at| at.path().components().count())
}

/// Names of things that are renamed.
struct RenamedNames<'m> {
    /// Names.
    names: BTreeSet<&'m Location>,
    /// Length of the longest name, in bytes.
    longest: usize,
}

impl<'m> RenamedNames<'m> {
    /// Collects the old names of `moves`.
    fn of(moves: &'m [Move]) -> Self {
        let names: BTreeSet<&Location> = moves.iter().map(|moved| &moved.from).collect();
        let longest = names.iter().map(|name| name.path().as_bytes().len()).max().unwrap_or(0);
        Self { names, longest }
    }

    /// Returns true if a path is, or contains, something that moves away.
    fn holds(&self, at: Option<&Location>) -> bool {
        let Some(at) = at.filter(|_| !self.names.is_empty()) else {
            return false;
        };
        // A long path has many folders that are longer than any of the names.
        let above = at.path().as_path().ancestors().filter(|path| path.as_os_str().len() <= self.longest);
        above.filter_map(WorkspacePath::new).any(|path| self.names.contains(&at.with(path)))
    }

    /// Returns true if a path is, or lies in, something that moves away.
    fn moves_away(&self, at: &Location) -> bool {
        self.names.range::<Location, _>(at..).next().is_some_and(|from| from.is_within(at))
    }
}

/// Returns true if a moved thing is in the way of another, moves out of or into another, or moves out of a folder that
/// is removed.
fn is_crowded(intent: &Intent) -> bool {
    let leaving = RenamedNames::of(&intent.moves);
    let files: Vec<&Location> = intent.files.iter().flat_map(Step::locations).collect();
    let made = intent.made.iter().map(|folder| &folder.path);
    files.iter().any(|at| leaving.moves_away(at))
        || files.iter().copied().chain(made).any(|at| leaving.holds(Some(at)))
        || intent.cleared.iter().any(|folder| leaving.moves_away(&folder.path))
        || intent.moves.iter().any(|moved| {
            leaving.holds(Some(&moved.to))
                || leaving.moves_away(&moved.to)
                || leaving.holds(moved.from.parent().as_ref())
        })
}
