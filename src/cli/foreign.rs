//! One call of a model family's tool: JSON in, the family's text out.

use serde_json::{Value, json};

use super::input::{self, Input};
use super::output;
use crate::app::options::Options;
use crate::app::panics::without_panic;
use crate::control::Control;
use crate::dialect::native::Native;
use crate::dialect::{Dialect, Failure, ForeignTool, Said};
use crate::engine::Outcome;
use crate::envelope::Frame;
use crate::error::Error;
use crate::request;

/// Makes the call and prints its answer; answers the exit status.
#[must_use]
pub fn run(dialect: &'static Dialect, tool: &'static ForeignTool, options: &Options) -> u8 {
    let request = match request_of(tool, options) {
        Ok(request) => request,
        Err(error) => return output::refuse(tool.name, &as_text(options), &error),
    };
    let mut fields = request.clone();
    let called = options.with_fields_of(&mut fields).and_then(|options| {
        let open = || options.open_workspace();
        let mut lbx = Native::new(&open, &options, Control::default());
        let said = without_panic(|| (tool.run)(&mut lbx, fields))?;
        Ok((said, lbx.outcome))
    });
    match called {
        Ok((said, outcome)) => print(tool, options, &text_of(&said), &outcome),
        Err(error) if options.json_output || options.pretty => output::refuse(tool.name, options, &error),
        Err(error) => {
            let text = (dialect.error_text)(&Failure { error: &error, request: &request });
            output::say_lines(&text);
            error.kind().exit_code()
        }
    }
}

/// The request: `--json`, else JSON on stdin.
fn request_of(tool: &ForeignTool, options: &Options) -> Result<Value, Error> {
    if let Some(json) = &options.json {
        return request::read_json(&input::json_argument(json)?);
    }
    match input::read_stdin()? {
        Input::Text(text) if !text.trim_ascii().is_empty() => request::read_json(&text),
        Input::Text(_) | Input::None => {
            Err(Error::invalid(format!("{} needs its request as JSON", tool.name))
                .suggest("Give the parameters as --json '{…}', or as JSON on stdin."))
        }
    }
}

/// What a tool says, with a line for each image: only an MCP client can be shown one.
fn text_of(said: &Said) -> String {
    let images = said.images.iter().map(|image| format!("[{} image, shown over MCP only]", image.mime));
    let text = Some(said.text.clone()).filter(|text| !text.is_empty());
    text.into_iter().chain(images).collect::<Vec<_>>().join("\n")
}

/// Prints what the tool says.
fn print(tool: &ForeignTool, options: &Options, text: &str, outcome: &Outcome) -> u8 {
    if options.json_output || options.pretty {
        let frame = Frame { tool: tool.name, id: None, outcome, pretty: options.pretty };
        let mut json = Vec::new();
        // A text is always JSON.
        let _ = frame.success(&json!({ "text": text }), &mut json);
        return output::print_line(&json);
    }
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let status = output::print(format!("{text}{newline}").as_bytes());
    output::say_warnings(outcome);
    status
}

/// The options of a call that answers with text.
fn as_text(options: &Options) -> Options {
    Options { text: !options.json_output && !options.pretty, ..options.clone() }
}
