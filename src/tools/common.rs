//! Helpers of several tools: options, lists, bounds, refusals of files, and a change of one file.

use std::borrow::Cow;
use std::fmt::{Debug, Write as _};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::Text;
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::change::gate::{Needs, quoted};
use crate::engine::change::shown_lines::NotFound;
use crate::engine::change::{CallerKnowledge, Change, CheckedFile, Current};
use crate::engine::policy::Policy;
use crate::engine::policy::settings::Key;
use crate::engine::store::session::ReplacedLines;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::search::entry::Notes;
use crate::search::page::{Budget, Offered, Window, json_bytes};
use crate::sha256::Sha256;
use crate::text::content::{Content, Encoding, Unsupported, View, looks_binary};
use crate::text::counted::counted;
use crate::text::lines::LineSpan;
use crate::text::{checked, diff, lines, omission};

/// Bytes of a diff that nobody asked for, a file.
const DIFF_BYTES: usize = 300;
/// Places listed beside their count.
pub const PLACES_LISTED: usize = 20;

/// Whether a list of an answer shows all entries.
#[derive(Debug, Clone, Copy, Default, Serialize, schemars::JsonSchema)]
pub struct ListEnd {
    /// True where not all are listed; `max_bytes: 0` lists them all
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// How many there are, if not all are listed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
}

impl ListEnd {
    /// Leaves of a list as many entries as an answer has room for, the first at least; `bytes_max` is what
    /// the request says, where 0 lifts the bound.
    pub fn of<T: Serialize>(engine: &Engine, bytes_max: Option<usize>, list: &mut Vec<T>) -> Self {
        let total = list.len();
        // A small bound on a diff is none on the list.
        let bytes_max = if bytes_max == Some(0) { 0 } else { engine.bytes_max(None) as u64 };
        let mut page = Budget::new(Window { offset: 0, limit: 0, bytes_max });
        list.retain(|entry| page.offer(|| json_bytes(entry)) == Offered::Kept);
        let truncated = list.len() < total;
        Self { truncated, total: truncated.then_some(total) }
    }

    /// Says in text that not all entries are shown.
    pub fn note(self, listed: usize, text: &mut Text) {
        if let Some(total) = self.total {
            text.note(format!("{listed} of {total} are listed"));
        }
    }
}

/// Returns the first entries that fit into `bytes_max`, and at least one; 0 lifts the bound.
pub(super) fn fitting<T>(
    bytes_max: usize,
    entries: impl Iterator<Item = T>,
    bytes: impl Fn(&T) -> usize,
) -> Vec<T> {
    let (mut listed, mut size) = (Vec::new(), 0_usize);
    for entry in entries {
        size = size.saturating_add(bytes(&entry));
        if bytes_max > 0 && size > bytes_max && !listed.is_empty() {
            break;
        }
        listed.push(entry);
    }
    listed
}

/// Returns what ends a search at its time limit, which is the policy's if the request names none; 0 lifts it.
pub(super) fn search_control(engine: &Engine, timeout_ms: Option<u64>) -> Control {
    match timeout_ms.unwrap_or(engine.policy().number(Key::SearchMs)) {
        0 => engine.control.clone(),
        limit => engine.control.clone().within(Duration::from_millis(limit)),
    }
}

/// Warns of what a search noted, and of a path that is shown lossily.
pub(super) fn warn_of_search(engine: &mut Engine, mut notes: Notes, has_lossy_path: bool) {
    let lossy = "a path is not valid UTF-8: its other bytes are shown as U+FFFD";
    notes.extend(has_lossy_path.then(|| lossy.to_owned()));
    notes.into_lines().into_iter().for_each(|note| engine.warn(note));
}

/// Returns how many lines came and went, or that they were not compared.
pub(super) fn amount_text(insertions: Option<usize>, deletions: Option<usize>) -> String {
    match (insertions, deletions) {
        (Some(insertions), Some(deletions)) => format!("+{insertions} -{deletions}"),
        _ => "binary".to_owned(),
    }
}

