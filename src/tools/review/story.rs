//! The story of a session, built from its snapshots, its journal and the audit log.

use std::collections::{BTreeMap, BTreeSet};

use super::changes::{self, Bytes};
use super::{Refused, Response, ReviewedChange, Totals};
use crate::engine::Engine;
use crate::engine::history::replay::Direction;
use crate::engine::journal::{self, JournalEntry};
use crate::engine::snapshot::{SessionStep, Store};
use crate::engine::store::audit;
use crate::engine::store::session::{self, SessionId};
use crate::engine::store::state::State;
use crate::error::Error;
use crate::text::answer_size::AnswerRoom;
use crate::tools::common::time_text;
use crate::tools::targets::ChosenSession;

/// Number of refused calls that are shown, the newest ones.
const REFUSED_MAX: usize = 1000;
/// Changes that undid a change whole or in part, by its number.
type TakenBack = BTreeMap<u64, (Option<u64>, Vec<u64>)>;

/// The story of a session.
pub struct Story<'a> {
    /// Sources of the bytes.
    bytes: Bytes<'a>,
    /// Session.
    chosen: &'a ChosenSession,
    /// Its snapshots and the developer's, oldest first.
    steps: Vec<SessionStep>,
    /// Its changes without a snapshot, by number.
    unseen: Vec<JournalEntry>,
    /// Its changes in the journal.
    entries: BTreeMap<u64, JournalEntry>,
    /// Changes that were undone.
    taken_back: TakenBack,
    /// Calls that were refused.
    refused: Vec<Refused>,
    /// Files that were read and never changed.
    read: Vec<String>,
}

impl<'a> Story<'a> {
    /// Reads the records of a session.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn load(
        engine: &'a Engine,
        store: &'a Store,
        state: &'a State,
        chosen: &'a ChosenSession,
    ) -> Result<Self, Error> {
        let steps = store.story_of(&chosen.session, chosen.after)?;
        let mut entries = BTreeMap::new();
        for seq in journal::history(state, &chosen.session)?.into_iter().filter(|seq| *seq > chosen.after) {
            engine.control.check()?;
            entries.extend(journal::done_entry(state, &chosen.session, seq)?.map(|entry| (seq, entry)));
        }
        let seen: BTreeSet<u64> = steps.iter().map(|step| step.snapshot.seq).collect();
        let unseen = entries.values().filter(|entry| !seen.contains(&entry.seq)).cloned().collect();
        let taken_back = taken_back(entries.values());
        let read = only_read(state, chosen, &steps, &entries);
        let refused = refused(state, &chosen.session)?;
        let bytes = Bytes { engine, store, state };
        Ok(Self { bytes, chosen, steps, unseen, entries, taken_back, refused, read })
    }

    /// Returns the story from the change `offset` on, as much as fits, and at least one change.
    ///
    /// # Errors
    /// Fails if a version cannot be read.
    pub fn told(&self, offset: usize, mut room: AnswerRoom, diffs: bool) -> Result<Response, Error> {
        let order = self.order();
        let (mut told, mut truncated) = (Vec::new(), false);
        for item in order.iter().skip(offset) {
            self.bytes.engine.control.check()?;
            let mut change = self.change(item, diffs)?;
            if !told.is_empty() && !room.holds(changes::size(&change)) {
                truncated = true;
                break;
            }
            truncated |= changes::cut(&mut change, room);
            room = room.beside(changes::size(&change));
            told.push(change);
        }
        let next = offset + told.len();
        let own = self.steps.iter().filter(|step| !step.snapshot.session.is_empty());
        let seconds = |step: &SessionStep| u64::try_from(step.snapshot.seconds).unwrap_or(0);
        let times = own.map(seconds).chain(self.unseen.iter().map(|entry| entry.time));
        let times: Vec<u64> = times.collect();
        Ok(Response {
            session: self.chosen.session.clone(),
            began: times.iter().min().map(|time| time_text(*time)),
            ended: times.iter().max().map(|time| time_text(*time)),
            totals: self.totals()?,
            changes: told,
            refused: self.refused.clone(),
            read: self.read.clone(),
            html: None,
            truncated,
            next_offset: (next < order.len()).then_some(next),
        })
    }

    /// Returns the changes in the order of the story.
    fn order(&self) -> Vec<StoryItem<'_>> {
        let mut items: Vec<StoryItem<'_>> = self.steps.iter().map(StoryItem::Step).collect();
        for entry in &self.unseen {
            // After its predecessor in the session.
            let before = items.iter().rposition(|item| (1..entry.seq).contains(&item.seq()));
            items.insert(before.map_or(0, |at| at + 1), StoryItem::Unseen(entry));
        }
        items
    }

    /// Returns one change.
    fn change(&self, item: &StoryItem<'_>, diffs: bool) -> Result<ReviewedChange, Error> {
        let entry = self.entries.get(&item.seq());
        let mut change = match item {
            StoryItem::Step(step) => changes::of_step(&self.bytes, step, entry, diffs)?,
            StoryItem::Unseen(entry) => changes::of_entry(&self.bytes, entry, diffs),
        };
        if let Some((whole, parts)) = change.seq.and_then(|seq| self.taken_back.get(&seq)) {
            change.undone_by = *whole;
            change.undone_in_part_by.clone_from(parts);
        }
        Ok(change)
    }

    /// Returns the totals of the session.
    fn totals(&self) -> Result<Totals, Error> {
        let own = self.steps.iter().filter(|step| !step.snapshot.session.is_empty()).count();
        let undone = self.taken_back.values().filter(|(whole, _)| whole.is_some()).count();
        let mut totals = Totals {
            changes: own + self.unseen.len(),
            undone,
            refused: self.refused.len(),
            developer: self.steps.len() - own,
            ..Totals::default()
        };
        let store = self.bytes.store;
        let changed = store.changed_by(&self.chosen.session, self.chosen.after)?;
        let paths = changed.map(|changed| changed.paths).unwrap_or_default();
        for delta in store.deltas(&paths)? {
            let amount = crate::tools::diff::write(store, &delta, false, &mut Vec::new())?;
            totals.files += 1;
            totals.insertions += amount.insertions.unwrap_or(0);
            totals.deletions += amount.deletions.unwrap_or(0);
        }
        Ok(totals)
    }
}

