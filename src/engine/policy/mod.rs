//! The policy: settings by the owner of the machine or of the workspace.
//!
//! `.lbx/config.toml` in the workspace takes precedence over `lbx/config.toml` in the user's configuration folder;
//! environment variables and flags take precedence over both. [`settings`] lists every setting, [`values`] and
//! [`layers`] are pure, [`sources`] reads. An invalid file is an error, and never half a policy.

pub mod layers;
pub mod protected;
pub mod settings;
pub mod sources;
pub mod values;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use layers::{Origin, SettingValue};
use settings::{Key, Permission, SETTINGS, Value};
use sources::{LoadedSettings, PolicyFile, Sources};

use crate::engine::sandbox::outside::Network;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};

/// Treatment of a change whose caller has not seen the current bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Refuse it.
    Strict,
    /// Allow it with a warning.
    Warn,
    /// Allow it.
    Off,
}

impl Gate {
    /// Returns the word in a policy file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Warn => "warn",
            Self::Off => "off",
        }
    }
}

/// Proof that a patch hunk needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchGate {
    /// The file was read.
    Marks,
    /// Or its old lines match exactly and in one place.
    Context,
}

/// Default way in which `edit` finds its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// Exact text.
    Exact,
    /// Also text that a person would consider equal.
    Flexible,
}

/// Policy of one call.
#[derive(Debug)]
pub struct Policy {
    /// Merged settings; calls of one process share them while the sources are unchanged.
    loaded: Arc<LoadedSettings>,
    /// Path of the user's file, whether it exists or not.
    user_path: Option<PathBuf>,
    /// Settings from flags.
    flags: Vec<String>,
    /// Paths of the user's file in the workspace, found on first use.
    own_paths: OnceLock<Vec<WorkspacePath>>,
}

impl Default for Policy {
    /// Returns the default policy.
    fn default() -> Self {
        let workspace = PolicyFile { path: sources::workspace_file().to_string(), exists: false };
        let held = SETTINGS.iter().map(SettingValue::default_of).collect();
        Self::of(Arc::new(LoadedSettings { held, workspace, ..LoadedSettings::default() }), None)
    }
}

impl Policy {
    /// Loads the policy of a call in `workspace`.
    ///
    /// # Errors
    /// Returns `invalid_request` that names the file with line and column, the variable or the flag; or the OS error if
    /// an existing file cannot be read.
    pub fn load(workspace: &Workspace, sources: &Sources) -> Result<Self, Error> {
        let loaded = sources::cached_or_loaded(workspace, sources)?;
        Ok(Self { flags: sources.flags.clone(), ..Self::of(loaded, sources.user_file.clone()) })
    }

    /// Returns the policy with these settings.
    fn of(loaded: Arc<LoadedSettings>, user_path: Option<PathBuf>) -> Self {
        Self { loaded, user_path, flags: Vec::new(), own_paths: OnceLock::new() }
    }

    /// Returns every setting with its value and source.
    pub fn held(&self) -> &[SettingValue] {
        &self.loaded.held
    }

    /// Returns the file in the user's configuration folder; `None` if there is no such folder.
    pub fn user_file(&self) -> Option<&PolicyFile> {
        self.loaded.user.as_ref()
    }

    /// Returns the file in the workspace.
    pub fn workspace_file(&self) -> &PolicyFile {
        &self.loaded.workspace
    }

    /// Fails if a flag of a call would loosen a setting without permission in the user's own file.
    ///
    /// # Errors
    /// Returns `invalid_request`.
    pub fn must_not_loosen(&self, key: Key, field: &'static str, value: u64) -> Result<(), Error> {
        let Some(held) = self.loaded.held.get(key as usize) else { return Ok(()) };
        held.must_not_loosen(&Value::Number(value))
            .map_err(|message| Error::invalid(format!("{field}: {message}")).detail("field", field))
            .map_err(|error| error.suggest(format!("Leave `{field}` out, and the setting counts.")))
    }

    /// Returns the days for which the user's own file keeps deleted files, unless it lets flags reduce them.
    pub fn days_kept_by_user(&self) -> Option<u64> {
        let held = self.loaded.held.get(Key::KeepDays as usize).filter(|held| !held.may_loosen)?;
        let is_said = held.sources.iter().any(|source| matches!(source.origin, Origin::User(_)));
        is_said.then(|| self.number(Key::KeepDays))
    }

    /// Fails if the user's own file does not allow an act of the command line.
    ///
    /// # Errors
    /// Returns `kind` with `message`.
    pub fn must_permit(&self, permission: Permission, kind: ErrorKind, message: String) -> Result<(), Error> {
        let name = permission.name();
        if self.list(Key::Loosen).iter().any(|listed| listed == name) {
            return Ok(());
        }
        let file = self.user_file().map_or("the user's policy file", |file| &file.path);
        let hint = format!("Only the user allows that: loosen = [\"{name}\"] in {file}.");
        Err(Error::new(kind, message).suggest(hint))
    }

    /// Fails for a workspace other than that of the current folder, unless the user's own file allows it.
    ///
    /// # Errors
    /// Returns `outside_workspace`.
    pub fn must_permit_workspace(&self, named: &Workspace) -> Result<(), Error> {
        let root = named.root().display();
        let message = format!("{root} lies outside the workspace that the current folder belongs to");
        self.must_permit(Permission::Workspace, ErrorKind::OutsideWorkspace, message)
    }

    /// Returns the reasons why environment variables that would loosen the policy are ignored.
    pub fn ignored_variables(&self) -> &[String] {
        &self.loaded.ignored_variables
    }

    /// Returns the settings from flags, for a process that continues the call.
    pub fn flags(&self) -> &[String] {
        &self.flags
    }

