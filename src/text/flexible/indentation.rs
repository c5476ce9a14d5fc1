//! Text whose lines are all shifted, or that has tabs for spaces.
//!
//! One rule must map the indentation of the old text to that of the file, for all lines that are not blank. So no line
//! moves into another block. The first line may be an exception: it may have no indentation, or the right one while the
//! others are shifted.

use std::collections::BTreeMap;

use super::WorkBudget;
use super::place::{MatchedLines, Mismatch, NewLine, at, compose, indent, split, trimmed, whole_lines};
use crate::text::checked::slice;

/// Returns the places of `old` with another indentation.
pub fn places(text: &[u8], old: &[u8], work: &WorkBudget) -> Vec<MatchedLines> {
    let (wanted, has_final_break) = split(old);
    let candidates = whole_lines(text, &wanted, has_final_break, work, trimmed);
    candidates.into_iter().filter_map(|place| fitting(text, place, &wanted)).collect()
}

/// Lines that follow the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleLines {
    /// All.
    AsOthers,
    /// All but the first, which has no indentation and begins after it in the file.
    Inside,
    /// All but the first, which has the indentation of the file.
    Right,
}

/// Returns the place if its indentation follows one rule. It begins after the indentation of the first line if the old
/// text does.
fn fitting(text: &[u8], mut place: MatchedLines, wanted: &[&[u8]]) -> Option<MatchedLines> {
    if mapping(text, &place, wanted, 0).is_some() {
        return Some(place);
    }
    let first = wanted.first().filter(|line| wanted.len() > 1 && !trimmed(line).is_empty())?;
    mapping(text, &place, wanted, 1)?;
    let line = place.lines.first_mut()?.as_mut()?;
    let found = indent(at(text, line));
    if indent(first) == found {
        return Some(place);
    }
    indent(first).is_empty().then_some(())?;
    line.start += found.len();
    place.range.start = line.start;
    Some(place)
}

/// Returns the rules that a place follows; two may agree on its lines.
fn rules(text: &[u8], place: &MatchedLines, wanted: &[&[u8]]) -> Vec<(RuleLines, IndentMap)> {
    let of_others = |first: RuleLines| Some((first, mapping(text, place, wanted, 1)?));
    if place.range.start > super::place::line_start(text, place.range.start) {
        return of_others(RuleLines::Inside).into_iter().collect();
    }
    let is_right =
        place.lines.first().and_then(Option::as_ref).zip(wanted.first()).is_some_and(|(line, wanted)| {
            !trimmed(wanted).is_empty() && indent(at(text, line)) == indent(wanted)
        });
    let of_all = mapping(text, place, wanted, 0).map(|mapping| (RuleLines::AsOthers, mapping));
    // If all lines gain or lose the same prefix, there is no doubt.
    let is_shift = of_all.as_ref().is_some_and(|(_, mapping)| mapping.is_shift());
    let right = if is_right && !is_shift { of_others(RuleLines::Right) } else { None };
    of_all.into_iter().chain(right).collect()
}

/// Returns the rule of the lines from index `skipped` on.
fn mapping(text: &[u8], place: &MatchedLines, wanted: &[&[u8]], skipped: usize) -> Option<IndentMap> {
    let found = place.lines.iter().map(|line| line.as_ref().map_or(&b""[..], |line| at(text, line)));
    let pairs: Vec<(&[u8], &[u8])> = wanted
        .iter()
        .copied()
        .zip(found)
        .skip(skipped)
        .filter(|(wanted, _)| !trimmed(wanted).is_empty())
        .collect();
    IndentMap::of(&pairs)
}

