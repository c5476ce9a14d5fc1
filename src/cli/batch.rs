//! `batch`: many requests in one process, a line each.

use std::io::{BufRead, Read};

use serde_json::Value;

use super::call::Called;
use super::options::Options;
use super::{output, run_json, tool_of};
use crate::control::Control;
use crate::engine::Outcome;
use crate::envelope::Frame;
use crate::error::Error;
use crate::request::{self, REQUEST_BYTES_MAX};
use crate::tools::schema::unknown_tool;

/// Answers every line of stdin; answers 0, or the status of the first failure.
#[must_use]
pub fn run(options: &Options) -> u8 {
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
    let (tool, id, called) = match Line::parse(line) {
        Ok(Line { tool, request, id }) => match tool_of(&tool) {
            Some(tool) => (tool.name.to_owned(), id, run_json(tool, request, options, Control::default())),
            None => (tool.clone(), id, Called::refused(unknown_tool(&tool))),
        },
        Err(error) => ("batch".to_owned(), None, Called::refused(error)),
    };
    let outcome: &Outcome = &called.outcome;
    let frame = Frame { tool: &tool, id: id.as_ref(), outcome, pretty: false };
    match called.answered.and_then(|reply| output::print_reply(reply.as_ref(), &frame)) {
        Ok(printed) => printed,
        Err(error) => {
            let printed = output::print_line(&frame.failure(&error));
            output::first_of(error.kind().exit_code(), printed)
        }
    }
}

/// One request of a batch.
struct Line {
    /// The tool's name.
    tool: String,
    /// Its request.
    request: Value,
    /// The caller's own name for it.
    id: Option<Value>,
}

impl Line {
    /// Parses a line.
    fn parse(line: &[u8]) -> Result<Self, Error> {
        const FORM: &str = "Send {\"tool\":\"read\",\"request\":{\"path\":\"…\"},\"id\":1}, one a line.";
        let Value::Object(mut object) = request::read_json(line)? else {
            return Err(Error::invalid("a line of a batch must be a JSON object").suggest(FORM));
        };
        let tool = object.remove("tool");
        let request = object.remove("request").unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let id = object.remove("id");
        if let Some(unknown) = object.keys().next() {
            return Err(Error::invalid(format!("unknown field `{unknown}` (accepted: tool, request, id)"))
                .suggest(FORM));
        }
        match tool {
            Some(Value::String(tool)) => Ok(Self { tool, request, id }),
            _ => Err(Error::invalid("field `tool` is missing or no text").suggest(FORM)),
        }
    }
}
