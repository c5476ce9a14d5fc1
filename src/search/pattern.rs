//! Patterns, compiled and bounded.

use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use crate::error::Error;

/// Bytes of all patterns of one request together.
const PATTERN_BYTES_MAX: usize = 64 * 1024;
/// Bytes that a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes that a search may take to remember the states of its automaton.
const AUTOMATON_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Groups inside groups.
const NESTING_MAX: u32 = 200;

/// How a pattern is read.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the request")]
pub struct Reading {
    /// As text, not as a regular expression.
    pub literal: bool,
    /// Upper and lower case alike.
    pub ignore_case: bool,
    /// Upper and lower case alike, unless the pattern has an upper-case letter.
    pub smart_case: bool,
    /// Between word boundaries only.
    pub word: bool,
    /// Whole lines only.
    pub whole_line: bool,
    /// Across lines.
    pub multiline: bool,
}

/// Compiles `patterns`, of which any may match.
///
/// # Errors
/// `invalid_request`: bad syntax, with the column; a pattern that would take too much memory; a
/// line ending where the search goes line by line.
pub fn compile(patterns: &[String], reading: &Reading) -> Result<RegexMatcher, Error> {
    let bytes: usize = patterns.iter().map(String::len).sum();
    if bytes > PATTERN_BYTES_MAX {
        return Err(Error::invalid(format!("a pattern of {bytes} bytes; at most {PATTERN_BYTES_MAX}")));
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
    // `$` stands before CRLF too. A pattern that names the carriage return is taken at its word.
    builder.crlf(true);
    if reading.multiline {
        builder.line_terminator(None);
    } else if patterns.iter().any(|pattern| names_carriage_return(pattern)) {
        builder.crlf(false).line_terminator(Some(b'\n'));
    }
    builder.build_many(patterns).map_err(|error| refusal(patterns, reading, &error))
}

/// Whether a pattern asks for carriage returns.
fn names_carriage_return(pattern: &str) -> bool {
    pattern.contains('\r') || pattern.contains("\\r") || pattern.to_ascii_lowercase().contains("\\x0d")
}

/// The refusal of a pattern.
fn refusal(patterns: &[String], reading: &Reading, error: &grep_regex::Error) -> Error {
    let text = error.to_string();
    let shown = patterns.join("|");
    if matches!(error.kind(), grep_regex::ErrorKind::NotAllowed(_)) && !reading.multiline {
        return Error::invalid(format!(
            "the pattern {shown} has a line ending, and the search goes line by line"
        ))
        .suggest("Set multiline (-U) to match across lines.");
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
    let literal = "Escape the characters that stand for themselves with a backslash, or set literal (-F).";
    match column_of(&text) {
        Some(column) => Error::invalid(format!("bad pattern {shown} at column {column}: {reason}"))
            .suggest(literal)
            .detail("column", column as u64),
        None => Error::invalid(format!("bad pattern {shown}: {reason}")).suggest(literal),
    }
}

/// The 1-based column under which the message of the parser puts its caret.
fn column_of(message: &str) -> Option<usize> {
    /// How far the parser indents the pattern.
    const INDENT: usize = 4;
    let caret = message.lines().find(|line| line.trim_start().starts_with('^'))?;
    Some((caret.len() - caret.trim_start().len()).checked_sub(INDENT)? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The refusal of one pattern read as it is by default.
    fn refused(pattern: &str) -> Error {
        compile(&[pattern.to_owned()], &Reading::default()).unwrap_err()
    }

    #[test]
    fn a_bad_pattern_is_refused_with_its_column() {
        assert_eq!(refused("abc(d").details().get("column"), Some(&4.into()));
        assert_eq!(refused("a{2,1}").details().get("column"), Some(&2.into()));
        assert!(refused("(\\w{200}){200}").message().contains("bytes"));
        assert!(refused(&"(".repeat(5000)).message().contains("bad pattern"));
        assert!(refused("a\\nb").suggested_action().contains("multiline"));
        assert!(refused("").suggested_action().contains('^'));
    }
}
