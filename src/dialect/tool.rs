//! Definition of a dialect: the tools of a family, their requests and responses, and their error texts.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::client::LbxClient;
use crate::error::{Error, ErrorKind, bounded};
use crate::request;
use crate::tools::{Effect, Image};

/// Tools of one model family.
pub struct Dialect {
    /// Value of `--dialect`.
    pub name: &'static str,
    /// True if a model family was trained on it: the name of one of its tools then selects it.
    pub is_model_family: bool,
    /// Tools, in the order in which clients see them.
    pub tools: &'static [DialectTool],
    /// Native tools that errors and warnings name, each with the family's tool.
    pub(super) names: &'static [Pair],
    /// Function that returns the text of an error, as the family's own tool writes it.
    pub(super) error_text: fn(&Failure<'_>) -> String,
    /// Differences from the family's own tools, one sentence each.
    pub differences: &'static [&'static str],
}

impl Dialect {
    /// Runs a request to one of its tools.
    ///
    /// # Errors
    /// Returns the errors of the native calls, with the names of the family.
    pub fn call(
        &self,
        tool: &DialectTool,
        lbx: &mut LbxClient<'_>,
        request: Value,
    ) -> Result<ToolOutput, Error> {
        // An error about the form of the request already uses the names of the family.
        let output = (tool.run)(lbx, request)?;
        if output.is_ok() && lbx.outcome.warnings.is_empty() {
            return output;
        }
        let names = tool.names(self.names, lbx.schemas());
        lbx.outcome.warnings = lbx.outcome.warnings.iter().map(|warning| names.warning(warning)).collect();
        output.map_err(|error| names.error(error))
    }

    /// Returns an error with the family's text. Such a text repeats parts of the request, which can be very long.
    #[must_use]
    pub fn words_of(&self, error: &Error, request: &Value) -> String {
        bounded((self.error_text)(&Failure { error, request }))
    }

    /// Returns the tool of this name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&'static DialectTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Error with the request that caused it.
pub(super) struct Failure<'a> {
    /// Error of the native call.
    pub error: &'a Error,
    /// Request to the tool of the family.
    pub request: &'a Value,
}

impl Failure<'_> {
    /// Returns a string field of the request.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        self.request.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a number in the details.
    #[must_use]
    pub fn number(&self, detail: &str) -> Option<u64> {
        self.error.details().get(detail)?.as_u64()
    }

    /// Returns the line numbers of the matches, as a list in a sentence.
    #[must_use]
    pub fn lines(&self) -> String {
        let places = self.error.details().get("places").and_then(Value::as_array);
        let lines = places.into_iter().flatten().filter_map(|place| place.get("line"));
        lines.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Returns the text of the family's own tool if the error has it, else the native message with its suggested
    /// action.
    #[must_use]
    pub fn words(&self) -> String {
        self.said().map_or_else(
            || format!("{}. {}", self.error.message().trim_end_matches('.'), self.error.suggested_action()),
            str::to_owned,
        )
    }

    /// Returns the text of the family's own tool, if the error has it.
    #[must_use]
    pub fn said(&self) -> Option<&str> {
        self.error.details().get(SAID).and_then(Value::as_str)
    }
}

/// Detail of an error with the text of the family's own tool.
const SAID: &str = "said";

/// Returns an error with the text of the family's own tool.
pub(super) fn refused(kind: ErrorKind, path: &str, words: impl Into<String>) -> Error {
    let words = bounded(words.into());
    Error::new(kind, words.clone()).at(path).detail(SAID, words)
}

/// Returns a parameter that a command needs; `subject` names the command in the error.
pub(super) fn required<T>(value: Option<T>, field: &str, subject: &str) -> Result<T, Error> {
    value.ok_or_else(|| {
        Error::invalid(format!("{subject} is required for this command")).detail("field", field)
    })
}

/// Output of a foreign tool.
#[derive(Debug, Default)]
pub struct ToolOutput {
    /// Text for the model.
    pub text: String,
    /// Images; each is an MCP block.
    pub images: Vec<Image>,
    /// Other files; each is an MCP block.
    pub media: Vec<Media>,
    /// Structured content for an MCP client.
    pub structured: Option<Value>,
    /// True if the tool failed, for example a command with a failure status; the text explains it.
    pub is_error: bool,
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// Whole file.
#[derive(Debug)]
pub struct Media {
    /// MIME type of the file.
    pub mime: String,
    /// Bytes of the file in base64.
    pub base64: String,
    /// Address of the file.
    pub uri: String,
}

/// Kind of MCP block for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaKind {
    /// Picture.
    Image,
    /// Sound.
    Audio,
    /// Bytes with a URI.
    Resource,
}

impl Media {
    /// Returns the kind of block for the file.
    #[must_use]
    pub fn kind(&self) -> MediaKind {
        match self.mime.split('/').next() {
            Some("image") => MediaKind::Image,
            Some("audio") => MediaKind::Audio,
            _ => MediaKind::Resource,
        }
    }

