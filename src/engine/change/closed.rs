//! Folders that forbid their owner to change names in them, before a change or after it.
//!
//! While a change is made they permit it: they are opened up before the first step, and get back what they
//! forbid when all else is done and synced. Whoever finds the open entry of a killed call can so look at the
//! files in them.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::run::{BELOW, Ground, Seen};
use crate::engine::history::replay::Direction;
use crate::engine::journal::steps::{Location, Step};
use crate::engine::journal::{FolderMode, JournalEntry};
use crate::engine::workspace::fs::{self, is_closed, opened_up};
use crate::engine::workspace::sync::sync_many;
use crate::error::Error;

/// So many folders are open at once to be closed.
const CLOSED_AT_ONCE: usize = 256;

/// A folder that forbids its owner to change names in it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClosedFolder {
    /// Where it is.
    at: Location,
    /// Its permission bits before the change; none of one that the change makes.
    before: Option<u32>,
    /// Those after it; none of one that the change removes.
    after: Option<u32>,
}

/// Those of a change, by the names that they have once `done` of its steps are done; the outer ones first,
/// which lead to the inner ones.
fn closed(entry: &JournalEntry, done: usize) -> Vec<ClosedFolder> {
    let steps = entry.steps.as_slice();
    let renames = Renames::of(steps);
    let of_steps = steps.iter().enumerate().filter_map(|(number, step)| match step {
        Step::MakeFolder(folder) => Some((number + 1, &folder.path, None, folder.mode)),
        Step::RemoveFolder(folder) => Some((number, &folder.path, folder.mode, None)),
        _ => None,
    });
    let is_closed = |mode: Option<u32>| mode.is_some_and(is_closed);
    let mut found: Vec<ClosedFolder> = of_steps
        .filter(|(.., before, after)| is_closed(*before) || is_closed(*after))
        .map(|(known, at, before, after)| ClosedFolder {
            at: renames.name_at(at, known, done),
            before,
            after,
        })
        .collect();
    found.extend(entry.modes.iter().filter_map(|FolderMode { path, before, after }| {
        let (before, after) = (Some(*before), Some(*after));
        (is_closed(before) || is_closed(after)).then(|| {
            let at = renames.name_at(&Location::File(path.clone()), steps.len(), done);
            ClosedFolder { at, before, after }
        })
    }));
    found.sort();
    found
}

/// The renames among steps, each with its number: mostly few, where the closed folders may be many.
struct Renames<'s>(Vec<(usize, &'s Location, &'s Location)>);

impl<'s> Renames<'s> {
    /// Those among `steps`.
    fn of(steps: &'s [Step]) -> Self {
        let renames = steps.iter().enumerate().filter_map(|(number, step)| match step {
            Step::Rename { from, to, .. } => Some((number, from, to)),
            _ => None,
        });
        Self(renames.collect())
    }

    /// The name that a thing has once `done` steps are done, which has the name `at` once `known` are.
    fn name_at(&self, at: &Location, known: usize, done: usize) -> Location {
        let renamed = |at: Location, old: &Location, new: &Location| {
            if at.is_within(old) { at.rebased(old, new) } else { at }
        };
        let between = |from: usize, until: usize| {
            self.0.iter().filter(move |(number, ..)| (from..until).contains(number))
        };
        let later = between(known, done).fold(at.clone(), |at, (_, from, to)| renamed(at, from, to));
        between(done, known).rev().fold(later, |at, (_, from, to)| renamed(at, to, from))
    }
}

/// What to say where a folder of a change that stands does not forbid what it is to forbid.
pub fn not_closed(error: &Error) -> String {
    format!("the change stands, but the permissions of a folder could not be set: {}", error.message())
}

