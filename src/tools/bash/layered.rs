//! A command on a layer: its changes are applied at its end, as one change of the session.
//!
//! ```text
//! layer -> command -> read the layer -> exclude conflicts -> plan -> check -> journal, rename, commit
//!                                            |                  |
//!                                            +--- kept aside <--+  (a transaction fails instead)
//! ```

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Stat};

use super::Bash;
use super::layer_changes::{
    ExcludedPaths, IgnoredPaths, LayerConflicts, changed_meanwhile, changes, versions,
};
use super::layer_plan::{LayerApplication, LayerPlan, MergedFiles};
use super::request::{Request, body, subject};
use super::response::{CommandDiff, Conflict, warn_of};
use crate::engine::Engine;
use crate::engine::change::{Change, record};
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::layer::{ApplyingChange, LayerConflict, LayerFolder, LayerRecord};
use crate::engine::sandbox::overlay::{self, Differences, LayerDifference as Differing};
use crate::engine::sandbox::running;
use crate::engine::store::state::{State, make_folder};
use crate::engine::store::trash;
use crate::engine::workspace::metadata::times_of;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::{HEAD, is_protected};
use crate::engine::workspace::survey::changed_at;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind, text};
use crate::limits::APPLY_TRIES_MAX;
use crate::text::diff::{is_cut, unified};
use crate::text::escaped::{first_of, short_path};
use crate::tools::Tool as _;
use crate::tools::common::warn_of_lossy;

/// Largest file whose diff is shown, in bytes.
const LAYER_DIFF_BYTES_MAX: u64 = 8 << 20;
/// Most paths of a conflict that a warning names.
const CONFLICTS_NAMED: usize = 3;

/// A command whose changes are in a layer.
pub struct LayeredCommand(pub LayerFolder);

/// How a layer is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyMode {
    /// Not at all: it is shown and dropped.
    Shown,
    /// As much as has no conflict; the layer keeps the rest.
    Partly,
    /// All of it, or nothing.
    Whole,
    /// All of it, or nothing; nothing if the command failed.
    WholeOnSuccess,
    /// All of it, over the changes of others that the caller was shown; nothing if there are more.
    Over,
}

impl LayeredCommand {
    /// Creates the layer of a command.
    ///
    /// # Errors
    /// Fails with `invalid_request` if no layer can be made.
    pub fn begin(engine: &Engine, request: &Request) -> Result<Self, Error> {
        let record = LayerRecord {
            tip: record::tip_by_ref_file(engine),
            command: request.command.clone().unwrap_or_default(),
            session: engine.session().to_string(),
            why: request.why.clone(),
            ..LayerRecord::default()
        };
        LayerFolder::make(&engine.workspace, State::open(&engine.workspace)?, record).map(Self)
    }

    /// Opens a layer that was kept after its command.
    ///
    /// # Errors
    /// Fails with `not_found` if no layer has that name.
    pub fn open(engine: &Engine, name: &str) -> Result<Self, Error> {
        LayerFolder::open(State::open(&engine.workspace)?, name).map(Self)
    }

    /// Warns if a layer in memory was too small for the command.
    pub fn warn_of_full_layer(&self, engine: &mut Engine) {
        if let Some(bytes) = self.0.full_size() {
            engine.warn(format!(
                "the command used up {} MiB of memory in /dev/shm, where its changes are kept since the workspace is on an overlay file system: put the workspace on a volume, or give the container a larger /dev/shm",
                bytes >> 20
            ));
        }
    }

    /// Returns the changes of the command without applying them.
    ///
    /// # Errors
    /// Fails with `protected_path` if a transaction would.
    pub fn try_out(&self, engine: &mut Engine) -> Result<CommandDiff, Error> {
        let found = self.read(engine, &|_| false)?.paths;
        let change = engine.begin(Bash::NAME, &[], true)?;
        let checked = found.iter().try_for_each(|differing| change.free_path(&differing.path).map(drop));
        checked.map_err(|error| self.refused(error))?;
        self.find_changes(engine)
    }

