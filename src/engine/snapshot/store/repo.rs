//! An open repository: its settings, its open folders, and the single access to its objects.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use gix::ObjectId;
use gix::bstr::BStr;
use gix::error::ResultExt as _;
use gix::objs::{CommitRefIter, Data, Find as _, Kind, TreeRefIter, WriteTo};
use gix::refs::packed;
use gix::zlib::{Inflate, Status};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::dir::Dir;
use super::preflight;
use super::settings::RepositorySettings;
use super::{ErrorContext as _, SnapshotError};
use crate::engine::workspace::fs::is_regular;
use crate::limits::CACHED_OBJECT_BYTES_MAX;

/// Largest file of packed references, in bytes: a million references.
const PACKED_REFS_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Folder of the branches. Git removes folders below it once they are empty, but never this one.
pub const HEADS: &str = "refs/heads";

/// New objects, by id.
pub type NewObjects = BTreeMap<ObjectId, (Kind, Vec<u8>)>;

/// A repository.
///
/// lbx reads and writes beneath the folders held here. Only gix reads packs and borrowed objects by path, and anyone
/// who can write there may swap those paths at any time. That gains them nothing that they could not have written there
/// themselves: everything read so is parsed, bounded and never quoted.
pub struct Repo {
    /// The work tree.
    work_tree: Dir,
    /// Git's settings.
    settings: RepositorySettings,
    /// Its folders.
    folders: RepositoryFolders,
    /// Folder of the branches, once one is looked up.
    heads: OnceCell<Arc<Dir>>,
    /// Packs and borrowed objects, once one is looked up.
    elsewhere: OnceCell<PackedAndBorrowed>,
    /// Objects that are not stored yet.
    new: RefCell<NewObjects>,
    /// Cache of objects that were read.
    read: RefCell<RecentObjects>,
}

/// The folders of a repository.
pub struct RepositoryFolders {
    /// Folder that holds `HEAD`.
    pub own: Arc<Dir>,
    /// Folder of the whole repository; the same one, except in a linked worktree.
    pub common: Arc<Dir>,
    /// Folder of its objects.
    objects: Arc<Dir>,
}

impl RepositoryFolders {
    /// Opens the folders of a repository: its own, and the one shared with other worktrees.
    ///
    /// # Errors
    /// Fails if a required part of a repository is missing or has the wrong type.
    pub fn of(own: Dir, common: Option<Dir>) -> Result<Self, SnapshotError> {
        let own = Arc::new(own);
        let common = common.map_or_else(|| Arc::clone(&own), Arc::new);
        preflight::check_folder(&own, &common)?;
        let doing = || {
            format!("`{}` cannot be opened as a folder of its own", common.path().join("objects").display())
        };
        let objects = common.folder("objects").context(doing)?.ok_or_else(|| SnapshotError::new(doing()))?;
        Ok(Self { own, common, objects: Arc::new(objects) })
    }
}

/// Objects in packs and in borrowed folders.
struct PackedAndBorrowed {
    /// gix's view of all objects.
    odb: gix::odb::Handle,
    /// Folders of borrowed objects.
    borrowed: Vec<Dir>,
}

/// Objects read last, up to a bound.
#[derive(Default)]
struct RecentObjects {
    /// Objects by id.
    objects: BTreeMap<ObjectId, Rc<Object>>,
    /// Number of bytes in them.
    bytes: usize,
}

impl RecentObjects {
    /// Caches an object; drops all others if there is no room.
    fn keep(&mut self, object: &Rc<Object>) {
        let size = object.data.len();
        if size > CACHED_OBJECT_BYTES_MAX / 8 {
            return;
        }
        if self.bytes + size > CACHED_OBJECT_BYTES_MAX {
            self.objects.clear();
            self.bytes = 0;
        }
        self.bytes += size;
        self.objects.insert(object.id, Rc::clone(object));
    }
}

impl Repo {
    /// Returns the repository in `folders`, with its settings.
    pub fn new(work_tree: Dir, folders: RepositoryFolders, settings: RepositorySettings) -> Self {
        let (heads, elsewhere) = (OnceCell::new(), OnceCell::new());
        let (new, read) = (RefCell::default(), RefCell::default());
        Self { work_tree, settings, folders, heads, elsewhere, new, read }
    }

