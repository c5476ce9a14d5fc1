//! One policy file: its bytes, and the refusals of what is wrong with it.

use std::fs::File;

use rustix::io::Errno;

use super::parse::{Fault, Position};
use crate::engine::workspace::fs;
use crate::error::Error;

/// The name of a policy file, below `.lbx/` and below `lbx/` in the configuration folder.
pub const NAME: &str = "config.toml";
/// Size of a policy file, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// The refusal of every call while a policy file is not as it should be: what it was meant to
/// forbid is not known.
pub(super) fn bad_file(shown: &str, fault: &Fault) -> Error {
    let (at, where_to) = match fault.place {
        Some(Position { line, column }) => {
            (format!("{shown}:{line}:{column}"), format!("line {line} of {shown}"))
        }
        None => (shown.to_owned(), shown.to_owned()),
    };
    let mut error = Error::invalid(format!("the policy file {at}: {}", fault.message))
        .at(shown)
        .suggest(format!(
            "Have {where_to} repaired by whoever keeps it: no tool writes it, and none works before, since the policy that was meant is not known. `lbx config` checks it."
        ))
        .detail("file", shown);
    if let Some(Position { line, column }) = fault.place {
        error = error.detail("line", line).detail("column", column);
    }
    match &fault.key {
        Some(key) => error.detail("key", key.clone()),
        None => error,
    }
}

/// The bytes of an opened file.
pub(super) fn read_opened(file: File, shown: &str) -> Result<Vec<u8>, Error> {
    let stat = rustix::fs::fstat(&file).map_err(|errno| unreadable(shown, errno))?;
    if !fs::is_regular(&stat) {
        return Err(no_regular_file(
            shown,
            if fs::is_folder(&stat) { "a folder" } else { "no regular file" },
        ));
    }
    fs::read_to_end(file, fs::size_of(&stat), FILE_BYTES_MAX).map_err(|source| {
        if source.raw_os_error() == Some(Errno::FBIG.raw_os_error()) {
            let message = format!("it has {} bytes, more than {FILE_BYTES_MAX}", fs::size_of(&stat));
            return bad_file(shown, &Fault { place: None, key: None, message });
        }
        unreadable(shown, source)
    })
}

/// The refusal of something else in the file's place.
pub(super) fn no_regular_file(shown: &str, what: &str) -> Error {
    bad_file(shown, &Fault { place: None, key: None, message: format!("it is {what}") })
}

/// The refusal where a file is there and cannot be read.
pub(super) fn unreadable(shown: &str, source: impl Into<std::io::Error>) -> Error {
    Error::io("read the policy file", shown, source).suggest(format!(
        "Have {shown} made readable by whoever keeps it: no tool works before, since the policy that was meant is not known."
    ))
}
