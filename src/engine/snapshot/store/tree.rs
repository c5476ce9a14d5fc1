//! Trees and the names in them: looking paths up, rewriting the trees on them, carrying a moved HEAD over.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::error::ResultExt as _;
use gix::objs::tree::{Editor, Entry, EntryKind, EntryMode};
use gix::objs::{Kind, Tree, TreeRef, WriteTo as _};
use gix::validate::path::component;

use super::error::{Context as _, SnapshotError};
use super::repo::Repo;
use crate::engine::workspace::protect::is_held;

/// Deepest nesting of trees that is written and followed, in folders: the cost of each level grows
/// with its depth, and git itself stops at 2,048.
pub const DEPTH_MAX: usize = 1024;
/// Most folders that are opened to carry a moved HEAD over: a tree may name one folder a thousand
/// times, on each of ten levels.
const FOLDERS_MAX: usize = 500_000;

/// Entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeItem {
    /// Kind of entry.
    pub kind: EntryKind,
    /// The object behind it.
    pub id: ObjectId,
}

impl TreeItem {
    /// Returns true if it is a regular file.
    pub const fn is_file(self) -> bool {
        matches!(self.kind, EntryKind::Blob | EntryKind::BlobExecutable)
    }
}

/// Result of looking a path up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing is there.
    Nothing,
    /// This is there.
    Entry(TreeItem),
    /// The first so many bytes of the path lead to this, which is no tree.
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

/// Looks `path` up in the tree `root` by the entries that `entry` finds.
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
    if tree.is_empty_tree() {
        return Ok(None);
    }
    let object = repo.find_tree(tree).context(|| format!("the tree {tree} cannot be read"))?;
    for entry in object.iter() {
        let entry = entry.context(|| format!("the tree {tree} is damaged"))?;
        if entry.filename == name {
            return Ok(Some(TreeItem { kind: entry.mode.kind(), id: entry.oid.to_owned() }));
        }
    }
    Ok(None)
}

/// One path to be rewritten.
#[derive(Debug, Clone)]
pub struct TreeEdit<'a> {
    /// The path from the root.
    pub path: Cow<'a, [u8]>,
    /// Target; `None` to remove it.
    pub to: Option<TreeItem>,
}

/// Rewrites the trees on the paths of `edits`; answers the new root.
///
/// Removals come first, so that a folder can take the place of a file, and a file that of a folder.
pub fn apply(repo: &Repo, root: ObjectId, edits: &[TreeEdit<'_>]) -> Result<ObjectId, SnapshotError> {
    let trees = InOrder(repo);
    let mut editor = Editor::new(read(repo, root)?, &trees, repo.object_hash());
    for edit in edits.iter().filter(|edit| edit.to.is_none()) {
        editor.remove(components(&edit.path)).context(|| shown("cannot remove", &edit.path))?;
    }
    for edit in edits {
        if let Some(found) = edit.to {
            editor
                .upsert(components(&edit.path), found.kind, found.id)
                .context(|| shown("cannot enter", &edit.path))?;
        }
    }
    editor.write(|tree| write(repo, tree))
}

/// Names a path in a message.
fn shown(what: &str, path: &[u8]) -> String {
    format!("{what} `{}`", path.to_str_lossy())
}

/// Returns true if a name in a tree or an index is one component of a path. Trees come with a clone, and any
/// bytes may stand in them.
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

/// Reads a tree whole.
fn read(repo: &Repo, id: ObjectId) -> Result<Tree, SnapshotError> {
    if id.is_empty_tree() {
        return Ok(Tree::empty());
    }
    let object = repo.find_tree(id).context(|| format!("the tree {id} cannot be read"))?;
    let tree =
        TreeRef::from_bytes(object.data(), id.kind()).context(|| format!("the tree {id} is damaged"))?;
    Ok(in_order(Tree::from(tree)))
}

/// Returns the tree with its entries as git orders them, each once: one that came with a clone may have them in
/// any order, and is searched and written as if it had not.
fn in_order(mut tree: Tree) -> Tree {
    if !tree.entries.is_sorted() {
        tree.entries.sort();
    }
    tree.entries.dedup_by(|one, other| one.filename == other.filename);
    tree
}

/// The trees of a repository, each [`in_order`].
struct InOrder<'r>(&'r Repo);

impl gix::objs::Find for InOrder<'_> {
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