/// What every call that changes files takes.
#[derive(Debug, Clone, Default, clap::Args, serde::Deserialize, schemars::JsonSchema)]
#[group(skip)]
pub struct ChangeOptions {
    /// Show what would change without changing anything
    #[arg(long)]
    #[serde(default)]
    pub dry_run: bool,
    /// Reason for the change, recorded in the snapshot
    #[arg(long, value_name = "TEXT")]
    #[schemars(extend("x-aliases" = ["description", "instruction", "summary", "explanation"]))]
    pub why: Option<String>,
}

/// What every call takes that changes the content of files.
#[derive(Debug, Clone, Default, clap::Args, serde::Deserialize, schemars::JsonSchema)]
#[group(skip)]
pub struct ContentOptions {
    /// Whether to do it, and why.
    #[command(flatten)]
    #[serde(flatten)]
    pub change: ChangeOptions,
    /// Include the diff in the response
    #[arg(long)]
    #[serde(default)]
    pub diff: bool,
    /// Maximum bytes of diff per file; 0 for no limit, of the list of files as well
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
}

impl ContentOptions {
    /// Returns the diffs that the answer holds; the policy bounds those that were asked for without a bound.
    #[must_use]
    pub fn diff_wanted(&self, policy: &Policy) -> DiffWanted {
        let default = if self.diff { policy.max_bytes() } else { DIFF_BYTES };
        let is_wanted = self.diff || self.change.dry_run;
        DiffWanted { bytes_max: is_wanted.then(|| self.max_bytes.unwrap_or(default)) }
    }
}

/// How much of the diff of a file an answer holds.
#[derive(Debug, Clone, Copy)]
pub struct DiffWanted {
    /// Its bytes at the most, 0 for no bound; `None` where no diff is wanted.
    bytes_max: Option<usize>,
}

impl DiffWanted {
    /// Returns the diff of one file, if any is wanted.
    #[must_use]
    pub fn of(self, shown: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> Option<String> {
        let bytes_max = self.bytes_max?;
        let name = |side: &str, bytes: Option<&[u8]>| {
            bytes.map_or_else(|| "/dev/null".to_owned(), |_| format!("{side}/{shown}"))
        };
        let (old_name, new_name) = (name("a", before), name("b", after));
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        Some(diff::unified(&old_name, &new_name, &body_of(before), &body_of(after), bytes_max))
    }
}

/// Returns the text of a file; its bytes where they are none.
fn body_of(bytes: &[u8]) -> Cow<'_, [u8]> {
    View::of(bytes).map_or(Cow::Borrowed(bytes), |view| view.body)
}

/// Decodes a file for changing it.
///
/// # Errors
/// Returns `unsupported_encoding`.
pub fn decode(current: &Current) -> Result<Content, Error> {
    let shown = current.place().shown();
    Content::decode(current.bytes().to_vec()).map_err(|unsupported| unsupported_encoding(shown, &unsupported))
}

/// Returns the same without a copy of its bytes, where they need not be decoded.
///
/// # Errors
/// Returns `unsupported_encoding`.
pub fn view(current: &Current) -> Result<View<'_>, Error> {
    let shown = current.place().shown();
    View::of(current.bytes()).map_err(|unsupported| unsupported_encoding(shown, &unsupported))
}

/// Returns the error for a file whose encoding could not be written back unchanged.
#[must_use]
pub fn unsupported_encoding(shown: &str, Unsupported(what): &Unsupported) -> Error {
    Error::new(
        ErrorKind::UnsupportedEncoding,
        format!("{shown} {what}: as text it could not be written back unchanged"),
    )
    .at(shown)
}

