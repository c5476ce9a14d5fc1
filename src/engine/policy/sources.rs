//! The sources of the policy: two files, the environment and flags.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use globset::GlobSet;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::file::{NAME, bad_file, no_regular_file, read_opened, unreadable};
use super::layers::{Origin, SettingValue, Sourced, take_all};
use super::outer::{self, Outer};
use super::parse::{self, Fault, Given};
use super::settings::{Key, SETTINGS, Value, find};
use super::values;
use crate::engine::snapshot::Excluded;
use crate::engine::store::state::STATE_FOLDER;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs;
use crate::engine::workspace::kept::Looks;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;

/// The beginning of the names of lbx's environment variables.
pub const VARIABLE_PREFIX: &str = "LBX_";
/// Bytes that the settings take in memory.
const BYTES: usize = 16 << 10;
/// Bytes that a policy file takes in memory for each of its own, compiled globs included.
const BYTES_A_BYTE: usize = 32;
/// Those that are not settings of the policy.
const OTHER_VARIABLES: [&str; 7] = [
    "LBX_WORKSPACE",
    "LBX_SESSION",
    "LBX_SANDBOX",
    "LBX_OUTPUT",
    "LBX_PAGER",
    "LBX_DIALECT",
    crate::engine::store::id::VARIABLE,
];

/// What the front end knows of the policy: everything but the workspace's own file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// The file in the user's configuration folder; `None` where there is no such folder.
    pub user_file: Option<PathBuf>,
    /// The environment's variables whose names begin with [`VARIABLE_PREFIX`].
    pub environment: Vec<(String, String)>,
    /// Flags, each `KEY=VALUE`.
    pub flags: Vec<String>,
}

impl Sources {
    /// Those of this process.
    #[must_use]
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

/// A file that may hold a part of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFile {
    /// Where it is, as messages name it.
    pub path: String,
    /// Whether it is there.
    pub exists: bool,
}

/// What the sources say, put together.
#[derive(Debug)]
pub struct Loaded {
    /// Every setting.
    pub held: Vec<SettingValue>,
    /// The file in the user's configuration folder.
    pub user: Option<PolicyFile>,
    /// The file in the workspace.
    pub workspace: PolicyFile,
    /// What workspaces that this one lies in protect.
    pub outer: Vec<Outer>,
    /// Environment variables that look like the policy's and are not.
    pub unknown_variables: Vec<String>,
    /// Environment variables that would loosen what the user's file does not let them, each with why it does not
    /// count.
    pub ignored_variables: Vec<String>,
    /// The globs of `protect`, compiled when they are first asked for.
    pub globs: OnceLock<Option<GlobSet>>,
    /// What stays out of snapshots, likewise.
    pub excluded: OnceLock<Excluded>,
}

/// What a process that makes many calls keeps of the policy.
struct KeptPolicy {
    /// What the front end knew.
    sources: Sources,
    /// What all sources say.
    loaded: Arc<Loaded>,
}

/// Puts together what the sources say, unless a call before this one did and they look the same.
///
/// # Errors
/// As [`load`].
pub fn known_or_loaded(workspace: &Workspace, sources: &Sources) -> Result<Arc<Loaded>, Error> {
    let (kept, key) = (workspace.kept(), (workspace.root(), NAME));
    if !kept.is_lasting() {
        return load(workspace, sources).map(Arc::new);
    }
    let known = kept.get::<KeptPolicy>(key, workspace.root_fd());
    if let Some(known) = known.filter(|known| known.sources == *sources) {
        return Ok(Arc::clone(&known.loaded));
    }
    let looks = looks(workspace, sources);
    let loaded = Arc::new(load(workspace, sources)?);
    let bytes = BYTES + looks.bytes().saturating_mul(BYTES_A_BYTE);
    let policy = KeptPolicy { sources: sources.clone(), loaded: Arc::clone(&loaded) };
    kept.put(key, Arc::new(policy), looks, bytes);
    Ok(loaded)
}

/// Looks at every place that [`load`] reads.
fn looks(workspace: &Workspace, sources: &Sources) -> Looks {
    let mut looks = Looks::default();
    if let Some(path) = &sources.user_file {
        looks.at_file(path);
    }
    looks.below(workspace.root_fd(), &workspace_file().to_string());
    outer::look(workspace, &mut looks);
    looks
}

