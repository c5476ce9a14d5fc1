//! The command line: flags or JSON in, one JSON object out.

pub mod commands;
mod foreign;
pub mod input;
mod normalize_args;
pub mod output;
mod suggest;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches as _};
use serde_json::Value;

use crate::app::Call;
use crate::app::options::{Options, Settings};
use crate::app::remote::Remote;
use crate::catalog::unknown_in_family;
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::history::replay::Direction;
use crate::engine::policy::Policy;
use crate::error::{Error, ErrorKind};
use crate::tools::bash::{self, Bash};
use crate::tools::sandbox::Sandbox;
use crate::tools::undo::{Redo, Undo, newest_of_others};
use crate::tools::{Stdin, Tool as _, ToolEntry};
use crate::{dialect, request};
use commands::{FirstWord, ParsedCommand};
use input::Input;
use output::ProgressLine;
use suggest::kebab;

/// Flag of tools that report their result only by exit status.
const QUIET: &str = "quiet";

/// Serves the tools over MCP until the client disconnects.
pub type Serve = fn(&Options, &Settings) -> Result<(), Error>;

/// Runs the program with its arguments, the first of which is its own name; `serve` runs `lbx mcp`. Returns the exit
/// status.
pub fn main(arguments: Vec<OsString>, serve: Serve) -> u8 {
    // Without the parser of all tools, which takes three times as long to make as the rest.
    if let [_, only] = &*arguments
        && (only == "--version" || only == "-V")
    {
        return output::print(format!("{} {}\n", env!("CARGO_PKG_NAME"), crate::VERSION).as_bytes());
    }
    let internal = crate::engine::sandbox::run_internal(&arguments)
        .or_else(|| crate::engine::sandbox::enter_fork(&arguments))
        .or_else(|| crate::engine::store::container::run_tied(&arguments))
        .or_else(|| crate::engine::store::container::run_internal(&arguments));
    if let Some(status) = internal {
        return status;
    }
    // A panic is reported as `internal`; its own message does not help the caller.
    std::panic::set_hook(Box::new(|_| {}));
    outlive_size_limits();
    if let Some(status) = bash::run_internal(&arguments) {
        return status;
    }
    let arguments = match commands::resolve_help(or_help_on_terminal(with_tool_of_name(arguments))) {
        ParsedCommand::Call(arguments) => arguments,
        ParsedCommand::Page(page) => return output::print(page.as_bytes()),
    };
    let named = commands::command_named(&arguments);
    if named.name() == Bash::NAME {
        bash::begin_early(&arguments);
    }
    let ran = std::panic::catch_unwind(|| parse_and_run(&named, &arguments, serve))
        .unwrap_or_else(|panic| Err(crate::error::error_of(panic.as_ref())));
    ran.unwrap_or_else(|error| {
        let mut options = Options::from_arguments(&arguments);
        // Only MCP may use stdout.
        options.text |= matches!(named, FirstWord::Mcp);
        output::refuse(named.name(), &options, &error)
    })
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with `EFBIG`, which is reported as an error. The default
/// signal would end the process. Programs started from here get the default back.
fn outlive_size_limits() {
    let limit_met = Arc::new(AtomicBool::new(false));
    // Best effort: without it the change is still complete, and only the response is missing.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, limit_met);
}

/// Parses the arguments and runs the command.
fn parse_and_run(named: &FirstWord, arguments: &[OsString], serve: Serve) -> Result<u8, Error> {
    let mut parser = commands::command_for(named);
    let (arguments, files) = match named {
        FirstWord::Tool(tool) => normalize_args::normalize(tool, &parser, arguments.to_vec())?,
        FirstWord::Foreign(..) | FirstWord::Batch | FirstWord::Mcp | FirstWord::Nothing => {
            (arguments.to_vec(), Vec::new())
        }
    };
    match parser.try_get_matches_from_mut(&arguments) {
        Ok(matches) => dispatch(named, &mut parser, matches, (&arguments, &files), serve),
        Err(error) if error.exit_code() == 0 => Ok(output::print(error.render().to_string().as_bytes())),
        Err(error) => match (named, error.kind()) {
            (FirstWord::Tool(tool), clap::error::ErrorKind::UnknownArgument) => {
                patch_in_file(tool, &mut parser, &arguments, &error)
                    .unwrap_or_else(|| Err(suggest::argument(tool, &error)))
            }
            (FirstWord::Tool(tool), _) => Err(suggest::argument(tool, &error)),
            (FirstWord::Foreign(_, tool), _) => Err(foreign::argument(tool, &error)),
            (FirstWord::Nothing, _) if normalize_args::tool_index(&arguments).is_some() => {
                Err(no_such_tool(&arguments))
            }
            _ => Err(request::flag_error(&error)),
        },
    }
}

/// Runs `patch FILE` if one extra argument is the only error of the parser; returns `None` for other errors.
fn patch_in_file(
    tool: &'static ToolEntry,
    parser: &mut Command,
    arguments: &[OsString],
    error: &clap::Error,
) -> Option<Result<u8, Error>> {
    let Stdin::Bulk { field, .. } = tool.stdin else { return None };
    let given = error.get(clap::error::ContextKind::InvalidArg)?.to_string();
    let at = arguments.iter().rposition(|word| word.to_str() == Some(&given))?;
    if !tool.takes_bulk_alone || given.starts_with('-') || Some(at) <= normalize_args::tool_index(arguments) {
        return None;
    }
    let mut rest = arguments.to_vec();
    rest.remove(at);
    let file = PathBuf::from(given);
    Some(input::text_in_file(&file).and_then(|text| {
        let matches = commands::parse_with(tool, parser, &rest, field, text)?;
        let options = Options::from_matches(&matches)?;
        options.must_permit_content(&[file])?;
        Ok(run_tool(tool, parser, matches, &rest, &options))
    }))
}

/// Returns the error for an unknown tool name; an unknown dialect is reported first.
fn no_such_tool(arguments: &[OsString]) -> Error {
    let word = normalize_args::tool_index(arguments).and_then(|index| arguments.get(index));
    let name = word.map_or_else(String::new, |word| word.to_string_lossy().into_owned());
    let dialect = commands::dialect_name(arguments);
    match dialect::chosen(dialect.as_deref()) {
        Err(error) => error,
        Ok(family) => {
            let tools = family.map_or(&[][..], |family| family.tools);
            let tools: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
            unknown_in_family(&tools, &name)
        }
    }
}

/// Returns the arguments, or those of help if a person at a terminal gave none.
fn or_help_on_terminal(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.len() == 1 && output::has_person(&Options::from_arguments(&arguments)) {
        arguments.push(OsString::from("--help"));
    }
    arguments
}

/// Returns the arguments of a link named after a tool, as if the tool had been named.
fn with_tool_of_name(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().and_then(|name| Path::new(name).file_name()).and_then(OsStr::to_str);
    let tool = name.and_then(|name| commands::is_name(name).then(|| OsString::from(name)));
    if let Some(tool) = tool {
        arguments.splice(0..1, [OsString::from("lbx"), tool]);
    }
    arguments
}

/// Runs the command that the arguments name.
fn dispatch(
    named: &FirstWord,
    parser: &mut Command,
    mut matches: ArgMatches,
    (arguments, files): (&[OsString], &[PathBuf]),
    serve: Serve,
) -> Result<u8, Error> {
    let nothing = || Error::invalid("no tool is named").suggest("`lbx --help` lists the tools.");
    let (_, mut matches) = matches.remove_subcommand().ok_or_else(nothing)?;
    let options = Options::from_matches(&matches)?;
    if matches!(named, FirstWord::Batch | FirstWord::Mcp)
        && let Some(flag) = flag_of_one_call(&matches, matches!(named, FirstWord::Batch))
    {
        let command = named.name();
        return Err(Error::invalid(format!(
            "--{} is for one call of a tool, and `lbx {command}` makes many",
            kebab(flag)
        ))
        .suggest(format!("Leave it out: `lbx {command} --help` lists the flags."))
        .detail("field", flag));
    }
    let request = options.json.as_deref().and_then(input::file_of);
    options.must_permit_content(&[files, request.as_slice()].concat())?;
    dialect::chosen(options.dialect.as_deref())?;
    let is_for_inside = !matches!(named, FirstWord::Nothing) && named.name() != Sandbox::NAME;
    if is_for_inside {
        let forwarded = Remote::of(&options).and_then(|remote| {
            remote.map(|remote| remote.forward(named.name(), arguments, &options)).transpose()
        });
        if let Some(status) = forwarded? {
            return Ok(status);
        }
    }
    match named {
        FirstWord::Tool(tool) => Ok(run_tool(tool, parser, matches, arguments, &options)),
        FirstWord::Foreign(dialect, tool) => {
            let words = matches.remove_many::<String>(commands::FOREIGN_WORDS).into_iter().flatten();
            Ok(foreign::run(dialect, tool, words.collect(), &options))
        }
        FirstWord::Batch => Ok(input::run(&options)),
        FirstWord::Mcp => {
            let settings =
                Settings::from_arg_matches(&matches).map_err(|error| request::flag_error(&error))?;
            serve(&options, &settings).map(|()| 0)
        }
        FirstWord::Nothing => Err(nothing()),
    }
}

/// Returns the first given flag that concerns the request or the output of one call; a batch has no tools of a dialect.
fn flag_of_one_call(matches: &ArgMatches, is_batch: bool) -> Option<&'static str> {
    let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let flags = ["json", "text", "null", "pretty", "exit_status"].into_iter();
    flags.chain(is_batch.then_some("dialect")).find(is_given)
}

