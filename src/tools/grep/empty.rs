//! What may explain that nothing was found.

use super::request::Request;
use crate::search::basic;
use crate::search::collect::{MatchDetail, Style};
use crate::search::content::FileToSearch;
use crate::search::file::Manner;
use crate::search::globs::split;
use crate::search::left_out::{Empty, is_small};
use crate::search::page::Window;
use crate::search::pattern::{Pattern, Reading, compile};
use crate::search::query::Search;
use crate::search::walk::WalkEntry;

/// Files in which a pattern is looked for as plain text.
const FILES_MAX: usize = 5_000;
/// Letters after the second slash of `/pattern/i`.
const FLAGS_MAX: usize = 4;

impl Request {
    /// What may explain that nothing was found.
    pub(super) fn explain(&self, patterns: &[String], manner: &Manner, empty: &Empty<'_>) -> Vec<String> {
        let left_out = empty.advice(|found| {
            let files: Vec<WalkEntry> = found.filter(is_small).collect();
            files_with_matches(manner, empty, files.into_iter())
        });
        let hints = [self.selected_nothing(empty), self.as_expression(patterns, manner, empty)];
        left_out
            .into_iter()
            .chain(hints.into_iter().flatten())
            .chain(self.basic_syntax(patterns, manner, empty))
            .collect()
    }

    /// That the globs select no file at all, which says nothing of the pattern.
    fn selected_nothing(&self, empty: &Empty<'_>) -> Option<String> {
        let globs: Vec<&str> =
            self.include.iter().map(String::as_str).filter(|glob| !glob.starts_with('!')).collect();
        if globs.is_empty() || empty.walk().next().is_some() {
            return None;
        }
        let several = globs.iter().any(|glob| split(glob).len() > 1);
        let hint = if several { ": give each glob by itself, as one of a list" } else { "" };
        Some(format!("include {} selects no file here{hint}", globs.join(", ")))
    }

    /// That a pattern which was taken as a regular expression is in the files as it is written.
    fn as_expression(&self, patterns: &[String], manner: &Manner, empty: &Empty<'_>) -> Option<String> {
        let [pattern] = patterns else { return None };
        if self.literal {
            return None;
        }
        if let Some((inner, flags)) = pattern.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'))
            && !inner.is_empty()
            && flags.bytes().all(|flag| flag.is_ascii_lowercase())
            && flags.len() <= FLAGS_MAX
        {
            return Some(format!(
                "the slashes of `{pattern}` are part of the regular expression: did you mean `{inner}`?"
            ));
        }
        let reading = Reading { literal: true, ..self.reading() };
        let Pattern { matcher, .. } = compile(std::slice::from_ref(pattern), &reading).ok()?;
        let is_special = pattern.contains(|character: char| "\\^$.|?*+()[]{}".contains(character));
        let manner = Manner { matcher, per_file_max: Some(1), ..manner.clone() };
        let is_there = is_special && files_with_matches(&manner, empty, empty.walk().take(FILES_MAX)) > 0;
        is_there.then(|| {
            format!("`{pattern}` was read as a regular expression; as plain text it does occur: set literal to true")
        })
    }

    /// What a pattern in the basic syntax of `grep` would be here, where that explains the miss.
    fn basic_syntax(&self, patterns: &[String], manner: &Manner, empty: &Empty<'_>) -> Option<String> {
        let [pattern] = patterns else { return None };
        if self.literal || !basic::is_likely(pattern) {
            return None;
        }
        let extended = basic::as_extended(pattern)?;
        let Pattern { matcher, .. } = compile(std::slice::from_ref(&extended), &self.reading()).ok()?;
        let would_match = || {
            let manner = Manner { matcher, per_file_max: Some(1), ..manner.clone() };
            files_with_matches(&manner, empty, empty.walk()) > 0
        };
        // A plain `|` is rare in what people search for.
        (basic::has_alternative(pattern) || would_match()).then(|| {
            format!(
                "a backslash before |, +, ?, {{ or ( makes it plain text here: did you mean `{extended}`?"
            )
        })
    }
}

/// How many of `files` have a match.
fn files_with_matches(
    manner: &Manner,
    empty: &Empty<'_>,
    files: impl Iterator<Item = WalkEntry> + Send,
) -> u64 {
    let style = Style { wanted: MatchDetail::Presence, ..manner.style.clone() };
    let search = Search {
        workspace: empty.workspace,
        manner: Manner { style, before: 0, after: 0, hash: false, ..manner.clone() },
        window: Window { offset: 0, limit: 0, bytes_max: 0 },
        total: false,
        group: false,
        control: empty.control.clone(),
    };
    search.run(files.map(FileToSearch::Found)).files_matched
}