/// Returns the tree `ours`, with every path that differs between `old` and `new` as `new` has it.
///
/// Trees that are equal are never opened, so the cost follows what both sides changed in
/// the same folders, and not the size of the repository.
pub fn carry_over(
    repo: &Repo,
    ours: ObjectId,
    old: ObjectId,
    new: ObjectId,
) -> Result<ObjectId, SnapshotError> {
    Carrier { repo, folders_left: Cell::new(FOLDERS_MAX) }.carry_over(Three { ours, old, new }, 0)
}

/// Carries what differs between two trees over to a third.
struct Carrier<'r> {
    /// The repository.
    repo: &'r Repo,
    /// How many more folders may be opened.
    folders_left: Cell<usize>,
}

/// Three versions of one tree.
#[derive(Clone, Copy)]
struct Three {
    /// As the last snapshot has it.
    ours: ObjectId,
    /// As the HEAD known to it has it.
    old: ObjectId,
    /// As the present HEAD has it.
    new: ObjectId,
}

impl Carrier<'_> {
    /// [`carry_over`] of trees that lie `depth` folders deep.
    fn carry_over(&self, trees: Three, depth: usize) -> Result<ObjectId, SnapshotError> {
        let repo = self.repo;
        let Three { ours, old, new } = trees;
        if old == new || ours == new {
            return Ok(ours);
        }
        if ours == old || depth >= DEPTH_MAX {
            return Ok(new);
        }
        let left = self.folders_left.get().checked_sub(1);
        self.folders_left.set(left.ok_or_else(|| SnapshotError::new("HEAD differs in too many folders"))?);
        let (mut mine, old, new) = (by_name(repo, ours)?, by_name(repo, old)?, by_name(repo, new)?);
        for name in differing(&old, &new) {
            match self.merged(mine.get(name), old.get(name), new.get(name), depth)? {
                Some(entry) => mine.insert(name.clone(), entry),
                None => mine.remove(name),
            };
        }
        let mut entries: Vec<Entry> = mine.into_values().collect();
        entries.sort();
        write(repo, &Tree { entries })
    }

    /// One entry of the merged tree; `None` where there shall be none.
    fn merged(
        &self,
        ours: Option<&Entry>,
        old: Option<&Entry>,
        new: Option<&Entry>,
        depth: usize,
    ) -> Result<Option<Entry>, SnapshotError> {
        // What is no tree counts as an empty one: it has nothing below it that could be kept.
        let below = |entry: Option<&Entry>| match entry {
            Some(entry) if entry.mode.is_tree() => entry.oid,
            _ => ObjectId::empty_tree(self.repo.object_hash()),
        };
        let is_tree = |entry: Option<&Entry>| entry.is_some_and(|entry| entry.mode.is_tree());
        let Some(kept) = ours.filter(|_| is_tree(ours) && (is_tree(new) || (new.is_none() && is_tree(old))))
        else {
            return Ok(new.cloned());
        };
        let trees = Three { ours: below(ours), old: below(old), new: below(new) };
        let id = self.carry_over(trees, depth + 1)?;
        let mode = EntryMode::from(EntryKind::Tree);
        Ok((!id.is_empty_tree()).then(|| Entry { mode, filename: kept.filename.clone(), oid: id }))
    }
}

/// Returns the names whose entries differ between two trees.
fn differing<'a>(old: &'a Entries, new: &'a Entries) -> Vec<&'a BString> {
    let changed = old.iter().filter(|(name, entry)| new.get(*name) != Some(*entry)).map(|(name, _)| name);
    let added = new.keys().filter(|name| !old.contains_key(*name));
    changed.chain(added).collect()
}

/// The entries of a tree by their names, whether they are trees or not.
pub type Entries = BTreeMap<BString, Entry>;

/// Reads a tree for looking names up.
pub fn by_name(repo: &Repo, tree: ObjectId) -> Result<Entries, SnapshotError> {
    Ok(read(repo, tree)?.entries.into_iter().map(|entry| (entry.filename.clone(), entry)).collect())
}

/// Most entries of trees that are kept between two lookups.
const ENTRIES_MAX: usize = 200_000;

/// A tree with all below it. The trees on the way to the paths looked up are kept, up to a bound.
#[derive(Debug)]
pub struct Trees {
    /// Id of the root.
    root: ObjectId,
    /// Trees that were read, by id.
    listings: HashMap<ObjectId, Listing>,
    /// Number of entries in them.
    entries: usize,
}

impl Trees {
    /// Starts at the tree `root`, which is read when it is needed.
    pub fn of(root: ObjectId) -> Self {
        Self { root, listings: HashMap::new(), entries: 0 }
    }

    /// Looks `path` up. A walk reads each tree about once.
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
        if self.entries + listing.entries.len() > ENTRIES_MAX {
            self.listings.clear();
            self.entries = 0;
        }
        self.entries += listing.entries.len();
        self.listings.insert(tree, listing);
        Ok(found)
    }
}

