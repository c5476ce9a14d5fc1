//! Link references that a change takes away.

use std::collections::BTreeSet;

use pulldown_cmark::{BrokenLink, Parser};

use super::outline;

/// The labels of link references that the replaced text defined, that nothing defines any more, and
/// that are still used.
#[must_use]
pub fn lost_references(old: &[u8], new: &[u8]) -> Vec<String> {
    if memchr::memmem::find(old, b"]:").is_none() {
        return Vec::new();
    }
    let (old, new) = (outline::parseable(old), outline::parseable(new));
    let before = Parser::new_ext(&old, outline::options());
    let after = Parser::new_ext(&new, outline::options());
    let definitions = after.reference_definitions();
    let gone: Vec<String> = before
        .reference_definitions()
        .iter()
        .filter(|(label, _)| definitions.get(label).is_none())
        .map(|(label, _)| label.to_lowercase())
        .collect();
    if gone.is_empty() {
        return Vec::new();
    }
    let mut used = BTreeSet::new();
    let note = |link: BrokenLink<'_>| {
        let label = link.reference.to_lowercase();
        if gone.contains(&label) {
            used.insert(label);
        }
        None
    };
    Parser::new_with_broken_link_callback(&new, outline::options(), Some(note)).for_each(drop);
    used.into_iter().collect()
}
