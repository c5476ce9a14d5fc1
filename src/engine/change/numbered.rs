//! Lines that are named by the numbers under which they were shown, and where they are now.

use super::line_numbers::{EarlierBytes, body_of, numbers_in};
use super::planned::Planned;
use super::{Change, Current};
use crate::engine::store::session::{Mark, Numbers};
use crate::engine::store::shown;
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::sha256::Sha256;
use crate::text::lines;

/// Files of one change whose earlier versions are looked up.
const FILES_MAX: usize = 64;

/// Why lines cannot be found by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotFound {
    /// The session was not shown this one.
    NeverShown(u64),
    /// Some of them changed since; the present lines among which they would be.
    Changed(u64, u64),
}

impl Change<'_> {
    /// Where the lines are now that the session was shown as `first` to `last`.
    ///
    /// # Errors
    /// Why they are not there.
    pub fn lines_now(&self, current: &Current, (first, last): (u64, u64)) -> Result<(u64, u64), NotFound> {
        if let Some(mark) = self.mark(current.place().path())
            && mark.numbers().is_empty()
            && mark.sha256 == current.sha256()
            && mark.lines.contain(first, last)
        {
            // Nothing was shown of what the caller wrote itself: it counts in the file as it is.
            return Ok((first, last));
        }
        let numbers = self.numbers_now(current);
        let was_shown = self.shown_ever(current);
        let total = lines::count(&body_of(current.bytes()));
        let mut found: Option<(u64, u64)> = None;
        for line in first..=last {
            let Some(now) = numbers.now(line) else {
                if !was_shown.iter().any(|numbers| numbers.has(line)) {
                    return Err(NotFound::NeverShown(line));
                }
                return Err(around(&numbers, first, last, total));
            };
            found = match found {
                None => Some((now, now)),
                Some((from, to)) if now == to + 1 => Some((from, now)),
                Some(_) => return Err(around(&numbers, first, last, total)),
            };
        }
        found.ok_or(NotFound::NeverShown(first))
    }

    /// The line after which an insertion comes that was meant after the line shown as `line`, 0 for the start: one of
    /// the lines on both sides must still be there. The one before must have been shown, and so must the one after it,
    /// if there is one.
    ///
    /// # Errors
    /// Why it cannot be said.
    pub fn insertion_point(&self, current: &Current, line: u64) -> Result<u64, NotFound> {
        let total = lines::count(&body_of(current.bytes()));
        let is_stale = self.is_stale(current);
        let after = self.lines_now(current, (line + 1, line + 1)).map(|(after, _)| after);
        let before = if line == 0 { Ok(0) } else { self.lines_now(current, (line, line)).map(|(at, _)| at) };
        match (before, after) {
            // At the start nothing else says what is meant where others were at work.
            (Ok(0), Err(why @ NotFound::Changed(..))) if is_stale => Err(why),
            (Ok(at), Err(why @ NotFound::NeverShown(_))) if at > 0 && at < total => {
                let mark = self.mark(current.place().path());
                let is_known = mark.is_some_and(|mark| mark.lines.contain(at + 1, at + 1));
                match (is_stale, is_known) {
                    (true, _) => Err(NotFound::Changed(at, at + 1)),
                    // The caller wrote it.
                    (false, true) => Ok(at),
                    (false, false) => Err(why),
                }
            }
            (Ok(at), _) => Ok(at),
            (Err(NotFound::Changed(..)), Ok(after)) => Ok(after - 1),
            // The caller itself changed both: it counts in what it made.
            (Err(NotFound::Changed(..)), Err(_)) if !is_stale && line <= total => Ok(line),
            (Err(why), _) => Err(why),
        }
    }

    /// Whether a file is another than the session knows.
    fn is_stale(&self, current: &Current) -> bool {
        self.mark(current.place().path()).is_some_and(|mark| mark.sha256 != current.sha256())
    }

    /// Where the shown lines of a file are now.
    fn numbers_now(&self, current: &Current) -> Numbers {
        let Some(mark) = self.mark(current.place().path()) else { return Numbers::default() };
        let mut earlier = EarlierBytes::new();
        if let Some(state) = &self.state {
            self.look_up(state, mark, current, &mut earlier);
        }
        numbers_in(mark, current.sha256(), &body_of(current.bytes()), &earlier)
    }

    /// The numbers of each version that the session was shown.
    fn shown_ever(&self, current: &Current) -> Vec<Numbers> {
        let Some(mark) = self.mark(current.place().path()) else { return Vec::new() };
        let earlier = mark.earlier.iter().map(|version| version.numbers.clone());
        std::iter::once(mark.numbers()).chain(earlier).collect()
    }

    /// Reads the versions that a mark tells of and that are not the one that is there.
    fn look_up(&self, state: &State, mark: &Mark, current: &Current, earlier: &mut EarlierBytes) {
        let versions = std::iter::once(mark.sha256).chain(mark.earlier.iter().map(|version| version.sha256));
        for sha256 in versions.filter(|sha256| *sha256 != current.sha256()) {
            if !earlier.contains_key(&sha256)
                && let Some(bytes) = self.version_shown(state, current.place().path(), sha256)
            {
                earlier.insert(sha256, bytes);
            }
        }
    }

    /// The bytes of a file as the session was shown them, where a backup, the snapshots or a copy still have them.
    pub(super) fn version_shown(
        &self,
        state: &State,
        path: &WorkspacePath,
        sha256: Sha256,
    ) -> Option<Vec<u8>> {
        self.engine.find_version(state, path, sha256).or_else(|| shown::find(state, sha256))
    }

    /// The earlier versions of the files that change, as far as the numbers of their lines need them.
    pub(super) fn earlier_bytes(&self, state: &State) -> EarlierBytes {
        let mut earlier = EarlierBytes::new();
        for Planned { seen, .. } in self.files.iter().take(FILES_MAX) {
            if let Some(mark) = self.mark(seen.current.place.path()) {
                self.look_up(state, mark, &seen.current, &mut earlier);
            }
        }
        earlier
    }
}

/// The present lines among which lines would be that have changed: from behind the one before them that is still
/// there to the one after them.
fn around(numbers: &Numbers, first: u64, last: u64, total: u64) -> NotFound {
    /// How far a line is looked for.
    const FAR: u64 = 200;
    let before = (first.saturating_sub(FAR).max(1)..first).rev().find_map(|line| numbers.now(line));
    let after = (last + 1..=last.saturating_add(FAR)).find_map(|line| numbers.now(line));
    let from = before.unwrap_or(1).clamp(1, total.max(1));
    NotFound::Changed(from, after.unwrap_or(from + (last - first) + 1).clamp(from, total.max(1)))
}
