//! Settings and patterns: small files and fields that people and programs write.

use lbx::engine::policy::layers;
use lbx::engine::policy::settings::SETTINGS;
use lbx::engine::policy::values;
use lbx::engine::store::audit::LogCursor;
use lbx::engine::store::session::SessionId;
use lbx::engine::workspace::git_files::for_each_path;
use lbx::engine::workspace::path::WorkspacePath;
use lbx::search::globs::{self, PathGlob};
use lbx::search::pattern::{self, PatternOptions};
use lbx::sha256::Sha256;
use lbx::text::jsonc as json;
use serde_json::{Value, json};

use super::split;

/// Parses JSON with comments and changes it: an inserted value is found, and can be removed again.
pub fn jsonc(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(data) else { return };
    let path: &[&str] =
        [&["a"][..], &["a", "b"], &["mcp", "servers", "x"], &["a\"\\"]][usize::from(choice % 4)];
    let value = json!({ "command": "lbx", "args": ["mcp"] });
    let before: Option<Value> = serde_json::from_str(text).ok();
    if let Ok(with) = json::set(text, path, &value) {
        assert_eq!(json::set(&with, path, &value).as_ref(), Ok(&with), "set twice");
        // If a name occurs twice, serde takes the last, and so does lbx.
        if before.is_some() || json::is_empty(text) {
            let after: Value = serde_json::from_str(&with).expect("JSON stays JSON");
            assert_eq!(path.iter().try_fold(&after, |inner, name| inner.get(name)), Some(&value));
        }
        json::remove(&with, path).expect("what was put in can be taken out");
    }
    for changed in
        [json::add_item(text, path, "sign", &json!("sign")), json::remove_items(text, path, "sign")]
    {
        if let (Ok(changed), Some(_)) = (changed, &before) {
            assert!(serde_json::from_str::<Value>(&changed).is_ok(), "JSON stays JSON: {changed}");
        }
    }
    let _ = json::is_empty(text);
}

/// Parses a policy file, and its text as the value of each setting, as a flag gives it.
pub fn policy(data: &[u8]) {
    if let Err(fault) = values::parse(data) {
        assert!(!fault.message.is_empty(), "a fault without words");
        let lines = data.split(|byte| *byte == b'\n').count();
        assert!(
            fault.place.is_none_or(|place| (1..=lines).contains(&place.line)),
            "a fault outside the file"
        );
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    for setting in SETTINGS {
        if let Ok(value) = values::parse_text(setting, text) {
            let _ = layers::toml_text(&value);
        }
    }
    let _ = values::unknown(text);
    let file = format!("[snapshot]\nbranch = {}\n", layers::quoted(text));
    let wrong = values::parse(file.as_bytes()).err().map(|fault| fault.key);
    assert!(wrong.is_none_or(|key| key.is_some()), "a text in quotes ends where it should not: {file}");
}

/// Parses globs and regular expressions, and matches them against a path.
pub fn patterns(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let is = |bit: u8| choice >> bit & 1 == 1;
    let [pattern, path] = split(data);
    let pattern = String::from_utf8_lossy(pattern).into_owned();
    if let Ok(glob) = PathGlob::new(&pattern, is(0)) {
        let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        let is_plain = path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."));
        if is_plain && glob.matches(path) {
            for folder in folders {
                assert!(glob.may_lie_below(folder), "a match lies in a folder that is not entered");
            }
        }
    }
    let base = WorkspacePath::root();
    let patterns = std::slice::from_ref(&pattern);
    let _ = globs::overrides(&base, patterns, &[]);
    let _ = globs::overrides(&base, &[], patterns);
    // Listing all types takes longer than everything else here.
    if is(7) {
        let _ = globs::types(patterns, &[]);
    }
    let _ = values::glob(&pattern);
    let reading = PatternOptions {
        literal: is(1),
        ignore_case: is(2),
        smart_case: is(3),
        word: is(4),
        whole_line: is(5),
        multiline: is(6),
    };
    let _ = pattern::compile(patterns, &reading);
}

/// Parses short values from fields and file names.
pub fn values(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(id) = text.parse::<SessionId>() {
        assert_eq!(id.as_str(), text, "a session of another name");
    }
    if let Ok(sha256) = text.parse::<Sha256>() {
        let digits = text.strip_prefix("sha256:").unwrap_or(&text);
        assert!(sha256.to_hex().eq_ignore_ascii_case(digits), "another digest");
    }
    if let Some(path) = WorkspacePath::new(std::path::Path::new(&*text)) {
        let json = serde_json::to_string(&path).expect("a path is a text");
        assert_eq!(serde_json::from_str::<WorkspacePath>(&json).ok(), Some(path), "a path of another name");
    }
    if let Ok(cursor) = text.parse::<LogCursor>() {
        assert_eq!(cursor.to_string().parse::<LogCursor>().ok(), Some(cursor), "a cursor that moves");
    }
}

/// Lists the paths of an index of git: the same ones however many bytes are read at once, and each is in the bytes.
pub fn indexes(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let id_bytes = if choice & 1 == 0 { 20 } else { 32 };
    let paths = |chunk_bytes| {
        let mut found = Vec::new();
        for_each_path(bytes, id_bytes, chunk_bytes, |path| found.push(path.to_owned())).map(|()| found)
    };
    let whole = paths(1 << 20);
    assert_eq!(paths(1 + usize::from(choice >> 1)), whole);
    let Some(whole) = whole else { return };
    // An entry is never shorter than its fixed part.
    assert!(whole.len() * (id_bytes + 42) <= bytes.len());
    for path in whole.iter().filter(|path| !path.is_empty()) {
        assert!(bytes.windows(path.len()).any(|piece| piece == path.as_slice()));
    }
}
