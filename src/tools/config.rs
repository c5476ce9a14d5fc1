//! `config`: all settings of the policy, and the source of each value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{Effect, Text, Tool};
use crate::engine::Engine;
use crate::engine::policy::Policy;
use crate::engine::policy::layers::{self, Origin as SettingOrigin, SettingValue, SourcedValue};
use crate::engine::policy::settings::{SETTINGS, Setting, Value, WorkspaceRights};
use crate::engine::policy::values;
use crate::engine::store::id::IdOrigin;
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::engine::workspace::Workspace;
use crate::error::{Error, ErrorKind};
use crate::text::similarity;

/// Show every setting of the policy and its source
///
/// The policy is .lbx/config.toml in the workspace over lbx/config.toml in the user's configuration folder, under
/// environment variables and --set. An error in it is reported with its file and line.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Settings or tables to show, such as gate or limits; all by default
    #[arg(value_name = "KEY")]
    #[serde(default)]
    pub keys: Vec<String>,
    /// Also show the purpose, values and variable of each setting
    #[arg(long)]
    pub explain: bool,
    /// Print a policy file with every setting, its default and an explanation
    #[arg(long)]
    pub example: bool,
}

/// Policy of the workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Possible policy files, lowest priority first
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PolicyFileRow>,
    /// All settings
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SettingRow>,
    /// State of this account in the workspace
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateRow>,
    /// Policy file with every setting
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// State of this account in the workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StateRow {
    /// Source of its ID: `environment`, `user` (a file), or `derived` (from machine and user)
    pub from: &'static str,
    /// User's file with the ID
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Folder of the state; absent before the first change
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

impl StateRow {
    /// Returns the state of a workspace; `None` if it cannot have one.
    fn of(workspace: &Workspace) -> Result<Option<Self>, Error> {
        let found = State::source(workspace)?;
        Ok(found.map(|(origin, id)| {
            let (from, file) = match origin {
                IdOrigin::Environment => ("environment", None),
                IdOrigin::User(file) => ("user", Some(file.display().to_string())),
                IdOrigin::Derived => ("derived", None),
            };
            Self { from, file, folder: id.map(|id| format!("{STATE_FOLDER}/{id}")) }
        }))
    }

    /// Returns the state as text.
    fn words(&self) -> String {
        let folder = self.folder.as_deref().unwrap_or("none yet");
        format!("state: {folder} (id: {})", self.file.as_deref().unwrap_or(self.from))
    }
}

/// File that may have a part of the policy.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PolicyFileRow {
    /// `user`, `workspace`, or `outer` for a workspace around this one
    pub from: &'static str,
    /// Path
    pub path: String,
    /// True if it exists
    pub exists: bool,
}

/// One setting.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettingRow {
    /// Name
    pub key: &'static str,
    /// Value in force
    pub value: Json,
    /// Source of the value
    #[serde(flatten)]
    pub source: Source,
    /// True if the user's own file lets the environment and flags loosen it
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_loosen: bool,
    /// Parts with their sources, if lists of several sources are combined
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SettingPart>,
    /// Value of the workspace, if the user's stricter one overrides it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overruled: Option<SettingPart>,
    /// Default value
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// Values
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes: Option<String>,
    /// Environment variable that sets it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Changes a workspace's own file may make
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Purpose
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<&'static str>,
}

/// Part of a list, or a value that is not in force.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettingPart {
    /// Value
    pub value: Json,
    /// Source of the part
    #[serde(flatten)]
    pub source: Source,
}

/// Source of a value.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Source {
    /// `default`, `user`, `workspace`, `outer`, `environment` or `flag`
    pub from: &'static str,
    /// Path
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Environment variable
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

/// `config` tool.
pub struct Config;

impl Tool for Config {
    const NAME: &'static str = "config";
    const EFFECT: Effect = Effect::Reads;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        if request.example {
            let (files, settings) = (Vec::new(), Vec::new());
            return Ok(Response { files, settings, state: None, example: Some(example()) });
        }
        for key in &request.keys {
            if !SETTINGS.iter().any(|setting| is_wanted(setting.name, key)) {
                return Err(
                    Error::new(ErrorKind::InvalidRequest, values::unknown(key)).detail("field", "keys")
                );
            }
        }
        let unknown = unknown_variables(engine.policy());
        unknown.into_iter().for_each(|warning| engine.warn(warning));
        let state = match StateRow::of(&engine.workspace) {
            Ok(state) => state.filter(|_| request.keys.is_empty()),
            Err(error) => {
                engine.warn(format!("the state cannot be used: {}", error.message()));
                None
            }
        };
        let policy = engine.policy();
        let wanted = |held: &&SettingValue| {
            request.keys.is_empty() || request.keys.iter().any(|key| is_wanted(held.setting.name, key))
        };
        Ok(Response {
            files: files(policy),
            settings: policy
                .held()
                .iter()
                .filter(wanted)
                .map(|held| setting_row(policy, held, request.explain))
                .collect(),
            state,
            example: None,
        })
    }

    fn text(response: &Response, text: &mut Text) {
        if let Some(example) = &response.example {
            text.out.extend_from_slice(example.as_bytes());
        }
        for shown in &response.settings {
            text.entry(&shown.line());
        }
        response.state.iter().for_each(|state| text.note(state.words()));
        for file in response.files.iter().filter(|file| !file.exists) {
            text.note(format!("there is no {}", file.path));
        }
    }
}

