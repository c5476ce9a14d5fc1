//! Reads git's own files: the index of the repository around a workspace, and files of rules.
//!
//! A file of ignore rules or attributes is bounded wherever one is read: every path is compared with every rule,
//! and each rule takes a hundred times its bytes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice;
use gix::index::entry::Mode as EntryMode;
use gix::index::{State, decode};
use memchr::memmem;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::fs;
use super::path::WorkspacePath;
use crate::limits::{RULE_FILE_BYTES_MAX, RULE_LINES_MAX, RULE_STARS_MAX};
use crate::platform;

/// Largest configuration of a repository, in bytes.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// Largest index of a repository, in bytes: a tracked file takes about a hundred.
const INDEX_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Largest `.git` file or `commondir`, in bytes: one path.
pub const GIT_LINK_BYTES_MAX: u64 = 16 * 1024;
/// Bytes of an entry of an index before its object id.
const STAT_BYTES: usize = 40;
/// Bytes of an index that are read at once: fewer than the processor's caches have.
const CHUNK_BYTES: usize = 64 * 1024;
/// Longest entry of an index in bytes: no system has longer paths.
const INDEX_ENTRY_BYTES_MAX: usize = 64 * 1024;
/// Flag of an entry that has more flags.
const EXTENDED: u16 = 0x4000;
/// Flags of an entry that are the length of its path; all set for a longer one.
const LENGTH: u16 = 0x0fff;
/// Beginning of the names of files that split indexes share.
const SHARED_INDEX: &str = "sharedindex.";
/// Mode of a symlink in the bytes of an index.
const SYMLINK_ENTRY: [u8; 4] = [0, 0, 0xa0, 0];

/// An opened index that is not decoded yet.
pub struct Index {
    /// Regular file, or `None` in a repository without an index.
    file: Option<File>,
    /// Git's own folder, which has the file.
    folder: OwnedFd,
    /// Hash function of the repository.
    hash: gix::hash::Kind,
}

impl Index {
    /// Decodes the index.
    ///
    /// # Errors
    /// Returns the reason if git would not read it either.
    pub fn decode(&self) -> Result<gix::index::File, String> {
        let Some(file) = &self.file else {
            return Ok(gix::index::File::from_state(State::new(self.hash), PathBuf::new()));
        };
        // gix opens an index by its path: this one leads to the file that is open. The rest of a split index is found
        // by the path of its first part.
        let path = if self.is_split()? {
            platform::path_of(self.folder.as_fd()).join("index")
        } else {
            platform::path_of(file.as_fd())
        };
        gix::index::File::at(path, self.hash, true, decode::Options::default())
            .map_err(|error| error.to_string())
    }

    /// Returns true for a split index: a part of its entries is in a file that it shares with others.
    fn is_split(&self) -> Result<bool, String> {
        let is_shared = |name: &OsString| name.as_bytes().starts_with(SHARED_INDEX.as_bytes());
        // A look at the names is cheaper than the whole index.
        if !fs::names_in(&self.folder).is_ok_and(|names| names.iter().any(is_shared)) {
            return Ok(false);
        }
        let Some((name, file)) = self.shared_by(&self.read().unwrap_or_default())? else { return Ok(false) };
        let shared = read_index(&file).map_err(|source| format!("{name}: {source}"))?;
        // gix follows such names without an end.
        match self.shared_by(&shared)? {
            Some(_) => Err(format!("{name} is split, too")),
            None => Ok(true),
        }
    }

    /// Opens the file of shared entries that an index with these bytes names.
    fn shared_by(&self, bytes: &[u8]) -> Result<Option<(String, File)>, String> {
        // The extension has its name, its size in four bytes, and the checksum that names the file.
        let ids = memmem::find_iter(bytes, b"link")
            .filter_map(|at| bytes.get(at + 8..)?.get(..self.hash.len_in_bytes()));
        let mut found: Option<(String, File)> = None;
        for id in ids.filter_map(|id| gix::hash::oid::try_from_bytes(id).ok()) {
            let name = format!("{SHARED_INDEX}{id}");
            if found.as_ref().is_some_and(|(known, _)| *known == name) {
                continue;
            }
            let file = open_index(&self.folder, &name).map_err(|reason| format!("{name}: {reason}"))?;
            let Some(file) = file else { continue };
            // A path may look like the extension, and then nobody knows which one gix takes.
            if found.replace((name, file)).is_some() {
                return Err("it names several files of shared entries".to_owned());
            }
        }
        Ok(found)
    }

    /// Reads the index without decoding it, which takes a tenth of the time.
    fn read(&self) -> Option<Vec<u8>> {
        read_index(self.file.as_ref()?).ok()
    }

