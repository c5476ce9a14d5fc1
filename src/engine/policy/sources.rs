//! Loads the policy from its sources: two files, the environment and flags.
//!
//! The files of enclosing workspaces count too: a root further down does not remove their protection. Only `protect`
//! counts in these files. Files of another account are ignored: in a folder that everyone may write, such as `/tmp`,
//! they would be a stranger's.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use globset::GlobSet;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::layers::{Origin, SettingValue, SourcedValue};
use super::settings::{Key, SETTINGS, Value, find};
use super::values::{self, GivenValue, PolicyFault, Position};
use crate::engine::snapshot::ExcludedFiles;
use crate::engine::store::state::STATE_FOLDER;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::stat_cache::Fingerprint;
use crate::engine::workspace::{Workspace, fs};
use crate::error::Error;
use crate::limits::{PARENT_LEVELS_MAX, POLICY_FILE_BYTES_MAX};

/// Prefix of lbx's environment variables.
pub const VARIABLE_PREFIX: &str = "LBX_";
/// Memory for the settings, in bytes.
const BYTES: usize = 16 << 10;
/// Memory for each byte of a policy file, compiled globs included, in bytes.
const BYTES_A_BYTE: usize = 32;
/// Environment variables that are not settings of the policy.
const OTHER_VARIABLES: [&str; 7] = [
    "LBX_WORKSPACE",
    "LBX_SESSION",
    "LBX_SANDBOX",
    "LBX_OUTPUT",
    "LBX_PAGER",
    "LBX_DIALECT",
    crate::engine::store::id::VARIABLE,
];

/// Sources that the front end knows: all except the workspace's own file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// File in the user's configuration folder; `None` if there is no such folder.
    pub user_file: Option<PathBuf>,
    /// Environment variables whose names begin with [`VARIABLE_PREFIX`].
    pub environment: Vec<(String, String)>,
    /// Flags, each `KEY=VALUE`.
    pub flags: Vec<String>,
}

impl Sources {
    /// Collects the sources of this process.
    pub fn of_process(flags: Vec<String>) -> Self {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let configuration =
            folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
        let user_file = configuration.map(|folder| folder.join("lbx").join(NAME));
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| {
                let name = name.into_string().ok().filter(|name| name.starts_with(VARIABLE_PREFIX))?;
                Some((name, value.to_string_lossy().into_owned()))
            })
            .filter(|(_, value)| !value.is_empty())
            .collect();
        Self { user_file, environment, flags }
    }
}

/// A file that may hold part of the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyFile {
    /// Path for messages.
    pub path: String,
    /// True if it exists.
    pub exists: bool,
}

/// Settings of all sources, merged.
#[derive(Debug, Default)]
pub struct LoadedSettings {
    /// All settings.
    pub held: Vec<SettingValue>,
    /// File in the user's configuration folder.
    pub user: Option<PolicyFile>,
    /// File in the workspace.
    pub workspace: PolicyFile,
    /// Paths that the enclosing workspaces protect.
    pub outer: Vec<OuterProtection>,
    /// Environment variables that look like settings but are not.
    pub unknown_variables: Vec<String>,
    /// Environment variables that would loosen a setting without permission in the user's file, each with the reason.
    pub ignored_variables: Vec<String>,
    /// Globs of `protect`, compiled on first use.
    pub globs: OnceLock<Option<GlobSet>>,
    /// Files that stay out of snapshots, compiled on first use.
    pub excluded: OnceLock<ExcludedFiles>,
}

/// Policy that a server keeps between calls.
struct CachedPolicy {
    /// Sources of the front end.
    sources: Sources,
    /// Settings of all sources.
    loaded: Arc<LoadedSettings>,
}

