//! The words of a command line, put in the form that the parser takes.
//!
//! Hands write more than clap knows: positional fields as flags, field names that models know from other
//! tools, values that look like flags, `@FILE` for a long text. One pass over the words settles all of
//! that; only then are they parsed.

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

/// The option that names a model family.
pub const DIALECT: &str = "--dialect";
/// Options of every tool that take a value, which is no tool's name.
const WITH_VALUE: [&str; 6] = ["--workspace", "--session", "--sandbox", "--set", "--json", DIALECT];
/// What `rg --color` takes as a word of its own.
const COLORS: [&str; 4] = ["never", "auto", "always", "ansi"];

/// Returns where the tool's name stands among the arguments.
#[must_use]
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

/// Returns the arguments of a call in the form that `parser` takes, and the files whose texts are among them.
///
/// # Errors
/// `invalid_request`: a flag that the tool does not have, or a text in a file that cannot be read.
pub fn arranged(
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
        let pass = Pass::over(&known, &arguments, index)?;
        // Other names are looked up only where a flag is not known; what follows one may then be its value.
        let Some((at, name)) = pass.unknown.first() else {
            return Ok(pass.put_together(index));
        };
        let own = own_name(tool, name)?;
        if let Some(word) = arguments.get_mut(*at) {
            let value = word.as_bytes().get(2 + name.len()..).unwrap_or_default().to_vec();
            *word = OsString::from(format!("--{own}"));
            word.push(OsStr::from_bytes(&value));
        }
    }
}

/// Returns the tool's own flag for another name of a field.
fn own_name(tool: &ToolEntry, name: &str) -> Result<String, Error> {
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

/// The flags that a tool takes.
struct ToolFlags {
    /// Those of its own, then those of every tool.
    flags: Vec<Flag>,
    /// The positional fields, in order, as flags.
    positionals: Vec<String>,
    /// Fields of long text, as flags.
    texts: Vec<String>,
}

/// A flag.
struct Flag {
    /// Its long names.
    long: Vec<String>,
    /// Its short names.
    short: Vec<char>,
    /// True if the next word is its value.
    takes_next: bool,
    /// True if that value is a text, which may look like a flag.
    is_text: bool,
}

impl ToolFlags {
    /// Returns the flags of `tool` and those of every tool, as `parser` knows them.
    fn of(tool: &ToolEntry, parser: &Command) -> Option<Self> {
        let own = parser.find_subcommand(tool.name)?;
        let flags = own.get_arguments().chain(parser.get_arguments()).filter(|flag| !flag.is_positional());
        let positionals = own.get_positionals().map(|field| kebab(field.get_id().as_str()));
        let bulk = match tool.stdin {
            Stdin::Bulk { field, .. } => Some(field),
            Stdin::Ignored | Stdin::Request => None,
        };
        Some(Self {
            flags: flags.map(Flag::of).collect(),
            positionals: positionals.collect(),
            texts: bulk.into_iter().chain(tool.dash.iter().copied()).map(kebab).collect(),
        })
    }

    /// Returns the flag of that long name.
    fn long(&self, name: &str) -> Option<&Flag> {
        self.flags.iter().find(|flag| flag.long.iter().any(|long| long == name))
    }

    /// Returns true if the value of the last of these short flags is the next word.
    fn short_takes_next(&self, letters: &str) -> bool {
        for (index, letter) in letters.char_indices() {
            if self.flags.iter().any(|flag| flag.takes_next && flag.short.contains(&letter)) {
                return index + letter.len_utf8() == letters.len();
            }
        }
        false
    }
}

impl Flag {
    /// Returns what clap knows of a flag.
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

/// One pass over the words.
#[derive(Default)]
struct Pass {
    /// Those that stay where they are.
    words: Vec<OsString>,
    /// The value of the first positional field, where it was given as a flag.
    first: Option<OsString>,
    /// Those of further ones.
    last: Vec<OsString>,
    /// Files whose texts are among the words.
    files: Vec<PathBuf>,
    /// Long flags that are not known, each with its place among the arguments.
    unknown: Vec<(usize, String)>,
}

impl Pass {
    /// Goes over all words; those up to the tool's name, at `index`, stay as they are.
    fn over(known: &ToolFlags, arguments: &[OsString], index: usize) -> Result<Self, Error> {
        let mut pass = Self::default();
        let mut words = arguments.iter().enumerate().peekable();
        while let Some((at, word)) = words.next() {
            if at > index && word == "--" {
                pass.words.extend(std::iter::once(word).chain(words.map(|(_, word)| word)).cloned());
                break;
            }
            let used =
                pass.take(known, at, word, words.peek().map(|(_, next)| next.as_os_str()), at <= index)?;
            if used {
                words.next();
            }
        }
        Ok(pass)
    }

    /// Takes a word; whether the next one was its value.
    fn take(
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

    /// Returns the words with the positional fields in their places: the first one right after the tool's name, any
    /// other at the end.
    fn put_together(self, index: usize) -> (Vec<OsString>, Vec<PathBuf>) {
        let mut words = self.words;
        let at = (index + 1).min(words.len());
        words.splice(at..at, self.first);
        words.extend(self.last);
        (words, self.files)
    }
}

/// Returns true if a word is a negative number: after a flag it is its value, though it looks like a flag.
fn is_negative(word: &OsStr) -> bool {
    let digits = word.as_bytes().strip_prefix(b"-").unwrap_or_default();
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Returns a flag with its value in one word, so that the value is one whatever it looks like.
fn joined(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(format!("--{name}="));
    word.push(value);
    word
}