/// Runs one tool and prints its response; `parser` has parsed its arguments.
fn run_tool(
    tool: &'static ToolEntry,
    parser: &mut Command,
    matches: ArgMatches,
    arguments: &[OsString],
    options: &Options,
) -> u8 {
    let mut options = options.for_tool(tool);
    // Sandbox names are stored on this side; a missing sandbox must not prevent listing the others.
    options.sandbox = options.sandbox.filter(|_| tool.name != Sandbox::NAME);
    // `grep -q` reports a match by its exit status.
    options.exit_status |= matches.try_get_one(QUIET).is_ok_and(|quiet| quiet == Some(&true));
    options.person = tool.for_people && output::has_person(&options);
    options.text |= options.person;
    match session_meant(tool, &matches, &options) {
        Ok(Some(session)) => options = Options { session: Some(session), is_session_named: true, ..options },
        Ok(None) => {}
        Err(error) => return output::refuse(tool.name, &options, &error),
    }
    let options = &options;
    if tool.follows && options.json.is_none() {
        return output::run(tool, output::request_of(&matches), options);
    }
    let called = match request_of(tool, parser, matches, arguments, options) {
        Ok(Source::Json(value)) => Ok(Call::make(tool, value, options)),
        Ok(Source::Flags(mut matches)) => {
            let line = ProgressLine::of(tool.name, options);
            let control = line.as_ref().map(ProgressLine::control).unwrap_or_default();
            let call = Call::new(tool, options).map(|call| call.with_control(control));
            call.map(|call| call.run_with(move |engine| (tool.run_flags)(engine, &mut matches)))
        }
        Err(error) => Err(error),
    };
    match called {
        Ok(called) => output::answer(tool.name, options, called),
        Err(error) => output::refuse(tool.name, options, &error),
    }
}

