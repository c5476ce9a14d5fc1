//! No confinement at all, for users whose policy allows it: all that it does is to end every process
//! with the command.

use std::process::Command;

use super::backend::{Backend, NONE, SELF, part};
use super::plan::Reach;

/// The backend.
pub struct Unconfined;

impl Backend for Unconfined {
    fn name(&self) -> &'static str {
        NONE
    }

    fn about(&self) -> &'static str {
        "no confinement: the command can do whatever its user can; only by the user's own policy"
    }

    fn command(&self, _reach: &Reach) -> Result<Command, String> {
        Ok(part(SELF, "unconfined"))
    }
}
