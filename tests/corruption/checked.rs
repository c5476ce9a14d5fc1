//! A workspace with all files of the matrix, and the outcome for each.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;

use super::cells::{File, Place};
use super::common::Workspace;

/// Name and value of the extended attribute.
const ATTRIBUTE: (&str, &[u8]) = ("user.lbx-test", b"kept");

/// Outcome for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The requested change, and nothing else.
    Exact,
    /// The requested change; the other name of a hard link keeps the old bytes.
    Parted,
    /// No change, and the caller got an error.
    Refused,
    /// No change, and no error.
    Nothing,
    /// Bytes changed that were not addressed.
    Bytes,
    /// The link became a regular file.
    Link,
    /// The mode or an extended attribute was lost.
    Attributes,
}

/// Writes every file of the matrix.
pub fn fill(ws: &Workspace, files: &[File]) {
    for file in files {
        let bytes = file.content.bytes();
        match (file.place, file.other()) {
            (Place::LinkedFolder, Some(other)) => {
                ws.write(&other, &bytes);
                if !ws.path(Place::LinkedFolder.folder()).exists() {
                    ws.link("linked-to", Place::LinkedFolder.folder());
                }
            }
            (Place::Symlink, Some(other)) => {
                ws.write(&other, &bytes);
                ws.link(format!("../{other}"), &file.path());
            }
            (Place::HardLink, Some(other)) => {
                ws.write(&file.path(), &bytes);
                fs::create_dir_all(ws.path(&other).parent().unwrap()).unwrap();
                fs::hard_link(ws.path(&file.path()), ws.path(&other)).unwrap();
            }
            _ => ws.write(&file.path(), &bytes),
        }
        let path = ws.path(&file.path());
        if file.place == Place::Attribute {
            let (name, value) = ATTRIBUTE;
            // A file system without them has nothing to lose.
            let _ = rustix::fs::setxattr(&path, name, value, XattrFlags::empty());
        }
        fs::set_permissions(path, fs::Permissions::from_mode(file.place.mode())).unwrap();
    }
}

/// Returns true if the file system has extended attributes.
pub fn has_attributes(ws: &Workspace) -> bool {
    ws.write("probe", "");
    rustix::fs::setxattr(ws.path("probe"), ATTRIBUTE.0, ATTRIBUTE.1, XattrFlags::empty()).is_ok()
}

/// Returns the outcome for a file that should hold `wanted`; `was_told` is true if the caller got an error.
pub fn fate(ws: &Workspace, file: File, wanted: &[u8], was_told: bool) -> Fate {
    let path = ws.path(&file.path());
    let Ok(found) = fs::read(&path) else { return Fate::Bytes };
    let before = file.content.bytes();
    if was_told {
        return if found == before && is_as_it_was(ws, file, &path) { Fate::Refused } else { Fate::Bytes };
    }
    if found != wanted {
        return if found == before { Fate::Nothing } else { Fate::Bytes };
    }
    if file.place == Place::Symlink && !fs::symlink_metadata(&path).unwrap().is_symlink() {
        return Fate::Link;
    }
    if !is_as_it_was(ws, file, &path) {
        return Fate::Attributes;
    }
    let other = file.other().map(|other| fs::read(ws.path(&other)).unwrap());
    match other {
        Some(other) if other != found && file.place == Place::HardLink && other == before => Fate::Parted,
        Some(other) if other != found => Fate::Bytes,
        _ => Fate::Exact,
    }
}

/// Returns true if the file type, mode and attributes are those of the matrix.
fn is_as_it_was(ws: &Workspace, file: File, path: &Path) -> bool {
    let stat = fs::metadata(path).unwrap();
    let mut value = [0; 16];
    let mut has_attribute = || {
        let found = rustix::fs::getxattr(path, ATTRIBUTE.0, &mut value[..]);
        found.is_ok_and(|length| value.get(..length) == Some(ATTRIBUTE.1))
    };
    let is_link = fs::symlink_metadata(path).unwrap().is_symlink();
    is_link == (file.place == Place::Symlink)
        && stat.mode() & 0o7777 == file.place.mode()
        && (file.place != Place::Attribute || !has_attributes(ws) || has_attribute())
}

/// Returns files that no call should have created.
pub fn strays(ws: &Workspace, files: &[File]) -> Vec<PathBuf> {
    let mut known: Vec<PathBuf> = vec![PathBuf::from("probe")];
    for file in files {
        known.push(PathBuf::from(file.path()));
        known.extend(file.other().map(PathBuf::from));
    }
    let is_file = |standing: &(char, u32, Vec<u8>)| standing.0 != 'd';
    let linked = Path::new(Place::LinkedFolder.folder());
    let tree = ws.tree();
    let found = tree.iter().filter(|(_, standing)| is_file(standing)).map(|(path, _)| path);
    found.filter(|path| !known.contains(path) && *path != linked).cloned().collect()
}