    /// Returns the work tree, held open.
    pub fn work_tree(&self) -> &Dir {
        &self.work_tree
    }

    /// Returns the work tree alone.
    pub fn into_work_tree(self) -> Dir {
        self.work_tree
    }

    /// Returns the path of the work tree.
    pub fn root(&self) -> &Path {
        self.work_tree.path()
    }

    /// Returns git's settings.
    pub fn settings(&self) -> &RepositorySettings {
        &self.settings
    }

    /// Returns the hash function of object ids.
    pub fn object_hash(&self) -> gix::hash::Kind {
        self.settings.object_hash()
    }

    /// Returns the folder that holds `HEAD`.
    pub fn head_folder(&self) -> &Dir {
        &self.folders.own
    }

    /// Returns the folder of the whole repository.
    pub fn common(&self) -> &Dir {
        &self.folders.common
    }

    /// Returns the folder of its objects.
    pub fn objects_folder(&self) -> &Arc<Dir> {
        &self.folders.objects
    }

    /// Returns the folder of the branches, opened once; `None` if that fails.
    pub fn heads(&self) -> Option<&Arc<Dir>> {
        if self.heads.get().is_none() {
            let heads = self.common().folder(HEADS).ok().flatten()?;
            let _ = self.heads.set(Arc::new(heads));
        }
        self.heads.get()
    }

    /// Returns the packed references; `None` if there are none.
    ///
    /// # Errors
    /// Fails if their file is not regular, too large, or not in git's format.
    pub fn packed_refs(&self) -> Result<Option<packed::Buffer>, SnapshotError> {
        let doing = || "`packed-refs` is not in git's format".into();
        let Some(bytes) =
            self.folders.common.read("packed-refs", PACKED_REFS_BYTES_MAX).context_redacted(doing)?
        else {
            return Ok(None);
        };
        packed::Buffer::from_bytes(&bytes, self.object_hash()).map(Some).context_redacted(doing)
    }

    /// Clears the cache of read objects: they may be gone by now.
    pub fn forget_read(&self) {
        self.read.take();
    }

    /// Removes and returns the new objects.
    pub fn take_new(&self) -> NewObjects {
        self.new.take()
    }

    /// Keeps a new object until all are stored, unless it is stored already.
    ///
    /// # Errors
    /// Fails if its id cannot be computed.
    pub fn write(&self, kind: Kind, bytes: &[u8]) -> Result<ObjectId, SnapshotError> {
        let id = gix::objs::compute_hash(self.object_hash(), kind, bytes);
        let id = id.context(|| "an object cannot be named".into())?;
        self.write_named(kind, id, bytes);
        Ok(id)
    }

    /// Keeps a new object whose id is known.
    pub fn write_named(&self, kind: Kind, id: ObjectId, bytes: &[u8]) {
        // A commit contains its time: it is always new.
        if kind == Kind::Commit || !self.has(&id) {
            self.new.borrow_mut().insert(id, (kind, bytes.to_owned()));
        }
    }

