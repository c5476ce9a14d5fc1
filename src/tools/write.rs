//! `write`: all of a file's content.

use std::path::PathBuf;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ContentOptions, DiffWanted, must_fit, must_leave_nothing_out, parse_mode, subject};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::{Change, Current, Known, Needs};
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::content::{Content, Encoding, View};
use crate::text::counted::counted;
use crate::text::diff;
use crate::text::escaped;
use crate::text::lines::{self, LineEnding};

/// Create a file, or replace all of its content
///
/// A file that exists must have been read in this session and be unchanged since. Missing folders
/// are made. The content is stored exactly as given, as UTF-8. Content that the file holds already
/// changes nothing.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// File to write
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file", "target_file"]))]
    pub path: PathBuf,
    /// All of the file's new content
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["contents", "file_text", "text", "new_content"]))]
    pub content: String,
    /// Store the line endings as given, or turn them into those of the file that is replaced
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    #[serde(default)]
    pub line_ending: Endings,
    /// SHA-256 of the file's bytes as last seen, in place of a read
    #[arg(long, value_name = "HEX")]
    pub expected_sha256: Option<Sha256>,
    /// Refuse where the file exists already
    #[arg(long)]
    #[serde(default)]
    pub create_only: bool,
    /// Accept content with a line that only says that something is left out
    #[arg(long)]
    #[serde(default)]
    pub allow_omission: bool,
    /// Permission bits, octal such as 0755
    #[arg(long, value_name = "OCTAL")]
    pub mode: Option<String>,
    /// Whether to do it, why, and how much of it to show.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ContentOptions,
}

/// What to do with the line endings of the content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Endings {
    /// Stored as given
    #[default]
    AsIs,
    /// Turned into those of the file that is replaced, where these are uniform
    Keep,
}

/// What was written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The file
    pub path: String,
    /// SHA-256 of its bytes now
    pub sha256: Sha256,
    /// Bytes in it
    pub size: u64,
    /// Whether there was no such file before
    pub created: bool,
    /// Lines that are new
    pub lines_added: u64,
    /// Lines that are gone
    pub lines_removed: u64,
    /// True where the file held these bytes already: nothing was touched
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub already_applied: bool,
    /// What changed, as a unified diff
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// The tool.
pub struct Write;

impl Tool for Write {
    const NAME: &'static str = "write";
    const ALIASES: &'static [&'static str] = &["write_file", "create_file"];
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Bulk { field: "content", unless: &[] };
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, mut request: Request) -> Result<Response, Error> {
        let mode = request.mode.as_deref().map(parse_mode).transpose()?;
        let mut change = engine.begin(Self::NAME, &[&request.path], request.options.change.dry_run)?;
        // Only a request that names old bytes can differ from one that finds its result.
        let is_repeated = request.expected_sha256.is_some() && change.is_repeated(request.digest())?;
        let current = change.look_at(&request.path)?;
        let bytes =
            with_endings(std::mem::take(&mut request.content).into_bytes(), &current, request.line_ending);
        must_fit(change.policy(), current.place().shown(), bytes.len())?;
        if current.exists()
            && current.bytes() == bytes
            && mode.is_none_or(|mode| current.mode() == Some(mode))
        {
            return already_applied(&mut change, current, &request, is_repeated);
        }
        if request.create_only && current.exists() {
            let shown = current.place().shown();
            return Err(Error::new(ErrorKind::AlreadyExists, format!("{shown} exists already")).at(shown));
        }
        if !request.allow_omission {
            let old = View::of(current.bytes()).map(|old| old.body).unwrap_or_default();
            must_leave_nothing_out(&bytes, &old, "content", current.place().shown())?;
        }
        // Only permission bits differ: there is nothing to lose that the caller does not hold.
        let seen = if current.exists() && current.bytes() == bytes && request.expected_sha256.is_none() {
            current.without_proof()
        } else {
            change.prove(current, request.expected_sha256, Needs::All)?
        };
        warn(&mut change, seen.current(), &bytes);
        let wanted = request.options.diff_wanted(change.engine().policy());
        let response = Response::of(seen.current(), &bytes, wanted);
        let subject = subject(Self::NAME, &[seen.current().place().path().clone()]);
        change.put(seen, bytes, mode, Known::Everything);
        change.commit(subject, request.options.change.why)?;
        Ok(response)
    }

    fn text(response: &Response, text: &mut Text) {
        response.as_text(Self::NAME, text);
    }
}

