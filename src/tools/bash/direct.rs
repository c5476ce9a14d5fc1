//! Finds the changes of a command that changes the files themselves: two surveys of the work tree, one before and one
//! after it, a snapshot between two others, and a change in the journal.
//!
//! No undo restores the owners and extended attributes that a command changed, so the response names them.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;

use rustix::io::Errno;

use super::command_diff::{self, ScannedTree, TreePair};
use super::request::{body, subject};
use super::response::{CommandDiff, warn_of};
use super::saved_untracked::{SavedUntracked, UnscannedFiles};
use super::{Bash, confinement};
use crate::engine::Engine;
use crate::engine::change::{Change, record, so_far};
use crate::engine::history::client_calls::{ConcurrentChanges, RepoHeads};
use crate::engine::history::replay::is_same;
use crate::engine::journal::JournalEntry;
use crate::engine::sandbox::folder_watch::FolderWatch;
use crate::engine::sandbox::plan::Access;
use crate::engine::sandbox::repositories::{self, EarlierFindings, ProtectedPaths, SearchDepth};
use crate::engine::sandbox::repository_marks::{HeldMark, MarkChanges, RepositoryMarks};
use crate::engine::sandbox::running::{self, DirectCommand, RunningCommand};
use crate::engine::store::session;
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::engine::workspace::survey::{ChangeTime, Survey, SurveyDiff};
use crate::engine::workspace::{Workspace, fs, metadata};
use crate::error::Error;
use crate::tools::Tool as _;

/// Number of digits of a commit id that a warning shows.
const SHORT_ID: usize = 12;

/// The work tree before a command.
pub struct TreeBefore {
    /// Result of the scan; `None` if the scan failed.
    scanned: Option<TreeScan>,
    /// Paths that a command may not write, until its plan takes them.
    pub protected: ProtectedPaths,
    /// Repositories and lbx states in it.
    marks: RepositoryMarks,
    /// Their paths.
    known: Vec<WorkspacePath>,
    /// Files and folders in it; `None` if there are too many.
    survey: Option<Arc<Survey>>,
    /// Watch over its folders, until they are read again.
    watch: Cell<Option<FolderWatch>>,
    /// Shows others that a command is changing the files.
    running: RunningCommand,
    /// Time from which a file may have changed although nothing of it shows that.
    unsure: Cell<Option<ChangeTime>>,
}

/// Result of a scan of the work tree.
pub struct TreeScan {
    /// The tree.
    pub tree: ScannedTree,
    /// Bytes of files that no snapshot has.
    pub kept: SavedUntracked,
    /// Newest change of each session.
    pub heads: RepoHeads,
}

/// The work tree after a command.
struct TreeAfter {
    /// Files and folders in it; `None` if there are too many.
    survey: Option<Arc<Survey>>,
    /// Repositories that the command made, moved aside since.
    held: Vec<HeldMark>,
    /// True if other commands ran at the same time.
    is_overlapped: bool,
}

impl TreeBefore {
    /// Records what others changed, to tell the command's changes from theirs.
    ///
    /// # Errors
    /// Fails with `command_denied` if the workspace cannot be searched for repositories, with `lock_timeout`, or with
    /// `snapshot_failed` if the caller requires a snapshot: the command has not run then.
    pub fn record_foreign_changes(engine: &mut Engine, message: (&str, Option<&str>)) -> Result<Self, Error> {
        let locked = engine.lock()?;
        let running = RunningCommand::begin(&locked.state)?;
        // A command reports its output as progress, not this scan.
        let control = engine.control.clone();
        engine.control = control.clone().without_reports();
        let looked = Self::survey_before(engine, &locked.state, running, message);
        engine.control = control;
        looked
    }