    /// Keeps a new object that is not serialized yet.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_object(&self, object: &impl WriteTo) -> Result<ObjectId, SnapshotError> {
        let mut bytes = Vec::new();
        object.write_to(&mut bytes).context(|| "an object cannot be written".into())?;
        self.write(object.kind(), &bytes)
    }

    /// Returns true if an object is known to exist. Packs count only if they are open already: an object that only a
    /// pack has may be stored again, which does no harm.
    fn has(&self, id: &ObjectId) -> bool {
        self.new.borrow().contains_key(id)
            || self.read.borrow().objects.contains_key(id)
            || match self.elsewhere.get() {
                // A refresh would list the folder of packs for each of many objects.
                Some(elsewhere) => elsewhere.odb.exists_without_refresh(id),
                None => rustix::fs::statat(&*self.folders.objects, loose_name(id), AtFlags::empty()).is_ok(),
            }
    }

    /// Returns true if the repository has an object, packs included.
    ///
    /// # Errors
    /// Fails if the repository cannot be read.
    pub fn holds(&self, id: ObjectId) -> Result<bool, SnapshotError> {
        Ok(self.has(&id)
            || self.fetch_object(&id).context(|| format!("the object {id} cannot be looked for"))?.is_some())
    }

    /// Returns the object `id`.
    ///
    /// # Errors
    /// Fails if it is missing, damaged or too large.
    pub fn find_object(&self, id: ObjectId) -> Result<Object, SnapshotError> {
        let missing = || format!("the object {id} is missing, damaged or too large");
        let found = self.fetch_object(&id).context(missing)?.ok_or_else(|| self.lacking(id, missing()))?;
        Ok(Rc::unwrap_or_clone(found))
    }

    /// Returns the error for an object that is not there: a clone may have been made without it.
    fn lacking(&self, id: ObjectId, message: String) -> SnapshotError {
        if self.settings.string("extensions.partialClone").is_some() {
            return SnapshotError::not_fetched(message, format!("git cat-file -p {id}"));
        }
        match self.common().stat("shallow") {
            Ok(Some(_)) => SnapshotError::not_fetched(message, "git fetch --unshallow".to_owned()),
            _ => SnapshotError::new(message),
        }
    }

    /// Returns the commit `id`.
    ///
    /// # Errors
    /// As [`Self::find_object`]; also fails if it is not a commit.
    pub fn find_commit(&self, id: ObjectId) -> Result<Commit, SnapshotError> {
        let object = self.find_object(id)?;
        if object.kind == Kind::Commit { Ok(Commit(object)) } else { Err(not_a(id, "commit")) }
    }

    /// Returns the tree `id`.
    ///
    /// # Errors
    /// As [`Self::find_object`]; also fails if it is not a tree.
    pub fn find_tree(&self, id: ObjectId) -> Result<Tree, SnapshotError> {
        let object = self.find_object(id)?;
        if object.kind == Kind::Tree { Ok(Tree(object)) } else { Err(not_a(id, "tree")) }
    }

    /// Returns the bytes of the blob `id`.
    ///
    /// # Errors
    /// As [`Self::find_object`]; also fails if it is not a blob.
    pub fn find_blob(&self, id: ObjectId) -> Result<Vec<u8>, SnapshotError> {
        let object = self.find_object(id)?;
        if object.kind == Kind::Blob { Ok(object.data) } else { Err(not_a(id, "blob")) }
    }

    /// Returns the kind of an object and its size in bytes.
    ///
    /// # Errors
    /// Fails if it is missing or damaged.
    pub fn header(&self, id: ObjectId) -> Result<(Kind, u64), SnapshotError> {
        let missing = || format!("the object {id} is missing or damaged");
        if let Some(object) = self.in_memory(&id) {
            return Ok((object.kind, object.data.len() as u64));
        }
        let elsewhere = self.packed_and_borrowed()?;
        elsewhere.check_loose(&self.folders.objects, &id)?;
        let header = gix::objs::FindHeader::try_header(&elsewhere.odb, &id).context_redacted(missing)?;
        header.map(|it| (it.kind, it.size)).ok_or_else(|| self.lacking(id, missing()))
    }

    /// Returns the objects whose ids begin with `prefix`.
    ///
    /// # Errors
    /// Fails if the search fails.
    pub fn beginning_with(&self, prefix: gix::hash::Prefix) -> Result<Vec<ObjectId>, SnapshotError> {
        let mut found = HashSet::default();
        let odb = &self.packed_and_borrowed()?.odb;
        odb.lookup_prefix(prefix, Some(&mut found)).context(|| format!("`{prefix}` cannot be looked for"))?;
        Ok(found.into_iter().collect())
    }

    /// Returns the object `id` if it is new, or was read.
    fn in_memory(&self, id: &gix::hash::oid) -> Option<Rc<Object>> {
        let new = self.new.borrow();
        let new = new.get(id).map(|(kind, data)| (*kind, data.clone()));
        new.map(|(kind, data)| Rc::new(Object { id: id.to_owned(), kind, data }))
            .or_else(|| self.read.borrow().objects.get(id).map(Rc::clone))
    }

    /// Returns the object `id`, from the fastest source.
    fn fetch_object(&self, id: &gix::hash::oid) -> Result<Option<Rc<Object>>, SnapshotError> {
        if let Some(object) = self.in_memory(id) {
            return Ok(Some(object));
        }
        let with = |kind, data| Rc::new(Object { id: id.to_owned(), kind, data });
        let damaged = || format!("the object {id} is not a regular file, or is damaged");
        let object = match read_loose(&self.folders.objects, id).context_redacted(damaged)? {
            LooseLookup::Here(kind, data) => with(kind, data),
            LooseLookup::Elsewhere => {
                let mut buffer = Vec::new();
                let elsewhere = self.packed_and_borrowed()?;
                elsewhere.check_loose(&self.folders.objects, id)?;
                let found = elsewhere.odb.try_find(id, &mut buffer).context_redacted(damaged)?;
                let Some(kind) = found.map(|found| found.kind) else { return Ok(None) };
                with(kind, buffer)
            }
        };
        self.read.borrow_mut().keep(&object);
        Ok(Some(object))
    }

    /// Returns the folder of the loose objects whose ids begin with `first`.
    pub fn loose_folder(&self, first: u8) -> Option<Dir> {
        self.folders.objects.folder(format!("{first:02x}")).ok().flatten()
    }

    /// Returns the loose objects whose ids begin with `first`.
    pub fn loose_objects(&self, first: u8) -> Vec<ObjectId> {
        let names = self.loose_folder(first).and_then(|folder| folder.names().ok()).unwrap_or_default();
        let id =
            |name: OsString| ObjectId::from_hex(format!("{first:02x}{}", name.to_str()?).as_bytes()).ok();
        names.into_iter().filter_map(id).collect()
    }

    /// Returns its packs and borrowed objects.
    fn packed_and_borrowed(&self) -> Result<&PackedAndBorrowed, SnapshotError> {
        if let Some(elsewhere) = self.elsewhere.get() {
            return Ok(elsewhere);
        }
        // Borrowed folders and packs are checked before gix opens them.
        let borrowed = preflight::alternates(&self.folders.objects)?;
        let options = gix::odb::store::init::Options {
            use_multi_pack_index: self.settings.boolean("core.multiPackIndex").unwrap_or(true),
            alloc_limit_bytes: usize::try_from(OBJECT_BYTES_MAX).ok(),
            current_dir: Some(PathBuf::from(self.root())),
            ..Default::default()
        };
        let odb = gix::odb::at_opts(self.folders.objects.path(), self.object_hash(), None, options);
        let odb = odb.context(|| format!("`{}` cannot be read", self.folders.objects.path().display()))?;
        Ok(self.elsewhere.get_or_init(|| PackedAndBorrowed { odb, borrowed }))
    }
}

