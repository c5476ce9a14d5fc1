//! Whether a process that was started can be waited for.

use std::sync::Once;

use rustix::fs::CWD;

use super::fs;

/// What the system tells of this process.
const STATUS: &str = "/proc/self/status";
/// Most bytes that are read of it.
const STATUS_BYTES_MAX: u64 = 64 << 10;
/// The line with the signals that are ignored, as a mask in hex.
const IGNORED: &str = "SigIgn:";

/// Sees to it that processes started from now on can be waited for.
///
/// A caller that ignores `SIGCHLD` hands that down, and the system then forgets each process as it ends: its
/// status is lost, and whoever waits for one waits for all. A handler, even an empty one, ends that, and no
/// program that is started inherits it.
pub fn can_be_awaited() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if is_ignored() {
            // Where it cannot be set, nothing is worse than before.
            let _ = signal_hook::flag::register(signal_hook::consts::SIGCHLD, std::sync::Arc::default());
        }
    });
}

/// Whether this process ignores the end of its children.
fn is_ignored() -> bool {
    let status = fs::read_at(CWD, STATUS.as_ref(), STATUS_BYTES_MAX).ok().flatten().unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix(IGNORED));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal_hook::consts::SIGCHLD - 1)) != 0
}
