//! Opens the files of a change under the lock: existing files, and paths of new ones.

use std::sync::Arc;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::Change;
use super::staging::Original;
use crate::buffer::Buffer;
use crate::engine::policy::protected::ProtectedLinks;
use crate::engine::policy::settings::Key;
use crate::engine::store::state::path_in;
use crate::engine::store::trash;
use crate::engine::workspace::fs::{self, OpenFiles};
use crate::engine::workspace::metadata::Identity;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::{ResolvedPath, must_be_short, names_a_folder};
use crate::engine::workspace::{Workspace, digest};
use crate::error::{Error, ErrorKind};
use crate::limits::CHANGED_FILE_BYTES_MAX;
use crate::sha256::Sha256;

/// A file under the lock.
pub struct LockedFile {
    /// Path.
    pub(in crate::engine) place: ResolvedPath,
    /// Identity of the file; `None` for a new one.
    pub(in crate::engine) original: Option<Original>,
    /// Bytes; empty for a new file.
    pub(in crate::engine) bytes: Arc<Buffer>,
    /// SHA-256 of the bytes.
    pub(in crate::engine) sha256: Sha256,
}

impl LockedFile {
    /// Returns its path.
    pub fn place(&self) -> &ResolvedPath {
        &self.place
    }

    /// Returns the owner and attributes of a file, to restore it if it is deleted.
    pub fn identity(&self, workspace: &Workspace) -> Option<Identity> {
        let original = self.original.as_ref().filter(|it| fs::is_regular(&it.stat))?;
        let (file, stat) = workspace.open_regular(&original.path, self.place.display()).ok()?;
        Identity::of(&file, &stat)
    }

    /// Returns true if there is a file.
    pub fn exists(&self) -> bool {
        self.original.is_some()
    }

    /// Returns its bytes; empty for a new file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns a shared handle to the bytes.
    pub fn shared_bytes(&self) -> Arc<Buffer> {
        Arc::clone(&self.bytes)
    }

    /// Returns the SHA-256 of its bytes.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// Returns its permission bits, or the type bits of a symlink; `None` for a new file.
    pub fn mode(&self) -> Option<u32> {
        self.original.as_ref().map(|original| fs::recorded_mode(&original.stat))
    }

    /// Returns true if it is a symlink that was opened itself; its bytes are then its target.
    pub fn is_symlink(&self) -> bool {
        self.mode().is_some_and(fs::is_symlink_mode)
    }

    /// Skips the proof, for a tool that overwrites nothing.
    pub fn without_proof(self) -> CheckedFile {
        CheckedFile { current: self, proved: false }
    }
}

/// A file that may be changed: it passed the gate, or needs no check.
pub struct CheckedFile {
    /// File.
    pub(in crate::engine) current: LockedFile,
    /// True if the caller has proved that it saw the bytes.
    pub(in crate::engine) proved: bool,
}

impl CheckedFile {
    /// Returns the file.
    pub fn current(&self) -> &LockedFile {
        &self.current
    }
}

