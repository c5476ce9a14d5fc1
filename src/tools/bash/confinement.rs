//! Turns the policy and the request into what a command may reach and use.
//!
//! While commands run in a workspace without a `.git`, an empty one is at its root: else there would be nothing to
//! protect, and a command could make a repository, whose hooks would run later and unconfined. Concurrent commands
//! share it, and the last one removes it: if it is removed outside, its mount in a sandbox is lost as well. The next
//! command takes over what a killed call leaves.
//!
//! Sockets and FIFOs in the workspace could connect a command to programs of the host.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::job::record::JobFolder;
use super::request::Request;
use super::response::warn_of;
use crate::engine::Engine;
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::caches::{self, SessionTmp};
use crate::engine::sandbox::hidden::{self, LbxPaths};
use crate::engine::sandbox::outside::{self, Network, VisibleDisk};
use crate::engine::sandbox::plan::{Access, Layer, Limits, SandboxPlan};
use crate::engine::sandbox::repositories::{self, ProtectedPaths, SearchDepth};
use crate::engine::sandbox::run::EarlySandbox;
use crate::engine::sandbox::{BACKENDS, Backend, LANDLOCK, NONE, environment, running};
use crate::engine::snapshot::git_folders;
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs::{self, is_folder};
use crate::engine::workspace::path::{LinkFollower, WorkspacePath};
use crate::engine::workspace::protect::DOT_GIT;
use crate::engine::workspace::survey::Survey;
use crate::error::{Error, ErrorKind, text};
use crate::platform;

/// Policy value for the first backend that works and has no gaps.
const AUTO: &str = "auto";
/// Policy value for the same backend, or else landlock.
const AUTO_LANDLOCK: &str = "auto-landlock";

/// A command that is about to run, with the locks and folders that it needs until its end.
pub struct PlannedCommand {
    /// Command and its access.
    pub plan: SandboxPlan,
    /// Empty folder in place of a missing repository.
    pub placeholder: Option<Placeholder>,
    /// Paths of the known repositories.
    pub marks: Vec<WorkspacePath>,
    /// The `/tmp` of the session; `None` without a state.
    pub temporary: Option<SessionTmp>,
}

/// Returns the plan of a command. From here on, other calls see that it runs.
///
/// # Errors
/// Fails with `command_denied` if the request wants more than the policy allows, or the workspace is the whole disk.
pub fn plan(
    engine: &mut Engine,
    request: &Request,
    (program, early): (Vec<OsString>, Option<&EarlySandbox>),
    (mut found, layer, read_only): (ProtectedPaths, Option<Layer>, bool),
) -> Result<PlannedCommand, Error> {
    let mut marks = std::mem::take(&mut found.marks);
    if engine.workspace.root().parent().is_none() {
        return Err(Error::new(
            ErrorKind::CommandDenied,
            "the workspace is the whole disk, so nothing would be confined",
        )
        .suggest("Name a smaller workspace with --workspace."));
    }
    let network = network(engine, request.network)?;
    let (placeholder, temporary) = if read_only {
        (None, None)
    } else {
        let state = State::open(&engine.workspace)?;
        let temporary = SessionTmp::open(&engine.workspace, &state, engine.session())?;
        (Placeholder::make(engine.workspace.root_fd(), &state), Some(temporary))
    };
    if placeholder.is_some() {
        marks.push(WorkspacePath::root().join(DOT_GIT.as_ref()));
        if !found.protected.iter().any(|path| path.as_os_str() == DOT_GIT) {
            found.protected.insert(0, PathBuf::from(DOT_GIT));
        }
    }
    let reach = access(engine, found, read_only, temporary.as_ref())?;
    let peer = early.map_or_else(|| JobFolder::peer(engine, &network), |early| early.peer);
    let plan = SandboxPlan {
        program,
        workdir: workdir(engine, request.workdir.as_deref())?,
        environment: environment_of(engine, request, network != Network::None)?,
        reach: Access { layer, network, peer, ..reach },
        limits: limits(engine),
    };
    Ok(PlannedCommand { plan, placeholder, marks, temporary })
}

