//! `write`: writes the whole content of a file.

use std::path::PathBuf;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{ContentOptions, FileChange, must_fit, must_leave_nothing_out, parse_mode, unencodable};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::gate::Needs;
use crate::engine::change::gate::RECENT;
use crate::engine::change::{CallerKnowledge, Change, LockedFile};
use crate::error::{Error, ErrorKind, Message, text};
use crate::sha256::Sha256;
use crate::text::charset::{self, Charset};
use crate::text::content::{Content, Encoding};
use crate::text::escaped::plural;
use crate::text::lines::{self, LineEnding};
use crate::text::{diff, escaped};

/// Create a file or replace its whole content
///
/// Missing folders are created. The content is stored exactly as given, as UTF-8 unless encoding names another one.
///
/// An existing file must have been read in this session and be unchanged since. Content that the file already has
/// changes nothing.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// File to write
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file", "target_file"]))]
    pub path: PathBuf,
    /// New content of the file
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["contents", "file_text", "text", "new_content"]))]
    pub content: String,
    /// Store line endings as given, or convert them to those of the file
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    #[serde(default)]
    pub line_ending: EndingConversion,
    /// SHA-256 of the file as last seen; replaces a prior read
    #[arg(long, value_name = "HEX")]
    pub expected_sha256: Option<Sha256>,
    /// Fail if the file exists
    #[arg(long)]
    pub create_only: bool,
    /// Allow a line that replaces omitted text, such as `... existing code ...`
    #[arg(long)]
    pub allow_omission: bool,
    /// Permission bits, octal such as 0755
    #[arg(long, value_name = "OCTAL")]
    pub mode: Option<String>,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ContentOptions,
}

/// Conversion of the line endings of the content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum EndingConversion {
    /// Stored as given
    #[default]
    AsIs,
    /// Converted to those of the existing file, if they are uniform
    Keep,
}

/// Result of the call.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Path
    pub path: String,
    /// SHA-256 of the file now
    pub sha256: Sha256,
    /// Size in bytes
    pub size: u64,
    /// True if the file is new
    pub created: bool,
    /// Lines added
    pub lines_added: u64,
    /// Lines removed
    pub lines_removed: u64,
    /// True if the file had these bytes already: nothing was changed
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub already_applied: bool,
    /// Change, as a unified diff
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// `write` tool.
pub struct Write;

impl Tool for Write {
    const NAME: &'static str = "write";
    const LISTED: &'static str = "path content create_only";
    const CORE: bool = true;
    const ALIASES: &'static [&'static str] = &["write_file", "create_file"];
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Bulk { field: "content", unless: &[] };
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, mut request: Request) -> Result<Response, Error> {
        let mode = request.mode.as_deref().map(parse_mode).transpose()?;
        let (expected, options) = (request.expected_sha256, &request.options);
        let mut file = FileChange::begin(engine, Self::NAME, &request.path, expected, options)?;
        // Any other repeat finds its result in the file: only a request with old bytes needs the history.
        if expected.is_some() {
            file.is_repeated((request.line_ending, &request.mode, &request.content), RECENT)?;
        }
        let current = file.open()?;
        let text = std::mem::take(&mut request.content);
        let text = match options.encoding {
            Some(charset) => charset
                .encode(&text)
                .map_err(|missing| unencodable(current.place().display(), "the new text", missing))?,
            None => text.into_bytes(),
        };
        let bytes = with_endings(text, &current, request.line_ending);
        must_fit(file.change.policy(), current.place().display(), bytes.len())?;
        let is_same = current.exists() && current.bytes() == bytes;
        if is_same && mode.is_none_or(|mode| current.mode() == Some(mode)) {
            // The caller has seen all of it. A given `expected_sha256` is still checked.
            let seen = file.check(current)?;
            if !options.change.dry_run {
                file.change.note_seen(seen.current());
            }
            return Ok(Response::already_applied(seen.current()));
        }
        if request.create_only && current.exists() {
            let shown = current.place().display();
            return Err(Error::new(ErrorKind::AlreadyExists, format!("{shown} exists already")).at(shown));
        }
        if !request.allow_omission {
            let old = Content::of(current.bytes(), None).map(|old| old.body).unwrap_or_default();
            must_leave_nothing_out(&bytes, &old, "content", current.place().display())?;
        }
        // Only permission bits differ: no bytes are lost that the caller does not have.
        let seen = if is_same { file.check(current)? } else { file.prove(current, Needs::All)? };
        warn(&mut file.change, seen.current(), &bytes, options.encoding);
        let response = Response::of(seen.current(), &bytes);
        let diff = file.commit(seen, bytes, mode, CallerKnowledge::Everything)?;
        Ok(Response { diff, ..response })
    }

    fn text(response: &Response, text: &mut Text) {
        response.as_text(Self::NAME, text);
    }
}

