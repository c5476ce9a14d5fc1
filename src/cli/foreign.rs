//! One call of a model family's tool: JSON in, text of the family out.

use serde_json::{Value, json};

use super::input::{self, Input};
use super::output;
use crate::app::options::Options;
use crate::control::Control;
use crate::dialect::client::LbxClient;
use crate::dialect::{Dialect, DialectTool, ToolOutput};
use crate::engine::CallNotes;
use crate::envelope::ResponseFrame;
use crate::error::Error;
use crate::error::without_panic;
use crate::request;
use crate::text::escaped::plural;

/// Makes the call and prints its response; returns the exit status.
pub fn run(
    dialect: &'static Dialect,
    tool: &'static DialectTool,
    words: Vec<String>,
    options: &Options,
) -> u8 {
    let request = match request_of(tool, words, options) {
        Ok(request) => request,
        Err(error) => return output::refuse(tool.name, &as_text(options), &error),
    };
    let mut fields = request.clone();
    let mut deliveries = Vec::new();
    let called = options.with_fields_of(&mut fields).and_then(|options| {
        let options = options.for_family(dialect.vocabulary(tool));
        let open = || options.open_workspace();
        let mut lbx = LbxClient::new(&open, &options, Control::default());
        let said = without_panic(|| dialect.call(tool, &mut lbx, fields));
        // Images and other files are shown over MCP only.
        if said.as_ref().is_ok_and(|said| said.images.is_empty() && said.media.is_empty()) {
            let warning = lbx.count_as_read();
            lbx.outcome.warnings.extend(warning);
        }
        deliveries = lbx.deliveries;
        Ok((said?, lbx.outcome))
    });
    let status = match called {
        Ok((said, outcome)) => {
            let status = print(tool, options, &text_of(&said), &outcome);
            if status == 0 { u8::from(said.is_error) } else { status }
        }
        Err(error) if options.json_output || options.pretty => output::refuse(tool.name, options, &error),
        Err(error) => {
            let text = dialect.words_of(&error, &request);
            output::say_lines(&text);
            error.kind().exit_code()
        }
    };
    output::end_calls(deliveries);
    status
}

/// Returns the error for an argument that a tool of a model family does not take.
pub fn argument(tool: &DialectTool, error: &clap::Error) -> Error {
    let Some(clap::error::ContextValue::String(given)) = error.get(clap::error::ContextKind::InvalidArg)
    else {
        return request::flag_error(error);
    };
    Error::invalid(format!("`{}` has no argument `{}`", tool.name, request::quoted(given)))
        .suggest(request_forms(tool))
        .detail("argument", request::quoted(given).into_owned())
}

/// Returns a description of the ways to give a request.
fn request_forms(tool: &DialectTool) -> String {
    let names = required(tool);
    let example: Vec<String> = names.iter().map(|name| format!("\"{name}\":…")).collect();
    let in_order = match names.as_slice() {
        [] => String::new(),
        names => {
            format!(", or the required ones in order: lbx {} {}", tool.name, names.join(" ").to_uppercase())
        }
    };
    format!("Give the parameters as --json '{{{}}}'{in_order}.", example.join(","))
}

/// Returns the parameters that a tool requires, in the order of its schema.
fn required(tool: &DialectTool) -> Vec<String> {
    let schema = tool.schema();
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Builds a request from the required parameters, given in order.
fn from_words(tool: &DialectTool, words: Vec<String>) -> Result<Value, Error> {
    let names = required(tool);
    if words.len() > names.len() {
        let count = plural(words.len(), "argument");
        return Err(
            Error::invalid(format!("`{}` takes fewer than {count}", tool.name)).suggest(request_forms(tool))
        );
    }
    Ok(Value::Object(names.into_iter().zip(words.into_iter().map(Value::String)).collect()))
}

/// Returns the request: `--json`, else the words, else JSON on stdin.
fn request_of(tool: &DialectTool, words: Vec<String>, options: &Options) -> Result<Value, Error> {
    if let Some(json) = &options.json {
        if !words.is_empty() {
            return Err(Error::invalid("--json holds the whole request: leave the other arguments out"));
        }
        return request::read_json(&input::json_argument(json)?);
    }
    if !words.is_empty() {
        return from_words(tool, words);
    }
    match input::read_stdin()? {
        Input::Text(text) if !text.trim_ascii().is_empty() => request::read_json(&text),
        Input::Text(_) | Input::None => {
            Err(Error::invalid(format!("`{}` needs its request as JSON", tool.name))
                .suggest(request_forms(tool)))
        }
    }
}

/// Returns the text of a result, with a line for each image: only MCP clients can show images.
fn text_of(said: &ToolOutput) -> String {
    let images = said.images.iter().map(|image| format!("[{} image, shown over MCP only]", image.mime));
    let media = said.media.iter().map(|media| format!("[{} file, shown over MCP only]", media.mime));
    let text = Some(said.text.clone()).filter(|text| !text.is_empty());
    text.into_iter().chain(images).chain(media).collect::<Vec<_>>().join("\n")
}

/// Prints the output of the tool.
fn print(tool: &DialectTool, options: &Options, text: &str, outcome: &CallNotes) -> u8 {
    if options.json_output || options.pretty {
        let frame = ResponseFrame { tool: tool.name, id: None, outcome, pretty: options.pretty };
        let mut json = Vec::new();
        // A string is always valid JSON.
        let _ = frame.success(&json!({ "text": text }), &mut json);
        return output::print_line(&json);
    }
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let status = output::print(format!("{text}{newline}").as_bytes());
    output::say_warnings(outcome);
    status
}

/// Returns the options of a call that returns text.
fn as_text(options: &Options) -> Options {
    Options { text: !options.json_output && !options.pretty, ..options.clone() }
}
