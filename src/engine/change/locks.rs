//! The lock that every change holds, and the recovery that comes first.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::recover;
use crate::engine::store::state::{Lock, STATE_FOLDER, State};
use crate::engine::workspace::Workspace;
use crate::engine::{Engine, journal};
use crate::error::{Error, ErrorKind};

/// Tries to lock a state whose folder others remove or replace meanwhile, before distrusting inodes.
const LOCK_TRIES: usize = 20;
/// Sleep between two tries after these.
const LOCK_NAP: Duration = Duration::from_millis(50);
/// Age of the root's last change from which nobody can just be replacing a folder in it.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// State with the lock that every change holds.
pub struct Locked {
    /// State.
    pub state: State,
    /// Lock; released on drop.
    pub(super) lock: Lock,
}

/// Opens the state and takes its lock; tries again if others remove or replace the state's folder meanwhile, since a
/// lock in an unlinked folder excludes nobody.
///
/// Identifies the folder by its inode. Some file systems report another inode for the same folder each time; then the
/// times of the root decide, which a replaced folder would change. If these are recent, someone may be replacing it,
/// and no lock is taken.
fn lock_in_place(workspace: &Workspace) -> Result<Locked, Error> {
    let asked = Instant::now();
    for tries in 0_usize.. {
        let state = State::open(workspace)?;
        let lock = state.lock_workspace();
        let is_doubted = tries >= LOCK_TRIES;
        if state.is_in_place(workspace) || (is_doubted && is_settled(workspace, SystemTime::now())) {
            return Ok(Locked { state, lock: lock? });
        }
        if is_doubted {
            if asked.elapsed() > workspace.lock_wait() {
                break;
            }
            drop(lock);
            std::thread::sleep(LOCK_NAP);
        }
    }
    Err(Error::new(ErrorKind::LockTimeout, format!("another program keeps replacing {STATE_FOLDER}")))
}

/// Returns true if the root's entries have not changed for a while before `now`.
fn is_settled(workspace: &Workspace, now: SystemTime) -> bool {
    let Ok(stat) = rustix::fs::fstat(workspace.root_fd()) else { return false };
    let changed = stat.st_mtime.max(stat.st_ctime);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let settled = now.saturating_sub(SETTLED_AFTER);
    u64::try_from(changed).unwrap_or(0) < settled.as_secs()
}

impl Engine {
    /// Takes the lock that every change holds, and finishes changes of dead calls first.
    ///
    /// # Errors
    /// Returns `lock_timeout`, or the OS error if the state cannot be written.
    pub fn lock(&mut self) -> Result<Locked, Error> {
        let Locked { state, lock } = lock_in_place(&self.workspace)?;
        self.state_path = Some(state.path().clone());
        self.count_in(&state);
        recover::recover(self, &state)?;
        Ok(Locked { state, lock })
    }

    /// Finishes changes of dead calls, so that a call that only reads finds every change whole. Does nothing if another
    /// call is running, or if the workspace cannot be written.
    pub fn settle(&mut self) {
        let Ok(Some(state)) = State::find(&self.workspace) else {
            return;
        };
        if journal::has_open_entries(&state)
            && let Ok(Some(_lock)) = state.try_lock_workspace()
            && let Err(error) = recover::recover(self, &state)
        {
            self.warn(format!(
                "an earlier call was killed or failed half-way and is not settled: {}",
                error.message()
            ));
        }
        self.count_in(&state);
        self.found = Some(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recently_changed_root_is_not_settled() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let changed = std::fs::metadata(folder.path()).unwrap().modified().unwrap();
        assert!(!is_settled(&workspace, changed));
        assert!(!is_settled(&workspace, changed + Duration::from_millis(500)));
        assert!(is_settled(&workspace, changed + Duration::from_secs(5)));
    }
}
