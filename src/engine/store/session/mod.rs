//! Session state: a mark for each file that the session has read, with the SHA-256 of the bytes.
//!
//! A session is one state file, `.lbx/ID/sessions/NAME.lbx`. Readers never lock it; a writer holds the session's lock,
//! reads the newest state, and appends the next one or replaces the file atomically. A state has the newest marks
//! itself; older ones are in a tree in the same file, from which a call reads what it needs. Keeps fields that this
//! version does not know. A damaged file is renamed, with a warning, and never trusted.

mod file;
mod read_record;
mod read_tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::str::FromStr;
use std::sync::Arc;

use read_tree::{DamagedBlock, ReadTree, RecordChanges, TreeRoot};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::control::seconds_now;
use crate::engine::store::{version_of, written_by_newer};
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::limits::STATE_RECORDS_MAX;
use crate::sha256::Sha256;
use crate::text::escaped::short_path;
pub use file::{
    FOLDER, KnownSession, SHOWN_FOLDER, TURNS_FOLDER, find_shown, forget_shown, is_in_use, keep_shown, list,
    load, load_for_display, load_unchanged, update,
};
pub use read_record::{LineNumbers, LineSet, ReadRecord};

/// Most characters of a session id.
const ID_CHARACTERS_MAX: usize = 100;

/// Id of a session: 1 to 100 of `A-Za-z0-9._-`, not beginning with a dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SessionId {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl FromStr for SessionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if (1..=ID_CHARACTERS_MAX).contains(&text.len())
            && text.bytes().all(is_allowed)
            && !text.starts_with('.')
        {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::invalid(format!(
            "session id {:?}: expected 1 to {ID_CHARACTERS_MAX} of A-Z a-z 0-9 . _ -, not beginning with a dot",
            short_path(text)
        ))
        .suggest("Give another session, such as agent-1."))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Largest number of a change: lbx writes no larger ones.
pub const SEQ_MAX: u64 = 1 << 48;
/// Newest version of a state that this code reads.
const VERSION: u32 = 2;
/// Version of a state that holds all its marks: the first one.
const VERSION_WHOLE: u32 = 1;
/// Start of each line of a block, which no state begins with.
const BLOCK_START: &[u8] = b"{\"path\":";
/// Most paths that are remembered after a compaction.
const COMPACTED_MAX: usize = 1000;
/// Most digests of bytes that stay out of snapshots.
pub const WITHHELD_MAX: usize = 1000;
/// Most changes whose request is remembered here.
const RECENT_MAX: usize = 24;
/// Number of marks up to which each is inserted by itself.
const SET_ONE_BY_ONE: usize = 16;

/// Content of a state file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionState {
    /// Version of the format.
    version: u32,
    /// Number of the session's last change; 0 before the first.
    #[serde(default)]
    pub seq: u64,
    /// Newest read records, by path: all of them, or those that the tree does not have yet.
    #[serde(default)]
    marks: Vec<ReadRecord>,
    /// Paths whose records in the tree no longer count.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    forgotten: BTreeSet<WorkspacePath>,
    /// Root of the tree of the other read records, which is in the file too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored: Option<TreeRoot>,
    /// That tree.
    #[serde(skip)]
    tree: Option<Arc<ReadTree>>,
    /// Last changes, so that a repeated request is recognized without reading the journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recent: Vec<SessionChange>,
    /// Paths seen before its context was compacted.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    compacted: BTreeSet<WorkspacePath>,
    /// Digests of bytes that stay out of snapshots, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<Sha256>,
    /// End of an earlier session of this name, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<SessionEnd>,
    /// True if nothing has been read or changed since then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ended: bool,
    /// True if it has lost marks since it was read from its file: its earlier states there must never count again.
    #[serde(skip)]
    forgets: bool,
    /// Fields of a newer version.
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// A change that the session made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct SessionChange {
    /// Number of the change.
    seq: u64,
    /// Digest of its request, if kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<Sha256>,
}

/// The end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// Number of the last change.
    pub seq: u64,
    /// Time, in seconds since 1970.
    pub time: u64,
}