    /// Surveys once, for the search for repositories, the scan and the later comparison.
    fn survey_before(
        engine: &mut Engine,
        state: &State,
        mut running: RunningCommand,
        (command, why): (&str, Option<&str>),
    ) -> Result<Self, Error> {
        let look = |engine: &mut Engine| {
            let watch =
                confinement::has_own_mounts(engine).then(|| FolderWatch::begin(&engine.workspace)).flatten();
            let looking = watch.as_ref().map_or(SearchDepth::AtAll, SearchDepth::AndWatching);
            confinement::find_protected(engine, looking).map(|(protected, survey)| (protected, survey, watch))
        };
        let (mut protected, mut survey, mut watch) = look(engine)?;
        if move_leftovers_aside(engine, state, &protected.marks) {
            (protected, survey, watch) = look(engine)?;
        }
        let known = protected.marks.clone();
        let marks = RepositoryMarks::of(&engine.workspace, &protected.marks);
        running.note(state, &marks.to_json())?;
        let survey = survey.map(Arc::new);
        let has_snapshots = engine.policy().has_snapshots() || engine.require_snapshot;
        let scanned = if has_snapshots {
            TreeScan::scan(engine, state, survey.as_ref(), running.is_late)?
        } else {
            engine.warn("snapshots are switched off, so nothing records what this command changes, and no undo takes it back");
            None
        };
        let tip = scanned.as_ref().and_then(|scanned| scanned.tree.tip.as_ref()?.get(..SHORT_ID));
        let session = engine.session().to_string();
        let (subject, body) = (subject(command), body(command, why));
        running.mark(state, &DirectCommand { session, tip: tip.map(str::to_owned), subject, body });
        let (watch, unsure) = (Cell::new(watch), Cell::default());
        Ok(Self { scanned, protected, marks, known, survey, watch, running, unsure })
    }

    /// Waits until a write gets a later time than the survey; call it just before the command runs.
    pub fn wait_for_clock_tick(&self) {
        if self.scanned.is_some() {
            self.unsure.set(self.running.wait_for_clock_tick());
        }
    }

    /// Moves new repositories aside, and records the differences as changes of the command.
    ///
    /// # Errors
    /// Fails with `snapshot_failed` (applied) if the caller requires a snapshot.
    pub fn compare(
        &self,
        engine: &mut Engine,
        reach: &Access,
        message: (&str, Option<&str>),
    ) -> Result<CommandDiff, Error> {
        // The command has run: a cancel must not lose its changes.
        let control = std::mem::take(&mut engine.control);
        let compared = if let Some(scanned) = &self.scanned {
            match self.compare_with(scanned, engine, reach, message) {
                // The command has run: its output is worth more than an error.
                Err(error) if !error.is_applied() => scanned.not_recorded(engine, error.message()),
                compared => compared,
            }
        } else {
            self.survey_after(engine, reach);
            Ok(CommandDiff::default())
        };
        engine.control = control;
        compared
    }

    /// Records the differences to a scan as changes of the command.
    fn compare_with(
        &self,
        scanned: &TreeScan,
        engine: &mut Engine,
        reach: &Access,
        (command, why): (&str, Option<&str>),
    ) -> Result<CommandDiff, Error> {
        let before = self.survey.as_deref();
        let touched = |after: &TreeAfter| {
            before.zip(after.survey.as_deref()).map(|(old, new)| old.touched(new, self.unsure.get()))
        };
        let state = State::open(&engine.workspace)?;
        let newest =
            |engine: &Engine| Ok::<_, Error>((record::newest_or_head(engine)?, RepoHeads::of(&state)?));
        let seen = newest(engine)?;
        let mut after = self.survey_after(engine, reach);
        let mut found = touched(&after);
        if found.as_ref().is_some_and(Vec::is_empty) && seen.1 == scanned.heads {
            // Most commands only read: a scan would find what the last one found.
            return Ok(CommandDiff::none());
        }
        let mut change = engine.begin(Bash::NAME, &[], false)?;
        if newest(change.engine())? != seen {
            // Another session recorded a change meanwhile. An older survey would revert it.
            let held = std::mem::take(&mut after.held);
            after = self.survey_after(change.engine(), reach);
            after.held.splice(0..0, held);
            found = touched(&after);
        }
        let theirs = self.concurrent(&mut change, scanned.heads.since(&state)?, found.as_mut());
        if found.as_ref().is_some_and(Vec::is_empty) && theirs.so_far.is_empty() {
            return Ok(CommandDiff::none());
        }
        let seq = change.spend_number()?;
        let (subject, body) = (subject(command), body(command, why));
        let words = (Some(subject.clone()), body.as_deref());
        // Older changes belong to the commands that still run, and a commit holds only changes of its session.
        let only = found.as_ref().filter(|_| after.is_overlapped || !theirs.is_empty());
        let only = only.map(|touched| command_paths(change.workspace(), &theirs, touched));
        withhold_old_bytes(change.engine(), scanned, found.as_deref());
        let looked = record::RecentSurvey { survey: after.survey.clone(), only: only.as_ref() };
        let recorded = match record::scan_as(change.engine(), words, Bash::NAME, seq, looked) {
            Ok(recorded) => recorded,
            Err(error) => return scanned.not_recorded(change.engine(), error.message()),
        };
        let later = after.survey.as_deref();
        let untracked = UnscannedFiles::of(&recorded.left_out, &recorded.ignored, later);
        recorded.warnings.into_iter().for_each(|warning| change.engine().warn(warning));
        if let Some(id) = recorded.id {
            change.engine().set_snapshot(id);
        }
        let tree = ScannedTree { untracked, tip: record::newest_or_head(change.engine())? };
        let Some(((before, later), touched)) = before.zip(later).zip(found) else {
            change.engine().warn(
                "there are too many files to look at each: undo does not take back what this command changed",
            );
            return Ok(CommandDiff::default());
        };
        warn_of_touched(change.engine(), before, later, &touched);
        tree.untracked.warn_of_lost(reach, change.engine(), &touched);
        warn_of_attributes(change.engine(), &touched);
        let sides = TreePair {
            surveys: [before, later],
            trees: [&scanned.tree, &tree],
            is_overlapped: after.is_overlapped,
            kept: &scanned.kept,
            theirs: &theirs,
            held: &after.held,
        };
        command_diff::record(change, &sides, &touched, (subject, body))
    }

