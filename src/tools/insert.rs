//! `insert`: inserts lines after a line.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::append::in_style_of;
use super::common::{self, ContentOptions, FileChange, reject_if};
use super::edit::{EditedFile, LineRange, MatchKind};
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::gate::Needs;
use crate::engine::change::gate::RECENT;
use crate::engine::change::shown_lines::LineNotFound;
use crate::engine::change::{CallerKnowledge, Change, CheckedFile, LockedFile};
use crate::engine::policy::{Gate, Policy};
use crate::error::Error;
use crate::sha256::Sha256;
use crate::text::checked::TextFault;
use crate::text::content::Content;
use crate::text::escaped::plural;
use crate::text::lines::{self, LineSpan};
use crate::text::replaced_lines::ReplacedLines;

/// Insert lines after a line of a file
///
/// A text without a final newline gets one, so that no line is joined to another.
///
/// The file must have been read in this session and be unchanged since. LF in the text becomes the
/// file's own line ending if that is uniform.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// File to change
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file"]))]
    pub path: PathBuf,
    /// Line after which to insert, from 1; 0 for the start of the file
    #[arg(value_name = "LINE", allow_negative_numbers = true)]
    #[schemars(extend("x-aliases" = ["insert_line", "line_number", "after_line"]))]
    pub line: u64,
    /// Lines to insert
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["contents", "text", "insert_text", "new_str", "new_content"]))]
    pub content: String,
    /// SHA-256 of the file as last seen; replaces a prior read
    #[arg(long, value_name = "HEX")]
    pub expected_sha256: Option<Sha256>,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ContentOptions,
}

/// `insert` tool.
pub struct Insert;

impl Tool for Insert {
    const NAME: &'static str = "insert";
    const LISTED: &'static str = "path line content";
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Bulk { field: "content", unless: &[] };
    type Request = Request;
    type Response = EditedFile;

    fn run(engine: &mut Engine, request: Request) -> Result<EditedFile, Error> {
        reject_if(request.content.is_empty(), "content", "content is empty: there is nothing to insert")?;
        let (expected, options) = (request.expected_sha256, &request.options);
        let mut file = FileChange::begin(engine, Self::NAME, &request.path, expected, options)?;
        let is_repeated = file.is_repeated((request.line, &request.content), RECENT)?;
        let current = file.open_existing()?;
        if is_repeated {
            return Ok(EditedFile::already_applied(&current));
        }
        let content = common::view(&current, request.options.encoding)?.into_owned();
        let total = lines::count(&content.body);
        let Some(at) = line_to_insert_after(&mut file.change, &current, &content, &request)? else {
            let near = (request.line.min(total).max(1), request.line.saturating_add(1).min(total).max(1));
            let seen = file.prove(current, Needs::AnySuchAs(&|| Some(near)))?;
            return insert(file, (seen, CallerKnowledge::ChangedLines), content, (&request, request.line));
        };
        let mark = file.change.mark(current.place().path()).map(|mark| mark.sha256);
        let known = match mark.filter(|mark| *mark != current.sha256()) {
            Some(mark) => CallerKnowledge::ChangedSince(
                file.change.bytes_shown(current.place().path(), mark).unwrap_or_default(),
            ),
            None => CallerKnowledge::ChangedLines,
        };
        if at != request.line {
            let (name, line) = (current.place().display(), request.line);
            let moved = format!("line {line} of {name} as shown: line {at} now");
            file.change.engine().warn(moved);
        }
        insert(file, (current.without_proof(), known), content, (&request, at))
    }

    fn text(response: &EditedFile, text: &mut Text) {
        response.as_text(Self::NAME, text);
    }
}

/// Returns the line after which to insert, found by the number under which it was shown; `None` if the file itself is
/// the proof, or nothing of it was shown.
fn line_to_insert_after(
    change: &mut Change<'_>,
    current: &LockedFile,
    content: &Content<'_>,
    request: &Request,
) -> Result<Option<u64>, Error> {
    let counts_now = change.engine_ref().words.is_some();
    if request.expected_sha256.is_some() || counts_now {
        return Ok(None);
    }
    let Some(shown) = change.shown_lines(current).filter(|shown| !shown.is_own()) else { return Ok(None) };
    match shown.insertion_point(request.line) {
        Ok(at) => Ok(Some(at)),
        // A line that does not exist cannot have been shown.
        Err(LineNotFound::NeverShown(line)) if line > lines::count(&content.body) && request.line >= line => {
            Ok(None)
        }
        Err(_) if change.gate() != Gate::Strict => Ok(None),
        Err(why) => {
            let span = LineSpan { first: request.line.max(1), last: request.line.saturating_add(1) };
            common::must_be_as_shown(change, current, &content.body, &[(span, why)]).map(|()| None)
        }
    }
}

/// Inserts the lines after line `at`.
fn insert(
    mut file: FileChange<'_, '_>,
    (seen, known): (CheckedFile, CallerKnowledge),
    mut content: Content<'_>,
    (request, at): (&Request, u64),
) -> Result<EditedFile, Error> {
    let shown = seen.current().place().display().to_owned();
    let total = lines::count(&content.body);
    if at > total {
        return Err(Error::invalid(format!(
            "line {at} is past the end: {shown} has {}",
            plural(total, "line")
        ))
        .at(shown)
        .detail("field", "line")
        .detail("total_lines", total)
        .suggest(format!("Give a line from 0 to {total}.")));
    }
    let bounds = (shown.as_str(), file.change.policy());
    let new = request.content.as_bytes();
    common::must_be_encodable(content.encoding, new, (&shown, seen.current().bytes()))?;
    let (body, inserted) = inserted(&content, at, new, bounds)?;
    let new_lines = inserted.end_line + 1 - inserted.start_line;
    file.replaced = Some(vec![ReplacedLines { first: at + 1, old_lines: 0, new_lines }]);
    content.body = body.into();
    let bytes = content.encode().map_err(|missing| common::unencodable(&shown, "the file", missing))?;
    let sha256 = Sha256::of(&bytes);
    let diff = file.commit(seen, bytes, None, known)?;
    Ok(EditedFile {
        path: shown,
        sha256,
        count: 1,
        replacements: vec![inserted],
        r#match: MatchKind::Exact,
        rebased: false,
        diff,
    })
}

/// Returns the text with `lines` after line `line`, and their new line numbers.
///
/// # Errors
/// Returns `too_large` if the file would be too large.
fn inserted(
    content: &Content<'_>,
    line: u64,
    lines: &[u8],
    (shown, policy): (&str, &Policy),
) -> Result<(Vec<u8>, LineRange), Error> {
    let ending = content.line_ending().bytes().unwrap_or(b"\n");
    let mut new = in_style_of(content, lines);
    if !new.ends_with(ending) && !new.ends_with(b"\n") {
        new.extend_from_slice(ending);
    }
    common::must_fit(policy, shown, content.bytes_with(&new).saturating_add(ending.len()))?;
    let count = usize::try_from(line).unwrap_or(usize::MAX);
    let before: usize = lines::lines(&content.body).take(count).map(<[u8]>::len).sum();
    let (head, tail) =
        content.body.split_at_checked(before).ok_or_else(|| TextFault::OutOfRange.error(shown))?;
    let mut body = head.to_vec();
    let terminator = lines::terminator(head);
    if head.last().is_some_and(|&last| last != terminator) {
        // The last line has no ending; the new line would continue it.
        body.extend_from_slice(ending);
    }
    body.extend_from_slice(&new);
    body.extend_from_slice(tail);
    Ok((body, LineRange { start_line: line + 1, end_line: line + lines::count(&new) }))
}