impl Default for SessionState {
    fn default() -> Self {
        Self {
            version: VERSION_WHOLE,
            seq: 0,
            marks: Vec::new(),
            forgotten: BTreeSet::new(),
            stored: None,
            tree: None,
            recent: Vec::new(),
            compacted: BTreeSet::new(),
            withheld: Vec::new(),
            after: None,
            ended: false,
            forgets: false,
            other: Map::new(),
        }
    }
}

impl SessionState {
    /// Returns the read record of `path`.
    pub fn mark(&self, path: &WorkspacePath) -> Option<ReadRecord> {
        match self.held(path) {
            Ok(at) => self.marks.get(at).cloned(),
            Err(_) if self.forgotten.contains(path) => None,
            Err(_) => self.tree.as_ref()?.find(path),
        }
    }

    /// Returns the index of a mark that the state holds itself, or the one that it would have.
    fn held(&self, path: &WorkspacePath) -> Result<usize, usize> {
        self.marks.binary_search_by(|mark| mark.path.cmp(path))
    }

    /// Returns all marks, by path.
    pub fn marks(&self) -> Vec<ReadRecord> {
        let Some(tree) = &self.tree else { return self.marks.clone() };
        let stored = tree.all().into_iter().filter(|mark| !self.forgotten.contains(&mark.path));
        let all = stored.chain(self.marks.iter().cloned()).map(|mark| (mark.path.clone(), mark));
        all.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// Returns the number of marks.
    pub fn marks_total(&self) -> usize {
        let Some(tree) = &self.tree else { return self.marks.len() };
        let is_stored = |path: &&WorkspacePath| tree.find(path).is_some();
        let replaced = self.marks.iter().map(|mark| &mark.path).chain(&self.forgotten).filter(is_stored);
        (tree.len() + self.marks.len()).saturating_sub(replaced.count())
    }

    /// Sets the mark for its path.
    pub fn set_mark(&mut self, mark: ReadRecord) {
        self.forgotten.remove(&mark.path);
        match self.held(&mark.path) {
            Ok(at) => {
                if let Some(known) = self.marks.get_mut(at) {
                    *known = mark;
                }
            }
            Err(at) => self.marks.insert(at, mark),
        }
    }

    /// Removes marks of paths, then sets marks: efficient for many.
    pub fn exchange_marks(&mut self, forgotten: &[WorkspacePath], set: Vec<ReadRecord>) {
        if !forgotten.is_empty() {
            let gone: BTreeSet<&WorkspacePath> = forgotten.iter().collect();
            self.marks.retain(|mark| !gone.contains(&mark.path));
            if self.tree.is_some() {
                self.forgotten.extend(forgotten.iter().cloned());
            }
        }
        if set.len() <= SET_ONE_BY_ONE {
            set.into_iter().for_each(|mark| self.set_mark(mark));
            return;
        }
        let mut all: BTreeMap<WorkspacePath, ReadRecord> =
            std::mem::take(&mut self.marks).into_iter().map(|mark| (mark.path.clone(), mark)).collect();
        all.extend(set.into_iter().map(|mark| (mark.path.clone(), mark)));
        self.forgotten.retain(|path| !all.contains_key(path));
        self.marks = all.into_values().collect();
    }

    /// Opens the tree of its other marks, in the file that it was read from.
    ///
    /// # Errors
    /// Returns the OS error.
    fn open_tree(&mut self, file: &File) -> std::io::Result<()> {
        self.tree = match self.stored.clone() {
            Some(root) => Some(Arc::new(ReadTree::new(file.try_clone()?, root))),
            None => None,
        };
        Ok(())
    }

    /// Returns true if all marks can be looked up.
    fn has_open_tree(&self) -> bool {
        self.stored.is_none() || self.tree.is_some()
    }

    /// Returns true if a block of the tree was damaged.
    pub fn is_damaged(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.is_damaged())
    }

    /// Returns the bytes of the tree.
    fn stored_bytes(&self) -> u64 {
        self.stored.as_ref().map_or(0, TreeRoot::stored_bytes)
    }

