//! Rewrites command-line arguments to the form that the parser accepts.
//!
//! Models write more forms than clap knows: positional fields as flags, field names from other tools, values that look
//! like flags, `@FILE` for a long text. One pass over the arguments handles all of them before the parser runs.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command};

use super::input;
use super::suggest::{self, kebab};
use crate::error::Error;
use crate::request;
use crate::tools::{Stdin, ToolEntry};

/// Option that names a model family.
pub const DIALECT: &str = "--dialect";
/// Common options with a value, which is never a tool name.
const WITH_VALUE: [&str; 6] = ["--workspace", "--session", "--sandbox", "--set", "--json", DIALECT];
/// Values of `rg --color` as a separate argument.
const COLORS: [&str; 4] = ["never", "auto", "always", "ansi"];

/// Returns the index of the tool name in the arguments.
pub fn tool_index(arguments: &[OsString]) -> Option<usize> {
    let mut words = arguments.iter().enumerate().skip(1);
    while let Some((index, word)) = words.next() {
        if WITH_VALUE.iter().any(|option| word == option) {
            words.next();
        } else if !word.as_bytes().starts_with(b"-") {
            return Some(index);
        }
    }
    None
}

/// Returns the arguments of a call in the form that `parser` accepts, and the files whose texts they include.
///
/// # Errors
/// Returns `invalid_request`: a flag that the tool does not have, or a text in a file that cannot be read.
pub fn normalize(
    tool: &ToolEntry,
    parser: &Command,
    mut arguments: Vec<OsString>,
) -> Result<(Vec<OsString>, Vec<PathBuf>), Error> {
    let Some(index) = tool_index(&arguments) else {
        return Ok((arguments, Vec::new()));
    };
    let Some(known) = ToolFlags::of(tool, parser) else {
        return Ok((arguments, Vec::new()));
    };
    loop {
        let pass = ArgumentPass::read_arguments(&known, &arguments, index)?;
        // Aliases are looked up only for an unknown flag; the next argument may then be its value.
        let Some((at, name)) = pass.unknown.first() else {
            return Ok(pass.assemble(index));
        };
        let own = tool_flag_of(tool, name)?;
        if let Some(word) = arguments.get_mut(*at) {
            let value = word.as_bytes().get(2 + name.len()..).unwrap_or_default().to_vec();
            *word = OsString::from(format!("--{own}"));
            word.push(OsStr::from_bytes(&value));
        }
    }
}

/// Returns the flag of the tool for an alias of a field.
fn tool_flag_of(tool: &ToolEntry, name: &str) -> Result<String, Error> {
    let field = request::field_of(name, &(tool.request_schema)())
        .ok_or_else(|| suggest::flag(tool, &format!("--{name}")))?;
    let command = (tool.command)();
    let argument = command.get_arguments().find(|argument| argument.get_id() == field.as_str());
    match argument {
        Some(argument) => Ok(argument.get_long().map_or_else(|| kebab(&field), str::to_owned)),
        None => {
            Err(Error::invalid(format!("`{field}` has no flag: give it in --json")).detail("field", field))
        }
    }
}

/// Flags of a tool.
struct ToolFlags {
    /// Flags of the tool, then common flags.
    flags: Vec<ToolFlag>,
    /// Positional fields, in order, as flags.
    positionals: Vec<String>,
    /// Fields of long text, as flags.
    texts: Vec<String>,
}

/// One flag.
struct ToolFlag {
    /// Long names of the flag.
    long: Vec<String>,
    /// Short names of the flag.
    short: Vec<char>,
    /// True if the next argument is the value.
    takes_next: bool,
    /// True if the value is a text, which may look like a flag.
    is_text: bool,
}

impl ToolFlags {
    /// Returns the flags of `tool` and the common flags, from `parser`.
    fn of(tool: &ToolEntry, parser: &Command) -> Option<Self> {
        let own = parser.find_subcommand(tool.name)?;
        let flags = own.get_arguments().chain(parser.get_arguments()).filter(|flag| !flag.is_positional());
        let positionals = own.get_positionals().map(|field| kebab(field.get_id().as_str()));
        let bulk = match tool.stdin {
            Stdin::Bulk { field, .. } => Some(field),
            Stdin::Ignored | Stdin::Request => None,
        };
        Some(Self {
            flags: flags.map(ToolFlag::of).collect(),
            positionals: positionals.collect(),
            texts: bulk.into_iter().chain(tool.dash.iter().copied()).map(kebab).collect(),
        })
    }

    /// Returns the flag with this long name.
    fn long(&self, name: &str) -> Option<&ToolFlag> {
        self.flags.iter().find(|flag| flag.long.iter().any(|long| long == name))
    }

    /// Returns true if the last of these short flags takes the next argument as its value.
    fn short_takes_next(&self, letters: &str) -> bool {
        for (index, letter) in letters.char_indices() {
            if self.flags.iter().any(|flag| flag.takes_next && flag.short.contains(&letter)) {
                return index + letter.len_utf8() == letters.len();
            }
        }
        false
    }
}

