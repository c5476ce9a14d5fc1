//! A folder that is held open: lbx reads and writes in a repository by names beneath one.
//!
//! Follows no link in any component of a name, waits for no FIFO or device, and reads no file above a size limit. If
//! someone swaps the folder for a link, the open folder stays the same.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::stat_cache::{FileCache, SymlinkPolicy};
use crate::platform;

/// An opened folder.
#[derive(Debug, Clone)]
pub struct Dir {
    /// The folder.
    fd: Arc<OwnedFd>,
    /// Path for messages; never opened.
    path: PathBuf,
    /// Small files that earlier calls have read, for a long-lived process.
    files: Option<Arc<FileCache>>,
    /// Who may use what is made in it.
    sharing: Sharing,
}

/// Who may use what is made in a repository, whatever the umask: `core.sharedRepository`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Only the umask counts.
    #[default]
    Umask,
    /// These may read and write too.
    AtLeast(u32),
    /// These may read and write, and nobody else.
    Exactly(u32),
}

impl Sharing {
    /// Returns the permissions of a new file or folder, as git sets them.
    fn mode(self, made: &Stat) -> u32 {
        let umasked = fs::mode_of(made);
        let (allowed, kept) = match self {
            Self::Umask => return umasked,
            Self::AtLeast(allowed) => (allowed, umasked),
            Self::Exactly(allowed) => (allowed, umasked & !0o777),
        };
        let allowed = if umasked & 0o200 == 0 { allowed & !0o222 } else { allowed };
        let mode = kept | allowed;
        if !fs::is_folder(made) {
            return mode;
        }
        // What is made in a folder that its group may use gets that group.
        let group = if mode & 0o060 == 0 { 0 } else { platform::INHERITED_GROUP };
        mode | (mode & 0o444) >> 2 | group
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Dir {
    /// Opens the folder at a canonical path.
    ///
    /// # Errors
    /// Returns the OS error; `ENOTDIR` or `ELOOP` for a link.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let fd = fs::open_at(CWD, path.as_os_str(), fs::FOLDER)?;
        Ok(Self::of(&Arc::new(fd), path))
    }

    /// Wraps an opened folder.
    pub fn of(fd: &Arc<OwnedFd>, path: &Path) -> Self {
        Self { fd: Arc::clone(fd), path: path.to_owned(), files: None, sharing: Sharing::default() }
    }

    /// Uses a cache of small files that earlier calls have read.
    #[must_use]
    pub fn keeping(self, files: Option<Arc<FileCache>>) -> Self {
        Self { files, ..self }
    }

    /// Makes everything in it with these permissions.
    #[must_use]
    pub fn shared(self, sharing: Sharing) -> Self {
        Self { sharing, ..self }
    }

    /// Returns the cache of small files.
    pub fn files(&self) -> Option<&Arc<FileCache>> {
        self.files.as_ref()
    }

    /// Wraps an opened folder beneath this one.
    fn opened_folder(&self, fd: OwnedFd, path: PathBuf) -> Self {
        Self { fd: Arc::new(fd), path, files: self.files.clone(), sharing: self.sharing }
    }

    /// Returns its path for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder `name` beneath it; `None` if the name does not exist.
    ///
    /// # Errors
    /// Returns the OS error; `ENOTDIR` or `ELOOP` if a link or a file is on the way.
    pub fn folder(&self, name: impl AsRef<Path>) -> Result<Option<Self>, Errno> {
        let name = name.as_ref();
        match fs::open_beneath(self.as_fd(), &beneath(name)?, fs::FOLDER) {
            Ok(fd) => Ok(Some(self.opened_folder(fd, self.path.join(name).components().collect()))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Returns the folder `name` beneath it; makes it, and the folders above it, if missing.
    ///
    /// # Errors
    /// As [`Self::folder`].
    pub fn make_folder(&self, name: impl AsRef<Path>) -> Result<Self, Errno> {
        let name = name.as_ref();
        if let Some(folder) = self.folder(name)? {
            return Ok(folder);
        }
        let mut made: Option<Self> = None;
        for part in beneath(name)?.components() {
            made = Some(made.as_ref().unwrap_or(self).add_folder(part)?);
        }
        made.ok_or(Errno::INVAL)
    }

    /// Returns the folder with that one-component name; makes it if missing.
    ///
    /// # Errors
    /// As [`Self::folder`].
    pub fn add_folder(&self, name: impl AsRef<OsStr>) -> Result<Self, Errno> {
        let name = name.as_ref();
        let mode = Mode::from_raw_mode(0o777);
        let made = rustix::io::retry_on_intr(|| rustix::fs::mkdirat(&self.fd, name, mode));
        if !matches!(made, Ok(()) | Err(Errno::EXIST)) {
            made?;
        }
        let fd = fs::open_at(self.as_fd(), name, fs::FOLDER)?;
        if made.is_ok() {
            self.share(&fd)?;
        }
        Ok(self.opened_folder(fd, self.path.join(name)))
    }

    /// Returns the stat at `name`, links not followed; `None` if nothing is there.
    ///
    /// # Errors
    /// Returns the OS error; `ENOTDIR` or `ELOOP` where a link or a file is on the way.
    pub fn stat(&self, name: impl AsRef<Path>) -> Result<Option<Stat>, Errno> {
        let name = beneath(name.as_ref())?;
        let (parent, last) = (name.parent().unwrap_or_default(), name.name().unwrap_or(OsStr::new(".")));
        let stat = if parent.is_root() {
            fs::stat_at(self.as_fd(), last)
        } else {
            // Most of these files are missing: then this is the only call.
            match fs::stat_beneath(self.as_fd(), &name) {
                // It may reject a link in the last place too.
                Err(Errno::LOOP) => fs::open_beneath(self.as_fd(), &parent, fs::HANDLE)
                    .or(Err(Errno::LOOP))
                    .and_then(|parent| fs::stat_at(parent.as_fd(), last)),
                stat => stat,
            }
        };
        match stat {
            Err(Errno::NOENT) => Ok(None),
            stat => stat.map(Some),
        }
    }

    /// Returns all bytes of the regular file `name`, at most `bytes_max`; `None` if it is missing. They may come from an
    /// earlier call, and are cached for later ones.
    ///
    /// # Errors
    /// Returns the OS error; `EFBIG` beyond the bound, `EINVAL` for anything but a regular file.
    pub fn read(&self, name: impl AsRef<Path>, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(files) = &self.files else { return self.read_once(name, bytes_max) };
        let Some(found) = self.stat(&name)? else { return Ok(None) };
        let known = files.cached_bytes(SymlinkPolicy::Beneath, &found);
        if let Some(bytes) = known.filter(|bytes| bytes.len() as u64 <= bytes_max) {
            return Ok(Some(bytes));
        }
        let Some((file, stat)) = self.open_regular(name, bytes_max)? else { return Ok(None) };
        let bytes = fs::read_to_end(file, fs::size_of(&stat), bytes_max)?;
        files.note(SymlinkPolicy::Beneath, &stat, &bytes);
        Ok(Some(bytes))
    }

    /// Reads like [`Self::read`], without the cache.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_once(&self, name: impl AsRef<Path>, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let Some((file, stat)) = self.open_regular(name, bytes_max)? else { return Ok(None) };
        fs::read_to_end(file, fs::size_of(&stat), bytes_max).map(Some)
    }

    /// Opens the regular file `name`, which has at most `bytes_max` bytes; returns it with its stat, `None` if it is
    /// missing. Its type is known only once it is open: a look before would show that of another file, if one is swapped
    /// in. To open a FIFO or a device so neither waits nor takes bytes from it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn open_regular(&self, name: impl AsRef<Path>, bytes_max: u64) -> io::Result<Option<(File, Stat)>> {
        let file = match fs::open_beneath(self.as_fd(), &beneath(name.as_ref())?, fs::READ) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let stat = rustix::fs::fstat(&file)?;
        match (fs::is_regular(&stat), fs::size_of(&stat) <= bytes_max) {
            (true, true) => Ok(Some((file, stat))),
            (true, false) => Err(Errno::FBIG.into()),
            (false, _) => Err(Errno::INVAL.into()),
        }
    }

    /// Creates the file `name`, which must not exist yet.
    ///
    /// # Errors
    /// Returns the OS error; no file is left then.
    pub fn create(&self, name: impl AsRef<OsStr>, mode: u32) -> Result<File, Errno> {
        let file = fs::create_at(self.as_fd(), name.as_ref(), mode)?;
        if let Err(errno) = self.share(&file) {
            let _ = self.remove(name);
            return Err(errno);
        }
        Ok(file)
    }

    /// Gives a new file or folder in it the permissions that the repository asks for.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn share(&self, made: impl AsFd) -> Result<(), Errno> {
        if self.sharing == Sharing::Umask {
            return Ok(());
        }
        let stat = rustix::fs::fstat(&made)?;
        let mode = self.sharing.mode(&stat);
        if mode == fs::mode_of(&stat) { Ok(()) } else { rustix::fs::fchmod(&made, platform::mode(mode)) }
    }

    /// Writes the new file `name`; removes one that a dead process left first.
    ///
    /// # Errors
    /// Returns the OS error; no file is left then.
    pub fn write_new(&self, name: impl AsRef<OsStr>, mode: u32, bytes: &[u8]) -> io::Result<File> {
        Ok(self.write_new_by(name, mode, |file| fs::write_all(file, bytes))?.0)
    }

    /// Writes a new file like [`Self::write_new`], by `write`; returns its value too.
    ///
    /// # Errors
    /// As [`Self::write_new`], and the errors of `write`.
    pub fn write_new_by<T>(
        &self,
        name: impl AsRef<OsStr>,
        mode: u32,
        write: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<(File, T)> {
        let name = name.as_ref();
        let file = match self.create(name, mode) {
            Err(Errno::EXIST) => {
                self.remove(name)?;
                self.create(name, mode)?
            }
            created => created?,
        };
        match write(&file) {
            Ok(value) => Ok((file, value)),
            Err(error) => {
                let _ = self.remove(name);
                Err(error)
            }
        }
    }

    /// Opens the regular file `name` for appending.
    ///
    /// # Errors
    /// Returns the OS error; `EINVAL` for anything but a regular file.
    pub fn append(&self, name: impl AsRef<Path>) -> Result<File, Errno> {
        let file = File::from(fs::open_beneath(self.as_fd(), &beneath(name.as_ref())?, fs::ADD)?);
        if fs::is_regular(&rustix::fs::fstat(&file)?) { Ok(file) } else { Err(Errno::INVAL) }
    }

    /// Opens the file `name` to overwrite its bytes.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn open_over(&self, name: impl AsRef<OsStr>) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        fs::open_at(self.as_fd(), name.as_ref(), flags).map(File::from)
    }

    /// Exchanges two files in it.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn exchange(&self, one: &OsStr, other: &OsStr) -> Result<(), Errno> {
        fs::exchange(&self.fd, one, &self.fd, other)
    }

