//! The three trees of a merge: what a fork began with, the workspace as it is, and the fork.
//!
//! ```text
//! base     merged versions, over what was kept for the fork, over the workspace
//! ours     the workspace
//! theirs   the fork's changes, over what was kept for it, over the workspace
//! ```
//! A file of the workspace that another program changed since the fork began is not its version any more. The newest
//! snapshot before the fork may have that; else it is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

use gix::objs::tree::EntryKind;
use rustix::io::Errno;

use crate::engine::Engine;
use crate::engine::change::record::EarlierFiles;
use crate::engine::sandbox::fork::ForkFolder;
use crate::engine::sandbox::overlay::{self, FileOrigin, LayerDifference, Stack, StackEntry};
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_protected;
use crate::engine::workspace::survey::changed_at;
use crate::engine::workspace::{digest, fs};
use crate::error::Error;
use crate::limits::MERGED_BYTES_MAX;
use crate::sha256::Sha256;
use crate::text::tree_merge::{self, FileType, Path, Plan, Side, Trees, Version, Versions};
use crate::tools::bash::IgnoredPaths;

/// Number of the workspace among the layers of base and theirs.
const WORKSPACE_LAYER: usize = 2;

/// The trees of a merge.
pub struct ForkTrees<'f> {
    /// The fork.
    pub(super) fork: &'f ForkFolder,
    /// Versions that both sides began with.
    base: Stack,
    /// The workspace.
    ours: Stack,
    /// The fork.
    theirs: Stack,
    /// Versions of each path that one side changed.
    pub paths: BTreeMap<Path, Versions>,
    /// Renames in the fork that are certain.
    moved: Vec<(Path, Path)>,
    /// Bytes of the base that come from a snapshot.
    from_snapshot: BTreeMap<Path, Vec<u8>>,
    /// Number of ignored files that are not merged, by outermost ignored folder.
    pub ignored: BTreeMap<WorkspacePath, usize>,
    /// Devices, FIFOs and sockets, which are not merged.
    pub special: Vec<WorkspacePath>,
}

impl<'f> ForkTrees<'f> {
    /// Reads the trees of a fork. An ignored file is part of the merge only if one of `named` leads to it and is ignored
    /// itself.
    ///
    /// # Errors
    /// Fails with `timeout` if the call was cancelled, or returns the OS error.
    pub fn read(engine: &Engine, fork: &'f ForkFolder, named: &[WorkspacePath]) -> Result<Self, Error> {
        let workspace = &engine.workspace;
        let io = |errno: Errno| Error::io("read", "the fork", errno);
        let root = workspace.root_fd();
        let [upper, lower, merged] = [fork.upper.as_fd(), fork.lower.as_fd(), fork.base.as_fd()];
        let base = Stack::of(&[merged, lower, root]).map_err(io)?;
        let began = Stack::of(&[lower, root]).map_err(io)?;
        let ours = Stack::of(&[root]).map_err(io)?;
        // A copy is compared with the workspace as it is now.
        let layers = if fork.record.at.is_some() { vec![upper, root] } else { vec![upper, lower, root] };
        let theirs = Stack::of(&layers).map_err(io)?;
        let changes = |layer, below: &Stack| {
            overlay::read_over(workspace, (layer, below.clone()), &engine.control, &is_own).map(|it| it.paths)
        };
        let by_fork = changes(&fork.upper, &base)?;
        let before = changes(&fork.base, &began)?;
        let by_others = changes(&fork.lower, &ours)?;
        let (from_snapshot, ignored, special) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let (paths, moved) = (BTreeMap::new(), Vec::new());
        let mut trees = Self { fork, base, ours, theirs, paths, moved, from_snapshot, ignored, special };
        let (by_fork, left) = trees.without_ignored(engine, by_fork, named);
        let ignored_here = IgnoredPaths::classify_surely(engine, &fork.lower, &by_others);
        let mut found = BTreeSet::new();
        expand(&by_fork, &trees.base, &mut found).map_err(io)?;
        let by_others = by_others.iter().filter(|it| ignored_here.folder_of(&it.path).is_none());
        expand(by_others, &trees.ours, &mut found).map_err(io)?;
        let mut merged = BTreeSet::new();
        expand(&before, &began, &mut merged).map_err(io)?;
        found.extend(merged.into_iter().filter(|path| !left.contains(path)));
        let snapshot = EarlierFiles::new(engine, fork.record.tip.as_deref(), fork.record.began.0);
        for path in &found {
            engine.control.check()?;
            trees.add(path, &snapshot).map_err(|errno| Error::io("read", workspace.display(path), errno))?;
        }
        trees.moved = trees.certain_renames(&by_fork);
        Ok(trees)
    }

