//! Tools: the trait of a tool, and one file for each. The list of tools is [`crate::catalog`].

pub mod append;
pub mod audit;
pub mod bash;
pub mod blame;
pub mod common;
pub mod config;
pub mod delete;
pub mod diff;
pub mod doctor;
pub mod edit;
pub mod fork;
pub mod fork_changes;
pub mod gc;
pub mod glob;
pub mod grep;
pub mod hook;
pub mod init;
pub mod insert;
pub mod log;
pub mod ls;
pub mod merge;
pub mod mkdir;
pub mod r#move;
pub mod patch;
pub mod read;
pub mod review;
pub mod rewind;
pub mod sandbox;
pub mod section;
pub mod session;
pub mod snapshot;
mod targets;
pub mod trash;
pub mod turns;
pub mod undo;
pub mod watch;
pub mod write;

use std::borrow::Cow;
use std::io::Write;

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::engine::Engine;
use crate::engine::workspace::path::ShownPath;
use crate::envelope::ResponseFrame;
use crate::error::Error;
use crate::request;
use crate::text::escaped;

/// Effect of a tool on the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Reads only.
    Reads,
    /// Adds, and overwrites nothing.
    Adds,
    /// Changes files; the old bytes are kept.
    Writes,
}

/// Use of stdin for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Not used, unless `--json -` says so.
    Ignored,
    /// JSON, if the tool has no arguments.
    Request,
    /// JSON if the tool has no arguments, else the text of a field.
    Bulk {
        /// Field that the text is for.
        field: &'static str,
        /// Fields that replace the text: if one is given, stdin is not read.
        unless: &'static [&'static str],
    },
}

impl Stdin {
    /// Returns the error for a request by flags. If the text that may come on stdin is missing, adds the ways to give
    /// it.
    fn explain(self, error: Error) -> Error {
        match self {
            Self::Bulk { field, .. }
                if error.details().get("field").is_some_and(|missing| missing == field) =>
            {
                let flag = field.replace('_', "-");
                error.suggest(format!(
                    "Give it as --{flag} (or --{flag} @FILE), in --json, or on stdin (`… < FILE`, a pipe, a here-document); /dev/null and a terminal hold no text."
                ))
            }
            Self::Ignored | Self::Request | Self::Bulk { .. } => error,
        }
    }
}

/// Tool: a request type, a response type, and the function between them.
pub trait Tool {
    /// Name on the wire and on the command line.
    const NAME: &'static str;
    /// Aliases that models use; accepted but not advertised.
    const ALIASES: &'static [&'static str] = &[];
    /// Request fields that a tool list shows to a model, separated by blanks; `edits.word` is a field of the items of
    /// `edits`. Other fields are still accepted: a model pays for each field it is shown, in every conversation.
    const LISTED: &'static str = "";
    /// True if the tool is one of the few that most work needs.
    const CORE: bool = false;
    /// Effect on the workspace.
    const EFFECT: Effect;
    /// Use of stdin.
    const STDIN: Stdin = Stdin::Ignored;
    /// Fields for which the value `-` means the bulk text on stdin.
    const DASH: &'static [&'static str] = &[];
    /// True if the bulk text on stdin, without any argument, is a request.
    const BULK_ALONE: bool = false;
    /// True if it prints text unless JSON is asked for.
    const TEXT_BY_DEFAULT: bool = false;
    /// True if people use it too: it prints text at a terminal.
    const FOR_PEOPLE: bool = false;
    /// True if the command line repeats it until it is interrupted: `next` in the response is then `after` in the next
    /// request.
    const FOLLOWS: bool = false;
    /// True if MCP clients see it.
    const SERVED: bool = true;
    /// True if it needs a valid policy.
    const NEEDS_POLICY: bool = true;
    /// Environment variables with the folder of the project, for a tool that a client starts in any folder.
    const PROJECT_VARIABLES: &'static [&'static str] = &[];
    /// Exit status of an error as text or under `--exit-status`, if it is not the status of the error's kind.
    const REFUSED: Option<u8> = None;
    /// Request type: flags, JSON and schema derive from it.
    type Request: Args + DeserializeOwned + JsonSchema + 'static;
    /// Response type.
    type Response: Serialize + JsonSchema + 'static;

    /// Runs a request.
    ///
    /// # Errors
    /// Returns the errors that the tool documents.
    fn run(engine: &mut Engine, request: Self::Request) -> Result<Self::Response, Error>;

    /// Returns true if a request to a tool with an effect only looks.
    fn is_lookup(_request: &Self::Request) -> bool {
        false
    }

    /// Writes only the payload, for `--text`.
    fn text(response: &Self::Response, text: &mut Text);

    /// Returns the exit status under `--exit-status`.
    fn status(_response: &Self::Response) -> u8 {
        0
    }

    /// Returns the exit status of a response that is printed as text.
    fn text_status(_response: &Self::Response) -> u8 {
        0
    }

    /// Takes the images out of the response, for a client that can show them. Of other binaries the response as text
    /// then holds the base64.
    fn take_images(_response: &mut Self::Response) -> Vec<Image> {
        Vec::new()
    }
}

