//! What `.gitignore`, `.ignore`, `.rgignore`, `.git/info/exclude` and git's own settings hide.
//!
//! A folder with such files adds a [`Rules`] to those of its parent; a folder without shares its
//! parent's. The order of precedence is ripgrep's: `.rgignore`, `.ignore`, `.gitignore`,
//! `info/exclude`, the user's own excludes; within one kind the deepest folder decides. The rules
//! of git count inside a repository only, and end where a nested one begins.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::engine::workspace::fs;
use crate::engine::workspace::git_files::{GIT_LINK_BYTES_MAX, git_folder, open_folder, read_regular};
use crate::search::entry::{Notes, RuleFiles};

/// Bytes of one file of rules; a larger one is not used.
const RULE_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Patterns that hold in one folder, those of the folders above included: about 4 kB and 15 µs each. A
/// file with more is not used.
const PATTERNS_MAX: usize = 10_000;

/// What the rules say of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    None,
    /// `.ignore` or `.rgignore` hides it.
    Ignored,
    /// A rule of git's hides it, which does not hold for what git tracks.
    GitIgnored,
    /// It is shown, even if its name begins with a dot.
    Wanted,
}

/// The rules that hold in one folder.
#[derive(Debug)]
pub struct Rules {
    /// Those of the folders above.
    parent: Option<Arc<Rules>>,
    /// Those of `.rgignore`.
    rgignore: Gitignore,
    /// Those of `.ignore`.
    ignore: Gitignore,
    /// Those of `.gitignore`.
    gitignore: Gitignore,
    /// Those of `.git/info/exclude`.
    exclude: Gitignore,
    /// The user's own, which count after all others; at the top only.
    user: Option<Gitignore>,
    /// True if a repository begins in this folder.
    repository: bool,
    /// True if this folder lies in a repository.
    in_repository: bool,
    /// Set where the folder lies above the workspace: paths are then seen from here.
    above: Option<PathBuf>,
    /// Patterns that were compiled for this folder and those above.
    patterns: usize,
}

impl Rules {
    /// The rules that the folders above `root` and the user's settings set for everything in it.
    #[must_use]
    pub fn above(root: &Path, notes: &mut Notes) -> Arc<Self> {
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

    /// No rules at all.
    #[must_use]
    pub fn none() -> Arc<Self> {
        Arc::new(Self::empty(None))
    }

    /// No rules but the parent's.
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

    /// The rules in a folder below the one where `parent` holds, of which `files` may exist.
    #[must_use]
    pub fn extend(
        parent: &Arc<Self>,
        place: &RuleFolder<'_>,
        files: RuleFiles,
        notes: &mut Notes,
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

    /// What the rules say of `path`, which counts from the workspace root.
    #[must_use]
    pub fn verdict(&self, path: &Path, is_folder: bool) -> Verdict {
        let (mut rgignore, mut ignore) = (Verdict::None, Verdict::None);
        let (mut gitignore, mut exclude, mut user) = (Verdict::None, Verdict::None, Verdict::None);
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
            Verdict::Ignored => Verdict::GitIgnored,
            other => other,
        });
        let mut verdicts = [rgignore, ignore].into_iter().chain(by_git);
        verdicts.find(|verdict| *verdict != Verdict::None).unwrap_or(Verdict::None)
    }
}

/// Asks `rules` where nothing was decided before.
fn decide(verdict: &mut Verdict, rules: &Gitignore, path: &Path, is_folder: bool) {
    if *verdict == Verdict::None && !rules.is_empty() {
        *verdict = match rules.matched(path, is_folder) {
            Match::None => Verdict::None,
            Match::Ignore(_) => Verdict::Ignored,
            Match::Whitelist(_) => Verdict::Wanted,
        };
    }
}

/// A folder whose rules are loaded.
pub struct RuleFolder<'a> {
    /// The folder itself.
    pub folder: BorrowedFd<'a>,
    /// Its path: from the workspace root, or absolute where it lies above.
    pub path: &'a Path,
    /// The workspace root, where the folder lies above it.
    pub above: Option<&'a Path>,
}

impl RuleFolder<'_> {
    /// The rules in the file `name`; none where there is no such file.
    ///
    /// As in git, a file of rules that is a symlink does not count.
    fn load(&self, name: &str, patterns: &mut usize, notes: &mut Notes) -> Gitignore {
        let text = read_regular(self.folder, Path::new(name), RULE_FILE_BYTES_MAX);
        self.compile(text, name, patterns, notes)
    }

    /// The rules in `text`, which was read from `name`; `patterns` counts those that hold here.
    fn compile(
        &self,
        text: Result<Option<Vec<u8>>, Errno>,
        name: &str,
        patterns: &mut usize,
        notes: &mut Notes,
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

    /// No rules, because those in the file `name` cannot be used.
    fn unused(&self, name: &str, reason: &str, notes: &mut Notes) -> Gitignore {
        notes.push(|| format!("the ignore rules in {} were not used: {reason}", self.name_of(name)));
        Gitignore::empty()
    }

    /// What to call the file `name` here.
    fn name_of(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

/// The text of the repository's own excludes, which a linked worktree shares.
fn read_exclude(place: &RuleFolder<'_>) -> Result<Option<Vec<u8>>, Errno> {
    let Some(git) = git_folder(place.folder)? else {
        return Ok(None);
    };
    let common = match read_regular(git.as_fd(), Path::new("commondir"), GIT_LINK_BYTES_MAX) {
        Ok(Some(common)) => open_folder(git.as_fd(), Path::new(OsStr::from_bytes(common.trim_ascii())))?,
        _ => git,
    };
    read_regular(common.as_fd(), Path::new("info/exclude"), RULE_FILE_BYTES_MAX)
}
