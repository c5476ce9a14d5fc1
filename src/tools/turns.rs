//! Turns of all sessions, as `log` lists them.

use schemars::JsonSchema;
use serde::Serialize;

use super::common::{fitting, time_text};
use super::review::undone_by;
use super::session::net_size;
use super::{Paint, Text, targets};
use crate::engine::Engine;
use crate::engine::history::client_calls::{Turn, Turns};
use crate::engine::history::stacks::direction_of;
use crate::engine::journal::ChangeNumbers;
use crate::engine::journal::{self, JournalEntry};
use crate::engine::store::state::State;
use crate::error::Error;
use crate::text::escaped;
use crate::text::escaped::plural;

/// Bytes of a turn in a response besides its texts.
const TURN_BYTES: usize = 200;

/// One turn.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LoggedTurn {
    /// Session
    pub session: String,
    /// Number of its first change
    pub first: u64,
    /// Number of its last change
    pub last: u64,
    /// Number of changes
    pub changes: usize,
    /// Files that it changed in the end
    pub files: usize,
    /// Lines added
    pub insertions: u64,
    /// Lines removed
    pub deletions: u64,
    /// Time of the last change, as RFC 3339
    pub time: String,
    /// Beginning of the prompt, if the policy keeps it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// True if all of it is undone
    pub undone: bool,
    /// Number of undone changes, if only some are
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_changes: Option<usize>,
    /// Numbers of the changes.
    #[serde(skip)]
    numbers: Vec<u64>,
}

/// Returns turns, newest first, of all sessions unless one is named, and true if there are more.
///
/// # Errors
/// Fails if the journal or the session cannot be read.
pub fn list(
    engine: &mut Engine,
    offset: usize,
    limit: usize,
    max_bytes: Option<usize>,
) -> Result<(Vec<LoggedTurn>, bool), Error> {
    let Some(state) = State::find(&engine.workspace)? else { return Ok((Vec::new(), false)) };
    let mut cursors = cursors(engine, &state)?;
    let mut skip = offset;
    let (mut found, mut is_cut): (Vec<LoggedTurn>, bool) = (Vec::new(), false);
    while let Some(cursor) = cursors.iter_mut().max_by_key(|cursor| cursor.time())
        && let Some((turn, changes)) = cursor.next.take()
    {
        engine.control.check()?;
        if found.len() >= limit {
            is_cut = true;
            break;
        }
        if skip > 0 {
            skip -= 1;
        } else {
            found.push(LoggedTurn::of(engine, (&state, &cursor.session), turn, &changes)?);
        }
        cursor.advance()?;
    }
    for cursor in &cursors {
        let taken = undone_by(cursor.read.iter().rev());
        let is_undone = |seq: &&u64| taken.get(seq).is_some_and(|(whole, _)| whole.is_some());
        for turn in found.iter_mut().filter(|turn| turn.session == cursor.session) {
            let undone = turn.numbers.iter().filter(is_undone).count();
            turn.undone = undone == turn.changes;
            turn.undone_changes = (undone > 0 && !turn.undone).then_some(undone);
        }
    }
    if let Some(session) = engine.named_session().filter(|_| found.is_empty()).cloned() {
        targets::session_must_be_known(engine, &session)?;
    }
    let count = found.len();
    let turns = fitting(engine.bytes_max(max_bytes), found.into_iter(), LoggedTurn::size_bytes);
    let is_cut = is_cut || turns.len() < count;
    Ok((turns, is_cut))
}

impl LoggedTurn {
    /// Returns a turn with its changes, oldest first.
    fn of(
        engine: &Engine,
        (state, session): (&State, &str),
        turn: Turn,
        changes: &[JournalEntry],
    ) -> Result<Self, Error> {
        let (files, lines) = net_size(engine, state, changes, usize::MAX)?;
        let numbers: Vec<u64> = changes.iter().map(|change| change.seq).collect();
        Ok(Self {
            session: session.to_owned(),
            first: numbers.first().copied().unwrap_or(turn.first),
            last: numbers.last().copied().unwrap_or(turn.first),
            changes: changes.len(),
            files,
            insertions: lines.added,
            deletions: lines.removed,
            time: time_text(changes.last().map_or(turn.time, |change| change.time)),
            title: turn.title,
            undone: false,
            undone_changes: None,
            numbers,
        })
    }

