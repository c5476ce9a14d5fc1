//! Sets or removes one table of a TOML file, or one line of it; the rest stays byte for byte.

use std::ops::Range;

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use crate::text::checked::{slice_or_empty, str_or_empty};
use crate::text::jsonc::JsonFault;

/// Returns the text with these keys in the table; a table that exists keeps its other keys.
///
/// # Errors
/// Fails if the text is not TOML, or names the table in another way.
pub fn set(text: &str, table: &str, values: &[(&str, Value)]) -> Result<String, JsonFault> {
    must_parse(text)?;
    // The last one first: a new line follows the header.
    let with = values.iter().rev().fold(text.to_owned(), |text, (key, value)| {
        let known = header_of(&text, table).and_then(|_| span_of(&text, table, key));
        match known {
            Some(span) => with_part(&text, span, &value.to_string()),
            None => with_line(&text, table, &format!("{key} = {value}")),
        }
    });
    must_be_set_once((text, &with), table)?;
    Ok(with)
}

/// Returns the text with these keys of a table as `earlier` has them; one that `earlier` does not have loses its line.
///
/// # Errors
/// Fails if the text is not TOML.
pub fn restore(text: &str, table: &str, keys: &[&str], earlier: &str) -> Result<String, JsonFault> {
    must_parse(text)?;
    let restored = keys.iter().fold(text.to_owned(), |text, key| {
        let Some(now) = span_of(&text, table, key) else { return text };
        if let Some(then) = span_of(earlier, table, key) {
            return with_part(&text, now, str_or_empty(earlier, then));
        }
        let line = lines_of(&text).into_iter().find(|line| line.contains(&now.start));
        with_part(&text, line.unwrap_or(now), "")
    });
    must_parse(&restored)?;
    Ok(restored)
}

/// Returns the text with another part in place of one.
fn with_part(text: &str, part: Range<usize>, new: &str) -> String {
    format!("{}{new}{}", str_or_empty(text, ..part.start), str_or_empty(text, part.end..))
}

/// Returns the text with a line after the header of a table, which is added at the end if it is missing.
fn with_line(text: &str, table: &str, line: &str) -> String {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let end = |before: &str| if before.ends_with('\n') { "" } else { newline };
    match header_of(text, table) {
        Some(Range { end: at, .. }) => {
            with_part(text, at..at, &format!("{}{line}{newline}", end(str_or_empty(text, ..at))))
        }
        None if text.trim().is_empty() => format!("[{table}]{newline}{line}{newline}"),
        None => format!("{text}{}{newline}[{table}]{newline}{line}{newline}", end(text)),
    }
}

/// Returns the range of the line that begins a table.
fn header_of(text: &str, table: &str) -> Option<Range<usize>> {
    lines_of(text).into_iter().find(|line| is_header(str_or_empty(text, line.clone()), table))
}

/// Returns the strings that a text gives these keys of a table, alone or in a list, in order; `None` without the table
/// or its first key.
pub fn strings(text: &str, table: &str, keys: &[&str]) -> Option<Vec<String>> {
    let parsed = DeTable::parse(text).ok()?;
    let found = table_in(parsed.get_ref(), table)?;
    found.get(*keys.first()?)?;
    let values = keys.iter().filter_map(|key| found.get(*key)).map(toml::Spanned::get_ref);
    let lists = values.map(|value| match value {
        DeValue::Array(list) => list.iter().map(|item| string(item.get_ref())).collect(),
        value => Some(vec![string(value)?]),
    });
    lists.collect::<Option<Vec<_>>>().map(|lists| lists.concat())
}

/// Returns the table with a name.
fn table_in<'t, 'i>(top: &'t DeTable<'i>, table: &str) -> Option<&'t DeTable<'i>> {
    table.split('.').try_fold(top, |found, name| match found.get(name)?.get_ref() {
        DeValue::Table(inner) => Some(inner),
        _ => None,
    })
}

