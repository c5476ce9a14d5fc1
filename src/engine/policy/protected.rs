//! Paths that the policy protects, links that would bypass it, and files that stay out of snapshots.
//!
//! A program that writes the target of a protected link, or replaces a link on its way, changes the bytes behind the
//! protected name. So the name protects all files and folders to which it leads:
//!
//! ```text
//! protect = [".mcp.json"]     .mcp.json -> dir/mcp.json     dir -> conf
//!
//!     dir                     a link on the way
//!     conf/mcp.json           the target, and every hard link to it
//! ```
//!
//! lbx searches for links at names without a wildcard, in the folder in which the wildcards of a glob begin, and among
//! the symlinks that git tracks. It does not find an untracked link deeper down that only a wildcard matches.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use globset::{GlobSet, GlobSetBuilder};
use rustix::fs::Stat;
use rustix::io::Errno;

use super::settings::{Key, Value};
use super::sources::OuterProtection;
use super::{Policy, values};
use crate::engine::sandbox::hidden::LbxPlace;
use crate::engine::snapshot::ExcludedFiles;
use crate::engine::store::id;
use crate::engine::workspace::listing::Listing;
use crate::engine::workspace::path::{WorkspacePath, first_matching};
use crate::engine::workspace::{Workspace, fs, git_files};
use crate::error::{Error, ErrorKind};
use crate::limits::LINK_NAMES_MAX;
use crate::platform::{self, ROOM_BYTES};

/// Reason if there are too many globs, or too large ones.
const TOO_MANY: &str = "the policy's globs are too many to be used together";

impl Policy {
    /// Returns the reason if the policy protects `path`: a phrase that follows its name.
    pub fn protects(&self, workspace: &Workspace, path: &WorkspacePath) -> Option<String> {
        if self
            .user_file_paths(workspace)
            .iter()
            .any(|own| own.as_bytes().eq_ignore_ascii_case(path.as_bytes()))
        {
            return Some("it is the user's own lbx file".to_owned());
        }
        let own = || {
            protected_by(self.list(Key::Protect), &self.loaded.globs, path, |glob| self.source_of_glob(glob))
        };
        let outer = |outer: &OuterProtection| {
            protected_by(&outer.globs, &outer.compiled, &outer.to_outer_path(path), |_| outer.source())
        };
        own().or_else(|| self.loaded.outer.iter().find_map(outer))
    }

    /// Returns the reason if `link` must not be a link, since the policy protects paths below it: a phrase that follows
    /// the link's name.
    pub fn protects_below(&self, workspace: &Workspace, link: &WorkspacePath) -> Option<String> {
        if self.user_file_paths(workspace).iter().any(|own| own != link && own.is_within(link)) {
            return Some("one of the user's own lbx files is in it".to_owned());
        }
        let begun = |globs: &[String], link: &WorkspacePath| {
            let names: Vec<&OsStr> = link.components().collect();
            globs.iter().find(|glob| begins(glob, &names)).cloned()
        };
        let own = begun(self.list(Key::Protect), link).map(|glob| (self.source_of_glob(&glob), glob));
        let outer = |outer: &OuterProtection| {
            Some((outer.source(), begun(&outer.globs, &outer.to_outer_path(link))?))
        };
        let (source, glob) = own.or_else(|| self.loaded.outer.iter().find_map(outer))?;
        Some(format!("the policy protects {glob:?} ({source})"))
    }

    /// Returns the paths of this user's own lbx files: a program that writes there could loosen the policy, or change
    /// the workspace of a sandbox name.
    pub fn lbx_paths_of_user(&self) -> Vec<LbxPlace> {
        let policy = self.user_path.as_deref();
        let folders = policy.and_then(Path::parent).map(Path::to_owned).into_iter().chain(id::user_folder());
        let led_to = policy.filter(|file| is_link(file)).map(canonical);
        let folders = folders.map(|path| LbxPlace { path, is_folder: true });
        folders.chain(led_to.map(|path| LbxPlace { path, is_folder: false })).collect()
    }

    /// Fails for an absolute path that is, holds or lies in one of [`Self::lbx_paths_of_user`]: what lbx writes outside the
    /// workspace may not become its policy.
    ///
    /// # Errors
    /// Returns `protected_path`.
    pub fn must_be_no_own_place(&self, path: &Path) -> Result<(), Error> {
        let folded = |path: &Path| PathBuf::from(canonical(path).into_os_string().to_ascii_lowercase());
        let wanted = folded(path);
        let mut places = self.lbx_paths_of_user().into_iter().map(|own| folded(&own.path));
        if places.any(|own| own.starts_with(&wanted) || wanted.starts_with(&own)) {
            let shown = path.display();
            let message = format!("{shown} is a place of the user's own lbx files");
            return Err(Error::new(ErrorKind::ProtectedPath, message).at(shown.to_string()));
        }
        Ok(())
    }

