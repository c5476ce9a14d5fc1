//! Line numbers, carried from one version of a file to another.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::engine::store::session::{Mark, Numbers, ReplacedLines};
use crate::sha256::Sha256;
use crate::text::content::{Start, View};
use crate::text::line_diff;
use crate::text::lines::{self, Common};

/// Earlier versions of files, by their digests.
pub type EarlierBytes = BTreeMap<Sha256, Vec<u8>>;

/// Maps the shown line numbers of a mark to the version `sha256` with the text `body`.
#[must_use]
pub fn numbers_in(mark: &Mark, sha256: Sha256, body: &[u8], earlier: &EarlierBytes) -> Numbers {
    let mut all = Numbers::default();
    let newest = std::iter::once((mark.sha256, mark.numbers()));
    let older = mark.earlier.iter().map(|version| (version.sha256, version.numbers.clone()));
    for (version, numbers) in newest.chain(older) {
        if version == sha256 {
            all.add_missing(&numbers);
        } else if let Some(bytes) = earlier.get(&version) {
            all.add_missing(&numbers.after(&replaced_lines(&body_of(bytes), body)));
        }
    }
    all
}

/// Compares two texts and lists the replaced lines.
#[must_use]
pub fn replaced_lines(old: &[u8], new: &[u8]) -> Vec<ReplacedLines> {
    let Common { head, tail, one, other } = lines::common_lines(old, new);
    let (old_lines, new_lines) = (one - tail - head, other - tail - head);
    let all = ReplacedLines { first: head + 1, old_lines, new_lines };
    if old_lines == 0 && new_lines == 0 {
        return Vec::new();
    }
    let is_much = old_lines.saturating_add(new_lines) > line_diff::LINES_MAX as u64;
    if old_lines == 0 || new_lines == 0 || is_much {
        return vec![all];
    }
    let part = |text, count: u64| -> Vec<&[u8]> {
        let bound = |lines: u64| usize::try_from(lines).unwrap_or(usize::MAX);
        lines::lines(text).skip(bound(head)).take(bound(count)).collect()
    };
    let ops = line_diff::diff(&part(old, old_lines), &part(new, new_lines)).ops;
    let changed = ops.iter().filter(|op| !matches!(op, similar::DiffOp::Equal { .. }));
    changed
        .map(|op| ReplacedLines {
            first: head + 1 + op.old_range().start as u64,
            old_lines: op.old_range().len() as u64,
            new_lines: op.new_range().len() as u64,
        })
        .collect()
}

/// The text of a file, as far as its lines go; its bytes where they are none.
pub(in crate::engine) fn body_of(bytes: &[u8]) -> Cow<'_, [u8]> {
    match Start::of(bytes) {
        Start::Utf16(_) => View::of(bytes).map_or(Cow::Borrowed(bytes), |view| view.body),
        // Whether the rest is UTF-8 makes no difference to its lines.
        start => Cow::Borrowed(bytes.get(start.bom_bytes()..).unwrap_or_default()),
    }
}
