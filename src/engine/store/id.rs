//! Name of this account's own folder in `.lbx/`: 128 bits that nobody who prepares a workspace can know.
//!
//! They are derived from a secret of the account and from the workspace's own folder. The secret is kept in the user's
//! state folder. If that is impossible (under sandboxes that hide the home folder or make it read-only), it is derived
//! from the machine and the user.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::lock::{self, Lock, unique_name};
use crate::engine::workspace::fs;
use crate::error::{Error, ErrorKind};
use crate::limits::{ID_FILE_BYTES_MAX, STATE_DEPTH_MAX};
use crate::platform;
use crate::sha256::Sha256;

/// Variable that sets the id, for a workspace shared by host and container.
pub const VARIABLE: &str = "LBX_STATE_ID";
/// Hex digits of an id.
const DIGITS: usize = 32;
/// Folder of lbx in the user's state folder.
const FOLDER: &str = "lbx";
/// File with the id.
const NAME: &str = "id";
/// File next to it with the named sandboxes.
pub(super) const SANDBOXES: &str = "sandboxes.json";
/// Files that identify a machine, most permanent first: the last one changes at each boot.
const MACHINE_FILES: [&str; 3] =
    ["/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/random/boot_id"];

/// Name of a state: 32 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateId(String);

impl StateId {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses an id.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == DIGITS && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    /// Returns the id derived from a text, which it does not reveal.
    fn of(text: &str) -> Self {
        let mut digits = Sha256::of(format!("lbx state\n{text}\n").as_bytes()).to_hex();
        digits.truncate(DIGITS);
        Self(digits)
    }

    /// Returns a random id.
    fn random() -> Result<Self, Error> {
        let mut bytes = [0_u8; DIGITS / 2];
        platform::fill_random(&mut bytes)
            .map_err(|source| Error::io("get random bytes for", NAME, source))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Origin of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdOrigin {
    /// Environment variable.
    Environment,
    /// A file in the user's state folder.
    User(PathBuf),
    /// Derived from the machine and the user.
    Derived,
}

/// An id with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdWithOrigin {
    /// The id.
    pub id: StateId,
    /// Origin of the id.
    pub origin: IdOrigin,
    /// Owner of its file.
    file_owner: Option<u32>,
}

impl IdWithOrigin {
    /// Derives the id of the workspace at `root`. It reveals nothing about the account's states elsewhere, and a copy
    /// of the state in another folder belongs to nobody: the id depends on the account's secret and on the folder
    /// itself.
    fn of_root(self, root: BorrowedFd<'_>) -> Result<Self, Error> {
        let io = |errno: Errno| Error::io("look at", "the workspace", errno);
        // On some file systems inodes change at each mount; few have no birth time.
        let itself = match platform::birth_of(root) {
            Some((seconds, nanoseconds)) => format!("born {seconds}.{nanoseconds:09}"),
            None => format!("inode {}", rustix::fs::fstat(root).map_err(io)?.st_ino),
        };
        Ok(Self { id: StateId::of(&format!("{}\n{itself}", self.id)), ..self })
    }

    /// Returns true if a folder of this name that belongs to `uid` may be the state: the account's own, or that of the
    /// id's owner, as when root works in a user's home. An id from the environment is shared on purpose.
    pub fn may_belong_to(&self, uid: u32) -> bool {
        self.origin == IdOrigin::Environment || uid == fs::user_id() || self.file_owner == Some(uid)
    }
}

/// Id to use, before anything is made.
enum IdChoice {
    /// Known id, which may have a state already.
    Settled(IdWithOrigin),
    /// New id: the user's file has to be made.
    New(PathBuf),
    /// No id: it can be neither stored nor derived.
    Impossible,
}

/// Chooses the id for a workspace at `root`.
fn choose(root: BorrowedFd<'_>) -> Result<IdChoice, Error> {
    if let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
        return of_environment(&text).map(IdChoice::Settled);
    }
    // Others can know a derived id, so it is never used if the user can have a secret one.
    Ok(match of_user(root)? {
        IdChoice::Settled(known) => IdChoice::Settled(known.of_root(root)?),
        IdChoice::New(folder) => IdChoice::New(folder),
        IdChoice::Impossible => fallback_id(root)?.map_or(IdChoice::Impossible, IdChoice::Settled),
    })
}

