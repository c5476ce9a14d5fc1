//! A repository that is open: gix's, with its folders held open and one door to its objects.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Deref;
use std::path::Path;

use gix::ObjectId;
use gix::error::ResultExt as _;
use gix::objs::{Data, Header};
use rustix::fs::{AtFlags, FileType};

use super::alternates;
use super::error::{Doing as _, SnapshotError};
use super::held::HeldFolder;

/// Largest object that is unpacked, in bytes. A few kilobytes of zeros can say that they are many
/// gigabytes.
pub const OBJECT_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Most objects of which it is remembered that their files were looked at.
const CHECKED_MAX: usize = 10_000;

/// A repository.
///
/// gix reads it by its path, which may be swapped at any time by whoever can write there. That gives
/// them nothing which they could not have put there themselves: what is read so is parsed, bounded
/// and never quoted, and what lbx writes, it writes beneath the folders held here.
pub struct Repo {
    /// What gix knows of it.
    gix: gix::Repository,
    /// The folder that holds `HEAD`.
    own: HeldFolder,
    /// The folder of the whole repository; the same, save in a linked worktree.
    common: HeldFolder,
    /// Its objects.
    objects_folder: HeldFolder,
    /// The folders of objects that it borrows from others.
    borrowed: Vec<HeldFolder>,
    /// Objects whose files were looked at: the same trees are read for each of many files.
    checked: RefCell<HashSet<ObjectId>>,
}

impl Deref for Repo {
    type Target = gix::Repository;

    fn deref(&self) -> &gix::Repository {
        &self.gix
    }
}

impl Repo {
    /// The repository `gix` whose folders have been checked.
    pub fn new(gix: gix::Repository, own: HeldFolder, common: HeldFolder) -> Result<Self, SnapshotError> {
        let doing = || format!("`{}` is not a folder of its own", common.path().join("objects").display());
        let objects_folder = common.folder("objects").doing(doing)?;
        let objects_folder = objects_folder.ok_or_else(|| SnapshotError::new(doing()))?;
        let borrowed = alternates::folders(&objects_folder)?;
        Ok(Self::with(gix, (own, common), objects_folder, borrowed))
    }

    /// The same with its folder of objects and those that it borrows from, checked too.
    pub fn with(
        gix: gix::Repository,
        (own, common): (HeldFolder, HeldFolder),
        objects_folder: HeldFolder,
        borrowed: Vec<HeldFolder>,
    ) -> Self {
        Self { gix, own, common, objects_folder, borrowed, checked: RefCell::default() }
    }

    /// The same, keeping new objects in memory until they are stored.
    pub fn with_object_memory(self) -> Self {
        Self { gix: self.gix.with_object_memory(), ..self }
    }

    /// Keeps objects that were read, up to so many bytes.
    pub fn keep_read(&mut self, bytes: usize) {
        self.gix.object_cache_size_if_unset(bytes);
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
    pub fn objects_folder(&self) -> &HeldFolder {
        &self.objects_folder
    }

    /// The object `id`.
    ///
    /// # Errors
    /// Where it is missing, damaged or too large.
    pub fn find_object(&self, id: ObjectId) -> Result<gix::Object<'_>, SnapshotError> {
        self.check_loose(&id)?;
        self.gix.find_object(id).untold(|| format!("the object {id} is missing, damaged or too large"))
    }

    /// The commit `id`.
    ///
    /// # Errors
    /// As [`Self::find_object`], or where it is something else.
    pub fn find_commit(&self, id: ObjectId) -> Result<gix::Commit<'_>, SnapshotError> {
        let object = self.find_object(id)?;
        object.try_into_commit().untold(|| format!("the object {id} is not a commit"))
    }

    /// The tree `id`.
    ///
    /// # Errors
    /// As [`Self::find_object`], or where it is something else.
    pub fn find_tree(&self, id: ObjectId) -> Result<gix::Tree<'_>, SnapshotError> {
        let object = self.find_object(id)?;
        object.try_into_tree().untold(|| format!("the object {id} is not a tree"))
    }

    /// The blob `id`.
    ///
    /// # Errors
    /// As [`Self::find_object`], or where it is something else.
    pub fn find_blob(&self, id: ObjectId) -> Result<gix::Blob<'_>, SnapshotError> {
        let object = self.find_object(id)?;
        object.try_into_blob().untold(|| format!("the object {id} is not a blob"))
    }

    /// What kind of object `id` is, and how large.
    ///
    /// # Errors
    /// Where it is missing or damaged.
    pub fn header(&self, id: ObjectId) -> Result<gix::odb::find::Header, SnapshotError> {
        self.check_loose(&id)?;
        self.gix.find_header(id).untold(|| format!("the object {id} is missing or damaged"))
    }

    /// Refuses an object whose file is none: opening a FIFO waits for ever.
    fn check_loose(&self, id: &gix::hash::oid) -> Result<(), SnapshotError> {
        if self.checked.borrow().contains(id) {
            return Ok(());
        }
        let hex = id.to_hex().to_string();
        let Some((first, rest)) = hex.split_at_checked(2) else { return Ok(()) };
        let name = Path::new(first).join(rest);
        for folder in std::iter::once(&self.objects_folder).chain(&self.borrowed) {
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

impl gix::objs::Find for Repo {
    fn try_find<'b>(
        &self,
        id: &gix::hash::oid,
        buffer: &'b mut Vec<u8>,
    ) -> gix::error::Result<Option<Data<'b>>> {
        self.check_loose(id).or_error()?;
        gix::objs::Find::try_find(&self.gix.objects, id, buffer)
    }
}

impl gix::objs::FindHeader for Repo {
    fn try_header(&self, id: &gix::hash::oid) -> gix::error::Result<Option<Header>> {
        self.check_loose(id).or_error()?;
        gix::objs::FindHeader::try_header(&self.gix.objects, id)
    }
}

impl std::fmt::Debug for Repo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repo").field("own", &self.own).field("common", &self.common).finish_non_exhaustive()
    }
}
