//! `log`: lists the snapshots.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{
    ID_DIGITS, amount_text, fitting, must_be_absent, time_text, unlimited_if_0, warn_of_lossy,
};
use super::snapshot::SnapshotStat;
use super::targets::{self, PathOrRevisions, Revisions, no_snapshot, takes_no_range};
use super::turns::{LoggedTurn, list};
use super::{Effect, Paint, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::policy::settings::Key;
use crate::engine::snapshot::{FileStat, Query, Snapshot, Store};
use crate::engine::store::session::SessionId;
use crate::error::Error;
use crate::text::escaped;

/// Largest number of paths listed per snapshot.
const PATHS_LISTED: usize = 20;
/// Bytes of an entry besides its texts.
const ENTRY_BYTES: usize = 200;
/// Longest text that is read as a duration, in characters; a longer one may be an ID.
const DURATION_CHARS_MAX: usize = 6;
/// Bytes of the line counts of a file in the response.
const FILE_BYTES: usize = 50;
/// Default number of snapshots for a person.
const PERSON_LIMIT: usize = 1000;

/// List the snapshots: files, time, session and tool of each change
///
/// Newest first, all sessions unless one is named.
///
/// Each change made through lbx is one; `external` is a change by others, and `baseline` the uncommitted state before a
/// session's first change. Given a snapshot instead of a path, the list begins with it. With turns, lists the turns of the
/// sessions: the changes that answer one prompt. Any of their numbers names a turn to `undo` and `rewind`.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Only snapshots that changed this file or folder
    #[arg(value_name = "PATH")]
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file"]))]
    pub path: Option<PathBuf>,
    /// Maximum number of snapshots; 0 for all [default: 20]
    #[arg(long, short = 'n', value_name = "COUNT")]
    #[schemars(extend("x-aliases" = ["max_count", "head_limit", "count"]))]
    pub limit: Option<usize>,
    /// Snapshots to skip
    #[arg(long, value_name = "COUNT", default_value_t)]
    #[serde(default)]
    pub offset: usize,
    /// Only snapshots after this: a snapshot's id, a time (RFC 3339), or how long ago (2h, 30m, 1d)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Only snapshots whose subject or reason this regular expression matches
    #[arg(long, value_name = "PATTERN")]
    pub grep: Option<String>,
    /// List the files of each snapshot, with lines added and removed
    #[arg(long)]
    pub stat: bool,
    /// List turns instead of snapshots; a change that answers no prompt is a turn of its own
    #[arg(long, conflicts_with_all = ["path", "since", "grep", "stat", "graph"])]
    pub turns: bool,
    /// Draw a column for each session (with --text)
    #[arg(long)]
    pub graph: bool,
    /// Maximum bytes of the response; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
}

/// List of snapshots.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Response {
    /// Snapshots, newest first
    pub snapshots: Vec<LoggedSnapshot>,
    /// Turns, newest first, if asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<LoggedTurn>>,
    /// True if the list is cut
    pub truncated: bool,
    /// Offset at which to continue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// True if the text draws a column for each session.
    #[serde(skip)]
    graph: bool,
}

/// One snapshot.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LoggedSnapshot {
    /// Commit ID
    pub id: String,
    /// Tool that made the change; `external` if not lbx
    pub tool: String,
    /// First 20 changed paths, from the root
    pub paths: Vec<String>,
    /// Session that made the change, if any
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Number in the session, for `seq` of `undo`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Time, as RFC 3339
    pub time: String,
    /// Size of the change.
    #[serde(flatten)]
    pub size: SnapshotStat,
    /// First line of the commit, if it says more than tool and path
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Client of the session, if known
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    /// Reason for the change
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// `warn` or `off`: the policy allowed the change although its caller had not read the current bytes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Files with their line counts, if asked for; fewer than `files` if not all fit
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat: Option<Vec<FileLines>>,
}

/// Size of the change of one file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileLines {
    /// Path from the root
    pub path: String,
    /// Lines added; absent for binary files
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertions: Option<usize>,
    /// Lines removed, if counted
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions: Option<usize>,
}

/// `log` tool.
pub struct Log;

