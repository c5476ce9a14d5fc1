//! `diff`: what differs between snapshots.

mod settled;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::revisions::{commit, must_be_there, no_snapshot};
use super::{Effect, Paint, Stdin, Text, Tool, sessions};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::change::record::unreadable;
use crate::engine::snapshot::{Delta, PathChange, SnapshotError, Store, Version};
use crate::engine::store::session;
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::Error;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::checked::peek;
use crate::text::counted::counted;
use crate::text::escaped;
use crate::text::git_diff::{Amount, FileDiff, Side};

/// Most files that a diff looks at.
const FILES_MAX: usize = 100_000;
/// Files that are listed with their numbers.
const FILES_LISTED_MAX: usize = 1000;

/// Show what changed between two snapshots, in one of them, or in this session
///
/// Without arguments: everything that this session changed. A snapshot is named by its id or a unique
/// beginning of it, HEAD or a branch, with ~N behind it for those before.
///
/// What others changed in between is not shown. If no session is named and this one changed nothing,
/// the newest snapshot is shown. The diff is git's, so that `git apply` and `patch` take it. Instead
/// of a path: a snapshot shows what it changed, another commit what changed since, A..B or A B what
/// differs between two.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Only this file, or what is below this folder
    #[arg(value_name = "PATH")]
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file"]))]
    pub path: Option<PathBuf>,
    /// Further files and folders
    #[arg(value_name = "PATH")]
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["files", "file_paths"]))]
    pub paths: Vec<PathBuf>,
    /// The earlier snapshot; without it, the one before `to`
    #[arg(long, value_name = "SNAPSHOT")]
    #[schemars(extend("x-aliases" = ["base", "old"]))]
    pub from: Option<String>,
    /// The later snapshot; without it, the newest
    #[arg(long, value_name = "SNAPSHOT")]
    #[schemars(extend("x-aliases" = ["target", "new"]))]
    pub to: Option<String>,
    /// One snapshot, beside the one before it: what one call changed
    #[arg(long, value_name = "SNAPSHOT", conflicts_with_all = ["from", "to"])]
    #[schemars(extend("x-aliases" = ["snapshot", "id", "commit"]))]
    pub of: Option<String>,
    /// Write the content of binary files too, so that git apply makes them; else only that they differ
    #[arg(long)]
    #[serde(default)]
    pub binary: bool,
    /// Show only how much changed in each file
    #[arg(long)]
    #[serde(default)]
    pub stat: bool,
    /// What each session changed, one after the other; so at a terminal, where nothing else is asked for
    #[arg(long, conflicts_with_all = ["from", "to", "of"])]
    #[serde(default)]
    pub by_session: bool,
    /// Lines of the diff to skip, or files with `stat`
    #[arg(long, value_name = "COUNT", default_value_t)]
    #[serde(default)]
    pub offset: usize,
    /// Maximum bytes of diff; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
}

/// What differs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The earlier commit; absent where there is none before
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The later commit; absent where there is no snapshot at all
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Present where this is what that session changed, without what others changed meanwhile
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How many files differ
    pub files: usize,
    /// How much changed in each file, where that was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat: Option<Vec<FileStat>>,
    /// The unified diff; absent with `stat`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// What each session changed, the newest first, where that was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Vec<SessionDiff>>,
    /// Whether there is more
    pub truncated: bool,
    /// The offset at which to go on
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// The diff's own bytes.
    #[serde(skip)]
    #[schemars(skip)]
    bytes: Vec<u8>,
    /// Lines of which only the beginning is shown.
    #[serde(skip)]
    #[schemars(skip)]
    cut_lines: usize,
}

/// What one session changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionDiff {
    /// The session
    pub session: String,
    /// How many files differ
    pub files: usize,
    /// How much changed in each file, where that was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat: Option<Vec<FileStat>>,
    /// The unified diff; absent with `stat`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The diff's own bytes.
    #[serde(skip)]
    #[schemars(skip)]
    bytes: Vec<u8>,
}

/// How much changed in one file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileStat {
    /// The path from the root
    pub path: String,
    /// The path that it had before, where that was another
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What became of it
    pub action: Action,
    /// Lines added; absent for a binary or very large file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertions: Option<usize>,
    /// Lines removed; likewise
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions: Option<usize>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is new
    Create,
    /// It is another
    Modify,
    /// It is gone
    Delete,
    /// It has another name
    Rename,
}

impl Action {
    /// Its letter, as git has it.
    #[must_use]
    pub const fn sign(self) -> char {
        match self {
            Self::Create => 'A',
            Self::Modify => 'M',
            Self::Delete => 'D',
            Self::Rename => 'R',
        }
    }
}

/// The tool.
pub struct Diff;

