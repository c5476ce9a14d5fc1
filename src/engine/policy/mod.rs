//! The policy: what the owner of the machine or of the workspace has decided.
//!
//! `.lbx/config.toml` in the workspace over `lbx/config.toml` in the user's configuration folder,
//! under environment variables and flags. [`settings`] has every setting, [`values`] and
//! [`layers`] are pure, [`sources`] reads. A file that is not as it should be is an error, and
//! never half a policy.

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
use sources::{Loaded, PolicyFile, Sources};

use crate::engine::sandbox::outside::Network;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};

/// Treatment of a change whose caller has not seen the current bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Refused.
    Strict,
    /// Let through with a warning.
    Warn,
    /// Let through.
    Off,
}

impl Gate {
    /// The word in a policy file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Warn => "warn",
            Self::Off => "off",
        }
    }
}

/// Proof that a hunk needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchGate {
    /// That the file was read.
    Marks,
    /// Its old lines, too, found exactly and in one place.
    Context,
}

/// How `edit` finds its text where the request does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// As it is.
    Exact,
    /// In the forms that a person would take for the same.
    Flexible,
}

/// Policy of one call.
#[derive(Debug)]
pub struct Policy {
    /// Merged settings; calls of one process share them while the sources are unchanged.
    loaded: Arc<Loaded>,
    /// Path of the user's file, whether it exists or not.
    user_path: Option<PathBuf>,
    /// Settings of flags.
    flags: Vec<String>,
    /// Paths of the user's file in the workspace, found when they are first asked for.
    own_paths: OnceLock<Vec<WorkspacePath>>,
}

impl Default for Policy {
    /// The policy where no source says anything.
    fn default() -> Self {
        let workspace = PolicyFile { path: sources::workspace_file().to_string(), exists: false };
        let held = SETTINGS.iter().map(SettingValue::default_of).collect();
        let (outer, unknown_variables, ignored_variables) = (Vec::new(), Vec::new(), Vec::new());
        let (globs, excluded) = (OnceLock::new(), OnceLock::new());
        let (user, held) = (None, held);
        let loaded =
            Loaded { held, user, workspace, outer, unknown_variables, ignored_variables, globs, excluded };
        Self::of(Arc::new(loaded), None)
    }
}

impl Policy {
    /// The policy of a call in `workspace`.
    ///
    /// # Errors
    /// `invalid_request` that names the file with line and column, the variable or the flag; the
    /// system's where a file is there and cannot be read.
    pub fn load(workspace: &Workspace, sources: &Sources) -> Result<Self, Error> {
        let loaded = sources::known_or_loaded(workspace, sources)?;
        Ok(Self { flags: sources.flags.clone(), ..Self::of(loaded, sources.user_file.clone()) })
    }

    /// The policy that was put together.
    fn of(loaded: Arc<Loaded>, user_path: Option<PathBuf>) -> Self {
        Self { loaded, user_path, flags: Vec::new(), own_paths: OnceLock::new() }
    }

    /// Every setting with its value and where that came from.
    #[must_use]
    pub fn held(&self) -> &[SettingValue] {
        &self.loaded.held
    }

    /// The file in the user's configuration folder; `None` where there is no such folder.
    #[must_use]
    pub fn user_file(&self) -> Option<&PolicyFile> {
        self.loaded.user.as_ref()
    }

    /// The file in the workspace.
    #[must_use]
    pub fn workspace_file(&self) -> &PolicyFile {
        &self.loaded.workspace
    }

    /// Refuses a flag of a call that would loosen a setting which the user's own file does not let it.
    ///
    /// # Errors
    /// `invalid_request`.
    pub fn must_not_loosen(&self, key: Key, field: &'static str, value: u64) -> Result<(), Error> {
        let Some(held) = self.loaded.held.get(key as usize) else { return Ok(()) };
        held.must_not_loosen(&Value::Number(value))
            .map_err(|message| Error::invalid(format!("{field}: {message}")).detail("field", field))
    }

    /// Returns the days for which the user's own file keeps what was deleted, unless it lets flags shorten them.
    #[must_use]
    pub fn days_kept_by_user(&self) -> Option<u64> {
        let held = self.loaded.held.get(Key::KeepDays as usize).filter(|held| !held.may_loosen)?;
        let is_said = held.sources.iter().any(|source| matches!(source.origin, Origin::User(_)));
        is_said.then(|| self.number(Key::KeepDays))
    }

    /// Refuses an act of the command line unless the user's own file allows it.
    ///
    /// # Errors
    /// `kind` with `message`.
    pub fn must_permit(&self, permission: Permission, kind: ErrorKind, message: &str) -> Result<(), Error> {
        let name = permission.name();
        match self.loaded.held.get(Key::Loosen as usize).map(|held| &held.value) {
            Some(Value::List(listed)) if listed.iter().any(|listed| listed == name) => Ok(()),
            _ => {
                let file = self.user_file().map_or("the user's policy file", |file| &file.path);
                Err(Error::new(kind, message)
                    .suggest(format!("Only the user allows that: loosen = [\"{name}\"] in {file}.")))
            }
        }
    }

    /// Refuses another workspace than the one that the current folder lies in, unless the user's own file allows it.
    ///
    /// # Errors
    /// `outside_workspace`.
    pub fn must_permit_workspace(&self, named: &Workspace) -> Result<(), Error> {
        let root = named.root().display();
        let message = format!("{root} lies outside the workspace that the current folder belongs to");
        self.must_permit(Permission::Workspace, ErrorKind::OutsideWorkspace, &message)
    }

