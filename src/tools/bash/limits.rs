//! From the policy and the request to what a command may reach and use.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::attributes::named;
use super::placeholder::{GIT_FOLDER, Placeholder};
use super::request::Request;
use crate::engine::Engine;
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::caches::SessionTmp;
use crate::engine::sandbox::hidden::Own;
use crate::engine::sandbox::network::Network;
use crate::engine::sandbox::outside::{self, Outside};
use crate::engine::sandbox::plan::{Limits, Reach};
use crate::engine::sandbox::repositories::{self, ProtectedPaths};
use crate::engine::sandbox::{caches, channels, environment, hidden, running};
use crate::engine::snapshot::git_folders;
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::engine::workspace::fs::is_folder;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::Survey;
use crate::error::{Error, ErrorKind};

/// What a command may reach and use.
pub struct Prepared {
    /// What it may reach.
    pub reach: Reach,
    /// How much it may use.
    pub limits: Limits,
    /// Its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// What stands in the place of a repository that there is not.
    pub placeholder: Placeholder,
    /// The `/tmp` of the session; `None` without a state.
    pub temporary: Option<SessionTmp>,
}

/// Puts together what a command may reach and use.
///
/// # Errors
/// `command_denied` where the request wants more than the policy allows, or the workspace is the
/// whole disk.
pub fn prepare(
    engine: &mut Engine,
    request: &Request,
    mut found: ProtectedPaths,
    read_only: bool,
) -> Result<Prepared, Error> {
    let root = engine.workspace.root().to_owned();
    if root.parent().is_none() {
        return Err(Error::new(
            ErrorKind::CommandDenied,
            "the workspace is the whole disk, so nothing would be confined",
        )
        .suggest("Name a smaller workspace with --workspace."));
    }
    let network = network(engine, request.network)?;
    let (placeholder, temporary) = if read_only {
        (Placeholder::none(), None)
    } else {
        let state = State::open(&engine.workspace)?;
        let temporary = SessionTmp::open(&engine.workspace, &state, engine.session())?;
        (Placeholder::make(engine.workspace.root_fd(), &state), Some(temporary))
    };
    let home = hidden::home();
    if placeholder.stands() && !found.protected.iter().any(|path| path.as_os_str() == GIT_FOLDER) {
        found.protected.insert(0, PathBuf::from(GIT_FOLDER));
    }
    let writable = writable(engine, home.as_deref());
    let written = (!read_only).then_some(root.as_path());
    let folders: Vec<&Path> = written.into_iter().chain(writable.iter().map(Path::new)).collect();
    let own = Own::find(&folders, &engine.policy().own_places())?;
    let own_folders: Vec<&Path> = writable.iter().map(Path::new).chain([root.as_path()]).collect();
    let mut outside = seen_outside(engine, home.as_deref(), &own_folders);
    let wanted = engine.policy().list(Key::BashCaches);
    let mut make = |name: &str, is_layered: bool| temporary.as_ref()?.cache(name, is_layered);
    let caches = caches::find(home.as_deref(), wanted, (&mut outside, &own_folders), &mut make);
    let by_policy = found.by_policy.iter().filter(|_| !read_only);
    let above = by_policy.flat_map(|path| path.ancestors().skip(1));
    let above =
        above.filter(|path| !path.as_os_str().is_empty()).map(|path| root.join(path).into_os_string());
    // Nor are the folders of what the policy protects moved away and made anew.
    let pinned: BTreeSet<OsString> = own.pinned.into_iter().chain(above).collect();
    let list = |paths: Vec<PathBuf>| paths.into_iter().map(PathBuf::into_os_string).collect();
    let mut reach = Reach {
        read_only,
        outside,
        caches,
        protected: list(found.protected),
        states: list(found.states),
        channels: list(unnamed(engine, home.as_deref(), found.channels)),
        settled: own.settled,
        pinned: pinned.into_iter().collect(),
        writable,
        hidden: hidden::find(
            home.as_deref(),
            engine.policy().list(Key::BashHidden),
            engine.policy().list(Key::BashReadable),
        ),
        network,
        peer: None,
        temporary: temporary.as_ref().map(|temporary| temporary.path().as_os_str().to_owned()),
        layer: None,
        root: root.into_os_string(),
    };
    let seen = std::mem::take(&mut reach.hidden).into_iter();
    reach.hidden = seen.filter(|hidden| reach.shows(Path::new(&hidden.path))).collect();
    let environment = environment_of(engine, request, reach.network != Network::None)?;
    Ok(Prepared { reach, limits: limits(engine), environment, placeholder, temporary })
}