/// Returns the id of this account's state in the workspace at `root`. Makes nothing; `None` if there is no such state
/// yet.
///
/// # Errors
/// Returns `invalid_request` if the environment's id is malformed, `io_error` if the user's file has other content, or
/// the OS error.
pub fn find(root: BorrowedFd<'_>) -> Result<Option<IdWithOrigin>, Error> {
    Ok(match choose(root)? {
        IdChoice::Settled(known) => Some(known),
        IdChoice::New(..) | IdChoice::Impossible => None,
    })
}

/// Returns the id for a state that is about to be made; makes the user's file if missing.
///
/// # Errors
/// As [`find`]; also `io_error` if an id can be neither stored nor derived.
pub fn make(root: BorrowedFd<'_>) -> Result<IdWithOrigin, Error> {
    let made = match choose(root)? {
        IdChoice::Settled(known) => Some(known),
        IdChoice::New(folder) => match make_file(root, &folder)? {
            Some(known) => Some(known.of_root(root)?),
            None => fallback_id(root)?,
        },
        IdChoice::Impossible => None,
    };
    made.ok_or_else(|| {
        Error::new(
            ErrorKind::IoError,
            "there is no place to keep the id of lbx's state, and nothing to derive it from",
        )
        .suggest(format!("Set {VARIABLE} to {DIGITS} random hexadecimal digits, the same at every call."))
    })
}

/// Returns the present or future origin of the id, and the id itself if known.
///
/// # Errors
/// As [`make`].
pub fn source(root: BorrowedFd<'_>) -> Result<Option<(IdOrigin, Option<StateId>)>, Error> {
    Ok(match choose(root)? {
        IdChoice::Settled(known) => Some((known.origin, Some(known.id))),
        IdChoice::New(folder) => Some((IdOrigin::User(folder.join(NAME)), None)),
        IdChoice::Impossible => None,
    })
}

/// Parses the id from the environment.
fn of_environment(text: &OsStr) -> Result<IdWithOrigin, Error> {
    let id = text.to_str().and_then(StateId::parse).ok_or_else(|| {
        Error::invalid(format!("{VARIABLE}: expected {DIGITS} hexadecimal digits in lower case"))
            .suggest(format!("Give {VARIABLE} such an id, as `openssl rand -hex 16` makes one, or unset it."))
    })?;
    Ok(IdWithOrigin { id, origin: IdOrigin::Environment, file_owner: None })
}

/// Returns the user's state folder, by the XDG base directory specification, and the folder that must exist before it
/// can be made.
fn state_home() -> Option<(PathBuf, Option<PathBuf>)> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(folder) = folder("XDG_STATE_HOME") {
        return Some((folder, None));
    }
    let home = folder("HOME")?;
    Some((home.join(".local/state"), Some(home)))
}

/// Returns the path of the user's file with the id.
pub fn user_file() -> Option<PathBuf> {
    Some(user_folder()?.join(NAME))
}

/// Returns lbx's folder in the user's state folder.
pub fn user_folder() -> Option<PathBuf> {
    Some(state_home()?.0.join(FOLDER))
}

/// Lock that all calls of this account share, whatever their workspaces: that of the id's file, which no command sees.
/// Nothing is locked if the account keeps no such file, or on a file system without locks.
#[derive(Debug, Default)]
pub struct AccountLock {
    /// True if it was taken.
    is_taken: bool,
    /// Lock; released on drop.
    lock: Option<Lock>,
}

impl AccountLock {
    /// Takes the lock, if this has not been done.
    ///
    /// # Errors
    /// Returns `EAGAIN` if another call keeps it for longer than `patience`.
    pub fn take(&mut self, patience: Duration) -> Result<(), Errno> {
        let Some(path) = user_folder().filter(|_| !self.is_taken) else { return Ok(()) };
        self.is_taken = true;
        // On NFS, only a file that could be written can be locked.
        let flags = fs::READ.union(OFlags::RDWR);
        let open = || rustix::fs::openat(CWD, path.join(NAME), flags, Mode::empty());
        let Ok(file) = rustix::io::retry_on_intr(open) else { return Ok(()) };
        match lock::take_open_file(file.into(), Some(patience)) {
            Ok(None) => return Err(Errno::AGAIN),
            outcome => self.lock = outcome.ok().flatten(),
        }
        Ok(())
    }
}

/// Returns the files in that folder that change the behavior of lbx.
pub fn user_files() -> Vec<OsString> {
    [NAME, SANDBOXES].map(OsString::from).into()
}

/// Returns true if the error means that this account cannot use the place.
fn is_no_place(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ACCESS
            | Errno::PERM
            | Errno::ROFS
            | Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::OPNOTSUPP
    )
}