/// Returns the range of the value of a key of a table.
fn span_of(text: &str, table: &str, key: &str) -> Option<Range<usize>> {
    let parsed = DeTable::parse(text).ok()?;
    Some(table_in(parsed.get_ref(), table)?.get(key)?.span())
}

/// Returns a string of TOML.
fn string(value: &DeValue<'_>) -> Option<String> {
    if let DeValue::String(text) = value { Some(text.to_string()) } else { None }
}

/// A key of a table, on a line with the mark of its writer.
pub struct MarkedLine {
    /// Name of the table.
    pub table: &'static str,
    /// Name of the key.
    pub key: &'static str,
    /// Value in TOML.
    pub value: &'static str,
}

impl MarkedLine {
    /// Returns the text with the line, in its table; a key that has the value already stays as it is.
    ///
    /// # Errors
    /// Fails if the text is not TOML, or sets the key or the table in another way.
    pub fn set(&self, text: &str, sign: &str) -> Result<String, JsonFault> {
        let Self { table, key, value } = self;
        must_parse(text)?;
        match self.found(text) {
            Some(found) if found == *value => return Ok(text.to_owned()),
            Some(found) => return Err(JsonFault(format!("`{table}.{key}` is {found} already"))),
            None => {}
        }
        let with = with_line(text, table, &format!("{key} = {value} # {sign}"));
        must_be_set_once((text, &with), table)?;
        Ok(with)
    }

    /// Returns the text without the line, and without its table if nothing else is in it.
    ///
    /// # Errors
    /// Fails if the text is not TOML.
    pub fn remove(&self, text: &str, sign: &str) -> Result<String, JsonFault> {
        must_parse(text)?;
        let is_ours = |line: &str| line.starts_with(self.key) && line.trim_end().ends_with(sign);
        let line = lines_of(text).into_iter().find(|line| is_ours(str_or_empty(text, line.clone())));
        let Some(line) = line else { return Ok(text.to_owned()) };
        let text = with_part(text, line, "");
        let lines = lines_of(&text);
        let is_header = |line: &Range<usize>| is_header(str_or_empty(&text, line.clone()), self.table);
        let mut rest = lines.iter().skip_while(|line| !is_header(line));
        let Some(header) = rest.next() else { return Ok(text) };
        let next = rest.map(|line| str_or_empty(&text, line.clone())).find(|line| !line.trim().is_empty());
        let is_empty = next.is_none_or(|line| line.starts_with('['));
        Ok(if is_empty { without(&text, std::slice::from_ref(header)) } else { text })
    }

    /// Returns the value of the key in a text.
    fn found<'t>(&self, text: &'t str) -> Option<&'t str> {
        Some(str_or_empty(text, span_of(text, self.table, self.key)?))
    }
}

/// Returns true for the line that begins a table.
fn is_header(line: &str, table: &str) -> bool {
    let line = line.trim_start();
    line.starts_with('[') && !line.starts_with("[[") && names_in(line).iter().eq(table.split('.'))
}

/// Fails if the text `with` a table has it, or a table above it, in two forms.
fn must_be_set_once((text, with): (&str, &str), table: &str) -> Result<(), JsonFault> {
    must_parse(with).map_err(|_| {
        let parsed = DeTable::parse(text);
        let mut above = parsed.as_ref().ok().map(toml::Spanned::get_ref);
        // Below an inline table, no other can be added.
        let is_set = |name: &&str| {
            let value = above.and_then(|above| above.get(*name));
            above = value.and_then(|value| value.get_ref().as_table());
            value.is_some()
        };
        let set: Vec<&str> = table.split('.').take_while(is_set).collect();
        JsonFault(format!("`{}` is already set in another form than [{table}]", set.join(".")))
    })
}

/// Returns the text without the table, the tables below it, and one blank line before each.
///
/// # Errors
/// Fails if the text is not TOML.
pub fn remove(text: &str, table: &str) -> Result<String, JsonFault> {
    must_parse(text)?;
    let without = without(text, &spans_of(text, table));
    must_parse(&without)?;
    Ok(without)
}

