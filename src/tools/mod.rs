//! The tools: what one is, and a file each. The list of them is [`crate::catalog`].

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
pub mod gc;
pub mod glob;
pub mod grep;
pub mod init;
pub mod insert;
pub mod log;
pub mod ls;
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
use crate::envelope::Frame;
use crate::error::Error;
use crate::request;
use crate::text::escaped;

/// What a tool does to the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It only looks.
    Reads,
    /// It adds, and overwrites nothing.
    Adds,
    /// It changes files; the old bytes are kept.
    Writes,
}

/// Whether a request may come on stdin, and as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Never, unless `--json -` says so.
    Ignored,
    /// As JSON, where no argument of the tool is given.
    Request,
    /// As JSON where no argument is given, else as the text of a field.
    Bulk {
        /// The field.
        field: &'static str,
        /// Fields in whose presence stdin is left alone.
        unless: &'static [&'static str],
    },
}

impl Stdin {
    /// Returns the error for a request by flags; where the text is missing that may come on stdin, with how it can
    /// be given.
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

/// A tool: its request, its answer, and what turns the one into the other.
pub trait Tool {
    /// The name on the wire and on the command line.
    const NAME: &'static str;
    /// Other names under which models know it; accepted and not advertised.
    const ALIASES: &'static [&'static str] = &[];
    /// The fields of the request that a list of tools shows to a model, with blanks between;
    /// `edits.word` is a field of the items of `edits`. The others are taken all the same: a model pays for each field it is shown, in
    /// every conversation.
    const LISTED: &'static str = "";
    /// Whether the tool is among the few that most work needs.
    const CORE: bool = false;
    /// What it does to the workspace.
    const EFFECT: Effect;
    /// What it takes from stdin.
    const STDIN: Stdin = Stdin::Request;
    /// Fields whose value `-` stands for the bulk text on stdin.
    const DASH: &'static [&'static str] = &[];
    /// Whether the bulk text alone on stdin, without any argument, is a request.
    const BULK_ALONE: bool = false;
    /// Whether it answers with its text, where nobody asks for JSON.
    const TEXT_BY_DEFAULT: bool = false;
    /// Whether people call it, too: at a terminal it answers them with its text.
    const FOR_PEOPLE: bool = false;
    /// Whether the command line goes on with it until it is interrupted: the answer's `next` is then the
    /// next request's `after`.
    const FOLLOWS: bool = false;
    /// Whether MCP clients see it.
    const SERVED: bool = true;
    /// Whether it works only where the policy is as it should be.
    const NEEDS_POLICY: bool = true;
    /// The exit status of a refusal as text or under `--exit-status`, if it is not that of its kind.
    const REFUSED: Option<u8> = None;
    /// The request: flags, JSON and schema derive from it.
    type Request: Args + DeserializeOwned + JsonSchema + 'static;
    /// The answer.
    type Response: Serialize + JsonSchema + 'static;

    /// Carries out a request.
    ///
    /// # Errors
    /// The refusals that the tool documents.
    fn run(engine: &mut Engine, request: Self::Request) -> Result<Self::Response, Error>;

    /// The payload alone, for `--text`.
    fn text(response: &Self::Response, text: &mut Text);

    /// Returns the exit status under `--exit-status`.
    fn status(_response: &Self::Response) -> u8 {
        0
    }

    /// Exit status of a response that is printed as text.
    fn text_status(_response: &Self::Response) -> u8 {
        0
    }

    /// Takes the images out of the answer, for a client that is shown them as such; of other
    /// binaries the answer as text then holds the base64.
    fn take_images(_response: &mut Self::Response) -> Vec<Image> {
        Vec::new()
    }
}

/// An image in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its MIME type.
    pub mime: &'static str,
    /// Its bytes, encoded.
    pub base64: String,
}

/// How a word is set off on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// What to look at first.
    Bold,
    /// What can wait.
    Dim,
    /// What went, or was refused.
    Red,
    /// What came.
    Green,
    /// An id.
    Yellow,
    /// A place.
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

    /// Returns how a line of a diff is set off.
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

/// For whom a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reader {
    /// A program, which gets the bytes as they are.
    #[default]
    Program,
    /// A person at a terminal, to which no text of others may speak.
    Person {
        /// True if words are set off by colour.
        color: bool,
    },
}

