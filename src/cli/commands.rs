//! The command tree, derived from the list of tools.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};

use super::normalize_args::{self, DIALECT};
use crate::app::options::{Options, Settings};
use crate::catalog::{TOOLS, find};
use crate::dialect::{self, Dialect, DialectTool};
use crate::error::Error;
use crate::request;
use crate::tools::{Stdin, ToolEntry};

/// Meaning of the first argument.
#[derive(Clone, Copy)]
pub enum FirstWord {
    /// Tool of lbx.
    Tool(&'static ToolEntry),
    /// Tool of a model family.
    Foreign(&'static Dialect, &'static DialectTool),
    /// `batch` command.
    Batch,
    /// `mcp` command.
    Mcp,
    /// Unknown name.
    Nothing,
}

impl FirstWord {
    /// Returns the name for the response.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tool(tool) => tool.name,
            Self::Foreign(_, tool) => tool.name,
            Self::Batch => "batch",
            Self::Mcp => "mcp",
            Self::Nothing => "lbx",
        }
    }
}

/// Returns true if a link of this name calls a tool.
pub fn is_name(name: &str) -> bool {
    find(name).is_some() || dialect::owner_of(name).is_some()
}

/// Returns the command that the arguments name, without parsing them, so that only its part of the tree is built.
pub fn command_named(arguments: &[OsString]) -> FirstWord {
    match normalize_args::tool_index(arguments).and_then(|index| arguments.get(index)?.to_str()) {
        Some("batch") => FirstWord::Batch,
        Some("mcp") => FirstWord::Mcp,
        Some(name) => tool_named(name, dialect_name(arguments).and_then(|family| dialect::find(&family))),
        None => FirstWord::Nothing,
    }
}

/// Returns the tool of this name: from the named model family, else from lbx, else from the only family that has it.
fn tool_named(name: &str, family: Option<&'static Dialect>) -> FirstWord {
    let of_family = family.and_then(|family| Some(FirstWord::Foreign(family, family.tool(name)?)));
    let own = || find(name).map(FirstWord::Tool);
    let of_any = || dialect::owner_of(name).map(|(family, tool)| FirstWord::Foreign(family, tool));
    of_family.or_else(own).or_else(of_any).unwrap_or(FirstWord::Nothing)
}

/// Returns the name of a model family in the arguments or the environment, even if it does not exist.
pub fn dialect_name(arguments: &[OsString]) -> Option<String> {
    let mut words = arguments.iter().map(|word| word.to_string_lossy());
    let mut name = None;
    while let Some(word) = words.next() {
        if word == DIALECT {
            name = words.next();
        } else if let Some(value) = word.strip_prefix("--dialect=") {
            name = Some(value.to_owned().into());
        }
    }
    let of_environment = || std::env::var("LBX_DIALECT").ok().filter(|name| !name.is_empty());
    name.map(std::borrow::Cow::into_owned).or_else(of_environment)
}

/// Returns the tree for parsing: all of it, or only the named part.
pub fn command_for(named: &FirstWord) -> Command {
    match named {
        FirstWord::Tool(tool) => parser_of(tool),
        FirstWord::Foreign(_, tool) => root().subcommand(foreign(tool)),
        FirstWord::Batch => root().subcommand(batch()),
        FirstWord::Mcp => root().subcommand(mcp()),
        FirstWord::Nothing => tree(),
    }
}

/// Returns the part of the tree that parses the calls of one tool: missing fields may still come from stdin.
fn parser_of(tool: &ToolEntry) -> Command {
    let root = root();
    let tool = of_tool(tool, &root).mut_args(|argument| argument.required(false));
    root.subcommand(tool)
}

/// Returns the whole tree, as help, man pages and completions show it.
pub fn tree() -> Command {
    let root = root();
    let tools: Vec<Command> = TOOLS.iter().map(|tool| of_tool(tool, &root)).collect();
    root.subcommands(tools).subcommand(batch()).subcommand(mcp())
}

/// Returns the `lbx` command itself.
fn root() -> Command {
    // The flags come first: the doc comment of their type must not replace the description of lbx.
    Options::augment_args(Command::new("lbx"))
        .version(crate::VERSION)
        .about("The file tools that coding agents work with: gated, atomic, undoable, visible")
        .long_about(
            "The file tools that coding agents work with: gated, atomic, undoable, visible\n\nOnly a caller that \
             has read a file's current bytes can change it; every change is atomic, backed up, journaled, and one commit on the branch lbx-snapshots.\n\n\
             Every tool takes its request as flags, as --json, or as JSON on stdin, and prints one JSON object on stdout. `lbx TOOL --help` describes a tool; `lbx help agents` prints a page that teaches a \
             model all of them.",
        )
        .disable_help_subcommand(true)
        .args_override_self(false)
}

/// Returns one tool with its aliases, below `root`, which has the global options.
///
/// If a tool and a global option have the same short flag (`grep -t TYPE` as in rg), the tool gets it, and the option
/// has only its long name there.
fn of_tool(tool: &ToolEntry, root: &Command) -> Command {
    let command = with_ways_of_text(tool, (tool.command)().aliases(tool.aliases));
    let usage = [vec!["lbx".to_owned(), tool.name.to_owned(), "[OPTIONS]".to_owned()], positionals(&command)];
    let command = command.override_usage(usage.concat().join(" "));
    let own: Vec<char> = command.get_arguments().filter_map(clap::Arg::get_short).collect();
    let shadowed =
        root.get_arguments().filter(|option| option.get_short().is_some_and(|short| own.contains(&short)));
    shadowed.fold(command, |command, option| command.arg(option.clone().short(None)))
}

