//! Helpers shared by the tests of hostile workspaces.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::common::{Workspace, make_fifo};

/// Size of a sparse file, in bytes: too large to read as a whole.
pub const SPARSE_BYTES: u64 = 1 << 40;

/// Replacement that an attacker puts in place of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// A link to a file outside.
    LinkToFile,
    /// A link to a non-empty folder outside.
    LinkToFolder,
    /// A link to nothing.
    LinkToNothing,
    /// A FIFO without a writer.
    Fifo,
    /// A folder that is not empty.
    Folder,
    /// A sparse file of a terabyte.
    Sparse,
    /// Meaningless bytes.
    Garbage,
    /// An empty file.
    Empty,
}

impl Trap {
    /// All replacements.
    pub const ALL: [Self; 8] = [
        Self::LinkToFile,
        Self::LinkToFolder,
        Self::LinkToNothing,
        Self::Fifo,
        Self::Folder,
        Self::Sparse,
        Self::Garbage,
        Self::Empty,
    ];

    /// Puts it at a path of the workspace, in place of the current entry.
    pub fn set(self, ws: &Workspace, path: &str) {
        let at = ws.path(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        match fs::symlink_metadata(&at) {
            Ok(stat) if stat.is_dir() => fs::remove_dir_all(&at).unwrap(),
            Ok(_) => fs::remove_file(&at).unwrap(),
            Err(_) => {}
        }
        match self {
            Self::LinkToFile => ws.link(precious(ws).join("file"), path),
            Self::LinkToFolder => ws.link(precious(ws), path),
            Self::LinkToNothing => ws.link(ws.outside.join("to-be-made"), path),
            Self::Fifo => make_fifo(&at),
            Self::Folder => ws.write(&format!("{path}/within"), "x\n"),
            Self::Sparse => fs::File::create(&at).unwrap().set_len(SPARSE_BYTES).unwrap(),
            Self::Garbage => ws.write(path, b"\xff{]\"session\":\"../../x\"\0\n"),
            Self::Empty => ws.write(path, ""),
        }
    }
}

/// Creates a folder outside that nothing may change, with a file and a folder in it.
pub fn precious(ws: &Workspace) -> PathBuf {
    let folder = ws.outside.join("precious");
    if !folder.exists() {
        fs::create_dir_all(folder.join("within")).unwrap();
        fs::write(folder.join("file"), "SECRET\n").unwrap();
        fs::write(folder.join("within/file"), "SECRET\n").unwrap();
    }
    folder
}

/// Returns everything outside the workspace: names, modes, modification times and bytes.
pub fn outside(ws: &Workspace) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![ws.outside.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            let bytes = if stat.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if path != ws.root {
                let mtime = if stat.is_dir() { 0 } else { stat.mtime() };
                found.insert(path.clone(), (stat.mode(), mtime, bytes));
                if stat.is_dir() {
                    folders.push(path);
                }
            }
        }
    }
    found
}

/// Checks that `calls` change nothing outside.
#[track_caller]
pub fn must_change_nothing_outside<T>(ws: &Workspace, what: &str, calls: impl FnOnce() -> T) -> T {
    precious(ws);
    let before = outside(ws);
    let outcome = calls();
    let after = outside(ws);
    let differing: Vec<&PathBuf> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(differing.is_empty(), "{what}: changed outside: {differing:?}");
    outcome
}

/// Returns the names in a folder.
pub fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
        .unwrap_or_default();
    names.sort();
    names
}
