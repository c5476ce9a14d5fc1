//! Confined commands: a command that `bash` runs can reach the workspace and little else, and no process of it outlives
//! the call.
//!
//! A call starts lbx again (`/proc/self/exe`) as the first process of a sandbox ([`init`]), through one of the
//! [`BACKENDS`], and talks with it over a socket ([`plan`]). The first process starts the command, adopts all its
//! descendants, and ends with them; if the call dies, the socket closes, which ends the sandbox. [`run`] is the call's
//! side.

pub mod backend;
pub mod caches;
pub mod capture;
#[cfg(target_os = "linux")]
pub mod control_group;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
pub mod environment;
#[cfg(target_os = "linux")]
pub mod folder_watch;
pub mod fork;
pub mod fork_base;
mod fork_copy;
#[cfg(target_os = "linux")]
pub mod fork_mount;
pub mod fork_survey;
pub mod hidden;
mod init;
#[cfg(target_os = "linux")]
mod landlock;
pub mod layer;
pub mod layer_folders;
#[cfg(target_os = "linux")]
mod layer_mount;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespaces;
pub mod outside;
pub mod overlay;
pub mod plan;
#[cfg(target_os = "linux")]
mod privileges;
pub mod proxy;
pub mod repositories;
pub mod repository_marks;
pub mod run;
pub mod running;
#[cfg(any(target_os = "macos", test))]
mod seatbelt;

use std::ffi::OsString;
use std::io::Write as _;

#[cfg(target_os = "linux")]
use backend::NAMESPACES;
pub use backend::{Backend, LANDLOCK, NONE};
use backend::{INTERNAL, StartProcess, part};
use capture::Capture;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{control_group, folder_watch};
#[cfg(not(target_os = "linux"))]
use elsewhere::{landlock, namespaces, privileges};
use plan::{Access, Limits, SandboxPlan};

use crate::platform::process::program_path;

/// Exit status of a first process that could not report why it failed.
const FAILED: u8 = 125;

/// All backends, in the order in which they are tried.
pub static BACKENDS: &[Backend] = &[
    #[cfg(target_os = "linux")]
    Backend {
        name: NAMESPACES,
        about: "Linux namespaces, made by lbx itself: outside the workspace only programs and toolchains, read-only; no other processes, no network",
        gaps: &[],
        start: StartProcess::Early,
    },
    #[cfg(target_os = "linux")]
    Backend {
        name: "bubblewrap",
        about: "the same by the program bwrap, where it is installed",
        gaps: &[],
        start: StartProcess::Planned(namespaces::bubblewrap),
    },
    #[cfg(target_os = "linux")]
    Backend {
        name: LANDLOCK,
        about: "Landlock and seccomp, for systems without namespaces: outside the workspace only programs and toolchains, read-only; no network sockets; only where the policy names it (bash.backend)",
        gaps: &[
            ".git, .lbx and protected paths in the workspace can be written",
            "chmod, chown, touch and setfattr work on the user's files outside",
            "sizes and times of files outside can be seen, also of secrets",
            "sockets of other programs can be reached, such as those of containers and of the desktop; FIFOs only in the workspace",
            "before Landlock 6 (Linux 6.12) other processes of the user can get signals",
        ],
        start: StartProcess::Planned(landlock::command),
    },
    #[cfg(target_os = "macos")]
    Backend {
        name: "seatbelt",
        about: "Seatbelt of macOS, by its program sandbox-exec: outside the workspace only programs and toolchains can be read, nothing written; no network",
        gaps: &[
            "names, sizes and times of files outside can be seen",
            "a process that the command detaches can outlive it",
        ],
        start: StartProcess::Planned(seatbelt::command),
    },
    // It only ends every process with the command.
    Backend {
        name: NONE,
        about: "no confinement: the command can do whatever its user can; only by the user's own policy",
        gaps: &[],
        start: StartProcess::Planned(|_| Ok(part(program_path(), "unconfined"))),
    },
];

/// Returns the reason why a backend does not work here; `None` if it works. It runs lbx itself for the test, since no
/// other program need exist.
pub fn probe(backend: &'static Backend, reach: Access) -> Option<String> {
    let plan = SandboxPlan {
        program: [program_path(), "--version"].map(OsString::from).into(),
        workdir: reach.root.clone(),
        environment: vec![(OsString::from("PATH"), OsString::from(environment::PATH_DEFAULT))],
        reach,
        limits: Limits { memory_bytes: 0, processes: 0, file_bytes: 0 },
    };
    let bounds = run::RunBounds::probe();
    let mut none = || Err(String::new());
    let mut output = Capture::new(0, 0, &mut none, &bounds.control);
    let probed = run::run(backend, &plan, None, &bounds, (None, &mut output, &mut |_| {}));
    match probed {
        Ok((run::CommandRun { ended, .. }, _)) if ended.exit_code == Some(0) => None,
        Ok(_) => Some("a command that should succeed failed in it".to_owned()),
        Err(run::RunFailure::Backend(reason)) => Some(reason),
        Err(run::RunFailure::Call(error)) => Some(error.message().to_owned()),
    }
}

/// Enters a fork if the arguments say so, and returns the exit status if that fails; `None` for arguments of a user.
pub fn enter_fork(arguments: &[OsString]) -> Option<u8> {
    #[cfg(target_os = "linux")]
    return fork_mount::run_internal(arguments);
    #[cfg(not(target_os = "linux"))]
    None.filter(|_: &u8| arguments.is_empty())
}

/// Runs a part of a sandbox if the arguments say so, and returns the exit status; `None` for arguments of a user.
pub fn run_internal(arguments: &[OsString]) -> Option<u8> {
    let [_, word, part] = arguments else { return None };
    if word != INTERNAL {
        return None;
    }
    let ran = match part.to_str() {
        #[cfg(target_os = "linux")]
        Some("namespaces") => namespaces::run(),
        Some("prepared") => init::run(init::SandboxKind::Prepared),
        Some("landlock") => init::run(init::SandboxKind::Landlock),
        #[cfg(target_os = "linux")]
        Some("restricted") => landlock::run(),
        Some("seatbelt") => init::run(init::SandboxKind::Seatbelt),
        Some("unconfined") => init::run(init::SandboxKind::Unconfined),
        _ => Err("no part of a sandbox has this name".to_owned()),
    };
    Some(ran.map_or_else(
        |reason| {
            // The error goes over the link if there is one; stderr only reaches readers of the command's output.
            let _ = writeln!(std::io::stderr(), "lbx: {reason}");
            FAILED
        },
        |()| 0,
    ))
}
