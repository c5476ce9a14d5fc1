//! Parses the text of a policy file into settings with positions, and checks their values. Pure: no I/O.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use gix::bstr::ByteSlice as _;
use globset::{Glob, GlobBuilder};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::{Form, Permission, SETTINGS, Setting, Value, find};
use crate::engine::sandbox::caches;
use crate::engine::sandbox::proxy::hosts;
use crate::limits::VALUE_CHARACTERS_MAX;
use crate::text::similarity;

/// Position in a file; line and column count from 1, the column in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

/// A value that a source gives to a setting.
#[derive(Debug)]
pub struct GivenValue {
    /// The setting.
    pub setting: &'static Setting,
    /// Value.
    pub value: Value,
    /// Position in its file.
    pub place: Position,
}

/// Error in a text, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFault {
    /// Position in its file, if known.
    pub place: Option<Position>,
    /// Key concerned, if there is one.
    pub key: Option<String>,
    /// Fault, and the expected value.
    pub message: String,
}

/// Parses the settings in the text of a policy file, in the order of the file.
///
/// # Errors
/// Returns the first fault: invalid UTF-8 or TOML, an unknown key, or a value of the wrong form or outside its range.
pub fn parse(bytes: &[u8]) -> Result<Vec<GivenValue>, PolicyFault> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let place = place_of(bytes, error.valid_up_to());
        PolicyFault { place: Some(place), key: None, message: "the file is not UTF-8".to_owned() }
    })?;
    let table = DeTable::parse(text).map_err(|error| {
        let place = error.span().map(|span| place_of(bytes, span.start));
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        PolicyFault { place, key: None, message: format!("no TOML: {message}") }
    })?;
    let mut reader = TableReader { bytes, found: Vec::new() };
    reader.table("", table.get_ref());
    reader.found.sort_by_key(|(at, _)| *at);
    reader.found.into_iter().map(|(_, found)| found).collect()
}

/// Parses the value of a setting from an environment variable or a flag: a list is separated by colons, or written as in
/// a policy file with double quotes.
///
/// # Errors
/// Returns the expected form.
pub fn parse_text(setting: &Setting, text: &str) -> Result<Value, String> {
    let wrong = || wrong_form(setting, &format!("{:?}", clipped(text)));
    let is_list = matches!(
        setting.form,
        Form::Globs | Form::Folders | Form::Settings | Form::Caches | Form::Items(_) | Form::Network
    );
    if is_list && let Ok(list) = serde_json::from_str(text) {
        return checked(setting, Value::List(list));
    }
    match setting.form {
        Form::Number { .. } => {
            let number = text.trim().parse().map_err(|_| wrong())?;
            checked(setting, Value::Number(number))
        }
        Form::Switch => match text.trim() {
            "true" | "1" => Ok(Value::Switch(true)),
            "false" | "0" => Ok(Value::Switch(false)),
            _ => Err(wrong()),
        },
        Form::Globs | Form::Folders | Form::Settings | Form::Caches | Form::Items(_) => {
            let list = text.split(':').filter(|part| !part.is_empty()).map(str::to_owned).collect();
            checked(setting, Value::List(list))
        }
        // A lone word is more often a mistake than a host.
        Form::Network
            if ![DENY, ALLOW].contains(&text.trim()) && !text.contains(['.', ':', '*', ',', ' ']) =>
        {
            Err(wrong())
        }
        Form::Network if ![DENY, ALLOW].contains(&text.trim()) => {
            let entries = text.split([',', ' ']).filter(|part| !part.is_empty());
            checked(setting, Value::List(entries.map(str::to_owned).collect()))
        }
        Form::Choice(_) | Form::Branch | Form::Network => {
            checked(setting, Value::Text(Cow::Owned(text.trim().to_owned())))
        }
    }
}

/// Reads tables.
struct TableReader<'a> {
    /// Bytes of the file.
    bytes: &'a [u8],
    /// Settings and faults, each with its offset.
    found: Vec<(usize, Result<GivenValue, PolicyFault>)>,
}

