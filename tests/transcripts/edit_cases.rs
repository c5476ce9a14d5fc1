//! Edits as a table: `tests/cases/edit/*.json`.
//!
//! Each case is a file, a request and the result. The result is all bytes of the file and how the old text matched, or
//! an error with the text that it must contain; after an error every byte stays. `as` names the encoding of the file on
//! disk, and `range_of` the lines whose SHA-256 the request gives.

use std::path::Path;

use lbx::sha256::Sha256;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::common::Workspace;

/// One row of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Description of the case.
    name: String,
    /// Name of the file, which determines its language.
    path: String,
    /// Encoding of the texts on disk; UTF-8 by default.
    #[serde(default, rename = "as")]
    encoding: String,
    /// Text of the file.
    file: String,
    /// Request, without path and proof.
    request: Value,
    /// Lines whose SHA-256 replaces `right` in the request.
    range_of: Option<(usize, usize)>,
    /// Text of the file afterwards.
    after: Option<String>,
    /// Match of the old text.
    r#match: Option<String>,
    /// Part of the only warning.
    warns: Option<String>,
    /// Kind of the error.
    error: Option<String>,
    /// Content of the error, as JSON.
    #[serde(default)]
    says: Vec<String>,
}

impl Case {
    /// Returns a text in the encoding of the file.
    fn bytes(&self, text: &str) -> Vec<u8> {
        let utf16 = |to_bytes: fn(u16) -> [u8; 2]| {
            std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(to_bytes).collect()
        };
        match self.encoding.as_str() {
            "" => text.as_bytes().to_vec(),
            "utf-8-bom" => [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            "utf-16le" => utf16(u16::to_le_bytes),
            "utf-16be" => utf16(u16::to_be_bytes),
            "latin-1" => text.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap()).collect(),
            other => panic!("{}: no encoding {other}", self.name),
        }
    }

    /// Returns the request with the path and the proof of having seen the file.
    fn request(&self, path: &str) -> Value {
        let mut request = self.request.clone();
        request["path"] = path.into();
        request["expected_sha256"] = Sha256::of(&self.bytes(&self.file)).to_hex().into();
        if let Some((first, last)) = self.range_of {
            let text: Vec<&str> = self.file.split_inclusive('\n').collect();
            let before = self.bytes(&text[..first - 1].concat()).len();
            let until = self.bytes(&text[..last].concat()).len();
            // A byte-order mark belongs to the first line.
            let before = if first == 1 { 0 } else { before };
            let range = &self.bytes(&self.file)[before..until];
            request["range_sha256"] = Sha256::of(range).to_hex().into();
        }
        request
    }

    /// Returns the mistakes in the answer and in the file afterwards; empty if all is right.
    fn faults(&self, answer: &Value, held: &[u8]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |holds: bool, what: String| {
            if !holds {
                faults.push(what);
            }
        };
        let wanted = self.bytes(self.after.as_ref().unwrap_or(&self.file));
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        check(held == wanted, format!("the file holds {:?}, not {:?}", shown(held), shown(&wanted)));
        let kind = answer["error"]["kind"].as_str();
        check(kind == self.error.as_deref(), format!("refused with {kind:?}, not {:?}", self.error));
        if self.error.is_some() {
            let text = answer["error"].to_string();
            let missing: Vec<&String> = self.says.iter().filter(|part| !text.contains(*part)).collect();
            check(missing.is_empty(), format!("does not say {missing:?}"));
        } else {
            let found = answer["data"]["match"].as_str();
            check(found == self.r#match.as_deref(), format!("matched by {found:?}, not {:?}", self.r#match));
            let sha256 = answer["data"]["sha256"].as_str().map(str::to_owned);
            check(sha256 == Some(Sha256::of(held).to_hex()), "answers another sha256".to_owned());
            let warnings = answer["warnings"].to_string();
            let is_as_wanted = match &self.warns {
                Some(part) => warnings.contains(part.as_str()),
                None => answer.get("warnings").is_none(),
            };
            check(is_as_wanted, format!("warns {warnings}, not {:?}", self.warns));
        }
        faults
    }
}

/// Makes the calls of one table and checks each.
#[track_caller]
fn table(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/edit").join(name);
    let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let ws = Workspace::bare(&[]);
    let paths: Vec<String> =
        cases.iter().enumerate().map(|(number, case)| format!("{number}/{}", case.path)).collect();
    let mut batch: Vec<String> = Vec::with_capacity(cases.len());
    for (case, path) in cases.iter().zip(&paths) {
        ws.write(path, case.bytes(&case.file));
        batch.push(json!({ "tool": "edit", "request": case.request(path) }).to_string());
    }
    let answers = ws.lbx_stdin(&["batch"], batch.join("\n")).lines();
    assert_eq!(answers.len(), cases.len());
    let mut failures: Vec<String> = Vec::new();
    for ((case, path), answer) in cases.iter().zip(&paths).zip(&answers) {
        for fault in case.faults(answer, &ws.read_bytes(path)) {
            failures.push(format!("{name}: {}: {fault}\n    {answer}", case.name));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn exact_edits_keep_every_other_byte() {
    table("exact.json");
}

#[test]
fn each_match_tier_works_in_every_language() {
    table("flexible.json");
}

#[test]
fn repeated_text_is_ambiguous_in_every_tier() {
    table("ambiguous.json");
}

#[test]
fn decoys_are_not_edited() {
    table("decoys.json");
}

#[test]
fn no_match_shows_the_intended_line() {
    table("diagnosis.json");
}

#[test]
fn matches_are_selected_by_number_and_lines() {
    table("places.json");
}

#[test]
fn sketch_changes_the_code_that_it_names() {
    table("sketch.json");
}

#[test]
fn omission_markers_are_not_written() {
    table("omission.json");
}

#[test]
fn contradictory_edit_requests_are_rejected() {
    table("requests.json");
}
