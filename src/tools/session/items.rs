//! The paths that a session has to do with: seen, changed or both.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use super::Refused;
use crate::engine::Engine;
use crate::engine::history::account;
use crate::engine::history::account::{NetChange, Side};
use crate::engine::history::own::Before;
use crate::engine::journal;
use crate::engine::journal::{JournalEntry, Version};
use crate::engine::store::audit;
use crate::engine::store::session::{Mark, SessionState};
use crate::engine::store::state::State as Lbx;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::content::Content;
use crate::text::diff::{self, Counts};
use crate::text::escaped;
use crate::text::lines;
use crate::tools::common::time_text;

/// Size of a file whose lines are counted, in bytes.
const COUNTED_BYTES_MAX: u64 = 16 << 20;
/// Bytes of files that one answer looks at, in all.
const LOOKED_AT_BYTES_MAX: u64 = 512 << 20;
/// Ranges of lines that an entry names.
const RANGES_MAX: usize = 5;
/// Refused calls that an answer names.
const REFUSED_NAMED: usize = 2;

/// How what a session has seen of a file stands to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadState {
    /// It is as it was seen.
    Fresh,
    /// It is not.
    Stale,
    /// It is no longer there.
    Gone,
    /// It was seen before the context was compacted.
    Compacted,
    /// It was changed without being seen.
    Unread,
}

impl ReadState {
    /// Every state, in the order in which a status lists them.
    pub const ALL: [Self; 5] = [Self::Fresh, Self::Stale, Self::Gone, Self::Compacted, Self::Unread];

    /// Its name in a status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Gone => "gone",
            Self::Compacted => "compacted",
            Self::Unread => "changed",
        }
    }
}

/// One path as answers show it.
#[derive(Debug)]
pub struct PathStatus {
    /// The path from where the caller is.
    pub path: String,
    /// Whether that is the whole truth.
    pub is_utf8: bool,
    /// How what was seen stands to what is.
    pub state: ReadState,
    /// The lines that were seen, where not all were.
    pub lines: Option<String>,
    /// What became of it.
    pub change: Option<Changed>,
}

/// What became of a path since the session began.
#[derive(Debug)]
pub struct Changed {
    /// The lines that came and went, as far as that could be told.
    pub counts: Option<Counts>,
    /// What beside its content changed: `new`, `deleted`, `was OLD`.
    pub what: Option<String>,
}

impl PathStatus {
    /// What is said of the path: the lines that were seen, and what became of it.
    pub fn suffix(&self) -> String {
        let lines = self.lines.as_ref().map(|lines| format!(":{lines}")).unwrap_or_default();
        let Some(change) = &self.change else {
            return lines;
        };
        let counts = match change.counts {
            None | Some(Counts { added: 0, removed: 0 }) if change.what.is_some() => String::new(),
            Some(Counts { added, removed: 0 }) if change.what.is_some() => format!(" +{added}"),
            Some(Counts { added: 0, removed }) if change.what.is_some() => format!(" -{removed}"),
            Some(Counts { added, removed }) => format!(" +{added} -{removed}"),
            None => " changed".to_owned(),
        };
        let what = change.what.as_ref().map(|what| format!(" {what}")).unwrap_or_default();
        lines + &counts + &what
    }
}

impl fmt::Display for PathStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped::name(&self.path))?;
        f.write_str(&self.suffix())
    }
}

/// Every path that a session has to do with.
pub struct Items {
    /// What it has seen.
    session: Arc<SessionState>,
    /// Its name.
    name: String,
    /// Its changes, the oldest first.
    entries: Vec<JournalEntry>,
    /// What these come to, by path.
    net: BTreeMap<WorkspacePath, NetChange>,
    /// All paths, in order.
    paths: Vec<WorkspacePath>,
    /// The workspace's state; none where nothing was ever kept.
    has_state: bool,
}

