//! Lines of a text that one side changed, while others changed it too.
//!
//! Each line is in the text now, in the text as it would be without the side's changes, or in both:
//!
//! ```text
//!            without    now
//!   one      yes        yes    nobody's, or of others
//!   two      yes        no     the side removed it
//!   TWO      no         yes    the side added it
//! ```
//!
//! So a line of others inside a block that the side added is the only one of the block that is theirs.

use std::collections::{HashMap, HashSet};

use similar::DiffOp;

use crate::text::checked::slice_or_empty;
use crate::text::{line_diff, lines};

/// Most lines of the side, and of those that it replaced, that are kept after others took them.
const TAKEN_LINES_MAX: usize = 10_000;

/// Side that changes a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedBy {
    /// The side whose lines are told apart.
    Side,
    /// Anyone else.
    Others,
}

/// A line, and the texts that have it.
#[derive(Debug, Clone)]
struct SourcedLine {
    /// Its bytes, with the ending.
    text: Vec<u8>,
    /// True if it would be there without the changes of the side.
    is_before: bool,
    /// True if it is there now.
    is_now: bool,
    /// Number of the change by others that took its place, since when neither text has it.
    taken: Option<usize>,
}

impl SourcedLine {
    /// Returns a line that both texts have, or only one.
    fn new(text: &[u8], is_before: bool, is_now: bool) -> Self {
        Self { text: text.to_vec(), is_before, is_now, taken: None }
    }

    /// Returns the line with this text: only its ending may be another.
    fn with_text(self, text: &[u8]) -> Self {
        if self.text == text { self } else { Self { text: text.to_vec(), ..self } }
    }

    /// Returns true if the side changed nothing about it.
    const fn is_common(&self) -> bool {
        self.is_before && self.is_now
    }
}

/// Lines of a text, with what one side changed.
#[derive(Debug, Clone)]
pub struct SideLines {
    /// Lines of the text now, those that the side removed, and those of the side that others removed.
    lines: Vec<SourcedLine>,
    /// Number of changes so far.
    changes: usize,
    /// Number of lines of the side that others removed and put back.
    put_back: usize,
    /// True if the side created the text.
    is_new: bool,
}

impl SideLines {
    /// Returns the lines before the first change; `None` if there was no text.
    pub fn of(before: Option<&[u8]>) -> Self {
        let lines = before.iter().flat_map(|text| lines::lines(text));
        let lines = lines.map(|line| SourcedLine::new(line, true, true)).collect();
        Self { lines, changes: 0, put_back: 0, is_new: before.is_none() }
    }

    /// Adds a change, to the text `new`.
    pub fn change(&mut self, by: ChangedBy, new: &[u8]) {
        // What is appended to a last line without an ending does not change whose line it is.
        let is_ending_ignored = by == ChangedBy::Others || self.is_new;
        let key = |line| if is_ending_ignored { lines::without_ending(line) } else { line };
        let new = lines::all(new);
        let now = self.lines.iter().filter(|line| line.is_now).map(|line| key(&line.text));
        let ops =
            line_diff::diff(&now.collect::<Vec<_>>(), &new.iter().map(|line| key(line)).collect::<Vec<_>>())
                .ops;
        let mut rest = std::mem::take(&mut self.lines).into_iter().peekable();
        for op in ops {
            let added = slice_or_empty(&new, op.new_range());
            if matches!(op, DiffOp::Equal { .. }) {
                for text in added {
                    while let Some(removed) = rest.next_if(|line| !line.is_now) {
                        self.lines.push(removed);
                    }
                    self.lines.extend(rest.next().map(|line| line.with_text(text)));
                }
                continue;
            }
            let (mut replaced, mut left) = (Vec::new(), op.old_range().len());
            while let Some(line) = rest.next_if(|line| !line.is_now || left > 0) {
                left -= usize::from(line.is_now);
                replaced.push(line);
            }
            self.replace(by, replaced, added);
        }
        self.lines.extend(rest);
        self.changes += 1;
        self.drop_removed();
    }

    /// Adds lines in the place of others. A removed line that is added again is as before.
    fn replace(&mut self, by: ChangedBy, replaced: Vec<SourcedLine>, added: &[&[u8]]) {
        let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for (at, text) in added.iter().enumerate() {
            places.entry(*text).or_default().push(at);
        }
        let place_of = |line: &SourcedLine, next: usize| {
            let places = places.get(line.text.as_slice())?;
            places.get(places.partition_point(|at| *at < next)).copied()
        };
        let back = restored_changes(&replaced, place_of);
        let again_from = |line: &SourcedLine, next: usize| {
            let is_back = line.taken.is_none_or(|taken| line.is_before || back.contains(&taken));
            place_of(line, next).filter(|_| !line.is_now && is_back)
        };
        let place = match (replaced.iter().rposition(|line| line.is_now), by) {
            _ if replaced.iter().any(|line| again_from(line, 0).is_some()) => None,
            (Some(last), _) => Some(last + 1),
            (None, ChangedBy::Others) => Some(0),
            (None, ChangedBy::Side) => None,
        };
        let new = |text: &&[u8]| SourcedLine::new(text, by == ChangedBy::Others, true);
        let (mut next, mut revived) = (0, HashSet::new());
        for (index, line) in replaced.into_iter().enumerate() {
            if place == Some(index) {
                self.lines.extend(added.iter().map(new));
                next = added.len();
            }
            if let Some(at) = again_from(&line, next) {
                self.lines.extend(slice_or_empty(added, next..at).iter().map(new));
                revived.extend(line.taken.filter(|_| !line.is_before));
                self.put_back(line);
                next = at + 1;
            } else if !line.is_now {
                let is_with_it = line.is_before && line.taken.is_some_and(|taken| revived.contains(&taken));
                self.lines.push(if is_with_it { SourcedLine { taken: None, ..line } } else { line });
            } else if (by == ChangedBy::Side) == line.is_before {
                self.lines.push(SourcedLine { is_now: false, ..line });
            }
        }
        self.lines.extend(slice_or_empty(added, next..).iter().map(new));
    }

