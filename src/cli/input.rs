//! What comes in: stdin and files of requests.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::error::Error;
use crate::request::REQUEST_BYTES_MAX;

/// What stands on stdin.
pub enum Input {
    /// Nothing: a terminal, `/dev/null`, or a closed descriptor.
    None,
    /// A text, which may be empty.
    Text(Vec<u8>),
}

/// Reads all of stdin, where there is anything that could be read.
///
/// # Errors
/// `invalid_request` above 256 MiB, or the system's.
pub fn read_stdin() -> Result<Input, Error> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() || is_null(&stdin) {
        return Ok(Input::None);
    }
    let mut text = Vec::new();
    match stdin.lock().take(REQUEST_BYTES_MAX + 1).read_to_end(&mut text) {
        Ok(_) if text.len() as u64 > REQUEST_BYTES_MAX => {
            Err(Error::invalid(format!("the text on stdin is longer than {REQUEST_BYTES_MAX} bytes")))
        }
        Ok(_) => Ok(Input::Text(text)),
        Err(source) => Err(Error::io("read", "stdin", source)),
    }
}

/// Whether stdin is a device such as `/dev/null`, or is closed.
fn is_null(stdin: &std::io::Stdin) -> bool {
    rustix::fs::fstat(stdin)
        .map_or(true, |stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
}

/// The text of `--json`: itself, stdin for `-`, a file for `@FILE`.
///
/// # Errors
/// `invalid_request` or the system's.
pub fn json_argument(argument: &OsStr) -> Result<Vec<u8>, Error> {
    let bytes = argument.as_bytes();
    if bytes == b"-" {
        return match read_stdin()? {
            Input::None => Err(Error::invalid("--json - reads the request from stdin, but stdin is empty")),
            Input::Text(text) => Ok(text),
        };
    }
    match bytes.strip_prefix(b"@") {
        Some(path) => text_in_file(Path::new(OsStr::from_bytes(path))),
        None => Ok(bytes.to_vec()),
    }
}

/// The text of a flag: itself, or that of a file, which is returned too, for `@FILE`; `@@` is a plain `@` at the
/// start.
///
/// A text of several lines is never the name of a file: a patch may begin with `@@`, code with `@`.
///
/// # Errors
/// `invalid_request` or the system's.
pub fn text_argument(argument: &OsStr) -> Result<(OsString, Option<PathBuf>), Error> {
    let bytes = argument.as_bytes();
    let Some(name) = bytes.strip_prefix(b"@").filter(|name| !name.contains(&b'\n')) else {
        return Ok((argument.to_owned(), None));
    };
    if name.starts_with(b"@") || name.is_empty() {
        let text = if name.is_empty() { bytes } else { name };
        return Ok((OsStr::from_bytes(text).to_owned(), None));
    }
    let path = Path::new(OsStr::from_bytes(name));
    let text = text_in_file(path).map_err(|error| {
        let shown = path.display();
        error.suggest(format!("Name a file that exists; `@@{shown}` is the text `@{shown}` itself."))
    })?;
    Ok((OsString::from_vec(text), Some(path.to_owned())))
}

/// Reads a text from a file that the user names on the command line.
///
/// # Errors
/// `invalid_request` above 256 MiB, or the system's.
#[expect(clippy::disallowed_methods, reason = "the file that the user names on the command line")]
pub fn text_in_file(path: &Path) -> Result<Vec<u8>, Error> {
    let shown = path.display().to_string();
    let file = std::fs::File::open(path).map_err(|source| Error::io("read", shown.clone(), source))?;
    let mut text = Vec::new();
    let read = file.take(REQUEST_BYTES_MAX + 1).read_to_end(&mut text);
    read.map_err(|source| Error::io("read", shown.clone(), source))?;
    if text.len() as u64 > REQUEST_BYTES_MAX {
        return Err(Error::invalid(format!("{shown} is longer than {REQUEST_BYTES_MAX} bytes")));
    }
    Ok(text)
}