impl PackedAndBorrowed {
    /// Fails if the file of an object is not a file: opening a FIFO blocks.
    fn check_loose(&self, objects: &Dir, id: &gix::hash::oid) -> Result<(), SnapshotError> {
        let name = loose_name(id);
        for folder in std::iter::once(objects).chain(&self.borrowed) {
            // Links are followed, as git does.
            let found = rustix::fs::statat(folder, &name, AtFlags::empty());
            if found.is_ok_and(|found| !is_regular(&found)) {
                return Err(SnapshotError::new(format!("the object {id} is not a regular file")));
            }
        }
        Ok(())
    }
}

/// Returns the error for an object of the wrong type.
fn not_a(id: ObjectId, what: &str) -> SnapshotError {
    SnapshotError::new(format!("the object {id} is not a {what}"))
}

impl gix::objs::Find for Repo {
    fn try_find<'b>(
        &self,
        id: &gix::hash::oid,
        buffer: &'b mut Vec<u8>,
    ) -> gix::error::Result<Option<Data<'b>>> {
        let Some(found) = self.fetch_object(id).or_error()? else { return Ok(None) };
        buffer.clear();
        buffer.extend_from_slice(&found.data);
        Ok(Some(Data { kind: found.kind, object_hash: id.kind(), data: buffer }))
    }
}

/// An object with its bytes.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its id.
    pub id: ObjectId,
    /// Kind.
    pub kind: Kind,
    /// Its bytes, without the header.
    pub data: Vec<u8>,
}

