//! A call that was made.

use crate::engine::CallNotes;
use crate::engine::store::calls::CallTally;
use crate::error::Error;
use crate::tools::Answered;

/// A call that was made.
pub struct Called {
    /// The answer or the refusal.
    pub answered: Answered,
    /// Warnings and snapshot.
    pub outcome: CallNotes,
    /// Counts the call once its answer is out.
    pub tally: Option<CallTally>,
}

impl Called {
    /// A call that was refused before it began.
    #[must_use]
    pub fn refused(error: Error) -> Self {
        Self { answered: Err(error), outcome: CallNotes::default(), tally: None }
    }
}
