//! Native calls that a foreign tool makes.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::Stat;
use serde_json::{Value, json};

use crate::app::options::Options;
use crate::app::{AskPerson, Call, Proposal};
use crate::control::Control;
use crate::engine::CallNotes;
use crate::engine::change::record;
use crate::engine::policy::Policy;
use crate::engine::store::calls::Delivery;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::platform;
use crate::search::collect::with_rest;
use crate::sha256::Sha256;
use crate::text::content::Content;
use crate::text::escaped;
use crate::tools::common::reject_if;
use crate::tools::{Image, Tool, ToolEntry, entry_of, log, ls, read};

/// Function that opens the workspace of a call.
pub type Opener<'a> = &'a dyn Fn() -> Result<Workspace, Error>;

/// Largest file that is read outside a native call, in bytes.
const PEEK_BYTES_MAX: u64 = 1 << 30;

/// Metadata of a file or folder.
#[derive(Debug)]
pub struct FileMetadata {
    /// Size in bytes.
    pub size: u64,
    /// Time of creation, in seconds since 1970.
    pub created: i64,
    /// Time of the last change of the content, in seconds since 1970.
    pub modified: i64,
    /// Time of the last read, in seconds since 1970.
    pub accessed: i64,
    /// True if it is a folder.
    pub is_folder: bool,
    /// True if it is a regular file.
    pub is_file: bool,
    /// Permission bits.
    pub mode: u32,
}

/// Client that makes native calls for one foreign call.
pub struct LbxClient<'a> {
    /// Function that opens the workspace, once for each native call.
    open: Opener<'a>,
    /// Absolute path that means the root of the workspace, if the family has one.
    pub(super) root_name: Option<&'static str>,
    /// Session and other options of the call.
    pub(super) options: &'a Options,
    /// Cancellation and progress of the foreign call.
    control: Control,
    /// Warnings and the newest snapshot of the native calls so far.
    pub outcome: CallNotes,
    /// Work of the native calls so far that waits until the foreign call has shown their lines.
    pub deliveries: Vec<Delivery>,
    /// Images of the native calls so far.
    images: Vec<Image>,
    /// Function that asks a person before each change.
    ask: Option<&'a AskPerson<'a>>,
}

impl<'a> LbxClient<'a> {
    /// Returns a client for the session of the options.
    pub fn new(open: Opener<'a>, options: &'a Options, control: Control) -> Self {
        let (outcome, deliveries, images) = (CallNotes::default(), Vec::new(), Vec::new());
        Self { open, root_name: None, options, control, outcome, deliveries, images, ask: None }
    }

    /// Opens the workspace.
    fn workspace(&self) -> Result<Workspace, Error> {
        Ok((self.open)()?.with_root_name(self.root_name))
    }

    /// Asks a person before each change.
    #[must_use]
    pub fn with_confirmation(self, ask: Option<&'a AskPerson<'a>>) -> Self {
        Self { ask, ..self }
    }