/// Returns `new` with the indentation of the file.
///
/// # Errors
/// Fails if the rule does not cover the indentation of a line.
pub fn new_text(text: &[u8], place: &MatchedLines, old: &[u8], new: &[u8]) -> Result<Vec<u8>, Mismatch> {
    let ((wanted, _), (new_lines, _)) = (split(old), split(new));
    let texts: Vec<&[u8]> =
        wanted.iter().chain(&new_lines).copied().filter(|line| !trimmed(line).is_empty()).collect();
    let rules: Vec<(RuleLines, IndentMap)> = rules(text, place, &wanted)
        .into_iter()
        .map(|(first, mapping)| (first, mapping.widened(&texts)))
        .collect();
    let first = match rules.as_slice() {
        [] => return Err(Mismatch("its indentation follows no rule".to_owned())),
        [(first, _), ..] => *first,
    };
    let first_indent = wanted.first().map_or(&b""[..], |line| indent(line));
    let rewrite = |line: &NewLine<'_>| {
        let unfit = || {
            Mismatch(format!("the indentation of its line {} has no counterpart in the file", line.index + 1))
        };
        if trimmed(line.text).is_empty() {
            return Ok(line.text.to_vec());
        }
        let own = indent(line.text);
        if first != RuleLines::AsOthers && line.index == 0 {
            return if own == first_indent { Ok(line.text.to_vec()) } else { Err(unfit()) };
        }
        let mut indents = rules.iter().map(|(_, mapping)| mapping.indent_of(line.text));
        let indent = indents.next().flatten().ok_or_else(unfit)?;
        // Two rules with two results: either may be meant.
        if indents.any(|other| other.is_some_and(|other| other != indent)) {
            return Err(unfit());
        }
        // A line that ends the block of the first line is hardly meant to.
        if first == RuleLines::Right && indent.len() < first_indent.len() && own.len() >= first_indent.len() {
            return Err(unfit());
        }
        Ok([indent.as_slice(), slice(line.text, own.len()..)?].concat())
    };
    compose(text, place, old, new, rewrite)
}

/// Widths of a level of spaces that are tried if the text does not show one.
const UNITS: [usize; 4] = [2, 3, 4, 8];

/// Map from the indentation of a text to that of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndentMap {
    /// Indentation in the file for each one in the old text.
    known: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Rule for all others.
    rule: IndentRule,
}

/// Indentation of a line in one text and in the other.
type IndentPair<'a> = (&'a Vec<u8>, &'a Vec<u8>);

/// Relation that holds for all lines.
#[derive(Debug, Clone, PartialEq, Eq)]
enum IndentRule {
    /// The file has this prefix before the indentation of the text.
    Deeper(Vec<u8>),
    /// The text has this prefix before the indentation of the file.
    Shallower(Vec<u8>),
    /// A tab of the file is this many spaces of the text.
    ToTabs(usize),
    /// A tab of the text is this many spaces of the file.
    FromTabs(usize),
    /// Levels have another width and perhaps another depth.
    Levels(LevelMap),
}

/// A straight line through two pairs of widths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LevelMap {
    /// Width in the text.
    from: usize,
    /// Matching width in the file.
    to: usize,
    /// Step in the text.
    step_from: usize,
    /// Matching step in the file.
    step_to: usize,
    /// Indentation character of the file.
    blank: u8,
}

impl IndentMap {
    /// Returns the mapping that holds for all pairs of lines (text, file); `None` if no single rule does.
    pub fn of(pairs: &[(&[u8], &[u8])]) -> Option<Self> {
        if pairs.is_empty() {
            return None;
        }
        let mut known = BTreeMap::new();
        for (one, other) in pairs {
            let (from, to) = (indent(one).to_vec(), indent(other).to_vec());
            if known.insert(from, to.clone()).is_some_and(|before| before != to) {
                return None;
            }
        }
        let turned = || known.iter().map(|(from, to)| (to, from));
        let rule = (shift(known.iter()).map(IndentRule::Deeper))
            .or_else(|| shift(turned()).map(IndentRule::Shallower))
            .or_else(|| tab_width(known.iter()).map(IndentRule::ToTabs))
            .or_else(|| tab_width(turned()).map(IndentRule::FromTabs))
            .or_else(|| levels(&known))?;
        Some(Self { known, rule })
    }

    /// Returns true if one side has the same prefix before every line.
    pub const fn is_shift(&self) -> bool {
        matches!(self.rule, IndentRule::Deeper(_) | IndentRule::Shallower(_))
    }

    /// Uses the indentation of all of `texts` if the old lines do not show how wide a level is.
    pub fn widened(self, texts: &[&[u8]]) -> Self {
        let IndentRule::Deeper(before) = &self.rule else { return self };
        let is_plain = self.known.keys().all(Vec::is_empty);
        let widths: Vec<usize> = texts.iter().filter_map(|line| spaces(indent(line))).collect();
        let unit = widths.iter().fold(0, |unit, &width| greatest_common_divisor(unit, width));
        let has_tabs = !before.is_empty() && before.iter().all(|&byte| byte == b'\t');
        if is_plain && has_tabs && widths.len() == texts.len() && UNITS.contains(&unit) {
            let levels = LevelMap { from: 0, to: before.len(), step_from: unit, step_to: 1, blank: b'\t' };
            return Self { rule: IndentRule::Levels(levels), ..self };
        }
        self
    }

