//! How the changes of a command are recorded: applied from a layer at its end, or compared before and after if it
//! changes the files themselves.
//!
//! Also: layers that were kept after their commands, which are shown, applied or dropped, and files that the session
//! has read and that a command changed.

use std::os::fd::OwnedFd;

use rustix::fs::Stat;

use super::confinement;
use super::direct::TreeBefore;
use super::layered::{self, ApplyMode, LayeredCommand};
use super::request::{OnFailure, Request};
use super::response::{CommandDiff, Layer};
use crate::engine::Engine;
use crate::engine::sandbox::layer;
use crate::engine::sandbox::plan::{self, Access};
use crate::engine::sandbox::repositories::{ProtectedPaths, SearchDepth};
use crate::engine::store::session;
use crate::engine::store::state::State;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind, text};
use crate::limits::READ_AGAIN_BYTES_MAX;
use crate::sha256::Sha256;
use crate::text::answer_size::AnswerRoom;
use crate::tools::common::reject_if;

/// How the changes of one command are recorded.
pub enum Recording {
    /// The command changes the files themselves; the reason, unless the request asked for that.
    Files(Box<TreeBefore>, Option<String>),
    /// The command changes a layer.
    Layer(Box<LayeredCommand>, ApplyMode),
    /// The command cannot change anything, since lbx could not record it; the reason.
    ReadOnly(String),
}

impl Recording {
    /// Creates a layer, or surveys the work tree for a command that changes the files themselves.
    ///
    /// # Errors
    /// Fails with `invalid_request` for a transaction without a layer, with `lock_timeout`, or with `snapshot_failed`;
    /// the command has not run then.
    pub fn begin(
        engine: &mut Engine,
        request: &Request,
        takes_layer: Result<(), String>,
    ) -> Result<Self, Error> {
        if !request.is_transaction() {
            let reason = match takes_layer {
                Err(reason) => reason,
                Ok(()) => match LayeredCommand::begin(engine, request) {
                    Ok(layered) => return Ok(Self::Layer(Box::new(layered), ApplyMode::Partly)),
                    Err(error) if error.kind() == ErrorKind::InvalidRequest => error.message().to_owned(),
                    Err(error) => return Self::read_only(error),
                },
            };
            return Self::direct(engine, request, reason);
        }
        engine.set_dry_run(request.dry_run);
        let fate = match request.on_failure {
            _ if request.dry_run => ApplyMode::Shown,
            Some(OnFailure::Discard) => ApplyMode::WholeOnSuccess,
            Some(OnFailure::Keep) | None => ApplyMode::Whole,
        };
        Ok(Self::Layer(Box::new(LayeredCommand::begin(engine, request)?), fate))
    }

    /// Surveys the work tree for a command that changes the files themselves; an empty reason counts as no reason.
    ///
    /// # Errors
    /// Fails as [`Self::begin`] does.
    pub fn direct(engine: &mut Engine, request: &Request, reason: String) -> Result<Self, Error> {
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        match TreeBefore::record_foreign_changes(engine, message_of(request)) {
            Ok(before) => Ok(Self::Files(Box::new(before), reason)),
            Err(error) => Self::read_only(error),
        }
    }

    /// Lets the command run without write access, if the state cannot be written.
    fn read_only(error: Error) -> Result<Self, Error> {
        if error.kind() == ErrorKind::PermissionDenied {
            Ok(Self::ReadOnly(error.message().to_owned()))
        } else {
            Err(error)
        }
    }

    /// Returns the paths that the command may not write, its layer, and true if it cannot change anything.
    ///
    /// # Errors
    /// Fails with `command_denied` if the workspace cannot be searched.
    pub fn for_plan(
        &mut self,
        engine: &mut Engine,
    ) -> Result<(ProtectedPaths, Option<plan::Layer>, bool), Error> {
        Ok(match self {
            Self::Files(before, _) => (std::mem::take(&mut before.protected), None, false),
            Self::Layer(layered, _) => {
                (confinement::protected_below_layer(engine)?, Some(layered.0.layer(&engine.workspace)), false)
            }
            Self::ReadOnly(_) => {
                (confinement::find_protected(engine, SearchDepth::ForRepositories)?.0, None, true)
            }
        })
    }

