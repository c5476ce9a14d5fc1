//! `NotebookEdit` of the dialect `claude`: what becomes of a notebook, and the errors.

use serde_json::{Value, json};

use crate::common::Workspace;

/// A notebook as nbformat writes it.
const NOTEBOOK: &str = "{\n \"cells\": [\n  {\n   \"cell_type\": \"markdown\",\n   \"id\": \"aa\",\n   \"metadata\": {},\n   \"source\": [\n    \"# Title\\n\",\n    \"text\"\n   ]\n  },\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": 3,\n   \"id\": \"bb\",\n   \"metadata\": {},\n   \"outputs\": [\n    {\"name\": \"stdout\", \"output_type\": \"stream\", \"text\": [\"1\\n\"]}\n   ],\n   \"source\": [\n    \"print(1)\"\n   ]\n  }\n ],\n \"metadata\": {},\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}\n";

/// Returns the notebook after an edit, as a value and as text, or what an error says.
fn after(notebook: &str, request: &Value) -> Result<(Value, String), String> {
    let ws = Workspace::with(&[("a.ipynb", notebook)]);
    let ask =
        |tool: &str, request: &Value| ws.lbx(&["--dialect", "claude", tool, "--json", &request.to_string()]);
    ask("Read", &json!({ "file_path": "a.ipynb" })).stdout();
    let mut whole = json!({ "notebook_path": "a.ipynb", "new_source": "" });
    whole.as_object_mut().unwrap().append(&mut request.as_object().unwrap().clone());
    let answer = ask("NotebookEdit", &whole);
    if answer.status() != 0 {
        ws.holds("a.ipynb", notebook);
        return Err(answer.stderr());
    }
    let text = std::fs::read_to_string(ws.path("a.ipynb")).unwrap();
    Ok((serde_json::from_str(&text).unwrap(), text))
}

#[test]
fn notebook_edit_replaces_a_cell_and_keeps_all_other_bytes() {
    let (value, text) =
        after(NOTEBOOK, &json!({ "cell_id": "bb", "new_source": "x = 1\nprint(x)\n" })).unwrap();
    let cell = &value["cells"][1];
    assert_eq!(cell["source"], json!(["x = 1\n", "print(x)\n"]));
    assert_eq!((&cell["outputs"], &cell["execution_count"]), (&json!([]), &Value::Null));
    let same = NOTEBOOK.find("\"execution_count\"").unwrap();
    assert_eq!(text[..same], NOTEBOOK[..same]);
    assert!(
        text.contains("   \"source\": [\n    \"x = 1\\n\",\n    \"print(x)\\n\"\n   ]\n  }\n ],"),
        "{text}"
    );
    let (value, _) =
        after(NOTEBOOK, &json!({ "cell_id": "cell-1", "cell_type": "markdown", "new_source": "# t" }))
            .unwrap();
    assert_eq!(
        value["cells"][1],
        json!({ "cell_type": "markdown", "id": "bb", "metadata": {}, "source": ["# t"] })
    );
}

#[test]
fn notebook_edit_inserts_and_deletes_cells() {
    let code = json!({ "cell_id": "aa", "cell_type": "code", "edit_mode": "insert", "new_source": "2" });
    let (value, text) = after(NOTEBOOK, &code).unwrap();
    assert_eq!(value["cells"][1]["source"], json!(["2"]));
    let id = value["cells"][1]["id"].as_str().unwrap();
    assert!(
        text.contains("  },\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n"),
        "{text}"
    );
    let (gone, back) = after(&text, &json!({ "cell_id": id, "edit_mode": "delete" })).unwrap();
    assert_eq!((gone["cells"].as_array().unwrap().len(), back.as_str()), (2, NOTEBOOK));
    let (value, _) =
        after(NOTEBOOK, &json!({ "cell_type": "markdown", "edit_mode": "insert", "new_source": "a\nb" }))
            .unwrap();
    assert_eq!(value["cells"][0]["source"], json!(["a\n", "b"]));
    let (value, text) = after(NOTEBOOK, &json!({ "cell_id": "bb", "edit_mode": "delete" })).unwrap();
    assert_eq!(value["cells"].as_array().unwrap().len(), 1);
    assert!(text.contains("   ]\n  }\n ],\n"), "{text}");
}

#[test]
fn notebook_edit_accepts_one_line_notebooks_and_missing_ids() {
    let short = "{\"cells\":[{\"cell_type\":\"code\",\"metadata\":{},\"source\":\"1\"}],\"nbformat\":4,\"nbformat_minor\":2}";
    let (value, text) = after(short, &json!({ "cell_id": "cell-0", "new_source": "2" })).unwrap();
    assert_eq!((&value["cells"][0]["source"], text.lines().count()), (&json!("2"), 1));
    let (value, text) = after(
        short,
        &json!({ "cell_id": "cell-0", "cell_type": "code", "edit_mode": "insert", "new_source": "3" }),
    )
    .unwrap();
    assert_eq!((&value["cells"][1]["source"], value["cells"][1].get("id")), (&json!(["3"]), None));
    assert_eq!(text.lines().count(), 1);
    for empty in ["{\"cells\": [], \"nbformat\": 4}", "{\n \"cells\": [],\n \"nbformat\": 4\n}\n"] {
        let (value, _) = after(empty, &json!({ "cell_type": "code", "edit_mode": "insert" })).unwrap();
        assert_eq!(value["cells"][0]["source"], json!([]));
    }
}