/// Source of a request.
enum Source {
    /// Flags.
    Flags(ArgMatches),
    /// JSON from the command line, a file or stdin.
    Json(Value),
}

/// Finds the request: `--json`, else flags, else stdin.
fn request_of(
    tool: &'static ToolEntry,
    parser: &mut Command,
    matches: ArgMatches,
    arguments: &[OsString],
    options: &Options,
) -> Result<Source, Error> {
    let has_flags = commands::has_tool_arguments(tool, parser, &matches);
    if let Some(json) = &options.json {
        if has_flags {
            return Err(Error::invalid(
                "--json holds the whole request: leave the other arguments of the tool out",
            ));
        }
        return request::read_json(&input::json_argument(json)?).map(Source::Json);
    }
    match tool.stdin {
        Stdin::Request | Stdin::Bulk { .. } if !has_flags => from_stdin(tool, parser, matches, arguments),
        Stdin::Bulk { field, unless } => with_bulk(tool, parser, matches, arguments, field, unless),
        Stdin::Ignored | Stdin::Request => Ok(Source::Flags(matches)),
    }
}

/// Returns a request given without arguments: JSON on stdin; for `patch` also the patch itself.
fn from_stdin(
    tool: &'static ToolEntry,
    parser: &mut Command,
    matches: ArgMatches,
    arguments: &[OsString],
) -> Result<Source, Error> {
    let text = match input::read_stdin()? {
        // Parsing the flags then reports the missing field.
        Input::None => return Ok(Source::Flags(matches)),
        Input::Text(text) => text,
    };
    if let Stdin::Bulk { field, .. } = tool.stdin
        && tool.takes_bulk_alone
        && !request::without_bom(&text).trim_ascii_start().starts_with(b"{")
    {
        return commands::parse_with(tool, parser, arguments, field, text).map(Source::Flags);
    }
    if text.trim_ascii().is_empty() {
        return Ok(Source::Json(Value::Object(serde_json::Map::new())));
    }
    request::read_json(&text).map(Source::Json)
}