impl Tool for Diff {
    const NAME: &'static str = "diff";
    const LISTED: &'static str = "from to of path stat";
    const EFFECT: Effect = Effect::Reads;
    const STDIN: Stdin = Stdin::Ignored;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        if request.of.is_some() && (request.from.is_some() || request.to.is_some()) {
            return Err(Error::invalid("field `of` cannot be combined with `from` and `to`: leave them out")
                .detail("field", "of"));
        }
        let Some(store) = record::find(engine)? else {
            let named = request.of.as_ref().or(request.from.as_ref()).or(request.to.as_ref());
            if let Some(name) = named {
                return Err(no_snapshot(name, "from", &[]));
            }
            for path in request.path.iter().chain(&request.paths) {
                must_be_there(engine, None, path)?;
            }
            return Ok(Response::of(&Span::default(), 0));
        };
        let (request, places) = settled::settled(engine, &store, request)?;
        let who = Who::of(engine)?;
        if is_by_session(engine, &request, &store, &who)? {
            let response = by_session(engine, &store, &request, &places)?;
            warn_of_cut_lines(engine, &response);
            return Ok(response);
        }
        let mut span = span_of(&store, &request, &who)?;
        span.changes.retain(|change| lies_in_any(&change.path, &places));
        let deltas = store.deltas(&span.changes).map_err(|error| unreadable(&error))?;
        let mut response = Response::of(&span, deltas.len());
        let room = AnswerRoom::new(engine.bytes_max(request.max_bytes));
        let filled = if request.stat {
            response.fill_stat(&store, &deltas, request.offset, room)
        } else {
            let window = Window::new(request.offset, room);
            response.fill_diff(&store, &deltas, window, request.binary)
        };
        filled.map_err(|error| unreadable(&error))?;
        if response.diff.as_ref().is_some_and(|diff| diff.as_bytes() != response.bytes) {
            engine
                .warn("the diff is not all UTF-8 and is shown lossily here; the text form has its own bytes");
        }
        warn_of_cut_lines(engine, &response);
        Ok(response)
    }

    fn text(response: &Response, text: &mut Text) {
        for session in response.sessions.iter().flatten() {
            let heading = text.paint(Paint::Yellow, &format!("session {}", session.session));
            text.styled(&heading);
            text.diff(&session.bytes);
            session.stat.iter().flatten().for_each(|file| text.entry(&file.line()));
        }
        text.diff(&response.bytes);
        for file in response.stat.iter().flatten() {
            text.entry(&file.line());
        }
        if let Some(next) = response.next_offset {
            text.note(format!("the diff goes on: {}", text.option("offset", next)));
        }
    }

    fn status(response: &Response) -> u8 {
        u8::from(response.files > 0)
    }
}

/// What a diff is between.
#[derive(Debug, Default)]
struct Span {
    /// The earlier commit.
    from: Option<String>,
    /// The later commit.
    to: Option<String>,
    /// The session, where this is what it changed.
    session: Option<String>,
    /// The paths that differ.
    changes: Vec<PathChange>,
}

/// Whose changes a diff without a snapshot shows.
struct Who {
    /// The caller's session.
    session: String,
    /// The number of its last change before it ended and began anew; 0 where it never did.
    after: u64,
    /// Whether the call itself names it.
    is_named: bool,
}

impl Who {
    /// The caller.
    fn of(engine: &Engine) -> Result<Self, Error> {
        let state = State::find(&engine.workspace)?;
        let known = state.and_then(|state| session::peek(&state, engine.session()));
        let after = known.and_then(|known| known.after()).map_or(0, |ended| ended.seq);
        let is_named = engine.named_session().is_some();
        Ok(Self { session: engine.session().to_string(), after, is_named })
    }
}

/// Whether what each session changed is shown: where that is asked for, and to a person who asks for
/// nothing else and has no session of their own.
fn is_by_session(engine: &Engine, request: &Request, store: &Store, who: &Who) -> Result<bool, Error> {
    let names_any = request.of.is_some() || request.from.is_some() || request.to.is_some();
    if request.by_session && names_any {
        return Err(Error::invalid("by_session cannot be combined with from, to and of: leave them out")
            .detail("field", "by_session"));
    }
    if request.by_session || names_any || who.is_named || !engine.is_for_a_person() {
        return Ok(request.by_session);
    }
    let own = store.steps_of(&who.session, who.after).map_err(|error| unreadable(&error))?;
    Ok(own.is_empty())
}

/// Says that some lines are not whole.
fn warn_of_cut_lines(engine: &mut Engine, response: &Response) {
    if response.cut_lines > 0 {
        engine.warn(format!(
            "{} cut at max_bytes: git apply rejects this diff",
            counted(response.cut_lines, "line")
        ));
    }
}