/// Image in a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// MIME type of the image.
    pub mime: &'static str,
    /// Bytes of the image in base64.
    pub base64: String,
}

/// Style of a word on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Most important text.
    Bold,
    /// Less important text.
    Dim,
    /// Removed text, or an error.
    Red,
    /// Added text.
    Green,
    /// ID.
    Yellow,
    /// Location.
    Cyan,
}

impl Paint {
    /// Returns its number in the escape sequence.
    const fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Cyan => "36",
        }
    }

    /// Returns the style of a line of a diff.
    fn of_diff(line: &str) -> Option<Self> {
        match line.as_bytes() {
            [b'd', b'i', b'f', b'f', b' ', ..] | [b'-', b'-', b'-', ..] | [b'+', b'+', b'+', ..] => {
                Some(Self::Bold)
            }
            [b'@', ..] => Some(Self::Cyan),
            [b'+', ..] => Some(Self::Green),
            [b'-', ..] => Some(Self::Red),
            _ => None,
        }
    }
}

/// Reader of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reader {
    /// Program, which gets the bytes unchanged.
    #[default]
    Program,
    /// Person at a terminal, which must not receive control characters from others.
    Person {
        /// True if words are coloured.
        color: bool,
    },
}

/// Response as text: the payload for stdout, notes for stderr.
#[derive(Debug, Default)]
pub struct Text {
    /// Payload.
    pub out: Vec<u8>,
    /// Bytes for stderr, unchanged.
    pub err: Vec<u8>,
    /// Warnings for the reader, such as the offset at which to continue.
    pub notes: Vec<String>,
    /// End of a list entry: LF, or NUL under `--null`.
    pub separator: u8,
    /// True if the reader gives fields in JSON instead of flags.
    names_fields: bool,
    /// True for a dry run.
    dry_run: bool,
    /// Reader of the text.
    reader: Reader,
}

impl Text {
    /// Returns a text for the command line, whose entries end in LF or NUL.
    pub fn new(null: bool) -> Self {
        Self { separator: if null { 0 } else { b'\n' }, ..Self::default() }
    }

    /// Returns a text for a client that gives fields.
    pub fn of_fields() -> Self {
        Self { names_fields: true, ..Self::new(false) }
    }

    /// Marks the text as that of a dry run if `dry_run` is set.
    #[must_use]
    pub fn as_dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// Returns true for a dry run.
    pub const fn is_of_a_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Sets the reader.
    #[must_use]
    pub fn for_reader(self, reader: Reader) -> Self {
        Self { reader, ..self }
    }

    /// Returns true if the reader is a person at a terminal.
    pub fn is_for_a_person(&self) -> bool {
        self.reader != Reader::Program
    }

    /// Returns a word, coloured if the reader wants that.
    pub fn paint(&self, paint: Paint, word: &str) -> String {
        match self.reader {
            Reader::Person { color: true } if !word.is_empty() => {
                format!("\u{1b}[{}m{word}\u{1b}[m", paint.code())
            }
            Reader::Person { .. } | Reader::Program => word.to_owned(),
        }
    }

    /// Adds a line with coloured words; text from others in it must already be escaped.
    pub fn styled(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.push(b'\n');
    }

    /// Adds a diff: unchanged for a program, coloured and escaped for a person.
    pub fn diff(&mut self, diff: &[u8]) {
        if !self.is_for_a_person() {
            self.out.extend_from_slice(diff);
            return;
        }
        for line in String::from_utf8_lossy(diff).lines() {
            let line = escaped::line(line);
            let painted = Paint::of_diff(&line).map(|paint| self.paint(paint, &line));
            self.styled(painted.as_deref().unwrap_or(&line));
        }
    }

    /// Adds a line about a change that the call made, or would make without `dry_run`.
    pub fn change(&mut self, line: &str) {
        let would = if self.dry_run { "would " } else { "" };
        self.line(&format!("{would}{line}"));
    }

    /// Returns a field with a value, in the form of the reader's next request.
    pub fn option(&self, field: &str, value: impl std::fmt::Display) -> String {
        format!("{} {value}", self.switch(field))
    }

    /// Returns a field without a value, in the form of the reader's next request.
    pub fn switch(&self, field: &str) -> String {
        if self.names_fields { field.to_owned() } else { format!("--{}", field.replace('_', "-")) }
    }

