//! `section`: changes a section of a Markdown file.

use std::path::PathBuf;

use clap::ArgAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::append::in_style_of;
use super::common::{self, ContentOptions, FileChange};
use super::edit::LineRange;
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::gate::LONG_AGO;
use crate::engine::change::{CallerKnowledge, Change, LockedFile};
use crate::error::{Error, ErrorKind};
use crate::limits::OUTLINE_PARTS_MAX;
use crate::request;
use crate::sha256::Sha256;
use crate::text::content::Content;
use crate::text::escaped::plural;
use crate::text::markdown::compose::{self, ComposedSection, Document, SectionRefusal};
use crate::text::markdown::{self, HeaderName, Heading};
use crate::text::{diff, escaped, lines};

/// Largest number of headers that a response lists.
const HEADERS_LISTED: usize = 20;
/// Largest number of characters of a header that a response shows.
const HEADER_CHARACTERS: usize = 120;

/// Replace a section of a Markdown file, or add to it
///
/// The section is all text after its header, up to the next header of the same or a higher level. The header itself
/// stays, as do the blank lines around the text.
///
/// The file need not have been read: the replaced text is in the backup. LF in the text becomes the
/// file's own line ending if that is uniform.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Markdown file to change
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file"]))]
    pub path: PathBuf,
    /// The section's header: Title, ## Title, or a path such as Top > Sub
    #[arg(value_name = "HEADER", allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["section_header", "section", "heading", "title"]))]
    pub header: String,
    /// New text of the section, without the header
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["new_content", "contents", "text"]))]
    pub content: String,
    /// Add the text at the end of the section instead
    #[arg(long)]
    pub append: bool,
    /// Include subsections; false leaves them unchanged
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true)]
    #[serde(default = "default_include_subsections")]
    pub include_subsections: bool,
    /// Create the section if it is missing: at the end, or under the path's parent
    #[arg(long)]
    pub create: bool,
    /// Level of the header, 1 to 6: selects among headers, and is the level of a new one
    #[arg(long, value_name = "LEVEL")]
    #[schemars(range(min = 1, max = 6))]
    pub level: Option<u8>,
    /// Matching header to use, from 1
    #[arg(long, value_name = "NUMBER")]
    #[schemars(range(min = 1))]
    pub occurrence: Option<usize>,
    /// Allow a line that replaces omitted text, such as `... existing code ...`
    #[arg(long)]
    pub allow_omission: bool,
    /// Fail unless the SHA-256 of the file is this one
    #[arg(long, value_name = "HEX")]
    pub expected_sha256: Option<Sha256>,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ContentOptions,
}

/// Returns the default of `include_subsections`.
const fn default_include_subsections() -> bool {
    true
}

/// Way in which the section was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SectionMatch {
    /// Existing section.
    Exact,
    /// New section: it was missing.
    Created,
    /// Section that has this text already; nothing was changed.
    AlreadyApplied,
}

/// Result of the call.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Path
    pub path: String,
    /// SHA-256 of the file now
    pub sha256: Sha256,
    /// Header in normal form
    pub header: String,
    /// Sections changed: 1, or 0 if none was
    pub count: usize,
    /// Lines of the new text in the file now; empty if the text is
    pub replacements: Vec<LineRange>,
    /// Kind of match
    pub r#match: SectionMatch,
    /// Lines added
    pub lines_added: u64,
    /// Lines removed
    pub lines_removed: u64,
    /// Change, as a unified diff
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// `section` tool.
pub struct Section;

