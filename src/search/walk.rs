//! Walk: finds every selected entry below some paths, in the order of their components.
//!
//! Each folder is opened from the one before it and never through a symlink, so that nothing can lead the walk out of
//! the workspace. Memory grows only with the names of the folders between the root and the present one; the deepest few
//! of those folders are kept open.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::entry::{
    EntryType, RuleFiles, SearchStart, SearchWarnings, SkipCause, SkippedEntries, SkippedEntry, WalkEntry,
    WalkFolder, WalkRoot, read_listing,
};
use super::rules::{Admission, EntrySelection, FolderRules, RuleFolder, RuleVerdict, TrackedFiles};
use crate::control::Control;
use crate::engine::workspace::listing::{ListedName, Listing};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::platform::ROOM_BYTES;

/// Most folders kept open on the way down; the others are opened again when needed.
const FOLDERS_OPEN_MAX: usize = 64;
/// Most matching folders that are kept if only other entries are wanted.
const FOLDERS_NAMED_MAX: usize = 3;

/// A walk.
pub struct Walk<'w> {
    /// Workspace to walk.
    workspace: &'w Workspace,
    /// Entries to select.
    selection: EntrySelection,
    /// Cancellation and deadline.
    control: Control,
    /// Paths left to walk, in reverse order.
    roots: Vec<WalkRoot>,
    /// Named paths below other ones, which no rule hides.
    named: Vec<WorkspacePath>,
    /// Folders from the root to the present one.
    frames: Vec<WalkFrame>,
    /// Path of the present folder, ending in `/` unless it is the root.
    path: Vec<u8>,
    /// Buffer for reading folders.
    buffer: Vec<u8>,
    /// Rules at the workspace root and above, once they are loaded.
    top_rules: Option<Arc<FolderRules>>,
    /// Tracked files, once they are needed; `None` inside if unknown.
    tracked: OnceCell<Option<TrackedFiles>>,
    /// Entries that were skipped so far.
    pub left_out: SkippedEntries,
    /// Entries that an earlier walk skipped, left to walk.
    skipped: Vec<SkippedEntry>,
    /// Number of entries at and below these that may still be visited.
    pub left_out_left: u64,
    /// First folders that match, if folders are not wanted.
    pub folders: Vec<WorkspacePath>,
    /// Warnings on folders that could not be read.
    pub notes: SearchWarnings,
    /// Ignored folders, collected if someone wants them.
    pub ignored_folders: Option<Vec<WalkEntry>>,
}

impl<'w> Walk<'w> {
    /// Returns a walk of `roots`; a root below another one is walked once, in its place.
    pub fn new(
        workspace: &'w Workspace,
        mut roots: Vec<WalkRoot>,
        selection: EntrySelection,
        control: Control,
    ) -> Self {
        roots.sort_by(|one, other| one.path.cmp(&other.path));
        roots.dedup_by(|one, other| one.path == other.path);
        let mut tops: Vec<WalkRoot> = Vec::new();
        let mut named = Vec::new();
        for root in roots {
            match tops.last() {
                Some(top) if top.is_folder && root.path.is_within(&top.path) => named.push(root.path),
                _ => tops.push(root),
            }
        }
        tops.reverse();
        Self {
            workspace,
            selection,
            control,
            roots: tops,
            named,
            frames: Vec::new(),
            path: Vec::new(),
            buffer: Vec::with_capacity(ROOM_BYTES),
            top_rules: None,
            tracked: OnceCell::new(),
            left_out: SkippedEntries::default(),
            skipped: Vec::new(),
            left_out_left: u64::MAX,
            folders: Vec::new(),
            notes: SearchWarnings::default(),
            ignored_folders: None,
        }
    }

