//! Notebooks in the dialect `claude`: `Read` of the cells, and `NotebookEdit`.
//!
//! A cell is edited in the text of the notebook. The changed lines go through the native `edit`, so that the other
//! cells stay byte for byte, and the gate is the same as for every edit.

use std::fmt::Display;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{LbxClient, list, number, text};
use super::tool::{DialectTool, ToolOutput, refused, tool};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::content::{Content, Encoding, on_disk};
use crate::text::jsonc::{self, JsonFault};
use crate::tools::{edit, read, session};

/// Suffix of the name of a notebook.
const EXTENSION: &str = ".ipynb";
/// Path of the list of cells.
const CELLS: [&str; 1] = ["cells"];
/// Oldest notebook format with a top-level list of cells.
const FORMAT: u64 = 4;

/// Replaces, inserts or deletes a cell of a Jupyter notebook (.ipynb file).
///
/// Read the notebook first: it shows the id of each cell.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NotebookEditRequest {
    /// The absolute path of the notebook
    notebook_path: String,
    /// The id of the cell; a new cell is inserted after it, or at the beginning without it
    cell_id: Option<String>,
    /// The new source of the cell; required unless it is deleted
    new_source: Option<String>,
    /// The type of the cell; required to insert one
    cell_type: Option<CellType>,
    /// Operation on the cell (default: replace)
    edit_mode: Option<EditMode>,
}

/// Type of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CellType {
    /// Code
    Code,
    /// Text
    Markdown,
}

impl CellType {
    /// Returns the name of the type in a notebook.
    const fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
        }
    }
}

/// Operation on a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EditMode {
    /// Replace its source
    #[default]
    Replace,
    /// Insert a cell after it
    Insert,
    /// Remove it
    Delete,
}

/// `NotebookEdit` tool.
pub const NOTEBOOK_EDIT: DialectTool =
    tool!("NotebookEdit", Writes, notebook_edit, fields: &[("path", "notebook_path")]);

/// Runs `NotebookEdit`.
fn notebook_edit(lbx: &mut LbxClient<'_>, request: NotebookEditRequest) -> Result<ToolOutput, Error> {
    let path = &request.notebook_path;
    let refuse = |words: &str| Err(refused(ErrorKind::InvalidRequest, path, words));
    if !path.ends_with(EXTENSION) {
        return refuse(
            "File must be a Jupyter notebook (.ipynb file). For editing other file types, use the Edit tool.",
        );
    }
    let bytes = lbx.bytes_of(path)?;
    let parsed = Content::of(&bytes, None).ok().and_then(|Content { encoding, bom, body }| {
        let before = String::from_utf8(body.into_owned()).ok()?;
        let notebook: Value = serde_json::from_str(&before).ok()?;
        Some((before, notebook, (encoding, bom)))
    });
    let Some((before, notebook, form)) = parsed else {
        return refuse("Notebook is not valid JSON.");
    };
    let edited = match edited(&before, &notebook, &request) {
        Ok(edited) => edited,
        Err(JsonFault(words)) => return refuse(&words),
    };
    replace_lines(lbx, path, &before, &edited, form)?;
    let (id, mode) = (edited.id, request.edit_mode.unwrap_or_default());
    if mode != EditMode::Replace && !cells_of(&notebook).iter().all(|cell| cell.get("id").is_some()) {
        // Cells that are shown by their index have another one now.
        lbx.call::<session::Session>(json!({ "action": "forget", "paths": [path] }))?;
    }
    let source = request.new_source.unwrap_or_default();
    Ok(match mode {
        EditMode::Replace => format!("Updated cell {id} with {source}"),
        EditMode::Insert => format!("Inserted cell {id} with {source}"),
        EditMode::Delete => format!("Deleted cell {id}"),
    }
    .into())
}

/// Edit of a cell.
struct EditedCell {
    /// Text of the notebook after it.
    after: String,
    /// ID of the cell.
    id: String,
    /// Bytes of the notebook before that the caller must have seen: the source of the cell that the edit names.
    shown: Option<Range<usize>>,
}

/// Returns the cells of a notebook.
fn cells_of(notebook: &Value) -> &[Value] {
    list(notebook, "cells")
}

