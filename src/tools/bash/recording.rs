//! How the changes of a command are taken in: made by the command itself, between two scans, or made
//! by lbx from a layer once the command has ended.

use super::answer::Ran;
use super::changes::Before;
use super::difference::Difference;
use super::limits;
use super::request::{OnFailure, Request};
use super::transaction::Transaction;
use crate::engine::Engine;
use crate::engine::sandbox::overlay::Layer;
use crate::engine::sandbox::plan::Reach;
use crate::engine::sandbox::repositories::ProtectedPaths;
use crate::error::{Error, ErrorKind};

/// How the changes of one command are taken in.
pub enum Recording {
    /// The command changes the files themselves.
    Files(Box<Before>),
    /// It changes a layer.
    Layer(Box<Transaction>, LayerFate),
    /// It can change nothing, since lbx could not record it: why.
    ReadOnly(String),
}

/// What becomes of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerFate {
    /// It is shown and thrown away.
    Shown,
    /// It becomes a change.
    Applied,
    /// It becomes a change where the command succeeded.
    AppliedOnSuccess,
}

/// What was taken in.
pub struct Taken {
    /// What the command changed.
    pub difference: Difference,
    /// Whether its changes were thrown away.
    pub is_discarded: bool,
}

impl Recording {
    /// Looks at the work tree, or makes a layer, as the request says.
    ///
    /// # Errors
    /// `invalid_request` where there can be no layer, `lock_timeout`, `snapshot_failed`; nothing has run
    /// then.
    pub fn begin(engine: &mut Engine, request: &Request) -> Result<Self, Error> {
        if !request.is_transaction() {
            return match Before::look(engine) {
                Ok(before) => Ok(Self::Files(Box::new(before))),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    Ok(Self::ReadOnly(error.message().to_owned()))
                }
                Err(error) => Err(error),
            };
        }
        engine.set_dry_run(request.dry_run);
        let outcome = match request.on_failure {
            _ if request.dry_run => LayerFate::Shown,
            Some(OnFailure::Discard) => LayerFate::AppliedOnSuccess,
            Some(OnFailure::Keep) | None => LayerFate::Applied,
        };
        Ok(Self::Layer(Box::new(Transaction::begin(engine)?), outcome))
    }

    /// Whether the command can change nothing.
    pub const fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly(_))
    }

    /// The layer, for the sandbox.
    pub fn layer(&self) -> Option<Layer> {
        match self {
            Self::Files(_) | Self::ReadOnly(_) => None,
            Self::Layer(transaction, _) => Some(transaction.layer()),
        }
    }

    /// What a command may not write.
    ///
    /// # Errors
    /// `command_denied` if the workspace cannot be searched.
    pub fn protected(&mut self, engine: &mut Engine) -> Result<ProtectedPaths, Error> {
        let known = match self {
            Self::Files(before) => before.take_protected(),
            Self::Layer(..) | Self::ReadOnly(_) => None,
        };
        known.map_or_else(|| limits::protected(engine, matches!(self, Self::Layer(..))), Ok)
    }

    /// Waits until what the command changes has other times than what was seen.
    pub fn pass_a_moment(&self) {
        if let Self::Files(before) = self {
            before.pass_a_moment();
        }
    }

    /// Takes in what a command with this reach changed that ended well where `has_succeeded`; `None` for
    /// one that did not come to its end.
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
        if let Self::Layer(transaction, _) = &self {
            transaction.tell_full(engine);
        }
        let (difference, is_discarded) = match (self, has_succeeded) {
            // What was cancelled may have changed files all the same.
            (Self::Files(before), _) => (before.compare(engine, reach, (command, why))?, false),
            (Self::ReadOnly(why), _) => {
                engine.warn(format!("the command ran without write access to the workspace: {why}"));
                (Difference::none(), false)
            }
            (Self::Layer(..), None) => (Difference::default(), true),
            (Self::Layer(transaction, LayerFate::Applied), Some(_))
            | (Self::Layer(transaction, LayerFate::AppliedOnSuccess), Some(true)) => {
                (transaction.apply(engine, command, why)?, false)
            }
            (Self::Layer(transaction, LayerFate::Shown), Some(_)) => (transaction.try_out(engine)?, true),
            (Self::Layer(transaction, _), Some(_)) => (transaction.look(engine)?, true),
        };
        Ok(Taken { difference, is_discarded })
    }
}

/// Adds to an error how the command ended: it has run, and nobody sees its answer.
pub fn with_output(error: Error, ran: &Ran) -> Error {
    error
        .detail("stdout", ran.stdout.clone())
        .detail("stderr", ran.stderr.clone())
        .detail("exit_code", ran.exit_code)
}