/// Merges the settings of all sources, or returns those of an earlier call if the sources look unchanged.
///
/// # Errors
/// As [`load`].
pub fn cached_or_loaded(workspace: &Workspace, sources: &Sources) -> Result<Arc<LoadedSettings>, Error> {
    let (kept, key) = (workspace.cache(), (workspace.root(), NAME));
    if !kept.is_lasting() {
        return load(workspace, sources).map(Arc::new);
    }
    let known = kept.get::<CachedPolicy>(key, workspace.root_fd());
    if let Some(known) = known.filter(|known| known.sources == *sources) {
        return Ok(Arc::clone(&known.loaded));
    }
    let looks = looks(workspace, sources);
    let loaded = Arc::new(load(workspace, sources)?);
    let bytes = BYTES + looks.bytes().saturating_mul(BYTES_A_BYTE);
    let policy = CachedPolicy { sources: sources.clone(), loaded: Arc::clone(&loaded) };
    kept.put(key, Arc::new(policy), looks, bytes);
    Ok(loaded)
}

/// Fingerprints every path that [`load`] reads.
fn looks(workspace: &Workspace, sources: &Sources) -> Fingerprint {
    let mut looks = Fingerprint::default();
    if let Some(path) = &sources.user_file {
        looks.at_file(path);
    }
    looks.below(workspace.root_fd(), &workspace_file().to_string());
    fingerprint_paths(workspace, &mut looks);
    looks
}

/// Merges the settings of all sources.
///
/// # Errors
/// Returns `invalid_request` that names the file with line and column, the variable or the flag; or the OS error if an
/// existing file cannot be read.
pub fn load(workspace: &Workspace, sources: &Sources) -> Result<LoadedSettings, Error> {
    let mut held: Vec<SettingValue> = SETTINGS.iter().map(SettingValue::default_of).collect();
    let (mut user, mut not_own) = (None, None);
    if let Some(path) = &sources.user_file {
        let shown = path.display().to_string();
        let is_own = is_users_own(workspace, path);
        not_own = (!is_own).then(|| {
            format!("{shown} does not count as the user's policy: it lies in the workspace, where tools can write it")
        });
        let bytes = if is_own { read_user_file(path, &shown)? } else { None };
        user = Some(PolicyFile { path: shown.clone(), exists: bytes.is_some() });
        take_file(&mut held, &shown, bytes, Origin::User)?;
        permit_loosening(&mut held);
    }
    let shown = workspace.display(&workspace_file());
    let bytes = read_workspace_file(workspace, &shown)?;
    let own = PolicyFile { path: shown.clone(), exists: bytes.is_some() };
    take_file(&mut held, &shown, bytes, Origin::Workspace)?;
    let outer = load_outer(workspace)?;
    note_outer(&mut held, &outer);
    let (unknown_variables, mut ignored_variables) = take_environment(&mut held, sources)?;
    ignored_variables.extend(not_own);
    take_flags(&mut held, sources)?;
    let (globs, excluded) = (OnceLock::new(), OnceLock::new());
    Ok(LoadedSettings {
        held,
        user,
        workspace: own,
        outer,
        unknown_variables,
        ignored_variables,
        globs,
        excluded,
    })
}

/// Returns true unless the configuration folder of the user's file is in the workspace: `XDG_CONFIG_HOME` and `HOME` are in
/// the agent's hands. Only that of the account's home folder may be there. The file itself may be a link to a repository
/// of dotfiles.
#[expect(clippy::disallowed_methods, reason = "only compares names: the user's own file")]
fn is_users_own(workspace: &Workspace, path: &Path) -> bool {
    let folder = |path: &Path| path.ancestors().nth(2)?.canonicalize().ok();
    let Some(real) = folder(path).filter(|real| real.starts_with(workspace.root())) else { return true };
    let account = nix::unistd::User::from_uid(nix::unistd::Uid::effective()).ok().flatten();
    let own = account.and_then(|account| folder(&account.dir.join(".config/lbx").join(NAME)));
    own == Some(real)
}

/// Allows the environment and flags to loosen the settings that the user's own file names.
fn permit_loosening(held: &mut [SettingValue]) {
    let names = held.iter().find_map(|held| match (held.setting.key, &held.value) {
        (Key::Loosen, Value::List(names)) => Some(names.clone()),
        _ => None,
    });
    for held in held.iter_mut() {
        held.may_loosen = names.iter().flatten().any(|name| name == held.setting.name);
    }
}