impl Object {
    /// Returns true if its bytes have its id.
    pub fn is_whole(&self) -> bool {
        has_id(self.id, self.kind, &self.data)
    }
}

/// Returns true if an object of this kind, with these bytes, has that id.
pub fn has_id(id: ObjectId, kind: Kind, bytes: &[u8]) -> bool {
    gix::objs::compute_hash(id.kind(), kind, bytes).is_ok_and(|found| found == id)
}

/// An object that is a commit.
#[derive(Debug, Clone)]
pub struct Commit(pub(super) Object);

impl Commit {
    /// Returns its fields, parsed on demand.
    fn fields(&self) -> CommitRefIter<'_> {
        CommitRefIter::from_bytes(&self.0.data, self.0.id.kind())
    }

    /// Returns the id of its tree.
    ///
    /// # Errors
    /// Fails if the commit is damaged.
    pub fn tree_id(&self) -> gix::error::Result<ObjectId> {
        self.fields().tree_id()
    }

    /// Returns its parents.
    pub fn parent_ids(&self) -> impl Iterator<Item = ObjectId> {
        self.fields().parent_ids()
    }

    /// Returns its raw message.
    ///
    /// # Errors
    /// Fails if the commit is damaged.
    pub fn message_raw(&self) -> gix::error::Result<&BStr> {
        self.fields().message()
    }

    /// Returns the name of its author.
    ///
    /// # Errors
    /// Fails if the commit is damaged.
    pub fn author_name(&self) -> gix::error::Result<&BStr> {
        Ok(self.fields().author()?.name)
    }

    /// Returns its time, in seconds since 1970.
    ///
    /// # Errors
    /// Fails if the commit is damaged.
    pub fn seconds(&self) -> gix::error::Result<i64> {
        Ok(self.fields().committer()?.time()?.seconds)
    }

    /// Returns the time at which it was first made, in seconds since 1970: a rebase keeps it.
    ///
    /// # Errors
    /// As [`Self::seconds`].
    pub fn authored_seconds(&self) -> gix::error::Result<i64> {
        Ok(self.fields().author()?.time()?.seconds)
    }
}

/// An object that is a tree.
#[derive(Debug, Clone)]
pub struct Tree(pub(super) Object);

impl Tree {
    /// Returns its entries in stored order.
    pub fn iter(&self) -> TreeRefIter<'_> {
        TreeRefIter::from_bytes(&self.0.data, self.0.id.kind())
    }

    /// Returns its bytes.
    pub fn data(&self) -> &[u8] {
        &self.0.data
    }
}

/// Largest object that is unpacked, in bytes. A few kilobytes can claim to unpack to many gigabytes of zeros.
pub const OBJECT_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Largest file that is read whole, in bytes; a larger one is mapped.
const LOOSE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Buffer for the header of an object, or all of a small one.
const HEADER_BYTES: usize = 512;

/// Result of looking for a loose object.
pub enum LooseLookup {
    /// Kind and content.
    Here(Kind, Vec<u8>),
    /// No file, or one that is read in another way.
    Elsewhere,
}

/// Returns the path of an object's file, from the folder of objects.
pub fn loose_name(id: &gix::hash::oid) -> PathBuf {
    let mut hex = id.to_hex().to_string();
    hex.insert(2, '/');
    hex.into()
}

/// Reads the object `id` in the folder `objects`.
///
/// # Errors
/// Fails if its file is not regular, or is damaged.
pub fn read_loose(objects: &Dir, id: &gix::hash::oid) -> io::Result<LooseLookup> {
    let name = loose_name(id);
    match objects.read_once(&name, LOOSE_BYTES_MAX) {
        Ok(Some(bytes)) => {
            let (kind, data) = unpacked(&bytes)?;
            Ok(LooseLookup::Here(kind, data))
        }
        Ok(None) => Ok(LooseLookup::Elsewhere),
        // It or its folder may be a link, or its folder a file.
        Err(error)
            if [Errno::LOOP, Errno::XDEV, Errno::FBIG, Errno::NOTDIR]
                .iter()
                .any(|errno| is_errno(&error, *errno)) =>
        {
            Ok(LooseLookup::Elsewhere)
        }
        // A folder that may not be searched shows nothing of the object.
        Err(error) if is_errno(&error, Errno::ACCESS) && objects.stat(&name).is_err() => {
            Ok(LooseLookup::Elsewhere)
        }
        Err(error) => Err(error),
    }
}

