//! Helpers of several tools: options, lists, limits, errors about files, and a change of one file.

use std::borrow::Cow;
use std::fmt::{Debug, Write as _};
use std::iter;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::Text;
use crate::control::Control;
use crate::engine::Engine;
use crate::engine::change::gate::{Needs, quoted};
use crate::engine::change::shown_lines::LineNotFound;
use crate::engine::change::{CallerKnowledge, Change, CheckedFile, LockedFile};
use crate::engine::policy::Policy;
use crate::engine::policy::settings::Key;
use crate::engine::store::session::LineSet;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind, Message, text};
use crate::search::entry::SearchWarnings;
use crate::search::page::{OfferResult, PageBudget, PageWindow, json_bytes};
use crate::sha256::Sha256;
use crate::text::charset::{self, Charset, Unencodable};
use crate::text::content::{Content, Encoding, UnsupportedText, looks_binary};
use crate::text::escaped::plural;
use crate::text::lines::LineSpan;
use crate::text::replaced_lines::ReplacedLines;
use crate::text::{checked, diff, lines, omission};

/// Bytes of diff per file if the request does not ask for a diff.
const DIFF_BYTES: usize = 300;
/// Largest number of places that are listed.
pub const PLACES_LISTED: usize = 20;

/// Returns true for zero: a count that a response leaves out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
pub(super) const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Completeness of a list in a response.
#[derive(Debug, Clone, Copy, Default, Serialize, schemars::JsonSchema)]
pub struct ListEnd {
    /// True if the list was cut; `max_bytes: 0` lists all
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Number of entries, if the list was cut
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
}

impl ListEnd {
    /// Cuts a list to the entries that a response has room for, at least one; `bytes_max` is the limit in the request,
    /// where 0 means no limit.
    pub fn of<T: Serialize>(engine: &Engine, bytes_max: Option<usize>, list: &mut Vec<T>) -> Self {
        let total = list.len();
        // A small limit on a diff does not limit the list.
        let bytes_max = if bytes_max == Some(0) { 0 } else { engine.bytes_max(None) as u64 };
        let mut page = PageBudget::new(PageWindow { offset: 0, limit: 0, bytes_max });
        list.retain(|entry| page.offer(|| json_bytes(entry)) == OfferResult::Kept);
        let truncated = list.len() < total;
        Self { truncated, total: truncated.then_some(total) }
    }

    /// Adds a note to the text if the list was cut.
    pub fn note(self, listed: usize, text: &mut Text) {
        if let Some(total) = self.total {
            text.note(format!("{listed} of {total} are listed"));
        }
    }
}

/// Returns the first entries that fit into `bytes_max`, at least one; 0 means no limit.
pub(super) fn fitting<T>(
    bytes_max: usize,
    entries: impl Iterator<Item = T>,
    bytes: impl Fn(&T) -> usize,
) -> Vec<T> {
    let mut page = PageBudget::new(PageWindow { offset: 0, limit: 0, bytes_max: bytes_max as u64 });
    entries.take_while(|entry| page.offer(|| bytes(entry) as u64) == OfferResult::Kept).collect()
}

/// Number of digits of an ID in the text form.
pub const ID_DIGITS: usize = 10;

/// Returns the largest number that a request allows: 0 means no limit.
pub const fn unlimited_if_0(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

/// Rejects a request if a field of it is wrong.
///
/// # Errors
/// Returns `invalid_request`.
pub fn reject_if(is_wrong: bool, field: &str, message: impl Into<Message>) -> Result<(), Error> {
    if is_wrong { Err(Error::invalid(message).detail("field", field)) } else { Ok(()) }
}

/// Rejects a request that gives any of these fields, each with true if it is given.
///
/// # Errors
/// Returns `invalid_request` about the first.
pub fn must_be_absent(fields: &[(&str, bool)], message: impl Fn(&str) -> String) -> Result<(), Error> {
    let first = fields.iter().find(|(_, is_given)| *is_given);
    first.map_or(Ok(()), |(field, _)| reject_if(true, field, message(field)))
}

/// Returns a control that ends a search at its time limit, by default that of the policy; 0 means no limit.
pub(super) fn search_control(engine: &Engine, timeout_ms: Option<u64>) -> Control {
    match timeout_ms.unwrap_or(engine.policy().number(Key::SearchMs)) {
        0 => engine.control.clone(),
        limit => engine.control.clone().with_time_limit(Duration::from_millis(limit)),
    }
}

/// Warning about a path that is shown lossily.
const LOSSY: &str = "a path is not valid UTF-8: its other bytes are shown as U+FFFD";

/// Warns if one of the listed paths is shown lossily.
pub(super) fn warn_of_lossy<'p>(engine: &mut Engine, mut paths: impl Iterator<Item = &'p [u8]>) {
    if paths.any(|path| std::str::from_utf8(path).is_err()) {
        engine.warn(LOSSY);
    }
}

