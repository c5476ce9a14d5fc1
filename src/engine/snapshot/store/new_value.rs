//! The next value of the snapshot branch, as a file that is written aside.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

use gix::ObjectId;
use rustix::io::Errno;

use super::held::HeldFolder;
use super::own_lock::OwnLock;
use super::refs;
use super::repo::Repo;
use crate::engine::workspace::fs::{is_regular, is_same_file, mode_of, process_id, size_of};

/// The file of an earlier value, in the folder of objects: the next value is written over it, so that none is
/// made and none freed. `git gc` may clear it away at any time.
pub const SPARE: &str = "tmp_lbx_ref_spare";
/// The permission bits of such a file, at most.
const ONLY_OWNER_WRITES: u32 = 0o644;

/// A value of the branch that is written but not yet in place.
#[derive(Debug)]
pub struct NewValue {
    /// The value.
    to: ObjectId,
    /// The name of its file, in the folder of objects.
    name: String,
    /// What is in it.
    content: String,
    /// The file, to be synced.
    pub file: File,
    /// Whether its name is another by now.
    is_placed: Cell<bool>,
    /// What says that the lock is lbx's, where its content may not; it has the name then.
    own: Option<OwnLock>,
}

impl NewValue {
    /// Writes a value aside, to be synced; `reference` is where it is to go.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(repo: &Repo, reference: &str, to: ObjectId) -> io::Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        // Written aside first, so that the lock never exists without saying whose it is. What a
        // killed call leaves under such a name, `git gc` clears away.
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tmp_lbx_ref_{}_{number}", process_id());
        let folder = repo.objects_folder();
        let content = format!("{to}\n");
        let write = || match write_new(folder, &name, &content) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Of a dead process that had this id.
                let _ = folder.remove(&name);
                write_new(folder, &name, &content)
            }
            written => written,
        };
        let reused_name = format!("{name}_over");
        let (name, file) = match reuse(repo, reference, &reused_name, content.as_bytes()) {
            Some(file) => (reused_name, file),
            None => (name.clone(), write()?),
        };
        Ok(Self { to, name, content, file, is_placed: Cell::new(false), own: None })
    }

    /// The same, where the lock is to be known as lbx's whatever the value is.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_own(repo: &Repo, to: ObjectId) -> io::Result<Self> {
        let own = OwnLock::new(repo)?;
        let content = format!("{to}\n");
        (&own.file).write_all(content.as_bytes())?;
        let file = own.file.try_clone()?;
        Ok(Self { to, name: String::new(), content, file, is_placed: Cell::new(false), own: Some(own) })
    }

    /// Whether the lock has a second name by which it is known as lbx's.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// The value.
    pub fn to(&self) -> ObjectId {
        self.to
    }

    /// Renames it to `name` in `to` unless that exists.
    pub fn place(&self, repo: &Repo, to: &HeldFolder, name: &str) -> io::Result<()> {
        if let Some(own) = &self.own {
            return if own.place(repo, to, name)? {
                Ok(())
            } else {
                write_new(to, name, &self.content)?.sync_all()
            };
        }
        match repo.objects_folder().rename_new(&self.name, to, name) {
            Ok(()) => {
                self.is_placed.set(true);
                Ok(())
            }
            // Not every file system knows such a rename, and `objects` may lie on another one.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::XDEV) => {
                write_new(to, name, &self.content)?.sync_all()
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes it, unless it is in place.
    pub fn discard(&self, repo: &Repo) {
        if !self.is_placed.get() && self.own.is_none() {
            let _ = repo.objects_folder().remove(&self.name);
        }
    }
}

/// Takes the file of an earlier value for a new one; `None` where there is none that is fit.
fn reuse(repo: &Repo, reference: &str, name: &str, content: &[u8]) -> Option<File> {
    let folder = repo.objects_folder();
    // Under a name of its own first: another process may look for it as well.
    folder.rename(SPARE, folder, name).ok()?;
    let written = || -> io::Result<Option<File>> {
        let file = folder.open_over(name)?;
        let stat = rustix::fs::fstat(&file)?;
        let current = refs::stat(repo, reference)?;
        // What has another name as well is someone's, what others may write to would stay theirs (a clone may
        // bring such a file), and what a power failure mixed up is the branch itself.
        let is_ours =
            stat.st_uid == rustix::process::geteuid().as_raw() && mode_of(&stat) & !ONLY_OWNER_WRITES == 0;
        let is_fit = is_regular(&stat)
            && is_ours
            && stat.st_nlink == 1
            && size_of(&stat) == content.len() as u64
            && current.is_none_or(|current| !is_same_file(&current, &stat));
        if is_fit {
            file.write_all_at(content, 0)?;
        }
        Ok(is_fit.then_some(file))
    };
    let file = written().ok().flatten();
    if file.is_none() {
        let _ = folder.remove(name);
    }
    file
}

/// Writes a file that must not exist yet.
fn write_new(folder: &HeldFolder, name: &str, content: &str) -> io::Result<File> {
    let mut file = folder.create(name, 0o666)?;
    file.write_all(content.as_bytes())?;
    Ok(file)
}