    /// Returns a walk of entries that an earlier walk skipped, and of at most `entries_max` entries in all. Neither rules
    /// nor dots count there.
    pub fn of_skipped(
        workspace: &'w Workspace,
        skipped: Vec<SkippedEntry>,
        selection: EntrySelection,
        control: Control,
        entries_max: u64,
    ) -> Self {
        let selection = EntrySelection { no_ignore: true, ..selection };
        let walk = Self::new(workspace, Vec::new(), selection, control);
        Self { skipped, left_out_left: entries_max, ..walk }
    }

    /// Returns the rules at the workspace root and above.
    fn top_rules(&mut self) -> Arc<FolderRules> {
        if let Some(rules) = &self.top_rules {
            return Arc::clone(rules);
        }
        let rules = if self.selection.no_ignore {
            FolderRules::none()
        } else {
            FolderRules::outer_rules(self.workspace.root(), &mut self.notes)
        };
        self.top_rules = Some(Arc::clone(&rules));
        rules
    }

    /// Returns the rules above `path`: of the workspace root and of each folder on the way.
    fn rules_above(&mut self, path: &WorkspacePath) -> Arc<FolderRules> {
        let mut rules = self.top_rules();
        if self.selection.no_ignore {
            return rules;
        }
        let mut above = WorkspacePath::root();
        for component in path.components() {
            let opened = fs::open_beneath(self.workspace.root_fd(), &above, fs::FOLDER);
            let Ok(folder) = opened else { break };
            let relative = above.as_bytes().to_vec();
            let place = RuleFolder {
                folder: folder.as_fd(),
                path: Path::new(OsStr::from_bytes(&relative)),
                above: None,
            };
            rules = FolderRules::extend(&rules, &place, RuleFiles::UNKNOWN, &mut self.notes);
            above = above.join(component);
        }
        rules
    }

    /// Starts the next root: enters a folder, returns anything else.
    fn start(&mut self, root: &WalkRoot) -> Option<WalkEntry> {
        let in_state = root.path.components().any(|name| is_state(name.as_bytes()));
        if root.is_folder {
            let rules = self.rules_above(&root.path);
            match fs::open_beneath(self.workspace.root_fd(), &root.path, fs::FOLDER) {
                Ok(fd) => {
                    self.path.clear();
                    self.path.extend_from_slice(root.path.as_bytes());
                    let reach = WalkLimits { in_state, ..WalkLimits::default() };
                    self.enter(FolderToEnter { fd, rules, depth: 0, reach, is_start: true }, &Arc::default());
                }
                Err(errno) => self.note_folder(root.path.as_bytes(), errno),
            }
            return None;
        }
        let (Some(parent), Some(name)) = (root.path.parent(), root.path.name()) else {
            return None;
        };
        match fs::open_beneath(self.workspace.root_fd(), &parent, fs::FOLDER) {
            Ok(fd) => {
                let stat = fs::stat_at(fd.as_fd(), name).ok()?;
                Some(WalkEntry {
                    folder: Arc::new(WalkFolder { path: parent, fd }),
                    name: name.to_owned(),
                    kind: EntryType::of(fs::type_of(&stat)),
                    named: true,
                })
            }
            Err(errno) => {
                self.note_folder(parent.as_bytes(), errno);
                None
            }
        }
    }

    /// Returns or enters an entry that an earlier walk skipped.
    fn enter_skipped(&mut self, skipped: SkippedEntry) -> WalkStep {
        let SkippedEntry { path, kind, starts, depth, in_state, .. } = skipped;
        self.path = path;
        let path_length = memchr::memrchr(b'/', &self.path).map_or(0, |slash| slash + 1);
        self.frames.push(WalkFrame {
            folder: None,
            listing: Listing::default(),
            next: 0,
            rules: FolderRules::none(),
            path_length,
            starts,
            depth,
            reach: WalkLimits { in_state, is_left_out: true, ..WalkLimits::default() },
        });
        let entry = self.judge(kind);
        entry.map_or(WalkStep::On, |entry| self.visit(entry))
    }

