//! Names that no other call uses.

use std::sync::atomic::{AtomicU64, Ordering};

/// A name that no other call uses: the process, a counter and the clock.
#[must_use]
pub fn unique_name(prefix: &str) -> String {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() & 0xffff_ffff_ffff);
    let count = NAMES.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{nanos:012x}-{:x}-{count:x}", crate::engine::workspace::fs::process_id())
}

/// Whether a name is one that [`unique_name`] makes, after its prefix.
#[must_use]
pub fn is_unique(name: &str) -> bool {
    let is_hex = |part: &str| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (1..=16).contains(&part.len()) && part.bytes().all(is_digit)
    };
    let parts: Vec<&str> = name.split('-').collect();
    parts.len() == 3
        && parts.iter().all(|part| is_hex(part))
        && parts.first().is_some_and(|nanos| nanos.len() == 12)
}
