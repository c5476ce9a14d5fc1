//! Survey of a workspace at one moment: type, mode, owner, size and times of everything, read in one
//! pass. Two of them tell what a command touched without reading any file, and a scan takes its stat data
//! from one instead of asking the system for each file again.

mod bytes;

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::fs;
use super::listing::Listing;
use super::path::WorkspacePath;
use crate::platform::{self, ROOM_BYTES};

/// Most files and folders in a survey.
pub const THINGS_MAX: usize = 500_000;

/// Time of a change: seconds and nanoseconds.
pub type ChangeTime = (i64, i64);

/// Returns the time of the last change of a file or folder in any way.
pub fn changed_at(stat: &Stat) -> ChangeTime {
    (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or_default())
}

/// Metadata of an entry that a command can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryStat {
    /// Type and permission bits.
    mode: u32,
    /// User and group.
    owner: (u32, u32),
    /// Its inode.
    inode: u64,
    /// Its size in bytes.
    size: u64,
    /// Time of the last change of its bytes.
    modified: ChangeTime,
    /// Time of the last change of any kind.
    changed: ChangeTime,
    /// True if the command may not change it or its contents.
    is_closed: bool,
}

impl EntryStat {
    /// Takes the metadata from a stat.
    fn of(stat: &Stat, is_closed: bool) -> Self {
        let modified = (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or_default());
        Self {
            mode: platform::mode_bits(stat),
            owner: (stat.st_uid, stat.st_gid),
            inode: stat.st_ino,
            size: fs::size_of(stat),
            modified,
            changed: changed_at(stat),
            is_closed,
        }
    }

    /// Returns its type.
    pub fn kind(&self) -> FileType {
        platform::type_of_bits(self.mode)
    }

    /// Returns type and permission bits.
    pub const fn mode(&self) -> u32 {
        self.mode
    }

    /// Returns its permission bits; for a symlink the type bits, as in the journal.
    pub fn recorded_mode(&self) -> u32 {
        if self.kind().is_symlink() { fs::SYMLINK_MODE } else { self.mode & 0o7777 }
    }

    /// Returns user and group.
    pub const fn owner(&self) -> (u32, u32) {
        self.owner
    }

    /// Returns its inode.
    pub const fn inode(&self) -> u64 {
        self.inode
    }

    /// Returns its size.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the time of the last change of its bytes.
    pub const fn modified(&self) -> ChangeTime {
        self.modified
    }

    /// Returns the time of the last change of any kind.
    pub const fn changed(&self) -> ChangeTime {
        self.changed
    }

    /// True if inode, size, type and time of the last write are equal. A program can set that time, so this
    /// proves nothing: only mode, owner, attributes and links are likely to differ.
    pub fn looks_like(&self, other: &Self) -> bool {
        (self.inode, self.size, self.modified, self.kind())
            == (other.inode, other.size, other.modified, other.kind())
    }
}

/// A difference between two surveys.
#[derive(Debug, Clone)]
pub struct SurveyDiff {
    /// Its path.
    pub path: WorkspacePath,
    /// Metadata before.
    pub before: Option<EntryStat>,
    /// Metadata now.
    pub after: Option<EntryStat>,
}

/// Everything in a workspace that a command may change.
#[derive(Debug)]
pub struct Survey {
    /// The root itself, if it can be looked at.
    root: Option<EntryStat>,
    /// Folders that were read, ordered by the bytes of their paths.
    folders: Vec<Arc<SurveyedFolder>>,
    /// Folders that could not be read.
    unseen: BTreeSet<WorkspacePath>,
    /// Folders with a file that has other names.
    linked: Vec<WorkspacePath>,
}

/// Entries of one folder.
#[derive(Debug)]
pub struct SurveyedFolder {
    /// Its path; empty for the root.
    path: Vec<u8>,
    /// The names in it, one after the other.
    names: Vec<u8>,
    /// Ranges of the names, with metadata, ordered by name.
    things: Vec<(Range<usize>, EntryStat)>,
}