    /// Reads the folder whose path is in the buffer and pushes it; `starts` are the paths of the caller above it.
    fn enter(&mut self, entering: FolderToEnter, starts: &Arc<[SearchStart]>) {
        let FolderToEnter { fd, rules, depth, reach, is_start } = entering;
        let listing = match read_listing(fd.as_fd(), self.buffer.spare_capacity_mut(), &self.control) {
            Ok(listing) => listing,
            Err(errno) => {
                let path = std::mem::take(&mut self.path);
                self.note_folder(&path, errno);
                self.path = path;
                return;
            }
        };
        let path = WorkspacePath::new(Path::new(OsStr::from_bytes(&self.path))).unwrap_or_default();
        let rules = if self.selection.no_ignore {
            rules
        } else {
            let path = Path::new(OsStr::from_bytes(path.as_bytes()));
            let place = RuleFolder { folder: fd.as_fd(), path, above: None };
            FolderRules::extend(&rules, &place, RuleFiles::of(&listing), &mut self.notes)
        };
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        let path_length = self.path.len();
        let start = is_start.then_some(SearchStart { length: path_length, depth });
        let starts = match start {
            Some(start) => starts.iter().copied().chain([start]).collect(),
            None => Arc::clone(starts),
        };
        self.frames.push(WalkFrame {
            folder: Some(Arc::new(WalkFolder { path, fd })),
            listing,
            next: 0,
            rules,
            path_length,
            starts,
            depth,
            reach,
        });
        self.close_one();
    }

    /// Closes the folder that is too far up by now.
    fn close_one(&mut self) {
        let Some(index) = self.frames.len().checked_sub(FOLDERS_OPEN_MAX + 1) else {
            return;
        };
        if let Some(frame) = self.frames.get_mut(index) {
            frame.folder = None;
        }
    }

    /// Returns the top folder, opened again if it was closed.
    fn folder(&mut self) -> Option<Arc<WalkFolder>> {
        let frame = self.frames.last_mut()?;
        if let Some(folder) = &frame.folder {
            return Some(Arc::clone(folder));
        }
        let path = WorkspacePath::new(Path::new(OsStr::from_bytes(self.path.get(..frame.path_length)?)))?;
        match fs::open_beneath(self.workspace.root_fd(), &path, fs::FOLDER) {
            Ok(fd) => {
                let folder = Arc::new(WalkFolder { path, fd });
                frame.folder = Some(Arc::clone(&folder));
                Some(folder)
            }
            Err(errno) => {
                frame.next = frame.listing.len();
                self.note_folder(path.as_bytes(), errno);
                None
            }
        }
    }

    /// Handles the next name; `None` at the end of the walk.
    fn step(&mut self) -> Option<WalkStep> {
        let Some(frame) = self.frames.last_mut() else {
            if let Some(skipped) = self.skipped.pop() {
                return Some(self.enter_skipped(skipped));
            }
            let root = self.roots.pop()?;
            return Some(self.start(&root).map_or(WalkStep::On, WalkStep::Found));
        };
        self.path.truncate(frame.path_length);
        let Some(ListedName { name, kind }) = frame.listing.get(frame.next) else {
            self.frames.pop();
            return Some(WalkStep::On);
        };
        frame.next += 1;
        self.path.extend_from_slice(name);
        let entry = self.judge(EntryType::of(kind));
        Some(entry.map_or(WalkStep::On, |entry| self.visit(entry)))
    }