impl Change<'_> {
    /// Opens the file at `path`, or prepares the path of a new one.
    ///
    /// # Errors
    /// Returns `outside_workspace`, `protected_path`, `is_a_directory`, `not_a_regular_file`, `permission_denied`,
    /// `too_large` above 512 MiB or the policy's limit, or the OS error.
    pub fn open_current(&self, path: &std::path::Path) -> Result<LockedFile, Error> {
        self.open_resolved(self.engine.workspace.resolve_file(path)?)
    }

    /// Opens a file at a path that was just resolved.
    ///
    /// # Errors
    /// As [`Self::open_current`].
    pub fn open_resolved(&self, place: ResolvedPath) -> Result<LockedFile, Error> {
        let current = self.look_to_replace(place)?;
        self.must_be_allowed(&current)?;
        Ok(current)
    }

    /// Opens a file at a path that was just resolved, even if this user may not write it.
    ///
    /// # Errors
    /// As [`Self::open_current`].
    pub fn look_to_replace(&self, place: ResolvedPath) -> Result<LockedFile, Error> {
        self.must_be_writable(&place)?;
        place.must_take_a_file()?;
        if place.stat().is_none() {
            must_be_short(place.path().as_path(), "path")?;
            let sha256 = Sha256::of(b"");
            return Ok(LockedFile { place, original: None, bytes: Arc::default(), sha256 });
        }
        let (file, stat) = match place.opened() {
            Some(opened) => opened,
            None => self.engine.workspace.open_file(&place).map(|(file, stat)| (Arc::new(file), stat))?,
        };
        self.read_all(place, file, stat)
    }

    /// Opens the file or symlink at that canonical path, or prepares the path of a new one. A path behind a file or
    /// symlink counts as free: if the change does not remove that, it fails as a whole. The file may be one that this
    /// user may not write.
    ///
    /// # Errors
    /// Returns `protected_path`, or as [`Self::open_current`].
    pub fn open_canonical(&self, path: &WorkspacePath) -> Result<LockedFile, Error> {
        let absent = self.free_path(path)?;
        let place = self.engine.workspace.place_of(path)?;
        match place.stat() {
            None => return Ok(absent),
            Some(stat) => {
                self.must_be_unprotected(path, Some(stat), place.display())?;
                if fs::is_symlink(stat) {
                    return self.read_link(place);
                }
            }
        }
        let (file, stat) = match self.engine.workspace.open_regular(path, absent.place.display()) {
            Ok(opened) => opened,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(absent);
            }
            Err(error) => return Err(error),
        };
        self.read_all(place, Arc::new(file), stat)
    }

    /// Returns a path that will be free, whatever is there now.
    ///
    /// # Errors
    /// Returns `protected_path`.
    pub fn free_path(&self, path: &WorkspacePath) -> Result<LockedFile, Error> {
        let place = ResolvedPath::at(path.clone(), self.engine.workspace.display(path), None);
        // A deleted file may change in the trash: an undo can go back past the deletion.
        if !path.is_within(&path_in(self.state.as_ref(), trash::FOLDER)) {
            self.must_be_writable(&place)?;
        }
        Ok(LockedFile { place, original: None, bytes: Arc::default(), sha256: Sha256::of(b"") })
    }

    /// Raises the limit of open files, if the change has many.
    pub(super) fn make_room_for(&self, files: usize) {
        /// Number of files that fit under any limit of open files.
        const FEW_FILES: usize = 64;
        if files > FEW_FILES {
            self.open_files.borrow_mut().get_or_insert_with(OpenFiles::raise_limit);
        }
    }

    /// Reads all of an opened file.
    fn read_all(
        &self,
        place: ResolvedPath,
        file: Arc<std::fs::File>,
        stat: rustix::fs::Stat,
    ) -> Result<LockedFile, Error> {
        self.files_read.set(self.files_read.get() + 1);
        self.make_room_for(self.files_read.get());
        let (size, most, shown) = (fs::size_of(&stat), self.file_bytes_max(), place.display());
        if size > most {
            let message = format!(
                "{shown} has {size} bytes; the largest file that can be changed has {most} (limits.file_bytes)"
            );
            return Err(Error::new(ErrorKind::TooLarge, message)
                .at(shown)
                .detail("size", size)
                .detail("limit", most)
                .suggest("`read`, `grep` and `bash` take it; only the policy lets other tools change it."));
        }
        let (bytes, sha256) = digest::read(&file, fs::size_of(&stat), self.file_bytes_max())
            .map_err(|source| Error::io("read", place.display(), source))?;
        let original = Original { path: place.path().clone(), stat, opened: Some(file) };
        Ok(LockedFile { place, original: Some(original), bytes: Arc::new(bytes), sha256 })
    }

    /// Opens the file at `path`, to remove or rename it; does not follow a symlink there.
    ///
    /// # Errors
    /// As [`Self::open_current`].
    pub fn open_nofollow(&self, path: &std::path::Path) -> Result<LockedFile, Error> {
        let place = self.engine.workspace.resolve_entry(path)?;
        if !place.stat().is_some_and(fs::is_symlink) {
            return self.look_to_replace(self.engine.workspace.resolve_file(path)?);
        }
        self.must_be_writable(&place)?;
        self.read_link(place)
    }

    /// Reads a symlink's target.
    fn read_link(&self, place: ResolvedPath) -> Result<LockedFile, Error> {
        let io = |errno| Error::io("read", place.display(), errno);
        let link = fs::entry_beneath(self.engine.workspace.root_fd(), place.path()).map_err(io)?;
        let stat = link.stat().map_err(io)?;
        let bytes = link.target().map_err(io)?;
        let sha256 = Sha256::of(&bytes);
        let original = Original { path: place.path().clone(), stat, opened: None };
        Ok(LockedFile { place, original: Some(original), bytes: Arc::new(bytes.into()), sha256 })
    }

    /// Resolves the path of a present or future folder.
    ///
    /// # Errors
    /// Returns `outside_workspace`, `protected_path`, or the OS error.
    pub fn resolve_folder(&self, path: &std::path::Path) -> Result<ResolvedPath, Error> {
        let place = self.engine.workspace.resolve(path)?;
        if place.path().is_root() {
            return Ok(place);
        }
        self.must_be_writable(&place)?;
        if place.stat().is_none() {
            must_be_short(place.path().as_path(), "path")?;
        }
        Ok(place)
    }

    /// Resolves `path`, to move whatever is there as a whole; does not follow a symlink there.
    ///
    /// # Errors
    /// Returns `outside_workspace`, `protected_path`, or the OS error.
    pub fn resolve_entry_to_move(&self, path: &std::path::Path) -> Result<ResolvedPath, Error> {
        let place = self.resolve_destination(path)?;
        if place.path().is_root() {
            let message = "the workspace root cannot be deleted or moved";
            return Err(Error::new(ErrorKind::ProtectedPath, message)
                .at(place.display())
                .suggest("Name a file or folder inside it. `ls` shows what there is."));
        }
        Ok(place)
    }

    /// Resolves the destination of a move; does not follow a symlink there. The root counts as a path that is taken.
    ///
    /// # Errors
    /// As [`Self::resolve_entry_to_move`].
    pub fn resolve_destination(&self, path: &std::path::Path) -> Result<ResolvedPath, Error> {
        let place = self.engine.workspace.resolve_entry(path)?;
        self.must_be_writable(&place)?;
        if place.stat().is_none() {
            must_be_short(place.path().as_path(), "path")?;
        }
        if names_a_folder(path) && place.stat().is_some_and(fs::is_symlink) {
            return Err(names_what_a_link_leads_to(&place));
        }
        Ok(place)
    }

    /// Fails for a path that no tool writes, or that the policy protects.
    pub(in crate::engine) fn must_be_writable(&self, place: &ResolvedPath) -> Result<(), Error> {
        place.must_be_writable()?;
        self.protection.check(&self.engine.workspace, place.path(), place.display())?;
        self.must_be_unprotected(place.path(), place.stat(), place.display())?;
        place.aliases().iter().try_for_each(|name| self.must_be_unprotected(name, None, place.display()))
    }

    /// Fails for a path that the policy protects, by its own name or by another name of the file there.
    pub(in crate::engine) fn must_be_unprotected(
        &self,
        path: &WorkspacePath,
        stat: Option<&Stat>,
        shown: &str,
    ) -> Result<(), Error> {
        let (policy, workspace) = (self.engine.policy(), &self.engine.workspace);
        let by_name = policy.protects(workspace, path);
        match by_name.or_else(|| self.protected_links().protects(policy, workspace, path, stat)) {
            None => Ok(()),
            Some(why) => Err(Error::new(ErrorKind::ProtectedPath, format!("{shown} is protected: {why}"))
                .at(shown)
                .suggest("Leave it as it is and tell the user what you would change there.")),
        }
    }

    /// Returns the files and folders to which protected names lead.
    pub(super) fn protected_links(&self) -> &ProtectedLinks {
        let find = || ProtectedLinks::find(self.engine.policy(), &self.engine.workspace);
        self.protected_links.get_or_init(find)
    }

    /// Returns the size of the largest file that may be changed, in bytes.
    pub fn file_bytes_max(&self) -> u64 {
        self.engine.policy().number(Key::FileBytes).min(CHANGED_FILE_BYTES_MAX)
    }

    /// Returns the SHA-256 of the file at a path; `None` for anything else.
    ///
    /// # Errors
    /// Returns the errors of reading it.
    pub fn sha256_at(&self, place: &ResolvedPath) -> Result<Option<Sha256>, Error> {
        if !place.stat().is_some_and(fs::is_regular) {
            return Ok(None);
        }
        let (file, stat) = self.engine.workspace.open_regular(place.path(), place.display())?;
        let (_, sha256) = digest::read(&file, fs::size_of(&stat), self.file_bytes_max())
            .map_err(|source| Error::io("read", place.display(), source))?;
        Ok(Some(sha256))
    }

    /// Fails if the permissions of a file do not let this user write it: new content by way of a rename would bypass them.
    ///
    /// # Errors
    /// Returns `permission_denied`, or the OS error.
    pub fn must_be_allowed(&self, current: &LockedFile) -> Result<(), Error> {
        let place = &current.place;
        if !current.exists() || current.is_symlink() {
            return Ok(());
        }
        fs::may_write(self.engine.workspace.root_fd(), place.path()).map_err(|errno| {
            let error = Error::io("write", place.display(), errno);
            match errno {
                // Only its owner can change the mode.
                Errno::ACCESS if place.stat().is_some_and(fs::is_own) => error.suggest(format!(
                    "Make it writable first (chmod u+w {}), or leave it alone.",
                    place.display()
                )),
                // A file that is immutable, or on a mount that can only be read.
                _ => error,
            }
        })
    }
}

/// Returns the error for a link that is written with a slash at its end: the caller may mean the link, or the folder
/// that it leads to.
fn names_what_a_link_leads_to(place: &ResolvedPath) -> Error {
    let shown = place.display();
    Error::invalid(format!(
        "{shown} is a symlink; with a trailing slash, the path means the folder that it leads to"
    ))
    .at(shown)
    .suggest("Leave out the slash to mean the link itself, or name the folder that it leads to.")
}
