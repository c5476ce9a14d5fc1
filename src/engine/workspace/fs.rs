//! System calls relative to opened folders, repeated if a signal interrupts them; and the limit of open files.

use std::borrow::Borrow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::listing::Listing;
use super::path::WorkspacePath;
use crate::platform::{self, ROOM_BYTES};
pub use crate::platform::{HANDLE, NamedEntry, read_link_at};

/// Flags for reading a file that might turn out to be a FIFO or a terminal.
pub const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Flags for appending to a file of lbx's own, which others may have replaced by anything.
pub const ADD: OFlags = OFlags::RDWR
    .union(OFlags::APPEND)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Flags for a folder that will be listed or synced.
pub const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens `path` below `root`, through no symlink.
///
/// # Errors
/// Returns the OS error; `ELOOP` if a symlink is on the way.
pub fn open_beneath(root: BorrowedFd<'_>, path: &WorkspacePath, flags: OFlags) -> Result<OwnedFd, Errno> {
    platform::open_beneath(root, path.as_path(), flags)
}

/// Returns the stat of `path` below `root`, reached through no symlink; of a symlink at its end, the link's own.
///
/// # Errors
/// Returns the OS error; `ELOOP` if a symlink is on the way.
pub fn stat_beneath(root: BorrowedFd<'_>, path: &WorkspacePath) -> Result<Stat, Errno> {
    platform::stat_beneath(root, path.as_path())
}

/// Looks up `path` below `root`, through no symlink.
///
/// # Errors
/// Returns the OS error; `ELOOP` if a symlink is on the way.
pub fn entry_beneath(root: BorrowedFd<'_>, path: &WorkspacePath) -> Result<NamedEntry, Errno> {
    NamedEntry::look_up_beneath(root, path.as_path())
}

/// Returns the target of the symlink `path` below `root`.
///
/// # Errors
/// Returns the OS error; `EINVAL` for anything but a symlink.
pub fn link_beneath(root: BorrowedFd<'_>, path: &WorkspacePath) -> Result<Vec<u8>, Errno> {
    entry_beneath(root, path)?.target()
}

/// Opens an absolute path that is its own canonical form, without symlinks and dots; `None` if it is not such a path,
/// or if the system cannot tell.
pub fn open_plain(path: &Path, flags: OFlags) -> Option<Result<OwnedFd, Errno>> {
    if is_canonical_text(path) { platform::open_without_links(path, flags) } else { None }
}

/// Looks up a path as [`open_plain`] does, without opening what is there.
pub fn exists_plain(path: &Path) -> Option<Result<(), Errno>> {
    if is_canonical_text(path) { platform::exists_without_links(path) } else { None }
}

/// Returns true if the text of a path could be its canonical form.
fn is_canonical_text(path: &Path) -> bool {
    let is_plain = |part: std::path::Component<'_>| {
        matches!(part, std::path::Component::RootDir | std::path::Component::Normal(_))
    };
    // Collecting the components normalizes any other spelling.
    let is_written_so = || path.components().collect::<std::path::PathBuf>().as_os_str() == path.as_os_str();
    path.is_absolute() && path.components().all(is_plain) && is_written_so()
}

/// Folder that was opened last. Files that are taken in order mostly lie in the folder of the one before: for a patch of
/// many files that saves one call in nine.
#[derive(Debug)]
pub struct FolderCache<K>(Option<(K, OwnedFd)>);

impl<K> Default for FolderCache<K> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: PartialEq> FolderCache<K> {
    /// Returns the folder that `key` names, opened by `open` unless it is the last one.
    ///
    /// # Errors
    /// Returns the errors of `open`.
    pub fn get(
        &mut self,
        key: K,
        open: impl FnOnce(&K) -> Result<OwnedFd, Errno>,
    ) -> Result<BorrowedFd<'_>, Errno> {
        let known = self.0.take().filter(|(last, _)| *last == key);
        let folder = match known {
            Some((_, folder)) => folder,
            None => open(&key)?,
        };
        Ok(self.0.insert((key, folder)).1.as_fd())
    }
}

