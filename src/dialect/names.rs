//! What lbx calls its tools and fields, in the names of the family that calls.
//!
//! Errors and warnings of native calls go through this one door on their way to a model family. A name in them
//! is a word in backticks, or a field whose name is no English word (`old_string`). Each becomes the family's
//! own; a sentence of advice that names what the family does not have is left out.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::error::Error;
use crate::request;

/// A native name with the one that the family has for it.
pub type Pair = (&'static str, &'static str);

/// How the caller of a foreign tool calls what lbx has.
pub struct Names {
    /// Native tools, and what the family has for each.
    tools: &'static [Pair],
    /// Native fields that the foreign tool calls otherwise.
    fields: &'static [Pair],
    /// The parameters of the foreign tool.
    own: BTreeSet<String>,
    /// Native fields.
    native: BTreeSet<String>,
}

impl Names {
    /// Those of a family's tool with this schema of its request. `native` are the schemas of what its native
    /// calls take and answer.
    pub fn new(
        tools: &'static [Pair],
        fields: &'static [Pair],
        schema: Value,
        native: impl IntoIterator<Item = Value>,
    ) -> Self {
        let (mut own, mut known) = (BTreeSet::new(), BTreeSet::new());
        collect_fields(&request::advertised(schema), &mut own);
        native.into_iter().for_each(|schema| collect_fields(&schema, &mut known));
        Self { tools, fields, own, native: known }
    }

    /// An error of a native call, for the family.
    pub fn error(&self, error: Error) -> Error {
        let advice = |advice: &str| self.sentences(advice, |renamed| renamed.is_known);
        error.reworded(|message| self.renamed(message).text, advice)
    }

    /// A warning of a native call, for the family. What is in backticks there may be a branch or a file: such a
    /// sentence stays.
    pub fn warning(&self, warning: &str) -> String {
        let known = self.sentences(warning, |renamed| !renamed.lacks_field);
        known.unwrap_or_else(|| self.renamed(warning).text)
    }

    /// The sentences of a text that `stay`; `None` where there are no such.
    fn sentences(&self, text: &str, stay: impl Fn(&Renamed) -> bool) -> Option<String> {
        let sentences = sentences(text).into_iter().map(|sentence| self.renamed(sentence));
        let known: String = sentences.filter(stay).map(|renamed| renamed.text).collect();
        Some(known.trim_end().to_owned()).filter(|known| !known.is_empty())
    }

    /// A text in the family's names; what the family has nothing for keeps its native one.
    fn renamed(&self, text: &str) -> Renamed {
        let mut renamed =
            Renamed { text: String::with_capacity(text.len()), is_known: true, lacks_field: false };
        let mut parts = text.split('`').peekable();
        let mut is_quoted = false;
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            if is_quoted && !is_last && is_name(part) {
                self.rename(part, &mut renamed);
            } else if is_quoted {
                renamed.text.push_str(part);
            } else {
                part.split_inclusive(char::is_whitespace)
                    .for_each(|word| self.rename_word(word, &mut renamed));
            }
            if !is_last {
                renamed.text.push('`');
            }
            is_quoted = !is_quoted;
        }
        renamed
    }

    /// A word without backticks, with the signs round it.
    fn rename_word(&self, word: &str, renamed: &mut Renamed) {
        let name = word.trim_start_matches(['(', '"']);
        let (before, _) = word.split_at(word.len() - name.len());
        let name = name.trim_end().trim_end_matches(['.', ',', ';', ':', '?', ')', '"']);
        let (_, after) = word.split_at(before.len() + name.len());
        renamed.text.push_str(before);
        // Programs alone see the details of an error.
        // Any other word may be meant as it is.
        let is_no_word = name.contains(|letter: char| letter == '_' || letter.is_ascii_digit());
        if name.starts_with("details.") || (is_no_word && self.native.contains(name)) {
            self.rename(name, renamed);
        } else {
            renamed.text.push_str(name);
        }
        renamed.text.push_str(after);
    }

    /// Adds a name: the family's own, else the native one.
    fn rename(&self, native: &str, renamed: &mut Renamed) {
        let own = self.own_name(native);
        renamed.text.push_str(own.unwrap_or(native));
        renamed.is_known &= own.is_some();
        renamed.lacks_field |=
            own.is_none() && (native.starts_with("details.") || self.native.contains(native));
    }

    /// What the family calls a native tool or field.
    fn own_name<'n>(&'n self, native: &str) -> Option<&'n str> {
        let listed = self.fields.iter().chain(self.tools).find(|(name, _)| *name == native);
        listed.map(|(_, own)| *own).or_else(|| self.own.get(native).map(String::as_str))
    }
}

