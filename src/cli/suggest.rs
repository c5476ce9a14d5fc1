//! Errors for unknown flags and arguments, with a question that names the likely intent.

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args as _, Command};

use crate::app::options::Options;
use crate::error::Error;
use crate::request;
use crate::text::similarity;
use crate::tools::bash::Bash;
use crate::tools::{Stdin, Tool as _, ToolEntry};

/// Advice for a command whose words were given as separate arguments.
const WHOLE_COMMAND: &str = "Quote the whole command: `bash 'COMMAND ARGUMENTS'`.";

/// Flags of other programs that callers often try, and their replacement here.
const ELSEWHERE: [(&str, &str, &str); 16] = [
    ("grep", "--basic-regexp", "Patterns are in ripgrep's syntax: write `a|b` for `a\\|b`."),
    ("grep", "-G", "Patterns are in ripgrep's syntax: write `a|b` for `a\\|b`."),
    ("grep", "--files", "`glob` finds files by name."),
    ("grep", "--files-without-match", "Compare `grep -l` with `glob` for the files without a match."),
    ("grep", "-L", "Symlinks are never followed; for files without a match compare `grep -l` with `glob`."),
    ("grep", "--follow", "Symlinks are never followed: name what they lead to as a path."),
    ("grep", "--replace", "`grep` only finds: `edit` replaces text in files."),
    ("grep", "--null-data", "Lines end in LF or CRLF only."),
    ("grep", "-z", "Lines end in LF or CRLF only."),
    ("grep", "--iglob", "--include is case-sensitive: write '*.[rR][sS]' for both cases."),
    ("glob", "--follow", "Symlinks are never followed: name what they lead to as a path."),
    ("glob", "--name", "Give the pattern as the first argument: `glob '*.rs'`."),
    ("ls", "--reverse", "There is no reverse order; --sort chooses path, mtime or size."),
    ("edit", "--in-place", "`edit` always changes the file itself."),
    ("edit", "-i", "`edit` always changes the file itself."),
    ("patch", "-i", "Give the patch as `patch FILE`, in --patch, or on stdin."),
];

/// Returns the error for arguments that clap rejects: an unknown flag, an extra argument, a missing value.
pub fn argument(tool: &ToolEntry, error: &clap::Error) -> Error {
    if error.kind() != clap::error::ErrorKind::UnknownArgument {
        let told = without_value(tool, error).or_else(|| bad_value(tool, error));
        return told.unwrap_or_else(|| request::flag_error(error));
    }
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(given)) if given.starts_with('-') => flag(tool, given),
        Some(ContextValue::String(given)) => word(tool, given),
        _ => request::flag_error(error),
    }
}

/// Returns the error for a missing or empty value; `None` for any other error.
fn without_value(tool: &ToolEntry, error: &clap::Error) -> Option<Error> {
    let argument = context(error, ContextKind::InvalidArg)?;
    let value = context(error, ContextKind::InvalidValue)?;
    if error.kind() != clap::error::ErrorKind::InvalidValue || !value.is_empty() {
        return None;
    }
    let command = (tool.command)();
    let named = argument_named(&command, argument);
    if let Some(field) = named.filter(|named| named.is_positional()) {
        let field = field.get_id().to_string();
        return Some(Error::invalid(format!("field `{field}` is empty")).detail("field", field));
    }
    let flag = argument.split(' ').next().unwrap_or(argument);
    let refusal = Error::invalid(format!("`{flag}` needs a value"))
        .suggest(format!("Give it as {argument}."))
        .detail("flag", flag);
    let globals = Options::augment_args(Command::new("lbx"));
    let shadowed = named.and_then(Arg::get_short).and_then(|short| {
        globals.get_arguments().find(|global| global.get_short() == Some(short)).map(|global| (short, global))
    });
    Some(match shadowed.and_then(|(short, global)| Some((short, global.get_long()?))) {
        Some((short, long)) => refusal.on_command_line(format!(
            "In `{}`, -{short} is {flag}: write --{long} for the option of every tool.",
            tool.name
        )),
        None => refusal,
    })
}

/// Returns the error for a value that the field rejects: a number out of range, or an unknown word. `None` for any
/// other error.
fn bad_value(tool: &ToolEntry, error: &clap::Error) -> Option<Error> {
    let argument = context(error, ContextKind::InvalidArg)?;
    let value = request::quoted(context(error, ContextKind::InvalidValue)?);
    let command = (tool.command)();
    let field = argument_named(&command, argument)?;
    let name = field.get_long().map_or_else(|| field.get_id().to_string(), |long| format!("--{long}"));
    let expected = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(words)) if !words.is_empty() => words.join(" or "),
        _ => request::number_of(field.get_id().as_str(), &(tool.request_schema)())?,
    };
    let refusal = Error::invalid(format!("`{name}`: expected {expected}, got {value}"));
    Some(
        refusal
            .suggest(format!("Give `{name}` as expected, or leave it out."))
            .on_command_line("`lbx TOOL --help` describes it.")
            .detail("field", field.get_id().as_str())
            .detail("expected", expected),
    )
}