impl Tool for Section {
    const NAME: &'static str = "section";
    const LISTED: &'static str = "path header content append create";
    const ALIASES: &'static [&'static str] = &["update_markdown_section", "replace_section"];
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Bulk { field: "content", unless: &[] };
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        request.check()?;
        let (expected, options) = (request.expected_sha256, &request.options);
        let mut file = FileChange::begin(engine, Self::NAME, &request.path, expected, options)?;
        // Any other repeat finds its result in the file: only an addition, or a request with old bytes, needs the
        // history.
        let is_repeated =
            (request.append || expected.is_some()) && file.is_repeated(request.repeat_value(), LONG_AGO)?;
        let current = if request.create { file.open()? } else { file.open_existing()? };
        let content = common::view(&current, options.encoding)?.into_owned();
        let mut planned = plan(&mut file.change, &current, &content, &request)?;
        let shown = current.place().display().to_owned();
        if is_repeated {
            planned.composed.already_applied = true;
            planned.counts = diff::LineCounts::default();
            return Ok(planned.answer(shown, current.sha256(), None));
        }
        let seen = file.check(current)?;
        if planned.composed.already_applied {
            return Ok(planned.answer(shown, seen.current().sha256(), None));
        }
        let composed = Content { body: planned.composed.text.clone().into(), ..content };
        common::must_fit(file.change.policy(), &shown, composed.bytes_with(b""))?;
        let bytes = composed.encode().map_err(|missing| common::unencodable(&shown, "the file", missing))?;
        let sha256 = Sha256::of(&bytes);
        let diff = file.commit(seen, bytes, None, CallerKnowledge::ChangedLines)?;
        Ok(planned.answer(shown, sha256, diff))
    }

    fn text(response: &Response, text: &mut Text) {
        let what = match response.r#match {
            SectionMatch::AlreadyApplied => "already applied".to_owned(),
            SectionMatch::Created => format!("created, +{}", plural(response.lines_added, "line")),
            SectionMatch::Exact => {
                format!("+{} -{}", response.lines_added, plural(response.lines_removed, "line"))
            }
        };
        let path = escaped::name(&response.path);
        text.change(&format!("{}: {path}: {} ({what})", Self::NAME, response.header));
        response.diff.iter().for_each(|diff| text.diff(diff.as_bytes()));
    }
}

impl Request {
    /// Returns the value that identifies a repeated request.
    fn repeat_value(&self) -> impl std::fmt::Debug + '_ {
        let Self { header, content, level, occurrence, append, include_subsections, .. } = self;
        (header, content, level, occurrence, append, include_subsections)
    }

    /// Rejects a contradictory request.
    fn check(&self) -> Result<(), Error> {
        let level = self.level.is_some_and(|level| !(1..=6).contains(&level));
        let no_content = self.append && self.content.trim().is_empty();
        let faults = [
            (
                self.header.trim().is_empty(),
                "header",
                "header is empty: name the section, such as `## Title`",
            ),
            (no_content, "content", "content is empty: there is nothing to add"),
            (level, "level", "level counts from 1 to 6"),
            (self.occurrence == Some(0), "occurrence", "occurrence counts from 1"),
        ];
        faults
            .into_iter()
            .try_for_each(|(is_wrong, field, message)| common::reject_if(is_wrong, field, message))
    }
}

/// Planned change.
struct PlannedSection {
    /// Header in normal form.
    header: String,
    /// New text.
    composed: ComposedSection,
    /// Way in which the section was found.
    matched: SectionMatch,
    /// Line counts of old and new text.
    counts: diff::LineCounts,
    /// Byte that ends a line.
    terminator: u8,
}

impl PlannedSection {
    /// Returns the response.
    fn answer(self, path: String, sha256: Sha256, diff: Option<String>) -> Response {
        let is_applied = self.composed.already_applied;
        let new = &self.composed.new;
        let replacements = if is_applied || new.is_empty() {
            Vec::new()
        } else {
            let text = self.composed.text.get(..new.end).unwrap_or_default();
            let ends = |at: usize| memchr::memchr_iter(self.terminator, text.get(..at).unwrap_or(text));
            let line = |at: usize| ends(at).count() as u64 + 1;
            vec![LineRange { start_line: line(new.start), end_line: line(new.end - 1) }]
        };
        Response {
            path,
            sha256,
            header: short_header(&self.header),
            count: usize::from(!is_applied),
            replacements,
            r#match: if is_applied { SectionMatch::AlreadyApplied } else { self.matched },
            lines_added: self.counts.added,
            lines_removed: self.counts.removed,
            diff,
        }
    }
}

