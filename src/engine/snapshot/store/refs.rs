//! References, read beneath opened folders: `HEAD`, loose ones, packed ones.
//!
//! A reference that is a link, a FIFO or larger than one can be is refused, and what stands in it is
//! never quoted.

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::refs::{FullName, FullNameRef};
use rustix::fs::Stat;
use rustix::io::Errno;

use super::error::{Doing as _, SnapshotError};
use super::held::HeldFolder;
use super::ordinary::REF_BYTES_MAX;
use super::repo::Repo;

/// How many references in a row may be symbolic; git stops there too.
const SYMBOLIC_MAX: usize = 5;
/// How many tags in a row may point to each other.
const TAGS_MAX: usize = 16;
/// Where the other names of a reference are looked for, as git does.
const PREFIXES: [&str; 5] = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
/// References of a linked worktree's own.
const OF_WORKTREE: [&str; 3] = ["refs/bisect/", "refs/worktree/", "refs/rewritten/"];

/// What a reference names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefTarget {
    /// An object.
    Id(ObjectId),
    /// Another reference.
    Symbolic(FullName),
}

/// What the reference `name` names; `None` where there is none.
///
/// # Errors
/// Where it is no reference, or cannot be read.
pub fn find(repo: &Repo, name: &FullNameRef) -> Result<Option<RefTarget>, SnapshotError> {
    let shown = || format!("the reference `{}`", name.as_bstr());
    let text = name.as_bstr().to_str().doing(|| format!("{} cannot be read", shown()))?;
    match stat(repo, text) {
        Ok(found) => find_at(repo, name, found),
        // A name that is too long for a file may still be a packed one.
        Err(Errno::NOTDIR | Errno::NAMETOOLONG) => packed(repo, name),
        Err(errno) => Err(errno).doing(|| format!("{} is reached through a link", shown())),
    }
}

/// What stands at the path of a reference.
///
/// # Errors
/// What the system says; `ENOTDIR` or `ELOOP` where a link or a file is on the way.
pub fn stat(repo: &Repo, text: &str) -> Result<Option<Stat>, Errno> {
    match branch_name(text) {
        Some(name) => repo.heads()?.map_or(Ok(None), |heads| heads.stat(name)),
        None => folder_of(repo, text).stat(text),
    }
}

/// The bytes of a reference that looked like `found`, a regular file, a moment ago.
fn read(repo: &Repo, text: &str, found: &Stat) -> std::io::Result<Option<Vec<u8>>> {
    match branch_name(text) {
        Some(name) => repo.heads()?.map_or(Ok(None), |heads| heads.read_found(name, found, REF_BYTES_MAX)),
        None => folder_of(repo, text).read_found(text, found, REF_BYTES_MAX),
    }
}

/// The name of a branch that lies in no folder below that of the branches.
pub fn branch_name(text: &str) -> Option<&str> {
    text.strip_prefix("refs/heads/").filter(|name| !name.contains('/'))
}

/// What the reference `name` names, where `found` stands at its path.
///
/// # Errors
/// As [`find`].
pub fn find_at(
    repo: &Repo,
    name: &FullNameRef,
    found: Option<Stat>,
) -> Result<Option<RefTarget>, SnapshotError> {
    let shown = || format!("the reference `{}`", name.as_bstr());
    let found = match &found {
        None => return packed(repo, name),
        // A folder of that name has others below it.
        Some(stat) if crate::engine::workspace::fs::is_folder(stat) => return packed(repo, name),
        Some(stat) if !crate::engine::workspace::fs::is_regular(stat) => {
            return Err(SnapshotError::new(format!("{} is not a regular file of its size", shown())));
        }
        Some(stat) => stat,
    };
    let text = name.as_bstr().to_str().doing(|| format!("{} cannot be read", shown()))?;
    let bytes =
        read(repo, text, found).untold(|| format!("{} is not a regular file of its size", shown()))?;
    match bytes {
        None => packed(repo, name),
        Some(bytes) => target(repo, &bytes)
            .map(Some)
            .ok_or_else(|| SnapshotError::new(format!("{} is not in git's format", shown()))),
    }
}

