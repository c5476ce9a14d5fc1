//! The story of a session as one page for a browser, which needs nothing from elsewhere.
//!
//! The story is in the page as JSON, in an element that no browser runs; the page's own script makes
//! text of it and never markup. The policy of the page lets nothing else run and nothing be loaded.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

use super::Response;
use crate::engine::Engine;
use crate::engine::workspace::protect::protected_component;
use crate::error::{Error, ErrorKind};

/// The page without its parts.
const PAGE: &str = include_str!("page.html");
/// How it looks.
const STYLE: &str = include_str!("page.css");
/// How it works.
const SCRIPT: &str = include_str!("page.js");
/// How every page of a review begins: nothing else is overwritten.
const BEGINNING: &[u8] = b"<!doctype html>\n<!-- lbx review -->\n";

/// Writes the page to `path`, and answers that path. An older page of a review there is replaced.
///
/// # Errors
/// `already_exists` where another file is there, `protected_path` in git's or lbx's own folders, or what
/// the system says.
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

/// Whether a file is new, or an older page.
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

/// The page of a story in the workspace `name`.
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
    // In one pass, so that nothing which is put in is taken for a part.
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

/// JSON that ends no element and begins none, whatever stands in it.
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

/// A text as markup shows it.
fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A part of the page as its policy names it.
fn hash(text: &str) -> String {
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!("'sha256-{digest}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_story_ends_its_element() {
        let json = serde_json::to_string(&["</script><b>&\u{2028}", "<!--", "\"\\"]).unwrap();
        let harmless = harmless(&json);
        assert!(!harmless.contains(['<', '>', '&', '\u{2028}']), "{harmless}");
        assert_eq!(
            serde_json::from_str::<Vec<String>>(&harmless).unwrap(),
            ["</script><b>&\u{2028}", "<!--", "\"\\"]
        );
    }

    #[test]
    fn the_parts_of_the_page_are_put_in_once() {
        for part in ["TITLE", "STYLE-HASH", "SCRIPT-HASH", "STYLE", "STORY", "SCRIPT"] {
            assert_eq!(PAGE.matches(&format!("{{{{{part}}}}}")).count(), 1 + usize::from(part == "TITLE"));
        }
        assert!(PAGE.as_bytes().starts_with(BEGINNING));
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
    }
}