    /// Decides about the entry whose path is in the buffer; `None` to skip it.
    fn judge(&mut self, kind: EntryType) -> Option<SelectedEntry> {
        let naming = if self.named.is_empty() {
            PathRelation::No
        } else {
            naming(&self.named, Path::new(OsStr::from_bytes(&self.path)))
        };
        let frame = self.frames.last()?;
        let reach = frame.reach;
        let in_state = reach.in_state || is_state(self.path.get(frame.path_length..)?);
        if naming == PathRelation::No && (reach.only_named || in_state && !reach.in_state) {
            return None;
        }
        if reach.is_left_out {
            self.left_out_left = self.left_out_left.checked_sub(1)?;
        }
        let enter = match self.admission(kind, naming) {
            Admission::Wanted => Descent::All,
            Admission::Tracked => Descent::OnlyTracked,
            _ if naming == PathRelation::Above => Descent::OnlyNamed,
            Admission::Ignored | Admission::GitIgnored => {
                self.skip(SkipCause::Ignored, kind);
                (kind == EntryType::Dir && self.ignored_folders.is_some()).then_some(Descent::Report)?
            }
            Admission::Hidden => {
                self.skip(SkipCause::Hidden, kind);
                return None;
            }
            Admission::LeftOut => return None,
        };
        self.entry(kind, naming, enter, in_state)
    }

    /// Notes that the entry whose path is in the buffer is skipped.
    fn skip(&mut self, why: SkipCause, kind: EntryType) {
        let Some(WalkFrame { starts, depth, reach, .. }) = self.frames.last() else { return };
        let (path, starts, in_state) = (&self.path, || Arc::clone(starts), reach.in_state);
        let entry =
            || SkippedEntry { why, path: path.clone(), kind, starts: starts(), depth: *depth, in_state };
        self.left_out.add(why, entry);
    }

    /// Applies the selection to the entry whose path is in the buffer.
    fn admission(&mut self, kind: EntryType, naming: PathRelation) -> Admission {
        let Some(frame) = self.frames.last() else {
            return Admission::LeftOut;
        };
        let path = Path::new(OsStr::from_bytes(&self.path));
        let name = self.path.get(frame.path_length..).unwrap_or_default();
        let relative = |length: usize| self.path.get(length..).unwrap_or_default();
        let glob = self.selection.glob.as_ref();
        let is_hidden = name.first() == Some(&b'.')
            && !self.selection.hidden
            && !glob.is_some_and(|glob| frame.any_start(|length, _| glob.names_dot(relative(length))));
        let admission = match naming {
            PathRelation::Itself => return Admission::Wanted,
            _ if frame.reach.is_left_out => return self.selection.admit(None, path, name, kind),
            // An untracked file is as ignored as its folder.
            _ if frame.reach.only_tracked => match frame.rules.verdict(path, kind == EntryType::Dir) {
                RuleVerdict::Ignored => Admission::Ignored,
                RuleVerdict::None | RuleVerdict::GitIgnored | RuleVerdict::Wanted => Admission::GitIgnored,
            },
            _ => match self.selection.admit(Some(&frame.rules), path, name, kind) {
                Admission::Hidden if !is_hidden => Admission::Wanted,
                admission => admission,
            },
        };
        if admission != Admission::GitIgnored || !self.selection.tracked {
            return admission;
        }
        // `ls` counts by git's index; for a pattern the dot is reason enough.
        if glob.is_some() && is_hidden {
            return Admission::Hidden;
        }
        if !frame.any_start(|length, _| self.selection.may_find(relative(length), kind)) {
            return admission;
        }
        // Only now: to decode the index takes as long as to walk a thousand folders.
        let (workspace, notes) = (self.workspace, &mut self.notes);
        let tracked = self.tracked.get_or_init(|| TrackedFiles::round(workspace.root(), notes));
        match tracked {
            Some(tracked) if !tracked.has(&self.path, kind, notes) => admission,
            Some(_) if is_hidden => Admission::Hidden,
            Some(_) if kind == EntryType::Dir => Admission::Tracked,
            Some(_) => Admission::Wanted,
            None => admission,
        }
    }