    /// Returns the indentation in the file for a line; `None` if in doubt.
    pub fn indent_of(&self, line: &[u8]) -> Option<Vec<u8>> {
        let from = indent(line);
        if let Some(known) = self.known.get(from) {
            return Some(known.clone());
        }
        match &self.rule {
            IndentRule::Deeper(before) => {
                let whole = [before.as_slice(), from].concat();
                // Do not mix tabs and spaces unless the old lines do.
                let is_mixed = |indent: &[u8]| indent.contains(&b' ') && indent.contains(&b'\t');
                let may_mix = self.known.values().any(|known| is_mixed(known));
                (!is_mixed(&whole) || may_mix).then_some(whole)
            }
            IndentRule::Shallower(before) => from.strip_prefix(before.as_slice()).map(<[u8]>::to_vec),
            IndentRule::ToTabs(unit) => {
                let width = spaces(from)?;
                width.is_multiple_of(*unit).then(|| vec![b'\t'; width / unit])
            }
            IndentRule::FromTabs(unit) => Some(expanded(from, *unit)),
            IndentRule::Levels(levels) => levels.indent_of(from),
        }
    }
}

impl LevelMap {
    /// Returns the indentation in the file for one of the text.
    fn indent_of(self, from: &[u8]) -> Option<Vec<u8>> {
        is_uniform(from).then_some(())?;
        let more = from.len().checked_sub(self.from);
        let distance = more.unwrap_or_else(|| self.from - from.len()) * self.step_to;
        distance.is_multiple_of(self.step_from).then_some(())?;
        let distance = distance / self.step_from;
        let width = if more.is_some() { self.to + distance } else { self.to.checked_sub(distance)? };
        Some(vec![self.blank; width])
    }
}

/// Returns the width of an indentation that is all spaces.
fn spaces(indent: &[u8]) -> Option<usize> {
    indent.iter().all(|&byte| byte == b' ').then_some(indent.len())
}

/// Returns true if an indentation is all tabs or all spaces.
fn is_uniform(indent: &[u8]) -> bool {
    indent.windows(2).all(|pair| matches!(pair, [one, other] if one == other))
}

/// Returns an indentation with spaces for its tabs.
fn expanded(indent: &[u8], unit: usize) -> Vec<u8> {
    let width = indent.iter().map(|&byte| if byte == b'\t' { unit } else { 1 }).sum();
    vec![b' '; width]
}

/// Returns the greatest number that divides both; 0 is a multiple of every number.
fn greatest_common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// Returns the prefix that each second indentation has before the first one, if it is always the same.
fn shift<'a>(mut pairs: impl Iterator<Item = IndentPair<'a>> + Clone) -> Option<Vec<u8>> {
    let (inner, outer) = pairs.clone().next()?;
    let before = outer.strip_suffix(inner.as_slice())?;
    pairs.all(|(inner, outer)| outer.strip_suffix(inner.as_slice()) == Some(before)).then(|| before.to_vec())
}

/// Returns the tab width that makes each second indentation as wide as the first one, which is all spaces. Spaces after
/// tabs only align, in both.
fn tab_width<'a>(pairs: impl Iterator<Item = IndentPair<'a>>) -> Option<usize> {
    let pairs: Vec<IndentPair<'_>> = pairs.collect();
    pairs.iter().all(|(plain, _)| spaces(plain).is_some()).then_some(())?;
    (1..=8).find(|&unit| pairs.iter().all(|(plain, tabs)| expanded(tabs, unit).len() == plain.len()))
}

/// Returns a rule for levels of another width; at least two depths must show it.
fn levels(known: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<IndentRule> {
    let kinds = |indents: &mut dyn Iterator<Item = &Vec<u8>>| {
        let all: Vec<u8> = indents.flatten().copied().collect();
        is_uniform(&all).then(|| all.first().copied())
    };
    kinds(&mut known.keys())?;
    let blank = kinds(&mut known.values())??;
    let mut widths: Vec<(usize, usize)> = known.iter().map(|(from, to)| (from.len(), to.len())).collect();
    widths.sort_unstable();
    let [(from, to), (next_from, next_to), ..] = *widths.as_slice() else { return None };
    let step_from = next_from.checked_sub(from).filter(|&step| step > 0)?;
    let step_to = next_to.checked_sub(to).filter(|&step| step > 0)?;
    // Each width must be a whole number of levels.
    (from.is_multiple_of(step_from) && to.is_multiple_of(step_to)).then_some(())?;
    let holds = |&(one, other): &(usize, usize)| {
        Some((one - from) * step_to) == other.checked_sub(to).map(|more| more * step_from)
    };
    let levels = LevelMap { from, to, step_from, step_to, blank };
    widths.iter().all(holds).then_some(IndentRule::Levels(levels))
}