/// Lists the globs of enclosing workspaces, which are relative to other roots, after this one's own.
fn note_outer(held: &mut [SettingValue], outer: &[OuterProtection]) {
    for held in held.iter_mut().filter(|held| held.setting.key == Key::Protect) {
        for OuterProtection { file, place, globs, .. } in outer.iter().filter(|outer| !outer.globs.is_empty())
        {
            let origin = Origin::Outer(file.clone(), *place);
            held.sources.push(SourcedValue { value: Value::List(globs.clone()), origin });
        }
    }
}

/// Returns the path of the workspace's own file.
pub fn workspace_file() -> WorkspacePath {
    WorkspacePath::root().join(OsStr::new(STATE_FOLDER)).join(OsStr::new(NAME))
}

/// Applies a file, if it exists.
fn take_file(
    held: &mut [SettingValue],
    shown: &str,
    bytes: Option<Vec<u8>>,
    origin: fn(Position) -> Origin,
) -> Result<(), Error> {
    let given = values::parse(&bytes.unwrap_or_default()).map_err(|fault| bad_file(shown, &fault))?;
    for GivenValue { setting, value, place } in given {
        if let Some(held) = held.get_mut(setting.key as usize) {
            let key = Some(setting.name.to_owned());
            let refused = |message| bad_file(shown, &PolicyFault { place: Some(place), key, message });
            held.apply_value(value, origin(place)).map_err(refused)?;
        }
    }
    Ok(())
}

/// Applies the environment; returns the variables that set nothing, and those that lack permission.
fn take_environment(
    held: &mut [SettingValue],
    sources: &Sources,
) -> Result<(Vec<String>, Vec<String>), Error> {
    let (mut unknown, mut ignored) = (Vec::new(), Vec::new());
    for (name, text) in &sources.environment {
        let Some(held) = held.iter_mut().find(|held| held.setting.variable() == *name) else {
            unknown.extend((!OTHER_VARIABLES.contains(&name.as_str())).then(|| name.clone()));
            continue;
        };
        let value = values::parse_text(held.setting, text).map_err(|message| {
            Error::invalid(format!("the environment variable {name}: {message}"))
                .suggest(format!("Set {name} to what is expected, or unset it."))
                .detail("variable", name.clone())
                .detail("key", held.setting.name)
        })?;
        let taken = held.apply_value(value, Origin::Environment(name.clone()));
        ignored.extend(taken.err().map(|why| format!("{name} does not count: {why}")));
    }
    Ok((unknown, ignored))
}

/// Applies the flags.
fn take_flags(held: &mut [SettingValue], sources: &Sources) -> Result<(), Error> {
    let refused = |message: String| Error::invalid(format!("--set: {message}")).detail("field", "set");
    for flag in &sources.flags {
        let Some((name, text)) = flag.split_once('=') else {
            return Err(refused(format!("expected KEY=VALUE, such as gate=warn, got {flag:?}")));
        };
        let setting = find(name.trim()).ok_or_else(|| refused(values::unknown(name.trim())))?;
        let value = values::parse_text(setting, text).map_err(refused)?;
        if let Some(held) = held.get_mut(setting.key as usize) {
            held.apply_value(value, Origin::Flag).map_err(refused)?;
        }
    }
    Ok(())
}

/// Returns the bytes of the user's own file, which may be a symlink; `None` if it is missing.
fn read_user_file(path: &Path, shown: &str) -> Result<Option<Vec<u8>>, Error> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()));
    match opened {
        Ok(fd) => read_opened(File::from(fd), shown).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        // A folder that this user may not enter is another's, as under sudo.
        Err(Errno::ACCESS) if rustix::fs::statat(CWD, path, AtFlags::empty()).is_err() => Ok(None),
        Err(errno) => Err(unreadable(shown, errno)),
    }
}

