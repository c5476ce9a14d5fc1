//! What a change writes before anything of it is in force: new bytes beside their targets, old ones where
//! an undo finds them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::folders::Ways;
use super::planned::Planned;
use super::stage::{Original, Stage, Staged};
use super::staging::Staging;
use crate::engine::journal::backup;
use crate::engine::journal::bundle::Bundle;
use crate::engine::journal::kept::{self, Kept};
use crate::engine::journal::pending::Pending;
use crate::engine::snapshot::LARGE_BYTES;
use crate::engine::store::state::State;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::sync::SYNC_EACH_MAX;
use crate::error::Error;
use crate::sha256::Sha256;

/// What is written.
#[derive(Default)]
pub struct Aside {
    /// A folder of the file system that most of it is on, opened before any of it was written.
    pub file_system: Option<Arc<OwnedFd>>,
    /// New bytes, by the number of their file.
    pub staged: BTreeMap<usize, Staged>,
    /// Old bytes of larger files, and of many.
    pub backups: Vec<Pending>,
    /// Those of a few small ones, which the journal entry holds.
    pub kept: Vec<Kept>,
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
        if bytes.len() <= kept::FILE_BYTES_MAX && self.kept_bytes + bytes.len() <= kept::ALL_BYTES_MAX {
            self.kept_bytes += bytes.len();
            self.kept.push(Kept::new(sha256, bytes));
            return Ok(());
        }
        let of = of.and_then(|of| Some((of.opened.as_deref()?, &of.stat)));
        self.backups.push(backups.prepare_of(sha256, bytes, of)?);
        Ok(())
    }

    /// Removes everything again.
    pub fn discard(&self) {
        self.staged.values().for_each(Staged::discard);
        self.backups.iter().for_each(Pending::discard);
    }
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

    /// Writes all of it, and does `meanwhile` where the files are many, else afterwards. What was written is
    /// answered even where something fails.
    pub fn write_while(&self, meanwhile: impl FnOnce()) -> (Aside, Result<(), Error>) {
        let mut aside = Aside::default();
        let outcome = if self.is_many() {
            self.write_many(&mut aside, meanwhile)
        } else {
            let outcome = self.write_few(&mut aside);
            if outcome.is_ok() {
                meanwhile();
            }
            outcome
        };
        (aside, outcome)
    }

    /// Writes all of a few files.
    fn write_few(&self, aside: &mut Aside) -> Result<(), Error> {
        let stage = Stage::new(self.workspace, self.state, self.id)?;
        self.write_old(&stage, aside)?;
        let staging = Staging::new(self.files, self.ways, &stage);
        staging.work();
        staging.end(&mut aside.staged, &mut aside.warnings)
    }

    /// Writes all of many files from two threads, of which one does `meanwhile` first.
    fn write_many(&self, aside: &mut Aside, meanwhile: impl FnOnce()) -> Result<(), Error> {
        let stage = Stage::new(self.workspace, self.state, self.id)?;
        let staging = Staging::new(self.files, self.ways, &stage);
        let old = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, || staging.work());
            meanwhile();
            let old = self.write_old(&stage, aside);
            // Without a thread all of it is done here.
            staging.work();
            if let Ok(thread) = thread {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
            old
        });
        // What was written is to be known, whatever failed.
        let new = staging.end(&mut aside.staged, &mut aside.warnings);
        old.and(new)
    }

    /// Writes the old bytes of all files.
    fn write_old(&self, stage: &Stage<'_>, aside: &mut Aside) -> Result<(), Error> {
        aside.file_system = Some(stage.file_system());
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
}
