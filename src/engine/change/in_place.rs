//! Changes that go into the file that is there: it keeps its inode, for those who hold it open or watch it.
//!
//! Everywhere else new bytes take the old file's place by a rename, which is whole or not at all. Where that cannot
//! work, or would part others from the file, the bytes are written into it. Old and new bytes are on disk before,
//! so that a call which dies in between is completed or taken back: what it left is a mix of the two, byte by byte.

use std::collections::BTreeMap;
use std::io::{Seek as _, SeekFrom, Write as _};

use rustix::fs::{Access, AtFlags, OFlags, Stat};
use rustix::io::Errno;

use super::Change;
use super::planned::Planned;
use super::run::{Ground, OTHERS_FILE};
use super::stage::Original;
use crate::engine::journal::backup;
use crate::engine::journal::steps::{Location, Step};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;

/// The bits that let a file be run.
const EXECUTE: u32 = 0o111;
/// The tools that take back or do again what others did.
const REPLAYS: [&str; 3] = ["undo", "redo", "rewind"];

/// A mount, as the system tells it from others.
type Mount = (u64, Option<u64>);
/// What was found of folders: their mounts, and whether they are closed to this account.
type Folders = BTreeMap<WorkspacePath, (Option<Mount>, bool)>;

impl Change<'_> {
    /// Chooses for each file whether its bytes go into the file that is there.
    pub(super) fn choose_ways(&mut self) {
        let mut folders = BTreeMap::new();
        let ways: Vec<bool> = self.files.iter().map(|file| self.goes_into(file, &mut folders)).collect();
        for (file, in_place) in self.files.iter_mut().zip(ways) {
            file.in_place = in_place;
        }
    }

    /// Whether the bytes of a file go into the one that is there.
    fn goes_into(&self, file: &Planned, folders: &mut Folders) -> bool {
        let current = &file.seen.current;
        let (Some(after), Some(original), None) = (&file.after, &current.original, &file.origin) else {
            return false;
        };
        let mode = fs::mode_of(&original.stat);
        if !fs::is_regular(&original.stat) || after.mode.is_some_and(|asked| asked != mode) {
            return false;
        }
        let (old, new): (&[u8], &[u8]) = (&current.bytes, &after.bytes);
        // A shell reads a script while it runs it.
        if old == new || mode & EXECUTE != 0 || old.starts_with(b"#!") || has_capabilities(original) {
            return false;
        }
        let extends = !old.is_empty() && new.starts_with(old);
        let is_moved_end = extends || (!new.is_empty() && old.starts_with(new));
        let tool = self.entry.tool.as_str();
        // The other names of a file keep its old bytes, unless the policy says otherwise.
        let is_alone = original.stat.st_nlink == 1;
        (is_alone && tool == "append" && extends)
            || (is_alone && REPLAYS.contains(&tool) && is_moved_end)
            || self.engine.policy().writes_in_place(current.place.path())
            || self.cannot_be_replaced(file, folders)
    }

    /// Whether nothing can take the name of a file: it is a mount point, or its folder is closed to this account.
    fn cannot_be_replaced(&self, file: &Planned, folders: &mut Folders) -> bool {
        let path = file.seen.current.place.path();
        let opened = file.seen.current.original.as_ref().and_then(|original| original.opened.as_deref());
        let mount = opened.and_then(|opened| fs::mount_of(opened).ok());
        let parent = path.parent().unwrap_or_default();
        let (of_folder, is_closed) =
            *folders.entry(parent).or_insert_with_key(|parent| self.mount_and_access(parent));
        mount.zip(of_folder).is_some_and(|(file, folder)| file != folder)
            || (is_closed && self.is_writable(path))
    }

    /// The mount of a folder, and whether this account may change no names in it.
    fn mount_and_access(&self, folder: &WorkspacePath) -> (Option<Mount>, bool) {
        let flags = fs::LOOK | OFlags::DIRECTORY;
        let Ok(opened) = fs::open_beneath(self.engine.workspace.root_fd(), folder, flags) else {
            return (None, false);
        };
        let may = rustix::fs::accessat(&opened, ".", Access::WRITE_OK, AtFlags::EACCESS);
        (fs::mount_of(&opened).ok(), may == Err(Errno::ACCESS))
    }

    /// Whether this account may write a file.
    fn is_writable(&self, path: &WorkspacePath) -> bool {
        let root = self.engine.workspace.root_fd();
        rustix::fs::accessat(root, path.as_path(), Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }
}

/// Whether a file has capabilities, which the kernel takes from a file that is written.
fn has_capabilities(original: &Original) -> bool {
    let opened = original.opened.as_deref();
    opened.is_some_and(|file| rustix::fs::fgetxattr_query(file, "security.capability").is_ok())
}