impl Response {
    /// Returns the response to a change of `current` to `bytes`, without the diff.
    pub fn of(current: &LockedFile, bytes: &[u8]) -> Self {
        let counts = diff::counts(current.bytes(), bytes);
        Self {
            path: current.place().display().to_owned(),
            sha256: Sha256::of(bytes),
            size: bytes.len() as u64,
            created: !current.exists(),
            lines_added: counts.added,
            lines_removed: counts.removed,
            already_applied: false,
            diff: None,
        }
    }

    /// Returns the response if the file has these bytes already.
    pub fn already_applied(current: &LockedFile) -> Self {
        Self {
            path: current.place().display().to_owned(),
            sha256: current.sha256(),
            size: current.bytes().len() as u64,
            created: false,
            lines_added: 0,
            lines_removed: 0,
            already_applied: true,
            diff: None,
        }
    }

    /// Adds one line for a person.
    pub fn as_text(&self, tool: &str, text: &mut Text) {
        let what = if self.already_applied {
            "unchanged".to_owned()
        } else if self.created {
            format!("created, {}", plural(self.size, "byte"))
        } else {
            format!("+{} -{}", self.lines_added, plural(self.lines_removed, "line"))
        };
        text.change(&format!("{tool}: {} ({what})", escaped::name(&self.path)));
        self.diff.iter().for_each(|diff| text.diff(diff.as_bytes()));
    }
}

/// Returns the content with the line endings of the file that it replaces, if requested.
fn with_endings(content: Vec<u8>, current: &LockedFile, endings: EndingConversion) -> Vec<u8> {
    if endings == EndingConversion::AsIs || !current.exists() {
        return content;
    }
    let old = Content::of(current.bytes(), None).ok();
    match old.and_then(|old| old.line_ending().bytes()) {
        Some(ending) => lines::with_ending(&content, ending),
        None => content,
    }
}

/// Warns about content that the caller may not intend.
fn warn(change: &mut Change<'_>, current: &LockedFile, bytes: &[u8], charset: Option<Charset>) {
    if !current.exists() {
        return;
    }
    let shown = current.place().display().to_owned();
    let mut warnings: Vec<Message> = Vec::new();
    if let Ok(old) = Content::of(current.bytes(), None) {
        let (before, after) = (old.line_ending(), LineEnding::of(bytes));
        if before == LineEnding::Crlf && after == LineEnding::Lf {
            warnings.push(text!(
                "{} had CRLF line endings and now has LF. With \"keep\", `line_ending` keeps them.",
                shown
            ));
        }
        let has_bom = bytes.starts_with(crate::text::content::UTF8_BOM);
        let named = charset.filter(|charset| !charset.is_utf8());
        if let Some(charset) = named {
            if old.encoding != Encoding::Bytes && (old.bom || !old.body.is_ascii()) {
                warnings.push(
                    format!("{shown} was {} and is {} now", old.encoding.name(), charset.name()).into(),
                );
            }
        } else if old.encoding == Encoding::Bytes {
            let likely = charset::likely_encodings(&old.body).unwrap_or_default();
            warnings.push(text!(
                "{} was not UTF-8 and is UTF-8 now. Set `encoding` to keep what it was, likely {}.",
                shown,
                likely
            ));
        } else if old.encoding != Encoding::Utf8 {
            warnings.push(format!("{shown} was {} and is UTF-8 now", old.encoding.name()).into());
        } else if old.bom && !has_bom {
            warnings.push(format!("{shown} no longer begins with a byte-order mark").into());
        }
    }
    for warning in warnings {
        change.engine().warn(warning);
    }
}