/// Returns the access of a command, except for its network and its layer.
fn access(
    engine: &mut Engine,
    found: ProtectedPaths,
    read_only: bool,
    temporary: Option<&SessionTmp>,
) -> Result<Access, Error> {
    let (root, home) = (engine.workspace.root().to_owned(), hidden::home());
    let home = home.as_deref();
    let writable = writable(engine, home);
    let written = (!read_only).then_some(root.as_path());
    let folders: Vec<&Path> = written.into_iter().chain(writable.iter().map(Path::new)).collect();
    let own = LbxPaths::find(&folders, &engine.policy().lbx_paths_of_user())?;
    let own_folders: Vec<&Path> = writable.iter().map(Path::new).chain([root.as_path()]).collect();
    let mut follower = LinkFollower::default();
    let mut outside = visible_disk(engine, home, &own_folders, &mut follower);
    let wanted = engine.policy().list(Key::BashCaches);
    let mut make = |name: &str, is_layered: bool| temporary?.cache(name, is_layered);
    let caches = caches::find(home, wanted, (&mut outside, &own_folders), (&mut follower, &mut make));
    let by_policy = found.by_policy.iter().filter(|_| !read_only);
    let above = by_policy.flat_map(|path| path.ancestors().skip(1));
    let above =
        above.filter(|path| !path.as_os_str().is_empty()).map(|path| root.join(path).into_os_string());
    // Folders that hold protected paths cannot be moved away and replaced either.
    let pinned: BTreeSet<OsString> = own.pinned.into_iter().chain(above).collect();
    let list = |paths: Vec<PathBuf>| paths.into_iter().map(PathBuf::into_os_string).collect();
    let reach = Access {
        read_only,
        outside,
        caches,
        protected: list(found.protected),
        states: list(found.states),
        channels: list(unnamed(engine, home, found.channels)),
        settled: own.settled,
        pinned: pinned.into_iter().collect(),
        writable,
        temporary: temporary.map(|temporary| temporary.path.as_os_str().to_owned()),
        root: root.into_os_string(),
        ..Access::default()
    };
    let (more, readable) = (engine.policy().list(Key::BashHidden), engine.policy().list(Key::BashReadable));
    let hidden = hidden::find(home, more, readable, &mut follower).into_iter();
    let hidden = hidden.filter(|hidden| reach.shows(Path::new(&hidden.path))).collect();
    Ok(Access { hidden, ..reach })
}

/// Returns the working directory of a command.
fn workdir(engine: &Engine, wanted: Option<&Path>) -> Result<OsString, Error> {
    let workspace = &engine.workspace;
    let Some(wanted) = wanted else {
        return Ok(workspace.root().join(workspace.base().as_path()).into_os_string());
    };
    let folder = workspace.folder(wanted).map_err(|error| error.detail("field", "workdir"))?;
    Ok(workspace.root().join(folder.as_path()).into_os_string())
}

/// Returns the environment of a command.
///
/// # Errors
/// Fails with `invalid_request` if no program can have one of the variables, or there are too many.
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

/// Returns the access of a command that only probes a backend.
pub fn probe_access(engine: &Engine) -> Access {
    let (home, mut follower) = (hidden::home(), LinkFollower::default());
    Access {
        outside: visible_disk(engine, home.as_deref(), &[engine.workspace.root()], &mut follower),
        root: engine.workspace.root().as_os_str().to_owned(),
        protected: vec![OsString::from(DOT_GIT)],
        states: vec![OsString::from(STATE_FOLDER)],
        ..Access::default()
    }
}

/// Returns what a command sees outside; `own` are its writable folders and the workspace.
fn visible_disk(
    engine: &Engine,
    home: Option<&Path>,
    own: &[&Path],
    follower: &mut LinkFollower,
) -> VisibleDisk {
    let readable = engine.policy().list(Key::BashReadable).iter();
    let mut more: Vec<PathBuf> =
        readable.filter_map(|path| outside::canonical_of_policy(home, path)).collect();
    more.extend(git_folders(engine.workspace.root(), &engine.policy().git_dirs()));
    VisibleDisk::find(home, &more, own, follower)
}

/// Returns the sockets and FIFOs in the workspace that other programs may use and the policy does not name.
fn unnamed(engine: &Engine, home: Option<&Path>, found: Vec<PathBuf>) -> Vec<PathBuf> {
    if found.is_empty() {
        return found;
    }
    let named = engine.policy().list(Key::BashReadable).iter();
    let named: Vec<PathBuf> = named.filter_map(|path| outside::canonical_of_policy(home, path)).collect();
    let root = engine.workspace.root();
    let mut used = in_use(engine.workspace.root_fd(), found);
    used.retain(|path| !named.iter().any(|named| root.join(path).starts_with(named)));
    used
}

/// Returns the network of a command.
///
/// # Errors
/// Fails with `command_denied` if the request asks for a network and the policy allows none.
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

/// Returns the backend that the policy names.
pub fn backend_word(engine: &Engine) -> &str {
    engine.policy().word(Key::BashBackend)
}

/// Returns the backends that the policy allows.
pub fn allowed(engine: &Engine) -> Vec<&'static Backend> {
    let name = backend_word(engine);
    BACKENDS.iter().filter(|backend| is_allowed(name, backend)).collect()
}

