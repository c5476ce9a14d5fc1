//! New bytes of a change's files, written aside by one thread or by several.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::folders::Ways;
use super::planned::Planned;
use super::stage::{New, Stage, Staged};
use crate::error::Error;
use crate::text::visible::short_path;

/// More numbers than a change has files.
const ALL: usize = usize::MAX / 2;

/// The new bytes of a change's files, of which each thread takes the next file that nobody has.
pub(super) struct Staging<'t, 'c> {
    /// The files.
    files: &'t [Planned],
    /// Their folders.
    ways: &'t Ways,
    /// Where it waits.
    stage: &'t Stage<'c>,
    /// The number of the next file.
    next: AtomicUsize,
    /// What became of those that were taken.
    done: Mutex<Vec<Written>>,
}

/// What became of one file.
struct Written {
    /// Its number.
    number: usize,
    /// Its new bytes; `None` where it goes.
    staged: Result<Option<Staged>, Error>,
    /// What the caller should know.
    warnings: Vec<String>,
}

impl<'t, 'c> Staging<'t, 'c> {
    /// Nothing is written yet.
    pub(super) fn new(files: &'t [Planned], ways: &'t Ways, stage: &'t Stage<'c>) -> Self {
        Self { files, ways, stage, next: AtomicUsize::new(0), done: Mutex::default() }
    }

    /// Writes file after file until all are taken, or one failed.
    pub(super) fn work(&self) {
        let mut done = Vec::new();
        let next = || self.next.fetch_add(1, Ordering::Relaxed);
        while let Some((number, file)) = Some(next()).and_then(|it| Some((it, self.files.get(it)?))) {
            let mut warnings = Vec::new();
            let staged = self.staged(number, file, &mut warnings);
            if staged.is_err() {
                // Files before this one are taken already, so that the first failure is found.
                self.next.store(ALL, Ordering::Relaxed);
            }
            warn_of_links(file, &mut warnings);
            done.push(Written { number, staged, warnings });
        }
        self.done.lock().unwrap_or_else(PoisonError::into_inner).append(&mut done);
    }

    /// Adds what was written to what waits by number, and what the caller should know; answers the failure of
    /// the first file that failed.
    pub(super) fn end(
        self,
        waiting: &mut BTreeMap<usize, Staged>,
        told: &mut Vec<String>,
    ) -> Result<(), Error> {
        let mut done = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|written| written.number);
        let mut outcome = Ok(());
        for Written { number, staged, warnings } in done {
            match staged {
                Ok(staged) => waiting.extend(staged.map(|staged| (number, staged))),
                Err(error) => outcome = outcome.and(Err(error)),
            }
            told.extend(warnings);
        }
        outcome
    }

    /// Writes the new bytes of a file; `None` where it goes.
    fn staged(
        &self,
        number: usize,
        file: &Planned,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Staged>, Error> {
        let Some(after) = &file.after else { return Ok(None) };
        let current = &file.seen.current;
        let parent = current.place.path().parent().unwrap_or_default();
        let nearest = self.ways.nearest.get(&parent).cloned().unwrap_or_default();
        let new = New {
            shown: current.place.shown(),
            bytes: &after.bytes,
            mode: after.mode,
            identity: after.identity.as_ref(),
        };
        let original = file.model();
        self.stage.write(&number.to_string(), &nearest, original, &new, warnings).map(Some)
    }
}

/// Says that the other names of a replaced file keep its old bytes.
fn warn_of_links(file: &Planned, warnings: &mut Vec<String>) {
    if let Some(original) = file.seen.current.original.as_ref().filter(|_| file.has_several_names()) {
        warnings.push(format!(
            "{} has {} hard links: it was replaced, and its other names keep the old bytes",
            short_path(file.seen.current.place.shown()),
            original.stat.st_nlink
        ));
    }
}