/// Adds the warnings of a search, and one about a path that is shown lossily.
pub(super) fn warn_of_search(engine: &mut Engine, mut notes: SearchWarnings, has_lossy_path: bool) {
    notes.extend(has_lossy_path.then(|| LOSSY.to_owned()));
    notes.into_lines().into_iter().for_each(|note| engine.warn(note));
}

/// Returns the number of lines added and removed, or a note that they were not compared.
pub(super) fn amount_text(insertions: Option<usize>, deletions: Option<usize>) -> String {
    match (insertions, deletions) {
        (Some(insertions), Some(deletions)) => format!("+{insertions} -{deletions}"),
        _ => "binary".to_owned(),
    }
}

/// Options of every call that changes files.
#[derive(Debug, Clone, Default, clap::Args, serde::Deserialize, schemars::JsonSchema)]
#[group(skip)]
pub struct ChangeOptions {
    /// Show what would change without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Reason for the change, recorded in the snapshot
    #[arg(long, value_name = "TEXT")]
    #[schemars(extend("x-aliases" = ["description", "instruction", "summary", "explanation"]))]
    pub why: Option<String>,
}

/// Options of every call that changes the content of files.
#[derive(Debug, Clone, Default, clap::Args, serde::Deserialize, schemars::JsonSchema)]
#[group(skip)]
pub struct ContentOptions {
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub change: ChangeOptions,
    /// Encoding of the file if it is not UTF-8, such as windows-1252, euc-jp or gbk
    #[arg(long, value_name = "LABEL")]
    pub encoding: Option<Charset>,
    /// Include the diff in the response
    #[arg(long)]
    pub diff: bool,
    /// Maximum bytes of diff per file; 0 for no limit, also on the list of files
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
}

impl ContentOptions {
    /// Returns the diff limits of the response; the policy limits diffs that were requested without one.
    pub fn diff_wanted(&self, policy: &Policy) -> DiffWanted {
        let default = if self.diff { policy.max_bytes() } else { DIFF_BYTES };
        let is_wanted = self.diff || self.change.dry_run;
        let bytes_max = is_wanted.then(|| self.max_bytes.unwrap_or(default));
        DiffWanted { bytes_max, charset: self.encoding }
    }
}

/// Limit of the diff of a file in a response.
#[derive(Debug, Clone, Copy)]
pub struct DiffWanted {
    /// Limit in bytes, 0 for no limit; `None` for no diff.
    bytes_max: Option<usize>,
    /// Encoding of the file that the caller named.
    charset: Option<Charset>,
}

impl DiffWanted {
    /// Returns the diff of one file, if requested.
    pub fn of(self, shown: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> Option<String> {
        let bytes_max = self.bytes_max?;
        let (before, after) = (before.map(|old| self.body_of(old)), after.map(|new| self.body_of(new)));
        Some(diff::of_file(shown, before.as_deref(), after.as_deref(), bytes_max))
    }

    /// Returns the text of a file; its bytes if it is not text.
    fn body_of(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        let view = Content::of(bytes, self.charset).or_else(|_| Content::of(bytes, None));
        view.map_or(Cow::Borrowed(bytes), |view| view.body)
    }
}

/// Decodes a file, which is in the encoding that the caller named, if any.
///
/// # Errors
/// Returns `unsupported_encoding`.
pub fn view(current: &LockedFile, charset: Option<Charset>) -> Result<Content<'_>, Error> {
    let shown = current.place().display();
    Content::of(current.bytes(), charset).map_err(|unsupported| unsupported_encoding(shown, unsupported))
}