/// What each session changed, the one that did so last first.
fn by_session(
    engine: &Engine,
    store: &Store,
    request: &Request,
    places: &[ResolvedPath],
) -> Result<Response, Error> {
    let mut whole = Response { sessions: Some(Vec::new()), ..Response::of(&Span::default(), 0) };
    let mut room = AnswerRoom::new(engine.bytes_max(request.max_bytes));
    for name in sessions::all(store)? {
        engine.control.check()?;
        let Ok(id) = name.parse() else { continue };
        let chosen = sessions::named(engine, &id)?;
        let changed = store.changed_by(&name, chosen.after).map_err(|error| unreadable(&error))?;
        let Some(mut changed) = changed else { continue };
        changed.paths.retain(|change| lies_in_any(&change.path, places));
        if changed.paths.is_empty() {
            continue;
        }
        if room.is_empty() {
            whole.truncated = true;
            break;
        }
        let deltas = store.deltas(&changed.paths).map_err(|error| unreadable(&error))?;
        let span = Span::default();
        let mut response = Response::of(&span, deltas.len());
        let filled = if request.stat {
            response.fill_stat(store, &deltas, 0, room)
        } else {
            response.fill_diff(store, &deltas, Window::new(0, room), request.binary)
        };
        filled.map_err(|error| unreadable(&error))?;
        whole.files += response.files;
        whole.truncated |= response.truncated;
        whole.cut_lines += response.cut_lines;
        let said = response
            .stat
            .iter()
            .flatten()
            .map(FileStat::size)
            .fold(TextSize::of(name.as_bytes()), TextSize::and);
        room = room.beside(said.and(TextSize::of(&response.bytes)));
        let Response { files, stat, diff, bytes, .. } = response;
        let session = SessionDiff { session: name, files, stat, diff, bytes };
        whole.sessions.get_or_insert_default().push(session);
    }
    Ok(whole)
}

/// What the request wants to see compared.
fn span_of(store: &Store, request: &Request, who: &Who) -> Result<Span, Error> {
    let broken = |error: SnapshotError| unreadable(&error);
    let named =
        |name: &Option<String>, field| name.as_deref().map(|name| commit(store, name, field)).transpose();
    let (of, from, to) =
        (named(&request.of, "of")?, named(&request.from, "from")?, named(&request.to, "to")?);
    if of.is_none() && from.is_none() && to.is_none() {
        let session = Some(who.session.clone());
        if let Some(changed) = store.changed_by(&who.session, who.after).map_err(broken)? {
            let (from, to) = (changed.before, Some(changed.last));
            return Ok(Span { from, to, session, changes: changed.paths });
        }
        if who.is_named {
            return Ok(Span { session, ..Span::default() });
        }
    }
    let is_any = of.is_none() && from.is_none() && to.is_none();
    let to = match of.or(to) {
        Some(to) => Some(to),
        None if is_any => store.newest_change().map_err(broken)?,
        None => store.tip().map_err(broken)?,
    };
    let Some(to) = to else {
        // Without a snapshot nothing differs from anything.
        return Ok(Span { from, ..Span::default() });
    };
    let from = match from {
        Some(from) => Some(from),
        None => store.parent(&to).map_err(broken)?,
    };
    let changes = store.changes(from.as_deref(), &to, FILES_MAX).map_err(broken)?.paths;
    Ok(Span { from, to: Some(to), session: None, changes })
}

/// Whether a path is one of those places or lies below one; where none is named, every path does.
fn lies_in_any(path: &[u8], places: &[ResolvedPath]) -> bool {
    places.is_empty() || places.iter().any(|place| lies_in(path, place.path()))
}

