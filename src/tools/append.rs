//! `append` and `prepend`: add text at one end of a file.

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::common::{self, ContentOptions, FileChange};
use super::write::Response;
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::executor::is_changed_meanwhile;
use crate::engine::change::gate::RECENT;
use crate::engine::change::{CallerKnowledge, Change, LockedFile};
use crate::error::Error;
use crate::sha256::Sha256;
use crate::text::content::Content;
use crate::text::lines;
use crate::text::replaced_lines::{self, ReplacedLines};

/// Add text at the end of a file
///
/// The file need not have been read; it is created if it does not exist.
///
/// Concurrent calls all take effect. LF in the text becomes the file's own line ending if that is uniform.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// File to add to
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file"]))]
    pub path: PathBuf,
    /// Text to add
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["contents", "text", "new_content"]))]
    pub content: String,
    /// Fail unless the SHA-256 of the file is this one
    #[arg(long, value_name = "HEX")]
    pub expected_sha256: Option<Sha256>,
    /// End an unfinished last line first, as the tool of Amazon Q does
    #[arg(skip)]
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    pub on_new_line: bool,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ContentOptions,
}

/// End at which text is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEnd {
    /// After the last byte.
    Last,
    /// Before the first byte, but after a byte-order mark.
    First,
}

/// `append` tool.
pub struct Append;

impl Tool for Append {
    const NAME: &'static str = "append";
    const LISTED: &'static str = "path content";
    const EFFECT: Effect = Effect::Adds;
    const STDIN: Stdin = Stdin::Bulk { field: "content", unless: &[] };
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        add(engine, Self::NAME, &request, FileEnd::Last)
    }

    fn text(response: &Response, text: &mut Text) {
        response.as_text(Self::NAME, text);
    }
}

/// Adds text at one end of a file.
///
/// # Errors
/// Returns `stale_file` if the file does not match `expected_sha256`, or any error of a write.
pub fn add(
    engine: &mut Engine,
    tool: &'static str,
    request: &Request,
    end: FileEnd,
) -> Result<Response, Error> {
    /// Number of attempts while other programs change the file between read and write.
    const TRIES: usize = 100;
    for _ in 1..TRIES {
        match add_once(engine, tool, request, end) {
            // The text fits any content, unless the caller named the bytes.
            Err(error) if is_changed_meanwhile(&error) && request.expected_sha256.is_none() => {}
            added => return added,
        }
    }
    add_once(engine, tool, request, end)
}

/// Adds text to the current file.
fn add_once(
    engine: &mut Engine,
    tool: &'static str,
    request: &Request,
    end: FileEnd,
) -> Result<Response, Error> {
    let (expected, options) = (request.expected_sha256, &request.options);
    let mut file = FileChange::begin(engine, tool, &request.path, expected, options)?;
    // The same text may be added twice on purpose, unless the request names the old bytes: then this fails.
    if expected.is_some() {
        file.is_repeated(&request.content, RECENT)?;
    }
    let current = file.open()?;
    let seen = file.check(current)?;
    let (bytes, replaced) = joined(&mut file.change, seen.current(), request, end)?;
    if seen.current().exists() && bytes == seen.current().bytes() {
        return Ok(Response::already_applied(seen.current()));
    }
    let response = Response::of(seen.current(), &bytes);
    file.replaced = replaced;
    let diff = file.commit(seen, bytes, None, CallerKnowledge::ChangedLines)?;
    Ok(Response { diff, ..response })
}

/// New bytes of a file, and the lines that they replace, if known.
type JoinedBytes = (Vec<u8>, Option<Vec<ReplacedLines>>);

/// Returns the bytes of the file with the text added, and the lines that this replaces.
fn joined(
    change: &mut Change<'_>,
    current: &LockedFile,
    request: &Request,
    end: FileEnd,
) -> Result<JoinedBytes, Error> {
    let shown = current.place().display();
    let mut content = common::view(current, request.options.encoding)?;
    let is_cut_off = content.body.last().is_some_and(|last| !matches!(last, b'\n' | b'\r'));
    let newline = if is_cut_off && request.on_new_line && end == FileEnd::Last { "\n" } else { "" };
    let text = match newline {
        "" => Cow::Borrowed(request.content.as_str()),
        newline => Cow::Owned([newline, &request.content].concat()),
    };
    common::must_be_encodable(content.encoding, text.as_bytes(), (shown, current.bytes()))?;
    let text = in_style_of(&content, text.as_bytes());
    common::must_fit(change.policy(), shown, content.bytes_with(&text))?;
    let replaced = match end {
        FileEnd::Last => {
            if is_cut_off && newline.is_empty() && !text.is_empty() {
                change
                    .engine()
                    .warn(format!("the last line of {shown} had no newline: the text continues that line"));
            }
            content.body.to_mut().extend_from_slice(&text);
            None
        }
        FileEnd::First => {
            let goes_on =
                !content.body.is_empty() && text.last().is_some_and(|last| !matches!(last, b'\n' | b'\r'));
            if goes_on {
                let shown = current.place().display().to_owned();
                change.engine().warn(format!(
                    "the text does not end in a newline: its last line now continues with the first line of {shown}"
                ));
            }
            content.body.to_mut().splice(0..0, text.iter().copied());
            // By comparison, text that is like the first lines would count as added after them.
            let old = content.body.get(text.len()..).unwrap_or_default();
            let (place, range) = (0..0, 0..text.len());
            let (place, range) = (std::slice::from_ref(&place), std::slice::from_ref(&range));
            replaced_lines::at_places((old, place), (&content.body, range))
        }
    };
    let replaced = replaced.filter(|_| current.exists());
    let bytes = content.encode().map_err(|missing| common::unencodable(shown, "the file", missing))?;
    Ok((bytes, replaced))
}

/// Converts LF in a text to the line ending of the file, if that is uniform.
pub fn in_style_of(content: &Content<'_>, text: &[u8]) -> Vec<u8> {
    match content.line_ending().bytes() {
        Some(ending) if ending != b"\n" => lines::with_ending(text, ending),
        _ => text.to_vec(),
    }
}

/// Add text at the start of a file
///
/// The file need not have been read; it is created if it does not exist.
///
/// A byte-order mark stays first. LF in the text becomes the file's own line ending if that is uniform.
#[derive(Debug, clap::Args, serde::Deserialize, schemars::JsonSchema)]
#[group(skip)] // `append` has a group of that name already
#[serde(transparent)]
pub struct PrependRequest {
    /// Fields of `append`.
    #[command(flatten)]
    request: Request,
}

/// `prepend` tool.
pub struct Prepend;

impl Tool for Prepend {
    const NAME: &'static str = "prepend";
    const LISTED: &'static str = "path content";
    const EFFECT: Effect = Effect::Adds;
    const STDIN: Stdin = Stdin::Bulk { field: "content", unless: &[] };
    type Request = PrependRequest;
    type Response = Response;

    fn run(engine: &mut Engine, request: PrependRequest) -> Result<Response, Error> {
        add(engine, Self::NAME, &request.request, FileEnd::First)
    }

    fn text(response: &Response, text: &mut Text) {
        response.as_text(Self::NAME, text);
    }
}