    /// Adds an entry of a list; names in it must already be escaped with [`escaped::name`].
    pub fn entry(&mut self, entry: &str) {
        let entry = if self.separator == 0 { Cow::Borrowed(entry) } else { escaped::lines(entry) };
        self.out.extend_from_slice(entry.as_bytes());
        self.out.push(self.separator);
    }

    /// Adds the name of a file: unchanged if NUL ends it, else escaped for a terminal.
    pub fn name(&mut self, name: &str) {
        let name = if self.separator == 0 { Cow::Borrowed(name) } else { escaped::name(name) };
        self.out.extend_from_slice(name.as_bytes());
    }

    /// Adds a path of a list: its bytes if NUL ends it, else escaped for a terminal.
    pub fn path(&mut self, path: &ShownPath) {
        if self.separator == 0 { self.out.extend_from_slice(path.as_bytes()) } else { self.name(path) }
    }

    /// Adds a line of text; names in it must already be escaped with [`escaped::name`].
    pub fn line(&mut self, line: &str) {
        self.out.extend_from_slice(escaped::line(line).as_bytes());
        self.out.push(b'\n');
    }

    /// Adds a note.
    pub fn note(&mut self, note: impl AsRef<str>) {
        self.notes.push(escaped::line(note.as_ref()).into_owned());
    }
}

/// Response of any tool.
pub trait Reply {
    /// Writes the whole response as JSON.
    ///
    /// # Errors
    /// Fails if it cannot be converted to JSON, or `out` cannot be written.
    fn json(&self, frame: &ResponseFrame<'_>, out: &mut dyn Write) -> serde_json::Result<()>;

    /// Returns only the data.
    ///
    /// # Errors
    /// Returns `internal` if it cannot be converted to JSON.
    fn value(&self) -> Result<Value, Error>;

    /// Writes only the payload.
    fn text(&self, text: &mut Text);

    /// Returns the exit status under `--exit-status`.
    fn status(&self) -> u8 {
        0
    }

    /// Returns the exit status of a response that is printed as text.
    fn text_status(&self) -> u8 {
        0
    }

    /// Takes out the images.
    fn take_images(&mut self) -> Vec<Image> {
        Vec::new()
    }
}

/// Response of the tool `T`.
struct Typed<T: Tool>(T::Response);

impl<T: Tool> Reply for Typed<T> {
    fn json(&self, frame: &ResponseFrame<'_>, out: &mut dyn Write) -> serde_json::Result<()> {
        frame.success(&self.0, out)
    }

    fn value(&self) -> Result<Value, Error> {
        serde_json::to_value(&self.0)
            .map_err(|error| Error::internal(format!("the response is not valid JSON: {error}")))
    }

    fn text(&self, text: &mut Text) {
        T::text(&self.0, text);
    }

    fn status(&self) -> u8 {
        T::status(&self.0)
    }

    fn text_status(&self) -> u8 {
        T::text_status(&self.0)
    }

    fn take_images(&mut self) -> Vec<Image> {
        T::take_images(&mut self.0)
    }
}

/// Result of a call: a response or an error.
pub type CallOutcome = Result<Box<dyn Reply>, Error>;

/// Tool without its types, for the front ends.
pub struct ToolEntry {
    /// Name of the tool.
    pub name: &'static str,
    /// Aliases of the tool.
    pub aliases: &'static [&'static str],
    /// Request fields that a tool list shows to a model, separated by blanks.
    pub listed: &'static str,
    /// True if it is one of the few that most work needs.
    pub core: bool,
    /// Effect on the workspace.
    pub effect: Effect,
    /// Use of stdin.
    pub stdin: Stdin,
    /// Fields for which the value `-` means the bulk text on stdin.
    pub dash: &'static [&'static str],
    /// True if the bulk text on stdin, without any argument, is a request.
    pub takes_bulk_alone: bool,
    /// True if it prints text unless JSON is asked for.
    pub text_by_default: bool,
    /// True if it prints text for a person at a terminal.
    pub for_people: bool,
    /// True if the command line repeats it until it is interrupted.
    pub follows: bool,
    /// True if MCP clients see it.
    pub served: bool,
    /// True if it needs a valid policy.
    pub needs_policy: bool,
    /// Environment variables with the folder of the project.
    pub project_variables: &'static [&'static str],
    /// Exit status of an error as text or under `--exit-status`, if it is not the status of the error's kind.
    pub refused: Option<u8>,
    /// Command with the flags.
    pub command: fn() -> Command,
    /// Schema of the request, with aliases.
    pub request_schema: fn() -> Value,
    /// Schema of the response data.
    pub response_schema: fn() -> Value,
    /// Function that runs a request given by flags.
    pub run_flags: fn(&mut Engine, &mut ArgMatches) -> CallOutcome,
    /// Function that runs a request given as JSON.
    pub run_json: fn(&mut Engine, Value) -> CallOutcome,
    /// Function that returns a request given as JSON with the fields under the names of its type.
    pub with_field_names: fn(Value) -> Value,
    /// Function that returns true if a request given as JSON has no effect.
    pub is_lookup: fn(Value) -> bool,
}