    /// Returns the effect of changes that were recorded meanwhile. Adds to `found` the files that they left and that the
    /// command has removed.
    fn concurrent(
        &self,
        change: &mut Change<'_>,
        entries: Vec<JournalEntry>,
        found: Option<&mut Vec<SurveyDiff>>,
    ) -> ConcurrentChanges {
        let name = self.running.name();
        for part in entries.iter().filter(|entry| entry.command.as_deref() == Some(name)) {
            change.engine().note_changed(part.audit_files(), Some(&part.id));
        }
        let mut theirs = ConcurrentChanges::of(entries, Some(name));
        if let Some((touched, before)) = found.zip(self.survey.as_deref()) {
            resolve_moved(change.engine(), touched, &mut theirs);
            add_removed(touched, change.workspace(), before, &theirs);
        }
        if !theirs.so_far.is_empty() {
            change.set_command(name);
        }
        theirs
    }

    /// Surveys the work tree after the command, and moves new repositories aside.
    fn survey_after(&self, engine: &mut Engine, reach: &Access) -> TreeAfter {
        let closed = || reach.protected.iter().chain(&reach.states).map(OsString::as_os_str);
        // A second look comes later than the events.
        let watch = self.watch.take().zip(self.survey.as_deref());
        let earlier = watch.and_then(|(watch, survey)| {
            let changed = watch.changed(&engine.workspace, survey)?;
            Some(EarlierFindings { survey, marks: &self.known, changed })
        });
        let find_again = |engine: &Engine, earlier| {
            repositories::find_again(&engine.workspace, &engine.control, closed(), earlier)
        };
        let (mut survey, mut held) = (None, Vec::new());
        match find_again(engine, earlier) {
            Ok(mut found) => {
                let changes = self.marks.move_new_aside(&engine.workspace, &found.marks);
                survey = found.survey.take();
                drop(found);
                warn_of_marks(engine, &changes);
                held = changes.held;
                if !held.is_empty() {
                    survey = find_again(engine, None).ok().and_then(|mut found| found.survey.take());
                }
            }
            Err(error) => engine.warn(format!(
                "{}. Look for new repositories in the workspace before git is run there",
                error.message()
            )),
        }
        TreeAfter { survey: survey.map(Arc::new), held, is_overlapped: self.running.is_overlapped() }
    }
}

/// Notes the old bytes of the untracked files that a command touched: they stay out of its snapshot under any name.
fn withhold_old_bytes(engine: &mut Engine, scanned: &TreeScan, found: Option<&[SurveyDiff]>) {
    let old = found
        .into_iter()
        .flatten()
        .filter_map(|touched| scanned.kept.bytes_of(&touched.path, touched.before.as_ref()?.size()));
    record::withhold(engine, old);
}

/// Settles the files that others moved and that the command has changed since: the newest snapshot has what they left.
fn resolve_moved(engine: &Engine, touched: &[SurveyDiff], theirs: &mut ConcurrentChanges) {
    let is_folder =
        |touched: &SurveyDiff| touched.before.iter().chain(&touched.after).any(|thing| thing.kind().is_dir());
    let own = touched.iter().filter(|touched| theirs.is_theirs(&touched.path) && !is_folder(touched));
    let moved = theirs.moved_to().iter().filter(|path| !is_state(path));
    let paths = own.map(|touched| &touched.path).chain(moved).cloned();
    let paths: BTreeSet<WorkspacePath> = paths.collect();
    let mut paths = paths.into_iter();
    while let Some(files) = so_far::changed_files(engine, &mut paths) {
        for file in files {
            theirs.note_moved_version(file.path, file.before.as_ref().map(so_far::version));
        }
    }
}