/// Returns the error for a file whose text could not be written back unchanged.
pub fn unsupported_encoding(shown: &str, unsupported: UnsupportedText) -> Error {
    let lossy = |what: &str| format!("{shown} {what}: as text it could not be written back unchanged");
    let error = |message: String| Error::new(ErrorKind::UnsupportedEncoding, message).at(shown);
    match unsupported {
        UnsupportedText::Utf32 => error(lossy("is UTF-32")),
        UnsupportedText::HalfUnit => {
            error(lossy("begins with the byte-order mark of UTF-16 but has an odd number of bytes"))
        }
        UnsupportedText::LoneSurrogate => {
            error(lossy("begins with the byte-order mark of UTF-16 but has a lone surrogate"))
        }
        UnsupportedText::Other(encoding, charset) => {
            error(format!("{shown} is {}, not {}", encoding.name(), charset.name()))
                .suggest("Leave `encoding` out.")
                .detail("field", "encoding")
        }
        UnsupportedText::Line(line, charset) => error(format!(
            "line {line} of {shown} has bytes that {} does not have, or has twice",
            charset.name()
        ))
        .suggest(
            "Name the encoding that the file is in, or leave `encoding` out: other bytes stay as they are.",
        )
        .detail("field", "encoding")
        .detail("line", line),
    }
}

/// Rejects a new text for the file `current` if its characters have no bytes in the encoding of the file, or none that
/// are known.
///
/// # Errors
/// Returns `unsupported_encoding` that names the character.
pub fn must_be_encodable(encoding: Encoding, new: &[u8], (shown, old): (&str, &[u8])) -> Result<(), Error> {
    let Ok(text) = std::str::from_utf8(new) else { return Ok(()) };
    if let Encoding::Named(charset) = encoding {
        let encoded = charset.encode(text);
        return encoded.map(drop).map_err(|missing| unencodable(shown, "the new text", missing));
    }
    if encoding != Encoding::Bytes || new.is_ascii() {
        return Ok(());
    }
    let mut lines = text.lines().zip(1..);
    let found = lines
        .find_map(|(line, number)| Some((line.chars().find(|character| !character.is_ascii())?, number)));
    let Some((character, line)) = found else { return Ok(()) };
    let message = format!(
        "{shown} is not UTF-8, and line {line} of the new text has `{character}` (U+{:04X}), whose bytes in the encoding of {shown} are not known",
        u32::from(character)
    );
    let likely = charset::likely_encodings(old).unwrap_or_default();
    Err(Error::new(ErrorKind::UnsupportedEncoding, message)
        .at(shown)
        .suggest(text!(
            "Write this text in ASCII, or convert the file to UTF-8 first (`iconv`) and read it again. Set `encoding` to store it in the encoding of the file, likely {}.",
            likely
        ))
        .detail("likely_encoding", likely))
}

/// Returns the error for a character of a text that the encoding of a file does not have.
pub fn unencodable(shown: &str, what: &str, missing: Unencodable) -> Error {
    let Unencodable { charset, character, line } = missing;
    let (name, number) = (charset.name(), u32::from(character));
    let message = format!(
        "line {line} of {what} has `{character}` (U+{number:04X}), which {name} does not have: {shown} was not changed"
    );
    Error::new(ErrorKind::UnsupportedEncoding, message).at(shown).suggest(format!(
        "Write this text with characters of {name}, or convert the file to UTF-8 first (`iconv`)."
    ))
}

/// Rejects a new text with a line that only marks omitted text, unless the old text has that line too.
///
/// # Errors
/// Returns `invalid_request` that names the line.
pub fn must_leave_nothing_out(new: &[u8], old: &[u8], field: &'static str, shown: &str) -> Result<(), Error> {
    let Some((line, text)) = omission::first_omission(new, old) else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(text).into_owned();
    let message = text!("line {} of ", line).followed_by(Message::name(field)).followed_by(text!(
        " is a placeholder for omitted text, `{}`: it would replace that text in {}",
        text,
        shown
    ));
    Err(Error::invalid(message)
        .at(shown)
        .detail("field", field)
        .detail("line", line)
        .detail("text", text)
        .suggest(
            "Give the whole text. With `sketch`, `edit` keeps what such lines stand for. If the line is meant literally, set `allow_omission` to true.",
        ))
}

