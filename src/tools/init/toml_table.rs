//! One table of a TOML file, set or removed; everything else stays byte for byte.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::text::checked::{peek, peek_str};
use crate::text::jsonc::Fault;

/// The text with the table, whose lines are `body`, in place of it and all tables below it.
///
/// # Errors
/// Where the text is not TOML, or names the table in another way.
pub fn set(text: &str, table: &str, body: &str) -> Result<String, Fault> {
    must_parse(text)?;
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let new = format!("[{table}]\n{body}").replace('\n', newline);
    let spans = spans_of(text, table);
    let with = match spans.split_first() {
        Some((first, others)) => {
            let old = peek_str(text, first.clone());
            if others.is_empty() && old.trim_end() == new.trim_end() {
                return Ok(text.to_owned());
            }
            let rest = without(text, others);
            format!("{}{new}{}", peek_str(&rest, ..first.start), peek_str(&rest, first.end..))
        }
        None if text.trim().is_empty() => new,
        None => {
            let end = if text.ends_with('\n') { "" } else { newline };
            format!("{text}{end}{newline}{new}")
        }
    };
    let is_twice = |_| Fault(format!("`{table}` is already set in another form than [{table}]"));
    must_parse(&with).map_err(is_twice)?;
    Ok(with)
}

/// The text without the table, the tables below it, and one blank line before each.
///
/// # Errors
/// Where the text is not TOML.
pub fn remove(text: &str, table: &str) -> Result<String, Fault> {
    must_parse(text)?;
    let without = without(text, &spans_of(text, table));
    must_parse(&without)?;
    Ok(without)
}

/// The text without these parts of it, and without one blank line before each; at the beginning of the text
/// the blank lines that follow go.
fn without(text: &str, spans: &[Range<usize>]) -> String {
    let mut text = text.to_owned();
    for span in spans.iter().rev() {
        let (before, after) = (peek_str(&text, ..span.start), peek_str(&text, span.end..));
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

/// Where the table and those below it stand, in order: from a header to the last line before the next header
/// that is neither blank nor a comment.
fn spans_of(text: &str, table: &str) -> Vec<Range<usize>> {
    let wanted: Vec<String> = table.split('.').map(str::to_owned).collect();
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut is_within = false;
    let mut start = text.len() - text.trim_start_matches('\u{feff}').len();
    while start < text.len() {
        let end = line_end(text.as_bytes(), start);
        let line = peek_str(text, start..end).trim();
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
        start = end;
    }
    spans
}

/// The names in the header of a table.
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

/// Where the line that begins at `at` ends, with all lines of a value that begins in it. The text is TOML.
fn line_end(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\n' if depth == 0 => return at + 1,
            b'#' => at += peek(text, at..).iter().take_while(|byte| **byte != b'\n').count(),
            b'"' | b'\'' => at = string_end(text, at, *byte),
            b'[' | b'{' => (depth, at) = (depth + 1, at + 1),
            b']' | b'}' => (depth, at) = (depth.saturating_sub(1), at + 1),
            _ => at += 1,
        }
    }
    text.len()
}

/// Where the string ends that begins at `start` with `quote`.
fn string_end(text: &[u8], start: usize, quote: u8) -> usize {
    let long = [quote; 3];
    let is_long = peek(text, start..).starts_with(&long);
    let close = if is_long { &long[..] } else { &long[..1] };
    let mut at = start + close.len();
    while let Some(byte) = text.get(at) {
        if *byte == b'\\' && quote == b'"' {
            at += 2;
        } else if peek(text, at..).starts_with(close) {
            at += close.len();
            // A long one may itself end in up to two quotes.
            let more = peek(text, at..).iter().take_while(|byte| is_long && **byte == quote).count();
            return at + more;
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Refuses a text that is not TOML.
fn must_parse(text: &str) -> Result<(), Fault> {
    DeTable::parse(text).map(drop).map_err(|error| Fault(error.message().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_set_once_and_removed_without_a_trace() {
        let body = "command = \"lbx\"\nargs = [\"mcp\"]\n";
        for text in ["", "# mine\nmodel = \"x\"\n", "[a]\nb = 1\n\n[c]\nd = [\n  1,\n]\n"] {
            let with = set(text, "mcp_servers.lbx", body).unwrap();
            assert!(with.contains("[mcp_servers.lbx]\ncommand"), "{with}");
            assert_eq!(set(&with, "mcp_servers.lbx", body).unwrap(), with);
            assert_eq!(remove(&with, "mcp_servers.lbx").unwrap(), text);
        }
        let between =
            "[mcp_servers.lbx]\ncommand = \"old\"\n\n[mcp_servers.lbx.env]\nA = \"1\"\n\n[z]\ny = 1\n";
        let with = set(between, "mcp_servers.lbx", body).unwrap();
        assert_eq!(with, format!("[mcp_servers.lbx]\n{body}\n[z]\ny = 1\n"));
        assert_eq!(remove(&with, "mcp_servers.lbx").unwrap(), "[z]\ny = 1\n");
    }

    #[test]
    fn what_is_not_toml_or_names_the_server_otherwise_is_refused() {
        assert!(set("a = = 1", "t", "b = 1\n").is_err());
        assert!(set("mcp_servers = { lbx = { command = \"x\" } }\n", "mcp_servers.lbx", "b = 1\n").is_err());
    }

    #[test]
    fn what_only_looks_like_the_table_stays() {
        for text in [
            "a = \"\"\"\n[mcp_servers.lbx]\nold\n\"\"\"\n",
            "a = '''\n[mcp_servers.lbx]\n''''\nb = [\n  [\"mcp_servers.lbx\"], # [mcp_servers.lbx]\n]\n",
            "# [mcp_servers.lbx]\n[mcp_servers.lbxx]\nc = \"\\\"[\"\n",
            "[[mcp_servers.others]]\na = 1\n[[mcp_servers.others]]\na = 2\n",
            "\u{feff}a = 1\n",
            "a = 1\n\n\n",
            "a = 1\r\n[b]\r\nc = 2\r\n",
        ] {
            assert_eq!(remove(text, "mcp_servers.lbx").unwrap(), text);
            let with = set(text, "mcp_servers.lbx", "command = \"lbx\"\n").unwrap();
            assert!(with.starts_with(text), "{with}");
            assert!(!text.contains('\r') || !with.replace("\r\n", "").contains('\n'), "{with:?}");
            assert_eq!(remove(&with, "mcp_servers.lbx").unwrap(), text);
        }
    }

    #[test]
    fn comments_of_the_next_table_stay_and_every_part_of_the_own_goes() {
        let text = "[\"mcp_servers\".lbx] # mine\na = 1\n\n# of z\n[z]\ny = 1\n\n[ mcp_servers . lbx . env ]\nB = \"2\"\n";
        assert_eq!(remove(text, "mcp_servers.lbx").unwrap(), "# of z\n[z]\ny = 1\n");
        let with = set(text, "mcp_servers.lbx", "b = 1\n").unwrap();
        assert_eq!(with, "[mcp_servers.lbx]\nb = 1\n\n# of z\n[z]\ny = 1\n");
    }
}