    /// Returns the changes of the command.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn find_changes(&self, engine: &Engine) -> Result<CommandDiff, Error> {
        let found = self.read(engine, &|_| false)?.paths;
        let classified = IgnoredPaths::of(engine, &self.0.upper, &found, true);
        let listed = changes(&engine.workspace, &self.0.upper, &found, &classified);
        listed.map(|changes| CommandDiff::of(&engine.workspace, changes)).map_err(|error| self.refused(error))
    }

    /// Returns a unified diff from the current files to those of the layer, at most `bytes_max` long, and
    /// true if nothing of it was cut.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn diff(&self, engine: &Engine, bytes_max: usize) -> Result<(String, bool), Error> {
        let workspace = &engine.workspace;
        let found = self.read(engine, &|_| false)?.paths;
        let file_bytes_max = engine.policy().number(Key::FileBytes).min(LAYER_DIFF_BYTES_MAX);
        let mut text = String::new();
        for differing in &found {
            if text.len() >= bytes_max {
                return Ok((text, false));
            }
            let read = versions(workspace, &self.0.upper, differing, file_bytes_max);
            let Some([old, new]) = read else { continue };
            let shown = workspace.display(&differing.path);
            let (old_name, new_name) = (format!("a/{shown}"), format!("b/{shown}"));
            if let [Some(old), Some(new)] =
                [&differing.lower, &differing.upper].map(|it| it.as_ref().map(fs::recorded_mode))
                && old != new
            {
                text.extend([format!("old mode 100{old:03o}\nnew mode 100{new:03o}\n")]);
            }
            text.push_str(&unified(&old_name, &new_name, &old, &new, bytes_max - text.len()));
            if is_cut(&text) {
                return Ok((text, false));
            }
        }
        Ok((text, true))
    }

    /// Returns the differences of the layer, without the paths for which `is_skipped` is true, and all below them.
    fn read(
        &self,
        engine: &Engine,
        is_skipped: &dyn Fn(&WorkspacePath) -> bool,
    ) -> Result<Differences, Error> {
        let root = self.0.root_difference(&engine.workspace);
        let mut found = overlay::read(&engine.workspace, &self.0.upper, &engine.control, is_skipped)?;
        found.paths.splice(0..0, root);
        let conflicts = &self.0.record.conflicts;
        if !conflicts.is_empty() {
            // The modes and times of folders above them were settled when the rest was applied.
            let is_open = |path: &WorkspacePath| conflicts.iter().any(|it| path.is_within(&it.path));
            let is_kept = |stat: &Option<Stat>| stat.as_ref().is_some_and(fs::is_folder);
            found.paths.retain(|it| !is_kept(&it.lower) || !is_kept(&it.upper) || is_open(&it.path));
            found.times.retain(|(path, _)| is_open(path));
        }
        Ok(found)
    }

    /// Drops the list of known repositories if a command could reach one: it is new since the last search.
    fn refused(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::ProtectedPath {
            return error;
        }
        running::forget_repositories(&self.0.state);
        error.suggest("Nothing that the command did was applied. Run it again without what it does there: git and lbx keep their own state in that place.")
    }

    /// Applies the changes of the command as one change of the session.
    ///
    /// # Errors
    /// Fails with `stale_file` if all must be applied and others changed one of the files, and as any change does. The
    /// layer is kept then, unless all must be applied.
    pub fn apply(&mut self, engine: &mut Engine, manner: ApplyMode) -> Result<CommandDiff, Error> {
        if fs::names_in(&self.0.upper).is_ok_and(|names| names.is_empty())
            && self.0.root_difference(&engine.workspace).is_none()
        {
            self.0.is_kept = false;
            return Ok(CommandDiff::none());
        }
        let mut excluded = ExcludedPaths::new();
        let mut modes = BTreeMap::new();
        for _ in 0..APPLY_TRIES_MAX {
            let outcome = self.attempt(engine, manner, &mut excluded, &mut modes);
            let error = match outcome {
                Ok(applied) => return Ok(applied),
                Err(error) => error,
            };
            self.0.return_taken();
            if manner == ApplyMode::Whole {
                return Err(self.refused(error));
            }
            if error.kind() == ErrorKind::ProtectedPath {
                running::forget_repositories(&self.0.state);
            }
            let is_unseen = manner == ApplyMode::Over && error.kind() == ErrorKind::StaleFile;
            if error.is_applied() || is_unseen || !self.exclude(engine, &error, &mut excluded) {
                if !error.is_applied() {
                    self.0.is_kept = true;
                }
                let name = self.0.name.clone();
                return Err(error.detail("layer", name));
            }
        }
        self.0.is_kept = true;
        let name = &self.0.name;
        Err(Error::new(
            ErrorKind::IoError,
            format!("too many files of the command cannot be applied; its changes are kept in {name}"),
        ))
    }

    /// Excludes the path that an error is about; false if the layer has no such path.
    fn exclude(&self, engine: &Engine, error: &Error, excluded: &mut ExcludedPaths) -> bool {
        use ErrorKind::{NotARegularFile, PermissionDenied, ProtectedPath, StaleFile, TooLarge};
        let of_a_file = [ProtectedPath, PermissionDenied, TooLarge, StaleFile, NotARegularFile];
        let is_of_a_file = of_a_file.contains(&error.kind());
        let Some(shown) = error.path().filter(|_| is_of_a_file) else { return false };
        // Without a HEAD, the root is not a repository.
        let shown = if shown == "." { HEAD } else { shown };
        let message = error.message();
        let rest = message.strip_prefix(shown).and_then(|rest| rest.strip_prefix(' '));
        let reason = rest.unwrap_or(message).to_owned();
        let is_skipped = |path: &WorkspacePath| excluded.contains_key(path);
        let Ok(Differences { paths: found, .. }) = self.read(engine, &is_skipped) else {
            // The folder below cannot be read.
            let place = engine.workspace.resolve_entry(Path::new(shown));
            return place.is_ok_and(|place| excluded.insert(place.path().clone(), reason).is_none());
        };
        let above = |differing: &Differing| {
            differing.path.and_above().find(|path| !path.is_root() && engine.workspace.display(path) == shown)
        };
        // The path itself, a folder above it, or the folder that is removed with it.
        let path = found.iter().find_map(above).or_else(|| {
            let holds = |differing: &&Differing| {
                let folder = engine.workspace.display(&differing.path);
                shown.strip_prefix(&folder).is_some_and(|rest| rest.starts_with('/'))
            };
            found.iter().find(holds).map(|differing| differing.path.clone())
        });
        let Some(path) = path else { return false };
        excluded.insert(path, reason).is_none()
    }

    /// Tries once to apply the layer without `excluded`. `modes` are those of folders that only earlier tries changed.
    fn attempt(
        &mut self,
        engine: &mut Engine,
        manner: ApplyMode,
        excluded: &mut ExcludedPaths,
        modes: &mut BTreeMap<WorkspacePath, u32>,
    ) -> Result<CommandDiff, Error> {
        let mut change = engine.begin(Bash::NAME, &[], false)?;
        let is_skipped = |path: &WorkspacePath| excluded.contains_key(path);
        let Differences { paths: mut found, times: mut folders } =
            self.read(change.engine_ref(), &is_skipped)?;
        let classified = IgnoredPaths::of(change.engine_ref(), &self.0.upper, &found, false);
        let merges = self.find_conflicts(&change, &found, manner, excluded)?;
        found.retain(|differing| !is_excluded(&differing.path, excluded));
        let now = |path: &WorkspacePath| fs::stat_beneath(change.workspace().root_fd(), path);
        let is_as_before = |now: Stat| changed_at(&now) <= self.0.record.began;
        folders.retain(|(path, _)| !is_excluded(path, excluded) && now(path).map_or(true, is_as_before));
        if manner != ApplyMode::Over {
            self.keep_modes(change.engine(), &mut found, modes);
        }
        // Nobody wants to undo a change of empty folders alone inside an ignored folder.
        let is_quiet =
            |it: &Differing| classified.has_folder(it) && (it.lower.is_none() || is_empty(&change, &it.path));
        let quiet = if found.iter().all(is_quiet) { std::mem::take(&mut found) } else { Vec::new() };
        // List the changes before the layer loses its attributes and the old files are removed.
        let mut listed = changes(change.workspace(), &self.0.upper, &found, &classified)?;
        let ignored = classified.paths();
        let mut applying = LayerApplication::new(&mut change, &self.0, &ignored, &merges);
        if manner == ApplyMode::Over {
            applying.keep_all_ignored();
        }
        applying.plan(&found, excluded)?;
        let mut planned = applying.finish()?;
        planned.times.append(&mut folders);
        self.must_be_as_they_were(&change, &found, manner, &merges)?;
        let session = change.engine_ref().session().as_str().to_owned();
        self.0.note_change(ApplyingChange {
            session,
            seq: change.change_number()?,
            id: change.id().to_owned(),
        })?;
        let LayerRecord { command, why, .. } = &self.0.record;
        change.commit(subject(command), body(command, why.as_deref()))?;
        quiet.iter().for_each(|differing| make_quietly(&engine.workspace, differing));
        self.finish(engine, &planned);
        for change in &mut listed {
            change.is_lost = planned.lost.iter().any(|lost| change.path.is_within(lost));
            if let Some(merge) = merges.get(&change.path) {
                change.sha256 = Some(crate::sha256::Sha256::of(&merge.bytes));
            }
        }
        warn_of_lossy(engine, listed.iter().map(|changed| changed.path.as_bytes()));
        let difference = CommandDiff::of(&engine.workspace, listed);
        self.keep_excluded(engine, excluded, difference)
    }

    /// Finds the conflicts: paths that no change may touch, and files that others changed and that do not merge.
    /// Returns the merges.
    ///
    /// # Errors
    /// Fails with `stale_file` if all must be applied.
    fn find_conflicts(
        &self,
        change: &Change<'_>,
        found: &[Differing],
        manner: ApplyMode,
        excluded: &mut ExcludedPaths,
    ) -> Result<MergedFiles, Error> {
        let mut merges = MergedFiles::new();
        let (workspace, engine) = (change.workspace(), change.engine_ref());
        let conflicts = LayerConflicts::new(engine, &self.0, found);
        for differing in found {
            let path = &differing.path;
            if is_excluded(path, excluded) {
                continue;
            }
            if let Some((part, reason)) = forbidden(engine, path).filter(|_| manner != ApplyMode::Whole) {
                excluded.insert(part, reason);
                continue;
            }
            // What others removed is in no danger from the command's version.
            let has_changed = if manner == ApplyMode::Over {
                conflicts.was_changed(differing)
            } else {
                conflicts.has(differing)
            };
            if !has_changed? {
                continue;
            }
            if matches!(manner, ApplyMode::Whole | ApplyMode::Over) {
                return Err(self.stale(manner, &workspace.display(path)));
            }
            match conflicts.merge(differing) {
                Some(merge) => drop(merges.insert(path.clone(), merge)),
                None => {
                    excluded.insert(path.clone(), "was changed by others while the command ran".to_owned());
                }
            }
        }
        Ok(merges)
    }

    /// Lets folders that others changed keep their modes: the layer has copies, with the modes that these had at its first
    /// write. A failed try opens a closed folder up and closes it again: its mode in `modes` shows that nobody else did.
    fn keep_modes(
        &self,
        engine: &mut Engine,
        found: &mut [Differing],
        modes: &mut BTreeMap<WorkspacePath, u32>,
    ) {
        let mut kept = Vec::new();
        for Differing { path, lower, upper, .. } in found {
            if let (Some(lower), Some(upper)) = (lower, upper)
                && fs::is_folder(lower)
                && fs::is_folder(upper)
                && fs::mode_of(lower) != fs::mode_of(upper)
            {
                let mode = fs::mode_of(lower);
                // New names change the time of the root, whose mode is on record.
                let is_mode_of_root = path.is_root() && self.0.record.root_mode == Some(mode);
                if is_mode_of_root || changed_at(lower) <= self.0.record.began {
                    modes.insert(path.clone(), mode);
                }
                if modes.get(path) == Some(&mode) {
                    continue;
                }
                upper.st_mode = lower.st_mode;
                kept.push(path.clone());
            }
        }
        warn_of(engine, &kept, |names| {
            text!("others changed folders while the command ran, so these keep their modes: {}", names)
        });
    }

    /// Checks again, after all files were read, that others changed none of them.
    fn must_be_as_they_were(
        &self,
        change: &Change<'_>,
        found: &[Differing],
        manner: ApplyMode,
        merges: &MergedFiles,
    ) -> Result<(), Error> {
        let workspace = change.workspace();
        let conflicts = LayerConflicts::new(change.engine_ref(), &self.0, found);
        for differing in found.iter().filter(|differing| !merges.contains_key(&differing.path)) {
            if conflicts.was_changed(differing)? {
                return Err(self.stale(manner, &workspace.display(&differing.path)));
            }
        }
        Ok(())
    }

    /// Returns the error for a file that others changed, so that nothing is applied.
    fn stale(&self, manner: ApplyMode, shown: &str) -> Error {
        if manner != ApplyMode::Over {
            return changed_meanwhile(shown);
        }
        let message = format!("{shown} has changed since the layer was shown; nothing was applied");
        let name = &self.0.name;
        let advice =
            format!("`bash` with `layer` {name} shows how it differs now. Then `apply` or `drop` the layer.");
        Error::new(ErrorKind::StaleFile, message).at(shown).suggest(advice)
    }

    /// Sets the times of the files and folders, and removes old files that are not kept.
    fn finish(&self, engine: &Engine, planned: &LayerPlan) {
        planned.times.iter().for_each(|(path, stat)| set_times(&engine.workspace, path, stat));
        for id in &planned.dropped {
            // A later call removes the rest: no change refers to it.
            let _ = trash::purge(&self.0.state, id);
        }
    }

    /// Keeps the layer with the excluded paths, if there are any.
    fn keep_excluded(
        &mut self,
        engine: &mut Engine,
        excluded: &ExcludedPaths,
        difference: CommandDiff,
    ) -> Result<CommandDiff, Error> {
        if excluded.is_empty() {
            self.0.is_kept = false;
            return Ok(difference);
        }
        let kept = excluded
            .iter()
            .map(|(path, reason)| LayerConflict { path: path.clone(), reason: reason.clone() });
        self.0.keep_conflicts(kept.collect()).map_err(Error::applied)?;
        let conflicts = conflicts(&engine.workspace, &self.0.record);
        let name = self.0.name.clone();
        engine.warn(text!(
            "not applied: {}. The reasons are in `conflicts`. `layer` {} keeps the command's versions: it shows them, with `apply` it applies them, with `drop` it deletes them",
            conflict_paths(&conflicts),
            name
        ));
        Ok(CommandDiff { conflicts, layer: Some(name), ..difference })
    }
}

