//! Whether a new text fits its file, asked once for every tool that writes text.

use std::path::Path;

use globset::GlobBuilder;

use super::{Change, Current};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::text::content::{Start, View, looks_binary};
use crate::text::lines::LineEnding;
use crate::text::odd;

/// Bytes of a `.gitattributes` or `.editorconfig` that are looked at.
const RULES_BYTES_MAX: u64 = 64 << 10;
/// Odd characters that are named.
const CHARACTERS_NAMED: usize = 4;

impl Change<'_> {
    /// Warns of what a new text brings that its writer may not have meant.
    pub(super) fn warn_of_misfit(&mut self, current: &Current, bytes: &[u8]) {
        let old = current.exists().then(|| current.bytes());
        if current.is_symlink() || matches!(Start::of(bytes), Start::Utf16(_) | Start::Utf32) {
            return;
        }
        // What is no text has any characters.
        let is_binary =
            old.is_some_and(looks_binary) || (self.entry.tool.ends_with("patch") && looks_binary(bytes));
        if is_binary {
            return;
        }
        let shown = current.place().shown().to_owned();
        let body = View::of(bytes).map(|view| view.body).unwrap_or_default();
        let found = odd::characters(old.unwrap_or_default(), &body, CHARACTERS_NAMED);
        for odd in &found {
            let number = u32::from(odd.character);
            self.engine.warn(format!(
                "{shown} has a character that nobody types in line {}: U+{number:04X}",
                odd.line
            ));
        }
        if let Some(what) = odd::line_endings(old, bytes) {
            self.engine.warn(format!("{shown} {what}"));
        } else if old.is_none() {
            self.warn_of_rules(current.place().path(), &shown, LineEnding::of(bytes));
        }
    }

    /// Warns where the rules of the project want other line endings for a new file.
    fn warn_of_rules(&mut self, path: &WorkspacePath, shown: &str, endings: LineEnding) {
        let name = |endings| match endings {
            LineEnding::Lf => Some("LF"),
            LineEnding::Crlf => Some("CRLF"),
            _ => None,
        };
        let Some(is) = name(endings) else { return };
        let Some((wanted, file)) = self.wanted_ending(path) else { return };
        if wanted != endings
            && let Some(wanted) = name(wanted)
        {
            self.engine.warn(format!("{shown} has {is} line endings, and {file} wants {wanted}"));
        }
    }

    /// The line ending that the nearest rule wants for a file, and the file of the rule.
    fn wanted_ending(&self, path: &WorkspacePath) -> Option<(LineEnding, String)> {
        let mut folder = path.parent();
        while let Some(at) = folder {
            for (name, ending_in) in
                [(".gitattributes", by_attributes as Rules), (".editorconfig", by_editorconfig)]
            {
                let rules = at.join(name.as_ref());
                let Some(text) = self.rules_at(&rules) else { continue };
                let inner = path.rebased(&at, &WorkspacePath::root());
                if let Some(ending) = ending_in(&text, inner.as_path()) {
                    return Some((ending, self.engine.workspace.shown(&rules)));
                }
            }
            folder = at.parent();
        }
        None
    }

    /// A file of rules, where there is one.
    fn rules_at(&self, path: &WorkspacePath) -> Option<String> {
        let opened = fs::open_beneath(self.engine.workspace.root_fd(), path, fs::READ).ok()?;
        let stat = rustix::fs::fstat(&opened).ok().filter(fs::is_regular)?;
        let bytes = fs::read_to_end(std::fs::File::from(opened), fs::size_of(&stat), RULES_BYTES_MAX).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Finds what a text of rules wants for a path from its folder.
type Rules = fn(&str, &Path) -> Option<LineEnding>;

/// What a `.gitattributes` wants (gitattributes(5), `eol`): the last line that matches counts.
fn by_attributes(text: &str, path: &Path) -> Option<LineEnding> {
    let mut wanted = None;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(pattern) = words.next().filter(|pattern| !pattern.starts_with(['#', '"', '!'])) else {
            continue;
        };
        let ending = words.rev().find_map(|word| match word {
            "eol=crlf" => Some(Some(LineEnding::Crlf)),
            "eol=lf" => Some(Some(LineEnding::Lf)),
            "binary" | "-text" | "!eol" => Some(None),
            _ => None,
        });
        if let Some(ending) = ending.filter(|_| matches(pattern, path)) {
            wanted = ending;
        }
    }
    wanted
}

/// What an `.editorconfig` wants (editorconfig.org, `end_of_line`): the last section that matches counts.
fn by_editorconfig(text: &str, path: &Path) -> Option<LineEnding> {
    let (mut wanted, mut is_ours) = (None, false);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_ours = matches(section, path);
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_ours)
            && key.trim().eq_ignore_ascii_case("end_of_line")
        {
            wanted = match value.trim().to_ascii_lowercase().as_str() {
                "crlf" => Some(LineEnding::Crlf),
                "lf" => Some(LineEnding::Lf),
                _ => None,
            };
        }
    }
    wanted
}

/// Whether a pattern names a path: one without a slash names files of all folders below.
fn matches(pattern: &str, path: &Path) -> bool {
    let form = match pattern.strip_prefix('/') {
        Some(rooted) => rooted.to_owned(),
        None if pattern.contains('/') => pattern.to_owned(),
        None => format!("**/{pattern}"),
    };
    let glob = GlobBuilder::new(&form).literal_separator(true).build();
    glob.is_ok_and(|glob| glob.compile_matcher().is_match(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rule_that_matches_counts() {
        let attributes = "* text=auto\n*.bat text eol=crlf\n# *.sh eol=crlf\n/top.bat eol=lf\nd/*.txt eol=lf\n*.bin -text\n";
        for (path, wanted) in [
            ("a.bat", Some(LineEnding::Crlf)),
            ("d/e/a.bat", Some(LineEnding::Crlf)),
            ("top.bat", Some(LineEnding::Lf)),
            ("d/a.txt", Some(LineEnding::Lf)),
            ("e/d/a.txt", None),
            ("a.sh", None),
            ("a.bin", None),
        ] {
            assert_eq!(by_attributes(attributes, Path::new(path)), wanted, "{path}");
        }
        let config = "root = true\n[*]\nend_of_line = lf\n[*.{bat,cmd}]\nindent_size = 2\nEnd_Of_Line=CRLF\n[docs/**]\nend_of_line = unset\n";
        for (path, wanted) in
            [("a.cmd", Some(LineEnding::Crlf)), ("x/a.c", Some(LineEnding::Lf)), ("docs/a/b", None)]
        {
            assert_eq!(by_editorconfig(config, Path::new(path)), wanted, "{path}");
        }
    }
}
