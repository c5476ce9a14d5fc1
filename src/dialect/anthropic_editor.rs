//! `anthropic-editor`: the text editor tool that Claude models are trained on, with its older name.
//!
//! lbx is stricter: `create` does not overwrite a file that was not viewed, and `str_replace` and `insert` need a file
//! that has not changed since the view.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{
    LbxClient, cat_n, count_of, display, first_replacement, flag, list, number, numbered, snippet, without_cr,
};
use super::tool::{Dialect, ToolOutput, refused, required, schema_of, tool};
use crate::error::{Error, ErrorKind};
use crate::tools::{edit, insert, read, undo, write};

/// Dialect `anthropic-editor`.
pub const EDITOR: Dialect = Dialect {
    name: "anthropic-editor",
    is_model_family: true,
    tools: &[
        tool!(
            "str_replace_based_edit_tool", Writes, editor,
            fields: &[("old_string", "old_str"), ("new_string", "new_str"), ("line", "insert_line")]
        ),
        tool!(
            "str_replace_editor", Writes, editor, request_schema: older_schema,
            about: Some("Views and edits text files, with `undo_edit`, under the tool's older name."),
            fields: &[("old_string", "old_str"), ("new_string", "new_str"), ("line", "insert_line")]
        ),
    ],
    names: &[
        ("read", "view"),
        ("ls", "view"),
        ("write", "create"),
        ("edit", "str_replace"),
        ("insert", "insert"),
    ],
    error_texts: &[
        (
            ErrorKind::NoMatch,
            "No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}. {message}",
        ),
        (
            ErrorKind::AmbiguousMatch,
            "No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {lines}. Please ensure it is unique",
        ),
        (ErrorKind::NotFound, "The path {path} does not exist. Please provide a valid path."),
    ],
    error_frame: "{}",
    differences: &[
        "create does not overwrite a file that was not viewed; str_replace and insert need a file that is as it was viewed.",
    ],
};

/// Levels of a directory that `view` lists.
const VIEW_DEPTH: u64 = 2;

/// Operation of the editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(extend("x-values" = ["undo_edit"]))]
enum Command {
    /// Show a file with line numbers, or list a directory
    View,
    /// Replace text that occurs exactly once
    StrReplace,
    /// Create a file
    Create,
    /// Insert text after a line
    Insert,
    /// Undo the last change of the file, as in the older editor
    #[schemars(skip)]
    UndoEdit,
}

/// Views and edits text files.
///
/// `view` shows a file with line numbers, or a directory two levels deep. `str_replace` replaces `old_str`, which must
/// occur exactly once, with `new_str`. `create` writes a file. `insert` puts `insert_text` after line `insert_line`.
/// View a file before you change it.
#[derive(Debug, Deserialize, JsonSchema)]
struct EditorRequest {
    /// Operation
    command: Command,
    /// The file or directory
    path: String,
    /// First and last line to view; -1 as the last is the end of the file
    view_range: Option<Vec<i64>>,
    /// The text to replace
    old_str: Option<String>,
    /// The replacement
    new_str: Option<String>,
    /// The content of the file to create
    file_text: Option<String>,
    /// The line after which to insert; 0 for the start of the file
    insert_line: Option<u64>,
    /// The text to insert
    insert_text: Option<String>,
}

/// Runs a request of either editor.
fn editor(lbx: &mut LbxClient<'_>, request: EditorRequest) -> Result<ToolOutput, Error> {
    let EditorRequest { command, path, new_str, insert_text, .. } = &request;
    match command {
        Command::UndoEdit => undo(lbx, path),
        Command::View => view(lbx, path, request.view_range.as_deref()),
        Command::Create => create(lbx, path, wanted(request.file_text.as_deref(), "file_text")?),
        Command::StrReplace => {
            let old = wanted(request.old_str.as_deref(), "old_str")?;
            replace(lbx, path, old, new_str.as_deref().unwrap_or_default())
        }
        Command::Insert => {
            let line = wanted(request.insert_line, "insert_line")?;
            // The older form of the tool calls it `new_str`.
            let text = wanted(insert_text.as_deref().or(new_str.as_deref()), "insert_text")?;
            insert(lbx, path, line, text)
        }
    }
}

/// Returns the schema of the older editor, which shows `undo_edit`.
fn older_schema() -> Value {
    let mut schema = schema_of(editor);
    let commands = schema.pointer_mut("/properties/command/enum").and_then(Value::as_array_mut);
    commands.into_iter().for_each(|commands| commands.push("undo_edit".into()));
    schema
}

