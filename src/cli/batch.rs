//! `batch`: many requests in one process, a line each.

use std::io::{BufRead, Read};

use serde_json::{Map, Value};

use super::output;
use crate::app::call::Call;
use crate::app::called::Called;
use crate::app::options::Options;
use crate::catalog::{find, unknown_tool};
use crate::envelope::Frame;
use crate::error::Error;
use crate::request::{self, REQUEST_BYTES_MAX};

/// Answers every line of stdin; answers 0, or the status of the first failure.
#[must_use]
pub fn run(options: &Options) -> u8 {
    let options = &options.clone().for_many_calls();
    let mut stdin = std::io::stdin().lock();
    let mut first_failure = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        match stdin.by_ref().take(REQUEST_BYTES_MAX + 1).read_until(b'\n', &mut line) {
            Ok(0) => return first_failure,
            Ok(_) if line.trim_ascii().is_empty() => {}
            Ok(_) => {
                let status = answer_line(&line, options);
                first_failure = if first_failure == 0 { status } else { first_failure };
            }
            Err(source) => return output::refuse("batch", options, &Error::io("read", "stdin", source)),
        }
    }
}

/// Answers one line; answers its status.
fn answer_line(line: &[u8], options: &Options) -> u8 {
    let Line { id, call } = Line::parse(line);
    let (tool, called) = match call {
        Ok((tool, request)) => match find(&tool) {
            Some(tool) => (tool.name.to_owned(), Call::make(tool, request, options)),
            None => (request::quoted(&tool).into_owned(), Called::refused(unknown_tool(&tool))),
        },
        Err(error) => ("batch".to_owned(), Called::refused(error)),
    };
    let Called { answered, outcome, tally } = called;
    let frame = Frame { tool: &tool, id: id.as_ref(), outcome: &outcome, pretty: false };
    let status = match answered.and_then(|reply| output::print_reply(reply.as_ref(), &frame)) {
        Ok(printed) => printed,
        Err(error) => {
            let printed = output::print_line(&frame.failure(&error));
            output::first_of(error.kind().exit_code(), printed)
        }
    };
    let bytes = output::take_printed();
    if let Some(tally) = tally {
        tally.close(bytes);
    }
    status
}

/// One line of a batch.
struct Line {
    /// The caller's own name for it, wherever it can be seen: a line is answered under it whatever else is
    /// wrong.
    id: Option<Value>,
    /// The tool's name and its request.
    call: Result<(String, Value), Error>,
}

impl Line {
    /// Parses a line.
    fn parse(line: &[u8]) -> Self {
        match request::read_json(line) {
            Ok(Value::Object(mut object)) => Self { id: object.remove("id"), call: call_in(object) },
            Ok(_) => Self { id: None, call: Err(refused("a line of a batch must be a JSON object")) },
            Err(error) => Self { id: id_in(line), call: Err(error.suggest(FORM)) },
        }
    }
}

/// The form of a line.
const FORM: &str = "Send {\"tool\":\"read\",\"request\":{\"path\":\"…\"},\"id\":1}, one a line.";

/// The refusal of a line.
fn refused(message: impl Into<String>) -> Error {
    Error::invalid(message).suggest(FORM)
}

/// The id in a line that has a field twice somewhere, which is still answered under that id.
fn id_in(line: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Value>(line).ok()?.as_object_mut()?.remove("id")
}

/// Tool and request of a line, whose id is taken out.
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
