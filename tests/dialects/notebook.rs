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