/// Returns a request from flags, with its long text from stdin if needed.
fn with_bulk(
    tool: &'static ToolEntry,
    parser: &mut Command,
    matches: ArgMatches,
    arguments: &[OsString],
    field: &str,
    unless: &[&str],
) -> Result<Source, Error> {
    let is_dash = |name: &str| {
        tool.dash.contains(&name)
            && matches
                .get_raw(name)
                .is_some_and(|mut values| values.next() == Some(std::ffi::OsStr::new("-")))
    };
    let is_given = |name: &str| matches.contains_id(name) && !is_dash(name);
    if is_given(field) || unless.iter().any(|name| is_given(name)) {
        return Ok(Source::Flags(matches));
    }
    match input::read_stdin()? {
        Input::None => Ok(Source::Flags(matches)),
        Input::Text(text) => commands::parse_with(tool, parser, arguments, field, text).map(Source::Flags),
    }
}

/// Largest answer of the person, in bytes.
const ANSWER_BYTES_MAX: u64 = 64;

/// Returns the session whose change a person at a terminal wants to undo or redo; `None` for the caller's own.
///
/// # Errors
/// Fails if the person says no.
pub fn session_meant(
    tool: &ToolEntry,
    matches: &ArgMatches,
    options: &Options,
) -> Result<Option<String>, Error> {
    let direction = match tool.name {
        Undo::NAME => Direction::Undo,
        Redo::NAME => Direction::Redo,
        _ => return Ok(None),
    };
    let turn = matches.try_get_one::<u64>("turn").ok().flatten();
    let names_a_change = matches.try_get_one::<u64>("seq").is_ok_and(|seq| seq.is_some())
        || turn.is_some_and(|turn| *turn > 0);
    if !options.person || options.session.is_some() || names_a_change {
        return Ok(None);
    }
    let workspace = options.open_workspace()?;
    let policy = Policy::load(&workspace, &options.policy)?;
    let engine = Engine::with_policy(policy, workspace, options.session_id()?, Control::default());
    let path = matches.try_get_one::<PathBuf>("path").ok().flatten();
    let Some(other) = newest_of_others(&engine, direction, path.map(PathBuf::as_path))? else {
        return Ok(None);
    };
    let (name, session) = (direction.name(), other.session);
    let what =
        if turn.is_some() { other.turn } else { format!("change is of session {session}: {}", other.change) };
    let question = format!("{name}: the last {what}. Go on? [y/N] ");
    if agrees(&question) {
        return Ok(Some(session));
    }
    Err(Error::new(ErrorKind::CommandDenied, "you did not agree; nothing was changed")
        .suggest(format!("To {name} it without a question, name the session: --session {session}.")))
}

/// Asks the person at the terminal.
fn agrees(question: &str) -> bool {
    let mut error = std::io::stderr();
    let asked = error.write_all(question.as_bytes()).and_then(|()| error.flush());
    let mut answer = String::new();
    let read = std::io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut answer);
    asked.is_ok() && read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