    /// Returns its approximate size in a response, in bytes.
    fn size_bytes(&self) -> usize {
        TURN_BYTES + self.session.len() + self.title.as_ref().map_or(0, String::len)
    }

    /// Writes the turn as a line.
    pub fn as_text(&self, text: &mut Text) {
        let last = if self.first == self.last { String::new() } else { format!("-{}", self.last) };
        let size = format!("{}, {}", plural(self.changes, "change"), plural(self.files, "file"));
        let undone = match self.undone_changes {
            _ if self.undone => " [undone]".to_owned(),
            Some(count) => format!(" [{count} undone]"),
            None => String::new(),
        };
        let title = self.title.iter().map(|title| format!(" {}", escaped::line(title))).collect::<String>();
        let line = format!(
            "{} {} #{}{last} {size} ({} {}){}{}",
            self.time,
            text.paint(Paint::Cyan, &self.session),
            self.first,
            text.paint(Paint::Green, &format!("+{}", self.insertions)),
            text.paint(Paint::Red, &format!("-{}", self.deletions)),
            text.paint(Paint::Red, &undone),
            text.paint(Paint::Bold, &title),
        );
        if text.is_for_a_person() { text.styled(&line) } else { text.entry(&line) }
    }
}

/// Turns of a session, the newest first, of which only as many are read as are listed.
struct TurnCursor<'a> {
    /// State of the workspace.
    state: &'a State,
    /// The session.
    session: String,
    /// Its turns.
    turns: Turns,
    /// Numbers of its changes.
    numbers: ChangeNumbers,
    /// Number below which those are that are not read yet.
    below: u64,
    /// Records that are read, newest first, without steps and bytes: they tell which changes are undone.
    read: Vec<JournalEntry>,
    /// Newest turn that is not listed yet, with its changes, oldest first.
    next: Option<(Turn, Vec<JournalEntry>)>,
}

/// Returns the cursors of all sessions, or of the one that is named.
fn cursors<'a>(engine: &Engine, state: &'a State) -> Result<Vec<TurnCursor<'a>>, Error> {
    let mut sessions = journal::sessions(state)?;
    sessions.retain(|session| engine.named_session().is_none_or(|named| named.as_str() == session));
    sessions.sort();
    let cursor = |session: String| {
        let (turns, numbers) = (Turns::load(state, &session)?, ChangeNumbers::of(state, &session)?);
        let (read, below) = (Vec::new(), u64::MAX);
        let mut cursor = TurnCursor { state, session, turns, numbers, below, read, next: None };
        cursor.advance()?;
        Ok(cursor)
    };
    sessions.into_iter().map(cursor).collect()
}

impl TurnCursor<'_> {
    /// Returns the time of the next turn.
    fn time(&self) -> Option<u64> {
        let (_, changes) = self.next.as_ref()?;
        changes.last().map(|change| change.time)
    }

    /// Reads the next turn that has changes.
    fn advance(&mut self) -> Result<(), Error> {
        while let Some(newest) = self.numbers.before(self.below)? {
            let turn = self.turns.of(newest);
            let mut changes = Vec::new();
            while let Some(seq) = self.numbers.before(self.below)?.filter(|seq| turn.holds(*seq)) {
                self.below = seq;
                let Some(entry) = journal::history_entry(self.state, &self.session, seq)? else { continue };
                let mut light = JournalEntry::new(String::new(), "", &entry.tool, seq, entry.time);
                (light.reverts, light.takes_back) = (entry.reverts.clone(), entry.takes_back.clone());
                self.read.push(light);
                changes.extend(Some(entry).filter(|entry| direction_of(entry).is_none()));
            }
            if !changes.is_empty() {
                changes.reverse();
                self.next = Some((turn, changes));
                break;
            }
        }
        Ok(())
    }
}