/// Adds files that others recorded meanwhile, and that are missing now as they were before the command: it has removed
/// them.
fn add_removed(
    touched: &mut Vec<SurveyDiff>,
    workspace: &Workspace,
    before: &Survey,
    theirs: &ConcurrentChanges,
) {
    let is_gone = |path: &WorkspacePath| {
        matches!(fs::stat_beneath(workspace.root_fd(), path), Err(Errno::NOENT | Errno::NOTDIR))
    };
    let left = theirs.files.iter().filter(|(_, (_, last))| last.is_some()).map(|(path, _)| path);
    let removed = left.filter(|path| before.at(path).is_none() && is_gone(path));
    touched.extend(removed.map(|path| SurveyDiff { path: path.clone(), before: None, after: None }));
}

/// Returns the touched paths that others did not leave as they are now.
fn command_paths(
    workspace: &Workspace,
    theirs: &ConcurrentChanges,
    touched: &[SurveyDiff],
) -> BTreeSet<Vec<u8>> {
    let own = touched.iter().filter(|touched| !is_of_others(workspace, theirs, touched));
    own.map(|touched| touched.path.as_bytes().to_vec()).collect()
}

/// Returns true if others left a path as it is now.
fn is_of_others(workspace: &Workspace, theirs: &ConcurrentChanges, touched: &SurveyDiff) -> bool {
    let Some((_, last)) = theirs.files.get(&touched.path) else { return theirs.is_theirs(&touched.path) };
    let file = touched.after.as_ref().filter(|after| command_diff::is_file(after));
    let now = file.map(|file| command_diff::version_at(workspace, &touched.path, file));
    match now {
        None => last.is_none() && touched.after.is_none(),
        Some(now) => now.is_some() && is_same(now.as_ref(), last.as_ref()),
    }
}

/// Moves aside the repositories of a command whose call was killed; returns true if there are any.
fn move_leftovers_aside(engine: &mut Engine, state: &State, marks: &[WorkspacePath]) -> bool {
    let mut has_held = false;
    for note in running::take_dead_notes(state) {
        let Some(before) = RepositoryMarks::from_json(&note) else { continue };
        let changes = before.move_new_aside(&engine.workspace, marks);
        has_held |= !changes.held.is_empty();
        warn_of_marks(engine, &changes);
    }
    has_held
}

/// Warns of repositories that a command made or changed.
fn warn_of_marks(engine: &mut Engine, changes: &MarkChanges) {
    for held in &changes.held {
        let (what, who) = if held.is_state { ("a state of lbx", "lbx") } else { ("a repository", "git") };
        let (folder, now) = (shown_folder(engine, &held.folder), engine.workspace.display(&held.path));
        engine.warn(format!(
            "the command made {what} in {folder}; it is now {now}, where {who} does not use it"
        ));
    }
    for (path, errno) in &changes.failed {
        let path = engine.workspace.display(path);
        engine.warn(format!(
            "the command made a repository, and {path} cannot be moved aside ({errno}): look at its configuration and hooks before git is run there"
        ));
    }
    for folder in &changes.altered {
        let folder = shown_folder(engine, folder);
        engine.warn(format!(
            "the configuration or hooks of the repository in {folder} changed while the command ran: look at them before git is run there"
        ));
    }
}

/// Returns a folder for a warning.
pub fn shown_folder(engine: &Engine, folder: &WorkspacePath) -> String {
    if folder.is_root() { "the workspace root".to_owned() } else { engine.workspace.display(folder) }
}