/// Opens `name` in `folder`; does not follow a symlink if `flags` say so.
///
/// # Errors
/// Returns the OS error.
pub fn open_at(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::io::retry_on_intr(|| rustix::fs::openat(folder, name, flags, Mode::empty()))
}

/// Creates `name` in `folder` with `mode` without the umask; the name must be free.
///
/// # Errors
/// Returns the OS error; `EEXIST` if the name is taken.
pub fn create_at(folder: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = platform::mode(mode);
    rustix::io::retry_on_intr(|| rustix::fs::openat(folder, name, flags, mode)).map(File::from)
}

/// Returns the stat of `name` in `folder`; does not follow a symlink.
///
/// # Errors
/// Returns the OS error.
pub fn stat_at(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Stat, Errno> {
    rustix::io::retry_on_intr(|| rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW))
}

/// Renames `old` in `from` to `new` in `to`, and replaces an existing `new`.
///
/// # Errors
/// Returns the OS error.
pub fn rename_at(
    from: impl AsFd,
    old: impl AsRef<OsStr>,
    to: impl AsFd,
    new: impl AsRef<OsStr>,
) -> Result<(), Errno> {
    let (old, new) = (old.as_ref(), new.as_ref());
    rustix::io::retry_on_intr(|| rustix::fs::renameat(&from, old, &to, new))
}

/// Renames to a name that must be free.
///
/// # Errors
/// Returns the OS error; `EEXIST` if the name is taken.
pub fn rename_new(from: impl AsFd, old: &OsStr, to: impl AsFd, new: &OsStr) -> Result<(), Errno> {
    let (from, to) = (from.as_fd(), to.as_fd());
    match platform::rename_new(from, old, to, new) {
        // Not every system and file system can.
        Err(Errno::INVAL | Errno::NOSYS) => match stat_at(to.as_fd(), new) {
            Err(Errno::NOENT) => rename_at(from, old, to, new),
            Ok(_) => Err(Errno::EXIST),
            Err(errno) => Err(errno),
        },
        outcome => outcome,
    }
}

/// Exchanges two names atomically.
///
/// # Errors
/// Returns the OS error; `EINVAL` or `ENOSYS` if the file system cannot.
pub fn exchange(one: impl AsFd, name: &OsStr, other: impl AsFd, with: &OsStr) -> Result<(), Errno> {
    platform::exchange(one.as_fd(), name, other.as_fd(), with)
}

/// Removes `name` from `folder`.
///
/// # Errors
/// Returns the OS error.
pub fn unlink_at(folder: impl AsFd, name: impl AsRef<OsStr>, flags: AtFlags) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| rustix::fs::unlinkat(&folder, name.as_ref(), flags))
}

/// Returns the names in an opened folder, without `.` and `..`.
///
/// # Errors
/// Returns the OS error.
pub fn names_in(folder: &OwnedFd) -> Result<Vec<std::ffi::OsString>, Errno> {
    // An earlier listing may have left it at its end.
    rustix::fs::seek(folder, rustix::fs::SeekFrom::Start(0))?;
    let mut room: Vec<u8> = Vec::with_capacity(ROOM_BYTES);
    let listing = Listing::read(folder.as_fd(), room.spare_capacity_mut(), || false)?;
    Ok(listing.iter().map(|entry| OsStr::from_bytes(entry.name).to_owned()).collect())
}

/// Returns what a look found, `None` where it failed for what is at the name.
///
/// # Errors
/// Returns an error that says nothing about the name: the system was short of something, or the disk failed.
pub fn found<T, E: Into<io::Error>>(looked: Result<T, E>) -> io::Result<Option<T>> {
    let error = match looked {
        Ok(found) => return Ok(Some(found)),
        Err(error) => error.into(),
    };
    let of_system = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO, Errno::INTR];
    let is_of_system = |code| of_system.iter().any(|errno| errno.raw_os_error() == code);
    if error.raw_os_error().is_some_and(is_of_system) { Err(error) } else { Ok(None) }
}

/// Returns all of `name` in `folder`, a regular file of at most `bytes_max` bytes; `None` if it is missing.
///
/// # Errors
/// Returns the OS error; `EFBIG` beyond the bound, `EINVAL` for anything but a regular file.
pub fn read_at(folder: BorrowedFd<'_>, name: &OsStr, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    Ok(read_opened(folder, name, bytes_max)?.map(|(bytes, ..)| bytes))
}

