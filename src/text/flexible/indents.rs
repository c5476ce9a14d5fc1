//! From one way of indenting to another.

use std::collections::BTreeMap;

use super::place::indent;

/// The widths that a level of spaces may have where nothing else tells.
const UNITS: [usize; 4] = [2, 3, 4, 8];

/// How the indentation of a text becomes that of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The file's indentation for each that the text looked for has.
    known: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How to find any other.
    rule: Rule,
}

/// What all lines have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// The file has this before the text's own.
    Deeper(Vec<u8>),
    /// The text has this before the file's own.
    Shallower(Vec<u8>),
    /// A tab of the file is so many spaces of the text.
    ToTabs(usize),
    /// A tab of the text is so many spaces of the file.
    FromTabs(usize),
    /// Levels of another width and perhaps another depth.
    Levels(Levels),
}

/// A straight line through two pairs of widths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Levels {
    /// A width in the text.
    from: usize,
    /// The same in the file.
    to: usize,
    /// So much more in the text
    step_from: usize,
    /// is so much more in the file.
    step_to: usize,
    /// The file's blank.
    blank: u8,
}

impl Mapping {
    /// The mapping that holds for all pairs of lines, the text's and the file's; `None` where there
    /// is no one rule for all of them.
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
        let rule = deeper(&known)
            .or_else(|| shallower(&known))
            .or_else(|| to_tabs(&known))
            .or_else(|| from_tabs(&known))
            .or_else(|| levels(&known))?;
        Some(Self { known, rule })
    }

    /// Whether the same blanks stand before every line, on one side or the other.
    pub const fn is_shift(&self) -> bool {
        matches!(self.rule, Rule::Deeper(_) | Rule::Shallower(_))
    }

    /// Takes the text's whole indentation, in `texts`, into account where the lines looked for do
    /// not tell how wide a level is.
    pub fn widened(self, texts: &[&[u8]]) -> Self {
        let Rule::Deeper(before) = &self.rule else { return self };
        let is_plain = self.known.keys().all(Vec::is_empty);
        let widths: Vec<usize> = texts.iter().filter_map(|line| spaces(indent(line))).collect();
        let unit = widths.iter().fold(0, |unit, &width| greatest_common_divisor(unit, width));
        let has_tabs = !before.is_empty() && before.iter().all(|&byte| byte == b'\t');
        if is_plain && has_tabs && widths.len() == texts.len() && UNITS.contains(&unit) {
            let levels = Levels { from: 0, to: before.len(), step_from: unit, step_to: 1, blank: b'\t' };
            return Self { rule: Rule::Levels(levels), ..self };
        }
        self
    }

    /// The file's indentation for a line; `None` where there is none that is beyond doubt.
    pub fn indent_of(&self, line: &[u8]) -> Option<Vec<u8>> {
        let from = indent(line);
        if let Some(known) = self.known.get(from) {
            return Some(known.clone());
        }
        match &self.rule {
            Rule::Deeper(before) => {
                let whole = [before.as_slice(), from].concat();
                // Tabs and spaces are not mixed where the lines looked for have no such mixture.
                let is_mixed = |indent: &[u8]| indent.contains(&b' ') && indent.contains(&b'\t');
                let may_mix = self.known.values().any(|known| is_mixed(known));
                (!is_mixed(&whole) || may_mix).then_some(whole)
            }
            Rule::Shallower(before) => from.strip_prefix(before.as_slice()).map(<[u8]>::to_vec),
            Rule::ToTabs(unit) => {
                let width = spaces(from)?;
                width.is_multiple_of(*unit).then(|| vec![b'\t'; width / unit])
            }
            Rule::FromTabs(unit) => Some(expanded(from, *unit)),
            Rule::Levels(levels) => levels.indent_of(from),
        }
    }
}

