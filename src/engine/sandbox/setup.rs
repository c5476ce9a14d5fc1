//! Results of the steps that set up a sandbox, and the kernel's list of mounts.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Result of a step; the error is text for the response.
pub type SetupResult<T> = Result<T, String>;

/// Adds the name of the failed step to an error.
pub fn doing<T, E: Display>(result: Result<T, E>, what: impl Display) -> SetupResult<T> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// Returns the mounts of this namespace: id and mount point.
#[expect(clippy::disallowed_methods, reason = "/proc")]
pub(super) fn mount_points() -> SetupResult<Vec<(u64, PathBuf)>> {
    let mounts = doing(fs::read("/proc/self/mountinfo"), "cannot list the mounts")?;
    let parsed = mounts.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
        let mut fields = line.split(|&byte| byte == b' ');
        let id = fields.next().and_then(|id| std::str::from_utf8(id).ok()?.parse::<u64>().ok());
        let (id, point) = id.zip(fields.nth(3))?;
        Some((id, PathBuf::from(OsStr::from_bytes(&unescaped(point)))))
    });
    parsed.collect::<Option<_>>().ok_or_else(|| "the list of mounts has an unknown form".to_owned())
}

/// Decodes the escapes of a path in the list of mounts.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let escape = tail
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        path.push(escape.unwrap_or(byte));
        rest = if escape.is_some() { tail.get(3..).unwrap_or_default() } else { tail };
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_the_list_of_mounts_are_undone() {
        for (field, path) in [
            ("/a\\040b", "/a b"),
            ("/x\\134y", "/x\\y"),
            ("/a\\0", "/a\\0"),
            ("/\\011\\012", "/\t\n"),
            ("", ""),
        ] {
            assert_eq!(unescaped(field.as_bytes()), path.as_bytes(), "{field}");
        }
    }
}