    /// Waits until a write gets a later time than the survey.
    pub fn wait_for_clock_tick(&self) {
        if let Self::Files(before, _) = self {
            before.wait_for_clock_tick();
        }
    }

    /// Notes the files that the session has read: of those that git ignores, no snapshot knows that they were there.
    pub fn note_read(&mut self, ReadMarks(read): &ReadMarks) {
        if let Self::Layer(layered, _) = self {
            layered.0.known.extend(read.iter().map(|(path, ..)| path.clone()));
        }
    }

    /// Records what a command changed; `has_succeeded` is `None` if the command did not run to its end. Returns the
    /// layer as well, to be dropped when no process of the command is left.
    ///
    /// The result fails with `stale_file` for a transaction whose files others changed, with `protected_path` for one
    /// that would touch a repository, or with `snapshot_failed`.
    pub fn record_changes(
        self,
        engine: &mut Engine,
        request: &Request,
        reach: &Access,
        has_succeeded: Option<bool>,
    ) -> (Result<CommandDiff, Error>, Option<Box<LayeredCommand>>) {
        match self {
            // A cancelled command may have changed files.
            Self::Files(before, direct) => {
                let compared = before.compare(engine, reach, message_of(request));
                (compared.map(|difference| CommandDiff { direct, ..difference }), None)
            }
            Self::ReadOnly(why) => {
                engine.warn(format!("the command ran without write access to the workspace: {why}"));
                (Ok(CommandDiff::none()), None)
            }
            Self::Layer(mut layered, manner) => {
                layered.warn_of_full_layer(engine);
                let taken = take_layer(engine, &mut layered, manner, has_succeeded);
                layered.0.release();
                (taken, Some(layered))
            }
        }
    }
}

/// Returns the command of a request, with the caller's reason.
fn message_of(request: &Request) -> (&str, Option<&str>) {
    (request.command.as_deref().unwrap_or_default(), request.why.as_deref())
}

/// Applies, shows or discards the layer of a command.
fn take_layer(
    engine: &mut Engine,
    layered: &mut LayeredCommand,
    manner: ApplyMode,
    has_succeeded: Option<bool>,
) -> Result<CommandDiff, Error> {
    let discarded = |difference| CommandDiff { discarded: true, ..difference };
    match (manner, has_succeeded) {
        (ApplyMode::Partly, _) => {
            // A cancel must not lose the changes that the command made.
            let control = std::mem::take(&mut engine.control);
            let applied = layered.apply(engine, ApplyMode::Partly);
            engine.control = control;
            applied
        }
        (_, None) => Ok(discarded(CommandDiff::default())),
        (ApplyMode::Shown, Some(_)) => Ok(discarded(layered.try_out(engine)?)),
        (ApplyMode::WholeOnSuccess, Some(false)) => Ok(discarded(layered.find_changes(engine)?)),
        (_, Some(_)) => layered.apply(engine, ApplyMode::Whole),
    }
}

/// Characters of a command in a response.
const COMMAND_CHARACTERS_MAX: usize = 400;

/// Shows, applies or drops a layer.
///
/// # Errors
/// Fails with `not_found` if the layer does not exist, with `invalid_request` if both `apply` and `drop` are given, and
/// as any change does.
pub fn handle_layer(engine: &mut Engine, name: &str, request: &Request) -> Result<Layer, Error> {
    reject_if(request.apply && request.drop, "drop", "give `apply` or `drop`, not both")?;
    reject_if(request.command.is_some(), "command", "`layer` runs no command: leave out `command`")?;
    engine.set_dry_run(request.dry_run);
    let mut layered = LayeredCommand::open(engine, name)?;
    let mut response = response(engine, name, &layered.0.record);
    let bytes_max = request.max_bytes.unwrap_or_else(|| engine.policy().max_bytes());
    let has_conflicts = !layered.0.record.conflicts.is_empty();
    if request.drop {
        layered.0.is_kept &= request.dry_run;
        response.dropped = true;
        response.conflicts.clear();
    } else if request.apply && !request.dry_run {
        // The caller has seen the conflicts, and wants the command's versions.
        let manner = if has_conflicts { ApplyMode::Over } else { ApplyMode::Partly };
        let mut difference = layered.apply(engine, manner)?;
        response.applied = true;
        response.conflicts = std::mem::take(&mut difference.conflicts);
        set_changed(&mut response, difference, bytes_max);
    } else {
        let shown_at = (has_conflicts && !request.dry_run).then(|| layered.0.moment());
        let difference = layered.find_changes(engine)?;
        set_changed(&mut response, difference, bytes_max / 2);
        let (diff, is_whole) = layered.diff(engine, bytes_max / 2)?;
        response.diff = diff;
        response.applied = request.apply;
        match shown_at {
            Some(_) if !is_whole => {
                engine.warn("the diff is cut, so `apply` refuses files that others changed since the layer was kept or shown whole. A larger `max_bytes` shows more");
            }
            Some(moment) => {
                if let Err(error) = moment.and_then(|moment| layered.0.note_shown(moment)) {
                    engine.warn(text!("cannot note that the layer was shown, so `apply` refuses files that others changed since: {}", error.message()));
                }
            }
            None => {}
        }
    }
    Ok(response)
}

