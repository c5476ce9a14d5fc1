//! What follows the steps of a change that stands: marks, snapshot, history, and the second wave of syncs.

use super::closed::not_closed;
use super::commit::snapshot_files;
use super::marks::Marks;
use super::moves::ForSnapshot;
use super::prepared::Prepared;
use super::record::{self, StandingChange};
use super::run::{ChangedFolders, Ground};
use super::{Change, across};
use crate::engine::history::replay::Direction;
use crate::engine::journal;
use crate::engine::snapshot::Published;
use crate::engine::store::audit;
use crate::engine::store::session::{self, Mark};
use crate::engine::store::state::State;
use crate::engine::workspace::file_system::FileSystem;
use crate::engine::workspace::sync;
use crate::error::Error;

impl Change<'_> {
    /// What follows a change that stands: marks, snapshot, history. What the steps and the snapshot have
    /// renamed is synced in one wave, with the record for the audit log.
    pub(super) fn finish(
        &mut self,
        state: &State,
        marks: Marks,
        published: Option<Published>,
        prepared: &Prepared,
    ) -> Result<(), Error> {
        if published.is_none() {
            // The snapshot must not tell of what may be gone after a power failure.
            self.sync_names(state, prepared, None)?;
        }
        self.set_marks(state, marks);
        let (outcome, published) = match published {
            Some(mut published) => {
                let recorded = published.take_recorded();
                (record::take(self.engine, recorded, &self.entry), Some(published))
            }
            None => (self.record(state), None),
        };
        // Before the entry is closed: whoever finds it open looks whether the record is there.
        let audit = self.engine.begin_audit(state, &self.entry.tool, outcome.as_ref().err());
        match published {
            Some(published) => self.sync_names_and_audit(state, prepared, &published, audit)?,
            None => {
                self.engine.end_audit(state, audit);
            }
        }
        let ground = Ground { workspace: &self.engine.workspace, state };
        if let Err(error) = ground.close(&self.entry, Direction::Redo) {
            self.engine.warn(not_closed(&error));
        }
        if let Err(error) = self.entry.close(state) {
            self.engine.warn(format!(
                "the change stands, but its journal entry could not be closed: {}",
                error.message()
            ));
        } else {
            across::clear(Ground { workspace: &self.engine.workspace, state }, &self.moves, true);
            journal::forget_beside(state, &self.entry.id, &self.entry.steps);
            Ground { workspace: &self.engine.workspace, state }.discard_written(&self.entry.steps);
        }
        outcome
    }

    /// Makes durable what the steps and the snapshot have renamed, and the record for the audit log: where
    /// the file system allows it, the snapshot's names by the sync of that record alone.
    fn sync_names_and_audit(
        &mut self,
        state: &State,
        prepared: &Prepared,
        published: &Published,
        audit: Option<audit::Pending>,
    ) -> Result<(), Error> {
        if !self.engine.policy().is_durable() {
            self.engine.end_audit(state, audit);
            published.tidy();
            return Ok(());
        }
        let file_system = prepared.file_system.as_ref();
        let ground = Ground { workspace: &self.engine.workspace, state };
        let opened = file_system.and_then(|it| {
            let holds_others =
                audit.as_ref().is_some_and(|audit| it.holds(&audit.file)) && published.is_on(it);
            if holds_others { ground.folders_on(&self.entry.steps, it) } else { None }
        });
        let is_left = opened.is_some() && file_system.is_some_and(FileSystem::leaves_names_to_next_sync);
        if !is_left {
            sync::begin(audit.iter().map(|audit| &audit.file));
            self.sync_each_name(state, prepared, published)?;
        } else if file_system.is_some_and(FileSystem::keeps_order) {
            // The log would do for these as well; what was asked for rests on no property of it.
            self.sync_names(state, prepared, opened)?;
        }
        let is_synced = self.engine.end_audit(state, audit);
        if is_left && !is_synced {
            self.sync_each_name(state, prepared, published)?;
        }
        published.tidy();
        Ok(())
    }

    /// Syncs the folders that the steps and the snapshot have changed.
    fn sync_each_name(
        &mut self,
        state: &State,
        prepared: &Prepared,
        published: &Published,
    ) -> Result<(), Error> {
        self.sync_names(state, prepared, None)?;
        if let Err(error) = published.sync(prepared.file_system.as_ref()) {
            self.engine.warn(format!("a power failure may take the snapshot: {error}"));
        }
        Ok(())
    }

    /// Syncs the folders that the steps have changed; some may be `opened`.
    fn sync_names(
        &self,
        state: &State,
        prepared: &Prepared,
        opened: Option<ChangedFolders>,
    ) -> Result<(), Error> {
        if !self.engine.policy().is_durable() {
            return Ok(());
        }
        let ground = Ground { workspace: &self.engine.workspace, state };
        let file_system = prepared.aside.file_system.as_deref();
        ground.sync(&self.entry.steps, opened, file_system).map_err(Error::applied)
    }

    /// Commits a change that stands to the snapshots.
    fn record(&mut self, state: &State) -> Result<(), Error> {
        let moved = ForSnapshot::of(&self.engine.workspace, state, &self.entry).unwrap_or_else(|error| {
            self.engine.warn(format!("the moved files are not in the snapshot: {}", error.message()));
            ForSnapshot::default()
        });
        let files = moved.files_with(snapshot_files(&self.files, &self.state_path));
        let record = StandingChange { entry: &self.entry, files, folders: moved.folders() };
        record::record(self.engine, &record)
    }

    /// Puts into the session what the caller knows of the files now.
    fn set_marks(&mut self, state: &State, Marks { set, forgotten }: Marks) {
        let (seq, request) = (self.entry.seq, self.entry.request);
        // The numbers of these count in the new version from now on.
        let known = set.iter().filter_map(|mark| self.session.mark(&mark.path));
        session::forget_shown(state, known.flat_map(Mark::versions));
        let updated = session::update(state, self.engine.session(), |session| {
            session.note_change(seq, request);
            session.exchange_marks(&forgotten, set);
        });
        match updated {
            Ok(warning) => self.engine.warn_if(warning),
            Err(error) => self.engine.warn(format!(
                "the change was made, but the session could not record it, so read the file again before the next change: {}",
                error.message()
            )),
        }
    }
}
