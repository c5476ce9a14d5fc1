//! Requests: as JSON of a tool, as MCP messages, and as calls of the dialects.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use lbx::app::Call;
use lbx::app::options::Options;
use lbx::app::remote::CallResult;
use lbx::catalog;
use lbx::control::Control;
use lbx::dialect::client::LbxClient;
use lbx::dialect::{DIALECTS, DialectTool};
use lbx::error::ErrorKind;
use lbx::mcp::message;
use lbx::request;
use lbx::tools::ToolEntry;
use serde_json::Value;

use super::SEPARATOR;
use super::workspaces::{Template, furnished};

/// Tools that are not called here: they start programs, or write outside the workspace.
const LEFT_OUT: [&str; 5] = ["bash", "sandbox", "init", "doctor", "review"];
/// Largest number of requests in one input.
const REQUESTS_MAX: usize = 4;

/// Reads a line of MCP: a message, or an error response.
pub fn messages(data: &[u8]) {
    let plain: Option<Value> = serde_json::from_slice(data).ok();
    match request::read_json(data) {
        Ok(value) => assert_eq!(Some(value), plain, "another value than serde reads"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidRequest),
    }
    if let Err(refusal) = message::parse(data) {
        let _: Value = serde_json::from_slice(&refusal.line()).expect("an answer is JSON");
    }
}

/// Parses the name of a tool and its arguments, as a shell passes them.
pub fn flags(data: &[u8]) {
    let words: Vec<OsString> =
        data.split(|byte| *byte == SEPARATOR).map(|word| OsString::from_vec(word.to_vec())).collect();
    let Some(tool) = words.first().and_then(|name| catalog::find(name.to_str()?)) else { return };
    if let Err(error) = (tool.command)().try_get_matches_from(&words) {
        let refused = request::flag_error(&error);
        assert_eq!(refused.kind(), ErrorKind::InvalidRequest);
        assert!(!refused.message().is_empty(), "a refusal without words");
    }
}

/// Sends requests, one per line as in a batch, to tools in a small workspace.
pub fn calls(data: &[u8]) {
    let lines: Vec<_> = data.split(|byte| *byte == b'\n').filter_map(called).take(REQUESTS_MAX).collect();
    if lines.is_empty() {
        return;
    }
    let template: &Template = furnished();
    template.put_back();
    for (tool, request) in lines {
        template.judge(tool, request);
    }
}

/// Returns the tool and the request of a line.
fn called(line: &[u8]) -> Option<(&'static ToolEntry, Value)> {
    let Ok(Value::Object(mut line)) = request::read_json(line) else { return None };
    let tool = catalog::find(line.get("tool")?.as_str()?)?;
    let request = line.remove("request").unwrap_or_default();
    (!LEFT_OUT.contains(&tool.name)).then_some((tool, request))
}

/// Sends a request to a tool of a dialect.
pub fn dialects(data: &[u8]) {
    let Ok(Value::Object(line)) = request::read_json(data) else { return };
    let Some(name) = line.get("tool").and_then(Value::as_str) else { return };
    let template: &Template = furnished();
    let request = line.get("request").cloned().unwrap_or_default();
    let has_tool = |tool: &&DialectTool| tool.name == name && !tool.runs_commands;
    for dialect in DIALECTS {
        let Some(tool) = dialect.tools.iter().find(has_tool) else { continue };
        template.put_back();
        let options: Options = Template::options();
        let open = || template.workspace();
        let mut native = LbxClient::new(&open, &options, Control::default());
        if let Err(error) = dialect.call(tool, &mut native, request.clone()) {
            assert_ne!(error.kind(), ErrorKind::Internal, "{}: {}", tool.name, error.message());
            let _ = dialect.words_of(&error, &request);
        }
    }
}

/// A call of `tool` in the workspace of a template.
pub fn call(template: &Template, tool: &'static ToolEntry, request: Value) -> CallResult {
    let workspace = template.workspace().expect("the template's root is there");
    match Call::in_workspace(workspace, tool, &Template::options()) {
        Ok(call) => call.run_with(|engine| (tool.run_json)(engine, request)),
        Err(error) => CallResult::refused(error),
    }
}