    /// Calls a native tool and returns its data.
    ///
    /// # Errors
    /// Returns the error of the tool.
    pub fn call<T: Tool + 'static>(&mut self, request: Value) -> Result<Value, Error> {
        self.call_entry(None, entry_of::<T>(), request)
    }

    /// Calls a native tool, with paths relative to a folder of the workspace, if one is given.
    ///
    /// # Errors
    /// Returns the error of the tool, or fails if there is no such folder.
    pub fn call_in<T: Tool + 'static>(
        &mut self,
        folder: Option<&Path>,
        request: Value,
    ) -> Result<Value, Error> {
        self.call_entry(folder, entry_of::<T>(), request)
    }

    /// Calls a native tool without its type.
    fn call_entry(
        &mut self,
        folder: Option<&Path>,
        entry: &'static ToolEntry,
        request: Value,
    ) -> Result<Value, Error> {
        let open = || match folder {
            Some(folder) => self.workspace()?.counting_from(folder),
            None => self.workspace(),
        };
        let (options, control) = (self.options, &self.control);
        let change = Proposal { open: &open, tool: entry, request: &request, options, control };
        let call = change.ask_consent(self.ask)?;
        let mut called = call.run_unshown(|engine| (entry.run_json)(engine, request));
        if let Some(failed) = called.delivery.as_mut().filter(|_| called.answered.is_err()) {
            failed.seen.clear();
        }
        self.deliveries.extend(called.delivery);
        self.outcome.warnings.extend(called.outcome.warnings);
        self.outcome.changed |= called.outcome.changed;
        self.outcome.snapshot = called.outcome.snapshot.or(self.outcome.snapshot.take());
        let mut reply = called.answered?;
        self.images.extend(reply.take_images());
        reply.value()
    }

    /// Counts as read what the native calls have read, since the foreign call shows it all; returns a warning, if there is
    /// one.
    pub fn count_as_read(&mut self) -> Option<String> {
        let seen = self.deliveries.iter_mut().flat_map(|call| std::mem::take(&mut call.seen)).collect();
        let last = self.deliveries.last_mut()?;
        last.seen = seen;
        last.save()
    }

    /// Notes that the foreign call shows only these lines, from 1, of what the last native call has read.
    pub fn shows_only(&mut self, first: u64, last: u64) {
        if let Some(seen) = self.deliveries.iter_mut().rev().find_map(|call| call.seen.last_mut()) {
            seen.lines = std::mem::take(&mut seen.lines).within(first, last);
        }
    }

    /// Drops what the native calls after the first `calls` have read.
    fn forget_after(&mut self, calls: usize) {
        self.deliveries.iter_mut().skip(calls).for_each(|call| call.seen.clear());
    }

    /// Calls a native tool for facts that the foreign call does not show, so that nothing counts as read.
    ///
    /// # Errors
    /// Returns the error of the tool.
    pub fn call_unshown<T: Tool + 'static>(&mut self, request: Value) -> Result<Value, Error> {
        let before = self.deliveries.len();
        let data = self.call::<T>(request);
        self.forget_after(before);
        data
    }

    /// Returns the image in a file; empty if the file is something else.
    ///
    /// # Errors
    /// Returns the error of `read`.
    pub fn image(&mut self, path: &str) -> Result<Vec<Image>, Error> {
        let before = self.deliveries.len();
        self.call::<read::Read>(json!({ "path": path, "binary": "base64", "max_bytes": 0 }))?;
        if self.images.is_empty() {
            self.forget_after(before);
        }
        Ok(std::mem::take(&mut self.images))
    }

    /// Returns the data of `read`, or the images if it is the file of an image.
    ///
    /// # Errors
    /// Returns the error of `read`, for binary files that are no images too.
    pub fn text_or_images(&mut self, path: &str, request: Value) -> Result<Result<Value, Vec<Image>>, Error> {
        match self.call::<read::Read>(request) {
            Err(error) if error.kind() == ErrorKind::BinaryFile => {
                let images = self.image(path)?;
                if images.is_empty() { Err(error) } else { Ok(Err(images)) }
            }
            data => data.map(Ok),
        }
    }

    /// Returns the bytes of a file in base64, whatever they are.
    ///
    /// # Errors
    /// Returns the error of `read`.
    pub fn base64_of(&mut self, path: &str) -> Result<String, Error> {
        let (calls, warnings) = (self.deliveries.len(), self.outcome.warnings.len());
        let asked = json!({ "path": path, "binary": "base64", "max_bytes": 0, "limit": 0 });
        let data = match self.call::<read::Read>(asked) {
            Err(error) if error.kind() != ErrorKind::UnsupportedEncoding => return Err(error),
            // A file in an encoding that has no text is only bytes.
            read => read.unwrap_or_default(),
        };
        let image = std::mem::take(&mut self.images).pop().map(|image| image.base64);
        if let Some(base64) = image.or_else(|| Some(data.get("base64")?.as_str()?.to_owned())) {
            return Ok(base64);
        }
        // `read` answers with the decoded text, and warns of what that loses.
        self.outcome.warnings.truncate(warnings);
        let bytes = self.bytes_of(path)?;
        if Sha256::of(&bytes).to_hex() != text(&data, "sha256") {
            self.forget_after(calls);
        }
        Ok(STANDARD.encode(bytes))
    }

    /// Returns the bytes of a file for internal use, so that it does not count as read.
    ///
    /// # Errors
    /// Fails if there is no such file, or it is too large.
    pub fn bytes_of(&self, path: &str) -> Result<Vec<u8>, Error> {
        let workspace = self.workspace()?;
        let place = workspace.resolve(Path::new(path))?;
        if place.stat().is_some_and(fs::is_folder) {
            return Err(Error::new(ErrorKind::IsADirectory, format!("{path} is a directory")).at(path));
        }
        let (file, stat) = workspace.open_file(&place)?;
        fs::read_to_end(file, fs::size_of(&stat), PEEK_BYTES_MAX)
            .map_err(|error| Error::io("read", path, error))
    }

    /// Returns the text of a file for internal use, as an edit sees it, so that the file does not count as read. Bytes that
    /// are no text are replaced.
    ///
    /// # Errors
    /// Fails if there is no such file, or it is too large.
    pub fn read_unmarked(&self, path: &str) -> Result<String, Error> {
        let bytes = self.bytes_of(path)?;
        let body = Content::of(&bytes, None).map_or(Cow::Borrowed(bytes.as_slice()), |content| content.body);
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Returns the real absolute path of the entry at `path`.
    ///
    /// # Errors
    /// Fails if the path cannot be resolved.
    pub fn real(&self, path: &str) -> Result<PathBuf, Error> {
        let workspace = self.workspace()?;
        let place = workspace.resolve(Path::new(path))?;
        Ok(workspace.root().join(place.path().as_path()).components().collect())
    }

    /// Lists the directory that the request names; `ls` itself also lists a file.
    ///
    /// # Errors
    /// Returns `not_a_directory` for a file, or the error of `ls`.
    pub fn list_folder(&mut self, asked: Value) -> Result<Value, Error> {
        let path = text(&asked, "path");
        if self.facts(path).is_ok_and(|facts| !facts.is_folder) {
            return Err(Error::new(ErrorKind::NotADirectory, format!("{path} is not a directory")).at(path));
        }
        self.call::<ls::Ls>(asked)
    }

    /// Returns the metadata of the file or folder at `path`.
    ///
    /// # Errors
    /// Returns `not_found`, or fails if the path cannot be resolved.
    pub fn facts(&self, path: &str) -> Result<FileMetadata, Error> {
        let workspace = self.workspace()?;
        let place = workspace.resolve(Path::new(path))?;
        let stat = place.stat().ok_or_else(|| workspace.not_found(&place))?;
        Ok(FileMetadata {
            size: fs::size_of(stat),
            created: platform::birth_beneath(workspace.root_fd(), place.path().as_path())
                .unwrap_or(stat.st_ctime),
            modified: stat.st_mtime,
            accessed: stat.st_atime,
            is_folder: fs::is_folder(stat),
            is_file: fs::is_regular(stat),
            mode: fs::mode_of(stat),
        })
    }

    /// Returns the bytes of a file in a snapshot.
    ///
    /// # Errors
    /// Returns `not_found` if there is no such snapshot, or no such file in it.
    pub fn file_in_snapshot(&self, id: &str, path: &Path) -> Result<Vec<u8>, Error> {
        let mut found = None;
        let entry = entry_of::<log::Log>();
        let call =
            Call::in_workspace(self.workspace()?, entry, self.options)?.with_control(self.control.clone());
        let called = call.run_with(|engine| {
            found = record::file_at(engine, id, path)?;
            (entry.run_json)(engine, json!({ "limit": 1 }))
        });
        called.answered?;
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("snapshot {id} has no file {}", path.display()))
        })
    }

    /// Returns `path` as an absolute path without `.`.
    ///
    /// # Errors
    /// Fails if the workspace cannot be opened.
    pub fn absolute(&self, path: &str) -> Result<PathBuf, Error> {
        Ok(self.base()?.join(path).components().collect())
    }

    /// Returns the absolute path that relative paths refer to.
    ///
    /// # Errors
    /// Fails if the workspace cannot be opened.
    pub fn base(&self) -> Result<PathBuf, Error> {
        let workspace = self.workspace()?;
        let base =
            workspace.base().components().fold(workspace.root().to_owned(), |path, name| path.join(name));
        Ok(base)
    }

    /// Returns the absolute path of the workspace root.
    ///
    /// # Errors
    /// Fails if the workspace cannot be opened.
    pub fn root(&self) -> Result<PathBuf, Error> {
        Ok(self.workspace()?.root().to_owned())
    }

    /// Returns the default size of a response, in bytes.
    ///
    /// # Errors
    /// Fails if the workspace cannot be opened, or its policy is invalid.
    pub fn max_bytes(&self) -> Result<usize, Error> {
        Ok(Policy::load(&self.workspace()?, &self.options.policy)?.max_bytes())
    }

    /// Returns the stat of the entry at `path`, if there is one.
    fn stat(&self, path: &str) -> Result<Option<Stat>, Error> {
        Ok(self.workspace()?.resolve(Path::new(path))?.stat().copied())
    }

    /// Returns the size of the entry at `path` in bytes, or 0 without an entry.
    ///
    /// # Errors
    /// Fails if the path cannot be resolved.
    pub fn size_of(&self, path: &str) -> Result<u64, Error> {
        Ok(self.stat(path)?.as_ref().map_or(0, fs::size_of))
    }

    /// Returns true if `path` exists.
    ///
    /// # Errors
    /// Fails if the path cannot be resolved.
    pub fn exists(&self, path: &str) -> Result<bool, Error> {
        Ok(self.stat(path)?.is_some())
    }

    /// Returns true if `path` is a folder.
    ///
    /// # Errors
    /// Fails if the path cannot be resolved.
    pub fn is_folder(&self, path: &str) -> Result<bool, Error> {
        Ok(self.stat(path)?.as_ref().is_some_and(fs::is_folder))
    }
}

