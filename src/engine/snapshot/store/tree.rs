//! Trees and their entries: looks paths up, rewrites trees, and applies the changes of a moved HEAD.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::error::ResultExt as _;
use gix::objs::tree::{Editor, Entry, EntryKind, EntryMode, EntryRef};
use gix::objs::{Kind, Tree, TreeRef, WriteTo as _};
use gix::validate::path::component;
use serde::{Deserialize, Serialize};

use super::repo::{Repo, Tree as FoundTree, has_id};
use super::{ErrorContext as _, SnapshotError};
use crate::engine::workspace::protect::is_held;
use crate::engine::workspace::resolve::PATH_BYTES_MAX;
use crate::engine::workspace::survey::paired;
use crate::limits::{CACHED_ENTRIES_MAX, SNAPSHOT_FILE_BYTES_MAX, TREE_DEPTH_MAX, TREE_FOLDERS_MAX};

/// Entry of a tree, or a version of a file: without its name. Stored as mode and id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TreeItem {
    /// Kind of entry.
    pub kind: EntryKind,
    /// Its object.
    pub id: ObjectId,
}

/// Version of a file in a snapshot, with its bytes as they may have been on disk.
pub type EarlierFile = (TreeItem, Vec<u8>);

impl TreeItem {
    /// Returns the part of an entry that does not depend on its name.
    pub fn of(entry: &Entry) -> Self {
        Self { kind: entry.mode.kind(), id: entry.oid }
    }

    /// Returns true if it is a regular file.
    pub const fn is_file(self) -> bool {
        matches!(self.kind, EntryKind::Blob | EntryKind::BlobExecutable)
    }

    /// Returns its mode, as git writes it.
    pub const fn mode(self) -> &'static str {
        match self.kind {
            EntryKind::Tree => "040000",
            EntryKind::Blob => "100644",
            EntryKind::BlobExecutable => "100755",
            EntryKind::Link => "120000",
            EntryKind::Commit => "160000",
        }
    }
}

impl From<TreeItem> for String {
    fn from(item: TreeItem) -> Self {
        format!("{} {}", item.mode(), item.id)
    }
}

impl TryFrom<String> for TreeItem {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let kinds = [EntryKind::Blob, EntryKind::BlobExecutable, EntryKind::Link, EntryKind::Commit];
        let item = text.split_once(' ').and_then(|(mode, id)| {
            let id = ObjectId::from_hex(id.as_bytes()).ok()?;
            kinds.map(|kind| Self { kind, id }).into_iter().find(|item| item.mode() == mode)
        });
        item.ok_or("no version of a file")
    }
}

/// Result of a path lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Not found.
    Nothing,
    /// Found.
    Entry(TreeItem),
    /// Length of the part of the path that leads to this entry, which is not a tree.
    Blocked(usize, TreeItem),
}

impl Lookup {
    /// Returns the entry at the whole path.
    pub fn entry(self) -> Option<TreeItem> {
        match self {
            Self::Entry(found) => Some(found),
            Self::Nothing | Self::Blocked(..) => None,
        }
    }
}

/// Looks `path` up in the tree `root`.
pub fn look_up(repo: &Repo, root: ObjectId, path: &[u8]) -> Result<Lookup, SnapshotError> {
    look_up_by(root, path, |tree, name| entry_named(repo, tree, name))
}

/// Looks `path` up in the tree `root`, where `entry` finds the entries of each tree.
fn look_up_by(
    root: ObjectId,
    path: &[u8],
    mut entry: impl FnMut(ObjectId, &[u8]) -> Result<Option<TreeItem>, SnapshotError>,
) -> Result<Lookup, SnapshotError> {
    let (mut tree, mut end) = (root, 0);
    for name in path.split(|byte| *byte == b'/') {
        end += name.len();
        match entry(tree, name)? {
            None => break,
            Some(found) if end >= path.len() => return Ok(Lookup::Entry(found)),
            Some(found) if found.kind != EntryKind::Tree => return Ok(Lookup::Blocked(end, found)),
            Some(found) => tree = found.id,
        }
        end += 1;
    }
    Ok(Lookup::Nothing)
}

