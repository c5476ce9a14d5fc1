//! The backend for systems on which namespaces are forbidden: Landlock and a system call filter.
//!
//! The first process of the sandbox is not restricted: it adopts the command's processes, and no command can end it
//! (Landlock 6 and later). It starts a process that restricts itself and then becomes the command. Landlock only has
//! rules that allow, and a rule applies to all paths below a folder: so it cannot protect `.git` and `.lbx` in the
//! workspace, nor hide a path below a writable folder.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope,
};

use super::backend::{INTERNAL, SetupResult, part, with_context};
use super::environment::TEMPORARY;
use super::outside::Network;
use super::plan::{Access, HiddenPath, SandboxPlan};
use super::privileges;
use crate::engine::store::lock::TemporaryFolder;
use crate::engine::workspace::programs;
use crate::limits::{HIDDEN_DEPTH_MAX, LANDLOCK_FOLDERS_MAX};
use crate::platform::process::program_path;

/// Oldest version that will do: it handles truncation and moves between folders.
const ABI_LEAST: ABI = ABI::V3;
/// Newest version that lbx uses.
const ABI_MOST: ABI = ABI::V6;
/// Variable that tells the process which restricts itself the path of its task.
const TASK: &str = "LBX_SANDBOX_TASK";
/// File with the task, in the folder for temporary files.
const TASK_FILE: &str = ".task";
/// Devices that a command may write.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Folder of processes.
const PROCESSES: &str = "/proc";

/// Returns the first process of the sandbox.
///
/// # Errors
/// Returns the reason if Landlock does not work, or cannot confine a command to this access.
pub fn command(reach: &Access) -> Result<Command, String> {
    let below = |hidden: &&HiddenPath| {
        reach.visible_folders().any(|folder| Path::new(&hidden.path).starts_with(folder))
    };
    let hidden = reach.hidden.iter().find(below).map(|hidden| ("hide", &hidden.path));
    if let Some((verb, path)) = hidden.or(reach.settled.first().map(|path| ("protect", path))) {
        return Err(format!("Landlock cannot {verb} {} in a folder that is writable", path.display()));
    }
    if let Network::Hosts(_) = reach.network {
        return Err("Landlock cannot limit the network to a list of hosts".to_owned());
    }
    with_context(ruleset(reach.network.is_shared()), "Landlock does not work here")?;
    Ok(part(program_path(), "landlock"))
}

/// Returns the process that restricts itself and then becomes the command of a plan.
///
/// # Errors
/// Returns the OS error.
#[expect(clippy::disallowed_methods, reason = "a file in the folder that this process has just made")]
pub fn restricted(plan: &SandboxPlan, temporary: &TemporaryFolder) -> SetupResult<Command> {
    let mut task = plan.clone();
    let folder = task.reach.temporary.get_or_insert_with(|| temporary.0.clone().into_os_string()).clone();
    task.environment.retain(|(name, _)| name != TEMPORARY);
    task.environment.push((TEMPORARY.into(), folder));
    let task = with_context(serde_json::to_vec(&task), "the plan cannot be handed on")?;
    let file = temporary.0.join(TASK_FILE);
    with_context(std::fs::write(&file, task), "the plan cannot be handed on")?;
    let mut command = Command::new(program_path());
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
    let task = with_context(std::fs::read(&file), "there is nothing to run")?;
    with_context(std::fs::remove_file(&file), "the plan cannot be taken")?;
    let plan: SandboxPlan = with_context(serde_json::from_slice(&task), "there is nothing to run")?;
    if rustix::process::geteuid().is_root() {
        super::privileges::drop_capabilities()?;
    }
    restrict(&plan.reach)?;
    privileges::filter(false, plan.reach.network.is_shared())?;
    Err(format!("cannot start the command: {}", programs::exec(&mut plan.command()?)))
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
fn restrict(reach: &Access) -> SetupResult<()> {
    let mut rules = with_context(ruleset(reach.network.is_shared()), "Landlock does not work here")?;
    let (read, all) = (AccessFs::from_read(ABI_MOST), AccessFs::from_all(ABI_MOST));
    for folder in reach.visible_folders() {
        rules = allow(rules, &folder, if reach.is_read_only(&folder) { read } else { all })?;
    }
    if let Some(folder) = &reach.temporary {
        rules = allow(rules, Path::new(folder), all)?;
    }
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
            rules = with_context(rules.add_rule(PathBeneath::new(opened, access)), "cannot allow a path")?;
        }
    }
    with_context(rules.restrict_self(), "Landlock does not work here").map(drop)
}

/// Allows access to a path and all below it.
fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> SetupResult<RulesetCreated> {
    let what = format!("cannot allow {}", path.display());
    let opened = with_context(PathFd::new(path), &what)?;
    with_context(rules.add_rule(PathBeneath::new(opened, access)), what)
}

/// Returns the executable of lbx itself, which probes a backend.
#[expect(clippy::disallowed_methods, reason = "this program, by its link in /proc")]
fn program() -> Option<PathBuf> {
    std::fs::canonicalize(program_path()).ok()
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
        if looked_at > LANDLOCK_FOLDERS_MAX || depth > HIDDEN_DEPTH_MAX {
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