impl SurveyedFolder {
    /// Returns a name in it.
    fn name(&self, range: &Range<usize>) -> &[u8] {
        self.names.get(range.clone()).unwrap_or_default()
    }

    /// Returns the index of a name.
    fn find(&self, name: &[u8]) -> Option<usize> {
        self.things.binary_search_by(|(range, _)| self.name(range).cmp(name)).ok()
    }

    /// Returns the metadata at a name.
    pub fn at(&self, name: &[u8]) -> Option<&EntryStat> {
        self.things.get(self.find(name)?).map(|(_, thing)| thing)
    }

    /// Returns all names with types.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], FileType)> {
        self.things.iter().map(|(range, thing)| (self.name(range), thing.kind()))
    }
}

impl Survey {
    /// Returns the differences to a later survey, ordered by path; of a folder, whether it exists, its mode, owner
    /// and attributes. A file that was changed at `unsure` or later counts too: the clock of the file system is too coarse
    /// to tell.
    pub fn touched(&self, later: &Self, unsure: Option<ChangeTime>) -> Vec<SurveyDiff> {
        let is_other =
            |(one, other): &(EntryStat, EntryStat)| (one.mode, one.owner) != (other.mode, other.owner);
        let (roots, path) = (self.root.zip(later.root).filter(is_other), WorkspacePath::root());
        let root = roots.map(|(before, after)| SurveyDiff { path, before: Some(before), after: Some(after) });
        let mut touched: Vec<SurveyDiff> = root.into_iter().collect();
        let by_path = |one: &Arc<SurveyedFolder>, other: &Arc<SurveyedFolder>| one.path.cmp(&other.path);
        let none = Arc::new(SurveyedFolder { path: Vec::new(), names: Vec::new(), things: Vec::new() });
        for (old, new) in paired(&self.folders, &later.folders, by_path) {
            let path = old.or(new).map_or(&none.path, |folder| &folder.path);
            let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
            if Arc::ptr_eq(old, new) {
                continue;
            }
            let folder = WorkspacePath::new(OsStr::from_bytes(path).as_ref()).unwrap_or_default();
            let by_name = |one: &(Range<usize>, EntryStat), other: &(Range<usize>, EntryStat)| {
                old.name(&one.0).cmp(new.name(&other.0))
            };
            for (before, after) in paired(&old.things, &new.things, by_name) {
                let things = (before.map(|it| it.1), after.map(|it| it.1));
                let is_unsure = |thing: &EntryStat| {
                    has_bytes(thing.kind()) && unsure.is_some_and(|unsure| thing.changed >= unsure)
                };
                if is_same(things) && !things.1.as_ref().is_some_and(is_unsure) {
                    continue;
                }
                let name = before.map(|it| old.name(&it.0)).or(after.map(|it| new.name(&it.0)));
                let path = folder.join(OsStr::from_bytes(name.unwrap_or_default()));
                // An entry that could not be examined was neither created nor deleted.
                if (before.is_none() && self.is_unreadable(&path))
                    || (after.is_none() && later.is_unreadable(&path))
                {
                    continue;
                }
                touched.push(SurveyDiff { path, before: things.0, after: things.1 });
            }
        }
        touched.sort_by(|one, other| one.path.cmp(&other.path));
        touched
    }