    /// Forgets the marks that are in the tree.
    fn drop_stored(&mut self) {
        (self.stored, self.tree) = (None, None);
        self.forgotten.clear();
    }

    /// Takes all marks out of the tree.
    fn load_all_marks(&mut self) {
        self.marks = self.marks();
        self.drop_stored();
    }

    /// Moves the marks that it holds into the tree if they are many, or its line has more than `line_bytes_max` bytes;
    /// returns the new blocks, which are to be written at the place `at` of the file, and its line.
    fn appended(&mut self, at: u64, line_bytes_max: usize) -> Result<Vec<u8>, DamagedBlock> {
        let line = self.line()?;
        let held = self.marks.len() + self.forgotten.len();
        if held <= STATE_RECORDS_MAX && (held == 0 || line.len() <= line_bytes_max) {
            return Ok(line);
        }
        let changes = self.take_changes();
        let (root, mut bytes) = read_tree::updated(self.tree.as_deref(), changes, at)?;
        self.stored = root;
        bytes.extend(self.line()?);
        Ok(bytes)
    }

    /// Returns the content of a new file.
    fn file_content(&mut self, line_bytes_max: usize) -> Result<Vec<u8>, DamagedBlock> {
        if self.marks_total() <= STATE_RECORDS_MAX {
            self.load_all_marks();
            let line = self.line()?;
            if line.len() <= line_bytes_max || self.marks.is_empty() {
                return Ok(line);
            }
        }
        let changes = self.take_changes();
        let (root, mut bytes) = read_tree::rebuilt(self.tree.as_deref(), changes)?;
        (self.stored, self.tree) = (root, None);
        bytes.extend(self.line()?);
        Ok(bytes)
    }

    /// Takes the changes that the tree does not have.
    fn take_changes(&mut self) -> RecordChanges {
        let forgotten = std::mem::take(&mut self.forgotten).into_iter().map(|path| (path, None));
        let set = std::mem::take(&mut self.marks).into_iter().map(|mark| (mark.path.clone(), Some(mark)));
        forgotten.chain(set).collect()
    }

    /// Formats it as a line of its file.
    fn line(&mut self) -> Result<Vec<u8>, DamagedBlock> {
        self.version = if self.stored.is_some() { VERSION } else { VERSION_WHOLE };
        let mut line = serde_json::to_vec(self).map_err(|_| DamagedBlock)?;
        line.push(b'\n');
        Ok(line)
    }

    /// Adds a mark; joins its lines to those shown before of the same bytes.
    pub fn add_mark(&mut self, mut seen: ReadRecord) {
        match self.mark(&seen.path) {
            Some(known) if known.sha256 == seen.sha256 => {
                let mut mark = known;
                mark.show(&seen.lines);
                (seen.lines, seen.numbers, seen.earlier) = (mark.lines, mark.numbers, mark.earlier);
            }
            Some(known) => seen.earlier = known.shown_before_foreign_change(),
            None => {}
        }
        self.set_mark(seen);
    }

    /// Returns the digests of bytes that stay out of snapshots.
    pub fn withheld(&self) -> &[Sha256] {
        &self.withheld
    }

    /// Adds digests of bytes that stay out of snapshots.
    pub fn withhold(&mut self, digests: &BTreeSet<Sha256>) {
        self.withheld.retain(|known| !digests.contains(known));
        self.withheld.extend(digests);
        let older = self.withheld.len().saturating_sub(WITHHELD_MAX);
        self.withheld.drain(..older);
    }

    /// Adds a change, with the digest of its request.
    pub fn note_change(&mut self, seq: u64, request: Option<Sha256>) {
        self.seq = self.seq.max(seq);
        self.recent.retain(|made| made.seq != seq);
        self.recent.push(SessionChange { seq, request });
        let older = self.recent.len().saturating_sub(RECENT_MAX);
        self.recent.drain(..older);
    }

    /// Returns true if the change `seq` is known to have come from another request.
    pub fn is_of_another_request(&self, seq: u64, request: Sha256) -> bool {
        self.recent.iter().any(|made| made.seq == seq && made.request != Some(request))
    }

