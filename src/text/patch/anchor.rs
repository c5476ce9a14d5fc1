//! The `@@ class A` lines of Codex, which say where in the file a hunk belongs.

use std::ops::Range;

use super::index::Tier;
use super::lines::Line;
use super::locate::Text;

/// How many places of the outermost anchor are followed.
const STARTS_MAX: usize = 64;

/// Where a hunk may stand: first in the blocks that its anchors open, else anywhere after.
///
/// # Errors
/// The anchor that is nowhere.
pub fn windows<'a>(
    text: &Text<'_>,
    anchors: &[&'a [u8]],
    after: usize,
) -> Result<Vec<Vec<Range<usize>>>, &'a [u8]> {
    let end = text.lines.len();
    let Some((outermost, inner)) = anchors.split_first() else {
        return Ok(vec![vec![after..end], vec![0..end]]);
    };
    let mut first = matching(text, outermost, after);
    if first.is_empty() {
        first = matching(text, outermost, 0);
    }
    let mut missing = *outermost;
    let mut starts = Vec::new();
    for start in first.into_iter().take(STARTS_MAX) {
        match innermost(text, inner, start) {
            Ok(start) => starts.push(start),
            Err(anchor) => missing = anchor,
        }
    }
    let Some(first) = starts.first().copied() else { return Err(missing) };
    let scopes = starts.iter().map(|start| *start..scope_end(&text.lines, *start)).collect();
    Ok(vec![scopes, vec![first..end]])
}

/// Follows the inner anchors from the line after `start`, each to its first place.
fn innermost<'a>(text: &Text<'_>, anchors: &[&'a [u8]], start: usize) -> Result<usize, &'a [u8]> {
    anchors
        .iter()
        .try_fold(start, |start, anchor| matching(text, anchor, start + 1).first().copied().ok_or(*anchor))
}

/// The lines from `from` on that an anchor names: the same but for space and typography, else those
/// that contain it.
fn matching(text: &Text<'_>, anchor: &[u8], from: usize) -> Vec<usize> {
    for tier in Tier::ALL {
        let places = text.index(tier).positions(anchor).iter();
        let places: Vec<_> = places
            .filter_map(|at| usize::try_from(*at).ok())
            .filter(|at| *at >= from)
            .take(STARTS_MAX)
            .collect();
        if !places.is_empty() {
            return places;
        }
    }
    let part = anchor.trim_ascii();
    let contains = |line: &Line<'_>| memchr::memmem::find(line.text, part).is_some();
    let lines = text.lines.iter().enumerate().skip(from);
    lines.filter(|(_, line)| contains(line)).map(|(at, _)| at).take(STARTS_MAX).collect()
}

/// The end of the block that the line at `start` opens, by indentation; closing brackets belong to it.
fn scope_end(lines: &[Line<'_>], start: usize) -> usize {
    let depth = lines.get(start).map_or(0, |line| indentation(line.text));
    let is_outside = |line: &Line<'_>| {
        let text = line.text.trim_ascii();
        let is_bracket = matches!(text.first(), None | Some(b'{' | b'}' | b'(' | b')' | b'[' | b']'));
        !is_bracket && indentation(line.text) <= depth
    };
    let after = lines.iter().skip(start + 1).position(is_outside);
    after.map_or(lines.len(), |after| start + 1 + after)
}

/// How far a line is indented, in bytes.
fn indentation(text: &[u8]) -> usize {
    text.len() - text.trim_ascii_start().len()
}

#[cfg(test)]
mod tests {
    use super::super::lines::lines;
    use super::*;

    #[test]
    fn an_anchor_opens_its_block() {
        let text = Text::new(lines(
            b"class A:\n  def f():\n    x\n  def g():\n    x\nclass B:\n  def f():\n    x\n",
        ));
        let starts = |anchors: &[&'static [u8]]| -> Vec<Vec<(usize, usize)>> {
            let pair = |range: &Range<usize>| (range.start, range.end);
            let groups = windows(&text, anchors, 0).unwrap();
            groups.iter().map(|group| group.iter().map(pair).collect()).collect()
        };
        assert_eq!(starts(&[b"def g():"]), [[(3, 5)], [(3, 8)]]);
        assert_eq!(starts(&[b"class B:", b"def f"]), [[(6, 8)], [(6, 8)]]);
        assert_eq!(starts(&[b"def f():"])[0], [(1, 3), (6, 8)]);
        assert_eq!(windows(&text, &[b"class A:", b"nothing"], 0).unwrap_err(), b"nothing");
    }
}
