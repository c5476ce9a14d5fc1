//! A path inside the workspace, as everything behind the front ends names a file.
//!
//! Globs are matched against paths here, and absolute paths are followed, with the links on their way.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::zip;
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt};
use std::path::{Component, Path, PathBuf};

use globset::{Candidate, GlobSet};
use rustix::io::Errno;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A path from the workspace root: relative, without `.` or `..`; empty for the root itself.
///
/// The type promises the form alone. What is there is for [`super::Workspace`] to
/// find out, on opened files. In the state files it is a string, or a list of bytes where it is
/// not UTF-8.
#[derive(Debug, Clone, Default)]
pub struct WorkspacePath(PathBuf);

/// A path in a response. JSON has text, which is lossy for other bytes than UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPath {
    /// Path as text.
    text: String,
    /// Bytes of the path, if the text is lossy.
    bytes: Option<Vec<u8>>,
}

impl ShownPath {
    /// Returns the path in its form for responses.
    pub fn of(path: &Path) -> Self {
        let text = path.to_string_lossy().into_owned();
        let bytes = path.as_os_str().as_bytes();
        Self { bytes: (text.as_bytes() != bytes).then(|| bytes.to_vec()), text }
    }

    /// Returns the bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or(self.text.as_bytes())
    }

    /// Returns true if the text is not the path itself.
    pub const fn is_lossy(&self) -> bool {
        self.bytes.is_some()
    }
}

impl Deref for ShownPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl Serialize for ShownPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl JsonSchema for ShownPath {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ShownPath".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Equal paths have equal bytes, which is faster to check than components.
impl PartialEq for WorkspacePath {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for WorkspacePath {}

impl Hash for WorkspacePath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl PartialOrd for WorkspacePath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By component: a separator sorts before every byte of a name.
impl Ord for WorkspacePath {
    fn cmp(&self, other: &Self) -> Ordering {
        /// Bytes that are compared at once: paths of one folder begin alike.
        const AT_ONCE: usize = 8;
        let (ours, theirs) = (self.as_bytes(), other.as_bytes());
        let groups = zip(ours.as_chunks::<AT_ONCE>().0, theirs.as_chunks::<AT_ONCE>().0);
        let alike = groups.take_while(|(ours, theirs)| ours == theirs).count() * AT_ONCE;
        let mut rest = zip(ours.iter().skip(alike), theirs.iter().skip(alike));
        let key = |byte: u8| if byte == b'/' { 0 } else { byte };
        match rest.find(|(ours, theirs)| ours != theirs) {
            Some((ours, theirs)) => key(*ours).cmp(&key(*theirs)),
            None => ours.len().cmp(&theirs.len()),
        }
    }
}

/// Returns a path without `.` and `..`, by its names alone.
pub fn lexical(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(resolved.pop()),
            Component::CurDir => {}
            part => resolved.push(part),
        }
    }
    resolved
}

impl WorkspacePath {
    /// Returns the workspace root.
    pub fn root() -> Self {
        Self::default()
    }

