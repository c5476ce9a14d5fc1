//! Input: stdin and files with requests.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, IsTerminal, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use serde_json::{Map, Value};

use super::output::{self, BlockingWriter};
use crate::app::Call;
use crate::app::options::Options;
use crate::app::remote::CallResult;
use crate::catalog::{find, unknown_tool};
use crate::envelope::ResponseFrame;
use crate::error::{Error, Message};
use crate::request::{self, REQUEST_BYTES_MAX};

/// Content of stdin.
pub enum Input {
    /// No input: a terminal, `/dev/null`, or a closed descriptor.
    None,
    /// Text, which may be empty.
    Text(Vec<u8>),
}

/// Reads all of stdin, if there is anything to read.
///
/// # Errors
/// Returns `invalid_request` above 256 MiB, or the OS error.
pub fn read_stdin() -> Result<Input, Error> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() || is_null(&stdin) {
        return Ok(Input::None);
    }
    let mut text = Vec::new();
    match BlockingWriter(stdin.lock()).take(REQUEST_BYTES_MAX + 1).read_to_end(&mut text) {
        Ok(_) if text.len() as u64 > REQUEST_BYTES_MAX => {
            Err(Error::invalid(format!("the text on stdin is longer than {REQUEST_BYTES_MAX} bytes")))
        }
        Ok(_) => Ok(Input::Text(text)),
        Err(source) => Err(Error::io("read", "stdin", source)),
    }
}

/// Returns true if stdin is a device such as `/dev/null`, or is closed.
fn is_null(stdin: &std::io::Stdin) -> bool {
    rustix::fs::fstat(stdin)
        .map_or(true, |stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
}

/// Returns the text for `--json`: the argument itself, stdin for `-`, or a file for `@FILE`.
///
/// # Errors
/// Returns `invalid_request` or the OS error.
pub fn json_argument(argument: &OsStr) -> Result<Vec<u8>, Error> {
    let bytes = argument.as_bytes();
    if bytes == b"-" {
        return match read_stdin()? {
            Input::None => Err(Error::invalid("--json - reads the request from stdin, but stdin is empty")),
            Input::Text(text) => Ok(text),
        };
    }
    file_of(argument).map_or_else(|| Ok(bytes.to_vec()), |file| text_in_file(&file))
}

/// Returns the file that a `--json` argument names.
pub fn file_of(argument: &OsStr) -> Option<PathBuf> {
    argument.as_bytes().strip_prefix(b"@").map(|path| PathBuf::from(OsStr::from_bytes(path)))
}

/// Returns the text of a flag and, for `@FILE`, the file that it was read from. `@@` at the start is a literal `@`.
///
/// A text of several lines is never a file name: a patch may begin with `@@`, and code with `@`.
///
/// # Errors
/// Returns `invalid_request` or the OS error.
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

/// Reads a text from a file that the user named on the command line.
///
/// # Errors
/// Returns `invalid_request` above 256 MiB, or the OS error.
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

/// Runs every line of stdin; returns 0, or the status of the first failure.
pub fn run(options: &Options) -> u8 {
    let options = &options.clone().for_many_calls();
    let mut stdin = BufReader::new(BlockingWriter(std::io::stdin().lock()));
    let mut first_failure = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        match stdin.by_ref().take(REQUEST_BYTES_MAX + 1).read_until(b'\n', &mut line) {
            Ok(0) => return first_failure,
            Ok(_) if line.trim_ascii().is_empty() => {}
            Ok(_) => {
                let is_cut = line.len() as u64 > REQUEST_BYTES_MAX && line.last() != Some(&b'\n');
                // What follows is part of this line, not another request.
                if is_cut && let Err(source) = stdin.skip_until(b'\n') {
                    return output::refuse("batch", options, &Error::io("read", "stdin", source));
                }
                let line = if is_cut { BatchLine::too_long() } else { BatchLine::parse(&line) };
                let status = answer_line(line, options);
                first_failure = if first_failure == 0 { status } else { first_failure };
            }
            Err(source) => return output::refuse("batch", options, &Error::io("read", "stdin", source)),
        }
    }
}

/// Runs one line; returns its status.
fn answer_line(BatchLine { id, call }: BatchLine, options: &Options) -> u8 {
    let (tool, called) = match call {
        Ok((tool, request)) => match find(&tool) {
            Some(tool) => (tool.name.to_owned(), Call::make(tool, request, options)),
            None => (request::quoted(&tool).into_owned(), CallResult::refused(unknown_tool(&tool))),
        },
        Err(error) => ("batch".to_owned(), CallResult::refused(error)),
    };
    let CallResult { answered, outcome, delivery } = called;
    let frame = ResponseFrame { tool: &tool, id: id.as_ref(), outcome: &outcome, pretty: false };
    let status = match answered.and_then(|reply| output::print_reply(reply.as_ref(), &frame)) {
        Ok(printed) => printed,
        Err(error) => {
            let printed = output::print_line(&frame.failure(&error));
            output::first_of(error.kind().exit_code(), printed)
        }
    };
    output::end_calls(delivery);
    status
}

/// One line of a batch.
struct BatchLine {
    /// Caller's ID for the line, if it can be found: the response has it even if the rest of the line is invalid.
    id: Option<Value>,
    /// Name and request of the tool.
    call: Result<(String, Value), Error>,
}

impl BatchLine {
    /// Returns a line with more bytes than a request may have.
    fn too_long() -> Self {
        Self {
            id: None,
            call: Err(refused(format!("a line of a batch has at most {REQUEST_BYTES_MAX} bytes"))),
        }
    }

    /// Parses a line.
    fn parse(line: &[u8]) -> Self {
        match request::read_json(line) {
            Ok(Value::Object(mut object)) => Self { id: object.remove("id"), call: call_in(object) },
            Ok(_) => Self { id: None, call: Err(refused("a line of a batch must be a JSON object")) },
            Err(error) => Self { id: id_in(line), call: Err(error.suggest(FORM)) },
        }
    }
}

/// Format of a line.
const FORM: &str = "Send {\"tool\":\"read\",\"request\":{\"path\":\"…\"},\"id\":1}, one a line.";

/// Returns the error for a line.
fn refused(message: impl Into<Message>) -> Error {
    Error::invalid(message).suggest(FORM)
}

/// Returns the ID of a line that has a duplicate key, so that the error still has this ID.
fn id_in(line: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Value>(line).ok()?.as_object_mut()?.remove("id")
}

/// Returns tool and request of a line, whose ID is already removed.
fn call_in(mut object: Map<String, Value>) -> Result<(String, Value), Error> {
    let tool = object.remove("tool");
    let request = object.remove("request").unwrap_or_else(|| Value::Object(Map::new()));
    if let Some(unknown) = object.keys().next() {
        return Err(refused(format!(
            "unknown field `{}` (accepted: tool, request, id)",
            request::quoted(unknown)
        )));
    }
    match tool {
        Some(Value::String(tool)) => Ok((tool, request)),
        Some(_) => Err(refused("field `tool`: expected a text")),
        None => Err(refused("field `tool` is missing")),
    }
}
