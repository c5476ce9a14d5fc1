//! A repository that is open: its settings, its folders held open, and one door to its objects.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use gix::ObjectId;
use gix::error::ResultExt as _;
use gix::objs::{Data, Find as _, Header, Kind, WriteTo};
use gix::refs::packed;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::error::{Doing as _, SnapshotError};
use super::held::HeldFolder;
use super::loose::{Loose, OBJECT_BYTES_MAX};
use super::object::{Commit, Object, Tree};
use super::recent::RecentObjects;
use super::settings::Settings;
use super::{alternates, loose, ordinary};

/// Largest file of packed references: that of a million.
const PACKED_REFS_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Most objects of which it is remembered that their files were looked at.
const CHECKED_MAX: usize = 10_000;

/// New objects, which no file has yet.
pub type NewObjects = BTreeMap<ObjectId, (Kind, Vec<u8>)>;

/// A repository.
///
/// What lbx reads and writes is beneath the folders held here. gix alone reads packs, and what other
/// repositories lend, by their paths, which may be swapped at any time by whoever can write there. That
/// gives them nothing which they could not have put there themselves: what is read so is parsed, bounded
/// and never quoted.
pub struct Repo {
    /// The work tree.
    work_tree: HeldFolder,
    /// What git's configuration says.
    settings: Settings,
    /// The folder that holds `HEAD`.
    own: Arc<HeldFolder>,
    /// The folder of the whole repository; the same, save in a linked worktree.
    common: Arc<HeldFolder>,
    /// Its objects.
    objects_folder: Arc<HeldFolder>,
    /// The folder of its branches, once that was opened.
    heads: OnceCell<Arc<HeldFolder>>,
    /// Its packs and what it borrows, once something is looked for there.
    elsewhere: OnceCell<Elsewhere>,
    /// Objects that are not stored yet.
    new: RefCell<NewObjects>,
    /// Objects that were read.
    read: RefCell<ReadObjects>,
    /// Those that earlier calls have read or written, where calls follow.
    recent: Option<Arc<RecentObjects>>,
}

/// The folders of a repository.
pub struct Folders {
    /// The one that holds `HEAD`.
    own: Arc<HeldFolder>,
    /// That of the whole repository; the same, save in a linked worktree.
    common: Arc<HeldFolder>,
    /// That of its objects.
    objects: Arc<HeldFolder>,
}

impl Folders {
    /// Those of a repository with a folder of its own and one that it shares with other worktrees.
    ///
    /// # Errors
    /// Where what makes a folder a repository is missing, or is something else.
    pub fn of(own: HeldFolder, common: Option<HeldFolder>) -> Result<Self, SnapshotError> {
        let own = Arc::new(own);
        let common = common.map_or_else(|| Arc::clone(&own), Arc::new);
        ordinary::check_folder(&own, &common)?;
        let doing = || {
            format!("`{}` cannot be opened as a folder of its own", common.path().join("objects").display())
        };
        let objects = common.folder("objects").doing(doing)?.ok_or_else(|| SnapshotError::new(doing()))?;
        Ok(Self { own, common, objects: Arc::new(objects) })
    }

    /// The one that holds `HEAD`.
    pub fn own(&self) -> &HeldFolder {
        &self.own
    }

    /// That of the whole repository.
    pub fn common(&self) -> &HeldFolder {
        &self.common
    }
}

/// Where else objects are than in files of their own in the repository's own folder.
struct Elsewhere {
    /// gix's view of all objects.
    odb: gix::odb::Handle,
    /// The folders of objects that it borrows from others.
    borrowed: Vec<HeldFolder>,
    /// Objects whose files were looked at: the same trees are read for each of many files.
    checked: RefCell<HashSet<ObjectId>>,
}

/// The objects that were read last, up to a bound.
#[derive(Default)]
struct ReadObjects {
    /// They.
    objects: BTreeMap<ObjectId, Rc<Object>>,
    /// Their bytes.
    bytes: usize,
    /// The most bytes that are kept.
    bytes_max: usize,
}

impl ReadObjects {
    /// Keeps an object; where there is no room, those before it go.
    fn keep(&mut self, object: &Rc<Object>) {
        let size = object.data.len();
        if size > self.bytes_max / 8 {
            return;
        }
        if self.bytes + size > self.bytes_max {
            self.objects.clear();
            self.bytes = 0;
        }
        self.bytes += size;
        self.objects.insert(object.id, Rc::clone(object));
    }
}

