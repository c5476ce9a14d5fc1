//! Confined commands: what `bash` runs can reach the workspace and little else, and nothing of it
//! outlives the call.
//!
//! A call starts lbx itself again (`/proc/self/exe`) as the first process of a sandbox ([`init`]),
//! by way of one of the [`BACKENDS`], and talks with it over a socket ([`link`]). The first process
//! starts the command, takes in all that come of it, and ends with them; where the call dies, the
//! socket closes, and so does the sandbox. [`run`] is the call's side of it.

pub mod backend;
pub mod caches;
pub mod capture;
pub mod environment;
pub mod hidden;
mod init;
mod landlock;
pub mod layer;
mod mounts;
mod namespaces;
pub mod outside;
pub mod overlay;
pub mod plan;
mod privileges;
pub mod proxy;
pub mod repositories;
pub mod repository_marks;
pub mod run;
pub mod running;
mod setup;

use std::ffi::OsString;
use std::io::Write as _;

pub use backend::{Backend, LANDLOCK, NONE};
use backend::{INTERNAL, SELF};
use plan::{Limits, Reach, SandboxPlan};

/// The exit status of a first process that could not tell why it failed.
const FAILED: u8 = 125;

/// Every backend, the one that is tried first at the beginning.
pub static BACKENDS: [&dyn Backend; 4] =
    [&namespaces::Namespaces, &namespaces::Bubblewrap, &landlock::Landlock, &namespaces::Unconfined];

/// The backend of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Backend> {
    BACKENDS.iter().copied().find(|backend| backend.name() == name)
}

/// Why a backend does not work here; `None` where it does. It runs lbx itself to find out, which is there
/// where no other program is.
#[must_use]
pub fn probe(backend: &dyn Backend, reach: Reach) -> Option<String> {
    let plan = SandboxPlan {
        program: [SELF, "--version"].map(OsString::from).into(),
        workdir: reach.root.clone(),
        environment: vec![(OsString::from("PATH"), OsString::from(environment::PATH_DEFAULT))],
        reach,
        limits: Limits { memory_bytes: 0, processes: 0, file_bytes: 0 },
        grace_ms: 0,
    };
    let mut sink = run::Discard;
    let probed = run::run(backend, &plan, None, &run::Bounds::probe(), (None, &mut sink));
    match probed {
        Ok((run::Ran { ended, .. }, _)) if ended.exit_code == Some(0) => None,
        Ok(_) => Some("a command that should succeed failed in it".to_owned()),
        Err(run::Failure::Backend(reason)) => Some(reason),
        Err(run::Failure::Call(error)) => Some(error.message().to_owned()),
    }
}

/// Runs as a part of a sandbox where the arguments say so; answers the exit status. `None` for the
/// arguments of a user.
#[must_use]
pub fn run_internal(arguments: &[OsString]) -> Option<u8> {
    let [_, word, part] = arguments else { return None };
    if word != INTERNAL {
        return None;
    }
    let ran = match part.to_str() {
        Some("namespaces") => namespaces::run(),
        Some("init") => init::run(init::Kind::Namespaces),
        Some("prepared") => init::run(init::Kind::Prepared),
        Some("landlock") => init::run(init::Kind::Landlock),
        Some("restricted") => landlock::run(),
        Some("unconfined") => init::run(init::Kind::Unconfined),
        _ => Err("no part of a sandbox has this name".to_owned()),
    };
    Some(ran.map_or_else(
        |reason| {
            // Where there is a link, it is told there; else nobody but the command's reader hears it.
            let _ = writeln!(std::io::stderr(), "lbx: {reason}");
            FAILED
        },
        |()| 0,
    ))
}
