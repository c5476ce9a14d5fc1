//! Owners and extended attributes that a command changed: no undo takes them back, so the answer names them.

use crate::engine::Engine;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::survey::Touched;
use crate::engine::workspace::{Workspace, fs, identity};

/// Paths that a warning names.
const NAMED: usize = 5;

/// What a command that changes the files themselves did to owners and attributes.
#[derive(Debug, Default)]
pub struct AttributeChanges {
    /// Those that have another owner or group now.
    owners: Vec<WorkspacePath>,
    /// Those that may have other attributes.
    attributes: Vec<WorkspacePath>,
}

impl AttributeChanges {
    /// Looks at what two surveys tell apart.
    ///
    /// No survey reads attributes, which would cost as much again as everything else. Where nothing but the
    /// time of the last change differs, attributes that stand there now may be new.
    pub fn of(workspace: &Workspace, touched: &[Touched]) -> Self {
        let mut found = Self::default();
        for Touched { path, before, after } in touched {
            let (Some(before), Some(after)) = (before, after) else { continue };
            if before.kind() != after.kind() {
                continue;
            }
            if before.owner() != after.owner() {
                found.owners.push(path.clone());
            } else if before.looks_like(after)
                && before.mode() == after.mode()
                && has_attributes(workspace, path)
            {
                found.attributes.push(path.clone());
            }
        }
        found
    }

    /// Names them in the answer.
    pub fn tell(&self, engine: &mut Engine) {
        for (what, paths) in [
            ("owner or group changed", &self.owners),
            ("extended attributes may have changed", &self.attributes),
        ] {
            if let Some(names) = named(&engine.workspace, paths) {
                engine.warn(format!("{what}, which undo does not take back: {names}"));
            }
        }
    }
}

/// Whether a file or folder has extended attributes, access control lists among them.
fn has_attributes(workspace: &Workspace, path: &WorkspacePath) -> bool {
    let flags = fs::READ;
    fs::open_beneath(workspace.root_fd(), path, flags).is_ok_and(|file| !identity::own(&file).is_empty())
}

/// The first few of these paths; `None` where there are none.
pub fn named(workspace: &Workspace, paths: &[WorkspacePath]) -> Option<String> {
    let names: Vec<String> = paths.iter().take(NAMED).map(|path| workspace.shown(path)).collect();
    let more = paths.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
}