impl Tool for Log {
    const NAME: &'static str = "log";
    const LISTED: &'static str = "path since limit";
    const EFFECT: Effect = Effect::Reads;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        if request.turns {
            return turns_for(engine, &request);
        }
        let Some(store) = record::find(engine)? else {
            request.path.map(|path| targets::path_must_be_known(engine, None, &path)).transpose()?;
            if let Some(session) = engine.named_session().cloned() {
                targets::session_must_be_known(engine, &session)?;
            }
            return Ok(Response::default());
        };
        let named = request.path.map(|path| targets::path_or_revision(engine, &store, &path)).transpose()?;
        let (path, from) = match named {
            None => (None, None),
            Some(PathOrRevisions::Path(place)) => (Some(*place), None),
            Some(PathOrRevisions::Revisions(Revisions::Snapshot(id) | Revisions::Since(id))) => {
                (None, Some(id))
            }
            Some(PathOrRevisions::Revisions(Revisions::Between(from, to))) => {
                return Err(takes_no_range("log", &from, &to));
            }
        };
        let invalid = |error| Error::invalid(format!("field `grep`: {error}")).detail("field", "grep");
        let grep = request.grep.as_deref().map(regex::Regex::new).transpose().map_err(invalid)?;
        let session = engine.named_session().cloned();
        let since = request.since.as_deref().map(|text| LogStart::parse(&store, text)).transpose()?;
        let since = since.unwrap_or_default();
        let query = Query {
            path: path.as_ref().map(|place| place.path().as_bytes()),
            session: session.as_ref().map(SessionId::as_str),
            from: from.as_deref(),
            grep: grep.as_ref(),
            since: since.time,
            after: since.snapshot.as_deref(),
            offset: request.offset,
            limit: limit_of(engine, request.limit),
        };
        let log = store.log(&query)?;
        if let Some(why) = &log.unreadable {
            engine.warn(format!(
                "older snapshots cannot be read ({why}); `lbx doctor` says how to repair that"
            ));
        }
        if let Some(session) = session.as_ref().filter(|_| log.snapshots.is_empty()) {
            targets::session_must_be_known(engine, session)?;
        }
        let bytes_max = engine.bytes_max(request.max_bytes);
        let found = log.snapshots.len();
        let entries = log.snapshots.iter().map(|snapshot| LoggedSnapshot::of(snapshot, request.stat));
        let mut snapshots = fitting(bytes_max, entries, LoggedSnapshot::size_bytes);
        let is_cut = snapshots.first_mut().is_some_and(|first| first.cut_to(bytes_max));
        let listed = log.snapshots.iter().take(snapshots.len()).flat_map(|snapshot| &snapshot.files);
        warn_of_lossy(engine, listed.map(|file| file.path.as_slice()));
        let has_more = log.truncated || snapshots.len() < found;
        let next_offset = has_more.then(|| request.offset + snapshots.len());
        let truncated = has_more || is_cut;
        Ok(Response { snapshots, turns: None, truncated, next_offset, graph: request.graph })
    }

    fn text(response: &Response, text: &mut Text) {
        let mut columns = SessionColumns::default();
        for entry in &response.snapshots {
            let (mark, beside) = if response.graph { columns.of(entry, text) } else { Default::default() };
            if text.is_for_a_person() || response.graph {
                text.styled(&format!("{mark}{}", entry.painted(text)));
                entry.why.iter().flat_map(|why| why.lines()).for_each(|line| {
                    text.styled(&format!("{beside}    {}", escaped::line(line)));
                });
            } else {
                text.entry(&entry.line());
            }
            for file in entry.stat.iter().flatten() {
                let line = format!("{beside}  {}", file.line());
                text.entry(&line);
            }
            let shown = entry.stat.as_ref().map_or(entry.size.files, Vec::len);
            if shown < entry.size.files {
                text.entry(&format!("{beside}  and {} more", entry.size.files - shown));
            }
        }
        response.turns.iter().flatten().for_each(|turn| turn.as_text(text));
        if let Some(next) = response.next_offset {
            let what = if response.turns.is_some() { "turns" } else { "snapshots" };
            text.note(format!("more {what}: {}", text.option("offset", next)));
        }
    }
}

