//! Entries that a search takes. Ignore rules: `.gitignore`, `.ignore`, `.rgignore`, `.git/info/exclude` and git's own settings.
//!
//! A folder with such files adds a [`FolderRules`] to those of its parent; a folder without shares its parent's. The
//! precedence is ripgrep's: `.rgignore`, `.ignore`, `.gitignore`, `info/exclude`, the user's own excludes; within one
//! kind the deepest folder decides. Git's rules apply only inside a repository, and end where a nested one begins.
//!
//! A [`EntrySelection`] adds hidden names, globs, types and depths, and files that git tracks although a rule names them. A
//! file that was added before a rule named it, or against one, is as much part of the repository as any other: `git
//! ls-files` lists it, and so do `glob` and `ls`. `rg` does not check, and so `grep` does not either.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use gix::bstr::ByteSlice;
use gix::index::File;
use globset::GlobSet;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::Override;
use ignore::types::Types;
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::engine::workspace::fs;
use crate::engine::workspace::git_files::{self, GIT_LINK_BYTES_MAX, git_folder, open_folder, read_regular};
use crate::limits::WALK_DEPTH_MAX;
use crate::search::entry::{EntryType, RuleFiles, SearchWarnings};
use crate::search::globs::PathGlob;

/// Largest rule file, in bytes; larger ones are not used.
const SEARCH_RULES_BYTES_MAX: u64 = 1024 * 1024;
/// Most patterns for one folder, including those of the folders above: about 4 kB and 15 µs each. A file with more is
/// not used.
const PATTERNS_MAX: usize = 10_000;

/// Decision of the rules about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleVerdict {
    /// Nothing.
    None,
    /// `.ignore` or `.rgignore` hides it.
    Ignored,
    /// A git rule hides it, which does not apply to tracked files.
    GitIgnored,
    /// It is shown, even if its name begins with a dot.
    Wanted,
}

/// Rules for one folder.
#[derive(Debug)]
pub struct FolderRules {
    /// Rules of the folders above.
    parent: Option<Arc<FolderRules>>,
    /// Rules of `.rgignore`.
    rgignore: Gitignore,
    /// Rules of `.ignore`.
    ignore: Gitignore,
    /// Rules of `.gitignore`.
    gitignore: Gitignore,
    /// Rules of `.git/info/exclude`.
    exclude: Gitignore,
    /// User's own rules, which have the lowest precedence; only at the top.
    user: Option<Gitignore>,
    /// True if the folder is a repository.
    repository: bool,
    /// True if the folder lies in a repository.
    in_repository: bool,
    /// Set if the folder lies above the workspace: its path, to which patterns are relative.
    above: Option<PathBuf>,
    /// Number of patterns compiled for this folder and those above.
    patterns: usize,
}

impl FolderRules {
    /// Returns the rules that the folders above `root` and the user's settings define for everything in it.
    pub fn outer_rules(root: &Path, notes: &mut SearchWarnings) -> Arc<Self> {
        let user = GitignoreBuilder::new("").build_global().0;
        let mut rules = Arc::new(Self { user: Some(user), ..Self::empty(None) });
        let folders: Vec<&Path> = root.ancestors().skip(1).collect();
        for folder in folders.into_iter().rev() {
            let Ok(opened) = rustix::fs::open(folder, fs::FOLDER, Mode::empty()) else {
                continue;
            };
            let place = RuleFolder { folder: opened.as_fd(), path: folder, above: Some(root) };
            rules = Self::extend(&rules, &place, RuleFiles::UNKNOWN, notes);
        }
        rules
    }

    /// Returns empty rules.
    pub fn none() -> Arc<Self> {
        Arc::new(Self::empty(None))
    }

    /// Returns only the parent's rules.
    fn empty(parent: Option<Arc<Self>>) -> Self {
        let in_repository = parent.as_ref().is_some_and(|parent| parent.in_repository);
        let patterns = parent.as_ref().map_or(0, |parent| parent.patterns);
        Self {
            parent,
            rgignore: Gitignore::empty(),
            ignore: Gitignore::empty(),
            gitignore: Gitignore::empty(),
            exclude: Gitignore::empty(),
            user: None,
            repository: false,
            in_repository,
            above: None,
            patterns,
        }
    }