    /// Returns the files of the enclosing workspaces, nearest first.
    pub fn outer_files(&self) -> impl Iterator<Item = &str> {
        self.loaded.outer.iter().map(|outer| outer.file.as_str())
    }

    /// Returns environment variables that look like settings but are not.
    pub fn unknown_variables(&self) -> &[String] {
        &self.loaded.unknown_variables
    }

    /// Returns the treatment of a change without proof.
    pub fn gate(&self) -> Gate {
        match self.word(Key::Gate) {
            "warn" => Gate::Warn,
            "off" => Gate::Off,
            _ => Gate::Strict,
        }
    }

    /// Returns the proof that a hunk needs; `None` to use each tool's own default.
    pub fn patch_gate(&self) -> Option<PatchGate> {
        let held = self.loaded.held.get(Key::PatchGate as usize)?;
        let is_said = held.sources.iter().any(|source| source.origin != Origin::Default);
        is_said.then(|| match self.word(Key::PatchGate) {
            "context" => PatchGate::Context,
            _ => PatchGate::Marks,
        })
    }

    /// Returns the default way in which `edit` finds its text.
    pub fn match_default(&self) -> Matching {
        if self.word(Key::Match) == "flexible" { Matching::Flexible } else { Matching::Exact }
    }

    /// Returns true if files with several hard links are not changed.
    pub fn refuses_hard_links(&self) -> bool {
        self.word(Key::HardLinks) == "refuse"
    }

    /// Returns the default size limit of a response's payload, in bytes.
    pub fn max_bytes(&self) -> usize {
        self.size(Key::MaxBytes)
    }

    /// Returns the size of the largest file that is written, in bytes.
    pub fn file_bytes(&self) -> usize {
        self.size(Key::FileBytes)
    }

    /// Returns the default `limit` of a tool: 0 for no limit.
    pub fn number(&self, key: Key) -> u64 {
        match self.value(key) {
            Some(Value::Number(number)) => *number,
            _ => 0,
        }
    }

    /// Returns a number as a size in memory.
    pub fn size(&self, key: Key) -> usize {
        usize::try_from(self.number(key)).unwrap_or(usize::MAX)
    }

    /// Returns the longest time that one holder may keep a lock before waiters give up.
    pub fn lock_wait(&self) -> Duration {
        Duration::from_secs(self.number(Key::LockSeconds))
    }

    /// Returns true if a change is on disk before its response.
    pub fn is_durable(&self) -> bool {
        self.switch(Key::Durable)
    }

    /// Returns true if changes become snapshots.
    pub fn has_snapshots(&self) -> bool {
        self.switch(Key::SnapshotEnabled)
    }

    /// Returns the size of the largest file in a snapshot, in bytes; 0 without snapshots.
    pub fn snapshot_file_bytes(&self) -> u64 {
        if self.has_snapshots() { self.number(Key::SnapshotFileBytes) } else { 0 }
    }

    /// Returns true if a change without a snapshot counts as failed.
    pub fn requires_snapshot(&self) -> bool {
        self.switch(Key::SnapshotRequire)
    }

    /// Returns the branch for the snapshots.
    pub fn branch(&self) -> &str {
        self.word(Key::SnapshotBranch)
    }

    /// Returns the full name of that branch.
    pub fn branch_reference(&self) -> String {
        let branch = self.branch();
        if branch.starts_with("refs/") { branch.to_owned() } else { format!("refs/heads/{branch}") }
    }

    /// Returns the items of a list.
    pub fn list(&self, key: Key) -> &[String] {
        match self.value(key) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    /// Returns a word or a name; empty if the setting is neither.
    pub fn word(&self, key: Key) -> &str {
        match self.value(key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns the network access of commands.
    pub fn network(&self) -> Network {
        match self.value(Key::BashNetwork) {
            Some(Value::List(hosts)) => Network::Hosts(hosts.clone()),
            Some(Value::Text(word)) if word == values::ALLOW => Network::Shared,
            _ => Network::None,
        }
    }

    /// Returns the git folders elsewhere that `.git` may point to.
    pub fn git_dirs(&self) -> Vec<PathBuf> {
        self.list(Key::GitDirs).iter().map(PathBuf::from).collect()
    }

    /// Returns the source of a setting's value, for messages.
    pub fn source_of(&self, key: Key) -> String {
        let source = self.loaded.held.get(key as usize).and_then(|held| held.sources.last());
        source.map_or_else(|| "default".to_owned(), |source| self.shown_origin(&source.origin))
    }

    /// Returns an origin as text: `FILE:LINE`, a variable, a flag.
    pub fn shown_origin(&self, origin: &Origin) -> String {
        match origin {
            Origin::Default => "default".to_owned(),
            Origin::User(place) => {
                let file = self.loaded.user.as_ref().map_or("the user's file", |file| file.path.as_str());
                format!("{file}:{}", place.line)
            }
            Origin::Workspace(place) => format!("{}:{}", self.loaded.workspace.path, place.line),
            Origin::Outer(file, place) => format!("{file}:{}", place.line),
            Origin::Environment(name) => name.clone(),
            Origin::Flag => "--set".to_owned(),
        }
    }

    /// Returns the value of a setting.
    fn value(&self, key: Key) -> Option<&Value> {
        self.loaded.held.get(key as usize).map(|held| &held.value)
    }

    /// Returns true if a turn keeps the beginning of its prompt.
    pub fn keeps_titles(&self) -> bool {
        self.switch(Key::GuardTitles)
    }

    /// Returns a boolean; false if the setting is not a boolean.
    fn switch(&self, key: Key) -> bool {
        matches!(self.value(key), Some(Value::Switch(true)))
    }
}
