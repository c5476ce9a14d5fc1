//! Moves whole files and folders.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::Change;
use super::executor::{OPEN_FOLDER, changed_meanwhile};
use super::plan::Move;
use crate::engine::Engine;
use crate::engine::history::replay::{NodeKind, Pieces};
use crate::engine::journal::steps::{Location, Thing};
use crate::engine::journal::{FolderEntry, JournalEntry};
use crate::engine::snapshot::{DiskFile, FileChange, FolderChange, LARGE_BYTES, RULE_FILES};
use crate::engine::store::state::State;
use crate::engine::workspace::digest::{Digest, TreeContents};
use crate::engine::workspace::metadata::Identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::{is_protected, is_repository, is_state};
use crate::engine::workspace::sync::is_on_overlay;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

/// Most files of a moved folder in its snapshot, if some of its files are moved separately; the next full scan adds the
/// rest.
const SNAPSHOT_FILES_MAX: usize = 50_000;
/// Most bytes of such files.
const SNAPSHOT_BYTES_MAX: u64 = 512 << 20;

/// A file that a move takes from one path to another, for the snapshot.
pub struct MovedFile {
    /// Path before; `None` if it was outside the work tree.
    before: Option<WorkspacePath>,
    /// Path after; `None` if it is outside the work tree.
    after: Option<WorkspacePath>,
    /// The file.
    file: DiskFile,
}

impl MovedFile {
    /// Returns both sides for the snapshot.
    fn for_snapshot(&self) -> impl Iterator<Item = FileChange<'_>> {
        let side = Some(self.file.state());
        let gone = self.before.iter().map(move |path| (path, side, None));
        let come = self.after.iter().map(move |path| (path, None, side));
        gone.chain(come).map(|(path, before, after)| FileChange { path: path.as_bytes(), before, after })
    }
}

/// Number of files and bytes in a folder or file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SizeSum {
    /// Number of files and symlinks.
    pub files: u64,
    /// Number of bytes in them.
    pub bytes: u64,
    /// Digest of the contents, if they move to or from the trash.
    pub digest: Option<Digest>,
    /// Digest of their stat data, likewise.
    pub looks: Option<Sha256>,
}

impl SizeSum {
    /// Counts a file or symlink.
    pub fn add(&mut self, stat: &Stat) {
        if !fs::is_folder(stat) {
            self.files += 1;
            self.bytes += if fs::is_regular(stat) { fs::size_of(stat) } else { 0 };
        }
    }
}

impl Change<'_> {
    /// Plans to rename whatever is at `from`; returns its totals. An undo leaves it alone if `is_final`: nobody keeps
    /// whatever was there before.
    ///
    /// # Errors
    /// Returns `protected_path` if it holds a repository or lbx's state, or the OS error.
    pub fn move_whole(
        &mut self,
        from: &WorkspacePath,
        to: &WorkspacePath,
        is_final: bool,
    ) -> Result<SizeSum, Error> {
        let (mut sum, mut things) = (SizeSum::default(), Vec::new());
        let mut goes_whole = true;
        let is_trashed = [from, to].into_iter().any(is_state) && !is_final;
        let mut contents = is_trashed.then(TreeContents::default);
        walk(&self.engine.workspace, from, &mut |found| {
            self.must_be_free(found, from, to)?;
            if let Some(contents) = &mut contents {
                found.add_to(contents, from);
            }
            if things.is_empty() && fs::is_folder(found.stat) {
                goes_whole = !is_on_overlay(found.folder);
            }
            if things.is_empty() || !goes_whole {
                things.push(found.part());
            }
            sum.add(found.stat);
            Ok(())
        })?;
        sum.digest = contents.as_ref().map(TreeContents::digest);
        sum.looks = contents.as_ref().map(TreeContents::by_looks);
        if !goes_whole {
            self.make_way(&to.parent().unwrap_or_default())?;
        }
        things.into_iter().for_each(|part| self.move_part(part, (from, to), (goes_whole, is_final)));
        Ok(sum)
    }

    /// Plans the move of everything at or below `from` to its path at or below `to`: a rename, or, for a folder that
    /// does not move as a whole, a new folder.
    fn move_part(
        &mut self,
        part: MovePart,
        (from, to): (&WorkspacePath, &WorkspacePath),
        (goes_whole, is_final): (bool, bool),
    ) {
        let MovePart { path, thing, mode, identity } = part;
        let new = path.rebased(from, to);
        if thing.is_folder && !goes_whole {
            self.replace_folder(path, FolderEntry { path: new, mode: Some(mode), identity });
            return;
        }
        self.pieces.insert(&path, &new);
        self.moves.push(Move {
            from: self.location(&path),
            to: self.location(&new),
            thing,
            across: None,
            is_final,
        });
    }

    /// Plans several renames at once, some of which may be of paths inside others.
    ///
    /// # Errors
    /// As [`Self::move_whole`].
    pub fn move_all(&mut self, pieces: &Pieces) -> Result<(), Error> {
        pieces.iter().try_for_each(|piece| self.move_whole(&piece.real, &piece.at, false).map(drop))
    }

    /// Fails if another program has replaced the file that is to move.
    ///
    /// # Errors
    /// Returns `stale_file`.
    pub(super) fn must_move_what_was_seen(&self) -> Result<(), Error> {
        let workspace = &self.engine.workspace;
        for moved in self.moves.iter().filter(|moved| !moved.thing.is_folder) {
            let Location::File(path) = &moved.from else { continue };
            let found = fs::stat_beneath(workspace.root_fd(), path);
            if found.map(|stat| stat.st_ino) != Ok(moved.thing.inode) {
                return Err(changed_meanwhile(&workspace.display(path)));
            }
        }
        Ok(())
    }

    /// Fails if the policy protects the old or new path of anything at or below `from`; the trash is lbx's own.
    fn must_be_free(
        &self,
        found: &ExistingEntry<'_>,
        from: &WorkspacePath,
        to: &WorkspacePath,
    ) -> Result<(), Error> {
        let new = found.path.rebased(from, to);
        let is_file = |path: &&WorkspacePath| matches!(self.location(path), Location::File(_));
        [(found.path, Some(found.stat)), (&new, None)]
            .into_iter()
            .filter(|(path, _)| is_file(path))
            .try_for_each(|(path, stat)| {
                self.must_be_unprotected(path, stat, &self.engine.workspace.display(path))
            })?;
        if fs::is_symlink(found.stat) && is_file(&&new) { self.must_be_free_below(&new) } else { Ok(()) }
    }
}