/// Returns the entry `name` of one tree.
fn entry_named(repo: &Repo, tree: ObjectId, name: &[u8]) -> Result<Option<TreeItem>, SnapshotError> {
    let object = find(repo, tree)?;
    for entry in object.iter().flat_map(FoundTree::iter) {
        let entry = entry.context(|| format!("the tree {tree} is damaged"))?;
        if entry.filename == name {
            return Ok(Some(TreeItem { kind: entry.mode.kind(), id: entry.oid.to_owned() }));
        }
    }
    Ok(None)
}

/// Change of one path.
#[derive(Debug, Clone)]
pub struct TreeEdit<'a> {
    /// The path from the root.
    pub path: Cow<'a, [u8]>,
    /// New entry; `None` to remove it.
    pub to: Option<TreeItem>,
}

/// Rewrites the trees on the paths of `edits`; returns the new root.
///
/// Applies removals first, so that a folder can replace a file, and a file a folder.
pub fn apply(repo: &Repo, root: ObjectId, edits: &[TreeEdit<'_>]) -> Result<ObjectId, SnapshotError> {
    let trees = OrderedTrees(repo);
    let mut editor = Editor::new(read(repo, root)?, &trees, repo.object_hash());
    for edit in edits.iter().filter(|edit| edit.to.is_none()) {
        editor.remove(components(&edit.path)).context(|| path_message("cannot remove", &edit.path))?;
    }
    for edit in edits {
        if let Some(found) = edit.to {
            editor
                .upsert(components(&edit.path), found.kind, found.id)
                .context(|| path_message("cannot enter", &edit.path))?;
        }
    }
    editor.write(|tree| write(repo, tree))
}

/// Returns a message about a path.
fn path_message(what: &str, path: &[u8]) -> String {
    format!("{what} `{}`", path.to_str_lossy())
}

/// Returns true if a name in a tree or an index is one valid path component. Trees come with a clone, and may hold any
/// bytes.
pub fn is_safe_name(name: impl AsRef<[u8]>) -> bool {
    let name = name.as_ref();
    !matches!(name, b"" | b"." | b"..")
        && !name.contains(&b'/')
        && !name.contains(&0)
        && !name.eq_ignore_ascii_case(b".git")
}

/// Returns the components of a path.
fn components(path: &[u8]) -> impl Iterator<Item = &BStr> {
    path.split(|byte| *byte == b'/').map(BStr::new)
}

/// Finds a tree; `None` for the empty one, which need not be there.
fn find(repo: &Repo, id: ObjectId) -> Result<Option<FoundTree>, SnapshotError> {
    let tree = (!id.is_empty_tree()).then(|| repo.find_tree(id)).transpose();
    tree.context(|| format!("the tree {id} cannot be read"))
}

/// Parses a tree that was found.
fn parsed(id: ObjectId, tree: Option<&FoundTree>) -> Result<TreeRef<'_>, SnapshotError> {
    let Some(tree) = tree else { return Ok(TreeRef::empty()) };
    TreeRef::from_bytes(tree.data(), id.kind()).context(|| format!("the tree {id} is damaged"))
}

/// Reads a tree whole.
fn read(repo: &Repo, id: ObjectId) -> Result<Tree, SnapshotError> {
    Ok(in_order(Tree::from(parsed(id, find(repo, id)?.as_ref())?)))
}

/// Returns the entries of a tree that was found, in the order of their names; of duplicate names the first.
fn entries(id: ObjectId, tree: Option<&FoundTree>) -> Result<Vec<EntryRef<'_>>, SnapshotError> {
    let mut entries = parsed(id, tree)?.entries;
    entries.sort_by_key(|entry| entry.filename);
    entries.dedup_by_key(|entry| entry.filename);
    Ok(entries)
}

/// Returns the tree with its entries in git's order, each once: one from a clone may be out of order, and lookups and
/// writes need the order.
fn in_order(mut tree: Tree) -> Tree {
    if !tree.entries.is_sorted() {
        tree.entries.sort();
    }
    tree.entries.dedup_by(|one, other| one.filename == other.filename);
    tree
}