/// Returns the text without these parts, and without one blank line before each; at the start of the text, removes the
/// blank lines after the part.
fn without(text: &str, spans: &[Range<usize>]) -> String {
    let mut text = text.to_owned();
    for span in spans.iter().rev() {
        let (before, after) = (str_or_empty(&text, ..span.start), str_or_empty(&text, span.end..));
        let is_first = before.is_empty();
        let before = ["\r\n", "\n"]
            .iter()
            .find_map(|newline| before.strip_suffix(newline).filter(|before| before.ends_with('\n')))
            .unwrap_or(before);
        let after = if is_first { after.trim_start_matches(['\r', '\n']) } else { after };
        text = format!("{before}{after}");
    }
    text
}

/// Returns the ranges of the table and those below it, in order: from a header to the last line before the next header
/// that is neither blank nor a comment.
fn spans_of(text: &str, table: &str) -> Vec<Range<usize>> {
    let wanted: Vec<String> = table.split('.').map(str::to_owned).collect();
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut is_within = false;
    for Range { start, end } in lines_of(text) {
        let line = str_or_empty(text, start..end).trim();
        if line.starts_with('[') {
            let was_within = is_within;
            is_within = names_in(line).starts_with(&wanted);
            if is_within && !was_within {
                spans.push(start..end);
            }
        }
        let says_something = !line.is_empty() && !line.starts_with('#');
        if let Some(span) = spans.last_mut().filter(|_| is_within && says_something) {
            span.end = end;
        }
    }
    spans
}

/// Returns the lines of a text, each with all lines of a value that begins in it.
fn lines_of(text: &str) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = text.len() - text.trim_start_matches('\u{feff}').len();
    while start < text.len() {
        let end = line_end(text.as_bytes(), start);
        lines.push(start..end);
        start = end;
    }
    lines
}

/// Returns the names in the header of a table.
fn names_in(header: &str) -> Vec<String> {
    let Ok(parsed) = DeTable::parse(header) else { return Vec::new() };
    let mut table = parsed.get_ref();
    let mut names = Vec::new();
    while let Some((name, value)) = table.iter().next() {
        names.push(name.get_ref().to_string());
        let DeValue::Table(inner) = value.get_ref() else { break };
        table = inner;
    }
    names
}

/// Returns the end of the line that begins at `at`, with all lines of a value that begins in it. The text is TOML.
fn line_end(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\n' if depth == 0 => return at + 1,
            b'#' => at += slice_or_empty(text, at..).iter().take_while(|byte| **byte != b'\n').count(),
            b'"' | b'\'' => at = string_end(text, at, *byte),
            b'[' | b'{' => (depth, at) = (depth + 1, at + 1),
            b']' | b'}' => (depth, at) = (depth.saturating_sub(1), at + 1),
            _ => at += 1,
        }
    }
    text.len()
}

/// Returns the end of the string that begins at `start` with `quote`.
fn string_end(text: &[u8], start: usize, quote: u8) -> usize {
    let long = [quote; 3];
    let is_long = slice_or_empty(text, start..).starts_with(&long);
    let close = if is_long { &long[..] } else { &long[..1] };
    let mut at = start + close.len();
    while let Some(byte) = text.get(at) {
        if *byte == b'\\' && quote == b'"' {
            at += 2;
        } else if slice_or_empty(text, at..).starts_with(close) {
            at += close.len();
            // A long string may itself end in up to two quotes.
            let more =
                slice_or_empty(text, at..).iter().take_while(|byte| is_long && **byte == quote).count();
            return at + more;
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Fails if the text is not TOML.
fn must_parse(text: &str) -> Result<(), JsonFault> {
    DeTable::parse(text).map(drop).map_err(|error| JsonFault(error.message().to_owned()))
}
