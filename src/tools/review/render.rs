//! Renders a review as text and as an HTML page.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

use super::{File, Response, ReviewedChange, ReviewedTurn};
use crate::engine::Engine;
use crate::engine::workspace::protect::protected_component;
use crate::error::{Error, ErrorKind};
use crate::text::escaped;
use crate::text::plural::plural;
use crate::tools::{Paint, Text};

/// Digits of an id that are shown.
const ID_DIGITS: usize = 10;
/// Number of read-only files that are named.
const READ_NAMED: usize = 20;

/// Adds the story to `text`.
pub fn tell(response: &Response, text: &mut Text) {
    if let Some(path) = &response.html {
        text.name(path);
        text.out.push(text.separator);
    }
    if !response.changes.is_empty() || response.html.is_none() {
        head(response, text);
        let mut turn = None;
        for change in &response.changes {
            if change.seq.is_some() && change.turn != turn {
                turn = change.turn;
                let turn = response.turns.iter().find(|known| Some(known.turn) == turn);
                turn.iter().for_each(|turn| tell_turn(turn, text));
            }
            tell_change(change, &response.session, text);
        }
        tail(response, text);
    }
    if let Some(next) = response.next_offset {
        text.note(format!("more changes: {}", text.option("offset", next)));
    }
}

/// Adds the numbers.
fn head(response: &Response, text: &mut Text) {
    let totals = &response.totals;
    let times = match (&response.began, &response.ended) {
        (Some(began), Some(ended)) => format!(", {began} to {ended}"),
        _ => String::new(),
    };
    let session = format!("session {}", response.session);
    let session = text.paint(Paint::Bold, &session);
    let (changes, files) = (plural(totals.changes, "change"), plural(totals.files, "file"));
    let (came, went) = (totals.insertions, totals.deletions);
    text.styled(&format!("{session}: {changes}, {files} (+{came} -{went}){times}"));
    let mut beside = Vec::new();
    for (count, what) in [
        (totals.undone, "undone"),
        (totals.refused, "refused"),
        (totals.developer, "by the developer in between"),
    ] {
        if count > 0 {
            beside.push(format!("{count} {what}"));
        }
    }
    if !beside.is_empty() {
        text.line(&beside.join(", "));
    }
}

/// Adds the heading of a turn.
fn tell_turn(turn: &ReviewedTurn, text: &mut Text) {
    let title = turn.title.iter().map(|title| format!(": {}", escaped::line(title))).collect::<String>();
    let heading = text.paint(Paint::Bold, &format!("turn {}{title}", turn.turn));
    let undo = text.paint(Paint::Dim, &format!("    {}", escaped::line(&turn.undo)));
    text.out.push(b'\n');
    text.styled(&heading);
    text.styled(&undo);
}

/// Adds one change.
fn tell_change(change: &ReviewedChange, session: &str, text: &mut Text) {
    let id: String = change.snapshot.iter().flat_map(|id| id.chars()).take(ID_DIGITS).collect();
    let number = change.seq.map_or_else(|| "-".to_owned(), |seq| format!("#{seq}"));
    let who = if change.by == "session" { session } else { change.by };
    let id = text.paint(Paint::Yellow, &format!("{id:ID_DIGITS$}"));
    let subject = text.paint(Paint::Bold, &escaped::line(&change.subject));
    let gate = change.gate.as_ref().map(|gate| format!(" [gate {gate}]")).unwrap_or_default();
    let undone = match (change.undone_by, change.undone_in_part_by.as_slice()) {
        (Some(by), _) => format!(" [undone by #{by}]"),
        (None, []) => String::new(),
        (None, parts) => {
            let parts: Vec<String> = parts.iter().map(|seq| format!("#{seq}")).collect();
            format!(" [undone in part by {}]", parts.join(", "))
        }
    };
    let marks = text.paint(Paint::Red, &format!("{gate}{undone}"));
    text.out.push(b'\n');
    text.styled(&format!("{number} {id} {} {who} {subject}{marks}", change.time));
    if let Some(why) = &change.why {
        why.lines().for_each(|line| text.line(&format!("    {line}")));
    }
    if let Some(undo) = &change.undo {
        let undo = text.paint(Paint::Dim, &format!("    {}", escaped::line(undo)));
        text.styled(&undo);
    }
    change.files.iter().for_each(|file| tell_file(file, text));
}

/// Adds one file of a change.
fn tell_file(file: &File, text: &mut Text) {
    if let Some(diff) = &file.diff {
        text.diff(diff.as_bytes());
        return;
    }
    text.line(&format!("  {}", file.stat.line()));
}

