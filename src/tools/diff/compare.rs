//! Compares two states and returns a part of the differences.

use schemars::JsonSchema;
use serde::Serialize;

use super::Request;
use crate::engine::Engine;
use crate::engine::snapshot::{Delta, PathChange, SessionPart, Store, TreeItem};
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::Error;
use crate::limits::DIFF_FILES_MAX;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::checked::slice_or_empty;
use crate::text::diff::{DiffSide, DiffSize, FileDiff};
use crate::text::escaped;
use crate::tools::common::amount_text;
use crate::tools::targets::{PathOrRevisions, Revisions, commit_named, path_must_be_known, path_or_revision};

/// Largest number of files listed with their line counts.
const FILES_LISTED_MAX: usize = 1000;

/// Differences between two states.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Response {
    /// Earlier commit, if any
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Later commit; absent if there is no snapshot
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Session whose changes are shown, without changes by others meanwhile
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Files that differ
    pub files: usize,
    /// Size of the change in each file, if asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat: Option<Vec<FileStat>>,
    /// Unified diff; absent with `stat`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Changes of each session, newest first, if asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Vec<SessionDiff>>,
    /// True if there is more
    pub truncated: bool,
    /// Offset at which to continue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// Bytes of the diff.
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// Number of lines of which only the start is shown.
    #[serde(skip)]
    pub cut_lines: usize,
}

/// Changes of one session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionDiff {
    /// Session
    pub session: String,
    /// Files that differ
    pub files: usize,
    /// Size of the change in each file, if asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat: Option<Vec<FileStat>>,
    /// Unified diff; absent with `stat`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Bytes of the diff.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// Size of the change in one file.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct FileStat {
    /// Path from the root
    pub path: String,
    /// Earlier path, if different
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Change type
    pub action: Action,
    /// Lines added; absent for a binary or very large file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertions: Option<usize>,
    /// Lines removed, if counted
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions: Option<usize>,
}

/// Type of the change of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Created
    Create,
    /// Modified
    #[default]
    Modify,
    /// Deleted
    Delete,
    /// Renamed
    Rename,
}

impl Action {
    /// Returns the type of a change of a file that was there before, that is there after, and that was renamed.
    pub(crate) const fn of(before: bool, after: bool, renamed: bool) -> Self {
        match (before, after) {
            (false, _) => Self::Create,
            (_, false) => Self::Delete,
            _ if renamed => Self::Rename,
            _ => Self::Modify,
        }
    }

    /// Returns the letter that git uses for it.
    pub const fn sign(self) -> char {
        match self {
            Self::Create => 'A',
            Self::Modify => 'M',
            Self::Delete => 'D',
            Self::Rename => 'R',
        }
    }
}

/// Function that adds the diff of the file with this index to a buffer, and returns its line counts.
pub type WriteFile<'w> = dyn Fn(usize, &mut Vec<u8>) -> Result<FileStat, Error> + 'w;

impl Response {
    /// Adds the part of the diff inside the window, or of its line counts.
    pub(super) fn fill(
        &mut self,
        store: &Store,
        deltas: &[Delta],
        request: &Request,
        window: DiffWindow,
    ) -> Result<(), Error> {
        let binary = request.binary && !request.stat;
        let write = |index: usize, out: &mut Vec<u8>| {
            let Some(delta) = deltas.get(index) else { return Ok(FileStat::default()) };
            write(store, delta, binary, out).map(|amount| FileStat::of(delta, amount))
        };
        self.fill_with((deltas.len(), &write), request.stat, window)
    }

