//! One change in a review: its files, their diffs, and the commands that undo them.

use super::{File, ReviewedChange};
use crate::engine::Engine;
use crate::engine::change::gate::quoted;
use crate::engine::journal::{FileEntry, JournalEntry, Version};
use crate::engine::snapshot::{Delta, SessionStep, Store};
use crate::engine::store::state::State;
use crate::error::Error;
use crate::sha256::Sha256;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::diff::{self, Amount, FileDiff, Side};
use crate::tools::common::time_text;
use crate::tools::diff::{Action, FileStat, with_bytes};

/// Bytes of a change in a response, without its texts.
const CHANGE_BYTES: usize = 200;
/// Bytes of a file in a response, without its texts.
const FILE_BYTES: usize = 160;
/// Largest diff of one file that is shown, in bytes.
const DIFF_BYTES_MAX: usize = 1 << 20;
/// Modes in git's form.
const MODES: [&str; 3] = ["100644", "100755", "120000"];
/// Placeholder for the id of a content that no snapshot has.
const NO_ID: &str = "0000000000";

/// Sources of the bytes in a review.
pub struct Bytes<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// Snapshots.
    pub store: &'a Store,
    /// State, which has the backups.
    pub state: &'a State,
}

/// Returns a change from a snapshot; `entry` is its journal entry.
///
/// # Errors
/// Fails if a version cannot be read.
pub fn of_step(
    bytes: &Bytes<'_>,
    step: &SessionStep,
    entry: Option<&JournalEntry>,
    diffs: bool,
) -> Result<ReviewedChange, Error> {
    let snapshot = &step.snapshot;
    let is_own = !snapshot.session.is_empty();
    let undo = entry.filter(|_| is_own).map(|entry| command(&snapshot.session, entry.seq));
    let deltas = bytes.store.deltas(&step.paths)?;
    let mut files = Vec::new();
    for delta in &deltas {
        bytes.engine.control.check()?;
        files.push(of_delta(bytes, delta, entry, undo.as_deref(), diffs)?);
    }
    Ok(ReviewedChange {
        by: if is_own { "session" } else { "developer" },
        seq: Some(snapshot.seq).filter(|seq| is_own && *seq > 0),
        tool: snapshot.tool.clone(),
        time: time_text(u64::try_from(snapshot.seconds).unwrap_or(0)),
        subject: snapshot.subject.clone(),
        why: snapshot.why.clone(),
        gate: snapshot.gate.clone(),
        snapshot: Some(snapshot.id.clone()),
        undo,
        files,
        ..ReviewedChange::default()
    })
}

/// Returns a change that only the journal has, such as one of ignored files.
pub fn of_entry(bytes: &Bytes<'_>, entry: &JournalEntry, diffs: bool) -> ReviewedChange {
    let undo = command(&entry.session, entry.seq);
    let files = entry.files.iter().map(|file| of_file(bytes, file, &undo, diffs));
    let moves = entry.moves.iter().map(|moved| {
        let (path, from) = (moved.to.to_string(), Some(moved.from.to_string()));
        File {
            stat: FileStat { path, from, action: Action::Rename, ..FileStat::default() },
            ..File::default()
        }
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
    bytes: &Bytes<'_>,
    delta: &Delta,
    entry: Option<&JournalEntry>,
    undo: Option<&str>,
    diffs: bool,
) -> Result<File, Error> {
    let path = delta.path();
    let known = entry.and_then(|entry| entry.files.iter().find(|file| file.path.as_bytes() == path));
    let read = |version, is_later: bool| {
        let stored = bytes.store.content_to_compare(version)?;
        let on_disk =
            known.and_then(|file| if is_later { file.after.as_ref() } else { file.before.as_ref() });
        Ok(bytes.on_disk(known, on_disk, stored))
    };
    let name = std::str::from_utf8(path).ok();
    with_bytes(delta, read, |diff| {
        let both = diff.old.zip(diff.new);
        let has_hunks =
            both.is_some_and(|(old, new)| diff::has_hunks(old.bytes, new.bytes) && old.bytes != new.bytes);
        let (amount, text) = shown(&diff, diffs);
        let stat = FileStat::of(delta, amount);
        let by_hunk = stat.action == Action::Modify && has_hunks && known.is_some();
        File {
            by_hunk: by_hunk && undo.is_some() && name.is_some(),
            undo: undo.zip(name).map(|(undo, name)| with_path(undo, name)),
            diff: text,
            stat,
        }
    })
}

/// Returns one file from the journal.
fn of_file(bytes: &Bytes<'_>, file: &FileEntry, undo: &str, diffs: bool) -> File {
    let read = |version: Option<&Version>| {
        version.map(|version| {
            let found = bytes.engine.find_version(bytes.state, &file.path, version.sha256);
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
    let action = match (&before, &after) {
        (None, _) => Action::Create,
        (_, None) => Action::Delete,
        _ => Action::Modify,
    };
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
    let (Amount { insertions, deletions }, text) = shown(&diff, diffs && !lost);
    File {
        stat: FileStat { path: file.path.to_string(), from: None, action, insertions, deletions },
        undo: name.map(|name| with_path(undo, name)),
        by_hunk: action == Action::Modify && !lost && name.is_some(),
        diff: text,
    }
}

/// Returns one side of a diff from the journal.
fn side<'a>(side: Option<&'a (&'static str, Option<Vec<u8>>)>, path: &'a [u8]) -> Option<Side<'a>> {
    side.map(|(mode, bytes)| Side { path, mode, id: NO_ID, bytes: bytes.as_deref().unwrap_or_default() })
}

/// Returns the size of a diff, and its text if it is wanted.
fn shown(diff: &FileDiff<'_>, wanted: bool) -> (Amount, Option<String>) {
    let mut out = Vec::new();
    let amount = diff.write(&mut out);
    let text = wanted.then(|| {
        let mut text = String::from_utf8_lossy(&out).into_owned();
        cut_text(&mut text, AnswerRoom::new(DIFF_BYTES_MAX));
        text
    });
    (amount, text)
}

/// Returns the command that undoes one file of a change.
fn with_path(undo: &str, path: &str) -> String {
    format!("{undo} --path {}", quoted(path))
}

impl Bytes<'_> {
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

/// Returns the approximate size of a change without its diffs.
fn size_without_diffs(change: &ReviewedChange) -> TextSize {
    let texts = [Some(&change.subject), change.why.as_ref(), change.undo.as_ref()];
    let of_file = |file: &File| {
        let texts = [Some(&file.stat.path), file.stat.from.as_ref(), file.undo.as_ref()];
        texts.into_iter().flatten().fold(TextSize::plain(FILE_BYTES), |size, text| size.with(text))
    };
    let said = texts.into_iter().flatten().fold(TextSize::plain(CHANGE_BYTES), |size, text| size.with(text));
    change.files.iter().map(of_file).fold(said, TextSize::and)
}

/// Returns the approximate size of a change in a response.
pub fn size(change: &ReviewedChange) -> TextSize {
    let diffs = change.files.iter().filter_map(|file| file.diff.as_ref());
    diffs.fold(size_without_diffs(change), |size, diff| size.with(diff))
}

/// Cuts the diffs of a change to the room; returns true if any was cut.
pub fn cut(change: &mut ReviewedChange, room: AnswerRoom) -> bool {
    let mut size = size_without_diffs(change);
    let mut is_cut = false;
    for diff in change.files.iter_mut().filter_map(|file| file.diff.as_mut()) {
        is_cut |= cut_text(diff, room.beside(size));
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
