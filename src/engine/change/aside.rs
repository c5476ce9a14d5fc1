//! What a change writes before anything of it is in force: new bytes beside their targets, old ones where
//! an undo finds them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use super::folders::Ways;
use super::planned::Planned;
use super::stage::{New, Original, Stage, Staged};
use crate::apart::Apart;
use crate::engine::journal::backup::{self, InlineBackup};
use crate::engine::journal::bundle::Bundle;
use crate::engine::journal::bundle::PendingFile;
use crate::engine::snapshot::LARGE_BYTES;
use crate::engine::store::state::State;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::sync::SYNC_EACH_MAX;
use crate::error::Error;
use crate::sha256::Sha256;
use crate::text::visible::short_path;

/// What is written.
#[derive(Default)]
pub struct Aside {
    /// A folder of the file system that most of it is on, opened before any of it was written.
    pub file_system: Option<Arc<OwnedFd>>,
    /// New bytes, by the number of their file.
    pub staged: BTreeMap<usize, Staged>,
    /// Old bytes of larger files, and of many.
    pub backups: Vec<PendingFile>,
    /// Those of a few small ones, which the journal entry holds.
    pub kept: Vec<InlineBackup>,
    /// How many bytes these are.
    kept_bytes: usize,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

impl Aside {
    /// Keeps old bytes: in the entry where they are few, else as a backup.
    fn keep(
        &mut self,
        backups: &mut backup::Folders<'_>,
        (sha256, bytes): (Sha256, &[u8]),
        of: Option<&Original>,
    ) -> Result<(), Error> {
        if self.kept.iter().any(|kept| kept.sha256 == sha256) {
            return Ok(());
        }
        if bytes.len() <= backup::INLINE_BYTES_MAX
            && self.kept_bytes + bytes.len() <= backup::INLINE_TOTAL_BYTES_MAX
        {
            self.kept_bytes += bytes.len();
            self.kept.push(InlineBackup::new(sha256, bytes));
            return Ok(());
        }
        let of = of.and_then(|of| Some((of.opened.as_deref()?, &of.stat)));
        self.backups.push(backups.prepare_of(sha256, bytes, of)?);
        Ok(())
    }

    /// Removes everything again.
    pub fn discard(&self) {
        self.staged.values().for_each(Staged::discard);
        self.backups.iter().for_each(PendingFile::discard);
    }
}

/// New bytes that one thread has written.
#[derive(Default)]
struct NewBytes {
    /// They, by the number of their file.
    staged: BTreeMap<usize, Staged>,
    /// What the caller should know.
    warnings: Vec<String>,
}

/// What is to be written.
pub struct ToWrite<'c> {
    /// The workspace.
    pub workspace: &'c Workspace,
    /// Its state.
    pub state: &'c State,
    /// The change's own name.
    pub id: &'c str,
    /// Its files.
    pub files: &'c [Planned],
    /// Other old bytes.
    pub kept: &'c [Vec<u8>],
    /// The folders of its files.
    pub ways: &'c Ways,
}

impl ToWrite<'_> {
    /// Whether the files are so many that their old bytes go into one file.
    #[must_use]
    pub fn is_many(&self) -> bool {
        self.files.len() > SYNC_EACH_MAX
    }

    /// Writes all of it. What was written is answered even where something fails.
    pub fn write(&self) -> (Aside, Result<(), Error>) {
        let mut aside = Aside::default();
        let outcome = self.write_to(&mut aside);
        (aside, outcome)
    }

    /// Writes all of it; of many files another thread writes half of the new bytes.
    fn write_to(&self, aside: &mut Aside) -> Result<(), Error> {
        aside.file_system = Some(Stage::new(self.workspace, self.state, self.id)?.file_system());
        let mine = if self.is_many() { self.files.len() / 2 } else { self.files.len() };
        let apart = Apart::from_here();
        let (done, old) = thread::scope(|scope| {
            let others = || {
                apart.go();
                self.write_new(mine..self.files.len())
            };
            let thread = self.is_many().then(|| thread::Builder::new().spawn_scoped(scope, others));
            let old = self.write_old(aside);
            let mut done = vec![self.write_new(0..mine)];
            match thread {
                Some(Ok(thread)) => done.push(thread.join().unwrap_or_else(|panic| resume_unwind(panic))),
                // Without a thread it is done here.
                Some(Err(_)) => done.push(self.write_new(mine..self.files.len())),
                None => {}
            }
            (done, old)
        });
        let mut outcome = old;
        for (new, its_outcome) in done {
            aside.staged.extend(new.staged);
            aside.warnings.extend(new.warnings);
            outcome = outcome.and(its_outcome);
        }
        outcome
    }

    /// Keeps the old bytes.
    fn write_old(&self, aside: &mut Aside) -> Result<(), Error> {
        let mut backups = backup::Folders::new(self.state);
        for bytes in self.kept {
            aside.keep(&mut backups, (Sha256::of(bytes), bytes), None)?;
        }
        let mut bundle = Bundle::default();
        for current in self.files.iter().map(|file| &file.seen.current).filter(|current| current.exists()) {
            if self.is_many() && current.bytes.len() < LARGE_BYTES {
                bundle.add(current.sha256, &current.bytes);
            } else {
                let old = (current.sha256, &**current.bytes);
                aside.keep(&mut backups, old, current.original.as_ref())?;
            }
        }
        aside.backups.extend(bundle.write(self.state, self.id)?);
        Ok(())
    }

    /// Writes the new bytes of some of the files. What was written is answered even where something fails.
    fn write_new(&self, numbers: Range<usize>) -> (NewBytes, Result<(), Error>) {
        let mut new = NewBytes::default();
        let outcome = Stage::new(self.workspace, self.state, self.id).and_then(|stage| {
            let files = self.files.iter().enumerate().take(numbers.end).skip(numbers.start);
            for (number, file) in files {
                // A file that keeps its inode keeps all that belongs to it.
                let mut lost = Vec::new();
                let warnings = if file.in_place { &mut lost } else { &mut new.warnings };
                if let Some(staged) = self.staged(&stage, number, file, warnings)? {
                    new.staged.insert(number, staged);
                }
                warn_of_links(file, &mut new.warnings);
            }
            Ok(())
        });
        (new, outcome)
    }

    /// Writes the new bytes of a file; `None` where it goes.
    fn staged(
        &self,
        stage: &Stage<'_>,
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
        stage.write(&number.to_string(), &nearest, original, &new, warnings).map(Some)
    }
}

/// Says that the other names of a replaced file keep its old bytes.
fn warn_of_links(file: &Planned, warnings: &mut Vec<String>) {
    if let Some(original) =
        file.seen.current.original.as_ref().filter(|_| file.has_several_names() && !file.in_place)
    {
        warnings.push(format!(
            "{} has {} hard links: it was replaced, and its other names keep the old bytes",
            short_path(file.seen.current.place.shown()),
            original.stat.st_nlink
        ));
    }
}
