//! Forks as copies, in folders with paths of their own: for programs that are not started by lbx, and for systems without
//! layers. Files share their blocks with those of the workspace where the file system can do that.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::layer_folders::OWN_MODE;
use super::overlay::whiteout;
use crate::engine::store::state::{STATE_FOLDER, make_folder};
use crate::engine::workspace::metadata::{make_alike, times_of};
use crate::engine::workspace::protect::DOT_GIT;
use crate::engine::workspace::{fs, metadata, removal};
use crate::error::Error;
use crate::platform;

/// Parts of git's own state that a copy shares, does not need, or that name other places.
const NOT_COPIED: [&str; 6] = ["objects", "worktrees", "modules", "logs", "lfs", "fsmonitor--daemon"];
/// Beginning of the file names that a program may be writing.
const LOCKS: &[u8] = b".lock";

/// A folder that is still to be copied, or has been.
enum CopyTask {
    /// Its entries are copied.
    Enter(Rc<OwnedFd>, OsString, Rc<OwnedFd>),
    /// All of it is copied.
    Finish(OwnedFd, Stat),
}

/// Copies the workspace to a new folder, without lbx's state; git's objects are shared.
///
/// # Errors
/// Returns the OS error, with the path.
pub fn copy_workspace((root, path): (BorrowedFd<'_>, &Path), to: &OwnedFd) -> Result<(), Error> {
    let io = |source: std::io::Error| Error::io("copy", path.display().to_string(), source);
    copy_folder(root, to, &|name| name == STATE_FOLDER || name == DOT_GIT).map_err(io)?;
    let own = |errno: Errno| io(errno.into());
    match fs::open_at(root, OsStr::new(DOT_GIT), fs::FOLDER) {
        Ok(git) => copy_git((git.as_fd(), &path.join(DOT_GIT)), to).map_err(io),
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(own(errno)),
    }
}

/// Copies git's own state, except for objects, which the copy shares (gitrepository-layout(5), `objects/info/alternates`).
fn copy_git((git, path): (BorrowedFd<'_>, &Path), to: &OwnedFd) -> std::io::Result<()> {
    make_folder(to.as_fd(), OsStr::new(DOT_GIT), OWN_MODE)?;
    let own = fs::open_at(to.as_fd(), OsStr::new(DOT_GIT), fs::FOLDER)?;
    copy_folder(git, &own, &|name| {
        NOT_COPIED.iter().any(|other| name == *other) || name.as_bytes().ends_with(LOCKS)
    })?;
    for folder in ["objects", "objects/info", "objects/pack"] {
        rustix::fs::mkdirat(&own, folder, platform::mode(0o755))?;
    }
    let file = fs::create_at(own.as_fd(), OsStr::new("objects/info/alternates"), 0o644)?;
    fs::write_all(&file, &[path.join("objects").as_os_str().as_bytes(), b"\n"].concat())
}

/// Copies the entries of a folder to another one, with modes, owners, attributes and times, except some names at its top.
/// Devices, FIFOs and sockets are left out.
fn copy_folder(
    from: BorrowedFd<'_>,
    to: &OwnedFd,
    is_left_out: &dyn Fn(&OsStr) -> bool,
) -> std::io::Result<()> {
    let open = |folder: BorrowedFd<'_>| fs::open_at(folder, OsStr::new("."), fs::FOLDER);
    let (source, target) = (Rc::new(open(from)?), Rc::new(open(to.as_fd())?));
    let mut tasks = vec![CopyTask::Finish(open(to.as_fd())?, rustix::fs::fstat(from)?)];
    let inner = |source: &Rc<OwnedFd>, target: &Rc<OwnedFd>, name: OsString| {
        CopyTask::Enter(Rc::clone(source), name, Rc::clone(target))
    };
    let names = fs::names_in(&source)?.into_iter().filter(|name| !is_left_out(name));
    tasks.extend(names.map(|name| inner(&source, &target, name)));
    while let Some(task) = tasks.pop() {
        match task {
            CopyTask::Finish(folder, stat) => finish_folder(&folder, &stat)?,
            CopyTask::Enter(from, name, to) => {
                let stat = fs::stat_at(from.as_fd(), &name)?;
                if !fs::is_folder(&stat) {
                    copy_entry((from.as_fd(), &name), to.as_fd(), &stat)?;
                    continue;
                }
                rustix::fs::mkdirat(&to, &name, platform::mode(OWN_MODE))?;
                let source = Rc::new(fs::open_at(from.as_fd(), &name, fs::FOLDER)?);
                let target = Rc::new(fs::open_at(to.as_fd(), &name, fs::FOLDER)?);
                tasks.push(CopyTask::Finish(fs::open_at(to.as_fd(), &name, fs::FOLDER)?, stat));
                tasks.extend(fs::names_in(&source)?.into_iter().map(|name| inner(&source, &target, name)));
            }
        }
    }
    Ok(())
}

/// Gives a folder the mode and times of the original, once its entries are there.
fn finish_folder(folder: &OwnedFd, stat: &Stat) -> Result<(), Errno> {
    rustix::fs::fchmod(folder, platform::mode(fs::mode_of(stat)))?;
    rustix::fs::futimens(folder, &times_of(stat))
}

/// Copies a file or symlink to the same name in another folder.
fn copy_entry(
    (from, name): (BorrowedFd<'_>, &OsStr),
    to: BorrowedFd<'_>,
    stat: &Stat,
) -> std::io::Result<()> {
    if fs::is_symlink(stat) {
        return Ok(fs::create_link_at(to, name, &fs::read_link_at(from, name)?)?);
    }
    if !fs::is_regular(stat) {
        return Ok(());
    }
    let source = File::from(fs::open_at(from, name, fs::READ)?);
    let copy = fs::create_at(to, name, 0o600)?;
    if !platform::share_blocks(copy.as_fd(), source.as_fd()) {
        fs::copy_file(&source, &copy, |_| Ok(()))?;
    }
    metadata::apply_original(&copy, Some((stat, &source)), None, None, &mut Vec::new())?;
    Ok(rustix::fs::futimens(&copy, &times_of(stat))?)
}

/// Writes to `upper`, in the form of a layer, what is in a copy and not, by size and time, in the workspace; what the
/// workspace has and the copy has not is a removed name. So both kinds of forks are compared and merged in one way.
///
/// # Errors
/// Returns the OS error.
pub fn refresh(root: BorrowedFd<'_>, copy: &OwnedFd, upper: &OwnedFd) -> std::io::Result<()> {
    for name in fs::names_in(upper)? {
        removal::remove(upper.as_fd(), &name);
    }
    let open = |folder: BorrowedFd<'_>| fs::open_at(folder, OsStr::new("."), fs::FOLDER);
    let mut waiting = vec![(Some(open(root)?), open(copy.as_fd())?, open(upper.as_fd())?)];
    while let Some((theirs, ours, upper)) = waiting.pop() {
        let names = fs::names_in(&ours)?;
        let gone = theirs.as_ref().map(fs::names_in).transpose()?.unwrap_or_default();
        for name in gone.iter().filter(|name| !is_own_state(name) && !names.contains(name)) {
            whiteout(upper.as_fd(), name)?;
        }
        for name in names.iter().filter(|name| !is_own_state(name)) {
            let stat = fs::stat_at(ours.as_fd(), name)?;
            let there = theirs.as_ref().and_then(|theirs| fs::stat_at(theirs.as_fd(), name).ok());
            if fs::is_folder(&stat) {
                let inner = theirs.as_ref().filter(|_| there.as_ref().is_some_and(fs::is_folder));
                let inner = inner.map(|theirs| fs::open_at(theirs.as_fd(), name, fs::FOLDER)).transpose()?;
                make_folder(upper.as_fd(), name, OWN_MODE)?;
                let own = fs::open_at(upper.as_fd(), name, fs::FOLDER)?;
                let source = fs::open_at(ours.as_fd(), name, fs::FOLDER)?;
                make_alike(&own, source.as_fd())?;
                waiting.push((inner, source, own));
            } else if !there.is_some_and(|there| is_alike(&stat, &there))
                && !theirs.as_ref().is_some_and(|theirs| is_same_link(&ours, theirs, name))
            {
                copy_entry((ours.as_fd(), name), upper.as_fd(), &stat)?;
            }
        }
    }
    Ok(())
}

/// Returns true for the name of git's or lbx's own state.
fn is_own_state(name: &OsStr) -> bool {
    name == DOT_GIT || name == STATE_FOLDER
}

/// Returns true if two files have the same type, mode, size and time: a copy has those of its original.
fn is_alike(one: &Stat, other: &Stat) -> bool {
    let facts = |stat: &Stat| (stat.st_mode, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    facts(one) == facts(other)
}

/// Returns true if a name is a symlink with the same target in two folders.
fn is_same_link(one: &OwnedFd, other: &OwnedFd, name: &OsStr) -> bool {
    let [one, other] = [one, other].map(|folder| fs::read_link_at(folder.as_fd(), name).ok());
    one.is_some() && one == other
}