/// Returns the first paths that were not applied, and the number of the others.
fn conflict_paths(conflicts: &[Conflict]) -> String {
    let paths = conflicts.iter().map(|conflict| short_path(&conflict.path).into_owned());
    first_of(paths, conflicts.len(), CONFLICTS_NAMED)
}

/// Returns the paths of a layer that were not applied.
pub fn conflicts(workspace: &Workspace, record: &LayerRecord) -> Vec<Conflict> {
    let shown = |conflict: &LayerConflict| Conflict {
        path: workspace.display(&conflict.path),
        reason: conflict.reason.clone(),
    };
    record.conflicts.iter().map(shown).collect()
}

/// Returns true if a path is excluded or lies in an excluded folder.
fn is_excluded(path: &WorkspacePath, excluded: &ExcludedPaths) -> bool {
    !excluded.is_empty() && path.and_above().any(|it| excluded.contains_key(&it))
}

/// Returns true if a folder is empty.
fn is_empty(change: &Change<'_>, path: &WorkspacePath) -> bool {
    let folder = change.workspace().open_folder(path);
    folder.is_ok_and(|folder| fs::names_in(&folder).is_ok_and(|names| names.is_empty()))
}

/// Creates or removes an empty folder, outside the history. A failure does no harm.
fn make_quietly(workspace: &Workspace, differing: &Differing) {
    let path = &differing.path;
    let Ok(parent) = workspace.open_folder(&path.parent().unwrap_or_default()) else { return };
    let name = path.name().unwrap_or_default();
    match &differing.upper {
        Some(upper) => {
            let _ = make_folder(parent.as_fd(), name, fs::mode_of(upper));
        }
        None => {
            let _ = fs::unlink_at(&parent, name, AtFlags::REMOVEDIR);
        }
    }
}

/// Returns the part of a path that no change may touch, with the reason.
fn forbidden(engine: &Engine, path: &WorkspacePath) -> Option<(WorkspacePath, String)> {
    let mut part = WorkspacePath::root();
    for name in path.components() {
        part = part.join(name);
        if is_protected(name.as_bytes()) {
            let owner = if name.as_bytes().eq_ignore_ascii_case(b".lbx") { "lbx" } else { "git" };
            return Some((part, format!("belongs to {owner}: no command changes it")));
        }
    }
    engine
        .policy()
        .protects(&engine.workspace, path)
        .map(|why| (path.clone(), format!("is protected: {why}")))
}

/// Sets the times of a file or folder as the command left them.
fn set_times(workspace: &Workspace, path: &WorkspacePath, stat: &Stat) {
    if let Ok(folder) = workspace.open_folder(&path.parent().unwrap_or_default()) {
        // An undo does not restore times; if this fails, the file keeps its new time.
        let name = path.name().unwrap_or_default();
        let _ = rustix::fs::utimensat(&folder, name, &times_of(stat), AtFlags::SYMLINK_NOFOLLOW);
    }
}