/// Computes the edit of a cell.
fn edited(before: &str, notebook: &Value, request: &NotebookEditRequest) -> Result<EditedCell, JsonFault> {
    let format = notebook.get("nbformat").and_then(Value::as_u64).unwrap_or(FORMAT);
    if format < FORMAT {
        return Err(JsonFault(format!(
            "Notebook is of format {format} (nbformat), whose cells cannot be edited: convert it first with `jupyter nbconvert --to notebook`."
        )));
    }
    let spans = jsonc::items(before, &CELLS)?
        .ok_or_else(|| JsonFault("Notebook has no list of cells.".to_owned()))?;
    let mode = request.edit_mode.unwrap_or_default();
    let named = request.cell_id.as_deref();
    let at = named.map(|id| place_of(id, cells_of(notebook))).transpose()?;
    let shown = source_of(before, spans.get(at.unwrap_or(0)))?;
    let source = match &request.new_source {
        Some(source) => source.as_str(),
        None if mode == EditMode::Delete => "",
        // An empty text is a source too.
        None => return Err(JsonFault("The required parameter `new_source` is missing.".to_owned())),
    };
    let (after, id) = match (mode, at) {
        (EditMode::Insert, at) => {
            let kind = request
                .cell_type
                .ok_or_else(|| JsonFault("Cell type is required when using edit_mode=insert.".to_owned()))?;
            let id = has_ids(notebook).then(|| new_id(before, source));
            let cell = new_cell(before, &spans, kind, id.as_deref(), source);
            let place = at.map_or(0, |at| at + 1);
            let after = jsonc::insert_item(before, &CELLS, place, &cell)?;
            (after, id.unwrap_or_else(|| format!("cell-{place}")))
        }
        (_, None) => {
            return Err(JsonFault("Cell ID must be specified when not inserting a new cell.".to_owned()));
        }
        (EditMode::Replace, Some(at)) => {
            let span = spans.get(at).cloned().unwrap_or_default();
            let cell = before.get(span.clone()).unwrap_or_default();
            let after = spliced(before, span, &replaced(cell, before, (request.cell_type, source))?);
            (after, named.unwrap_or_default().to_owned())
        }
        (EditMode::Delete, Some(at)) => {
            (jsonc::remove_item(before, &CELLS, at)?, named.unwrap_or_default().to_owned())
        }
    };
    Ok(EditedCell { after, id, shown })
}

/// Returns the bytes of the source of a cell, if there are such a cell and source.
fn source_of(notebook: &str, cell: Option<&Range<usize>>) -> Result<Option<Range<usize>>, JsonFault> {
    let Some(cell) = cell else { return Ok(None) };
    let source = jsonc::span(notebook.get(cell.clone()).unwrap_or_default(), &["source"])?;
    Ok(source.map(|source| cell.start + source.start..cell.start + source.end))
}

/// Returns the ID under which `Read` shows a cell: without one of its own, its index, as `cell-0`.
fn shown_id(own: Option<&str>, at: impl Display) -> String {
    own.filter(|own| !own.is_empty()).map_or_else(|| format!("cell-{at}"), str::to_owned)
}

/// Returns the index of the only cell with this ID, or else of the cell with this index.
fn place_of(id: &str, cells: &[Value]) -> Result<usize, JsonFault> {
    let is_named = |(at, cell): &(usize, &Value)| shown_id(cell.get("id").and_then(Value::as_str), *at) == id;
    let mut named = cells.iter().enumerate().filter(is_named);
    let by_place = || id.strip_prefix("cell-")?.parse().ok().filter(|at| *at < cells.len());
    match (named.next(), named.next()) {
        (Some((at, _)), None) => Ok(at),
        (Some(_), Some(_)) => Err(JsonFault(format!(
            "Several cells have the ID \"{id}\". Use the Edit tool to change the lines of one of them."
        ))),
        (None, _) => {
            by_place().ok_or_else(|| JsonFault(format!("Cell with ID \"{id}\" not found in notebook.")))
        }
    }
}

/// Returns true if the cells of a notebook have IDs: from nbformat 4.5 on.
fn has_ids(notebook: &Value) -> bool {
    (number(notebook, "nbformat"), number(notebook, "nbformat_minor")) >= (4, 5)
}

