//! Patterns, compiled and bounded, including those in the syntax of `grep` without `-E`, where the backslash makes an
//! operator.

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{Error, Message};
use crate::request::quoted;

/// Most bytes of all patterns of one request.
const PATTERN_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of a compiled pattern.
const COMPILED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most bytes of cached automaton states in a search.
const AUTOMATON_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Deepest nesting of groups.
const NESTING_MAX: u32 = 200;

/// Options for reading a pattern, as requests give them.
#[derive(Debug, Clone, Default, clap::Args, Deserialize, JsonSchema)]
#[group(skip)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the request")]
pub struct PatternOptions {
    /// Treat the pattern as a literal string
    #[arg(long, short = 'F', aliases = ["fixed-strings"])]
    #[schemars(extend("x-aliases" = ["fixed_strings", "literal_text", "-F"]))]
    pub literal: bool,
    /// Ignore case
    #[arg(long, short = 'i')]
    #[schemars(extend("x-aliases" = ["-i", "case_insensitive", "insensitive"]))]
    pub ignore_case: bool,
    /// Ignore case, unless the pattern has an upper-case letter
    #[arg(long, short = 'S')]
    pub smart_case: bool,
    /// Match whole words only
    #[arg(long, short = 'w', aliases = ["word-regexp"])]
    #[schemars(extend("x-aliases" = ["word_regexp", "whole_word", "-w"]))]
    pub word: bool,
    /// Match whole lines only
    #[arg(long, short = 'x', aliases = ["line-regexp"])]
    #[schemars(extend("x-aliases" = ["line_regexp", "-x"]))]
    pub whole_line: bool,
    /// Let matches span lines
    #[arg(long, short = 'U')]
    pub multiline: bool,
}

/// A compiled pattern, with its line terminator.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Matcher.
    pub matcher: RegexMatcher,
    /// Line terminator: CRLF counts too, unless the pattern names the carriage return.
    pub line_ending: LineTerminator,
}

/// Compiles `patterns`, any of which may match.
///
/// # Errors
/// Returns `invalid_request` for bad syntax, with the column; for a pattern that would take too much memory; or for a
/// line ending in a line-by-line search.
pub fn compile(patterns: &[String], reading: &PatternOptions) -> Result<Pattern, Error> {
    let bytes: usize = patterns.iter().map(String::len).sum();
    if bytes > PATTERN_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the pattern has {bytes} bytes; the limit is {PATTERN_BYTES_MAX}"
        )));
    }
    if patterns.iter().any(String::is_empty) {
        return Err(Error::invalid("pattern is empty").suggest("Use `^` to match every line."));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .unicode(true)
        .octal(false)
        .case_insensitive(reading.ignore_case)
        .case_smart(reading.smart_case && !reading.ignore_case)
        .fixed_strings(reading.literal)
        .word(reading.word)
        .whole_line(reading.whole_line)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(AUTOMATON_BYTES_MAX)
        .nest_limit(NESTING_MAX);
    // `$` matches before CRLF too, unless the pattern names the carriage return.
    let names_cr = patterns.iter().any(|pattern| names_carriage_return(pattern, reading.literal));
    let line_ending = if names_cr { LineTerminator::byte(b'\n') } else { LineTerminator::crlf() };
    // If it is CRLF, this sets the matcher's line terminator too.
    builder.crlf(!names_cr);
    if reading.multiline {
        builder.line_terminator(None);
    } else if names_cr {
        builder.line_terminator(Some(b'\n'));
    }
    let matcher = builder.build_many(patterns).map_err(|error| refusal(patterns, reading, &error))?;
    Ok(Pattern { matcher, line_ending })
}

/// Returns true if a pattern names the carriage return, in any spelling that the syntax has.
fn names_carriage_return(pattern: &str, literal: bool) -> bool {
    if literal || pattern.contains('\r') {
        return pattern.contains('\r');
    }
    let mut rest = pattern;
    while let Some(at) = rest.find('\\') {
        let escape = rest.get(at + 1..).unwrap_or_default();
        if names_carriage_return_here(escape) {
            return true;
        }
        let length = escape.chars().next().map_or(0, char::len_utf8);
        rest = escape.get(length..).unwrap_or_default();
    }
    false
}