/// Lines of context around a change in a snippet.
const SNIPPET_CONTEXT: u64 = 4;

/// Returns a string field of a response.
pub(super) fn text<'v>(data: &'v Value, field: &str) -> &'v str {
    data.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the path of an entry for display.
pub(super) fn display(entry: &Value) -> Cow<'_, str> {
    escaped::name(text(entry, "path"))
}

/// Returns an absolute path for display.
pub(super) fn shown_path(path: &Path) -> String {
    escaped::name(&path.to_string_lossy()).into_owned()
}

/// Returns the paths in a list of a response for display, one per line.
pub(super) fn shown_lines(data: &Value, field: &str) -> String {
    texts(data, field).into_iter().map(escaped::name).collect::<Vec<_>>().join("\n")
}

/// Returns a number field of a response.
pub(super) fn number(data: &Value, field: &str) -> u64 {
    data.get(field).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns a boolean field of a response.
pub(super) fn flag(data: &Value, field: &str) -> bool {
    data.get(field).and_then(Value::as_bool).unwrap_or_default()
}

/// Returns a list of a response; empty if it is absent.
pub(super) fn list<'v>(data: &'v Value, field: &str) -> &'v [Value] {
    data.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the strings in a list of a response.
pub(super) fn texts<'v>(data: &'v Value, field: &str) -> Vec<&'v str> {
    list(data, field).iter().filter_map(Value::as_str).collect()
}

