//! Writes a file anew with the lines that hunks change, every other byte as it was.

use super::lines::{Ending, Line};
use super::locate::Text;
use super::model::{Hunk, HunkLine, Kind};
use super::place::{HunkPlace, PatchOptions};
use crate::text::checked::{Fault, items};

/// Lines to put in the place of others.
#[derive(Debug)]
pub struct Edit<'a> {
    /// Which of the file's hunks it belongs to, by index.
    pub hunk: usize,
    /// Index of the first line that goes.
    pub start: usize,
    /// Index after the last line that goes.
    pub end: usize,
    /// The lines that come.
    added: Vec<HunkLine<'a>>,
    /// Whether the patch's own line endings are the file's.
    is_verbatim: bool,
    /// What the patch says about the final newline.
    last: LastLine,
}

impl Edit<'_> {
    /// By how many lines the text grows.
    pub fn growth(&self) -> i64 {
        let count = |lines: usize| i64::try_from(lines).unwrap_or(i64::MAX);
        count(self.added.len()) - count(self.end - self.start)
    }
}

/// What a hunk says about the final newline of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastLine {
    /// Nothing: it stays as the file has it.
    AsItWas,
    /// It comes.
    GetsNewline,
    /// It goes.
    LosesNewline,
}

/// The edits that `hunk`, the one with `index`, makes at `place`.
///
/// `endings_are_meant` decides where no old line tells whether the patch's endings are the file's.
pub fn edits<'a>(
    text: &Text<'_>,
    hunk: &Hunk<'a>,
    index: usize,
    place: &HunkPlace,
    endings_are_meant: bool,
) -> Result<Vec<Edit<'a>>, Fault> {
    let end = hunk.lines.len().saturating_sub(place.skipped_after);
    let body = items(&hunk.lines, place.skipped_before..end)?;
    let is_verbatim = is_verbatim(&text.lines, body, place.start).unwrap_or(endings_are_meant);
    let last = last_line(hunk);
    let mut edits: Vec<Edit<'a>> = Vec::new();
    let mut at = place.start;
    let mut is_open = false;
    for line in body {
        if line.kind == Kind::Context {
            at += 1;
            is_open = false;
            continue;
        }
        if !is_open {
            edits.push(Edit { hunk: index, start: at, end: at, added: Vec::new(), is_verbatim, last });
            is_open = true;
        }
        let Some(edit) = edits.last_mut() else { continue };
        if line.kind == Kind::Removed {
            at += 1;
            edit.end = at;
        } else {
            edit.added.push(*line);
        }
    }
    Ok(edits)
}

