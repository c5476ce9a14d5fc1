//! `apply_patch` as several families know it.

use serde_json::json;

use super::Said;
use super::native::Native;
use super::render::{list, shown, text};
use crate::error::Error;

/// The names under which models call it in a shell.
const NAMES: [&str; 2] = ["apply_patch", "applypatch"];
/// How a patch begins.
const BEGIN: &str = "*** Begin Patch";

/// Applies an envelope, and lists the files as Codex does.
///
/// # Errors
/// What `apply_patch` refuses.
pub fn apply_patch(lbx: &mut Native<'_>, patch: &str) -> Result<Said, Error> {
    let data = lbx.call("apply_patch", json!({ "input": patch }))?;
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

/// The same for a script, which has the patch as a here-document.
pub fn patch_of_script(script: &str) -> Option<&str> {
    let script = script.trim();
    let rest = NAMES.iter().find_map(|name| script.strip_prefix(name))?;
    (rest.trim_start().starts_with("<<") && rest.contains(BEGIN)).then_some(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_script_that_is_one_call_is_a_patch() {
        let patch = "*** Begin Patch\n*** Add File: a\n+b\n*** End Patch";
        let script = format!("apply_patch <<'EOF'\n{patch}\nEOF\n");
        assert_eq!(patch_of_script(&script), Some(script.trim()));
        for other in
            [format!("echo {patch}"), "apply_patch --help".to_owned(), "applypatches << x".to_owned()]
        {
            assert_eq!(patch_of_script(&other), None, "{other}");
        }
        assert_eq!(patch_of_words(&["applypatch".to_owned(), patch.to_owned()]), Some(patch));
        assert_eq!(patch_of_words(&["cat".to_owned(), patch.to_owned()]), None);
    }
}
