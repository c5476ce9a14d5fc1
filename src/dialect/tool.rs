//! What a dialect is: a family's tools, their requests and answers, and its words for errors.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::client::LbxClient;
use crate::error::{Error, ErrorKind, bounded};
use crate::request;
use crate::tools::{Effect, Image};

/// The tools of one model family.
pub struct Dialect {
    /// The value of `--dialect`.
    pub name: &'static str,
    /// True if a model family was trained on it: the name of such a tool alone then picks it.
    pub is_model_family: bool,
    /// Its tools, in the order in which clients see them.
    pub tools: &'static [DialectTool],
    /// Native tools that errors and warnings name, and what the family has for each.
    pub(super) names: &'static [Pair],
    /// Words an error as the family's own tool does.
    pub(super) error_text: fn(&Failure<'_>) -> String,
    /// Where it does not do what the family's own tools do, a sentence each.
    pub differences: &'static [&'static str],
}

impl Dialect {
    /// Carries out a request to one of its tools.
    ///
    /// # Errors
    /// Those of the native calls, in the names of the family.
    pub fn call(
        &self,
        tool: &DialectTool,
        lbx: &mut LbxClient<'_>,
        request: Value,
    ) -> Result<ToolOutput, Error> {
        // A request of the wrong form is refused in the family's names already.
        let output = (tool.run)(lbx, request)?;
        if output.is_ok() && lbx.outcome.warnings.is_empty() {
            return output;
        }
        let names = tool.names(self.names, lbx.schemas());
        lbx.outcome.warnings = lbx.outcome.warnings.iter().map(|warning| names.warning(warning)).collect();
        output.map_err(|error| names.error(error))
    }

    /// Returns an error in the family's words. They repeat what the request holds, which may be very long.
    #[must_use]
    pub fn words_of(&self, error: &Error, request: &Value) -> String {
        bounded((self.error_text)(&Failure { error, request }))
    }

    /// Returns its tool of that name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&'static DialectTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// An error with the request that met it.
pub(super) struct Failure<'a> {
    /// What was wrong.
    pub error: &'a Error,
    /// The family's request.
    pub request: &'a Value,
}

impl Failure<'_> {
    /// Returns a field of the request that is text.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        self.request.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a number among the details.
    #[must_use]
    pub fn number(&self, detail: &str) -> Option<u64> {
        self.error.details().get(detail)?.as_u64()
    }

    /// Returns the lines of the places that matched, as a list in a sentence.
    #[must_use]
    pub fn lines(&self) -> String {
        let places = self.error.details().get("places").and_then(Value::as_array);
        let lines = places.into_iter().flatten().filter_map(|place| place.get("line"));
        lines.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Returns what the family's own tool would say where the error has its words, else the native message and what
    /// to do next.
    #[must_use]
    pub fn words(&self) -> String {
        self.said().map_or_else(
            || format!("{}. {}", self.error.message().trim_end_matches('.'), self.error.suggested_action()),
            str::to_owned,
        )
    }

    /// Returns what the family's own tool would say, where the error has its words.
    #[must_use]
    pub fn said(&self) -> Option<&str> {
        self.error.details().get(SAID).and_then(Value::as_str)
    }
}

/// The detail of an error that holds what the family's own tool would say.
const SAID: &str = "said";

/// Returns an error in the words of the family's own tool.
pub(super) fn refused(kind: ErrorKind, path: &str, words: impl Into<String>) -> Error {
    let words = bounded(words.into());
    Error::new(kind, words.clone()).at(path).detail(SAID, words)
}

/// Returns a parameter that a command needs; `subject` names it in the error.
pub(super) fn required<T>(value: Option<T>, field: &str, subject: &str) -> Result<T, Error> {
    value.ok_or_else(|| {
        Error::invalid(format!("{subject} is required for this command")).detail("field", field)
    })
}

/// What a foreign tool answers.
#[derive(Debug, Default)]
pub struct ToolOutput {
    /// The text that the model sees.
    pub text: String,
    /// Images, each a block of its own over MCP.
    pub images: Vec<Image>,
    /// Other files, each a block of its own over MCP.
    pub media: Vec<Media>,
    /// What an MCP client gets as structured content.
    pub structured: Option<Value>,
    /// True if the tool failed, and the text says how: a command that did not succeed.
    pub is_error: bool,
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// A file as a whole.
#[derive(Debug)]
pub struct Media {
    /// Its MIME type.
    pub mime: String,
    /// Its bytes, encoded.
    pub base64: String,
    /// Where it is.
    pub uri: String,
}

/// As what a client is shown a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaKind {
    /// A picture.
    Image,
    /// A sound.
    Audio,
    /// Bytes with their address.
    Resource,
}

impl Media {
    /// As what a client is shown it.
    #[must_use]
    pub fn kind(&self) -> MediaKind {
        match self.mime.split('/').next() {
            Some("image") => MediaKind::Image,
            Some("audio") => MediaKind::Audio,
            _ => MediaKind::Resource,
        }
    }