/// Returns the paths of a response as absolute paths, for display.
///
/// # Errors
/// Fails if the workspace cannot be opened.
pub(super) fn absolute_paths(lbx: &LbxClient<'_>, data: &Value) -> Result<Vec<String>, Error> {
    let base = lbx.base()?;
    Ok(texts(data, "paths").into_iter().map(|path| shown_path(&base.join(path))).collect())
}

/// Returns the text of a match, with a placeholder for what is not shown of its line.
pub(super) fn match_text(found: &Value) -> Cow<'_, str> {
    with_rest(text(found, "text"), found.get("line_bytes").and_then(Value::as_u64))
}

/// Returns the lines of a match with those before and after it: the number of each, true for the match, and its text.
pub(super) fn match_lines(found: &Value) -> impl Iterator<Item = (u64, bool, String)> {
    let (line, before) = (number(found, "line"), texts(found, "before"));
    let first = line.saturating_sub(before.len() as u64);
    let text = match_text(found);
    let around =
        |lines: Vec<&str>| lines.into_iter().map(|line| (false, line.to_owned())).collect::<Vec<_>>();
    let matched = text.split('\n').map(|line| (true, line.to_owned()));
    let lines = [around(before), matched.collect(), around(texts(found, "after"))].concat();
    (first..).zip(lines).map(|(number, (is_match, text))| (number, is_match, text))
}

/// Returns the matches of a `grep` response, in the lists of their files.
pub(super) fn by_file(matches: &[Value]) -> impl Iterator<Item = &[Value]> {
    matches.chunk_by(|one, next| text(one, "path") == text(next, "path"))
}

