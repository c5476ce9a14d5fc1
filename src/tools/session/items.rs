//! The paths that a session has read, changed or both.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use super::RefusedCalls;
use crate::engine::Engine;
use crate::engine::history::account::ChangesAccount;
use crate::engine::history::session_diff::{self, ChangesEnd, EndContent, NetChange, Side};
use crate::engine::journal;
use crate::engine::journal::{JournalEntry, Version};
use crate::engine::store::audit;
use crate::engine::store::session::{ReadRecord, SessionState};
use crate::engine::store::state::State as Lbx;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{digest, fs};
use crate::error::{Error, ErrorKind};
use crate::limits::SHOWN_RANGES_MAX;
use crate::sha256::Sha256;
use crate::text::content::body_of;
use crate::text::diff::{self, LineCounts};
use crate::text::escaped::plural;
use crate::text::{escaped, lines};
use crate::tools::common::time_text;

/// Largest file whose lines are counted, in bytes.
const COUNTED_BYTES_MAX: u64 = 16 << 20;
/// Total bytes of files that one response reads.
const LOOKED_AT_BYTES_MAX: u64 = 512 << 20;
/// Number of refused calls that a response names.
const REFUSED_NAMED: usize = 2;

/// State of a file compared with the session's last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadState {
    /// Unchanged since the read.
    Fresh,
    /// Changed since the read.
    Stale,
    /// Deleted since the read.
    Gone,
    /// Read before the context was compacted.
    Compacted,
    /// Changed without a read.
    Unread,
}

impl ReadState {
    /// All states, in the order of a status.
    pub const ALL: [Self; 5] = [Self::Fresh, Self::Stale, Self::Gone, Self::Compacted, Self::Unread];

