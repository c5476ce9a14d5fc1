//! `blame`: the call that each line of a file came from.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ID_DIGITS, time_text};
use super::{Effect, Paint, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::history::client_calls::{Turn, Turns};
use crate::engine::history::replay::Direction;
use crate::engine::journal;
use crate::engine::snapshot::{BASELINE, Blame as Found, LineOrigin};
use crate::engine::store::session::SessionId;
use crate::engine::store::state::State;
use crate::engine::workspace::fs;
use crate::error::{Error, ErrorKind};
use crate::limits::{BLAME_TIME_MAX, BLAMED_BYTES_MAX};
use crate::text::content::{body_of, looks_binary};
use crate::text::{escaped, lines};

/// Bytes of a range in the response, besides its texts.
const RANGE_BYTES: usize = 120;
/// Number of characters of a title in the text form.
const TITLE_SHOWN: usize = 30;
/// Author of lines that no agent wrote.
const DEVELOPER: &str = "developer";

/// Show which session, call, turn and snapshot each line of a file came from
///
/// Lines that no agent touched belong to the developer: those from before the first snapshot, and those changed without
/// lbx. Follows the file through renames. Ignores line endings.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// File to explain
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file"]))]
    pub path: PathBuf,
    /// First line, from 1
    #[arg(long, value_name = "LINE")]
    #[schemars(extend("x-aliases" = ["startLine"]))]
    pub start_line: Option<usize>,
    /// Last line
    #[arg(long, value_name = "LINE")]
    #[schemars(extend("x-aliases" = ["endLine"]))]
    pub end_line: Option<usize>,
    /// Maximum bytes of the response; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
}

/// Origin of the lines.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Path
    pub path: String,
    /// Lines in the file
    pub total_lines: usize,
    /// Lines in order; consecutive lines from one call are one range
    pub ranges: Vec<BlameRange>,
    /// True if the list is cut
    pub truncated: bool,
    /// `start_line` at which to continue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_line: Option<usize>,
    /// Lines of the file, for the text form.
    #[serde(skip)]
    texts: Vec<String>,
    /// Most bytes of the text form; 0 for no limit.
    #[serde(skip)]
    text_bytes_max: usize,
}

/// Lines that came from one call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlameRange {
    /// First line, from 1
    pub start_line: usize,
    /// Last line
    pub end_line: usize,
    /// `session`, or `developer` if no agent touched them
    pub by: &'static str,
    /// Session that made the change
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Tool
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Number of the change in the session
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Number of the first change of its turn
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// Title of the turn, if the policy keeps titles
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Time, as RFC 3339; for the developer's lines, of the first snapshot
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Snapshot
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Reason for the change
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Path of the file at that time, if different
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// True if a client began the turn, so that the text form names it.
    #[serde(skip)]
    is_of_client: bool,
}

/// Turns of the changes of a file, by session and number.
type TurnsByChange = BTreeMap<(String, u64), Turn>;

/// Returns the turns of the changes that a file's lines came from; lines that a redo wrote are of the turn that was
/// done again.
fn turns_of(engine: &Engine, found: &Found) -> Result<TurnsByChange, Error> {
    let Some(state) = State::find(&engine.workspace)? else { return Ok(BTreeMap::new()) };
    let mut by_session: BTreeMap<&str, Turns> = BTreeMap::new();
    let mut by_change = BTreeMap::new();
    for LineOrigin { snapshot, .. } in &found.origins {
        // The name comes from a commit, and becomes that of a file.
        if snapshot.seq == 0 || snapshot.session.parse::<SessionId>().is_err() {
            continue;
        }
        let session = snapshot.session.as_str();
        if !by_session.contains_key(session) {
            by_session.insert(session, Turns::load(&state, session)?);
        }
        let redone = if snapshot.tool == Direction::Redo.name() {
            journal::history_entry(&state, session, snapshot.seq)?
        } else {
            None
        };
        let seq = redone.and_then(|entry| entry.reverts.first().copied()).unwrap_or(snapshot.seq);
        let turn = by_session.get(session).map(|turns| turns.of(seq));
        by_change.extend(turn.map(|turn| ((session.to_owned(), snapshot.seq), turn)));
    }
    Ok(by_change)
}

/// `blame` tool.
pub struct Blame;

impl Tool for Blame {
    const NAME: &'static str = "blame";
    const EFFECT: Effect = Effect::Reads;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    const STDIN: Stdin = Stdin::Request;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let place = engine.workspace.resolve(&request.path)?;
        let shown = place.display().to_owned();
        let (file, stat) = engine.workspace.open_file(&place)?;
        let size = fs::size_of(&stat);
        if size > BLAMED_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("{shown} has {size} bytes")).at(&shown));
        }
        let bytes = fs::read_to_end(file, size, BLAMED_BYTES_MAX)
            .map_err(|error| Error::io("read", &shown, error))?;
        if looks_binary(&bytes) {
            return Err(Error::new(
                ErrorKind::BinaryFile,
                format!("{shown} is a binary file: it has no lines"),
            )
            .at(&shown));
        }
        let bytes = body_of(&bytes);
        let found = match record::find(engine)? {
            Some(store) => store.blame(place.path().as_bytes(), &bytes, Instant::now() + BLAME_TIME_MAX)?,
            None => Found { lines: vec![None; lines::lines(&bytes).count()], ..Found::default() },
        };
        if found.truncated {
            engine
                .warn("there was no time to look at all snapshots: older lines are shown as the developer's");
        }
        let bytes_max = engine.bytes_max(request.max_bytes);
        let turns = turns_of(engine, &found)?;
        page(shown, place.path().as_bytes(), &bytes, &found, &turns, &request, bytes_max)
    }

    fn text(response: &Response, text: &mut Text) {
        let digits = response.total_lines.to_string().len();
        let names: Vec<String> = response.ranges.iter().map(BlameRange::name).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let (mut lines, mut size, mut next_line) = (response.texts.iter(), 0, response.next_line);
        let most = response.text_bytes_max;
        'ranges: for (range, name) in response.ranges.iter().zip(&names) {
            for number in range.start_line..=range.end_line {
                let line = lines.next().map(String::as_str).unwrap_or_default();
                size += width + digits + line.len();
                // A range of many lines is short as JSON.
                if most > 0 && size > most && lines.len() + 1 < response.texts.len() {
                    next_line = Some(number);
                    break 'ranges;
                }
                let who = format!("{name:width$}");
                let (id, who) = who.split_at_checked(ID_DIGITS).unwrap_or((&who, ""));
                let (id, number) =
                    (text.paint(Paint::Yellow, id), text.paint(Paint::Dim, &format!("{number:digits$})")));
                let line = format!("{id}{} {number} {}", escaped::line(who), escaped::line(line));
                if text.is_for_a_person() { text.styled(&line) } else { text.entry(&line) }
            }
        }
        if let Some(next) = next_line {
            text.note(format!("more lines: {}", text.option("start_line", next)));
        }
    }
}