    /// Returns false if no tracked file is a symlink.
    fn may_have_symlinks(&self) -> bool {
        let is_in = |bytes: Vec<u8>| memmem::find(&bytes, &SYMLINK_ENTRY).is_some();
        self.file.is_some() && (self.read().is_none_or(is_in) || self.is_split() != Ok(false))
    }
}

impl Index {
    /// Visits the folders of the tracked files, some of them repeatedly, if the index has whole paths.
    pub fn for_each_folder(&self, mut visit: impl FnMut(WorkspacePath)) {
        let mut last = Vec::new();
        let mut visit_path = |path: &[u8]| {
            let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            let folder = path.get(..end).unwrap_or_default();
            if folder != last {
                last = folder.to_vec();
                WorkspacePath::new(OsStr::from_bytes(folder).as_ref()).into_iter().for_each(&mut visit);
            }
        };
        match (self.is_split(), &self.file) {
            (Ok(false), Some(file)) => {
                for_each_path(file, self.hash.len_in_bytes(), CHUNK_BYTES, visit_path);
            }
            (Ok(true), _) => {
                let Ok(index) = self.decode() else { return };
                index.entries().iter().for_each(|entry| visit_path(entry.path(&index)));
            }
            (Ok(false), None) | (Err(_), _) => {}
        }
    }
}

/// Returns the tracked files below `root` whose last component is `name`, with ASCII case ignored; `None` if that is
/// unknown.
pub fn files_named(root: &Path, name: &OsStr) -> Option<Vec<WorkspacePath>> {
    let (work_tree, index) = find(root)?;
    let below = root.strip_prefix(work_tree).ok()?;
    let index = index.ok().filter(|index| index.is_split() == Ok(false))?;
    let mut found = Vec::new();
    for_each_path(index.file.as_ref()?, index.hash.len_in_bytes(), CHUNK_BYTES, |path| {
        if is_named(path, name.as_bytes()) {
            let path = Path::new(OsStr::from_bytes(path)).strip_prefix(below).ok();
            found.extend(path.and_then(WorkspacePath::new));
        }
    })?;
    Some(found)
}

/// Returns true if the last component of a path is `name`, with ASCII case ignored.
fn is_named(path: &[u8], name: &[u8]) -> bool {
    let Some((folder, last)) = path.len().checked_sub(name.len()).map(|at| path.split_at(at)) else {
        return false;
    };
    matches!(folder.last(), None | Some(b'/')) && last.eq_ignore_ascii_case(name)
}

/// Visits the paths in an index with object ids of `id_bytes` bytes, which is read in pieces of `chunk_bytes` bytes, as
/// gitformat-index(5) describes it. Ends early if it is damaged; `None` for the versions that do not have whole paths.
pub fn for_each_path(
    mut source: impl Read,
    id_bytes: usize,
    chunk_bytes: usize,
    mut visit: impl FnMut(&[u8]),
) -> Option<()> {
    let mut header = [0; 12];
    source.read_exact(&mut header).ok()?;
    let number =
        |at: usize| header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    let mut left = number(8).filter(|_| header.starts_with(b"DIRC") && matches!(number(4), Some(2 | 3)))?;
    let (mut bytes, mut end) = (Vec::new(), 0);
    while left > 0 && end <= INDEX_ENTRY_BYTES_MAX {
        // The room is kept, so that no byte is cleared before each read.
        bytes.resize(bytes.len().max(end + chunk_bytes), 0);
        let count = match source.read(bytes.get_mut(end..end + chunk_bytes)?) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(count) if count > 0 => count,
            _ => break,
        };
        end += count;
        let mut rest = bytes.get(..end)?;
        while left > 0
            && let Some((path, after)) = first_path(rest, STAT_BYTES + id_bytes)
        {
            visit(path);
            rest = after;
            left -= 1;
        }
        let begin = end - rest.len();
        bytes.copy_within(begin..end, 0);
        end -= begin;
    }
    Some(())
}

/// Returns the path of the first entry in `bytes`, whose flags begin after `head` bytes, and the bytes after the entry;
/// `None` if it is cut.
fn first_path(bytes: &[u8], head: usize) -> Option<(&[u8], &[u8])> {
    let flags = u16::from_be_bytes(*bytes.get(head..)?.first_chunk()?);
    let begin = head + if flags & EXTENDED == 0 { 2 } else { 4 };
    let length = match flags & LENGTH {
        LENGTH => memchr::memchr(0, bytes.get(begin..)?)?,
        length => usize::from(length),
    };
    // At least one NUL byte ends the path; together they fill eight bytes.
    let (entry, after) = bytes.split_at_checked((begin + length + 8) & !7)?;
    Some((entry.get(begin..begin + length)?, after))
}