/// Returns true if the policy value allows a backend: one that confines nothing only by its own name, one with gaps
/// only if the value says so.
pub fn is_allowed(word: &str, backend: &Backend) -> bool {
    let name = backend.name;
    match word {
        AUTO => ![NONE, LANDLOCK].contains(&name),
        AUTO_LANDLOCK => name != NONE,
        word => word == name,
    }
}

/// Returns true if every backend that may run a command gives the workspace a mount of its own: then no file of it gets
/// a name elsewhere.
pub fn has_own_mounts(engine: &Engine) -> bool {
    allowed(engine).iter().all(|backend| ![NONE, LANDLOCK].contains(&backend.name))
}

/// Returns the limits of each process.
fn limits(engine: &Engine) -> Limits {
    let number = |key| engine.policy().number(key);
    Limits {
        memory_bytes: number(Key::BashMemory),
        processes: number(Key::BashProcesses),
        file_bytes: number(Key::BashFileBytes),
    }
}

/// Returns the folders outside that the policy lets a command write. `doctor` names missing ones.
fn writable(engine: &Engine, home: Option<&Path>) -> Vec<OsString> {
    let named = engine
        .policy()
        .list(Key::BashWritable)
        .iter()
        .filter_map(|path| outside::canonical_of_policy(home, path));
    let folders: BTreeSet<PathBuf> =
        named.filter(|path| rustix::fs::stat(path).is_ok_and(|stat| is_folder(&stat))).collect();
    folders.into_iter().map(PathBuf::into_os_string).collect()
}

/// Returns the workspace paths that a command on a layer may not write, and the lbx states that it does not see:
/// searches only known repositories. The change that applies the layer may not touch newer ones.
///
/// # Errors
/// Fails with `command_denied` if the workspace cannot be searched.
pub fn protected_below_layer(engine: &Engine) -> Result<ProtectedPaths, Error> {
    let state = State::find(&engine.workspace).ok().flatten();
    let has_globs = engine.policy().has_protected_paths();
    match state.filter(|_| !has_globs).as_ref().and_then(running::load_repositories) {
        Some(folders) => Ok(repositories::find_in(&engine.workspace, &folders)),
        None => search(engine, SearchDepth::ForRepositories).map(|(found, _)| found),
    }
}

/// Finds the paths that a command without a layer may not write, unreadable folders among them, which may hold a
/// repository. Surveys the paths that it may write if `looking` says so, unless there are too many.
///
/// # Errors
/// Fails with `command_denied` if the workspace cannot be searched.
pub fn find_protected(
    engine: &mut Engine,
    looking: SearchDepth<'_>,
) -> Result<(ProtectedPaths, Option<Survey>), Error> {
    let (mut found, survey) = search(engine, looking)?;
    let closed: Vec<WorkspacePath> =
        found.closed.iter().filter_map(|path| WorkspacePath::new(path)).collect();
    warn_of(engine, &closed, |names| {
        text!(
            "off limits for this command, since lbx cannot look into it: {}. A command with `transaction` can open it by chmod u+rwx",
            names
        )
    });
    found.protected.append(&mut found.closed);
    if ignores_case(&engine.workspace) {
        for paths in [&mut found.protected, &mut found.states] {
            *paths = all_cases(paths)?;
        }
    }
    found.protected.sort();
    Ok((found, survey))
}

/// Most names of protected paths where the file system ignores case.
const NAMES_MAX: usize = 2_048;

/// Returns true if `.GIT` is `.git` although the kernel takes them for two names, so that a mount over one leaves the other
/// open: on the file systems of programs, as that of Docker Desktop on a Mac.
fn ignores_case(workspace: &Workspace) -> bool {
    /// The kernel's number for them (`FUSE_SUPER_MAGIC`).
    const FUSE: u64 = 0x6573_5546;
    let root = workspace.root_fd();
    // Whoever made the workspace does not know the name of the state.
    let has_state_in_capitals = || {
        let state = State::find(workspace).ok()??;
        let capitals = state.path().as_bytes().to_ascii_uppercase();
        fs::stat_beneath(root, &WorkspacePath::new(Path::new(OsStr::from_bytes(&capitals)))?).ok()
    };
    platform::file_system_kind(root) == Some(FUSE) && has_state_in_capitals().is_some()
}

/// Returns the paths in each case of their letters.
///
/// # Errors
/// Fails with `command_denied` if these are too many to close.
fn all_cases(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut all = Vec::new();
    for path in paths {
        let mut forms = vec![Vec::new()];
        for byte in path.as_os_str().as_bytes() {
            let other = byte ^ 0x20;
            let cases = [*byte, other];
            let cases = if byte.is_ascii_alphabetic() { &cases[..] } else { &cases[..1] };
            forms = forms
                .iter()
                .flat_map(|form| cases.iter().map(move |byte| [form.as_slice(), &[*byte]].concat()))
                .collect();
            if all.len() + forms.len() > NAMES_MAX {
                let path = path.display();
                let message = format!("the file system ignores case, and {path} has too many names to close");
                return Err(Error::new(ErrorKind::CommandDenied, message).suggest(
                    "Use the file tools instead, or a workspace on a file system that tells .git from .GIT.",
                ));
            }
        }
        all.extend(forms.into_iter().map(|form| PathBuf::from(OsString::from_vec(form))));
    }
    Ok(all)
}