impl Ground<'_> {
    /// Carries out all of a change but its first `done` steps, and gives folders other permission bits;
    /// what they forbid their owner is left to [`Self::close`].
    ///
    /// # Errors
    /// The system's, at the first step that fails.
    pub fn carry_out_entry(&self, entry: &JournalEntry, done: usize, seen: &Seen) -> Result<(), Error> {
        let _ = self.open_up(entry, done);
        self.carry_out_all(&entry.steps, done, seen)?;
        self.set_modes(entry, Direction::Redo)
    }

    /// Lets their owner change names in the closed folders of a change; answers them, with the bits that
    /// they had. Best effort: where it fails, the step that needs it fails, and says why.
    #[must_use]
    pub fn open_up(&self, entry: &JournalEntry, done: usize) -> Vec<(Location, u32)> {
        let mut opened = Vec::new();
        for ClosedFolder { at, before, after } in closed(entry, done) {
            if let Ok(Some((folder, now))) = self.folder_with_mode(&at, BELOW)
                && (before == Some(now) || after == Some(now))
                && is_closed(now)
                && fs::set_mode(&folder, opened_up(now)).is_ok()
            {
                opened.push((at, now));
            }
        }
        opened
    }

    /// Gives folders that were opened up the bits that they had. Best effort.
    pub fn close_again(&self, opened: &[(Location, u32)]) {
        for (at, mode) in opened.iter().rev() {
            if let Ok(Some((folder, now))) = self.folder_with_mode(at, BELOW)
                && now == opened_up(*mode)
            {
                let _ = fs::set_mode(&folder, *mode);
            }
        }
    }

    /// Gives folders the permission bits that they are to have on one side of a change, once all its steps are
    /// done, or all are taken back, and what their owner needs; one that others have changed or removed since
    /// stays as it is.
    ///
    /// # Errors
    /// The system's.
    pub fn set_modes(&self, entry: &JournalEntry, side: Direction) -> Result<(), Error> {
        let steps = entry.steps.as_slice();
        let renames = Renames::of(steps);
        for FolderMode { path, before, after } in entry.modes.iter().filter(|folder| folder.is_change()) {
            let at = Location::File(path.clone());
            let (at, mode) = match side {
                Direction::Redo => (at, *after),
                Direction::Undo => (renames.name_at(&at, steps.len(), 0), *before),
            };
            if let Some((folder, now)) = self.folder_with_mode(&at, BELOW)?
                && [*before, *after, opened_up(*before), opened_up(*after)].contains(&now)
            {
                fs::set_mode(&folder, opened_up(mode)).map_err(|errno| self.mode_error(&at, errno))?;
            }
        }
        Ok(())
    }

    /// Gives the closed folders of a change what they forbid their owner on one side of it, and syncs them.
    ///
    /// # Errors
    /// The system's.
    pub fn close(&self, entry: &JournalEntry, side: Direction) -> Result<(), Error> {
        let done = if side == Direction::Redo { entry.steps.len() } else { 0 };
        let mut folders = closed(entry, done);
        // One that is closed hides those in it.
        folders.reverse();
        for folders in folders.chunks(CLOSED_AT_ONCE) {
            let mut changed = Vec::new();
            for ClosedFolder { at, before, after } in folders {
                // One that was to go stays where others have put something into it.
                let mode = if side == Direction::Redo { after.or(*before) } else { *before };
                let Some(mode) = mode.filter(|mode| is_closed(*mode)) else { continue };
                if let Some((folder, now)) = self.folder_with_mode(at, fs::FOLDER)?
                    && now == opened_up(mode)
                {
                    fs::set_mode(&folder, mode).map_err(|errno| self.mode_error(at, errno))?;
                    changed.push(folder);
                }
            }
            sync_many(&changed.iter().collect::<Vec<_>>(), changed.first())
                .map_err(|source| Error::io("sync", self.workspace.root().display().to_string(), source))?;
        }
        Ok(())
    }

    /// A folder with its permission bits; `None` where others have removed it.
    fn folder_with_mode(
        &self,
        at: &Location,
        flags: rustix::fs::OFlags,
    ) -> Result<Option<(OwnedFd, u32)>, Error> {
        let folder = match self.open(at, flags) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            folder => folder.map_err(|errno| self.mode_error(at, errno))?,
        };
        let stat = rustix::fs::fstat(&folder).map_err(|errno| self.mode_error(at, errno))?;
        Ok(Some((folder, fs::mode_of(&stat))))
    }

    /// What to say where the permission bits of a folder cannot be set.
    fn mode_error(&self, at: &Location, errno: Errno) -> Error {
        Error::io("set the mode of", self.shown(at), errno)
    }
}