/// Puts together the environment of a command.
///
/// # Errors
/// `invalid_request` for a variable that no program can have, or too many of them.
fn environment_of(
    engine: &Engine,
    request: &Request,
    has_network: bool,
) -> Result<Vec<(OsString, OsString)>, Error> {
    let given = request.env.clone().unwrap_or_default().0;
    if let Some(name) = given.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(Error::invalid(format!("env: {name:?} is not a variable's name")).detail("field", "env"));
    }
    if let Some((name, _)) = given.iter().find(|(_, value)| value.contains('\0')) {
        return Err(Error::invalid(format!("env: the value of {name} holds a NUL")).detail("field", "env"));
    }
    let names = engine.policy().list(Key::BashEnv);
    let environment = environment::of_command(std::env::vars_os(), names, &given, has_network);
    let stack_bytes = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    let command_bytes = request.command.as_ref().map_or(0, String::len);
    if let Some(fault) = environment::size_fault(&environment, command_bytes, stack_bytes) {
        return Err(Error::invalid(fault).detail("field", "env").suggest("Pass large values in a file."));
    }
    Ok(environment)
}

/// What a command reaches that only tries a backend out.
pub fn reach_of_probe(engine: &Engine) -> Reach {
    let home = hidden::home();
    Reach {
        outside: seen_outside(engine, home.as_deref(), &[engine.workspace.root()]),
        root: engine.workspace.root().as_os_str().to_owned(),
        read_only: false,
        protected: vec![OsString::from(GIT_FOLDER)],
        channels: Vec::new(),
        caches: Vec::new(),
        states: vec![OsString::from(STATE_FOLDER)],
        writable: Vec::new(),
        hidden: Vec::new(),
        settled: Vec::new(),
        pinned: Vec::new(),
        network: Network::None,
        peer: None,
        temporary: None,
        layer: None,
    }
}

/// Finds what a command sees of the outside; `own` are its writable folders and the workspace.
fn seen_outside(engine: &Engine, home: Option<&Path>, own: &[&Path]) -> Outside {
    let readable = engine.policy().list(Key::BashReadable).iter();
    let mut more: Vec<PathBuf> = readable.filter_map(|path| outside::named(home, path)).collect();
    more.extend(git_folders(engine.workspace.root(), &engine.policy().git_dirs()));
    Outside::find(home, &more, own)
}

/// Returns the sockets and FIFOs in the workspace that other programs may use and the policy does not name.
fn unnamed(engine: &Engine, home: Option<&Path>, found: Vec<PathBuf>) -> Vec<PathBuf> {
    if found.is_empty() {
        return found;
    }
    let named = engine.policy().list(Key::BashReadable).iter();
    let named: Vec<PathBuf> = named.filter_map(|path| outside::named(home, path)).collect();
    let root = engine.workspace.root();
    let mut used = channels::in_use(engine.workspace.root_fd(), found);
    used.retain(|path| !named.iter().any(|named| root.join(path).starts_with(named)));
    used
}

/// The policy's word for the backend.
pub fn backend(engine: &Engine) -> &str {
    engine.policy().word(Key::BashBackend)
}

/// The time limit where the request does not say, in milliseconds.
pub fn time_ms(engine: &Engine) -> u64 {
    engine.policy().number(Key::BashMs)
}

/// Bytes of output that are kept.
pub fn output_bytes_max(engine: &Engine) -> u64 {
    engine.policy().number(Key::BashOutputBytes)
}