/// Returns the bytes of the workspace's own file, which must not be a symlink; `None` if it is missing.
fn read_workspace_file(workspace: &Workspace, shown: &str) -> Result<Option<Vec<u8>>, Error> {
    let path = workspace_file();
    match fs::open_beneath(workspace.root_fd(), &path, fs::READ) {
        Ok(fd) => read_opened(File::from(fd), shown).map(Some),
        // If `.lbx` is not a folder, there is no state either, and the call that needs it reports that.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::LOOP) if is_link(workspace, STATE_FOLDER) => Ok(None),
        Err(Errno::LOOP) => Err(no_regular_file(shown, "a symlink")),
        Err(Errno::ACCESS)
            if rustix::fs::statat(workspace.root_fd(), path.as_path(), AtFlags::SYMLINK_NOFOLLOW)
                .is_err() =>
        {
            Ok(None)
        }
        Err(errno) => Err(unreadable(shown, errno)),
    }
}

/// Returns true if a name at the root is a symlink.
fn is_link(workspace: &Workspace, name: &str) -> bool {
    fs::stat_at(workspace.root_fd(), OsStr::new(name)).is_ok_and(|stat| fs::is_symlink(&stat))
}

/// Name of a policy file, below `.lbx/` and below `lbx/` in the configuration folder.
pub const NAME: &str = "config.toml";

/// Returns the error of every call while a policy file is invalid: its intended restrictions are unknown.
pub(super) fn bad_file(shown: &str, fault: &PolicyFault) -> Error {
    let (at, where_to) = match fault.place {
        Some(Position { line, column }) => {
            (format!("{shown}:{line}:{column}"), format!("line {line} of {shown}"))
        }
        None => (shown.to_owned(), shown.to_owned()),
    };
    let mut error = Error::invalid(format!("the policy file {at}: {}", fault.message))
        .at(shown)
        .suggest(format!(
            "Ask the owner of {where_to} to fix it. All tools fail until it parses; `lbx config` checks it."
        ))
        .detail("file", shown);
    if let Some(Position { line, column }) = fault.place {
        error = error.detail("line", line).detail("column", column);
    }
    match &fault.key {
        Some(key) => error.detail("key", key.clone()),
        None => error,
    }
}

/// Returns the bytes of an opened file.
pub(super) fn read_opened(file: File, shown: &str) -> Result<Vec<u8>, Error> {
    let stat = rustix::fs::fstat(&file).map_err(|errno| unreadable(shown, errno))?;
    if !fs::is_regular(&stat) {
        return Err(no_regular_file(
            shown,
            if fs::is_folder(&stat) { "a folder" } else { "no regular file" },
        ));
    }
    fs::read_to_end(file, fs::size_of(&stat), POLICY_FILE_BYTES_MAX).map_err(|source| {
        if source.raw_os_error() == Some(Errno::FBIG.raw_os_error()) {
            let message = format!("it has {} bytes, more than {POLICY_FILE_BYTES_MAX}", fs::size_of(&stat));
            return bad_file(shown, &PolicyFault { place: None, key: None, message });
        }
        unreadable(shown, source)
    })
}

/// Returns the error for a policy file that is not a regular file.
pub(super) fn no_regular_file(shown: &str, what: &str) -> Error {
    bad_file(shown, &PolicyFault { place: None, key: None, message: format!("it is {what}") })
}

/// Returns the error for a policy file that exists but cannot be read.
pub(super) fn unreadable(shown: &str, source: impl Into<std::io::Error>) -> Error {
    Error::io("read the policy file", shown, source).suggest(format!(
        "Have {shown} made readable by whoever keeps it: no tool works before, since the policy that was meant is not known."
    ))
}

/// Paths that an enclosing workspace protects.
#[derive(Debug)]
pub struct OuterProtection {
    /// Path of its policy file.
    pub file: String,
    /// Position of `protect` in it.
    pub place: Position,
    /// Globs, relative to its root.
    pub globs: Vec<String>,
    /// Globs, compiled on first use.
    pub compiled: OnceLock<Option<GlobSet>>,
    /// Root of this workspace, relative to the outer root.
    inner: WorkspacePath,
}