    /// Returns true if this policy or that of an outer workspace protects anything.
    pub fn has_protected_paths(&self) -> bool {
        !self.list(Key::Protect).is_empty() || !self.loaded.outer.is_empty()
    }

    /// Returns the untracked files that stay out of snapshots by their names.
    pub fn snapshot_excluded(&self) -> ExcludedFiles {
        let globs = self.list(Key::SnapshotExclude);
        if globs.is_empty() {
            return ExcludedFiles::Secrets;
        }
        let compiled =
            || compiled(globs).map_or(ExcludedFiles::All, |set| ExcludedFiles::Also(Arc::new(set)));
        self.loaded.excluded.get_or_init(compiled).clone()
    }

    /// Returns true if changes to a file are written in place.
    pub fn writes_in_place(&self, path: &WorkspacePath) -> bool {
        let globs = self.list(Key::InPlace);
        !globs.is_empty() && compiled(globs).is_some_and(|set| first_matching(&set, path).is_some())
    }

    /// Returns the leading names and folders of the globs of `protect` in this workspace.
    pub(super) fn protected_names(&self) -> Vec<GlobName> {
        let own = self.list(Key::Protect).iter().map(|glob| GlobName::of(glob));
        let outer = self.loaded.outer.iter().flat_map(|outer| {
            let names = outer.globs.iter().map(|glob| GlobName::of(glob));
            names.filter_map(|name| {
                let path = if name.is_anchored { outer.from_outer_path(&name.path)? } else { name.path };
                Some(GlobName { path, ..name })
            })
        });
        own.chain(outer).collect()
    }

    /// Returns the paths of the user's file in the workspace.
    fn user_file_paths(&self, workspace: &Workspace) -> &[WorkspacePath] {
        self.own_paths.get_or_init(|| user_file_paths(workspace, self.user_path.as_deref()))
    }

    /// Returns the source of a glob of `protect`.
    fn source_of_glob(&self, glob: &str) -> String {
        let held = self.loaded.held.get(Key::Protect as usize);
        let holds =
            |value: &Value| matches!(value, Value::List(globs) if globs.iter().any(|known| known == glob));
        let source = held.into_iter().flat_map(|held| &held.sources).find(|source| holds(&source.value));
        source.map_or_else(|| "protect".to_owned(), |source| self.shown_origin(&source.origin))
    }
}

/// The part of a glob before its first wildcard.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GlobName {
    /// Path of that part: a whole name, or the folder in which the wildcards begin.
    pub path: WorkspacePath,
    /// True if the glob has no wildcard.
    pub is_whole: bool,
    /// True if the glob is relative to the root; otherwise it matches at any depth.
    pub is_anchored: bool,
}

impl GlobName {
    /// Splits a glob.
    fn of(glob: &str) -> Self {
        let body = glob.strip_suffix('/').unwrap_or(glob);
        let is_anchored = body.contains('/');
        let is_plain = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let parts = || body.split('/').filter(|part| !part.is_empty());
        let is_whole = parts().all(|part| is_plain(&part));
        let path = parts().take_while(is_plain).collect::<PathBuf>();
        Self { path: WorkspacePath::new(&path).unwrap_or_default(), is_whole, is_anchored }
    }
}

/// Returns the reason if one of these globs protects a path.
fn protected_by(
    globs: &[String],
    set: &OnceLock<Option<GlobSet>>,
    path: &WorkspacePath,
    source: impl Fn(&str) -> String,
) -> Option<String> {
    if globs.is_empty() {
        return None;
    }
    let Some(set) = set.get_or_init(|| compiled(globs)) else {
        return Some(TOO_MANY.to_owned());
    };
    let glob = first_matching(set, path).and_then(|index| globs.get(index))?;
    Some(format!("the policy protects {glob:?} ({})", source(glob)))
}