impl Response {
    /// The answer to a change of `current` to `bytes`.
    #[must_use]
    pub fn of(current: &Current, bytes: &[u8], wanted: DiffWanted) -> Self {
        let counts = diff::counts(current.bytes(), bytes);
        let before = current.exists().then(|| current.bytes());
        Self {
            path: current.place().shown().to_owned(),
            sha256: Sha256::of(bytes),
            size: bytes.len() as u64,
            created: !current.exists(),
            lines_added: counts.added,
            lines_removed: counts.removed,
            already_applied: false,
            diff: wanted.of(current.place().shown(), before, Some(bytes)),
        }
    }

    /// The answer where the file has these bytes already.
    #[must_use]
    pub fn already_applied(current: &Current) -> Self {
        Self {
            path: current.place().shown().to_owned(),
            sha256: current.sha256(),
            size: current.bytes().len() as u64,
            created: false,
            lines_added: 0,
            lines_removed: 0,
            already_applied: true,
            diff: None,
        }
    }

    /// One line for a person.
    pub fn as_text(&self, tool: &str, text: &mut Text) {
        let what = if self.already_applied {
            "unchanged".to_owned()
        } else if self.created {
            format!("created, {}", counted(self.size, "byte"))
        } else {
            format!("+{} -{}", self.lines_added, counted(self.lines_removed, "line"))
        };
        text.change(&format!("{tool}: {} ({what})", escaped::name(&self.path)));
        if let Some(diff) = &self.diff {
            text.out.extend_from_slice(diff.as_bytes());
        }
    }
}

/// The answer where the file holds the content already; the caller has seen all of it. An
/// `expected_sha256` that it gives is checked all the same.
fn already_applied(
    change: &mut Change<'_>,
    current: Current,
    request: &Request,
    is_repeated: bool,
) -> Result<Response, Error> {
    let expected = request.expected_sha256.filter(|_| !is_repeated);
    let seen = match expected {
        Some(_) => change.prove(current, expected, Needs::All)?,
        None => current.without_proof(),
    };
    if !request.options.change.dry_run {
        change.note_seen(seen.current());
    }
    Ok(Response::already_applied(seen.current()))
}

impl Request {
    /// By what a repeated request is known.
    fn digest(&self) -> Sha256 {
        let what = ("write", &self.path, self.line_ending, &self.mode, self.expected_sha256, &self.content);
        Sha256::of(format!("{what:?}").as_bytes())
    }
}

/// The content with the line endings of the file that it replaces, where that was asked for.
fn with_endings(content: Vec<u8>, current: &Current, endings: Endings) -> Vec<u8> {
    if endings == Endings::AsIs || !current.exists() {
        return content;
    }
    let old = Content::decode(current.bytes().to_vec()).ok();
    match old.and_then(|old| old.line_ending().bytes()) {
        Some(ending) => lines::with_ending(&content, ending),
        None => content,
    }
}

/// Says what a writer may not have meant.
fn warn(change: &mut Change<'_>, current: &Current, bytes: &[u8]) {
    if !current.exists() {
        return;
    }
    let shown = current.place().shown().to_owned();
    let mut warnings = Vec::new();
    if let Ok(old) = Content::decode(current.bytes().to_vec()) {
        let (before, after) = (old.line_ending(), LineEnding::of(bytes));
        if before == LineEnding::Crlf && after == LineEnding::Lf {
            warnings.push(format!(
                "{shown} had CRLF line endings and now has LF; line_ending \"keep\" would keep them"
            ));
        }
        let has_bom = bytes.starts_with(crate::text::content::UTF8_BOM);
        if old.encoding != Encoding::Utf8 {
            warnings.push(format!("{shown} was {} and is now utf-8", old.encoding.name()));
        } else if old.bom && !has_bom {
            warnings.push(format!("{shown} began with a byte-order mark and now does not"));
        }
    }
    for warning in warnings {
        change.engine().warn(warning);
    }
}
