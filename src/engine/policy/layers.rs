//! Merges the values of all sources into the effective one, with its source. Pure.

use super::settings::{Form, Key, Setting, Value, WorkspaceRights};
use super::values::{DENY, Position};

/// Source of a value; later ones take precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built-in default.
    Default,
    /// File in the user's configuration folder.
    User(Position),
    /// File in the workspace.
    Workspace(Position),
    /// File of an enclosing workspace, with its path.
    Outer(String, Position),
    /// An environment variable.
    Environment(String),
    /// Flag of the call, or of the server.
    Flag,
}

/// A value with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcedValue {
    /// Value.
    pub value: Value,
    /// Source.
    pub origin: Origin,
}

/// A setting with its value.
#[derive(Debug, Clone)]
pub struct SettingValue {
    /// Setting.
    pub setting: &'static Setting,
    /// Effective value; for a list with several sources, all of them together.
    pub value: Value,
    /// Sources; several if lists are combined.
    pub sources: Vec<SourcedValue>,
    /// Value of the workspace's file that the user's stricter value overrides.
    pub overruled: Option<SourcedValue>,
    /// True if the user's own file allows the environment and flags to loosen it.
    pub may_loosen: bool,
}

impl SettingValue {
    /// Returns a setting with its default value.
    pub fn default_of(setting: &'static Setting) -> Self {
        let value = setting.default.clone();
        let sources = vec![SourcedValue { value: value.clone(), origin: Origin::Default }];
        Self { setting, value, sources, overruled: None, may_loosen: false }
    }

    /// Applies the value of a source that takes precedence over earlier ones.
    ///
    /// # Errors
    /// Fails if that source may not set this value.
    pub fn apply_value(&mut self, value: Value, origin: Origin) -> Result<(), String> {
        let given = SourcedValue { value, origin };
        let is_user = matches!(given.origin, Origin::User(_));
        if self.setting.workspace == WorkspaceRights::UserOnly
            && !is_user
            && given.value != self.setting.default
        {
            return Err(format!("`{}`: only the user's own policy file can set it", self.setting.name));
        }
        if matches!(given.origin, Origin::Workspace(_)) {
            if let Some(refusal) = refused_of_workspace(self.setting, &given.value) {
                return Err(refusal);
            }
            // A clone cannot loosen the gate, or the guard of a client's own tools, that the user's own file sets.
            let is_said = self.sources.iter().any(|source| matches!(source.origin, Origin::User(_)));
            let is_kept =
                self.setting.workspace.is_strict() || (is_said && self.setting.workspace.is_guarded());
            if is_kept && is_looser(self.setting, &given.value, &self.value) {
                self.overruled = Some(given);
                return Ok(());
            }
        }
        if matches!(given.origin, Origin::Environment(_) | Origin::Flag) {
            self.must_not_loosen(&given.value)?;
        }
        if let (Value::List(all), Value::List(more)) = (&mut self.value, &given.value)
            && self.setting.form != Form::Network
        {
            all.extend(more.iter().cloned());
            self.sources.retain(|source| source.origin != Origin::Default);
            self.sources.push(given);
        } else {
            self.value = given.value.clone();
            self.sources = vec![given];
        }
        Ok(())
    }

    /// Checks that the environment, a flag or a request does not loosen the setting without permission.
    ///
    /// # Errors
    /// Names the file that may.
    pub fn must_not_loosen(&self, value: &Value) -> Result<(), String> {
        let is_free = self.may_loosen || !self.setting.workspace.is_guarded();
        if is_free || !is_looser(self.setting, value, &self.value) {
            return Ok(());
        }
        let (name, now) = (self.setting.name, toml_text(&self.value));
        Err(format!(
            "`{name}` is {now}, and only the user's own policy file makes it looser, or lets others do so: loosen = [\"{name}\"]"
        ))
    }
}

/// Returns how permissive a backend is.
fn openness(backend: &str) -> u8 {
    match backend {
        "none" => 3,
        "landlock" => 2,
        "auto-landlock" => 1,
        _ => 0,
    }
}

/// Returns the reason if no workspace's file may set this value.
fn refused_of_workspace(setting: &Setting, value: &Value) -> Option<String> {
    if setting.workspace == WorkspaceRights::Never && *value != setting.default {
        return Some(format!(
            "`{}`: a workspace's file may not set it; it belongs in the user's own file",
            setting.name
        ));
    }
    if let (Some(most), Value::Number(number)) = (setting.workspace.at_most(), value) {
        let lifts = matches!(setting.form, Form::Number { zero: Some(_), .. }) && *number == 0;
        if *number > most || lifts {
            return Some(format!(
                "`{}`: a workspace's file may set at most {most}; a larger value belongs in the user's own file",
                setting.name
            ));
        }
    }
    if !setting.workspace.is_strict() || !is_looser(setting, value, &setting.default) {
        return None;
    }
    let (name, default) = (setting.name, toml_text(&setting.default));
    Some(match setting.form {
        Form::Branch => format!(
            "`{name}`: a workspace's file may name only a branch that begins with lbx- or lbx/; another belongs in the user's own file"
        ),
        _ => format!(
            "`{name}`: a workspace's file may only make it stricter than {default}; a looser value belongs in the user's own file"
        ),
    })
}

/// Returns true if a value is looser than another of the same setting.
fn is_looser(setting: &Setting, value: &Value, than: &Value) -> bool {
    match (setting.form, value, than) {
        (_, Value::Text(value), Value::Text(than)) if setting.key == Key::BashBackend => {
            openness(value) > openness(than)
        }
        (Form::Choice(words), Value::Text(value), Value::Text(than)) => {
            let rank = |text: &str| words.iter().position(|word| *word == text);
            rank(value) > rank(than)
        }
        (Form::Switch, Value::Switch(value), Value::Switch(than)) => !value && *than,
        // A branch that is not lbx's own may be one that people use.
        (Form::Branch, Value::Text(name), than) => {
            value != than && !["lbx-", "lbx/", "refs/lbx/"].iter().any(|prefix| name.starts_with(prefix))
        }
        (Form::Caches, _, Value::List(than)) if than.is_empty() => false,
        // The other lists restrict: more entries are stricter.
        (form, Value::List(more), Value::List(than))
            if form == Form::Network || setting.workspace == WorkspaceRights::Never =>
        {
            more.iter().any(|item| !than.contains(item))
        }
        (Form::Network, value, than) => {
            let rank = |value: &Value| match value {
                Value::Text(word) if word == DENY => 0,
                Value::Text(_) => 2,
                _ => 1,
            };
            rank(value) > rank(than)
        }
        (Form::Number { zero, .. }, Value::Number(value), Value::Number(than)) => {
            // If 0 removes a limit, it is the strictest value: the user relies on the files that are kept.
            let rank = |number: u64| if zero.is_some() && number == 0 { u64::MAX } else { number };
            rank(*value) < rank(*than)
        }
        _ => false,
    }
}

/// Returns a value in the syntax of a policy file.
pub fn toml_text(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Number(number) => number.to_string(),
        Value::Switch(switch) => switch.to_string(),
        Value::List(globs) => {
            format!("[{}]", globs.iter().map(|glob| quoted(glob)).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns a TOML string: literal between apostrophes, else with escapes.
pub fn quoted(text: &str) -> String {
    if text.contains('\\') && !text.contains(['\'', '\n']) && !text.contains(char::is_control) {
        return format!("'{text}'");
    }
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                quoted.extend(format!("\\u{:04X}", u32::from(control)).chars());
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}
