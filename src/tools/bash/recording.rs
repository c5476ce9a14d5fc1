//! How the changes of a command are recorded: applied from a layer when the command ends, or compared before
//! and after if it changes the files themselves.

use super::answer::Ran;
use super::changed::Conflict;
use super::changes::Before;
use super::difference::Difference;
use super::layered::{Applied, LayeredCommand, Manner};
use super::limits;
use super::request::{OnFailure, Request};
use crate::engine::Engine;
use crate::engine::sandbox::overlay::Layer;
use crate::engine::sandbox::plan::Reach;
use crate::engine::sandbox::repositories::ProtectedPaths;
use crate::error::{Error, ErrorKind};

/// How the changes of one command are recorded.
pub enum Recording {
    /// The command changes the files themselves; the reason, unless the request asked for that.
    Files(Box<Before>, Option<String>),
    /// It changes a layer.
    Layer(Box<LayeredCommand>, LayerFate),
    /// It cannot change anything, since lbx could not record it; the reason.
    ReadOnly(String),
}

/// What happens to a layer when its command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerFate {
    /// It is shown and dropped.
    Shown,
    /// It is applied, without its conflicts.
    Applied,
    /// It is applied as a whole, or fails.
    AppliedWhole,
    /// It is applied as a whole if the command succeeded.
    AppliedOnSuccess,
}

/// The recorded changes of a command.
#[derive(Default)]
pub struct Taken {
    /// The files that changed.
    pub difference: Difference,
    /// True if the changes were dropped.
    pub is_discarded: bool,
    /// The files that were not applied.
    pub conflicts: Vec<Conflict>,
    /// The layer that keeps them.
    pub layer: Option<String>,
    /// Reason why the command changed the files themselves.
    pub direct: Option<String>,
}

impl From<Applied> for Taken {
    fn from(Applied { difference, conflicts, layer }: Applied) -> Self {
        Self { difference, conflicts, layer, ..Self::default() }
    }
}

impl Recording {
    /// Creates a layer, or looks at the work tree for a command that changes the files themselves.
    ///
    /// # Errors
    /// `invalid_request` for a transaction without a layer, `lock_timeout`, `snapshot_failed`; nothing has run
    /// then.
    pub fn begin(
        engine: &mut Engine,
        request: &Request,
        takes_layer: Result<(), String>,
    ) -> Result<Self, Error> {
        if !request.is_transaction() {
            let reason = match takes_layer {
                Err(reason) => reason,
                Ok(()) => match LayeredCommand::begin(engine, request) {
                    Ok(layered) => return Ok(Self::Layer(Box::new(layered), LayerFate::Applied)),
                    Err(error) if error.kind() == ErrorKind::InvalidRequest => error.message().to_owned(),
                    Err(error) => return Self::read_only(error),
                },
            };
            return Self::direct(engine, reason);
        }
        engine.set_dry_run(request.dry_run);
        let fate = match request.on_failure {
            _ if request.dry_run => LayerFate::Shown,
            Some(OnFailure::Discard) => LayerFate::AppliedOnSuccess,
            Some(OnFailure::Keep) | None => LayerFate::AppliedWhole,
        };
        Ok(Self::Layer(Box::new(LayeredCommand::begin(engine, request)?), fate))
    }

    /// Looks at the work tree for a command that changes the files themselves; an empty reason is none.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn direct(engine: &mut Engine, reason: String) -> Result<Self, Error> {
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        match Before::look(engine) {
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

    /// Returns true if the command cannot change anything.
    pub const fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly(_))
    }

    /// Returns true if a command that cannot get its layer may change the files themselves.
    pub const fn may_go_direct(&self) -> bool {
        matches!(self, Self::Layer(_, LayerFate::Applied))
    }

    /// Returns the layer, for the sandbox.
    pub fn layer(&self) -> Option<Layer> {
        match self {
            Self::Files(..) | Self::ReadOnly(_) => None,
            Self::Layer(layered, _) => Some(layered.layer()),
        }
    }

    /// Returns what the command may not write.
    ///
    /// # Errors
    /// `command_denied` if the workspace cannot be searched.
    pub fn protected(&mut self, engine: &mut Engine) -> Result<ProtectedPaths, Error> {
        let known = match self {
            Self::Files(before, _) => before.take_protected(),
            Self::Layer(..) | Self::ReadOnly(_) => None,
        };
        known.map_or_else(|| limits::protected(engine, matches!(self, Self::Layer(..))), Ok)
    }

    /// Waits until changes get other times than what was seen.
    pub fn pass_a_moment(&self) {
        if let Self::Files(before, _) = self {
            before.pass_a_moment();
        }
    }

    /// Records what a command changed; `has_succeeded` is `None` if the command did not run to its end.
    ///
    /// # Errors
    /// `stale_file` for a transaction whose files others changed, `protected_path` for one that would touch
    /// a repository, `snapshot_failed`.
    pub fn take(
        self,
        engine: &mut Engine,
        request: &Request,
        reach: &Reach,
        has_succeeded: Option<bool>,
    ) -> Result<Taken, Error> {
        let (command, why) = (request.command.as_deref().unwrap_or_default(), request.why.as_deref());
        if let Self::Layer(layered, _) = &self {
            layered.tell_full(engine);
        }
        let discarded = |difference| Taken { difference, is_discarded: true, ..Taken::default() };
        match (self, has_succeeded) {
            // A cancelled command may have changed files.
            (Self::Files(before, direct), _) => {
                let difference = before.compare(engine, reach, (command, why))?;
                Ok(Taken { difference, direct, ..Taken::default() })
            }
            (Self::ReadOnly(why), _) => {
                engine.warn(format!("the command ran without write access to the workspace: {why}"));
                Ok(Taken { difference: Difference::none(), ..Taken::default() })
            }
            (Self::Layer(layered, LayerFate::Applied), _) => {
                // Nobody who cancels a command wants to lose what it did.
                let control = std::mem::take(&mut engine.control);
                let applied = layered.apply(engine, Manner::Partly);
                engine.control = control;
                Ok(applied?.into())
            }
            (Self::Layer(..), None) => Ok(discarded(Difference::default())),
            (Self::Layer(layered, LayerFate::AppliedWhole), Some(_))
            | (Self::Layer(layered, LayerFate::AppliedOnSuccess), Some(true)) => {
                Ok(layered.apply(engine, Manner::Whole)?.into())
            }
            (Self::Layer(layered, LayerFate::Shown), Some(_)) => Ok(discarded(layered.try_out(engine)?)),
            (Self::Layer(layered, _), Some(_)) => Ok(discarded(layered.look(engine)?)),
        }
    }
}

/// Adds to an error how the command ended: it has run, and nobody sees its answer.
pub fn with_output(error: Error, ran: &Ran) -> Error {
    error
        .detail("stdout", ran.stdout.clone())
        .detail("stderr", ran.stderr.clone())
        .detail("exit_code", ran.exit_code)
}
