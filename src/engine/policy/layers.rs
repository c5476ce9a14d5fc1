//! Merges the values of all sources into the effective one, with its source. Pure.

use super::settings::{ByWorkspace, Form, Key, Setting, Value};
use super::values::{DENY, Given, Position};

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
pub struct Sourced {
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
    pub sources: Vec<Sourced>,
    /// Value of the workspace's file that the user's stricter value overrides.
    pub overruled: Option<Sourced>,
    /// True if the user's own file allows the environment and flags to loosen it.
    pub may_loosen: bool,
}

impl SettingValue {
    /// Returns a setting with its default value.
    pub fn default_of(setting: &'static Setting) -> Self {
        let value = setting.default.clone();
        let sources = vec![Sourced { value: value.clone(), origin: Origin::Default }];
        Self { setting, value, sources, overruled: None, may_loosen: false }
    }

    /// Applies the value of a source that takes precedence over earlier ones.
    ///
    /// # Errors
    /// Fails if that source may not set this value.
    pub fn take(&mut self, value: Value, origin: Origin) -> Result<(), String> {
        let given = Sourced { value, origin };
        let is_user = matches!(given.origin, Origin::User(_));
        if self.setting.workspace == ByWorkspace::UserOnly && !is_user && given.value != self.setting.default
        {
            return Err(format!("`{}`: only the user's own policy file can set it", self.setting.name));
        }
        if matches!(given.origin, Origin::Workspace(_)) {
            if let Some(refusal) = refused_of_workspace(self.setting, &given.value) {
                return Err(refusal);
            }
            // A clone cannot loosen the gate, or the guard of a client's own tools, that the user's own file sets.
            let is_said = self.sources.iter().any(|source| matches!(source.origin, Origin::User(_)));
            let is_kept = self.setting.is_guarded() || self.setting.name.starts_with("guard.");
            let is_strict = self.setting.workspace.is_strict() || (is_said && is_kept);
            if is_strict && self.is_loosened_by(&given.value) {
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
        if !self.setting.is_guarded() || self.may_loosen || !self.is_loosened_by(value) {
            return Ok(());
        }
        let (name, now) = (self.setting.name, shown(&self.value));
        Err(format!(
            "`{name}` is {now}, and only the user's own policy file makes it looser, or lets others do so: loosen = [\"{name}\"]"
        ))
    }

    /// Returns true if a value is looser than the effective one.
    fn is_loosened_by(&self, value: &Value) -> bool {
        match (self.setting.key, value, &self.value) {
            (Key::BashBackend, Value::Text(word), Value::Text(than)) => openness(word) > openness(than),
            (Key::BashReadable | Key::BashWritable, Value::List(paths), Value::List(known)) => {
                paths.iter().any(|path| !known.contains(path))
            }
            _ => is_looser(self.setting.form, value, &self.value),
        }
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

/// Applies the values of one source to the settings.
///
/// # Errors
/// Fails if a workspace's file may not set a value: returns the position, the key and the reason.
pub fn take_all(
    held: &mut [SettingValue],
    given: Vec<Given>,
    origin: impl Fn(&Given) -> Origin,
) -> Result<(), (Given, String)> {
    for given in given {
        let origin = origin(&given);
        if let Some(held) = held.iter_mut().find(|held| held.setting.name == given.name) {
            held.take(given.value.clone(), origin).map_err(|refusal| (given, refusal))?;
        }
    }
    Ok(())
}

/// Returns the reason if no workspace's file may set this value.
fn refused_of_workspace(setting: &Setting, value: &Value) -> Option<String> {
    if setting.workspace == ByWorkspace::Never && *value != setting.default {
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
    if !setting.workspace.is_strict() {
        return None;
    }
    if let (Form::Branch, Value::Text(name)) = (setting.form, value) {
        let is_ours = name.starts_with("lbx-") || name.starts_with("lbx/") || name.starts_with("refs/lbx/");
        return (!is_ours).then(|| {
            format!(
                "`{}`: a workspace's file may name only a branch that begins with lbx- or lbx/; another belongs in the user's own file",
                setting.name
            )
        });
    }
    is_looser(setting.form, value, &setting.default).then(|| {
        format!(
            "`{}`: a workspace's file may only make it stricter than {}; a looser value belongs in the user's own file",
            setting.name,
            shown(&setting.default)
        )
    })
}

/// Returns true if a value is looser than another of the same setting.
fn is_looser(form: Form, value: &Value, than: &Value) -> bool {
    match (form, value, than) {
        (Form::Choice(words), Value::Text(value), Value::Text(than)) => {
            let rank = |text: &str| words.iter().position(|word| *word == text);
            rank(value) > rank(than)
        }
        (Form::Switch, Value::Switch(value), Value::Switch(than)) => !value && *than,
        (Form::Network, Value::List(hosts), Value::List(than)) => {
            hosts.iter().any(|host| !than.contains(host))
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
pub fn shown(value: &Value) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::policy::settings::{SETTINGS, find};

    const AT: Position = Position { line: 3, column: 1 };

    /// Returns the effective value for the user's value `user` and the workspace's value `workspace`.
    fn merged(name: &str, user: Option<Value>, workspace: Value) -> Result<(Value, bool), String> {
        let mut held = SettingValue::default_of(find(name).unwrap());
        if let Some(user) = user {
            held.take(user, Origin::User(AT)).unwrap();
        }
        held.take(workspace, Origin::Workspace(AT))?;
        Ok((held.value, held.overruled.is_some()))
    }

    #[test]
    fn workspace_policy_cannot_loosen_guarded_settings() {
        let text = |text: &'static str| Value::Text(text.into());
        let number = Value::Number;
        for (name, user, workspace, wanted) in [
            ("gate", None, text("off"), Ok((text("off"), false))),
            ("gate", Some(text("warn")), text("strict"), Ok((text("strict"), false))),
            ("patch_gate", None, text("context"), Ok((text("context"), false))),
            ("patch_gate", Some(text("marks")), text("context"), Ok((text("marks"), true))),
            ("match", None, text("flexible"), Ok((text("flexible"), false))),
            ("limits.read", Some(number(10)), number(0), Ok((number(0), false))),
            ("hard_links", None, text("refuse"), Ok((text("refuse"), false))),
            ("hard_links", Some(text("refuse")), text("replace"), Ok((text("refuse"), true))),
            (
                "snapshot.enabled",
                Some(Value::Switch(false)),
                Value::Switch(true),
                Ok((Value::Switch(true), false)),
            ),
            ("snapshot.require", None, Value::Switch(true), Ok((Value::Switch(true), false))),
            (
                "snapshot.require",
                Some(Value::Switch(true)),
                Value::Switch(false),
                Ok((Value::Switch(true), true)),
            ),
            ("snapshot.file_bytes", None, number(1 << 28), Ok((number(1 << 28), false))),
            ("limits.search_ms", Some(number(0)), number(1000), Ok((number(1000), false))),
            ("gc.keep_days", None, number(29), Err(())),
            ("gc.keep_days", Some(number(90)), number(60), Ok((number(90), true))),
            ("gc.keep_days", Some(number(1)), number(60), Ok((number(60), false))),
            ("gc.keep_bytes", Some(number(5)), number(0), Ok((number(0), false))),
            ("bash.network", Some(text("allow")), text("deny"), Ok((text("deny"), false))),
            ("snapshot.branch", None, text("lbx/team"), Ok((text("lbx/team"), false))),
        ] {
            let found = merged(name, user.clone(), workspace.clone());
            assert_eq!(found.clone().map_err(|_| ()), wanted, "{name} {user:?} {workspace:?} {found:?}");
        }
    }

    #[test]
    fn lists_of_all_sources_are_merged() {
        let mut held = SettingValue::default_of(find("protect").unwrap());
        let globs = |glob: &str| Value::List(vec![glob.to_owned()]);
        held.take(globs("a"), Origin::User(AT)).unwrap();
        held.take(Value::List(Vec::new()), Origin::Workspace(AT)).unwrap();
        held.take(globs("b"), Origin::Flag).unwrap();
        assert_eq!(held.value, Value::List(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(held.sources.len(), 3);
        // A list of hosts replaces another: combined they would be looser than each.
        let mut held = SettingValue::default_of(find("bash.network").unwrap());
        held.take(globs("a.example"), Origin::User(AT)).unwrap();
        held.may_loosen = true;
        held.take(globs("b.example"), Origin::Flag).unwrap();
        assert_eq!((&held.value, held.sources.len()), (&globs("b.example"), 1));
    }

    #[test]
    fn environment_and_flags_cannot_loosen_the_user_policy() {
        let text = |text: &'static str| Value::Text(text.into());
        let number = Value::Number;
        let hosts = |hosts: &[&str]| Value::List(hosts.iter().map(|host| (*host).to_owned()).collect());
        for (name, user, other, stays) in [
            ("gate", text("warn"), text("off"), true),
            ("gate", text("warn"), text("warn"), false),
            ("gate", text("warn"), text("strict"), false),
            ("hard_links", text("refuse"), text("replace"), true),
            ("gc.keep_days", number(40), number(39), true),
            ("gc.keep_days", number(40), number(41), false),
            ("bash.backend", text("auto"), text("namespaces"), false),
            ("bash.backend", text("auto"), text("landlock"), true),
            ("bash.network", hosts(&["a.example"]), text("deny"), false),
            ("bash.writable", hosts(&["/a"]), hosts(&["/b"]), true),
        ] {
            for origin in [Origin::Environment("X".to_owned()), Origin::Flag] {
                for may_loosen in [false, true] {
                    let mut held = SettingValue::default_of(find(name).unwrap());
                    held.take(user.clone(), Origin::User(AT)).unwrap();
                    held.may_loosen = may_loosen;
                    let taken = held.take(other.clone(), origin.clone());
                    assert_eq!(taken.is_err(), stays && !may_loosen, "{name} {origin:?}");
                    assert!(taken.is_ok() || held.value == user, "{name} {origin:?}");
                }
            }
        }
        // A clone cannot loosen the gate that the user's own file sets; it can if the file does not set it.
        for (user, wanted) in [(Some("strict"), "strict"), (None, "off")] {
            let mut held = SettingValue::default_of(find("gate").unwrap());
            user.map(|user| held.take(text(user), Origin::User(AT))).transpose().unwrap();
            held.take(text("off"), Origin::Workspace(AT)).unwrap();
            assert_eq!(held.value, text(wanted));
        }
    }

    #[test]
    fn flag_can_only_shorten_the_host_list() {
        let hosts = |hosts: &[&str]| Value::List(hosts.iter().map(|host| (*host).to_owned()).collect());
        for (other, is_taken) in [
            (hosts(&["b.example"]), true),
            (hosts(&[]), true),
            (Value::Text("deny".into()), true),
            (hosts(&["a.example", "c.example"]), false),
            (Value::Text("allow".into()), false),
        ] {
            let mut held = SettingValue::default_of(find("bash.network").unwrap());
            held.take(hosts(&["a.example", "b.example"]), Origin::User(AT)).unwrap();
            assert_eq!(held.take(other.clone(), Origin::Flag).is_ok(), is_taken, "{other:?}");
        }
    }

    #[test]
    fn flags_set_every_switch() {
        for setting in SETTINGS {
            if let Form::Switch = setting.form {
                let mut held = SettingValue::default_of(setting);
                for value in [true, false] {
                    held.take(Value::Switch(value), Origin::Flag).unwrap();
                    assert_eq!(held.value, Value::Switch(value));
                }
            }
        }
    }

    #[test]
    fn values_are_displayed_as_valid_toml() {
        for value in [
            Value::Text("it's \"x\"\\\u{1}".into()),
            Value::List(vec![r"\!a".to_owned(), "b".to_owned()]),
            Value::Number(7),
        ] {
            let text = format!("x = {}", shown(&value));
            assert!(toml::de::DeTable::parse(&text).is_ok(), "{text}");
        }
    }
}