    /// Returns the rules of a subfolder of `parent`'s folder, in which `files` may exist.
    pub fn extend(
        parent: &Arc<Self>,
        place: &RuleFolder<'_>,
        files: RuleFiles,
        notes: &mut SearchWarnings,
    ) -> Arc<Self> {
        if !files.any() {
            return Arc::clone(parent);
        }
        let mut rules = Self::empty(Some(Arc::clone(parent)));
        rules.above = place.above.map(Path::to_owned);
        if files.repository && fs::stat_at(place.folder, OsStr::new(".git")).is_ok() {
            rules.repository = true;
            rules.in_repository = true;
            rules.exclude =
                place.compile(read_exclude(place), ".git/info/exclude", &mut rules.patterns, notes);
        }
        if files.rgignore {
            rules.rgignore = place.load(".rgignore", &mut rules.patterns, notes);
        }
        if files.ignore {
            rules.ignore = place.load(".ignore", &mut rules.patterns, notes);
        }
        if files.gitignore {
            rules.gitignore = place.load(".gitignore", &mut rules.patterns, notes);
        }
        let nothing = !rules.repository
            && rules.rgignore.is_empty()
            && rules.ignore.is_empty()
            && rules.gitignore.is_empty();
        if nothing { Arc::clone(parent) } else { Arc::new(rules) }
    }

    /// Returns the decision about `path`, which is relative to the workspace root.
    pub fn verdict(&self, path: &Path, is_folder: bool) -> RuleVerdict {
        let (mut rgignore, mut ignore) = (RuleVerdict::None, RuleVerdict::None);
        let (mut gitignore, mut exclude, mut user) =
            (RuleVerdict::None, RuleVerdict::None, RuleVerdict::None);
        let mut git_counts = self.in_repository;
        let mut level = Some(self);
        while let Some(rules) = level {
            let seen;
            let path = match &rules.above {
                None => path,
                Some(root) => {
                    seen = root.join(path);
                    &seen
                }
            };
            decide(&mut rgignore, &rules.rgignore, path, is_folder);
            decide(&mut ignore, &rules.ignore, path, is_folder);
            if git_counts {
                decide(&mut gitignore, &rules.gitignore, path, is_folder);
                decide(&mut exclude, &rules.exclude, path, is_folder);
            }
            if let Some(own) = rules.user.as_ref().filter(|_| self.in_repository) {
                decide(&mut user, own, path, is_folder);
            }
            git_counts = git_counts && !rules.repository;
            level = rules.parent.as_deref();
        }
        let by_git = [gitignore, exclude, user].into_iter().map(|verdict| match verdict {
            RuleVerdict::Ignored => RuleVerdict::GitIgnored,
            other => other,
        });
        let mut verdicts = [rgignore, ignore].into_iter().chain(by_git);
        verdicts.find(|verdict| *verdict != RuleVerdict::None).unwrap_or(RuleVerdict::None)
    }
}

/// Applies `rules` if nothing is decided yet.
fn decide(verdict: &mut RuleVerdict, rules: &Gitignore, path: &Path, is_folder: bool) {
    if *verdict == RuleVerdict::None && !rules.is_empty() {
        *verdict = match rules.matched(path, is_folder) {
            Match::None => RuleVerdict::None,
            Match::Ignore(_) => RuleVerdict::Ignored,
            Match::Whitelist(_) => RuleVerdict::Wanted,
        };
    }
}

/// Folder whose rules are loaded.
pub struct RuleFolder<'a> {
    /// Descriptor of the folder.
    pub folder: BorrowedFd<'a>,
    /// Path: from the workspace root, or absolute if it lies above.
    pub path: &'a Path,
    /// Workspace root, if the folder lies above it.
    pub above: Option<&'a Path>,
}

