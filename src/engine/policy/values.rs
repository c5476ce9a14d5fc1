//! What the value of a setting may be, and what is wrong with one. Pure.

use std::collections::BTreeSet;

use gix::bstr::ByteSlice as _;
use globset::{Glob, GlobBuilder};

use super::settings::{Form, Key, Permission, SETTINGS, Setting, Value, find};
use crate::engine::sandbox::caches;
use crate::engine::sandbox::proxy::hosts;
use crate::text::likeness;

/// The word for no network.
pub(super) const DENY: &str = "deny";
/// The word for the whole network.
pub(super) const ALLOW: &str = "allow";
/// Globs in one list.
const GLOBS_MAX: usize = 1000;
/// Bytes of one glob.
const GLOB_BYTES_MAX: usize = 4096;
/// Bytes of a branch's name: a file of that name must be possible.
const BRANCH_BYTES_MAX: usize = 200;
/// Characters of a value that a message repeats.
const SHOWN_CHARACTERS_MAX: usize = 60;
/// How alike a key must be to be named, 0 to 1.
const LIKENESS_MIN: f32 = 0.6;

/// A value that has its form, if it lies within what the setting takes.
pub(super) fn checked(setting: &Setting, value: Value) -> Result<Value, String> {
    let wrong = |shown: &str| Err(wrong_form(setting, shown));
    match (setting.form, &value) {
        (Form::Choice(words), Value::Text(text)) if !words.contains(&text.as_ref()) => {
            let near = likeness::nearest(text.as_ref(), words, 1, LIKENESS_MIN);
            let hint = near.first().map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
            Err(wrong_form(setting, &format!("{:?}", clipped(text))) + &hint)
        }
        (Form::Number { min, max, .. }, Value::Number(number)) if !(min..=max).contains(number) => {
            wrong(&number.to_string())
        }
        (Form::Branch, Value::Text(name)) => branch_fault(name).map_or(Ok(value), Err),
        (Form::Folders, Value::List(folders)) => {
            let is_folder = |folder: &&String| folder.starts_with('/') && folder.len() <= GLOB_BYTES_MAX;
            match folders.iter().find(|folder| !is_folder(folder)) {
                Some(odd) => Err(wrong_form(setting, &format!("{:?}", clipped(odd)))),
                None if folders.len() > GLOBS_MAX => {
                    Err(format!("`{}` has {} folders, more than {GLOBS_MAX}", setting.name, folders.len()))
                }
                None => Ok(value),
            }
        }
        (Form::Items(_), Value::List(items)) if items.len() > GLOBS_MAX => {
            Err(format!("`{}` has {} items, more than {GLOBS_MAX}", setting.name, items.len()))
        }
        (Form::Globs, Value::List(globs)) if globs.len() > GLOBS_MAX => {
            Err(format!("`{}` has {} globs, more than {GLOBS_MAX}", setting.name, globs.len()))
        }
        (Form::Globs, Value::List(globs)) => {
            let fault = globs.iter().find_map(|glob| item_fault(setting, glob));
            fault.map_or(Ok(value), Err)
        }
        (Form::Network, Value::Text(text)) if ![DENY, ALLOW].contains(&text.as_ref()) => {
            wrong(&format!("{:?}", clipped(text)))
        }
        (Form::Network, Value::List(hosts)) if hosts.len() > GLOBS_MAX => {
            Err(format!("`{}` has {} hosts, more than {GLOBS_MAX}", setting.name, hosts.len()))
        }
        (Form::Settings | Form::Network | Form::Items(_), Value::List(names)) => {
            names.iter().find_map(|name| item_fault(setting, name)).map_or(Ok(value), Err)
        }
        _ => Ok(value),
    }
}

/// The refusal of a value: what was expected, and what there was.
pub(super) fn wrong_form(setting: &Setting, got: &str) -> String {
    format!("`{}`: expected {}, got {got}", setting.name, expected(setting.form))
}

/// What a form takes, in words.
#[must_use]
pub fn expected(form: Form) -> String {
    match form {
        Form::Choice(words) => words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or "),
        Form::Number { min, max, unit, zero } => {
            let zero = zero.map(|zero| format!(" (0: {zero})")).unwrap_or_default();
            format!("a number of {unit} from {min} to {max}{zero}")
        }
        Form::Switch => "true or false".to_owned(),
        Form::Globs => "a list of globs".to_owned(),
        Form::Folders => "a list of absolute paths".to_owned(),
        Form::Settings => "a list of settings".to_owned(),
        Form::Items(what) => format!("a list of {what}"),
        Form::Network => format!("{DENY:?}, {ALLOW:?} or a list of hosts"),
        Form::Branch => "the name of a branch".to_owned(),
    }
}

/// The refusal of a key, with the nearest known one.
#[must_use]
pub fn unknown(name: &str) -> String {
    let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    // A key in the wrong table, or in none, is meant as the one of the same name elsewhere.
    let misplaced = names.iter().find(|known| last(known) == last(name)).copied();
    let tables = names.iter().filter_map(|known| known.split_once('.')).map(|(table, _)| table);
    let known: Vec<&str> = names.iter().copied().chain(tables).collect();
    let near = misplaced
        .or_else(|| likeness::nearest(name, &known, 1, LIKENESS_MIN).first().copied())
        .map(|near| format!("did you mean `{near}`?"));
    let hint = near.unwrap_or_else(|| "`lbx config` lists the keys".to_owned());
    format!("unknown key `{}`, {hint}", clipped(name))
}