/// Returns the requested part of the response.
fn page(
    shown: String,
    path: &[u8],
    bytes: &[u8],
    found: &Found,
    turns: &TurnsByChange,
    request: &Request,
    bytes_max: usize,
) -> Result<Response, Error> {
    let total_lines = found.lines.len();
    let (start, end) = (request.start_line.unwrap_or(1), request.end_line.unwrap_or(total_lines));
    if start == 0 || (start > total_lines && start > 1) || end < start.min(total_lines) {
        return Err(Error::invalid(format!("{shown} has lines 1 to {total_lines}, not {start} to {end}"))
            .at(&shown)
            .detail("field", "start_line"));
    }
    let (mut ranges, mut texts, mut size): (Vec<BlameRange>, Vec<String>, usize) =
        (Vec::new(), Vec::new(), 0);
    let mut next_line = None;
    let wanted = found.lines.iter().zip(lines::lines(bytes)).enumerate();
    let mut last = None;
    for (index, (origin, line)) in wanted.skip(start - 1).take(end + 1 - start) {
        let number = index + 1;
        let origin = origin.and_then(|at| found.origins.get(at));
        let range = BlameRange::of(number, origin, path, turns);
        let is_new = last != Some(origin.map(|origin| &origin.snapshot.id));
        size += if is_new { range.size_bytes() } else { 0 };
        if bytes_max > 0 && size > bytes_max && !ranges.is_empty() {
            next_line = Some(number);
            break;
        }
        last = Some(origin.map(|origin| &origin.snapshot.id));
        match ranges.last_mut() {
            Some(known) if !is_new => known.end_line = number,
            _ => ranges.push(range),
        }
        texts.push(String::from_utf8_lossy(lines::without_ending(line)).into_owned());
    }
    Ok(Response {
        path: shown,
        total_lines,
        ranges,
        truncated: next_line.is_some(),
        next_line,
        texts,
        text_bytes_max: bytes_max,
    })
}

impl BlameRange {
    /// Returns one line with its origin.
    fn of(line: usize, origin: Option<&LineOrigin>, path: &[u8], turns: &TurnsByChange) -> Self {
        let nobody = Self { start_line: line, end_line: line, by: DEVELOPER, ..Self::default() };
        let Some(LineOrigin { snapshot, path: then }) = origin else { return nobody };
        let (time, id) = (time_text(snapshot.seconds), snapshot.id.clone());
        let range = Self { time: Some(time), snapshot: Some(id), ..nobody };
        if snapshot.session.is_empty() || snapshot.tool == BASELINE {
            return range;
        }
        let turn = turns.get(&(snapshot.session.clone(), snapshot.seq));
        Self {
            by: "session",
            turn: turn.map(|turn| turn.first),
            is_of_client: turn.is_some_and(Turn::is_of_client),
            title: turn.and_then(|turn| turn.title.clone()),
            session: Some(snapshot.session.clone()),
            tool: Some(snapshot.tool.clone()),
            seq: Some(snapshot.seq).filter(|seq| *seq > 0),
            why: snapshot.why.clone(),
            from: (then != path).then(|| String::from_utf8_lossy(then).into_owned()),
            ..range
        }
    }

    /// Returns its approximate size in a response, in bytes.
    fn size_bytes(&self) -> usize {
        let texts =
            [&self.session, &self.tool, &self.time, &self.snapshot, &self.why, &self.from, &self.title];
        RANGE_BYTES + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }

    /// Returns the author for the text form.
    fn name(&self) -> String {
        let id: String = self.snapshot.iter().flat_map(|id| id.chars()).take(ID_DIGITS).collect();
        let time = self.time.as_deref().unwrap_or_default();
        let who = match (&self.session, &self.tool, self.seq) {
            (Some(session), Some(tool), Some(seq)) => format!("{session} {tool} #{seq}"),
            (Some(session), Some(tool), None) => format!("{session} {tool}"),
            _ => DEVELOPER.to_owned(),
        };
        let turn = match (self.turn.filter(|_| self.is_of_client), &self.title) {
            (Some(first), Some(title)) => {
                format!(" turn {first} {:?}", title.chars().take(TITLE_SHOWN).collect::<String>())
            }
            (Some(first), None) => format!(" turn {first}"),
            (None, _) => String::new(),
        };
        format!("{id:ID_DIGITS$} {who}{turn} {time}").trim_end().to_owned()
    }
}