/// Returns the line of a change in the snapshot log, with paths relative to the root.
pub fn subject(tool: &str, paths: &[WorkspacePath]) -> String {
    match paths {
        [path] => format!("{tool}: {path}"),
        paths => format!("{tool}: {}", plural(paths.len(), "file")),
    }
}

/// Rejects a file that would be larger than the policy allows.
///
/// # Errors
/// Returns `too_large`.
pub fn must_fit(policy: &Policy, shown: &str, bytes: usize) -> Result<(), Error> {
    checked::must_fit(bytes, policy.file_bytes()).map_err(|fault| fault.error(shown))
}

/// Returns the path of the entry that a request names, if it names one.
///
/// # Errors
/// Fails if the path cannot be resolved.
pub fn entry_at(engine: &Engine, path: Option<&Path>) -> Result<Option<WorkspacePath>, Error> {
    path.map(|path| Ok(engine.workspace.resolve_entry(path)?.path().clone())).transpose()
}

/// Rejects a missing file.
///
/// # Errors
/// Returns `not_found`, with similar names.
pub fn must_exist(change: &mut Change<'_>, current: &LockedFile) -> Result<(), Error> {
    if current.exists() { Ok(()) } else { Err(change.engine().workspace.not_found(current.place())) }
}

/// Errors about several files, so that one response names them all.
#[derive(Debug, Default)]
pub struct Refusals {
    /// Errors about files that the caller has not read.
    unread: Vec<Error>,
    /// Other errors.
    others: Vec<Error>,
}

impl Refusals {
    /// Keeps the error about a file for later.
    ///
    /// # Errors
    /// Returns `error` if it is not about a file, or all errors once they fill a response.
    pub fn keep(&mut self, error: Error) -> Result<(), Error> {
        if error.path().is_none() || error.kind() == ErrorKind::LockTimeout {
            return Err(error);
        }
        // An error that shows all lines that were missing needs no read.
        if error.kind() == ErrorKind::NotRead && error.suggested_command().is_some() {
            self.unread.push(error);
            return Ok(());
        }
        self.others.push(error);
        if self.others.len() < PLACES_LISTED { Ok(()) } else { std::mem::take(self).refuse() }
    }

    /// Ends the call if there is an error about any file.
    ///
    /// # Errors
    /// Returns `not_read`, which names all files that were not read, else the first error; `details.refused` lists the
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
            (None, Some(first)) => Err(first.add_to_message(more).detail("refused", listed)),
            (Some(only), None) if self.unread.is_empty() => Err(only),
            (Some(only), first) => {
                let error = if self.unread.is_empty() { only } else { all_unread(&paths) };
                Err(match first {
                    Some(first) => also_refused(error, first.into_message().followed_by(more), listed),
                    None => error,
                })
            }
        }
    }
}

/// Adds the other errors to the error about files that were not read.
pub fn also_refused(error: Error, message: Message, listed: impl Into<Value>) -> Error {
    error.add_to_message(Message::from("; also, ").followed_by(message)).detail("refused", listed)
}