/// Searches the whole workspace, and stores where repositories are.
fn search(engine: &Engine, looking: SearchDepth<'_>) -> Result<(ProtectedPaths, Option<Survey>), Error> {
    let (policy, workspace) = (engine.policy(), &engine.workspace);
    let has_globs = policy.has_protected_paths();
    let protects = |path: &Path| {
        WorkspacePath::new(path).is_some_and(|path| policy.protects(workspace, &path).is_some())
    };
    let by_policy = has_globs.then_some(&protects as &(dyn Fn(&Path) -> bool + Sync));
    let found = repositories::find(workspace, &engine.control, by_policy, looking)?;
    if let Ok(Some(state)) = State::find(workspace)
        && !has_globs
    {
        running::save_repositories(&state, &found.0.holders);
    }
    Ok(found)
}

/// File in the state folder; every command that needs the folder locks it.
const LOCK: &str = "placeholder.lock";
/// Content of the file while the folder is lbx's.
const MADE: &[u8] = b"made\n";

/// A command's share in the empty folder; the last share that is dropped removes the folder, if it is empty.
#[derive(Debug)]
pub struct Placeholder {
    /// The workspace root.
    root: OwnedFd,
    /// The locked file.
    lock: File,
}

impl Placeholder {
    /// Makes the folder, or takes a share in it; returns `None` if the workspace has a `.git` of another program.
    fn make(root: BorrowedFd<'_>, state: &State) -> Option<Self> {
        if has_git(root) { None } else { Self::take(root, state).ok().flatten() }
    }

    /// Takes a share; returns `None` if another program made the folder.
    fn take(root: BorrowedFd<'_>, state: &State) -> std::io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(state.fd(), LOCK, flags, Mode::from_raw_mode(0o600))?;
        // Only a removal takes the exclusive lock, briefly.
        rustix::fs::flock(&lock, FlockOperation::LockShared)?;
        let mut lock = File::from(lock);
        match rustix::fs::mkdirat(root, DOT_GIT, Mode::from_raw_mode(0o777)) {
            Ok(()) => fs::write_all(&lock, MADE)?,
            Err(Errno::EXIST) => {
                let mut made = Vec::new();
                lock.by_ref().take(MADE.len() as u64).read_to_end(&mut made)?;
                if made != MADE {
                    return Ok(None);
                }
            }
            Err(errno) => return Err(errno.into()),
        }
        Ok(Some(Self { root: root.try_clone_to_owned()?, lock }))
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        if rustix::fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::unlink_at(&self.root, DOT_GIT, AtFlags::REMOVEDIR);
            let _ = self.lock.set_len(0);
        }
    }
}

/// Returns true if the workspace has a `.git` other than an empty folder.
fn has_git(root: BorrowedFd<'_>) -> bool {
    let name = OsStr::new(DOT_GIT);
    match fs::stat_at(root, name) {
        Err(Errno::NOENT) => false,
        Ok(stat) if fs::is_folder(&stat) => {
            let names = fs::open_at(root, name, fs::FOLDER).and_then(|folder| fs::names_in(&folder));
            names.map_or(true, |names| !names.is_empty())
        }
        _ => true,
    }
}

/// Returns the FIFOs among these paths below the root, and the sockets in use. An unused socket does no harm, and its
/// program must be able to replace it.
pub fn in_use(root: BorrowedFd<'_>, found: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_used = |path: &PathBuf| {
        let stat = WorkspacePath::new(path).map(|path| fs::stat_beneath(root, &path));
        let Some(Ok(stat)) = stat else { return false };
        !fs::type_of(&stat).is_socket() || platform::is_socket_in_use(root, path)
    };
    found.into_iter().filter(is_used).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_any_case_are_all_their_names() {
        let all = all_cases(&[PathBuf::from(".g1/é")]).unwrap();
        assert_eq!(all, [".g1/é", ".G1/é"].map(PathBuf::from));
        assert_eq!(all_cases(&[".git", ".lbx"].map(PathBuf::from)).unwrap().len(), 16);
        let deep = all_cases(&[PathBuf::from("node_modules/.git")]).unwrap_err();
        assert_eq!(deep.kind(), ErrorKind::CommandDenied);
    }
}