/// The file after `edits`, which are in order and do not overlap, and the hunks that changed a byte.
///
/// # Errors
/// Where an edit lies outside the file, or the result would be larger than `options` allow: its size
/// is known before any of it is allocated.
pub fn render(
    lines: &[Line<'_>],
    edits: &[Edit<'_>],
    hunks: usize,
    options: PatchOptions,
) -> Result<(Vec<u8>, Vec<bool>), Fault> {
    let mut size = Size(0);
    write(lines, edits, hunks, &mut size)?;
    options.must_fit(size.0)?;
    let mut bytes = Vec::with_capacity(size.0);
    let changed = write(lines, edits, hunks, &mut bytes)?;
    Ok((bytes, changed))
}

/// Writes the file after `edits` to `sink`, and tells which hunks changed a byte.
fn write(
    lines: &[Line<'_>],
    edits: &[Edit<'_>],
    hunks: usize,
    sink: &mut impl Sink,
) -> Result<Vec<bool>, Fault> {
    let mut output = Output { sink, is_open: false, filler: filler(lines) };
    let mut changed = vec![false; hunks];
    let mut at = 0;
    for (index, edit) in edits.iter().enumerate() {
        output.copy(items(lines, at..edit.start)?);
        let gone = items(lines, edit.start..edit.end)?;
        let is_last = edit.end == lines.len() && index + 1 == edits.len();
        let mut is_same = gone.len() == edit.added.len();
        for (number, line) in edit.added.iter().enumerate() {
            let mut ending = ending(lines, edit, number);
            if is_last && number + 1 == edit.added.len() {
                ending = final_ending(lines, edit, ending);
            }
            is_same &= gone.get(number).is_some_and(|gone| gone.text == line.text && gone.ending == ending);
            output.push(line.text, ending);
        }
        if let Some(changed) = changed.get_mut(edit.hunk) {
            *changed |= !is_same;
        }
        at = edit.end;
    }
    output.copy(items(lines, at..lines.len())?);
    Ok(changed)
}

/// What takes a text piece by piece.
trait Sink {
    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn take(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// The size of a text that is not kept.
struct Size(usize);

impl Sink for Size {
    fn take(&mut self, bytes: &[u8]) {
        self.0 = self.0.saturating_add(bytes.len());
    }
}

/// The text while it is written.
struct Output<'s, S> {
    /// What takes it.
    sink: &'s mut S,
    /// Whether the last line has no ending.
    is_open: bool,
    /// What ends such a line when another follows.
    filler: Ending,
}

impl<S: Sink> Output<'_, S> {
    /// Writes one line.
    fn push(&mut self, text: &[u8], ending: Ending) {
        if self.is_open {
            self.sink.take(self.filler.bytes());
        }
        self.sink.take(text);
        self.sink.take(ending.bytes());
        self.is_open = ending == Ending::None;
    }

    /// Writes lines as they are.
    fn copy(&mut self, lines: &[Line<'_>]) {
        for line in lines {
            self.push(line.text, line.ending);
        }
    }
}

/// Whether a patch has carriage returns at the ends of lines which are the file's, not its own.
pub fn carries_returns(hunks: &[Hunk<'_>]) -> bool {
    let has_returns = |hunk: &Hunk<'_>| hunk.lines.iter().any(|line| line.ending == Ending::CrLf);
    hunks.iter().any(|hunk| !hunk.is_crlf && has_returns(hunk))
}

/// Whether all old lines end in the file as they end in the patch; `None` where no two can be
/// compared.
fn is_verbatim(lines: &[Line<'_>], body: &[HunkLine<'_>], start: usize) -> Option<bool> {
    let old = body.iter().filter(|line| line.kind != Kind::Added).map(|line| line.ending);
    let there = lines.iter().skip(start).map(|line| line.ending);
    let mut pairs =
        old.zip(there).filter(|(old, there)| *old != Ending::None && *there != Ending::None).peekable();
    if lines.is_empty() {
        return Some(true);
    }
    pairs.peek().is_some().then(|| pairs.all(|(old, there)| old == there))
}

/// The ending of an added line that is not the file's last.
fn ending(lines: &[Line<'_>], edit: &Edit<'_>, number: usize) -> Ending {
    let own = edit.added.get(number).map_or(Ending::Lf, |line| line.ending);
    if edit.is_verbatim && own != Ending::None {
        return own;
    }
    let replaced = (edit.start + number).min(edit.end.saturating_sub(1));
    let replaced = (edit.end > edit.start).then_some(replaced);
    let near = [replaced, edit.start.checked_sub(1), Some(edit.end)];
    let near = near.into_iter().flatten().filter_map(|at| lines.get(at)).map(|line| line.ending);
    let first = lines.first().map(|line| line.ending);
    let own = if own == Ending::None { Ending::Lf } else { own };
    near.chain(first).find(|ending| *ending != Ending::None).unwrap_or(own)
}

/// The ending of an added line that is the file's last.
fn final_ending(lines: &[Line<'_>], edit: &Edit<'_>, ending: Ending) -> Ending {
    let was_bare = lines.last().is_some_and(|line| line.ending == Ending::None);
    match edit.last {
        LastLine::LosesNewline => Ending::None,
        LastLine::AsItWas if was_bare => Ending::None,
        LastLine::GetsNewline | LastLine::AsItWas => ending,
    }
}

/// What `hunk` says about the final newline.
fn last_line(hunk: &Hunk<'_>) -> LastLine {
    let is_bare = |line: Option<&HunkLine<'_>>| line.is_some_and(|line| line.ending == Ending::None);
    match (is_bare(hunk.old().next_back()), is_bare(hunk.new_side().next_back())) {
        (false, true) => LastLine::LosesNewline,
        (true, false) => LastLine::GetsNewline,
        (false, false) | (true, true) => LastLine::AsItWas,
    }
}

/// The ending for a last line that is not the last any more.
fn filler(lines: &[Line<'_>]) -> Ending {
    lines.iter().rev().map(|line| line.ending).find(|ending| *ending != Ending::None).unwrap_or(Ending::Lf)
}