impl std::fmt::Debug for Repo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repo").field("own", &self.own).field("common", &self.common).finish_non_exhaustive()
    }
}

impl Repo {
    /// The repository in `folders`, with its settings.
    pub fn new(work_tree: HeldFolder, folders: Folders, settings: Settings) -> Self {
        let Folders { own, common, objects } = folders;
        let (new, read) = (RefCell::default(), RefCell::default());
        let (heads, elsewhere) = (OnceCell::new(), OnceCell::new());
        Self {
            work_tree,
            settings,
            own,
            common,
            objects_folder: objects,
            heads,
            elsewhere,
            new,
            read,
            recent: None,
        }
    }

    /// Keeps objects that were read, up to so many bytes.
    pub fn keep_read(&mut self, bytes: usize) {
        self.read.get_mut().bytes_max = bytes;
    }

    /// Has objects that earlier calls have read or written, and keeps those of this one.
    pub fn remember(&mut self, recent: Option<Arc<RecentObjects>>) {
        self.recent = recent;
    }

    /// Objects that earlier calls have read or written.
    pub fn recent(&self) -> Option<&RecentObjects> {
        self.recent.as_deref()
    }

    /// The work tree, held open.
    pub fn work_tree(&self) -> &HeldFolder {
        &self.work_tree
    }

    /// The work tree alone.
    pub fn into_work_tree(self) -> HeldFolder {
        self.work_tree
    }

    /// Where the work tree is.
    pub fn root(&self) -> &Path {
        self.work_tree.path()
    }

    /// What git's configuration says.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How objects are named.
    pub fn object_hash(&self) -> gix::hash::Kind {
        self.settings.object_hash()
    }

    /// The folder that holds `HEAD`.
    pub fn own(&self) -> &HeldFolder {
        &self.own
    }

    /// The folder of the whole repository.
    pub fn common(&self) -> &HeldFolder {
        &self.common
    }

    /// The folder of its objects.
    pub fn objects_folder(&self) -> &Arc<HeldFolder> {
        &self.objects_folder
    }

    /// The folder of its branches; `None` where there is none. It stays open: git never removes it.
    ///
    /// # Errors
    /// What the system says; `ENOTDIR` or `ELOOP` where a link or a file is on the way.
    pub fn heads(&self) -> Result<Option<Arc<HeldFolder>>, Errno> {
        if let Some(heads) = self.heads.get() {
            return Ok(Some(Arc::clone(heads)));
        }
        let Some(heads) = self.common.folder("refs/heads")? else { return Ok(None) };
        Ok(Some(Arc::clone(self.heads.get_or_init(|| Arc::new(heads)))))
    }

    /// The references that are packed; `None` where none are.
    ///
    /// # Errors
    /// Where their file is not a regular one of its size, or not of git's form.
    pub fn packed_refs(&self) -> Result<Option<packed::Buffer>, SnapshotError> {
        let doing = || "`packed-refs` is not in git's format".into();
        let Some(bytes) = self.common.read("packed-refs", PACKED_REFS_BYTES_MAX).untold(doing)? else {
            return Ok(None);
        };
        packed::Buffer::from_bytes(&bytes, self.object_hash()).map(Some).untold(doing)
    }

    /// Forgets what was read: it may be gone by now.
    pub fn forget_read(&self) {
        let mut read = self.read.borrow_mut();
        *read = ReadObjects { bytes_max: read.bytes_max, ..ReadObjects::default() };
    }

    /// The objects that were written and are not stored yet; there are none any more then.
    pub fn take_new(&self) -> NewObjects {
        self.new.take()
    }

    /// Keeps a new object until all are stored, unless it is stored already.
    ///
    /// # Errors
    /// Where it cannot be named.
    pub fn write(&self, kind: Kind, bytes: &[u8]) -> Result<ObjectId, SnapshotError> {
        let id = gix::objs::compute_hash(self.object_hash(), kind, bytes);
        let id = id.doing(|| "an object cannot be named".into())?;
        self.write_named(kind, id, bytes);
        Ok(id)
    }