    /// Returns the file as a block of MCP: an image, a sound, or a resource.
    #[must_use]
    pub fn as_block(&self) -> Value {
        let Self { mime, base64, uri } = self;
        match self.kind() {
            MediaKind::Image => json!({ "type": "image", "data": base64, "mimeType": mime }),
            MediaKind::Audio => json!({ "type": "audio", "data": base64, "mimeType": mime }),
            MediaKind::Resource => {
                json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime, "blob": base64 } })
            }
        }
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Parses a request, and carries it out by native calls. The outer error is one of the request's form.
pub(super) type Run = fn(&mut LbxClient<'_>, Value) -> Result<Result<ToolOutput, Error>, Error>;

/// One tool of a family: a row of its table.
pub struct DialectTool {
    /// Name in the family.
    pub name: &'static str,
    /// Effect on the workspace.
    pub effect: Effect,
    /// True if it reads the files that its request names.
    pub reads_files: bool,
    /// True if it runs commands, which may take as long as they like.
    pub runs_commands: bool,
    /// Native fields that its parameters call otherwise.
    pub(super) fields: &'static [Pair],
    /// Description that a model sees, if several tools share one shape of request; else the doc comment of the
    /// request is the description.
    pub(super) about: Option<&'static str>,
    /// JSON Schema of its request.
    pub(super) request_schema: fn() -> Value,
    /// Carries out a request.
    pub(super) run: Run,
}

/// Makes a row of a dialect's table from a name, an effect, the function that carries a request out, and those of the
/// other fields that differ from the default.
macro_rules! tool {
    ($name:literal, $effect:ident, $run:path $(, $field:ident: $value:expr)*) => {
        $crate::dialect::tool::DialectTool {
            $($field: $value,)*
            ..$crate::dialect::tool::DialectTool::new(
                $name,
                $crate::tools::Effect::$effect,
                || $crate::dialect::tool::schema_of($run),
                |lbx, request| Ok($run(lbx, $crate::request::parse(request)?)),
            )
        }
    };
}
pub(super) use tool;

/// Returns the schema of the request that a tool's function takes.
pub(super) fn schema_of<R: JsonSchema + 'static>(
    _: fn(&mut LbxClient<'_>, R) -> Result<ToolOutput, Error>,
) -> Value {
    request::schema_of::<R>()
}

impl DialectTool {
    /// Makes a tool that neither reads the files of its request nor runs commands.
    pub(super) const fn new(
        name: &'static str,
        effect: Effect,
        request_schema: fn() -> Value,
        run: Run,
    ) -> Self {
        Self {
            name,
            effect,
            reads_files: false,
            runs_commands: false,
            fields: &[],
            about: None,
            request_schema,
            run,
        }
    }

    /// Returns how its caller calls what lbx has: `tools` are the native ones that the family knows, `native` the
    /// schemas of what the native calls take and answer.
    pub(super) fn names(&self, tools: &'static [Pair], native: impl IntoIterator<Item = Value>) -> Names {
        Names::new(tools, self.fields, self.schema(), native)
    }

    /// Returns the JSON Schema of its request, with its description.
    #[must_use]
    pub fn schema(&self) -> Value {
        let mut schema = (self.request_schema)();
        if let (Some(about), Some(schema)) = (self.about, schema.as_object_mut()) {
            schema.insert("description".to_owned(), about.into());
        }
        schema
    }
}

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
    /// Returns the names of a family's tool with this schema of its request. `native` are the schemas of what its native
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

    /// Returns an error of a native call, for the family.
    pub fn error(&self, error: Error) -> Error {
        let advice = |advice: &str| self.sentences(advice, |renamed| renamed.is_known);
        error.reworded(|message| self.renamed(message).text, advice)
    }

    /// Returns a warning of a native call, for the family. What is in backticks there may be a branch or a file: such
    /// a sentence stays.
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

    /// Returns a text in the family's names; what the family has nothing for keeps its native one.
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

    /// Returns what the family calls a native tool or field.
    fn own_name<'n>(&'n self, native: &str) -> Option<&'n str> {
        let listed = self.fields.iter().chain(self.tools).find(|(name, _)| *name == native);
        listed.map(|(_, own)| *own).or_else(|| self.own.get(native).map(String::as_str))
    }
}

/// A text in the family's names.
struct Renamed {
    /// The text.
    text: String,
    /// True if the family has all that it names.
    is_known: bool,
    /// True if it names a native field that the family does not have.
    lacks_field: bool,
}

/// Returns true if words in backticks name a tool or a field.
fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Returns the sentences of a text, each with the blank after it.
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
    use serde_json::json;

    use super::*;
    use crate::error::ErrorKind;

    /// Returns the names of a family with `Look` and `Change`, in a call of the latter.
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