impl TableReader<'_> {
    /// Reads a table; `prefix` is its own name with a dot, or empty.
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            let found = match (find(&name), value.get_ref()) {
                (Some(setting), _) => self.value(setting, value).map(|value| (setting, value)),
                (None, DeValue::Table(inner)) if is_table(&name) => {
                    self.table(&format!("{name}."), inner);
                    continue;
                }
                (None, _) if is_table(&name) => {
                    Err((key.span(), format!("`{name}` is a table: write [{name}] and its keys below it")))
                }
                (None, _) => Err((key.span(), unknown(&name))),
            };
            let at = found.as_ref().map_or_else(|(span, _)| span.start, |_| key.span().start);
            let place = place_of(self.bytes, at);
            let found = found.map(|(setting, value)| GivenValue { setting, value, place });
            let fault = |(_, message)| PolicyFault { place: Some(place), key: Some(name), message };
            self.found.push((at, found.map_err(fault)));
        }
    }

    /// Returns the value of a setting, or the fault and its position.
    fn value(
        &self,
        setting: &Setting,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Value, (Range<usize>, String)> {
        let at = |message| (value.span(), message);
        let wrong = || at(wrong_form(setting, &self.display_part(value.span())));
        let found = match (setting.form, value.get_ref()) {
            (Form::Choice(_) | Form::Branch | Form::Network, DeValue::String(text)) => {
                Value::Text(Cow::Owned(text.clone().into_owned()))
            }
            (Form::Number { .. }, DeValue::Integer(number)) => {
                let parsed = u64::from_str_radix(number.as_str().trim_start_matches('+'), number.radix());
                Value::Number(parsed.map_err(|_| wrong())?)
            }
            (Form::Switch, DeValue::Boolean(switch)) => Value::Switch(*switch),
            (
                Form::Globs | Form::Folders | Form::Settings | Form::Caches | Form::Items(_) | Form::Network,
                DeValue::Array(items),
            ) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    let DeValue::String(text) = item.get_ref() else {
                        let message = wrong_form(setting, &self.display_part(item.span()));
                        return Err((item.span(), message));
                    };
                    item_fault(setting, text).map_or(Ok(()), |message| Err((item.span(), message)))?;
                    list.push(text.clone().into_owned());
                }
                Value::List(list)
            }
            _ => return Err(wrong()),
        };
        checked(setting, found).map_err(at)
    }

    /// Returns a part of the file for messages.
    fn display_part(&self, span: Range<usize>) -> String {
        clipped(&String::from_utf8_lossy(self.bytes.get(span).unwrap_or_default()))
    }
}

/// Returns true if a name is that of a table.
fn is_table(name: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.name.split_once('.').is_some_and(|(table, _)| table == name))
}

/// Returns line and column of an offset.
fn place_of(bytes: &[u8], at: usize) -> Position {
    let before = bytes.get(..at).unwrap_or(bytes);
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    let start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    Position { line, column: before.len() - start + 1 }
}

/// Word for no network.
pub(super) const DENY: &str = "deny";
/// Word for the whole network.
pub(super) const ALLOW: &str = "allow";
/// Most globs in one list.
const GLOBS_MAX: usize = 1000;
/// Longest glob, in bytes.
const GLOB_BYTES_MAX: usize = 4096;
/// Longest name of a branch, in bytes: a file of that name must be possible.
const BRANCH_BYTES_MAX: usize = 200;
/// Smallest similarity of a suggested key, 0 to 1.
const LIKENESS_MIN: f32 = 0.6;

/// Returns a value of the right form, if it is in the range of the setting.
pub(super) fn checked(setting: &Setting, value: Value) -> Result<Value, String> {
    let wrong = |shown: &str| Err(wrong_form(setting, shown));
    match (setting.form, &value) {
        (Form::Choice(words), Value::Text(text)) if !words.contains(&text.as_ref()) => {
            let near = similarity::nearest(text.as_ref(), words, 1, LIKENESS_MIN);
            let hint = near.first().map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
            Err(wrong_form(setting, &format!("{:?}", clipped(text))) + &hint)
        }
        (Form::Number { min, max, .. }, Value::Number(number)) if !(min..=max).contains(number) => {
            wrong(&number.to_string())
        }
        (Form::Branch, Value::Text(name)) => branch_fault(name).map_or(Ok(value), Err),
        (Form::Network, Value::Text(text)) if ![DENY, ALLOW].contains(&text.as_ref()) => {
            wrong(&format!("{:?}", clipped(text)))
        }
        (form, Value::List(items)) => {
            let is_folder = |item: &String| item.starts_with('/') && item.len() <= GLOB_BYTES_MAX;
            if let Some(odd) = items.iter().find(|item| form == Form::Folders && !is_folder(item)) {
                return wrong(&format!("{:?}", clipped(odd)));
            }
            let noun = match form {
                Form::Folders => "folders",
                Form::Globs => "globs",
                Form::Network => "hosts",
                _ => "items",
            };
            if form != Form::Settings && items.len() > GLOBS_MAX {
                return Err(format!("`{}` has {} {noun}, more than {GLOBS_MAX}", setting.name, items.len()));
            }
            items.iter().find_map(|item| item_fault(setting, item)).map_or(Ok(value), Err)
        }
        _ => Ok(value),
    }
}

