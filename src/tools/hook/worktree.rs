//! Worktrees of a client: each is a fork, as a copy with a path of its own.
//!
//! The folder of a fork is next to that of the workspace, as `app.fix-login` next to `app`: on its file system, so that the
//! files share their blocks, and at its depth, so that `../library` in a build file leads to where it did. lbx's folder of
//! the user need not have the first and cannot have the second, and the commands of `bash` do not see it.

use std::path::{Path, PathBuf};

use super::client::Moment;
use super::event::Event;
use crate::engine::Engine;
use crate::engine::sandbox::fork::{ForkFolder, Forks, parent_of};
use crate::engine::store::sandboxes;
use crate::engine::store::state::State;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::limits::FORKS_MAX;
use crate::text::plural::plural;
use crate::tools::fork::{self, Request};
use crate::tools::fork_changes::ForkChanges;

/// Serves an event about a worktree; returns the path of a new one.
///
/// # Errors
/// Fails if no fork can be made, or one is kept since it holds work.
pub fn serve(engine: &mut Engine, event: &Event) -> Result<Option<String>, Error> {
    if event.moment == Some(Moment::WorktreeCreate) {
        return create(engine, event).map(Some);
    }
    remove(engine, event)?;
    Ok(None)
}

/// Creates a fork, and returns its path. A name that is in use gets a number: `fix`, `fix-2`, `fix-3`.
fn create(engine: &mut Engine, event: &Event) -> Result<String, Error> {
    let wanted = sandboxes::slug(event.worktree_name().as_deref().unwrap_or("worktree"))?;
    let root = engine.workspace.root().to_owned();
    let no_place = || Error::invalid(format!("there is no folder next to {} for a fork", root.display()));
    let (parent, base) = root.parent().zip(root.file_name()).ok_or_else(no_place)?;
    let mut refused = None;
    for number in 1..=FORKS_MAX {
        let name = if number == 1 { wanted.clone() } else { format!("{wanted}-{number}") };
        let mut folder = base.to_owned();
        folder.push(format!(".{name}"));
        let at = parent.join(folder);
        if fs::stat_at(rustix::fs::CWD, at.as_os_str()).is_ok() {
            continue;
        }
        let text = at.to_str().ok_or_else(|| Error::invalid("the path of a fork must be UTF-8"))?;
        let why = format!("worktree {wanted} of the session {}", engine.session());
        match fork::create(engine, &Request::copy_at(text, why), name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => refused = Some(error),
            made => return made.map(|_| text.to_owned()),
        }
    }
    Err(refused.unwrap_or_else(no_place))
}

/// Drops the fork in a folder, unless it holds work that is nowhere else.
fn remove(engine: &mut Engine, event: &Event) -> Result<(), Error> {
    let missing = || Error::invalid("the event names no worktree").detail("field", "event");
    let path = event.worktree_path().ok_or_else(missing)?;
    let unknown = || {
        let message = format!("{} is no fork of this workspace", path.display());
        Error::new(ErrorKind::SandboxNotFound, message).suggest("`lbx fork list` shows the forks.")
    };
    let real = real_path(&path);
    // The client may run its hook in the worktree itself.
    if let Some(root) = parent_of(&real).filter(|root| root != engine.workspace.root()) {
        engine.workspace = Workspace::open(&root)?;
    }
    let state = State::find(&engine.workspace)?.ok_or_else(unknown)?;
    let forks = Forks::lock(&engine.workspace, &state)?.ignoring_callers();
    let is_there = |fork: &ForkFolder| fork.record.at.as_ref().is_some_and(|at| Path::new(at) == real);
    let all = ForkFolder::list(&engine.workspace, &state)?;
    let fork = all.iter().find(|fork| is_there(fork)).ok_or_else(unknown)?;
    let name = &fork.record.name;
    let mut work = Vec::new();
    if fs::stat_at(rustix::fs::CWD, real.as_os_str()).is_ok() {
        let changes = ForkChanges::read(engine, (&state, &forks), fork)?;
        if !changes.is_empty() {
            work.push(format!("changes of {} that no merge brought", plural(changes.deltas.len(), "file")));
        }
        let commits = fork.commits(&engine.workspace, &engine.policy().branch_reference());
        if !commits.is_empty() {
            work.push(format!("commits of its own at {}", commits.join(", ")));
        }
        let inner = fork.inner_forks();
        if !inner.is_empty() {
            work.push(format!("forks of its own: {}", inner.join(", ")));
        }
    }
    if work.is_empty() {
        forks.drop(name)?;
        engine.note_changed([], Some(&fork.record.lower));
        return Ok(());
    }
    Err(Error::invalid(format!("the fork {name} was kept in {}: it has {}", real.display(), work.join(", and")))
        .suggest(format!(
            "`lbx merge {name}` brings its changes into the workspace; `lbx fork drop {name}` deletes it with them."
        )))
}

/// Returns a path without symlinks; as it is, if nothing is there.
#[expect(clippy::disallowed_methods, reason = "only compares names: a folder that the client names")]
fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
