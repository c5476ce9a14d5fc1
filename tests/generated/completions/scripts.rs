//! The three scripts: an engine with the data in the form that its shell reads.

use std::fmt::Write as _;

use super::{Flag, Tool, Values, globals, shared, tools};

/// Placeholder for the data in an engine.
const DATA: &str = "@DATA@\n";

/// Returns every script with its file name.
pub fn all() -> Vec<(&'static str, String)> {
    let script = |engine: &str, data: String| engine.replace(DATA, &data);
    vec![
        ("lbx.bash", script(include_str!("lbx.bash"), bash())),
        ("_lbx", script(include_str!("lbx.zsh"), zsh())),
        ("lbx.fish", script(include_str!("lbx.fish"), fish())),
    ]
}

/// Returns values in the form of the bash and zsh engines: `@path`, `@dir`, `@NAME` for a list, or words separated by
/// commas.
fn kind(values: &Values) -> String {
    match values {
        Values::Any => String::new(),
        Values::Paths => "@path".to_owned(),
        Values::Folders => "@dir".to_owned(),
        Values::Words(words) => words.join(","),
        Values::Shared(name) | Values::Asked(name) => format!("@{name}"),
    }
}

/// Returns the kinds of a tool's positional arguments. An asterisk repeats the last one; `-` accepts anything.
fn places(tool: &Tool) -> String {
    let mut kinds: Vec<String> = tool.places.iter().map(kind).collect();
    for kind in kinds.iter_mut().filter(|kind| kind.is_empty()) {
        kind.push('-');
    }
    if tool.repeats
        && let Some(last) = kinds.last_mut()
    {
        last.push('*');
    }
    kinds.join(" ")
}

/// Returns a text in single quotes, as all three shells take it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "’"))
}

/// Returns words in single quotes.
fn listed(words: &[String]) -> String {
    quoted(&words.join(" "))
}

/// Returns the data of bash: one case per tool, each flag as `NAME` or `NAME=KIND`.
fn bash() -> String {
    let flags = |flags: &[Flag]| -> Vec<String> {
        let word = |flag: &Flag, name: &String| match &flag.values {
            Some(values) => format!("{name}={}", kind(values)),
            None => name.clone(),
        };
        flags.iter().flat_map(|flag| flag.names.iter().map(move |name| word(flag, name))).collect()
    };
    let names: Vec<String> = tools().iter().map(|tool| tool.name.clone()).collect();
    let mut data = format!("    _lbx_tools={}\n", listed(&names));
    let _ = writeln!(data, "    _lbx_globals={}", listed(&flags(&globals())));
    data.push_str("    case $1 in\n");
    for tool in tools() {
        let own = listed(&flags(&tool.flags));
        let _ = writeln!(
            data,
            "        {}) _lbx_flags={own} _lbx_places={} ;;",
            tool.name,
            quoted(&places(&tool))
        );
    }
    data.push_str("    esac\n    case $2 in\n");
    for (name, words) in shared() {
        let _ = writeln!(data, "        @{name}) _lbx_words={} ;;", listed(&words));
    }
    data.push_str("    esac\n");
    data
}

/// Returns the data of zsh: as in bash, with a description after a colon.
fn zsh() -> String {
    let flags = |flags: &[Flag]| -> String {
        let mut words = String::new();
        for flag in flags {
            for name in &flag.names {
                let value =
                    flag.values.as_ref().map(|values| format!("={}", kind(values))).unwrap_or_default();
                let _ = write!(words, "\n            {}", quoted(&format!("{name}{value}:{}", flag.about)));
            }
        }
        words
    };
    let mut data = String::from("    _lbx_tools=(");
    for tool in tools() {
        let _ = write!(data, "\n        {}", quoted(&format!("{}:{}", tool.name, tool.about)));
    }
    let _ = writeln!(data, "\n    )\n    _lbx_globals=({}\n    )", flags(&globals()));
    data.push_str("    case $1 in\n");
    for tool in tools() {
        let _ = writeln!(
            data,
            "        {}) _lbx_places=({}) _lbx_flags=({}\n        ) ;;",
            tool.name,
            places(&tool)
                .split(' ')
                .filter(|kind| !kind.is_empty())
                .map(quoted)
                .collect::<Vec<_>>()
                .join(" "),
            flags(&tool.flags)
        );
    }
    data.push_str("    esac\n    case $2 in\n");
    for (name, words) in shared() {
        let _ = writeln!(data, "        @{name}) _lbx_words=({}) ;;", words.join(" "));
    }
    data.push_str("    esac\n");
    data
}

/// Returns the data of fish: one `complete` per flag and positional argument.
fn fish() -> String {
    let mut data = String::new();
    let valued: Vec<String> = globals().iter().filter(|flag| flag.values.is_some()).flat_map(names).collect();
    let _ = writeln!(
        data,
        "set -g __lbx_valued {}\nfunction __lbx_valued_of\n    switch $argv[1]",
        valued.join(" ")
    );
    for tool in tools() {
        let own: Vec<String> =
            tool.flags.iter().filter(|flag| flag.values.is_some()).flat_map(names).collect();
        if !own.is_empty() {
            let _ = writeln!(
                data,
                "        case {}\n            string split ' ' -- {}",
                tool.name,
                listed(&own)
            );
        }
    }
    data.push_str("    end\nend\n");
    for (name, words) in shared() {
        let _ = writeln!(data, "set -g __lbx_{name} {}", words.join(" "));
    }
    for flag in globals() {
        let _ = writeln!(data, "complete -c lbx{}", fish_flag(&flag));
    }
    for tool in tools() {
        let name = &tool.name;
        let _ = writeln!(data, "complete -c lbx -n '__lbx_at 0' -a {name} -d {}", quoted(&tool.about));
        for flag in &tool.flags {
            let _ = writeln!(data, "complete -c lbx -n '__lbx_in {name}'{}", fish_flag(flag));
        }
        for (values, number) in tool.places.iter().zip(1..) {
            let last = if tool.repeats && number == tool.places.len() { "+" } else { "" };
            let offers = fish_values(values);
            if !offers.is_empty() {
                let _ = writeln!(data, "complete -c lbx -n '__lbx_at {number}{last} {name}'{offers}");
            }
        }
    }
    data
}

/// Returns the spellings of a flag.
fn names(flag: &Flag) -> Vec<String> {
    flag.names.clone()
}

/// Returns a flag as arguments of `complete`.
fn fish_flag(flag: &Flag) -> String {
    let mut words = String::new();
    for name in &flag.names {
        let (option, name) =
            name.strip_prefix("--").map_or(("-s", name.get(1..).unwrap_or("")), |name| ("-l", name));
        let _ = write!(words, " {option} {name}");
    }
    match &flag.values {
        None => {}
        Some(Values::Paths) => words.push_str(" -r -F"),
        Some(values) => {
            words.push_str(" -x");
            words.push_str(&fish_values(values));
        }
    }
    let _ = write!(words, " -d {}", quoted(&flag.about));
    words
}

/// Returns values as arguments of `complete`.
fn fish_values(values: &Values) -> String {
    match values {
        Values::Any => String::new(),
        Values::Paths => " -F".to_owned(),
        Values::Folders => " -a '(__fish_complete_directories (commandline -ct))'".to_owned(),
        Values::Words(words) => format!(" -a {}", listed(words)),
        Values::Shared(name) => format!(" -a '$__lbx_{name}'"),
        Values::Asked(what) => format!(" -a '(__lbx_asked {what})'"),
    }
}