impl ToolFlag {
    /// Returns the properties of a clap flag.
    fn of(flag: &Arg) -> Self {
        let others = flag.get_all_aliases().unwrap_or_default();
        let letters = flag.get_all_short_aliases().unwrap_or_default();
        Self {
            long: flag.get_long().into_iter().chain(others).map(str::to_owned).collect(),
            short: flag.get_short().into_iter().chain(letters).collect(),
            takes_next: matches!(flag.get_action(), ArgAction::Set | ArgAction::Append)
                && !flag.is_require_equals_set(),
            is_text: flag.is_allow_hyphen_values_set()
                || flag.get_value_parser().type_id() == TypeId::of::<String>(),
        }
    }
}

/// One pass over the arguments.
#[derive(Default)]
struct ArgumentPass {
    /// Arguments that keep their place.
    words: Vec<OsString>,
    /// Value of the first positional field, if given as a flag.
    first: Option<OsString>,
    /// Values of other positional fields that were given as flags.
    last: Vec<OsString>,
    /// Files whose texts are among the arguments.
    files: Vec<PathBuf>,
    /// Unknown long flags, each with its argument index.
    unknown: Vec<(usize, String)>,
}

impl ArgumentPass {
    /// Reads all arguments; keeps the ones up to the tool name, at `index`, unchanged.
    fn read_arguments(known: &ToolFlags, arguments: &[OsString], index: usize) -> Result<Self, Error> {
        let mut pass = Self::default();
        let mut words = arguments.iter().enumerate().peekable();
        while let Some((at, word)) = words.next() {
            if at > index && word == "--" {
                pass.words.extend(std::iter::once(word).chain(words.map(|(_, word)| word)).cloned());
                break;
            }
            let used = pass.read_argument(
                known,
                at,
                word,
                words.peek().map(|(_, next)| next.as_os_str()),
                at <= index,
            )?;
            if used {
                words.next();
            }
        }
        Ok(pass)
    }

    /// Reads one argument; returns true if the next one is its value.
    fn read_argument(
        &mut self,
        known: &ToolFlags,
        at: usize,
        word: &OsString,
        next: Option<&OsStr>,
        is_before_tool: bool,
    ) -> Result<bool, Error> {
        let Some(long) = word.as_bytes().strip_prefix(b"--").filter(|_| !is_before_tool) else {
            let letters = word.to_str().and_then(|word| word.strip_prefix('-')).filter(|_| !is_before_tool);
            let next = next.filter(|_| letters.is_some_and(|letters| known.short_takes_next(letters)));
            match next.filter(|next| is_negative(next)) {
                Some(number) => self.words.push([word.as_os_str(), number].into_iter().collect()),
                None => self.words.extend([word.clone()].into_iter().chain(next.map(OsStr::to_owned))),
            }
            return Ok(next.is_some());
        };
        let (name, inline) = match memchr::memchr(b'=', long) {
            Some(end) => (long.get(..end).unwrap_or_default(), long.get(end + 1..).map(OsStr::from_bytes)),
            None => (long, None),
        };
        let name = String::from_utf8_lossy(name).into_owned();
        if let Some(position) = known.positionals.iter().position(|field| *field == name) {
            match inline.or(next) {
                Some(value) if position == 0 && self.first.is_none() => self.first = Some(value.to_owned()),
                Some(value) => self.last.push(value.to_owned()),
                None => self.words.push(word.clone()),
            }
            return Ok(inline.is_none() && next.is_some());
        }
        let Some(flag) = known.long(&name) else {
            self.words.push(word.clone());
            if !matches!(name.as_str(), "help" | "version") {
                self.unknown.push((at, name));
            }
            return Ok(false);
        };
        let takes_color = matches!(name.as_str(), "color" | "colour")
            && next.is_some_and(|next| COLORS.iter().any(|color| next == *color));
        let value = inline.or_else(|| next.filter(|_| flag.takes_next || takes_color));
        match value {
            Some(value) if known.texts.contains(&name) => {
                let (text, file) = input::text_argument(value)?;
                self.files.extend(file);
                self.words.push(joined(&name, &text));
            }
            Some(value) if inline.is_none() && (flag.is_text || takes_color || is_negative(value)) => {
                self.words.push(joined(&name, value));
            }
            Some(value) if inline.is_none() => self.words.extend([word.clone(), value.to_owned()]),
            _ => self.words.push(word.clone()),
        }
        Ok(inline.is_none() && value.is_some())
    }

    /// Returns the arguments with the positional fields in place: the first one right after the tool name, the others
    /// at the end.
    fn assemble(self, index: usize) -> (Vec<OsString>, Vec<PathBuf>) {
        let mut words = self.words;
        let at = (index + 1).min(words.len());
        words.splice(at..at, self.first);
        words.extend(self.last);
        (words, self.files)
    }
}

/// Returns true if an argument is a negative number: after a flag it is a value, though it looks like a flag.
fn is_negative(word: &OsStr) -> bool {
    let digits = word.as_bytes().strip_prefix(b"-").unwrap_or_default();
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Joins a flag and its value in one argument, so that the parser always accepts the value.
fn joined(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(format!("--{name}="));
    word.push(value);
    word
}
