//! What git tracks, which no ignore rule hides from it.
//!
//! A file that was added before a rule named it, or against one, is as much part of the repository
//! as any other: `git ls-files` lists it, and so do `glob` and `ls`. `rg` does not ask, and so
//! `grep` does not either.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice;
use gix::index::{File, State, decode};
use rustix::fs::Mode;
use rustix::io::Errno;

use super::listing::Kind;
use super::notes::Notes;
use super::rules::{git_folder, read_regular};
use crate::engine::workspace::fs;

/// Bytes of a repository's settings.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// Bytes of a repository's index: a file tracked takes about a hundred.
const INDEX_BYTES_MAX: u64 = 256 * 1024 * 1024;

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
        let (work_tree, index) = root.ancestors().find_map(|folder| Some((folder, index_of(folder)?)))?;
        let below = root.strip_prefix(work_tree).map_or(&[][..], |path| path.as_os_str().as_bytes());
        let prefix = if below.is_empty() { Vec::new() } else { [below, b"/"].concat() };
        match index {
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

/// The index of the repository that begins at `work_tree`; `None` where none begins there.
fn index_of(work_tree: &Path) -> Option<Result<File, String>> {
    let folder = rustix::fs::open(work_tree, fs::FOLDER, Mode::empty()).ok()?;
    let git = git_folder(folder.as_fd()).ok()??;
    Some(read_index(&git))
}

/// The index in git's own folder.
fn read_index(git: &OwnedFd) -> Result<File, String> {
    let config = read_regular(git.as_fd(), Path::new("config"), CONFIG_BYTES_MAX);
    let is_sha256 =
        config.is_ok_and(|text| text.is_some_and(|text| text.contains_str("objectformat = sha256")));
    let hash = if is_sha256 { gix::hash::Kind::Sha256 } else { gix::hash::Kind::Sha1 };
    let index = match rustix::fs::openat(git, "index", fs::READ, Mode::empty()) {
        Ok(index) => index,
        Err(Errno::NOENT) => return Ok(File::from_state(State::new(hash), PathBuf::new())),
        Err(errno) => return Err(errno.to_string()),
    };
    let stat = rustix::fs::fstat(&index).map_err(|errno| errno.to_string())?;
    if !fs::is_regular(&stat) {
        return Err("it is not a regular file".to_owned());
    }
    if fs::size_of(&stat) > INDEX_BYTES_MAX {
        return Err(format!("it is larger than {INDEX_BYTES_MAX} bytes"));
    }
    // The opened file by the name that the system has for it, whatever now stands at its path.
    let path = format!("/proc/self/fd/{}", index.as_raw_fd());
    File::at(path, hash, true, decode::Options::default()).map_err(|error| error.to_string())
}