/// A text in the family's names.
struct Renamed {
    /// The text.
    text: String,
    /// Whether the family has all that it names.
    is_known: bool,
    /// Whether it names a native field that the family does not have.
    lacks_field: bool,
}

/// Whether words in backticks name a tool or a field.
fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The sentences of a text, each with the blank after it.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let (mut rest, mut from) = (text, 0);
    while let Some(end) = rest.get(from..).and_then(|text| text.find(['.', '?'])).map(|at| from + at + 1) {
        if rest.get(end..).is_some_and(|after| after.starts_with(' ')) {
            let (sentence, after) = rest.split_at(end + 1);
            sentences.push(sentence);
            (rest, from) = (after, 0);
        } else {
            from = end;
        }
    }
    sentences.push(rest);
    sentences
}

/// Collects the names of the fields of a schema, and of those inside.
fn collect_fields(schema: &Value, fields: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            let properties = map.get("properties").and_then(Value::as_object);
            fields.extend(properties.into_iter().flat_map(|properties| properties.keys().cloned()));
            map.values().for_each(|inner| collect_fields(inner, fields));
        }
        Value::Array(list) => list.iter().for_each(|inner| collect_fields(inner, fields)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use serde_json::json;

    /// The names of a family with `Look` and `Change`, in a call of the latter.
    fn names() -> Names {
        let own = json!({ "properties": { "file": {}, "occurrence": {}, "old": { "x-hidden": true } } });
        let native =
            json!({ "properties": { "old_string": {}, "start_line": {}, "sha256": {}, "path": {} } });
        Names::new(&[("ls", "Look")], &[("path", "file"), ("old_string", "before")], own, [native])
    }

    #[test]
    fn a_name_becomes_the_familys_own() {
        let text = |text| names().renamed(text).text;
        assert_eq!(
            text("field `path` is missing: `ls` shows it"),
            "field `file` is missing: `Look` shows it"
        );
        assert_eq!(text("old_string (old_string, \"old_string\")."), "before (before, \"before\").");
        // Neither a path nor what was quoted is a name.
        for same in
            ["no such file: ./old_string or a/old_string.txt", "the ls of path", "bad `(?=a` `. `x", "`"]
        {
            assert_eq!(text(same), same);
        }
    }

    #[test]
    fn advice_that_names_what_is_not_there_is_left_out() {
        let said = |advice: &str| {
            let error = Error::new(ErrorKind::NotFound, "no `glob` here").suggest(advice.to_owned());
            let error = names().error(error);
            assert_eq!(error.message(), "no `glob` here");
            error.suggested_action().to_owned()
        };
        assert_eq!(said("Take `occurrence`. Or `start_line` 3.5. Or `ls`."), "Take `occurrence`. Or `Look`.");
        assert_eq!(said("Is it b.txt? Copy old_string. details.near has it."), "Is it b.txt? Copy before.");
        assert_eq!(said("Ask `glob`."), ErrorKind::NotFound.suggested_without_names());
        assert_eq!(names().warning("Line 3 has no sha256."), "Line 3 has no sha256.");
        let warning = "No snapshot: the filter `lfs` is missing. Set `path`. Set start_line.";
        assert_eq!(names().warning(warning), "No snapshot: the filter `lfs` is missing. Set `file`.");
    }
}