    /// Returns a later survey, of which `again` has the folders that were read again, and all that are new.
    #[must_use]
    pub fn renewed(&self, mut again: Self) -> Self {
        // Example: x/ was read again, and x/b is gone. Nothing happened in x/a and x/b/c.
        //
        //   before   x  x/a  x/b  x/b/c
        //   again    x                    holds only a
        //   renewed  x  x/a
        let mut there: HashSet<&[u8]> = HashSet::new();
        let is_there = |path: &SurveyPath<'_>, there: &HashSet<&[u8]>| match again.folder(path.folder) {
            Some(above) => above.at(path.name).zip(self.entry_at(path)).is_some_and(is_same_folder),
            None => path.whole.is_empty() || there.contains(path.folder),
        };
        for folder in self.folders.iter().filter(|folder| again.folder(&folder.path).is_none()) {
            let path = SurveyPath::of(&folder.path);
            if is_there(&path, &there) {
                there.insert(path.whole);
            }
        }
        let kept = self.folders.iter().filter(|folder| there.contains(folder.path.as_slice()));
        let mut folders: Vec<Arc<SurveyedFolder>> = kept.chain(&again.folders).cloned().collect();
        folders.sort_by(|one, other| one.path.cmp(&other.path));
        let unseen = self.unseen.iter().filter(|path| is_there(&SurveyPath::of(path.as_bytes()), &there));
        let unseen: Vec<WorkspacePath> = unseen.cloned().collect();
        again.unseen.extend(unseen);
        Self { folders, ..again }
    }

    /// Returns true if a name in a folder is that of a folder that an earlier survey has seen.
    pub fn knows_folder(&self, folder: &WorkspacePath, name: &OsStr, stat: &Stat) -> bool {
        let known = self.folder(folder.as_bytes()).and_then(|folder| folder.at(name.as_bytes()));
        known.is_some_and(|known| is_same_folder((known, &EntryStat::of(stat, false))))
    }

    /// Returns the folders with a file that has other names.
    pub fn linked(&self) -> impl Iterator<Item = &WorkspacePath> {
        self.linked.iter()
    }

    /// Returns the inodes of everything.
    pub fn inodes(&self) -> impl Iterator<Item = u64> {
        self.folders.iter().flat_map(|folder| folder.things.iter().map(|(_, thing)| thing.inode))
    }

    /// Returns the metadata at the parts of a path.
    fn entry_at(&self, path: &SurveyPath<'_>) -> Option<&EntryStat> {
        self.folder(path.folder)?.at(path.name)
    }

    /// Returns the metadata at a path.
    pub fn at(&self, path: &WorkspacePath) -> Option<&EntryStat> {
        let Some(parent) = path.parent() else { return self.root.as_ref() };
        self.folder(parent.as_bytes())?.at(path.name()?.as_bytes())
    }

    /// Returns every path in a folder, and below it, with what is there.
    pub fn below<'s>(
        &'s self,
        folder: &WorkspacePath,
    ) -> impl Iterator<Item = (WorkspacePath, &'s EntryStat)> + use<'s> {
        let whole = folder.as_bytes().to_vec();
        let first = self.place_of(&whole).unwrap_or_else(|place| place);
        let begun = self.folders.get(first..).unwrap_or_default();
        let prefix = whole.clone();
        let begun = begun.iter().take_while(move |folder| folder.path.starts_with(&prefix));
        let inner = begun.filter(move |folder| {
            let rest = folder.path.strip_prefix(whole.as_slice()).unwrap_or_default();
            whole.is_empty() || rest.is_empty() || rest.starts_with(b"/")
        });
        inner.flat_map(|folder| {
            let path = WorkspacePath::new(OsStr::from_bytes(&folder.path).as_ref()).unwrap_or_default();
            let named = |(range, thing): &'s (Range<usize>, EntryStat)| {
                (path.join(OsStr::from_bytes(folder.name(range))), thing)
            };
            folder.things.iter().map(named).collect::<Vec<_>>()
        })
    }

    /// Returns the folders that could not be read, except those that an earlier survey could not read either.
    pub fn newly_unseen<'s>(&'s self, earlier: &'s Self) -> impl Iterator<Item = &'s WorkspacePath> {
        self.unseen.iter().filter(|folder| !earlier.is_unreadable(folder))
    }

    /// Returns true if a path is or lies in a folder that could not be read.
    fn is_unreadable(&self, path: &WorkspacePath) -> bool {
        !self.unseen.is_empty() && path.and_above().any(|folder| self.unseen.contains(&folder))
    }

    /// Returns a folder that was read, by its path without a slash at its end.
    pub fn folder(&self, path: &[u8]) -> Option<&SurveyedFolder> {
        self.folders.get(self.place_of(path).ok()?).map(Arc::as_ref)
    }

    /// Returns true if a folder held nothing.
    pub fn is_empty(&self, folder: &WorkspacePath) -> bool {
        self.folder(folder.as_bytes()).is_none_or(|folder| folder.things.is_empty())
    }

    /// Returns the index of a folder, or where it would be.
    fn place_of(&self, path: &[u8]) -> Result<usize, usize> {
        self.folders.binary_search_by(|folder| folder.path.as_slice().cmp(path))
    }

    /// Marks a path and everything below it as closed to the command.
    fn close(&mut self, path: &SurveyPath<'_>) {
        if let Ok(at) = self.place_of(path.folder)
            && let Some(folder) = self.folders.get_mut(at).and_then(Arc::get_mut)
            && let Some(at) = folder.find(path.name)
            && let Some((_, thing)) = folder.things.get_mut(at)
        {
            thing.is_closed = true;
        }
        let is_in = |folder: &Arc<SurveyedFolder>| {
            let rest = folder.path.strip_prefix(path.whole);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        // Folders that begin with the path stand side by side, those in it among them.
        let first = self.place_of(path.whole).unwrap_or_else(|place| place);
        let begun = self.folders.get(first..).unwrap_or_default();
        let count = begun.iter().take_while(|folder| folder.path.starts_with(path.whole)).count();
        if begun.iter().take(count).any(is_in) {
            self.folders.retain(|folder| !is_in(folder));
        }
    }
}