/// Source of trees, each [`in_order`].
struct OrderedTrees<'r>(&'r Repo);

impl gix::objs::Find for OrderedTrees<'_> {
    fn try_find<'b>(
        &self,
        id: &gix::hash::oid,
        buffer: &'b mut Vec<u8>,
    ) -> gix::error::Result<Option<gix::objs::Data<'b>>> {
        let Some(found) = gix::objs::Find::try_find(self.0, id, buffer)? else { return Ok(None) };
        let (kind, object_hash) = (found.kind, found.object_hash);
        if kind == Kind::Tree {
            let tree = in_order(Tree::from(TreeRef::from_bytes(found.data, object_hash)?));
            buffer.clear();
            tree.write_to(buffer).or_error()?;
        }
        Ok(Some(gix::objs::Data { kind, object_hash, data: buffer }))
    }
}

/// Writes a tree.
fn write(repo: &Repo, tree: &Tree) -> Result<ObjectId, SnapshotError> {
    repo.write_object(tree).context(|| "cannot write a tree".into())
}

/// Returns the tree `ours`, with every path that differs between `old` and `new` as in `new`; a file that is neither is
/// kept if it still is on disk, since a commit of a part of the changes leaves it there.
///
/// Equal trees are never opened, so the cost depends on the folders that both sides changed, and not on the size of the
/// repository.
pub fn apply_changes(
    repo: &Repo,
    ours: ObjectId,
    old: ObjectId,
    new: ObjectId,
) -> Result<ObjectId, SnapshotError> {
    let mut folders_left = TREE_FOLDERS_MAX;
    apply_folder_changes(repo, TreeVersions { ours, old, new }, &mut Vec::new(), &mut folders_left)
}

/// Returns true if the work tree has this file in the folder `at`, with these very bytes; `None` for no file.
fn is_on_disk(repo: &Repo, at: &[BString], name: &BString, entry: Option<&Entry>) -> bool {
    let mut path: Vec<u8> = at.iter().flat_map(|folder| [folder.as_slice(), b"/"].concat()).collect();
    path.extend_from_slice(name);
    let found = repo.work_tree().read(OsStr::from_bytes(&path), SNAPSHOT_FILE_BYTES_MAX);
    match (found, entry) {
        (Ok(None), None) => true,
        (Ok(Some(bytes)), Some(entry)) if entry.mode.is_blob() => has_id(entry.oid, Kind::Blob, &bytes),
        _ => false,
    }
}

/// Three versions of one tree.
#[derive(Clone, Copy)]
struct TreeVersions {
    /// Last snapshot.
    ours: ObjectId,
    /// HEAD that it recorded.
    old: ObjectId,
    /// Present HEAD.
    new: ObjectId,
}

/// Runs [`carry_over`] on the trees of the folder `at`; opens at most `left` folders.
fn apply_folder_changes(
    repo: &Repo,
    trees: TreeVersions,
    at: &mut Vec<BString>,
    left: &mut usize,
) -> Result<ObjectId, SnapshotError> {
    let TreeVersions { ours, old, new } = trees;
    if old == new || ours == new {
        return Ok(ours);
    }
    if ours == old || at.len() >= TREE_DEPTH_MAX {
        return Ok(new);
    }
    *left = left.checked_sub(1).ok_or_else(|| SnapshotError::new("HEAD differs in too many folders"))?;
    let mut mine = by_name(repo, ours)?;
    let below = |entry: Option<&Entry>| below(repo, entry);
    let is_tree = |entry: Option<&Entry>| entry.is_some_and(|entry| entry.mode.is_tree());
    for (name, before, after) in differing(repo, old, new)? {
        let (before, after, ours) = (before.as_ref(), after.as_ref(), mine.get(&name));
        let is_file = ![ours, before, after].into_iter().any(is_tree);
        let entry = match ours.filter(|ours| ours.mode.is_tree()) {
            Some(_) if is_tree(after) || (after.is_none() && is_tree(before)) => {
                let trees = TreeVersions { ours: below(ours), old: below(before), new: below(after) };
                at.push(name.clone());
                let id = apply_folder_changes(repo, trees, at, left)?;
                at.pop();
                let mode = EntryMode::from(EntryKind::Tree);
                (!id.is_empty_tree()).then(|| Entry { mode, filename: name.clone(), oid: id })
            }
            _ if is_file && ours != before && ours != after && is_on_disk(repo, at, &name, ours) => {
                ours.cloned()
            }
            _ => after.cloned(),
        };
        match entry {
            Some(entry) => mine.insert(name, entry),
            None => mine.remove(&name),
        };
    }
    let mut entries: Vec<Entry> = mine.into_values().collect();
    entries.sort();
    write(repo, &Tree { entries })
}

