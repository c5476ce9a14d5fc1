//! The story of a session, built from its snapshots, its journal and the audit log: its changes, with their diffs and
//! the commands that undo them.

use std::collections::{BTreeMap, BTreeSet};

use super::{RefusedCall, Response, ReviewedChange, ReviewedFile, ReviewedTurn, Totals};
use crate::engine::Engine;
use crate::engine::change::gate::quoted;
use crate::engine::change::record;
use crate::engine::history::account::ChangesAccount;
use crate::engine::history::client_calls::{Turn, Turns};
use crate::engine::history::replay::Direction;
use crate::engine::journal::ChangeNumbers;
use crate::engine::journal::{self, FileEntry, JournalEntry, Version};
use crate::engine::snapshot::{Delta, SessionAccount, SessionStep, Snapshot, Store, StoryLine, StoryOrigin};
use crate::engine::store::audit;
use crate::engine::store::session::{self, SessionId};
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::is_state;
use crate::error::Error;
use crate::limits::REVIEW_DIFF_BYTES_MAX;
use crate::sha256::Sha256;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::diff::{self, DiffSide, DiffSize, FileDiff};
use crate::tools::common::time_text;
use crate::tools::diff::{Action, FileStat, with_bytes};
use crate::tools::session::net_size;
use crate::tools::targets::ChosenSession;

/// Number of refused calls that are shown, the newest ones.
const REFUSED_MAX: usize = 1000;
/// Changes that undid a change whole or in part, by its number.
pub type UndoneChanges = BTreeMap<u64, (Option<u64>, Vec<u64>)>;

