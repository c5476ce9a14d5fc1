//! What of the untracked files git would add: they are not ignored, nor another repository's.

use gix::bstr::BString;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::walk::WalkFindings;
use crate::control::Control;
use crate::engine::snapshot::record::change::{LeftOut, Reason};
use crate::engine::snapshot::record::disk::Root;
use crate::engine::snapshot::record::names::{may_enter, may_hold_policy};
use crate::engine::snapshot::record::rules::Rules;
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};

/// Untracked files.
#[derive(Debug, Default)]
pub struct Untracked {
    /// Those that may enter, in order.
    pub files: Vec<BString>,
    /// What stays out.
    pub left_out: Vec<LeftOut>,
    /// Files and folders that are ignored; a folder ends in a slash.
    pub ignored: Vec<Vec<u8>>,
    /// Folders that may not be read, each with a slash at its end save the root: what is in them is
    /// not known.
    pub closed: Vec<BString>,
}

/// Sorts out what a walk found untracked. Folders that are ignored as a whole are not looked into.
///
/// # Errors
/// Where a folder or the rules cannot be read, or `control` says to stop.
pub fn sort_out(
    root: &Root,
    seen: &mut WalkFindings,
    rules: &mut Rules<'_>,
    control: &Control,
) -> Result<Untracked, SnapshotError> {
    let (files, mut folders) = (std::mem::take(&mut seen.files), std::mem::take(&mut seen.folders));
    let mut sorter = Sorter { root, rules, unruled: &seen.unruled, found: Untracked::default() };
    for file in files {
        control.check().doing(|| "the work tree cannot be scanned".into())?;
        sorter.file(file)?;
    }
    folders.reverse();
    while let Some(folder) = folders.pop() {
        control.check().doing(|| "the work tree cannot be scanned".into())?;
        sorter.folder(&folder, &mut folders)?;
    }
    let mut found = sorter.found;
    for file in &seen.unruled {
        found.left_out.push(LeftOut::new(folder_of(file), Reason::Rules(file.to_string())));
    }
    for folder in &seen.closed {
        found.left_out.push(LeftOut::new(folder, Reason::Unreadable));
    }
    found.closed.clone_from(&seen.closed);
    found.files.sort_unstable();
    Ok(found)
}

/// Sorts out untracked files.
struct Sorter<'a, 'repo> {
    /// The work tree.
    root: &'a Root,
    /// Git's rules for paths.
    rules: &'a mut Rules<'repo>,
    /// The rule files that cannot be read.
    unruled: &'a [BString],
    /// What came of it so far.
    found: Untracked,
}

impl Sorter<'_, '_> {
    /// Whether a rule file on the way to `path` cannot be read.
    fn is_unruled(&self, path: &[u8]) -> bool {
        self.unruled.iter().any(|file| path.starts_with(folder_of(file)))
    }

    /// Takes in a file, unless it is ignored.
    fn file(&mut self, path: BString) -> Result<(), SnapshotError> {
        if may_enter(&path) && !self.is_unruled(&path) {
            if self.rules.ignores(&path)? {
                self.found.ignored.push(path.into());
            } else {
                self.found.files.push(path);
            }
        }
        Ok(())
    }

    /// Looks into a folder, unless it is ignored; adds the folders in it to `more`.
    fn folder(&mut self, path: &BString, more: &mut Vec<BString>) -> Result<(), SnapshotError> {
        let is_of_note = may_enter(path) || may_hold_policy(path);
        let below = |name: &[u8]| BString::from([&path[..], b"/", name].concat());
        if !is_of_note || self.is_unruled(path) {
            return Ok(());
        }
        if self.rules.ignores_folder(path)? {
            self.found.ignored.push(below(b"").into());
            return Ok(());
        }
        let doing = || format!("`{path}` cannot be read");
        let folder = match self.root.folder(&below(b"")) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(Errno::ACCESS | Errno::PERM) => {
                self.found.left_out.push(LeftOut::new(path, Reason::Unreadable));
                return Ok(());
            }
            Err(error) => return Err(error).doing(doing),
        };
        let (listing, is_repository) = folder.list().doing(doing)?;
        if is_repository {
            self.found.left_out.push(LeftOut::new(path, Reason::NestedRepository(path.to_string())));
            return Ok(());
        }
        if let Some(name) = folder.odd_rules(&listing) {
            self.found.left_out.push(LeftOut::new(path, Reason::Rules(below(name).to_string())));
            return Ok(());
        }
        let first = more.len();
        for entry in listing.iter() {
            let path = below(entry.name);
            match entry.kind {
                FileType::RegularFile | FileType::Symlink => self.file(path)?,
                FileType::Directory => more.push(path),
                _ => {}
            }
        }
        more.get_mut(first..).unwrap_or_default().reverse(); // the first is taken first
        Ok(())
    }
}

/// The folder of a file, with a slash behind it; empty for the root.
fn folder_of(file: &[u8]) -> &[u8] {
    let end = file.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    file.get(..end).unwrap_or_default()
}