/// Returns true if a glob of `protect` can match something below the path of these names, and uses some of them to do
/// so: anything else below the path matches by its own name wherever it is.
fn begins(glob: &str, names: &[&OsStr]) -> bool {
    let body = glob.strip_suffix('/').unwrap_or(glob);
    let (body, is_anchored) = body.strip_prefix('/').map_or((body, false), |body| (body, true));
    if !is_anchored && !body.contains('/') {
        return false;
    }
    if body.contains('{')
        && body.split('/').any(|part| part.matches('{').count() != part.matches('}').count())
    {
        // A slash within braces: the glob cannot be split into parts.
        return true;
    }
    let parts: Vec<&str> = body.split('/').collect();
    let leading = parts.iter().take_while(|part| **part == "**").count();
    // Numbers of parts that may have matched, as states of an automaton.
    let mut reached = vec![false; parts.len() + 1];
    reached.iter_mut().take(leading + 1).for_each(|state| *state = true);
    for name in names {
        let mut next = vec![false; parts.len() + 1];
        for (at, part) in parts.iter().enumerate().filter(|(at, _)| reached.get(*at) == Some(&true)) {
            let to = if *part == "**" { at } else { at + 1 };
            if *part == "**" || matches(part, name) {
                let through = parts.iter().skip(to).take_while(|part| **part == "**").count();
                next.iter_mut().skip(to).take(through + 1).for_each(|state| *state = true);
            }
        }
        reached = next;
    }
    reached.iter().take(parts.len()).skip(leading + 1).any(|state| *state)
}

/// Returns true if one part of a glob matches a name.
fn matches(part: &str, name: &OsStr) -> bool {
    values::glob(&format!("/{part}")).is_ok_and(|glob| glob.compile_matcher().is_match(name))
}

/// Compiles the globs into one set; `None` if they are too many or too large.
fn compiled(globs: &[String]) -> Option<GlobSet> {
    let mut builder = GlobSetBuilder::new();
    for glob in globs {
        builder.add(values::glob(glob).ok()?);
    }
    builder.build().ok()
}

/// Returns the paths of the user's own lbx files in a workspace that contains the user's folders: each name, and its
/// target.
fn user_file_paths(workspace: &Workspace, policy: Option<&Path>) -> Vec<WorkspacePath> {
    let within = |path: PathBuf| WorkspacePath::new(path.strip_prefix(workspace.root()).ok()?);
    let state = id::user_folder();
    let folders = [policy.and_then(Path::parent), state.as_deref()].map(|folder| folder.map(canonical));
    let files =
        [policy.and_then(Path::file_name).map(OsStr::to_owned).into_iter().collect(), id::user_files()];
    let mut paths = Vec::new();
    for (folder, names) in folders.into_iter().zip(files) {
        let Some(folder) = folder.filter(|folder| folder.starts_with(workspace.root())) else { continue };
        paths.extend(names.into_iter().filter_map(|name| within(folder.join(name))));
    }
    // Usually it is not a link, and is its own target.
    paths.extend(policy.filter(|file| is_link(file)).map(canonical).and_then(within));
    paths
}

/// Returns true if there is a link at a path.
#[expect(
    clippy::disallowed_methods,
    reason = "only where the user's own configuration file leads; nothing is read"
)]
fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_symlink())
}

/// Returns a path with the links in its existing part followed.
#[expect(
    clippy::disallowed_methods,
    reason = "only where the user's own configuration folder leads; nothing is read"
)]
fn canonical(path: &Path) -> PathBuf {
    // Without a link on the way the path is its own target; a missing one leads nowhere either.
    if let Some(Ok(()) | Err(Errno::NOENT)) = fs::exists_plain(path) {
        return path.to_owned();
    }
    for ancestor in path.ancestors() {
        if ancestor.exists()
            && let Ok(found) = std::fs::canonicalize(ancestor)
        {
            let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            return rest.iter().fold(found, |path, name| path.join(name));
        }
    }
    path.to_owned()
}

/// Files and folders to which protected names lead.
#[derive(Debug, Default)]
pub struct ProtectedLinks {
    /// Links on the way of protected names, and the ends of these ways, by lower-case path: globs ignore letter case
    /// too.
    places: BTreeMap<Vec<u8>, Place>,
    /// Links to folders in which a glob protects some names, by lower-case path of the folder.
    folders: BTreeMap<Vec<u8>, (WorkspacePath, WorkspacePath)>,
    /// Reasons for protected files with several hard links, by device and inode.
    files: BTreeMap<(u64, u64), String>,
}

/// A path that is protected by another name.
#[derive(Debug)]
struct Place {
    /// Reason: a phrase that follows "is protected: ".
    reason: String,
    /// True if everything below the path is protected too.
    has_below: bool,
}

