//! The time, as records of lbx have it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; 0 where the clock says an earlier time.
#[must_use]
pub fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