/// Refuses a new text that a file in an encoding of single bytes cannot take: nobody knows which bytes its characters
/// have there.
///
/// # Errors
/// Returns `unsupported_encoding` that names the character.
pub fn must_be_encodable(encoding: Encoding, new: &[u8], shown: &str) -> Result<(), Error> {
    if encoding != Encoding::Bytes || new.is_ascii() {
        return Ok(());
    }
    let Ok(text) = std::str::from_utf8(new) else { return Ok(()) };
    let mut lines = text.lines().zip(1..);
    let found = lines
        .find_map(|(line, number)| Some((line.chars().find(|character| !character.is_ascii())?, number)));
    let Some((character, line)) = found else { return Ok(()) };
    let message = format!(
        "{shown} is not UTF-8, and line {line} of the new text has `{character}` (U+{:04X}), whose bytes in the encoding of {shown} are not known",
        u32::from(character)
    );
    Err(Error::new(ErrorKind::UnsupportedEncoding, message)
        .at(shown)
        .suggest("Write this text in ASCII, or convert the file to UTF-8 first (`iconv`) and read it again."))
}

/// Refuses a new text with a line that only says that something is left out, unless the old text
/// has that line too.
///
/// # Errors
/// Returns `invalid_request` that names the line.
pub fn must_leave_nothing_out(new: &[u8], old: &[u8], field: &str, shown: &str) -> Result<(), Error> {
    let Some((line, text)) = omission::first_omission(new, old) else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(text).into_owned();
    let message = format!(
        "line {line} of {field} is a placeholder for omitted text, `{text}`: it would replace that text in {shown}"
    );
    Err(Error::invalid(message)
        .at(shown)
        .detail("field", field)
        .detail("line", line)
        .detail("text", text)
        .suggest(
            "Give the whole text. With `sketch`, `edit` keeps what such lines stand for. If the line is meant literally, set allow_omission to true.",
        ))
}

/// Returns the line of a change in the snapshot log: from the root, whatever the caller's folder.
#[must_use]
pub fn subject(tool: &str, paths: &[WorkspacePath]) -> String {
    match paths {
        [path] => format!("{tool}: {path}"),
        paths => format!("{tool}: {}", counted(paths.len(), "file")),
    }
}

/// Refuses a file that would be larger than the policy lets one be.
///
/// # Errors
/// Returns `too_large`.
pub fn must_fit(policy: &Policy, shown: &str, bytes: usize) -> Result<(), Error> {
    checked::must_fit(bytes, policy.file_bytes()).map_err(|fault| fault.error(shown))
}

/// Refuses a file that must be there and is not.
///
/// # Errors
/// Returns `not_found`, with near names.
pub fn must_exist(change: &mut Change<'_>, current: &Current) -> Result<(), Error> {
    if current.exists() { Ok(()) } else { Err(change.engine().workspace.not_found(current.place())) }
}

/// Refusals of several files, so that one answer names them all.
#[derive(Debug, Default)]
pub struct Refusals {
    /// Those of files that the caller has not read.
    unread: Vec<Error>,
    /// The others.
    others: Vec<Error>,
}

impl Refusals {
    /// Keeps the refusal of a file for later.
    ///
    /// # Errors
    /// Returns `error` if it is about no file, or all refusals once they fill an answer.
    pub fn keep(&mut self, error: Error) -> Result<(), Error> {
        if error.path().is_none() || error.kind() == ErrorKind::LockTimeout {
            return Err(error);
        }
        if error.kind() == ErrorKind::NotRead {
            self.unread.push(error);
            return Ok(());
        }
        self.others.push(error);
        if self.others.len() < PLACES_LISTED { Ok(()) } else { std::mem::take(self).refuse() }
    }

    /// Ends the call if any file was refused.
    ///
    /// # Errors
    /// Returns `not_read`, which names all files that were not read, else the first refusal; `details.refused` lists the
    /// others.
    pub fn refuse(mut self) -> Result<(), Error> {
        let paths: Vec<String> = self.unread.iter().filter_map(Error::path).map(str::to_owned).collect();
        let listed: Vec<Value> = self.others.iter().map(refusal_json).collect();
        let first = (!self.others.is_empty()).then(|| self.others.remove(0));
        let more = match self.others.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        match (self.unread.pop(), first) {
            (None, None) => Ok(()),
            (None, Some(first)) if more.is_empty() => Err(first),
            (None, Some(first)) => Err(first.add_to_message(&more).detail("refused", listed)),
            (Some(only), None) if self.unread.is_empty() => Err(only),
            (Some(only), first) => {
                let error = if self.unread.is_empty() { only } else { all_unread(&paths) };
                Err(match first {
                    Some(first) => also_refused(error, first.message(), &more, listed),
                    None => error,
                })
            }
        }
    }
}