/// Reads the user's state folder, for a workspace at `root`.
fn of_user(root: BorrowedFd<'_>) -> Result<IdChoice, Error> {
    let Some((state_home, must_exist)) = state_home() else {
        return Ok(IdChoice::Impossible);
    };
    let path = state_home.join(FOLDER);
    match open_path(&path) {
        Ok(folder) if is_within(&folder, root) => Ok(IdChoice::Impossible),
        Ok(folder) => match read(&folder, &path)? {
            Some(known) => Ok(known),
            None if fs::may_add_to(&folder).is_ok() => Ok(IdChoice::New(path)),
            None => Ok(IdChoice::Impossible),
        },
        Err(Errno::NOENT) => {
            let is_wanted = |folder: &&Path| must_exist.as_ref().is_none_or(|home| folder.starts_with(home));
            let nearest =
                state_home.ancestors().take_while(is_wanted).find_map(|folder| open_path(folder).ok());
            // A folder in the workspace may have come with it.
            Ok(match nearest.filter(|folder| !is_within(folder, root) && fs::may_add_to(folder).is_ok()) {
                Some(_) => IdChoice::New(path),
                None => IdChoice::Impossible,
            })
        }
        Err(errno) if is_no_place(errno) => Ok(IdChoice::Impossible),
        Err(errno) => Err(Error::io("open", path.display().to_string(), errno)),
    }
}

/// Opens a folder by a path that the user chose.
///
/// # Errors
/// Returns the OS error.
pub fn open_path(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::io::retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))
}

/// Returns true if `folder` is `root` or lies below it, however the paths are spelled.
fn is_within(folder: &OwnedFd, root: BorrowedFd<'_>) -> bool {
    let (Ok(root), Ok(mut stat)) = (rustix::fs::fstat(root), rustix::fs::fstat(folder)) else {
        return true;
    };
    let mut way = String::new();
    for _ in 0..STATE_DEPTH_MAX {
        if fs::is_same_file(&stat, &root) {
            return true;
        }
        way.push_str("../");
        let Ok(above) = fs::stat_at(folder.as_fd(), OsStr::new(&way)) else {
            return true;
        };
        if fs::is_same_file(&above, &stat) {
            return false;
        }
        stat = above;
    }
    true
}

/// Returns the id in the user's file; `None` if the file is missing.
fn read(folder: &OwnedFd, path: &Path) -> Result<Option<IdChoice>, Error> {
    let file = path.join(NAME);
    let shown = file.display().to_string();
    let (bytes, stat) = match fs::read_opened(folder.as_fd(), OsStr::new(NAME), ID_FILE_BYTES_MAX as u64) {
        Ok(Some((bytes, _, stat))) => (bytes, stat),
        Ok(None) => return Ok(None),
        Err(source) => {
            let errno = source.raw_os_error().map(Errno::from_raw_os_error);
            return match errno {
                Some(Errno::ACCESS | Errno::PERM) => Ok(Some(IdChoice::Impossible)),
                _ if fs::is_unfit(&source) => Err(no_id(&shown)),
                _ => Err(Error::io("read", shown, source)),
            };
        }
    };
    let text = std::str::from_utf8(&bytes).ok();
    let id = text.and_then(|text| StateId::parse(text.strip_suffix('\n').unwrap_or(text)));
    let id = id.ok_or_else(|| no_id(&shown))?;
    let file_owner = Some(stat.st_uid);
    Ok(Some(IdChoice::Settled(IdWithOrigin { id, origin: IdOrigin::User(file), file_owner })))
}

/// Returns the error for a file without an id. The file is not replaced: the state of the lost id would silently
/// disappear.
fn no_id(shown: &str) -> Error {
    Error::new(
        ErrorKind::IoError,
        format!("{shown} does not hold the id of lbx's state: {DIGITS} hexadecimal digits in a regular file"),
    )
    .at(shown)
    .suggest(format!(
        "Restore {shown}, or move it away: the next call then begins a new state, without the history, marks and trash of the old one."
    ))
}