/// Returns true if the escape after the backslash just read means a carriage return.
fn names_carriage_return_here(escape: &str) -> bool {
    let mut characters = escape.chars();
    let digits = match characters.next() {
        Some('r') => return true,
        Some('x') => 2,
        Some('u') => 4,
        Some('U') => 8,
        _ => return false,
    };
    let rest = characters.as_str();
    let number = match rest.strip_prefix('{') {
        Some(braced) => braced.split('}').next(),
        None => rest.get(..digits),
    };
    number.is_some_and(|number| u32::from_str_radix(number, 16) == Ok(u32::from('\r')))
}

/// Returns the error for a pattern.
fn refusal(patterns: &[String], reading: &PatternOptions, error: &grep_regex::Error) -> Error {
    let text = error.to_string();
    let shown = patterns.join("|");
    let shown = quoted(&shown);
    if matches!(error.kind(), grep_regex::ErrorKind::NotAllowed(_)) && !reading.multiline {
        return Error::invalid(format!(
            "the pattern {shown} contains a line ending, but the search is line by line"
        ))
        .suggest("Set `multiline` to match across lines.");
    }
    if text.contains("size limit") {
        return Error::invalid(format!(
            "the pattern {shown} would take more than {COMPILED_BYTES_MAX} bytes"
        ))
        .suggest("Use smaller repetition counts, or [0-9A-Za-z_] for \\w.");
    }
    // ripgrep's builder wraps the pattern; parsed by itself, its columns are the caller's.
    let alone = patterns.iter().find_map(|pattern| regex::bytes::Regex::new(pattern).err());
    let text = alone.map_or(text, |error| error.to_string());
    let reason = text.lines().rev().find_map(|line| line.strip_prefix("error: ")).unwrap_or(&text);
    let advice = advice(patterns, reason);
    match column_of(&text) {
        Some(column) => Error::invalid(format!("bad pattern {shown} at column {column}: {reason}"))
            .suggest(advice)
            .detail("column", column as u64),
        None => Error::invalid(format!("bad pattern {shown}: {reason}")).suggest(advice),
    }
}

/// Returns a suggestion for a pattern that cannot be parsed.
fn advice(patterns: &[String], reason: &str) -> Message {
    let is_regex = |pattern: &str| regex::bytes::Regex::new(pattern).is_ok();
    let only = if let [only] = patterns { only.as_str() } else { "" };
    if reason.contains("look-around") {
        let without = only.replace("(?<=", "(?:").replace("(?=", "(?:");
        return if !only.is_empty() && is_regex(&without) {
            format!("Look-around is not supported: match the text around as well, `{without}`.").into()
        } else {
            "Look-around is not supported: search without it, and skip the matches that you do not want."
                .into()
        };
    }
    if reason.contains("backreferences") {
        return "Backreferences are not supported: write the repeated text out, or search for its first part.".into();
    }
    match as_extended(only).filter(|extended| is_regex(extended)) {
        Some(extended) => format!("Is that the syntax of grep without -E? Here it is `{extended}`.").into(),
        None => {
            "Put a backslash before each character to match literally. To search for plain text, set `literal`.".into()
        }
    }
}

/// Returns the 1-based column of the caret in the parser's message.
fn column_of(message: &str) -> Option<usize> {
    /// Indentation of the pattern in the parser's message.
    const INDENT: usize = 4;
    let caret = message.lines().find(|line| line.trim_start().starts_with('^'))?;
    Some((caret.len() - caret.trim_start().len()).checked_sub(INDENT)? + 1)
}

/// Operators that need a backslash in the basic syntax, but not here.
const OPERATORS: &str = "|()+?{}";