/// A path in its parts.
struct SurveyPath<'p> {
    /// All of it.
    whole: &'p [u8],
    /// The folder that holds it.
    folder: &'p [u8],
    /// Its name there.
    name: &'p [u8],
}

impl<'p> SurveyPath<'p> {
    /// Splits a path.
    fn of(whole: &'p [u8]) -> Self {
        match whole.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => Self {
                whole,
                folder: whole.get(..slash).unwrap_or_default(),
                name: whole.get(slash + 1..).unwrap_or_default(),
            },
            None => Self { whole, folder: b"", name: whole },
        }
    }
}

/// Part of a survey, as one thread finds it.
#[derive(Debug, Default)]
pub struct SurveyBuilder {
    /// The folders so far.
    folders: Vec<Arc<SurveyedFolder>>,
    /// Folders that could not be looked into.
    unseen: BTreeSet<WorkspacePath>,
    /// Folders with a file that has other names.
    linked: Vec<WorkspacePath>,
}

impl SurveyBuilder {
    /// Notes a folder that cannot be read, with the error.
    pub fn skip_folder(&mut self, path: WorkspacePath, errno: Errno) {
        // Any other is gone by now.
        if matches!(errno, Errno::ACCESS | Errno::PERM) {
            self.unseen.insert(path);
        }
    }

    /// Begins a folder with that many names.
    pub fn enter(&mut self, path: &WorkspacePath, names: usize) -> OpenSurveyFolder<'_> {
        let folder = SurveyedFolder {
            path: path.as_bytes().to_vec(),
            names: Vec::new(),
            things: Vec::with_capacity(names),
        };
        OpenSurveyFolder { builder: self, folder, has_links: false }
    }

    /// Adds the findings of another thread.
    pub fn merge_findings(&mut self, mut other: Self) {
        self.folders.append(&mut other.folders);
        self.unseen.append(&mut other.unseen);
        self.linked.append(&mut other.linked);
    }

    /// Returns the survey of the folder `root`; a command may not change what is at the paths `closed`.
    pub fn finish<'p>(mut self, root: BorrowedFd<'_>, closed: impl Iterator<Item = &'p [u8]>) -> Survey {
        self.folders.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        // A folder may have been read twice: as one in which something happened, and as a new one.
        self.folders.dedup_by(|one, other| one.path == other.path);
        let root = rustix::fs::fstat(root).ok().map(|stat| EntryStat::of(&stat, false));
        let mut survey = Survey { root, folders: self.folders, unseen: self.unseen, linked: self.linked };
        closed.for_each(|path| survey.close(&SurveyPath::of(path)));
        survey
    }
}