/// An answer as text: the payload for stdout, notes for stderr.
#[derive(Debug, Default)]
pub struct Text {
    /// The payload.
    pub out: Vec<u8>,
    /// What goes to stderr as it is.
    pub err: Vec<u8>,
    /// Lines for the reader, such as where to go on.
    pub notes: Vec<String>,
    /// What ends an entry of a list: LF, or NUL under `--null`.
    pub separator: u8,
    /// True if the reader gives fields in JSON, rather than flags.
    names_fields: bool,
    /// True if what it says did not happen.
    dry_run: bool,
    /// For whom it is.
    reader: Reader,
}

impl Text {
    /// Returns a text for the command line, whose entries end in LF, or in NUL.
    #[must_use]
    pub fn new(null: bool) -> Self {
        Self { separator: if null { 0 } else { b'\n' }, ..Self::default() }
    }

    /// Returns a text for a client that gives fields.
    #[must_use]
    pub fn of_fields() -> Self {
        Self { names_fields: true, ..Self::new(false) }
    }

    /// Returns the same, of a call that only tried where `dry_run` is set.
    #[must_use]
    pub fn of_a_dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// Returns true if what it says did not happen.
    #[must_use]
    pub const fn is_of_a_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Returns the same for that reader.
    #[must_use]
    pub fn for_reader(self, reader: Reader) -> Self {
        Self { reader, ..self }
    }

    /// Returns true if it is for a person at a terminal.
    #[must_use]
    pub fn is_for_a_person(&self) -> bool {
        self.reader != Reader::Program
    }

    /// Returns a word, set off where the reader wants that.
    #[must_use]
    pub fn paint(&self, paint: Paint, word: &str) -> String {
        match self.reader {
            Reader::Person { color: true } if !word.is_empty() => {
                format!("\u{1b}[{}m{word}\u{1b}[m", paint.code())
            }
            Reader::Person { .. } | Reader::Program => word.to_owned(),
        }
    }

    /// Adds a line with painted words; what comes from others in it is made harmless before.
    pub fn styled(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.push(b'\n');
    }

    /// Adds a diff: as it is for a program, in colours and harmless for a person.
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

    /// Adds a line about a change: what the call did, or would do.
    pub fn change(&mut self, line: &str) {
        let would = if self.dry_run { "would " } else { "" };
        self.line(&format!("{would}{line}"));
    }

    /// Returns a field with a value, as the reader gives it in the next request.
    #[must_use]
    pub fn option(&self, field: &str, value: impl std::fmt::Display) -> String {
        format!("{} {value}", self.switch(field))
    }

    /// Returns a field without a value, likewise.
    #[must_use]
    pub fn switch(&self, field: &str) -> String {
        if self.names_fields { field.to_owned() } else { format!("--{}", field.replace('_', "-")) }
    }

    /// Adds an entry of a list; names in it are made harmless with [`escaped::name`] before.
    pub fn entry(&mut self, entry: &str) {
        let entry = if self.separator == 0 { Cow::Borrowed(entry) } else { escaped::lines(entry) };
        self.out.extend_from_slice(entry.as_bytes());
        self.out.push(self.separator);
    }

    /// Adds the name of a file: as it is where NUL ends it, else so that it does nothing to a terminal.
    pub fn name(&mut self, name: &str) {
        let name = if self.separator == 0 { Cow::Borrowed(name) } else { escaped::name(name) };
        self.out.extend_from_slice(name.as_bytes());
    }

    /// Adds a line of words; names in it are made harmless with [`escaped::name`] before.
    pub fn line(&mut self, line: &str) {
        self.out.extend_from_slice(escaped::line(line).as_bytes());
        self.out.push(b'\n');
    }

    /// Adds a note.
    pub fn note(&mut self, note: impl AsRef<str>) {
        self.notes.push(escaped::line(note.as_ref()).into_owned());
    }
}