impl ProtectedLinks {
    /// Finds them: examines each name once, lists each folder of a wildcard once, and reads git's index once.
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
            for link in git_files::symlinks(workspace.root()) {
                found.add(policy, workspace, &link);
            }
        }
        found
    }

    /// Returns the reason why a path is protected: a phrase that follows "is protected: ". `stat` is that of the file
    /// at the path.
    pub fn protects(
        &self,
        policy: &Policy,
        workspace: &Workspace,
        path: &WorkspacePath,
        stat: Option<&Stat>,
    ) -> Option<String> {
        if let Some(reason) = stat.and_then(|stat| self.files.get(&identity(stat))) {
            return Some(reason.clone());
        }
        if self.places.is_empty() && self.folders.is_empty() {
            return None;
        }
        let mut at = Some(path.clone()).filter(|path| !path.is_root());
        while let Some(above) = at {
            let key = key(&above);
            let place = self.places.get(&key).filter(|place| place.has_below || above == *path);
            if let Some(place) = place {
                return Some(place.reason.clone());
            }
            if let Some((folder, link)) = self.folders.get(&key) {
                let alias = path.rebased(folder, link);
                if let Some(why) = policy.protects(workspace, &alias) {
                    return Some(target_reason(workspace, &alias, &why));
                }
            }
            at = above.parent().filter(|above| !above.is_root());
        }
        None
    }

    /// Returns the reason why `link` must not be a link: a protected name leads through it.
    pub fn protects_below(&self, link: &WorkspacePath) -> Option<String> {
        let mut above = key(link);
        above.push(b'/');
        let (below, place) = self.places.range(above.clone()..).next()?;
        below.starts_with(&above).then(|| place.reason.clone())
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
        let reason = target_reason(workspace, name, &why);
        for link in &trail.links {
            let place = || Place { reason: reason.clone(), has_below: false };
            self.places.entry(key(link)).or_insert_with(place);
        }
        // A link to the root protects only itself: otherwise nothing could be written.
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

    /// Adds the links in a folder, or in the target of its name.
    fn add_links_in(&mut self, policy: &Policy, workspace: &Workspace, name: &WorkspacePath) {
        let folder =
            if name.is_root() { Some(name.clone()) } else { workspace.trail(name).target.map(|at| at.0) };
        let Some(Ok(Some(opened))) = folder.map(|folder| workspace.find_folder(&folder)) else { return };
        let mut room: Vec<u8> = Vec::with_capacity(ROOM_BYTES);
        let Ok(listing) = Listing::read(opened.as_fd(), room.spare_capacity_mut(), || false) else { return };
        for entry in listing.iter().take(LINK_NAMES_MAX).filter(|entry| entry.kind.is_symlink()) {
            self.add(policy, workspace, &name.join(OsStr::from_bytes(entry.name)));
        }
    }
}

/// Returns the reason for the target of a protected name.
fn target_reason(workspace: &Workspace, name: &WorkspacePath, why: &str) -> String {
    format!("{} leads here, and {why}", workspace.display(name))
}

/// Returns device and inode.
fn identity(stat: &Stat) -> (u64, u64) {
    (platform::device(stat), stat.st_ino)
}

/// Returns the map key of a path.
fn key(path: &WorkspacePath) -> Vec<u8> {
    path.as_bytes().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_prefix_is_its_literal_path() {
        for (glob, path, is_whole, is_anchored) in [
            (".mcp.json", ".mcp.json", true, false),
            (".vscode/", ".vscode", true, false),
            ("/dist", "dist", true, true),
            ("conf/prod.toml", "conf/prod.toml", true, true),
            ("conf/*.toml", "conf", false, true),
            ("a/b/**/c", "a/b", false, true),
            ("a{b,c/d}/e", "", false, true),
            ("*.pem", "", false, false),
        ] {
            let path = WorkspacePath::new(Path::new(path)).unwrap();
            assert_eq!(GlobName::of(glob), GlobName { path, is_whole, is_anchored }, "{glob}");
        }
    }

    #[test]
    fn symlink_to_a_parent_of_a_protected_glob_is_detected() {
        for (glob, link, is_begun) in [
            ("conf/prod.toml", "conf", true),
            ("conf/prod.toml", "CONF", true),
            ("conf/prod.toml", "other", false),
            ("conf/prod.toml", "other/conf", false),
            ("a/b/c", "a", true),
            ("a/b/c", "a/b", true),
            ("a/*/c", "a/x", true),
            ("/top.txt", "x", false),
            ("*.pem", "conf", false),
            ("secrets/", "x", false),
            ("**/secrets/*.key", "a/secrets", true),
            ("**/secrets/*.key", "a/b", false),
            ("src/**/gen.rs", "src/a/b", true),
            ("src/**", "src", true),
            ("{a/b,c}/d", "x", true),
            ("{a,c}/d", "x", false),
            ("{a,c}/d", "c", true),
        ] {
            let names: Vec<&OsStr> = Path::new(link).iter().collect();
            assert_eq!(begins(glob, &names), is_begun, "{glob} {link}");
        }
    }
}
