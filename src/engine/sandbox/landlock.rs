//! The backend for systems on which namespaces are forbidden: Landlock and a system call filter.
//!
//! The first process of the sandbox is not restricted: it adopts the command's processes, and no command can end it
//! (Landlock 6 and later). It starts a process that restricts itself and then becomes the command. Landlock only has
//! rules that allow, and a rule applies to all paths below a folder: so it cannot protect `.git` and `.lbx` in the
//! workspace, nor hide a path below a writable folder.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope,
};
use serde::{Deserialize, Serialize};

use super::backend::{Backend, INTERNAL, LANDLOCK, SELF, part};
use super::outside::Network;
use super::plan::{Reach, SandboxPlan};
use super::privileges;
use super::setup::{SetupResult, doing};
use crate::engine::workspace::programs;

/// Oldest version that will do: it handles truncation and moves between folders.
const ABI_LEAST: ABI = ABI::V3;
/// Newest version that lbx uses.
const ABI_MOST: ABI = ABI::V6;
/// Variable that tells the process which restricts itself the path of its task.
const TASK: &str = "LBX_SANDBOX_TASK";
/// File with the task, in the folder for temporary files.
const TASK_FILE: &str = ".task";
/// Variable that names the folder for temporary files.
const TEMPORARY: &str = "TMPDIR";
/// Devices that a command may write.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Folder of processes.
const PROCESSES: &str = "/proc";
/// Largest number of folders whose entries are allowed one by one.
const FOLDERS_MAX: usize = 10_000;
/// Largest number of folders above a hidden path.
const DEPTH_MAX: usize = 64;

/// The Landlock backend.
pub struct Landlock;

impl Backend for Landlock {
    fn name(&self) -> &'static str {
        LANDLOCK
    }

    fn about(&self) -> &'static str {
        "Landlock and seccomp, for systems without namespaces: outside the workspace only programs and toolchains, read-only; no network sockets; only where the policy names it (bash.backend)"
    }

    fn gaps(&self) -> &'static [&'static str] {
        &[
            ".git, .lbx and protected paths in the workspace can be written",
            "chmod, chown, touch and setfattr work on the user's files outside",
            "sizes and times of files outside can be seen, also of secrets",
            "sockets of other programs can be reached, such as those of containers and of the desktop; FIFOs only in the workspace",
            "before Landlock 6 (Linux 6.12) other processes of the user can get signals",
        ]
    }

    fn command(&self, reach: &Reach) -> Result<Command, String> {
        let below = |hidden: &&super::plan::Hidden| {
            reach.own_folders().any(|folder| Path::new(&hidden.path).starts_with(folder))
        };
        if let Some(hidden) = reach.hidden.iter().find(below) {
            return Err(format!(
                "Landlock cannot hide {} in a folder that is writable",
                hidden.path.display()
            ));
        }
        if let Some(settled) = reach.settled.first() {
            return Err(format!(
                "Landlock cannot protect {} in a folder that is writable",
                settled.display()
            ));
        }
        if let Network::Hosts(_) = reach.network {
            return Err("Landlock cannot limit the network to a list of hosts".to_owned());
        }
        doing(ruleset(reach.network.is_shared()), "Landlock does not work here")?;
        Ok(part(SELF, "landlock"))
    }
}

/// Task of the process that restricts itself.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    /// Access of the command.
    reach: Reach,
    /// Folder for temporary files.
    temporary: OsString,
    /// Command with its arguments.
    program: Vec<OsString>,
    /// Its environment.
    environment: Vec<(OsString, OsString)>,
}

/// A folder for temporary files, removed on drop.
pub struct Temporary(PathBuf);

impl Temporary {
    /// Creates a folder for this user alone.
    ///
    /// # Errors
    /// Returns the OS error.
    #[expect(clippy::disallowed_methods, reason = "a new folder with a name that nobody knows")]
    pub fn new() -> SetupResult<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(crate::engine::store::lock::unique_name("lbx"));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        doing(made, "cannot make a folder for temporary files")?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    #[expect(
        clippy::disallowed_methods,
        reason = "the folder that it made itself; links in it are not followed"
    )]
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the process that restricts itself and then becomes the command of a plan.
///
/// # Errors
/// Returns the OS error.
#[expect(clippy::disallowed_methods, reason = "a file in the folder that this process has just made")]
pub fn restricted(plan: &SandboxPlan, temporary: &Temporary) -> SetupResult<Command> {
    let task = Task {
        reach: plan.reach.clone(),
        temporary: plan.reach.temporary.clone().unwrap_or_else(|| temporary.0.clone().into_os_string()),
        program: plan.program.clone(),
        environment: plan.environment.clone(),
    };
    let task = doing(serde_json::to_vec(&task), "the plan cannot be handed on")?;
    let file = temporary.0.join(TASK_FILE);
    doing(std::fs::write(&file, task), "the plan cannot be handed on")?;
    let mut command = Command::new(SELF);
    command.args([INTERNAL, "restricted"]).env_clear().env(TASK, file);
    Ok(command)
}

