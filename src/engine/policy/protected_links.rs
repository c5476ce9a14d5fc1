//! Files and folders to which protected names lead.
//!
//! Whoever writes the target of a protected link, or replaces a link on its way, changes what the protected name
//! answers. So the name protects all of them:
//!
//! ```text
//! protect = [".mcp.json"]     .mcp.json -> dir/mcp.json     dir -> conf
//!
//!     dir                     a link on the way
//!     conf/mcp.json           the target, and every hard link to it
//! ```
//!
//! Links are found at names without a wildcard, in the folder in which the wildcards of a glob begin, and among
//! the symlinks that git tracks. An untracked link that only a wildcard matches deeper down is not found.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::Stat;

use super::Policy;
use super::protected::GlobName;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs;
use crate::engine::workspace::git_index;
use crate::engine::workspace::listing::{Listing, ROOM_BYTES};
use crate::engine::workspace::path::WorkspacePath;

/// Names of one folder in which links are looked for.
const NAMES_MAX: usize = 10_000;

/// Files and folders to which protected names lead.
#[derive(Debug, Default)]
pub struct ProtectedLinks {
    /// Links on the way of protected names, and the ends of these ways, by their paths in lower case: globs ignore
    /// letter case too.
    places: BTreeMap<Vec<u8>, Place>,
    /// Links to folders in which a glob protects some names, by the folder's path in lower case.
    folders: BTreeMap<Vec<u8>, (WorkspacePath, WorkspacePath)>,
    /// Protected files with several hard links, by device and inode.
    files: BTreeMap<(u64, u64), Reason>,
}

/// A path that is protected by another name.
#[derive(Debug)]
struct Place {
    /// Reason, in words that follow "is protected: ".
    reason: Reason,
    /// True if everything below the path is protected too.
    has_below: bool,
}

/// Reason for which something is protected.
#[derive(Debug, Clone)]
struct Reason(String);

impl ProtectedLinks {
    /// Finds them: one look at each name, one listing for each folder of a wildcard, one read of git's index.
    #[must_use]
    pub fn find(policy: &Policy, workspace: &Workspace) -> Self {
        let mut found = Self::default();
        let names = policy.protected_names();
        for name in &names {
            found.add(policy, workspace, &name.path);
            if !name.is_whole {
                found.add_links_in(policy, workspace, &name.path);
            }
        }
        let matches_deeper = |name: &GlobName| !name.is_whole || !name.is_anchored;
        if names.iter().any(matches_deeper) {
            for link in git_index::symlinks(workspace.root()) {
                found.add(policy, workspace, &link);
            }
        }
        found
    }

    /// Returns the reason for which a path is protected, in words that follow "is protected: ". `stat` is that of
    /// the file at the path.
    #[must_use]
    pub fn protects(
        &self,
        policy: &Policy,
        workspace: &Workspace,
        path: &WorkspacePath,
        stat: Option<&Stat>,
    ) -> Option<String> {
        if let Some(reason) = stat.and_then(|stat| self.files.get(&identity(stat))) {
            return Some(reason.0.clone());
        }
        if self.places.is_empty() && self.folders.is_empty() {
            return None;
        }
        let mut at = Some(path.clone()).filter(|path| !path.is_root());
        while let Some(above) = at {
            let key = key(&above);
            let place = self.places.get(&key).filter(|place| place.has_below || above == *path);
            if let Some(place) = place {
                return Some(place.reason.0.clone());
            }
            if let Some((folder, link)) = self.folders.get(&key) {
                let alias = path.rebased(folder, link);
                if let Some(why) = policy.protects(workspace, &alias) {
                    return Some(leads_here(workspace, &alias, &why).0);
                }
            }
            at = above.parent().filter(|above| !above.is_root());
        }
        None
    }

    /// Returns the reason for which nothing may be a link at `link`: a protected name leads through it.
    #[must_use]
    pub fn protects_below(&self, link: &WorkspacePath) -> Option<String> {
        let mut above = key(link);
        above.push(b'/');
        let (below, place) = self.places.range(above.clone()..).next()?;
        below.starts_with(&above).then(|| place.reason.0.clone())
    }

    /// Adds the links on the way of a name, and the file or folder at its end.
    fn add(&mut self, policy: &Policy, workspace: &Workspace, name: &WorkspacePath) {
        if name.is_root() {
            return;
        }
        let trail = workspace.trail(name);
        let by_name = policy.protects(workspace, name);
        let below = || policy.protects_below(workspace, name).filter(|_| !trail.links.is_empty());
        let Some(why) = by_name.clone().or_else(below) else { return };
        let reason = leads_here(workspace, name, &why);
        for link in &trail.links {
            let place = || Place { reason: reason.clone(), has_below: false };
            self.places.entry(key(link)).or_insert_with(place);
        }
        // A link to the root protects only itself: else nothing could be written.
        let Some((target, stat)) = trail.target.filter(|(target, _)| !target.is_root()) else { return };
        if by_name.is_none() {
            self.folders.entry(key(&target)).or_insert((target, name.clone()));
            return;
        }
        if let Some(stat) = stat.filter(|stat| fs::is_regular(stat) && stat.st_nlink > 1) {
            self.files.entry(identity(&stat)).or_insert_with(|| reason.clone());
        }
        if !trail.links.is_empty() {
            self.places.insert(key(&target), Place { reason, has_below: true });
        }
    }

    /// Adds the links in a folder, or in the one to which its name leads.
    fn add_links_in(&mut self, policy: &Policy, workspace: &Workspace, name: &WorkspacePath) {
        let folder =
            if name.is_root() { Some(name.clone()) } else { workspace.trail(name).target.map(|at| at.0) };
        let Some(Ok(Some(opened))) = folder.map(|folder| workspace.find_folder(&folder)) else { return };
        let mut room: Vec<u8> = Vec::with_capacity(ROOM_BYTES);
        let Ok(listing) = Listing::read(opened.as_fd(), room.spare_capacity_mut(), || false) else { return };
        for entry in listing.iter().take(NAMES_MAX).filter(|entry| entry.kind.is_symlink()) {
            self.add(policy, workspace, &name.join(OsStr::from_bytes(entry.name)));
        }
    }
}

/// Words for something to which a protected name leads.
fn leads_here(workspace: &Workspace, name: &WorkspacePath, why: &str) -> Reason {
    Reason(format!("{} leads here, and {why}", workspace.shown(name)))
}

/// Returns device and inode.
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Returns the bytes by which a path is found.
fn key(path: &WorkspacePath) -> Vec<u8> {
    path.as_bytes().to_ascii_lowercase()
}