    /// Adds a removed line again, as it was before. A line of the side that others took brings back what they took with it.
    fn put_back(&mut self, line: SourcedLine) {
        if let Some(taken) = line.taken.filter(|_| !line.is_before) {
            self.put_back += 1;
            let with_it = |other: &&mut SourcedLine| other.is_before && other.taken == Some(taken);
            self.lines.iter_mut().filter(with_it).for_each(|other| other.taken = None);
        }
        self.lines.push(SourcedLine { is_now: true, taken: None, ..line });
    }

    /// Leaves to others the lines of the side that they removed, and with the last of them those that it had put them in
    /// place of: the place is theirs now.
    fn drop_removed(&mut self) {
        let is_lost = |line: &SourcedLine| !line.is_before && !line.is_now;
        let mut known: Vec<&mut SourcedLine> =
            self.lines.iter_mut().filter(|line| line.taken.is_none()).collect();
        for run in known.chunk_by_mut(|one, next| one.is_common() == next.is_common()) {
            let is_theirs = run.iter().any(|line| is_lost(line)) && !run.iter().any(|line| line.is_now);
            for line in run.iter_mut().filter(|line| is_theirs || is_lost(line)) {
                line.taken = Some(self.changes);
            }
        }
        if self.lines.iter().filter(|line| line.taken.is_some()).count() > TAKEN_LINES_MAX {
            self.lines.retain(|line| line.taken.is_none());
        }
    }

    /// Returns true if others removed lines of the side.
    pub fn has_taken(&self) -> bool {
        self.lines.iter().any(|line| !line.is_before && line.taken.is_some())
    }

    /// Adds a change by others; returns true if lines of the side are back with it.
    pub fn puts_back(&mut self, new: &[u8]) -> bool {
        let known = self.put_back;
        self.change(ChangedBy::Others, new);
        self.put_back > known
    }

    /// Returns the text without the changes of the side.
    pub fn before(&self) -> Vec<u8> {
        joined(self.lines.iter().filter(|line| line.is_before && line.taken.is_none()))
    }

    /// Returns the lines that the side added.
    pub fn added(&self) -> Vec<u8> {
        joined(self.lines.iter().filter(|line| !line.is_before && line.is_now))
    }
}

/// Returns the numbers of the changes by others whose removed lines of the side are all added again, in order; `place_of`
/// returns the next place of a line among those added. One line alone may just be alike, as `}` is.
fn restored_changes(
    replaced: &[SourcedLine],
    place_of: impl Fn(&SourcedLine, usize) -> Option<usize>,
) -> HashSet<usize> {
    let mut next: HashMap<usize, Option<usize>> = HashMap::new();
    let mut said: HashSet<usize> = HashSet::new();
    for line in replaced.iter().filter(|line| !line.is_before) {
        let Some(taken) = line.taken else { continue };
        let at = next.entry(taken).or_insert(Some(0));
        *at = at.and_then(|at| place_of(line, at)).map(|at| at + 1);
        if line.text.iter().any(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii()) {
            said.insert(taken);
        }
    }
    said.retain(|taken| next.get(taken).is_some_and(Option::is_some));
    said
}