/// Returns the lines of a `read` response, each with its number as `form` writes it, and which lines these are: as many
/// as fit `bytes_max` with their numbers, 0 for all, and at least one. The others do not count as read. A line may end in
/// CR, see [`without_cr`].
pub(super) fn numbered(
    lbx: &mut LbxClient<'_>,
    data: &Value,
    bytes_max: usize,
    form: impl Fn(u64, &str) -> String,
) -> (String, ShownReadLines) {
    let mut shown = ShownReadLines::of(data);
    let mut said = String::new();
    for (line, number) in text(data, "content").split_terminator(terminator(data)).zip(shown.first..) {
        let line = form(number, line);
        if bytes_max > 0 && number > shown.first && said.len() + line.len() >= bytes_max {
            shown.end_at(number - 1);
            lbx.shows_only(shown.first, shown.last);
            break;
        }
        if number > shown.first {
            said.push('\n');
        }
        said.push_str(&line);
    }
    (said, shown)
}

/// Returns a line without the CR of its CRLF.
pub(super) fn without_cr(line: &str) -> &str {
    line.strip_suffix('\r').unwrap_or(line)
}

/// Returns the character at which the lines of a `read` response end.
pub(super) fn terminator(data: &Value) -> char {
    if text(data, "line_ending") == "cr" { '\r' } else { '\n' }
}

/// Rejects an empty list of edits: lbx's own `edit` takes that for no list.
pub(super) fn must_have_edits<E>(edits: &[E]) -> Result<(), Error> {
    reject_if(edits.is_empty(), "edits", "`edits` is empty: give at least one edit")
}

/// Lines of a file that a `read` response shows.
pub(super) struct ShownReadLines {
    /// First line.
    pub first: u64,
    /// Last line; one less than the first if the range is empty.
    pub last: u64,
    /// Lines in the file.
    pub total: u64,
    /// Lines of which only the start is shown.
    clipped: Vec<u64>,
}

impl ShownReadLines {
    /// Returns the lines that a response shows.
    pub fn of(data: &Value) -> Self {
        let mut clipped: Vec<u64> = list(data, "clipped").iter().map(|line| number(line, "line")).collect();
        let cut = data.get("next_column").map(|_| number(data, "next_offset") + 1);
        clipped.extend(cut.filter(|line| !clipped.contains(line)));
        let [first, last, total] = ["start_line", "end_line", "total_lines"].map(|field| number(data, field));
        Self { first, last, total, clipped }
    }

    /// Ends the lines earlier.
    fn end_at(&mut self, last: u64) {
        self.last = last;
        self.clipped.retain(|line| *line <= last);
    }

    /// Returns a line number; a negative one counts from the end of the file.
    pub fn line(&self, line: i64) -> u64 {
        u64::try_from(line).unwrap_or_else(|_| (self.total + 1).saturating_sub(line.unsigned_abs()))
    }

    /// Returns true if requested lines are missing: up to `asked_last`, or up to the end of the file if that is `None`.
    pub fn stop_early(&self, asked_last: Option<u64>) -> bool {
        self.last < self.total && asked_last.is_none_or(|asked| self.last < asked)
    }

    /// Returns a sentence that names the lines of which only the start is shown.
    pub fn clipped(&self) -> Option<String> {
        let numbers = self.clipped.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self.clipped.len() {
            0 => None,
            1 => Some(format!("Only the start of line {numbers} is shown.")),
            _ => Some(format!("Only the starts of lines {numbers} are shown.")),
        }
    }

    /// Returns sentences about the requested lines that are missing; `how` tells how to read the rest in this family.
    pub fn missing_lines_text(&self, asked_last: Option<u64>, how: &str) -> Option<String> {
        let Self { first, last, total, .. } = self;
        let rest = self
            .stop_early(asked_last)
            .then(|| format!("Lines {first} to {last} of {total} are shown. {how} to read the rest."));
        let sentences: Vec<String> = rest.into_iter().chain(self.clipped()).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }
}

/// Removes the warning of `read` that the requested lines are past the end: the text of the family says so.
pub(super) fn drop_past_end_warning(lbx: &mut LbxClient<'_>, data: &Value) {
    let ShownReadLines { first, total, .. } = ShownReadLines::of(data);
    let warning = read::past_end(first, text(data, "path"), total);
    lbx.outcome.warnings.retain(|known| *known != warning);
}

/// Returns the last line of a request for `limit` lines from `first`; `None` if it asks for all that fit.
pub(super) fn last_asked(first: u64, limit: Option<u64>) -> Option<u64> {
    limit.filter(|limit| *limit > 0).map(|limit| first.saturating_add(limit - 1))
}

/// Returns a number with its noun, in the plural unless the number is one.
pub(super) fn count_of(count: u64, noun: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { noun } else { plural })
}