/// The story of a session.
pub struct Story<'a> {
    /// Sources of the bytes.
    bytes: ByteSources<'a>,
    /// Snapshots, if there are any.
    store: Option<&'a Store>,
    /// Session.
    chosen: &'a ChosenSession,
    /// Its snapshots and the developer's.
    account: SessionAccount,
    /// Its changes without a snapshot, by number.
    unseen: Vec<JournalEntry>,
    /// Changes that were undone.
    taken_back: UndoneChanges,
    /// Its turns.
    turns: Turns,
    /// Calls that were refused.
    refused: Vec<RefusedCall>,
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
        store: Option<&'a Store>,
        state: &'a State,
        chosen: &'a ChosenSession,
    ) -> Result<Self, Error> {
        let account = store
            .map(|store| store.account_of(&record::changes_after(engine, &chosen.session, chosen.after)))
            .transpose()?;
        let account = account.unwrap_or_default();
        let seen: BTreeMap<u64, StoryOrigin> =
            account.session_snapshots().map(|line| (line.seq, line.by)).collect();
        // The others take back nothing, and their snapshots say what they changed.
        let mut entries = Vec::new();
        for seq in ChangeNumbers::of(state, &chosen.session)?.since(chosen.after + 1)? {
            if seen.get(&seq) != Some(&StoryOrigin::Session) {
                engine.control.check()?;
                entries.extend(journal::history_entry(state, &chosen.session, seq)?);
            }
        }
        let taken_back = undone_by(entries.iter());
        let unseen: Vec<JournalEntry> =
            entries.into_iter().filter(|entry| !seen.contains_key(&entry.seq)).collect();
        let changes = ChangesAccount::of(state, &chosen.session, chosen.after + 1, &engine.control)?;
        let read = only_read(state, chosen, &account, &changes);
        let refused = refused(state, &chosen.session)?;
        let turns = Turns::load(state, &chosen.session)?;
        let bytes = ByteSources { engine, state };
        Ok(Self { bytes, store, chosen, account, unseen, taken_back, turns, refused, read })
    }

    /// Returns the story from the change `offset` on, as much as fits, and at least one change.
    ///
    /// # Errors
    /// Fails if a version cannot be read.
    pub fn story_from(&self, offset: usize, mut room: AnswerRoom, diffs: bool) -> Result<Response, Error> {
        let order = self.ordered_changes();
        let (mut told, mut truncated) = (Vec::new(), false);
        for item in order.iter().skip(offset) {
            self.bytes.engine.control.check()?;
            let mut change = self.change(item, diffs)?;
            if !told.is_empty() && !room.holds(size(&change)) {
                truncated = true;
                break;
            }
            truncated |= cut(&mut change, room);
            room = room.room_after(size(&change));
            told.push(change);
        }
        let next = offset + told.len();
        let turns = self.turns_of(&told);
        let said =
            |texts: &[&str]| texts.iter().fold(TextSize::plain(REFUSED_BYTES), |size, text| size.with(text));
        room = turns
            .iter()
            .fold(room, |room, turn| room.room_after(said(&[turn.undo.as_deref().unwrap_or_default()])));
        // The newest ones, since the count of all is among the totals.
        let mut refused = fitting_in(&mut room, self.refused.iter().rev(), |refused| {
            said(&[&refused.message, refused.path.as_deref().unwrap_or_default()])
        });
        refused.reverse();
        let read = fitting_in(&mut room, self.read.iter(), |path| TextSize::of(path.as_bytes()));
        truncated |= refused.len() < self.refused.len() || read.len() < self.read.len();
        let seconds = |line: &StoryLine| u64::try_from(line.seconds).unwrap_or(0);
        let times =
            self.account.session_snapshots().map(seconds).chain(self.unseen.iter().map(|entry| entry.time));
        let times: Vec<u64> = times.collect();
        Ok(Response {
            session: self.chosen.session.clone(),
            began: times.iter().min().map(|time| time_text(*time)),
            ended: times.iter().max().map(|time| time_text(*time)),
            totals: self.totals()?,
            turns,
            changes: told,
            refused,
            read,
            html: None,
            truncated,
            next_offset: (next < order.len()).then_some(next),
        })
    }

    /// Returns the changes in the order of the story.
    fn ordered_changes(&self) -> Vec<StoryItem<'_>> {
        let steps = self
            .store
            .iter()
            .flat_map(|store| self.account.story.iter().map(|line| StoryItem::Step(line, store)));
        let mut items: Vec<StoryItem<'_>> = steps.collect();
        for entry in &self.unseen {
            // After its predecessor in the session.
            let before = items.iter().rposition(|item| (1..entry.seq).contains(&item.seq()));
            items.insert(before.map_or(0, |at| at + 1), StoryItem::Unseen(entry));
        }
        items
    }

    /// Returns one change.
    fn change(&self, item: &StoryItem<'_>, diffs: bool) -> Result<ReviewedChange, Error> {
        let mut change = match item {
            StoryItem::Step(line, store) => {
                let session = &self.chosen.session;
                let entry = if line.seq > 0 {
                    journal::history_entry(self.bytes.state, session, line.seq)?
                } else {
                    None
                };
                of_step((self.bytes, store), &store.step_at(line)?, entry.as_ref(), diffs)?
            }
            StoryItem::Unseen(entry) => of_entry(self.bytes, entry, diffs),
        };
        if let Some((whole, parts)) = change.seq.and_then(|seq| self.taken_back.get(&seq)) {
            change.undone_by = *whole;
            if whole.is_some() {
                change.drop_undo();
            }
            change.undone_in_part_by.clone_from(parts);
        }
        let turn = change.seq.map(|seq| self.turns.of(seq)).filter(Turn::is_of_client);
        change.turn = turn.map(|turn| turn.first);
        Ok(change)
    }

    /// Returns the turns of some changes.
    fn turns_of(&self, changes: &[ReviewedChange]) -> Vec<ReviewedTurn> {
        let firsts: BTreeSet<u64> = changes.iter().filter_map(|change| change.turn).collect();
        let session = &self.chosen.session;
        let made = self.account.story.iter().filter(|line| line.by == StoryOrigin::Session);
        let made: Vec<u64> =
            made.map(|line| line.seq).chain(self.unseen.iter().map(|entry| entry.seq)).collect();
        let is_left = |seq: u64| self.taken_back.get(&seq).is_none_or(|(whole, _)| whole.is_none());
        let turn = |turn| {
            let known = self.turns.of(turn);
            let has_any = made.iter().any(|seq| known.holds(*seq) && is_left(*seq));
            let undo = has_any.then(|| format!("lbx undo --session {session} --turn {turn}"));
            ReviewedTurn { turn, title: known.title, undo }
        };
        firsts.into_iter().map(turn).collect()
    }

    /// Returns the totals of the session.
    fn totals(&self) -> Result<Totals, Error> {
        let own = self.account.session_snapshots().count();
        let undone = self.taken_back.values().filter(|(whole, _)| whole.is_some()).count();
        let mut totals = Totals {
            changes: own + self.unseen.len(),
            undone,
            refused: self.refused.len(),
            developer: self.account.story.len() - own,
            ..Totals::default()
        };
        if let Some(store) = self.store {
            for delta in store.deltas(&store.net_of(&self.account)?)? {
                let amount = crate::tools::diff::write(store, &delta, false, &mut Vec::new())?;
                totals.files += 1;
                totals.insertions += amount.insertions.unwrap_or(0);
                totals.deletions += amount.deletions.unwrap_or(0);
            }
        }
        let ByteSources { engine, state } = self.bytes;
        let (files, lines) = net_size(engine, state, &self.changes_without_snapshot(), usize::MAX)?;
        totals.files += files;
        totals.insertions += usize::try_from(lines.added).unwrap_or(usize::MAX);
        totals.deletions += usize::try_from(lines.removed).unwrap_or(usize::MAX);
        Ok(totals)
    }

    /// Returns the changes without a snapshot, reduced to the paths that no other one has.
    fn changes_without_snapshot(&self) -> Vec<JournalEntry> {
        let mut entries = self.unseen.clone();
        let is_alone = |path: &WorkspacePath| !self.account.has_touched(path.as_bytes());
        for entry in &mut entries {
            entry.files.retain(|file| is_alone(&file.path));
            entry.found_done.retain(|file| is_alone(&file.path));
            entry.moves.retain(|moved| is_alone(&moved.from) && is_alone(&moved.to));
        }
        entries
    }
}