/// Returns the tree of an entry; an empty one for a file, below which there is nothing.
pub fn below(repo: &Repo, entry: Option<&Entry>) -> ObjectId {
    let tree = entry.filter(|entry| entry.mode.is_tree());
    tree.map_or_else(|| ObjectId::empty_tree(repo.object_hash()), |entry| entry.oid)
}

/// An entry that differs between two trees: its name, and the entry in each.
pub type TreeDifference = (BString, Option<Entry>, Option<Entry>);

/// Returns the entries that differ between two trees, in the order of their names.
pub fn differing(repo: &Repo, old: ObjectId, new: ObjectId) -> Result<Vec<TreeDifference>, SnapshotError> {
    let (old_tree, new_tree) = (find(repo, old)?, find(repo, new)?);
    let (old, new) = (entries(old, old_tree.as_ref())?, entries(new, new_tree.as_ref())?);
    // Most are equal, so only those that differ are copied.
    let pairs =
        paired(&old, &new, |one, other| one.filename.cmp(other.filename)).filter(|(old, new)| old != new);
    let copy = |entry: Option<&EntryRef<'_>>| entry.copied().map(Entry::from);
    let named = pairs.filter_map(|(old, new)| Some((old.or(new)?.filename.to_owned(), copy(old), copy(new))));
    Ok(named.collect())
}

/// Entries of a tree by name, of any kind.
pub type Entries = BTreeMap<BString, Entry>;

/// Reads a tree for looking names up.
pub fn by_name(repo: &Repo, tree: ObjectId) -> Result<Entries, SnapshotError> {
    Ok(read(repo, tree)?.entries.into_iter().map(|entry| (entry.filename.clone(), entry)).collect())
}

/// A tree and everything below it. Caches the trees on the way to the paths looked up, up to a bound.
#[derive(Debug)]
pub struct Trees {
    /// Id of the root.
    pub(in crate::engine::snapshot) root: ObjectId,
    /// Trees that were read, by id.
    listings: HashMap<ObjectId, Listing>,
    /// Number of entries in them.
    entries: usize,
}

impl Trees {
    /// Starts at the tree `root`, which is read when needed.
    pub fn of(root: ObjectId) -> Self {
        Self { root, listings: HashMap::new(), entries: 0 }
    }

    /// Looks `path` up. Reads each tree about once during a walk.
    ///
    /// # Errors
    /// Fails if a tree on the way cannot be read.
    pub fn look_up(&mut self, repo: &Repo, path: &[u8]) -> Result<Lookup, SnapshotError> {
        look_up_by(self.root, path, |tree, name| self.entry(repo, tree, name))
    }

    /// Finds the entry `name` of one tree.
    fn entry(&mut self, repo: &Repo, tree: ObjectId, name: &[u8]) -> Result<Option<TreeItem>, SnapshotError> {
        if let Some(known) = self.listings.get(&tree) {
            return Ok(known.entry(name));
        }
        let listing = Listing::read(repo, tree)?;
        let found = listing.entry(name);
        if self.entries + listing.entries.len() > CACHED_ENTRIES_MAX {
            self.listings.clear();
            self.entries = 0;
        }
        self.entries += listing.entries.len();
        self.listings.insert(tree, listing);
        Ok(found)
    }
}

/// Entries of a tree, sorted by name: a tree may come in any order.
#[derive(Debug, Default)]
struct Listing {
    /// All names, concatenated.
    names: Vec<u8>,
    /// Range of each name in `names`, and the entry.
    entries: Vec<(Range<usize>, TreeItem)>,
}