/// A glob for paths from the root: in any letter case; without a slash, at any depth.
///
/// # Errors
/// What is wrong with it.
pub fn glob(pattern: &str) -> Result<Glob, String> {
    let body = pattern.strip_suffix('/').unwrap_or(pattern);
    let full = match body.strip_prefix('/') {
        Some(anchored) => anchored.to_owned(),
        None if body.contains('/') => body.to_owned(),
        None => format!("**/{body}"),
    };
    GlobBuilder::new(&full)
        .literal_separator(true)
        .case_insensitive(true)
        .backslash_escape(true)
        .empty_alternates(true)
        .build()
        .map_err(|error| format!("the glob {:?}: {}", clipped(pattern), error.kind()))
}

/// What is wrong with an item of a setting's list, after the setting's name.
pub(super) fn item_fault(setting: &Setting, item: &str) -> Option<String> {
    let fault = match setting.form {
        Form::Globs => glob_fault(item),
        Form::Settings => {
            let is_act = Permission::ALL.iter().any(|permission| permission.name() == item);
            (!is_act && find(item).is_none()).then(|| unknown(item))
        }
        Form::Items(_) if setting.key == Key::BashCaches => {
            let is_known = item == caches::NONE || caches::names().any(|name| name == item);
            (!is_known).then(|| {
                let known: BTreeSet<&str> = caches::names().collect();
                let known = known.into_iter().collect::<Vec<_>>().join(", ");
                format!("{:?} is no cache; expected {} or some of {known}", clipped(item), caches::NONE)
            })
        }
        Form::Network => hosts::fault(item).map(|fault| format!("{:?}: {fault}", clipped(item))),
        // A folder is looked at with the whole value; other items may be anything.
        _ => None,
    };
    fault.map(|fault| format!("`{}`: {fault}", setting.name))
}

/// What is wrong with a glob.
fn glob_fault(pattern: &str) -> Option<String> {
    let shown = || clipped(pattern);
    if pattern.trim_matches('/').is_empty() {
        return Some(format!("the glob {:?} is empty", shown()));
    }
    if pattern.len() > GLOB_BYTES_MAX {
        return Some(format!("a glob is {} bytes long, more than {GLOB_BYTES_MAX}", pattern.len()));
    }
    if pattern.starts_with('!') {
        return Some(format!(
            "{:?}: exceptions are not supported (write \\! for a name that begins with !)",
            shown()
        ));
    }
    let is_odd = |component: &str| component == "." || component == ".." || component.is_empty();
    if pattern.trim_matches('/').split('/').any(is_odd) {
        return Some(format!("{:?}: a path counts from the root, without `.`, `..` or `//`", shown()));
    }
    glob(pattern).err()
}

/// Where references may be that are no branches.
const OWN_REFERENCES: &str = "refs/lbx/";

/// What is wrong with the short name of a branch, or the full one of a reference below `refs/lbx/`.
fn branch_fault(name: &str) -> Option<String> {
    let refused = |why: &str| Some(format!("`snapshot.branch`: {:?} {why}", clipped(name)));
    if name.len() > BRANCH_BYTES_MAX {
        return refused(&format!("is longer than {BRANCH_BYTES_MAX} bytes"));
    }
    if name.starts_with("refs/") && !name.starts_with(OWN_REFERENCES) {
        return refused("is a full name; give the short one, without refs/heads/, or one below refs/lbx/");
    }
    // A name that a shell or another file system would read as something else is not portable.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    if !name.bytes().all(is_plain) {
        return refused("is not a portable name: expected letters, digits and . _ - /");
    }
    // A reference of lbx's own is no branch, so no push takes it along.
    let full = if name.starts_with(OWN_REFERENCES) { name.to_owned() } else { format!("refs/heads/{name}") };
    let is_special = name.eq_ignore_ascii_case("head") || name.starts_with('-');
    if is_special || gix::validate::reference::name(full.as_bytes().as_bstr()).is_err() {
        return refused("cannot be the name of a branch");
    }
    None
}

/// The beginning of a text, on one line.
pub(super) fn clipped(text: &str) -> String {
    let mut characters = text.chars().map(|character| if character.is_control() { ' ' } else { character });
    let mut shown: String = characters.by_ref().take(SHOWN_CHARACTERS_MAX).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_branch_names_are_refused() {
        for bad in [
            "",
            "HEAD",
            "head",
            "-x",
            "a..b",
            "a b",
            "a~1",
            "a^",
            "a:b",
            "x.lock",
            "a//b",
            "/a",
            "a/",
            ".a",
            "a/.b",
            "@",
            "a@{1}",
            "a\\b",
            "refs/heads/x",
            "a\nb",
            "ä",
            "a?",
            "a*",
            "a[",
            "$(x)",
            "a;b",
            "..",
            "a.",
            &"x".repeat(201),
        ] {
            assert!(branch_fault(bad).is_some(), "{bad:?}");
        }
        for good in ["lbx-snapshots", "agents/lbx", "x", "a.b_c-9"] {
            assert_eq!(branch_fault(good), None, "{good:?}");
        }
    }
}
