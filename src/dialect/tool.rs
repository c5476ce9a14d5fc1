//! Definition of a dialect: the tools of a family, their requests and responses, and their error texts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::client::LbxClient;
use crate::error::{Error, ErrorKind, Vocabulary, bounded};
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
    /// Texts of errors, as the family's own tools write them; names in braces are parts of the error and the request.
    pub(super) error_texts: &'static [(ErrorKind, &'static str)],
    /// Frame of each text, with `{}` in its place.
    pub(super) error_frame: &'static str,
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
        output.map_err(|error| match &lbx.options.words {
            Some(words) => error.for_family(words),
            None => error,
        })
    }

    /// Returns the names of the family for a call of one of its tools.
    pub fn vocabulary(&'static self, tool: &'static DialectTool) -> Vocabulary {
        Vocabulary::new(|| {
            let mut names = BTreeMap::new();
            collect_fields(&request::schema_for_callers(tool.schema()), &mut names);
            let listed = self.names.iter().chain(tool.fields);
            names.extend(listed.map(|(native, own)| ((*native).to_owned(), (*own).to_owned())));
            names
        })
    }

    /// Returns an error with the family's text. Such a text repeats parts of the request, which can be very long.
    pub fn words_of(&self, error: &Error, request: &Value) -> String {
        let own = error.details().get(SAID).and_then(Value::as_str);
        let listed = self.error_texts.iter().find(|(kind, _)| *kind == error.kind());
        let said = own.map_or_else(
            || filled(listed.map_or("{message}", |(_, text)| text), |part| error_part(error, request, part)),
            str::to_owned,
        );
        bounded(self.error_frame.replace("{}", &said))
    }

    /// Returns the tool of this name.
    pub fn tool(&self, name: &str) -> Option<&'static DialectTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Returns a template with `value` of each name in braces in its place.
fn filled(template: &str, value: impl Fn(&str) -> String) -> String {
    let (mut said, mut rest) = (String::new(), template);
    while let Some((before, (name, after))) =
        rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        said.extend([before, &value(name)]);
        rest = after;
    }
    said + rest
}

/// Returns a part of the text of an error: `message` with the suggested action, `advice` alone, `count` and `lines` of
/// the matches, or a field of the request; among several edits that of the one that failed.
fn error_part(error: &Error, request: &Value, part: &str) -> String {
    let detail = |name: &str| error.details().get(name);
    match part {
        "message" => format!("{}. {}", error.message().trim_end_matches('.'), error.suggested_action()),
        "advice" => error.suggested_action().to_owned(),
        "count" => detail("count").map_or_else(|| "2".to_owned(), Value::to_string),
        "lines" => {
            let places = detail("places").and_then(Value::as_array).into_iter().flatten();
            let lines = places.filter_map(|place| place.get("line"));
            lines.map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        field => {
            let number =
                detail("edit").and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
            let edits = request.get("edits").and_then(Value::as_array);
            let edit = edits.and_then(|edits| edits.get(number.unwrap_or(1).saturating_sub(1))?.get(field));
            let given = edit.or_else(|| request.get(field)).and_then(Value::as_str);
            // A tool with several files names none in its request.
            let path = error.path().filter(|_| field.to_ascii_lowercase().ends_with("path"));
            given.or(path).unwrap_or_default().to_owned()
        }
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
    /// Message for the model.
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

impl Media {
    /// Returns the file as an MCP block: an image, a sound, or a resource.
    pub fn as_block(&self) -> Value {
        let Self { mime, base64, uri } = self;
        match mime.split('/').next() {
            Some(kind @ ("image" | "audio")) => json!({ "type": kind, "data": base64, "mimeType": mime }),
            _ => json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime, "blob": base64 } }),
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

    /// Returns the JSON Schema of the request, with its description.
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

/// Collects the names of the fields of a schema, including nested ones.
fn collect_fields(schema: &Value, fields: &mut BTreeMap<String, String>) {
    match schema {
        Value::Object(map) => {
            let properties = map.get("properties").and_then(Value::as_object);
            fields
                .extend(properties.into_iter().flat_map(Map::keys).map(|name| (name.clone(), name.clone())));
            map.values().for_each(|inner| collect_fields(inner, fields));
        }
        Value::Array(list) => list.iter().for_each(|inner| collect_fields(inner, fields)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use crate::error::{Error, ErrorKind, Message, text};

    #[test]
    fn a_name_becomes_the_familys_own_and_data_stays() {
        let claude = find("claude").unwrap();
        let words = claude.vocabulary(claude.tool("Grep").unwrap());
        let said = |message: Message, advice: Message| {
            let error = Error::new(ErrorKind::NotFound, message).suggest(advice).for_family(&words);
            (error.message().to_owned(), error.suggested_action().to_owned())
        };
        let (message, advice) = said(
            text!("field `include` is missing: `ls` shows {}, not ls", "`include`. ls"),
            text!("Set `multiline`. Is it {}? Set `timeout_ms`. See `details.near`. Or `glob`.", "b. `ls`"),
        );
        assert_eq!(message, "field `glob` is missing: `LS` shows `include`. ls, not ls");
        assert_eq!(advice, "Set `multiline`. Is it b. `ls`? Or `Glob`.");
        // Advice that has no sentence left is that of the kind.
        let (message, advice) = said("no `rewind` here".into(), "Ask `rewind`.".into());
        assert_eq!(message, "no `rewind` here");
        assert_eq!(advice, ErrorKind::NotFound.suggested_without_names());
        // A text that is not a literal has no names.
        assert_eq!(
            said("`ls`".to_owned().into(), "`ls`".to_owned().into()),
            ("`ls`".to_owned(), "`ls`".to_owned())
        );
    }
}