impl Listing {
    /// Reads the tree `id`.
    fn read(repo: &Repo, id: ObjectId) -> Result<Self, SnapshotError> {
        let mut listing = Self::default();
        for entry in entries(id, find(repo, id)?.as_ref())? {
            let start = listing.names.len();
            listing.names.extend_from_slice(entry.filename);
            let found = TreeItem { kind: entry.mode.kind(), id: entry.oid.to_owned() };
            listing.entries.push((start..listing.names.len(), found));
        }
        Ok(listing)
    }

    /// Returns the entry `name`.
    fn entry(&self, name: &[u8]) -> Option<TreeItem> {
        let at = self.entries.partition_point(|(range, _)| self.names.get(range.clone()) < Some(name));
        let (range, found) = self.entries.get(at)?;
        (self.names.get(range.clone()) == Some(name)).then_some(*found)
    }
}

/// Rule files, which any folder may have.
pub const RULE_FILES: [&[u8]; 2] = [b".gitignore", b".gitattributes"];

/// Rules for names in a snapshot. Windows device names are allowed.
const NAMES: component::Options =
    component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };

/// Folder of lbx's own files, anywhere in the tree.
const STATE_FOLDER: &[u8] = b".lbx";
/// Only file in it that may enter.
const STATE_FILE: &[u8] = b"config.toml";

/// Returns true if git accepts every part of the path, and it is not in lbx's own folder, except for the policy
/// file, which git sees too.
pub fn is_name(path: &[u8], is_link: bool) -> bool {
    let is_own = path.split(|byte| *byte == b'/').any(|name| name == b".lbx");
    let last = path.rsplit(|byte| *byte == b'/').next();
    may_enter(path)
        && !(is_own && is_link)
        && path.split(|byte| *byte == b'/').all(|name| {
            let mode = (is_link && Some(name) == last).then_some(component::Mode::Symlink);
            // Git treats a backslash as a separator when it checks a repository.
            let parts_ok = name.split(|byte| *byte == b'\\').filter(|part| !part.is_empty());
            !name.contains(&0)
                && gix::validate::path::component(BStr::new(name), mode, NAMES).is_ok()
                && parts_ok.into_iter().all(|part| {
                    matches!(part, b"." | b"..")
                        || gix::validate::path::component(BStr::new(part), None, NAMES).is_ok()
                })
        })
}

/// Returns true if a path is not one of lbx's own files, or is the policy file, which the developer keeps. A
/// repository that lbx moved aside enters no snapshot.
pub fn may_enter(path: &[u8]) -> bool {
    if path.split(|byte| *byte == b'/').any(is_held) {
        return false;
    }
    let is_own =
        |path: &[u8]| path.split(|byte| *byte == b'/').any(|name| name.eq_ignore_ascii_case(STATE_FOLDER));
    let folder =
        path.strip_suffix(STATE_FILE).filter(|folder| may_hold_policy(folder.trim_end_with(|c| c == '/')));
    !is_own(path) || folder.is_some_and(|folder| folder.ends_with(b"/"))
}

/// Returns true if a path is a folder of lbx's own files, and not inside another such folder.
pub fn may_hold_policy(folder: &[u8]) -> bool {
    let parent = folder.strip_suffix(STATE_FOLDER);
    parent.is_some_and(|parent| (parent.is_empty() || parent.ends_with(b"/")) && may_enter(parent))
}

/// Returns true if a path is deeper than a snapshot goes, or longer than any that can be opened.
pub fn is_too_deep(path: &[u8]) -> bool {
    path.len() > PATH_BYTES_MAX || memchr::memchr_iter(b'/', path).nth(TREE_DEPTH_MAX).is_some()
}

/// Returns every folder above `path`, the root (empty) first.
pub fn folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    std::iter::once(0).chain(slashes).filter_map(|at| path.get(..at))
}

/// Returns the path of `name` in `folder`.
pub fn joined(folder: &[u8], name: &[u8]) -> BString {
    let mut path = BString::from(folder);
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