/// Adds to the refusal of files that were not read what else is wrong.
#[must_use]
pub fn also_refused(error: Error, message: &str, more: &str, listed: impl Into<Value>) -> Error {
    error.add_to_message(&format!("; also, {message}{more}")).detail("refused", listed)
}

/// Returns one refusal for programs.
fn refusal_json(error: &Error) -> Value {
    json!({ "path": error.path(), "kind": error.kind(), "message": error.message() })
}

/// Returns the error for several files that were not read.
fn all_unread(paths: &[String]) -> Error {
    let shown = paths.get(..PLACES_LISTED).unwrap_or(paths);
    let mut names = shown.join(", ");
    if shown.len() < paths.len() {
        names.push_str(", …");
    }
    let command: Vec<_> = shown.iter().map(|path| quoted(path)).collect();
    Error::new(
        ErrorKind::NotRead,
        format!("refusing to change {}: Read them first", counted(paths.len(), "file")),
    )
    .at(paths.first().cloned().unwrap_or_default())
    .suggest_running(
        format!("Read {names}"),
        format!("lbx read {}", command.join(" ")),
        ", then repeat the call.",
    )
    .detail("unread", shown.to_vec())
}

/// Parses octal permission bits such as `0755`.
///
/// # Errors
/// Returns `invalid_request` for anything but 0000 to 0777.
pub fn parse_mode(text: &str) -> Result<u32, Error> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if mode <= 0o777 && digits.len() <= 4 && !digits.starts_with('+') => Ok(mode),
        _ => Err(Error::invalid(format!(
            "mode {text:?}: expected octal permission bits from 0000 to 0777, such as 0644"
        ))
        .detail("field", "mode")),
    }
}