/// Returns an ID for a new cell that does not occur in the notebook.
fn new_id(notebook: &str, source: &str) -> String {
    /// Length of an ID in characters.
    const CHARACTERS: usize = 8;
    let mut seed = format!("{notebook}\n{source}");
    loop {
        let id: String = Sha256::of(seed.as_bytes()).to_hex().chars().take(CHARACTERS).collect();
        if !notebook.contains(&id) {
            return id;
        }
        seed.push_str(&id);
    }
}

/// Returns a cell with a new source, and with a new type if one is given. Outputs of code are removed.
fn replaced(
    cell: &str,
    notebook: &str,
    (new_kind, source): (Option<CellType>, &str),
) -> Result<String, JsonFault> {
    let known = jsonc::get(cell, &["cell_type"])?;
    let kind = new_kind.map_or_else(
        || known.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
        |kind| kind.name().to_owned(),
    );
    let mut cell = with_source(cell, notebook, source)?;
    if new_kind.is_some() {
        cell = jsonc::set(&cell, &["cell_type"], &Value::from(kind.as_str()))?;
    }
    if kind == CellType::Code.name() {
        cell = jsonc::set(&cell, &["execution_count"], &Value::Null)?;
        return jsonc::set(&cell, &["outputs"], &json!([]));
    }
    cell = jsonc::remove(&cell, &["execution_count"])?;
    jsonc::remove(&cell, &["outputs"])
}

/// Returns a cell with a new source, in the form of the old one: one string, or a list of lines.
fn with_source(cell: &str, notebook: &str, source: &str) -> Result<String, JsonFault> {
    let Some(span) = jsonc::span(cell, &["source"])? else {
        return jsonc::set(cell, &["source"], &lines_of(source));
    };
    let new = if cell.get(span.clone()).is_some_and(|old| old.starts_with('"')) {
        Value::from(source).to_string()
    } else if cell.contains('\n') {
        format_source(source, &jsonc::indent_at(cell, span.start), &unit_of(notebook))
    } else {
        lines_of(source).to_string()
    };
    Ok(spliced(cell, span, &new))
}

/// Returns a new cell as JSON, in the layout of the notebook.
fn new_cell(
    notebook: &str,
    spans: &[Range<usize>],
    kind: CellType,
    id: Option<&str>,
    source: &str,
) -> String {
    let is_code = kind == CellType::Code;
    let mut fields = vec![("cell_type", Value::from(kind.name()).to_string())];
    fields.extend(is_code.then(|| ("execution_count", "null".to_owned())));
    fields.extend(id.map(|id| ("id", Value::from(id).to_string())));
    fields.push(("metadata", "{}".to_owned()));
    fields.extend(is_code.then(|| ("outputs", "[]".to_owned())));
    if !notebook.trim_end().contains('\n') {
        fields.push(("source", lines_of(source).to_string()));
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        return format!("{{{}}}", fields.join(", "));
    }
    let unit = unit_of(notebook);
    let outer = spans.first().map_or_else(|| unit.repeat(2), |first| jsonc::indent_at(notebook, first.start));
    let indent = format!("{outer}{unit}");
    fields.push(("source", format_source(source, &indent, &unit)));
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{indent}\"{name}\": {value}")).collect();
    format!("{{\n{}\n{outer}}}", fields.join(",\n"))
}

/// Returns the indentation of a notebook: nbformat writes one blank per level.
fn unit_of(notebook: &str) -> String {
    let second = notebook.lines().nth(1).unwrap_or_default();
    let unit: String = second.chars().take_while(|character| character.is_whitespace()).collect();
    if unit.is_empty() { " ".to_owned() } else { unit }
}

/// Returns a source in the form of notebooks: a list of lines, each with its ending.
fn lines_of(source: &str) -> Value {
    source.split_inclusive('\n').collect()
}

/// Returns a source over several lines, for a line that begins with `indent`.
fn format_source(source: &str, indent: &str, unit: &str) -> String {
    let lines: Vec<String> =
        source.split_inclusive('\n').map(|line| format!("{indent}{unit}{}", Value::from(line))).collect();
    if lines.is_empty() { "[]".to_owned() } else { format!("[\n{}\n{indent}]", lines.join(",\n")) }
}