    /// Returns the changes of the fork without ignored ones, and the paths of these.
    fn without_ignored(
        &mut self,
        engine: &Engine,
        changes: Vec<LayerDifference>,
        named: &[WorkspacePath],
    ) -> (Vec<LayerDifference>, BTreeSet<WorkspacePath>) {
        let classified = IgnoredPaths::classify_surely(engine, &self.fork.upper, &changes);
        let mut left = BTreeSet::new();
        let kept = changes.into_iter().filter(|change| {
            let Some(folder) = classified.folder_of(&change.path) else { return true };
            if named.iter().any(|named| change.path.is_within(named) && named.is_within(&folder)) {
                return true;
            }
            left.insert(change.path.clone());
            if !change.upper.as_ref().is_some_and(fs::is_folder) {
                *self.ignored.entry(folder).or_default() += 1;
            }
            false
        });
        (kept.collect(), left)
    }

    /// Adds the versions of a path, unless all are equal.
    fn add(&mut self, path: &WorkspacePath, snapshot: &EarlierFiles<'_>) -> Result<(), Errno> {
        let [base, ours, theirs] =
            [&self.base, &self.ours, &self.theirs].map(|stack| file_at_path(stack, path));
        let (base, ours, theirs) = (base?, ours?, theirs?);
        if theirs.as_ref().is_some_and(|found| found.version.is_none()) {
            self.special.push(path.clone());
            return Ok(());
        }
        let version = |found: &Option<FoundPath>| found.as_ref().and_then(|found| found.version);
        let mut versions = Versions {
            base: version(&base),
            ours: version(&ours),
            theirs: version(&theirs),
            has_unknown_base: false,
        };
        let is_certain = match &base {
            Some(found) => {
                found.entry.layer < WORKSPACE_LAYER || changed_at(&found.entry.stat) <= self.fork.record.began
            }
            None => theirs.is_none() || self.is_noted_missing(path)?,
        };
        if !is_certain {
            let is_equal = versions.ours == versions.theirs;
            let side = if versions.ours.is_some() { &self.ours } else { &self.theirs };
            let like = read_on(side, path, MERGED_BYTES_MAX)?.unwrap_or_default();
            if let Some((item, bytes)) = snapshot.version(path, &like).filter(|_| !is_equal) {
                let (file_type, mode) = match item.kind {
                    EntryKind::Link => (FileType::Symlink, 0),
                    EntryKind::BlobExecutable => (FileType::Regular, 0o755),
                    _ => (FileType::Regular, 0o644),
                };
                versions.base = Some(Version { file_type, mode, sha256: Sha256::of(&bytes) });
                self.from_snapshot.insert(path.as_bytes().to_vec(), bytes);
            } else {
                versions.base = None;
                // If nothing is there, nothing says that there was a file.
                versions.has_unknown_base = base.is_some();
            }
        }
        if versions.base != versions.ours || versions.base != versions.theirs {
            self.paths.insert(path.as_bytes().to_vec(), versions);
        }
        Ok(())
    }

    /// Returns true if it was noted for the fork that no file was at a path.
    fn is_noted_missing(&self, path: &WorkspacePath) -> Result<bool, Errno> {
        if self.base.place(path)?.is_some_and(|(_, folder)| folder.layer < WORKSPACE_LAYER) {
            return Ok(true);
        }
        Ok([&self.fork.base, &self.fork.lower].into_iter().any(|layer| {
            match fs::stat_beneath(layer.as_fd(), path) {
                Ok(stat) => overlay::is_whiteout(&stat),
                Err(errno) => matches!(errno, Errno::NOTDIR | Errno::LOOP),
            }
        }))
    }

    /// Returns the renames in the fork that overlayfs itself noted: a new file is a copy of one that is gone.
    fn certain_renames(&self, changes: &[LayerDifference]) -> Vec<(Path, Path)> {
        // Of a file that lbx changed in the workspace since, a copy was kept, which has another inode.
        let inodes = |change: &LayerDifference| {
            let present = change.lower.as_ref().filter(|it| fs::is_regular(it))?.st_ino;
            Some([Some(present), overlay::noted_inode(&self.fork.lower, &change.path)])
        };
        let gone: Vec<(&WorkspacePath, [Option<u64>; 2])> = changes
            .iter()
            .filter(|change| change.upper.is_none())
            .filter_map(|change| Some((&change.path, inodes(change)?)))
            .collect();
        let is_new = |change: &&LayerDifference| {
            change.lower.is_none() && change.upper.as_ref().is_some_and(fs::is_regular)
        };
        let renamed = |change: &LayerDifference| {
            let origin = FileOrigin::of(&self.fork.upper, &change.path)?;
            let is_source =
                |inodes: &[Option<u64>; 2]| inodes.iter().flatten().any(|inode| origin.is(*inode));
            let mut sources = gone.iter().filter(|(_, inodes)| is_source(inodes));
            let (from, _) = sources.next()?;
            let pair = (from.as_bytes().to_vec(), change.path.as_bytes().to_vec());
            sources.next().is_none().then_some(pair)
        };
        if gone.is_empty() { Vec::new() } else { changes.iter().filter(is_new).filter_map(renamed).collect() }
    }

