//! `apply_patch` as several families know it.

use std::path::Path;

use serde_json::json;

use super::foreign::Said;
use super::native::Native;
use super::render::{list, shown, text};
use crate::error::Error;
use crate::tools::apply_patch;

/// The names under which models call it in a shell.
const NAMES: [&str; 2] = ["apply_patch", "applypatch"];
/// How a patch begins.
const BEGIN: &str = "*** Begin Patch";

/// Applies an envelope, and lists the files as Codex does. Its paths count from `folder` where that is given.
///
/// # Errors
/// What `apply_patch` refuses.
pub fn apply_patch(lbx: &mut Native<'_>, patch: &str, folder: Option<&String>) -> Result<Said, Error> {
    let data = lbx.call_in::<apply_patch::ApplyPatch>(folder.map(Path::new), json!({ "input": patch }))?;
    let mut said = "Success. Updated the following files:\n".to_owned();
    for file in list(&data, "files") {
        let letter = match text(file, "action") {
            "create" => 'A',
            "delete" => 'D',
            _ => 'M',
        };
        said.extend([format!("{letter} {}\n", shown(file))]);
    }
    Ok(said.into())
}

/// The patch that a shell is asked to apply: models call `apply_patch` there as well, where no such program is.
pub fn patch_of_words(words: &[String]) -> Option<&str> {
    match words {
        [name, patch] if NAMES.contains(&name.as_str()) => Some(patch),
        _ => None,
    }
}

/// The same for a script that is one call with the patch as a here-document, and does nothing else: whatever
/// else it asks for would not be done.
pub fn patch_of_script(script: &str) -> Option<&str> {
    let (call, document) = script.trim().split_once('\n')?;
    let words = NAMES.iter().find_map(|name| call.strip_prefix(name))?;
    let delimiter = words.trim().strip_prefix("<<")?.trim_start().trim_matches(['\'', '"']);
    let (patch, end) = document.rsplit_once('\n')?;
    let is_word =
        !delimiter.is_empty() && delimiter.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    let is_whole = end == delimiter && !patch.lines().any(|line| line == delimiter);
    (is_word && is_whole && patch.trim_start().starts_with(BEGIN)).then_some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_script_that_is_one_call_is_a_patch() {
        let patch = "*** Begin Patch\n*** Add File: a\n+b\n*** End Patch";
        for call in ["apply_patch <<'EOF'", "applypatch << EOF", "apply_patch <<\"EOF\" "] {
            assert_eq!(patch_of_script(&format!("{call}\n{patch}\nEOF\n")), Some(patch), "{call}");
        }
        for other in [
            format!("echo {patch}"),
            "apply_patch --help".to_owned(),
            format!("applypatches << x\n{patch}\nx"),
            format!("apply_patch <<EOF\n{patch}\nEOF\necho more"),
            format!("apply_patch <<EOF && echo more\n{patch}\nEOF"),
            format!("apply_patch <<EOF\n{patch}\nEOF\nrm x <<EOF\nEOF"),
            format!("apply_patch <<\n{patch}\n"),
            format!("apply_patch <<EOF\n{patch}"),
        ] {
            assert_eq!(patch_of_script(&other), None, "{other}");
        }
        assert_eq!(patch_of_words(&["applypatch".to_owned(), patch.to_owned()]), Some(patch));
        assert_eq!(patch_of_words(&["cat".to_owned(), patch.to_owned()]), None);
    }
}
