//! Selects entries for a search: by hidden name, glob, type and depth, and files that git tracks although a rule names
//! them.
//!
//! A file that was added before a rule named it, or against one, is as much part of the repository as any other: `git
//! ls-files` lists it, and so do `glob` and `ls`. `rg` does not check, and so `grep` does not either.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gix::bstr::ByteSlice;
use gix::index::File;
use ignore::Match;
use ignore::overrides::Override;
use ignore::types::Types;

use crate::engine::workspace::git_files;
use crate::limits::WALK_DEPTH_MAX;
use crate::search::entry::{Kind, SearchWarnings};
use crate::search::globs::PathGlob;
use crate::search::rules::{Rules, Verdict};

/// Entries that a search selects.
#[derive(Debug, Clone)]
pub struct Selection {
    /// True to include names that begin with a dot.
    pub hidden: bool,
    /// True to include ignored entries.
    pub no_ignore: bool,
    /// True to show tracked files even if they are ignored.
    pub tracked: bool,
    /// Globs that include or exclude, with precedence over the ignore rules, as in ripgrep.
    pub overrides: Override,
    /// File types, as in ripgrep.
    pub types: Types,
    /// Levels below each path; 1 is the folder itself.
    pub depth: Option<usize>,
    /// Pattern that a path must match; folders are entered even if they do not match.
    pub glob: Option<PathGlob>,
    /// Types of entries to find.
    pub kinds: Kinds,
}

/// Set of entry types.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "a set, one for each member")]
pub struct Kinds {
    /// Regular files.
    pub files: bool,
    /// Folders.
    pub folders: bool,
    /// Symlinks.
    pub symlinks: bool,
    /// FIFOs, sockets and devices.
    pub others: bool,
}

impl Kinds {
    /// Only regular files.
    pub const FILES: Self = Self { files: true, folders: false, symlinks: false, others: false };
    /// Only folders.
    pub const FOLDERS: Self = Self { files: false, folders: true, symlinks: false, others: false };
    /// Only symlinks.
    pub const SYMLINKS: Self = Self { files: false, folders: false, symlinks: true, others: false };
    /// Files and symlinks, which git can track.
    pub const LEAVES: Self = Self { files: true, folders: false, symlinks: true, others: false };
    /// Everything.
    pub const ALL: Self = Self { files: true, folders: true, symlinks: true, others: true };

    /// Returns true if `kind` is in the set.
    pub fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::File => self.files,
            Kind::Dir => self.folders,
            Kind::Symlink => self.symlinks,
            Kind::Other => self.others,
        }
    }
}

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

impl Selection {
    /// Selects everything of `kinds` that is neither hidden nor ignored.
    pub fn of(kinds: Kinds) -> Self {
        Self {
            hidden: false,
            no_ignore: false,
            tracked: false,
            overrides: Override::empty(),
            types: Types::empty(),
            depth: None,
            glob: None,
            kinds,
        }
    }

    /// Returns true if the subfolders of a folder `depth` levels below the walked path are entered.
    pub fn goes_below(&self, depth: usize) -> bool {
        depth < self.depth.map_or(WALK_DEPTH_MAX, |levels| levels.saturating_sub(1))
    }

    /// Returns false if the glob matches neither this path, relative to the root of the walk, nor anything below it.
    pub fn may_find(&self, relative: &[u8], kind: Kind) -> bool {
        let is_folder = kind == Kind::Dir;
        let glob = self.glob.as_ref();
        glob.is_none_or(|glob| glob.matches(relative) || is_folder && glob.may_lie_below(relative))
    }

    /// Decides about the entry at `path`, which is relative to the workspace root.
    pub fn admit(&self, rules: &Rules, path: &Path, name: &[u8], kind: Kind) -> Admission {
        let rules = (!self.no_ignore).then_some(rules);
        self.admit_by(rules, self.hidden, path, name, kind)
    }

    /// Decides about an entry below a skipped one: neither rules nor dots count there.
    pub fn admit_left_out(&self, path: &Path, name: &[u8], kind: Kind) -> Admission {
        self.admit_by(None, true, path, name, kind)
    }

    /// Decides about an entry by these rules.
    fn admit_by(
        &self,
        rules: Option<&Rules>,
        hidden: bool,
        path: &Path,
        name: &[u8],
        kind: Kind,
    ) -> Admission {
        let is_folder = kind == Kind::Dir;
        if !self.overrides.is_empty() {
            match self.overrides.matched(path, is_folder) {
                Match::None => {}
                Match::Ignore(_) => return Admission::LeftOut,
                Match::Whitelist(_) => return Admission::Wanted,
            }
        }
        let mut shown = false;
        match rules.map_or(Verdict::None, |rules| rules.verdict(path, is_folder)) {
            Verdict::None => {}
            Verdict::Ignored => return Admission::Ignored,
            Verdict::GitIgnored => return Admission::GitIgnored,
            Verdict::Wanted => shown = true,
        }
        if !self.types.is_empty() {
            match self.types.matched(path, is_folder) {
                Match::None => {}
                Match::Ignore(_) => return Admission::LeftOut,
                Match::Whitelist(_) => shown = true,
            }
        }
        if name.first() == Some(&b'.') && !hidden && !shown {
            return Admission::Hidden;
        }
        Admission::Wanted
    }
}

/// Files that git tracks in the repository around the workspace.
pub struct Tracked {
    /// The repository's index.
    index: File,
    /// Workspace root relative to the work tree; empty, or ending in `/`.
    prefix: Vec<u8>,
}

impl Tracked {
    /// Returns the tracked files of the repository that contains `root`; `None` outside of one.
    pub fn round(root: &Path, notes: &mut SearchWarnings) -> Option<Self> {
        let (work_tree, index) = git_files::find(root)?;
        let below = root.strip_prefix(work_tree).map_or(&[][..], |path| path.as_os_str().as_bytes());
        let prefix = if below.is_empty() { Vec::new() } else { [below, b"/"].concat() };
        match index.and_then(|index| index.decode()) {
            Ok(index) => Some(Self { index, prefix }),
            Err(reason) => {
                notes.push(|| format!("tracked files that are ignored were left out: git's index: {reason}"));
                None
            }
        }
    }

    /// Returns true if the file at `path`, or one below that folder, is tracked.
    pub fn has(&self, path: &[u8], kind: Kind) -> bool {
        let path = [&self.prefix, path].concat();
        match kind {
            Kind::Dir => self.index.path_is_directory(path.as_bstr()),
            Kind::File | Kind::Symlink => self.index.entry_by_path(path.as_bstr()).is_some(),
            Kind::Other => false,
        }
    }
}