    /// Plans the merge.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn plan(&self) -> Result<Plan, Error> {
        let read = |side, path: &[u8]| self.bytes(side, path, MERGED_BYTES_MAX);
        let keeps_files = |folder: &[u8]| {
            let mut is_kept = false;
            let mut visit = |path: WorkspacePath| {
                is_kept |= !self.paths.contains_key(path.as_bytes());
                !is_kept
            };
            let walked =
                path_of(folder).map(|folder| self.ours.for_each_file(&folder, &|_| false, &mut visit));
            walked.is_none_or(|walked| walked.is_err()) || is_kept
        };
        let trees = Trees { paths: &self.paths, moved: &self.moved, read: &read, keeps_files: &keeps_files };
        tree_merge::plan(&trees)
    }

    /// Returns the version of a path on a side.
    pub fn version(&self, side: Side, path: Option<&Path>) -> Option<&Version> {
        self.paths.get(path?)?.on(side)
    }

    /// Returns the bytes of a version, or the target of a symlink; `None` if it has more than `bytes_max` bytes, or has
    /// changed since the trees were read.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn bytes(&self, side: Side, path: &[u8], bytes_max: u64) -> Result<Option<Vec<u8>>, Error> {
        if let Some(bytes) = self.from_snapshot.get(path).filter(|_| side == Side::Base) {
            return Ok(Some(bytes.clone()));
        }
        let stack = match side {
            Side::Base => &self.base,
            Side::Ours => &self.ours,
            Side::Theirs => &self.theirs,
        };
        let Some(path) = path_of(path) else { return Ok(None) };
        let bytes = read_on(stack, &path, bytes_max);
        let bytes = bytes.map_err(|errno| Error::io("read", path.to_string(), errno))?;
        let known = self.version(side, Some(&path.as_bytes().to_vec()));
        Ok(bytes.filter(|bytes| known.is_some_and(|known| known.sha256 == Sha256::of(bytes))))
    }
}

/// Returns a path of a merge as a path of the workspace.
pub fn path_of(path: &[u8]) -> Option<WorkspacePath> {
    WorkspacePath::new(OsStr::from_bytes(path).as_ref())
}

/// Returns true for a path of git's or lbx's own, which is never merged.
fn is_own(path: &WorkspacePath) -> bool {
    path.name().is_some_and(|name| is_protected(name.as_bytes()))
}

/// Adds the files of differences, also those in folders that were removed or replaced.
fn expand<'d>(
    changes: impl IntoIterator<Item = &'d LayerDifference>,
    below: &Stack,
    found: &mut BTreeSet<WorkspacePath>,
) -> Result<(), Errno> {
    for LayerDifference { path, lower, upper, .. } in changes {
        let [was_folder, is_folder] = [lower, upper].map(|side| side.as_ref().map(fs::is_folder));
        if was_folder == Some(false) || is_folder == Some(false) {
            found.insert(path.clone());
        }
        if was_folder == Some(true) && is_folder != Some(true) {
            below.for_each_file(path, &is_own, &mut |path| found.insert(path) | true)?;
        }
    }
    Ok(())
}

/// A path that was found.
struct FoundPath {
    /// Its entry.
    entry: StackEntry,
    /// Its version; `None` for a device, FIFO or socket.
    version: Option<Version>,
}

/// Returns the bytes of a file, or the target of a symlink; `None` for anything else, or more than `bytes_max` bytes.
fn read_on(stack: &Stack, path: &WorkspacePath, bytes_max: u64) -> Result<Option<Vec<u8>>, Errno> {
    let Some((folder, entry)) = stack.place(path)? else { return Ok(None) };
    let name = path.name().unwrap_or_default();
    if fs::is_symlink(&entry.stat) {
        return fs::read_link_at(folder.as_fd(), name).map(Some);
    }
    if !fs::is_regular(&entry.stat) || fs::size_of(&entry.stat) > bytes_max {
        return Ok(None);
    }
    let file = std::fs::File::from(fs::open_at(folder.as_fd(), name, fs::READ)?);
    Ok(fs::read_to_end(file, fs::size_of(&entry.stat), bytes_max).ok())
}

/// Returns the file at a path; `None` for a folder.
fn file_at_path(stack: &Stack, path: &WorkspacePath) -> Result<Option<FoundPath>, Errno> {
    let Some((folder, entry)) = stack.place(path)? else { return Ok(None) };
    let name = path.name().unwrap_or_default();
    let version = if fs::is_folder(&entry.stat) {
        return Ok(None);
    } else if fs::is_symlink(&entry.stat) {
        let target = fs::read_link_at(folder.as_fd(), name)?;
        Some(Version { file_type: FileType::Symlink, mode: 0, sha256: Sha256::of(&target) })
    } else if fs::is_regular(&entry.stat) {
        let file = fs::open_at(folder.as_fd(), name, fs::READ)?;
        let sha256 = digest::sha256_of(file.into());
        let sha256 = sha256.map_err(|source| Errno::from_io_error(&source).unwrap_or(Errno::IO))?;
        Some(Version { file_type: FileType::Regular, mode: fs::mode_of(&entry.stat), sha256 })
    } else {
        None
    };
    Ok(Some(FoundPath { entry, version }))
}