/// Lists turns.
fn turns_for(engine: &mut Engine, request: &Request) -> Result<Response, Error> {
    let chosen = [
        ("path", request.path.is_some()),
        ("since", request.since.is_some()),
        ("grep", request.grep.is_some()),
        ("stat", request.stat),
        ("graph", request.graph),
    ];
    must_be_absent(&chosen, |field| format!("turns lists turns, not snapshots: leave {field} out"))?;
    let limit = limit_of(engine, request.limit);
    let (turns, truncated) = list(engine, request.offset, limit, request.max_bytes)?;
    let next_offset = truncated.then(|| request.offset + turns.len());
    Ok(Response { turns: Some(turns), truncated, next_offset, ..Response::default() })
}

impl LoggedSnapshot {
    /// Converts a snapshot to an entry of the response.
    fn of(snapshot: &Snapshot, with_files: bool) -> Self {
        let files = || snapshot.files.iter().map(FileLines::of).collect();
        let paths: Vec<String> = snapshot
            .files
            .iter()
            .take(PATHS_LISTED)
            .map(|file| String::from_utf8_lossy(&file.path).into_owned())
            .collect();
        let says_more = match paths.as_slice() {
            [path] => snapshot.subject != format!("{}: {path}", snapshot.tool),
            _ => snapshot.subject != snapshot.tool,
        };
        Self {
            id: snapshot.id.clone(),
            tool: snapshot.tool.clone(),
            paths,
            session: Some(snapshot.session.clone()).filter(|session| !session.is_empty()),
            seq: Some(snapshot.seq).filter(|seq| *seq > 0),
            time: time_text(snapshot.seconds),
            size: SnapshotStat::of(snapshot),
            subject: says_more.then(|| snapshot.subject.clone()),
            harness: snapshot.harness.clone(),
            why: snapshot.why.clone(),
            gate: snapshot.gate.clone(),
            stat: with_files.then(files),
        }
    }

    /// Returns its approximate size in a response, in bytes.
    fn size_bytes(&self) -> usize {
        let texts = self.paths.iter().chain(&self.subject).chain(&self.why);
        let files = self.stat.iter().flatten().map(FileLines::size_bytes).sum::<usize>();
        ENTRY_BYTES + texts.map(|text| text.len() + 3).sum::<usize>() + files
    }

    /// Cuts the list of files to a number of bytes in the response, 0 for no limit; returns true if some were cut.
    fn cut_to(&mut self, bytes_max: usize) -> bool {
        if bytes_max == 0 || self.size_bytes() <= bytes_max {
            return false;
        }
        let stat = self.stat.take();
        let left = bytes_max.saturating_sub(self.size_bytes()).max(1);
        let all = stat.as_ref().map_or(0, Vec::len);
        self.stat = stat.map(|files| fitting(left, files.into_iter(), FileLines::size_bytes));
        self.stat.as_ref().map_or(0, Vec::len) < all
    }

    /// Returns one line for a person at a terminal.
    fn painted(&self, text: &Text) -> String {
        let id: String = self.id.chars().take(ID_DIGITS).collect();
        let session = self.session.as_deref().unwrap_or("developer");
        let seq = self.seq.map(|seq| format!(" #{seq}")).unwrap_or_default();
        let harness =
            self.harness.as_ref().map(|name| format!(" ({})", escaped::name(name))).unwrap_or_default();
        let (came, went) = (format!("+{}", self.size.insertions), format!("-{}", self.size.deletions));
        let gate = self.gate.as_ref().map(|gate| format!(" [gate {gate}]")).unwrap_or_default();
        format!(
            "{} {} {}{seq}{harness} {} {} {}{}",
            text.paint(Paint::Yellow, &id),
            self.time,
            text.paint(Paint::Cyan, session),
            text.paint(Paint::Bold, &escaped::line(&self.title())),
            text.paint(Paint::Green, &came),
            text.paint(Paint::Red, &went),
            text.paint(Paint::Red, &gate),
        )
    }

    /// Returns the title of the commit.
    fn title(&self) -> String {
        self.subject.clone().unwrap_or_else(|| match self.paths.as_slice() {
            [path] => format!("{}: {}", self.tool, escaped::name(path)),
            _ => self.tool.clone(),
        })
    }

    /// Returns one line for a program.
    fn line(&self) -> String {
        let id: String = self.id.chars().take(ID_DIGITS).collect();
        let subject = self.title();
        let session = self.session.as_deref().unwrap_or("-");
        let gate = self.gate.as_ref().map(|gate| format!(" [gate {gate}]")).unwrap_or_default();
        let seq = self.seq.map_or_else(|| "-".to_owned(), |seq| format!("#{seq}"));
        let amount = format!("(+{} -{})", self.size.insertions, self.size.deletions);
        format!("{id} {} {session} {seq} {subject} {amount}{gate}", self.time)
    }
}