/// An entry to move.
struct MovePart {
    /// Path.
    path: WorkspacePath,
    /// Type and identity.
    thing: Thing,
    /// Permission bits.
    mode: u32,
    /// Owner and attributes of a folder, if a new one would have others.
    identity: Option<Identity>,
}

/// An entry at or below a path.
pub struct ExistingEntry<'w> {
    /// Path.
    pub path: &'w WorkspacePath,
    /// Type and identity.
    pub stat: &'w Stat,
    /// Handle of a folder.
    handle: Option<&'w OwnedFd>,
    /// Parent folder.
    folder: BorrowedFd<'w>,
    /// Name in the parent folder.
    name: &'w OsStr,
}

impl ExistingEntry<'_> {
    /// Returns the entry as one to move.
    fn part(&self) -> MovePart {
        let is_folder = fs::is_folder(self.stat);
        let thing = Thing::of(self.stat);
        let opened = || fs::open_at(self.handle?.as_fd(), OsStr::new("."), fs::FOLDER).ok();
        let identity = is_folder.then(opened).flatten().and_then(|opened| Identity::of(&opened, self.stat));
        MovePart { path: self.path.clone(), thing, mode: fs::mode_of(self.stat), identity }
    }

    /// Adds it to the contents of `top`.
    pub fn add_to(&self, contents: &mut TreeContents, top: &WorkspacePath) {
        self.add_as(contents, &self.path.rebased(top, &WorkspacePath::root()));
    }

    /// Adds it to the contents of a folder, under the name `path`.
    pub fn add_as(&self, contents: &mut TreeContents, path: &WorkspacePath) {
        contents.add(path, self.stat, (self.folder, self.name));
    }

    /// Reads a regular file or symlink.
    fn on_disk(&self) -> std::io::Result<DiskFile> {
        if fs::is_symlink(self.stat) {
            return Ok(DiskFile::Symlink(fs::read_link_at(self.folder, self.name)?));
        }
        let bytes = fs::read_at(self.folder, self.name, SNAPSHOT_BYTES_MAX)?;
        Ok(DiskFile::of(fs::mode_of(self.stat), bytes.unwrap_or_default()))
    }
}

