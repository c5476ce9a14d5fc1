//! Programs of `PATH`, by their canonical path, from places that no agent can write.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Returns the canonical path of a program of `PATH`. `writable` are folders that commands can write.
///
/// # Errors
/// Says why the first program of that name was refused, or that there is none.
#[expect(clippy::disallowed_methods, reason = "programs of PATH, by the path that is started")]
pub fn find(name: &str, writable: &[&Path]) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let mut refused = None;
    for program in folders.filter_map(|folder| fs::canonicalize(folder.join(name)).ok()) {
        match obstacle(&program, writable) {
            None => return Ok(program),
            Some(why) => refused = refused.or(Some(format!("{} {why}", program.display()))),
        }
    }
    Err(refused.unwrap_or_else(|| format!("{name} is not installed")))
}

/// Returns why a program is not started: others could have written it.
#[expect(clippy::disallowed_methods, reason = "owners and modes on the way to a program")]
fn obstacle(program: &Path, writable: &[&Path]) -> Option<&'static str> {
    /// Permission of the group and of others to write.
    const WRITABLE: u32 = 0o022;
    /// Only owners remove and rename what a folder holds.
    const STICKY: u32 = 0o1000;
    let is_runnable = |found: &fs::Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
    if !fs::metadata(program).is_ok_and(|found| is_runnable(&found)) {
        return Some("is not a program");
    }
    if writable.iter().any(|folder| program.starts_with(folder)) {
        return Some("lies in a folder that commands can write");
    }
    let own = rustix::process::geteuid().as_raw();
    let found = |path: &Path| fs::metadata(path).ok().filter(|found| [0, own].contains(&found.uid()));
    let is_closed = |path: &Path| found(path).is_some_and(|found| found.permissions().mode() & WRITABLE == 0);
    // In a sticky folder, such as /tmp, others cannot replace what belongs to this account.
    let is_sticky = |path: &Path| found(path).is_some_and(|found| found.permissions().mode() & STICKY != 0);
    let mut places = program.ancestors();
    let is_safe =
        places.by_ref().take(2).all(is_closed) && places.all(|path| is_closed(path) || is_sticky(path));
    if !is_safe {
        return Some("lies in a folder that others can write");
    }
    let is_workspace = |folder: &Path| [".git", ".lbx"].iter().any(|mark| folder.join(mark).exists());
    program.ancestors().skip(1).any(is_workspace).then_some("lies in a workspace")
}