/// Reads like [`read_at`]; returns no bytes for a file that cannot be read.
pub fn read_or_empty(folder: BorrowedFd<'_>, name: &OsStr, bytes_max: u64) -> Vec<u8> {
    read_at(folder, name, bytes_max).ok().flatten().unwrap_or_default()
}

/// Reads like [`read_at`] and also returns the open file and its stat. While it is open, no other file gets its inode.
///
/// # Errors
/// As [`read_at`].
pub fn read_opened(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    bytes_max: u64,
) -> io::Result<Option<(Vec<u8>, File, Stat)>> {
    let file = match open_at(folder, name, READ) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let stat = rustix::fs::fstat(&file)?;
    if !is_regular(&stat) {
        return Err(Errno::INVAL.into());
    }
    let bytes = read_to_end(&file, size_of(&stat), bytes_max)?;
    Ok(Some((bytes, file, stat)))
}

/// Returns true if [`read_at`] failed because of the type or size of the file: a folder, a link, a device, or one far
/// too large.
pub fn is_unfit(source: &io::Error) -> bool {
    let errno = source.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::INVAL | Errno::FBIG | Errno::ISDIR | Errno::LOOP | Errno::NXIO))
}

/// Initial buffer for a file, in bytes: a sparse file may claim any size, and only reading shows its bytes.
const ROOM_MAX: u64 = 1 << 20;

/// Size up to which a file is read at its size in one go, in bytes.
const WHOLE_BYTES: u64 = 64 << 10;

/// Returns all of `file`, about `expected` bytes and at most `bytes_max`.
///
/// # Errors
/// Returns the OS error; `EFBIG` beyond the bound.
pub fn read_to_end(file: impl Borrow<File>, expected: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = file.borrow();
    if expected > bytes_max {
        return Err(Errno::FBIG.into());
    }
    let room = usize::try_from(expected.min(ROOM_MAX)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(room.saturating_add(1));
    if expected > 0 && expected <= WHOLE_BYTES {
        // Bytes added since the stat count as added later.
        file.take(expected).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == expected {
            return Ok(bytes);
        }
    }
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Errno::FBIG.into());
    }
    Ok(bytes)
}

/// Writes all of `bytes` in parts: for a larger write Linux fills the page cache with the largest free blocks, and
/// blocks unused for a while can take ten times as long.
///
/// # Errors
/// Returns the OS error.
pub fn write_all(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    /// Bytes per write.
    const PART: usize = 64 * 1024;
    bytes.chunks(PART).try_for_each(|part| file.write_all(part))
}

/// Type bits of a symlink in a mode.
pub const SYMLINK_MODE: u32 = 0o120_000;

/// Permission bits that the owner of a folder needs to change names in it, and to sync it.
const OWNER_BITS: u32 = 0o700;

/// Returns the permission bits of a folder, plus those that let its owner change names in it.
pub const fn opened_up(mode: u32) -> u32 {
    mode | OWNER_BITS
}

/// Returns true if a folder with these permission bits keeps its owner from changing names in it.
pub const fn is_closed(mode: u32) -> bool {
    mode != opened_up(mode)
}

/// Bytes that are copied at a time.
const COPIED_BYTES: usize = 256 << 10;
/// Bytes that become a hole in the copy of a sparse file if all are zero: the size of a block.
const HOLE_BYTES: usize = 4096;

/// Copies a file to a new one, and passes on its bytes. A copy of a file with holes has holes as well.
///
/// # Errors
/// Returns the OS error, or that of `pass_on`.
pub fn copy_file(
    mut source: &File,
    copy: &File,
    mut pass_on: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let stat = rustix::fs::fstat(source)?;
    let is_sparse = stat.st_blocks < stat.st_size / 512;
    let is_hole = |block: &[u8]| is_sparse && block.iter().all(|byte| *byte == 0);
    let (mut part, mut bytes) = (vec![0; COPIED_BYTES], 0);
    loop {
        let count = source.read(&mut part)?;
        let read = part.get(..count).unwrap_or_default();
        if read.is_empty() {
            return copy.set_len(bytes);
        }
        pass_on(read)?;
        let blocks: Vec<&[u8]> = read.chunks(HOLE_BYTES).collect();
        for run in blocks.chunk_by(|one, next| is_hole(one) == is_hole(next)) {
            let run = run.concat();
            if !is_hole(&run) {
                copy.write_all_at(&run, bytes)?;
            }
            bytes += run.len() as u64;
        }
    }
}