    /// The same, of the object whose name is `id`.
    pub fn write_named(&self, kind: Kind, id: ObjectId, bytes: &[u8]) {
        // A commit says when it was made: it is new.
        if kind == Kind::Commit || !self.has(&id) {
            self.new.borrow_mut().insert(id, (kind, bytes.to_owned()));
        }
    }

    /// The same for an object that is not in its stored form yet.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_object(&self, object: &impl WriteTo) -> Result<ObjectId, SnapshotError> {
        let mut bytes = Vec::new();
        object.write_to(&mut bytes).doing(|| "an object cannot be written".into())?;
        self.write(object.kind(), &bytes)
    }

    /// Whether an object is known to be there. One that only a pack has may be stored once more, which
    /// does no harm; where the packs are open, they count.
    fn has(&self, id: &ObjectId) -> bool {
        self.new.borrow().contains_key(id)
            || self.read.borrow().objects.contains_key(id)
            || match self.elsewhere.get() {
                // Looking for packs that came meanwhile would list their folder for each of many objects.
                Some(elsewhere) => elsewhere.odb.exists_without_refresh(id),
                None => rustix::fs::statat(&*self.objects_folder, loose::name(id), AtFlags::empty()).is_ok(),
            }
    }

    /// Returns true if the repository has an object, packs included.
    ///
    /// # Errors
    /// Fails if the repository cannot be read.
    pub fn holds(&self, id: ObjectId) -> Result<bool, SnapshotError> {
        Ok(self.has(&id)
            || self.look_for(&id).doing(|| format!("the object {id} cannot be looked for"))?.is_some())
    }

    /// The object `id`.
    ///
    /// # Errors
    /// Where it is missing, damaged or too large.
    pub fn find_object(&self, id: ObjectId) -> Result<Object, SnapshotError> {
        let missing = || format!("the object {id} is missing, damaged or too large");
        let found = self.look_for(&id).doing(missing)?.ok_or_else(|| SnapshotError::new(missing()))?;
        Ok(Rc::unwrap_or_clone(found))
    }

    /// The commit `id`.
    ///
    /// # Errors
    /// As [`Self::find_object`], or where it is something else.
    pub fn find_commit(&self, id: ObjectId) -> Result<Commit, SnapshotError> {
        let object = self.find_object(id)?;
        if object.kind == Kind::Commit { Ok(Commit(object)) } else { Err(not_a(id, "commit")) }
    }

    /// The tree `id`.
    ///
    /// # Errors
    /// As [`Self::find_object`], or where it is something else.
    pub fn find_tree(&self, id: ObjectId) -> Result<Tree, SnapshotError> {
        let object = self.find_object(id)?;
        if object.kind == Kind::Tree { Ok(Tree(object)) } else { Err(not_a(id, "tree")) }
    }

    /// The bytes of the blob `id`.
    ///
    /// # Errors
    /// As [`Self::find_object`], or where it is something else.
    pub fn find_blob(&self, id: ObjectId) -> Result<Vec<u8>, SnapshotError> {
        let object = self.find_object(id)?;
        if object.kind == Kind::Blob { Ok(object.data) } else { Err(not_a(id, "blob")) }
    }

    /// What kind of object `id` is, and how many bytes it has.
    ///
    /// # Errors
    /// Where it is missing or damaged.
    pub fn header(&self, id: ObjectId) -> Result<(Kind, u64), SnapshotError> {
        let missing = || format!("the object {id} is missing or damaged");
        if let Some((kind, data)) = self.new.borrow().get(&id) {
            return Ok((*kind, data.len() as u64));
        }
        if let Some(object) = self.read.borrow().objects.get(&id) {
            return Ok((object.kind, object.data.len() as u64));
        }
        let elsewhere = self.elsewhere()?;
        elsewhere.check_loose(&self.objects_folder, &id)?;
        let header = gix::objs::FindHeader::try_header(&elsewhere.odb, &id).untold(missing)?;
        header.map(|it| (it.kind, it.size)).ok_or_else(|| SnapshotError::new(missing()))
    }

    /// The objects whose ids begin with `prefix`.
    ///
    /// # Errors
    /// Where they cannot be looked for.
    pub fn beginning_with(&self, prefix: gix::hash::Prefix) -> Result<Vec<ObjectId>, SnapshotError> {
        let mut found = std::collections::HashSet::default();
        let odb = &self.elsewhere()?.odb;
        odb.lookup_prefix(prefix, Some(&mut found)).doing(|| format!("`{prefix}` cannot be looked for"))?;
        Ok(found.into_iter().collect())
    }

    /// The object `id`, from where it is nearest at hand.
    fn look_for(&self, id: &gix::hash::oid) -> Result<Option<Rc<Object>>, SnapshotError> {
        let with = |kind, data| Rc::new(Object { id: id.to_owned(), kind, data });
        if let Some((kind, data)) = self.new.borrow().get(id) {
            return Ok(Some(with(*kind, data.clone())));
        }
        if let Some(object) = self.read.borrow().objects.get(id) {
            return Ok(Some(Rc::clone(object)));
        }
        let damaged = || format!("the object {id} is not a regular file, or is damaged");
        let object = match loose::read(&self.objects_folder, id, self.recent()).untold(damaged)? {
            Loose::Here(kind, data) => with(kind, data),
            Loose::Elsewhere => {
                let mut buffer = Vec::new();
                let elsewhere = self.elsewhere()?;
                elsewhere.check_loose(&self.objects_folder, id)?;
                let found = elsewhere.odb.try_find(id, &mut buffer).untold(damaged)?;
                let Some(kind) = found.map(|found| found.kind) else { return Ok(None) };
                with(kind, buffer)
            }
        };
        self.read.borrow_mut().keep(&object);
        Ok(Some(object))
    }

    /// Its packs and what it borrows.
    fn elsewhere(&self) -> Result<&Elsewhere, SnapshotError> {
        if let Some(elsewhere) = self.elsewhere.get() {
            return Ok(elsewhere);
        }
        // What it borrows, and what stands among its packs, is looked at before gix follows it.
        let borrowed = alternates::folders(&self.objects_folder)?;
        let options = gix::odb::store::init::Options {
            use_multi_pack_index: self.settings.boolean("core.multiPackIndex").unwrap_or(true),
            alloc_limit_bytes: usize::try_from(OBJECT_BYTES_MAX).ok(),
            current_dir: Some(PathBuf::from(self.root())),
            ..Default::default()
        };
        let odb = gix::odb::at_opts(self.objects_folder.path(), self.object_hash(), None, options);
        let odb = odb.doing(|| format!("`{}` cannot be read", self.objects_folder.path().display()))?;
        Ok(self.elsewhere.get_or_init(|| Elsewhere { odb, borrowed, checked: RefCell::default() }))
    }
}