/// A folder that a survey looks at; dropped, it is part of the survey.
#[derive(Debug)]
pub struct OpenSurveyFolder<'s> {
    /// The survey.
    builder: &'s mut SurveyBuilder,
    /// The folder so far.
    folder: SurveyedFolder,
    /// True if one of its files has other names.
    has_links: bool,
}

impl OpenSurveyFolder<'_> {
    /// Looks at a name in the opened folder; returns its stat, if there is something.
    pub fn add(&mut self, folder: BorrowedFd<'_>, name: &OsStr, is_closed: bool) -> Option<Stat> {
        let looked = fs::stat_at(folder, name);
        if let Err(errno) = &looked
            && let Some(path) = WorkspacePath::new(OsStr::from_bytes(&self.folder.path).as_ref())
        {
            // Its names may be read, but nothing in it may be looked at.
            self.builder.skip_folder(path, *errno);
        }
        let stat = looked.ok()?;
        self.has_links |= stat.st_nlink > 1 && !fs::is_folder(&stat);
        let start = self.folder.names.len();
        self.folder.names.extend_from_slice(name.as_bytes());
        self.folder.things.push((start..self.folder.names.len(), EntryStat::of(&stat, is_closed)));
        Some(stat)
    }
}

impl Drop for OpenSurveyFolder<'_> {
    fn drop(&mut self) {
        let none = SurveyedFolder { path: Vec::new(), names: Vec::new(), things: Vec::new() };
        let mut folder = std::mem::replace(&mut self.folder, none);
        let SurveyedFolder { names, things, .. } = &mut folder;
        let name = |range: &Range<usize>| names.get(range.clone()).unwrap_or_default();
        things.sort_unstable_by(|one, other| name(&one.0).cmp(name(&other.0)));
        if self.has_links {
            let path = WorkspacePath::new(OsStr::from_bytes(&folder.path).as_ref());
            self.builder.linked.extend(path);
        }
        self.builder.folders.push(Arc::new(folder));
    }
}

/// Returns the names in an opened folder.
///
/// # Errors
/// Returns the OS error.
pub fn names_of(folder: BorrowedFd<'_>) -> Result<Listing, Errno> {
    let mut room: Vec<u8> = Vec::with_capacity(ROOM_BYTES);
    Listing::read(folder, room.spare_capacity_mut(), || false)
}

/// Pairs two sorted lists: equal items come together.
pub fn paired<'l, T>(
    before: &'l [T],
    after: &'l [T],
    order: impl Fn(&T, &T) -> Ordering,
) -> impl Iterator<Item = (Option<&'l T>, Option<&'l T>)> {
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => order(old, new),
        };
        Some((
            if order.is_le() { before.next() } else { None },
            if order.is_ge() { after.next() } else { None },
        ))
    })
}

/// Returns true if both are one folder with the same permissions: its content can have changed, not its place.
fn is_same_folder((one, other): (&EntryStat, &EntryStat)) -> bool {
    let of = |thing: &EntryStat| (thing.mode, thing.owner, thing.inode);
    one.kind().is_dir() && of(one) == of(other)
}

/// Returns true if nothing of note differs.
fn is_same(things: (Option<EntryStat>, Option<EntryStat>)) -> bool {
    match things {
        (before, after) if before.is_some_and(|it| it.is_closed) || after.is_some_and(|it| it.is_closed) => {
            true
        }
        // A folder in which names come and go has other times. Where only one of them differs, something
        // else of the folder does.
        (Some(before), Some(after)) if before.kind().is_dir() && after.kind().is_dir() => {
            (before.mode, before.owner) == (after.mode, after.owner)
                && (before.changed == after.changed || before.modified != after.modified)
        }
        // A writer to a FIFO changes its times.
        (Some(before), Some(after)) if !has_bytes(before.kind()) => {
            (before.mode, before.owner, before.inode) == (after.mode, after.owner, after.inode)
        }
        (before, after) => before == after,
    }
}

