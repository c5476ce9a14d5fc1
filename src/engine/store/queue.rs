//! Order of the calls that wait for a lock: first come, first served.
//!
//! A call that has to wait locks a byte of the queue's file, after the bytes of all that came before, and waits for the
//! byte before its own. It gives its byte up once it holds the lock itself:
//!
//! ```text
//! byte   0   1   2   3
//!        B   C   D        A holds the lock. B waits for A; C for byte 0, D for byte 1. E takes byte 3.
//!            C   D   E    B holds the lock, so that C waits for B. If C is killed, D finds nobody before it.
//! ```
//! The file is empty, and nothing in it is read: these locks (`F_OFD_SETLK`, fcntl(2)) are the kernel's, and end with
//! their process. They only keep an order: the lock that excludes others is another one. So a call that finds no place,
//! or that stops in the middle of the queue, can cost others time but no correctness.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::AtFlags;

use crate::engine::workspace::fs;
use crate::platform;

/// Name of the queue's file.
pub const NAME: &str = "queue";
/// Most calls that line up; one more takes the lock when it can.
const PLACES_MAX: usize = 1024;
/// End of the last byte that can be a place. The calls that wait use the lowest ones.
const END_MAX: u64 = 1 << 40;

/// Place of a call in a queue; given up on drop.
#[derive(Debug)]
pub struct QueuePlace {
    /// File of the queue, whose byte `byte` is locked.
    file: File,
    /// Number of the place.
    byte: u64,
}

impl QueuePlace {
    /// Takes the last place of the queue whose file is `file`; `None` if there is no room.
    ///
    /// # Errors
    /// Returns the OS error; `ENOSYS` if the system has no such locks.
    pub fn take(file: File) -> io::Result<Option<Self>> {
        let mut byte = 0;
        for _ in 0..PLACES_MAX {
            match platform::locked_bytes(file.as_fd(), byte..END_MAX)? {
                Some(end) if end >= END_MAX => break,
                Some(end) => byte = end,
                // Another call may have been faster.
                None if platform::lock_byte(file.as_fd(), byte)? => return Ok(Some(Self { file, byte })),
                None => {}
            }
        }
        Ok(None)
    }

    /// Waits until every call that came before has given up its place.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn wait(&self) -> io::Result<()> {
        // Each waits for the one before it first: so of many that wait, one is woken.
        let mut end = Some(self.byte).filter(|byte| *byte > 0);
        while let Some(last) = end.map(|end| end.saturating_sub(1)) {
            platform::wait_for_byte(self.file.as_fd(), last)?;
            end = platform::locked_bytes(self.file.as_fd(), 0..self.byte)?;
        }
        Ok(())
    }

    /// Returns true if it is in the queue in `folder`, and not in an older one.
    pub fn is_in_queue(&self, folder: BorrowedFd<'_>) -> bool {
        fs::is_named(folder, NAME.as_ref(), &self.file)
    }

    /// Returns another handle of the place, which lasts until both are dropped.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, byte: self.byte })
    }
}

/// Returns true if a call waits in the queue whose file is `file`.
pub fn is_used(file: &File) -> bool {
    platform::locked_bytes(file.as_fd(), 0..END_MAX).is_ok_and(|locked| locked.is_some())
}

/// Begins a new queue: one whose first call is stopped, but not dead, would hold up all calls to come.
pub fn renew(folder: BorrowedFd<'_>) {
    // If this fails, they wait longer.
    let _ = fs::unlink_at(folder, NAME, AtFlags::empty());
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Returns a folder, and how its queue is opened.
    fn queue() -> (tempfile::TempDir, impl Fn() -> File) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        (folder, move || File::options().read(true).append(true).create(true).open(&path).unwrap())
    }

    #[test]
    fn place_waits_for_every_earlier_one_and_for_no_dead_one() {
        let (_folder, open) = queue();
        assert!(!is_used(&open()));
        let mut places: Vec<QueuePlace> =
            (0..4).map(|_| QueuePlace::take(open()).unwrap().unwrap()).collect();
        assert_eq!(places.iter().map(|place| place.byte).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(is_used(&open()));
        let (last, third) = (places.pop().unwrap(), places.pop().unwrap());
        let (sender, receiver) = channel();
        let waiting = std::thread::spawn(move || sender.send(last.wait().map(|()| last)));
        let is_waiting = || receiver.recv_timeout(Duration::from_millis(50)).is_err();
        // The one just before it is gone, as after a kill, but not those that came earlier.
        drop(third);
        assert!(is_waiting());
        drop(places.remove(0));
        assert!(is_waiting());
        // A new one comes after all that wait.
        assert_eq!(QueuePlace::take(open()).unwrap().unwrap().byte, 4);
        drop(places);
        let last = receiver.recv().unwrap().unwrap();
        waiting.join().unwrap().unwrap();
        drop(last);
        assert!(!is_used(&open()));
        assert_eq!(open().metadata().unwrap().len(), 0);
    }

    #[test]
    fn queue_without_room_gives_no_place() {
        let (_folder, open) = queue();
        let far = open();
        assert!(platform::lock_byte(far.as_fd(), END_MAX - 1).unwrap());
        assert!(QueuePlace::take(open()).unwrap().is_none());
        drop(far);
        assert!(QueuePlace::take(open()).unwrap().is_some());
    }
}