/// Rejects a Markdown text whose tree would take too much memory.
fn must_be_outlined(text: &[u8], shown: &str) -> Result<(), Error> {
    let parts = markdown::parts(text);
    if parts <= OUTLINE_PARTS_MAX {
        return Ok(());
    }
    let message = format!("{shown} has too many lines, headers and marks to be parsed as Markdown");
    Err(Error::new(ErrorKind::TooLarge, message)
        .at(shown)
        .detail("parts", parts)
        .detail("limit", OUTLINE_PARTS_MAX)
        .suggest("Use edit or insert, which do not parse the file."))
}

/// Finds the section and inserts the text.
fn plan(
    change: &mut Change<'_>,
    current: &LockedFile,
    content: &Content<'_>,
    request: &Request,
) -> Result<PlannedSection, Error> {
    let shown = current.place().display();
    must_be_outlined(&content.body, shown)?;
    must_be_outlined(request.content.as_bytes(), shown)?;
    common::must_be_encodable(content.encoding, request.content.as_bytes(), (shown, current.bytes()))?;
    let bytes_max = change.policy().file_bytes();
    let headings = markdown::outline(&content.body);
    let style = content.line_ending();
    let text = in_style_of(content, request.content.as_bytes());
    let document = |at: Option<usize>| {
        let ending = at
            .and_then(|at| headings.get(at))
            .map(|heading| lines::ending_of(content.body.get(heading.span.clone()).unwrap_or_default()));
        Document {
            text: &content.body,
            headings: &headings,
            ending: style.bytes().or(ending.filter(|ending| !ending.is_empty())).unwrap_or(b"\n"),
            terminator: style.terminator(),
            bytes_max,
        }
    };
    let found = markdown::find(&headings, &request.header, request.level);
    if found.is_empty() && request.create {
        if !request.allow_omission {
            common::must_leave_nothing_out(&text, b"", "content", shown)?;
        }
        return create(shown, document(headings.len().checked_sub(1)), request, &text);
    }
    let at = find_header(shown, &document(None), request, &found)?;
    let document = document(Some(at));
    let Some(heading) = headings.get(at) else {
        return Err(Error::internal("a header was found and lost"));
    };
    if !request.allow_omission {
        let old = content.body.get(document.body(at, request.include_subsections)).unwrap_or_default();
        common::must_leave_nothing_out(&text, old, "content", shown)?;
    }
    let text = without_own_header(change, &text, heading);
    warn_of_headers(change, &text, heading, request);
    let with_subsections = request.include_subsections;
    let composed = if request.append {
        document.append(at, with_subsections, &text)
    } else {
        document.replace(at, with_subsections, &text)
    };
    let composed = composed.map_err(|refused| outside_section_error(shown, &document, &refused))?;
    if !composed.already_applied && !request.append {
        warn_of_references(change, shown, &document, &composed);
    }
    Ok(PlannedSection::new(heading.as_written(), &document, composed, SectionMatch::Exact))
}

impl PlannedSection {
    /// Returns the planned change of a document.
    fn new(
        header: String,
        document: &Document<'_>,
        composed: ComposedSection,
        matched: SectionMatch,
    ) -> Self {
        let counts = if composed.already_applied {
            diff::LineCounts::default()
        } else {
            diff::counts(document.text, &composed.text)
        };
        Self { header, composed, matched, counts, terminator: document.terminator }
    }
}

/// Returns the one header that the request means.
fn find_header(
    shown: &str,
    document: &Document<'_>,
    request: &Request,
    found: &[usize],
) -> Result<usize, Error> {
    match (found, request.occurrence) {
        ([], _) => Err(no_match(shown, document, &request.header)),
        ([only], None | Some(1)) => Ok(*only),
        (several, None) => Err(ambiguous(shown, document, &request.header, several)),
        (several, Some(number)) => several.get(number - 1).copied().ok_or_else(|| {
            let error = Error::new(
                ErrorKind::NoMatch,
                format!(
                    "header {:?} occurs {} times in {shown}: occurrence {number} does not exist",
                    short_header(&request.header),
                    several.len()
                ),
            );
            error
                .at(shown)
                .detail("places", places(document, several))
                .suggest(format!("Give an occurrence from 1 to {}.", several.len()))
        }),
    }
}