    /// Returns `path` without its `.` components; `None` if it is absolute or has a `..`.
    pub fn new(path: &Path) -> Option<Self> {
        let mut clean = PathBuf::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => clean.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
            }
        }
        Some(Self(clean))
    }

    /// Returns the path of `name` in this folder.
    #[must_use]
    pub fn join(&self, name: &OsStr) -> Self {
        Self(self.0.join(name))
    }

    /// Returns its new path after `old`, which is it or contains it, is renamed to `new`.
    #[must_use]
    pub fn rebased(&self, old: &Self, new: &Self) -> Self {
        match self.0.strip_prefix(&old.0) {
            Ok(rest) if rest.as_os_str().is_empty() => new.clone(),
            Ok(rest) => Self(new.0.join(rest)),
            Err(_) => self.clone(),
        }
    }

    /// Returns its parent folder; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        self.0.parent().map(|parent| Self(parent.to_owned()))
    }

    /// Returns it and the folders above it, innermost first, up to the root.
    pub fn and_above(&self) -> impl Iterator<Item = Self> + use<> {
        std::iter::successors(Some(self.clone()), Self::parent)
    }

    /// Returns the last component; `None` for the root.
    pub fn name(&self) -> Option<&OsStr> {
        self.0.file_name()
    }

    /// Returns true if it is the root itself.
    pub fn is_root(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// Returns its components, from the root down.
    pub fn components(&self) -> impl Iterator<Item = &OsStr> {
        self.0.iter()
    }

    /// Returns true if it is `folder` or lies below it.
    pub fn is_within(&self, folder: &Self) -> bool {
        self.0.starts_with(&folder.0)
    }

    /// Returns the path for system calls; `.` for the root.
    pub fn as_path(&self) -> &Path {
        if self.is_root() { Path::new(".") } else { &self.0 }
    }

    /// Returns its bytes, with `/` between components; empty for the root.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_os_str().as_bytes()
    }

    /// Returns the path relative to `base`, with `..` if it lies above; `.` for `base` itself.
    pub fn relative_to(&self, base: &Self) -> PathBuf {
        // Most calls come from the root, and a walk asks for every entry.
        if base.is_root() && !self.is_root() {
            return self.0.clone();
        }
        let shared = self.0.iter().zip(base.0.iter()).take_while(|(mine, theirs)| mine == theirs).count();
        let up = base.0.iter().skip(shared).map(|_| OsStr::new(".."));
        let path: PathBuf = up.chain(self.0.iter().skip(shared)).collect();
        if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_path().display())
    }
}

impl Serialize for WorkspacePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_seq(self.as_bytes()),
        }
    }
}

impl<'de> Deserialize<'de> for WorkspacePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A path as text, or as a list of bytes.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum StoredPath {
            Text(String),
            Bytes(Vec<u8>),
        }
        let path = match StoredPath::deserialize(deserializer)? {
            StoredPath::Text(text) => PathBuf::from(text),
            StoredPath::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
        };
        Self::new(&path).ok_or_else(|| de::Error::custom("a path that leaves the workspace"))
    }
}

/// Returns the index of the first glob that matches `path` or a folder that contains it.
pub fn first_matching(set: &GlobSet, path: &WorkspacePath) -> Option<usize> {
    let mut at = Some(path.clone());
    while let Some(path) = at.filter(|path| !path.is_root()) {
        if let Some(&index) = set.matches_candidate(&Candidate::new(path.as_path())).first() {
            return Some(index);
        }
        at = path.parent();
    }
    None
}

/// Most links in one path, as in Linux.
const LINKS_MAX: usize = 40;
/// Most names of a folder that one listing may read.
const LISTED_MAX: usize = 1_000;

/// Follows paths, and notes the links on their way.
#[derive(Debug, Default)]
pub struct LinkFollower {
    /// The links, each with its target.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Paths that are no links, each with true if it exists.
    known: HashMap<PathBuf, bool>,
    /// Names in listed folders, in lower case: some file systems ignore case.
    listed: HashMap<PathBuf, HashSet<OsString>>,
}

impl LinkFollower {
    /// Lists a canonical folder, so that no call is needed for the many names that are not in it. Returns its names; if it
    /// cannot be listed or is large, perhaps not all.
    #[expect(clippy::disallowed_methods, reason = "names of folders outside; nothing in them is read")]
    pub fn list(&mut self, folder: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().take(LISTED_MAX + 1);
        let names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
        if (1..=LISTED_MAX).contains(&names.len()) {
            let lower = names.iter().map(|name| name.to_ascii_lowercase()).collect();
            self.listed.insert(folder.to_owned(), lower);
        }
        names
    }

    /// Returns true if a folder was listed and a name was not in it. File systems may know another form of a name that
    /// is not ASCII.
    fn lacks(&self, folder: &Path, name: &OsStr) -> bool {
        name.is_ascii()
            && self.listed.get(folder).is_some_and(|names| !names.contains(&name.to_ascii_lowercase()))
    }