/// Returns all layers that were kept after their commands.
///
/// # Errors
/// Returns the OS error.
pub fn list_layers(engine: &Engine) -> Result<Vec<Layer>, Error> {
    let Some(state) = State::find(&engine.workspace)? else { return Ok(Vec::new()) };
    let kept = layer::kept_layers(&state)?;
    let shown = |layer: layer::KeptLayer| response(engine, &layer.name, &layer.record);
    Ok(kept.into_iter().map(shown).collect())
}

/// Returns a response with the facts about a layer.
fn response(engine: &Engine, name: &str, record: &layer::LayerRecord) -> Layer {
    Layer {
        layer: name.to_owned(),
        command: record.command.chars().take(COMMAND_CHARACTERS_MAX).collect(),
        session: record.session.clone(),
        conflicts: layered::conflicts(&engine.workspace, record),
        ..Layer::default()
    }
}

/// Puts the changed files into a response, as many as fit.
fn set_changed(response: &mut Layer, mut difference: CommandDiff, bytes_max: usize) {
    difference.shorten(AnswerRoom::new(bytes_max));
    response.changed_total = difference.changed_total;
    response.changed = Some(difference.changed.unwrap_or_default());
}

/// Largest number of files that are read again, since each costs its size.
const READ_MAX: usize = 10_000;

/// Files that the session had read before the command ran: SHA-256 of the bytes that were read, and metadata.
pub struct ReadMarks(Vec<(WorkspacePath, Sha256, Stat)>);

impl ReadMarks {
    /// Returns the files that the session has read and that still exist.
    ///
    /// # Errors
    /// Fails if the state cannot be read.
    pub fn of_session(engine: &mut Engine) -> Result<Self, Error> {
        let Some(state) = State::find(&engine.workspace)? else { return Ok(Self(Vec::new())) };
        let (session, warning) = session::load(&state, engine.session())?;
        engine.warn_if(warning);
        let marked = |mark: &session::ReadRecord| {
            Some((mark.path.clone(), mark.sha256, read_metadata(engine, &mark.path)?.1))
        };
        Ok(Self(session.marks().iter().filter_map(marked).collect()))
    }

    /// Returns the files that have changed, as responses show them.
    pub fn stale(&self, engine: &Engine) -> Vec<String> {
        let is_stale =
            |(path, sha256, stat): &&(WorkspacePath, Sha256, Stat)| match read_metadata(engine, path) {
                None => true,
                Some((file, now)) => {
                    !fs::is_unchanged(stat, &now)
                        && fs::read_to_end(std::fs::File::from(file), fs::size_of(&now), READ_AGAIN_BYTES_MAX)
                            .map_or(true, |bytes| Sha256::of(&bytes) != *sha256)
                }
            };
        let stale = self.0.iter().filter(is_stale).take(READ_MAX);
        stale.map(|(path, ..)| engine.workspace.display(path)).collect()
    }
}

/// Opens a file that was read, and returns its metadata; `None` if it is not a file any more.
fn read_metadata(engine: &Engine, path: &WorkspacePath) -> Option<(OwnedFd, Stat)> {
    let file = fs::open_beneath(engine.workspace.root_fd(), path, fs::READ).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    fs::is_regular(&stat).then_some((file, stat))
}