impl ToolEntry {
    /// Returns a description of the tool, for a person or a model that has only this text.
    pub fn description(&self) -> String {
        let command = (self.command)();
        let about = command.get_long_about().or_else(|| command.get_about());
        about.map(ToString::to_string).unwrap_or_default()
    }

    /// Returns the first paragraphs of the description, which a model needs before it calls the tool. The rest is for
    /// help and man pages.
    pub fn summary(&self) -> String {
        self.description().split("\n\n").take(2).collect::<Vec<_>>().join("\n")
    }

    /// Returns a description of the tool in one line.
    pub fn title(&self) -> String {
        (self.command)().get_about().map(ToString::to_string).unwrap_or_default()
    }
}

/// Returns a tool by its type, without its types.
pub const fn entry_of<T: Tool + 'static>() -> &'static ToolEntry {
    &const { entry::<T>() }
}

/// Converts a tool to its entry without types.
pub const fn entry<T: Tool + 'static>() -> ToolEntry {
    ToolEntry {
        name: T::NAME,
        aliases: T::ALIASES,
        listed: T::LISTED,
        core: T::CORE,
        effect: T::EFFECT,
        stdin: T::STDIN,
        dash: T::DASH,
        takes_bulk_alone: T::BULK_ALONE,
        text_by_default: T::TEXT_BY_DEFAULT,
        for_people: T::FOR_PEOPLE,
        follows: T::FOLLOWS,
        served: T::SERVED,
        needs_policy: T::NEEDS_POLICY,
        project_variables: T::PROJECT_VARIABLES,
        refused: T::REFUSED,
        command: || T::Request::augment_args(Command::new(T::NAME)),
        request_schema: request::schema_of::<T::Request>,
        response_schema: request::answer_schema_of::<T::Response>,
        run_flags: |engine, matches| {
            let request = T::Request::from_arg_matches_mut(matches)
                .map_err(|error| T::STDIN.explain(request::flag_error(&error)))?;
            answer::<T>(engine, request)
        },
        run_json: |engine, value| answer::<T>(engine, request::parse::<T::Request>(value)?),
        with_field_names: request::with_field_names::<T::Request>,
        is_lookup: |value| {
            T::EFFECT == Effect::Reads
                || request::parse::<T::Request>(value).is_ok_and(|it| T::is_lookup(&it))
        },
    }
}

/// Runs a tool.
fn answer<T: Tool + 'static>(engine: &mut Engine, request: T::Request) -> CallOutcome {
    if T::EFFECT == Effect::Reads {
        engine.finish_dead_calls();
    }
    let answered = T::run(engine, request).map_err(|error| targets::or_moved(engine, error));
    Ok(Box::new(Typed::<T>(answered?)))
}

/// Scope of a common field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Process: a server fixes it at its start.
    Process,
    /// Each call.
    Call,
    /// Each call that changes something.
    Change,
}

/// Field that JSON requests of every tool have besides the tool's own.
#[derive(Debug)]
pub struct CommonField {
    /// Name of the field.
    pub name: &'static str,
    /// Scope of the field.
    pub scope: Scope,
    /// Type in a JSON Schema.
    kind: &'static str,
    /// Description of the field.
    description: &'static str,
}

/// Options that requests may give as fields.
pub const COMMON_FIELDS: [CommonField; 4] = [
    CommonField { name: "workspace", scope: Scope::Process, kind: "string", description: "Workspace root" },
    CommonField { name: "sandbox", scope: Scope::Call, kind: "string", description: "Named workspace" },
    CommonField { name: "session", scope: Scope::Call, kind: "string", description: "Another session" },
    CommonField {
        name: "require_snapshot",
        scope: Scope::Change,
        kind: "boolean",
        description: "Fail without a snapshot",
    },
];

impl CommonField {
    /// Returns true if a request on the command line may give the field, for a tool with this effect.
    pub fn is_of(&self, effect: Effect) -> bool {
        self.scope != Scope::Change || effect != Effect::Reads
    }

    /// Returns the JSON Schema of the field.
    pub fn schema(&self) -> Value {
        serde_json::json!({ "type": self.kind, "description": self.description })
    }
}
