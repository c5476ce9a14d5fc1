//! `completions/`: one script per shell, generated from the command line's tree.
//!
//! A script is a hand-written engine (`lbx.bash`, `lbx.zsh` and `lbx.fish` in this folder) and the data in [`Tool`].
//! While a person types, the script asks lbx only for sessions, named workspaces, snapshots and trash entries.

mod asked;
mod scripts;

use clap::{Arg, Command};
use ignore::types::TypesBuilder;
use lbx::cli::commands::tree;
use lbx::dialect::DIALECTS;
use lbx::engine::policy::settings::{Form, SETTINGS};
use lbx::tools::init::CLIENTS;

pub use scripts::all;

/// Largest length of a description, in characters.
const ABOUT_MAX: usize = 70;

/// Values of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Values {
    /// Values that cannot be listed.
    Any,
    /// Files and folders.
    Paths,
    /// Folders.
    Folders,
    /// Fixed words.
    Words(Vec<String>),
    /// Words of a shared list, by its name.
    Shared(&'static str),
    /// Names that the script asks lbx for: `session`, `sandbox`, `snapshot` or `trash`.
    Asked(&'static str),
}

/// An argument with a flag.
struct Flag {
    /// Spellings with their dashes, the long one last.
    names: Vec<String>,
    /// Description.
    about: String,
    /// Accepted values, if any.
    values: Option<Values>,
}

/// A tool.
struct Tool {
    /// Name of the tool.
    name: String,
    /// Description.
    about: String,
    /// Flags of the tool, without the global ones.
    flags: Vec<Flag>,
    /// Values of its positional arguments.
    places: Vec<Values>,
    /// True if the last of these may be repeated.
    repeats: bool,
}

/// Returns every tool, and `help`.
fn tools() -> Vec<Tool> {
    let mut tools: Vec<Tool> = tree().get_subcommands().map(tool).collect();
    tools.push(Tool {
        name: "help".to_owned(),
        about: "Show the help of a tool, or a page for agents".to_owned(),
        flags: Vec::new(),
        places: vec![Values::Shared("pages")],
        repeats: false,
    });
    tools
}

/// Returns one tool.
fn tool(command: &Command) -> Tool {
    let name = command.get_name();
    let own: Vec<&Arg> = command.get_arguments().filter(|argument| !argument.is_hide_set()).collect();
    let places: Vec<&&Arg> = own.iter().filter(|argument| argument.is_positional()).collect();
    let is_list = |argument: &&&Arg| argument.get_num_args().is_some_and(|range| range.max_values() > 1);
    Tool {
        name: name.to_owned(),
        about: about_of(command.get_about().map(ToString::to_string)),
        flags: own.iter().filter(|argument| !argument.is_positional()).map(|it| flag(name, it)).collect(),
        repeats: places.last().is_some_and(is_list),
        places: places.iter().map(|argument| values(name, argument)).collect(),
    }
}

/// Returns the flags of every tool.
fn globals() -> Vec<Flag> {
    let tree = tree();
    let mut flags: Vec<Flag> = tree.get_arguments().map(|argument| flag("", argument)).collect();
    flags.push(Flag {
        names: vec!["-h".to_owned(), "--help".to_owned()],
        about: "Print help".to_owned(),
        values: None,
    });
    flags
}

/// Returns one flag.
fn flag(tool: &str, argument: &Arg) -> Flag {
    let short = argument.get_short().map(|letter| format!("-{letter}"));
    let long = argument.get_long().map(|name| format!("--{name}"));
    Flag {
        names: short.into_iter().chain(long).collect(),
        about: about_of(argument.get_help().map(ToString::to_string)),
        values: argument.get_action().takes_values().then(|| values(tool, argument)),
    }
}

/// Returns the values of an argument, as its name tells.
fn values(tool: &str, argument: &Arg) -> Values {
    let listed: Vec<String> =
        argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if !listed.is_empty() {
        return Values::Words(listed);
    }
    let id = argument.get_id().as_str();
    let value = argument.get_value_names().and_then(|names| names.first()).map(clap::builder::Str::as_str);
    match (tool, id, value.unwrap_or_default()) {
        ("restore", "path", _) | (_, "trash_id", _) => Values::Asked("trash"),
        ("", "session", _) => Values::Asked("session"),
        ("", "sandbox", _) | ("sandbox", "name", _) => Values::Asked("sandbox"),
        ("", "dialect", _) => Values::Words(DIALECTS.iter().map(|family| family.name.to_owned()).collect()),
        ("", "set", _) => Values::Shared("settings"),
        ("config", _, "KEY") => Values::Shared("keys"),
        ("init", "client", _) => Values::Words(CLIENTS.iter().map(|client| client.name.to_owned()).collect()),
        ("init" | "mcp", "tools", _) => Values::Shared("served"),
        ("grep", "type" | "type_not", _) => Values::Shared("types"),
        (_, _, "TOOL") => Values::Shared("schemas"),
        (_, _, "SNAPSHOT") => Values::Asked("snapshot"),
        ("move", "from" | "to", _) | (_, _, "PATH" | "FILE") => Values::Paths,
        (_, _, "DIR") => Values::Folders,
        _ => Values::Any,
    }
}

/// Returns the words of the lists that are shared or long.
fn shared() -> Vec<(&'static str, Vec<String>)> {
    let tools: Vec<String> = tree().get_subcommands().map(|tool| tool.get_name().to_owned()).collect();
    let mut schemas = tools.clone();
    schemas.retain(|name| lbx::catalog::find(name).is_some());
    schemas.extend(DIALECTS.iter().flat_map(|family| family.tools.iter().map(|tool| tool.name.to_owned())));
    schemas.sort();
    schemas.dedup();
    let mut pages = tools;
    pages.push("agents".to_owned());
    let mut types = TypesBuilder::new();
    types.add_defaults();
    let types = types.definitions().iter().map(|kind| kind.name().to_owned()).collect();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    vec![
        ("pages", pages),
        ("schemas", schemas),
        ("types", types),
        ("keys", SETTINGS.iter().map(|setting| setting.name.to_owned()).collect()),
        ("settings", SETTINGS.iter().flat_map(|setting| assignments(setting.name, setting.form)).collect()),
        ("served", words(&["all", "core", "read-only"])),
    ]
}

/// Returns the completions of a setting after `--set`; up to the `=` if its values cannot be listed.
fn assignments(name: &str, form: Form) -> Vec<String> {
    let values: &[&str] = match form {
        Form::Choice(words) => words,
        Form::Switch => &["true", "false"],
        Form::Network => &["deny", "allow", ""],
        Form::Number { .. }
        | Form::Globs
        | Form::Folders
        | Form::Settings
        | Form::Caches
        | Form::Items(_)
        | Form::Branch => &[""],
    };
    values.iter().map(|value| format!("{name}={value}")).collect()
}

/// Returns the first words of a help text.
fn about_of(help: Option<String>) -> String {
    let help = help.unwrap_or_default().replace('`', "");
    let end = [". ", "; ", " [", "\n"].iter().filter_map(|end| help.find(end)).min().unwrap_or(help.len());
    let about = help.get(..end).unwrap_or(&help).trim_end_matches('.');
    if about.chars().count() <= ABOUT_MAX {
        return about.to_owned();
    }
    let mut words = String::new();
    for word in about.split(' ') {
        if words.chars().count() + word.chars().count() >= ABOUT_MAX {
            break;
        }
        words.push_str(word);
        words.push(' ');
    }
    format!("{}…", words.trim_end_matches([' ', ',']))
}
