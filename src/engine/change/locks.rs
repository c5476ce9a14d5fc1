//! The two locks of a change, and the recovery that comes first.
//!
//! The workspace's lock is held from before a change reads anything until its last step is taken. The lock of the steps
//! is held from before its first step until everything is on disk and its entry is closed. So while one change is
//! synced, the next one is prepared:
//!
//! ```text
//! A   reads, prepares, syncs | steps | syncs, closes |
//! B                                  | reads, prepares, syncs | steps | syncs, closes |
//!     workspace: A                   | B                              |
//!                      steps: A                      |        B                       |
//! ```
//! Calls that wait for the workspace get it in the order in which they came (`store/queue.rs`).
//!
//! B takes its first step when A is closed: at every moment the steps of at most one change are open, as if one lock
//! were held all the time. Until then B has written only what a recovery removes. If A is killed while it syncs, its
//! lock is free, its entry is open, and B finishes it before its own first step.
//!
//! B may begin before A is closed only if nothing that B looks at can depend on that, as [`StepsTurn::After`] requires:
//! B is another session's, looks at no history, and touches no file of A's. If A is killed after B, which changed the same
//! file, A could neither be completed nor rolled back. A's snapshot is on the branch by then, so B's follows it.
//!
//! A power failure may take a part of A's steps, and B's entry, which has no final name, is left. The next call settles
//! A; B's files have their old bytes, so that it did not begin.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{record, recover};
use crate::engine::journal::{JournalEntry, UnfinishedCalls};
use crate::engine::store::session;
use crate::engine::store::state::{Lock, STATE_FOLDER, State, StepsLock};
use crate::engine::workspace::Workspace;
use crate::engine::{Engine, journal};
use crate::error::{Error, ErrorKind};

/// Tries to lock a state whose folder others remove or replace meanwhile, before distrusting inodes.
const LOCK_TRIES: usize = 20;
/// Sleep between two tries after these.
const LOCK_NAP: Duration = Duration::from_millis(50);
/// Age of the root's last change from which nobody can just be replacing a folder in it.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// State with the locks that every change holds.
#[derive(Debug)]
pub struct LockedState {
    /// State.
    pub state: State,
    /// Lock of the workspace; released on drop.
    pub(super) lock: Lock,
    /// Turn of the call.
    pub(super) turn: StepsTurn,
}

/// Turn of a call that holds the workspace's lock.
#[derive(Debug)]
pub(super) enum StepsTurn {
    /// Every earlier change is closed; the call holds the lock of the steps.
    Now(StepsLock),
    /// The steps of this change are taken, but perhaps not on disk yet. Its call has the lock of the steps.
    After(Box<JournalEntry>),
}

/// Returns true if the root's entries have not changed for a while before `now`.
fn is_settled(workspace: &Workspace, now: SystemTime) -> bool {
    let Ok(stat) = rustix::fs::fstat(workspace.root_fd()) else { return false };
    let changed = stat.st_mtime.max(stat.st_ctime);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let settled = now.saturating_sub(SETTLED_AFTER);
    u64::try_from(changed).unwrap_or(0) < settled.as_secs()
}

/// Returns the change that is not closed; `None` unless there is one, and nothing else to recover and no command that
/// changes files.
fn change_in_progress(state: &State) -> Result<Option<JournalEntry>, Error> {
    let UnfinishedCalls { mut entries, unpublished, newer, damaged, strays, direct, .. } =
        journal::open_entries(state, None)?;
    let unfinished = [unpublished.len(), newer.len(), damaged.len(), strays.len(), direct.len()];
    let others = entries.len().saturating_sub(1) + unfinished.iter().sum::<usize>();
    Ok(entries.pop().filter(|_| others == 0))
}

impl Engine {
    /// Takes the locks that every change holds, and finishes changes of dead calls first.
    ///
    /// # Errors
    /// Returns `lock_timeout`, or the OS error if the state cannot be written.
    pub fn lock(&mut self) -> Result<LockedState, Error> {
        self.lock_for(false)
    }

    /// Takes these locks now, for the first change that the call makes.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn lock_early(&mut self) -> Result<(), Error> {
        self.early_locks = Some(self.lock()?);
        Ok(())
    }

    /// Takes these locks; if `is_of_files`, for a change of files that looks at the history of no other session, which
    /// can begin while the change before it is synced.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub(super) fn lock_for(&mut self, is_of_files: bool) -> Result<LockedState, Error> {
        if let Some(locked) = self.early_locks.take() {
            return Ok(locked);
        }
        let (state, lock) = self.lock_in_place()?;
        self.direct.clear();
        self.count_in(&state);
        let turn = self.steps_turn(&state, is_of_files)?;
        if matches!(turn, StepsTurn::Now(_)) {
            recover::recover(self, &state, None)?;
        }
        Ok(LockedState { state, lock, turn })
    }

    /// Opens the state and takes its lock; tries again if others remove or replace the state's folder meanwhile, since a
    /// lock in an unlinked folder excludes nobody.
    ///
    /// Identifies the folder by its inode. Some file systems report another inode for the same folder each time; then the
    /// times of the root decide, which a replaced folder would change. If these are recent, someone may be replacing it,
    /// and no lock is taken.
    fn lock_in_place(&mut self) -> Result<(State, Lock), Error> {
        let asked = Instant::now();
        for tries in 0_usize.. {
            let state = State::open(&self.workspace)?;
            self.state_folder = Some((state.path().clone(), Arc::clone(state.handle())));
            self.early_store.take(); // it names a folder that was replaced
            // A call that has to wait does some of its work meanwhile.
            let lock = state.lock_workspace(&self.control, &|| {
                record::open_early(self);
                // Once it has the lock, a look at the file tells that this is still the newest state.
                let _ = session::load_unchanged(&state, self.session());
            });
            let is_doubted = tries >= LOCK_TRIES;
            let is_right = state.is_in_place(&self.workspace)
                || (is_doubted && is_settled(&self.workspace, SystemTime::now()));
            if is_right {
                return Ok((state, lock?));
            }
            if is_doubted {
                if asked.elapsed() > self.workspace.lock_wait() {
                    break;
                }
                drop(lock);
                std::thread::sleep(LOCK_NAP);
            }
        }
        Err(Error::new(ErrorKind::LockTimeout, format!("another program keeps replacing {STATE_FOLDER}")))
    }

    /// Returns the turn of the call; waits for it unless it can begin before.
    fn steps_turn(&self, state: &State, is_of_files: bool) -> Result<StepsTurn, Error> {
        if let Some(steps) = state.try_lock_steps()? {
            return Ok(StepsTurn::Now(steps));
        }
        let before = if is_of_files { change_in_progress(state)? } else { None };
        match before.filter(|entry| entry.session != self.session().as_str()) {
            Some(entry) => Ok(StepsTurn::After(Box::new(entry))),
            None => Ok(StepsTurn::Now(state.lock_steps()?)),
        }
    }

    /// Finishes changes of dead calls, so that a call that only reads finds every change whole. Does nothing if another
    /// call is running, or if the workspace cannot be written.
    pub fn finish_dead_calls(&mut self) {
        let Ok(Some(state)) = State::find(&self.workspace) else {
            return;
        };
        if journal::has_open_entries(&state)
            && let Ok(Some(_lock)) = state.try_lock_workspace()
            && let Ok(Some(_steps)) = state.try_lock_steps()
            && let Err(error) = recover::recover(self, &state, None)
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