impl FileLines {
    /// Returns its approximate size in a response, in bytes.
    fn size_bytes(&self) -> usize {
        self.path.len() + FILE_BYTES
    }

    /// Converts one file to the form of the response.
    fn of(file: &FileStat) -> Self {
        let path = String::from_utf8_lossy(&file.path).into_owned();
        Self { path, insertions: file.insertions, deletions: file.deletions }
    }

    /// Returns one line of text.
    fn line(&self) -> String {
        let amount = amount_text(self.insertions, self.deletions);
        format!("{} | {amount}", escaped::name(&self.path))
    }
}

/// Sessions so far, each with its column.
#[derive(Default)]
struct SessionColumns(Vec<String>);

impl SessionColumns {
    /// Returns the columns before the line of a snapshot, and before its other lines.
    fn of(&mut self, entry: &LoggedSnapshot, text: &Text) -> (String, String) {
        let session = entry.session.clone().unwrap_or_default();
        let known = self.0.iter().position(|other| *other == session);
        let at = known.unwrap_or_else(|| {
            self.0.push(session);
            self.0.len() - 1
        });
        let column = |mark: &str| -> String {
            let marks = (0..self.0.len()).map(|column| if column == at { mark } else { "| " });
            marks.collect()
        };
        let mark = text.paint(Paint::Bold, "*");
        (column(&format!("{mark} ")), column("| "))
    }
}

/// Returns the number of snapshots; by default a person gets more, because there is a pager.
fn limit_of(engine: &Engine, requested: Option<usize>) -> usize {
    let default =
        || if engine.is_for_a_person() { PERSON_LIMIT } else { engine.policy().size(Key::LogLimit) };
    unlimited_if_0(requested.unwrap_or_else(default))
}

/// Start of the list of snapshots.
#[derive(Default)]
struct LogStart {
    /// After this snapshot.
    snapshot: Option<String>,
    /// At or after this time.
    time: Option<SystemTime>,
}

impl LogStart {
    /// Returns the meaning of `text`.
    fn parse(store: &Store, text: &str) -> Result<Self, Error> {
        let from = |time: SystemTime| Self { time: Some(time), snapshot: None };
        if let Some(duration) = duration(text) {
            return Ok(from(SystemTime::now().checked_sub(duration).unwrap_or(UNIX_EPOCH)));
        }
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Ok(from(time.into()));
        }
        if let Ok(date) = text.parse::<jiff::civil::Date>()
            && let Ok(time) = date.to_zoned(jiff::tz::TimeZone::UTC)
        {
            return Ok(from(time.timestamp().into()));
        }
        let Some(id) = store.resolve(text)? else { return Err(since_error(store, text)) };
        // A commit that is not a snapshot means its time.
        Ok(match store.time_of_foreign(&id)? {
            Some(seconds) => from(UNIX_EPOCH + Duration::from_secs(seconds.try_into().unwrap_or_default())),
            None => Self { snapshot: Some(id), time: None },
        })
    }
}

/// Returns a duration such as `2h` or `1h30m`; `None` for other texts.
fn duration(text: &str) -> Option<Duration> {
    if text.len() > DURATION_CHARS_MAX {
        return None;
    }
    let span = text.parse::<jiff::Span>().ok()?;
    span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok()
}

/// Returns the error for an invalid `since`.
fn since_error(store: &Store, text: &str) -> Error {
    if text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return no_snapshot(text, "since", &store.near(text));
    }
    Error::invalid(format!(
        "field `since`: expected a snapshot's id, a time such as 2026-01-31T12:00:00Z, or how long ago such as 2h, got {text:?}"
    ))
    .detail("field", "since")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        for (text, seconds) in [
            ("2h", Some(7200)),
            ("1h30m", Some(5400)),
            ("1w", Some(604_800)),
            ("90s", Some(90)),
            ("2", None),
            ("h", None),
            ("2x", None),
            ("", None),
            ("1234567d", None),
        ] {
            assert_eq!(duration(text).map(|duration| duration.as_secs()), seconds, "{text}");
        }
    }
}