/// Runs as that process.
///
/// # Errors
/// Returns the step that failed; the command has not run then.
#[expect(clippy::disallowed_methods, reason = "a file in the folder that its parent has made")]
pub(super) fn run() -> SetupResult<()> {
    let file = std::env::var_os(TASK).ok_or("there is nothing to run")?;
    let task = doing(std::fs::read(&file), "there is nothing to run")?;
    doing(std::fs::remove_file(&file), "the plan cannot be taken")?;
    let Task { reach, temporary, program, environment } =
        doing(serde_json::from_slice(&task), "there is nothing to run")?;
    if rustix::process::geteuid().is_root() {
        super::privileges::drop_capabilities()?;
    }
    restrict(&reach, Path::new(&temporary))?;
    privileges::filter(false, reach.network.is_shared())?;
    let (program, arguments) = program.split_first().ok_or("there is no program to run")?;
    let variables = environment.into_iter().filter(|(name, _)| name != TEMPORARY);
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(variables).env(TEMPORARY, temporary);
    Err(format!("cannot start the command: {}", programs::exec(&mut command)))
}

/// Returns the rules that do not depend on paths.
fn ruleset(network: bool) -> Result<RulesetCreated, landlock::RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI_LEAST))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_MOST))?
        .scope(Scope::from_all(ABI_MOST))?;
    if !network {
        rules = rules.handle_access(AccessNet::from_all(ABI_MOST))?;
    }
    rules.create()
}

/// Restricts this process and its descendants.
fn restrict(reach: &Reach, temporary: &Path) -> SetupResult<()> {
    let mut rules = doing(ruleset(reach.network.is_shared()), "Landlock does not work here")?;
    let (read, all) = (AccessFs::from_read(ABI_MOST), AccessFs::from_all(ABI_MOST));
    for folder in reach.own_folders() {
        rules = allow(rules, &folder, if reach.is_read_only(&folder) { read } else { all })?;
    }
    rules = allow(rules, temporary, all)?;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    for path in DEVICES.iter().filter(|path| rustix::fs::stat(**path).is_ok()) {
        rules = allow(rules, Path::new(path), device)?;
    }
    let hidden: Vec<&Path> = reach.hidden.iter().map(|hidden| Path::new(&hidden.path)).collect();
    let shown =
        reach.outside.shown.iter().map(PathBuf::from).chain([PathBuf::from(PROCESSES)]).chain(program());
    for path in readable(shown, &hidden)? {
        // Paths that were removed, or cannot be opened, need no rule.
        if let Ok(opened) = PathFd::new(&path) {
            let is_folder =
                rustix::fs::fstat(&opened).is_ok_and(|stat| crate::engine::workspace::fs::is_folder(&stat));
            let access = if is_folder { read } else { AccessFs::ReadFile | AccessFs::Execute };
            rules = doing(rules.add_rule(PathBeneath::new(opened, access)), "cannot allow a path")?;
        }
    }
    doing(rules.restrict_self(), "Landlock does not work here").map(drop)
}

/// Allows access to a path and all below it.
fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> SetupResult<RulesetCreated> {
    let what = format!("cannot allow {}", path.display());
    let opened = doing(PathFd::new(path), &what)?;
    doing(rules.add_rule(PathBeneath::new(opened, access)), what)
}

/// Returns the executable of lbx itself, which probes a backend.
#[expect(clippy::disallowed_methods, reason = "this program, by its link in /proc")]
fn program() -> Option<PathBuf> {
    std::fs::canonicalize(SELF).ok()
}

/// Returns paths that together cover the shown paths without the hidden ones: a folder above a hidden path is replaced
/// by its entries.
#[expect(clippy::disallowed_methods, reason = "names on the way to hidden paths; nothing in them is read")]
fn readable(shown: impl Iterator<Item = PathBuf>, hidden: &[&Path]) -> SetupResult<Vec<PathBuf>> {
    let mut whole = Vec::new();
    let mut parted: Vec<(PathBuf, usize)> = shown.map(|path| (path, 0)).collect();
    let mut looked_at = 0;
    while let Some((folder, depth)) = parted.pop() {
        if !hidden.iter().any(|path| path.starts_with(&folder)) {
            whole.push(folder);
            continue;
        }
        if hidden.contains(&folder.as_path()) {
            continue;
        }
        looked_at += 1;
        if looked_at > FOLDERS_MAX || depth > DEPTH_MAX {
            return Err("there are too many folders on the way to what is hidden".to_owned());
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        parted.extend(entries.filter(is_own).map(|entry| (entry.path(), depth + 1)));
    }
    Ok(whole)
}

/// Returns true if an entry is not a symlink: the target of a link is found at its own path.
fn is_own(entry: &std::fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| !kind.is_symlink()) && entry.file_name() != OsStr::new("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_in_no_readable_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["home/.ssh", "home/project", "other"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        let hidden = root.join("home/.ssh");
        let readable = readable([root.clone()].into_iter(), &[&hidden]).unwrap();
        assert!(readable.iter().all(|path| !hidden.starts_with(path) && !path.starts_with(&hidden)));
        for path in ["home/project", "other"] {
            assert!(readable.contains(&root.join(path)), "{path}");
        }
    }
}
