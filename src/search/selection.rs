//! Entries that a search wants: hidden files, globs, types, depth, and files that git tracks although a rule
//! names them.
//!
//! A file that was added before a rule named it, or against one, is as much part of the repository
//! as any other: `git ls-files` lists it, and so do `glob` and `ls`. `rg` does not ask, and so
//! `grep` does not either.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gix::bstr::ByteSlice;
use gix::index::File;
use ignore::Match;
use ignore::overrides::Override;
use ignore::types::Types;

use crate::engine::workspace::git_files;
use crate::search::entry::{Kind, Notes};
use crate::search::globs::PathGlob;
use crate::search::rules::{Rules, Verdict};

/// Levels below a path that are entered at most.
const DEPTH_MAX: usize = 20_000;

/// Which entries a search wants to see.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Names that begin with a dot too.
    pub hidden: bool,
    /// What the ignore rules hide too.
    pub no_ignore: bool,
    /// True if what git tracks is shown, ignored or not.
    pub tracked: bool,
    /// Globs that include or exclude; they count before the ignore rules, as in ripgrep.
    pub overrides: Override,
    /// Types of files, as in ripgrep.
    pub types: Types,
    /// Levels below each path that are looked at; 1 is the folder itself.
    pub depth: Option<usize>,
    /// The pattern that a path must match to be found; folders are entered all the same.
    pub glob: Option<PathGlob>,
    /// The kinds of entries that are found.
    pub kinds: Kinds,
    /// Find nothing but what is left out otherwise, for this reason.
    pub only_left_out: Option<Why>,
}

/// Why an entry is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// An ignore rule hides it.
    Ignored,
    /// Its name begins with a dot.
    Hidden,
}

impl Admission {
    /// Why the entry is left out, where it is for a reason of its own.
    #[must_use]
    pub fn why(self) -> Option<Why> {
        match self {
            Self::Ignored | Self::GitIgnored => Some(Why::Ignored),
            Self::Hidden => Some(Why::Hidden),
            Self::Wanted | Self::Tracked | Self::LeftOut => None,
        }
    }
}

/// A set of kinds.
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
    /// Regular files alone.
    pub const FILES: Self = Self { files: true, folders: false, symlinks: false, others: false };
    /// Folders alone.
    pub const FOLDERS: Self = Self { files: false, folders: true, symlinks: false, others: false };
    /// Symlinks alone.
    pub const SYMLINKS: Self = Self { files: false, folders: false, symlinks: true, others: false };
    /// Files and symlinks, which is what git keeps.
    pub const LEAVES: Self = Self { files: true, folders: false, symlinks: true, others: false };
    /// Everything.
    pub const ALL: Self = Self { files: true, folders: true, symlinks: true, others: true };

    /// Returns true if `kind` is one of them.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::File => self.files,
            Kind::Dir => self.folders,
            Kind::Symlink => self.symlinks,
            Kind::Other => self.others,
        }
    }
}

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is wanted, or entered.
    Wanted,
    /// The ignore rules hide it, but git tracks it, or something below it.
    Tracked,
    /// `.ignore` or `.rgignore` hides it.
    Ignored,
    /// A rule of git's hides it, and git does not track it as far as is known.
    GitIgnored,
    /// Its name begins with a dot.
    Hidden,
    /// A glob or a type leaves it out.
    LeftOut,
}

impl Selection {
    /// Everything of `kinds` that is neither hidden nor ignored.
    #[must_use]
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
            only_left_out: None,
        }
    }

    /// Returns true if the folders are entered that lie in one `depth` levels below the path walked.
    #[must_use]
    pub fn goes_below(&self, depth: usize) -> bool {
        depth < self.depth.map_or(DEPTH_MAX, |levels| levels.saturating_sub(1))
    }

    /// What becomes of the entry at `path`, which counts from the workspace root.
    #[must_use]
    pub fn admit(&self, rules: &Rules, path: &Path, name: &[u8], kind: Kind) -> Admission {
        let rules = (!self.no_ignore).then_some(rules);
        self.admit_by(rules, self.hidden, path, name, kind)
    }

    /// What becomes of an entry below one that is left out: neither rules nor dots count there.
    #[must_use]
    pub fn admit_left_out(&self, path: &Path, name: &[u8], kind: Kind) -> Admission {
        self.admit_by(None, true, path, name, kind)
    }

    /// What becomes of an entry by these rules.
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

    /// What becomes of an entry that the ignore rules hide and git tracks.
    #[must_use]
    pub fn admit_tracked(&self, name: &[u8], kind: Kind) -> Admission {
        match kind {
            _ if name.first() == Some(&b'.') && !self.hidden => Admission::Hidden,
            Kind::Dir => Admission::Tracked,
            Kind::File | Kind::Symlink | Kind::Other => Admission::Wanted,
        }
    }
}

/// The files that git tracks in the repository round the workspace.
pub struct Tracked {
    /// The repository's index.
    index: File,
    /// The workspace root as seen from the work tree; empty, or ending in `/`.
    prefix: Vec<u8>,
}

impl Tracked {
    /// What is tracked in the repository that holds `root`; `None` outside of one.
    #[must_use]
    pub fn round(root: &Path, notes: &mut Notes) -> Option<Self> {
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

    /// Returns true if the file at `path`, or one below the folder there, is tracked.
    #[must_use]
    pub fn has(&self, path: &[u8], kind: Kind) -> bool {
        let path = [&self.prefix, path].concat();
        match kind {
            Kind::Dir => self.index.path_is_directory(path.as_bstr()),
            Kind::File | Kind::Symlink => self.index.entry_by_path(path.as_bstr()).is_some(),
            Kind::Other => false,
        }
    }
}