impl RuleFolder<'_> {
    /// Returns the rules in the file `name`; empty if there is no such file.
    ///
    /// As in git, a rule file that is a symlink does not count.
    fn load(&self, name: &str, patterns: &mut usize, notes: &mut SearchWarnings) -> Gitignore {
        let text = read_regular(self.folder, Path::new(name), SEARCH_RULES_BYTES_MAX);
        self.compile(text, name, patterns, notes)
    }

    /// Compiles the rules in `text`, the content of `name`; `patterns` counts those that apply here.
    fn compile(
        &self,
        text: Result<Option<Vec<u8>>, Errno>,
        name: &str,
        patterns: &mut usize,
        notes: &mut SearchWarnings,
    ) -> Gitignore {
        let text = match text {
            Ok(Some(text)) => text,
            Ok(None) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Gitignore::empty(),
            Err(Errno::FBIG) => return self.unused(name, "it is larger than 1 MiB", notes),
            Err(errno) => return self.unused(name, &errno.to_string(), notes),
        };
        let lines = text.split(|&byte| byte == b'\n');
        let own = lines.filter(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#")).count();
        if *patterns + own > PATTERNS_MAX {
            return self.unused(
                name,
                &format!("with it there would be more than {PATTERNS_MAX} patterns"),
                notes,
            );
        }
        *patterns += own;
        let text = String::from_utf8_lossy(&text);
        let mut builder = GitignoreBuilder::new(self.path);
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            if let Err(error) = builder.add_line(None, line) {
                notes.push(|| format!("{}:{}: {error}", self.name_of(name), index + 1));
            }
        }
        builder.build().unwrap_or_else(|error| self.unused(name, &error.to_string(), notes))
    }

    /// Returns empty rules, with a note that the file `name` is unusable.
    fn unused(&self, name: &str, reason: &str, notes: &mut SearchWarnings) -> Gitignore {
        notes.push(|| format!("the ignore rules in {} were not used: {reason}", self.name_of(name)));
        Gitignore::empty()
    }

    /// Returns the name of the file `name` for messages.
    fn name_of(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

/// Returns the content of the repository's own excludes, which a linked worktree shares.
fn read_exclude(place: &RuleFolder<'_>) -> Result<Option<Vec<u8>>, Errno> {
    let Some(git) = git_folder(place.folder)? else {
        return Ok(None);
    };
    let common = match read_regular(git.as_fd(), Path::new("commondir"), GIT_LINK_BYTES_MAX) {
        Ok(Some(common)) => open_folder(git.as_fd(), Path::new(OsStr::from_bytes(common.trim_ascii())))?,
        _ => git,
    };
    read_regular(common.as_fd(), Path::new("info/exclude"), SEARCH_RULES_BYTES_MAX)
}

/// Entries that a search selects.
#[derive(Debug, Clone)]
pub struct EntrySelection {
    /// True to include names that begin with a dot.
    pub hidden: bool,
    /// True to include ignored entries.
    pub no_ignore: bool,
    /// True to show tracked files even if they are ignored.
    pub tracked: bool,
    /// Globs that include or exclude, with precedence over the ignore rules, as in ripgrep.
    pub overrides: Override,
    /// Folders below the folder of these globs whose dot they name.
    pub dot_folders: GlobSet,
    /// File types, as in ripgrep.
    pub types: Types,
    /// Levels below each path; 1 is the folder itself.
    pub depth: Option<usize>,
    /// Pattern that a path must match; folders are entered even if they do not match.
    pub glob: Option<PathGlob>,
    /// Types of entries to find.
    pub kinds: &'static [EntryType],
}

/// Types of entries that git can track.
pub const LEAVES: &[EntryType] = &[EntryType::File, EntryType::Symlink];
/// All types of entries.
pub const ALL_KINDS: &[EntryType] = &[EntryType::File, EntryType::Dir, EntryType::Symlink, EntryType::Other];

/// Decision about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Selected, or entered.
    Wanted,
    /// Ignored by a rule, but git tracks it, or something below it.
    Tracked,
    /// Hidden by `.ignore` or `.rgignore`.
    Ignored,
    /// Hidden by a git rule, and not known to be tracked.
    GitIgnored,
    /// Hidden, since its name begins with a dot.
    Hidden,
    /// Excluded by a glob or a type.
    LeftOut,
}

impl EntrySelection {
    /// Selects everything of `kinds` that is neither hidden nor ignored.
    pub fn of(kinds: &'static [EntryType]) -> Self {
        Self {
            hidden: false,
            no_ignore: false,
            tracked: false,
            overrides: Override::empty(),
            dot_folders: GlobSet::empty(),
            types: Types::empty(),
            depth: None,
            glob: None,
            kinds,
        }
    }

    /// Returns true if the subfolders of a folder `depth` levels below the walked path are entered.
    pub fn enters_subfolders(&self, depth: usize) -> bool {
        depth < self.depth.map_or(WALK_DEPTH_MAX, |levels| levels.saturating_sub(1))
    }

    /// Returns false if the glob matches neither this path, relative to the root of the walk, nor anything below it.
    pub fn may_find(&self, relative: &[u8], kind: EntryType) -> bool {
        let is_folder = kind == EntryType::Dir;
        let glob = self.glob.as_ref();
        glob.is_none_or(|glob| glob.matches(relative) || is_folder && glob.may_lie_below(relative))
    }