/// Returns a parameter that the command needs.
fn wanted<T>(value: Option<T>, name: &str) -> Result<T, Error> {
    required(value, name, &format!("Parameter `{name}`"))
}

/// Shows a file or a directory.
fn view(lbx: &mut LbxClient<'_>, path: &str, range: Option<&[i64]>) -> Result<ToolOutput, Error> {
    if lbx.is_folder(path)? {
        return directory(lbx, path);
    }
    let mut asked = json!({ "path": path });
    if let Some(range) = range {
        let [start, end] = range else {
            return Err(Error::invalid("Invalid `view_range`. It should be a list of two integers.")
                .detail("field", "view_range"));
        };
        if let Some(fields) = asked.as_object_mut() {
            fields.insert("start_line".to_owned(), (*start).into());
            fields.insert("end_line".to_owned(), (*end).into());
        }
    }
    let data = lbx.call::<read::Read>(asked).map_err(|error| match range {
        Some(range) if error.kind() == ErrorKind::InvalidRequest => Error::invalid(format!(
            "Invalid `view_range`: {range:?}. It must begin in the file, and not end before it begins."
        ))
        .detail("field", "view_range"),
        _ => error,
    })?;
    let bytes_max = lbx.max_bytes()?;
    let (mut said, shown) = numbered(lbx, &data, bytes_max, |number, line| cat_n(number, without_cr(line)));
    let asked_last = range.and_then(<[i64]>::last).map(|line| shown.line(*line));
    said.extend(shown.missing_lines_text(asked_last, "Use view_range").map(|note| format!("\n[{note}]")));
    Ok(said.into())
}

/// Lists a directory two levels deep.
fn directory(lbx: &mut LbxClient<'_>, path: &str) -> Result<ToolOutput, Error> {
    let data = lbx.list_folder(json!({ "path": path, "depth": VIEW_DEPTH }))?;
    let mut lines = vec![
        format!("Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"),
        path.to_owned(),
    ];
    lines.extend(list(&data, "entries").iter().map(|entry| display(entry).into_owned()));
    if flag(&data, "truncated") {
        let total = count_of(number(&data, "total"), "entry", "entries");
        lines.push(format!("[There are {total} in all. View a directory inside to see the rest.]"));
    }
    Ok(lines.join("\n").into())
}

/// Writes a file.
fn create(lbx: &mut LbxClient<'_>, path: &str, content: &str) -> Result<ToolOutput, Error> {
    lbx.call::<write::Write>(json!({ "path": path, "content": content }))?;
    Ok(format!("File created successfully at: {path}").into())
}

/// Replaces a text, and shows the result.
fn replace(lbx: &mut LbxClient<'_>, path: &str, old: &str, new: &str) -> Result<ToolOutput, Error> {
    let data = lbx.call::<edit::Edit>(json!({ "path": path, "old_string": old, "new_string": new }))?;
    Ok(edited(lbx, path, &data))
}

/// Inserts text after a line, and shows the result.
fn insert(lbx: &mut LbxClient<'_>, path: &str, line: u64, text: &str) -> Result<ToolOutput, Error> {
    // The original tool inserts whole lines.
    let newline = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    let content = format!("{text}{newline}");
    let data = lbx.call::<insert::Insert>(json!({ "path": path, "line": line, "content": content }))?;
    Ok(edited(lbx, path, &data))
}

/// Returns the text for a file that was edited.
fn edited(lbx: &mut LbxClient<'_>, path: &str, data: &Value) -> ToolOutput {
    let shown = snippet(lbx, path, first_replacement(data));
    format!(
        "The file {path} has been edited. Here's the result of running `cat -n` on a snippet of {path}:\n{shown}\n\
         Review the changes and make sure they are as expected. Edit the file again if necessary."
    )
    .into()
}

/// Undoes the last change of a file.
fn undo(lbx: &mut LbxClient<'_>, path: &str) -> Result<ToolOutput, Error> {
    lbx.call::<undo::Undo>(json!({ "path": path })).map_err(|error| match error.kind() {
        ErrorKind::NotFound if lbx.exists(path).is_ok_and(|exists| exists) => {
            refused(ErrorKind::NotFound, path, format!("No edit history found for {path}."))
        }
        _ => error,
    })?;
    Ok(format!("Last edit to {path} undone successfully.").into())
}