    /// Returns the entry whose path is in the buffer, unless it is neither found nor entered.
    fn entry(
        &mut self,
        kind: EntryType,
        naming: PathRelation,
        enter: Descent,
        in_state: bool,
    ) -> Option<SelectedEntry> {
        let frame = self.frames.last()?;
        let relative = |length: usize| self.path.get(length..).unwrap_or_default();
        let glob = self.selection.glob.as_ref();
        // Above a path that the caller named, deeper than another one reaches, only the way there counts.
        let goes_below = kind == EntryType::Dir
            && frame.any_start(|length, depth| {
                self.selection.enters_subfolders(depth)
                    && glob.is_none_or(|glob| glob.may_lie_below(relative(length)))
            });
        let is_on_the_way = kind == EntryType::Dir && frame.reach.only_named;
        let is_shown = matches!(enter, Descent::All | Descent::OnlyTracked) && !is_on_the_way;
        let matches =
            is_shown && glob.is_none_or(|glob| frame.any_start(|length, _| glob.matches(relative(length))));
        let is_of_kind = self.selection.kinds.contains(&kind);
        if matches && !is_of_kind && kind == EntryType::Dir && self.folders.len() < FOLDERS_NAMED_MAX {
            self.folders.extend(WorkspacePath::new(Path::new(OsStr::from_bytes(&self.path))));
        }
        let entry = SelectedEntry {
            kind,
            enter,
            wanted: matches && is_of_kind,
            below: kind == EntryType::Dir
                && enter != Descent::Report
                && (goes_below || naming != PathRelation::No),
            reach: WalkLimits {
                only_named: frame.reach.only_named && naming != PathRelation::Itself
                    || enter == Descent::OnlyNamed
                    || naming == PathRelation::Above && !goes_below,
                only_tracked: enter == Descent::OnlyTracked,
                in_state,
                is_left_out: frame.reach.is_left_out,
            },
            named: naming == PathRelation::Itself,
        };
        (entry.wanted || entry.below || enter == Descent::Report).then_some(entry)
    }

    /// Enters the entry, returns it, or both.
    fn visit(&mut self, entry: SelectedEntry) -> WalkStep {
        let (Some(folder), Some(frame)) = (self.folder(), self.frames.last()) else {
            return WalkStep::On;
        };
        let name = OsStr::from_bytes(self.path.get(frame.path_length..).unwrap_or_default());
        let found = (entry.wanted || entry.enter == Descent::Report).then(|| WalkEntry {
            folder: Arc::clone(&folder),
            name: name.to_owned(),
            kind: entry.kind,
            named: entry.named,
        });
        if entry.enter == Descent::Report {
            if let Some(list) = &mut self.ignored_folders {
                list.extend(found);
            }
            return WalkStep::On;
        }
        if entry.below {
            self.enter_below(&folder, entry);
        }
        found.map_or(WalkStep::On, WalkStep::Found)
    }

    /// Enters the folder whose path is in the buffer, a subfolder of `parent`.
    fn enter_below(&mut self, parent: &WalkFolder, entry: SelectedEntry) {
        let Some(frame) = self.frames.last() else { return };
        let name = OsStr::from_bytes(self.path.get(frame.path_length..).unwrap_or_default());
        let starts = Arc::clone(&frame.starts);
        let (rules, depth, reach, is_start) =
            (Arc::clone(&frame.rules), frame.depth + 1, entry.reach, entry.named);
        match fs::open_at(parent.fd.as_fd(), name, fs::FOLDER) {
            Ok(fd) => self.enter(FolderToEnter { fd, rules, depth, reach, is_start }, &starts),
            Err(errno) => {
                let path = std::mem::take(&mut self.path);
                self.note_folder(&path, errno);
                self.path = path;
            }
        }
    }

    /// Adds a note that a folder could not be read, unless it was deleted meanwhile.
    fn note_folder(&mut self, path: &[u8], errno: Errno) {
        if matches!(errno, Errno::NOENT | Errno::LOOP | Errno::NOTDIR) {
            return;
        }
        let workspace = self.workspace;
        self.notes.push(|| {
            let path = WorkspacePath::new(Path::new(OsStr::from_bytes(path))).unwrap_or_default();
            format!("the folder {} could not be read: {errno}", workspace.display(&path))
        });
    }
}