/// Returns the pattern in the syntax used here; `None` if it has no operator of the basic syntax.
pub fn as_extended(pattern: &str) -> Option<String> {
    let mut extended = String::with_capacity(pattern.len());
    let (mut found, mut in_class) = (false, false);
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(operator) if OPERATORS.contains(operator) && !in_class => {
                    found = true;
                    extended.push(operator);
                }
                Some(other) => extended.extend(['\\', other]),
                None => extended.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                extended.push('[');
                // A `]` at the very beginning belongs to the class.
                for first in ['^', ']'] {
                    extended.extend(characters.next_if_eq(&first));
                }
            }
            ']' => {
                in_class = false;
                extended.push(']');
            }
            plain if OPERATORS.contains(plain) && !in_class => extended.extend(['\\', plain]),
            other => extended.push(other),
        }
    }
    found.then_some(extended)
}

/// Returns true if the pattern has an alternative of the basic syntax.
pub fn has_basic_alternative(pattern: &str) -> bool {
    has_escaped(pattern, "|")
}

/// Returns true if the pattern may be meant in the basic syntax: `\(` alone is the usual way to write a plain
/// parenthesis.
pub fn is_likely_basic(pattern: &str) -> bool {
    has_escaped(pattern, "|+?{")
}

/// Returns true if one of `operators` follows a backslash.
fn has_escaped(pattern: &str, operators: &str) -> bool {
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character == '\\' && characters.next().is_some_and(|escaped| operators.contains(escaped)) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the error for one pattern with default options.
    fn refused(pattern: &str) -> Error {
        compile(&[pattern.to_owned()], &PatternOptions::default()).unwrap_err()
    }

    #[test]
    fn all_spellings_of_a_carriage_return_are_recognized() {
        for pattern in
            ["a\\r", "[\\r\\t]", "\\x0d", "\\x0D?", "\\x{d}", "\\u000d", "\\u{00D}", "\\U0000000d", "\r"]
        {
            assert!(names_carriage_return(pattern, false), "{pattern}");
        }
        for pattern in ["\\\\readme", "\\x0e", "r", "\\x{1d}", "\\", "\\u00"] {
            assert!(!names_carriage_return(pattern, false), "{pattern}");
        }
        assert!(!names_carriage_return("\\r", true));
    }

    #[test]
    fn suggested_action_matches_the_pattern_error() {
        assert!(refused("(?<=fn )main").suggested_action().contains("`(?:fn )main`"));
        assert!(refused("(?<!fn )main").suggested_action().contains("Look-around"));
        assert!(refused(r"(a)\1").suggested_action().contains("Backreferences"));
        assert!(refused(r"fn main(\|impl").suggested_action().contains(r"`fn main\(|impl`"));
    }

    #[test]
    fn invalid_pattern_is_an_error_with_a_column() {
        assert_eq!(refused("abc(d").details().get("column"), Some(&4.into()));
        assert_eq!(refused("a{2,1}").details().get("column"), Some(&2.into()));
        assert!(refused("(\\w{200}){200}").message().contains("bytes"));
        assert!(refused(&"(".repeat(5000)).message().contains("bad pattern"));
        assert!(refused("a\\nb").suggested_action().contains("multiline"));
        assert!(refused("").suggested_action().contains('^'));
    }

    #[test]
    fn basic_regex_operators_are_translated() {
        assert_eq!(as_extended(r"a\|b").as_deref(), Some("a|b"));
        assert_eq!(as_extended(r"fn main(\|\(pub\)\+").as_deref(), Some(r"fn main\(|(pub)+"));
        assert_eq!(as_extended(r"[\|(]\|x").as_deref(), Some(r"[\|(]|x"));
        assert_eq!(as_extended(r"\bword\b"), None);
        assert_eq!(as_extended("a|b"), None);
        assert!(has_basic_alternative(r"a\|b") && !has_basic_alternative(r"a\\|b"));
        assert!(is_likely_basic(r"a\+") && !is_likely_basic(r"main\(\)"));
    }
}