/// Puts together what the sources say.
///
/// # Errors
/// `invalid_request` that names the file with line and column, the variable or the flag, or the
/// system's where a file is there and cannot be read.
pub fn load(workspace: &Workspace, sources: &Sources) -> Result<Loaded, Error> {
    let mut held: Vec<SettingValue> = SETTINGS.iter().map(SettingValue::default_of).collect();
    let mut user = None;
    if let Some(path) = &sources.user_file {
        let shown = path.display().to_string();
        let bytes = read_user_file(path, &shown)?;
        user = Some(PolicyFile { path: shown.clone(), exists: bytes.is_some() });
        take_file(&mut held, &shown, bytes, |given| Origin::User(given.place))?;
        let_loosen(&mut held);
    }
    let shown = workspace.shown(&workspace_file());
    let bytes = read_workspace_file(workspace, &shown)?;
    let own = PolicyFile { path: shown.clone(), exists: bytes.is_some() };
    take_file(&mut held, &shown, bytes, |given| Origin::Workspace(given.place))?;
    let outer = outer::load(workspace)?;
    note_outer(&mut held, &outer);
    let (unknown_variables, ignored_variables) = take_environment(&mut held, sources)?;
    take_flags(&mut held, sources)?;
    let (globs, excluded) = (OnceLock::new(), OnceLock::new());
    Ok(Loaded { held, user, workspace: own, outer, unknown_variables, ignored_variables, globs, excluded })
}

/// Lets the environment and flags loosen the settings that the user's own file names.
fn let_loosen(held: &mut [SettingValue]) {
    let names = held.iter().find_map(|held| match (held.setting.key, &held.value) {
        (Key::Loosen, Value::List(names)) => Some(names.clone()),
        _ => None,
    });
    for held in held.iter_mut() {
        held.may_loosen = names.iter().flatten().any(|name| name == held.setting.name);
    }
}

/// Shows what outer workspaces protect beside this one's own globs, which count from another root.
fn note_outer(held: &mut [SettingValue], outer: &[Outer]) {
    for held in held.iter_mut().filter(|held| held.setting.key == Key::Protect) {
        for Outer { file, place, globs, .. } in outer.iter().filter(|outer| !outer.globs.is_empty()) {
            let origin = Origin::Outer(file.clone(), *place);
            held.sources.push(Sourced { value: Value::List(globs.clone()), origin });
        }
    }
}

/// The path of the workspace's own file.
#[must_use]
pub fn workspace_file() -> WorkspacePath {
    WorkspacePath::root().join(OsStr::new(STATE_FOLDER)).join(OsStr::new(NAME))
}

/// Takes in a file, where there is one.
fn take_file(
    held: &mut [SettingValue],
    shown: &str,
    bytes: Option<Vec<u8>>,
    origin: impl Fn(&Given) -> Origin,
) -> Result<(), Error> {
    let Some(bytes) = bytes else {
        return Ok(());
    };
    let given = parse::parse(&bytes).map_err(|fault| bad_file(shown, &fault))?;
    take_all(held, given, origin).map_err(|(given, message)| {
        let key = Some(given.name.to_owned());
        bad_file(shown, &Fault { place: Some(given.place), key, message })
    })
}

/// Takes in the environment; answers the variables that set nothing, and those that may not set what they do.
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
        let value = parse::parse_text(held.setting, text).map_err(|message| {
            Error::invalid(format!("the environment variable {name}: {message}"))
                .suggest(format!("Set {name} to what is expected, or unset it."))
                .detail("variable", name.clone())
                .detail("key", held.setting.name)
        })?;
        let taken = held.take(value, Origin::Environment(name.clone()));
        if held.setting.is_guarded() {
            ignored.extend(taken.err().map(|why| format!("{name} does not count: {why}")));
            continue;
        }
        taken.map_err(|message| {
            Error::invalid(format!("the environment variable {name}: {message}"))
                .suggest(format!("Unset {name}."))
                .detail("variable", name.clone())
                .detail("key", held.setting.name)
        })?;
    }
    Ok((unknown, ignored))
}

/// Takes in the flags.
fn take_flags(held: &mut [SettingValue], sources: &Sources) -> Result<(), Error> {
    let refused = |message: String| Error::invalid(format!("--set: {message}")).detail("field", "set");
    for flag in &sources.flags {
        let Some((name, text)) = flag.split_once('=') else {
            return Err(refused(format!("expected KEY=VALUE, such as gate=warn, got {flag:?}")));
        };
        let setting = find(name.trim()).ok_or_else(|| refused(values::unknown(name.trim())))?;
        let value = parse::parse_text(setting, text).map_err(refused)?;
        if let Some(held) = held.iter_mut().find(|held| held.setting.name == setting.name) {
            held.take(value, Origin::Flag).map_err(refused)?;
        }
    }
    Ok(())
}

/// The bytes of the user's own file, which may be a symlink; `None` where there is none.
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

/// The bytes of the workspace's own file, which is no symlink; `None` where there is none.
fn read_workspace_file(workspace: &Workspace, shown: &str) -> Result<Option<Vec<u8>>, Error> {
    let path = workspace_file();
    match fs::open_beneath(workspace.root_fd(), &path, fs::READ) {
        Ok(fd) => read_opened(File::from(fd), shown).map(Some),
        // Where `.lbx` is not a folder, there is no state either, and whoever needs it says so.
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

/// Whether a name at the root is a symlink.
fn is_link(workspace: &Workspace, name: &str) -> bool {
    fs::stat_at(workspace.root_fd(), OsStr::new(name)).is_ok_and(|stat| fs::is_symlink(&stat))
}