/// Returns a text of lines. Of these, any may have been the last one, without an ending.
fn joined<'l>(lines: impl Iterator<Item = &'l SourcedLine>) -> Vec<u8> {
    let mut text: Vec<u8> = Vec::new();
    for line in lines {
        if text.last().is_some_and(|last| *last != b'\n' && *last != b'\r') {
            text.push(b'\n');
        }
        text.extend_from_slice(&line.text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Returns the text without the changes of the side, and the lines that it added. Lines are one letter each; the first
    /// change is the side's, and they take turns.
    fn told(before: Option<&str>, changes: &[&str]) -> [String; 2] {
        let text = |letters: &str| letters.chars().map(|letter| format!("{letter}\n")).collect::<String>();
        let mut own = SideLines::of(before.map(text).as_deref().map(str::as_bytes));
        for (change, by) in changes.iter().zip([ChangedBy::Side, ChangedBy::Others].into_iter().cycle()) {
            own.change(by, text(change).as_bytes());
        }
        [own.before(), own.added()].map(|text| String::from_utf8(text).unwrap().replace('\n', ""))
    }

    #[test]
    fn lines_of_others_are_on_both_sides_or_on_none() {
        for (before, changes, wanted) in [
            (Some("123"), &["1B3"] as &[&str], ["123", "B"]),
            (Some("1234"), &["1B34", "1B3D"], ["123D", "B"]),
            // A line of others inside an added block, before and after it.
            (Some("12"), &["1abc2", "1abXc2"], ["1X2", "abc"]),
            (Some("12"), &["1ab2", "X1Yab2Z"], ["X1Y2Z", "ab"]),
            (None, &["abc", "aXbc", "aXbcd"], ["X", "abcd"]),
            (None, &["abc", "aXbYc", "aXbc"], ["XY", "abc"]),
            // Lines that others removed, or changed as well.
            (Some("12"), &["1abc2", "1ac2"], ["12", "ac"]),
            (Some("123"), &["1B3", "1C3"], ["1C3", ""]),
            (Some("123"), &["1B3", "13"], ["13", ""]),
            (Some("1234"), &["1BC4", "1C4"], ["1234", "C"]),
            (None, &["abc", "aXc"], ["X", "ac"]),
            // Removed lines that come back, by others or by the side.
            (Some("123"), &["13", "123"], ["123", ""]),
            (Some("123"), &["13", "1X23"], ["1X23", ""]),
            (Some("123"), &["13", "13X", "123X"], ["123X", ""]),
            (Some("123"), &["1B3", "123"], ["123", ""]),
            (Some("123"), &["", "4"], ["4123", ""]),
            // Lines that the side removes after it has changed them.
            (Some("123"), &["1B3", "1B3X", "13X"], ["123X", ""]),
            // Lines that others took and put back, with and without a change in between.
            (Some("123"), &["1B3", "1C3", "1C3D", "1B3D"], ["123", "BD"]),
            (Some("123"), &["1B3", "13", "13D", "1B3D"], ["123", "BD"]),
            (Some("123"), &["1BX3", "1C3", "1C3D", "1BX3D"], ["123", "BXD"]),
            (Some("1234"), &["1B34", "1B34X", "1B4X", "1C4X", "1C4XD", "1B4XD"], ["1234X", "BD"]),
            // A part of them may just be alike.
            (Some("123"), &["1BX3", "1C3", "1C3D", "1X3D"], ["1X3", "D"]),
            (Some("123"), &["1}3", "1C3", "1C3D", "1}3D"], ["1}3", "D"]),
            (Some("123"), &["1B3", "1C3", "1C3D", "123D"], ["123", "D"]),
            (None, &["abc", "aXc", "aXcd", "abcd"], ["", "abcd"]),
            // A line that the side added and removed is of others, if they add it.
            (Some("12"), &["1B2", "1B2X", "12X", "1B2X"], ["1B2X", ""]),
        ] {
            assert_eq!(told(before, changes), wanted, "{before:?} {changes:?}");
        }
    }

    #[test]
    fn last_line_without_an_ending_stays_whose_it_was() {
        let mut own = SideLines::of(None);
        own.change(ChangedBy::Side, b"a");
        own.change(ChangedBy::Others, b"a\nX");
        own.change(ChangedBy::Side, b"a\nX\nb");
        assert_eq!([own.before(), own.added()], [b"X\n".to_vec(), b"a\nb".to_vec()]);
        let mut own = SideLines::of(Some(b"1"));
        own.change(ChangedBy::Side, b"1\na");
        own.change(ChangedBy::Others, b"1\na\nX");
        assert_eq!(own.before(), b"1\nX");
    }

    #[test]
    fn added_lines_are_those_that_the_side_added() {
        let mut random = Random::new(7);
        for _ in 0..300 {
            // Each side uses letters of its own, so its lines show whose they are.
            let mut now: Vec<String> = (0..4).map(|number| format!("{number}\n")).collect();
            let mut own = SideLines::of(Some(now.concat().as_bytes()));
            for step in 0..8 {
                let (by, side) = *random.of(&[(ChangedBy::Side, 'a'), (ChangedBy::Others, 'b')]);
                for change in 0..random.below(3) {
                    let at = random.below(now.len() + 1);
                    if random.below(3) == 0 && at < now.len() {
                        now.remove(at);
                    } else {
                        now.insert(at, format!("{side}{step}{change}\n"));
                    }
                }
                own.change(by, now.concat().as_bytes());
                let mine: Vec<&String> = now.iter().filter(|line| line.starts_with('a')).collect();
                assert_eq!(
                    String::from_utf8(own.added()).unwrap(),
                    mine.into_iter().cloned().collect::<String>()
                );
                let before = String::from_utf8(own.before()).unwrap();
                let theirs = |line: &&String| !line.starts_with('a');
                assert!(
                    now.iter().filter(theirs).all(|line| before.contains(line.as_str())),
                    "{now:?} {before}"
                );
                assert!(!before.contains('a'), "{before}");
            }
        }
    }
}