/// Returns a text in which `new` replaces a part; `span` must come from this text.
fn spliced(text: &str, span: Range<usize>, new: &str) -> String {
    let before = text.get(..span.start).unwrap_or_default();
    let after = text.get(span.end..).unwrap_or_default();
    format!("{before}{new}{after}")
}

/// Replaces the lines that an edit changes by native edits of lines, all or none. The session must have been shown the
/// source of the cell; its other lines, of which a response shows a short form at most, must be those that were edited
/// here. The file is in this encoding, with or without a byte-order mark.
fn replace_lines(
    lbx: &mut LbxClient<'_>,
    path: &str,
    before: &str,
    edited: &EditedCell,
    form: (Encoding, bool),
) -> Result<(), Error> {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = edited.after.split_inclusive('\n').collect();
    let same_start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    if same_start == old.len() && same_start == new.len() {
        return Ok(());
    }
    let line_at = |at: usize| before.get(..at).unwrap_or_default().matches('\n').count();
    let shown = edited.shown.as_ref().map(|bytes| line_at(bytes.start)..line_at(bytes.end) + 1);
    let needed = shown.clone().unwrap_or(same_start..same_start);
    // At least one old line is replaced, so that there are old bytes to check.
    let start = same_start.min(old.len().saturating_sub(1)).min(needed.start);
    let room = old.len().saturating_sub(start + 1).min(new.len() - start);
    let ends = old.iter().rev().zip(new.iter().rev());
    let same_end = ends.take(room).take_while(|(old, new)| old == new).count();
    let end = (old.len() - same_end).max(needed.end);
    let coming = new.get(start..new.len() + end - old.len()).unwrap_or_default().concat();
    let parts = [start..needed.start, needed.clone(), needed.end..end];
    let mut edits: Vec<Value> = parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .map(|part| {
            let going = old.get(part.clone()).unwrap_or_default().concat();
            let is_shown = shown.as_ref() == Some(&part);
            let digest = || Sha256::of(&on_disk(going.as_bytes(), form, part.start == 0)).to_hex();
            json!({
                "start_line": part.start + 1, "end_line": part.end, "new_string": "",
                "range_sha256": (!is_shown).then(digest)
            })
        })
        .collect();
    if let Some(last) = edits.last_mut().and_then(Value::as_object_mut) {
        last.insert("new_string".to_owned(), coming.into());
    }
    lbx.call::<edit::Edit>(json!({ "path": path, "edits": edits, "allow_repeat": true })).map(drop)
}

/// Returns the cells of a notebook; `None` for other files.
///
/// # Errors
/// Returns the error of `read`.
pub fn read_notebook(lbx: &mut LbxClient<'_>, path: &str) -> Result<Option<ToolOutput>, Error> {
    if !path.ends_with(EXTENSION) {
        return Ok(None);
    }
    let data = match lbx.call::<read::Read>(json!({ "path": path, "cell": 0 })) {
        Ok(data) => data,
        // The file is read as plain text.
        Err(error) if error.kind() == ErrorKind::InvalidRequest => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut said: String = list(&data, "cells").iter().map(cell_as_text).collect();
    if let Some(next) = data.get("next_cell") {
        said.extend([format!(
            "<system-reminder>The notebook goes on at cell {next}. Use offset and limit to read its lines.</system-reminder>"
        )]);
    }
    Ok(Some(said.into()))
}

/// Returns a cell in the form that `Read` shows.
fn cell_as_text(cell: &Value) -> String {
    let place = number(cell, "cell").saturating_sub(1);
    let id = shown_id(cell.get("id").and_then(Value::as_str), place);
    let kind = match text(cell, "type") {
        "code" => String::new(),
        kind => format!("<cell_type>{kind}</cell_type>"),
    };
    let outputs: String =
        super::client::texts(cell, "outputs").iter().map(|output| format!("{output}\n")).collect();
    format!("<cell id=\"{id}\">{kind}{}</cell id=\"{id}\">\n{outputs}", text(cell, "source"))
}