impl TreeScan {
    /// Records what others changed; returns `None`, with a warning, if that fails. While other commands run, it is
    /// recorded as theirs: of a direct command now, and of a client at its end, so that its bytes are saved.
    pub fn scan(
        engine: &mut Engine,
        state: &State,
        survey: Option<&Arc<Survey>>,
        is_late: bool,
    ) -> Result<Option<Self>, Error> {
        let (session, warning) = session::load(state, engine.session())?;
        engine.warn_if(warning);
        let scanned = if is_late {
            record::unrecorded(engine, survey.cloned()).and_then(|found| {
                let recorded = so_far::record_at(engine, state, found.paths())?;
                let mut paths = found.paths().into_iter().filter(|_| recorded.is_none());
                let left = std::iter::from_fn(|| so_far::changed_files(engine, &mut paths)).flatten();
                let left: Vec<WorkspacePath> = left.map(|file| file.path).collect();
                Ok((found.left_out, found.ignored, left))
            })
        } else {
            let recorded = record::scan_others(engine, session.seq == 0, survey.cloned());
            recorded.map(|recorded| (recorded.left_out, recorded.ignored, Vec::new()))
        };
        let heads = RepoHeads::of(state)?;
        match scanned {
            Ok((left_out, ignored, left)) => {
                let survey = survey.map(Arc::as_ref);
                let tree = ScannedTree {
                    untracked: UnscannedFiles::of(&left_out, &ignored, survey),
                    tip: record::newest_or_head(engine)?,
                };
                let kept = tree.untracked.save(engine, survey, left.into_iter());
                Ok(Some(Self { tree, kept, heads }))
            }
            Err(error) if engine.require_snapshot => Err(error),
            Err(error) => {
                engine.warn(format!(
                    "{}; what this command changed is not recorded, and undo does not take it back",
                    error.message()
                ));
                Ok(None)
            }
        }
    }

    /// Warns that the command's changes could not be recorded, and names the commit with the old bytes.
    fn not_recorded(&self, engine: &mut Engine, message: &str) -> Result<CommandDiff, Error> {
        let message = message.trim_start_matches("no snapshot: ");
        let lost = "what this command changed is not recorded, and undo does not take it back";
        let old = self.tree.tip.as_deref().and_then(|tip| tip.get(..SHORT_ID)).map_or_else(String::new, |tip| {
            format!(
                "; the old bytes are in the snapshot {tip}, but for files that snapshots leave out: once this is mended, `lbx snapshot` records the changes and `lbx diff --from {tip}` shows them"
            )
        });
        engine.snapshot_failed(&format!("{message}; {lost}{old}"))?;
        Ok(CommandDiff::default())
    }
}

/// Warns of new paths that the policy protects: they did not exist before the command, so they could not be made
/// read-only. Also of folders that became unreadable during the command.
fn warn_of_touched(engine: &mut Engine, before: &Survey, after: &Survey, touched: &[SurveyDiff]) {
    let new = touched.iter().filter(|touched| touched.before.is_none()).map(|touched| &touched.path);
    let is_protected = |path: &&WorkspacePath| engine.policy().protects(&engine.workspace, path).is_some();
    let has_globs = engine.policy().has_protected_paths();
    let protected: Vec<WorkspacePath> = new.filter(|path| has_globs && is_protected(path)).cloned().collect();
    warn_of(engine, &protected, |names| {
        format!("the policy protects what is new now: {names}. No tool changes or undoes it; tell the user")
    });
    let unseen: Vec<WorkspacePath> = after.newly_unseen(before).cloned().collect();
    warn_of(engine, &unseen, |names| {
        format!(
            "cannot be read since the command: {names}. What it changed there is not recorded, and undo does not take it back"
        )
    });
}

/// Warns of owners and attributes that a command changed.
///
/// A survey reads no attributes, since that would double its cost. If only the change time differs, the attributes that
/// a file has now may be new.
fn warn_of_attributes(engine: &mut Engine, touched: &[SurveyDiff]) {
    let (mut owners, mut attributes) = (Vec::new(), Vec::new());
    for SurveyDiff { path, before, after } in touched {
        let (Some(before), Some(after)) = (before, after) else { continue };
        if before.kind() != after.kind() || before == after {
            continue;
        }
        if before.owner() != after.owner() {
            owners.push(path.clone());
        } else if before.looks_like(after)
            && before.mode() == after.mode()
            && has_attributes(&engine.workspace, path)
        {
            attributes.push(path.clone());
        }
    }
    for (what, paths) in
        [("owner or group changed", owners), ("extended attributes may have changed", attributes)]
    {
        warn_of(engine, &paths, |names| format!("{what}, which undo does not take back: {names}"));
    }
}

/// Returns true if a file or folder has extended attributes, access control lists among them.
fn has_attributes(workspace: &Workspace, path: &WorkspacePath) -> bool {
    let flags = fs::READ;
    fs::open_beneath(workspace.root_fd(), path, flags)
        .is_ok_and(|file| !metadata::user_attributes(&file).is_empty())
}
