//! What may explain that nothing was found.

use super::request::Request;
use crate::search::basic;
use crate::search::collect::{MatchDetail, Style};
use crate::search::content::FileToSearch;
use crate::search::file::Manner;
use crate::search::left_out::{Empty, is_small};
use crate::search::page::Window;
use crate::search::pattern::{Pattern, compile};
use crate::search::query::Search;
use crate::search::walk::WalkEntry;

impl Request {
    /// What may explain that nothing was found.
    pub(super) fn explain(&self, patterns: &[String], manner: &Manner, empty: &Empty<'_>) -> Vec<String> {
        let left_out = empty.advice(|found| {
            let files: Vec<WalkEntry> = found.filter(is_small).collect();
            files_with_matches(manner, empty, files.into_iter())
        });
        left_out.into_iter().chain(self.basic_syntax(patterns, manner, empty)).collect()
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