    /// Renames `old` to `new` in `to`, and replaces an existing `new`.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn rename(&self, old: impl AsRef<OsStr>, to: &Self, new: impl AsRef<OsStr>) -> Result<(), Errno> {
        fs::rename_at(&self.fd, old, &to.fd, new)
    }

    /// Renames `old` to `new` in `to`, unless `new` exists.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn rename_new(&self, old: impl AsRef<OsStr>, to: &Self, new: impl AsRef<OsStr>) -> Result<(), Errno> {
        let (old, new) = (old.as_ref(), new.as_ref());
        rustix::io::retry_on_intr(|| {
            rustix::fs::renameat_with(&self.fd, old, &to.fd, new, RenameFlags::NOREPLACE)
        })
    }

    /// Makes a hard link from `old` to `new` in `to`, unless `new` exists.
    ///
    /// # Errors
    /// Returns the OS error; not every file system can.
    pub fn link(&self, old: impl AsRef<OsStr>, to: &Self, new: impl AsRef<OsStr>) -> Result<(), Errno> {
        let (old, new) = (old.as_ref(), new.as_ref());
        rustix::io::retry_on_intr(|| rustix::fs::linkat(&self.fd, old, &to.fd, new, AtFlags::empty()))
    }

    /// Removes the file `name`.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> Result<(), Errno> {
        fs::unlink_at(&self.fd, name, AtFlags::empty())
    }

    /// Removes the empty folder `name`.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> Result<(), Errno> {
        fs::unlink_at(&self.fd, name, AtFlags::REMOVEDIR)
    }

    /// Returns the names in it.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn names(&self) -> Result<Vec<OsString>, Errno> {
        fs::names_in(&self.fd)
    }

    /// Makes the names in it durable.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn sync(&self) -> Result<(), Errno> {
        platform::sync(&self.fd)
    }
}

