//! A snapshot whose objects are written, and which no name leads to yet.

use std::fmt;
use std::fs::File;
use std::sync::Arc;

use gix::ObjectId;

use super::change::Recorded;
use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};
use crate::engine::snapshot::store::held::HeldFolder;
use crate::engine::snapshot::store::new_value::NewValue;
use crate::engine::snapshot::store::objects::{Aside, Packed};
use crate::engine::snapshot::store::reflog::LogLine;
use crate::engine::workspace::file_system::FileSystem;

/// The commits of a change, in memory.
pub(super) struct Made {
    /// The newest snapshot before them.
    pub(super) tip: Option<ObjectId>,
    /// The newest of them, where there are any.
    pub(super) newest: Option<ObjectId>,
    /// When the change was made, in seconds since 1970.
    pub(super) seconds: i64,
    /// Large blobs.
    pub(super) packed: Vec<Packed>,
    /// What became of the change.
    pub(super) recorded: Recorded,
}

/// A snapshot whose objects and whose branch value are written aside. Dropped, they are removed.
pub struct Ready {
    /// Where it goes.
    pub(super) store: Store,
    /// The newest snapshot before it.
    pub(super) tip: Option<ObjectId>,
    /// What is written; `None` where nothing of the change enters.
    pub(super) written: Option<Written>,
    /// What became of the change.
    pub(super) recorded: Recorded,
}

/// What is written of a snapshot.
pub(super) struct Written {
    /// The objects.
    pub(super) objects: Aside,
    /// The branch's new value.
    pub(super) value: NewValue,
    /// What the branch's log will say.
    pub(super) log: LogLine,
}

impl Ready {
    /// Its files, so that the disk begins with them.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.written.iter().flat_map(|it| it.objects.files().chain([&it.value.file]))
    }

    /// Whether all that is written is on a file system.
    #[must_use]
    pub fn is_on(&self, file_system: &FileSystem) -> bool {
        self.written.as_ref().is_none_or(|written| written.objects.is_on(file_system))
    }

    /// Makes what is written durable.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&self) -> Result<(), SnapshotError> {
        let Some(written) = &self.written else {
            return Ok(());
        };
        written.objects.sync().doing(|| "the new objects cannot be synced".into())?;
        written.value.file.sync_all().doing(|| "the branch's new value cannot be synced".into())
    }

    /// Gives the objects their names and moves the branch; `None` where someone else has moved it
    /// meanwhile. What was written must be durable.
    ///
    /// # Errors
    /// What the system says; the branch has not moved then.
    pub fn publish(mut self) -> Result<Option<Published>, SnapshotError> {
        let mut branch = None;
        if let Some(written) = &mut self.written {
            written.objects.put().doing(|| "the new objects cannot be named".into())?;
            branch = self.store.branch.move_to(&self.store.repo, self.tip, &written.value, &written.log)?;
            if branch.is_none() {
                return Ok(None);
            }
            // A `git prune` that began before the branch moved may take them still.
            if let Some(tip) = self.tip.filter(|_| written.objects.is_lost()) {
                let newest = written.value.to();
                self.store.branch.move_back(&self.store.repo, newest, tip, &written.log)?;
                return Ok(None);
            }
        }
        Ok(Some(Published { ready: self, branch }))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(written) = &self.written {
            written.value.discard(&self.store.repo);
        }
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("store", &self.store).field("tip", &self.tip).finish_non_exhaustive()
    }
}

/// A snapshot that has its names, which are still to be synced.
#[derive(Debug)]
pub struct Published {
    /// What it was before.
    ready: Ready,
    /// The folder of the branch, where that moved.
    branch: Option<Arc<HeldFolder>>,
}

impl Published {
    /// What became of the change.
    pub fn take_recorded(&mut self) -> Recorded {
        std::mem::take(&mut self.ready.recorded)
    }

    /// Whether all names are on a file system.
    #[must_use]
    pub fn is_on(&self, file_system: &FileSystem) -> bool {
        self.ready.is_on(file_system) && self.branch.as_ref().is_none_or(|branch| file_system.holds(branch))
    }

    /// Packs objects where they are many, once the names are durable.
    pub fn tidy(&self) {
        if self.branch.is_some() {
            self.ready.store.tidy();
        }
    }

    /// Makes the names durable: those of the objects before that of the branch. `file_system` is that of
    /// the state.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&self, file_system: Option<&FileSystem>) -> Result<(), SnapshotError> {
        let (Some(branch), Some(written)) = (&self.branch, &self.ready.written) else {
            return Ok(());
        };
        if !file_system.is_some_and(|it| it.keeps_order() && self.is_on(it)) {
            written.objects.sync_names().doing(|| "the new objects cannot be synced".into())?;
        }
        branch.sync().doing(|| format!("cannot sync `{}`", branch.path().display()))
    }
}