/// Returns the positional arguments of a command for its usage line: without brackets if one is required.
pub fn positionals(command: &Command) -> Vec<String> {
    let tool = find(command.get_name());
    // A tool with a required field needs its first argument; no single argument of the parser says so.
    let needs_first = tool.is_some_and(|tool| !matches!(tool.stdin, Stdin::Ignored));
    let mut shown: Vec<(String, bool, bool)> = Vec::new();
    for argument in command.get_arguments().filter(|it| it.is_positional() && !it.is_hide_set()) {
        let names = argument.get_value_names().unwrap_or_default();
        let name =
            names.first().map_or_else(|| argument.get_id().as_str().to_uppercase(), ToString::to_string);
        let repeats = argument.get_num_args().is_some_and(|range| range.max_values() > 1);
        match shown.last_mut() {
            // The first of several arguments, and the rest.
            Some((last, _, last_repeats)) if *last == name && repeats => *last_repeats = true,
            _ => {
                let is_needed = argument.is_required_set() || (shown.is_empty() && needs_first);
                shown.push((name, is_needed, repeats));
            }
        }
    }
    let word = |(name, is_needed, repeats): (String, bool, bool)| {
        let several = if repeats { "..." } else { "" };
        if is_needed { format!("{name}{several}") } else { format!("[{name}{several}]") }
    };
    shown.into_iter().map(word).collect()
}

/// Lists the other ways to give a long text in the help of a tool.
fn with_ways_of_text(tool: &ToolEntry, command: Command) -> Command {
    let Stdin::Bulk { field, .. } = tool.stdin else { return command };
    let is_shown =
        command.get_arguments().any(|argument| argument.get_id() == field && !argument.is_hide_set());
    if !is_shown {
        return command;
    }
    command.mut_arg(field, |argument| {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        argument.help(format!("{help}. Also on stdin, or @FILE for the text of a file (@@ for a plain @)"))
    })
}

/// Name of the arguments after the tool of a model family.
pub const FOREIGN_WORDS: &str = "foreign-words";

/// Returns a tool of a model family: its request is JSON from `--json` or stdin, or the required parameters in order.
fn foreign(tool: &DialectTool) -> Command {
    let schema = tool.schema();
    let about = schema.get("description").and_then(serde_json::Value::as_str).unwrap_or_default();
    let words = Arg::new(FOREIGN_WORDS).num_args(0..).value_name("PARAMETER");
    Command::new(tool.name).about(about.to_owned()).arg(words)
}

/// Returns the `batch` command.
fn batch() -> Command {
    Command::new("batch").about("Carry out many requests, one JSON object per line on stdin").long_about(
        "Carry out many requests, one JSON object per line on stdin\n\nAll in one process: each line of stdin gets one line of output, in order. Exits 0, or with the status of the first request that failed.",
    )
}

/// Returns the `mcp` command.
fn mcp() -> Command {
    // The settings come first: the doc comment of their type must not replace the description.
    Settings::augment_args(Command::new("mcp"))
        .about("Serve the tools over MCP on stdin and stdout")
        .long_about(
            "Serve the tools over MCP on stdin and stdout\n\nThe server ends with stdin. Workspace and session are \
             fixed at the start; without --session (or its environment variables) the process has a session of its own. Paths \
             count from the workspace root.",
        )
}

/// Returns true if any argument of the tool itself was given; `parser` has parsed them.
pub fn has_tool_arguments(tool: &ToolEntry, parser: &Command, matches: &ArgMatches) -> bool {
    let own = parser.find_subcommand(tool.name).into_iter().flat_map(Command::get_arguments);
    own.filter(|argument| !argument.is_global_set())
        .any(|argument| matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine))
}

/// Parses the arguments again, with the text of a field from stdin; `parser` is the parser of the tool.
///
/// # Errors
/// Returns `invalid_request`.
pub fn parse_with(
    tool: &'static ToolEntry,
    parser: &mut Command,
    arguments: &[OsString],
    field: &str,
    text: Vec<u8>,
) -> Result<ArgMatches, Error> {
    use std::os::unix::ffi::OsStringExt;
    let mut value = OsString::from(format!("--{}=", field.replace('_', "-")));
    value.push(OsString::from_vec(text));
    // The option is placed right after the tool name: there, it is an option whatever follows.
    let at = normalize_args::tool_index(arguments).map_or(arguments.len(), |at| at + 1);
    let mut with_text = arguments.to_vec();
    with_text.insert(at, value);
    let matches = parser.try_get_matches_from_mut(with_text).map_err(|error| {
        if error.kind() == clap::error::ErrorKind::InvalidUtf8 {
            return Error::invalid(format!("{field} on stdin is not UTF-8")).detail("field", field);
        }
        request::flag_error(&error)
    })?;
    matches
        .subcommand_matches(tool.name)
        .cloned()
        .ok_or_else(|| Error::internal("the tool was lost in its arguments"))
}

/// Text for a system prompt that explains how to use every tool.
pub const AGENTS: &str = include_str!("agents.md");

/// Request of the arguments, after `help` is resolved.
pub enum ParsedCommand {
    /// Arguments for the parser.
    Call(Vec<OsString>),
    /// Help page.
    Page(&'static str),
}

/// Treats `lbx help TOOL` as `lbx TOOL --help`, and `lbx help agents` as a page.
pub fn resolve_help(mut arguments: Vec<OsString>) -> ParsedCommand {
    let asks = |index: &usize| arguments.get(*index).is_some_and(|word| word == "help");
    let Some(index) = normalize_args::tool_index(&arguments).filter(asks) else {
        return ParsedCommand::Call(arguments);
    };
    arguments.remove(index);
    if arguments.get(index).is_some_and(|word| word == "agents") {
        return ParsedCommand::Page(AGENTS);
    }
    arguments.push(OsString::from("--help"));
    ParsedCommand::Call(arguments)
}