    /// Returns the canonical path of an absolute path; `None` if it does not exist.
    pub fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let (mut at, mut followed) = (PathBuf::from("/"), 0);
        let mut rest: Vec<OsString> = reversed(path);
        while let Some(part) = rest.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            if self.lacks(&at, &part) {
                return None;
            }
            let next = at.join(&part);
            match self.known.get(&next) {
                Some(true) => {
                    at = next;
                    continue;
                }
                Some(false) => return None,
                None => {}
            }
            match rustix::fs::readlink(&next, Vec::new()) {
                Ok(_) if followed == LINKS_MAX => return None,
                Ok(target) => {
                    let target = PathBuf::from(OsStr::from_bytes(target.as_bytes()));
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    rest.extend(reversed(&target));
                    self.links.insert(next, target);
                    followed += 1;
                }
                Err(Errno::INVAL) => {
                    self.known.insert(next.clone(), true);
                    at = next;
                }
                Err(_) => {
                    self.known.insert(next, false);
                    return None;
                }
            }
        }
        Some(at)
    }
}

/// Returns the names in a path, the last one first.
fn reversed(path: &Path) -> Vec<OsString> {
    let is_name = |part: &Component<'_>| !matches!(part, Component::RootDir | Component::CurDir);
    let mut parts: Vec<OsString> =
        path.components().filter(is_name).map(|part| part.as_os_str().to_owned()).collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_path_is_computed_from_any_directory() {
        let path = |text: &str| WorkspacePath::new(Path::new(text)).unwrap();
        for (file, base, seen) in [
            ("a/b.rs", "", "a/b.rs"),
            ("a/b.rs", "a", "b.rs"),
            ("b.rs", "a", "../b.rs"),
            ("a/x/b", "a/y", "../x/b"),
            ("a", "a", "."),
            ("", "a/b", "../.."),
        ] {
            assert_eq!(path(file).relative_to(&path(base)), Path::new(seen), "{file} from {base}");
        }
        assert!(WorkspacePath::new(Path::new("a/../b")).is_none());
        assert!(WorkspacePath::new(Path::new("/a")).is_none());
    }

    #[test]
    fn paths_compare_by_component() {
        let texts =
            ["", "a", "a/b", "a/b/c", "a-b", "a.b", "a b/c", "ab", "a/-", "a/\u{1}", "A", "\u{1}", "b"];
        // After a start of several lengths, as a long start is compared in groups.
        let starts = ["", "folder/", "folder-", "a/long/name/of/17", "\u{1}/8 bytes"];
        let texts: Vec<String> =
            starts.iter().flat_map(|start| texts.map(|text| format!("{start}{text}"))).collect();
        for (one, other) in texts.iter().flat_map(|one| texts.iter().map(move |other| (one, other))) {
            let path = |text: &str| WorkspacePath::new(Path::new(text)).unwrap();
            assert_eq!(
                path(one).cmp(&path(other)),
                Path::new(one).cmp(Path::new(other)),
                "{one:?} {other:?}"
            );
            assert_eq!(path(one) == path(other), one == other);
        }
        assert_eq!(WorkspacePath::new(Path::new("./a//b/")), WorkspacePath::new(Path::new("a/b")));
    }

    #[test]
    fn non_utf8_path_survives_the_state_file() {
        let path = WorkspacePath::new(Path::new(OsStr::from_bytes(b"a/\xff"))).unwrap();
        let json = serde_json::to_string(&path).unwrap();
        assert_eq!(serde_json::from_str::<WorkspacePath>(&json).unwrap(), path);
        assert!(serde_json::from_str::<WorkspacePath>("\"../x\"").is_err());
    }

    #[test]
    fn symlink_loop_resolves_to_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("b")).unwrap();
        assert_eq!(LinkFollower::default().follow(&folder.path().join("a/c")), None);
    }
}
