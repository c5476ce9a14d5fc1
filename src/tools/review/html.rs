//! Pages of a review: their beginning, their escapes, and the file that they are written to.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

use crate::engine::workspace::protect::protected_component;
use crate::error::{Error, ErrorKind};

/// First bytes of every page of a review: no other file is overwritten.
pub const BEGINNING: &[u8] = b"<!doctype html>\n<!-- lbx review -->\n";

/// Writes the page to `path`, and returns that path. Replaces an older page of a review.
///
/// # Errors
/// Fails with `already_exists` if another file is there, or with `protected_path` in git's or lbx's own folders, or
/// returns the OS error.
pub fn write(path: &Path, page: &str) -> Result<String, Error> {
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

/// Returns JSON that neither ends nor begins an HTML element, whatever its content.
pub fn harmless(json: &str) -> String {
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
pub fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the hash of a part of the page, for its security policy.
pub fn hash(text: &str) -> String {
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
}