/// A change in the story.
enum StoryItem<'a> {
    /// Change in a snapshot.
    Step(&'a SessionStep),
    /// Change that only the journal has.
    Unseen(&'a JournalEntry),
}

impl StoryItem<'_> {
    /// Returns its number in the session; 0 if it has none.
    fn seq(&self) -> u64 {
        match self {
            Self::Step(step) => step.snapshot.seq,
            Self::Unseen(entry) => entry.seq,
        }
    }
}

/// Returns for the changes of a session which change undid each, and which undid a part of it.
fn taken_back<'a>(entries: impl Iterator<Item = &'a JournalEntry>) -> TakenBack {
    let mut taken = TakenBack::new();
    let mut parts: BTreeMap<u64, &JournalEntry> = BTreeMap::new();
    let mut reverts: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for entry in entries {
        if entry.takes_back.is_some() {
            note_part(&mut taken, entry);
            parts.insert(entry.seq, entry);
            continue;
        }
        // An undo of an undo concerns the change that was undone.
        let about: Vec<u64> = entry
            .reverts
            .iter()
            .flat_map(|seq| reverts.get(seq).cloned().unwrap_or_else(|| vec![*seq]))
            .collect();
        let is_undo = entry.tool == Direction::Undo.name();
        for seq in &about {
            taken.entry(*seq).or_default().0 = is_undo.then_some(entry.seq);
            match parts.get(seq) {
                Some(part) if is_undo => forget_part(&mut taken, part.seq),
                Some(part) => note_part(&mut taken, part),
                None => {}
            }
        }
        if !about.is_empty() {
            reverts.insert(entry.seq, about);
        }
    }
    taken
}

/// Records the parts of earlier changes that a change undoes.
fn note_part(taken: &mut TakenBack, entry: &JournalEntry) {
    let Some(part) = &entry.takes_back else { return };
    if entry.tool != Direction::Undo.name() {
        for seq in part.seq + 1..entry.seq {
            taken.entry(seq).or_default().0 = Some(entry.seq);
        }
    } else if part.hunk.is_some() || !part.paths.is_empty() {
        taken.entry(part.seq).or_default().1.push(entry.seq);
    } else {
        taken.entry(part.seq).or_default().0 = Some(entry.seq);
    }
}

/// Drops the records of a change that was itself undone.
fn forget_part(taken: &mut TakenBack, by: u64) {
    for (whole, parts) in taken.values_mut() {
        whole.take_if(|seq| *seq == by);
        parts.retain(|seq| *seq != by);
    }
}

/// Returns the files that a session read and never changed, as far as they are recorded.
fn only_read(
    state: &State,
    chosen: &ChosenSession,
    steps: &[SessionStep],
    entries: &BTreeMap<u64, JournalEntry>,
) -> Vec<String> {
    let Some(known) = chosen.session.parse::<SessionId>().ok().and_then(|id| session::peek(state, &id))
    else {
        return Vec::new();
    };
    let own = steps.iter().filter(|step| !step.snapshot.session.is_empty());
    let mut changed: BTreeSet<&[u8]> =
        own.flat_map(|step| &step.paths).map(|change| change.path.as_slice()).collect();
    changed.extend(entries.values().flat_map(|entry| &entry.files).map(|file| file.path.as_bytes()));
    let read = known.marks().iter().map(|mark| &mark.path).chain(known.compacted());
    let read: BTreeSet<String> =
        read.filter(|path| !changed.contains(path.as_bytes())).map(ToString::to_string).collect();
    read.into_iter().collect()
}

/// Returns the refused calls of a session, oldest first.
fn refused(state: &State, session: &str) -> Result<Vec<Refused>, Error> {
    let (mut records, _) =
        audit::read(state, &mut |record| record.session == session && record.outcome != "ok")?;
    records.drain(..records.len().saturating_sub(REFUSED_MAX));
    let refused = records.into_iter().map(|record| Refused {
        time: record.time,
        tool: record.tool,
        path: record.files.into_iter().next().map(|file| file.path),
        kind: record.outcome,
        message: record.message.unwrap_or_default(),
    });
    Ok(refused.collect())
}