/// Returns a name beneath a folder.
fn beneath(name: &Path) -> Result<WorkspacePath, Errno> {
    WorkspacePath::new(name).ok_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn directory_handle_rejects_symlinks_and_oversized_files() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::fs::create_dir_all(outside.join("deep")).unwrap();
        std::fs::write(outside.join("file"), "secret").unwrap();
        std::fs::write(root.join("real/file"), "12345").unwrap();
        symlink(&outside, root.join("link")).unwrap();
        symlink(outside.join("file"), root.join("real/linked")).unwrap();
        let held = Dir::open(&root).unwrap();
        assert!(held.folder("real/deep").unwrap().is_some() && held.folder("none").unwrap().is_none());
        for name in ["link", "link/deep", "real/file"] {
            assert!(held.folder(name).is_err(), "{name}");
            assert!(held.make_folder(name).is_err(), "{name}");
        }
        assert!(held.make_folder("link/new").is_err() && !outside.join("new").exists());
        assert!(held.make_folder("real/new/er").is_ok() && root.join("real/new/er").is_dir());
        for name in ["link/file", "real/linked", "real", "real/deep"] {
            assert!(held.read(name, 100).is_err(), "{name}");
        }
        assert!(fs::is_symlink(&held.stat("real/linked").unwrap().unwrap()));
        assert_eq!(held.read("real/file", 5).unwrap().unwrap(), b"12345");
        assert!(held.read("real/file", 4).is_err() && held.read("real/none", 4).unwrap().is_none());
        let real = held.folder("real").unwrap().unwrap();
        assert!(real.append("linked").is_err() && real.create("linked", 0o600).is_err());
        assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"secret");
    }
}