/// Adds a section that is missing.
fn create(
    shown: &str,
    document: Document<'_>,
    request: &Request,
    text: &[u8],
) -> Result<PlannedSection, Error> {
    let (under, last) = parent(shown, &document, &request.header)?;
    let name = HeaderName::of(last);
    let wrong_level = |message: String| Err(Error::invalid(message).detail("field", "level"));
    if let (Some(level), Some(marked)) = (request.level, name.level)
        && level != marked
    {
        return wrong_level(format!("the # marks of header mean level {marked}, but level is {level}"));
    }
    let parent_level = under.and_then(|at| document.headings.get(at)).map(|heading| heading.level);
    let level = request.level.or(name.level).or(parent_level.map(|level| level + 1));
    let Some(level) = level.filter(|level| (1..=6).contains(level)) else {
        return Err(Error::invalid("field `level` is missing: a new header needs one, from 1 to 6")
            .detail("field", "level")
            .suggest("Give level, or write the header with its marks, such as `## Title`."));
    };
    if let Some(above) = parent_level.filter(|above| level <= *above) {
        return wrong_level(format!("a header of level {level} cannot be below one of level {above}"));
    }
    common::reject_if(name.source.is_empty(), "header", "header has no title")?;
    let heading = Heading { level, source: name.source, title: String::new(), span: 0..0, parent: None };
    let title = heading.source.clone();
    let titled = Heading { title: markdown::title_of(&title), ..heading.clone() };
    let own = compose::without_own_header(text, &titled);
    let composed = document
        .create(under, level, &title, own.unwrap_or(text))
        .map_err(|refused| outside_section_error(shown, &document, &refused))?;
    Ok(PlannedSection::new(heading.as_written(), &document, composed, SectionMatch::Created))
}

/// Returns the parent header of a new one, and the name of the new one.
fn parent<'r>(
    shown: &str,
    document: &Document<'_>,
    header: &'r str,
) -> Result<(Option<usize>, &'r str), Error> {
    let Some((above, last)) = markdown::parent_of(header) else {
        return Ok((None, header));
    };
    match markdown::find(document.headings, &above, None).as_slice() {
        [only] => Ok((Some(*only), last)),
        // With `#` marks, the whole text may be a title.
        [] if HeaderName::of(header).level.is_some() => Ok((None, header)),
        [] => Err(no_match(shown, document, &above)),
        several => Err(ambiguous(shown, document, &above, several)),
    }
}

/// Returns the text without the section's own header, which a caller may have put first.
fn without_own_header(change: &mut Change<'_>, text: &[u8], heading: &Heading) -> Vec<u8> {
    match compose::without_own_header(text, heading) {
        Some(rest) => {
            change.engine().warn(format!(
                "content began with the header {}, which exists already and was left out",
                short_header(&heading.as_written())
            ));
            rest.to_vec()
        }
        None => text.to_vec(),
    }
}

/// Warns about headers in the text that end the section.
fn warn_of_headers(change: &mut Change<'_>, text: &[u8], heading: &Heading, request: &Request) {
    let ending = compose::headers_that_end(text, heading.level, request.include_subsections);
    if let Some(first) = ending.first() {
        change.engine().warn(format!(
            "content has the header {}, which ends the section {}: what follows it is a section of its own",
            short_header(&first.as_written()),
            short_header(&heading.as_written())
        ));
    }
}

/// Warns about links that have lost their target.
fn warn_of_references(
    change: &mut Change<'_>,
    shown: &str,
    document: &Document<'_>,
    composed: &ComposedSection,
) {
    let replaced = document.text.get(composed.old.clone()).unwrap_or_default();
    let lost = markdown::lost_references(replaced, &composed.text);
    if !lost.is_empty() {
        let labels: Vec<String> =
            lost.iter().take(HEADERS_LISTED).map(|label| format!("[{}]", short_header(label))).collect();
        change.engine().warn(format!(
            "the replaced text defined link references that {shown} still uses: {}",
            labels.join(", ")
        ));
    }
}

