//! What git tracks, which no ignore rule hides from it.
//!
//! A file that was added before a rule named it, or against one, is as much part of the repository
//! as any other: `git ls-files` lists it, and so do `glob` and `ls`. `rg` does not ask, and so
//! `grep` does not either.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gix::bstr::ByteSlice;
use gix::index::File;

use super::listing::Kind;
use super::notes::Notes;
use crate::engine::workspace::git_files;

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

    /// Whether the file at `path`, or one below the folder there, is tracked.
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