/// Now, in seconds since 1970.
#[must_use]
pub fn time_now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Returns a time in seconds since 1970 as RFC 3339, UTC.
#[must_use]
pub fn time_text(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// Returns the bytes of a file, to see how a request is meant; `None` where they cannot be read.
#[must_use]
pub fn bytes_at(workspace: &Workspace, place: &ResolvedPath) -> Option<Vec<u8>> {
    /// Most that is looked at.
    const BYTES_MAX: u64 = 64 << 20;
    let (file, stat) = workspace.open_regular(place.path(), place.shown()).ok()?;
    fs::read_to_end(file, fs::size_of(&stat), BYTES_MAX).ok()
}

/// A change of one file in progress, by a tool.
pub(super) struct FileChange<'e, 'r> {
    /// The change itself.
    pub change: Change<'e>,
    /// The tool.
    tool: &'static str,
    /// The file, as the request names it.
    path: &'r Path,
    /// SHA-256 of the bytes that the caller takes it to have.
    expected_sha256: Option<Sha256>,
    /// What the caller wants of the change and its answer.
    options: &'r ContentOptions,
    /// The lines that it replaces, where the tool knows them.
    pub replaced: Option<Vec<ReplacedLines>>,
}

impl<'e, 'r> FileChange<'e, 'r> {
    /// Begins the change.
    pub fn begin(
        engine: &'e mut Engine,
        tool: &'static str,
        path: &'r Path,
        expected_sha256: Option<Sha256>,
        options: &'r ContentOptions,
    ) -> Result<Self, Error> {
        let change = engine.begin(tool, &[("path", path)], options.change.dry_run)?;
        Ok(Self { change, tool, path, expected_sha256, options, replaced: None })
    }

    /// Returns true if one of the session's last `changes` came of this very request and still stands; `what` is what
    /// the request says beside the path and the SHA-256.
    pub fn is_repeated(&mut self, what: impl Debug, changes: u64) -> Result<bool, Error> {
        let request = (self.tool, self.path, self.expected_sha256, what);
        Ok(self.change.repeated(Sha256::of(format!("{request:?}").as_bytes()), changes)?.is_some())
    }

    /// Looks at the file, or at the place where there is none yet.
    pub fn look(&self) -> Result<Current, Error> {
        self.change.look_at(self.path)
    }

    /// Looks at the file.
    pub fn look_at_existing(&mut self) -> Result<Current, Error> {
        let current = self.look()?;
        must_exist(&mut self.change, &current)?;
        Ok(current)
    }

    /// Returns the gate.
    pub fn prove(&mut self, current: Current, needs: Needs<'_>) -> Result<CheckedFile, Error> {
        self.change.prove(current, self.expected_sha256, needs)
    }

    /// Returns the gate of a change that needs no proof: one that is given is checked all the same.
    pub fn check(&mut self, current: Current) -> Result<CheckedFile, Error> {
        if self.expected_sha256.is_some() {
            return self.prove(current, Needs::Any);
        }
        Ok(current.without_proof())
    }

    /// Puts the new bytes in place of what was seen, and commits; answers the diff where one is wanted.
    pub fn commit(
        mut self,
        seen: CheckedFile,
        bytes: Vec<u8>,
        mode: Option<u32>,
        known: CallerKnowledge,
    ) -> Result<Option<String>, Error> {
        let current = seen.current();
        let before = current.exists().then(|| current.bytes());
        let wanted = self.options.diff_wanted(self.change.policy());
        let diff = wanted.of(current.place().shown(), before, Some(&bytes));
        let subject = subject(self.tool, &[current.place().path().clone()]);
        self.change.put(seen, bytes, mode, known);
        self.change.note_replaced(self.replaced);
        self.change.commit(subject, self.options.change.why.clone())?;
        Ok(diff)
    }
}

/// Lines that a refusal shows.
const SHOWN_LINES: u64 = 40;
/// Bytes of one of them.
const LINE_BYTES: usize = 400;

/// Returns the error for lines that are named by number and are not as they were shown; it has the present lines, which
/// count as shown then.
pub(super) fn lines_not_as_shown(
    change: &mut Change<'_>,
    current: &Current,
    body: &[u8],
    (span, why): (LineSpan, NotFound),
) -> Error {
    let (name, total) = (current.place().shown(), lines::count(body));
    let (kind, message, near) = match why {
        NotFound::NeverShown(line) if line > total => (
            ErrorKind::StaleFile,
            format!("line {line} of {name} was never shown: it has {total} lines"),
            (total.saturating_sub(2).max(1), total),
        ),
        NotFound::NeverShown(line) => (
            ErrorKind::NotRead,
            format!("line {line} of {name} was never shown in this session"),
            (span.first.max(1), span.last.min(total)),
        ),
        NotFound::Changed(first, last) => {
            (ErrorKind::StaleFile, format!("{span} of {name} changed since it was shown"), (first, last))
        }
    };
    let error = Error::new(kind, message).at(name);
    if total == 0 {
        return error.suggest("The file is empty: add text with `append`.");
    }
    if looks_binary(body) {
        return error.suggest("The file is no text: read it with `binary`, or leave it alone.");
    }
    let near = (near.0, near.1.min(near.0 + SHOWN_LINES - 1));
    if !change.engine_ref().is_dry_run() {
        change.note_shown(current, near);
    }
    error
        .suggest("details.lines has the present lines with their numbers: repeat the call with these.")
        .detail("lines", numbered_lines(body, near))
}

/// Returns lines with their numbers, as `read` numbers them.
pub(super) fn numbered_lines(body: &[u8], (first, last): (u64, u64)) -> String {
    let mut text = String::new();
    let skipped = usize::try_from(first.saturating_sub(1)).unwrap_or(usize::MAX);
    for (number, line) in (first..=last).zip(lines::lines(body).skip(skipped)) {
        let line = lines::without_ending(line);
        let line = String::from_utf8_lossy(line.get(..LINE_BYTES).unwrap_or(line)).into_owned();
        let _ = writeln!(text, "{number}\t{line}");
    }
    text
}
