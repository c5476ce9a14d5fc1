//! What a dialect is: a family's tools, their requests and answers, and its words for errors.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::names::{Names, Pair};
use super::native::Native;
use crate::error::{Error, ErrorKind, bounded};
use crate::request;
use crate::tools::{Effect, Image};

/// The tools of one model family.
pub struct Dialect {
    /// The value of `--dialect`.
    pub name: &'static str,
    /// Whether a model family was trained on it: the name of such a tool alone then picks it.
    pub is_model_family: bool,
    /// Its tools, in the order in which clients see them.
    pub tools: &'static [ForeignTool],
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
    pub fn call(&self, tool: &ForeignTool, lbx: &mut Native<'_>, request: Value) -> Result<Said, Error> {
        (tool.run)(lbx, request, self.names)
    }

    /// An error in the family's words. They repeat what the request holds, which may be very long.
    #[must_use]
    pub fn words_of(&self, error: &Error, request: &Value) -> String {
        bounded((self.error_text)(&Failure { error, request }))
    }

    /// Its tool of that name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&'static ForeignTool> {
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
    /// A field of the request that is text.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        self.request.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// A number among the details.
    #[must_use]
    pub fn number(&self, detail: &str) -> Option<u64> {
        self.error.details().get(detail)?.as_u64()
    }

    /// The lines of the places that matched, as a list in a sentence.
    #[must_use]
    pub fn lines(&self) -> String {
        let places = self.error.details().get("places").and_then(Value::as_array);
        let lines = places.into_iter().flatten().filter_map(|place| place.get("line"));
        lines.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// What the family's own tool would say where the error has its words, else the native message and what
    /// to do next.
    #[must_use]
    pub fn words(&self) -> String {
        self.said().map_or_else(
            || format!("{}. {}", self.error.message().trim_end_matches('.'), self.error.suggested_action()),
            str::to_owned,
        )
    }

    /// What the family's own tool would say, where the error has its words.
    #[must_use]
    pub fn said(&self) -> Option<&str> {
        self.error.details().get(SAID).and_then(Value::as_str)
    }
}

/// The detail of an error that holds what the family's own tool would say.
const SAID: &str = "said";

/// An error in the words of the family's own tool.
pub(super) fn refused(kind: ErrorKind, path: &str, words: impl Into<String>) -> Error {
    let words = bounded(words.into());
    Error::new(kind, words.clone()).at(path).detail(SAID, words)
}

/// What a foreign tool answers.
#[derive(Debug, Default)]
pub struct Said {
    /// The text that the model sees.
    pub text: String,
    /// Images, each a block of its own over MCP.
    pub images: Vec<Image>,
    /// Other files, each a block of its own over MCP.
    pub media: Vec<Media>,
    /// What an MCP client gets as structured content.
    pub structured: Option<Value>,
    /// Whether the tool failed, and the text says how: a command that did not succeed.
    pub is_error: bool,
}

impl From<String> for Said {
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

    /// The file as a block of MCP: an image, a sound, or a resource.
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

impl From<&str> for Said {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// One tool of a family.
pub trait Foreign {
    /// Its name in the family.
    const NAME: &'static str;
    /// What it may do.
    const EFFECT: Effect;
    /// The description that a model sees, where several tools share one shape of request.
    const ABOUT: Option<&'static str> = None;
    /// Whether it reads the files that its request names.
    const READS_FILES: bool = false;
    /// Whether it runs commands, which may take as long as they like.
    const RUNS_COMMANDS: bool = false;
    /// Native fields that its parameters call otherwise.
    const FIELDS: &'static [Pair] = &[];
    /// Its parameters; without [`Self::ABOUT`] the doc comment is the description that a model sees.
    type Request: DeserializeOwned + JsonSchema + 'static;

    /// Carries out a request by native calls.
    ///
    /// # Errors
    /// Those of the native calls.
    fn run(lbx: &mut Native<'_>, request: Self::Request) -> Result<Said, Error>;
}

/// A foreign tool with its types erased.
pub struct ForeignTool {
    /// Its name in the family.
    pub name: &'static str,
    /// What it may do.
    pub effect: Effect,
    /// Whether it reads the files that its request names.
    pub reads_files: bool,
    /// Whether it runs commands.
    pub runs_commands: bool,
    /// Native fields that its parameters call otherwise.
    fields: &'static [Pair],
    /// What [`Foreign::ABOUT`] says of it.
    about: Option<&'static str>,
    /// The JSON Schema of its request.
    request_schema: fn() -> Value,
    /// Carries out a request, with the names that the family has for native tools.
    run: fn(&mut Native<'_>, Value, &'static [Pair]) -> Result<Said, Error>,
}

/// Erases the types of a tool.
pub(super) const fn foreign<T: Foreign>() -> ForeignTool {
    ForeignTool {
        name: T::NAME,
        effect: T::EFFECT,
        reads_files: T::READS_FILES,
        runs_commands: T::RUNS_COMMANDS,
        fields: T::FIELDS,
        about: T::ABOUT,
        request_schema: request::schema_of::<T::Request>,
        run: run::<T>,
    }
}

/// Carries out a request. What is wrong with its form is said in the family's names already.
fn run<T: Foreign>(lbx: &mut Native<'_>, value: Value, tools: &'static [Pair]) -> Result<Said, Error> {
    let request = request::parse::<T::Request>(value)?;
    let said = T::run(lbx, request);
    if said.is_ok() && lbx.outcome.warnings.is_empty() {
        return said;
    }
    let names = foreign::<T>().names(tools, lbx.schemas());
    let warnings = lbx.outcome.warnings.iter().map(|warning| names.warning(warning)).collect();
    lbx.outcome.warnings = warnings;
    said.map_err(|error| names.error(error))
}

impl ForeignTool {
    /// How its caller calls what lbx has: `tools` are the native ones that the family knows, `native` the
    /// schemas of what the native calls take and answer.
    pub(super) fn names(&self, tools: &'static [Pair], native: impl IntoIterator<Item = Value>) -> Names {
        Names::new(tools, self.fields, self.schema(), native)
    }

    /// The JSON Schema of its request, with its description.
    #[must_use]
    pub fn schema(&self) -> Value {
        let mut schema = (self.request_schema)();
        if let (Some(about), Some(schema)) = (self.about, schema.as_object_mut()) {
            schema.insert("description".to_owned(), about.into());
        }
        schema
    }
}