impl Elsewhere {
    /// Refuses an object whose file is none: opening a FIFO waits for ever.
    fn check_loose(&self, objects: &HeldFolder, id: &gix::hash::oid) -> Result<(), SnapshotError> {
        if self.checked.borrow().contains(id) {
            return Ok(());
        }
        let name = loose::name(id);
        for folder in std::iter::once(objects).chain(&self.borrowed) {
            // What a link leads to counts, as it does for git.
            let found = rustix::fs::statat(folder, &name, AtFlags::empty());
            if found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) != FileType::RegularFile) {
                return Err(SnapshotError::new(format!("the object {id} is not a regular file")));
            }
        }
        let mut checked = self.checked.borrow_mut();
        if checked.len() < CHECKED_MAX {
            checked.insert(id.to_owned());
        }
        Ok(())
    }
}

/// The refusal of an object that is something else than it must be.
fn not_a(id: ObjectId, what: &str) -> SnapshotError {
    SnapshotError::new(format!("the object {id} is not a {what}"))
}

impl gix::objs::Find for Repo {
    fn try_find<'b>(
        &self,
        id: &gix::hash::oid,
        buffer: &'b mut Vec<u8>,
    ) -> gix::error::Result<Option<Data<'b>>> {
        let Some(found) = self.look_for(id).or_error()? else { return Ok(None) };
        buffer.clear();
        buffer.extend_from_slice(&found.data);
        Ok(Some(Data { kind: found.kind, object_hash: id.kind(), data: buffer }))
    }
}

impl gix::objs::FindHeader for Repo {
    fn try_header(&self, id: &gix::hash::oid) -> gix::error::Result<Option<Header>> {
        Ok(self.look_for(id).or_error()?.map(|it| Header { kind: it.kind, size: it.data.len() as u64 }))
    }
}