/// Adds the refused calls, and the files that were only read.
fn tail(response: &Response, text: &mut Text) {
    if !response.refused.is_empty() {
        text.out.push(b'\n');
        let heading = text.paint(Paint::Bold, "refused");
        text.styled(&heading);
        for refused in &response.refused {
            let path = refused.path.as_deref().unwrap_or_default();
            let (tool, kind) = (&refused.tool, &refused.kind);
            let name = escaped::name(path);
            text.line(&format!("  {} {tool} {name} {kind}: {}", refused.time, refused.message));
        }
    }
    if !response.read.is_empty() {
        text.out.push(b'\n');
        let heading = text.paint(Paint::Bold, "read, not changed");
        text.styled(&heading);
        for path in response.read.iter().take(READ_NAMED) {
            text.line(&format!("  {}", escaped::name(path)));
        }
        let more = response.read.len().saturating_sub(READ_NAMED);
        if more > 0 {
            text.line(&format!("  and {more} more"));
        }
    }
}

/// Page without its parts.
const PAGE: &str = include_str!("page.html");
/// Style sheet of the page.
const STYLE: &str = include_str!("page.css");
/// Script of the page.
const SCRIPT: &str = include_str!("page.js");
/// First bytes of every page of a review: no other file is overwritten.
const BEGINNING: &[u8] = b"<!doctype html>\n<!-- lbx review -->\n";

/// Writes the page to `path`, and returns that path. Replaces an older page of a review.
///
/// # Errors
/// Fails with `already_exists` if another file is there, or with `protected_path` in git's or lbx's own folders, or
/// returns the OS error.
pub fn write(engine: &Engine, path: &Path, response: &Response) -> Result<String, Error> {
    let shown = path.display().to_string();
    if protected_component(path).is_some() {
        return Err(Error::new(ErrorKind::ProtectedPath, format!("{shown} lies in a folder of git or lbx"))
            .at(&shown));
    }
    let io = |error: std::io::Error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
            Error::new(ErrorKind::AlreadyExists, format!("{shown} is a symlink")).at(&shown)
        }
        _ => Error::io("write", &shown, error),
    };
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits();
    let flags = i32::try_from(no_follow | rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    #[expect(clippy::disallowed_methods, reason = "the developer names the file, which may be anywhere")]
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags)
        .open(path)
        .map_err(io)?;
    if !is_replaceable(&mut file).map_err(io)? {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("{shown} exists and is not a page of lbx review"),
        )
        .at(&shown)
        .suggest("Name another file."));
    }
    let name = engine.workspace.root().file_name().map(|name| name.to_string_lossy().into_owned());
    let page = page(response, &name.unwrap_or_default())?;
    file.set_len(0).and_then(|()| std::io::Seek::rewind(&mut file)).map_err(io)?;
    file.write_all(page.as_bytes()).map_err(io)?;
    Ok(shown)
}

/// Returns true if a file is new, or an older page.
fn is_replaceable(file: &mut std::fs::File) -> std::io::Result<bool> {
    use std::io::Read as _;
    let size = file.metadata()?;
    if !size.is_file() {
        return Ok(false);
    }
    let mut beginning = Vec::new();
    file.take(BEGINNING.len() as u64).read_to_end(&mut beginning)?;
    Ok(beginning.is_empty() || beginning == BEGINNING)
}

/// Returns the page of a story in the workspace `name`.
fn page(response: &Response, name: &str) -> Result<String, Error> {
    let story = serde_json::json!({ "workspace": name, "story": response });
    let story = serde_json::to_string(&story)
        .map_err(|error| Error::internal(format!("the story is not valid JSON: {error}")))?;
    let title = format!("Review of session {} in {name}", response.session);
    let parts = [
        ("TITLE", markup(&title)),
        ("STYLE-HASH", hash(STYLE)),
        ("SCRIPT-HASH", hash(SCRIPT)),
        ("STYLE", STYLE.to_owned()),
        ("STORY", harmless(&story)),
        ("SCRIPT", SCRIPT.to_owned()),
    ];
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + story.len());
    let mut rest = PAGE;
    // In one pass, so that inserted text is never taken for a part.
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let (part, after) = after.split_once("}}").unwrap_or((after, ""));
        let text = parts.iter().find(|(name, _)| *name == part).map(|(_, text)| text.as_str());
        page.push_str(text.unwrap_or_default());
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

/// Returns JSON that neither ends nor begins an HTML element, whatever its content.
fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

/// Returns a text escaped for HTML.
fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the hash of a part of the page, for its security policy.
fn hash(text: &str) -> String {
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!("'sha256-{digest}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn story_json_cannot_close_its_script_element() {
        let json = serde_json::to_string(&["</script><b>&\u{2028}", "<!--", "\"\\"]).unwrap();
        let harmless = harmless(&json);
        assert!(!harmless.contains(['<', '>', '&', '\u{2028}']), "{harmless}");
        assert_eq!(
            serde_json::from_str::<Vec<String>>(&harmless).unwrap(),
            ["</script><b>&\u{2028}", "<!--", "\"\\"]
        );
    }

    #[test]
    fn page_template_contains_each_placeholder_once() {
        for part in ["TITLE", "STYLE-HASH", "SCRIPT-HASH", "STYLE", "STORY", "SCRIPT"] {
            assert_eq!(PAGE.matches(&format!("{{{{{part}}}}}")).count(), 1 + usize::from(part == "TITLE"));
        }
        assert!(PAGE.as_bytes().starts_with(BEGINNING));
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
    }
}