impl OuterProtection {
    /// Converts a path of this workspace to one relative to the outer root.
    pub fn to_outer_path(&self, path: &WorkspacePath) -> WorkspacePath {
        path.components().fold(self.inner.clone(), |path, name| path.join(name))
    }

    /// Converts a path of the outer root to one relative to this workspace: the root for a folder that contains it,
    /// `None` if it lies elsewhere.
    pub fn from_outer_path(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        if self.inner.is_within(path) {
            return Some(WorkspacePath::root());
        }
        path.is_within(&self.inner).then(|| path.rebased(&self.inner, &WorkspacePath::root()))
    }

    /// Returns its source, for messages.
    pub fn source(&self) -> String {
        format!("{}:{}", self.file, self.place.line)
    }
}

/// Loads the paths that the enclosing workspaces protect, nearest first.
///
/// # Errors
/// Returns `invalid_request` if one of their files is invalid: its intended protection is unknown.
pub fn load_outer(workspace: &Workspace) -> Result<Vec<OuterProtection>, Error> {
    let mut outer = Vec::new();
    for root in workspace.root().ancestors().skip(1).take(PARENT_LEVELS_MAX) {
        let Some(folder) = state_folder(workspace, root) else {
            continue;
        };
        let inner = workspace.root().strip_prefix(root).ok().and_then(WorkspacePath::new);
        let file = root.join(STATE_FOLDER).join(NAME);
        if let (Some(bytes), Some(inner)) = (read(&folder, &file)?, inner) {
            outer.push(taken(&bytes, &file, inner)?);
        }
    }
    Ok(outer)
}

/// Fingerprints every path that [`load_outer`] reads.
pub fn fingerprint_paths(workspace: &Workspace, looks: &mut Fingerprint) {
    // The owner of the root decides which files count.
    looks.in_folder(workspace.root_fd(), ".");
    for root in workspace.root().ancestors().skip(1).take(PARENT_LEVELS_MAX) {
        let folder = root.join(STATE_FOLDER);
        if looks.at_folder(&folder) {
            looks.at_plain_file(&folder.join(NAME));
        }
    }
}

/// Opens the state folder of a workspace at `root`, if this account can trust it.
fn state_folder(workspace: &Workspace, root: &Path) -> Option<OwnedFd> {
    let folder = fs::open_at(CWD, root.join(STATE_FOLDER).as_os_str(), fs::FOLDER).ok()?;
    let owner = rustix::fs::fstat(&folder).ok()?.st_uid;
    let is_root_s_owner = || rustix::fs::fstat(workspace.root_fd()).is_ok_and(|stat| stat.st_uid == owner);
    let is_trusted = owner == 0 || owner == rustix::process::geteuid().as_raw() || is_root_s_owner();
    is_trusted.then_some(folder)
}

/// Returns the bytes of the policy file in an opened state folder, if it exists.
fn read(folder: &OwnedFd, file: &Path) -> Result<Option<Vec<u8>>, Error> {
    let shown = file.display().to_string();
    match fs::open_at(folder.as_fd(), OsStr::new(NAME), fs::READ) {
        Ok(file) => read_opened(File::from(file), &shown).map(Some),
        Err(Errno::NOENT | Errno::ACCESS) => Ok(None),
        Err(Errno::LOOP) => Err(no_regular_file(&shown, "a symlink")),
        Err(errno) => Err(unreadable(&shown, errno)),
    }
}

/// Reads the protected paths of a policy file.
fn taken(bytes: &[u8], file: &Path, inner: WorkspacePath) -> Result<OuterProtection, Error> {
    let file = file.display().to_string();
    let given = values::parse(bytes).map_err(|fault| bad_file(&file, &fault))?;
    let protect = given.into_iter().find(|given| given.setting.key == Key::Protect);
    let (globs, place) = match protect.map(|given| (given.value, given.place)) {
        Some((Value::List(globs), place)) => (globs, place),
        _ => (Vec::new(), Position { line: 1, column: 1 }),
    };
    Ok(OuterProtection { file, place, globs, compiled: OnceLock::new(), inner })
}