/// Returns the lines of a file around its first changed place, numbered as `cat -n` does; or the reason why they cannot be
/// shown: the change is made.
pub(super) fn snippet(lbx: &mut LbxClient<'_>, path: &str, changed: (u64, u64)) -> String {
    let start = changed.0.saturating_sub(SNIPPET_CONTEXT).max(1);
    let end = changed.1.max(changed.0).saturating_add(SNIPPET_CONTEXT);
    let asked = json!({ "path": path, "start_line": start, "end_line": end });
    let shown = lbx.call::<read::Read>(asked).and_then(|data| {
        let bytes_max = lbx.max_bytes()?;
        Ok(numbered(lbx, &data, bytes_max, |number, line| cat_n(number, without_cr(line))).0)
    });
    shown.unwrap_or_else(|error| not_shown(&error))
}

/// Returns the text for lines of a changed file that cannot be shown.
pub(super) fn not_shown(error: &Error) -> String {
    format!("({})", error.message())
}

/// Returns a line as `cat -n` prints it.
pub(super) fn cat_n(number: u64, line: &str) -> String {
    format!("{number:6}\t{line}")
}

/// Returns the lines of the first replacement in a response of `edit`.
pub(super) fn first_replacement(data: &Value) -> (u64, u64) {
    let first = list(data, "replacements").first();
    let line = |field| first.map_or(1, |place| number(place, field));
    (line("start_line"), line("end_line"))
}

/// Returns a directory and its content as a tree: `bullet` and a name per line, without the entries that match the
/// globs of `ignore`.
///
/// # Errors
/// Returns the error of `ls`, or fails if `path` is a file or a pattern is not a glob.
pub(super) fn tree(
    lbx: &mut LbxClient<'_>,
    path: &str,
    ignore: Option<&[String]>,
    limit: u64,
    bullet: &str,
) -> Result<String, Error> {
    let ignored = globs(ignore.unwrap_or_default())?;
    let data = lbx.list_folder(json!({ "path": path, "recursive": true, "limit": limit }))?;
    let (root, base) = (lbx.absolute(path)?, lbx.base()?);
    let mut lines = vec![format!("{bullet}{}/", shown_path(&root))];
    for entry in list(&data, "entries") {
        let path = base.join(text(entry, "path"));
        let below = path.strip_prefix(&root).unwrap_or(&path);
        if !ignored.is_match(below) {
            let name = shown_path(Path::new(below.file_name().unwrap_or_default()));
            let slash = if text(entry, "type") == "dir" { "/" } else { "" };
            lines.push(format!("{}{bullet}{name}{slash}", "  ".repeat(below.components().count())));
        }
    }
    if flag(&data, "truncated") {
        let (shown, total) = (list(&data, "entries").len(), number(&data, "total"));
        lines.push(format!(
            "(These are the first {shown} of {total} entries. List a directory inside to see the rest.)"
        ));
    }
    Ok(lines.join("\n"))
}

/// Compiles globs that match a path or any part of it, as the `ignore` lists of these families do.
///
/// # Errors
/// Returns `invalid_request` if a pattern is not a glob.
pub(super) fn globs(patterns: &[String]) -> Result<globset::GlobSet, Error> {
    let forms = patterns.iter().flat_map(|pattern| {
        let bare = pattern.trim_end_matches('/');
        [bare.to_owned(), format!("**/{bare}"), format!("**/{bare}/**")]
    });
    glob_set(forms, false)
}

/// Compiles globs that match a whole path relative to a folder; `*` matches within one name.
///
/// # Errors
/// Returns `invalid_request` if a pattern is not a glob.
pub(super) fn relative_globs(patterns: impl IntoIterator<Item = String>) -> Result<globset::GlobSet, Error> {
    glob_set(patterns, true)
}

/// Compiles globs.
fn glob_set(
    globs: impl IntoIterator<Item = String>,
    is_literal_separator: bool,
) -> Result<globset::GlobSet, Error> {
    let mut set = globset::GlobSetBuilder::new();
    for glob in globs {
        let built = globset::GlobBuilder::new(&glob).literal_separator(is_literal_separator).build();
        set.add(built.map_err(|error| Error::invalid(format!("{glob:?} is not a glob: {}", error.kind())))?);
    }
    set.build()
        .map_err(|error| Error::invalid(format!("the globs cannot be used together: {}", error.kind())))
}