/// Decides which network the command has.
///
/// # Errors
/// `command_denied` if it asks for a network and the policy allows none.
pub fn network(engine: &Engine, wanted: Option<bool>) -> Result<Network, Error> {
    let allowed = engine.policy().network();
    match wanted {
        Some(true) if allowed == Network::None => Err(Error::new(
            ErrorKind::CommandDenied,
            format!(
                "the policy gives commands no network: bash.network is deny ({})",
                engine.policy().source_of(Key::BashNetwork)
            ),
        )
        .suggest(
            "Work without the network, or ask the user to list the hosts: bash.network = [\"example.org\"].",
        )
        .detail("field", "network")),
        Some(false) => Ok(Network::None),
        Some(true) | None => Ok(allowed),
    }
}

/// What each process may use.
fn limits(engine: &Engine) -> Limits {
    let number = |key| engine.policy().number(key);
    Limits {
        memory_bytes: number(Key::BashMemory),
        processes: number(Key::BashProcesses),
        file_bytes: number(Key::BashFileBytes),
    }
}

/// Returns the folders elsewhere that the policy lets a command write. `doctor` names those that do not exist.
fn writable(engine: &Engine, home: Option<&Path>) -> Vec<OsString> {
    let named = engine.policy().list(Key::BashWritable).iter().filter_map(|path| outside::named(home, path));
    let folders: BTreeSet<PathBuf> =
        named.filter(|path| rustix::fs::stat(path).is_ok_and(|stat| is_folder(&stat))).collect();
    folders.into_iter().map(PathBuf::into_os_string).collect()
}

/// What of the workspace a command may not write, and which states of lbx it does not see. A transaction
/// looks again where something was found before; what is new since then, its change may not touch.
///
/// # Errors
/// `command_denied` if the workspace cannot be searched.
pub fn protected(engine: &mut Engine, is_transaction: bool) -> Result<ProtectedPaths, Error> {
    let has_globs = engine.policy().has_protected_paths();
    let state = State::find(&engine.workspace).ok().flatten();
    let known = state.as_ref().filter(|_| is_transaction && !has_globs).and_then(running::load_repositories);
    if let Some(folders) = known {
        return Ok(repositories::find_in(&engine.workspace, &folders));
    }
    let found = {
        let protects = by_policy(engine);
        let by_policy = has_globs.then_some(&protects as &(dyn Fn(&Path) -> bool + Sync));
        repositories::find(&engine.workspace, &engine.control, by_policy)?
    };
    note_searched(engine, &found);
    // What a layer holds is checked before it is applied.
    Ok(if is_transaction { found } else { without_closed(engine, found) })
}

/// Protects the folders that nobody has looked into as well: there may be a repository in them.
fn without_closed(engine: &mut Engine, mut found: ProtectedPaths) -> ProtectedPaths {
    let closed: Vec<WorkspacePath> =
        found.closed.iter().filter_map(|path| WorkspacePath::new(path)).collect();
    if let Some(names) = named(&engine.workspace, &closed) {
        engine.warn(format!(
            "off limits for this command, since lbx cannot look into it: {names}. A command with `transaction` can open it by chmod u+rwx"
        ));
    }
    found.protected.append(&mut found.closed);
    found.protected.sort();
    found
}

/// Finds what a command may not write, with a survey of everything that it may; that is missing if there is
/// too much.
///
/// # Errors
/// `command_denied` if the workspace cannot be searched.
pub fn look(engine: &mut Engine) -> Result<(ProtectedPaths, Option<Survey>), Error> {
    let has_globs = engine.policy().has_protected_paths();
    let (found, survey) = {
        let protects = by_policy(engine);
        let by_policy = has_globs.then_some(&protects as &(dyn Fn(&Path) -> bool + Sync));
        repositories::find_and_survey(&engine.workspace, &engine.control, by_policy)?
    };
    note_searched(engine, &found);
    Ok((without_closed(engine, found), survey))
}

/// Decides if the policy protects a path.
fn by_policy(engine: &Engine) -> impl Fn(&Path) -> bool + Sync {
    let (policy, workspace) = (engine.policy(), &engine.workspace);
    move |path| WorkspacePath::new(path).is_some_and(|path| policy.protects(workspace, &path).is_some())
}

/// Remembers what a search of the whole workspace has found.
fn note_searched(engine: &Engine, found: &ProtectedPaths) {
    if let Ok(Some(state)) = State::find(&engine.workspace)
        && !engine.policy().has_protected_paths()
    {
        running::save_repositories(&state, &found.holders);
    }
}