    /// Why environment variables do not count that would loosen the policy.
    #[must_use]
    pub fn ignored_variables(&self) -> &[String] {
        &self.loaded.ignored_variables
    }

    /// Returns the settings of flags, for a process that goes on with the call.
    #[must_use]
    pub fn flags(&self) -> &[String] {
        &self.flags
    }

    /// The files of the workspaces that this one lies in, the nearest first.
    pub fn outer_files(&self) -> impl Iterator<Item = &str> {
        self.loaded.outer.iter().map(|outer| outer.file.as_str())
    }

    /// Environment variables that look like the policy's and are not.
    #[must_use]
    pub fn unknown_variables(&self) -> &[String] {
        &self.loaded.unknown_variables
    }

    /// Returns how a change without proof is treated.
    #[must_use]
    pub fn gate(&self) -> Gate {
        match self.text(Key::Gate) {
            "warn" => Gate::Warn,
            "off" => Gate::Off,
            _ => Gate::Strict,
        }
    }

    /// Returns the proof that a hunk needs; `None` if no source says, and each tool has its own default.
    #[must_use]
    pub fn patch_gate(&self) -> Option<PatchGate> {
        let held = self.loaded.held.get(Key::PatchGate as usize)?;
        let is_said = held.sources.iter().any(|source| source.origin != Origin::Default);
        is_said.then(|| match self.text(Key::PatchGate) {
            "context" => PatchGate::Context,
            _ => PatchGate::Marks,
        })
    }

    /// How `edit` finds its text where the request does not say.
    #[must_use]
    pub fn match_default(&self) -> Matching {
        if self.text(Key::Match) == "flexible" { Matching::Flexible } else { Matching::Exact }
    }

    /// Returns true if a file with several names is not changed.
    #[must_use]
    pub fn refuses_hard_links(&self) -> bool {
        self.text(Key::HardLinks) == "refuse"
    }

    /// Bytes of payload in an answer where the request does not say.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.size(Key::MaxBytes)
    }

    /// The largest file that is changed or made, in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> usize {
        self.size(Key::FileBytes)
    }

    /// The `limit` of a tool where the request does not say: 0 for no bound.
    #[must_use]
    pub fn number(&self, key: Key) -> u64 {
        match self.value(key) {
            Some(Value::Number(number)) => *number,
            _ => 0,
        }
    }

    /// Returns a number as a size in memory.
    #[must_use]
    pub fn size(&self, key: Key) -> usize {
        usize::try_from(self.number(key)).unwrap_or(usize::MAX)
    }

    /// How long one holder may keep a lock before those who wait give up.
    #[must_use]
    pub fn lock_wait(&self) -> Duration {
        Duration::from_secs(self.number(Key::LockSeconds))
    }

    /// Returns true if a change is on disk before its response.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.switch(Key::Durable)
    }

    /// Returns true if changes become snapshots.
    #[must_use]
    pub fn has_snapshots(&self) -> bool {
        self.switch(Key::SnapshotEnabled)
    }

    /// Bytes of the largest file that enters a snapshot; 0 where there are none.
    #[must_use]
    pub fn snapshot_file_bytes(&self) -> u64 {
        if self.has_snapshots() { self.number(Key::SnapshotFileBytes) } else { 0 }
    }

    /// Returns true if a change without a snapshot counts as failed.
    #[must_use]
    pub fn requires_snapshot(&self) -> bool {
        self.switch(Key::SnapshotRequire)
    }

    /// The branch for the snapshots.
    #[must_use]
    pub fn branch(&self) -> &str {
        self.text(Key::SnapshotBranch)
    }

    /// The items of a list.
    #[must_use]
    pub fn list(&self, key: Key) -> &[String] {
        match self.value(key) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    /// A word or a name.
    #[must_use]
    pub fn word(&self, key: Key) -> &str {
        self.text(key)
    }

    /// The network of commands.
    #[must_use]
    pub fn network(&self) -> Network {
        match self.value(Key::BashNetwork) {
            Some(Value::List(hosts)) => Network::Hosts(hosts.clone()),
            Some(Value::Text(word)) if word == values::ALLOW => Network::Shared,
            _ => Network::None,
        }
    }

    /// The git folders elsewhere that `.git` may lead to.
    #[must_use]
    pub fn git_dirs(&self) -> Vec<PathBuf> {
        match self.value(Key::GitDirs) {
            Some(Value::List(folders)) => folders.iter().map(PathBuf::from).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the source of a setting's value, for messages.
    #[must_use]
    pub fn source_of(&self, key: Key) -> String {
        let source = self.loaded.held.get(key as usize).and_then(|held| held.sources.last());
        source.map_or_else(|| "default".to_owned(), |source| self.shown_origin(&source.origin))
    }

    /// An origin in words: `FILE:LINE`, a variable, a flag.
    #[must_use]
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

    /// The value of a setting.
    fn value(&self, key: Key) -> Option<&Value> {
        self.loaded.held.get(key as usize).map(|held| &held.value)
    }

    /// A word or a name; nothing where the setting is neither.
    fn text(&self, key: Key) -> &str {
        match self.value(key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// A switch; off where the setting is none.
    fn switch(&self, key: Key) -> bool {
        matches!(self.value(key), Some(Value::Switch(true)))
    }
}