/// Visits whatever is at `top` and, in a folder, everything below it. Opens each folder from the one before, so that
/// the time does not grow with the depth.
///
/// # Errors
/// Returns `protected_path` if something in it has a name that no tool writes, the visitor's error, or the OS error.
pub fn walk(
    workspace: &Workspace,
    top: &WorkspacePath,
    visit: &mut dyn FnMut(&ExistingEntry<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let parent = workspace.open_folder(&top.parent().unwrap_or_default())?;
    let mut waiting: Vec<(Rc<OwnedFd>, OsString, WorkspacePath)> =
        vec![(Rc::new(parent), top.name().unwrap_or_default().to_owned(), top.clone())];
    while let Some((folder, name, path)) = waiting.pop() {
        let io = |errno: Errno| {
            let error = Error::io("look at", workspace.display(&path), errno);
            if errno == Errno::ACCESS { error.suggest(OPEN_FOLDER) } else { error }
        };
        let entry = fs::NamedEntry::at(folder.as_fd(), &name).map_err(io)?;
        let stat = entry.stat().map_err(io)?;
        let handle = if fs::is_folder(&stat) { Some(entry.into_folder().map_err(io)?) } else { None };
        let has_name = path != *top && is_protected(name.as_bytes());
        let open_inner = |handle: &OwnedFd| {
            fs::open_at(handle.as_fd(), OsStr::new("."), fs::FOLDER).map(Rc::new).map_err(io)
        };
        // A folder that may not be searched could be a repository: the error says so.
        let inner = handle.as_ref().filter(|_| !has_name).map(open_inner).transpose()?;
        if has_name || handle.as_ref().is_some_and(|handle| is_repository(handle.as_fd())) {
            let shown = workspace.display(&path);
            let message = format!("{shown} is protected, so the folder that holds it stays where it is");
            return Err(Error::new(ErrorKind::ProtectedPath, message).at(shown));
        }
        visit(&ExistingEntry {
            path: &path,
            stat: &stat,
            handle: handle.as_ref(),
            folder: folder.as_fd(),
            name: &name,
        })?;
        if let Some(inner) = inner {
            let names = fs::names_in(&inner).map_err(io)?;
            waiting.extend(names.into_iter().map(|name| {
                let path = path.join(&name);
                (Rc::clone(&inner), name, path)
            }));
        }
    }
    Ok(())
}

/// Returns the type of the entry at a path; `None` if it is missing, or behind a file or symlink.
///
/// # Errors
/// Returns the OS error: an entry that may not be examined may well exist.
pub fn kind(workspace: &Workspace, path: &WorkspacePath) -> Result<Option<NodeKind>, Error> {
    let place = workspace.place_of(path)?;
    let kind = |stat| if fs::is_folder(stat) { NodeKind::Folder } else { NodeKind::Other };
    Ok(place.stat().map(kind))
}

/// A folder that moved with all its contents.
struct MovedFolder {
    /// Folder, at its present path.
    folder: OwnedFd,
    /// Path before; `None` if it was outside the work tree.
    before: Option<WorkspacePath>,
    /// Path after; `None` if it is outside the work tree.
    after: Option<WorkspacePath>,
}

/// Moves of an applied change, for the snapshot.
#[derive(Default)]
pub struct SnapshotMoves {
    /// Folders that moved as a whole.
    folders: Vec<MovedFolder>,
    /// Files.
    files: Vec<MovedFile>,
    /// Number of bytes that were read from files at their present paths.
    bytes: u64,
}

/// Most files that are read before they move, so that their snapshot need not wait for the move.
const AHEAD_FILES_MAX: usize = 64;

/// Files that are about to move.
pub struct MoveCandidates {
    /// Moves, for the snapshot.
    pub for_snapshot: SnapshotMoves,
    /// Stats from when they were read, by path.
    pub read: Vec<(WorkspacePath, Stat)>,
}

impl MoveCandidates {
    /// Reads the files that are about to move; `None` if they must be read after the move: folders, symlinks, large
    /// files, rule files, and unreadable ones.
    pub fn of(workspace: &Workspace, state: &State, moves: &[Move]) -> Option<Self> {
        if moves.len() > AHEAD_FILES_MAX {
            return None;
        }
        let mut all = Self { for_snapshot: SnapshotMoves::default(), read: Vec::new() };
        moves.iter().try_for_each(|moved| all.read_one(workspace, state, moved))?;
        Some(all)
    }

    /// Reads one file.
    fn read_one(&mut self, workspace: &Workspace, state: &State, moved: &Move) -> Option<()> {
        let [from, to] = [&moved.from, &moved.to].map(|at| at.from_root(state.path()));
        let holds_rules =
            |path: &WorkspacePath| path.name().is_some_and(|name| RULE_FILES.contains(&name.as_bytes()));
        if moved.thing.is_folder || holds_rules(&from) || holds_rules(&to) {
            return None;
        }
        let (file, stat) = workspace.open_regular(&from, &workspace.display(&from)).ok()?;
        let bytes = fs::read_to_end(file, fs::size_of(&stat), LARGE_BYTES as u64 - 1).ok()?;
        let [before, after] = [&from, &to].map(|path| among_files(path, state.path()));
        let file = DiskFile::of(fs::mode_of(&stat), bytes);
        self.for_snapshot.files.push(MovedFile { before, after, file });
        self.read.push((from, stat));
        Some(())
    }

    /// Returns true if no file has changed since it had the stat in `read`.
    pub fn is_as_read(workspace: &Workspace, read: &[(WorkspacePath, Stat)]) -> bool {
        read.iter().all(|(path, then)| {
            let folder = workspace.open_folder(&path.parent().unwrap_or_default());
            let now = folder.map(|folder| fs::stat_at(folder.as_fd(), path.name().unwrap_or_default()));
            matches!(now, Ok(Ok(now)) if fs::is_unchanged(then, &now))
        })
    }
}

impl SnapshotMoves {
    /// Collects the moves of a change.
    ///
    /// # Errors
    /// Returns the errors of reading the moved files.
    pub fn of(engine: &Engine, state: &State, entry: &JournalEntry) -> Result<Self, Error> {
        let workspace = &engine.workspace;
        let mut all = Self::default();
        let among_files = |path: &WorkspacePath| among_files(path, state.path());
        let mut targets = Pieces::default();
        entry.moves.iter().for_each(|moved| targets.insert(&moved.to, &moved.from));
        let is_mixed = !entry.files.is_empty()
            || entry.moves.iter().any(|moved| targets.below(&moved.to).next().is_some());
        for moved in &entry.moves {
            if !is_mixed && kind(workspace, &moved.to)? == Some(NodeKind::Folder) {
                let folder = workspace.open_folder(&moved.to)?;
                let (before, after) = (among_files(&moved.from), among_files(&moved.to));
                all.folders.push(MovedFolder { folder, before, after });
            } else {
                all.take_files((engine, state), entry, (&moved.from, &moved.to), &targets)?;
            }
        }
        Ok(all)
    }

    /// Adds the files that came from `from` to `to`, except those that the change wrote there or moved separately.
    fn take_files(
        &mut self,
        (engine, state): (&Engine, &State),
        entry: &JournalEntry,
        (from, to): (&WorkspacePath, &WorkspacePath),
        targets: &Pieces,
    ) -> Result<(), Error> {
        let put: BTreeSet<&WorkspacePath> =
            entry.files.iter().filter(|file| file.after.is_some()).map(|file| &file.path).collect();
        let inner: Vec<WorkspacePath> =
            targets.below(to).filter_map(|path| WorkspacePath::new(path)).collect();
        let mut bytes_left = SNAPSHOT_BYTES_MAX.saturating_sub(self.bytes);
        let file_bytes_max = engine.policy().snapshot_file_bytes();
        walk(&engine.workspace, to, &mut |found| {
            let is_apart = put.contains(found.path) || inner.iter().any(|other| found.path.is_within(other));
            let before = among_files(&found.path.rebased(to, from), state.path());
            let after = among_files(found.path, state.path());
            let size = fs::size_of(found.stat);
            let has_bytes = fs::is_regular(found.stat) || fs::is_symlink(found.stat);
            if !has_bytes || is_apart || self.files.len() >= SNAPSHOT_FILES_MAX {
                return Ok(());
            }
            let file = if size > file_bytes_max {
                DiskFile::TooLarge(size)
            } else if size > bytes_left {
                return Ok(());
            } else {
                bytes_left -= size;
                self.bytes += size;
                // No message names a place of the trash.
                let shown =
                    || engine.workspace.display(after.as_ref().or(before.as_ref()).unwrap_or(found.path));
                found.on_disk().map_err(|source| Error::io("read", shown(), source))?
            };
            self.files.push(MovedFile { before, after, file });
            Ok(())
        })
    }

    /// Returns the folders for the snapshot.
    pub fn folders(&self) -> Vec<FolderChange<'_>> {
        let all = self.folders.iter().map(|known| FolderChange {
            folder: known.folder.as_fd(),
            before: known.before.as_ref().map(WorkspacePath::as_bytes),
            after: known.after.as_ref().map(WorkspacePath::as_bytes),
        });
        all.collect()
    }

    /// Returns the files for the snapshot together with `others`, one per path: one part of a change may move a file
    /// away from a name, and another may write a file there.
    pub fn files_with<'a>(&'a self, others: Vec<FileChange<'a>>) -> Vec<FileChange<'a>> {
        let mut by_path: BTreeMap<&Path, FileChange<'a>> = BTreeMap::new();
        for file in others.into_iter().chain(self.files.iter().flat_map(MovedFile::for_snapshot)) {
            let path = Path::new(OsStr::from_bytes(file.path));
            let known = by_path.entry(path).or_insert_with(|| file.clone());
            known.before = known.before.or(file.before);
            known.after = known.after.or(file.after);
        }
        by_path.into_values().collect()
    }
}

/// Returns a path, unless it lies in the state.
fn among_files(path: &WorkspacePath, state: &WorkspacePath) -> Option<WorkspacePath> {
    (!path.is_within(state)).then(|| path.clone())
}