/// The entries of a tree, by name: a tree may come in any order.
#[derive(Debug, Default)]
struct Listing {
    /// All names behind each other.
    names: Vec<u8>,
    /// Range of each name in `names`, and the entry.
    entries: Vec<(Range<usize>, TreeItem)>,
}

impl Listing {
    /// Reads the tree `id`.
    fn read(repo: &Repo, id: ObjectId) -> Result<Self, SnapshotError> {
        let mut listing = Self::default();
        if id.is_empty_tree() {
            return Ok(listing);
        }
        let object = repo.find_tree(id)?;
        for entry in object.iter() {
            let entry = entry.context(|| format!("the tree {id} is damaged"))?;
            let start = listing.names.len();
            listing.names.extend_from_slice(entry.filename);
            let found = TreeItem { kind: entry.mode.kind(), id: entry.oid.to_owned() };
            listing.entries.push((start..listing.names.len(), found));
        }
        let names = &listing.names;
        // Of two with one name the first counts, as when the tree is read from its start.
        listing.entries.sort_by(|(one, _), (other, _)| names.get(one.clone()).cmp(&names.get(other.clone())));
        Ok(listing)
    }

    /// Returns the entry `name`.
    fn entry(&self, name: &[u8]) -> Option<TreeItem> {
        let at = self.entries.partition_point(|(range, _)| self.names.get(range.clone()) < Some(name));
        let (range, found) = self.entries.get(at)?;
        (self.names.get(range.clone()) == Some(name)).then_some(*found)
    }
}

/// The files that hold rules, in every folder.
pub const RULE_FILES: [&[u8]; 2] = [b".gitignore", b".gitattributes"];

/// Rules for the names in a snapshot. Device names of Windows are not among them.
const NAMES: component::Options =
    component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };

/// The folder of lbx's own files, wherever it is.
const STATE_FOLDER: &[u8] = b".lbx";
/// The one file in it that may enter.
const STATE_FILE: &[u8] = b"config.toml";

/// Returns true if git takes every part of the path, and none is lbx's own folder: of that, only the policy
/// enters, which git sees too.
pub fn is_name(path: &[u8], is_link: bool) -> bool {
    let is_own = path.split(|byte| *byte == b'/').any(|name| name == b".lbx");
    let last = path.rsplit(|byte| *byte == b'/').next();
    may_enter(path)
        && !(is_own && is_link)
        && path.split(|byte| *byte == b'/').all(|name| {
            let mode = (is_link && Some(name) == last).then_some(component::Mode::Symlink);
            // Git reads a backslash as a separator where it checks a repository.
            let parts_ok = name.split(|byte| *byte == b'\\').filter(|part| !part.is_empty());
            !name.contains(&0)
                && gix::validate::path::component(BStr::new(name), mode, NAMES).is_ok()
                && parts_ok.into_iter().all(|part| {
                    matches!(part, b"." | b"..")
                        || gix::validate::path::component(BStr::new(part), None, NAMES).is_ok()
                })
        })
}

/// Returns true if a path is no file of lbx's own, or the one among them that is the developer's to keep. A
/// repository that lbx moved aside is in no snapshot.
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

/// Returns true if a path is the folder of lbx's own files, and in no other such folder.
pub fn may_hold_policy(folder: &[u8]) -> bool {
    let parent = folder.strip_suffix(STATE_FOLDER);
    parent.is_some_and(|parent| (parent.is_empty() || parent.ends_with(b"/")) && may_enter(parent))
}

/// Returns true if a path lies deeper than a snapshot goes.
#[must_use]
pub fn is_too_deep(path: &[u8]) -> bool {
    memchr::memchr_iter(b'/', path).nth(DEPTH_MAX).is_some()
}

/// Returns every folder on the way to `path`, the root (empty) first.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_lbx_only_the_policy_may_enter() {
        let paths: [(&[u8], bool); 10] = [
            (b"a/b", true),
            (b".lbx/config.toml", true),
            (b"sub/.lbx/config.toml", true),
            (b".LBX/config.toml", false),
            (b".lbx/state.json", false),
            (b".lbx/xconfig.toml", false),
            (b".lbx/config.toml/x", false),
            (b".lbx/trash/.lbx/config.toml", false),
            (b".lbx", false),
            (b"x.lbx/config.toml", true),
        ];
        for (path, may) in paths {
            assert_eq!(may_enter(path), may, "{}", path.as_bstr());
        }
    }
}