    /// Returns the end of an earlier session of this name, if there was one.
    pub fn after(&self) -> Option<SessionEnd> {
        self.after
    }

    /// Returns the number of its last change, or of the last one of an earlier session of its name; 0 for none.
    pub fn last_seq(&self) -> u64 {
        self.seq.max(self.after.map_or(0, |ended| ended.seq))
    }

    /// Marks the session as used again after its end, if it had one.
    pub fn begin_again(&mut self) {
        self.ended = false;
    }

    /// Returns true if it has ended and was not used since.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Ends the session: the next use of its name starts a new one, with its own baseline. The number of its last
    /// change is `seq`.
    pub fn end(&mut self, seq: u64) {
        *self = Self {
            after: Some(SessionEnd { seq, time: seconds_now() }),
            ended: true,
            forgets: true,
            other: std::mem::take(&mut self.other),
            ..Self::default()
        };
    }

    /// Returns the paths read before its context was compacted, and not since.
    pub fn compacted(&self) -> impl Iterator<Item = &WorkspacePath> {
        self.compacted.iter().filter(|path| self.mark(path).is_none())
    }

    /// Returns true if it had read `path` before its context was compacted, and not since.
    pub fn was_compacted(&self, path: &WorkspacePath) -> bool {
        self.compacted.contains(path) && self.mark(path).is_none()
    }

    /// Removes all marks, since the files are no longer in the caller's context; remembers the paths of the newest.
    pub fn compact(&mut self) {
        self.forgets = true;
        self.load_all_marks();
        let mut marks = std::mem::take(&mut self.marks);
        marks.sort_by_key(|mark| std::cmp::Reverse(mark.time));
        let room = COMPACTED_MAX.saturating_sub(marks.len());
        self.compacted = std::mem::take(&mut self.compacted).into_iter().take(room).collect();
        self.compacted.extend(marks.into_iter().take(COMPACTED_MAX).map(|mark| mark.path));
    }

    /// Removes the marks of `path` and everything below it; returns the paths that had marks.
    pub fn forget_below(&mut self, path: &WorkspacePath) -> Vec<WorkspacePath> {
        self.forgets = true;
        self.load_all_marks();
        let (gone, kept): (Vec<ReadRecord>, Vec<ReadRecord>) =
            std::mem::take(&mut self.marks).into_iter().partition(|mark| mark.path.is_within(path));
        self.marks = kept;
        let (mut forgotten, kept): (BTreeSet<WorkspacePath>, BTreeSet<WorkspacePath>) =
            std::mem::take(&mut self.compacted).into_iter().partition(|known| known.is_within(path));
        self.compacted = kept;
        forgotten.extend(gone.into_iter().map(|mark| mark.path));
        forgotten.into_iter().collect()
    }

    /// Removes the older half of the marks, for a state file that is too large; returns true if there were any.
    fn drop_oldest(&mut self) -> bool {
        self.load_all_marks();
        let mut times: Vec<u64> = self.marks.iter().map(|mark| mark.time).collect();
        times.sort_unstable();
        let before = self.marks.len();
        let mut room = before / 2;
        let newest = times.get(before.saturating_sub(room)).copied().unwrap_or(u64::MAX);
        self.marks.retain(|mark| {
            let stays = mark.time >= newest && room > 0;
            room -= usize::from(stays);
            stays
        });
        self.marks.len() < before
    }
}

impl SessionState {
    /// Returns the newest state in `bytes`, the end of the file `shown`, which has states and blocks as lines; `None` if it
    /// is damaged. Ignores an incomplete last line, and blocks that no state follows.
    fn parse_newest(bytes: &[u8], shown: &str) -> Result<Option<SessionState>, Error> {
        let is_block = |line: &[u8]| line.starts_with(BLOCK_START);
        let (mut earlier, newest) = last_line(bytes.strip_suffix(b"\n").unwrap_or(bytes));
        let found = if is_block(newest) { None } else { parse(newest, shown)? };
        if found.is_some() || (bytes.ends_with(b"\n") && !is_block(newest)) {
            return Ok(found);
        }
        while let Some(rest) = earlier {
            let (before, line) = last_line(rest);
            if !is_block(line) {
                return parse(line, shown);
            }
            earlier = before;
        }
        Ok(None)
    }
}