/// Whether a path is `folder` or lies below it.
#[must_use]
pub fn lies_in(path: &[u8], folder: &WorkspacePath) -> bool {
    let rest = path.strip_prefix(folder.as_bytes());
    folder.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

impl Response {
    /// An answer that has no diff yet.
    fn of(span: &Span, files: usize) -> Self {
        Self {
            from: span.from.clone(),
            to: span.to.clone(),
            session: span.session.clone(),
            files,
            stat: None,
            diff: None,
            sessions: None,
            truncated: false,
            next_offset: None,
            bytes: Vec::new(),
            cut_lines: 0,
        }
    }

    /// Adds the diff, as much of it as the window lets through.
    fn fill_diff(
        &mut self,
        store: &Store,
        deltas: &[Delta],
        mut window: Window,
        binary: bool,
    ) -> Result<(), SnapshotError> {
        for delta in deltas {
            let mut diff = Vec::new();
            write(store, delta, binary, &mut diff)?;
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

    /// Adds the numbers of each file, of as many as have room, and of one at least.
    fn fill_stat(
        &mut self,
        store: &Store,
        deltas: &[Delta],
        offset: usize,
        room: AnswerRoom,
    ) -> Result<(), SnapshotError> {
        let (mut files, mut size) = (Vec::new(), TextSize::default());
        for delta in deltas.iter().skip(offset).take(FILES_LISTED_MAX) {
            let amount = write(store, delta, false, &mut Vec::new())?;
            let stat = FileStat::of(delta, amount);
            size = size.and(stat.size());
            if !room.holds(size) && !files.is_empty() {
                break;
            }
            files.push(stat);
        }
        let end = offset.saturating_add(files.len());
        self.truncated = end < deltas.len();
        self.next_offset = self.truncated.then_some(end);
        self.stat = Some(files);
        Ok(())
    }
}

/// The part of a diff that is shown.
struct Window {
    /// Lines that are passed over.
    offset: usize,
    /// Room for what is shown.
    room: AnswerRoom,
    /// How long what is shown is.
    size: TextSize,
    /// Lines seen so far.
    seen: usize,
    /// Lines shown so far.
    shown: usize,
    /// What is shown.
    out: Vec<u8>,
    /// Whether a line did not fit any more.
    is_full: bool,
    /// Lines of which only the beginning is shown.
    cut_lines: usize,
}

impl Window {
    /// A window from the line `offset` on.
    fn new(offset: usize, room: AnswerRoom) -> Self {
        let (size, out) = (TextSize::default(), Vec::new());
        Self { offset, room, size, seen: 0, shown: 0, out, is_full: false, cut_lines: 0 }
    }

    /// Shows a line, where it is neither before the window nor behind it; of a line that alone has no room
    /// the beginning is shown.
    fn push(&mut self, line: &[u8]) {
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

    /// Shows the beginning of a line.
    fn push_start(&mut self, line: &[u8]) {
        let start = peek(line, ..self.room.prefix_of(line));
        self.out.extend_from_slice(start);
        self.out
            .extend_from_slice(format!("[... {} bytes left out ...]\n", line.len() - start.len()).as_bytes());
        self.size = TextSize::of(&self.out);
        self.cut_lines += 1;
    }
}

/// Adds the diff of one file.
///
/// # Errors
/// Where a version cannot be read.
pub fn write(store: &Store, delta: &Delta, binary: bool, out: &mut Vec<u8>) -> Result<Amount, SnapshotError> {
    let read = |side: &Option<(Vec<u8>, Version)>| {
        let read = |(path, version): &(Vec<u8>, Version)| {
            // A binary diff has all bytes in it, another one only the lines of what people read.
            let bytes = if binary { store.content(*version)? } else { store.content_to_compare(*version)? };
            Ok((path.clone(), version.mode(), version.id(), bytes))
        };
        side.as_ref().map(read).transpose()
    };
    let (old, new) = (read(&delta.before)?, read(&delta.after)?);
    let diff = FileDiff {
        old: old.as_ref().map(|(path, mode, id, bytes)| Side { path, mode, id, bytes }),
        new: new.as_ref().map(|(path, mode, id, bytes)| Side { path, mode, id, bytes }),
        similarity: delta.similarity,
        binary,
    };
    Ok(diff.write(out))
}

impl FileStat {
    /// How long its entry is.
    fn size(&self) -> TextSize {
        /// Bytes beside its names.
        const SAID_BYTES: usize = 80;
        let names = [Some(&self.path), self.from.as_ref()];
        names.into_iter().flatten().fold(TextSize::plain(SAID_BYTES), |size, name| size.with(name))
    }

    /// The numbers of one file.
    fn of(delta: &Delta, amount: Amount) -> Self {
        let action = match (&delta.before, &delta.after) {
            (None, _) => Action::Create,
            (_, None) => Action::Delete,
            _ if delta.similarity.is_some() => Action::Rename,
            _ => Action::Modify,
        };
        let before = delta.before.as_ref().filter(|_| action == Action::Rename);
        Self {
            path: String::from_utf8_lossy(delta.path()).into_owned(),
            from: before.map(|(path, _)| String::from_utf8_lossy(path).into_owned()),
            action,
            insertions: amount.insertions,
            deletions: amount.deletions,
        }
    }

    /// One line for a person.
    fn line(&self) -> String {
        let amount = match (self.insertions, self.deletions) {
            (Some(insertions), Some(deletions)) => format!("+{insertions} -{deletions}"),
            _ => "binary".to_owned(),
        };
        let name = self.from.as_ref().map_or_else(String::new, |from| format!("{} => ", escaped::name(from)));
        let sign = self.action.sign();
        format!("{sign} {name}{} ({amount})", escaped::name(&self.path))
    }
}
