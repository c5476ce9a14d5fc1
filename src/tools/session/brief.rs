//! The status in words: one paragraph and a list, for a context that knows nothing.

use super::Refused;
use super::items::{Items, PathStatus, ReadState};
use crate::engine::Engine;
use crate::text::counted::counted;

/// The words for as many of a page's items as fit, and how many these are. The paragraph at the beginning
/// is always there, and so is the first item; the refused calls go before any other item does.
pub fn within(
    engine: &Engine,
    items: &Items,
    page: &[PathStatus],
    refused: Option<&Refused>,
    offset: usize,
    bytes_max: usize,
) -> (String, usize) {
    let left = |count: usize| items.len().saturating_sub(offset + count);
    let of =
        |count: usize, refused| text(engine, items, page.get(..count).unwrap_or(page), refused, left(count));
    let whole = of(page.len(), refused);
    if whole.len() <= bytes_max {
        return (whole, page.len());
    }
    // A list that is longer has a longer text.
    let counts: Vec<usize> = (1..=page.len()).collect();
    let count = counts.partition_point(|&count| of(count, None).len() <= bytes_max);
    // At least one, so that whoever goes on at the next offset comes to an end.
    let count = count.max(1).min(page.len());
    (of(count, None), count)
}

/// The words for a page of items, of which `left` more are not shown.
fn text(
    engine: &Engine,
    items: &Items,
    page: &[PathStatus],
    refused: Option<&Refused>,
    left: usize,
) -> String {
    let mut lines = vec![paragraph(engine, items)];
    let is_changed = |item: &&PathStatus| item.change.is_some();
    let is = |state: ReadState| move |item: &&PathStatus| item.change.is_none() && item.state == state;
    section(
        &mut lines,
        "Changed since the session began, net (lines added and removed):",
        page.iter().filter(is_changed),
        true,
    );
    section(
        &mut lines,
        "Read, and unchanged since (lines, where not all were shown):",
        page.iter().filter(is(ReadState::Fresh)),
        false,
    );
    section(
        &mut lines,
        "Read, and changed by someone else since; read again before any change:",
        page.iter().filter(is(ReadState::Stale)),
        false,
    );
    section(&mut lines, "Read, and gone:", page.iter().filter(is(ReadState::Gone)), false);
    section(
        &mut lines,
        "Read before the context was compacted; read again before any change:",
        page.iter().filter(is(ReadState::Compacted)),
        false,
    );
    if let Some(refused) = refused {
        lines.push(format!("Refused calls ({}), the last ones:", refused.count));
        lines.extend(refused.last.iter().map(|call| format!("- {call}")));
    }
    if left > 0 {
        lines.push(format!("{left} more paths are not shown; session status lists them."));
    }
    lines.join("\n") + "\n"
}

/// What a reader has to know.
fn paragraph(engine: &Engine, items: &Items) -> String {
    let (session, root) = (engine.session(), engine.workspace.root().display());
    let ways = "the tool diff shows what it changed, undo reverts the last change";
    let changes = match (items.changes(), items.times()) {
        (1, Some((first, _))) => format!("It made one change, at {first}; {ways}."),
        (count, Some((first, last))) => {
            format!("It made {}, from {first} to {last}; {ways}.", counted(count, "change"))
        }
        _ => "It has not changed anything.".to_owned(),
    };
    format!(
        "Resuming lbx session {session}, in {root}. {changes} Only a file whose current bytes this session has read \
         can be changed. Re-read anything no longer in your context."
    )
}

/// Adds a heading with its items, where there are any; with their states where these are not the
/// heading's.
fn section<'a>(
    lines: &mut Vec<String>,
    heading: &str,
    items: impl Iterator<Item = &'a PathStatus>,
    mixed: bool,
) {
    let listed: Vec<String> = items
        .map(|item| match item.state {
            ReadState::Stale if mixed => format!("- {item} (changed by someone else since: read again)"),
            ReadState::Gone if mixed => format!("- {item} (no longer there)"),
            _ => format!("- {item}"),
        })
        .collect();
    if !listed.is_empty() {
        lines.push(heading.to_owned());
        lines.extend(listed);
    }
}
