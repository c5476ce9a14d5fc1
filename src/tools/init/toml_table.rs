//! One table of a TOML file, set or removed; everything else stays byte for byte.

use toml::de::DeTable;

use crate::text::jsonc::Fault;

/// The text with the table, whose lines are `body`.
///
/// # Errors
/// Where the text is not TOML, or names the table in another way.
pub fn set(text: &str, table: &str, body: &str) -> Result<String, Fault> {
    must_parse(text)?;
    let new = format!("[{table}]\n{body}");
    let with = match span_of(text, table) {
        Some((start, end)) => {
            let old = text.get(start..end).unwrap_or_default();
            if old.trim_end() == new.trim_end() {
                return Ok(text.to_owned());
            }
            let blanks = old.get(old.trim_end().len()..).unwrap_or_default();
            let blanks = if blanks.is_empty() { "\n" } else { blanks };
            let (before, after) =
                (text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default());
            format!("{before}{}{blanks}{after}", new.trim_end())
        }
        None if text.trim().is_empty() => new,
        None => {
            let newline = if text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{newline}\n{new}")
        }
    };
    // A server that is named in another way comes twice then.
    must_parse(&with)?;
    Ok(with)
}

/// The text without the table, its own tables, and the blank lines before it.
///
/// # Errors
/// Where the text is not TOML.
pub fn remove(text: &str, table: &str) -> Result<String, Fault> {
    must_parse(text)?;
    let Some((start, end)) = span_of(text, table) else { return Ok(text.to_owned()) };
    let before = text.get(..start).unwrap_or_default();
    let after = text.get(end..).unwrap_or_default();
    let kept = before.trim_end_matches(['\n', '\r']);
    let newline = if kept.is_empty() { "" } else { "\n" };
    let gap = if after.is_empty() || kept.is_empty() { "" } else { "\n" };
    let without = format!("{kept}{newline}{gap}{after}");
    must_parse(&without)?;
    Ok(without)
}

/// Where the table stands: from its header to the next that is not its own.
fn span_of(text: &str, table: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    let mut start = None;
    for line in text.split_inclusive('\n') {
        let header = line.trim().strip_prefix('[').map(|rest| rest.trim_start_matches('['));
        let name = header.and_then(|rest| rest.split(']').next()).map(|name| name.replace([' ', '"'], ""));
        if let Some(name) = name.filter(|_| line.trim_start().starts_with('[')) {
            let is_own = name == table || name.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
            match start {
                None if is_own => start = Some(at),
                Some(start) if !is_own => return Some((start, at)),
                _ => {}
            }
        }
        at += line.len();
    }
    start.map(|start| (start, at))
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
}
