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
    Kind, LeftOut, Root, RuleFiles, SearchWarnings, SkippedEntry, Start, WalkEntry, WalkFolder, Why,
    read_listing,
};
use super::rules::{Admission, RuleFolder, Rules, Selection, Tracked, Verdict};
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
    selection: Selection,
    /// Cancellation and deadline.
    control: Control,
    /// Paths left to walk, in reverse order.
    roots: Vec<Root>,
    /// Named paths below other ones, which no rule hides.
    named: Vec<WorkspacePath>,
    /// Folders from the root to the present one.
    frames: Vec<Frame>,
    /// Path of the present folder, ending in `/` unless it is the root.
    path: Vec<u8>,
    /// Buffer for reading folders.
    buffer: Vec<u8>,
    /// Rules at the workspace root and above, once they are loaded.
    top_rules: Option<Arc<Rules>>,
    /// Tracked files, once they are needed; `None` inside if unknown.
    tracked: OnceCell<Option<Tracked>>,
    /// Entries that were skipped so far.
    pub left_out: LeftOut,
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
        mut roots: Vec<Root>,
        selection: Selection,
        control: Control,
    ) -> Self {
        roots.sort_by(|one, other| one.path.cmp(&other.path));
        roots.dedup_by(|one, other| one.path == other.path);
        let mut tops: Vec<Root> = Vec::new();
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
            left_out: LeftOut::default(),
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
        selection: Selection,
        control: Control,
        entries_max: u64,
    ) -> Self {
        let selection = Selection { no_ignore: true, ..selection };
        let walk = Self::new(workspace, Vec::new(), selection, control);
        Self { skipped, left_out_left: entries_max, ..walk }
    }

    /// Returns the rules at the workspace root and above.
    fn top_rules(&mut self) -> Arc<Rules> {
        if let Some(rules) = &self.top_rules {
            return Arc::clone(rules);
        }
        let rules = if self.selection.no_ignore {
            Rules::none()
        } else {
            Rules::above(self.workspace.root(), &mut self.notes)
        };
        self.top_rules = Some(Arc::clone(&rules));
        rules
    }

    /// Returns the rules above `path`: of the workspace root and of each folder on the way.
    fn rules_above(&mut self, path: &WorkspacePath) -> Arc<Rules> {
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
            rules = Rules::extend(&rules, &place, RuleFiles::UNKNOWN, &mut self.notes);
            above = above.join(component);
        }
        rules
    }

    /// Starts the next root: enters a folder, returns anything else.
    fn start(&mut self, root: &Root) -> Option<WalkEntry> {
        let in_state = root.path.components().any(|name| is_state(name.as_bytes()));
        if root.is_folder {
            let rules = self.rules_above(&root.path);
            match fs::open_beneath(self.workspace.root_fd(), &root.path, fs::FOLDER) {
                Ok(fd) => {
                    self.path.clear();
                    self.path.extend_from_slice(root.path.as_bytes());
                    let reach = Reach { in_state, ..Reach::default() };
                    self.enter(Entering { fd, rules, depth: 0, reach, is_start: true }, &Arc::default());
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
                    kind: Kind::of(fs::type_of(&stat)),
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
    fn enter_skipped(&mut self, skipped: SkippedEntry) -> Step {
        let SkippedEntry { path, kind, starts, depth, in_state, .. } = skipped;
        self.path = path;
        let path_length = memchr::memrchr(b'/', &self.path).map_or(0, |slash| slash + 1);
        self.frames.push(Frame {
            folder: None,
            listing: Listing::default(),
            next: 0,
            rules: Rules::none(),
            path_length,
            starts,
            depth,
            reach: Reach { in_state, is_left_out: true, ..Reach::default() },
        });
        let entry = self.judge(kind);
        entry.map_or(Step::On, |entry| self.take(entry))
    }

    /// Reads the folder whose path is in the buffer and pushes it; `starts` are the paths of the caller above it.
    fn enter(&mut self, entering: Entering, starts: &Arc<[Start]>) {
        let Entering { fd, rules, depth, reach, is_start } = entering;
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
            Rules::extend(&rules, &place, RuleFiles::of(&listing), &mut self.notes)
        };
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        let path_length = self.path.len();
        let start = is_start.then_some(Start { length: path_length, depth });
        let starts = match start {
            Some(start) => starts.iter().copied().chain([start]).collect(),
            None => Arc::clone(starts),
        };
        self.frames.push(Frame {
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
    fn step(&mut self) -> Option<Step> {
        let Some(frame) = self.frames.last_mut() else {
            if let Some(skipped) = self.skipped.pop() {
                return Some(self.enter_skipped(skipped));
            }
            let root = self.roots.pop()?;
            return Some(self.start(&root).map_or(Step::On, Step::Found));
        };
        self.path.truncate(frame.path_length);
        let Some(ListedName { name, kind }) = frame.listing.get(frame.next) else {
            self.frames.pop();
            return Some(Step::On);
        };
        frame.next += 1;
        self.path.extend_from_slice(name);
        let entry = self.judge(Kind::of(kind));
        Some(entry.map_or(Step::On, |entry| self.take(entry)))
    }

    /// Decides about the entry whose path is in the buffer; `None` to skip it.
    fn judge(&mut self, kind: Kind) -> Option<TakenEntry> {
        let naming = if self.named.is_empty() {
            Naming::No
        } else {
            naming(&self.named, Path::new(OsStr::from_bytes(&self.path)))
        };
        let frame = self.frames.last()?;
        let reach = frame.reach;
        let in_state = reach.in_state || is_state(self.path.get(frame.path_length..)?);
        if naming == Naming::No && (reach.only_named || in_state && !reach.in_state) {
            return None;
        }
        if reach.is_left_out {
            self.left_out_left = self.left_out_left.checked_sub(1)?;
        }
        let enter = match self.admission(kind, naming) {
            Admission::Wanted => Enter::All,
            Admission::Tracked => Enter::OnlyTracked,
            _ if naming == Naming::Above => Enter::OnlyNamed,
            Admission::Ignored | Admission::GitIgnored => {
                self.skip(Why::Ignored, kind);
                (kind == Kind::Dir && self.ignored_folders.is_some()).then_some(Enter::Report)?
            }
            Admission::Hidden => {
                self.skip(Why::Hidden, kind);
                return None;
            }
            Admission::LeftOut => return None,
        };
        self.entry(kind, naming, enter, in_state)
    }

    /// Notes that the entry whose path is in the buffer is skipped.
    fn skip(&mut self, why: Why, kind: Kind) {
        let Some(Frame { starts, depth, reach, .. }) = self.frames.last() else { return };
        let (path, starts, in_state) = (&self.path, || Arc::clone(starts), reach.in_state);
        let entry =
            || SkippedEntry { why, path: path.clone(), kind, starts: starts(), depth: *depth, in_state };
        self.left_out.add(why, entry);
    }

    /// Applies the selection to the entry whose path is in the buffer.
    fn admission(&mut self, kind: Kind, naming: Naming) -> Admission {
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
            Naming::Itself => return Admission::Wanted,
            _ if frame.reach.is_left_out => return self.selection.admit(None, path, name, kind),
            // An untracked file is as ignored as its folder.
            _ if frame.reach.only_tracked => match frame.rules.verdict(path, kind == Kind::Dir) {
                Verdict::Ignored => Admission::Ignored,
                Verdict::None | Verdict::GitIgnored | Verdict::Wanted => Admission::GitIgnored,
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
        let tracked = self.tracked.get_or_init(|| Tracked::round(workspace.root(), notes));
        match tracked {
            Some(tracked) if !tracked.has(&self.path, kind, notes) => admission,
            Some(_) if is_hidden => Admission::Hidden,
            Some(_) if kind == Kind::Dir => Admission::Tracked,
            Some(_) => Admission::Wanted,
            None => admission,
        }
    }

    /// Returns the entry whose path is in the buffer, unless it is neither found nor entered.
    fn entry(&mut self, kind: Kind, naming: Naming, enter: Enter, in_state: bool) -> Option<TakenEntry> {
        let frame = self.frames.last()?;
        let relative = |length: usize| self.path.get(length..).unwrap_or_default();
        let glob = self.selection.glob.as_ref();
        // Above a path that the caller named, deeper than another one reaches, only the way there counts.
        let goes_below = kind == Kind::Dir
            && frame.any_start(|length, depth| {
                self.selection.goes_below(depth)
                    && glob.is_none_or(|glob| glob.may_lie_below(relative(length)))
            });
        let is_on_the_way = kind == Kind::Dir && frame.reach.only_named;
        let is_shown = matches!(enter, Enter::All | Enter::OnlyTracked) && !is_on_the_way;
        let matches =
            is_shown && glob.is_none_or(|glob| frame.any_start(|length, _| glob.matches(relative(length))));
        let is_of_kind = self.selection.kinds.contains(&kind);
        if matches && !is_of_kind && kind == Kind::Dir && self.folders.len() < FOLDERS_NAMED_MAX {
            self.folders.extend(WorkspacePath::new(Path::new(OsStr::from_bytes(&self.path))));
        }
        let entry = TakenEntry {
            kind,
            enter,
            wanted: matches && is_of_kind,
            below: kind == Kind::Dir && enter != Enter::Report && (goes_below || naming != Naming::No),
            reach: Reach {
                only_named: frame.reach.only_named && naming != Naming::Itself
                    || enter == Enter::OnlyNamed
                    || naming == Naming::Above && !goes_below,
                only_tracked: enter == Enter::OnlyTracked,
                in_state,
                is_left_out: frame.reach.is_left_out,
            },
            named: naming == Naming::Itself,
        };
        (entry.wanted || entry.below || enter == Enter::Report).then_some(entry)
    }

    /// Enters the entry, returns it, or both.
    fn take(&mut self, entry: TakenEntry) -> Step {
        let (Some(folder), Some(frame)) = (self.folder(), self.frames.last()) else {
            return Step::On;
        };
        let name = OsStr::from_bytes(self.path.get(frame.path_length..).unwrap_or_default());
        let found = (entry.wanted || entry.enter == Enter::Report).then(|| WalkEntry {
            folder: Arc::clone(&folder),
            name: name.to_owned(),
            kind: entry.kind,
            named: entry.named,
        });
        if entry.enter == Enter::Report {
            if let Some(list) = &mut self.ignored_folders {
                list.extend(found);
            }
            return Step::On;
        }
        if entry.below {
            self.enter_below(&folder, entry);
        }
        found.map_or(Step::On, Step::Found)
    }

    /// Enters the folder whose path is in the buffer, a subfolder of `parent`.
    fn enter_below(&mut self, parent: &WalkFolder, entry: TakenEntry) {
        let Some(frame) = self.frames.last() else { return };
        let name = OsStr::from_bytes(self.path.get(frame.path_length..).unwrap_or_default());
        let starts = Arc::clone(&frame.starts);
        let (rules, depth, reach, is_start) =
            (Arc::clone(&frame.rules), frame.depth + 1, entry.reach, entry.named);
        match fs::open_at(parent.fd.as_fd(), name, fs::FOLDER) {
            Ok(fd) => self.enter(Entering { fd, rules, depth, reach, is_start }, &starts),
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
            format!("the folder {} could not be read: {errno}", workspace.shown(&path))
        });
    }
}

impl Iterator for Walk<'_> {
    type Item = WalkEntry;

    fn next(&mut self) -> Option<WalkEntry> {
        loop {
            if let Step::Found(found) = self.step()? {
                return Some(found);
            }
        }
    }
}

/// Limits of the walk within a folder or at an entry.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is decided by itself")]
struct Reach {
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
struct Frame {
    /// Descriptor, unless it was closed to save descriptors.
    folder: Option<Arc<WalkFolder>>,
    /// Names in it.
    listing: Listing,
    /// Index of the next name.
    next: usize,
    /// Rules for its entries.
    rules: Arc<Rules>,
    /// Length of its path in the walk's buffer.
    path_length: usize,
    /// Paths of the caller at and above it.
    starts: Arc<[Start]>,
    /// Levels below the outermost of these: 0 for that one itself.
    depth: usize,
    /// Limits for its entries.
    reach: Reach,
}

impl Frame {
    /// Returns true if `check` is true for any of the paths that the caller named, given the length of that path and
    /// the levels of this folder below it.
    fn any_start(&self, mut check: impl FnMut(usize, usize) -> bool) -> bool {
        self.starts.iter().any(|start| check(start.length, self.depth - start.depth))
    }
}

/// Result of one step of the walk.
enum Step {
    /// An entry was found.
    Found(WalkEntry),
    /// No entry yet.
    On,
}

/// Extent to which a folder is entered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enter {
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
struct TakenEntry {
    /// Type of the entry.
    kind: Kind,
    /// Extent to which it is entered, if at all.
    enter: Enter,
    /// True if it is returned.
    wanted: bool,
    /// True if it is entered.
    below: bool,
    /// Limits of the walk below it.
    reach: Reach,
    /// True if the caller named it.
    named: bool,
}

/// A folder about to be entered.
struct Entering {
    /// Descriptor of the folder.
    fd: OwnedFd,
    /// Rules of its parent.
    rules: Arc<Rules>,
    /// Levels below the outermost path of the caller.
    depth: usize,
    /// Limits for its entries.
    reach: Reach,
    /// True if the caller named it.
    is_start: bool,
}

/// Relation of an entry to the named paths.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// Unrelated.
    No,
    /// Above a named path.
    Above,
    /// A named path.
    Itself,
}

/// Returns the relation of `path` to the named paths.
fn naming(named: &[WorkspacePath], path: &Path) -> Naming {
    let below = named.iter().filter(|named| named.as_path().starts_with(path));
    below.fold(Naming::No, |found, named| {
        if named.as_path() == path || found == Naming::Itself { Naming::Itself } else { Naming::Above }
    })
}

/// Returns true if a name is git's state or lbx's own, which no search enters unasked.
fn is_state(name: &[u8]) -> bool {
    name.len() == 4 && (name.eq_ignore_ascii_case(b".git") || name.eq_ignore_ascii_case(b".lbx"))
}
