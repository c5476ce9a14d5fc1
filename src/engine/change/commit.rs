//! Executes a planned change, step by step.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::executor::{Executor, ReadStats, changed_meanwhile};
use super::folders::ParentFolders;
use super::kept_for_forks::keep_before;
use super::locks::StepsTurn;
use super::moves::MoveCandidates;
use super::open::LockedFile;
use super::plan::{FilePlan, Intent, plan};
use super::prepared::{FilesToWrite, PreparedChange};
use super::record::{self, AppliedChange};
use super::shown_lines::ReadRecords;
use super::staging::StagingFolder;
use super::{Change, recover, without_rename};
use crate::engine::journal::progress::contradiction;
use crate::engine::journal::steps::{Location, Step};
use crate::engine::journal::{FileEntry, HELD_FOLDER, Version};
use crate::engine::policy::settings::Key;
use crate::engine::snapshot::{FileChange, LARGE_BYTES, RULE_FILES};
use crate::engine::store::state::State;
use crate::engine::store::trash;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::platform::other_cpu;
use crate::sha256::Sha256;
use crate::text::content::{Content, looks_binary};
use crate::text::diff::of_file;

/// Largest diff of one file in a preview, in bytes.
const PREVIEW_BYTES_MAX: usize = 4 << 20;

impl Change<'_> {
    /// Makes the change, with `subject` as its line in the snapshot log.
    ///
    /// Does nothing if nothing is planned, or in a dry run.
    ///
    /// # Errors
    /// Returns the OS error, with nothing changed; if a step after the change failed, the error says that it was
    /// applied.
    pub fn commit(mut self, subject: String, why: Option<String>) -> Result<(), Error> {
        self.choose_ways();
        self.must_have_one_name()?;
        self.check_result()?;
        // An undo of the newest change with nothing to do still counts as one: the next undo goes further back.
        let is_empty = self.files.is_empty()
            && self.moves.is_empty()
            && !self.has_folders()
            && self.entry.modes.iter().all(|folder| !folder.is_change())
            && self.entry.reverts.is_empty()
            && self.entry.found_done.is_empty();
        if is_empty {
            return Ok(());
        }
        if self.dry_run {
            // A file that is in the way of a new folder fails the change.
            self.parent_folders()?;
            self.preview();
            return Ok(());
        }
        let Some(state) = self.state.take() else {
            return Err(Error::internal("a change without a state"));
        };
        self.entry.subject = subject;
        self.entry.why = why;
        self.join_names();
        if !self.is_apart() {
            self.wait_for_turn(&state)?;
        }
        self.record_so_far(&state)?;
        if !self.described.is_empty() {
            // lbx's own folder, which is not a step of the change.
            state.folder(trash::FOLDER)?;
        }
        let ways = self.parent_folders()?;
        self.make_room_for(self.files.len() + self.moves.len());
        self.must_move_what_was_seen()?;
        if self.session.seq == 0 {
            // Now, while the files still have their old bytes and no temporary file is next to them.
            record::baseline(self.engine, &self.entry);
        }
        let (mut prepared, marks) = match self.apply(&state, ways) {
            // Encrypted folders and those of other project quotas refuse renames within one mount.
            Err(error) if error.errno() == Some(Errno::XDEV) && !error.is_applied() && self.moves_apart() => {
                self.stays_in_folders = true;
                self.check_files_again()?;
                let ways = self.parent_folders()?;
                self.apply(&state, ways)?
            }
            applied => applied?,
        };
        self.note_changed();
        // If this fails, it is tried again below, with a warning.
        let published = prepared.snapshot.take().and_then(|ready| {
            let file_system = prepared.file_system.as_ref().filter(|it| ready.is_on(it));
            let is_durable = self.engine.policy().is_durable();
            let in_order = |file: &_| !is_durable || file_system.is_some_and(|it| it.orders_names(file));
            ready.publish(in_order).ok().flatten()
        });
        self.finish(&state, marks, published, &prepared)
    }

    /// Keeps the diff of the change for the notes of the call, if they are to have one.
    fn preview(&mut self) {
        let Some(text) = &mut self.engine.preview else { return };
        for file in &self.files {
            let current = &file.seen.current;
            let (shown, old) = (current.place.display(), current.exists().then(|| current.bytes()));
            let new = file.after.as_ref().map(|after| &after.bytes[..]);
            if [old, new].into_iter().flatten().any(looks_binary) {
                text.extend([shown, " is binary: its diff is not shown\n"]);
                continue;
            }
            let body = |bytes| Content::of(bytes, None).map_or(Cow::Borrowed(bytes), |content| content.body);
            let (old, new) = (old.map(body), new.map(body));
            text.push_str(&of_file(shown, old.as_deref(), new.as_deref(), PREVIEW_BYTES_MAX));
        }
    }

    /// Returns true if nothing else changes in a folder that moves: a copy of it would have both.
    fn moves_apart(&self) -> bool {
        let files = self.files.iter().map(|file| self.location(file.seen.current.place.path()));
        let folders = self.named_folders().map(|folder| self.location(folder));
        let moves = self.moves.iter().flat_map(|moved| [moved.from.clone(), moved.to.clone()]);
        let all: Vec<Location> = files.chain(folders).chain(moves).collect();
        let is_alone = |top: &Location| all.iter().filter(|at| at.is_within(top)).count() == 1;
        let whole = self.moves.iter().filter(|moved| moved.thing.is_folder);
        whole.into_iter().all(|moved| is_alone(&moved.from) && is_alone(&moved.to))
    }

    /// Examines the files again: those whose steps were taken back are the old ones by their bytes alone.
    fn check_files_again(&mut self) -> Result<(), Error> {
        let look = |file: &FilePlan| {
            let old = file.seen.current.original.as_ref();
            old.map(|old| self.open_canonical(&old.path)).transpose()
        };
        let found = self.files.iter().map(look).collect::<Result<Vec<Option<LockedFile>>, Error>>()?;
        for (file, now) in self.files.iter_mut().zip(found) {
            let current = &mut file.seen.current;
            let Some(now) = now else { continue };
            if now.sha256 != current.sha256 || now.mode() != current.mode() {
                return Err(changed_meanwhile(current.place.display()));
            }
            current.original = now.original;
        }
        Ok(())
    }

    /// Prepares the change and takes its steps, or leaves everything as it was; also returns the read marks after it.
    fn apply(&mut self, state: &State, ways: ParentFolders) -> Result<(PreparedChange, ReadRecords), Error> {
        let mut prepared = PreparedChange::default();
        let outcome =
            self.prepare(state, ways, &mut prepared).and_then(|()| self.publish(state, &mut prepared));
        if let Err(error) = outcome {
            prepared.discard();
            let executor = Executor { workspace: &self.engine.workspace, state };
            without_rename::clear(executor, &self.moves, false);
            return Err(error);
        }
        let marks = self.marks_after(state);
        self.carry_out(state)?;
        Ok((prepared, marks))
    }

    /// Returns true if neither this change nor the one before it, if that is not closed yet, looks at what the other
    /// changes. Both change only bytes, and of different files, by their inodes too: a file may be mounted twice.
    fn is_apart(&self) -> bool {
        /// Most files of the change before that are compared.
        const FILES_MAX: usize = 16;
        let Some(StepsTurn::After(before)) = &self.turn else { return true };
        let is_put = |step: &Step| matches!(step, Step::Put { .. });
        let are_small = before.files.len() <= FILES_MAX && before.steps.iter().all(is_put);
        // A first change of a session moves the branch before it is prepared.
        let are_of_files = self.session.seq > 0
            && self.moves.is_empty()
            && !self.has_folders()
            && self.described.is_empty()
            && self.entry.modes.is_empty()
            && self.files.iter().all(|file| file.after.is_some() && file.origin.is_none());
        let is_other = |entry: &FileEntry| {
            let place = self.engine.workspace.place_of(&entry.path);
            let Some(now) = place.as_ref().ok().and_then(ResolvedPath::stat) else { return false };
            self.files.iter().map(|file| &file.seen.current).all(|mine| {
                let path = mine.place.path();
                let is_same = mine.original.as_ref().is_some_and(|it| fs::is_same_file(&it.stat, now));
                !is_same && !path.is_within(&entry.path) && !entry.path.is_within(path)
            })
        };
        are_small && are_of_files && before.files.iter().all(is_other)
    }

    /// Waits until every earlier change is closed, and finishes one whose call was killed meanwhile.
    fn wait_for_turn(&mut self, state: &State) -> Result<(), Error> {
        if matches!(self.turn, Some(StepsTurn::After(_))) {
            self.turn = Some(StepsTurn::Now(state.lock_steps()?));
            recover::recover(self.engine, state, Some(&self.entry.id))?;
        }
        Ok(())
    }

    /// Takes the steps; if one fails, takes back those before it.
    fn carry_out(&mut self, state: &State) -> Result<(), Error> {
        let executor = Executor { workspace: &self.engine.workspace, state };
        let seen = ReadStats { looks: self.looks(), done: Cell::new(0) };
        let Err(error) = executor.carry_out(&self.entry, 0, &seen) else { return Ok(()) };
        // The present files cannot show how far this change got, but this call knows it.
        let is_others = error.kind() == ErrorKind::StaleFile;
        if is_others && recover::roll_back(executor, &self.entry, seen.done.get()).is_ok() {
            return Err(error);
        }
        let error = self.after_failure(state, error);
        if error.is_applied() {
            self.note_changed();
        }
        Err(error)
    }

    /// Returns the stats of the files that are replaced or removed, from when they were read.
    fn looks(&self) -> HashMap<Location, Stat> {
        let of = |file: &FilePlan| {
            let original = file.seen.current.original.as_ref()?;
            Some((self.location(file.seen.current.place.path()), original.stat))
        };
        self.files.iter().filter_map(of).collect()
    }

    /// Fails, if the policy says so, for a file with several hard links. The kind is `protected_path`: the file is
    /// regular and readable, but must not be written.
    fn must_have_one_name(&self) -> Result<(), Error> {
        if !self.engine.policy().refuses_hard_links() {
            return Ok(());
        }
        let Some(file) = self.files.iter().find(|file| file.has_several_names()) else { return Ok(()) };
        let shown = file.seen.current.place.display();
        let source = self.engine.policy().source_of(Key::HardLinks);
        let message = format!(
            "{shown} has several hard links, and the policy refuses to change such a file (hard_links = \"refuse\", {source})"
        );
        Err(Error::new(ErrorKind::ProtectedPath, message).at(shown).suggest(format!(
            "Leave {shown} as it is and tell the user: the policy only allows changes to files with a single name."
        )))
    }

    /// Writes backups and new bytes to temporary files, and plans the steps.
    fn prepare(
        &mut self,
        state: &State,
        ways: ParentFolders,
        prepared: &mut PreparedChange,
    ) -> Result<(), Error> {
        self.write_aside(state, &ways, prepared)?;
        self.copy_across(state, &ways)?;
        let mut intent = self.intent(prepared);
        self.prepare_descriptions(state, prepared, &mut intent)?;
        intent.made.extend(ways.made);
        (intent.cleared, intent.vacated) = self.leaving_folders();
        intent.moves.clone_from(&self.moves);
        let id = self.entry.id.clone();
        let steps = plan(intent, |number| Location::in_state(HELD_FOLDER, &format!("{id}-held-{number}")));
        if let Some(at) = contradiction(&steps) {
            return Err(Error::internal(format!("the steps of this change contradict each other at {at}")));
        }
        self.entry.set_steps(steps, state.path());
        if self.entry.steps.iter().flat_map(Step::locations).any(Location::is_held) {
            state.folder(HELD_FOLDER)?;
        }
        self.entry.kept = std::mem::take(&mut prepared.staged_files.kept);
        prepared.entry = Some(self.entry.prepare(state)?);
        for warning in std::mem::take(&mut prepared.staged_files.warnings) {
            self.engine.warn(warning);
        }
        Ok(())
    }

    /// Writes the snapshot of the change to temporary files, so that one wave of syncs serves both. Skips cases that
    /// are done after the change: large files, whose compression can overlap with the disk's work; moved folders, which
    /// are read at their new paths; and rule files, which must count with their new content.
    fn prepare_snapshot(&self, state: &State, prepared: &mut PreparedChange) {
        if self.files.iter().any(|file| is_large(file) || is_rule_file(file)) {
            return;
        }
        let moved = if self.moves.is_empty() {
            None
        } else if self.files.is_empty() && self.entry.modes.is_empty() {
            let Some(moved) = MoveCandidates::of(&self.engine.workspace, state, &self.moves) else { return };
            Some(moved)
        } else {
            return;
        };
        let files = snapshot_files(&self.files, &self.state_path);
        let files = match &moved {
            Some(moved) => moved.for_snapshot.files_with(files),
            None => files,
        };
        let record = AppliedChange { entry: &self.entry, files, folders: Vec::new(), blobs: &[] };
        prepared.snapshot = record::prepare(self.engine, &record);
        prepared.about_to_move = moved.map(|moved| moved.read).unwrap_or_default();
    }

    /// Returns the target state of the files.
    fn intent(&self, prepared: &PreparedChange) -> Intent {
        let mut intent = Intent::default();
        for (number, file) in self.files.iter().enumerate() {
            let at = self.location(file.seen.current.place.path());
            let staged = prepared.staged_files.staged.get(&number);
            let before = version_before(&self.engine.workspace, &file.seen.current, staged.is_none());
            match (file.after.as_ref().zip(staged), before) {
                (Some((after, staged)), before) => intent.files.push(Step::Put {
                    at,
                    staged: staged.at.clone(),
                    before,
                    after: Version {
                        sha256: after.sha256,
                        size: after.bytes.len() as u64,
                        mode: staged.mode,
                        identity: after.identity.clone(),
                    },
                    in_place: file.in_place,
                }),
                (None, Some(before)) => intent.removed.push((at, before)),
                (None, None) => {}
            }
        }
        intent
    }

    /// Writes backups, new bytes and the snapshot to temporary files; for many files, makes the snapshot in parallel.
    fn write_aside(
        &self,
        state: &State,
        ways: &ParentFolders,
        prepared: &mut PreparedChange,
    ) -> Result<(), Error> {
        let (workspace, files, kept) = (&self.engine.workspace, &*self.files, &*self.kept);
        let (id, mounts, is_beside) = (&*self.entry.id, &self.mounts, self.stays_in_folders);
        let to_write = FilesToWrite { workspace, state, id, files, kept, ways, mounts, is_beside };
        let (aside, outcome) = if to_write.is_many() {
            std::thread::scope(|scope| {
                let thread = other_cpu::spawn_scoped(scope, || to_write.write());
                self.prepare_snapshot(state, prepared);
                // If no thread can start, do the work here.
                let Ok(thread) = thread else { return to_write.write() };
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        } else {
            to_write.write()
        };
        prepared.staged_files = aside;
        outcome?;
        if !to_write.is_many() {
            self.prepare_snapshot(state, prepared);
        }
        Ok(())
    }

    /// Writes the descriptions of new trash entries to temporary files.
    fn prepare_descriptions(
        &self,
        state: &State,
        prepared: &mut PreparedChange,
        intent: &mut Intent,
    ) -> Result<(), Error> {
        if self.described.is_empty() {
            return Ok(());
        }
        let stage = StagingFolder::new(&self.engine.workspace, state, &self.entry.id)?;
        for (number, (entry, _)) in self.described.iter().enumerate() {
            let bytes = entry.to_bytes()?;
            let staged = stage.write_own(&format!("trash-{number}"), &bytes)?;
            let (at, size, mode) =
                (self.location(&entry.description(state)), bytes.len() as u64, staged.mode);
            let after = Version { sha256: Sha256::of(&bytes), size, mode, identity: None };
            intent.files.push(Step::Put {
                at,
                staged: staged.at.clone(),
                before: None,
                after,
                in_place: false,
            });
            prepared.descriptions.push(staged);
        }
        Ok(())
    }

    /// Makes everything prepared durable in one wave of syncs, then publishes the journal entry, once every earlier
    /// change is closed.
    fn publish(&mut self, state: &State, prepared: &mut PreparedChange) -> Result<(), Error> {
        let is_small = !self.files.iter().any(is_large);
        if self.engine.policy().is_durable() {
            prepared.sync(state, is_small)?;
        }
        self.wait_for_turn(state)?;
        self.must_be_unchanged()?;
        if !MoveCandidates::is_as_read(&self.engine.workspace, &prepared.about_to_move) {
            // The moved file has other bytes now: its snapshot is made after the move.
            prepared.snapshot = None;
        }
        // A command that has run is recorded without a control: only calls that have done nothing end here.
        self.engine.control.check_cancelled()?;
        keep_before(self.engine, state, &self.entry);
        self.entry.publish(state)
    }

    /// Fails if a file has changed since it was read, which means that another program is writing.
    fn must_be_unchanged(&self) -> Result<(), Error> {
        let root = self.engine.workspace.root_fd();
        let mut folders = fs::FolderCache::default();
        for file in &self.files {
            let current = &file.seen.current;
            let Some(original) = &current.original else {
                continue;
            };
            let path = current.place.path();
            let folder = folders
                .get(path.parent().unwrap_or_default(), |folder| fs::open_beneath(root, folder, fs::HANDLE));
            let now = folder.and_then(|folder| fs::stat_at(folder, path.name().unwrap_or_default()));
            let shown = current.place.display();
            let same = match now {
                Ok(now) => fs::is_unchanged(&original.stat, &now),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => false,
                Err(errno) => return Err(Error::io("look at", shown, errno)),
            };
            if !same {
                return Err(changed_meanwhile(shown));
            }
        }
        Ok(())
    }

    /// Returns the error after a failed rename. Rolls the change back; or, if others have changed its files meanwhile,
    /// sets it aside; or leaves it to the next call.
    fn after_failure(&mut self, state: &State, error: Error) -> Error {
        if recover::roll_back_steps(Executor { workspace: &self.engine.workspace, state }, &self.entry)
            .is_ok()
        {
            without_rename::clear(Executor { workspace: &self.engine.workspace, state }, &self.moves, false);
            return error;
        }
        if recover::set_own_entry_aside(self.engine, state, &self.entry) {
            return error.applied().suggest(
                "Another program changed the same files, so only a part of the change was made. Check the files; a warning names where the bytes are kept.",
            );
        }
        error.applied().suggest(
            "The change is recorded: the next lbx call completes it or rolls it back. Check the files after that.",
        )
    }

    /// Notes the changed files for the audit log.
    fn note_changed(&mut self) {
        self.engine.note_changed(self.entry.audit_files(), Some(&self.entry.id));
        self.engine.note_gate(self.entry.gate.as_deref());
        self.engine.note_why(self.entry.why.as_deref());
    }
}

/// Returns both sides of each file, for the snapshot.
pub(super) fn snapshot_files<'a>(files: &'a [FilePlan], state: &WorkspacePath) -> Vec<FileChange<'a>> {
    let is_of_workspace = |file: &&FilePlan| !file.seen.current.place.path().is_within(state);
    let sides = |file: &'a FilePlan| FileChange {
        path: file.seen.current.place.path().as_bytes(),
        before: file.seen.current.mode().map(|mode| record::file_state(mode, &file.seen.current.bytes)),
        after: file.after.as_ref().map(|after| record::file_state(file.mode_of(after), &after.bytes)),
    };
    files.iter().filter(is_of_workspace).map(sides).collect()
}

/// Returns true if a file's new bytes take long to process.
fn is_large(file: &FilePlan) -> bool {
    file.after.as_ref().is_some_and(|after| after.bytes.len() >= LARGE_BYTES)
}

/// Returns true for a rule file, by which git decides the contents of a snapshot.
fn is_rule_file(file: &FilePlan) -> bool {
    let name = file.seen.current.place.path().name();
    name.is_some_and(|name| RULE_FILES.contains(&name.as_bytes()))
}

/// Returns the journal's version of a file; if the file is deleted (`goes`), with all metadata that a new one would
/// lack.
fn version_before(workspace: &Workspace, current: &LockedFile, goes: bool) -> Option<Version> {
    Some(Version {
        sha256: current.sha256,
        size: current.bytes.len() as u64,
        mode: current.mode()?,
        identity: goes.then(|| current.identity(workspace)).flatten(),
    })
}
