//! A watch over folders: new names in them, from `inotify` on Linux; other systems look again once a second.

pub use native::Watch;

/// Something that may have happened in a watched folder.
#[derive(Debug)]
pub enum WatchEvent {
    /// Any folder may hold new names.
    Unknown,
    /// The folder with this number is no longer watched.
    Ended(i32),
    /// A name appeared in the folder with this number.
    Appeared {
        /// Number of the folder.
        folder: i32,
        /// The name.
        name: Vec<u8>,
        /// True if it is a folder.
        is_folder: bool,
    },
}

/// Linux: `inotify`.
#[cfg(target_os = "linux")]
mod native {
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};

    use super::WatchEvent;
    use crate::platform::values::path_of;

    /// Bytes of events per read.
    const EVENTS_BYTES: usize = 64 * 1024;

    /// A watch over folders: the source of events.
    #[derive(Debug)]
    pub struct Watch(OwnedFd);

    impl Watch {
        /// Returns a watch over nothing.
        ///
        /// # Errors
        /// Returns the OS error.
        pub fn new() -> io::Result<Self> {
            Ok(Self(init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?))
        }

        /// Adds an opened folder; returns its number.
        ///
        /// # Errors
        /// Returns the OS error.
        pub fn add(&self, folder: BorrowedFd<'_>) -> io::Result<i32> {
            let wanted = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
            Ok(add_watch(&self.0, path_of(folder), wanted)?)
        }

        /// Waits for an event, at most `time`.
        pub fn wait(&self, time: Duration) {
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            // An interrupted wait is only shorter.
            let _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
        }

        /// Returns the events that have arrived.
        pub fn events(&mut self) -> Vec<WatchEvent> {
            let mut room = vec![MaybeUninit::<u8>::uninit(); EVENTS_BYTES];
            let mut events = Vec::new();
            let mut reader = Reader::new(self.0.as_fd(), &mut room);
            while let Ok(event) = reader.next() {
                let (folder, kind) = (event.wd(), event.events());
                if kind.contains(ReadFlags::QUEUE_OVERFLOW) {
                    events.push(WatchEvent::Unknown);
                } else if kind.contains(ReadFlags::IGNORED) {
                    events.push(WatchEvent::Ended(folder));
                } else if let Some(name) = event.file_name() {
                    let is_folder = kind.contains(ReadFlags::ISDIR);
                    events.push(WatchEvent::Appeared { folder, name: name.to_bytes().to_vec(), is_folder });
                }
            }
            events
        }
    }
}

/// Other systems: the caller looks at all folders again.
#[cfg(not(target_os = "linux"))]
mod native {
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::time::{Duration, Instant};

    use super::WatchEvent;

    /// Time between two looks.
    const INTERVAL: Duration = Duration::from_secs(1);

    /// A watch over folders: the time of the last look.
    #[derive(Debug)]
    pub struct Watch(Instant);

    impl Watch {
        /// Begins now.
        ///
        /// # Errors
        /// Never.
        pub fn new() -> io::Result<Self> {
            Ok(Self(Instant::now()))
        }

        /// Returns the number of all folders.
        ///
        /// # Errors
        /// Never.
        pub fn add(&self, _: BorrowedFd<'_>) -> io::Result<i32> {
            Ok(0)
        }

        /// Waits.
        pub fn wait(&self, time: Duration) {
            std::thread::sleep(time);
        }

        /// Asks for a look once a second.
        pub fn events(&mut self) -> Vec<WatchEvent> {
            if self.0.elapsed() < INTERVAL {
                return Vec::new();
            }
            self.0 = Instant::now();
            vec![WatchEvent::Unknown]
        }
    }
}
