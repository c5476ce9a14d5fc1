//! What a step of setting a sandbox up comes to.

use std::fmt::Display;

/// What could not be done, for the answer.
pub type SetupResult<T> = Result<T, String>;

/// Says what failed.
pub fn doing<T, E: Display>(result: Result<T, E>, what: impl Display) -> SetupResult<T> {
    result.map_err(|error| format!("{what}: {error}"))
}