/// Sets the permission bits of a folder or file, even if it was opened only for examination.
///
/// # Errors
/// Returns the OS error.
pub fn set_mode(opened: &OwnedFd, mode: u32) -> Result<(), Errno> {
    platform::set_mode(opened.as_fd(), platform::mode(mode))
}

/// Returns true if a file belongs to this account.
pub fn is_own(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Fails if this account may not write the file at `path` below `root`.
///
/// # Errors
/// Returns the OS error.
pub fn may_write(root: BorrowedFd<'_>, path: &WorkspacePath) -> Result<(), Errno> {
    rustix::fs::accessat(root, path.as_path(), Access::WRITE_OK, AtFlags::EACCESS)
}

/// Fails if this account may not create files in a folder.
///
/// # Errors
/// Returns the OS error.
pub fn may_add_to(folder: impl AsFd) -> Result<(), Errno> {
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    rustix::io::retry_on_intr(|| rustix::fs::accessat(&folder, ".", wanted, AtFlags::EACCESS))
}

/// Gives the group that may write `folder` the same rights on what this account made in it, whatever the umask. Anything
/// of another group, or with another name elsewhere, keeps its mode.
///
/// # Errors
/// Returns the OS error.
pub fn share_with_group_of(folder: impl AsFd, made: impl AsFd) -> Result<(), Errno> {
    let (around, stat) = (rustix::fs::fstat(folder)?, rustix::fs::fstat(&made)?);
    let (rights, mode) = (mode_of(&around) & 0o070, mode_of(&stat));
    let wanted = mode | if is_folder(&stat) { rights } else { rights & 0o060 };
    let is_shared = around.st_gid == stat.st_gid && (is_folder(&stat) || stat.st_nlink == 1);
    if rights & 0o020 == 0 || wanted == mode || !is_shared {
        return Ok(());
    }
    rustix::fs::fchmod(made, platform::mode(wanted))
}

/// Type bits of a folder.
pub const FOLDER_MODE: u32 = 0o040_000;

/// Returns true if a mode, with its type bits, is that of a folder.
pub const fn is_folder_mode(mode: u32) -> bool {
    mode & 0o170_000 == FOLDER_MODE
}

/// Returns true if a mode is that of a symlink, whose bytes are its target.
pub const fn is_symlink_mode(mode: u32) -> bool {
    mode & 0o170_000 == SYMLINK_MODE
}

/// Returns the mode of a file or symlink for the journal and the snapshots: permission bits, or the type bits of a
/// symlink, which has no permission bits of its own.
pub fn recorded_mode(stat: &Stat) -> u32 {
    if is_symlink(stat) { SYMLINK_MODE } else { mode_of(stat) }
}

/// Creates the symlink `name` in `folder`; the name must be free.
///
/// # Errors
/// Returns the OS error; `EEXIST` if the name is taken.
pub fn create_link_at(folder: BorrowedFd<'_>, name: &OsStr, target: &[u8]) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| rustix::fs::symlinkat(target, folder, name))
}

/// Returns the type in a `stat`.
pub fn type_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Returns true if it is a regular file.
pub fn is_regular(stat: &Stat) -> bool {
    type_of(stat) == FileType::RegularFile
}

/// Returns true if it is a folder.
pub fn is_folder(stat: &Stat) -> bool {
    type_of(stat) == FileType::Directory
}

/// Returns true if it is a symlink.
pub fn is_symlink(stat: &Stat) -> bool {
    type_of(stat) == FileType::Symlink
}

/// Returns the size in bytes.
pub fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Returns the permission bits with setuid, setgid and sticky, 0 to 0o7777.
pub fn mode_of(stat: &Stat) -> u32 {
    platform::mode_bits(stat) & 0o7777
}

/// Returns `mode` for responses: octal text such as `0644`.
pub fn mode_text(mode: u32) -> String {
    format!("{mode:04o}")
}

/// Returns true if both are of the same file.
pub fn is_same_file(one: &Stat, other: &Stat) -> bool {
    one.st_dev == other.st_dev && one.st_ino == other.st_ino
}

/// Returns true if `name` in `folder` is still the opened file.
pub fn is_named(folder: impl AsFd, name: &OsStr, opened: impl AsFd) -> bool {
    let (named, opened) = (stat_at(folder.as_fd(), name), rustix::fs::fstat(opened));
    named.is_ok_and(|named| opened.is_ok_and(|opened| is_same_file(&named, &opened)))
}

/// Returns true if a file was not written, as far as the file system shows.
pub fn is_unchanged(then: &Stat, now: &Stat) -> bool {
    let times = |stat: &Stat| (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
    is_same_file(now, then) && now.st_size == then.st_size && times(now) == times(then)
}

/// Returns nanoseconds, whose type differs between systems; `None` if they are too many.
pub fn nanoseconds(value: impl TryInto<i64>) -> Option<i64> {
    value.try_into().ok()
}

/// A mount, by device and mount id.
pub type Mount = (u64, Option<u64>);

/// Returns the mount of a file: between two mounts no rename is possible, even where
/// both are parts of one file system (bind mounts).
///
/// # Errors
/// Returns the OS error.
pub fn mount_of(file: impl AsFd) -> Result<Mount, Errno> {
    platform::mount_of(file.as_fd())
}

/// Returns the id of this process, which is queried once.
pub fn process_id() -> u32 {
    static ID: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *ID.get_or_init(std::process::id)
}

/// Returns the account by whose rights this process acts, which is queried once.
pub fn user_id() -> u32 {
    static ID: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *ID.get_or_init(|| rustix::process::geteuid().as_raw())
}

/// Number of running changes that need a raised limit, and the original limit.
static RAISED: Mutex<(usize, Option<Rlimit>)> = Mutex::new((0, None));

/// Raised limit of open files, until the last of these is dropped: a change of thousands of files holds several
/// descriptors for each, and a server makes several changes at once. Programs started later get the original limit.
#[derive(Debug)]
pub struct OpenFiles(());

impl OpenFiles {
    /// Raises the limit. If that fails, a change with too many files fails as a whole.
    pub fn raise_limit() -> Self {
        let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        if raised.0 == 0 {
            let before = getrlimit(Resource::Nofile);
            let limits = Rlimit { current: before.maximum, ..before };
            let is_lower = before.current != before.maximum;
            raised.1 = (is_lower && setrlimit(Resource::Nofile, limits).is_ok()).then_some(before);
        }
        raised.0 += 1;
        Self(())
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        raised.0 = raised.0.saturating_sub(1);
        if raised.0 == 0
            && let Some(before) = raised.1.take()
        {
            // Open files stay open; a limit that cannot be restored does no harm.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}

/// Gives a program that was just started the original limit, if it got a raised one: another thread may be making a
/// change.
pub fn lower_for(program: &std::process::Child) {
    let before = RAISED.lock().unwrap_or_else(PoisonError::into_inner).1;
    if let Some(before) = before {
        platform::process::limit_open_files(program, before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_file_limit_is_restored_after_the_last_user() {
        let before = getrlimit(Resource::Nofile);
        let (one, other) = (OpenFiles::raise_limit(), OpenFiles::raise_limit());
        drop(one);
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
        // A program that is started meanwhile gets the original limit.
        let (shell, limit) = (std::process::Command::new("sh"), ["-c", "read line; ulimit -n"]);
        let piped = std::process::Stdio::piped;
        let mut program = { shell }.args(limit).stdin(piped()).stdout(piped()).spawn().unwrap();
        lower_for(&program);
        drop(program.stdin.take());
        let output = program.wait_with_output().unwrap();
        let wanted = before.current.map_or("unlimited".to_owned(), |limit| limit.to_string());
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), wanted);
        drop(other);
        assert_eq!(getrlimit(Resource::Nofile), before);
    }
}