impl Levels {
    /// The file's indentation for one of the text.
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

/// The width of an indentation that is all spaces.
fn spaces(indent: &[u8]) -> Option<usize> {
    indent.iter().all(|&byte| byte == b' ').then_some(indent.len())
}

/// Whether an indentation is all tabs or all spaces.
fn is_uniform(indent: &[u8]) -> bool {
    indent.windows(2).all(|pair| matches!(pair, [one, other] if one == other))
}

/// An indentation with spaces for its tabs.
fn expanded(indent: &[u8], unit: usize) -> Vec<u8> {
    let width = indent.iter().map(|&byte| if byte == b'\t' { unit } else { 1 }).sum();
    vec![b' '; width]
}

/// The greatest number that divides both; 0 divides into nothing.
fn greatest_common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// The rule that the file has the same blanks before every line.
fn deeper(known: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Rule> {
    let (from, to) = known.iter().next()?;
    let before = to.strip_suffix(from.as_slice())?;
    let holds = |(from, to): (&Vec<u8>, &Vec<u8>)| to.strip_suffix(from.as_slice()) == Some(before);
    known.iter().all(holds).then(|| Rule::Deeper(before.to_vec()))
}

/// The rule that the text has the same blanks before every line.
fn shallower(known: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Rule> {
    let (from, to) = known.iter().next()?;
    let before = from.strip_suffix(to.as_slice())?;
    let holds = |(from, to): (&Vec<u8>, &Vec<u8>)| from.strip_suffix(to.as_slice()) == Some(before);
    known.iter().all(holds).then(|| Rule::Shallower(before.to_vec()))
}

/// The rule that tabs of the file are spaces of the text; spaces after tabs align, in both.
fn to_tabs(known: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Rule> {
    known.keys().all(|from| spaces(from).is_some()).then_some(())?;
    let holds = |unit: usize| known.iter().all(|(from, to)| expanded(to, unit).len() == from.len());
    (1..=8).find(|&unit| holds(unit)).map(Rule::ToTabs)
}

/// The rule that tabs of the text are spaces of the file.
fn from_tabs(known: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Rule> {
    known.values().all(|to| spaces(to).is_some()).then_some(())?;
    let holds = |unit: usize| known.iter().all(|(from, to)| expanded(from, unit).len() == to.len());
    (1..=8).find(|&unit| holds(unit)).map(Rule::FromTabs)
}

/// The rule that levels have another width, which at least two depths must tell.
fn levels(known: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Rule> {
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
    // Each width must be some whole levels deep.
    (from.is_multiple_of(step_from) && to.is_multiple_of(step_to)).then_some(())?;
    let holds = |&(one, other): &(usize, usize)| {
        Some((one - from) * step_to) == other.checked_sub(to).map(|more| more * step_from)
    };
    let levels = Levels { from, to, step_from, step_to, blank };
    widths.iter().all(holds).then_some(Rule::Levels(levels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rule_holds_for_all_lines_or_there_is_none() {
        let lines = |texts: &'static [(&str, &str)]| -> Vec<(&'static [u8], &'static [u8])> {
            texts.iter().map(|(one, other)| (one.as_bytes(), other.as_bytes())).collect()
        };
        let map =
            |pairs, line: &str| Mapping::of(&lines(pairs)).and_then(|found| found.indent_of(line.as_bytes()));
        let some = |indent: &str| Some(indent.as_bytes().to_vec());
        assert_eq!(map(&[("a", "    a"), ("  b", "      b")], "    c"), some("        "));
        assert_eq!(map(&[("    a", "a"), ("      b", "  b")], "    c"), some(""));
        assert_eq!(map(&[("    a", "a")], "c"), None);
        assert_eq!(map(&[("    a", "\ta")], "        c"), some("\t\t"));
        assert_eq!(map(&[("    a", "\ta")], "      c"), None);
        assert_eq!(map(&[("a", "a"), ("\tb", "  b")], "\t\tc"), some("    "));
        assert_eq!(map(&[("    a", "  a"), ("        b", "    b")], "            c"), some("      "));
        assert_eq!(map(&[("a", "\ta"), ("  b", "\t\tb")], "    c"), some("\t\t\t"));
        // Lines that move by different amounts are another nesting.
        assert_eq!(map(&[("    a", "        a"), ("        b", "        b")], "c"), None);
        assert_eq!(map(&[("    a", "    a"), ("    b", "        b")], "c"), None);
    }

    #[test]
    fn a_level_of_the_new_text_is_a_tab_of_a_file_with_tabs() {
        let mapping = Mapping::of(&[(b"a", b"\ta")]).unwrap();
        assert_eq!(mapping.indent_of(b"    b"), None);
        let mapping = mapping.widened(&[b"a", b"    b", b"        c"]);
        assert_eq!(mapping.indent_of(b"        c"), Some(b"\t\t\t".to_vec()));
    }
}