/// Returns the argument that the parser shows in this form: a flag with its value, or a positional one in brackets.
fn argument_named<'c>(command: &'c Command, shown: &str) -> Option<&'c Arg> {
    let bare = shown.trim_matches(['[', ']', '<', '>', '.']);
    let flag = shown.split(' ').next().and_then(|flag| flag.strip_prefix("--"));
    let has_name = |of: &Arg| {
        of.get_value_names().and_then(|names| names.first()).is_some_and(|name| name.as_str() == bare)
    };
    match flag {
        Some(flag) => command.get_arguments().find(|own| own.get_long() == Some(flag)),
        None => command.get_positionals().find(|own| has_name(own)),
    }
}

/// Returns the context of this kind in a parser error.
fn context(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

/// Returns the error for an extra argument.
fn word(tool: &ToolEntry, given: &str) -> Error {
    let given = &*request::quoted(given);
    let command = (tool.command)();
    let places: Vec<String> = command.get_positionals().map(shown).collect();
    let takes = if places.is_empty() { "none".to_owned() } else { places.join(" ") };
    Error::invalid(format!(
        "unexpected argument `{given}`; `{}` takes {takes}; give everything else as flags",
        tool.name
    ))
    .suggest(word_advice(tool))
    .on_command_line(format!("`lbx {} --help` lists the arguments.", tool.name))
    .detail("argument", given)
}

/// Returns advice on the right place for an extra argument.
fn word_advice(tool: &ToolEntry) -> String {
    match tool.stdin {
        _ if tool.name == Bash::NAME => WHOLE_COMMAND.to_owned(),
        Stdin::Bulk { field, .. } => {
            format!("Give the text on stdin or in --{}, and all other fields as flags.", kebab(field))
        }
        _ => "Quote text that has spaces, and give all other fields as flags.".to_owned(),
    }
}

/// Returns a positional field as the help shows it.
fn shown(field: &Arg) -> String {
    let name = field.get_id().as_str().to_uppercase();
    if field.is_required_set() { name } else { format!("[{name}]") }
}

/// Returns the error for a flag that the tool does not have.
pub fn flag(tool: &ToolEntry, given: &str) -> Error {
    let text_elsewhere = bulk_advice(tool, given);
    let given = given.split_once('=').map_or(given, |(name, _)| name);
    let given = &*request::quoted(given);
    let name = given.trim_start_matches('-');
    let command = (tool.command)();
    let globals = Options::augment_args(Command::new("lbx"));
    let visible = |argument: &&Arg| !argument.is_hide_set();
    let own: Vec<String> = command.get_arguments().filter(visible).filter_map(flag_of).collect();
    let common = globals.get_arguments().filter(visible).filter_map(flag_of);
    let mut near: Vec<String> = Vec::new();
    let mut in_json = None;
    if name.len() > 1 {
        for field in request::plausible(name, &(tool.request_schema)()) {
            let argument = command.get_arguments().find(|argument| argument.get_id() == field.as_str());
            if argument.is_none() && near.is_empty() {
                in_json = Some(format!("Give `{field}` in --json: it has no flag."));
                break;
            }
            let is_shown = argument.as_ref().is_some_and(visible);
            near.extend(is_shown.then(|| format!("--{}", kebab(&field))));
        }
        let all: Vec<String> = own.iter().cloned().chain(common).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        for close in similarity::nearest(given, &all, 1, 0.85) {
            if !near.iter().any(|known| known == close) {
                near.push(close.to_owned());
            }
        }
    }
    // Accepts `log -5` as git does.
    if name.parse::<u64>().is_ok() && own.iter().any(|flag| flag == "--limit") {
        near = vec![format!("--limit {name}")];
    }
    near.truncate(3);
    let hint = ELSEWHERE.iter().find(|(of, flag, _)| *of == tool.name && *flag == given);
    let question = (!near.is_empty()).then(|| format!("Did you mean {}?", near.join(" or ")));
    let unquoted = (tool.name == Bash::NAME && near.is_empty()).then(|| WHOLE_COMMAND.to_owned());
    let hint = hint.map(|(.., hint)| (*hint).to_owned());
    let advice = text_elsewhere.or(in_json).or(hint).or(question).or(unquoted);
    let message = format!("`{}` has no flag `{given}` (flags: {})", tool.name, own.join(", "));
    Error::invalid(message)
        .suggest(advice.unwrap_or_else(|| "Leave it out, or use one of the flags named.".to_owned()))
        .on_command_line(format!("`lbx {} --help` describes them.", tool.name))
        .detail("flag", given)
}

/// Returns a field's name as a flag.
pub fn kebab(field: &str) -> String {
    field.replace('_', "-")
}

/// Returns advice for a text of several lines that begins like a flag, such as a diff.
fn bulk_advice(tool: &ToolEntry, given: &str) -> Option<String> {
    let Stdin::Bulk { field, .. } = tool.stdin else { return None };
    given.contains('\n').then(|| format!("Give the text on stdin or in --{}.", kebab(field)))
}

/// Returns an argument as a flag; positional ones also have a flag form.
fn flag_of(argument: &Arg) -> Option<String> {
    if argument.is_positional() {
        return None;
    }
    match (argument.get_long(), argument.get_short()) {
        (Some(long), _) => Some(format!("--{long}")),
        (None, Some(short)) => Some(format!("-{short}")),
        (None, None) => None,
    }
}