impl Ground<'_> {
    /// Writes staged bytes into the file at a location, which looked like `read` when the call read it. They stay
    /// where they wait until the change is closed: until the file is on disk, they are what completes it.
    pub(super) fn put_into(
        &self,
        at: &Location,
        staged: &Location,
        read: Option<&Stat>,
    ) -> Result<(), Errno> {
        self.write_into(at, &self.bytes_at(staged)?.0, read)
    }

    /// Removes the bytes of a change that is closed, where they went into their files.
    pub(super) fn discard_written(&self, steps: &[Step]) {
        for step in steps {
            if let Step::Put { staged, in_place: true, .. } = step {
                self.discard(staged);
            }
        }
    }

    /// Makes `bytes` those of the file at a location, which keeps its inode. Text that is only added goes to the end,
    /// wherever that is by then; bytes that are only taken off are cut off.
    ///
    /// # Errors
    /// Returns [`OTHERS_FILE`] if the file no longer looks like `read`, unless text is only added; or the OS error.
    //
    // Example: a log held "a", this call appends "b", and another program appended "x" after it was read.
    //
    //   bytes    read    there now    written
    //   "ab"     "a"     "ax"         "b" at the end: "axb"
    //   "A"      "a"     "ax"         nothing: it would take the "x"
    pub(super) fn write_into(&self, at: &Location, bytes: &[u8], read: Option<&Stat>) -> Result<(), Errno> {
        let io = |source: std::io::Error| Errno::from_io_error(&source).unwrap_or(Errno::IO);
        let (current, stat) = self.bytes_at(at)?;
        let old_len =
            read.map_or(current.len(), |read| usize::try_from(fs::size_of(read)).unwrap_or(usize::MAX));
        let shared = current.iter().zip(bytes).take_while(|(old, new)| old == new).count();
        let is_added = shared >= old_len;
        if !is_added && read.is_some_and(|read| !fs::is_unchanged(read, &stat)) {
            return Err(OTHERS_FILE);
        }
        let way = if is_added { OFlags::APPEND } else { OFlags::empty() };
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | way;
        let mut file = std::fs::File::from(self.open(at, flags)?);
        if is_added {
            return file.write_all(bytes.get(old_len..).unwrap_or_default()).map_err(io);
        }
        file.seek(SeekFrom::Start(shared as u64)).map_err(io)?;
        file.write_all(bytes.get(shared..).unwrap_or_default()).map_err(io)?;
        if bytes.len() < current.len() {
            file.set_len(bytes.len() as u64).map_err(io)?;
        }
        Ok(())
    }

    /// The file of a step, where it holds some of its old bytes and some of its new ones: the call that wrote it in
    /// place died then.
    pub(super) fn torn(&self, step: &Step) -> Option<Location> {
        let Step::Put { at, staged, before: Some(before), in_place: true, .. } = step else { return None };
        let (now, new) = (self.bytes_at(at).ok()?.0, self.bytes_at(staged).ok()?.0);
        let old = backup::find(self.state, before.sha256).ok()??;
        (now != old && now != new && is_mix(&now, &old, &new)).then(|| at.clone())
    }

    /// Returns all bytes of a regular file, and its metadata as they were read.
    fn bytes_at(&self, at: &Location) -> Result<(Vec<u8>, Stat), Errno> {
        let file = std::fs::File::from(self.open(at, fs::READ)?);
        let stat = rustix::fs::fstat(&file)?;
        if !fs::is_regular(&stat) {
            return Err(Errno::INVAL);
        }
        let bytes = fs::read_to_end(file, fs::size_of(&stat), u64::MAX - 1)
            .map_err(|source| Errno::from_io_error(&source).unwrap_or(Errno::IO))?;
        Ok((bytes, stat))
    }
}

/// Whether every byte is that of one side at its place, or a zero that a power failure left, and the length lies
/// between theirs.
fn is_mix(now: &[u8], old: &[u8], new: &[u8]) -> bool {
    let lengths = old.len().min(new.len())..=old.len().max(new.len());
    let is_known = |(place, byte): (usize, &u8)| {
        *byte == 0 || old.get(place) == Some(byte) || new.get(place) == Some(byte)
    };
    lengths.contains(&now.len()) && now.iter().enumerate().all(is_known)
}

#[cfg(test)]
mod tests {
    use super::is_mix;

    #[test]
    fn what_a_dead_call_left_is_told_from_what_others_wrote() {
        for (now, old, new, is_it) in [
            ("new.old", "old.old", "new.new", true),
            ("old.new", "old.old", "new.new", true),
            ("ab", "a", "abc", true),
            ("abX", "a", "abc", false),
            ("abcd", "a", "abc", false),
            ("a", "abc", "ab", false),
            ("a\0c", "abc", "xyz", true),
        ] {
            assert_eq!(is_mix(now.as_bytes(), old.as_bytes(), new.as_bytes()), is_it, "{now}");
        }
    }
}