impl SettingRow {
    /// Returns the setting as a line of a policy file, with its source.
    fn line(&self) -> String {
        let loosened = if self.may_loosen { ", may be loosened" } else { "" };
        let (value, source) = (toml_of(&self.value), self.source.words());
        let mut lines = vec![format!("{} = {value}  # {source}{loosened}", self.key)];
        for part in &self.parts {
            lines.push(format!("#   {}  # {}", toml_of(&part.value), part.source.words()));
        }
        if let Some(SettingPart { value, source }) = &self.overruled {
            lines.push(format!("#   {} is not strict enough  # {}", toml_of(value), source.words()));
        }
        if let (Some(about), Some(takes)) = (self.about, &self.takes) {
            lines.extend([format!("#   {about}"), format!("#   {takes}")]);
        }
        lines.join("\n")
    }
}

impl Source {
    /// Returns the source of a value.
    fn of(policy: &Policy, origin: &SettingOrigin) -> Self {
        let at = |from, file: Option<String>, line| Self { from, file, line, variable: None };
        match origin {
            SettingOrigin::Default => at("default", None, None),
            SettingOrigin::User(place) => {
                at("user", policy.user_file().map(|file| file.path.clone()), Some(place.line))
            }
            SettingOrigin::Workspace(place) => {
                at("workspace", Some(policy.workspace_file().path.clone()), Some(place.line))
            }
            SettingOrigin::Outer(file, place) => at("outer", Some(file.clone()), Some(place.line)),
            SettingOrigin::Environment(name) => {
                Self { variable: Some(name.clone()), ..at("environment", None, None) }
            }
            SettingOrigin::Flag => at("flag", None, None),
        }
    }

    /// Returns the source as text.
    fn words(&self) -> String {
        match (&self.file, self.line, &self.variable) {
            (Some(file), Some(line), _) => format!("{file}:{line}"),
            (_, _, Some(variable)) => variable.clone(),
            _ => self.from.to_owned(),
        }
    }
}

/// Returns true if a setting has this name, or is in the table with this name.
fn is_wanted(name: &str, key: &str) -> bool {
    name == key || name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
}

/// Returns the files that may have a policy.
fn files(policy: &Policy) -> Vec<PolicyFileRow> {
    let user = policy.user_file().map(|file| ("user", file));
    let all = user.into_iter().chain([("workspace", policy.workspace_file())]);
    let all = all.map(|(from, file)| PolicyFileRow { from, path: file.path.clone(), exists: file.exists });
    let outer =
        policy.outer_files().map(|path| PolicyFileRow { from: "outer", path: path.to_owned(), exists: true });
    all.chain(outer).collect()
}

/// Returns a setting for the response.
fn setting_row(policy: &Policy, held: &SettingValue, explain: bool) -> SettingRow {
    let part = |sourced: &SourcedValue| SettingPart {
        value: json_of(&sourced.value),
        source: Source::of(policy, &sourced.origin),
    };
    let setting = held.setting;
    let last = held.sources.last().map_or(&SettingOrigin::Default, |source| &source.origin);
    SettingRow {
        key: setting.name,
        value: json_of(&held.value),
        source: Source::of(policy, last),
        may_loosen: held.may_loosen,
        parts: held.sources.iter().filter(|_| held.sources.len() > 1).map(part).collect(),
        overruled: held.overruled.as_ref().map(part),
        default: explain.then(|| json_of(&setting.default)),
        takes: explain.then(|| values::expected(setting.form)),
        environment: (explain && setting.workspace != WorkspaceRights::UserOnly).then(|| setting.variable()),
        workspace: explain.then(|| match setting.workspace {
            WorkspaceRights::Freely | WorkspaceRights::UnlessUser => "freely".to_owned(),
            WorkspaceRights::UpTo(most) | WorkspaceRights::UnlessUserUpTo(most) => format!("up to {most}"),
            WorkspaceRights::MoreStrictly => "more strictly".to_owned(),
            WorkspaceRights::MoreStrictlyUpTo(most) => format!("more strictly, up to {most}"),
            WorkspaceRights::Never | WorkspaceRights::UserOnly => "never".to_owned(),
        }),
        about: explain.then_some(setting.about),
    }
}

/// Returns warnings about variables that look like the policy's but are unknown.
fn unknown_variables(policy: &Policy) -> Vec<String> {
    let near = |name: &str| {
        let names: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        similarity::nearest(name, &names, 1, 0.6).first().map(|near| (*near).to_owned())
    };
    let unknown = policy.unknown_variables().iter();
    unknown
        .map(|name| match near(name) {
            Some(near) => format!("{name} sets nothing; did you mean {near}?"),
            None => format!("{name} sets nothing"),
        })
        .collect()
}

/// Returns a value as JSON.
fn json_of(value: &Value) -> Json {
    match value {
        Value::Text(text) => text.clone().into_owned().into(),
        Value::Number(number) => (*number).into(),
        Value::Switch(switch) => (*switch).into(),
        Value::List(globs) => globs.clone().into(),
    }
}

/// Returns a value in the form of a policy file.
fn toml_of(value: &Json) -> String {
    match value {
        Json::String(text) => layers::quoted(text),
        Json::Array(items) => format!("[{}]", items.iter().map(toml_of).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Returns a policy file with the default of every setting, each explained and commented out.
pub fn example() -> String {
    let mut lines = Vec::new();
    let mut table = "";
    for setting in SETTINGS {
        let (of, key) = setting.name.split_once('.').unwrap_or(("", setting.name));
        if of != table {
            lines.extend([String::new(), format!("[{of}]")]);
            table = of;
        }
        lines.extend(wrapped(setting.about).into_iter().map(|line| format!("# {line}")));
        lines.push(format!("# Takes {}.", values::expected(setting.form)));
        lines.push(format!("{key} = {}", layers::toml_text(&setting.default)));
    }
    lines.join("\n") + "\n"
}

/// Splits a text into lines of at most 98 characters.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < 98 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
