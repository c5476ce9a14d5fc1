//! Lines that are named by the numbers under which they were shown, and where they are now.

use super::line_numbers::{EarlierBytes, body_of, numbers_in};
use super::planned::{After, CallerKnowledge, Planned};
use super::{Change, Current};
use crate::engine::store::session::{self, Lines, Mark, Numbers};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::sha256::Sha256;
use crate::text::lines;

/// Files of one change whose earlier versions are looked up.
const FILES_MAX: usize = 64;

/// Reason why lines are not found by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotFound {
    /// The session was not shown this one.
    NeverShown(u64),
    /// Some of them changed since; the present lines among which they would be.
    Changed(u64, u64),
}

/// The lines of a file that a session was shown, and where they are.
pub struct ShownLines {
    /// Present numbers of the lines that are still there.
    numbers: Numbers,
    /// The numbers of each version that was shown.
    ever: Vec<Numbers>,
    /// Lines of the file as it is that the caller knows, where it is as the session knows it.
    known: Option<Lines>,
    /// True if no line was shown and the caller wrote all that it knows.
    is_own: bool,
    /// How many lines the file has.
    total: u64,
}

impl ShownLines {
    /// Returns the present numbers of the lines that were shown as `first` to `last`.
    ///
    /// # Errors
    /// Fails if one of them was never shown, is gone, or is apart from the others.
    pub fn now(&self, first: u64, last: u64) -> Result<(u64, u64), NotFound> {
        if self.is_own && self.knows(first, last) {
            // Nothing was shown of what the caller wrote itself: it counts in the file as it is.
            return Ok((first, last));
        }
        let mut found: Option<(u64, u64)> = None;
        for line in first..=last {
            let now = self.numbers.now(line);
            if now.is_none() && !self.ever.iter().any(|numbers| numbers.has(line)) {
                return Err(NotFound::NeverShown(line));
            }
            found = match (found, now) {
                (None, Some(now)) => Some((now, now)),
                (Some((from, to)), Some(now)) if now == to + 1 => Some((from, now)),
                _ => return Err(around(&self.numbers, first, last, self.total)),
            };
        }
        found.ok_or(NotFound::NeverShown(first))
    }

    /// Returns the present line after which to insert what was meant for after the line shown as `line`; 0 is the start.
    ///
    /// One of the two lines around the place must still be there. Both must have been shown, if there are two.
    ///
    /// # Errors
    /// Fails if both lines changed, or if one was never shown.
    pub fn insertion_point(&self, line: u64) -> Result<u64, NotFound> {
        let next = line.saturating_add(1);
        let after = self.now(next, next).map(|(after, _)| after);
        let before = if line == 0 { Ok(0) } else { self.now(line, line).map(|(at, _)| at) };
        let is_stale = self.known.is_none();
        match (before, after) {
            // At the start nothing else says what is meant where others were at work.
            (Ok(0), Err(why @ NotFound::Changed(..))) if is_stale => Err(why),
            (Ok(at), Err(NotFound::NeverShown(_))) if at > 0 && at < self.total && is_stale => {
                Err(NotFound::Changed(at, at + 1))
            }
            // What the caller wrote itself, it knows.
            (Ok(at), Err(why @ NotFound::NeverShown(_)))
                if at > 0 && at < self.total && !self.knows(at + 1, at + 1) =>
            {
                Err(why)
            }
            (Ok(at), _) => Ok(at),
            (Err(NotFound::Changed(..)), Ok(after)) => Ok(after.saturating_sub(1)),
            // The caller itself changed both: it counts in what it made.
            (Err(NotFound::Changed(..)), Err(_)) if !is_stale && line <= self.total => Ok(line),
            (Err(why), _) => Err(why),
        }
    }

    /// Returns true if no line was shown and the caller wrote all that it knows.
    #[must_use]
    pub const fn is_own(&self) -> bool {
        self.is_own
    }

    /// Returns true if the caller knows these lines of the present file.
    fn knows(&self, first: u64, last: u64) -> bool {
        self.known.as_ref().is_some_and(|known| known.contain(first, last))
    }
}

impl Change<'_> {
    /// Returns the lines of a file that the session was shown, or `None` if it knows nothing of the file.
    #[must_use]
    pub fn shown_lines(&self, current: &Current) -> Option<ShownLines> {
        let mark = self.mark(current.place().path())?;
        let mut earlier = EarlierBytes::new();
        if let Some(state) = &self.state {
            self.look_up(state, mark, current, &mut earlier);
        }
        let body = body_of(current.bytes());
        let newest = mark.numbers();
        let is_own = newest.is_empty();
        let older = mark.earlier.iter().map(|version| version.numbers.clone());
        Some(ShownLines {
            numbers: numbers_in(mark, current.sha256(), &body, &earlier),
            ever: std::iter::once(newest).chain(older).collect(),
            known: (mark.sha256 == current.sha256()).then(|| mark.lines.clone()),
            is_own,
            total: lines::count(&body),
        })
    }

    /// Reads the versions that a mark tells of and that are not the one that is there.
    fn look_up(&self, state: &State, mark: &Mark, current: &Current, earlier: &mut EarlierBytes) {
        for sha256 in mark.versions().filter(|sha256| *sha256 != current.sha256()) {
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
        self.engine.find_version(state, path, sha256).or_else(|| session::find_shown(state, sha256))
    }

    /// The earlier versions of the files that change, as far as the numbers of their lines need them.
    pub(super) fn earlier_bytes(&self, state: &State) -> EarlierBytes {
        let mut earlier = EarlierBytes::new();
        let keeps_lines = |after: &After| match after.known {
            CallerKnowledge::ChangedLines | CallerKnowledge::ChangedSince(_) => true,
            CallerKnowledge::Everything | CallerKnowledge::Nothing => false,
        };
        let files = self.files.iter().filter(|file| file.after.as_ref().is_some_and(keeps_lines));
        for Planned { seen, .. } in files.take(FILES_MAX) {
            if let Some(mark) = self.mark(seen.current.place.path()) {
                self.look_up(state, mark, &seen.current, &mut earlier);
            }
        }
        earlier
    }
}

/// Finds the present lines around lines that changed: from the nearest one before that is still there to the nearest
/// one after.
fn around(numbers: &Numbers, first: u64, last: u64, total: u64) -> NotFound {
    /// How far a line is looked for.
    const FAR: u64 = 200;
    let before = (first.saturating_sub(FAR).max(1)..first).rev().find_map(|line| numbers.now(line));
    let after = (last..=last.saturating_add(FAR)).skip(1).find_map(|line| numbers.now(line));
    let from = before.unwrap_or(1).clamp(1, total.max(1));
    NotFound::Changed(
        from,
        after
            .unwrap_or_else(|| from.saturating_add(last - first).saturating_add(1))
            .clamp(from, total.max(1)),
    )
}