/// A change in the story.
enum StoryItem<'a> {
    /// Change in a snapshot.
    Step(&'a StoryLine, &'a Store),
    /// Change that only the journal has.
    Unseen(&'a JournalEntry),
}

impl StoryItem<'_> {
    /// Returns its number in the session; 0 if it has none.
    fn seq(&self) -> u64 {
        match self {
            Self::Step(line, _) => line.seq,
            Self::Unseen(entry) => entry.seq,
        }
    }
}

/// Returns for the changes of a session, oldest first, which change undid each, and which undid a part of it.
pub fn undone_by<'a>(entries: impl Iterator<Item = &'a JournalEntry>) -> UndoneChanges {
    let mut taken = UndoneChanges::new();
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
fn note_part(taken: &mut UndoneChanges, entry: &JournalEntry) {
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
fn forget_part(taken: &mut UndoneChanges, by: u64) {
    for (whole, parts) in taken.values_mut() {
        whole.take_if(|seq| *seq == by);
        parts.retain(|seq| *seq != by);
    }
}

/// Returns the files that a session read and never changed, as far as they are recorded.
fn only_read(
    state: &State,
    chosen: &ChosenSession,
    account: &SessionAccount,
    changes: &ChangesAccount,
) -> Vec<String> {
    let Some(known) =
        chosen.session.parse::<SessionId>().ok().and_then(|id| session::load_for_display(state, &id))
    else {
        return Vec::new();
    };
    let is_changed = |path: &WorkspacePath| account.has_touched(path.as_bytes()) || changes.has_touched(path);
    let marks = known.marks();
    let read = marks.iter().map(|mark| &mark.path).chain(known.compacted());
    let read: BTreeSet<String> = read.filter(|path| !is_changed(path)).map(ToString::to_string).collect();
    read.into_iter().collect()
}

/// Returns the refused calls of a session, oldest first.
fn refused(state: &State, session: &str) -> Result<Vec<RefusedCall>, Error> {
    let mut records = audit::refused(state, session)?;
    records.drain(..records.len().saturating_sub(REFUSED_MAX));
    let refused = records.into_iter().map(|record| RefusedCall {
        time: record.time,
        tool: record.tool,
        path: record.files.into_iter().next().map(|file| file.path),
        kind: record.outcome,
        message: record.message.unwrap_or_default(),
    });
    Ok(refused.collect())
}

/// Bytes of a change in a response, without its texts.
const CHANGE_BYTES: usize = 200;
/// Bytes of a file in a response, without its texts.
const FILE_BYTES: usize = 160;
/// Bytes of a refused call, or of a turn, in a response, without its texts.
const REFUSED_BYTES: usize = 120;
/// Modes in git's form.
const MODES: [&str; 3] = ["100644", "100755", "120000"];
/// Placeholder for the id of a content that no snapshot has.
const NO_ID: &str = "0000000000";

/// Sources of the bytes in a review.
#[derive(Clone, Copy)]
struct ByteSources<'a> {
    /// The engine.
    engine: &'a Engine,
    /// State, which has the backups.
    state: &'a State,
}

/// Returns a change from a snapshot; `entry` is its journal entry.
///
/// # Errors
/// Fails if a version cannot be read.
fn of_step(
    (bytes, store): (ByteSources<'_>, &Store),
    step: &SessionStep,
    entry: Option<&JournalEntry>,
    diffs: bool,
) -> Result<ReviewedChange, Error> {
    let snapshot = &step.snapshot;
    let is_own = !snapshot.session.is_empty();
    let undo = entry.filter(|_| is_own).map(|entry| command(&snapshot.session, entry.seq));
    let deltas = store.deltas(&step.paths)?;
    let mut files = Vec::new();
    for delta in &deltas {
        bytes.engine.control.check()?;
        files.push(of_delta((bytes, store), delta, entry, undo.as_deref(), diffs)?);
    }
    Ok(ReviewedChange {
        by: if is_own { "session" } else { "developer" },
        seq: Some(snapshot.seq).filter(|seq| is_own && *seq > 0),
        tool: snapshot.tool.clone(),
        time: time_text(snapshot.seconds),
        subject: whole_subject(snapshot, &files),
        why: snapshot.why.clone(),
        gate: snapshot.gate.clone(),
        snapshot: Some(snapshot.id.clone()),
        undo,
        files,
        ..ReviewedChange::default()
    })
}

/// Returns the subject of a snapshot; if a long path in it was cut, with the whole path.
fn whole_subject(snapshot: &Snapshot, files: &[ReviewedFile]) -> String {
    let whole = match (files, snapshot.subject.strip_suffix('…')) {
        ([only], Some(start)) => {
            Some(format!("{}: {}", snapshot.tool, only.stat.path)).filter(|whole| whole.starts_with(start))
        }
        _ => None,
    };
    whole.unwrap_or_else(|| snapshot.subject.clone())
}

/// Returns a change that only the journal has, such as one of ignored files.
fn of_entry(bytes: ByteSources<'_>, entry: &JournalEntry, diffs: bool) -> ReviewedChange {
    let undo = command(&entry.session, entry.seq);
    let files = entry.files.iter().map(|file| of_file(bytes, file, &undo, diffs));
    let moves = entry.moves.iter().map(|moved| {
        // The trash is lbx's own: what moves there is deleted, and what comes from there restored.
        let (path, from, action) = match (is_state(&moved.from), is_state(&moved.to)) {
            (true, _) => (&moved.to, None, Action::Create),
            (_, true) => (&moved.from, None, Action::Delete),
            _ => (&moved.to, Some(moved.from.to_string()), Action::Rename),
        };
        let stat = FileStat { path: path.to_string(), from, action, ..FileStat::default() };
        ReviewedFile { stat, ..ReviewedFile::default() }
    });
    ReviewedChange {
        by: "session",
        seq: Some(entry.seq),
        tool: entry.tool.clone(),
        time: time_text(entry.time),
        subject: entry.subject.clone(),
        why: entry.why.clone(),
        gate: entry.gate.clone(),
        undo: Some(undo.clone()),
        files: files.chain(moves).collect(),
        ..ReviewedChange::default()
    }
}

/// Returns the command that undoes a change.
fn command(session: &str, seq: u64) -> String {
    format!("lbx undo --session {session} --seq {seq}")
}

/// Returns one file from the snapshots.
fn of_delta(
    (bytes, store): (ByteSources<'_>, &Store),
    delta: &Delta,
    entry: Option<&JournalEntry>,
    undo: Option<&str>,
    diffs: bool,
) -> Result<ReviewedFile, Error> {
    let path = delta.path();
    let known = entry.and_then(|entry| entry.files.iter().find(|file| file.path.as_bytes() == path));
    let read = |version, is_later: bool| {
        let stored = store.content_to_compare(version)?;
        let on_disk =
            known.and_then(|file| if is_later { file.after.as_ref() } else { file.before.as_ref() });
        Ok(bytes.on_disk(known, on_disk, stored))
    };
    let name = std::str::from_utf8(path).ok();
    with_bytes(delta, read, |diff| {
        let both = diff.old.zip(diff.new);
        let has_hunks =
            both.is_some_and(|(old, new)| diff::has_hunks(old.bytes, new.bytes) && old.bytes != new.bytes);
        let (amount, text) = diff_text(&diff, diffs);
        let stat = FileStat::of(delta, amount);
        let by_hunk = stat.action == Action::Modify && has_hunks && known.is_some();
        ReviewedFile {
            by_hunk: by_hunk && undo.is_some() && name.is_some(),
            undo: undo.zip(name).map(|(undo, name)| with_path(undo, name)),
            diff: text,
            stat,
        }
    })
}

/// Returns one file from the journal.
fn of_file(bytes: ByteSources<'_>, file: &FileEntry, undo: &str, diffs: bool) -> ReviewedFile {
    let read = |version: Option<&Version>| {
        version.map(|version| {
            let found = bytes.engine.version_at(bytes.state, &file.path, version);
            let [plain, executable, link] = MODES;
            let mode = match version.mode {
                mode if crate::engine::workspace::fs::is_symlink_mode(mode) => link,
                mode if mode & 0o100 != 0 => executable,
                _ => plain,
            };
            (mode, found)
        })
    };
    let (before, after) = (read(file.before.as_ref()), read(file.after.as_ref()));
    let action = Action::of(before.is_some(), after.is_some(), false);
    // Without the bytes of both sides there is no diff.
    let is_lost =
        |side: &Option<(&str, Option<Vec<u8>>)>| side.as_ref().is_some_and(|(_, bytes)| bytes.is_none());
    let lost = is_lost(&before) || is_lost(&after);
    let path = file.path.as_bytes();
    let diff = FileDiff {
        old: side(before.as_ref(), path),
        new: side(after.as_ref(), path),
        similarity: None,
        binary: false,
    };
    let name = file.path.as_path().to_str();
    let (DiffSize { insertions, deletions }, text) = diff_text(&diff, diffs && !lost);
    ReviewedFile {
        stat: FileStat { path: file.path.to_string(), from: None, action, insertions, deletions },
        undo: name.map(|name| with_path(undo, name)),
        by_hunk: action == Action::Modify && !lost && name.is_some(),
        diff: text,
    }
}

/// Returns one side of a diff from the journal.
fn side<'a>(side: Option<&'a (&'static str, Option<Vec<u8>>)>, path: &'a [u8]) -> Option<DiffSide<'a>> {
    side.map(|(mode, bytes)| DiffSide { path, mode, id: NO_ID, bytes: bytes.as_deref().unwrap_or_default() })
}

/// Returns the size of a diff, and its text if it is wanted.
fn diff_text(diff: &FileDiff<'_>, wanted: bool) -> (DiffSize, Option<String>) {
    let mut out = Vec::new();
    let amount = diff.write(&mut out);
    let text = wanted.then(|| {
        let mut text = String::from_utf8_lossy(&out).into_owned();
        cut_text(&mut text, AnswerRoom::new(REVIEW_DIFF_BYTES_MAX));
        text
    });
    (amount, text)
}

/// Returns the command that undoes one file of a change.
fn with_path(undo: &str, path: &str) -> String {
    format!("{undo} --path {}", quoted(path))
}

impl ByteSources<'_> {
    /// Returns the bytes of a version as they were on disk, if a snapshot stores other bytes and these are known: a
    /// hunk then has the number that `undo` counts.
    fn on_disk(&self, file: Option<&FileEntry>, version: Option<&Version>, stored: Vec<u8>) -> Vec<u8> {
        match (file, version) {
            (Some(file), Some(version)) if Sha256::of(&stored) != version.sha256 => {
                self.engine.find_version(self.state, &file.path, version.sha256).unwrap_or(stored)
            }
            _ => stored,
        }
    }
}

/// Returns the approximate size of a change without its files.
fn size_without_files(change: &ReviewedChange) -> TextSize {
    let texts = [Some(&change.subject), change.why.as_ref(), change.undo.as_ref()];
    texts.into_iter().flatten().fold(TextSize::plain(CHANGE_BYTES), |size, text| size.with(text))
}

/// Returns the approximate size of a file of a change without its diff.
fn size_of_file(file: &ReviewedFile) -> TextSize {
    let texts = [Some(&file.stat.path), file.stat.from.as_ref(), file.undo.as_ref()];
    texts.into_iter().flatten().fold(TextSize::plain(FILE_BYTES), |size, text| size.with(text))
}

/// Returns the approximate size of a change in a response.
fn size(change: &ReviewedChange) -> TextSize {
    let of_file = |file: &ReviewedFile| {
        let size = size_of_file(file);
        file.diff.iter().fold(size, |size, diff| size.with(diff))
    };
    change.files.iter().map(of_file).fold(size_without_files(change), TextSize::and)
}

/// Returns the first items that fit into the room, and takes it from there.
fn fitting_in<'a, T: Clone + 'a>(
    room: &mut AnswerRoom,
    items: impl Iterator<Item = &'a T>,
    size: impl Fn(&T) -> TextSize,
) -> Vec<T> {
    let fits = |item: &&T| {
        let size = size(item);
        let fits = room.holds(size);
        *room = room.room_after(size);
        fits
    };
    items.take_while(fits).cloned().collect()
}

/// Cuts the files of a change, and then their diffs, to the room; returns true if any was cut.
fn cut(change: &mut ReviewedChange, room: AnswerRoom) -> bool {
    let mut size = size_without_files(change);
    let fits = |file: &&ReviewedFile| {
        size = size.and(size_of_file(file));
        room.holds(size)
    };
    let kept = change.files.iter().take_while(fits).count().max(1);
    let mut is_cut = kept < change.files.len();
    if is_cut {
        change.files_total = Some(change.files.len());
        change.files.truncate(kept);
    }
    let mut size = change.files.iter().map(size_of_file).fold(size_without_files(change), TextSize::and);
    for diff in change.files.iter_mut().filter_map(|file| file.diff.as_mut()) {
        is_cut |= cut_text(diff, room.room_after(size));
        size = size.with(diff);
    }
    is_cut
}

/// Cuts a diff to the whole lines that fit, and adds a note; returns true if it was cut.
fn cut_text(diff: &mut String, room: AnswerRoom) -> bool {
    if room.holds(TextSize::of(diff.as_bytes())) {
        return false;
    }
    let head = diff.as_bytes().get(..room.start_of(diff.as_bytes())).unwrap_or_default();
    let end = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    diff.truncate(end);
    diff.push_str("... more was left out\n");
    true
}
