//! Which commands are changing the workspace at this moment.
//!
//! A baseline of another session that is taken meanwhile would hold half of what such a command does,
//! as if that had been there before.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::fs::AtFlags;

use crate::engine::store::lock::Lock;
use crate::engine::store::state::State;
use crate::engine::store::unique::unique_name;
use crate::engine::workspace::fs;
use crate::error::Error;

/// Where they are noted, below the state folder: a lock each.
const FOLDER: &str = "running";

/// A command that runs; dropped, it has ended.
#[derive(Debug)]
pub struct Running {
    /// The folder of all.
    folder: Arc<OwnedFd>,
    /// Its name there.
    name: String,
    /// Shows that the call lives.
    _lock: Lock,
}

impl Running {
    /// Notes that a command is about to run.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(state: &State) -> Result<Self, Error> {
        let (folder, name) = (state.folder(FOLDER)?, unique_name("command"));
        let lock = state.try_lock(folder.as_fd(), &name)?;
        let lock = lock.ok_or_else(|| Error::internal("a new lock is held by another call"))?;
        Ok(Self { folder, name, _lock: lock })
    }
}

impl Running {
    /// Waits until what the command changes has other times than what stands there now.
    pub fn pass_a_moment(&self) {
        // Where the clock cannot be asked, starting the command takes longer than one of its ticks.
        let _ = super::layer::pass_a_moment(&self.folder);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::unlink_at(&self.folder, &self.name, AtFlags::empty());
    }
}

/// Whether any command is changing the workspace now.
#[must_use]
pub fn is_any(state: &State) -> bool {
    let Ok(Some(folder)) = state.find_folder(FOLDER) else { return false };
    let names = fs::names_in(&folder).unwrap_or_default();
    names.iter().filter_map(|name| name.to_str()).any(|name| match state.try_lock(folder.as_fd(), name) {
        Ok(Some(_dead)) => {
            let _ = fs::unlink_at(&folder, name, AtFlags::empty());
            false
        }
        Ok(None) => true,
        Err(_) => false,
    })
}