#[test]
fn notebook_errors_use_the_words_of_claude_code() {
    for (request, words) in [
        (json!({ "cell_id": "zz" }), "Cell with ID \"zz\" not found in notebook."),
        (json!({ "cell_id": "cell-2" }), "Cell with ID \"cell-2\" not found in notebook."),
        (json!({}), "Cell ID must be specified when not inserting a new cell."),
        (json!({ "edit_mode": "insert" }), "Cell type is required when using edit_mode=insert."),
        (json!({ "cell_id": "bb", "new_source": null }), "The required parameter `new_source` is missing."),
    ] {
        let said = after(NOTEBOOK, &request).unwrap_err();
        assert!(said.contains(words), "{said}");
    }
    assert!(after("{\"cells\": {}}", &json!({ "cell_id": "cell-0" })).is_err());
}

/// Returns a notebook of cells whose sources are long enough that not all fit into a response.
fn long_notebook(ids: &[Option<&str>]) -> String {
    let cell = |(number, id): (usize, Option<&str>)| {
        let mut cell = json!({ "cell_type": "code", "metadata": {}, "outputs": [], "source": [] });
        cell["source"] = (0..30).map(|line| format!("cell {number}, line {line}\n")).collect();
        id.iter().for_each(|id| cell["id"] = (*id).into());
        cell
    };
    let cells: Vec<Value> = ids.iter().copied().enumerate().map(cell).collect();
    format!("{:#}\n", json!({ "cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5 }))
}

#[test]
fn notebook_edit_needs_the_cells_that_it_changes_to_have_been_shown() {
    let names: Vec<String> = (0..90).map(|number| format!("c{number}")).collect();
    let ids: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
    let text = long_notebook(&ids);
    let edits = [
        json!({ "cell_id": "c80", "new_source": "new" }),
        json!({ "cell_id": "c80", "edit_mode": "delete" }),
        json!({ "cell_id": "c80", "edit_mode": "insert", "cell_type": "code", "new_source": "new" }),
    ];
    for edit in edits {
        let ws = Workspace::with(&[("a.ipynb", &text)]);
        let ask = |tool: &str, request: &Value| {
            ws.lbx(&["--dialect", "claude", tool, "--json", &request.to_string()])
        };
        let edit_of = |id: &str| {
            let mut edit = edit.clone();
            (edit["notebook_path"], edit["cell_id"]) = ("a.ipynb".into(), id.into());
            ask("NotebookEdit", &edit)
        };
        for read in [json!({}), json!({ "offset": 1, "limit": 3 })] {
            let mut read = read;
            read["file_path"] = "a.ipynb".into();
            assert!(!ask("Read", &read).stdout_text().contains("cell 80"));
            let refused = edit_of("c80").stderr();
            assert!(refused.contains("File has not been read yet. Read it first"), "{refused}");
            ws.holds("a.ipynb", &text);
        }
        // A line that all cells share shows them only if all were shown.
        let compact = serde_json::from_str::<Value>(&text).unwrap().to_string();
        ws.write("a.ipynb", &compact);
        ask("Read", &json!({ "file_path": "a.ipynb" })).stdout();
        assert!(edit_of("c5").stderr().contains("File has not been read yet."));
        ws.holds("a.ipynb", &compact);
        ws.write("a.ipynb", &text);
        ask("Read", &json!({ "file_path": "a.ipynb" })).stdout();
        assert_eq!(edit_of("c5").status(), 0, "{edit}");
        let line = std::fs::read_to_string(ws.path("a.ipynb")).unwrap();
        let line = line.lines().position(|line| line.contains("cell 80, line 0")).unwrap();
        ask("Read", &json!({ "file_path": "a.ipynb", "offset": line, "limit": 32 })).stdout();
        assert_eq!(edit_of("c80").status(), 0, "{edit}");
    }
    // Natively too, a cell shows the lines of its source and no others.
    let ws = Workspace::with(&[("a.ipynb", &text)]);
    ws.lbx(&["read", "a.ipynb", "--cell", "2"]).ok();
    let at = 2 + text.lines().position(|line| line.contains("cell 1, line 0")).unwrap();
    let edit = |line: usize| json!({ "path": "a.ipynb", "start_line": line, "end_line": line, "new_string": "\"x\"," });
    ws.json("edit", &edit(at)).ok();
    ws.json("edit", &edit(at + 40)).error("not_read");
}

#[test]
fn notebook_edit_refuses_a_cell_that_several_cells_may_be() {
    for ids in [[Some("x"), Some("x"), None], [Some("cell-1"), None, Some("y")]] {
        let id = ids[0].unwrap();
        let said = after(&long_notebook(&ids), &json!({ "cell_id": id, "new_source": "new" })).unwrap_err();
        assert!(said.contains(&format!("Several cells have the ID \"{id}\"")), "{said}");
        assert!(said.contains("Use the Edit tool to change"), "{said}");
    }
    // Other cells have these numbers after an edit.
    let ws = Workspace::with(&[("a.ipynb", &long_notebook(&[None; 4]))]);
    let ask = |request: &Value| {
        let mut whole = json!({ "notebook_path": "a.ipynb", "new_source": "new", "cell_type": "code" });
        whole.as_object_mut().unwrap().append(&mut request.as_object().unwrap().clone());
        ws.lbx(&["--dialect", "claude", "NotebookEdit", "--json", &whole.to_string()])
    };
    let read = || ws.lbx(&["--dialect", "claude", "Read", "a.ipynb"]).stdout_text();
    for edit in ["delete", "insert"] {
        read();
        assert_eq!(ask(&json!({ "cell_id": "cell-1" })).status(), 0);
        assert_eq!(ask(&json!({ "cell_id": "cell-0", "edit_mode": edit })).status(), 0);
        let refused = ask(&json!({ "cell_id": "cell-2", "new_source": "newer" })).stderr();
        assert!(refused.contains("File has not been read yet."), "{refused}");
    }
    read();
    assert_eq!(ask(&json!({ "cell_id": "cell-2" })).status(), 0);
}