    /// Decides about the entry at `path`, which is relative to the workspace root; without rules about one below a skipped
    /// entry, where dots do not count either.
    pub fn admit(&self, rules: Option<&FolderRules>, path: &Path, name: &[u8], kind: EntryType) -> Admission {
        let hidden = self.hidden || rules.is_none();
        let rules = rules.filter(|_| !self.no_ignore);
        let is_folder = kind == EntryType::Dir;
        if !self.overrides.is_empty() {
            match self.overrides.matched(from_base(self.overrides.path(), path), is_folder) {
                Match::None => {}
                Match::Ignore(_) => return Admission::LeftOut,
                Match::Whitelist(_) => return Admission::Wanted,
            }
        }
        let mut shown = false;
        match rules.map_or(RuleVerdict::None, |rules| rules.verdict(path, is_folder)) {
            RuleVerdict::None => {}
            RuleVerdict::Ignored => return Admission::Ignored,
            RuleVerdict::GitIgnored => return Admission::GitIgnored,
            RuleVerdict::Wanted => shown = true,
        }
        if !self.types.is_empty() {
            match self.types.matched(path, is_folder) {
                Match::None => {}
                Match::Ignore(_) => return Admission::LeftOut,
                Match::Whitelist(_) => shown = true,
            }
        }
        let is_named = || self.dot_folders.is_match(from_base(self.overrides.path(), path));
        let is_hidden = name.first() == Some(&b'.') && !hidden && !shown;
        if is_hidden && !(is_folder && is_named()) {
            return Admission::Hidden;
        }
        Admission::Wanted
    }
}

/// Returns a path relative to `base`, to which globs are anchored: a path that is not below it begins with `..`.
fn from_base<'p>(base: &Path, path: &'p Path) -> Cow<'p, Path> {
    if path.starts_with(base) {
        return Cow::Borrowed(path);
    }
    let up = base.components().count();
    let common = base.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let rest = path.components().skip(common).map(Component::as_os_str);
    Cow::Owned(iter::repeat_n(OsStr::new(".."), up - common).chain(rest).collect())
}

/// Files that git tracks in the repository around the workspace.
pub struct TrackedFiles {
    /// The repository's index.
    index: File,
    /// Workspace root relative to the work tree; empty, or ending in `/`.
    prefix: Vec<u8>,
    /// True once a warning says that the index is sparse.
    is_sparse_told: Cell<bool>,
}

impl TrackedFiles {
    /// Returns the tracked files of the repository that contains `root`; `None` outside of one.
    pub fn round(root: &Path, notes: &mut SearchWarnings) -> Option<Self> {
        let (work_tree, index) = git_files::find(root)?;
        let below = root.strip_prefix(work_tree).map_or(&[][..], |path| path.as_os_str().as_bytes());
        let prefix = if below.is_empty() { Vec::new() } else { [below, b"/"].concat() };
        match index.and_then(|index| index.decode()) {
            Ok(index) => Some(Self { index, prefix, is_sparse_told: Cell::new(false) }),
            Err(reason) => {
                notes.push(|| format!("tracked files that are ignored were left out: git's index: {reason}"));
                None
            }
        }
    }

    /// Returns true if the file at `path`, or one below that folder, is known to be tracked.
    pub fn has(&self, path: &[u8], kind: EntryType, notes: &mut SearchWarnings) -> bool {
        let path = [&self.prefix, path].concat();
        if self.index.is_sparse() && !self.is_sparse_told.get() && self.is_in_sparse_folder(&path) {
            self.is_sparse_told.set(true);
            notes.push(|| {
                "tracked files that are ignored were left out where git's index is sparse (`git sparse-checkout`)".into()
            });
        }
        match kind {
            EntryType::Dir => self.index.path_is_directory(path.as_bstr()),
            // At any stage: of an unmerged file, the index may lack the version of either side.
            EntryType::File | EntryType::Symlink => self.index.entry_range(path.as_bstr()).is_some(),
            EntryType::Other => false,
        }
    }

    /// Returns true if a path is at or below a folder of which the index names no files.
    fn is_in_sparse_folder(&self, path: &[u8]) -> bool {
        let ends = memchr::memchr_iter(b'/', path).map(|slash| slash + 1);
        ends.filter_map(|end| path.get(..end))
            .any(|folder| self.index.entry_by_path(folder.as_bstr()).is_some())
    }
}