/// Makes the user's file with a new id, or reads one that another call has just made; `None` if it cannot be stored
/// after all.
fn make_file(root: BorrowedFd<'_>, path: &Path) -> Result<Option<IdWithOrigin>, Error> {
    let io = |errno: Errno| Error::io("make", path.display().to_string(), errno);
    if let Err(source) = make_folders(path) {
        let errno = source.raw_os_error().map(Errno::from_raw_os_error);
        return match errno.filter(|errno| is_no_place(*errno)) {
            Some(_) => Ok(None),
            None => Err(Error::io("make", path.display().to_string(), source)),
        };
    }
    let folder = match open_path(path) {
        Ok(folder) if is_within(&folder, root) => return Ok(None),
        Ok(folder) => folder,
        Err(errno) if is_no_place(errno) => return Ok(None),
        Err(errno) => return Err(io(errno)),
    };
    let aside = unique_name(".new");
    match publish(&folder, &aside, &StateId::random()?) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) if is_no_place(errno) => return Ok(None),
        Err(errno) => return Err(io(errno)),
    }
    match read(&folder, path)? {
        Some(IdChoice::Settled(known)) => Ok(Some(known)),
        _ => Ok(None),
    }
}

/// Makes a folder and its parents, for this user only.
///
/// # Errors
/// Returns the OS error.
#[expect(clippy::disallowed_methods, reason = "the user's own state folder, which no workspace brings")]
pub fn make_folders(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes the file whole and durable, unless it exists: two simultaneous first calls read the same id.
fn publish(folder: &OwnedFd, aside: &str, id: &StateId) -> Result<(), Errno> {
    let errno_of = |source: std::io::Error| source.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
    let mut file: File = fs::create_at(folder.as_fd(), OsStr::new(aside), 0o600)?;
    let written = file.write_all(format!("{id}\n").as_bytes()).and_then(|()| file.sync_all());
    let named = written.map_err(errno_of).and_then(|()| rename_unless_taken(folder, aside));
    // Gone already if it was renamed.
    let _ = fs::unlink_at(folder, aside, AtFlags::empty());
    named?;
    platform::sync(folder)
}

/// Renames the file, unless the name is taken.
fn rename_unless_taken(folder: &OwnedFd, aside: &str) -> Result<(), Errno> {
    let rename = || rustix::fs::renameat_with(folder, aside, folder, NAME, RenameFlags::NOREPLACE);
    match rustix::io::retry_on_intr(rename) {
        // File systems without such a rename have links.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::io::retry_on_intr(|| rustix::fs::linkat(folder, aside, folder, NAME, AtFlags::empty()))
        }
        outcome => outcome,
    }
}

/// Returns the id for a workspace at `root` if the user can store none.
fn fallback_id(root: BorrowedFd<'_>) -> Result<Option<IdWithOrigin>, Error> {
    let of_account = |id| IdWithOrigin { id, origin: IdOrigin::Derived, file_owner: None };
    id_of_machine().map(|id| of_account(id).of_root(root)).transpose()
}

/// Returns the id by machine and user; `None` if nothing identifies the machine.
fn id_of_machine() -> Option<StateId> {
    let machine = MACHINE_FILES.iter().find_map(|path| machine_id(Path::new(path)))?;
    let uid = rustix::process::geteuid().as_raw();
    Some(StateId::of(&format!("{machine}\n{uid}")))
}

/// Returns the machine id in a file, if it is as good as random.
fn machine_id(path: &Path) -> Option<String> {
    let flags = fs::READ.difference(OFlags::NOFOLLOW);
    let open = || rustix::fs::openat(CWD, path, flags, Mode::empty());
    let file = rustix::io::retry_on_intr(open).ok()?;
    // One read returns the whole file, or one byte more than allowed.
    let mut bytes = [0; ID_FILE_BYTES_MAX + 1];
    let count = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut bytes)).ok()?;
    let bytes = bytes.get(..count).filter(|bytes| bytes.len() <= ID_FILE_BYTES_MAX)?;
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let digits = text.bytes().filter(u8::is_ascii_hexdigit);
    let is_id = digits.clone().count() >= DIGITS && digits.clone().any(|digit| digit != b'0');
    is_id.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_id_is_32_lowercase_hex_digits() {
        assert!(StateId::parse("0123456789abcdef0123456789abcdef").is_some());
        for bad in
            ["", "0123456789ABCDEF0123456789abcdef", "../../../../../../../../../../../x", "0123456789abcdef"]
        {
            assert!(StateId::parse(bad).is_none(), "{bad}");
        }
        let (one, other) = (StateId::random().unwrap(), StateId::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(StateId::parse(one.as_str()), Some(one));
    }

    #[test]
    fn empty_and_zero_machine_ids_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("machine-id");
        for (text, is_good) in [
            ("0123456789abcdef0123456789abcdef\n", true),
            ("1b4e28ba-2fa1-11d2-883f-0016d3cca427\n", true),
            ("", false),
            ("uninitialized\n", false),
            ("00000000000000000000000000000000\n", false),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(machine_id(&file).is_some(), is_good, "{text}");
        }
    }
}