/// Returns one error as JSON.
fn refusal_json(error: &Error) -> Value {
    let (path, kind, message) = (error.path(), json!(error.kind()), error.message());
    let lines = error.details().get("lines").map(|lines| ("lines", lines.clone()));
    [("path", path.into()), ("kind", kind), ("message", message.into())].into_iter().chain(lines).collect()
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
        format!("refusing to change {}: Read them first", plural(paths.len(), "file")),
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
/// Returns `invalid_request` unless the text is 0000 to 0777.
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

/// Returns the current time, in seconds since 1970.
pub fn time_now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Returns a time in seconds since 1970 as RFC 3339, UTC.
pub fn time_text(seconds: impl TryInto<i64>) -> String {
    let seconds = seconds.try_into().unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// Returns the bytes of a file, to interpret a request; `None` if they cannot be read.
pub fn bytes_at(workspace: &Workspace, place: &ResolvedPath) -> Option<Vec<u8>> {
    /// Largest file that is read.
    const BYTES_MAX: u64 = 64 << 20;
    let (file, stat) = workspace.open_regular(place.path(), place.display()).ok()?;
    fs::read_to_end(file, fs::size_of(&stat), BYTES_MAX).ok()
}

/// Change of one file by a tool, in progress.
pub(super) struct FileChange<'e, 'r> {
    /// Underlying change.
    pub change: Change<'e>,
    /// Name of the tool.
    tool: &'static str,
    /// Path of the file in the request.
    path: &'r Path,
    /// SHA-256 that the caller expects.
    expected_sha256: Option<Sha256>,
    /// Options of the change.
    options: &'r ContentOptions,
    /// Lines that it replaces, if the tool knows them.
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

    /// Returns true if one of the last `changes` of the session came from an equal request and is still in effect;
    /// `what` is the content of the request besides the path and the SHA-256.
    pub fn is_repeated(&mut self, what: impl Debug, changes: u64) -> Result<bool, Error> {
        let request = (self.tool, self.path, self.expected_sha256, self.options.encoding, what);
        let (request, names_version) =
            (Sha256::of(format!("{request:?}").as_bytes()), self.expected_sha256.is_some());
        Ok(self.change.repeated(request, changes, names_version)?.is_some())
    }

    /// Opens the file; it may not exist yet.
    pub fn open(&self) -> Result<LockedFile, Error> {
        self.change.open_current(self.path)
    }

    /// Opens a file that must exist.
    pub fn open_existing(&mut self) -> Result<LockedFile, Error> {
        let current = self.open()?;
        must_exist(&mut self.change, &current)?;
        Ok(current)
    }

    /// Checks the file at the gate.
    pub fn prove(&mut self, current: LockedFile, needs: Needs<'_>) -> Result<CheckedFile, Error> {
        self.change.prove(current, self.expected_sha256, needs)
    }

    /// Checks the file at the gate for a change that needs no proof; a given proof is still checked.
    pub fn check(&mut self, current: LockedFile) -> Result<CheckedFile, Error> {
        if self.expected_sha256.is_some() {
            return self.prove(current, Needs::Any);
        }
        Ok(current.without_proof())
    }

    /// Replaces the checked file with the new bytes, and commits; returns the diff if requested.
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
        let diff = wanted.of(current.place().display(), before, Some(&bytes));
        let subject = subject(self.tool, &[current.place().path().clone()]);
        self.change.put(seen, bytes, mode, known);
        self.change.note_replaced(self.replaced);
        self.change.commit(subject, self.options.change.why.clone())?;
        Ok(diff)
    }
}

/// Largest number of lines that an error shows.
const SHOWN_LINES: usize = 40;
/// Largest number of bytes of such a line.
const LINE_BYTES: usize = 400;

/// Ends the call if lines of a file are not as they were shown.
///
/// # Errors
/// Returns `not_read` or `stale_file` for the first of the `missed` lines. It has the present lines of all of them, which
/// then count as shown, and the smallest read of those for which it has no room.
pub(super) fn must_be_as_shown(
    change: &mut Change<'_>,
    current: &LockedFile,
    body: &[u8],
    missed: &[(LineSpan, LineNotFound)],
) -> Result<(), Error> {
    let Some((first, others)) = missed.split_first() else { return Ok(()) };
    let (name, all) = (current.place().display(), lines::all(body));
    let fault = |missed: &(LineSpan, LineNotFound)| not_as_shown(name, all.len() as u64, *missed);
    let (kind, message, first) = fault(first);
    let near = iter::once(first).chain(others.iter().map(|missed| fault(missed).2));
    let near = LineSet::from_ranges(near.collect(), usize::MAX);
    let mut error = Error::new(kind, message).at(name);
    if !others.is_empty() {
        error = error.add_to_message(format!(" (and {})", plural(others.len(), "other place")));
    }
    if all.is_empty() {
        return Err(error.suggest("The file is empty: add text with `append`."));
    }
    if looks_binary(body) {
        return Err(error.suggest("The file is no text: read it with `binary`, or leave it alone."));
    }
    let is_short = |number: u64| {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        all.get(at.wrapping_sub(1)).is_none_or(|line| lines::without_ending(line).len() <= LINE_BYTES)
    };
    let mut numbers = near.ranges().iter().flat_map(|&(first, last)| first..=last).zip(0..).peekable();
    let mut shown = Vec::new();
    while let Some((number, _)) = numbers.next_if(|&(number, at)| at < SHOWN_LINES && is_short(number)) {
        shown.push((number, number));
    }
    let (shown, rest) = (LineSet::from_ranges(shown, usize::MAX), numbers.next().map(|(number, _)| number));
    if !change.engine_ref().is_dry_run() {
        change.note_shown(current, shown.ranges());
    }
    if !shown.is_empty() {
        let text: String = shown.ranges().iter().map(|range| numbered_lines(body, *range)).collect();
        error = error.detail("lines", text);
    }
    Err(match rest.zip(near.ranges().last()) {
        Some((first, &(_, last))) => change.suggest_read(error, current, Some((first, last)), Needs::Any),
        None => error
            .suggest("`details.lines` has the present lines with their numbers: repeat the call with these."),
    })
}

/// Returns the kind of error for lines that are not as they were shown, its message, and the present lines to show.
fn not_as_shown(
    name: &str,
    total: u64,
    (span, why): (LineSpan, LineNotFound),
) -> (ErrorKind, String, (u64, u64)) {
    match why {
        LineNotFound::NeverShown(line) if line > total => (
            ErrorKind::StaleFile,
            format!("line {line} of {name} was never shown: it has {total} lines"),
            (total.saturating_sub(2).max(1), total),
        ),
        LineNotFound::NeverShown(line) => (
            ErrorKind::NotRead,
            format!("line {line} of {name} was never shown in this session"),
            (line.max(1), span.last.min(total)),
        ),
        LineNotFound::Changed(first, last) => {
            (ErrorKind::StaleFile, format!("{span} of {name} changed since it was shown"), (first, last))
        }
    }
}

/// New line that repeats the line just outside the lines that it replaces, such as a brace that is closed twice.
pub(super) struct RepeatedLine {
    /// Error message.
    pub message: String,
    /// Number of the line outside.
    pub outside: u64,
    /// Lines around both.
    around: (u64, u64),
}

impl RepeatedLine {
    /// Adds to an error how to go on, and the lines of the file.
    pub fn explain(&self, error: Error, body: &[u8]) -> Error {
        error
            .suggest(text!(
                "Leave the line out, or take line {} into the range. To have it twice, set `allow_repeat`.",
                self.outside
            ))
            .detail("lines", numbered_lines(body, self.around))
    }
}

/// Returns the line just outside `span` that the first or last of the `new` lines repeats.
pub(super) fn repeated_line(all: &[&[u8]], span: LineSpan, new: &[&[u8]]) -> Option<RepeatedLine> {
    let line = |number: u64| {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        all.get(at).map(|line| lines::without_ending(line))
    };
    let ends =
        new.first().zip(new.last()).map(|(first, last)| [first, last].map(|end| lines::without_ending(end)));
    let [first, last] = ends?;
    let sides = [
        ("first", first, span.first.saturating_sub(1), span.first),
        ("last", last, span.last.saturating_add(1), span.last),
    ];
    sides.into_iter().find_map(|(which, new, outside, inside)| {
        // If the old lines repeated it as well, this is intended.
        let is_repeated = line(outside) == Some(new) && line(inside) != Some(new);
        (is_repeated && !new.trim_ascii().is_empty()).then(|| RepeatedLine {
            message: format!(
                "the {which} new line is that of line {outside}, just outside {span}: {:?} would be there twice",
                String::from_utf8_lossy(new)
            ),
            outside,
            around: (span.first.min(outside).max(1), span.last.max(outside)),
        })
    })
}

/// Returns lines with their numbers, in the form of `read`.
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