impl Items {
    /// The paths of the caller's session at or below any of `within`; all where that is empty.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(
        engine: &Engine,
        state: Option<&Lbx>,
        session: Arc<SessionState>,
        within: &[WorkspacePath],
    ) -> Result<Self, Error> {
        let name = engine.session().to_string();
        let first = session.after().map_or(0, |ended| ended.seq) + 1;
        let mut entries = Vec::new();
        if let Some(state) = state {
            for seq in journal::history(state, &name)?.into_iter().filter(|seq| *seq >= first) {
                engine.control.check()?;
                entries.extend(journal::done_entry(state, &name, seq)?);
            }
        }
        let is_wanted =
            |path: &&WorkspacePath| within.is_empty() || within.iter().any(|folder| path.is_within(folder));
        let mut look = Look { engine, state: Lbx::find(&engine.workspace)?, bytes: 0 };
        let net: BTreeMap<WorkspacePath, NetChange> = account::net(&entries)
            .into_iter()
            .filter(|change| look.is_change(change))
            .map(|change| (change.path.clone(), change))
            .collect();
        let seen = session.marks().iter().map(|mark| &mark.path);
        let all: BTreeSet<&WorkspacePath> =
            seen.chain(session.compacted()).chain(net.keys()).filter(is_wanted).collect();
        let paths = all.into_iter().cloned().collect();
        Ok(Self { session, name, entries, net, paths, has_state: state.is_some() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// How many changes the session made.
    pub fn changes(&self) -> usize {
        self.entries.len()
    }

    /// When the first and the last change were made.
    pub fn times(&self) -> Option<(String, String)> {
        Some((time_text(self.entries.first()?.time), time_text(self.entries.last()?.time)))
    }

    /// The paths from `offset` on, as many as fit into `bytes_max`, one at least.
    ///
    /// # Errors
    /// `timeout` where the caller has lost its patience.
    pub fn page(&self, engine: &Engine, offset: usize, bytes_max: usize) -> Result<Vec<PathStatus>, Error> {
        let state = if self.has_state { Lbx::find(&engine.workspace)? } else { None };
        let mut look = Look { engine, state, bytes: 0 };
        let (mut items, mut bytes) = (Vec::new(), 0_usize);
        for path in self.paths.iter().skip(offset) {
            engine.control.check()?;
            if look.bytes > LOOKED_AT_BYTES_MAX {
                break;
            }
            let item = self.item(&mut look, path);
            // Two quotes and a comma.
            bytes = bytes.saturating_add(item.to_string().len() + 3);
            if bytes > bytes_max && !items.is_empty() {
                break;
            }
            items.push(item);
        }
        Ok(items)
    }

    /// One path.
    fn item(&self, look: &mut Look<'_>, path: &WorkspacePath) -> PathStatus {
        let mark = self.session.mark(path);
        let (state, lines) = match mark {
            Some(mark) => look.at_mark(mark),
            None if self.session.was_compacted(path) => (ReadState::Compacted, None),
            None => (ReadState::Unread, None),
        };
        PathStatus {
            path: look.engine.workspace.shown(path),
            is_utf8: path.as_path().to_str().is_some(),
            state,
            lines,
            change: self.net.get(path).map(|change| look.at_change(change)),
        }
    }

    /// The calls of the session that were refused; `None` where none was.
    ///
    /// # Errors
    /// What the system says.
    pub fn refused(&self, state: Option<&Lbx>) -> Result<Option<Refused>, Error> {
        let Some(state) = state else {
            return Ok(None);
        };
        let since = self.session.after().map(|ended| time_text(ended.time)).unwrap_or_default();
        let is_wanted = |record: &audit::AuditRecord| {
            record.session == self.name && record.outcome != "ok" && record.time > since
        };
        let records = audit::newest(state, is_wanted)?;
        let line = |record: &audit::AuditRecord| {
            let path = record
                .files
                .first()
                .map(|file| format!(" {}", escaped::name(&file.path)))
                .unwrap_or_default();
            format!("{}{path}: {}", record.tool, record.outcome)
        };
        let last = records.iter().take(REFUSED_NAMED).map(line).collect();
        Ok((!records.is_empty()).then_some(Refused { count: records.len(), last }))
    }
}

/// A look at the files as they are.
struct Look<'a> {
    /// The engine.
    engine: &'a Engine,
    /// The workspace's state.
    state: Option<Lbx>,
    /// Bytes looked at so far.
    bytes: u64,
}

impl Look<'_> {
    /// How a mark stands to its file, and the lines that were seen where not all were.
    fn at_mark(&mut self, mark: &Mark) -> (ReadState, Option<String>) {
        let shown = self.engine.workspace.shown(&mark.path);
        let ranges = Some(ranges(mark)).filter(|ranges| !ranges.is_empty());
        let (file, stat) = match self.engine.workspace.open_regular(&mark.path, &shown) {
            Ok(opened) => opened,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return (ReadState::Gone, None);
            }
            Err(_) => return (ReadState::Stale, None),
        };
        // A file of another size cannot have the same bytes.
        if fs::size_of(&stat) != mark.size && mark.size > 0 {
            return (ReadState::Stale, None);
        }
        self.bytes = self.bytes.saturating_add(fs::size_of(&stat));
        if fs::size_of(&stat) > COUNTED_BYTES_MAX {
            let is_same = hash(file).is_some_and(|sha256| sha256 == mark.sha256);
            return if is_same { (ReadState::Fresh, ranges) } else { (ReadState::Stale, None) };
        }
        match fs::read_to_end(file, fs::size_of(&stat), COUNTED_BYTES_MAX) {
            Ok(bytes) if Sha256::of(&bytes) == mark.sha256 => {
                let is_whole = mark.lines.cover(lines::count(&body_of(bytes)));
                (ReadState::Fresh, ranges.filter(|_| !is_whole))
            }
            _ => (ReadState::Stale, None),
        }
    }

    /// Whether a change comes to anything: where others changed the path in between, its bytes tell.
    fn is_change(&mut self, change: &NetChange) -> bool {
        if !matches!(change.before, Side::Apart(_)) {
            return true;
        }
        let before = self.bytes_of(&change.path, &change.before);
        before.is_none() || before != self.bytes_of(&change.path, &change.after)
    }

    /// What became of a path.
    fn at_change(&mut self, change: &NetChange) -> Changed {
        let what = match (&change.from, &change.before, &change.after) {
            (Some(from), _, _) => Some(format!("was {}", self.engine.workspace.shown(from))),
            (None, Side::Nothing, _) => Some("new".to_owned()),
            (None, Side::Apart(own), _) if own.first().is_none() => Some("new".to_owned()),
            (None, _, Side::Nothing) => Some("deleted".to_owned()),
            (None, Side::Version(before), Side::Version(after))
                if before.sha256 == after.sha256 && before.mode != after.mode =>
            {
                Some(format!("mode {}", fs::mode_text(after.mode)))
            }
            _ => None,
        };
        let counts = if change.before == change.after {
            Some(Counts::default())
        } else {
            let before = self.bytes_of(&change.path, &change.before);
            let after = self.bytes_of(&change.path, &change.after);
            before.zip(after).map(|(before, after)| diff::counts(&before, &after))
        };
        Changed { counts, what }
    }

    /// The text on one side of a change; `None` where it is too large, or not at hand.
    fn bytes_of(&mut self, path: &WorkspacePath, side: &Side) -> Option<Vec<u8>> {
        let bytes = match side {
            Side::Nothing => Vec::new(),
            Side::At(path) => self.read(path)?,
            Side::Version(version) => self.version(path, version)?,
            Side::Apart(own) => {
                match own.before(|version| Ok::<_, Infallible>(self.version(path, version))) {
                    Ok(Before::Known(None)) => Vec::new(),
                    Ok(Before::Known(Some(version))) => self.version(path, &version)?,
                    Ok(Before::Text(_, text)) => text,
                }
            }
        };
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        Some(body_of(bytes))
    }

    /// The bytes of a version: those on disk where they are the same, else those kept.
    fn version(&self, path: &WorkspacePath, version: &Version) -> Option<Vec<u8>> {
        if version.size > COUNTED_BYTES_MAX {
            return None;
        }
        let on_disk = self.read(path).filter(|bytes| Sha256::of(bytes) == version.sha256);
        on_disk.or_else(|| self.engine.find_version(self.state.as_ref()?, path, version.sha256))
    }

    /// The bytes of a regular file that is not too large.
    fn read(&self, path: &WorkspacePath) -> Option<Vec<u8>> {
        let (file, stat) = self.engine.workspace.open_regular(path, "").ok()?;
        fs::read_to_end(file, fs::size_of(&stat), COUNTED_BYTES_MAX).ok()
    }
}

/// The lines that were seen, as `FIRST-LAST,…`.
fn ranges(mark: &Mark) -> String {
    let all = mark.lines.ranges();
    let range = |&(first, last): &(u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let mut shown: Vec<String> = all.iter().take(RANGES_MAX).map(range).collect();
    if all.len() > RANGES_MAX {
        shown.push("…".to_owned());
    }
    shown.join(",")
}

/// The text of a file; its bytes where they are none.
fn body_of(bytes: Vec<u8>) -> Vec<u8> {
    match Content::decode(bytes.clone()) {
        Ok(content) => content.body,
        Err(_) => bytes,
    }
}

/// The SHA-256 of a file of any size.
fn hash(mut file: std::fs::File) -> Option<Sha256> {
    use std::io::Read as _;
    let mut hasher = crate::sha256::Hasher::default();
    let mut piece = vec![0; 256 << 10];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Some(hasher.finish()),
            Ok(length) => hasher.update(piece.get(..length)?),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}