/// Returns true if a file of this type holds bytes of its own.
fn has_bytes(kind: FileType) -> bool {
    kind.is_file() || kind.is_symlink()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::HashSet;
    use std::os::fd::AsFd as _;

    use crate::engine::workspace::Workspace;

    /// Surveys a workspace but for what is in the `closed` paths.
    fn survey(workspace: &Workspace, closed: &HashSet<&OsStr>) -> Survey {
        let mut builder = SurveyBuilder::default();
        let mut folders = vec![WorkspacePath::root()];
        while let Some(path) = folders.pop() {
            let folder = fs::open_beneath(workspace.root_fd(), &path, fs::FOLDER).unwrap();
            let listing = names_of(folder.as_fd()).unwrap();
            let mut entered = builder.enter(&path, listing.len());
            for entry in listing.iter() {
                let name = OsStr::from_bytes(entry.name);
                let inner = path.join(name);
                let is_closed = closed.contains(inner.as_path().as_os_str());
                let stat = entered.add(folder.as_fd(), name, is_closed).unwrap();
                if fs::is_folder(&stat) && !is_closed {
                    folders.push(inner);
                }
            }
        }
        builder.finish(workspace.root_fd(), std::iter::empty())
    }

    #[test]
    fn survey_finds_changed_removed_and_new_paths() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path);
        std::fs::create_dir_all(at("kept/.git")).unwrap();
        std::fs::create_dir_all(at("d/e")).unwrap();
        for path in ["a", "a.b", "d/e/f", "g", "kept/.git/x"] {
            std::fs::write(at(path), path).unwrap();
        }
        let workspace = Workspace::open(&root).unwrap();
        let closed = HashSet::from([OsStr::new("kept/.git")]);
        let before = survey(&workspace, &closed);
        let d = WorkspacePath::new("d".as_ref()).unwrap();
        assert!(!before.is_empty(&d) && before.is_empty(&d.join("e".as_ref()).join("f".as_ref())));
        std::fs::write(at("a"), "other").unwrap();
        std::fs::remove_dir_all(at("d")).unwrap();
        std::fs::write(at("kept/.git/x"), "other").unwrap();
        std::fs::create_dir(at("h")).unwrap();
        let after = survey(&workspace, &closed);
        let touched = before.touched(&after, None);
        let paths: Vec<String> = touched.iter().map(|it| it.path.to_string()).collect();
        assert_eq!(paths, ["a", "d", "d/e", "d/e/f", "h"]);
        assert!(after.touched(&after, None).is_empty());
        // A clock of whole seconds hides a write in the same second.
        let again = survey(&workspace, &closed);
        let unsure = after.touched(&again, Some((0, 0)));
        let paths: Vec<String> = unsure.iter().map(|it| it.path.to_string()).collect();
        assert_eq!(paths, ["a", "a.b", "g"]);
        assert!(after.touched(&again, Some((i64::MAX, 0))).is_empty());
        assert!(after.at(&d).is_none() && before.at(&d.join("e".as_ref())).is_some());
    }

    #[test]
    fn survey_excludes_paths_below_closed_directories() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["a", "a/b/c", "a-b", "a.b", "b/a"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        let workspace = Workspace::open(&root).unwrap();
        let look = |closed: &[&str]| {
            let whole = survey(&workspace, &HashSet::new());
            let builder = SurveyBuilder { folders: whole.folders, ..SurveyBuilder::default() };
            builder.finish(workspace.root_fd(), closed.iter().map(|path| path.as_bytes()))
        };
        let paths = |survey: &Survey| -> Vec<String> {
            survey.folders.iter().map(|it| String::from_utf8_lossy(&it.path).into_owned()).collect()
        };
        assert_eq!(paths(&look(&[])), ["", "a", "a-b", "a.b", "a/b", "a/b/c", "b", "b/a"]);
        assert_eq!(paths(&look(&["a", "none", "b/a"])), ["", "a-b", "a.b", "b"]);
        assert!(look(&["b/a"]).at(&WorkspacePath::new("b/a".as_ref()).unwrap()).unwrap().is_closed);
        assert!(
            look(&["a"]).touched(&look(&[]), None).iter().all(|it| it.path.to_string().starts_with("a/"))
        );
    }
}