    /// Returns its name in a status.
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

/// One path as responses show it.
#[derive(Debug)]
pub struct PathStatus {
    /// Path, relative to the caller's folder.
    pub path: String,
    /// True if the path is valid UTF-8.
    pub is_utf8: bool,
    /// State compared with the last read.
    pub state: ReadState,
    /// Lines that were read, if not all were.
    pub lines: Option<String>,
    /// Change in the session.
    pub change: Option<PathChange>,
}

/// Change of a path since the session began.
#[derive(Debug)]
pub struct PathChange {
    /// Number of added and removed lines, if known.
    pub counts: Option<LineCounts>,
    /// Change other than of content: `new`, `deleted`, `was OLD`.
    pub what: Option<String>,
}

impl PathStatus {
    /// Returns the text that follows the path: the lines that were read, and its change.
    pub fn suffix(&self) -> String {
        let lines = self.lines.as_ref().map(|lines| format!(":{lines}")).unwrap_or_default();
        let Some(change) = &self.change else {
            return lines;
        };
        let counts = match change.counts {
            None | Some(LineCounts { added: 0, removed: 0 }) if change.what.is_some() => String::new(),
            Some(LineCounts { added, removed: 0 }) if change.what.is_some() => format!(" +{added}"),
            Some(LineCounts { added: 0, removed }) if change.what.is_some() => format!(" -{removed}"),
            Some(LineCounts { added, removed }) => format!(" +{added} -{removed}"),
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

/// All paths that a session has read or changed.
pub struct Items {
    /// State of the session.
    session: Arc<SessionState>,
    /// Its name.
    name: String,
    /// Its changes.
    account: ChangesAccount,
    /// Net effect of the changes, by path.
    net: BTreeMap<WorkspacePath, NetChange>,
    /// All paths, in order.
    paths: Vec<WorkspacePath>,
}

impl Items {
    /// Returns the paths of the caller's session at or below any of `within`; all paths if that is empty.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn of(
        engine: &Engine,
        state: Option<&Lbx>,
        session: Arc<SessionState>,
        within: &[WorkspacePath],
    ) -> Result<Self, Error> {
        let name = engine.session().to_string();
        let first = session.after().map_or(0, |ended| ended.seq) + 1;
        let account = match state {
            Some(state) => ChangesAccount::of(state, &name, first, &engine.control)?,
            None => ChangesAccount::default(),
        };
        let is_wanted =
            |path: &&WorkspacePath| within.is_empty() || within.iter().any(|folder| path.is_within(folder));
        let mut look = StatusCheck { engine, state, bytes: 0 };
        let net: BTreeMap<WorkspacePath, NetChange> = account
            .net()
            .into_iter()
            .filter(|change| look.is_change(change))
            .map(|change| (change.path.clone(), change))
            .collect();
        let marks = session.marks();
        let seen = marks.iter().map(|mark| &mark.path);
        let all: BTreeSet<&WorkspacePath> =
            seen.chain(session.compacted()).chain(net.keys()).filter(is_wanted).collect();
        let paths = all.into_iter().cloned().collect();
        Ok(Self { session, name, account, net, paths })
    }

    /// Returns the number of paths.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Returns the number of changes in the session.
    pub const fn changes(&self) -> usize {
        self.account.changes()
    }

    /// Returns the times of the first and the last change.
    pub fn times(&self) -> Option<(String, String)> {
        self.account.times().map(|(first, last)| (time_text(first), time_text(last)))
    }

    /// Returns the paths from `offset` on, as many as fit into `bytes_max`, at least one.
    ///
    /// # Errors
    /// Fails with `timeout` if the caller's time limit has passed.
    pub fn page(
        &self,
        engine: &Engine,
        state: Option<&Lbx>,
        offset: usize,
        bytes_max: usize,
    ) -> Result<Vec<PathStatus>, Error> {
        let mut look = StatusCheck { engine, state, bytes: 0 };
        let (mut items, mut bytes) = (Vec::new(), 0_usize);
        for path in self.paths.iter().skip(offset) {
            engine.control.check()?;
            if look.bytes > LOOKED_AT_BYTES_MAX {
                break;
            }
            if let (Some(state), Some(seq)) = (state, self.account.first_change_of(path)) {
                // The bytes from before are then found at once.
                journal::history_entry(state, &self.name, seq)?;
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

    /// Returns the status of one path.
    fn item(&self, look: &mut StatusCheck<'_>, path: &WorkspacePath) -> PathStatus {
        let mark = self.session.mark(path);
        let (state, lines) = match mark {
            Some(mark) => look.read_state(&mark),
            None if self.session.was_compacted(path) => (ReadState::Compacted, None),
            None => (ReadState::Unread, None),
        };
        PathStatus {
            path: look.engine.workspace.display(path),
            is_utf8: path.as_path().to_str().is_some(),
            state,
            lines,
            change: self.net.get(path).map(|change| look.at_change(change)),
        }
    }

    /// Returns the refused calls of the session; `None` if there are none.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn refused(&self, state: Option<&Lbx>) -> Result<Option<RefusedCalls>, Error> {
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
        Ok((!records.is_empty()).then_some(RefusedCalls { count: records.len(), last }))
    }
}

/// Returns the number of files that some changes, oldest first, changed in the end, and of lines, as far as counted.
///
/// # Errors
/// Returns the OS error, or `timeout`.
pub fn net_size(
    engine: &Engine,
    state: &Lbx,
    entries: &[JournalEntry],
    counted_max: usize,
) -> Result<(usize, LineCounts), Error> {
    let mut look = StatusCheck { engine, state: Some(state), bytes: 0 };
    let (mut files, mut sum) = (0, LineCounts::default());
    for change in session_diff::net(entries) {
        engine.control.check()?;
        if !look.is_change(&change) || look.is_empty_folder(&change.after) {
            continue;
        }
        files += 1;
        if files <= counted_max && look.bytes <= LOOKED_AT_BYTES_MAX {
            let counts = look.at_change(&change).counts.unwrap_or_default();
            (sum.added, sum.removed) = (sum.added + counts.added, sum.removed + counts.removed);
        }
    }
    Ok((files, sum))
}

/// A check of the current files.
struct StatusCheck<'a> {
    /// The engine.
    engine: &'a Engine,
    /// State of the workspace.
    state: Option<&'a Lbx>,
    /// Bytes read so far.
    bytes: u64,
}

impl StatusCheck<'_> {
    /// Returns the state of a file that was read, and the lines that were read if not all were.
    fn read_state(&mut self, mark: &ReadRecord) -> (ReadState, Option<String>) {
        let shown = self.engine.workspace.display(&mark.path);
        let ranges = Some(ranges(mark)).filter(|ranges| !ranges.is_empty());
        let (file, stat) = match self.engine.workspace.open_regular(&mark.path, &shown) {
            Ok(opened) => opened,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return (ReadState::Gone, None);
            }
            Err(_) => return (ReadState::Stale, None),
        };
        // A file with another size has other bytes.
        if fs::size_of(&stat) != mark.size && mark.size > 0 {
            return (ReadState::Stale, None);
        }
        self.bytes = self.bytes.saturating_add(fs::size_of(&stat));
        if fs::size_of(&stat) > COUNTED_BYTES_MAX {
            let is_same = digest::sha256_of(file).is_ok_and(|sha256| sha256 == mark.sha256);
            return if is_same { (ReadState::Fresh, ranges) } else { (ReadState::Stale, None) };
        }
        match fs::read_to_end(file, fs::size_of(&stat), COUNTED_BYTES_MAX) {
            Ok(bytes) if Sha256::of(&bytes) == mark.sha256 => {
                let is_whole = mark.lines.cover(lines::count(&body_of(&bytes)));
                (ReadState::Fresh, ranges.filter(|_| !is_whole))
            }
            _ => (ReadState::Stale, None),
        }
    }

    /// Returns true if a change has an effect: if others changed the path in between, compares the bytes.
    fn is_change(&mut self, change: &NetChange) -> bool {
        if !matches!(change.before, Side::Separate(..)) {
            return true;
        }
        let before = self.bytes_of(&change.path, &change.before);
        before.is_none() || before != self.bytes_of(&change.path, &change.after)
    }

    /// Returns true for a folder without files, which moved.
    fn is_empty_folder(&self, after: &Side) -> bool {
        let Side::At(path) = after else { return false };
        let folder = fs::open_beneath(self.engine.workspace.root_fd(), path, fs::FOLDER);
        folder.and_then(|folder| fs::names_in(&folder)).is_ok_and(|names| names.is_empty())
    }

    /// Returns the change of a path.
    fn at_change(&mut self, change: &NetChange) -> PathChange {
        let what = match (&change.from, &change.before, &change.after) {
            (Some(from), _, _) => Some(format!("was {}", self.engine.workspace.display(from))),
            (None, Side::Nothing, _) => Some("new".to_owned()),
            (None, Side::Separate(own, _), _) if own.first().is_none() => Some("new".to_owned()),
            (None, _, Side::Nothing) => Some("deleted".to_owned()),
            (None, Side::Version(before), Side::Version(after))
                if before.sha256 == after.sha256 && before.mode != after.mode =>
            {
                Some(format!("mode {}", fs::mode_text(after.mode)))
            }
            _ => None,
        };
        let counts = if change.before == change.after {
            Some(LineCounts::default())
        } else {
            let before = self.bytes_of(&change.path, &change.before);
            let after = self.bytes_of(&change.path, &change.after);
            before.zip(after).map(|(before, after)| diff::counts(&before, &after))
        };
        PathChange { counts, what }
    }

    /// Returns the text on one side of a change; `None` if it is too large, or lost.
    fn bytes_of(&mut self, path: &WorkspacePath, side: &Side) -> Option<Vec<u8>> {
        let bytes = match side {
            Side::Nothing => Vec::new(),
            Side::At(path) => self.read(path)?,
            Side::Version(version) => self.version(path, version)?,
            Side::Separate(own, end) => {
                let Ok([before, after]) =
                    own.ends(|version| Ok::<_, Infallible>(self.version(path, version)), || Ok(None));
                match if *end == ChangesEnd::Before { before } else { after } {
                    EndContent::Known(None) => Vec::new(),
                    EndContent::Known(Some(version)) => self.version(path, &version)?,
                    EndContent::Text(_, text) => text,
                }
            }
        };
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        Some(body_of(&bytes).into_owned())
    }

    /// Returns the bytes of a version: from disk if the file is unchanged, else from its backup.
    fn version(&self, path: &WorkspacePath, version: &Version) -> Option<Vec<u8>> {
        if version.size > COUNTED_BYTES_MAX {
            return None;
        }
        self.engine.version_at(self.state?, path, version)
    }

    /// Returns the bytes of a regular file that is not too large.
    fn read(&self, path: &WorkspacePath) -> Option<Vec<u8>> {
        let (file, stat) = self.engine.workspace.open_regular(path, "").ok()?;
        fs::read_to_end(file, fs::size_of(&stat), COUNTED_BYTES_MAX).ok()
    }
}

/// Returns the lines that were read, as `FIRST-LAST,…`.
fn ranges(mark: &ReadRecord) -> String {
    let all = mark.lines.ranges();
    let range = |&(first, last): &(u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let mut shown: Vec<String> = all.iter().take(SHOWN_RANGES_MAX).map(range).collect();
    if all.len() > SHOWN_RANGES_MAX {
        shown.push("…".to_owned());
    }
    shown.join(",")
}

/// Separator between two entries in braces; a list of lines has commas without a blank.
const SEPARATOR: &str = ", ";

/// Returns the entries by folder, such as `src/a/{x.rs:1-10, y.rs +1 -1}`, in the order of the items, which are sorted
/// by path. A name with a brace or a comma would be misread: then each path is named whole.
pub fn entries(items: &[&PathStatus]) -> Vec<String> {
    if items.iter().any(|item| item.path.contains(['{', '}', ',']) || item.path.contains(escaped::is_active))
    {
        return items.iter().map(ToString::to_string).collect();
    }
    let parts: Vec<PathParts<'_>> =
        items.iter().map(|item| (item.path.split('/').collect(), item.suffix())).collect();
    let parts: Vec<&PathParts<'_>> = parts.iter().collect();
    level(&parts, 0)
}

/// The components of a path, and the text that follows it.
type PathParts<'a> = (Vec<&'a str>, String);

/// Returns the entries of paths that share their first `depth` components, without these components.
fn level(paths: &[&PathParts<'_>], depth: usize) -> Vec<String> {
    let is_below = |path: &PathParts<'_>| path.0.len() > depth + 1;
    paths
        .chunk_by(|one, other| is_below(one) && is_below(other) && one.0.get(depth) == other.0.get(depth))
        .map(|group| {
            let Some((first, rest)) = group.split_first() else {
                return String::new();
            };
            if rest.is_empty() {
                return first.0.get(depth..).unwrap_or_default().join("/") + &first.1;
            }
            let inside = level(group, depth + 1);
            let folder = first.0.get(depth).copied().unwrap_or_default();
            match inside.as_slice() {
                [only] => format!("{folder}/{only}"),
                _ => format!("{folder}/{{{}}}", inside.join(SEPARATOR)),
            }
        })
        .collect()
}

/// Returns the text for as many of a page's items as fit, and their number. The first paragraph and the first item are
/// always in it; the refused calls are dropped before any other item.
pub fn text_that_fits(
    engine: &Engine,
    items: &Items,
    page: &[PathStatus],
    refused: Option<&RefusedCalls>,
    offset: usize,
    bytes_max: usize,
) -> (String, usize) {
    let left = |count: usize| items.len().saturating_sub(offset + count);
    let of =
        |count: usize, refused| text(engine, items, page.get(..count).unwrap_or(page), refused, left(count));
    let whole = of(page.len(), refused);
    if whole.len() <= bytes_max {
        return (whole, page.len());
    }
    // A longer list has a longer text.
    let counts: Vec<usize> = (1..=page.len()).collect();
    let count = counts.partition_point(|&count| of(count, None).len() <= bytes_max);
    // At least one, so that a caller who continues at the next offset reaches the end.
    let count = count.max(1).min(page.len());
    (of(count, None), count)
}

/// Returns the text for a page of items; `left` more are not shown.
fn text(
    engine: &Engine,
    items: &Items,
    page: &[PathStatus],
    refused: Option<&RefusedCalls>,
    left: usize,
) -> String {
    let mut lines = vec![paragraph(engine, items)];
    for (heading, state) in [
        ("Changed since the session began, net (lines added and removed):", None),
        ("Read, and unchanged since (lines, where not all were shown):", Some(ReadState::Fresh)),
        ("Read, and changed by someone else since; read again before any change:", Some(ReadState::Stale)),
        ("Read, and gone:", Some(ReadState::Gone)),
        ("Read before the context was compacted; read again before any change:", Some(ReadState::Compacted)),
    ] {
        let is_it = |item: &&PathStatus| match state {
            None => item.change.is_some(),
            Some(state) => item.change.is_none() && item.state == state,
        };
        section(&mut lines, heading, page.iter().filter(is_it), state.is_none());
    }
    if let Some(refused) = refused {
        lines.push(format!("Refused calls ({}), the last ones:", refused.count));
        lines.extend(refused.last.iter().map(|call| format!("- {call}")));
    }
    if left > 0 {
        lines.push(format!("{left} more paths are not shown; session status lists them."));
    }
    lines.join("\n") + "\n"
}

/// Returns the facts that come first.
fn paragraph(engine: &Engine, items: &Items) -> String {
    let (session, root) = (engine.session(), engine.workspace.root().display());
    let ways = "the tool diff shows what it changed, undo reverts the last change";
    let changes = match (items.changes(), items.times()) {
        (1, Some((first, _))) => format!("It made one change, at {first}; {ways}."),
        (count, Some((first, last))) => {
            format!("It made {}, from {first} to {last}; {ways}.", plural(count, "change"))
        }
        _ => "It has not changed anything.".to_owned(),
    };
    format!(
        "Resuming lbx session {session}, in {root}. {changes} Only a file whose current bytes this session has read \
         can be changed. Re-read anything no longer in your context."
    )
}

/// Adds a heading with its items, if there are any; an item with another state than the heading shows it.
fn section<'a>(
    lines: &mut Vec<String>,
    heading: &str,
    items: impl Iterator<Item = &'a PathStatus>,
    mixed: bool,
) {
    let listed: Vec<String> = items
        .map(|item| match item.state {
            ReadState::Stale if mixed => format!("- {item} (changed by someone else since: read again)"),
            ReadState::Gone if mixed => format!("- {item} (no longer there)"),
            _ => format!("- {item}"),
        })
        .collect();
    if !listed.is_empty() {
        lines.push(heading.to_owned());
        lines.extend(listed);
    }
}