/// Returns the error for a value of the wrong form: expected and actual.
pub(super) fn wrong_form(setting: &Setting, got: &str) -> String {
    format!("`{}`: expected {}, got {got}", setting.name, expected(setting.form))
}

/// Describes the values of a form.
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
        Form::Caches => "a list of names of caches".to_owned(),
        Form::Items(what) => format!("a list of {what}"),
        Form::Network => format!("{DENY:?}, {ALLOW:?} or a list of hosts"),
        Form::Branch => "the name of a branch".to_owned(),
    }
}

/// Returns the error for an unknown key, with the most similar known one.
pub fn unknown(name: &str) -> String {
    let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    // A key in the wrong table, or in none, probably means the one of the same name elsewhere.
    let misplaced = names.iter().find(|known| last(known) == last(name)).copied();
    let tables = names.iter().filter_map(|known| known.split_once('.')).map(|(table, _)| table);
    let known: Vec<&str> = names.iter().copied().chain(tables).collect();
    let near = misplaced
        .or_else(|| similarity::nearest(name, &known, 1, LIKENESS_MIN).first().copied())
        .map(|near| format!("did you mean `{near}`?"));
    let hint = near.unwrap_or_else(|| "`lbx config` lists the keys".to_owned());
    format!("unknown key `{}`, {hint}", clipped(name))
}

/// Parses a glob for paths from the root: in any letter case; without a slash, at any depth.
///
/// # Errors
/// Describes the fault.
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

/// Returns the fault of an item of a setting's list, after the setting's name.
pub(super) fn item_fault(setting: &Setting, item: &str) -> Option<String> {
    let fault = match setting.form {
        Form::Globs => glob_fault(item),
        Form::Settings => {
            let is_act = Permission::ALL.iter().any(|permission| permission.name() == item);
            (!is_act && find(item).is_none()).then(|| unknown(item))
        }
        Form::Caches => {
            let is_known = item == caches::NONE || caches::names().any(|name| name == item);
            (!is_known).then(|| {
                let known: BTreeSet<&str> = caches::names().collect();
                let known = known.into_iter().collect::<Vec<_>>().join(", ");
                format!("{:?} is no cache; expected {} or some of {known}", clipped(item), caches::NONE)
            })
        }
        Form::Network => hosts::fault(item).map(|fault| format!("{:?}: {fault}", clipped(item))),
        // Folders are checked with the whole value; other items may be anything.
        _ => None,
    };
    fault.map(|fault| format!("`{}`: {fault}", setting.name))
}

/// Returns the fault of a glob.
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

/// Prefix of references that are not branches.
const OWN_REFERENCES: &str = "refs/lbx/";

/// Returns the fault of the short name of a branch, or of the full one of a reference below `refs/lbx/`.
fn branch_fault(name: &str) -> Option<String> {
    let refused = |why: &str| Some(format!("`snapshot.branch`: {:?} {why}", clipped(name)));
    if name.len() > BRANCH_BYTES_MAX {
        return refused(&format!("is longer than {BRANCH_BYTES_MAX} bytes"));
    }
    if name.starts_with("refs/") && !name.starts_with(OWN_REFERENCES) {
        return refused("is a full name; give the short one, without refs/heads/, or one below refs/lbx/");
    }
    // Reject characters that a shell or another file system would interpret.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    if !name.bytes().all(is_plain) {
        return refused("is not a portable name: expected letters, digits and . _ - /");
    }
    // A reference of lbx's own is not a branch, so `git push` does not include it.
    let full = if name.starts_with(OWN_REFERENCES) { name.to_owned() } else { format!("refs/heads/{name}") };
    let is_special = name.eq_ignore_ascii_case("head") || name.starts_with('-');
    if is_special || gix::validate::reference::name(full.as_bytes().as_bstr()).is_err() {
        return refused("cannot be the name of a branch");
    }
    None
}

/// Returns the beginning of a text, on one line.
pub(super) fn clipped(text: &str) -> String {
    let mut characters = text.chars().map(|character| if character.is_control() { ' ' } else { character });
    let mut shown: String = characters.by_ref().take(VALUE_CHARACTERS_MAX).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}