/// Finds the repository that encloses `root`: its work tree and its index. Returns `None` outside of one.
pub fn find(root: &Path) -> Option<(&Path, Result<Index, String>)> {
    root.ancestors().find_map(|work_tree| {
        let folder = rustix::fs::open(work_tree, fs::FOLDER, Mode::empty()).ok()?;
        let git = git_folder(folder.as_fd()).ok()??;
        Some((work_tree, open(git)))
    })
}

/// Returns the tracked symlinks below `root`, or none if the index cannot be read.
pub fn symlinks(root: &Path) -> Vec<WorkspacePath> {
    let Some((work_tree, Ok(index))) = find(root) else { return Vec::new() };
    let Ok(below) = root.strip_prefix(work_tree) else { return Vec::new() };
    if !index.may_have_symlinks() {
        return Vec::new();
    }
    let Ok(decoded) = index.decode() else { return Vec::new() };
    let links = decoded.entries().iter().filter(|entry| entry.mode == EntryMode::SYMLINK);
    let paths = links.map(|entry| Path::new(OsStr::from_bytes(entry.path(&decoded).as_bytes())));
    paths.filter_map(|path| WorkspacePath::new(path.strip_prefix(below).ok()?)).collect()
}

/// Opens the index in git's own folder.
fn open(git: OwnedFd) -> Result<Index, String> {
    let config = read_regular(git.as_fd(), Path::new("config"), CONFIG_BYTES_MAX);
    let is_sha256 =
        config.is_ok_and(|text| text.is_some_and(|text| text.contains_str("objectformat = sha256")));
    let hash = if is_sha256 { gix::hash::Kind::Sha256 } else { gix::hash::Kind::Sha1 };
    let file = open_index(&git, "index")?;
    Ok(Index { file, folder: git, hash })
}

/// Opens an index, or a part of one, if it is a regular file within bounds.
fn open_index(git: &OwnedFd, name: &str) -> Result<Option<File>, String> {
    let file = match rustix::fs::openat(git, name, fs::READ, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.to_string()),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| errno.to_string())?;
    if !fs::is_regular(&stat) {
        return Err("it is not a regular file".to_owned());
    }
    if fs::size_of(&stat) > INDEX_BYTES_MAX {
        return Err(format!("it is larger than {INDEX_BYTES_MAX} bytes"));
    }
    Ok(Some(file))
}

/// Returns the bytes of an index, or of a part of one, and goes back to its start.
fn read_index(mut file: &File) -> io::Result<Vec<u8>> {
    let bytes = fs::read_to_end(file, file.metadata()?.len(), INDEX_BYTES_MAX)?;
    file.rewind().map(|()| bytes)
}

/// Returns git's own folder of the repository at `folder`; it may be elsewhere, as for a linked worktree.
///
/// # Errors
/// Returns the OS error.
pub fn git_folder(folder: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    if let Ok(git) = fs::open_at(folder, OsStr::new(".git"), fs::FOLDER) {
        return Ok(Some(git));
    }
    let Some(link) = read_regular(folder, Path::new(".git"), GIT_LINK_BYTES_MAX)? else {
        return Ok(None);
    };
    let target = link.strip_prefix(b"gitdir:").map(<[u8]>::trim_ascii);
    target.map(|target| open_folder(folder, Path::new(OsStr::from_bytes(target)))).transpose()
}

/// Opens the folder at `path`, relative to `from`.
///
/// # Errors
/// Returns the OS error.
pub fn open_folder(from: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(from, path, fs::FOLDER, Mode::empty())
}

/// Returns all of a regular file of at most `bytes_max` bytes; `None` if there is no such file.
///
/// # Errors
/// Returns the OS error.
pub fn read_regular(folder: BorrowedFd<'_>, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, Errno> {
    let file = match rustix::fs::openat(folder, path, fs::READ, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let stat = rustix::fs::fstat(&file)?;
    if !fs::is_regular(&stat) {
        return Ok(None);
    }
    fs::read_to_end(file, fs::size_of(&stat), bytes_max)
        .map(Some)
        .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}

/// Returns the rule file `name` in a folder; `None` if it is missing, not a regular file, or too large.
///
/// # Errors
/// As [`fs::found`].
pub fn read(folder: impl AsFd, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let read = fs::found(fs::read_at(folder.as_fd(), OsStr::from_bytes(name), RULE_FILE_BYTES_MAX))?;
    Ok(read.flatten().filter(|bytes| is_few(bytes)))
}

/// Returns true if rules are within the limits. A pattern with many `**` takes time that grows with the depth of a path to
/// the power of their number, in git as well.
pub fn is_few(rules: &[u8]) -> bool {
    let lines = || rules.split(|byte| *byte == b'\n');
    let is_slow = |line: &[u8]| memchr::memmem::find_iter(line, b"**").nth(RULE_STARS_MAX).is_some();
    rules.len() as u64 <= RULE_FILE_BYTES_MAX && lines().count() <= RULE_LINES_MAX && !lines().any(is_slow)
}