    /// Adds the part of a diff inside the window, or of its line counts; `write` adds the diff of one of the files and
    /// returns its counts.
    ///
    /// # Errors
    /// Returns the errors of `write`.
    pub fn fill_with(
        &mut self,
        (files, write): (usize, &WriteFile<'_>),
        stat: bool,
        mut window: DiffWindow,
    ) -> Result<(), Error> {
        self.files = files;
        if stat {
            return self.fill_stat((files, write), &window);
        }
        for index in 0..files {
            let mut diff = Vec::new();
            write(index, &mut diff)?;
            for line in diff.split_inclusive(|byte| *byte == b'\n') {
                window.push(line);
            }
            if window.is_full {
                break;
            }
        }
        self.truncated = window.is_full || window.cut_lines > 0;
        self.cut_lines = window.cut_lines;
        self.next_offset = window.is_full.then(|| window.offset + window.shown);
        self.diff = Some(String::from_utf8_lossy(&window.out).into_owned());
        self.bytes = window.out;
        Ok(())
    }

    /// Adds the line counts of as many files as fit, at least one.
    fn fill_stat(
        &mut self,
        (count, write): (usize, &WriteFile<'_>),
        window: &DiffWindow,
    ) -> Result<(), Error> {
        let (mut files, mut size) = (Vec::new(), TextSize::default());
        for index in (0..count).skip(window.offset).take(FILES_LISTED_MAX) {
            let stat = write(index, &mut Vec::new())?;
            size = size.and(stat.size());
            if !window.room.holds(size) && !files.is_empty() {
                break;
            }
            files.push(stat);
        }
        let end = window.offset.saturating_add(files.len());
        self.truncated = end < count;
        self.next_offset = self.truncated.then_some(end);
        self.stat = Some(files);
        Ok(())
    }
}

impl FileStat {
    /// Returns the size of its entry.
    pub fn size(&self) -> TextSize {
        /// Bytes besides its names.
        const SAID_BYTES: usize = 80;
        let names = [Some(&self.path), self.from.as_ref()];
        names.into_iter().flatten().fold(TextSize::plain(SAID_BYTES), |size, name| size.with(name))
    }

    /// Returns the line counts of one file.
    pub fn of(delta: &Delta, amount: DiffSize) -> Self {
        let action = Action::of(delta.before.is_some(), delta.after.is_some(), delta.similarity.is_some());
        let before = delta.before.as_ref().filter(|_| action == Action::Rename);
        Self {
            path: String::from_utf8_lossy(delta.path()).into_owned(),
            from: before.map(|(path, _)| String::from_utf8_lossy(path).into_owned()),
            action,
            insertions: amount.insertions,
            deletions: amount.deletions,
        }
    }

    /// Returns one line for a person.
    pub fn line(&self) -> String {
        let amount = amount_text(self.insertions, self.deletions);
        let name = self.from.as_ref().map_or_else(String::new, |from| format!("{} => ", escaped::name(from)));
        let sign = self.action.sign();
        format!("{sign} {name}{} ({amount})", escaped::name(&self.path))
    }
}

/// Returns a response with the states that the request compares, and the paths that differ; `part` has the changes of the
/// caller's session, which a diff without a snapshot shows, and `is_named` is true if the call itself names it.
pub fn compared(
    store: &Store,
    request: &Request,
    part: &SessionPart<'_>,
    is_named: bool,
) -> Result<(Response, Vec<PathChange>), Error> {
    let without_changes = |response| Ok((response, Vec::new()));
    let named = |name: &Option<String>, field| {
        name.as_deref().map(|name| commit_named(store, name, field)).transpose()
    };
    let (of, from, to) =
        (named(&request.of, "of")?, named(&request.from, "from")?, named(&request.to, "to")?);
    if of.is_none() && from.is_none() && to.is_none() {
        let session = Some(part.session.clone());
        if let Some(changed) = store.changed_by(part)? {
            let (from, to) = (changed.before, Some(changed.last));
            return Ok((Response { from, to, session, ..Response::default() }, changed.paths));
        }
        if is_named {
            return without_changes(Response { session, ..Response::default() });
        }
    }
    let is_any = of.is_none() && from.is_none() && to.is_none();
    let to = match of.or(to) {
        Some(to) => Some(to),
        None if is_any => store.newest_change()?,
        None => store.tip()?,
    };
    let Some(to) = to else {
        // Without a snapshot there are no differences.
        return without_changes(Response { from, ..Response::default() });
    };
    let from = match from {
        Some(from) => Some(from),
        None => store.parent(&to)?,
    };
    let changes = store.changes(from.as_deref(), &to, DIFF_FILES_MAX)?.paths;
    Ok((Response { from, to: Some(to), ..Response::default() }, changes))
}

/// Part of a diff to show.
pub struct DiffWindow {
    /// Number of lines to skip.
    pub offset: usize,
    /// Room for the shown text.
    room: AnswerRoom,
    /// Size of the shown text.
    size: TextSize,
    /// Number of lines seen so far.
    seen: usize,
    /// Number of lines shown so far.
    pub shown: usize,
    /// Shown text.
    pub out: Vec<u8>,
    /// True if a line did not fit.
    pub is_full: bool,
    /// Number of lines of which only the start is shown.
    pub cut_lines: usize,
}

impl DiffWindow {
    /// Returns a window that starts at the line `offset`.
    pub fn new(offset: usize, room: AnswerRoom) -> Self {
        let (size, out) = (TextSize::default(), Vec::new());
        Self { offset, room, size, seen: 0, shown: 0, out, is_full: false, cut_lines: 0 }
    }

    /// Shows a line if it is inside the window; only its start if the line alone does not fit.
    pub fn push(&mut self, line: &[u8]) {
        self.seen += 1;
        if self.seen <= self.offset || self.is_full {
            return;
        }
        let size = self.size.and(TextSize::of(line));
        if self.room.holds(size) {
            self.out.extend_from_slice(line);
            self.size = size;
        } else if self.out.is_empty() {
            self.push_start(line);
        } else {
            self.is_full = true;
            return;
        }
        self.shown += 1;
    }

    /// Shows the start of a line.
    fn push_start(&mut self, line: &[u8]) {
        let start = slice_or_empty(line, ..self.room.prefix_of(line));
        self.out.extend_from_slice(start);
        self.out
            .extend_from_slice(format!("[... {} bytes left out ...]\n", line.len() - start.len()).as_bytes());
        self.size = TextSize::of(&self.out);
        self.cut_lines += 1;
    }
}

/// Returns the request with the revisions among its paths resolved, and the remaining paths.
///
/// Revisions come first, as in git: `A`, `A B` or `A..B`, with optional paths after them.
///
/// # Errors
/// Returns `not_found` for an unknown path or revision, `invalid_request` for too many revisions.
pub fn resolve_revisions(
    engine: &Engine,
    store: &Store,
    mut request: Request,
) -> Result<(Request, Vec<ResolvedPath>), Error> {
    let words = request.path.take().into_iter().chain(std::mem::take(&mut request.paths));
    let is_settled = request.of.is_some() || request.from.is_some() || request.to.is_some();
    let (mut places, mut revisions) = (Vec::new(), Vec::new());
    for word in words {
        if is_settled || !places.is_empty() {
            places.push(path_must_be_known(engine, Some(store), &word)?);
            continue;
        }
        match path_or_revision(engine, store, &word)? {
            PathOrRevisions::Path(place) => places.push(*place),
            PathOrRevisions::Revisions(named) => revisions.push(named),
        }
    }
    let mut revisions = revisions.into_iter();
    match (revisions.next(), revisions.next(), revisions.next()) {
        (None, ..) => {}
        (Some(Revisions::Snapshot(id)), None, _) => request.of = Some(id),
        (Some(Revisions::Since(id)), None, _) => request.from = Some(id),
        (Some(Revisions::Between(from, to)), None, _) => {
            (request.from, request.to) = (Some(from), Some(to));
        }
        (Some(from), Some(to), None) if !from.is_range() && !to.is_range() => {
            (request.from, request.to) = (Some(from.commit_or_first()), Some(to.commit_or_first()));
        }
        _ => {
            return Err(Error::invalid("a diff compares two snapshots: A..B, or A and B")
                .detail("field", "path")
                .suggest("Name two snapshots at most, then paths."));
        }
    }
    Ok((request, places))
}

/// Adds the diff of one file.
///
/// # Errors
/// Fails if a version cannot be read.
pub fn write(store: &Store, delta: &Delta, binary: bool, out: &mut Vec<u8>) -> Result<DiffSize, Error> {
    // A binary diff includes all bytes, any other diff only text lines.
    let read =
        |version, _| Ok(if binary { store.content(version)? } else { store.content_to_compare(version)? });
    with_bytes(delta, read, |diff| FileDiff { binary, ..diff }.write(out))
}

/// Runs `work` on the diff of one file. `read` returns the bytes of a version, which is the later one or not.
///
/// # Errors
/// Returns the errors of `read`.
pub fn with_bytes<T>(
    delta: &Delta,
    read: impl Fn(TreeItem, bool) -> Result<Vec<u8>, Error>,
    work: impl FnOnce(FileDiff<'_>) -> T,
) -> Result<T, Error> {
    let known = |side: &Option<(Vec<u8>, TreeItem)>, is_later| {
        let Some((path, version)) = side.clone() else { return Ok(None) };
        Ok::<_, Error>(Some(DiffFile {
            path,
            version,
            id: version.id.to_string(),
            bytes: read(version, is_later)?,
        }))
    };
    let (old, new) = (known(&delta.before, false)?, known(&delta.after, true)?);
    Ok(work(FileDiff {
        old: old.as_ref().map(DiffFile::side),
        new: new.as_ref().map(DiffFile::side),
        similarity: delta.similarity,
        binary: false,
    }))
}

/// One side of a file in a diff.
struct DiffFile {
    /// Path.
    path: Vec<u8>,
    /// Version.
    version: TreeItem,
    /// Id of its content, in hex.
    id: String,
    /// Its content.
    bytes: Vec<u8>,
}

impl DiffFile {
    /// Returns it in the form of a diff.
    fn side(&self) -> DiffSide<'_> {
        DiffSide { path: &self.path, mode: self.version.mode(), id: &self.id, bytes: &self.bytes }
    }
}