/// The reference among the packed ones.
fn packed(repo: &Repo, name: &FullNameRef) -> Result<Option<RefTarget>, SnapshotError> {
    let doing = || "`packed-refs` is not in git's format".into();
    let Some(packed) = repo.packed_refs()? else { return Ok(None) };
    let found = packed.try_find(name).untold(doing)?;
    Ok(found.map(|found| RefTarget::Id(found.target())))
}

/// The folder that the path of a reference counts from.
fn folder_of<'r>(repo: &'r Repo, text: &str) -> &'r HeldFolder {
    let is_own = !text.starts_with("refs/") || OF_WORKTREE.iter().any(|prefix| text.starts_with(prefix));
    if is_own { repo.own() } else { repo.common() }
}

/// What a reference says.
fn target(repo: &Repo, bytes: &[u8]) -> Option<RefTarget> {
    if let Some(name) = bytes.strip_prefix(b"ref:") {
        return FullName::try_from(name.trim().as_bstr()).ok().map(RefTarget::Symbolic);
    }
    let id = bytes.split(u8::is_ascii_whitespace).next()?;
    ObjectId::from_hex(id).ok().filter(|id| id.kind() == repo.object_hash()).map(RefTarget::Id)
}

/// The object that a reference leads to; `None` where there is no such reference, or it leads to none.
///
/// # Errors
/// Where one on the way cannot be read.
pub fn resolve(repo: &Repo, name: &FullNameRef) -> Result<Option<ObjectId>, SnapshotError> {
    let mut name = name.to_owned();
    for _ in 0..SYMBOLIC_MAX {
        match find(repo, name.as_ref())? {
            None => return Ok(None),
            Some(RefTarget::Id(id)) => return Ok(Some(id)),
            Some(RefTarget::Symbolic(next)) => name = next,
        }
    }
    Err(SnapshotError::new("symbolic references form a loop"))
}

/// The object behind the tags that `id` may be.
///
/// # Errors
/// Where one cannot be read.
pub fn peeled(repo: &Repo, id: ObjectId) -> Result<ObjectId, SnapshotError> {
    let mut id = id;
    for _ in 0..TAGS_MAX {
        let tag = repo.find_object(id)?;
        if tag.kind != gix::objs::Kind::Tag {
            return Ok(id);
        }
        id = gix::objs::TagRefIter::from_bytes(&tag.data, repo.object_hash())
            .target_id()
            .untold(|| format!("the tag {id} is damaged"))?;
    }
    Err(SnapshotError::new("tags form a loop"))
}

/// The object that a short name leads to, as git would find it; `None` where there is none.
///
/// # Errors
/// Where one of that name cannot be read.
pub fn resolve_short(repo: &Repo, name: &str) -> Result<Option<ObjectId>, SnapshotError> {
    for prefix in PREFIXES {
        let Ok(full) = FullName::try_from(format!("{prefix}{name}")) else { continue };
        // What git keeps beside its references is none, whatever it is called.
        let is_pseudo = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        if prefix.is_empty() && !name.starts_with("refs/") && !is_pseudo {
            continue;
        }
        if let Some(id) = resolve(repo, full.as_ref())? {
            return peeled(repo, id).map(Some);
        }
    }
    Ok(None)
}

/// The commit at HEAD; `None` while it is unborn.
///
/// # Errors
/// Where it cannot be read.
pub fn head(repo: &Repo) -> Result<Option<ObjectId>, SnapshotError> {
    let target = head_target(repo)?;
    head_as_named(repo, target.as_ref())?.map(|id| peeled(repo, id)).transpose()
}

/// What HEAD says.
///
/// # Errors
/// Where it cannot be read.
pub fn head_target(repo: &Repo) -> Result<Option<RefTarget>, SnapshotError> {
    let name = FullName::try_from("HEAD").untold(|| "HEAD cannot be read".into())?;
    find(repo, name.as_ref()).doing(|| "HEAD cannot be read".into())
}

/// The object that HEAD names, where it says `target`; `None` while it is unborn.
///
/// # Errors
/// As [`head`].
pub fn head_as_named(repo: &Repo, target: Option<&RefTarget>) -> Result<Option<ObjectId>, SnapshotError> {
    match target {
        None => Ok(None),
        Some(RefTarget::Id(id)) => Ok(Some(*id)),
        Some(RefTarget::Symbolic(name)) => {
            resolve(repo, name.as_ref()).doing(|| "the branch that HEAD is on cannot be read".into())
        }
    }
}