    /// Returns the file as an MCP block: an image, a sound, or a resource.
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

/// Parses a request, and runs it with native calls. The outer error means that the request is malformed.
pub(super) type Run = fn(&mut LbxClient<'_>, Value) -> Result<Result<ToolOutput, Error>, Error>;

/// One tool of a family.
pub struct DialectTool {
    /// Name in the family.
    pub name: &'static str,
    /// Effect on the workspace.
    pub effect: Effect,
    /// True if it reads the files that its request names.
    pub reads_files: bool,
    /// True if it runs commands, which can take any time.
    pub runs_commands: bool,
    /// Native fields whose parameters have other names.
    pub(super) fields: &'static [Pair],
    /// Description for the model, if several tools share one request type; otherwise the doc comment of the request is
    /// the description.
    pub(super) about: Option<&'static str>,
    /// JSON Schema of the request.
    pub(super) request_schema: fn() -> Value,
    /// Function that runs a request.
    pub(super) run: Run,
}

/// Makes a `DialectTool` from a name, an effect, the function that runs a request, and the fields that differ from the
/// default.
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

/// Returns the schema of the request type of a function.
pub(super) fn schema_of<R: JsonSchema + 'static>(
    _: fn(&mut LbxClient<'_>, R) -> Result<ToolOutput, Error>,
) -> Value {
    request::schema_of::<R>()
}

impl DialectTool {
    /// Makes a tool that does not read the files of its request and runs no commands.
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

    /// Returns the names of the family for native tools and fields: `tools` are the native tools that the family knows,
    /// `native` the schemas of the requests and responses of the native calls.
    pub(super) fn names(&self, tools: &'static [Pair], native: impl IntoIterator<Item = Value>) -> Names {
        Names::new(tools, self.fields, self.schema(), native)
    }

    /// Returns the JSON Schema of the request, with its description.
    #[must_use]
    pub fn schema(&self) -> Value {
        let mut schema = (self.request_schema)();
        if let (Some(about), Some(schema)) = (self.about, schema.as_object_mut()) {
            schema.insert("description".to_owned(), about.into());
        }
        schema
    }
}

/// Native name and the name in the family.
pub type Pair = (&'static str, &'static str);

/// Names of the family for native tools and fields.
pub struct Names {
    /// Native tools with the tools of the family.
    tools: &'static [Pair],
    /// Native fields with other names in the foreign tool.
    fields: &'static [Pair],
    /// Parameters of the foreign tool.
    own: BTreeSet<String>,
    /// Native fields.
    native: BTreeSet<String>,
}

impl Names {
    /// Returns the names for a tool of a family with this request schema. `native` are the schemas of the requests and
    /// responses of its native calls.
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

    /// Converts an error of a native call to the names of the family.
    pub fn error(&self, error: Error) -> Error {
        let advice = |advice: &str| self.sentences(advice, |renamed| renamed.is_known);
        error.reworded(|message| self.renamed(message).text, advice)
    }

    /// Converts a warning of a native call to the names of the family. A name in backticks may be a branch or a file;
    /// such a sentence stays.
    pub fn warning(&self, warning: &str) -> String {
        let known = self.sentences(warning, |renamed| !renamed.lacks_field);
        known.unwrap_or_else(|| self.renamed(warning).text)
    }

    /// Returns the sentences of a text that `stay` selects; `None` if there are none.
    fn sentences(&self, text: &str, stay: impl Fn(&Renamed) -> bool) -> Option<String> {
        let sentences = sentences(text).into_iter().map(|sentence| self.renamed(sentence));
        let known: String = sentences.filter(stay).map(|renamed| renamed.text).collect();
        Some(known.trim_end().to_owned()).filter(|known| !known.is_empty())
    }

    /// Returns a text in the names of the family; other names stay.
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

    /// Renames a word without backticks; keeps the punctuation.
    fn rename_word(&self, word: &str, renamed: &mut Renamed) {
        let name = word.trim_start_matches(['(', '"']);
        let (before, _) = word.split_at(word.len() - name.len());
        let name = name.trim_end().trim_end_matches(['.', ',', ';', ':', '?', ')', '"']);
        let (_, after) = word.split_at(before.len() + name.len());
        renamed.text.push_str(before);
        // Only programs see the details of an error. Any other word may be plain English.
        let is_no_word = name.contains(|letter: char| letter == '_' || letter.is_ascii_digit());
        if name.starts_with("details.") || (is_no_word && self.native.contains(name)) {
            self.rename(name, renamed);
        } else {
            renamed.text.push_str(name);
        }
        renamed.text.push_str(after);
    }

    /// Adds a name: the family's name, else the native one.
    fn rename(&self, native: &str, renamed: &mut Renamed) {
        let own = self.own_name(native);
        renamed.text.push_str(own.unwrap_or(native));
        renamed.is_known &= own.is_some();
        renamed.lacks_field |=
            own.is_none() && (native.starts_with("details.") || self.native.contains(native));
    }

    /// Returns the family's name for a native tool or field.
    fn own_name<'n>(&'n self, native: &str) -> Option<&'n str> {
        let listed = self.fields.iter().chain(self.tools).find(|(name, _)| *name == native);
        listed.map(|(_, own)| *own).or_else(|| self.own.get(native).map(String::as_str))
    }
}

/// Text in the names of the family.
struct Renamed {
    /// Text after the change of names.
    text: String,
    /// True if the family has every name in the text.
    is_known: bool,
    /// True if the text names a native field that the family does not have.
    lacks_field: bool,
}

/// Returns true if a text in backticks names a tool or a field.
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

/// Collects the names of the fields of a schema, including nested ones.
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

    /// Returns the names of a test family with `Look` and `Change`, for a call of `Change`.
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
        // Paths and quoted texts are not names.
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