/// Returns the error for a missing header, with the existing ones.
fn no_match(shown: &str, document: &Document<'_>, header: &str) -> Error {
    let wanted = short_header(header);
    let look_alikes = markdown::lines_like_header(document.text, document.terminator, header);
    let near = markdown::nearest(document.headings, header);
    let nearest = near.first().and_then(|&at| document.headings.get(at)).map_or_else(
        || ", which has no Markdown headers".to_owned(),
        |first| {
            let line = document.line_of(first.span.start);
            format!("; nearest: {} (line {line})", short_header(&first.as_written()))
        },
    );
    let look_alike = look_alikes.first().map_or_else(String::new, |line| {
        format!("; line {line} looks like it but is not a header: it is in a code block, a list, a quotation or a comment")
    });
    let message = format!("header {wanted:?} not found in {shown}{nearest}{look_alike}");
    Error::new(ErrorKind::NoMatch, message)
        .at(shown)
        .detail("headers", places(document, &near))
        .detail("headers_total", document.headings.len())
        .suggest(if near.is_empty() {
            "Set create to true, with a level, to add the section."
        } else {
            "Did you mean one of the headers in details? Where the section is new, set create to true, with a level."
        })
}

/// Returns the error for a name that several headers have.
fn ambiguous(shown: &str, document: &Document<'_>, header: &str, found: &[usize]) -> Error {
    let line = |heading: &Heading| document.line_of(heading.span.start).to_string();
    let lines: Vec<String> = first_headers(document, found).map(line).collect();
    let more = if found.len() > HEADERS_LISTED { ", …" } else { "" };
    Error::new(
        ErrorKind::AmbiguousMatch,
        format!(
            "header {:?} appears {} times in {shown} (lines {}{more}). Say which of them.",
            short_header(header),
            found.len(),
            lines.join(", ")
        ),
    )
    .at(shown)
    .detail("count", found.len())
    .detail("places", places(document, found))
    .suggest(format!(
        "Give its path, its level as `## ` before the title, or an occurrence from 1 to {}.",
        found.len()
    ))
}

/// Returns the first headers of a list, as many as a response names.
fn first_headers<'d>(document: &Document<'d>, found: &[usize]) -> impl Iterator<Item = &'d Heading> {
    let headings = document.headings;
    found.iter().take(HEADERS_LISTED).filter_map(|&at| headings.get(at))
}

/// Returns headers with their lines and paths, as many as a response names.
fn places(document: &Document<'_>, found: &[usize]) -> Vec<serde_json::Value> {
    let place = |&at: &usize| {
        let heading = document.headings.get(at)?;
        let mut place = serde_json::json!({
            "line": document.line_of(heading.span.start),
            "header": short_header(&heading.as_written()),
        });
        if heading.parent.is_some()
            && let Some(object) = place.as_object_mut()
        {
            let path = short_header(&markdown::path_to(document.headings, at));
            object.insert("path".to_owned(), path.into());
        }
        Some(place)
    };
    found.iter().take(HEADERS_LISTED).filter_map(place).collect()
}

/// Returns the error for a text that would change content outside its section.
fn outside_section_error(shown: &str, document: &Document<'_>, refused: &SectionRefusal) -> Error {
    let error = match refused {
        SectionRefusal::Swallows(lost) => {
            let lost_headers: Vec<String> =
                first_headers(document, lost).map(|heading| short_header(&heading.as_written())).collect();
            Error::invalid(format!(
                "content leaves a code fence, a comment or an HTML block open: {} header(s) after the section would no longer be headers, the first of them {}",
                lost.len(),
                lost_headers.first().map_or("", String::as_str)
            ))
            .detail("headers", lost_headers)
            .suggest("Close what the content opens, then repeat the call.")
        }
        SectionRefusal::Fault(fault) => return fault.error(shown),
        SectionRefusal::Swallowed => Error::invalid(format!(
            "no header can be added there: {shown} leaves a code fence, a comment or an HTML block open, or the title cannot be written in one line as it is"
        ))
        .suggest("Read the file's end, close what it leaves open, or escape the title."),
    };
    error.at(shown).detail("field", "content")
}

/// Returns a header for a message, cut if it is long.
fn short_header(header: &str) -> String {
    request::cut(header, HEADER_CHARACTERS).into_owned()
}
