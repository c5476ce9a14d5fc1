//! Check of the forks: their folders, age and size, and what dead calls left.

use std::path::Path;

use super::Finding;
use crate::control::seconds_now;
use crate::engine::Engine;
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::fork::{ForkFolder, Forks};
use crate::engine::store::sandboxes::{self, NamedWorkspace};
use crate::engine::store::state::State;
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::limits::{FORK_FILES_COUNTED_MAX, FORKS_MAX};
use crate::text::escaped::{first_names, plural};
use crate::tools::gc::DAY;

/// Name of the check.
const CHECK: &str = "forks";
/// Bytes per mebibyte.
const MIB: u64 = 1 << 20;

/// Returns the findings about the forks of the workspace, and about names of forks that are gone.
pub fn check(engine: &mut Engine, state: Option<&State>, fix: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(state) = state {
        found.extend(
            of_workspace(engine, state, fix).unwrap_or_else(|error| vec![Finding::of(CHECK, &error)]),
        );
    }
    match lost_names(fix) {
        Ok(lost) => found.extend(lost),
        Err(error) => found.push(Finding::of(CHECK, &error)),
    }
    found
}

/// Returns the findings about the forks of the workspace.
fn of_workspace(engine: &mut Engine, state: &State, fix: bool) -> Result<Vec<Finding>, Error> {
    if !Forks::has_forks(state)? {
        return Ok(Vec::new());
    }
    let forks = Forks::lock(&engine.workspace, state)?;
    let mut found = Vec::new();
    let left = forks.leftovers();
    if fix {
        forks.sweep();
    }
    if !left.is_empty() {
        let names: Vec<String> = left.iter().filter_map(|left| left.fork.clone()).collect();
        let names = if names.is_empty() { String::new() } else { format!(": {}", first_names(&names)) };
        let message = format!("killed calls left {} of forks{names}", plural(left.len(), "folder"));
        let remedy = "lbx doctor --fix and lbx gc remove them.";
        found.push(Finding { fixed: fix, ..Finding::notice(CHECK, message, remedy) });
    }
    for (name, error) in forks.unusable(&engine.workspace)? {
        found.push(Finding::problem(
            CHECK,
            format!("the fork {name} cannot be used: {}", error.message()),
            format!(
                "Its changes are in {}/upper. lbx fork drop {name} deletes it with them.",
                state.display(&format!("forks/{name}"))
            ),
        ));
    }
    let all = ForkFolder::list(&engine.workspace, state)?;
    found.extend(of_age_and_size(engine, &all));
    Ok(found)
}

/// Returns the findings about copies that are gone, old forks with changes, and the number and size of all.
fn of_age_and_size(engine: &Engine, all: &[ForkFolder]) -> Vec<Finding> {
    let days = engine.policy().number(Key::KeepDays);
    let before = seconds_now().saturating_sub(days.saturating_mul(DAY));
    let snapshots = engine.policy().branch_reference();
    let (mut found, mut old, mut bytes) = (Vec::new(), Vec::new(), 0);
    for fork in all {
        let name = &fork.record.name;
        bytes += fork.size(FORK_FILES_COUNTED_MAX).1;
        if let Err(error) = fork.refresh(&engine.workspace) {
            found.push(Finding::notice(
                CHECK,
                format!("the fork {name}: {}", error.message()),
                format!("Move it back, or forget the fork: lbx fork drop {name}."),
            ));
        } else if fork.record.created < before && !fork.is_unchanged(&engine.workspace, &snapshots) {
            old.push(name.clone());
        }
    }
    if !old.is_empty() {
        let days = plural(days, "day");
        found.push(Finding::notice(
            CHECK,
            format!("older than {days} and not dropped, since they hold changes: {}", first_names(&old)),
            "Bring their changes here with lbx merge, or delete them with lbx fork drop.",
        ));
    }
    if all.len() >= FORKS_MAX {
        found.push(Finding::problem(
            CHECK,
            format!("there are {}, and there can be no more", plural(all.len(), "fork")),
            "Merge or drop some: lbx fork list shows them.",
        ));
    } else if !all.is_empty() {
        let size = format!("{} MiB of changes", bytes.div_ceil(MIB));
        found.push(Finding::ok(CHECK, format!("{}, {size}", plural(all.len(), "fork"))));
    }
    found
}

/// Returns a finding about names of forks whose folders are gone, of any workspace. Their names are free again if the
/// workspace itself is there: else it may be on a disk that is not mounted.
fn lost_names(fix: bool) -> Result<Option<Finding>, Error> {
    let is_lost = |(_, sandbox): &(String, NamedWorkspace)| sandbox.is_of_lost_fork();
    let lost: Vec<(String, NamedWorkspace)> = sandboxes::list()?.into_iter().filter(is_lost).collect();
    if lost.is_empty() {
        return Ok(None);
    }
    let names: Vec<String> =
        lost.iter().map(|(name, sandbox)| format!("{name} of {}", sandbox.root)).collect();
    let message = format!("the folders of these forks are gone: {}", first_names(&names));
    let is_there =
        |sandbox: &NamedWorkspace| fs::stat_at(rustix::fs::CWD, Path::new(&sandbox.root).as_os_str()).is_ok();
    let is_fixed = fix && lost.iter().all(|(_, sandbox)| is_there(sandbox));
    if fix {
        for (name, _) in lost.iter().filter(|(_, sandbox)| is_there(sandbox)) {
            sandboxes::remove(name)?;
        }
    }
    let remedy =
        "lbx sandbox remove frees a name; lbx doctor --fix does it where the workspace is still there.";
    Ok(Some(Finding { fixed: is_fixed, ..Finding::notice(CHECK, message, remedy) }))
}