/// An answer with its type erased.
pub trait Reply {
    /// Writes the whole answer as JSON.
    ///
    /// # Errors
    /// Fails if it cannot be JSON, or `out` takes no more.
    fn json(&self, frame: &Frame<'_>, out: &mut dyn Write) -> serde_json::Result<()>;

    /// Returns the data alone.
    ///
    /// # Errors
    /// Returns `internal` if it cannot be JSON.
    fn value(&self) -> Result<Value, Error>;

    /// The payload alone.
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

/// The answer of the tool `T`.
struct Typed<T: Tool>(T::Response);

impl<T: Tool> Reply for Typed<T> {
    fn json(&self, frame: &Frame<'_>, out: &mut dyn Write) -> serde_json::Result<()> {
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

/// What a call gives: an answer or a refusal.
pub type Answered = Result<Box<dyn Reply>, Error>;

/// A tool with its types erased, as the front ends see it.
pub struct ToolEntry {
    /// The name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// The fields of the request that a list of tools shows to a model, with blanks between.
    pub listed: &'static str,
    /// True if it is among the few that most work needs.
    pub core: bool,
    /// What it does to the workspace.
    pub effect: Effect,
    /// What it takes from stdin.
    pub stdin: Stdin,
    /// Fields whose value `-` stands for the bulk text on stdin.
    pub dash: &'static [&'static str],
    /// True if the bulk text alone on stdin, without any argument, is a request.
    pub takes_bulk_alone: bool,
    /// True if it answers with its text, where nobody asks for JSON.
    pub text_by_default: bool,
    /// True if a person at a terminal is answered with its text.
    pub for_people: bool,
    /// True if the command line goes on with it until it is interrupted.
    pub follows: bool,
    /// True if MCP clients see it.
    pub served: bool,
    /// True if it works only where the policy is as it should be.
    pub needs_policy: bool,
    /// The exit status of a refusal as text or under `--exit-status`, if it is not that of its kind.
    pub refused: Option<u8>,
    /// Its flags.
    pub command: fn() -> Command,
    /// The schema of its request, with aliases.
    pub request_schema: fn() -> Value,
    /// The schema of its answer's data.
    pub response_schema: fn() -> Value,
    /// Carries out a request given by flags.
    pub run_flags: fn(&mut Engine, &mut ArgMatches) -> Answered,
    /// Carries out a request given as JSON.
    pub run_json: fn(&mut Engine, Value) -> Answered,
}

impl ToolEntry {
    /// Returns what the tool does, for a person or a model that has only this text.
    #[must_use]
    pub fn description(&self) -> String {
        let command = (self.command)();
        let about = command.get_long_about().or_else(|| command.get_about());
        about.map(ToString::to_string).unwrap_or_default()
    }

    /// Returns the first paragraphs of the description: what a model must know before it calls the tool. What follows
    /// is for help and man pages.
    #[must_use]
    pub fn summary(&self) -> String {
        self.description().split("\n\n").take(2).collect::<Vec<_>>().join("\n")
    }

    /// Returns what the tool does, in one line.
    #[must_use]
    pub fn title(&self) -> String {
        (self.command)().get_about().map(ToString::to_string).unwrap_or_default()
    }
}

/// Returns a tool with its types erased, by its type.
#[must_use]
pub const fn entry_of<T: Tool + 'static>() -> &'static ToolEntry {
    &const { entry::<T>() }
}

/// Erases the types of a tool.
#[must_use]
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
    }
}

/// Runs a tool.
fn answer<T: Tool + 'static>(engine: &mut Engine, request: T::Request) -> Answered {
    if T::EFFECT == Effect::Reads {
        engine.settle();
    }
    let answered = T::run(engine, request).map_err(|error| targets::or_moved(engine, error));
    Ok(Box::new(Typed::<T>(answered?)))
}

/// To what a field of every tool belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The process: a server fixes it at its start.
    Process,
    /// Each call.
    Call,
    /// Each call that changes something.
    Change,
}

/// A field that JSON requests of every tool have beside the tool's own.
#[derive(Debug)]
pub struct CommonField {
    /// Its name.
    pub name: &'static str,
    /// To what it belongs.
    pub scope: Scope,
    /// Its type in a JSON Schema.
    kind: &'static str,
    /// What it is for.
    description: &'static str,
}

/// The options that requests may give as fields.
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
    /// Returns true if a call to a server may give it, where the tool has this effect.
    #[must_use]
    pub fn is_of_call(&self, effect: Effect) -> bool {
        match self.scope {
            Scope::Process => false,
            Scope::Call => true,
            Scope::Change => effect != Effect::Reads,
        }
    }

    /// Returns true if a request on the command line may give it, where the tool has this effect.
    #[must_use]
    pub fn is_of(&self, effect: Effect) -> bool {
        self.scope != Scope::Change || effect != Effect::Reads
    }

    /// Returns its JSON Schema.
    #[must_use]
    pub fn schema(&self) -> Value {
        serde_json::json!({ "type": self.kind, "description": self.description })
    }
}