impl Iterator for Walk<'_> {
    type Item = WalkEntry;

    fn next(&mut self) -> Option<WalkEntry> {
        loop {
            if let WalkStep::Found(found) = self.step()? {
                return Some(found);
            }
        }
    }
}

/// Limits of the walk within a folder or at an entry.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is decided by itself")]
struct WalkLimits {
    /// True if only named paths are wanted.
    only_named: bool,
    /// True if only tracked files are wanted, because a rule hides the folder.
    only_tracked: bool,
    /// True if it lies in `.git` or `.lbx`, because the caller named a path there.
    in_state: bool,
    /// True if it is, or lies in, a skipped entry.
    is_left_out: bool,
}

/// A folder between the root and the present entry.
struct WalkFrame {
    /// Descriptor, unless it was closed to save descriptors.
    folder: Option<Arc<WalkFolder>>,
    /// Names in it.
    listing: Listing,
    /// Index of the next name.
    next: usize,
    /// Rules for its entries.
    rules: Arc<FolderRules>,
    /// Length of its path in the walk's buffer.
    path_length: usize,
    /// Paths of the caller at and above it.
    starts: Arc<[SearchStart]>,
    /// Levels below the outermost of these: 0 for that one itself.
    depth: usize,
    /// Limits for its entries.
    reach: WalkLimits,
}

impl WalkFrame {
    /// Returns true if `check` is true for any of the paths that the caller named, given the length of that path and
    /// the levels of this folder below it.
    fn any_start(&self, mut check: impl FnMut(usize, usize) -> bool) -> bool {
        self.starts.iter().any(|start| check(start.length, self.depth - start.depth))
    }
}

/// Result of one step of the walk.
enum WalkStep {
    /// An entry was found.
    Found(WalkEntry),
    /// No entry yet.
    On,
}

/// Extent to which a folder is entered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Descent {
    /// Not entered, only reported as ignored.
    Report,
    /// Only on the way to a named path.
    OnlyNamed,
    /// Only for tracked files.
    OnlyTracked,
    /// Fully.
    All,
}

/// An entry that the walk returns or enters.
#[derive(Clone, Copy)]
struct SelectedEntry {
    /// Type of the entry.
    kind: EntryType,
    /// Extent to which it is entered, if at all.
    enter: Descent,
    /// True if it is returned.
    wanted: bool,
    /// True if it is entered.
    below: bool,
    /// Limits of the walk below it.
    reach: WalkLimits,
    /// True if the caller named it.
    named: bool,
}

/// A folder about to be entered.
struct FolderToEnter {
    /// Descriptor of the folder.
    fd: OwnedFd,
    /// Rules of its parent.
    rules: Arc<FolderRules>,
    /// Levels below the outermost path of the caller.
    depth: usize,
    /// Limits for its entries.
    reach: WalkLimits,
    /// True if the caller named it.
    is_start: bool,
}

/// Relation of an entry to the named paths.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathRelation {
    /// Unrelated.
    No,
    /// Above a named path.
    Above,
    /// A named path.
    Itself,
}

/// Returns the relation of `path` to the named paths.
fn naming(named: &[WorkspacePath], path: &Path) -> PathRelation {
    let below = named.iter().filter(|named| named.as_path().starts_with(path));
    below.fold(PathRelation::No, |found, named| {
        if named.as_path() == path || found == PathRelation::Itself {
            PathRelation::Itself
        } else {
            PathRelation::Above
        }
    })
}

/// Returns true if a name is git's state or lbx's own, which no search enters unasked.
fn is_state(name: &[u8]) -> bool {
    name.len() == 4 && (name.eq_ignore_ascii_case(b".git") || name.eq_ignore_ascii_case(b".lbx"))
}