/// Returns the last line, and everything before it.
fn last_line(bytes: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(at) = memchr::memrchr(b'\n', bytes) else { return (None, bytes) };
    (bytes.get(..at), bytes.get(at + 1..).unwrap_or_default())
}

/// Returns the state in `bytes`, a line of the file `shown`; `None` if it is damaged.
fn parse(bytes: &[u8], shown: &str) -> Result<Option<SessionState>, Error> {
    if version_of(bytes) > VERSION {
        return Err(written_by_newer(shown));
    }
    let Ok(mut session) = serde_json::from_slice::<SessionState>(bytes) else {
        return Ok(None);
    };
    if session.seq > SEQ_MAX || session.after.is_some_and(|ended| ended.seq > SEQ_MAX) {
        return Ok(None);
    }
    for mark in &mut session.marks {
        mark.lines = LineSet::from_ranges(std::mem::take(&mut mark.lines).into_ranges(), usize::MAX);
    }
    session.marks.sort_by(|one, other| one.path.cmp(&other.path));
    session.marks.dedup_by(|one, other| one.path == other.path);
    Ok(Some(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_validated() {
        for good in ["a", "A.b_c-9", &"x".repeat(100)] {
            assert!(good.parse::<SessionId>().is_ok(), "{good}");
        }
        for bad in ["", ".a", "a/b", "..", "a b", "ä", "a\n", &"x".repeat(101)] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn last_complete_line_of_a_session_file_is_used() {
        let of = |seq: u64| format!(r#"{{"version":1,"seq":{seq}}}"#);
        let (one, two) = (of(1), of(2));
        for (text, wanted) in [
            (one.clone(), Some(1)),
            (format!("{one}\n"), Some(1)),
            (format!("{one}\n{two}\n"), Some(2)),
            (format!("{one}\n{two}"), Some(2)),
            (format!("{one}\n{}", &two[..two.len() - 1]), Some(1)),
            (format!("{one}\n\0\0\0"), Some(1)),
            (format!("{one}\n\0\0\0\n{two}\n"), Some(2)),
            // A complete but invalid line is damage.
            (format!("{one}\n{{\n"), None),
            (format!("{one}\n\n"), None),
            ("{".to_owned(), None),
            ("\n".to_owned(), None),
            (String::new(), None),
        ] {
            let found = SessionState::parse_newest(text.as_bytes(), "s").unwrap().map(|session| session.seq);
            assert_eq!(found, wanted, "{text:?}");
        }
        SessionState::parse_newest(format!("{one}\n{}\n", r#"{"version":99}"#).as_bytes(), "s").unwrap_err();
    }

    #[test]
    fn unknown_fields_of_a_state_file_are_preserved() {
        let text = r#"{"version":1,"seq":3,"marks":[],"later":{"x":1}}"#;
        let session = parse(text.as_bytes(), "s").unwrap().unwrap();
        assert_eq!(session.seq, 3);
        assert!(serde_json::to_string(&session).unwrap().contains(r#""later":{"x":1}"#));
        assert!(parse(b"{\"version\":3}", "s").is_err());
        assert!(parse(b"{\"version\":1,\"marks\":7}", "s").unwrap().is_none());
        assert!(parse(b"", "s").unwrap().is_none());
        assert!(parse(br#"{"version":1,"seq":18446744073709551615}"#, "s").unwrap().is_none());
    }

    #[test]
    fn oldest_read_records_are_dropped_first() {
        let mut session = SessionState::default();
        for time in 0..10 {
            let path = WorkspacePath::new(format!("{}", 9 - time).as_ref()).unwrap();
            session.set_mark(ReadRecord { time, ..ReadRecord::of_everything(path, Sha256::of(b""), 0, 1) });
        }
        assert!(session.drop_oldest());
        let times: Vec<u64> = session.marks().iter().map(|mark| mark.time).collect();
        assert_eq!(times, [9, 8, 7, 6, 5]);
        while session.drop_oldest() {}
        assert!(session.marks().is_empty());
    }
}