/// Returns true if the error has that errno.
fn is_errno(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Unpacks an object from the bytes of its file.
fn unpacked(bytes: &[u8]) -> io::Result<(Kind, Vec<u8>)> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let mut header = [0; HEADER_BYTES];
    let mut inflate = Inflate::default();
    let (status, read, written) = inflate.prefix(bytes, &mut header).map_err(|_| damaged())?;
    let begin = header.get(..written).filter(|_| status != Status::BufError).ok_or_else(damaged)?;
    let (kind, size, skip) = gix::objs::decode::loose_header(begin).map_err(|_| damaged())?;
    if size > OBJECT_BYTES_MAX {
        // Not damaged: lbx reads no object of that size.
        return Err(Errno::FBIG.into());
    }
    let size = usize::try_from(size).map_err(|_| damaged())?;
    let held = begin.get(skip..).ok_or_else(damaged)?;
    if held.len() > size {
        return Err(damaged());
    }
    let mut data = Vec::new();
    if status == Status::StreamEnd {
        data.extend_from_slice(held);
    } else {
        data.try_reserve_exact(size).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let rest = bytes.get(read..).unwrap_or_default();
        inflate.rest(rest, begin, skip, &mut data, size).map_err(|_| damaged())?;
    }
    if data.len() == size { Ok((kind, data)) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use gix::zlib::Compression;

    use super::*;
    use crate::engine::snapshot::store::deflate::Deflater;

    #[test]
    fn object_behind_a_link_or_a_file_is_elsewhere_and_a_folder_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let objects = Dir::open(&root).unwrap();
        let id = |byte: u8| ObjectId::from_bytes_or_panic(&[byte; 20]);
        let at = |byte: u8| root.join(loose_name(&id(byte)));
        std::fs::write(root.join("01"), "").unwrap();
        std::os::unix::fs::symlink(&root, root.join("02")).unwrap();
        std::fs::create_dir_all(at(3).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/dev/null", at(3)).unwrap();
        for byte in 0..4 {
            assert!(matches!(read_loose(&objects, &id(byte)), Ok(LooseLookup::Elsewhere)), "{byte}");
        }
        std::fs::create_dir_all(at(4)).unwrap();
        assert!(read_loose(&objects, &id(4)).is_err());
    }

    #[test]
    fn objects_of_all_sizes_round_trip_and_truncated_ones_fail() {
        for size in [0, 1, 400, 505, 511, 512, 513, 5_000, 200_000] {
            let data: Vec<u8> =
                (0..size).map(|at: u32| at.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
            let file = super::super::objects::compress_blob(&data, Compression::BEST_SPEED).unwrap();
            assert_eq!(unpacked(&file).unwrap(), (Kind::Blob, data), "{size}");
            for end in [0, 1, file.len() / 2, file.len().saturating_sub(8)] {
                assert!(unpacked(&file[..end]).is_err(), "{size} up to {end}");
            }
        }
        assert!(unpacked(b"no object").is_err());
    }

    /// `doctor --fix` moves damaged objects out of `.git`, so a sound one must not count as damaged.
    #[test]
    fn oversized_object_is_not_reported_as_damaged() {
        for size in [1000, OBJECT_BYTES_MAX + 1, u64::MAX] {
            let begin = format!("blob {size}\0the first bytes");
            let mut file = Vec::new();
            Deflater::new(Compression::BEST_SPEED).deflate(&[begin.as_bytes()], &mut file).unwrap();
            let error = unpacked(&file).unwrap_err();
            let is_too_large = size > OBJECT_BYTES_MAX;
            assert_eq!(is_errno(&error, Errno::FBIG), is_too_large, "{size}: {error}");
            assert_eq!(error.kind() == io::ErrorKind::InvalidData, !is_too_large, "{size}: {error}");
        }
    }
}
