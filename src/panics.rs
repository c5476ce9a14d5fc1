//! A panic as an answer: whatever goes wrong inside lbx, the caller gets an error.

use std::any::Any;

use crate::error::Error;

/// Turns a panic into an answer.
///
/// # Errors
/// Those of `run`, and `internal` where it panics.
pub fn without_panic<T>(run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(error_of(panic.as_ref())))
}

/// The error for a panic.
#[must_use]
pub fn error_of(panic: &(dyn Any + Send)) -> Error {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::internal(format!("internal error: {}", text.unwrap_or("panic without a message")))
}
